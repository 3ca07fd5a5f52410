/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The demo: each processing element (PE) is a process, and puts, gets, counts and signals through queues from shmemd. PEs
 * bootstrap over a page of shared memory that the parent makes before it forks.
 */
#ifndef SHMEMD_DEMO_H
#define SHMEMD_DEMO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <shmd.h>
#include <shmemclient.h>

#include "demo-pattern.h"

#define DEMO_MAX_PES 64
#define DEMO_WAIT_NSEC 4000000000ull /* nothing in the demo takes longer unless something is broken, or the daemon killed */

/* The runtime has the last two. */
enum demo_phase { DEMO_PUT, DEMO_GET, DEMO_ATOMIC, DEMO_SIGNAL, DEMO_RUNTIME_MAPPED, DEMO_RUNTIME_QUEUE, DEMO_N_PHASES };
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

/* One PE's data for the others. */
struct demo_pe_info {
	struct shmd_addr addrs[DEMO_MAX_PES]; /* QP i of this PE talks to PE i; with DC the first is its DCT's */
	uint64_t heap; /* address of its heap, as remote addresses */
	shmd_be32 rkey_be;
	char nic[128];
	uint64_t session;
	uint64_t n_operations; /* executed work requests that the daemon counted for this session */
	bool is_uncounted; /* by a NIC of hardware, which does not tell how many it executed */
	struct demo_phase_result phases[DEMO_N_PHASES];
	uint64_t posts[DEMO_MAX_PES]; /* to each PE since its hot ones were judged last */
	bool wants[DEMO_MAX_PES]; /* a pair of RC QPs with it */
	struct shmd_addr offers[DEMO_MAX_PES]; /* this PE's end of the pair */
	uint64_t n_rc_operations, n_to_rc, n_to_dc; /* of a PE with hot peers */
	char error[256]; /* first failure, or empty */
};

struct demo_shared {
	unsigned int n_pes;
	bool is_dc; /* one DCI and one DCT for each PE, else one RC QP for each pair */
	unsigned int n_hot; /* with is_dc: so many peers of each PE may have RC QPs of their own */
	bool has_runtime; /* the phases of the runtime run, too */
	struct shmd_uid uids[2]; /* of its worlds */
	uint32_t lacks; /* SHMD_ATOMIC_* that the NIC of some PE lacks; complete after the first barrier */
	uint64_t wait_nsec; /* of each wait on the CPU; DEMO_WAIT_NSEC */
	uint64_t request_nsec; /* of each request; 0: what the library waits by itself */
	uint32_t failed; /* 1: one PE gave up, so must all */
	uint32_t arrived, generation; /* barrier */
	uint8_t seen[DEMO_MAX_PES][DEMO_MAX_PES * DEMO_FETCH_ADDS]; /* fetched values: each only once */
	struct demo_pe_info pes[DEMO_MAX_PES];
};

/* The common part of a PE on a CPU and of one with a GPU. */
struct demo_pe {
	struct demo_shared *shared;
	struct demo_pe_info *info;
	unsigned int me, n;
	struct shmd_client *client;
	struct shmd_nic *nic;
	struct shmd_mem *mem;
	struct shmd_mr *mr;
	struct shmd_queues *queues;
	struct shmd_hot *hot; /* or NULL */
	uint8_t *heap;
	struct demo_phase_result *phase; /* the one that runs */
};

/* Zeroed, shared with forked children; NULL with errno. */
struct demo_shared *demo_shared_new(unsigned int n_pes);

/* One try with a plain sentence is better than n_pes of them. */
bool demo_daemon_answers(const char *program);

/* Wait until all PEs are here. False when a PE failed or the time is up. */
bool demo_barrier(struct demo_shared *shared);

/* A process for a PE, as from fork(); it dies with its parent. */
pid_t demo_fork(void);
/* False after any failure, which is then in shared. */
bool demo_wait_for_pe(struct demo_shared *shared, unsigned int pe, pid_t pid);

/* Keep the first failure, which is what people want to read, and end all PEs. Returns false. */
bool demo_fail(struct demo_pe *pe, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool demo_good_call(struct demo_pe *pe, const char *what, int result);
bool demo_pe_barrier(struct demo_pe *pe);
/* Which atomics this PE's NIC lacks, for all to leave out. */
void demo_note_atomics(struct demo_pe *pe, const struct shmd_nic_info *info);
/* Tell the others where the heap is: of pe->mr, by iova. */
void demo_publish_heap(struct demo_pe *pe, uint64_t iova);
bool demo_publish_queues(struct demo_pe *pe);
/* QP i to PE i, after a barrier. */
bool demo_connect_queues(struct demo_pe *pe);
/* Executed work requests, for the report. */
bool demo_read_counters(struct demo_pe *pe);

void demo_fill(uint8_t *at, uint32_t bytes, unsigned int pe, uint32_t salt);
bool demo_verify(struct demo_pe *pe, uint32_t offset, uint32_t bytes, unsigned int from, uint32_t salt);
uint64_t demo_median(uint64_t *values, unsigned int n);
/* A fetched value that another PE fetched too, or one out of range, is an error. */
bool demo_claim(struct demo_pe *pe, unsigned int peer, uint64_t old);
/* After the fetch-adds of all PEs, of 1 to the first and adds of 3 to the second, where NICs have those of 4 bytes. */
bool demo_check_counters(struct demo_pe *pe, uint32_t offset, uint32_t offset32);

/* Let the busiest peers of a PE's DCI have QPs of their own, if the command line asks for it. */
bool demo_hot_open(struct demo_pe *pe);
/* All PEs together, with nothing awaited: hot peers go to RC, cooled ones back to DC. */
bool demo_hot_step(struct demo_pe *pe);

/* The PEs as worlds of the runtime, with a session of their own. All PEs together. */
bool demo_runtime(struct demo_pe *pe);

/* One PE from start to end, in the process that calls it. False after any failure. */
bool demo_pe_main(struct demo_shared *shared, unsigned int me, const char *socket_path);

/* The table and the closing line, or JSON. Returns true when everything was right. */
bool demo_report(const struct demo_shared *shared, bool json);

#endif
