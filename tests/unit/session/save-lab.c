/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/session/save-lab.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/restart/import.h"
#include "daemon/restart/state.h"
#include "tests/lib/test.h"

uint32_t save_lab_peer_uid;

/* In place of the C library's. */
int getsockopt(int sock, int level, int option, void *value, socklen_t *size)
{
	int r = (int)syscall(SYS_getsockopt, sock, level, option, value, size);

	if (r == 0 && save_lab_peer_uid && level == SOL_SOCKET && option == SO_PEERCRED)
		((struct ucred *)value)->uid = save_lab_peer_uid;
	return r;
}

static int find(const struct save_lab *k, const char *name)
{
	for (unsigned int i = 0; i < k->n; i++)
		if (strcmp(k->kept[i].name, name) == 0)
			return (int)i;
	return -1;
}

/* The state left by a daemon that dies at this moment. */
static void note_first_state(struct save_lab *k, const char *name, int fd)
{
	const char *end = strstr(name, "-state");
	struct state *state;
	const void *bytes;
	uint32_t version;

	if (!end || strcmp(name, SAVE_REGISTRY) == 0)
		return;
	free(k->first_state);
	k->first_state = NULL;
	ASSERT_OK(state_open(fcntl(fd, F_DUPFD_CLOEXEC, 3), &state));
	ASSERT_OK(state_read(state, &version, &bytes, &k->first_bytes));
	k->first_state = malloc(k->first_bytes + 1);
	ASSERT(k->first_state);
	if (k->first_bytes)
		memcpy(k->first_state, bytes, k->first_bytes);
	state_free(state);
}

static int put(void *arg, const char *name, int fd)
{
	struct save_lab *k = arg;

	ASSERT_GE(fd, 0);
	if (find(k, name) >= 0)
		return -EEXIST;
	if (k->n >= k->max)
		return -ENOSPC;
	ASSERT(strlen(name) < SAVE_NAME_BYTES && k->n < SAVE_LAB_NAMES);
	snprintf(k->kept[k->n].name, SAVE_NAME_BYTES, "%s", name);
	k->kept[k->n].fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	k->kept[k->n].claimed = false;
	ASSERT_GE(k->kept[k->n].fd, 0);
	k->n++;
	note_first_state(k, name, fd);
	return 0;
}

static unsigned int room(void *arg)
{
	struct save_lab *k = arg;

	return k->n < k->max ? k->max - k->n : 0;
}

static void drop(void *arg, const char *name)
{
	struct save_lab *k = arg;
	int i = find(k, name);

	if (i < 0)
		return;
	close(k->kept[i].fd);
	k->kept[i] = k->kept[--k->n];
}

static int take(void *arg, const char *name)
{
	struct save_lab *k = arg;
	int i = find(k, name);

	if (i < 0 || !k->kept[i].claimed)
		return -ENOENT;
	k->kept[i].claimed = false;
	return fcntl(k->kept[i].fd, F_DUPFD_CLOEXEC, 3);
}

static void settle(void *arg)
{
}

static uint64_t mark(void *arg)
{
	(void)arg;
	return 1;
}

static bool reached(void *arg, uint64_t up_to)
{
	const struct save_lab *k = arg;

	return !k->is_busy;
}

static bool lost(void *arg, uint64_t session)
{
	const struct save_lab *k = arg;

	return session == k->lost_session;
}

/* As of a manager that hears everything at once. */
static int follow(void *arg)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	close(fds[1]);
	return fds[0];
}

static const struct save_store store = {
	.put = put, .put_memory = put, .room = room, .remove = drop, .settle = settle, .mark = mark, .reached = reached, .lost = lost,
	.follow = follow, .take = take};

static void start(struct save_lab *k, uint64_t limit)
{
	if (k->blocks)
		lab_init_blocking(&k->lab, limit);
	else if (k->has_porters)
		lab_init_porters(&k->lab, limit);
	else
		lab_init(&k->lab, limit);
	k->lab.registry.attr.save = &save_ops;
	k->lab.registry.attr.store = &store;
	k->lab.registry.attr.store_arg = k;
	k->lab.registry.saves_sessions = true;
	k->lab.registry.attr.restart_grace_nsec = 1000000;
	for (int i = 0; i < 2; i++) {
		k->lab.nics[i].saves = true;
		k->lab.nics[i].base.saves_memory = i == 0;
	}
	for (unsigned int i = 0; i < k->n; i++)
		k->kept[i].claimed = true;
}

static void init(struct save_lab *k, uint64_t limit, bool has_porters)
{
	k->has_porters = has_porters;
	k->n = 0;
	k->first_state = NULL;
	k->max = SAVE_LAB_NAMES;
	k->is_busy = false;
	k->lost_session = 0;
	start(k, limit);
}

void save_lab_init(struct save_lab *k, uint64_t limit)
{
	init(k, limit, false);
}

void save_lab_init_porters(struct save_lab *k, uint64_t limit)
{
	init(k, limit, true);
}

void save_lab_deinit(struct save_lab *k)
{
	lab_assert_empty(&k->lab);
	lab_deinit(&k->lab);
	ASSERT_EQ(save_lab_count(k), 0);
	drop(k, SAVE_REGISTRY);
	free(k->first_state);
}

bool save_lab_has(const struct save_lab *k, const char *name)
{
	return find(k, name) >= 0;
}

unsigned int save_lab_count(const struct save_lab *k)
{
	return k->n - save_lab_has(k, SAVE_REGISTRY);
}

/* Nothing of what follows reaches the store, the client or the page. */
static void die(struct session *session)
{
	struct registry *registry = session->registry;
	int dummy[2];

	ASSERT(list_empty(&session->saved.gone));
	session->saved.state = state_free(session->saved.state);
	session->has_page = false;
	session->health_fd = safe_close(session->health_fd);
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, dummy));
	ASSERT_GE(dup3(dummy[0], session->connection.fd, O_CLOEXEC), 0);
	close(dummy[0]);
	close(dummy[1]);
	registry->attr.store = NULL;
	session_free(session);
	registry->attr.store = &store;
}

void save_lab_restart(struct save_lab *k, struct pair **pairs, unsigned int n)
{
	uint64_t limit = k->lab.registry.attr.limits.n[0];
	uint32_t last = k->lab.nics[0].last_number;

	for (unsigned int i = 0; i < n; i++) {
		die(pairs[i]->session);
		pairs[i]->session = NULL;
	}
	lab_assert_empty(&k->lab);
	lab_deinit(&k->lab);
	start(k, limit);
	/* Numbers of the hardware go on. */
	k->lab.nics[0].last_number = k->lab.nics[1].last_number = last + 1000;
}

int save_lab_adopt_bytes(struct save_lab *k, uint64_t id, const void *bytes, size_t n, struct session **ret_session)
{
	char name[SAVE_NAME_BYTES];
	struct state *state;

	snprintf(name, sizeof(name), "s%" PRIx64 "-state", id);
	ASSERT_OK(state_open(take(k, name), &state));
	return session_import(&k->lab.registry, id, state, bytes, n, ret_session);
}

void *save_lab_state(struct save_lab *k, uint64_t id, size_t *ret_n)
{
	char name[SAVE_NAME_BYTES];
	struct state *state;
	const void *bytes;
	uint32_t version;
	void *copy;
	int i;

	snprintf(name, sizeof(name), "s%" PRIx64 "-state", id);
	i = find(k, name);
	ASSERT_GE(i, 0);
	ASSERT_OK(state_open(fcntl(k->kept[i].fd, F_DUPFD_CLOEXEC, 3), &state));
	ASSERT_OK(state_read(state, &version, &bytes, ret_n));
	copy = malloc(*ret_n + 1);
	ASSERT(copy);
	memcpy(copy, bytes, *ret_n);
	state_free(state);
	return copy;
}

int save_lab_adopt(struct save_lab *k, uint64_t id, struct session **ret_session)
{
	size_t n;
	void *bytes = save_lab_state(k, id, &n);
	int r = save_lab_adopt_bytes(k, id, bytes, n, ret_session);

	free(bytes);
	return r;
}

void save_lab_let_go(struct save_lab *k, uint64_t id)
{
	char prefix[SAVE_NAME_BYTES];

	snprintf(prefix, sizeof(prefix), "s%" PRIx64 "-", id);
	for (unsigned int i = k->n; i > 0; i--)
		if (strncmp(k->kept[i - 1].name, prefix, strlen(prefix)) == 0)
			drop(k, k->kept[i - 1].name);
}

void save_lab_hello(struct pair *pair, struct save_lab *k)
{
	struct msg req, rep;

	pair_init(pair, &k->lab);
	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = (struct msg_hello_req){.version_min = 1, .version_max = 1, .role = MSG_ROLE_CLIENT,
					       .library = "save-lab", .resumes = true};
	raw_expect(&pair->raw, &req, NULL, 0, MSG_HELLO_REP, &rep);
}
