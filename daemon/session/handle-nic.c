/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NICs: list them, open one. A context is opened here and closed by teardown only; opening the same NIC twice
 * in a session is refused, since everything in it is found by the NIC's index. Control thread, but run_open().
 */
#include "daemon/host/host.h"
#include "daemon/session/dispatch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "daemon/session/assign.h"
#include "daemon/session/list-items.h"
#include "daemon/session/node-map.h"
#include "proto/base/cleanup.h"
#include "proto/text.h"

/* Most a context holds: doorbell page, NIC page, wake. */
#define NIC_OPEN_FDS 3
#define PORTER_FDS 2 /* copies for its porters: wake, command descriptor */

int handle_nic_list(struct request *req)
{
	struct registry *registry = req->session->registry;
	struct msg_nic_list_rep *rep = &req->rep->nic_list_rep;

	req->rep->kind = MSG_NIC_LIST_REP;
	rep->nics = calloc(registry->n_nics, sizeof(*rep->nics));
	if (!rep->nics && registry->n_nics > 0)
		return -ENOMEM;
	for (unsigned int i = 0; i < registry->n_nics; i++) {
		registry_refresh_nic(&registry->nics[i]);
		fill_nic(&rep->nics[i], &registry->nics[i]);
	}
	rep->n_nics = registry->n_nics;
	return 0;
}

static uint64_t taken_nics(const struct session *session)
{
	uint64_t taken = 0;

	for (unsigned int i = 0; i < session->n_nics; i++)
		taken |= 1ull << session->nics[i]->rnic->index;
	return taken;
}

/* One with an active port, which the policy then keeps from everybody; NULL: there is none. */
static const struct registry_nic *first_active(const struct registry *registry)
{
	for (unsigned int i = 0; i < registry->n_nics; i++)
		if (registry->nics[i].info.state == NIC_PORT_ACTIVE)
			return &registry->nics[i];
	return NULL;
}

/* None of the present NICs will do. */
static int fail_nodev(struct request *req, const char *name)
{
	const struct host_list *unmanaged = req->session->registry->unmanaged;
	const struct registry_nic *kept = first_active(req->session->registry);

	if (name[0])
		return request_fail(req, SHMD_STATUS_NO_NIC, "the NIC is gone");
	if (kept)
		return request_fail(req, SHMD_STATUS_NO_NIC,
				    "nics-include and nics-exclude of shmemd.conf exclude every NIC with an active port, such as %s",
				    kept->info.name);
	if (!unmanaged || unmanaged->n == 0)
		return request_fail(req, SHMD_STATUS_NO_NIC, "no NIC has an active port");
	return request_fail(req, SHMD_STATUS_NO_NIC,
			    "no NIC of shmemd has an active port, and shmemd does not manage %s%s; see \"shmemctl list nics\"",
			    unmanaged->nics[0].name, unmanaged->n > 1 ? " and others" : "");
}

static int fail_no_gpu(struct request *req, const char *gpu)
{
	char gpus[MSG_TEXT_BYTES / 2];

	node_map_gpus_text(req->session->registry->node_map, gpus, sizeof(gpus));
	return request_fail(req, SHMD_STATUS_INVALID, "this machine has no GPU %s; its GPUs are %s", gpu, gpus);
}

static int choose_nic(struct request *req, char reason[MSG_TEXT_BYTES],
		      char gpu[REGISTRY_GPU_BYTES], struct registry_nic **ret_rnic)
{
	const struct msg_nic_open_req *open = &req->msg->nic_open_req;
	struct session *session = req->session;
	const struct assign_request wanted = {
		.gpu = gpu, .nic = open->nic, .taken = taken_nics(session)};
	int r;

	if (open->gpu[0] && assign_parse_gpu(open->gpu, gpu) < 0)
		return request_fail(req, SHMD_STATUS_INVALID,
				    "\"%s\" is neither a PCI address like 0000:3b:00.0 nor a UUID like GPU-...; name a MIG device by its GPU",
				    open->gpu);
	if (gpu[0] && node_map_lacks_gpu(session->registry->node_map, gpu))
		return fail_no_gpu(req, gpu);
	r = assign_nic(session->registry, &wanted, reason, MSG_TEXT_BYTES, ret_rnic);
	if (r == -ENOENT)
		return request_no_nic(req, open->nic);
	if (r == -ENODEV)
		return fail_nodev(req, open->nic);
	if (r == -EPERM)
		return request_fail(req, SHMD_STATUS_PERMISSION,
				    "nics-include and nics-exclude of shmemd.conf exclude %s", open->nic);
	if (r < 0)
		return r;
	if (session_nic_by_rnic(session, *ret_rnic))
		return request_fail(req, SHMD_STATUS_EXISTS, "this session has already opened %s",
				    (*ret_rnic)->info.name);
	return 0;
}

/* Its own state while it is opened: the context, which becomes the session's when nothing can fail any more. */
struct open {
	struct session_nic *nic; /* owned */
	struct nic_ctx_attr attr;
	int r;
};

/*
 * The mode that the client asked for, unless the administrator wants cpu only. That is the best there is where the NIC has
 * nothing else, and then nothing to explain.
 */
static int choose_doorbell(struct request *req, const struct nic_info *info, enum nic_doorbell_mode *ret_mode)
{
	enum nic_doorbell_mode mode = (enum nic_doorbell_mode)req->msg->nic_open_req.doorbell;

	if (req->session->registry->attr.cpu_doorbells && info->doorbell_uar_mmap) {
		if (mode == NIC_DOORBELL_UAR_MMAP || !info->doorbell_cpu)
			return request_fail(req, SHMD_STATUS_DOORBELL,
					    "shmemd is set to doorbell = cpu%s%s", info->doorbell_cpu ? "" : ", which this NIC does not offer: ",
					    info->doorbell_cpu ? "" : info->name);
		mode = NIC_DOORBELL_CPU;
	}
	*ret_mode = mode;
	return 0;
}

/* page_fd is an index, the others index + 1 with 0 for none. */
static int fill_doorbell(struct request *req, const struct nic_doorbell *doorbell)
{
	struct msg_nic_open_rep *rep = &req->rep->nic_open_rep;
	int page, nic_page = -1, wake = -1;

	page = request_add_fd(req, doorbell->page_fd);
	if (page < 0)
		return page;
	if (doorbell->nic_page_fd >= 0) {
		nic_page = request_add_fd(req, doorbell->nic_page_fd);
		if (nic_page < 0)
			return nic_page;
	}
	if (doorbell->wake_fd >= 0) {
		wake = request_add_fd(req, doorbell->wake_fd);
		if (wake < 0)
			return wake;
	}
	rep->page_fd = (uint32_t)page;
	rep->nic_page_fd = (uint32_t)(nic_page + 1);
	rep->wake_fd = (uint32_t)(wake + 1);
	rep->doorbell = doorbell->mode;
	rep->page_offset = doorbell->page_offset;
	rep->register_offset = doorbell->register_offset;
	return 0;
}

static const char *mode_name(uint32_t mode)
{
	return mode == NIC_DOORBELL_UAR_MMAP ? "uar-mmap" : "cpu";
}

/* Control thread: for lists, the log and the client. */
static void set_doorbell(struct session_nic *nic, const char *reason)
{
	nic->doorbell = nic->ctx->doorbell.mode;
	snprintf(nic->doorbell_reason, sizeof(nic->doorbell_reason), "%s", reason);
	/* It may have been cut within a character. */
	text_clean(nic->doorbell_reason, strlen(nic->doorbell_reason));
}

static void tell_doorbell(struct request *req, const struct session_nic *nic)
{
	struct msg_nic_open_rep *rep = &req->rep->nic_open_rep;

	memcpy(rep->reason, nic->doorbell_reason, sizeof(rep->reason));
	rep->nic = nic->index;
	rep->pd = nic->ctx->client_pd;
	fill_nic(&rep->info, nic->rnic);
}

static void run_open(struct request *req)
{
	struct open *op = req->op;
	struct nic *nic = op->nic->rnic->nic;

	op->r = nic->ops->ctx_open(nic, &op->attr, &op->nic->ctx);
	if (op->r < 0)
		return;
	op->r = fill_doorbell(req, &op->nic->ctx->doorbell);
	if (op->r < 0)
		op->nic->ctx = nic->ops->ctx_close(op->nic->ctx);
}

/* The teardown closes the context of a session for which this fails: here the control thread would wait for it. */
static int attached(struct session *session, int r)
{
	if (r < 0)
		session_end(session, SHMD_STATUS_NO_MEMORY, "no memory for the descriptors of a NIC: %s", strerror(-r));
	return r;
}

static int refuse_open(struct request *req, const struct session_nic *nic, int r)
{
	return r == -EUSERS ? request_fail(req, SHMD_STATUS_NIC_LIMIT, "%s serves as many users as it can at once",
					   nic->rnic->info.name)
			    : r;
}

static int finish_open(struct request *req)
{
	struct msg_nic_open_rep *rep = &req->rep->nic_open_rep;
	struct session *session = req->session;
	struct open *op = req->op;
	struct session_nic *nic = op->nic;
	int r;

	if (op->r < 0) {
		r = refuse_open(req, nic, op->r);
		session_nic_free(nic);
		return r;
	}
	nic->index = session->n_nics;
	session->nics[session->n_nics++] = nic;
	r = attached(session, session_attach_ctx(session, nic->ctx));
	if (r < 0)
		return r;
	set_doorbell(nic,
		     req->msg->nic_open_req.doorbell == NIC_DOORBELL_AUTO && op->attr.doorbell == NIC_DOORBELL_CPU
			     ? "shmemd is set to doorbell = cpu" : nic->ctx->doorbell.reason);
	tell_doorbell(req, nic);
	session_note(session, LOG_DEBUG, NOTE_NIC, "opened %s as NIC %u (%s), doorbell mode %s%s%s",
		     nic->rnic->info.name, nic->index, rep->assignment, mode_name(rep->doorbell),
		     rep->reason[0] ? ": " : "", rep->reason);
	/* Opened by name while the port is down: the event was before this session's time. */
	session_health_port(session, nic, nic->rnic->info.state);
	/* Events from before the session knew this context were not looked at. */
	session->wants_look |= nic->rnic->nic->blocks;
	session_save(session, SAVE_NIC, nic, -1);
	return 0;
}

static int charge_open(struct request *req, struct session_nic *nic)
{
	const struct quota_amount amount = {
		.n = {[QUOTA_FDS] = NIC_OPEN_FDS + (req->session->connection.slot ? PORTER_FDS : 0),
		      [QUOTA_MAPS] = nic->rnic->nic->maps_per_ctx}};
	int r = request_charge(req, &amount, &nic->charge);

	if (r != 0)
		return r;
	nic->rnic->n_sessions++;
	nic->is_counted = true;
	return 0;
}

int handle_nic_open(struct request *req)
{
	const struct msg_nic_open_req *open = &req->msg->nic_open_req;
	_cleanup_(session_nic_freep) struct session_nic *nic = calloc(1, sizeof(*nic));
	struct open *op = request_op(req, sizeof(*op));
	int r;

	if (!nic || !op)
		return -ENOMEM;
	if (open->doorbell > NIC_DOORBELL_UAR_MMAP)
		return request_fail(req, SHMD_STATUS_INVALID, "doorbell mode %u is not 0, 1 or 2",
				    open->doorbell);
	req->rep->kind = MSG_NIC_OPEN_REP;
	nic->session = req->session;
	r = choose_nic(req, req->rep->nic_open_rep.assignment, nic->gpu, &nic->rnic);
	if (r == 0)
		r = choose_doorbell(req, &nic->rnic->info, &op->attr.doorbell);
	if (r == 0)
		r = charge_open(req, nic);
	if (r != 0)
		return r;
	op->attr = (struct nic_ctx_attr){
		.session_id = req->session->id,
		.uid = req->session->identity.uid,
		.doorbell = op->attr.doorbell,
		.health_fd = req->session->health_fd,
		.is_saved = session_is_saved(req->session),
	};
	op->nic = take_ptr(nic);
	return request_change(req, op->nic, run_open, finish_open);
}

/* ---- the client cannot use its page ---------------------------------------------------------------------------- */

struct fall_back {
	struct session_nic *nic; /* the session's, which stays while a worker has its request */
	bool again; /* it has fallen back before: the same page once more */
	int r;
};

static void run_fall_back(struct request *req)
{
	struct fall_back *op = req->op;
	struct nic_ctx *ctx = op->nic->ctx;

	op->r = op->again ? 0 : ctx->nic->ops->ctx_to_cpu(ctx);
	if (op->r == 0)
		op->r = fill_doorbell(req, &ctx->doorbell);
}

static void note_fall_back(struct session *session, struct session_nic *nic, const char *why)
{
	char reason[MSG_TEXT_BYTES];

	snprintf(reason, sizeof(reason), "client: %.247s", why);
	set_doorbell(nic, reason);
	nic->fell_back = true;
	session->saved.changed = true;
	session_save(session, SAVE_NIC, nic, -1);
	session_note(session, LOG_NOTICE, NOTE_NIC, "%s is in doorbell mode cpu from now on: %s",
		     nic->rnic->info.name, nic->doorbell_reason);
}

static int finish_fall_back(struct request *req)
{
	struct fall_back *op = req->op;
	struct session_nic *nic = op->nic;

	/* Also when its descriptors found no place in the answer: the context is in that mode, and the client asks again. */
	if (!op->again && nic->ctx->doorbell.mode == NIC_DOORBELL_CPU) {
		/* The command descriptor is there since the context was opened. */
		int r = attached(req->session, session_attach(req->session, nic->ctx->doorbell.wake_fd, true));

		if (r < 0)
			return r;
		note_fall_back(req->session, nic, req->msg->nic_doorbell_req.reason);
	}
	if (op->r == 0)
		tell_doorbell(req, nic);
	return op->r;
}

int handle_nic_doorbell(struct request *req)
{
	const struct msg_nic_doorbell_req *ask = &req->msg->nic_doorbell_req;
	struct session_nic *nic = request_nic(req, ask->nic);
	struct fall_back *op;

	if (!nic)
		return SHMD_STATUS_NOT_FOUND;
	if (ask->doorbell != NIC_DOORBELL_CPU || !ask->reason[0])
		return request_fail(req, SHMD_STATUS_INVALID, "only mode 1 (cpu) can be changed to, and for a reason");
	if (nic->doorbell != NIC_DOORBELL_UAR_MMAP && !nic->fell_back)
		return request_fail(req, SHMD_STATUS_EXISTS, "%s is in doorbell mode cpu", nic->rnic->info.name);
	op = request_op(req, sizeof(*op));
	if (!op)
		return -ENOMEM;
	op->nic = nic;
	op->again = nic->fell_back;
	req->rep->kind = MSG_NIC_OPEN_REP;
	return request_change(req, nic, run_fall_back, finish_fall_back);
}
