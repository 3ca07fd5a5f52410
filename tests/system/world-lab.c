/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/world-lab.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/runtime/bootstrap/bootstrap.h"
#include "tests/lib/test.h"

void world_lab_must(int r, const char *what)
{
	if (r < 0)
		test_fail(TEST_WHERE, "%s: %d: %s", what, r, shmd_error_text());
}

bool world_lab_is_connectx(void)
{
	const char *backend = getenv("SHMEMD_TEST_BACKEND");

	return backend && !strcmp(backend, "mlx5");
}

static void run_pe(const struct world_lab *lab, int pe, world_lab_fn fn, void *arg)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	_exit(fn(lab, pe, arg) ? 1 : 0);
}

void world_lab_start(struct world_lab *lab, world_lab_fn fn, void *arg)
{
	const struct bootstrap_attr how = {.unbound = true, .interface = "=lo"};

	/* Less than the default, so that sanitizers have room for sixteen ranges. */
	setenv("SHMD_HEAP_RESERVE", "1G", 0);
	setenv("SHMD_HEAP_SIZE", "4M", 0);
	world_lab_must(bootstrap_uid_make(&how, &lab->uid), "uid");
	for (int pe = 0; pe < lab->n; pe++) {
		lab->pids[pe] = fork();
		ASSERT_GE(lab->pids[pe], 0);
		if (lab->pids[pe] == 0)
			run_pe(lab, pe, fn, arg);
	}
}

int world_lab_wait(struct world_lab *lab, int pe)
{
	int status;

	ASSERT_EQ(waitpid(lab->pids[pe], &status, 0), lab->pids[pe]);
	lab->pids[pe] = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void world_lab_run(const struct fixture_daemon *daemon, int n, world_lab_fn fn, void *arg)
{
	struct world_lab lab = {.daemon = daemon, .n = n};
	int failed = 0;

	world_lab_start(&lab, fn, arg);
	for (int pe = 0; pe < n; pe++)
		failed += world_lab_wait(&lab, pe) != 0;
	ASSERT_EQ(failed, 0);
}

void world_lab_run_alone(int n, world_lab_fn fn, void *arg)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, n, fn, arg);
	fixture_daemon_stop(&daemon);
}

struct shmd_world *world_lab_open(const struct world_lab *lab, int pe)
{
	struct shmd_world_attr attr = lab->attr;
	struct shmd_world *world;

	attr.uid = &lab->uid;
	attr.rank = pe;
	attr.size = lab->n;
	if (!attr.socket_path)
		attr.socket_path = lab->daemon->socket;
	world_lab_must(shmd_world_open(&attr, &world), "open");
	return world;
}

struct shmd_world *world_lab_open_started(const struct world_lab *lab, int pe)
{
	struct shmd_world *world = world_lab_open(lab, pe);

	world_lab_must(shmd_world_start(world), "start");
	return world;
}

void world_lab_close(struct shmd_world *world)
{
	world_lab_must(shmd_world_close(world), "close");
}

void world_lab_await_others(struct shmd_world *world, uint64_t *word, int pe)
{
	const struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = 1};
	struct shmd_ctx *ctx = shmd_world_ctx(world);

	if (pe == 1)
		world_lab_must(shmd_wait_until(ctx, word, 8, SHMD_CMP_EQ, (uint64_t)shmd_n_pes(world) - 1), "wait");
	else
		world_lab_must(shmd_atomic_fetch(ctx, word, &add, 1, NULL), "tell PE 1");
}
