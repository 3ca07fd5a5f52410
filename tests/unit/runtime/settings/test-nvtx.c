/* SPDX-License-Identifier: Apache-2.0 */
/* NVTX ranges with a library of our own: by a profiler's injection, by path, and without any. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/runtime/settings/log.h"
#include "libclient/runtime/settings/nvtx.h"
#include "tests/lib/test.h"

/* The record of the library that the code under test loaded; NULL if it loaded none. */
static char *record(void)
{
	void *library = dlopen(FAKE_NVTX, RTLD_LAZY | RTLD_NOLOAD);
	char *text = library ? dlsym(library, "fake_nvtx_record") : NULL;

	if (library)
		dlclose(library);
	return text;
}

static void open_nvtx(const char *nvtx, const char *library, const char *variable)
{
	const char *const list[] = {variable, NULL};
	struct runtime_env env = {list};
	struct runtime_settings settings;

	runtime_settings_init(&settings);
	ASSERT_OK(runtime_settings_set(&settings, "SHMD_NVTX", nvtx));
	ASSERT_OK(runtime_settings_set(&settings, "SHMD_NVTX_LIBRARY", library));
	runtime_nvtx_open(&settings, &env);
}

static void use(void)
{
	runtime_nvtx_push("a");
	runtime_nvtx_push("b");
	runtime_nvtx_pop();
	runtime_nvtx_pop();
}

TEST(switched_off_nothing_is_loaded)
{
	open_nvtx("off", FAKE_NVTX, "NVTX_INJECTION64_PATH=" FAKE_NVTX);
	ASSERT(!runtime_nvtx_active && !record());
	use();
}

TEST(the_library_of_a_profiler_gets_the_ranges)
{
	open_nvtx("on", "", "NVTX_INJECTION64_PATH=" FAKE_NVTX);
	ASSERT(runtime_nvtx_active && record());
	use();
	ASSERT_STREQ(record(), "+a;+b;-;-;");
}

TEST(a_profiler_goes_before_the_setting)
{
	open_nvtx("on", NO_NVTX, "NVTX_INJECTION64_PATH=" FAKE_NVTX);
	use();
	ASSERT_STREQ(record(), "+a;+b;-;-;");
}

TEST(a_library_by_path_gets_the_ranges)
{
	open_nvtx("on", FAKE_NVTX, "NVTX_INJECTION64_PATH=");
	use();
	ASSERT_STREQ(record(), "library +a;library +b;library -;library -;");
}

TEST(a_profiler_that_refuses_gets_nothing)
{
	ASSERT_OK(setenv("FAKE_NVTX_REFUSE", "1", 1));
	open_nvtx("on", "", "NVTX_INJECTION64_PATH=" FAKE_NVTX);
	ASSERT(!runtime_nvtx_active && record());
	use();
	ASSERT_STREQ(record(), "");
}

TEST(libraries_without_nvtx_serve_nothing)
{
	open_nvtx("on", NO_NVTX, NULL);
	ASSERT(!runtime_nvtx_active);
	use();
}

TEST(an_injection_without_nvtx_serves_nothing)
{
	open_nvtx("on", "", "NVTX_INJECTION64_PATH=" NO_NVTX);
	ASSERT(!runtime_nvtx_active);
	use();
}

TEST(paths_to_nothing_serve_nothing)
{
	open_nvtx("on", "/nonexistent/libnvtx.so", NULL);
	ASSERT(!runtime_nvtx_active);
	use();
}

TEST(the_first_call_that_asks_for_ranges_counts)
{
	open_nvtx("off", "", "NVTX_INJECTION64_PATH=" FAKE_NVTX);
	open_nvtx("on", FAKE_NVTX, NULL);
	open_nvtx("on", "", "NVTX_INJECTION64_PATH=" FAKE_NVTX);
	open_nvtx("off", "", NULL);
	use();
	ASSERT_STREQ(record(), "library +a;library +b;library -;library -;");
}

/* Ranges of threads while another thread opens: the sanitizer for threads judges. */
static void *ranges(void *arg)
{
	for (unsigned int i = 0; i < 1000; i++) {
		runtime_nvtx_push("x");
		runtime_nvtx_pop();
	}
	return NULL;
}

TEST(threads_may_have_ranges_while_it_opens)
{
	pthread_t thread;

	ASSERT_OK(-pthread_create(&thread, NULL, ranges, NULL));
	open_nvtx("on", FAKE_NVTX, NULL);
	ASSERT_OK(-pthread_join(thread, NULL));
	ASSERT(runtime_nvtx_active);
}
