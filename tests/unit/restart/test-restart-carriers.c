/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory in carriers: a manager that keeps what it hears, daemons that put and remove, and the next daemon, which finds exactly what
 * is left; also if the one before was killed at any system call.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/restart/store.h"
#include "daemon/service/fdstore.h"
#include "proto/base/later.h"
#include "tests/lib/test.h"

#define DIRECT 64u /* so many entries the manager has before memory goes into carriers */
#define PER_CARRIER 16u
#define MOST_KEPT 512u
#define MOST_MEMORIES 600u
#define ROOM 2000u

enum wanted { ABSENT, PRESENT, EITHER };

static struct {
	char path[64];
	int fd;
	unsigned int n, n_heard; /* kept; messages that brought one */
	struct {
		char name[FDSTORE_NAME_BYTES];
		int fd;
	} kept[MOST_KEPT];
} manager;

/* Daemons and the test share it: memory that the next daemon must find. */
struct shared {
	unsigned char wanted[MOST_MEMORIES]; /* enum wanted */
	bool armed; /* a daemon got as far as its test needs */
	unsigned int room; /* that a daemon saw */
};

/* ---- the manager --------------------------------------------------------------------------------------------------- */

static void manager_init(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	char max[16];

	snprintf(manager.path, sizeof(manager.path), "/tmp/shmemd-carriers-XXXXXX");
	ASSERT(mkdtemp(manager.path));
	rmdir(manager.path);
	memcpy(addr.sun_path, manager.path, strlen(manager.path));
	manager.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ASSERT_OK(bind(manager.fd, (struct sockaddr *)&addr, sizeof(addr)));
	setenv("NOTIFY_SOCKET", manager.path, 1);
	snprintf(max, sizeof(max), "%u", ROOM);
	setenv("FDSTORE", max, 1);
	unsetenv("LISTEN_PID");
	manager.n = manager.n_heard = 0;
}

static void let_go(unsigned int i)
{
	close(manager.kept[i].fd);
	manager.n--;
	memmove(&manager.kept[i], &manager.kept[i + 1], (manager.n - i) * sizeof(manager.kept[0]));
}

static void manager_deinit(void)
{
	while (manager.n > 0)
		let_go(0);
	close(manager.fd);
	unlink(manager.path);
	fdstore_end();
	later_wait();
}

static bool hear_one(void)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	char text[256], *name;
	struct iovec iov = {.iov_base = text, .iov_len = sizeof(text) - 1};
	struct msghdr hdr = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(manager.fd, &hdr, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&hdr);

	if (n < 0)
		return false;
	text[n] = 0;
	name = strstr(text, "FDNAME=");
	ASSERT(name);
	name += strlen("FDNAME=");
	if (cmsg) {
		ASSERT_LT(manager.n, MOST_KEPT);
		memcpy(&manager.kept[manager.n].fd, CMSG_DATA(cmsg), sizeof(int));
		snprintf(manager.kept[manager.n++].name, FDSTORE_NAME_BYTES, "%.63s", name);
		manager.n_heard++;
		return true;
	}
	for (unsigned int i = manager.n; i-- > 0;)
		if (strcmp(manager.kept[i].name, name) == 0)
			let_go(i);
	return true;
}

static void hear_all(void)
{
	while (hear_one())
		;
}

/* ---- memory -------------------------------------------------------------------------------------------------------- */

static void name_memory(char name[FDSTORE_NAME_BYTES], unsigned int i)
{
	snprintf(name, FDSTORE_NAME_BYTES, "s1-m%x", i);
}

static int make_memory(unsigned int i)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	ASSERT_EQ(pwrite(fd, &i, sizeof(i), 0), sizeof(i));
	return fd;
}

static void put(struct manager_store *store, unsigned int i)
{
	char name[FDSTORE_NAME_BYTES];
	int fd = make_memory(i);

	name_memory(name, i);
	ASSERT_OK(manager_store_put_memory(store, name, fd));
	close(fd);
}

static void put_range(struct manager_store *store, unsigned int from, unsigned int to)
{
	for (unsigned int i = from; i < to; i++) {
		put(store, i);
		if (manager.fd >= 0)
			hear_all();
	}
}

static void remove_one(struct manager_store *store, unsigned int i)
{
	char name[FDSTORE_NAME_BYTES];

	name_memory(name, i);
	manager_store_remove(store, name);
	if (manager.fd >= 0)
		hear_all();
}

/* ---- the next daemon ----------------------------------------------------------------------------------------------- */

static void __attribute__((noreturn)) become_daemon(int (*body)(struct shared *shared), struct shared *shared)
{
	static char names[MOST_KEPT * FDSTORE_NAME_BYTES];
	char text[24];
	size_t at = 0;
	int above[MOST_KEPT];

	fdstore_end();
	for (unsigned int i = 0; i < manager.n; i++)
		above[i] = fcntl(manager.kept[i].fd, F_DUPFD_CLOEXEC, 3 + (int)manager.n);
	for (unsigned int i = 0; i < manager.n; i++) {
		if (dup2(above[i], 3 + (int)i) < 0)
			_exit(1);
		at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", i ? ":" : "", manager.kept[i].name);
	}
	manager.fd = -1;
	snprintf(text, sizeof(text), "%d", getpid());
	setenv("LISTEN_PID", text, 1);
	snprintf(text, sizeof(text), "%u", manager.n);
	setenv("LISTEN_FDS", text, 1);
	setenv("LISTEN_FDNAMES", names, 1);
	_exit(body(shared));
}

/* The manager hears what it says meanwhile. */
static void as_daemon(int (*body)(struct shared *shared), struct shared *shared)
{
	pid_t pid = fork();
	int status;

	ASSERT_GE(pid, 0);
	if (pid == 0)
		become_daemon(body, shared);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		hear_all();
		usleep(100);
	}
	hear_all();
	if (status != 0)
		test_fail(TEST_WHERE, "the next daemon did not find what was kept: status 0x%x", (unsigned int)status);
}

static bool is_memory(int fd, unsigned int want)
{
	unsigned int i = ~want;

	return pread(fd, &i, sizeof(i), 0) == sizeof(i) && i == want;
}

/* Takes what must be there, and lets go of the rest. */
static int adopt(struct shared *shared)
{
	char name[FDSTORE_NAME_BYTES];
	struct manager_store *store;

	if (manager_store_new(ROOM, &store) < 0)
		return 2;
	for (unsigned int i = 0; i < MOST_MEMORIES; i++) {
		int fd;

		if (shared->wanted[i] == EITHER)
			continue;
		name_memory(name, i);
		fd = manager_store_take(store, name);
		if ((fd >= 0) != (shared->wanted[i] == PRESENT))
			return 3;
		if (fd >= 0 && !is_memory(fd, i))
			return 4;
	}
	manager_store_discard_left(store);
	manager_store_free(store);
	later_wait();
	return 0;
}

static void count_left(void *arg, const char *name)
{
	(*(unsigned int *)arg)++;
}

/* There is nothing else, not even twice: memory that is left over would show as room that is missing. */
static int check_all(struct shared *shared)
{
	unsigned int n = 0, n_wanted = 0;
	struct manager_store *store;

	if (manager_store_new(ROOM, &store) < 0)
		return 5;
	manager_store_each_left(store, count_left, &n);
	for (unsigned int i = 0; i < MOST_MEMORIES; i++)
		n_wanted += shared->wanted[i] == PRESENT;
	return n == n_wanted ? 0 : 6;
}

static struct shared *make_shared(void)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT(shared != MAP_FAILED);
	return shared;
}

static void skip_without_peeks(void)
{
	int pair[2], zero = 0;

	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	if (setsockopt(pair[0], SOL_SOCKET, SO_PEEK_OFF, &zero, sizeof(zero)) < 0)
		test_skip("no SO_PEEK_OFF here");
	close(pair[0]);
	close(pair[1]);
}

/* ---- put and remove ------------------------------------------------------------------------------------------------ */

TEST(many_memories_are_few_descriptors_of_the_manager)
{
	struct shared *shared = make_shared();
	struct manager_store *store;

	skip_without_peeks();
	manager_init();
	ASSERT_OK(manager_store_new(ROOM, &store));
	put_range(store, 0, DIRECT + 5 * PER_CARRIER);
	ASSERT_EQ(manager.n, DIRECT + 5 * 2);
	/* Names count, not what the manager has. */
	ASSERT_EQ(manager_store_room(store), ROOM - 1 - DIRECT - 5 * PER_CARRIER);
	manager_store_free(store);
	memset(shared->wanted, PRESENT, DIRECT + 5 * PER_CARRIER);
	as_daemon(adopt, shared);
	as_daemon(check_all, shared);
	ASSERT_EQ(manager.n, DIRECT + 5 * 2);
	/* A daemon that finds no use for them leaves nothing. */
	memset(shared->wanted, EITHER, MOST_MEMORIES);
	as_daemon(adopt, shared);
	ASSERT_EQ(manager.n, 0);
	manager_deinit();
}

TEST(carriers_go_with_what_is_in_them)
{
	struct manager_store *store;

	skip_without_peeks();
	manager_init();
	ASSERT_OK(manager_store_new(ROOM, &store));
	put_range(store, 0, DIRECT + 3 * PER_CARRIER);
	for (unsigned int i = DIRECT; i < DIRECT + PER_CARRIER; i++)
		remove_one(store, i);
	ASSERT_EQ(manager.n, DIRECT + 3 * 2);
	/* No other has a free place: it stays for the next memory. */
	manager_store_settle(store);
	hear_all();
	ASSERT_EQ(manager.n, DIRECT + 3 * 2);
	put_range(store, 300, 301);
	ASSERT_EQ(manager.n, DIRECT + 3 * 2);
	for (unsigned int i = DIRECT + PER_CARRIER; i < DIRECT + 2 * PER_CARRIER; i++)
		remove_one(store, i);
	manager_store_settle(store);
	hear_all();
	ASSERT_EQ(manager.n, DIRECT + 2 * 2);
	for (unsigned int i = 0; i < 301; i++)
		remove_one(store, i);
	manager_store_settle(store);
	hear_all();
	ASSERT_EQ(manager.n, 0);
	ASSERT_EQ(manager_store_room(store), ROOM - 1);
	manager_store_free(store);
	manager_deinit();
}

/* Somebody has it open for writing by open(2): a lease for reading is not granted then. */
static bool is_open_elsewhere(int fd)
{
	char path[40];
	int reader, r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	reader = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_GE(reader, 0);
	r = fcntl(reader, F_SETLEASE, F_RDLCK) < 0 ? -errno : 0;
	close(reader);
	if (r < 0 && r != -EAGAIN)
		test_skip("no leases on memory here");
	return r < 0;
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
	put_range(store, 0, DIRECT + 5);
	ASSERT_OK(manager_store_put_memory(store, "s1-m1f4", small));
	ASSERT_OK(manager_store_put_memory(store, "s1-m1f5", large));
	put_range(store, DIRECT + 5, DIRECT + 10);
	ASSERT(is_open_elsewhere(small));
	ASSERT(is_open_elsewhere(large));
	remove_one(store, 500);
	remove_one(store, 501);
	manager_store_settle(store);
	later_wait();
	ASSERT(!is_open_elsewhere(small));
	ASSERT(!is_open_elsewhere(large));
	close(small);
	close(large);
	manager_store_free(store);
	manager_deinit();
}

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
	put_range(store, 0, DIRECT + 2 * PER_CARRIER);
	ASSERT_EQ(manager.n, DIRECT + 2 * 2);
	put_range(store, DIRECT + 2 * PER_CARRIER, DIRECT + 2 * PER_CARRIER + 10);
	ASSERT_EQ(manager.n, DIRECT + 2 * 2 + 10);
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
	put_range(store, 0, DIRECT + 1);
	ASSERT_OK(manager_store_put_memory(store, "s1-p1", pair[0]));
	hear_all();
	ASSERT_STREQ(manager.kept[manager.n - 1].name, "s1-p1");
	close(pair[0]);
	close(pair[1]);
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
	put_range(store, 0, DIRECT + n * PER_CARRIER);
	memset(shared->wanted, PRESENT, DIRECT + n * PER_CARRIER);
	manager_store_free(store);
	ASSERT_EQ(manager.n, DIRECT + n * 2);
}

static int put_more(struct shared *shared)
{
	struct manager_store *store;

	if (manager_store_new(ROOM, &store) < 0)
		return 7;
	put_range(store, 300, 300 + 3 * PER_CARRIER);
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
	as_daemon(put_more, shared);
	memset(shared->wanted + 300, PRESENT, 3 * PER_CARRIER);
	as_daemon(adopt, shared);
	as_daemon(check_all, shared);
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
	as_daemon(look_at_room, shared);
	room = shared->room;
	rename_carriers(0xfffffff0u);
	as_daemon(look_at_room, shared);
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
	as_daemon(adopt_with_few, shared);
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
	put_range(store, 0, DIRECT + 2 * PER_CARRIER);
	manager_store_free(store);
	return 0;
}

TEST(without_a_way_to_look_into_queues_nothing_lies_there)
{
	struct shared *shared = make_shared();

	manager_init();
	as_daemon(put_without_peeks, shared);
	if (!shared->armed)
		test_skip("no filters of system calls here");
	ASSERT_EQ(manager.n, DIRECT + 2 * PER_CARRIER);
	memset(shared->wanted, PRESENT, DIRECT + 2 * PER_CARRIER);
	as_daemon(adopt, shared);
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

/* True: the manager got both sockets of a carrier, and then no more could be in flight. */
static bool fail_first_put(struct manager_store *store)
{
	int pair[2], memory = make_memory(300);
	struct rlimit before;

	fly(pair, 2, &before);
	ASSERT_EQ(manager_store_put_memory(store, "s1-m300", memory), -ETOOMANYREFS);
	fly_no_more(pair, &before);
	close(memory);
	hear_all();
	return manager.n == DIRECT + 2;
}

static void fail_and_remove_all(struct manager_store *store)
{
	put_range(store, 0, DIRECT);
	for (unsigned int i = 0; !fail_first_put(store); i++) {
		if (i == 200)
			_exit(TEST_EXIT_SKIP);
		usleep(10000);
	}
	for (unsigned int i = 0; i < DIRECT; i++)
		remove_one(store, i);
	manager_store_settle(store);
	hear_all();
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

	put_range(store, 0, DIRECT + 3);
	ASSERT_OK(manager_store_put_memory(store, "s1-m12c", memory));
	if (!is_open_elsewhere(memory))
		_exit(TEST_EXIT_SKIP);
	put_range(store, DIRECT + 4, DIRECT + 40);
	fly(pair, 0, &before);
	remove_one(store, 300);
	manager_store_settle(store);
	/* A whole carrier needs no room to go. */
	for (unsigned int i = DIRECT + 16; i < DIRECT + 32; i++)
		remove_one(store, i);
	manager_store_settle(store);
	hear_all();
	ASSERT_EQ(manager.n, DIRECT + 4);
	fly_no_more(pair, &before);
	ASSERT(is_open_elsewhere(memory));
	/* In another queue. */
	remove_one(store, DIRECT + 15);
	manager_store_settle(store);
	ASSERT(!is_open_elsewhere(memory));
	for (unsigned int i = 0; i < DIRECT + 40; i++)
		remove_one(store, i);
	manager_store_settle(store);
	hear_all();
	ASSERT_EQ(manager.n, 0);
	close(memory);
}

TEST(memory_that_could_not_be_taken_out_goes_with_the_next_removal)
{
	skip_without_peeks();
	as_user(remove_without_room);
}

static void change(struct manager_store *store, struct shared *shared, unsigned int *random)
{
	for (unsigned int n = 0; n < 40; n++) {
		unsigned int i = DIRECT + (*random = *random * 1103515245u + 12345u) / 65536u % 120u;

		if (shared->wanted[i] == ABSENT)
			put(store, i);
		else
			remove_one(store, i);
		shared->wanted[i] = shared->wanted[i] == ABSENT ? PRESENT : ABSENT;
		hear_all();
		if (n % 4 == 3)
			manager_store_settle(store);
	}
	manager_store_settle(store);
	hear_all();
}

TEST(random_changes_leave_what_is_wanted)
{
	struct shared *shared = make_shared();
	struct manager_store *store;
	unsigned int random = 1;

	skip_without_peeks();
	manager_init();
	ASSERT_OK(manager_store_new(ROOM, &store));
	put_range(store, 0, DIRECT);
	memset(shared->wanted, PRESENT, DIRECT);
	for (unsigned int i = 0; i < 40; i++) {
		change(store, shared, &random);
		as_daemon(check_all, shared);
	}
	manager_store_free(store);
	as_daemon(adopt, shared);
	as_daemon(check_all, shared);
	manager_deinit();
}

/* ---- killed -------------------------------------------------------------------------------------------------------- */

static void put_wanted(struct manager_store *store, struct shared *shared, unsigned int from, unsigned int to)
{
	for (unsigned int i = from; i < to; i++) {
		shared->wanted[i] = EITHER;
		put(store, i);
		shared->wanted[i] = PRESENT;
	}
}

static void remove_wanted(struct manager_store *store, struct shared *shared, unsigned int from, unsigned int to, unsigned int step)
{
	for (unsigned int i = from; i < to; i += step) {
		shared->wanted[i] = EITHER;
		remove_one(store, i);
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
		hear_all();
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
		hear_all();
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
	hear_all();
	as_daemon(adopt, shared);
	for (unsigned int i = 0; i < MOST_MEMORIES; i++)
		shared->wanted[i] = shared->wanted[i] == PRESENT ? PRESENT : ABSENT;
	as_daemon(check_all, shared);
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
