/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of nic.h: traffic, doorbells, and what one session reaches of another. */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "contract.h"
#include "tests/lib/test.h"

#define SILENCE_NSEC 200000000ull
#define MOST_TRIES 20u

/* ---- traffic --------------------------------------------------------------------------------------------------------- */

TEST(a_qp_reaches_itself)
{
	struct client c;
	struct rig rig;

	contract_open(&rig, 1);
	contract_open_client(&c, rig.nic[0], 1, 1);
	client_connect(&c, 0, &c, 0);
	client_exercise(&c, &c);
	client_close(&c);
	rig_close(&rig);
}

TEST(two_sessions_on_one_nic_exchange_data)
{
	struct client a, b;
	struct rig rig;

	contract_open(&rig, 1);
	contract_open_client(&a, rig.nic[0], 1, 1);
	contract_open_client(&b, rig.nic[0], 2, 1);
	client_connect(&a, 0, &b, 0);
	client_exercise(&a, &b);
	client_exercise(&b, &a);
	client_send_and_receive(&a, &b);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

TEST(two_sessions_on_two_nics_exchange_data)
{
	struct contract_pair pair;

	contract_open_pair(&pair, 1);
	for (int i = 0; i < 20; i++) {
		client_exercise(&pair.a, &pair.b);
		client_exercise(&pair.b, &pair.a);
	}
	client_send_and_receive(&pair.a, &pair.b);
	client_send_and_receive(&pair.b, &pair.a);
	contract_close_pair(&pair);
}

TEST(a_message_of_a_mebibyte_arrives_whole_in_both_directions)
{
	const uint32_t bytes = CLIENT_MEM_BYTES;
	struct contract_pair pair;

	contract_open_pair(&pair, 1);
	client_fill(&pair.a, 0, bytes, 3);
	client_post_write(&pair.a, 0, 0, &pair.b, 0, bytes);
	client_ring(&pair.a, 0);
	client_complete(&pair.a, 0);
	ASSERT_MEMEQ(pair.a.mem, pair.b.mem, bytes);
	memset(pair.a.mem, 0, bytes);
	client_post_read(&pair.a, 0, 0, &pair.b, 0, bytes);
	client_ring(&pair.a, 0);
	client_complete(&pair.a, 0);
	ASSERT_MEMEQ(pair.a.mem, pair.b.mem, bytes);
	contract_close_pair(&pair);
}

TEST(a_ring_goes_round_many_times)
{
	struct contract_pair pair;

	contract_open_pair(&pair, 1);
	for (uint64_t i = 0; i < 40; i++) {
		for (uint64_t k = 0; k < 32; k++)
			client_post_inline(&pair.a, 0, i * 32 + k, &pair.b, k * 8);
		client_ring(&pair.a, 0);
		for (uint64_t k = 0; k < 32; k++)
			client_complete(&pair.a, 0);
		for (uint64_t k = 0; k < 32; k++)
			ASSERT_EQ(client_word(&pair.b, k * 8), i * 32 + k);
	}
	contract_close_pair(&pair);
}

TEST(two_hundred_qps_of_one_request_all_send)
{
	const unsigned int n = 200;
	struct client c;
	struct rig rig;

	contract_open(&rig, 1);
	contract_open_client(&c, rig.nic[0], 1, n);
	for (unsigned int i = 0; i < n / 2; i++)
		client_connect(&c, i, &c, n - 1 - i);
	for (unsigned int i = 0; i < n; i++) {
		client_post_inline(&c, i, 1000u + i, &c, 8 * i);
		client_ring(&c, i);
	}
	for (unsigned int i = 0; i < n; i++) {
		client_complete(&c, i);
		ASSERT_EQ(client_word(&c, 8 * i), 1000u + i);
	}
	client_close(&c);
	rig_close(&rig);
}

/* A page has one word for all QPs of its context: each ring overwrites the one before. */
TEST(a_doorbell_that_the_next_one_overwrites_is_served)
{
	const unsigned int n = 100;
	struct client c;
	struct rig rig;

	contract_open(&rig, 1);
	contract_open_client(&c, rig.nic[0], 1, n);
	for (unsigned int i = 0; i < n; i++)
		client_connect(&c, i, &c, i);
	for (uint64_t round = 1; round <= 5; round++) {
		for (unsigned int i = 0; i < n; i++) {
			client_post_inline(&c, i, round, &c, 8 * i);
			client_ring(&c, i);
		}
		for (unsigned int i = 0; i < n; i++) {
			client_complete(&c, i);
			ASSERT_EQ(client_word(&c, 8 * i), round);
		}
	}
	client_close(&c);
	rig_close(&rig);
}

/* ---- isolation ------------------------------------------------------------------------------------------------------- */

/*
 * A NIC may look at a queue by itself shortly after it found work there. So the test tries several times, after longer and
 * longer pauses, and one try must stay without effect.
 */
static bool foreign_page_is_silent(struct client *a, struct client *b, uint64_t value)
{
	const struct timespec pause = {.tv_nsec = (long)value * 5000000};
	struct shmd_cqe cqe;

	nanosleep(&pause, NULL);
	client_post_inline(a, 0, value, a, 0);
	client_publish(a, 0);
	client_ring_word(b, client_qpn(a, 0));
	client_ring_word(b, 0);
	client_ring_word(b, 0xffffff);
	return !client_poll(a, 0, &cqe, SILENCE_NSEC);
}

TEST(a_doorbell_in_the_page_of_another_session_is_ignored)
{
	struct nic_qp_info info;
	uint64_t value = 1;
	struct client a, b;
	struct rig rig;

	contract_open(&rig, 1);
	contract_open_client(&a, rig.nic[0], 1, 1);
	contract_open_client(&b, rig.nic[0], 2, 1);
	ASSERT_NE(a.ctx->doorbell.page_fd, b.ctx->doorbell.page_fd);
	client_connect(&a, 0, &a, 0);
	client_connect(&b, 0, &b, 0);
	while (!foreign_page_is_silent(&a, &b, value) && !contract_backend()->serves_unrung)
		ASSERT_LT(value++, MOST_TRIES);
	client_post_inline(&a, 0, ++value, &a, 0);
	client_ring(&a, 0);
	while (client_word(&a, 0) != value)
		client_complete(&a, 0);
	ASSERT_EQ(contract_state(&a, 0), NIC_QPS_RTS);
	ASSERT_ERR(rig.nic[0]->ops->qp_query(b.ctx, client_qpn(&a, 0), &info), EINVAL);
	client_exercise(&b, &b);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

/* A key opens memory of its own session only, through a QP of that session. */
TEST(the_key_of_a_third_session_is_refused)
{
	struct client a, b, third;
	struct shmd_cqe cqe;
	struct rig rig;

	contract_open(&rig, 1);
	contract_open_client(&a, rig.nic[0], 1, 1);
	contract_open_client(&b, rig.nic[0], 2, 1);
	contract_open_client(&third, rig.nic[0], 3, 1);
	client_connect(&a, 0, &b, 0);
	client_post_inline(&a, 0, 0x666, &third, 64);
	client_ring(&a, 0);
	ASSERT(client_poll(&a, 0, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT_EQ(client_cqe_opcode(&cqe), SHMD_CQE_REQ_ERR);
	ASSERT_EQ(client_cqe_syndrome(&cqe), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_EQ(client_word(&third, 64), 0u);
	client_close(&third);
	client_close(&b);
	client_close(&a);
	rig_close(&rig);
}

/* The address of a QP is public, and useless to a stranger: that QP listens to its own peer only. */
TEST(a_stranger_that_connects_to_a_qp_writes_nothing_even_with_its_key)
{
	const struct nic_ops *ops;
	struct contract_pair pair;
	struct client stranger;
	struct nic_peer peer;
	struct shmd_cqe cqe;
	unsigned int n_done;

	contract_open_pair(&pair, 1);
	ops = pair.rig.nic[0]->ops;
	contract_open_client(&stranger, pair.rig.nic[0], 3, 1);
	peer = (struct nic_peer){client_qpn(&stranger, 0), pair.a.queues->layout.qps[0].addr};
	ASSERT_OK(ops->connect(stranger.ctx, 1, &peer, &client_params, &n_done));
	client_post_inline(&stranger, 0, 0x666, &pair.a, 64);
	client_ring(&stranger, 0);
	ASSERT(!client_poll(&stranger, 0, &cqe, SILENCE_NSEC) || client_cqe_opcode(&cqe) == SHMD_CQE_REQ_ERR);
	ASSERT_EQ(client_word(&pair.a, 64), 0u);
	client_post_inline(&pair.b, 0, 7, &pair.a, 64);
	client_ring(&pair.b, 0);
	client_complete(&pair.b, 0);
	ASSERT_EQ(client_word(&pair.a, 64), 7u);
	client_close(&stranger);
	contract_close_pair(&pair);
}
