/* SPDX-License-Identifier: Apache-2.0 */
/* Soft NICs and a client that abuses its own queues, doorbell page and wake descriptor: other clients do not notice. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

#define N_PUTS 50

static void puts_complete(struct client *c)
{
	for (uint64_t i = 1; i <= N_PUTS; i++) {
		client_post_inline(c, 0, i, c, 64);
		client_ring(c, 0);
		client_complete(c, 0);
		ASSERT_EQ(*(uint64_t *)(void *)(c->mem + 64), i);
	}
}

struct flood {
	struct client *c;
	uint32_t stop;
};

/* A full ring of NOPs for ever, with a doorbell and a wake each time. */
static void *flood_run(void *arg)
{
	struct flood *flood = arg;
	struct client *c = flood->c;

	c->qps[0].sq_pi = 1u << CLIENT_LOG2_SQ;
	while (!__atomic_load_n(&flood->stop, __ATOMIC_RELAXED)) {
		struct shmd_cqe cqe;
		uint64_t one = 1;
		bool executed = false;

		while (client_poll(c, 0, &cqe, 0))
			executed = true;
		if (executed)
			c->qps[0].sq_pi += 1u << CLIENT_LOG2_SQ;
		client_publish(c, 0);
		client_ring_word(c, client_qpn(c, 0));
		if (write(c->ctx->doorbell.wake_fd, &one, sizeof(one)) < 0)
			continue;
	}
	return NULL;
}

static void fill_with_nops(struct client *c)
{
	const struct nic_qp *qp = &c->queues->layout.qps[0];

	for (uint32_t i = 0; i < 1u << CLIENT_LOG2_SQ; i++) {
		struct shmd_wqe_ctrl_seg ctrl = {.qpn_ds = htobe32(qp->qpn << 8 | 1)};

		if (i + 1 == 1u << CLIENT_LOG2_SQ)
			ctrl.fm_ce_se = SHMD_WQE_CE_ALWAYS;
		memcpy(c->queue_mem + qp->sq_offset + i * SHMD_WQEBB_BYTES, &ctrl, sizeof(ctrl));
	}
}

TEST_TIMEOUT(a_client_that_never_stops_leaves_others_their_turn, 60)
{
	struct client hostile, other;
	struct flood flood = {.c = &hostile};
	pthread_t thread;
	uint64_t begin;
	struct rig rig;

	rig_open(&rig, 1, NULL);
	client_open(&hostile, rig.nic[0], 1, 1);
	client_open(&other, rig.nic[0], 2, 1);
	client_connect(&hostile, 0, &hostile, 0);
	client_connect(&other, 0, &other, 0);
	fill_with_nops(&hostile);
	ASSERT_OK(pthread_create(&thread, NULL, flood_run, &flood));
	puts_complete(&other);
	/* Its end is bounded as well, though it goes on. */
	begin = nsec_now();
	rig.nic[0]->ops->ctx_quiesce(hostile.ctx, CLIENT_QUIESCE_NSEC);
	ASSERT_LT(nsec_now() - begin, 10 * CLIENT_QUIESCE_NSEC);
	puts_complete(&other);
	__atomic_store_n(&flood.stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	client_close(&hostile);
	puts_complete(&other);
	client_close(&other);
	rig_close(&rig);
}

/* Full, and blocking: the NIC's thread neither reads nor writes it. */
TEST(a_wake_descriptor_that_is_full_stops_no_traffic)
{
	const uint64_t most = UINT64_MAX - 1;
	struct client hostile, other;
	struct rig rig;
	int fd;

	rig_open(&rig, 1, NULL);
	client_open(&hostile, rig.nic[0], 1, 1);
	client_open(&other, rig.nic[0], 2, 1);
	client_connect(&hostile, 0, &hostile, 0);
	client_connect(&other, 0, &other, 0);
	fd = hostile.ctx->doorbell.wake_fd;
	ASSERT_EQ(write(fd, &most, sizeof(most)), sizeof(most));
	ASSERT_OK(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK));
	client_wait_asleep(&other);
	puts_complete(&other);
	client_wait_asleep(&other);
	puts_complete(&other);
	client_close(&hostile);
	client_close(&other);
	rig_close(&rig);
}

/* Every bit of the doorbell page, all the time. */
TEST(a_doorbell_page_of_noise_is_only_a_wake)
{
	struct client hostile, other;
	uint64_t seed = 1;
	struct rig rig;

	rig_open(&rig, 1, NULL);
	client_open(&hostile, rig.nic[0], 1, 2);
	client_open(&other, rig.nic[0], 2, 1);
	client_connect(&hostile, 0, &hostile, 1);
	client_connect(&other, 0, &other, 0);
	for (unsigned int round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < SHMD_DB_PAGE_BYTES; i++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			hostile.doorbell_page[i] = (uint8_t)(seed >> 56);
		}
		client_wake(&hostile);
		puts_complete(&other);
	}
	client_close(&hostile);
	client_close(&other);
	rig_close(&rig);
}

