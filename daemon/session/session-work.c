/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects sessions to the threads that wait for firmware, and for users who stall.
 *
 * A session is busy while a worker uses its contexts, for one purpose at a time; this alone keeps a context on one thread. The
 * daemon reads none of its packets meanwhile, so answers keep their order, and does not free it. The control thread may end it,
 * send it events and list its last known state; it reads nothing that the worker changes. Deferred steps follow: teardown first,
 * then a look, then its packets.
 *
 * Quota is charged before the worker makes an object and returned after it has destroyed one. Handles, numbers and room in maps are
 * reserved before too, so the control thread never has to undo the work of a NIC. It does not wait for queues that need more than
 * 1 MiB of CQ rings or lie in a client's memory.
 *
 * Control thread, except look_run().
 */
#include "daemon/session/session.h"

#include "proto/base/assert.h"
#include "proto/base/nsec.h"

#define COUNT_NSEC NSEC_PER_SEC
#define COUNT_SESSIONS 16

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
