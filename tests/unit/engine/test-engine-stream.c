/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of DCIs: an error ends only its stream, as often as the DCI allows, and nothing is executed twice. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "daemon/engine/engine-private.h"
#include "fixture.h"
#include "tests/lib/test.h"

#define SIZE 65536u
#define KEY 0x1122334455667788ull
#define LOG2_ERRORED 2u

/* A DCI on node 0, two DCTs on node 1. */
struct lab {
	struct world w;
	struct region *local, *remote;
	struct tsrq srq;
	struct tqp dci, dcts[2];
	struct tqp_attr attr;
};

static void setup_attr(struct lab *l, enum mem_mode mode, struct tqp_attr attr)
{
	attr.dc_key = KEY;
	attr.has_streams = true;
	attr.log2_errored_streams = LOG2_ERRORED;
	l->attr = attr;
	world_init(&l->w, mode);
	l->local = region_new(&l->w, 0, SIZE);
	l->remote = region_new(&l->w, 1, SIZE);
	region_fill(l->local, 1);
	tsrq_init(&l->srq, &l->w, 1, 1, 6);
	attr.type = ENGINE_QP_DCI;
	tqp_init(&l->dci, &l->w, 0, &attr);
	tqp_start_dc(&l->dci, &attr);
	attr.type = ENGINE_QP_DCT;
	attr.srq = &l->srq;
	attr.has_streams = false;
	for (unsigned int i = 0; i < 2; i++) {
		tqp_init(&l->dcts[i], &l->w, 1, &attr);
		tqp_start_dc(&l->dcts[i], &attr);
	}
}

static void setup(struct lab *l, enum mem_mode mode)
{
	const struct tqp_attr attr = TQP_ATTR;

	setup_attr(l, mode, attr);
}

static void teardown(struct lab *l)
{
	tqp_deinit(&l->dci);
	tqp_deinit(&l->dcts[0]);
	tqp_deinit(&l->dcts[1]);
	world_run(&l->w);
	tsrq_deinit(&l->srq);
	world_deinit(&l->w);
}

static void begin(struct lab *l, struct wqe *wqe, unsigned int opcode, uint16_t stream, unsigned int dct)
{
	wqe_begin(wqe, opcode, SIGNALED);
	wqe->bytes[9] = (uint8_t)(stream >> 8);
	wqe->bytes[10] = (uint8_t)stream;
	if (opcode != SHMD_OPCODE_NOP)
		wqe_dc_av(wqe, &l->dcts[dct], KEY);
}

/* Its error. */
enum fault { GOOD, BAD_LKEY, BAD_RKEY };

static uint16_t write_to(struct lab *l, uint16_t stream, unsigned int dct, enum fault fault, uint64_t at, uint32_t bytes)
{
	struct wqe wqe;

	begin(l, &wqe, SHMD_OPCODE_RDMA_WRITE, stream, dct);
	wqe_raddr(&wqe, l->remote->iova + at, l->remote->key + (fault == BAD_RKEY));
	wqe_data(&wqe, l->local->iova, l->local->key + (fault == BAD_LKEY), bytes);
	return tqp_post(&l->dci, &wqe);
}

static uint16_t fadd_to(struct lab *l, uint16_t stream, unsigned int dct, enum fault fault, uint64_t at, uint64_t add)
{
	uint64_t words[2] = {add, 0};
	struct wqe wqe;

	begin(l, &wqe, SHMD_OPCODE_ATOMIC_FA, stream, dct);
	wqe_raddr(&wqe, l->remote->iova + at, l->remote->key + (fault == BAD_RKEY));
	wqe_words64(&wqe, words, 2);
	wqe_data(&wqe, l->local->iova + SIZE - 8, l->local->key, 8);
	return tqp_post(&l->dci, &wqe);
}

static uint16_t nop(struct lab *l, uint16_t stream)
{
	struct wqe wqe;

	begin(l, &wqe, SHMD_OPCODE_NOP, stream, 0);
	return tqp_post(&l->dci, &wqe);
}

static void run(struct lab *l)
{
	tqp_ring(&l->dci);
	world_run(&l->w);
}

static void restart(struct lab *l)
{
	struct tqp_attr attr = l->attr;

	ASSERT_OK(tqp_to(&l->dci, ENGINE_QP_RST));
	l->dci.pi = 0;
	l->dci.dbrec->snd = 0;
	attr.type = ENGINE_QP_DCI;
	tqp_start_dc(&l->dci, &attr);
}

static int reset(struct lab *l, uint16_t stream)
{
	return engine_qp_reset_stream(l->w.nodes[0].engine, l->dci.qpn, stream);
}

static uint64_t word_at(const struct lab *l, uint64_t offset)
{
	uint64_t v;

	memcpy(&v, l->remote->bytes + offset, 8);
	return v;
}

static enum engine_qp_state state(const struct lab *l)
{
	return tqp_info(&l->dci).state;
}

TEST(stream_that_fails_is_flushed_and_the_others_go_on)
{
	FOR_EACH_MODE(mode)
	{
		uint16_t index[7];
		struct lab l;

		setup(&l, mode);
		index[0] = write_to(&l, 1, 0, GOOD, 0, 5000);
		index[1] = write_to(&l, 2, 0, BAD_LKEY, 8192, 64);
		index[2] = write_to(&l, 2, 0, GOOD, 8192, 64);
		index[3] = write_to(&l, 3, 1, GOOD, 16384, 5000);
		index[4] = nop(&l, 2);
		index[5] = nop(&l, 1);
		index[6] = write_to(&l, 1, 0, GOOD, 24576, 64);
		run(&l);
		expect_ok(&l.dci, index[0]);
		expect_error(&l.dci.scq, false, index[1], SHMD_SYNDROME_LOCAL_PROT_ERR);
		expect_error(&l.dci.scq, false, index[2], SHMD_SYNDROME_WR_FLUSH_ERR);
		expect_ok(&l.dci, index[3]);
		expect_error(&l.dci.scq, false, index[4], SHMD_SYNDROME_WR_FLUSH_ERR);
		expect_ok(&l.dci, index[5]);
		expect_ok(&l.dci, index[6]);
		tcq_expect_none(&l.dci.scq);
		ASSERT_EQ(state(&l), ENGINE_QP_RTS);
		ASSERT_EQ(word_at(&l, 8192), 0);
		ASSERT_MEMEQ(l.remote->bytes + 16384, l.local->bytes, 5000);
		ASSERT_MEMEQ(l.remote->bytes + 24576, l.local->bytes, 64);
		ASSERT_EQ(l.w.nodes[0].n_events, 0);
		teardown(&l);
	}
}

/* Requests of its stream behind it are flushed and not executed; those of other streams are executed once. */
TEST(stream_that_the_peer_refuses_takes_nothing_of_others_with_it)
{
	FOR_EACH_MODE(mode)
	{
		uint16_t index[8];
		struct lab l;

		setup(&l, mode);
		memset(l.remote->bytes, 0, 64);
		index[0] = fadd_to(&l, 7, 0, GOOD, 0, 1);
		index[1] = write_to(&l, 5, 0, BAD_RKEY, 8192, 9000);
		index[2] = fadd_to(&l, 5, 0, GOOD, 8, 1);
		index[3] = fadd_to(&l, 5, 0, GOOD, 8, 1);
		index[4] = fadd_to(&l, 7, 0, GOOD, 0, 2);
		index[5] = fadd_to(&l, 5, 1, GOOD, 8, 1);
		index[6] = fadd_to(&l, 9, 1, GOOD, 16, 4);
		index[7] = fadd_to(&l, 7, 0, GOOD, 0, 8);
		run(&l);
		expect_ok(&l.dci, index[0]);
		expect_error(&l.dci.scq, false, index[1], SHMD_SYNDROME_REMOTE_ACCESS_ERR);
		expect_error(&l.dci.scq, false, index[2], SHMD_SYNDROME_WR_FLUSH_ERR);
		expect_error(&l.dci.scq, false, index[3], SHMD_SYNDROME_WR_FLUSH_ERR);
		expect_ok(&l.dci, index[4]);
		expect_error(&l.dci.scq, false, index[5], SHMD_SYNDROME_WR_FLUSH_ERR);
		expect_ok(&l.dci, index[6]);
		expect_ok(&l.dci, index[7]);
		ASSERT_EQ(word_at(&l, 0), 11);
		ASSERT_EQ(word_at(&l, 8), 0);
		ASSERT_EQ(word_at(&l, 16), 4);
		ASSERT_EQ(state(&l), ENGINE_QP_RTS);
		ASSERT_EQ(tqp_info(&l.dci).counters.retries, 0);
		teardown(&l);
	}
}

TEST(stream_of_a_peer_that_does_not_answer_is_the_only_one_to_fail)
{
	struct tqp_attr attr = TQP_ATTR;
	struct wqe wqe;
	uint16_t bad, good;
	struct lab l;

	attr.timeout = 1;
	attr.retry_count = 2;
	setup_attr(&l, MEM_POINTER, attr);
	begin(&l, &wqe, SHMD_OPCODE_RDMA_WRITE, 1, 0);
	wqe.bytes[16] ^= 0x40; /* of the access key */
	wqe_raddr(&wqe, l.remote->iova, l.remote->key);
	wqe_data(&wqe, l.local->iova, l.local->key, 64);
	bad = tqp_post(&l.dci, &wqe);
	good = write_to(&l, 2, 0, GOOD, 4096, 64);
	run(&l);
	world_run_timers(&l.w, 1000000000);
	expect_error(&l.dci.scq, false, bad, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	expect_ok(&l.dci, good);
	ASSERT_EQ(word_at(&l, 0), 0);
	ASSERT_EQ(state(&l), ENGINE_QP_RTS);
	teardown(&l);
}

TEST(streams_in_error_end_the_dci_when_they_are_as_many_as_it_allows)
{
	FOR_EACH_MODE(mode)
	{
		uint16_t index[7];
		struct lab l;

		setup(&l, mode);
		for (unsigned int i = 0; i < 3; i++) {
			index[2 * i] = write_to(&l, (uint16_t)(0xff00 + i), 0, i & 1 ? BAD_RKEY : BAD_LKEY, 0, 64);
			/* A stream in error counts it once only. */
			index[2 * i + 1] = write_to(&l, 0xff00, 0, BAD_LKEY, 0, 64);
		}
		index[6] = write_to(&l, 5, 0, GOOD, 0, 64);
		run(&l);
		for (unsigned int i = 0; i < 3; i++) {
			expect_error(&l.dci.scq, false, index[2 * i],
				     i & 1 ? SHMD_SYNDROME_REMOTE_ACCESS_ERR : SHMD_SYNDROME_LOCAL_PROT_ERR);
			expect_error(&l.dci.scq, false, index[2 * i + 1], SHMD_SYNDROME_WR_FLUSH_ERR);
		}
		expect_ok(&l.dci, index[6]);
		ASSERT_EQ(state(&l), ENGINE_QP_RTS);
		index[0] = write_to(&l, 5, 0, BAD_LKEY, 0, 64);
		index[1] = write_to(&l, 6, 0, GOOD, 0, 64);
		run(&l);
		expect_error(&l.dci.scq, false, index[0], SHMD_SYNDROME_LOCAL_PROT_ERR);
		expect_error(&l.dci.scq, false, index[1], SHMD_SYNDROME_WR_FLUSH_ERR);
		ASSERT_EQ(state(&l), ENGINE_QP_ERR);
		ASSERT_ERR(reset(&l, 5), EINVAL);
		/* A reset of the DCI is one of its streams, too. */
		restart(&l);
		ASSERT_ERR(reset(&l, 0xff00), EINVAL);
		index[0] = write_to(&l, 0xff00, 0, GOOD, 0, 64);
		run(&l);
		expect_ok(&l.dci, index[0]);
		teardown(&l);
	}
}

TEST(stream_in_error_works_again_after_its_reset_and_no_other_is_reset)
{
	struct engine *engine;
	uint16_t index;
	struct lab l;

	setup(&l, MEM_POINTER);
	engine = l.w.nodes[0].engine;
	ASSERT_ERR(reset(&l, 3), EINVAL);
	for (unsigned int round = 0; round < 10; round++) {
		index = write_to(&l, 3, 0, BAD_LKEY, 0, 64);
		run(&l);
		expect_error(&l.dci.scq, false, index, SHMD_SYNDROME_LOCAL_PROT_ERR);
		ASSERT_ERR(reset(&l, 4), EINVAL);
		ASSERT_OK(reset(&l, 3));
		ASSERT_ERR(reset(&l, 3), EINVAL);
		index = write_to(&l, 3, 0, GOOD, 64 * round, 64);
		run(&l);
		expect_ok(&l.dci, index);
		ASSERT_MEMEQ(l.remote->bytes + 64ull * round, l.local->bytes, 64);
	}
	ASSERT_ERR(engine_qp_reset_stream(engine, 0xfffffe, 3), ENOENT);
	ASSERT_ERR(engine_qp_reset_stream(l.w.nodes[1].engine, l.dcts[0].qpn, 0), EINVAL);
	teardown(&l);
}

TEST(stream_does_not_answer_for_an_index_that_cannot_be_true)
{
	struct lab l;

	setup(&l, MEM_POINTER);
	l.dci.dbrec->snd = htobe32(0x4000);
	tqp_ring(&l.dci);
	world_run(&l.w);
	expect_error(&l.dci.scq, false, 0, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
	ASSERT_EQ(state(&l), ENGINE_QP_ERR);
	teardown(&l);
}

/* Without streams the field means nothing, and one error is the end. */
TEST(streams_are_of_dcis_that_asked_for_them)
{
	struct tqp_attr attr = TQP_ATTR;
	struct engine_qp_attr create;
	struct engine *engine;
	uint16_t index[2];
	struct tqp plain;
	struct lab l;

	setup(&l, MEM_POINTER);
	engine = l.w.nodes[0].engine;
	create = (struct engine_qp_attr){.qpn = 0xabc,
					 .type = ENGINE_QP_DCI,
					 .pdn = 1,
					 .sq_ring = l.dci.sq,
					 .log2_sq_wqebbs = l.dci.log2_sq,
					 .dbrec = l.dci.dbrec,
					 .send_cqn = l.dci.scq.cqn,
					 .recv_cqn = l.dci.rcq.cqn,
					 .has_streams = true,
					 .log2_errored_streams = ENGINE_MAX_LOG2_ERRORED + 1};
	ASSERT_ERR(engine_qp_create(engine, &create), EINVAL);
	create.log2_errored_streams = ENGINE_MAX_LOG2_ERRORED;
	create.type = ENGINE_QP_RC;
	ASSERT_ERR(engine_qp_create(engine, &create), EINVAL);
	create.type = ENGINE_QP_DCI;
	ASSERT_OK(engine_qp_create(engine, &create));
	ASSERT_OK(engine_qp_destroy(engine, create.qpn));

	attr.type = ENGINE_QP_DCI;
	plain = l.dci;
	tqp_init(&l.dci, &l.w, 0, &attr);
	tqp_start_dc(&l.dci, &attr);
	index[0] = write_to(&l, 1, 0, BAD_LKEY, 0, 64);
	index[1] = write_to(&l, 2, 0, GOOD, 0, 64);
	run(&l);
	expect_error(&l.dci.scq, false, index[0], SHMD_SYNDROME_LOCAL_PROT_ERR);
	expect_error(&l.dci.scq, false, index[1], SHMD_SYNDROME_WR_FLUSH_ERR);
	ASSERT_EQ(state(&l), ENGINE_QP_ERR);
	tqp_deinit(&plain);
	teardown(&l);
}

/* Eight atomics of two streams, of which some are refused. Returns a bit for each that is. */
static unsigned int post_round(struct lab *l, uint64_t *seed)
{
	unsigned int refused = 0;

	for (unsigned int i = 0; i < 8; i++) {
		bool bad;

		*seed = *seed * 6364136223846793005u + 1442695040888963407u;
		bad = (*seed >> 36 & 7) == 0;
		refused |= (unsigned int)bad << i;
		fadd_to(l, *seed >> 33 & 1, *seed >> 35 & 1, bad ? BAD_RKEY : GOOD, 0, 1ull << 8 * i);
	}
	tqp_ring(&l->dci);
	world_run_timers(&l->w, 1000000000);
	return refused;
}

/*
 * Packets lost, repeated and in any order while streams fail and are reset: what completed was executed once. The others
 * were not, unless the outcome is unknown because an answer was lost for good.
 */
TEST(stream_storm_is_exact)
{
	FOR_EACH_MODE(mode)
	{
		struct tqp_attr attr = TQP_ATTR;
		struct shmd_err_cqe err;
		unsigned int refused;
		struct shmd_cqe cqe;
		uint64_t seed = 5;
		struct lab l;

		attr.timeout = 1;
		setup_attr(&l, mode, attr);
		l.w.lose_percent = l.w.repeat_percent = l.w.swap_percent = 3;
		for (unsigned int round = 0; round < 40; round++) {
			bool unknown = false;

			memset(l.remote->bytes, 0, 8);
			refused = post_round(&l, &seed);
			for (unsigned int i = 0; i < 8; i++) {
				bool ok;

				ASSERT(tcq_poll(&l.dci.scq, &cqe));
				memcpy(&err, &cqe, sizeof(err));
				ok = cqe.op_own >> 4 == SHMD_CQE_REQ;
				unknown |= !ok && err.syndrome == SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR;
				ASSERT(!ok || !(refused >> i & 1));
				ASSERT_LE(l.remote->bytes[i], ok || (unknown && !(refused >> i & 1)));
				ASSERT_LE(ok, l.remote->bytes[i]);
			}
			tcq_expect_none(&l.dci.scq);
			ASSERT_EQ(state(&l), ENGINE_QP_RTS);
			(void)reset(&l, 0);
			(void)reset(&l, 1);
		}
		ASSERT_GT(l.w.n_lost, 0);
		teardown(&l);
	}
}
