/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs for the runtime: a list of steps, in one order for all PEs, of which each PE carries out its own.
 *
 * A program has one result, whatever the PEs' speed: judge() (model.c) lets a step pass only if it races with no step before it, by the
 * contract of <shmd.h>, and writes down what the step must find. So a list without some of its steps is judged again, and is a program too.
 */
#ifndef SHMEMD_TESTS_RANDOM_PROGRAM_H
#define SHMEMD_TESTS_RANDOM_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_PES 16
#define MAX_WORLDS 2
#define MAX_ALLOCS 8 /* allocation 0 has the words */
#define MAX_TEAMS 6 /* team 0 is the world */
#define MAX_CTXS 4 /* of each PE and world; context 0 is the default one */
#define MAX_WAIT 6 /* words of one wait */
#define LOCAL_CTX (-1) /* loads and stores of the PE */
#define ALL_PES (-1)
#define PRIVATE (-1) /* memory outside of the heap, in place of an allocation */

/* Words that PEs wait for, locks and what they guard: allocation 0, the same in each program. */
struct words {
	uint64_t w8[24];
	uint32_t w4[8];
	uint16_t w2[8];
	uint64_t lock[2], guarded[2];
};
#define N_WORDS 40
enum word_use { USE_SIGNAL_SET, USE_SIGNAL_ADD, USE_PUT, USE_ATOMIC_ADD };

enum step_kind {
	STEP_MALLOC, STEP_CALLOC, STEP_ALIGN, STEP_REALLOC, STEP_FREE, STEP_MALLOC_FAILS, STEP_MALLOC_DIFFERS,
	STEP_SPLIT_COLOR, STEP_SPLIT_STRIDED, STEP_SPLIT_2D, STEP_TEAM_END, STEP_CTX, STEP_CTX_END,
	STEP_SYNC, STEP_BARRIER, STEP_FENCE, STEP_FENCE_PE, STEP_QUIET, STEP_QUIET_PE,
	STEP_PUT, STEP_PUT_NBI, STEP_PUT_DIRECT, STEP_P, STEP_PUT_STRIDED, STEP_PUT_STRIDED_NBI, STEP_BATCH,
	STEP_GET, STEP_GET_NBI, STEP_G, STEP_GET_STRIDED, STEP_GET_STRIDED_NBI, STEP_GET_BATCH, STEP_STORE, STEP_CHECK,
	STEP_ATOMIC, STEP_ATOMIC_FETCH, STEP_PUT_SIGNAL, STEP_PUT_SIGNAL_NBI, STEP_FLAG,
	STEP_WAIT, STEP_WAIT_ALL, STEP_WAIT_ANY, STEP_WAIT_SOME, STEP_TEST, STEP_LOCKED_ADD,
	STEP_WRONG, STEP_TEAM_CHECK, STEP_COLL, STEP_PAUSE,
	N_STEP_KINDS,
};
extern const char *const step_names[N_STEP_KINDS];

/* Items that go to two PEs in turn. */
static inline bool is_batch(enum step_kind kind)
{
	return kind == STEP_BATCH || kind == STEP_GET_BATCH;
}

static inline bool has_blocks(enum step_kind kind)
{
	return kind == STEP_PUT_STRIDED || kind == STEP_PUT_STRIDED_NBI || kind == STEP_GET_STRIDED || kind == STEP_GET_STRIDED_NBI ||
	       is_batch(kind);
}

/* The buffers belong to it until a quiet. */
static inline bool is_nbi(enum step_kind kind)
{
	return kind == STEP_PUT_NBI || kind == STEP_PUT_STRIDED_NBI || kind == STEP_PUT_SIGNAL_NBI || kind == STEP_GET_NBI ||
	       kind == STEP_GET_STRIDED_NBI || is_batch(kind);
}

struct step {
	enum step_kind kind;
	int world, pe, ctx, team; /* pe: by the number of its process, in both worlds */
	int to, to2; /* the other PE; of a batch, that of each second item */
	int alloc, near_alloc;
	uint32_t at, near_at, bytes; /* in the bytes that the model knows; bytes is also the size of a word */
	uint32_t n, stride, near_stride; /* n: blocks, words, or how often an atomic is made */
	uint64_t size, align; /* of an allocation */
	int op, cmp, word;
	uint64_t value;
	uint64_t compare; /* of an atomic; the pattern of the data of a signal; how often a lock is taken */
	uint64_t values[MAX_WAIT];
	uint32_t mask, good; /* words that count; those whose comparison holds in the end */
	bool is_exact; /* the former value of an atomic is known */
	bool wants_beside; /* a collective: at once with the one before */
	int8_t color[MAX_PES], key[MAX_PES];
	/* found by judge() */
	bool is_beside;
	uint64_t want;
	uint32_t want_at; /* in the program's wanted bytes */
};

struct program {
	uint64_t seed;
	int n_pes, n_worlds;
	uint32_t cap; /* bytes of an allocation that the model knows: all, or half at each end */
	uint32_t queue_depth, dcis, nics;
	bool has_guards, is_single;
	struct step *steps;
	uint32_t n_steps, room_steps;
	uint8_t *wanted;
	uint32_t n_wanted, room_wanted;
};

static inline uint32_t mix32(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdu;
	x ^= x >> 29;
	x *= 0xc4ceb9fe1a85ec53u;
	return (uint32_t)(x >> 32);
}

/* Byte i of the pattern of a step. */
static inline uint8_t pattern_byte(uint64_t value, uint32_t i)
{
	return (uint8_t)mix32(value * 0x9e3779b97f4a7c15u + i);
}

static inline void pattern_fill(uint8_t *to, uint64_t value, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		to[i] = pattern_byte(value, i);
}

/* The rank of a process in a world: the second one turns them. */
static inline int rank_of(const struct program *program, int world, int pe)
{
	return (pe + world) % program->n_pes;
}

uint32_t word_at(int word);
uint32_t word_bytes(int word);
enum word_use word_use(int word);

/* generate.c */
void program_make(struct program *program, uint64_t seed, int n_pes);
void program_free(struct program *program);
void program_add(struct program *program, const struct step *step);
/* A program of those steps of another that `keep` selects, and that need none of the others. */
void program_cut(const struct program *from, const bool *keep, struct program *ret_program);
/* One line. */
void step_print(const struct program *program, uint32_t i);

#endif
