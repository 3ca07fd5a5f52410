/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users who make the kernel wait for their memory, and sessions that outlive the daemon: these come, go, and go on in the next daemon.
 *
 * As in test-stall, one user punches holes at the lowest of all priorities. Bounds are far above what is normal, as tests run on busy
 * machines; what was measured is printed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-keeper.h"
#include "tests/lib/puncher.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/system/raw-traffic.h"
#include "tests/system/stall-admin.h"

#define ATTACKER 40001u
#define OTHERS 40100u
#define N_OTHERS 12u
#define MEMORY_BYTES (64u << 20)
#define ATTACK_NSEC ((test_is_full() ? 15 : 2) * NSEC_PER_SEC)
/* Twice three quarters of restart-grace, which is 5 s. */
#define RESUMED_NSEC (7500 * NSEC_PER_MSEC)
#define STOPPED_NSEC (30 * NSEC_PER_SEC)

struct shared {
	uint32_t has_begun, stop, n_sessions, n_mappings;
};

static struct shared *make_shared(void)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT(shared != MAP_FAILED);
	return shared;
}

static void check_machine(void)
{
	if (geteuid() != 0)
		test_skip("needs root, to be other users");
	/* It maps memory whenever it likes, and then waits for the hole. */
	if (test_has_sanitizer())
		test_skip("a sanitizer has an allocator of its own");
}

static bool has_stopped(const struct shared *shared)
{
	return __atomic_load_n(&shared->stop, __ATOMIC_ACQUIRE);
}

static void become(uint32_t uid)
{
	ASSERT_OK(setgid(uid));
	ASSERT_OK(setuid(uid));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void await(uint32_t *word)
{
	while (!__atomic_load_n(word, __ATOMIC_ACQUIRE))
		usleep(1000);
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	ASSERT_EQ(waitpid(pid, NULL, 0), pid);
}

/* ---- an attacker who has memory mapped ------------------------------------------------------------------------------- */

static uint32_t register_memory(struct raw_client *raw, int memfd)
{
	struct msg req, rep;

	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){
		.kind = MSG_MEM_MEMFD, .access = 0xf, .length_bytes = MEMORY_BYTES, .iova = RAW_TRAFFIC_IOVA};
	raw_expect(raw, &req, &memfd, 1, MSG_MEM_REG_REP, &rep);
	return rep.mem_reg_rep.mr;
}

static void __attribute__((noreturn)) map_and_unmap(const char *socket, int memfd, struct shared *shared)
{
	struct raw_client raw;

	become(ATTACKER);
	raw_connect(&raw, socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	raw_open_nic(&raw, raw_traffic_nic(0));
	__atomic_store_n(&shared->has_begun, 1, __ATOMIC_RELEASE);
	while (!has_stopped(shared)) {
		struct msg req, rep;

		msg_init(&req, MSG_MEM_DEREG_REQ, 0);
		req.mem_dereg_req.handle = register_memory(&raw, memfd);
		raw_expect(&raw, &req, NULL, 0, MSG_OK_REP, &rep);
		shared->n_mappings++;
	}
	_exit(0);
}

/* Users with sessions that outlive the daemon: their state comes, grows and goes. */
static void __attribute__((noreturn)) come_and_go(const char *socket, uint32_t uid, struct shared *shared)
{
	become(uid);
	while (!has_stopped(shared)) {
		struct raw_client raw;
		struct msg rep;

		raw_connect(&raw, socket);
		raw_hello_resumes(&raw);
		__atomic_add_fetch(&shared->n_sessions, 1, __ATOMIC_RELAXED);
		raw_open_nic(&raw, raw_traffic_nic(0));
		raw_create_queues(&raw, 64, &rep);
		msg_deinit(&rep);
		raw_close(&raw);
		usleep(1000);
	}
	_exit(0);
}

static pid_t fork_attacker(const char *socket, int memfd, struct shared *shared)
{
	pid_t pid = fork();

	ASSERT_GE(pid, 0);
	if (pid == 0)
		map_and_unmap(socket, memfd, shared);
	await(&shared->has_begun);
	return pid;
}

static void start_keeper(struct fixture_keeper *keeper)
{
	fixture_keeper_start(keeper, "--socket-mode=0666", "--worker-threads=2", NULL);
	ASSERT_OK(chmod(keeper->daemon.folder, 0755));
}

/* More users than there are idle workers, and no further one starts while a hole keeps all mappings waiting. */
TEST_TIMEOUT(administrator_lists_qps_while_kept_sessions_come_and_go_and_a_hole_stops_every_mapping, 120)
{
	struct fixture_keeper keeper = {0};
	struct shared *shared = make_shared();
	struct stall_admin admin;
	struct puncher puncher;
	pid_t others[N_OTHERS], attacker;
	int memfd = raw_memfd(MEMORY_BYTES);
	uint64_t begin;

	check_machine();
	start_keeper(&keeper);
	stall_admin_open(&admin, keeper.daemon.socket);
	attacker = fork_attacker(keeper.daemon.socket, memfd, shared);
	for (unsigned int i = 0; i < N_OTHERS; i++) {
		others[i] = fork();
		ASSERT_GE(others[i], 0);
		if (others[i] == 0)
			come_and_go(keeper.daemon.socket, OTHERS + i, shared);
	}
	puncher_start(&puncher, memfd, MEMORY_BYTES);
	begin = nsec_now();
	while (nsec_now() - begin < ATTACK_NSEC) {
		stall_admin_ask(&admin);
		usleep(10000);
	}
	puncher_stop(&puncher);
	__atomic_store_n(&shared->stop, 1, __ATOMIC_RELEASE);
	printf("# %u times mapped and unmapped; %u sessions came\n", shared->n_mappings, shared->n_sessions);
	ASSERT_GT(shared->n_sessions, 0u);
	stall_admin_close(&admin);
	for (unsigned int i = 0; i < N_OTHERS; i++)
		end_child(others[i]);
	end_child(attacker);
	fixture_keeper_stop(&keeper);
	munmap(shared, sizeof(*shared));
	close(memfd);
}

/* ---- the next daemon ---------------------------------------------------------------------------------------------------- */

/* A session with queues, into whose memory holes come once `has_begun` is 2. */
static void __attribute__((noreturn)) hold_queues(const char *socket, struct shared *shared)
{
	const struct raw_traffic_attr attr = {.nic = raw_traffic_nic(0), .keep_fds = true, .resumes = true};
	struct puncher puncher;
	struct raw_traffic t;

	become(ATTACKER);
	raw_traffic_init_with(&t, socket, &attr);
	__atomic_store_n(&shared->has_begun, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&shared->has_begun, __ATOMIC_ACQUIRE) != 2)
		usleep(1000);
	puncher_start(&puncher, t.page_fds[RAW_TRAFFIC_QUEUE_MEM], t.queue_mem_bytes);
	__atomic_store_n(&shared->has_begun, 3, __ATOMIC_RELEASE);
	await(&shared->stop);
	puncher_stop(&puncher);
	_exit(0);
}

static void expect_resumed(struct raw_client *raw)
{
	struct msg msg;

	do
		ASSERT_OK(raw_recv(raw, &msg, NULL));
	while (msg.kind != MSG_RESUMED_EVENT);
}

static void start_holes(struct shared *shared)
{
	__atomic_store_n(&shared->has_begun, 2, __ATOMIC_RELEASE);
	while (__atomic_load_n(&shared->has_begun, __ATOMIC_ACQUIRE) != 3)
		usleep(1000);
	usleep(100000);
}

static pid_t fork_holder(const char *socket, struct shared *shared)
{
	pid_t pid = fork();

	ASSERT_GE(pid, 0);
	if (pid == 0)
		hold_queues(socket, shared);
	await(&shared->has_begun);
	return pid;
}

TEST_TIMEOUT(import_that_waits_for_memory_of_its_user_keeps_no_other_session_from_going_on, 120)
{
	struct fixture_keeper keeper = {0};
	struct shared *shared = make_shared();
	struct raw_client victim;
	uint64_t begin, nsec;
	pid_t holder;

	check_machine();
	start_keeper(&keeper);
	raw_connect(&victim, keeper.daemon.socket);
	raw_hello_resumes(&victim);
	raw_open_nic(&victim, raw_traffic_nic(0));
	holder = fork_holder(keeper.daemon.socket, shared);
	fixture_keeper_hold(&keeper);
	start_holes(shared);
	begin = nsec_now();
	fixture_keeper_go(&keeper);
	expect_resumed(&victim);
	nsec = nsec_now() - begin;
	raw_reg(&victim, 1 << 16);
	printf("# went on after %.1f ms\n", (double)nsec / NSEC_PER_MSEC);
	__atomic_store_n(&shared->stop, 1, __ATOMIC_RELEASE);
	ASSERT_EQ(waitpid(holder, NULL, 0), holder);
	ASSERT_LT(nsec, RESUMED_NSEC);
	raw_close(&victim);
	fixture_keeper_stop(&keeper);
	munmap(shared, sizeof(*shared));
}

/* ---- a stop ----------------------------------------------------------------------------------------------------------------- */

TEST_TIMEOUT(daemon_that_stops_does_not_wait_for_memory_of_a_user_without_a_limit, 120)
{
	struct shared *shared = make_shared();
	struct fixture_daemon daemon;
	uint64_t begin, nsec;
	pid_t holder;
	int status;

	check_machine();
	fixture_daemon_start(&daemon, "--socket-mode=0666", NULL);
	ASSERT_OK(chmod(daemon.folder, 0755));
	holder = fork_holder(daemon.socket, shared);
	start_holes(shared);
	begin = nsec_now();
	ASSERT_OK(kill(daemon.pid, SIGTERM));
	ASSERT_EQ(waitpid(daemon.pid, &status, 0), daemon.pid);
	daemon.pid = 0;
	nsec = nsec_now() - begin;
	printf("# stopped after %.1f ms, exit status %d\n", (double)nsec / NSEC_PER_MSEC, WEXITSTATUS(status));
	__atomic_store_n(&shared->stop, 1, __ATOMIC_RELEASE);
	ASSERT_EQ(waitpid(holder, NULL, 0), holder);
	ASSERT_LT(nsec, STOPPED_NSEC);
	fixture_daemon_kill(&daemon);
	munmap(shared, sizeof(*shared));
}
