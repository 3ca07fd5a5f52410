/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_DEV_PE_PROGRAM_H
#define SHMD_TESTS_DEV_PE_PROGRAM_H

#include <stdint.h>

#include <shmd/dev/pe.h>

/*
 * A program of PEs that makes every operation and verifies each: every byte put and what lies beside it, the outcome of each atomic,
 * counts of all PEs on one word, each form of wait. It knows neither the path to a PE nor the library: a home names the calls.
 * Homes are a world made by hand (tests/dev) and worlds of processes (tests/system/test-world-matrix.c).
 *
 * Each PE has one or more threads. A lane is one thread of one PE; its number is pe * n_threads + thread.
 */

#define PE_PROGRAM_LANES 32u
#define PE_PROGRAM_THREADS 8u
#define PE_PROGRAM_SLOT_BYTES 4096u
/* A slot with room for a put that is larger than the memory of a context for unregistered data. */
#define PE_PROGRAM_LARGE_SLOT_BYTES 70144u

/* 0, or a negative errno or status. Tests: 1, 0 or negative. */
struct pe_calls {
	const char *name;
	const char *(*why)(int r);
	int (*put)(void *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe);
	int (*put_nbi)(void *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe);
	int (*get)(void *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe);
	int (*get_nbi)(void *ctx, void *dest, const void *source, uint64_t bytes, uint32_t pe);
	int (*put_strided)(void *ctx, void *dest, const void *source, const struct shmd_dev_stride *stride, uint32_t pe);
	int (*get_strided)(void *ctx, void *dest, const void *source, const struct shmd_dev_stride *stride, uint32_t pe);
	int (*put_strided_nbi)(void *ctx, void *dest, const void *source, const struct shmd_dev_stride *stride, uint32_t pe);
	int (*get_strided_nbi)(void *ctx, void *dest, const void *source, const struct shmd_dev_stride *stride, uint32_t pe);
	int (*put_batch_nbi)(void *ctx, const struct shmd_dev_put_item *items, uint64_t n);
	int (*get_batch_nbi)(void *ctx, const struct shmd_dev_get_item *items, uint64_t n);
	int (*p)(void *ctx, void *dest, uint64_t value, uint32_t bytes, uint32_t pe);
	int (*g)(void *ctx, const void *source, uint32_t bytes, uint32_t pe, uint64_t *ret_value);
	int (*put_signal)(void *ctx, const struct shmd_dev_put_item *put, struct shmd_dev_pe_signal signal);
	int (*put_signal_nbi)(void *ctx, const struct shmd_dev_put_item *put, struct shmd_dev_pe_signal signal);
	int (*signal)(void *ctx, struct shmd_dev_pe_signal signal, uint32_t pe);
	uint64_t (*signal_fetch)(const uint64_t *word);
	int (*atomic)(void *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe);
	int (*atomic_fetch)(void *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe, uint64_t *ret_old);
	int (*atomic_fetch_nbi)(void *ctx, void *dest, struct shmd_dev_amo amo, uint32_t pe, void *ret_old);
	int (*fence)(void *ctx);
	int (*fence_pe)(void *ctx, uint32_t pe);
	int (*quiet)(void *ctx);
	int (*quiet_pe)(void *ctx, uint32_t pe);
	int (*wait_until)(void *ctx, const void *word, uint32_t bytes, uint32_t cmp, uint64_t value);
	int (*wait_until_all)(void *ctx, const struct shmd_dev_wait *wait);
	int (*wait_until_any)(void *ctx, const struct shmd_dev_wait *wait, uint64_t *ret_index);
	int (*wait_until_some)(void *ctx, const struct shmd_dev_wait *wait, uint64_t *ret_indexes, uint64_t *ret_n);
	int (*test)(void *ctx, const void *word, uint32_t bytes, uint32_t cmp, uint64_t value);
	int (*test_all)(void *ctx, const struct shmd_dev_wait *wait);
	int (*test_any)(void *ctx, const struct shmd_dev_wait *wait, uint64_t *ret_index);
	int (*test_some)(void *ctx, const struct shmd_dev_wait *wait, uint64_t *ret_indexes, uint64_t *ret_n);
	int (*lock)(void *ctx, uint64_t *lock);
	int (*lock_test)(void *ctx, uint64_t *lock);
	int (*unlock)(void *ctx, uint64_t *lock);
};

/* Device functions as C; a context is a struct shmd_dev_ctx. */
extern const struct pe_calls pe_calls_dev;

struct pe_home {
	const struct pe_calls *calls;
	void *ctx;
	void *room; /* pe_program_bytes() of symmetric memory, aligned to 64, the same for all threads of a PE; all zero */
	uint32_t slot_bytes; /* one of the two above */
	uint32_t pe, n_pes, thread, n_threads;
	/* All lanes have called; a barrier completes all requests of this PE first. */
	void (*meet)(struct pe_home *home, int is_barrier);
	void *arg;
};

uint64_t pe_program_bytes(uint32_t n_lanes, uint32_t n_threads, uint32_t slot_bytes);
/* In each lane. Fails the test. May run again in the same room after it has been zeroed. */
void pe_program_run(struct pe_home *home);

/* ---- for the parts of the program ------------------------------------------------------------------------------------------- */

/* Words that one lane writes at one PE. */
struct pe_lane {
	uint64_t before, word, behind; /* the outer ones stay as they are */
	uint64_t signal, flag;
	uint64_t old; /* of this lane's own: results that it does not wait for */
	uint64_t reserved[2];
};

/* Words that all lanes change at one PE. */
struct pe_shared {
	uint64_t sum, bits, flips, tries, token, token_seen, signalled, lock, guarded, tried_lock, tried;
	uint32_t halves[2], float_and_flips[2], small_token[2]; /* words of 4 bytes side by side */
	double half_sum;
	uint64_t reserved[1];
};

struct pe_waits {
	uint64_t w8[PE_PROGRAM_LANES];
	uint32_t w4[PE_PROGRAM_LANES];
	uint16_t w2[PE_PROGRAM_LANES];
};

struct pe_room {
	struct pe_shared shared;
	struct pe_lane lanes[PE_PROGRAM_LANES];
	struct pe_waits waits[PE_PROGRAM_THREADS];
};

static inline struct pe_room *pe_room(const struct pe_home *home)
{
	return (struct pe_room *)home->room;
}

static inline uint32_t pe_my_lane(const struct pe_home *home)
{
	return home->pe * home->n_threads + home->thread;
}

static inline uint32_t pe_n_lanes(const struct pe_home *home)
{
	return home->n_pes * home->n_threads;
}

/* Memory that a lane writes at each PE, and memory of this lane's own. */
uint8_t *pe_slot(const struct pe_home *home, uint32_t lane);
uint8_t *pe_outbox(const struct pe_home *home);
uint8_t *pe_inbox(const struct pe_home *home);

/* Fails the test with the words of the library when r is negative. Returns r. */
int pe_must(const struct pe_home *home, int r, const char *what, const char *where);
#define PE_MUST(home, call) pe_must(home, call, #call, TEST_WHERE)
/* One of the home's calls on its context: PE_CALL(home, put, dest, source, 8, pe). */
#define PE_CALL(home, name, ...) PE_MUST(home, (home)->calls->name((home)->ctx, ##__VA_ARGS__))

void pe_program_moves(struct pe_home *home);
void pe_program_signals(struct pe_home *home);
void pe_program_atomics(struct pe_home *home);
void pe_program_waits(struct pe_home *home);

#endif
