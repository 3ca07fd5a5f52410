/* SPDX-License-Identifier: Apache-2.0 */
/* An attacker beside a victim, and its attempts, for test-isolation. */
#ifndef SHMEMD_TESTS_ISOLATION_H
#define SHMEMD_TESTS_ISOLATION_H

#include <stdint.h>
#include <sys/types.h>

#include "tests/lib/fixture-daemon.h"
#include "tests/system/raw-traffic.h"

/* The rest of the victim's heap: its own traffic never touches it. */
#define ISOLATION_GUARDED 65536u
#define ISOLATION_MAX_SLICES 64

/* Data for the attacker, and the victim's words on its slices; shared memory. */
struct isolation_board {
	struct raw_traffic victim; /* as it is in the victim; its pointers and descriptors mean nothing here */
	uint8_t world[16]; /* PE 0, slot 0: "secret" */
	uint32_t ready, stop, slice, done; /* atomics; slice: the one to take now, from 1 */
	uint64_t n_writes;
	double slice_nsec[ISOLATION_MAX_SLICES]; /* median latency */
};

struct isolation {
	struct fixture_daemon daemon;
	struct isolation_board *board;
	pid_t victim;
	struct raw_traffic attacker;
	uint64_t pause_nsec; /* between attempts */
};

/* Attempts fail the test when they succeed. The attacker's own queues work afterwards as before. */
void isolation_try_keys(struct isolation *s); /* the victim's, as local and as remote key, with every opcode */
void isolation_try_near_keys(struct isolation *s);
void isolation_try_foreign_wqe(struct isolation *s); /* names the victim's QP */
void isolation_try_address(struct isolation *s); /* connected to the victim's QP */
void isolation_try_numbers(struct isolation *s); /* in every request that takes one */
void isolation_try_worlds(struct isolation *s);
void isolation_try_doorbells(struct isolation *s); /* every word of its doorbell page; the wake descriptor */
void isolation_try_descriptors(struct isolation *s); /* of all pages that it was given */
void isolation_try_lists(struct isolation *s); /* as a controller */
/* isolation-command.c: by the command descriptor of an mlx5 context. The second leaves nothing of the attacker's queues. */
void isolation_try_commands(struct isolation *s);
void isolation_destroy_by_commands(struct isolation *s);

#endif
