/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory: check what a client sent, register it, deregister it.
 *
 * A descriptor is judged here before any backend sees it: is it what its kind says, can it not shrink under us,
 * does it hold the range. A kind that the NIC does not accept is refused with a list of the kinds that it accepts. A region that the client made
 * itself has no descriptor, and the NIC's backend asks the kernel about it. Control thread, but run_reg() and run_dereg().
 */
#include "daemon/session/dispatch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "daemon/porter/held.h"
#include "proto/base/assert.h"
#include "proto/base/overflow.h"

#define MEM_PAGE_BYTES 4096u

static const char *const kind_names[] = {
	[MSG_MEM_UNSET] = "unset",
	[MSG_MEM_MEMFD] = "memfd",
	[MSG_MEM_DMABUF] = "dmabuf",
	[MSG_MEM_AGENT] = "agent",
	[MSG_MEM_PEERMEM] = "peermem",
};

_Static_assert((int)MSG_MEM_MEMFD == NIC_MEM_MEMFD && (int)MSG_MEM_DMABUF == NIC_MEM_DMABUF &&
		       (int)MSG_MEM_AGENT == NIC_MEM_AGENT && (int)MSG_MEM_PEERMEM == NIC_MEM_PEERMEM, "the wire and nic.h number kinds alike");

static bool kind_accepted(const struct nic_info *info, enum msg_mem_kind kind)
{
	for (int i = 0; i < 4 && info->accepted_kinds[i]; i++)
		if (info->accepted_kinds[i] == (uint32_t)kind)
			return true;
	return false;
}

/* With the kinds that would be accepted, in words and as bits. */
static int refuse_kind(struct request *req, const struct nic_info *info, enum msg_mem_kind kind)
{
	char names[64] = "";

	for (int i = 0; i < 4 && info->accepted_kinds[i]; i++) {
		size_t used = strlen(names);

		req->accepted_kinds |= 1u << info->accepted_kinds[i];
		snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "",
			 kind_names[info->accepted_kinds[i]]);
	}
	return request_fail(req, SHMD_STATUS_MEM_KIND, "%s does not accept %s memory; it accepts %s",
			    info->name, kind_names[kind], names);
}

static int check_memfd(struct request *req, const struct mem_claim *claim, uint64_t *ret_size)
{
	int seals = fcntl(claim->fd, F_GET_SEALS); /* first: no file system but the kernel's own passes it */
	int flags = fcntl(claim->fd, F_GETFL);
	struct stat st;

	if (seals < 0 || fstat(claim->fd, &st) < 0 || !S_ISREG(st.st_mode))
		return request_fail(req, SHMD_STATUS_MEM_FD, "the descriptor is not a memfd");
	if (!(seals & F_SEAL_SHRINK))
		return request_fail(req, SHMD_STATUS_MEM_SEALS,
				    "the memfd is not sealed against shrinking: "
				    "add F_SEAL_SHRINK before registering it");
	if (claim->writable && (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)))
		return request_fail(req, SHMD_STATUS_MEM_SEALS,
				    "the memfd is sealed against writing, and the access asked for writes");
	if (claim->writable && (flags & O_ACCMODE) != O_RDWR)
		return request_fail(req, SHMD_STATUS_MEM_FD,
				    "the memfd is open for reading only, and the access asked for writes");
	*ret_size = (uint64_t)st.st_size;
	return 0;
}

static int check_dmabuf(struct request *req, const struct mem_claim *claim, uint64_t *ret_size)
{
	struct inspect_info info;

	held_inspect(claim->fd, &info);
	if (info.kind != INSPECT_DMABUF)
		return request_fail(req, SHMD_STATUS_MEM_FD, "the descriptor is not a dmabuf");
	*ret_size = info.bytes;
	return 0;
}

int request_check_mem(struct request *req, const struct registry_nic *rnic,
		      const struct mem_claim *claim)
{
	uint64_t size = UINT64_MAX;
	int r = 0;

	if (!kind_accepted(&rnic->info, claim->kind))
		return refuse_kind(req, &rnic->info, claim->kind);
	if (claim->kind == MSG_MEM_MEMFD)
		r = check_memfd(req, claim, &size);
	else if (claim->kind == MSG_MEM_DMABUF)
		r = check_dmabuf(req, claim, &size);
	if (r != 0)
		return r;
	if (!range_fits(claim->offset, claim->length_bytes, size))
		return request_fail(req, SHMD_STATUS_MEM_RANGE,
				    "%" PRIu64 " bytes from offset %" PRIu64
				    " do not fit into the %" PRIu64 " bytes of the descriptor",
				    claim->length_bytes, claim->offset, size);
	return 0;
}

static int check_reg(struct request *req, const struct msg_mem_reg_req *reg)
{
	uint64_t end;

	if (reg->kind == MSG_MEM_UNSET)
		return request_fail(req, SHMD_STATUS_INVALID, "no kind of memory is named");
	if (reg->access & ~NIC_ACCESS_ALL)
		return request_fail(req, SHMD_STATUS_INVALID, "access 0x%x has unknown bits; known are 0x%x",
				    reg->access, NIC_ACCESS_ALL);
	if (reg->kind != MSG_MEM_AGENT && (reg->iova ^ reg->offset) % MEM_PAGE_BYTES)
		return request_fail(req, SHMD_STATUS_INVALID,
				    "iova 0x%" PRIx64 " and offset 0x%" PRIx64
				    " must agree in their last 12 bits, since NICs translate pages",
				    reg->iova, reg->offset);
	if (reg->length_bytes == 0)
		return request_fail(req, SHMD_STATUS_MEM_RANGE, "the length is 0");
	if (add_overflows(reg->iova, reg->length_bytes - 1, &end))
		return request_fail(req, SHMD_STATUS_MEM_RANGE,
				    "%" PRIu64 " bytes from iova 0x%" PRIx64 " pass the end of the address space",
				    reg->length_bytes, reg->iova);
	return 0;
}

static struct session_mr *mr_new(struct session_nic *nic, const struct msg_mem_reg_req *reg)
{
	struct session_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	resource_init(&mr->head, RESOURCE_MR);
	mr->nic = nic;
	mr->kind = (enum nic_mem_kind)reg->kind;
	mr->iova = reg->iova;
	mr->length_bytes = reg->length_bytes;
	mr->access = reg->access;
	memcpy(mr->reason, reg->reason, sizeof(mr->reason));
	return mr;
}

struct reg {
	struct session_mr *mr; /* owned; registering: until the session's table has it */
	struct nic_mr_attr attr;
	int r;
};

static void run_reg(struct request *req)
{
	struct reg *op = req->op;
	struct nic_ctx *ctx = op->mr->nic->ctx;

	op->r = ctx->nic->ops->mr_reg(ctx, &op->attr, &op->mr->mr);
}

/* One of each NIC of a session is enough for the log. */
static void note_reason(struct session *session, const struct session_mr *mr)
{
	struct session_nic *nic = mr->nic;

	if (!mr->reason[0])
		return;
	session_note(session, nic->told_memory ? LOG_DEBUG : LOG_NOTICE, NOTE_NIC, "%s memory on %s: client: %s",
		     kind_names[mr->kind], nic->rnic->info.name, mr->reason);
	nic->told_memory = true;
}

static int finish_reg(struct request *req)
{
	struct reg *op = req->op;
	struct session_mr *mr = op->mr;
	int r = op->r;

	if (r < 0) {
		session_mr_free(req->session, mr);
		return r;
	}
	r = resource_add(&req->session->resources, &mr->head);
	assert_bug(r == 0); /* reserved */
	note_reason(req->session, mr);
	session_save(req->session, SAVE_MR, mr, op->attr.fd);
	req->rep->kind = MSG_MEM_REG_REP;
	req->rep->mem_reg_rep = (struct msg_mem_reg_rep){
		.mr = mr->head.handle, .lkey = mr->mr->lkey, .rkey = mr->mr->rkey};
	return 0;
}

static int reg_mr(struct request *req, struct session_nic *nic, int fd)
{
	const struct msg_mem_reg_req *reg = &req->msg->mem_reg_req;
	const struct quota_amount amount = {
		.n = {[QUOTA_MRS] = 1, [QUOTA_BYTES] = reg->length_bytes, [QUOTA_MAPS] = SESSION_MR_MAPS}};
	struct reg *op = request_op(req, sizeof(*op));
	int r;

	if (!op)
		return -ENOMEM;
	r = resource_reserve(&req->session->resources);
	if (r < 0)
		return r;
	op->mr = mr_new(nic, reg);
	if (!op->mr)
		return -ENOMEM;
	op->attr = (struct nic_mr_attr){
		.kind = op->mr->kind,
		.fd = fd,
		.handle = reg->kernel_handle,
		.offset = reg->offset,
		.length_bytes = reg->length_bytes,
		.iova = reg->iova,
		.access = reg->access,
	};
	if (op->mr->kind == NIC_MEM_DMABUF)
		op->mr->held = held_ref(fd);
	r = request_charge(req, &amount, &op->mr->head.charge);
	if (r != 0) {
		session_mr_free(req->session, op->mr);
		return r;
	}
	return request_change(req, nic, run_reg, finish_reg);
}

/* Without the command descriptor a client has registered nothing, and the handle is another object's. */
static int check_descriptor(struct request *req, const struct session_nic *nic)
{
	if (nic->ctx->client_pd)
		return 0;
	return request_fail(req, SHMD_STATUS_PERMISSION,
			    "this session got no command descriptor of %s, so that it cannot have registered memory there itself",
			    nic->rnic->info.name);
}

int handle_mem_reg(struct request *req)
{
	const struct msg_mem_reg_req *reg = &req->msg->mem_reg_req;
	struct session_nic *nic = request_nic(req, reg->nic);
	struct mem_claim claim = {
		.kind = reg->kind,
		.fd = -1,
		.offset = reg->offset,
		.length_bytes = reg->length_bytes,
		.writable = reg->access & ~NIC_ACCESS_REMOTE_READ,
	};
	int r;

	if (!nic)
		return SHMD_STATUS_NOT_FOUND;
	r = check_reg(req, reg);
	if (r != 0)
		return r;
	if (reg->kind == MSG_MEM_MEMFD || reg->kind == MSG_MEM_DMABUF)
		claim.fd = fdlist_get(req->fds, reg->fd);
	r = request_check_mem(req, nic->rnic, &claim);
	if (r == 0 && reg->kind == MSG_MEM_AGENT)
		r = request_check_agent(req, nic);
	if (r == 0 && reg->kind == MSG_MEM_PEERMEM)
		r = check_descriptor(req, nic);
	return r != 0 ? r : reg_mr(req, nic, claim.fd);
}

static void run_dereg(struct request *req)
{
	struct reg *op = req->op;

	op->mr->mr = op->mr->mr->ctx->nic->ops->mr_dereg(op->mr->mr);
}

static int finish_dereg(struct request *req)
{
	struct reg *op = req->op;

	op->mr = session_mr_free(req->session, op->mr);
	return 0;
}

int handle_mem_dereg(struct request *req)
{
	uint32_t handle = req->msg->mem_dereg_req.handle;
	struct resource *head = resource_find(&req->session->resources, handle, RESOURCE_MR);
	struct reg *op;

	if (!head)
		return request_fail(req, SHMD_STATUS_NOT_FOUND, "this session has no memory region 0x%x",
				    handle);
	op = request_op(req, sizeof(*op));
	if (!op)
		return -ENOMEM;
	op->mr = container_of(head, struct session_mr, head);
	return request_change(req, op->mr->nic, run_dereg, finish_dereg);
}
