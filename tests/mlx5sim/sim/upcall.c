/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of the simulator to the process that made a call. A client that dies or answers nonsense ends the call with -EIO. A
 * client that stops blocks only the thread of its own ufile.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "tests/mlx5sim/sim/sim.h"

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(SIM_SEGMENTS_MAX * sizeof(int))];
};

static int send_upcall(int reply, const struct sim_upcall *up, const void *payload, size_t bytes,
		       int fd)
{
	struct iovec iov[2] = {{(void *)(uintptr_t)up, sizeof(*up)},
			       {(void *)(uintptr_t)payload, bytes}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	union control control;
	struct cmsghdr *cmsg;

	if (fd >= 0) {
		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(sizeof(int));
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cmsg), &fd, sizeof(int));
	}
	return sendmsg(reply, &msg, MSG_NOSIGNAL) < 0 ? -EIO : 0;
}

/* The answer's result; *ret_bytes of payload in buf, and descriptors. */
static int64_t receive(int reply, void *buf, size_t room, size_t *ret_bytes, int *fds,
		       unsigned int *ret_n_fds)
{
	struct sim_answer answer;
	struct iovec iov[2] = {{&answer, sizeof(answer)}, {buf, room}};
	union control control;
	struct msghdr msg = {.msg_iov = iov,
			     .msg_iovlen = 2,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *cmsg;
	ssize_t n;

	*ret_n_fds = 0;
	do
		n = recvmsg(reply, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < (ssize_t)sizeof(answer))
		return -EIO;
	*ret_bytes = (size_t)n - sizeof(answer);
	cmsg = CMSG_FIRSTHDR(&msg);
	if (cmsg && cmsg->cmsg_type == SCM_RIGHTS) {
		size_t bytes = cmsg->cmsg_len - CMSG_LEN(0);

		memcpy(fds, CMSG_DATA(cmsg), bytes);
		*ret_n_fds = (unsigned int)(bytes / sizeof(int));
	}
	return answer.result;
}

static int64_t ask(int reply, const struct sim_upcall *up, const void *payload, size_t bytes,
		   int fd)
{
	int fds[SIM_SEGMENTS_MAX];
	unsigned int n_fds;
	size_t got;
	int r;

	r = send_upcall(reply, up, payload, bytes, fd);
	return r < 0 ? r : receive(reply, NULL, 0, &got, fds, &n_fds);
}

static int peek_part(int reply, uint64_t addr, void *to, size_t bytes)
{
	struct sim_upcall up = {.kind = SIM_PEEK, .addr = addr, .bytes = bytes};
	int fds[SIM_SEGMENTS_MAX], r;
	unsigned int n_fds;
	size_t got = 0;
	int64_t result;

	r = send_upcall(reply, &up, NULL, 0, -1);
	if (r < 0)
		return r;
	result = receive(reply, to, bytes, &got, fds, &n_fds);
	if (result < 0)
		return (int)result;
	return got == bytes ? 0 : -EIO;
}

int upcall_peek(int reply, uint64_t addr, void *to, size_t bytes)
{
	int r = 0;

	for (size_t done = 0; done < bytes && r == 0;) {
		size_t part = bytes - done < SIM_PAYLOAD_MAX ? bytes - done : SIM_PAYLOAD_MAX;

		r = peek_part(reply, addr + done, (char *)to + done, part);
		done += part;
	}
	return r;
}

int upcall_poke(int reply, uint64_t addr, const void *from, size_t bytes)
{
	int64_t r = 0;

	for (size_t done = 0; done < bytes && r == 0;) {
		size_t part = bytes - done < SIM_PAYLOAD_MAX ? bytes - done : SIM_PAYLOAD_MAX;
		struct sim_upcall up = {.kind = SIM_POKE, .addr = addr + done, .bytes = part};

		r = ask(reply, &up, (const char *)from + done, part, -1);
		done += part;
	}
	return (int)r;
}

int upcall_get_fd(int reply, int fd)
{
	struct sim_upcall up = {.kind = SIM_GET_FD, .addr = (uint64_t)(int64_t)fd};
	int fds[SIM_SEGMENTS_MAX], r;
	unsigned int n_fds;
	int64_t result;
	size_t got;

	r = send_upcall(reply, &up, NULL, 0, -1);
	if (r < 0)
		return r;
	result = receive(reply, NULL, 0, &got, fds, &n_fds);
	if (result < 0)
		return (int)result;
	return n_fds == 1 ? fds[0] : -EIO;
}

int upcall_put_fd(int reply, int fd)
{
	struct sim_upcall up = {.kind = SIM_PUT_FD};

	return (int)ask(reply, &up, NULL, 0, fd);
}

int upcall_pin(int reply, uint64_t addr, uint64_t bytes, uint32_t flags,
	       struct sim_segment *segments, int *fds, unsigned int *ret_n_fds)
{
	struct sim_upcall up = {.kind = SIM_PIN, .addr = addr, .bytes = bytes, .flags = flags};
	size_t got = 0;
	int64_t n;
	int r;

	*ret_n_fds = 0;
	r = send_upcall(reply, &up, NULL, 0, -1);
	if (r < 0)
		return r;
	n = receive(reply, segments, SIM_SEGMENTS_MAX * sizeof(*segments), &got, fds, ret_n_fds);
	if (n < 0)
		return (int)n;
	return (size_t)n * sizeof(*segments) == got ? (int)n : -EIO;
}

int upcall_done(int reply, int64_t result, int fd)
{
	struct sim_upcall up = {.kind = SIM_DONE, .result = result};

	return send_upcall(reply, &up, NULL, 0, fd);
}
