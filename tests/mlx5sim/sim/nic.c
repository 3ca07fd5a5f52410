/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NICs: engines, and the thread that reads doorbells and runs them.
 *
 * A doorbell register is read by exchanging it with zero. Its value says little: a later write may have covered an
 * earlier one, and writers of other dialects fill in the QP number alone. So every QP and CQ of the page is looked at.
 * For the same reason a doorbell through a page other than the one a QP was made with rings nothing, as on hardware.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include <rdma/ib_user_ioctl_verbs.h>

#include "proto/base/assert.h"
#include "tests/mlx5sim/sim/address.h"

#define FIRST_DOORBELL 0x800
#define DOORBELL_STEP 0x100 /* half of a BlueFlame register: writers use the halves in turn */
#define N_DOORBELLS 4
#define CQ_DOORBELL 0x20

#define IDLE_NSEC 30000
#define LONG_IDLE_NSEC 200000
#define LONG_IDLE_TURNS 2000
#define CATCH_UP_TURNS 1000

static uint64_t clock_of(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t op_now(void *owner)
{
	return clock_of(CLOCK_MONOTONIC);
}

struct nic *sim_nic_of_gid(struct sim *sim, const uint8_t gid[16])
{
	for (int i = 0; i < sim->n_nics; i++) {
		for (unsigned int g = 0; g < nic_n_gids(&sim->nics[i]); g++) {
			if (memcmp(sim->nics[i].gids[g], gid, 16) == 0)
				return &sim->nics[i];
		}
	}
	return NULL;
}

static int op_route_get(void *owner, const uint8_t gid[16], void **ret_route)
{
	struct nic *from = owner, *to = sim_nic_of_gid(from->sim, gid);

	if (from->lose_next_route)
		to = &from->sim->nowhere;
	*ret_route = to;
	return to ? 0 : -EHOSTUNREACH;
}

static void op_route_put(void *owner, void *route)
{
}

static int op_send(void *owner, void *route, struct engine_packet *pkt)
{
	struct nic *to = route;

	if (!to->engine || to->lost || to->port_down || ((struct nic *)owner)->port_down) {
		engine_packet_free(pkt);
		return -EHOSTUNREACH;
	}
	engine_input(to->engine, pkt);
	return 0;
}

static void op_event(void *owner, const struct engine_event *ev)
{
	switch (ev->kind) {
	case ENGINE_EVENT_CQ_COMPLETION:
	case ENGINE_EVENT_CQ_OVERRUN:
		cq_engine_event(owner, ev);
		break;
	case ENGINE_EVENT_SRQ_LIMIT:
	case ENGINE_EVENT_SRQ_ERROR:
		srq_engine_event(owner, ev);
		break;
	case ENGINE_EVENT_QP_ERROR:
	case ENGINE_EVENT_QP_SQ_DRAINED:
	case ENGINE_EVENT_QP_LAST_WQE:
		qp_engine_event(owner, ev);
		fw_qp_engine_event(owner, ev);
		xrc_engine_event(owner, ev);
		break;
	}
}

static int op_ud_path(void *owner, uint32_t qpn, const struct shmd_wqe_av_seg *av, uint32_t payload_bytes,
		      struct engine_ud_path *ret_path)
{
	return address_ud_path(owner, av, payload_bytes, ret_path);
}

static int op_dc_route(void *owner, uint32_t qpn, const struct shmd_wqe_av_seg *av, void **ret_route)
{
	return address_dc_route(owner, av, ret_route);
}

/* Routes are NICs, and so is what an engine is known by. */
static int op_dc_route_back(void *owner, const void *source, void **ret_route)
{
	*ret_route = ((const struct nic *)source)->self;
	return 0;
}

static uint16_t op_dc_slid(void *owner, const void *source)
{
	return ((const struct nic *)source)->lid;
}

static const struct engine_ops engine_ops = {
	.now_nsec = op_now,
	.route_get = op_route_get,
	.route_put = op_route_put,
	.send = op_send,
	.event = op_event,
	.ud_path = op_ud_path,
	.dc_route = op_dc_route,
	.dc_route_back = op_dc_route_back,
	.dc_slid = op_dc_slid,
};

static void link_local(uint8_t gid[16], uint64_t guid)
{
	uint64_t be = htobe64(guid);

	memset(gid, 0, 16);
	gid[0] = 0xfe;
	gid[1] = 0x80;
	memcpy(gid + 8, &be, 8);
}

/* From the range reserved for examples. */
static void ipv4_mapped(uint8_t gid[16], int index)
{
	const uint8_t start[15] = {[10] = 0xff, 0xff, 192, 0, 2};

	memcpy(gid, start, sizeof(start));
	gid[15] = (uint8_t)(index + 1);
}

static void init_addresses(struct nic *nic, bool ethernet)
{
	const uint8_t mac[5] = {0x02, 'm', 'l', 'x', '5'};

	memcpy(nic->mac, mac, sizeof(mac));
	nic->mac[5] = (uint8_t)(nic->index + 1);
	nic->guid = 0x006d6cfffe783500u + (unsigned int)nic->index + 1;
	nic->lid = ethernet ? 0 : (uint16_t)(nic->index + 1);
	nic->n_gids = ethernet ? 4 : 1;
	link_local(nic->gids[0], nic->guid);
	nic->gid_types[0] = ethernet ? IB_UVERBS_GID_TYPE_ROCE_V1 : IB_UVERBS_GID_TYPE_IB;
	if (!ethernet)
		return;
	link_local(nic->gids[1], nic->guid);
	ipv4_mapped(nic->gids[2], nic->index);
	ipv4_mapped(nic->gids[3], nic->index);
	nic->gid_types[1] = IB_UVERBS_GID_TYPE_ROCE_V2;
	nic->gid_types[2] = IB_UVERBS_GID_TYPE_ROCE_V1;
	nic->gid_types[3] = IB_UVERBS_GID_TYPE_ROCE_V2;
}

int nic_init(struct nic *nic, struct sim *sim, int index)
{
	struct engine_attr attr = {.max_qps = SIM_MAX_QP,
				   .max_cqs = SIM_MAX_CQ,
				   .max_mrs = 2 * SIM_MAX_MR + SIM_MAX_MW, /* indirect keys are regions too */
				   .max_indirects = SIM_MAX_MR,
				   .max_srqs = SIM_MAX_SRQ,
				   .max_mws = SIM_MAX_MW,
				   .chunk_bytes = 4096,
				   .self_route = nic,
				   .lacks_masked_atomics = sim->atomics >= SIM_ATOMICS_PLAIN,
				   .results_8_be = sim->atomics == SIM_ATOMICS_BIG_ENDIAN,
				   .extension = &engine_extra};

	nic->sim = sim;
	nic->index = index;
	nic->self = nic;
	init_addresses(nic, sim->ethernet);
	list_init(&nic->uars);
	list_init(&nic->armed_cqs);
	hash_init(&nic->cqs_by_number);
	hash_init(&nic->qps_by_number);
	hash_init(&nic->srqs_by_number);
	hash_init(&nic->devx_qps_by_number);
	list_init(&nic->ufiles);
	list_init(&nic->xrc_domains);
	nic->next_cqn = 0x400;
	nic->next_qpn = 0x100;
	nic->next_srqn = 1;
	nic->next_pdn = 1;
	nic->next_key = 0x1000; /* above the terminator of scatter lists and the sign of a pattern */
	nic->next_page = 0x10;
	nic->next_umem = 1;
	nic->next_uid = 1;
	nic->next_xrcdn = 1;
	return engine_new(&attr, &engine_ops, nic, &nic->engine);
}

void nic_deinit(struct nic *nic)
{
	assert_bug(!nic->n_qps && !nic->n_cqs && !nic->n_srqs && !nic->n_ahs && !nic->n_mrs && !nic->n_pds && !nic->n_uars && !nic->n_mws && !nic->dm_bytes);
	assert_bug(!nic->n_umems && !nic->n_counters && !nic->n_uids && list_empty(&nic->xrc_domains));
	nic->engine = engine_free(nic->engine);
	hash_deinit(&nic->cqs_by_number);
	hash_deinit(&nic->qps_by_number);
	hash_deinit(&nic->srqs_by_number);
	hash_deinit(&nic->devx_qps_by_number);
}

static uint64_t take_register(struct uar *uar, size_t at)
{
	uint64_t *reg = (uint64_t *)(void *)(uar->page + at);

	if (!__atomic_load_n(reg, __ATOMIC_RELAXED))
		return 0;
	return be64toh(__atomic_exchange_n(reg, 0, __ATOMIC_ACQUIRE));
}

static bool read_doorbells(struct nic *nic)
{
	bool rung = false;
	struct uar *uar;

	list_for_each_entry (uar, &nic->uars, nic_link) {
		uint64_t arm = take_register(uar, CQ_DOORBELL);
		uint64_t send = 0;

		for (size_t i = 0; i < N_DOORBELLS; i++)
			send |= take_register(uar, FIRST_DOORBELL + i * DOORBELL_STEP);
		if (arm)
			cq_arm_seen(nic, uar, (uint32_t)(arm & 0xffffff));
		if (send) {
			qp_doorbell(nic, uar);
			fw_qp_doorbell(nic, uar);
		}
		rung |= arm || send;
	}
	return rung;
}

static bool turn(struct nic *nic)
{
	bool busy = !nic->lost && read_doorbells(nic);

	/* A lost NIC executes nothing; without QPs it only gives packets back. */
	if (!nic->lost || !nic->n_qps)
		busy |= engine_progress(nic->engine, 64) != 0;
	cq_notify_armed(nic, op_now(nic));
	return busy;
}

void nic_catch_up(struct sim *sim)
{
	bool busy = true;

	for (unsigned int i = 0; busy && i < CATCH_UP_TURNS; i++) {
		busy = false;
		for (int n = 0; n < sim->n_nics; n++)
			busy |= turn(&sim->nics[n]);
	}
}

/* Receive queues have no doorbell register; the engine reads their records when a message comes. */
void *nic_thread(void *arg)
{
	struct sim *sim = arg;
	unsigned int idle = 0;

	pthread_mutex_lock(&sim->lock);
	while (!sim->stopping) {
		struct timespec pause = {0, idle > LONG_IDLE_TURNS ? LONG_IDLE_NSEC : IDLE_NSEC};
		bool busy = false;

		if (!sim->n_ufiles) {
			pthread_cond_wait(&sim->wake, &sim->lock);
			continue;
		}
		for (int i = 0; i < sim->n_nics; i++)
			busy |= turn(&sim->nics[i]);
		idle = busy ? 0 : idle + 1;
		pthread_mutex_unlock(&sim->lock);
		/* Sleeping, not yielding: a thread that yields comes back after those that spin on their CQs. */
		if (!busy || __atomic_load_n(&sim->n_waiting, __ATOMIC_RELAXED))
			nanosleep(&pause, NULL);
		pthread_mutex_lock(&sim->lock);
	}
	pthread_mutex_unlock(&sim->lock);
	return NULL;
}
