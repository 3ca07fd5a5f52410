/* SPDX-License-Identifier: Apache-2.0 */
/* The store against a manager that is a datagram socket: what it is sent, what is refused before, what is claimed. */
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/porter/porter.h"
#include "daemon/porter/zygote.h"
#include "daemon/restart/store.h"
#include "daemon/service/fdstore.h"
#include "proto/base/cleanup.h"
#include "proto/base/later.h"
#include "tests/lib/test.h"

#define TEXT_BYTES 256

struct manager {
	char path[64];
	int fd;
};

static void manager_init(struct manager *manager, const char *max)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	snprintf(manager->path, sizeof(manager->path), "/tmp/shmemd-store-XXXXXX");
	ASSERT(mkdtemp(manager->path));
	rmdir(manager->path);
	memcpy(addr.sun_path, manager->path, strlen(manager->path));
	manager->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ASSERT_OK(bind(manager->fd, (struct sockaddr *)&addr, sizeof(addr)));
	setenv("NOTIFY_SOCKET", manager->path, 1);
	setenv("FDSTORE", max, 1);
	unsetenv("LISTEN_PID");
}

static void manager_deinit(struct manager *manager)
{
	close(manager->fd);
	unlink(manager->path);
	fdstore_end();
	later_wait();
}

/* The next message; its descriptor, or -1. */
static int hear(struct manager *manager, char *text)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {.iov_base = text, .iov_len = TEXT_BYTES - 1};
	struct msghdr hdr = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(manager->fd, &hdr, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&hdr);
	int fd = -1;

	text[n > 0 ? n : 0] = 0;
	if (n > 0 && cmsg)
		memcpy(&fd, CMSG_DATA(cmsg), sizeof(fd));
	return fd;
}

static void hear_nothing(struct manager *manager)
{
	char text[TEXT_BYTES];

	ASSERT_EQ(hear(manager, text), -1);
	ASSERT_STREQ(text, "");
}

static int hear_keep(struct manager *manager, const char *name)
{
	char text[TEXT_BYTES], want[TEXT_BYTES];
	int fd = hear(manager, text);

	snprintf(want, sizeof(want), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
	ASSERT_STREQ(text, want);
	ASSERT_GE(fd, 0);
	return fd;
}

static void hear_drop(struct manager *manager, const char *name)
{
	char text[TEXT_BYTES], want[TEXT_BYTES];

	snprintf(want, sizeof(want), "FDSTOREREMOVE=1\nFDNAME=%s", name);
	ASSERT_EQ(hear(manager, text), -1);
	ASSERT_STREQ(text, want);
}

static bool is_same_file(int a, int b)
{
	long r = syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, a, b);

	if (r < 0 && errno == ENOSYS)
		test_skip("no kcmp here");
	ASSERT_GE(r, 0);
	return r == 0;
}

/* ---- put ---------------------------------------------------------------------------------------------------------- */

TEST(each_name_of_a_memfd_has_an_open_file_of_its_own)
{
	int memfd = memfd_create("test", MFD_CLOEXEC), one, two;
	struct manager_store *store;
	struct manager manager;
	char bytes[4] = "";

	manager_init(&manager, "10");
	ASSERT_OK(manager_store_new(10, &store));
	ASSERT_OK(manager_store_put(store, "s1f-m1", memfd));
	ASSERT_OK(manager_store_put(store, "s1f-q2", memfd));
	one = hear_keep(&manager, "s1f-m1");
	two = hear_keep(&manager, "s1f-q2");
	ASSERT(!is_same_file(one, two));
	ASSERT(!is_same_file(one, memfd));
	ASSERT_EQ(pwrite(memfd, "abc", 3, 0), 3);
	ASSERT_EQ(pread(two, bytes, 3, 0), 3);
	ASSERT_STREQ(bytes, "abc");
	/* With the rights that it had. */
	ASSERT_EQ(pwrite(one, "d", 1, 0), 1);
	close(one);
	close(two);
	close(memfd);
	hear_nothing(&manager);
	ASSERT(!manager_store_free(store));
	hear_nothing(&manager);
	manager_deinit(&manager);
}

static void refuse_twice(struct manager_store *store, struct manager *manager, int fd)
{
	ASSERT_OK(manager_store_put(store, "s1-p1", fd));
	close(hear_keep(manager, "s1-p1"));
	ASSERT_ERR(manager_store_put(store, "s1-p2", fd), EBUSY);
	hear_nothing(manager);
	manager_store_remove(store, "s1-p1");
	hear_drop(manager, "s1-p1");
	ASSERT_OK(manager_store_put(store, "s1-p2", fd));
	close(hear_keep(manager, "s1-p2"));
	manager_store_remove(store, "s1-p2");
	hear_drop(manager, "s1-p2");
	close(fd);
}

TEST(file_that_cannot_be_opened_again_is_kept_once)
{
	struct manager_store *store;
	struct manager manager;
	int one = eventfd(0, EFD_CLOEXEC), two = eventfd(0, EFD_CLOEXEC);

	/* Two of a kind are two files, though they may have one inode. */
	manager_init(&manager, "10");
	is_same_file(one, two);
	ASSERT_OK(manager_store_new(10, &store));
	ASSERT_OK(manager_store_put(store, "s2-c0.1", one));
	ASSERT_OK(manager_store_put(store, "s2-c0.2", two));
	close(hear_keep(&manager, "s2-c0.1"));
	close(hear_keep(&manager, "s2-c0.2"));
	close(two);
	refuse_twice(store, &manager, socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	refuse_twice(store, &manager, eventfd(0, EFD_CLOEXEC));
	refuse_twice(store, &manager, open("/dev/null", O_RDONLY | O_CLOEXEC));
	ASSERT_ERR(manager_store_put(store, "s2-c0.3", one), EBUSY);
	close(one);
	manager_store_free(store);
	manager_deinit(&manager);
}

/* An open for writing would wait until the holder of the lease gives it up, or the lease expires. */
TEST(memory_with_a_lease_on_it_is_refused_at_once)
{
	int memfd = memfd_create("test", MFD_CLOEXEC), leased;
	struct manager_store *store;
	struct manager manager;
	char path[40];

	signal(SIGIO, SIG_IGN);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", memfd);
	leased = open(path, O_RDONLY | O_CLOEXEC);
	if (fcntl(leased, F_SETLEASE, F_RDLCK) < 0)
		test_skip("no leases on memory here");
	manager_init(&manager, "10");
	ASSERT_OK(manager_store_new(10, &store));
	ASSERT_ERR(manager_store_put(store, "s1-m1", memfd), EAGAIN);
	hear_nothing(&manager);
	close(leased);
	ASSERT_OK(manager_store_put(store, "s1-m1", memfd));
	close(hear_keep(&manager, "s1-m1"));
	close(memfd);
	manager_store_free(store);
	manager_deinit(&manager);
}

TEST(full_store_refuses_and_has_room_again)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct manager_store *store;
	struct manager manager;
	char name[FDSTORE_NAME_BYTES];

	/* One place is the listener's. */
	manager_init(&manager, "5");
	ASSERT_OK(manager_store_new(100, &store));
	ASSERT_EQ(manager_store_room(store), 4);
	for (unsigned int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "s%x-state", i);
		ASSERT_OK(manager_store_put(store, name, fd));
		close(hear_keep(&manager, name));
	}
	ASSERT_EQ(manager_store_room(store), 0);
	ASSERT_ERR(manager_store_put(store, "s9-state", fd), ENOSPC);
	hear_nothing(&manager);
	manager_store_remove(store, "s2-state");
	hear_drop(&manager, "s2-state");
	ASSERT_EQ(manager_store_room(store), 1);
	ASSERT_OK(manager_store_put(store, "s9-state", fd));
	close(hear_keep(&manager, "s9-state"));
	manager_store_free(store);
	close(fd);
	manager_deinit(&manager);
}

TEST(names_are_let_go_of_without_a_free_descriptor)
{
	int fd = memfd_create("test", MFD_CLOEXEC), more[2];
	struct rlimit limit, none;
	struct manager_store *store;
	struct manager manager;

	manager_init(&manager, "20");
	ASSERT_OK(manager_store_new(20, &store));
	ASSERT_OK(manager_store_put(store, "s1-state", fd));
	close(hear_keep(&manager, "s1-state"));
	ASSERT_OK(getrlimit(RLIMIT_NOFILE, &limit));
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &none));
	ASSERT_ERR(pipe2(more, O_CLOEXEC) < 0 ? -errno : 0, EMFILE);
	manager_store_remove(store, "s1-state");
	ASSERT_OK(fdstore_try_notify("WATCHDOG=1"));
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &limit));
	hear_drop(&manager, "s1-state");
	manager_store_free(store);
	close(fd);
	manager_deinit(&manager);
}

/* It may have had the same name. */
TEST(what_is_to_be_kept_comes_behind_all_that_is_to_go)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct manager manager;
	unsigned int n = 0;

	manager_init(&manager, "10");
	while (fdstore_flush()) {
		ASSERT_OK(fdstore_drop("s1-m1"));
		n++;
	}
	for (unsigned int i = 0; i < 3; i++)
		hear_drop(&manager, "s1-m1");
	ASSERT_OK(fdstore_keep("s1-m1", fd));
	for (; n > 3; n--) {
		hear_drop(&manager, "s1-m1");
		fdstore_flush();
	}
	close(hear_keep(&manager, "s1-m1"));
	hear_nothing(&manager);
	close(fd);
	manager_deinit(&manager);
}

/* All names are one string of the next daemon's environment, of 128 KiB at most. */
#define N_DROPPED 1000u /* above net.unix.max_dgram_qlen */

/* All of them, in their order, as soon as it reads again. */
TEST(manager_that_does_not_read_is_told_later_what_to_let_go_of)
{
	struct manager manager;
	char name[32];
	unsigned int heard = 0;

	manager_init(&manager, "10");
	for (unsigned int i = 0; i < N_DROPPED; i++) {
		snprintf(name, sizeof(name), "s1-m%x", i);
		ASSERT_OK(fdstore_drop(name));
	}
	ASSERT(!fdstore_flush());
	while (!fdstore_flush())
		for (unsigned int i = 0; i < 5 && heard < N_DROPPED; i++, heard++) {
			snprintf(name, sizeof(name), "s1-m%x", heard);
			hear_drop(&manager, name);
		}
	ASSERT_LT(heard, N_DROPPED);
	while (heard < N_DROPPED) {
		snprintf(name, sizeof(name), "s1-m%x", heard++);
		hear_drop(&manager, name);
	}
	hear_nothing(&manager);
	manager_deinit(&manager);
}

/* Returns how many removals are on their way to a manager that does not read. */
static unsigned int fill_up(void)
{
	unsigned int n = 0;

	for (; fdstore_flush(); n++)
		ASSERT_OK(fdstore_drop("s9-m1"));
	return n;
}

static void hear_drops(struct manager *manager, unsigned int n)
{
	for (; n > 0; n--) {
		hear_drop(manager, "s9-m1");
		fdstore_flush();
	}
}

#define N_KEPT 20u

TEST(manager_that_does_not_read_gets_later_what_it_is_to_keep)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct manager manager;
	uint64_t before, mark;
	unsigned int n_drops;
	char name[32];

	manager_init(&manager, "100");
	ASSERT_EQ(fdstore_mark(), 0u);
	n_drops = fill_up();
	before = fdstore_mark();
	for (unsigned int i = 0; i < N_KEPT; i++) {
		snprintf(name, sizeof(name), "s1-m%x", i);
		ASSERT_OK(fdstore_keep(name, fd));
	}
	mark = fdstore_mark();
	ASSERT(!fdstore_reached(mark));
	ASSERT(!fdstore_reached(before));
	/* It never hears of this one. */
	ASSERT_OK(fdstore_drop("s1-m5"));
	hear_drops(&manager, n_drops);
	ASSERT(fdstore_reached(before));
	ASSERT(!fdstore_reached(mark));
	for (unsigned int i = 0; i < N_KEPT; i++) {
		snprintf(name, sizeof(name), "s1-m%x", i);
		if (i != 5)
			close(hear_keep(&manager, name));
		fdstore_flush();
	}
	ASSERT(fdstore_reached(mark));
	ASSERT_EQ(fdstore_mark(), 0u);
	hear_nothing(&manager);
	close(fd);
	manager_deinit(&manager);
}

#define NOBODY 65534
#define N_UNREAD 30

/* A user with so many unread descriptors that the kernel takes no more of them. Root has no such limit. */
static void leave_unread(const struct manager *manager, int fd, int sockets[2])
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(N_UNREAD * sizeof(int))] = {0};
	struct iovec iov = {.iov_base = control, .iov_len = 1};
	struct msghdr hdr = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	const struct rlimit low = {.rlim_cur = N_UNREAD - 6, .rlim_max = N_UNREAD - 6};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&hdr);

	if (geteuid() == 0) {
		ASSERT_OK(chown(manager->path, NOBODY, NOBODY));
		ASSERT_OK(setresuid(NOBODY, NOBODY, NOBODY));
		prctl(PR_SET_DUMPABLE, 1); /* LeakSanitizer traces */
	}
	ASSERT_OK(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, sockets));
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &low));
	*cmsg = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(N_UNREAD * sizeof(int))};
	for (size_t i = 0; i < N_UNREAD; i++)
		memcpy(CMSG_DATA(cmsg) + i * sizeof(fd), &fd, sizeof(fd));
	ASSERT_EQ(sendmsg(sockets[0], &hdr, 0), 1);
}

TEST(descriptors_that_the_kernel_does_not_take_yet_are_kept_later)
{
	int fd = memfd_create("test", MFD_CLOEXEC), sockets[2];
	struct manager manager;

	manager_init(&manager, "100");
	leave_unread(&manager, fd, sockets);
	ASSERT_OK(fdstore_keep("s1-m1", fd));
	ASSERT_NE(fdstore_mark(), 0u);
	hear_nothing(&manager);
	close(sockets[0]);
	close(sockets[1]);
	ASSERT(fdstore_flush());
	close(hear_keep(&manager, "s1-m1"));
	close(fd);
	manager_deinit(&manager);
}

/* As of a manager that is gone, or of whatever else will not be mended. Sessions ask for it by their prefix. */
TEST(descriptor_that_waits_and_cannot_be_sent_is_lost_until_its_name_is_dropped)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct manager manager;

	manager_init(&manager, "100");
	fill_up();
	ASSERT_OK(fdstore_keep("s1f-m1", fd));
	ASSERT_OK(fdstore_keep("s2-m1", fd));
	ASSERT(!fdstore_flush());
	ASSERT(!fdstore_has_lost("s"));
	/* Another session takes back one that waits. */
	ASSERT_OK(fdstore_drop("s2-m1"));
	shutdown(manager.fd, SHUT_RDWR);
	ASSERT(fdstore_flush());
	ASSERT(fdstore_has_lost("s1f-"));
	ASSERT(!fdstore_has_lost("s1-"));
	ASSERT(!fdstore_has_lost("s2-"));
	ASSERT_OK(fdstore_drop("s1f-m1"));
	ASSERT(!fdstore_has_lost("s"));
	close(fd);
	manager_deinit(&manager);
}

/* systemd closes the descriptor that comes with BARRIER=1 when it has done all that was said before (sd_notify_barrier(3)). */
TEST(follower_hangs_up_when_the_manager_has_read_what_was_said_before)
{
	struct manager manager;
	char text[TEXT_BYTES];
	struct pollfd wait;
	int fd;

	manager_init(&manager, "100");
	ASSERT_OK(fdstore_drop("s1-m1"));
	wait.fd = fdstore_follow();
	ASSERT_GE(wait.fd, 0);
	hear_drop(&manager, "s1-m1");
	ASSERT_EQ(poll(&wait, 1, 0), 0);
	fd = hear(&manager, text);
	ASSERT_STREQ(text, "BARRIER=1");
	ASSERT_EQ(poll(&wait, 1, 0), 0);
	close(fd);
	ASSERT_EQ(poll(&wait, 1, 0), 1);
	close(wait.fd);
	manager_deinit(&manager);
}

TEST(descriptors_that_wait_for_a_manager_are_bounded)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct rlimit limit, low;
	struct manager manager;
	unsigned int n_drops;

	manager_init(&manager, "100");
	n_drops = fill_up();
	ASSERT_OK(getrlimit(RLIMIT_NOFILE, &limit));
	low = (struct rlimit){.rlim_cur = 80, .rlim_max = limit.rlim_max};
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &low));
	for (unsigned int i = 0; i < 10; i++)
		ASSERT_OK(fdstore_keep("s1-m1", fd));
	ASSERT_ERR(fdstore_keep("s1-m1", fd), ENOBUFS);
	/* Words and removals are not. */
	fdstore_notify("STATUS=waits");
	ASSERT_OK(fdstore_drop("s1-m2"));
	for (unsigned int i = 0; i < 10; i++)
		ASSERT_OK(fdstore_drop("s1-m1"));
	ASSERT_OK(fdstore_keep("s1-m1", fd));
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &limit));
	hear_drops(&manager, n_drops);
	close(fd);
	manager_deinit(&manager);
}

TEST(names_fit_into_an_environment_variable)
{
	int fd = memfd_create("test", MFD_CLOEXEC), r;
	struct manager_store *store;
	struct manager manager;
	char name[FDSTORE_NAME_BYTES];
	size_t bytes = 0;
	unsigned int n;

	manager_init(&manager, "100000");
	ASSERT_OK(manager_store_new(100000, &store));
	for (n = 0;; n++) {
		snprintf(name, sizeof(name), "s%050x-state", n);
		r = manager_store_put(store, name, fd);
		if (r < 0)
			break;
		close(hear_keep(&manager, name));
		bytes += strlen(name) + 1;
	}
	ASSERT_EQ(r, -ENOSPC);
	ASSERT_GT(bytes, 120u << 10);
	ASSERT_LT(bytes, 128u << 10);
	manager_store_free(store);
	close(fd);
	manager_deinit(&manager);
}

TEST(names_are_checked)
{
	static const char *const wrong[] = {
		"", "s-state", "s1", "s1-", "s1-a:b", "s1-a\nREADY=1", "sx-state", "S1-state", "1-state", "s1 -x", "s1-A",
		"s12345678901234567890123456789012345678901234567890123456789-abc", "shmemd.socket"};
	static const char *const right[] = {"node-state", "s0-pid", "sdeadbeef01-c12.7", "s1-p0"};
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct manager_store *store;
	struct manager manager;

	manager_init(&manager, "20");
	ASSERT_OK(manager_store_new(20, &store));
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		ASSERT_ERR(manager_store_put(store, wrong[i], fd), EINVAL);
	for (unsigned int i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		ASSERT_OK(manager_store_put(store, right[i], fd));
		ASSERT_ERR(manager_store_put(store, right[i], fd), EEXIST);
		close(hear_keep(&manager, right[i]));
	}
	manager_store_remove(store, "s77-state");
	hear_nothing(&manager);
	ASSERT_ERR(manager_store_put(store, "s5-m1", -1), EBADF);
	ASSERT_EQ(manager_store_room(store), 20 - 1 - 4);
	manager_store_free(store);
	close(fd);
	manager_deinit(&manager);
}

TEST(put_that_cannot_be_sent_leaves_nothing)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	struct manager_store *store;
	struct manager manager;

	manager_init(&manager, "10");
	ASSERT_OK(manager_store_new(10, &store));
	setenv("NOTIFY_SOCKET", "/nonexistent/socket", 1);
	ASSERT_ERR(manager_store_put(store, "s1-state", fd), ENOENT);
	setenv("NOTIFY_SOCKET", manager.path, 1);
	ASSERT_EQ(manager_store_room(store), 9);
	ASSERT_OK(manager_store_put(store, "s1-state", fd));
	close(hear_keep(&manager, "s1-state"));
	manager_store_free(store);
	close(fd);
	manager_deinit(&manager);
}

TEST(without_a_manager_that_keeps_there_is_no_store)
{
	struct manager_store *store = (struct manager_store *)1;
	struct manager manager;

	manager_init(&manager, "10");
	ASSERT_OK(manager_store_new(0, &store));
	ASSERT(!store);
	unsetenv("FDSTORE");
	ASSERT_OK(manager_store_new(10, &store));
	ASSERT(!store);
	setenv("FDSTORE", "10", 1);
	unsetenv("NOTIFY_SOCKET");
	ASSERT_OK(manager_store_new(10, &store));
	ASSERT(!store);
	ASSERT_OK(manager_store_put(store, "s1-state", 0));
	manager_store_remove(store, "s1-state");
	ASSERT_ERR(manager_store_take(store, "s1-state"), ENOENT);
	manager_store_each_left(store, NULL, NULL);
	ASSERT_EQ(manager_store_discard_left(store), 0);
	ASSERT_EQ(manager_store_room(store), 0);
	ASSERT(!manager_store_free(store));
	manager_deinit(&manager);
}

/* ---- claims ------------------------------------------------------------------------------------------------------- */

static void set_number(const char *key, long value)
{
	char text[24];

	snprintf(text, sizeof(text), "%ld", value);
	setenv(key, text, 1);
}

static int make_listener(int type)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	/* A name that the kernel chooses. */
	ASSERT_OK(bind(fd, (struct sockaddr *)&addr, sizeof(addr.sun_family)));
	ASSERT_OK(listen(fd, 1));
	return fd;
}

/*
 * body() in a child whose descriptors from 3 on are these, as a daemon finds them; a byte in each memfd names it. The
 * manager's socket stays where the parent has it.
 */
static void as_daemon(const int *fds, unsigned int n, const char *names, void (*body)(void))
{
	pid_t pid = fork();
	int status;

	ASSERT_GE(pid, 0);
	if (pid == 0) {
		int above[16];

		for (unsigned int i = 0; i < n; i++)
			above[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 100);
		for (unsigned int i = 0; i < n; i++)
			if (dup2(above[i], 3 + (int)i) < 0)
				_exit(1);
		set_number("LISTEN_PID", getpid());
		set_number("LISTEN_FDS", n);
		setenv("LISTEN_FDNAMES", names, 1);
		body();
		_exit(0);
	}
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
}

static int make_named(char c)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	ASSERT_EQ(pwrite(fd, &c, 1, 0), 1);
	return fd;
}

static void assert_named(int fd, char want)
{
	char c = 0;

	ASSERT_EQ(pread(fd, &c, 1, 0), 1);
	ASSERT_EQ(c, want);
	ASSERT_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

static void count_left(void *arg, const char *name)
{
	unsigned int *n = arg;

	ASSERT(strcmp(name, "s2-pid") == 0 || strcmp(name, "node-state") == 0);
	(*n)++;
}

static void claim_and_discard(void)
{
	struct manager_store *store;
	unsigned int n = 0;
	bool kept = true;
	int fd;

	ASSERT_OK(fdstore_listener(&fd, &kept));
	ASSERT_EQ(fd, 3);
	ASSERT(!kept);
	ASSERT_OK(manager_store_new(10, &store));
	ASSERT_EQ(manager_store_room(store), 10 - 3);
	fd = manager_store_take(store, "s1-state");
	assert_named(fd, 'a');
	ASSERT_ERR(manager_store_take(store, "s1-state"), ENOENT);
	ASSERT_ERR(manager_store_take(store, "s3-state"), ENOENT);
	/* It is the manager's still, under this name. */
	ASSERT_ERR(manager_store_put(store, "s1-state", fd), EEXIST);
	manager_store_each_left(store, count_left, &n);
	ASSERT_EQ(n, 2);
	ASSERT_EQ(manager_store_discard_left(store), 2);
	ASSERT_EQ(manager_store_discard_left(store), 0);
	ASSERT_EQ(manager_store_room(store), 10 - 1);
	/* Nothing is claimed twice. */
	ASSERT(!getenv("LISTEN_FDS"));
	ASSERT_ERR(fdstore_listener(&fd, &kept), ENOENT);
	manager_store_remove(store, "s1-state");
	manager_store_free(store);
	later_wait();
	ASSERT_EQ(fcntl(5, F_GETFD), -1);
	ASSERT_EQ(fcntl(6, F_GETFD), -1);
}

TEST(claims_are_taken_by_name_and_strays_discarded)
{
	int fds[4] = {make_listener(SOCK_SEQPACKET), make_named('a'), make_named('b'), make_named('c')};
	struct manager manager;

	manager_init(&manager, "20");
	as_daemon(fds, 4, "shmemd.socket:s1-state:s2-pid:node-state", claim_and_discard);
	hear_drop(&manager, "s2-pid");
	hear_drop(&manager, "node-state");
	hear_drop(&manager, "s1-state");
	hear_nothing(&manager);
	for (unsigned int i = 0; i < 4; i++)
		close(fds[i]);
	manager_deinit(&manager);
}

static void *count_porters(void *arg, int fd, struct porter *porter)
{
	(*(unsigned int *)arg)++;
	return NULL;
}

static void stay_asleep(void *arg, uint64_t nsec)
{
}

/* As a daemon does that cannot start: its porters are gone by then, and sockets are the manager's still. */
static void claim_and_fail(void)
{
	unsigned int n = 0;
	struct porters_attr attr = {.hooks = {.arg = &n, .watch = count_porters, .alarm = stay_asleep}};
	struct porters *porters;
	struct manager_store *store;

	ASSERT_OK(zygote_start(NULL, &attr.zygote));
	ASSERT_OK(porters_new(&attr, &porters));
	ASSERT_OK(manager_store_new(10, &store));
	manager_store_set_porters(store, porters);
	manager_store_free(store);
	ASSERT_EQ(n, 0);
	ASSERT_EQ(fcntl(3, F_GETFD), -1);
	porters_free(porters);
}

TEST(untaken_claims_are_closed_without_porters)
{
	struct manager manager;
	int fds[2];

	manager_init(&manager, "20");
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds));
	as_daemon(fds, 1, "s1-sock", claim_and_fail);
	hear_nothing(&manager);
	close(fds[0]);
	close(fds[1]);
	manager_deinit(&manager);
}

static void claim_of_no_use(void)
{
	struct manager_store *store;

	ASSERT_OK(manager_store_new(0, &store));
	ASSERT(!store);
	later_wait();
	ASSERT_EQ(fcntl(3, F_GETFD), -1);
}

TEST(kept_descriptors_are_released_if_none_are_to_be_kept)
{
	struct manager manager;
	int fd = make_named('a');

	manager_init(&manager, "20");
	as_daemon(&fd, 1, "s1-state", claim_of_no_use);
	hear_drop(&manager, "s1-state");
	close(fd);
	manager_deinit(&manager);
}

static void claim_others(void)
{
	struct manager_store *store;

	set_number("LISTEN_PID", getpid() + 1);
	ASSERT_OK(manager_store_new(10, &store));
	ASSERT_EQ(manager_store_room(store), 10);
	manager_store_free(store);
	ASSERT_GE(fcntl(3, F_GETFD), 0);
}

TEST(descriptors_of_another_process_are_not_touched)
{
	struct manager manager;
	int fd = make_named('a');

	manager_init(&manager, "20");
	as_daemon(&fd, 1, "s1-state", claim_others);
	hear_nothing(&manager);
	close(fd);
	manager_deinit(&manager);
}

/* ---- the listening socket ------------------------------------------------------------------------------------------ */

static void find_kept_listener(void)
{
	bool kept = false;
	int fd;

	ASSERT_OK(fdstore_listener(&fd, &kept));
	ASSERT_EQ(fd, 4);
	ASSERT(kept);
}

static void find_activated_before_kept(void)
{
	bool kept = true;
	int fd;

	ASSERT_OK(fdstore_listener(&fd, &kept));
	ASSERT_EQ(fd, 3);
	ASSERT(!kept);
	ASSERT_EQ(fcntl(4, F_GETFD), -1);
}

static void find_activated_beside_published(void)
{
	bool kept = true;
	int fd;

	ASSERT_OK(fdstore_listener(&fd, &kept));
	ASSERT_EQ(fd, 3);
	ASSERT(!kept);
	ASSERT_GE(fcntl(4, F_GETFD), 0);
}

static void find_wrong(void)
{
	bool kept;
	int fd;

	ASSERT_ERR(fdstore_listener(&fd, &kept), EINVAL);
}

static void find_none(void)
{
	bool kept;
	int fd;

	ASSERT_ERR(fdstore_listener(&fd, &kept), ENOENT);
}

TEST(listener_is_distinguished_from_kept_descriptors)
{
	int memfd = make_named('a'), one = make_listener(SOCK_SEQPACKET), two = make_listener(SOCK_SEQPACKET);
	int stream = make_listener(SOCK_STREAM);
	struct manager manager;

	manager_init(&manager, "20");
	as_daemon((int[]){memfd, one}, 2, "s1-state:listener", find_kept_listener);
	as_daemon((int[]){one, two}, 2, "shmemd.socket:listener", find_activated_before_kept);
	hear_drop(&manager, "listener");
	/* A published descriptor may be a listening socket of a client's. */
	as_daemon((int[]){one, two}, 2, "anything:s1-p0", find_activated_beside_published);
	as_daemon((int[]){one, two}, 2, "a:b", find_wrong);
	as_daemon((int[]){stream}, 1, "shmemd.socket", find_wrong);
	as_daemon((int[]){memfd}, 1, "unknown", find_wrong);
	as_daemon((int[]){one}, 1, "s1-p0", find_none);
	as_daemon((int[]){memfd}, 1, "listener", find_none);
	hear_drop(&manager, "listener");
	hear_nothing(&manager);
	close(memfd);
	close(one);
	close(two);
	close(stream);
	manager_deinit(&manager);
}
