/* SPDX-License-Identifier: Apache-2.0 */
/* Hot peers with a daemon: pairs of QPs come and go during a run, order holds over each change, and their number is bounded. */
#include <errno.h>
#include <string.h>

#include <shmemclient-admin.h>

#include "tests/lib/test.h"
#include "tests/system/client-lab.h"

#define N_SIDES 4u
#define PATIENCE 10000000000ull
#define N_ROUNDS 40u
#define WORD_AT 32768u

/* Each with a DCI, a DCT, and all of them as peers by their index. */
struct world {
	struct fixture_daemon daemon;
	struct lab_side sides[N_SIDES];
	struct shmd_dct *dcts[N_SIDES];
	struct shmd_hot *hots[N_SIDES];
};

static void world_open(struct world *w, const struct shmd_hot_attr *attr)
{
	const struct shmd_queues_attr dci = {.n_qps = 1, .sq_wqebbs = 64, .qp_type = SHMD_QP_TYPE_DCI};
	struct shmd_dev_peer peers[N_SIDES];
	struct shmd_addr addrs[N_SIDES];

	fixture_daemon_start(&w->daemon, "--soft-nics=1", NULL);
	for (unsigned int i = 0; i < N_SIDES; i++) {
		lab_side_open(&w->sides[i], &w->daemon, &dci);
		ASSERT_OK(shmd_queues_connect(w->sides[i].queues, 0, 1, NULL, NULL, NULL));
		ASSERT_OK(shmd_dct_create(w->sides[i].nic, 0, &w->dcts[i]));
		ASSERT_OK(shmd_dct_addr(w->dcts[i], &addrs[i]));
	}
	for (unsigned int i = 0; i < N_SIDES; i++) {
		ASSERT_OK(shmd_peers_resolve(w->sides[i].nic, N_SIDES, addrs, 0, peers, NULL));
		ASSERT_OK(shmd_queues_set_peers(w->sides[i].queues, N_SIDES, peers));
		ASSERT_OK(shmd_hot_open(w->sides[i].queues, attr, &w->hots[i]));
	}
}

static void world_close(struct world *w)
{
	for (unsigned int i = 0; i < N_SIDES; i++) {
		if (w->hots[i])
			ASSERT_OK(shmd_hot_close(w->hots[i]));
		ASSERT_OK(shmd_dct_destroy(w->dcts[i]));
		lab_side_close(&w->sides[i]);
	}
	fixture_daemon_stop(&w->daemon);
}

static struct shmd_dev_way way_to(const struct world *w, unsigned int from, unsigned int to)
{
	return shmd_dev_way_to(shmd_queues_dev_state(w->sides[from].queues), shmd_queues_dev_qp(w->sides[from].queues, 0), to);
}

static struct shmd_dev_mode mode_of(const struct shmd_dev_way *way)
{
	return shmd_dev_mode_to(shmd_dev_mode_of(way->qp, PATIENCE), way->peer);
}

static void write_word(struct world *w, unsigned int from, unsigned int to, uint64_t value)
{
	struct shmd_dev_way way = way_to(w, from, to);

	shmd_dev_way_count(shmd_queues_dev_state(w->sides[from].queues), to, 1);
	ASSERT_EQ(shmd_dev_qp_p_as(way.qp, lab_remote(&w->sides[to], WORD_AT), value, 8, mode_of(&way)), SHMD_DEV_OK);
}

static void quiet(struct world *w, unsigned int side)
{
	struct shmd_dev_qp *dci = shmd_queues_dev_qp(w->sides[side].queues, 0);

	ASSERT_EQ(shmd_dev_ways_quiet_as(shmd_queues_dev_state(w->sides[side].queues), dci, shmd_dev_mode_of(dci, PATIENCE)),
		  SHMD_DEV_OK);
}

static uint64_t word(const struct world *w, unsigned int side)
{
	return *(const uint64_t *)(const void *)lab_byte(&w->sides[side], WORD_AT);
}

static void make_pair(struct world *w, unsigned int a, unsigned int b)
{
	struct shmd_addr of_a, of_b, again;

	ASSERT_OK(shmd_hot_offer(w->hots[a], b, &of_a));
	ASSERT_OK(shmd_hot_offer(w->hots[b], a, &of_b));
	ASSERT_OK(shmd_hot_offer(w->hots[a], b, &again));
	ASSERT_EQ(again.bytes, of_a.bytes);
	ASSERT_MEMEQ(again.data, of_a.data, of_a.bytes);
	ASSERT_EQ(shmd_hot_state(w->hots[a], b), SHMD_HOT_OFFERED);
	ASSERT_OK(shmd_hot_accept(w->hots[a], b, &of_b, NULL));
	ASSERT_OK(shmd_hot_accept(w->hots[b], a, &of_a, NULL));
	ASSERT_EQ(shmd_hot_state(w->hots[a], b), SHMD_HOT_CONNECTED);
}

/* Values that grow: a reader that finds a smaller one after a larger has seen the order broken. */
TEST(order_holds_over_the_change_of_way_in_both_directions)
{
	const struct shmd_dev_state *state;
	uint64_t value = 0, old = 0;
	struct world w;

	world_open(&w, NULL);
	state = shmd_queues_dev_state(w.sides[0].queues);
	make_pair(&w, 0, 1);
	for (unsigned int round = 0; round < N_ROUNDS; round++) {
		bool to_rc = round % 2 == 0;
		struct shmd_dev_way way;

		for (unsigned int i = 0; i < 10; i++)
			write_word(&w, 0, 1, ++value);
		quiet(&w, 0);
		ASSERT_EQ(word(&w, 1), value);
		ASSERT_OK(shmd_hot_switch(w.hots[0], 1, to_rc));
		way = way_to(&w, 0, 1);
		ASSERT_EQ(!way.peer, to_rc);
		ASSERT_EQ(state->n_hot_qps, to_rc);
		/* The first by the new way finds what the last by the old one wrote. */
		ASSERT_EQ(shmd_dev_qp_atomic_fetch_as(way.qp, lab_remote(&w.sides[1], WORD_AT),
						      shmd_dev_amo_of(SHMD_DEV_AMO_SWAP, 8, value + 1), mode_of(&way), &old),
			  SHMD_DEV_OK);
		ASSERT_EQ(old, value);
		value++;
	}
	/* The other side sends by its end of the pair as it likes. */
	ASSERT_OK(shmd_hot_switch(w.hots[1], 0, true));
	write_word(&w, 1, 0, 77);
	write_word(&w, 1, 2, 78);
	quiet(&w, 1);
	ASSERT_EQ(word(&w, 0), 77u);
	ASSERT_EQ(word(&w, 2), 78u);
	world_close(&w);
}

TEST(way_is_not_changed_while_requests_are_under_way)
{
	struct shmd_dev_mode mode;
	struct shmd_dev_way way;
	struct world w;

	world_open(&w, NULL);
	make_pair(&w, 0, 1);
	/* Withheld is under way: to whomever, since the DCI knows no peers. */
	way = way_to(&w, 0, 2);
	mode = mode_of(&way);
	mode.flags = SHMD_DEV_NO_DOORBELL;
	ASSERT_EQ(shmd_dev_qp_p_as(way.qp, lab_remote(&w.sides[2], WORD_AT), 5, 8, mode), SHMD_DEV_OK);
	ASSERT_ERR(shmd_hot_switch(w.hots[0], 1, true), EBUSY);
	ASSERT(way_to(&w, 0, 1).peer);
	quiet(&w, 0);
	ASSERT_EQ(word(&w, 2), 5u);
	ASSERT_OK(shmd_hot_switch(w.hots[0], 1, true));
	ASSERT_OK(shmd_hot_switch(w.hots[0], 1, true));
	way = way_to(&w, 0, 1);
	mode = mode_of(&way);
	mode.flags = SHMD_DEV_NO_DOORBELL;
	ASSERT_EQ(shmd_dev_qp_p_as(way.qp, lab_remote(&w.sides[1], WORD_AT), 6, 8, mode), SHMD_DEV_OK);
	ASSERT_ERR(shmd_hot_switch(w.hots[0], 1, false), EBUSY);
	ASSERT_ERR(shmd_hot_retire(w.hots[0], 1), EBUSY);
	quiet(&w, 0);
	ASSERT_EQ(word(&w, 1), 6u);
	ASSERT_OK(shmd_hot_switch(w.hots[0], 1, false));
	ASSERT_OK(shmd_hot_retire(w.hots[0], 1));
	ASSERT_EQ(shmd_hot_state(w.hots[0], 1), SHMD_HOT_DC);
	world_close(&w);
}

struct counts {
	uint64_t dc, rc;
};

static int add_session(void *arg, const struct shmd_session_item *item)
{
	struct counts *sum = arg;

	sum->dc += item->n_dc_peers;
	sum->rc += item->n_rc_peers;
	return 0;
}

/* Routes of all sessions, as shmemctl shows them. */
static void expect_peers(struct shmd_client *control, uint64_t dc, uint64_t rc)
{
	struct counts sum = {0, 0};

	ASSERT_OK(shmd_admin_sessions(control, add_session, &sum));
	ASSERT_EQ(sum.dc, dc);
	ASSERT_EQ(sum.rc, rc);
}

/* Carries out each side's decisions for pairs that both want, as callers do with their bootstrap. */
static unsigned int judge(struct world *w, bool wants[N_SIDES][N_SIDES])
{
	struct shmd_hot_change changes[2 * SHMD_HOT_MAX_PEERS];
	uint64_t posts[N_SIDES][N_SIDES];
	unsigned int n, n_changes = 0;

	for (unsigned int i = 0; i < N_SIDES; i++)
		for (unsigned int k = 0; k < N_SIDES; k++)
			ASSERT_OK(shmd_hot_posts(w->hots[i], k, &posts[i][k]));
	for (unsigned int i = 0; i < N_SIDES; i++) {
		for (unsigned int k = 0; k < N_SIDES; k++)
			if (k != i)
				ASSERT_OK(shmd_hot_count(w->hots[i], k, posts[k][i]));
		ASSERT_OK(shmd_hot_decide(w->hots[i], changes, &n));
		for (unsigned int c = 0; c < n; c++)
			wants[i][changes[c].peer] = changes[c].action == SHMD_HOT_OFFER;
		n_changes += n;
	}
	return n_changes;
}

TEST(hot_pairs_get_qps_and_cooled_ones_give_them_back)
{
	const struct shmd_hot_attr attr = {.max_peers = 1, .min_posts = 20};
	bool wants[N_SIDES][N_SIDES] = {{false}};
	struct shmd_daemon_status before, during, after;
	struct shmd_client *control;
	struct world w;

	world_open(&w, &attr);
	control = lab_control(&w.daemon);
	ASSERT_OK(shmd_admin_status(control, &before));
	for (unsigned int i = 0; i < 20; i++) {
		write_word(&w, 0, 3, i);
		write_word(&w, 1, 2, i);
		write_word(&w, 1, 2, i);
	}
	write_word(&w, 2, 3, 1);
	ASSERT_EQ(judge(&w, wants), 4u);
	ASSERT(wants[0][3] && wants[3][0] && wants[1][2] && wants[2][1]);
	make_pair(&w, 0, 3);
	make_pair(&w, 1, 2);
	for (unsigned int i = 0; i < N_SIDES; i++) {
		quiet(&w, i);
		ASSERT_OK(shmd_hot_switch(w.hots[i], 3 - i, true));
	}
	ASSERT_OK(shmd_admin_status(control, &during));
	ASSERT_EQ(during.n_qps, before.n_qps + 4);
	expect_peers(control, N_SIDES * N_SIDES - 4, 4);
	ASSERT_EQ(during.n_dcis, N_SIDES);
	write_word(&w, 0, 3, 900);
	quiet(&w, 0);
	ASSERT_EQ(word(&w, 3), 900u);
	/* One more is one too many, and the call says so. */
	for (unsigned int i = 0; i < N_SIDES; i++) {
		struct shmd_addr addr;

		ASSERT_ERR(shmd_hot_offer(w.hots[i], i, &addr), ENOSPC);
	}
	/* An interval with one operation: all have cooled. */
	ASSERT_EQ(judge(&w, wants), 4u);
	ASSERT(!wants[0][3] && !wants[3][0] && !wants[1][2] && !wants[2][1]);
	for (unsigned int i = 0; i < N_SIDES; i++)
		ASSERT_OK(shmd_hot_switch(w.hots[i], 3 - i, false));
	for (unsigned int i = 0; i < N_SIDES; i++)
		ASSERT_OK(shmd_hot_retire(w.hots[i], 3 - i));
	ASSERT_OK(shmd_admin_status(control, &after));
	ASSERT_EQ(after.n_qps, before.n_qps);
	expect_peers(control, N_SIDES * N_SIDES, 0);
	ASSERT_EQ(after.n_mrs, before.n_mrs);
	ASSERT_EQ(after.registered_bytes, before.registered_bytes);
	write_word(&w, 0, 3, 901);
	quiet(&w, 0);
	ASSERT_EQ(word(&w, 3), 901u);
	ASSERT_EQ(judge(&w, wants), 0u);
	shmd_client_close(control);
	world_close(&w);
}

TEST(wrong_calls_are_refused_in_words_and_change_nothing)
{
	const struct shmd_hot_attr greedy = {.max_peers = SHMD_HOT_MAX_PEERS + 1};
	const struct shmd_hot_attr local = {.access = SHMD_ACCESS_LOCAL_WRITE};
	const struct shmd_queues_attr rc = {.n_qps = 1};
	const struct shmd_queues_attr two = {.n_qps = 2, .qp_type = SHMD_QP_TYPE_DCI};
	struct shmd_dev_peer peer;
	struct shmd_queues *queues;
	struct shmd_hot *hot;
	struct shmd_addr addr;
	struct world w;

	world_open(&w, NULL);
	ASSERT_ERR(shmd_hot_open(w.sides[0].queues, NULL, &hot), EBUSY);
	ASSERT_ERR(shmd_queues_set_peers(w.sides[0].queues, 0, NULL), EBUSY);
	ASSERT_ERR(shmd_queues_destroy(w.sides[0].queues), EBUSY);
	ASSERT_ERR(shmd_hot_offer(w.hots[0], N_SIDES, &addr), EINVAL);
	ASSERT_ERR(shmd_hot_state(w.hots[0], N_SIDES), EINVAL);
	ASSERT_ERR(shmd_hot_switch(w.hots[0], 1, true), EINVAL);
	ASSERT_ERR(shmd_hot_retire(w.hots[0], 1), EINVAL);
	ASSERT_OK(shmd_hot_offer(w.hots[0], 1, &addr));
	ASSERT_ERR(shmd_hot_switch(w.hots[0], 1, true), EINVAL);
	/* A DCT is not a QP of a peer; the offer stays, and may be taken back. */
	ASSERT_OK(shmd_dct_addr(w.dcts[1], &addr));
	ASSERT_ERR(shmd_hot_accept(w.hots[0], 1, &addr, NULL), EINVAL);
	ASSERT_EQ(shmd_hot_state(w.hots[0], 1), SHMD_HOT_OFFERED);
	ASSERT_OK(shmd_hot_retire(w.hots[0], 1));
	ASSERT_OK(shmd_hot_close(w.hots[0]));
	w.hots[0] = NULL;
	ASSERT_EQ(shmd_queues_dev_state(w.sides[0].queues)->routes_addr, 0u);
	ASSERT_ERR(shmd_hot_open(w.sides[0].queues, &greedy, &hot), EINVAL);
	ASSERT_ERR(shmd_hot_open(w.sides[0].queues, &local, &hot), EINVAL);
	ASSERT_OK(shmd_queues_create(w.sides[0].nic, &rc, &queues));
	ASSERT_ERR(shmd_hot_open(queues, NULL, &hot), EINVAL);
	ASSERT_OK(shmd_queues_destroy(queues));
	ASSERT_OK(shmd_queues_create(w.sides[0].nic, &two, &queues));
	ASSERT_ERR(shmd_hot_open(queues, NULL, &hot), EINVAL);
	ASSERT_OK(shmd_dct_addr(w.dcts[1], &addr));
	ASSERT_OK(shmd_peers_resolve(w.sides[0].nic, 1, &addr, 0, &peer, NULL));
	ASSERT_OK(shmd_queues_set_peers(queues, 1, &peer));
	ASSERT_ERR(shmd_hot_open(queues, NULL, &hot), EINVAL);
	ASSERT_OK(shmd_queues_destroy(queues));
	world_close(&w);
}

TEST(access_of_hot_peers_is_what_was_asked_for)
{
	const struct shmd_hot_attr attr = {.access = SHMD_ACCESS_REMOTE_WRITE};
	struct shmd_dev_way way;
	uint64_t value = 0;
	struct world w;

	world_open(&w, &attr);
	make_pair(&w, 0, 1);
	ASSERT_OK(shmd_hot_switch(w.hots[0], 1, true));
	write_word(&w, 0, 1, 8);
	quiet(&w, 0);
	ASSERT_EQ(word(&w, 1), 8u);
	way = way_to(&w, 0, 1);
	ASSERT(!way.peer);
	ASSERT_EQ(shmd_dev_qp_g_as(way.qp, lab_remote(&w.sides[1], WORD_AT), 8, mode_of(&way), &value), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(way.qp->error_syndrome, SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR);
	/* A QP that failed counts as quiet; the DCT allows what it did. */
	ASSERT_OK(shmd_hot_switch(w.hots[0], 1, false));
	way = way_to(&w, 0, 1);
	ASSERT_EQ(shmd_dev_qp_g_as(way.qp, lab_remote(&w.sides[1], WORD_AT), 8, mode_of(&way), &value), SHMD_DEV_OK);
	ASSERT_EQ(value, 8u);
	world_close(&w);
}

/* The client ends with everything in use. */
TEST(session_that_ends_takes_its_hot_peers_along)
{
	struct world w;

	world_open(&w, NULL);
	make_pair(&w, 0, 1);
	ASSERT_OK(shmd_hot_switch(w.hots[0], 1, true));
	write_word(&w, 0, 1, 3);
	quiet(&w, 0);
	ASSERT_EQ(word(&w, 1), 3u);
	shmd_client_close(w.sides[0].client);
	ASSERT_OK(shmd_hot_retire(w.hots[1], 0));
	for (unsigned int i = 1; i < N_SIDES; i++) {
		ASSERT_OK(shmd_hot_close(w.hots[i]));
		ASSERT_OK(shmd_dct_destroy(w.dcts[i]));
		lab_side_close(&w.sides[i]);
	}
	fixture_daemon_stop(&w.daemon);
}
