/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of queues on ConnectX NICs whose firmware takes its time: attaching, 1,000 QPs by phase, memory of RC QPs and of
 * a session with dynamic connections, in time, memory and firmware commands. Goals are shown and judge nothing.
 *
 *	bench-mlx5 MLX5SIM WITH_DAEMON SHMEMD SHMEMCTL		all parts, each with a simulator and a daemon of its own
 *
 * A daemon that has served others has memory to use again, so none is measured twice. Commands are those that the
 * simulator counts for mlx5_0, whoever sent them, so every figure begins and ends when nobody else has a session.
 */
#include "bench-mlx5.h"
#include "ref/ref.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <shmemclient-admin.h>

#define FW_LATENCY_USEC "200"
#define LIMIT_NSEC 120000000000ull /* a request of 1,000 QPs, on a machine that has other work */
#define QUIET_LOOKS 10u

extern char **environ;

struct shmd_client *bench_control;

/* ---- commands ---------------------------------------------------------------------------------------------------- */

static uint64_t commands_now(void)
{
	char path[256];
	uint64_t n = 0;
	int fd;

	snprintf(path, sizeof(path), "%.200s/commands", getenv("MLX5SIM_ROOT"));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, &n, sizeof(n)) != sizeof(n)) {
		perror(path);
		exit(1);
	}
	close(fd);
	return n;
}

struct bench_mark bench_mark_now(void)
{
	return (struct bench_mark){ref_now_nsec(), commands_now()};
}

bool bench_wait_for_quiet(void)
{
	uint64_t end = ref_now_nsec() + LIMIT_NSEC, n = 0;
	struct shmd_daemon_status status;

	for (unsigned int looks = 0; looks < QUIET_LOOKS; looks++) {
		if (shmd_admin_status(bench_control, &status) < 0 || ref_now_nsec() > end)
			return bench_complain("wait for the last session's end");
		if (status.n_sessions || status.n_qps || commands_now() != n)
			looks = 0;
		n = commands_now();
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	}
	return true;
}

/* ---- several figures of one run ---------------------------------------------------------------------------------- */

void bench_add(struct bench_figures *f, double msec, double commands)
{
	f->msec[f->n] = msec;
	f->commands[f->n++] = commands / (f->per ? f->per : 1);
}

static void add_between(struct bench_figures *f, const struct bench_mark *from, const struct bench_mark *to)
{
	bench_add(f, (double)(to->nsec - from->nsec) / 1e6, (double)(to->commands - from->commands));
}

static double next_msec(void *arg)
{
	struct bench_figures *f = arg;

	return f->msec[f->n_told++ % f->n];
}

static double next_commands(void *arg)
{
	struct bench_figures *f = arg;

	return f->commands[f->n_told++ % f->n];
}

static bool tell(struct bench_figures *f)
{
	const struct bench_row msec = {.name = f->name, .unit = "ms", .ours = next_msec, .arg = f};
	const struct bench_row commands = {
		.name = f->per ? "  commands of each QP" : "  commands", .unit = "", .ours = next_commands, .arg = f,
		.goal = f->goal_commands,
	};

	return bench_run(&msec) && bench_run(&commands);
}

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

bool bench_open_client(struct bench_end *end)
{
	const struct shmd_client_attr attr = {.timeout_nsec = LIMIT_NSEC};

	return shmd_client_open(&attr, &end->client) >= 0 || bench_complain("open a session");
}

bool bench_make_queues(struct bench_end *end, unsigned int n, enum shmd_qp_type type)
{
	const struct shmd_queues_attr attr = {.n_qps = n, .sq_wqebbs = DEPTH, .qp_type = type};

	return shmd_queues_create(end->nic, &attr, &end->queues) >= 0 || bench_complain("create queues");
}

bool bench_open_nic(struct bench_end *end)
{
	return shmd_nic_open(end->client, NULL, &end->nic) >= 0 || bench_complain("open the NIC");
}

/* ---- 1,000 QPs --------------------------------------------------------------------------------------------------- */

enum { PHASE_CREATE, PHASE_CONNECT, PHASE_DESTROY, N_PHASES };

static bool thousand(struct bench_mark at[N_PHASES + 1])
{
	struct bench_end end = {0};
	bool good = bench_open_client(&end) && bench_open_nic(&end);

	*at++ = bench_mark_now();
	good = good && bench_make_queues(&end, N_QPS, SHMD_QP_TYPE_RC);
	*at++ = bench_mark_now();
	good = good && bench_end_connect(&end, &end, N_QPS) >= 0;
	*at++ = bench_mark_now();
	good = good && (shmd_queues_destroy(end.queues) >= 0 || bench_complain("destroy queues"));
	*at = bench_mark_now();
	bench_end_close(&end);
	return good;
}

static bool bench_phases(void)
{
	static struct bench_figures phases[N_PHASES] = {
		{.name = "create", .per = N_QPS}, {.name = "connect", .per = N_QPS}, {.name = "destroy", .per = N_QPS},
	};
	static struct bench_figures attached = {.name = "create and connect", .per = N_QPS, .goal_commands = 5};
	struct bench_mark at[N_PHASES + 1];
	bool good = true;

	for (unsigned int i = 0; i < BENCH_RUNS; i++) {
		if (!bench_wait_for_quiet() || !thousand(at))
			return false;
		for (unsigned int p = 0; p < N_PHASES; p++)
			add_between(&phases[p], &at[p], &at[p + 1]);
		add_between(&attached, &at[PHASE_CREATE], &at[PHASE_DESTROY]);
	}
	printf("%u QPs of depth %u in one call, by phase\n", N_QPS, DEPTH);
	for (unsigned int p = 0; p < N_PHASES; p++)
		good = tell(&phases[p]) && good;
	return tell(&attached) && good;
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	bool (*run)(void);
} parts[] = {
	{"attach", bench_attach},
	{"phases", bench_phases},
	{"memory-rc", bench_memory_rc},
	{"memory-dc", bench_memory_dc},
};

/* Every part has had a session before: what a daemon and a library make once is there. */
static int run_part(const char *name)
{
	const struct shmd_client_attr attr = {.role = SHMD_ROLE_CONTROL};
	bool good = false;

	if (!getenv("MLX5SIM_ROOT")) {
		fprintf(stderr, "a part is run by the program itself, under mlx5sim\n");
		return 2;
	}
	if (shmd_client_open(&attr, &bench_control) < 0) {
		bench_complain("open a control session");
		return 1;
	}
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strcmp(name, parts[i].name) == 0)
			good = bench_attach_once() && bench_wait_for_quiet() && parts[i].run() && bench_wait_for_quiet();
	shmd_client_close(bench_control);
	return good ? 0 : 1;
}

static bool spawn_part(char **argv, const char *name)
{
	const char *args[] = {
		argv[1], "--fw-latency", FW_LATENCY_USEC, "--log", "/dev/null", "--", /* the simulator */
		argv[2], argv[3], argv[4], argv[0], name, NULL, /* what it runs */
	};
	int status = 0;
	pid_t pid;

	fflush(stdout);
	if (posix_spawnp(&pid, args[0], NULL, NULL, (char *const *)args, environ) != 0 || waitpid(pid, &status, 0) != pid)
		return false;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Settings that a part changes. */
static bool make_conf(void)
{
	static char path[128];
	char args[192];
	int fd;

	snprintf(path, sizeof(path), "%.90s/shmemd-bench-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	fd = mkstemp(path);
	if (fd < 0) {
		perror(path);
		return false;
	}
	close(fd);
	snprintf(args, sizeof(args), "--backend mlx5 --config %s", path);
	setenv("SHMEMD_ARGS", args, 1);
	setenv("BENCH_MLX5_CONF", path, 1);
	return true;
}

int main(int argc, char **argv)
{
	bool good = true;

	if (argc == 2)
		return run_part(argv[1]);
	if (argc != 5) {
		fprintf(stderr, "usage: bench-mlx5 MLX5SIM WITH_DAEMON SHMEMD SHMEMCTL\n");
		return 2;
	}
	if (!make_conf())
		return 1;
	printf("mlx5 backend, simulated firmware of " FW_LATENCY_USEC " us a command: medians, +- half the spread\n");
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		good = spawn_part(argv, parts[i].name) && good;
	unlink(getenv("BENCH_MLX5_CONF"));
	return good ? 0 : 1;
}
