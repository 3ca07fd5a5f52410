/* SPDX-License-Identifier: Apache-2.0 */
/*
 * News for the control thread.
 *
 * Data threads queue (port states: the control thread itself), the control thread takes; event_fd is readable exactly while something is queued.
 * When the queue is full, events of the same session and kind are merged into one whose number is 0: several, and it says how
 * many more. The queue never grows; only a 257th session with news at one time goes without, and is counted. News of
 * the NIC as a whole always find room.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/base/assert.h"

int soft_events_init(struct soft_events *events)
{
	pthread_mutex_init(&events->lock, NULL);
	events->first = 0;
	events->n = 0;
	events->n_lost = 0;
	return 0;
}

void soft_events_deinit(struct soft_events *events)
{
	pthread_mutex_destroy(&events->lock);
}

static struct nic_event *event_at(struct soft_events *events, uint32_t i)
{
	return &events->ring[(events->first + i) % (SOFT_MAX_EVENTS + SOFT_NIC_EVENTS)];
}

static bool same_news(const struct nic_event *a, const struct nic_event *b)
{
	return a->session_id == b->session_id && a->kind == b->kind;
}

/* Into the first `n`: several of a kind have no number, and of a port's states the last one counts. */
static bool merge_into(struct soft_events *events, uint32_t n, const struct nic_event *ev)
{
	for (uint32_t i = 0; i < n; i++) {
		struct nic_event *known = event_at(events, i);

		if (!same_news(known, ev))
			continue;
		known->number = 0;
		known->n_lost += 1 + ev->n_lost;
		known->state = ev->state;
		return true;
	}
	return false;
}

/* One event is left for each session and kind. */
static void events_merge(struct soft_events *events)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < events->n; i++) {
		struct nic_event ev = *event_at(events, i);

		if (!merge_into(events, n, &ev))
			*event_at(events, n++) = ev;
	}
	events->n = n;
}

static void events_push(struct soft_nic *nic, const struct nic_event *ev)
{
	struct soft_events *events = &nic->events;
	uint32_t most = SOFT_MAX_EVENTS + (ev->session_id ? 0 : SOFT_NIC_EVENTS);
	uint64_t one = 1;

	pthread_mutex_lock(&events->lock);
	if (events->n >= most)
		events_merge(events);
	if (events->n >= most) {
		events->n_lost += !merge_into(events, events->n, ev);
	} else {
		*event_at(events, events->n++) = *ev;
		if (events->n == 1 && write(nic->base.event_fd, &one, sizeof(one)) < 0)
			assert_bug(errno == EAGAIN);
	}
	pthread_mutex_unlock(&events->lock);
}

void soft_event(struct soft_exec *exec, const struct engine_event *ev)
{
	struct soft_nic *nic = exec->nic;
	struct nic_event out = {.number = ev->number, .syndrome = ev->syndrome};
	struct soft_qp *qp;
	const struct soft_cq *cq;

	switch (ev->kind) {
	case ENGINE_EVENT_QP_ERROR:
		qp = soft_names_find(&exec->qpns, ev->number);
		if (!qp || qp->queues->ctx->page.is_silent)
			return;
		out.kind = NIC_EVENT_QP_ERROR;
		out.session_id = qp->queues->ctx->base.session_id;
		soft_qp_tell_error(qp, ev->syndrome ? ev->syndrome : SHMD_SYNDROME_WR_FLUSH_ERR);
		break;
	case ENGINE_EVENT_CQ_OVERRUN:
		cq = soft_names_find(&exec->cqns, ev->number);
		if (!cq || cq->queues->ctx->page.is_silent)
			return;
		out.kind = NIC_EVENT_CQ_ERROR;
		out.session_id = cq->queues->ctx->base.session_id;
		break;
	case ENGINE_EVENT_QP_SQ_DRAINED:
	case ENGINE_EVENT_CQ_COMPLETION:
		return; /* nobody asked: CQs are polled, and SQD is followed by a query */
	case ENGINE_EVENT_SRQ_LIMIT:
	case ENGINE_EVENT_SRQ_ERROR:
	case ENGINE_EVENT_QP_LAST_WQE:
		return; /* there are no SRQs here */
	}
	events_push(nic, &out);
}

void soft_event_port(struct soft_nic *nic, enum nic_port_state state)
{
	const struct nic_event out = {.kind = NIC_EVENT_PORT_STATE, .state = state};

	events_push(nic, &out);
}

static void events_take(struct soft_events *events, struct nic_event *ret_event)
{
	if (events->n == 0) {
		*ret_event = (struct nic_event){.kind = NIC_EVENT_DROPPED, .n_lost = events->n_lost};
		events->n_lost = 0;
		return;
	}
	*ret_event = *event_at(events, 0);
	events->first = (events->first + 1) % (SOFT_MAX_EVENTS + SOFT_NIC_EVENTS);
	events->n--;
}

int soft_next_event(struct nic *base, struct nic_event *ret_event)
{
	struct soft_nic *nic = soft_nic(base);
	struct soft_events *events = &nic->events;
	uint64_t count;

	pthread_mutex_lock(&events->lock);
	if (events->n == 0 && events->n_lost == 0) {
		pthread_mutex_unlock(&events->lock);
		return -EAGAIN;
	}
	events_take(events, ret_event);
	if (events->n == 0 && events->n_lost == 0 && read(nic->base.event_fd, &count, sizeof(count)) < 0)
		assert_bug(errno == EAGAIN);
	pthread_mutex_unlock(&events->lock);
	return 0;
}
