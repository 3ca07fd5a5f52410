/* SPDX-License-Identifier: Apache-2.0 */
/* The queue itself: raw WQEs, withheld doorbells, wrapping, waiting, time limits, errors, fences, waking. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "tests/dev/each-mode.h"

static uint64_t words[256] __attribute__((aligned(64)));

static struct shmd_dev_addr word_at(unsigned int i)
{
	return mini_nic_remote(&words[i]);
}

/* Reserve and fill n WQEs that write 1..n to the words; the last asks for the CQE. */
static uint64_t write_batch(struct mini_nic *nic, uint32_t n)
{
	uint64_t index = 0;
	uint32_t i;

	ASSERT_EQ(shmd_dev_qp_reserve(&nic->qp, n, &index), SHMD_DEV_OK);
	for (i = 0; i < n; i++)
		shmd_dev_prepare_write_value(
			&nic->qp, shmd_dev_wqe_at(index + i, i == n - 1 ? SHMD_WQE_CE_ALWAYS : 0),
			word_at(i), i + 1, 8);
	ASSERT_EQ(shmd_dev_qp_ready(&nic->qp, index, n), SHMD_DEV_OK);
	return index + n;
}

static void batches(struct mini_nic *nic)
{
	uint32_t n, i;

	for (n = 1; n <= 64; n += 9) {
		uint64_t doorbells = mini_nic_get(&nic->n_doorbells);
		uint64_t cqes = mini_nic_get(&nic->n_cqes);
		uint64_t end;

		memset(words, 0, sizeof(words));
		end = write_batch(nic, n);
		ASSERT_EQ(shmd_dev_qp_submit(&nic->qp, end, 0), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_qp_wait(&nic->qp, end, PATIENCE), SHMD_DEV_OK);
		for (i = 0; i < n; i++)
			ASSERT_EQ(words[i], i + 1);
		ASSERT_EQ(mini_nic_get(&nic->n_doorbells), doorbells + 1);
		ASSERT_EQ(mini_nic_get(&nic->n_cqes), cqes + 1);
	}
}

TEST(a_batch_has_one_doorbell_and_one_cqe)
{
	each_mode(batches);
}

/* The same with a mode: made ready and announced at once, or made ready only. */
static void batches_as(struct mini_nic *nic)
{
	struct shmd_dev_mode mode = shmd_dev_mode_of(&nic->qp, PATIENCE);
	uint64_t doorbells = mini_nic_get(&nic->n_doorbells), rung = nic->qp.db_index, index = 7;
	uint32_t i;

	memset(words, 0, sizeof(words));
	ASSERT_EQ(shmd_dev_qp_reserve_as(&nic->qp, 65, mode, &index), SHMD_DEV_INVALID);
	ASSERT_EQ(index, 7);
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(shmd_dev_qp_reserve_as(&nic->qp, 1, mode, &index), SHMD_DEV_OK);
		shmd_dev_prepare_write_value(&nic->qp, shmd_dev_wqe_at(index, SHMD_WQE_CE_ALWAYS), word_at(i), i + 1, 8);
		mode.flags = i ? 0 : SHMD_DEV_NO_DOORBELL;
		ASSERT_EQ(shmd_dev_qp_publish_as(&nic->qp, index, 1, mode), SHMD_DEV_OK);
		ASSERT_EQ(nic->qp.db_index, i ? index + 1 : rung);
		mode.flags = 0;
	}
	ASSERT_EQ(shmd_dev_qp_wait_as(&nic->qp, index + 1, mode), SHMD_DEV_OK);
	ASSERT_EQ(mini_nic_get(&nic->n_doorbells), doorbells + 1);
	ASSERT_EQ(words[0], 1);
	ASSERT_EQ(words[1], 2);
}

TEST(a_batch_with_a_mode_is_announced_unless_the_mode_says_no)
{
	each_mode(batches_as);
}

static void reserve_limits(struct mini_nic *nic)
{
	uint64_t index = 123;

	ASSERT_EQ(shmd_dev_qp_reserve(&nic->qp, 0, &index), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_qp_reserve(&nic->qp, 65, &index), SHMD_DEV_INVALID);
	/* Numbers that are negative ones elsewhere. */
	ASSERT_EQ(shmd_dev_qp_reserve(&nic->qp, 0x80000000u, &index), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_qp_reserve(&nic->qp, UINT32_MAX, &index), SHMD_DEV_INVALID);
	ASSERT_EQ(index, 123u);
	ASSERT_EQ(nic->qp.sq_rsvd_index, nic->attr.start_index);
}

TEST(a_reservation_fits_the_ring)
{
	each_mode(reserve_limits);
}

static void withheld(struct mini_nic *nic)
{
	struct shmd_dev_mode mode = shmd_dev_mode_of(&nic->qp, PATIENCE);
	uint64_t end, i;

	mode.flags = SHMD_DEV_NO_DOORBELL;
	memset(words, 0, sizeof(words));
	for (i = 0; i < 10; i++)
		ASSERT_EQ(shmd_dev_qp_p_as(&nic->qp, word_at((unsigned int)i), i + 1, 8, mode),
			  SHMD_DEV_OK);
	end = write_batch(nic, 3);
	ASSERT_EQ(shmd_dev_qp_submit(&nic->qp, end, SHMD_DEV_NO_DOORBELL), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_test(&nic->qp, end), SHMD_DEV_AGAIN);
	ASSERT_EQ(mini_nic_get(&nic->n_doorbells), 0u);
	ASSERT_EQ(mini_nic_get(&nic->n_wqes), 0u);
	/* A post that is announced announces all before it. */
	ASSERT_EQ(shmd_dev_qp_p(&nic->qp, word_at(20), 21, 8), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(mini_nic_get(&nic->n_doorbells), 1u);
	ASSERT_EQ(words[9], 10u);
	ASSERT_EQ(words[20], 21u);
	ASSERT_EQ(shmd_dev_qp_test(&nic->qp, end), SHMD_DEV_OK);
}

TEST(a_withheld_doorbell_executes_nothing)
{
	each_mode(withheld);
}

static void withheld_then_waited_for(struct mini_nic *nic)
{
	struct shmd_dev_mode mode = shmd_dev_mode_of(&nic->qp, PATIENCE);
	uint64_t i;

	mode.flags = SHMD_DEV_NO_DOORBELL;
	/* Three rings full: waiting for room announces. So does quiet, and a wait for an index. */
	for (i = 0; i < 200; i++)
		ASSERT_EQ(shmd_dev_qp_p_as(&nic->qp, word_at((unsigned int)i), i, 8, mode),
			  SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet_as(&nic->qp, mode), SHMD_DEV_OK);
	ASSERT_EQ(words[199], 199u);
	ASSERT_EQ(shmd_dev_qp_wait(&nic->qp, write_batch(nic, 5), PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(words[4], 5u);
	/* A wait on a word announces what may be needed for it. */
	ASSERT_EQ(shmd_dev_qp_p_as(&nic->qp, word_at(0), 1234, 8, mode), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_wait_until64(&nic->qp, &words[0], SHMD_DEV_CMP_EQ, 1234, PATIENCE),
		  SHMD_DEV_OK);
}

TEST(waiting_announces_what_was_withheld)
{
	each_mode(withheld_then_waited_for);
}

static void *wait_behind_a_holder(void *arg)
{
	struct mini_nic *nic = arg;

	ASSERT_EQ(shmd_dev_qp_wait_until64(&nic->qp, &words[0], SHMD_DEV_CMP_EQ, 1234, PATIENCE), SHMD_DEV_OK);
	return NULL;
}

/* Another caller holds the lock when the wait begins, and drops it without a look at what is ready. */
static void withheld_behind_a_holder(struct mini_nic *nic)
{
	struct shmd_dev_mode mode = shmd_dev_mode_of(&nic->qp, PATIENCE);
	struct timespec ts = {.tv_nsec = 20 * (long)MSEC};
	pthread_t thread;

	if (nic->attr.sharing == SHMD_SHARING_EXCLUSIVE)
		return;
	mode.flags = SHMD_DEV_NO_DOORBELL;
	memset(words, 0, sizeof(words));
	ASSERT_EQ(shmd_dev_qp_p_as(&nic->qp, word_at(0), 1234, 8, mode), SHMD_DEV_OK);
	ASSERT(shmdi_lock_try(&nic->qp.sq_lock, nic->qp.sharing));
	ASSERT_OK(pthread_create(&thread, NULL, wait_behind_a_holder, nic));
	nanosleep(&ts, NULL);
	shmdi_lock_drop(&nic->qp.sq_lock, nic->qp.sharing);
	pthread_join(thread, NULL);
}

TEST_TIMEOUT(waiting_for_a_word_announces_what_was_withheld_while_others_post, 60)
{
	each_mode(withheld_behind_a_holder);
}

/* Atomics of two WQEBBs at every place of the ring, and over its end, while 16-bit indexes wrap. */
static void wrap_wide(struct mini_nic *nic)
{
	uint64_t i, old = 0;

	words[0] = 0;
	for (i = 0; i < 150; i++) {
		ASSERT_EQ(shmd_dev_qp_atomic_swap(&nic->qp, word_at(0), 8, i + 1, PATIENCE, &old),
			  SHMD_DEV_OK);
		ASSERT_EQ(old, i);
		/* Shifts the next one by one WQEBB. */
		ASSERT_EQ(shmd_dev_qp_p(&nic->qp, word_at(1), i, 8), SHMD_DEV_OK);
	}
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(words[1], 149u);
}

TEST(wide_wqes_wrap_at_the_end_of_the_ring)
{
	each_mode(wrap_wide);
}

TEST(indexes_pass_16_bits_several_times)
{
	struct mini_nic_attr attr = {.sq_wqebbs = 16, .sharing = SHMD_SHARING_GPU};
	struct mini_nic *nic = mini_nic_new(&attr);
	uint64_t end = 0, i, n = test_has_sanitizer() ? 5000 : 10000;

	for (i = 0; i < n; i++) {
		end = write_batch(nic, 16);
		ASSERT_EQ(shmd_dev_qp_submit(&nic->qp, end, 0), SHMD_DEV_OK);
	}
	ASSERT_GT(end, 65536u);
	ASSERT_EQ(shmd_dev_qp_wait(&nic->qp, end, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(nic->qp.cqe_ci, n * 16);
	mini_nic_free(nic);
}

/* The largest ring: distances of half the 16-bit range. */
TEST(largest_ring_is_filled_at_once)
{
	struct mini_nic_attr attr = {.sq_wqebbs = 32768, .start_index = 65530};
	struct mini_nic *nic = mini_nic_new(&attr);
	struct shmd_dev_mode mode = shmd_dev_mode_of(&nic->qp, PATIENCE);
	uint64_t i;

	mode.flags = SHMD_DEV_NO_DOORBELL;
	for (i = 0; i < 32768; i++)
		ASSERT_EQ(shmd_dev_qp_p_as(&nic->qp, word_at(0), i, 8, mode), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(nic->qp.cqe_ci, 65530u + 32768u);
	ASSERT_EQ(words[0], 32767u);
	mini_nic_free(nic);
}

/* An ordinary CQ that is smaller than the ring limits what is in flight; the NIC complains if it overruns. */
TEST(small_cq_does_not_overrun)
{
	struct mini_nic_attr attr = {
		.cq_entries = 8, .is_ordinary = true, .sharing = SHMD_SHARING_GPU};
	struct mini_nic *nic = mini_nic_new(&attr);
	uint64_t i, index;

	for (i = 0; i < 500; i++)
		ASSERT_EQ(shmd_dev_qp_p(&nic->qp, word_at(0), i, 8), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_reserve(&nic->qp, 9, &index), SHMD_DEV_INVALID);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(nic->qp.cq_ci, 500u);
	mini_nic_free(nic);
}

/* ---- time limits ----------------------------------------------------------------------------------------- */

static void time_limits(struct mini_nic *nic)
{
	struct shmd_dev_addr remote = word_at(0), local = mini_nic_local(&words[1]);
	uint64_t start, value = 7, i;

	mini_nic_set(&nic->stalled, 1);
	nic->qp.post_timeout_nsec = 20 * MSEC;
	start = shmd_dev_host_now_nsec();
	ASSERT_EQ(shmd_dev_qp_put(&nic->qp, remote, local, 8, 30 * MSEC), SHMD_DEV_TIMEOUT);
	ASSERT_GE(shmd_dev_host_now_nsec() - start, 30 * MSEC);
	ASSERT_EQ(shmd_dev_qp_put(&nic->qp, remote, local, 8, 0), SHMD_DEV_TIMEOUT);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, 10 * MSEC), SHMD_DEV_TIMEOUT);
	ASSERT_EQ(shmd_dev_qp_g(&nic->qp, remote, 8, 5 * MSEC, &value), SHMD_DEV_TIMEOUT);
	ASSERT_EQ(shmd_dev_qp_atomic_swap(&nic->qp, remote, 8, 1, 5 * MSEC, &value),
		  SHMD_DEV_TIMEOUT);
	ASSERT_EQ(value, 7u);
	ASSERT_EQ(shmd_dev_qp_wait_until64(&nic->qp, &words[5], SHMD_DEV_CMP_EQ, 1, 10 * MSEC),
		  SHMD_DEV_TIMEOUT);
	for (i = nic->qp.sq_rsvd_index - nic->attr.start_index; i < 64; i++)
		ASSERT_EQ(shmd_dev_qp_p(&nic->qp, remote, i, 8), SHMD_DEV_OK);
	/* The ring is full: posting waits for room, within the QP's limit, and leaves nothing behind. */
	start = shmd_dev_host_now_nsec();
	ASSERT_EQ(shmd_dev_qp_p(&nic->qp, remote, 1, 8), SHMD_DEV_TIMEOUT);
	ASSERT_GE(shmd_dev_host_now_nsec() - start, 20 * MSEC);
	ASSERT_EQ(nic->qp.sq_rsvd_index, nic->attr.start_index + 64);
	/* And all goes on when the NIC does. */
	mini_nic_set(&nic->stalled, 0);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(words[0], 63u);
	ASSERT_EQ(shmd_dev_qp_g(&nic->qp, remote, 8, PATIENCE, &value), SHMD_DEV_OK);
	ASSERT_EQ(value, 63u);
}

TEST(waits_obey_their_time_limits)
{
	memset(words, 0, sizeof(words));
	each_mode(time_limits);
}

static void dropped_cqe(struct mini_nic *nic)
{
	mini_nic_set(&nic->drop_cqe_from, nic->attr.start_index + 2);
	ASSERT_EQ(shmd_dev_qp_p(&nic->qp, word_at(0), 1, 8), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_p(&nic->qp, word_at(0), 2, 8), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_p(&nic->qp, word_at(0), 3, 8), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, 20 * MSEC), SHMD_DEV_TIMEOUT);
	ASSERT_EQ(nic->qp.cqe_ci, nic->attr.start_index + 2);
}

TEST(a_lost_cqe_is_a_timeout)
{
	each_mode(dropped_cqe);
}

/* ---- errors and health ----------------------------------------------------------------------------------- */

static void health(struct mini_nic *nic)
{
	uint32_t *word = (uint32_t *)(uintptr_t)nic->qp.health_addr;
	uint64_t value = 7;

	mini_nic_set(&nic->stalled, 1);
	__atomic_store_n(word, SHMD_HEALTH_DAEMON_GONE, __ATOMIC_RELAXED);
	ASSERT_EQ(shmd_dev_qp_p(&nic->qp, word_at(0), 1, 8), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, SHMD_DEV_NO_TIMEOUT), SHMD_DEV_HEALTH);
	ASSERT_EQ(shmd_dev_qp_g(&nic->qp, word_at(0), 8, SHMD_DEV_NO_TIMEOUT, &value),
		  SHMD_DEV_HEALTH);
	ASSERT_EQ(shmd_dev_qp_wait_until64(&nic->qp, &words[9], SHMD_DEV_CMP_EQ, 1,
					   SHMD_DEV_NO_TIMEOUT),
		  SHMD_DEV_HEALTH);
	/* A full ring without a time limit ends too. */
	while (nic->qp.sq_rsvd_index < nic->attr.start_index + 64)
		ASSERT_EQ(shmd_dev_qp_p(&nic->qp, word_at(0), 1, 8), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_p(&nic->qp, word_at(0), 1, 8), SHMD_DEV_HEALTH);
	__atomic_store_n(word, SHMD_HEALTH_OK, __ATOMIC_RELAXED);
	mini_nic_set(&nic->stalled, 0);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
}

TEST(health_word_ends_every_wait)
{
	memset(words, 0, sizeof(words));
	each_mode(health);
}

struct late_post {
	pthread_t thread;
	struct mini_nic *nic;
	int status;
};

static void *post_behind(void *arg)
{
	struct late_post *post = (struct late_post *)arg;

	post->status = shmd_dev_qp_p(&post->nic->qp, word_at(1), 22, 8);
	return NULL;
}

/* A caller that waits for its turn stays, whatever the health word says: otherwise its WQEBB would never be filled. */
TEST(a_port_that_is_down_for_a_moment_leaves_no_hole_in_the_queue)
{
	struct mini_nic_attr attr = {.sharing = SHMD_SHARING_GPU};
	struct mini_nic *nic = mini_nic_new(&attr);
	uint32_t *word = (uint32_t *)(uintptr_t)nic->qp.health_addr;
	struct late_post post = {.nic = nic, .status = 1};
	struct timespec pause = {.tv_nsec = 50 * (long)MSEC};
	uint64_t index = 0;

	memset(words, 0, sizeof(words));
	ASSERT_EQ(shmd_dev_qp_reserve(&nic->qp, 1, &index), SHMD_DEV_OK);
	__atomic_store_n(word, SHMD_HEALTH_PORT_DOWN, __ATOMIC_RELAXED);
	ASSERT_OK(pthread_create(&post.thread, NULL, post_behind, &post));
	while (shmdi_index_peek(&nic->qp.sq_rsvd_index, SHMD_SHARING_GPU) == index + 1)
		nanosleep(&pause, NULL);
	nanosleep(&pause, NULL);
	shmd_dev_prepare_write_value(&nic->qp, shmd_dev_wqe_at(index, SHMD_WQE_CE_ALWAYS), word_at(0), 11, 8);
	ASSERT_EQ(shmd_dev_qp_ready(&nic->qp, index, 1), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_submit(&nic->qp, index + 1, 0), SHMD_DEV_OK);
	ASSERT_OK(pthread_join(post.thread, NULL));
	ASSERT_EQ(post.status, SHMD_DEV_OK);
	__atomic_store_n(word, SHMD_HEALTH_OK, __ATOMIC_RELAXED);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(words[0], 11);
	ASSERT_EQ(words[1], 22);
	mini_nic_free(nic);
}

/* The order of kernels/README.md, "What ends a wait". */
static void coincidence(struct mini_nic *nic)
{
	uint32_t *word = (uint32_t *)(uintptr_t)nic->qp.health_addr;
	uint64_t past = nic->attr.start_index + 1;

	/* Completion over time-out and health. */
	ASSERT_EQ(shmd_dev_qp_p(&nic->qp, word_at(0), 1, 8), SHMD_DEV_OK);
	while (shmd_dev_qp_test(&nic->qp, past) != SHMD_DEV_OK)
		;
	__atomic_store_n(word, SHMD_HEALTH_NIC_LOST, __ATOMIC_RELAXED);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, 0), SHMD_DEV_OK);
	/* Time-out over health. */
	mini_nic_set(&nic->stalled, 1);
	ASSERT_EQ(shmd_dev_qp_p(&nic->qp, word_at(0), 1, 8), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, 0), SHMD_DEV_TIMEOUT);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_HEALTH);
	/* An error over all of them, and over what completed before it; the word of a wait over the error. */
	mini_nic_set(&nic->fail_syndrome, SHMD_SYNDROME_REMOTE_OP_ERR);
	mini_nic_set(&nic->fail_index, past);
	mini_nic_set(&nic->stalled, 0);
	while (shmd_dev_qp_test(&nic->qp, past + 1) == SHMD_DEV_AGAIN)
		;
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, 0), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_wait(&nic->qp, past, 0), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_wait_until64(&nic->qp, &words[9], SHMD_DEV_CMP_EQ, 1, 0), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_wait_until64(&nic->qp, &words[9], SHMD_DEV_CMP_EQ, 0, 0), SHMD_DEV_OK);
}

TEST(causes_that_coincide_have_an_order)
{
	memset(words, 0, sizeof(words));
	each_mode(coincidence);
}

/* As when a session ends: its word is set, then its QPs are flushed. With a port that is down a flush is an error. */
static void flush_of_an_end(struct mini_nic *nic)
{
	uint32_t *word = (uint32_t *)(uintptr_t)nic->qp.health_addr;
	uint32_t wqe_index = 0;
	int status;

	nic->attr.flushes = true;
	mini_nic_set(&nic->stalled, 1);
	mini_nic_set(&nic->fail_syndrome, SHMD_SYNDROME_WR_FLUSH_ERR);
	mini_nic_set(&nic->fail_index, nic->attr.start_index);
	ASSERT_EQ(shmd_dev_qp_p(&nic->qp, word_at(0), 1, 8), SHMD_DEV_OK);
	__atomic_store_n(word, SHMD_HEALTH_SESSION_ENDED, __ATOMIC_RELAXED);
	mini_nic_set(&nic->stalled, 0);
	do
		status = shmd_dev_qp_test(&nic->qp, nic->attr.start_index + 1);
	while (status == SHMD_DEV_AGAIN);
	ASSERT_EQ(status, SHMD_DEV_HEALTH);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, SHMD_DEV_NO_TIMEOUT), SHMD_DEV_HEALTH);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, SHMD_DEV_NO_TIMEOUT), SHMD_DEV_HEALTH);
	ASSERT_EQ(shmd_dev_qp_wait_until64(&nic->qp, &words[9], SHMD_DEV_CMP_EQ, 1, SHMD_DEV_NO_TIMEOUT),
		  SHMD_DEV_HEALTH);
	ASSERT_EQ(shmd_dev_qp_error(&nic->qp, &wqe_index), 0u);
}

TEST(flush_of_an_ended_session_is_reported_as_its_end)
{
	memset(words, 0, sizeof(words));
	each_mode(flush_of_an_end);
}

static void flush_while_the_port_is_down(struct mini_nic *nic)
{
	uint32_t *word = (uint32_t *)(uintptr_t)nic->qp.health_addr;
	uint32_t wqe_index = 0;

	nic->attr.flushes = true;
	mini_nic_set(&nic->fail_syndrome, SHMD_SYNDROME_WR_FLUSH_ERR);
	mini_nic_set(&nic->fail_index, nic->attr.start_index);
	ASSERT_EQ(shmd_dev_qp_p(&nic->qp, word_at(0), 1, 8), SHMD_DEV_OK);
	while (shmd_dev_qp_test(&nic->qp, nic->attr.start_index + 1) == SHMD_DEV_AGAIN)
		__atomic_store_n(word, SHMD_HEALTH_PORT_DOWN, __ATOMIC_RELAXED);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, SHMD_DEV_NO_TIMEOUT), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_error(&nic->qp, &wqe_index), SHMD_SYNDROME_WR_FLUSH_ERR);
}

TEST(flush_while_the_port_is_down_is_an_error)
{
	memset(words, 0, sizeof(words));
	each_mode(flush_while_the_port_is_down);
}

static uint32_t *error_word(struct mini_nic *nic)
{
	uint64_t dbrec = nic->qp.sq_dbrec_addr - offsetof(struct shmd_dbrec, snd);

	return (uint32_t *)(uintptr_t)(dbrec + SHMD_QP_ERROR_OFFSET);
}

static int wait_for_nobody(struct mini_nic *nic, uint64_t timeout_nsec)
{
	return shmd_dev_qp_wait_until64(&nic->qp, &words[9], SHMD_DEV_CMP_EQ, 1, timeout_nsec);
}

/* A request on its way gets its CQE; without that, and without the daemon's word, only the time limit ends the wait. */
static void idle_error(struct mini_nic *nic)
{
	uint32_t wqe_index = 0;

	ASSERT_EQ(wait_for_nobody(nic, MSEC), SHMD_DEV_TIMEOUT);
	__atomic_store_n(error_word(nic), SHMD_SYNDROME_LOCAL_ACCESS_ERR, __ATOMIC_RELAXED);
	ASSERT_EQ(wait_for_nobody(nic, MSEC), SHMD_DEV_TIMEOUT);
	nic->qp.flags |= SHMD_QP_TELLS_ERROR;
	mini_nic_set(&nic->stalled, 1);
	ASSERT_EQ(shmd_dev_qp_p(&nic->qp, word_at(0), 1, 8), SHMD_DEV_OK);
	ASSERT_EQ(wait_for_nobody(nic, MSEC), SHMD_DEV_TIMEOUT);
	mini_nic_set(&nic->stalled, 0);
	ASSERT_EQ(wait_for_nobody(nic, SHMD_DEV_NO_TIMEOUT), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_error(&nic->qp, &wqe_index), SHMD_SYNDROME_LOCAL_ACCESS_ERR);
	ASSERT_EQ(wqe_index, SHMD_DEV_NO_WQE);
	ASSERT_EQ(shmd_dev_qp_p(&nic->qp, word_at(0), 1, 8), SHMD_DEV_CQE_ERROR);
}

TEST(failure_of_a_qp_with_nothing_on_its_way_ends_a_wait_for_memory)
{
	memset(words, 0, sizeof(words));
	each_mode(idle_error);
}

/* The first error's CQE was covered by a flush, or there was none. */
static void flush_with_a_reason(struct mini_nic *nic)
{
	uint32_t wqe_index = 0;

	nic->attr.flushes = true;
	nic->qp.flags |= SHMD_QP_TELLS_ERROR;
	__atomic_store_n(error_word(nic), SHMD_SYNDROME_REMOTE_OP_ERR, __ATOMIC_RELAXED);
	mini_nic_set(&nic->fail_syndrome, SHMD_SYNDROME_WR_FLUSH_ERR);
	mini_nic_set(&nic->fail_index, nic->attr.start_index);
	ASSERT_EQ(shmd_dev_qp_p(&nic->qp, word_at(0), 1, 8), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, SHMD_DEV_NO_TIMEOUT), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_error(&nic->qp, &wqe_index), SHMD_SYNDROME_REMOTE_OP_ERR);
	ASSERT_EQ(wqe_index, nic->attr.start_index & 0xffff);
}

TEST(flush_is_reported_as_the_error_before_it)
{
	memset(words, 0, sizeof(words));
	each_mode(flush_with_a_reason);
}

static void error(struct mini_nic *nic)
{
	uint32_t wqe_index = 0;
	uint64_t value = 7;

	ASSERT_EQ(shmd_dev_qp_error(&nic->qp, &wqe_index), 0u);
	mini_nic_set(&nic->fail_syndrome, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	mini_nic_set(&nic->fail_index, nic->attr.start_index + 7);
	while (nic->qp.sq_rsvd_index < nic->attr.start_index + 8)
		ASSERT_EQ(shmd_dev_qp_p(&nic->qp, word_at(0), 1, 8), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, SHMD_DEV_NO_TIMEOUT), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_error(&nic->qp, &wqe_index), SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	ASSERT_EQ(wqe_index, (nic->attr.start_index + 7) & 0xffff);
	/* From then on, everything. */
	ASSERT_EQ(shmd_dev_qp_p(&nic->qp, word_at(0), 1, 8), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_put(&nic->qp, word_at(0), mini_nic_local(&words[1]), 8, PATIENCE),
		  SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_g(&nic->qp, word_at(0), 8, PATIENCE, &value), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_test(&nic->qp, 0), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_wait_until64(&nic->qp, &words[9], SHMD_DEV_CMP_EQ, 1,
					   SHMD_DEV_NO_TIMEOUT),
		  SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_test64(&nic->qp, &words[9], SHMD_DEV_CMP_EQ, 1), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_test64(&nic->qp, &words[9], SHMD_DEV_CMP_EQ, 0), SHMD_DEV_OK);
}

TEST(an_error_cqe_ends_every_wait)
{
	memset(words, 0, sizeof(words));
	each_mode(error);
}

/* A wait on a word that stays unwritten ends with the QP, although no other thread looks at the CQ. */
static void error_while_waiting_for_a_word(struct mini_nic *nic)
{
	mini_nic_set(&nic->fail_syndrome, SHMD_SYNDROME_REMOTE_OP_ERR);
	mini_nic_set(&nic->fail_index, nic->attr.start_index);
	ASSERT_EQ(shmd_dev_qp_p(&nic->qp, word_at(0), 1, 8), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_wait_until64(&nic->qp, &words[9], SHMD_DEV_CMP_EQ, 1,
					   SHMD_DEV_NO_TIMEOUT),
		  SHMD_DEV_CQE_ERROR);
}

TEST(an_error_cqe_ends_a_wait_on_a_word)
{
	memset(words, 0, sizeof(words));
	each_mode(error_while_waiting_for_a_word);
}

static void first_error_of_many(struct mini_nic *nic)
{
	struct shmd_dev_mode mode = shmd_dev_mode_of(&nic->qp, PATIENCE);
	uint32_t wqe_index = 0;
	uint64_t i;

	mode.flags = SHMD_DEV_NO_DOORBELL;
	for (i = 0; i < 10; i++) {
		struct shmd_dev_addr remote = word_at(0);

		if (i == 4)
			remote.key_be = 0;
		ASSERT_EQ(shmd_dev_qp_p_as(&nic->qp, remote, i, 8, mode), SHMD_DEV_OK);
	}
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_error(&nic->qp, &wqe_index), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_EQ(wqe_index, (nic->attr.start_index + 4) & 0xffff);
	ASSERT_EQ(words[0], 3u);
	/* A caller that saw a later error CQE while the first was being recorded changes nothing. */
	ASSERT_EQ(shmdi_cq_record(&nic->qp, nic->qp.cq_addr, 0xd0000900, nic->qp.sharing),
		  SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_error(&nic->qp, &wqe_index), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_EQ(wqe_index, (nic->attr.start_index + 4) & 0xffff);
	if (nic->attr.is_ordinary)
		ASSERT_EQ(nic->qp.cqe_ci, nic->attr.start_index + 4);
}

TEST(the_first_error_is_kept)
{
	each_mode(first_error_of_many);
}

/* Every function that has an output, on a QP that works and on one that has failed. */
static void without_outputs(struct mini_nic *nic)
{
	struct shmd_dev_addr remote = word_at(0);
	struct shmd_dev_amo amo = shmd_dev_amo_of(SHMD_DEV_AMO_COMPARE_SWAP, 8, 9);
	uint64_t rsvd = nic->qp.sq_rsvd_index;

	words[0] = 1;
	ASSERT_EQ(shmd_dev_qp_reserve(&nic->qp, 1, NULL), SHMD_DEV_INVALID);
	ASSERT_EQ(nic->qp.sq_rsvd_index, rsvd);
	ASSERT_EQ(shmd_dev_qp_error(&nic->qp, NULL), 0u);
	ASSERT_EQ(shmd_dev_qp_g(&nic->qp, remote, 8, PATIENCE, NULL), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_atomic_fetch(&nic->qp, remote, 8, PATIENCE, NULL), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_atomic_fetch_add(&nic->qp, remote, 8, 2, PATIENCE, NULL), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_atomic_fetch_inc(&nic->qp, remote, 8, PATIENCE, NULL), SHMD_DEV_OK);
	ASSERT_EQ(words[0], 4u);
	ASSERT_EQ(shmd_dev_qp_atomic_fetch_and(&nic->qp, remote, 8, 6, PATIENCE, NULL), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_atomic_fetch_or(&nic->qp, remote, 8, 1, PATIENCE, NULL), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_atomic_fetch_xor(&nic->qp, remote, 8, 3, PATIENCE, NULL), SHMD_DEV_OK);
	ASSERT_EQ(words[0], 6u);
	ASSERT_EQ(shmd_dev_qp_atomic_swap(&nic->qp, remote, 8, 7, PATIENCE, NULL), SHMD_DEV_OK);
	amo.compare = 7;
	ASSERT_EQ(shmd_dev_qp_atomic_compare_swap(&nic->qp, remote, amo, PATIENCE, NULL), SHMD_DEV_OK);
	ASSERT_EQ(words[0], 9u);
	remote.key_be = 0;
	ASSERT_EQ(shmd_dev_qp_g(&nic->qp, remote, 8, PATIENCE, NULL), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_atomic_fetch(&nic->qp, remote, 8, PATIENCE, NULL), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_error(&nic->qp, NULL), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
}

TEST(outputs_may_be_null)
{
	each_mode(without_outputs);
}

static void unknown_syndrome(struct mini_nic *nic)
{
	static const uint32_t tail_be[4] = {0, 0, 0, 0xd0000000};
	uint32_t wqe_index;

	/* An error CQE written here, whose syndrome is 0. */
	memcpy((void *)(uintptr_t)(nic->qp.cq_addr + 48), tail_be, sizeof(tail_be));
	nic->qp.cqe_ci = nic->qp.cq_ci = 0;
	ASSERT_EQ(shmdi_cq_poll(&nic->qp, nic->qp.sharing), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_error(&nic->qp, &wqe_index), SHMDI_SYNDROME_UNKNOWN);
}

TEST(an_error_without_syndrome_is_an_error)
{
	each_mode(unknown_syndrome);
}

/* ---- fences ---------------------------------------------------------------------------------------------- */

static void fences(struct mini_nic *nic)
{
	struct shmd_dev_mode mode = shmd_dev_mode_of(&nic->qp, PATIENCE);
	struct shmd_dev_addr local = mini_nic_local(&words[1]);
	bool alone = nic->attr.sharing == SHMD_SHARING_EXCLUSIVE;
	uint64_t n = mini_nic_get(&nic->n_wqes), i;

	mode.flags = SHMD_DEV_NO_DOORBELL;
	ASSERT_EQ(shmd_dev_qp_p_as(&nic->qp, word_at(0), 1, 8, mode), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_fence(&nic->qp), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_p_as(&nic->qp, word_at(0), 2, 8, mode), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_get_nbi_as(&nic->qp, word_at(0), local, 8, mode), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_p_as(&nic->qp, word_at(2), 3, 8, mode), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_fence(&nic->qp), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_put_nbi_as(&nic->qp, word_at(3), local, 8, mode), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_p_as(&nic->qp, word_at(2), 4, 8, mode), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	/* Nothing was read before the first fence; the write behind the second waits for the read. */
	for (i = 0; i < 6; i++) {
		bool fenced = executed(nic, n + i)->fm_ce_se & SHMD_WQE_FM_FENCE;

		ASSERT_EQ(fenced, i == 4 || (i == 5 && !alone));
	}
	ASSERT_EQ(words[3], 2u);
	/* Completed reads need no fence. */
	n = mini_nic_get(&nic->n_wqes);
	ASSERT_EQ(shmd_dev_qp_fence(&nic->qp), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_fence_flags(&nic->qp), 0u);
	ASSERT_EQ(shmd_dev_qp_p(&nic->qp, word_at(2), 5, 8), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(executed(nic, n)->fm_ce_se & SHMD_WQE_FM_MASK, 0u);
}

TEST(a_fence_makes_the_next_wqe_wait_for_reads)
{
	each_mode(fences);
}

/* ---- waking ---------------------------------------------------------------------------------------------- */

TEST(a_sleeping_nic_is_woken)
{
	struct mini_nic_attr attr = {.sleeps = true, .sharing = SHMD_SHARING_GPU};
	struct mini_nic *nic = mini_nic_new(&attr);
	uint64_t i;

	for (i = 0; i < 30; i++) {
		/* Let it fall asleep, more or less: doorbells hit every step of going to sleep. */
		if (i % 3)
			while (mini_nic_get(&nic->n_sleeps) <= i / 3)
				shmd_dev_host_relax(1000);
		ASSERT_EQ(shmd_dev_qp_p(&nic->qp, word_at(0), i, 8), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
		ASSERT_EQ(words[0], i);
	}
	ASSERT_GT(mini_nic_n_wakes, 0u);
	mini_nic_free(nic);
}
