/* SPDX-License-Identifier: Apache-2.0 */
/* Loading settings from an environment: defaults, precedence, aliases, sources, wrong values, unknown names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <shmemclient.h>

#include "libclient/runtime/settings/settings.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

#define LOAD(settings, ...) load((settings), (const char *const[]){__VA_ARGS__, NULL})

static int load(struct runtime_settings *ret, const char *const *list)
{
	struct runtime_env env = {list};

	return runtime_settings_load(ret, &env);
}

struct wanted {
	const char *name;
	struct runtime_setting_info info;
};

static int find(void *arg, const struct runtime_setting_info *info)
{
	struct wanted *wanted = arg;

	if (strcmp(info->name, wanted->name))
		return 0;
	wanted->info = *info;
	return 1;
}

static struct runtime_setting_info info_of(const struct runtime_settings *settings, const char *name)
{
	struct wanted wanted = {.name = name};

	ASSERT_EQ(runtime_settings_each(settings, find, &wanted), 1);
	return wanted.info;
}

static void expect(const struct runtime_settings *settings, const char *name, const char *value, const char *source)
{
	struct runtime_setting_info info = info_of(settings, name);

	ASSERT_STREQ(info.value, value);
	ASSERT_STREQ(info.source, source);
}

static void expect_text(const char *part)
{
	if (!strstr(shmd_error_text(), part))
		test_fail(TEST_WHERE, "\"%s\" is not in \"%s\"", part, shmd_error_text());
}

static int is_plain(void *arg, const struct runtime_setting_info *info)
{
	ASSERT_STREQ(info->source, "default");
	ASSERT(info->is_default);
	ASSERT(*info->text);
	++*(unsigned int *)arg;
	return 0;
}

TEST(without_variables_all_are_defaults)
{
	struct runtime_settings settings, init;
	unsigned int n = 0;

	ASSERT_OK(LOAD(&settings, "HOME=/", "SHMD=1", "XSHMD_TIMEOUT=1", "PATH"));
	ASSERT_EQ(runtime_settings_each(&settings, is_plain, &n), 0);
	ASSERT_EQ(n, runtime_n_rows);
	ASSERT_EQ(settings.timeout_nsec, 30 * NSEC_PER_SEC);
	ASSERT_EQ(settings.bootstrap_timeout_nsec, 60 * NSEC_PER_SEC);
	ASSERT_EQ(settings.heap_bytes, 64u << 20);
	ASSERT_EQ(settings.heap_reserve_bytes, 64ull << 30);
	ASSERT_EQ(settings.paths, RUNTIME_PATH_SELF | RUNTIME_PATH_MAPPED | RUNTIME_PATH_QUEUE);
	ASSERT_EQ(settings.rc_peers, 16);
	ASSERT_EQ(settings.max_teams, 1024);
	ASSERT_EQ(settings.log_levels[RUNTIME_PART_WORLD], RUNTIME_LOG_WARN);
	runtime_settings_init(&init);
	ASSERT_MEMEQ(&init, &settings, sizeof(init));
}

TEST(shmd_goes_before_nvshmem_and_nvshmem_before_shmem)
{
	struct runtime_settings settings;

	ASSERT_OK(LOAD(&settings, "SHMEM_SYMMETRIC_SIZE=1M", "NVSHMEM_SYMMETRIC_SIZE=2M", "SHMD_HEAP_SIZE=3M"));
	expect(&settings, "SHMD_HEAP_SIZE", "3M", "SHMD_HEAP_SIZE");
	ASSERT_OK(LOAD(&settings, "SHMEM_SYMMETRIC_SIZE=1M", "NVSHMEM_SYMMETRIC_SIZE=2M"));
	expect(&settings, "SHMD_HEAP_SIZE", "2M", "NVSHMEM_SYMMETRIC_SIZE");
	ASSERT_OK(LOAD(&settings, "SHMEM_SYMMETRIC_SIZE=1.5g"));
	expect(&settings, "SHMD_HEAP_SIZE", "1536M", "SHMEM_SYMMETRIC_SIZE");
	/* A variable that does not count is not judged either. */
	ASSERT_OK(LOAD(&settings, "NVSHMEM_SYMMETRIC_SIZE=huge", "SHMD_HEAP_SIZE=3M"));
}

TEST(a_variable_that_says_the_default_is_still_the_source)
{
	struct runtime_settings settings;
	struct runtime_setting_info info;

	ASSERT_OK(LOAD(&settings, "SHMD_TIMEOUT=30000ms"));
	info = info_of(&settings, "SHMD_TIMEOUT");
	ASSERT_STREQ(info.value, "30s");
	ASSERT_STREQ(info.source, "SHMD_TIMEOUT");
	ASSERT_STREQ(info.def, "30s");
	ASSERT(info.is_default);
	ASSERT_OK(LOAD(&settings, "SHMD_TIMEOUT=0"));
	ASSERT(!info_of(&settings, "SHMD_TIMEOUT").is_default);
}

TEST(the_program_goes_before_the_environment)
{
	struct runtime_settings settings;

	ASSERT_OK(LOAD(&settings, "SHMD_PATHS=queue"));
	ASSERT_OK(runtime_settings_set(&settings, "SHMD_PATHS", "self,mapped"));
	expect(&settings, "SHMD_PATHS", "self,mapped", "program");
	ASSERT_ERR(runtime_settings_set(&settings, "SHMD_PATHS", "air"), EINVAL);
	expect_text("SHMD_PATHS=air");
	ASSERT_ERR(runtime_settings_set(&settings, "SHMD_PATH", "self"), ENOENT);
	expect(&settings, "SHMD_PATHS", "self,mapped", "program");
}

TEST(each_alias_means_the_same)
{
	static const struct {
		const char *entry, *name, *value;
	} rows[] = {
		{"NVSHMEM_BOOTSTRAP=UID", "SHMD_BOOTSTRAP", "uid"}, {"NVSHMEM_BOOTSTRAP=MPI", "SHMD_BOOTSTRAP", "mpi"},
		{"NVSHMEM_BOOTSTRAP=SHMEM", "SHMD_BOOTSTRAP", "openshmem"}, {"NVSHMEM_BOOTSTRAP_PMI=PMI", "SHMD_BOOTSTRAP", "pmi1"},
		{"NVSHMEM_BOOTSTRAP_PMI=PMI-2", "SHMD_BOOTSTRAP", "pmi2"}, {"NVSHMEM_BOOTSTRAP_PMI=PMIX", "SHMD_BOOTSTRAP", "pmix"},
		{"NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME=^docker,lo", "SHMD_BOOTSTRAP_INTERFACE", "^docker,lo"},
		{"NVSHMEM_BOOTSTRAP_UID_SOCK_FAMILY=AF_INET6", "SHMD_BOOTSTRAP_FAMILY", "ipv6"},
		{"NVSHMEM_BOOTSTRAP_UID_SOCK_FAMILY=AF_INET", "SHMD_BOOTSTRAP_FAMILY", "ipv4"},
		{"NVSHMEM_SYMMETRIC_SIZE=1073741824", "SHMD_HEAP_SIZE", "1G"}, {"SHMEM_SYMMETRIC_SIZE=20m", "SHMD_HEAP_SIZE", "20M"},
		/* The specification's own values, section 8. */
		{"SHMEM_SYMMETRIC_SIZE=20971520", "SHMD_HEAP_SIZE", "20M"}, {"SHMEM_SYMMETRIC_SIZE=3.1M", "SHMD_HEAP_SIZE", "3250586"},
		{"SHMEM_SYMMETRIC_SIZE=20kk", "SHMD_HEAP_SIZE", "20K"}, {"SHMEM_SYMMETRIC_SIZE=.5m", "SHMD_HEAP_SIZE", "512K"},
		{"SHMEM_SYMMETRIC_SIZE=0.5m", "SHMD_HEAP_SIZE", "512K"}, {"SHMEM_SYMMETRIC_SIZE=2.g", "SHMD_HEAP_SIZE", "2G"},
		{"SHMEM_SYMMETRIC_SIZE=0.50000000m", "SHMD_HEAP_SIZE", "512K"}, {"SHMEM_SYMMETRIC_SIZE=20MiB", "SHMD_HEAP_SIZE", "20M"},
		{"NVSHMEM_CUMEM_GRANULARITY=536870912", "SHMD_HEAP_CHUNK", "512M"}, {"NVSHMEM_MAX_MEMORY_PER_GPU=256G", "SHMD_HEAP_RESERVE", "256G"},
		{"NVSHMEM_ENABLE_ERROR_CHECKS=true", "SHMD_HEAP_DEBUG", "sizes"}, {"NVSHMEM_DISABLE_P2P=1", "SHMD_PATHS", "self,queue"},
		{"NVSHMEM_REMOTE_TRANSPORT=none", "SHMD_PATHS", "self,mapped"}, {"NVSHMEM_QP_DEPTH=1000", "SHMD_QUEUE_DEPTH", "1024"},
		{"NVSHMEM_QP_DEPTH=1", "SHMD_QUEUE_DEPTH", "16"},
		{"NVSHMEM_MAX_TEAMS=7", "SHMD_MAX_TEAMS", "7"}, {"NVSHMEM_DEBUG=WARN", "SHMD_LOG", "warn"}, {"NVSHMEM_DEBUG=info", "SHMD_LOG", "info"},
		{"NVSHMEM_DEBUG=TRACE", "SHMD_LOG", "trace"}, {"NVSHMEM_DEBUG=VERSION", "SHMD_LOG", "error"}, {"SHMEM_DEBUG=1", "SHMD_LOG", "debug"}, {"SHMD_DEBUG=1", "SHMD_LOG", "debug"},
		{"SHMEM_DEBUG=", "SHMD_LOG", "debug"}, {"NVSHMEM_DEBUG_FILE=/x/%h.%p", "SHMD_LOG_FILE", "/x/%h.%p"}, {"NVSHMEM_NVTX=full", "SHMD_NVTX", "on"},
		{"NVSHMEM_NVTX=off", "SHMD_NVTX", "off"}, {"NVSHMEM_INFO=1", "SHMD_INFO", "on"}, {"SHMEM_INFO=y", "SHMD_INFO", "on"},
		{"NVSHMEM_VERSION=TRUE", "SHMD_VERSION", "on"}, {"SHMEM_VERSION=", "SHMD_VERSION", "on"}, {"SHMEM_VERSION=0", "SHMD_VERSION", "off"},
		{"NVSHMEM_INFO=false", "SHMD_INFO", "off"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct runtime_settings settings;
		char source[64] = "";

		memcpy(source, rows[i].entry, strcspn(rows[i].entry, "="));
		ASSERT_OK(LOAD(&settings, rows[i].entry));
		expect(&settings, rows[i].name, rows[i].value, source);
	}
}

TEST(a_value_that_says_nothing_leaves_it_to_the_next_name)
{
	static const struct {
		const char *entry, *name;
	} silent[] = {
		{"NVSHMEM_BOOTSTRAP=PMI", "SHMD_BOOTSTRAP"}, {"NVSHMEM_DISABLE_P2P=0", "SHMD_PATHS"}, {"NVSHMEM_DISABLE_P2P=false", "SHMD_PATHS"},
		{"NVSHMEM_REMOTE_TRANSPORT=ibrc", "SHMD_PATHS"}, {"NVSHMEM_ENABLE_ERROR_CHECKS=no", "SHMD_HEAP_DEBUG"}, {"SHMEM_DEBUG=0", "SHMD_LOG"},
	};
	struct runtime_settings settings;

	for (size_t i = 0; i < sizeof(silent) / sizeof(silent[0]); i++) {
		ASSERT_OK(LOAD(&settings, silent[i].entry));
		ASSERT_STREQ(info_of(&settings, silent[i].name).source, "default");
	}
	ASSERT_OK(LOAD(&settings, "NVSHMEM_BOOTSTRAP_PMI=PMIX", "NVSHMEM_BOOTSTRAP=PMI"));
	expect(&settings, "SHMD_BOOTSTRAP", "pmix", "NVSHMEM_BOOTSTRAP_PMI");
	ASSERT_OK(LOAD(&settings, "NVSHMEM_BOOTSTRAP_PMI=PMIX", "NVSHMEM_BOOTSTRAP=UID"));
	expect(&settings, "SHMD_BOOTSTRAP", "uid", "NVSHMEM_BOOTSTRAP");
}

TEST(names_of_aliases_are_distinct_and_of_others)
{
	for (unsigned int i = 0; i < runtime_n_rows; i++)
		for (const struct runtime_alias *a = runtime_rows[i].aliases; a->name; a++) {
			ASSERT(!strncmp(a->name, "NVSHMEM_", 8) || !strncmp(a->name, "SHMEM_", 6) || !strcmp(a->name, "SHMD_DEBUG"));
			/* NVSHMEM_ first. */
			ASSERT(a == runtime_rows[i].aliases || strncmp(a->name, "NVSHMEM_", 8) || strncmp(a[-1].name, "SHMEM_", 6));
			for (unsigned int k = 0; k < i; k++)
				for (const struct runtime_alias *b = runtime_rows[k].aliases; b->name; b++)
					ASSERT(strcmp(a->name, b->name));
		}
}

TEST(a_wrong_value_is_refused_with_what_is_allowed)
{
	static const struct {
		const char *entry, *allowed;
	} rows[] = {
		{"SHMD_TIMEOUT=soon", "from 0 to 24h, such as 30s"}, {"SHMD_HEAP_CHUNK=1K", "from 64K to 1T, such as 16M"},
		{"SHMD_DCIS=257", "a number from 1 to 256"}, {"SHMD_QUEUE_DEPTH=100", "a power of two from 16 to 32768"},
		{"SHMD_NVTX=maybe", "on or off"}, {"SHMD_BOOTSTRAP=pmi3", "pmi1, pmi2, pmix, mpi, openshmem, torchrun, none or plugin:PATH"},
		{"SHMD_PATHS=air", "a list of self, mapped and queue, or all"}, {"SHMD_HEAP_DEBUG=x", "or all or none"},
		{"SHMD_LOG=loud", "none, error, warn, info, debug or trace; behind commas, SUBSYSTEM=LEVEL"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct runtime_settings settings, untouched;

		memset(&settings, 7, sizeof(settings));
		untouched = settings;
		ASSERT_ERR(LOAD(&settings, rows[i].entry), EINVAL);
		ASSERT_MEMEQ(&settings, &untouched, sizeof(settings));
		expect_text(rows[i].entry);
		expect_text(rows[i].allowed);
	}
}

TEST(a_word_with_a_typing_error_is_offered)
{
	struct runtime_settings settings;

	ASSERT_ERR(LOAD(&settings, "SHMD_BOOTSTRAP=torchrn"), EINVAL);
	expect_text("did you mean torchrun?");
	ASSERT_ERR(LOAD(&settings, "SHMD_LOG=wran"), EINVAL);
	expect_text("did you mean warn?");
}

TEST(a_wrong_value_of_an_alias_names_our_setting)
{
	struct runtime_settings settings;

	ASSERT_ERR(LOAD(&settings, "NVSHMEM_BOOTSTRAP=plugin"), EINVAL);
	expect_text("NVSHMEM_BOOTSTRAP=plugin has no counterpart");
	expect_text("set SHMD_BOOTSTRAP to");
	ASSERT_ERR(LOAD(&settings, "SHMEM_SYMMETRIC_SIZE=.m"), EINVAL);
	ASSERT_ERR(LOAD(&settings, "SHMEM_SYMMETRIC_SIZE=20x"), EINVAL);
	ASSERT_ERR(LOAD(&settings, "SHMEM_SYMMETRIC_SIZE=-1m"), EINVAL);
	ASSERT_ERR(LOAD(&settings, "SHMEM_SYMMETRIC_SIZE="), EINVAL);
	ASSERT_ERR(LOAD(&settings, "NVSHMEM_QP_DEPTH=70000"), EINVAL);
	expect_text("NVSHMEM_QP_DEPTH=70000");
	expect_text("a power of two");
}

TEST(a_hostile_value_is_shown_without_control_characters)
{
	struct runtime_settings settings;

	ASSERT_ERR(LOAD(&settings, "SHMD_TIMEOUT=\x1b[2J"), EINVAL);
	expect_text("SHMD_TIMEOUT=\\x1b[2J");
}

/* ---- unknown names */

struct said {
	unsigned int n, n_quiet;
	char text[8][RUNTIME_SENTENCE_BYTES];
};

static void keep(void *arg, enum runtime_log_level level, const char *sentence)
{
	struct said *said = arg;

	said->n_quiet += level == RUNTIME_LOG_INFO;
	strcpy(said->text[said->n++], sentence);
}

TEST(unknown_names_are_reported_with_what_was_meant)
{
	static const char *const list[] = {"SHMD_TIMOUT=3", "SHMD_TIMEOUT=3", "SHMD_FROBNICATE=1", "SHMEMD_X=1", "NVSHMEM_X=1", "SHMD_", "SHMD_\x1b=1",
					   "SHMD_HEAP_SIZ=1", NULL};
	struct runtime_env env = {list};
	struct said said = {0};

	ASSERT_EQ(runtime_settings_unknown(&env, keep, &said), 6);
	ASSERT_EQ(said.n, 6);
	ASSERT_STREQ(said.text[0], "SHMD_TIMOUT is set, but there is no such setting; did you mean SHMD_TIMEOUT?");
	ASSERT_STREQ(said.text[1], "SHMD_FROBNICATE is set, but there is no such setting");
	ASSERT_STREQ(said.text[2], "NVSHMEM_X is set, but there is no such setting");
	ASSERT_STREQ(said.text[4], "SHMD_\\x1b is set, but there is no such setting");
	ASSERT_STREQ(said.text[5], "SHMD_HEAP_SIZ is set, but there is no such setting; did you mean SHMD_HEAP_SIZE?");
}

TEST(what_a_launcher_sets_is_known)
{
	static const char *const list[] = {"SHMD_RANK=0", "SHMD_SIZE=2", "SHMD_UID=x", "SHMD_UID_FILE=x", "SHMD_SECRET=x", "SHMD_NODE_RANK=0", "SHMD_NODE_SIZE=2", "SHMD_JOB=7",
					   NULL};
	struct runtime_env env = {list};
	struct said said = {0};

	ASSERT_EQ(runtime_settings_unknown(&env, keep, &said), 0);
}

TEST(names_of_others_are_reported_quietly_and_typing_errors_are_not)
{
	static const char *const list[] = {"NVSHMEM_DISABLE_NCCL=1", "NVSHMEM_IBGDA_NUM_DCI=2", "SHMEM_OFI_PROVIDER=x", "NVSHMEM_SYMETRIC_SIZE=1G",
					   "SHMEM_SYMETRIC_SIZE=1G", "SHMEM_FROBNICATE=1", "NVSHMEM_MAX_TEAMS=9", "SHMEM_INFO=0", "OSHMEM_X=1",
					   "NVSHMEMTEST_USE_MPI_LAUNCHER=1", "OMPI_MCA_x=1", NULL};
	struct runtime_env env = {list};
	struct said said = {0};

	ASSERT_EQ(runtime_settings_unknown(&env, keep, &said), 3);
	ASSERT_EQ(said.n_quiet, 3);
	ASSERT_EQ(said.n, 6);
	ASSERT_STREQ(said.text[0], "NVSHMEM_DISABLE_NCCL has no effect on shmemd's runtime");
	ASSERT_STREQ(said.text[2], "SHMEM_OFI_PROVIDER has no effect on shmemd's runtime");
	ASSERT_STREQ(said.text[3], "NVSHMEM_SYMETRIC_SIZE is set, but there is no such setting; did you mean NVSHMEM_SYMMETRIC_SIZE?");
	ASSERT_STREQ(said.text[4], "SHMEM_SYMETRIC_SIZE is set, but there is no such setting; did you mean SHMEM_SYMMETRIC_SIZE?");
	ASSERT_STREQ(said.text[5], "SHMEM_FROBNICATE is set, but there is no such setting");
}

/* ---- the table */

static unsigned int n_rows_of(const char *name)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < runtime_n_rows; i++) {
		n += !strcmp(runtime_rows[i].name, name);
		for (const struct runtime_alias *alias = runtime_rows[i].aliases; alias->name; alias++)
			n += !strcmp(alias->name, name);
	}
	for (const struct runtime_launcher_variable *variable = runtime_launcher_variables; variable->name; variable++)
		n += !strcmp(variable->name, name);
	return n;
}

TEST(each_name_has_one_row)
{
	for (unsigned int i = 0; i < runtime_n_rows; i++) {
		ASSERT_EQ(n_rows_of(runtime_rows[i].name), 1);
		for (const struct runtime_alias *alias = runtime_rows[i].aliases; alias->name; alias++)
			ASSERT_EQ(n_rows_of(alias->name), 1);
	}
	for (const struct runtime_launcher_variable *variable = runtime_launcher_variables; variable->name; variable++)
		ASSERT_EQ(n_rows_of(variable->name), 1);
}

TEST(a_very_long_name_is_reported_once)
{
	char entry[5000] = "SHMD_";
	const char *list[] = {entry, NULL};
	struct runtime_env env = {list};
	struct said said = {0};

	memset(entry + 5, 'A', sizeof(entry) - 6);
	ASSERT_EQ(runtime_settings_unknown(&env, keep, &said), 1);
	ASSERT(strlen(said.text[0]) < 200);
}

TEST(without_an_environment_that_of_the_process_counts)
{
	struct runtime_settings settings;

	ASSERT_OK(setenv("SHMD_TIMEOUT", "7s", 1));
	ASSERT_OK(runtime_settings_load(&settings, NULL));
	ASSERT_EQ(settings.timeout_nsec, 7 * NSEC_PER_SEC);
	clearenv();
	ASSERT_OK(runtime_settings_load(&settings, NULL));
	ASSERT_EQ(settings.timeout_nsec, 30 * NSEC_PER_SEC);
}
