/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user who punches holes, at the lowest of all priorities, into the memory that a soft NIC is at, so that the NIC's thread
 * sleeps in the kernel for seconds: another user's requests are answered as ever meanwhile, and an administrator's too.
 *
 * The attacker's last trick is to die in the middle. Bounds are ten times what is promised, as tests run on busy machines; what
 * was measured is printed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/wqe.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/puncher.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/system/raw-traffic.h"

#define ATTACKER 40001
#define VICTIM 40002
#define MEMORY_BYTES (128u << 20)
#define PAGE 4096u
#define PROMISED_NSEC (100 * NSEC_PER_MSEC)
#define STALL_NSEC (50 * NSEC_PER_MSEC) /* a write that takes longer was stalled */
#define WANTED_NSEC ((test_is_full() ? 10 : 1) * NSEC_PER_SEC) /* of stalls */
#define WANTED_REQUESTS 50u
#define MOST_NSEC (12 * NSEC_PER_SEC)

/* Shared by the processes of a test. */
struct shared {
	uint32_t attack_began, stop, n_stalls;
	uint64_t stalled_nsec, longest_stall_nsec, write_began_nsec; /* the last one: of a request, too; 0 when none is under way */
	uint64_t longest_nsec, sum_nsec; /* of the victim's requests */
	uint32_t n_requests, n_writes, is_writing;
	uint64_t longest_write_nsec;
};

struct scene {
	struct fixture_daemon daemon;
	struct shared *shared;
	pid_t attacker;
	int memfd; /* what it writes to */
	struct puncher puncher; /* not its child, so that holes go on when it dies */
};

static void nap(uint64_t nsec)
{
	struct timespec ts = nsec_to_timespec(nsec);

	nanosleep(&ts, NULL);
}

static void become(uint32_t uid)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ASSERT_OK(setgid(uid));
	ASSERT_OK(setuid(uid));
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user clears it */
}

/* ---- the attacker ------------------------------------------------------------------------------------------------------ */

static void register_memory(struct raw_traffic *t, int memfd, struct raw_op *op, uint32_t *ret_mr)
{
	struct msg req, rep;

	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){
		.kind = MSG_MEM_MEMFD, .access = 0xf, .length_bytes = MEMORY_BYTES, .iova = RAW_TRAFFIC_IOVA};
	raw_expect(&t->raw, &req, &memfd, 1, MSG_MEM_REG_REP, &rep);
	op->lkey = rep.mem_reg_rep.lkey;
	op->rkey = rep.mem_reg_rep.rkey;
	*ret_mr = rep.mem_reg_rep.mr;
}

static void write_once(struct raw_traffic *t, struct raw_op *op, struct shared *shared)
{
	uint64_t begin = nsec_now(), nsec;

	op->laddr = RAW_TRAFFIC_IOVA + (uint64_t)(rand() % (int)(MEMORY_BYTES / PAGE)) * PAGE;
	op->raddr = RAW_TRAFFIC_IOVA + (uint64_t)(rand() % (int)(MEMORY_BYTES / PAGE)) * PAGE;
	__atomic_store_n(&shared->write_began_nsec, begin, __ATOMIC_RELEASE);
	raw_traffic_post(t, op);
	while (!raw_traffic_has_cqe(t))
		nap(100 * NSEC_PER_USEC);
	raw_traffic_poll(t);
	__atomic_store_n(&shared->write_began_nsec, 0, __ATOMIC_RELEASE);
	nsec = nsec_now() - begin;
	if (nsec < STALL_NSEC)
		return;
	if (nsec > shared->longest_stall_nsec)
		shared->longest_stall_nsec = nsec;
	__atomic_add_fetch(&shared->n_stalls, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&shared->stalled_nsec, nsec, __ATOMIC_RELEASE);
}

static void __attribute__((noreturn)) attack(const struct scene *s)
{
	struct raw_op op = {.opcode = SHMD_OPCODE_RDMA_WRITE, .bytes = PAGE};
	struct raw_traffic t;
	uint32_t mr;

	become(ATTACKER);
	raw_traffic_init_with(&t, s->daemon.socket, &(struct raw_traffic_attr){.nic = raw_traffic_nic(0)});
	register_memory(&t, s->memfd, &op, &mr);
	__atomic_store_n(&s->shared->attack_began, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&s->shared->stop, __ATOMIC_ACQUIRE))
		write_once(&t, &op, s->shared);
	raw_traffic_deinit(&t);
	_exit(0);
}

/* Maps the memory and unmaps it, for which the kernel waits for the hole as well. */
static void __attribute__((noreturn)) attack_mappings(const struct scene *s)
{
	struct shared *shared = s->shared;
	struct raw_op op;
	struct raw_traffic t;

	become(ATTACKER);
	raw_traffic_init_with(&t, s->daemon.socket, &(struct raw_traffic_attr){.nic = raw_traffic_nic(0)});
	__atomic_store_n(&shared->attack_began, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&shared->stop, __ATOMIC_ACQUIRE)) {
		uint64_t begin = nsec_now(), nsec;
		struct msg req, rep;

		msg_init(&req, MSG_MEM_DEREG_REQ, 0);
		__atomic_store_n(&shared->write_began_nsec, begin, __ATOMIC_RELEASE);
		register_memory(&t, s->memfd, &op, &req.mem_dereg_req.handle);
		raw_expect(&t.raw, &req, NULL, 0, MSG_OK_REP, &rep);
		__atomic_store_n(&shared->write_began_nsec, 0, __ATOMIC_RELEASE);
		nsec = nsec_now() - begin;
		shared->stalled_nsec += nsec;
		shared->n_stalls++;
		if (nsec > shared->longest_stall_nsec)
			shared->longest_stall_nsec = nsec;
	}
	raw_traffic_deinit(&t);
	_exit(0);
}

static uint64_t stalled_nsec(const struct shared *shared)
{
	uint64_t began = __atomic_load_n(&shared->write_began_nsec, __ATOMIC_ACQUIRE);

	return __atomic_load_n(&shared->stalled_nsec, __ATOMIC_ACQUIRE) + (began ? nsec_now() - began : 0);
}

/* Until a write has been under way for so long. False: none is. */
static bool await_stall(const struct shared *shared, uint64_t nsec)
{
	uint64_t begin = nsec_now(), began;

	while (nsec_now() - begin < MOST_NSEC) {
		began = __atomic_load_n(&shared->write_began_nsec, __ATOMIC_ACQUIRE);
		if (began && nsec_now() - began > nsec)
			return true;
		nap(NSEC_PER_MSEC);
	}
	return false;
}

/* ---- who else is there -------------------------------------------------------------------------------------------------- */

static void count(struct shared *shared, uint64_t begin)
{
	uint64_t nsec = nsec_now() - begin;

	__atomic_add_fetch(&shared->n_requests, 1, __ATOMIC_RELAXED);
	shared->sum_nsec += nsec;
	if (nsec > shared->longest_nsec)
		shared->longest_nsec = nsec;
}

static bool has_enough_requests(const struct shared *shared)
{
	return __atomic_load_n(&shared->n_requests, __ATOMIC_RELAXED) >= WANTED_REQUESTS;
}

/* Every kind of request that goes to the NIC, and what comes with a connection. */
static void ask_everything(const char *socket, struct shared *shared)
{
	struct msg_status_rep status;
	struct raw_client raw;
	uint64_t begin = nsec_now();
	struct msg req, rep;

	raw_connect(&raw, socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	count(shared, begin);
	begin = nsec_now();
	raw_open_nic(&raw, raw_traffic_nic(0));
	count(shared, begin);
	begin = nsec_now();
	raw_reg(&raw, 1 << 20);
	count(shared, begin);
	begin = nsec_now();
	raw_create_queues(&raw, 4, &rep);
	msg_deinit(&rep);
	count(shared, begin);
	begin = nsec_now();
	raw_status(&raw, &status);
	count(shared, begin);
	begin = nsec_now();
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_QPS;
	raw_expect(&raw, &req, NULL, 0, MSG_LIST_REP, &rep);
	msg_deinit(&rep);
	count(shared, begin);
	begin = nsec_now();
	raw_close(&raw);
	count(shared, begin);
}

static void __attribute__((noreturn)) live(const struct scene *s)
{
	struct raw_traffic t;

	become(VICTIM);
	raw_traffic_init_with(&t, s->daemon.socket, &(struct raw_traffic_attr){.nic = raw_traffic_nic(0)});
	while (!__atomic_load_n(&s->shared->stop, __ATOMIC_ACQUIRE)) {
		ask_everything(s->daemon.socket, s->shared);
		for (unsigned int i = 0; i < 10; i++) {
			raw_traffic_write(&t, 4096 * i, 0, 4096);
			ASSERT_EQ(raw_traffic_poll(&t), (unsigned int)SHMD_CQE_REQ);
			s->shared->n_writes++;
		}
	}
	raw_traffic_deinit(&t);
	_exit(0);
}

/* A session that was there before: traffic alone. */
static void __attribute__((noreturn)) write_on(const struct scene *s)
{
	struct raw_traffic t;

	become(VICTIM);
	raw_traffic_init_with(&t, s->daemon.socket, &(struct raw_traffic_attr){.nic = raw_traffic_nic(0)});
	__atomic_store_n(&s->shared->is_writing, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&s->shared->stop, __ATOMIC_ACQUIRE)) {
		uint64_t begin = nsec_now();

		raw_traffic_write(&t, 4096, 0, 4096);
		ASSERT_EQ(raw_traffic_poll(&t), (unsigned int)SHMD_CQE_REQ);
		s->shared->n_writes++;
		if (nsec_now() - begin > s->shared->longest_write_nsec)
			s->shared->longest_write_nsec = nsec_now() - begin;
	}
	raw_traffic_deinit(&t);
	_exit(0);
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* An administrator's list. Returns a session of this process, or 0. */
static uint64_t ask_list(struct raw_client *admin, uint64_t *longest)
{
	uint64_t begin = nsec_now(), own = 0;
	struct msg req, rep;

	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_SESSIONS;
	raw_expect(admin, &req, NULL, 0, MSG_LIST_REP, &rep);
	*longest = most(*longest, nsec_now() - begin);
	for (unsigned int i = 0; i < rep.list_rep.n_sessions; i++)
		if (rep.list_rep.sessions[i].pid == (uint32_t)getpid())
			own = rep.list_rep.sessions[i].session;
	msg_deinit(&rep);
	return own;
}

static void ask_status(struct raw_client *admin, struct shared *shared)
{
	struct msg_status_rep status;
	uint64_t begin = nsec_now();

	raw_status(admin, &status);
	count(shared, begin);
}

static void ask_kill(struct raw_client *admin, uint64_t id, uint64_t *longest)
{
	uint64_t begin = nsec_now();
	struct msg req, rep;

	msg_init(&req, MSG_SESSION_KILL_REQ, 0);
	req.session_kill_req.session = id;
	raw_expect(admin, &req, NULL, 0, MSG_OK_REP, &rep);
	*longest = most(*longest, nsec_now() - begin);
}

static void scene_begin_with(struct scene *s, void (*attack_it)(const struct scene *s), const char *executors)
{
	if (geteuid() != 0)
		test_skip("needs root, to be two other users");
	/* It maps memory whenever it likes, and then waits for the hole. */
	if (test_has_sanitizer())
		test_skip("a sanitizer has an allocator of its own");
	fixture_daemon_start(&s->daemon, "--socket-mode=0666", executors, NULL);
	ASSERT_OK(chmod(s->daemon.folder, 0755));
	s->shared = mmap(NULL, sizeof(*s->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT(s->shared != MAP_FAILED);
	s->memfd = raw_memfd(MEMORY_BYTES);
	s->attacker = fork();
	ASSERT_GE(s->attacker, 0);
	if (s->attacker == 0)
		attack_it(s);
	while (!__atomic_load_n(&s->shared->attack_began, __ATOMIC_ACQUIRE))
		nap(NSEC_PER_MSEC);
	if (attack_it == attack)
		puncher_start(&s->puncher, s->memfd, MEMORY_BYTES);
}

static void scene_begin(struct scene *s, void (*attack_it)(const struct scene *s))
{
	scene_begin_with(s, attack_it, "--soft-executors=thread");
}

static void await_child(pid_t pid)
{
	int status;

	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
}

static void scene_end(struct scene *s)
{
	puncher_stop(&s->puncher);
	close(s->memfd);
	munmap(s->shared, sizeof(*s->shared));
	fixture_daemon_stop(&s->daemon);
}

/* ---- tests ------------------------------------------------------------------------------------------------------------------ */

TEST(lists_are_answered_and_others_write_while_a_nic_sleeps_at_a_users_memory)
{
	uint64_t begin, longest_list = 0;
	struct raw_client admin;
	struct scene s;
	pid_t victim;

	scene_begin(&s, attack);
	raw_connect(&admin, s.daemon.socket);
	raw_hello(&admin, MSG_ROLE_CONTROL);
	victim = fork();
	ASSERT_GE(victim, 0);
	if (victim == 0)
		live(&s);
	begin = nsec_now();
	while ((stalled_nsec(s.shared) < WANTED_NSEC || !has_enough_requests(s.shared)) && nsec_now() - begin < MOST_NSEC) {
		ask_list(&admin, &longest_list);
		nap(10 * NSEC_PER_MSEC);
	}
	printf("# stalled for %.1f of %.1f s; %u requests: %.2f ms each, the longest %.1f ms; %u writes; a list of sessions %.1f ms\n",
	       (double)stalled_nsec(s.shared) / NSEC_PER_SEC, (double)(nsec_now() - begin) / NSEC_PER_SEC,
	       s.shared->n_requests, (double)s.shared->sum_nsec / s.shared->n_requests / NSEC_PER_MSEC,
	       (double)s.shared->longest_nsec / NSEC_PER_MSEC, s.shared->n_writes,
	       (double)longest_list / NSEC_PER_MSEC);
	if (stalled_nsec(s.shared) < WANTED_NSEC / 4)
		test_skip("no hole takes long enough here");
	/* Threads promise nothing about a request that maps memory: it may wait for the same hole. Processes do: see below. */
	ASSERT_LT(longest_list, 10 * PROMISED_NSEC);
	ASSERT_GE(s.shared->n_requests, WANTED_REQUESTS);
	__atomic_store_n(&s.shared->stop, 1, __ATOMIC_RELEASE);
	await_child(victim);
	puncher_stop(&s.puncher);
	await_child(s.attacker);
	raw_close(&admin);
	scene_end(&s);
}

/*
 * The kernel maps and unmaps for all of a process under one lock, and waits there for the hole: a request that maps waits too, as README.md
 * of daemon/nic/soft says. Traffic, the status and lists of sessions go on.
 */
TEST(mappings_that_wait_for_a_hole_stop_neither_traffic_nor_the_control_thread)
{
	struct raw_client admin;
	struct scene s;
	uint64_t begin, list = 0;
	pid_t victim;

	scene_begin(&s, attack_mappings);
	victim = fork();
	ASSERT_GE(victim, 0);
	if (victim == 0)
		write_on(&s);
	while (!__atomic_load_n(&s.shared->is_writing, __ATOMIC_ACQUIRE))
		nap(NSEC_PER_MSEC);
	raw_connect(&admin, s.daemon.socket);
	raw_hello(&admin, MSG_ROLE_CONTROL);
	puncher_start(&s.puncher, s.memfd, MEMORY_BYTES);
	begin = nsec_now();
	while (nsec_now() - begin < 2 * WANTED_NSEC) {
		ask_status(&admin, s.shared);
		ask_list(&admin, &list);
		nap(10 * NSEC_PER_MSEC);
	}
	printf("# %u times mapped and unmapped, the longest %.1f ms; %u times the status, the longest %.1f ms; a list %.1f ms; "
	       "%u writes, the longest %.1f ms\n",
	       s.shared->n_stalls, (double)s.shared->longest_stall_nsec / NSEC_PER_MSEC, s.shared->n_requests,
	       (double)s.shared->longest_nsec / NSEC_PER_MSEC, (double)list / NSEC_PER_MSEC, s.shared->n_writes,
	       (double)s.shared->longest_write_nsec / NSEC_PER_MSEC);
	ASSERT_LT(s.shared->longest_nsec, 10 * PROMISED_NSEC);
	ASSERT_LT(list, 10 * PROMISED_NSEC);
	__atomic_store_n(&s.shared->stop, 1, __ATOMIC_RELEASE);
	await_child(victim);
	puncher_stop(&s.puncher);
	await_child(s.attacker);
	raw_close(&admin);
	scene_end(&s);
}

/* Users whose sessions begin and end, for which the daemon maps and unmaps a page. */
static void __attribute__((noreturn)) come_and_go(const struct scene *s, uint32_t uid)
{
	become(uid);
	while (!__atomic_load_n(&s->shared->stop, __ATOMIC_ACQUIRE)) {
		struct raw_client raw;

		raw_connect(&raw, s->daemon.socket);
		raw_hello(&raw, MSG_ROLE_CLIENT);
		raw_close(&raw);
		__atomic_add_fetch(&s->shared->n_writes, 1, __ATOMIC_RELAXED);
		nap(NSEC_PER_MSEC);
	}
	_exit(0);
}

#define N_COMING 3u
#define N_KILLED 5u

/* Sessions that an administrator kills meanwhile are unmapped as well. */
TEST(administrator_lists_and_kills_while_a_hole_stops_every_mapping)
{
	uint64_t begin, list = 0, kill = 0;
	struct raw_client admin, killed[N_KILLED];
	unsigned int n_killed = 0;
	pid_t coming[N_COMING];
	struct scene s;

	scene_begin(&s, attack_mappings);
	raw_connect(&admin, s.daemon.socket);
	raw_hello(&admin, MSG_ROLE_CONTROL);
	for (unsigned int i = 0; i < N_KILLED; i++) {
		raw_connect(&killed[i], s.daemon.socket);
		raw_hello(&killed[i], MSG_ROLE_CLIENT);
		raw_open_nic(&killed[i], raw_traffic_nic(0));
	}
	for (unsigned int i = 0; i < N_COMING; i++) {
		coming[i] = fork();
		ASSERT_GE(coming[i], 0);
		if (coming[i] == 0)
			come_and_go(&s, VICTIM + i);
	}
	puncher_start(&s.puncher, s.memfd, MEMORY_BYTES);
	begin = nsec_now();
	while (nsec_now() - begin < 2 * WANTED_NSEC) {
		uint64_t own;

		ask_status(&admin, s.shared);
		own = ask_list(&admin, &list);
		if (own && nsec_now() - begin > n_killed * 2 * WANTED_NSEC / N_KILLED) {
			ask_kill(&admin, own, &kill);
			n_killed++;
		}
		nap(10 * NSEC_PER_MSEC);
	}
	printf("# %u times mapped and unmapped, the longest %.1f ms; %u times the status, the longest %.1f ms; a list %.1f ms; "
	       "%u sessions killed, the longest %.1f ms; %u sessions came and went\n",
	       s.shared->n_stalls, (double)s.shared->longest_stall_nsec / NSEC_PER_MSEC, s.shared->n_requests,
	       (double)s.shared->longest_nsec / NSEC_PER_MSEC, (double)list / NSEC_PER_MSEC, n_killed,
	       (double)kill / NSEC_PER_MSEC, s.shared->n_writes);
	ASSERT_LT(s.shared->longest_nsec, 10 * PROMISED_NSEC);
	ASSERT_LT(list, 10 * PROMISED_NSEC);
	ASSERT_LT(kill, 10 * PROMISED_NSEC);
	ASSERT_GT(n_killed, 0u);
	__atomic_store_n(&s.shared->stop, 1, __ATOMIC_RELEASE);
	puncher_stop(&s.puncher);
	for (unsigned int i = 0; i < N_COMING; i++)
		await_child(coming[i]);
	await_child(s.attacker);
	for (unsigned int i = 0; i < N_KILLED; i++)
		raw_close(&killed[i]);
	raw_close(&admin);
	scene_end(&s);
}

/*
 * The session ends while its executor sleeps, and is torn down once that is awake. Only requests that
 * map memory wait for this, once the teardown unmaps the attacker's.
 */
TEST_TIMEOUT(a_user_who_dies_while_its_nic_sleeps_delays_no_other, 90)
{
	struct msg_status_rep status;
	struct raw_client admin;
	struct scene s;
	uint64_t begin, list = 0;

	scene_begin(&s, attack);
	if (!await_stall(s.shared, STALL_NSEC))
		test_skip("no hole takes long enough here");
	raw_connect(&admin, s.daemon.socket);
	raw_hello(&admin, MSG_ROLE_CONTROL);
	kill(s.attacker, SIGKILL);
	begin = nsec_now();
	while (nsec_now() - begin < NSEC_PER_SEC) {
		ask_status(&admin, s.shared);
		ask_list(&admin, &list);
		nap(10 * NSEC_PER_MSEC);
	}
	printf("# %u times the status: the longest %.1f ms; a list %.1f ms\n", s.shared->n_requests,
	       (double)s.shared->longest_nsec / NSEC_PER_MSEC, (double)list / NSEC_PER_MSEC);
	ASSERT_LT(s.shared->longest_nsec, 10 * PROMISED_NSEC);
	waitpid(s.attacker, NULL, 0);
	/* Further holes would hold up each step of the teardown. */
	puncher_stop(&s.puncher);
	do {
		ASSERT_LT(nsec_now() - begin, 5 * MOST_NSEC);
		nap(10 * NSEC_PER_MSEC);
		raw_status(&admin, &status);
	} while (status.n_sessions > 1 || status.n_mrs > 0);
	printf("# all that it had is gone after %.2f s\n", (double)(nsec_now() - begin) / NSEC_PER_SEC);
	raw_close(&admin);
	scene_end(&s);
}

/* A thread that sleeps like that keeps its process from dying: that is the kernel's, and said in SECURITY.md. */
TEST_TIMEOUT(a_daemon_that_is_killed_dies_when_the_hole_is_there, 90)
{
	uint64_t begin;
	struct scene s;

	scene_begin(&s, attack);
	if (!await_stall(s.shared, STALL_NSEC))
		test_skip("no hole takes long enough here");
	begin = nsec_now();
	fixture_daemon_kill(&s.daemon);
	printf("# the daemon took %.2f s to die\n", (double)(nsec_now() - begin) / NSEC_PER_SEC);
	puncher_stop(&s.puncher);
	kill(s.attacker, SIGKILL);
	waitpid(s.attacker, NULL, 0);
	close(s.memfd);
	munmap(s.shared, sizeof(*s.shared));
}

/* ---- a process for each user -------------------------------------------------------------------------------------------- */

#define PROCESSES NULL /* the default */
#define DEATH_NSEC NSEC_PER_SEC /* promised, and a hundred times what it takes */

/* The attacker's memory is mapped elsewhere. */
TEST(in_processes_requests_of_others_that_map_memory_are_answered_while_a_hole_stops_every_mapping_of_a_user)
{
	struct scene s;
	uint64_t begin;
	pid_t victim;

	scene_begin_with(&s, attack_mappings, PROCESSES);
	puncher_start(&s.puncher, s.memfd, MEMORY_BYTES);
	victim = fork();
	ASSERT_GE(victim, 0);
	if (victim == 0)
		live(&s);
	begin = nsec_now();
	while (nsec_now() - begin < 2 * WANTED_NSEC || (!has_enough_requests(s.shared) && nsec_now() - begin < MOST_NSEC))
		nap(10 * NSEC_PER_MSEC);
	__atomic_store_n(&s.shared->stop, 1, __ATOMIC_RELEASE);
	await_child(victim);
	puncher_stop(&s.puncher);
	await_child(s.attacker);
	printf("# %u times mapped and unmapped, the longest %.1f ms; %u requests: %.2f ms each, the longest %.1f ms; %u writes\n",
	       s.shared->n_stalls, (double)s.shared->longest_stall_nsec / NSEC_PER_MSEC, s.shared->n_requests,
	       (double)s.shared->sum_nsec / s.shared->n_requests / NSEC_PER_MSEC,
	       (double)s.shared->longest_nsec / NSEC_PER_MSEC, s.shared->n_writes);
	ASSERT_LT(s.shared->longest_nsec, 10 * PROMISED_NSEC);
	ASSERT_GE(s.shared->n_requests, WANTED_REQUESTS);
	scene_end(&s);
}

static void expect_quick_death(void (*attack_it)(const struct scene *s))
{
	uint64_t begin, took;
	struct scene s;
	bool is_stalled;

	scene_begin_with(&s, attack_it, PROCESSES);
	if (attack_it != attack)
		puncher_start(&s.puncher, s.memfd, MEMORY_BYTES);
	is_stalled = await_stall(s.shared, STALL_NSEC);
	/* It would take the end of its connection for a failure. */
	kill(s.attacker, SIGSTOP);
	begin = nsec_now();
	fixture_daemon_kill(&s.daemon);
	took = nsec_now() - begin;
	printf("# the daemon took %.3f s to die%s\n", (double)took / NSEC_PER_SEC, is_stalled ? "" : "; nothing was stalled");
	puncher_stop(&s.puncher);
	kill(s.attacker, SIGKILL);
	waitpid(s.attacker, NULL, 0);
	close(s.memfd);
	munmap(s.shared, sizeof(*s.shared));
	ASSERT_LT(took, DEATH_NSEC);
}

TEST(in_processes_no_thread_that_sleeps_at_a_users_memory_keeps_the_daemon_from_dying)
{
	expect_quick_death(attack);
}

TEST(in_processes_no_mapping_that_waits_for_a_hole_keeps_the_daemon_from_dying)
{
	expect_quick_death(attack_mappings);
}
