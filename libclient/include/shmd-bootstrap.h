/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the PEs of a job find each other: the interface between the runtime and what started the processes.
 *
 * A bootstrap knows the caller's rank and the number of ranks, and carries small messages among all of them. The runtime calls
 * it when a world opens, when its heap grows and when it closes, never on a data path. Modules: unique id over TCP ("uid"),
 * PMI-1, PMI-2, PMIx, MPI, OpenSHMEM, the environment of torchrun, or a shared object of the user's ("plugin:PATH").
 *
 * A plug-in exports shmd_bootstrap_plugin_init(). It may leave watch NULL if it cannot notice that a rank ended.
 *
 * Threads	one call at a time on one bootstrap, except abort, which any thread may call at any time. The gone callback of
 *		watch runs on a thread of the module.
 * Blocks	allgather, alltoall, barrier and the init function: until all ranks have called, at most for the time limit
 *		given at init; then -ETIMEDOUT, and the error text names the ranks that are missing.
 * Errors	a negative errno, and a sentence by shmd_error_set(). -EHOSTDOWN: a rank has ended, the text says which. After
 *		an error every later collective call fails, too.
 */
#ifndef SHMD_BOOTSTRAP_H
#define SHMD_BOOTSTRAP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SHMD_BOOTSTRAP_VERSION 1u

struct shmd_bootstrap;

/* `rank` has ended, or its connection broke; `why` is a sentence, valid during the call. At most once for each rank. */
typedef void (*shmd_bootstrap_gone_fn)(void *arg, int rank, const char *why);

struct shmd_bootstrap_ops {
	uint32_t version; /* SHMD_BOOTSTRAP_VERSION */
	const char *name; /* "uid", "pmi1", ... */
	/* `bytes` of each rank; all[rank * bytes] on return, the caller's own included. bytes is the same on all ranks; 0 is allowed. */
	int (*allgather)(struct shmd_bootstrap *bootstrap, const void *mine, void *all, size_t bytes);
	/* to[rank * bytes] goes to that rank, from[rank * bytes] came from it. */
	int (*alltoall)(struct shmd_bootstrap *bootstrap, const void *to, void *from, size_t bytes);
	int (*barrier)(struct shmd_bootstrap *bootstrap);
	/*
	 * Report ranks that end from now on, and those that have ended already. Called at most once. close() ends it and returns
	 * when no callback runs any more.
	 */
	int (*watch)(struct shmd_bootstrap *bootstrap, shmd_bootstrap_gone_fn gone, void *arg);
	/* End the whole job: all ranks, with this exit status. Returns if there is no way to do so. */
	void (*abort)(struct shmd_bootstrap *bootstrap, int status, const char *why);
	/*
	 * Not collective. A rank that closes has not died: the others' watch stays silent, and their later collective calls
	 * fail with -ESHUTDOWN. A call that this rank has completed completes on the others, too.
	 */
	void (*close)(struct shmd_bootstrap *bootstrap);
};

struct shmd_bootstrap {
	const struct shmd_bootstrap_ops *ops;
	void *state; /* of the module */
	int rank; /* 0..size-1 */
	int size; /* at least 1 */
	int node_rank; /* among the ranks of this node, as the launcher says; -1: unknown */
	int node_size; /* -1: unknown */
	/*
	 * The ranks that the error of the newest collective call is about, since they did not call or have ended: the first, and how many. The
	 * module sets both when a call fails. n_failed 0: none, or unknown.
	 */
	int failed_rank;
	int n_failed;
};

/*
 * The symbol of a plug-in. Fills *bootstrap, all fields, or returns a negative errno.
 *
 * args		what followed "plugin:PATH:" in the setting, or ""
 * timeout_nsec	for this call and for each collective call
 */
typedef int (*shmd_bootstrap_plugin_fn)(const char *args, uint64_t timeout_nsec, struct shmd_bootstrap *bootstrap);
#define SHMD_BOOTSTRAP_PLUGIN_SYMBOL "shmd_bootstrap_plugin_init"

/* ---- unique id ----------------------------------------------------------------------------------------------------------- */

#define SHMD_UID_BYTES 128
/* The addresses at which rank 0 listens, and the secret that each rank must know. Send it to all ranks, and to nobody else. */
struct shmd_uid {
	uint8_t data[SHMD_UID_BYTES];
};

#ifdef __cplusplus
}
#endif

#endif
