/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a WQE, a receive WQE and a CQE: parsed as the engine does, and put into words.
 *
 * A parsed WQE must keep the promises of wqe-parse.h; the words must stay within their buffer and end it.
 */
#include <stdint.h>
#include <string.h>

#include <shmd/abi/cqe.h>

#include "kernels/host/wqe-dump.h"
#include "kernels/host/wqe-parse.h"
#include "proto/base/assert.h"
#include "tests/fuzz/fuzz.h"
#include "tests/mlx5sim/engine-extra/wqe-extra.h"
#include "tests/mlx5sim/engine-extra/wqe-layout.h"

#define MAX_WQE_BYTES 1024u
#define MAX_RECV_BYTES 512u
#define N_TEXT 200u
#define GUARD 0x5au
#define MAX_PARTS 32u

static void check_sges(const struct wqe_sge *sges, unsigned int n, uint64_t total_bytes)
{
	uint64_t sum = 0;

	assert_bug(n <= WQE_MAX_SGES);
	for (unsigned int i = 0; i < n; i++) {
		assert_bug(sges[i].bytes >= 1 && sges[i].bytes <= 1u << 31);
		sum += sges[i].bytes;
	}
	assert_bug(sum == total_bytes);
}

/* Parts lie one behind the other; and the list of a UMR in its WQE. */
static void check_layout(const uint8_t *list, size_t bytes, uint64_t part_bytes)
{
	struct wqe_part parts[MAX_PARTS + 1];
	struct wqe_layout layout;
	uint64_t at = 0, whole;
	int r;

	parts[MAX_PARTS].at = GUARD;
	r = wqe_parse_layout(list, bytes, part_bytes, MAX_PARTS, &layout, parts);
	assert_bug((r == 0 || r == SHMD_SYNDROME_LOCAL_QP_OP_ERR) && parts[MAX_PARTS].at == GUARD);
	if (r)
		return;
	assert_bug(layout.n_parts >= 1 && layout.n_parts <= MAX_PARTS && layout.n_blocks >= 1);
	for (unsigned int i = 0; i < layout.n_parts; i++) {
		assert_bug(parts[i].bytes >= 1 && parts[i].at == at);
		at += parts[i].bytes;
	}
	assert_bug(layout.block_bytes == at && !__builtin_mul_overflow(at, layout.n_blocks, &whole));
}

static void check_umr(const struct wqe_umr *umr, const uint8_t *wqe, size_t size)
{
	assert_bug(umr->access <= 0xf && umr->set_access <= 0xf && umr->qpn <= 0xffffff);
	if (!umr->list) {
		assert_bug(!umr->list_bytes || umr->list_at.bytes >= umr->list_bytes);
		return;
	}
	assert_bug(umr->list >= wqe && umr->list + umr->list_bytes == wqe + size);
	check_layout(umr->list, umr->list_bytes, 0);
	check_layout(umr->list, umr->list_bytes, 4096);
}

static void check_request(const struct wqe_request *req, const uint8_t *wqe, size_t bytes)
{
	size_t size = wqe_size_bytes(wqe);
	struct wqe_umr umr;

	assert_bug(size && size <= bytes && req->n_wqebbs == (size + 63) / 64 && req->n_wqebbs <= 16);
	assert_bug(req->total_bytes <= WQE_MAX_MESSAGE_BYTES && req->qpn <= 0xffffff);
	if (req->inline_bytes) {
		assert_bug(req->inline_bytes <= WQE_MAX_INLINE_BYTES && !req->n_sges);
		assert_bug(req->inline_data >= wqe && req->inline_data + req->inline_bytes <= wqe + size);
		assert_bug(req->total_bytes == req->inline_bytes);
	} else {
		check_sges(req->sges, req->n_sges, req->total_bytes);
	}
	if (req->opcode == SHMD_OPCODE_UMR && !wqe_parse_umr(wqe, bytes, &umr))
		check_umr(&umr, wqe, size);
	if (req->atomic.bytes)
		assert_bug((req->atomic.bytes == 4 || req->atomic.bytes == 8) &&
			   req->total_bytes == req->atomic.bytes);
}

/* The buffer has every size once in a while, none and one among them. */
static void check_text(int (*dump)(char *buf, size_t size, const void *wqe, size_t bytes, unsigned int hide),
		       const void *wqe, size_t bytes)
{
	static const size_t sizes[] = {1, 2, 17, N_TEXT};
	char text[N_TEXT + 1];

	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		memset(text, GUARD, sizeof(text));
		assert_bug(dump(text, sizes[i], wqe, bytes, 0) >= 0);
		assert_bug(memchr(text, '\0', sizes[i]) && text[sizes[i]] == GUARD);
	}
}

static void parse(int (*parser)(const void *wqe, size_t bytes, struct wqe_request *ret_req), const uint8_t *wqe,
		  size_t bytes)
{
	struct wqe_request req;
	int r = parser(wqe, bytes, &req);

	assert_bug(r == 0 || r == SHMD_SYNDROME_LOCAL_QP_OP_ERR || r == SHMD_SYNDROME_LOCAL_LENGTH_ERR);
	if (r == 0)
		check_request(&req, wqe, bytes);
	if (r == 0 && parser == wqe_parse_av && req.opcode != SHMD_OPCODE_NOP)
		assert_bug(req.av_qpn <= 0xffffff && !memcmp(&req.av.dqp_dct, wqe + 24, 4));
	if (r == 0 && parser == wqe_parse_xrc && req.opcode != SHMD_OPCODE_NOP && req.opcode != SHMD_OPCODE_UMR)
		assert_bug(req.xrc_srqn <= 0xffffff);
}

static void one_wqe(const uint8_t *wqe, size_t bytes)
{
	parse(wqe_parse, wqe, bytes);
	parse(wqe_parse_av, wqe, bytes);
	parse(wqe_parse_xrc, wqe, bytes);
	parse(wqe_parse_eth, wqe, bytes);
	check_text(wqe_dump, wqe, bytes);
}

static void one_recv(const uint8_t *wqe, size_t bytes)
{
	struct wqe_sge sges[WQE_MAX_SGES];
	uint64_t total_bytes;
	unsigned int n;
	int r = wqe_parse_recv(wqe, bytes, &n, sges, &total_bytes);

	assert_bug(r == 0 || r == SHMD_SYNDROME_LOCAL_QP_OP_ERR);
	if (r == 0)
		check_sges(sges, n, total_bytes);
	check_text(wqe_dump_recv, wqe, bytes);
}

static int dump_cqe(char *buf, size_t size, const void *cqe, size_t bytes, unsigned int hide)
{
	return cqe_dump(buf, size, cqe);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	if (n >= SHMD_DS_BYTES)
		one_wqe(bytes, (n < MAX_WQE_BYTES ? n : MAX_WQE_BYTES) & ~(size_t)(SHMD_DS_BYTES - 1));
	one_recv(bytes, (n < MAX_RECV_BYTES ? n : MAX_RECV_BYTES) & ~(size_t)(SHMD_DS_BYTES - 1));
	if (n >= SHMD_CQE_BYTES)
		check_text(dump_cqe, bytes, SHMD_CQE_BYTES);
	return 0;
}
