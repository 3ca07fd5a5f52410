/* SPDX-License-Identifier: Apache-2.0 */
/* The public view of settings and build, and the lines of SHMD_INFO and SHMD_VERSION. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <shmd-info.h>

#include "libclient/runtime/settings/announce.h"
#include "tests/lib/test.h"

static struct shmd_setting_info find(const char *name)
{
	struct shmd_setting_info info;

	for (unsigned int i = 0; shmd_info_setting(i, &info) == 0; i++)
		if (!strcmp(info.name, name))
			return info;
	test_fail(TEST_WHERE, "no setting %s", name);
}

static bool has(const char *text, const char *part)
{
	return strstr(text, part) != NULL;
}

TEST(lists_end_with_enoent_and_leave_the_output_alone)
{
	struct shmd_setting_info setting, untouched;
	struct shmd_build_info build;
	char text[SHMD_INFO_TEXT_BYTES] = "same";
	unsigned int n = 0;

	clearenv();
	while (shmd_info_setting(n, &setting) == 0) {
		ASSERT_STREQ(setting.source, "default");
		ASSERT(setting.is_default && !*setting.error && *setting.text && *setting.allowed);
		n++;
	}
	ASSERT_EQ(n, runtime_n_rows);
	memset(&setting, 7, sizeof(setting));
	untouched = setting;
	ASSERT_ERR(shmd_info_setting(n, &setting), ENOENT);
	ASSERT_ERR(shmd_info_setting(UINT32_MAX, &setting), ENOENT);
	ASSERT_MEMEQ(&setting, &untouched, sizeof(setting));
	for (n = 0; shmd_info_build(n, &build) == 0; n++)
		ASSERT(*build.name && *build.value);
	ASSERT_GT(n, 5);
	ASSERT_ERR(shmd_info_warning(0, text), ENOENT);
	ASSERT_STREQ(text, "same");
}

TEST(the_build_has_the_version_of_the_library)
{
	struct shmd_build_info build;

	ASSERT_OK(shmd_info_build(0, &build));
	ASSERT_STREQ(build.name, "version");
	ASSERT_STREQ(build.value, shmd_version());
}

TEST(a_setting_has_its_value_and_source)
{
	struct shmd_setting_info info;

	ASSERT_OK(setenv("NVSHMEM_SYMMETRIC_SIZE", "1073741824", 1));
	info = find("SHMD_HEAP_SIZE");
	ASSERT_STREQ(info.value, "1G");
	ASSERT_STREQ(info.source, "NVSHMEM_SYMMETRIC_SIZE");
	ASSERT_STREQ(info.def, "64M");
	ASSERT(!info.is_default && !*info.error);
}

TEST(a_wrong_value_has_its_error_and_leaves_the_others_alone)
{
	struct shmd_setting_info info;

	ASSERT_OK(setenv("SHMD_TIMEOUT", "soon", 1));
	ASSERT_OK(setenv("NVSHMEM_BOOTSTRAP", "plugin", 1));
	info = find("SHMD_TIMEOUT");
	ASSERT_STREQ(info.value, "soon");
	ASSERT_STREQ(info.source, "SHMD_TIMEOUT");
	ASSERT(!info.is_default && has(info.error, "SHMD_TIMEOUT=soon is not allowed"));
	info = find("SHMD_BOOTSTRAP");
	ASSERT_STREQ(info.value, "plugin");
	ASSERT_STREQ(info.source, "NVSHMEM_BOOTSTRAP");
	ASSERT(has(info.error, "NVSHMEM_BOOTSTRAP=plugin has no counterpart"));
	info = find("SHMD_PATHS");
	ASSERT_STREQ(info.error, "");
}

TEST(each_unknown_variable_has_a_warning)
{
	char text[SHMD_INFO_TEXT_BYTES];

	clearenv();
	ASSERT_OK(setenv("SHMD_A", "1", 1));
	ASSERT_OK(setenv("SHMD_TIMEOUT", "1", 1));
	ASSERT_OK(setenv("SHMD_DCIZ", "1", 1));
	ASSERT_OK(shmd_info_warning(0, text));
	ASSERT(has(text, "SHMD_A is set"));
	ASSERT_OK(shmd_info_warning(1, text));
	ASSERT(has(text, "did you mean SHMD_DCIS?"));
	ASSERT_ERR(shmd_info_warning(2, text), ENOENT);
}

/* ---- announcing */

static const char *announced(const struct runtime_settings *settings, int rank)
{
	static char text[65536];
	char path[256];
	int saved = dup(STDERR_FILENO), fd;
	ssize_t n;

	test_make_file(path, sizeof(path), "announce");
	fd = open(path, O_RDWR);
	ASSERT(saved >= 0 && fd >= 0);
	ASSERT_EQ(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	runtime_settings_announce(settings, rank);
	ASSERT_EQ(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	n = pread(fd, text, sizeof(text) - 1, 0);
	ASSERT_GE(n, 0);
	text[n] = 0;
	close(fd);
	close(saved);
	ASSERT_OK(unlink(path));
	return text;
}

TEST(rank_0_announces_the_version_once)
{
	struct runtime_settings settings;

	runtime_settings_init(&settings);
	ASSERT_STREQ(announced(&settings, 0), "");
	settings.version = true;
	ASSERT_STREQ(announced(&settings, 1), "");
	ASSERT(!strncmp(announced(&settings, 0), "libshmemclient 0.", 17));
	ASSERT_STREQ(announced(&settings, 0), "");
}

TEST(rank_0_announces_all_settings)
{
	struct runtime_settings settings;
	const char *text;
	unsigned int n = 0;

	runtime_settings_init(&settings);
	ASSERT_OK(runtime_settings_set(&settings, "SHMD_INFO", "on"));
	ASSERT_OK(runtime_settings_set(&settings, "SHMD_LOG_FILE", "a\nb"));
	text = announced(&settings, 0);
	ASSERT(has(text, "\nSHMD_TIMEOUT=30s (default)\n"));
	ASSERT(has(text, "\nSHMD_LOG_FILE=a?b (program)\n"));
	for (; *text; text++)
		n += *text == '\n';
	ASSERT_EQ(n, runtime_n_rows + 1);
}
