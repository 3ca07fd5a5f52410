/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict text to number. Never reads errno; only parse_strip() reads the locale; outputs are written on success only. Any thread.
 */
#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "proto/base/overflow.h"
#include "proto/base/parse.h"

static const struct {
	const char *name;
	uint64_t factor;
} byte_units[] = {
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
	{"k", UINT64_C(1) << 10},
	{"m", UINT64_C(1) << 20},
	{"g", UINT64_C(1) << 30},
	{"t", UINT64_C(1) << 40},
};

/* At least one digit; *ret_rest is the first character after them. */
static int parse_digits(const char *text, unsigned int base, uint64_t *ret_value,
			const char **ret_rest)
{
	const char *p = text;
	uint64_t value = 0;

	for (; *p >= '0' && *p < (char)('0' + base); p++)
		if (mul_overflows(value, (uint64_t)base, &value) ||
		    add_overflows(value, (uint64_t)(*p - '0'), &value))
			return -ERANGE;
	if (p == text)
		return -EINVAL;
	*ret_value = value;
	*ret_rest = p;
	return 0;
}

int parse_u64(const char *text, unsigned int base, uint64_t *ret_value)
{
	const char *rest;
	uint64_t value;
	int r = parse_digits(text, base, &value, &rest);

	if (r < 0)
		return r;
	if (*rest)
		return -EINVAL;
	*ret_value = value;
	return 0;
}

int parse_bytes(const char *text, uint64_t *ret_bytes)
{
	const char *rest;
	uint64_t value;
	int r = parse_digits(text, 10, &value, &rest);

	if (r < 0)
		return r;
	for (size_t i = 0; i < sizeof(byte_units) / sizeof(byte_units[0]); i++) {
		if (strcmp(rest, byte_units[i].name))
			continue;
		if (mul_overflows(value, byte_units[i].factor, &value))
			return -ERANGE;
		*ret_bytes = value;
		return 0;
	}
	return -EINVAL;
}

char *parse_strip(char *text)
{
	char *end;

	while (isspace((unsigned char)*text))
		text++;
	end = text + strlen(text);
	while (end > text && isspace((unsigned char)end[-1]))
		end--;
	*end = 0;
	return text;
}
