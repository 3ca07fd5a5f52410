/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The demo: processing elements (PEs) in processes of their own, which put, get, count and signal through queues
 * that shmemd handed them. Bootstrap is a page of shared memory that the parent made before it forked.
 */
#ifndef SHMEMD_DEMO_H
#define SHMEMD_DEMO_H

#include <stdbool.h>
#include <stdint.h>

#include <shmemclient.h>

#define DEMO_MAX_PES 64
#define DEMO_WAIT_NSEC 4000000000ull /* nothing in the demo takes longer unless something is broken */

enum demo_phase { DEMO_PUT, DEMO_GET, DEMO_ATOMIC, DEMO_SIGNAL, DEMO_N_PHASES };
extern const char *const demo_phase_names[DEMO_N_PHASES];

struct demo_phase_result {
	uint64_t operations; /* work requests posted */
	uint64_t bytes_verified;
	uint64_t errors;
	uint64_t nsec; /* spent in communication, verification excluded */
	uint64_t latency_nsec; /* median of the smallest operation */
	uint64_t bandwidth_bytes; /* of the largest operations ... */
	uint64_t bandwidth_nsec; /* ... and their time */
};

/* What one PE tells the others. */
struct demo_pe_info {
	struct shmd_addr addrs[DEMO_MAX_PES]; /* QP i of this PE talks to PE i */
	uint64_t heap; /* address of its heap, as remote addresses */
	shmd_be32 rkey_be;
	char nic[64];
	uint64_t session;
	uint64_t n_operations; /* executed work requests that the daemon counted for this session */
	bool is_counted; /* false: a NIC of hardware, which does not tell how many it executed */
	struct demo_phase_result phases[DEMO_N_PHASES];
	char error[256]; /* first failure, or empty */
};

#define DEMO_FETCH_ADDS 100 /* by every PE on every PE */

struct demo_shared {
	unsigned int n_pes;
	uint32_t failed; /* 1: somebody gave up, so must all */
	uint32_t arrived, generation; /* barrier */
	uint8_t seen[DEMO_MAX_PES][DEMO_MAX_PES * DEMO_FETCH_ADDS]; /* fetched values: each only once */
	struct demo_pe_info pes[DEMO_MAX_PES];
};

/* Zeroed, shared with forked children; NULL with errno. */
struct demo_shared *demo_shared_new(unsigned int n_pes);

/* One try with a plain sentence is better than n_pes of them. */
bool demo_daemon_answers(const char *program);

/* Wait until all PEs are here. False when somebody failed or the time is up. */
bool demo_barrier(struct demo_shared *shared);

/* One PE from start to end, in the process that calls it. Returns the number of errors. */
uint64_t demo_pe_main(struct demo_shared *shared, unsigned int me, const char *socket_path);

/* The table and the closing line, or JSON. Returns true when everything was right. */
bool demo_report(const struct demo_shared *shared, bool json);

#endif
