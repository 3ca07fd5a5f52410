/* SPDX-License-Identifier: Apache-2.0 */
/* PEs that end, daemons that are missing or die: every call ends with a status and a name, and nothing stays in the daemon. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmemclient-admin.h>

#include "libclient/runtime/bootstrap/bootstrap.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"
#include "tests/system/client-lab.h"
#include "tests/system/world-lab.h"

static void wait_for_status(const struct shmd_world *world, enum shmd_world_status status)
{
	uint64_t deadline = nsec_now() + test_patience_nsec();

	while (shmd_world_status(world) != status) {
		ASSERT_LT(nsec_now(), deadline);
		usleep(1000);
	}
}

/* PE 1 is killed while the others sync for ever. */
static int syncs_until_one_ends(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	struct shmd_world_info info;
	struct shmd_pe_info of_one;
	void *memory;
	int r = 0;

	(void)arg;
	for (int i = 0; !r; i++) {
		if (pe == 1 && i == 100)
			raise(SIGKILL);
		r = shmd_sync_all(world);
	}
	ASSERT_EQ(r, -EHOSTDOWN);
	ASSERT(strstr(shmd_error_text(), "PE 1"));
	wait_for_status(world, SHMD_WORLD_BROKEN);
	ASSERT_ERR(shmd_malloc(world, 8, 0, &memory), EHOSTDOWN);
	ASSERT_OK(shmd_world_info(world, &info));
	ASSERT_EQ(info.n_gone, 1);
	ASSERT_OK(shmd_pe_info(world, 1, &of_one));
	ASSERT_EQ(of_one.path, SHMD_PATH_GONE);
	if (pe == 2) {
		ASSERT_ERR(shmd_world_close(world), EHOSTDOWN);
		ASSERT(strstr(shmd_error_text(), "PE 1"));
		return 0;
	}
	ASSERT_OK(shmd_world_forgive(world));
	world_lab_close(world);
	return 0;
}

static unsigned int n_sessions(struct shmd_client *control)
{
	struct shmd_daemon_status status;

	ASSERT_OK(shmd_admin_status(control, &status));
	return status.n_sessions;
}

static void assert_nothing_left(const struct fixture_daemon *daemon)
{
	struct shmd_client *control = lab_control(daemon);
	uint64_t deadline = nsec_now() + test_patience_nsec();

	while (n_sessions(control)) {
		ASSERT_LT(nsec_now(), deadline);
		usleep(1000);
	}
	shmd_client_close(control);
}

TEST_TIMEOUT(the_end_of_one_pe_ends_the_calls_of_all, 120)
{
	struct fixture_daemon daemon;
	struct world_lab lab = {.daemon = &daemon, .n = 4};

	fixture_daemon_start(&daemon, NULL);
	world_lab_start(&lab, syncs_until_one_ends, NULL);
	for (int pe = 0; pe < lab.n; pe++)
		ASSERT_EQ(world_lab_wait(&lab, pe), pe == 1 ? 128 + SIGKILL : 0);
	assert_nothing_left(&daemon);
	fixture_daemon_stop(&daemon);
}

/* ---- time limits */

static int comes_late(const struct world_lab *lab, int pe, void *arg)
{
	struct world_lab mine = *lab;
	int *is_refused = arg;
	struct shmd_world *world;
	void *memory;

	mine.attr.timeout_nsec = pe == 0 ? NSEC_PER_SEC : 0;
	world = world_lab_open_started(&mine, pe);
	if (pe == 0) {
		ASSERT_ERR(shmd_malloc(world, 100, 0, &memory), ETIMEDOUT);
		ASSERT_ERR(shmd_malloc(world, 200, 0, &memory), ETIMEDOUT);
		ASSERT(strstr(shmd_error_text(), "an earlier collective call"));
		ASSERT_ERR(shmd_realloc(world, NULL, 200, &memory), ETIMEDOUT);
		__atomic_store_n(is_refused, 1, __ATOMIC_RELEASE);
	} else {
		while (!__atomic_load_n(is_refused, __ATOMIC_ACQUIRE))
			usleep(1000);
		/* PE 0 had come. */
		world_lab_must(shmd_malloc(world, 100, 0, &memory), "malloc");
	}
	world_lab_close(world);
	return 0;
}

/* PE 1 has allocated by the record of a call that failed on PE 0, so PE 0 must not allocate by another one. */
TEST_TIMEOUT(a_heap_is_lost_to_a_pe_whose_call_has_failed_half_way, 120)
{
	int *is_refused = mmap(NULL, sizeof(*is_refused), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct fixture_daemon daemon;

	ASSERT(is_refused != MAP_FAILED);
	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 2, comes_late, is_refused);
	fixture_daemon_stop(&daemon);
	ASSERT_OK(munmap(is_refused, sizeof(*is_refused)));
}

/* ---- daemons */

static int misses_the_daemon(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open(lab, pe);
	int r;

	(void)arg;
	r = shmd_world_start(world);
	ASSERT(r == -ENOENT || r == -ECONNREFUSED);
	ASSERT(strstr(shmd_error_text(), "shmemd"));
	ASSERT_EQ(shmd_world_status(world), SHMD_WORLD_OPEN);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(without_a_daemon_the_start_fails_with_a_sentence, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_make_folder(&daemon);
	world_lab_run(&daemon, 2, misses_the_daemon, NULL);
	ASSERT_OK(rmdir(daemon.folder));
}

static int outlives_the_daemon(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	struct shmd_world *second;
	struct world_lab mine = *lab;
	uint64_t *word;

	world_lab_must(shmd_calloc(world, 1, 8, 0, (void **)&word), "calloc");
	if (pe == 0)
		ASSERT_OK(kill(lab->daemon->pid, SIGKILL));
	wait_for_status(world, SHMD_WORLD_BROKEN);
	/* Mapped memory is the PEs' own. */
	__atomic_store_n((uint64_t *)shmd_ptr(world, word, !pe), 7, __ATOMIC_RELEASE);
	world_lab_must(shmd_barrier_all(world), "barrier");
	ASSERT_EQ(*word, 7);
	mine.uid = *(struct shmd_uid *)arg;
	second = world_lab_open(&mine, pe);
	ASSERT_LT(shmd_world_start(second), 0);
	world_lab_close(second);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_mapped_world_goes_on_without_its_daemon, 120)
{
	const struct bootstrap_attr how = {.unbound = true, .interface = "=lo"};
	struct fixture_daemon daemon;
	struct shmd_uid second;

	fixture_daemon_start(&daemon, NULL);
	world_lab_must(bootstrap_uid_make(&how, &second), "uid");
	world_lab_run(&daemon, 2, outlives_the_daemon, &second);
	fixture_daemon_kill(&daemon);
}

/* ---- abort, fork */

static int aborts(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);

	(void)arg;
	if (pe == 1)
		shmd_world_abort(world, 7, "as the test wants");
	for (;;)
		pause();
}

TEST_TIMEOUT(one_pe_ends_the_job, 120)
{
	struct fixture_daemon daemon;
	struct world_lab lab = {.daemon = &daemon, .n = 3};

	fixture_daemon_start(&daemon, NULL);
	world_lab_start(&lab, aborts, NULL);
	for (int pe = 0; pe < lab.n; pe++)
		ASSERT_EQ(world_lab_wait(&lab, pe), 7);
	assert_nothing_left(&daemon);
	fixture_daemon_stop(&daemon);
}

static int dies_in_turn(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world;

	(void)arg;
	setenv("SHMD_ABORT_ON_ERROR", "on", 1);
	world = world_lab_open_started(lab, pe);
	world_lab_must(shmd_sync_all(world), "sync");
	if (pe == 2)
		raise(SIGKILL);
	for (;;)
		pause();
	return 0;
}

TEST_TIMEOUT(with_abort_on_error_the_job_ends_with_its_first_pe, 120)
{
	struct fixture_daemon daemon;
	struct world_lab lab = {.daemon = &daemon, .n = 3};

	fixture_daemon_start(&daemon, NULL);
	world_lab_start(&lab, dies_in_turn, NULL);
	for (int pe = 0; pe < lab.n; pe++)
		ASSERT_EQ(world_lab_wait(&lab, pe), pe == 2 ? 128 + SIGKILL : 1);
	fixture_daemon_stop(&daemon);
}

static int forks(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	int status;
	pid_t child = fork();

	(void)arg;
	ASSERT_GE(child, 0);
	if (child == 0) {
		struct shmd_world_info info;

		ASSERT_ERR(shmd_world_info(world, &info), ECHILD);
		ASSERT_ERR(shmd_sync_all(world), ECHILD);
		ASSERT_EQ(shmd_world_status(world), SHMD_WORLD_NONE);
		ASSERT_OK(shmd_world_close(world));
		_exit(0);
	}
	ASSERT_EQ(waitpid(child, &status, 0), child);
	ASSERT_EQ(status, 0);
	world_lab_must(shmd_sync_all(world), "sync");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_forked_child_has_no_part_in_the_world, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 2, forks, NULL);
	fixture_daemon_stop(&daemon);
}
