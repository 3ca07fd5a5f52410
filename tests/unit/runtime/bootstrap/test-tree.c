/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's tree, whose neighbours are this test: frames in the orders that real ranks seldom have. */
#include "tests/lib/test.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/address.h"
#include "libclient/runtime/bootstrap/knock.h"
#include "libclient/runtime/bootstrap/meet.h"
#include "libclient/runtime/bootstrap/members.h"
#include "libclient/runtime/bootstrap/own-fds.h"
#include "proto/base/nsec.h"
#include "tests/unit/runtime/bootstrap/job.h"

static struct tree *tree;
static struct link *neighbour;

/* Rank 1 of 3, below rank 0. */
static void make_rank_1(void)
{
	struct tree_attr attr = {.rank = 1, .size = 3, .place = 1, .timeout_nsec = test_patience_nsec()};
	int fds[2];

	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds));
	neighbour = link_new(fds[0], 1, 3);
	attr.parent = link_new(fds[1], 0, 3);
	ASSERT(neighbour && attr.parent);
	ASSERT_OK(tree_new(&attr, &tree));
}

static int come_as(const struct job *job, unsigned int rank)
{
	struct uid_parts parts;
	uint8_t secret[UID_SECRET_BYTES];
	struct knock as = {.secret = secret, .addresses = parts.addresses, .n_addresses = 1, .n_ports = 1, .who = "rank 0",
			   .deadline = nsec_now() + test_patience_nsec(),
			   .hello = {.purpose = WIRE_JOIN, .rank = rank, .size = (unsigned int)job->size}};
	struct wire_reply reply;
	int fd;

	ASSERT_OK(uid_unpack(&job->uid, &parts));
	uid_world_secret(parts.secret, 0, secret);
	snprintf(as.hello.version, sizeof(as.hello.version), "%s", shmd_version());
	memcpy(as.hello.instance, &rank, sizeof(rank));
	fd = knock(&as, &reply);
	ASSERT_GE(fd, 0);
	ASSERT_EQ(reply.place, rank);
	return fd;
}

/* Rank 0, and the connection of rank 1. */
static void make_rank_0(struct job *job)
{
	struct meet how = {.size = (unsigned int)job->size, .uid = &job->uid, .timeout_nsec = test_patience_nsec(),
			   .deadline = nsec_now() + test_patience_nsec(), .version = shmd_version()};

	ASSERT_OK(meet(&how, &tree));
	neighbour = link_new(come_as(job, 1), 0, how.size);
	ASSERT(neighbour);
}

static void say(const struct frame *frame)
{
	int err;

	ASSERT_OK(link_send(neighbour, frame));
	while ((err = link_flush(neighbour)) == -EAGAIN)
		poll(&(struct pollfd){.fd = neighbour->fd, .events = POLLOUT}, 1, 1000);
	ASSERT_OK(err);
}

/* The next frame within this time; false: none. */
static bool hear(struct frame *frame, uint64_t nsec)
{
	uint64_t end = nsec_now() + nsec;
	int n;

	while (!(n = link_receive(neighbour, frame)) && nsec_now() < end)
		poll(&(struct pollfd){.fd = neighbour->fd, .events = POLLIN}, 1, 10);
	ASSERT_GE(n, 0);
	return n;
}

static void must_hear(uint8_t type, struct frame *frame)
{
	ASSERT(hear(frame, test_patience_nsec()));
	ASSERT_EQ(frame->type, type);
}

struct caller {
	pthread_t thread;
	int err;
	char text[JOB_TEXT_BYTES];
};

static int call(void)
{
	uint8_t *all = NULL;
	uint32_t bytes;
	int err = tree_call(tree, COLLECT_GATHER, "x", 1, 1, nsec_now() + test_patience_nsec(), &all, &bytes);

	if (!err) {
		ASSERT_EQ(bytes, 3);
		ASSERT_MEMEQ(all, "xyz", 3);
		free(all);
	}
	return err;
}

static void *call_once(void *arg)
{
	struct caller *caller = arg;

	caller->err = call();
	snprintf(caller->text, sizeof(caller->text), "%s", caller->err ? shmd_error_text() : "");
	return NULL;
}

static void begin_call(struct caller *caller)
{
	struct frame frame;

	ASSERT_EQ(pthread_create(&caller->thread, NULL, call_once, caller), 0);
	must_hear(FRAME_SHARE, &frame);
	free(frame.body);
}

static void end(void)
{
	link_free(neighbour);
	tree_free(tree);
}

TEST(a_goodbye_that_comes_before_the_result_of_its_rank_s_last_call_does_not_end_that_call)
{
	struct frame bye = {.type = FRAME_BYE, .rank = 2, .seq = 1};
	struct frame result = {.type = FRAME_RESULT, .kind = COLLECT_GATHER, .bytes = 3, .body = (uint8_t *)"xyz"};
	struct caller caller;

	make_rank_1();
	begin_call(&caller);
	say(&bye);
	/* The rank has time to make a mistake. */
	usleep(50000);
	say(&result);
	pthread_join(caller.thread, NULL);
	ASSERT_OK(caller.err);
	ASSERT_ERR(call(), ESHUTDOWN);
	ASSERT_STREQ(shmd_error_text(), "rank 2 has closed its bootstrap");
	ASSERT_EQ(tree_blame(tree).n, 1);
	ASSERT_EQ(tree_blame(tree).rank, 2);
	end();
}

TEST(a_goodbye_of_a_rank_that_has_not_made_the_call_ends_it)
{
	struct frame bye = {.type = FRAME_BYE, .rank = 2};
	struct caller caller;

	make_rank_1();
	begin_call(&caller);
	say(&bye);
	pthread_join(caller.thread, NULL);
	ASSERT_ERR(caller.err, ESHUTDOWN);
	end();
}

TEST(a_rank_without_memory_for_a_frame_says_so_and_reports_no_neighbour_dead)
{
	size_t bytes = 64 << 20;
	uint8_t *body = calloc(1, bytes);
	struct frame result = {.type = FRAME_RESULT, .kind = COLLECT_GATHER, .bytes = (uint32_t)bytes, .body = body}, frame;
	struct rlimit none = {.rlim_cur = 1 << 20, .rlim_max = RLIM_INFINITY}, before;
	struct caller caller;

	if (test_has_sanitizer() || test_emulator())
		test_skip("a sanitizer needs more address space than the limit of this test leaves, and an emulator keeps to none");
	make_rank_1();
	begin_call(&caller);
	ASSERT_OK(link_send(neighbour, &result));
	getrlimit(RLIMIT_AS, &before);
	none.rlim_max = before.rlim_max;
	ASSERT_OK(setrlimit(RLIMIT_AS, &none));
	say(&(struct frame){.type = FRAME_BYE, .rank = 2, .seq = 1});
	pthread_join(caller.thread, NULL);
	ASSERT_OK(setrlimit(RLIMIT_AS, &before));
	ASSERT_ERR(caller.err, ENOMEM);
	ASSERT_STREQ(caller.text, "rank 1 has no memory for a message of the bootstrap");
	/* Rank 0 learns it, and the frames after the large one count. */
	must_hear(FRAME_FAIL, &frame);
	ASSERT_EQ((int32_t)frame.value, -ENOMEM);
	free(frame.body);
	ASSERT(!hear(&frame, 100 * NSEC_PER_MSEC));
	free(body);
	end();
}

TEST(a_share_that_comes_after_the_end_of_its_call_makes_no_result)
{
	struct frame share = {.type = FRAME_SHARE, .kind = COLLECT_GATHER, .rank = 1, .value = 1, .bytes = 1, .body = (uint8_t *)"y"};
	struct caller caller;
	struct frame frame;
	struct job job;

	job_init(&job, 2, NULL);
	make_rank_0(&job);
	ASSERT_EQ(pthread_create(&caller.thread, NULL, call_once, &caller), 0);
	usleep(100000);
	say(&(struct frame){.type = FRAME_LATE, .rank = 1});
	must_hear(FRAME_FAIL, &frame);
	free(frame.body);
	say(&share);
	ASSERT(!hear(&frame, 200 * NSEC_PER_MSEC));
	pthread_join(caller.thread, NULL);
	ASSERT_ERR(caller.err, ETIMEDOUT);
	end();
}

static void *call_alltoall(void *arg)
{
	uint8_t *row;
	uint32_t bytes;

	ASSERT_OK(tree_call(tree, COLLECT_ALLTOALL, "0123456789", 10, 1, nsec_now() + test_patience_nsec(), &row, &bytes));
	free(row);
	return NULL;
}

static void share_alltoall(struct link *link, unsigned int rank)
{
	struct frame share = {.type = FRAME_SHARE, .kind = COLLECT_ALLTOALL, .rank = rank, .value = 1, .bytes = 10,
			      .body = (uint8_t *)"0123456789"};

	ASSERT_OK(link_send(link, &share));
	ASSERT_OK(link_flush(link));
}

TEST(the_row_of_a_rank_comes_after_those_of_the_ranks_below_it)
{
	struct link *others[9];
	struct frame frame;
	pthread_t thread;
	struct job job;

	job_init(&job, 10, NULL);
	make_rank_0(&job);
	for (unsigned int rank = 2; rank <= 8; rank++) {
		others[rank] = link_new(come_as(&job, rank), 0, 10);
		ASSERT(others[rank]);
	}
	/* Rank 9 is below rank 1. */
	own_fd_close(come_as(&job, 9));
	ASSERT_EQ(pthread_create(&thread, NULL, call_alltoall, NULL), 0);
	for (unsigned int rank = 2; rank <= 8; rank++)
		share_alltoall(others[rank], rank);
	share_alltoall(neighbour, 1);
	share_alltoall(neighbour, 9);
	for (int i = 0; i < 2; i++) {
		must_hear(FRAME_ROW, &frame);
		ASSERT_EQ(frame.rank, i ? 1 : 9);
		free(frame.body);
	}
	pthread_join(thread, NULL);
	for (unsigned int rank = 2; rank <= 8; rank++)
		link_free(others[rank]);
	end();
}

/* ---- a job that is open ------------------------------------------------------------------------------------------------------ */

static int n_gone;

static void count_gone(void *arg, int rank, const char *why)
{
	__atomic_add_fetch(&n_gone, 1, __ATOMIC_SEQ_CST);
}

static void *open_job(void *arg)
{
	uint8_t *all;
	uint32_t bytes;

	ASSERT_OK(tree_call(tree, COLLECT_OPEN, "x", 1, 1, nsec_now() + test_patience_nsec(), &all, &bytes));
	free(all);
	return NULL;
}

/* Rank 0 of 2, open; the port where it listens from then on. */
static unsigned int make_open_job(struct job *job)
{
	struct frame share = {.type = FRAME_SHARE, .kind = COLLECT_OPEN, .rank = 1, .value = 1, .bytes = 1, .body = (uint8_t *)"y"};
	struct frame frame;
	pthread_t thread;
	unsigned int port;

	job_init(job, 2, NULL);
	make_rank_0(job);
	ASSERT_EQ(pthread_create(&thread, NULL, open_job, NULL), 0);
	say(&share);
	must_hear(FRAME_BOOK, &frame);
	ASSERT_EQ(frame.bytes, 2 * MEMBERS_ENTRY_BYTES);
	port = frame.body[4] | (unsigned int)frame.body[5] << 8;
	free(frame.body);
	must_hear(FRAME_RESULT, &frame);
	free(frame.body);
	pthread_join(thread, NULL);
	n_gone = 0;
	tree_watch(tree, count_gone, NULL);
	return port;
}

static int listen_again(const struct job *job)
{
	struct uid_parts parts;
	uint16_t port;
	int fd;

	ASSERT_OK(uid_unpack(&job->uid, &parts));
	fd = listen_at(&parts.addresses[0], 1, &port);
	ASSERT_GE(fd, 0);
	return own_fd_adopt(fd);
}

/* The connection, or what rank 0 or the way to it says. */
static int ask_to_mend(const struct job *job, unsigned int port, unsigned int rank, unsigned int place, uint8_t wrong, int *ret_error)
{
	struct uid_parts parts;
	uint8_t secret[UID_SECRET_BYTES];
	struct knock as = {.secret = secret, .addresses = parts.addresses, .n_addresses = 1, .n_ports = 1, .who = "rank 0",
			   .deadline = nsec_now() + (wrong ? 100 * NSEC_PER_MSEC : test_patience_nsec()),
			   .hello = {.purpose = WIRE_MEND, .rank = rank, .size = 2, .place = place}};
	struct wire_reply reply = {0};
	int fd;

	ASSERT_OK(uid_unpack(&job->uid, &parts));
	parts.addresses[0].in.sin_port = htons((uint16_t)port);
	uid_world_secret(parts.secret, 0, secret);
	secret[3] ^= wrong;
	fd = knock(&as, &reply);
	*ret_error = fd < 0 ? fd : reply.error;
	return fd;
}

TEST(an_open_job_takes_back_its_ranks_alone)
{
	struct job job;
	unsigned int port = make_open_job(&job);
	int fd, error;

	ASSERT_LT(ask_to_mend(&job, port, 1, 1, 1, &error), 0);
	own_fd_close(ask_to_mend(&job, port, 0, 0, 0, &error));
	ASSERT_ERR(error, EEXIST);
	own_fd_close(ask_to_mend(&job, port, 1, 0, 0, &error));
	ASSERT_ERR(error, EEXIST);
	fd = ask_to_mend(&job, port, 1, 1, 0, &error);
	ASSERT_GE(fd, 0);
	ASSERT_OK(error);
	own_fd_close(fd);
	/* The port of the opening is free for another job. */
	own_fd_close(listen_again(&job));
	end();
}

TEST(a_rank_is_dead_only_if_its_connection_ends_after_it_spoke)
{
	struct frame moved = {.type = FRAME_MOVED, .rank = 1, .value = 0, .seq = 1}, frame;
	struct job job;
	unsigned int port = make_open_job(&job);
	struct link *first = neighbour;
	int error;

	for (int speaks = 0; speaks < 2; speaks++) {
		neighbour = link_new(ask_to_mend(&job, port, 1, 1, 0, &error), 0, 2);
		ASSERT(neighbour);
		must_hear(FRAME_MOVED, &frame);
		if (speaks)
			say(&moved);
		link_free(neighbour);
		for (int i = 0; i < 3000 && __atomic_load_n(&n_gone, __ATOMIC_SEQ_CST) < speaks; i++)
			usleep(10000);
		usleep(50000);
		ASSERT_EQ(__atomic_load_n(&n_gone, __ATOMIC_SEQ_CST), speaks);
	}
	link_free(first);
	tree_free(tree);
}

static void *close_tree(void *arg)
{
	tree_free(tree);
	return NULL;
}

TEST(a_close_waits_for_the_first_words_of_a_rank_that_has_just_come)
{
	struct frame moved = {.type = FRAME_MOVED, .rank = 1, .value = 0, .seq = 1}, frame;
	struct job job;
	unsigned int port = make_open_job(&job);
	struct link *first = neighbour;
	pthread_t thread;
	int error;

	neighbour = link_new(ask_to_mend(&job, port, 1, 1, 0, &error), 0, 2);
	ASSERT(neighbour);
	must_hear(FRAME_MOVED, &frame);
	ASSERT_EQ(pthread_create(&thread, NULL, close_tree, NULL), 0);
	ASSERT(!hear(&frame, 100 * NSEC_PER_MSEC));
	say(&moved);
	must_hear(FRAME_BYE, &frame);
	link_free(neighbour);
	link_free(first);
	pthread_join(thread, NULL);
}

static uint64_t cpu_nsec(void)
{
	struct timespec at;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
	return nsec_from_timespec(&at);
}

/* It has shut the connection to the one when the other's goodbye comes, which it cannot pass on. */
TEST_WAITS(a_close_that_waits_for_a_slow_rank_leaves_the_cpu_to_others, TEST_DEFAULT_TIMEOUT_SEC)
{
	struct frame bye = {.type = FRAME_BYE, .rank = 1}, frame;
	struct link *slow;
	uint64_t before;
	pthread_t thread;
	struct job job;

	job_init(&job, 3, NULL);
	make_rank_0(&job);
	slow = link_new(come_as(&job, 2), 0, 3);
	ASSERT(slow);
	ASSERT_EQ(pthread_create(&thread, NULL, close_tree, NULL), 0);
	must_hear(FRAME_BYE, &frame);
	usleep(100000);
	say(&bye);
	before = cpu_nsec();
	pthread_join(thread, NULL);
	ASSERT_LT(cpu_nsec() - before, 200 * NSEC_PER_MSEC);
	link_free(neighbour);
	link_free(slow);
}

TEST(a_book_that_is_no_book_of_this_job_is_refused)
{
	uint8_t book[3 * MEMBERS_ENTRY_BYTES], bad[sizeof(book)];
	union address at = {.in = {.sin_family = AF_INET, .sin_port = htons(7), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
	struct members *members;
	unsigned int above;

	for (unsigned int rank = 0; rank < 3; rank++)
		members_write_entry(book + (size_t)rank * MEMBERS_ENTRY_BYTES, rank ? 3 - rank : 0, &at);
	ASSERT_OK(members_new(book, sizeof(book), 3, &members));
	ASSERT_EQ(members->all[1].place, 2);
	ASSERT_EQ(members->by_place[2], 1);
	ASSERT(members_candidate(members, 1, 0, &above) && above == 0);
	ASSERT(members_candidate(members, 1, 2, &above) && above == 2);
	ASSERT(!members_candidate(members, 1, 3, &above));
	at = members_address(members, 1, &at);
	ASSERT_EQ(ntohs(at.in.sin_port), 7);
	members_free(members);
	ASSERT_ERR(members_new(book, sizeof(book) - 1, 3, &members), EPROTO);
	for (int how = 0; how < 4; how++) {
		memcpy(bad, book, sizeof(book));
		bad[how == 2 ? 0 : MEMBERS_ENTRY_BYTES] = how == 0 ? 1 : how == 1 ? 3 : how == 2 ? 1 : 2;
		if (how == 3)
			bad[MEMBERS_ENTRY_BYTES + 6] = 5;
		ASSERT_ERR(members_new(bad, sizeof(bad), 3, &members), EPROTO);
	}
}

/* ---- a rank that ends behind a call -------------------------------------------------------------------------------------------- */

/* Rank 1 of 10, and the connection of rank 9, which is below it. */
static struct link *make_rank_1_above_9(void)
{
	struct tree_attr attr = {.rank = 1, .size = 10, .place = 1, .timeout_nsec = test_patience_nsec()};
	uint8_t secret[UID_SECRET_BYTES];
	struct uid_parts parts;
	struct knock as = {.secret = secret, .addresses = parts.addresses, .n_addresses = 1, .n_ports = 1, .who = "rank 1",
			   .deadline = nsec_now() + test_patience_nsec(),
			   .hello = {.purpose = WIRE_LINK, .rank = 9, .size = 10, .place = 9}};
	struct wire_reply reply;
	struct job job;
	int fds[2];

	job_init(&job, 10, NULL);
	bootstrap_uid_drop(&job.uid);
	ASSERT_OK(uid_unpack(&job.uid, &parts));
	uid_world_secret(parts.secret, 0, secret);
	ASSERT_OK(gate_new(listen_again(&job), secret, &attr.gate));
	attr.secret = secret;
	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds));
	neighbour = link_new(fds[0], 1, 10);
	attr.parent = link_new(fds[1], 0, 10);
	ASSERT_OK(tree_new(&attr, &tree));
	return link_new(knock(&as, &reply), 1, 10);
}

struct held {
	struct caller *caller;
	struct link *child;
	bool child_knows;
};

/* On the thread of the tree, which does nothing else until the call has returned. */
static void hold_the_tree(void *arg, int rank, const char *why)
{
	struct held *held = arg;

	if (rank != 5)
		return;
	pthread_join(held->caller->thread, NULL);
	held->child_knows = poll(&(struct pollfd){.fd = held->child->fd, .events = POLLIN}, 1, 1000) == 1;
}

/* In one piece, so that one turn of the tree takes both. */
static void say_at_once(const struct frame *first, const struct frame *second)
{
	uint8_t bytes[2 * FRAME_HEAD_BYTES + 3];

	ASSERT_EQ(first->bytes, 3);
	frame_write_head(first, bytes);
	memcpy(bytes + FRAME_HEAD_BYTES, first->body, 3);
	frame_write_head(second, bytes + FRAME_HEAD_BYTES + 3);
	ASSERT_EQ(send(neighbour->fd, bytes, sizeof(bytes), MSG_NOSIGNAL), (ssize_t)sizeof(bytes));
}

TEST_WAITS(a_call_that_has_returned_ends_well_below_even_if_this_rank_dies_at_once, TEST_DEFAULT_TIMEOUT_SEC)
{
	struct frame result = {.type = FRAME_RESULT, .kind = COLLECT_GATHER, .bytes = 3, .body = (uint8_t *)"xyz"};
	struct frame gone = {.type = FRAME_GONE, .rank = 5};
	struct caller caller;
	struct held held = {.caller = &caller, .child = make_rank_1_above_9()};

	ASSERT(held.child);
	tree_watch(tree, hold_the_tree, &held);
	begin_call(&caller);
	say_at_once(&result, &gone);
	while (!tree_blame(tree).n)
		usleep(1000);
	end();
	ASSERT_OK(caller.err);
	ASSERT(held.child_knows);
	link_free(held.child);
}
