/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to peers: some by a DCI, some by a QP of their own; counts; waiting for all of them. */
#include <pthread.h>
#include <string.h>

#include "tests/dev/each-mode.h"

#define N_PEERS 4u
#define N_THREADS 4u
#define N_ROUNDS 300u

static uint64_t words[N_PEERS][2] __attribute__((aligned(64)));

/* A DCI, a QP that one peer has of its own, and the dev-state a library would make of them. */
struct lab {
	struct mini_nic *dci, *rc;
	struct shmd_dev_state state;
	struct shmd_dev_route routes[N_PEERS];
	uint64_t qps[1];
};

static void lab_open(struct lab *lab, enum shmd_sharing sharing)
{
	struct mini_nic_attr attr = {.sharing = sharing, .start_index = 65536 - 5};

	memset(lab, 0, sizeof(*lab));
	memset(words, 0, sizeof(words));
	lab->rc = mini_nic_new(&attr);
	attr.n_peers = N_PEERS;
	lab->dci = mini_nic_new(&attr);
	lab->state.n_peers = N_PEERS;
	lab->state.peers_addr = (uintptr_t)lab->dci->peers;
}

static void lab_close(struct lab *lab)
{
	mini_nic_free(lab->dci);
	mini_nic_free(lab->rc);
}

/* As shmd_hot_switch() does. */
static void give_qp(struct lab *lab, uint32_t peer)
{
	lab->state.routes_addr = (uintptr_t)lab->routes;
	lab->routes[peer].qp_addr = (uintptr_t)&lab->rc->qp;
	lab->qps[0] = (uintptr_t)&lab->rc->qp;
	lab->state.hot_qps_addr = (uintptr_t)lab->qps;
	lab->state.n_hot_qps = 1;
}

static void take_qp(struct lab *lab, uint32_t peer)
{
	lab->routes[peer].qp_addr = 0;
	lab->state.n_hot_qps = 0;
}

/* Both of mini-nic's QPs reach the process's memory, each by keys of its own. */
static int put(struct lab *lab, uint32_t peer, uint32_t i, uint64_t value)
{
	struct shmd_dev_way way = shmd_dev_way_to(&lab->state, &lab->dci->qp, peer);
	struct shmd_dev_addr to = way.peer ? mini_nic_remote_of(peer, &words[peer][i]) : mini_nic_remote(&words[peer][i]);

	shmd_dev_way_count(&lab->state, peer, 1);
	return shmd_dev_qp_p_as(way.qp, to, value, 8,
				shmd_dev_mode_to(shmd_dev_mode_of(way.qp, PATIENCE), way.peer));
}

static int quiet(struct lab *lab, uint64_t timeout_nsec)
{
	return shmd_dev_ways_quiet_as(&lab->state, &lab->dci->qp, shmd_dev_mode_of(&lab->dci->qp, timeout_nsec));
}

TEST(a_way_is_the_dci_until_the_peer_has_a_qp_of_its_own)
{
	for (int sharing = SHMD_SHARING_EXCLUSIVE; sharing <= SHMD_SHARING_GPU; sharing++) {
		uint64_t n_dci, n_rc;
		struct lab lab;

		lab_open(&lab, (enum shmd_sharing)sharing);
		/* Without routes, too. */
		for (uint32_t peer = 0; peer < N_PEERS; peer++)
			ASSERT_EQ(put(&lab, peer, 0, 10 + peer), SHMD_DEV_OK);
		ASSERT_EQ(quiet(&lab, PATIENCE), SHMD_DEV_OK);
		ASSERT_EQ(mini_nic_get(&lab.rc->n_wqes), 0u);
		n_dci = mini_nic_get(&lab.dci->n_wqes);
		ASSERT_EQ(n_dci, 2 * N_PEERS);
		give_qp(&lab, 2);
		for (uint32_t peer = 0; peer < N_PEERS; peer++)
			ASSERT_EQ(put(&lab, peer, 1, 20 + peer), SHMD_DEV_OK);
		ASSERT_EQ(quiet(&lab, PATIENCE), SHMD_DEV_OK);
		n_rc = mini_nic_get(&lab.rc->n_wqes);
		ASSERT_EQ(n_rc, 1u);
		ASSERT_EQ(mini_nic_get(&lab.dci->n_wqes), n_dci + 2 * (N_PEERS - 1));
		take_qp(&lab, 2);
		ASSERT_EQ(put(&lab, 2, 0, 30), SHMD_DEV_OK);
		ASSERT_EQ(quiet(&lab, PATIENCE), SHMD_DEV_OK);
		ASSERT_EQ(mini_nic_get(&lab.rc->n_wqes), n_rc);
		for (uint32_t peer = 0; peer < N_PEERS; peer++) {
			ASSERT_EQ(words[peer][0], peer == 2 ? 30u : 10u + peer);
			ASSERT_EQ(words[peer][1], 20u + peer);
		}
		/* The first round had nothing to count in. */
		ASSERT_EQ(lab.routes[2].n_posts, 2u);
		ASSERT_EQ(lab.routes[1].n_posts, 1u);
		lab_close(&lab);
	}
}

TEST(quiet_of_all_ways_waits_for_each_and_tells_the_first_failure)
{
	struct lab lab;

	lab_open(&lab, SHMD_SHARING_GPU);
	give_qp(&lab, 1);
	mini_nic_set(&lab.rc->stalled, 1);
	ASSERT_EQ(put(&lab, 0, 0, 1), SHMD_DEV_OK);
	ASSERT_EQ(put(&lab, 1, 0, 2), SHMD_DEV_OK);
	ASSERT_EQ(quiet(&lab, 10 * MSEC), SHMD_DEV_TIMEOUT);
	mini_nic_set(&lab.rc->stalled, 0);
	ASSERT_EQ(quiet(&lab, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(words[1][0], 2u);
	/* The DCI fails; what went to the peer with a QP is waited for all the same. */
	mini_nic_set(&lab.dci->fail_syndrome, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	mini_nic_set(&lab.dci->fail_index, lab.dci->qp.sq_rsvd_index);
	ASSERT_EQ(put(&lab, 0, 0, 3), SHMD_DEV_OK);
	ASSERT_EQ(put(&lab, 1, 0, 4), SHMD_DEV_OK);
	ASSERT_EQ(quiet(&lab, PATIENCE), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(words[1][0], 4u);
	lab_close(&lab);
}

struct poster {
	struct lab *lab;
	pthread_t thread;
	uint32_t me;
};

static void *post(void *arg)
{
	struct poster *p = (struct poster *)arg;

	for (uint32_t i = 1; i <= N_ROUNDS; i++)
		ASSERT_EQ(put(p->lab, (p->me + i) % N_PEERS, 0, i), SHMD_DEV_OK);
	ASSERT_EQ(quiet(p->lab, PATIENCE), SHMD_DEV_OK);
	return NULL;
}

TEST(threads_with_different_peers_lose_no_request_and_no_count)
{
	struct poster posters[N_THREADS];
	struct lab lab;

	lab_open(&lab, SHMD_SHARING_GPU);
	give_qp(&lab, 3);
	for (uint32_t i = 0; i < N_THREADS; i++) {
		posters[i] = (struct poster){.lab = &lab, .me = i};
		ASSERT_OK(pthread_create(&posters[i].thread, NULL, post, &posters[i]));
	}
	for (uint32_t i = 0; i < N_THREADS; i++)
		pthread_join(posters[i].thread, NULL);
	for (uint32_t peer = 0; peer < N_PEERS; peer++)
		ASSERT_EQ(lab.routes[peer].n_posts, N_THREADS * N_ROUNDS / N_PEERS);
	ASSERT_EQ(mini_nic_get(&lab.rc->n_wqes), N_THREADS * N_ROUNDS / N_PEERS);
	lab_close(&lab);
}
