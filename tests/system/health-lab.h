/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits that do not end by themselves, for test-health-table: three sessions of this process, each with a QP for every
 * function, connected to the QPs of a peer process. A request in flight is a SEND: the peer has posted no receive,
 * so the NIC tries again for ever, until the peer posts one, dies, or something else happens.
 */
#ifndef SHMEMD_TESTS_HEALTH_LAB_H
#define SHMEMD_TESTS_HEALTH_LAB_H

#include <pthread.h>
#include <stdbool.h>

#include "tests/lib/fixture-keeper.h"
#include "tests/system/client-lab.h"

#define HEALTH_N_SIDES 3 /* by scope; each has QPs and CQs of another kind */
#define HEALTH_MAX_QPS 32u
#define HEALTH_SQ_WQEBBS 16u
#define HEALTH_TEXT_BYTES 256

/* How a QP stands when the function is called that is to wait. */
enum health_start {
	HEALTH_IN_FLIGHT, /* a request of its own has not completed */
	HEALTH_IDLE, /* nothing is posted */
	HEALTH_FULL, /* no room in the ring */
	HEALTH_TURN, /* another caller has reserved and is not ready */
	HEALTH_LOCK, /* another caller rings, for ever */
	HEALTH_SLOT, /* another caller has not read its result, which lies in this one's slot */
	HEALTH_N_STARTS,
};

/* One call of a device function, in a thread of its own. */
struct health_call {
	const struct health_wait *wait;
	struct lab_side *side;
	struct shmd_dev_qp *qp;
	struct shmd_dev_addr remote, local;
	uint64_t *word; /* a word that stays unwritten */
	struct shmd_dev_mode mode; /* scope, sharing and time limit */
	pthread_t thread;
	int status;
	uint64_t nsec; /* how long it took */
};

struct health_wait {
	const char *name;
	enum health_start start;
	int (*run)(struct health_call *call);
	bool plain_only; /* there is no form with a scope */
	bool shared_only; /* an exclusive QP has no such wait */
};
extern const struct health_wait health_waits[];
extern const unsigned int n_health_waits;
const char *health_scope_name(const struct health_call *call);

struct health_lab {
	struct fixture_keeper keeper; /* pid 0: no keeper has the descriptors of a dead daemon */
	struct fixture_daemon daemon;
	struct shmd_client *control; /* of an administrator */
	struct lab_side sides[HEALTH_N_SIDES];
	unsigned int n_qps; /* of each side: as many as there are waits */
	pid_t peer; /* 0: gone */
	int to_peer, from_peer;
	struct health_call calls[HEALTH_N_SIDES * HEALTH_MAX_QPS];
	unsigned int n_calls;
};

/*
 * Starts daemon and peer, opens the sides and connects their QPs. `params` are for this side's QPs. `grace` is the option of a daemon
 * whose sessions outlive it, or NULL.
 */
void health_lab_open(struct health_lab *lab, const struct shmd_qp_params *params, const char *grace);
/* Closes the rest, and stops the daemon if it still runs. */
void health_lab_close(struct health_lab *lab);

/* Brings the QPs to where they must wait, then calls every function in its thread. limit: nsec by start. */
void health_lab_begin(struct health_lab *lab, const uint64_t limit[HEALTH_N_STARTS]);
/* Until all have returned. */
void health_lab_join(struct health_lab *lab);
/* Gives the waits for other callers what they wait for. */
void health_lab_release(struct health_lab *lab);

/* The peer writes to each QP with a key that does not exist. */
void health_peer_write_badly(struct health_lab *lab);
/* The peer posts a receive on each of its QPs: of no bytes, which fails what is sent, or large enough. */
void health_peer_receive(struct health_lab *lab, bool fits);
void health_peer_kill(struct health_lab *lab);
/* Every session of this process. */
void health_sessions_kill(struct health_lab *lab);
void health_port_set(struct health_lab *lab, bool up);

/* ---- host functions ------------------------------------------------------------------------------------------------- */

#define HEALTH_MAX_HOST_WAITS 48u

/* The event that a host function waits for. */
enum health_host_kind {
	HEALTH_EVENT, /* the next event */
	HEALTH_MONITOR, /* the same, without a time limit */
	HEALTH_REQUEST, /* the daemon's reply */
	HEALTH_FETCH, /* something that another process publishes */
	HEALTH_OPEN, /* a new session */
	HEALTH_N_HOST_KINDS,
};

struct health_host_call {
	const struct health_host_wait *wait;
	const char *expected; /* a part of the sentence that must come; NULL: not called */
	bool expects_event; /* HEALTH_MONITOR: of an event */
	const struct fixture_daemon *daemon;
	struct lab_side side; /* a session of its own; HEALTH_EVENT: that of device functions */
	struct shmd_dct *dct; /* HEALTH_REQUEST */
	struct shmd_queues *dci; /* rows of shmd_hot_* */
	struct shmd_hot *hot;
	uint64_t limit; /* of the wait, or of making the request again and again */
	uint64_t request_limit; /* of each request */
	pthread_t thread;
	int status;
	uint64_t nsec;
	char sentence[HEALTH_TEXT_BYTES];
};

struct health_host_wait {
	const char *name;
	enum health_host_kind kind;
	int (*run)(struct health_host_call *call);
};
/* Once its side is open and has a DCT. */
void health_host_open_hot(struct health_host_call *call);
extern const struct health_host_wait health_host_waits[];
extern const unsigned int n_health_host_waits;

/* Makes the call: a request is made again and again, until it fails or the time is up. For pthread_create. */
void *health_host_main(void *call);

/* The status of a device call in words: the syndrome, the health word, or the status itself. */
const char *health_sentence(const struct health_call *call);

#endif
