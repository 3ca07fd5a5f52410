/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of services and keys that an owner hands to the core. Pure; the engine's thread. */
#include "tests/mlx5sim/engine-extra/extra-private.h"

static bool has_key(const struct engine *engine, uint32_t key)
{
	return hash_get(&engine->mws, key >> 8) || hash_get(&engine->indirects, key >> 8);
}

static void free_keys(struct engine *engine)
{
	struct indirect *indirect;
	struct mw *mw;
	size_t pos;

	while ((pos = 0, mw = hash_next(&engine->mws, &pos, NULL)))
		engine_mw_destroy(engine, mw->attr.key);
	while ((pos = 0, indirect = hash_next(&engine->indirects, &pos, NULL)))
		engine_indirect_destroy(engine, indirect->attr.key);
}

static void region_goes(struct engine *engine, const struct mr *mr)
{
	if (engine->mws.n)
		mw_free_of(engine, mr);
}

static int prepare_key(struct engine *engine, struct mr *mr, uint64_t at, const struct mr_want *want)
{
	if (mr->mw)
		return mw_allows(mr, want) ? 0 : -EACCES;
	return indirect_prepare(engine, mr, at, want);
}

const struct engine_extension engine_extra = {
	.services = {
		[ENGINE_QP_UC] = &unreliable_uc,
		[ENGINE_QP_UD] = &unreliable_ud,
		[ENGINE_QP_RAW] = &unreliable_raw,
		[ENGINE_QP_XRC_INI] = &xrc_ini,
		[ENGINE_QP_XRC_TGT] = &xrc_tgt,
	},
	.packet_back = unreliable_packet_back,
	.has_key = has_key,
	.free_keys = free_keys,
	.region_goes = region_goes,
	.prepare_key = prepare_key,
	.execute_umr = umr_execute,
	.invalidate_key = key_invalidate,
	.srq_join = xrc_join,
	.srq_leave = xrc_leave,
	.streams_init = streams_init,
	.stream_is_errored = stream_is_errored,
	.stream_goes_on = stream_goes_on,
	.stream_begin = stream_begin,
	.stream_takes_error = stream_takes_error,
};
