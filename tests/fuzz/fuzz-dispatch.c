/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two clients of one daemon without a loop: the bytes are a sequence of packets with descriptors of all kinds, through
 * real sockets into the real dispatcher, with NICs that do nothing but may fail at any call.
 *
 * Asserts: the daemon's side never blocks, and when both clients are gone nothing is charged, published, alive on a
 * NIC, or open.
 *
 * A record is: what (1 byte), kinds of descriptors (1), length (2, little-endian), bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/session/drain.h"
#include "proto/base/assert.h"
#include "proto/framing.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/test.h"
#include "tests/unit/session/lab.h"

#define LIMIT 6u
#define MEMFD_BYTES (1u << 20)
#define MAX_RECORDS 64u

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

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

static int make_memfd(int seals)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_bug(fd >= 0 && ftruncate(fd, MEMFD_BYTES) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0);
	return fd;
}

static int read_only(int fd)
{
	char path[64];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDONLY | O_CLOEXEC);
	assert_bug(again >= 0);
	close(fd);
	return again;
}

static int make_pipe(void)
{
	int fds[2];

	assert_bug(pipe2(fds, O_CLOEXEC) == 0);
	close(fds[0]);
	return fds[1];
}

static int make_fd(struct program *p, unsigned int kind)
{
	switch (kind & 7) {
	case 1: return make_memfd(F_SEAL_SHRINK);
	case 2: return make_memfd(0);
	case 3: return make_memfd(F_SEAL_SHRINK | F_SEAL_WRITE);
	case 4: return make_memfd(F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE);
	case 5: return read_only(make_memfd(F_SEAL_SHRINK));
	case 6: return make_pipe();
	default: return fcntl(p->pairs[kind >> 3 & 1].raw.sock, F_DUPFD_CLOEXEC, 3);
	}
}

/* 0: none; the high bit: seventeen of a kind. Otherwise one, and another one in bits 3 to 5. */
static unsigned int make_fds(struct program *p, uint8_t kinds, int *ret_fds)
{
	unsigned int n = 0, wanted = !!(kinds & 7) + !!(kinds & 0x38);

	if (kinds & 0x80)
		wanted = FDLIST_MAX;
	for (; n < wanted; n++) {
		ret_fds[n] = make_fd(p, n & 1 ? kinds >> 3 : kinds);
		assert_bug(ret_fds[n] >= 0);
	}
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
		/* What the daemon says can be read, whatever it was told. */
		if (r == 0) {
			assert_bug(msg_decode(buf, bytes, &msg) == 0 && msg.n_fds == fds.n);
			msg_deinit(&msg);
		}
		fdlist_deinit(&fds);
	}
	session_writable(pair->session);
}

static void packet(struct program *p, struct pair *pair, uint8_t kinds, size_t bytes, const uint8_t *data)
{
	int fds[FDLIST_MAX];
	unsigned int n = make_fds(p, kinds, fds);

	framing_send(pair->raw.sock, data, bytes, fds, n);
	for (unsigned int i = 0; i < n; i++)
		close(fds[i]);
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

static void reopen(struct program *p, struct pair *pair)
{
	pair_deinit(pair);
	pair_init(pair, &p->lab);
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
	case 3:
		p->lab.nics[0].fail_at = p->lab.nics[0].n_calls + 1 + (head[1] & 7);
		p->lab.nics[0].fail_err = head[1] & 8 ? -ENOMEM : head[1] & 16 ? -EINVAL : -EIO;
		break;
	default:
		packet(p, pair, head[1], bytes, data);
		if (head[0] & 0x80)
			drain(pair);
	}
	/* The notes of a fake NIC are for tests. */
	p->lab.nics[0].log[0] = p->lab.nics[1].log[0] = '\0';
	return true;
}

static int lowest_free_fd(void)
{
	int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	int first_fd = lowest_free_fd();
	struct program p = {.bytes = bytes, .left = n};

	signal(SIGPIPE, SIG_IGN);
	lab_init(&p.lab, LIMIT);
	for (unsigned int i = 0; i < 2; i++)
		pair_init(&p.pairs[i], &p.lab);
	for (unsigned int i = 0; i < MAX_RECORDS && record(&p); i++)
		;
	for (unsigned int i = 0; i < 2; i++)
		pair_deinit(&p.pairs[i]);
	lab_assert_empty(&p.lab);
	lab_deinit(&p.lab);
	assert_bug(lowest_free_fd() == first_fd);
	return 0;
}
