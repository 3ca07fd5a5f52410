/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of collectives that is the same on all PEs: random operations on random teams with random sizes, types and places, one behind
 * the other without barriers. Each PE compares its dest with what a loop over the members gives (coll-model.c), and looks whether anything
 * changed that must not: bytes around dest, source, and dest between two calls.
 *
 * Runs among threads (tests/dev) and among processes (tests/system); the calls are those of a table.
 */
#ifndef SHMD_TESTS_DEV_COLL_PROGRAM_H
#define SHMD_TESTS_DEV_COLL_PROGRAM_H

#include <stdint.h>

#include <shmd/dev/coll.h>

#define COLL_MAX_PES 20u
#define COLL_MAX_TEAMS 8u

enum coll_call {
	COLL_BROADCAST,
	COLL_FCOLLECT,
	COLL_COLLECT,
	COLL_ALLTOALL,
	COLL_ALLTOALLS,
	COLL_REDUCE,
	COLL_REDUCE_SCATTER,
	COLL_SCAN_INCLUSIVE,
	COLL_SCAN_EXCLUSIVE,
	COLL_SYNC,
	COLL_N_CALLS,
};

/* A team as all PEs of the program know it. */
struct coll_team {
	void *team; /* of the caller; NULL: it is no member */
	uint32_t members[COLL_MAX_PES]; /* PEs of the world */
	uint32_t n;
};

struct coll_home {
	/* Makes the call on a team; 0, or a failure. */
	int (*call)(void *ctx, void *team, enum coll_call call, const struct shmd_dev_coll *args);
	void *ctx;
	struct coll_team *teams;
	uint32_t n_teams, pe;
	uint8_t *room; /* symmetric, 64-byte aligned */
	uint64_t room_bytes;
	uint64_t seed; /* the same on all PEs */
	uint32_t n_steps;
};

void coll_program_run(const struct coll_home *home);
/* Make the call by device functions: ctx and team are those of a device. */
int coll_call_dev(void *ctx, void *team, enum coll_call call, const struct shmd_dev_coll *args);

/* ---- the model */

/* One step of a program, as all PEs know it. */
struct coll_step {
	enum coll_call call;
	const struct coll_team *team;
	struct shmd_dev_coll args; /* n of a collect: the caller's own */
	uint64_t number; /* of the step */
	int in_place;
};

/* Operations that a type has: the first so many. */
uint32_t coll_n_ops(uint32_t type);

/* Bytes of the source of a member before the call, from byte `at` on. */
void coll_source(const struct coll_step *step, uint32_t member, uint64_t at, uint64_t bytes, uint8_t *ret_source);
uint64_t coll_source_bytes(const struct coll_step *step, uint32_t member);
uint64_t coll_dest_bytes(const struct coll_step *step, uint32_t member);
/* The dest of a member after the call, and which bytes of it are defined. */
void coll_model(const struct coll_step *step, uint32_t member, uint8_t *ret_dest, uint8_t *ret_defined);
/* The bytes that a member passes to a collect. */
uint64_t coll_collect_bytes(const struct coll_step *step, uint32_t member);

#endif
