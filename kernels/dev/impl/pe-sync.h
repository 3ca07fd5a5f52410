/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order and completion of a context, and syncs of teams: the bodies. Contracts are in pe.h, which includes this.
 *
 * A sync is a dissemination: in round k a PE tells the one 2^k behind it, and waits for the one 2^k before it. The message
 * is the number of the sync, which only grows, so neither the next sync nor one that is repeated after a failure can
 * be mistaken for this one.
 */
#include <shmd/dev/pe.h>

#ifndef SHMDI_PE_SYNC_H
#define SHMDI_PE_SYNC_H

#include <shmd/dev/impl/pe-ops.h>

/* ---- order ------------------------------------------------------------------------------------------------------------------- */

/*
 * A failed QP of PEs that have all ended: 1. It stays failed, so it must not fail everything else after the program has
 * acknowledged their end.
 */
SHMDI_SLOW int shmdi_qp_is_of_gone(const struct shmd_dev_ctx *ctx, const struct shmd_dev_qp *qp)
{
	const struct shmd_dev_world *world = shmdi_world_of(ctx);
	uint32_t pe, h, n_gone = 0;

	for (pe = 0; pe < SHMDI_FIXED(world->n_pes); pe++) {
		int is_gone = 0;

		if (shmdi_way_look(ctx, pe).qp != qp && shmdi_amo_way_look(ctx, pe).qp != qp)
			continue;
		for (h = 0; h < SHMD_DEV_HEAPS; h++)
			is_gone |= shmdi_path_load(shmdi_pe_entry(world, pe), h) == SHMD_PATH_GONE;
		if (!is_gone)
			return 0;
		n_gone++;
	}
	return n_gone > 0;
}

SHMDI_FN int shmdi_qp_quiet(struct shmd_dev_ctx *ctx, struct shmd_dev_qp *qp, const struct shmd_dev_mode *mode)
{
	int rc = shmd_dev_qp_quiet_as(qp, shmd_dev_mode_of(qp, mode->timeout_nsec));

	if (SHMDI_LIKELY(rc != SHMD_DEV_CQE_ERROR) || !shmdi_qp_is_of_gone(ctx, qp))
		return rc;
	return shmdi_world_status(shmdi_world_of(ctx));
}

/* All queues; tries each and returns the first failure. Once the time limit has passed it looks at the others only once. */
SHMDI_APART int shmdi_queues_quiet(struct shmd_dev_ctx *ctx, const struct shmd_dev_mode *mode)
{
	struct shmdi_ctx_qps at = {0, 0, 0};
	struct shmd_dev_mode left = *mode;
	struct shmd_dev_qp *qp;
	int rc = SHMD_DEV_OK, one;

	while ((qp = shmdi_ctx_next_qp(ctx, &at)) != 0) {
		one = shmdi_qp_quiet(ctx, qp, &left);
		if (one == SHMD_DEV_TIMEOUT)
			left.timeout_nsec = 0;
		if (!rc)
			rc = one;
	}
	return rc;
}

SHMDI_FN int shmd_dev_quiet_as(struct shmd_dev_ctx *ctx, struct shmd_dev_mode mode)
{
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(mode.scope)) {
		shmdi_pes_flush();
		if (shmdi_ctx_has_queues(ctx))
			rc = shmdi_queues_quiet(ctx, &mode);
	}
	return shmdi_scope_leave(mode.scope, rc);
}

SHMDI_FN int shmd_dev_quiet(struct shmd_dev_ctx *ctx)
{
	return shmd_dev_quiet_as(ctx, shmdi_ctx_mode(ctx));
}

/* Where atomics have a queue of their own to the PE. */
SHMDI_SLOW int shmdi_amo_way_quiet(struct shmd_dev_ctx *ctx, uint32_t number, const struct shmd_dev_qp *quiet,
				   const struct shmd_dev_mode *mode)
{
	struct shmd_dev_qp *qp = shmdi_amo_way_look(ctx, number).qp;

	return qp && qp != quiet ? shmdi_qp_quiet(ctx, qp, mode) : (int)SHMD_DEV_OK;
}

SHMDI_APART int shmdi_pe_quiet_one(struct shmd_dev_ctx *ctx, uint32_t pe, const struct shmd_dev_mode *mode)
{
	struct shmdi_pe_way way;
	int rc = SHMD_DEV_OK, amo_rc = SHMD_DEV_OK;
	uint32_t number;

	if (!shmdi_pe_number(ctx, shmdi_world_of(ctx), pe, &number))
		return SHMD_DEV_INVALID;
	shmdi_pes_flush();
	way = shmdi_way_look(ctx, number);
	if (way.qp)
		rc = shmdi_qp_quiet(ctx, way.qp, mode);
	if (SHMDI_UNLIKELY(SHMDI_CTX(ctx->amo_ways_addr)))
		amo_rc = shmdi_amo_way_quiet(ctx, number, way.qp, mode);
	return rc ? rc : amo_rc;
}

SHMDI_FN int shmd_dev_quiet_pe_as(struct shmd_dev_ctx *ctx, uint32_t pe, struct shmd_dev_mode mode)
{
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(mode.scope))
		rc = shmdi_pe_quiet_one(ctx, pe, &mode);
	return shmdi_scope_leave(mode.scope, rc);
}

SHMDI_FN int shmd_dev_quiet_pe(struct shmd_dev_ctx *ctx, uint32_t pe)
{
	return shmd_dev_quiet_pe_as(ctx, pe, shmdi_ctx_mode(ctx));
}

SHMDI_FN void shmdi_qp_fence(struct shmd_dev_qp *qp)
{
	(void)shmd_dev_qp_fence_as(qp, shmd_dev_mode_of(qp, 0));
}

SHMDI_APART void shmdi_queues_fence(struct shmd_dev_ctx *ctx)
{
	struct shmdi_ctx_qps at = {0, 0, 0};
	struct shmd_dev_qp *qp;

	while ((qp = shmdi_ctx_next_qp(ctx, &at)) != 0)
		shmdi_qp_fence(qp);
}

SHMDI_FN int shmd_dev_fence(struct shmd_dev_ctx *ctx)
{
	shmdi_pes_fence();
	if (SHMDI_LIKELY(!shmdi_ctx_has_queues(ctx)))
		return SHMD_DEV_OK;
	if (shmdi_fence_waits(ctx))
		return shmd_dev_quiet(ctx);
	shmdi_queues_fence(ctx);
	return SHMD_DEV_OK;
}

SHMDI_FN int shmd_dev_fence_pe(struct shmd_dev_ctx *ctx, uint32_t pe)
{
	struct shmdi_pe_way way;
	uint32_t number;

	if (SHMDI_UNLIKELY(!shmdi_pe_number(ctx, shmdi_world_of(ctx), pe, &number)))
		return SHMD_DEV_INVALID;
	shmdi_pes_fence();
	if (SHMDI_LIKELY(!shmdi_ctx_has_queues(ctx)))
		return SHMD_DEV_OK;
	if (shmdi_fence_waits(ctx))
		return shmd_dev_quiet_pe(ctx, pe);
	way = shmdi_way_look(ctx, number);
	if (way.qp)
		shmdi_qp_fence(way.qp);
	return SHMD_DEV_OK;
}

/* ---- teams --------------------------------------------------------------------------------------------------------------------- */

/* A flag at one PE of the world. */
SHMDI_FN struct shmdi_pe_at shmdi_sync_flag(const struct shmd_dev_team *team, uint32_t pe, uint32_t flag)
{
	struct shmdi_pe_at at;

	at.addr = 0;
	at.offset = SHMDI_FIXED(team->scratch_offset) + (uint64_t)flag * SHMD_DEV_SYNC_FLAG_BYTES;
	at.heap = SHMDI_FIXED(team->scratch_heap);
	at.pe = pe;
	return at;
}

SHMDI_FN int shmdi_sync_tell(struct shmd_dev_ctx *ctx, struct shmdi_pe_at *flag, uint64_t number, const struct shmd_dev_mode *mode)
{
	int rc = shmdi_pe_reach(shmdi_world_of(ctx), flag);
	struct shmd_dev_mode announced = *mode;

	if (SHMDI_UNLIKELY(rc))
		return rc;
	/* The other PE waits for it, so a caller cannot withhold the doorbell. */
	announced.flags &= (uint8_t)~SHMD_DEV_NO_DOORBELL;
	if (SHMDI_UNLIKELY(!flag->addr))
		return shmdi_queue_word_one(ctx, flag, number, 8, &announced, 0);
	shmdi_pes_publish64((uint64_t *)(uintptr_t)flag->addr, number);
	return SHMD_DEV_OK;
}

/* Until a word of the caller's scratch has the number. */
SHMDI_FN int shmdi_team_await(struct shmd_dev_ctx *ctx, const struct shmd_dev_team *team, uint64_t word, uint64_t number,
			      uint64_t timeout_nsec)
{
	struct shmdi_pe_until until = shmdi_pe_until_of((const void *)(uintptr_t)word, 8, SHMD_DEV_CMP_GE, number);

	until.team = team;
	return shmdi_pe_until_one(ctx, &until, timeout_nsec);
}

/* The scratch of member i, where all are near. */
SHMDI_FN uint64_t shmdi_team_near(const struct shmd_dev_team *team, uint32_t i)
{
	uint32_t me = SHMDI_FIXED(team->my_pe);

	return SHMDI_FIXED(team->near_scratch[i >= me ? i - me : i + SHMDI_FIXED(team->n_pes) - me]);
}

/* To a member of the team, through the world. */
SHMDI_FAR int shmdi_sync_tell_far(struct shmd_dev_ctx *ctx, const struct shmd_dev_team *team, uint32_t to, uint32_t round, uint64_t number,
				   struct shmd_dev_mode mode)
{
	struct shmdi_pe_at flag = shmdi_sync_flag(team, shmdi_team_member(team, to), round);

	return shmdi_sync_tell(ctx, &flag, number, &mode);
}

/* The caller's own flag. */
SHMDI_FN uint64_t shmdi_sync_own(const struct shmd_dev_ctx *ctx, const struct shmd_dev_team *team, uint32_t flag)
{
	struct shmdi_pe_at at = shmdi_sync_flag(team, 0, flag);

	return SHMDI_FIXED(shmdi_world_of(ctx)->heap[at.heap].own_addr) + at.offset;
}

/* `first`: the flag of round 0. */
SHMDI_FAR int shmdi_sync_rounds_far(struct shmd_dev_ctx *ctx, const struct shmd_dev_team *team, uint32_t first, uint64_t number,
				    struct shmd_dev_mode mode)
{
	uint64_t n = SHMDI_FIXED(team->n_pes), to;
	uint32_t round;
	int rc = SHMD_DEV_OK;

	if (n == 1)
		shmdi_pes_flush();
	for (round = 0; (1ull << round) < n && SHMDI_LIKELY(!rc); round++) {
		to = SHMDI_FIXED(team->my_pe) + (1ull << round);
		rc = shmdi_sync_tell_far(ctx, team, (uint32_t)(to < n ? to : to - n), first + round, number, mode);
		if (!rc)
			rc = shmdi_team_await(ctx, team, shmdi_sync_own(ctx, team, first + round), number, mode.timeout_nsec);
	}
	return rc;
}

/* Publishes what was stored before it, also where nobody else is there. A GPU finds the scratch of the first two members by one load. */
SHMDI_FN int shmdi_sync_rounds(struct shmd_dev_ctx *ctx, const struct shmd_dev_team *team, uint32_t first, uint64_t number,
			       const struct shmd_dev_mode *mode)
{
	uint64_t own, to, at = (uint64_t)first * SHMD_DEV_SYNC_FLAG_BYTES;
	uint32_t step = 1, n = SHMDI_FIXED(team->n_pes);
	int rc = SHMD_DEV_OK;

	shmdi_fixed16(team->near_scratch, &own, &to);
	if (SHMDI_IS_FAR(!own))
		return shmdi_sync_rounds_far(ctx, team, first, number, *mode);
	if (SHMDI_UNLIKELY(!to))
		shmdi_pes_flush();
	SHMDI_ROLLED
	while (to && SHMDI_LIKELY(!rc)) {
		shmdi_pes_publish64((uint64_t *)(uintptr_t)(to + at), number);
		rc = shmdi_team_await(ctx, team, own + at, number, mode->timeout_nsec);
		at += SHMD_DEV_SYNC_FLAG_BYTES;
		step *= 2;
		to = step < n ? SHMDI_FIXED(team->near_scratch[step]) : 0;
	}
	return rc;
}

/* The words that only this PE looks at are stored behind the messages: a release waits for what was stored before it. */
SHMDI_FN int shmdi_sync_one(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_mode *mode)
{
	uint64_t number = team->n_syncs + 1;
	int rc = shmdi_sync_rounds(ctx, team, 0, number, mode);

	team->n_begun = number;
	if (SHMDI_LIKELY(!rc))
		team->n_syncs = number;
	return rc;
}

SHMDI_FN int shmd_dev_team_sync_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, struct shmd_dev_mode mode)
{
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(mode.scope))
		rc = shmdi_sync_one(ctx, team, &mode);
	return shmdi_scope_leave(mode.scope, rc);
}

SHMDI_FN int shmd_dev_team_sync(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team)
{
	return shmd_dev_team_sync_as(ctx, team, shmdi_ctx_mode(ctx));
}

SHMDI_FN int shmd_dev_team_barrier_as(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, struct shmd_dev_mode mode)
{
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(mode.scope)) {
		/* A sync publishes what was stored before it. */
		if (shmdi_ctx_has_queues(ctx)) {
			shmdi_pes_flush();
			rc = shmdi_queues_quiet(ctx, &mode);
		}
		if (!rc)
			rc = shmdi_sync_one(ctx, team, &mode);
	}
	return shmdi_scope_leave(mode.scope, rc);
}

SHMDI_FN int shmd_dev_team_barrier(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team)
{
	return shmd_dev_team_barrier_as(ctx, team, shmdi_ctx_mode(ctx));
}

/* The index of a PE of the world in a team; -1 if it is not in it. */
SHMDI_FN int shmdi_team_index(const struct shmd_dev_team *team, uint32_t pe)
{
	uint32_t i, n = SHMDI_FIXED(team->n_pes);

	for (i = 0; i < n; i++) {
		if (shmdi_team_member(team, i) == pe)
			return (int)i;
	}
	return -1;
}

SHMDI_FN int shmd_dev_team_translate(const struct shmd_dev_team *from, uint32_t pe, const struct shmd_dev_team *to)
{
	if (pe >= SHMDI_FIXED(from->n_pes))
		return -1;
	pe = shmdi_team_member(from, pe);
	return to ? shmdi_team_index(to, pe) : (int)pe;
}

SHMDI_FN void *shmd_dev_ptr(const struct shmd_dev_ctx *ctx, const void *ptr, uint32_t pe)
{
	struct shmdi_pe_at at;

	return shmdi_pe_find_one(ctx, ptr, 1, pe, &at) ? 0 : (void *)(uintptr_t)at.addr;
}

#endif
