/* SPDX-License-Identifier: Apache-2.0 */
#include "carriers-lab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/later.h"
#include "tests/lib/test.h"

struct manager manager;

/* ---- the manager --------------------------------------------------------------------------------------------------- */

void manager_init(void)
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

static void manager_let_go(unsigned int i)
{
	close(manager.kept[i].fd);
	manager.n--;
	memmove(&manager.kept[i], &manager.kept[i + 1], (manager.n - i) * sizeof(manager.kept[0]));
}

void manager_deinit(void)
{
	while (manager.n > 0)
		manager_let_go(0);
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
			manager_let_go(i);
	return true;
}

void manager_hear_all(void)
{
	while (hear_one())
		;
}

/* ---- memory -------------------------------------------------------------------------------------------------------- */

void name_memory(char name[FDSTORE_NAME_BYTES], unsigned int i)
{
	snprintf(name, FDSTORE_NAME_BYTES, "s1-m%x", i);
}

int make_memory(unsigned int i)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	ASSERT_EQ(pwrite(fd, &i, sizeof(i), 0), sizeof(i));
	return fd;
}

void put_memory(struct manager_store *store, unsigned int i)
{
	char name[FDSTORE_NAME_BYTES];
	int fd = make_memory(i);

	name_memory(name, i);
	ASSERT_OK(manager_store_put_memory(store, name, fd));
	close(fd);
}

void put_memories(struct manager_store *store, unsigned int from, unsigned int to)
{
	for (unsigned int i = from; i < to; i++) {
		put_memory(store, i);
		if (manager.fd >= 0)
			manager_hear_all();
	}
}

void remove_memory(struct manager_store *store, unsigned int i)
{
	char name[FDSTORE_NAME_BYTES];

	name_memory(name, i);
	manager_store_remove(store, name);
	if (manager.fd >= 0)
		manager_hear_all();
}

/* ---- the next daemon ----------------------------------------------------------------------------------------------- */

static void __attribute__((noreturn)) become_daemon(int (*body)(struct shared *shared), struct shared *shared)
{
	static char names[MOST_KEPT * FDSTORE_NAME_BYTES];
	char text[24];
	size_t at = 0;
	int above[MOST_KEPT], r;

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
	r = body(shared);
	fdstore_end();
	_exit(r);
}

/* The manager hears what it says meanwhile. */
void as_next_daemon(int (*body)(struct shared *shared), struct shared *shared)
{
	pid_t pid = fork();
	int status;

	ASSERT_GE(pid, 0);
	if (pid == 0)
		become_daemon(body, shared);
	while (waitpid(pid, &status, WNOHANG) == 0) {
		manager_hear_all();
		usleep(100);
	}
	manager_hear_all();
	if (status != 0)
		test_fail(TEST_WHERE, "the next daemon did not find what was kept: status 0x%x", (unsigned int)status);
}

bool is_memory(int fd, unsigned int want)
{
	unsigned int i = ~want;

	return pread(fd, &i, sizeof(i), 0) == sizeof(i) && i == want;
}

/* Takes what must be there, and lets go of the rest. */
int adopt_memory(struct shared *shared)
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
int check_memory(struct shared *shared)
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

struct shared *make_shared(void)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT(shared != MAP_FAILED);
	return shared;
}

void skip_without_peeks(void)
{
	int pair[2], zero = 0;

	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	if (setsockopt(pair[0], SOL_SOCKET, SO_PEEK_OFF, &zero, sizeof(zero)) < 0)
		test_skip("no SO_PEEK_OFF here");
	close(pair[0]);
	close(pair[1]);
}

/* Somebody has it open for writing by open(2): a lease for reading is not granted then. */
bool is_open_elsewhere(int fd)
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
