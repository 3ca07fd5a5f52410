/* SPDX-License-Identifier: Apache-2.0 */
/* See porter-lab.h. */
#include "porter-lab.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/porter/zygote.h"
#include "proto/framing.h"
#include "tests/lib/child.h"
#include "tests/lib/test.h"

static void *on_watch(void *arg, int fd, struct porter *porter)
{
	struct scene *s = arg;

	s->channel = fd;
	s->porter = porter;
	return s;
}

static void on_unwatch(void *arg, void *watch)
{
	struct scene *s = arg;

	s->channel = -1;
}

void on_alarm(void *arg, uint64_t nsec)
{
}

static void on_failed(void *arg, uint32_t uid, const char *text)
{
	struct scene *s = arg;

	ASSERT_EQ(uid, UID);
	s->n_failed++;
}

void scene_init_with(struct scene *s, int zygote)
{
	scene_init_linger(s, zygote, 0);
}

void scene_init_linger(struct scene *s, int zygote, uint64_t linger_nsec)
{
	const struct porters_attr attr = {
		.zygote = zygote,
		.linger_nsec = linger_nsec,
		.hooks = {.arg = s, .watch = on_watch, .unwatch = on_unwatch, .alarm = on_alarm, .failed = on_failed}};

	*s = (struct scene){.channel = -1};
	s->account = foreign_account_new();
	ASSERT(s->account);
	ASSERT_OK(porters_new(&attr, &s->porters));
}

void scene_init(struct scene *s)
{
	int zygote;

	ASSERT_OK(zygote_start(NULL, &zygote));
	scene_init_with(s, zygote);
}

void hear(struct scene *s)
{
	struct pollfd wait = {.fd = s->channel, .events = POLLIN};

	ASSERT_GE(poll(&wait, 1, 5), 0);
	if (wait.revents && s->channel >= 0)
		porter_readable(s->porter);
	porters_tick(s->porters);
}

void wait_until_closed(struct scene *s)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;

	while (foreign_account_unclosed(s->account) > 0) {
		ASSERT_LT(nsec_now(), end);
		hear(s);
	}
}

void scene_deinit(struct scene *s)
{
	wait_until_closed(s);
	porters_free(s->porters);
	foreign_account_unref(s->account);
}

void on_packet(void *arg, int r, const void *buf, size_t bytes, struct fdlist *fds)
{
	struct client *client = arg;

	client->heard = true;
	client->r = r;
	client->n_fds = fds->n;
	client->refused = fds->refused;
	client->fd = fds->n > 0 && fds->fds[0] >= 0 ? fdlist_take(fds, 0) : -1;
	snprintf(client->text, sizeof(client->text), "%.*s", (int)bytes, bytes ? (const char *)buf : "");
}

static void ignore_ready(void *arg)
{
}

void client_init(struct client *client, struct scene *s)
{
	struct porter_slot_attr attr = {.uid = UID, .account = s->account, .packet = on_packet, .ready = ignore_ready, .arg = client};
	int socks[2];

	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, socks));
	*client = (struct client){.sock = socks[0], .peer = socks[1], .fd = -1};
	attr.sock = client->sock;
	ASSERT_OK(porter_slot_new(s->porters, &attr, &client->slot));
}

void client_deinit(struct client *client)
{
	held_close(client->fd);
	porter_slot_end(client->slot, client->sock);
	close(client->peer);
}

void receive(struct client *client, struct scene *s)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;

	client->heard = false;
	ASSERT_OK(porter_slot_recv(client->slot));
	while (!client->heard) {
		ASSERT_LT(nsec_now(), end);
		hear(s);
	}
}

int send_pipe(struct client *client)
{
	int fds[2];

	ASSERT_OK(pipe2(fds, O_CLOEXEC));
	ASSERT_OK(framing_send(client->peer, "hello", 5, &fds[1], 1));
	close(fds[1]);
	return fds[0];
}

bool is_open_elsewhere(int pipe)
{
	struct pollfd wait = {.fd = pipe};

	ASSERT_GE(poll(&wait, 1, 0), 0);
	return !(wait.revents & POLLHUP);
}

void expect_closed_elsewhere(int pipe, struct scene *s)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;

	while (is_open_elsewhere(pipe)) {
		ASSERT_LT(nsec_now(), end);
		hear(s);
	}
}

pid_t find_porter(void)
{
	int zygote = child_called(getpid(), "shmemd-zygote");

	return zygote > 0 ? child_called(zygote, "porter 4242") : 0;
}
