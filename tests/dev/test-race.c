/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads on one QP: every byte verified, every atomic counted. The suite runs under TSan too. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "tests/dev/each-mode.h"

#define N_THREADS 8
#define BYTES 48

struct racer {
	struct mini_nic *nic;
	pthread_t thread;
	unsigned int id;
	int n_rounds;
	uint64_t sum; /* of fetched counters */
	uint64_t n_held, n_queued; /* posts that took sq_lock with their reservation, and others */
	uint64_t value; /* posted last */
	pthread_barrier_t *barrier; /* of all racers; NULL: one alone */
	int status;
	uint8_t src[BYTES], dst[BYTES], back[BYTES] __attribute__((aligned(8)));
	uint64_t word, note, note_at_peer __attribute__((aligned(8)));
};

static struct racer racers[N_THREADS];
static uint64_t counter64, ticket64, bits64, signal64;
static uint32_t counter32, ticket32;

static int round_rma(struct racer *r, int i)
{
	struct shmd_dev_qp *qp = &r->nic->qp;
	uint64_t got = 0;

	fill(r->src, BYTES, r->id * 1000 + (unsigned int)i);
	ASSERT_EQ(shmd_dev_qp_put_nbi(qp, mini_nic_remote(r->dst), mini_nic_local(r->src), BYTES),
		  SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_get(qp, mini_nic_remote(r->dst), mini_nic_local(r->back), BYTES,
				  PATIENCE),
		  SHMD_DEV_OK);
	ASSERT_MEMEQ(r->back, r->src, BYTES);
	ASSERT_EQ(shmd_dev_qp_p(qp, mini_nic_remote(&r->word), r->id * 100000ull + (unsigned int)i,
				8),
		  SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_g(qp, mini_nic_remote(&r->word), 8, PATIENCE, &got), SHMD_DEV_OK);
	ASSERT_EQ(got, r->id * 100000ull + (unsigned int)i);
	return 0;
}

static void round_atomics(struct racer *r)
{
	struct shmd_dev_qp *qp = &r->nic->qp;
	uint64_t got = 0;

	ASSERT_EQ(shmd_dev_qp_atomic_add(qp, mini_nic_remote(&counter64), 8, 1), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_atomic_inc(qp, mini_nic_remote(&counter32), 4), SHMD_DEV_OK);
	ASSERT_EQ(
		shmd_dev_qp_atomic_fetch_add(qp, mini_nic_remote(&ticket64), 8, 1, PATIENCE, &got),
		SHMD_DEV_OK);
	r->sum += got;
	ASSERT_EQ(
		shmd_dev_qp_atomic_fetch_add(qp, mini_nic_remote(&ticket32), 4, 1, PATIENCE, &got),
		SHMD_DEV_OK);
	r->sum += got;
	/* Each thread's bit flips and flips back, by WQEs of two WQEBBs. */
	ASSERT_EQ(shmd_dev_qp_atomic_fetch_or(qp, mini_nic_remote(&bits64), 8, 1ull << r->id,
					      PATIENCE, &got),
		  SHMD_DEV_OK);
	ASSERT_EQ(got >> r->id & 1, 0u);
	ASSERT_EQ(shmd_dev_qp_atomic_fetch_and(qp, mini_nic_remote(&bits64), 8, ~(1ull << r->id),
					       PATIENCE, &got),
		  SHMD_DEV_OK);
	ASSERT_EQ(got >> r->id & 1, 1u);
	ASSERT_EQ(shmd_dev_qp_put_signal_nbi(
			  qp, mini_nic_remote(&r->note_at_peer), mini_nic_local(&r->note), 8,
			  shmd_dev_signal_of(mini_nic_remote(&signal64), SHMD_DEV_SIGNAL_ADD, 1)),
		  SHMD_DEV_OK);
}

static void *race(void *arg)
{
	struct racer *r = arg;
	int i;

	for (i = 0; i < r->n_rounds; i++) {
		round_rma(r, i);
		round_atomics(r);
	}
	r->status = shmd_dev_qp_quiet(&r->nic->qp, PATIENCE);
	return NULL;
}

static void start(struct mini_nic *nic, void *(*run)(void *), int n_rounds, pthread_barrier_t *barrier)
{
	unsigned int i;

	memset(racers, 0, sizeof(racers));
	counter64 = ticket64 = bits64 = signal64 = 0;
	counter32 = ticket32 = 0;
	for (i = 0; i < N_THREADS; i++) {
		racers[i].nic = nic;
		racers[i].id = i;
		racers[i].n_rounds = n_rounds;
		racers[i].barrier = barrier;
		racers[i].note = i + 100;
		ASSERT_OK(pthread_create(&racers[i].thread, NULL, run, &racers[i]));
	}
}

static void join(void)
{
	unsigned int i;

	for (i = 0; i < N_THREADS; i++)
		pthread_join(racers[i].thread, NULL);
}

static void race_on(const struct mini_nic_attr *attr)
{
	int n_rounds = test_has_sanitizer() ? 40 : 150;
	uint64_t n = (uint64_t)n_rounds * N_THREADS, sum = 0;
	struct mini_nic *nic = mini_nic_new(attr);
	unsigned int i;

	start(nic, race, n_rounds, NULL);
	join();
	for (i = 0; i < N_THREADS; i++) {
		ASSERT_EQ(racers[i].status, SHMD_DEV_OK);
		ASSERT_EQ(racers[i].note_at_peer, i + 100);
		sum += racers[i].sum;
	}
	ASSERT_EQ(counter64, n);
	ASSERT_EQ(counter32, n);
	ASSERT_EQ(signal64, n);
	ASSERT_EQ(bits64, 0u);
	/* Every ticket was drawn once: twice the sum of 0..n-1. */
	ASSERT_EQ(sum, n * (n - 1));
	ASSERT_EQ(nic->qp.cqe_ci, nic->qp.sq_rsvd_index);
	ASSERT_EQ(nic->qp.sq_ready_index, nic->qp.sq_rsvd_index);
	for (i = 0; i < nic->qp.sq_wqebbs; i++)
		ASSERT_EQ(((uint32_t *)(uintptr_t)nic->qp.slot_busy_addr)[i], 0u);
	mini_nic_free(nic);
}

TEST_TIMEOUT(threads_share_a_qp, 60)
{
	struct mini_nic_attr attr = {.sharing = SHMD_SHARING_GPU, .start_index = 65000};

	race_on(&attr);
}

TEST_TIMEOUT(threads_share_a_small_ring, 60)
{
	struct mini_nic_attr attr = {
		.sharing = SHMD_SHARING_GPU, .sq_wqebbs = 16, .start_index = 65536 - 3};

	race_on(&attr);
}

TEST_TIMEOUT(threads_share_an_ordinary_cq, 60)
{
	struct mini_nic_attr attr = {.sharing = SHMD_SHARING_BLOCK,
				     .is_ordinary = true,
				     .cq_entries = 32,
				     .start_index = 65500};

	race_on(&attr);
}

TEST_TIMEOUT(threads_share_a_sleeping_nic, 60)
{
	struct mini_nic_attr attr = {.sharing = SHMD_SHARING_GPU, .sleeps = true};

	race_on(&attr);
}

/* ---- with and without the lock ---------------------------------------------------------------------------- */

static void begin(struct shmd_dev_qp *qp, struct shmdi_post *post)
{
	struct shmd_dev_mode mode = shmd_dev_mode_of(qp, 0);

	ASSERT_EQ(shmdi_post_begin(qp, &mode, 1, 0, 1, post), SHMD_DEV_OK);
}

static void end(struct shmd_dev_qp *qp, struct shmdi_post *post, const void *word, uint64_t value)
{
	struct shmd_dev_mode mode = shmd_dev_mode_of(qp, 0);

	shmd_dev_prepare_write_value(qp, shmd_dev_wqe_at(post->index, post->last_flags), mini_nic_remote(word), value,
				     8);
	ASSERT_EQ(shmdi_post_end(qp, &mode, post, 0), SHMD_DEV_OK);
}

static void expect_quiet(struct mini_nic *nic)
{
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(nic->qp.sq_lock, 0u);
	ASSERT_EQ(nic->qp.sq_ready_index, nic->qp.sq_rsvd_index);
	ASSERT_EQ(nic->qp.sq_wqe_pi, nic->qp.sq_rsvd_index);
	ASSERT_EQ(nic->qp.db_index, nic->qp.sq_rsvd_index);
}

/* One thread that is in the middle of several posts: the first has the lock, and those behind it its turn to await. */
static void take_turns(struct mini_nic *nic)
{
	struct shmd_dev_mode withheld = shmd_dev_mode_of(&nic->qp, PATIENCE);
	struct shmdi_post first, second;
	uint64_t words[5] = {0}, index = 0;

	withheld.flags = SHMD_DEV_NO_DOORBELL;
	begin(&nic->qp, &first);
	ASSERT_EQ(first.holds, 1);
	end(&nic->qp, &first, &words[0], 1);
	expect_quiet(nic);
	if (nic->attr.sharing == SHMD_SHARING_EXCLUSIVE)
		return;
	begin(&nic->qp, &first);
	begin(&nic->qp, &second);
	ASSERT_EQ(first.holds, 1);
	ASSERT_EQ(second.holds, 0);
	ASSERT_EQ(shmdi_sq_kick(&nic->qp, nic->qp.sharing), 1);
	end(&nic->qp, &first, &words[1], 2);
	ASSERT_EQ(nic->qp.db_index, first.end);
	end(&nic->qp, &second, &words[2], 3);
	/* The holder announces ready and withheld requests; a request that is not ready prevents holding. */
	ASSERT_EQ(shmd_dev_qp_p_as(&nic->qp, mini_nic_remote(&words[3]), 4, 8, withheld), SHMD_DEV_OK);
	begin(&nic->qp, &first);
	ASSERT_EQ(first.holds, 1);
	ASSERT_EQ(shmdi_sq_kick(&nic->qp, nic->qp.sharing), 0);
	end(&nic->qp, &first, &words[4], 5);
	ASSERT_EQ(shmd_dev_qp_reserve(&nic->qp, 1, &index), SHMD_DEV_OK);
	begin(&nic->qp, &first);
	ASSERT_EQ(first.holds, 0);
	ASSERT_EQ(nic->qp.sq_lock, 0u);
	shmd_dev_prepare_nop(&nic->qp, shmd_dev_wqe_at(index, SHMD_WQE_CE_ALWAYS));
	ASSERT_EQ(shmd_dev_qp_ready(&nic->qp, index, 1), SHMD_DEV_OK);
	end(&nic->qp, &first, &words[0], 6);
	expect_quiet(nic);
	ASSERT_EQ(words[0], 6u);
	for (index = 1; index < 5; index++)
		ASSERT_EQ(words[index], index + 1);
}

TEST(the_lock_comes_with_a_reservation_when_all_before_it_are_ready)
{
	each_mode(take_turns);
}

static void post_held(struct racer *r, int i)
{
	struct shmdi_post post;

	begin(&r->nic->qp, &post);
	r->n_held += (uint64_t)post.holds;
	r->n_queued += !post.holds;
	/* So that the others meet this one in the middle, also on one CPU. */
	if (r->id == 0 && i % 3 == 0)
		sched_yield();
	end(&r->nic->qp, &post, &r->word, ++r->value);
}

static void post_withheld(struct racer *r)
{
	struct shmd_dev_mode mode = shmd_dev_mode_of(&r->nic->qp, PATIENCE);

	mode.flags = SHMD_DEV_NO_DOORBELL;
	ASSERT_EQ(shmd_dev_qp_p_as(&r->nic->qp, mini_nic_remote(&r->word), ++r->value, 8, mode), SHMD_DEV_OK);
}

static void post_raw(struct racer *r, int i)
{
	struct shmd_dev_qp *qp = &r->nic->qp;
	uint64_t index = 0;

	ASSERT_EQ(shmd_dev_qp_reserve(qp, 2, &index), SHMD_DEV_OK);
	shmd_dev_prepare_write_value(qp, shmd_dev_wqe_at(index, 0), mini_nic_remote(&r->word), ++r->value, 8);
	shmd_dev_prepare_nop(qp, shmd_dev_wqe_at(index + 1, SHMD_WQE_CE_ALWAYS));
	ASSERT_EQ(shmd_dev_qp_ready(qp, index, 2), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_submit(qp, index + 2, i % 2 ? SHMD_DEV_NO_DOORBELL : 0), SHMD_DEV_OK);
}

static void *race_mixed(void *arg)
{
	struct racer *r = arg;
	uint64_t got = 0;
	int i;

	for (i = 0; i < r->n_rounds; i++) {
		/* No thread is in the middle of a post then, and the first of the next round finds the queue so. */
		if (r->barrier && i % 8 == 0)
			pthread_barrier_wait(r->barrier);
		post_held(r, i);
		if (i % 5 == 1)
			post_withheld(r);
		if (i % 7 == 2)
			post_raw(r, i);
		/* One that waits for something in between, and so never holds. */
		if (i % 4 == 3) {
			ASSERT_EQ(shmd_dev_qp_g(&r->nic->qp, mini_nic_remote(&r->word), 8, PATIENCE, &got),
				  SHMD_DEV_OK);
			ASSERT_EQ(got, r->value);
		}
		if (i % 16 == 9) {
			post_withheld(r);
			ASSERT_EQ(shmd_dev_qp_wait_until64(&r->nic->qp, &r->word, SHMD_DEV_CMP_EQ, r->value, PATIENCE),
				  SHMD_DEV_OK);
		}
	}
	r->status = shmd_dev_qp_quiet(&r->nic->qp, PATIENCE);
	return NULL;
}

static void race_mixed_on(const struct mini_nic_attr *attr)
{
	struct racer alone = {.nic = mini_nic_new(attr), .n_rounds = 100};
	struct mini_nic *nic = alone.nic;
	int n_rounds = test_has_sanitizer() ? 200 : 1000;
	uint64_t n_held = 0, n_queued = 0;
	pthread_barrier_t barrier;
	unsigned int i;

	ASSERT_OK(pthread_barrier_init(&barrier, NULL, N_THREADS));
	start(nic, race_mixed, n_rounds, &barrier);
	join();
	pthread_barrier_destroy(&barrier);
	for (i = 0; i < N_THREADS; i++) {
		ASSERT_EQ(racers[i].status, SHMD_DEV_OK);
		ASSERT_EQ(racers[i].word, racers[i].value);
		n_held += racers[i].n_held;
		n_queued += racers[i].n_queued;
	}
	printf("# %llu posts held the lock, %llu queued\n", (unsigned long long)n_held, (unsigned long long)n_queued);
	/* Both ways were taken; and a thread that is alone always holds it, whatever went before. */
	ASSERT_GE(n_held, (uint64_t)n_rounds / 16);
	ASSERT_GE(n_queued, 10u);
	race_mixed(&alone);
	ASSERT_EQ(alone.status, SHMD_DEV_OK);
	ASSERT_EQ(alone.word, alone.value);
	ASSERT_EQ(alone.n_held, (uint64_t)alone.n_rounds);
	expect_quiet(nic);
	mini_nic_free(nic);
}

TEST_TIMEOUT(threads_post_with_the_lock_and_without, 60)
{
	struct mini_nic_attr attr = {.sharing = SHMD_SHARING_GPU, .start_index = 65000};

	race_mixed_on(&attr);
}

TEST_TIMEOUT(threads_post_with_the_lock_and_without_on_a_small_ring, 60)
{
	struct mini_nic_attr attr = {
		.sharing = SHMD_SHARING_BLOCK, .sq_wqebbs = 16, .sleeps = true, .start_index = 65536 - 3};

	race_mixed_on(&attr);
}

/* ---- batches --------------------------------------------------------------------------------------------- */

static void *race_batches(void *arg)
{
	struct racer *r = arg;
	struct shmd_dev_qp *qp = &r->nic->qp;
	uint64_t index = 0, end = 0;
	int i, j;

	for (i = 0; i < r->n_rounds; i++) {
		int n = 1 + (i + (int)r->id) % 7;

		ASSERT_EQ(shmd_dev_qp_reserve(qp, (uint32_t)n, &index), SHMD_DEV_OK);
		for (j = 0; j < n; j++)
			shmd_dev_prepare_write_value(
				qp,
				shmd_dev_wqe_at(index + (uint64_t)j,
						j == n - 1 ? SHMD_WQE_CE_ALWAYS : 0),
				mini_nic_remote(&r->word), (uint64_t)(i * 10 + j), 8);
		ASSERT_EQ(shmd_dev_qp_ready(qp, index, (uint32_t)n), SHMD_DEV_OK);
		end = index + (uint64_t)n;
		/* Most are withheld; waits and the others' doorbells bring them out. */
		ASSERT_EQ(shmd_dev_qp_submit(qp, end, i % 4 ? SHMD_DEV_NO_DOORBELL : 0),
			  SHMD_DEV_OK);
		if (i % 16 == 5) {
			ASSERT_EQ(shmd_dev_qp_wait(qp, end, PATIENCE), SHMD_DEV_OK);
			ASSERT_EQ(__atomic_load_n(&r->word, __ATOMIC_RELAXED),
				  (uint64_t)(i * 10 + n - 1));
		}
	}
	r->status = shmd_dev_qp_wait(qp, end, PATIENCE);
	return NULL;
}

TEST_TIMEOUT(threads_withhold_doorbells, 60)
{
	struct mini_nic_attr attr = {.sharing = SHMD_SHARING_GPU, .start_index = 65530};
	struct mini_nic *nic = mini_nic_new(&attr);
	unsigned int i;

	start(nic, race_batches, test_has_sanitizer() ? 100 : 500, NULL);
	join();
	for (i = 0; i < N_THREADS; i++)
		ASSERT_EQ(racers[i].status, SHMD_DEV_OK);
	ASSERT_LT(mini_nic_get(&nic->n_doorbells), mini_nic_get(&nic->n_wqes));
	mini_nic_free(nic);
}

/* ---- the end of a QP ------------------------------------------------------------------------------------- */

static void *race_until_error(void *arg)
{
	struct racer *r = arg;
	uint64_t value;
	int rc;

	/* Without any time limit: only the error ends it. */
	do {
		rc = r->id % 2
			     ? shmd_dev_qp_g(&r->nic->qp, mini_nic_remote(&r->word), 8,
					     SHMD_DEV_NO_TIMEOUT, &value)
			     : shmd_dev_qp_put(&r->nic->qp, mini_nic_remote(r->dst),
					       mini_nic_local(r->src), BYTES, SHMD_DEV_NO_TIMEOUT);
	} while (rc == SHMD_DEV_OK);
	r->status = rc;
	return NULL;
}

static void race_error(bool is_ordinary, bool flushes)
{
	struct mini_nic_attr attr = {
		.sharing = SHMD_SHARING_GPU, .is_ordinary = is_ordinary, .flushes = flushes};
	struct mini_nic *nic = mini_nic_new(&attr);
	uint32_t wqe_index = 0, syndrome;
	unsigned int i;

	mini_nic_set(&nic->fail_syndrome, SHMD_SYNDROME_RNR_RETRY_EXC_ERR);
	mini_nic_set(&nic->fail_index, 500);
	start(nic, race_until_error, 0, NULL);
	join();
	for (i = 0; i < N_THREADS; i++)
		ASSERT_EQ(racers[i].status, SHMD_DEV_CQE_ERROR);
	syndrome = shmd_dev_qp_error(&nic->qp, &wqe_index);
	/* A flush may have come over it before anyone looked. */
	if (flushes && syndrome == SHMD_SYNDROME_WR_FLUSH_ERR) {
		ASSERT_GE(wqe_index, 500u);
	} else {
		ASSERT_EQ(syndrome, SHMD_SYNDROME_RNR_RETRY_EXC_ERR);
		ASSERT_EQ(wqe_index, 500u);
	}
	mini_nic_free(nic);
}

TEST(an_error_ends_the_waits_of_all_threads)
{
	race_error(false, false);
	race_error(false, true);
	race_error(true, false);
}

static void *race_full_ring(void *arg)
{
	struct racer *r = arg;
	int i;

	for (i = 0; i < 8; i++)
		if (shmd_dev_qp_p(&r->nic->qp, mini_nic_remote(&r->word), 1, 8) == SHMD_DEV_TIMEOUT)
			r->sum++;
	return NULL;
}

/* A NIC that stands still: posts time out, and those that gave up leave no hole for the others. */
TEST(time_outs_leave_no_holes)
{
	struct mini_nic_attr attr = {.sharing = SHMD_SHARING_GPU, .sq_wqebbs = 16};
	struct mini_nic *nic = mini_nic_new(&attr);
	uint64_t n_timeouts = 0;
	unsigned int i;

	nic->qp.post_timeout_nsec = 3 * MSEC;
	mini_nic_set(&nic->stalled, 1);
	start(nic, race_full_ring, 0, NULL);
	join();
	for (i = 0; i < N_THREADS; i++)
		n_timeouts += racers[i].sum;
	ASSERT_EQ(n_timeouts, 8 * N_THREADS - 16u);
	mini_nic_set(&nic->stalled, 0);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(mini_nic_get(&nic->n_wqes), 16u);
	ASSERT_EQ(shmd_dev_qp_p(&nic->qp, mini_nic_remote(&counter64), 11, 8), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_quiet(&nic->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(counter64, 11u);
	mini_nic_free(nic);
}
