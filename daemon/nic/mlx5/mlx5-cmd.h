/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the structs of nic.h to the bytes of firmware commands, and back to words. Pure: no rdma-core, no NIC.
 *
 * An encoder fills the whole command; what it leaves 0 is meant to be 0. Its arguments were checked by the caller:
 * what does not fit a field is a bug.
 */
#ifndef SHMEMD_NIC_MLX5_CMD_H
#define SHMEMD_NIC_MLX5_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/nic/mlx5/prm.h"
#include "daemon/nic/nic.h"

#define MLX5_CMD_MAX_IN PRM_CREATE_QP_IN_BYTES

struct mlx5_cmd {
	uint32_t in_bytes;
	uint32_t out_bytes; /* of the answer */
	uint8_t in[MLX5_CMD_MAX_IN];
};

/* All zeros but the opcode, with the lengths of the table. */
void mlx5_cmd_begin(struct mlx5_cmd *cmd, enum prm_opcode opcode);

/* ---- what a NIC can ------------------------------------------------------------------------------------------ */

struct mlx5_caps {
	uint8_t log_max_qp, log_max_qp_sz;
	uint8_t log_max_cq, log_max_cq_sz;
	uint8_t log_max_mkey;
	uint8_t log_max_msg;
	uint8_t log_max_ra_req_qp, log_max_ra_res_qp;
	uint8_t log_max_ra_req_dc, log_max_ra_res_dc;
	uint8_t num_ports;
	uint8_t cqe_version;
	enum nic_link link;
	bool rc, dct, roce, cq_oi;
	uint8_t ts_format; /* enum prm_ts_format, for QPs */
	uint8_t atomic_mode, atomic_mode_dc; /* enum prm_atomic_mode */
	uint32_t atomics, atomics_dc; /* NIC_ATOMIC_* */
	uint16_t udp_sport_min, udp_sport_max;
};

/* `type` is an enum prm_cap. */
void mlx5_cmd_query_cap(struct mlx5_cmd *cmd, uint32_t type);
/* An entry of the RoCE address table. */
void mlx5_cmd_query_roce_address(struct mlx5_cmd *cmd, uint32_t index);
/* Answers to mlx5_cmd_query_cap(), PRM_QUERY_HCA_CAP_OUT_BYTES each; atomic and roce may be NULL when the NIC has none. */
void mlx5_caps_init(struct mlx5_caps *caps, const void *general, const void *atomic, const void *roce);

/* ---- CQs and counters ------------------------------------------------------------------------------------------- */

/* Queue memory is one umem; offsets of nic_cq and nic_qp are offsets in it. */
struct mlx5_cq_args {
	const struct nic_cq *cq;
	uint32_t umem_id;
	uint32_t uar_page;
	uint32_t eqn;
};

void mlx5_cmd_create_cq(struct mlx5_cmd *cmd, const struct mlx5_cq_args *args);
void mlx5_cmd_query_cq(struct mlx5_cmd *cmd, uint32_t cqn);

void mlx5_cmd_alloc_q_counter(struct mlx5_cmd *cmd);
void mlx5_cmd_query_q_counter(struct mlx5_cmd *cmd, uint32_t counter_set_id);

/* ---- QPs and DCTs ------------------------------------------------------------------------------------------------ */

/* This side of every path. */
struct mlx5_port {
	enum nic_link link;
	uint8_t number; /* from 1 */
	uint8_t gid_index; /* RoCE: a v2 entry */
	uint8_t gid[16];
	uint8_t mac[6];
	uint16_t lid;
	uint8_t mtu_log2; /* 8..12 */
	bool demands_grh; /* the subnet has it in every packet */
	uint8_t max_mtu_log2; /* that was asked for; 0: any */
};

struct mlx5_qp_args {
	const struct nic_qp *qp; /* RC or DCI; send_cqn and recv_cqn are numbers */
	const struct mlx5_caps *caps;
	uint32_t umem_id;
	uint32_t pdn;
	uint32_t uar_page;
	uint32_t user_index; /* in CQEs of version 1 */
};

void mlx5_cmd_create_qp(struct mlx5_cmd *cmd, const struct mlx5_qp_args *args);

/* All three steps to RTS take the same; fields that a step does not need are not looked at. */
struct mlx5_connect_args {
	const struct nic_qp *qp; /* qpn, type, access, addr.psn, addr.dc_key */
	const struct nic_addr *remote; /* unused for DCI: its WQEs carry addresses */
	const struct nic_qp_params *params;
	const struct mlx5_port *port;
	const struct mlx5_caps *caps;
	uint32_t counter_set_id; /* 0: none of its own */
	uint8_t next_hop_mac[6]; /* RoCE: of the peer or of a router */
};

/* InfiniBand: a router needs one, and a subnet whose ports say so. */
bool mlx5_needs_grh(const struct mlx5_port *port, const struct nic_addr *remote);

void mlx5_cmd_rst2init(struct mlx5_cmd *cmd, const struct mlx5_connect_args *args);
void mlx5_cmd_init2rtr(struct mlx5_cmd *cmd, const struct mlx5_connect_args *args);
void mlx5_cmd_rtr2rts(struct mlx5_cmd *cmd, const struct mlx5_connect_args *args);
/* 2ERR, 2RST and SQD2RTS: no arguments but the QP. */
void mlx5_cmd_qp(struct mlx5_cmd *cmd, enum prm_opcode opcode, uint32_t qpn);
void mlx5_cmd_query_qp(struct mlx5_cmd *cmd, uint32_t qpn);
/* State, indexes and peer of an answer; the rest of *ret_info is 0. */
void mlx5_qp_info_init(struct nic_qp_info *ret_info, const void *out);

/*
 * Two QPs of one pair of ports get different ports, so that their packets take different ways through a fabric. It is
 * the same in each attempt to connect.
 */
uint16_t mlx5_udp_sport(const struct mlx5_caps *caps, uint32_t qpn, uint32_t remote_qpn);

/* The receive memory pool (RMP) that a DCT demands: room for two WQEs at the start of a page, and its dbrec behind. */
void mlx5_cmd_create_rmp(struct mlx5_cmd *cmd, uint32_t umem_id, uint32_t pdn);
void mlx5_cmd_query_rmp(struct mlx5_cmd *cmd, uint32_t rmpn);

struct mlx5_dct_args {
	const struct nic_qp *qp; /* type DCT; recv_cqn, access, addr.dc_key */
	const struct nic_qp_params *params;
	const struct mlx5_port *port;
	const struct mlx5_caps *caps;
	uint32_t pdn;
	uint32_t srqn;
	uint32_t user_index;
	uint32_t counter_set_id;
};

void mlx5_cmd_create_dct(struct mlx5_cmd *cmd, const struct mlx5_dct_args *args);
void mlx5_cmd_dct(struct mlx5_cmd *cmd, enum prm_opcode opcode, uint32_t dctn);

/* ---- in words ------------------------------------------------------------------------------------------------------ */

#define MLX5_DUMP_ALL 0x1u /* also fields that are 0 */

/*
 * A command, or with `out` an answer to `opcode`: a line for its head, then one for each field, with bits that are in no
 * field told at the end. Always terminated; returns what snprintf would.
 */
int mlx5_cmd_dump(char *buf, size_t size, const void *in, size_t bytes, unsigned int flags);
int mlx5_out_dump(char *buf, size_t size, uint32_t opcode, uint32_t op_mod, const void *out, size_t bytes,
		  unsigned int flags);

#endif
