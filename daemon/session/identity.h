/* SPDX-License-Identifier: Apache-2.0 */
/* Who is at the other end of a socket, as the kernel tells at accept. */
#ifndef SHMEMD_SESSION_IDENTITY_H
#define SHMEMD_SESSION_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

struct identity {
	uint32_t uid, gid;
	uint32_t pid; /* 0: lives in a pid namespace we cannot see */
	int pidfd; /* owned; -1: none, the socket alone tells of its death */
	char command[16];
	char cgroup[256]; /* "" when not known */
	char tenant[256]; /* the part of it that counts: cgroup.h */
};

/* 0, -ESRCH when the process is gone already, or another negative errno. */
int identity_init(struct identity *identity, int sock);
void identity_deinit(struct identity *identity);

/*
 * For a saved identity and the descriptors kept with it. A socket tells of its peer as of connect, for as long
 * as it lives; a process that is gone has no number any more, and may be any.
 */
bool identity_is_peer(const struct identity *identity, int sock);
bool identity_has_peer(int sock); /* it is a connection as clients make them, of any user */
bool identity_is_process(const struct identity *identity, int pidfd);

/* The path in the text of /proc/PID/cgroup: of the unified hierarchy, else the first that is not the root. */
void identity_parse_cgroup(const char *text, char *buf, unsigned int size);
/* Sets cgroup and tenant from that text; `r` is the negative errno if it could not be read. */
void identity_set_cgroup(struct identity *identity, int r, const char *text);

#endif
