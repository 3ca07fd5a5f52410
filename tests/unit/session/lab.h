/* SPDX-License-Identifier: Apache-2.0 */
/* A registry with two fake NICs, and clients at the other end of socketpairs: sessions without a daemon. */
#ifndef SHMD_TESTS_SESSION_LAB_H
#define SHMD_TESTS_SESSION_LAB_H

#include "daemon/session/registry.h"
#include "daemon/session/session.h"
#include "tests/unit/session/fake-nic.h"
#include "proto/codec.h"

struct lab {
	struct registry registry;
	struct fake_nic nics[2];
	unsigned int n_attentions;
};

/* limits: each counter's limit is `limit`, except bytes: `limit` MiB. */
void lab_init(struct lab *lab, uint64_t limit);
void lab_deinit(struct lab *lab);
/* Nothing is charged, published or alive on any NIC. */
void lab_assert_empty(const struct lab *lab);

/* A client and its session. */
struct pair {
	struct session *session; /* owned */
	int sock; /* the client's end, owned */
	uint64_t last_id;
};

void pair_init(struct pair *pair, struct lab *lab); /* no Hello yet */
void pair_init_hello(struct pair *pair, struct lab *lab, enum msg_role role);
void pair_deinit(struct pair *pair);

/* Client to daemon, and let the session look. The descriptors stay the caller's. */
void pair_send(struct pair *pair, struct msg *msg, const int *fds, unsigned int n_fds);
void pair_send_bytes(struct pair *pair, const void *buf, size_t bytes, const int *fds,
		     unsigned int n_fds);
/* The next message from the daemon; its descriptors are closed unless fds is given. -EAGAIN: none. */
int pair_recv(struct pair *pair, struct msg *ret_msg, struct fdlist *fds);
/* One request and its reply. Fails the test when none comes. */
void pair_ask(struct pair *pair, struct msg *req, const int *fds, unsigned int n_fds, struct msg *rep);
/* The same, for a reply whose kind must be `kind`. */
void pair_expect(struct pair *pair, struct msg *req, const int *fds, unsigned int n_fds,
		 enum msg_kind kind, struct msg *rep);
/* The same, for an error with this status. */
void pair_expect_error(struct pair *pair, struct msg *req, const int *fds, unsigned int n_fds,
		       enum shmd_status status);
/* The request, then the session's end with this status. */
void pair_expect_end(struct pair *pair, enum shmd_status status);

void pair_open_nic(struct pair *pair, const char *name);
int pair_memfd(size_t bytes); /* sealed against shrinking */
uint32_t pair_reg(struct pair *pair, uint64_t bytes); /* handle */
/* One CQ and n QPs of 16 WQEBBs on it. Reply is the caller's to deinit. */
void pair_create_queues(struct pair *pair, uint32_t n_qps, struct msg *rep);
void fill_create(struct msg *msg, uint32_t n_qps);

#endif
