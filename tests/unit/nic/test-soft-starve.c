/* SPDX-License-Identifier: Apache-2.0 */
/* A NIC thread that gets no CPU costs its peers no retries; a peer that is gone still ends them in bounded time. */
#include <time.h>

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
