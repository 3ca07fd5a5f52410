/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory regions: descriptors registered with a NIC.
 *
 * The daemon keeps a mapping or reference of its own, so an MR outlives the descriptor it was made from.
 *
 * The library registers addresses without a descriptor (SHMD_MEM_PEERMEM) itself and sends the daemon the kernel's handle: from
 * then on the daemon ends the region, like any other. The library ends a region that the daemon refuses.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <unistd.h>

#include "libclient/agent.h"
#include "libclient/command-fd.h"
#include "libclient/objects.h"
#include "proto/base/overflow.h"

void mr_free(struct shmd_mr *mr)
{
	list_del(&mr->link);
	mr->nic->n_users--;
	free(mr);
}

static bool has_fd(const struct shmd_mr_attr *attr)
{
	return attr->kind == SHMD_MEM_MEMFD || attr->kind == SHMD_MEM_DMABUF;
}

static int check_attr(const struct shmd_mr_attr *attr)
{
	uint64_t end;

	if (attr->kind < SHMD_MEM_MEMFD || attr->kind > SHMD_MEM_PEERMEM)
		return text_fail(-EINVAL, "memory kind %d is unknown", (int)attr->kind);
	if (attr->kind == SHMD_MEM_AGENT)
		return text_fail(-EINVAL, "memory of kind agent belongs to a GPU: register it by shmd_gpu_mr_reg()");
	if (!attr->length_bytes || add_overflows(attr->offset, attr->length_bytes, &end) ||
	    add_overflows(attr->iova, attr->length_bytes, &end))
		return text_fail(-EINVAL, "the range is empty or wraps around");
	if (attr->access & ~SHMD_ACCESS_ALL)
		return text_fail(-EINVAL, "access 0x%x has unknown bits", attr->access);
	if (has_fd(attr) && attr->fd < 0)
		return text_fail(-EBADF, "this kind of memory needs a descriptor");
	return 0;
}

static void fill_reg(struct request *call, const struct shmd_nic *nic, const struct shmd_mr_attr *attr, const char *reason)
{
	struct msg_mem_reg_req *req = &call->req.mem_reg_req;

	*req = (struct msg_mem_reg_req){
		.nic = nic->info.index,
		.kind = (enum msg_mem_kind)attr->kind,
		.fd = 0,
		.access = attr->access,
		.offset = attr->offset,
		.length_bytes = attr->length_bytes,
		.iova = attr->iova,
	};
	text_copy(req->reason, sizeof(req->reason), reason);
	if (has_fd(attr))
		call->fd = attr->fd;
}

/* ---- addresses of this process ------------------------------------------------------------------------------------- */

const char *mr_peer_module(void)
{
	static const char *const modules[] = {"nvidia_peermem", "nv_peer_mem"};
	const char *root = secure_getenv("SHMEMD_SYSFS");
	char path[512];

	for (unsigned int i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
		snprintf(path, sizeof(path), "%s/module/%s", root && root[0] == '/' ? root : "/sys", modules[i]);
		if (!access(path, F_OK))
			return modules[i];
	}
	return NULL;
}

/* A hint only: some kernels pin memory of a GPU without such a module. */
static int fail_pin(int err, const struct shmd_mr_attr *attr)
{
	const char *module = mr_peer_module();

	return text_fail(err, "the kernel does not register 0x%" PRIx64 " (%s), and %s is loaded", attr->offset, strerror(-err),
			 module ? module : "neither nvidia_peermem nor nv_peer_mem");
}

static int reg_here(const struct shmd_nic *nic, const struct shmd_mr_attr *attr, uint32_t *ret_handle)
{
	const struct command_reg reg = {.pd = nic->pd,
					.access = attr->access,
					.addr = attr->offset,
					.length_bytes = attr->length_bytes,
					.iova = attr->iova};
	int r;

	if (nic->command_fd < 0)
		return text_fail(-EOPNOTSUPP, "shmemd handed out no command descriptor of %s (doorbell mode cpu)", nic->info.name);
	r = command_fd_reg(nic->command_fd, &reg, ret_handle);
	return r < 0 ? fail_pin(r, attr) : 0;
}

/*
 * A daemon that takes over destroys regions that no record names. If it destroyed one before it read the request, the handle
 * names no region, or another one: the library makes the region again.
 */
#define MAX_TRIES 3

static bool is_lost(int err)
{
	return err == -ENOENT || err == -EEXIST;
}

/*
 * The daemon did not take the region. After a time-out it still may, and without a daemon the outcome is unknown: then the region
 * ends with the context.
 */
static void take_back(const struct shmd_nic *nic, uint32_t handle, int err)
{
	if (err != -ETIMEDOUT && !is_lost(err) && !nic->client->dead)
		(void)command_fd_dereg(nic->command_fd, handle);
}

/* ---- registering --------------------------------------------------------------------------------------------------- */

static int tell_own(struct shmd_nic *nic, const struct shmd_mr_attr *attr, struct request *call)
{
	uint32_t handle;
	int r = reg_here(nic, attr, &handle);

	if (r < 0)
		return r;
	call->req.mem_reg_req.kernel_handle = handle;
	r = request_call(nic->client, call);
	if (r < 0)
		take_back(nic, handle, r);
	return r;
}

static int reg_own(struct shmd_nic *nic, const struct shmd_mr_attr *attr, struct request *call)
{
	int r = tell_own(nic, attr, call);

	for (int i = 1; i < MAX_TRIES && is_lost(r); i++) {
		msg_deinit(&call->rep);
		msg_init(&call->rep, MSG_OK_REP, 0);
		r = tell_own(nic, attr, call);
	}
	return r;
}

static int call_reg(struct shmd_nic *nic, const struct shmd_mr_attr *attr, struct request *call)
{
	/* If sealing fails, the daemon's answer says what is missing. */
	if (attr->kind == SHMD_MEM_MEMFD)
		(void)mem_seal(attr->fd, F_SEAL_SHRINK);
	if (attr->kind != SHMD_MEM_PEERMEM)
		return request_call(nic->client, call);
	return reg_own(nic, attr, call);
}

int mr_reg(struct shmd_nic *nic, const struct shmd_mr_attr *attr, const char *reason, struct shmd_mr **ret_mr)
{
	_cleanup_request_ struct request call;
	_cleanup_free_ struct shmd_mr *mr = calloc(1, sizeof(*mr));
	int r;

	request_init(&call, MSG_MEM_REG_REQ, MSG_MEM_REG_REP);
	if (!mr)
		return text_fail(-ENOMEM, "no memory for a memory region");
	fill_reg(&call, nic, attr, reason);
	r = call_reg(nic, attr, &call);
	if (r < 0)
		return r;
	mr->nic = nic;
	mr->handle = call.rep.mem_reg_rep.mr;
	mr->lkey = call.rep.mem_reg_rep.lkey;
	mr->rkey = call.rep.mem_reg_rep.rkey;
	mr->info = (struct shmd_mr_info){
		.kind = attr->kind, .access = attr->access, .iova = attr->iova, .length_bytes = attr->length_bytes};
	text_copy(mr->info.reason, sizeof(mr->info.reason), reason);
	client_lock(nic->client);
	list_add_tail(&nic->client->mrs, &mr->link);
	nic->n_users++;
	client_unlock(nic->client);
	*ret_mr = take_ptr(mr);
	return 0;
}

int shmd_mr_reg(struct shmd_nic *nic, const struct shmd_mr_attr *attr, struct shmd_mr **ret_mr)
{
	struct shmd_mr_attr filled;
	int r = client_check(nic ? nic->client : NULL);

	if (r < 0)
		return r;
	if (!attr || !ret_mr)
		return text_fail(-EINVAL, "attr or ret_mr is NULL");
	filled = *attr;
	if (!filled.kind)
		filled.kind = SHMD_MEM_MEMFD;
	r = check_attr(&filled);
	return r < 0 ? r : mr_reg(nic, &filled, "", ret_mr);
}

int shmd_mr_reg_mem(struct shmd_nic *nic, const struct shmd_mem *mem, uint32_t access,
		    struct shmd_mr **ret_mr)
{
	struct shmd_mr_attr attr = {.kind = SHMD_MEM_MEMFD, .access = access};

	if (!mem)
		return text_fail(-EINVAL, "mem is NULL");
	attr.fd = mem->fd;
	attr.length_bytes = mem->bytes;
	attr.iova = (uintptr_t)mem->addr;
	return shmd_mr_reg(nic, &attr, ret_mr);
}

uint32_t shmd_mr_lkey(const struct shmd_mr *mr)
{
	return mr ? mr->lkey : 0;
}

uint32_t shmd_mr_rkey(const struct shmd_mr *mr)
{
	return mr ? mr->rkey : 0;
}

shmd_be32 shmd_mr_lkey_be(const struct shmd_mr *mr)
{
	return (shmd_be32)htonl(shmd_mr_lkey(mr));
}

shmd_be32 shmd_mr_rkey_be(const struct shmd_mr *mr)
{
	return (shmd_be32)htonl(shmd_mr_rkey(mr));
}

int shmd_mr_info(const struct shmd_mr *mr, struct shmd_mr_info *ret_info)
{
	int r = client_check_out(mr ? mr->nic->client : NULL, ret_info, "ret_info");

	if (!r)
		*ret_info = mr->info;
	return r;
}

int shmd_mr_dereg(struct shmd_mr *mr)
{
	struct shmd_client *client = mr ? mr->nic->client : NULL;
	int r = client_check(client);

	if (!r && !mr->is_ended)
		r = request_destroy(client, MSG_MEM_DEREG_REQ, mr->handle);
	if (r < 0)
		return r;
	mr->is_ended = true;
	/* The NIC asks for nothing more; what it has asked for may be under way. */
	r = mr->agent_region ? agent_region_end(client, mr->agent_region) : 0;
	if (r < 0)
		return r;
	client_lock(client);
	mr_free(mr);
	client_unlock(client);
	return 0;
}
