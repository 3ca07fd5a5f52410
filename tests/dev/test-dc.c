/* SPDX-License-Identifier: Apache-2.0 */
/* One DCI to several peers: every operation, its WQEs, room, wrapping, errors, fences, and many threads. */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "tests/dev/each-mode.h"

#define N_PEERS 4u
#define BYTES 4096u

/* Each peer's memory; the NIC takes a request only with that peer's key. */
struct at_peer {
	uint8_t data[BYTES];
	uint64_t words[4];
};

static struct at_peer peers[N_PEERS] __attribute__((aligned(64)));
static uint8_t source[BYTES], back[BYTES] __attribute__((aligned(64)));

/* ---- the functions, compiled once each: inlined at every call they take a sanitizer's build a minute ----------------- */

static __attribute__((noinline)) int dc_put(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
					    struct shmd_dev_addr local, uint64_t bytes,
					    struct shmd_dev_mode mode)
{
	return shmd_dev_qp_put_as(qp, remote, local, bytes, mode);
}

static __attribute__((noinline)) int dc_put_nbi(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
						struct shmd_dev_addr local, uint64_t bytes,
						struct shmd_dev_mode mode)
{
	return shmd_dev_qp_put_nbi_as(qp, remote, local, bytes, mode);
}

static __attribute__((noinline)) int dc_get(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
					    struct shmd_dev_addr local, uint64_t bytes,
					    struct shmd_dev_mode mode)
{
	return shmd_dev_qp_get_as(qp, remote, local, bytes, mode);
}

static __attribute__((noinline)) int dc_get_nbi(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
						struct shmd_dev_addr local, uint64_t bytes,
						struct shmd_dev_mode mode)
{
	return shmd_dev_qp_get_nbi_as(qp, remote, local, bytes, mode);
}

static __attribute__((noinline)) int dc_p(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, uint64_t value,
					  uint32_t bytes, struct shmd_dev_mode mode)
{
	return shmd_dev_qp_p_as(qp, remote, value, bytes, mode);
}

static __attribute__((noinline)) int dc_g(struct shmd_dev_qp *qp, struct shmd_dev_addr remote, uint32_t bytes,
					  struct shmd_dev_mode mode, uint64_t *ret_value)
{
	return shmd_dev_qp_g_as(qp, remote, bytes, mode, ret_value);
}

static __attribute__((noinline)) int dc_atomic(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
					       struct shmd_dev_amo amo, struct shmd_dev_mode mode)
{
	return shmd_dev_qp_atomic_as(qp, remote, amo, mode);
}

static __attribute__((noinline)) int dc_atomic_fetch(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
						     struct shmd_dev_amo amo, struct shmd_dev_mode mode,
						     uint64_t *ret_old)
{
	return shmd_dev_qp_atomic_fetch_as(qp, remote, amo, mode, ret_old);
}

static __attribute__((noinline)) int dc_signal(struct shmd_dev_qp *qp, struct shmd_dev_signal signal,
					       struct shmd_dev_mode mode)
{
	return shmd_dev_qp_signal_as(qp, signal, mode);
}

static __attribute__((noinline)) int dc_put_signal(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
						   struct shmd_dev_addr local, uint64_t bytes,
						   struct shmd_dev_signal signal, struct shmd_dev_mode mode)
{
	return shmd_dev_qp_put_signal_as(qp, remote, local, bytes, signal, mode);
}

static __attribute__((noinline)) int dc_put_signal_nbi(struct shmd_dev_qp *qp, struct shmd_dev_addr remote,
						       struct shmd_dev_addr local, uint64_t bytes,
						       struct shmd_dev_signal signal, struct shmd_dev_mode mode)
{
	return shmd_dev_qp_put_signal_nbi_as(qp, remote, local, bytes, signal, mode);
}

/* As each_mode(), with a DCI. */
static void each_dci(void (*run)(struct mini_nic *nic))
{
	unsigned int i;

	for (i = 0; i < 6; i++) {
		struct mini_nic_attr attr = {
			.sharing = (enum shmd_sharing)(i / 2),
			.is_ordinary = i % 2,
			.start_index = 65536 - 5,
			.n_peers = N_PEERS,
		};
		struct mini_nic *nic = mini_nic_new(&attr);

		memset(peers, 0, sizeof(peers));
		run(nic);
		mini_nic_free(nic);
	}
}

static struct shmd_dev_mode mode_to(struct mini_nic *nic, uint32_t peer)
{
	return shmd_dev_mode_to(shmd_dev_mode_of(&nic->qp, PATIENCE), &nic->peers[peer]);
}

static struct shmd_dev_addr word_of(uint32_t peer, uint32_t i)
{
	return mini_nic_remote_of(peer, &peers[peer].words[i]);
}

static int put_word(struct mini_nic *nic, uint32_t peer, uint64_t value)
{
	return dc_p(&nic->qp, word_of(peer, 0), value, 8, mode_to(nic, peer));
}

/* ---- every operation ----------------------------------------------------------------------------------------- */

static void transfer(struct mini_nic *nic, uint32_t peer, uint64_t bytes)
{
	struct shmd_dev_addr remote = mini_nic_remote_of(peer, peers[peer].data);
	struct shmd_dev_mode mode = mode_to(nic, peer);
	uint8_t before[BYTES];

	memcpy(before, peers[peer].data, BYTES);
	fill(source, BYTES, peer * 100 + (unsigned int)bytes);
	memcpy(before, source, bytes);
	ASSERT_EQ(dc_put(&nic->qp, remote, mini_nic_local(source), bytes, mode), SHMD_DEV_OK);
	ASSERT_MEMEQ(peers[peer].data, before, BYTES);
	memset(back, 0, BYTES);
	ASSERT_EQ(dc_get(&nic->qp, remote, mini_nic_local(back), bytes, mode), SHMD_DEV_OK);
	ASSERT_MEMEQ(back, source, bytes);
	memset(source, (int)bytes, bytes);
	ASSERT_EQ(dc_put_nbi(&nic->qp, remote, mini_nic_local(source), bytes, mode), SHMD_DEV_OK);
	ASSERT_EQ(dc_get_nbi(&nic->qp, remote, mini_nic_local(back), bytes, mode), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet_as(&nic->qp, mode), SHMD_DEV_OK);
	ASSERT_MEMEQ(peers[peer].data, source, bytes);
	ASSERT_MEMEQ(back, source, bytes);
}

static void transfers(struct mini_nic *nic)
{
	static const uint64_t sizes[] = {0, 1, 3, 8, 28, 64, 1000, BYTES};
	uint32_t i, peer;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (peer = 0; peer < N_PEERS; peer++)
			transfer(nic, peer, sizes[i]);
}

TEST(puts_and_gets_of_a_dci_reach_the_peer_of_their_mode)
{
	each_dci(transfers);
}

static void values(struct mini_nic *nic)
{
	uint32_t bytes, peer;

	for (bytes = 1; bytes <= 8; bytes *= 2) {
		for (peer = 0; peer < N_PEERS; peer++) {
			uint64_t value = 0x8182838485868788ull + peer, got = 0;
			uint64_t kept = bytes < 8 ? value & ((1ull << 8 * bytes) - 1) : value;

			peers[peer].words[1] = 0;
			ASSERT_EQ(
				dc_p(&nic->qp, word_of(peer, 1), value, bytes, mode_to(nic, peer)),
				SHMD_DEV_OK);
			ASSERT_EQ(dc_g(&nic->qp, word_of(peer, 1), bytes, mode_to(nic, peer), &got),
				  SHMD_DEV_OK);
			ASSERT_EQ(got, kept);
			ASSERT_EQ(peers[peer].words[1], kept);
		}
	}
}

TEST(values_of_a_dci_travel_in_both_directions)
{
	each_dci(values);
}

static uint64_t after(const struct shmd_dev_amo *amo, uint64_t old)
{
	switch (amo->op) {
	case SHMD_DEV_AMO_ADD:
		return old + amo->value;
	case SHMD_DEV_AMO_AND:
		return old & amo->value;
	case SHMD_DEV_AMO_OR:
		return old | amo->value;
	case SHMD_DEV_AMO_XOR:
		return old ^ amo->value;
	case SHMD_DEV_AMO_SWAP:
		return amo->value;
	case SHMD_DEV_AMO_COMPARE_SWAP:
		return old == amo->compare ? amo->value : old;
	default:
		return old;
	}
}

static void atomic(struct mini_nic *nic, uint32_t peer, struct shmd_dev_amo amo, uint64_t old)
{
	uint64_t mask = amo.bytes == 4 ? UINT32_MAX : UINT64_MAX;
	uint64_t kept = ~mask & 0xeeeeeeeeeeeeeeeeull;
	uint64_t expected = kept | (after(&amo, old & mask) & mask);
	uint64_t *word = &peers[peer].words[2], got = 0;

	*word = kept | (old & mask);
	ASSERT_EQ(dc_atomic_fetch(&nic->qp, word_of(peer, 2), amo, mode_to(nic, peer), &got),
		  SHMD_DEV_OK);
	ASSERT_EQ(got, old & mask);
	ASSERT_EQ(*word, expected);
	*word = kept | (old & mask);
	ASSERT_EQ(dc_atomic(&nic->qp, word_of(peer, 2), amo, mode_to(nic, peer)), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(*word, expected);
}

static void atomics(struct mini_nic *nic)
{
	static const uint64_t olds[] = {0, 5, 0xf0f1f2f3f4f5f6f7ull};
	uint32_t bytes, i;
	int op;

	for (bytes = 4; bytes <= 8; bytes += 4) {
		for (op = SHMD_DEV_AMO_FETCH; op <= SHMD_DEV_AMO_COMPARE_SWAP; op++) {
			for (i = 0; i < 2 * 3; i++) {
				struct shmd_dev_amo amo =
					shmd_dev_amo_of(op, bytes, 0x1020304050607080ull + i);
				uint64_t old = olds[i / 2];

				/* Compare-swap both ways. */
				amo.compare = (bytes == 4 ? (uint32_t)old : old) ^ i % 2;
				atomic(nic, (i + (uint32_t)op) % N_PEERS, amo, old);
			}
		}
	}
}

TEST(atomics_of_a_dci_do_what_they_say)
{
	each_dci(atomics);
}

static void signals(struct mini_nic *nic)
{
	uint64_t bytes;
	uint32_t peer;

	for (bytes = 0; bytes <= BYTES; bytes += BYTES / 2) {
		for (peer = 0; peer < N_PEERS; peer++) {
			struct shmd_dev_addr remote = mini_nic_remote_of(peer, peers[peer].data),
					     word = word_of(peer, 3);
			struct shmd_dev_signal set =
				shmd_dev_signal_of(word, SHMD_DEV_SIGNAL_SET, 70 + bytes);
			struct shmd_dev_signal add =
				shmd_dev_signal_of(word, SHMD_DEV_SIGNAL_ADD, 3);
			struct shmd_dev_mode mode = mode_to(nic, peer);

			fill(source, BYTES, (unsigned int)bytes + peer);
			ASSERT_EQ(dc_put_signal(&nic->qp, remote, mini_nic_local(source), bytes,
						set, mode),
				  SHMD_DEV_OK);
			ASSERT_MEMEQ(peers[peer].data, source, bytes);
			ASSERT_EQ(peers[peer].words[3], 70 + bytes);
			source[0]++;
			ASSERT_EQ(dc_put_signal_nbi(&nic->qp, remote, mini_nic_local(source), bytes,
						    add, mode),
				  SHMD_DEV_OK);
			/* A reader that sees the signal sees the data. */
			ASSERT_EQ(shmd_dev_qp_wait_until64_as(&nic->qp, &peers[peer].words[3],
							      SHMD_DEV_CMP_EQ, 73 + bytes, mode),
				  SHMD_DEV_OK);
			ASSERT_MEMEQ(peers[peer].data, source, bytes);
			ASSERT_EQ(dc_signal(&nic->qp, add, mode), SHMD_DEV_OK);
			ASSERT_EQ(dc_signal(&nic->qp, set, mode), SHMD_DEV_OK);
			ASSERT_EQ(shmd_dev_qp_quiet_as(&nic->qp, mode), SHMD_DEV_OK);
			ASSERT_EQ(peers[peer].words[3], 70 + bytes);
		}
	}
}

TEST(signals_of_a_dci_follow_their_data)
{
	each_dci(signals);
}

/* ---- the queue ------------------------------------------------------------------------------------------------- */

static void expect_wqe(struct mini_nic *nic, uint64_t n, uint8_t opcode, uint8_t n_wqebbs,
		       uint8_t fm_ce_se)
{
	const struct mini_nic_entry *entry = executed(nic, n);

	ASSERT_EQ(entry->opcode, opcode);
	ASSERT_EQ(entry->n_wqebbs, n_wqebbs);
	ASSERT_EQ(entry->fm_ce_se, fm_ce_se);
}

static void shapes(struct mini_nic *nic)
{
	struct shmd_dev_mode mode = mode_to(nic, 2);
	struct shmd_dev_signal add = shmd_dev_signal_of(word_of(2, 3), SHMD_DEV_SIGNAL_ADD, 1);
	uint64_t start = nic->attr.start_index;

	ASSERT_EQ(dc_p(&nic->qp, word_of(2, 0), 1, 8, mode), SHMD_DEV_OK);
	ASSERT_EQ(nic->qp.sq_rsvd_index, start + 3);
	ASSERT_EQ(dc_atomic(&nic->qp, word_of(2, 0), shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), mode),
		  SHMD_DEV_OK);
	ASSERT_EQ(nic->qp.sq_rsvd_index, start + 6);
	ASSERT_EQ(dc_atomic(&nic->qp, word_of(2, 0), shmd_dev_amo_of(SHMD_DEV_AMO_AND, 8, 1), mode),
		  SHMD_DEV_OK);
	ASSERT_EQ(nic->qp.sq_rsvd_index, start + 9);
	ASSERT_EQ(dc_put_signal_nbi(&nic->qp, mini_nic_remote_of(2, peers[2].data),
				    mini_nic_local(source), 64, add, mode),
		  SHMD_DEV_OK);
	ASSERT_EQ(nic->qp.sq_rsvd_index, start + 14);
	ASSERT_EQ(dc_put_signal_nbi(&nic->qp, mini_nic_remote_of(2, peers[2].data),
				    mini_nic_local(source), 0, add, mode),
		  SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(nic->qp.sq_rsvd_index, start + 19);
	expect_wqe(nic, 0, SHMD_OPCODE_RDMA_WRITE, 2, 0);
	expect_wqe(nic, 1, SHMD_OPCODE_NOP, 1, SHMD_WQE_CE_ALWAYS);
	expect_wqe(nic, 2, SHMD_OPCODE_ATOMIC_FA, 2, 0);
	expect_wqe(nic, 3, SHMD_OPCODE_NOP, 1, SHMD_WQE_CE_ALWAYS);
	expect_wqe(nic, 4, SHMD_OPCODE_ATOMIC_MASKED_CS, 2, 0);
	expect_wqe(nic, 5, SHMD_OPCODE_NOP, 1, SHMD_WQE_CE_ALWAYS);
	expect_wqe(nic, 6, SHMD_OPCODE_RDMA_WRITE, 2, 0);
	expect_wqe(nic, 7, SHMD_OPCODE_ATOMIC_FA, 2, 0);
	expect_wqe(nic, 8, SHMD_OPCODE_NOP, 1, SHMD_WQE_CE_ALWAYS);
	expect_wqe(nic, 9, SHMD_OPCODE_NOP, 1, 0);
	expect_wqe(nic, 10, SHMD_OPCODE_NOP, 1, 0);
	expect_wqe(nic, 11, SHMD_OPCODE_ATOMIC_FA, 2, 0);
	expect_wqe(nic, 12, SHMD_OPCODE_NOP, 1, SHMD_WQE_CE_ALWAYS);
	ASSERT_EQ(mini_nic_get(&nic->n_cqes), 5u);
	ASSERT_EQ(executed(nic, 6)->peer, 2u);
}

TEST(a_request_of_a_dci_is_two_wqebbs_and_a_nop_brings_the_cqe)
{
	each_dci(shapes);
}

/* A ring of 16 and requests of two and four from every index: it ends within each of them. */
static void wrap_from(uint64_t start_index)
{
	struct mini_nic_attr attr = {.sharing = SHMD_SHARING_GPU,
				     .sq_wqebbs = 16,
				     .start_index = start_index,
				     .n_peers = N_PEERS};
	struct mini_nic *nic = mini_nic_new(&attr);
	uint64_t i, old = 0;

	memset(peers, 0, sizeof(peers));
	for (i = 0; i < 40; i++) {
		uint32_t peer = (uint32_t)(i * 3 % N_PEERS);
		struct shmd_dev_mode mode = mode_to(nic, peer);
		struct shmd_dev_signal signal =
			shmd_dev_signal_of(word_of(peer, 3), SHMD_DEV_SIGNAL_SET, i);

		ASSERT_EQ(put_word(nic, peer, i), SHMD_DEV_OK);
		ASSERT_EQ(dc_put_signal_nbi(&nic->qp, word_of(peer, 1),
					    mini_nic_local(&attr.start_index), 8, signal, mode),
			  SHMD_DEV_OK);
		ASSERT_EQ(dc_atomic_fetch(&nic->qp, word_of(peer, 0),
					  shmd_dev_amo_of(SHMD_DEV_AMO_SWAP, 8, ~i), mode, &old),
			  SHMD_DEV_OK);
		ASSERT_EQ(old, i);
		ASSERT_EQ(peers[peer].words[0], ~i);
		ASSERT_EQ(peers[peer].words[1], start_index);
		ASSERT_EQ(peers[peer].words[3], i);
	}
	mini_nic_free(nic);
}

TEST(the_ring_may_end_within_a_request_of_a_dci)
{
	uint64_t i;

	for (i = 0; i < 16; i++)
		wrap_from(65536 - 40 + i);
}

static void room(struct mini_nic *nic)
{
	uint64_t start = nic->attr.start_index, value = 7;
	uint32_t i;

	nic->qp.post_timeout_nsec = 3 * MSEC;
	mini_nic_set(&nic->stalled, 1);
	/* 21 posts of three WQEBBs; the last WQEBB of the ring has no room for another. */
	for (i = 0; i < 21; i++)
		ASSERT_EQ(put_word(nic, i % N_PEERS, i), SHMD_DEV_OK);
	ASSERT_EQ(put_word(nic, 0, 99), SHMD_DEV_TIMEOUT);
	ASSERT_EQ(dc_g(&nic->qp, word_of(1, 0), 8, mode_to(nic, 1), &value), SHMD_DEV_TIMEOUT);
	ASSERT_EQ(nic->qp.sq_rsvd_index, start + 63);
	ASSERT_EQ(value, 7u);
	nic->qp.post_timeout_nsec = PATIENCE;
	mini_nic_set(&nic->stalled, 0);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(peers[0].words[0], 20u);
	ASSERT_EQ(peers[1].words[0], 17u);
	for (i = 0; i < 200; i++)
		ASSERT_EQ(put_word(nic, i % N_PEERS, i), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(peers[3].words[0], 199u);
}

TEST(posts_of_a_dci_wait_for_room_and_leave_no_hole)
{
	each_dci(room);
}

/* Requests whose result slot another caller holds become NOPs: the peer sees none of them. */
static void cancelled(struct mini_nic *nic)
{
	uint32_t *busy = (uint32_t *)(uintptr_t)nic->qp.slot_busy_addr;
	uint64_t got = 7;

	if (nic->attr.sharing == SHMD_SHARING_EXCLUSIVE)
		return;
	nic->qp.post_timeout_nsec = 3 * MSEC;
	memset(busy, 0xff, nic->qp.sq_wqebbs * sizeof(*busy));
	ASSERT_EQ(dc_g(&nic->qp, word_of(0, 0), 8, mode_to(nic, 0), &got), SHMD_DEV_TIMEOUT);
	ASSERT_EQ(dc_atomic_fetch(&nic->qp, word_of(0, 0), shmd_dev_amo_of(SHMD_DEV_AMO_OR, 8, 1),
				  mode_to(nic, 0), &got),
		  SHMD_DEV_TIMEOUT);
	ASSERT_EQ(dc_put_signal(&nic->qp, word_of(0, 0), mini_nic_local(source), 8,
				shmd_dev_signal_of(word_of(0, 3), SHMD_DEV_SIGNAL_SET, 1),
				mode_to(nic, 0)),
		  SHMD_DEV_TIMEOUT);
	memset(busy, 0, nic->qp.sq_wqebbs * sizeof(*busy));
	nic->qp.post_timeout_nsec = PATIENCE;
	ASSERT_EQ(got, 7u);
	ASSERT_EQ(put_word(nic, 1, 5), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(nic->qp.sq_rsvd_index, nic->attr.start_index + 3 + 3 + 5 + 3);
	ASSERT_EQ(peers[0].words[0], 0u);
	ASSERT_EQ(peers[0].words[3], 0u);
	ASSERT_EQ(peers[1].words[0], 5u);
}

TEST(a_post_of_a_dci_that_is_given_up_sends_nothing)
{
	each_dci(cancelled);
}

static void withheld(struct mini_nic *nic)
{
	uint32_t peer;

	for (peer = 0; peer < N_PEERS; peer++) {
		struct shmd_dev_mode mode = mode_to(nic, peer);

		mode.flags = SHMD_DEV_NO_DOORBELL;
		ASSERT_EQ(dc_p(&nic->qp, word_of(peer, 0), peer + 1, 8, mode), SHMD_DEV_OK);
	}
	ASSERT_EQ(mini_nic_get(&nic->n_wqes), 0u);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(mini_nic_get(&nic->n_doorbells), 1u);
	for (peer = 0; peer < N_PEERS; peer++)
		ASSERT_EQ(peers[peer].words[0], peer + 1);
}

TEST(one_doorbell_announces_requests_to_several_peers)
{
	each_dci(withheld);
}

/* A batch to all peers, which ends in the NOP. */
static void own_wqes(struct mini_nic *nic)
{
	uint64_t index = 0, value = 4711;
	struct shmd_dev_wqe wqe;
	uint32_t peer;

	ASSERT_EQ(shmd_dev_qp_reserve(&nic->qp, N_PEERS * SHMD_DEV_DC_WQEBBS + 1, &index),
		  SHMD_DEV_OK);
	for (peer = 0; peer < N_PEERS; peer++) {
		struct shmd_dev_av av = shmd_dev_av_of(&nic->peers[peer]);

		wqe = shmd_dev_wqe_to(shmd_dev_wqe_at(index + peer * 2, 0), &av);
		shmd_dev_prepare_write(&nic->qp, wqe, word_of(peer, 0), mini_nic_local(&value), 8);
	}
	index += N_PEERS * SHMD_DEV_DC_WQEBBS;
	shmd_dev_prepare_nop(&nic->qp, shmd_dev_wqe_at(index, SHMD_WQE_CE_ALWAYS));
	index -= N_PEERS * SHMD_DEV_DC_WQEBBS;
	ASSERT_EQ(shmd_dev_qp_publish_as(&nic->qp, index, N_PEERS * SHMD_DEV_DC_WQEBBS + 1,
					 mode_to(nic, 0)),
		  SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_wait(&nic->qp, index + N_PEERS * SHMD_DEV_DC_WQEBBS + 1, PATIENCE),
		  SHMD_DEV_OK);
	for (peer = 0; peer < N_PEERS; peer++)
		ASSERT_EQ(peers[peer].words[0], 4711u);
	ASSERT_EQ(mini_nic_get(&nic->n_cqes), 1u);
}

TEST(wqes_of_ones_own_reach_the_peers_of_a_dci)
{
	each_dci(own_wqes);
}

static void fenced(struct mini_nic *nic)
{
	uint64_t got = 0;

	peers[1].words[0] = 12;
	mini_nic_set(&nic->stalled, 1);
	ASSERT_EQ(dc_get_nbi(&nic->qp, word_of(1, 0), mini_nic_local(&got), 8, mode_to(nic, 1)),
		  SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_fence_as(&nic->qp, mode_to(nic, 1)), SHMD_DEV_OK);
	ASSERT_EQ(dc_put_nbi(&nic->qp, word_of(1, 1), mini_nic_local(&got), 8, mode_to(nic, 1)),
		  SHMD_DEV_OK);
	mini_nic_set(&nic->stalled, 0);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(peers[1].words[1], 12u);
	expect_wqe(nic, 0, SHMD_OPCODE_RDMA_READ, 2, 0);
	expect_wqe(nic, 2, SHMD_OPCODE_RDMA_WRITE, 2, SHMD_WQE_FM_FENCE);
	ASSERT_EQ(put_word(nic, 1, 1), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	expect_wqe(nic, 4, SHMD_OPCODE_RDMA_WRITE, 2, 0);
}

TEST(a_fence_of_a_dci_is_on_the_next_request)
{
	each_dci(fenced);
}

static void gone(struct mini_nic *nic)
{
	uint32_t wqe_index = 0;
	uint64_t value = 7;

	mini_nic_set(&nic->gone, 1u << 2);
	ASSERT_EQ(put_word(nic, 1, 21), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(dc_g(&nic->qp, word_of(2, 0), 8, mode_to(nic, 2), &value), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(value, 7u);
	ASSERT_EQ(shmd_dev_qp_error(&nic->qp, &wqe_index), SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	ASSERT_EQ(wqe_index, (nic->attr.start_index + 3) & 0xffff);
	/* The DCI is in error, for every peer. */
	ASSERT_EQ(put_word(nic, 1, 22), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, SHMD_DEV_NO_TIMEOUT), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(peers[1].words[0], 21u);
}

TEST(a_peer_that_is_gone_fails_the_dci)
{
	each_dci(gone);
}

/* ---- many threads ---------------------------------------------------------------------------------------------- */

#define N_THREADS 8

struct racer {
	struct mini_nic *nic;
	pthread_t thread;
	uint32_t id;
	int n_rounds, status;
	uint64_t sum; /* of the tickets it drew */
	uint64_t words[2];
};

static struct racer racers[N_THREADS];
static uint64_t tickets[N_PEERS], totals[N_PEERS];

/* Each round goes to another peer than the last. */
static void race_round(struct racer *r, uint32_t i)
{
	uint32_t peer = (r->id + i) % N_PEERS;
	struct shmd_dev_qp *qp = &r->nic->qp;
	struct shmd_dev_mode mode = mode_to(r->nic, peer);
	struct shmd_dev_signal add =
		shmd_dev_signal_of(mini_nic_remote_of(peer, &totals[peer]), SHMD_DEV_SIGNAL_ADD, 1);
	uint64_t value = r->id * 1000000ull + i, got = 0;

	ASSERT_EQ(dc_p(qp, mini_nic_remote_of(peer, &r->words[0]), value, 8, mode), SHMD_DEV_OK);
	ASSERT_EQ(dc_g(qp, mini_nic_remote_of(peer, &r->words[0]), 8, mode, &got), SHMD_DEV_OK);
	ASSERT_EQ(got, value);
	ASSERT_EQ(dc_atomic_fetch(qp, mini_nic_remote_of(peer, &tickets[peer]),
				  shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), mode, &got),
		  SHMD_DEV_OK);
	r->sum += got;
	ASSERT_EQ(dc_put_signal_nbi(qp, mini_nic_remote_of(peer, &r->words[1]),
				    mini_nic_local(&r->words[0]), i % 3 ? 8 : 0, add, mode),
		  SHMD_DEV_OK);
}

static void *race(void *arg)
{
	struct racer *r = arg;
	int i;

	for (i = 0; i < r->n_rounds; i++)
		race_round(r, (uint32_t)i);
	r->status = shmd_dev_qp_quiet(&r->nic->qp, PATIENCE);
	return NULL;
}

static void race_on(const struct mini_nic_attr *attr)
{
	uint64_t n_rounds = test_has_sanitizer() ? 24 : 80, n = n_rounds * N_THREADS / N_PEERS,
		 sum = 0;
	struct mini_nic *nic = mini_nic_new(attr);
	uint32_t i;

	memset(racers, 0, sizeof(racers));
	memset(tickets, 0, sizeof(tickets));
	memset(totals, 0, sizeof(totals));
	for (i = 0; i < N_THREADS; i++) {
		racers[i].nic = nic;
		racers[i].id = i;
		racers[i].n_rounds = (int)n_rounds;
		ASSERT_OK(pthread_create(&racers[i].thread, NULL, race, &racers[i]));
	}
	for (i = 0; i < N_THREADS; i++) {
		pthread_join(racers[i].thread, NULL);
		ASSERT_EQ(racers[i].status, SHMD_DEV_OK);
		sum += racers[i].sum;
	}
	for (i = 0; i < N_PEERS; i++) {
		ASSERT_EQ(tickets[i], n);
		ASSERT_EQ(totals[i], n);
	}
	/* Every ticket of every peer was drawn once. */
	ASSERT_EQ(sum, N_PEERS * (n * (n - 1) / 2));
	ASSERT_EQ(nic->qp.cqe_ci, nic->qp.sq_rsvd_index);
	mini_nic_free(nic);
}

TEST_TIMEOUT(threads_share_a_dci, 60)
{
	struct mini_nic_attr attr = {
		.sharing = SHMD_SHARING_GPU, .start_index = 65000, .n_peers = N_PEERS};

	race_on(&attr);
}

TEST_TIMEOUT(threads_share_a_dci_with_a_small_ring_and_an_ordinary_cq, 60)
{
	struct mini_nic_attr attr = {.sharing = SHMD_SHARING_BLOCK,
				     .sq_wqebbs = 16,
				     .is_ordinary = true,
				     .start_index = 65536 - 3,
				     .n_peers = N_PEERS};

	race_on(&attr);
}
