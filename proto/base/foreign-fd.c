/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closing what strangers sent.
 *
 * close() may block for as long as the sender likes: a file system in user space is asked to flush, a TCP socket with
 * SO_LINGER waits for its peer. Memfds, pipes, anonymous inodes and memory that CUDA exports never do; sockets do not once the lingering is off,
 * but for those that may have such descriptors on their way.
 * Everything else goes to a queue that a few threads empty; they end when there is nothing left. Each account has a
 * queue of its own and a few threads at most, so that whoever gets its threads stuck waits alone. What an account has
 * handed over is counted until it is really closed; how many are too many is for the caller to say.
 *
 * Asks nothing of the file itself, since that may block as well. Any thread; one lock.
 */
#include "proto/base/foreign-fd.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/cleanup.h"
#include "proto/base/later.h"
#include "proto/base/list.h"
#include "proto/base/thread.h"

#define MAX_CLOSERS 32u
#define MAX_CLOSERS_EACH 4u
#define LARGE_BLOCKS ((16 << 20) / 512)
#define CLOSER_STACK_BYTES 65536u
#define NVIDIA_MAJOR 195u /* Documentation/admin-guide/devices.txt: reserved for them */

struct waiting_fd {
	struct waiting_fd *next;
	void (*fn)(int fd);
	int fd;
};

struct foreign_account {
	unsigned int refs; /* its owner, and each descriptor that is not closed */
	unsigned int n_unclosed;
	unsigned int n_closers; /* threads at work on it */
	struct waiting_fd *waiting;
	struct list runnable; /* linked: something waits, and it may have another thread */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* accounts and all below */
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER; /* n_closers is 0 */
static struct list runnable = {&runnable, &runnable}; /* struct foreign_account.runnable, the next one first */
static struct foreign_account nobody = {.refs = 1, .runnable = {&nobody.runnable, &nobody.runnable}};
static unsigned int n_closers;

struct foreign_account *foreign_account_new(void)
{
	struct foreign_account *account = calloc(1, sizeof(*account));

	if (!account)
		return NULL;
	account->refs = 1;
	list_init(&account->runnable);
	return account;
}

/* Under the lock. */
static void account_put(struct foreign_account *account)
{
	if (--account->refs == 0)
		free(account);
}

struct foreign_account *foreign_account_unref(struct foreign_account *account)
{
	if (!account)
		return NULL;
	pthread_mutex_lock(&lock);
	account_put(account);
	pthread_mutex_unlock(&lock);
	return NULL;
}

unsigned int foreign_account_unclosed(struct foreign_account *account)
{
	unsigned int n;

	pthread_mutex_lock(&lock);
	n = account->n_unclosed;
	pthread_mutex_unlock(&lock);
	return n;
}

/* Under the lock. */
static void account_add(struct foreign_account *account)
{
	account->refs++;
	account->n_unclosed++;
}

/* Under the lock. */
static void account_closed(struct foreign_account *account)
{
	account->n_unclosed--;
	account_put(account);
}

/* Under the lock. To the end of the line, if it may be in it. */
static void account_queue(struct foreign_account *account)
{
	list_del(&account->runnable);
	if (account->waiting && account->n_closers < MAX_CLOSERS_EACH)
		list_add_tail(&runnable, &account->runnable);
}

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
static bool is_kind(int fd, const char *kind)
{
	char path[40], name[16] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, name, sizeof(name) - 1) >= 0 && strncmp(name, kind, strlen(kind)) == 0;
}

/*
 * What CUDA exports is a descriptor of its driver's device. The name alone may be a lie; who lies has a file whose server is not asked
 * for what the kernel knows already (AT_STATX_DONT_SYNC).
 */
static bool is_gpu_memory(int fd)
{
	struct statx st;

	return is_kind(fd, "/dev/nvidia") &&
	       statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) == 0 &&
	       S_ISCHR(st.stx_mode) && st.stx_rdev_major == NVIDIA_MAJOR;
}

bool foreign_never_waits(int fd)
{
	/* A pidfd was an anonymous inode before Linux 6.9, and says so again. */
	return fcntl(fd, F_GET_SEALS) >= 0 || is_kind(fd, "anon_inode:") || is_kind(fd, "pipe:[") || is_kind(fd, "pidfd:[") || is_gpu_memory(fd);
}

static bool closes_at_once(int fd)
{
	return foreign_never_waits(fd) || (is_kind(fd, "socket:[") && socket_closes_at_once(fd));
}

/* Under the lock, which is let go meanwhile. */
static void close_one(struct foreign_account *account)
{
	struct waiting_fd *item = account->waiting;

	account->waiting = item->next;
	account->n_closers++;
	account_queue(account);
	pthread_mutex_unlock(&lock);
	item->fn(item->fd);
	free(item);
	pthread_mutex_lock(&lock);
	account->n_closers--;
	account_queue(account);
	account_closed(account);
}

static void *closer(void *arg)
{
	pthread_mutex_lock(&lock);
	while (!list_empty(&runnable))
		close_one(container_of(runnable.next, struct foreign_account, runnable));
	if (--n_closers == 0)
		pthread_cond_broadcast(&idle);
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* Under the lock. */
static int start_closer(void)
{
	pthread_t thread;
	int r;

	if (n_closers == MAX_CLOSERS || list_empty(&runnable))
		return 0;
	r = thread_start(&thread, CLOSER_STACK_BYTES, NULL, closer, NULL);
	if (r < 0)
		return r;
	n_closers++;
	pthread_detach(thread);
	return 0;
}

/* Under the lock. Nobody has looked at it yet: what was added last is the first. */
static int add_waiting(struct foreign_account *account, struct waiting_fd *item)
{
	int r;

	item->next = account->waiting;
	account->waiting = item;
	account_queue(account);
	r = start_closer();
	if (r == 0 || n_closers > 0) {
		account_add(account);
		return 0;
	}
	account->waiting = item->next;
	account_queue(account);
	return r;
}

int close_elsewhere(int fd, void (*fn)(int fd), struct foreign_account *account)
{
	struct waiting_fd *item = malloc(sizeof(*item));
	int r;

	if (!item)
		return -ENOMEM;
	*item = (struct waiting_fd){.fn = fn, .fd = fd};
	pthread_mutex_lock(&lock);
	r = add_waiting(account ? account : &nobody, item);
	pthread_mutex_unlock(&lock);
	if (r < 0)
		free(item);
	return r;
}

struct large_fd {
	struct later later;
	struct foreign_account *account;
	int fd;
};

static void close_large(struct later *later)
{
	struct large_fd *large = container_of(later, struct large_fd, later);

	close(large->fd);
	pthread_mutex_lock(&lock);
	account_closed(large->account);
	pthread_mutex_unlock(&lock);
	free(large);
}

static int run_large(struct large_fd *large)
{
	int r;

	pthread_mutex_lock(&lock);
	account_add(large->account);
	pthread_mutex_unlock(&lock);
	r = later_run(&large->later);
	if (r == 0)
		return 0;
	pthread_mutex_lock(&lock);
	account_closed(large->account);
	pthread_mutex_unlock(&lock);
	return r;
}

/* With the last descriptor of a memfd all its memory is given back, which does not block, and takes long. */
static bool close_later(int fd, struct foreign_account *account)
{
	struct large_fd *large;
	struct stat st;

	if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st) < 0 || st.st_blocks < LARGE_BLOCKS)
		return false;
	large = malloc(sizeof(*large));
	if (!large)
		return false;
	*large = (struct large_fd){
		.later.fn = close_large, .account = account ? account : &nobody, .fd = fd};
	if (run_large(large) == 0)
		return true;
	free(large);
	return false;
}

static void close_here(int fd)
{
	close(fd);
}

int close_foreign_for(int fd, struct foreign_account *account)
{
	int saved = errno;

	if (fd >= 0 && !close_later(fd, account) && (closes_at_once(fd) || close_elsewhere(fd, close_here, account) < 0))
		close(fd);
	errno = saved;
	return -1;
}

int close_foreign(int fd)
{
	return close_foreign_for(fd, NULL);
}

void close_foreign_wait(void)
{
	pthread_mutex_lock(&lock);
	while (n_closers > 0)
		pthread_cond_wait(&idle, &lock);
	pthread_mutex_unlock(&lock);
	later_wait();
}
