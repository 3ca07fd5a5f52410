/* SPDX-License-Identifier: Apache-2.0 */
/* See ibgda.h. Addresses of queues and of heaps travel by collectives of the host's heap. */
#include "libclient/compat/nvshmem/ibgda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <shmemclient-gpu-mem.h>

#include "proto/base/cleanup.h"

#define DEFAULT_DEPTH 1024u
#define LEAST_DEPTH 128u
#define MOST_DEPTH 32768u
#define TIMEOUT 18 /* 4.096 us << 18, 1.07 s; then requests are sent again */

/* ---- settings */

static uint32_t read_depth(void)
{
	uint32_t depth = nvs_queue_depth(DEFAULT_DEPTH);

	if (depth < LEAST_DEPTH)
		return LEAST_DEPTH;
	return depth > MOST_DEPTH ? MOST_DEPTH : depth;
}

/* ---- this PE's part */

static int open_session(struct nvs_ibgda *ibgda)
{
	int r = shmd_client_open(NULL, &ibgda->client);

	if (!r)
		r = shmd_nic_open(ibgda->client, NULL, &ibgda->nic);
	if (!r)
		r = device_enter(nvs.device);
	if (r < 0)
		return r;
	r = shmd_gpu_open(ibgda->client, nvs.device->is_primary ? nvs.device->ordinal : SHMD_GPU_CURRENT, &ibgda->gpu);
	(void)device_leave(nvs.device, CUDA_OK, "");
	return r;
}

/* Results lie in host memory, where any NIC writes at once. Kernels and NIC know them by one address. */
static int make_results(const struct nvs_ibgda *ibgda, struct nvs_ibgda_batch *batch)
{
	struct shmd_mr_attr attr = {.access = SHMD_ACCESS_LOCAL_WRITE, .length_bytes = batch->n * NVS_IBGDA_RESULTS_BYTES};
	int r = shmd_mem_alloc(ibgda->client, attr.length_bytes, &batch->results);

	if (!r)
		r = shmd_gpu_map_mem(ibgda->gpu, batch->results, &batch->results_at);
	if (r < 0)
		return r;
	attr.fd = shmd_mem_fd(batch->results);
	attr.iova = batch->results_at;
	return shmd_mr_reg(ibgda->nic, &attr, &batch->results_mr);
}

static int make_local(const struct nvs_ibgda *ibgda, struct nvs_ibgda_batch *batch)
{
	struct shmd_queues_attr attr = {.sq_wqebbs = read_depth(), .sharing = SHMD_SHARING_GPU, .gpu_driven = 1};
	int r;

	/* bounded: TEAM_MAX_PES PEs, and some hundred queues to each */
	batch->n = (uint32_t)(nvs.facts.npes - 1) * batch->n_to_each + batch->has_own;
	attr.n_qps = batch->n;
	batch->failed = calloc(batch->n, sizeof(*batch->failed));
	if (!batch->failed)
		return shmd_error_set(-ENOMEM, "no memory for %u queues", batch->n);
	r = shmd_queues_create(ibgda->nic, &attr, &batch->queues);
	return r ? r : make_results(ibgda, batch);
}

/* The session takes the rest with it. */
void nvs_ibgda_batch_drop(struct nvs_ibgda_batch *batch)
{
	free(batch->failed);
	*batch = (struct nvs_ibgda_batch){.n = 0};
}

/* ---- addresses of queues */

/*
 * A failed queue ends the program's kernels for good, and what answers may be a thread of another process. So a queue waits longer than the daemon's
 * setting says; one to a PE that has ended fails at once all the same (ibgda-watch.c).
 *
 * mine: n_to_each for each PE, for its own queues to this one; theirs: the same from them.
 */
static int connect_by(const struct nvs_ibgda_batch *batch, const struct shmd_addr *theirs)
{
	_cleanup_free_ struct shmd_addr *addrs = calloc(batch->n, sizeof(*addrs));
	const struct shmd_qp_params params = {.timeout = TIMEOUT, .retry_count = 7};
	uint32_t last = batch->n - 1;
	int r = 0;

	if (!addrs)
		return shmd_error_set(-ENOMEM, "no memory for the addresses of %u queues", batch->n);
	for (uint32_t i = 0; i < batch->n - batch->has_own; i++)
		addrs[i] = theirs[(uint32_t)nvs_ibgda_peer_of(batch, i) * batch->n_to_each + i % batch->n_to_each];
	if (batch->has_own)
		r = shmd_queues_addr(batch->queues, last, &addrs[last]);
	return r ? r : shmd_queues_connect(batch->queues, 0, batch->n, addrs, &params, NULL);
}

static int fill_addresses(const struct nvs_ibgda_batch *batch, struct shmd_addr *mine)
{
	int r = 0;

	for (uint32_t i = 0; !r && i < batch->n - batch->has_own; i++)
		r = shmd_queues_addr(batch->queues, i, &mine[(uint32_t)nvs_ibgda_peer_of(batch, i) * batch->n_to_each + i % batch->n_to_each]);
	return r;
}

/* Collective. A PE whose queues lead nowhere says so at the agreement behind it. */
static int connect_all(const struct nvs_ibgda_batch *batch)
{
	size_t to_each = batch->n_to_each * sizeof(struct shmd_addr);
	struct shmd_addr *both;
	int r = shmd_calloc(nvs.world, 2 * (size_t)nvs.facts.npes, to_each, 0, (void **)&both), r2;

	if (r < 0)
		return r;
	r = nvs_agree(fill_addresses(batch, both));
	if (!r)
		r = shmd_alltoall(shmd_team_world(nvs.world), both + (size_t)nvs.facts.npes * batch->n_to_each, both, to_each);
	if (!r)
		r = connect_by(batch, both + (size_t)nvs.facts.npes * batch->n_to_each);
	r = nvs_agree(r);
	r2 = shmd_free(nvs.world, both);
	return r ? r : r2;
}

int nvs_ibgda_batch_make(struct nvs_ibgda *ibgda, struct nvs_ibgda_batch *batch)
{
	int r = nvs_agree(make_local(ibgda, batch));

	return r ? r : connect_all(batch);
}

/* Collective: where the heaps of the others begin, in their own addresses, by which their NICs know them. */
static int share_bases(void)
{
	uint64_t *own = nvs_agreement_places(), *all = own + NVS_PLACE_BYTES / 8;
	int npes = nvs.facts.npes, r;

	own[0] = nvs.facts.heap_base;
	r = shmd_fcollect(shmd_team_world(nvs.world), all, own, NVS_PLACE_BYTES);
	for (int pe = 0; !r && pe < npes; pe++)
		r = device_write(nvs.device, nvs.facts.peers_remote + (uint64_t)pe * 8, &all[(size_t)pe * NVS_PLACE_BYTES / 8], 8);
	return nvs_agree(r);
}

/* ---- all of it */

/* Collective. Where they differ, some PE is not at the mean. */
static int check_counts(const struct nvs_ibgda *ibgda)
{
	uint64_t sum = 0;
	int r = nvs_agree_on(ibgda->n_rc, &sum);

	if (!r && sum != (uint64_t)ibgda->n_rc * (uint64_t)nvs.facts.npes)
		r = shmd_error_set(-EINVAL, "NVSHMEM_IBGDA_NUM_RC_PER_PE is %u here, and something else on other PEs", ibgda->n_rc);
	return nvs_agree(r);
}

static int begin(struct nvs_ibgda *ibgda)
{
	int r = nvs_ibgda_count(ibgda);

	return r ? r : open_session(ibgda);
}

static int make(struct nvs_ibgda *ibgda)
{
	int r = nvs_agree(begin(ibgda));

	if (!r)
		r = check_counts(ibgda);
	ibgda->batches[0] = (struct nvs_ibgda_batch){.n_to_each = ibgda->n_to_each, .has_own = true};
	ibgda->n_batches = 1;
	if (!r)
		r = nvs_ibgda_batch_make(ibgda, &ibgda->batches[0]);
	if (!r)
		r = share_bases();
	if (!r)
		r = nvs_ibgda_keys_make(ibgda);
	if (!r)
		r = nvs_ibgda_tables_make(ibgda);
	return r ? r : nvs_ibgda_watch(ibgda);
}

/*
 * The memory agent calls CUDA. A kernel's first launch keeps other threads from CUDA until running kernels have ended, and these may wait for data that
 * the agent has to move.
 */
static void warn_of_lazy_loading(const struct nvs_ibgda *ibgda)
{
	const struct cuda_api *cuda = nvs.device->cuda;
	struct shmd_mr_info info;
	int mode = 0;

	if (nvs.facts.mype || shmd_mr_info(ibgda->mrs[0], &info) < 0 || info.kind != SHMD_MEM_AGENT)
		return;
	if (cuda->loading_mode && cuda->loading_mode(&mode) == CUDA_OK && mode == CUDA_LOADS_LAZILY)
		fprintf(stderr, "shmemd: NVSHMEM queues: CUDA loads a kernel at its first launch, and a kernel that waits for another PE then waits for ever; "
				"set CUDA_MODULE_LOADING=EAGER before the program starts\n");
}

int nvs_ibgda_make(void)
{
	uint64_t n_apart = 0;
	int r = nvs_agree_on((uint64_t)nvs.facts.n_apart, &n_apart);

	if (r < 0 || !n_apart)
		return r;
	nvs.ibgda = calloc(1, sizeof(*nvs.ibgda));
	r = nvs_agree(nvs.ibgda ? 0 : shmd_error_set(-ENOMEM, "no memory for queues"));
	if (!r)
		r = nvs_agree(make(nvs.ibgda));
	if (!r)
		r = nvs_ibgda_follow();
	nvs.facts.by_queues = !r;
	if (r < 0)
		nvs_ibgda_drop();
	else
		warn_of_lazy_loading(nvs.ibgda);
	return r;
}

void nvs_ibgda_finish(void)
{
	if (!nvs.ibgda)
		return;
	nvs_ibgda_unwatch(nvs.ibgda);
	(void)shmd_sync_all(nvs.world);
}

/* The session takes with it what is left in it. */
void nvs_ibgda_drop(void)
{
	struct nvs_ibgda *ibgda = nvs.ibgda;

	if (!ibgda)
		return;
	nvs_ibgda_unwatch(ibgda);
	shmd_client_close(ibgda->client);
	nvs_ibgda_buffers_drop(ibgda);
	nvs_ibgda_keys_drop(ibgda);
	device_free(nvs.device, ibgda->tables);
	for (uint32_t i = 0; i < NVS_IBGDA_BATCHES; i++)
		nvs_ibgda_batch_drop(&ibgda->batches[i]);
	free(ibgda);
	nvs.ibgda = NULL;
}
