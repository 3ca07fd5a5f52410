/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs by command: RC, UC, UD and DCI over umems, executed by the engine like those of verbs. The receive ring
 * comes first in the buffer and the send ring behind it.
 */
#include "tests/mlx5sim/sim/fw-qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * For all QP commands: a client may fill in fields that its transition ignores. Hints (latency, page size, message
 * size) and permissions (reserved key, scatter to CQE) change nothing here; secondary paths, signatures and the rest of the context are refused.
 */
const uint32_t fw_qp_fields[] = {PRM_QPC_ST,
				 PRM_QPC_PM_STATE,
				 PRM_QPC_LATENCY_SENSITIVE,
				 PRM_QPC_PD,
				 PRM_QPC_MTU,
				 PRM_QPC_LOG_MSG_MAX,
				 PRM_QPC_LOG_RQ_SIZE,
				 PRM_QPC_LOG_RQ_STRIDE,
				 PRM_QPC_NO_SQ,
				 PRM_QPC_LOG_SQ_SIZE,
				 PRM_QPC_TS_FORMAT,
				 PRM_QPC_RLKEY,
				 PRM_QPC_COUNTER_SET_ID,
				 PRM_QPC_UAR_PAGE,
				 PRM_QPC_FULL_HANDSHAKE,
				 PRM_QPC_USER_INDEX,
				 PRM_QPC_LOG_PAGE_SIZE,
				 PRM_QPC_REMOTE_QPN,
				 PRM_QPC_LOG_ACK_REQ_FREQ,
				 PRM_QPC_LOG_SRA_MAX,
				 PRM_QPC_RETRY_COUNT,
				 PRM_QPC_RNR_RETRY,
				 PRM_QPC_FRE,
				 PRM_QPC_NEXT_SEND_PSN,
				 PRM_QPC_CQN_SND,
				 PRM_QPC_LOG_RRA_MAX,
				 PRM_QPC_ATOMIC_MODE,
				 PRM_QPC_RRE,
				 PRM_QPC_RWE,
				 PRM_QPC_RAE,
				 PRM_QPC_MIN_RNR_NAK,
				 PRM_QPC_NEXT_RCV_PSN,
				 PRM_QPC_CQN_RCV,
				 PRM_QPC_DBR_ADDR,
				 PRM_QPC_Q_KEY,
				 PRM_QPC_RQ_TYPE,
				 PRM_QPC_SRQN,
				 PRM_QPC_DC_ACCESS_KEY,
				 PRM_QPC_DBR_UMEM_VALID,
				 PRM_QPC_DBR_UMEM_ID,
				 PRM_QPC_CS_REQ,
				 PRM_QPC_CS_RES,
				 PRM_QPC_LOG_DCI_STREAMS,
				 PRM_QPC_LOG_DCI_ERRORED,
				 0};

#define QPC(name) (PRM_CREATE_QP_IN_QPC + PRM_QPC_##name)
#define LOG_RING_MAX 15

/* A QP that sends nothing: its record shows zeros. */
static uint8_t empty_ring[SHMD_WQEBB_BYTES];

struct rings {
	uint64_t rq_bytes, sq_bytes;
};

void fw_qp_doorbell(struct nic *nic, const struct uar *uar)
{
	struct fw_qp *qp;

	list_for_each_entry (qp, &uar->devx_qps, uar_link)
		engine_doorbell(nic->engine, qp->qpn);
}

void fw_qp_engine_event(struct nic *nic, const struct engine_event *ev)
{
	struct fw_qp *qp = hash_get(&nic->devx_qps_by_number, ev->number);

	if (!qp)
		return;
	if (ev->kind == ENGINE_EVENT_QP_SQ_DRAINED)
		event_send(&qp->object, FW_EVENT_SQ_DRAINED);
	else if (ev->kind == ENGINE_EVENT_QP_LAST_WQE)
		event_send(&qp->object, FW_EVENT_SRQ_LAST_WQE);
	else if (!ev->responder) /* the requester's own errors have a CQE */
		return;
	else if (ev->syndrome == SHMD_SYNDROME_LOCAL_ACCESS_ERR)
		event_send(&qp->object, FW_EVENT_WQ_ACCESS);
	else
		event_send(&qp->object, FW_EVENT_WQ_INVALID_REQUEST);
}

/* ---- counters -------------------------------------------------------------------------------------------------- */

/* Adds what a QP has counted since it joined its set. */
static void add_counters(struct engine_qp_counters *sum, const struct fw_qp *qp)
{
	const struct engine_qp_counters *from = &qp->counted_from;
	struct engine_qp_info info;

	if (engine_qp_query(qp->object.ufile->nic->engine, qp->qpn, &info) < 0)
		return;
	sum->wqes += info.counters.wqes - from->wqes;
	sum->recv_wqes += info.counters.recv_wqes - from->recv_wqes;
	sum->error_cqes += info.counters.error_cqes - from->error_cqes;
	sum->rnr_naks += info.counters.rnr_naks - from->rnr_naks;
	sum->retries += info.counters.retries - from->retries;
	sum->dropped += info.counters.dropped - from->dropped;
}

void fw_qp_count_for(struct fw_qp *qp, struct counter *counter)
{
	struct engine_qp_info info;

	if (qp->counter) {
		add_counters(&qp->counter->past, qp);
		qp->counter->object.users--;
	}
	list_del(&qp->counter_link);
	qp->counter = counter;
	if (!counter)
		return;
	if (engine_qp_query(qp->object.ufile->nic->engine, qp->qpn, &info) == 0)
		qp->counted_from = info.counters;
	counter->object.users++;
	list_add_tail(&counter->qps, &qp->counter_link);
}

int fw_counter(struct fw_cmd *cmd, uint32_t field, struct counter **ret_counter)
{
	struct object *object;

	*ret_counter = NULL;
	if (!fw_get(cmd, field))
		return 0;
	object = fw_object(cmd, PRM_OP_ALLOC_Q_COUNTER, field, "set of counters");
	if (!object)
		return -EREMOTEIO;
	*ret_counter = container_of(object, struct counter, object);
	return 0;
}

static void counter_free(struct object *object)
{
	struct nic *nic = object->ufile->nic;

	sim_lock(nic->sim);
	nic->n_counters--;
	if (object->number)
		nic->counters_used[object->number] = 0;
	sim_unlock(nic->sim);
	free(container_of(object, struct counter, object));
}

static uint32_t take_counter_number(struct nic *nic)
{
	uint32_t found = 0;

	sim_lock(nic->sim);
	for (uint32_t i = 1; i <= SIM_MAX_COUNTERS && !found; i++)
		found = nic->counters_used[i] ? 0 : i;
	if (found)
		nic->counters_used[found] = 1;
	nic->n_counters += found != 0;
	sim_unlock(nic->sim);
	return found;
}

int fw_alloc_counter(struct fw_cmd *cmd)
{
	uint32_t number = take_counter_number(cmd->nic);
	struct counter *counter;
	int r;

	if (!number)
		return fw_fail(cmd, PRM_STATUS_NO_RES, 0, "more than %u sets of counters",
			       SIM_MAX_COUNTERS);
	counter = calloc(1, sizeof(*counter));
	if (!counter)
		abort();
	list_init(&counter->qps);
	r = object_add(cmd->call->ufile, &counter->object, OBJECT_DEVX, counter_free);
	if (r == 0)
		r = object_name(&counter->object, PRM_OP_ALLOC_Q_COUNTER, number);
	if (r < 0)
		abort();
	fw_set(cmd, PRM_ALLOC_Q_COUNTER_OUT_COUNTER_SET_ID, number);
	cmd->created = &counter->object;
	return 0;
}

/* The engine's counters; the others stay zero. */
int fw_query_counter(struct fw_cmd *cmd)
{
	struct engine_qp_counters sum;
	struct counter *counter;
	struct fw_qp *qp;
	int r;

	r = fw_counter(cmd, PRM_QUERY_Q_COUNTER_IN_COUNTER_SET_ID, &counter);
	if (r == 0 && !counter)
		return fw_fail(cmd, PRM_STATUS_BAD_RES, PRM_QUERY_Q_COUNTER_IN_COUNTER_SET_ID,
			       "set 0 is the kernel's");
	if (r < 0)
		return r;
	sum = counter->past;
	sim_lock(cmd->nic->sim);
	list_for_each_entry (qp, &counter->qps, counter_link)
		add_counters(&sum, qp);
	sim_unlock(cmd->nic->sim);
	fw_set(cmd, PRM_QUERY_Q_COUNTER_OUT_RNR_NAK_RETRY_ERR,
	       (uint32_t)(sum.rnr_naks - counter->base.rnr_naks));
	fw_set(cmd, PRM_QUERY_Q_COUNTER_OUT_LOCAL_ACK_TIMEOUT_ERR,
	       (uint32_t)(sum.retries - counter->base.retries));
	fw_set(cmd, PRM_QUERY_Q_COUNTER_OUT_REQ_CQE_ERROR,
	       (uint32_t)(sum.error_cqes - counter->base.error_cqes));
	if (fw_get(cmd, PRM_QUERY_Q_COUNTER_IN_CLEAR))
		counter->base = sum;
	return 0;
}

/* ---- create ---------------------------------------------------------------------------------------------------- */

static void qp_free(struct object *object)
{
	struct fw_qp *qp = container_of(object, struct fw_qp, object);
	struct nic *nic = object->ufile->nic;

	sim_lock(nic->sim);
	fw_qp_count_for(qp, NULL);
	if (qp->qpn) {
		engine_qp_destroy(nic->engine, qp->qpn);
		hash_remove(&nic->devx_qps_by_number, qp->qpn);
		nic->n_qps--;
	}
	list_del(&qp->uar_link);
	sim_unlock(nic->sim);
	if (qp->pd)
		qp->pd->object.users--;
	if (qp->send_cq)
		qp->send_cq->object.users--;
	if (qp->recv_cq)
		qp->recv_cq->object.users--;
	if (qp->srq)
		qp->srq->object.users--;
	if (qp->uar)
		qp->uar->object.users--;
	umem_put(qp->ring_umem);
	umem_put(qp->dbrec_umem);
	free(qp);
}

static int check_streams(struct fw_cmd *cmd)
{
	uint64_t streams = fw_get(cmd, QPC(LOG_DCI_STREAMS)), errored = fw_get(cmd, QPC(LOG_DCI_ERRORED));

	if ((streams || errored) && fw_get(cmd, QPC(ST)) != PRM_ST_DCI)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, QPC(LOG_DCI_STREAMS), "streams are of DCIs");
	if (streams > SIM_MAX_LOG2_STREAMS)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, QPC(LOG_DCI_STREAMS), "2^%u streams", (unsigned int)streams);
	if (errored > SIM_MAX_LOG2_STREAMS)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, QPC(LOG_DCI_ERRORED), "2^%u streams in error",
			       (unsigned int)errored);
	return 0;
}

static int check(struct fw_cmd *cmd)
{
	uint64_t st = fw_get(cmd, QPC(ST)), rq_type = fw_get(cmd, QPC(RQ_TYPE));

	if (st != PRM_ST_RC && st != PRM_ST_UC && st != PRM_ST_UD && st != PRM_ST_DCI)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, QPC(ST), "service type %u",
			       (unsigned int)st);
	if (rq_type != PRM_RQ_OWN && rq_type != PRM_RQ_SRQ && rq_type != PRM_RQ_NONE)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, QPC(RQ_TYPE), "receive queue type %u",
			       (unsigned int)rq_type);
	if (st == PRM_ST_DCI && rq_type == PRM_RQ_OWN)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, QPC(RQ_TYPE), "a DCI receives nothing");
	if (rq_type == PRM_RQ_OWN && fw_get(cmd, QPC(LOG_RQ_STRIDE)) > 5)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, QPC(LOG_RQ_STRIDE),
			       "receive WQEs longer than 512 bytes");
	if (fw_get(cmd, QPC(TS_FORMAT)) > PRM_TS_DEFAULT)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, QPC(TS_FORMAT), "timestamp format");
	if (fw_get(cmd, QPC(DBR_ADDR)) & 7)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, QPC(DBR_ADDR),
			       "the doorbell record is not aligned");
	if (fw_get(cmd, PRM_CREATE_QP_IN_UMEM_OFFSET) % SHMD_WQEBB_BYTES)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, PRM_CREATE_QP_IN_UMEM_OFFSET,
			       "the ring is not aligned");
	if (nic_count(cmd->nic, &cmd->nic->n_qps) >= SIM_MAX_QP)
		return fw_fail(cmd, PRM_STATUS_LIM, 0, "more than %u QPs", SIM_MAX_QP);
	return check_streams(cmd);
}

static struct object *use(struct fw_cmd *cmd, uint16_t made_by, uint32_t field, const char *what)
{
	struct object *object = fw_object(cmd, made_by, field, what);

	if (object)
		object->users++;
	return object;
}

static int find_uar(struct fw_cmd *cmd, struct fw_qp *qp)
{
	uint32_t page = (uint32_t)fw_get(cmd, QPC(UAR_PAGE));

	if (fw_get(cmd, QPC(NO_SQ)) && !page)
		return 0;
	qp->uar = uar_get(cmd->call->ufile, page);
	if (!qp->uar)
		return fw_fail(cmd, PRM_STATUS_BAD_RES, QPC(UAR_PAGE),
			       "UAR page 0x%x is not of this uid", page);
	qp->uar->object.users++;
	return 0;
}

static int find_parts(struct fw_cmd *cmd, struct fw_qp *qp)
{
	struct object *object;

	object = use(cmd, PRM_OP_ALLOC_PD, QPC(PD), "PD");
	if (!object)
		return -EREMOTEIO;
	qp->pd = container_of(object, struct pd, object);
	object = use(cmd, PRM_OP_CREATE_CQ, QPC(CQN_SND), "CQ");
	if (!object)
		return -EREMOTEIO;
	qp->send_cq = container_of(object, struct cq, object);
	object = use(cmd, PRM_OP_CREATE_CQ, QPC(CQN_RCV), "CQ");
	if (!object)
		return -EREMOTEIO;
	qp->recv_cq = container_of(object, struct cq, object);
	if (fw_get(cmd, QPC(RQ_TYPE)) == PRM_RQ_SRQ) {
		object = use(cmd, PRM_OP_CREATE_RMP, QPC(SRQN), "SRQ");
		if (!object)
			return -EREMOTEIO;
		qp->srq = container_of(object, struct srq, object);
	}
	return find_uar(cmd, qp);
}

static struct rings sizes(const struct fw_cmd *cmd)
{
	struct rings rings = {0};

	if (fw_get(cmd, QPC(RQ_TYPE)) == PRM_RQ_OWN)
		rings.rq_bytes = (uint64_t)16 << (fw_get(cmd, QPC(LOG_RQ_SIZE)) +
						  fw_get(cmd, QPC(LOG_RQ_STRIDE)));
	if (!fw_get(cmd, QPC(NO_SQ)))
		rings.sq_bytes = (uint64_t)SHMD_WQEBB_BYTES << fw_get(cmd, QPC(LOG_SQ_SIZE));
	return rings;
}

void fw_qp_forget_posts(struct fw_qp *qp)
{
	if (qp->dbrec_umem->writable)
		__atomic_store_n(&qp->dbrec[1], 0, __ATOMIC_RELAXED);
}

/* The send ring begins at a WQEBB, also behind a receive ring that is shorter than one. */
static int attach_rings(struct fw_cmd *cmd, struct fw_qp *qp, struct engine_qp_attr *attr)
{
	struct rings rings = sizes(cmd);
	uint64_t rq = (rings.rq_bytes + SHMD_WQEBB_BYTES - 1) & ~(uint64_t)(SHMD_WQEBB_BYTES - 1);
	uint8_t *ring = NULL;

	if (rq + rings.sq_bytes) {
		ring = fw_umem(cmd, PRM_CREATE_QP_IN_UMEM_ID, PRM_CREATE_QP_IN_UMEM_OFFSET,
			       rq + rings.sq_bytes, false, &qp->ring_umem);
		if (!ring)
			return -EREMOTEIO;
	}
	attr->rq_ring = rings.rq_bytes ? ring : NULL;
	attr->sq_ring = rings.sq_bytes ? ring + rq : empty_ring;
	attr->log2_rq_wqes = (uint32_t)fw_get(cmd, QPC(LOG_RQ_SIZE));
	attr->log2_rq_stride = 4 + (uint32_t)fw_get(cmd, QPC(LOG_RQ_STRIDE));
	attr->log2_sq_wqebbs = rings.sq_bytes ? (uint32_t)fw_get(cmd, QPC(LOG_SQ_SIZE)) : 0;
	attr->dbrec = fw_umem(cmd, QPC(DBR_UMEM_ID), QPC(DBR_ADDR), 8, false, &qp->dbrec_umem);
	qp->dbrec = attr->dbrec;
	if (!qp->dbrec)
		return -EREMOTEIO;
	fw_qp_forget_posts(qp);
	return 0;
}

static int enter(struct fw_qp *qp, struct engine_qp_attr *attr)
{
	struct nic *nic = qp->object.ufile->nic;
	int r;

	attr->type = qp->type;
	attr->pdn = qp->pd->pdn;
	attr->user_index = (uint32_t)prm_get(qp->qpc, PRM_QPC_USER_INDEX);
	attr->send_cqn = qp->send_cq->cqn;
	attr->recv_cqn = qp->recv_cq->cqn;
	attr->has_srq = qp->srq &&
			qp->type != ENGINE_QP_DCI; /* which may name one, and takes nothing of it */
	attr->srqn = attr->has_srq ? qp->srq->srqn : 0;
	attr->ud_mtu_bytes = nic->sim->ethernet ? 1024 : 4096;
	attr->log2_errored_streams = (uint32_t)prm_get(qp->qpc, PRM_QPC_LOG_DCI_ERRORED);
	attr->has_streams = attr->log2_errored_streams || prm_get(qp->qpc, PRM_QPC_LOG_DCI_STREAMS);
	sim_lock(nic->sim);
	attr->qpn = nic->next_qpn++;
	r = engine_qp_create(nic->engine, attr);
	if (r == 0) {
		qp->qpn = attr->qpn;
		nic->n_qps++;
		if (qp->uar)
			list_add_tail(&qp->uar->devx_qps, &qp->uar_link);
		r = hash_add(&nic->devx_qps_by_number, qp->qpn, qp);
	}
	sim_unlock(nic->sim);
	return r < 0 ? r : object_name(&qp->object, PRM_OP_CREATE_QP, qp->qpn);
}

static int make(struct fw_cmd *cmd, struct fw_qp *qp)
{
	struct engine_qp_attr attr = {.qpn = 0};
	int r;

	/* The numbers of services in commands are those of the engine. */
	qp->type = (enum engine_qp_type)fw_get(cmd, QPC(ST));
	memcpy(qp->qpc, cmd->in + PRM_BIT(PRM_CREATE_QP_IN_QPC) / 8, sizeof(qp->qpc));
	/* Not looked at before RST2INIT_QP, where mlx5_ib and UCX name it. */
	prm_set(qp->qpc, PRM_QPC_COUNTER_SET_ID, 0);
	r = find_parts(cmd, qp);
	if (r == 0)
		r = attach_rings(cmd, qp, &attr);
	return r < 0 ? r : enter(qp, &attr);
}

int fw_create_qp(struct fw_cmd *cmd)
{
	struct fw_qp *qp;
	int r;

	r = check(cmd);
	if (r < 0)
		return r;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	list_init(&qp->uar_link);
	list_init(&qp->counter_link);
	r = object_add(cmd->call->ufile, &qp->object, OBJECT_DEVX, qp_free);
	if (r < 0) {
		free(qp);
		return r;
	}
	r = make(cmd, qp);
	if (r < 0) {
		object_destroy(&qp->object);
		return r;
	}
	fw_set(cmd, PRM_CREATE_QP_OUT_QPN, qp->qpn);
	cmd->created = &qp->object;
	return 0;
}
