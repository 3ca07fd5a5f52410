/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory agents: a client hands the ring that its agent serves to a NIC, and gets the eventfd by which the NIC wakes the agent.
 *
 * Refused: a NIC that takes no agent memory, a ring that could shrink, or grow between its charge and the NIC's mapping. The NIC judges what the ring says. A second ring takes the place of
 * the first as long as no region needs that one: a client that got no answer asks again with a new ring. The next daemon could not know which requests the agent still carries out, so a session with a ring is not kept.
 * Control thread, but run_attach().
 */
#include "daemon/session/dispatch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <syslog.h>

#include "daemon/nic/nic.h"
#include "proto/base/cleanup.h"

#define ATTACH_FDS 2u /* the NIC's eventfd, and ours until the answer has gone */

struct attach {
	struct session_nic *nic;
	int ring_fd; /* the request's */
	struct quota_charge charge; /* of the ring */
	int r;
};

static void run_attach(struct request *req)
{
	_cleanup_close_ int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct attach *op = req->op;
	struct nic_ctx *ctx = op->nic->ctx;
	int index;

	/* In the answer first: an attach cannot be undone. -EEXIST: a region needs the former ring. */
	index = wake_fd < 0 ? -errno : request_add_fd(req, wake_fd);
	op->r = index < 0 ? index : ctx->nic->ops->agent_attach(ctx, op->ring_fd, wake_fd);
	if (op->r == 0)
		req->rep->agent_attach_rep.wake_fd = (uint32_t)index;
}

static int finish_attach(struct request *req)
{
	struct attach *op = req->op;
	struct session_nic *nic = op->nic;

	if (op->r < 0) {
		quota_charge_deinit(&op->charge);
		return op->r;
	}
	quota_charge_deinit(&nic->agent_charge);
	nic->agent_charge = op->charge;
	nic->has_agent = true;
	session_note(req->session, LOG_DEBUG, NOTE_NIC, "a memory agent serves %s", nic->rnic->info.name);
	session_save(req->session, SAVE_NIC, nic, -1);
	return 0;
}

static int charge(struct request *req, uint64_t bytes, struct quota_charge *ret_charge)
{
	const struct quota_amount amount = {.n = {[QUOTA_FDS] = ATTACH_FDS, [QUOTA_BYTES] = bytes, [QUOTA_MAPS] = 1}};

	return request_charge(req, &amount, ret_charge);
}

int request_check_agent(struct request *req, const struct session_nic *nic)
{
	if (nic->has_agent)
		return 0;
	return request_fail(req, SHMD_STATUS_INVALID, "no memory agent serves %s for this session: attach its ring first",
			    nic->rnic->info.name);
}

static int check_ring(struct request *req, const struct session_nic *nic, int fd, uint64_t *ret_bytes)
{
	const struct mem_claim kind = {.kind = MSG_MEM_AGENT, .fd = -1};
	int r = request_check_mem(req, nic->rnic, &kind), seals;

	if (r != 0)
		return r;
	/* Before its size is read. */
	seals = fcntl(fd, F_GET_SEALS);
	r = nic_memfd_check(fd, ret_bytes);
	if (r == -EPERM || (r == 0 && !(seals & F_SEAL_GROW)))
		return request_fail(req, SHMD_STATUS_MEM_SEALS, "the ring is not sealed against shrinking and growing");
	return r;
}

int handle_agent_attach(struct request *req)
{
	const struct msg_agent_attach_req *ask = &req->msg->agent_attach_req;
	struct session_nic *nic = request_nic(req, ask->nic);
	struct quota_charge ring_charge = {0};
	struct attach *op;
	uint64_t bytes;
	int fd, r;

	if (!nic)
		return SHMD_STATUS_NOT_FOUND;
	fd = fdlist_get(req->fds, ask->ring_fd);
	r = check_ring(req, nic, fd, &bytes);
	if (r == 0)
		r = charge(req, bytes, &ring_charge);
	if (r != 0)
		return r;
	op = request_op(req, sizeof(*op));
	if (!op) {
		quota_charge_deinit(&ring_charge);
		return -ENOMEM;
	}
	op->charge = ring_charge;
	op->nic = nic;
	op->ring_fd = fd;
	req->rep->kind = MSG_AGENT_ATTACH_REP;
	return request_work(req, nic_takes_time(nic->rnic->nic), run_attach, finish_attach);
}
