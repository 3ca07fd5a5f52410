/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs of a session, with a CUDA driver over host memory: a CPU thread takes a kernel's place and drives the QPs
 * through the view "in GPU memory", whose addresses are other ones than the client's.
 */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/fake-cuda.h"
#include "tests/lib/test.h"
#include "tests/system/client-lab.h"

static const struct shmd_queues_attr for_gpu = {
	.n_qps = 3, .sq_wqebbs = 16, .gpu_driven = 1, .sharing = SHMD_SHARING_GPU};

static struct shmd_dev_qp *qp_on(struct shmd_gpu *gpu, struct shmd_queues *queues, unsigned int i)
{
	uint64_t addr;

	ASSERT_OK(shmd_gpu_dev_qp(gpu, queues, i, &addr));
	return (struct shmd_dev_qp *)(uintptr_t)addr;
}

static void nothing_is_left(void)
{
	struct fake_cuda_counts counts = fake_cuda_counts();

	ASSERT_EQ(counts.registered, 0);
	ASSERT_EQ(counts.allocations, 0);
	ASSERT_EQ(counts.contexts, 0);
	ASSERT_EQ(counts.streams, 0);
	ASSERT_EQ(counts.pushed, 0);
}

/* More puts, gets and atomics than the ring has places, so indexes, scratch and CQ of the view are all used. */
static void drive(struct lab_side *side, struct shmd_dev_qp *qp)
{
	uint64_t *word = (uint64_t *)lab_byte(side, 8192), value = 0, old = 0;

	*word = 0;
	for (uint64_t i = 1; i <= 50; i++) {
		ASSERT_EQ(shmd_dev_qp_p(qp, lab_remote(side, 4096), i, 8), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_qp_g(qp, lab_remote(side, 4096), 8, 10 * NSEC_PER_SEC, &value), SHMD_DEV_OK);
		ASSERT_EQ(value, i);
		ASSERT_EQ(shmd_dev_qp_atomic_fetch_add(qp, lab_remote(side, 8192), 8, 1, 10 * NSEC_PER_SEC, &old),
			  SHMD_DEV_OK);
		ASSERT_EQ(old, i - 1);
	}
	ASSERT_EQ(*word, 50);
}

TEST(queues_are_driven_through_the_view_of_a_gpu)
{
	const struct shmd_dev_state *state;
	struct fixture_daemon daemon;
	struct lab_side side;
	struct shmd_gpu *gpu;
	struct shmd_dev_qp *host, *view;
	uint64_t addr;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	lab_side_open(&side, &daemon, &for_gpu);
	ASSERT_OK(shmd_gpu_open(side.client, 1, &gpu));
	ASSERT_OK(shmd_gpu_dev_state(gpu, side.queues, &addr));
	state = (const struct shmd_dev_state *)(uintptr_t)addr;
	ASSERT_EQ(state->version, SHMD_DEV_STATE_VERSION);
	ASSERT_EQ(state->n_qps, 3);
	lab_connect(&side, 0, &side, 2);
	lab_connect(&side, 1, &side, 1);
	for (unsigned int i = 0; i < 3; i++) {
		view = qp_on(gpu, side.queues, i);
		host = shmd_queues_dev_qp(side.queues, i);
		ASSERT_EQ((uintptr_t)view, state->qps_addr + i * sizeof(*view));
		ASSERT_EQ(view->qpn, host->qpn);
		ASSERT_EQ(view->flags & SHMD_QP_WAKE, 0);
		ASSERT_NE(view->sq_addr, host->sq_addr);
		ASSERT_NE(view->doorbell_addr, host->doorbell_addr);
		ASSERT_NE(view->health_addr, host->health_addr);
		ASSERT_NE(view->slot_busy_addr, host->slot_busy_addr);
		ASSERT_NE(view->scratch_addr, host->scratch_addr);
		ASSERT_EQ(view->scratch_iova, host->scratch_iova);
		drive(&side, view);
		ASSERT_EQ(host->sq_rsvd_index, 0);
	}
	ASSERT_OK(shmd_gpu_close(gpu));
	nothing_is_left();
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

/* The table of peers lies in GPU memory, and is what it was when the view was made. */
TEST(peers_of_dcis_are_in_the_view_of_a_gpu)
{
	const struct shmd_queues_attr dcis = {.n_qps = 3, .sq_wqebbs = 16, .gpu_driven = 1,
					      .qp_type = SHMD_QP_TYPE_DCI};
	const struct shmd_dev_state *state, *host;
	struct shmd_dev_peer peers[5];
	struct fixture_daemon daemon;
	struct shmd_addr addrs[5];
	struct lab_side side;
	struct shmd_dct *dct;
	struct shmd_gpu *gpu;
	uint64_t addr;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	lab_side_open(&side, &daemon, &dcis);
	host = shmd_queues_dev_state(side.queues);
	ASSERT_EQ(host->n_peers, 0);
	ASSERT_OK(shmd_gpu_open(side.client, 1, &gpu));
	ASSERT_OK(shmd_dct_create(side.nic, 0, &dct));
	for (unsigned int i = 0; i < 5; i++)
		ASSERT_OK(shmd_dct_addr(dct, &addrs[i]));
	ASSERT_OK(shmd_peers_resolve(side.nic, 5, addrs, 0, peers, NULL));
	for (unsigned int i = 0; i < 5; i++)
		peers[i].dctn += i;
	ASSERT_OK(shmd_queues_set_peers(side.queues, 2, peers));
	ASSERT_OK(shmd_queues_set_peers(side.queues, 5, peers));
	ASSERT_EQ(host->n_peers, 5);
	ASSERT_MEMEQ((void *)(uintptr_t)host->peers_addr, peers, sizeof(peers));
	ASSERT_OK(shmd_gpu_dev_state(gpu, side.queues, &addr));
	state = (const struct shmd_dev_state *)(uintptr_t)addr;
	ASSERT_EQ(state->n_peers, 5);
	ASSERT_NE(state->peers_addr, host->peers_addr);
	ASSERT_EQ(state->peers_addr % 64, 0);
	ASSERT_MEMEQ((void *)(uintptr_t)state->peers_addr, peers, sizeof(peers));
	ASSERT_EQ(qp_on(gpu, side.queues, 2)->flags & SHMD_QP_DC, SHMD_QP_DC);
	/* The slot words before it are still those of the queues. */
	for (unsigned int i = 0; i < 3; i++)
		ASSERT_LE(qp_on(gpu, side.queues, i)->slot_busy_addr + 64, state->peers_addr);
	ASSERT_ERR(shmd_queues_set_peers(side.queues, 1, peers), EBUSY);
	ASSERT_EQ(host->n_peers, 5);
	ASSERT_OK(shmd_gpu_close(gpu));
	nothing_is_left();
	ASSERT_OK(shmd_queues_set_peers(side.queues, 0, NULL));
	ASSERT_EQ(host->n_peers, 0);
	ASSERT_EQ(host->peers_addr, 0);
	ASSERT_OK(shmd_dct_destroy(dct));
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

/* DCIs with five peers, a set of two hot ones, two GPUs of which one has the view. */
struct hot_lab {
	struct fixture_daemon daemon;
	struct lab_side side;
	struct shmd_dct *dct;
	struct shmd_hot *hot;
	struct shmd_gpu *gpu[2];
};

static void hot_lab_open(struct hot_lab *lab)
{
	const struct shmd_queues_attr dcis = {.n_qps = 3, .sq_wqebbs = 16, .gpu_driven = 1, .sharing = SHMD_SHARING_GPU,
					      .qp_type = SHMD_QP_TYPE_DCI};
	const struct shmd_hot_attr attr = {.max_peers = 2, .min_posts = 10};
	struct shmd_dev_peer peers[5];
	struct shmd_addr addrs[5];

	fixture_daemon_start(&lab->daemon, "--soft-nics=2", NULL);
	lab_side_open(&lab->side, &lab->daemon, &dcis);
	ASSERT_OK(shmd_dct_create(lab->side.nic, 0, &lab->dct));
	for (unsigned int i = 0; i < 5; i++)
		ASSERT_OK(shmd_dct_addr(lab->dct, &addrs[i]));
	ASSERT_OK(shmd_peers_resolve(lab->side.nic, 5, addrs, 0, peers, NULL));
	ASSERT_OK(shmd_queues_set_peers(lab->side.queues, 5, peers));
	ASSERT_OK(shmd_hot_open(lab->side.queues, &attr, &lab->hot));
	for (int i = 0; i < 2; i++)
		ASSERT_OK(shmd_gpu_open(lab->side.client, i, &lab->gpu[i]));
}

static void hot_lab_close(struct hot_lab *lab)
{
	ASSERT_OK(shmd_hot_close(lab->hot));
	ASSERT_OK(shmd_dct_destroy(lab->dct));
	lab_side_close(&lab->side);
	nothing_is_left();
	fixture_daemon_stop(&lab->daemon);
}

static const struct shmd_dev_state *hot_state_on(struct hot_lab *lab, int gpu)
{
	uint64_t addr;

	ASSERT_OK(shmd_gpu_dev_state(lab->gpu[gpu], lab->side.queues, &addr));
	return (const struct shmd_dev_state *)(uintptr_t)addr;
}

static struct shmd_dev_route *routes_of(const struct shmd_dev_state *state)
{
	return (struct shmd_dev_route *)(uintptr_t)state->routes_addr;
}

/* A QP that is its own peer will do. */
static void connect_hot(struct hot_lab *lab, uint32_t peer)
{
	struct shmd_addr addr;

	ASSERT_OK(shmd_hot_offer(lab->hot, peer, &addr));
	ASSERT_OK(shmd_hot_accept(lab->hot, peer, &addr, NULL));
}

TEST(operations_counted_by_gpus_and_threads_are_judged_together)
{
	const struct shmd_dev_state *host, *state;
	struct shmd_hot_change changes[4];
	struct shmd_dev_route *routes;
	struct hot_lab lab;
	uint64_t posts;
	unsigned int n;

	hot_lab_open(&lab);
	host = shmd_queues_dev_state(lab.side.queues);
	state = hot_state_on(&lab, 0);
	routes = routes_of(state);
	ASSERT_NE(state->routes_addr, host->routes_addr);
	ASSERT_EQ(state->routes_addr, state->peers_addr + 5 * sizeof(struct shmd_dev_peer));
	ASSERT_EQ(state->n_hot_qps, 0);
	for (unsigned int i = 0; i < 5; i++)
		ASSERT_EQ(routes[i].qp_addr | routes[i].n_posts, 0);
	shmd_dev_way_count(state, 4, 12);
	shmd_dev_way_count(host, 4, 3);
	ASSERT_OK(shmd_hot_count(lab.hot, 2, 14));
	ASSERT_OK(shmd_hot_posts(lab.hot, 4, &posts));
	ASSERT_EQ(posts, 15);
	ASSERT_EQ(routes[4].n_posts, 0);
	shmd_dev_way_count(state, 1, 9);
	ASSERT_OK(shmd_hot_decide(lab.hot, changes, &n));
	ASSERT_EQ(n, 2);
	ASSERT_EQ(changes[0].peer, 4);
	ASSERT_EQ(changes[1].peer, 2);
	ASSERT_EQ(routes[1].n_posts, 0);
	ASSERT_OK(shmd_hot_decide(lab.hot, changes, &n));
	ASSERT_EQ(n, 0);
	hot_lab_close(&lab);
}

/* The peer's QP has a view of its own on the GPU that has one of the DCIs. */
TEST(ways_to_hot_peers_are_in_the_view_of_a_gpu)
{
	const struct shmd_dev_state *state;
	struct shmd_dev_route *routes;
	struct hot_lab lab;

	hot_lab_open(&lab);
	state = hot_state_on(&lab, 0);
	routes = routes_of(state);
	connect_hot(&lab, 4);
	connect_hot(&lab, 2);
	/* A GPU's outstanding requests count, too. */
	((struct shmd_dev_qp *)(uintptr_t)state->qps_addr)[2].sq_rsvd_index = 1;
	ASSERT_ERR(shmd_hot_switch(lab.hot, 4, true), EBUSY);
	ASSERT_EQ(routes[4].qp_addr, 0);
	((struct shmd_dev_qp *)(uintptr_t)state->qps_addr)[2].sq_rsvd_index = 0;
	ASSERT_OK(shmd_hot_switch(lab.hot, 4, true));
	ASSERT_NE(routes[4].qp_addr, 0);
	ASSERT_NE(routes[4].qp_addr, routes_of(shmd_queues_dev_state(lab.side.queues))[4].qp_addr);
	ASSERT_EQ(((struct shmd_dev_qp *)(uintptr_t)routes[4].qp_addr)->flags & (SHMD_QP_DC | SHMD_QP_WAKE), 0);
	ASSERT_EQ(state->n_hot_qps, 1);
	ASSERT_EQ(*(const uint64_t *)(uintptr_t)state->hot_qps_addr, routes[4].qp_addr);
	ASSERT(!shmd_dev_way_to(state, NULL, 4).peer && shmd_dev_way_to(state, NULL, 2).peer);
	ASSERT_OK(shmd_hot_switch(lab.hot, 2, true));
	ASSERT_EQ(state->n_hot_qps, 2);
	ASSERT_OK(shmd_hot_switch(lab.hot, 4, false));
	ASSERT_EQ(routes[4].qp_addr, 0);
	ASSERT_NE(routes[2].qp_addr, 0);
	ASSERT_EQ(state->n_hot_qps, 1);
	ASSERT_EQ(*(const uint64_t *)(uintptr_t)state->hot_qps_addr, routes[2].qp_addr);
	ASSERT_OK(shmd_hot_retire(lab.hot, 4));
	/* A view that comes later has it from the start. */
	ASSERT_OK(shmd_gpu_close(lab.gpu[0]));
	state = hot_state_on(&lab, 1);
	ASSERT_EQ(state->n_hot_qps, 1);
	ASSERT_NE(routes_of(state)[2].qp_addr, 0);
	hot_lab_close(&lab);
}

/* Each view has indexes of its own, so a second one would post over what the first posted on a peer's QP. */
TEST(dcis_with_hot_peers_have_a_view_on_one_gpu_only)
{
	struct hot_lab lab;
	uint64_t addr = 0;

	hot_lab_open(&lab);
	(void)hot_state_on(&lab, 0);
	ASSERT_ERR(shmd_gpu_dev_state(lab.gpu[1], lab.side.queues, &addr), EBUSY);
	ASSERT_ERR(shmd_gpu_dev_qp(lab.gpu[1], lab.side.queues, 0, &addr), EBUSY);
	ASSERT(strstr(shmd_error_text(), "set of its own"));
	(void)hot_state_on(&lab, 0);
	ASSERT_OK(shmd_gpu_close(lab.gpu[0]));
	(void)hot_state_on(&lab, 1);
	hot_lab_close(&lab);
}

/* The way to peer 4 and the list, as the view has them. */
static void expect_way_to_4(const struct hot_lab *lab, const struct shmd_dev_state *state, bool is_rc)
{
	ASSERT_EQ(shmd_hot_state(lab->hot, 4), is_rc ? SHMD_HOT_RC : SHMD_HOT_CONNECTED);
	ASSERT_EQ(routes_of(state)[4].qp_addr != 0, is_rc);
	ASSERT_EQ(routes_of(shmd_queues_dev_state(lab->side.queues))[4].qp_addr != 0, is_rc);
	ASSERT_EQ(state->n_hot_qps, is_rc);
	ASSERT_EQ(shmd_queues_dev_state(lab->side.queues)->n_hot_qps, is_rc);
}

/* Lets each call of this kind fail in turn until the switch meets no failure. Returns how many did fail. */
static int fail_each(struct hot_lab *lab, const struct shmd_dev_state *state, const char *symbol, bool to_rc)
{
	int n = 0;

	for (;; n++) {
		int r;

		fake_cuda_fail_after(symbol, 700, n, 1);
		r = shmd_hot_switch(lab->hot, 4, to_rc);
		if (!fake_cuda_failed())
			break;
		ASSERT_EQ(r, -EIO);
		ASSERT(strstr(shmd_error_text(), "CUDA says"));
		expect_way_to_4(lab, state, !to_rc);
	}
	fake_cuda_fail_after("", 0, 0, 0);
	expect_way_to_4(lab, state, to_rc);
	return n;
}

TEST(path_that_a_gpu_does_not_know_is_not_taken)
{
	const struct shmd_dev_state *state;
	struct hot_lab lab;

	hot_lab_open(&lab);
	state = hot_state_on(&lab, 0);
	connect_hot(&lab, 2);
	connect_hot(&lab, 4);
	fake_cuda_fail("cuMemAlloc_v2", 2);
	ASSERT_ERR(shmd_hot_switch(lab.hot, 4, true), ENOMEM);
	expect_way_to_4(&lab, state, false);
	/* With the view of the peer's QP to be made, then without: no route, list, its length, the route. */
	for (int i = 0; i < 2; i++) {
		ASSERT_GE(fail_each(&lab, state, "cuMemcpyHtoDAsync_v2", true), 4);
		ASSERT_GE(fail_each(&lab, state, "cuMemcpyHtoDAsync_v2", false), 3);
	}
	ASSERT_GE(fail_each(&lab, state, "cuStreamSynchronize", true), 4);
	/* Beside a way that stays: its view is there, the other's is not. */
	fake_cuda_fail("cuMemAlloc_v2", 2);
	ASSERT_ERR(shmd_hot_switch(lab.hot, 2, true), ENOMEM);
	ASSERT_EQ(routes_of(state)[2].qp_addr, 0);
	expect_way_to_4(&lab, state, true);
	/* Closing takes nothing back by halves either. */
	fake_cuda_fail("cuMemcpyHtoDAsync_v2", 700);
	ASSERT_ERR(shmd_hot_close(lab.hot), EIO);
	expect_way_to_4(&lab, state, true);
	hot_lab_close(&lab);
}

/* CUDA fails from some call on: no QP goes while a GPU may have a route to it. */
TEST(peers_qp_stays_while_a_gpu_cannot_be_notified)
{
	const struct shmd_dev_state *state;
	struct hot_lab lab;

	hot_lab_open(&lab);
	state = hot_state_on(&lab, 0);
	connect_hot(&lab, 4);
	for (int n = 0;; n++) {
		fake_cuda_fail_after("cuMemcpyHtoDAsync_v2", 700, n, 1000000);
		if (!shmd_hot_switch(lab.hot, 4, true))
			break;
		ASSERT_EQ(routes_of(state)[4].qp_addr, 0);
		ASSERT_ERR(shmd_hot_retire(lab.hot, 4), EIO);
		ASSERT_EQ(shmd_hot_state(lab.hot, 4), SHMD_HOT_CONNECTED);
	}
	/* A route goes before its place in the list does. */
	fake_cuda_fail_after("cuMemcpyHtoDAsync_v2", 700, 1, 1000000);
	ASSERT_ERR(shmd_hot_switch(lab.hot, 4, false), EIO);
	ASSERT_EQ(routes_of(state)[4].qp_addr, 0);
	ASSERT_EQ(state->n_hot_qps, 1);
	ASSERT_ERR(shmd_hot_retire(lab.hot, 4), EBUSY);
	ASSERT_ERR(shmd_hot_close(lab.hot), EIO);
	/* The way out when it never gets better. */
	ASSERT_OK(shmd_gpu_close(lab.gpu[0]));
	ASSERT_OK(shmd_hot_switch(lab.hot, 4, false));
	ASSERT_OK(shmd_hot_retire(lab.hot, 4));
	fake_cuda_fail_after("", 0, 0, 0);
	hot_lab_close(&lab);
}

TEST(memory_is_mapped_once_and_forgotten_before_it_goes)
{
	struct fixture_daemon daemon;
	struct lab_side side;
	struct shmd_gpu *gpu, *other;
	struct shmd_gpu_info info;
	uint64_t addr, again;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	lab_side_open(&side, &daemon, &for_gpu);
	ASSERT_OK(shmd_gpu_open(side.client, 0, &gpu));
	ASSERT_OK(shmd_gpu_open(side.client, 1, &other));
	ASSERT_OK(shmd_gpu_info(other, &info));
	ASSERT_STREQ(info.pci, "0000:18:00.0");
	ASSERT_OK(shmd_gpu_map_mem(gpu, side.mem, &addr));
	ASSERT_OK(shmd_gpu_map_mem(gpu, side.mem, &again));
	ASSERT_EQ(addr, again);
	ASSERT_OK(shmd_gpu_map_mem(other, side.mem, &again));
	ASSERT_NE(addr, again);
	ASSERT_EQ(fake_cuda_counts().registered, 1);
	*(char *)(uintptr_t)again = 77;
	ASSERT_EQ(*lab_byte(&side, 0), 77);
	/* The context that registered it stays for the other GPU's sake. */
	ASSERT_OK(shmd_gpu_close(gpu));
	ASSERT_EQ(fake_cuda_counts().contexts, 2);
	*(char *)(uintptr_t)again = 78;
	ASSERT_EQ(*lab_byte(&side, 0), 78);
	ASSERT_OK(shmd_gpu_unmap_mem(other, side.mem));
	ASSERT_EQ(shmd_gpu_unmap_mem(other, side.mem), -ENOENT);
	ASSERT_EQ(fake_cuda_counts().contexts, 1);
	ASSERT_OK(shmd_gpu_map_mem(other, side.mem, &again));
	(void)qp_on(other, side.queues, 0);
	lab_side_close(&side);
	nothing_is_left();
	fixture_daemon_stop(&daemon);
}

TEST(several_gpus_and_sessions_share_a_process)
{
	struct fixture_daemon daemon;
	struct lab_side sides[2];
	struct shmd_gpu *gpus[2][2];

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	for (int s = 0; s < 2; s++) {
		lab_side_open(&sides[s], &daemon, &for_gpu);
		for (int g = 0; g < 2; g++)
			ASSERT_OK(shmd_gpu_open(sides[s].client, g, &gpus[s][g]));
	}
	lab_connect(&sides[0], 0, &sides[1], 0);
	lab_connect(&sides[0], 1, &sides[1], 1);
	for (int g = 0; g < 2; g++) {
		uint64_t i = 5 + (uint64_t)g;

		ASSERT_EQ(shmd_dev_qp_p(qp_on(gpus[0][g], sides[0].queues, (unsigned int)g),
					lab_remote(&sides[1], 4096), i, 8), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_qp_quiet(qp_on(gpus[0][g], sides[0].queues, (unsigned int)g), 10 * NSEC_PER_SEC),
			  SHMD_DEV_OK);
		ASSERT_MEMEQ(lab_byte(&sides[1], 4096), &i, 8);
	}
	ASSERT_EQ(shmd_gpu_map_mem(gpus[0][0], sides[1].mem, &(uint64_t){0}), -EINVAL);
	ASSERT_EQ(shmd_gpu_dev_qp(gpus[0][0], sides[1].queues, 0, &(uint64_t){0}), -EINVAL);
	shmd_client_close(sides[0].client);
	shmd_client_close(sides[1].client);
	nothing_is_left();
	fixture_daemon_stop(&daemon);
}

TEST(a_reset_makes_the_view_as_new)
{
	struct shmd_queues_attr attr = for_gpu;
	struct fixture_daemon daemon;
	struct lab_side side;
	struct shmd_dev_qp *qp;
	struct shmd_gpu *gpu;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	for (int mode = SHMD_CQ_MODE_COLLAPSED; mode <= SHMD_CQ_MODE_ORDINARY; mode++) {
		attr.cq_mode = (enum shmd_cq_mode)mode;
		lab_side_open(&side, &daemon, &attr);
		ASSERT_OK(shmd_gpu_open(side.client, 0, &gpu));
		qp = qp_on(gpu, side.queues, 1);
		lab_connect(&side, 1, &side, 1);
		drive(&side, qp);
		ASSERT_NE(qp->sq_rsvd_index, 0);
		ASSERT_OK(shmd_queues_modify(side.queues, 1, SHMD_QP_RST));
		ASSERT_EQ(qp->sq_rsvd_index, 0);
		ASSERT_EQ(qp->cqe_ci, 0);
		lab_connect(&side, 1, &side, 1);
		drive(&side, qp);
		shmd_client_close(side.client);
	}
	nothing_is_left();
	fixture_daemon_stop(&daemon);
}

TEST(the_current_context_is_taken_and_left_alone)
{
	struct fixture_daemon daemon;
	struct lab_side side;
	struct shmd_gpu_info info;
	struct shmd_gpu *gpu;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	lab_side_open(&side, &daemon, &for_gpu);
	ASSERT_EQ(shmd_gpu_open(side.client, SHMD_GPU_CURRENT, &gpu), -EINVAL);
	fake_cuda_set_current(1);
	ASSERT_OK(shmd_gpu_open(side.client, SHMD_GPU_CURRENT, &gpu));
	ASSERT_OK(shmd_gpu_info(gpu, &info));
	ASSERT_EQ(info.ordinal, 1);
	lab_connect(&side, 0, &side, 0);
	drive(&side, qp_on(gpu, side.queues, 0));
	ASSERT_EQ(fake_cuda_counts().contexts, 0);
	ASSERT_OK(shmd_gpu_close(gpu));
	ASSERT_EQ(fake_cuda_counts().pushed, 1);
	fake_cuda_set_current(-1);
	nothing_is_left();
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

/* Everything from opening to a view; returns the first error. */
static int open_and_view(struct lab_side *side)
{
	struct shmd_gpu *gpu = NULL;
	uint64_t addr;
	int r = shmd_gpu_open(side->client, 0, &gpu);

	if (!r)
		r = shmd_gpu_map_mem(gpu, side->mem, &addr);
	if (!r)
		r = shmd_gpu_dev_qp(gpu, side->queues, 0, &addr);
	if (gpu)
		ASSERT_OK(shmd_gpu_close(gpu));
	return r;
}

TEST(every_call_of_cuda_may_fail)
{
	static const struct {
		const char *symbol;
		int result, err;
	} cases[] = {
		{"cuInit", 100, -ENODEV},
		{"cuDeviceGet", 101, -ENODEV},
		{"cuDevicePrimaryCtxRetain", 2, -ENOMEM},
		{"cuDeviceGetName", 999, -EIO},
		{"cuDeviceGetPCIBusId", 999, -EIO},
		{"cuCtxPushCurrent_v2", 201, -EINVAL},
		{"cuStreamCreate", 2, -ENOMEM},
		{"cuMemHostRegister_v2", 712, -EEXIST},
		{"cuMemHostRegister_v2", 801, -EOPNOTSUPP},
		{"cuMemHostGetDevicePointer_v2", 1, -EINVAL},
		{"cuMemAlloc_v2", 2, -ENOMEM},
		{"cuMemcpyHtoDAsync_v2", 700, -EIO},
		{"cuMemsetD8Async", 700, -EIO},
		{"cuStreamSynchronize", 700, -EIO},
	};
	struct fixture_daemon daemon;
	struct lab_side side;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	lab_side_open(&side, &daemon, &for_gpu);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake_cuda_fail(cases[i].symbol, cases[i].result);
		ASSERT_EQ(open_and_view(&side), cases[i].err);
		ASSERT(fake_cuda_failed());
		ASSERT(strstr(shmd_error_text(), "CUDA says"));
		nothing_is_left();
	}
	ASSERT_OK(open_and_view(&side));
	ASSERT_EQ(shmd_gpu_open(side.client, FAKE_CUDA_GPUS, &(struct shmd_gpu *){NULL}), -ENODEV);
	nothing_is_left();
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

TEST(a_forked_child_leaves_cuda_alone)
{
	struct fixture_daemon daemon;
	struct lab_side side;
	struct shmd_gpu *gpu;
	int status;
	pid_t pid;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	lab_side_open(&side, &daemon, &for_gpu);
	ASSERT_OK(shmd_gpu_open(side.client, 0, &gpu));
	(void)qp_on(gpu, side.queues, 0);
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		struct fake_cuda_counts before = fake_cuda_counts(), after;
		int r = shmd_gpu_close(gpu);

		shmd_client_close(side.client);
		after = fake_cuda_counts();
		_exit(r == -ECHILD && !memcmp(&before, &after, sizeof(before)) ? 0 : 1);
	}
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
	lab_connect(&side, 0, &side, 0);
	drive(&side, qp_on(gpu, side.queues, 0));
	lab_side_close(&side);
	nothing_is_left();
	fixture_daemon_stop(&daemon);
}
