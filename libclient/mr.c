/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory regions: descriptors registered with a NIC.
 *
 * The daemon keeps a mapping or reference of its own, so an MR outlives the descriptor it was made from.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>

#include "libclient/client-private.h"
#include "proto/base/overflow.h"

void mr_free(struct shmd_mr *mr)
{
	list_del(&mr->link);
	mr->nic->n_users--;
	free(mr);
}

static int check_attr(const struct shmd_mr_attr *attr)
{
	uint64_t end;

	if (attr->kind < SHMD_MEM_MEMFD || attr->kind > SHMD_MEM_AGENT)
		return text_fail(-EINVAL, "memory kind %d is unknown", (int)attr->kind);
	if (!attr->length_bytes || add_overflows(attr->offset, attr->length_bytes, &end) ||
	    add_overflows(attr->iova, attr->length_bytes, &end))
		return text_fail(-EINVAL, "the range is empty or wraps around");
	if (attr->access & ~SHMD_ACCESS_ALL)
		return text_fail(-EINVAL, "access 0x%x has unknown bits", attr->access);
	if (attr->kind != SHMD_MEM_AGENT && attr->fd < 0)
		return text_fail(-EBADF, "this kind of memory needs a descriptor");
	return 0;
}

static void fill_reg(struct request *r, const struct shmd_nic *nic, const struct shmd_mr_attr *attr)
{
	r->req.mem_reg_req = (struct msg_mem_reg_req){
		.nic = nic->info.index,
		.kind = (enum msg_mem_kind)attr->kind,
		.fd = 0,
		.access = attr->access,
		.offset = attr->offset,
		.length_bytes = attr->length_bytes,
		.iova = attr->iova,
	};
	/* An agent's memory has no descriptor. */
	if (attr->kind != SHMD_MEM_AGENT)
		r->fd = attr->fd;
}

int shmd_mr_reg(struct shmd_nic *nic, const struct shmd_mr_attr *attr, struct shmd_mr **ret_mr)
{
	_cleanup_request_ struct request r;
	_cleanup_free_ struct shmd_mr *mr = NULL;
	int res;

	request_init(&r, MSG_MEM_REG_REQ, MSG_MEM_REG_REP);
	res = client_check(nic ? nic->client : NULL);
	if (res < 0)
		return res;
	if (!attr || !ret_mr)
		return text_fail(-EINVAL, "attr or ret_mr is NULL");
	res = check_attr(attr);
	if (res < 0)
		return res;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return text_fail(-ENOMEM, "no memory for a memory region");
	fill_reg(&r, nic, attr);
	/* Where sealing fails the daemon's answer says what is missing. */
	if (attr->kind == SHMD_MEM_MEMFD)
		(void)mem_seal(attr->fd, F_SEAL_SHRINK);
	res = request_call(nic->client, &r);
	if (res < 0)
		return res;
	mr->nic = nic;
	mr->handle = r.rep.mem_reg_rep.mr;
	mr->lkey = r.rep.mem_reg_rep.lkey;
	mr->rkey = r.rep.mem_reg_rep.rkey;
	client_lock(nic->client);
	list_add_tail(&nic->client->mrs, &mr->link);
	nic->n_users++;
	client_unlock(nic->client);
	*ret_mr = take_ptr(mr);
	return 0;
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

int shmd_mr_dereg(struct shmd_mr *mr)
{
	_cleanup_request_ struct request r;
	struct shmd_client *client = mr ? mr->nic->client : NULL;
	int res;

	request_init(&r, MSG_MEM_DEREG_REQ, MSG_OK_REP);
	res = client_check(client);
	if (res < 0)
		return res;
	r.req.mem_dereg_req.handle = mr->handle;
	res = request_call(client, &r);
	if (res < 0)
		return res;
	client_lock(client);
	mr_free(mr);
	client_unlock(client);
	return 0;
}
