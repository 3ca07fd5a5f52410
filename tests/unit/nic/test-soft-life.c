/* SPDX-License-Identifier: Apache-2.0 */
/* Soft NICs: probe, addresses, a thousand QPs, the error word of a QP, events, fault points. contract-*.c have the rest. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

TEST(probe_refuses_what_it_does_not_know)
{
	struct nic_soft_attr attr = {.n_nics = 1, .gpu_poll_usec = 100};
	static const char *const bad[] = {
		"", "soft", "soft.drop-cqe", "soft.drop-cqe:", "soft.drop-cqe:0", "soft.drop-cqe:x",
		"soft.drop-cqe:1x", "soft.drop-cqe:-1", "soft.drop-cqes:1", "drop-cqe:1", ":1",
		"soft.flip-payload-byte:0", "soft.nic-thread-stop", "soft.drop-cqe:99999999999999999999",
	};
	struct list nics;

	list_init(&nics);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		attr.fault = bad[i];
		ASSERT_ERR(nic_soft_probe(&attr, &nics), EINVAL);
	}
	attr.fault = NULL;
	attr.n_nics = 0;
	ASSERT_ERR(nic_soft_probe(&attr, &nics), EINVAL);
	attr.n_nics = 65;
	ASSERT_ERR(nic_soft_probe(&attr, &nics), EINVAL);
	attr.n_nics = 1;
	attr.gpu_poll_usec = 0;
	ASSERT_ERR(nic_soft_probe(&attr, &nics), EINVAL);
	ASSERT(list_empty(&nics));
}

TEST(every_nic_has_an_address_of_its_own)
{
	struct nic_info a, b;
	struct rig rig, other;

	rig_open(&rig, 8, NULL);
	rig_open(&other, 8, NULL);
	for (unsigned int i = 0; i < 8; i++) {
		char name[16];

		snprintf(name, sizeof(name), "soft%u", i);
		ASSERT_OK(nic_query(rig.nic[i], &a));
		ASSERT_STREQ(a.name, name);
		ASSERT_STREQ(a.backend, "soft");
		ASSERT_EQ(a.gid[0], 0xfd);
		ASSERT_EQ(a.mac[0] & 3, 2);
		ASSERT_EQ(a.state, NIC_PORT_ACTIVE);
		ASSERT(a.doorbell_cpu && !a.doorbell_uar_mmap);
		for (unsigned int k = 0; k < i; k++) {
			ASSERT_OK(nic_query(rig.nic[k], &b));
			ASSERT(memcmp(a.gid, b.gid, 16) != 0);
			ASSERT(memcmp(a.mac, b.mac, 6) != 0);
		}
		ASSERT_OK(nic_query(other.nic[i], &b));
		ASSERT(memcmp(a.gid, b.gid, 8) != 0);
	}
	rig_close(&other);
	rig_close(&rig);
}

static uint64_t cpu_nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return nsec_from_timespec(&ts);
}

TEST(a_thousand_qps_in_one_request)
{
	struct nic_qp_info info;
	struct client c;
	struct rig rig;
	uint64_t begin, create_nsec, connect_nsec; /* of CPU: of this thread and the NIC's */
	struct nic_peer *peers = calloc(1000, sizeof(*peers));
	unsigned int n_done = 0;

	ASSERT(peers);
	rig_open(&rig, 1, NULL);
	client_open_ctx(&c, rig.nic[0], 1);
	client_reg(&c);
	begin = cpu_nsec();
	client_create(&c, 1000, 0);
	create_nsec = cpu_nsec() - begin;
	for (unsigned int i = 0; i < 1000; i++) {
		ASSERT_GT(client_qpn(&c, i), 1u);
		ASSERT_LT(client_qpn(&c, i), 0xffffffu);
		peers[i].qpn = client_qpn(&c, i);
		peers[i].remote = c.queues->layout.qps[999 - i].addr;
	}
	begin = cpu_nsec();
	ASSERT_OK(rig.nic[0]->ops->connect(c.ctx, 1000, peers, &client_params, &n_done));
	connect_nsec = cpu_nsec() - begin;
	ASSERT_EQ(n_done, 1000u);
	ASSERT_OK(rig.nic[0]->ops->qp_query(c.ctx, client_qpn(&c, 500), &info));
	ASSERT_EQ(info.state, NIC_QPS_RTS);
	ASSERT_EQ(info.dest_qpn, client_qpn(&c, 499));
	client_post_inline(&c, 7, 77, &c, 0);
	client_ring(&c, 7);
	client_complete(&c, 7);
	/* Goal: 100 ms for both; ten times that fails. */
	ASSERT_LT(create_nsec + connect_nsec, 1000000000u);
	free(peers);
	client_close(&c);
	rig_close(&rig);
}

TEST(connect_stops_at_an_unreachable_gid_and_can_be_tried_again)
{
	const struct nic_ops *ops;
	struct nic_peer peers[3];
	struct nic_qp_info info;
	unsigned int n_done = 9;
	struct client a, b;
	struct rig rig;

	rig_open(&rig, 2, NULL);
	ops = rig.nic[0]->ops;
	client_open(&a, rig.nic[0], 1, 3);
	client_open(&b, rig.nic[1], 2, 3);
	for (unsigned int i = 0; i < 3; i++)
		peers[i] = (struct nic_peer){client_qpn(&a, i), b.queues->layout.qps[i].addr};
	peers[1].remote.gid[15] ^= 0xff;
	ASSERT_ERR(ops->connect(a.ctx, 3, peers, &client_params, &n_done), EHOSTUNREACH);
	ASSERT_EQ(n_done, 1u);
	ASSERT_OK(ops->qp_query(a.ctx, client_qpn(&a, 0), &info));
	ASSERT_EQ(info.state, NIC_QPS_RTS);
	ASSERT_OK(ops->qp_query(a.ctx, client_qpn(&a, 1), &info));
	ASSERT_EQ(info.state, NIC_QPS_RST);
	peers[1].remote.gid[15] ^= 0xff;
	ASSERT_OK(ops->connect(a.ctx, 2, peers + 1, &client_params, &n_done));
	ASSERT_EQ(n_done, 2u);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

TEST(quiesce_flushes_requests_that_a_peer_never_answers)
{
	struct client a, b;
	struct shmd_cqe cqe;
	struct rig rig;

	rig_open(&rig, 2, NULL);
	client_open(&a, rig.nic[0], 1, 1);
	client_open(&b, rig.nic[1], 2, 1);
	client_connect(&a, 0, &b, 0);
	ASSERT_OK(rig.nic[1]->ops->qp_modify(b.ctx, client_qpn(&b, 0), NIC_QPS_RST));
	for (int i = 0; i < 10; i++)
		client_post_inline(&a, 0, 1, &b, 0);
	client_ring(&a, 0);
	client_post_recv(&a, 0, 0, 64);
	rig.nic[0]->ops->ctx_quiesce(a.ctx, CLIENT_QUIESCE_NSEC);
	for (int i = 0; i < 11; i++) {
		ASSERT(client_poll(&a, 0, &cqe, 0));
		ASSERT_EQ(client_cqe_syndrome(&cqe), SHMD_SYNDROME_WR_FLUSH_ERR);
	}
	ASSERT(!client_poll(&a, 0, &cqe, 0));
	ASSERT_EQ(*(uint64_t *)b.mem, 0u);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

static uint32_t error_word(const struct client *c, unsigned int i)
{
	const uint8_t *dbrec = c->queue_mem + c->queues->layout.qps[i].dbrec_offset;

	return __atomic_load_n((const uint32_t *)(dbrec + SHMD_QP_ERROR_OFFSET), __ATOMIC_ACQUIRE);
}

TEST(a_qp_in_error_has_its_reason_beside_its_dbrec)
{
	const struct nic_ops *ops;
	struct client a, b;
	struct shmd_cqe cqe;
	struct rig rig;

	rig_open(&rig, 1, NULL);
	ops = rig.nic[0]->ops;
	client_open(&a, rig.nic[0], 1, 2);
	client_open(&b, rig.nic[0], 2, 2);
	client_connect(&a, 0, &b, 0);
	ASSERT_EQ(error_word(&a, 0), 0u);
	/* a does not accept b's key. A write with it breaks both QPs, and a's has nothing in flight. */
	client_post_inline(&b, 0, 1, &b, 0);
	client_ring(&b, 0);
	ASSERT(client_poll(&b, 0, &cqe, CLIENT_LIMIT_NSEC));
	/* The NIC's thread serves a call after the work that came with the CQE. */
	ASSERT_OK(ops->counters(rig.nic[0], &(struct nic_counters){0}));
	ASSERT_EQ(error_word(&b, 0), client_cqe_syndrome(&cqe));
	ASSERT_EQ(error_word(&a, 0), SHMD_SYNDROME_LOCAL_ACCESS_ERR);
	/* The first reason stays until a reset. */
	ASSERT_OK(ops->qp_modify(a.ctx, client_qpn(&a, 0), NIC_QPS_ERR));
	ASSERT_EQ(error_word(&a, 0), SHMD_SYNDROME_LOCAL_ACCESS_ERR);
	ASSERT_OK(ops->qp_modify(a.ctx, client_qpn(&a, 0), NIC_QPS_RST));
	ASSERT_EQ(error_word(&a, 0), 0u);
	ASSERT_OK(ops->qp_modify(a.ctx, client_qpn(&a, 1), NIC_QPS_ERR));
	ASSERT_EQ(error_word(&a, 1), SHMD_SYNDROME_WR_FLUSH_ERR);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

/* 400 QPs fail at once; the queue keeps 256. */
TEST(too_many_events_become_one_for_each_session)
{
	const unsigned int n = 400;
	unsigned int n_several = 0, n_events = 0;
	const struct nic_ops *ops;
	struct nic_event event;
	struct shmd_cqe cqe;
	struct client a, b;
	struct rig rig;

	rig_open(&rig, 1, NULL);
	ops = rig.nic[0]->ops;
	client_open(&a, rig.nic[0], 41, n);
	client_open(&b, rig.nic[0], 42, 1);
	client_connect(&b, 0, &b, 0);
	for (unsigned int i = 0; i < n; i++) {
		client_connect(&a, i, &a, i);
		client_post_write(&a, i, CLIENT_MEM_BYTES, &a, 0, 8); /* outside the region */
		client_publish(&a, i);
	}
	client_ring_word(&a, client_qpn(&a, 0));
	for (unsigned int i = 0; i < n; i++) {
		ASSERT(client_poll(&a, i, &cqe, CLIENT_LIMIT_NSEC));
		ASSERT_EQ(client_cqe_syndrome(&cqe), SHMD_SYNDROME_LOCAL_PROT_ERR);
	}
	client_post_write(&b, 0, CLIENT_MEM_BYTES, &b, 0, 8);
	client_ring(&b, 0);
	ASSERT(client_poll(&b, 0, &cqe, CLIENT_LIMIT_NSEC));
	/* The NIC's thread serves a call after it has queued the events. */
	ASSERT_OK(ops->counters(rig.nic[0], &(struct nic_counters){0}));
	while (ops->next_event(rig.nic[0], &event) == 0) {
		ASSERT(event.session_id == 41 || event.number == client_qpn(&b, 0));
		n_events++;
		n_several += event.session_id == 41 && event.number == 0;
	}
	ASSERT_EQ(n_several, 1u);
	ASSERT_EQ(n_events, 1u + (n - 256) + 1u);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

/* ---- fault points -------------------------------------------------------------------------------------------------- */

TEST(fault_thread_stop_serves_calls_only)
{
	const struct nic_ops *ops;
	struct nic_counters counters;
	struct shmd_cqe cqe;
	struct client c;
	struct rig rig;

	rig_open(&rig, 1, "soft.nic-thread-stop:3");
	ops = rig.nic[0]->ops;
	client_open(&c, rig.nic[0], 1, 1);
	client_connect(&c, 0, &c, 0);
	for (int i = 0; i < 10; i++)
		client_post_inline(&c, 0, 1, &c, 0);
	client_ring(&c, 0);
	for (int i = 0; i < 3; i++)
		client_complete(&c, 0);
	ASSERT(!client_poll(&c, 0, &cqe, 100000000));
	ASSERT_OK(ops->ctx_counters(c.ctx, &counters));
	ASSERT_EQ(counters.wqes, 3u);
	client_close(&c);
	rig_close(&rig);
}

TEST(fault_flip_changes_one_byte)
{
	unsigned int n_wrong = 0;
	struct client c;
	struct rig rig;

	rig_open(&rig, 1, "soft.flip-payload-byte:2");
	client_open(&c, rig.nic[0], 1, 1);
	client_connect(&c, 0, &c, 0);
	memset(c.mem, 0x11, 4096);
	for (uint64_t i = 1; i <= 3; i++) {
		client_post_write(&c, 0, 0, &c, i * 4096, 4096);
		client_ring(&c, 0);
		client_complete(&c, 0);
	}
	for (unsigned int i = 4096; i < 4 * 4096; i++)
		n_wrong += c.mem[i] != 0x11;
	ASSERT_EQ(n_wrong, 1u);
	client_close(&c);
	rig_close(&rig);
}

TEST(fault_drop_cqe_loses_one)
{
	unsigned int n_cqes = 0;
	struct shmd_cqe cqe;
	struct client c;
	struct rig rig;

	rig_open(&rig, 1, "soft.drop-cqe:2");
	client_open(&c, rig.nic[0], 1, 1);
	client_connect(&c, 0, &c, 0);
	for (int i = 0; i < 3; i++)
		client_post_inline(&c, 0, 1, &c, 0);
	client_ring(&c, 0);
	for (; n_cqes < 2; n_cqes++)
		ASSERT(client_poll(&c, 0, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT(!client_poll(&c, 0, &cqe, 100000000));
	client_close(&c);
	rig_close(&rig);
}
