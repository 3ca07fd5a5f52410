/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The soft backend's NICs: probe, identity, counters.
 *
 * A probed NIC is a name, an address and one eventfd; executors come with the first context of each user, so that
 * unused NICs cost nothing. Addresses are random, or those of the daemon before whose contexts live on: two daemons of one
 * host never answer to each other's.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>

#include "proto/base/cleanup.h"

static struct nic *soft_close(struct nic *base);
DEFINE_CLEANUP(struct soft_fabric *, soft_fabric_unref);

static int soft_query(struct nic *base, struct nic_info *ret_info)
{
	struct soft_nic *nic = soft_nic(base);
	struct nic_info info = {
		.backend = "soft",
		.port = 1,
		.link = NIC_LINK_ETHERNET,
		.state = soft_port_is_down(nic->port) ? NIC_PORT_DOWN : NIC_PORT_ACTIVE,
		.mtu_bytes = 1u << nic->mtu_log2,
		.max_qps = SOFT_MAX_QPS,
		.max_cqs = SOFT_MAX_CQS,
		.max_mrs = SOFT_MAX_MRS,
		.max_log2_sq_wqebbs = NIC_MAX_LOG2_SQ_WQEBBS,
		.max_log2_cq_entries = SOFT_MAX_LOG2_CQ_ENTRIES,
		.accepted_kinds = {NIC_MEM_MEMFD, NIC_MEM_AGENT},
		.atomics = SOFT_ATOMICS,
		.atomics_dc = SOFT_ATOMICS,
		.doorbell_cpu = true,
	};

	memcpy(info.name, nic->base.name, sizeof(info.name));
	memcpy(info.gid, nic->port->shared->gid, sizeof(info.gid));
	soft_port_mac(nic->port, info.mac);
	*ret_info = info;
	return 0;
}

struct counters_call {
	struct soft_call call; /* first: soft-call.c frees it */
	struct engine_qp_counters counters;
};

static bool run_counters(struct soft_exec *exec, struct soft_call *call)
{
	engine_counters(exec->engine, &container_of(call, struct counters_call, call)->counters);
	return true;
}

static void set_last(struct soft_exec *exec, const struct counters_call *call)
{
	exec->last = (struct nic_counters){0};
	soft_counters_add(&exec->last, &call->counters);
}

static void add_last(struct soft_exec *exec, void *sum)
{
	nic_counters_add(sum, &exec->last);
}

/* An executor that does not get to it has what it had. */
static void count_exec(struct soft_exec *exec, void *sum)
{
	struct counters_call *call = calloc(1, sizeof(*call));

	if (call)
		call->call.run = run_counters;
	if (call && soft_call_brief(exec, &call->call) == 0) {
		set_last(exec, call);
		free(call);
	}
	add_last(exec, sum);
}

static void count(struct soft_nic *nic, void (*fn)(struct soft_exec *exec, void *sum), struct nic_counters *ret_counters)
{
	struct nic_counters counters;

	pthread_mutex_lock(&nic->lock);
	counters = nic->former;
	pthread_mutex_unlock(&nic->lock);
	soft_execs_count(nic, fn, &counters);
	*ret_counters = counters;
}

static int soft_counters(struct nic *base, struct nic_counters *ret_counters)
{
	count(soft_nic(base), count_exec, ret_counters);
	return 0;
}

void soft_exec_recount(struct soft_exec *exec)
{
	struct counters_call call = {.call.run = run_counters};

	soft_call(exec, &call.call);
	pthread_mutex_lock(&exec->nic->lock);
	set_last(exec, &call);
	pthread_mutex_unlock(&exec->nic->lock);
}

void soft_counters_known(struct soft_nic *nic, struct nic_counters *ret_counters)
{
	count(nic, add_last, ret_counters);
}

/* There is nothing else. */
static int soft_ctx_to_cpu(struct nic_ctx *ctx)
{
	return -EINVAL;
}

static const struct nic_ops soft_ops = {
	.close = soft_close,
	.query = soft_query,
	.counters = soft_counters,
	.next_event = soft_next_event,
	.port_set = soft_port_set,
	.ctx_open = soft_ctx_open,
	.ctx_close = soft_ctx_close,
	.ctx_to_cpu = soft_ctx_to_cpu,
	.agent_attach = soft_agent_attach,
	.mr_reg = soft_mr_reg,
	.mr_dereg = soft_mr_dereg,
	.queues_create = soft_queues_create,
	.queues_destroy = soft_queues_destroy,
	.connect = soft_connect,
	.resolve = soft_resolve,
	.qp_modify = soft_qp_modify,
	.qp_query = soft_qp_query,
	.queues_read = soft_queues_read,
	.ctx_counters = soft_ctx_counters,
	.ctx_look = nic_no_ctx_look, /* its data threads tell */
	.ctx_quiesce = soft_ctx_quiesce,
	.ctx_export = soft_ctx_export,
	.mr_export = soft_mr_export,
	.queues_export = soft_queues_export,
	.ctx_saved_fds = soft_ctx_saved_fds,
	.ctx_import = soft_ctx_import,
	.ctx_unimport = soft_ctx_unimport,
	.resume = soft_resume,
	.rest = soft_rest,
	/* No firmware to wait for: no context pool. */
	.ctx_pool_set = nic_no_ctx_pool_set,
	.ctx_pool_query = nic_no_ctx_pool_query,
	.ctx_pool_step = nic_no_ctx_pool_step,
	.queues_take = nic_no_queues_take,
};

/* All contexts are gone. Also right for a half-made NIC. */
static struct nic *soft_close(struct nic *base)
{
	struct soft_nic *nic = soft_nic(base);

	list_del(&nic->base.link);
	soft_execs_stop(nic);
	if (nic->port)
		soft_fabric_remove(nic->fabric, nic->port);
	nic->port = soft_port_unref(nic->port);
	nic->fabric = soft_fabric_unref(nic->fabric);
	safe_close(nic->base.event_fd);
	soft_events_deinit(&nic->events);
	pthread_mutex_destroy(&nic->lock);
	pthread_mutex_destroy(&nic->start_lock);
	free(nic);
	return NULL;
}

/* Unique-local prefix of this probe, and the NIC's MAC as EUI-64 behind it. */
static int make_address(const uint8_t prefix[8], uint8_t gid[16])
{
	uint8_t mac[6];

	if (getrandom(mac, sizeof(mac), 0) != sizeof(mac))
		return -EIO;
	mac[0] = (mac[0] | 0x02) & 0xfe; /* locally administered, one station */
	memcpy(gid, prefix, 8);
	gid[8] = mac[0] ^ 0x02;
	gid[9] = mac[1];
	gid[10] = mac[2];
	gid[11] = 0xff;
	gid[12] = 0xfe;
	memcpy(gid + 13, mac + 3, 3);
	return 0;
}

static int set_address(struct soft_nic *nic, const uint8_t prefix[8], const struct soft_identity *identity)
{
	uint8_t gid[16];
	int r;

	if (identity) {
		nic->killed_pid = identity->killed_pid;
		return soft_fabric_join(nic->fabric, nic->index, &nic->port);
	}
	r = make_address(prefix, gid);
	return r < 0 ? r : soft_fabric_add(nic->fabric, gid, &nic->port);
}

static struct soft_nic *nic_alloc(const struct nic_soft_attr *attr, struct soft_fabric *fabric)
{
	struct soft_nic *nic = calloc(1, sizeof(*nic));

	if (!nic)
		return NULL;
	nic->base.ops = &soft_ops;
	nic->base.event_fd = -1;
	nic->base.saves_memory = true;
	nic->base.stalls = true;
	nic->base.maps_per_ctx = SOFT_MAPS_PER_CTX;
	list_init(&nic->base.link);
	nic->gpu_poll_usec = attr->gpu_poll_usec;
	nic->spin_usec = attr->spin_usec;
	nic->mtu_log2 = attr->max_mtu_log2 ? attr->max_mtu_log2 : SOFT_MTU_LOG2;
	nic->saves = attr->saves;
	nic->fabric = soft_fabric_ref(fabric);
	pthread_mutex_init(&nic->start_lock, NULL);
	pthread_mutex_init(&nic->lock, NULL);
	soft_events_init(&nic->events);
	return nic;
}

static int nic_new(const struct nic_soft_attr *attr, unsigned int index, const uint8_t prefix[8],
		   const struct soft_identity *identity, struct soft_fabric *fabric, struct list *nics)
{
	struct soft_nic *nic = nic_alloc(attr, fabric);
	int r;

	if (!nic)
		return -ENOMEM;
	nic->index = index;
	snprintf(nic->base.name, sizeof(nic->base.name), "soft%u", index);
	r = soft_fault_parse(attr->fault, &nic->fault);
	if (r == 0)
		r = set_address(nic, prefix, identity);
	if (r == 0) {
		nic->base.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (nic->base.event_fd < 0)
			r = -errno;
	}
	if (r < 0) {
		soft_close(&nic->base);
		return r;
	}
	list_add_tail(nics, &nic->base.link);
	return 0;
}

static int make_fabric(const struct soft_identity *identity, struct soft_fabric **ret_fabric)
{
	if (identity)
		return soft_fabric_new_view(identity->table_fd, identity->part_fd, identity->exec, ret_fabric);
	*ret_fabric = soft_fabric_new();
	return *ret_fabric ? 0 : -ENOMEM;
}

int soft_probe(const struct nic_soft_attr *attr, const struct soft_identity *identity, struct list *nics)
{
	_cleanup_(soft_fabric_unrefp) struct soft_fabric *fabric = NULL;
	struct list made;
	uint8_t prefix[8];
	int r;

	if (attr->n_nics < 1 || attr->n_nics > SOFT_MAX_NICS || attr->gpu_poll_usec == 0)
		return -EINVAL;
	if (getrandom(prefix, sizeof(prefix), 0) != sizeof(prefix))
		return -EIO;
	prefix[0] = 0xfd;
	r = make_fabric(identity, &fabric);
	if (r < 0)
		return r;
	list_init(&made);
	for (unsigned int i = 0; i < attr->n_nics && r == 0; i++)
		r = nic_new(attr, i, prefix, identity, fabric, &made);
	if (r == 0) {
		list_splice_tail(nics, &made);
		return 0;
	}
	while (!list_empty(&made))
		soft_close(list_first_entry(&made, struct nic, link));
	return r;
}
