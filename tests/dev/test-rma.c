/* SPDX-License-Identifier: Apache-2.0 */
/* put, get, p, g, signals, send and waits on words: bytes and effects, on every sharing and kind of CQ. */
#include <stdlib.h>
#include <string.h>

#include "tests/dev/each-mode.h"

#define BUF_BYTES 3000

static uint8_t src[BUF_BYTES + 64], dst[BUF_BYTES + 64];
static uint64_t words[4] __attribute__((aligned(64)));

static void put_sizes(struct mini_nic *nic)
{
	static const size_t sizes[] = {1, 2, 3, 7, 8, 9, 63, 64, 65, 1000, BUF_BYTES};
	size_t i, off;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (off = 0; off < 3; off++) {
			fill(src, sizeof(src), (unsigned int)(i + off));
			memset(dst, 0xee, sizeof(dst));
			ASSERT_EQ(shmd_dev_qp_put(&nic->qp, mini_nic_remote(dst + off),
						  mini_nic_local(src + 1), sizes[i], PATIENCE),
				  SHMD_DEV_OK);
			ASSERT_MEMEQ(dst + off, src + 1, sizes[i]);
			ASSERT_EQ(dst[off + sizes[i]], 0xee);
		}
	}
}

TEST(put_writes_exactly_its_bytes)
{
	each_mode(put_sizes);
}

static void get_sizes(struct mini_nic *nic)
{
	size_t bytes, off;

	for (bytes = 1; bytes < 300; bytes += 37) {
		for (off = 0; off < 3; off++) {
			fill(src, sizeof(src), (unsigned int)bytes);
			memset(dst, 0xee, sizeof(dst));
			ASSERT_EQ(shmd_dev_qp_get(&nic->qp, mini_nic_remote(src + 2),
						  mini_nic_local(dst + off), bytes, PATIENCE),
				  SHMD_DEV_OK);
			ASSERT_MEMEQ(dst + off, src + 2, bytes);
			ASSERT_EQ(dst[off + bytes], 0xee);
		}
	}
}

TEST(get_reads_exactly_its_bytes)
{
	each_mode(get_sizes);
}

static void nothing(struct mini_nic *nic)
{
	struct shmd_dev_addr remote = mini_nic_remote(dst), local = mini_nic_local(src);

	ASSERT_EQ(shmd_dev_qp_put(&nic->qp, remote, local, 0, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_get_nbi(&nic->qp, remote, local, 0), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, 0), SHMD_DEV_OK);
	ASSERT_EQ(nic->qp.sq_rsvd_index, nic->attr.start_index);
}

TEST(zero_bytes_post_nothing)
{
	each_mode(nothing);
}

static void nbi_then_quiet(struct mini_nic *nic)
{
	int i;

	fill(src, sizeof(src), 9);
	memset(dst, 0, sizeof(dst));
	/* More than the ring holds: posting waits for room. */
	for (i = 0; i < 150; i++)
		ASSERT_EQ(shmd_dev_qp_put_nbi(&nic->qp, mini_nic_remote(dst + i * 20),
					      mini_nic_local(src + i * 20), 20),
			  SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_MEMEQ(dst, src, 3000);
	memset(dst, 0, sizeof(dst));
	for (i = 0; i < 150; i++)
		ASSERT_EQ(shmd_dev_qp_get_nbi(&nic->qp, mini_nic_remote(src + i * 20),
					      mini_nic_local(dst + i * 20), 20),
			  SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_MEMEQ(dst, src, 3000);
	ASSERT_EQ(nic->qp.cqe_ci, nic->qp.sq_rsvd_index);
}

TEST(quiet_completes_what_nbi_posted)
{
	each_mode(nbi_then_quiet);
}

static void p_and_g(struct mini_nic *nic)
{
	static const uint64_t value = 0xf1e2d3c4b5a69788ull;
	uint32_t bytes, off;
	uint64_t back = 0;

	for (bytes = 1; bytes <= 8; bytes *= 2) {
		for (off = 0; off < 16; off += 8 + bytes) {
			memset(dst, 0xee, 32);
			ASSERT_EQ(shmd_dev_qp_p(&nic->qp, mini_nic_remote(dst + off), value, bytes),
				  SHMD_DEV_OK);
			ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
			ASSERT_MEMEQ(dst + off, &value, bytes);
			ASSERT_EQ(dst[off + bytes], 0xee);
			ASSERT_EQ(shmd_dev_qp_g(&nic->qp, mini_nic_remote(dst + off), bytes,
						PATIENCE, &back),
				  SHMD_DEV_OK);
			ASSERT_EQ(back, bytes == 8 ? value : value & ((1ull << 8 * bytes) - 1));
		}
	}
	back = 77;
	ASSERT_EQ(shmd_dev_qp_p(&nic->qp, mini_nic_remote(dst), 1, 3), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_qp_g(&nic->qp, mini_nic_remote(dst), 0, PATIENCE, &back),
		  SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_qp_g(&nic->qp, mini_nic_remote(dst), 16, PATIENCE, &back),
		  SHMD_DEV_INVALID);
	ASSERT_EQ(back, 77u);
}

TEST(p_and_g_carry_values_of_1_2_4_8_bytes)
{
	each_mode(p_and_g);
}

static void put_signals(struct mini_nic *nic)
{
	struct shmd_dev_addr word = mini_nic_remote(&words[0]);
	uint64_t expected = 1000;

	words[0] = 5;
	fill(src, sizeof(src), 3);
	memset(dst, 0, sizeof(dst));
	ASSERT_EQ(shmd_dev_qp_put_signal(&nic->qp, mini_nic_remote(dst), mini_nic_local(src), 500,
					 shmd_dev_signal_of(word, SHMD_DEV_SIGNAL_SET, expected),
					 PATIENCE),
		  SHMD_DEV_OK);
	ASSERT_EQ(words[0], expected);
	ASSERT_MEMEQ(dst, src, 500);
	fill(src, sizeof(src), 4);
	ASSERT_EQ(shmd_dev_qp_put_signal_nbi(&nic->qp, mini_nic_remote(dst), mini_nic_local(src),
					     1000,
					     shmd_dev_signal_of(word, SHMD_DEV_SIGNAL_ADD, 7)),
		  SHMD_DEV_OK);
	/* A reader that sees the signal sees the data. */
	ASSERT_EQ(shmd_dev_qp_wait_until64(&nic->qp, &words[0], SHMD_DEV_CMP_EQ, expected + 7,
					   PATIENCE),
		  SHMD_DEV_OK);
	ASSERT_MEMEQ(dst, src, 1000);
	ASSERT_EQ(shmd_dev_qp_signal_set(&nic->qp, word, 1), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_signal_add(&nic->qp, word, 1), SHMD_DEV_OK);
	/* Without data: the signal alone. */
	ASSERT_EQ(shmd_dev_qp_put_signal(&nic->qp, mini_nic_remote(dst), mini_nic_local(src), 0,
					 shmd_dev_signal_of(word, SHMD_DEV_SIGNAL_ADD, 40),
					 PATIENCE),
		  SHMD_DEV_OK);
	ASSERT_EQ(words[0], 42u);
	ASSERT_EQ(shmd_dev_qp_signal_as(&nic->qp, shmd_dev_signal_of(word, 9, 1),
					shmd_dev_mode_of(&nic->qp, PATIENCE)),
		  SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_qp_put_signal(&nic->qp, mini_nic_remote(dst), mini_nic_local(src), 8,
					 shmd_dev_signal_of(word, 9, 1), PATIENCE),
		  SHMD_DEV_INVALID);
	ASSERT_EQ(nic->qp.cqe_ci, nic->qp.sq_rsvd_index);
}

TEST(put_signal_delivers_data_before_signal)
{
	each_mode(put_signals);
}

static const uint64_t GIB = 1ull << 30;

static void large(struct mini_nic *nic)
{
	struct shmd_dev_addr remote = mini_nic_remote((void *)0x100000000ull);
	struct shmd_dev_addr local = mini_nic_local((void *)0x900000000ull);
	uint64_t n = mini_nic_get(&nic->n_wqes), i;

	nic->attr.discards = true;
	ASSERT_EQ(shmd_dev_qp_put(&nic->qp, remote, local, 3 * GIB + 5, PATIENCE), SHMD_DEV_OK);
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(executed(nic, n + i)->bytes, i < 3 ? GIB : 5u);
		ASSERT_EQ(executed(nic, n + i)->raddr, 0x100000000ull + i * GIB);
	}
	words[1] = 0;
	n = mini_nic_get(&nic->n_wqes);
	ASSERT_EQ(shmd_dev_qp_put_signal(
			  &nic->qp, remote, local, 2 * GIB,
			  shmd_dev_signal_of(mini_nic_remote(&words[1]), SHMD_DEV_SIGNAL_ADD, 1),
			  PATIENCE),
		  SHMD_DEV_OK);
	ASSERT_EQ(executed(nic, n)->bytes, GIB);
	ASSERT_EQ(executed(nic, n + 1)->raddr, 0x100000000ull + GIB);
	ASSERT_EQ(executed(nic, n + 2)->opcode, SHMD_OPCODE_ATOMIC_FA);
	ASSERT_EQ(mini_nic_get(&nic->n_wqes), n + 3);
	ASSERT_EQ(words[1], 1u);
}

TEST(large_transfers_are_split)
{
	each_mode(large);
}

static void send_recv(struct mini_nic *nic)
{
	uint8_t *tail = (uint8_t *)nic->recv_cq;
	unsigned int i;

	for (i = 0; i < 40; i++) {
		uint32_t bytes = i % 5 * 100;

		fill(src, sizeof(src), i);
		memset(dst, 0, sizeof(dst));
		ASSERT_EQ(shmd_dev_qp_post_recv(&nic->qp, mini_nic_local(dst), bytes), SHMD_DEV_OK);
		if (i % 2)
			ASSERT_EQ(shmd_dev_qp_send(&nic->qp, mini_nic_local(src), bytes),
				  SHMD_DEV_OK);
		else
			ASSERT_EQ(shmd_dev_qp_send_imm(&nic->qp, mini_nic_local(src), bytes,
						       0x01020304 + i),
				  SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
		ASSERT_MEMEQ(dst, src, bytes);
		ASSERT_EQ(__builtin_bswap32(nic->recv_cq[i].byte_cnt), bytes);
		if (i % 2 == 0)
			ASSERT_EQ(__builtin_bswap32(nic->recv_cq[i].imm_inval_pkey),
				  0x01020304u + i);
		ASSERT_EQ(tail[i * 64 + 63] >> 4,
			  i % 2 ? SHMD_CQE_RESP_SEND : SHMD_CQE_RESP_SEND_IMM);
	}
	ASSERT_EQ(shmd_dev_qp_post_recv(&nic->qp, mini_nic_local(dst), 2 * GIB), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_qp_send(&nic->qp, mini_nic_local(src), 2 * GIB), SHMD_DEV_INVALID);
}

TEST(send_arrives_in_posted_buffers)
{
	each_mode(send_recv);
}

TEST(recv_needs_a_receive_queue)
{
	struct mini_nic_attr attr = {0};
	struct mini_nic *nic = mini_nic_new(&attr);

	ASSERT_EQ(shmd_dev_qp_post_recv(&nic->qp, mini_nic_local(dst), 8), SHMD_DEV_INVALID);
	mini_nic_free(nic);
}

/* value relative to the word, and whether each comparison holds. */
static void compare(struct mini_nic *nic, uint64_t word, uint64_t value, unsigned int holds)
{
	uint32_t word32 = (uint32_t)word;
	int cmp;

	words[2] = word;
	for (cmp = SHMD_DEV_CMP_EQ; cmp <= SHMD_DEV_CMP_LE; cmp++) {
		int test = holds >> cmp & 1 ? SHMD_DEV_OK : SHMD_DEV_AGAIN;
		int wait = holds >> cmp & 1 ? SHMD_DEV_OK : SHMD_DEV_TIMEOUT;
		enum shmd_dev_cmp c = (enum shmd_dev_cmp)cmp;

		ASSERT_EQ(shmd_dev_qp_test64(&nic->qp, &words[2], c, value), test);
		ASSERT_EQ(shmd_dev_qp_test32(&nic->qp, &word32, c, (uint32_t)value), test);
		ASSERT_EQ(shmd_dev_qp_wait_until64(&nic->qp, &words[2], c, value, 0), wait);
		ASSERT_EQ(shmd_dev_qp_wait_until32(&nic->qp, &word32, c, (uint32_t)value, 0), wait);
	}
}

#define HOLDS(cmp) (1u << SHMD_DEV_CMP_##cmp)

static void comparisons(struct mini_nic *nic)
{
	compare(nic, 10, 10, HOLDS(EQ) | HOLDS(GE) | HOLDS(LE));
	compare(nic, 11, 10, HOLDS(NE) | HOLDS(GT) | HOLDS(GE));
	compare(nic, 9, 10, HOLDS(NE) | HOLDS(LT) | HOLDS(LE));
	/* Unsigned: all ones is the largest. */
	compare(nic, UINT64_MAX, 0, HOLDS(NE) | HOLDS(GT) | HOLDS(GE));
}

TEST(words_compare_unsigned)
{
	each_mode(comparisons);
}

static void modes(struct mini_nic *nic)
{
	static const enum shmd_dev_scope scopes[] = {SHMD_DEV_THREAD, SHMD_DEV_WARP,
						     SHMD_DEV_BLOCK};
	uint64_t value;
	unsigned int i;

	/* In the C build every scope is one thread; a stronger sharing than the QP's is allowed. */
	for (i = 0; i < 3; i++) {
		struct shmd_dev_mode mode = shmd_dev_mode_const(scopes[i], SHMD_SHARING_GPU);

		fill(src, 64, i);
		ASSERT_EQ(shmd_dev_qp_put_as(&nic->qp, mini_nic_remote(dst), mini_nic_local(src),
					     64, mode),
			  SHMD_DEV_OK);
		ASSERT_MEMEQ(dst, src, 64);
		ASSERT_EQ(shmd_dev_qp_g_as(&nic->qp, mini_nic_remote(dst), 8, mode, &value),
			  SHMD_DEV_OK);
		ASSERT_MEMEQ(&value, src, 8);
		ASSERT_EQ(shmd_dev_qp_fence_as(&nic->qp, mode), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_qp_quiet_as(&nic->qp, mode), SHMD_DEV_OK);
	}
}

TEST(every_scope_is_a_thread_in_c)
{
	each_mode(modes);
}
