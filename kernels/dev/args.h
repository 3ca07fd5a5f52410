/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments of the device functions: addresses, modes, signals, atomics, and the caller's own WQEs.
 *
 * Plain structs, passed by value. The functions here make them, and fold where their arguments are constants.
 */
#ifndef SHMD_DEV_ARGS_H
#define SHMD_DEV_ARGS_H

#include <shmd/abi/dev-state.h>
#include <shmd/dev/impl/annotate.h>

/* No time limit: only an error or the health word ends the wait. */
#define SHMD_DEV_NO_TIMEOUT UINT64_MAX

/* Longer puts and gets take several WQEs. QPs are created with log_msg_max 30. */
#define SHMD_DEV_MAX_REQUEST_BYTES (1ull << 30)

/* WQEBBs that each request of a DCI covers. */
#define SHMD_DEV_DC_WQEBBS 2u

/* Memory as a WQE names it: an address of the NIC and its key. */
struct shmd_dev_addr {
	uint64_t iova;
	shmd_be32 key_be;
};

SHMDI_FN struct shmd_dev_addr shmd_dev_addr_of(uint64_t iova, shmd_be32 key_be)
{
	struct shmd_dev_addr addr;

	addr.iova = iova;
	addr.key_be = key_be;
	return addr;
}

/* ---- scope and mode -------------------------------------------------------------------------------------- */

enum shmd_dev_scope {
	SHMD_DEV_THREAD = 0,
	SHMD_DEV_WARP = 1, /* all 32 lanes */
	SHMD_DEV_BLOCK = 2, /* all threads of the block */
};

/* struct shmd_dev_mode.flags */
#define SHMD_DEV_NO_DOORBELL 0x1u /* post, but leave the announcement to a later post, submit or wait */

/*
 * The argument of every _as form. Constants of scope and sharing fold. A zeroed mode means scope thread, an exclusive
 * and connected QP, and a wait that looks once: shmd_dev_mode_of(qp, 0) of such a QP.
 */
struct shmd_dev_mode {
	uint64_t timeout_nsec; /* for functions that wait; 0: look once; SHMD_DEV_NO_TIMEOUT */
	const struct shmd_dev_peer *peer; /* the destination, for a DCI; NULL for a connected QP */
	uint8_t scope; /* enum shmd_dev_scope */
	uint8_t sharing; /* enum shmd_sharing, at least as wide as that of the QP's other callers */
	uint8_t flags; /* SHMD_DEV_NO_DOORBELL */
};

/* The mode of the plain functions: scope thread and the sharing of the QP. */
SHMDI_FN struct shmd_dev_mode shmd_dev_mode_of(const struct shmd_dev_qp *qp, uint64_t timeout_nsec)
{
	struct shmd_dev_mode mode;

	mode.timeout_nsec = timeout_nsec;
	mode.peer = 0;
	mode.scope = SHMD_DEV_THREAD;
	mode.sharing = SHMDI_FIXED(qp->sharing);
	mode.flags = 0;
	return mode;
}

/* A mode of constants without a time limit. */
SHMDI_FN struct shmd_dev_mode shmd_dev_mode_const(enum shmd_dev_scope scope,
						  enum shmd_sharing sharing)
{
	struct shmd_dev_mode mode;

	mode.timeout_nsec = SHMD_DEV_NO_TIMEOUT;
	mode.peer = 0;
	mode.scope = (uint8_t)scope;
	mode.sharing = (uint8_t)sharing;
	mode.flags = 0;
	return mode;
}

/* The same mode with a peer of a DCI, in global memory. In scope thread callers may have different peers. */
SHMDI_FN struct shmd_dev_mode shmd_dev_mode_to(struct shmd_dev_mode mode, const struct shmd_dev_peer *peer)
{
	mode.peer = peer;
	return mode;
}

/* ---- signals and atomics --------------------------------------------------------------------------------- */

enum shmd_dev_signal_op {
	SHMD_DEV_SIGNAL_SET = 0,
	SHMD_DEV_SIGNAL_ADD = 1,
};

/* Both operations are atomic with every other atomic and signal on the word. */
struct shmd_dev_signal {
	struct shmd_dev_addr word;
	uint64_t value;
	int op; /* enum shmd_dev_signal_op */
};

SHMDI_FN struct shmd_dev_signal shmd_dev_signal_of(struct shmd_dev_addr word, int op,
						   uint64_t value)
{
	struct shmd_dev_signal signal;

	signal.word = word;
	signal.value = value;
	signal.op = op;
	return signal;
}

enum shmd_dev_amo_op {
	SHMD_DEV_AMO_FETCH = 0,
	SHMD_DEV_AMO_ADD = 1,
	SHMD_DEV_AMO_AND = 2,
	SHMD_DEV_AMO_OR = 3,
	SHMD_DEV_AMO_XOR = 4,
	SHMD_DEV_AMO_SWAP = 5, /* without a fetch: set */
	SHMD_DEV_AMO_COMPARE_SWAP = 6,
	SHMD_DEV_AMO_ADD_FLOAT = 7, /* of PEs (pe.h), not of queues: bits of a float or a double, by its bytes */
};

struct shmd_dev_amo {
	uint64_t value; /* operand; new value of swap and compare-swap */
	uint64_t compare; /* compare-swap only */
	uint32_t bytes; /* 4 or 8 */
	int op; /* enum shmd_dev_amo_op */
};

SHMDI_FN struct shmd_dev_amo shmd_dev_amo_of(int op, uint32_t bytes, uint64_t value)
{
	struct shmd_dev_amo amo;

	amo.value = value;
	amo.compare = 0;
	amo.bytes = bytes;
	amo.op = op;
	return amo;
}

enum shmd_dev_cmp {
	SHMD_DEV_CMP_EQ = 0,
	SHMD_DEV_CMP_NE = 1,
	SHMD_DEV_CMP_GT = 2,
	SHMD_DEV_CMP_GE = 3,
	SHMD_DEV_CMP_LT = 4,
	SHMD_DEV_CMP_LE = 5,
};

/* ---- peers of a DCI -------------------------------------------------------------------------------------- */

/* The way to a peer: call any _as form with this QP, and with this peer in the mode: shmd_dev_mode_to(). */
struct shmd_dev_way {
	struct shmd_dev_qp *qp;
	const struct shmd_dev_peer *peer; /* NULL: the QP is connected to the peer */
};

/* ---- the caller's own WQEs --------------------------------------------------------------------------------- */

/* The address vector of a peer (struct shmd_wqe_av_seg) in registers. */
struct shmd_dev_av {
	uint64_t word[6];
};

SHMDI_FN struct shmd_dev_av shmd_dev_av_of(const struct shmd_dev_peer *peer)
{
	struct shmd_dev_av av;

	shmdi_fixed16(peer->av, &av.word[0], &av.word[1]);
	shmdi_fixed16(peer->av + 16, &av.word[2], &av.word[3]);
	shmdi_fixed16(peer->av + 32, &av.word[4], &av.word[5]);
	return av;
}

/* The place of a WQE and the fields of its control segment other than the opcode. */
struct shmd_dev_wqe {
	uint64_t index; /* of its first WQEBB */
	uint32_t imm; /* of the _imm forms; host byte order */
	uint8_t flags; /* fm_ce_se */
	const struct shmd_dev_av *av; /* for a DCI; a NOP leaves it out */
};

SHMDI_FN struct shmd_dev_wqe shmd_dev_wqe_at(uint64_t index, unsigned int flags)
{
	struct shmd_dev_wqe wqe;

	wqe.index = index;
	wqe.imm = 0;
	wqe.flags = (uint8_t)flags;
	wqe.av = 0;
	return wqe;
}

/* The same WQE to a peer of a DCI. It covers two WQEBBs and never asks for a CQE: see wqe-prepare.h. */
SHMDI_FN struct shmd_dev_wqe shmd_dev_wqe_to(struct shmd_dev_wqe wqe, const struct shmd_dev_av *av)
{
	wqe.av = av;
	return wqe;
}

/* Masked compare-swap: if the bits of compare_mask are equal, those of swap_mask are replaced. */
struct shmd_dev_masked_cs {
	uint64_t swap, compare, swap_mask, compare_mask;
};

#endif
