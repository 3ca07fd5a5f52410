/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways of a channel, written and read. Any thread that is the only one on its side.
 *
 * A full way: the writer sets `wants_room` and looks at `tail` once more; the reader moves `tail` and then looks at `wants_room`.
 * Both are sequentially consistent, so one of the two sees the other.
 */
#include "daemon/nic/soft/soft-ring.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/nic/nic.h"
#include "proto/base/assert.h"
#include "proto/base/cleanup.h"

#define WAY_MASK (SOFT_WAY_BYTES - 1)

/* In front of the bytes of a record. */
struct prefix {
	uint32_t bytes;
	uint32_t zero;
};

_Static_assert(sizeof(struct prefix) == sizeof(uint64_t), "it is read by one load");
_Static_assert(sizeof(struct prefix) < SOFT_RECORD_ALIGN, "it never goes round");

int soft_channel_new(struct soft_shared_channel **ret_channel, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	void *map;
	int r = nic_mem_create("shmd-channel", sizeof(struct soft_shared_channel), 0, &fd, &map);

	if (r < 0)
		return r;
	*ret_channel = map;
	if (ret_fd)
		*ret_fd = take_fd(&fd);
	return 0;
}

int soft_channel_memfd(int *ret_fd)
{
	return nic_memfd_new("shmd-channel", sizeof(struct soft_shared_channel), ret_fd);
}

int soft_channel_map(int fd, struct soft_shared_channel **ret_channel)
{
	void *map;
	int r = nic_mem_view(fd, sizeof(struct soft_shared_channel), true, &map);

	if (r == 0)
		*ret_channel = map;
	return r;
}

struct soft_shared_channel *soft_channel_unmap(struct soft_shared_channel *channel)
{
	if (channel)
		munmap(channel, sizeof(*channel));
	return NULL;
}

uint32_t soft_record_bytes(uint32_t bytes)
{
	return (bytes + (uint32_t)sizeof(struct prefix) + SOFT_RECORD_ALIGN - 1) & ~(SOFT_RECORD_ALIGN - 1);
}

/* From a position on, in one piece or two. */
static void pieces_at(uint8_t *data, uint32_t at, uint32_t bytes, struct engine_piece pieces[2])
{
	uint32_t offset = at & WAY_MASK, first = SOFT_WAY_BYTES - offset;

	if (first > bytes)
		first = bytes;
	pieces[0] = (struct engine_piece){data + offset, first};
	pieces[1] = (struct engine_piece){data, bytes - first};
}

/* ---- writing ----------------------------------------------------------------------------------------------------------- */

void soft_writer_init(struct soft_writer *writer, struct soft_shared_channel *channel, enum soft_way way)
{
	*writer = (struct soft_writer){.way = &channel->ways[way], .data = channel->data[way]};
}

static bool has_room(const struct soft_writer *writer, uint32_t bytes)
{
	return SOFT_WAY_BYTES - (writer->head - writer->tail) >= bytes;
}

/* It never goes back: then a reader could have its writer look for room for ever. */
static int look_for_room(struct soft_writer *writer)
{
	uint32_t tail = __atomic_load_n(&writer->way->tail, __ATOMIC_ACQUIRE);

	if (tail - writer->tail > writer->head - writer->tail || tail % SOFT_RECORD_ALIGN)
		return -EBADMSG;
	writer->tail = tail;
	return 0;
}

int soft_writer_begin(struct soft_writer *writer, uint32_t bytes, struct engine_piece ret_pieces[2])
{
	struct prefix prefix = {.bytes = bytes};
	uint32_t whole = soft_record_bytes(bytes);
	int r;

	if (bytes > SOFT_WAY_BYTES - sizeof(prefix))
		return -EMSGSIZE;
	if (!has_room(writer, whole)) {
		r = look_for_room(writer);
		if (r < 0)
			return r;
		if (!has_room(writer, whole))
			return -EAGAIN;
	}
	memcpy(writer->data + (writer->head & WAY_MASK), &prefix, sizeof(prefix));
	pieces_at(writer->data, writer->head + (uint32_t)sizeof(prefix), bytes, ret_pieces);
	return 0;
}

void soft_writer_commit(struct soft_writer *writer, uint32_t bytes)
{
	writer->head += soft_record_bytes(bytes);
	__atomic_store_n(&writer->way->head, writer->head, __ATOMIC_RELEASE);
}

bool soft_writer_wants_room(struct soft_writer *writer)
{
	__atomic_store_n(&writer->way->wants_room, 1, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&writer->way->tail, __ATOMIC_SEQ_CST) != writer->tail;
}

bool soft_writer_is_done(const struct soft_writer *writer)
{
	return __atomic_load_n(&writer->way->tail, __ATOMIC_ACQUIRE) == writer->head;
}

/* ---- reading ----------------------------------------------------------------------------------------------------------- */

static void *record_pointer(struct engine_mem *mem, uint64_t offset, size_t bytes)
{
	const struct soft_ring_record *record = container_of(mem, struct soft_ring_record, mem);

	return record->reader->data + ((record->begin + (uint32_t)offset) & WAY_MASK);
}

static void record_free(struct engine_mem *mem)
{
	struct soft_ring_record *record = container_of(mem, struct soft_ring_record, mem);
	struct soft_reader *reader = record->reader;

	record->is_used = false;
	if (reader->has_news)
		*reader->has_news = true;
	if (--reader->n_used == 0 && reader->unused)
		reader->unused(reader);
}

static const struct engine_mem_ops record_ops = {.pointer = record_pointer, .free = record_free};

void soft_reader_init(struct soft_reader *reader, struct soft_shared_channel *channel, enum soft_way way)
{
	memset(reader, 0, sizeof(*reader));
	reader->way = &channel->ways[way];
	reader->data = channel->data[way];
}

/* How much was written and not read, or -EBADMSG. */
static int64_t unread(const struct soft_reader *reader)
{
	uint32_t n = __atomic_load_n(&reader->way->head, __ATOMIC_ACQUIRE) - reader->next;

	return n <= SOFT_WAY_BYTES - (reader->next - reader->tail) && n % SOFT_RECORD_ALIGN == 0 ? (int64_t)n : -EBADMSG;
}

bool soft_reader_has_more(const struct soft_reader *reader)
{
	return __atomic_load_n(&reader->way->head, __ATOMIC_ACQUIRE) != reader->next;
}

/* Once: what is checked is what is used. */
static struct prefix read_prefix(const struct soft_reader *reader)
{
	const void *at = reader->data + (reader->next & WAY_MASK);
	uint64_t word = __atomic_load_n((const uint64_t *)at, __ATOMIC_RELAXED);
	struct prefix prefix;

	memcpy(&prefix, &word, sizeof(prefix));
	return prefix;
}

int soft_reader_next(struct soft_reader *reader, struct engine_piece ret_pieces[2], struct soft_ring_record **ret_record)
{
	int64_t left = unread(reader);
	struct soft_ring_record *record;
	struct prefix prefix;

	if (left <= 0)
		return (int)left;
	if (reader->behind - reader->first == SOFT_MAX_RECORDS)
		return -EAGAIN;
	prefix = read_prefix(reader);
	if (prefix.zero || prefix.bytes > left - (int64_t)sizeof(prefix))
		return -EBADMSG;
	record = &reader->records[reader->behind % SOFT_MAX_RECORDS];
	record->reader = reader;
	record->begin = reader->next + (uint32_t)sizeof(prefix);
	record->end = reader->next + soft_record_bytes(prefix.bytes);
	engine_mem_init(&record->mem, &record_ops, prefix.bytes);
	pieces_at(reader->data, record->begin, prefix.bytes, ret_pieces);
	*ret_record = record;
	return 1;
}

void soft_reader_pass(struct soft_reader *reader, struct soft_ring_record *record)
{
	reader->next = record->end;
	reader->behind++;
	record->is_used = __atomic_load_n(&record->mem.refs, __ATOMIC_RELAXED) > 1;
	if (!record->is_used)
		return;
	reader->n_used++;
	engine_mem_unref(&record->mem);
}

int soft_reader_skip(struct soft_reader *reader)
{
	int64_t left = unread(reader);

	if (left < 0)
		return (int)left;
	/* The head may have moved on since it was checked. */
	reader->next += (uint32_t)left;
	if (reader->behind != reader->first)
		reader->records[(reader->behind - 1) % SOFT_MAX_RECORDS].end = reader->next;
	return 0;
}

bool soft_reader_can_release(const struct soft_reader *reader)
{
	return reader->first != reader->behind && !reader->records[reader->first % SOFT_MAX_RECORDS].is_used;
}

bool soft_reader_release(struct soft_reader *reader)
{
	uint32_t tail = reader->tail;

	while (reader->first != reader->behind && !reader->records[reader->first % SOFT_MAX_RECORDS].is_used)
		tail = reader->records[reader->first++ % SOFT_MAX_RECORDS].end;
	if (reader->first == reader->behind)
		tail = reader->next;
	if (tail == reader->tail)
		return false;
	reader->tail = tail;
	__atomic_store_n(&reader->way->tail, tail, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&reader->way->wants_room, __ATOMIC_SEQ_CST) &&
	       __atomic_exchange_n(&reader->way->wants_room, 0, __ATOMIC_SEQ_CST);
}
