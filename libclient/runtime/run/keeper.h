/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper: a process between the launcher and the PEs, their parent, which outlives the launcher for as long as it takes to
 * end them.
 *
 * It starts the PEs, each in a process group of its own, reports their ends, and sends signals to their groups. It is the
 * subreaper of all that they fork, so nothing escapes by a second fork or setsid. When the launcher's end of the socket closes,
 * it kills them all. When the keeper itself is killed, the kernel kills the PEs (PR_SET_PDEATHSIG), and the rest become children
 * of the launcher, which is a subreaper, too. Only a SIGKILL to both at once leaves what PEs forked.
 */
#ifndef SHMD_RUN_KEEPER_H
#define SHMD_RUN_KEEPER_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define KEEPER_ALL UINT32_MAX
#define KEEPER_FDS 4u

enum keeper_news_kind {
	KEEPER_STARTED, /* value: pid; comes with descriptors */
	KEEPER_REFUSED, /* value: errno of the step that failed */
	KEEPER_ENDED, /* value: as of waitpid */
	KEEPER_SWEPT, /* value: processes that PEs left behind, and that were killed. The last news. */
};

enum keeper_step {
	STEP_PIPE,
	STEP_FORK,
	STEP_FOLDER,
	STEP_BIND,
	STEP_OUTPUT_FILE,
	STEP_EXEC,
};

struct keeper_news {
	uint32_t kind, rank, step;
	int32_t value;
};

/* With signo 0: keep nothing longer than `grace_msec`, and end. */
struct keeper_order {
	uint32_t rank; /* or KEEPER_ALL */
	int32_t signo;
	uint32_t grace_msec;
};

/* They come with KEEPER_STARTED; -1: there is none. Only PE 0 has input. */
struct keeper_fds {
	int out, err, pmi, in;
};

struct keeper_attr {
	unsigned int n_pes;
	const char *path; /* of the program, absolute */
	char *const *argv;
	const char *folder;
	const char *output_files;
	bool is_input_relayed; /* PE 0 reads a pipe; else what the launcher reads */
	const cpu_set_t *cores; /* one for each PE; NULL: PEs are not bound */
	sigset_t mask; /* of signals, for PEs */
	uint64_t fd_limit; /* soft limit for PEs */
	pid_t launcher;
};

/* Returns the pid of the keeper and the launcher's end of the socket, or a negative errno. */
pid_t keeper_start(const struct keeper_attr *attr, int *ret_sock);
/* 1; 0: the keeper has ended; -EAGAIN. */
int keeper_next(int sock, struct keeper_news *ret_news, struct keeper_fds *ret_fds);
/* A signal to the groups of PEs that have not ended. Orders to a keeper that has ended are dropped. */
void keeper_signal(int sock, uint32_t rank, int signo);
void keeper_finish(int sock, unsigned int grace_msec);

#endif
