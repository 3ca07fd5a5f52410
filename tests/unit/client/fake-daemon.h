/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon made of one thread on a socketpair, for tests of the client library.
 *
 * It answers Hello by itself and gives every other message to the test's handler, on its own thread. The handler
 * answers with fake_send() or does not, which is a test too. It may die and leave its connection to the next one, as
 * where a service manager keeps sessions: both are the same thread.
 */
#ifndef SHMEMD_TESTS_FAKE_DAEMON_H
#define SHMEMD_TESTS_FAKE_DAEMON_H

#include <pthread.h>
#include <stdbool.h>

#include <shmemclient.h>

#include "proto/base/fdlist.h"
#include "proto/codec.h"

struct fake_daemon {
	int sock;
	pthread_t thread;
	void (*handle)(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds);
	void *arg; /* the test's own */
	uint32_t hello_version; /* 0: the right one */
	uint32_t hello_status; /* not 0: Hello is refused with it */
	struct shmd_health_page *health; /* of the session; NULL before Hello */
	struct msg_limits limits;
	unsigned int n_requests; /* Hello not counted */
	bool saw_end; /* the client's socket was closed */

	uint64_t grace_nsec; /* not 0: sessions outlive it, so Hello brings a pipe to watch ... */
	int hello_watch_fd; /* ... or this, when not 0; the test's own */
	uint32_t hello_watch_index; /* as said in Hello; 0: the right one */
	bool hello_resumes; /* the client said so */
	unsigned int n_hello_deaths; /* so many Hellos it dies at, with its session kept and no answer */
	void (*in_hello)(struct fake_daemon *fake); /* what it does at those instead; NULL: that */
	unsigned int n_hellos;
	pthread_mutex_t lock; /* of the next two */
	bool is_away; /* what the client sends stays in the socket */
	int watch_fd; /* this end of the pair; -1: none */
};

/* Starts it and opens a client on it. Fields that the test wants set must be set before; the others are 0. */
int fake_open(struct fake_daemon *fake, const struct shmd_client_attr *attr, struct shmd_client **ret_client);
/* Starts it on a connection that it takes. */
void fake_serve(struct fake_daemon *fake, int sock);
/* Ends the connection and the thread. May be called twice. */
void fake_stop(struct fake_daemon *fake);
/* Waits for the client to hang up, then stops. */
void fake_join(struct fake_daemon *fake);

/* Sends msg with fds; n_fds of the message is set here. */
void fake_send(struct fake_daemon *fake, struct msg *msg, const int *fds, unsigned int n_fds);
void fake_send_raw(struct fake_daemon *fake, const void *bytes, size_t n);
void fake_send_ok(struct fake_daemon *fake, uint64_t id);
void fake_send_error(struct fake_daemon *fake, uint64_t id, uint32_t status, const char *text);
void fake_send_event(struct fake_daemon *fake, enum msg_event_kind kind, uint32_t number, const char *text);

/* It dies, and its connection stays. By the handler or the test. */
void fake_crash(struct fake_daemon *fake);
/* The next one takes over: the news with a new pipe, and what lies in the socket is read. */
void fake_come_back(struct fake_daemon *fake);

/* A sealed memfd of zeros. */
int fake_memfd(size_t bytes);

#endif
