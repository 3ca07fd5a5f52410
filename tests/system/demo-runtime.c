/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The demo's PEs as a world of the runtime, once over mapped memory and once over queues: puts in a ring, gets from everybody,
 * atomics on one counter, puts with signals. Every byte is verified.
 */
#include "demo.h"

#include <string.h>

#define ROUNDS 16u
#define BYTES 4096u
#define ADDS 32u

/* Symmetric: the same on all PEs. */
struct board {
	uint8_t inbox[BYTES]; /* of the left neighbour's puts */
	uint8_t own[BYTES]; /* read by everybody */
	uint64_t counter; /* of PE 0 */
	uint64_t signal; /* rounds that have come from the left */
};

struct runtime {
	struct demo_pe *pe;
	const char *name;
	struct shmd_world *world;
	struct shmd_ctx *ctx;
	struct board *board;
	unsigned int left, right;
};

static bool good(struct runtime *runtime, const char *what, int r)
{
	return r >= 0 || demo_fail(runtime->pe, "%s: %s: %s", runtime->name, what, shmd_error_text());
}

static bool barrier(struct runtime *runtime)
{
	return good(runtime, "barrier", shmd_barrier_all(runtime->world));
}

static void fill(uint8_t *at, unsigned int pe, unsigned int salt)
{
	for (unsigned int i = 0; i < BYTES; i++)
		at[i] = (uint8_t)(pe * 31 + salt * 7 + i);
}

static bool verify(struct runtime *runtime, const uint8_t *at, unsigned int pe, unsigned int salt)
{
	uint8_t wanted[BYTES];

	fill(wanted, pe, salt);
	for (unsigned int i = 0; i < BYTES; i++) {
		if (at[i] != wanted[i]) {
			runtime->pe->phase->errors++;
			return demo_fail(runtime->pe, "%s: byte %u of PE %u is 0x%02x instead of 0x%02x", runtime->name, i, pe, at[i],
					 wanted[i]);
		}
	}
	runtime->pe->phase->bytes_verified += BYTES;
	return true;
}

/* A put with a signal and without in turn. */
static bool go_round(struct runtime *runtime, unsigned int round)
{
	struct board *board = runtime->board;
	uint8_t data[BYTES];
	int r;

	fill(data, runtime->pe->me, round);
	if (round % 2) {
		r = shmd_put_signal(runtime->ctx, board->inbox, data, BYTES, &board->signal, round, SHMD_SIGNAL_SET, (int)runtime->right);
		if (!r)
			r = shmd_wait_until(runtime->ctx, &board->signal, 8, SHMD_CMP_GE, round);
		runtime->pe->phase->operations++;
	} else {
		r = shmd_put(runtime->ctx, board->inbox, data, BYTES, (int)runtime->right);
	}
	runtime->pe->phase->operations++;
	return good(runtime, "put", r) && barrier(runtime) && verify(runtime, board->inbox, runtime->left, round) && barrier(runtime);
}

static bool get_from_all(struct runtime *runtime)
{
	uint8_t data[BYTES];

	fill(runtime->board->own, runtime->pe->me, ROUNDS + 1);
	if (!barrier(runtime))
		return false;
	for (unsigned int i = 0; i < runtime->pe->n; i++) {
		unsigned int from = (runtime->pe->me + i) % runtime->pe->n;

		runtime->pe->phase->operations++;
		if (!good(runtime, "get", shmd_get(runtime->ctx, data, runtime->board->own, BYTES, (int)from)) ||
		    !verify(runtime, data, from, ROUNDS + 1))
			return false;
	}
	return true;
}

static bool count(struct runtime *runtime)
{
	const struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = 1};
	uint64_t *counter = &runtime->board->counter, latencies[ADDS], old, before;

	for (unsigned int i = 0; i < ADDS; i++) {
		before = shmd_dev_host_now_nsec();
		if (!good(runtime, "fetch-add", shmd_atomic_fetch(runtime->ctx, counter, &add, 0, &old)))
			return false;
		latencies[i] = shmd_dev_host_now_nsec() - before;
		runtime->pe->phase->operations++;
	}
	runtime->pe->phase->latency_nsec = demo_median(latencies, ADDS);
	if (!barrier(runtime))
		return false;
	if (runtime->pe->me == 0 && *counter != (uint64_t)runtime->pe->n * ADDS) {
		runtime->pe->phase->errors++;
		return demo_fail(runtime->pe, "%s: the counter is %llu instead of %u", runtime->name, (unsigned long long)*counter,
				 runtime->pe->n * ADDS);
	}
	runtime->pe->phase->bytes_verified += runtime->pe->me == 0 ? sizeof(*counter) : 0;
	return true;
}

static bool work(struct runtime *runtime)
{
	uint64_t begin;
	bool is_good = true;

	if (!good(runtime, "malloc", shmd_calloc(runtime->world, 1, sizeof(*runtime->board), 0, (void **)&runtime->board)))
		return false;
	runtime->ctx = shmd_world_ctx(runtime->world);
	begin = shmd_dev_host_now_nsec();
	for (unsigned int round = 1; is_good && round <= ROUNDS; round++)
		is_good = go_round(runtime, round);
	is_good = is_good && get_from_all(runtime) && count(runtime);
	runtime->pe->phase->nsec = shmd_dev_host_now_nsec() - begin;
	return is_good;
}

/* PE 0 makes the id of the world, and is rank 0 by that. */
static bool open_world(struct runtime *runtime, struct shmd_uid *uid, uint32_t paths)
{
	struct demo_pe *pe = runtime->pe;
	const struct shmd_world_attr attr = {.uid = uid, .rank = (int)pe->me, .size = (int)pe->n, .paths = paths,
					     .timeout_nsec = pe->shared->wait_nsec};

	return good(runtime, "unique id", pe->me == 0 ? shmd_uid_make(uid) : 0) && demo_pe_barrier(pe) &&
	       good(runtime, "open", shmd_world_open(&attr, &runtime->world));
}

static bool run_world(struct demo_pe *pe, enum demo_phase phase, struct shmd_uid *uid, uint32_t paths)
{
	struct runtime runtime = {
		.pe = pe,
		.name = demo_phase_names[phase],
		.left = (pe->me + pe->n - 1) % pe->n,
		.right = (pe->me + 1) % pe->n,
	};
	bool is_good;
	int r;

	pe->phase = &pe->info->phases[phase];
	is_good = open_world(&runtime, uid, paths) && work(&runtime);
	r = shmd_world_close(runtime.world);
	return is_good && good(&runtime, "close", r);
}

bool demo_runtime(struct demo_pe *pe)
{
	return run_world(pe, DEMO_RUNTIME_MAPPED, &pe->shared->uids[0], SHMD_ALLOW_MAPPED) &&
	       run_world(pe, DEMO_RUNTIME_QUEUE, &pe->shared->uids[1], SHMD_ALLOW_QUEUE);
}
