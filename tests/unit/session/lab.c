/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/session/lab.h"

#include <limits.h>
#include <sys/socket.h>
#include <time.h>

#include "daemon/porter/zygote.h"
#include "proto/base/later.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

static void on_attention(void *arg, struct session *session)
{
	struct lab *lab = arg;

	lab->n_attentions++;
}

static void on_drain_alarm(void *arg, uint64_t nsec)
{
	struct lab *lab = arg;

	lab->n_alarms++;
	lab->alarm_nsec = nsec;
}

static void on_work(void *arg, struct work *work)
{
	struct lab *lab = arg;

	list_add_tail(&lab->todo, &work->link);
}

/* As a worker while nobody stalls. */
static bool on_run(void *arg, struct work *work)
{
	struct lab *lab = arg;

	if (lab->memory_waits) {
		on_work(lab, work);
		return false;
	}
	work->run(work);
	return true;
}

static void on_offer(void *arg, struct work *work)
{
	struct lab *lab = arg;

	if (lab->keeps_offers)
		lab->offered = work;
	else
		on_work(lab, work);
}

static struct work *take_first(struct list *list)
{
	struct work *work = list_empty(list) ? NULL : list_first_entry(list, struct work, link);

	if (work)
		list_del(&work->link);
	return work;
}

bool lab_run(struct lab *lab)
{
	struct work *work = take_first(&lab->todo);

	if (!work)
		return false;
	work->run(work);
	list_add_tail(&lab->ready, &work->link);
	return true;
}

bool lab_done(struct lab *lab)
{
	struct work *work = take_first(&lab->ready);

	if (work)
		work->done(work);
	return work;
}

unsigned int lab_work(struct lab *lab)
{
	unsigned int n = 0;

	while (lab_done(lab) || (lab_run(lab) && lab_done(lab)))
		n++;
	return n;
}

/* A connection's own, beside the descriptors that a test counts. */
#define CONTROLLER_FDS 2

/* ---- porters ------------------------------------------------------------------------------------------------------- */

static void *on_watch(void *arg, int fd, struct porter *porter)
{
	struct lab *lab = arg;

	for (int i = 0; i < LAB_CHANNELS; i++)
		if (lab->channels[i].fd < 0) {
			lab->channels[i] = (struct pollfd){.fd = fd, .events = POLLIN};
			lab->of_channels[i] = porter;
			return &lab->channels[i];
		}
	return NULL;
}

static void on_unwatch(void *arg, void *watch)
{
	struct pollfd *channel = watch;

	channel->fd = -1;
}

static void on_porters_alarm(void *arg, uint64_t nsec)
{
}

void lab_hear_porters(struct lab *lab)
{
	ASSERT_GE(poll(lab->channels, LAB_CHANNELS, 1), 0);
	for (int i = 0; i < LAB_CHANNELS; i++)
		if (lab->channels[i].fd >= 0 && lab->channels[i].revents)
			porter_readable(lab->of_channels[i]);
	porters_tick(lab->porters);
}

static void make_porters(struct lab *lab)
{
	struct porters_attr attr = {
		.hooks = {.arg = lab, .watch = on_watch, .unwatch = on_unwatch, .alarm = on_porters_alarm}};

	ASSERT_OK(zygote_start(NULL, &attr.zygote));
	ASSERT_OK(porters_new(&attr, &lab->porters));
}

static void init(struct lab *lab, uint64_t limit, bool blocks)
{
	static const struct nic_backend mlx5 = {.name = "mlx5", .claims = nic_mlx5_claims};
	static const struct nic_backend *const backends[] = {&mlx5, NULL};
	struct registry_attr attr = {
		.backends = backends,
		.porters = lab->porters,
		.daemon = "shmemd under test",
		.quiesce_nsec = 1000000,
		.qp_params = {.timeout = 14, .retry_count = 7, .rnr_retry = 7, .min_rnr_timer = 12, .max_rd_atomic = 16},
		.hooks = {.arg = lab, .attention = on_attention, .drain_alarm = on_drain_alarm,
			  .work = blocks ? on_work : NULL, .run = blocks ? on_run : NULL, .offer = on_offer},
	};

	for (int i = 0; i < QUOTA_N; i++)
		attr.limits.n[i] = limit;
	attr.limits.n[QUOTA_BYTES] = limit << 20;
	attr.limits.n[QUOTA_FDS] = limit + CONTROLLER_FDS;
	attr.limits.n[QUOTA_MAPS] = UINT64_MAX;
	lab->n_attentions = 0;
	lab->n_alarms = 0;
	list_init(&lab->todo);
	list_init(&lab->ready);
	lab->memory_waits = lab->keeps_offers = false;
	lab->offered = NULL;
	ASSERT_OK(registry_init(&lab->registry, &attr));
	for (int i = 0; i < 2; i++) {
		fake_nic_init(&lab->nics[i], i == 0 ? "fake0" : "fake1");
		lab->nics[i].base.blocks = blocks;
		ASSERT_OK(registry_add_nic(&lab->registry, &lab->nics[i].base, &lab->nics[i].info));
	}
}

static void init_channels(struct lab *lab)
{
	lab->porters = NULL;
	for (int i = 0; i < LAB_CHANNELS; i++)
		lab->channels[i].fd = -1;
}

void lab_init(struct lab *lab, uint64_t limit)
{
	init_channels(lab);
	init(lab, limit, false);
}

void lab_init_blocking(struct lab *lab, uint64_t limit)
{
	init_channels(lab);
	init(lab, limit, true);
}

void lab_init_porters(struct lab *lab, uint64_t limit)
{
	init_channels(lab);
	make_porters(lab);
	init(lab, limit, false);
}

struct shmd_health_page lab_page(const struct session *session)
{
	struct shmd_health_page page;

	ASSERT_EQ(pread(session->health_fd, &page, sizeof(page), 0), (ssize_t)sizeof(page));
	return page;
}

void lab_deinit(struct lab *lab)
{
	ASSERT(list_empty(&lab->todo) && list_empty(&lab->ready));
	registry_deinit(&lab->registry);
	porters_free(lab->porters);
	later_wait();
}

/* The kernel lets go of what was under way on a socket when it likes, and reports it to no process. */
static void wait_until_read(struct lab *lab)
{
	struct inflight_table *table = &lab->registry.inflight;
	const struct timespec pause = {.tv_nsec = 1000000};
	uint64_t end = nsec_now() + 10 * NSEC_PER_SEC;

	for (;;) {
		later_wait();
		inflight_look(table, UINT_MAX);
		if (lab->porters)
			lab_hear_porters(lab);
		quota_collect(&lab->registry.quota);
		if ((list_empty(&table->sockets) && lab->registry.quota.total.n[QUOTA_FDS] == 0) || nsec_now() >= end)
			break;
		nanosleep(&pause, NULL);
	}
	later_wait();
}

void lab_assert_empty(struct lab *lab)
{
	wait_until_read(lab);
	quota_collect(&lab->registry.quota);
	for (int i = 0; i < QUOTA_N; i++)
		ASSERT_EQ(lab->registry.quota.total.n[i], 0);
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(lab->nics[i].n_ctxs, 0);
		ASSERT_EQ(lab->nics[i].n_mrs, 0);
		ASSERT_EQ(lab->nics[i].n_queues, 0);
		ASSERT_EQ(lab->registry.nics[i].n_sessions, 0);
		ASSERT_EQ(lab->registry.nics[i].n_qps, 0);
	}
	ASSERT(list_empty(&lab->registry.sessions));
	ASSERT(list_empty(&lab->registry.quota.uids));
	ASSERT(list_empty(&lab->registry.quota.cgroups));
}

static void pump(void *arg)
{
	struct pair *pair = arg;

	session_readable(pair->session);
	while (pair->session->is_reading && !pair->session->ended) {
		lab_hear_porters(pair->lab);
		session_readable(pair->session);
	}
	if (!pair->waits)
		lab_work(pair->lab);
}

void pair_init_on(struct pair *pair, struct lab *lab, const int socks[2])
{
	*pair = (struct pair){.raw = {.sock = socks[1], .pump = pump, .pump_arg = pair}, .lab = lab};
	ASSERT_OK(session_new(&lab->registry, socks[0], &pair->session));
	/* Any owner will do: the hook is the lab's. */
	pair->session->owner = pair;
}

void pair_init(struct pair *pair, struct lab *lab)
{
	int socks[2];

	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, socks));
	pair_init_on(pair, lab, socks);
}

void pair_init_hello(struct pair *pair, struct lab *lab, enum msg_role role)
{
	pair_init(pair, lab);
	raw_hello(&pair->raw, role);
}

void pair_deinit(struct pair *pair)
{
	pair->session = session_free(pair->session);
	raw_close(&pair->raw);
}

void pair_make_ordinary(struct pair *pair, uint32_t uid)
{
	pair->session->identity.uid = uid;
	ASSERT(!session_is_admin(pair->session));
}

void pair_expect_end(struct pair *pair, enum shmd_status status)
{
	raw_expect_end(&pair->raw, status);
	ASSERT(pair->session->ended);
}
