/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attackers.
 *
 * All but three of these hold a lock of the kernel for as long as the file server of the attacker does not answer: a thread is in
 * the middle of a system call that copies from, or to, a page of that file. The attacker keeps no copy of what it gives away.
 */
#include "tests/system/stall-lab.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <netinet/in.h>

#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/framing.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/system/mute-file.h"

#define ATTACKER_UID 54321
#define PAGE_BYTES 4096u
#define ITEMS_BRIEF 300000u
#define ITEMS_FULL 1000000u
#define ITEMS_OF_ONE 500u /* numbers under which an epoll descriptor watches each eventfd */
#define N_WATCHES 5000u

static const char *const names[STALL_N] = {
	[STALL_SOCKET] = "socket", [STALL_PIPE] = "pipe", [STALL_EVENTFD] = "eventfd",
	[STALL_USERFAULTFD] = "userfaultfd", [STALL_EPOLL] = "epoll", [STALL_PACKET] = "packet socket",
	[STALL_INOTIFY] = "inotify",
};

const char *stall_name(enum stall stall)
{
	return names[stall];
}

/* ---- a thread in the kernel -------------------------------------------------------------------------------------- */

struct victim {
	struct mute_file file;
	char *page; /* of that file */
	int fd; /* what the thread uses */
};

static void wait_until_asked(const struct mute_file *file)
{
	for (int i = 0; i < 5000 && mute_file_n_asked(file) == 0; i++)
		usleep(1000);
	ASSERT_GT(mute_file_n_asked(file), 0);
	/* It is in the kernel, and what it waits for does not come: a moment for the lock. */
	usleep(20000);
}

static void start_thread(struct victim *victim, void *(*fn)(void *arg))
{
	pthread_t thread;

	mute_file_mute(&victim->file);
	ASSERT_OK(pthread_create(&thread, NULL, fn, victim));
	wait_until_asked(&victim->file);
}

static bool open_page(struct victim *victim)
{
	if (!mute_file_try_open(&victim->file))
		return false;
	victim->page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, victim->file.fd, 0);
	ASSERT(victim->page != MAP_FAILED);
	return true;
}

static void *send_page(void *arg)
{
	struct victim *victim = arg;

	send(victim->fd, victim->page, PAGE_BYTES, MSG_NOSIGNAL);
	return NULL;
}

/* A connection of this machine with itself. */
static int make_tcp(int *ret_peer)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), sock;

	if (listener < 0)
		return -1;
	ASSERT_OK(bind(listener, (struct sockaddr *)&addr, sizeof(addr)));
	ASSERT_OK(listen(listener, 1));
	ASSERT_OK(getsockname(listener, (struct sockaddr *)&addr, &size));
	sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT_OK(connect(sock, (struct sockaddr *)&addr, sizeof(addr)));
	*ret_peer = accept(listener, NULL, NULL);
	close(listener);
	return sock;
}

/* It stays open as long as the thread is in it: asking it anything waits, and no close does. */
static int make_socket(struct victim *victim)
{
	int peer;

	victim->fd = make_tcp(&peer);
	if (victim->fd < 0)
		return -1;
	start_thread(victim, send_page);
	return fcntl(victim->fd, F_DUPFD_CLOEXEC, 0);
}

static void *write_page(void *arg)
{
	struct victim *victim = arg;

	return write(victim->fd, victim->page, PAGE_BYTES) < 0 ? NULL : victim;
}

static int make_pipe(struct victim *victim)
{
	int fds[2];

	ASSERT_OK(pipe2(fds, O_CLOEXEC));
	victim->fd = fds[1];
	start_thread(victim, write_page);
	return fds[0];
}

static void *wait_for_events(void *arg)
{
	struct victim *victim = arg;

	epoll_wait(victim->fd, (struct epoll_event *)victim->page, 1, -1);
	return NULL;
}

static int make_eventfd(struct victim *victim)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd = eventfd(1, EFD_CLOEXEC);

	victim->fd = epoll_create1(EPOLL_CLOEXEC);
	ASSERT_OK(epoll_ctl(victim->fd, EPOLL_CTL_ADD, fd, &event));
	start_thread(victim, wait_for_events);
	return fd;
}

static void *touch(void *arg)
{
	struct victim *victim = arg;

	return victim->page[0] ? victim : NULL;
}

/* Its own copy is closed before it stands. */
static void __attribute__((noreturn)) stand_while_mapping(const struct victim *victim, int pipe)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	framing_send(pipe, "f", 1, &fd, fd >= 0);
	safe_close(fd);
	if (read(pipe, &c, 1) == 1)
		mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE, victim->file.direct_fd, 0);
	_exit(0);
}

/*
 * A process maps the page while another one reads it. Its list of mappings is locked meanwhile, and the last close of a userfaultfd
 * changes that list.
 */
static int make_userfaultfd(struct victim *victim)
{
	static char packet[FRAMING_MAX_PACKET_BYTES];
	struct fdlist fds;
	size_t bytes;
	int socks[2];

	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks));
	if (fork() == 0)
		stand_while_mapping(victim, socks[1]);
	fdlist_init(&fds);
	ASSERT_OK(framing_recv(socks[0], packet, sizeof(packet), &bytes, &fds));
	if (fds.n == 0)
		return -1;
	start_thread(victim, touch);
	ASSERT_EQ(write(socks[0], "g", 1), 1);
	usleep(100000);
	return fdlist_take(&fds, 0);
}

/* ---- much to do -------------------------------------------------------------------------------------------------- */

static int make_epoll(void)
{
	const unsigned int n = test_is_full() ? ITEMS_FULL : ITEMS_BRIEF;
	struct epoll_event event = {.events = EPOLLIN};
	int fd = epoll_create1(EPOLL_CLOEXEC), copies[ITEMS_OF_ONE];

	for (unsigned int i = 0; i < n / ITEMS_OF_ONE; i++) {
		int one = eventfd(0, EFD_CLOEXEC);

		for (unsigned int k = 0; k < ITEMS_OF_ONE; k++) {
			copies[k] = fcntl(one, F_DUPFD_CLOEXEC, 0);
			if (copies[k] < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, copies[k], &event) < 0)
				return -1;
		}
		for (unsigned int k = 1; k < ITEMS_OF_ONE; k++)
			close(copies[k]);
		close(one);
	}
	return fd;
}

static int make_packet(void)
{
	if (geteuid() != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return -1;
	return socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
}

static int make_inotify(void)
{
	int fd = inotify_init1(IN_CLOEXEC);
	char path[96], folder[64];

	test_make_folder(folder, sizeof(folder), "watched");
	for (unsigned int i = 0; i < N_WATCHES; i++) {
		snprintf(path, sizeof(path), "%s/%u", folder, i);
		close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
		if (inotify_add_watch(fd, path, IN_ALL_EVENTS) < 0)
			i = N_WATCHES;
		unlink(path);
	}
	rmdir(folder);
	return fd;
}

static int make(enum stall stall)
{
	static struct victim victim;

	if (stall <= STALL_USERFAULTFD && !open_page(&victim))
		return -1;
	switch (stall) {
	case STALL_SOCKET:
		return make_socket(&victim);
	case STALL_PIPE:
		return make_pipe(&victim);
	case STALL_EVENTFD:
		return make_eventfd(&victim);
	case STALL_USERFAULTFD:
		return make_userfaultfd(&victim);
	case STALL_EPOLL:
		return make_epoll();
	case STALL_PACKET:
		return make_packet();
	default:
		return make_inotify();
	}
}

/* ---- the attacker ------------------------------------------------------------------------------------------------ */

static void fill_publish(struct msg *req)
{
	msg_init(req, MSG_PUBLISH_REQ, 0);
	req->publish_req.has_fd = true;
}

static void publish(struct raw_client *raw, int fd)
{
	struct msg req, rep;

	fill_publish(&req);
	raw_expect(raw, &req, &fd, 1, MSG_OK_REP, &rep);
	close(fd);
}

static void withdraw(struct raw_client *raw)
{
	struct msg req, rep;

	msg_init(&req, MSG_UNPUBLISH_REQ, 0);
	raw_expect(raw, &req, NULL, 0, MSG_OK_REP, &rep);
}

/* The first packet ends the session, and the second stays unread. */
static void attack_later(struct raw_client *raw, enum stall_way way, int fd)
{
	if (way == STALL_UNREAD)
		raw_send_bytes(raw, "x", 1, NULL, 0);
	raw_send_bytes(raw, "x", 1, &fd, 1);
	close(fd);
}

/* Its own copies go before those of the daemon. */
static bool attack_with_what_is_handed_out(struct raw_client *raw, struct fdlist *handed_out)
{
	static struct victim victim;
	struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLHUP};
	unsigned int n = 0;

	if (!open_page(&victim))
		return false;
	victim.fd = epoll_create1(EPOLL_CLOEXEC);
	for (unsigned int i = 0; i < handed_out->n; i++) {
		const uint64_t one = 1;

		if (epoll_ctl(victim.fd, EPOLL_CTL_ADD, handed_out->fds[i], &event) < 0)
			continue;
		n++;
		if (write(handed_out->fds[i], &one, sizeof(one)) < 0)
			continue;
	}
	ASSERT_GT(n, 0);
	start_thread(&victim, wait_for_events);
	fdlist_deinit(handed_out);
	raw_close(raw);
	return true;
}

/* False: the answer came late. */
static bool attack_now(struct raw_client *raw, enum stall_way way, int fd)
{
	uint64_t begin;

	if (way == STALL_EARLY)
		attack_later(raw, way, fd);
	else
		publish(raw, fd);
	begin = nsec_now();
	if (way == STALL_WITHDRAWN)
		withdraw(raw);
	return nsec_now() - begin < STALL_SLOW_NSEC;
}

/* ---- what it is given -------------------------------------------------------------------------------------------- */

static void ask(struct raw_client *raw, struct msg *req, enum msg_kind kind, struct fdlist *handed_out)
{
	struct msg rep;

	raw_send(raw, req, NULL, 0);
	ASSERT_OK(raw_recv(raw, &rep, handed_out));
	ASSERT_EQ(rep.kind, kind);
}

static void hello(struct raw_client *raw, bool resumes, struct fdlist *handed_out)
{
	struct msg req;

	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = (struct msg_hello_req){
		.version_min = 1, .version_max = 1, .role = MSG_ROLE_CLIENT, .resumes = resumes};
	fdlist_init(handed_out);
	ask(raw, &req, MSG_HELLO_REP, handed_out);
}

static void open_nic(struct raw_client *raw, struct fdlist *handed_out)
{
	struct fdlist more;
	struct msg req;

	msg_init(&req, MSG_NIC_OPEN_REQ, 0);
	fdlist_init(&more);
	ask(raw, &req, MSG_NIC_OPEN_REP, &more);
	for (unsigned int i = 0; i < more.n; i++)
		ASSERT_OK(fdlist_add(handed_out, more.fds[i]));
}

static void become_somebody_else(void)
{
	/* Its limits are root's: an epoll descriptor may watch as much as it likes. */
	if (geteuid() != 0)
		return;
	ASSERT_OK(setgroups(0, NULL));
	ASSERT_OK(setresgid(ATTACKER_UID, ATTACKER_UID, ATTACKER_UID));
	ASSERT_OK(setresuid(ATTACKER_UID, ATTACKER_UID, ATTACKER_UID));
	/* Else nothing of this process is its own, in /proc for instance. */
	prctl(PR_SET_DUMPABLE, 1);
}

static void tell(int pipe, char what)
{
	if (write(pipe, &what, 1) != 1)
		_exit(1);
}

static void __attribute__((noreturn)) run(int pipe, enum stall stall, enum stall_way way, const char *socket, bool resumes)
{
	struct raw_client raw = {.sock = -1};
	struct fdlist handed_out;
	bool in_time = true;
	int fd;
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGALRM, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	alarm(0);
	become_somebody_else();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Before it enters a namespace in which it has no user id. */
	raw_connect(&raw, socket);
	if (way != STALL_EARLY)
		hello(&raw, resumes, &handed_out);
	if (way == STALL_HANDED_OUT) {
		open_nic(&raw, &handed_out);
		tell(pipe, attack_with_what_is_handed_out(&raw, &handed_out) ? 'y' : 'n');
		for (;;)
			pause();
	}
	fd = make(stall);
	if (fd < 0) {
		tell(pipe, 'n');
		_exit(0);
	}
	if (way < STALL_UNREAD)
		in_time = attack_now(&raw, way, fd);
	tell(pipe, in_time ? 'y' : 's');
	if (read(pipe, &c, 1) != 1)
		_exit(0);
	if (way >= STALL_UNREAD)
		attack_later(&raw, way, fd);
	raw_close(&raw);
	tell(pipe, 'y');
	for (;;)
		pause();
}

bool stall_start(struct stall_attacker *attacker, enum stall stall, enum stall_way way, const char *socket, bool resumes)
{
	int socks[2];
	char c = 'n';

	/* A system call of another thread does not stand there as it does here. */
	if (test_emulator())
		return false;

	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks));
	attacker->pid = fork();
	ASSERT_GE(attacker->pid, 0);
	if (attacker->pid == 0) {
		close(socks[0]);
		run(socks[1], stall, way, socket, resumes);
	}
	close(socks[1]);
	attacker->pipe = socks[0];
	ASSERT_EQ(read(attacker->pipe, &c, 1), 1);
	attacker->is_slow = c == 's';
	if (c != 'n')
		return true;
	stall_end(attacker);
	return false;
}

void stall_go_on(struct stall_attacker *attacker)
{
	char c = 'g';

	tell(attacker->pipe, c);
	ASSERT_EQ(read(attacker->pipe, &c, 1), 1);
}

/* With it its file server dies, and with that one all waiting ends. */
void stall_end(struct stall_attacker *attacker)
{
	kill(attacker->pid, SIGKILL);
	waitpid(attacker->pid, NULL, 0);
	close(attacker->pipe);
}
