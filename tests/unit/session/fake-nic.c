/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/session/fake-nic-private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

static void append(struct fake_nic *fake, const char *what)
{
	size_t used = strlen(fake->log);

	snprintf(fake->log + used, sizeof(fake->log) - used, "%s ", what);
}

/* *count, if any, is one of what is alive. */
static void note(struct fake_nic *fake, const char *what, unsigned int *count, int more)
{
	pthread_mutex_lock(&fake->lock);
	append(fake, what);
	if (count)
		*count += (unsigned int)more;
	pthread_mutex_unlock(&fake->lock);
}

/* Counts the call; the error when this is the one that fails. */
static int call(struct fake_nic *fake, const char *what, unsigned int *count)
{
	int r = 0;

	pthread_mutex_lock(&fake->lock);
	if (++fake->n_calls == fake->fail_at)
		r = fake->fail_err;
	else
		append(fake, what);
	if (r == 0 && count)
		++*count;
	pthread_mutex_unlock(&fake->lock);
	return r;
}

static uint32_t new_number(struct fake_nic *fake)
{
	return __atomic_add_fetch(&fake->last_number, 1, __ATOMIC_RELAXED);
}

static struct nic *fake_close(struct nic *nic)
{
	return NULL;
}

static int fake_query(struct nic *nic, struct nic_info *ret_info)
{
	*ret_info = fake_of(nic)->info;
	fake_of(nic)->n_queries++;
	return 0;
}

static int fake_counters(struct nic *nic, struct nic_counters *ret_counters)
{
	*ret_counters = (struct nic_counters){.wqes = fake_of(nic)->wqes};
	return 0;
}

static int fake_next_event(struct nic *nic, struct nic_event *ret_event)
{
	struct fake_nic *fake = fake_of(nic);

	if (!fake->has_event)
		return -EAGAIN;
	*ret_event = fake->event;
	fake->has_event = false;
	return 0;
}

static int fake_port_set(struct nic *nic, enum nic_port_state state)
{
	struct fake_nic *fake = fake_of(nic);
	int r = call(fake, "port", NULL);

	if (r == 0)
		fake->port_set = state;
	return r;
}

static int fake_ctx_open(struct nic *nic, const struct nic_ctx_attr *attr, struct nic_ctx **ret_ctx)
{
	struct fake_nic *fake = fake_of(nic);
	struct fake_ctx *ctx;
	int r;

	if (attr->doorbell == NIC_DOORBELL_UAR_MMAP && !fake->has_uar)
		return -EOPNOTSUPP;
	r = call(fake, "open", &fake->n_ctxs);
	if (r < 0)
		return r;
	ctx = calloc(1, sizeof(*ctx));
	list_init(&ctx->qps);
	list_init(&ctx->mrs);
	list_init(&ctx->queues);
	ctx->is_saved = attr->is_saved;
	ctx->base = (struct nic_ctx){
		.nic = nic,
		.session_id = attr->session_id,
		.doorbell = {
			.mode = NIC_DOORBELL_CPU,
			.page_fd = memfd_create("fake-page", MFD_CLOEXEC),
			.register_offset = 0x800,
			.nic_page_fd = -1,
			.wake_fd = -1,
			.reason = "it is a fake",
		},
	};
	if (fake->has_uar && attr->doorbell != NIC_DOORBELL_CPU) {
		ctx->base.doorbell.mode = NIC_DOORBELL_UAR_MMAP;
		ctx->base.doorbell.reason[0] = 0;
		ctx->base.client_pd = 1;
	}
	*ret_ctx = &ctx->base;
	return 0;
}

static int fake_ctx_to_cpu(struct nic_ctx *ctx)
{
	int r = call(fake_of(ctx->nic), "to-cpu", NULL);

	if (r == 0)
		ctx->doorbell.mode = NIC_DOORBELL_CPU;
	return r;
}

static int fake_agent_attach(struct nic_ctx *ctx, int ring_fd, int wake_fd)
{
	return call(fake_of(ctx->nic), "attach", NULL);
}

static struct nic_ctx *fake_ctx_close(struct nic_ctx *base)
{
	struct fake_ctx *ctx = container_of(base, struct fake_ctx, base);
	struct fake_nic *fake = fake_of(base->nic);

	assert_bug(list_empty(&ctx->qps) && list_empty(&ctx->mrs) && list_empty(&ctx->queues));
	note(fake, "close", &fake->n_ctxs, -1);
	safe_close(base->doorbell.page_fd);
	free(ctx);
	return NULL;
}

static int fake_mr_reg(struct nic_ctx *ctx, const struct nic_mr_attr *attr, struct nic_mr **ret_mr)
{
	struct fake_nic *fake = fake_of(ctx->nic);
	struct fake_mr *mr;
	int r;

	/* The kernel knows no such region. */
	if (attr->kind == NIC_MEM_PEERMEM && attr->handle == FAKE_NO_REGION)
		return -ENOENT;
	r = call(fake, "reg", &fake->n_mrs);
	if (r < 0)
		return r;
	mr = calloc(1, sizeof(*mr));
	mr->base = (struct nic_mr){
		.ctx = ctx, .lkey = 0x1000, .rkey = 0x2000, .length_bytes = attr->length_bytes};
	list_add_tail(&container_of(ctx, struct fake_ctx, base)->mrs, &mr->link);
	*ret_mr = &mr->base;
	return 0;
}

static struct nic_mr *fake_mr_dereg(struct nic_mr *base)
{
	struct fake_mr *mr = container_of(base, struct fake_mr, base);
	struct fake_nic *fake = fake_of(base->ctx->nic);

	note(fake, "dereg", &fake->n_mrs, -1);
	list_del(&mr->link);
	free(mr);
	return NULL;
}

static uint32_t cqn_of(const struct nic_layout *layout, uint32_t cqn)
{
	return cqn & NIC_CQ_BY_INDEX ? layout->cqs[cqn & ~NIC_CQ_BY_INDEX].cqn : cqn;
}

static int fake_queues_create(struct nic_ctx *base, const struct nic_queue_mem *mem,
			      struct nic_layout *layout, struct nic_queues **ret_queues)
{
	struct fake_ctx *ctx = container_of(base, struct fake_ctx, base);
	struct fake_nic *fake = fake_of(base->nic);
	struct fake_queues *fake_queues;
	struct nic_queues *queues;
	int r = call(fake, "create", &fake->n_queues);

	if (r < 0)
		return r;
	fake_queues = calloc(1, sizeof(*fake_queues));
	fake_queues->fd = fcntl(mem->fd, F_DUPFD_CLOEXEC, 3);
	fake_queues->offset = mem->offset;
	queues = &fake_queues->base;
	queues->ctx = base;
	queues->layout = *layout;
	memset(layout, 0, sizeof(*layout));
	for (uint32_t i = 0; i < queues->layout.n_cqs; i++)
		queues->layout.cqs[i].cqn = new_number(fake);
	for (uint32_t i = 0; i < queues->layout.n_qps; i++) {
		struct nic_qp *desc = &queues->layout.qps[i];
		struct fake_qp *qp = calloc(1, sizeof(*qp));

		qp->qpn = desc->qpn = new_number(fake);
		desc->send_cqn = cqn_of(&queues->layout, desc->send_cqn);
		desc->recv_cqn = cqn_of(&queues->layout, desc->recv_cqn);
		desc->addr = (struct nic_addr){
			.link = NIC_LINK_ETHERNET, .qp_type = (uint8_t)desc->type, .mtu_log2 = 12, .qpn = qp->qpn};
		list_add_tail(&ctx->qps, &qp->link);
	}
	list_add_tail(&ctx->queues, &fake_queues->link);
	*ret_queues = queues;
	return 0;
}

static struct fake_qp *find_qp(struct nic_ctx *base, uint32_t qpn)
{
	struct fake_ctx *ctx = container_of(base, struct fake_ctx, base);
	struct fake_qp *qp;

	list_for_each_entry(qp, &ctx->qps, link)
		if (qp->qpn == qpn)
			return qp;
	return NULL;
}

static int fake_queues_destroy(struct nic_queues *queues)
{
	struct fake_queues *fake_queues = container_of(queues, struct fake_queues, base);
	struct fake_nic *fake = fake_of(queues->ctx->nic);

	for (uint32_t i = 0; i < queues->layout.n_qps; i++) {
		struct fake_qp *qp = find_qp(queues->ctx, queues->layout.qps[i].qpn);

		list_del(&qp->link);
		free(qp);
	}
	note(fake, "destroy", &fake->n_queues, -1);
	list_del(&fake_queues->link);
	nic_layout_deinit(&queues->layout);
	safe_close(fake_queues->fd);
	free(fake_queues);
	return 0;
}

static int fake_queues_read(struct nic_queues *queues, uint64_t offset, void *buf, size_t bytes)
{
	struct fake_queues *fake_queues = container_of(queues, struct fake_queues, base);
	off_t at = (off_t)(fake_queues->offset + offset);
	int r = call(fake_of(queues->ctx->nic), "read", NULL);

	if (r < 0)
		return r;
	if (offset + bytes > queues->layout.total_bytes)
		return -ERANGE;
	return pread(fake_queues->fd, buf, bytes, at) == (ssize_t)bytes ? 0 : -EIO;
}

static int fake_connect(struct nic_ctx *ctx, unsigned int n, const struct nic_peer *peers,
			const struct nic_qp_params *params, unsigned int *ret_n_done)
{
	int r = call(fake_of(ctx->nic), "connect", NULL);

	fake_of(ctx->nic)->params = *params;
	for (*ret_n_done = 0; r == 0 && *ret_n_done < n; (*ret_n_done)++) {
		struct fake_qp *qp = find_qp(ctx, peers[*ret_n_done].qpn);

		if (qp->state != NIC_QPS_RST)
			return -EINVAL;
		qp->state = NIC_QPS_RTS;
		qp->remote = peers[*ret_n_done].remote;
	}
	return r;
}

/* Addresses with a LID are of elsewhere. */
static int fake_resolve(struct nic_ctx *ctx, unsigned int n, const struct nic_addr *addrs, uint8_t traffic_class,
			struct nic_dc_peer *ret_peers, unsigned int *ret_n_done)
{
	const struct nic_path path = {.udp_sport = 0xc000, .traffic_class = traffic_class};
	int r = call(fake_of(ctx->nic), "resolve", NULL);

	for (*ret_n_done = 0; r == 0 && *ret_n_done < n; (*ret_n_done)++) {
		if (addrs[*ret_n_done].lid)
			return -EHOSTUNREACH;
		nic_dc_peer_init(&ret_peers[*ret_n_done], &addrs[*ret_n_done], &path);
	}
	return r;
}

static int fake_qp_modify(struct nic_ctx *ctx, uint32_t qpn, enum nic_qp_state state)
{
	int r = call(fake_of(ctx->nic), "modify", NULL);

	if (r == 0)
		find_qp(ctx, qpn)->state = state;
	return r;
}

static int fake_qp_query(struct nic_ctx *ctx, uint32_t qpn, struct nic_qp_info *ret_info)
{
	int r = call(fake_of(ctx->nic), "query", NULL);
	struct fake_qp *qp = find_qp(ctx, qpn);
	struct timespec ts = nsec_to_timespec(fake_of(ctx->nic)->query_nsec);

	nanosleep(&ts, NULL);
	if (r == 0)
		*ret_info = (struct nic_qp_info){.state = qp->state, .dest_qpn = qp->remote.qpn};
	return r;
}

static int fake_ctx_counters(struct nic_ctx *ctx, struct nic_counters *ret_counters)
{
	*ret_counters = (struct nic_counters){.wqes = 7, .bytes_sent = 70};
	return 0;
}

static void fake_ctx_look(struct nic_ctx *ctx)
{
	note(fake_of(ctx->nic), "look", NULL, 0);
}

static void fake_ctx_quiesce(struct nic_ctx *ctx, uint64_t timeout_nsec)
{
	struct fake_nic *fake = fake_of(ctx->nic);
	struct timespec ts = nsec_to_timespec(timeout_nsec);

	note(fake, "quiesce", NULL, 0);
	fake->quiesce_nsec += timeout_nsec;
	if (fake->never_flushes)
		nanosleep(&ts, NULL);
}

static int fake_ctx_pool_set(struct nic *nic, const struct nic_ctx_pool_attr *attr)
{
	return -EOPNOTSUPP;
}

static int fake_ctx_pool_query(struct nic *nic, struct nic_ctx_pool_info *ret_info)
{
	return -EOPNOTSUPP;
}

static int fake_ctx_pool_step(struct nic *nic)
{
	return -EAGAIN;
}

static int fake_queues_take(struct nic_ctx *ctx, struct nic_layout *layout, int *ret_fd,
			    struct nic_queues **ret_queues)
{
	return -ENOENT;
}

static const struct nic_ops fake_ops = {
	.close = fake_close,
	.query = fake_query,
	.counters = fake_counters,
	.next_event = fake_next_event,
	.port_set = fake_port_set,
	.ctx_open = fake_ctx_open,
	.ctx_close = fake_ctx_close,
	.ctx_to_cpu = fake_ctx_to_cpu,
	.agent_attach = fake_agent_attach,
	.mr_reg = fake_mr_reg,
	.mr_dereg = fake_mr_dereg,
	.queues_create = fake_queues_create,
	.queues_destroy = fake_queues_destroy,
	.connect = fake_connect,
	.resolve = fake_resolve,
	.qp_modify = fake_qp_modify,
	.qp_query = fake_qp_query,
	.queues_read = fake_queues_read,
	.ctx_counters = fake_ctx_counters,
	.ctx_look = fake_ctx_look,
	.ctx_quiesce = fake_ctx_quiesce,
	.ctx_export = fake_ctx_export,
	.mr_export = fake_mr_export,
	.queues_export = fake_queues_export,
	.ctx_saved_fds = fake_ctx_saved_fds,
	.ctx_import = fake_ctx_import,
	.ctx_unimport = fake_ctx_unimport,
	.resume = fake_resume,
	.rest = nic_no_rest,
	.ctx_pool_set = fake_ctx_pool_set,
	.ctx_pool_query = fake_ctx_pool_query,
	.ctx_pool_step = fake_ctx_pool_step,
	.queues_take = fake_queues_take,
};

void fake_nic_init(struct fake_nic *fake, const char *name)
{
	memset(fake, 0, sizeof(*fake));
	pthread_mutex_init(&fake->lock, NULL);
	fake->base.ops = &fake_ops;
	fake->base.records_states = true;
	fake->base.event_fd = -1;
	list_init(&fake->base.link);
	snprintf(fake->base.name, sizeof(fake->base.name), "%s", name);
	fake->info = (struct nic_info){
		.backend = "fake",
		.port = 1,
		.link = NIC_LINK_ETHERNET,
		.state = NIC_PORT_ACTIVE,
		.mtu_bytes = 4096,
		.max_qps = 65536,
		.max_log2_sq_wqebbs = 12,
		.max_log2_cq_entries = 16,
		.accepted_kinds = {NIC_MEM_MEMFD, NIC_MEM_AGENT},
		.atomics = NIC_ATOMIC_8 | NIC_ATOMIC_MASKED_4 | NIC_ATOMIC_MASKED_8,
		.atomics_dc = NIC_ATOMIC_8,
		.doorbell_cpu = true,
	};
	snprintf(fake->info.name, sizeof(fake->info.name), "%s", name);
}
