/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closing what strangers sent.
 *
 * close() may block for as long as the sender likes: a file system in user space is asked to flush, a TCP socket with
 * SO_LINGER waits for its peer. Memfds, pipes and anonymous inodes never do; sockets do not once the lingering is off,
 * but for those that may have such descriptors on their way.
 * Everything else goes to a queue that a few threads empty; they end when there is nothing left. When all of them are
 * stuck, the queue grows until the process may open no more: new clients are refused, the others never notice.
 *
 * Asks nothing of the file itself, since that may block as well. Any thread; one lock.
 */
#include "proto/base/foreign-fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/cleanup.h"
#include "proto/base/later.h"
#include "proto/base/list.h"

#define MAX_CLOSERS 16u
#define LARGE_BLOCKS ((16 << 20) / 512)
#define CLOSER_STACK_BYTES 65536u

struct waiting_fd {
	struct waiting_fd *next;
	void (*fn)(int fd);
	int fd;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the three below */
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER; /* n_closers is 0 */
static struct waiting_fd *waiting;
static unsigned int n_closers;

/* With the lingering off. One of the Unix domain may hold descriptors that nobody has read: those are closed with it. */
static bool socket_closes_at_once(int fd)
{
	const struct linger off = {0};
	int domain;
	socklen_t bytes = sizeof(domain);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain != AF_UNIX &&
	       setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off)) == 0;
}

/* Kinds that have no path are named by the kernel alone; a path may say anything, and begins with a slash. */
static bool closes_at_once(int fd)
{
	static const char *const kinds[] = {"anon_inode:", "pipe:[", "socket:["};
	char path[40], name[16] = "";

	if (fcntl(fd, F_GET_SEALS) >= 0)
		return true;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (readlink(path, name, sizeof(name) - 1) < 0)
		return false;
	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strncmp(name, kinds[i], strlen(kinds[i])))
			return i < 2 || socket_closes_at_once(fd);
	return false;
}

static void *closer(void *arg)
{
	struct waiting_fd *item;

	pthread_mutex_lock(&lock);
	while ((item = waiting)) {
		waiting = item->next;
		pthread_mutex_unlock(&lock);
		item->fn(item->fd);
		free(item);
		pthread_mutex_lock(&lock);
	}
	if (--n_closers == 0)
		pthread_cond_broadcast(&idle);
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* Under the lock. */
static int start_closer(void)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	if (n_closers == MAX_CLOSERS)
		return 0;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, CLOSER_STACK_BYTES);
	r = pthread_create(&thread, &attr, closer, NULL);
	pthread_attr_destroy(&attr);
	n_closers += r == 0;
	return -r;
}

int close_elsewhere(int fd, void (*fn)(int fd))
{
	struct waiting_fd *item = malloc(sizeof(*item));
	int r;

	if (!item)
		return -ENOMEM;
	item->fn = fn;
	item->fd = fd;
	pthread_mutex_lock(&lock);
	item->next = waiting;
	waiting = item;
	r = start_closer();
	if (r < 0 && n_closers > 0)
		r = 0;
	if (r < 0)
		waiting = item->next;
	pthread_mutex_unlock(&lock);
	if (r < 0)
		free(item);
	return r;
}

static void close_here(int fd)
{
	close(fd);
}

struct large_fd {
	struct later later;
	int fd;
};

static void close_large(struct later *later)
{
	struct large_fd *large = container_of(later, struct large_fd, later);

	close_here(large->fd);
	free(large);
}

/* With the last descriptor of a memfd all its memory is given back, which does not block, and takes long. */
static bool close_later(int fd)
{
	struct large_fd *large;
	struct stat st;

	if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st) < 0 || st.st_blocks < LARGE_BLOCKS)
		return false;
	large = malloc(sizeof(*large));
	if (!large)
		return false;
	*large = (struct large_fd){.later.fn = close_large, .fd = fd};
	if (later_run(&large->later) == 0)
		return true;
	free(large);
	return false;
}

int close_foreign(int fd)
{
	int saved = errno;

	if (fd >= 0 && !close_later(fd) && (closes_at_once(fd) || close_elsewhere(fd, close_here) < 0))
		close_here(fd);
	errno = saved;
	return -1;
}

void close_foreign_wait(void)
{
	pthread_mutex_lock(&lock);
	while (n_closers > 0)
		pthread_cond_wait(&idle, &lock);
	pthread_mutex_unlock(&lock);
	later_wait();
}
