/* SPDX-License-Identifier: Apache-2.0 */
/* A PE as a process: its pipes, its environment, its program. Called by the keeper. */
#ifndef SHMD_RUN_SPAWN_H
#define SHMD_RUN_SPAWN_H

#include "libclient/runtime/run/keeper.h"

/* A child writes it into `failed` before it ends, if it does not come to run the program. */
struct spawn_failure {
	uint32_t rank, step;
	int32_t error;
};

/* Returns the pid; or a negative errno and the step. */
pid_t spawn_pe(const struct keeper_attr *attr, unsigned int rank, int failed, struct keeper_fds *ret_fds, enum keeper_step *ret_step);
void spawn_close_fds(struct keeper_fds *fds);
/* Removes from the environment of this process the variables that another launcher has set. */
void spawn_clean_env(void);
/* "out.%r" and so on; returns 0 or -ENAMETOOLONG. */
int spawn_file_name(const char *pattern, unsigned int rank, char *buf, size_t size);

#endif
