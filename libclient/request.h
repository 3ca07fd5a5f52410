/* SPDX-License-Identifier: Apache-2.0 */
/* Talking with the daemon: requests, events, and the thread that watches the connection. */
#ifndef SHMD_REQUEST_H
#define SHMD_REQUEST_H

#include "libclient/state.h"

/* ---- request.c */

/* One request and its reply. Zero, then request_init; request_deinit frees both messages and the descriptors. */
struct request {
	struct msg req;
	int fd; /* borrowed: the one descriptor that goes along, or -1 */
	enum msg_kind expect;
	unsigned int n_restarts; /* of the daemon, when it was sent last */
	struct msg rep;
	struct fdlist rep_fds;
};

void request_init(struct request *call, enum msg_kind kind, enum msg_kind expect);
void request_deinit(struct request *call);
#define _cleanup_request_ _cleanup_(request_deinit)

/* Copies a NIC's name into a request: -EINVAL, with text, for NULL and for a string that names no NIC. */
int request_set_nic(char name[MSG_NAME_BYTES], const char *nic);
/* Sends call->req and waits for its reply of kind call->expect. Takes the lock. Sets the error text. */
int request_call(struct shmd_client *client, struct request *call);
/* request_call() with the lock held. */
int request_call_locked(struct shmd_client *client, struct request *call);
/* MSG_MEM_DEREG_REQ or MSG_QUEUE_DESTROY_REQ of the object with this handle. */
int request_destroy(struct shmd_client *client, enum msg_kind kind, uint32_t handle);
/* Reads what has arrived without waiting, events to the queue. Lock held. 0, or the dead error. */
int request_drain(struct shmd_client *client);
/* A descriptor of the reply: index as it came (from 0); -EPROTO, with text, if it is missing. */
int request_take_fd(struct request *call, uint32_t index);

/* ---- events.c */

/* As shmd_event_next(), with the fields that only a monitor gets. */
int event_next(struct shmd_client *client, uint64_t timeout_nsec, struct event_entry *ret_entry);

/* ---- watcher.c */

int watcher_start(struct shmd_client *client);
void watcher_stop(struct shmd_client *client); /* after shutdown of the socket */

#endif
