/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that DEVX subscribes to. A subscription belongs to an object and goes with it, or to the ufile when it is one
 * to its port. The lists are under sim->lock; events are sent by the NICs' thread, which holds it.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#include "proto/base/cleanup.h"
#include "tests/mlx5sim/sim/fw.h"
#include "tests/mlx5sim/sim/sim.h"

#define EVENTS_MAX 16 /* of one call */

struct subscription {
	struct list link;
	struct channel *channel;
	int eventfd; /* notified instead of the channel; -1 none */
	uint16_t type;
	uint64_t cookie;
};

/* An event queue entry as a client reads it, behind its cookie. Offsets: struct mlx5_eqe of the kernel's mlx5 driver. */
struct message {
	uint64_t cookie;
	uint8_t eqe[64];
};
#define EQE_TYPE 1
#define EQE_SUBTYPE 3
#define EQE_DATA 32
#define CQ_ERROR_OVERRUN 1

static bool is_same(const void *event, const void *of)
{
	return memcmp(event, of, sizeof(uint64_t)) == 0;
}

static void deliver(struct subscription *sub, const struct message *message)
{
	struct message copy = *message;
	uint64_t one = 1;

	copy.cookie = sub->cookie;
	if (sub->eventfd >= 0) {
		if (write(sub->eventfd, &one, sizeof(one)) < 0)
			return; /* full: the reader is woken anyhow */
	} else if (sub->channel->omit_data) {
		/* One of a kind is enough, as long as it is unread. */
		channel_withdraw(sub->channel, sizeof(copy.cookie), is_same, &copy.cookie);
		channel_send(sub->channel, &copy.cookie, sizeof(copy.cookie));
	} else {
		channel_send(sub->channel, &copy, sizeof(copy));
	}
}

static void send_all(struct list *subscriptions, uint16_t type, const struct message *message)
{
	struct subscription *sub;

	list_for_each_entry (sub, subscriptions, link) {
		if (sub->type == type)
			deliver(sub, message);
	}
}

void event_send(struct object *object, uint8_t type)
{
	uint32_t number = htobe32(object->number);
	struct message message = {.eqe[EQE_TYPE] = type};
	uint8_t *data = message.eqe + EQE_DATA;

	if (list_empty(&object->subscriptions))
		return;
	/* A CQ's error has the number first, everything else last, with the kind of queue before it. */
	memcpy(data + (type == FW_EVENT_CQ_ERROR ? 0 : 24), &number, sizeof(number));
	if (type == FW_EVENT_CQ_ERROR)
		data[11] = CQ_ERROR_OVERRUN;
	if (object->opcode == PRM_OP_CREATE_DCT)
		data[20] = FW_QUEUE_DCT;
	send_all(&object->subscriptions, type, &message);
}

void event_send_port(struct nic *nic, bool up)
{
	struct message message = {.eqe[EQE_TYPE] = FW_EVENT_PORT_CHANGE,
				  .eqe[EQE_SUBTYPE] = up ? FW_PORT_ACTIVE : FW_PORT_DOWN};
	struct ufile *ufile;

	message.eqe[EQE_DATA + 8] = 1 << 4; /* port */
	list_for_each_entry (ufile, &nic->ufiles, nic_link)
		send_all(&ufile->port_subscriptions, FW_EVENT_PORT_CHANGE, &message);
}

static void subscription_free(struct subscription *sub)
{
	sub->channel->object.users--;
	safe_close(sub->eventfd);
	free(sub);
}

void event_forget(struct sim *sim, struct list *subscriptions)
{
	struct subscription *sub, *next;
	struct list gone;

	list_init(&gone);
	sim_lock(sim);
	list_splice_tail(&gone, subscriptions);
	sim_unlock(sim);
	list_for_each_entry_safe(sub, next, &gone, link) subscription_free(sub);
}

/* ---- subscribing ----------------------------------------------------------------------------------------------- */

static bool is_event_of_object(uint16_t type)
{
	switch (type) {
	case FW_EVENT_COMPLETION:
	case FW_EVENT_PATH_MIGRATED:
	case FW_EVENT_COMM_ESTABLISHED:
	case FW_EVENT_SQ_DRAINED:
	case FW_EVENT_CQ_ERROR:
	case FW_EVENT_WQ_CATASTROPHIC:
	case FW_EVENT_PATH_MIGRATION_FAILED:
	case FW_EVENT_WQ_INVALID_REQUEST:
	case FW_EVENT_WQ_ACCESS:
	case FW_EVENT_SRQ_CATASTROPHIC:
	case FW_EVENT_SRQ_LAST_WQE:
	case FW_EVENT_SRQ_LIMIT:
	case FW_EVENT_XRQ_ERROR:
	case FW_EVENT_DCT_DRAINED:
	case FW_EVENT_DCT_KEY_VIOLATION:
		return true;
	}
	return false;
}

static int check_types(struct call *call, const uint16_t *types, size_t bytes, bool of_object)
{
	if (bytes % sizeof(types[0]) || bytes / sizeof(types[0]) > EVENTS_MAX)
		return call_refuse(call, -EINVAL, "%zu bytes of event types", bytes);
	for (size_t i = 0; i < bytes / sizeof(types[0]); i++) {
		if (of_object ? !is_event_of_object(types[i]) : types[i] != FW_EVENT_PORT_CHANGE)
			return call_refuse(call, -EINVAL, "event type 0x%x", types[i]);
	}
	return 0;
}

static int subscribe(struct call *call, struct list *to, struct channel *channel, uint16_t type)
{
	struct subscription *sub = calloc(1, sizeof(*sub));

	if (!sub)
		return -ENOMEM;
	sub->channel = channel;
	sub->type = type;
	sub->cookie = call_u64(call, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE);
	sub->eventfd = -1;
	channel->object.users++;
	if (call_has(call, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM))
		sub->eventfd = upcall_get_fd(
			call->reply, (int)call_u64(call, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM));
	if (sub->eventfd < 0 && call_has(call, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM)) {
		subscription_free(sub);
		return call_refuse(call, -EBADF, "no such descriptor");
	}
	sim_lock(call->ufile->sim);
	list_add_tail(to, &sub->link);
	sim_unlock(call->ufile->sim);
	return 0;
}

int devx_subscribe(struct call *call)
{
	struct list *to = &call->ufile->port_subscriptions;
	struct object *object = NULL, *channel;
	const uint16_t *types;
	size_t bytes;
	int r;

	if (!call->ufile->uid)
		return call_refuse(call, -EINVAL, "a context without DEVX");
	if (call_has(call, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE)) {
		object = object_get(call->ufile, OBJECT_DEVX,
				    call_u64(call, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE));
		if (!object)
			return call_refuse(call, -ENOENT, "no such object");
		to = &object->subscriptions;
	}
	channel = channel_of_fd(call,
				(int)call_u64(call, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE));
	if (!channel)
		return call_refuse(call, -EBADF, "no event channel of this context");
	if (call_has(call, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM) &&
	    call_has(call, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE))
		return call_refuse(call, -EINVAL, "a cookie and an eventfd");
	types = call_in(call, MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST, &bytes);
	r = check_types(call, types, bytes, object != NULL);
	for (size_t i = 0; r == 0 && i < bytes / sizeof(types[0]); i++)
		r = subscribe(call, to, container_of(channel, struct channel, object), types[i]);
	return r;
}

/* Both of them, of command results and of events: a channel is a channel. */
int devx_channel_alloc(struct call *call)
{
	bool events = call->method->object == MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD;
	uint64_t flags = events ? call_u64(call, MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS) : 0;
	struct channel *channel;
	int fd, r;

	if (!call->ufile->has_context)
		return call_refuse(call, -EINVAL, "no context");
	if (flags & ~(uint64_t)MLX5_IB_UAPI_DEVX_CR_EV_CH_FLAGS_OMIT_DATA)
		return call_refuse(call, -EINVAL, "unknown flags 0x%llx",
				   (unsigned long long)flags);
	r = channel_new(call->ufile, &channel);
	if (r < 0)
		return r;
	channel->omit_data = flags != 0;
	fd = channel_put(call, channel);
	if (fd < 0) {
		object_destroy(&channel->object);
		return fd;
	}
	return call_set_handle(call, MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE, fd);
}
