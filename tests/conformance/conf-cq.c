/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues: owner bit, collapsed entry, what a CQE says, overrun. */
#include "tests/conformance/conf.h"

#include <string.h>

#define LOC 4159u

/* ---- ordinary ------------------------------------------------------------------------------------------------ */

static const struct conf_attr ordinary = {.ordinary_cq = true, .sq_wqebbs = 16, .rq_wqes = 4};

/* CQE i lies at i modulo the size with the owner bit of its lap, and no other entry changes. */
static void owner_laps(struct conf *c)
{
	struct shmd_cqe *ring = (void *)(uintptr_t)c->a->dev->cq_addr;
	uint32_t entries = c->a->dev->cq_entries;
	size_t bytes = entries * sizeof(*ring);
	static uint8_t before[4096 * sizeof(struct shmd_cqe)];
	struct conf_wqe w;

	ASSERT_LE(bytes, sizeof(before));
	conf_nop(&w);
	for (uint64_t i = 0; i < 5 * entries; i++) {
		uint64_t slot = i % entries;

		memcpy(before, ring, bytes);
		conf_do(c->a, &w);
		ASSERT_EQ(ring[slot].op_own & SHMD_CQE_OWNER_MASK, (i / entries) & 1);
		memcpy(before + slot * sizeof(*ring), &ring[slot], sizeof(*ring));
		ASSERT_MEMEQ(before, ring, bytes);
	}
}

TEST(conf_cq_owner_bit_turns_with_every_lap)
{
	struct conf c;

	conf_open(&c, &ordinary);
	owner_laps(&c);
	conf_close(&c);
}

TEST(conf_cq_is_filled_with_invalid_entries_before_use)
{
	const struct shmd_cqe *ring;
	struct conf c;

	conf_open(&c, &ordinary);
	ring = (const void *)(uintptr_t)c.a->dev->cq_addr;
	for (uint32_t i = 0; i < c.a->dev->cq_entries; i++)
		ASSERT_EQ(ring[i].op_own, 0xff);
	ring = c.b->rcq.ring;
	for (uint32_t i = 0; i < c.b->rcq.entries; i++)
		ASSERT_EQ(ring[i].op_own, 0xff);
	conf_close(&c);
}

static void cqes_in_order(struct conf *c, size_t rounds)
{
	static const size_t sizes[] = {50000, 1, 0, 4097, 8, 20000};
	struct conf_wqe w;

	for (size_t r = 0; r < rounds; r++) {
		uint16_t index[6];
		struct conf_cqe cqe;

		for (size_t i = 0; i < 6; i++) {
			conf_write(&w, c->a, 0, 0, sizes[i]);
			conf_want_copy(&c->tgt.mem, 0, &c->ini.mem, 0, sizes[i]);
			index[i] = conf_post(c->a, &w);
		}
		conf_ring(c->a);
		for (size_t i = 0; i < 6; i++) {
			cqe = conf_wait(c->a, index[i]);
			ASSERT_EQ(cqe.opcode, SHMD_CQE_REQ);
			ASSERT_EQ(cqe.wqe_counter, index[i]);
		}
	}
	conf_check(c);
}

TEST(conf_cq_has_cqes_in_the_order_of_the_wqes)
{
	struct conf c;

	conf_open(&c, &ordinary);
	cqes_in_order(&c, 20);
	conf_close(&c);
}

/* ---- collapsed ---------------------------------------------------------------------------------------------------- */

static void collapsed_counter(struct conf *c, size_t n)
{
	const struct shmd_cqe *entry = (const void *)(uintptr_t)c->a->dev->cq_addr;
	struct conf_wqe w;

	ASSERT_EQ(entry->op_own, 0xff);
	conf_nop(&w);
	for (size_t i = 0; i < n; i++) {
		conf_do(c->a, &w);
		ASSERT_EQ(be16toh(entry->wqe_counter), i & 0xffff);
		ASSERT_EQ(entry->op_own >> 4, SHMD_CQE_REQ);
	}
}

TEST(conf_cq_collapsed_shows_the_newest_completion)
{
	struct conf c;

	conf_open(&c, NULL);
	collapsed_counter(&c, 500);
	conf_close(&c);
}

/* The index that the poller sees only grows, and the payload of everything up to it is there. */
static void collapsed_monotonic(struct conf *c)
{
	const volatile uint64_t *target = (const volatile uint64_t *)c->tgt.mem.addr;
	struct conf_timer timer = CONF_TIMER;
	struct conf_cqe cqe;
	struct conf_wqe w;
	int last = -1;

	for (uint64_t i = 0; i < 64; i++) {
		conf_write_inline(&w, c->a, &i, 8, 8 * i);
		conf_want_bytes(&c->tgt.mem, 8 * i, &i, 8);
		conf_post(c->a, &w);
	}
	conf_ring(c->a);
	while (last < 63) {
		if (!conf_poll(c->a, &cqe)) {
			conf_pause(&timer);
			continue;
		}
		ASSERT_EQ(cqe.opcode, SHMD_CQE_REQ);
		ASSERT_GT(cqe.wqe_counter, last);
		last = cqe.wqe_counter;
		for (int i = 0; i <= last; i++)
			ASSERT_EQ(target[i], i);
	}
	conf_check(c);
}

TEST(conf_cq_collapsed_counter_only_grows)
{
	for (int i = 0; i < 2; i++) {
		struct conf c;

		conf_open(&c, &(struct conf_attr){.two_nics = i});
		collapsed_monotonic(&c);
		conf_close(&c);
	}
}

/* ---- what a CQE says -------------------------------------------------------------------------------------------------------- */

static void counter_of_wqebbs(struct conf *c, size_t arg)
{
	static const unsigned int n_wqebbs[] = {1, 4, 2, 1, 3};
	uint8_t data[256] = {0};
	uint16_t want = 0;
	struct conf_wqe w;

	for (size_t i = 0; i < 5; i++) {
		conf_write_inline(&w, c->a, data, 64 * n_wqebbs[i] - 36, 300 * i);
		conf_want_bytes(&c->tgt.mem, 300 * i, data, 64 * n_wqebbs[i] - 36);
		ASSERT_EQ(conf_run(c->a, &w), want);
		conf_expect_ok(c->a, want);
		want = (uint16_t)(want + n_wqebbs[i]);
	}
	conf_check(c);
}

TEST(conf_cqe_counter_is_the_first_wqebb_of_its_wqe)
{
	conf_each_variant(counter_of_wqebbs, 0, NULL);
}

static void opcode_echo(struct conf *c, size_t arg)
{
	struct conf_wqe w;
	struct conf_cqe cqe;

	conf_write(&w, c->a, LOC, 0, 8);
	cqe = conf_wait(c->a, conf_run(c->a, &w));
	ASSERT_EQ(cqe.wqe_opcode, SHMD_OPCODE_RDMA_WRITE);
	ASSERT_EQ(cqe.qpn, c->a->dev->qpn);
	conf_read(&w, c->a, 8000, 0, 700);
	cqe = conf_wait(c->a, conf_run(c->a, &w));
	ASSERT_EQ(cqe.wqe_opcode, SHMD_OPCODE_RDMA_READ);
	ASSERT_EQ(cqe.byte_cnt, 700);
	conf_fetch_add(&w, c->a, 8000, 64, 1);
	cqe = conf_wait(c->a, conf_run(c->a, &w));
	ASSERT_EQ(cqe.wqe_opcode, SHMD_OPCODE_ATOMIC_FA);
	ASSERT_EQ(cqe.byte_cnt, 8);
}

TEST(conf_cqe_names_opcode_qp_and_bytes_of_a_request)
{
	conf_each_variant(opcode_echo, 0, NULL);
}

static void error_fields(struct conf *c, size_t arg)
{
	struct conf_wqe w;
	struct conf_cqe cqe;
	uint16_t index;

	conf_nop(&w);
	conf_do(c->a, &w);
	conf_write(&w, c->a, LOC, 100, 3000);
	memset(w.bytes + SHMD_DS_BYTES + 8, 0, 4);
	index = conf_run(c->a, &w);
	cqe = conf_wait(c->a, index);
	ASSERT_EQ(cqe.opcode, SHMD_CQE_REQ_ERR);
	ASSERT_EQ(cqe.syndrome, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_EQ(cqe.wqe_counter, index);
	ASSERT_EQ(cqe.wqe_opcode, SHMD_OPCODE_RDMA_WRITE);
	ASSERT_EQ(cqe.qpn, c->a->dev->qpn);
}

TEST(conf_cqe_of_an_error_names_opcode_qp_and_counter)
{
	conf_each_variant(error_fields, 0, NULL);
}

static void recv_laps(struct conf *c, size_t n)
{
	struct conf_wqe w;

	conf_need(c, CONF_F_RECV);
	for (size_t i = 0; i < n; i++) {
		const struct shmd_cqe *ring = c->b->rcq.ring;
		uint64_t at = c->b->rcq_ci;

		conf_post_recv(c->b, 0, 8);
		conf_write_inline(&w, c->a, &i, 8, 0);
		w.opcode = SHMD_OPCODE_RDMA_WRITE_IMM;
		w.imm = (uint32_t)i;
		conf_run(c->a, &w);
		ASSERT_EQ(conf_wait_recv(c->b).imm, i);
		conf_expect_ok(c->a, (uint16_t)(c->a->sq_pi - 1));
		ASSERT_EQ(ring[at % c->b->rcq.entries].op_own & 1, (at / c->b->rcq.entries) & 1);
	}
}

TEST(conf_cqe_owner_bit_of_a_receive_cq_turns_with_every_lap)
{
	conf_each_variant(recv_laps, 40, &(struct conf_attr){.rq_wqes = 4});
}

/* ---- overrun ------------------------------------------------------------------------------------------------------------------ */

#define FEW_WQES 8u

/* In the first lap of the ring. */
static bool has_request_cqe(const struct shmd_cqe *cqe)
{
	return __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE) == SHMD_CQE_REQ << 4;
}

/* No client consumes: CQEs that were not taken must stay, and the QP must end instead. */
static void overrun(struct conf *c)
{
	struct shmd_cqe *ring = (void *)(uintptr_t)c->a->dev->cq_addr;
	uint32_t entries = c->a->dev->cq_entries;
	struct conf_timer timer = CONF_TIMER;
	struct conf_wqe w;

	conf_nop(&w);
	for (uint32_t i = 0; i < entries + FEW_WQES; i++) {
		conf_run(c->a, &w);
		c->a->sq_ci = c->a->sq_pi;
		/* The SQ itself must not overrun, however slow the executor is. */
		while (i < entries && i % FEW_WQES == FEW_WQES - 1 && !has_request_cqe(&ring[i]))
			conf_pause(&timer);
	}
	while (conf_query(c->a).state != SHMD_QP_ERR)
		conf_pause(&timer);
	for (uint32_t i = 0; i < entries; i++) {
		ASSERT_EQ(ring[i].op_own, SHMD_CQE_REQ << 4);
		ASSERT_EQ(be16toh(ring[i].wqe_counter), i);
	}
}

TEST(conf_cq_overrun_ends_the_qp_and_keeps_the_cqes)
{
	struct conf c;

	conf_open(&c, &ordinary);
	overrun(&c);
	conf_close(&c);
}
