/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions and the threads that wait for firmware.
 *
 * A session is busy while a worker uses its contexts, for one purpose at a time: that alone is what keeps a context to
 * one thread. Meanwhile the control thread may end it, send it events, and list its last known state; it looks at nothing that
 * the worker changes. Deferred things follow when it is over: teardown first, then a look, then its packets.
 *
 * Control thread, but look_run().
 */
#include "daemon/session/session.h"

#include "proto/base/assert.h"
#include "proto/base/nsec.h"

#define COUNT_NSEC NSEC_PER_SEC
#define COUNT_SESSIONS 16

void session_call_attention(struct session *session)
{
	const struct registry_hooks *hooks = &session->registry->attr.hooks;

	if (hooks->attention && session->owner)
		hooks->attention(hooks->arg, session);
}

bool session_is_busy(const struct session *session)
{
	return session->busy || session->is_reading;
}

void session_take(struct session *session)
{
	assert_bug(!session_is_busy(session));
	session->busy = true;
	session_call_attention(session);
}

/* ---- a look at what has happened -------------------------------------------------------------------------------- */

static void look_run(struct work *work)
{
	struct session *session = container_of(work, struct session, work);

	for (unsigned int i = 0; i < session->n_nics; i++) {
		struct nic_ctx *ctx = session->nics[i]->ctx;

		ctx->nic->ops->ctx_look(ctx);
	}
	/* Counters of a NIC that does not answer stay as they are. */
	if (session->is_counted)
		session->is_counted = session_counters(session, &session->fresh_counters) == 0;
}

static void look_done(struct work *work)
{
	struct session *session = container_of(work, struct session, work);

	if (session->is_counted)
		session->counters = session->fresh_counters;
	session->is_counted = false;
	session_let_go(session);
}

static void start_look(struct session *session)
{
	session->wants_look = false;
	session_take(session);
	session->work = (struct work){.users = {session->user.uid, session->user.cgroup}, .run = look_run, .done = look_done};
	registry_work(session->registry, true, &session->work);
}

void session_look(struct session *session)
{
	if (session->ended)
		return;
	session->wants_look = true;
	if (!session_is_busy(session))
		start_look(session);
}

/* From the one behind the last on, round and round. */
static struct session *next_to_count(struct registry *registry)
{
	struct session *session = registry_next_session(registry, registry->counted_id + 1);

	if (!session)
		session = registry_next_session(registry, 0);
	if (session)
		registry->counted_id = session->id;
	return session;
}

void registry_count(struct registry *registry)
{
	uint64_t now = nsec_now();

	if (!registry->blocks || now < nsec_add(registry->counted_nsec, COUNT_NSEC))
		return;
	registry->counted_nsec = now;
	for (int i = 0; i < COUNT_SESSIONS; i++) {
		struct session *session = next_to_count(registry);

		if (!session)
			return;
		if (session_is_busy(session) || session->n_nics == 0)
			continue;
		session->is_counted = true;
		start_look(session);
	}
}

void session_go_on(struct session *session)
{
	if (session->released)
		session_release(session);
	else if (session->wants_look && !session->ended && !session_is_busy(session))
		start_look(session);
	else
		session_call_attention(session);
}

void session_let_go(struct session *session)
{
	assert_bug(session->busy);
	session->busy = false;
	session_go_on(session);
}

/* ---- what is known of its QPs ------------------------------------------------------------------------------------ */

/* Numbers of one batch mostly follow each other. NULL: it has none of this number. */
static struct session_qp *find_known(const struct session_queues *queues, uint32_t qpn)
{
	uint32_t guess = queues ? qpn - queues->first_qpn : 0;

	if (!queues)
		return NULL;
	if (guess < queues->n_qps && queues->queues->layout.qps[guess].qpn == qpn)
		return &queues->qps[guess];
	for (uint32_t i = 0; i < queues->n_qps; i++)
		if (queues->queues->layout.qps[i].qpn == qpn)
			return &queues->qps[i];
	return NULL;
}

static void know(struct session_queues *queues, struct session_qp *known, const struct session_qp *qp)
{
	if (known->state == qp->state && known->dest_qpn == qp->dest_qpn && known->first_error == qp->first_error)
		return;
	*known = *qp;
	session_keep_qps(queues);
}

void session_know(struct session_nic *nic, uint32_t qpn, const struct session_qp *qp)
{
	struct session_queues *queues = hash_get(&nic->qps, qpn);
	struct session_qp *known = find_known(queues, qpn);

	if (known)
		know(queues, known, qp);
}

void session_know_info(struct session_nic *nic, uint32_t qpn, const struct nic_qp_info *info)
{
	session_know(nic, qpn, &(struct session_qp){
		.state = info->state, .dest_qpn = info->dest_qpn, .first_error = info->first_error});
}

void session_know_state(struct session_nic *nic, uint32_t qpn, enum nic_qp_state state)
{
	struct session_queues *queues = hash_get(&nic->qps, qpn);
	struct session_qp *known = find_known(queues, qpn), now = {.state = state};

	if (!known)
		return;
	if (state != NIC_QPS_RST) {
		now = *known;
		now.state = state;
	}
	know(queues, known, &now);
}

void session_know_error(struct session_nic *nic, uint32_t qpn, uint32_t syndrome)
{
	struct session_queues *queues = hash_get(&nic->qps, qpn);
	struct session_qp *known = find_known(queues, qpn), now;

	if (!known)
		return;
	now = *known;
	now.state = NIC_QPS_ERR;
	if (!now.first_error)
		now.first_error = syndrome;
	know(queues, known, &now);
}
