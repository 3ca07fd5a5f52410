/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hot peers: a table of ways, and the RC QPs that some of its peers have.
 *
 * hot-decide.c decides which peers get one, the caller makes it, and the slots bound their number. A QP is a batch of queues of its
 * own, so GPUs, teardown and quota need nothing new. A way changes only while nothing is under way on the old one.
 * One thread uses a set at a time; it holds the client's lock to change the fields that GPUs, queues_free() and the counts
 * of peers read.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/hot-decide.h"
#include "libclient/objects.h"

#define DEFAULT_MAX_PEERS 8u
#define DEFAULT_MIN_POSTS 1000u

/* ---- the set */

DEFINE_CLEANUP(struct shmd_hot *, hot_free);

static int check_attr(const struct shmd_queues *dcis, const struct shmd_hot_attr *attr)
{
	if (dcis->attr.qp_type != SHMD_QP_TYPE_DCI || !dcis->dev_state->n_peers)
		return text_fail(-EINVAL, "only DCIs with a table of peers (shmd_queues_set_peers) can have hot ones");
	if (dcis->attr.n_qps > 1 && dcis->attr.sharing != SHMD_SHARING_GPU)
		return text_fail(-EINVAL, "users of several DCIs would share the QP of a peer: their sharing must be GPU");
	if (attr->max_peers > SHMD_HOT_MAX_PEERS)
		return text_fail(-EINVAL, "max_peers is %u: 1 to %u", attr->max_peers, SHMD_HOT_MAX_PEERS);
	if (attr->access & ~ACCESS_REMOTE)
		return text_fail(-EINVAL, "access 0x%x has bits other than SHMD_ACCESS_REMOTE_*", attr->access);
	return 0;
}

static struct shmd_hot *hot_new(struct shmd_queues *dcis, const struct shmd_hot_attr *attr)
{
	_cleanup_(hot_freep) struct shmd_hot *hot = calloc(1, sizeof(*hot));

	if (!hot)
		return NULL;
	hot->dcis = dcis;
	hot->n_peers = dcis->dev_state->n_peers;
	hot->sq_wqebbs = attr->sq_wqebbs ? attr->sq_wqebbs : dcis->attr.sq_wqebbs;
	hot->access = attr->access;
	hot->min_posts = attr->min_posts ? attr->min_posts : DEFAULT_MIN_POSTS;
	hot->n_slots = attr->max_peers ? attr->max_peers : DEFAULT_MAX_PEERS;
	hot->routes = calloc(hot->n_peers, sizeof(*hot->routes));
	hot->slots = calloc(hot->n_slots, sizeof(*hot->slots));
	hot->qps = calloc(hot->n_slots, sizeof(*hot->qps));
	return hot->routes && hot->slots && hot->qps ? take_ptr(hot) : NULL;
}

/* Lock held. */
static int attach(struct shmd_hot **hot)
{
	struct shmd_queues *dcis = (*hot)->dcis;

	if (dcis->hot)
		return text_fail(-EBUSY, "these DCIs have a set of hot peers already");
	if (!list_empty(&dcis->gpu_views))
		return text_fail(-EBUSY, "a GPU has a view of these queues already, without ways to peers");
	dcis->hot = take_ptr(*hot);
	dcis->dev_state->routes_addr = (uintptr_t)dcis->hot->routes;
	dcis->dev_state->hot_qps_addr = (uintptr_t)dcis->hot->qps;
	return 0;
}

int shmd_hot_open(struct shmd_queues *dcis, const struct shmd_hot_attr *attr, struct shmd_hot **ret_hot)
{
	static const struct shmd_hot_attr defaults;
	_cleanup_(hot_freep) struct shmd_hot *hot = NULL;
	int r = queues_check(dcis, 0);

	if (!r && !ret_hot)
		r = text_fail(-EINVAL, "ret_hot is NULL");
	if (!r)
		r = check_attr(dcis, attr ? attr : &defaults);
	if (r < 0)
		return r;
	hot = hot_new(dcis, attr ? attr : &defaults);
	if (!hot)
		return text_fail(-ENOMEM, "no memory for ways to %u peers", dcis->dev_state->n_peers);
	client_lock(dcis->nic->client);
	r = attach(&hot);
	client_unlock(dcis->nic->client);
	if (!r)
		*ret_hot = dcis->hot;
	return r;
}

static int hot_check(const struct shmd_hot *hot, uint32_t peer)
{
	int r = client_check(hot ? hot->dcis->nic->client : NULL);

	if (!r && peer >= hot->n_peers)
		r = text_fail(-EINVAL, "there is no peer %u in a table of %u", peer, hot->n_peers);
	return r;
}

static struct hot_slot *find_slot(const struct shmd_hot *hot, uint32_t peer)
{
	for (unsigned int i = 0; i < hot->n_slots; i++)
		if (hot->slots[i].queues && hot->slots[i].peer == peer)
			return &hot->slots[i];
	return NULL;
}

static struct hot_slot *free_slot(const struct shmd_hot *hot)
{
	for (unsigned int i = 0; i < hot->n_slots; i++)
		if (!hot->slots[i].queues)
			return &hot->slots[i];
	return NULL;
}

int shmd_hot_state(const struct shmd_hot *hot, uint32_t peer)
{
	const struct hot_slot *slot;
	int r = hot_check(hot, peer);

	if (r < 0)
		return r;
	slot = find_slot(hot, peer);
	if (!slot)
		return SHMD_HOT_DC;
	if (!slot->is_connected)
		return SHMD_HOT_OFFERED;
	return slot->is_used ? SHMD_HOT_RC : SHMD_HOT_CONNECTED;
}

/* ---- who is hot */

static int take_counts(struct shmd_hot *hot)
{
	int r;

	client_lock(hot->dcis->nic->client);
	r = gpu_take_counts(hot);
	client_unlock(hot->dcis->nic->client);
	return r;
}

int shmd_hot_count(struct shmd_hot *hot, uint32_t peer, uint64_t n_posts)
{
	int r = hot_check(hot, peer);

	if (!r)
		__atomic_fetch_add(&hot->routes[peer].n_posts, n_posts, __ATOMIC_RELAXED);
	return r;
}

int shmd_hot_posts(struct shmd_hot *hot, uint32_t peer, uint64_t *ret_n_posts)
{
	int r = hot_check(hot, peer);

	if (!r && !ret_n_posts)
		r = text_fail(-EINVAL, "ret_n_posts is NULL");
	if (!r)
		r = take_counts(hot);
	if (!r)
		*ret_n_posts = __atomic_load_n(&hot->routes[peer].n_posts, __ATOMIC_RELAXED);
	return r;
}

/* Takes the counts of the interval, so that they do not change while hot_decide() judges them. */
static struct shmd_dev_route *end_interval(struct shmd_hot *hot)
{
	struct shmd_dev_route *counts = calloc(hot->n_peers, sizeof(*counts));

	for (uint32_t i = 0; counts && i < hot->n_peers; i++)
		counts[i].n_posts = __atomic_exchange_n(&hot->routes[i].n_posts, 0, __ATOMIC_RELAXED);
	return counts;
}

int shmd_hot_decide(struct shmd_hot *hot, struct shmd_hot_change *ret_changes, unsigned int *ret_n)
{
	_cleanup_free_ struct shmd_dev_route *counts = NULL;
	uint32_t hot_peers[SHMD_HOT_MAX_PEERS];
	struct hot_rules rules;
	unsigned int n_hot = 0;
	int r = hot_check(hot, 0);

	if (!r && (!ret_changes || !ret_n))
		r = text_fail(-EINVAL, "ret_changes or ret_n is NULL");
	if (!r)
		r = take_counts(hot);
	if (r < 0)
		return r;
	counts = end_interval(hot);
	if (!counts)
		return text_fail(-ENOMEM, "no memory to judge %u peers", hot->n_peers);
	for (unsigned int i = 0; i < hot->n_slots; i++)
		if (hot->slots[i].queues)
			hot_peers[n_hot++] = hot->slots[i].peer;
	rules = (struct hot_rules){.max_peers = hot->n_slots, .min_posts = hot->min_posts};
	*ret_n = hot_decide(&rules, counts, hot->n_peers, hot_peers, n_hot, ret_changes);
	return 0;
}

/* ---- a pair */

/* The QP has the properties of the DCIs, so that posters and kernels use it in the same way. */
static int make_qp(struct shmd_hot *hot, struct hot_slot *slot, uint32_t peer)
{
	const struct shmd_queues_attr *dci = &hot->dcis->attr;
	const struct shmd_queues_attr attr = {
		.n_qps = 1,
		.sq_wqebbs = hot->sq_wqebbs,
		.cq_mode = dci->cq_mode,
		.sharing = dci->sharing,
		.access = hot->access,
		.gpu_driven = dci->gpu_driven,
		.qp_type = SHMD_QP_TYPE_RC,
	};
	struct shmd_queues *queues = NULL;
	int r = shmd_queues_create(hot->dcis->nic, &attr, &queues);

	if (r < 0)
		return r;
	client_lock(hot->dcis->nic->client);
	slot->peer = peer;
	slot->queues = queues;
	client_unlock(hot->dcis->nic->client);
	return 0;
}

int shmd_hot_offer(struct shmd_hot *hot, uint32_t peer, struct shmd_addr *ret_addr)
{
	struct hot_slot *slot;
	int r = hot_check(hot, peer);

	if (!r && !ret_addr)
		r = text_fail(-EINVAL, "ret_addr is NULL");
	if (r < 0)
		return r;
	slot = find_slot(hot, peer);
	if (slot)
		return shmd_queues_addr(slot->queues, 0, ret_addr);
	slot = free_slot(hot);
	if (!slot)
		return text_fail(-ENOSPC, "%u peers have a QP of their own, as many as may: retire one first",
				 hot->n_slots);
	r = make_qp(hot, slot, peer);
	return r ? r : shmd_queues_addr(slot->queues, 0, ret_addr);
}

static int find_for(const struct shmd_hot *hot, uint32_t peer, struct hot_slot **ret_slot)
{
	int r = hot_check(hot, peer);

	if (r < 0)
		return r;
	*ret_slot = find_slot(hot, peer);
	return *ret_slot ? 0 : text_fail(-EINVAL, "peer %u has no QP of its own: shmd_hot_offer() makes one", peer);
}

int shmd_hot_accept(struct shmd_hot *hot, uint32_t peer, const struct shmd_addr *addr,
		    const struct shmd_qp_params *params)
{
	struct hot_slot *slot;
	int r = find_for(hot, peer, &slot);

	if (!r && slot->is_connected)
		r = text_fail(-EINVAL, "the QP of peer %u is connected already", peer);
	if (!r)
		r = shmd_queues_connect(slot->queues, 0, 1, addr, params, NULL);
	if (r < 0)
		return r;
	client_lock(hot->dcis->nic->client);
	slot->is_connected = true;
	client_unlock(hot->dcis->nic->client);
	peers_report_quietly(hot->dcis->nic);
	return 0;
}

/* ---- ways */

/* In the host's view, every QP of the batch is idle. A QP that failed counts as idle. */
static int host_idle(const struct shmd_queues *queues)
{
	for (unsigned int i = 0; i < queues->attr.n_qps; i++) {
		const struct shmd_dev_qp *qp = &queues->dev_qps[i];

		if (!qp->error_syndrome && qp->cqe_ci < qp->sq_rsvd_index)
			return text_fail(-EBUSY, "QP %u has requests under way: shmd_dev_ways_quiet_as() comes first", i);
	}
	return 0;
}

static void write_host_ways(struct shmd_hot *hot)
{
	struct shmd_dev_state *state = hot->dcis->dev_state;

	state->n_hot_qps = 0;
	for (unsigned int i = 0; i < hot->n_slots; i++) {
		const struct hot_slot *slot = &hot->slots[i];

		if (!slot->queues)
			continue;
		hot->routes[slot->peer].qp_addr = slot->is_used ? (uintptr_t)slot->queues->dev_qps : 0;
		if (slot->is_used)
			hot->qps[state->n_hot_qps++] = (uintptr_t)slot->queues->dev_qps;
	}
}

/* Bit i: slot i, of at most SHMD_HOT_MAX_PEERS. */
static uint64_t used_slots(const struct shmd_hot *hot)
{
	uint64_t used = 0;

	for (unsigned int i = 0; i < hot->n_slots; i++)
		used |= (uint64_t)hot->slots[i].is_used << i;
	return used;
}

static void set_used_slots(struct shmd_hot *hot, uint64_t used)
{
	for (unsigned int i = 0; i < hot->n_slots; i++)
		hot->slots[i].is_used = used >> i & 1;
}

/* Lock held. If one view cannot be written, all go back to the ways before. */
static int set_ways(struct shmd_hot *hot, uint64_t used)
{
	uint64_t before = used_slots(hot);
	char why[CLIENT_TEXT_BYTES];
	int r;

	set_used_slots(hot, used);
	r = gpu_write_ways(hot);
	if (!r) {
		write_host_ways(hot);
		return 0;
	}
	text_copy(why, sizeof(why), shmd_error_text());
	set_used_slots(hot, before);
	(void)gpu_write_ways(hot);
	return text_fail(r, "%s", why);
}

/* Lock held. */
static int use_way(struct shmd_hot *hot, struct hot_slot *slot, bool to_rc)
{
	uint64_t bit = 1ull << (slot - hot->slots), used = used_slots(hot);
	struct shmd_queues *left = to_rc ? hot->dcis : slot->queues;
	int r = host_idle(left);

	if (!r)
		r = gpu_queues_idle(left);
	return r ? r : set_ways(hot, to_rc ? used | bit : used & ~bit);
}

int shmd_hot_switch(struct shmd_hot *hot, uint32_t peer, bool to_rc)
{
	struct hot_slot *slot;
	int r = find_for(hot, peer, &slot);

	if (!r && !slot->is_connected)
		r = text_fail(-EINVAL, "the QP of peer %u is not connected: shmd_hot_accept() does that", peer);
	if (r < 0 || slot->is_used == to_rc)
		return r;
	client_lock(hot->dcis->nic->client);
	r = use_way(hot, slot, to_rc);
	client_unlock(hot->dcis->nic->client);
	return r;
}

static int destroy_qp(const struct shmd_hot *hot, struct hot_slot *slot)
{
	int r = shmd_queues_destroy(slot->queues);

	if (r < 0)
		return r;
	client_lock(hot->dcis->nic->client);
	*slot = (struct hot_slot){.queues = NULL};
	client_unlock(hot->dcis->nic->client);
	peers_report_quietly(hot->dcis->nic);
	return 0;
}

int shmd_hot_retire(struct shmd_hot *hot, uint32_t peer)
{
	struct hot_slot *slot;
	int r = find_for(hot, peer, &slot);

	if (!r && slot->is_used)
		r = text_fail(-EBUSY, "peer %u goes by its own QP: shmd_hot_switch() to DC comes first", peer);
	if (r < 0)
		return r;
	/* A switch that failed may have left a route to it. */
	client_lock(hot->dcis->nic->client);
	r = gpu_write_ways(hot);
	client_unlock(hot->dcis->nic->client);
	return r ? r : destroy_qp(hot, slot);
}

int shmd_hot_close(struct shmd_hot *hot)
{
	struct shmd_client *client;
	int r = hot_check(hot, 0);

	if (r < 0)
		return r;
	client = hot->dcis->nic->client;
	client_lock(client);
	r = set_ways(hot, 0);
	client_unlock(client);
	for (unsigned int i = 0; i < hot->n_slots && !r; i++)
		if (hot->slots[i].queues)
			r = destroy_qp(hot, &hot->slots[i]);
	if (r < 0)
		return r;
	client_lock(client);
	hot->dcis->dev_state->routes_addr = 0;
	hot->dcis->dev_state->hot_qps_addr = 0;
	hot->dcis->hot = NULL;
	hot_free(hot);
	client_unlock(client);
	return 0;
}
