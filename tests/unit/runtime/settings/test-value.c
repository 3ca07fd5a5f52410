/* SPDX-License-Identifier: Apache-2.0 */
/* Values of settings: each type, its range, its units, and back to text. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/runtime/settings/settings.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

static struct runtime_settings settings;

static const struct runtime_row *row_of(const char *name)
{
	for (unsigned int i = 0; i < runtime_n_rows; i++)
		if (!strcmp(runtime_rows[i].name, name))
			return &runtime_rows[i];
	test_fail(TEST_WHERE, "no row %s", name);
}

static int set(const char *name, const char *value)
{
	return runtime_value_parse(row_of(name), &settings, value);
}

static const char *shown(const char *name)
{
	static char buf[RUNTIME_VALUE_BYTES];

	runtime_value_format(row_of(name), &settings, buf, sizeof(buf));
	return buf;
}

static void expect_refused(const char *name, const char *const *values)
{
	struct runtime_settings before = settings;

	for (; *values; values++) {
		if (set(name, *values) == 0)
			test_fail(TEST_WHERE, "%s=%s was taken", name, *values);
		ASSERT_MEMEQ(&settings, &before, sizeof(before));
	}
}

TEST(sizes_take_units_and_fractions)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{"0", 0}, {"1", 1}, {"17B", 17}, {"4K", 4096}, {"4k", 4096}, {"4KiB", 4096}, {"4kb", 4096}, {"64M", 64ull << 20},
		{"64MiB", 64ull << 20}, {"1G", 1ull << 30}, {"2T", 2ull << 40}, {"16T", 16ull << 40}, {"1.5G", 3ull << 29}, {"0.5K", 512},
		{"0.000001K", 1}, {"1.1", 2}, {"536870912", 1ull << 29},
	};
	static const char *const bad[] = {"", "G", "-1", "+1", " 1", "1 ", "1X", "1GG", "1.G", ".5G", "1.0000001G", "1,5G", "0x10", "16.1T", "17T",
					  "18446744073709551616", "18446744073709551615T", "1Gib2", "1BiB", "one", NULL};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		ASSERT_OK(set("SHMD_HEAP_SIZE", good[i].text));
		ASSERT_EQ(settings.heap_bytes, good[i].bytes);
	}
	expect_refused("SHMD_HEAP_SIZE", bad);
}

TEST(times_take_units_and_bare_numbers_are_seconds)
{
	static const struct {
		const char *text;
		uint64_t nsec;
	} good[] = {
		{"0", 0}, {"30", 30 * NSEC_PER_SEC}, {"30s", 30 * NSEC_PER_SEC}, {"1.5s", 1500 * NSEC_PER_MSEC}, {"500ms", 500 * NSEC_PER_MSEC},
		{"20us", 20 * NSEC_PER_USEC}, {"7ns", 7}, {"2min", 120 * NSEC_PER_SEC}, {"24h", 86400 * NSEC_PER_SEC}, {"0.25", 250 * NSEC_PER_MSEC},
		{"5MS", 5 * NSEC_PER_MSEC},
	};
	static const char *const bad[] = {"", "s", "-1s", "25h", "1m", "1d", "1 s", "1s1", "for ever", "18446744073709551615h", NULL};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		ASSERT_OK(set("SHMD_TIMEOUT", good[i].text));
		ASSERT_EQ(settings.timeout_nsec, good[i].nsec);
	}
	expect_refused("SHMD_TIMEOUT", bad);
}

TEST(counts_have_a_range)
{
	static const char *const bad[] = {"", "0", "257", "-1", "1.0", "1K", "0x1", "4 ", NULL};

	ASSERT_OK(set("SHMD_DCIS", "1"));
	ASSERT_OK(set("SHMD_DCIS", "256"));
	ASSERT_EQ(settings.dcis, 256);
	expect_refused("SHMD_DCIS", bad);
}

TEST(a_queue_depth_is_a_power_of_two)
{
	static const char *const bad[] = {"0", "8", "17", "1000", "65536", NULL};

	ASSERT_OK(set("SHMD_QUEUE_DEPTH", "1024"));
	ASSERT_EQ(settings.queue_depth, 1024);
	expect_refused("SHMD_QUEUE_DEPTH", bad);
}

TEST(bools_have_four_names_each)
{
	static const char *const on[] = {"on", "yes", "true", "1", "ON", "True"}, *const off[] = {"off", "no", "false", "0", "OFF", "No"};
	static const char *const bad[] = {"", "2", "y", "enabled", "on ", NULL};

	for (unsigned int i = 0; i < 6; i++) {
		ASSERT_OK(set("SHMD_NVTX", on[i]));
		ASSERT_EQ(settings.nvtx, true);
		ASSERT_OK(set("SHMD_NVTX", off[i]));
		ASSERT_EQ(settings.nvtx, false);
	}
	expect_refused("SHMD_NVTX", bad);
}

TEST(a_bootstrap_is_a_word_or_the_path_of_a_plugin)
{
	static const char *const bad[] = {"", "pmi", "plugin", "plugin:", "uid:x", "auto:", ":", NULL};
	char path[RUNTIME_TEXT_BYTES + 16] = "plugin:";

	ASSERT_OK(set("SHMD_BOOTSTRAP", "pmix"));
	ASSERT_EQ(settings.bootstrap, RUNTIME_BOOTSTRAP_PMIX);
	ASSERT_OK(set("SHMD_BOOTSTRAP", "plugin:/opt/boot.so:a,b:c"));
	ASSERT_EQ(settings.bootstrap, RUNTIME_BOOTSTRAP_PLUGIN);
	ASSERT_STREQ(settings.bootstrap_plugin, "/opt/boot.so:a,b:c");
	ASSERT_STREQ(shown("SHMD_BOOTSTRAP"), "plugin:/opt/boot.so:a,b:c");
	expect_refused("SHMD_BOOTSTRAP", bad);
	memset(path + 7, 'x', RUNTIME_TEXT_BYTES - 1);
	ASSERT_OK(set("SHMD_BOOTSTRAP", path));
	memset(path + 7, 'x', RUNTIME_TEXT_BYTES);
	ASSERT_ERR(set("SHMD_BOOTSTRAP", path), EINVAL);
	ASSERT_OK(set("SHMD_BOOTSTRAP", "none"));
	ASSERT_EQ(settings.bootstrap, RUNTIME_BOOTSTRAP_NONE);
	ASSERT_STREQ(settings.bootstrap_plugin, "");
}

TEST(lists_of_flags)
{
	static const char *const bad[] = {"", "none", "self,", ",self", "self, queue", "self queue", "nvlink", "all,self", NULL};
	static const char *const bad_debug[] = {"", "leak", "leaks,none", NULL};

	ASSERT_OK(set("SHMD_PATHS", "queue"));
	ASSERT_EQ(settings.paths, RUNTIME_PATH_QUEUE);
	ASSERT_OK(set("SHMD_PATHS", "queue,Self,queue"));
	ASSERT_EQ(settings.paths, RUNTIME_PATH_SELF | RUNTIME_PATH_QUEUE);
	ASSERT_STREQ(shown("SHMD_PATHS"), "self,queue");
	ASSERT_OK(set("SHMD_PATHS", "all"));
	ASSERT_EQ(settings.paths, 7);
	expect_refused("SHMD_PATHS", bad);
	ASSERT_OK(set("SHMD_HEAP_DEBUG", "double-free,sizes"));
	ASSERT_EQ(settings.heap_debug, RUNTIME_HEAP_DOUBLE_FREE | RUNTIME_HEAP_SIZES);
	ASSERT_OK(set("SHMD_HEAP_DEBUG", "all"));
	ASSERT_EQ(settings.heap_debug, 15);
	ASSERT_OK(set("SHMD_HEAP_DEBUG", "none"));
	ASSERT_EQ(settings.heap_debug, 0);
	ASSERT_STREQ(shown("SHMD_HEAP_DEBUG"), "none");
	expect_refused("SHMD_HEAP_DEBUG", bad_debug);
}

TEST(log_levels_of_all_and_of_one)
{
	static const char *const bad[] = {"", "loud", "info,", "heap=", "=info", "heap", "heap=debug=info", "heep=info", NULL};

	ASSERT_OK(set("SHMD_LOG", "info"));
	for (unsigned int i = 0; i < RUNTIME_N_SUBSYSTEMS; i++)
		ASSERT_EQ(settings.log_levels[i], RUNTIME_LOG_INFO);
	ASSERT_OK(set("SHMD_LOG", "info,heap=debug,rma=none"));
	ASSERT_EQ(settings.log_levels[RUNTIME_PART_HEAP], RUNTIME_LOG_DEBUG);
	ASSERT_EQ(settings.log_levels[RUNTIME_PART_RMA], RUNTIME_LOG_NONE);
	ASSERT_EQ(settings.log_levels[RUNTIME_PART_TEAM], RUNTIME_LOG_INFO);
	ASSERT_STREQ(shown("SHMD_LOG"), "info,heap=debug,rma=none");
	/* Without a level for all, the others keep that of the default; a later word wins. */
	ASSERT_OK(set("SHMD_LOG", "heap=trace"));
	ASSERT_STREQ(shown("SHMD_LOG"), "warn,heap=trace");
	ASSERT_OK(set("SHMD_LOG", "heap=trace,error"));
	ASSERT_STREQ(shown("SHMD_LOG"), "error");
	expect_refused("SHMD_LOG", bad);
}

TEST(texts_have_a_length)
{
	char text[RUNTIME_TEXT_BYTES + 1] = "";

	memset(text, 'x', RUNTIME_TEXT_BYTES);
	ASSERT_ERR(set("SHMD_LOG_FILE", text), EINVAL);
	text[RUNTIME_TEXT_BYTES - 1] = 0;
	ASSERT_OK(set("SHMD_LOG_FILE", text));
	ASSERT_STREQ(settings.log_file, text);
	ASSERT_OK(set("SHMD_LOG_FILE", ""));
	ASSERT_STREQ(settings.log_file, "");
}

TEST(a_value_is_shown_in_its_largest_unit)
{
	static const struct {
		const char *name, *text, *shown;
	} rows[] = {
		{"SHMD_HEAP_SIZE", "0", "0"}, {"SHMD_HEAP_SIZE", "1023", "1023"}, {"SHMD_HEAP_SIZE", "1024", "1K"}, {"SHMD_HEAP_SIZE", "1.5G", "1536M"},
		{"SHMD_HEAP_SIZE", "1024G", "1T"}, {"SHMD_TIMEOUT", "0s", "0"}, {"SHMD_TIMEOUT", "90", "90s"}, {"SHMD_TIMEOUT", "120", "2min"},
		{"SHMD_TIMEOUT", "1.5", "1500ms"}, {"SHMD_TIMEOUT", "24h", "24h"}, {"SHMD_TIMEOUT", "1ns", "1ns"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ASSERT_OK(set(rows[i].name, rows[i].text));
		ASSERT_STREQ(shown(rows[i].name), rows[i].shown);
	}
}

TEST(each_row_reads_back_what_it_shows_and_its_limits)
{
	char buf[RUNTIME_VALUE_BYTES];

	for (unsigned int i = 0; i < runtime_n_rows; i++) {
		const struct runtime_row *row = &runtime_rows[i];
		struct runtime_settings a = {0}, b = {0};

		ASSERT_OK(runtime_value_parse(row, &a, row->def));
		runtime_value_format(row, &a, buf, sizeof(buf));
		ASSERT_OK(runtime_value_parse(row, &b, buf));
		ASSERT_MEMEQ(&a, &b, sizeof(a));
		runtime_value_allowed(row, buf, sizeof(buf));
		ASSERT(*buf && strlen(buf) < 240);
	}
}

/* Any bytes: taken or refused, never past the end of a buffer. The sanitizers look on. */
TEST(noise_does_no_harm)
{
	static const char letters[] = "0123456789.,:=KMGTiBsmuhn plugin:selfheapinfo\x80\n-";
	char text[RUNTIME_TEXT_BYTES + 8], buf[RUNTIME_VALUE_BYTES];

	srand(1);
	for (unsigned int round = 0; round < 20000; round++) {
		const struct runtime_row *row = &runtime_rows[(unsigned int)rand() % runtime_n_rows];
		size_t n = (size_t)rand() % (round % 50 ? 12 : sizeof(text));

		for (size_t i = 0; i < n; i++)
			text[i] = letters[(size_t)rand() % (sizeof(letters) - 1)];
		text[n] = 0;
		if (runtime_value_parse(row, &settings, text) < 0)
			continue;
		runtime_value_format(row, &settings, buf, sizeof(buf));
		ASSERT_OK(runtime_value_parse(row, &settings, buf));
	}
}
