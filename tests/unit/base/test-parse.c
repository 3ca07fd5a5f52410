/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "proto/base/nsec.h"
#include "proto/base/parse.h"
#include "tests/lib/test.h"

#define UNTOUCHED UINT64_C(0x5a5a5a5a5a5a5a5a)

typedef int parse_fn(const char *text, uint64_t *ret_value);

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
	check_value(parse_u64, "0", 0);
	check_value(parse_u64, "007", 7);
	check_value(parse_u64, "64", 64);
	check_value(parse_u64, "0x40", 64);
	check_value(parse_u64, "0xFFffFFffFFffFFff", UINT64_MAX);
	check_value(parse_u64, "18446744073709551615", UINT64_MAX);
}

TEST(what_is_not_a_number_is_refused)
{
	static const char *const bad[] = {"", " 1", "1 ", "+1", "-1", "1.5", "1e3", "x", "0x", "0X10",
					  "ff", "1,000", "0x1g", "12a", "1\n"};

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check_refused(parse_u64, bad[i], -EINVAL);
	check_refused(parse_u64, "18446744073709551616", -ERANGE);
	check_refused(parse_u64, "99999999999999999999999", -ERANGE);
	check_refused(parse_u64, "0x10000000000000000", -ERANGE);
}

TEST(ranges_include_their_ends)
{
	uint64_t value = UNTOUCHED;

	ASSERT_OK(parse_u64_range("4", 4, 8, &value));
	ASSERT_OK(parse_u64_range("8", 4, 8, &value));
	ASSERT_EQ(value, 8);
	ASSERT_ERR(parse_u64_range("3", 4, 8, &value), ERANGE);
	ASSERT_ERR(parse_u64_range("9", 4, 8, &value), ERANGE);
	ASSERT_ERR(parse_u64_range("x", 4, 8, &value), EINVAL);
	ASSERT_EQ(value, 8);
}

TEST(sizes_are_powers_of_1024)
{
	check_value(parse_bytes, "64", 64);
	check_value(parse_bytes, "64B", 64);
	check_value(parse_bytes, "4K", 4096);
	check_value(parse_bytes, "4KiB", 4096);
	check_value(parse_bytes, "3M", 3u << 20);
	check_value(parse_bytes, "3MiB", 3u << 20);
	check_value(parse_bytes, "2G", UINT64_C(2) << 30);
	check_value(parse_bytes, "2GiB", UINT64_C(2) << 30);
	check_value(parse_bytes, "1T", UINT64_C(1) << 40);
	check_value(parse_bytes, "16777215TiB", UINT64_C(16777215) << 40);
}

TEST(sizes_that_could_mean_two_things_are_refused)
{
	static const char *const bad[] = {"4k", "4KB", "4 K", "K", "", "4Ki", "4kib", "0x4K", "1.5G"};

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check_refused(parse_bytes, bad[i], -EINVAL);
	check_refused(parse_bytes, "16777216TiB", -ERANGE);
}

TEST(durations_have_a_unit)
{
	check_value(parse_nsec, "0", 0);
	check_value(parse_nsec, "20ns", 20);
	check_value(parse_nsec, "20us", 20000);
	check_value(parse_nsec, "100ms", 100000000);
	check_value(parse_nsec, "5s", 5 * NSEC_PER_SEC);
	check_value(parse_nsec, "2min", 120 * NSEC_PER_SEC);
	check_value(parse_nsec, "1h", 3600 * NSEC_PER_SEC);
	check_refused(parse_nsec, "5", -EINVAL);
	check_refused(parse_nsec, "5m", -EINVAL);
	check_refused(parse_nsec, "5S", -EINVAL);
	check_refused(parse_nsec, "s", -EINVAL);
	check_refused(parse_nsec, "", -EINVAL);
	check_refused(parse_nsec, "-5s", -EINVAL);
	check_refused(parse_nsec, "20000000000s", -ERANGE);
}

TEST(booleans)
{
	static const char *const yes[] = {"yes", "true", "on", "1"};
	static const char *const no[] = {"no", "false", "off", "0"};
	static const char *const bad[] = {"", "Yes", "y", "2", "true ", "01"};
	bool value;

	for (unsigned int i = 0; i < 4; i++) {
		value = false;
		ASSERT_OK(parse_bool(yes[i], &value));
		ASSERT_EQ(value, true);
		ASSERT_OK(parse_bool(no[i], &value));
		ASSERT_EQ(value, false);
	}
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ASSERT_ERR(parse_bool(bad[i], &value), EINVAL);
}
