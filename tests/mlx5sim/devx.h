/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of DEVX, written from the PRM by hand so that it judges the simulator without sharing a table with it. Offsets
 * are bits from the start of the command; structures are named as in NVIDIA's "Adapters Programmer's Reference Manual",
 * whose fields are published in Linux (include/linux/mlx5/mlx5_ifc.h) and rdma-core (tests/mlx5_prm_structs.py).
 */
#ifndef SHMEMD_TESTS_MLX5SIM_DEVX_H
#define SHMEMD_TESTS_MLX5SIM_DEVX_H

#include "tests/lib/test.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#define GID_INDEX 3

/* Opcodes: PRM, "Command Interface". */
enum {
	OP_QUERY_HCA_CAP = 0x100,
	OP_CREATE_MKEY = 0x200,
	OP_CREATE_CQ = 0x400,
	OP_QUERY_CQ = 0x402,
	OP_MODIFY_CQ = 0x403,
	OP_CREATE_QP = 0x500,
	OP_RST2INIT = 0x502,
	OP_INIT2RTR = 0x503,
	OP_RTR2RTS = 0x504,
	OP_RTS2RTS = 0x505,
	OP_2ERR = 0x507,
	OP_2RST = 0x50a,
	OP_QUERY_QP = 0x50b,
	OP_CREATE_DCT = 0x710,
	OP_QUERY_DCT = 0x713,
	OP_QUERY_ROCE_ADDRESS = 0x760,
	OP_ALLOC_Q_COUNTER = 0x771,
	OP_QUERY_Q_COUNTER = 0x773,
	OP_ALLOC_PD = 0x800,
	OP_CREATE_RMP = 0x90c,
};

/* Delivery status of a command. */
enum {
	STATUS_OK = 0,
	STATUS_BAD_OP = 0x2,
	STATUS_BAD_PARAM = 0x3,
	STATUS_BAD_RES = 0x5,
	STATUS_BAD_QP_STATE = 0x10,
	STATUS_BAD_INPUT_LENGTH = 0x50,
	STATUS_BAD_OUTPUT_LENGTH = 0x51,
};

static inline void put(uint8_t *buf, uint32_t bit, uint32_t width, uint64_t value)
{
	for (uint32_t i = 0; i < width; i++) {
		uint32_t at = bit + i;
		uint8_t mask = (uint8_t)(0x80 >> at % 8);

		if (value >> (width - 1 - i) & 1)
			buf[at / 8] |= mask;
		else
			buf[at / 8] &= (uint8_t)~mask;
	}
}

static inline uint64_t get(const uint8_t *buf, uint32_t bit, uint32_t width)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < width; i++)
		value = value << 1 | (buf[(bit + i) / 8] >> (7 - (bit + i) % 8) & 1);
	return value;
}

struct command {
	uint8_t in[0x200], out[0x200];
	size_t in_bytes, out_bytes;
};

static inline void begin(struct command *cmd, uint16_t opcode, size_t in_bytes, size_t out_bytes)
{
	memset(cmd, 0, sizeof(*cmd));
	cmd->in_bytes = in_bytes;
	cmd->out_bytes = out_bytes;
	put(cmd->in, 0x00, 16, opcode);
}

static inline uint32_t status_of(const struct command *cmd)
{
	return (uint32_t)get(cmd->out, 0x00, 8);
}

static inline uint32_t syndrome_of(const struct command *cmd)
{
	return (uint32_t)get(cmd->out, 0x20, 32);
}

static inline struct mlx5dv_devx_obj *create(struct ibv_context *context, struct command *cmd)
{
	return mlx5dv_devx_obj_create(context, cmd->in, cmd->in_bytes, cmd->out, cmd->out_bytes);
}

/* The status of a command that the firmware refuses. libmlx5 tells it as EREMOTEIO. */
static inline uint32_t create_fails(struct ibv_context *context, struct command *cmd)
{
	ASSERT(!create(context, cmd));
	ASSERT_EQ(errno, EREMOTEIO);
	ASSERT_NE(syndrome_of(cmd), 0);
	return status_of(cmd);
}

/* By name: a device that returned may stand elsewhere in the list. */
static inline struct ibv_context *open_devx(unsigned int index)
{
	struct mlx5dv_context_attr attr = {.flags = MLX5DV_CONTEXT_FLAGS_DEVX};
	const char name[] = {'m', 'l', 'x', '5', '_', (char)('0' + index), 0};
	struct ibv_context *context = NULL;
	struct ibv_device **list;
	int n;

	list = ibv_get_device_list(&n);
	ASSERT(list);
	for (int i = 0; i < n; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			context = mlx5dv_open_device(list[i], &attr);
	}
	ASSERT(context);
	ibv_free_device_list(list);
	return context;
}

/* An entry of an event channel: PRM "Event Queue Entry", type at byte 1, subtype at 3, data at 32. */
struct devx_event {
	uint64_t cookie;
	uint8_t eqe[64];
};

static inline void read_event(struct mlx5dv_devx_event_channel *channel,
			      struct devx_event *ret_event)
{
	ASSERT_EQ(mlx5dv_devx_get_event(channel, (void *)ret_event, sizeof(*ret_event)),
		  (ssize_t)sizeof(*ret_event));
}

/* ---- one end ----------------------------------------------------------------------------------------------------- */

/*
 * One end: everything made by commands over one memfd. Its pages: CQ ring, QP rings, doorbell records, then data.
 */
#define CQ_AT 0x0000u
#define LOG_CQES 6
#define RQ_AT 0x1000u /* 64 WQEs of 16 bytes, then 48 WQEBBs... */
#define LOG_RQ 6
#define SQ_AT (RQ_AT + (16u << LOG_RQ))
#define LOG_SQ 5
#define DBREC_AT 0x3000u
#define CQ_DBREC_AT DBREC_AT
#define QP_DBREC_AT (DBREC_AT + 0x40)
#define DATA_AT 0x4000u
#define DATA_BYTES 0x4000u
#define END_BYTES 0x8000u

struct end {
	struct ibv_context *context;
	struct mlx5dv_devx_obj *pd, *cq, *qp, *mkey;
	struct mlx5dv_devx_uar *uar;
	struct mlx5dv_devx_umem *umem;
	int memfd;
	uint8_t *memory;
	uint64_t *doorbell;
	unsigned int nic;
	uint32_t eqn, pdn, cqn, qpn, key;
	uint32_t ci, sq_pi, rq_pi;
	bool collapsed;
};

static inline uint8_t *data_of(const struct end *end)
{
	return end->memory + DATA_AT;
}

/* The data of all ends lies at one address, as their keys see it. */
#define DATA_IOVA 0x100000u

static inline void make_pd(struct end *end)
{
	struct command cmd;

	begin(&cmd, OP_ALLOC_PD, 0x10, 0x10);
	end->pd = create(end->context, &cmd);
	ASSERT(end->pd);
	end->pdn = (uint32_t)get(cmd.out, 0x48, 24);
}

/* By its number a PD of verbs is good for commands. */
static inline uint32_t pd_number(struct ibv_pd *pd)
{
	struct mlx5dv_pd dv;
	struct mlx5dv_obj obj = {.pd = {.in = pd, .out = &dv}};

	ASSERT_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD), 0);
	return dv.pdn;
}

/* create_cq_in: cqc at 0x80, cq_umem_offset 0x280, cq_umem_id 0x2c0, cq_umem_valid 0x2e0. */
static inline void cq_command(const struct end *end, struct command *cmd)
{
	begin(cmd, OP_CREATE_CQ, 0x110, 0x10);
	put(cmd->in, 0x80 + 0x06, 1, 1);		   /* dbr_umem_valid */
	put(cmd->in, 0x80 + 0x20, 32, end->umem->umem_id); /* dbr_umem_id */
	put(cmd->in, 0x80 + 0x63, 5, LOG_CQES);		   /* log_cq_size */
	put(cmd->in, 0x80 + 0x68, 24, end->uar->page_id);  /* uar_page */
	put(cmd->in, 0x80 + 0xb8, 8, end->eqn);		   /* c_eqn */
	put(cmd->in, 0x80 + 0x1c0, 64, CQ_DBREC_AT);	   /* dbr_addr */
	put(cmd->in, 0x280, 64, CQ_AT);
	put(cmd->in, 0x2c0, 32, end->umem->umem_id);
	put(cmd->in, 0x2e0, 1, 1);
}

static inline void make_cq(struct end *end)
{
	struct command cmd;

	memset(end->memory + CQ_AT, 0xff, 64u << LOG_CQES);
	cq_command(end, &cmd);
	put(cmd.in, 0x80 + 0x0b, 1, end->collapsed); /* cc */
	put(cmd.in, 0x80 + 0x0e, 1, end->collapsed); /* oi */
	end->cq = create(end->context, &cmd);
	ASSERT(end->cq);
	end->cqn = (uint32_t)get(cmd.out, 0x48, 24);
}

/* create_qp_in: qpc at 0xc0, wq_umem_offset 0x800, wq_umem_id 0x840, wq_umem_valid 0x860. */
#define QPC 0xc0
static inline void qp_command(const struct end *end, struct command *cmd)
{
	begin(cmd, OP_CREATE_QP, 0x110, 0x10);
	put(cmd->in, QPC + 0x08, 8, 0);			   /* st: RC */
	put(cmd->in, QPC + 0x13, 2, 3);			   /* pm_state: migrated */
	put(cmd->in, QPC + 0x28, 24, end->pdn);		   /* pd */
	put(cmd->in, QPC + 0x49, 4, LOG_RQ);		   /* log_rq_size */
	put(cmd->in, QPC + 0x4d, 3, 0);			   /* log_rq_stride: 16 bytes */
	put(cmd->in, QPC + 0x51, 4, LOG_SQ);		   /* log_sq_size */
	put(cmd->in, QPC + 0x58, 2, 1);			   /* ts_format: default */
	put(cmd->in, QPC + 0x68, 24, end->uar->page_id);   /* uar_page */
	put(cmd->in, QPC + 0x88, 24, 0xabc);		   /* user_index */
	put(cmd->in, QPC + 0x3e8, 24, end->cqn);	   /* cqn_snd */
	put(cmd->in, QPC + 0x4e8, 24, end->cqn);	   /* cqn_rcv */
	put(cmd->in, QPC + 0x500, 64, QP_DBREC_AT);	   /* dbr_addr */
	put(cmd->in, QPC + 0x683, 1, 1);		   /* dbr_umem_valid */
	put(cmd->in, QPC + 0x720, 32, end->umem->umem_id); /* dbr_umem_id */
	put(cmd->in, 0x800, 64, RQ_AT);
	put(cmd->in, 0x840, 32, end->umem->umem_id);
	put(cmd->in, 0x860, 1, 1);
}

static inline void make_qp(struct end *end)
{
	struct command cmd;

	qp_command(end, &cmd);
	end->qp = create(end->context, &cmd);
	ASSERT(end->qp);
	end->qpn = (uint32_t)get(cmd.out, 0x48, 24);
	end->sq_pi = end->rq_pi = 0;
}

/* create_mkey_in: mkey_umem_valid 0x61, mkc at 0x80, actual octwords 0x300, mkey_umem_id 0x320, mkey_umem_offset 0x340. */
#define MKC 0x80
static inline void mkey_command(const struct end *end, struct command *cmd)
{
	begin(cmd, OP_CREATE_MKEY, 0x110, 0x10);
	put(cmd->in, 0x61, 1, 1);
	put(cmd->in, MKC + 0x11, 5, 0x1f);	  /* a, rw, rr, lw, lr */
	put(cmd->in, MKC + 0x16, 2, 1);		  /* access_mode_1_0: MTT */
	put(cmd->in, MKC + 0x20, 24, 0xffffff);	  /* qpn: any */
	put(cmd->in, MKC + 0x38, 8, 0x5a);	  /* mkey_7_0 */
	put(cmd->in, MKC + 0x68, 24, end->pdn);	  /* pd */
	put(cmd->in, MKC + 0x80, 64, DATA_IOVA);  /* start_addr */
	put(cmd->in, MKC + 0xc0, 64, DATA_BYTES); /* len */
	put(cmd->in, MKC + 0x1a0, 32, 2);	  /* translations_octword_size: four pages */
	put(cmd->in, MKC + 0x1da, 6, 12);	  /* log_page_size */
	put(cmd->in, 0x300, 32, 2);
	put(cmd->in, 0x320, 32, end->umem->umem_id);
	put(cmd->in, 0x340, 64, DATA_AT);
}

static inline void make_mkey(struct end *end)
{
	struct command cmd;

	mkey_command(end, &cmd);
	end->mkey = create(end->context, &cmd);
	ASSERT(end->mkey);
	end->key = (uint32_t)get(cmd.out, 0x48, 24) << 8 | 0x5a;
}

/* The part that needs no QP: context, page, memory, PD. */
static inline void end_open(struct end *end, unsigned int nic)
{
	memset(end, 0, sizeof(*end));
	end->nic = nic;
	end->context = open_devx(nic);
	end->memfd = memfd_create("end", MFD_CLOEXEC);
	ASSERT_LE(0, end->memfd);
	ASSERT_EQ(ftruncate(end->memfd, END_BYTES), 0);
	end->memory = mmap(NULL, END_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, end->memfd, 0);
	ASSERT(end->memory != MAP_FAILED);
	memset(data_of(end), (int)nic + 1, DATA_BYTES);
	ASSERT_EQ(mlx5dv_devx_query_eqn(end->context, 0, &end->eqn), 0);
	end->uar = mlx5dv_devx_alloc_uar(end->context, MLX5DV_UAR_ALLOC_TYPE_BF);
	ASSERT(end->uar);
	end->doorbell = end->uar->reg_addr;
	end->umem =
		mlx5dv_devx_umem_reg(end->context, end->memory, END_BYTES, IBV_ACCESS_LOCAL_WRITE);
	ASSERT(end->umem);
	make_pd(end);
}

static inline void end_init(struct end *end, unsigned int nic)
{
	end_open(end, nic);
	make_cq(end);
	make_qp(end);
	make_mkey(end);
}

static inline void destroy(struct mlx5dv_devx_obj *obj)
{
	if (obj)
		ASSERT_EQ(mlx5dv_devx_obj_destroy(obj), 0);
}

static inline void end_deinit(struct end *end)
{
	destroy(end->mkey);
	destroy(end->qp);
	destroy(end->cq);
	destroy(end->pd);
	ASSERT_EQ(mlx5dv_devx_umem_dereg(end->umem), 0);
	mlx5dv_devx_free_uar(end->uar);
	ASSERT_EQ(ibv_close_device(end->context), 0);
	ASSERT_EQ(munmap(end->memory, END_BYTES), 0);
	close(end->memfd);
}

/* ---- transitions ------------------------------------------------------------------------------------------------- */

static inline int modify(const struct end *end, struct command *cmd)
{
	return mlx5dv_devx_obj_modify(end->qp, cmd->in, cmd->in_bytes, cmd->out, cmd->out_bytes);
}

/* The transitions share one layout: qpn 0x48, opt_param_mask 0x80, qpc 0xc0; ads at 0xc0 of it. */
#define ADS (QPC + 0xc0)
static inline void init_command(const struct end *end, struct command *cmd)
{
	begin(cmd, OP_RST2INIT, 0x110, 0x10);
	put(cmd->in, 0x48, 24, end->qpn);
	put(cmd->in, QPC + 0x13, 2, 3);	 /* pm_state */
	put(cmd->in, QPC + 0x48c, 4, 3); /* atomic_mode: up to 8 bytes */
	put(cmd->in, QPC + 0x490, 3, 7); /* rre, rwe, rae */
	put(cmd->in, ADS + 0x128, 8, 1); /* vhca_port_num */
}

/* `peer` may be a number alone: its address is that of its device. */
static inline void rtr_command(const struct end *end, const struct end *peer, struct command *cmd)
{
	const uint8_t mac[6] = {0x02, 'm', 'l', 'x', '5', (uint8_t)(peer->nic + 1)};
	union ibv_gid gid;

	ASSERT_EQ(ibv_query_gid(peer->context, 1, GID_INDEX, &gid), 0);
	begin(cmd, OP_INIT2RTR, 0x110, 0x10);
	put(cmd->in, 0x48, 24, end->qpn);
	put(cmd->in, QPC + 0x40, 3, IBV_MTU_1024);	 /* mtu */
	put(cmd->in, QPC + 0x43, 5, 30);		 /* log_msg_max */
	put(cmd->in, QPC + 0xa8, 24, peer->qpn);	 /* remote_qpn */
	put(cmd->in, QPC + 0x488, 3, 4);		 /* log_rra_max */
	put(cmd->in, QPC + 0x4a3, 5, 1);		 /* min_rnr_nak */
	put(cmd->in, QPC + 0x4a8, 24, 0x123);		 /* next_rcv_psn */
	put(cmd->in, ADS + 0x48, 8, GID_INDEX);		 /* src_addr_index */
	put(cmd->in, ADS + 0x58, 8, 64);		 /* hop_limit */
	memcpy(cmd->in + (ADS + 0x80) / 8, gid.raw, 16); /* rgid_rip */
	put(cmd->in, ADS + 0x110, 16, 0xc000);		 /* udp_sport */
	put(cmd->in, ADS + 0x128, 8, 1);
	memcpy(cmd->in + (ADS + 0x130) / 8, mac, 6); /* rmac */
}

static inline void rts_command(const struct end *end, struct command *cmd)
{
	begin(cmd, OP_RTR2RTS, 0x110, 0x10);
	put(cmd->in, 0x48, 24, end->qpn);
	put(cmd->in, QPC + 0x380, 4, 0);      /* log_ack_req_freq */
	put(cmd->in, QPC + 0x388, 3, 4);      /* log_sra_max */
	put(cmd->in, QPC + 0x38d, 3, 7);      /* retry_count */
	put(cmd->in, QPC + 0x390, 3, 7);      /* rnr_retry */
	put(cmd->in, QPC + 0x3c8, 24, 0x123); /* next_send_psn */
	put(cmd->in, ADS + 0x40, 5, 14);      /* ack_timeout */
}

static inline void connect_to(const struct end *end, const struct end *peer)
{
	struct command cmd;

	init_command(end, &cmd);
	ASSERT_EQ(modify(end, &cmd), 0);
	rtr_command(end, peer, &cmd);
	ASSERT_EQ(modify(end, &cmd), 0);
	rts_command(end, &cmd);
	ASSERT_EQ(modify(end, &cmd), 0);
}

static inline void pair_init(struct end ends[2])
{
	end_init(&ends[0], 0);
	end_init(&ends[1], 1);
	connect_to(&ends[0], &ends[1]);
	connect_to(&ends[1], &ends[0]);
}

static inline void pair_deinit(struct end ends[2])
{
	end_deinit(&ends[0]);
	end_deinit(&ends[1]);
}

/* ---- queues ------------------------------------------------------------------------------------------------------ */

static inline void store_be32(uint8_t *at, uint32_t value)
{
	__atomic_store_n((uint32_t *)(void *)at, htobe32(value), __ATOMIC_RELEASE);
}

/* PRM "Send WQE": control, remote address, one data segment or an atomic. */
enum { WQE_WRITE = 0x08, WQE_SEND_IMM = 0x0b, WQE_READ = 0x10, WQE_FETCH_ADD = 0x12 };

static inline uint8_t *begin_wqe(const struct end *end, uint8_t opcode, uint32_t ds)
{
	uint8_t *wqe = end->memory + SQ_AT + (size_t)(end->sq_pi % (1u << LOG_SQ)) * 64;

	memset(wqe, 0, 64);
	store_be32(wqe, (end->sq_pi & 0xffff) << 8 | opcode);
	store_be32(wqe + 4, end->qpn << 8 | ds);
	wqe[11] = 2 << 2; /* ce: always a CQE */
	return wqe;
}

static inline void put_data(uint8_t *segment, uint32_t bytes, uint32_t key, uint64_t addr)
{
	store_be32(segment, bytes);
	store_be32(segment + 4, key);
	*(uint64_t *)(void *)(segment + 8) = htobe64(addr);
}

/* The record says that it is posted; the doorbell only makes the device look. */
static inline void ring(struct end *end, uint32_t wqebbs)
{
	uint64_t word = (uint64_t)htobe32(end->qpn << 8) << 32 | htobe32(end->sq_pi << 8);

	end->sq_pi += wqebbs;
	store_be32(end->memory + QP_DBREC_AT + 4, end->sq_pi & 0xffff);
	__atomic_store_n(end->doorbell, word, __ATOMIC_RELEASE);
}

static inline void post_rdma(struct end *end, uint8_t opcode, uint64_t raddr, uint32_t rkey,
			     uint32_t bytes)
{
	uint8_t *wqe = begin_wqe(end, opcode, 3);

	*(uint64_t *)(void *)(wqe + 16) = htobe64(raddr);
	store_be32(wqe + 24, rkey);
	put_data(wqe + 32, bytes, end->key, DATA_IOVA + 128);
	ring(end, 1);
}

static inline void post_fetch_add(struct end *end, uint64_t raddr, uint32_t rkey, uint64_t add)
{
	uint8_t *wqe = begin_wqe(end, WQE_FETCH_ADD, 4);

	*(uint64_t *)(void *)(wqe + 16) = htobe64(raddr);
	store_be32(wqe + 24, rkey);
	*(uint64_t *)(void *)(wqe + 32) = htobe64(add);
	put_data(wqe + 48, 8, end->key, DATA_IOVA + 128);
	ring(end, 1);
}

static inline void post_send_imm(struct end *end, uint32_t imm, uint32_t bytes)
{
	uint8_t *wqe = begin_wqe(end, WQE_SEND_IMM, 2);

	store_be32(wqe + 12, imm);
	put_data(wqe + 16, bytes, end->key, DATA_IOVA + 128);
	ring(end, 1);
}

static inline void post_recv(struct end *end, uint64_t addr, uint32_t bytes)
{
	put_data(end->memory + RQ_AT + (size_t)(end->rq_pi % (1u << LOG_RQ)) * 16, bytes, end->key,
		 addr);
	end->rq_pi++;
	store_be32(end->memory + QP_DBREC_AT, end->rq_pi & 0xffff);
}

/* PRM "CQE": a copy of the next one, when there is one. */
static inline bool poll_cqe(struct end *end, uint8_t cqe[64])
{
	const uint8_t *at = end->memory + CQ_AT + (size_t)(end->ci % (1u << LOG_CQES)) * 64;
	uint8_t op_own = __atomic_load_n(at + 63, __ATOMIC_ACQUIRE);

	if (op_own >> 4 == 0xf || (op_own & 1) != (end->ci >> LOG_CQES & 1))
		return false;
	memcpy(cqe, at, 64);
	end->ci++;
	store_be32(end->memory + CQ_DBREC_AT, end->ci & 0xffffff);
	return true;
}

enum { CQE_REQUESTER = 0, CQE_SEND_IMM = 3, CQE_REQUESTER_ERROR = 13, CQE_RESPONDER_ERROR = 14 };

static inline uint32_t wait_cqe(struct end *end, uint8_t cqe[64])
{
	while (!poll_cqe(end, cqe))
		nanosleep(&(struct timespec){0, 50000}, NULL);
	return cqe[63] >> 4;
}

#endif
