/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call of a client: request out, upcalls served, result back. Memory is read and written by process_vm_* on the own
 * process, so that a bad pointer is EFAULT as with a kernel. Any thread.
 */
#include "tests/mlx5sim/shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_FDS SIM_SEGMENTS_MAX

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
};

int shim_nic_of_fd(int fd)
{
	struct sockaddr_un peer;
	socklen_t bytes = sizeof(peer);
	const char *root = shim_root(), *name;
	size_t n;

	memset(&peer, 0, sizeof(peer));
	if (!root || getpeername(fd, (struct sockaddr *)&peer, &bytes) < 0 ||
	    peer.sun_family != AF_UNIX)
		return -1;
	n = strlen(root);
	if (strncmp(peer.sun_path, root, n) != 0 || strncmp(peer.sun_path + n, "/nic", 4) != 0)
		return -1;
	name = peer.sun_path + n + 4;
	return atoi(name);
}

int shim_connect(int nic, int flags)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd, r;

	r = snprintf(to.sun_path, sizeof(to.sun_path), "%s/nic%d.sock", shim_root(), nic);
	if (r < 0 || (size_t)r >= sizeof(to.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | (flags & O_CLOEXEC ? SOCK_CLOEXEC : 0), 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0) {
		r = -errno;
		close(fd);
		return r == -ECONNREFUSED ? -ENODEV : r;
	}
	return fd;
}

static int send_with_fds(int sock, struct iovec *iov, size_t n_iov, const int *fds, size_t n_fds)
{
	union control control;
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = n_iov};
	struct cmsghdr *cmsg;
	ssize_t n;

	if (n_fds) {
		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, n_fds * sizeof(int));
	}
	do
		n = sendmsg(sock, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* One upcall; its payload, if any, in buf. */
static ssize_t receive(int sock, struct sim_upcall *up, void *buf, int *ret_fd)
{
	union control control;
	struct iovec iov[2] = {{up, sizeof(*up)}, {buf, SIM_PAYLOAD_MAX}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2, .msg_control = control.bytes};
	unsigned int looks = 0;
	struct cmsghdr *cmsg;
	ssize_t n;

	*ret_fd = -1;
	/* The kernel may report the end before the last packet, if both come while the kernel looks (proto/framing.c). */
	do {
		msg.msg_controllen = sizeof(control);
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	} while ((n < 0 && errno == EINTR) || (n == 0 && looks++ == 0));
	if (n < (ssize_t)sizeof(*up))
		return -EIO;
	cmsg = CMSG_FIRSTHDR(&msg);
	if (cmsg && cmsg->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(cmsg), sizeof(int));
	return n - (ssize_t)sizeof(*up);
}

static int64_t copy_own(void *own, uint64_t addr, size_t bytes, bool write)
{
	struct iovec local = {own, bytes}, remote = {(void *)(uintptr_t)addr, bytes};
	ssize_t n;

	if (!bytes)
		return 0;
	n = write ? process_vm_writev(getpid(), &local, 1, &remote, 1, 0)
		  : process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
	return n == (ssize_t)bytes ? 0 : -EFAULT;
}

static int answer_pin(int sock, const struct sim_upcall *up)
{
	struct sim_segment segments[SIM_SEGMENTS_MAX];
	int fds[MAX_FDS], n_fds = 0, n, r;
	struct sim_answer answer;
	struct iovec iov[2] = {{&answer, sizeof(answer)}, {segments, 0}};

	n = shim_pin(up->addr, up->bytes, up->flags, segments, fds, &n_fds);
	answer.result = n;
	iov[1].iov_len = n > 0 ? (size_t)n * sizeof(segments[0]) : 0;
	r = send_with_fds(sock, iov, 2, fds, (size_t)n_fds);
	while (n_fds > 0)
		close(fds[--n_fds]);
	return r;
}

/* Serves one upcall that is not SIM_DONE. A descriptor that came with it is used up. */
static int serve(int sock, const struct sim_upcall *up, void *buf, size_t payload, int fd)
{
	struct sim_answer answer = {0};
	struct iovec iov[2] = {{&answer, sizeof(answer)}, {buf, 0}};
	int sent = (int)up->addr;
	bool with_fd = false;

	switch (up->kind) {
	case SIM_PEEK:
		answer.result = up->bytes <= SIM_PAYLOAD_MAX
					? copy_own(buf, up->addr, up->bytes, false)
					: -EINVAL;
		iov[1].iov_len = answer.result < 0 ? 0 : up->bytes;
		break;
	case SIM_POKE:
		answer.result = copy_own(buf, up->addr, payload, true);
		break;
	case SIM_GET_FD:
		with_fd = fcntl(sent, F_GETFD) >= 0;
		answer.result = with_fd ? 0 : -EBADF;
		break;
	case SIM_PUT_FD:
		answer.result = fd;
		break;
	case SIM_PIN:
		return answer_pin(sock, up);
	default:
		answer.result = -ENOSYS;
	}
	return send_with_fds(sock, iov, 2, &sent, with_fd ? 1 : 0);
}

int64_t shim_call(int fd, const struct sim_request *request, int *ret_fd)
{
	struct iovec iov = {(void *)(uintptr_t)request, sizeof(*request)};
	int64_t result = -EIO;
	struct sim_upcall up;
	int pair[2], r;
	void *buf;

	*ret_fd = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	buf = malloc(SIM_PAYLOAD_MAX);
	r = buf ? send_with_fds(fd, &iov, 1, &pair[1], 1) : -ENOMEM;
	close(pair[1]);
	while (r == 0) {
		ssize_t payload = receive(pair[0], &up, buf, ret_fd);

		if (payload < 0)
			break;
		if (up.kind == SIM_DONE) {
			result = up.result;
			break;
		}
		r = serve(pair[0], &up, buf, (size_t)payload, *ret_fd);
		*ret_fd = -1;
	}
	free(buf);
	close(pair[0]);
	return result;
}
