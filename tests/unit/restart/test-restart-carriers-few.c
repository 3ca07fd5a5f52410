/* SPDX-License-Identifier: Apache-2.0 */
/* Carriers where something is scarce: descriptors, those in flight, numbers, room for names; and on a kernel that cannot look into queues. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "carriers-lab.h"
#include "tests/lib/test.h"

/* Replies to clients need descriptors in flight, too. */
TEST(no_more_than_a_quarter_of_what_may_be_in_flight_is_in_carriers)
{
	struct manager_store *store;
	struct rlimit limit;

	skip_without_peeks();
	manager_init();
	ASSERT_OK(getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = 4 * 2 * PER_CARRIER;
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &limit));
	ASSERT_OK(manager_store_new(ROOM, &store));
	put_memories(store, 0, DIRECT + 2 * PER_CARRIER);
	ASSERT_EQ(manager.n, DIRECT + 2 * 2);
	put_memories(store, DIRECT + 2 * PER_CARRIER, DIRECT + 2 * PER_CARRIER + 10);
	ASSERT_EQ(manager.n, DIRECT + 2 * 2 + 10);
	manager_store_free(store);
	manager_deinit();
}

/* Carriers of an earlier daemon, one after the other, get numbers from `number` on. */
static void rename_carriers(unsigned int number)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < manager.n; i++)
		if (strncmp(manager.kept[i].name, "s0-b", 4) == 0) {
			snprintf(manager.kept[i].name, FDSTORE_NAME_BYTES, "s0-b%x.%u", number + n / 2, n % 2);
			n++;
		}
}

static void make_carriers(struct shared *shared, unsigned int n)
{
	struct manager_store *store;

	ASSERT_OK(manager_store_new(ROOM, &store));
	put_memories(store, 0, DIRECT + n * PER_CARRIER);
	memset(shared->wanted, PRESENT, DIRECT + n * PER_CARRIER);
	manager_store_free(store);
	ASSERT_EQ(manager.n, DIRECT + n * 2);
}

static int put_more(struct shared *shared)
{
	struct manager_store *store;

	if (manager_store_new(ROOM, &store) < 0)
		return 7;
	put_memories(store, 300, 300 + 3 * PER_CARRIER);
	manager_store_free(store);
	return 0;
}

TEST(carriers_of_the_last_number_are_followed_by_none)
{
	struct shared *shared = make_shared();

	skip_without_peeks();
	manager_init();
	make_carriers(shared, 1);
	rename_carriers(UINT_MAX);
	as_next_daemon(put_more, shared);
	memset(shared->wanted + 300, PRESENT, 3 * PER_CARRIER);
	as_next_daemon(adopt_memory, shared);
	as_next_daemon(check_memory, shared);
	ASSERT_EQ(manager.n, DIRECT + 2 + 3 * PER_CARRIER);
	manager_deinit();
}

static int look_at_room(struct shared *shared)
{
	struct manager_store *store;

	if (manager_store_new(1000000, &store) < 0)
		return 8;
	shared->room = manager_store_usual_room(store);
	manager_store_free(store);
	return 0;
}

/* With longer names of all descriptors than one variable may have, no daemon would start. */
TEST(long_names_of_carriers_count_as_they_are)
{
	struct shared *shared = make_shared();
	unsigned int room;

	skip_without_peeks();
	manager_init();
	setenv("FDSTORE", "1000000", 1);
	make_carriers(shared, 2);
	as_next_daemon(look_at_room, shared);
	room = shared->room;
	rename_carriers(0xfffffff0u);
	as_next_daemon(look_at_room, shared);
	/* Four names with seven more bytes each; usual ones have 16. */
	ASSERT_LT(shared->room, room);
	manager_deinit();
}

/* It takes some, and finds in none of them another's memory. */
static int adopt_with_few(struct shared *shared)
{
	const rlim_t most = 3 + manager.n + 40;
	struct manager_store *store;
	char name[FDSTORE_NAME_BYTES];
	unsigned int n = 0;

	/* become_daemon() has duplicated all above these. */
	closefrom(3 + (int)manager.n);
	if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){most, most}) < 0)
		return 9;
	if (manager_store_new(ROOM, &store) < 0)
		return 10;
	for (unsigned int i = 0; i < DIRECT + 5 * PER_CARRIER; i++) {
		int fd;

		name_memory(name, i);
		fd = manager_store_take(store, name);
		if (fd >= 0 && !is_memory(fd, i))
			return 11;
		n += fd >= 0;
		close(fd);
		manager_store_remove(store, name);
	}
	manager_store_discard_left(store);
	return n > DIRECT && n < DIRECT + 5 * PER_CARRIER ? 0 : 12;
}

TEST(a_daemon_that_may_open_fewer_descriptors_than_were_kept_starts_without_the_others)
{
	struct shared *shared = make_shared();

	skip_without_peeks();
	manager_init();
	make_carriers(shared, 5);
	as_next_daemon(adopt_with_few, shared);
	ASSERT_EQ(manager.n, 0);
	manager_deinit();
}

/* From here on setsockopt(SO_PEEK_OFF) fails, as in a kernel that does not know it. */
static bool forbid_peeks(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_setsockopt, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SO_PEEK_OFF, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOPROTOOPT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int put_without_peeks(struct shared *shared)
{
	struct manager_store *store;

	if (!forbid_peeks())
		return 0;
	shared->armed = true;
	if (manager_store_new(ROOM, &store) < 0)
		return 13;
	put_memories(store, 0, DIRECT + 2 * PER_CARRIER);
	manager_store_free(store);
	return 0;
}

TEST(without_a_way_to_look_into_queues_nothing_lies_there)
{
	struct shared *shared = make_shared();

	manager_init();
	as_next_daemon(put_without_peeks, shared);
	if (!shared->armed)
		test_skip("no filters of system calls here");
	ASSERT_EQ(manager.n, DIRECT + 2 * PER_CARRIER);
	memset(shared->wanted, PRESENT, DIRECT + 2 * PER_CARRIER);
	as_next_daemon(adopt_memory, shared);
	manager_deinit();
}

#define IN_FLIGHT 200u /* more than the test has open */

static void send_many(int to, int memory)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(IN_FLIGHT * sizeof(int))] = {0};
	char byte = 0;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr hdr = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&hdr);

	*cmsg = (struct cmsghdr){
		.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(IN_FLIGHT * sizeof(int))};
	for (unsigned int i = 0; i < IN_FLIGHT; i++)
		memcpy(CMSG_DATA(cmsg) + i * sizeof(int), &memory, sizeof(int));
	ASSERT_EQ(sendmsg(to, &hdr, MSG_DONTWAIT), 1);
}

/* Until fly_no_more() no more than `n_more` descriptors can be sent, or fewer, if other processes of this user have some in flight. */
static void fly(int pair[2], unsigned int n_more, struct rlimit *ret_before)
{
	const unsigned int most = IN_FLIGHT + n_more - 1;
	int memory = make_memory(0);

	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	send_many(pair[0], memory);
	close(memory);
	ASSERT_OK(getrlimit(RLIMIT_NOFILE, ret_before));
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){most, ret_before->rlim_max}));
}

static void fly_no_more(const int pair[2], const struct rlimit *before)
{
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, before));
	close(pair[0]);
	close(pair[1]);
}

/*
 * True: the manager got both sockets of a carrier, and then no more could be in flight. The memory waits, and the manager gets it under
 * its own name.
 */
static bool fail_first_put(struct manager_store *store)
{
	int pair[2], memory = make_memory(300);
	struct rlimit before;
	bool is_split;

	fly(pair, 2, &before);
	ASSERT_OK(manager_store_put_memory(store, "s1-m300", memory));
	manager_hear_all();
	is_split = manager.n == DIRECT + 2;
	fly_no_more(pair, &before);
	close(memory);
	ASSERT(fdstore_flush());
	manager_hear_all();
	ASSERT_EQ(manager.n, DIRECT + 3);
	manager_store_remove(store, "s1-m300");
	return is_split;
}

static void fail_and_remove_all(struct manager_store *store)
{
	put_memories(store, 0, DIRECT);
	for (unsigned int i = 0; !fail_first_put(store); i++) {
		manager_store_settle(store);
		manager_hear_all();
		if (i == 200)
			_exit(TEST_EXIT_SKIP);
		usleep(10000);
	}
	for (unsigned int i = 0; i < DIRECT; i++)
		remove_memory(store, i);
	manager_store_settle(store);
	manager_hear_all();
	ASSERT_EQ(manager.n, 0);
}

/* The kernel limits the descriptors in flight of those who are not root. */
static void as_user(void (*body)(struct manager_store *store))
{
	struct manager_store *store;
	pid_t pid = fork();
	int status;

	ASSERT_GE(pid, 0);
	if (pid == 0) {
		if (getuid() == 0 && (setresgid(65533, 65533, 65533) < 0 || setresuid(65533, 65533, 65533) < 0))
			_exit(TEST_EXIT_SKIP);
		manager_init();
		ASSERT_OK(manager_store_new(ROOM, &store));
		body(store);
		manager_store_free(store);
		manager_deinit();
		_exit(0);
	}
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_EXIT_SKIP)
		test_skip("this root may not become another user, or others of this user have descriptors in flight");
	ASSERT_EQ(status, 0);
}

TEST(a_carrier_whose_first_memory_could_not_be_sent_goes_with_the_others)
{
	skip_without_peeks();
	as_user(fail_and_remove_all);
}

static void remove_without_room(struct manager_store *store)
{
	int memory = make_memory(300), pair[2];
	struct rlimit before;

	put_memories(store, 0, DIRECT + 3);
	ASSERT_OK(manager_store_put_memory(store, "s1-m12c", memory));
	if (!is_open_elsewhere(memory))
		_exit(TEST_EXIT_SKIP);
	put_memories(store, DIRECT + 4, DIRECT + 40);
	fly(pair, 0, &before);
	remove_memory(store, 300);
	manager_store_settle(store);
	/* A whole carrier needs no room to go. */
	for (unsigned int i = DIRECT + 16; i < DIRECT + 32; i++)
		remove_memory(store, i);
	manager_store_settle(store);
	manager_hear_all();
	ASSERT_EQ(manager.n, DIRECT + 4);
	fly_no_more(pair, &before);
	ASSERT(is_open_elsewhere(memory));
	/* In another queue. */
	remove_memory(store, DIRECT + 15);
	manager_store_settle(store);
	ASSERT(!is_open_elsewhere(memory));
	for (unsigned int i = 0; i < DIRECT + 40; i++)
		remove_memory(store, i);
	manager_store_settle(store);
	manager_hear_all();
	ASSERT_EQ(manager.n, 0);
	close(memory);
}

TEST(memory_that_could_not_be_taken_out_goes_with_the_next_removal)
{
	skip_without_peeks();
	as_user(remove_without_room);
}
