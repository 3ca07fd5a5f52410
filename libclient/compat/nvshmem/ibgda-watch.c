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
#include <stdlib.h>
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

/* One line for each PE, at its first queue that fails. */
static void note(struct nvs_ibgda *ibgda, uint32_t queue, const char *why)
{
	int pe = nvs_ibgda_peer_of(ibgda, queue);
	uint32_t first = nvs_ibgda_first_to(ibgda, pe), n = pe == nvs.facts.mype ? 1 : ibgda->n_to_each;
	bool is_known = false;

	for (uint32_t i = first; i < first + n; i++)
		is_known |= ibgda->failed[i];
	ibgda->failed[queue] = true;
	if (!is_known)
		tell(pe, has_ended(pe) ? "it has ended" : why);
}

/* number 0: several have failed. */
static void note_event(struct nvs_ibgda *ibgda, const struct shmd_event *event)
{
	struct shmd_qp_info info;

	for (uint32_t i = 0; i < ibgda->n_queues; i++) {
		if (ibgda->failed[i] || (event->number && shmd_queues_dev_qp(ibgda->queues, i)->qpn != event->number))
			continue;
		if (event->number)
			note(ibgda, i, shmd_syndrome_text(event->detail));
		else if (!shmd_queues_query(ibgda->queues, i, &info) && info.state == SHMD_QP_ERR)
			note(ibgda, i, shmd_syndrome_text(info.first_error));
	}
}

/* Their requests are flushed, and so is what is posted later. */
static void end_queues_to_ended(struct nvs_ibgda *ibgda)
{
	for (uint32_t i = 0; i < ibgda->n_queues; i++) {
		if (ibgda->failed[i] || !has_ended(nvs_ibgda_peer_of(ibgda, i)))
			continue;
		(void)shmd_queues_modify(ibgda->queues, i, SHMD_QP_ERR);
		note(ibgda, i, "it has ended");
	}
}

/* The end of a CQE is one store, as the NIC writes it. Returns whether requests are lost. */
static bool raise_number(struct nvs_ibgda *ibgda, uint32_t queue)
{
	struct shmd_cqe *cqe = (struct shmd_cqe *)(uintptr_t)shmd_queues_dev_qp(ibgda->queues, queue)->cq_addr;
	uint64_t *end = (uint64_t *)(void *)&cqe->sop_drop_qpn, word, posted = 0;
	struct shmd_cqe last;

	word = __atomic_load_n(end, __ATOMIC_ACQUIRE);
	memcpy(&last.sop_drop_qpn, &word, sizeof(word));
	if (last.op_own >> 4 != SHMD_CQE_REQ_ERR)
		return false;
	/* Fails if a kernel has asserted. */
	if (device_read(nvs.device, &posted, nvs_ibgda_qp_at(ibgda, queue) + offsetof(struct nvs_ibgda_qp, mvars.ready_head), sizeof(posted)) < 0 || !posted)
		return true;
	last.wqe_counter = __builtin_bswap16((uint16_t)(posted - 1));
	memcpy(&word, &last.sop_drop_qpn, sizeof(word));
	__atomic_store_n(end, word, __ATOMIC_RELEASE);
	return true;
}

static void end_job(const struct nvs_ibgda *ibgda, uint32_t queue)
{
	char why[160];

	snprintf(why, sizeof(why), "requests of kernels of PE %d to PE %d are lost, which NVSHMEM's device code does not notice", nvs.facts.mype,
		 nvs_ibgda_peer_of(ibgda, queue));
	shmd_world_abort(nvs.world, 1, why);
}

/* Turns are short while there are events. */
static void raise_numbers(struct nvs_ibgda *ibgda)
{
	uint32_t lost = ibgda->n_queues;

	for (uint32_t i = 0; i < ibgda->n_queues; i++)
		if (ibgda->failed[i] && raise_number(ibgda, i) && lost == ibgda->n_queues)
			lost = i;
	if (lost == ibgda->n_queues)
		return;
	if (!ibgda->lost_nsec)
		ibgda->lost_nsec = nsec_now();
	if (nsec_now() - ibgda->lost_nsec >= END_NSEC)
		end_job(ibgda, lost);
}

/* ---- without a NIC */

/* Whether requests are under way, or the daemon's end has failed them: the last one of those that are posted together has a CQE. */
static bool has_lost(const struct nvs_ibgda *ibgda, uint32_t queue)
{
	const struct shmd_cqe *cqe = (const struct shmd_cqe *)(uintptr_t)shmd_queues_dev_qp(ibgda->queues, queue)->cq_addr;
	uint64_t posted = 0;

	if (__atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE) >> 4 == SHMD_CQE_REQ_ERR)
		return true;
	/* Fails if kernels have ended already. */
	if (device_read(nvs.device, &posted, nvs_ibgda_qp_at(ibgda, queue) + offsetof(struct nvs_ibgda_qp, mvars.ready_head), sizeof(posted)) < 0)
		return false;
	return (uint16_t)(__builtin_bswap16(__atomic_load_n(&cqe->wqe_counter, __ATOMIC_ACQUIRE)) + 1) != (uint16_t)posted;
}

/* Requests of kernels complete no more, and no CQE says so. A job whose kernels post nothing goes on. */
static void watch_without_nic(const struct nvs_ibgda *ibgda, const char *why)
{
	fprintf(stderr, "shmemd: NVSHMEM queues: PE %d: kernels have no queues any more: %s\n", nvs.facts.mype, why);
	while (!__atomic_load_n(&ibgda->ends, __ATOMIC_ACQUIRE)) {
		for (uint32_t i = 0; i < ibgda->n_queues; i++)
			if (has_lost(ibgda, i))
				end_job(ibgda, i);
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
			note_event(ibgda, &event);
		if (!r && event.kind == SHMD_EVENT_NIC_LOST)
			watch_without_nic(ibgda, event.text);
		if (r < 0 && r != -EAGAIN)
			watch_without_nic(ibgda, shmd_error_text());
		end_queues_to_ended(ibgda);
		raise_numbers(ibgda);
	}
	return NULL;
}

int nvs_ibgda_watch(struct nvs_ibgda *ibgda)
{
	int r;

	ibgda->failed = calloc(ibgda->n_queues, sizeof(*ibgda->failed));
	if (!ibgda->failed)
		return shmd_error_set(-ENOMEM, "no memory for %u queues", ibgda->n_queues);
	r = -thread_start(&ibgda->watcher, 0, "nvs-queues", watch, ibgda);
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
