/* SPDX-License-Identifier: Apache-2.0 */
/* Users in different processes: they reach and wake each other, and what they have is one NIC's. */
#include <errno.h>
#include <signal.h>

#include "client.h"
#include "process-lab.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

/* Payloads that lie in a ring, and such as are copied; all kinds of requests, both ways. */
TEST(users_in_different_processes_reach_each_other)
{
	struct client a, b;
	struct rig rig;

	rig_open_remote(&rig, 2, NULL);
	client_open_for(&a, rig.nic[0], 1, alice(), 1);
	client_open_for(&b, rig.nic[1], 2, bob(), 1);
	client_connect(&a, 0, &b, 0);
	client_exercise(&a, &b);
	client_exercise(&b, &a);
	client_post_write(&a, 0, 0, &b, CLIENT_MEM_BYTES / 2, CLIENT_MEM_BYTES / 2);
	client_ring(&a, 0);
	client_complete(&a, 0);
	ASSERT_MEMEQ(b.mem + CLIENT_MEM_BYTES / 2, a.mem, CLIENT_MEM_BYTES / 2);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

static void reach_once(struct client *from, struct client *to, uint64_t value)
{
	client_post_inline(from, 0, value, to, 64);
	client_ring(from, 0);
	client_complete(from, 0);
	ASSERT_EQ(__atomic_load_n((uint64_t *)(void *)(to->mem + 64), __ATOMIC_ACQUIRE), value);
}

/* Both threads have gone to sleep each time. */
TEST(users_in_different_processes_wake_each_other)
{
	struct client a, b;
	struct rig rig;

	rig_open_remote(&rig, 1, NULL);
	client_open_for(&a, rig.nic[0], 1, alice(), 1);
	client_open_for(&b, rig.nic[0], 2, bob(), 1);
	client_connect(&a, 0, &b, 0);
	for (uint64_t i = 1; i <= 20; i++) {
		nap(10 * NSEC_PER_MSEC);
		reach_once(i % 2 ? &a : &b, i % 2 ? &b : &a, i);
	}
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

TEST(numbers_and_limits_are_the_nics_over_all_processes)
{
	enum { N = 300 };
	struct client a, b;
	struct rig rig;

	rig_open_remote(&rig, 1, NULL);
	client_open_for(&a, rig.nic[0], 1, alice(), N);
	client_open_for(&b, rig.nic[0], 2, bob(), N);
	for (unsigned int i = 0; i < N; i++)
		for (unsigned int j = 0; j < N; j++)
			ASSERT_NE(client_qpn(&a, i), client_qpn(&b, j));
	for (unsigned int i = 0; i < N; i++)
		for (unsigned int j = 0; j < N; j++)
			ASSERT_NE(a.queues->layout.cqs[i].cqn, b.queues->layout.cqs[j].cqn);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

static uint32_t fail_syndrome(struct client *c)
{
	struct shmd_cqe cqe;

	ASSERT(client_poll(c, 0, &cqe, test_patience_nsec()));
	ASSERT_EQ(client_cqe_opcode(&cqe), SHMD_CQE_REQ_ERR);
	return client_cqe_syndrome(&cqe);
}

/* Packets to a process that has died are lost; the user's next process is reached at once, by a new channel. */
TEST(a_peer_whose_process_dies_is_unreachable_and_its_next_one_is_reached)
{
	struct nic_qp_params quick = client_params;
	struct client a, b, again;
	struct nic_event event;
	struct rig rig;
	pid_t pid;

	quick.timeout = 8;
	rig_open_remote(&rig, 1, NULL);
	client_open_for(&a, rig.nic[0], 1, alice(), 2);
	client_open_for(&b, rig.nic[0], 2, bob(), 1);
	client_connect_as(&a, 0, &b, 0, &quick);
	reach_once(&a, &b, 1);
	pid = process_of(bob());
	ASSERT_OK(kill(pid, SIGKILL));
	wait_event(rig.nic[0], &event);
	ASSERT_EQ(event.kind, NIC_EVENT_LOST);
	expect_gone(pid);
	client_post_inline(&a, 0, 2, &b, 64);
	client_ring(&a, 0);
	ASSERT_EQ(fail_syndrome(&a), 0x15u);
	client_close(&b);
	client_open_for(&again, rig.nic[0], 3, bob(), 1);
	client_connect(&a, 1, &again, 0);
	client_post_inline(&a, 1, 3, &again, 64);
	client_ring(&a, 1);
	client_complete(&a, 1);
	reach_once(&again, &a, 4);
	client_close(&a);
	client_close(&again);
	rig_close(&rig);
}

/* Each process drops packets to and from it, whichever is asked first. */
TEST(a_port_is_down_for_users_in_all_processes)
{
	struct client a, b;
	struct rig rig;
	struct nic *nic;

	rig_open_remote(&rig, 2, NULL);
	nic = rig.nic[1];
	client_open_for(&a, rig.nic[0], 1, alice(), 1);
	client_open_for(&b, nic, 2, bob(), 1);
	client_connect(&a, 0, &b, 0);
	reach_once(&a, &b, 1);
	ASSERT_OK(nic->ops->port_set(nic, NIC_PORT_DOWN));
	client_post_inline(&a, 0, 2, &b, 64);
	client_ring(&a, 0);
	nap(50 * NSEC_PER_MSEC);
	ASSERT_EQ(*(const volatile uint64_t *)(b.mem + 64), 1u);
	ASSERT_OK(nic->ops->port_set(nic, NIC_PORT_ACTIVE));
	client_complete(&a, 0);
	ASSERT_EQ(*(const volatile uint64_t *)(b.mem + 64), 2u);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}
