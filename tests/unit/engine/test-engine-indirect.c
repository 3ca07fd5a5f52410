/* SPDX-License-Identifier: Apache-2.0 */
/* Indirect keys: their parts, made by commands and by UMRs, the checks of each part, and their end. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "fixture.h"
#include "tests/lib/test.h"

#define KEY 0x770000u
#define BASE 0x40000000ull /* where the key begins */
#define SIZE 8192u
#define ALL_REMOTE                                                                                 \
	(ENGINE_ACCESS_REMOTE_WRITE | ENGINE_ACCESS_REMOTE_READ | ENGINE_ACCESS_REMOTE_ATOMIC)
#define ALL (ENGINE_ACCESS_LOCAL_WRITE | ALL_REMOTE)
#define ACCESS_ERR SHMD_SYNDROME_REMOTE_ACCESS_ERR
#define MAX_LIST 64u

/* A list as a NIC reads it. */
struct list_of {
	uint32_t words[MAX_LIST * 4];
	unsigned int n;
};

static void add(struct list_of *list, uint32_t head, uint32_t key, uint64_t addr)
{
	uint32_t *at = list->words + 4 * (size_t)list->n++;

	ASSERT_LE(list->n, MAX_LIST);
	at[0] = htobe32(head);
	at[1] = htobe32(key);
	at[2] = htobe32((uint32_t)(addr >> 32));
	at[3] = htobe32((uint32_t)addr);
}

static void add_part(struct list_of *list, const struct region *of, uint64_t offset, uint32_t bytes)
{
	add(list, bytes, of->key, of->iova + offset);
}

static void pattern(struct list_of *list, uint32_t block_bytes, uint32_t n_blocks, uint32_t n)
{
	add(list, block_bytes, 0x400, (uint64_t)n_blocks << 32 | n);
}

static struct engine_indirect_attr attr_of(const struct list_of *list, uint64_t length)
{
	return (struct engine_indirect_attr){.key = KEY,
					     .pdn = 1,
					     .access = ALL,
					     .iova = BASE,
					     .length_bytes = length,
					     .max_parts = MAX_LIST,
					     .may_change = true,
					     .list = list->words,
					     .list_bytes = list->n * 16u};
}

static struct engine *engine_of(struct setup *s)
{
	return s->p.b.node->engine;
}

static void make(struct setup *s, const struct list_of *list, uint64_t length)
{
	struct engine_indirect_attr attr = attr_of(list, length);

	ASSERT_OK(engine_indirect_create(engine_of(s), &attr));
}

/* b's side has the key; a is the peer that uses it. */
static void setup(struct setup *s, enum mem_mode mode)
{
	world_init_windows(&s->w, mode, 8);
	setup_fill(s, SIZE, NULL);
}

/* A request of the peer: 0 or the syndrome. */
static uint8_t use_key(struct setup *s, unsigned int opcode, uint32_t key, uint64_t offset, uint32_t bytes)
{
	struct tqp *a = &s->p.a;
	struct shmd_err_cqe err;
	struct shmd_cqe cqe;
	struct wqe wqe;

	wqe_begin(&wqe, opcode, SIGNALED);
	wqe_raddr(&wqe, BASE + offset, key);
	if (opcode == SHMD_OPCODE_ATOMIC_FA)
		wqe_words64(&wqe, (uint64_t[]){1, 0}, 2);
	wqe_data(&wqe, s->local->iova, s->local->key, bytes);
	tqp_post(a, &wqe);
	tqp_ring(a);
	world_run(&s->w);
	ASSERT(tcq_poll(&a->scq, &cqe));
	memcpy(&err, &cqe, sizeof(err));
	return cqe.op_own >> 4 == SHMD_CQE_REQ ? 0 : err.syndrome;
}

static uint8_t use(struct setup *s, unsigned int opcode, uint64_t offset, uint32_t bytes)
{
	return use_key(s, opcode, KEY, offset, bytes);
}

/* An error ends the connection: here is the next one. */
static void reconnect(struct setup *s)
{
	struct tqp_attr attr = TQP_ATTR;

	pair_deinit(&s->p);
	pair_init(&s->p, &s->w, &attr);
}

/* ---- UMRs: words as libmlx5 writes them --------------------------------------------------------------------------- */

#define MASK_FREE (1u << 29)
#define MASK_TAG (1u << 13)
#define MASK_QPN (1u << 14)
#define MASK_START (1u << 6)
#define MASK_LENGTH 1u
#define MASK_ACCESS (0xfu << 18)
#define MASK_LIST (MASK_FREE | MASK_TAG | MASK_LENGTH | MASK_ACCESS)

struct umr {
	uint32_t imm, mask;
	uint8_t flags, free, access;
	uint32_t qpn_key;
	uint64_t start, length;
	const struct list_of *list; /* in the WQE ... */
	const struct region *at; /* ... or here */
};

static uint16_t post_umr(struct tqp *qp, const struct umr *umr)
{
	unsigned int n = umr->list ? (umr->list->n + 3) / 4 * 4 : 0;
	uint32_t ctrl[12] = {(uint32_t)umr->flags << 24, n << 16, 0, umr->mask};
	uint32_t mkey[16] = {(uint32_t)umr->free << 24 | (uint32_t)umr->access << 8, umr->qpn_key, 0, 0,
			     (uint32_t)(umr->start >> 32), (uint32_t)umr->start, 0, (uint32_t)umr->length};
	struct wqe wqe;
	uint16_t index;

	wqe_begin(&wqe, SHMD_OPCODE_UMR, SIGNALED);
	wqe_imm(&wqe, umr->imm);
	for (unsigned int i = 0; i < 12; i += 4)
		wqe_words32(&wqe, ctrl + i, 4);
	for (unsigned int i = 0; i < 16; i += 4)
		wqe_words32(&wqe, mkey + i, 4);
	if (umr->at) {
		memcpy(umr->at->bytes, umr->list->words, n * 16u);
		wqe_data(&wqe, umr->at->iova, umr->at->key, n * 16u);
	} else if (umr->list) {
		memcpy(wqe.bytes + 16 * (size_t)wqe.ds, umr->list->words, umr->list->n * 16u);
		wqe.ds += n;
	}
	index = tqp_post(qp, &wqe);
	tqp_ring(qp);
	return index;
}

/* 0 or the syndrome. */
static uint8_t run_umr(struct setup *s, const struct umr *umr)
{
	struct tqp *b = &s->p.b;
	struct shmd_err_cqe err;
	struct shmd_cqe cqe;

	post_umr(b, umr);
	world_run(&s->w);
	ASSERT(tcq_poll(&b->scq, &cqe));
	memcpy(&err, &cqe, sizeof(err));
	return cqe.op_own >> 4 == SHMD_CQE_REQ ? 0 : err.syndrome;
}

/* ---- what it consists of --------------------------------------------------------------------------------------- */

TEST(key_is_its_parts_in_their_order)
{
	FOR_EACH_MODE(mode) {
		struct list_of list = {.n = 0};
		struct region *other;
		struct setup s;

		setup(&s, mode);
		other = region_new(&s.w, 1, SIZE);
		add_part(&list, other, 100, 1000);
		add_part(&list, s.remote, 4096, 3);
		add_part(&list, other, 0, 100);
		make(&s, &list, 1103);
		ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_WRITE, 0, 1103), 0);
		ASSERT_MEMEQ(other->bytes + 100, s.local->bytes, 1000);
		ASSERT_MEMEQ(s.remote->bytes + 4096, s.local->bytes + 1000, 3);
		ASSERT_MEMEQ(other->bytes, s.local->bytes + 1003, 100);
		ASSERT(!s.remote->bytes[4095] && !s.remote->bytes[4099]);
		memset(s.local->bytes, 0, 1103);
		ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_READ, 998, 50), 0);
		ASSERT_MEMEQ(s.local->bytes, other->bytes + 1098, 2);
		ASSERT_MEMEQ(s.local->bytes + 2, s.remote->bytes + 4096, 3);
		ASSERT_MEMEQ(s.local->bytes + 5, other->bytes, 45);
		ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_WRITE, 1100, 4), ACCESS_ERR);
		setup_deinit(&s);
	}
}

/* From one list to another, both not in one piece. */
TEST(own_wqes_gather_and_scatter_through_it)
{
	FOR_EACH_MODE(mode) {
		struct list_of from = {.n = 0}, to = {.n = 0};
		struct engine_indirect_attr attr;
		struct setup s;
		struct wqe wqe;
		uint8_t recv[64] = {0};

		setup(&s, mode);
		for (unsigned int i = 0; i < 30; i++) {
			add_part(&from, s.local, 250 * i, 100);
			add_part(&to, s.remote, 8000 - 250 * i, 60);
			add_part(&to, s.remote, 250 * i + 70, 40);
		}
		attr = attr_of(&from, 3000);
		ASSERT_OK(engine_indirect_create(s.p.a.node->engine, &attr));
		make(&s, &to, 3000);
		memcpy(recv, (uint32_t[]){htobe32(3000), htobe32(KEY), 0, htobe32((uint32_t)BASE), 0, htobe32(0x100)}, 24);
		post_recv_raw(&s.p.b, recv, sizeof(recv));
		wqe_begin(&wqe, SHMD_OPCODE_SEND, SIGNALED);
		wqe_data(&wqe, BASE, KEY, 3000);
		tqp_post(&s.p.a, &wqe);
		tqp_ring(&s.p.a);
		world_run(&s.w);
		expect_ok(&s.p.a, 0);
		for (unsigned int i = 0; i < 30; i++) {
			ASSERT_MEMEQ(s.remote->bytes + 8000 - 250 * i, s.local->bytes + 250 * i, 60);
			ASSERT_MEMEQ(s.remote->bytes + 250 * i + 70, s.local->bytes + 250 * i + 60, 40);
		}
		setup_deinit(&s);
	}
}

TEST(pattern_goes_on_by_its_strides)
{
	FOR_EACH_MODE(mode) {
		struct list_of list = {.n = 0};
		struct setup s;

		setup(&s, mode);
		pattern(&list, 12, 20, 2);
		add(&list, 100u << 16 | 8, s.remote->key, s.remote->iova + 5);
		add(&list, 6u << 16 | 4, s.remote->key, s.remote->iova + 4000);
		make(&s, &list, 240);
		ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_WRITE, 0, 240), 0);
		for (unsigned int i = 0; i < 20; i++) {
			ASSERT_MEMEQ(s.remote->bytes + 5 + 100 * i, s.local->bytes + 12 * i, 8);
			ASSERT_MEMEQ(s.remote->bytes + 4000 + 6 * i, s.local->bytes + 12 * i + 8, 4);
			ASSERT(!s.remote->bytes[4004 + 6 * i]);
		}
		ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_READ, 230, 10), 0);
		ASSERT_MEMEQ(s.local->bytes, s.remote->bytes + 1905 + 2, 6);
		setup_deinit(&s);
	}
}

/* As UCX has it: the first part begins long before its region, and the last ends long behind it. */
TEST(unused_bytes_of_a_part_need_not_be_there)
{
	struct list_of list = {.n = 0};
	struct engine_indirect_attr attr;
	struct setup s;
	uint64_t begin;

	setup(&s, MEM_POINTER);
	begin = s.remote->iova & ~(uint64_t)0x7fffffff;
	add(&list, 0, s.remote->key, begin);
	add(&list, 0, s.remote->key, begin + 0x80000000);
	attr = attr_of(&list, 0x80001000);
	attr.part_bytes = 0x80000000;
	ASSERT_OK(engine_indirect_create(engine_of(&s), &attr));
	ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_WRITE, s.remote->iova - begin, SIZE), 0);
	ASSERT_MEMEQ(s.remote->bytes, s.local->bytes, SIZE);
	ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_WRITE, s.remote->iova - begin - 1, 2), ACCESS_ERR);
	reconnect(&s);
	ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_READ, s.remote->iova - begin + SIZE - 1, 2), ACCESS_ERR);
	reconnect(&s);
	ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_READ, 0x80000000, 1), ACCESS_ERR);
	setup_deinit(&s);
}

/* Random parts of random parts, against the same bytes put together here. */
TEST(parts_of_parts_are_the_bytes_they_name)
{
	FOR_EACH_MODE(mode) {
		struct setup s;
		uint64_t seed = 42 + mode;
		uint32_t keys[3] = {0};
		static uint16_t place[3][2048]; /* where in the region byte i of the key lies */

		setup(&s, mode);
		for (unsigned int k = 0; k < 3; k++) {
			struct list_of list = {.n = 0};
			struct engine_indirect_attr attr;

			keys[k] = KEY + 0x100 * k;
			for (unsigned int i = 0; i < 32; i++) {
				uint32_t at = (uint32_t)(test_random(&seed) % (2048 - 64));

				add(&list, 64, k ? keys[k - 1] : s.remote->key, (k ? BASE : s.remote->iova) + at);
				for (unsigned int b = 0; b < 64; b++)
					place[k][64 * i + b] = k ? place[k - 1][at + b] : (uint16_t)(at + b);
			}
			attr = attr_of(&list, 2048);
			attr.key = keys[k];
			ASSERT_OK(engine_indirect_create(engine_of(&s), &attr));
		}
		region_fill(s.remote, seed);
		for (unsigned int i = 0; i < 20; i++) {
			uint32_t at = (uint32_t)(test_random(&seed) % 2000), n = 1 + (uint32_t)(test_random(&seed) % (2048 - at));
			unsigned int k = i % 3;

			ASSERT_EQ(use_key(&s, SHMD_OPCODE_RDMA_READ, keys[k], at, n), 0);
			for (uint32_t b = 0; b < n; b++)
				ASSERT_EQ(s.local->bytes[b], s.remote->bytes[place[k][at + b]]);
		}
		setup_deinit(&s);
	}
}

TEST(word_of_an_atomic_lies_in_one_part)
{
	FOR_EACH_MODE(mode) {
		struct list_of list = {.n = 0};
		struct setup s;

		setup(&s, mode);
		add_part(&list, s.remote, 64, 16);
		add_part(&list, s.remote, 128, 12);
		add_part(&list, s.remote, 513, 100);
		make(&s, &list, 128);
		ASSERT_EQ(use(&s, SHMD_OPCODE_ATOMIC_FA, 8, 8), 0);
		ASSERT_EQ(use(&s, SHMD_OPCODE_ATOMIC_FA, 16, 8), 0);
		ASSERT_EQ(s.remote->bytes[72] + s.remote->bytes[79], 1);
		ASSERT_EQ(s.remote->bytes[128] + s.remote->bytes[135], 1);
		ASSERT(use(&s, SHMD_OPCODE_ATOMIC_FA, 24, 8) != 0);
		reconnect(&s);
		ASSERT(use(&s, SHMD_OPCODE_ATOMIC_FA, 32, 8) != 0);
		setup_deinit(&s);
	}
}

/* ---- what is checked of a part --------------------------------------------------------------------------------- */

enum bad_part { FOREIGN_PD, NO_SUCH_KEY, BEYOND, READ_ONLY, A_WINDOW, GONE, N_BAD_PARTS };

/* A window of type 1 on the first 64 bytes of a region. */
static void bind_window(struct setup *s, uint32_t key)
{
	const struct region *of = region_new_attr(&s->w, 1, SIZE, ALL | ENGINE_ACCESS_MW_BIND, 1);
	struct engine_mw_attr attr = {.key = key, .pdn = 1};
	struct list_of list = {.n = 0};
	struct umr umr = {.imm = key, .mask = MASK_LIST | MASK_START, .flags = 0x90, .access = 0x78,
			  .qpn_key = 0xffffff00 | (key & 0xff), .start = of->iova, .length = 64, .list = &list};

	add_part(&list, of, 0, 64);
	ASSERT_OK(engine_mw_create(engine_of(s), &attr));
	ASSERT_EQ(run_umr(s, &umr), 0);
}

static void add_bad(struct setup *s, struct list_of *list, enum bad_part bad)
{
	switch (bad) {
	case FOREIGN_PD:
		add_part(list, region_new_attr(&s->w, 1, SIZE, ALL, 2), 0, 64);
		break;
	case NO_SUCH_KEY:
		add(list, 64, 0x123400, 0);
		break;
	case BEYOND:
		add_part(list, s->remote, SIZE, 64);
		break;
	case READ_ONLY:
		add_part(list, region_new_attr(&s->w, 1, SIZE, ALL_REMOTE, 1), 0, 64);
		break;
	case A_WINDOW:
		bind_window(s, 0x990000);
		add(list, 64, 0x990000, s->w.regions[s->w.n_regions - 1].iova);
		break;
	default:
		add_part(list, region_new(&s->w, 1, SIZE), 0, 64);
		region_dereg(&s->w.regions[s->w.n_regions - 1]);
	}
}

/* Memory beside it works; a request that touches it does nothing at all. */
TEST(part_that_may_not_be_used_is_refused_and_no_other)
{
	for (enum bad_part bad = 0; bad < N_BAD_PARTS; bad++) {
		struct list_of list = {.n = 0};
		struct setup s;

		setup(&s, MEM_POINTER);
		add_part(&list, s.remote, 0, 64);
		add_bad(&s, &list, bad);
		add_part(&list, s.remote, 64, 64);
		make(&s, &list, 192);
		ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_WRITE, 0, 64), 0);
		ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_WRITE, 128, 64), 0);
		memset(s.remote->bytes, 0, 128);
		ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_WRITE, 0, 65), ACCESS_ERR);
		ASSERT_EQ(s.remote->bytes[0], 0);
		reconnect(&s);
		ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_READ, 127, 2), bad == READ_ONLY ? 0 : ACCESS_ERR);
		setup_deinit(&s);
	}
}

TEST(pattern_with_one_block_outside_is_refused)
{
	struct list_of list = {.n = 0};
	struct setup s;

	setup(&s, MEM_POINTER);
	pattern(&list, 8, 9, 1);
	add(&list, 1024u << 16 | 8, s.remote->key, s.remote->iova);
	make(&s, &list, 72);
	ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_READ, 0, 8), ACCESS_ERR);
	setup_deinit(&s);
}

TEST(access_and_length_of_the_key_itself_are_checked)
{
	for (int kind = 0; kind < 4; kind++) {
		struct list_of list = {.n = 0};
		struct engine_indirect_attr attr;
		struct setup s;

		setup(&s, MEM_POINTER);
		add_part(&list, s.remote, 0, 128);
		attr = attr_of(&list, 64);
		if (kind == 1)
			attr.access = ENGINE_ACCESS_LOCAL_WRITE | ENGINE_ACCESS_REMOTE_READ;
		if (kind == 2)
			attr.pdn = 2;
		if (kind == 3)
			attr.length_bytes = 256; /* longer than its parts */
		ASSERT_OK(engine_indirect_create(engine_of(&s), &attr));
		ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_WRITE, kind == 3 ? 120 : 0, kind ? 16 : 65), ACCESS_ERR);
		setup_deinit(&s);
	}
}

TEST(region_that_goes_takes_its_parts_along_and_comes_back_with_them)
{
	struct list_of list = {.n = 0};
	struct engine_mr_attr again;
	struct region *other;
	struct setup s;

	setup(&s, MEM_POINTER);
	other = region_new(&s.w, 1, SIZE);
	add_part(&list, s.remote, 0, 64);
	add_part(&list, other, 0, 64);
	make(&s, &list, 128);
	ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_WRITE, 0, 128), 0);
	region_dereg(other);
	ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_READ, 0, 64), 0);
	ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_READ, 0, 128), ACCESS_ERR);
	reconnect(&s);
	again = (struct engine_mr_attr){.key = other->key, .pdn = 1, .access = ALL, .iova = other->iova,
					.length_bytes = SIZE, .mem = &other->mem.mem, .mem_offset = 64};
	ASSERT_OK(engine_mr_create(engine_of(&s), &again));
	other->registered = true;
	ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_READ, 0, 128), 0);
	setup_deinit(&s);
}

/* ---- keys of keys ---------------------------------------------------------------------------------------------- */

static int make_of_key(struct setup *s, uint32_t key, uint32_t of)
{
	struct list_of list = {.n = 0};
	struct engine_indirect_attr attr;

	add(&list, 64, of, of == s->remote->key ? s->remote->iova : BASE);
	attr = attr_of(&list, 64);
	attr.key = key;
	return engine_indirect_create(engine_of(s), &attr);
}

TEST(keys_of_keys_end_at_four_levels)
{
	struct setup s;

	setup(&s, MEM_POINTER);
	ASSERT_OK(make_of_key(&s, KEY, s.remote->key));
	for (uint32_t i = 1; i < 4; i++) {
		ASSERT_OK(make_of_key(&s, KEY + 0x100 * i, KEY + 0x100 * (i - 1)));
		ASSERT_EQ(use_key(&s, SHMD_OPCODE_RDMA_WRITE, KEY + 0x100 * i, 0, 64), 0);
	}
	ASSERT_ERR(make_of_key(&s, KEY + 0x400, KEY + 0x300), EINVAL);
	setup_deinit(&s);
}

TEST(parts_of_a_part_are_checked_as_well)
{
	struct list_of inner = {.n = 0}, outer = {.n = 0};
	struct engine_indirect_attr attr;
	struct setup s;

	setup(&s, MEM_POINTER);
	add_part(&inner, s.remote, 0, 64);
	add(&inner, 64, 0x123400, 0);
	add_part(&inner, region_new_attr(&s.w, 1, SIZE, ALL_REMOTE, 1), 0, 64);
	make(&s, &inner, 192);
	add(&outer, 192, KEY, BASE);
	attr = attr_of(&outer, 192);
	attr.key = KEY + 0x100;
	ASSERT_OK(engine_indirect_create(engine_of(&s), &attr));
	ASSERT_EQ(use_key(&s, SHMD_OPCODE_RDMA_WRITE, KEY + 0x100, 0, 64), 0);
	ASSERT_EQ(use_key(&s, SHMD_OPCODE_RDMA_READ, KEY + 0x100, 128, 64), 0);
	ASSERT_EQ(use_key(&s, SHMD_OPCODE_RDMA_READ, KEY + 0x100, 63, 2), ACCESS_ERR);
	reconnect(&s);
	ASSERT_EQ(use_key(&s, SHMD_OPCODE_RDMA_WRITE, KEY + 0x100, 128, 1), ACCESS_ERR);
	setup_deinit(&s);
}

/* Keys that were listed before they were made: none is above the other. */
TEST(circle_of_keys_leads_nowhere)
{
	static const uint32_t circles[][2] = {{KEY, 0}, {KEY + 0x100, KEY}};

	for (unsigned int i = 0; i < 2; i++) {
		struct setup s;

		setup(&s, MEM_POINTER);
		ASSERT_OK(make_of_key(&s, KEY, circles[i][0]));
		if (circles[i][1])
			ASSERT_OK(make_of_key(&s, KEY + 0x100, circles[i][1]));
		ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_READ, 0, 1), ACCESS_ERR);
		setup_deinit(&s);
	}
}

/* ---- changes ----------------------------------------------------------------------------------------------------- */

/* As libmlx5's mlx5dv_wr_mkey_configure() and its setters have it. */
static struct umr configure(const struct list_of *list, uint32_t length)
{
	return (struct umr){.imm = KEY, .mask = MASK_LIST, .flags = 0x80, .access = 0x78, .qpn_key = 0xffffff00 | (KEY & 0xff),
			    .length = length, .list = list};
}

/* As its IBV_WR_LOCAL_INV. */
static struct umr invalidate(void)
{
	return (struct umr){.imm = KEY, .mask = MASK_FREE | MASK_TAG | MASK_QPN, .flags = 0x98, .free = 0x40,
			    .qpn_key = 0xffffff00};
}

static struct engine_indirect_attr empty_attr(void)
{
	return (struct engine_indirect_attr){.key = KEY, .pdn = 1, .iova = BASE, .max_parts = 4, .is_free = true,
					     .may_change = true};
}

static void setup_empty(struct setup *s, struct list_of *list)
{
	struct engine_indirect_attr attr = empty_attr();

	setup(s, MEM_POINTER);
	ASSERT_OK(engine_indirect_create(engine_of(s), &attr));
	*list = (struct list_of){.n = 0};
	add_part(list, s->remote, 0, 8);
	add_part(list, s->remote, 64, 8);
}

TEST(umr_makes_a_key_and_takes_it_away)
{
	for (int in_memory = 0; in_memory < 2; in_memory++) {
		struct list_of list;
		struct setup s;
		struct umr umr;

		setup_empty(&s, &list);
		ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_WRITE, 0, 8), ACCESS_ERR);
		reconnect(&s);
		umr = configure(&list, 16);
		if (in_memory) {
			umr.flags = 0;
			umr.at = region_new_attr(&s.w, 1, SIZE, 0, 1);
		}
		ASSERT_EQ(run_umr(&s, &umr), 0);
		ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_WRITE, 0, 16), 0);
		ASSERT_MEMEQ(s.remote->bytes + 64, s.local->bytes + 8, 8);
		umr = invalidate();
		ASSERT_EQ(run_umr(&s, &umr), 0);
		ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_READ, 0, 8), ACCESS_ERR);
		setup_deinit(&s);
	}
}

TEST(umr_changes_what_its_mask_says_and_nothing_else)
{
	struct list_of list, other = {.n = 0};
	struct setup s;
	struct umr umr;

	setup_empty(&s, &list);
	umr = configure(&list, 16);
	ASSERT_EQ(run_umr(&s, &umr), 0);
	/* Access and length stay where the mask does not have them. */
	add_part(&other, s.remote, 128, 16);
	umr = (struct umr){.imm = KEY, .flags = 0x80, .length = 8, .free = 0x40, .list = &other};
	ASSERT_EQ(run_umr(&s, &umr), 0);
	ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_WRITE, 0, 16), 0);
	ASSERT_MEMEQ(s.remote->bytes + 128, s.local->bytes, 16);
	umr = (struct umr){.imm = KEY, .mask = MASK_START, .flags = 0x80, .start = BASE + 16};
	ASSERT_EQ(run_umr(&s, &umr), 0);
	ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_WRITE, 16, 16), 0);
	/* The tag: the old key is gone. */
	umr = (struct umr){.imm = KEY | 5, .mask = MASK_TAG, .flags = 0x80, .qpn_key = 0xffffff05};
	ASSERT_EQ(run_umr(&s, &umr), 0);
	ASSERT_EQ(use_key(&s, SHMD_OPCODE_RDMA_WRITE, KEY | 5, 16, 16), 0);
	umr = (struct umr){.imm = KEY | 5, .mask = 1u << 20, .flags = 0x80}; /* no remote write */
	ASSERT_EQ(run_umr(&s, &umr), 0);
	ASSERT_EQ(use_key(&s, SHMD_OPCODE_RDMA_READ, KEY | 5, 16, 16), 0);
	ASSERT_EQ(use_key(&s, SHMD_OPCODE_RDMA_WRITE, KEY | 5, 16, 1), ACCESS_ERR);
	reconnect(&s);
	ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_READ, 16, 1), ACCESS_ERR);
	setup_deinit(&s);
}

#define BIND_ERR SHMD_SYNDROME_MW_BIND_ERR
#define OP_ERR SHMD_SYNDROME_LOCAL_QP_OP_ERR

/* Earlier entries are still there. */
#define REFUSED(change, syndrome)                                                                  \
	do {                                                                                       \
		struct list_of list_;                                                              \
		struct setup s_;                                                                   \
		struct umr umr_;                                                                   \
		setup_empty(&s_, &list_);                                                          \
		umr_ = configure(&list_, 16);                                                      \
		ASSERT_EQ(run_umr(&s_, &umr_), 0);                                                 \
		change;                                                                            \
		ASSERT_EQ(run_umr(&s_, &umr_), syndrome);                                          \
		reconnect(&s_);                                                                    \
		ASSERT_EQ(use(&s_, SHMD_OPCODE_RDMA_READ, 0, 16), 0);                              \
		setup_deinit(&s_);                                                                 \
	} while (0)

TEST(umr_that_makes_no_sense_changes_nothing)
{
	struct list_of empty = {.n = 1}, long_list = {.n = 0}, padded;

	for (unsigned int i = 0; i < 5; i++)
		add(&long_list, 8, 0x1000, 0);
	REFUSED(umr_.imm = KEY + 0x100, BIND_ERR); /* no such key */
	REFUSED((umr_.mask |= MASK_QPN, umr_.qpn_key = 0x123400), BIND_ERR); /* for one QP alone */
	REFUSED((umr_.mask = MASK_START, umr_.imm = KEY | 1), BIND_ERR);
	REFUSED((umr_ = invalidate(), umr_.imm = KEY | 1), BIND_ERR);
	REFUSED(umr_.flags = 0xa0, BIND_ERR); /* must be free */
	REFUSED(umr_.list = &long_list, OP_ERR);
	REFUSED(umr_.list = &empty, OP_ERR);
	REFUSED((padded = list_, padded.n = 12, umr_.list = &padded), OP_ERR);
	REFUSED(umr_.mask = 1u << 12, OP_ERR); /* signatures */
	REFUSED((umr_.mask |= MASK_START, umr_.start = UINT64_MAX), BIND_ERR);
	REFUSED((umr_.flags = 0, umr_.at = region_new_attr(&s_.w, 1, SIZE, 0, 2)), SHMD_SYNDROME_LOCAL_PROT_ERR);
}

TEST(key_that_may_not_be_changed_is_not)
{
	for (int kind = 0; kind < 2; kind++) {
		struct engine_indirect_attr attr = empty_attr();
		struct list_of list = {.n = 0};
		struct setup s;
		struct umr umr;

		setup(&s, MEM_POINTER);
		add_part(&list, s.remote, 0, 8);
		attr.may_change = kind;
		attr.pdn = kind ? 2 : 1;
		ASSERT_OK(engine_indirect_create(engine_of(&s), &attr));
		umr = configure(&list, 8);
		ASSERT_EQ(run_umr(&s, &umr), BIND_ERR);
		setup_deinit(&s);
	}
}

TEST(list_that_no_cpu_can_read_is_refused)
{
	struct engine_indirect_attr attr = empty_attr();
	struct list_of list = {.n = 0};
	struct setup s;
	struct umr umr;

	setup(&s, MEM_SYNC);
	add_part(&list, s.remote, 0, 8);
	ASSERT_OK(engine_indirect_create(engine_of(&s), &attr));
	umr = configure(&list, 8);
	umr.flags = 0;
	umr.at = s.remote;
	ASSERT_EQ(run_umr(&s, &umr), SHMD_SYNDROME_LOCAL_PROT_ERR);
	setup_deinit(&s);
}

TEST(peer_takes_a_key_away_if_that_was_allowed)
{
	for (int allowed = 0; allowed < 2; allowed++) {
		struct list_of list = {.n = 0};
		struct engine_indirect_attr attr;
		struct setup s;
		struct wqe wqe;

		setup(&s, MEM_POINTER);
		add_part(&list, s.remote, 0, 64);
		attr = attr_of(&list, 64);
		attr.may_invalidate = allowed;
		ASSERT_OK(engine_indirect_create(engine_of(&s), &attr));
		post_recv(&s.p.b, s.remote, 512, 64);
		wqe_begin(&wqe, SHMD_OPCODE_SEND_INVAL, SIGNALED);
		wqe_imm(&wqe, KEY);
		wqe_data(&wqe, s.local->iova, s.local->key, 8);
		tqp_post(&s.p.a, &wqe);
		tqp_ring(&s.p.a);
		world_run(&s.w);
		if (allowed)
			expect_ok(&s.p.a, 0);
		else
			expect_error(&s.p.a.scq, false, 0, ACCESS_ERR);
		reconnect(&s);
		ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_READ, 0, 8), allowed ? ACCESS_ERR : 0);
		setup_deinit(&s);
	}
}

TEST(creation_of_indirect_keys_is_checked)
{
	struct list_of list = {.n = 0};
	struct engine_indirect_attr attr;
	struct setup s;

	setup(&s, MEM_POINTER);
	add_part(&list, s.remote, 0, 64);
#define WRONG(field, value, error)                                                                 \
	do {                                                                                       \
		attr = attr_of(&list, 64);                                                         \
		attr.field = (value);                                                              \
		ASSERT_ERR(engine_indirect_create(engine_of(&s), &attr), error);                   \
	} while (0)
	WRONG(key, 0x100, EINVAL);
	WRONG(max_parts, 0, EINVAL);
	WRONG(max_parts, ENGINE_MAX_PARTS + 1, EINVAL);
	WRONG(part_bytes, (uint64_t)1 << 32, EINVAL);
	WRONG(iova, UINT64_MAX, EINVAL);
	WRONG(list_bytes, 8, EINVAL);
	WRONG(key, s.remote->key, EEXIST);
	attr = attr_of(&list, 64);
	ASSERT_OK(engine_indirect_create(engine_of(&s), &attr));
	ASSERT_ERR(engine_indirect_create(engine_of(&s), &attr), EEXIST);
	ASSERT_ERR(engine_mr_destroy(engine_of(&s), KEY), ENOENT);
	for (uint32_t i = 1; i < 8; i++) {
		attr.key = KEY + 0x100 * i;
		ASSERT_OK(engine_indirect_create(engine_of(&s), &attr));
	}
	attr.key = KEY + 0x800;
	ASSERT_ERR(engine_indirect_create(engine_of(&s), &attr), ENOSPC);
	ASSERT_OK(engine_indirect_destroy(engine_of(&s), KEY));
	ASSERT_ERR(engine_indirect_destroy(engine_of(&s), KEY), ENOENT);
	ASSERT_EQ(use(&s, SHMD_OPCODE_RDMA_READ, 0, 8), ACCESS_ERR);
	setup_deinit(&s);
}
