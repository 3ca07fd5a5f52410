/* SPDX-License-Identifier: Apache-2.0 */
/* What a client may do with its own queues, doorbell page and wake descriptor, and who must not suffer from it. */
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

static void connect_one_side(struct client *from, const struct client *to)
{
	const struct nic_peer peer = {.qpn = client_qpn(from, 0), .remote = to->queues->layout.qps[0].addr};
	unsigned int n_done;

	ASSERT_OK(from->ctx->nic->ops->connect(from->ctx, 1, &peer, &client_params, &n_done));
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
TEST(a_wake_descriptor_that_is_full_stops_nobody)
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

/* The address of another session's QP is no secret, and of no use: that QP hears its own peer only. */
TEST(who_connects_to_a_foreign_qp_writes_nothing_even_with_its_key)
{
	struct client victim, peer, stranger;
	struct shmd_cqe cqe;
	struct rig rig;

	rig_open(&rig, 2, NULL);
	client_open(&victim, rig.nic[0], 1, 1);
	client_open(&peer, rig.nic[1], 2, 1);
	client_open(&stranger, rig.nic[0], 3, 1);
	client_connect(&victim, 0, &peer, 0);
	connect_one_side(&stranger, &victim);
	client_post_inline(&stranger, 0, 0x666, &victim, 64);
	client_ring(&stranger, 0);
	ASSERT(!client_poll(&stranger, 0, &cqe, 200000000) ||
	       client_cqe_opcode(&cqe) == SHMD_CQE_REQ_ERR);
	ASSERT_EQ(*(uint64_t *)(void *)(victim.mem + 64), 0u);
	client_post_inline(&peer, 0, 7, &victim, 64);
	client_ring(&peer, 0);
	client_complete(&peer, 0);
	ASSERT_EQ(*(uint64_t *)(void *)(victim.mem + 64), 7u);
	client_close(&stranger);
	client_close(&peer);
	client_close(&victim);
	rig_close(&rig);
}

/* A key opens memory of its own session only, through a QP of that session. */
TEST(the_key_of_a_third_session_is_refused)
{
	struct client a, b, third;
	struct shmd_cqe cqe;
	struct rig rig;

	rig_open(&rig, 1, NULL);
	client_open(&a, rig.nic[0], 1, 1);
	client_open(&b, rig.nic[0], 2, 1);
	client_open(&third, rig.nic[0], 3, 1);
	client_connect(&a, 0, &b, 0);
	client_post_inline(&a, 0, 0x666, &third, 64);
	client_ring(&a, 0);
	ASSERT(client_poll(&a, 0, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT_EQ(client_cqe_syndrome(&cqe), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_EQ(*(uint64_t *)(void *)(third.mem + 64), 0u);
	client_close(&third);
	client_close(&b);
	client_close(&a);
	rig_close(&rig);
}
