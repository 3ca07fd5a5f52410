/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of sessions that outlive the daemon: registering memory under a service manager that keeps descriptors, in a small
 * session and in one with 4,000 regions, and in a session that ends with its daemon. Each region of memory of its own is one more
 * descriptor for the manager: sessions with many and with few of them have a manager each.
 *
 * bench-save FD-KEEPER SHMEMD, within with-daemon.sh, whose daemon keeps nothing.
 */
#include "bench.h"
#include "ref/ref.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define FEW 64u
#define MANY 4000u
#define FEW_OWN 32u
#define START_NSEC 10000000000ull

struct side {
	struct shmd_client *client;
	struct shmd_nic *nic;
	struct shmd_mem *mem; /* of all its regions */
	bool own; /* each region of memory of its own */
};

/* ---- a daemon under a service manager ------------------------------------------------------------------------------ */

struct manager {
	char folder[64], socket[96];
	pid_t pid;
};

/* In the child. */
static void __attribute__((noreturn)) become_manager(const struct manager *manager, char **argv)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	execl(argv[1], argv[1], manager->folder, "8192", "", argv[2], "--config=/dev/null", "--socket", manager->socket,
	      "--soft-nics=1", "--max-mrs=16384", NULL);
	_exit(127);
}

static bool manager_start(struct manager *manager, char **argv)
{
	snprintf(manager->folder, sizeof(manager->folder), "/tmp/bench-save-XXXXXX");
	if (!mkdtemp(manager->folder))
		return false;
	snprintf(manager->socket, sizeof(manager->socket), "%s/sock", manager->folder);
	manager->pid = fork();
	if (manager->pid == 0)
		become_manager(manager, argv);
	return manager->pid > 0;
}

/* Its daemon dies with it. */
static void manager_stop(struct manager *manager)
{
	static const char *const names[] = {"sock", "log", "notify", "control"};
	char path[128];

	if (manager->pid <= 0)
		return;
	kill(manager->pid, SIGKILL);
	waitpid(manager->pid, NULL, 0);
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%.63s/%s", manager->folder, names[i]);
		unlink(path);
	}
	rmdir(manager->folder);
}

/* ---- sessions ------------------------------------------------------------------------------------------------------ */

static int reg(struct side *side, struct shmd_mem **ret_mem, struct shmd_mr **ret_mr)
{
	int r = 0;

	*ret_mem = side->mem;
	if (side->own)
		r = shmd_mem_alloc(side->client, 4096, ret_mem);
	return r < 0 ? r : shmd_mr_reg_mem(side->nic, *ret_mem, SHMD_ACCESS_ALL, ret_mr);
}

/* The daemon may not listen yet. */
static bool side_open(struct side *side, const char *socket, unsigned int n_regions, bool own)
{
	const struct shmd_client_attr attr = {.socket_path = socket};
	uint64_t end = ref_now_nsec() + START_NSEC;
	struct shmd_mem *mem;
	struct shmd_mr *mr;
	int r;

	*side = (struct side){.own = own};
	while ((r = shmd_client_open(&attr, &side->client)) < 0 && ref_now_nsec() < end)
		usleep(1000);
	if (r >= 0)
		r = shmd_nic_open(side->client, NULL, &side->nic);
	if (r >= 0)
		r = shmd_mem_alloc(side->client, 65536, &side->mem);
	for (unsigned int i = 0; r >= 0 && i < n_regions; i++)
		r = reg(side, &mem, &mr);
	return r >= 0 || bench_complain("open a session");
}

static double time_reg(void *arg)
{
	struct side *side = arg;
	struct shmd_mem *mem;
	struct shmd_mr *mr;
	uint64_t start, end;

	if (side->own && shmd_mem_alloc(side->client, 4096, &mem) < 0)
		return -1;
	if (!side->own)
		mem = side->mem;
	start = ref_now_nsec();
	if (shmd_mr_reg_mem(side->nic, mem, SHMD_ACCESS_ALL, &mr) < 0)
		return -1;
	end = ref_now_nsec();
	shmd_mr_dereg(mr);
	if (side->own)
		shmd_mem_free(mem);
	return (double)(end - start) / 1e3;
}

static double time_dereg(void *arg)
{
	struct side *side = arg;
	struct shmd_mem *mem;
	struct shmd_mr *mr;
	uint64_t start;

	if (reg(side, &mem, &mr) < 0)
		return -1;
	start = ref_now_nsec();
	shmd_mr_dereg(mr);
	return (double)(ref_now_nsec() - start) / 1e3;
}

enum { KEPT_FEW, KEPT_MANY, KEPT_OWN, KEPT_OWN_MANY, UNKEPT, UNKEPT_OWN, N_SIDES };
static struct side sides[N_SIDES];

/*
 * The two sessions of one NIC take turns within a run: the places of client, daemon and NIC thread on the cores change a figure by
 * a factor of four, and stay for many runs.
 */
struct turns {
	double (*time)(void *arg);
	struct side *few, *many;
	double reference; /* of the last run */
};

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double take_turns(void *arg)
{
	struct turns *turns = arg;
	double many[BENCH_SLICES], few[BENCH_SLICES];

	for (unsigned int i = 0; i < BENCH_SLICES; i++) {
		/* Each of them first, by turns. */
		for (unsigned int k = i; k < i + 2; k++)
			(k % 2 ? many : few)[i] = turns->time(k % 2 ? turns->many : turns->few);
		if (few[i] < 0 || many[i] < 0)
			return -1;
	}
	qsort(few, BENCH_SLICES, sizeof(few[0]), compare);
	qsort(many, BENCH_SLICES, sizeof(many[0]), compare);
	turns->reference = few[BENCH_SLICES / 2];
	return many[BENCH_SLICES / 2];
}

static double last_reference(void *arg)
{
	return ((struct turns *)arg)->reference;
}

#define FIGURE(name, slice, side) \
	static double name(void *arg) \
	{ \
		return bench_median_slice(slice, &sides[side]); \
	}
FIGURE(reg_few, time_reg, KEPT_FEW)
FIGURE(reg_unkept, time_reg, UNKEPT)
FIGURE(reg_own, time_reg, KEPT_OWN)
FIGURE(reg_own_unkept, time_reg, UNKEPT_OWN)

static bool open_all(const struct manager managers[2])
{
	return side_open(&sides[KEPT_FEW], managers[0].socket, FEW, false) &&
	       side_open(&sides[KEPT_MANY], managers[0].socket, MANY, false) &&
	       side_open(&sides[KEPT_OWN], managers[0].socket, FEW_OWN, true) &&
	       side_open(&sides[KEPT_OWN_MANY], managers[1].socket, MANY, true) &&
	       side_open(&sides[UNKEPT], NULL, FEW, false) && side_open(&sides[UNKEPT_OWN], NULL, FEW_OWN, true);
}

static struct bench_row turns_row(const char *name, const char *few, struct turns *turns)
{
	return (struct bench_row){.name = name, .unit = "us", .ours = take_turns, .reference = last_reference, .arg = turns,
				  .reference_name = few, .ratio_limit = 1.5, .goal = 100, .fail_limit = 10000};
}

static bool measure(void)
{
	struct turns regs = {time_reg, &sides[KEPT_FEW], &sides[KEPT_MANY], 0};
	struct turns deregs = {time_dereg, &sides[KEPT_FEW], &sides[KEPT_MANY], 0};
	struct turns own_regs = {time_reg, &sides[KEPT_OWN], &sides[KEPT_OWN_MANY], 0};
	struct turns own_deregs = {time_dereg, &sides[KEPT_OWN], &sides[KEPT_OWN_MANY], 0};
	const struct bench_row rows[] = {
		turns_row("register, 4,000 regions", "64 regions", &regs),
		turns_row("deregister, 4,000 regions", "64 regions", &deregs),
		turns_row("register, 4,000 memories", "32 memories", &own_regs),
		turns_row("deregister, 4,000 memories", "32 memories", &own_deregs),
		{.name = "register, 64 regions", .unit = "us", .ours = reg_few, .reference = reg_unkept,
		 .reference_name = "nothing kept", .goal = 100, .fail_limit = 10000},
		{.name = "register memory of its own", .unit = "us", .ours = reg_own, .reference = reg_own_unkept,
		 .reference_name = "nothing kept", .goal = 100, .fail_limit = 10000},
	};
	bool good = true;

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		good = bench_run(&rows[i]) && good;
	return good;
}

int main(int argc, char **argv)
{
	struct manager managers[2] = {0};
	struct rlimit files;
	bool good;

	if (argc != 3) {
		fprintf(stderr, "usage: bench-save FD-KEEPER SHMEMD\n");
		return 2;
	}
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	bench_header("sessions that outlive the daemon, soft NIC");
	good = manager_start(&managers[0], argv) && manager_start(&managers[1], argv) && open_all(managers) && measure();
	for (unsigned int i = 0; i < N_SIDES; i++)
		shmd_client_close(sides[i].client);
	for (unsigned int i = 0; i < 2; i++)
		manager_stop(&managers[i]);
	return good ? 0 : 1;
}
