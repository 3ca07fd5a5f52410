/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of nic.h: queues from creation to the states of their QPs, and what is counted of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "contract.h"
#include "tests/lib/test.h"

/* ---- creation -------------------------------------------------------------------------------------------------------- */

/* The last specification names a CQ that does not exist: the CQs and QPs before it must go again. */
TEST(a_failed_batch_leaves_nothing_behind)
{
	struct nic_queue_mem mem = {.kind = NIC_MEM_MEMFD};
	struct nic_queues *queues = NULL;
	struct nic_queues_attr attr;
	struct nic_layout layout;
	const struct nic_ops *ops;
	struct client c;
	struct rig rig;
	uint8_t *map;
	uint64_t bytes;

	contract_open(&rig, 1);
	ops = rig.nic[0]->ops;
	contract_open_ctx(&c, rig.nic[0], 1);
	client_attr(&attr, 50, 0);
	attr.n_qp_specs = 2;
	attr.qps[1] = attr.qps[0];
	attr.qps[1].send_cqn = 0x123456;
	ASSERT_OK(nic_layout_init(&layout, &attr));
	bytes = layout.total_bytes;
	mem.length_bytes = bytes;
	mem.fd = client_memfd(bytes, &map);
	for (int i = 0; i < 3; i++)
		ASSERT_ERR(ops->queues_create(c.ctx, &mem, &layout, &queues), EINVAL);
	ASSERT(!queues);
	ASSERT_EQ(layout.n_qps, 100u); /* still the caller's, and it can be put right */
	for (unsigned int i = 50; i < 100; i++)
		layout.qps[i].send_cqn = layout.qps[i - 50].send_cqn;
	ASSERT_OK(ops->queues_create(c.ctx, &mem, &layout, &queues));
	ASSERT_OK(ops->queues_destroy(queues));
	munmap(map, bytes);
	close(mem.fd);
	client_close(&c);
	rig_close(&rig);
}

TEST(a_cq_in_use_by_another_batch_stays)
{
	struct nic_queue_mem mem = {.kind = NIC_MEM_MEMFD};
	struct nic_queues *second = NULL;
	struct nic_queues_attr attr;
	struct nic_layout layout;
	const struct nic_ops *ops;
	struct client a, b;
	struct rig rig;
	uint8_t *map;
	uint64_t bytes;

	contract_open(&rig, 1);
	ops = rig.nic[0]->ops;
	contract_open_client(&a, rig.nic[0], 1, 1);
	contract_open_client(&b, rig.nic[0], 2, 1);
	client_attr(&attr, 1, 0);
	attr.n_cq_specs = 0;
	attr.qps[0].send_cqn = a.queues->layout.cqs[0].cqn;
	attr.qps[0].recv_cqn = a.queues->layout.cqs[0].cqn;
	ASSERT_OK(nic_layout_init(&layout, &attr));
	bytes = layout.total_bytes;
	mem.length_bytes = bytes;
	mem.fd = client_memfd(bytes, &map);
	/* Another context has no CQ of that number. */
	ASSERT_ERR(ops->queues_create(b.ctx, &mem, &layout, &second), EINVAL);
	ASSERT_OK(ops->queues_create(a.ctx, &mem, &layout, &second));
	ASSERT_EQ(second->layout.qps[0].send_cqn, a.queues->layout.cqs[0].cqn);
	ASSERT_ERR(ops->queues_destroy(a.queues), EBUSY);
	ASSERT_OK(ops->queues_destroy(second));
	munmap(map, bytes);
	close(mem.fd);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

/* ---- states ---------------------------------------------------------------------------------------------------------- */

TEST(a_qp_goes_through_the_states_of_ibta)
{
	const struct nic_ops *ops;
	struct nic_qp_info info;
	struct client c;
	struct rig rig;
	uint32_t qpn;

	contract_open(&rig, 1);
	ops = rig.nic[0]->ops;
	contract_open_client(&c, rig.nic[0], 1, 1);
	qpn = client_qpn(&c, 0);
	ASSERT_EQ(contract_state(&c, 0), NIC_QPS_RST);
	ASSERT_ERR(ops->qp_modify(c.ctx, qpn, NIC_QPS_RTR), EINVAL);
	ASSERT_ERR(ops->qp_modify(c.ctx, qpn, NIC_QPS_RTS), contract_backend()->has_sqd ? EINVAL : EOPNOTSUPP);
	ASSERT_OK(ops->qp_modify(c.ctx, qpn, NIC_QPS_INIT));
	ASSERT_EQ(contract_state(&c, 0), NIC_QPS_INIT);
	client_connect(&c, 0, &c, 0);
	ASSERT_OK(ops->qp_query(c.ctx, qpn, &info));
	ASSERT_EQ(info.state, NIC_QPS_RTS);
	ASSERT_EQ(info.dest_qpn, qpn);
	ASSERT_OK(ops->qp_modify(c.ctx, qpn, NIC_QPS_ERR));
	ASSERT_EQ(contract_state(&c, 0), NIC_QPS_ERR);
	ASSERT_OK(ops->qp_modify(c.ctx, qpn, NIC_QPS_RST));
	ASSERT_EQ(contract_state(&c, 0), NIC_QPS_RST);
	client_connect(&c, 0, &c, 0);
	client_exercise(&c, &c);
	ASSERT_ERR(ops->qp_modify(c.ctx, qpn + 1, NIC_QPS_ERR), EINVAL);
	client_close(&c);
	rig_close(&rig);
}

TEST(a_qp_in_sqd_sends_nothing_until_it_is_resumed)
{
	const struct nic_ops *ops;
	struct shmd_cqe cqe;
	struct client c;
	struct rig rig;

	contract_open(&rig, 1);
	ops = rig.nic[0]->ops;
	contract_open_client(&c, rig.nic[0], 1, 1);
	client_connect(&c, 0, &c, 0);
	if (!contract_backend()->has_sqd) {
		ASSERT_ERR(ops->qp_modify(c.ctx, client_qpn(&c, 0), NIC_QPS_SQD), EOPNOTSUPP);
		ASSERT_EQ(contract_state(&c, 0), NIC_QPS_RTS);
	} else {
		ASSERT_OK(ops->qp_modify(c.ctx, client_qpn(&c, 0), NIC_QPS_SQD));
		client_post_inline(&c, 0, 9, &c, 0);
		client_ring(&c, 0);
		ASSERT(!client_poll(&c, 0, &cqe, 20000000));
		ASSERT_EQ(contract_state(&c, 0), NIC_QPS_SQD);
		ASSERT_OK(ops->qp_modify(c.ctx, client_qpn(&c, 0), NIC_QPS_RTS));
		client_complete(&c, 0);
		ASSERT_EQ(client_word(&c, 0), 9u);
	}
	client_close(&c);
	rig_close(&rig);
}

/* ---- connect --------------------------------------------------------------------------------------------------------- */

TEST(connect_stops_at_the_first_failure)
{
	const struct nic_ops *ops;
	struct nic_peer peers[3];
	struct client a, b;
	struct rig rig;
	unsigned int n_done = 9;

	contract_open(&rig, 2);
	ops = rig.nic[0]->ops;
	contract_open_client(&a, rig.nic[0], 1, 3);
	contract_open_client(&b, rig.nic[1], 2, 3);
	for (unsigned int i = 0; i < 3; i++)
		peers[i] = (struct nic_peer){client_qpn(&a, i), b.queues->layout.qps[i].addr};
	peers[1].remote.qp_type = NIC_QP_DCI;
	ASSERT_ERR(ops->connect(a.ctx, 3, peers, &client_params, &n_done), EINVAL);
	ASSERT_EQ(n_done, 1u);
	ASSERT_EQ(contract_state(&a, 0), NIC_QPS_RTS);
	ASSERT_EQ(contract_state(&a, 1), NIC_QPS_RST);
	ASSERT_EQ(contract_state(&a, 2), NIC_QPS_RST);
	/* The failed one can be tried again; a connected one cannot. */
	peers[1].remote.qp_type = NIC_QP_RC;
	ASSERT_OK(ops->connect(a.ctx, 2, peers + 1, &client_params, &n_done));
	ASSERT_EQ(n_done, 2u);
	ASSERT_ERR(ops->connect(a.ctx, 1, peers, &client_params, &n_done), EINVAL);
	ASSERT_EQ(n_done, 0u);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

static void refuse_connect(struct client *c, const struct nic_peer *peer, const struct nic_qp_params *params)
{
	unsigned int n_done = 9;

	ASSERT_ERR(c->ctx->nic->ops->connect(c->ctx, 1, peer, params, &n_done), EINVAL);
	ASSERT_EQ(n_done, 0u);
}

TEST(connect_refuses_strange_peers_and_parameters)
{
	struct nic_qp_params params = client_params;
	struct nic_peer good, peer;
	const struct nic_ops *ops;
	struct client a, b;
	struct rig rig;

	contract_open(&rig, 1);
	ops = rig.nic[0]->ops;
	contract_open_client(&a, rig.nic[0], 1, 1);
	contract_open_client(&b, rig.nic[0], 2, 1);
	good = peer = (struct nic_peer){client_qpn(&a, 0), b.queues->layout.qps[0].addr};
	peer.qpn = client_qpn(&b, 0); /* not a's */
	refuse_connect(&a, &peer, &params);
	peer = good;
	peer.remote.link = good.remote.link == NIC_LINK_ETHERNET ? NIC_LINK_INFINIBAND : NIC_LINK_ETHERNET;
	refuse_connect(&a, &peer, &params);
	peer = good;
	peer.remote.qp_type = NIC_QP_DCT;
	refuse_connect(&a, &peer, &params);
	params.timeout = 32;
	refuse_connect(&a, &good, &params);
	params = client_params;
	params.retry_count = 8;
	refuse_connect(&a, &good, &params);
	ASSERT_ERR(ops->qp_modify(a.ctx, client_qpn(&b, 0), NIC_QPS_ERR), EINVAL);
	ASSERT_EQ(contract_state(&a, 0), NIC_QPS_RST);
	ASSERT_EQ(contract_state(&b, 0), NIC_QPS_RST);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

/* ---- counters -------------------------------------------------------------------------------------------------------- */

TEST(errors_are_counted_for_the_context_and_stay_in_the_sum_of_the_nic)
{
	struct nic_counters before, after;
	const struct nic_ops *ops;
	struct client a, b;
	struct rig rig;

	contract_open(&rig, 1);
	ops = rig.nic[0]->ops;
	contract_open_client(&a, rig.nic[0], 1, 1);
	contract_open_client(&b, rig.nic[0], 2, 1);
	client_connect(&a, 0, &b, 0);
	ASSERT_OK(ops->ctx_counters(a.ctx, &before));
	contract_fail(&a, 0, &b, 0);
	ASSERT_OK(ops->ctx_counters(a.ctx, &after));
	ASSERT_GT(after.error_cqes, before.error_cqes);
	ASSERT_OK(ops->counters(rig.nic[0], &after));
	ASSERT_GT(after.error_cqes, before.error_cqes);
	client_close(&a);
	client_close(&b);
	ASSERT_OK(ops->counters(rig.nic[0], &before));
	ASSERT_EQ(before.error_cqes, after.error_cqes);
	rig_close(&rig);
}

static uint64_t errors_of(struct client *c, unsigned int i)
{
	struct nic_qp_info info;

	ASSERT_OK(c->ctx->nic->ops->qp_query(c->ctx, client_qpn(c, i), &info));
	return info.counters.error_cqes;
}

/* The NIC counts flushes a moment after the error CQE that the client sees. */
static void fail_and_wait(struct client *a, unsigned int i, struct client *b, unsigned int n_flushed)
{
	contract_fail(a, i, b, n_flushed);
	for (unsigned int n = 0; n < 60000 && errors_of(a, i) <= n_flushed; n++)
		usleep(1000);
}

static void count_errors(struct rig *rig, uint32_t cq_flags)
{
	struct nic_queues_attr attr;
	struct client a, b;

	client_attr(&attr, 3, 0);
	attr.cqs[0].flags = cq_flags;
	contract_open_ctx(&a, rig->nic[0], 1);
	client_reg(&a);
	client_create_as(&a, &attr);
	contract_open_client(&b, rig->nic[0], 2, 3);
	for (unsigned int i = 0; i < 3; i++)
		client_connect(&a, i, &b, i);
	ASSERT_EQ(errors_of(&a, 0), 0u);
	fail_and_wait(&a, 0, &b, 3);
	ASSERT_EQ(errors_of(&a, 0), 4u);
	ASSERT_EQ(errors_of(&a, 1), 0u);
	/* Counters go on through a reset. */
	ASSERT_OK(a.ctx->nic->ops->qp_modify(a.ctx, client_qpn(&a, 0), NIC_QPS_RST));
	ASSERT_EQ(errors_of(&a, 0), 4u);
	fail_and_wait(&a, 1, &b, 1);
	ASSERT_EQ(errors_of(&a, 1), 2u);
	ASSERT_EQ(errors_of(&a, 0), 4u);
	ASSERT_EQ(errors_of(&a, 2), 0u);
	client_close(&a);
	client_close(&b);
}

TEST(a_query_counts_the_error_cqes_of_its_own_qp)
{
	struct rig rig;

	contract_open(&rig, 1);
	count_errors(&rig, 0);
	count_errors(&rig, NIC_CQ_COLLAPSED | NIC_CQ_OVERRUN_IGNORE);
	rig_close(&rig);
}
