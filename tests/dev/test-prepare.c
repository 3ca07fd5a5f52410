/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The WQEs of prepare, byte for byte, against a second encoding: lists of fields with their offset and width, typed in
 * from the PRM's tables of segments. Nothing of kernels/abi is used to build the expectation.
 */
#include <string.h>

#include "tests/dev/wqe-cases.h"
#include "tests/lib/test.h"

/* Big-endian, `width` bytes at `offset`. */
static void field(uint8_t *wqe, size_t offset, size_t width, uint64_t v)
{
	while (width--) {
		wqe[offset + width] = (uint8_t)v;
		v >>= 8;
	}
}

/* Control segment: opmod 31:24, WQE index 23:8, opcode 7:0; qpn 31:8, ds 5:0; byte 11 fm_ce_se; immediate. */
static void control(uint8_t *wqe, const struct wqe_case *c, unsigned int opmod, unsigned int opcode,
		    unsigned int ds)
{
	field(wqe, 0, 1, opmod);
	field(wqe, 1, 2, c->index % 65536);
	field(wqe, 3, 1, opcode);
	field(wqe, 4, 3, WQE_CASE_QPN);
	field(wqe, 7, 1, ds);
	field(wqe, 8, 3, 0);
	field(wqe, 11, 1, c->flags);
	field(wqe, 12, 4, c->imm);
}

/* Remote address segment: va, rkey, reserved. */
static void raddr(uint8_t *wqe, const struct wqe_case *c)
{
	field(wqe, 16, 8, c->raddr);
	field(wqe, 24, 4, c->rkey);
	field(wqe, 28, 4, 0);
}

/* Data segment: byte count, lkey, va. */
static void data(uint8_t *wqe, size_t offset, const struct wqe_case *c)
{
	field(wqe, offset, 4, c->bytes);
	field(wqe, offset + 4, 4, c->lkey);
	field(wqe, offset + 8, 8, c->laddr);
}

static size_t with_data(uint8_t *wqe, const struct wqe_case *c, unsigned int opcode, int has_raddr)
{
	size_t at = has_raddr ? 32 : 16;
	size_t bytes = at + (c->bytes ? 16 : 0);

	control(wqe, c, 0, opcode, (unsigned int)bytes / 16);
	if (has_raddr)
		raddr(wqe, c);
	if (c->bytes)
		data(wqe, at, c);
	return bytes;
}

/* Inline: bit 31 and the length, then the bytes, padded to 16. */
static size_t with_inline(uint8_t *wqe, const struct wqe_case *c)
{
	size_t bytes = 32 + (4 + c->bytes + 15) / 16 * 16;

	control(wqe, c, 0, 0x08, (unsigned int)bytes / 16);
	raddr(wqe, c);
	field(wqe, 32, 4, 0x80000000u + c->bytes);
	memcpy(wqe + 36, c->data, c->bytes);
	return bytes;
}

/* Atomics: operands of 4 or 8 bytes side by side, padded to 16, then the data segment. */
static size_t atomic(uint8_t *wqe, const struct wqe_case *c, unsigned int opmod,
		     unsigned int opcode, int n_operands)
{
	const uint64_t operands[] = {c->swap_or_add, c->compare_or_boundary, c->swap_mask,
				     c->compare_mask};
	size_t width = opmod == 0x08 ? 4 : 8;
	size_t at = 32 + ((size_t)n_operands * width + 15) / 16 * 16;
	int i;

	control(wqe, c, opmod, opcode, (unsigned int)at / 16 + 1);
	raddr(wqe, c);
	for (i = 0; i < n_operands; i++)
		field(wqe, 32 + (size_t)i * width, width, operands[i]);
	data(wqe, at, c);
	return at + 16;
}

static size_t connected(const struct wqe_case *c, uint8_t wqe[WQE_CASE_MAX_BYTES])
{
	struct wqe_case quiet = *c;

	switch (c->kind) {
	case KIND_NOP:
		control(wqe, c, 0, 0x00, 1);
		return 16;
	case KIND_WRITE:
		return with_data(wqe, c, 0x08, 1);
	case KIND_WRITE_IMM:
	case KIND_WRITE_IMM_EMPTY:
		return with_data(wqe, c, 0x09, 1);
	case KIND_WRITE_VALUE:
	case KIND_WRITE_INLINE:
		return with_inline(wqe, c);
	case KIND_READ:
		return with_data(wqe, c, 0x10, 1);
	case KIND_SEND:
	case KIND_SEND_EMPTY:
		return with_data(wqe, c, 0x0a, 0);
	case KIND_SEND_IMM:
		return with_data(wqe, c, 0x0b, 0);
	case KIND_ATOMIC_FA:
		return atomic(wqe, c, 0, 0x12, 1);
	case KIND_ATOMIC_CS:
		return atomic(wqe, c, 0, 0x11, 2);
	case KIND_MASKED_FA32:
		return atomic(wqe, c, 0x08, 0x15, 2);
	case KIND_MASKED_FA64:
		return atomic(wqe, c, 0x09, 0x15, 2);
	case KIND_MASKED_CS32:
		return atomic(wqe, c, 0x08, 0x14, 4);
	default:
		/* Covers two WQEBBs and never asks for a CQE: bits 3:2 of fm_ce_se are clear. */
		quiet.flags &= 0xf3;
		return atomic(wqe, &quiet, 0x09, 0x14, 4);
	}
}

/* On a DCI: the address vector behind the control segment, in the extended form; no CQE, but for a NOP, which has none. */
static size_t encode(const struct wqe_case *c, uint8_t wqe[WQE_CASE_MAX_BYTES])
{
	size_t bytes = connected(c, wqe);

	if (!c->has_av || c->kind == KIND_NOP)
		return bytes;
	memmove(wqe + 64, wqe + 16, bytes - 16);
	wqe[7] = (uint8_t)(wqe[7] + 3);
	wqe[11] &= 0xf3;
	field(wqe, 16, 8, c->av.dc_key);
	field(wqe, 24, 1, 0x80);
	field(wqe, 25, 3, c->av.dctn);
	field(wqe, 28, 1, c->av.sl);
	field(wqe, 29, 1, c->av.fl_mlid);
	field(wqe, 30, 2, c->av.rlid);
	field(wqe, 32, 4, 0);
	memcpy(wqe + 36, c->av.rmac, 6);
	field(wqe, 42, 1, c->av.tclass);
	field(wqe, 43, 1, c->av.hop_limit);
	field(wqe, 44, 4, c->av.grh_gid_fl);
	memcpy(wqe + 48, c->av.rgid, 16);
	return bytes + 48;
}

TEST(wqes_are_those_of_the_tables)
{
	wqe_cases_run(encode);
}
