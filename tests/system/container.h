/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_CONTAINER_H
#define SHMD_TESTS_CONTAINER_H

/*
 * A container as an unprivileged runtime makes it: new user, pid, mount, network, IPC, UTS and cgroup namespaces, a root with
 * some files and one socket, and no capabilities. System calls alone make it, and an ordinary user can; root becomes one
 * first.
 */

#include <stdbool.h>
#include <sys/types.h>

#define CONTAINER_SOCKET "/run/shmemd/shmemd.sock"
#define CONTAINER_FILES 16
#define CONTAINER_PATH_BYTES 1024

struct container_attr {
	const char *socket; /* bound to CONTAINER_SOCKET */
	const char *files[CONTAINER_FILES]; /* copied to the same place in its root; ended by NULL */
	/* The first process in it; its exit status ends the container. */
	int (*main)(void *arg);
	void *arg;
};

struct container {
	pid_t pid; /* the child that made the namespaces and waits for init */
	pid_t init; /* its first process, as it is called here; 1 in there */
	uid_t uid; /* whose it is, here; 0 in there */
	gid_t gid;
};

/* The container's user outside: this process's, or an ordinary one when that is root. */
uid_t container_uid(void);
gid_t container_gid(void);

/* Skips the running test where no such namespaces may be made. */
void container_start(struct container *container, const struct container_attr *attr);
/* Waits for its end; the exit status of its first process, or -signal. */
int container_wait(struct container *container);
/* SIGKILL to its first process: the kernel ends all of it. */
void container_kill(struct container *container);

/* Libraries of this program and its interpreter: another one with the same ones runs in a container then. Strings are static. */
unsigned int container_libraries(const char **files, unsigned int max);

#endif
