/* SPDX-License-Identifier: Apache-2.0 */
/* The parser: a table of WQEs, right and wrong, written as words; then random bytes. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include <shmd/abi/cqe.h>

#include "kernels/host/wqe-parse.h"
#include "tests/lib/test.h"
#include "tests/mlx5sim/engine-extra/wqe-extra.h"
#include "tests/mlx5sim/engine-extra/wqe-layout.h"

#define QPN 0x123456u
#define OK 0
#define BAD SHMD_SYNDROME_LOCAL_QP_OP_ERR
#define LONG SHMD_SYNDROME_LOCAL_LENGTH_ERR

/* Units of four words behind the control segment. */
#define RADDR 0x11223344, 0x55667788, 0xaabbccdd, 0
#define DATA(bytes) (bytes), 0x777, 0x1, 0x2000
#define INLINE4 0x80000004, 0xdeadbeef, 0, 0
#define ATOMIC 0, 5, 0, 7

static const struct row {
	const char *name;
	uint8_t opcode, opmod;
	int expected;
	unsigned int ds; /* 0: control segment and `n_words` */
	unsigned int n_words;
	uint32_t words[40];
	uint64_t total_bytes;
	unsigned int n_sges;
} rows[] = {
	{"nop", 0x00, 0, OK, 0, 0, {0}, 0, 0},
	{"nop padded", 0x00, 0, OK, 0, 8, {1, 2, 3, 4, 5, 6, 7, 8}, 0, 0},
	{"ds 0", 0x00, 0, BAD, 64, 0, {0}, 0, 0},
	{"write", 0x08, 0, OK, 0, 8, {RADDR, DATA(64)}, 64, 1},
	{"write without payload", 0x08, 0, OK, 0, 4, {RADDR}, 0, 0},
	{"write without raddr", 0x08, 0, BAD, 0, 0, {0}, 0, 0},
	{"write of three", 0x08, 0, OK, 0, 16, {RADDR, DATA(1), DATA(2), DATA(3)}, 6, 3},
	{"write inline", 0x08, 0, OK, 0, 8, {RADDR, INLINE4}, 4, 0},
	{"write inline 0", 0x08, 0, OK, 0, 8, {RADDR, 0x80000000, 0, 0, 0}, 0, 0},
	{"write inline 12", 0x08, 0, OK, 0, 8, {RADDR, 0x8000000c, 1, 2, 3}, 12, 0},
	{"write inline 13 in one unit", 0x08, 0, BAD, 0, 8, {RADDR, 0x8000000d, 1, 2, 3}, 0, 0},
	{"write inline with a unit too many",
	 0x08,
	 0,
	 BAD,
	 0,
	 12,
	 {RADDR, INLINE4, 0, 0, 0, 0},
	 0,
	 0},
	{"write inline too long", 0x08, 0, BAD, 0, 8, {RADDR, 0xffffffff, 1, 2, 3}, 0, 0},
	{"inline then reference", 0x08, 0, BAD, 0, 12, {RADDR, INLINE4, DATA(4)}, 0, 0},
	{"reference then inline", 0x08, 0, BAD, 0, 12, {RADDR, DATA(4), INLINE4}, 0, 0},
	{"two inline", 0x08, 0, BAD, 0, 12, {RADDR, INLINE4, INLINE4}, 0, 0},
	{"zero length reference", 0x08, 0, BAD, 0, 8, {RADDR, DATA(0)}, 0, 0},
	{"2 GiB - 1", 0x08, 0, OK, 0, 8, {RADDR, DATA(0x7fffffff)}, 0x7fffffff, 1},
	{"2 GiB", 0x08, 0, OK, 0, 12, {RADDR, DATA(0x7fffffff), DATA(1)}, 0x80000000u, 2},
	{"2 GiB + 1", 0x08, 0, LONG, 0, 12, {RADDR, DATA(0x7fffffff), DATA(2)}, 0, 0},
	{"write imm", 0x09, 0, OK, 0, 8, {RADDR, DATA(64)}, 64, 1},
	{"write imm without payload", 0x09, 0, OK, 0, 4, {RADDR}, 0, 0},
	{"send", 0x0a, 0, OK, 0, 4, {DATA(9)}, 9, 1},
	{"send without payload", 0x0a, 0, OK, 0, 0, {0}, 0, 0},
	{"send inline", 0x0a, 0, OK, 0, 4, {INLINE4}, 4, 0},
	{"send imm", 0x0b, 0, OK, 0, 4, {DATA(9)}, 9, 1},
	{"read", 0x10, 0, OK, 0, 8, {RADDR, DATA(64)}, 64, 1},
	{"read without payload", 0x10, 0, OK, 0, 4, {RADDR}, 0, 0},
	{"read inline", 0x10, 0, BAD, 0, 8, {RADDR, INLINE4}, 0, 0},
	{"compare-swap", 0x11, 0, OK, 0, 12, {RADDR, ATOMIC, DATA(8)}, 8, 1},
	{"compare-swap into two", 0x11, 0, OK, 0, 16, {RADDR, ATOMIC, DATA(4), DATA(4)}, 8, 2},
	{"compare-swap without data", 0x11, 0, BAD, 0, 8, {RADDR, ATOMIC}, 0, 0},
	{"compare-swap without operands", 0x11, 0, BAD, 0, 4, {RADDR}, 0, 0},
	{"compare-swap into 4", 0x11, 0, BAD, 0, 12, {RADDR, ATOMIC, DATA(4)}, 0, 0},
	{"compare-swap into 16", 0x11, 0, BAD, 0, 12, {RADDR, ATOMIC, DATA(16)}, 0, 0},
	{"compare-swap inline", 0x11, 0, BAD, 0, 12, {RADDR, ATOMIC, 0x80000008, 1, 2, 0}, 0, 0},
	{"fetch-add", 0x12, 0, OK, 0, 12, {RADDR, ATOMIC, DATA(8)}, 8, 1},
	{"masked compare-swap 4", 0x14, 8, OK, 0, 12, {RADDR, 1, 2, 3, 4, DATA(4)}, 4, 1},
	{"masked compare-swap 4 into 8", 0x14, 8, BAD, 0, 12, {RADDR, 1, 2, 3, 4, DATA(8)}, 0, 0},
	{"masked compare-swap 8",
	 0x14,
	 9,
	 OK,
	 0,
	 16,
	 {RADDR, 0, 1, 0, 2, 0, 3, 0, 4, DATA(8)},
	 8,
	 1},
	{"masked compare-swap 8 cut", 0x14, 9, BAD, 0, 8, {RADDR, 0, 1, 0, 2}, 0, 0},
	{"masked compare-swap of 2", 0x14, 7, BAD, 0, 12, {RADDR, 1, 2, 3, 4, DATA(4)}, 0, 0},
	{"masked compare-swap, no opmod", 0x14, 0, BAD, 0, 12, {RADDR, 1, 2, 3, 4, DATA(4)}, 0, 0},
	{"masked fetch-add 4", 0x15, 8, OK, 0, 12, {RADDR, 1, 2, 0, 0, DATA(4)}, 4, 1},
	{"masked fetch-add 8", 0x15, 9, OK, 0, 12, {RADDR, 0, 1, 0, 2, DATA(8)}, 8, 1},
	{"masked fetch-add of 16", 0x15, 10, BAD, 0, 12, {RADDR, 0, 1, 0, 2, DATA(8)}, 0, 0},
	{"send with invalidate", 0x01, 0, OK, 0, 4, {DATA(9)}, 9, 1},
	{"umr, whose segments its executor parses", 0x25, 0, OK, 0, 4, {0}, 0, 0},
	{"opcode 0xff", 0xff, 0, BAD, 0, 4, {0}, 0, 0},
	{"ds beyond the bytes", 0x08, 0, BAD, 60, 8, {RADDR, DATA(64)}, 0, 0},
};

static size_t build(const struct row *row, uint8_t *wqe)
{
	unsigned int ds = row->ds == 64 ? 0 : row->ds ? row->ds : 1 + row->n_words / 4;
	uint32_t words[44] = {0};
	size_t bytes = 16 + row->n_words * 4;

	words[0] = (uint32_t)row->opmod << 24 | 0xbeef << 8 | row->opcode;
	words[1] = QPN << 8 | ds;
	words[2] = SHMD_WQE_CE_ALWAYS | SHMD_WQE_FM_FENCE | SHMD_WQE_SOLICITED;
	words[3] = 0xcafe;
	memcpy(words + 4, row->words, row->n_words * 4);
	for (unsigned int i = 0; i < 44; i++)
		words[i] = htobe32(words[i]);
	memcpy(wqe, words, sizeof(words));
	return bytes;
}

TEST(table)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		struct wqe_request req;
		uint8_t wqe[176];
		size_t bytes = build(row, wqe);
		/* Exactly as long as said, so that the sanitizer sees a byte too many. */
		uint8_t *exact = malloc(bytes);
		int r;

		memcpy(exact, wqe, bytes);
		memset(&req, 0x5a, sizeof(req));
		r = wqe_parse(exact, bytes, &req);
		if (r != row->expected)
			test_fail(TEST_WHERE, "%s: 0x%x, expected 0x%x", row->name, r,
				  row->expected);
		ASSERT_EQ(req.opcode, row->opcode);
		ASSERT_EQ(req.qpn, QPN);
		ASSERT_EQ(req.wqe_index, 0xbeef);
		if (r == 0) {
			ASSERT_EQ(req.total_bytes, row->total_bytes);
			ASSERT_EQ(req.n_sges, row->n_sges);
			ASSERT_EQ(req.fence, SHMD_WQE_FM_FENCE);
			ASSERT_EQ(req.completion, SHMD_WQE_CE_ALWAYS);
			ASSERT(req.solicited);
			ASSERT_EQ(req.n_wqebbs, (bytes + 63) / 64);
			ASSERT_EQ(req.has_imm, row->opcode == 0x09 || row->opcode == 0x0b);
			ASSERT_EQ(req.imm, 0xcafe);
		}
		free(exact);
	}
}

/* A UMR as libmlx5 writes it to bind a window of type 2; each byte that counts can be made wrong. */
static size_t build_umr(uint8_t wqe[192], bool is_bind)
{
	uint32_t words[48] = {0x00beef25,
			      QPN << 8 | (is_bind ? 12 : 8),
			      SHMD_WQE_CE_ALWAYS,
			      0x4400,
			      is_bind ? 0xb0000000 : 0x98000000,
			      is_bind ? 4 << 16 : 0,
			      0,
			      is_bind ? 0x203c6041 : 0x20006000,
			      [16] = is_bind ? 0x00007800 : 0x40000000,
			      0xabcd0012,
			      [20] = 0x11,
			      0x22,
			      0,
			      100,
			      [32] = 100,
			      0x5500,
			      0x11,
			      0x22};

	for (unsigned int i = 0; i < 48; i++)
		words[i] = htobe32(words[i]);
	memcpy(wqe, words, sizeof(words));
	return is_bind ? 192 : 128;
}

TEST(umr_says_what_changes_and_to_what)
{
	struct wqe_request req;
	struct wqe_umr umr;
	uint8_t wqe[192];

	ASSERT_EQ(wqe_parse_umr(wqe, build_umr(wqe, true), &umr), 0);
	ASSERT_EQ(wqe_parse(wqe, 192, &req), 0);
	ASSERT(umr.sets_free && !umr.is_free && umr.names_qp && umr.must_be_free);
	ASSERT(umr.sets_tag && umr.sets_start && umr.sets_length);
	ASSERT_EQ(req.imm, 0x4400);
	ASSERT_EQ(umr.key_tag, 0x12);
	ASSERT_EQ(umr.qpn, 0xabcd00);
	ASSERT_EQ(umr.access, 0xf);
	ASSERT_EQ(umr.set_access, 0xf);
	ASSERT_EQ(umr.start, 0x1100000022);
	ASSERT_EQ(umr.length_bytes, 100);
	ASSERT_EQ(umr.list_bytes, 64);
	ASSERT(umr.list == wqe + 128);
	ASSERT_EQ(req.n_sges, 0);
	ASSERT_EQ(wqe_parse_umr(wqe, build_umr(wqe, false), &umr), 0);
	ASSERT(umr.is_free && umr.names_qp && !umr.must_be_free && !umr.sets_start);
	ASSERT_EQ(umr.set_access, 0);
	ASSERT_EQ(umr.list_bytes, 0);
}

TEST(access_bits_of_a_umr_are_those_of_verbs)
{
	/* In the mask, from bit 18 on: local write, remote read, remote write, atomic. In the context, from bit 3 on. */
	static const uint8_t verbs[] = {1, 4, 2, 8};
	struct wqe_umr umr;
	uint8_t wqe[192];

	for (unsigned int i = 0; i < 4; i++) {
		size_t bytes = build_umr(wqe, true);

		wqe[29] = (uint8_t)(4u << i);
		wqe[66] = (uint8_t)(8u << i);
		ASSERT_EQ(wqe_parse_umr(wqe, bytes, &umr), 0);
		ASSERT_EQ(umr.set_access, verbs[i]);
		ASSERT_EQ(umr.access, verbs[i]);
	}
}

/* The list lies elsewhere: a data segment of its own, not shorter than the length that the WQE gives. */
TEST(list_of_a_umr_may_lie_in_memory)
{
	struct wqe_umr umr;
	uint8_t wqe[192];

	build_umr(wqe, true);
	wqe[7] = 9;
	wqe[16] = 0;
	ASSERT_EQ(wqe_parse_umr(wqe, 192, &umr), 0);
	ASSERT(!umr.list);
	ASSERT_EQ(umr.list_bytes, 64);
	ASSERT_EQ(umr.list_at.lkey, 0x5500);
	ASSERT_EQ(umr.list_at.addr, 0x1100000022);
	ASSERT_EQ(umr.list_at.bytes, 100);
	wqe[21] = 7; /* 112 bytes */
	ASSERT_EQ(wqe_parse_umr(wqe, 192, &umr), BAD);
	wqe[21] = 0;
	ASSERT_EQ(wqe_parse_umr(wqe, 192, &umr), BAD);
	wqe[7] = 8;
	ASSERT_EQ(wqe_parse_umr(wqe, 192, &umr), 0);
	ASSERT_EQ(umr.list_bytes, 0);
	wqe[21] = 4;
	ASSERT_EQ(wqe_parse_umr(wqe, 192, &umr), BAD);
}

TEST(umr_of_anything_else_is_refused)
{
	/* Offset and value: flags, length of the list, an offset of the translation, masks, free. */
	static const struct {
		uint8_t at, value;
	} wrong[] = {{16, 0xf0}, {16, 0xb1}, {20, 1},	 {21, 3}, {21, 5}, {22, 1},    {23, 1},
		     {24, 1},	 {27, 1},    {28, 0x60}, {30, 0x70}, {31, 0x43}, {64, 0x80}, {64, 1}};
	struct wqe_request req;
	struct wqe_umr umr;
	uint8_t wqe[192];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		size_t bytes = build_umr(wqe, true);

		wqe[wrong[i].at] = wrong[i].value;
		ASSERT_EQ(wqe_parse_umr(wqe, bytes, &umr), BAD);
	}
	for (uint8_t ds = 1; ds < 12; ds++) {
		build_umr(wqe, true);
		wqe[7] = ds;
		ASSERT_EQ(wqe_parse_umr(wqe, 192, &umr), BAD);
	}
	ASSERT_EQ(wqe_parse_av(wqe, build_umr(wqe, true), &req), BAD);
}

/* ---- what a key consists of ---- */

#define ENTRY(length, key, addr) (length), (key), (uint32_t)((uint64_t)(addr) >> 32), (uint32_t)(addr)
#define PATTERN(bytes, times, n) (bytes), 0x400, (times), (n)

/* In memory of exactly that size, so that the sanitizer sees a byte too many. */
static int parse_layout(const uint32_t *words, unsigned int n_words, uint64_t part_bytes, unsigned int max_parts,
			struct wqe_layout *ret_layout, struct wqe_part *ret_parts)
{
	struct wqe_part *parts = calloc(max_parts ? max_parts : 1, sizeof(*parts));
	uint32_t *list = malloc(n_words * 4 + 1);
	int r;

	ASSERT(parts && list);
	for (unsigned int i = 0; i < n_words; i++)
		list[i] = htobe32(words[i]);
	r = wqe_parse_layout(list, n_words * 4, part_bytes, max_parts, ret_layout, parts);
	for (unsigned int i = 0; r == 0 && i < ret_layout->n_parts; i++)
		ret_parts[i] = parts[i];
	free(list);
	free(parts);
	return r;
}

TEST(list_is_parts_one_behind_the_other)
{
	static const uint32_t klms[] = {ENTRY(100, 0x5500, 0x1100000022), ENTRY(4, 0x6600, 8), ENTRY(0, 0, 0),
					ENTRY(9, 0x7700, 9)};
	struct wqe_layout layout;
	struct wqe_part parts[4];

	ASSERT_EQ(parse_layout(klms, 16, 0, 2, &layout, parts), 0);
	ASSERT(layout.n_blocks == 1 && layout.n_parts == 2 && layout.block_bytes == 104);
	ASSERT(parts[0].at == 0 && parts[0].bytes == 100 && parts[0].key == 0x5500);
	ASSERT_EQ(parts[0].addr, 0x1100000022);
	ASSERT(parts[1].at == 100 && parts[1].bytes == 4 && parts[1].key == 0x6600 && parts[1].addr == 8);
	ASSERT_EQ(parse_layout(klms, 16, 4096, 2, &layout, parts), 0);
	ASSERT(layout.n_parts == 2 && layout.block_bytes == 8192 && parts[1].at == 4096 && parts[1].bytes == 4096);
	ASSERT_EQ(parse_layout(klms, 16, 0, 1, &layout, parts), BAD);
}

TEST(pattern_is_a_block_several_times)
{
	static const uint32_t list[] = {PATTERN(24, 3, 2), ENTRY(10 << 16 | 8, 0x5500, 0x1000),
					ENTRY(16 << 16 | 16, 0x6600, 0x2000), ENTRY(1, 1, 1)};
	struct wqe_layout layout;
	struct wqe_part parts[3];

	ASSERT_EQ(parse_layout(list, 16, 0, 3, &layout, parts), 0);
	ASSERT(layout.n_blocks == 3 && layout.n_parts == 2 && layout.block_bytes == 24);
	ASSERT(parts[0].stride == 10 && parts[0].bytes == 8 && parts[0].key == 0x5500 && parts[0].addr == 0x1000);
	ASSERT(parts[1].stride == 16 && parts[1].bytes == 16 && parts[1].at == 8 && parts[1].addr == 0x2000);
	ASSERT_EQ(parse_layout(list, 16, 0, 1, &layout, parts), BAD);
	ASSERT_EQ(parse_layout(list, 8, 0, 3, &layout, parts), BAD);
	ASSERT_EQ(parse_layout(list, 4, 0, 3, &layout, parts), BAD);
}

TEST(layout_that_makes_no_sense_is_refused)
{
	static const uint32_t lists[][8] = {
		{ENTRY(0, 0, 0), ENTRY(8, 0x5500, 0)}, /* empty */
		{ENTRY(0, 0x5500, 0), ENTRY(8, 0x5500, 0)},
		{PATTERN(8, 0, 1), ENTRY(8 << 16 | 8, 0x5500, 0)},
		{PATTERN(0, 1, 0), ENTRY(8 << 16 | 8, 0x5500, 0)},
		{PATTERN(9, 1, 1), ENTRY(8 << 16 | 8, 0x5500, 0)},
		{PATTERN(0, 1, 1), ENTRY(8 << 16, 0x5500, 0)},
		{PATTERN(8, 1, 2), ENTRY(8 << 16 | 8, 0x5500, 0)},
	};
	struct wqe_layout layout;
	struct wqe_part parts[4];

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		ASSERT_EQ(parse_layout(lists[i], 8, 0, 4, &layout, parts), BAD);
	ASSERT_EQ(parse_layout(lists[0], 0, 0, 4, &layout, parts), BAD);
	ASSERT_EQ(parse_layout(lists[0], 3, 0, 4, &layout, parts), BAD);
	ASSERT_EQ(parse_layout(lists[1], 8, (uint64_t)1 << 32, 4, &layout, parts), BAD);
}

static struct wqe_request parse_row(const char *name)
{
	static uint8_t wqe[176];
	struct wqe_request req;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (strcmp(rows[i].name, name))
			continue;
		ASSERT_EQ(wqe_parse(wqe, build(&rows[i], wqe), &req), rows[i].expected);
		return req;
	}
	test_fail(TEST_WHERE, "no row %s", name);
}

TEST(fields_arrive_in_host_order)
{
	struct wqe_request req = parse_row("write of three");

	ASSERT_EQ(req.raddr, 0x1122334455667788ull);
	ASSERT_EQ(req.rkey, 0xaabbccddu);
	for (unsigned int i = 0; i < 3; i++) {
		ASSERT_EQ(req.sges[i].addr, 0x100002000ull);
		ASSERT_EQ(req.sges[i].lkey, 0x777);
		ASSERT_EQ(req.sges[i].bytes, i + 1);
	}
	req = parse_row("write inline");
	ASSERT_EQ(req.inline_bytes, 4);
	ASSERT_MEMEQ(req.inline_data, "\xde\xad\xbe\xef", 4);
}

TEST(atomic_operands)
{
	struct wqe_request req = parse_row("compare-swap");

	ASSERT(req.atomic.is_compare_swap);
	ASSERT_EQ(req.atomic.bytes, 8);
	ASSERT_EQ(req.atomic.swap_or_add, 5);
	ASSERT_EQ(req.atomic.compare, 7);
	ASSERT_EQ(req.atomic.swap_mask, UINT64_MAX);
	ASSERT_EQ(req.atomic.compare_mask, UINT64_MAX);
	req = parse_row("fetch-add");
	ASSERT(!req.atomic.is_compare_swap);
	ASSERT_EQ(req.atomic.swap_or_add, 5);
	ASSERT_EQ(req.atomic.boundary, 0);
	req = parse_row("masked compare-swap 4");
	ASSERT_EQ(req.atomic.bytes, 4);
	ASSERT_EQ(req.atomic.swap_or_add, 1);
	ASSERT_EQ(req.atomic.compare, 2);
	ASSERT_EQ(req.atomic.swap_mask, 3);
	ASSERT_EQ(req.atomic.compare_mask, 4);
	req = parse_row("masked compare-swap 8");
	ASSERT_EQ(req.atomic.bytes, 8);
	ASSERT_EQ(req.atomic.swap_or_add, 1);
	ASSERT_EQ(req.atomic.compare, 2);
	ASSERT_EQ(req.atomic.swap_mask, 3);
	ASSERT_EQ(req.atomic.compare_mask, 4);
	req = parse_row("masked fetch-add 4");
	ASSERT_EQ(req.atomic.swap_or_add, 1);
	ASSERT_EQ(req.atomic.boundary, 2);
	req = parse_row("masked fetch-add 8");
	ASSERT_EQ(req.atomic.swap_or_add, 1);
	ASSERT_EQ(req.atomic.boundary, 2);
	ASSERT_EQ(req.atomic.bytes, 8);
}

TEST(the_largest_wqes)
{
	uint8_t wqe[1008] = {0};
	struct wqe_request req;
	uint32_t word;

	/* 61 references behind raddr, the most that fit; then the largest inline send. */
	word = htobe32(0x08);
	memcpy(wqe, &word, 4);
	word = htobe32(QPN << 8 | 63);
	memcpy(wqe + 4, &word, 4);
	for (unsigned int i = 2; i < 63; i++)
		wqe[i * 16 + 3] = 1;
	ASSERT_EQ(wqe_size_bytes(wqe), 1008);
	ASSERT_EQ(wqe_parse(wqe, sizeof(wqe), &req), 0);
	ASSERT_EQ(req.n_sges, 61);
	ASSERT_EQ(req.n_wqebbs, 16);
	wqe[3] = 0x0a;
	memset(wqe + 16, 0, sizeof(wqe) - 16);
	word = htobe32(SHMD_INLINE_SEG | WQE_MAX_INLINE_BYTES);
	memcpy(wqe + 16, &word, 4);
	ASSERT_EQ(wqe_parse(wqe, sizeof(wqe), &req), 0);
	ASSERT_EQ(req.inline_bytes, WQE_MAX_INLINE_BYTES);
	/* A send of 62 references. */
	for (unsigned int i = 1; i < 63; i++) {
		memset(wqe + i * 16, 0, 16);
		wqe[i * 16 + 3] = 1;
	}
	ASSERT_EQ(wqe_parse(wqe, sizeof(wqe), &req), 0);
	ASSERT_EQ(req.n_sges, WQE_MAX_SGES);
}

TEST(truncated_input_is_refused)
{
	uint8_t wqe[16] = {0};
	struct wqe_request req;

	ASSERT_EQ(wqe_parse(wqe, 0, &req), BAD);
	ASSERT_EQ(wqe_parse(wqe, 15, &req), BAD);
	ASSERT_EQ(wqe_parse(wqe, 16, &req), BAD);
}

/* ---- address vectors ---- */

#define AV_LONG                                                                                    \
	0x01020304, 0x05060708, 0x80abcdef, 0x53070044, 0, 0x11223344, 0x55667788, 0x40155555
#define RGID 0xa0a1a2a3, 0xa4a5a6a7, 0xa8a9aaab, 0xacadaeaf
#define AV_SHORT 0x01020304, 0x05060708, 0x00abcdef, 0x53070044

static const struct row av_rows[] = {
	{"long", 0x0a, 0, OK, 0, 16, {AV_LONG, RGID, DATA(9)}, 9, 1},
	{"short", 0x0a, 0, OK, 0, 8, {AV_SHORT, DATA(9)}, 9, 1},
	{"short with imm", 0x0b, 0, OK, 0, 8, {AV_SHORT, INLINE4}, 4, 0},
	{"without payload", 0x0a, 0, OK, 0, 12, {AV_LONG, RGID}, 0, 0},
	{"long inline", 0x0a, 0, OK, 0, 16, {AV_LONG, RGID, INLINE4}, 4, 0},
	{"write", 0x08, 0, OK, 0, 20, {AV_LONG, RGID, RADDR, DATA(9)}, 9, 1},
	{"nop", 0x00, 0, OK, 0, 0, {0}, 0, 0},
	{"none", 0x0a, 0, BAD, 0, 0, {0}, 0, 0},
	{"long cut short", 0x0a, 0, BAD, 0, 8, {AV_LONG}, 0, 0},
	{"behind it a wrong reference", 0x0a, 0, BAD, 0, 8, {AV_SHORT, DATA(0)}, 0, 0},
};

static void expect_av(const struct row *row, const struct wqe_request *req)
{
	static const uint8_t zeros[32];
	bool is_long = row->words[2] & SHMD_AV_EXTENDED;

	ASSERT_EQ(req->av_key, 0x0102030405060708ull);
	ASSERT_EQ(req->av_qpn, 0xabcdef);
	ASSERT_EQ(req->av.stat_rate_sl, 0x53);
	ASSERT_EQ(req->av.fl_mlid, 0x07);
	ASSERT_EQ(be16toh(req->av.rlid), 0x44);
	if (is_long) {
		ASSERT_EQ(req->av.rmac[0], 0x11);
		ASSERT_EQ(req->av.tclass, 0x77);
		ASSERT_EQ(req->av.hop_limit, 0x88);
		ASSERT_EQ(be32toh(req->av.grh_gid_fl), 0x40155555);
		ASSERT_EQ(req->av.rgid[15], 0xaf);
	} else {
		ASSERT_MEMEQ((const uint8_t *)&req->av + 16, zeros, 32);
	}
}

TEST(address_vectors_of_both_lengths)
{
	for (size_t i = 0; i < sizeof(av_rows) / sizeof(av_rows[0]); i++) {
		const struct row *row = &av_rows[i];
		struct wqe_request req;
		uint8_t wqe[176];
		size_t bytes = build(row, wqe);
		uint8_t *exact = malloc(bytes);
		int r;

		memcpy(exact, wqe, bytes);
		memset(&req, 0x5a, sizeof(req));
		r = wqe_parse_av(exact, bytes, &req);
		if (r != row->expected)
			test_fail(TEST_WHERE, "%s: 0x%x, expected 0x%x", row->name, r,
				  row->expected);
		ASSERT_EQ(req.opcode, row->opcode);
		if (r == 0) {
			ASSERT_EQ(req.total_bytes, row->total_bytes);
			ASSERT_EQ(req.n_sges, row->n_sges);
			if (row->opcode)
				expect_av(row, &req);
		}
		free(exact);
	}
}

/* ---- XRC and Ethernet segments ---- */

static const struct {
	const char *name;
	int (*parse)(const void *wqe, size_t bytes, struct wqe_request *ret_req);
	struct row row;
} transport_rows[] = {
	{"xrc write", wqe_parse_xrc, {"", 0x08, 0, OK, 0, 12, {0xff000555, 0, 0, 0, RADDR, DATA(9)}, 9, 1}},
	{"xrc send without payload", wqe_parse_xrc, {"", 0x0a, 0, OK, 0, 4, {0xff000555, 0, 0, 0}, 0, 0}},
	{"xrc nop", wqe_parse_xrc, {"", 0x00, 0, OK, 0, 0, {0}, 0, 0}},
	{"xrc none", wqe_parse_xrc, {"", 0x0a, 0, BAD, 0, 0, {0}, 0, 0}},
	{"xrc and half of an address", wqe_parse_xrc, {"", 0x08, 0, BAD, 0, 4, {0x555, 0, 0, 0}, 0, 0}},
	{"frame", wqe_parse_eth, {"", 0x0a, 0, OK, 0, 8, {0, 0, 0, 0x00020000, DATA(60)}, 60, 1}},
	{"frame with a header", wqe_parse_eth, {"", 0x0a, 0, OK, 0, 12, {0, 0, 0, 0x00120000, 0, 0, 0, 0, DATA(46)}, 46, 1}},
	{"frame with a header cut short", wqe_parse_eth, {"", 0x0a, 0, BAD, 0, 4, {0, 0, 0, 0x00030000}, 0, 0}},
	{"frame none", wqe_parse_eth, {"", 0x0a, 0, BAD, 0, 0, {0}, 0, 0}},
};

TEST(transport_segments_of_xrc_and_raw_packets)
{
	for (size_t i = 0; i < sizeof(transport_rows) / sizeof(transport_rows[0]); i++) {
		const struct row *row = &transport_rows[i].row;
		struct wqe_request req;
		uint8_t wqe[176];
		size_t bytes = build(row, wqe);
		uint8_t *exact = malloc(bytes);
		int r;

		memcpy(exact, wqe, bytes);
		memset(&req, 0x5a, sizeof(req));
		r = transport_rows[i].parse(exact, bytes, &req);
		if (r != row->expected)
			test_fail(TEST_WHERE, "%s: 0x%x, expected 0x%x", transport_rows[i].name, r, row->expected);
		if (r == 0) {
			ASSERT_EQ(req.total_bytes, row->total_bytes);
			ASSERT_EQ(req.n_sges, row->n_sges);
			if (row->opcode && transport_rows[i].parse == wqe_parse_xrc)
				ASSERT_EQ(req.xrc_srqn, 0x555);
		}
		free(exact);
	}
}

/* A UMR has none of them, and needs a QP that may have one. */
TEST(umr_stands_behind_the_control_segment_of_xrc_too)
{
	struct wqe_request req;
	uint8_t wqe[192];

	ASSERT_EQ(wqe_parse_xrc(wqe, build_umr(wqe, true), &req), 0);
	ASSERT_EQ(wqe_parse_eth(wqe, build_umr(wqe, true), &req), BAD);
}

/* ---- receive ---- */

static int parse_recv(const uint32_t *words, unsigned int n_words, unsigned int *n, uint64_t *total)
{
	struct wqe_sge sges[WQE_MAX_SGES];
	uint32_t be[64];

	for (unsigned int i = 0; i < n_words; i++)
		be[i] = htobe32(words[i]);
	*n = 99;
	*total = 99;
	return wqe_parse_recv(be, n_words * 4, n, sges, total);
}

TEST(receive_wqes)
{
	static const uint32_t full[] = {DATA(10), DATA(20)};
	static const uint32_t ended[] = {DATA(10), 0, SHMD_LKEY_TERMINATE, 0, 0, DATA(20), DATA(0)};
	static const uint32_t empty[] = {0, SHMD_LKEY_TERMINATE, 0, 0};
	static const uint32_t zero[] = {DATA(10), 0, 0x777, 0, 0};
	static const uint32_t terminator_key[] = {5, SHMD_LKEY_TERMINATE, 0, 0};
	static const uint32_t with_inline[] = {INLINE4, DATA(1)};
	unsigned int n;
	uint64_t total;

	ASSERT_EQ(parse_recv(full, 8, &n, &total), 0);
	ASSERT_EQ(n, 2);
	ASSERT_EQ(total, 30);
	ASSERT_EQ(parse_recv(ended, 16, &n, &total), 0);
	ASSERT_EQ(n, 1);
	ASSERT_EQ(total, 10);
	ASSERT_EQ(parse_recv(empty, 4, &n, &total), 0);
	ASSERT_EQ(n, 0);
	ASSERT_EQ(total, 0);
	ASSERT_EQ(parse_recv(zero, 8, &n, &total), BAD);
	ASSERT_EQ(n, 99);
	/* With a length it is a reference like any other; the key is never issued. */
	ASSERT_EQ(parse_recv(terminator_key, 4, &n, &total), 0);
	ASSERT_EQ(n, 1);
	ASSERT_EQ(parse_recv(with_inline, 8, &n, &total), BAD);
}

/* ---- any bytes ---- */

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* Random, with an opcode that is often right, so that the deeper parts are reached. */
static size_t random_wqe(uint8_t *wqe, uint64_t *seed)
{
	static const uint8_t opcodes[] = {0x00, 0x08, 0x09, 0x0a, 0x0b, 0x10,
					  0x11, 0x12, 0x14, 0x15, 0x01, 0xff};
	size_t units = 1 + next_random(seed) % 63;

	for (size_t i = 0; i < units * 16; i++)
		wqe[i] = (uint8_t)next_random(seed);
	wqe[0] = (uint8_t)(7 + next_random(seed) % 4);
	wqe[3] = opcodes[next_random(seed) % sizeof(opcodes)];
	if (next_random(seed) % 4)
		wqe[7] = (uint8_t)units;
	for (size_t i = 1; i < units; i++) {
		if (next_random(seed) % 8)
			wqe[i * 16] &= 0x7f;
	}
	return units * 16;
}

TEST(random_bytes)
{
	unsigned int n_good = 0, rounds = test_is_full() ? 10000000 : 200000;
	uint64_t seed = 88172645463325252ull;

	for (unsigned int i = 0; i < rounds; i++) {
		struct wqe_sge sges[WQE_MAX_SGES];
		struct wqe_request req;
		uint8_t wqe[1008];
		size_t bytes = random_wqe(wqe, &seed);
		uint64_t total;
		unsigned int n;
		int r = wqe_parse(wqe, bytes, &req);

		ASSERT(r == 0 || r == BAD || r == LONG);
		if (r == 0) {
			uint64_t sum = req.inline_bytes;

			n_good++;
			ASSERT_LE(req.n_sges, WQE_MAX_SGES);
			ASSERT_LE(req.total_bytes, WQE_MAX_MESSAGE_BYTES);
			for (n = 0; n < req.n_sges; n++)
				sum += req.sges[n].bytes;
			ASSERT_EQ(sum, req.total_bytes);
			if (req.inline_bytes)
				ASSERT_LE(req.inline_data + req.inline_bytes, wqe + bytes);
		}
		wqe_parse_recv(wqe, bytes, &n, sges, &total);
	}
	ASSERT_GT(n_good, rounds / 50);
}
