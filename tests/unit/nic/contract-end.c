/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of nic.h: how contexts and QPs end, what others notice of it, and many contexts at once. */
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "contract.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

/* The runner counts descriptors, and the address sanitizer counts memory. */
TEST(a_context_closes_at_every_half_built_point)
{
	struct client c;
	struct rig rig;

	contract_open(&rig, 1);
	rig_close(&rig);
	contract_open(&rig, 2);
	for (int step = 0; step < 6; step++) {
		contract_open_ctx(&c, rig.nic[0], 1);
		if (step >= 1)
			client_reg(&c);
		if (step >= 2)
			client_create(&c, 70, 0);
		if (step >= 3)
			client_connect(&c, 0, &c, 1);
		if (step >= 4)
			for (int i = 0; i < 30; i++)
				client_post_write(&c, 0, 0, &c, 4096, 4096);
		if (step >= 5)
			client_ring(&c, 0);
		client_close(&c);
	}
	rig_close(&rig);
}

/* ---- quiesce --------------------------------------------------------------------------------------------------------- */

/* The peer has no receive posted: the send is retried for ever, and quiesce must end it. */
TEST(quiesce_flushes_what_was_posted)
{
	struct contract_pair pair;
	struct shmd_cqe cqe;

	contract_open_pair(&pair, 1);
	for (int i = 0; i < 10; i++)
		client_post_send(&pair.a, 0, 0, 64);
	client_ring(&pair.a, 0);
	client_post_recv(&pair.a, 0, 0, 64);
	ASSERT(!client_poll(&pair.a, 0, &cqe, 50000000));
	pair.rig.nic[0]->ops->ctx_quiesce(pair.a.ctx, CLIENT_QUIESCE_NSEC);
	ASSERT_EQ(contract_state(&pair.a, 0), NIC_QPS_ERR);
	for (int i = 0; i < 11; i++) {
		ASSERT(client_poll(&pair.a, 0, &cqe, CLIENT_LIMIT_NSEC));
		ASSERT_EQ(client_cqe_syndrome(&cqe), SHMD_SYNDROME_WR_FLUSH_ERR);
	}
	ASSERT(!client_poll(&pair.a, 0, &cqe, 0));
	ASSERT_EQ(contract_state(&pair.b, 0), NIC_QPS_RTS);
	ASSERT_EQ(client_word(&pair.b, 0), 0u);
	contract_close_pair(&pair);
}

/* A client that never stops posting cannot prolong its own end. */
TEST(nothing_is_executed_that_a_client_posts_after_quiesce)
{
	struct shmd_cqe cqe;
	struct client c;
	struct rig rig;

	contract_open(&rig, 1);
	contract_open_client(&c, rig.nic[0], 1, 1);
	client_connect(&c, 0, &c, 0);
	rig.nic[0]->ops->ctx_quiesce(c.ctx, CLIENT_QUIESCE_NSEC);
	for (int i = 0; i < 3; i++)
		client_post_inline(&c, 0, 1, &c, 0);
	client_ring(&c, 0);
	client_post_recv(&c, 0, 0, 64);
	while (client_poll(&c, 0, &cqe, 20000000)) {
		ASSERT(contract_backend()->flushes_late);
		ASSERT_EQ(client_cqe_syndrome(&cqe), SHMD_SYNDROME_WR_FLUSH_ERR);
	}
	ASSERT_EQ(client_word(&c, 0), 0u);
	client_close(&c);
	rig_close(&rig);
}

/* A client may write a receive counter although its QP has no receive queue: quiesce waits for no work of it. */
TEST(quiesce_does_not_wait_for_a_receive_queue_that_a_qp_lacks)
{
	struct nic_queues_attr attr;
	struct shmd_dbrec *dbrec;
	struct client c;
	struct rig rig;
	uint64_t begin;

	contract_open(&rig, 1);
	contract_open_ctx(&c, rig.nic[0], 1);
	client_reg(&c);
	client_attr(&attr, 1, 0);
	attr.qps[0].n_rq_wqes = 0;
	client_create_as(&c, &attr);
	client_connect(&c, 0, &c, 0);
	dbrec = (struct shmd_dbrec *)(void *)(c.queue_mem + c.queues->layout.qps[0].dbrec_offset);
	__atomic_store_n(&dbrec->rcv, htobe32(7), __ATOMIC_RELEASE);
	begin = nsec_now();
	rig.nic[0]->ops->ctx_quiesce(c.ctx, test_patience_nsec());
	ASSERT_LT(nsec_now() - begin, test_patience_nsec());
	ASSERT_EQ(contract_state(&c, 0), NIC_QPS_ERR);
	client_close(&c);
	rig_close(&rig);
}

TEST(the_end_of_one_session_leaves_others_alone)
{
	struct client a, b;
	struct rig rig;

	contract_open(&rig, 1);
	contract_open_client(&a, rig.nic[0], 1, 2);
	contract_open_client(&b, rig.nic[0], 2, 1);
	client_connect(&a, 0, &a, 0);
	client_connect(&b, 0, &b, 0);
	client_post_inline(&b, 0, 5, &b, 0);
	client_ring(&b, 0);
	client_close(&a);
	client_complete(&b, 0);
	client_post_inline(&b, 0, 6, &b, 0);
	client_ring(&b, 0);
	client_complete(&b, 0);
	ASSERT_EQ(client_word(&b, 0), 6u);
	client_close(&b);
	rig_close(&rig);
}

/* ---- errors ---------------------------------------------------------------------------------------------------------- */

TEST(a_peer_that_is_gone_ends_in_an_error_and_one_event)
{
	struct contract_pair pair;
	struct pollfd event_poll = {.events = POLLIN};
	struct nic_event event;
	struct shmd_cqe cqe;
	struct nic *nic;

	contract_open_pair(&pair, 1);
	nic = pair.rig.nic[0];
	client_close(&pair.b);
	ASSERT(!pair.rig.nic[1]->ops->close(pair.rig.nic[1]));
	event_poll.fd = nic->event_fd;
	ASSERT_EQ(poll(&event_poll, 1, 0), 0);
	ASSERT_ERR(client_next_event(nic, &event), EAGAIN);
	/* The region is gone too; any key will do. */
	client_post_inline(&pair.a, 0, 1, &pair.a, 0);
	client_ring(&pair.a, 0);
	ASSERT(client_poll(&pair.a, 0, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT_EQ(client_cqe_syndrome(&cqe), SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	contract_wait_event(nic, &event);
	ASSERT_EQ(event.kind, NIC_EVENT_QP_ERROR);
	ASSERT_EQ(event.session_id, 1u);
	ASSERT_EQ(event.number, client_qpn(&pair.a, 0));
	ASSERT_EQ(event.syndrome, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	ASSERT_ERR(client_next_event(nic, &event), EAGAIN);
	ASSERT_EQ(poll(&event_poll, 1, 0), 0);
	client_close(&pair.a);
	rig_close(&pair.rig);
}

/* ---- many callers ----------------------------------------------------------------------------------------------------- */

struct caller {
	pthread_t thread;
	struct rig *rig;
	unsigned int index;
};

static void run_round(struct caller *caller, unsigned int round)
{
	struct client a, b;

	contract_open_client(&a, caller->rig->nic[(caller->index + round) % 2], 2 * caller->index + 1, 3);
	contract_open_client(&b, caller->rig->nic[(caller->index + round + 1) % 2], 2 * caller->index + 2, 3);
	for (unsigned int i = 0; i < 3; i++)
		client_connect(&a, i, &b, i);
	for (uint64_t i = 0; i < 60; i++) {
		client_post_inline(&a, i % 3, i, &b, 8 * i);
		client_ring(&a, i % 3);
		client_post_write(&b, i % 3, 32768, &a, 65536, 4096);
		client_ring(&b, i % 3);
		client_complete(&a, i % 3);
		client_complete(&b, i % 3);
		ASSERT_EQ(client_word(&b, 8 * i), i);
	}
	/* Leave work behind, on one side only. */
	client_post_write(&a, 0, 0, &b, 0, 65536);
	client_ring(&a, 0);
	client_close(round % 2 ? &a : &b);
	client_close(round % 2 ? &b : &a);
}

static void *caller_main(void *arg)
{
	for (unsigned int round = 0; round < 6; round++)
		run_round(arg, round);
	return NULL;
}

TEST_TIMEOUT(contexts_of_many_threads_are_independent, 60)
{
	struct caller callers[6];
	struct rig rig;

	contract_open(&rig, 2);
	for (unsigned int i = 0; i < 6; i++) {
		callers[i] = (struct caller){.rig = &rig, .index = i};
		ASSERT_OK(pthread_create(&callers[i].thread, NULL, caller_main, &callers[i]));
	}
	for (unsigned int i = 0; i < 6; i++)
		ASSERT_OK(pthread_join(callers[i].thread, NULL));
	rig_close(&rig);
}
