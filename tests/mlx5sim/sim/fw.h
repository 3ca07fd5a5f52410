/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The firmware: commands as they come from DEVX, on objects of the uid that sends them. The thread of the ufile.
 *
 * Fields are those of daemon/nic/mlx5/prm.h. Each command lists the fields it takes; any other bit that is set is
 * refused. A refusal has a status and a syndrome: the opcode in the upper half, the bit offset of the field that
 * is wrong in the lower one.
 */
#ifndef SHMEMD_TESTS_MLX5SIM_FW_H
#define SHMEMD_TESTS_MLX5SIM_FW_H

#include "daemon/nic/mlx5/prm.h"
#include "tests/mlx5sim/sim/sim.h"

/* Linux include/linux/mlx5/device.h, MLX5_EVENT_TYPE_*. */
enum fw_event {
	FW_EVENT_COMPLETION = 0x00,
	FW_EVENT_PATH_MIGRATED = 0x01,
	FW_EVENT_COMM_ESTABLISHED = 0x02,
	FW_EVENT_SQ_DRAINED = 0x03,
	FW_EVENT_CQ_ERROR = 0x04,
	FW_EVENT_WQ_CATASTROPHIC = 0x05,
	FW_EVENT_PATH_MIGRATION_FAILED = 0x07,
	FW_EVENT_PORT_CHANGE = 0x09,
	FW_EVENT_WQ_INVALID_REQUEST = 0x10,
	FW_EVENT_WQ_ACCESS = 0x11,
	FW_EVENT_SRQ_CATASTROPHIC = 0x12,
	FW_EVENT_SRQ_LAST_WQE = 0x13,
	FW_EVENT_SRQ_LIMIT = 0x14,
	FW_EVENT_XRQ_ERROR = 0x18,
	FW_EVENT_DCT_DRAINED = 0x1c,
	FW_EVENT_DCT_KEY_VIOLATION = 0x1d,
};
enum fw_port_subtype { FW_PORT_DOWN = 1, FW_PORT_ACTIVE = 4 };
#define FW_QUEUE_DCT 6 /* MLX5_EVENT_QUEUE_TYPE_DCT */

#define FW_EQN 7u /* of completion vector 0 */

/* A umem has no command of its own that a client could send: the kernel's. */
#define FW_CREATE_UMEM 0xa08

struct fw_cmd {
	struct call *call;
	struct nic *nic;
	const uint8_t *in; /* at least as long as the command's structure */
	size_t in_bytes;
	uint8_t *out;
	size_t out_bytes;
	uint16_t opcode, op_mod;
	struct object *created;
};

/* The kernel's class of a command. */
enum fw_kind { FW_GENERAL, FW_CREATE, FW_MODIFY, FW_QUERY };

bool fw_is_kind(uint16_t opcode, enum fw_kind kind);
/* The opcode that made the object that a modify or query command is for, and its number. False: none. */
bool fw_object_of(const struct fw_cmd *cmd, uint16_t *ret_made_by, uint32_t *ret_number);

/* Runs one command of this context; its answer is in `out`. -EREMOTEIO: it failed, and `out` says how. */
int fw_exec(struct fw_cmd *cmd);
/* One more command of this context: counted, and slept as long as one takes. */
void fw_wait(struct ufile *ufile);
/* Fails the command; `field` is what is wrong. */
int fw_fail(struct fw_cmd *cmd, enum prm_status status, uint32_t field, const char *reason, ...)
	__attribute__((format(printf, 4, 5)));

static inline uint64_t fw_get(const struct fw_cmd *cmd, uint32_t field)
{
	return prm_get(cmd->in, field);
}

/* Values of out_bytes or more are not there to be set: a shorter answer was asked for. */
void fw_set(struct fw_cmd *cmd, uint32_t field, uint64_t value);
/* May a QP or DCT have this enum prm_atomic_mode on the device? Else the command has failed. */
int fw_check_atomic_mode(struct fw_cmd *cmd, uint32_t field);
/* An object of this uid by the number in a field, or NULL with the command failed. */
struct object *fw_object(struct fw_cmd *cmd, uint16_t made_by, uint32_t field, const char *what);

/* Memory of a umem, for an object that uses it. */
struct umem {
	struct object object;
	struct memory *memory;
	uint64_t addr, bytes;
	bool writable;
};

/*
 * `bytes` at `offset` of the umem named in a field: a pointer, and the umem with one user more. NULL with the command
 * failed.
 */
void *fw_umem(struct fw_cmd *cmd, uint32_t id_field, uint32_t offset_field, uint64_t bytes,
	      bool writable, struct umem **ret_umem);
void umem_put(struct umem *umem); /* takes NULL */

int fw_query_hca_cap(struct fw_cmd *cmd);
int fw_create_mkey(struct fw_cmd *cmd);
int fw_query_mkey(struct fw_cmd *cmd);
int fw_create_cq(struct fw_cmd *cmd);
int fw_query_cq(struct fw_cmd *cmd);
int fw_modify_cq(struct fw_cmd *cmd);
int fw_create_qp(struct fw_cmd *cmd);
int fw_modify_qp(struct fw_cmd *cmd);
int fw_rts2rts_qp(struct fw_cmd *cmd);
int fw_query_qp(struct fw_cmd *cmd);
int fw_create_dct(struct fw_cmd *cmd);
int fw_query_dct(struct fw_cmd *cmd);
int fw_alloc_pd(struct fw_cmd *cmd);
int fw_alloc_counter(struct fw_cmd *cmd);
int fw_query_counter(struct fw_cmd *cmd);
int fw_query_roce_address(struct fw_cmd *cmd);
int fw_query_vport(struct fw_cmd *cmd);
int fw_query_lag(struct fw_cmd *cmd);
int fw_create_rmp(struct fw_cmd *cmd);
int fw_query_rmp(struct fw_cmd *cmd);
int fw_arm_rq(struct fw_cmd *cmd);
int fw_create_object(struct fw_cmd *cmd);

/*
 * Behind RTS2RTS_QP: an extension of the QP's context; only a DCI's stream is read (rdma-core mlx5_ifc.h, rts2rts_qp_in and
 * qpc_ext).
 */
#define FW_RTS2RTS_EXT_STREAM PRM_AT(0x890, 16)
#define FW_RTS2RTS_EXT_BYTES 0x1d0u

/* Field tables of the structures in commands. Each ends with a zero. */
extern const uint32_t fw_qp_fields[], fw_path_fields[], fw_cq_fields[], fw_mkey_fields[],
	fw_dct_fields[], fw_wq_fields[];

#endif
