/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client and the state that every call asks: process, lock, events, restarts, the first fatal error.
 *
 * Ownership: a client owns its socket, its health page and, by lists, every NIC, memory object, MR and queue batch made from it;
 * shmd_client_close() frees the rest. A count of MRs, batches and DCTs keeps their NIC.
 * Locks: client->lock guards the socket, the event queue, the dead state and the lists. It is never held while a callback runs,
 * and never taken in a forked child.
 */
#ifndef SHMD_STATE_H
#define SHMD_STATE_H

#include <pthread.h>
#include <sys/types.h>

#include <shmemclient-admin.h>

#include "libclient/text.h"
#include "proto/base/fdlist.h"
#include "proto/base/list.h"

#define CLIENT_DEFAULT_TIMEOUT_NSEC (10 * NSEC_PER_SEC)
#define CLIENT_EVENTS_MAX 64u

/* NICs translate, and the protocol counts, pages of this size. The kernel's page may be larger: proto/base/page.h. */
#define PAGE_BYTES 4096u

/* A ring of the events that the caller has not taken yet. */
struct event_entry {
	struct shmd_admin_event event;
	uint32_t nic; /* NIC index of the session */
};
struct event_queue {
	struct event_entry entries[CLIENT_EVENTS_MAX];
	unsigned int first, n;
	bool is_monitor; /* excess events stay in the socket, or are counted */
	uint32_t n_lost;
	int signal_fd; /* eventfd: readable while n is not 0 or the client is dead */
};

/* How a client outlives the daemon. */
struct restart {
	int watch_fd; /* the socket that hangs up when the daemon dies; its number stays. -1: the connection ends then */
	int wake_fd; /* eventfd: the watcher looks again; -1 without watch_fd */
	uint64_t grace_nsec; /* atomic */
	uint32_t state; /* atomic: number of restarts, and whether the watcher gave up */
	bool is_away; /* atomic, for error texts: no daemon runs now */
	bool in_hello; /* lock held: the daemon may have the session already, and has not answered */
};

struct shmd_client {
	pid_t pid; /* the process that opened it */
	int sock;
	int epoll_fd; /* sock and events.signal_fd, for shmd_client_fd() */
	enum shmd_role role;
	uint64_t timeout_nsec;
	bool trace; /* SHMEMD_DEBUG=proto */
	pthread_mutex_t lock;

	uint64_t next_id;
	uint8_t *buf; /* one packet */
	int dead; /* 0, or the negative errno of every call from now on */
	char dead_text[CLIENT_TEXT_BYTES];
	struct event_queue events;
	struct restart restart;

	uint64_t session;
	struct msg_limits limits;
	char daemon[MSG_NAME_BYTES];
	struct shmd_health_page *health; /* NULL for SHMD_ROLE_CONTROL */
	pthread_t watcher;
	bool has_watcher;
	bool closing; /* atomic: the hang-up that the watcher sees is the client's own */

	struct list nics; /* shmd_nic.link */
	struct list mems; /* shmd_mem.link */
	struct list mrs; /* shmd_mr.link */
	struct list queues; /* shmd_queues.link */
	struct list dcts; /* shmd_dct.link */
	struct list gpus; /* shmd_gpu.link: the open ones */
	struct list gpu_pins; /* gpu_pin.link */
	struct list gpu_mems; /* shmd_gpu_mem.link */
	struct agent *agent; /* owned; NULL until a NIC needs it */
};

/* ---- state.c */

/* -EINVAL for NULL, -ECHILD in a forked child. Every public function with a client calls it first. */
int client_check(const struct shmd_client *client);
/* The same, and -EINVAL for an output that is NULL, with its name. */
int client_check_out(const struct shmd_client *client, const void *out, const char *name);
/* Lock held. The first reason stays. Returns the error. */
int client_die(struct shmd_client *client, int err, const char *text);
/* Sets every health word that has no final value yet. Any thread. */
void client_set_health(struct shmd_health_page *page, uint32_t health);
/* The time limit of a request of this thread: shmd_request_limit_set(), or the client's own. */
uint64_t client_timeout_nsec(const struct shmd_client *client);
/* -EAGAIN if another thread's request holds the lock until the deadline (CLOCK_MONOTONIC). */
int client_lock_until(struct shmd_client *client, uint64_t deadline_nsec);

static inline void client_lock(struct shmd_client *client)
{
	pthread_mutex_lock(&client->lock);
}

static inline void client_unlock(struct shmd_client *client)
{
	pthread_mutex_unlock(&client->lock);
}

/* ---- event-queue.c. Lock held. */

void event_queue_push(struct event_queue *queue, const struct msg_event *event);
/* SHMD_EVENT_DAEMON_RESUMED. */
void event_queue_push_resumed(struct event_queue *queue, uint32_t n_restarts, const char *text);
/* False when it is empty. keep_signal: signal_fd stays readable. */
bool event_queue_pop(struct event_queue *queue, bool keep_signal, struct event_entry *ret_entry);
/* A monitor's queue is full: the rest waits in the socket. */
bool event_queue_is_full(const struct event_queue *queue);
/* Makes signal_fd readable for ever. */
void event_queue_signal(struct event_queue *queue);

/* ---- restart.c */

void restart_init(struct restart *restart);
void restart_deinit(struct restart *restart); /* may be called twice */
/* Until Hello is answered, a restart only means that the client repeats Hello. */
void restart_expect(struct restart *restart);
/* Hello was answered: restarts count from here on. */
void restart_none(struct restart *restart);
/* Takes watch_fd, of the answer to Hello, in every case. Sets the error text. */
int restart_begin(struct restart *restart, int watch_fd, uint64_t grace_nsec);
/* The next daemon has taken over. Takes its socket out of fds. Lock held. 0, also when it comes too late; or the dead error. */
int restart_resume(struct shmd_client *client, const struct msg_resumed_event *news, struct fdlist *fds);

/* The rest may be called by any thread. */

/* How often restart_resume() was called in time. */
unsigned int restart_count(const struct restart *restart);
/* The count and whether the watcher gave up, in one number that no two states share. */
uint32_t restart_state(const struct restart *restart);
/* From state `seen` on, a next daemon comes too late. False: one came in time. */
bool restart_give_up(struct restart *restart, uint32_t seen);
bool restart_gave_up(const struct restart *restart);
uint64_t restart_grace(const struct restart *restart);
bool restart_is_away(const struct restart *restart);
void restart_set_away(struct restart *restart, bool is_away);

#endif
