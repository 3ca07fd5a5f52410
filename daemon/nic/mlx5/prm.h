/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Firmware commands of ConnectX NICs as tables of fields: which structure, which bit, how many bits. Pure: no rdma-core,
 * no NIC; the backend encodes with it, its trace decodes with it, and tests may too.
 *
 * A structure is a big-endian bit string: bit 0 is the top bit of its first byte, a value's top bit comes first. A
 * field is one number, PRM_AT(bit, width), so a field of an embedded structure is a sum:
 *
 *	uint8_t in[PRM_CREATE_QP_IN_BYTES] = {0};
 *
 *	prm_set(in, PRM_IN_OPCODE, PRM_OP_CREATE_QP);
 *	prm_set(in, PRM_CREATE_QP_IN_QPC + PRM_QPC_PD, pdn);
 *
 * Sources, named at each structure: "PRM" is NVIDIA's "Adapters Programmer's Reference Manual", whose structures are
 * published as field lists in Linux (include/linux/mlx5/mlx5_ifc.h), rdma-core (providers/mlx5/mlx5_ifc.h and
 * tests/mlx5_prm_structs.py), DPDK (mlx5_prm.h) and UCX (ib_mlx5_ifc.h). Fields are ours to list: those not needed here
 * and by the tests are left out, so a bit in no field is one that this code neither sets nor understands.
 */
#ifndef SHMEMD_NIC_MLX5_PRM_H
#define SHMEMD_NIC_MLX5_PRM_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/nic/mlx5/prm-structs.h"

/* ---- fields ------------------------------------------------------------------------------------------------ */

/* A value that does not fit its field is a bug of the caller, never cut. Widths are 1..64. */
void prm_set(void *buf, uint32_t field, uint64_t value);
uint64_t prm_get(const void *buf, uint32_t field);
/* Fields of whole bytes at a byte's boundary: GIDs and MACs. */
void prm_set_bytes(void *buf, uint32_t field, const void *bytes);
void prm_get_bytes(const void *buf, uint32_t field, void *ret_bytes);

/* ---- commands ------------------------------------------------------------------------------------------------ */

/*
 * PRM, command opcodes: opcode, name, input and output structure.
 * INIT2RTR, RTR2RTS and their kin share one layout; 2ERR and 2RST have a head only.
 */
#define PRM_COMMANDS(C)                                                            \
	C(0x100, QUERY_HCA_CAP, QUERY_HCA_CAP_IN, QUERY_HCA_CAP_OUT)               \
	C(0x200, CREATE_MKEY, CREATE_MKEY_IN, CREATE_MKEY_OUT)                     \
	C(0x201, QUERY_MKEY, QUERY_MKEY_IN, QUERY_MKEY_OUT)                        \
	C(0x202, DESTROY_MKEY, DESTROY_MKEY_IN, EMPTY_OUT)                         \
	C(0x203, QUERY_SPECIAL_CONTEXTS, EMPTY_IN, QUERY_SPECIAL_CONTEXTS_OUT)     \
	C(0x400, CREATE_CQ, CREATE_CQ_IN, CREATE_CQ_OUT)                           \
	C(0x401, DESTROY_CQ, CQ_IN, EMPTY_OUT)                                     \
	C(0x402, QUERY_CQ, CQ_IN, QUERY_CQ_OUT)                                    \
	C(0x403, MODIFY_CQ, MODIFY_CQ_IN, EMPTY_OUT)                               \
	C(0x500, CREATE_QP, CREATE_QP_IN, CREATE_QP_OUT)                           \
	C(0x501, DESTROY_QP, QP_IN, EMPTY_OUT)                                     \
	C(0x502, RST2INIT_QP, MODIFY_QP_IN, MODIFY_QP_OUT)                         \
	C(0x503, INIT2RTR_QP, MODIFY_QP_IN, MODIFY_QP_OUT)                         \
	C(0x504, RTR2RTS_QP, MODIFY_QP_IN, MODIFY_QP_OUT)                          \
	C(0x505, RTS2RTS_QP, MODIFY_QP_IN, MODIFY_QP_OUT)                          \
	C(0x506, SQERR2RTS_QP, MODIFY_QP_IN, MODIFY_QP_OUT)                        \
	C(0x507, 2ERR_QP, QP_IN, EMPTY_OUT)                                        \
	C(0x50a, 2RST_QP, QP_IN, EMPTY_OUT)                                        \
	C(0x50b, QUERY_QP, QP_IN, QUERY_QP_OUT)                                    \
	C(0x50c, SQD2RTS_QP, MODIFY_QP_IN, MODIFY_QP_OUT)                          \
	C(0x50e, INIT2INIT_QP, MODIFY_QP_IN, MODIFY_QP_OUT)                        \
	C(0x703, ARM_RQ, ARM_RQ_IN, EMPTY_OUT)                                     \
	C(0x710, CREATE_DCT, CREATE_DCT_IN, CREATE_DCT_OUT)                        \
	C(0x711, DESTROY_DCT, DCT_IN, EMPTY_OUT)                                   \
	C(0x712, DRAIN_DCT, DCT_IN, EMPTY_OUT)                                     \
	C(0x713, QUERY_DCT, DCT_IN, QUERY_DCT_OUT)                                 \
	C(0x760, QUERY_ROCE_ADDRESS, QUERY_ROCE_ADDRESS_IN, QUERY_ROCE_ADDRESS_OUT) \
	C(0x762, QUERY_HCA_VPORT_CONTEXT, QUERY_HCA_VPORT_CONTEXT_IN, QUERY_HCA_VPORT_CONTEXT_OUT) \
	C(0x771, ALLOC_Q_COUNTER, EMPTY_IN, ALLOC_Q_COUNTER_OUT)                   \
	C(0x772, DEALLOC_Q_COUNTER, DEALLOC_Q_COUNTER_IN, EMPTY_OUT)               \
	C(0x773, QUERY_Q_COUNTER, QUERY_Q_COUNTER_IN, QUERY_Q_COUNTER_OUT)         \
	C(0x800, ALLOC_PD, EMPTY_IN, ALLOC_PD_OUT)                                 \
	C(0x801, DEALLOC_PD, DEALLOC_PD_IN, EMPTY_OUT)                             \
	C(0x802, ALLOC_UAR, EMPTY_IN, ALLOC_UAR_OUT)                               \
	C(0x803, DEALLOC_UAR, DEALLOC_UAR_IN, EMPTY_OUT)                           \
	C(0x842, QUERY_LAG, EMPTY_IN, QUERY_LAG_OUT)                               \
	C(0x90c, CREATE_RMP, CREATE_RMP_IN, CREATE_RMP_OUT)                        \
	C(0x90e, DESTROY_RMP, RMP_IN, EMPTY_OUT)                                   \
	C(0x90f, QUERY_RMP, RMP_IN, QUERY_RMP_OUT)                                 \
	C(0xa00, CREATE_GENERAL_OBJECT, CREATE_AV_QP_MAPPING_IN, CREATE_GENERAL_OBJECT_OUT)

#define PRM_COMMAND_ENUM(opcode, name, in, out) PRM_OP_##name = (opcode),
enum prm_opcode { PRM_COMMANDS(PRM_COMMAND_ENUM) };
#undef PRM_COMMAND_ENUM

/* PRM, delivery status of a command (Linux: include/linux/mlx5/device.h, MLX5_CMD_STAT_*). */
#define PRM_STATUSES(S)                                                     \
	S(0x00, OK, "ok")                                                   \
	S(0x01, INTERNAL, "internal error of the firmware")                 \
	S(0x02, BAD_OP, "command or op_mod not supported")                  \
	S(0x03, BAD_PARAM, "parameter not supported or out of range")       \
	S(0x04, BAD_SYS_STATE, "system was not enabled or is in bad state") \
	S(0x05, BAD_RES, "resource does not exist or is of another owner")  \
	S(0x06, RES_BUSY, "resource is in use")                             \
	S(0x08, LIM, "limit of the NIC exceeded")                           \
	S(0x09, BAD_RES_STATE, "resource is in the wrong state")            \
	S(0x0a, IX, "index out of range")                                   \
	S(0x0f, NO_RES, "no resources left")                                \
	S(0x10, BAD_QP_STATE, "QP is in the wrong state")                   \
	S(0x30, BAD_PKT, "management packet refused")                       \
	S(0x40, BAD_SIZE_OUTS_CQES, "more CQEs outstanding than fit")       \
	S(0x50, BAD_INP_LEN, "input has the wrong length")                  \
	S(0x51, BAD_OUTP_LEN, "output has the wrong length")

#define PRM_STATUS_ENUM(number, name, words) PRM_STATUS_##name = (number),
enum prm_status { PRM_STATUSES(PRM_STATUS_ENUM) };
#undef PRM_STATUS_ENUM

/* ---- values ---------------------------------------------------------------------------------------------------- */

/* QUERY_HCA_CAP: op_mod = type << 1 | PRM_CAP_CURRENT. */
enum prm_cap {
	PRM_CAP_GENERAL = 0x0,
	PRM_CAP_ODP = 0x2,
	PRM_CAP_ATOMIC = 0x3,
	PRM_CAP_ROCE = 0x4,
	PRM_CAP_GENERAL_2 = 0x20,
};
#define PRM_CAP_CURRENT 1u

/* cmd_hca_cap.port_type */
enum prm_port_type { PRM_PORT_IB = 0, PRM_PORT_ETHERNET = 1 };

/* qpc.state */
enum prm_qp_state {
	PRM_QPS_RST = 0,
	PRM_QPS_INIT = 1,
	PRM_QPS_RTR = 2,
	PRM_QPS_RTS = 3,
	PRM_QPS_SQER = 4,
	PRM_QPS_ERR = 6,
	PRM_QPS_SQD = 7,
};

/* qpc.st */
enum prm_service { PRM_ST_RC = 0, PRM_ST_UC = 1, PRM_ST_UD = 2, PRM_ST_XRC = 3, PRM_ST_DCI = 5 };

/* qpc.pm_state: the path in use is the only one */
#define PRM_PM_MIGRATED 3u

/* qpc.rq_type */
enum prm_rq_type { PRM_RQ_OWN = 0, PRM_RQ_SRQ = 1, PRM_RQ_NONE = 3 };

/* qpc.atomic_mode, dctc.atomic_mode */
enum prm_atomic_mode {
	PRM_ATOMIC_NONE = 0,
	PRM_ATOMIC_IB_SPEC = 1,
	PRM_ATOMIC_ONLY_8B = 2,
	PRM_ATOMIC_UP_TO_8B = 3,
};

/* qpc.ts_format */
enum prm_ts_format { PRM_TS_FREE_RUNNING = 0, PRM_TS_DEFAULT = 1, PRM_TS_REAL_TIME = 2 };

/* ---- the same as data, for decoders ----------------------------------------------------------------------------- */

struct prm_struct;

struct prm_field {
	const char *name; /* "LOG_CQ_SIZE" */
	uint32_t at; /* PRM_AT */
	const struct prm_struct *inner; /* of an embedded structure */
};

struct prm_struct {
	const char *name; /* "CQC" */
	const char *source;
	enum prm_kind kind;
	uint32_t n_bits;
	uint32_t n_fields;
	const struct prm_field *fields; /* own ones: heads of commands are not repeated */
};

struct prm_command {
	uint16_t opcode;
	const char *name; /* "CREATE_QP" */
	const struct prm_struct *in;
	const struct prm_struct *out;
};

extern const struct prm_struct *const prm_structs[];
extern const size_t prm_n_structs;
extern const struct prm_command prm_commands[];
extern const size_t prm_n_commands;

/* NULL where the opcode is not in the table. */
const struct prm_command *prm_command_find(uint32_t opcode);
/* The structure in an answer to QUERY_HCA_CAP with this op_mod, or NULL. */
const struct prm_struct *prm_cap_struct(uint32_t op_mod);

/* Words; never NULL. */
const char *prm_opcode_name(uint32_t opcode);
const char *prm_status_words(uint32_t status);
/* In the errors of nic.h, negative; 0 for OK. */
int prm_status_errno(uint32_t status);

#endif
