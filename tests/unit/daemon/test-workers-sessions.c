/* SPDX-License-Identifier: Apache-2.0 */
/* Worker threads with sessions, their loop and clients that ask all at once. */
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/clients/client.h"
#include "daemon/workers.h"
#include "proto/base/later.h"
#include "proto/base/nsec.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/unit/session/fake-nic.h"

#define LIMIT_NSEC (10 * NSEC_PER_SEC)

struct scene {
	struct loop *loop;
	struct workers *workers;
	unsigned int n_activities;
};

static void on_activity(void *arg)
{
	struct scene *s = arg;

	s->n_activities++;
}

static void scene_init(struct scene *s, unsigned int n_threads)
{
	const struct workers_attr attr = {.n_threads = n_threads, .activity = on_activity, .activity_arg = s};
	struct workers_attr with_loop = attr;

	s->n_activities = 0;
	ASSERT_OK(loop_new(&s->loop));
	with_loop.loop = s->loop;
	ASSERT_OK(workers_new(&with_loop, &s->workers));
}

static void scene_deinit(struct scene *s)
{
	ASSERT(!workers_free(s->workers));
	loop_free(s->loop);
}

#define N_CLIENTS 6
#define N_ROUNDS 20

struct world {
	struct scene s;
	struct registry registry;
	struct fake_nic nics[2];
	struct list clients;
	int socks[N_CLIENTS];
	unsigned int n_gone; /* clients that are through */
	int gone_fd; /* tells so */
};

static void on_attention(void *arg, struct session *session)
{
	client_attention(session);
}

static void on_work(void *arg, struct work *work)
{
	struct world *w = arg;

	workers_submit(w->s.workers, work);
}

static void world_init(struct world *w)
{
	struct registry_attr attr = {
		.daemon = "test",
		.qp_params = {.timeout = 14, .retry_count = 7, .rnr_retry = 7, .min_rnr_timer = 12, .max_rd_atomic = 16},
		.hooks = {.arg = w, .attention = on_attention, .work = on_work}};

	scene_init(&w->s, 4);
	for (int i = 0; i < QUOTA_N; i++)
		attr.limits.n[i] = 1u << 30;
	ASSERT_OK(registry_init(&w->registry, &attr));
	for (int i = 0; i < 2; i++) {
		fake_nic_init(&w->nics[i], i ? "fake1" : "fake0");
		w->nics[i].base.blocks = true;
		w->nics[i].query_nsec = 100 * NSEC_PER_USEC;
		ASSERT_OK(registry_add_nic(&w->registry, &w->nics[i].base, &w->nics[i].info));
	}
	list_init(&w->clients);
	w->n_gone = 0;
	w->gone_fd = eventfd(0, EFD_CLOEXEC);
}

static int connect_client(struct world *w)
{
	const struct client_attr attr = {
		.loop = w->s.loop,
		.registry = &w->registry,
		.clients = &w->clients,
		.handshake_nsec = 60 * NSEC_PER_SEC,
		.activity = on_activity,
		.activity_arg = &w->s,
	};
	int socks[2];

	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks));
	ASSERT_OK(client_new(&attr, socks[0]));
	return socks[1];
}

/* raw_recv() has one buffer for all. */
static pthread_mutex_t raw_lock = PTHREAD_MUTEX_INITIALIZER;

static void ask(struct raw_client *raw, struct msg *req, int fd, enum msg_kind kind, struct msg *rep)
{
	struct pollfd pfd = {.fd = raw->sock, .events = POLLIN};

	pthread_mutex_lock(&raw_lock);
	raw_send(raw, req, &fd, fd >= 0);
	pthread_mutex_unlock(&raw_lock);
	ASSERT_EQ(poll(&pfd, 1, 10000), 1);
	pthread_mutex_lock(&raw_lock);
	ASSERT_OK(raw_recv(raw, rep, NULL));
	pthread_mutex_unlock(&raw_lock);
	ASSERT_STREQ(msg_kind_name(rep->kind), msg_kind_name(kind));
}

static void ask_and_drop(struct raw_client *raw, struct msg *req, int fd, enum msg_kind kind)
{
	struct msg rep;

	ask(raw, req, fd, kind, &rep);
	msg_deinit(&rep);
}

static void hello(struct raw_client *raw)
{
	struct msg req;

	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = (struct msg_hello_req){.version_min = 1, .version_max = 1, .role = MSG_ROLE_CLIENT};
	ask_and_drop(raw, &req, -1, MSG_HELLO_REP);
	msg_init(&req, MSG_NIC_OPEN_REQ, 0);
	ask_and_drop(raw, &req, -1, MSG_NIC_OPEN_REP);
}

static void live_a_round(struct raw_client *raw, int memory)
{
	struct msg req, rep;

	raw_fill_create(&req, 4);
	ask(raw, &req, -1, MSG_QUEUE_CREATE_REP, &rep);
	msg_init(&req, MSG_QUEUE_DESTROY_REQ, 0);
	req.queue_destroy_req.handle = rep.queue_create_rep.queues;
	msg_deinit(&rep);
	ask_and_drop(raw, &req, -1, MSG_OK_REP);
	raw_fill_create(&req, 1);
	ask_and_drop(raw, &req, -1, MSG_QUEUE_CREATE_REP);
	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){.kind = MSG_MEM_MEMFD, .length_bytes = 4096};
	ask_and_drop(raw, &req, memory, MSG_MEM_REG_REP);
	for (int what = MSG_LIST_SESSIONS; what <= MSG_LIST_NICS; what++) {
		msg_init(&req, MSG_LIST_REQ, 0);
		req.list_req.what = (enum msg_list_what)what;
		ask_and_drop(raw, &req, -1, MSG_LIST_REP);
	}
	msg_init(&req, MSG_COUNTERS_REQ, 0);
	ask_and_drop(raw, &req, -1, MSG_COUNTERS_REP);
}

struct one_client {
	struct world *w;
	unsigned int index;
};

/* Every other one leaves with a request under way. */
static void *client_thread(void *arg)
{
	struct one_client *one = arg;
	struct raw_client raw = {.sock = one->w->socks[one->index]};
	int memory = raw_memfd(4096);
	uint64_t count = 1;
	struct msg req;

	hello(&raw);
	for (int i = 0; i < N_ROUNDS; i++)
		live_a_round(&raw, memory);
	pthread_mutex_lock(&raw_lock);
	raw_fill_create(&req, 4);
	if (one->index % 2)
		raw_send(&raw, &req, NULL, 0);
	pthread_mutex_unlock(&raw_lock);
	raw_close(&raw);
	close(memory);
	ASSERT_EQ(write(one->w->gone_fd, &count, sizeof(count)), (ssize_t)sizeof(count));
	return NULL;
}

static void on_gone(void *arg, unsigned int events)
{
	struct world *w = arg;
	uint64_t count;

	ASSERT_EQ(read(w->gone_fd, &count, sizeof(count)), (ssize_t)sizeof(count));
	w->n_gone += (unsigned int)count;
	if (w->n_gone == N_CLIENTS)
		loop_stop(w->s.loop);
}

static void world_deinit(struct world *w)
{
	struct client *client, *tmp;

	/* As the daemon stops: some have gone, of some that is not yet seen. */
	list_for_each_entry_safe(client, tmp, &w->clients, link)
		client_free(client);
	ASSERT_OK(workers_finish(w->s.workers, LIMIT_NSEC, LIMIT_NSEC));
	ASSERT(list_empty(&w->registry.sessions));
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(w->nics[i].n_ctxs, 0);
		ASSERT_EQ(w->nics[i].n_mrs, 0);
		ASSERT_EQ(w->nics[i].n_queues, 0);
	}
	scene_deinit(&w->s);
	registry_deinit(&w->registry);
	later_wait();
	close(w->gone_fd);
}

TEST(clients_that_ask_all_at_once_get_their_answers_and_leave_nothing)
{
	struct one_client ones[N_CLIENTS];
	pthread_t threads[N_CLIENTS];
	struct loop_watch *watch;
	struct world w;

	world_init(&w);
	ASSERT_OK(loop_watch_new(w.s.loop, w.gone_fd, LOOP_READ, on_gone, &w, &watch));
	for (unsigned int i = 0; i < N_CLIENTS; i++) {
		w.socks[i] = connect_client(&w);
		ones[i] = (struct one_client){.w = &w, .index = i};
	}
	for (unsigned int i = 0; i < N_CLIENTS; i++)
		ASSERT_OK(pthread_create(&threads[i], NULL, client_thread, &ones[i]));
	ASSERT_OK(loop_run(w.s.loop));
	for (unsigned int i = 0; i < N_CLIENTS; i++)
		ASSERT_OK(pthread_join(threads[i], NULL));
	loop_watch_free(watch);
	world_deinit(&w);
}
