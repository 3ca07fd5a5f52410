/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libclient/runtime/world/session.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define OPENER_USEC 2000 /* between looks at a thread that opens a session */
#define DEFAULT_SOCKET "/run/shmemd/shmemd.sock" /* as shmd_client_open() says */

struct session {
	unsigned int n_users;
	pthread_mutex_t opens_nics; /* held during requests; protects what follows `client` */
	pid_t pid;
	char path[SESSION_PATH_BYTES];
	struct shmd_client *client;
	struct shmd_nic *nics[SHMD_DEV_RAILS];
	uint32_t n_nics;
};

/* Never held during a request: a world that closes does not wait for the daemon of one that opens. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct session *current; /* the one that the next world joins; NULL: none */
static pid_t opener; /* the process of a thread that opens a session now; 0: none */

static const char *path_of(const char *path)
{
	return path[0] ? path : DEFAULT_SOCKET;
}

static bool is_usable(const struct session *session)
{
	int health;

	if (!session || session->pid != getpid())
		return false;
	health = shmd_client_health(session->client);
	/* A port that is down may come up again; a session that ended does not. */
	return health != SHMD_HEALTH_DAEMON_GONE && health != SHMD_HEALTH_SESSION_ENDED;
}

static int session_new(const char *path, uint64_t timeout_nsec, struct session **ret_session)
{
	_cleanup_free_ struct session *session = calloc(1, sizeof(*session));
	struct shmd_client_attr attr = {.socket_path = path, .timeout_nsec = timeout_nsec};
	int r;

	if (!session)
		return shmd_error_set(-ENOMEM, "no memory for a session");
	if (strlen(path) >= sizeof(session->path))
		return shmd_error_set(-ENAMETOOLONG, "the path of shmemd's socket has more than %zu bytes", sizeof(session->path) - 1);
	r = shmd_client_open(&attr, &session->client);
	if (r < 0)
		return r;
	snprintf(session->path, sizeof(session->path), "%s", path);
	session->pid = getpid();
	pthread_mutex_init(&session->opens_nics, NULL);
	*ret_session = take_ptr(session);
	return 0;
}

/* With the lock, which is free meanwhile. The other thread's limit may be a longer one. */
static int wait_for_opener(uint64_t timeout_nsec)
{
	uint64_t end = nsec_add(nsec_now(), timeout_nsec);

	/* That of the parent is no thread of this process. */
	while (opener == getpid()) {
		if (nsec_now() >= end)
			return shmd_error_set(-ETIMEDOUT, "another thread of this process opens a session with shmemd: not within the time limit "
							  "(SHMD_TIMEOUT)");
		pthread_mutex_unlock(&lock);
		usleep(OPENER_USEC);
		pthread_mutex_lock(&lock);
	}
	return 0;
}

/* With the lock, which is free meanwhile. */
static int open_current(const char *path, uint64_t timeout_nsec)
{
	struct session *session = NULL;
	int r;

	opener = getpid();
	pthread_mutex_unlock(&lock);
	r = session_new(path, timeout_nsec, &session);
	pthread_mutex_lock(&lock);
	opener = 0;
	current = session;
	return r;
}

static int get(const char *path, uint64_t timeout_nsec, struct session **ret_session)
{
	int r = wait_for_opener(timeout_nsec);

	if (!r && !is_usable(current))
		r = open_current(path, timeout_nsec);
	if (r < 0)
		return r;
	if (strcmp(current->path, path) != 0)
		return shmd_error_set(-EINVAL, "a world of this process uses the shmemd at %s, so this one cannot use that at %s",
				      current->path, path);
	current->n_users++;
	*ret_session = current;
	return 0;
}

int session_get(const char *path, uint64_t timeout_nsec, struct session **ret_session)
{
	int r;

	pthread_mutex_lock(&lock);
	r = get(path_of(path), timeout_nsec, ret_session);
	pthread_mutex_unlock(&lock);
	return r;
}

void session_put(struct session *session)
{
	bool is_last;

	if (!session)
		return;
	pthread_mutex_lock(&lock);
	is_last = --session->n_users == 0;
	if (is_last && current == session)
		current = NULL;
	pthread_mutex_unlock(&lock);
	if (!is_last)
		return;
	/* Ends the NICs, too. */
	shmd_client_close(session->client);
	pthread_mutex_destroy(&session->opens_nics);
	free(session);
}

bool session_is_shared(const struct session *session)
{
	bool is_shared;

	pthread_mutex_lock(&lock);
	is_shared = session->n_users > 1;
	pthread_mutex_unlock(&lock);
	return is_shared;
}

struct shmd_client *session_client(const struct session *session)
{
	return session->client;
}

static int open_nics(struct session *session, uint32_t n)
{
	int r = 0;

	while (!r && session->n_nics < n) {
		r = shmd_nic_open(session->client, NULL, &session->nics[session->n_nics]);
		if (!r)
			session->n_nics++;
	}
	return session->n_nics ? 0 : r;
}

int session_nics(struct session *session, uint32_t n, struct shmd_nic **nics, uint32_t *ret_n)
{
	int r;

	pthread_mutex_lock(&session->opens_nics);
	r = open_nics(session, n);
	*ret_n = session->n_nics < n ? session->n_nics : n;
	memcpy(nics, session->nics, *ret_n * sizeof(*nics));
	pthread_mutex_unlock(&session->opens_nics);
	return r;
}

/* FNV-1a: no secret, only a short name for a few bytes. */
static uint64_t hash(uint64_t h, const void *data, size_t bytes)
{
	const uint8_t *at = data;

	for (size_t i = 0; i < bytes; i++)
		h = (h ^ at[i]) * 0x100000001b3u;
	return h;
}

static ssize_t read_boot_id(char *text, size_t bytes)
{
	_cleanup_close_ int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -1 : read(fd, text, bytes);
}

int session_node(const struct session *session, uint64_t *ret_node)
{
	uint64_t h = 0xcbf29ce484222325u;
	struct {
		uint64_t dev, ino, uid;
	} place = {0};
	char boot_id[64];
	ssize_t n = read_boot_id(boot_id, sizeof(boot_id));
	struct stat st;

	if (stat(session->path, &st) < 0)
		return shmd_error_set(-errno, "the socket of shmemd, %s: %s", session->path, strerror(errno));
	place.dev = st.st_dev;
	place.ino = st.st_ino;
	place.uid = geteuid(); /* the daemon passes nothing from one user to another */
	if (n > 0)
		h = hash(h, boot_id, (size_t)n);
	*ret_node = hash(h, &place, sizeof(place));
	return 0;
}
