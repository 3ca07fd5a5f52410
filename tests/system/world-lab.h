/* SPDX-License-Identifier: Apache-2.0 */
/* Worlds of forked PEs over a private daemon: each PE is a process that runs one function. */
#ifndef SHMEMD_TESTS_WORLD_LAB_H
#define SHMEMD_TESTS_WORLD_LAB_H

#include <shmd.h>
#include <sys/types.h>

#include "tests/lib/fixture-daemon.h"

#define LAB_MAX_PES 64

struct world_lab {
	const struct fixture_daemon *daemon;
	int n;
	struct shmd_world_attr attr; /* uid, rank and size are set by the lab, and socket_path if it is NULL */
	struct shmd_uid uid;
	pid_t pids[LAB_MAX_PES];
};

/* Runs in each PE. 0: success. */
typedef int (*world_lab_fn)(const struct world_lab *lab, int pe, void *arg);

/* Starts the PEs; they call fn(). */
void world_lab_start(struct world_lab *lab, world_lab_fn fn, void *arg);
/* Waits for one PE: its exit status, or 128 and its signal. */
int world_lab_wait(struct world_lab *lab, int pe);
/* Starts, waits for all, and asserts that all succeeded. */
void world_lab_run(const struct fixture_daemon *daemon, int n, world_lab_fn fn, void *arg);
/* The same with a daemon of their own. */
void world_lab_run_alone(int n, world_lab_fn fn, void *arg);

/* In a PE: opens the world; fails the test with the sentence. */
struct shmd_world *world_lab_open(const struct world_lab *lab, int pe);
struct shmd_world *world_lab_open_started(const struct world_lab *lab, int pe);
void world_lab_close(struct shmd_world *world);
/*
 * All PEs call; returns on PE 1 when all others have left the call before, so that PE 1 may die: what it told them may end with it.
 * word is symmetric and 0.
 */
void world_lab_await_others(struct shmd_world *world, uint64_t *word, int pe);
/* Whether the daemon drives simulated ConnectX NICs, whose atomics are not those of the CPU. */
bool world_lab_is_connectx(void);
/* Fails the test with `what` and the sentence of the library if r is negative. */
void world_lab_must(int r, const char *what);

#endif
