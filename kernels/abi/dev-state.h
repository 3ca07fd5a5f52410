/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dev-state: what device functions see of a session's queues.
 *
 * Filled by libshmemclient, in host memory for CPU threads and in GPU memory for kernels. Pointers are 64-bit
 * addresses valid where the functions run, so the layout is the same for every reader. Indexes and sizes are
 * 64-bit and count up for ever; queue indexes count WQEBBs, not WQEs (one operation may take several).
 * Versioned and size-stamped: a reader refuses a version it does not know or a size below its own.
 */
#ifndef SHMD_ABI_DEV_STATE_H
#define SHMD_ABI_DEV_STATE_H

#include "types.h"

#define SHMD_DEV_STATE_VERSION 2u

/* How many callers use a QP at once; each mode pays only for the locking it needs. */
enum shmd_sharing {
	SHMD_SHARING_EXCLUSIVE = 0, /* one thread */
	SHMD_SHARING_BLOCK = 1, /* the threads of one block */
	SHMD_SHARING_GPU = 2, /* every thread of the GPU, or every thread of the process in the C build */
};

/* Where queue memory (rings, dbrecs) lies; decides the scope of the fences. */
enum shmd_placement {
	SHMD_PLACEMENT_HOST = 0,
	SHMD_PLACEMENT_GPU = 1,
};

/* The kind of register at the doorbell address. The protocol uses the same numbers. */
enum shmd_doorbell_mode {
	SHMD_DOORBELL_AUTO = 0, /* only asked for: shmemd chooses, and no dev-qp has it */
	SHMD_DOORBELL_CPU = 1, /* a polled word in shared memory */
	SHMD_DOORBELL_UAR_MMAP = 2, /* a mapped UAR page of the NIC */
};

/* struct shmd_dev_qp.flags */
#define SHMD_QP_CQ_COLLAPSED 0x1u /* send CQ: every CQE at entry 0, no consumer index written */
#define SHMD_QP_WAKE 0x2u /* ring through the nic page: see struct shmd_nic_page (C build only) */
#define SHMD_QP_TELLS_ERROR 0x4u /* the word at SHMD_QP_ERROR_OFFSET of the dbrec was 0 at first, and is the daemon's */
#define SHMD_QP_DC 0x8u /* a DCI: every request names its peer (struct shmd_dev_peer) */
/* Atomics that the NIC lacks; a writer before these flags sets none. Device functions post none of them. */
#define SHMD_QP_NO_ATOMIC_8 0x10u /* ATOMIC_FA, ATOMIC_CS */
#define SHMD_QP_NO_MASKED_4 0x20u /* MASKED_FA, MASKED_CS of 4 bytes */
#define SHMD_QP_NO_MASKED_8 0x40u /* the same of 8 bytes */
#define SHMD_QP_ATOMIC_8_BE 0x80u /* results of 8-byte atomics arrive big-endian: SHMD_ATOMIC_RESULT_8_IS_BE */

/* Status of device functions. 0 is success, errors are negative. */
enum shmd_dev_status {
	SHMD_DEV_OK = 0,
	SHMD_DEV_AGAIN = -1, /* test functions: not yet */
	SHMD_DEV_TIMEOUT = -2, /* the caller's time limit passed */
	SHMD_DEV_CQE_ERROR = -3, /* error CQE: see error_* of the QP */
	SHMD_DEV_HEALTH = -4, /* the health word is set */
	SHMD_DEV_INVALID = -5, /* an argument the queue cannot carry */
	SHMD_DEV_UNSUPPORTED = -6, /* an atomic that the NIC lacks */
	SHMD_DEV_PE_GONE = -7, /* the PE has ended; waits for memory: any PE has, and the program has not acknowledged it */
	SHMD_DEV_NO_PATH = -8, /* the world has no path to the PE */
};

/* struct shmd_dev_qp.error_wqe_index: no WQE failed, the QP did. */
#define SHMD_DEV_NO_WQE 0xffffffffu

/*
 * One QP. Constant fields first, written once by the library; the rest is written by device functions only and
 * never by the daemon. Producer and consumer words have cache lines of their own.
 */
struct shmd_dev_qp {
	/* constant: 0..191 */
	uint64_t sq_addr; /* send ring, sq_wqebbs * 64 bytes */
	uint64_t sq_dbrec_addr; /* the 32-bit send word of the dbrec */
	uint64_t doorbell_addr; /* 8-byte doorbell register */
	uint64_t cq_addr; /* send CQ ring */
	uint64_t cq_dbrec_addr; /* 32-bit consumer index in the CQ's dbrec; unused when collapsed */
	uint64_t scratch_addr; /* sq_wqebbs slots of SHMD_SCRATCH_SLOT_BYTES for results, as mapped here */
	uint64_t scratch_iova; /* the same for the NIC */
	uint64_t slot_busy_addr; /* sq_wqebbs 32-bit words: 1 while a slot's result is unread */
	uint64_t health_addr; /* 32-bit health word of this NIC */
	uint64_t nic_page_addr; /* struct shmd_nic_page, or 0 */
	uint64_t wake_handle; /* for the wake hook of the C build (eventfd number); 0 on a GPU */
	uint64_t rq_addr; /* receive ring, rq_wqes << rq_stride_shift bytes, or 0 */
	uint64_t rq_dbrec_addr; /* the 32-bit receive word of the dbrec, or 0 */
	uint32_t qpn; /* 24 bits */
	shmd_be32 scratch_lkey_be;
	uint32_t sq_wqebbs; /* power of two, 16..32768 */
	uint32_t cq_entries; /* power of two */
	uint32_t rq_wqes; /* power of two, or 0 */
	uint32_t rq_stride_shift; /* log2 of the bytes of a receive WQE, 4..9 */
	uint32_t flags; /* SHMD_QP_* */
	uint16_t nic; /* NIC index of the session */
	uint8_t sharing; /* enum shmd_sharing */
	uint8_t placement; /* enum shmd_placement */
	uint8_t doorbell_mode; /* enum shmd_doorbell_mode */
	uint8_t max_inline_bytes; /* payload of the largest inline write in one WQEBB */
	uint8_t reserved0[6];
	uint64_t post_timeout_nsec; /* how long a post waits for room in the queue; 0: no limit */
	uint8_t reserved3[40];

	/* mutable, producer side: 192..255 */
	uint64_t sq_rsvd_index; /* next to reserve */
	uint64_t sq_ready_index; /* all before it are written, in order */
	uint64_t sq_wqe_pi; /* all before it are in the dbrec */
	uint64_t db_index; /* all before it were announced by a doorbell */
	uint64_t last_fetch_index; /* end of the newest read or fetching atomic */
	uint64_t fence_index; /* reads and atomics before it complete before what is posted next starts */
	uint32_t sq_lock; /* 0 free, 1 held: dbrec and doorbell */
	uint32_t reserved1;
	uint64_t rq_pi; /* receive WQEs posted */

	/* mutable, consumer side: 256..319 */
	uint64_t cqe_ci; /* all before it have completed */
	uint64_t cq_ci; /* CQEs consumed from an ordinary CQ */
	uint32_t cq_lock; /* 0 free, 1 held: consumption of an ordinary CQ */
	uint32_t error_syndrome; /* first error: enum shmd_cqe_syndrome, 0 none */
	uint32_t error_wqe_index; /* its wqe_counter; SHMD_DEV_NO_WQE: it was in no CQE */
	uint8_t reserved2[36];
};
SHMD_PIN_SIZE(struct shmd_dev_qp, 320);
SHMD_PIN_OFFSET(struct shmd_dev_qp, sq_addr, 0);
SHMD_PIN_OFFSET(struct shmd_dev_qp, sq_dbrec_addr, 8);
SHMD_PIN_OFFSET(struct shmd_dev_qp, doorbell_addr, 16);
SHMD_PIN_OFFSET(struct shmd_dev_qp, cq_addr, 24);
SHMD_PIN_OFFSET(struct shmd_dev_qp, cq_dbrec_addr, 32);
SHMD_PIN_OFFSET(struct shmd_dev_qp, scratch_addr, 40);
SHMD_PIN_OFFSET(struct shmd_dev_qp, scratch_iova, 48);
SHMD_PIN_OFFSET(struct shmd_dev_qp, slot_busy_addr, 56);
SHMD_PIN_OFFSET(struct shmd_dev_qp, health_addr, 64);
SHMD_PIN_OFFSET(struct shmd_dev_qp, nic_page_addr, 72);
SHMD_PIN_OFFSET(struct shmd_dev_qp, wake_handle, 80);
SHMD_PIN_OFFSET(struct shmd_dev_qp, rq_addr, 88);
SHMD_PIN_OFFSET(struct shmd_dev_qp, rq_dbrec_addr, 96);
SHMD_PIN_OFFSET(struct shmd_dev_qp, qpn, 104);
SHMD_PIN_OFFSET(struct shmd_dev_qp, scratch_lkey_be, 108);
SHMD_PIN_OFFSET(struct shmd_dev_qp, sq_wqebbs, 112);
SHMD_PIN_OFFSET(struct shmd_dev_qp, cq_entries, 116);
SHMD_PIN_OFFSET(struct shmd_dev_qp, rq_wqes, 120);
SHMD_PIN_OFFSET(struct shmd_dev_qp, rq_stride_shift, 124);
SHMD_PIN_OFFSET(struct shmd_dev_qp, flags, 128);
SHMD_PIN_OFFSET(struct shmd_dev_qp, nic, 132);
SHMD_PIN_OFFSET(struct shmd_dev_qp, sharing, 134);
SHMD_PIN_OFFSET(struct shmd_dev_qp, placement, 135);
SHMD_PIN_OFFSET(struct shmd_dev_qp, doorbell_mode, 136);
SHMD_PIN_OFFSET(struct shmd_dev_qp, max_inline_bytes, 137);
SHMD_PIN_OFFSET(struct shmd_dev_qp, post_timeout_nsec, 144);
SHMD_PIN_OFFSET(struct shmd_dev_qp, sq_rsvd_index, 192);
SHMD_PIN_OFFSET(struct shmd_dev_qp, sq_ready_index, 200);
SHMD_PIN_OFFSET(struct shmd_dev_qp, sq_wqe_pi, 208);
SHMD_PIN_OFFSET(struct shmd_dev_qp, db_index, 216);
SHMD_PIN_OFFSET(struct shmd_dev_qp, last_fetch_index, 224);
SHMD_PIN_OFFSET(struct shmd_dev_qp, fence_index, 232);
SHMD_PIN_OFFSET(struct shmd_dev_qp, sq_lock, 240);
SHMD_PIN_OFFSET(struct shmd_dev_qp, rq_pi, 248);
SHMD_PIN_OFFSET(struct shmd_dev_qp, cqe_ci, 256);
SHMD_PIN_OFFSET(struct shmd_dev_qp, cq_ci, 264);
SHMD_PIN_OFFSET(struct shmd_dev_qp, cq_lock, 272);
SHMD_PIN_OFFSET(struct shmd_dev_qp, error_syndrome, 276);
SHMD_PIN_OFFSET(struct shmd_dev_qp, error_wqe_index, 280);

#define SHMD_SCRATCH_SLOT_BYTES 16u

/*
 * Where a DCI sends for one peer. Filled by the library; constant while device functions use it, who copy the address vector
 * into each request and look at nothing else. GPUs read it in pieces of 16 bytes.
 */
struct shmd_dev_peer {
	uint64_t dc_key; /* of the peer's DCT; native-endian, as is its number */
	uint32_t dctn; /* 24 bits */
	uint32_t nic; /* NIC index of the session whose DCIs reach it by this entry */
	/* struct shmd_wqe_av_seg, complete and extended, key and number of the DCT included */
	uint8_t av[48] __attribute__((aligned(16)));
};
SHMD_PIN_SIZE(struct shmd_dev_peer, 64);
SHMD_PIN_OFFSET(struct shmd_dev_peer, dc_key, 0);
SHMD_PIN_OFFSET(struct shmd_dev_peer, dctn, 8);
SHMD_PIN_OFFSET(struct shmd_dev_peer, nic, 12);
SHMD_PIN_OFFSET(struct shmd_dev_peer, av, 16);

/*
 * The way to a peer of a table of peers that has ways (shmd_hot_open). Written by the library while no device function uses
 * it, but for n_posts.
 */
struct shmd_dev_route {
	uint64_t qp_addr; /* struct shmd_dev_qp: an RC QP that has no other peer; 0: by the DCIs */
	uint64_t n_posts; /* operations: device functions add when told to, at any time; the library reads and clears */
};
SHMD_PIN_SIZE(struct shmd_dev_route, 16);
SHMD_PIN_OFFSET(struct shmd_dev_route, qp_addr, 0);
SHMD_PIN_OFFSET(struct shmd_dev_route, n_posts, 8);

/* The head of a session's dev-state. */
struct shmd_dev_state {
	uint32_t version; /* SHMD_DEV_STATE_VERSION */
	uint32_t size_bytes; /* of this struct as the writer knew it */
	uint32_t n_qps;
	uint32_t n_nics;
	uint64_t qps_addr; /* struct shmd_dev_qp[n_qps] */
	uint64_t health_addr; /* struct shmd_health_page */
	uint64_t peers_addr; /* struct shmd_dev_peer[n_peers] */
	uint64_t routes_addr; /* struct shmd_dev_route[n_peers]; 0: every peer by the DCIs */
	uint64_t hot_qps_addr; /* uint64_t[n_hot_qps]: qp_addr of each route that has one */
	uint32_t n_peers;
	uint32_t n_hot_qps;
	uint64_t reserved[8];
};
SHMD_PIN_SIZE(struct shmd_dev_state, 128);
SHMD_PIN_OFFSET(struct shmd_dev_state, size_bytes, 4);
SHMD_PIN_OFFSET(struct shmd_dev_state, qps_addr, 16);
SHMD_PIN_OFFSET(struct shmd_dev_state, health_addr, 24);
SHMD_PIN_OFFSET(struct shmd_dev_state, peers_addr, 32);
SHMD_PIN_OFFSET(struct shmd_dev_state, routes_addr, 40);
SHMD_PIN_OFFSET(struct shmd_dev_state, hot_qps_addr, 48);
SHMD_PIN_OFFSET(struct shmd_dev_state, n_peers, 56);
SHMD_PIN_OFFSET(struct shmd_dev_state, n_hot_qps, 60);

#endif
