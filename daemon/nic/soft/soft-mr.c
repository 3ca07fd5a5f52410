/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory regions: a client's memfd, mapped, or what its memory agent reaches (soft-agent.c), behind a random key.
 *
 * The CPU reaches mapped memory directly, so every operation completes at once. The mapping lives until the last
 * reference is gone: packets under way keep it beyond the region's end.
 *
 * Registration runs on the caller's thread, except for the engine's part; memory operations on data threads.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"

#define MR_KEY_TRIES 64u

struct soft_mem {
	struct engine_mem base;
	struct soft_map map;
};

/* ---- memory operations ---------------------------------------------------------------------------------------- */

static uint8_t *mem_at(struct engine_mem *mem, uint64_t offset)
{
	return container_of(mem, struct soft_mem, base)->map.data + offset;
}

static void *mem_pointer(struct engine_mem *mem, uint64_t offset, size_t bytes)
{
	return mem_at(mem, offset);
}

static int mem_read(struct engine_mem *mem, uint64_t offset, void *dst, size_t bytes,
		    struct engine_memop *op)
{
	memmove(dst, mem_at(mem, offset), bytes);
	return 0;
}

static int mem_write(struct engine_mem *mem, uint64_t offset, const void *src, size_t bytes,
		     struct engine_memop *op)
{
	memmove(mem_at(mem, offset), src, bytes);
	return 0;
}

static int mem_atomic(struct engine_mem *mem, uint64_t offset, const struct engine_atomic *what,
		      uint64_t *ret_old, struct engine_memop *op)
{
	uint8_t *word = mem_at(mem, offset);

	/* A word across cache lines would stop every core of the host. */
	if ((uintptr_t)word % what->bytes)
		return -EINVAL;
	*ret_old = engine_atomic_apply(word, what);
	return 0;
}

static void mem_free(struct engine_mem *base)
{
	struct soft_mem *mem = container_of(base, struct soft_mem, base);

	soft_map_deinit(&mem->map);
	free(mem);
}

const struct engine_mem_ops soft_mem_ops = {
	.pointer = mem_pointer,
	.read = mem_read,
	.write = mem_write,
	.atomic = mem_atomic,
	.free = mem_free,
};

static int mem_new(const struct soft_nic *nic, const struct nic_mr_attr *attr,
		   struct engine_mem **ret_mem)
{
	const struct engine_mem_ops *ops =
		nic->fault.kind == SOFT_FAULT_DELAY_MEMORY ? &soft_delay_mem_ops : &soft_mem_ops;
	_cleanup_free_ struct soft_mem *mem = calloc(1, sizeof(*mem));
	int r;

	if (!mem)
		return -ENOMEM;
	/* A client may register what it can only read, as long as nobody may write there. */
	r = soft_map_memfd(attr->fd, attr->offset, attr->length_bytes,
			   attr->access & ~NIC_ACCESS_REMOTE_READ, &mem->map);
	if (r < 0)
		return r;
	engine_mem_init(&mem->base, ops, attr->length_bytes);
	*ret_mem = &take_ptr(mem)->base;
	return 0;
}

/* ---- registration ------------------------------------------------------------------------------------------------ */

_Static_assert(NIC_ACCESS_LOCAL_WRITE == ENGINE_ACCESS_LOCAL_WRITE, "the same bits");
_Static_assert(NIC_ACCESS_REMOTE_WRITE == ENGINE_ACCESS_REMOTE_WRITE, "the same bits");
_Static_assert(NIC_ACCESS_REMOTE_READ == ENGINE_ACCESS_REMOTE_READ, "the same bits");
_Static_assert(NIC_ACCESS_REMOTE_ATOMIC == ENGINE_ACCESS_REMOTE_ATOMIC, "the same bits");

struct mr_call {
	struct soft_call call;
	struct engine_mr_attr attr;
};

static bool run_create(struct soft_exec *exec, struct soft_call *call)
{
	call->result = engine_mr_create(exec->engine, &container_of(call, struct mr_call, call)->attr);
	return true;
}

static bool run_destroy(struct soft_exec *exec, struct soft_call *call)
{
	struct mr_call *destroy = container_of(call, struct mr_call, call);

	call->result = engine_mr_destroy(exec->engine, destroy->attr.key);
	if (destroy->attr.mem)
		soft_agent_mem_end(destroy->attr.mem);
	return true;
}

/* Keys are not to be guessed: they are what stands between a remote peer and this memory. */
static int create_with_key(struct soft_exec *exec, struct mr_call *call)
{
	for (unsigned int i = 0; i < MR_KEY_TRIES; i++) {
		int r;

		if (getrandom(&call->attr.key, sizeof(call->attr.key), 0) != sizeof(call->attr.key))
			return -EIO;
		if (call->attr.key <= SHMD_LKEY_TERMINATE)
			continue;
		r = soft_call(exec, &call->call);
		if (r != -EEXIST)
			return r;
	}
	return -ENOSPC;
}

static int create_with_this_key(struct soft_exec *exec, struct mr_call *call, uint32_t key)
{
	int r;

	call->attr.key = key;
	r = soft_call(exec, &call->call);
	return r == -EEXIST ? -EINVAL : r;
}

/* The limit is the NIC's, whichever executors have them. */
static int create_counted(struct soft_exec *exec, struct mr_call *call, uint32_t key)
{
	uint32_t *n_mrs = &exec->nic->n_mrs;
	int r = -ENOSPC;

	if (__atomic_add_fetch(n_mrs, 1, __ATOMIC_RELAXED) <= SOFT_MAX_MRS)
		r = key ? create_with_this_key(exec, call, key) : create_with_key(exec, call);
	if (r < 0)
		__atomic_sub_fetch(n_mrs, 1, __ATOMIC_RELAXED);
	return r;
}

/* key 0: a new one. */
static int mr_new(struct soft_ctx *ctx, const struct nic_mr_attr *attr, uint32_t key, struct nic_mr **ret_mr)
{
	_cleanup_free_ struct soft_mr *mr = calloc(1, sizeof(*mr));
	struct mr_call call = {.call.run = run_create};
	int r;

	if (!mr)
		return -ENOMEM;
	r = soft_check_mr_kind(attr->kind);
	if (r == 0 && !nic_mr_attr_is_right(attr))
		r = -EINVAL;
	if (r == 0)
		r = attr->kind == NIC_MEM_AGENT ? soft_agent_mem_new(ctx, attr, &mr->mem) : mem_new(ctx->nic, attr, &mr->mem);
	if (r < 0)
		return r;
	call.attr = (struct engine_mr_attr){
		.pdn = ctx->pdn,
		.access = attr->access,
		.iova = attr->iova,
		.length_bytes = attr->length_bytes,
		.mem = mr->mem,
	};
	r = create_counted(ctx->exec, &call, key);
	if (r < 0) {
		engine_mem_unref(mr->mem);
		return r;
	}
	mr->base = (struct nic_mr){.ctx = &ctx->base, .lkey = call.attr.key, .rkey = call.attr.key,
				   .length_bytes = attr->length_bytes};
	mr->attr = *attr;
	mr->attr.fd = -1;
	list_add_tail(&ctx->base.mrs, &mr->base.link);
	*ret_mr = &take_ptr(mr)->base;
	return 0;
}

int soft_mr_reg(struct nic_ctx *base, const struct nic_mr_attr *attr, struct nic_mr **ret_mr)
{
	return mr_new(soft_ctx(base), attr, 0, ret_mr);
}

int soft_mr_restore(struct soft_ctx *ctx, const struct nic_mr_attr *attr, uint32_t key)
{
	struct nic_mr *mr;

	return mr_new(ctx, attr, key, &mr);
}

struct nic_mr *soft_mr_dereg(struct nic_mr *base)
{
	struct mr_call call = {.call.run = run_destroy};
	struct soft_ctx *ctx;
	struct soft_mr *mr;
	int r;

	if (!base)
		return NULL;
	mr = container_of(base, struct soft_mr, base);
	ctx = soft_ctx(base->ctx);
	call.attr.key = base->lkey;
	if (mr->attr.kind == NIC_MEM_AGENT)
		call.attr.mem = mr->mem;
	r = soft_call(ctx->exec, &call.call);
	assert_bug(r == 0);
	__atomic_sub_fetch(&ctx->nic->n_mrs, 1, __ATOMIC_RELAXED);
	/* Mostly the last reference, so that unmapping costs the caller's time and not the thread's. */
	engine_mem_unref(mr->mem);
	list_del(&mr->base.link);
	free(mr);
	return NULL;
}
