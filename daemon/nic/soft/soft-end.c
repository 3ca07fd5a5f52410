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
	free(end);
	return NULL;
}
DEFINE_CLEANUP(struct soft_end *, end_free);

static struct soft_end *end_new(struct soft_fabric *fabric, struct soft_channel *channel, bool is_opener)
{
	_cleanup_(end_freep) struct soft_end *end = calloc(1, sizeof(*end));

	if (!end)
		return NULL;
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
	soft_writer_init(&end->out, channel->shared, is_opener ? SOFT_WAY_REQUESTS : SOFT_WAY_ANSWERS);
	soft_reader_init(&end->in, channel->shared, is_opener ? SOFT_WAY_ANSWERS : SOFT_WAY_REQUESTS);
	__atomic_fetch_add(&channel->refs, 1, __ATOMIC_RELAXED);
	end->channel = channel;
	return take_ptr(end);
}

static struct soft_channel *channel_new(void)
{
	struct soft_channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return NULL;
	channel->refs = 1;
	if (soft_channel_new(&channel->shared, NULL) == 0)
		return channel;
	free(channel);
	return NULL;
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

/* It is nobody's any more. */
void soft_end_bury(struct soft_end *end)
{
	soft_stack_push(&end->fabric->over, &end->link);
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

void soft_end_refuse(struct soft_end *end)
{
	struct soft_lane *opener;
	struct soft_port *port;

	__atomic_store_n(&end->channel->shared->is_over, 1, __ATOMIC_RELEASE);
	if (soft_fabric_find_id(end->fabric, end->port_id, &port) == 0) {
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
