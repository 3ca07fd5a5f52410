/* SPDX-License-Identifier: Apache-2.0 */
/* The hot-spot watch with the whole daemon, on soft NICs: what it tells of, to whom and how often, and what it is silent about. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmd/dev/rma.h>
#include <shmemclient.h>
#include <shmemclient-admin.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/test.h"
#include "tests/system/ctl-lab.h"

#define LIMIT_NSEC (60 * NSEC_PER_SEC)
#define PUT_NSEC (20 * NSEC_PER_SEC)
#define HALF 32768u
#define QUICK "--hot-spot-period=20", "--hot-spot-time=200", "--hot-spot-rate=1"

/* A session with one QP connected to itself. */
struct one {
	struct shmd_client *client;
	struct shmd_nic *nic;
	struct shmd_mem *mem;
	struct shmd_mr *mr;
	struct shmd_queues *queues;
};

static void open_one(struct one *one, const struct fixture_daemon *daemon, const char *nic, const char *gpu)
{
	struct shmd_client_attr client_attr = {.socket_path = daemon->socket};
	struct shmd_nic_attr nic_attr = {.nic = nic, .gpu = gpu};
	struct shmd_queues_attr attr = {.n_qps = 1};
	struct shmd_addr addr;

	ASSERT_OK(shmd_client_open(&client_attr, &one->client));
	ASSERT_OK(shmd_nic_open(one->client, &nic_attr, &one->nic));
	ASSERT_OK(shmd_mem_alloc(one->client, 2 * HALF, &one->mem));
	ASSERT_OK(shmd_mr_reg_mem(one->nic, one->mem, SHMD_ACCESS_ALL, &one->mr));
	ASSERT_OK(shmd_queues_create(one->nic, &attr, &one->queues));
	ASSERT_OK(shmd_queues_addr(one->queues, 0, &addr));
	ASSERT_OK(shmd_queues_connect(one->queues, 0, 1, &addr, NULL, NULL));
}

static void close_one(struct one *one)
{
	ASSERT_OK(shmd_queues_destroy(one->queues));
	ASSERT_OK(shmd_mr_dereg(one->mr));
	shmd_mem_free(one->mem);
	ASSERT_OK(shmd_nic_close(one->nic));
	shmd_client_close(one->client);
}

static void move(struct one *one)
{
	uint64_t heap = (uintptr_t)shmd_mem_addr(one->mem);

	ASSERT_EQ(shmd_dev_qp_put(shmd_queues_dev_qp(one->queues, 0), shmd_dev_addr_of(heap + HALF, shmd_mr_rkey_be(one->mr)),
				  shmd_dev_addr_of(heap, shmd_mr_lkey_be(one->mr)), HALF, PUT_NSEC), SHMD_DEV_OK);
}

/* Both as much; b may be NULL. */
static struct shmd_daemon_status move_and_ask(struct one *a, struct one *b)
{
	struct shmd_daemon_status status;

	for (int i = 0; i < 4; i++) {
		move(a);
		if (b)
			move(b);
	}
	ASSERT_OK(shmd_admin_status(a->client, &status));
	return status;
}

static struct shmd_daemon_status move_until_hot(struct one *a, struct one *b, const char *nic)
{
	uint64_t end = nsec_now() + LIMIT_NSEC;
	struct shmd_daemon_status status = move_and_ask(a, b);

	while (strcmp(status.hot_nic, nic) != 0) {
		ASSERT_LT(nsec_now(), end);
		status = move_and_ask(a, b);
	}
	return status;
}

static void move_without_news(struct one *a, struct one *b, uint64_t nsec)
{
	uint64_t end = nsec_now() + nsec;

	while (nsec_now() < end)
		ASSERT_STREQ(move_and_ask(a, b).hot_nic, "");
}

/* Lines of the log with both. */
static unsigned int count_lines(const struct fixture_daemon *daemon, const char *level, const char *words)
{
	FILE *file = fopen(daemon->log, "re");
	unsigned int n = 0;
	char line[1024];

	ASSERT(file);
	while (fgets(line, sizeof(line), file))
		n += strstr(line, level) && strstr(line, words);
	fclose(file);
	return n;
}

/* Traffic that goes on while the test looks elsewhere, which takes long on a busy machine. */
struct mover {
	pthread_t thread;
	struct one *a, *b;
	bool both, stop; /* atomic */
};

static void *run_mover(void *arg)
{
	struct mover *mover = arg;

	while (!__atomic_load_n(&mover->stop, __ATOMIC_ACQUIRE)) {
		move(mover->a);
		if (__atomic_load_n(&mover->both, __ATOMIC_ACQUIRE))
			move(mover->b);
	}
	return NULL;
}

/* Another process, with a NIC that it does not use. */
static pid_t start_idler(const struct fixture_daemon *daemon, const char *nic)
{
	pid_t parent = getpid(), pid = fork();
	struct one one;

	ASSERT_GE(pid, 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	open_one(&one, daemon, nic, NULL);
	for (;;)
		pause();
}

static void wait_sessions(struct one *one, unsigned int n)
{
	uint64_t end = nsec_now() + LIMIT_NSEC;
	struct shmd_daemon_status status = {0};

	while (status.n_sessions != n) {
		ASSERT_LT(nsec_now(), end);
		ASSERT_OK(shmd_admin_status(one->client, &status));
		usleep(1000);
	}
}

/* Runs shmemctl until it shows the words: a mover that gets no CPU for a while makes it end, and begin anew. */
static void show_until(const char *const *command, const char *words)
{
	uint64_t end = nsec_now() + LIMIT_NSEC;

	do {
		ASSERT_LT(nsec_now(), end);
		ASSERT_EQ(ctl_run(command), 0);
	} while (!strstr(ctl_text, words));
}
#define SHOW_UNTIL(words, ...) show_until((const char *const[]){__VA_ARGS__, NULL}, words)

static void assert_shown(const char *process)
{
	SHOW_UNTIL("hot spot        soft0 has carried 100 % of the load of soft0, soft1 for ", "status");
	ASSERT_HAS(process);
	SHOW_UNTIL("\"hot_nic\":\"soft0\",\"hot_among\":\"soft0, soft1\",\"hot_processes\":\"", "--json", "status");
	ASSERT_HAS(process, "\"hot_share_percent\":100,");
	SHOW_UNTIL("\nshmemd_nic_hot{nic=\"soft0\"} 1\n", "metrics", "nics");
	ASSERT_HAS("\nshmemd_nic_hot{nic=\"soft1\"} 0\n", "\nshmemd_nic_hot{nic=\"soft2\"} 0\n");
}

static struct shmd_daemon_status wait_hot(struct one *one, const char *nic)
{
	uint64_t end = nsec_now() + LIMIT_NSEC;
	struct shmd_daemon_status status;

	do {
		ASSERT_LT(nsec_now(), end);
		usleep(5000);
		ASSERT_OK(shmd_admin_status(one->client, &status));
	} while (strcmp(status.hot_nic, nic) != 0);
	return status;
}

TEST_TIMEOUT(one_nic_that_carries_all_is_told_of_once_with_its_processes, 300)
{
	char mine[32], theirs[32], logged[128];
	struct mover mover = {.both = false};
	struct shmd_daemon_status status;
	struct fixture_daemon daemon;
	struct one busy, other;
	pid_t idler;

	fixture_daemon_start(&daemon, "--soft-nics=3", QUICK, NULL);
	setenv("SHMEMD_SOCKET", daemon.socket, 1);
	open_one(&busy, &daemon, "soft0", NULL);
	idler = start_idler(&daemon, "soft1");
	wait_sessions(&busy, 2);
	open_one(&other, &daemon, "soft1", NULL);
	mover.a = &busy;
	mover.b = &other;
	ASSERT_OK(pthread_create(&mover.thread, NULL, run_mover, &mover));
	status = wait_hot(&other, "soft0");
	snprintf(mine, sizeof(mine), "pid %d (", (int)getpid());
	snprintf(theirs, sizeof(theirs), "pid %d (", (int)idler);
	ASSERT_STREQ(status.hot_among, "soft0, soft1");
	ASSERT_EQ(status.hot_share_percent, 100);
	ASSERT_GE(status.hot_nsec, 200 * NSEC_PER_MSEC);
	ASSERT(strstr(status.hot_processes, mine));
	ASSERT(!strstr(status.hot_processes, theirs));
	snprintf(logged, sizeof(logged), "soft0 has carried 100 %% of the load of soft0, soft1 for more than 0.2 s: %s", mine);
	fixture_daemon_assert_logged(&daemon, logged);
	assert_shown(mine);
	/* A spread load ends the hot spot; the log has one line for each beginning, not for each look. */
	__atomic_store_n(&mover.both, true, __ATOMIC_RELEASE);
	wait_hot(&other, "");
	ASSERT_EQ(CTL("status"), 0);
	ctl_assert_lacks("hot spot");
	fixture_daemon_assert_logged(&daemon, "soft0 carries only its share again");
	ASSERT_EQ(count_lines(&daemon, "warning: ", " carries "), count_lines(&daemon, "info: ", " carries no more "));
	__atomic_store_n(&mover.stop, true, __ATOMIC_RELEASE);
	ASSERT_OK(pthread_join(mover.thread, NULL));
	ASSERT_OK(kill(idler, SIGKILL));
	ASSERT_EQ(waitpid(idler, NULL, 0), idler);
	close_one(&busy);
	close_one(&other);
	fixture_daemon_stop(&daemon);
}

TEST_TIMEOUT(load_that_is_spread_and_a_nic_alone_are_not_told_of, 120)
{
	struct fixture_daemon daemon;
	struct one a, b;

	fixture_daemon_start(&daemon, "--soft-nics=2", QUICK, NULL);
	open_one(&a, &daemon, "soft0", NULL);
	move_without_news(&a, NULL, NSEC_PER_SEC);
	open_one(&b, &daemon, "soft1", NULL);
	move_without_news(&a, &b, 2 * NSEC_PER_SEC);
	ASSERT_EQ(count_lines(&daemon, "warning: ", " carries "), 0);
	close_one(&a);
	close_one(&b);
	fixture_daemon_stop(&daemon);
}

TEST_TIMEOUT(all_nics_of_a_gpu_are_assigned_to_who_names_it, 120)
{
	struct shmd_daemon_status status;
	struct fixture_daemon daemon;
	char path[128];
	struct one one;
	FILE *out;

	test_make_file(path, sizeof(path), "shmemd-machine");
	out = fopen(path, "we");
	ASSERT(out);
	fputs("<shmemd-topology version=\"1\" numa_nodes=\"1\"><host numa=\"0\"><bridge hops=\"1\">\n"
	      "<bridge hops=\"1\"><function pci=\"10:00.0\" class=\"0302\"/></bridge>\n"
	      "<bridge hops=\"1\"><function pci=\"11:00.0\" class=\"0207\"/></bridge>\n"
	      "<bridge hops=\"1\"><function pci=\"12:00.0\" class=\"0207\"/></bridge>\n"
	      "</bridge></host></shmemd-topology>\n", out);
	ASSERT_OK(fclose(out));
	setenv("SHMEMD_TOPOLOGY", path, 1);
	fixture_daemon_start(&daemon, "--backend=soft", "--soft-nics=3", QUICK, NULL);
	open_one(&one, &daemon, NULL, "0000:10:00.0");
	status = move_until_hot(&one, NULL, "soft0");
	ASSERT_STREQ(status.hot_among, "soft0, soft1");
	close_one(&one);
	/* Nobody is slowed any more. */
	fixture_daemon_assert_logged(&daemon, "soft0 carries only its share again");
	fixture_daemon_stop(&daemon);
	ASSERT_OK(unlink(path));
}

static void write_conf(const char *path, const char *settings)
{
	FILE *file = fopen(path, "we");

	ASSERT(file);
	ASSERT_GE(fputs(settings, file), 0);
	ASSERT_OK(fclose(file));
}

TEST_TIMEOUT(settings_change_while_the_daemon_runs, 180)
{
	struct fixture_daemon daemon;
	char path[96], option[128];
	struct one a, b;

	test_make_file(path, sizeof(path), "shmemd-hot");
	write_conf(path, "hot-spot-period = 0\nhot-spot-time = 0\nhot-spot-rate = 0\n");
	snprintf(option, sizeof(option), "--config=%s", path);
	fixture_daemon_start(&daemon, "--soft-nics=2", option, NULL);
	open_one(&a, &daemon, "soft0", NULL);
	open_one(&b, &daemon, "soft1", NULL);
	move_without_news(&a, NULL, NSEC_PER_SEC / 2);
	write_conf(path, "hot-spot-period = 10\nhot-spot-time = 0\nhot-spot-rate = 0\n");
	ASSERT_OK(kill(daemon.pid, SIGHUP));
	move_until_hot(&a, NULL, "soft0");
	write_conf(path, "hot-spot-period = 0\nhot-spot-time = 0\nhot-spot-rate = 0\n");
	ASSERT_OK(kill(daemon.pid, SIGHUP));
	move_until_hot(&a, NULL, "");
	move_without_news(&a, NULL, NSEC_PER_SEC / 2);
	close_one(&a);
	close_one(&b);
	fixture_daemon_stop(&daemon);
	ASSERT_OK(unlink(path));
}
