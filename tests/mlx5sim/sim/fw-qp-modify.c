/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transitions of queue pairs by command, and what can be asked of them. Each has a command of its own, which takes some
 * fields always and others by the mask. A path that leads nowhere is taken, as hardware does: what is sent is lost.
 */
#include <errno.h>
#include <string.h>

#include "tests/mlx5sim/sim/address.h"
#include "tests/mlx5sim/sim/fw-qp.h"

const uint32_t fw_path_fields[] = {PRM_ADS_FL,		PRM_ADS_FREE_AR,
				   PRM_ADS_PKEY_INDEX,	PRM_ADS_GRH,
				   PRM_ADS_MLID,	PRM_ADS_RLID,
				   PRM_ADS_ACK_TIMEOUT, PRM_ADS_SRC_ADDR_INDEX,
				   PRM_ADS_LOG_RTM,	PRM_ADS_STAT_RATE,
				   PRM_ADS_HOP_LIMIT,	PRM_ADS_TCLASS,
				   PRM_ADS_FLOW_LABEL,	PRM_ADS_RGID,
				   PRM_ADS_ECN,		PRM_ADS_DSCP,
				   PRM_ADS_UDP_SPORT,	PRM_ADS_ETH_PRIO,
				   PRM_ADS_SL,		PRM_ADS_PORT,
				   PRM_ADS_RMAC,	0};

#define QPC(name) (PRM_MODIFY_QP_IN_QPC + PRM_QPC_##name)
#define PATH(name) (PRM_MODIFY_QP_IN_QPC + PRM_QPC_PATH + PRM_ADS_##name)
#define RD_ATOMIC_LOG_MAX 4

/* PRM, opt_param_mask: what is set beyond what the transition demands */
enum {
	OPT_RRE = 1 << 1,
	OPT_RAE = 1 << 2,
	OPT_RWE = 1 << 3,
	OPT_PKEY_INDEX = 1 << 4,
	OPT_Q_KEY = 1 << 5,
	OPT_RNR_TIMEOUT = 1 << 6,
	OPT_PM_STATE = 1 << 10,
	OPT_PORT = 1 << 16,
	OPT_COUNTER_SET = 1 << 25,
};
#define OPT_ACCESS (OPT_RRE | OPT_RWE | OPT_RAE)
#define ANY_STATE 8

/* Fields that a transition always takes; kept for queries. */
static const uint32_t init_fields[] = {PRM_QPC_PM_STATE,
				       PRM_QPC_RRE,
				       PRM_QPC_RWE,
				       PRM_QPC_RAE,
				       PRM_QPC_ATOMIC_MODE,
				       PRM_QPC_Q_KEY,
				       PRM_QPC_DC_ACCESS_KEY,
				       PRM_QPC_COUNTER_SET_ID,
				       PRM_QPC_PATH + PRM_ADS_PORT,
				       PRM_QPC_PATH + PRM_ADS_PKEY_INDEX,
				       0};
static const uint32_t rtr_fields[] = {PRM_QPC_MTU,
				      PRM_QPC_LOG_MSG_MAX,
				      PRM_QPC_REMOTE_QPN,
				      PRM_QPC_NEXT_RCV_PSN,
				      PRM_QPC_LOG_RRA_MAX,
				      PRM_QPC_MIN_RNR_NAK,
				      PRM_QPC_PATH + PRM_ADS_GRH,
				      PRM_QPC_PATH + PRM_ADS_MLID,
				      PRM_QPC_PATH + PRM_ADS_RLID,
				      PRM_QPC_PATH + PRM_ADS_SRC_ADDR_INDEX,
				      PRM_QPC_PATH + PRM_ADS_STAT_RATE,
				      PRM_QPC_PATH + PRM_ADS_HOP_LIMIT,
				      PRM_QPC_PATH + PRM_ADS_TCLASS,
				      PRM_QPC_PATH + PRM_ADS_FLOW_LABEL,
				      PRM_QPC_PATH + PRM_ADS_DSCP,
				      PRM_QPC_PATH + PRM_ADS_UDP_SPORT,
				      PRM_QPC_PATH + PRM_ADS_ETH_PRIO,
				      PRM_QPC_PATH + PRM_ADS_SL,
				      PRM_QPC_PATH + PRM_ADS_RMAC,
				      0};
static const uint32_t rts_fields[] = {PRM_QPC_NEXT_SEND_PSN,
				      PRM_QPC_LOG_SRA_MAX,
				      PRM_QPC_RETRY_COUNT,
				      PRM_QPC_RNR_RETRY,
				      PRM_QPC_LOG_ACK_REQ_FREQ,
				      PRM_QPC_PATH + PRM_ADS_ACK_TIMEOUT,
				      0};
static const uint32_t no_fields[] = {0};

struct transition {
	uint16_t opcode;
	uint8_t from, to;  /* enum engine_qp_state */
	uint32_t optional; /* bits of opt_param_mask */
	const uint32_t *fields;
	uint32_t sets[6]; /* ENGINE_QP_SET_* of RC, UC, UD, -, -, DCI */
};

#define SET_RTR_RC                                                                                 \
	(ENGINE_QP_SET_PATH | ENGINE_QP_SET_RQ_PSN | ENGINE_QP_SET_RD_ATOMIC |                     \
	 ENGINE_QP_SET_RNR_TIMER)
#define SET_RTS_RC (ENGINE_QP_SET_RETRY | ENGINE_QP_SET_SQ_PSN | ENGINE_QP_SET_RD_ATOMIC)

static const struct transition transitions[] = {
	{PRM_OP_RST2INIT_QP,
	 ENGINE_QP_RST,
	 ENGINE_QP_INIT,
	 0,
	 init_fields,
	 {ENGINE_QP_SET_ACCESS, ENGINE_QP_SET_ACCESS, ENGINE_QP_SET_QKEY}},
	{PRM_OP_INIT2INIT_QP,
	 ENGINE_QP_INIT,
	 ENGINE_QP_INIT,
	 OPT_ACCESS | OPT_PKEY_INDEX | OPT_Q_KEY | OPT_PORT |
		 OPT_COUNTER_SET,
	 no_fields,
	 {0}},
	{PRM_OP_INIT2RTR_QP,
	 ENGINE_QP_INIT,
	 ENGINE_QP_RTR,
	 OPT_ACCESS | OPT_PKEY_INDEX | OPT_Q_KEY | OPT_COUNTER_SET,
	 rtr_fields,
	 {SET_RTR_RC, ENGINE_QP_SET_PATH | ENGINE_QP_SET_RQ_PSN}},
	{PRM_OP_RTR2RTS_QP,
	 ENGINE_QP_RTR,
	 ENGINE_QP_RTS,
	 OPT_ACCESS | OPT_RNR_TIMEOUT | OPT_PM_STATE | OPT_Q_KEY |
		 OPT_COUNTER_SET,
	 rts_fields,
	 {SET_RTS_RC, ENGINE_QP_SET_SQ_PSN, ENGINE_QP_SET_SQ_PSN, 0, 0, SET_RTS_RC}},
	{PRM_OP_RTS2RTS_QP,
	 ENGINE_QP_RTS,
	 ENGINE_QP_RTS,
	 OPT_ACCESS | OPT_RNR_TIMEOUT | OPT_PM_STATE | OPT_Q_KEY |
		 OPT_COUNTER_SET,
	 no_fields,
	 {0}},
	{PRM_OP_SQERR2RTS_QP,
	 ENGINE_QP_SQER,
	 ENGINE_QP_RTS,
	 OPT_ACCESS | OPT_Q_KEY,
	 no_fields,
	 {0}},
	{PRM_OP_2ERR_QP, ANY_STATE, ENGINE_QP_ERR, 0, no_fields, {0}},
	{PRM_OP_2RST_QP, ANY_STATE, ENGINE_QP_RST, 0, no_fields, {0}},
};

/* The field for each bit of the mask, and the engine's attribute. */
static const struct {
	uint32_t bit, field, set;
} options[] = {
	{OPT_RRE, PRM_QPC_RRE, ENGINE_QP_SET_ACCESS},
	{OPT_RWE, PRM_QPC_RWE, ENGINE_QP_SET_ACCESS},
	{OPT_RAE, PRM_QPC_RAE, ENGINE_QP_SET_ACCESS},
	{OPT_RAE, PRM_QPC_ATOMIC_MODE, ENGINE_QP_SET_ACCESS},
	{OPT_RNR_TIMEOUT, PRM_QPC_MIN_RNR_NAK, ENGINE_QP_SET_RNR_TIMER},
	{OPT_Q_KEY, PRM_QPC_Q_KEY, ENGINE_QP_SET_QKEY},
	{OPT_PM_STATE, PRM_QPC_PM_STATE, 0},
	{OPT_PKEY_INDEX, PRM_QPC_PATH + PRM_ADS_PKEY_INDEX, 0},
	{OPT_PORT, PRM_QPC_PATH + PRM_ADS_PORT, 0},
	{OPT_COUNTER_SET, PRM_QPC_COUNTER_SET_ID, 0},
};

static struct fw_qp *find(struct fw_cmd *cmd)
{
	struct object *object = fw_object(cmd, PRM_OP_CREATE_QP, PRM_QP_IN_QPN, "QP");

	if (object && object->type != OBJECT_DEVX) {
		fw_fail(cmd, PRM_STATUS_BAD_OP, PRM_QP_IN_QPN, "of a QP that verbs made");
		return NULL;
	}
	return object ? container_of(object, struct fw_qp, object) : NULL;
}

static struct engine_qp_info ask(struct nic *nic, uint32_t qpn)
{
	struct engine_qp_info info = {.state = ENGINE_QP_ERR};

	sim_lock(nic->sim);
	engine_qp_query(nic->engine, qpn, &info);
	sim_unlock(nic->sim);
	return info;
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

static void keep(uint8_t *qpc, const struct fw_cmd *cmd, uint32_t field)
{
	prm_set(qpc, field, fw_get(cmd, PRM_MODIFY_QP_IN_QPC + field));
}

/* The QP's context as it will be. */
static void merge(uint8_t *qpc, const struct fw_cmd *cmd, const struct transition *t, uint32_t mask)
{
	uint8_t gid[16];

	for (const uint32_t *f = t->fields; *f; f++)
		keep(qpc, cmd, *f);
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		if (mask & options[i].bit)
			keep(qpc, cmd, options[i].field);
	}
	if (t->opcode == PRM_OP_INIT2RTR_QP) {
		prm_get_bytes(cmd->in, PATH(RGID), gid);
		prm_set_bytes(qpc, PRM_QPC_PATH + PRM_ADS_RGID, gid);
	}
}

static uint32_t access_of(const uint8_t *qpc)
{
	bool atomic = prm_get(qpc, PRM_QPC_RAE) && prm_get(qpc, PRM_QPC_ATOMIC_MODE);

	return (prm_get(qpc, PRM_QPC_RRE) ? ENGINE_ACCESS_REMOTE_READ : 0) |
	       (prm_get(qpc, PRM_QPC_RWE) ? ENGINE_ACCESS_REMOTE_WRITE : 0) |
	       (atomic ? ENGINE_ACCESS_REMOTE_ATOMIC : 0);
}

static int check_init(struct fw_cmd *cmd)
{
	if (fw_get(cmd, PATH(PORT)) != 1)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, PATH(PORT), "port %u",
			       (unsigned int)fw_get(cmd, PATH(PORT)));
	if (fw_get(cmd, PATH(PKEY_INDEX)))
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, PATH(PKEY_INDEX), "P_Key index %u",
			       (unsigned int)fw_get(cmd, PATH(PKEY_INDEX)));
	return 0;
}

static int check_rtr(struct fw_cmd *cmd, const struct fw_qp *qp)
{
	uint64_t mtu = fw_get(cmd, QPC(MTU));

	if (mtu < 1 || mtu > 5)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, QPC(MTU), "MTU %u", (unsigned int)mtu);
	if (fw_get(cmd, QPC(LOG_MSG_MAX)) > 30)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, QPC(LOG_MSG_MAX),
			       "messages of 2^%u bytes",
			       (unsigned int)fw_get(cmd, QPC(LOG_MSG_MAX)));
	if (fw_get(cmd, QPC(LOG_RRA_MAX)) > RD_ATOMIC_LOG_MAX)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, QPC(LOG_RRA_MAX),
			       "2^%u reads and atomics to answer at a time",
			       (unsigned int)fw_get(cmd, QPC(LOG_RRA_MAX)));
	if (fw_get(cmd, PATH(PORT)) > 1)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, PATH(PORT), "port");
	if (qp->type != ENGINE_QP_RC && qp->type != ENGINE_QP_UC)
		return 0;
	if (fw_get(cmd, PATH(SRC_ADDR_INDEX)) >= nic_n_gids(cmd->nic))
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, PATH(SRC_ADDR_INDEX), "GID index %u",
			       (unsigned int)fw_get(cmd, PATH(SRC_ADDR_INDEX)));
	return 0;
}

static int check_values(struct fw_cmd *cmd, const struct fw_qp *qp, const struct transition *t)
{
	int r = fw_check_atomic_mode(cmd, QPC(ATOMIC_MODE));

	if (r < 0)
		return r;
	switch (t->opcode) {
	case PRM_OP_RST2INIT_QP:
		return check_init(cmd);
	case PRM_OP_INIT2RTR_QP:
		return check_rtr(cmd, qp);
	case PRM_OP_RTR2RTS_QP:
		if (fw_get(cmd, QPC(LOG_SRA_MAX)) > RD_ATOMIC_LOG_MAX)
			return fw_fail(cmd, PRM_STATUS_BAD_PARAM, QPC(LOG_SRA_MAX),
				       "2^%u reads and atomics at a time",
				       (unsigned int)fw_get(cmd, QPC(LOG_SRA_MAX)));
	}
	return 0;
}

/* The port that a path leads to, or NULL. */
static const struct nic *find_peer(const struct fw_cmd *cmd)
{
	struct sim *sim = cmd->nic->sim;
	const struct nic *to;
	uint8_t gid[16], mac[6];

	if (!sim->ethernet)
		return address_nic_of_lid(sim, (uint16_t)fw_get(cmd, PATH(RLID)));
	prm_get_bytes(cmd->in, PATH(RGID), gid);
	prm_get_bytes(cmd->in, PATH(RMAC), mac);
	to = sim_nic_of_gid(sim, gid);
	return to && memcmp(mac, to->mac, sizeof(mac)) == 0 ? to : NULL;
}

static void translate(const struct fw_cmd *cmd, const uint8_t *qpc, struct engine_qp_modify *mod)
{
	const struct nic *peer;

	mod->access = access_of(qpc);
	mod->dest_qpn = (uint32_t)prm_get(qpc, PRM_QPC_REMOTE_QPN);
	mod->path_mtu_bytes = 128u << prm_get(qpc, PRM_QPC_MTU);
	mod->rq_psn = (uint32_t)prm_get(qpc, PRM_QPC_NEXT_RCV_PSN);
	mod->sq_psn = (uint32_t)prm_get(qpc, PRM_QPC_NEXT_SEND_PSN);
	mod->timeout = (uint8_t)prm_get(qpc, PRM_QPC_PATH + PRM_ADS_ACK_TIMEOUT);
	mod->retry_count = (uint8_t)prm_get(qpc, PRM_QPC_RETRY_COUNT);
	mod->rnr_retry = (uint8_t)prm_get(qpc, PRM_QPC_RNR_RETRY);
	mod->min_rnr_timer = (uint8_t)prm_get(qpc, PRM_QPC_MIN_RNR_NAK);
	mod->max_rd_atomic = (uint8_t)(1u << prm_get(qpc, PRM_QPC_LOG_SRA_MAX));
	mod->max_dest_rd_atomic = (uint8_t)(1u << prm_get(qpc, PRM_QPC_LOG_RRA_MAX));
	mod->qkey = (uint32_t)prm_get(qpc, PRM_QPC_Q_KEY);
	if (!(mod->set & ENGINE_QP_SET_PATH))
		return;
	peer = find_peer(cmd);
	if (peer)
		memcpy(mod->dest_gid, peer->gids[0], 16);
	else
		sim_log(cmd->nic->sim,
			"mlx5_%d uid %u: the path leads nowhere: what is sent is lost",
			cmd->nic->index, cmd->call->ufile->uid);
	cmd->nic->lose_next_route = !peer;
}

/* ---- modify ---------------------------------------------------------------------------------------------------- */

/* A DCI has no responder whose access or timer could be set. */
static uint32_t sets_of(const struct transition *t, const struct fw_qp *qp, uint32_t mask)
{
	uint32_t set = t->sets[qp->type];

	if (qp->type == ENGINE_QP_DCI)
		return set;

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		if (mask & options[i].bit)
			set |= options[i].set;
	}
	return set;
}

static const struct transition *find_transition(uint16_t opcode)
{
	for (size_t i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
		if (transitions[i].opcode == opcode)
			return &transitions[i];
	}
	return NULL;
}

/* RST2INIT_QP always names a set, 0 for none; later transitions by the mask. */
static int find_counter(struct fw_cmd *cmd, uint32_t mask, struct counter **counter)
{
	if (cmd->opcode != PRM_OP_RST2INIT_QP && !(mask & OPT_COUNTER_SET))
		return 0;
	return fw_counter(cmd, QPC(COUNTER_SET_ID), counter);
}

static int apply(struct fw_cmd *cmd, struct fw_qp *qp, const struct transition *t, uint32_t mask)
{
	struct engine_qp_modify mod = {.state = (enum engine_qp_state)t->to};
	uint8_t qpc[PRM_QPC_BYTES];
	struct counter *counter = qp->counter;
	int r;

	memcpy(qpc, qp->qpc, sizeof(qpc));
	merge(qpc, cmd, t, mask);
	if (find_counter(cmd, mask, &counter) < 0)
		return -EREMOTEIO;
	mod.set = sets_of(t, qp, mask);
	sim_lock(cmd->nic->sim);
	translate(cmd, qpc, &mod);
	r = engine_qp_modify(cmd->nic->engine, qp->qpn, &mod);
	cmd->nic->lose_next_route = false;
	if (r == 0 && counter != qp->counter)
		fw_qp_count_for(qp, counter);
	sim_unlock(cmd->nic->sim);
	if (r < 0)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, 0, "the engine says %s", strerror(-r));
	if (t->to == ENGINE_QP_RST)
		fw_qp_forget_posts(qp);
	memcpy(qp->qpc, qpc, sizeof(qpc));
	return 0;
}

static const char *state_name(uint32_t state)
{
	static const char *const names[] = {
		[PRM_QPS_RST] = "RST",	 [PRM_QPS_INIT] = "INIT", [PRM_QPS_RTR] = "RTR", [PRM_QPS_RTS] = "RTS",
		[PRM_QPS_SQER] = "SQER", [PRM_QPS_ERR] = "ERR",	  [PRM_QPS_SQD] = "SQD",
	};

	return state < sizeof(names) / sizeof(names[0]) && names[state] ? names[state] : "an unknown state";
}

int fw_modify_qp(struct fw_cmd *cmd)
{
	const struct transition *t = find_transition(cmd->opcode);
	struct fw_qp *qp = find(cmd);
	enum engine_qp_state state;
	uint32_t mask;
	int r;

	if (!qp)
		return -EREMOTEIO;
	mask = t->from == ANY_STATE ? 0 : (uint32_t)fw_get(cmd, PRM_MODIFY_QP_IN_OPT_PARAM_MASK);
	state = ask(cmd->nic, qp->qpn).state;
	if (t->from != ANY_STATE && state != (enum engine_qp_state)t->from)
		return fw_fail(cmd, PRM_STATUS_BAD_QP_STATE, PRM_QP_IN_QPN, "the QP is in %s",
			       state_name(state));
	if (mask & ~t->optional)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, PRM_MODIFY_QP_IN_OPT_PARAM_MASK,
			       "option mask 0x%x", mask);
	r = t->from == ANY_STATE ? 0 : check_values(cmd, qp, t);
	return r < 0 ? r : apply(cmd, qp, t, mask);
}

/* ---- streams of a DCI ------------------------------------------------------------------------------------------- */

#define OPT_EXT_STREAM 1u /* of opt_param_mask_95_32 */

/* Also for a QP that verbs made: it is the only way. */
static int reset_stream(struct fw_cmd *cmd)
{
	struct object *object = fw_object(cmd, PRM_OP_CREATE_QP, PRM_QP_IN_QPN, "QP");
	uint16_t stream = (uint16_t)fw_get(cmd, FW_RTS2RTS_EXT_STREAM);
	enum engine_qp_state state;
	int r;

	if (!object)
		return -EREMOTEIO;
	if (fw_get(cmd, PRM_MODIFY_QP_IN_OPT_PARAM_MASK))
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, PRM_MODIFY_QP_IN_OPT_PARAM_MASK,
			       "a stream is reset alone");
	state = ask(cmd->nic, object->number).state;
	if (state != ENGINE_QP_RTS)
		return fw_fail(cmd, PRM_STATUS_BAD_QP_STATE, PRM_QP_IN_QPN, "the QP is in %s",
			       state_name(state));
	sim_lock(cmd->nic->sim);
	r = engine_qp_reset_stream(cmd->nic->engine, object->number, stream);
	sim_unlock(cmd->nic->sim);
	return r < 0 ? fw_fail(cmd, PRM_STATUS_BAD_PARAM, FW_RTS2RTS_EXT_STREAM, "stream %u is not in error", stream)
		     : 0;
}

/* Within RTS: what other transitions take, or the extension of the context. */
int fw_rts2rts_qp(struct fw_cmd *cmd)
{
	uint64_t mask = fw_get(cmd, PRM_MODIFY_QP_IN_OPT_PARAM_MASK_95_32);
	bool has_ext = fw_get(cmd, PRM_MODIFY_QP_IN_QPC_EXT) != 0;

	if (has_ext && cmd->in_bytes < FW_RTS2RTS_EXT_BYTES)
		return fw_fail(cmd, PRM_STATUS_BAD_INP_LEN, 0, "%zu bytes, not %u", cmd->in_bytes,
			       FW_RTS2RTS_EXT_BYTES);
	if (mask != (has_ext ? OPT_EXT_STREAM : 0))
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, PRM_MODIFY_QP_IN_OPT_PARAM_MASK_95_32,
			       "mask 0x%llx of the extension", (unsigned long long)mask);
	return has_ext ? reset_stream(cmd) : fw_modify_qp(cmd);
}

/* ---- query ----------------------------------------------------------------------------------------------------- */

int fw_query_qp(struct fw_cmd *cmd)
{
	uint8_t out[PRM_QUERY_QP_OUT_BYTES] = {0};
	const struct fw_qp *qp = find(cmd);
	struct engine_qp_info info;

	if (!qp)
		return -EREMOTEIO;
	if (cmd->out_bytes < sizeof(out))
		return fw_fail(cmd, PRM_STATUS_BAD_OUTP_LEN, 0, "%zu bytes", cmd->out_bytes);
	info = ask(cmd->nic, qp->qpn);
	memcpy(out + PRM_BIT(PRM_QUERY_QP_OUT_QPC) / 8, qp->qpc, sizeof(qp->qpc));
#define OUT(name) (PRM_QUERY_QP_OUT_QPC + PRM_QPC_##name)
	prm_set(out, OUT(STATE), info.state);
	prm_set(out, OUT(HW_SQ_WQEBB_COUNTER), info.sq_ci & 0xffff);
	prm_set(out, OUT(SW_SQ_WQEBB_COUNTER), info.sq_pi & 0xffff);
	prm_set(out, OUT(HW_RQ_COUNTER), info.rq_ci);
	prm_set(out, OUT(SW_RQ_COUNTER), info.rq_pi);
#undef OUT
	memcpy(cmd->out, out, sizeof(out));
	return 0;
}
