/* SPDX-License-Identifier: Apache-2.0 */
/* PMI-1, PMI-2, OpenSHMEM and plug-ins, with a launcher, a library and a plug-in of the test's own. */
#include "tests/lib/test.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/pmi.h"
#include "proto/base/nsec.h"
#include "tests/unit/runtime/bootstrap/fake-pmi.h"
#include "tests/unit/runtime/bootstrap/job.h"

TEST(words_of_replies_are_found_whole)
{
	char value[8];

	ASSERT_OK(pmi_value("cmd=get rc=0 value=abc\n", ' ', "value", value, sizeof(value)));
	ASSERT_STREQ(value, "abc");
	ASSERT_OK(pmi_value("cmd=a;rc=;xrc=1;", ';', "rc", value, sizeof(value)));
	ASSERT_STREQ(value, "");
	ASSERT_ERR(pmi_value("cmd=a xrc=1 rc", ' ', "rc", value, sizeof(value)), ENOENT);
	ASSERT_OK(pmi_value("v=1234567", ' ', "v", value, sizeof(value)));
	ASSERT_ERR(pmi_value("v=12345678", ' ', "v", value, sizeof(value)), EMSGSIZE);
	ASSERT_ERR(pmi_value("", ' ', "v", value, sizeof(value)), ENOENT);
}

TEST(lengths_of_replies_are_strict)
{
	ASSERT_EQ(pmi_length("    12"), 12);
	ASSERT_EQ(pmi_length("000012"), 12);
	ASSERT_EQ(pmi_length("  4095"), 4095);
	ASSERT_ERR(pmi_length("  4096"), EPROTO);
	ASSERT_ERR(pmi_length("     0"), EPROTO);
	ASSERT_ERR(pmi_length("      "), EPROTO);
	ASSERT_ERR(pmi_length("  1 2 "), EPROTO);
	ASSERT_ERR(pmi_length("   -12"), EPROTO);
}

/* ---- jobs of the fake launcher ------------------------------------------------------------------------------------------------ */

static void put_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

static void start(struct fake_pmi *pmi, pid_t *pids, int rank, int size, const char *module)
{
	pids[rank] = fork();
	if (pids[rank])
		return;
	put_number("PMI_RANK", rank);
	put_number("PMI_SIZE", size);
	put_number("PMI_FD", fake_pmi_fd(pmi, rank));
	execl(SHMD_TEST_RANK, SHMD_TEST_RANK, module, NULL);
	_exit(127);
}

static void run_job(int size, const char *module, int expect_finalized, int status, int expect_aborted)
{
	pid_t pids[FAKE_PMI_MOST_RANKS];
	int finalized, aborted;
	struct fake_pmi *pmi;

	if (test_emulator())
		test_skip("the kernel cannot start programs for an emulator");
	pmi = fake_pmi_start(size);
	for (int rank = 0; rank < size; rank++)
		start(pmi, pids, rank, size, module);
	job_wait(pids, 0, size - 1, status);
	fake_pmi_stop(pmi, &finalized, &aborted);
	ASSERT_EQ(finalized, expect_finalized);
	ASSERT_EQ(aborted, expect_aborted);
}

TEST_TIMEOUT(ranks_meet_by_pmi_1, 60)
{
	run_job(5, "pmi1", 5, 0, -1);
	run_job(1, "pmi1", 1, 0, -1);
	run_job(3, "auto", 3, 0, -1);
}

TEST_TIMEOUT(ranks_meet_by_pmi_2, 60)
{
	run_job(5, "pmi2", 5, 0, -1);
}

static void abort_job(const char *module)
{
	uint64_t start = nsec_now();

	setenv("BOOTSTRAP_RANK_END", "abort", 1);
	run_job(3, module, 0, 17, 17);
	/* The other ranks leave it the time to end them. */
	ASSERT_GE(nsec_now() - start, NSEC_PER_SEC / 2);
}

TEST_WAITS(an_abort_reaches_the_launcher_by_pmi_1, 60)
{
	abort_job("pmi1");
}

TEST_WAITS(an_abort_reaches_the_launcher_by_pmi_2, 60)
{
	abort_job("pmi2");
}

static struct fake_pmi *launcher;

static char *environment(const char *name)
{
	static char fd[16], rank[] = "0", size[] = "2";

	snprintf(fd, sizeof(fd), "%d", fake_pmi_fd(launcher, 0));
	return !strcmp(name, "PMI_FD") ? fd : !strcmp(name, "PMI_RANK") ? rank : !strcmp(name, "PMI_SIZE") ? size : NULL;
}

static void refuse(const char *module, const char *answer, int error, const char *text)
{
	struct bootstrap_attr attr = {.module = module, .env = environment, .timeout_nsec = NSEC_PER_SEC, .interface = "=lo"};
	int finalized, aborted, status;
	pid_t pid;

	launcher = fake_pmi_start(2);
	fake_pmi_answer(launcher, answer);
	/* The connection to the launcher is one for a process. */
	pid = fork();
	if (!pid) {
		struct shmd_bootstrap b;

		ASSERT_ERR(bootstrap_open(&attr, &b), error);
		ASSERT(strstr(shmd_error_text(), text));
		ASSERT_LT(bootstrap_open(&attr, &b), 0);
		_exit(0);
	}
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
	fake_pmi_stop(launcher, &finalized, &aborted);
}

TEST_WAITS(wrong_answers_of_a_launcher_are_errors_with_a_sentence, 60)
{
	static char longest[PMI_MOST_BYTES];

	memset(longest, 'x', sizeof(longest) - 1);
	refuse("pmi1", "cmd=other\n", EPROTO, "the launcher answered \"cmd=other");
	refuse("pmi1", "cmd=response_to_init rc=3\n", EIO, "rc=3");
	refuse("pmi1", "\n", EPROTO, "response_to_init was expected");
	refuse("pmi1", longest, EPROTO, "a line without an end");
	refuse("pmi1", "cmd=response_to_init", ETIMEDOUT, "did not answer");
	refuse("pmi2", "     x", ETIMEDOUT, "did not answer");
	/* Nobody else is there: the barrier does not end. */
	refuse("pmi1", NULL, ETIMEDOUT, "not all ranks of the job have opened the bootstrap");
}

TEST(a_launcher_that_reads_nothing_is_left_at_the_time_limit)
{
	struct pmi pmi = {.version = 1};
	uint64_t end;
	int fds[2], err;

	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	pmi.fd = fds[0];
	end = nsec_now() + NSEC_PER_SEC / 2;
	do
		err = pmi_send(&pmi, "cmd=put kvsname=k key=k value=v", end);
	while (!err);
	ASSERT_ERR(err, ETIMEDOUT);
	close(fds[0]);
	close(fds[1]);
}

static char *no_descriptor(const char *name)
{
	static char fd[] = "9999", rank[] = "0", size[] = "2";

	return !strcmp(name, "PMI_FD") ? fd : !strcmp(name, "PMI_RANK") ? rank : !strcmp(name, "PMI_SIZE") ? size : NULL;
}

static char *nothing(const char *name)
{
	return NULL;
}

TEST(modules_without_their_launcher_or_library_say_so)
{
	struct bootstrap_attr attr = {.module = "pmi1", .env = no_descriptor};
	struct shmd_bootstrap b;

	ASSERT_ERR(bootstrap_open(&attr, &b), EINVAL);
	ASSERT_STREQ(shmd_error_text(), "PMI_FD is 9999, and this process has no such descriptor open");
	attr.env = nothing;
	ASSERT_ERR(bootstrap_open(&attr, &b), EINVAL);
	ASSERT_STREQ(shmd_error_text(), "the bootstrap module pmi1 needs the environment variable PMI_FD");
	attr.module = "mpi";
	ASSERT_ERR(bootstrap_open(&attr, &b), ENOENT);
	ASSERT_STREQ(shmd_error_text(), "an MPI library is not loaded in this process");
	attr.module = "openshmem";
	ASSERT_ERR(bootstrap_open(&attr, &b), ENOENT);
	ASSERT_STREQ(shmd_error_text(), "an OpenSHMEM library is not loaded in this process");
}

/* ---- OpenSHMEM --------------------------------------------------------------------------------------------------------------- */

TEST_TIMEOUT(ranks_meet_by_openshmem, 60)
{
	char path[64];
	pid_t pids[4];

	if (test_emulator())
		test_skip("the kernel cannot start programs for an emulator");
	test_make_file(path, sizeof(path), "shmem");
	ASSERT_OK(truncate(path, 65536));
	for (int rank = 0; rank < 4; rank++) {
		pids[rank] = fork();
		if (pids[rank])
			continue;
		put_number("FAKE_SHMEM_RANK", rank);
		put_number("FAKE_SHMEM_SIZE", 4);
		setenv("FAKE_SHMEM_FILE", path, 1);
		execl(SHMD_TEST_RANK, SHMD_TEST_RANK, "openshmem", SHMD_TEST_SHMEM, "shmem_init", "shmem_finalize", NULL);
		_exit(127);
	}
	job_wait(pids, 0, 3, 0);
	unlink(path);
}

/* ---- libraries that never return --------------------------------------------------------------------------------------------- */

/* A call that does not hang takes some milliseconds of it. */
#define SHORT_NSEC (2 * NSEC_PER_SEC)

static void load(const char *library)
{
	if (!dlopen(library, RTLD_NOW | RTLD_GLOBAL))
		test_fail(TEST_WHERE, "%s", dlerror());
}

static void must_time_out(const char *module, const char *text)
{
	struct bootstrap_attr attr = {.module = module, .interface = "=lo", .timeout_nsec = SHORT_NSEC};
	struct shmd_bootstrap b;

	ASSERT_ERR(bootstrap_open(&attr, &b), ETIMEDOUT);
	ASSERT(strstr(shmd_error_text(), text));
}

/* A process of its own, which the library never leaves: it ends all the same. */
static pid_t in_child(void (*fn)(const char *hangs), const char *hangs)
{
	pid_t pid = fork();

	ASSERT_GE(pid, 0);
	if (pid)
		return pid;
	fn(hangs);
	exit(0);
}

static void open_pmix_that_hangs(const char *hangs)
{
	struct bootstrap_attr attr = {.module = "pmix", .interface = "=lo", .timeout_nsec = SHORT_NSEC};
	struct shmd_bootstrap b;

	setenv("FAKE_PMIX_HANGS", hangs, 1);
	load(SHMD_TEST_PMIX);
	if (!strcmp(hangs, "PMIx_Init") || !strcmp(hangs, "PMIx_Commit")) {
		must_time_out("pmix", hangs);
		must_time_out("pmix", "an earlier call of PMIx has not returned yet");
		return;
	}
	ASSERT_OK(bootstrap_open(&attr, &b));
	ASSERT_STREQ(b.ops->name, "pmix");
	if (!strcmp(hangs, "PMIx_Abort"))
		b.ops->abort(&b, 19, "a test ends it");
	b.ops->close(&b);
}

TEST_WAITS(a_daemon_of_pmix_that_never_answers_holds_up_no_process, 60)
{
	static const char *const hangs[] = {"PMIx_Init", "PMIx_Commit", "PMIx_Finalize", "nothing", "PMIx_Abort"};
	pid_t pids[5];

	if (test_emulator())
		test_skip("the kernel cannot start programs for an emulator");
	for (int i = 0; i < 5; i++)
		pids[i] = in_child(open_pmix_that_hangs, hangs[i]);
	job_wait(pids, 0, 3, 0);
	job_wait(pids, 4, 4, 19);
}

static void open_shmem_alone(const char *path)
{
	put_number("FAKE_SHMEM_RANK", 0);
	put_number("FAKE_SHMEM_SIZE", 2);
	setenv("FAKE_SHMEM_FILE", path, 1);
	load(SHMD_TEST_SHMEM);
	((void (*)(void))dlsym(RTLD_DEFAULT, "shmem_init"))();
	must_time_out("openshmem", "OpenSHMEM's shmem_malloc, shmem_barrier_all and shmem_free, which wait for all PEs did not return");
	must_time_out("openshmem", "an earlier call of the OpenSHMEM library has not returned yet");
}

TEST_WAITS(a_pe_of_openshmem_that_never_comes_does_not_hold_up_the_others, 60)
{
	char path[64];
	pid_t pid;

	test_make_file(path, sizeof(path), "shmem");
	ASSERT_OK(truncate(path, 65536));
	pid = in_child(open_shmem_alone, path);
	job_wait(&pid, 0, 0, 0);
	unlink(path);
}

/* ---- plug-ins ---------------------------------------------------------------------------------------------------------------- */

static int open_plugin(const char *args, struct shmd_bootstrap *b)
{
	char module[512];
	struct bootstrap_attr attr = {.module = module};

	snprintf(module, sizeof(module), "plugin:%s%s", SHMD_TEST_PLUGIN, args);
	return bootstrap_open(&attr, b);
}

TEST(a_plug_in_is_called_as_it_is)
{
	struct shmd_bootstrap b;
	int mine = 5, all = 0;

	ASSERT_OK(open_plugin(":", &b));
	ASSERT_STREQ(b.ops->name, "sample");
	ASSERT(b.rank == 0 && b.size == 1 && b.node_rank == -1);
	ASSERT_OK(b.ops->allgather(&b, &mine, &all, sizeof(mine)));
	ASSERT_EQ(all, 5);
	ASSERT(!b.ops->watch);
	b.ops->close(&b);
	ASSERT_EQ(*(int *)b.state, 1);
}

TEST(a_plug_in_that_is_wrong_is_refused_with_its_path)
{
	struct bootstrap_attr attr = {.module = "plugin:/nowhere/x.so"};
	struct shmd_bootstrap b;

	ASSERT_ERR(open_plugin(":version", &b), EINVAL);
	ASSERT(strstr(shmd_error_text(), "has version 99 of the interface; this library has 1"));
	ASSERT(strstr(shmd_error_text(), SHMD_TEST_PLUGIN));
	ASSERT_ERR(open_plugin(":barrier", &b), EINVAL);
	ASSERT_ERR(open_plugin(":rank", &b), EINVAL);
	ASSERT(strstr(shmd_error_text(), "says that this is rank 1 of 1"));
	ASSERT_ERR(open_plugin(":fail", &b), EPIPE);
	ASSERT(strstr(shmd_error_text(), "failed and did not say why"));
	ASSERT_ERR(bootstrap_open(&attr, &b), ENOENT);
	ASSERT(strstr(shmd_error_text(), "cannot load the bootstrap plug-in /nowhere/x.so"));
	attr.module = "plugin:";
	ASSERT_ERR(bootstrap_open(&attr, &b), EINVAL);
	attr.module = "plugin";
	ASSERT_ERR(bootstrap_open(&attr, &b), EINVAL);
}
