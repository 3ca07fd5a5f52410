/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A NIC thread that gets no CPU costs its peers no retries; a peer that is gone still ends them in bounded time. Whoever asks a thread
 * on busy CPUs waits for that thread alone.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

#define SITS "soft.sit-still:1500"
#define SITS_AFTER 8u /* writes */

/* A time-out of 1 ms and one retry: 2 ms without an answer end the QP. */
static const struct nic_qp_params impatient = {
	.timeout = 8, .retry_count = 1, .rnr_retry = 7, .min_rnr_timer = 1, .max_rd_atomic = 16};

static void begin_write(struct client *c, uint64_t value)
{
	client_post_inline(c, 0, value, c, 0);
	client_ring(c, 0);
}

/* The thread of this client's NIC sits still after this; the client's first QP is connected to itself. */
static void sit_still(struct client *c)
{
	for (unsigned int i = 0; i < SITS_AFTER; i++) {
		begin_write(c, i);
		client_complete(c, 0);
	}
	nanosleep(&(struct timespec){.tv_nsec = 20 * NSEC_PER_MSEC}, NULL);
}

TEST(a_thread_that_sits_still_costs_its_peers_no_retries)
{
	struct client peer, alice;
	struct nic_qp_info info;
	struct rig rig;

	rig_open(&rig, 2, SITS);
	client_open(&alice, rig.nic[0], 1, 1);
	client_open(&peer, rig.nic[1], 2, 2);
	client_connect(&peer, 0, &peer, 0);
	client_connect_as(&alice, 0, &peer, 1, &impatient);
	sit_still(&peer);
	client_post_fetch_add(&alice, 0, 64, &peer, 128, 3);
	client_ring(&alice, 0);
	client_complete(&alice, 0);
	ASSERT_OK(alice.ctx->nic->ops->qp_query(alice.ctx, client_qpn(&alice, 0), &info));
	ASSERT_EQ(info.state, NIC_QPS_RTS);
	ASSERT_EQ(info.counters.retries, 0u);
	client_close(&alice);
	client_close(&peer);
	rig_close(&rig);
}

TEST(a_peer_that_has_gone_ends_in_retries_exceeded_at_once)
{
	struct client peer, alice;
	struct shmd_cqe cqe;
	uint64_t begin;
	struct rig rig;

	rig_open(&rig, 2, NULL);
	client_open(&alice, rig.nic[0], 1, 1);
	client_open(&peer, rig.nic[1], 2, 1);
	client_connect_as(&alice, 0, &peer, 0, &impatient);
	client_close(&peer);
	begin = nsec_now();
	begin_write(&alice, 1);
	ASSERT(client_poll(&alice, 0, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT_EQ(client_cqe_syndrome(&cqe), SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	ASSERT_LT(nsec_now() - begin, NSEC_PER_SEC);
	client_close(&alice);
	rig_close(&rig);
}

/* ---- busy CPUs --------------------------------------------------------------------------------------------------- */

#define N_QUESTIONS 40
#define N_ROUNDS 3
#define BURNERS_PER_CPU 3
#define MOST_BURNERS 64

static void *burn(void *arg)
{
	while (!__atomic_load_n((bool *)arg, __ATOMIC_RELAXED))
		;
	return NULL;
}

/* True: hardly anything ran in place of this thread. */
static bool ask(struct client *c)
{
	struct rusage before, after;
	struct nic_qp_info info;
	uint64_t begin, sum = 0;
	long n_switches;

	ASSERT_OK(getrusage(RUSAGE_THREAD, &before));
	for (unsigned int i = 0; i < N_QUESTIONS; i++) {
		nanosleep(&(struct timespec){.tv_nsec = 5 * NSEC_PER_MSEC}, NULL);
		begin = nsec_now();
		ASSERT_OK(c->ctx->nic->ops->qp_query(c->ctx, client_qpn(c, 0), &info));
		sum += nsec_now() - begin;
	}
	ASSERT_OK(getrusage(RUSAGE_THREAD, &after));
	n_switches = after.ru_nivcsw - before.ru_nivcsw;
	printf("# %.2f ms each; %ld times something else ran first\n", (double)sum / N_QUESTIONS / NSEC_PER_MSEC, n_switches);
	return n_switches < N_QUESTIONS / 2;
}

/* A caller that yields loses its CPU to all others, for milliseconds each time. It sleeps, and is woken. Time slices end, too: seldom in most rounds. */
TEST(who_asks_an_executor_gives_no_cpu_away_while_all_are_busy)
{
	long n_burners = BURNERS_PER_CPU * sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t burners[MOST_BURNERS];
	bool is_over = false, is_asleep = false;
	struct client c;
	struct rig rig;

	if (test_emulator())
		test_skip("an emulator has threads and system calls of its own");
	n_burners = n_burners < MOST_BURNERS ? n_burners : MOST_BURNERS;
	rig_open(&rig, 1, NULL);
	client_open(&c, rig.nic[0], 1, 1);
	for (long i = 0; i < n_burners; i++)
		ASSERT_OK(pthread_create(&burners[i], NULL, burn, &is_over));
	for (unsigned int round = 0; round < N_ROUNDS && !is_asleep; round++)
		is_asleep = ask(&c);
	__atomic_store_n(&is_over, true, __ATOMIC_RELAXED);
	for (long i = 0; i < n_burners; i++)
		ASSERT_OK(pthread_join(burners[i], NULL));
	ASSERT(is_asleep);
	client_close(&c);
	rig_close(&rig);
}
