/* SPDX-License-Identifier: Apache-2.0 */
/*
 * News for the control thread: the port and the device by the NIC's own context, queues by an event channel of each
 * session's context. One epoll set is what the daemon watches.
 *
 * A QP that fails as a responder has an event of its own; a requester's error raises an event of its armed CQ. More details
 * take firmware commands. So the control thread only reports that a channel has something, once, and the thread that owns the
 * context reads it (mlx5_ctx_look). Its findings wait in the NIC's list.
 *
 * Control thread: mlx5_next_event(). The others: any thread that owns the context.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <endian.h>
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/doorbell.h>

/* PRM, event types (Linux: include/linux/mlx5/device.h, MLX5_EVENT_TYPE_*). */
#define EVENT_COMPLETION 0x00
#define EVENT_CQ_ERROR 0x04
#define EVENT_WQ_CATASTROPHIC 0x05
#define EVENT_WQ_INVALID_REQUEST 0x10
#define EVENT_WQ_ACCESS 0x11

/* Event queue entry: type at byte 1 (PRM, struct mlx5_eqe of Linux). */
#define EQE_BYTES 64u
#define EQE_TYPE 1u

/* A subscription's cookie: the kind of queue above its number. */
#define COOKIE_CQ (1ull << 32)

/* ---- armed CQs ---------------------------------------------------------------------------------------------------- */

/*
 * A requester's error is a CQE, not an event of the QP. A CQ that is armed for solicited CQEs also raises an event for each
 * error CQE, so each CQ is armed that way. A client with many solicited CQEs of its own gets no reports after a while; it learns
 * of errors when it queries the QP.
 */
#define MOST_IDLE_EVENTS 64u

/* Arm word of a CQ's dbrec and of the arm register: sequence 29:28, solicited only 24, consumer index 23:0 (PRM). */
#define ARM_SN_SHIFT 28
#define ARM_SOLICITED_ONLY 0x01000000u
#define ARM_CI_MASK 0xffffffu

static void arm(struct mlx5_ctx *ctx, struct mlx5_cq *cq)
{
	uint32_t word;

	if (!mlx5_memory_is_there(&cq->queues->memory) || cq->n_idle_events > MOST_IDLE_EVENTS)
		return;
	word = (++cq->arm_sn & 3) << ARM_SN_SHIFT | ARM_SOLICITED_ONLY |
	       (cq->seen_ci & ARM_CI_MASK);
	if (mlx5_memory_store(&cq->queues->memory, mlx5_cq_desc(cq)->dbrec_offset + offsetof(struct shmd_dbrec, snd),
			      htobe32(word)) < 0)
		return;
	__sync_synchronize();
	__atomic_store_n(
		(uint64_t *)(void *)(ctx->uar->base_addr + SHMD_DB_CQ_ARM_OFFSET),
		htobe64((uint64_t)word << 32 | cq->cqn), __ATOMIC_RELEASE);
}

/* The most events of one session in one turn, so that other sessions have theirs; and before a query is answered. */
#define EVENTS_OF_TURN 64u
#define EVENTS_OF_QUESTION 4096u

/* ---- queues ------------------------------------------------------------------------------------------------------ */

int mlx5_events_subscribe_qp(struct mlx5_ctx *ctx, struct mlx5_qp *qp)
{
	uint16_t types[] = {EVENT_WQ_CATASTROPHIC, EVENT_WQ_INVALID_REQUEST, EVENT_WQ_ACCESS};

	return mlx5_object_subscribe(qp->obj, ctx->events, types, sizeof(types), qp->desc->qpn);
}

int mlx5_events_subscribe_cq(struct mlx5_ctx *ctx, struct mlx5_cq *cq)
{
	uint16_t types[] = {EVENT_COMPLETION, EVENT_CQ_ERROR};
	int r = mlx5_object_subscribe(cq->obj, ctx->events, types, sizeof(types), COOKIE_CQ | cq->cqn);

	if (r == 0)
		arm(ctx, cq);
	return r;
}

/* As the syndromes of a responder's CQEs, so that clients have one table. */
static uint32_t syndrome_of(uint8_t type)
{
	switch (type) {
	case EVENT_WQ_ACCESS:
		return SHMD_SYNDROME_LOCAL_ACCESS_ERR;
	case EVENT_WQ_INVALID_REQUEST:
		return SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR;
	default:
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	}
}

/* Returns true if that is news. */
static bool qp_failed(struct mlx5_ctx *ctx, struct mlx5_qp *qp, uint32_t syndrome)
{
	if (!qp || qp->event_told)
		return false;
	qp->event_told = true;
	mlx5_qp_tell_error(qp, syndrome);
	mlx5_news_add(ctx->nic, &qp->news, &(struct nic_event){
		.kind = NIC_EVENT_QP_ERROR,
		.session_id = ctx->base.session_id,
		.number = qp->desc->qpn,
		.syndrome = qp->first_error,
	});
	return true;
}

/* Arms first and reads then, so the next event covers CQEs in between. Oldest first: causes before flushes. */
static bool look_at(struct mlx5_ctx *ctx, struct mlx5_cq *cq)
{
	struct mlx5_cqes cqes;
	uint64_t end = 0, n;
	bool news = false;

	cqes.n = 0;
	arm(ctx, cq);
	for (n = mlx5_cq_look(ctx, cq, cq->seen_ci, &end); n > 0; n--) {
		uint32_t qpn, syndrome = mlx5_cq_error_at(cq, &cqes, end - n, &qpn);

		if (syndrome && syndrome != SHMD_SYNDROME_WR_FLUSH_ERR)
			news |= qp_failed(ctx, hash_get(&ctx->qps, qpn), syndrome);
	}
	if (end)
		cq->seen_ci = (uint32_t)end;
	return news;
}

static void cq_event(struct mlx5_ctx *ctx, struct mlx5_cq *cq, uint8_t type)
{
	if (!cq)
		return; /* destroyed meanwhile */
	if (type == EVENT_COMPLETION) {
		/* The client can arm it too, as often as it likes. */
		if (cq->n_idle_events <= MOST_IDLE_EVENTS)
			cq->n_idle_events = look_at(ctx, cq) ? 0 : cq->n_idle_events + 1;
	} else if (!cq->failed) {
		cq->failed = true;
		mlx5_news_add(ctx->nic, &cq->news, &(struct nic_event){
			.kind = NIC_EVENT_CQ_ERROR, .session_id = ctx->base.session_id, .number = cq->cqn});
	}
}

static bool is_empty(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* The kernel had no memory for some events: the event reports that in their place, and the channel goes on. */
static bool is_overflow(ssize_t n)
{
	return n < 0 && errno == EOVERFLOW;
}

/*
 * Reads at most `most` events: a client that arms its CQs itself can make new ones as fast as they are read. The rest wakes
 * the daemon again. Returns false if the channel has ended.
 */
static bool read_channel(struct mlx5_ctx *ctx, unsigned int most)
{
	union {
		struct mlx5dv_devx_async_event_hdr hdr;
		uint8_t bytes[sizeof(struct mlx5dv_devx_async_event_hdr) + EQE_BYTES];
	} event;
	ssize_t n;

	while (most-- > 0) {
		n = mlx5dv_devx_get_event(ctx->events, &event.hdr, sizeof(event));
		if (n != (ssize_t)sizeof(event))
			return is_empty(n) || is_overflow(n);
		uint8_t type = event.hdr.out_data[EQE_TYPE];
		uint32_t number = (uint32_t)event.hdr.cookie;

		if (event.hdr.cookie & COOKIE_CQ)
			cq_event(ctx, hash_get(&ctx->cqs, number), type);
		else
			qp_failed(ctx, hash_get(&ctx->qps, number), syndrome_of(type));
	}
	return true;
}

void mlx5_events_read(struct mlx5_ctx *ctx)
{
	read_channel(ctx, EVENTS_OF_QUESTION);
}

/* The NIC writes no more CQEs of that life. Reading all of them now keeps them out of the next one. */
void mlx5_events_settle(struct mlx5_ctx *ctx, struct mlx5_qp *qp)
{
	read_channel(ctx, EVENTS_OF_QUESTION);
	look_at(ctx, qp->send_cq);
	if (qp->recv_cq != qp->send_cq)
		look_at(ctx, qp->recv_cq);
	if (qp->first_error)
		mlx5_count_errors(ctx, qp);
	qp->shows_errors = false;
	mlx5_news_drop(ctx->nic, &qp->news);
	qp->event_told = false;
	mlx5_qp_tell_error(qp, 0);
}

void mlx5_events_qp_failed(struct mlx5_ctx *ctx, struct mlx5_qp *qp)
{
	qp_failed(ctx, qp, qp->first_error);
}

void mlx5_ctx_look(struct nic_ctx *base)
{
	struct mlx5_ctx *ctx = mlx5_ctx(base);
	struct mlx5_nic *nic = ctx->nic;

	if (read_channel(ctx, EVENTS_OF_TURN)) {
		mlx5_events_listen(ctx);
		return;
	}
	/* The end stays readable, so the channel is not rearmed. */
	pthread_mutex_lock(&nic->lock);
	/* A channel of a former life says nothing about a NIC that has returned. */
	nic->ended |= ctx->life == nic->life;
	pthread_mutex_unlock(&nic->lock);
	mlx5_events_wake(nic);
}

/* A closed context has no event. */
static int next_of_ctx(struct mlx5_nic *nic, uint64_t key, struct nic_event *ret_event)
{
	struct mlx5_ctx *ctx;
	int r = -EAGAIN;

	pthread_mutex_lock(&nic->lock);
	list_for_each_entry (ctx, &nic->ctxs, link) {
		if (ctx->key != key)
			continue;
		*ret_event = (struct nic_event){.kind = NIC_EVENT_LOOK, .session_id = ctx->base.session_id};
		r = 0;
	}
	pthread_mutex_unlock(&nic->lock);
	return r;
}

/* ---- the NIC ----------------------------------------------------------------------------------------------------- */

/* Returns true once: for the first channel that ends, a session's or the NIC's own. */
static bool lost_event(struct mlx5_nic *nic, struct nic_event *ret_event)
{
	bool told;

	pthread_mutex_lock(&nic->lock);
	told = nic->lost;
	nic->lost = true;
	pthread_mutex_unlock(&nic->lock);
	*ret_event = (struct nic_event){.kind = NIC_EVENT_LOST, .state = NIC_PORT_LOST};
	if (!told)
		mlx5_return_wait(nic, true);
	return !told;
}

/* Returns false for an event that is not ours. */
static bool nic_event(struct mlx5_nic *nic, const struct ibv_async_event *async,
		      struct nic_event *ret_event)
{
	switch (async->event_type) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
		if (async->element.port_num != nic->port.number) /* constant */
			return false;
		*ret_event = (struct nic_event){
			.kind = NIC_EVENT_PORT_STATE,
			.state = async->event_type == IBV_EVENT_PORT_ACTIVE ? NIC_PORT_ACTIVE
									    : NIC_PORT_DOWN,
		};
		return true;
	case IBV_EVENT_DEVICE_FATAL:
		return lost_event(nic, ret_event);
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_LID_CHANGE:
		/* A query, which takes commands, reads them. */
		pthread_mutex_lock(&nic->lock);
		nic->readdress = true;
		pthread_mutex_unlock(&nic->lock);
		*ret_event = (struct nic_event){.kind = NIC_EVENT_LOOK};
		return true;
	default:
		return false;
	}
}

static int next_of_mappers(struct mlx5_nic *nic)
{
	mlx5_memory_hung_up(nic);
	return -EAGAIN;
}

static int next_of_nic(struct mlx5_nic *nic, struct nic_event *ret_event)
{
	struct ibv_async_event async;
	bool ours;

	while (ibv_get_async_event(nic->ibv, &async) == 0) {
		ours = nic_event(nic, &async, ret_event);
		ibv_ack_async_event(&async);
		if (ours)
			return 0;
	}
	if (is_empty(-1))
		return -EAGAIN;
	mlx5_events_unwatch(nic, nic->ibv->async_fd);
	return lost_event(nic, ret_event) ? 0 : -EAGAIN;
}

/* One waiting event at a time; more_fd stays readable while there are more. */
static int next_of_more(struct mlx5_nic *nic, struct nic_event *ret_event)
{
	struct mlx5_news *news = NULL;
	bool more, ended;
	uint64_t count;

	if (read(nic->more_fd, &count, sizeof(count)) < 0)
		return -EAGAIN;
	pthread_mutex_lock(&nic->lock);
	if (!list_empty(&nic->news)) {
		news = list_first_entry(&nic->news, struct mlx5_news, link);
		list_del(&news->link);
		*ret_event = news->event;
	}
	more = !list_empty(&nic->news);
	ended = nic->ended && !nic->lost;
	pthread_mutex_unlock(&nic->lock);
	/* News of a life first, then its end, then the next life. */
	if (more || news || ended)
		mlx5_events_wake(nic);
	if (news || (ended && lost_event(nic, ret_event)))
		return 0;
	return mlx5_return_take(nic, ret_event) ? 0 : -EAGAIN;
}

#define TRIES 16

/* One event at a time: the set reports a context only once. */
int mlx5_next_event(struct nic *base, struct nic_event *ret_event)
{
	struct mlx5_nic *nic = mlx5_nic(base);
	struct epoll_event ready;
	int r = -EAGAIN;

	for (int i = 0; r < 0 && i < TRIES; i++) {
		if (epoll_wait(nic->base.event_fd, &ready, 1, 0) != 1)
			return -EAGAIN;
		r = ready.data.u64 == MLX5_WATCH_NIC	  ? next_of_nic(nic, ret_event)
		    : ready.data.u64 == MLX5_WATCH_MORE	  ? next_of_more(nic, ret_event)
		    : ready.data.u64 == MLX5_WATCH_RETURN ? mlx5_return_look(nic, ret_event)
		    : ready.data.u64 == MLX5_WATCH_MAPPERS ? next_of_mappers(nic)
							  : next_of_ctx(nic, ready.data.u64, ret_event);
	}
	return r;
}
