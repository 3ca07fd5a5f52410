/* SPDX-License-Identifier: Apache-2.0 */
/* shmemctl dump-queue on queues with known content: what it prints and what it hides. */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/system/ctl-lab.h"
#include "tests/system/ctl-subject.h"

static void start(struct fixture_daemon *daemon, struct subject *subject)
{
	fixture_daemon_start(daemon, "--soft-nics=2", NULL);
	setenv("SHMEMD_SOCKET", daemon->socket, 1);
	subject_open(subject, daemon->socket);
}

static void stop(struct fixture_daemon *daemon, struct subject *subject)
{
	subject_close(subject);
	fixture_daemon_stop(daemon);
}

static const char *qpn_word(const struct lab_side *side, unsigned int i)
{
	static char word[32];

	snprintf(word, sizeof(word), "0x%x", subject_qpn(side, i));
	return word;
}

TEST(entries_are_shown_with_what_became_of_them)
{
	struct fixture_daemon daemon;
	struct subject subject;

	start(&daemon, &subject);
	ASSERT_EQ(CTL("dump-queue", qpn_word(&subject.busy, 0), "--wide"), 0);
	ASSERT_HAS(": RC, SQD, peer 0x", "(test-shmemctl-q, uid ",
		   "send queue: 16 WQEBBs, consumer index 7, producer index ", ", doorbell record 8: ",
		   "   5     5  consumed     rdma-write index 5 ", " 1024 bytes at 0x",
		   "   6     6  consumed     send index 6 ", " rdma-write index 7 ", "   8     8  unannounced  nop index 8 ",
		   "  3 older consumed ones not shown (--all shows them)\n",
		   "   6     6  consumed  requester owner 0 ", "receive queue: 8 WQEs");
	ctl_assert_lacks("rdma-write index 2 ");
	ASSERT_EQ(CTL("dump-queue", qpn_word(&subject.busy, 0), "--all", "--wide"), 0);
	ASSERT_HAS("   0     0  consumed     rdma-write index 0 ");
	ctl_assert_lacks("not shown");
	/* Three receives, one of them used, its CQE not looked at. */
	ASSERT_EQ(CTL("dump-queue", qpn_word(&subject.busy, 1), "--wide"), 0);
	ASSERT_HAS("receive queue: 8 WQEs, consumer index 1, producer index ", ", doorbell record 3: ",
		   "0     0  consumed  receive, 64 bytes at 0x", "2     2  pending   receive, 64 bytes at 0x",
		   "0     0  pending  responder-send owner 0 ", "consumer index 0\n");
	stop(&daemon, &subject);
}

TEST(a_failed_work_request_is_named_with_what_to_do)
{
	struct fixture_daemon daemon;
	struct subject subject;

	start(&daemon, &subject);
	ASSERT_EQ(CTL("dump-queue", qpn_word(&subject.failed, 0)), 0);
	ASSERT_HAS(": RC, ERR, ", "first error  0x13, remote access error: ",
		   "what to do   compare rkey, address and ACCESS ",
		   "1     1  consumed  rdma-write index 1 ", " <- failed\n\n", "collapsed, ",
		   "newest  requester-error owner 0 ", "syndrome 0x13");
	stop(&daemon, &subject);
}

TEST(keys_and_inline_data_are_hidden_unless_asked_for)
{
	struct fixture_daemon daemon;
	struct subject subject;
	char rkey[32];

	start(&daemon, &subject);
	snprintf(rkey, sizeof(rkey), "key 0x%x", shmd_mr_rkey(subject.busy.mr));
	ASSERT_EQ(CTL("dump-queue", qpn_word(&subject.busy, 0), "--all", "--wide"), 0);
	ctl_assert_lacks(rkey);
	ctl_assert_lacks("5ec2e700");
	ASSERT_HAS(" rkey hidden", " lkey hidden", ", inline 8 bytes, 12 bytes hidden\n");
	ASSERT_EQ(CTL("dump-queue", qpn_word(&subject.busy, 0), "--all", "--json"), 0);
	ctl_assert_lacks(rkey);
	ctl_assert_lacks("5ec2e700");
	ASSERT_EQ(CTL("dump-queue", qpn_word(&subject.busy, 0), "--keys", "--wide"), 0);
	ASSERT_HAS(rkey);
	ctl_assert_lacks("5ec2e700");
	ASSERT_EQ(CTL("dump-queue", qpn_word(&subject.busy, 0), "--payload", "--wide"), 0);
	ASSERT_HAS("hex 5ec2e700 5ec2e701 ");
	ctl_assert_lacks(rkey);
	stop(&daemon, &subject);
}

/* A write of a DCI to a DCT, posted before it is ready. */
static void leave_dc_write(struct lab_side *side, const struct shmd_dev_peer *peer)
{
	const struct shmd_dev_qp *qp = shmd_queues_dev_qp(side->queues, 0);
	uint32_t *words = (uint32_t *)(uintptr_t)qp->sq_addr;

	memset(words, 0, 128);
	words[0] = htobe32(SHMD_OPCODE_RDMA_WRITE);
	words[1] = htobe32(qp->qpn << 8 | 6);
	memcpy(words + 4, peer->av, sizeof(peer->av));
	words[16] = 0;
	words[17] = htobe32(0x2000);
	words[18] = htobe32(0x77);
	words[20] = htobe32(64);
	words[21] = htobe32(0x88);
	words[23] = htobe32(0x3000);
	__atomic_store_n((uint32_t *)(uintptr_t)qp->sq_dbrec_addr, htobe32(2), __ATOMIC_RELEASE);
}

TEST(a_dci_is_shown_with_its_target_and_a_dct_as_a_dct)
{
	const struct shmd_queues_attr attr = {.n_qps = 1, .sq_wqebbs = 16, .qp_type = SHMD_QP_TYPE_DCI};
	struct fixture_daemon daemon;
	struct shmd_dev_peer peer;
	struct shmd_addr addr;
	struct lab_side side;
	struct shmd_dct *dct;
	char dctn[32], key[32];

	fixture_daemon_start(&daemon, "--soft-nics=1", NULL);
	setenv("SHMEMD_SOCKET", daemon.socket, 1);
	lab_side_open(&side, &daemon, &attr);
	ASSERT_OK(shmd_dct_create(side.nic, 0, &dct));
	ASSERT_OK(shmd_dct_addr(dct, &addr));
	ASSERT_OK(shmd_peers_resolve(side.nic, 1, &addr, 0, &peer, NULL));
	leave_dc_write(&side, &peer);
	snprintf(dctn, sizeof(dctn), ", to 0x%x dc-key hidden", peer.dctn);
	snprintf(key, sizeof(key), "dc-key 0x%llx ", (unsigned long long)peer.dc_key);
	ASSERT_EQ(CTL("dump-queue", qpn_word(&side, 0), "--payload", "--wide"), 0);
	ASSERT_HAS(": DCI, RST, no peer", "rdma-write index 0 ", dctn, ", raddr 0x2000 rkey hidden, 64 bytes at 0x3000");
	ctl_assert_lacks(key);
	ASSERT_EQ(CTL("dump-queue", qpn_word(&side, 0), "--keys", "--wide"), 0);
	ASSERT_HAS(key);
	snprintf(dctn, sizeof(dctn), "0x%x", peer.dctn);
	ASSERT_EQ(CTL("dump-queue", dctn), 0);
	ASSERT_HAS(": DCT, RTR, a target without queues");
	ctl_assert_lacks("send queue");
	ASSERT_EQ(CTL("dump-queue", dctn, "--json"), 0);
	ASSERT_HAS("\"type\":\"DCT\"", "\"n_slots\":0");
	ASSERT_EQ(CTL("status"), 0);
	ASSERT_HAS("2 QPs (0 RC, 1 DCI, 1 DCT), ");
	ASSERT_EQ(CTL("list", "qps"), 0);
	ASSERT_HAS("DCI", "DCT", "RTR");
	ASSERT_EQ(CTL("--json", "list", "sessions"), 0);
	ASSERT_HAS("\"n_qps\":2,\"n_dcis\":1,\"n_dcts\":1,");
	ASSERT_OK(shmd_dct_destroy(dct));
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

TEST(a_missing_qp_is_reported_with_the_command_that_lists_qps)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	setenv("SHMEMD_SOCKET", daemon.socket, 1);
	ASSERT_EQ(CTL("dump-queue", "0x1"), 1);
	ASSERT_STREQ(ctl_text, "shmemctl: there is no QP 0x1; \"shmemctl list qps\" shows all\n");
	ASSERT_EQ(CTL("dump-queue", "soft0/1"), 1);
	ASSERT_STREQ(ctl_text, "shmemctl: there is no QP soft0/0x1; \"shmemctl list qps\" shows all\n");
	ASSERT_EQ(CTL("dump-queue", "mlx5_0/1"), 1);
	ASSERT_EQ(CTL("dump-queue", "soft0"), 1);
	ASSERT_STREQ(ctl_text, "shmemctl: soft0 is not a QP; \"shmemctl list qps\" shows them, as NIC and QPN\n");
	ASSERT_EQ(CTL("dump-queue", "0x1000000"), 1);
	fixture_daemon_stop(&daemon);
}
