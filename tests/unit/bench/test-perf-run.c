/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "tests/bench/perf/run.h"
#include "tests/lib/test.h"

static int run_shell(const char *script, unsigned int timeout_sec, const char *input, char **ret_text)
{
	const char *const argv[] = {"sh", "-c", script, NULL};

	return perf_run(argv, timeout_sec, input, ret_text);
}

TEST(output_and_exit_status_of_a_program_are_returned)
{
	_cleanup_free_ char *text = NULL, *again = NULL;

	ASSERT_EQ(run_shell("echo one; read word; echo $word; exit 7", 20, "two\n", &text), 7);
	ASSERT_STREQ(text, "one\ntwo\n");
	ASSERT_EQ(run_shell("kill -9 $$", 20, NULL, &again), 128 + SIGKILL);
	ASSERT_STREQ(again, "");
}

TEST(a_program_that_does_not_exist_has_status_127)
{
	const char *const argv[] = {"/nonexistent/program", NULL};
	_cleanup_free_ char *text = NULL;

	ASSERT_EQ(perf_run(argv, 20, NULL, &text), 127);
}

TEST(a_program_that_takes_too_long_dies_with_what_it_started)
{
	_cleanup_free_ char *text = NULL;
	uint64_t begin = nsec_now();
	int held[2];
	char byte;

	/* The one end is inherited by all that it starts. */
	ASSERT_OK(pipe(held));
	ASSERT_ERR(run_shell("echo row; sleep 60 & sleep 60; wait", 1, NULL, &text), ETIMEDOUT);
	ASSERT_STREQ(text, "row\n");
	close(held[1]);
	ASSERT_EQ(read(held[0], &byte, 1), 0);
	close(held[0]);
	ASSERT_LT(nsec_now() - begin, UINT64_C(15000000000));
}

TEST(a_program_that_closes_its_output_has_the_same_time)
{
	_cleanup_free_ char *text = NULL, *again = NULL;
	uint64_t begin = nsec_now();

	ASSERT_ERR(run_shell("echo row; exec >&-; sleep 20", 1, NULL, &text), ETIMEDOUT);
	ASSERT_STREQ(text, "row\n");
	ASSERT_LT(nsec_now() - begin, UINT64_C(15000000000));
	ASSERT_EQ(run_shell("exec >&-; sleep 0.2; exit 7", 20, NULL, &again), 7);
}

TEST(output_of_1_mib_is_not_too_much)
{
	_cleanup_free_ char *text = NULL;

	ASSERT_EQ(run_shell("head -c 1048576 /dev/zero | tr '\\0' x", 20, NULL, &text), 0);
	ASSERT_EQ(strlen(text), 1u << 20);
}

TEST(endless_output_is_refused)
{
	_cleanup_free_ char *text = NULL;

	ASSERT_ERR(run_shell("yes", 20, NULL, &text), E2BIG);
	ASSERT_EQ(strlen(text), 1u << 20);
}

TEST(a_server_that_was_not_started_is_not_that_of_the_host)
{
	unsetenv("CUDA_MPS_PIPE_DIRECTORY");
	ASSERT_ERR(perf_mps_start("/dev/null"), ENOTDIR);
	/* perf_mps_stop() tells the server there to end. */
	ASSERT(getenv("CUDA_MPS_PIPE_DIRECTORY"));
	ASSERT_STREQ(getenv("CUDA_MPS_PIPE_DIRECTORY"), "/dev/null/mps");
}

TEST(without_mps_there_is_no_server)
{
	char folder[256], command[300];

	test_make_folder(folder, sizeof(folder), "perf-mps");
	setenv("PATH", "/bin:/usr/bin", 1);
	if (!system("command -v nvidia-cuda-mps-control >/dev/null"))
		test_skip("this host has MPS");
	ASSERT_ERR(perf_mps_start(folder), ENOENT);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	ASSERT_EQ(system(command), 0);
}
