/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for words of the caller that peers write: the bodies. Contracts are in pe.h, which includes this.
 *
 * A wait first looks many times in a row, because a peer on the same node answers in less than a microsecond. Then it goes
 * round by round, with the time limit, the PEs that have ended and the health of the session (shmdi_pe_wait_round).
 */
#include <shmd/dev/pe.h>

#ifndef SHMDI_PE_WAIT_H
#define SHMDI_PE_WAIT_H

#include <shmd/abi/doorbell.h>
#include <shmd/dev/impl/pe-at.h>
#include <shmd/dev/impl/pe-way.h>
#include <shmd/dev/impl/wait.h>

/* Looks before the first round; on a CPU some microseconds, less than a trip into the kernel costs twice. */
#if SHMDI_CUDA
#define SHMDI_PE_LOOKS 32u
#else
#define SHMDI_PE_LOOKS 64u
#endif

/* A wait for memory. */
struct shmdi_pe_wait {
	struct shmdi_wait wait;
	const struct shmd_dev_world *world;
	const struct shmd_dev_team *team; /* for its members, who must all live; or 0 */
};

SHMDI_FN void shmdi_pe_wait_init(struct shmdi_pe_wait *wait, struct shmd_dev_ctx *ctx, uint64_t timeout_nsec)
{
	const struct shmd_dev_world *world = shmdi_world_of(ctx);
	uint64_t page = SHMDI_FIXED(world->health_addr);

	wait->world = world;
	wait->team = 0;
	wait->wait.health_addr = page ? page + offsetof(struct shmd_health_page, session) : 0;
	wait->wait.timeout_nsec = timeout_nsec;
	wait->wait.start_nsec = 0;
	wait->wait.round = 0;
	if (shmdi_ctx_has_queues(ctx))
		shmdi_ctx_kick(ctx);
}

/* A PE has ended and the program has not acknowledged it, or the world was aborted. */
SHMDI_FN int shmdi_world_status(const struct shmd_dev_world *world)
{
	/* In this order: the program raises n_gone_known to what it saw in n_gone. */
	uint32_t known = shmdi_word_load32(&world->n_gone_known);
	uint32_t gone = shmdi_word_load32(&world->n_gone);

	return gone != known || shmdi_word_load32(&world->ended) ? SHMD_DEV_PE_GONE : SHMD_DEV_OK;
}

/* PE_GONE if a member has ended: whoever the program has forgiven does not end waits any more, and will never call. One caller. */
SHMDI_SLOW int shmdi_team_look_for_gone(const struct shmd_dev_world *world, const struct shmd_dev_team *team)
{
	uint32_t i, heap = SHMDI_FIXED(team->scratch_heap);

	for (i = 0; i < SHMDI_FIXED(team->n_pes); i++) {
		if (shmdi_path_load(shmdi_pe_entry(world, shmdi_team_member(team, i)), heap) == SHMD_PATH_GONE)
			return SHMD_DEV_PE_GONE;
	}
	return SHMD_DEV_OK;
}

SHMDI_FN int shmdi_team_all_live(const struct shmd_dev_world *world, const struct shmd_dev_team *team)
{
	return SHMDI_LIKELY(!shmdi_word_load32(&world->n_gone)) ? (int)SHMD_DEV_OK : shmdi_team_look_for_gone(world, team);
}

/* Between two looks. Returns SHMD_DEV_OK (look again), SHMD_DEV_PE_GONE, SHMD_DEV_TIMEOUT or SHMD_DEV_HEALTH. */
SHMDI_FN int shmdi_pe_wait_round(struct shmdi_pe_wait *wait)
{
	if (shmdi_wait_is_due(&wait->wait, SHMDI_HEALTH_ROUNDS)) {
		int rc = shmdi_world_status(wait->world);

		if (!rc && wait->team)
			rc = shmdi_team_all_live(wait->world, wait->team);
		if (rc)
			return rc;
	}
	return shmdi_wait_round(&wait->wait);
}

/* Between two of the first looks. */
SHMDI_FN void shmdi_pe_pause(void)
{
#if !SHMDI_CUDA && (defined(__x86_64__) || defined(__i386__))
	__builtin_ia32_pause();
#endif
}

/* ---- one word ---------------------------------------------------------------------------------------------------------------- */

/* A condition, made so that one unsigned comparison serves words of all sizes and signs. */
struct shmdi_pe_until {
	const void *word;
	uint64_t want;
	uint64_t flip; /* turns signed order into unsigned order */
	uint32_t bytes, shift, cmp;
	const struct shmd_dev_team *team; /* as that of a wait */
};

SHMDI_FN uint64_t shmdi_until_key(const struct shmdi_pe_until *until, uint64_t v)
{
	return (v << until->shift) ^ until->flip;
}

SHMDI_FN int shmdi_until_is_valid(const void *word, uint32_t bytes, uint32_t cmp)
{
	return (bytes == 2 || bytes == 4 || bytes == 8) && !((uintptr_t)word & (bytes - 1)) &&
	       (cmp & ~SHMD_DEV_CMP_SIGNED) <= SHMD_DEV_CMP_LE;
}

SHMDI_FN struct shmdi_pe_until shmdi_pe_until_of(const void *word, uint32_t bytes, uint32_t cmp, uint64_t value)
{
	struct shmdi_pe_until until;

	until.word = word;
	until.team = 0;
	until.bytes = bytes;
	until.shift = 64 - 8 * bytes;
	until.flip = (cmp & SHMD_DEV_CMP_SIGNED) ? 1ull << 63 : 0;
	until.cmp = cmp & ~SHMD_DEV_CMP_SIGNED;
	until.want = shmdi_until_key(&until, value);
	return until;
}

SHMDI_FN int shmdi_pe_until_holds(const struct shmdi_pe_until *until)
{
	return shmdi_compare(shmdi_until_key(until, shmdi_pes_load(until->word, until->bytes)), (int)until->cmp, until->want);
}

/* Behind the first looks. The condition comes by value: what a pointer leads to is read again in each round. */
SHMDI_APART int shmdi_pe_until_wait(struct shmd_dev_ctx *ctx, struct shmdi_pe_until until, uint64_t timeout_nsec)
{
	struct shmdi_pe_wait wait;
	int rc;

	shmdi_pe_wait_init(&wait, ctx, timeout_nsec);
	wait.team = until.team;
	while (!shmdi_pe_until_holds(&until)) {
		rc = shmdi_pe_wait_round(&wait);
		if (rc)
			return rc;
	}
	return SHMD_DEV_OK;
}

/* One caller. */
SHMDI_FN int shmdi_pe_until_one(struct shmd_dev_ctx *ctx, const struct shmdi_pe_until *until, uint64_t timeout_nsec)
{
	uint32_t i = 0;
	int holds;

	SHMDI_ROLLED
	while (!(holds = shmdi_pe_until_holds(until)) && ++i < SHMDI_PE_LOOKS)
		shmdi_pe_pause();
	return SHMDI_LIKELY(holds) ? (int)SHMD_DEV_OK : SHMDI_TO_FAR(shmdi_pe_until_wait)(ctx, *until, timeout_nsec);
}

SHMDI_FN int shmdi_pe_until(struct shmd_dev_ctx *ctx, const struct shmdi_pe_until *until, int scope, uint64_t timeout_nsec)
{
	int rc = SHMD_DEV_OK;

	if (shmdi_scope_enter(scope))
		rc = shmdi_pe_until_one(ctx, until, timeout_nsec);
	return shmdi_scope_leave(scope, rc);
}

SHMDI_FN int shmd_dev_wait_until_as(struct shmd_dev_ctx *ctx, const void *word, uint32_t bytes, uint32_t cmp, uint64_t value,
				    struct shmd_dev_mode mode)
{
	struct shmdi_pe_until until;

	if (SHMDI_UNLIKELY(!shmdi_until_is_valid(word, bytes, cmp)))
		return SHMD_DEV_INVALID;
	until = shmdi_pe_until_of(word, bytes, cmp, value);
	return shmdi_pe_until(ctx, &until, mode.scope, mode.timeout_nsec);
}

SHMDI_FN int shmd_dev_wait_until(struct shmd_dev_ctx *ctx, const void *word, uint32_t bytes, uint32_t cmp, uint64_t value)
{
	return shmd_dev_wait_until_as(ctx, word, bytes, cmp, value, shmdi_ctx_mode(ctx));
}

SHMDI_FN int shmd_dev_test(struct shmd_dev_ctx *ctx, const void *word, uint32_t bytes, uint32_t cmp, uint64_t value)
{
	struct shmdi_pe_until until;

	(void)ctx;
	if (SHMDI_UNLIKELY(!shmdi_until_is_valid(word, bytes, cmp)))
		return SHMD_DEV_INVALID;
	until = shmdi_pe_until_of(word, bytes, cmp, value);
	return shmdi_pe_until_holds(&until) ? SHMD_DEV_OK : SHMD_DEV_AGAIN;
}

#endif
