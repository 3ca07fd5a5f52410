/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of few elements by words: each word of 64 bits has 4 bytes of data and a mark, the number of the reduction, so no fence and no
 * flag stands between data and reader. Each member writes its elements into its part of every other member's buffer, and each combines for
 * itself, in the order of the team.
 *
 * Two buffers take turns. A member writes into one again when it has read what all others wrote into the other one, which they did
 * after they had read this one. A mark has 31 bits of the number and is never 0; where they begin anew all clear their words and meet first, so no
 * word of long ago passes for a new one.
 *
 * A thread works on units of 8 bytes of data, two words.
 */
#include <shmd/dev/coll.h>

#ifndef SHMDI_COLL_WORDS_H
#define SHMDI_COLL_WORDS_H

#include <shmd/dev/impl/coll-ops.h>
#include <shmd/dev/impl/coll-team.h>

#define SHMDI_WORDS_UNIT 8u /* bytes of data */

/* A reduction under way. */
struct shmdi_words {
	const struct shmd_dev_team *team;
	uint64_t buffer; /* from the scratch of any member */
	uint64_t own; /* the caller's buffer */
	uint64_t number;
	uint32_t mark;
	uint32_t n, me;
};

SHMDI_FN int shmdi_words_fit(const struct shmd_dev_team *team, uint64_t bytes)
{
	return bytes <= SHMD_DEV_WORDS_DATA && SHMDI_FIXED(team->words_from_scratch) && SHMDI_FIXED(team->near_scratch[0]);
}

/* ---- a unit ------------------------------------------------------------------------------------------------------------------------ */

SHMDI_FN void shmdi_unit_send(uint64_t at, uint64_t data, uint32_t mark)
{
	shmdi_pes_store_pair((uint64_t *)(uintptr_t)at, (uint64_t)mark << 32 | (uint32_t)data, (uint64_t)mark << 32 | data >> 32);
}

/* Whether it has come. */
SHMDI_FN int shmdi_unit_look(uint64_t at, uint32_t mark, uint64_t *ret_data)
{
	uint64_t first, second;

	shmdi_pes_load_pair((const uint64_t *)(uintptr_t)at, &first, &second);
	*ret_data = (uint32_t)first | second << 32;
	return first >> 32 == mark && second >> 32 == mark;
}

/* Behind the first looks. */
SHMDI_APART int shmdi_unit_wait(struct shmd_dev_ctx *ctx, const struct shmd_dev_team *team, uint64_t at, uint32_t mark, uint64_t timeout_nsec)
{
	struct shmdi_pe_wait wait;
	uint64_t data;
	int rc;

	shmdi_pe_wait_init(&wait, ctx, timeout_nsec);
	wait.team = team;
	while (!shmdi_unit_look(at, mark, &data)) {
		rc = shmdi_pe_wait_round(&wait);
		if (rc)
			return rc;
	}
	return SHMD_DEV_OK;
}

SHMDI_FN int shmdi_unit_await(struct shmd_dev_ctx *ctx, const struct shmdi_words *words, uint64_t at, uint64_t timeout_nsec, uint64_t *ret_data)
{
	uint32_t i;
	int rc;

	SHMDI_ROLLED
	for (i = 0; i < SHMDI_PE_LOOKS; i++) {
		if (shmdi_unit_look(at, words->mark, ret_data))
			return SHMD_DEV_OK;
		shmdi_pe_pause();
	}
	rc = shmdi_unit_wait(ctx, words->team, at, words->mark, timeout_nsec);
	(void)shmdi_unit_look(at, words->mark, ret_data);
	return rc;
}

/* Elements of the program, the last unit in part. */
SHMDI_FN uint64_t shmdi_unit_load(const uint8_t *from, uint64_t left)
{
	uint64_t data = 0;
	uint32_t i;

	if (left >= SHMDI_WORDS_UNIT && !((uintptr_t)from & 7))
		return *(const uint64_t *)from;
	if (left >= SHMDI_WORDS_UNIT && !((uintptr_t)from & 3))
		return *(const uint32_t *)from | (uint64_t)*(const uint32_t *)(from + 4) << 32;
	for (i = 0; i < SHMDI_WORDS_UNIT && i < left; i++)
		data |= (uint64_t)from[i] << (8 * i);
	return data;
}

SHMDI_FN void shmdi_unit_store(uint8_t *to, uint64_t left, uint64_t data)
{
	uint32_t i;

	if (left >= SHMDI_WORDS_UNIT && !((uintptr_t)to & 7)) {
		*(uint64_t *)to = data;
	} else if (left >= SHMDI_WORDS_UNIT && !((uintptr_t)to & 3)) {
		*(uint32_t *)to = (uint32_t)data;
		*(uint32_t *)(to + 4) = (uint32_t)(data >> 32);
	} else {
		for (i = 0; i < SHMDI_WORDS_UNIT && i < left; i++)
			to[i] = (uint8_t)(data >> (8 * i));
	}
}

/* The combination of two units. */
SHMDI_APART uint64_t shmdi_unit_combine_any(uint32_t type, uint32_t op, uint64_t a, uint64_t b)
{
	shmdi_op(type, op, (uint8_t *)&a, (const uint8_t *)&a, (const uint8_t *)&b, SHMDI_WORDS_UNIT);
	return a;
}

/* Sums that are common stay in registers, where type and operation are constant. */
SHMDI_FN uint64_t shmdi_unit_combine(uint32_t type, uint32_t op, uint64_t a, uint64_t b)
{
	if (op == SHMD_DEV_REDUCE_SUM && type == SHMD_DEV_TYPE_FLOAT)
		return shmdi_float_sum((uint32_t)a, (uint32_t)b, 4) | shmdi_float_sum(a >> 32, b >> 32, 4) << 32;
	if (op == SHMD_DEV_REDUCE_SUM && type == SHMD_DEV_TYPE_DOUBLE)
		return shmdi_float_sum(a, b, 8);
	if (op == SHMD_DEV_REDUCE_SUM && (type == SHMD_DEV_TYPE_INT32 || type == SHMD_DEV_TYPE_UINT32))
		return (uint32_t)(a + b) | ((a >> 32) + (b >> 32)) << 32;
	if (op == SHMD_DEV_REDUCE_SUM && (type == SHMD_DEV_TYPE_INT64 || type == SHMD_DEV_TYPE_UINT64))
		return a + b;
	return shmdi_unit_combine_any(type, op, a, b);
}

/* ---- all units: all threads of the scope ----------------------------------------------------------------------------------------------- */

SHMDI_FN void shmdi_words_send(const struct shmdi_words *words, const struct shmd_dev_coll *args, uint64_t bytes, int scope)
{
	uint64_t at = (uint64_t)shmdi_scope_rank(scope) * SHMDI_WORDS_UNIT, step = (uint64_t)shmdi_scope_size(scope) * SHMDI_WORDS_UNIT, data;
	uint64_t part = words->buffer + words->me * SHMD_DEV_WORDS_PART_BYTES;
	uint32_t i;

	for (; at < bytes; at += step) {
		data = shmdi_unit_load((const uint8_t *)args->source + at, bytes - at);
		SHMDI_ROLLED
		for (i = 1; i < words->n; i++)
			shmdi_unit_send(SHMDI_FIXED(words->team->near_scratch[i]) + part + 2 * at, data, words->mark);
	}
}

/* The unit at `at` of all members, in their order. */
SHMDI_FN int shmdi_words_sum(struct shmd_dev_ctx *ctx, const struct shmdi_words *words, const struct shmd_dev_coll *args, uint64_t at,
			     uint64_t own, uint64_t timeout_nsec, uint64_t *ret_sum)
{
	uint64_t sum = own, next;
	uint32_t i;
	int rc = SHMD_DEV_OK;

	SHMDI_ROLLED
	for (i = 0; i < words->n && !rc; i++) {
		next = own;
		if (i != words->me)
			rc = shmdi_unit_await(ctx, words, words->own + i * SHMD_DEV_WORDS_PART_BYTES + 2 * at, timeout_nsec, &next);
		sum = i ? shmdi_unit_combine(args->type, args->op, sum, next) : next;
	}
	*ret_sum = sum;
	return rc;
}

SHMDI_FN int shmdi_words_take(struct shmd_dev_ctx *ctx, const struct shmdi_words *words, const struct shmd_dev_coll *args, uint64_t bytes,
			      const struct shmd_dev_mode *mode)
{
	uint64_t step = (uint64_t)shmdi_scope_size(mode->scope) * SHMDI_WORDS_UNIT, at, sum;
	int rc = SHMD_DEV_OK;

	for (at = (uint64_t)shmdi_scope_rank(mode->scope) * SHMDI_WORDS_UNIT; at < bytes && !rc; at += step) {
		rc = shmdi_words_sum(ctx, words, args, at, shmdi_unit_load((const uint8_t *)args->source + at, bytes - at),
				     mode->timeout_nsec, &sum);
		if (!rc)
			shmdi_unit_store((uint8_t *)args->dest + at, bytes - at, sum);
	}
	return rc;
}

/* The marks begin anew. One caller. */
SHMDI_SLOW int shmdi_words_clear_one(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, struct shmd_dev_mode mode)
{
	uint64_t *word = (uint64_t *)(uintptr_t)(SHMDI_FIXED(team->near_scratch[0]) + SHMDI_FIXED(team->words_from_scratch));
	struct shmdi_coll c;
	uint32_t i;
	int rc;

	mode.scope = SHMD_DEV_THREAD;
	(void)shmdi_coll_begin(&c, ctx, team, mode);
	for (i = 0; i < SHMD_DEV_WORDS_BYTES / sizeof(*word); i++)
		shmdi_pes_store(word + i, 0, 8);
	rc = shmdi_coll_meet(&c);
	team->n_exchanges = c.number;
	return rc;
}

/* Begins one, with a barrier of the scope. */
SHMDI_FN int shmdi_words_begin(struct shmdi_words *words, struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_mode *mode)
{
	int rc = SHMD_DEV_OK;

	words->team = team;
	/* All threads read it in front of this barrier; the leader counts behind it, and in front of the last one. */
	words->number = team->n_words;
	(void)shmdi_scope_enter(mode->scope);
	if (shmdi_scope_is_leader(mode->scope))
		team->n_words = words->number + 1;
	words->mark = (uint32_t)words->number << 1 | 1;
	words->buffer = SHMDI_FIXED(team->words_from_scratch) + (words->number & 1) * SHMD_DEV_WORDS_BUFFER_BYTES;
	words->own = SHMDI_FIXED(team->near_scratch[0]) + words->buffer;
	words->n = SHMDI_FIXED(team->n_pes);
	words->me = SHMDI_FIXED(team->my_pe);
	if (SHMDI_LIKELY(words->mark != 1 || !words->number))
		return SHMD_DEV_OK;
	if (shmdi_scope_is_leader(mode->scope))
		rc = shmdi_words_clear_one(ctx, team, *mode);
	return shmdi_scope_leave(mode->scope, rc);
}

/* dest and source are in the heap, and the team has had no failure. */
SHMDI_FN int shmdi_words_reduce(struct shmd_dev_ctx *ctx, struct shmd_dev_team *team, const struct shmd_dev_coll *args, uint64_t bytes,
				struct shmd_dev_mode mode)
{
	struct shmdi_words words;
	int rc = shmdi_words_begin(&words, ctx, team, &mode);

	if (SHMDI_LIKELY(!rc)) {
		shmdi_words_send(&words, args, bytes, mode.scope);
		rc = shmdi_words_take(ctx, &words, args, bytes, &mode);
	}
	rc = shmdi_scope_agree(mode.scope, rc);
	if (SHMDI_UNLIKELY(rc)) {
		if (shmdi_scope_is_leader(mode.scope))
			team->coll_status = rc;
		/* The next call looks at it in front of its first barrier. */
		(void)shmdi_scope_enter(mode.scope);
	}
	return rc;
}

#endif
