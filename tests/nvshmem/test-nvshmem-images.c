/* SPDX-License-Identifier: Apache-2.0 */
/* Versions, classes, scratch, and the images of state and teams. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <shmemclient.h>

#include "libclient/compat/nvshmem/images.h"
#include "tests/lib/test.h"

static struct nvs_version version(int minor)
{
	return (struct nvs_version){3, minor, 5};
}

TEST(versions_up_to_the_newest_known_are_served)
{
	for (int minor = 0; minor <= NVS_NEWEST_MINOR; minor++)
		ASSERT_EQ(nvs_version_check(version(minor), 0), 0);
	ASSERT_ERR(nvs_version_check(version(NVS_NEWEST_MINOR + 1), 0), EPROTONOSUPPORT);
	ASSERT(strstr(shmd_error_text(), "SHMD_NVSHMEM_NEWER"));
	ASSERT_EQ(nvs_version_check(version(NVS_NEWEST_MINOR + 1), 1), 0);
	ASSERT_ERR(nvs_version_check((struct nvs_version){2, 11, 0}, 1), EPROTONOSUPPORT);
	ASSERT_ERR(nvs_version_check((struct nvs_version){4, 0, 0}, 1), EPROTONOSUPPORT);
}

TEST(a_state_has_the_bytes_of_its_version)
{
	static const struct {
		int minor, class;
		uint32_t bytes;
	} rows[] = {{3, NVS_CLASS_A, 776}, {4, NVS_CLASS_A, 776}, {5, NVS_CLASS_B, 776}, {6, NVS_CLASS_C, 776}, {7, NVS_CLASS_C, 816},
		    {8, NVS_CLASS_C, 848}, {9, NVS_CLASS_C, 848}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ASSERT_EQ(nvs_version_class(version(rows[i].minor)), rows[i].class);
		ASSERT_EQ(nvs_version_state_bytes(version(rows[i].minor)), rows[i].bytes);
	}
}

TEST(scratch_lies_where_device_code_of_the_class_looks)
{
	struct nvs_psync a = nvs_psync_of(NVS_CLASS_A, 2), b = nvs_psync_of(NVS_CLASS_B, 2), odd = nvs_psync_of(NVS_CLASS_C, 3);

	ASSERT_EQ(a.sync, 0);
	ASSERT_EQ(a.reduce, 884736);
	ASSERT_EQ(a.bcast, 1409024);
	ASSERT_EQ(a.fcollect_ll, 3620864);
	ASSERT_EQ(a.alltoall, 3620864 + 8192 * 2);
	ASSERT_EQ(a.fcollect_ll128, 4063232 + 8192 * 2);
	ASSERT_EQ(a.bytes, 4079616);
	ASSERT_EQ(b.reduce, 1769472);
	ASSERT_EQ(b.bcast, 2293760);
	ASSERT_EQ(b.fcollect_ll, 4505600);
	ASSERT_EQ(b.alltoall, 4505600 + 8192 * 2);
	ASSERT_EQ(b.stream_sync, 4947968 + 8192 * 2);
	ASSERT_EQ(b.bytes, 4964368);
	ASSERT_EQ(nvs_psync_of(NVS_CLASS_C, 2).bytes, b.bytes);
	ASSERT_EQ(nvs_psync_of(NVS_CLASS_A, 8).bytes, 4128768);
	ASSERT_EQ(nvs_psync_of(NVS_CLASS_B, 8).bytes, 5013568);
	ASSERT_EQ(nvs_psync_of(NVS_CLASS_B, 3).bytes, 4947968 + 8200 * 3);
	ASSERT_EQ(odd.bytes, (4947968 + 8200 * 3 + 15) / 16 * 16);
	ASSERT_EQ(nvs_class_set(NVS_CLASS_B, 2), NVS_CLASS_C);
	ASSERT_EQ(nvs_class_set(NVS_CLASS_B, 3), NVS_CLASS_B);
	ASSERT_EQ(nvs_class_set(NVS_CLASS_A, 2), NVS_CLASS_A);
}

TEST(the_state_of_a_job_whose_pes_map_each_other)
{
	struct nvs_facts facts = {.mype = 1, .npes = 2, .node_mype = 1, .node_npes = 2, .heap_base = 0x1000, .heap_bytes = 1ull << 30,
				  .peers_p2p = 0x20, .peers_remote = 0x30, .unicast_le_ids = 0x40, .timeout = 0x50, .wait_index = 0x60,
				  .zero = 0x70, .team_pool = 0x80, .psync_pool = 0x90, .sync_counter = 0xa0};
	struct nvs_state state;

	nvs_state_fill(&facts, 776, &state);
	ASSERT_EQ(state.version, 0x10308);
	nvs_state_fill(&facts, 816, &state);
	ASSERT_EQ(state.version, 0x10330);
	nvs_state_fill(&facts, 848, &state);
	ASSERT_EQ(state.version, 0x10350);
	ASSERT_EQ(state.coll.version, (2 << 16) + 512);
	ASSERT(state.mype == 1 && state.npes == 2 && state.node_mype == 1 && state.node_npes == 2 && state.pe_dist == 1);
	/* Signals that add are stores and atomics only with this. */
	ASSERT_EQ(state.job_connectivity, 1);
	ASSERT(state.proxy == 0 && !state.ibgda_is_initialized && state.selected_device_transport == 0 && state.symmetric_heap_kind == 0);
	ASSERT(state.is_initialized && state.is_bootstrapped && state.proxy_ops_are_ordered);
	ASSERT(state.heap_base == 0x1000 && state.heap_size == 1ull << 30 && state.peer_heap_base_p2p == 0x20);
	/* Device code reads these without looking for 0. */
	ASSERT(state.timeout == 0x50 && state.test_wait_any_start_idx_ptr == 0x60 && state.region_active_count == 0x70);
	ASSERT(state.unicast_le_ids == 0x40 && state.region_slots == 0 && state.tma_policy == 0);
	ASSERT(state.coll.reduce_recexch_kval == 2 && state.coll.fcollect_ll_threshold == 2048 && state.coll.reduce_scratch_size == 524288);
	ASSERT(state.coll.fcollect_ll128_threshold == 0 && state.coll.fcollect_ll_supported && state.coll.reduce_algo == 1);
	ASSERT(state.proxy_channel_buf_size == 1u << 22 && state.proxy_channel_buf_logsize == 22);
}

TEST(kernels_end_the_job_and_ask_a_thread_of_the_host)
{
	struct nvs_channel channel = {.ring = 0x100, .results = 0x110, .warp_results = 0x120, .result_count = 0x130, .n_results = 4096, .log2_results = 12,
				      .issue = 0x140, .complete = 0x150, .complete_local = 0x160, .quiet_issue = 0x170, .quiet_ack = 0x180, .cst_issue = 0x190, .cst_ack = 0x1a0};
	struct nvs_facts facts = {.npes = 2, .by_queues = true, .exit_request = 0x200, .exit_code = 0x240};
	struct nvs_state state;

	nvs_state_fill(&facts, 776, &state);
	ASSERT(state.proxy == 1 && state.global_exit_request_state == 0x200 && state.global_exit_code == 0x240 && !state.proxy_channels_buf);
	ASSERT(state.ibgda_is_initialized && state.selected_device_transport == 1 && !state.atomics_complete_on_quiet);
	facts.channel = &channel;
	nvs_state_fill(&facts, 776, &state);
	ASSERT(state.proxy == 2 && !state.ibgda_is_initialized && state.selected_device_transport == 0 && state.job_connectivity == 8);
	ASSERT(state.atomics_complete_on_quiet && state.proxy_ops_are_ordered && state.atomics_le_min_size == 0);
	ASSERT(state.proxy_channels_buf == 0x100 && state.proxy_channel_g_buf == 0x110 && state.proxy_channel_g_coalescing_buf == 0x120);
	ASSERT(state.proxy_channel_g_buf_head_ptr == 0x130 && state.proxy_channel_g_buf_size == 4096 && state.proxy_channel_g_buf_log_size == 12);
	ASSERT(state.proxy_channels_issue == 0x140 && state.proxy_channels_complete == 0x150 && state.proxy_channels_complete_local_ptr == 0x160);
	ASSERT(state.proxy_channels_quiet_issue == 0x170 && state.proxy_channels_quiet_ack == 0x180);
	ASSERT(state.proxy_channels_cst_issue == 0x190 && state.proxy_channels_cst_ack == 0x1a0);
}

/* Sums over the lists of all members, phase by phase, as device code does. */
static void check_sum(int32_t size)
{
	long *now = calloc((size_t)size, sizeof(*now)), *next = calloc((size_t)size, sizeof(*next));
	struct nvs_exchange exchange;
	int phases = 0;

	for (int32_t i = 0; i < size; i++)
		now[i] = 1l << i;
	for (int32_t i = 0; i < size; i++) {
		nvs_exchange_of(i, size, &exchange);
		phases = exchange.n_phases > phases ? exchange.n_phases : phases;
		if (exchange.n_recvs)
			now[i] += now[exchange.recvfrom];
		ASSERT_EQ(exchange.sendto >= 0, exchange.n_phases == 0 && size > 1);
	}
	for (int phase = 0; phase < phases; phase++) {
		memcpy(next, now, (size_t)size * sizeof(*now));
		for (int32_t i = 0; i < size; i++) {
			nvs_exchange_of(i, size, &exchange);
			if (exchange.n_phases)
				next[i] += now[exchange.nbrs[phase]];
		}
		memcpy(now, next, (size_t)size * sizeof(*now));
	}
	for (int32_t i = 0; i < size; i++) {
		nvs_exchange_of(i, size, &exchange);
		ASSERT_EQ(now[exchange.sendto < 0 ? i : exchange.sendto], (1l << size) - 1);
	}
	free(now);
	free(next);
}

TEST(the_recursive_exchange_sums_over_teams_of_any_size)
{
	for (int32_t size = 1; size <= 33; size++)
		check_sum(size);
}

#define ADDRESS 0x7000u
static const void *at(const void *image, uint64_t address)
{
	return (const char *)image + (address - ADDRESS);
}

TEST(a_team_names_pes_of_the_world)
{
	static const int32_t pes[] = {1, 3, 5};
	struct nvs_members members = {.index = 9, .my_pe = 1, .size = 3, .npes = 6, .pes = pes};
	struct nvs_team *team = malloc(nvs_team_bytes(&members));
	const int32_t *mapping;

	nvs_team_fill(&members, NVS_CLASS_A, ADDRESS, team);
	ASSERT_EQ(team->version, (2 << 16) + 792);
	ASSERT(team->my_pe == 1 && team->start == 1 && team->stride == 2 && team->size == 3 && team->team_idx == 9);
	ASSERT(team->ll_flag == 1 && team->are_gpus_p2p_connected && team->is_team_node && team->team_node == 9);
	ASSERT(team->rdxn_count == 0 && team->nvls_rsc_base_ptr == 0 && team->fcollect_count == 0);
	ASSERT(team->team_dups[0] == 9 && team->team_dups[1] == -1 && team->team_dups[127] == -1);
	mapping = at(team, team->pe_mapping);
	ASSERT(mapping[0] == 1 && mapping[1] == 3 && mapping[2] == 5);
	ASSERT(mapping[3] == -1 && mapping[4] == 0 && mapping[5] == -1 && mapping[6] == 1 && mapping[8] == 2);
	/* Member 0 sends to this one, which exchanges with member 2. */
	ASSERT(team->recexch.step1_sendto == -1 && team->recexch.step1_nrecvs == 1 && team->recexch.step2_nphases == 1);
	ASSERT_EQ(*(const int32_t *)at(team, team->recexch.step1_recvfrom), 1);
	ASSERT_EQ(*(const int32_t *)at(team, *(const uint64_t *)at(team, team->recexch.step2_nbrs)), 5);
	nvs_team_fill(&members, NVS_CLASS_C, ADDRESS, team);
	ASSERT_EQ(team->version, (4 << 16) + 816);
	free(team);
}

TEST(the_team_of_the_world_names_those_of_the_node)
{
	static const int32_t pes[] = {0, 1};
	struct nvs_members members = {.index = NVS_TEAM_WORLD, .my_pe = 0, .size = 2, .npes = 2, .pes = pes};
	struct nvs_team *team = malloc(nvs_team_bytes(&members));

	nvs_team_fill(&members, NVS_CLASS_A, ADDRESS, team);
	ASSERT(team->is_team_node && team->team_node == NVS_TEAM_NODE);
	ASSERT(!team->is_team_same_mype_node && team->team_same_mype_node == NVS_TEAM_SAME_MYPE_NODE);
	free(team);
}
