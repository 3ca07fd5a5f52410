/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The images that device code reads, filled from facts: the state, and a team with the lists behind it. Pure: no GPU, no world.
 *
 * A job of this library reaches all PEs by loads, stores and atomics, or has queues, by which kernels send to those that are not mapped, and all
 * atomics (ibgda-images.h), or, in kernels without code for them, a channel to a thread of the host. There is no multicast in its images.
 */
#ifndef SHMD_NVSHMEM_IMAGES_H
#define SHMD_NVSHMEM_IMAGES_H

#include "libclient/compat/nvshmem/versions.h"

/* Teams that every job has. */
enum nvs_team_index {
	NVS_TEAM_INVALID = -1,
	NVS_TEAM_WORLD = 0,
	NVS_TEAM_SHARED = 1,
	NVS_TEAM_NODE = 2,
	NVS_TEAM_SAME_MYPE_NODE = 3,
	NVS_TEAM_SAME_GPU = 4,
	NVS_TEAM_GPU_LEADERS = 5,
	NVS_TEAM_MC_SHARED = 6,
	NVS_TEAM_FIRST = 7, /* of the program's */
};

/* Addresses of the channel (proxy.c); those of struct nvs_state. */
struct nvs_channel {
	uint64_t ring, results, warp_results, result_count, n_results, log2_results;
	uint64_t issue, complete, complete_local, quiet_issue, quiet_ack, cst_issue, cst_ack;
};

struct nvs_facts {
	int32_t mype, npes, node_mype, node_npes;
	uint64_t heap_base, heap_bytes;
	uint64_t peers_p2p, peers_remote, unicast_le_ids, timeout, wait_index, zero; /* addresses of what struct nvs_state names */
	uint64_t team_pool, psync_pool, sync_counter;
	int32_t n_apart; /* PEs whose memory is not mapped here */
	bool by_queues; /* some PE has such */
	uint64_t exit_request, exit_code; /* int32_t, which the host reads; 0: a kernel cannot end the job */
	const struct nvs_channel *channel; /* instead of queues; NULL: there is none */
};

/* The whole state; a client gets the first nvs_version_state_bytes() of it, and `bytes` of them is its version word. */
void nvs_state_fill(const struct nvs_facts *facts, uint32_t bytes, struct nvs_state *ret_state);

/* A team as its members know it. */
struct nvs_members {
	int32_t index;
	int32_t my_pe, size; /* in the team */
	int32_t npes; /* of the world */
	const int32_t *pes; /* PEs of the world, in the order of the team */
	bool by_queues; /* as struct nvs_facts */
};

/* Bytes of a team and its lists in GPU memory. */
uint32_t nvs_team_bytes(const struct nvs_members *members);
/* As it lies at `address`. image has nvs_team_bytes(), aligned for 8 bytes. */
void nvs_team_fill(const struct nvs_members *members, enum nvs_class class, uint64_t address, void *image);

/* ---- the recursive exchange of a team, in groups of two; numbers are members of the team */

#define NVS_RECEXCH_PHASES 31
struct nvs_exchange {
	int32_t sendto; /* -1: takes part */
	int32_t n_recvs, recvfrom; /* 0 or 1 */
	int32_t n_phases;
	int32_t nbrs[NVS_RECEXCH_PHASES];
};
void nvs_exchange_of(int32_t member, int32_t size, struct nvs_exchange *ret_exchange);

#endif
