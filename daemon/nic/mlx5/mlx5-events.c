/* SPDX-License-Identifier: Apache-2.0 */
/*
 * News for the control thread: the port and the device by the NIC's own context, queues by an event channel of each
 * session's context. One epoll set is what the daemon watches.
 *
 * A QP that fails as a responder tells so by an event. A requester's error is a CQE, which the client polls.
 *
 * Control thread.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <shmd/abi/cqe.h>

/* PRM, event types (Linux: include/linux/mlx5/device.h, MLX5_EVENT_TYPE_*). */
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

/* ---- queues ------------------------------------------------------------------------------------------------------ */

static int subscribe(struct mlx5_ctx *ctx, struct mlx5dv_devx_obj *obj, uint16_t *types, uint16_t bytes,
		     uint64_t cookie)
{
	int err = mlx5dv_devx_subscribe_devx_event(ctx->events, obj, bytes, types, cookie);

	return err ? mlx5_errno(err) : 0;
}

int mlx5_events_subscribe_qp(struct mlx5_ctx *ctx, struct mlx5_qp *qp)
{
	uint16_t types[] = {EVENT_WQ_CATASTROPHIC, EVENT_WQ_INVALID_REQUEST, EVENT_WQ_ACCESS};

	return subscribe(ctx, qp->obj, types, sizeof(types), qp->desc->qpn);
}

int mlx5_events_subscribe_cq(struct mlx5_ctx *ctx, struct mlx5_cq *cq)
{
	uint16_t types[] = {EVENT_CQ_ERROR};

	return subscribe(ctx, cq->obj, types, sizeof(types), COOKIE_CQ | cq->cqn);
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

/* False: the queue is gone since. */
static bool queue_event(struct mlx5_ctx *ctx, uint64_t cookie, uint8_t type, struct nic_event *ret_event)
{
	struct mlx5_qp *qp;

	*ret_event = (struct nic_event){
		.kind = cookie & COOKIE_CQ ? NIC_EVENT_CQ_ERROR : NIC_EVENT_QP_ERROR,
		.session_id = ctx->base.session_id,
		.number = (uint32_t)cookie,
	};
	if (cookie & COOKIE_CQ)
		return hash_get(&ctx->cqs, (uint32_t)cookie);
	qp = hash_get(&ctx->qps, cookie);
	if (!qp)
		return false;
	ret_event->syndrome = syndrome_of(type);
	mlx5_qp_tell_error(qp, ret_event->syndrome);
	return true;
}

/* True once; what ends first tells it: a channel of a session or the NIC's own. */
static bool lost_event(struct mlx5_nic *nic, struct nic_event *ret_event)
{
	*ret_event = (struct nic_event){.kind = NIC_EVENT_LOST, .state = NIC_PORT_LOST};
	if (nic->lost)
		return false;
	nic->lost = true;
	return true;
}

static bool is_empty(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static int next_of_ctx(struct mlx5_ctx *ctx, struct nic_event *ret_event)
{
	union {
		struct mlx5dv_devx_async_event_hdr hdr;
		uint8_t bytes[sizeof(struct mlx5dv_devx_async_event_hdr) + EQE_BYTES];
	} event;

	for (;;) {
		ssize_t n = mlx5dv_devx_get_event(ctx->events, &event.hdr, sizeof(event));

		if (is_empty(n))
			return -EAGAIN;
		if (n < (ssize_t)sizeof(event)) {
			/* Its end stays readable: nobody looks at it any more. */
			mlx5_events_unwatch(ctx->nic, ctx->events->fd);
			return lost_event(ctx->nic, ret_event) ? 0 : -EAGAIN;
		}
		if (queue_event(ctx, event.hdr.cookie, event.hdr.out_data[EQE_TYPE], ret_event))
			return 0;
	}
}

/* ---- the NIC ----------------------------------------------------------------------------------------------------- */

/* False: none of ours. */
static bool nic_event(struct mlx5_nic *nic, const struct ibv_async_event *async, struct nic_event *ret_event)
{
	switch (async->event_type) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
		if (async->element.port_num != nic->port.number)
			return false;
		*ret_event = (struct nic_event){
			.kind = NIC_EVENT_PORT_STATE,
			.state = async->event_type == IBV_EVENT_PORT_ACTIVE ? NIC_PORT_ACTIVE : NIC_PORT_DOWN,
		};
		return true;
	case IBV_EVENT_DEVICE_FATAL:
		return lost_event(nic, ret_event);
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

#define READY_MAX 16

int mlx5_next_event(struct nic *base, struct nic_event *ret_event)
{
	struct mlx5_nic *nic = mlx5_nic(base);
	struct epoll_event ready[READY_MAX];
	int n = epoll_wait(nic->base.event_fd, ready, READY_MAX, 0);

	for (int i = 0; i < n; i++) {
		int r = ready[i].data.ptr == nic ? next_of_nic(nic, ret_event)
						 : next_of_ctx(ready[i].data.ptr, ret_event);

		if (r == 0)
			return 0;
	}
	return -EAGAIN;
}
