/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One value of a row: from text, to text, and in words what is allowed. Strict: the whole text is used. Words may be in capitals.
 * Pure; any thread.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "libclient/runtime/settings/settings.h"
#include "proto/base/nsec.h"
#include "proto/base/overflow.h"
#include "proto/base/parse.h"

#define FRACTION_DIGITS 6u /* 10^6 times the largest unit fits in 64 bits */
#define MAX_WORD 32

struct unit {
	const char *name;
	uint64_t factor;
};

/* The first one is the unit of a bare number. Formatting takes the last one that divides the value. */
static const struct unit size_units[] = {
	{"", 1}, {"B", 1}, {"K", UINT64_C(1) << 10}, {"M", UINT64_C(1) << 20}, {"G", UINT64_C(1) << 30}, {"T", UINT64_C(1) << 40},
	{NULL, 0},
};
static const struct unit time_units[] = {
	{"", NSEC_PER_SEC}, {"ns", 1}, {"us", NSEC_PER_USEC}, {"ms", NSEC_PER_MSEC}, {"s", NSEC_PER_SEC}, {"min", 60 * NSEC_PER_SEC},
	{"h", 3600 * NSEC_PER_SEC}, {NULL, 0},
};

static uint64_t *number_of(const struct runtime_row *row, struct runtime_settings *settings)
{
	return (uint64_t *)((char *)settings + row->place);
}

static uint64_t number_in(const struct runtime_row *row, const struct runtime_settings *settings)
{
	return *(const uint64_t *)((const char *)settings + row->place);
}

/* ---- numbers with units -------------------------------------------------------------------------------------------- */

/* K, KB and KiB are the same. */
static bool is_unit(const struct unit *unit, const char *text)
{
	size_t n = strlen(unit->name);

	if (strncasecmp(text, unit->name, n))
		return false;
	return !text[n] || (n == 1 && strchr("KMGT", *unit->name) && (!strcasecmp(text + n, "iB") || !strcasecmp(text + n, "B")));
}

static int parse_unit(const struct unit *units, const char *text, uint64_t *ret_factor)
{
	for (; units->name; units++) {
		if (!is_unit(units, text))
			continue;
		*ret_factor = units->factor;
		return 0;
	}
	return -EINVAL;
}

/* Digits behind the point, as millionths. Without a point: 0. */
static int parse_fraction(const char **text, uint64_t *ret_millionths)
{
	uint64_t value = 0, scale = 1000000;

	*ret_millionths = 0;
	if (**text != '.')
		return 0;
	for ((*text)++; **text >= '0' && **text <= '9'; (*text)++) {
		scale /= 10;
		if (!scale)
			return -EINVAL;
		value = value * 10 + (uint64_t)(**text - '0');
	}
	*ret_millionths = value * scale;
	return scale == 1000000 ? -EINVAL : 0;
}

/* "1.5G", rounded up. */
static int parse_scaled(const struct unit *units, const char *text, uint64_t *ret_value)
{
	uint64_t whole = 0, millionths, factor;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	for (; *text >= '0' && *text <= '9'; text++)
		if (mul_overflows(whole, (uint64_t)10, &whole) || add_overflows(whole, (uint64_t)(*text - '0'), &whole))
			return -EINVAL;
	if (parse_fraction(&text, &millionths) < 0 || parse_unit(units, text, &factor) < 0)
		return -EINVAL;
	if (mul_overflows(whole, factor, &whole) || add_overflows(whole, (millionths * factor + 999999) / 1000000, &whole))
		return -EINVAL;
	*ret_value = whole;
	return 0;
}

/* 0 has no unit, and neither do bytes. */
static void format_scaled(const struct unit *units, uint64_t value, char *buf, size_t size)
{
	const struct unit *best = &units[1];

	for (const struct unit *unit = units + 1; unit->name; unit++)
		if (value % unit->factor == 0)
			best = unit;
	snprintf(buf, size, "%" PRIu64 "%s", value / best->factor, value && best != &size_units[1] ? best->name : "");
}

/* ---- words --------------------------------------------------------------------------------------------------------- */

static int find_word(const char *const *words, const char *text, size_t n)
{
	for (int i = 0; words[i]; i++)
		if (strlen(words[i]) == n && !strncasecmp(words[i], text, n))
			return i;
	return -1;
}

static int parse_enum(const struct runtime_row *row, struct runtime_settings *settings, const char *text)
{
	size_t n = strcspn(text, ":");
	const char *tail = text[n] ? text + n + 1 : "";
	int word = find_word(row->words, text, n + (text[n] == ':'));

	if (word < 0 || (text[n] && (!*tail || strlen(tail) >= RUNTIME_TEXT_BYTES)))
		return -EINVAL;
	*number_of(row, settings) = (uint64_t)word;
	if (row->tail_place)
		snprintf((char *)settings + row->tail_place, RUNTIME_TEXT_BYTES, "%s", tail);
	return 0;
}

static uint64_t all_flags(const struct runtime_row *row)
{
	uint64_t all = 0;

	for (unsigned int i = 0; row->words[i]; i++)
		all |= UINT64_C(1) << i;
	return all;
}

static int parse_flags(const struct runtime_row *row, struct runtime_settings *settings, const char *text)
{
	uint64_t flags = 0;

	if (!strcasecmp(text, "all"))
		flags = all_flags(row);
	else if (strcasecmp(text, "none"))
		for (;; text++) {
			size_t n = strcspn(text, ",");
			int word = find_word(row->words, text, n);

			if (word < 0)
				return -EINVAL;
			flags |= UINT64_C(1) << word;
			text += n;
			if (!*text)
				break;
		}
	if (!flags && row->min)
		return -EINVAL;
	*number_of(row, settings) = flags;
	return 0;
}

static int parse_bool(const struct runtime_row *row, struct runtime_settings *settings, const char *text)
{
	static const char *const words[] = {"off", "on", "no", "yes", "false", "true", "0", "1", NULL};
	int word = find_word(words, text, strlen(text));

	if (word < 0)
		return -EINVAL;
	*(bool *)((char *)settings + row->place) = word % 2;
	return 0;
}

/* ---- levels -------------------------------------------------------------------------------------------------------- */

/* "info" sets all, "heap=debug" one. */
static int parse_level(uint8_t levels[RUNTIME_N_SUBSYSTEMS], const char *text, size_t n)
{
	const char *sign = memchr(text, '=', n);
	size_t n_name = sign ? (size_t)(sign - text) : 0, skip = sign ? n_name + 1 : 0;
	int level = find_word(runtime_level_names, text + skip, n - skip);
	int subsystem = sign ? find_word(runtime_subsystem_names, text, n_name) : 0;

	if (level < 0 || subsystem < 0)
		return -EINVAL;
	for (int i = 0; i < RUNTIME_N_SUBSYSTEMS; i++)
		if (!sign || i == subsystem)
			levels[i] = (uint8_t)level;
	return 0;
}

/* Parts without a level of their own have that of the default. Later words win. */
static int parse_levels(const struct runtime_row *row, struct runtime_settings *settings, const char *text)
{
	uint8_t levels[RUNTIME_N_SUBSYSTEMS];

	if (parse_level(levels, row->def, strlen(row->def)) < 0)
		return -EINVAL;
	for (;; text++) {
		size_t n = strcspn(text, ",");

		if (parse_level(levels, text, n) < 0)
			return -EINVAL;
		text += n;
		if (!*text)
			break;
	}
	memcpy((char *)settings + row->place, levels, sizeof(levels));
	return 0;
}

/* The level that most parts have, then the others. */
static uint8_t most_common(const uint8_t levels[RUNTIME_N_SUBSYSTEMS])
{
	unsigned int counts[RUNTIME_LOG_TRACE + 1] = {0};
	uint8_t best = 0;

	for (unsigned int i = 0; i < RUNTIME_N_SUBSYSTEMS; i++)
		counts[levels[i]]++;
	for (uint8_t level = 0; level <= RUNTIME_LOG_TRACE; level++)
		if (counts[level] > counts[best])
			best = level;
	return best;
}

static void append(char *buf, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void append(char *buf, size_t size, const char *fmt, ...)
{
	size_t used = strlen(buf);
	va_list args;

	va_start(args, fmt);
	vsnprintf(buf + used, size - used, fmt, args);
	va_end(args);
}

static void format_levels(const struct runtime_row *row, const struct runtime_settings *settings, char *buf, size_t size)
{
	const uint8_t *levels = (const uint8_t *)settings + row->place;
	uint8_t common = most_common(levels);

	snprintf(buf, size, "%s", runtime_level_names[common]);
	for (unsigned int i = 0; i < RUNTIME_N_SUBSYSTEMS; i++)
		if (levels[i] != common)
			append(buf, size, ",%s=%s", runtime_subsystem_names[i], runtime_level_names[levels[i]]);
}

/* ---- any type ------------------------------------------------------------------------------------------------------ */

static int parse_number(const struct runtime_row *row, struct runtime_settings *settings, const char *text)
{
	uint64_t value = 0;
	int r;

	if (row->type == RUNTIME_TYPE_SIZE)
		r = parse_scaled(size_units, text, &value);
	else if (row->type == RUNTIME_TYPE_TIME)
		r = parse_scaled(time_units, text, &value);
	else
		r = parse_u64(text, 10, &value);
	if (r < 0 || value < row->min || value > row->max)
		return -EINVAL;
	if (row->type == RUNTIME_TYPE_POWER && (value & (value - 1)))
		return -EINVAL;
	*number_of(row, settings) = value;
	return 0;
}

static int parse_text(const struct runtime_row *row, struct runtime_settings *settings, const char *text)
{
	size_t n = strlen(text);

	if (n > row->max)
		return -EINVAL;
	memcpy((char *)settings + row->place, text, n + 1);
	return 0;
}

int runtime_value_parse(const struct runtime_row *row, struct runtime_settings *settings, const char *text)
{
	switch (row->type) {
	case RUNTIME_TYPE_BOOL:
		return parse_bool(row, settings, text);
	case RUNTIME_TYPE_ENUM:
		return parse_enum(row, settings, text);
	case RUNTIME_TYPE_FLAGS:
		return parse_flags(row, settings, text);
	case RUNTIME_TYPE_LEVELS:
		return parse_levels(row, settings, text);
	case RUNTIME_TYPE_TEXT:
		return parse_text(row, settings, text);
	default:
		return parse_number(row, settings, text);
	}
}

static void format_flags(const struct runtime_row *row, uint64_t flags, char *buf, size_t size)
{
	snprintf(buf, size, "%s", flags ? "" : "none");
	for (unsigned int i = 0; row->words[i]; i++)
		if (flags >> i & 1)
			append(buf, size, "%s%s", *buf ? "," : "", row->words[i]);
}

void runtime_value_format(const struct runtime_row *row, const struct runtime_settings *settings, char *buf, size_t size)
{
	const char *field = (const char *)settings + row->place;

	switch (row->type) {
	case RUNTIME_TYPE_BOOL:
		snprintf(buf, size, "%s", *(const bool *)field ? "on" : "off");
		return;
	case RUNTIME_TYPE_ENUM:
		snprintf(buf, size, "%s%s", row->words[number_in(row, settings)],
			 row->tail_place ? (const char *)settings + row->tail_place : "");
		return;
	case RUNTIME_TYPE_FLAGS:
		format_flags(row, number_in(row, settings), buf, size);
		return;
	case RUNTIME_TYPE_LEVELS:
		format_levels(row, settings, buf, size);
		return;
	case RUNTIME_TYPE_TEXT:
		snprintf(buf, size, "%s", field);
		return;
	case RUNTIME_TYPE_SIZE:
	case RUNTIME_TYPE_TIME:
		format_scaled(row->type == RUNTIME_TYPE_SIZE ? size_units : time_units, number_in(row, settings), buf, size);
		return;
	default:
		snprintf(buf, size, "%" PRIu64, number_in(row, settings));
	}
}

/* ---- what is allowed ----------------------------------------------------------------------------------------------- */

static void list_words(const char *const *words, const char *last, char *buf, size_t size)
{
	for (unsigned int i = 0; words[i]; i++)
		append(buf, size, "%s%s%s", !i ? "" : words[i + 1] ? ", " : last, words[i],
		       words[i][strlen(words[i]) - 1] == ':' ? "PATH" : "");
}

static void allowed_range(const struct runtime_row *row, const struct unit *units, const char *what, char *buf, size_t size)
{
	char min[MAX_WORD], max[MAX_WORD];

	format_scaled(units, row->min, min, sizeof(min));
	format_scaled(units, row->max, max, sizeof(max));
	snprintf(buf, size, "%s from %s to %s, such as %s", what, min, max, row->def);
}

void runtime_value_allowed(const struct runtime_row *row, char *buf, size_t size)
{
	*buf = 0;
	switch (row->type) {
	case RUNTIME_TYPE_SIZE:
		allowed_range(row, size_units, "a size in bytes, or with K, M, G or T,", buf, size);
		return;
	case RUNTIME_TYPE_TIME:
		allowed_range(row, time_units, "a time in s, or with us, ms, min or h,", buf, size);
		return;
	case RUNTIME_TYPE_BOOL:
		snprintf(buf, size, "on or off");
		return;
	case RUNTIME_TYPE_ENUM:
		list_words(row->words, " or ", buf, size);
		return;
	case RUNTIME_TYPE_FLAGS:
		snprintf(buf, size, "a list of ");
		list_words(row->words, " and ", buf, size);
		append(buf, size, row->min ? ", or all" : ", or all or none");
		return;
	case RUNTIME_TYPE_LEVELS:
		list_words(runtime_level_names, " or ", buf, size);
		append(buf, size, "; behind commas, SUBSYSTEM=LEVEL for ");
		list_words(runtime_subsystem_names, " or ", buf, size);
		return;
	case RUNTIME_TYPE_TEXT:
		snprintf(buf, size, "a text of at most %" PRIu64 " bytes", row->max);
		return;
	default:
		snprintf(buf, size, "%s from %" PRIu64 " to %" PRIu64, row->type == RUNTIME_TYPE_POWER ? "a power of two" : "a number", row->min, row->max);
	}
}
