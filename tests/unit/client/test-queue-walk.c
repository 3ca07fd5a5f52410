/* SPDX-License-Identifier: Apache-2.0 */
/* Walking rings of known and of hostile bytes: which entries are found, and in which state. */
#include <stdlib.h>
#include <string.h>

#include "libclient/ctl/queue-walk.h"
#include "tests/lib/test.h"

#define QPN 0x123456u

static uint8_t ring_bytes[32 * 64];

struct found {
	unsigned int n;
	struct {
		uint16_t index;
		uint32_t slot, n_entries;
		enum walk_state state;
		uint8_t last;
	} at[64];
};

static void take(void *arg, const struct walk_entry *entry)
{
	struct found *found = arg;

	ASSERT_LT(found->n, 64);
	found->at[found->n].index = entry->index;
	found->at[found->n].slot = entry->slot;
	found->at[found->n].n_entries = entry->n_entries;
	found->at[found->n].state = entry->state;
	found->at[found->n].last = entry->at[entry->bytes - 1];
	found->n++;
}

static struct walk_ring ring(uint32_t n_entries, uint16_t ci, uint16_t pi, uint16_t dbrec)
{
	memset(ring_bytes, 0, sizeof(ring_bytes));
	return (struct walk_ring){.bytes = ring_bytes, .n_entries = n_entries, .entry_bytes = 64, .qpn = QPN, .ci = ci,
				  .pi = pi, .dbrec = dbrec};
}

/* A WQE of this many WQEBBs, whose last byte is `last`. */
static void put_wqe(uint32_t n_entries, uint16_t index, unsigned int n_wqebbs, uint8_t last)
{
	uint8_t *at = ring_bytes + (index & (n_entries - 1)) * 64;
	uint16_t end = (uint16_t)(index + n_wqebbs - 1);

	memset(at, 0, 64);
	at[1] = (uint8_t)(index >> 8);
	at[2] = (uint8_t)index;
	at[3] = 8;
	at[4] = QPN >> 16;
	at[5] = (QPN >> 8) & 0xff;
	at[6] = QPN & 0xff;
	at[7] = (uint8_t)(n_wqebbs * 4);
	ring_bytes[(end & (n_entries - 1)) * 64 + 63] = last;
}

TEST(wqes_are_consumed_pending_not_rung_or_unannounced)
{
	struct walk_ring sq = ring(16, 3, 5, 6);
	struct found found = {0};

	for (uint16_t i = 0; i < 8; i++)
		put_wqe(16, i, 1, (uint8_t)i);
	walk_sq(&sq, take, &found);
	ASSERT_EQ(found.n, 8);
	for (unsigned int i = 0; i < 8; i++) {
		ASSERT_EQ(found.at[i].index, i);
		ASSERT_EQ(found.at[i].last, i);
		ASSERT_EQ(found.at[i].state, i < 3 ? WALK_CONSUMED : i < 5 ? WALK_PENDING : i < 6 ? WALK_NOT_RUNG :
							      WALK_UNANNOUNCED);
	}
	ASSERT_EQ(walk_count(&sq).pending, 2);
	ASSERT_EQ(walk_count(&sq).not_rung, 1);
	ASSERT_STREQ(walk_state_text(WALK_NOT_RUNG), "not-rung");
}

TEST(a_wqe_over_the_end_of_the_ring_is_put_together)
{
	struct walk_ring sq = ring(16, 0xfffe, 2, 2);
	struct found found = {0};

	put_wqe(16, 0xfffe, 4, 0x77);
	walk_sq(&sq, take, &found);
	ASSERT_EQ(found.n, 1);
	ASSERT_EQ(found.at[0].index, 0xfffe);
	ASSERT_EQ(found.at[0].slot, 14);
	ASSERT_EQ(found.at[0].n_entries, 4);
	ASSERT_EQ(found.at[0].last, 0x77);
	ASSERT_EQ(found.at[0].state, WALK_PENDING);
}

TEST(wqes_of_an_older_round_are_not_taken_for_new_ones)
{
	struct walk_ring sq = ring(16, 20, 20, 20);
	struct found found = {0};

	/* All written in order; the ring holds 4 to 19. */
	for (uint16_t i = 0; i < 20; i++)
		put_wqe(16, i, 1, 0);
	walk_sq(&sq, take, &found);
	ASSERT_EQ(found.n, 16);
	ASSERT_EQ(found.at[0].index, 4);
	ASSERT_EQ(found.at[15].index, 19);
	ASSERT_EQ(found.at[15].state, WALK_CONSUMED);
}

TEST(garbage_before_the_consumer_index_is_skipped)
{
	struct walk_ring sq = ring(16, 8, 8, 8);
	struct found found = {0};

	put_wqe(16, 2, 2, 0);
	memset(ring_bytes + 4 * 64, 0xee, 64);
	put_wqe(16, 6, 1, 0);
	put_wqe(16, 7, 1, 0);
	ring_bytes[7 * 64 + 6] ^= 1; /* of another QP */
	walk_sq(&sq, take, &found);
	ASSERT_EQ(found.n, 2);
	ASSERT_EQ(found.at[0].index, 2);
	ASSERT_EQ(found.at[1].index, 6);
}

TEST(indexes_that_cannot_be_leave_the_ring_readable)
{
	struct found found = {0};
	struct walk_ring sq = ring(16, 0, 0, 5000);

	ASSERT_EQ(walk_count(&sq).not_rung, 0);
	sq = ring(16, 0, 16, 32);
	walk_sq(&sq, take, &found);
	ASSERT_EQ(found.n, 16);
}

/* Whatever a client writes, entries lie in the ring and the walk ends. */
TEST(random_bytes_are_walked_within_the_ring)
{
	srand(1);
	for (int i = 0; i < 20000; i++) {
		struct walk_ring sq = ring(32, (uint16_t)rand(), (uint16_t)rand(), (uint16_t)rand());
		struct found found = {0};

		if (i % 2) {
			sq.pi = (uint16_t)(sq.ci + rand() % 40);
			sq.dbrec = (uint16_t)(sq.pi + rand() % 40);
		}
		for (size_t k = 0; k < sizeof(ring_bytes); k++)
			ring_bytes[k] = (uint8_t)rand();
		for (int k = 0; k < 8; k++)
			put_wqe(32, (uint16_t)(sq.ci - 20 + rand() % 40), (unsigned int)rand() % 16, 0);
		walk_sq(&sq, take, &found);
		ASSERT_LE(found.n, 64);
	}
}

TEST(receives_have_a_state_too)
{
	struct walk_ring rq = ring(8, 2, 5, 6);
	struct found found = {0};

	rq.entry_bytes = 16;
	walk_rq(&rq, take, &found);
	ASSERT_EQ(found.n, 6);
	for (unsigned int i = 0; i < 6; i++) {
		ASSERT_EQ(found.at[i].index, i);
		ASSERT_EQ(found.at[i].state, i < 2 ? WALK_CONSUMED : i < 5 ? WALK_PENDING : WALK_NOT_RUNG);
	}
	/* In later rounds the whole ring was used. */
	rq = ring(8, 100, 103, 103);
	rq.entry_bytes = 16;
	found.n = 0;
	walk_rq(&rq, take, &found);
	ASSERT_EQ(found.n, 8);
	ASSERT_EQ(found.at[0].index, 95);
	ASSERT_EQ(found.at[4].state, WALK_CONSUMED);
	ASSERT_EQ(found.at[5].state, WALK_PENDING);
}

TEST(cqes_belong_to_the_round_their_owner_bit_says)
{
	enum walk_state state = WALK_NOT_RUNG;
	uint8_t cqe[64] = {0};

	cqe[63] = 0xf1;
	ASSERT(!walk_cqe(cqe, 3, 0, 4, &state));
	cqe[63] = 0x00; /* requester, first round */
	ASSERT(walk_cqe(cqe, 3, 0, 4, &state));
	ASSERT_EQ(state, WALK_PENDING);
	ASSERT(walk_cqe(cqe, 3, 4, 4, &state));
	ASSERT_EQ(state, WALK_CONSUMED);
	ASSERT(!walk_cqe(cqe, 3 + 16, 4, 4, &state));
	cqe[63] = 0x01;
	ASSERT(walk_cqe(cqe, 3 + 16, 4, 4, &state));
	ASSERT_EQ(state, WALK_PENDING);
	/* 24 bits, and the client is ahead of the wrap. */
	cqe[63] = 0x01;
	ASSERT(walk_cqe(cqe, 0xfffffe, 2, 4, &state));
	ASSERT_EQ(state, WALK_CONSUMED);
}
