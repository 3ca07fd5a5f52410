/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory objects and memory regions.
 *
 * A region is a window of a memory object: key, PD, access, address range. Every access of a WQE or a packet is
 * resolved here, at the time of the access, so a region that was deregistered is gone at once for what comes
 * later. Refuses: unknown key, foreign PD, an address outside, an access the region does not have.
 */
#include <stdlib.h>

#include "daemon/engine/engine-private.h"

void engine_mem_init(struct engine_mem *mem, const struct engine_mem_ops *ops, uint64_t size_bytes)
{
	mem->ops = ops;
	mem->size_bytes = size_bytes;
	mem->refs = 1;
}

struct engine_mem *engine_mem_ref(struct engine_mem *mem)
{
	__atomic_fetch_add(&mem->refs, 1, __ATOMIC_RELAXED);
	return mem;
}

struct engine_mem *engine_mem_unref(struct engine_mem *mem)
{
	if (mem && __atomic_sub_fetch(&mem->refs, 1, __ATOMIC_ACQ_REL) == 0)
		mem->ops->free(mem);
	return NULL;
}

static bool attr_is_valid(const struct engine_mr_attr *attr)
{
	uint64_t end;

	return attr->key > SHMD_LKEY_TERMINATE && attr->length_bytes && attr->mem &&
	       !add_overflows(attr->iova, attr->length_bytes - 1, &end) &&
	       range_fits(attr->mem_offset, attr->length_bytes, attr->mem->size_bytes);
}

int mr_new(struct engine *engine, const struct engine_mr_attr *attr, struct mw *mw, struct mr **ret_mr)
{
	struct mr *mr = calloc(1, sizeof(*mr));
	int r;

	if (!mr)
		return -ENOMEM;
	mr->attr = *attr;
	mr->mw = mw;
	r = hash_add(&engine->mrs, attr->key, mr);
	if (r < 0) {
		free(mr);
		return r;
	}
	if (attr->mem)
		engine_mem_ref(attr->mem);
	engine->mr_epoch++;
	*ret_mr = mr;
	return 0;
}

int engine_mr_create(struct engine *engine, const struct engine_mr_attr *attr)
{
	struct mr *mr;
	int r;

	if (!attr_is_valid(attr))
		return -EINVAL;
	/* Not mrs.n: there stand bound windows and laid out keys too, which have limits of their own. */
	if (engine->n_regions >= engine->attr.max_mrs)
		return -ENOSPC;
	if (engine->extension && engine->extension->has_key(engine, attr->key))
		return -EEXIST;
	r = mr_new(engine, attr, NULL, &mr);
	if (r == 0)
		engine->n_regions++;
	return r;
}

void mr_free(struct engine *engine, struct mr *mr)
{
	hash_remove(&engine->mrs, mr->attr.key);
	engine->mr_epoch++;
	engine_mem_unref(mr->attr.mem);
	free(mr);
}

int engine_mr_destroy(struct engine *engine, uint32_t key)
{
	struct mr *mr = hash_get(&engine->mrs, key);

	if (!mr || mr->mw || mr->indirect)
		return -ENOENT;
	if (unlikely(engine->extension))
		engine->extension->region_goes(engine, mr);
	mr_free(engine, mr);
	engine->n_regions--;
	return 0;
}

static struct mr *find(struct engine *engine, struct mr_cache *cache, uint32_t key)
{
	struct mr *mr;

	if (likely(cache->epoch == engine->mr_epoch && cache->mr && cache->mr->attr.key == key))
		return cache->mr;
	mr = hash_get(&engine->mrs, key);
	*cache = (struct mr_cache){mr, engine->mr_epoch};
	return mr;
}

/* -EACCES when `want` is not allowed. The span has no reference of its own. */
int mr_resolve(struct engine *engine, struct mr_cache *cache, const struct mr_want *want,
	       struct mem_span *ret_span)
{
	struct mr *mr = find(engine, cache, want->key);
	uint64_t at;

	if (unlikely(!mr || mr->attr.pdn != want->pdn || (want->access & ~mr->attr.access)))
		return -EACCES;
	if (unlikely(want->addr < mr->attr.iova))
		return -EACCES;
	at = want->addr - mr->attr.iova;
	if (unlikely(!range_fits(at, want->bytes, mr->attr.length_bytes)))
		return -EACCES;
	if (unlikely(mr->mw || mr->indirect) && engine->extension->prepare_key(engine, mr, at, want) < 0)
		return -EACCES;
	ret_span->mem = mr->attr.mem;
	/* bounded: the region lies in its memory, and the span in the region. */
	ret_span->offset = mr->attr.mem_offset + at;
	ret_span->bytes = (uint32_t)want->bytes;
	return 0;
}
