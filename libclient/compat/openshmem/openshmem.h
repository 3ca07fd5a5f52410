/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenSHMEM on the runtime: what the files of this library share.
 *
 * A program has one world. Functions of OpenSHMEM return no errors but a few, so a failure ends the job with the sentence of
 * shmd_error_text() (osh_check). Handles of the predefined teams and of the default context are small numbers; the others point to the
 * structs below.
 *
 *	setup.c		the world: init, finalize, global exit		memory.c	the heap
 *	globals.c	data of the program as symmetric memory		query.c		addresses, version
 *	context.c	contexts, sessions				team.c		teams
 *	order.c		fence, quiet, signals, barriers			wait.c		long and signal waits, locks
 *	active-set.c	active sets as teams				old.c		names of before 1.2
 *	error.c		the state, failures
 *	typed.h, collective.h	bodies of the functions that generate.py makes for many types
 */
#ifndef SHMD_OPENSHMEM_H
#define SHMD_OPENSHMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <pshmem.h>
#include <shmd.h>

/* The weak name of a function, which a profiling library may define itself; the function calls others by their p names. */
#define OSH_WEAK(name, strong) \
	extern __typeof__(strong) name __attribute__((weak, alias(#strong), visibility("default")));

struct osh_team {
	struct shmd_team *team;
	struct osh_team *prev, *next;
};

struct osh_ctx {
	struct shmd_ctx *ctx;
	struct osh_team *team;
	struct osh_ctx *prev, *next;
};

/* The state of the library. Written by init and finalize, while no other thread is in the library. */
struct osh {
	struct shmd_world *world; /* NULL: not initialised */
	struct shmd_ctx *ctx; /* the default one */
	pid_t pid;
	int n_inits; /* init calls without a finalize */
	int threads; /* SHMEM_THREAD_* */
	bool has_started_pes; /* start_pes(), which no finalize follows */
	struct osh_team world_team, shared_team;
	/* The writable data of the program, and the symmetric memory that it is, too; equal: none */
	uintptr_t data_begin, data_end;
	ptrdiff_t data_to_heap;
	void *data_again; /* where the runtime knows it */
	int data_fd; /* a descriptor of it and 1; 0: none */
	char why_no_globals[256]; /* empty: they are symmetric */
};
extern struct osh osh;

/* Ends the job: `name` is the function that failed. */
void osh_fail(const char *name, int error) __attribute__((noreturn, cold));
static inline void osh_check(const char *name, int error)
{
	if (__builtin_expect(error < 0, 0))
		osh_fail(name, error);
}

/* For functions that return whether they failed: 0, or 1 after a line on stderr. */
int osh_status_slow(const char *name, int error) __attribute__((cold));
static inline int osh_status(const char *name, int error)
{
	return __builtin_expect(error < 0, 0) ? osh_status_slow(name, error) : 0;
}

static inline struct shmd_ctx *osh_ctx_of(shmem_ctx_t ctx)
{
	if (__builtin_expect(ctx == SHMEM_CTX_DEFAULT, 1))
		return osh.ctx;
	return ctx ? ((struct osh_ctx *)ctx)->ctx : NULL;
}

/* NULL for an invalid handle. */
static inline struct osh_team *osh_team_of(shmem_team_t team)
{
	if (team == SHMEM_TEAM_WORLD)
		return &osh.world_team;
	return team == SHMEM_TEAM_SHARED ? &osh.shared_team : (struct osh_team *)team;
}

static inline shmem_team_t osh_handle_of(const struct osh_team *team)
{
	if (team == &osh.world_team)
		return SHMEM_TEAM_WORLD;
	return team == &osh.shared_team ? SHMEM_TEAM_SHARED : (shmem_team_t)team;
}

static inline struct shmd_team *osh_runtime_team(shmem_team_t team)
{
	struct osh_team *mine = osh_team_of(team);

	return mine ? mine->team : NULL;
}

/* A symmetric address as the runtime knows it: data of the program lies in the heap's range once more. */
static inline void *osh_symmetric(const void *addr)
{
	uintptr_t a = (uintptr_t)addr;

	if (__builtin_expect(a - osh.data_begin < osh.data_end - osh.data_begin, 0))
		a += (uintptr_t)osh.data_to_heap;
	return (void *)a;
}

/* PEs start, start + 2^log_stride, ... */
struct osh_set {
	int start, log_stride, size;
};
/* The team of a set during one call on it. */
struct osh_use {
	struct shmd_team *team;
	bool is_last; /* it ends with the call */
};
/* The first call on a set makes the team: all its PEs have called then. Either ends the job if it fails. */
struct osh_use osh_set_begin(const char *name, struct osh_set set);
void osh_set_end(const char *name, struct osh_use use);

/* All contexts and teams that the program has left are gone afterwards (finalize). */
void osh_contexts_drop(void);
void osh_contexts_of_team_drop(const struct osh_team *team);
void osh_teams_drop(void);
void osh_sets_drop(void);

/* Makes data of the program symmetric; osh.why_no_globals says why not. Collective. */
void osh_globals_move(bool is_alone); /* no other thread was there before the world */
/* Makes it private again, when the world that had it is closed. */
void osh_globals_return(uintptr_t begin, uintptr_t end, void *again);

/* The process has no other thread than the caller. */
bool osh_is_alone(void);
/*
 * Returns what the work returns, which another task of this memory does while all threads of the process are stopped: it makes system calls and
 * touches memory, and nothing else. *ret_error: 0, or why some threads were not stopped.
 */
int osh_while_stopped(int (*work)(void *arg), void *arg, int *ret_error);

#endif
