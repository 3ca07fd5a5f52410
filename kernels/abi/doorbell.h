/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doorbell records, the doorbell page, and the words around them.
 *
 * dbrec: two 32-bit big-endian words in queue memory. For a QP, word 0 is the receive counter (WQEs) and
 * word 1 the send counter (WQEBBs): the next index to be executed, 16 bits used. For a CQ, word 0 is the
 * consumer index (24 bits), word 1 arms it. The send index comes from the dbrec only: a doorbell merely
 * wakes. (mlx5 PRM; rdma-core MLX5_SND_DBR, MLX5_RCV_DBR.)
 *
 * Doorbell page: 4 KiB laid out like an mlx5 UAR page, so that a CPU-polled page and a real UAR page are rung
 * by the same store at the same offset. One 8-byte store: the first 8 bytes of the last WQE's control
 * segment, or (producer index << 8, qpn << 8) as NVSHMEM writes it; only the qpn is reliable.
 */
#ifndef SHMD_ABI_DOORBELL_H
#define SHMD_ABI_DOORBELL_H

#include "types.h"

struct shmd_dbrec {
	shmd_be32 rcv; /* QP: next receive WQE index; CQ: consumer index */
	shmd_be32 snd; /* QP: next send WQEBB index; CQ: arm word */
};
SHMD_PIN_SIZE(struct shmd_dbrec, 8);
SHMD_PIN_OFFSET(struct shmd_dbrec, rcv, 0);
SHMD_PIN_OFFSET(struct shmd_dbrec, snd, 4);

/* dbrecs sit this far apart in queue memory, so that two QPs never share a cache line. */
#define SHMD_DBREC_STRIDE 64u

/*
 * Behind a QP's dbrec, in the same line: a native 32-bit word that the daemon writes where it can reach queue memory,
 * and nobody else. 0, or why the QP is in ERR (enum shmd_cqe_syndrome; a flush when it was asked for). A QP that has
 * nothing on its way writes no CQE when it fails; this word tells those who wait for memory that its peer would write.
 */
#define SHMD_QP_ERROR_OFFSET 8u

#define SHMD_DB_PAGE_BYTES 4096u
#define SHMD_DB_CQ_ARM_OFFSET 0x20u /* MLX5_CQ_DOORBELL */
#define SHMD_DB_SEND_OFFSET 0x800u /* MLX5_BF_OFFSET */

/*
 * One page for each NIC whose queues a CPU thread drains: written by the daemon only, mapped read-only by
 * clients. A client that rang a doorbell issues a full fence and reads `asleep`; when it is not 0 it writes
 * 1 to its wake eventfd. The NIC thread stores asleep, fences, looks at every doorbell once more and only
 * then sleeps, so a doorbell is never lost. Pages of NICs that need no wake keep asleep at 0.
 */
struct shmd_nic_page {
	uint32_t version; /* SHMD_NIC_PAGE_VERSION */
	uint32_t asleep; /* 0 or 1 */
	uint64_t heartbeat_nsec; /* CLOCK_MONOTONIC when the NIC thread last looked */
	uint8_t reserved[48];
};
#define SHMD_NIC_PAGE_VERSION 1u
SHMD_PIN_SIZE(struct shmd_nic_page, 64);
SHMD_PIN_OFFSET(struct shmd_nic_page, asleep, 4);
SHMD_PIN_OFFSET(struct shmd_nic_page, heartbeat_nsec, 8);

/*
 * Health page, one for each session: written by the daemon and by the library of the session's process, read by
 * the library and by device functions in wait loops, never believed by the daemon. A word is 0 while all is well
 * (enum shmd_health). PORT_DOWN is the one value that passes: the daemon sets it in place of 0, and by compare-and-swap
 * puts 0 in its place when the port is up again, so that what is left of a wait may be waited for again. Every other
 * value is final: it replaces 0 and PORT_DOWN, and the first one stays.
 */
#define SHMD_HEALTH_NICS 64u
struct shmd_health_page {
	uint32_t version; /* SHMD_HEALTH_PAGE_VERSION */
	uint32_t session; /* enum shmd_health: holds for every NIC */
	uint8_t reserved[56];
	uint32_t nic[SHMD_HEALTH_NICS]; /* by NIC index of the session; also set when `session` is */
};
#define SHMD_HEALTH_PAGE_VERSION 1u
SHMD_PIN_OFFSET(struct shmd_health_page, session, 4);
SHMD_PIN_OFFSET(struct shmd_health_page, nic, 64);
SHMD_PIN_SIZE(struct shmd_health_page, 320);

enum shmd_health {
	SHMD_HEALTH_OK = 0,
	SHMD_HEALTH_DAEMON_GONE = 1, /* the socket to shmemd broke; written by the library */
	SHMD_HEALTH_SESSION_ENDED = 2, /* shmemd ended the session (killed, drained, protocol violation) */
	SHMD_HEALTH_PORT_DOWN = 3, /* until it is up again; every other value is final */
	SHMD_HEALTH_NIC_LOST = 4, /* the NIC is gone or in a fatal state */
};

#endif
