/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory windows.
 *
 * A bound window is an entry in the table of regions, of the memory that its region has; so an access through it costs
 * what one through a region costs. Binding and freeing happen when the WQE is fetched, in the order of the ring: what is
 * behind it finds the new state, also at the peer. A window is looked up by the upper 24 bits of its key, and what stands
 * in the lower byte must be right when it is freed or bound anew.
 *
 * Refused, as a binding error: unknown window, foreign PD, the wrong type or state, a region that is not there or may not be
 * bound to, a range outside of it, writing where the region's own QPs may not.
 */
#include <stdlib.h>

#include "tests/mlx5sim/engine-extra/extra-private.h"

#define INDEX_OF(key) ((key) >> 8)
#define ALL_ACCESS                                                                                                \
	(ENGINE_ACCESS_LOCAL_WRITE | ENGINE_ACCESS_REMOTE_WRITE | ENGINE_ACCESS_REMOTE_READ | ENGINE_ACCESS_REMOTE_ATOMIC)

static struct mw *find(struct engine *engine, uint32_t key)
{
	return hash_get(&engine->mws, INDEX_OF(key));
}

static void make_free(struct engine *engine, struct mw *mw)
{
	if (!mw->mr)
		return;
	mr_free(engine, mw->mr);
	mw->mr = NULL;
	mw->of = NULL;
}

int engine_mw_create(struct engine *engine, const struct engine_mw_attr *attr)
{
	struct mw *mw;
	int r;

	if (attr->key <= SHMD_LKEY_TERMINATE)
		return -EINVAL;
	if (engine->mws.n >= engine->attr.max_mws)
		return -ENOSPC;
	if (hash_get(&engine->mrs, attr->key) || hash_get(&engine->indirects, INDEX_OF(attr->key)))
		return -EEXIST;
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return -ENOMEM;
	mw->attr = *attr;
	r = hash_add(&engine->mws, INDEX_OF(attr->key), mw);
	if (r < 0)
		free(mw);
	return r;
}

int engine_mw_destroy(struct engine *engine, uint32_t key)
{
	struct mw *mw = find(engine, key);

	if (!mw)
		return -ENOENT;
	hash_remove(&engine->mws, INDEX_OF(key));
	make_free(engine, mw);
	free(mw);
	return 0;
}

void mw_free_of(struct engine *engine, const struct mr *mr)
{
	struct mw *mw;
	size_t pos = 0;

	while ((mw = hash_next(&engine->mws, &pos, NULL))) {
		if (mw->of == mr)
			make_free(engine, mw);
	}
}

bool mw_allows(const struct mr *mr, const struct mr_want *want)
{
	return want->remote_of && (!mr->mw->attr.is_type_2 || mr->mw->qpn == want->remote_of->attr.qpn);
}

/* ---- WQEs ---------------------------------------------------------------------------------------------------------- */

/* WQEs as libmlx5 writes them for ibv_bind_mw() and its like. */
static bool is_binding(const struct wqe_umr *umr)
{
	return !umr->is_free && umr->sets_start && umr->sets_length && umr->set_access == ALL_ACCESS && umr->list;
}

static bool is_freeing(const struct wqe_umr *umr)
{
	return umr->is_free && !umr->sets_start && !umr->sets_length && !umr->set_access && !umr->list_bytes;
}

/* 0, or what is wrong with the UMR itself. */
static uint8_t parse(const struct wqe_umr *umr, struct wqe_part *ret_of)
{
	struct wqe_layout layout;

	if (!umr->sets_free || !umr->sets_tag)
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	*ret_of = (struct wqe_part){0};
	if (is_freeing(umr))
		return 0;
	if (!is_binding(umr))
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	if (wqe_parse_layout(umr->list, umr->list_bytes, 0, 1, &layout, ret_of) || layout.n_blocks != 1)
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	return 0;
}

static bool may_be_bound_to(const struct engine_qp *qp, const struct mr *mr, const struct wqe_umr *umr,
			    const struct wqe_part *part)
{
	const uint32_t writes = ENGINE_ACCESS_LOCAL_WRITE | ENGINE_ACCESS_REMOTE_WRITE | ENGINE_ACCESS_REMOTE_ATOMIC;

	if (!mr || mr->mw || mr->indirect || mr->attr.pdn != qp->attr.pdn || !(mr->attr.access & ENGINE_ACCESS_MW_BIND))
		return false;
	if ((umr->access & writes) && !(mr->attr.access & ENGINE_ACCESS_LOCAL_WRITE))
		return false;
	if (umr->length_bytes != part->bytes || (umr->start && umr->start != part->addr) ||
	    part->addr < mr->attr.iova)
		return false;
	return range_fits(part->addr - mr->attr.iova, part->bytes, mr->attr.length_bytes);
}

static int bind(struct engine_qp *qp, struct mw *mw, const struct wqe_umr *umr, const struct wqe_part *part)
{
	struct engine *engine = qp->engine;
	struct mr *of = hash_get(&engine->mrs, part->key);
	struct engine_mr_attr attr = {.pdn = mw->attr.pdn,
				      .access = umr->access,
				      .iova = umr->start,
				      .length_bytes = umr->length_bytes};
	int r;

	if (umr->must_be_free != mw->attr.is_type_2 || (mw->mr && umr->must_be_free) || !may_be_bound_to(qp, of, umr, part))
		return -EINVAL;
	if (mw->attr.is_type_2 && umr->qpn != qp->attr.qpn)
		return -EINVAL;
	attr.key = INDEX_OF(mw->attr.key) << 8 | umr->key_tag;
	attr.mem = of->attr.mem;
	/* bounded: the window lies in the region. */
	attr.mem_offset = of->attr.mem_offset + (part->addr - of->attr.iova);
	make_free(engine, mw);
	r = mr_new(engine, &attr, mw, &mw->mr);
	if (r < 0)
		return r;
	mw->of = of;
	mw->qpn = qp->attr.qpn;
	mw->attr.key = attr.key;
	return 0;
}

static int release(struct engine_qp *qp, struct mw *mw, const struct wqe_umr *umr)
{
	if (mw->attr.is_type_2 && (!mw->mr || mw->qpn != qp->attr.qpn))
		return -EINVAL;
	make_free(qp->engine, mw);
	if (!mw->attr.is_type_2)
		mw->attr.key = INDEX_OF(mw->attr.key) << 8 | umr->key_tag;
	return 0;
}

uint8_t mw_execute(struct engine_qp *qp, const struct wqe_umr *umr, uint32_t key)
{
	struct mw *mw = find(qp->engine, key);
	struct wqe_part part;
	uint8_t syndrome;
	int r;

	if (!mw)
		return SHMD_SYNDROME_MW_BIND_ERR;
	syndrome = parse(umr, &part);
	if (syndrome)
		return syndrome;
	if (mw->attr.pdn != qp->attr.pdn || umr->names_qp != mw->attr.is_type_2 ||
	    (mw->mr && mw->attr.key != key))
		return SHMD_SYNDROME_MW_BIND_ERR;
	r = umr->is_free ? release(qp, mw, umr) : bind(qp, mw, umr, &part);
	return r < 0 ? SHMD_SYNDROME_MW_BIND_ERR : 0;
}

int mw_invalidate(struct engine_qp *qp, uint32_t key)
{
	struct mw *mw = find(qp->engine, key);

	if (!mw || !mw->mr || mw->attr.key != key || !mw->attr.is_type_2 || mw->attr.pdn != qp->remote_pdn ||
	    mw->qpn != qp->attr.qpn)
		return -EACCES;
	make_free(qp->engine, mw);
	return 0;
}
