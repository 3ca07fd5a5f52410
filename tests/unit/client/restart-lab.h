/* SPDX-License-Identifier: Apache-2.0 */
/* A fake daemon that dies at requests and comes back, and what a client has to say then. */
#ifndef SHMD_TESTS_RESTART_LAB_H
#define SHMD_TESTS_RESTART_LAB_H

#include <sys/types.h>

#include "libclient/objects.h"
#include "tests/unit/client/fake-daemon.h"

#define FOR_EVER (600 * NSEC_PER_SEC)
#define SOON_NSEC (20 * NSEC_PER_MSEC)
#define PATIENCE_NSEC (10 * NSEC_PER_SEC)

enum way {
	NEVER,
	BEFORE_IT_IS_DONE,
	BEFORE_THE_REPLY,
	AFTER_THE_REPLY,
	EACH_WAY, /* request by request */
};

/* The state that a daemon has saved of a session, so that it does not carry out a repeated request twice. */
struct saved {
	uint64_t last_id;
	uint64_t n_done;
	unsigned int n_repeated;
	enum way dies; /* at the first request, EACH_WAY at most of them */
	uint64_t died_at; /* the last one; 0: at none */
	ino_t inode[2]; /* of the descriptors that the first two requests brought */
};

/* fake_daemon.handle for fake_daemon.arg = struct saved: carries requests out, counts them, and dies as `dies` says. */
void handle(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds);

void await_restarts(const struct shmd_client *client, unsigned int n);
void await_noticed(struct shmd_client *client);
uint32_t health_of(struct shmd_client *client);
void await_gone(struct shmd_client *client);
uint64_t ask(struct shmd_client *client);
void assert_alive(struct shmd_client *client, unsigned int n_restarts);
void assert_dead(struct shmd_client *client, int err, const char *why);
struct shmd_client *open_client(struct fake_daemon *fake, uint64_t timeout_nsec);

#endif
