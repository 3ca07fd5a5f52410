/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that wait for their turn cost the loop nothing. */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/clients/client.h"
#include "daemon/clients/fair-turns.h"
#include "proto/base/nsec.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"

#define N_CLIENTS 1000
#define FDS_PER_CLIENT 3u /* both ends, and a pidfd */
#define N_REQUESTS 40u

struct world {
	struct loop *loop;
	struct turns *turns;
	struct registry registry;
	struct list clients;
	struct raw_client raws[N_CLIENTS];
	unsigned int n_looks;
};

static void on_attention(void *arg, struct session *session)
{
	client_attention(session);
}

/* Called whenever the loop has looked at a client. */
static void on_activity(void *arg)
{
	struct world *w = arg;

	w->n_looks++;
	if (list_empty(&w->clients))
		loop_stop(w->loop);
}

static void connect_client(struct world *w, struct raw_client *raw)
{
	const struct client_attr attr = {
		.loop = w->loop,
		.registry = &w->registry,
		.turns = w->turns,
		.clients = &w->clients,
		.handshake_nsec = 60 * NSEC_PER_SEC,
		.activity = on_activity,
		.activity_arg = w,
	};
	int socks[2];

	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks));
	ASSERT_OK(client_new(&attr, socks[0]));
	*raw = (struct raw_client){.sock = socks[1]};
}

static void world_init(struct world *w)
{
	struct registry_attr attr = {.daemon = "test", .hooks = {.arg = w, .attention = on_attention}};

	for (int i = 0; i < QUOTA_N; i++)
		attr.limits.n[i] = 1u << 30;
	*w = (struct world){0};
	list_init(&w->clients);
	ASSERT_OK(loop_new(&w->loop));
	ASSERT_OK(turns_new(w->loop, &w->turns));
	ASSERT_OK(registry_init(&w->registry, &attr));
	for (unsigned int i = 0; i < N_CLIENTS; i++)
		connect_client(w, &w->raws[i]);
}

static void world_deinit(struct world *w)
{
	ASSERT(list_empty(&w->clients));
	turns_free(w->turns);
	registry_deinit(&w->registry);
	loop_free(w->loop);
}

static void allow_fds(void)
{
	struct rlimit limit;

	ASSERT_OK(getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = limit.rlim_max;
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &limit));
	if (limit.rlim_cur < FDS_PER_CLIENT * N_CLIENTS + 100)
		test_skip("too few descriptors");
}

/* Everything that it asks for lies in its socket at once, and the end behind it. */
static void ask_for_much(struct raw_client *raw)
{
	struct msg req;

	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = (struct msg_hello_req){.version_min = 1, .version_max = 1, .role = MSG_ROLE_CONTROL};
	raw_send(raw, &req, NULL, 0);
	for (unsigned int i = 0; i < N_REQUESTS; i++) {
		msg_init(&req, MSG_STATUS_REQ, 0);
		raw_send(raw, &req, NULL, 0);
	}
	ASSERT_OK(shutdown(raw->sock, SHUT_WR));
}

static void expect_answers(struct raw_client *raw)
{
	struct msg rep;

	for (unsigned int i = 0; i <= N_REQUESTS; i++) {
		ASSERT_OK(raw_recv(raw, &rep, NULL));
		ASSERT_EQ(rep.id, i + 1);
		ASSERT_EQ(rep.kind, i ? MSG_STATUS_REP : MSG_HELLO_REP);
		msg_deinit(&rep);
	}
	raw_close(raw);
}

/* Sockets stay readable while their clients wait: the loop must not look at all of them for each turn. */
TEST(clients_that_wait_for_their_turn_are_not_looked_at)
{
	static struct world w;

	allow_fds();
	world_init(&w);
	for (unsigned int i = 0; i < N_CLIENTS; i++)
		ask_for_much(&w.raws[i]);
	ASSERT_OK(loop_run(w.loop));
	printf("# %u looks for %u clients\n", w.n_looks, N_CLIENTS);
	for (unsigned int i = 0; i < N_CLIENTS; i++)
		expect_answers(&w.raws[i]);
	/* At most a look and a turn for each packet and for the end, and the release. */
	ASSERT_LE(w.n_looks, N_CLIENTS * (2 * (N_REQUESTS + 2) + 1));
	world_deinit(&w);
}
