/* SPDX-License-Identifier: Apache-2.0 */
/* A registry with two fake NICs, and clients at the other end of socketpairs: sessions without a daemon. */
#ifndef SHMD_TESTS_SESSION_LAB_H
#define SHMD_TESTS_SESSION_LAB_H

#include "daemon/session/registry.h"
#include "daemon/session/session.h"
#include "tests/lib/raw-client.h"
#include "tests/unit/session/fake-nic.h"

struct lab {
	struct registry registry;
	struct fake_nic nics[2];
	unsigned int n_attentions;
	unsigned int n_alarms; /* of a drain */
	uint64_t alarm_nsec; /* the last one */
};

/* limits: each counter's limit is `limit`, except bytes: `limit` MiB. */
void lab_init(struct lab *lab, uint64_t limit);
void lab_deinit(struct lab *lab);
/* Nothing is charged, published or alive on any NIC. */
void lab_assert_empty(struct lab *lab);

/* A client and its session. */
struct pair {
	struct raw_client raw;
	struct session *session; /* owned */
};

void pair_init(struct pair *pair, struct lab *lab); /* no Hello yet */
void pair_init_hello(struct pair *pair, struct lab *lab, enum msg_role role);
void pair_deinit(struct pair *pair);
/* The session's user is somebody else from now on, neither root nor the daemon's user. */
void pair_make_ordinary(struct pair *pair, uint32_t uid);
/* raw_expect_end, and the session knows it. */
void pair_expect_end(struct pair *pair, enum shmd_status status);

#endif
