/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request on its way: its memory, its turn with a worker, and what handlers do with it.
 *
 * What NICs that block do for it is a worker's, between a handler's checks and its end on the control thread; the session reads
 * nothing meanwhile. Control thread, but work_run().
 */
#include "daemon/session/request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/porter/held.h"
#include "daemon/session/unmanaged.h"
#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/show.h"
#include "proto/base/suggest.h"

/* A request and all that it points to. */
struct request_box {
	struct request req;
	struct msg msg, rep;
	struct fdlist fds;
};

struct request *request_new(struct session *session, struct msg *msg, struct fdlist *fds, request_answer answer)
{
	struct request_box *box = malloc(sizeof(*box));

	if (!box)
		return NULL;
	box->req = (struct request){
		.session = session, .msg = &box->msg, .fds = &box->fds, .rep = &box->rep, .answer = answer};
	box->msg = *msg;
	box->fds = *fds;
	msg_init(msg, MSG_OK_REP, 0);
	fdlist_init(fds);
	msg_init(&box->rep, MSG_OK_REP, box->msg.id);
	fdlist_init(&box->req.rep_fds);
	box->req.rep_fds.close = held_close;
	list_init(&box->req.held);
	return &box->req;
}

void request_free(struct request *req)
{
	struct request_box *box = container_of(req, struct request_box, req);
	struct session *other, *tmp;

	list_for_each_entry_safe(other, tmp, &req->held, hold_link) {
		list_del(&other->hold_link);
		session_let_go(other);
	}
	fdlist_deinit(&req->rep_fds);
	fdlist_deinit(&box->fds);
	msg_deinit(&box->rep);
	msg_deinit(&box->msg);
	free(req->op);
	free(box);
}

/* ---- requests that wait for a NIC ------------------------------------------------------------------------------- */

static void carry_out(struct request *req)
{
	req->run(req);
	if (req->changes && req->changes->ctx)
		req->session->registry->attr.save->export(SAVE_NIC, req->changes);
}

static void work_run(struct work *work)
{
	struct request *req = container_of(work, struct request, work);

	carry_out(req);
}

static void work_done(struct work *work)
{
	struct request *req = container_of(work, struct request, work);
	struct session *session = req->session;

	req->answer(req, req->finish(req));
	request_free(req);
	session_let_go(session);
}

static void prepare(struct request *req, request_run run, request_finish finish)
{
	req->run = run;
	req->finish = finish;
	req->work = (struct work){
		.users = {req->session->user.uid, req->session->user.cgroup}, .run = work_run, .done = work_done};
}

static int do_at_once(struct request *req)
{
	carry_out(req);
	return req->finish(req);
}

int request_work(struct request *req, bool blocks, request_run run, request_finish finish)
{
	struct registry *registry = req->session->registry;

	prepare(req, run, finish);
	if (!blocks || !registry_has_busy(registry))
		return do_at_once(req);
	if (registry_run(registry, &req->work))
		return finish(req);
	session_take(req->session);
	return REQUEST_WAITS;
}

int request_at_memory(struct request *req, request_run run, request_finish finish)
{
	struct registry *registry = req->session->registry;

	prepare(req, run, finish);
	if (!registry_has_busy(registry))
		return do_at_once(req);
	if (registry_run_at_memory(registry, &req->work))
		return finish(req);
	session_take(req->session);
	return REQUEST_WAITS;
}

int request_look(struct request *req, request_run run, request_finish finish)
{
	struct registry *registry = req->session->registry;

	prepare(req, run, finish);
	if (!registry_has_busy(registry))
		return do_at_once(req);
	session_take(req->session);
	registry_offer(registry, &req->work);
	return REQUEST_WAITS;
}

int request_change(struct request *req, struct session_nic *nic, request_run run, request_finish finish)
{
	req->changes = session_is_saved(req->session) ? nic : NULL;
	return request_work(req, nic_takes_time(nic->rnic->nic), run, finish);
}

int request_change_long(struct request *req, struct session_nic *nic, request_run run, request_finish finish)
{
	struct registry *registry = req->session->registry;

	req->changes = session_is_saved(req->session) ? nic : NULL;
	prepare(req, run, finish);
	if (!registry->attr.hooks.work)
		return do_at_once(req);
	req->work.may_stall = registry->stalls;
	session_take(req->session);
	registry_work(registry, true, &req->work);
	return REQUEST_WAITS;
}

bool request_hold(struct request *req, struct session *session)
{
	if (session == req->session || (!registry_has_busy(session->registry) && !session->busy))
		return true;
	if (!session_is_busy(session)) {
		session_take(session);
		list_add_tail(&req->held, &session->hold_link);
	}
	/* By this request, now or before. */
	for (const struct list *at = req->held.next; at != &req->held; at = at->next)
		if (at == &session->hold_link)
			return true;
	return false;
}

void *request_op(struct request *req, size_t bytes)
{
	assert_bug(!req->op);
	req->op = calloc(1, bytes);
	return req->op;
}

/* ---- for handlers --------------------------------------------------------------------------------------------- */

int request_fail(struct request *req, enum shmd_status status, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(req->text, sizeof(req->text), fmt, ap);
	va_end(ap);
	return (int)status;
}

int request_charge(struct request *req, const struct quota_amount *amount,
		   struct quota_charge *charge)
{
	static const enum shmd_status refusals[QUOTA_N] = {
		[QUOTA_CONNECTIONS] = SHMD_STATUS_QUOTA_SESSIONS,
		[QUOTA_SESSIONS] = SHMD_STATUS_QUOTA_SESSIONS,
		[QUOTA_QPS] = SHMD_STATUS_QUOTA_QPS,
		[QUOTA_CQS] = SHMD_STATUS_QUOTA_CQS,
		[QUOTA_MRS] = SHMD_STATUS_QUOTA_MRS,
		[QUOTA_BYTES] = SHMD_STATUS_QUOTA_BYTES,
		[QUOTA_FDS] = SHMD_STATUS_QUOTA_FDS,
		[QUOTA_PUBLISHED] = SHMD_STATUS_QUOTA_PUBLISHED,
		[QUOTA_MAPS] = SHMD_STATUS_QUOTA_MAPS,
	};
	struct session *session = req->session;
	int r = quota_charge(&session->user, amount, charge);

	if (r == 0)
		return 0;
	session->registry->refused_total++;
	quota_explain(&session->user, r - 1, amount->n[r - 1], req->text, sizeof(req->text));
	return (int)refusals[r - 1];
}

int request_add_fd(struct request *req, int borrowed_fd)
{
	_cleanup_close_ int fd = fcntl(borrowed_fd, F_DUPFD_CLOEXEC, 3);
	int r;

	if (fd < 0)
		return -errno;
	r = fdlist_add(&req->rep_fds, fd);
	if (r < 0)
		return r;
	take_fd(&fd);
	return (int)req->rep_fds.n - 1;
}

int request_add_held(struct request *req, int borrowed_fd)
{
	int fd = held_dup(borrowed_fd);
	int r = fd < 0 ? fd : fdlist_add(&req->rep_fds, fd);

	if (r < 0)
		held_close(fd);
	return r;
}

int request_refused_fd(struct request *req, const char *done)
{
	return request_fail(req, SHMD_STATUS_MEM_FD,
			    "the descriptor is %s, and cannot be %s: whoever closes one of these may have to wait for its file system; "
			    "memfds, dmabufs, CUDA memory, eventfds, pipes and sockets can",
			    req->fds->refused, done);
}

static int fail_unknown_nic(struct request *req, const char *name)
{
	const struct registry *registry = req->session->registry;
	struct suggest near = suggest_begin(name);
	const char *word;

	for (unsigned int i = 0; i < registry->n_nics; i++)
		suggest_offer(&near, registry->nics[i].info.name);
	word = suggest_result(&near);
	return request_fail(req, SHMD_STATUS_NO_NIC, word ? "no NIC is called \"%s\" (did you mean %s?)" : "no NIC is called \"%s\"",
			    name, word);
}

int request_no_nic(struct request *req, const char *name)
{
	const struct registry *registry = req->session->registry;
	const struct host_nic *seen = unmanaged_find(registry, name);
	char text[MSG_TEXT_BYTES];

	if (!seen)
		return fail_unknown_nic(req, name);
	unmanaged_text(registry, seen, text, sizeof(text));
	return request_fail(req, SHMD_STATUS_NO_NIC, "%s", text);
}

struct registry_nic *request_nic_by_name(struct request *req, const char *name)
{
	struct registry_nic *rnic = registry_find_nic(req->session->registry, name);

	if (!rnic)
		request_no_nic(req, name);
	return rnic;
}

struct session_nic *request_nic(struct request *req, uint32_t index)
{
	struct session_nic *nic = session_nic_by_index(req->session, index);

	if (!nic)
		request_fail(req, SHMD_STATUS_NOT_FOUND,
			     "this session has opened %u NIC%s; none has index %u",
			     req->session->n_nics, plural_s(req->session->n_nics), index);
	return nic;
}

/* Errnos of backends and the system, in the protocol's numbers. Rows of one message come before the general ones. */
static const struct {
	enum msg_kind kind; /* 0: any */
	int err;
	enum shmd_status status;
} statuses[] = {
	{MSG_MEM_REG_REQ, -EOPNOTSUPP, SHMD_STATUS_MEM_KIND},
	{MSG_MEM_REG_REQ, -EPERM, SHMD_STATUS_MEM_SEALS},
	{MSG_MEM_REG_REQ, -EINVAL, SHMD_STATUS_MEM_RANGE},
	{MSG_MEM_REG_REQ, -EEXIST, SHMD_STATUS_EXISTS},
	{MSG_AGENT_ATTACH_REQ, -EOPNOTSUPP, SHMD_STATUS_MEM_KIND},
	{MSG_AGENT_ATTACH_REQ, -EPERM, SHMD_STATUS_MEM_SEALS},
	{MSG_AGENT_ATTACH_REQ, -EINVAL, SHMD_STATUS_MEM_RANGE},
	{MSG_AGENT_ATTACH_REQ, -EEXIST, SHMD_STATUS_EXISTS},
	{MSG_QUEUE_CREATE_REQ, -EPERM, SHMD_STATUS_MEM_SEALS},
	{MSG_NIC_OPEN_REQ, -EOPNOTSUPP, SHMD_STATUS_DOORBELL},
	{MSG_NIC_DOORBELL_REQ, -EOPNOTSUPP, SHMD_STATUS_DOORBELL},
	{MSG_CONNECT_REQ, -EINVAL, SHMD_STATUS_QP_STATE},
	{MSG_QP_MODIFY_REQ, -EINVAL, SHMD_STATUS_QP_STATE},
	{0, -EOPNOTSUPP, SHMD_STATUS_BACKEND},
	{0, -EINVAL, SHMD_STATUS_INVALID},
	{0, -ENOSPC, SHMD_STATUS_NIC_LIMIT},
	{0, -EBUSY, SHMD_STATUS_BUSY},
	{0, -ENODEV, SHMD_STATUS_NIC_LOST},
	{0, -ENOENT, SHMD_STATUS_NOT_FOUND},
	{0, -EPERM, SHMD_STATUS_PERMISSION},
	{0, -EBADF, SHMD_STATUS_MEM_FD},
	{0, -ERANGE, SHMD_STATUS_MEM_RANGE},
	{0, -EOVERFLOW, SHMD_STATUS_INVALID},
	{0, -EHOSTUNREACH, SHMD_STATUS_UNREACHABLE},
	{0, -ENOMEM, SHMD_STATUS_NO_MEMORY},
	{0, -EMFILE, SHMD_STATUS_NO_MEMORY},
	{0, -ENFILE, SHMD_STATUS_NO_MEMORY},
};

enum shmd_status request_status(enum msg_kind kind, int err)
{
	for (unsigned int i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		if (statuses[i].err == err && (statuses[i].kind == 0 || statuses[i].kind == kind))
			return statuses[i].status;
	return SHMD_STATUS_INTERNAL;
}
