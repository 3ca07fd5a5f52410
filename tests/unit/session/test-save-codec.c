/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of one process for another: what comes back is what went in, and nothing else comes back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/restart/save-codec.h"
#include "tests/lib/test.h"

enum { TAG_ONE = 1, TAG_TWO, TAG_FLAG, TAG_WORD, TAG_HALF, TAG_WIDE, TAG_TEXT, TAG_RAW };

struct thing {
	bool flag;
	uint16_t half;
	uint32_t word;
	uint64_t wide;
	char text[8];
	uint8_t raw[5];
};

FIELD_TABLE(thing_table,
	FIELD_BOOL(TAG_FLAG, thing, flag),
	FIELD_N(TAG_HALF, thing, half),
	FIELD_ENUM(TAG_WORD, thing, word, 7),
	FIELD_N(TAG_WIDE, thing, wide),
	FIELD_T(TAG_TEXT, thing, text),
	FIELD_B(TAG_RAW, thing, raw),
);

static struct save_reader reader_of(const struct save_writer *w)
{
	return (struct save_reader){.at = w->buf, .end = w->buf + w->n};
}

TEST(fields_come_back)
{
	const struct thing in = {true, 0xffff, 7, UINT64_MAX, "seven b", {1, 2, 0, 4, 5}};
	struct save_writer w = {0};
	struct save_reader r;
	struct thing out;

	save_put_fields(&w, &thing_table, &in);
	save_put(&w, TAG_ONE, 3);
	save_put_bytes(&w, TAG_TWO, NULL, 0);
	ASSERT_EQ(w.r, 0);
	r = reader_of(&w);
	memset(&out, 0xaa, sizeof(out));
	save_get_fields(&r, &thing_table, &out);
	ASSERT_EQ(out.flag, in.flag);
	ASSERT_EQ(out.half, in.half);
	ASSERT_EQ(out.word, in.word);
	ASSERT_EQ(out.wide, in.wide);
	ASSERT_STREQ(out.text, in.text);
	ASSERT_EQ(memcmp(out.raw, in.raw, sizeof(in.raw)), 0);
	ASSERT_ERR(save_reader_end(&r), EBADMSG);
	ASSERT_EQ(save_get(&r, TAG_ONE, 3), 3);
	size_t n = 1;
	ASSERT(!save_get_bytes(&r, TAG_TWO, &n));
	ASSERT_EQ(n, 0);
	ASSERT_OK(save_reader_end(&r));
	save_writer_deinit(&w);
}

static void expect_refused(const struct save_writer *w)
{
	struct save_reader r = reader_of(w);
	struct thing out;

	save_get_fields(&r, &thing_table, &out);
	ASSERT_ERR(save_reader_end(&r), EBADMSG);
	/* Whatever is asked for then. */
	ASSERT_EQ(save_get(&r, TAG_ONE, UINT64_MAX), 0);
	ASSERT(!save_next_is(&r, TAG_ONE));
}

/* Written by hand: a test could not distinguish two wrong tables that agree, one for writing and one for reading. */
static void write_thing(struct save_writer *w, uint64_t flag, uint64_t half, uint64_t word, const char *text,
			size_t text_bytes, size_t raw_bytes)
{
	*w = (struct save_writer){0};
	save_put(w, TAG_FLAG, flag);
	save_put(w, TAG_HALF, half);
	save_put(w, TAG_WORD, word);
	save_put(w, TAG_WIDE, 1);
	save_put_bytes(w, TAG_TEXT, text, text_bytes);
	save_put_bytes(w, TAG_RAW, "12345678", raw_bytes);
}

TEST(values_beyond_their_field_are_refused)
{
	static const struct {
		uint64_t flag, half, word;
		const char *text;
		size_t text_bytes, raw_bytes;
		bool passes;
	} rows[] = {
		{1, 1, 1, "abc", 3, 5, true}, {2, 1, 1, "abc", 3, 5, false}, {1, 0x10000, 1, "abc", 3, 5, false},
		{1, 1, 8, "abc", 3, 5, false}, {1, 1, 1, "abcdefgh", 8, 5, false}, {1, 1, 1, "a\0c", 3, 5, false},
		{1, 1, 1, "", 0, 5, true}, {1, 1, 1, "abc", 3, 4, false}, {1, 1, 1, "abc", 3, 6, false},
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct save_writer w;
		struct save_reader r;
		struct thing out;

		write_thing(&w, rows[i].flag, rows[i].half, rows[i].word, rows[i].text, rows[i].text_bytes,
			    rows[i].raw_bytes);
		if (rows[i].passes) {
			r = reader_of(&w);
			save_get_fields(&r, &thing_table, &out);
			ASSERT_OK(save_reader_end(&r));
		} else {
			expect_refused(&w);
		}
		save_writer_deinit(&w);
	}
}

TEST(bytes_that_end_early_are_refused)
{
	struct save_writer w, cut;

	write_thing(&w, 1, 1, 1, "abc", 3, 5);
	for (size_t n = 0; n < w.n; n++) {
		cut = (struct save_writer){.buf = malloc(n ? n : 1), .n = n};
		memcpy(cut.buf, w.buf, n);
		expect_refused(&cut);
		save_writer_deinit(&cut);
	}
	save_writer_deinit(&w);
}

TEST(next_item_is_known_before_it_is_read)
{
	struct save_writer w = {0};
	struct save_reader r;
	unsigned int n = 0;

	save_put(&w, TAG_ONE, 2);
	save_put(&w, TAG_ONE, 3);
	save_put(&w, TAG_TWO, 0);
	for (r = reader_of(&w); save_next_is(&r, TAG_ONE); n++)
		ASSERT_EQ(save_get(&r, TAG_ONE, UINT64_MAX), 2 + n);
	ASSERT_EQ(n, 2);
	ASSERT(save_next_is(&r, TAG_TWO));
	ASSERT_EQ(save_get(&r, TAG_TWO, UINT64_MAX), 0);
	ASSERT(!save_next_is(&r, TAG_TWO));
	ASSERT_OK(save_reader_end(&r));
	save_writer_deinit(&w);
}

TEST(long_contents_grow_the_buffer)
{
	struct save_writer w = {0};
	uint8_t *big = calloc(1, 1 << 20);
	struct save_reader r;
	size_t n;

	for (int i = 0; i < 5; i++)
		save_put_bytes(&w, TAG_RAW, big, 1 << 20);
	ASSERT_EQ(w.r, 0);
	r = reader_of(&w);
	for (int i = 0; i < 5; i++) {
		ASSERT(save_get_bytes(&r, TAG_RAW, &n));
		ASSERT_EQ(n, 1 << 20);
	}
	ASSERT_OK(save_reader_end(&r));
	/* Another tag than the one that is there. */
	r = reader_of(&w);
	ASSERT(!save_get_bytes(&r, TAG_TEXT, &n));
	ASSERT_ERR(r.r, EBADMSG);
	save_writer_deinit(&w);
	free(big);
}
