/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the listening socket.
 *
 * Two daemons never share a path: under a lock on the folder, a daemon leaves a socket alone that somebody listens on, and
 * replaces a stale one. It never removes a file that is not a socket, and at its exit it removes only its own socket. Without
 * socket-group the socket belongs to group shmemd if root starts the daemon and that group exists; otherwise the group gets no
 * access, so a private daemon is private. A service manager's socket is given back as it was found. Control thread; runs before
 * any other thread exists.
 */
#include "daemon/clients/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/service/fdstore.h"
#include "proto/base/cleanup.h"
#include "proto/framing.h"

#define LISTENER_BACKLOG 256
#define LISTENER_GROUP "shmemd"
#define LOCK_TRIES 100
#define LOCK_PAUSE_NSEC 10000000

/* Best effort: a folder that somebody else keeps locked does not keep us from starting. */
static int lock_folder(const char *path, int *ret_fd)
{
	const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NSEC};
	_cleanup_close_ int fd = -1;
	char copy[SETTINGS_PATH_BYTES];
	const char *folder;

	snprintf(copy, sizeof(copy), "%s", path);
	folder = dirname(copy);
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		int r = -errno;

		log_line(LOG_ERR, NULL,
			 "cannot open the folder %s for the socket: %m; create it, or choose another place "
			 "with --socket PATH", folder);
		return r;
	}
	for (int i = 0; i < LOCK_TRIES && flock(fd, LOCK_EX | LOCK_NB) < 0; i++)
		nanosleep(&pause, NULL);
	*ret_fd = take_fd(&fd);
	return 0;
}

static void fill_address(struct sockaddr_un *addr, const char *path)
{
	*addr = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(addr->sun_path, path, strnlen(path, sizeof(addr->sun_path) - 1));
}

/* 0: no process listens at this socket. */
static int probe(const char *path)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un addr;

	if (fd < 0)
		return -errno;
	fill_address(&addr, path);
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 || errno == EAGAIN)
		return -EADDRINUSE;
	return errno == ECONNREFUSED || errno == ENOENT ? 0 : -errno;
}

static int remove_stale(const char *path)
{
	struct stat st;
	int r;

	if (lstat(path, &st) < 0)
		return 0;
	if (!S_ISSOCK(st.st_mode)) {
		log_line(LOG_ERR, NULL, "%s exists and is not a socket; remove it, or choose another place with --socket PATH",
			 path);
		return -EEXIST;
	}
	r = probe(path);
	if (r == -EADDRINUSE) {
		log_line(LOG_ERR, NULL,
			 "another shmemd already listens on %s; stop it, or choose another place with --socket PATH", path);
		return r;
	}
	if (r < 0) {
		log_line(LOG_ERR, NULL, "cannot find out whether %s is in use: %s", path, strerror(-r));
		return r;
	}
	log_line(LOG_NOTICE, NULL, "removing the stale socket %s", path);
	return unlink(path) < 0 ? -errno : 0;
}

/* The group's id, or -1 to leave it; *mode loses its group bits where the group was not chosen by anybody. */
static int choose_group(const struct settings *settings, gid_t *ret_gid, mode_t *mode)
{
	const char *name = settings->socket_group;
	const struct group *group;

	*ret_gid = (gid_t)-1;
	if (!name[0] && geteuid() != 0) {
		*mode &= ~(mode_t)S_IRWXG;
		return 0;
	}
	group = getgrnam(name[0] ? name : LISTENER_GROUP);
	if (group) {
		*ret_gid = group->gr_gid;
		return 0;
	}
	if (!name[0]) {
		*mode &= ~(mode_t)S_IRWXG;
		return 0;
	}
	log_line(LOG_ERR, NULL, "socket-group: this machine has no group \"%s\"", name);
	return -EINVAL;
}

/* The socket starts without any permission, so that no client connects before owner and mode are right. */
static int bind_closed(int fd, const char *path)
{
	struct sockaddr_un addr;
	mode_t old = umask(0777);
	int r = 0;

	fill_address(&addr, path);
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
		r = -errno;
	umask(old);
	if (r < 0)
		log_line(LOG_ERR, NULL, "cannot create the socket %s: %s", path, strerror(-r));
	return r;
}

static int open_up(struct listener *listener, const struct settings *settings)
{
	mode_t mode = (mode_t)settings->socket_mode;
	struct stat st;
	gid_t gid;
	int r;

	r = choose_group(settings, &gid, &mode);
	if (r < 0)
		return r;
	if (stat(listener->path, &st) < 0 || chown(listener->path, (uid_t)-1, gid) < 0 ||
	    chmod(listener->path, mode) < 0 || listen(listener->fd, LISTENER_BACKLOG) < 0) {
		r = -errno;
		log_line(LOG_ERR, NULL, "cannot give clients access to the socket %s: %m", listener->path);
		return r;
	}
	listener->dev = st.st_dev;
	listener->ino = st.st_ino;
	return 0;
}

/*
 * Until its session is accepted nobody sends descriptors: those of a connection that is refused would have to be closed
 * by us, which may take as long as their sender likes. An older kernel lets them through.
 */
static int refuse_fds(struct listener *listener)
{
	int r = framing_set_passing(listener->fd, false);

	return r == -ENOPROTOOPT ? 0 : r;
}

static int make_own(struct listener *listener, const struct settings *settings)
{
	_cleanup_close_ int lock = -1;
	int r;

	snprintf(listener->path, sizeof(listener->path), "%s", settings->socket);
	r = lock_folder(listener->path, &lock);
	if (r < 0)
		return r;
	r = remove_stale(listener->path);
	if (r < 0)
		return r;
	listener->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener->fd < 0)
		return -errno;
	r = refuse_fds(listener);
	if (r < 0)
		return r;
	r = bind_closed(listener->fd, listener->path);
	if (r < 0)
		return r;
	r = open_up(listener, settings);
	if (r < 0)
		unlink(listener->path);
	else
		/* A client that connects while no daemon runs then waits; it is not refused. */
		listener->kept = fdstore_max() > 0 && fdstore_keep(FDSTORE_LISTENER, listener->fd) == 0;
	return r;
}

static int take_activated(struct listener *listener)
{
	struct sockaddr_un addr = {0};
	socklen_t size = sizeof(addr) - 1;

	listener->activated = true;
	if (fcntl(listener->fd, F_SETFL, O_NONBLOCK) < 0 ||
	    getsockname(listener->fd, (struct sockaddr *)&addr, &size) < 0)
		return -errno;
	snprintf(listener->path, sizeof(listener->path), "%s", addr.sun_path);
	listener->was_passing = framing_is_passing(listener->fd);
	return refuse_fds(listener);
}

/* One that we made in an earlier life: who connected meanwhile is in its backlog. -ESTALE: it is at another path now. */
static int take_kept(struct listener *listener, const struct settings *settings)
{
	struct sockaddr_un addr = {0};
	socklen_t size = sizeof(addr) - 1;
	struct stat st;

	if (getsockname(listener->fd, (struct sockaddr *)&addr, &size) < 0)
		return -errno;
	if (strcmp(addr.sun_path, settings->socket) != 0 || lstat(addr.sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return -ESTALE;
	snprintf(listener->path, sizeof(listener->path), "%s", addr.sun_path);
	listener->kept = true;
	listener->dev = st.st_dev;
	listener->ino = st.st_ino;
	return listener_set_access(listener, settings);
}

static int make_anew(struct listener *listener, const struct settings *settings)
{
	fdstore_drop(FDSTORE_LISTENER);
	listener->fd = safe_close(listener->fd);
	return make_own(listener, settings);
}

static int find_or_make(struct listener *listener, const struct settings *settings)
{
	bool kept;
	int r;

	r = fdstore_listener(&listener->fd, &kept);
	if (r == -ENOENT)
		return make_own(listener, settings);
	if (r < 0) {
		log_line(LOG_ERR, NULL,
			 "the service manager passed something other than one listening SOCK_SEQPACKET socket");
		return r;
	}
	if (!kept)
		return take_activated(listener);
	r = take_kept(listener, settings);
	return r == -ESTALE ? make_anew(listener, settings) : r;
}

int listener_init(struct listener *listener, const struct settings *settings)
{
	int r;

	*listener = (struct listener){.fd = -1};
	r = find_or_make(listener, settings);
	if (r < 0)
		listener_deinit(listener);
	return r;
}

/* Is the socket at our path still the one we made? */
static bool is_ours(const struct listener *listener, struct stat *ret_st)
{
	return listener->fd >= 0 && listener->ino && lstat(listener->path, ret_st) == 0 &&
	       ret_st->st_dev == listener->dev && ret_st->st_ino == listener->ino;
}

/* In between, only what both old and new settings allow. */
int listener_set_access(struct listener *listener, const struct settings *settings)
{
	mode_t mode = (mode_t)settings->socket_mode, old;
	struct stat st;
	gid_t gid;
	int r;

	if (!is_ours(listener, &st))
		return 0;
	r = choose_group(settings, &gid, &mode);
	if (r < 0)
		return r;
	old = st.st_mode & 0777;
	if (gid == (gid_t)-1)
		gid = getegid();
	if (chmod(listener->path, old & mode) < 0 || chown(listener->path, (uid_t)-1, gid) < 0 ||
	    chmod(listener->path, mode) < 0) {
		r = -errno;
		log_line(LOG_ERR, NULL, "cannot change mode and group of the socket %s: %m", listener->path);
		chmod(listener->path, old);
	}
	return r;
}

void listener_deinit(struct listener *listener)
{
	struct stat st;

	/* The service manager keeps its socket, and the next daemon may be one that expects it as its unit says. */
	if (listener->activated && listener->was_passing)
		framing_set_passing(listener->fd, true);
	if (!listener->kept && is_ours(listener, &st))
		unlink(listener->path);
	listener->fd = safe_close(listener->fd);
}
