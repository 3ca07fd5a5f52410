/* SPDX-License-Identifier: Apache-2.0 */
/* Every offset and size that the table of the interface gives, for each version of device libraries. */
#include "libclient/compat/nvshmem/layout.h"
#include "tests/lib/test.h"

struct row {
	const char *name;
	size_t is, should;
	size_t is_bytes, bytes;
};
#define ROW(type, field, offset, bytes) {#type "." #field, offsetof(struct type, field), (offset), sizeof(((struct type *)0)->field), (bytes)}

static const struct row state_rows[] = {
	ROW(nvs_state, version, 0, 4), ROW(nvs_state, mype, 4, 4), ROW(nvs_state, npes, 8, 4), ROW(nvs_state, node_mype, 12, 4),
	ROW(nvs_state, node_npes, 16, 4), ROW(nvs_state, pe_dist, 20, 4), ROW(nvs_state, proxy, 24, 4), ROW(nvs_state, atomics_sync, 28, 4),
	ROW(nvs_state, job_connectivity, 32, 4), ROW(nvs_state, proxy_ops_are_ordered, 36, 1), ROW(nvs_state, atomics_complete_on_quiet, 37, 1),
	ROW(nvs_state, heap_base, 40, 8), ROW(nvs_state, heap_size, 48, 8), ROW(nvs_state, peer_heap_base_p2p, 56, 8),
	ROW(nvs_state, peer_heap_base_remote, 64, 8), ROW(nvs_state, symmetric_heap_kind, 72, 1), ROW(nvs_state, enable_rail_opt, 73, 1),
	ROW(nvs_state, atomics_le_min_size, 76, 4), ROW(nvs_state, timeout, 80, 8), ROW(nvs_state, test_wait_any_start_idx_ptr, 88, 8),
	ROW(nvs_state, team_pool, 96, 8), ROW(nvs_state, psync_pool, 104, 8), ROW(nvs_state, sync_counter, 112, 8), ROW(nvs_state, coll, 120, 512),
	ROW(nvs_state, proxy_channels_buf, 632, 8), ROW(nvs_state, proxy_channel_g_buf, 640, 8),
	ROW(nvs_state, proxy_channel_g_coalescing_buf, 648, 8), ROW(nvs_state, proxy_channel_g_buf_head_ptr, 656, 8),
	ROW(nvs_state, proxy_channel_g_buf_size, 664, 8), ROW(nvs_state, proxy_channel_g_buf_log_size, 672, 8),
	ROW(nvs_state, proxy_channels_issue, 680, 8), ROW(nvs_state, proxy_channels_complete, 688, 8),
	ROW(nvs_state, proxy_channels_complete_local_ptr, 696, 8), ROW(nvs_state, proxy_channels_quiet_issue, 704, 8),
	ROW(nvs_state, proxy_channels_quiet_ack, 712, 8), ROW(nvs_state, proxy_channels_cst_issue, 720, 8),
	ROW(nvs_state, proxy_channels_cst_ack, 728, 8), ROW(nvs_state, proxy_channel_buf_size, 736, 8),
	ROW(nvs_state, proxy_channel_buf_logsize, 744, 4), ROW(nvs_state, global_exit_request_state, 752, 8),
	ROW(nvs_state, global_exit_code, 760, 8), ROW(nvs_state, ibgda_is_initialized, 768, 1), ROW(nvs_state, is_initialized, 769, 1),
	ROW(nvs_state, is_bootstrapped, 770, 1), ROW(nvs_state, selected_device_transport, 772, 4), ROW(nvs_state, tma_policy, 776, 4),
	ROW(nvs_state, tma_smem_bases, 784, 8), ROW(nvs_state, tma_smem_bases_len, 792, 8), ROW(nvs_state, tma_smem_size, 800, 8),
	ROW(nvs_state, unicast_le_ids, 808, 8), ROW(nvs_state, counted_operations_available, 816, 1), ROW(nvs_state, region_slots, 824, 8),
	ROW(nvs_state, region_active_count, 832, 8), ROW(nvs_state, region_slots_len, 840, 4), ROW(nvs_state, region_slot_probe_limit, 844, 4),
};

static const struct row coll_rows[] = {
	ROW(nvs_coll_params, version, 0, 4), ROW(nvs_coll_params, barrier_dissem_kval, 4, 4), ROW(nvs_coll_params, barrier_tg_dissem_kval, 8, 4),
	ROW(nvs_coll_params, reduce_recexch_kval, 12, 4), ROW(nvs_coll_params, bcast_tree_kval, 16, 4), ROW(nvs_coll_params, bcast_algo, 20, 4),
	ROW(nvs_coll_params, reduce_algo, 24, 4), ROW(nvs_coll_params, fcollect_ll_threshold, 32, 8),
	ROW(nvs_coll_params, fcollect_nvls_threshold, 40, 8), ROW(nvs_coll_params, reduce_scratch_size, 48, 8),
	ROW(nvs_coll_params, fcollect_algo, 56, 4), ROW(nvs_coll_params, reducescatter_nvls_threshold, 64, 8),
	ROW(nvs_coll_params, reducescatter_algo, 72, 4), ROW(nvs_coll_params, reduce_maxloc_algo, 76, 4),
	ROW(nvs_coll_params, fcollect_ll128_threshold, 80, 8), ROW(nvs_coll_params, reduce_nvls_threshold, 88, 8),
	ROW(nvs_coll_params, fcollect_ll_supported, 96, 1),
};

static const struct row team_rows[] = {
	ROW(nvs_team, version, 0, 4), ROW(nvs_team, my_pe, 4, 4), ROW(nvs_team, start, 8, 4), ROW(nvs_team, stride, 12, 4), ROW(nvs_team, size, 16, 4),
	ROW(nvs_team, team_idx, 20, 4), ROW(nvs_team, config, 24, 64), ROW(nvs_team, config_mask, 88, 8), ROW(nvs_team, nccl_comm, 96, 8),
	ROW(nvs_team, recexch, 104, 64), ROW(nvs_team, rdxn_count, 168, 8), ROW(nvs_team, ll_flag, 176, 4), ROW(nvs_team, alltoall_pwrk, 184, 16),
	ROW(nvs_team, alltoall_count, 200, 8), ROW(nvs_team, bcast_count, 208, 8), ROW(nvs_team, bcast_sync_offset, 216, 8),
	ROW(nvs_team, fcollect_count, 224, 8), ROW(nvs_team, fcollect_ll_flag, 232, 4), ROW(nvs_team, are_gpus_p2p_connected, 236, 1),
	ROW(nvs_team, is_team_node, 237, 1), ROW(nvs_team, team_node, 240, 4), ROW(nvs_team, is_team_same_mype_node, 244, 1),
	ROW(nvs_team, team_same_mype_node, 248, 4), ROW(nvs_team, nvls_rsc, 256, 8), ROW(nvs_team, nvls_rsc_base_ptr, 264, 8),
	ROW(nvs_team, team_dups, 272, 512), ROW(nvs_team, pe_mapping, 784, 8), ROW(nvs_team, p2p_sync_on_stream_count, 792, 8),
	ROW(nvs_team, are_gpus_nvls_connected, 800, 1), ROW(nvs_team, mc_leid_with_flag, 808, 8),
	ROW(nvs_team_config, num_contexts, 4, 4), ROW(nvs_team_config, uniqueid, 8, 8),
	ROW(nvs_recexch, step1_sendto, 4, 4), ROW(nvs_recexch, step1_recvfrom, 8, 8), ROW(nvs_recexch, step2_nbrs, 16, 8),
	ROW(nvs_recexch, step1_nrecvs, 24, 4), ROW(nvs_recexch, step2_nphases, 28, 4),
};

static const struct row other_rows[] = {
	ROW(nvs_timeout, signal, 8, 8), ROW(nvs_timeout, caller, 16, 8), ROW(nvs_timeout, signal_addr, 24, 8),
	ROW(nvs_timeout, signal_val_found, 32, 8), ROW(nvs_timeout, signal_val_expected, 40, 8),
	ROW(nvs_init_attr, version, 0, 4), ROW(nvs_init_attr, mpi_comm, 8, 8), ROW(nvs_init_attr, args, 16, 128),
	ROW(nvs_init_args, version, 0, 4), ROW(nvs_init_args, uid_args, 8, 24), ROW(nvs_init_args, cuda_device_id, 32, 4),
	ROW(nvs_uid_args, version, 0, 4), ROW(nvs_uid_args, id, 8, 8), ROW(nvs_uid_args, myrank, 16, 4), ROW(nvs_uid_args, nranks, 20, 4),
	ROW(nvs_uid, version, 0, 4), ROW(nvs_uid, data, 4, 124),
};

static void check_rows(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (rows[i].is != rows[i].should || rows[i].is_bytes != rows[i].bytes)
			test_fail(rows[i].name, "at %zu with %zu bytes, not at %zu with %zu", rows[i].is, rows[i].is_bytes, rows[i].should, rows[i].bytes);
}
#define CHECK_ROWS(rows) check_rows(rows, sizeof(rows) / sizeof(rows[0]))

TEST(the_state_has_the_offsets_that_device_code_reads)
{
	CHECK_ROWS(state_rows);
	CHECK_ROWS(coll_rows);
	ASSERT_EQ(sizeof(struct nvs_state), 848);
	ASSERT_EQ(sizeof(struct nvs_coll_params), 512);
}

TEST(a_team_has_the_offsets_that_device_code_reads)
{
	CHECK_ROWS(team_rows);
	/* Up to 3.4 it ends before the first of these, in 3.5 and 3.6 before the second, in 3.7 before the third. */
	ASSERT_EQ(offsetof(struct nvs_team, p2p_sync_on_stream_count), 792);
	ASSERT_EQ(offsetof(struct nvs_team, are_gpus_nvls_connected), 800);
	ASSERT_EQ(offsetof(struct nvs_team, mc_leid_with_flag), 808);
	ASSERT_EQ(sizeof(struct nvs_team), 816);
	ASSERT_EQ(sizeof(struct nvs_recexch), 64);
	ASSERT_EQ(sizeof(struct nvs_team_config), 64);
}

TEST(what_a_program_passes_has_the_offsets_of_its_headers)
{
	CHECK_ROWS(other_rows);
	ASSERT_EQ(sizeof(struct nvs_init_attr), 144);
	ASSERT_EQ(sizeof(struct nvs_init_args), 128);
	ASSERT_EQ(sizeof(struct nvs_uid_args), 24);
	ASSERT_EQ(sizeof(struct nvs_uid), 128);
	ASSERT_EQ(sizeof(struct nvs_version), 12);
	ASSERT_EQ(sizeof(struct nvs_timeout), 64);
}
