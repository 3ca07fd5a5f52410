/* SPDX-License-Identifier: Apache-2.0 */
/* Who is at the other end of a socket, as the kernel tells at accept. */
#ifndef SHMEMD_SESSION_IDENTITY_H
#define SHMEMD_SESSION_IDENTITY_H

#include <stdint.h>

struct identity {
	uint32_t uid, gid;
	uint32_t pid; /* 0: lives in a pid namespace we cannot see */
	int pidfd; /* owned; -1: none, the socket alone tells of its death */
	char command[16];
	char cgroup[256]; /* "" when not known */
};

/* 0, -ESRCH when the process is gone already, or another negative errno. */
int identity_init(struct identity *identity, int sock);
void identity_deinit(struct identity *identity);

/* The path in the text of /proc/PID/cgroup: of the unified hierarchy, else the first that is not the root. */
void identity_parse_cgroup(const char *text, char *buf, unsigned int size);

#endif
