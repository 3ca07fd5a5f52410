/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "tests/random/coll.h"

#define NAME(kind, text) [STEP_##kind] = text

const char *const step_names[N_STEP_KINDS] = {
	NAME(MALLOC, "malloc"), NAME(CALLOC, "calloc"), NAME(ALIGN, "align"), NAME(REALLOC, "realloc"), NAME(FREE, "free"),
	NAME(MALLOC_FAILS, "malloc of too much"), NAME(MALLOC_DIFFERS, "malloc of different sizes"), NAME(SPLIT_COLOR, "split_color"),
	NAME(SPLIT_STRIDED, "split_strided"), NAME(SPLIT_2D, "split_2d"), NAME(TEAM_END, "team_destroy"), NAME(CTX, "ctx_create"),
	NAME(CTX_END, "ctx_destroy"), NAME(SYNC, "sync"), NAME(BARRIER, "barrier"), NAME(FENCE, "fence"), NAME(FENCE_PE, "fence_pe"),
	NAME(QUIET, "quiet"), NAME(QUIET_PE, "quiet_pe"), NAME(PUT, "put"), NAME(PUT_NBI, "put_nbi"), NAME(PUT_DIRECT, "store by shmd_ptr"),
	NAME(P, "p"), NAME(PUT_STRIDED, "put_strided"), NAME(PUT_STRIDED_NBI, "put_strided_nbi"), NAME(BATCH, "put_batch_nbi"), NAME(GET, "get"), NAME(GET_NBI, "get_nbi"),
	NAME(G, "g"), NAME(GET_STRIDED, "get_strided"), NAME(GET_STRIDED_NBI, "get_strided_nbi"), NAME(GET_BATCH, "get_batch_nbi"), NAME(STORE, "store"), NAME(CHECK, "look"), NAME(ATOMIC, "atomic"),
	NAME(ATOMIC_FETCH, "atomic_fetch"), NAME(PUT_SIGNAL, "put_signal"), NAME(PUT_SIGNAL_NBI, "put_signal_nbi"),
	NAME(FLAG, "signal or flag"), NAME(WAIT, "wait_until"), NAME(WAIT_ALL, "wait_until_all"), NAME(WAIT_ANY, "wait_until_any"),
	NAME(WAIT_SOME, "wait_until_some"), NAME(TEST, "test"), NAME(LOCKED_ADD, "add under a lock"), NAME(WRONG, "wrong call"),
	NAME(TEAM_CHECK, "look at a team"), NAME(COLL, "collective"), NAME(PAUSE, "pause"),
};

const char *const coll_names[N_COLL_CALLS] = {
	[COLL_BROADCAST] = "broadcast", [COLL_FCOLLECT] = "fcollect", [COLL_COLLECT] = "collect", [COLL_ALLTOALL] = "alltoall",
	[COLL_ALLTOALLS] = "alltoalls", [COLL_REDUCE] = "reduce", [COLL_REDUCE_SCATTER] = "reduce_scatter",
	[COLL_SCAN_INCLUSIVE] = "scan_inclusive", [COLL_SCAN_EXCLUSIVE] = "scan_exclusive",
};

void step_print(const struct program *program, uint32_t i)
{
	const struct step *s = &program->steps[i];

	fprintf(stderr, "  %4u world %d PE %2d %-20s", i, s->world, s->pe, step_names[s->kind]);
	if (s->kind <= STEP_MALLOC_DIFFERS)
		fprintf(stderr, " allocation %d, %llu bytes, align %llu\n", s->alloc, (unsigned long long)s->size, (unsigned long long)s->align);
	else if (s->kind <= STEP_QUIET_PE)
		fprintf(stderr, " team %d, ctx %d, to %d and %d, op %d\n", s->team, s->ctx, s->to, s->to2, s->op);
	else if (s->kind >= STEP_WAIT && s->kind <= STEP_TEST)
		fprintf(stderr, " ctx %d, words %d to %d, mask 0x%x, cmp %d, value %llu\n", s->ctx, s->word, s->word + (int)s->n - 1, s->mask,
			s->cmp, (unsigned long long)s->value);
	else if (s->kind == STEP_COLL)
		fprintf(stderr, "%s %s on team %d of PE %d, root %d: allocation %d at %u, from %d at %u, %u of %u bytes, strides %u and %u, type %u, op %d\n",
			s->is_beside ? " at once:" : "", coll_names[s->word], s->team, s->op, s->to, s->alloc, s->at, s->near_alloc,
			s->near_at, s->n, s->bytes, s->stride, s->near_stride, s->mask, s->cmp);
	else
		fprintf(stderr, " ctx %d to %d: allocation %d at %u, %u bytes, from %d at %u, %u blocks of strides %u and %u, word %d, op %d, value 0x%llx\n",
			s->ctx, s->to, s->alloc, s->at, s->bytes, s->near_alloc, s->near_at, s->n, s->stride, s->near_stride, s->word,
			s->op, (unsigned long long)s->value);
}
