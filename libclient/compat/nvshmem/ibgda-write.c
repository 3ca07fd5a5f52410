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

static uint32_t n_created_places(void)
{
	return NVS_IBGDA_CREATED * (uint32_t)nvs.facts.npes;
}

static uint32_t n_first_cqs(const struct nvs_ibgda *ibgda)
{
	return ibgda->batches[0].n + ibgda->n_to_each;
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
	/* Behind the last array. */
	end += n_created_places() * sizeof(struct nvs_ibgda_qp);
	ibgda->cqs_at = end;
	end += (n_first_cqs(ibgda) + n_created_places()) * sizeof(struct nvs_ibgda_cq);
	return end - ibgda->tables;
}

/* The queues as the GPU sees them. */
static int read_queues(const struct nvs_ibgda *ibgda, const struct nvs_ibgda_batch *batch, struct shmd_dev_qp *qps)
{
	struct shmd_dev_state state;
	uint64_t at = 0;
	int r = shmd_gpu_dev_state(ibgda->gpu, batch->queues, &at);

	if (!r)
		r = device_read(nvs.device, &state, at, sizeof(state));
	return r ? r : device_read(nvs.device, qps, state.qps_addr, batch->n * sizeof(*qps));
}

static struct nvs_ibgda_queue describe(const struct nvs_ibgda_batch *batch, const struct shmd_dev_qp *qp, uint32_t i)
{
	return (struct nvs_ibgda_queue){
		.qpn = qp->qpn,
		.wqebbs = qp->sq_wqebbs,
		.ring = qp->sq_addr,
		.dbrec = qp->sq_dbrec_addr,
		.doorbell = qp->doorbell_addr,
		.cqes = qp->cq_addr,
		.results = batch->results_at + i * NVS_IBGDA_RESULTS_BYTES,
		.results_lkey_be = shmd_mr_lkey_be(batch->results_mr),
		.results_rkey_be = shmd_mr_rkey_be(batch->results_mr),
	};
}

struct filling {
	const struct nvs_ibgda *ibgda;
	const struct shmd_dev_qp *qps;
	uint8_t *image;
	uint32_t n_cqs; /* so far */
};

/* A queue of the first batch, as it lies at `at`. */
static void fill(struct filling *filling, uint32_t i, uint64_t at)
{
	const struct nvs_ibgda *ibgda = filling->ibgda;
	struct nvs_ibgda_queue queue = describe(&ibgda->batches[0], &filling->qps[i], i);
	/* bounded: place_all() */
	uint64_t cq_at = ibgda->cqs_at + filling->n_cqs++ * sizeof(struct nvs_ibgda_cq);

	nvs_ibgda_qp_fill(&queue, at, cq_at, (struct nvs_ibgda_qp *)(void *)(filling->image + (at - ibgda->tables)),
			  (struct nvs_ibgda_cq *)(void *)(filling->image + (cq_at - ibgda->tables)));
}

static void fill_all(struct filling *filling)
{
	const struct nvs_ibgda *ibgda = filling->ibgda;
	const struct nvs_ibgda_batch *batch = &ibgda->batches[0];

	for (uint32_t i = 0; i < batch->n; i++)
		fill(filling, i, nvs_ibgda_qp_at(ibgda, batch, i));
	for (uint32_t number = 0; number < ibgda->n_to_each; number++)
		fill(filling, batch->n - 1, nvs_ibgda_place_at(ibgda, batch, number, nvs.facts.mype));
}

int nvs_ibgda_tables_make(struct nvs_ibgda *ibgda)
{
	size_t bytes = place_all(ibgda);
	const struct nvs_ibgda_batch *batch = &ibgda->batches[0];
	_cleanup_free_ struct shmd_dev_qp *qps = calloc(batch->n, sizeof(*qps));
	_cleanup_free_ uint8_t *image = calloc(1, bytes);
	int r = qps && image ? read_queues(ibgda, batch, qps) : shmd_error_set(-ENOMEM, "no memory for %u queues", batch->n);

	if (!r)
		r = device_alloc(nvs.device, bytes, &ibgda->tables);
	if (r < 0)
		return r;
	(void)place_all(ibgda);
	fill_all(&(struct filling){.ibgda = ibgda, .qps = qps, .image = image});
	return device_write(nvs.device, ibgda->tables, image, bytes);
}

/* ---- later batches: kernels may count in the structures of all others, so only those of the batch are written */

static int write_one(const struct nvs_ibgda *ibgda, const struct nvs_ibgda_queue *queue, uint64_t at)
{
	uint64_t last_array = ibgda->rcs_at[nvs_ibgda_orders(ibgda->n_rc) - 1];
	uint64_t place = (at - last_array) / sizeof(struct nvs_ibgda_qp) - n_places(ibgda);
	uint64_t cq_at = ibgda->cqs_at + (n_first_cqs(ibgda) + place) * sizeof(struct nvs_ibgda_cq);
	struct nvs_ibgda_qp qp;
	struct nvs_ibgda_cq cq;
	int r;

	nvs_ibgda_qp_fill(queue, at, cq_at, &qp, &cq);
	r = device_write(nvs.device, cq_at, &cq, sizeof(cq));
	return r ? r : device_write(nvs.device, at, &qp, sizeof(qp));
}

int nvs_ibgda_batch_write(const struct nvs_ibgda *ibgda, const struct nvs_ibgda_batch *batch)
{
	_cleanup_free_ struct shmd_dev_qp *qps = calloc(batch->n, sizeof(*qps));
	int r = qps ? read_queues(ibgda, batch, qps) : shmd_error_set(-ENOMEM, "no memory for %u queues", batch->n);

	for (uint32_t i = 0; !r && i < batch->n; i++) {
		struct nvs_ibgda_queue queue = describe(batch, &qps[i], i);

		r = write_one(ibgda, &queue, nvs_ibgda_qp_at(ibgda, batch, i));
		/* Nothing is posted to the PE itself; what stands there is a queue to another one, which is idle. */
		if (!r && i < batch->n_to_each)
			r = write_one(ibgda, &queue, nvs_ibgda_place_at(ibgda, batch, i, nvs.facts.mype));
	}
	return r;
}

int nvs_ibgda_show(const struct nvs_client *client)
{
	const struct nvs_ibgda *ibgda = nvs.ibgda;
	struct nvs_ibgda_facts facts = {
		.npes = (uint32_t)nvs.facts.npes,
		.log2_piece = ibgda->log2_piece,
		.n_rc = ibgda->n_rc,
		.n_created = ibgda->n_created,
		.switches = ibgda->switches_at[nvs_ibgda_group_of(client->version)],
		.cqs = ibgda->cqs_at,
		.dcis = ibgda->dci_at,
		.rcs = ibgda->rcs_at[nvs_ibgda_order_of(client->version, ibgda->n_rc)],
		.buffers = ibgda->buffers_at,
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
