/* SPDX-License-Identifier: Apache-2.0 */
#include "fds.h"

#include <string.h>
#include <sys/socket.h>

#include "tests/lib/test.h"

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(FDS_MOST * sizeof(int))];
};

void send_fds(int sock, const int *fds, unsigned int n)
{
	struct iovec iov = {(void *)(uintptr_t) "", 1};
	union control control = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
			     .msg_controllen = CMSG_SPACE(n * sizeof(int))};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	ASSERT(n > 0 && n <= FDS_MOST);
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(cmsg), fds, n * sizeof(int));
	ASSERT_EQ(sendmsg(sock, &msg, 0), 1);
}

unsigned int receive_fds(int sock, int *ret_fds, unsigned int most)
{
	char byte;
	struct iovec iov = {&byte, 1};
	union control control = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *cmsg;
	unsigned int n;

	if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) <= 0)
		return 0;
	cmsg = CMSG_FIRSTHDR(&msg);
	ASSERT(cmsg);
	n = (unsigned int)((cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	ASSERT(n > 0 && n <= most);
	memcpy(ret_fds, CMSG_DATA(cmsg), n * sizeof(int));
	return n;
}
