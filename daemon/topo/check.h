/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of a node: what on it makes work of GPUs on NICs slow or fail, why, and what fixes it.
 *
 * A check looks at files below a root folder, at the map of the node, and at what a daemon said; it changes nothing, asks no
 * device, and has no other input, so that a folder of a test, or of a captured machine, is judged like the running one. An unreadable
 * fact is a warning with the reason, never good. All run; none ends another. Not for the control thread.
 */
#ifndef SHMEMD_TOPO_CHECK_H
#define SHMEMD_TOPO_CHECK_H

#include <stdint.h>

#include "daemon/topo/topo.h"

#define CHECK_SUBJECT_BYTES 80
#define CHECK_TEXT_BYTES 320

enum check_state {
	CHECK_OK,
	CHECK_WARN, /* slow, or not known */
	CHECK_FAIL, /* does not work */
};

struct check_finding {
	const char *check; /* its name */
	enum check_state state;
	char subject[CHECK_SUBJECT_BYTES]; /* "mlx5_0", "GPU3", "pid 17"; "": the node */
	char reason[CHECK_TEXT_BYTES]; /* what was found */
	char fix[CHECK_TEXT_BYTES]; /* what to do; "" only where all is good */
};

typedef void check_tell_fn(void *arg, const struct check_finding *finding);

/* A session, as the daemon lists it. */
struct check_session {
	uint64_t session;
	uint32_t pid;
	char command[64];
	char doorbell[256]; /* modes taken, comma separated */
	char reason[96]; /* why not better ones */
};

/* A port of a NIC that the daemon could drive, by its driver in the kernel, and does not. */
struct check_unmanaged {
	char name[32]; /* "mlx5_0", "mlx5_0:2" */
	uint32_t port;
};

struct check_daemon {
	int error; /* 0: it answered; -ENOENT: none runs; else why it could not be asked */
	uint32_t pid; /* as it calls itself: another in other pid namespaces */
	/* Bounds of its start time, since the kernel's start. The time in between is unknown if the machine slept. */
	uint64_t started_min_nsec, started_max_nsec;
	unsigned int n_sessions;
	const struct check_session *sessions;
	unsigned int n_unseen; /* sessions that it does not list to this user */
	bool keeps_sessions; /* over a restart */
	unsigned int n_unmanaged;
	const struct check_unmanaged *unmanaged;
};

/* The result of reading nics-include, nics-exclude and gpu-nic-map; NULL: there is no such thing. */
struct check_settings {
	const char *unread; /* why they cannot be read */
	const char *error; /* why this machine cannot follow them */
	const char *warning; /* topo_policy_doubts() */
};

/* Input of the checks. */
struct check_host {
	int root; /* folder with sys, proc, dev and usr */
	const struct topo *topo; /* of the same folder */
	const struct topo_map *map;
	/* Why topo could not be read, in words: it and the map are empty then. Else NULL. */
	const char *topo_error;
	const char *left_out; /* what of the machine topo has not, in words; NULL or "": nothing */
	const struct check_daemon *daemon;
	const struct check_settings *settings; /* NULL: none are given for this machine */
};

struct check_teller;

enum check_of {
	CHECK_OF_NODE,
	CHECK_OF_NICS, /* without one there is nothing to judge */
	CHECK_OF_GPUS,
};

struct check {
	const char *name;
	void (*run)(const struct check_host *host, struct check_teller *to);
	enum check_of of;
	bool needs_functions; /* of the node: good only where every function could be looked at, as all of NICs and GPUs */
};

extern const struct check check_table[]; /* ends with a NULL name */

/* Tells at least one finding; several where several things are wrong. */
void check_run(const struct check *check, const struct check_host *host, check_tell_fn *tell, void *arg);

#endif
