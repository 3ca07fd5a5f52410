/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/random/order.h"

void order_tick(struct order *order, int pe)
{
	order->clock[pe][pe]++;
}

static bool overlap(const struct access *a, const struct access *b)
{
	return a->world == b->world && a->alloc == b->alloc && a->owner == b->owner && a->lo < b->hi && b->lo < a->hi;
}

static bool conflict(const struct access *a, const struct access *b)
{
	if (a->kind == ACCESS_READ && b->kind == ACCESS_READ)
		return false;
	return a->kind != ACCESS_ATOMIC || b->kind != ACCESS_ATOMIC || !a->family || a->family != b->family;
}

static bool ordered_here(const struct order *order, const struct record *before, const struct access *after)
{
	const struct access *a = &before->access;

	if (before->done || a->ctx == LOCAL_CTX)
		return true;
	return a->is_update && after->is_update && a->world == after->world && a->ctx == after->ctx && a->far == after->far &&
	       before->n_fences < order->n_fences[a->world][a->pe][a->ctx][a->far];
}

static bool ordered(const struct order *order, const struct record *before, const struct access *after)
{
	int pe = before->access.pe;

	if (pe == after->pe)
		return ordered_here(order, before, after);
	return (before->done && order->clock[after->pe][pe] >= before->done) || (before->seen >> after->pe & 1);
}

bool order_allows(const struct order *order, const struct access *access)
{
	for (uint32_t i = 0; i < order->n_records; i++) {
		const struct record *record = &order->records[i];

		if (overlap(&record->access, access) && conflict(&record->access, access) && !ordered(order, record, access))
			return false;
	}
	return true;
}

bool order_add(struct order *order, const struct access *access, bool is_done)
{
	uint64_t now = order->clock[access->pe][access->pe];

	if (order->n_records == MAX_RECORDS)
		return false;
	order->records[order->n_records++] = (struct record){
		.access = *access,
		.time = now,
		.done = is_done ? now : 0,
		.n_fences = access->ctx == LOCAL_CTX ? 0 : order->n_fences[access->world][access->pe][access->ctx][access->far],
	};
	return true;
}

void order_fence(struct order *order, int world, int pe, int ctx, int to)
{
	for (int i = 0; i < order->n_pes; i++)
		if (to == ALL_PES || to == i)
			order->n_fences[world][pe][ctx][i]++;
}

void order_quiet(struct order *order, int world, int pe, int ctx, int to)
{
	for (uint32_t i = 0; i < order->n_records; i++) {
		struct record *record = &order->records[i];
		const struct access *a = &record->access;
		bool is_of_ctx = a->world == world && a->ctx == ctx && (to == ALL_PES || a->far == to);

		if (a->pe == pe && !record->done && (a->ctx == LOCAL_CTX || is_of_ctx))
			record->done = order->clock[pe][pe];
	}
}

void order_meet(struct order *order, uint32_t members)
{
	uint64_t all[MAX_PES] = {0};

	for (uint32_t i = 0; i < order->n_records; i++) {
		struct record *record = &order->records[i];
		const struct access *a = &record->access;

		if (!record->done && a->ctx == LOCAL_CTX && (members >> a->pe & 1))
			record->done = order->clock[a->pe][a->pe];
	}
	for (int pe = 0; pe < order->n_pes; pe++)
		for (int i = 0; (members >> pe & 1) && i < order->n_pes; i++)
			all[i] = order->clock[pe][i] > all[i] ? order->clock[pe][i] : all[i];
	for (int pe = 0; pe < order->n_pes; pe++)
		for (int i = 0; (members >> pe & 1) && i < order->n_pes; i++)
			order->clock[pe][i] = all[i];
}

void order_event(const struct order *order, int world, int pe, int ctx, int to, struct event *ret_event)
{
	*ret_event = (struct event){
		.world = world, .pe = pe, .ctx = ctx, .to = to, .time = order->clock[pe][pe], .n_fences = order->n_fences[world][pe][ctx][to]};
	for (int i = 0; i < order->n_pes; i++)
		ret_event->clock[i] = order->clock[pe][i];
}

/* The data of the signal itself, and what a fence put before it. */
static bool is_behind(const struct record *record, const struct event *event)
{
	const struct access *a = &record->access;

	return a->is_update && a->world == event->world && a->pe == event->pe && a->ctx == event->ctx && a->far == event->to &&
	       (record->n_fences < event->n_fences || record->time == event->time);
}

void order_see(struct order *order, int pe, const struct event *event)
{
	for (uint32_t i = 0; i < order->n_records; i++)
		if (is_behind(&order->records[i], event))
			order->records[i].seen |= 1u << pe;
	for (int i = 0; i < order->n_pes; i++)
		if (event->clock[i] > order->clock[pe][i])
			order->clock[pe][i] = event->clock[i];
}

bool order_is_busy(const struct order *order, int world, int alloc, int pe, int but_ctx)
{
	for (uint32_t i = 0; i < order->n_records; i++) {
		const struct record *record = &order->records[i];
		const struct access *a = &record->access;

		if (!record->done && a->ctx != LOCAL_CTX && a->ctx != but_ctx && a->world == world && a->alloc == alloc &&
		    (pe == ALL_PES || a->pe == pe))
			return true;
	}
	return false;
}

static bool all_know(const struct order *order, const struct record *record)
{
	bool all = record->done != 0;

	for (int pe = 0; all && pe < order->n_pes; pe++)
		all = order->clock[pe][record->access.pe] >= record->done;
	return all;
}

void order_prune(struct order *order, int world, int alloc)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < order->n_records; i++) {
		const struct record *record = &order->records[i];

		if (!all_know(order, record) && (record->access.world != world || record->access.alloc != alloc))
			order->records[n++] = *record;
	}
	order->n_records = n;
}
