/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two clients of one daemon without a loop: the bytes are a sequence of packets with descriptors of all kinds, through
 * real sockets into the real dispatcher, with NICs that do nothing but may fail at any call. One takes memfds, the
 * other dmabufs as well.
 *
 * Asserts: the daemon's side never blocks, what it says can be decoded, and when both clients are gone nothing is
 * charged, published, alive on a NIC, or open.
 *
 * A record is: what (1 byte: client, deed, 0x80 takes replies at once), kinds of descriptors (1), length (2,
 * little-endian), bytes. record() and make_fds() say what the numbers mean.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/session/drain.h"
#include "daemon/session/unmanaged.h"
#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/later.h"
#include "proto/framing.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/strange-fd.h"
#include "tests/lib/test.h"
#include "tests/unit/session/lab.h"

#define LIMIT 6u
#define FDS_LIMIT 16u /* both clients, a NIC each and some more */
#define MAX_RECORDS 64u
#define MAX_OPEN_FDS 256
#define MANY_FDS 40u

struct program {
	const uint8_t *bytes;
	size_t left;
	struct lab lab;
	struct pair pairs[2];
};

/* The lab's asserts belong to a test runner; here a failure is a crash. */
void test_fail(const char *where, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", where);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	abort();
}

static const uint8_t *take(struct program *p, size_t n)
{
	const uint8_t *at = p->bytes;

	if (p->left < n)
		return NULL;
	p->bytes += n;
	p->left -= n;
	return at;
}

/* The client's own end of its connection; an eventfd once it has hung up. */
static int own_socket(struct program *p, unsigned int client)
{
	int sock = p->pairs[client].raw.sock;

	return sock >= 0 ? fcntl(sock, F_DUPFD_CLOEXEC, 3) : strange_fd_new(STRANGE_EVENTFD);
}

/* The kinds that come first in three bits; 7 and what lies behind the others are sockets. */
static int make_fd(struct program *p, unsigned int kind)
{
	static const enum strange_fd common[] = {
		STRANGE_SEALED,	  STRANGE_SEALED, STRANGE_UNSEALED, STRANGE_WRITE_SEALED, STRANGE_FUTURE_WRITE_SEALED,
		STRANGE_READ_ONLY, STRANGE_PIPE};
	int fd;

	if (kind >= 0x40)
		fd = kind - 0x40 < STRANGE_FD_N ? strange_fd_new(kind - 0x40) : own_socket(p, kind & 1);
	else
		fd = (kind & 7) < 7 ? strange_fd_new(common[kind & 7]) : own_socket(p, kind >> 3 & 1);
	assert_bug(fd >= 0);
	return fd;
}

/*
 * 0: none. Bit 7: as many as a packet may have. Bit 6: one of the kind in bits 0 to 4, two with bit 5. Otherwise one
 * of the common kinds in bits 0 to 2, and another one in bits 3 to 5.
 */
static unsigned int make_fds(struct program *p, uint8_t kinds, int *ret_fds)
{
	unsigned int n = 0, wanted = !!(kinds & 7) + !!(kinds & 0x38);

	if (kinds & 0x40)
		wanted = 1 + (kinds >> 5 & 1);
	if (kinds & 0x80)
		wanted = FDLIST_MAX;
	for (; n < wanted; n++)
		ret_fds[n] = make_fd(p, kinds & 0x40 ? 0x40u + (kinds & 0x1f) : n & 1 ? kinds >> 3 & 0xfu : kinds & 0xfu);
	return n;
}

static void drain(struct pair *pair)
{
	static uint8_t buf[FRAMING_MAX_PACKET_BYTES];
	struct fdlist fds;
	struct msg msg;
	size_t bytes;
	int r = 0;

	while (r == 0) {
		fdlist_init(&fds);
		r = framing_recv(pair->raw.sock, buf, sizeof(buf), &bytes, &fds);
		/* The daemon's replies can be decoded, whatever came in. */
		if (r == 0) {
			assert_bug(msg_decode(buf, bytes, &msg) == 0 && msg.n_fds == fds.n);
			msg_deinit(&msg);
		}
		fdlist_deinit(&fds);
	}
	session_writable(pair->session);
}

/* As a daemon with porters reads: packets without descriptors by itself, the others it leaves in the socket. */
static void read_plain(size_t bytes, const uint8_t *data, const int *fds, unsigned int n)
{
	static uint8_t buf[FRAMING_MAX_PACKET_BYTES];
	size_t got = 0;
	int socks[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks) < 0)
		return;
	if (framing_setup(socks[0]) == 0 && framing_send(socks[0], data, bytes, fds, n) == 0) {
		assert_bug(framing_next_has_fds(socks[1]) == (n > 0));
		r = framing_recv_plain(socks[1], buf, sizeof(buf), &got);
		assert_bug(n > 0 ? r == FRAMING_HAS_FDS : r == 0 && got == bytes && memcmp(buf, data, bytes) == 0);
		assert_bug(n > 0 || framing_recv_plain(socks[1], buf, sizeof(buf), &got) == -EAGAIN);
	}
	framing_close(socks[0]);
	framing_close(socks[1]);
}

static void packet(struct program *p, struct pair *pair, uint8_t kinds, size_t bytes, const uint8_t *data)
{
	int fds[FDLIST_MAX];
	unsigned int n = make_fds(p, kinds, fds);

	read_plain(bytes, data, fds, n);
	framing_send(pair->raw.sock, data, bytes, fds, n);
	for (unsigned int i = 0; i < n; i++)
		close(fds[i]);
	session_readable(pair->session);
}

/* Sends packets that framing_send refuses: ancillary data of `type`, n ints of it. */
static void raw_control(struct pair *pair, int type, const int *ints, unsigned int n)
{
	static char text[] = "\x08\x05";
	struct iovec iov = {.iov_base = text, .iov_len = 2};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(MANY_FDS * sizeof(int))];
	} control = {0};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
				.msg_controllen = CMSG_SPACE(n * sizeof(int))};

	control.align = (struct cmsghdr){
		.cmsg_level = SOL_SOCKET, .cmsg_type = type, .cmsg_len = CMSG_LEN(n * sizeof(int))};
	memcpy(CMSG_DATA(&control.align), ints, n * sizeof(int));
	sendmsg(pair->raw.sock, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* 17 fit the control buffer beside the credentials that the kernel adds; 40 are cut off by the kernel. */
static void many_fds(struct program *p, struct pair *pair, uint8_t kind)
{
	int fds[MANY_FDS], fd = make_fd(p, 0x40u + (kind >> 3));
	unsigned int n = kind & 0x80 ? MANY_FDS : FDLIST_MAX + 1;

	for (unsigned int i = 0; i < n; i++)
		fds[i] = fd;
	raw_control(pair, SCM_RIGHTS, fds, n);
	close(fd);
}

static void credentials(struct pair *pair)
{
	const int on = 1, ids[] = {getpid(), (int)getuid(), (int)getgid()};

	setsockopt(pair->session->connection.fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	raw_control(pair, SCM_CREDENTIALS, ids, 3);
}

/* The packet is under way when the memory is cut. */
static void shrink(struct program *p, struct pair *pair, uint8_t kind, size_t bytes, const uint8_t *data)
{
	int fd = make_fd(p, 0x40u + (kind >> 3));

	framing_send(pair->raw.sock, data, bytes, &fd, 1);
	assert_bug(ftruncate(fd, 0) < 0 || !strange_fd_is_memory(kind >> 3));
	close(fd);
}

/* Deeds of a client that knows the protocol and breaks it. */
static void trick(struct program *p, struct pair *pair, uint8_t what, size_t bytes, const uint8_t *data)
{
	static const uint8_t large[FRAMING_MAX_PACKET_BYTES + 1];

	switch (what & 7) {
	case 0: send(pair->raw.sock, large, sizeof(large), MSG_NOSIGNAL | MSG_DONTWAIT); break;
	case 1: send(pair->raw.sock, "", 0, MSG_NOSIGNAL | MSG_DONTWAIT); break;
	case 2: shutdown(pair->raw.sock, what & 8 ? SHUT_RD : SHUT_WR); break;
	case 3: raw_close(&pair->raw); break;
	case 4: many_fds(p, pair, what); break;
	case 5: credentials(pair); break;
	case 6: shrink(p, pair, what, bytes, data); break;
	default:
		for (unsigned int i = 0; i < 20; i++)
			framing_send(pair->raw.sock, data, bytes, NULL, 0);
	}
	session_readable(pair->session);
}

static void nic_event(struct program *p, uint8_t kind, size_t bytes, const uint8_t *data)
{
	struct registry_nic *rnic = &p->lab.registry.nics[kind & 1];
	struct nic_event event = {
		.kind = kind >> 1 & 3, .session_id = kind & 0x10 ? 0 : p->pairs[kind >> 3 & 1].session->id};

	memcpy(&event.number, data, bytes < 4 ? bytes : 4);
	/* Bit 7: more than a monitor's queue holds. */
	for (unsigned int n = kind & 0x80 ? 100 : 1; n > 0; n--)
		registry_event(&p->lab.registry, rnic, &event);
}

/*
 * A listening socket that lives as long as the process and leaves no file behind: what /proc calls it still leads to
 * it when its name is gone. Returns that path.
 */
static const char *listener(int *ret_fd)
{
	static struct sockaddr_un addr = {.sun_family = AF_UNIX};
	static char path[64];
	static int fd = -1;
	char folder[80];
	int name;

	*ret_fd = fd;
	if (fd >= 0)
		return path;
	snprintf(folder, sizeof(folder), "%s/fuzz-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	assert_bug(mkdtemp(folder));
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/s", folder);
	*ret_fd = fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_bug(fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 && listen(fd, 4) == 0);
	name = open(addr.sun_path, O_PATH | O_CLOEXEC);
	assert_bug(name >= 0 && unlink(addr.sun_path) == 0 && rmdir(folder) == 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", name);
	return path;
}

static int pair_try(struct pair *pair, struct lab *lab)
{
	const char *path;
	int fd, sock;

	path = listener(&fd);
	*pair = (struct pair){.raw = {.sock = framing_connect(path)}};
	sock = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_bug(pair->raw.sock >= 0 && sock >= 0);
	assert_bug(fcntl(pair->raw.sock, F_SETFL, O_NONBLOCK) == 0);
	return session_new(&lab->registry, sock, &pair->session);
}

static void pair_connect(struct pair *pair, struct lab *lab)
{
	int r = pair_try(pair, lab);

	/* A client that has sent many descriptors is refused until other threads have closed them. */
	if (r == -EDQUOT) {
		close(pair->raw.sock);
		later_wait();
		r = pair_try(pair, lab);
	}
	assert_bug(r == 0);
	pair->session->owner = pair;
}

static void reopen(struct program *p, struct pair *pair)
{
	pair_deinit(pair);
	pair_connect(pair, &p->lab);
}

static void fail_nic(struct fake_nic *nic, uint8_t how)
{
	static const int errors[] = {-EIO, -ENOMEM, -EINVAL, -EPERM, -ENOSPC, -EBUSY, -ENODEV, -EMFILE};

	nic->fail_at = nic->n_calls + 1 + (how & 7);
	nic->fail_err = errors[how >> 3 & 7];
}

static bool record(struct program *p)
{
	const uint8_t *head = take(p, 4), *data;
	struct pair *pair;
	size_t bytes;

	if (!head)
		return false;
	bytes = (size_t)head[2] | (size_t)head[3] << 8;
	if (bytes > p->left)
		bytes = p->left;
	data = take(p, bytes);
	pair = &p->pairs[head[0] & 1];
	switch (head[0] >> 1 & 7) {
	case 0:
		drain(pair);
		drain_run(&p->lab.registry);
		break;
	case 1: nic_event(p, head[1], bytes, data); break;
	case 2: reopen(p, pair); break;
	case 3: fail_nic(&p->lab.nics[head[1] >> 6 & 1], head[1]); break;
	case 7: trick(p, pair, head[1], bytes, data); break;
	default: packet(p, pair, head[1], bytes, data); break;
	}
	if (head[0] & 0x80)
		drain(pair);
	/* The notes of a fake NIC are for tests. */
	p->lab.nics[0].log[0] = p->lab.nics[1].log[0] = '\0';
	return true;
}

static unsigned int n_open_fds(void)
{
	struct pollfd fds[MAX_OPEN_FDS];
	unsigned int n = 0;

	for (int i = 0; i < MAX_OPEN_FDS; i++)
		fds[i] = (struct pollfd){.fd = i};
	assert_bug(poll(fds, MAX_OPEN_FDS, 0) >= 0);
	for (int i = 0; i < MAX_OPEN_FDS; i++)
		n += !(fds[i].revents & POLLNVAL);
	return n;
}

/* More than a page of a list has. */
static struct host_list *make_unmanaged(void)
{
	struct host_list *list = calloc(1, sizeof(*list));

	assert_bug(list);
	for (list->n = 0; list->n < MSG_MAX_UNDRIVEN + 1; list->n++) {
		struct host_nic *nic = &list->nics[list->n];

		snprintf(nic->name, sizeof(nic->name), "rxe%u", list->n);
		snprintf(nic->driver, sizeof(nic->driver), "rdma_rxe");
		nic->life = list->n;
		nic->pci = HOST_NO_PCI;
		nic->n_gids = 1;
	}
	return list;
}

static void program_init(struct program *p, const uint8_t *bytes, size_t n)
{
	static const uint32_t dmabuf_first[] = {NIC_MEM_DMABUF, NIC_MEM_PEERMEM, NIC_MEM_MEMFD, NIC_MEM_AGENT};

	*p = (struct program){.bytes = bytes, .left = n};
	lab_init(&p->lab, LIMIT);
	p->lab.registry.attr.limits.n[QUOTA_FDS] = p->lab.registry.quota.limits.n[QUOTA_FDS] = FDS_LIMIT;
	p->lab.registry.saves_sessions = true;
	p->lab.registry.attr.restart_grace_nsec = 1;
	memcpy(p->lab.nics[1].info.accepted_kinds, dmabuf_first, sizeof(dmabuf_first));
	p->lab.nics[1].has_uar = p->lab.nics[1].info.doorbell_uar_mmap = true;
	registry_refresh_nic(&p->lab.registry.nics[1]);
	unmanaged_update(&p->lab.registry, make_unmanaged());
	for (unsigned int i = 0; i < 2; i++)
		pair_connect(&p->pairs[i], &p->lab);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	unsigned int n_before;
	struct program p;
	int fd;

	signal(SIGPIPE, SIG_IGN);
	listener(&fd);
	n_before = n_open_fds();
	program_init(&p, bytes, n);
	for (unsigned int i = 0; i < MAX_RECORDS && record(&p); i++)
		;
	for (unsigned int i = 0; i < 2; i++)
		pair_deinit(&p.pairs[i]);
	lab_assert_empty(&p.lab);
	lab_deinit(&p.lab);
	assert_bug(n_open_fds() == n_before);
	return 0;
}
