/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions on ConnectX NICs that outlive their daemon, with the whole daemon under a service manager that keeps descriptors: it is
 * killed at each firmware command of a client's requests, and between them. On simulated NICs.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <shmemclient.h>
#include <shmd/dev/rma.h>

#include "proto/base/nsec.h"
#include "tests/lib/child.h"
#include "tests/lib/fixture-keeper.h"
#include "tests/lib/median.h"
#include "tests/lib/sim-nic.h"
#include "tests/lib/test.h"
#include "tests/system/ctl-lab.h"

#define LIMIT_NSEC (60 * NSEC_PER_SEC)
#define NAMES_BYTES 4096
#define MEM_BYTES 65536u
#define SOURCE 0u /* words of the memory */
#define TARGET 512u
#define COMMANDS_MAX 400u
#define SHORT_STRIDE 11u
#define PUTS 200u
#define FEW_KILLS 3u
#define MANY_KILLS 100u
#define PUTS_AFTER_STOP 16u /* unpolled: as many as the ring takes */
#define REST_NSEC (50 * NSEC_PER_MSEC)

/* ---- a client -------------------------------------------------------------------------------------------------------- */

struct user {
	struct shmd_client *client;
	struct shmd_nic *nic;
	struct shmd_mem *mem;
	struct shmd_mr *mr;
	struct shmd_queues *queues;
	struct shmd_dev_qp *qp;
	uint64_t *words;
	uint64_t last; /* value that was put */
};

static void must(int r, const char *what)
{
	if (r < 0)
		test_fail(TEST_WHERE, "%s: %s (%s)", what, strerror(-r), shmd_error_text());
}

static void connect_to_itself(struct user *user)
{
	const struct shmd_qp_params params = {
		.timeout = 16, .retry_count = 7, .rnr_retry = 7, .min_rnr_timer = 12, .max_rd_atomic = 16};
	struct shmd_addr address;

	must(shmd_queues_addr(user->queues, 0, &address), "address");
	must(shmd_queues_connect(user->queues, 0, 1, &address, &params, NULL), "connection");
}

/* 0, or at which command from the first request on the daemon is killed. */
static void user_open_and_kill(struct user *user, uint64_t kill_after)
{
	const struct shmd_client_attr client = {.timeout_nsec = LIMIT_NSEC};
	const struct shmd_nic_attr nic = {.nic = "mlx5_0"};
	const struct shmd_queues_attr queues = {.n_qps = 1};

	*user = (struct user){.client = NULL};
	must(shmd_client_open(&client, &user->client), "session");
	sim_nic_kill_after(0, kill_after);
	must(shmd_nic_open(user->client, &nic, &user->nic), "NIC");
	must(shmd_mem_alloc(user->client, MEM_BYTES, &user->mem), "memory");
	must(shmd_mr_reg_mem(user->nic, user->mem, SHMD_ACCESS_ALL, &user->mr), "registration");
	must(shmd_queues_create(user->nic, &queues, &user->queues), "queues");
	connect_to_itself(user);
	user->qp = shmd_queues_dev_qp(user->queues, 0);
	user->words = shmd_mem_addr(user->mem);
}

static void user_open(struct user *user)
{
	user_open_and_kill(user, 0);
}

static struct shmd_dev_addr at(const struct user *user, unsigned int word, shmd_be32 key)
{
	return shmd_dev_addr_of((uintptr_t)&user->words[word], key);
}

static void put(struct user *user)
{
	user->words[SOURCE] = ++user->last;
	ASSERT_EQ(shmd_dev_qp_put_nbi(user->qp, at(user, TARGET, shmd_mr_rkey_be(user->mr)),
				      at(user, SOURCE, shmd_mr_lkey_be(user->mr)), sizeof(uint64_t)),
		  SHMD_DEV_OK);
}

static bool has_come(const struct user *user)
{
	return __atomic_load_n(&user->words[TARGET], __ATOMIC_ACQUIRE) == user->last;
}

/* By the memory alone: no word of a daemon's ends it. */
static void wait_put(const struct user *user)
{
	uint64_t end = nsec_now() + LIMIT_NSEC;

	while (!has_come(user)) {
		ASSERT_LT(nsec_now(), end);
		shmd_dev_host_relax(0);
	}
}

static void put_and_quiet(struct user *user)
{
	put(user);
	wait_put(user);
	ASSERT_EQ(shmd_dev_qp_quiet(user->qp, LIMIT_NSEC), SHMD_DEV_OK);
}

static void user_close(struct user *user)
{
	must(shmd_queues_destroy(user->queues), "end of queues");
	must(shmd_mr_dereg(user->mr), "end of registration");
	shmd_mem_free(user->mem);
	must(shmd_nic_close(user->nic), "end of NIC");
	shmd_client_close(user->client);
}

/* ---- what is there ------------------------------------------------------------------------------------------------------- */

/* Contexts that a daemon has made in advance. */
static void wait_ready(unsigned int n)
{
	const struct timespec pause = {.tv_nsec = (long)NSEC_PER_MSEC};
	uint64_t end = nsec_now() + LIMIT_NSEC;
	char words[32];

	snprintf(words, sizeof(words), "\"n_ready\":%u,", n);
	while (CTL("list", "nics", "--json") != 0 || !strstr(ctl_text, words)) {
		ASSERT_LT(nsec_now(), end);
		nanosleep(&pause, NULL);
	}
}

static void start_with_pool(struct fixture_keeper *keeper, const char *doorbell, unsigned int n_ready)
{
	char mode[32], warm[32];

	snprintf(mode, sizeof(mode), "--doorbell=%s", doorbell);
	snprintf(warm, sizeof(warm), "--warm-contexts=%u", n_ready);
	/* Machines that are slow to start a daemon are no reason to give up. */
	fixture_keeper_start(keeper, "--restart-grace=60000", mode, warm, "--warm-queues=1", NULL);
	setenv("SHMEMD_SOCKET", keeper->daemon.socket, 1);
	if (n_ready)
		wait_ready(n_ready);
}

static void start(struct fixture_keeper *keeper, const char *doorbell)
{
	start_with_pool(keeper, doorbell, 0);
}

static void expect_kept(struct fixture_keeper *keeper, unsigned int n)
{
	const struct timespec pause = {.tv_nsec = (long)NSEC_PER_MSEC};
	uint64_t end = nsec_now() + LIMIT_NSEC;
	char names[NAMES_BYTES];

	while (fixture_keeper_list(keeper, names, sizeof(names)) != n) {
		if (nsec_now() > end)
			test_fail(TEST_WHERE, "not %u descriptors are kept, but:\n%s", n, names);
		nanosleep(&pause, NULL);
	}
}

/* ---- killed at a command --------------------------------------------------------------------------------------------------- */

/* False: no daemon was killed by then. */
static bool live_with_a_kill(struct fixture_keeper *keeper, unsigned int n_kept, unsigned int n_ready, uint64_t n)
{
	unsigned int n_starts = fixture_keeper_n_starts(keeper);
	struct user user;
	bool was_killed;

	user_open_and_kill(&user, n);
	put_and_quiet(&user);
	user_close(&user);
	/* The session's names go after its context: by the daemon's commands, of which one may be the last. */
	expect_kept(keeper, n_kept);
	was_killed = n && sim_nic_kill_over(0);
	if (was_killed)
		fixture_keeper_wait_start(keeper, n_starts + 1);
	expect_kept(keeper, n_kept);
	/* The pool's commands are not to be counted. Nobody waits for the porter, which closes the context a second later. */
	if (n_ready)
		wait_ready(n_ready);
	return was_killed;
}

static void kill_everywhere(const char *doorbell, unsigned int n_ready)
{
	struct fixture_keeper keeper = {0};
	char names[NAMES_BYTES];
	unsigned int n_kept, n_kills = 0;

	start_with_pool(&keeper, doorbell, n_ready);
	/* The daemon's own objects exist after its first session. */
	live_with_a_kill(&keeper, fixture_keeper_list(&keeper, names, sizeof(names)), n_ready, 0);
	n_kept = fixture_keeper_list(&keeper, names, sizeof(names));
	for (uint64_t n = 1; live_with_a_kill(&keeper, n_kept, n_ready, n); n += test_is_full() ? 1 : SHORT_STRIDE) {
		ASSERT_LT(n, COMMANDS_MAX);
		n_kills++;
	}
	ASSERT_GT(n_kills, 1u);
	printf("doorbell %s, %u contexts ready: %u kills\n", doorbell, n_ready, n_kills);
	/* Porters close contexts within a second. The last test waits until none is left, of all tests. */
	fixture_keeper_stop(&keeper);
}

TEST_TIMEOUT(client_whose_daemon_is_killed_at_a_command_gets_all_it_asks_for, 120)
{
	kill_everywhere("auto", 0);
}

TEST_TIMEOUT(client_in_mode_cpu_whose_daemon_is_killed_at_a_command_gets_all_it_asks_for, 120)
{
	kill_everywhere("cpu", 0);
}

/* Contexts without a session end with their daemon; a context that was handed out loses the batch that its session did not take. */
TEST_TIMEOUT(client_with_a_context_made_in_advance_gets_all_it_asks_for, 120)
{
	kill_everywhere("auto", 2);
}

/* ---- the daemon's processes ----------------------------------------------------------------------------------------------------- */

#define SOCKETS_MAX 256u

/* Inodes of the sockets that a process has; command descriptors of simulated NICs are sockets. */
static unsigned int list_sockets(pid_t pid, unsigned long inodes[SOCKETS_MAX])
{
	char path[64], file[64];
	struct dirent *entry;
	unsigned int n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		ssize_t bytes = readlinkat(dirfd(dir), entry->d_name, file, sizeof(file) - 1);

		file[bytes < 0 ? 0 : bytes] = '\0';
		if (n < SOCKETS_MAX && sscanf(file, "socket:[%lu]", &inodes[n]) == 1)
			n++;
	}
	if (dir)
		closedir(dir);
	return n;
}

static bool has_sockets(pid_t pid)
{
	unsigned long inodes[SOCKETS_MAX];

	return list_sockets(pid, inodes) > 0;
}

static pid_t child_of_zygote(pid_t daemon, const char *kind)
{
	char name[32];

	snprintf(name, sizeof(name), "%s %u", kind, (unsigned int)getuid());
	return child_called(child_called(daemon, "shmemd-zygote"), name);
}

/* ---- traffic while there is none --------------------------------------------------------------------------------------------- */

static void puts_take(struct user *user, const char *when)
{
	double usec[PUTS], middle;

	for (unsigned int i = 0; i < PUTS; i++) {
		uint64_t began = nsec_now();

		put(user);
		wait_put(user);
		usec[i] = (double)(nsec_now() - began) / 1000;
		ASSERT_EQ(shmd_dev_qp_quiet(user->qp, LIMIT_NSEC), SHMD_DEV_OK);
	}
	middle = median(usec, PUTS);
	printf("%s: %u puts, median %.1f us, longest %.1f us\n", when, PUTS, middle, usec[PUTS - 1]);
}

/* But for what moves by itself. */
static char *lists(void)
{
	static const char *const moving[] = {"age_nsec", "sq_pi", "sq_ci", NULL};

	return ctl_lists(moving);
}

TEST_TIMEOUT(traffic_by_the_nics_own_page_does_not_notice_and_lists_are_those_of_before, 60)
{
	struct fixture_keeper keeper = {0};
	char *before, *after;
	struct user user;

	start(&keeper, "auto");
	user_open(&user);
	puts_take(&user, "with a daemon");
	before = lists();
	fixture_keeper_hold(&keeper);
	puts_take(&user, "without");
	fixture_keeper_go(&keeper);
	puts_take(&user, "with the next");
	after = lists();
	ASSERT_STREQ(after, before);
	free(before);
	free(after);
	user_close(&user);
	fixture_keeper_stop(&keeper);
}

struct putter {
	struct user *user;
	bool stop; /* atomic */
	uint64_t n, longest_nsec;
};

static void *put_on(void *arg)
{
	struct putter *putter = arg;

	while (!__atomic_load_n(&putter->stop, __ATOMIC_ACQUIRE)) {
		uint64_t began = nsec_now(), nsec;

		put_and_quiet(putter->user);
		nsec = nsec_now() - began;
		putter->longest_nsec = nsec > putter->longest_nsec ? nsec : putter->longest_nsec;
		putter->n++;
	}
	return NULL;
}

static void put_while_killed(struct fixture_keeper *keeper, struct user *user, unsigned int n_kills)
{
	char *before = lists(), *after;
	struct putter putter = {.user = user};
	pthread_t thread;

	ASSERT_EQ(pthread_create(&thread, NULL, put_on, &putter), 0);
	for (unsigned int i = 0; i < n_kills; i++)
		fixture_keeper_kill_daemon(keeper);
	__atomic_store_n(&putter.stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	ASSERT_GT(putter.n, 0u);
	after = lists();
	ASSERT_STREQ(after, before);
	free(before);
	free(after);
	printf("%u kills: %llu puts, the longest %.1f ms\n", n_kills, (unsigned long long)putter.n,
	       (double)putter.longest_nsec / 1e6);
}

TEST_TIMEOUT(traffic_goes_through_while_daemons_come_and_go, 120)
{
	unsigned int n_kills = test_is_full() ? MANY_KILLS : FEW_KILLS, n_kept;
	struct fixture_keeper keeper = {0};
	char names[NAMES_BYTES];
	struct user user;

	start(&keeper, "auto");
	user_open(&user);
	fixture_keeper_kill_daemon(&keeper);
	n_kept = fixture_keeper_list(&keeper, names, sizeof(names));
	put_while_killed(&keeper, &user, n_kills);
	expect_kept(&keeper, n_kept);
	sim_nic_wait_contexts(0, 2);
	user_close(&user);
	fixture_keeper_stop(&keeper);
}

TEST_TIMEOUT(traffic_in_mode_cpu_rests_and_goes_on, 60)
{
	const struct timespec rest = {.tv_nsec = (long)REST_NSEC};
	struct fixture_keeper keeper = {0};
	struct user user;
	uint64_t began;
	pid_t mapper;

	start(&keeper, "cpu");
	user_open(&user);
	puts_take(&user, "with a daemon");
	mapper = child_of_zygote(keeper.daemon.pid, "mapper");
	fixture_keeper_hold(&keeper);
	/* It ends with its daemon, a moment later. */
	while (has_sockets(mapper))
		nanosleep(&rest, NULL);
	put(&user);
	nanosleep(&rest, NULL);
	ASSERT(!has_come(&user));
	began = nsec_now();
	fixture_keeper_go(&keeper);
	wait_put(&user);
	printf("%.1f ms from the next one's start on\n", (double)(nsec_now() - began) / 1e6);
	ASSERT_EQ(shmd_dev_qp_quiet(user.qp, LIMIT_NSEC), SHMD_DEV_OK);
	puts_take(&user, "with the next");
	user_close(&user);
	fixture_keeper_stop(&keeper);
}

/* ---- the last close ----------------------------------------------------------------------------------------------------- */

static bool has_socket(pid_t pid, unsigned long inode)
{
	unsigned long inodes[SOCKETS_MAX];
	unsigned int n = list_sockets(pid, inodes);

	while (n > 0)
		if (inodes[--n] == inode)
			return true;
	return false;
}

/* That of the only context: the daemon and its mapper share nothing else. */
static unsigned long command_descriptor(pid_t daemon, pid_t mapper)
{
	unsigned long inodes[SOCKETS_MAX];
	unsigned int n = list_sockets(mapper, inodes);

	while (n > 0)
		if (has_socket(daemon, inodes[--n]))
			return inodes[n];
	test_fail(TEST_WHERE, "daemon %d and mapper %d share no socket", (int)daemon, (int)mapper);
	return 0;
}

/* Fails if a process other than the porter still holds the descriptor after the porter has closed it: that process would close it last. */
static void expect_porter_is_last(const struct fixture_keeper *keeper, pid_t porter, unsigned long inode)
{
	uint64_t end = nsec_now() + LIMIT_NSEC;
	bool is_held = true;

	while (is_held) {
		is_held = has_socket(porter, inode);
		if (!is_held && (has_socket(keeper->daemon.pid, inode) || has_socket(keeper->pid, inode)))
			test_fail(TEST_WHERE, "the daemon or the service manager has a command descriptor for longer than the porter");
		ASSERT_LT(nsec_now(), end);
	}
}

static void close_and_expect_porter(const char *doorbell, bool is_restarted)
{
	struct fixture_keeper keeper = {0};
	unsigned long inode;
	struct user user;
	pid_t porter;

	start(&keeper, doorbell);
	user_open(&user);
	inode = command_descriptor(keeper.daemon.pid, child_of_zygote(keeper.daemon.pid, "mapper"));
	if (is_restarted)
		fixture_keeper_kill_daemon(&keeper);
	put_and_quiet(&user);
	porter = child_of_zygote(keeper.daemon.pid, "porter");
	ASSERT_GT(porter, 0);
	ASSERT(has_socket(keeper.daemon.pid, inode) && has_socket(keeper.pid, inode));
	shmd_client_close(user.client);
	expect_porter_is_last(&keeper, porter, inode);
	fixture_keeper_stop(&keeper);
}

TEST_TIMEOUT(porter_closes_the_command_descriptor_of_a_kept_context_last, 60)
{
	close_and_expect_porter("auto", false);
}

TEST_TIMEOUT(porter_of_the_next_daemon_closes_the_command_descriptor_last, 60)
{
	close_and_expect_porter("cpu", true);
}

/* As systemctl stop: nothing is kept any more. */
TEST_TIMEOUT(queues_run_after_a_stop_until_their_client_goes, 60)
{
	struct fixture_keeper keeper = {0};
	uint64_t end = nsec_now() + LIMIT_NSEC;
	struct user user;

	start(&keeper, "auto");
	user_open(&user);
	put_and_quiet(&user);
	fixture_keeper_stop(&keeper);
	for (unsigned int i = 0; i < PUTS_AFTER_STOP; i++) {
		put(&user);
		wait_put(&user);
	}
	while (shmd_client_health(user.client) != SHMD_HEALTH_DAEMON_GONE)
		ASSERT_LT(nsec_now(), end);
	/* The command descriptor and the page are the last of its context. */
	sim_nic_wait_contexts(0, 1);
	shmd_client_close(user.client);
	sim_nic_wait_contexts(0, 0);
}
