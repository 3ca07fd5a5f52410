/* SPDX-License-Identifier: Apache-2.0 */
/* Every opcode moves the right bytes, at every size class, over every kind of memory. */
#include <endian.h>
#include <string.h>

#include "fixture.h"
#include "tests/lib/test.h"

static const uint32_t sizes[] = {0, 1, 2, 4, 7, 8, 64, 127, 128, 129, 4095, 4096, 4097, 20000};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define ROOM 32768u

struct setup {
	struct world w;
	struct pair p;
	struct region *local, *remote;
};

static void setup_nodes(struct setup *s, enum mem_mode mode, unsigned int a, unsigned int b)
{
	struct tqp_attr attr = TQP_ATTR;

	world_init(&s->w, mode);
	s->local = region_new(&s->w, a, ROOM);
	s->remote = region_new(&s->w, b, ROOM);
	region_fill(s->local, 1);
	region_fill(s->remote, 2);
	pair_init_nodes(&s->p, &s->w, a, b, &attr);
}

static void setup(struct setup *s, enum mem_mode mode)
{
	setup_nodes(s, mode, 0, 1);
}

static void teardown(struct setup *s)
{
	ASSERT_EQ(tqp_info(&s->p.a).first_error, 0);
	ASSERT_EQ(tqp_info(&s->p.b).first_error, 0);
	pair_deinit(&s->p);
	world_deinit(&s->w);
}

/* The bytes arrived, and those around them are as before. */
static void expect_moved(const struct region *src, uint64_t src_offset, const struct region *dst,
			 uint64_t dst_offset, uint32_t bytes, const uint8_t *before)
{
	ASSERT_MEMEQ(dst->bytes, before, dst_offset);
	ASSERT_MEMEQ(dst->bytes + dst_offset, src->bytes + src_offset, bytes);
	ASSERT_MEMEQ(dst->bytes + dst_offset + bytes, before + dst_offset + bytes,
		     dst->size_bytes - dst_offset - bytes);
}

TEST(write_moves_every_size)
{
	FOR_EACH_MODE(mode) {
		for (unsigned int i = 0; i < N_SIZES; i++) {
			uint8_t before[ROOM];
			struct setup s;
			uint16_t index;

			setup(&s, mode);
			memcpy(before, s.remote->bytes, ROOM);
			index = post_write(&s.p.a, SIGNALED, s.local, 24, s.remote, 104, sizes[i]);
			tqp_ring(&s.p.a);
			world_run(&s.w);
			expect_ok(&s.p.a, index);
			tcq_expect_none(&s.p.a.scq);
			tcq_expect_none(&s.p.b.rcq);
			expect_moved(s.local, 24, s.remote, 104, sizes[i], before);
			ASSERT_EQ(tqp_info(&s.p.a).counters.bytes_sent, sizes[i]);
			teardown(&s);
		}
	}
}

TEST(read_moves_every_size)
{
	FOR_EACH_MODE(mode) {
		for (unsigned int i = 0; i < N_SIZES; i++) {
			uint8_t before[ROOM];
			struct shmd_cqe cqe;
			struct setup s;
			uint16_t index;

			setup(&s, mode);
			memcpy(before, s.local->bytes, ROOM);
			index = post_read(&s.p.a, SIGNALED, s.local, 24, s.remote, 104, sizes[i]);
			tqp_ring(&s.p.a);
			world_run(&s.w);
			expect_cqe(&s.p.a.scq, SHMD_CQE_REQ, index, &cqe);
			ASSERT_EQ(be32toh(cqe.byte_cnt), sizes[i]);
			expect_moved(s.remote, 104, s.local, 24, sizes[i], before);
			ASSERT_EQ(tqp_info(&s.p.a).counters.bytes_read, sizes[i]);
			teardown(&s);
		}
	}
}
