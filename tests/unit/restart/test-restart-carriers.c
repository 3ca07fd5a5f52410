/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory in carriers: a manager that keeps what it hears, daemons that put and remove, and the next daemon, which finds exactly what
 * is left; also if the one before was killed at any system call.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "carriers-lab.h"
#include "proto/base/later.h"
#include "tests/lib/test.h"

/* ---- put and remove ------------------------------------------------------------------------------------------------ */

TEST(many_memories_are_few_descriptors_of_the_manager)
{
	struct shared *shared = make_shared();
	struct manager_store *store;

	skip_without_peeks();
	manager_init();
	ASSERT_OK(manager_store_new(ROOM, &store));
	put_memories(store, 0, DIRECT + 5 * PER_CARRIER);
	ASSERT_EQ(manager.n, DIRECT + 5 * 2);
	/* Names count, not what the manager has. */
	ASSERT_EQ(manager_store_room(store), ROOM - 1 - DIRECT - 5 * PER_CARRIER);
	manager_store_free(store);
	memset(shared->wanted, PRESENT, DIRECT + 5 * PER_CARRIER);
	as_next_daemon(adopt_memory, shared);
	as_next_daemon(check_memory, shared);
	ASSERT_EQ(manager.n, DIRECT + 5 * 2);
	/* A daemon that finds no use for them leaves nothing. */
	memset(shared->wanted, EITHER, MOST_MEMORIES);
	as_next_daemon(adopt_memory, shared);
	ASSERT_EQ(manager.n, 0);
	manager_deinit();
}

TEST(carriers_go_with_what_is_in_them)
{
	struct manager_store *store;

	skip_without_peeks();
	manager_init();
	ASSERT_OK(manager_store_new(ROOM, &store));
	put_memories(store, 0, DIRECT + 3 * PER_CARRIER);
	for (unsigned int i = DIRECT; i < DIRECT + PER_CARRIER; i++)
		remove_memory(store, i);
	ASSERT_EQ(manager.n, DIRECT + 3 * 2);
	/* No other has a free place: it stays for the next memory. */
	manager_store_settle(store);
	manager_hear_all();
	ASSERT_EQ(manager.n, DIRECT + 3 * 2);
	put_memories(store, 300, 301);
	ASSERT_EQ(manager.n, DIRECT + 3 * 2);
	for (unsigned int i = DIRECT + PER_CARRIER; i < DIRECT + 2 * PER_CARRIER; i++)
		remove_memory(store, i);
	manager_store_settle(store);
	manager_hear_all();
	ASSERT_EQ(manager.n, DIRECT + 2 * 2);
	for (unsigned int i = 0; i < 301; i++)
		remove_memory(store, i);
	manager_store_settle(store);
	manager_hear_all();
	ASSERT_EQ(manager.n, 0);
	ASSERT_EQ(manager_store_room(store), ROOM - 1);
	manager_store_free(store);
	manager_deinit();
}

/* In the middle of others, and though the memory is large. */
TEST(memory_that_is_removed_is_closed)
{
	int small = make_memory(500), large = make_memory(501);
	struct manager_store *store;

	skip_without_peeks();
	ASSERT_OK(posix_fallocate(large, 0, 1 << 20));
	ASSERT(!is_open_elsewhere(small));
	manager_init();
	ASSERT_OK(manager_store_new(ROOM, &store));
	put_memories(store, 0, DIRECT + 5);
	ASSERT_OK(manager_store_put_memory(store, "s1-m1f4", small));
	ASSERT_OK(manager_store_put_memory(store, "s1-m1f5", large));
	put_memories(store, DIRECT + 5, DIRECT + 10);
	ASSERT(is_open_elsewhere(small));
	ASSERT(is_open_elsewhere(large));
	remove_memory(store, 500);
	remove_memory(store, 501);
	manager_store_settle(store);
	later_wait();
	ASSERT(!is_open_elsewhere(small));
	ASSERT(!is_open_elsewhere(large));
	close(small);
	close(large);
	manager_store_free(store);
	manager_deinit();
}

/* Else every later session would be one of which something was lost. */
TEST(carrier_that_did_not_reach_the_manager_is_no_spare)
{
	struct manager_store *store;

	skip_without_peeks();
	manager_init();
	ASSERT_OK(manager_store_new(ROOM, &store));
	put_memories(store, 0, DIRECT);
	manager_hear_all();
	while (fdstore_flush())
		ASSERT_OK(fdstore_drop("s9-m1"));
	put_memory(store, DIRECT);
	shutdown(manager.fd, SHUT_RDWR);
	ASSERT(fdstore_flush());
	ASSERT(fdstore_has_lost("s0-b"));
	remove_memory(store, DIRECT);
	manager_store_settle(store);
	ASSERT(!fdstore_has_lost("s0-b"));
	manager_store_free(store);
	manager_deinit();
}

TEST(what_is_no_memory_is_the_managers_own)
{
	struct manager_store *store;
	int pair[2];

	manager_init();
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	ASSERT_OK(manager_store_new(ROOM, &store));
	put_memories(store, 0, DIRECT + 1);
	ASSERT_OK(manager_store_put_memory(store, "s1-p1", pair[0]));
	manager_hear_all();
	ASSERT_STREQ(manager.kept[manager.n - 1].name, "s1-p1");
	close(pair[0]);
	close(pair[1]);
	manager_store_free(store);
	manager_deinit();
}

static void change(struct manager_store *store, struct shared *shared, unsigned int *random)
{
	for (unsigned int n = 0; n < 40; n++) {
		unsigned int i = DIRECT + (*random = *random * 1103515245u + 12345u) / 65536u % 120u;

		if (shared->wanted[i] == ABSENT)
			put_memory(store, i);
		else
			remove_memory(store, i);
		shared->wanted[i] = shared->wanted[i] == ABSENT ? PRESENT : ABSENT;
		manager_hear_all();
		if (n % 4 == 3)
			manager_store_settle(store);
	}
	manager_store_settle(store);
	manager_hear_all();
}

TEST(random_changes_leave_what_is_wanted)
{
	struct shared *shared = make_shared();
	struct manager_store *store;
	unsigned int random = 1;

	skip_without_peeks();
	manager_init();
	ASSERT_OK(manager_store_new(ROOM, &store));
	put_memories(store, 0, DIRECT);
	memset(shared->wanted, PRESENT, DIRECT);
	for (unsigned int i = 0; i < 40; i++) {
		change(store, shared, &random);
		as_next_daemon(check_memory, shared);
	}
	manager_store_free(store);
	as_next_daemon(adopt_memory, shared);
	as_next_daemon(check_memory, shared);
	manager_deinit();
}

/* ---- killed -------------------------------------------------------------------------------------------------------- */

static void put_wanted(struct manager_store *store, struct shared *shared, unsigned int from, unsigned int to)
{
	for (unsigned int i = from; i < to; i++) {
		shared->wanted[i] = EITHER;
		put_memory(store, i);
		while (!fdstore_flush())
			usleep(100);
		shared->wanted[i] = PRESENT;
	}
}

static void remove_wanted(struct manager_store *store, struct shared *shared, unsigned int from, unsigned int to, unsigned int step)
{
	for (unsigned int i = from; i < to; i += step) {
		shared->wanted[i] = EITHER;
		remove_memory(store, i);
	}
	manager_store_settle(store);
	for (unsigned int i = from; i < to; i += step)
		shared->wanted[i] = ABSENT;
}

/* In the child: a carrier that is nearly full, and then each kind of change. */
static void __attribute__((noreturn)) change_traced(struct shared *shared)
{
	struct manager_store *store;

	ASSERT_OK(manager_store_new(ROOM, &store));
	put_wanted(store, shared, 0, DIRECT + 14);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
		_exit(TEST_EXIT_SKIP);
	raise(SIGSTOP);
	/* The last of the first queue, and some of both. */
	remove_wanted(store, shared, DIRECT + 7, DIRECT + 8, 1);
	remove_wanted(store, shared, DIRECT + 2, DIRECT + 14, 4);
	/* One more carrier is needed, and then needless. */
	put_wanted(store, shared, 200, 208);
	remove_wanted(store, shared, 200, 208, 1);
	remove_wanted(store, shared, DIRECT, DIRECT + 14, 1);
	remove_wanted(store, shared, 0, 4, 1);
	put_wanted(store, shared, 300, 302);
	_exit(0);
}

static void wait_stop(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		manager_hear_all();
		usleep(20);
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_EXIT_SKIP)
		test_skip("this process may not trace its children");
	ASSERT(WIFSTOPPED(status));
}

/* False: it ended before its system call number k. */
static bool kill_at(pid_t pid, unsigned int k)
{
	int status;

	/* It stops before each system call and behind it. */
	for (unsigned int n = 0; n < 2 * k + 1; n++) {
		manager_hear_all();
		ASSERT_OK(ptrace(PTRACE_SYSCALL, pid, NULL, NULL));
		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		if (WIFEXITED(status)) {
			ASSERT_EQ(WEXITSTATUS(status), 0);
			return false;
		}
		ASSERT(WIFSTOPPED(status));
	}
	ASSERT_OK(kill(pid, SIGKILL));
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	return true;
}

static bool kill_one(struct shared *shared, unsigned int k)
{
	bool killed;
	pid_t pid;

	memset(shared->wanted, ABSENT, sizeof(shared->wanted));
	manager_init();
	pid = fork();
	ASSERT_GE(pid, 0);
	if (pid == 0) {
		manager.fd = -1;
		change_traced(shared);
	}
	wait_stop(pid);
	killed = kill_at(pid, k);
	manager_hear_all();
	as_next_daemon(adopt_memory, shared);
	for (unsigned int i = 0; i < MOST_MEMORIES; i++)
		shared->wanted[i] = shared->wanted[i] == PRESENT ? PRESENT : ABSENT;
	as_next_daemon(check_memory, shared);
	manager_deinit();
	return killed;
}

#if defined(__SANITIZE_THREAD__)
#define STRIDE 29u
#elif defined(__SANITIZE_ADDRESS__)
#define STRIDE 11u
#else
#define STRIDE 1u
#endif

TEST_TIMEOUT(a_daemon_killed_at_any_system_call_leaves_all_memory_once, 120)
{
	struct shared *shared = make_shared();
	unsigned int k = 0;

	skip_without_peeks();
	if (test_emulator())
		test_skip("the emulator traces no system calls");
	while (kill_one(shared, k))
		k += STRIDE;
	printf("%u system calls\n", k);
	ASSERT_GT(k, 200);
}
