/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of kernels that fail. It says which PE a queue led to, and why it failed. Queues to a PE that has ended fail at once, and not when the
 * NIC's retries are used up.
 *
 * Device code looks at a CQE only once the CQE's number says that what it waits for is complete. The error of a QP in a collapsed CQ has the number
 * of the request that failed, so kernels that wait for a later one would wait for ever: the watcher raises the number to the last request that was
 * posted. Then device code that was compiled with assertions ends with an error of CUDA. That of NVIDIA's libraries has none, and goes on without
 * the data; so a little later the watcher ends the job.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <shmd/abi/cqe.h>

#include "libclient/compat/nvshmem/ibgda.h"
#include "proto/base/nsec.h"
#include "proto/base/thread.h"

#define TURN_NSEC UINT64_C(50000000)
#define END_NSEC (10 * TURN_NSEC) /* since requests are lost; kernels may say more by then */

static bool has_ended(int pe)
{
	const struct shmd_dev_world *dev = shmd_world_dev(nvs.world);
	const struct shmd_dev_pe *pes = (const struct shmd_dev_pe *)(uintptr_t)dev->pes_addr;

	return __atomic_load_n(&pes[pe].path[SHMD_DEV_HEAP_HOST], __ATOMIC_ACQUIRE) == SHMD_PATH_GONE;
}

static void tell(int pe, const char *why)
{
	fprintf(stderr, "shmemd: NVSHMEM queues: PE %d: no kernel reaches PE %d any more: %s\n", nvs.facts.mype, pe, why);
}

/* Calls act() for each queue of all batches. */
static void for_each(struct nvs_ibgda *ibgda, void (*act)(struct nvs_ibgda *, struct nvs_ibgda_batch *, uint32_t, const void *), const void *context)
{
	uint32_t n = __atomic_load_n(&ibgda->n_batches, __ATOMIC_ACQUIRE);

	for (uint32_t b = 0; b < n; b++)
		for (uint32_t i = 0; i < ibgda->batches[b].n; i++)
			act(ibgda, &ibgda->batches[b], i, context);
}

static bool has_failed(struct nvs_ibgda *ibgda, int pe)
{
	uint32_t n = __atomic_load_n(&ibgda->n_batches, __ATOMIC_ACQUIRE);
	bool found = false;

	for (uint32_t b = 0; b < n && !found; b++)
		for (uint32_t i = 0; i < ibgda->batches[b].n && !found; i++)
			found = ibgda->batches[b].failed[i] && nvs_ibgda_peer_of(&ibgda->batches[b], i) == pe;
	return found;
}

/* One line for each PE, at its first queue that fails. */
static void note(struct nvs_ibgda *ibgda, struct nvs_ibgda_batch *batch, uint32_t queue, const char *why)
{
	int pe = nvs_ibgda_peer_of(batch, queue);
	bool is_known = has_failed(ibgda, pe);

	batch->failed[queue] = true;
	if (!is_known)
		tell(pe, has_ended(pe) ? "it has ended" : why);
}

/* number 0: several have failed. */
static void note_event(struct nvs_ibgda *ibgda, struct nvs_ibgda_batch *batch, uint32_t i, const void *context)
{
	const struct shmd_event *event = context;
	struct shmd_qp_info info;

	if (batch->failed[i] || (event->number && shmd_queues_dev_qp(batch->queues, i)->qpn != event->number))
		return;
	if (event->number)
		note(ibgda, batch, i, shmd_syndrome_text(event->detail));
	else if (!shmd_queues_query(batch->queues, i, &info) && info.state == SHMD_QP_ERR)
		note(ibgda, batch, i, shmd_syndrome_text(info.first_error));
}

/* Its requests are flushed, and so is what is posted later. */
static void end_if_peer_has(struct nvs_ibgda *ibgda, struct nvs_ibgda_batch *batch, uint32_t i, const void *context)
{
	(void)context;
	if (batch->failed[i] || !has_ended(nvs_ibgda_peer_of(batch, i)))
		return;
	(void)shmd_queues_modify(batch->queues, i, SHMD_QP_ERR);
	note(ibgda, batch, i, "it has ended");
}

/* The end of a CQE is one store, as the NIC writes it. Returns whether requests are lost. */
static bool raise_number(const struct nvs_ibgda *ibgda, const struct nvs_ibgda_batch *batch, uint32_t queue)
{
	struct shmd_cqe *cqe = (struct shmd_cqe *)(uintptr_t)shmd_queues_dev_qp(batch->queues, queue)->cq_addr;
	uint64_t *end = (uint64_t *)(void *)&cqe->sop_drop_qpn, word, posted = 0;
	struct shmd_cqe last;

	word = __atomic_load_n(end, __ATOMIC_ACQUIRE);
	memcpy(&last.sop_drop_qpn, &word, sizeof(word));
	if (last.op_own >> 4 != SHMD_CQE_REQ_ERR)
		return false;
	/* Fails if a kernel has asserted. */
	if (device_read(nvs.device, &posted, nvs_ibgda_qp_at(ibgda, batch, queue) + offsetof(struct nvs_ibgda_qp, mvars.ready_head), sizeof(posted)) < 0 || !posted)
		return true;
	last.wqe_counter = __builtin_bswap16((uint16_t)(posted - 1));
	memcpy(&word, &last.sop_drop_qpn, sizeof(word));
	__atomic_store_n(end, word, __ATOMIC_RELEASE);
	return true;
}

static void end_job(int pe)
{
	char why[160];

	snprintf(why, sizeof(why), "requests of kernels of PE %d to PE %d are lost, which NVSHMEM's device code does not notice", nvs.facts.mype, pe);
	shmd_world_abort(nvs.world, 1, why);
}

/* Turns may be short, so the time since the first loss counts, not their number. */
static void raise_if_failed(struct nvs_ibgda *ibgda, struct nvs_ibgda_batch *batch, uint32_t i, const void *context)
{
	(void)context;
	if (!batch->failed[i] || !raise_number(ibgda, batch, i))
		return;
	if (!ibgda->lost_nsec)
		ibgda->lost_nsec = nsec_now();
	if (nsec_now() - ibgda->lost_nsec >= END_NSEC)
		end_job(nvs_ibgda_peer_of(batch, i));
}

/* ---- without a NIC */

/* Whether requests are under way, or the daemon's end has failed them: the last one of those that are posted together has a CQE. */
static bool has_lost(const struct nvs_ibgda *ibgda, const struct nvs_ibgda_batch *batch, uint32_t queue)
{
	const struct shmd_cqe *cqe = (const struct shmd_cqe *)(uintptr_t)shmd_queues_dev_qp(batch->queues, queue)->cq_addr;
	uint64_t posted = 0;

	if (__atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE) >> 4 == SHMD_CQE_REQ_ERR)
		return true;
	/* Fails if kernels have ended already. */
	if (device_read(nvs.device, &posted, nvs_ibgda_qp_at(ibgda, batch, queue) + offsetof(struct nvs_ibgda_qp, mvars.ready_head), sizeof(posted)) < 0)
		return false;
	return (uint16_t)(__builtin_bswap16(__atomic_load_n(&cqe->wqe_counter, __ATOMIC_ACQUIRE)) + 1) != (uint16_t)posted;
}

static void end_if_lost(struct nvs_ibgda *ibgda, struct nvs_ibgda_batch *batch, uint32_t i, const void *context)
{
	(void)context;
	if (has_lost(ibgda, batch, i))
		end_job(nvs_ibgda_peer_of(batch, i));
}

/* Requests of kernels complete no more, and no CQE says so. A job whose kernels post nothing goes on. */
static void watch_without_nic(struct nvs_ibgda *ibgda, const char *why)
{
	fprintf(stderr, "shmemd: NVSHMEM queues: PE %d: kernels have no queues any more: %s\n", nvs.facts.mype, why);
	while (!__atomic_load_n(&ibgda->ends, __ATOMIC_ACQUIRE)) {
		for_each(ibgda, end_if_lost, NULL);
		usleep(TURN_NSEC / NSEC_PER_USEC);
	}
}

static void *watch(void *context)
{
	struct nvs_ibgda *ibgda = context;
	struct shmd_event event;

	while (!__atomic_load_n(&ibgda->ends, __ATOMIC_ACQUIRE)) {
		int r = shmd_event_next(ibgda->client, TURN_NSEC, &event);

		if (!r && event.kind == SHMD_EVENT_QP_ERROR)
			for_each(ibgda, note_event, &event);
		if (!r && event.kind == SHMD_EVENT_NIC_LOST)
			watch_without_nic(ibgda, event.text);
		if (r < 0 && r != -EAGAIN)
			watch_without_nic(ibgda, shmd_error_text());
		for_each(ibgda, end_if_peer_has, NULL);
		for_each(ibgda, raise_if_failed, NULL);
	}
	return NULL;
}

int nvs_ibgda_watch(struct nvs_ibgda *ibgda)
{
	int r = -thread_start(&ibgda->watcher, 0, "nvs-queues", watch, ibgda);

	ibgda->has_watcher = !r;
	return r ? shmd_error_set(-r, "no thread for the queues of kernels: %s", strerror(r)) : 0;
}

void nvs_ibgda_unwatch(struct nvs_ibgda *ibgda)
{
	__atomic_store_n(&ibgda->ends, true, __ATOMIC_RELEASE);
	if (ibgda->has_watcher)
		pthread_join(ibgda->watcher, NULL);
	ibgda->has_watcher = false;
}
