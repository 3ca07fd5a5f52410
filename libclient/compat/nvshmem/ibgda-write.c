/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structures of queues in GPU memory: words by which versions select queues, the queue to this PE, CQs, and an array of QPs for each order.
 *
 * The queue to this PE stands in an array of its own. Its places in the others have structures to which nothing is posted: device code of 3.8
 * asks some of them in a fence whether they are idle, if there are several queues to a PE.
 */
#include <errno.h>
#include <stdlib.h>

#include "libclient/compat/nvshmem/ibgda.h"
#include "proto/base/cleanup.h"

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
	end += (ibgda->n_queues + ibgda->n_to_each) * sizeof(struct nvs_ibgda_cq);
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

struct filling {
	const struct nvs_ibgda *ibgda;
	const struct shmd_dev_qp *qps;
	uint8_t *image;
	uint32_t n_cqs; /* so far */
};

/* A queue, as it lies at `at`. */
static void fill(struct filling *filling, uint32_t i, uint64_t at)
{
	const struct nvs_ibgda *ibgda = filling->ibgda;
	const struct shmd_dev_qp *qp = &filling->qps[i];
	/* bounded: place_all() */
	uint64_t cq_at = ibgda->cqs_at + filling->n_cqs++ * sizeof(struct nvs_ibgda_cq);
	struct nvs_ibgda_queue queue = {
		.qpn = qp->qpn,
		.wqebbs = qp->sq_wqebbs,
		.ring = qp->sq_addr,
		.dbrec = qp->sq_dbrec_addr,
		.doorbell = qp->doorbell_addr,
		.cqes = qp->cq_addr,
		.results = ibgda->results_at + i * NVS_IBGDA_RESULTS_BYTES,
		.results_lkey_be = shmd_mr_lkey_be(ibgda->results_mr),
		.results_rkey_be = shmd_mr_rkey_be(ibgda->results_mr),
	};

	nvs_ibgda_qp_fill(&queue, at, cq_at, (struct nvs_ibgda_qp *)(void *)(filling->image + (at - ibgda->tables)),
			  (struct nvs_ibgda_cq *)(void *)(filling->image + (cq_at - ibgda->tables)));
}

static void fill_all(struct filling *filling)
{
	const struct nvs_ibgda *ibgda = filling->ibgda;

	for (uint32_t i = 0; i < ibgda->n_queues; i++)
		fill(filling, i, nvs_ibgda_qp_at(ibgda, i));
	for (uint32_t number = 0; number < ibgda->n_to_each; number++)
		fill(filling, ibgda->n_queues - 1, nvs_ibgda_place_at(ibgda, number, nvs.facts.mype));
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
	fill_all(&(struct filling){.ibgda = ibgda, .qps = qps, .image = image});
	return device_write(nvs.device, ibgda->tables, image, bytes);
}

int nvs_ibgda_show(const struct nvs_client *client)
{
	const struct nvs_ibgda *ibgda = nvs.ibgda;
	struct nvs_ibgda_facts facts = {
		.npes = (uint32_t)nvs.facts.npes,
		.log2_piece = ibgda->log2_piece,
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
