/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carrying out works (random-work.h): CUDA, where one block has N_THREADS threads; and C, in which a test has one thread. Calls in scope thread are the
 * first thread's, those in scope warp the first warp's.
 */
#ifndef SHMEMD_TESTS_GPU_RANDOM_KERNEL_H
#define SHMEMD_TESTS_GPU_RANDOM_KERNEL_H

#include <shmd/dev/coll.h>
#include <shmd/dev/pe.h>

#include "tests/gpu/random-work.h"
#include "tests/random/coll.h"

#define N_THREADS 64u
#define MAX_ITEMS 32

#if defined(__CUDACC__)
#define WORK_FN static __device__
#define WORK_THREAD threadIdx.x
#define WORK_THREADS blockDim.x
#define WORK_SCOPE(work) ((enum shmd_dev_scope)(work)->scope)
#define WORK_ANY(holds) __syncthreads_or(holds)
#else
#define WORK_FN static inline
#define WORK_THREAD 0u
#define WORK_THREADS 1u
#define WORK_SCOPE(work) ((void)(work), SHMD_DEV_THREAD)
#define WORK_ANY(holds) (holds)
#endif

/* True for the first caller. */
WORK_FN bool take_once(uint32_t *flag)
{
#if defined(__CUDACC__)
	return !atomicCAS_system(flag, 0, 1);
#else
	return !__atomic_exchange_n(flag, 1, __ATOMIC_RELAXED);
#endif
}

WORK_FN void note(struct work_failure *failure, const struct work *w, int status, uint64_t index, uint64_t found, uint64_t wanted)
{
	if (!take_once(&failure->has_failed))
		return;
	failure->step = w->step;
	failure->kind = w->kind;
	failure->status = status;
	failure->index = index;
	failure->found = found;
	failure->wanted = wanted;
}

WORK_FN uint32_t mix(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdull;
	x ^= x >> 29;
	x *= 0xc4ceb9fe1a85ec53ull;
	return (uint32_t)(x >> 32);
}

WORK_FN struct shmd_dev_ctx *ctx_of(const struct work *w)
{
	return (struct shmd_dev_ctx *)w->ctx;
}

WORK_FN struct shmd_dev_team *team_of(const struct work *w)
{
	return (struct shmd_dev_team *)w->team;
}

/* ---- memory of this PE: by all threads */

WORK_FN void fill(const struct work *w)
{
	for (uint64_t i = WORK_THREAD; i < w->n * w->bytes; i += WORK_THREADS) {
		uint64_t block = i / w->bytes, at = i % w->bytes;

		w->dest[block * w->dest_stride + at] = (uint8_t)mix((w->value + block) * 0x9e3779b97f4a7c15ull + (uint32_t)(w->first + at));
	}
}

WORK_FN void set(const struct work *w)
{
	for (uint64_t i = WORK_THREAD; i < w->bytes; i += WORK_THREADS)
		w->dest[i] = (uint8_t)w->value;
}

WORK_FN void copy(const struct work *w)
{
	for (uint64_t i = WORK_THREAD; i < w->bytes; i += WORK_THREADS)
		w->dest[i] = w->source[i];
}

WORK_FN void compare(const struct work *w, struct work_failure *failure)
{
	uint64_t used = w->compare ? w->compare : w->bytes;

	for (uint64_t i = WORK_THREAD; i < w->n * w->bytes; i += WORK_THREADS) {
		uint8_t found = *(volatile uint8_t *)&w->source[i / w->bytes * w->source_stride + i % w->bytes];

		if (i % w->bytes < used && found != w->wanted[i])
			note(failure, w, 0, i, found, w->wanted[i]);
	}
}

/* ---- one thread's calls */

WORK_FN struct shmd_dev_stride stride_of(const struct work *w)
{
	struct shmd_dev_stride stride;

	stride.n = w->n;
	stride.block_bytes = w->bytes;
	stride.dest_stride_bytes = w->dest_stride;
	stride.source_stride_bytes = w->source_stride;
	return stride;
}

WORK_FN int put_batch(const struct work *w)
{
	struct shmd_dev_put_item items[MAX_ITEMS];

	for (uint64_t i = 0; i < w->n; i++) {
		items[i].dest = w->dest + i * w->dest_stride;
		items[i].source = w->source + i * w->source_stride;
		items[i].bytes = w->bytes;
		items[i].pe = i % 2 ? w->pe2 : w->pe;
	}
	return shmd_dev_put_batch_nbi(ctx_of(w), items, w->n);
}

WORK_FN int get_batch(const struct work *w)
{
	struct shmd_dev_get_item items[MAX_ITEMS];

	for (uint64_t i = 0; i < w->n; i++) {
		items[i].dest = w->dest + i * w->dest_stride;
		items[i].source = w->source + i * w->source_stride;
		items[i].bytes = w->bytes;
		items[i].pe = i % 2 ? w->pe2 : w->pe;
	}
	return shmd_dev_get_batch_nbi(ctx_of(w), items, w->n);
}

WORK_FN int put_direct(const struct work *w)
{
	uint8_t *there = (uint8_t *)shmd_dev_ptr(ctx_of(w), w->dest, w->pe);

	if (!there)
		return shmd_dev_put(ctx_of(w), w->dest, w->source, w->bytes, w->pe);
	for (uint64_t i = 0; i < w->bytes; i++)
		there[i] = w->source[i];
	return SHMD_DEV_OK;
}

WORK_FN int get_word(const struct work *w, struct work_failure *failure)
{
	uint64_t found = 0;
	int status = shmd_dev_g(ctx_of(w), w->source, (uint32_t)w->bytes, w->pe, &found);

	if (!status && found != w->want)
		note(failure, w, 0, 0, found, w->want);
	return status;
}

WORK_FN int atomic(const struct work *w, struct work_failure *failure)
{
	struct shmd_dev_amo amo = shmd_dev_amo_of(w->op, (uint32_t)w->bytes, w->value);
	uint64_t old = 0;
	int status = SHMD_DEV_OK;

	amo.compare = w->compare;
	for (uint64_t i = 0; !status && (i < w->n || !i); i++) {
		if (w->kind == WORK_ATOMIC) {
			status = shmd_dev_atomic(ctx_of(w), w->dest, amo, w->pe);
			continue;
		}
		status = shmd_dev_atomic_fetch(ctx_of(w), w->dest, amo, w->pe, w->is_exact ? &old : NULL);
		if (!status && w->is_exact && old != w->want)
			note(failure, w, 0, i, old, w->want);
	}
	return status;
}

/* dest: the lock; source: the word. */
WORK_FN int locked_add(const struct work *w)
{
	int status = SHMD_DEV_OK;

	for (uint64_t i = 0; !status && i < w->compare; i++) {
		uint64_t v = 0;

		if (w->value & 2)
			while ((status = shmd_dev_lock_test(ctx_of(w), (uint64_t *)w->dest)) == SHMD_DEV_AGAIN)
				;
		else
			status = shmd_dev_lock(ctx_of(w), (uint64_t *)w->dest);
		if (!status)
			status = shmd_dev_g(ctx_of(w), w->source, 8, w->pe, &v);
		if (!status)
			status = shmd_dev_p(ctx_of(w), w->source, v + w->value, 8, w->pe);
		if (!status)
			status = shmd_dev_unlock(ctx_of(w), (uint64_t *)w->dest);
	}
	return status;
}

WORK_FN void check_found(const struct work *w, const uint64_t *indexes, uint64_t n, struct work_failure *failure)
{
	uint32_t found = 0;

	for (uint64_t i = 0; i < n; i++) {
		if (indexes[i] >= w->n || !(w->good >> indexes[i] & 1) || (found >> indexes[i] & 1))
			note(failure, w, 0, i, indexes[i], w->good);
		found |= 1u << indexes[i];
	}
	if (!n)
		note(failure, w, 0, 0, 0, w->good);
}

WORK_FN int wait_many(const struct work *w, struct work_failure *failure)
{
	uint64_t values[WORK_WORDS], indexes[WORK_WORDS], n = 1;
	int statuses[WORK_WORDS], status;
	struct shmd_dev_wait wait;

	for (uint64_t i = 0; i < w->n; i++) {
		statuses[i] = w->mask >> i & 1 ? 0 : 1;
		for (uint32_t j = 0; j < w->bytes; j++)
			((uint8_t *)values)[i * w->bytes + j] = (uint8_t)(w->values[i] >> 8 * j);
	}
	wait.words = w->source;
	wait.n = w->n;
	wait.bytes = (uint32_t)w->bytes;
	wait.cmp = (uint32_t)w->cmp;
	wait.status = statuses;
	wait.value = 0;
	wait.values = values;
	if (w->kind == WORK_WAIT_ALL) {
		status = shmd_dev_wait_until_all(ctx_of(w), &wait);
		return status ? status : shmd_dev_test_all(ctx_of(w), &wait);
	}
	if (w->kind == WORK_WAIT_ANY)
		status = shmd_dev_wait_until_any(ctx_of(w), &wait, indexes);
	else
		status = shmd_dev_wait_until_some(ctx_of(w), &wait, indexes, &n);
	if (status)
		return status;
	check_found(w, indexes, n, failure);
	status = shmd_dev_test_some(ctx_of(w), &wait, indexes, &n);
	if (!status)
		check_found(w, indexes, n, failure);
	return status;
}

WORK_FN int test_word(const struct work *w, struct work_failure *failure)
{
	int status = shmd_dev_test(ctx_of(w), w->source, (uint32_t)w->bytes, (uint32_t)w->cmp, w->value);

	if (status == SHMD_DEV_OK || status == SHMD_DEV_AGAIN) {
		if ((status == SHMD_DEV_OK) != (w->want != 0))
			note(failure, w, status, 0, status == SHMD_DEV_OK, w->want);
		return SHMD_DEV_OK;
	}
	return status;
}

WORK_FN int refused(const struct work *w)
{
	uint64_t outside = 1;
	int status;

	if (w->kind == WORK_INVALID_PE)
		status = shmd_dev_put(ctx_of(w), w->dest, &outside, 8, w->pe);
	else if (w->kind == WORK_INVALID_DEST)
		status = shmd_dev_put(ctx_of(w), &outside, w->dest, 8, 0);
	else if (w->kind == WORK_INVALID_P)
		status = shmd_dev_p(ctx_of(w), w->dest + 1, 1, 2, 0);
	else
		status = shmd_dev_atomic(ctx_of(w), w->dest + 4, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), 0);
	/* Any status but this is wrong, also success. */
	return status == SHMD_DEV_INVALID ? (int)SHMD_DEV_OK : status ? status : (int)SHMD_DEV_INVALID;
}

WORK_FN int by_one(const struct work *w, struct work_failure *failure)
{
	struct shmd_dev_ctx *ctx = ctx_of(w);
	struct shmd_dev_stride stride = stride_of(w);

	switch (w->kind) {
	case WORK_PUT_STRIDED:
		return shmd_dev_put_strided(ctx, w->dest, w->source, &stride, w->pe);
	case WORK_PUT_STRIDED_NBI:
		return shmd_dev_put_strided_nbi(ctx, w->dest, w->source, &stride, w->pe);
	case WORK_PUT_DIRECT:
		return put_direct(w);
	case WORK_BATCH:
		return put_batch(w);
	case WORK_P:
		return shmd_dev_p(ctx, w->dest, w->value, (uint32_t)w->bytes, w->pe);
	case WORK_GET_STRIDED:
		return shmd_dev_get_strided(ctx, w->dest, w->source, &stride, w->pe);
	case WORK_GET_STRIDED_NBI:
		return shmd_dev_get_strided_nbi(ctx, w->dest, w->source, &stride, w->pe);
	case WORK_GET_BATCH:
		return get_batch(w);
	case WORK_G:
		return get_word(w, failure);
	case WORK_ATOMIC:
	case WORK_ATOMIC_FETCH:
		return atomic(w, failure);
	case WORK_FENCE:
		return shmd_dev_fence(ctx);
	case WORK_FENCE_PE:
		return shmd_dev_fence_pe(ctx, w->pe);
	case WORK_TEST:
		return test_word(w, failure);
	case WORK_WAIT_ALL:
	case WORK_WAIT_ANY:
	case WORK_WAIT_SOME:
		return wait_many(w, failure);
	case WORK_LOCKED_ADD:
		return locked_add(w);
	default:
		return refused(w);
	}
}

/* ---- calls that have a scope */

WORK_FN int collective(const struct work *w, struct shmd_dev_mode mode)
{
	struct shmd_dev_coll args = shmd_dev_coll_math(w->dest, w->source, w->n, (uint32_t)w->type, (uint32_t)w->op);

	args.root = w->pe;
	args.stride = stride_of(w);
	switch (w->call) {
	case COLL_BROADCAST:
		return shmd_dev_broadcast_as(ctx_of(w), team_of(w), &args, mode);
	case COLL_FCOLLECT:
		return shmd_dev_fcollect_as(ctx_of(w), team_of(w), &args, mode);
	case COLL_COLLECT:
		return shmd_dev_collect_as(ctx_of(w), team_of(w), &args, mode);
	case COLL_ALLTOALL:
		return shmd_dev_alltoall_as(ctx_of(w), team_of(w), &args, mode);
	case COLL_ALLTOALLS:
		return shmd_dev_alltoalls_as(ctx_of(w), team_of(w), &args, mode);
	case COLL_REDUCE:
		return shmd_dev_reduce_as(ctx_of(w), team_of(w), &args, mode);
	case COLL_REDUCE_SCATTER:
		return shmd_dev_reduce_scatter_as(ctx_of(w), team_of(w), &args, mode);
	case COLL_SCAN_INCLUSIVE:
		return shmd_dev_scan_inclusive_as(ctx_of(w), team_of(w), &args, mode);
	default:
		return shmd_dev_scan_exclusive_as(ctx_of(w), team_of(w), &args, mode);
	}
}

WORK_FN int put_signal(const struct work *w, struct shmd_dev_mode mode)
{
	struct shmd_dev_pe_signal signal = shmd_dev_pe_signal_of((uint64_t *)w->signal, w->op, w->value);
	struct shmd_dev_put_item put;

	put.dest = w->dest;
	put.source = w->source;
	put.bytes = w->bytes;
	put.pe = w->pe;
	return w->kind == WORK_PUT_SIGNAL ? shmd_dev_put_signal_as(ctx_of(w), put, signal, mode) : shmd_dev_put_signal_nbi_as(ctx_of(w), put, signal, mode);
}

WORK_FN int by_scope(const struct work *w)
{
	struct shmd_dev_ctx *ctx = ctx_of(w);
	struct shmd_dev_mode mode = shmd_dev_ctx_mode(ctx, WORK_SCOPE(w));

	switch (w->kind) {
	case WORK_PUT:
		return shmd_dev_put_as(ctx, w->dest, w->source, w->bytes, w->pe, mode);
	case WORK_PUT_NBI:
		return shmd_dev_put_nbi_as(ctx, w->dest, w->source, w->bytes, w->pe, mode);
	case WORK_GET:
		return shmd_dev_get_as(ctx, w->dest, w->source, w->bytes, w->pe, mode);
	case WORK_GET_NBI:
		return shmd_dev_get_nbi_as(ctx, w->dest, w->source, w->bytes, w->pe, mode);
	case WORK_PUT_SIGNAL:
	case WORK_PUT_SIGNAL_NBI:
		return put_signal(w, mode);
	case WORK_SIGNAL:
		return shmd_dev_signal_as(ctx, shmd_dev_pe_signal_of((uint64_t *)w->signal, w->op, w->value), w->pe, mode);
	case WORK_QUIET:
		return shmd_dev_quiet_as(ctx, mode);
	case WORK_QUIET_PE:
		return shmd_dev_quiet_pe_as(ctx, w->pe, mode);
	case WORK_SYNC:
		return shmd_dev_team_sync_as(ctx, team_of(w), mode);
	case WORK_BARRIER:
		return shmd_dev_team_barrier_as(ctx, team_of(w), mode);
	case WORK_WAIT:
		return shmd_dev_wait_until_as(ctx, w->source, (uint32_t)w->bytes, (uint32_t)w->cmp, w->value, mode);
	default:
		return collective(w, mode);
	}
}

WORK_FN bool has_scope(enum work_kind kind)
{
	return kind == WORK_PUT || kind == WORK_PUT_NBI || kind == WORK_GET || kind == WORK_GET_NBI || kind == WORK_PUT_SIGNAL ||
	       kind == WORK_PUT_SIGNAL_NBI || kind == WORK_SIGNAL || kind == WORK_QUIET || kind == WORK_QUIET_PE || kind == WORK_SYNC ||
	       kind == WORK_BARRIER || kind == WORK_WAIT || kind == WORK_COLL;
}

/* In scope warp: by warp `warp`. */
WORK_FN void call(const struct work *w, uint32_t warp, struct work_failure *failure)
{
	bool is_scoped = has_scope(w->kind);
	int scope = is_scoped ? (int)WORK_SCOPE(w) : (int)SHMD_DEV_THREAD, status = SHMD_DEV_OK;

	if (scope == SHMD_DEV_BLOCK || (scope == SHMD_DEV_WARP && WORK_THREAD / 32 == warp) || WORK_THREAD == 32 * warp)
		status = is_scoped ? by_scope(w) : by_one(w, failure);
	if (status)
		note(failure, w, status, 0, 0, 0);
}

/* Two calls on different teams: each by a warp. */
WORK_FN void call_both(const struct work *works, struct work_failure *failure)
{
#if defined(__CUDACC__)
	call(&works[WORK_THREAD / 32], WORK_THREAD / 32, failure);
#else
	call(&works[0], 0, failure);
	call(&works[1], 0, failure);
#endif
}

WORK_FN void carry_out(const struct work *works, uint32_t n, struct work_failure *failure)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct work *w = &works[i];
		bool has_beside = i + 1 < n && works[i + 1].is_beside;

		if (w->kind == WORK_PATTERN)
			fill(w);
		else if (w->kind == WORK_SET)
			set(w);
		else if (w->kind == WORK_COPY)
			copy(w);
		else if (w->kind == WORK_COMPARE)
			compare(w, failure);
		else if (has_beside)
			call_both(w, failure);
		else
			call(w, 0, failure);
		i += has_beside;
		if (WORK_ANY(*(volatile uint32_t *)&failure->has_failed != 0))
			break;
	}
}

#endif
