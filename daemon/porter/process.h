/* SPDX-License-Identifier: Apache-2.0 */
/* The process of a porter. */
#ifndef SHMEMD_PORTER_PROCESS_H
#define SHMEMD_PORTER_PROCESS_H

#include <stdint.h>

struct process_attr {
	int channel; /* to the daemon */
	int lifeline; /* hangs up when the service manager closes what it kept; -1: there is none */
	int daemon_pidfd; /* -1: the kernel has none */
	uint32_t uid; /* for its name */
	uint32_t linger_msec;
};

/* Serves until the channel hangs up and the daemon is gone, then lets go of everything. Never returns. */
void process_run(const struct process_attr *attr) __attribute__((noreturn));

#endif
