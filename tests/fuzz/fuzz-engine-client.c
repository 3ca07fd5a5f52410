/* SPDX-License-Identifier: Apache-2.0 */
/* The client of fuzz-engine: the bytes that it writes into its queues; see fuzz-engine.c. */
#include <endian.h>
#include <string.h>

#include "tests/fuzz/fuzz-engine.h"

void write_ring(struct lab *lab, uint8_t *ring, size_t ring_bytes)
{
	size_t at = take(lab, 2) % ring_bytes;
	size_t n = take(lab, 1);

	for (size_t i = 0; i < n && at + i < ring_bytes && lab->left; i++)
		ring[at + i] = (uint8_t)take(lab, 1);
}

static void put32(uint8_t *at, uint32_t v)
{
	v = htobe32(v);
	memcpy(at, &v, 4);
}

static void put64(uint8_t *at, uint64_t v)
{
	v = htobe64(v);
	memcpy(at, &v, 8);
}

/* A data segment, mostly within a region. */
static void put_sge(struct lab *lab, uint8_t *at, const struct side *side)
{
	uint32_t which = take(lab, 1);
	uint32_t m = which & 1;
	bool is_indirect = which & 0x40;

	put32(at, take(lab, 2) & (which & 0x80 ? 0xffffu : 0x1ffu));
	put32(at + 4, is_indirect ? indirect_key(lab, side, m) : side->key[m] + (which >> 1 & 1));
	put64(at + 8, (is_indirect ? 0 : side->iova[m]) + (take(lab, 2) & 0xfff));
}

/*
 * Writes the segments behind the remote address of an atomic, and the place of its old value. With bit 6 of `how` the masked form, of 4
 * bytes with bit 5. Returns the units of the WQE.
 */
static unsigned int put_atomic(struct lab *lab, uint8_t *wqe, const struct side *side, uint8_t how)
{
	bool masked = how & 0x40, four = masked && (how & 0x20), swap = wqe[3] == SHMD_OPCODE_ATOMIC_CS;
	unsigned int ds = masked && !four && swap ? 4 : 3, m = how >> 2 & 1;
	uint32_t value = take(lab, 4);

	if (masked) {
		wqe[0] = four ? SHMD_OPMOD_EXT_ATOMIC_4 : SHMD_OPMOD_EXT_ATOMIC_8;
		wqe[3] = swap ? SHMD_OPCODE_ATOMIC_MASKED_CS : SHMD_OPCODE_ATOMIC_MASKED_FA;
		put64(wqe + 40, (uint64_t)value << 32 | value);
	}
	if (ds == 4)
		put64(wqe + 48, UINT64_MAX);
	if (four)
		put32(wqe + 32, value);
	else
		put64(wqe + 32, value);
	put32(wqe + 16 * ds, four ? 4 : 8);
	put32(wqe + 16 * ds + 4, side->key[m]);
	put64(wqe + 16 * ds + 8, side->iova[m] + (take(lab, 2) & 0xff8));
	return ds + 1;
}

static bool has_av(const struct lab *lab)
{
	return lab->type == ENGINE_QP_UD || lab->type == ENGINE_QP_DCI;
}

/* An address vector of the length that bit 5 of `how` says, mostly of the peer. Returns the units of the WQE. */
static unsigned int put_av(struct lab *lab, uint8_t *wqe, const struct side *peer, uint8_t how)
{
	uint32_t odd = take(lab, 1);

	put32(wqe + 16, QKEY + (odd & 1) + (odd & 2 ? 0x80000000u : 0));
	put32(wqe + 24, peer->qpn + (odd >> 2 & 1) + (how & 0x20 ? SHMD_AV_EXTENDED : 0));
	if (!(how & 0x20))
		return 2;
	wqe[42] = (uint8_t)odd; /* tclass */
	wqe[48] = odd >> 7; /* rgid */
	return 4;
}

/* Segments of XRC and raw packets behind the control segment. Returns the units of the WQE. */
static unsigned int insert_segment(struct lab *lab, uint8_t *wqe, unsigned int ds)
{
	if (wqe[3] == SHMD_OPCODE_NOP || (!is_xrc(lab) && lab->type != ENGINE_QP_RAW))
		return ds;
	memmove(wqe + 32, wqe + 16, 16u * (ds - 1));
	memset(wqe + 16, 0, 16);
	if (is_xrc(lab))
		wqe[19] = (uint8_t)(take(lab, 1) & 3);
	else
		wqe[29] = (uint8_t)take(lab, 1);
	return ds + 1;
}

static void push(struct side *side, uint8_t *wqe, unsigned int ds)
{
	put32(wqe + 4, side->qpn << 8 | ds);
	for (unsigned int i = 0; i < (ds + 3) / 4; i++, side->pi++)
		memcpy(side->q->sq + (side->pi & ((1u << LOG2_SQ) - 1)) * 64u, wqe + 64u * i, 64);
	side->q->dbrec.snd = htobe32(side->pi);
}

/* A request that makes sense up to a point. */
void post(struct lab *lab, struct side *side)
{
	static const uint8_t opcodes[] = {
		SHMD_OPCODE_NOP, SHMD_OPCODE_RDMA_WRITE, SHMD_OPCODE_RDMA_WRITE_IMM, SHMD_OPCODE_RDMA_READ,
		SHMD_OPCODE_SEND, SHMD_OPCODE_SEND_IMM, SHMD_OPCODE_ATOMIC_CS, SHMD_OPCODE_ATOMIC_FA,
	};
	const struct side *peer = &lab->sides[side == lab->sides];
	uint8_t opcode = opcodes[take(lab, 1) & 7], how = (uint8_t)take(lab, 1), wqe[256] = {0};
	unsigned int ds = 1, n_sges = how & 3, m = how >> 2 & 1;

	if (how & 0x10)
		peer = side; /* its own memory, by way of the peer */

	put32(wqe, (uint32_t)side->pi << 8 | opcode);
	wqe[11] = how & 0xe8;
	if (has_av(lab) && opcode != SHMD_OPCODE_NOP)
		ds = put_av(lab, wqe, peer, how);
	if (lab->type != ENGINE_QP_UD && opcode != SHMD_OPCODE_NOP && opcode != SHMD_OPCODE_SEND &&
	    opcode != SHMD_OPCODE_SEND_IMM) {
		put64(wqe + 16 * ds, peer->iova[m] + (take(lab, 2) & 0xfff));
		put32(wqe + 16 * ds + 8, peer->key[m]);
		ds++;
	}
	if (!has_av(lab) && (opcode == SHMD_OPCODE_ATOMIC_CS || opcode == SHMD_OPCODE_ATOMIC_FA)) {
		put64(wqe + 16, peer->iova[m] + (take(lab, 2) & 0xff8));
		ds = put_atomic(lab, wqe, side, how);
		n_sges = 0;
	}
	for (unsigned int i = 0; i < n_sges && opcode != SHMD_OPCODE_NOP; i++)
		put_sge(lab, wqe + 16 * ds++, side);
	wqe[10] = lab->has_streams ? take(lab, 1) & 3 : 0;
	push(side, wqe, insert_segment(lab, wqe, ds));
}

/* A UMR: binds or frees the side's own window. */
void post_umr(struct lab *lab, struct side *side)
{
	uint8_t how = (uint8_t)take(lab, 1), tags = (uint8_t)take(lab, 1), wqe[256] = {0};
	bool is_bind = how & 1, is_type_2 = (side != lab->sides) ^ (how >> 1 & 1);
	uint32_t at = take(lab, 2) & 0xfff, mask = 1u << 29 | 1u << 13 | (is_type_2 ? 1u << 14 : 0);
	unsigned int m = how >> 2 & 1;

	put32(wqe, (uint32_t)side->pi << 8 | SHMD_OPCODE_UMR);
	wqe[11] = 0x08;
	put32(wqe + 12, window_key(lab, how & 0x08 ? &lab->sides[side == lab->sides] : side) | (tags & 3));
	wqe[16] = 0x90 | (is_type_2 ? 0x20 : 0);
	wqe[21] = is_bind ? 4 : 0;
	put32(wqe + 28, is_bind ? mask | 1u | 1u << 6 | 0xfu << 18 : mask);
	wqe[64] = is_bind ? 0 : 0x40;
	wqe[66] = 0x78;
	put32(wqe + 68, (is_type_2 && is_bind ? side->qpn : 0xffffff) << 8 | (tags >> 2 & 3));
	if (is_bind) {
		put64(wqe + 80, how & 0x10 ? 0 : side->iova[m] + at);
		put32(wqe + 92, 64);
		put32(wqe + 128, 64);
		put32(wqe + 132, side->key[m]);
		put64(wqe + 136, side->iova[m] + at);
	}
	push(side, wqe, is_bind ? 12 : 8);
}

/* One entry of a list: a region of the side's own, or one of its indirect keys. */
static void put_part(struct lab *lab, uint8_t *entry, const struct side *side, bool is_pattern)
{
	uint8_t which = (uint8_t)take(lab, 1);
	uint32_t bytes = take(lab, 1), at = take(lab, 2) & 0xfff;
	bool is_direct = which & 1;

	put32(entry, is_pattern ? (uint32_t)which << 16 | bytes : bytes);
	put32(entry + 4, is_direct ? side->key[which >> 1 & 1] : indirect_key(lab, side, which >> 1 & 1));
	put64(entry + 8, is_direct ? side->iova[which >> 1 & 1] + at : at);
}

/* Up to four parts of an indirect key, or a pattern of three; in the WQE, or in a region. Returns its bytes. */
static unsigned int put_list(struct lab *lab, uint8_t *list, const struct side *side, uint8_t how)
{
	bool is_pattern = how & 0x08;

	if (is_pattern) {
		put32(list, take(lab, 2));
		put32(list + 4, 0x400);
		put32(list + 8, take(lab, 1));
		put32(list + 12, how & 3);
	}
	for (unsigned int i = 0; i < (how & 3u); i++)
		put_part(lab, list + 16 * (i + is_pattern), side, is_pattern);
	return 64;
}

/* A UMR of one of the side's indirect keys: everything of it, or what some bits say. */
void post_layout(struct lab *lab, struct side *side)
{
	uint8_t how = (uint8_t)take(lab, 1), wqe[256] = {0};
	uint32_t mask = how & 0x10 ? take(lab, 4) : 1u << 29 | 1u << 13 | 0xfu << 18 | 1u;
	bool in_memory = how & 0x20;
	unsigned int ds = 12;

	put32(wqe, (uint32_t)side->pi << 8 | SHMD_OPCODE_UMR);
	wqe[11] = 0x08;
	put32(wqe + 12, indirect_key(lab, side, how >> 2 & 1));
	wqe[16] = in_memory ? 0 : 0x80;
	wqe[21] = 4;
	put32(wqe + 28, mask);
	wqe[64] = how & 0x40 ? 0x40 : 0;
	wqe[66] = 0x78;
	put32(wqe + 68, 0xffffff00u);
	put32(wqe + 92, 0x400);
	put_list(lab, in_memory ? side->mems[DATA].bytes + GUARD_BYTES : wqe + 128, side, how);
	if (in_memory) {
		put32(wqe + 128, 64);
		put32(wqe + 132, side->key[DATA]);
		put64(wqe + 136, side->iova[DATA]);
		ds = 9;
	}
	push(side, wqe, ds);
}

/* A WRITE or READ of the peer's window or indirect key, or a SEND that frees it. */
void post_through_window(struct lab *lab, struct side *side)
{
	static const uint8_t opcodes[] = {SHMD_OPCODE_RDMA_WRITE, SHMD_OPCODE_RDMA_READ, SHMD_OPCODE_SEND_INVAL,
					  SHMD_OPCODE_RDMA_WRITE};
	const struct side *peer = &lab->sides[side == lab->sides];
	uint8_t how = (uint8_t)take(lab, 1), opcode = opcodes[how & 3], wqe[256] = {0};
	uint32_t key = how & 0x80 ? indirect_key(lab, peer, how >> 6) : window_key(lab, peer) | (how >> 2 & 3);
	unsigned int ds = 1;

	put32(wqe, (uint32_t)side->pi << 8 | opcode);
	wqe[11] = 0x08;
	if (opcode == SHMD_OPCODE_SEND_INVAL) {
		put32(wqe + 12, key);
	} else {
		put64(wqe + 16, (how & 0x10 ? 0 : peer->iova[how >> 5 & 1]) + (take(lab, 2) & 0xfff));
		put32(wqe + 24, key);
		ds++;
	}
	put_sge(lab, wqe + 16 * ds++, side);
	push(side, wqe, insert_segment(lab, wqe, ds));
}

void post_recv(struct lab *lab, struct side *side)
{
	uint8_t *wqe = side->q->rq + ((side->rq_pi & ((1u << LOG2_RQ) - 1)) << LOG2_STRIDE);
	unsigned int n = take(lab, 1) & 3;

	if (lab->has_srq) {
		wqe += 16;
		n = n < 2 ? n : 2;
	}
	for (unsigned int i = 0; i < n; i++)
		put_sge(lab, wqe + 16 * i, side);
	put32(wqe + 16 * n, 0);
	put32(wqe + 16 * n + 4, SHMD_LKEY_TERMINATE);
	side->q->dbrec.rcv = htobe32(++side->rq_pi);
}
