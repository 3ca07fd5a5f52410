/* SPDX-License-Identifier: Apache-2.0 */
/* The doorbell poller: what it decides, which queues a doorbell makes it look at, and how its thread sleeps and wakes. */
#include "daemon/nic/doorbell-poll.h"

#include <endian.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

#define PATIENCE_NSEC (20 * NSEC_PER_SEC)
#define N_QUEUES 100u
#define QPN 0x100u /* of the first queue */

struct lab {
	struct doorbell_poll poll; /* first */
	struct nic_page nic_page;
	struct doorbell_page page;
	struct nic_doorbell doorbell;
	uint32_t asleep; /* atomic */
	int wake_fd;
	uint32_t snd_be[N_QUEUES];
	struct doorbell_queue queues[N_QUEUES];

	/* written by the callbacks */
	uint32_t rung[N_QUEUES]; /* atomic: how often */
	uint32_t order[4 * N_QUEUES]; /* which, in the order of rings */
	uint32_t n_rung; /* atomic */
	uint32_t n_turns, n_looks; /* atomic */
	uint64_t deadline_nsec; /* atomic */
	bool is_busy, rests; /* atomic: what the next turn says */
};

static bool turn(struct doorbell_poll *poll)
{
	struct lab *lab = container_of(poll, struct lab, poll);

	if (list_empty(&lab->page.link))
		ASSERT_OK(doorbell_page_attach(&lab->page));
	__atomic_fetch_add(&lab->n_turns, 1, __ATOMIC_RELAXED);
	poll->is_resting = __atomic_load_n(&lab->rests, __ATOMIC_RELAXED);
	return doorbell_poll_look(poll) || __atomic_load_n(&lab->is_busy, __ATOMIC_RELAXED);
}

static bool last_look(struct doorbell_poll *poll)
{
	struct lab *lab = container_of(poll, struct lab, poll);

	ASSERT(__atomic_load_n(&lab->nic_page.told->asleep, __ATOMIC_RELAXED));
	ASSERT(__atomic_load_n(&lab->asleep, __ATOMIC_RELAXED));
	__atomic_fetch_add(&lab->n_looks, 1, __ATOMIC_RELAXED);
	return doorbell_poll_look(poll);
}

static uint64_t deadline(struct doorbell_poll *poll)
{
	return __atomic_load_n(&container_of(poll, struct lab, poll)->deadline_nsec, __ATOMIC_ACQUIRE);
}

static struct doorbell_queue *find(struct doorbell_page *page, uint32_t qpn)
{
	struct lab *lab = container_of(page, struct lab, page);
	uint32_t i = qpn - QPN;

	return i < N_QUEUES && lab->queues[i].snd_be ? &lab->queues[i] : NULL;
}

static void ring(struct doorbell_page *page, struct doorbell_queue *queue)
{
	struct lab *lab = container_of(page, struct lab, page);
	uint32_t n = __atomic_load_n(&lab->n_rung, __ATOMIC_RELAXED);

	if (n < sizeof(lab->order) / sizeof(lab->order[0]))
		lab->order[n] = queue->qpn - QPN;
	__atomic_fetch_add(&lab->rung[queue->qpn - QPN], 1, __ATOMIC_RELEASE);
	__atomic_store_n(&lab->n_rung, n + 1, __ATOMIC_RELEASE);
}

static const struct doorbell_ops ops = {turn, last_look, deadline, find, ring};

/* A page whose poller no thread runs yet. */
static void lab_init(struct lab *lab, uint32_t spin_usec)
{
	*lab = (struct lab){.deadline_nsec = UINT64_MAX, .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	ASSERT_OK(nic_page_create(true, &lab->nic_page));
	doorbell_poll_init(&lab->poll, &(struct doorbell_poll_attr){
					       .ops = &ops,
					       .nic_page = &lab->nic_page,
					       .asleep = &lab->asleep,
					       .wake_fd = lab->wake_fd,
					       .spin_usec = spin_usec,
					       .gpu_poll_usec = 100,
				       });
	doorbell_page_init(&lab->page, &lab->poll);
	ASSERT_OK(doorbell_page_create(&lab->page, &lab->doorbell));
	list_add_tail(&lab->poll.pages, &lab->page.link);
}

static void lab_deinit(struct lab *lab)
{
	doorbell_poll_stop(&lab->poll);
	list_del(&lab->page.link);
	doorbell_page_deinit(&lab->page);
	nic_page_deinit(&lab->nic_page);
	safe_close(lab->wake_fd);
}

static void add(struct lab *lab, uint32_t i, bool is_gpu_driven)
{
	lab->queues[i] = (struct doorbell_queue){.snd_be = &lab->snd_be[i], .qpn = QPN + i, .is_gpu_driven = is_gpu_driven};
	doorbell_page_add(&lab->page, &lab->queues[i]);
}

static void drop(struct lab *lab, uint32_t i)
{
	doorbell_page_remove(&lab->page, &lab->queues[i]);
	lab->queues[i].snd_be = NULL;
}

static void post(struct lab *lab, uint32_t i, uint32_t index)
{
	__atomic_store_n(&lab->snd_be[i], htobe32(index), __ATOMIC_RELEASE);
}

static void ring_for(struct lab *lab, uint32_t i, uint32_t index)
{
	__atomic_store_n(lab->page.word, htobe64((uint64_t)index << 40 | (uint64_t)(QPN + i) << 8), __ATOMIC_SEQ_CST);
}

/* ---- what it decides --------------------------------------------------------------------------------------------- */

TEST(an_idle_thread_spins_then_yields_then_sleeps)
{
	const struct {
		uint64_t idle_nsec, spin_nsec;
		enum doorbell_wait wait;
	} cases[] = {
		{0, 20000, DOORBELL_SPIN},     {999, 20000, DOORBELL_SPIN},	      {1000, 20000, DOORBELL_YIELD},
		{19999, 20000, DOORBELL_YIELD}, {20000, 20000, DOORBELL_SLEEP},     {UINT64_MAX, 20000, DOORBELL_SLEEP},
		{0, 0, DOORBELL_SLEEP},	       {499, 500, DOORBELL_SPIN},	      {500, 500, DOORBELL_SLEEP},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ASSERT_EQ(doorbell_wait(cases[i].idle_nsec, cases[i].spin_nsec), cases[i].wait);
}

TEST(a_sleep_lasts_until_the_deadline_or_the_limit)
{
	ASSERT_EQ(doorbell_sleep_nsec(1000, UINT64_MAX, UINT64_MAX), UINT64_MAX);
	ASSERT_EQ(doorbell_sleep_nsec(1000, UINT64_MAX, 70), 70u);
	ASSERT_EQ(doorbell_sleep_nsec(1000, 1050, UINT64_MAX), 50u);
	ASSERT_EQ(doorbell_sleep_nsec(1000, 1050, 70), 50u);
	ASSERT_EQ(doorbell_sleep_nsec(1000, 1090, 70), 70u);
	ASSERT_EQ(doorbell_sleep_nsec(1000, 1000, UINT64_MAX), 0u);
	ASSERT_EQ(doorbell_sleep_nsec(1000, 10, 70), 0u);
}

/* ---- which queues it looks at ------------------------------------------------------------------------------------ */

TEST(a_doorbell_rings_the_named_queue_first_and_then_each_that_has_moved)
{
	struct lab lab;

	lab_init(&lab, 20);
	for (uint32_t i = 0; i < 8; i++)
		add(&lab, i, false);
	ASSERT(!doorbell_poll_look(&lab.poll));
	post(&lab, 2, 1);
	post(&lab, 5, 1);
	/* Without a doorbell no thread looks at dbrecs. */
	ASSERT(!doorbell_poll_look(&lab.poll));
	ring_for(&lab, 5, 1);
	ASSERT(doorbell_poll_look(&lab.poll));
	ASSERT_EQ(lab.n_rung, 2u);
	ASSERT_EQ(lab.order[0], 5u);
	ASSERT_EQ(lab.order[1], 2u);
	ASSERT_EQ(*lab.page.word, 0u);
	ASSERT(!doorbell_poll_look(&lab.poll));
	lab_deinit(&lab);
}

/* A reset begins again at 0, and may come to the index that was seen before. */
TEST(a_named_queue_is_rung_even_at_an_index_that_was_seen)
{
	struct lab lab;

	lab_init(&lab, 20);
	add(&lab, 0, false);
	for (uint32_t n = 1; n <= 3; n++) {
		post(&lab, 0, 7);
		ring_for(&lab, 0, 7);
		ASSERT(doorbell_poll_look(&lab.poll));
		ASSERT_EQ(lab.rung[0], n);
	}
	lab_deinit(&lab);
}

TEST(a_number_of_another_page_rings_nothing_but_has_moved_queues_found)
{
	struct lab lab;

	lab_init(&lab, 20);
	add(&lab, 0, false);
	ring_for(&lab, 70, 1);
	ASSERT(doorbell_poll_look(&lab.poll));
	ASSERT_EQ(lab.n_rung, 0u);
	post(&lab, 0, 3);
	ring_for(&lab, 70, 1);
	ASSERT(doorbell_poll_look(&lab.poll));
	ASSERT_EQ(lab.rung[0], 1u);
	lab_deinit(&lab);
}

/* So that a client with many queues does not hold up the doorbells of others. */
TEST(many_queues_are_looked_at_in_several_turns_and_each_once)
{
	uint32_t n_looks = 0;
	struct lab lab;

	lab_init(&lab, 20);
	for (uint32_t i = 0; i < N_QUEUES; i++) {
		add(&lab, i, false);
		post(&lab, i, 1);
	}
	ring_for(&lab, 0, 1);
	while (doorbell_poll_look(&lab.poll)) {
		n_looks++;
		ASSERT_LE(lab.n_rung, 1 + 32 * n_looks);
	}
	ASSERT_EQ(n_looks, (N_QUEUES + 31) / 32);
	for (uint32_t i = 0; i < N_QUEUES; i++)
		ASSERT_EQ(lab.rung[i], 1u);
	lab_deinit(&lab);
}

TEST(queues_may_go_in_the_middle_of_a_scan)
{
	struct lab lab;

	lab_init(&lab, 20);
	for (uint32_t i = 0; i < N_QUEUES; i++)
		add(&lab, i, false);
	ring_for(&lab, 0, 1);
	ASSERT(doorbell_poll_look(&lab.poll));
	for (uint32_t i = 0; i < N_QUEUES - 1; i++)
		drop(&lab, i);
	ASSERT_EQ(lab.page.n_scan, 1u);
	post(&lab, N_QUEUES - 1, 1);
	ASSERT(doorbell_poll_look(&lab.poll));
	ASSERT_EQ(lab.rung[N_QUEUES - 1], 1u);
	drop(&lab, N_QUEUES - 1);
	ASSERT_EQ(lab.poll.n_queues, 0u);
	ASSERT(!doorbell_poll_look(&lab.poll));
	lab_deinit(&lab);
}

TEST(a_silent_page_is_not_looked_at)
{
	struct lab lab;

	lab_init(&lab, 20);
	for (uint32_t i = 0; i < N_QUEUES; i++) {
		add(&lab, i, false);
		post(&lab, i, 1);
	}
	ring_for(&lab, 1, 1);
	ASSERT(doorbell_poll_look(&lab.poll));
	doorbell_page_silence(&lab.page);
	lab.n_rung = 0;
	ring_for(&lab, 2, 1);
	ASSERT(!doorbell_poll_look(&lab.poll));
	ASSERT_EQ(lab.n_rung, 0u);
	ASSERT_NE(*lab.page.word, 0u);
	lab_deinit(&lab);
}

/* ---- how it sleeps and wakes ------------------------------------------------------------------------------------- */

static void await(const uint32_t *what, uint32_t least)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;

	while (__atomic_load_n(what, __ATOMIC_ACQUIRE) < least) {
		ASSERT(nsec_now() < end);
		usleep(50);
	}
}

/* The thread attaches the page in its first turn, since the epoll set comes with it. */
static void start(struct lab *lab)
{
	list_del(&lab->page.link);
	ASSERT_OK(doorbell_poll_start(&lab->poll, "poll"));
}

static void start_and_sleep(struct lab *lab)
{
	start(lab);
	await(&lab->nic_page.told->asleep, 1);
}

TEST(a_client_wakes_the_thread_by_its_pages_descriptor_each_time)
{
	struct lab lab;

	lab_init(&lab, 0);
	add(&lab, 0, false);
	start(&lab);
	for (uint32_t i = 1; i <= 50; i++) {
		await(&lab.nic_page.told->asleep, 1);
		post(&lab, 0, i);
		ring_for(&lab, 0, i);
		ASSERT_OK(eventfd_write(lab.doorbell.wake_fd, 1));
		await(&lab.rung[0], i);
	}
	ASSERT_LE(__atomic_load_n(&lab.nic_page.told->heartbeat_nsec, __ATOMIC_RELAXED), nsec_now());
	lab_deinit(&lab);
}

/* The other way round than the poller: ring, then look whether it sleeps. */
TEST(a_client_that_looks_whether_to_wake_loses_no_doorbell)
{
	struct lab lab;

	lab_init(&lab, 0);
	add(&lab, 0, false);
	start(&lab);
	for (uint32_t i = 1; i <= 3000; i++) {
		uint64_t end = nsec_now() + PATIENCE_NSEC;

		post(&lab, 0, i);
		ring_for(&lab, 0, i);
		__sync_synchronize();
		if (__atomic_load_n(&lab.nic_page.told->asleep, __ATOMIC_RELAXED))
			ASSERT_OK(eventfd_write(lab.doorbell.wake_fd, 1));
		while (__atomic_load_n(lab.page.word, __ATOMIC_ACQUIRE))
			ASSERT(nsec_now() < end);
	}
	await(&lab.rung[0], 1);
	lab_deinit(&lab);
}

TEST(without_queues_the_thread_sleeps_at_once_and_without_a_limit)
{
	struct lab lab;
	uint32_t n_turns;

	lab_init(&lab, 1000000);
	start_and_sleep(&lab);
	n_turns = __atomic_load_n(&lab.n_turns, __ATOMIC_RELAXED);
	usleep(20000);
	ASSERT_EQ(__atomic_load_n(&lab.n_turns, __ATOMIC_RELAXED), n_turns);
	ASSERT_EQ(n_turns, 1u);
	doorbell_wake(lab.wake_fd);
	await(&lab.n_turns, n_turns + 1);
	lab_deinit(&lab);
}

TEST(a_gpu_that_wakes_no_thread_is_served)
{
	struct lab lab;

	lab_init(&lab, 0);
	add(&lab, 0, true);
	start(&lab);
	for (uint32_t i = 1; i <= 20; i++) {
		post(&lab, 0, i);
		ring_for(&lab, 0, i);
		await(&lab.rung[0], i);
	}
	lab_deinit(&lab);
}

TEST(a_resting_thread_does_not_look_after_gpus)
{
	struct lab lab;
	uint32_t n_turns;

	lab_init(&lab, 1000000);
	lab.rests = true;
	add(&lab, 0, true);
	start_and_sleep(&lab);
	n_turns = __atomic_load_n(&lab.n_turns, __ATOMIC_RELAXED);
	usleep(20000);
	ASSERT_EQ(__atomic_load_n(&lab.n_turns, __ATOMIC_RELAXED), n_turns);
	lab_deinit(&lab);
}

TEST(a_deadline_of_the_backend_ends_a_sleep)
{
	struct lab lab;
	uint32_t n_looks;

	lab_init(&lab, 0);
	start_and_sleep(&lab);
	n_looks = __atomic_load_n(&lab.n_looks, __ATOMIC_RELAXED);
	__atomic_store_n(&lab.deadline_nsec, nsec_now() + 2 * NSEC_PER_MSEC, __ATOMIC_RELEASE);
	/* Beyond the deadline it does not sleep, so that its turns do what is due. */
	doorbell_wake(lab.wake_fd);
	await(&lab.n_looks, n_looks + 3);
	ASSERT_GE(nsec_now(), lab.deadline_nsec);
	lab_deinit(&lab);
}

TEST(a_busy_thread_shows_that_it_lives)
{
	struct lab lab;
	uint64_t begin = nsec_now(), end = begin + PATIENCE_NSEC;

	lab_init(&lab, 0);
	lab.is_busy = true;
	start(&lab);
	while (__atomic_load_n(&lab.nic_page.told->heartbeat_nsec, __ATOMIC_ACQUIRE) < begin)
		ASSERT(nsec_now() < end);
	ASSERT_EQ(__atomic_load_n(&lab.n_looks, __ATOMIC_RELAXED), 0u);
	lab_deinit(&lab);
}

/* ---- pages ------------------------------------------------------------------------------------------------------- */

TEST(the_next_process_goes_on_with_the_page_that_its_client_rings)
{
	struct doorbell_page next;
	struct nic_doorbell doorbell;
	struct lab lab;

	lab_init(&lab, 0);
	doorbell_page_init(&next, &lab.poll);
	ASSERT_OK(doorbell_page_adopt(&next, lab.doorbell.page_fd, lab.doorbell.wake_fd, &doorbell));
	ring_for(&lab, 3, 9);
	ASSERT_EQ(*next.word, *lab.page.word);
	ASSERT_NE(doorbell.page_fd, lab.doorbell.page_fd);
	ASSERT_EQ(doorbell.register_offset, lab.doorbell.register_offset);
	ASSERT_EQ(doorbell.nic_page_fd, lab.nic_page.client_fd);
	doorbell_page_deinit(&next);
	doorbell_page_init(&next, &lab.poll);
	ASSERT_ERR(doorbell_page_adopt(&next, lab.wake_fd, lab.wake_fd, &doorbell), EBADF);
	doorbell_page_deinit(&next);
	ASSERT_ERR(doorbell_page_adopt(&next, lab.doorbell.page_fd, -1, &doorbell), EBADF);
	doorbell_page_deinit(&next);
	lab_deinit(&lab);
}
