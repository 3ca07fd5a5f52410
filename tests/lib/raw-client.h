/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_LIB_RAW_CLIENT_H
#define SHMD_TESTS_LIB_RAW_CLIENT_H

/*
 * A client made of framing and codec alone, for tests that say what the library would never say. Functions fail the
 * running test when the daemon answers otherwise than expected.
 */

#include <stddef.h>
#include <stdint.h>

#include "proto/base/fdlist.h"
#include "proto/codec.h"
#include "proto/status.h"

struct raw_client {
	int sock; /* owned; -1: closed */
	uint64_t last_id;
	/* Called after each packet sent: lets a session without a daemon look at its socket. NULL: nothing. */
	void (*pump)(void *arg);
	void *pump_arg;
};

void raw_connect(struct raw_client *raw, const char *path); /* no Hello */
void raw_hello(struct raw_client *raw, enum msg_role role);
void raw_hello_resumes(struct raw_client *raw); /* a client that waits for another daemon: its session is kept */
void raw_close(struct raw_client *raw);

/* The descriptors stay the caller's. raw_send numbers the message. */
void raw_send(struct raw_client *raw, struct msg *msg, const int *fds, unsigned int n_fds);
void raw_send_bytes(struct raw_client *raw, const void *buf, size_t bytes, const int *fds,
		    unsigned int n_fds);
/* The next message; its descriptors are closed unless fds is given. As framing_recv; blocks as the socket does. */
int raw_recv(struct raw_client *raw, struct msg *ret_msg, struct fdlist *fds);

/* One request and its reply, whatever it is; events that come between are dropped. */
void raw_ask(struct raw_client *raw, struct msg *req, const int *fds, unsigned int n_fds, struct msg *rep);
/* The same, when the daemon may hang up first: 0, or what sending or receiving said. */
int raw_try(struct raw_client *raw, struct msg *req, struct msg *rep);
/* The same, for a reply whose kind must be `kind`. */
void raw_expect(struct raw_client *raw, struct msg *req, const int *fds, unsigned int n_fds,
		enum msg_kind kind, struct msg *rep);
/* The same, for an error with this status and a text. */
void raw_expect_error(struct raw_client *raw, struct msg *req, const int *fds, unsigned int n_fds,
		      enum shmd_status status);
/* Expects the session's end with this status next, after at most one error reply with the same. */
void raw_expect_end(struct raw_client *raw, enum shmd_status status);

/* ---- common requests ------------------------------------------------------------------------------------------ */

int raw_memfd(size_t bytes); /* sealed against shrinking and growing */
void raw_open_nic(struct raw_client *raw, const char *name); /* "": assigned */
uint32_t raw_reg(struct raw_client *raw, uint64_t bytes); /* a memfd on NIC 0, for everything; returns the handle */
/* One CQ of 64 entries and n QPs of 16 WQEBBs on it, on NIC 0. */
void raw_fill_create(struct msg *msg, uint32_t n_qps);
void raw_create_queues(struct raw_client *raw, uint32_t n_qps, struct msg *rep); /* rep: caller's to deinit */
void raw_status(struct raw_client *raw, struct msg_status_rep *ret_status);

#endif
