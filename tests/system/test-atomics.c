/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomics on NICs that have them, lack some, or answer big-endian: each one is right or refused, and the library reports
 * which.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/system/client-lab.h"

#define PATIENCE 10000000000ull
#define WORD_AT 4096u
#define MASKED (SHMD_ATOMIC_MASKED_4 | SHMD_ATOMIC_MASKED_8)
#define OLD 0x1122334455667788ull
#define VALUE 0x0f0e0d0c0b0a0908ull

/* Set by --atomics of the simulated ConnectX; soft NICs have all. */
static uint32_t expected(void)
{
	const char *name = getenv("SHMEMD_TEST_ATOMICS");

	if (name && strcmp(name, "none") == 0)
		return 0;
	if (name && strcmp(name, "plain") == 0)
		return SHMD_ATOMIC_8;
	return SHMD_ATOMIC_8 | MASKED | (name && strcmp(name, "big-endian") == 0 ? SHMD_ATOMIC_RESULT_BE : 0);
}

/* By definition of each operation, from the old value. */
static uint64_t after(int op, uint64_t old, uint64_t value)
{
	switch (op) {
	case SHMD_DEV_AMO_ADD:
		return old + value;
	case SHMD_DEV_AMO_AND:
		return old & value;
	case SHMD_DEV_AMO_OR:
		return old | value;
	case SHMD_DEV_AMO_XOR:
		return old ^ value;
	case SHMD_DEV_AMO_SWAP:
	case SHMD_DEV_AMO_COMPARE_SWAP: /* it compares equal here */
		return value;
	default:
		return old;
	}
}

static uint32_t needs(int op, uint32_t bytes)
{
	if (bytes == 4)
		return SHMD_ATOMIC_MASKED_4;
	return op == SHMD_DEV_AMO_FETCH || op == SHMD_DEV_AMO_ADD || op == SHMD_DEV_AMO_COMPARE_SWAP ? SHMD_ATOMIC_8
												      : SHMD_ATOMIC_MASKED_8;
}

struct way {
	struct shmd_dev_qp *qp;
	struct shmd_dev_mode mode;
	struct lab_side *to;
	uint32_t has;
};

static uint64_t *word(const struct way *way)
{
	return (uint64_t *)(void *)lab_byte(way->to, WORD_AT);
}

static void do_or_refuse(const struct way *way, int op, uint32_t bytes)
{
	struct shmd_dev_amo amo = shmd_dev_amo_of(op, bytes, VALUE);
	struct shmd_dev_addr at = lab_remote(way->to, WORD_AT);
	uint64_t mask = bytes == 4 ? 0xffffffffull : ~0ull, old = 99, next;
	int status;

	amo.compare = OLD;
	*word(way) = OLD;
	next = (OLD & ~mask) | (after(op, OLD, VALUE) & mask);
	status = shmd_dev_qp_atomic_fetch_as(way->qp, at, amo, way->mode, &old);
	if (way->has & needs(op, bytes)) {
		ASSERT_EQ(status, SHMD_DEV_OK);
		ASSERT_EQ(old, OLD & mask);
		ASSERT_EQ(*word(way), next);
	} else {
		ASSERT_EQ(status, SHMD_DEV_UNSUPPORTED);
		ASSERT_EQ(old, 99u);
		ASSERT_EQ(*word(way), OLD);
	}
	*word(way) = OLD;
	ASSERT_EQ(shmd_dev_qp_atomic_as(way->qp, at, amo, way->mode), status);
	ASSERT_EQ(shmd_dev_qp_quiet(way->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(*word(way), status ? OLD : next);
}

/* A refused signal takes its message with it: nothing is posted. */
static void signal_or_refuse(const struct way *way, int op, uint32_t need)
{
	struct shmd_dev_signal signal = shmd_dev_signal_of(lab_remote(way->to, WORD_AT), op, 5);
	int status = way->has & need ? SHMD_DEV_OK : SHMD_DEV_UNSUPPORTED;
	uint8_t *there = lab_byte(way->to, 64);

	*word(way) = 2;
	there[0] = 0;
	*lab_byte(way->to, 128) = 77;
	ASSERT_EQ(shmd_dev_qp_put_signal_nbi_as(way->qp, lab_remote(way->to, 64), lab_local(way->to, 128), 1, signal, way->mode),
		  status);
	ASSERT_EQ(shmd_dev_qp_quiet(way->qp, PATIENCE), SHMD_DEV_OK);
	ASSERT_EQ(there[0], status ? 0 : 77);
	ASSERT_EQ(*word(way), status ? 2u : op == SHMD_DEV_SIGNAL_ADD ? 7u : 5u);
}

static void try_all(const struct way *way)
{
	for (int op = SHMD_DEV_AMO_FETCH; op <= SHMD_DEV_AMO_COMPARE_SWAP; op++) {
		do_or_refuse(way, op, 4);
		do_or_refuse(way, op, 8);
	}
	signal_or_refuse(way, SHMD_DEV_SIGNAL_SET, SHMD_ATOMIC_MASKED_8);
	signal_or_refuse(way, SHMD_DEV_SIGNAL_ADD, SHMD_ATOMIC_8);
}

/* So that what the library tells is compared with the NIC, not with itself. The QP is broken afterwards. */
static void nic_refuses_what_it_lacks(const struct way *way)
{
	uint32_t wqe_index;
	uint64_t old;

	if (way->has & SHMD_ATOMIC_MASKED_8)
		return;
	way->qp->flags &= ~(uint32_t)(SHMD_QP_NO_MASKED_4 | SHMD_QP_NO_MASKED_8);
	*word(way) = OLD;
	ASSERT_EQ(shmd_dev_qp_atomic_fetch_as(way->qp, lab_remote(way->to, WORD_AT), shmd_dev_amo_of(SHMD_DEV_AMO_SWAP, 8, VALUE),
					      way->mode, &old),
		  SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_error(way->qp, &wqe_index), SHMD_SYNDROME_LOCAL_QP_OP_ERR);
	ASSERT_EQ(*word(way), OLD);
}

TEST(atomics_of_an_rc_qp_are_done_or_refused)
{
	const struct shmd_queues_attr attr = {.n_qps = 1, .sq_wqebbs = 64, .mem_fd = -1};
	struct fixture_daemon daemon;
	struct lab_side side;
	struct shmd_nic_info info;
	struct way way = {.to = &side};

	fixture_daemon_start(&daemon, "--soft-nics=1", NULL);
	lab_side_open(&side, &daemon, &attr);
	lab_connect(&side, 0, &side, 0);
	ASSERT_OK(shmd_nic_info(side.nic, &info));
	ASSERT_EQ(info.atomics, expected());
	way.qp = shmd_queues_dev_qp(side.queues, 0);
	way.mode = shmd_dev_mode_of(way.qp, PATIENCE);
	way.has = info.atomics;
	try_all(&way);
	nic_refuses_what_it_lacks(&way);
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

TEST(atomics_of_a_dci_are_done_or_refused)
{
	const struct shmd_queues_attr attr = {.n_qps = 1, .sq_wqebbs = 64, .qp_type = SHMD_QP_TYPE_DCI, .mem_fd = -1};
	struct fixture_daemon daemon;
	struct lab_side side;
	struct shmd_nic_info info;
	struct shmd_dct *dct;
	struct shmd_addr addr;
	struct shmd_dev_peer peer;
	struct way way = {.to = &side};

	fixture_daemon_start(&daemon, "--soft-nics=1", NULL);
	lab_side_open(&side, &daemon, &attr);
	ASSERT_OK(shmd_nic_info(side.nic, &info));
	ASSERT_EQ(info.atomics_dc, expected());
	ASSERT_OK(shmd_dct_create(side.nic, 0, &dct));
	ASSERT_OK(shmd_dct_addr(dct, &addr));
	ASSERT_OK(shmd_queues_connect(side.queues, 0, 1, NULL, NULL, NULL));
	ASSERT_OK(shmd_peers_resolve(side.nic, 1, &addr, 0, &peer, NULL));
	ASSERT_OK(shmd_queues_set_peers(side.queues, 1, &peer));
	way.qp = shmd_queues_dev_qp(side.queues, 0);
	way.mode = shmd_dev_mode_to(shmd_dev_mode_of(way.qp, PATIENCE),
				    (const struct shmd_dev_peer *)(uintptr_t)shmd_queues_dev_state(side.queues)->peers_addr);
	way.has = info.atomics_dc;
	try_all(&way);
	ASSERT_OK(shmd_dct_destroy(dct));
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}
