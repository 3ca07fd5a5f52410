/* SPDX-License-Identifier: Apache-2.0 */
/* A porter and its client: which descriptors the porter holds or refuses, and when it closes them. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/porter/foreign-account.h"
#include "daemon/porter/message.h"
#include "daemon/porter/porter.h"
#include "proto/base/nsec.h"
#include "proto/framing.h"
#include "tests/lib/child.h"
#include "tests/lib/strange-fd.h"
#include "tests/lib/test.h"
#include "porter-lab.h"

TEST(packet_comes_with_its_descriptor_which_is_held_until_it_is_closed)
{
	struct client client;
	struct scene s;
	int pipe, copy;

	scene_init(&s);
	client_init(&client, &s);
	pipe = send_pipe(&client);
	receive(&client, &s);
	ASSERT_OK(client.r);
	ASSERT_EQ(client.n_fds, 1);
	ASSERT_STREQ(client.text, "hello");
	ASSERT_GE(client.fd, 0);
	copy = held_dup(client.fd);
	ASSERT_GE(copy, 0);
	held_close(client.fd);
	client.fd = -1;
	ASSERT_EQ(foreign_account_unclosed(s.account), 0);
	held_close(copy);
	/* This process does not have it, and the porter has. */
	ASSERT_EQ(foreign_account_unclosed(s.account), 1);
	expect_closed_elsewhere(pipe, &s);
	close(pipe);
	client_deinit(&client);
	scene_deinit(&s);
}

TEST(reference_holds_what_is_closed_here)
{
	struct client client;
	struct held *held;
	struct scene s;
	int pipe;

	scene_init(&s);
	client_init(&client, &s);
	pipe = send_pipe(&client);
	receive(&client, &s);
	held = held_ref(client.fd);
	ASSERT(held);
	held_close(client.fd);
	client.fd = -1;
	for (int i = 0; i < 5; i++)
		hear(&s);
	ASSERT(is_open_elsewhere(pipe));
	held_unref(held);
	expect_closed_elsewhere(pipe, &s);
	close(pipe);
	client_deinit(&client);
	scene_deinit(&s);
}

TEST(files_are_refused_by_name_and_closed)
{
	int file = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct client client;
	struct scene s;

	scene_init(&s);
	client_init(&client, &s);
	ASSERT_OK(framing_send(client.peer, "x", 1, &file, 1));
	receive(&client, &s);
	ASSERT_OK(client.r);
	ASSERT_EQ(client.n_fds, 1);
	ASSERT_EQ(client.fd, -1);
	ASSERT_STREQ(client.refused, "a file, folder or device");
	close(file);
	client_deinit(&client);
	scene_deinit(&s);
}

/* On one CPU and as the idlest process: each order wakes the porter, which carries it out before this process goes on. */
static void be_slower_than_a_porter(void)
{
	const struct sched_param none = {0};
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((unsigned int)sched_getcpu(), &one);
	ASSERT_OK(sched_setaffinity(0, sizeof(one), &one));
	for (int i = 0; i < 2; i++) {
		pid_t pid = i == 0 ? child_called(getpid(), "shmemd-zygote") : find_porter();

		ASSERT_OK(sched_setaffinity(pid, sizeof(one), &one));
	}
	ASSERT_OK(sched_setscheduler(0, SCHED_IDLE, &none));
}

/* The last close of this socket waits for its peer. */
TEST_TIMEOUT(close_here_is_not_the_last_one_however_fast_the_porter_is, 60)
{
	struct client client;
	struct scene s;

	scene_init(&s);
	client_init(&client, &s);
	while (find_porter() == 0)
		hear(&s);
	be_slower_than_a_porter();
	for (int i = 0; i < 10; i++) {
		int peer, sock = strange_fd_lingering(LINGER_SEC, &peer);
		uint64_t begin;

		if (sock < 0)
			test_skip("no TCP here");
		ASSERT_OK(framing_send(client.peer, "hello", 5, &sock, 1));
		receive(&client, &s);
		ASSERT_GE(client.fd, 0);
		close(sock);
		begin = nsec_now();
		held_close(client.fd);
		client.fd = -1;
		ASSERT_LT(nsec_now() - begin, LINGER_SEC * NSEC_PER_SEC / 2);
		close(peer);
		wait_until_closed(&s);
	}
	client_deinit(&client);
	scene_deinit(&s);
}

TEST(several_descriptors_are_counted_and_none_is_passed_on)
{
	int fds[3] = {0, 1, 2};
	struct client client;
	struct scene s;

	scene_init(&s);
	client_init(&client, &s);
	ASSERT_OK(framing_send(client.peer, "x", 1, fds, 3));
	receive(&client, &s);
	ASSERT_OK(client.r);
	ASSERT_EQ(client.n_fds, 3);
	ASSERT_EQ(client.fd, -1);
	close(client.peer);
	receive(&client, &s);
	ASSERT_ERR(client.r, ECONNRESET);
	client.peer = -1;
	client_deinit(&client);
	scene_deinit(&s);
}

TEST(end_of_a_slot_closes_unread_descriptors)
{
	struct client client;
	struct scene s;
	int pipe;

	if (test_emulator())
		test_skip("qemu-user leaks descriptors when ancillary data is cut off");
	scene_init(&s);
	client_init(&client, &s);
	pipe = send_pipe(&client);
	client_deinit(&client);
	ASSERT_EQ(foreign_account_unclosed(s.account), 1);
	expect_closed_elsewhere(pipe, &s);
	close(pipe);
	scene_deinit(&s);
}

TEST(attached_descriptor_is_open_as_long_as_its_slot)
{
	struct client client;
	int fds[2];
	struct scene s;

	scene_init(&s);
	client_init(&client, &s);
	ASSERT_OK(pipe2(fds, O_CLOEXEC));
	ASSERT_OK(porter_slot_attach(client.slot, fds[1], false));
	close(fds[1]);
	for (int i = 0; i < 5; i++)
		hear(&s);
	ASSERT(is_open_elsewhere(fds[0]));
	client_deinit(&client);
	expect_closed_elsewhere(fds[0], &s);
	close(fds[0]);
	scene_deinit(&s);
}

/* ---- a porter that somebody else has taken over -------------------------------------------------------------------------- */

/* The test is the zygote, and then the porter. Returns the porter's end of its channel. */
static int be_porter(struct scene *s, struct client *client, int zygote)
{
	static uint8_t order[FRAMING_MAX_PACKET_BYTES];
	struct fdlist fds;
	size_t bytes;

	fdlist_init(&fds);
	client_init(client, s);
	ASSERT_OK(framing_recv(zygote, order, sizeof(order), &bytes, &fds));
	ASSERT_EQ(fds.n, 1u);
	return fdlist_take(&fds, 0);
}

/* A report has no use for a descriptor. If one stayed here, a porter could use up the daemon's numbers. */
static void report_with(unsigned int n_fds)
{
	const struct porter_news news = {.event = PORTER_STARTED};
	struct client client;
	struct scene s;
	int zygote[2], ends[2], fds[2], channel;

	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, zygote));
	ASSERT_OK(pipe2(ends, O_CLOEXEC));
	scene_init_with(&s, zygote[0]);
	channel = be_porter(&s, &client, zygote[1]);
	fds[0] = fds[1] = ends[1];
	ASSERT_OK(framing_send(channel, &news, sizeof(news), fds, n_fds));
	close(ends[1]);
	hear(&s);
	ASSERT_EQ(s.n_failed, 1);
	ASSERT(!is_open_elsewhere(ends[0]));
	close(ends[0]);
	close(channel);
	client_deinit(&client);
	porters_free(s.porters);
	foreign_account_unref(s.account);
	close(zygote[1]);
}

TEST(porter_whose_report_has_a_descriptor_that_nobody_takes_is_let_go_of)
{
	report_with(1);
}

TEST(porter_whose_report_has_two_descriptors_is_let_go_of)
{
	if (test_emulator())
		test_skip("qemu-user leaks descriptors when ancillary data is cut off");
	report_with(2);
}
