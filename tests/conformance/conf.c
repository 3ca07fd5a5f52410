/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds and takes down the world of a test: daemon, two sessions, NICs, memory, queues, connections.
 *
 * Runs on the test's thread. Closing checks as much as opening: a refused destroy or a daemon that does not
 * end well fails the test.
 */
#include "tests/conformance/fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <shmemclient-admin.h>

#define DEFAULT_SQ_WQEBBS 64u
#define DEFAULT_RQ_STRIDE 64u
#define DEFAULT_MEM_BYTES 65536u
#define MAX_NICS 64

/* 1 ms time-outs, two retries, RNR waits of 10 us. */
const struct shmd_qp_params conf_impatient = {
	.timeout = 8,
	.retry_count = 2,
	.rnr_retry = 2,
	.min_rnr_timer = 1,
	.max_rd_atomic = 16,
};

/* Gives up on a peer without receive WQEs, never on a busy one. */
const struct shmd_qp_params conf_few_rnr_retries = {
	.timeout = 18,
	.retry_count = 7,
	.rnr_retry = 2,
	.min_rnr_timer = 1,
	.max_rd_atomic = 16,
};

/* Long enough that no machine is so loaded: where nothing is lost, a retry fails the test. */
static const struct shmd_qp_params patient = {
	.timeout = 20, /* 4.3 s */
	.retry_count = 7,
	.rnr_retry = 7,
	.min_rnr_timer = 1,
	.max_rd_atomic = 16,
};

/* ---- sessions ---------------------------------------------------------------------------------------------- */

struct shmd_client *conf_client_open(void)
{
	struct shmd_client_attr attr = {.socket_path = conf_daemon_socket()};
	struct shmd_client *client;

	if (shmd_client_open(&attr, &client) < 0)
		test_fail(TEST_WHERE, "shmd_client_open: %s", shmd_error_text());
	return client;
}

/* SHMEMD_TEST_DOORBELL: cpu, uar-mmap, or what the daemon thinks best. */
static enum shmd_doorbell_mode doorbell_mode(void)
{
	const char *mode = getenv("SHMEMD_TEST_DOORBELL");

	if (!mode)
		return SHMD_DOORBELL_AUTO;
	return strcmp(mode, "cpu") == 0 ? SHMD_DOORBELL_CPU : SHMD_DOORBELL_UAR_MMAP;
}

struct shmd_nic *conf_nic_open(struct shmd_client *client, unsigned int nic)
{
	static struct shmd_nic_info infos[MAX_NICS];
	struct shmd_nic_attr attr = {.doorbell = doorbell_mode()};
	struct shmd_nic *opened;
	int n = shmd_nic_list(client, infos, MAX_NICS);

	ASSERT_GT(n, 0);
	ASSERT_LE(n, MAX_NICS);
	attr.nic = infos[nic % (unsigned int)n].name;
	if (shmd_nic_open(client, &attr, &opened) < 0)
		test_fail(TEST_WHERE, "shmd_nic_open %s: %s", attr.nic, shmd_error_text());
	return opened;
}

/* ---- queues -------------------------------------------------------------------------------------------------- */

static void qp_init(struct conf_side *side, unsigned int i, bool collapsed)
{
	struct conf_qp *qp = &side->qps[i];

	qp->side = side;
	qp->index = i;
	qp->collapsed = collapsed;
	qp->dev = shmd_queues_dev_qp(side->queues, i);
	ASSERT(qp->dev);
	ASSERT_EQ(!!(qp->dev->flags & SHMD_QP_CQ_COLLAPSED), collapsed);
	ASSERT_OK(shmd_queues_recv_cq(side->queues, i, &qp->rcq));
	qp->slot_wqebbs = calloc(qp->dev->sq_wqebbs, 1);
	ASSERT(qp->slot_wqebbs);
}

static struct shmd_queues_attr queues_attr(const struct conf_attr *attr, uint32_t access)
{
	return (struct shmd_queues_attr){
		.n_qps = attr->n_qps ? attr->n_qps : 1,
		.sq_wqebbs = attr->sq_wqebbs ? attr->sq_wqebbs : DEFAULT_SQ_WQEBBS,
		.rq_wqes = attr->rq_wqes,
		.rq_stride_bytes =
			attr->rq_stride_bytes ? attr->rq_stride_bytes : DEFAULT_RQ_STRIDE,
		.cq_mode = attr->ordinary_cq ? SHMD_CQ_MODE_ORDINARY : SHMD_CQ_MODE_COLLAPSED,
		.sharing = SHMD_SHARING_EXCLUSIVE,
		.access = access,
		.gpu_driven = attr->gpu_driven,
	};
}

static void bring_queue_mem(struct conf_side *side, struct shmd_queues_attr *q)
{
	uint64_t bytes;

	ASSERT_OK(shmd_queues_layout(side->nic, q, &bytes));
	ASSERT_EQ(bytes % 4096, 0);
	ASSERT_OK(shmd_mem_alloc(side->client, bytes + 4096, &side->queue_mem));
	q->mem_kind = SHMD_MEM_MEMFD;
	q->mem_fd = shmd_mem_fd(side->queue_mem);
	q->mem_offset = 4096;
	q->mem_bytes = bytes;
}

static void queues_open(struct conf_side *side, const struct conf_attr *attr, uint32_t access)
{
	struct shmd_queues_attr q = queues_attr(attr, access);

	if (attr->own_queue_mem)
		bring_queue_mem(side, &q);
	if (shmd_queues_create(side->nic, &q, &side->queues) < 0)
		test_fail(TEST_WHERE, "shmd_queues_create: %s", shmd_error_text());
	side->n_qps = q.n_qps;
	ASSERT_EQ(shmd_queues_count(side->queues), q.n_qps);
	side->qps = calloc(q.n_qps, sizeof(*side->qps));
	ASSERT(side->qps);
	for (unsigned int i = 0; i < q.n_qps; i++)
		qp_init(side, i, !attr->ordinary_cq);
}

static void side_open(struct conf_side *side, const struct conf_attr *attr, struct conf_side *host)
{
	unsigned int nic = host && attr->two_nics ? 1 : 0;
	uint32_t mr_access = host && attr->mr_access ? attr->mr_access : SHMD_ACCESS_ALL;

	side->is_guest = host && attr->one_session;
	side->shares_nic = side->is_guest && nic == 0;
	side->client = side->is_guest ? host->client : conf_client_open();
	side->nic = side->shares_nic ? host->nic : conf_nic_open(side->client, nic);
	conf_mem_open(side, &side->mem, attr->mem_bytes ? attr->mem_bytes : DEFAULT_MEM_BYTES,
		      mr_access);
	queues_open(side, attr, host ? attr->qp_access : 0);
}

void conf_side_close(struct conf_side *side)
{
	if (!side->client)
		return;
	for (unsigned int i = 0; i < side->n_qps; i++)
		free(side->qps[i].slot_wqebbs);
	free(side->qps);
	ASSERT_OK(shmd_queues_destroy(side->queues));
	shmd_mem_free(side->queue_mem);
	conf_mem_close(&side->mem);
	if (!side->shares_nic)
		ASSERT_OK(shmd_nic_close(side->nic));
	if (!side->is_guest)
		shmd_client_close(side->client);
	memset(side, 0, sizeof(*side));
}

static void connect_side(const struct conf_side *from, const struct conf_side *to,
			 const struct shmd_qp_params *params)
{
	_Static_assert(sizeof(struct shmd_addr) < 128, "an array of addresses is small");
	struct shmd_addr *addrs = calloc(to->n_qps, sizeof(*addrs));
	unsigned int n_done = 0;

	ASSERT(addrs);
	for (unsigned int i = 0; i < to->n_qps; i++)
		ASSERT_OK(shmd_queues_addr(to->queues, i, &addrs[i]));
	if (shmd_queues_connect(from->queues, 0, from->n_qps, addrs, params, &n_done) < 0)
		test_fail(TEST_WHERE, "shmd_queues_connect: %s", shmd_error_text());
	ASSERT_EQ(n_done, from->n_qps);
	free(addrs);
}

void conf_connect(struct conf *c)
{
	connect_side(&c->tgt, &c->ini, c->params);
	connect_side(&c->ini, &c->tgt, c->params);
}

static void find_backend(struct conf *c)
{
	struct shmd_nic_info info;

	ASSERT_OK(shmd_nic_info(c->ini.nic, &info));
	c->backend = conf_backend_find(info.backend);
}

void conf_open(struct conf *c, const struct conf_attr *attr)
{
	static const struct conf_attr defaults;

	memset(c, 0, sizeof(*c));
	attr = attr ? attr : &defaults;
	c->params = attr->params ? attr->params : &patient;
	conf_daemon_start();
	side_open(&c->ini, attr, NULL);
	side_open(&c->tgt, attr, &c->ini);
	find_backend(c);
	c->a = c->ini.qps;
	c->b = c->tgt.qps;
	for (unsigned int i = 0; i < c->ini.n_qps; i++) {
		c->a[i].peer = &c->b[i];
		c->b[i].peer = &c->a[i];
	}
	if (!attr->unconnected)
		conf_connect(c);
}

/* A retry although nothing can be lost means that no acknowledgement was requested: milliseconds of waiting. */
void conf_port_set(struct conf *c, const struct conf_side *side, bool up)
{
	struct shmd_client_attr attr = {.socket_path = conf_daemon_socket(), .role = SHMD_ROLE_CONTROL};
	struct shmd_client *client;
	struct shmd_nic_info info;

	c->lossy = true;
	ASSERT_OK(shmd_nic_info(side->nic, &info));
	ASSERT_OK(shmd_client_open(&attr, &client));
	ASSERT_OK(shmd_admin_port_set(client, info.name, up));
	shmd_client_close(client);
}

static void check_retries(const struct conf *c, const struct conf_side *side)
{
	for (unsigned int i = 0; i < side->n_qps && (c->backend->features & CONF_F_LOSSLESS) && !c->lossy; i++) {
		struct shmd_qp_info info = conf_query(&side->qps[i]);

		if (info.state == SHMD_QP_RTS && info.counters.retries)
			test_fail(TEST_WHERE, "QP %u of a side retried %llu times", i,
				  (unsigned long long)info.counters.retries);
	}
}

void conf_close(struct conf *c)
{
	check_retries(c, &c->ini);
	check_retries(c, &c->tgt);
	conf_side_close(&c->tgt);
	conf_side_close(&c->ini);
	conf_daemon_stop();
}

void conf_each_variant(void (*fn)(struct conf *c, size_t arg), size_t arg,
		       const struct conf_attr *attr)
{
	for (int variant = 0; variant < 2; variant++) {
		struct conf_attr with = attr ? *attr : (struct conf_attr){0};
		struct conf c;

		with.two_nics = variant == 1;
		with.ordinary_cq |= variant == 1;
		conf_open(&c, &with);
		fn(&c, arg);
		conf_close(&c);
	}
}

/* ---- state ------------------------------------------------------------------------------------------------------- */

static void forget_rings(struct conf_qp *qp)
{
	struct shmd_cqe *entry = (void *)(uintptr_t)qp->dev->cq_addr;
	struct conf_cqe cqe;

	if (qp->collapsed)
		memset(entry, 0xff, sizeof(*entry));
	else
		while (conf_poll(qp, &cqe))
			;
	while (qp->dev->rq_wqes && conf_poll_recv(qp, &cqe))
		;
	*(uint32_t *)(uintptr_t)qp->dev->cq_dbrec_addr = htobe32(qp->cq_ci & 0xffffff);
	*(uint32_t *)(uintptr_t)qp->dev->sq_dbrec_addr = 0;
	if (qp->dev->rq_dbrec_addr)
		*(uint32_t *)(uintptr_t)qp->dev->rq_dbrec_addr = 0;
	qp->sq_pi = qp->sq_ci = 0;
	qp->rq_pi = qp->rq_ci = 0;
}

void conf_modify(struct conf_qp *qp, enum shmd_qp_state state)
{
	if (shmd_queues_modify(qp->side->queues, qp->index, state) < 0)
		test_fail(TEST_WHERE, "shmd_queues_modify to %d: %s", state, shmd_error_text());
	if (state == SHMD_QP_RST)
		forget_rings(qp);
}

struct shmd_qp_info conf_query(struct conf_qp *qp)
{
	struct shmd_qp_info info;

	ASSERT_OK(shmd_queues_query(qp->side->queues, qp->index, &info));
	return info;
}
