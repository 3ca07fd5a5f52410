/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls whose WQEs test-prepare and test-abi-mlx5dv compare with encodings of their own. The ring has 16 WQEBBs and
 * is poisoned, so that a WQE that writes beyond its ds units, or in the wrong place, is found too.
 */
#include "tests/dev/wqe-cases.h"

#include <stdio.h>
#include <string.h>

#include <shmd/dev/wqe-prepare.h>

#include "tests/lib/test.h"

#define RING_WQEBBS 16u
#define POISON 0xa5
#define N_CONNECTED 200u /* cases of each kind; and as many of a DCI */

static uint8_t ring[RING_WQEBBS * 64] __attribute__((aligned(64)));
static uint64_t random_state = 88172645463325252ull;

static uint64_t random64(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static struct shmd_dev_masked_cs masked_cs(const struct wqe_case *c)
{
	struct shmd_dev_masked_cs cs;

	cs.swap = c->swap_or_add;
	cs.compare = c->compare_or_boundary;
	cs.swap_mask = c->swap_mask;
	cs.compare_mask = c->compare_mask;
	return cs;
}

static void prepare_atomic(const struct shmd_dev_qp *qp, const struct wqe_case *c,
			   struct shmd_dev_wqe wqe, struct shmd_dev_addr remote,
			   struct shmd_dev_addr local)
{
	uint64_t a = c->swap_or_add, b = c->compare_or_boundary;

	switch (c->kind) {
	case KIND_ATOMIC_FA:
		shmd_dev_prepare_atomic_fa(qp, wqe, remote, local, a);
		break;
	case KIND_ATOMIC_CS:
		shmd_dev_prepare_atomic_cs(qp, wqe, remote, local, a, b);
		break;
	case KIND_MASKED_FA32:
		shmd_dev_prepare_masked_fa32(qp, wqe, remote, local, (uint32_t)a, (uint32_t)b);
		break;
	case KIND_MASKED_FA64:
		shmd_dev_prepare_masked_fa64(qp, wqe, remote, local, a, b);
		break;
	case KIND_MASKED_CS32:
		shmd_dev_prepare_masked_cs32(qp, wqe, remote, local, masked_cs(c));
		break;
	default:
		shmd_dev_prepare_masked_cs64(qp, wqe, remote, local, masked_cs(c));
		break;
	}
}

/* The peer as a library fills it: big-endian fields where the layout of the segment has them. */
static struct shmd_dev_peer peer_of(const struct wqe_case_av *av)
{
	struct shmd_wqe_av_seg seg = {.dc_key = __builtin_bswap64(av->dc_key),
				      .dqp_dct = __builtin_bswap32(SHMD_AV_EXTENDED | av->dctn),
				      .stat_rate_sl = av->sl,
				      .fl_mlid = av->fl_mlid,
				      .rlid = __builtin_bswap16(av->rlid),
				      .tclass = av->tclass,
				      .hop_limit = av->hop_limit,
				      .grh_gid_fl = __builtin_bswap32(av->grh_gid_fl)};
	struct shmd_dev_peer peer = {.dc_key = av->dc_key, .dctn = av->dctn};

	memcpy(seg.rmac, av->rmac, sizeof(seg.rmac));
	memcpy(seg.rgid, av->rgid, sizeof(seg.rgid));
	memcpy(peer.av, &seg, sizeof(peer.av));
	return peer;
}

static void prepare(const struct shmd_dev_qp *qp, const struct wqe_case *c)
{
	struct shmd_dev_peer peer = peer_of(&c->av);
	struct shmd_dev_av av = shmd_dev_av_of(&peer);
	struct shmd_dev_addr remote = shmd_dev_addr_of(c->raddr, __builtin_bswap32(c->rkey));
	struct shmd_dev_addr local = shmd_dev_addr_of(c->laddr, __builtin_bswap32(c->lkey));
	struct shmd_dev_wqe wqe = shmd_dev_wqe_at(c->index, c->flags);
	uint64_t value;

	if (c->has_av)
		wqe = shmd_dev_wqe_to(wqe, &av);
	wqe.imm = c->imm;
	switch (c->kind) {
	case KIND_NOP:
		shmd_dev_prepare_nop(qp, wqe);
		break;
	case KIND_WRITE:
		shmd_dev_prepare_write(qp, wqe, remote, local, c->bytes);
		break;
	case KIND_WRITE_IMM:
	case KIND_WRITE_IMM_EMPTY:
		shmd_dev_prepare_write_imm(qp, wqe, remote, local, c->bytes);
		break;
	case KIND_WRITE_VALUE:
		memcpy(&value, c->data, 8);
		shmd_dev_prepare_write_value(qp, wqe, remote, value, c->bytes);
		break;
	case KIND_WRITE_INLINE:
		shmd_dev_prepare_write_inline(qp, wqe, remote, c->data, c->bytes);
		break;
	case KIND_READ:
		shmd_dev_prepare_read(qp, wqe, remote, local, c->bytes);
		break;
	case KIND_SEND:
	case KIND_SEND_EMPTY:
		shmd_dev_prepare_send(qp, wqe, local, c->bytes);
		break;
	case KIND_SEND_IMM:
		shmd_dev_prepare_send_imm(qp, wqe, local, c->bytes);
		break;
	default:
		prepare_atomic(qp, c, wqe, remote, local);
		break;
	}
}

static uint32_t random_bytes(enum wqe_kind kind, unsigned int i)
{
	switch (kind) {
	case KIND_WRITE_IMM_EMPTY:
	case KIND_SEND_EMPTY:
		return 0;
	case KIND_WRITE_VALUE:
		return 1u << i % 4;
	case KIND_WRITE_INLINE:
		return 1 + i % 28;
	case KIND_MASKED_FA32:
	case KIND_MASKED_CS32:
		return 4;
	case KIND_ATOMIC_FA:
	case KIND_ATOMIC_CS:
	case KIND_MASKED_FA64:
	case KIND_MASKED_CS64:
		return 8;
	default:
		return i % 3 ? 1 + (uint32_t)(random64() % SHMD_DEV_MAX_REQUEST_BYTES)
			     : (uint32_t)SHMD_DEV_MAX_REQUEST_BYTES;
	}
}

static void randomise(uint8_t *p, size_t bytes)
{
	while (bytes--)
		*p++ = (uint8_t)random64();
}

static struct wqe_case_av random_av(void)
{
	struct wqe_case_av av = {.dc_key = random64(),
				 .dctn = (uint32_t)(random64() & 0xffffff),
				 .rlid = (uint16_t)random64(),
				 .sl = (uint8_t)random64(),
				 .fl_mlid = (uint8_t)random64(),
				 .tclass = (uint8_t)random64(),
				 .hop_limit = (uint8_t)random64(),
				 .grh_gid_fl = (uint32_t)random64()};

	randomise(av.rmac, sizeof(av.rmac));
	randomise(av.rgid, sizeof(av.rgid));
	return av;
}

static struct wqe_case random_case(enum wqe_kind kind, unsigned int i)
{
	/* The ring's end, the end of 16 bits, and anywhere. */
	static const uint64_t indexes[] = {0, 15, 65535, 65536, 0x12345678f};
	static const uint8_t flags[] = {0, SHMD_WQE_CE_ALWAYS,
					SHMD_WQE_CE_ALWAYS | SHMD_WQE_FM_FENCE,
					SHMD_WQE_CE_ALWAYS | SHMD_WQE_SOLICITED};
	struct wqe_case c = {.kind = kind,
			     .index = i % 6 < 5 ? indexes[i % 6] : random64(),
			     .flags = flags[i % 4],
			     .raddr = random64(),
			     .laddr = random64(),
			     .rkey = (uint32_t)random64(),
			     .lkey = (uint32_t)random64(),
			     .bytes = random_bytes(kind, i),
			     .swap_or_add = random64(),
			     .compare_or_boundary = random64(),
			     .swap_mask = random64(),
			     .compare_mask = random64(),
			     .has_av = i >= N_CONNECTED,
			     .av = random_av()};

	if (kind == KIND_WRITE_IMM || kind == KIND_WRITE_IMM_EMPTY || kind == KIND_SEND_IMM)
		c.imm = (uint32_t)random64();
	if (kind == KIND_MASKED_FA32 || kind == KIND_MASKED_CS32) {
		c.swap_or_add &= UINT32_MAX;
		c.compare_or_boundary &= UINT32_MAX;
		c.swap_mask &= UINT32_MAX;
		c.compare_mask &= UINT32_MAX;
	}
	randomise(c.data, sizeof(c.data));
	return c;
}

static void run_case(const struct shmd_dev_qp *qp, const struct wqe_case *c, wqe_encode_fn *encode)
{
	uint8_t expected[WQE_CASE_MAX_BYTES] = {0}, whole[sizeof(ring)];
	size_t bytes = encode(c, expected), i;

	memset(ring, POISON, sizeof(ring));
	memset(whole, POISON, sizeof(whole));
	for (i = 0; i < bytes; i++)
		whole[(c->index % RING_WQEBBS * 64 + i) % sizeof(whole)] = expected[i];
	prepare(qp, c);
	if (memcmp(ring, whole, sizeof(ring)) != 0)
		printf("kind %d, index %llu, flags %#x, %s\n", (int)c->kind,
		       (unsigned long long)c->index, c->flags, c->has_av ? "DCI" : "connected");
	ASSERT_MEMEQ(ring, whole, sizeof(ring));
}

void wqe_cases_run(wqe_encode_fn *encode)
{
	struct shmd_dev_qp qp = {.sq_addr = (uintptr_t)ring,
				 .sq_wqebbs = RING_WQEBBS,
				 .qpn = WQE_CASE_QPN,
				 .max_inline_bytes = 28};
	unsigned int i;
	int kind;

	for (kind = 0; kind < N_KINDS; kind++) {
		for (i = 0; i < 2 * N_CONNECTED; i++) {
			struct wqe_case c = random_case((enum wqe_kind)kind, i);

			run_case(&qp, &c, encode);
		}
	}
}
