/* SPDX-License-Identifier: Apache-2.0 */
/* Channels: records arrive whole and in order, full ways take nothing and lose nothing, and neither side can harm the other. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/nic/soft/soft-ring.h"
#include "daemon/nic/soft/soft-shared.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

#define MOST 70000u
#define LARGEST (SOFT_WAY_BYTES - 8) /* a record of a whole way */

struct lab {
	struct soft_shared_channel *channel;
	int fd;
	struct soft_writer writer;
	struct soft_reader reader;
};

static void lab_init(struct lab *l)
{
	ASSERT_OK(soft_channel_new(&l->channel, &l->fd));
	soft_writer_init(&l->writer, l->channel, SOFT_WAY_REQUESTS);
	soft_reader_init(&l->reader, l->channel, SOFT_WAY_REQUESTS);
}

static void lab_deinit(struct lab *l)
{
	soft_channel_unmap(l->channel);
	close(l->fd);
}

/* Record `i` consists of its number and of bytes that follow from it. */
static uint32_t bytes_of(uint32_t i)
{
	return 4 + i * 2654435761u % (i % 7 ? 200 : MOST - 4);
}

static uint8_t byte_of(uint32_t i, uint32_t at)
{
	return (uint8_t)(i * 31 + at * 7);
}

static uint8_t *byte_at(const struct engine_piece pieces[2], uint32_t at)
{
	return at < pieces[0].bytes ? pieces[0].at + at : pieces[1].at + (at - pieces[0].bytes);
}

static int try_write(struct soft_writer *writer, uint32_t i)
{
	struct engine_piece pieces[2];
	int r = soft_writer_begin(writer, bytes_of(i), pieces);

	if (r < 0)
		return r;
	for (uint32_t at = 0; at < 4; at++)
		*byte_at(pieces, at) = (uint8_t)(i >> 8 * at);
	for (uint32_t at = 4; at < bytes_of(i); at++)
		*byte_at(pieces, at) = byte_of(i, at);
	soft_writer_commit(writer, bytes_of(i));
	return 0;
}

static void expect_record(const struct engine_piece pieces[2], uint32_t i)
{
	uint32_t number = 0;

	ASSERT_EQ(pieces[0].bytes + pieces[1].bytes, (size_t)bytes_of(i));
	for (uint32_t at = 0; at < 4; at++)
		number |= (uint32_t)*byte_at(pieces, at) << 8 * at;
	ASSERT_EQ(number, i);
	for (uint32_t at = 4; at < bytes_of(i); at++)
		ASSERT_EQ(*byte_at(pieces, at), byte_of(i, at));
}

/* Whether there was one. */
static bool try_read(struct soft_reader *reader, uint32_t i)
{
	struct engine_piece pieces[2];
	struct soft_ring_record *record;
	int r = soft_reader_next(reader, pieces, &record);

	ASSERT_GE(r, 0);
	if (r == 0)
		return false;
	expect_record(pieces, i);
	soft_reader_pass(reader, record);
	soft_reader_release(reader);
	return true;
}

#define N_RECORDS (test_is_full() ? 100000u : 5000u)

static void *write_all(void *arg)
{
	struct soft_writer *writer = arg;

	for (uint32_t i = 0; i < N_RECORDS;)
		if (try_write(writer, i) == 0)
			i++;
		else
			sched_yield();
	return NULL;
}

TEST(records_of_all_lengths_arrive_whole_and_in_order)
{
	pthread_t thread;
	struct lab l;

	lab_init(&l);
	ASSERT_OK(pthread_create(&thread, NULL, write_all, &l.writer));
	for (uint32_t i = 0; i < N_RECORDS;)
		if (try_read(&l.reader, i))
			i++;
		else
			sched_yield();
	ASSERT_OK(pthread_join(thread, NULL));
	ASSERT(!try_read(&l.reader, 0));
	ASSERT(soft_writer_is_done(&l.writer));
	lab_deinit(&l);
}

TEST(a_full_way_takes_nothing_and_its_writer_learns_of_room)
{
	struct engine_piece pieces[2];
	uint32_t n = 0;
	struct lab l;

	lab_init(&l);
	while (try_write(&l.writer, n) == 0)
		n++;
	ASSERT_ERR(soft_writer_begin(&l.writer, MOST, pieces), EAGAIN);
	ASSERT(!soft_writer_wants_room(&l.writer));
	ASSERT(!soft_reader_release(&l.reader)); /* nothing was read */
	for (uint32_t i = 0; i < n; i++) {
		struct soft_ring_record *record;

		ASSERT_EQ(soft_reader_next(&l.reader, pieces, &record), 1);
		expect_record(pieces, i);
		soft_reader_pass(&l.reader, record);
		ASSERT_EQ(soft_reader_release(&l.reader), i == 0); /* the writer learns of it once */
	}
	ASSERT_OK(try_write(&l.writer, n));
	ASSERT(try_read(&l.reader, n));
	lab_deinit(&l);
}

/* The bytes of a record that is in use stay as they are, and those behind it too; others may be given back before. */
TEST(bytes_in_use_are_not_written_over)
{
	struct soft_ring_record *record[2];
	struct engine_piece pieces[2][2];
	uint32_t n = 0;
	struct lab l;

	lab_init(&l);
	while (try_write(&l.writer, n) == 0)
		n++;
	for (uint32_t i = 0; i < 2; i++) {
		ASSERT_EQ(soft_reader_next(&l.reader, pieces[i], &record[i]), 1);
		engine_mem_ref(&record[i]->mem);
		soft_reader_pass(&l.reader, record[i]);
	}
	engine_mem_unref(&record[1]->mem);
	ASSERT(!soft_reader_release(&l.reader));
	ASSERT(!soft_reader_can_release(&l.reader));
	for (uint32_t i = 2; i < n; i++)
		ASSERT(try_read(&l.reader, i));
	ASSERT_ERR(try_write(&l.writer, n), EAGAIN);
	expect_record(pieces[0], 0);
	ASSERT(record[0]->mem.ops->pointer(&record[0]->mem, 3, 1) == byte_at(pieces[0], 3));
	engine_mem_unref(&record[0]->mem);
	ASSERT(soft_reader_can_release(&l.reader));
	soft_reader_release(&l.reader);
	ASSERT_OK(try_write(&l.writer, n));
	ASSERT(try_read(&l.reader, n));
	lab_deinit(&l);
}

TEST(a_reader_has_a_bounded_number_of_records)
{
	struct soft_ring_record *record, *first = NULL;
	struct engine_piece pieces[2];
	struct lab l;

	lab_init(&l);
	for (unsigned int i = 0; i < SOFT_MAX_RECORDS + 1; i++) {
		ASSERT_OK(soft_writer_begin(&l.writer, 8, pieces));
		soft_writer_commit(&l.writer, 8);
	}
	for (unsigned int i = 0; i < SOFT_MAX_RECORDS; i++) {
		ASSERT_EQ(soft_reader_next(&l.reader, pieces, &record), 1);
		first = first ? first : record;
		engine_mem_ref(&record->mem);
		soft_reader_pass(&l.reader, record);
	}
	ASSERT_EQ(soft_reader_next(&l.reader, pieces, &record), -EAGAIN);
	engine_mem_unref(&first->mem);
	soft_reader_release(&l.reader);
	ASSERT_EQ(soft_reader_next(&l.reader, pieces, &record), 1);
	lab_deinit(&l);
}

struct toggler {
	uint32_t *head;
	bool stop; /* atomic */
};

static void *toggle(void *arg)
{
	struct toggler *toggler = arg;

	while (!__atomic_load_n(&toggler->stop, __ATOMIC_RELAXED)) {
		__atomic_store_n(toggler->head, SOFT_RECORD_ALIGN, __ATOMIC_RELEASE);
		__atomic_store_n(toggler->head, SOFT_WAY_BYTES + 2 * SOFT_RECORD_ALIGN, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* A writer that means harm moves its head between the look and the step. */
TEST(what_is_skipped_was_checked)
{
	struct toggler toggler = {0};
	pthread_t thread;
	struct lab l;

	lab_init(&l);
	toggler.head = &l.reader.way->head;
	ASSERT_EQ(pthread_create(&thread, NULL, toggle, &toggler), 0);
	for (unsigned int i = 0; i < 1000000; i++) {
		soft_reader_init(&l.reader, l.channel, SOFT_WAY_REQUESTS);
		soft_reader_skip(&l.reader);
		ASSERT_LE(l.reader.next - l.reader.tail, SOFT_WAY_BYTES);
	}
	__atomic_store_n(&toggler.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(pthread_join(thread, NULL), 0);
	lab_deinit(&l);
}

TEST(what_is_skipped_is_given_back_behind_what_is_in_use)
{
	struct soft_ring_record *record;
	struct engine_piece pieces[2];
	struct lab l;

	lab_init(&l);
	for (uint32_t i = 0; i < 4; i++)
		ASSERT_OK(try_write(&l.writer, 1 + i));
	ASSERT_EQ(soft_reader_next(&l.reader, pieces, &record), 1);
	engine_mem_ref(&record->mem);
	soft_reader_pass(&l.reader, record);
	soft_reader_skip(&l.reader);
	ASSERT(!soft_reader_has_more(&l.reader));
	soft_reader_release(&l.reader);
	ASSERT(!soft_writer_is_done(&l.writer));
	engine_mem_unref(&record->mem);
	soft_reader_release(&l.reader);
	ASSERT(soft_writer_is_done(&l.writer));
	ASSERT_OK(try_write(&l.writer, 5));
	ASSERT(try_read(&l.reader, 5));
	lab_deinit(&l);
}

/* Positions and lengths that cannot be true, as a side with other intentions may write them. */
TEST(nonsense_of_the_other_side_is_refused)
{
	static const uint32_t heads[] = {1, 63, SOFT_WAY_BYTES + 64, 1u << 31, ~0u, ~63u};
	static const uint32_t tails[] = {128, 1, ~0u, 1u << 31};
	static const uint32_t lengths[] = {57, 64, SOFT_WAY_BYTES, ~0u, 1u << 31};
	struct engine_piece pieces[2];
	struct soft_ring_record *record;
	struct lab l;

	lab_init(&l);
	for (unsigned int i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		l.channel->ways[0].head = heads[i];
		ASSERT_EQ(soft_reader_next(&l.reader, pieces, &record), -EBADMSG);
		ASSERT_ERR(soft_reader_skip(&l.reader), EBADMSG);
	}
	l.channel->ways[0].head = 64;
	for (unsigned int i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		memcpy(l.channel->data[0], &lengths[i], 4);
		ASSERT_EQ(soft_reader_next(&l.reader, pieces, &record), -EBADMSG);
	}
	for (unsigned int i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		l.writer = (struct soft_writer){.way = l.writer.way, .data = l.writer.data};
		ASSERT_OK(soft_writer_begin(&l.writer, 8, pieces));
		soft_writer_commit(&l.writer, 8);
		l.channel->ways[0].tail = tails[i];
		/* Room is looked for when what was seen last is not enough. */
		ASSERT_ERR(soft_writer_begin(&l.writer, LARGEST, pieces), EBADMSG);
	}
	lab_deinit(&l);
}

/* Each step forward is for a record, so a writer that looks for room again ends, whatever the reader writes. */
TEST(a_reader_that_takes_room_back_is_refused)
{
	struct engine_piece pieces[2];
	struct lab l;

	lab_init(&l);
	for (unsigned int i = 0; i < 4; i++) {
		ASSERT_OK(soft_writer_begin(&l.writer, 8, pieces));
		soft_writer_commit(&l.writer, 8);
	}
	l.channel->ways[0].tail = 2 * SOFT_RECORD_ALIGN;
	ASSERT_ERR(soft_writer_begin(&l.writer, LARGEST, pieces), EAGAIN);
	l.channel->ways[0].tail = SOFT_RECORD_ALIGN;
	ASSERT_ERR(soft_writer_begin(&l.writer, LARGEST, pieces), EBADMSG);
	lab_deinit(&l);
}

/* Otherwise its writer would wait for room for ever. */
TEST(a_record_that_fits_no_way_is_refused_at_once)
{
	struct engine_piece pieces[2];
	struct lab l;

	lab_init(&l);
	ASSERT_ERR(soft_writer_begin(&l.writer, LARGEST + 1, pieces), EMSGSIZE);
	ASSERT_ERR(soft_writer_begin(&l.writer, UINT32_MAX, pieces), EMSGSIZE);
	ASSERT_OK(soft_writer_begin(&l.writer, LARGEST, pieces));
	soft_writer_commit(&l.writer, LARGEST);
	ASSERT_ERR(soft_writer_begin(&l.writer, LARGEST + 1, pieces), EMSGSIZE);
	ASSERT_ERR(soft_writer_begin(&l.writer, 8, pieces), EAGAIN);
	lab_deinit(&l);
}

#define N_KILLS (test_is_full() ? 200u : 30u)

/* It writes for ever, whatever happens. */
static void writing_process(int fd)
{
	struct soft_shared_channel *channel;
	struct soft_writer writer;

	if (soft_channel_map(fd, &channel) < 0)
		_exit(1);
	soft_writer_init(&writer, channel, SOFT_WAY_REQUESTS);
	for (uint32_t i = 0;;)
		if (try_write(&writer, i) == 0)
			i++;
		else if (soft_writer_wants_room(&writer))
			sched_yield();
}

/*
 * At whatever instruction: the reader has all records that were whole, and goes on with whoever comes next. Nobody waits for the one
 * that is gone.
 */
TEST(a_writing_process_that_is_killed_leaves_whole_records_and_holds_up_nobody)
{
	uint32_t n_all = 0;

	for (unsigned int kill_no = 0; kill_no < N_KILLS; kill_no++) {
		uint64_t begin, nsec = 200000 + kill_no * 77777 % 3000000;
		uint32_t i = 0;
		struct lab l;
		pid_t pid;

		lab_init(&l);
		pid = fork();
		ASSERT_GE(pid, 0);
		if (pid == 0)
			writing_process(l.fd);
		while (!try_read(&l.reader, 0))
			sched_yield();
		i++;
		for (begin = nsec_now(); nsec_now() - begin < nsec;)
			i += try_read(&l.reader, i);
		ASSERT_OK(kill(pid, SIGKILL));
		ASSERT_EQ(waitpid(pid, NULL, 0), pid);
		while (try_read(&l.reader, i))
			i++;
		n_all += i;
		lab_deinit(&l);
	}
	printf("# %u records of %u processes\n", n_all, N_KILLS);
}

/* The reader dies: its writer keeps what it has, and waits for nobody. */
TEST(a_reading_process_that_is_killed_leaves_a_way_that_is_full_at_most)
{
	uint32_t n = 0;
	struct lab l;
	pid_t pid;

	lab_init(&l);
	pid = fork();
	ASSERT_GE(pid, 0);
	if (pid == 0) {
		struct soft_shared_channel *channel;

		if (soft_channel_map(l.fd, &channel) < 0)
			_exit(1);
		soft_reader_init(&l.reader, channel, SOFT_WAY_REQUESTS);
		for (uint32_t i = 0;;)
			i += try_read(&l.reader, i);
	}
	/* More than a way holds. */
	for (; n < 64; n++)
		while (try_write(&l.writer, n) == -EAGAIN)
			sched_yield();
	ASSERT_OK(kill(pid, SIGKILL));
	ASSERT_EQ(waitpid(pid, NULL, 0), pid);
	while (try_write(&l.writer, n) == 0)
		n++;
	ASSERT_ERR(try_write(&l.writer, n), EAGAIN);
	ASSERT(!soft_writer_wants_room(&l.writer));
	lab_deinit(&l);
}

TEST(the_table_is_read_by_other_processes_and_written_by_none_of_them)
{
	struct soft_shared *shared, *other;
	uint32_t number;
	int fd, status;
	pid_t pid;

	ASSERT_OK(soft_shared_new(&shared, &fd));
	ASSERT_OK(soft_shared_numbers_init(&shared->ports[63].qpns));
	ASSERT_OK(soft_shared_number_alloc(&shared->ports[63].qpns, 200, &number));
	ASSERT(mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	ASSERT_ERR(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) < 0 ? -errno : 0, EPERM);
	pid = fork();
	ASSERT_GE(pid, 0);
	if (pid == 0) {
		if (soft_shared_map(fd, &other) < 0 || soft_shared_number_exec(&other->ports[63].qpns, number) != 200)
			_exit(1);
		_exit(mprotect(other, sizeof(*other), PROT_READ | PROT_WRITE) == 0);
	}
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
	ASSERT_ERR(soft_channel_map(fd, (struct soft_shared_channel **)&other), EBADF);
	soft_shared_unmap(shared);
	close(fd);
}

TEST(a_part_is_written_by_its_process_and_read_by_others)
{
	struct soft_shared_part *own, *theirs;
	int fd, status;
	pid_t pid;

	ASSERT_OK(soft_part_memfd(&fd));
	ASSERT_OK(soft_part_map(fd, false, &theirs));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (pid == 0) {
		if (soft_part_map(fd, true, &own) < 0)
			_exit(1);
		__atomic_store_n(&own->lanes[63].asleep, 1, __ATOMIC_SEQ_CST);
		_exit(0);
	}
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
	ASSERT_EQ(theirs->lanes[63].asleep, 1u);
	ASSERT_OK(soft_part_map(fd, true, &own));
	ASSERT(soft_shared_lane_ring(&own->lanes[63]));
	ASSERT_EQ(theirs->lanes[63].bell, 1u);
	ASSERT(!soft_shared_lane_ring(&own->lanes[63])); /* it is awake, or will be */
	soft_part_unmap(own);
	soft_part_unmap(theirs);
	close(fd);
}
