/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends of channels: making them in pairs, and what becomes of those that nobody uses any more.
 *
 * Both map and unmap, which may wait for the memory of other users, so data threads bury ends, and threads that may wait reap them.
 * Any thread.
 */
#include "daemon/nic/soft/soft.h"

#include <stdlib.h>

#include "proto/base/cleanup.h"

/* ---- stacks that any thread pushes to ------------------------------------------------------------------------------------ */

void soft_stack_push(struct list **stack, struct list *item)
{
	struct list *head = __atomic_load_n(stack, __ATOMIC_RELAXED);

	do {
		item->next = head;
	} while (!__atomic_compare_exchange_n(stack, &head, item, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
}

/* By the only thread that takes from it. */
struct list *soft_stack_pop(struct list **stack)
{
	struct list *head = __atomic_load_n(stack, __ATOMIC_ACQUIRE);

	while (head && !__atomic_compare_exchange_n(stack, &head, head->next, true, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
		;
	return head;
}

/* ---- ends ------------------------------------------------------------------------------------------------------------------ */

static void channel_unref(struct soft_channel *channel)
{
	if (!channel || __atomic_sub_fetch(&channel->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	soft_channel_unmap(channel->shared);
	free(channel);
}

static struct soft_end *end_free(struct soft_end *end)
{
	if (!end)
		return NULL;
	engine_packets_free(end->packets);
	channel_unref(end->channel);
	safe_close(end->wake_fds[0]);
	safe_close(end->wake_fds[1]);
	free(end);
	return NULL;
}
DEFINE_CLEANUP(struct soft_end *, end_free);

static void bind(struct soft_end *end, struct soft_channel *channel)
{
	enum soft_way out = end->is_opener ? SOFT_WAY_REQUESTS : SOFT_WAY_ANSWERS;
	enum soft_way in = end->is_opener ? SOFT_WAY_ANSWERS : SOFT_WAY_REQUESTS;

	soft_writer_init(&end->out, channel->shared, out);
	soft_reader_init(&end->in, channel->shared, in);
	end->bells[0] = &channel->shared->bells[in];
	end->bells[1] = &channel->shared->bells[out];
	__atomic_fetch_add(&channel->refs, 1, __ATOMIC_RELAXED);
	end->channel = channel;
}

/* Nothing has room, and nothing comes. Positions there never change, and nobody reads the rest. */
static struct soft_shared_way nowhere;

static void bind_nowhere(struct soft_end *end)
{
	end->out = (struct soft_writer){.way = &nowhere, .head = SOFT_WAY_BYTES};
	end->in.way = &nowhere;
}

/* channel NULL: there is none yet. */
static struct soft_end *end_new(struct soft_fabric *fabric, struct soft_channel *channel, bool is_opener)
{
	_cleanup_(end_freep) struct soft_end *end = calloc(1, sizeof(*end));

	if (!end)
		return NULL;
	end->wake_fds[0] = end->wake_fds[1] = -1;
	end->packets = engine_packets_new(SOFT_MAX_RECORDS);
	if (!end->packets)
		return NULL;
	end->fabric = fabric;
	end->is_opener = is_opener;
	list_init(&end->link);
	list_init(&end->news_link);
	list_init(&end->jam_link);
	list_init(&end->held);
	engine_jam_init(&end->jam, !is_opener);
	if (channel)
		bind(end, channel);
	else
		bind_nowhere(end);
	return take_ptr(end);
}

/* Takes the memory, which may be NULL. */
static struct soft_channel *channel_of(struct soft_shared_channel *shared)
{
	struct soft_channel *channel = shared ? calloc(1, sizeof(*channel)) : NULL;

	if (!channel) {
		soft_channel_unmap(shared);
		return NULL;
	}
	channel->refs = 1;
	channel->shared = shared;
	return channel;
}

static struct soft_channel *channel_new(void)
{
	struct soft_shared_channel *shared;

	return soft_channel_new(&shared, NULL) == 0 ? channel_of(shared) : NULL;
}

/* The end of who opens a channel, with the other one. */
struct soft_end *soft_end_new_pair(struct soft_fabric *fabric)
{
	struct soft_channel *channel = channel_new();
	struct soft_end *end = channel ? end_new(fabric, channel, true) : NULL;

	if (end)
		end->other = end_new(fabric, channel, false);
	channel_unref(channel);
	return end && !end->other ? end_free(end) : end;
}

/* ---- with other processes ------------------------------------------------------------------------------------------------ */

struct soft_end *soft_end_new_pending(struct soft_fabric *fabric)
{
	struct soft_end *end = end_new(fabric, NULL, true);

	if (end)
		end->is_remote = true;
	return end;
}

static struct soft_end *end_of(struct soft_fabric *fabric, struct soft_remote_channel *come)
{
	struct soft_channel *channel = channel_of(come->shared);
	struct soft_end *end = end_new(fabric, channel, come->is_opener);

	channel_unref(channel);
	come->shared = NULL;
	if (!end)
		return NULL;
	end->is_remote = true;
	end->wake_fds[0] = take_fd(&come->wake_fds[!come->is_opener]);
	end->wake_fds[1] = take_fd(&come->wake_fds[come->is_opener]);
	end->port_id = come->peer_port;
	end->exec_id = come->peer_exec;
	end->epoch = come->peer_epoch;
	return end;
}

bool soft_end_arrive(struct soft_fabric *fabric, struct soft_remote_channel *come)
{
	struct soft_port *port = come->port < SOFT_MAX_NICS ? fabric->ports[come->port] : NULL;
	struct soft_lane *lane = port ? __atomic_load_n(&port->lanes[fabric->own_exec], __ATOMIC_ACQUIRE) : NULL;
	struct soft_end *end = lane ? end_of(fabric, come) : NULL;

	soft_channel_unmap(come->shared);
	for (unsigned int i = 0; i < SOFT_N_WAYS; i++)
		safe_close(come->wake_fds[i]);
	if (!end)
		return false;
	soft_stack_push(&lane->ends, &end->link);
	soft_lane_ring(lane);
	return true;
}

void soft_end_take_over(struct soft_end *pending, struct soft_end *come)
{
	bind(pending, come->channel);
	pending->wake_fds[0] = take_fd(&come->wake_fds[0]);
	pending->wake_fds[1] = take_fd(&come->wake_fds[1]);
	pending->epoch = come->epoch;
}

/* It is nobody's any more. */
void soft_end_bury(struct soft_end *end)
{
	struct soft_fabric *fabric = end->fabric;

	/* Any thread may free it from here on. */
	soft_stack_push(&fabric->over, &end->link);
	/* The thread that talks with other processes reaps. */
	if (fabric->want_fd >= 0)
		doorbell_wake(fabric->want_fd);
}

void soft_end_bury_pair(struct soft_end *end)
{
	soft_end_bury(end->other);
	soft_end_bury(end);
}

void soft_ends_reap(struct soft_fabric *fabric)
{
	struct list *over = __atomic_exchange_n(&fabric->over, NULL, __ATOMIC_ACQUIRE);

	while (over) {
		struct list *next = over->next;

		end_free(container_of(over, struct soft_end, link));
		over = next;
	}
}

static void refuse_remote(const struct soft_end *end)
{
	if (!end->channel)
		return;
	__atomic_exchange_n(&end->bells[1]->rings, 1, __ATOMIC_SEQ_CST);
	doorbell_wake(end->wake_fds[1]);
}

void soft_end_refuse(struct soft_end *end)
{
	struct soft_lane *opener;
	struct soft_port *port;

	if (end->channel)
		__atomic_store_n(&end->channel->shared->is_over, 1, __ATOMIC_RELEASE);
	if (end->is_remote)
		refuse_remote(end);
	else if (soft_fabric_find_id(end->fabric, end->port_id, &port) == 0) {
		opener = __atomic_load_n(&port->lanes[end->exec_id], __ATOMIC_ACQUIRE);
		if (opener)
			soft_lane_ring(opener);
		soft_port_unref(port);
	}
	soft_end_bury(end);
}

void soft_ends_forget(struct soft_lane *lane)
{
	struct list *link;

	while ((link = soft_stack_pop(&lane->ends)))
		soft_end_refuse(container_of(link, struct soft_end, link));
}
