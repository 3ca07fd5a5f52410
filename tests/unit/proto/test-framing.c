/* SPDX-License-Identifier: Apache-2.0 */
/* Packets with descriptors over a socketpair. The runner's count of open descriptors is half of each test. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/base/cleanup.h"
#include "proto/base/later.h"
#include "proto/framing.h"
#include "tests/lib/test.h"

static uint8_t out[FRAMING_MAX_PACKET_BYTES + 1];
static uint8_t in[FRAMING_MAX_PACKET_BYTES];

/* How often the kernel has yet to say "the end" without having looked. */
static unsigned int early_ends;

/* In place of libc's, for the one moment that no test can bring about. */
ssize_t recvmsg(int sock, struct msghdr *header, int flags)
{
	if (early_ends) {
		early_ends--;
		header->msg_controllen = 0;
		header->msg_flags = 0;
		return 0;
	}
	return syscall(SYS_recvmsg, sock, header, flags);
}

static void make_pair(int pair[2])
{
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
	ASSERT_OK(framing_setup(pair[0]));
	ASSERT_OK(framing_setup(pair[1]));
}

static void close_pair(int pair[2])
{
	for (int i = 0; i < 2; i++)
		pair[i] = safe_close(pair[i]);
}

static ino_t inode_of(int fd)
{
	struct stat st;

	ASSERT_OK(fstat(fd, &st));
	return st.st_ino;
}

/* n pipes' read ends: each is a file of its own, so that their order can be checked. */
static int first_free_fd(void)
{
	int fd = dup(0);

	ASSERT_GE(fd, 0);
	close(fd);
	return fd;
}

static void make_fds(int *fds, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		int ends[2];

		ASSERT_OK(pipe2(ends, O_CLOEXEC));
		close(ends[1]);
		fds[i] = ends[0];
	}
}

static void close_fds(int *fds, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		fds[i] = safe_close(fds[i]);
}

static unsigned int n_open_fds(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Any packet, around the checks of framing_send. */
static void send_raw(int sock, size_t bytes, const int *fds, unsigned int n_fds)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(64 * sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_base = out, .iov_len = bytes};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n_fds) {
		header.msg_control = control.bytes;
		header.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(&control.align), fds, n_fds * sizeof(int));
	}
	ASSERT_EQ(sendmsg(sock, &header, MSG_NOSIGNAL), (ssize_t)bytes);
}

TEST(a_packet_arrives_whole_with_its_descriptors_in_order)
{
	int pair[2], sent[FRAMING_MAX_FDS];
	struct fdlist fds;
	size_t bytes;

	make_pair(pair);
	make_fds(sent, FRAMING_MAX_FDS);
	fdlist_init(&fds);
	memset(out, 0x42, sizeof(out));
	ASSERT_OK(framing_send(pair[0], out, 100, sent, FRAMING_MAX_FDS));
	ASSERT_OK(framing_recv(pair[1], in, sizeof(in), &bytes, &fds));
	ASSERT_EQ(bytes, 100);
	ASSERT_MEMEQ(in, out, 100);
	ASSERT_EQ(fds.n, FRAMING_MAX_FDS);
	for (unsigned int i = 0; i < FRAMING_MAX_FDS; i++) {
		ASSERT_EQ(inode_of(fdlist_get(&fds, i)), inode_of(sent[i]));
		ASSERT_EQ(fcntl(fdlist_get(&fds, i), F_GETFD), FD_CLOEXEC);
		ASSERT_GE(fcntl(sent[i], F_GETFD), 0); /* the sender's stays the sender's */
	}
	fdlist_deinit(&fds);
	close_fds(sent, FRAMING_MAX_FDS);
	close_pair(pair);
}

TEST(packets_keep_their_borders)
{
	struct fdlist fds;
	size_t bytes;
	int pair[2];

	make_pair(pair);
	fdlist_init(&fds);
	ASSERT_OK(framing_send(pair[0], "a", 1, NULL, 0));
	ASSERT_OK(framing_send(pair[0], "bc", 2, NULL, 0));
	ASSERT_OK(framing_recv(pair[1], in, sizeof(in), &bytes, &fds));
	ASSERT_EQ(bytes, 1);
	ASSERT_OK(framing_recv(pair[1], in, sizeof(in), &bytes, &fds));
	ASSERT_EQ(bytes, 2);
	ASSERT_ERR(framing_recv(pair[1], in, sizeof(in), &bytes, &fds), EAGAIN);
	close_pair(pair);
}

TEST(the_largest_packet_passes)
{
	struct fdlist fds;
	size_t bytes;
	int pair[2];

	make_pair(pair);
	fdlist_init(&fds);
	ASSERT_OK(framing_send(pair[0], out, FRAMING_MAX_PACKET_BYTES, NULL, 0));
	ASSERT_OK(framing_recv(pair[1], in, sizeof(in), &bytes, &fds));
	ASSERT_EQ(bytes, FRAMING_MAX_PACKET_BYTES);
	close_pair(pair);
}

TEST(send_refuses_what_is_above_the_limits)
{
	int pair[2], sent[FRAMING_MAX_FDS + 1];

	make_pair(pair);
	make_fds(sent, FRAMING_MAX_FDS + 1);
	ASSERT_ERR(framing_send(pair[0], out, FRAMING_MAX_PACKET_BYTES + 1, NULL, 0), EMSGSIZE);
	ASSERT_ERR(framing_send(pair[0], out, 1, sent, FRAMING_MAX_FDS + 1), EMSGSIZE);
	ASSERT_ERR(framing_send(pair[0], out, 0, NULL, 0), EMSGSIZE);
	close_fds(sent, FRAMING_MAX_FDS + 1);
	close_pair(pair);
}

TEST(seventeen_descriptors_are_refused_and_all_closed)
{
	int pair[2], sent[FRAMING_MAX_FDS + 1];
	unsigned int before;
	struct fdlist fds;
	size_t bytes = 7;

	make_pair(pair);
	make_fds(sent, FRAMING_MAX_FDS + 1);
	fdlist_init(&fds);
	before = n_open_fds();
	send_raw(pair[0], 10, sent, FRAMING_MAX_FDS + 1);
	ASSERT_ERR(framing_recv(pair[1], in, sizeof(in), &bytes, &fds), EMSGSIZE);
	ASSERT_EQ(fds.n, 0);
	ASSERT_EQ(bytes, 7);
	ASSERT_EQ(n_open_fds(), before);

	/* The packet is consumed: the next one is read. */
	ASSERT_OK(framing_send(pair[0], "a", 1, NULL, 0));
	ASSERT_OK(framing_recv(pair[1], in, sizeof(in), &bytes, &fds));
	ASSERT_EQ(bytes, 1);
	close_fds(sent, FRAMING_MAX_FDS + 1);
	close_pair(pair);
}

/* It receives into a buffer of its own, twice as large, and drops descriptors for which the caller has no room. */
static void skip_where_descriptors_leak(void)
{
	if (test_emulator())
		test_skip("qemu-user leaks descriptors when ancillary data is cut off");
}

TEST(truncated_ancillary_data_is_refused_and_all_closed)
{
	int pair[2], sent[64];
	unsigned int before;
	struct fdlist fds;
	size_t bytes;

	skip_where_descriptors_leak();
	make_pair(pair);
	make_fds(sent, 64);
	fdlist_init(&fds);
	before = n_open_fds();
	send_raw(pair[0], 10, sent, 64);
	ASSERT_ERR(framing_recv(pair[1], in, sizeof(in), &bytes, &fds), EMSGSIZE);
	ASSERT_EQ(n_open_fds(), before);
	close_fds(sent, 64);
	close_pair(pair);
}

TEST(closing_takes_the_descriptors_of_unread_packets)
{
	static const unsigned int counts[] = {0, 1, 12}; /* packets: none, few, more than are read here */
	int pair[2], ends[2];
	char byte;

	skip_where_descriptors_leak(); /* unread bytes are cut off */
	for (int i = 0; i < 3; i++) {
		unsigned int before = n_open_fds();

		make_pair(pair);
		ASSERT_OK(pipe2(ends, O_CLOEXEC | O_NONBLOCK));
		for (unsigned int n = 0; n < counts[i]; n++)
			send_raw(pair[0], n % 2, &ends[1], 1); /* the empty one is not the end */
		close(ends[1]);
		ASSERT_EQ(framing_close(pair[1]), -1);
		ASSERT_EQ(recv(pair[0], &byte, 1, 0), 0);
		later_wait();
		ASSERT_EQ(read(ends[0], &byte, 1), 0); /* no writer is left */
		close(ends[0]);
		close(pair[0]);
		ASSERT_EQ(n_open_fds(), before);
	}
	ASSERT_EQ(framing_close(-1), -1);
}

TEST(an_oversize_packet_is_refused_with_its_descriptors_closed)
{
	int pair[2], sent[2];
	unsigned int before;
	struct fdlist fds;
	size_t bytes;

	make_pair(pair);
	make_fds(sent, 2);
	fdlist_init(&fds);
	before = n_open_fds();
	send_raw(pair[0], FRAMING_MAX_PACKET_BYTES + 1, sent, 2);
	ASSERT_ERR(framing_recv(pair[1], in, sizeof(in), &bytes, &fds), EMSGSIZE);
	ASSERT_EQ(fds.n, 0);
	ASSERT_EQ(n_open_fds(), before);
	close_fds(sent, 2);
	close_pair(pair);
}

/* It is a request like any other, and its sender gets an answer. */
TEST(descriptors_that_there_is_no_place_for_are_no_fault_of_the_packet)
{
	struct rlimit limit, less;
	int pair[2], sent[2];
	unsigned int before;
	struct fdlist fds;
	size_t bytes = 0;

	make_pair(pair);
	make_fds(sent, 2);
	fdlist_init(&fds);
	before = n_open_fds();
	send_raw(pair[0], 100, sent, 2);
	ASSERT_OK(getrlimit(RLIMIT_NOFILE, &limit));
	less = (struct rlimit){(rlim_t)first_free_fd() + 1, limit.rlim_max};
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &less));
	ASSERT_ERR(framing_recv(pair[1], in, sizeof(in), &bytes, &fds), EMFILE);
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &limit));
	ASSERT_EQ(bytes, 100);
	ASSERT_EQ(fds.n, 0);
	ASSERT_EQ(n_open_fds(), before);
	close_fds(sent, 2);
	close_pair(pair);
}

TEST(a_packet_above_the_limit_is_refused_in_a_larger_buffer_too)
{
	static uint8_t large[FRAMING_MAX_PACKET_BYTES * 2];
	struct fdlist fds;
	size_t bytes;
	int pair[2];

	make_pair(pair);
	fdlist_init(&fds);
	send_raw(pair[0], FRAMING_MAX_PACKET_BYTES + 1, NULL, 0);
	ASSERT_ERR(framing_recv(pair[1], large, sizeof(large), &bytes, &fds), EMSGSIZE);
	close_pair(pair);
}

TEST(descriptors_are_appended_and_earlier_ones_survive_an_error)
{
	int pair[2], sent[FRAMING_MAX_FDS];
	struct fdlist fds;
	size_t bytes;

	make_pair(pair);
	make_fds(sent, FRAMING_MAX_FDS);
	fdlist_init(&fds);
	ASSERT_OK(framing_send(pair[0], "a", 1, sent, 2));
	ASSERT_OK(framing_recv(pair[1], in, sizeof(in), &bytes, &fds));
	ASSERT_OK(framing_send(pair[0], "b", 1, sent + 2, 1));
	ASSERT_OK(framing_recv(pair[1], in, sizeof(in), &bytes, &fds));
	ASSERT_EQ(fds.n, 3);
	ASSERT_EQ(inode_of(fdlist_get(&fds, 2)), inode_of(sent[2]));

	ASSERT_OK(framing_send(pair[0], "c", 1, sent, FRAMING_MAX_FDS - 2)); /* one too many by now */
	ASSERT_ERR(framing_recv(pair[1], in, sizeof(in), &bytes, &fds), EMSGSIZE);
	ASSERT_EQ(fds.n, 3);
	ASSERT_EQ(inode_of(fdlist_get(&fds, 0)), inode_of(sent[0]));
	fdlist_deinit(&fds);
	close_fds(sent, FRAMING_MAX_FDS);
	close_pair(pair);
}

TEST(the_end_of_the_stream_is_a_reset)
{
	struct fdlist fds;
	size_t bytes;
	int pair[2];

	make_pair(pair);
	fdlist_init(&fds);
	ASSERT_OK(framing_send(pair[0], "a", 1, NULL, 0));
	pair[0] = safe_close(pair[0]);
	ASSERT_OK(framing_recv(pair[1], in, sizeof(in), &bytes, &fds));
	ASSERT_ERR(framing_recv(pair[1], in, sizeof(in), &bytes, &fds), ECONNRESET);
	close_pair(pair);
}

TEST(the_last_packet_is_not_lost_when_the_end_is_reported_first)
{
	struct fdlist fds;
	size_t bytes = 0;
	int pair[2], fd;

	make_pair(pair);
	fdlist_init(&fds);
	make_fds(&fd, 1);
	ASSERT_OK(framing_send(pair[0], "last", 4, &fd, 1));
	pair[0] = safe_close(pair[0]);
	early_ends = 1;
	ASSERT_OK(framing_recv(pair[1], in, sizeof(in), &bytes, &fds));
	ASSERT_EQ(bytes, 4);
	ASSERT_EQ(fds.n, 1);
	ASSERT_ERR(framing_recv(pair[1], in, sizeof(in), &bytes, &fds), ECONNRESET);
	fdlist_deinit(&fds);
	close_fds(&fd, 1);
	close_pair(pair);
}

TEST(an_empty_packet_is_the_end_of_the_stream_and_leaks_nothing)
{
	int pair[2], sent[2];
	unsigned int before;
	struct fdlist fds;
	size_t bytes;

	make_pair(pair);
	make_fds(sent, 2);
	fdlist_init(&fds);
	before = n_open_fds();
	send_raw(pair[0], 0, sent, 2);
	ASSERT_ERR(framing_recv(pair[1], in, sizeof(in), &bytes, &fds), ECONNRESET);
	ASSERT_EQ(n_open_fds(), before);
	close_fds(sent, 2);
	close_pair(pair);
}

TEST(sending_to_a_closed_socket_gives_an_error_and_no_signal)
{
	int pair[2];

	signal(SIGPIPE, SIG_DFL);
	make_pair(pair);
	pair[1] = safe_close(pair[1]);
	ASSERT_ERR(framing_send(pair[0], "a", 1, NULL, 0), EPIPE);
	close_pair(pair);
}

TEST(a_full_socket_would_block)
{
	int pair[2], r = 0;

	make_pair(pair);
	for (int i = 0; i < 10000 && r == 0; i++)
		r = framing_send(pair[0], out, 4096, NULL, 0);
	ASSERT_EQ(r, -EAGAIN);
	close_pair(pair);
}

TEST(credentials_are_ignored_and_cost_no_descriptor)
{
	int pair[2], sent[FRAMING_MAX_FDS], one = 1;
	struct fdlist fds;
	size_t bytes;

	make_pair(pair);
	make_fds(sent, FRAMING_MAX_FDS);
	fdlist_init(&fds);
	ASSERT_OK(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)));
	ASSERT_OK(framing_send(pair[0], "a", 1, sent, FRAMING_MAX_FDS));
	ASSERT_OK(framing_recv(pair[1], in, sizeof(in), &bytes, &fds));
	ASSERT_EQ(fds.n, FRAMING_MAX_FDS);
	fdlist_deinit(&fds);
	close_fds(sent, FRAMING_MAX_FDS);
	close_pair(pair);
}

/* Credentials take the room that a seventeenth descriptor would have: the kernel cuts it off and says so. */
TEST(a_descriptor_cut_off_by_the_kernel_is_an_error)
{
	int pair[2], sent[FRAMING_MAX_FDS + 1], one = 1;
	unsigned int before;
	struct fdlist fds;
	size_t bytes;

	skip_where_descriptors_leak();
	make_pair(pair);
	make_fds(sent, FRAMING_MAX_FDS + 1);
	fdlist_init(&fds);
	ASSERT_OK(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)));
	before = n_open_fds();
	send_raw(pair[0], 10, sent, FRAMING_MAX_FDS + 1);
	ASSERT_ERR(framing_recv(pair[1], in, sizeof(in), &bytes, &fds), EMSGSIZE);
	ASSERT_EQ(fds.n, 0);
	ASSERT_EQ(n_open_fds(), before);
	close_fds(sent, FRAMING_MAX_FDS + 1);
	close_pair(pair);
}

TEST(setup_makes_room_for_the_largest_packet)
{
	int pair[2], small = 4096;

	make_pair(pair);
	ASSERT_OK(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)));
	ASSERT_ERR(framing_send(pair[0], out, FRAMING_MAX_PACKET_BYTES, NULL, 0), EMSGSIZE);
	ASSERT_OK(framing_setup(pair[0]));
	ASSERT_OK(framing_send(pair[0], out, FRAMING_MAX_PACKET_BYTES, NULL, 0));
	close_pair(pair);
}

/* ---- connect --------------------------------------------------------------------------------------------------- */

static int listen_at(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	ASSERT_GE(sock, 0);
	strcpy(address.sun_path, path);
	ASSERT_OK(bind(sock, (struct sockaddr *)&address, sizeof(address)));
	ASSERT_OK(listen(sock, 4));
	return sock;
}

TEST(connect_reaches_a_listener)
{
	char folder[] = "/tmp/shmemd-framing-XXXXXX", path[64];
	int listener, client, server;
	struct fdlist fds;
	size_t bytes;

	ASSERT_NE(mkdtemp(folder), NULL);
	snprintf(path, sizeof(path), "%s/s", folder);
	listener = listen_at(path);
	client = framing_connect(path);
	ASSERT_GE(client, 0);
	ASSERT_EQ(fcntl(client, F_GETFD), FD_CLOEXEC);
	ASSERT_EQ(fcntl(client, F_GETFL) & O_NONBLOCK, 0);
	server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	ASSERT_GE(server, 0);
	fdlist_init(&fds);
	ASSERT_OK(framing_send(client, out, FRAMING_MAX_PACKET_BYTES, NULL, 0));
	ASSERT_OK(framing_recv(server, in, sizeof(in), &bytes, &fds));
	ASSERT_EQ(bytes, FRAMING_MAX_PACKET_BYTES);

	close(server);
	close(client);
	close(listener);
	ASSERT_ERR(framing_connect(path), ECONNREFUSED);
	unlink(path);
	ASSERT_ERR(framing_connect(path), ENOENT);
	rmdir(folder);
}

TEST(connect_refuses_a_path_that_no_address_holds)
{
	char path[200];

	memset(path, 'p', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	ASSERT_ERR(framing_connect(path), ENAMETOOLONG);
}
