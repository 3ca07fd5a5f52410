/* SPDX-License-Identifier: Apache-2.0 */
/*
 * News for the control thread.
 *
 * The data thread queues (port states: the control thread itself), the control thread takes; event_fd is readable exactly while something is queued.
 * When the queue is full, events of the same session and kind are merged into one whose number is 0: several.
 * The queue never grows; only a 257th session with news at one time goes without.
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
	return 0;
}

void soft_events_deinit(struct soft_events *events)
{
	pthread_mutex_destroy(&events->lock);
}

static struct nic_event *event_at(struct soft_events *events, uint32_t i)
{
	return &events->ring[(events->first + i) % SOFT_MAX_EVENTS];
}

/* One event is left for each session and kind. */
static void events_merge(struct soft_events *events)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < events->n; i++) {
		struct nic_event ev = *event_at(events, i);
		uint32_t at = 0;

		while (at < n && (event_at(events, at)->session_id != ev.session_id ||
				  event_at(events, at)->kind != ev.kind))
			at++;
		if (at == n) {
			*event_at(events, n++) = ev;
			continue;
		}
		event_at(events, at)->number = 0;
		/* Of a port's states the last one counts. */
		event_at(events, at)->state = ev.state;
	}
	events->n = n;
}

static void events_push(struct soft_nic *nic, const struct nic_event *ev)
{
	struct soft_events *events = &nic->events;
	uint64_t one = 1;

	pthread_mutex_lock(&events->lock);
	if (events->n == SOFT_MAX_EVENTS)
		events_merge(events);
	if (events->n < SOFT_MAX_EVENTS) {
		*event_at(events, events->n++) = *ev;
		if (events->n == 1 && write(nic->base.event_fd, &one, sizeof(one)) < 0)
			assert_bug(errno == EAGAIN);
	}
	pthread_mutex_unlock(&events->lock);
}

void soft_event(struct soft_nic *nic, const struct engine_event *ev)
{
	struct nic_event out = {.number = ev->number, .syndrome = ev->syndrome};
	struct soft_qp *qp;
	const struct soft_cq *cq;

	switch (ev->kind) {
	case ENGINE_EVENT_QP_ERROR:
		qp = soft_numbers_find(&nic->qpns, ev->number);
		if (!qp || qp->queues->ctx->quiesced)
			return;
		out.kind = NIC_EVENT_QP_ERROR;
		out.session_id = qp->queues->ctx->base.session_id;
		soft_qp_tell_error(qp, ev->syndrome ? ev->syndrome : SHMD_SYNDROME_WR_FLUSH_ERR);
		break;
	case ENGINE_EVENT_CQ_OVERRUN:
		cq = soft_numbers_find(&nic->cqns, ev->number);
		if (!cq || cq->queues->ctx->quiesced)
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

int soft_next_event(struct nic *base, struct nic_event *ret_event)
{
	struct soft_nic *nic = soft_nic(base);
	struct soft_events *events = &nic->events;
	uint64_t count;

	pthread_mutex_lock(&events->lock);
	if (events->n == 0) {
		pthread_mutex_unlock(&events->lock);
		return -EAGAIN;
	}
	*ret_event = *event_at(events, 0);
	events->first = (events->first + 1) % SOFT_MAX_EVENTS;
	events->n--;
	if (events->n == 0 && read(nic->base.event_fd, &count, sizeof(count)) < 0)
		assert_bug(errno == EAGAIN);
	pthread_mutex_unlock(&events->lock);
	return 0;
}
