/* SPDX-License-Identifier: Apache-2.0 */
/* Device functions on a DCI: one queue, the DCTs of several sessions, and what the library made of both. */
#include <pthread.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/system/client-lab.h"

#define N_SESSIONS 3u
#define N_THREADS 4u
#define N_ROUNDS 60u
#define PATIENCE 10000000000ull
#define SIGNAL_AT 32768u
#define COUNTER_AT 32776u

/* Sessions with a DCT each, and one more that has the DCI. */
struct world {
	struct fixture_daemon daemon;
	struct lab_side targets[N_SESSIONS];
	struct shmd_dct *dcts[N_SESSIONS];
	struct lab_side from;
	struct shmd_dev_qp *dci;
	const struct shmd_dev_peer *peers; /* of the dev-state */
};

static void world_open(struct world *w, enum shmd_sharing sharing, const struct shmd_qp_params *params)
{
	struct shmd_queues_attr attr = {
		.n_qps = 1, .sq_wqebbs = 64, .sharing = sharing, .qp_type = SHMD_QP_TYPE_DCI};
	const struct shmd_queues_attr one = {.n_qps = 1};
	struct shmd_dev_peer peers[N_SESSIONS];
	struct shmd_addr addrs[N_SESSIONS];

	fixture_daemon_start(&w->daemon, "--soft-nics=1", NULL);
	for (unsigned int i = 0; i < N_SESSIONS; i++) {
		lab_side_open(&w->targets[i], &w->daemon, &one);
		ASSERT_OK(shmd_dct_create(w->targets[i].nic, 0, &w->dcts[i]));
		ASSERT_OK(shmd_dct_addr(w->dcts[i], &addrs[i]));
	}
	lab_side_open(&w->from, &w->daemon, &attr);
	ASSERT_OK(shmd_queues_connect(w->from.queues, 0, 1, NULL, params, NULL));
	ASSERT_OK(shmd_peers_resolve(w->from.nic, N_SESSIONS, addrs, 0, peers, NULL));
	ASSERT_OK(shmd_queues_set_peers(w->from.queues, N_SESSIONS, peers));
	w->dci = shmd_queues_dev_qp(w->from.queues, 0);
	w->peers = (const struct shmd_dev_peer *)(uintptr_t)shmd_queues_dev_state(w->from.queues)->peers_addr;
}

static void world_close(struct world *w)
{
	for (unsigned int i = 0; i < N_SESSIONS; i++) {
		if (w->dcts[i])
			ASSERT_OK(shmd_dct_destroy(w->dcts[i]));
		lab_side_close(&w->targets[i]);
	}
	lab_side_close(&w->from);
	fixture_daemon_stop(&w->daemon);
}

static struct shmd_dev_mode mode_to(const struct world *w, unsigned int peer)
{
	return shmd_dev_mode_to(shmd_dev_mode_of(w->dci, PATIENCE), &w->peers[peer]);
}

static uint64_t *word(const struct world *w, unsigned int peer, size_t offset)
{
	return (uint64_t *)(void *)lab_byte(&w->targets[peer], offset);
}

static void pattern(uint8_t *p, size_t bytes, unsigned int seed)
{
	for (size_t i = 0; i < bytes; i++)
		p[i] = (uint8_t)(seed * 37 + i * 3 + (i >> 8));
}

static void put_and_get(struct world *w, unsigned int peer, uint64_t bytes)
{
	struct shmd_dev_mode mode = mode_to(w, peer);
	struct shmd_dev_addr remote = lab_remote(&w->targets[peer], 64);
	struct shmd_dev_signal signal = shmd_dev_signal_of(lab_remote(&w->targets[peer], SIGNAL_AT), SHMD_DEV_SIGNAL_SET,
							   1000 + bytes);

	pattern(lab_byte(&w->from, 0), bytes, peer + 1);
	ASSERT_EQ(shmd_dev_qp_put_signal_nbi_as(w->dci, remote, lab_local(&w->from, 0), bytes, signal, mode), SHMD_DEV_OK);
	/* As the session there would wait for it. */
	ASSERT_EQ(shmd_dev_qp_wait_until64(shmd_queues_dev_qp(w->targets[peer].queues, 0), word(w, peer, SIGNAL_AT),
					   SHMD_DEV_CMP_EQ, 1000 + bytes, PATIENCE),
		  SHMD_DEV_OK);
	ASSERT_MEMEQ(lab_byte(&w->targets[peer], 64), lab_byte(&w->from, 0), bytes);
	ASSERT_EQ(shmd_dev_qp_get_as(w->dci, remote, lab_local(&w->from, 16384), bytes, mode), SHMD_DEV_OK);
	ASSERT_MEMEQ(lab_byte(&w->from, 16384), lab_byte(&w->from, 0), bytes);
}

static void count(struct world *w, unsigned int peer)
{
	struct shmd_dev_addr counter = lab_remote(&w->targets[peer], COUNTER_AT);
	uint64_t old = 0, value = 0;

	ASSERT_EQ(shmd_dev_qp_p_as(w->dci, counter, 40 + peer, 8, mode_to(w, peer)), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_atomic_as(w->dci, counter, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 2), mode_to(w, peer)),
		  SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_atomic_fetch_as(w->dci, counter, shmd_dev_amo_of(SHMD_DEV_AMO_SWAP, 8, 7), mode_to(w, peer),
					      &old),
		  SHMD_DEV_OK);
	ASSERT_EQ(old, 42u + peer);
	ASSERT_EQ(shmd_dev_qp_atomic_fetch_as(w->dci, counter, shmd_dev_amo_of(SHMD_DEV_AMO_XOR, 4, 5), mode_to(w, peer),
					      &old),
		  SHMD_DEV_OK);
	ASSERT_EQ(old, 7u);
	ASSERT_EQ(shmd_dev_qp_g_as(w->dci, counter, 8, mode_to(w, peer), &value), SHMD_DEV_OK);
	ASSERT_EQ(value, 2u);
}

TEST(device_functions_reach_the_sessions_behind_one_dci)
{
	static const uint64_t sizes[] = {0, 1, 8, 4000, 16000};
	struct world w;

	world_open(&w, SHMD_SHARING_EXCLUSIVE, NULL);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (unsigned int peer = 0; peer < N_SESSIONS; peer++)
			put_and_get(&w, peer, sizes[i]);
	for (unsigned int peer = 0; peer < N_SESSIONS; peer++)
		count(&w, peer);
	/* Withheld for all of them, announced at once. */
	for (unsigned int peer = 0; peer < N_SESSIONS; peer++) {
		struct shmd_dev_mode mode = mode_to(&w, peer);

		mode.flags = SHMD_DEV_NO_DOORBELL;
		ASSERT_EQ(shmd_dev_qp_p_as(w.dci, lab_remote(&w.targets[peer], COUNTER_AT), 90 + peer, 8, mode),
			  SHMD_DEV_OK);
	}
	ASSERT_EQ(shmd_dev_qp_quiet(w.dci, PATIENCE), SHMD_DEV_OK);
	for (unsigned int peer = 0; peer < N_SESSIONS; peer++)
		ASSERT_EQ(*word(&w, peer, COUNTER_AT), 90u + peer);
	world_close(&w);
}

/* ---- threads ------------------------------------------------------------------------------------------------------ */

struct drawer {
	struct world *w;
	pthread_t thread;
	uint64_t sum;
};

static void *draw(void *arg)
{
	struct drawer *d = arg;

	for (unsigned int i = 0; i < N_ROUNDS; i++) {
		unsigned int peer = i % N_SESSIONS;
		uint64_t ticket = 0;

		ASSERT_EQ(shmd_dev_qp_atomic_fetch_as(d->w->dci, lab_remote(&d->w->targets[peer], COUNTER_AT),
						      shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), mode_to(d->w, peer),
						      &ticket),
			  SHMD_DEV_OK);
		d->sum += ticket;
	}
	return NULL;
}

TEST(threads_share_a_dci_of_a_daemon)
{
	const uint64_t n = N_THREADS * N_ROUNDS / N_SESSIONS;
	struct drawer drawers[N_THREADS];
	uint64_t sum = 0;
	struct world w;

	world_open(&w, SHMD_SHARING_GPU, NULL);
	for (unsigned int i = 0; i < N_THREADS; i++) {
		drawers[i] = (struct drawer){.w = &w};
		ASSERT_OK(pthread_create(&drawers[i].thread, NULL, draw, &drawers[i]));
	}
	for (unsigned int i = 0; i < N_THREADS; i++) {
		pthread_join(drawers[i].thread, NULL);
		sum += drawers[i].sum;
	}
	for (unsigned int peer = 0; peer < N_SESSIONS; peer++)
		ASSERT_EQ(*word(&w, peer, COUNTER_AT), n);
	ASSERT_EQ(sum, N_SESSIONS * (n * (n - 1) / 2));
	world_close(&w);
}

/* ---- the end of a peer --------------------------------------------------------------------------------------------- */

TEST(a_dct_that_is_destroyed_fails_the_dci_that_sends_to_it)
{
	const struct shmd_qp_params impatient = {
		.timeout = 13, .retry_count = 2, .rnr_retry = 2, .min_rnr_timer = 1, .max_rd_atomic = 16};
	uint32_t wqe_index = 0;
	uint64_t value = 7;
	struct world w;

	world_open(&w, SHMD_SHARING_GPU, &impatient);
	count(&w, 1);
	ASSERT_OK(shmd_dct_destroy(w.dcts[1]));
	w.dcts[1] = NULL;
	count(&w, 2);
	ASSERT_EQ(shmd_dev_qp_g_as(w.dci, lab_remote(&w.targets[1], COUNTER_AT), 8, mode_to(&w, 1), &value),
		  SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(value, 7u);
	ASSERT_EQ(shmd_dev_qp_error(w.dci, &wqe_index), SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	/* The read of two WQEBBs, behind ten posts of three. */
	ASSERT_EQ(wqe_index, 30u);
	ASSERT_EQ(shmd_dev_qp_p_as(w.dci, lab_remote(&w.targets[2], COUNTER_AT), 1, 8, mode_to(&w, 2)), SHMD_DEV_CQE_ERROR);
	world_close(&w);
}
