/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues that NVSHMEM's device code drives, for PEs whose memory is not mapped here: a session of their own with a NIC, and in it a few RC QPs to
 * each PE, memory for results, and the chunks of the GPU heap with the addresses that kernels use.
 *
 *	ibgda.c		making, connecting, ending		ibgda-keys.c	registrations and tables of keys, which follow the heap
 *	ibgda-write.c	what lies in GPU memory			ibgda-watch.c	a thread that looks for queues which fail
 *	ibgda-buffers.c	local memory outside the heap		ibgda-places.c	which queue leads where
 *	ibgda-create.c	queues that the program asks for
 *
 * A job has them if any of its PEs does not map another one; then kernels send all atomics by them, also those to their own PE.
 */
#ifndef SHMD_NVSHMEM_IBGDA_H
#define SHMD_NVSHMEM_IBGDA_H

#include "libclient/compat/nvshmem/ibgda-images.h"
#include "libclient/compat/nvshmem/nvs.h"

/* Queues that were made together. Device code has those of later batches by handles of the program (ibgda-create.c). */
struct nvs_ibgda_batch {
	struct shmd_queues *queues; /* n_to_each to each other PE, ascending; then, in the first batch, the one to this PE */
	uint32_t n_to_each, n;
	bool has_own; /* the first batch */
	uint32_t first_row; /* of later ones, among all rows that were created */
	struct shmd_mem *results; /* of all queues, one behind the other */
	struct shmd_mr *results_mr;
	uint64_t results_at; /* as the GPU sees them */
	bool *failed; /* by queue; the watcher's */
};

#define NVS_IBGDA_BATCHES 33u
#define NVS_IBGDA_CREATED 64u /* rows, each with a queue to every PE, that programs may create; there is room for them in the tables */

struct nvs_ibgda {
	struct shmd_client *client;
	struct shmd_nic *nic;
	struct shmd_gpu *gpu;
	struct nvs_ibgda_batch batches[NVS_IBGDA_BATCHES];
	uint32_t n_batches; /* atomic: the watcher looks at them */
	uint32_t n_rc, n_to_each; /* n_to_each: of the first batch */
	uint32_t n_created; /* rows of later batches */

	/* ibgda-keys.c; the arrays have entries for the whole range of the heap */
	struct shmd_mr *mrs[SHMD_DEV_HEAP_CHUNKS];
	uint32_t n_chunks;
	uint64_t used_bytes; /* end of the last of them */
	uint32_t log2_piece;
	bool has_new_keys; /* that device libraries may not know yet; the same on all PEs */
	struct nvs_ibgda_key lkeys[NVS_IBGDA_CONST_KEYS], *rkeys;
	uint64_t rkeys_at; /* a copy in GPU memory */

	/* ibgda-write.c: addresses in GPU memory */
	uint64_t tables, dci_at, cqs_at, rcs_at[2], switches_at[NVS_IBGDA_GROUPS]; /* rcs_at: by order */

	/* ibgda-buffers.c */
	struct nvs_ibgda_local *locals;
	uint64_t buffers_at; /* the first of the list in GPU memory, or 0 */

	/* ibgda-watch.c */
	pthread_t watcher;
	bool has_watcher;
	bool ends; /* atomic */
	/* the watcher's */
	uint64_t lost_nsec; /* when requests were lost first; 0: none are */
};

/* ---- for the other files of the library; all with the lock */

/* Collective, once the tables of peers are there. Makes nothing where all PEs map each other. */
int nvs_ibgda_make(void);
/* Collective, before the end: queues lead here as long as kernels of others may run, and no PE takes the end of another one for a failure. */
void nvs_ibgda_finish(void);
void nvs_ibgda_drop(void);
/* Collective: the heap may have grown, and kernels get the keys of what is new. An error is that of all PEs. Nothing without queues. */
int nvs_ibgda_follow(void);
/* Fills in how many queues there are, as $NVSHMEM_IBGDA_NUM_RC_PER_PE says. Local. */
int nvs_ibgda_count(struct nvs_ibgda *ibgda);
/* The state of the queues to a device library. */
int nvs_ibgda_show(const struct nvs_client *client);
/* In a job without queues: how many there would be to each PE, as the user says, for kernels (DeepEP) that look at it and then use none. */
int nvs_ibgda_tell_count(const struct nvs_client *client);
/* Memory of a GPU as the local side of requests. Without queues any memory is. */
int nvs_ibgda_buffer_add(void *memory, size_t bytes);
int nvs_ibgda_buffer_remove(const void *memory);
int nvs_ibgda_buffers_remove(void);

/* ---- between its files */

/* A batch of n_to_each queues to each other PE, made and connected: the next one, which the watcher does not see yet. Collective. */
int nvs_ibgda_batch_make(struct nvs_ibgda *ibgda, struct nvs_ibgda_batch *batch);
void nvs_ibgda_batch_drop(struct nvs_ibgda_batch *batch);
/* The PE to which a queue leads. */
int nvs_ibgda_peer_of(const struct nvs_ibgda_batch *batch, uint32_t queue);
/* The place of the queue with this number, of n_to_each, to a PE, in the array of its order. */
uint64_t nvs_ibgda_place_at(const struct nvs_ibgda *ibgda, const struct nvs_ibgda_batch *batch, uint32_t number, int pe);
/* The structure that device code has for a queue. */
uint64_t nvs_ibgda_qp_at(const struct nvs_ibgda *ibgda, const struct nvs_ibgda_batch *batch, uint32_t queue);
/* The structures of a later batch. */
int nvs_ibgda_batch_write(const struct nvs_ibgda *ibgda, const struct nvs_ibgda_batch *batch);
int nvs_ibgda_keys_make(struct nvs_ibgda *ibgda);
void nvs_ibgda_keys_drop(struct nvs_ibgda *ibgda);
void nvs_ibgda_buffers_drop(struct nvs_ibgda *ibgda);
int nvs_ibgda_tables_make(struct nvs_ibgda *ibgda);
int nvs_ibgda_watch(struct nvs_ibgda *ibgda);
void nvs_ibgda_unwatch(struct nvs_ibgda *ibgda);

#endif
