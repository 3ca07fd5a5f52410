/* SPDX-License-Identifier: Apache-2.0 */
/* Memory windows: bound and freed by WQEs and by the peer; the range and the peers that a window opens. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "fixture.h"
#include "tests/lib/test.h"

#define KEY 0x7700u
#define BOUND (KEY | 0x21)
#define LEN 512u
#define AT 1024u /* where it begins in its region */
#define ALL_REMOTE                                                                                 \
	(ENGINE_ACCESS_REMOTE_WRITE | ENGINE_ACCESS_REMOTE_READ | ENGINE_ACCESS_REMOTE_ATOMIC)
#define BINDABLE (ENGINE_ACCESS_LOCAL_WRITE | ENGINE_ACCESS_MW_BIND)

/* Words of a UMR as libmlx5 writes them: control, key context, one KLM. */
struct umr {
	uint8_t flags;
	uint64_t mask;
	uint8_t free, access;
	uint32_t qpn_key;
	uint64_t start, length;
	uint32_t klm_bytes, klm_key;
	uint64_t klm_addr;
	bool has_klm;
};

#define MASK_FREE (1u << 29 | 1u << 13)
#define MASK_BIND (MASK_FREE | 1u | 1u << 6 | 0xfu << 18)
#define MASK_QPN (1u << 14)
#define ACCESS_WRITE 0x20
#define ACCESS_READ 0x10
#define ACCESS_ATOMIC 0x40

static void add_words(struct wqe *wqe, const uint32_t *words, unsigned int n)
{
	for (unsigned int i = 0; i < n; i += 4)
		wqe_words32(wqe, words + i, 4);
}

static uint16_t post_umr(struct tqp *qp, uint32_t key, const struct umr *umr)
{
	uint32_t ctrl[12] = {(uint32_t)umr->flags << 24, umr->has_klm ? 4 << 16 : 0, (uint32_t)(umr->mask >> 32),
			     (uint32_t)umr->mask};
	uint32_t mkey[16] = {(uint32_t)umr->free << 24 | (uint32_t)umr->access << 8,
			     umr->qpn_key,
			     0,
			     0,
			     (uint32_t)(umr->start >> 32),
			     (uint32_t)umr->start,
			     0,
			     (uint32_t)umr->length};
	uint32_t klm[16] = {umr->klm_bytes, umr->klm_key, (uint32_t)(umr->klm_addr >> 32),
			    (uint32_t)umr->klm_addr};
	struct wqe wqe;
	uint16_t index;

	wqe_begin(&wqe, SHMD_OPCODE_UMR, SIGNALED);
	wqe_imm(&wqe, key);
	add_words(&wqe, ctrl, 12);
	add_words(&wqe, mkey, 16);
	if (umr->has_klm)
		add_words(&wqe, klm, 16);
	index = tqp_post(qp, &wqe);
	tqp_ring(qp);
	return index;
}

/* The window on LEN bytes of `of`, for writing and reading. */
static struct umr binding(const struct tqp *qp, const struct region *of, bool is_type_2)
{
	return (struct umr){
		.flags = 0x90 | (is_type_2 ? 0x20 : 0),
		.mask = MASK_BIND | (is_type_2 ? MASK_QPN : 0),
		.access = ACCESS_WRITE | ACCESS_READ,
		.qpn_key = (is_type_2 ? qp->qpn << 8 : 0xffffff00u) | (BOUND & 0xff),
		.start = of->iova + AT,
		.length = LEN,
		.klm_bytes = LEN,
		.klm_key = of->key,
		.klm_addr = of->iova + AT,
		.has_klm = true,
	};
}

static struct umr freeing(bool is_type_2)
{
	return (struct umr){.flags = 0x90 | (is_type_2 ? 0x08 : 0),
			    .mask = MASK_FREE | (is_type_2 ? MASK_QPN : 0),
			    .free = 0x40,
			    .qpn_key = 0xffffff00u | (is_type_2 ? 0 : (BOUND & 0xff) + 1)};
}

/* b owns the window on `of`; a is the peer that uses it. */
struct mw_setup {
	struct setup s;
	struct region *of;
};

static void setup(struct mw_setup *m, bool is_type_2)
{
	struct engine_mw_attr attr = {.key = KEY, .pdn = 1, .is_type_2 = is_type_2};

	world_init_windows(&m->s.w, MEM_POINTER, 16);
	setup_fill(&m->s, 8192, NULL);
	m->of = region_new_attr(&m->s.w, 1, 8192, BINDABLE, 1);
	ASSERT_OK(engine_mw_create(m->s.p.b.node->engine, &attr));
}

static void teardown(struct mw_setup *m)
{
	ASSERT_OK(engine_mw_destroy(m->s.p.b.node->engine, BOUND));
	setup_deinit(&m->s);
}

static void bind_ok(struct mw_setup *m, bool is_type_2)
{
	struct umr umr = binding(&m->s.p.b, m->of, is_type_2);
	uint16_t index = post_umr(&m->s.p.b, KEY, &umr);

	world_run(&m->s.w);
	expect_ok(&m->s.p.b, index);
}

/* A request of the peer with any key; 0 or the syndrome. */
static uint8_t use(struct mw_setup *m, unsigned int opcode, uint32_t key, uint64_t addr,
		   uint32_t bytes)
{
	struct tqp *a = &m->s.p.a;
	struct shmd_err_cqe err;
	struct shmd_cqe cqe;
	struct wqe wqe;

	wqe_begin(&wqe, opcode, SIGNALED);
	wqe_raddr(&wqe, addr, key);
	wqe_data(&wqe, m->s.local->iova, m->s.local->key, bytes);
	tqp_post(a, &wqe);
	tqp_ring(a);
	world_run(&m->s.w);
	ASSERT(tcq_poll(&a->scq, &cqe));
	memcpy(&err, &cqe, sizeof(err));
	return cqe.op_own >> 4 == SHMD_CQE_REQ ? 0 : err.syndrome;
}

TEST(bound_window_opens_its_range_under_its_own_key)
{
	for (int type = 1; type <= 2; type++) {
		struct mw_setup m;
		uint64_t at;

		setup(&m, type == 2);
		bind_ok(&m, type == 2);
		at = m.of->iova + AT;
		ASSERT_EQ(use(&m, SHMD_OPCODE_RDMA_WRITE, BOUND, at + LEN - 64, 64), 0);
		ASSERT_MEMEQ(m.of->bytes + AT + LEN - 64, m.s.local->bytes, 64);
		ASSERT_EQ(use(&m, SHMD_OPCODE_RDMA_READ, BOUND, at, LEN), 0);
		ASSERT_EQ(use(&m, SHMD_OPCODE_RDMA_WRITE, BOUND, at + LEN - 63, 64),
			  SHMD_SYNDROME_REMOTE_ACCESS_ERR);
		teardown(&m);
	}
}

/* Each on a connection of its own, as it ends it. */
TEST(window_is_closed_before_it_is_bound_and_to_other_keys_and_operations)
{
	for (int kind = 0; kind < 5; kind++) {
		static const uint32_t keys[] = {KEY, KEY, BOUND + 1, BOUND, BOUND};
		struct mw_setup m;

		setup(&m, true);
		if (kind)
			bind_ok(&m, true);
		if (kind == 3) {
			struct umr umr = freeing(true);

			post_umr(&m.s.p.b, BOUND, &umr);
			world_run(&m.s.w);
		}
		if (kind == 4) {
			struct wqe wqe;

			wqe_begin(&wqe, SHMD_OPCODE_ATOMIC_FA, SIGNALED);
			wqe_raddr(&wqe, m.of->iova + AT, BOUND);
			wqe_words64(&wqe, (uint64_t[]){1, 0}, 2);
			wqe_data(&wqe, m.s.local->iova, m.s.local->key, 8);
			tqp_post(&m.s.p.a, &wqe);
			tqp_ring(&m.s.p.a);
			world_run(&m.s.w);
			expect_error(&m.s.p.a.scq, false, 0, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
		} else {
			ASSERT_EQ(use(&m, SHMD_OPCODE_RDMA_WRITE, keys[kind], m.of->iova + AT, 8),
				  SHMD_SYNDROME_REMOTE_ACCESS_ERR);
		}
		teardown(&m);
	}
}

TEST(window_of_type_2_serves_the_qp_that_bound_it_alone)
{
	for (int type = 1; type <= 2; type++) {
		struct tqp_attr attr = TQP_ATTR;
		struct mw_setup m;
		struct pair other;

		setup(&m, type == 2);
		pair_init(&other, &m.s.w, &attr);
		{
			struct umr umr = binding(&other.b, m.of, type == 2);
			uint16_t index = post_umr(&other.b, KEY, &umr);

			world_run(&m.s.w);
			expect_ok(&other.b, index);
		}
		ASSERT_EQ(use(&m, SHMD_OPCODE_RDMA_WRITE, BOUND, m.of->iova + AT, 8),
			  type == 2 ? SHMD_SYNDROME_REMOTE_ACCESS_ERR : 0);
		pair_deinit(&other);
		teardown(&m);
	}
}

TEST(zero_based_window_begins_at_address_0)
{
	struct mw_setup m;
	struct umr umr;

	setup(&m, false);
	umr = binding(&m.s.p.b, m.of, false);
	umr.start = 0;
	post_umr(&m.s.p.b, KEY, &umr);
	world_run(&m.s.w);
	ASSERT_EQ(use(&m, SHMD_OPCODE_RDMA_WRITE, BOUND, 0, LEN), 0);
	ASSERT_MEMEQ(m.of->bytes + AT, m.s.local->bytes, LEN);
	teardown(&m);
}

/* WQEs of a window's owner cannot use it as a region. */
TEST(key_of_a_window_is_no_local_key)
{
	struct mw_setup m;
	struct wqe wqe;

	setup(&m, false);
	bind_ok(&m, false);
	wqe_begin(&wqe, SHMD_OPCODE_RDMA_WRITE, SIGNALED);
	wqe_raddr(&wqe, m.s.local->iova, m.s.local->key);
	wqe_data(&wqe, m.of->iova + AT, BOUND, 8);
	tqp_post(&m.s.p.b, &wqe);
	tqp_ring(&m.s.p.b);
	world_run(&m.s.w);
	expect_error(&m.s.p.b.scq, false, 3, SHMD_SYNDROME_LOCAL_PROT_ERR);
	teardown(&m);
}

TEST(window_of_a_region_that_goes_is_free)
{
	struct mw_setup m;

	setup(&m, true);
	bind_ok(&m, true);
	region_dereg(m.of);
	ASSERT_EQ(use(&m, SHMD_OPCODE_RDMA_READ, BOUND, m.of->iova + AT, 8),
		  SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	teardown(&m);
}

TEST(window_of_type_1_is_bound_again_and_the_old_key_is_gone)
{
	struct mw_setup m;
	struct umr umr;

	setup(&m, false);
	bind_ok(&m, false);
	umr = binding(&m.s.p.b, m.of, false);
	umr.qpn_key++;
	post_umr(&m.s.p.b, BOUND, &umr);
	world_run(&m.s.w);
	ASSERT_EQ(use(&m, SHMD_OPCODE_RDMA_READ, BOUND + 1, m.of->iova + AT, 8), 0);
	ASSERT_EQ(use(&m, SHMD_OPCODE_RDMA_READ, BOUND, m.of->iova + AT, 8),
		  SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	teardown(&m);
}

/* ---- bindings that are refused ---- */

#define REFUSED(type_2, key, field, value, syndrome)                                               \
	do {                                                                                       \
		struct mw_setup m_;                                                                \
		struct umr umr_;                                                                   \
		setup(&m_, type_2);                                                                \
		umr_ = binding(&m_.s.p.b, m_.of, type_2);                                          \
		umr_.field = (value);                                                              \
		post_umr(&m_.s.p.b, key, &umr_);                                                   \
		world_run(&m_.s.w);                                                                \
		expect_error(&m_.s.p.b.scq, false, 0, syndrome);                                   \
		teardown(&m_);                                                                     \
	} while (0)

#define BIND_ERR SHMD_SYNDROME_MW_BIND_ERR

TEST(binding_that_makes_no_sense_is_refused)
{
	REFUSED(true, KEY + 0x100, klm_bytes, LEN, BIND_ERR); /* no such window */
	REFUSED(true, KEY, klm_key, 0x123400, BIND_ERR);
	REFUSED(true, KEY, klm_key, m_.s.remote->key, BIND_ERR); /* may not be bound to */
	REFUSED(true, KEY, klm_bytes, LEN - 1, BIND_ERR);
	REFUSED(true, KEY, klm_addr, m_.of->iova - 8, BIND_ERR);
	REFUSED(true, KEY, start, m_.of->iova + AT + 8, BIND_ERR);
	REFUSED(true, KEY, mask, MASK_BIND, BIND_ERR); /* of type 1 */
	REFUSED(false, KEY, mask, MASK_BIND | MASK_QPN, BIND_ERR);
	REFUSED(true, KEY, flags, 0x90, BIND_ERR);	 /* does not ask that it be free */
	REFUSED(true, KEY, qpn_key, 0x123400, BIND_ERR); /* for another QP */
	REFUSED(true, KEY, mask, 1, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
	REFUSED(true, KEY, flags, 0x10, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
	REFUSED(true, KEY, free, 0x40, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
	REFUSED(true, KEY, has_klm, false, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
	REFUSED(true, KEY, klm_bytes, 0, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
}

TEST(binding_beyond_the_region_or_to_one_that_does_not_allow_it_is_refused)
{
	static const struct {
		uint32_t access, pdn;
		uint64_t beyond;
	} cases[] = {{BINDABLE, 1, 1},
		     {BINDABLE, 2, 0},
		     {ENGINE_ACCESS_MW_BIND, 1, 0},
		     {ENGINE_ACCESS_LOCAL_WRITE | ALL_REMOTE, 1, 0}};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mw_setup m;
		struct umr umr;

		setup(&m, true);
		m.of = region_new_attr(&m.s.w, 1, 8192, cases[i].access, cases[i].pdn);
		umr = binding(&m.s.p.b, m.of, true);
		if (cases[i].beyond)
			umr.start = umr.klm_addr = m.of->iova + 8192 - LEN + cases[i].beyond;
		post_umr(&m.s.p.b, KEY, &umr);
		world_run(&m.s.w);
		expect_error(&m.s.p.b.scq, false, 0, BIND_ERR);
		teardown(&m);
	}
}

TEST(window_of_type_1_is_bound_again_by_its_present_key_only)
{
	struct mw_setup m;
	struct umr umr;

	setup(&m, false);
	bind_ok(&m, false);
	umr = binding(&m.s.p.b, m.of, false);
	post_umr(&m.s.p.b, KEY, &umr);
	world_run(&m.s.w);
	expect_error(&m.s.p.b.scq, false, 3, BIND_ERR);
	teardown(&m);
}

TEST(window_of_type_2_is_bound_once_and_freed_by_its_qp_only)
{
	for (int kind = 0; kind < 2; kind++) {
		struct tqp_attr attr = TQP_ATTR;
		struct umr umr = freeing(true);
		struct mw_setup m;
		struct pair other;

		setup(&m, true);
		pair_init(&other, &m.s.w, &attr);
		bind_ok(&m, true);
		if (kind)
			umr = binding(&other.b, m.of, true);
		post_umr(&other.b, BOUND, &umr);
		world_run(&m.s.w);
		expect_error(&other.b.scq, false, 0, BIND_ERR);
		ASSERT_EQ(use(&m, SHMD_OPCODE_RDMA_READ, BOUND, m.of->iova + AT, 8), 0);
		pair_deinit(&other);
		teardown(&m);
	}
}

/* ---- SEND with invalidate ---- */

static void send_inval(struct mw_setup *m, uint32_t key)
{
	struct wqe wqe;

	post_recv(&m->s.p.b, m->s.remote, 0, 100);
	wqe_begin(&wqe, SHMD_OPCODE_SEND_INVAL, SIGNALED);
	wqe_imm(&wqe, key);
	wqe_data(&wqe, m->s.local->iova, m->s.local->key, 50);
	tqp_post(&m->s.p.a, &wqe);
	tqp_ring(&m->s.p.a);
	world_run(&m->s.w);
}

TEST(peer_frees_a_window_with_a_send)
{
	struct mw_setup m;
	struct shmd_cqe cqe;

	setup(&m, true);
	bind_ok(&m, true);
	send_inval(&m, BOUND);
	expect_ok(&m.s.p.a, 0);
	expect_cqe(&m.s.p.b.rcq, SHMD_CQE_RESP_SEND_INV, 0, &cqe);
	ASSERT_EQ(be32toh(cqe.imm_inval_pkey), BOUND);
	ASSERT_EQ(be32toh(cqe.byte_cnt), 50);
	ASSERT_EQ(use(&m, SHMD_OPCODE_RDMA_READ, BOUND, m.of->iova + AT, 8),
		  SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	teardown(&m);
}

TEST(peer_frees_nothing_else_with_a_send)
{
	for (int kind = 0; kind < 4; kind++) {
		struct mw_setup m;
		uint32_t key;

		setup(&m, kind != 3);
		if (kind != 2)
			bind_ok(&m, kind != 3);
		key = kind == 0 ? BOUND + 1 : kind == 1 ? m.of->key : kind == 2 ? KEY : BOUND;
		send_inval(&m, key);
		expect_error(&m.s.p.a.scq, false, 0, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
		expect_error(&m.s.p.b.rcq, true, 0, SHMD_SYNDROME_LOCAL_ACCESS_ERR);
		teardown(&m);
	}
}

/* ---- objects ---- */

TEST(nic_without_windows_knows_neither_opcode)
{
	for (int inval = 0; inval < 2; inval++) {
		struct mw_setup m;

		setup_init(&m.s, MEM_POINTER, 8192, NULL);
		m.of = region_new_attr(&m.s.w, 1, 8192, BINDABLE, 1);
		if (inval) {
			send_inval(&m, m.of->key);
			expect_error(&m.s.p.a.scq, false, 0, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
		} else {
			struct umr umr = binding(&m.s.p.b, m.of, true);

			post_umr(&m.s.p.b, KEY, &umr);
			world_run(&m.s.w);
			expect_error(&m.s.p.b.scq, false, 0, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
		}
		setup_deinit(&m.s);
	}
}

/* How many more regions node b of a world with a window, bound or not, has room for. */
static uint32_t room_for_regions(bool is_bound)
{
	struct engine_mr_attr attr = {.key = 0x100000, .pdn = 1, .access = BINDABLE, .length_bytes = 64};
	struct engine *engine;
	struct mw_setup m;
	uint32_t n = 0;

	setup(&m, false);
	if (is_bound)
		bind_ok(&m, false);
	engine = m.s.p.b.node->engine;
	attr.mem = &m.of->mem.mem;
	while (engine_mr_create(engine, &attr) == 0) {
		attr.key += 0x100;
		n++;
	}
	for (uint32_t i = 1; i <= n; i++)
		ASSERT_OK(engine_mr_destroy(engine, attr.key - i * 0x100));
	ASSERT_OK(engine_mr_create(engine, &attr));
	ASSERT_OK(engine_mr_destroy(engine, attr.key));
	teardown(&m);
	return n;
}

TEST(bound_window_takes_no_place_of_a_region)
{
	uint32_t n = room_for_regions(false);

	ASSERT_GT(n, 0);
	ASSERT_EQ(room_for_regions(true), n);
}

TEST(creation_of_windows_is_checked)
{
	struct engine_mw_attr attr = {.key = KEY, .pdn = 1};
	struct engine_attr none = {.max_qps = 1, .max_cqs = 1, .max_mrs = 1, .chunk_bytes = 4096, .extension = &engine_extra};
	struct engine_ops ops = {0};
	struct engine *engine;
	struct mw_setup m;

	setup(&m, false);
	engine = m.s.p.b.node->engine;
	ASSERT_ERR(engine_mw_create(engine, &attr), EEXIST);
	attr.key = KEY + 5;
	ASSERT_ERR(engine_mw_create(engine, &attr), EEXIST);
	attr.key = SHMD_LKEY_TERMINATE;
	ASSERT_ERR(engine_mw_create(engine, &attr), EINVAL);
	attr.key = m.of->key;
	ASSERT_ERR(engine_mw_create(engine, &attr), EEXIST);
	ASSERT_ERR(engine_mw_destroy(engine, 0x999900), ENOENT);
	bind_ok(&m, false);
	ASSERT_ERR(engine_mr_destroy(engine, BOUND), ENOENT);
	for (uint32_t i = 1; i < 16; i++) {
		attr.key = KEY + (i << 8);
		ASSERT_OK(engine_mw_create(engine, &attr));
	}
	attr.key = KEY + 0x10000;
	ASSERT_ERR(engine_mw_create(engine, &attr), ENOSPC);
	teardown(&m);
	attr.key = KEY;
	ASSERT_OK(engine_new(&none, &ops, NULL, &engine));
	ASSERT_ERR(engine_mw_create(engine, &attr), ENOSPC);
	engine_free(engine);
}
