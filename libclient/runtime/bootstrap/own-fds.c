/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/own-fds.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

/* Held from before a descriptor is made until it is noted, and during a fork. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool *is_own; /* by number */
static size_t n_numbers;

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
	for (size_t fd = 0; fd < n_numbers; fd++)
		if (is_own[fd])
			close((int)fd);
	if (n_numbers)
		memset(is_own, 0, n_numbers);
	after_fork();
}

static void prepare_forks(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

static void begin(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, prepare_forks);
	pthread_mutex_lock(&lock);
}

static bool has_room(size_t number)
{
	size_t n = n_numbers ? n_numbers : 64;
	bool *more;

	if (number < n_numbers)
		return true;
	while (n <= number)
		n *= 2;
	more = realloc(is_own, n);
	if (!more)
		return false;
	memset(more + n_numbers, 0, n - n_numbers);
	is_own = more;
	n_numbers = n;
	return true;
}

/* With the lock, which this gives back. */
static int note(int fd)
{
	if (fd < 0)
		fd = -errno;
	if (fd >= 0 && !has_room((size_t)fd)) {
		safe_close(fd);
		fd = -ENOMEM;
	}
	if (fd >= 0)
		is_own[fd] = true;
	pthread_mutex_unlock(&lock);
	return fd;
}

int own_socket(int family)
{
	begin();
	return note(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

int own_accept(int listener)
{
	begin();
	return note(accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

int own_eventfd(void)
{
	begin();
	return note(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

int own_fd_adopt(int fd)
{
	begin();
	return note(fd);
}

int own_fd_close(int fd)
{
	if (fd < 0)
		return -1;
	begin();
	if ((size_t)fd < n_numbers && is_own[fd]) {
		is_own[fd] = false;
		safe_close(fd);
	}
	pthread_mutex_unlock(&lock);
	return -1;
}
