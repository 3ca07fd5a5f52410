/* SPDX-License-Identifier: Apache-2.0 */
/* A registry with two fake NICs, and clients at the other end of socketpairs: sessions without a daemon. */
#ifndef SHMD_TESTS_SESSION_LAB_H
#define SHMD_TESTS_SESSION_LAB_H

#include <poll.h>

#include "daemon/porter/porter.h"
#include "daemon/session/registry.h"
#include "daemon/session/session.h"
#include "tests/lib/raw-client.h"
#include "tests/unit/session/fake-nic.h"

#define LAB_CHANNELS 4

struct lab {
	struct registry registry;
	struct fake_nic nics[2];
	unsigned int n_attentions;
	unsigned int n_alarms; /* of a drain */
	uint64_t alarm_nsec; /* the last one */
	struct porters *porters; /* owned; NULL: sessions read descriptors themselves */
	struct pollfd channels[LAB_CHANNELS]; /* to porters; -1: free */
	struct porter *of_channels[LAB_CHANNELS];
	struct list todo, ready; /* struct work.link: works of lab_init_blocking, and those that were run */
	bool memory_waits; /* works at memory of clients are of these as well; else they run at once */
	struct work *offered; /* as a worker finds it; NULL: there is none */
	bool keeps_offers; /* looks at NICs are not of `todo`; `offered` is the last one */
};

/* limits: each counter's limit is `limit`, except bytes: `limit` MiB, descriptors: a few more, and mappings: none. */
void lab_init(struct lab *lab, uint64_t limit);
/* The same with NICs that block: works wait for the next three. */
void lab_init_blocking(struct lab *lab, uint64_t limit);
/* The same as lab_init, with processes that receive and close what the clients send. */
void lab_init_porters(struct lab *lab, uint64_t limit);
void lab_hear_porters(struct lab *lab); /* what they have to say, and if that is nothing, a moment later */
bool lab_run(struct lab *lab); /* what a worker does with the oldest one; false: there is none */
bool lab_done(struct lab *lab); /* what the control thread does with the oldest one that was run */
unsigned int lab_work(struct lab *lab); /* all, also what comes up meanwhile; how many */
void lab_deinit(struct lab *lab);
struct shmd_health_page lab_page(const struct session *session); /* as its client sees it now */
/* Nothing is charged, published or alive on any NIC. */
void lab_assert_empty(struct lab *lab);

/* A client and its session. */
struct pair {
	struct raw_client raw;
	struct session *session; /* owned */
	struct lab *lab;
	bool waits; /* works are left to the test; otherwise a request is carried out when it is sent */
};

void pair_init(struct pair *pair, struct lab *lab); /* no Hello yet */
void pair_init_on(struct pair *pair, struct lab *lab, const int socks[2]); /* the same on a pair of one's own, taken: the daemon's end first */
void pair_init_hello(struct pair *pair, struct lab *lab, enum msg_role role);
void pair_deinit(struct pair *pair);
/* The session belongs to another user from now on, neither root nor the daemon's user. */
void pair_make_ordinary(struct pair *pair, uint32_t uid);
/* raw_expect_end, and the session knows it. */
void pair_expect_end(struct pair *pair, enum shmd_status status);

#endif
