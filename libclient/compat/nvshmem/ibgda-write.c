/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structures of queues in GPU memory: words by which versions select queues, the queue to this PE, CQs, and an array of QPs for each order.
 * The queue to this PE stands in its own array alone; its places in the others are zeros, which device code does not look at.
 */
#include <errno.h>
#include <stdlib.h>

#include "libclient/compat/nvshmem/ibgda.h"
#include "proto/base/cleanup.h"

#define RESULTS_BYTES ((uint64_t)NVS_IBGDA_SLOT_BYTES * (1 + NVS_IBGDA_SLOTS))

static uint32_t n_places(const struct nvs_ibgda *ibgda)
{
	return ibgda->n_rc * (uint32_t)nvs.facts.npes;
}

/* Returns the bytes of all of it, which begin at ibgda->tables. */
static size_t place_all(struct nvs_ibgda *ibgda)
{
	uint64_t end = ibgda->tables;

	for (unsigned int group = 0; group < NVS_IBGDA_GROUPS; group++) {
		ibgda->switches_at[group] = end;
		end += (nvs_ibgda_switches_bytes(ibgda->n_rc) + 7) / 8 * 8;
	}
	ibgda->dci_at = end;
	end += sizeof(struct nvs_ibgda_qp);
	for (unsigned int order = 0; order < 2; order++) {
		ibgda->rcs_at[order] = end;
		end += order < nvs_ibgda_orders(ibgda->n_rc) ? n_places(ibgda) * sizeof(struct nvs_ibgda_qp) : 0;
	}
	ibgda->cqs_at = end;
	end += ibgda->n_queues * sizeof(struct nvs_ibgda_cq);
	return end - ibgda->tables;
}

/* The queues as the GPU sees them. */
static int read_queues(const struct nvs_ibgda *ibgda, struct shmd_dev_qp *qps)
{
	struct shmd_dev_state state;
	uint64_t at = 0;
	int r = shmd_gpu_dev_state(ibgda->gpu, ibgda->queues, &at);

	if (!r)
		r = device_read(nvs.device, &state, at, sizeof(state));
	return r ? r : device_read(nvs.device, qps, state.qps_addr, ibgda->n_queues * sizeof(*qps));
}

static void fill(const struct nvs_ibgda *ibgda, const struct shmd_dev_qp *qps, uint8_t *image)
{
	for (uint32_t i = 0; i < ibgda->n_queues; i++) {
		uint64_t at = nvs_ibgda_qp_at(ibgda, i), cq_at = ibgda->cqs_at + i * sizeof(struct nvs_ibgda_cq);
		struct nvs_ibgda_queue queue = {
			.qpn = qps[i].qpn,
			.wqebbs = qps[i].sq_wqebbs,
			.ring = qps[i].sq_addr,
			.dbrec = qps[i].sq_dbrec_addr,
			.doorbell = qps[i].doorbell_addr,
			.cqes = qps[i].cq_addr,
			.results = ibgda->results_at + i * RESULTS_BYTES,
			.results_lkey_be = shmd_mr_lkey_be(ibgda->results_mr),
			.results_rkey_be = shmd_mr_rkey_be(ibgda->results_mr),
		};

		nvs_ibgda_qp_fill(&queue, at, cq_at, (struct nvs_ibgda_qp *)(void *)(image + (at - ibgda->tables)),
				  (struct nvs_ibgda_cq *)(void *)(image + (cq_at - ibgda->tables)));
	}
}

int nvs_ibgda_tables_make(struct nvs_ibgda *ibgda)
{
	size_t bytes = place_all(ibgda);
	_cleanup_free_ struct shmd_dev_qp *qps = calloc(ibgda->n_queues, sizeof(*qps));
	_cleanup_free_ uint8_t *image = calloc(1, bytes);
	int r = qps && image ? read_queues(ibgda, qps) : shmd_error_set(-ENOMEM, "no memory for %u queues", ibgda->n_queues);

	if (!r)
		r = device_alloc(nvs.device, bytes, &ibgda->tables);
	if (r < 0)
		return r;
	(void)place_all(ibgda);
	fill(ibgda, qps, image);
	return device_write(nvs.device, ibgda->tables, image, bytes);
}

int nvs_ibgda_show(const struct nvs_client *client)
{
	const struct nvs_ibgda *ibgda = nvs.ibgda;
	struct nvs_ibgda_facts facts = {
		.npes = (uint32_t)nvs.facts.npes,
		.n_rc = ibgda->n_rc,
		.switches = ibgda->switches_at[nvs_ibgda_group_of(client->version)],
		.cqs = ibgda->cqs_at,
		.dcis = ibgda->dci_at,
		.rcs = ibgda->rcs_at[nvs_ibgda_order_of(client->version, ibgda->n_rc)],
		.buffers = ibgda->buffers_at,
		.lkeys = ibgda->lkeys_at,
		.rkeys = ibgda->rkeys_at,
		.first_lkeys = ibgda->lkeys,
		.first_rkeys = ibgda->rkeys,
	};
	struct nvs_ibgda_state state;

	if (!client->transport)
		return shmd_error_set(-EOPNOTSUPP, "the memory of some PEs is not mapped here, and these kernels (NVSHMEM %d.%d) have no code for queues",
				      client->version.major, client->version.minor);
	nvs_ibgda_state_fill(&facts, client->version, &state);
	return device_write(nvs.device, client->transport, &state, sizeof(state));
}
