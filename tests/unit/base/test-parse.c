/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "proto/base/parse.h"
#include "tests/lib/test.h"

#define UNTOUCHED UINT64_C(0x5a5a5a5a5a5a5a5a)

typedef int parse_fn(const char *text, uint64_t *ret_value);

static int parse_decimal(const char *text, uint64_t *ret_value)
{
	return parse_u64(text, 10, ret_value);
}

static int parse_octal(const char *text, uint64_t *ret_value)
{
	return parse_u64(text, 8, ret_value);
}

static void check_value(parse_fn *parse, const char *text, uint64_t expected)
{
	uint64_t value = UNTOUCHED;

	ASSERT_OK(parse(text, &value));
	ASSERT_EQ(value, expected);
}

static void check_refused(parse_fn *parse, const char *text, int error)
{
	uint64_t value = UNTOUCHED;

	ASSERT_EQ(parse(text, &value), error);
	ASSERT_EQ(value, UNTOUCHED);
}

TEST(numbers)
{
	check_value(parse_decimal, "0", 0);
	check_value(parse_decimal, "007", 7);
	check_value(parse_decimal, "64", 64);
	check_value(parse_decimal, "18446744073709551615", UINT64_MAX);
	check_value(parse_octal, "0660", 0660);
	check_value(parse_octal, "1777777777777777777777", UINT64_MAX);
}

TEST(text_that_is_not_a_number_is_refused)
{
	static const char *const bad[] = {"", " 1", "1 ", "+1", "-1", "1.5", "1e3", "x", "0x", "0x10",
					  "ff", "1,000", "12a", "1\n", "1:", "1/"};

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		check_refused(parse_decimal, bad[i], -EINVAL);
		check_refused(parse_octal, bad[i], -EINVAL);
	}
	check_refused(parse_octal, "8", -EINVAL);
	check_refused(parse_octal, "17a", -EINVAL);
	check_refused(parse_decimal, "18446744073709551616", -ERANGE);
	check_refused(parse_decimal, "99999999999999999999999", -ERANGE);
	check_refused(parse_octal, "2000000000000000000000", -ERANGE);
}

TEST(blanks_at_both_ends_go)
{
	static const char *const texts[][2] = {{"a b", "a b"}, {" \ta b\n ", "a b"}, {"", ""}, {" \t ", ""}};

	for (unsigned int i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		char text[16];

		snprintf(text, sizeof(text), "%s", texts[i][0]);
		ASSERT_STREQ(parse_strip(text), texts[i][1]);
	}
}

TEST(sizes_are_powers_of_1024)
{
	check_value(parse_bytes, "64", 64);
	check_value(parse_bytes, "64B", 64);
	check_value(parse_bytes, "4K", 4096);
	check_value(parse_bytes, "4k", 4096);
	check_value(parse_bytes, "4KiB", 4096);
	check_value(parse_bytes, "3M", 3u << 20);
	check_value(parse_bytes, "3MiB", 3u << 20);
	check_value(parse_bytes, "2G", UINT64_C(2) << 30);
	check_value(parse_bytes, "2GiB", UINT64_C(2) << 30);
	check_value(parse_bytes, "2g", UINT64_C(2) << 30);
	check_value(parse_bytes, "1T", UINT64_C(1) << 40);
	check_value(parse_bytes, "16777215TiB", UINT64_C(16777215) << 40);
}

TEST(sizes_that_could_mean_two_things_are_refused)
{
	static const char *const bad[] = {"4kB", "4KB", "4 K", "K", "", "4Ki", "4kib", "0x4K", "1.5G"};

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check_refused(parse_bytes, bad[i], -EINVAL);
	check_refused(parse_bytes, "16777216TiB", -ERANGE);
}
