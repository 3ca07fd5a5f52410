/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `shmemctl run`: starts the PEs of a job on this node, serves them PMI-1, passes on their output, and ends them together.
 *
 * run_job() writes sentences of its own to stderr, each as one line that begins with "shmemctl run: ". The calling program must
 * have one thread and no children; the function changes signal masks, the limit of descriptors and, with a terminal, nothing
 * of the terminal.
 */
#ifndef SHMD_RUN_RUN_H
#define SHMD_RUN_RUN_H

#include <stdbool.h>
#include <stdint.h>

#define RUN_MAX_PES 32768u
#define RUN_MAX_COLORS 8u

enum run_bind {
	RUN_BIND_NONE,
	RUN_BIND_CORE, /* a core for each PE */
};

enum run_exit {
	RUN_EXIT_FAILED = 1,
	RUN_EXIT_TIMEOUT = 124, /* as timeout(1) and shells have them */
	RUN_EXIT_CANNOT_EXECUTE = 126,
	RUN_EXIT_NOT_FOUND = 127,
};

struct run_attr {
	unsigned int n_pes; /* 1 to RUN_MAX_PES */
	char *const *argv; /* the program and its arguments; ends with NULL */
	const char *const *env; /* "NAME=VALUE"; ends with NULL */
	const char *folder; /* where PEs run; NULL: here */
	const char *output_files; /* a pattern with %r; NULL: output is passed on */
	bool has_no_prefix;
	bool keep_going;
	enum run_bind bind;
	uint64_t kill_after_nsec; /* from SIGTERM to SIGKILL */
	uint64_t timeout_nsec; /* 0: none */
	/* Sequences before and after the prefix, by stdout and stderr; n_colors 0: none. */
	unsigned int n_colors;
	const char *colors[RUN_MAX_COLORS];
	const char *color_off;
	bool has_color[2];
};

/* Returns the exit status: 0, or that of the first failure (128 and the number of a signal), or one of enum run_exit. */
int run_job(const struct run_attr *attr);

#endif
