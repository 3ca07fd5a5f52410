/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of everything a session owns.
 *
 * Teardown is by kind in the order of the table below, never by id or age; within a kind the newest goes first,
 * since a batch of queues may use CQs of an older one. The order: data threads let go of the queues and QPs go to
 * error before anything they touch disappears; queues before the memory they name; memory before the context that
 * holds PD and doorbell page; the socket last, so that its end tells a client that everything is gone.
 * Quota charges live in the objects and return with each, once the NIC has let go of all.
 *
 * Teardown waits for the flush of queues only if a client is left to read the result: not after its death or hang-up. All other
 * sessions share one budget for this (registry_quiesce_left()), since other clients wait meanwhile. The NIC does not see requests
 * that a client posts after its end, so every flush ends.
 *
 * If a NIC blocks or stalls, a worker takes its steps; the control thread then reads nothing of an ended session but its owner. It
 * must not begin while a worker is busy with the session. Its porter writes the words of its end, or a worker. With firmware that is
 * done meanwhile: a hole in the page puts off the end of the session, and not that of its queues.
 */
#include "daemon/session/session.h"

#include <stdlib.h>

#include "daemon/porter/held.h"
#include "daemon/session/monitor.h"
#include "daemon/session/request.h"
#include "proto/base/assert.h"
#include "proto/base/nsec.h"

/* ---- what NICs have of it: by any thread ------------------------------------------------------------------------- */

/*
 * One budget for all NICs of the session, so that many NICs do not add up, from one for all sessions, so that many
 * sessions do not: taken when its turn has come, since many may wait for theirs. A client that has gone reads no flush CQEs:
 * nothing is waited for.
 */
static void teardown_quiesce(struct session *session)
{
	uint64_t begin = nsec_now(), now = begin, end = begin, most = session->quiesce_nsec;

	if (most > 0)
		end = nsec_add(begin, registry_quiesce_left(session->registry, most));
	for (unsigned int i = 0; i < session->n_nics; i++) {
		struct nic_ctx *ctx = session->nics[i]->ctx;

		ctx->nic->ops->ctx_quiesce(ctx, now < end ? end - now : 0);
		now = nsec_now();
	}
	if (most > 0)
		registry_quiesce_spent(session->registry, now - begin);
}

static void teardown_queues(struct session *session)
{
	struct resource *head;

	list_for_each_entry(head, &session->resources.lists[RESOURCE_QUEUES], link) {
		struct session_queues *queues = container_of(head, struct session_queues, head);
		int r = queues->queues->ctx->nic->ops->queues_destroy(queues->queues);

		/* A context whose queues stay cannot be closed: that is a backend's bug. */
		assert_bug(r == 0);
		queues->queues = NULL;
	}
}

static void teardown_memory(struct session *session)
{
	struct resource *head;

	list_for_each_entry(head, &session->resources.lists[RESOURCE_MR], link) {
		struct session_mr *mr = container_of(head, struct session_mr, head);

		mr->mr = mr->mr->ctx->nic->ops->mr_dereg(mr->mr);
	}
}

static void teardown_contexts(struct session *session)
{
	for (unsigned int i = session->n_nics; i > 0; i--) {
		struct session_nic *nic = session->nics[i - 1];

		if (session->registry->attr.save && nic->ctx->nic->ops->ctx_counters(nic->ctx, &nic->last) < 0)
			nic->last = (struct nic_counters){0};
		nic->ctx = nic->ctx->nic->ops->ctx_close(nic->ctx);
	}
}

/* ---- its saved state: control thread ----------------------------------------------------------------------------- */

static void teardown_resources(struct session *session)
{
	struct resource *head, *tmp;

	list_for_each_entry_safe(head, tmp, &session->resources.lists[RESOURCE_QUEUES], link)
		session_queues_free(session, container_of(head, struct session_queues, head));
	list_for_each_entry_safe(head, tmp, &session->resources.lists[RESOURCE_MR], link)
		session_mr_free(session, container_of(head, struct session_mr, head));
	while (session->n_nics > 0) {
		struct session_nic **last = &session->nics[--session->n_nics];

		*last = session_nic_free(*last);
	}
}

static void teardown_published(struct session *session)
{
	struct publish_entry *entry, *tmp;

	list_for_each_entry_safe(entry, tmp, &session->published, owner_link) {
		session_unsave(session, SAVE_ENTRY, entry);
		publish_entry_free(entry);
	}
	session->n_published = 0;
}

static void teardown_pes(struct session *session)
{
	for (unsigned int i = 0; i < SESSION_MAX_PES; i++) {
		if (session->pes[i])
			session_unsave(session, SAVE_PE, session->pes[i]);
		free(session->pes[i]);
		session->pes[i] = NULL;
	}
}

static void teardown_saved(struct session *session)
{
	registry_count_ended(session);
	if (session->registry->attr.save)
		session->registry->attr.save->forget(session);
}

/* Words that are not written yet, and that no porter will write. */
static void teardown_words(struct session *session)
{
	if (words_are_any(&session->words))
		words_write(session->health_fd, &session->words);
	session->words = (struct words){0};
}

static void teardown_health_fd(struct session *session)
{
	session->health_fd = safe_close(session->health_fd);
}

static void teardown_watch(struct session *session)
{
	for (unsigned int i = 0; i < 2; i++)
		session->watch_fds[i] = safe_close(session->watch_fds[i]);
}

static void teardown_connection(struct session *session)
{
	resource_table_deinit(&session->resources);
	connection_deinit(&session->connection, &session->connection_charge);
	identity_deinit(&session->identity);
}

static void teardown_charges(struct session *session)
{
	session->registry->n_admin_taken -= session->has_admin_place;
	session->has_admin_place = false;
	quota_charge_deinit(&session->session_charge);
	quota_charge_deinit(&session->connection_charge);
	quota_user_deinit(&session->user);
}

/* ---- all of it ---------------------------------------------------------------------------------------------------- */

struct step {
	const char *steps;
	void (*run)(struct session *session);
};

static const struct step of_contexts[] = {
	{"1 stop data threads on its queues, 2 QPs to error, 3 bounded wait for the flush", teardown_quiesce},
	{"4 destroy QPs, 5 CQs", teardown_queues},
	{"6 deregister memory", teardown_memory},
	{"7 doorbell pages, 8 PDs, 9 contexts and their descriptors", teardown_contexts},
};

static const struct step of_session[] = {
	{"10 saved state, 9 descriptors in the fd store", teardown_saved},
	{"the same in the session's tables, 11 their quota", teardown_resources},
	{"9 descriptors: health page", teardown_health_fd},
	{"9 descriptors: socket and pidfd", teardown_connection},
	{"9 descriptors: watch sockets, behind the socket, whose end is final", teardown_watch},
	{"11 the quota of session and connection", teardown_charges},
};

static void teardown_begin(struct session *session)
{
	assert_bug(!session->busy);
	session->busy = true;
	session->ended = true;
	if (session->hello)
		request_free(take_ptr(session->hello));
	session_packet_free(session);
	/* Also without session_end(): a kernel on a GPU has only these words. */
	session->words.has_ended |= session->has_page && !session->told_end;
	session->has_page = false;
	monitor_leave(session);
	session_save_ending(session);
	/* This needs no NIC, so the next process of this world does not wait for firmware. */
	teardown_published(session);
	teardown_pes(session);
	session->quiesce_nsec = session->gone || session->n_nics == 0 ? 0 : session->registry->attr.quiesce_nsec;
}

static void take_steps(struct session *session, const struct step *steps, size_t n)
{
	for (size_t i = 0; i < n; i++)
		steps[i].run(session);
}

#define TAKE_STEPS(session, steps) take_steps(session, steps, sizeof(steps) / sizeof((steps)[0]))

static void contexts_run(struct work *work)
{
	TAKE_STEPS(container_of(work, struct session, work), of_contexts);
}

static void page_run(struct work *work)
{
	teardown_words(container_of(work, struct session, work));
}

/* Kernels that wait for its NICs see the words first. */
static void teardown_run(struct work *work)
{
	page_run(work);
	contexts_run(work);
}

static void teardown_done(struct work *work)
{
	struct session *session = container_of(work, struct session, work);

	TAKE_STEPS(session, of_session);
	monitor_session_closed(session);
	list_del(&session->link);
	free(session);
}

struct session *session_free(struct session *session)
{
	if (!session)
		return NULL;
	if (session->connection.slot)
		session_health_end(session);
	teardown_begin(session);
	teardown_run(&session->work);
	teardown_done(&session->work);
	return NULL;
}

static void set_work(struct session *session, void (*run)(struct work *work), void (*done)(struct work *work))
{
	session->work = (struct work){.users = {session->user.uid, session->user.cgroup}, .run = run, .done = done};
}

/* When nobody else writes it. */
static void end_page(struct session *session)
{
	if (session_health_is_busy(session))
		return;
	set_work(session, page_run, teardown_done);
	if (!words_are_any(&session->words) || registry_run_at_memory(session->registry, &session->work))
		teardown_done(&session->work);
}

static void contexts_done(struct work *work)
{
	struct session *session = container_of(work, struct session, work);

	session->contexts_closed = true;
	end_page(session);
}

static void end_at_firmware(struct session *session)
{
	session_health_end(session);
	teardown_begin(session);
	set_work(session, contexts_run, contexts_done);
	registry_work(session->registry, true, &session->work);
}

/* By one worker, if it needs one. */
static void end_at_memory(struct session *session)
{
	teardown_begin(session);
	set_work(session, teardown_run, teardown_done);
	if (!registry_has_busy(session->registry) || (session->n_nics == 0 && !words_are_any(&session->words)))
		registry_work(session->registry, false, &session->work);
	else if (registry_run_at_memory(session->registry, &session->work))
		teardown_done(&session->work);
}

void session_release(struct session *session)
{
	if (!session)
		return;
	session->released = true;
	/* Its porter writes before anything else ends. */
	if (session->connection.slot)
		session_health_end(session);
	if (session->contexts_closed)
		end_page(session);
	else if (session->busy)
		return;
	else if (session->registry->blocks && session->n_nics > 0)
		end_at_firmware(session);
	else if (!session_health_is_busy(session))
		end_at_memory(session);
}

/* ---- single resources ----------------------------------------------------------------------------------------- */

/* Out of the table, if it is there; the state then says when its slot became free. */
static void remove_resource(struct session *session, struct resource *head)
{
	uint32_t slot = resource_slot_of(head->handle);
	bool was_in_table = head->handle;

	resource_remove(&session->resources, head);
	if (was_in_table)
		session_save(session, SAVE_SLOT, &slot, -1);
}

struct session_mr *session_mr_free(struct session *session, struct session_mr *mr)
{
	if (!mr)
		return NULL;
	assert_bug(!mr->mr);
	mr->held = held_unref(mr->held);
	session_unsave(session, SAVE_MR, mr);
	remove_resource(session, &mr->head);
	quota_charge_deinit(&mr->head.charge);
	free(mr);
	return NULL;
}

void session_queues_count(struct session_queues *queues)
{
	const struct nic_layout *layout = &queues->queues->layout;
	struct registry_nic *rnic = queues->nic->rnic;

	for (uint32_t i = 0; i < layout->n_qps; i++) {
		queues->n_dcis += layout->qps[i].type == NIC_QP_DCI;
		queues->n_dcts += layout->qps[i].type == NIC_QP_DCT;
		/* A DCT is ready when it is made. */
		if (layout->qps[i].type == NIC_QP_DCT)
			queues->qps[i].state = NIC_QPS_RTR;
	}
	queues->n_qps = layout->n_qps;
	queues->first_qpn = layout->n_qps ? layout->qps[0].qpn : 0;
	rnic->n_qps += layout->n_qps;
	rnic->n_dcis += queues->n_dcis;
	rnic->n_dcts += queues->n_dcts;
}

int session_queues_add_numbers(struct session_queues *queues)
{
	const struct nic_layout *layout = &queues->queues->layout;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < layout->n_qps; i++)
		r = hash_add(&queues->nic->qps, layout->qps[i].qpn, queues);
	for (uint32_t i = 0; r == 0 && i < layout->n_cqs; i++)
		r = hash_add(&queues->nic->cqs, layout->cqs[i].cqn, queues);
	return r;
}

void session_queues_remove_numbers(struct session_queues *queues)
{
	const struct nic_layout *layout = &queues->queues->layout;

	for (uint32_t i = 0; i < layout->n_qps; i++)
		hash_remove(&queues->nic->qps, layout->qps[i].qpn);
	for (uint32_t i = 0; i < layout->n_cqs; i++)
		hash_remove(&queues->nic->cqs, layout->cqs[i].cqn);
}

struct session_queues *session_queues_free(struct session *session, struct session_queues *queues)
{
	if (!queues)
		return NULL;
	assert_bug(!queues->queues);
	queues->nic->rnic->n_qps -= queues->n_qps;
	queues->nic->rnic->n_dcis -= queues->n_dcis;
	queues->nic->rnic->n_dcts -= queues->n_dcts;
	/* A batch that failed half way was never reported. */
	if (queues->head.handle)
		monitor_queues(session, MSG_EVENT_QUEUES_DESTROYED, queues);
	session_unsave(session, SAVE_QUEUES, queues);
	remove_resource(session, &queues->head);
	quota_charge_deinit(&queues->head.charge);
	free(queues->part);
	held_unref(queues->held);
	free(queues->qps);
	free(queues);
	return NULL;
}

struct session_nic *session_nic_free(struct session_nic *nic)
{
	if (!nic)
		return NULL;
	assert_bug(!nic->ctx);
	if (nic->is_counted)
		nic->rnic->n_sessions--;
	hash_deinit(&nic->qps);
	hash_deinit(&nic->cqs);
	free(nic->record);
	quota_charge_deinit(&nic->charge);
	quota_charge_deinit(&nic->agent_charge);
	free(nic);
	return NULL;
}
