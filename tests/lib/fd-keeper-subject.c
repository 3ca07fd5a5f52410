/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-fd-keeper runs this program in place of a daemon. It counts its lives in a kept state under two names, keeps a socket that has
 * hung up twice, and prints SHMEMD_FAULT and SUBJECT_NEXT.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/restart/state.h"
#include "daemon/restart/store.h"
#include "daemon/service/fdstore.h"

static void on_term(int sig)
{
	_exit(EXIT_SUCCESS);
}

static void check(const char *what, int r)
{
	if (r >= 0)
		return;
	fprintf(stderr, "%s: %d\n", what, r);
	exit(EXIT_FAILURE);
}

static struct state *find_state(struct manager_store *store)
{
	int fd = manager_store_take(store, "s1-state");
	struct state *state;

	if (fd >= 0) {
		check("open", state_open(fd, &state));
		return state;
	}
	check("new", state_new(&state));
	check("put", manager_store_put(store, "s1-state", state_fd(state)));
	check("put again", manager_store_put(store, "s1-m1", state_fd(state)));
	return state;
}

/* The same open file by our own hand: the manager has it already, and says nothing. */
static void keep_pair(struct manager_store *store)
{
	int pair[2];

	check("pair", socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	close(pair[1]);
	check("socket", manager_store_put(store, "s1-sock", pair[0]));
	check("twice", fdstore_keep("s1-pid", pair[0]));
}

static const char *env(const char *key)
{
	const char *value = getenv(key);

	return value ? value : "none";
}

int main(void)
{
	struct manager_store *store;
	struct state *state;
	const void *bytes;
	uint32_t version;
	unsigned int n = 0;
	size_t size;

	signal(SIGTERM, on_term);
	check("store", manager_store_new(FDSTORE_NAME_BYTES, &store));
	state = find_state(store);
	if (state_read(state, &version, &bytes, &size) == 0 && size == sizeof(n))
		n = *(const unsigned int *)bytes;
	n++;
	check("write", state_write(state, &n, sizeof(n)));
	if (manager_store_take(store, "s1-sock") < 0)
		keep_pair(store);
	printf("life %u, left %u, fault %s, next %s\n", n, manager_store_discard_left(store), env("SHMEMD_FAULT"),
	       env("SUBJECT_NEXT"));
	fflush(stdout);
	fdstore_notify("READY=1");
	for (;;)
		pause();
}
