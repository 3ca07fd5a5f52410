/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dev-state: the view of a batch of queues that device functions work on.
 *
 * One shared anonymous mapping holds the head, the dev-qps and the slot words; the scratch slots for results of
 * reads and atomics are one sealed memfd, registered with the NIC. Addresses are this process's: the
 * view is for CPU threads. This file writes constant fields once; the rest belongs to the device functions,
 * except that a QP that went back to RST starts again from zero.
 */
#include <string.h>
#include <sys/mman.h>

#include <arpa/inet.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/wqe.h>

#include "libclient/objects.h"

/* A WQEBB less control segment, address segment and the inline header. */
#define MAX_INLINE_BYTES (SHMD_WQEBB_BYTES - 16u - 16u - 4u)

static int map_dev(struct shmd_queues *queues)
{
	size_t n = queues->attr.n_qps;
	size_t qps_bytes = n * sizeof(struct shmd_dev_qp);
	size_t slots_bytes = n * queues->attr.sq_wqebbs * sizeof(uint32_t);
	size_t bytes = sizeof(struct shmd_dev_state) + qps_bytes + slots_bytes;
	char *dev = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (dev == MAP_FAILED)
		return text_fail(-errno, "no memory for the dev-state of %zu QPs", n);
	queues->dev = dev;
	queues->dev_bytes = bytes;
	queues->dev_state = (struct shmd_dev_state *)dev;
	queues->dev_qps = (struct shmd_dev_qp *)(dev + sizeof(struct shmd_dev_state));
	queues->slot_busy = (uint32_t *)(dev + sizeof(struct shmd_dev_state) + qps_bytes);
	return 0;
}

static int make_scratch(struct shmd_queues *queues)
{
	/* bounded: 32 bits of QPs, 2^15 WQEBBs each. */
	size_t bytes = (size_t)queues->attr.n_qps * queues->attr.sq_wqebbs * SHMD_SCRATCH_SLOT_BYTES;
	int r = shmd_mem_alloc(queues->nic->client, bytes, &queues->scratch);

	if (r < 0)
		return r;
	return shmd_mr_reg_mem(queues->nic, queues->scratch, SHMD_ACCESS_LOCAL_WRITE, &queues->scratch_mr);
}

static void fill_rings(struct shmd_dev_qp *dev, const struct queue_batch *batch, unsigned int i)
{
	const struct msg_qp_info *qp = &batch->qps[i];
	const struct msg_cq_info *cq = &batch->cqs[i];
	uint64_t base = (uintptr_t)batch->mem;

	/* bounded: batch_is_sound() has seen the daemon's answer. */
	dev->sq_addr = base + qp->sq_offset;
	dev->sq_dbrec_addr = base + qp->dbrec_offset + offsetof(struct shmd_dbrec, snd);
	dev->cq_addr = base + cq->ring_offset;
	dev->cq_dbrec_addr = base + cq->dbrec_offset + offsetof(struct shmd_dbrec, rcv);
	dev->qpn = qp->qpn;
	dev->sq_wqebbs = 1u << qp->log2_sq_wqebbs;
	dev->cq_entries = 1u << cq->log2_entries;
	if (!qp->n_rq_wqes)
		return;
	dev->rq_addr = base + qp->rq_offset;
	dev->rq_dbrec_addr = base + qp->dbrec_offset + offsetof(struct shmd_dbrec, rcv);
	dev->rq_wqes = qp->n_rq_wqes;
	dev->rq_stride_shift = qp->log2_rq_stride;
}

/* The daemon writes the reason for a QP's failure there. The caller's memory may hold anything before. */
static void clear_error_word(const struct shmd_dev_qp *dev)
{
	uint64_t dbrec = dev->sq_dbrec_addr - offsetof(struct shmd_dbrec, snd);

	__atomic_store_n((uint32_t *)(uintptr_t)(dbrec + SHMD_QP_ERROR_OFFSET), 0, __ATOMIC_RELEASE);
}

static void fill_nic(struct shmd_dev_qp *dev, const struct shmd_queues *queues)
{
	struct shmd_nic *nic = queues->nic;

	pthread_mutex_lock(&nic->doorbell_lock);
	dev->doorbell_addr = (uintptr_t)nic->page + nic->register_offset;
	dev->doorbell_mode = (uint8_t)nic->info.doorbell_mode;
	dev->health_addr = (uintptr_t)&nic->client->health->nic[nic->info.index];
	dev->nic = (uint16_t)nic->info.index;
	/* Only a ringer that can wake a sleeping thread does so; a GPU cannot, and its queues are polled by timer. */
	if (!queues->attr.gpu_driven && nic->nic_page && nic->wake_fd >= 0) {
		dev->nic_page_addr = (uintptr_t)nic->nic_page;
		dev->wake_handle = (uint64_t)nic->wake_fd;
		dev->flags |= SHMD_QP_WAKE;
	}
	pthread_mutex_unlock(&nic->doorbell_lock);
}

static uint32_t atomic_flags(uint32_t atomics)
{
	return (atomics & SHMD_ATOMIC_8 ? 0 : SHMD_QP_NO_ATOMIC_8) | (atomics & SHMD_ATOMIC_MASKED_4 ? 0 : SHMD_QP_NO_MASKED_4) |
	       (atomics & SHMD_ATOMIC_MASKED_8 ? 0 : SHMD_QP_NO_MASKED_8) |
	       (atomics & SHMD_ATOMIC_RESULT_BE ? SHMD_QP_ATOMIC_8_BE : 0);
}

static void fill_qp(struct shmd_queues *queues, unsigned int i)
{
	const struct queue_batch *batch = queues_batch_of(queues, i);
	struct shmd_dev_qp *dev = &queues->dev_qps[i];
	size_t first_slot = (size_t)i * queues->attr.sq_wqebbs;

	if (queues->attr.cq_mode == SHMD_CQ_MODE_COLLAPSED)
		dev->flags |= SHMD_QP_CQ_COLLAPSED;
	if (queues->attr.qp_type == SHMD_QP_TYPE_DCI)
		dev->flags |= SHMD_QP_DC | atomic_flags(queues->nic->info.atomics_dc);
	else
		dev->flags |= atomic_flags(queues->nic->info.atomics);
	fill_rings(dev, batch, i - batch->first);
	clear_error_word(dev);
	dev->flags |= SHMD_QP_TELLS_ERROR;
	fill_nic(dev, queues);
	dev->scratch_addr = (uintptr_t)shmd_mem_addr(queues->scratch) +
			    first_slot * SHMD_SCRATCH_SLOT_BYTES;
	dev->scratch_iova = dev->scratch_addr;
	dev->scratch_lkey_be = shmd_mr_lkey_be(queues->scratch_mr);
	dev->slot_busy_addr = (uintptr_t)&queues->slot_busy[first_slot];
	dev->sharing = (uint8_t)queues->attr.sharing;
	dev->placement = SHMD_PLACEMENT_HOST;
	dev->max_inline_bytes = MAX_INLINE_BYTES;
	/* A NIC thread that stopped must not hold a poster for ever. */
	dev->post_timeout_nsec = client_timeout_nsec(queues->nic->client);
}

static void fill_head(struct shmd_queues *queues)
{
	*queues->dev_state = (struct shmd_dev_state){
		.version = SHMD_DEV_STATE_VERSION,
		.size_bytes = sizeof(struct shmd_dev_state),
		.n_qps = queues->attr.n_qps,
		.n_nics = 1,
		.qps_addr = (uintptr_t)queues->dev_qps,
		.health_addr = (uintptr_t)queues->nic->client->health,
	};
}

int dev_state_init(struct shmd_queues *queues)
{
	int r = map_dev(queues);

	if (!r)
		r = make_scratch(queues);
	if (r < 0)
		return r;
	for (unsigned int i = 0; i < queues->attr.n_qps; i++)
		fill_qp(queues, i);
	fill_head(queues);
	return 0;
}

int dev_state_release_scratch(struct shmd_queues *queues)
{
	int r = 0;

	if (queues->scratch_mr)
		r = shmd_mr_dereg(queues->scratch_mr);
	if (r < 0)
		return r;
	queues->scratch_mr = NULL;
	shmd_mem_free(queues->scratch);
	queues->scratch = NULL;
	return 0;
}

void dev_state_deinit(struct shmd_queues *queues)
{
	if (queues->dev)
		munmap(queues->dev, queues->dev_bytes);
	queues->dev = NULL;
}

/* ---- back to RST */

/*
 * A QP in RST writes no CQE, but its CQ goes on counting where it was: this consumes the CQEs in the ring, so
 * that the next one is found at the NIC's own index.
 */
static void drain_ordinary_cq(struct shmd_dev_qp *dev)
{
	const struct shmd_cqe *ring = (const void *)(uintptr_t)dev->cq_addr;
	struct shmd_dbrec *dbrec = (void *)(uintptr_t)dev->cq_dbrec_addr;

	for (;;) {
		const struct shmd_cqe *cqe = &ring[dev->cq_ci & (dev->cq_entries - 1)];
		uint8_t op_own = __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE);
		uint8_t owner = (uint8_t)(dev->cq_ci / dev->cq_entries & 1);

		if (op_own >> 4 == SHMD_CQE_INVALID || (op_own & SHMD_CQE_OWNER_MASK) != owner)
			break;
		dev->cq_ci++;
	}
	__atomic_store_n(&dbrec->rcv, (shmd_be32)htonl((uint32_t)dev->cq_ci & 0xffffffu), __ATOMIC_RELEASE);
}

static void clear_dbrec(struct shmd_dev_qp *dev)
{
	uint64_t snd = dev->sq_dbrec_addr;
	struct shmd_dbrec *dbrec = (void *)(uintptr_t)(snd - offsetof(struct shmd_dbrec, snd));

	__atomic_store_n(&dbrec->rcv, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&dbrec->snd, 0, __ATOMIC_RELEASE);
}

void dev_state_reset_qp(struct shmd_queues *queues, unsigned int i)
{
	struct shmd_dev_qp *dev = &queues->dev_qps[i];
	uint64_t cq_ci;

	if (dev->flags & SHMD_QP_CQ_COLLAPSED)
		memset((void *)(uintptr_t)dev->cq_addr, 0xff, SHMD_CQE_BYTES);
	else
		drain_ordinary_cq(dev);
	clear_dbrec(dev);
	clear_error_word(dev);
	cq_ci = dev->cq_ci;
	memset((char *)dev + offsetof(struct shmd_dev_qp, sq_rsvd_index), 0,
	       sizeof(*dev) - offsetof(struct shmd_dev_qp, sq_rsvd_index));
	if (!(dev->flags & SHMD_QP_CQ_COLLAPSED))
		dev->cq_ci = cq_ci;
	memset((void *)(uintptr_t)dev->slot_busy_addr, 0, dev->sq_wqebbs * sizeof(uint32_t));
}

/* ---- asking */

struct shmd_dev_qp *shmd_queues_dev_qp(struct shmd_queues *queues, unsigned int i)
{
	return queues && i < queues->attr.n_qps ? &queues->dev_qps[i] : NULL;
}

const struct shmd_dev_state *shmd_queues_dev_state(struct shmd_queues *queues)
{
	return queues ? queues->dev_state : NULL;
}
