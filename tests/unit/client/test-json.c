/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON writer, the tables and the units of shmemctl. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libclient/ctl/ctl.h"
#include "libclient/ctl/json.h"
#include "libclient/ctl/table.h"
#include "tests/lib/test.h"

static char *text;
static size_t text_bytes;

static FILE *open_text(void)
{
	FILE *out = open_memstream(&text, &text_bytes);

	ASSERT(out);
	return out;
}

static void assert_written(FILE *out, const char *expected)
{
	fclose(out);
	ASSERT_STREQ(text, expected);
	free(text);
}

TEST(objects_and_arrays_nest_with_commas)
{
	struct json json;
	FILE *out = open_text();

	json_init(&json, out);
	json_begin_object(&json, NULL);
	json_uint(&json, "a", 18446744073709551615ull);
	json_begin_array(&json, "b");
	json_begin_object(&json, NULL);
	json_end_object(&json);
	json_begin_object(&json, NULL);
	json_string(&json, "c", "d");
	json_hex(&json, "e", 0x7f0000001000);
	json_end_object(&json);
	json_string(&json, NULL, "f");
	json_end_array(&json);
	json_begin_array(&json, "g");
	json_end_array(&json);
	json_end_object(&json);
	json_end(&json);
	assert_written(out, "{\"a\":18446744073709551615,\"b\":[{},{\"c\":\"d\",\"e\":\"0x7f0000001000\"},\"f\"],"
			    "\"g\":[]}\n");
}

static void assert_string(const char *value, const char *expected)
{
	struct json json;
	FILE *out = open_text();

	json_init(&json, out);
	json_string(&json, NULL, value);
	assert_written(out, expected);
}

/* A terminal must not act on them, and programs lose nothing. */
TEST(hidden_characters_are_escaped)
{
	assert_string("a\xe2\x80\xae" "b", "\"a\\u202eb\"");
	assert_string("\xe2\x80\xa8\xe2\x80\x8b", "\"\\u2028\\u200b\"");
	assert_string("\xc2\x9b", "\"\\u009b\"");
	assert_string("\xf3\xa0\x81\x81", "\"\\udb40\\udc41\"");
	assert_string("\xc3\xa9", "\"\xc3\xa9\"");
}

/* Messages quote arguments and files. */
TEST(messages_show_no_hidden_characters)
{
	int saved = dup(STDERR_FILENO), fd = memfd_create("stderr", MFD_CLOEXEC);
	char shown[128] = "";

	ASSERT_GE(fd, 0);
	fflush(stderr);
	dup2(fd, STDERR_FILENO);
	ctl_fail("\"%s\"", "a\xe2\x80\xae" "b\xe2\x80\xa8" "c\xe2\x80\x8b" "d\xc2\x9b\x1b\xff\xc3\xa9");
	fflush(stderr);
	dup2(saved, STDERR_FILENO);
	close(saved);
	ASSERT_GT(pread(fd, shown, sizeof(shown) - 1, 0), 0);
	close(fd);
	ASSERT_STREQ(shown, "shmemctl: \"a?b?c?d???\xc3\xa9\"\n");
}

TEST(strings_are_escaped)
{
	assert_string("", "\"\"");
	assert_string("a\"b\\c", "\"a\\\"b\\\\c\"");
	assert_string("\n\t\x01\x1f\x7f", "\"\\n\\t\\u0001\\u001f\\u007f\"");
	assert_string("</script>", "\"</script>\"");
}

TEST(utf8_stays_and_other_bytes_are_replaced)
{
	assert_string("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "\"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\"");
	assert_string("\xff", "\"\\ufffd\"");
	assert_string("\xc3", "\"\\ufffd\"");
	assert_string("\xc0\xaf", "\"\\ufffd\\ufffd\"");
	assert_string("\xe0\x80\x80", "\"\\ufffd\\ufffd\\ufffd\"");
	assert_string("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"");
	assert_string("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
	assert_string("\xe2\x82z", "\"\\ufffd\\ufffdz\"");
}

TEST(tables_are_aligned_and_lines_end_without_blanks)
{
	static const char *const heads[] = {"NAME", ">N", "LAST", NULL};
	struct table table;
	FILE *out = open_text();

	table_init(&table, heads, false, TABLE_WIDTH);
	table_add(&table, "a");
	table_add(&table, "%d", 1000);
	table_add(&table, "x");
	table_add(&table, "longer");
	table_add(&table, "%d", 7);
	table_add(&table, "yy");
	table_print(&table, "nothing", out);
	table_deinit(&table);
	assert_written(out, "NAME       N  LAST\n"
			    "a       1000  x\n"
			    "longer     7  yy\n");
}

/* Rows of 21 columns and four gaps of two, where nothing is left out. */
static void assert_width(unsigned int max_width, const char *expected)
{
	static const char *const heads[] = {"NAME", ">1ONE", ">2TWO", "3THREE", "~LIST", NULL};
	struct table table;
	FILE *out = open_text();

	table_init(&table, heads, false, max_width);
	table_add(&table, "first");
	table_add(&table, "%d", 12);
	table_add(&table, "%d", 345);
	table_add(&table, "x");
	table_add(&table, "y");
	table_print(&table, "", out);
	table_deinit(&table);
	assert_written(out, expected);
}

TEST(a_table_that_is_too_wide_loses_columns_and_says_which)
{
	assert_width(0, "NAME   ONE  TWO  THREE  LIST\nfirst   12  345  x      y\n");
	assert_width(28, "NAME   ONE  TWO  THREE  LIST\nfirst   12  345  x      y\n");
	assert_width(27, "NAME   TWO  THREE  LIST\nfirst  345  x      y\nleft out: ONE (--wide shows all columns)\n");
	assert_width(22, "NAME   THREE  LIST\nfirst  x      y\nleft out: ONE, TWO (--wide shows all columns)\n");
	/* Columns that always stay are shown, however narrow the table should be. */
	assert_width(5, "NAME   LIST\nfirst  y\nleft out: ONE, TWO, THREE (--wide shows all columns)\n");
}

static void assert_texts(const char *const *heads, unsigned int max_width, const char *first, const char *last, const char *expected)
{
	struct table table;
	FILE *out = open_text();

	table_init(&table, heads, false, max_width);
	table_add(&table, "%s", first);
	table_add(&table, "%s", last);
	table_print(&table, "", out);
	table_deinit(&table);
	assert_written(out, expected);
}

TEST(a_sentence_that_is_too_long_goes_on_below_its_beginning)
{
	static const char *const heads[] = {"NIC", "~WHY", NULL};
	static const char long_word[] = "a_word_that_is_longer_than_a_line_and_is_never_broken_into_two";

	assert_texts(heads, 50, "nic0", "it seems to manage the switches of GPU links: nics-include overrules this",
		     "NIC   WHY\nnic0  it seems to manage the switches of GPU\n      links: nics-include overrules this\n");
	assert_texts(heads, 50, "nic0", long_word,
		     "NIC   WHY\nnic0  a_word_that_is_longer_than_a_line_and_is_never_broken_into_two\n");
	assert_texts(heads, 0, "nic0", "it seems to manage the switches of GPU links: nics-include overrules this",
		     "NIC   WHY\nnic0  it seems to manage the switches of GPU links: nics-include overrules this\n");
}

TEST(a_list_before_other_columns_is_cut_if_nothing_else_helps)
{
	static const char *const heads[] = {"~NICS", "STATE", NULL};

	assert_texts(heads, 30, "mlx5_0,mlx5_1,mlx5_2,mlx5_3", "active", "NICS                    STATE\nmlx5_0,mlx5_1,mlx5_...  active\n");
	/* Characters stay whole. */
	assert_texts(heads, 30, "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", "down",
		     "NICS                     STATE\n\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4...  down\n");
}

TEST(an_empty_table_is_a_sentence)
{
	static const char *const heads[] = {"NAME", NULL};
	struct table table;
	FILE *out = open_text();

	table_init(&table, heads, false, TABLE_WIDTH);
	table_print(&table, "no sessions", out);
	table_deinit(&table);
	assert_written(out, "no sessions\n");
}

TEST(numbers_get_units)
{
	char buf[UNITS_BYTES];

	ASSERT_STREQ(units_bytes(0, buf), "0 B");
	ASSERT_STREQ(units_bytes(1023, buf), "1023 B");
	ASSERT_STREQ(units_bytes(1024, buf), "1.0 KiB");
	ASSERT_STREQ(units_bytes(1536 * 1024, buf), "1.5 MiB");
	ASSERT_STREQ(units_bytes(1024 * 1024 - 1, buf), "1.0 MiB");
	ASSERT_STREQ(units_bytes(UINT64_MAX, buf), "16.0 EiB");
	ASSERT_STREQ(units_nsec(999, buf), "999 ns");
	ASSERT_STREQ(units_nsec(1500, buf), "1.5 us");
	ASSERT_STREQ(units_nsec(2500000, buf), "2.5 ms");
	ASSERT_STREQ(units_nsec(3200000000, buf), "3.2 s");
	ASSERT_STREQ(units_nsec(80000000000, buf), "1 min 20 s");
	ASSERT_STREQ(units_nsec(7260000000000, buf), "2 h 1 min");
	ASSERT_STREQ(units_nsec(180000000000000, buf), "2 d 2 h");
	ASSERT_STREQ(units_mbps(0, buf), "-");
	ASSERT_STREQ(units_mbps(100, buf), "100 Mb/s");
	ASSERT_STREQ(units_mbps(100000, buf), "100 Gb/s");
	ASSERT_STREQ(units_mbps(2500, buf), "2.5 Gb/s");
}

TEST(unknown_numbers_have_a_word)
{
	ASSERT_STREQ(ctl_qp_state(SHMD_QP_RTS), "RTS");
	ASSERT_STREQ(ctl_qp_state(99), "unknown");
	ASSERT_STREQ(ctl_nic_state(99), "unknown");
	ASSERT_STREQ(ctl_mem_kind(99), "unknown");
	ASSERT_STREQ(ctl_event_kind(99), "unknown");
	ASSERT_STREQ(ctl_event_kind(SHMD_EVENT_REFUSED), "refused");
	ASSERT_STREQ(ctl_event_kind(SHMD_EVENT_DAEMON_RESUMED), "resumed");
}
