/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands: which there are, which fields each takes, and what becomes of one. Nothing is ignored: an opcode that is
 * not here, a bit that no field has, and a field that this firmware does not carry out are refused.
 */
#include "tests/mlx5sim/sim/fw.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/base/cleanup.h"
#include "tests/mlx5sim/sim/fw-trace.h"

#define INPUT_MAX (65536 + PRM_CREATE_MKEY_IN_BYTES) /* bytes of one command: a key of most parts */

struct group {
	uint32_t base; /* where the structure that the fields are of begins */
	const uint32_t *fields;
};

struct spec {
	uint16_t opcode;
	bool has_op_mod;
	bool has_list; /* behind in_bytes, which the command looks at itself */
	uint16_t in_bytes;
	int (*run)(struct fw_cmd *cmd);
	struct group groups[3];
};

static const uint32_t cap_in[] = {0};
static const uint32_t create_cq_in[] = {PRM_CREATE_CQ_IN_UMEM_OFFSET, PRM_CREATE_CQ_IN_UMEM_ID,
					PRM_CREATE_CQ_IN_UMEM_VALID, 0};
static const uint32_t modify_cq_in[] = {PRM_MODIFY_CQ_IN_CQN, PRM_MODIFY_CQ_IN_FIELD_SELECT,
					PRM_MODIFY_CQ_IN_UMEM_VALID, 0};
static const uint32_t cq_in[] = {PRM_CQ_IN_CQN, 0};
static const uint32_t create_qp_in[] = {PRM_CREATE_QP_IN_UMEM_OFFSET, PRM_CREATE_QP_IN_UMEM_ID,
					PRM_CREATE_QP_IN_UMEM_VALID, 0};
static const uint32_t modify_qp_in[] = {PRM_MODIFY_QP_IN_QPN, PRM_MODIFY_QP_IN_OPT_PARAM_MASK, 0};
static const uint32_t rts2rts_qp_in[] = {PRM_MODIFY_QP_IN_QPN,	   PRM_MODIFY_QP_IN_OPT_PARAM_MASK,
					 PRM_MODIFY_QP_IN_QPC_EXT, PRM_MODIFY_QP_IN_OPT_PARAM_MASK_95_32,
					 FW_RTS2RTS_EXT_STREAM,	   0};
static const uint32_t qp_in[] = {PRM_QP_IN_QPN, 0};
static const uint32_t create_mkey_in[] = {
	PRM_CREATE_MKEY_IN_PG_ACCESS,	PRM_CREATE_MKEY_IN_UMEM_VALID,
	PRM_CREATE_MKEY_IN_ACTUAL_OCTWORDS, PRM_CREATE_MKEY_IN_UMEM_ID,
	PRM_CREATE_MKEY_IN_UMEM_OFFSET, 0};
static const uint32_t query_mkey_in[] = {PRM_QUERY_MKEY_IN_INDEX, 0};
static const uint32_t dct_in[] = {PRM_DCT_IN_DCTN, 0};
static const uint32_t roce_in[] = {PRM_QUERY_ROCE_ADDRESS_IN_INDEX, PRM_QUERY_ROCE_ADDRESS_IN_PORT,
				   0};
static const uint32_t query_counter_in[] = {PRM_QUERY_Q_COUNTER_IN_CLEAR,
					    PRM_QUERY_Q_COUNTER_IN_COUNTER_SET_ID, 0};
static const uint32_t rmpc[] = {PRM_RMPC_STATE, 0};
static const uint32_t rmp_in[] = {PRM_RMP_IN_RMPN, 0};
static const uint32_t arm_rq_in[] = {PRM_ARM_RQ_IN_SRQN, PRM_ARM_RQ_IN_LWM, 0};
static const uint32_t vport_in[] = {PRM_QUERY_HCA_VPORT_CONTEXT_IN_PORT, 0};
static const uint32_t mapping_in[] = {PRM_CREATE_AV_QP_MAPPING_IN_QPN, PRM_CREATE_AV_QP_MAPPING_IN_AV_SL,
				      PRM_CREATE_AV_QP_MAPPING_IN_AV_SRC_ADDR_INDEX,
				      PRM_CREATE_AV_QP_MAPPING_IN_AV_RGID, 0};
static const uint32_t nothing[] = {0};

#define MODIFY_QP(opcode_)                                                                         \
	{                                                                                          \
		.opcode = (opcode_), .in_bytes = PRM_MODIFY_QP_IN_BYTES, .run = fw_modify_qp,      \
		.groups = {{0, modify_qp_in},                                                      \
			   {PRM_MODIFY_QP_IN_QPC, fw_qp_fields},                                   \
			   {PRM_MODIFY_QP_IN_QPC + PRM_QPC_PATH, fw_path_fields}},                 \
	}
#define HEAD_ONLY(opcode_, bytes, fields, run_)                                                    \
	{                                                                                          \
		.opcode = (opcode_), .in_bytes = (bytes), .run = (run_), .groups = {{0, fields}},  \
	}

static const struct spec specs[] = {
	{.opcode = PRM_OP_QUERY_HCA_CAP,
	 .has_op_mod = true,
	 .in_bytes = PRM_QUERY_HCA_CAP_IN_BYTES,
	 .run = fw_query_hca_cap,
	 .groups = {{0, cap_in}}},
	{.opcode = PRM_OP_CREATE_CQ,
	 .in_bytes = PRM_CREATE_CQ_IN_BYTES,
	 .run = fw_create_cq,
	 .groups = {{0, create_cq_in}, {PRM_CREATE_CQ_IN_CQC, fw_cq_fields}}},
	{.opcode = PRM_OP_MODIFY_CQ,
	 .has_op_mod = true,
	 .in_bytes = PRM_MODIFY_CQ_IN_BYTES,
	 .run = fw_modify_cq,
	 .groups = {{0, modify_cq_in}, {PRM_MODIFY_CQ_IN_CQC, fw_cq_fields}}},
	HEAD_ONLY(PRM_OP_QUERY_CQ, PRM_CQ_IN_BYTES, cq_in, fw_query_cq),
	{.opcode = PRM_OP_CREATE_QP,
	 .in_bytes = PRM_CREATE_QP_IN_BYTES,
	 .run = fw_create_qp,
	 .groups = {{0, create_qp_in},
		    {PRM_CREATE_QP_IN_QPC, fw_qp_fields},
		    {PRM_CREATE_QP_IN_QPC + PRM_QPC_PATH, fw_path_fields}}},
	MODIFY_QP(PRM_OP_RST2INIT_QP),
	MODIFY_QP(PRM_OP_INIT2INIT_QP),
	MODIFY_QP(PRM_OP_INIT2RTR_QP),
	MODIFY_QP(PRM_OP_RTR2RTS_QP),
	{.opcode = PRM_OP_RTS2RTS_QP,
	 .in_bytes = PRM_MODIFY_QP_IN_BYTES,
	 .run = fw_rts2rts_qp,
	 .groups = {{0, rts2rts_qp_in},
		    {PRM_MODIFY_QP_IN_QPC, fw_qp_fields},
		    {PRM_MODIFY_QP_IN_QPC + PRM_QPC_PATH, fw_path_fields}}},
	MODIFY_QP(PRM_OP_SQERR2RTS_QP),
	HEAD_ONLY(PRM_OP_2ERR_QP, PRM_QP_IN_BYTES, qp_in, fw_modify_qp),
	HEAD_ONLY(PRM_OP_2RST_QP, PRM_QP_IN_BYTES, qp_in, fw_modify_qp),
	HEAD_ONLY(PRM_OP_QUERY_QP, PRM_QP_IN_BYTES, qp_in, fw_query_qp),
	{.opcode = PRM_OP_CREATE_MKEY,
	 .has_list = true,
	 .in_bytes = PRM_CREATE_MKEY_IN_BYTES,
	 .run = fw_create_mkey,
	 .groups = {{0, create_mkey_in}, {PRM_CREATE_MKEY_IN_MKC, fw_mkey_fields}}},
	HEAD_ONLY(PRM_OP_QUERY_MKEY, PRM_QUERY_MKEY_IN_BYTES, query_mkey_in, fw_query_mkey),
	{.opcode = PRM_OP_CREATE_DCT,
	 .in_bytes = 0x80, /* as Linux sends it; UCX and DOCA GPUNetIO send 0xb0, whose end is 0 */
	 .run = fw_create_dct,
	 .groups = {{PRM_CREATE_DCT_IN_DCTC, fw_dct_fields}}},
	HEAD_ONLY(PRM_OP_QUERY_DCT, PRM_DCT_IN_BYTES, dct_in, fw_query_dct),
	{.opcode = PRM_OP_CREATE_RMP,
	 .in_bytes = PRM_CREATE_RMP_IN_BYTES,
	 .run = fw_create_rmp,
	 .groups = {{PRM_CREATE_RMP_IN_RMPC, rmpc}, {PRM_CREATE_RMP_IN_RMPC + PRM_RMPC_WQ, fw_wq_fields}}},
	HEAD_ONLY(PRM_OP_QUERY_RMP, PRM_RMP_IN_BYTES, rmp_in, fw_query_rmp),
	{.opcode = PRM_OP_ARM_RQ,
	 .has_op_mod = true,
	 .in_bytes = PRM_ARM_RQ_IN_BYTES,
	 .run = fw_arm_rq,
	 .groups = {{0, arm_rq_in}}},
	HEAD_ONLY(PRM_OP_QUERY_HCA_VPORT_CONTEXT, PRM_QUERY_HCA_VPORT_CONTEXT_IN_BYTES, vport_in,
		  fw_query_vport),
	HEAD_ONLY(PRM_OP_QUERY_LAG, PRM_EMPTY_IN_BYTES, nothing, fw_query_lag),
	HEAD_ONLY(PRM_OP_ALLOC_PD, PRM_EMPTY_IN_BYTES, nothing, fw_alloc_pd),
	HEAD_ONLY(PRM_OP_ALLOC_Q_COUNTER, PRM_EMPTY_IN_BYTES, nothing, fw_alloc_counter),
	HEAD_ONLY(PRM_OP_QUERY_Q_COUNTER, PRM_QUERY_Q_COUNTER_IN_BYTES, query_counter_in,
		  fw_query_counter),
	{.opcode = PRM_OP_CREATE_GENERAL_OBJECT,
	 .has_op_mod = true,
	 .in_bytes = PRM_CREATE_AV_QP_MAPPING_IN_BYTES,
	 .run = fw_create_object,
	 .groups = {{0, mapping_in}}},
	HEAD_ONLY(PRM_OP_QUERY_ROCE_ADDRESS, PRM_QUERY_ROCE_ADDRESS_IN_BYTES, roce_in,
		  fw_query_roce_address),
};

/* ---- failing --------------------------------------------------------------------------------------------------- */

int fw_fail(struct fw_cmd *cmd, enum prm_status status, uint32_t field, const char *reason, ...)
{
	uint32_t syndrome = (uint32_t)cmd->opcode << 16 | (PRM_BIT(field) & 0xffff);
	char text[200];
	va_list args;

	va_start(args, reason);
	vsnprintf(text, sizeof(text), reason, args);
	va_end(args);
	cmd->call->refused = true;
	memset(cmd->out, 0, cmd->out_bytes);
	prm_set(cmd->out, PRM_OUT_STATUS, status);
	prm_set(cmd->out, PRM_OUT_SYNDROME, syndrome);
	sim_log(cmd->call->ufile->sim,
		"mlx5_%d uid %u: %s (0x%x) failed: %s, status 0x%x, syndrome 0x%x: %s",
		cmd->nic->index, cmd->call->ufile->uid, prm_opcode_name(cmd->opcode), cmd->opcode,
		prm_status_words(status), status, syndrome, text);
	return -EREMOTEIO;
}

/* The field that a bit is of, in words. */
static void name_bit(const struct prm_struct *s, uint32_t bit, char *buf, size_t room)
{
	for (uint32_t i = 0; i < s->n_fields; i++) {
		const struct prm_field *f = &s->fields[i];
		uint32_t from = PRM_BIT(f->at), bits = f->inner ? f->inner->n_bits : PRM_WIDTH(f->at);

		if (bit < from || bit >= from + bits)
			continue;
		if (f->inner)
			name_bit(f->inner, bit - from, buf, room);
		else
			snprintf(buf, room, "%s.%s", s->name, f->name);
		return;
	}
	snprintf(buf, room, "reserved bit 0x%x of %s", bit, s->name);
}

/* ---- checking -------------------------------------------------------------------------------------------------- */

static const struct spec *find_spec(uint16_t opcode)
{
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		if (specs[i].opcode == opcode)
			return &specs[i];
	}
	return NULL;
}

/* Takes a field's bits out of a copy of the input: what is left at the end was not expected. */
static void take_out(uint8_t *left, size_t bytes, uint32_t base, uint32_t field)
{
	uint32_t bit = PRM_BIT(base) + PRM_BIT(field);

	for (uint32_t i = 0; i < PRM_WIDTH(field) && (bit + i) / 8 < bytes; i++)
		left[(bit + i) / 8] &= (uint8_t)~(0x80u >> (bit + i) % 8);
}

static int check_bits(struct fw_cmd *cmd, const struct spec *spec)
{
	const struct prm_command *command = prm_command_find(cmd->opcode);
	uint8_t left[INPUT_MAX];
	char name[80];

	memcpy(left, cmd->in, cmd->in_bytes);
	take_out(left, cmd->in_bytes, 0, PRM_IN_OPCODE);
	take_out(left, cmd->in_bytes, 0, PRM_IN_UID);
	if (spec->has_op_mod)
		take_out(left, cmd->in_bytes, 0, PRM_IN_OP_MOD);
	for (size_t g = 0; g < sizeof(spec->groups) / sizeof(spec->groups[0]); g++) {
		for (const uint32_t *f = spec->groups[g].fields; f && *f; f++)
			take_out(left, cmd->in_bytes, spec->groups[g].base, *f);
	}
	for (uint32_t bit = 0; bit < (spec->has_list ? spec->in_bytes : cmd->in_bytes) * 8; bit++) {
		if (!(left[bit / 8] & 0x80u >> bit % 8))
			continue;
		name_bit(command->in, bit, name, sizeof(name));
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, PRM_AT(bit, 1),
			       "%s is set, which is not known here", name);
	}
	return 0;
}

static int run(struct fw_cmd *cmd)
{
	const struct spec *spec = find_spec(cmd->opcode);
	int r;

	if (!spec)
		return fw_fail(cmd, PRM_STATUS_BAD_OP, 0, "no such command here");
	if (cmd->in_bytes < spec->in_bytes || cmd->in_bytes > INPUT_MAX)
		return fw_fail(cmd, PRM_STATUS_BAD_INP_LEN, 0, "%zu bytes, not %u", cmd->in_bytes,
			       spec->in_bytes);
	r = check_bits(cmd, spec);
	return r < 0 ? r : spec->run(cmd);
}

int fw_exec(struct fw_cmd *cmd)
{
	cmd->opcode = (uint16_t)prm_get(cmd->in, PRM_IN_OPCODE);
	cmd->op_mod = (uint16_t)prm_get(cmd->in, PRM_IN_OP_MOD);
	cmd->call->what = prm_opcode_name(cmd->opcode);
	fw_trace(cmd->call->ufile->sim->trace, cmd->in, cmd->in_bytes);
	fw_wait(cmd->call->ufile);
	return run(cmd);
}

/* Once: the caller sees that it has happened. */
static void look_at_kills(struct ufile *ufile, uint64_t n)
{
	uint64_t *at = &ufile->sim->kill_at[ufile->nic->index], want = __atomic_load_n(at, __ATOMIC_RELAXED);

	if (!want || (want & ~SIM_KILL_SENDER) != n ||
	    !__atomic_compare_exchange_n(at, &want, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	ufile->kills = true;
	ufile->kills_sender = want & SIM_KILL_SENDER;
}

void fw_wait(struct ufile *ufile)
{
	const struct sim *sim = ufile->sim;
	struct timespec pause = {sim->fw_latency_usec / 1000000,
				 (long)(sim->fw_latency_usec % 1000000) * 1000};
	int nic = ufile->nic->index;
	uint64_t n;

	ufile->n_commands++;
	n = __atomic_add_fetch(&sim->n_commands[nic], 1, __ATOMIC_RELAXED);
	look_at_kills(ufile, n);
	if (sim->fw_latency_usec)
		nanosleep(&pause, NULL);
}

/* ---- for commands ---------------------------------------------------------------------------------------------- */

void fw_set(struct fw_cmd *cmd, uint32_t field, uint64_t value)
{
	if (PRM_BIT(field) + PRM_WIDTH(field) <= cmd->out_bytes * 8)
		prm_set(cmd->out, field, value);
}

struct object *fw_object(struct fw_cmd *cmd, uint16_t made_by, uint32_t field, const char *what)
{
	uint32_t number = (uint32_t)fw_get(cmd, field);
	struct object *object = object_named(cmd->call->ufile, made_by, number);

	if (!object)
		fw_fail(cmd, PRM_STATUS_BAD_RES, field, "this uid has no %s 0x%x", what, number);
	return object;
}

/* ---- what the kernel takes a command for ----------------------------------------------------------------------- */

/* Linux drivers/infiniband/hw/mlx5/devx.c: what each of its methods lets through to the firmware. */
static const uint16_t general_opcodes[] = {
	0x100, 0x101, 0x10a, 0x750, 0x752, 0x754, 0x760, 0x762,
	0x76f, 0x770, 0x80d, 0x822, 0x824, 0x826, 0x842,
};
static const uint16_t create_opcodes[] = {
	0x200, 0x400, 0x500, 0x600, 0x700, 0x705, 0x710, 0x717, 0x771, 0x782,
	0x800, 0x806, 0x80e, 0x816, 0x827, 0x829, 0x900, 0x904, 0x908, 0x90c,
	0x912, 0x916, 0x930, 0x933, 0x936, 0x939, 0x93d, 0x940, 0xa00,
};
static const uint16_t modify_opcodes[] = {
	0x403, 0x502, 0x503, 0x504, 0x505, 0x506, 0x507, 0x50a, 0x50e, 0x703,
	0x708, 0x714, 0x71a, 0x726, 0x729, 0x72a, 0x785, 0x827, 0x829, 0x901,
	0x905, 0x909, 0x90d, 0x913, 0x917, 0x936, 0x93c, 0xa01,
};
static const uint16_t query_opcodes[] = {
	0x201, 0x402, 0x50b, 0x702, 0x707, 0x713, 0x719, 0x725, 0x727, 0x773, 0x784, 0x82a,
	0x903, 0x907, 0x90b, 0x90f, 0x915, 0x919, 0x932, 0x935, 0x937, 0x93b, 0x93f, 0x942,
	0xa02,
};

bool fw_is_kind(uint16_t opcode, enum fw_kind kind)
{
	static const struct {
		const uint16_t *opcodes;
		size_t n;
	} kinds[] = {
#define KIND(a) {a, sizeof(a) / sizeof((a)[0])}
		[FW_GENERAL] = KIND(general_opcodes),
		[FW_CREATE] = KIND(create_opcodes),
		[FW_MODIFY] = KIND(modify_opcodes),
		[FW_QUERY] = KIND(query_opcodes),
#undef KIND
	};

	for (size_t i = 0; i < kinds[kind].n; i++) {
		if (kinds[kind].opcodes[i] == opcode)
			return true;
	}
	return false;
}

/* Which field of a command has the number, and what made the object. */
static const struct {
	uint16_t opcode, made_by;
	uint32_t field;
} objects_of[] = {
	{PRM_OP_QUERY_MKEY, PRM_OP_CREATE_MKEY, PRM_QUERY_MKEY_IN_INDEX},
	{PRM_OP_QUERY_CQ, PRM_OP_CREATE_CQ, PRM_CQ_IN_CQN},
	{PRM_OP_MODIFY_CQ, PRM_OP_CREATE_CQ, PRM_CQ_IN_CQN},
	{PRM_OP_RST2INIT_QP, PRM_OP_CREATE_QP, PRM_QP_IN_QPN},
	{PRM_OP_INIT2INIT_QP, PRM_OP_CREATE_QP, PRM_QP_IN_QPN},
	{PRM_OP_INIT2RTR_QP, PRM_OP_CREATE_QP, PRM_QP_IN_QPN},
	{PRM_OP_RTR2RTS_QP, PRM_OP_CREATE_QP, PRM_QP_IN_QPN},
	{PRM_OP_RTS2RTS_QP, PRM_OP_CREATE_QP, PRM_QP_IN_QPN},
	{PRM_OP_SQERR2RTS_QP, PRM_OP_CREATE_QP, PRM_QP_IN_QPN},
	{PRM_OP_2ERR_QP, PRM_OP_CREATE_QP, PRM_QP_IN_QPN},
	{PRM_OP_2RST_QP, PRM_OP_CREATE_QP, PRM_QP_IN_QPN},
	{PRM_OP_QUERY_QP, PRM_OP_CREATE_QP, PRM_QP_IN_QPN},
	{PRM_OP_QUERY_DCT, PRM_OP_CREATE_DCT, PRM_DCT_IN_DCTN},
	{PRM_OP_QUERY_RMP, PRM_OP_CREATE_RMP, PRM_RMP_IN_RMPN},
	{PRM_OP_ARM_RQ, PRM_OP_CREATE_RMP, PRM_ARM_RQ_IN_SRQN},
	{PRM_OP_QUERY_Q_COUNTER, PRM_OP_ALLOC_Q_COUNTER, PRM_QUERY_Q_COUNTER_IN_COUNTER_SET_ID},
};

bool fw_object_of(const struct fw_cmd *cmd, uint16_t *ret_made_by, uint32_t *ret_number)
{
	for (size_t i = 0; i < sizeof(objects_of) / sizeof(objects_of[0]); i++) {
		uint32_t field = objects_of[i].field;

		if (objects_of[i].opcode != cmd->opcode)
			continue;
		if (PRM_BIT(field) + PRM_WIDTH(field) > cmd->in_bytes * 8)
			return false;
		*ret_made_by = objects_of[i].made_by;
		*ret_number = (uint32_t)fw_get(cmd, field);
		return true;
	}
	return false;
}
