/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A world from inside: what its parts share.
 *
 *	open.c		rank, hello; close; abort		card.h		what PEs tell each other, and decisions from it
 *	start.c		the steps of the start			session.h	the process's session with shmemd
 *	heap-chunks.c	chunks: made, fetched, mapped		malloc.c	collective calls on the heap
 *	chunk-table.h	which chunks a heap has
 *	exchange.c	bytes and outcomes to all PEs		ctx.c		contexts
 *	queues.c	queue paths				own-queues.c	queues of contexts
 *	rails.c		the NICs of this PE, keys of chunks	rail-rule.h	which NIC carries what
 *	mend.c		queues that failed			hot.c, hot-set.c	RC to some peers beside DC
 *	check.c		may a call go on
 *	watch.c		PEs that ended				info.c		what a program sees of it
 *	end-job.c	SHMD_ABORT_ON_ERROR
 *	process.h	am I a forked child			report.c	what shmemd lists of it
 *	buffers.c	buffers of the program			symmetric.c	and of all PEs
 *	adopt.h		the memory of both
 *	gpu-chunks.c	the GPU heap				gpu-view.c	the world as kernels see it
 *	gpu-queues.c	queues of kernels			gpu-apart.h	GPUs that CUDA keeps apart
 *	heaps.c		memory of either heap
 *
 * Locks: `lock`, then `tables` or the heap's own. Device functions and the watch share the last line of dev
 * and pe.path with the rest, by atomics.
 */
#ifndef SHMD_WORLD_H
#define SHMD_WORLD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <shmd.h>

#include "libclient/runtime/settings/settings.h"
#include "libclient/runtime/world/card.h"
#include "libclient/runtime/world/session.h"
#include "proto/base/cleanup.h"

#define WORLD_REASON_BYTES 128

struct world_heap;
struct world_queues;
struct world_buffers;
struct world_gpu;
struct team_ids;

/* Ids of the teams that every world has. */
enum world_builtin {
	WORLD_TEAM_ALL = 0,
	WORLD_TEAM_SHARED = 1,
	WORLD_TEAM_NODE = 2,
	WORLD_TEAM_SAME_INDEX = 3,
	WORLD_N_BUILTIN = 4,
};

/* Another PE, or the caller, as hello and card describe it. */
struct world_peer {
	int node, node_pe; /* -1 before the start */
	bool is_mapped; /* since the start, also if it ended */
	bool is_hot; /* by an RC QP of its own beside DC; atomic */
	bool is_gpu_apart; /* CUDA does not map its GPU memory here, or this PE's there; from the first look on, also for the next start */
	char reason[WORLD_REASON_BYTES]; /* of its path: same node, or why it is no better one */
	char nic[32]; /* of the caller, by which requests go to it */
};

struct shmd_world {
	pid_t pid; /* of the process that opened it */
	struct shmd_bootstrap boot; /* ops NULL: none */
	struct runtime_settings settings;
	uint32_t allow; /* SHMD_ALLOW_* */
	int rank, size;
	struct world_hello *hellos; /* by PE */
	/* Room for agreements, and for the cards of the start: these must not fail for lack of memory on one PE. */
	struct world_outcome *outcomes;
	struct world_card *cards;
	struct world_peer *peers;
	struct shmd_world_key key; /* of what its PEs publish */
	bool is_watched, is_reported;

	pthread_mutex_t lock; /* held by the start and collective calls on the heap, while they wait too */
	pthread_mutex_t gpu_copies; /* around the making of what kernels see of contexts and teams (gpu-view.c) */
	pthread_mutex_t gpu_lock; /* around `gpu` and what kernels see of the world; the last of all */
	pthread_mutex_t tables; /* teams, ids, meetings, contexts; held briefly */
	const char *call; /* the collective call under way on this PE, for its sentences; under `lock`, constant text */
	uint32_t is_started; /* atomic */
	int n_nodes; /* 0 before the start */
	bool some_gpus_apart; /* of two PEs that map each other's host heap; the same on all PEs */
	struct session *session;
	struct world_queues *queues; /* NULL: all PEs are mapped */
	struct world_heap *heap;
	struct world_buffers *buffers;
	struct world_gpu *gpu; /* NULL: no GPU heap */

	struct shmd_dev_pe *pes;
	struct shmd_dev_world *dev;
	struct shmd_ctx *ctx; /* the default one, first of the list */
	struct team_ids *ids;
	uint32_t meetings; /* slots of the internal area that calls use (team/members.c); under `tables` */
	struct shmd_team *teams; /* all that live here; those that every world has come last */
	struct shmd_team *builtin[WORLD_N_BUILTIN]; /* by id */
};

/* -EINVAL: NULL; -ECHILD: a forked child. */
int world_check(const struct shmd_world *world);
/* And -ENOTCONN: no heap yet. */
int world_check_started(const struct shmd_world *world);

/*
 * As shmd_world_open(), over a bootstrap that is open. Takes it over, on failure too. settings: as they hold for this world.
 */
int world_open_on(struct shmd_bootstrap *bootstrap, const struct runtime_settings *settings, uint32_t allow, struct shmd_world **ret_world);

/*
 * Requests of this thread to the daemon have the world's time limit from here to the end of the block, not that of the world that opened
 * the session. For each call that makes requests.
 */
#define WORLD_REQUESTS(world) _cleanup_(world_requests_end) __attribute__((unused)) struct shmd_request_limit former_limit = \
	world_requests_begin(world)
struct shmd_request_limit world_requests_begin(const struct shmd_world *world);
void world_requests_end(struct shmd_request_limit *former);

/* From now on `dev` shows PEs that end. */
int world_watch(struct shmd_world *world);

/*
 * `error`, whose sentence is set. With SHMD_ABORT_ON_ERROR the job ends with the sentence for -ETIMEDOUT, -EIO and -ECONNRESET. For each of
 * these that a function of <shmd.h> returns.
 */
int world_fail(struct shmd_world *world, int error);
/* Does not return, unless another thread ends the job already: PEs that follow that end are no news. */
void world_end_job(struct shmd_world *world, const char *sentence);

/* -EHOSTDOWN with a sentence that names a PE, if one ended that is not forgiven; else `error`. */
int world_blame(const struct shmd_world *world, int error);
/* world_blame() and world_fail() for a call of the bootstrap that failed; where PEs did not come the sentence has the function of the program, and a PE. */
int world_boot_error(struct shmd_world *world, int error, const char *call);

#endif
