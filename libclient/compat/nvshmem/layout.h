/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structures that NVSHMEM's device library reads in GPU memory, and that a program passes to its host library: our own declarations, by offset.
 *
 * From 3.3 to 3.8 no field has moved, so one image holds all fields that any version knows, and a client gets as many bytes of it as its
 * version has (versions.h). Addresses are GPU addresses unless a comment says otherwise. Every structure begins with a number and its size;
 * device code does not look at it. This header has no functions; test-nvshmem-layout compares each offset with the interface's table.
 */
#ifndef SHMD_NVSHMEM_LAYOUT_H
#define SHMD_NVSHMEM_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NVS_WORD(number, bytes) (((number) << 16) + (int32_t)(bytes))
#define NVS_PIN(type, field, offset) _Static_assert(offsetof(struct type, field) == (offset), #type "." #field)
#define NVS_PIN_SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)

#define NVS_POOL_TEAMS 128u /* entries of a pool of teams; device code does not check an index */

/* ---- device state */

struct nvs_coll_params {
	int32_t version;
	int32_t barrier_dissem_kval, barrier_tg_dissem_kval;
	int32_t reduce_recexch_kval; /* the neighbour lists of teams are made for it */
	int32_t bcast_tree_kval, bcast_algo, reduce_algo;
	uint64_t fcollect_ll_threshold; /* versions.h */
	uint64_t fcollect_nvls_threshold;
	uint64_t reduce_scratch_size; /* versions.h */
	int32_t fcollect_algo;
	uint64_t reducescatter_nvls_threshold;
	int32_t reducescatter_algo, reduce_maxloc_algo;
	uint64_t fcollect_ll128_threshold, reduce_nvls_threshold;
	bool fcollect_ll_supported; /* 3.8 */
	uint8_t padding[415];
};
NVS_PIN_SIZE(nvs_coll_params, 512);
NVS_PIN(nvs_coll_params, fcollect_ll_threshold, 32);
NVS_PIN(nvs_coll_params, fcollect_algo, 56);
NVS_PIN(nvs_coll_params, fcollect_ll_supported, 96);

struct nvs_state {
	int32_t version;
	int32_t mype, npes, node_mype, node_npes;
	int32_t pe_dist; /* 0 round robin, 1 block, 2 other */
	int32_t proxy; /* 0 none, 1 minimal, 2 full */
	int32_t atomics_sync;
	int32_t job_connectivity; /* 1: all PEs by loads, stores and atomics */
	bool proxy_ops_are_ordered, atomics_complete_on_quiet;
	uint64_t heap_base, heap_size; /* of this PE; the size of the reserved range */
	uint64_t peer_heap_base_p2p, peer_heap_base_remote; /* uint64_t[npes] each */
	uint8_t symmetric_heap_kind; /* 0 memory of a GPU, 1 of the host */
	bool enable_rail_opt;
	uint32_t atomics_le_min_size;
	uint64_t timeout; /* struct nvs_timeout */
	uint64_t test_wait_any_start_idx_ptr; /* uint64_t */
	uint64_t team_pool; /* uint64_t[NVS_POOL_TEAMS], addresses of struct nvs_team */
	uint64_t psync_pool, sync_counter; /* symmetric: scratch of teams; two int64_t for each team */
	struct nvs_coll_params coll;
	uint64_t proxy_channels_buf, proxy_channel_g_buf, proxy_channel_g_coalescing_buf, proxy_channel_g_buf_head_ptr;
	uint64_t proxy_channel_g_buf_size, proxy_channel_g_buf_log_size;
	uint64_t proxy_channels_issue, proxy_channels_complete, proxy_channels_complete_local_ptr;
	uint64_t proxy_channels_quiet_issue, proxy_channels_quiet_ack, proxy_channels_cst_issue, proxy_channels_cst_ack;
	uint64_t proxy_channel_buf_size;
	uint32_t proxy_channel_buf_logsize;
	uint64_t global_exit_request_state, global_exit_code;
	bool ibgda_is_initialized, is_initialized, is_bootstrapped;
	int32_t selected_device_transport; /* 3.6 */
	int32_t tma_policy; /* 3.7 from here on */
	uint64_t tma_smem_bases, tma_smem_bases_len, tma_smem_size;
	uint64_t unicast_le_ids; /* uint64_t[npes] */
	bool counted_operations_available; /* 3.8 from here on */
	uint64_t region_slots;
	uint64_t region_active_count; /* uint32_t, which every quiet reads */
	uint32_t region_slots_len, region_slot_probe_limit;
};
NVS_PIN_SIZE(nvs_state, 848);
NVS_PIN(nvs_state, proxy_ops_are_ordered, 36);
NVS_PIN(nvs_state, heap_base, 40);
NVS_PIN(nvs_state, symmetric_heap_kind, 72);
NVS_PIN(nvs_state, atomics_le_min_size, 76);
NVS_PIN(nvs_state, coll, 120);
NVS_PIN(nvs_state, proxy_channels_buf, 632);
NVS_PIN(nvs_state, proxy_channel_buf_logsize, 744);
NVS_PIN(nvs_state, ibgda_is_initialized, 768);
NVS_PIN(nvs_state, selected_device_transport, 772);
NVS_PIN(nvs_state, tma_policy, 776);
NVS_PIN(nvs_state, counted_operations_available, 816);
NVS_PIN(nvs_state, region_active_count, 832);

struct nvs_timeout {
	int32_t version;
	uint64_t signal, caller, signal_addr, signal_val_found, signal_val_expected;
	uint8_t padding[16];
};
NVS_PIN_SIZE(nvs_timeout, 64);
NVS_PIN(nvs_timeout, signal_val_expected, 40);

/* ---- teams; kernels count in them */

/* Recursive exchange. Numbers are PEs of the world. */
struct nvs_recexch {
	int32_t version;
	int32_t step1_sendto; /* -1: takes part */
	uint64_t step1_recvfrom; /* int32_t[step1_nrecvs] */
	uint64_t step2_nbrs; /* uint64_t[step2_nphases], addresses of int32_t[kval - 1] */
	int32_t step1_nrecvs, step2_nphases;
	uint8_t padding[32];
};
NVS_PIN_SIZE(nvs_recexch, 64);

struct nvs_team_config {
	int32_t version, num_contexts;
	uint64_t uniqueid;
	uint8_t padding[48];
};
NVS_PIN_SIZE(nvs_team_config, 64);
NVS_PIN(nvs_team_config, uniqueid, 8);
#define NVS_CONFIG_CONTEXTS 0x1 /* of a mask: num_contexts counts */

struct nvs_team {
	int32_t version;
	int32_t my_pe, start, stride, size, team_idx; /* start is a PE of the world */
	struct nvs_team_config config;
	int64_t config_mask;
	uint64_t nccl_comm;
	struct nvs_recexch recexch;
	uint64_t rdxn_count;
	uint32_t ll_flag;
	uint64_t alltoall_pwrk[2];
	uint64_t alltoall_count, bcast_count, bcast_sync_offset, fcollect_count;
	uint32_t fcollect_ll_flag;
	bool are_gpus_p2p_connected;
	bool is_team_node;
	int32_t team_node; /* index of the team of its members on this node */
	bool is_team_same_mype_node;
	int32_t team_same_mype_node;
	uint64_t nvls_rsc, nvls_rsc_base_ptr; /* 0: no multicast */
	int32_t team_dups[128];
	uint64_t pe_mapping; /* int32_t[size] PEs of the world, then int32_t[npes] members or -1 */
	uint64_t p2p_sync_on_stream_count; /* 3.5 */
	bool are_gpus_nvls_connected; /* 3.7 */
	uint64_t mc_leid_with_flag; /* 3.8 */
};
NVS_PIN_SIZE(nvs_team, 816);
NVS_PIN(nvs_team, config, 24);
NVS_PIN(nvs_team, recexch, 104);
NVS_PIN(nvs_team, ll_flag, 176);
NVS_PIN(nvs_team, are_gpus_p2p_connected, 236);
NVS_PIN(nvs_team, team_dups, 272);
NVS_PIN(nvs_team, pe_mapping, 784);
NVS_PIN(nvs_team, mc_leid_with_flag, 808);

/* ---- what a program passes; addresses are the program's */

#define NVS_UID_BYTES 128
struct nvs_uid {
	int32_t version;
	uint8_t data[NVS_UID_BYTES - 4];
};
NVS_PIN_SIZE(nvs_uid, NVS_UID_BYTES);

struct nvs_uid_args {
	int32_t version;
	struct nvs_uid *id;
	int32_t myrank, nranks;
};
NVS_PIN_SIZE(nvs_uid_args, 24);

struct nvs_init_args {
	int32_t version;
	struct nvs_uid_args uid_args;
	int32_t cuda_device_id; /* second version; not read */
	uint8_t padding[92];
};
NVS_PIN_SIZE(nvs_init_args, 128);
NVS_PIN(nvs_init_args, uid_args, 8);
NVS_PIN(nvs_init_args, cuda_device_id, 32);

struct nvs_init_attr {
	int32_t version;
	void *mpi_comm;
	struct nvs_init_args args;
};
NVS_PIN_SIZE(nvs_init_attr, 144);
NVS_PIN(nvs_init_attr, args, 16);

/* Passed by value, in registers. */
struct nvs_version {
	int32_t major, minor, patch;
};
NVS_PIN_SIZE(nvs_version, 12);

#endif
