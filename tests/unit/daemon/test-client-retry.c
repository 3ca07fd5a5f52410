/* SPDX-License-Identifier: Apache-2.0 */
/* A reply that the kernel does not take now goes out later, without the loop spinning meanwhile. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/clients/client.h"
#include "proto/base/nsec.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"

#define N_REFUSED 10u
#define RETRY_NSEC (10 * NSEC_PER_MSEC)

static unsigned int n_tries;

/* In place of the C library's: the kernel returns this to a process with too many descriptors in flight. */
ssize_t sendmsg(int sock, const struct msghdr *header, int flags)
{
	if (header->msg_controllen > 0) {
		if (n_tries++ < N_REFUSED) {
			errno = ETOOMANYREFS;
			return -1;
		}
	}
	return syscall(SYS_sendmsg, sock, header, flags);
}

static void on_attention(void *arg, struct session *session)
{
	client_attention(session);
}

static void on_activity(void *arg)
{
}

static void on_reply(void *arg, unsigned int events)
{
	loop_stop(arg);
}

static void send_hello(struct raw_client *raw)
{
	struct msg req;

	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = (struct msg_hello_req){.version_min = 1, .version_max = 1, .role = MSG_ROLE_CLIENT};
	raw_send(raw, &req, NULL, 0);
}

TEST(a_reply_that_stalled_is_sent_later)
{
	struct registry_attr attr = {.daemon = "test", .hooks.attention = on_attention};
	struct client_attr client_attr = {.handshake_nsec = 60 * NSEC_PER_SEC, .activity = on_activity};
	struct raw_client raw = {0};
	struct registry registry;
	struct loop_watch *watch;
	struct list clients;
	struct loop *loop;
	uint64_t begin;
	struct msg rep;
	int socks[2];

	for (int i = 0; i < QUOTA_N; i++)
		attr.limits.n[i] = 100;
	list_init(&clients);
	ASSERT_OK(registry_init(&registry, &attr));
	ASSERT_OK(loop_new(&loop));
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, socks));
	raw.sock = socks[1];
	client_attr.loop = loop;
	client_attr.registry = &registry;
	client_attr.clients = &clients;
	ASSERT_OK(client_new(&client_attr, socks[0]));
	ASSERT_OK(loop_watch_new(loop, raw.sock, LOOP_READ, on_reply, loop, &watch));
	send_hello(&raw);
	begin = nsec_now();
	ASSERT_OK(loop_run(loop));
	/* Each time but the first after a while; the loop's clock is a coarse one. */
	ASSERT_GE(nsec_now() - begin, N_REFUSED * (RETRY_NSEC - 2 * NSEC_PER_MSEC));
	ASSERT_OK(raw_recv(&raw, &rep, NULL));
	ASSERT_EQ(rep.kind, MSG_HELLO_REP);
	ASSERT_EQ(n_tries, N_REFUSED + 1);
	client_free(container_of(clients.next, struct client, link));
	raw_close(&raw);
	loop_watch_free(watch);
	loop_free(loop);
	registry_deinit(&registry);
}
