/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Indirect keys: regions that consist of parts of others.
 *
 * A key says what it consists of by keys and addresses, as given; their memory is looked up when the key is used
 * and some region has changed since (gather.c has the result). So a part whose region went leads nowhere from then on. Each
 * part must lie in its region, in the same PD, and be writable there by its owner where something is written. A key has a level above
 * those that it consists of, N_LEVELS at most, so there are no circles: a part that came to be of the same level or a higher one leads
 * nowhere. A window cannot be a part.
 *
 * UMRs act when they are fetched, as those of windows do (mw.c). A refusal is a binding error (0x06), a request that makes no sense
 * by itself 0x02, a list that cannot be read 0x04; then nothing has changed.
 */
#include <stdlib.h>

#include "tests/mlx5sim/engine-extra/extra-private.h"
#include "proto/base/cleanup.h"

#define N_LEVELS 4u
#define ANY_QP 0xffffffu
#define ENTRY_BYTES 16u

/* The new contents of a key. It owns the parts. */
struct change {
	struct engine_mr_attr mr;
	bool is_free;
	unsigned int level;
	struct wqe_layout layout;
	struct wqe_part *parts; /* NULL: as before */
};

static struct indirect *find(struct engine *engine, uint32_t key)
{
	return hash_get(&engine->indirects, key >> 8);
}

/* ---- what a key leads to --------------------------------------------------------------------------------------- */

static int refresh(struct engine *engine, struct mr *mr);

/* From a part's first byte to the last of its last block. */
static uint64_t span_of(const struct indirect *of, const struct wqe_part *part)
{
	/* bounded: 2^32 blocks, 2^16 bytes from one to the next, 2^32 bytes of the last. */
	return (uint64_t)(of->layout.n_blocks - 1) * part->stride + part->bytes;
}

/* The bytes of a part that lie in its region; a repeated part has all of them or none. False: none do. */
static bool clip(const struct indirect *of, const struct wqe_part *part, const struct mr *mr, struct gather_part *ret_part)
{
	const struct engine_mr_attr *attr = &mr->attr;
	uint64_t before, end, span_bytes = span_of(of, part);

	before = part->addr < attr->iova ? attr->iova - part->addr : 0;
	if (part->addr > attr->iova && part->addr - attr->iova >= attr->length_bytes)
		return false;
	/* bounded: the region does not end beyond the last address. */
	end = attr->length_bytes - (part->addr > attr->iova ? part->addr - attr->iova : 0);
	if (add_overflows(end, before, &end) || end > span_bytes)
		end = span_bytes;
	if (before >= part->bytes || (of->layout.n_blocks > 1 && (before || end < span_bytes)))
		return false;
	ret_part->from = (uint32_t)before;
	ret_part->to = end < part->bytes ? (uint32_t)end : part->bytes;
	/* Wraps when the part begins before its region. */
	ret_part->offset = attr->mem_offset + (part->addr - attr->iova);
	return true;
}

static void resolve_part(struct engine *engine, const struct indirect *of, const struct wqe_part *part,
			 struct gather_part *ret_part)
{
	struct mr *mr = hash_get(&engine->mrs, part->key);
	uint64_t span_bytes = span_of(of, part);

	if (!mr || mr->mw || mr->attr.pdn != of->attr.pdn || !clip(of, part, mr, ret_part))
		return;
	if (mr->indirect && (mr->indirect->level >= of->level || refresh(engine, mr) < 0))
		return;
	ret_part->may_write = mr->attr.access & ENGINE_ACCESS_LOCAL_WRITE;
	ret_part->is_gather = mr->indirect && of->layout.n_blocks == 1;
	if (mr->indirect && !ret_part->is_gather) {
		if (!gather_allows(mr->attr.mem, ret_part->offset, span_bytes, false))
			return;
		ret_part->may_write &= gather_allows(mr->attr.mem, ret_part->offset, span_bytes, true);
	}
	ret_part->mem = engine_mem_ref(mr->attr.mem);
}

/* Recursion: a level for each call. */
static int refresh(struct engine *engine, struct mr *mr)
{
	const struct indirect *indirect = mr->indirect;
	struct gather_part *parts;
	struct engine_mem *mem;
	int r;

	if (mr->attr.mem && mr->epoch == engine->mr_epoch)
		return 0;
	r = gather_new(&indirect->layout, &mem, &parts);
	if (r < 0)
		return r;
	for (unsigned int i = 0; i < indirect->layout.n_parts; i++) {
		parts[i].at = indirect->parts[i].at;
		parts[i].bytes = indirect->parts[i].bytes;
		parts[i].stride = indirect->parts[i].stride;
		resolve_part(engine, indirect, &indirect->parts[i], &parts[i]);
	}
	engine_mem_unref(mr->attr.mem);
	mr->attr.mem = mem;
	mr->epoch = engine->mr_epoch;
	return 0;
}

int indirect_prepare(struct engine *engine, struct mr *mr, uint64_t at, const struct mr_want *want)
{
	const uint32_t writes = ENGINE_ACCESS_LOCAL_WRITE | ENGINE_ACCESS_REMOTE_WRITE | ENGINE_ACCESS_REMOTE_ATOMIC;
	int r;

	r = refresh(engine, mr);
	if (r < 0)
		return r;
	return gather_allows(mr->attr.mem, at, want->bytes, want->access & writes) ? 0 : -EACCES;
}

/* ---- changes --------------------------------------------------------------------------------------------------- */

static void make_free(struct engine *engine, struct indirect *indirect)
{
	if (indirect->mr)
		mr_free(engine, indirect->mr);
	indirect->mr = NULL;
}

static unsigned int level_above(struct engine *engine, const struct change *change)
{
	unsigned int level = 1;

	for (unsigned int i = 0; i < change->layout.n_parts; i++) {
		const struct mr *mr = hash_get(&engine->mrs, change->parts[i].key);

		if (mr && mr->indirect && mr->indirect->level >= level)
			level = mr->indirect->level + 1;
	}
	return level;
}

/* 0 or a syndrome. */
static uint8_t read_layout(struct engine *engine, const struct indirect *indirect, const void *list, size_t bytes,
			   struct change *change)
{
	/* bounded: as many as the key has room for, when it was made. */
	change->parts = calloc(indirect->attr.max_parts, sizeof(change->parts[0]));
	if (!change->parts)
		return SHMD_SYNDROME_MW_BIND_ERR;
	if (wqe_parse_layout(list, bytes, indirect->attr.part_bytes, indirect->attr.max_parts, &change->layout,
			     change->parts))
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	change->level = level_above(engine, change);
	return change->level > N_LEVELS ? SHMD_SYNDROME_MW_BIND_ERR : 0;
}

/* Its entry in the table of regions, the present one where the key stays; NULL for a key that opens nothing. */
static int enter(struct engine *engine, struct indirect *indirect, const struct engine_mr_attr *attr, struct mr **ret_mr)
{
	struct engine_mem *mem;
	uint64_t end;
	int r;

	*ret_mr = NULL;
	if (!attr->length_bytes)
		return 0;
	if (add_overflows(attr->iova, attr->length_bytes - 1, &end))
		return -EINVAL;
	if (!indirect->mr || indirect->mr->attr.key != attr->key) {
		r = mr_new(engine, attr, NULL, ret_mr);
		if (r == 0)
			(*ret_mr)->indirect = indirect;
		return r;
	}
	*ret_mr = indirect->mr;
	mem = indirect->mr->attr.mem;
	indirect->mr->attr = *attr;
	indirect->mr->attr.mem = mem;
	engine->mr_epoch++;
	return 0;
}

/* Takes the parts when it succeeds. -EINVAL, -ENOMEM: nothing has changed. */
static int apply(struct engine *engine, struct indirect *indirect, struct change *change)
{
	struct mr *mr = NULL;
	int r;

	r = change->is_free ? 0 : enter(engine, indirect, &change->mr, &mr);
	if (r < 0)
		return r;
	if (mr != indirect->mr)
		make_free(engine, indirect);
	indirect->mr = mr;
	indirect->attr.key = change->mr.key;
	indirect->attr.access = change->mr.access;
	indirect->attr.iova = change->mr.iova;
	indirect->attr.length_bytes = change->mr.length_bytes;
	indirect->attr.is_free = change->is_free;
	if (change->parts) {
		free(indirect->parts);
		indirect->parts = take_ptr(change->parts);
		indirect->layout = change->layout;
		indirect->level = change->level;
	}
	return 0;
}

static struct change no_change(const struct indirect *indirect)
{
	return (struct change){
		.mr = {.key = indirect->attr.key,
		       .pdn = indirect->attr.pdn,
		       .access = indirect->attr.access,
		       .iova = indirect->attr.iova,
		       .length_bytes = indirect->attr.length_bytes},
		.is_free = indirect->attr.is_free,
	};
}

/* ---- WQEs ------------------------------------------------------------------------------------------------------ */

/* The list of a UMR that lies in memory, read once. 0 or a syndrome. */
static uint8_t read_list(struct engine_qp *qp, const struct indirect *indirect, const struct wqe_umr *umr,
			 struct change *change)
{
	/* A pattern has a head, and libmlx5 pads to four entries. */
	uint64_t most_bytes = ((uint64_t)indirect->attr.max_parts + 1 + 3) * ENTRY_BYTES;
	struct mr_want want = {
		.key = umr->list_at.lkey, .pdn = qp->attr.pdn, .addr = umr->list_at.addr, .bytes = umr->list_bytes};
	_cleanup_free_ void *copy = NULL;
	struct mem_span span;
	const void *from;

	if (umr->list_bytes > most_bytes)
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	if (umr->list)
		return read_layout(qp->engine, indirect, umr->list, umr->list_bytes, change);
	if (mr_resolve(qp->engine, &qp->req.mr, &want, &span) < 0)
		return SHMD_SYNDROME_LOCAL_PROT_ERR;
	from = span_pointer(&span);
	copy = malloc(umr->list_bytes);
	if (!from || !copy)
		return SHMD_SYNDROME_LOCAL_PROT_ERR;
	memcpy(copy, from, umr->list_bytes);
	qp->engine->moved_bytes += umr->list_bytes;
	return read_layout(qp->engine, indirect, copy, umr->list_bytes, change);
}

static uint8_t change_by(struct engine_qp *qp, struct indirect *indirect, const struct wqe_umr *umr)
{
	struct change change = no_change(indirect);
	uint8_t syndrome = 0;

	if (umr->sets_tag)
		change.mr.key = (change.mr.key & ~0xffu) | umr->key_tag;
	if (umr->sets_start)
		change.mr.iova = umr->start;
	if (umr->sets_length)
		change.mr.length_bytes = umr->length_bytes;
	if (umr->sets_free)
		change.is_free = umr->is_free;
	change.mr.access = (change.mr.access & ~umr->set_access) | (umr->access & umr->set_access);
	if (umr->list_bytes)
		syndrome = read_list(qp, indirect, umr, &change);
	if (!syndrome && apply(qp->engine, indirect, &change) < 0)
		syndrome = SHMD_SYNDROME_MW_BIND_ERR;
	free(change.parts);
	return syndrome;
}

static uint8_t execute(struct engine_qp *qp, const struct wqe_umr *umr, uint32_t key)
{
	struct indirect *indirect = find(qp->engine, key);
	bool frees = umr->sets_free && umr->is_free;

	if (!indirect)
		return mw_execute(qp, umr, key);
	if (indirect->attr.pdn != qp->attr.pdn || !indirect->attr.may_change || (umr->must_be_free && indirect->mr) ||
	    (!umr->sets_tag && key != indirect->attr.key))
		return SHMD_SYNDROME_MW_BIND_ERR;
	/* A UMR that frees may name its own QP; keys for one QP alone do not exist. */
	if (umr->names_qp && !frees && umr->qpn != ANY_QP)
		return SHMD_SYNDROME_MW_BIND_ERR;
	if (frees && indirect->mr && key != indirect->attr.key)
		return SHMD_SYNDROME_MW_BIND_ERR;
	return change_by(qp, indirect, umr);
}

uint8_t umr_execute(struct engine_qp *qp, const struct sent *sent, uint32_t key)
{
	struct wqe_umr umr;
	/* bounded: 16 WQEBBs. */
	int r = wqe_parse_umr(shadow_wqe(qp, sent->wqe_index), (size_t)sent->n_wqebbs * SHMD_WQEBB_BYTES, &umr);

	return r ? (uint8_t)r : execute(qp, &umr, key);
}

int key_invalidate(struct engine_qp *qp, uint32_t key)
{
	struct indirect *indirect = find(qp->engine, key);

	if (!indirect)
		return mw_invalidate(qp, key);
	if (!indirect->mr || indirect->attr.key != key || !indirect->attr.may_invalidate ||
	    indirect->attr.pdn != qp->remote_pdn)
		return -EACCES;
	make_free(qp->engine, indirect);
	indirect->attr.is_free = true;
	return 0;
}

/* ---- the owner's calls ----------------------------------------------------------------------------------------- */

static struct indirect *indirect_free(struct indirect *indirect)
{
	if (!indirect)
		return NULL;
	free(indirect->parts);
	free(indirect);
	return NULL;
}
DEFINE_CLEANUP(struct indirect *, indirect_free);

static bool attr_is_valid(const struct engine_indirect_attr *attr)
{
	return attr->key > SHMD_LKEY_TERMINATE && attr->max_parts &&
	       attr->max_parts <= ENGINE_MAX_PARTS && attr->part_bytes <= UINT32_MAX;
}

static bool key_is_taken(const struct engine *engine, uint32_t key)
{
	return hash_get(&engine->mrs, key) || hash_get(&engine->mws, key >> 8) || hash_get(&engine->indirects, key >> 8);
}

int engine_indirect_create(struct engine *engine, const struct engine_indirect_attr *attr)
{
	_cleanup_(indirect_freep) struct indirect *indirect = NULL;
	struct change change;
	int r = 0;

	if (!attr_is_valid(attr))
		return -EINVAL;
	if (engine->indirects.n >= engine->attr.max_indirects)
		return -ENOSPC;
	if (key_is_taken(engine, attr->key))
		return -EEXIST;
	indirect = calloc(1, sizeof(*indirect));
	if (!indirect)
		return -ENOMEM;
	indirect->attr = *attr;
	indirect->attr.list = NULL;
	indirect->level = 1;
	indirect->layout.n_blocks = 1;
	change = no_change(indirect);
	if (attr->list_bytes && read_layout(engine, indirect, attr->list, attr->list_bytes, &change))
		r = -EINVAL;
	if (r == 0)
		r = hash_add(&engine->indirects, attr->key >> 8, indirect);
	if (r == 0) {
		r = apply(engine, indirect, &change);
		if (r < 0)
			hash_remove(&engine->indirects, attr->key >> 8);
	}
	free(change.parts);
	if (r == 0)
		take_ptr(indirect);
	return r;
}

int engine_indirect_destroy(struct engine *engine, uint32_t key)
{
	struct indirect *indirect = find(engine, key);

	if (!indirect)
		return -ENOENT;
	hash_remove(&engine->indirects, key >> 8);
	make_free(engine, indirect);
	indirect_free(indirect);
	return 0;
}
