/* SPDX-License-Identifier: Apache-2.0 */
/*
 * News for the control thread: the port and the device by the NIC's own context, queues by an event channel of each
 * session's context. One epoll set is what the daemon watches.
 *
 * A QP that fails as a responder tells so by an event of its own, a requester's error by an event of its armed CQ.
 *
 * Control thread.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <endian.h>
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/doorbell.h>

#include "proto/base/assert.h"

/* PRM, event types (Linux: include/linux/mlx5/device.h, MLX5_EVENT_TYPE_*). */
#define EVENT_COMPLETION 0x00
#define EVENT_CQ_ERROR 0x04
#define EVENT_WQ_CATASTROPHIC 0x05
#define EVENT_WQ_INVALID_REQUEST 0x10
#define EVENT_WQ_ACCESS 0x11

/* Event queue entry: type at byte 1 (PRM, struct mlx5_eqe of Linux). */
#define EQE_BYTES 64u
#define EQE_TYPE 1u

/* What a subscription's cookie says: the kind of queue above its number. */
#define COOKIE_CQ (1ull << 32)

int mlx5_events_watch(struct mlx5_nic *nic, int fd, void *what)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = what};

	return epoll_ctl(nic->base.event_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

void mlx5_events_unwatch(struct mlx5_nic *nic, int fd)
{
	epoll_ctl(nic->base.event_fd, EPOLL_CTL_DEL, fd, NULL);
}

/* ---- armed CQs ---------------------------------------------------------------------------------------------------- */

/*
 * A requester's error is a CQE and no event of the QP's. But a CQ that is armed for solicited CQEs tells of each error CQE
 * too, and of nothing else while the client asks for no solicited ones: so each CQ is armed that way. A client that has
 * many solicited CQEs is left alone after a while; its errors are told when it asks for the QP's state.
 */
#define MOST_IDLE_EVENTS 64u

/* Arm word of a CQ's dbrec and of the arm register: sequence 29:28, solicited only 24, consumer index 23:0 (PRM). */
#define ARM_SN_SHIFT 28
#define ARM_SOLICITED_ONLY 0x01000000u
#define ARM_CI_MASK 0xffffffu

static const struct nic_cq *cq_desc(const struct mlx5_cq *cq)
{
	return &cq->queues->base.layout.cqs[cq - cq->queues->cqs];
}

static void arm(struct mlx5_ctx *ctx, struct mlx5_cq *cq)
{
	struct shmd_dbrec *dbrec;
	uint32_t word;

	if (!cq->queues->map || cq->n_idle_events > MOST_IDLE_EVENTS)
		return;
	dbrec = (struct shmd_dbrec *)(void *)(cq->queues->map + cq_desc(cq)->dbrec_offset);
	word = (++cq->arm_sn & 3) << ARM_SN_SHIFT | ARM_SOLICITED_ONLY |
	       (cq->seen_ci & ARM_CI_MASK);
	__atomic_store_n(&dbrec->snd, htobe32(word), __ATOMIC_RELEASE);
	__sync_synchronize();
	__atomic_store_n(
		(uint64_t *)(void *)(ctx->uar->base_addr + SHMD_DB_CQ_ARM_OFFSET),
		htobe64((uint64_t)word << 32 | cq->cqn), __ATOMIC_RELEASE);
}

/* Of one session: while others have their turn after this one, and before its own question is answered. */
#define EVENTS_OF_TURN 64u
#define EVENTS_OF_QUESTION 4096u

/* ---- queues ------------------------------------------------------------------------------------------------------ */

static int subscribe(struct mlx5_ctx *ctx, struct mlx5_object *obj, uint16_t *types,
		     uint16_t bytes, uint64_t cookie)
{
	int err = mlx5_object_subscribe(obj, ctx->events, types, bytes, cookie);

	return err ? mlx5_errno(err) : 0;
}

int mlx5_events_subscribe_qp(struct mlx5_ctx *ctx, struct mlx5_qp *qp)
{
	uint16_t types[] = {EVENT_WQ_CATASTROPHIC, EVENT_WQ_INVALID_REQUEST, EVENT_WQ_ACCESS};

	return subscribe(ctx, qp->obj, types, sizeof(types), qp->desc->qpn);
}

int mlx5_events_subscribe_cq(struct mlx5_ctx *ctx, struct mlx5_cq *cq)
{
	uint16_t types[] = {EVENT_COMPLETION, EVENT_CQ_ERROR};
	int r = subscribe(ctx, cq->obj, types, sizeof(types), COOKIE_CQ | cq->cqn);

	if (r == 0)
		arm(ctx, cq);
	return r;
}

/* In the words of a responder's CQEs, so that clients have one table to look at. */
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

/* True: that is news. */
static bool qp_failed(struct mlx5_ctx *ctx, struct mlx5_qp *qp, uint32_t syndrome)
{
	if (!qp || qp->event_told)
		return false;
	qp->event_told = true;
	mlx5_qp_tell_error(qp, syndrome);
	list_add_tail(&ctx->failed_qps, &qp->news_link);
	return true;
}

/* Armed first and looked at then: what comes in between is told by the next event. Oldest first: causes before flushes. */
static bool look_at(struct mlx5_ctx *ctx, struct mlx5_cq *cq)
{
	uint64_t end = 0, n;
	bool news = false;

	arm(ctx, cq);
	for (n = mlx5_cq_look(ctx, cq, &end); n > 0; n--) {
		uint32_t qpn, syndrome = mlx5_cq_error_at(cq, end - n, &qpn);

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
		return; /* gone since */
	if (type == EVENT_COMPLETION) {
		/* The client can arm it too, as often as it likes. */
		if (cq->n_idle_events <= MOST_IDLE_EVENTS)
			cq->n_idle_events = look_at(ctx, cq) ? 0 : cq->n_idle_events + 1;
	} else if (!cq->failed) {
		cq->failed = true;
		list_add_tail(&ctx->failed_cqs, &cq->news_link);
	}
}

static bool is_empty(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* The kernel had no memory for some events: that is told in their place, and the channel goes on. */
static bool is_overflow(ssize_t n)
{
	return n < 0 && errno == EOVERFLOW;
}

/*
 * At most so many events: a client that arms its CQs itself makes new ones as fast as they are read. What is left wakes the
 * daemon again. False: the channel has ended.
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

static bool has_news(const struct mlx5_ctx *ctx)
{
	return !list_empty(&ctx->failed_qps) || !list_empty(&ctx->failed_cqs);
}

/* What was read and is not told yet must wake the daemon. */
static void tell_more(struct mlx5_ctx *ctx)
{
	uint64_t one = 1;

	if (has_news(ctx) && write(ctx->nic->more_fd, &one, sizeof(one)) < 0)
		assert_bug(errno == EAGAIN);
}

void mlx5_events_read(struct mlx5_ctx *ctx)
{
	read_channel(ctx, EVENTS_OF_QUESTION);
	tell_more(ctx);
}

/* The NIC writes nothing more of that life, so what it wrote is read up to here and does not count in the next one. */
void mlx5_events_settle(struct mlx5_ctx *ctx, struct mlx5_qp *qp)
{
	read_channel(ctx, EVENTS_OF_QUESTION);
	look_at(ctx, qp->send_cq);
	if (qp->recv_cq != qp->send_cq)
		look_at(ctx, qp->recv_cq);
	list_del(&qp->news_link);
	qp->event_told = false;
	mlx5_qp_tell_error(qp, 0);
	tell_more(ctx);
}

void mlx5_events_qp_failed(struct mlx5_ctx *ctx, struct mlx5_qp *qp)
{
	qp_failed(ctx, qp, qp->first_error);
	tell_more(ctx);
}

static bool take_news(struct mlx5_ctx *ctx, struct nic_event *ret_event)
{
	struct mlx5_qp *qp;
	struct mlx5_cq *cq;

	*ret_event = (struct nic_event){.session_id = ctx->base.session_id};
	if (!list_empty(&ctx->failed_qps)) {
		qp = list_first_entry(&ctx->failed_qps, struct mlx5_qp, news_link);
		list_del(&qp->news_link);
		ret_event->kind = NIC_EVENT_QP_ERROR;
		ret_event->number = qp->desc->qpn;
		ret_event->syndrome = qp->first_error;
	} else if (!list_empty(&ctx->failed_cqs)) {
		cq = list_first_entry(&ctx->failed_cqs, struct mlx5_cq, news_link);
		list_del(&cq->news_link);
		ret_event->kind = NIC_EVENT_CQ_ERROR;
		ret_event->number = cq->cqn;
	} else {
		return false;
	}
	tell_more(ctx);
	return true;
}

/* True once; what ends first tells it: a channel of a session or the NIC's own. */
static bool lost_event(struct mlx5_nic *nic, struct nic_event *ret_event)
{
	*ret_event = (struct nic_event){.kind = NIC_EVENT_LOST, .state = NIC_PORT_LOST};
	if (nic->lost)
		return false;
	nic->lost = true;
	mlx5_return_wait(nic, true);
	return true;
}

static int next_of_ctx(struct mlx5_ctx *ctx, struct nic_event *ret_event)
{
	if (read_channel(ctx, EVENTS_OF_TURN))
		return take_news(ctx, ret_event) ? 0 : -EAGAIN;
	/* Its end stays readable: nobody looks at it any more. */
	mlx5_events_unwatch(ctx->nic, ctx->events->fd);
	/* One that is read late tells nothing of a NIC that has returned since. */
	return ctx->life == ctx->nic->life && lost_event(ctx->nic, ret_event) ? 0 : -EAGAIN;
}

/* ---- the NIC ----------------------------------------------------------------------------------------------------- */

/* False: none of ours. */
static bool nic_event(struct mlx5_nic *nic, const struct ibv_async_event *async,
		      struct nic_event *ret_event)
{
	switch (async->event_type) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
		if (async->element.port_num != nic->port.number)
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
		mlx5_port_readdress(nic);
		return false;
	default:
		return false;
	}
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

/* News that were read outside of here: by a question for a QP's state, or with others before. */
static int next_of_more(struct mlx5_nic *nic, struct nic_event *ret_event)
{
	struct mlx5_ctx *ctx;
	uint64_t count;

	if (read(nic->more_fd, &count, sizeof(count)) < 0)
		return -EAGAIN;
	list_for_each_entry (ctx, &nic->ctxs, link)
		if (take_news(ctx, ret_event)) {
			/* Others may have some, too. */
			count = 1;
			if (write(nic->more_fd, &count, sizeof(count)) < 0)
				assert_bug(errno == EAGAIN);
			return 0;
		}
	return -EAGAIN;
}

#define READY_MAX 16

int mlx5_next_event(struct nic *base, struct nic_event *ret_event)
{
	struct mlx5_nic *nic = mlx5_nic(base);
	struct epoll_event ready[READY_MAX];
	int n = epoll_wait(nic->base.event_fd, ready, READY_MAX, 0);

	for (int i = 0; i < n; i++) {
		void *what = ready[i].data.ptr;
		int r = what == nic		  ? next_of_nic(nic, ret_event)
			: what == &nic->more_fd	  ? next_of_more(nic, ret_event)
			: what == &nic->return_fd ? mlx5_return_look(nic, ret_event)
						  : next_of_ctx(what, ret_event);

		if (r == 0)
			return 0;
	}
	return -EAGAIN;
}
