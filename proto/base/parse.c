/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict text to number. Never reads the locale or errno; outputs are written on success only. Any thread.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "proto/base/nsec.h"
#include "proto/base/overflow.h"
#include "proto/base/parse.h"

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit byte_units[] = {
	{"", 1},
	{"B", 1},
	{"K", UINT64_C(1) << 10},
	{"KiB", UINT64_C(1) << 10},
	{"M", UINT64_C(1) << 20},
	{"MiB", UINT64_C(1) << 20},
	{"G", UINT64_C(1) << 30},
	{"GiB", UINT64_C(1) << 30},
	{"T", UINT64_C(1) << 40},
	{"TiB", UINT64_C(1) << 40},
	{NULL, 0},
};

static const struct unit time_units[] = {
	{"ns", 1},	     {"us", NSEC_PER_USEC},	 {"ms", NSEC_PER_MSEC},
	{"s", NSEC_PER_SEC}, {"min", 60 * NSEC_PER_SEC}, {"h", 3600 * NSEC_PER_SEC},
	{NULL, 0},
};

static int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return 255;
}

/* At least one digit; *ret_rest is the first character after them. */
static int parse_digits(const char *text, unsigned int base, uint64_t *ret_value,
			const char **ret_rest)
{
	const char *p = text;
	uint64_t value = 0;

	for (; digit_value(*p) < (int)base; p++)
		if (mul_overflows(value, (uint64_t)base, &value) ||
		    add_overflows(value, (uint64_t)digit_value(*p), &value))
			return -ERANGE;
	if (p == text)
		return -EINVAL;
	*ret_value = value;
	*ret_rest = p;
	return 0;
}

int parse_u64(const char *text, uint64_t *ret_value)
{
	bool hex = text[0] == '0' && text[1] == 'x';
	const char *rest;
	uint64_t value;
	int r;

	r = parse_digits(hex ? text + 2 : text, hex ? 16 : 10, &value, &rest);
	if (r < 0)
		return r;
	if (*rest)
		return -EINVAL;
	*ret_value = value;
	return 0;
}

int parse_u64_range(const char *text, uint64_t min, uint64_t max, uint64_t *ret_value)
{
	uint64_t value;
	int r = parse_u64(text, &value);

	if (r < 0)
		return r;
	if (value < min || value > max)
		return -ERANGE;
	*ret_value = value;
	return 0;
}

static int parse_with_unit(const char *text, const struct unit *units, uint64_t *ret_value)
{
	const char *rest;
	uint64_t value;
	int r = parse_digits(text, 10, &value, &rest);

	if (r < 0)
		return r;
	for (; units->name; units++) {
		if (strcmp(rest, units->name))
			continue;
		if (mul_overflows(value, units->factor, &value))
			return -ERANGE;
		*ret_value = value;
		return 0;
	}
	return -EINVAL;
}

int parse_bytes(const char *text, uint64_t *ret_bytes)
{
	return parse_with_unit(text, byte_units, ret_bytes);
}

int parse_nsec(const char *text, uint64_t *ret_nsec)
{
	if (!strcmp(text, "0")) {
		*ret_nsec = 0;
		return 0;
	}
	return parse_with_unit(text, time_units, ret_nsec);
}

int parse_bool(const char *text, bool *ret_value)
{
	static const char *const words[][2] = {
		{"no", "yes"}, {"false", "true"}, {"off", "on"}, {"0", "1"}};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		for (int value = 0; value < 2; value++) {
			if (!strcmp(text, words[i][value])) {
				*ret_value = value;
				return 0;
			}
		}
	}
	return -EINVAL;
}
