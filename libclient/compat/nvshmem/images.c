/* SPDX-License-Identifier: Apache-2.0 */
/* See images.h. */
#include "libclient/compat/nvshmem/images.h"

#include <string.h>

#define KVAL 2 /* of dissemination, trees and the recursive exchange */
#define NVLS_THRESHOLD (UINT64_C(16) << 20)
#define REDUCE_NVLS_THRESHOLD 2048u
#define LOG2_CHANNEL 22u
#define PE_DIST_BLOCK 1
#define CONNECTED_BY_ATOMICS 1
#define CONNECTED_BY_QUEUES 8
#define DEVICE_TRANSPORT_IBGDA 1
#define PROXY_MINIMAL 1 /* for the end of the job */
#define PROXY_FULL 2
#define TEAM_SPACE ((uint32_t)((sizeof(struct nvs_team) + 15) / 16 * 16))

static void fill_coll(struct nvs_coll_params *coll)
{
	*coll = (struct nvs_coll_params){
		.version = NVS_WORD(2, sizeof(*coll)),
		.barrier_dissem_kval = KVAL,
		.barrier_tg_dissem_kval = KVAL,
		.reduce_recexch_kval = KVAL,
		.bcast_tree_kval = KVAL,
		.reduce_algo = 1,
		.fcollect_ll_threshold = NVS_FCOLLECT_LL_THRESHOLD,
		.fcollect_nvls_threshold = NVLS_THRESHOLD,
		.reduce_scratch_size = NVS_REDUCE_SCRATCH_BYTES,
		.reducescatter_nvls_threshold = NVLS_THRESHOLD,
		.reduce_maxloc_algo = 1,
		.reduce_nvls_threshold = REDUCE_NVLS_THRESHOLD,
		.fcollect_ll_supported = true,
	};
}

static void fill_channel(const struct nvs_channel *channel, struct nvs_state *state)
{
	state->proxy_channels_buf = channel->ring;
	state->proxy_channel_g_buf = channel->results;
	state->proxy_channel_g_coalescing_buf = channel->warp_results;
	state->proxy_channel_g_buf_head_ptr = channel->result_count;
	state->proxy_channel_g_buf_size = channel->n_results;
	state->proxy_channel_g_buf_log_size = channel->log2_results;
	state->proxy_channels_issue = channel->issue;
	state->proxy_channels_complete = channel->complete;
	state->proxy_channels_complete_local_ptr = channel->complete_local;
	state->proxy_channels_quiet_issue = channel->quiet_issue;
	state->proxy_channels_quiet_ack = channel->quiet_ack;
	state->proxy_channels_cst_issue = channel->cst_issue;
	state->proxy_channels_cst_ack = channel->cst_ack;
}

void nvs_state_fill(const struct nvs_facts *facts, uint32_t bytes, struct nvs_state *ret_state)
{
	memset(ret_state, 0, sizeof(*ret_state));
	*ret_state = (struct nvs_state){
		.version = NVS_WORD(1, bytes),
		.mype = facts->mype,
		.npes = facts->npes,
		.node_mype = facts->node_mype,
		.node_npes = facts->node_npes,
		.pe_dist = PE_DIST_BLOCK,
		.proxy = facts->channel ? PROXY_FULL : facts->exit_request ? PROXY_MINIMAL : 0,
		.job_connectivity = facts->by_queues ? CONNECTED_BY_QUEUES : CONNECTED_BY_ATOMICS,
		.proxy_ops_are_ordered = true,
		.atomics_complete_on_quiet = facts->channel != NULL,
		.heap_base = facts->heap_base,
		.heap_size = facts->heap_bytes,
		.peer_heap_base_p2p = facts->peers_p2p,
		.peer_heap_base_remote = facts->peers_remote,
		.timeout = facts->timeout,
		.test_wait_any_start_idx_ptr = facts->wait_index,
		.team_pool = facts->team_pool,
		.psync_pool = facts->psync_pool,
		.sync_counter = facts->sync_counter,
		.proxy_channel_buf_size = UINT64_C(1) << LOG2_CHANNEL,
		.proxy_channel_buf_logsize = LOG2_CHANNEL,
		.global_exit_request_state = facts->exit_request,
		.global_exit_code = facts->exit_code,
		.ibgda_is_initialized = facts->by_queues && !facts->channel,
		.is_initialized = true,
		.is_bootstrapped = true,
		.selected_device_transport = facts->by_queues && !facts->channel ? DEVICE_TRANSPORT_IBGDA : 0,
		.unicast_le_ids = facts->unicast_le_ids,
		.region_active_count = facts->zero,
	};
	fill_coll(&ret_state->coll);
	if (facts->channel)
		fill_channel(facts->channel, ret_state);
}

/* ---- the recursive exchange */

static int32_t log2_below(int32_t size)
{
	int32_t log2 = 0;

	while (size >> (log2 + 1))
		log2++;
	return log2;
}

/* The members that are left over by the largest power of two send to the member behind them, and stand aside. */
void nvs_exchange_of(int32_t member, int32_t size, struct nvs_exchange *ret_exchange)
{
	int32_t phases = log2_below(size), rest = size - (1 << phases), paired = KVAL * rest, rank;

	*ret_exchange = (struct nvs_exchange){.sendto = -1, .recvfrom = -1};
	if (member < paired && member % KVAL == 0) {
		ret_exchange->sendto = member + 1;
		return;
	}
	if (member < paired) {
		ret_exchange->n_recvs = 1;
		ret_exchange->recvfrom = member - 1;
	}
	rank = member < paired ? member / KVAL : member - rest;
	ret_exchange->n_phases = phases;
	for (int32_t i = 0; i < phases; i++) {
		int32_t other = rank ^ (1 << i);

		ret_exchange->nbrs[i] = other < rest ? KVAL * other + 1 : other + rest;
	}
}

/* ---- teams: the structure, pe_mapping, the list of lists, neighbours, the PE from which data comes */

struct places {
	uint32_t mapping, lists, nbrs, recvfrom, bytes;
};

static struct places places_of(const struct nvs_members *members)
{
	uint32_t mapping = (uint32_t)(members->size + members->npes) * 4, phases = (uint32_t)log2_below(members->size);
	struct places places = {.mapping = TEAM_SPACE};

	places.lists = places.mapping + (mapping + 7) / 8 * 8;
	places.nbrs = places.lists + phases * 8;
	places.recvfrom = places.nbrs + phases * 4;
	places.bytes = (places.recvfrom + 4 + 7) / 8 * 8;
	return places;
}

uint32_t nvs_team_bytes(const struct nvs_members *members)
{
	return places_of(members).bytes;
}

static void fill_mapping(const struct nvs_members *members, int32_t *mapping)
{
	int32_t *back = mapping + members->size;

	for (int32_t pe = 0; pe < members->npes; pe++)
		back[pe] = -1;
	for (int32_t i = 0; i < members->size; i++) {
		mapping[i] = members->pes[i];
		back[members->pes[i]] = i;
	}
}

static void fill_exchange(const struct nvs_members *members, const struct places *places, uint64_t address, uint8_t *image)
{
	struct nvs_recexch *recexch = &((struct nvs_team *)(void *)image)->recexch;
	uint64_t *lists = (uint64_t *)(void *)(image + places->lists);
	int32_t *nbrs = (int32_t *)(void *)(image + places->nbrs);
	struct nvs_exchange exchange;

	nvs_exchange_of(members->my_pe, members->size, &exchange);
	*recexch = (struct nvs_recexch){
		.version = NVS_WORD(1, sizeof(*recexch)),
		.step1_sendto = exchange.sendto < 0 ? -1 : members->pes[exchange.sendto],
		.step1_recvfrom = address + places->recvfrom,
		.step2_nbrs = address + places->lists,
		.step1_nrecvs = exchange.n_recvs,
		.step2_nphases = exchange.n_phases,
	};
	if (exchange.n_recvs)
		*(int32_t *)(void *)(image + places->recvfrom) = members->pes[exchange.recvfrom];
	for (int32_t i = 0; i < exchange.n_phases; i++) {
		lists[i] = address + places->nbrs + (uint32_t)i * 4;
		nbrs[i] = members->pes[exchange.nbrs[i]];
	}
}

/* On one node a team is its own node team; that of the world is a team of its own, as the program knows it. */
static void fill_team(const struct nvs_members *members, enum nvs_class class, struct nvs_team *team)
{
	*team = (struct nvs_team){
		.version = class == NVS_CLASS_A ? NVS_WORD(2, offsetof(struct nvs_team, p2p_sync_on_stream_count)) : NVS_WORD(4, sizeof(*team)),
		.my_pe = members->my_pe,
		.start = members->pes[0],
		.stride = members->size > 1 ? members->pes[1] - members->pes[0] : 1,
		.size = members->size,
		.team_idx = members->index,
		.config.version = NVS_WORD(2, sizeof(team->config)),
		.ll_flag = 1,
		.are_gpus_p2p_connected = !members->by_queues || members->size == 1,
		.is_team_node = true,
		.team_node = members->index == NVS_TEAM_WORLD ? NVS_TEAM_NODE : members->index,
		.team_same_mype_node = NVS_TEAM_SAME_MYPE_NODE,
	};
	for (size_t i = 0; i < sizeof(team->team_dups) / sizeof(team->team_dups[0]); i++)
		team->team_dups[i] = i ? -1 : members->index;
}

void nvs_team_fill(const struct nvs_members *members, enum nvs_class class, uint64_t address, void *image)
{
	struct places places = places_of(members);
	struct nvs_team *team = image;
	uint8_t *bytes = image;

	memset(image, 0, places.bytes);
	fill_team(members, class, team);
	team->pe_mapping = address + places.mapping;
	fill_mapping(members, (int32_t *)(void *)(bytes + places.mapping));
	fill_exchange(members, &places, address, bytes);
}
