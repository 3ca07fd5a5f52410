/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of the heap for queues of kernels. The heap is registered with the addresses that kernels of this PE use. The range has at most
 * NVS_IBGDA_CONST_KEYS pieces, so all local keys are in the state, which is written anew when the heap grows. Remote keys have a table, too, which
 * stays where it is.
 *
 * A piece has one key, and a chunk that makes the heap larger may begin within a piece. So the registration of a chunk begins where its first piece
 * does. The piece's former registration stays, since kernels that run may use its key.
 */
#include <errno.h>
#include <stdlib.h>

#include <shmemclient-gpu-mem.h>

#include "libclient/compat/nvshmem/ibgda.h"

static size_t rkeys_bytes(uint64_t pieces)
{
	return pieces * sizeof(struct nvs_ibgda_key) * (size_t)nvs.facts.npes;
}

int nvs_ibgda_keys_make(struct nvs_ibgda *ibgda)
{
	ibgda->log2_piece = nvs_ibgda_log2_piece(nvs.facts.heap_bytes);
	ibgda->rkeys = calloc(1, rkeys_bytes(NVS_IBGDA_CONST_KEYS));
	if (!ibgda->rkeys)
		return shmd_error_set(-ENOMEM, "no memory for keys of a heap of %llu bytes", (unsigned long long)nvs.facts.heap_bytes);
	return device_alloc(nvs.device, rkeys_bytes(NVS_IBGDA_CONST_KEYS), &ibgda->rkeys_at);
}

/* Registrations end with the session. */
void nvs_ibgda_keys_drop(struct nvs_ibgda *ibgda)
{
	device_free(nvs.device, ibgda->rkeys_at);
	free(ibgda->rkeys);
}

static int register_range(struct nvs_ibgda *ibgda, struct nvs_ibgda_range range)
{
	struct shmd_gpu_mr_attr attr = {.addr = nvs.facts.heap_base + range.begin, .length_bytes = range.end - range.begin, .access = SHMD_ACCESS_ALL};

	return shmd_gpu_mr_reg(ibgda->gpu, ibgda->nic, &attr, &ibgda->mrs[ibgda->n_chunks]);
}

/* Collective, once all PEs have registered the range. */
static int share_keys(struct nvs_ibgda *ibgda, struct nvs_ibgda_range range)
{
	const struct shmd_mr *mr = ibgda->mrs[ibgda->n_chunks];
	uint64_t *own = nvs_agreement_places(), *all = own + NVS_PLACE_BYTES / 8;
	uint32_t npes = (uint32_t)nvs.facts.npes;
	int r;

	own[0] = shmd_mr_rkey_be(mr);
	r = shmd_fcollect(shmd_team_world(nvs.world), all, own, NVS_PLACE_BYTES);
	for (uint32_t pe = 0; !r && pe < npes; pe++)
		nvs_ibgda_rkeys_fill(range, pe, npes, (uint32_t)all[pe * NVS_PLACE_BYTES / 8], ibgda->rkeys);
	if (!r)
		nvs_ibgda_lkeys_fill(range, nvs.facts.heap_base, shmd_mr_lkey_be(mr), ibgda->lkeys);
	return r;
}

static int write_keys(const struct nvs_ibgda *ibgda, struct nvs_ibgda_range range)
{
	uint64_t first = range.begin >> range.log2_piece, n = nvs_ibgda_pieces(range.end, range.log2_piece) - first;

	return device_write(nvs.device, ibgda->rkeys_at + rkeys_bytes(first), &ibgda->rkeys[first * (size_t)nvs.facts.npes], rkeys_bytes(n));
}

/* If one PE cannot register the range, no PE does. A registration of an earlier call stays: kernels may have its keys. */
static int register_on_all(struct nvs_ibgda *ibgda, struct nvs_ibgda_range range)
{
	struct shmd_mr **mr = &ibgda->mrs[ibgda->n_chunks];
	bool is_new = !*mr;
	int r = nvs_agree(is_new ? register_range(ibgda, range) : 0);

	if (r < 0 && is_new && *mr) {
		(void)shmd_mr_dereg(*mr);
		*mr = NULL;
	}
	return r;
}

/*
 * Until all PEs have registered the range, the keys of its first piece stay as they are, since the piece may have memory in use. From then on kernels may
 * find the new keys, so the registration stays, whatever fails; a later call tries again.
 */
static int add_chunk(struct nvs_ibgda *ibgda, struct nvs_ibgda_range range)
{
	int r = register_on_all(ibgda, range);

	if (r < 0)
		return r;
	r = share_keys(ibgda, range);
	if (!r)
		r = write_keys(ibgda, range);
	r = nvs_agree(r);
	if (r < 0)
		return r;
	ibgda->n_chunks++;
	ibgda->used_bytes = range.end;
	return 0;
}

int nvs_ibgda_follow(void)
{
	const struct shmd_dev_heap *heap = &shmd_world_dev(nvs.world)->heap[SHMD_DEV_HEAP_GPU];
	const uint64_t *ends = (const uint64_t *)(uintptr_t)heap->chunk_ends_addr;
	struct nvs_ibgda *ibgda = nvs.ibgda;
	int r = 0;

	/* Chunks are the same on all PEs, so all of them take these steps together. */
	while (!r && ibgda && ibgda->used_bytes < __atomic_load_n(&heap->used_bytes, __ATOMIC_ACQUIRE)) {
		r = add_chunk(ibgda, nvs_ibgda_range_of(ibgda->used_bytes, ends[ibgda->n_chunks], ibgda->log2_piece));
		ibgda->has_new_keys |= !r;
	}
	/* If this fails, a later call does it. */
	if (r < 0 || !ibgda || !ibgda->has_new_keys)
		return r;
	r = nvs_agree(nvs_clients_show_queues());
	ibgda->has_new_keys = r < 0;
	return r;
}
