/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets between the daemon and a mapper: a SOCK_SEQPACKET pair of one program, so structs travel as they are. Any thread; one
 * request at a time.
 */
#include "daemon/nic/mlx5/mlx5-mapper.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/base/cleanup.h"

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * MAPPER_MAX_FDS)];
};

size_t mapper_answer_bytes(const struct mapper_request *request)
{
	/* bounded: both sides refuse more than MAPPER_DATA_BYTES before. */
	return offsetof(struct mapper_answer, data) + (request->op == MAPPER_READ ? (size_t)request->bytes : 0);
}

void mapper_fds_close(struct mapper_fds *fds)
{
	while (fds->n > 0)
		safe_close(fds->fds[--fds->n]);
}

static void put_fds(struct msghdr *header, union control *control, const struct mapper_fds *fds)
{
	memset(control, 0, sizeof(*control));
	header->msg_control = control;
	header->msg_controllen = CMSG_SPACE(fds->n * sizeof(int));
	control->align.cmsg_level = SOL_SOCKET;
	control->align.cmsg_type = SCM_RIGHTS;
	control->align.cmsg_len = CMSG_LEN(fds->n * sizeof(int));
	memcpy(CMSG_DATA(&control->align), fds->fds, fds->n * sizeof(int));
}

int mapper_send(int sock, const void *data, size_t bytes, const struct mapper_fds *fds)
{
	struct iovec iov = {.iov_base = (void *)data, .iov_len = bytes};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	union control control;
	ssize_t n;

	if (fds && fds->n)
		put_fds(&header, &control, fds);
	do
		n = sendmsg(sock, &header, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EPIPE || errno == ECONNRESET ? -EPIPE : -errno;
	return 0;
}

static void take_fds(struct msghdr *header, struct mapper_fds *fds)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(header);

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return;
	fds->n = (unsigned int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(fds->fds, CMSG_DATA(c), fds->n * sizeof(int));
}

int mapper_recv(int sock, void *data, size_t most, size_t *ret_bytes, struct mapper_fds *ret_fds)
{
	struct iovec iov = {.iov_base = data, .iov_len = most};
	union control control;
	struct mapper_fds none;
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (ret_fds) {
		header.msg_control = &control;
		/* Without the padding, in which one more would find room. */
		header.msg_controllen = CMSG_LEN(sizeof(int) * MAPPER_MAX_FDS);
	} else {
		ret_fds = &none;
	}
	do
		n = recvmsg(sock, &header, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	ret_fds->n = 0;
	if (n < 0)
		return -EPIPE;
	/* A packet of no bytes looks like the end, and may have descriptors. */
	take_fds(&header, ret_fds);
	if (n == 0 || header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
		mapper_fds_close(ret_fds);
		return n == 0 || header.msg_flags & MSG_TRUNC || ret_fds == &none ? -EPIPE : -EMFILE;
	}
	*ret_bytes = (size_t)n;
	return 0;
}
