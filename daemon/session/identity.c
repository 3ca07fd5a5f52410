/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identity of a client.
 *
 * uid and gid are the kernel's word (SO_PEERCRED, as of connect) and all that decides anything; command and
 * cgroup come from /proc and are read once. The pidfd is the peer's own where the kernel offers it; where it
 * does not, one is opened by number and kept only when the number still belongs to a process of that uid, so a
 * recycled pid of another user is never watched. Control thread.
 */
#include "daemon/session/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/session/cgroup.h"
#include "proto/base/cleanup.h"

#define CGROUP_TEXT_BYTES 4096
#define CGROUP_TOO_DEEP "/(path too long)" /* no cgroup here: it counts as a tenant's */

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static bool process_gone(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

static int pidfd_by_number(const struct identity *identity)
{
	_cleanup_close_ int fd = (int)syscall(SYS_pidfd_open, (pid_t)identity->pid, 0);
	char path[32];
	struct stat st;

	if (fd < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/%u", identity->pid);
	if (stat(path, &st) < 0 || process_gone(fd))
		return -ESRCH;
	/* A process that cannot be dumped has a /proc entry of root's. */
	if (st.st_uid != identity->uid && st.st_uid != 0)
		return -ESRCH;
	return take_fd(&fd);
}

static int open_pidfd(struct identity *identity, int sock)
{
	socklen_t size = sizeof(identity->pidfd);
	int r;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &identity->pidfd, &size) == 0)
		return 0;
	identity->pidfd = -1;
	if (errno == ESRCH)
		return -ESRCH;
	if (identity->pid == 0)
		return 0;
	r = pidfd_by_number(identity);
	if (r == -ENOSYS || r == -EPERM)
		return 0;
	if (r < 0)
		return r;
	identity->pidfd = r;
	return 0;
}

static int read_proc(uint32_t pid, const char *name, char *buf, size_t size)
{
	_cleanup_close_ int fd = -1;
	char path[48];
	ssize_t n;

	buf[0] = 0;
	snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, buf, size - 1);
	if (n < 0)
		return -errno;
	buf[n] = 0;
	return 0;
}

/* Clients choose their own command name: what a terminal or a log would take for more is replaced. */
static void make_printable(char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || (unsigned char)*s >= 0x7f)
			*s = '?';
}

static void find_cgroup(const char *text, char *buf, unsigned int size)
{
	char first[CGROUP_TEXT_BYTES] = "";

	buf[0] = 0;
	while (*text) {
		size_t line = strcspn(text, "\n");
		const char *colon = memchr(text, ':', line);
		const char *path = colon ? memchr(colon + 1, ':', line - (size_t)(colon + 1 - text)) : NULL;
		int bytes = path ? (int)(text + line - (path + 1)) : 0;

		if (path && strncmp(text, "0::", 3) == 0)
			snprintf(buf, size, "%.*s", bytes, path + 1);
		else if (path && !first[0] && bytes > 1)
			snprintf(first, sizeof(first), "%.*s", bytes, path + 1);
		text += line + (text[line] == '\n');
	}
	/* Below the old hierarchies the unified one says "/" for everybody. */
	if ((!buf[0] || strcmp(buf, "/") == 0) && first[0])
		snprintf(buf, size, "%s", first);
}

void identity_parse_cgroup(const char *text, char *buf, unsigned int size)
{
	find_cgroup(text, buf, size);
	make_printable(buf);
}

/* Judges the kernel's path, not the printable one. */
static void find_tenant(const char *text, char *buf, unsigned int size)
{
	char path[CGROUP_TEXT_BYTES];

	find_cgroup(text, path, sizeof(path));
	cgroup_tenant(path, NULL, NULL, buf, size);
	make_printable(buf);
}

/* The kernel shows no path of 4096 bytes: who nests cgroups that deep must not escape its quota, and shares one with its like. */
void identity_set_cgroup(struct identity *identity, int r, const char *text)
{
	if (r == -ENAMETOOLONG)
		text = "0::" CGROUP_TOO_DEEP "\n";
	identity_parse_cgroup(text, identity->cgroup, sizeof(identity->cgroup));
	find_tenant(text, identity->tenant, sizeof(identity->tenant));
}

static void read_names(struct identity *identity)
{
	char text[CGROUP_TEXT_BYTES];
	int r;

	if (identity->pid == 0)
		return;
	read_proc(identity->pid, "comm", identity->command, sizeof(identity->command));
	identity->command[strcspn(identity->command, "\n")] = 0;
	make_printable(identity->command);
	r = read_proc(identity->pid, "cgroup", text, sizeof(text));
	identity_set_cgroup(identity, r, text);
}

static int read_peer(struct identity *identity, int sock)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
		return -errno;
	identity->uid = cred.uid;
	identity->gid = cred.gid;
	identity->pid = cred.pid > 0 ? (uint32_t)cred.pid : 0;
	return 0;
}

int identity_init(struct identity *identity, int sock)
{
	int r;

	*identity = (struct identity){.pidfd = -1};
	r = read_peer(identity, sock);
	if (r == 0)
		r = open_pidfd(identity, sock);
	if (r < 0)
		return r;
	read_names(identity);
	return 0;
}

static bool is_option(int sock, int option, int want)
{
	socklen_t size = sizeof(int);
	int value;

	return getsockopt(sock, SOL_SOCKET, option, &value, &size) == 0 && value == want;
}

bool identity_has_peer(int sock)
{
	return is_option(sock, SO_DOMAIN, AF_UNIX) && is_option(sock, SO_TYPE, SOCK_SEQPACKET) &&
	       is_option(sock, SO_ACCEPTCONN, 0);
}

bool identity_is_peer(const struct identity *identity, int sock)
{
	struct identity peer = {0};

	return read_peer(&peer, sock) == 0 && peer.uid == identity->uid && peer.gid == identity->gid &&
	       peer.pid == identity->pid;
}

/* The kernel's page about a pidfd has a line "Pid:", which no other file has. */
bool identity_is_process(const struct identity *identity, int pidfd)
{
	char path[40], text[1024];
	_cleanup_close_ int info = -1;
	const char *line;
	ssize_t n;
	long pid;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	info = open(path, O_RDONLY | O_CLOEXEC);
	n = info < 0 ? -1 : read(info, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = 0;
	line = strstr(text, "\nPid:\t");
	return line && sscanf(line, "\nPid:\t%ld", &pid) == 1 && (pid == -1 || pid == (long)identity->pid);
}

void identity_deinit(struct identity *identity)
{
	identity->pidfd = safe_close(identity->pidfd);
}
