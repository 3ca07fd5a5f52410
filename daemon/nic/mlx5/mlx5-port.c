/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capabilities of a NIC and facts about its port: GID and MAC, state and rate, the next hop to a peer.
 *
 * Any thread; what is found out once is so before there are others. mlx5_next_hop() asks through the session's own
 * context and may wait for the network.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/host/host.h"
#include "proto/base/cleanup.h"

#define MAX_GIDS 512u
#define SYSFS_NET "/sys/class/net"
#define LOG2_MTU_256 8u

/* Where the firmware refuses a page of capabilities, the NIC has none of that kind. */
static int query_cap(struct mlx5_nic *nic, struct ibv_context *ibv, uint32_t type, uint8_t **ret_out)
{
	_cleanup_free_ uint8_t *out = calloc(1, PRM_QUERY_HCA_CAP_OUT_BYTES);
	struct mlx5_cmd cmd;
	int r;

	if (!out)
		return -ENOMEM;
	mlx5_cmd_query_cap(&cmd, type);
	r = mlx5_exec_general(nic, ibv, &cmd, out);
	if (r < 0)
		return r;
	*ret_out = take_ptr(out);
	return 0;
}

int mlx5_caps_query(struct mlx5_nic *nic, struct ibv_context *ibv, struct mlx5_caps *ret_caps)
{
	_cleanup_free_ uint8_t *general = NULL, *atomic = NULL, *roce = NULL;
	const uint32_t cap = PRM_QUERY_HCA_CAP_OUT_CAP;
	int r;

	r = query_cap(nic, ibv, PRM_CAP_GENERAL, &general);
	if (r == 0 && prm_get(general, cap + PRM_HCA_CAP_ATOMIC))
		r = query_cap(nic, ibv, PRM_CAP_ATOMIC, &atomic);
	if (r == 0 && prm_get(general, cap + PRM_HCA_CAP_ROCE))
		r = query_cap(nic, ibv, PRM_CAP_ROCE, &roce);
	if (r < 0)
		return r;
	mlx5_caps_init(ret_caps, general, atomic, roce);
	return 0;
}

/* ---- GID and MAC ------------------------------------------------------------------------------------------------- */

static void take_gid(struct ibv_context *ibv, const struct ibv_gid_entry *entry, struct host_gid_row *ret_gid)
{
	*ret_gid = (struct host_gid_row){
		.index = entry->gid_index,
		.port = (uint8_t)entry->port_num,
		.is_roce_v2 = entry->gid_type == IBV_GID_TYPE_ROCE_V2,
	};
	memcpy(ret_gid->bytes, entry->gid.raw, sizeof(ret_gid->bytes));
	if (ret_gid->is_roce_v2)
		host_gid_look(ibv->device->ibdev_path, SYSFS_NET, ret_gid);
}

/* The addresses of all ports, to be freed. */
static ssize_t query_gids(struct ibv_context *ibv, struct host_gid_row **ret_gids)
{
	_cleanup_free_ struct ibv_gid_entry *entries = calloc(MAX_GIDS, sizeof(*entries));
	_cleanup_free_ struct host_gid_row *gids = calloc(MAX_GIDS, sizeof(*gids));
	ssize_t n;

	if (!entries || !gids)
		return -ENOMEM;
	n = ibv_query_gid_table(ibv, entries, MAX_GIDS, 0);
	for (ssize_t i = 0; i < n; i++)
		take_gid(ibv, &entries[i], &gids[i]);
	*ret_gids = take_ptr(gids);
	return n;
}

static int query_mac(struct mlx5_nic *nic, struct ibv_context *ibv, struct mlx5_port *port)
{
	uint8_t out[PRM_QUERY_ROCE_ADDRESS_OUT_BYTES];
	struct mlx5_cmd cmd;
	int r;

	mlx5_cmd_query_roce_address(&cmd, port->gid_index);
	r = mlx5_exec_general(nic, ibv, &cmd, out);
	if (r < 0)
		return r;
	prm_get_bytes(out, PRM_QUERY_ROCE_ADDRESS_OUT_ADDR + PRM_ROCE_ADDR_MAC, port->mac);
	return 0;
}

/* All or nothing of *port. */
static int query_addresses(struct mlx5_nic *nic, struct ibv_context *ibv, struct mlx5_port *port)
{
	bool roce = port->link == NIC_LINK_ETHERNET;
	_cleanup_free_ struct host_gid_row *gids = NULL;
	struct mlx5_port found = *port;
	ssize_t n = query_gids(ibv, &gids);
	int i = n < 0 ? (int)n : host_gid_choose(gids, (size_t)n, port->number, roce);

	if (i >= 0) {
		memcpy(found.gid, gids[i].bytes, sizeof(found.gid));
		found.gid_index = (uint8_t)gids[i].index;
	}
	if (i >= 0)
		i = roce ? query_mac(nic, ibv, &found) : 0;
	if (i == 0)
		*port = found;
	return i;
}

int mlx5_port_init(struct mlx5_nic *nic, struct ibv_context *ibv, const struct mlx5_caps *caps,
		   struct mlx5_port *port)
{
	port->link = caps->link;
	port->mtu_log2 = LOG2_MTU_256; /* what every port has; one without a network interface tells none */
	return query_addresses(nic, ibv, port);
}

/* ---- state and rate ---------------------------------------------------------------------------------------------- */

static uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static void fill_limits(struct nic_info *info, const struct mlx5_caps *caps)
{
	info->max_qps = 1u << min_u32(caps->log_max_qp, 24);
	info->max_cqs = 1u << min_u32(caps->log_max_cq, 24);
	info->max_mrs = 1u << min_u32(caps->log_max_mkey, 24);
	info->atomics = caps->atomics;
	info->atomics_dc = caps->atomics_dc;
	info->max_log2_sq_wqebbs = min_u32(caps->log_max_qp_sz, NIC_MAX_LOG2_SQ_WQEBBS);
	info->max_log2_cq_entries = min_u32(caps->log_max_cq_sz, NIC_MAX_LOG2_CQ_ENTRIES);
}

struct mlx5_port mlx5_port_now(struct mlx5_nic *nic)
{
	struct mlx5_port port;

	pthread_mutex_lock(&nic->lock);
	port = nic->port;
	pthread_mutex_unlock(&nic->lock);
	return port;
}

struct ibv_context *mlx5_ibv_now(struct mlx5_nic *nic)
{
	struct ibv_context *ibv;

	pthread_mutex_lock(&nic->lock);
	ibv = nic->ibv;
	pthread_mutex_unlock(&nic->lock);
	return ibv;
}

bool mlx5_is_lost(struct mlx5_nic *nic)
{
	bool lost;

	pthread_mutex_lock(&nic->lock);
	lost = nic->lost;
	pthread_mutex_unlock(&nic->lock);
	return lost;
}

enum nic_port_state mlx5_port_state(const struct ibv_port_attr *attr)
{
	return attr->state == IBV_PORT_ACTIVE ? NIC_PORT_ACTIVE : NIC_PORT_DOWN;
}

/* A port without an MTU keeps the last one. */
void mlx5_port_learn(struct mlx5_port *port, const struct ibv_port_attr *attr)
{
	if (attr->active_mtu)
		port->mtu_log2 = (uint8_t)(attr->active_mtu - IBV_MTU_256 + LOG2_MTU_256);
	if (port->max_mtu_log2 && port->mtu_log2 > port->max_mtu_log2)
		port->mtu_log2 = port->max_mtu_log2;
	port->lid = attr->lid;
	port->demands_grh = attr->flags & IBV_QPF_GRH_REQUIRED;
}

/* Since the addresses were asked last, have they changed? Then this caller asks. */
static bool take_readdress(struct mlx5_nic *nic, uint32_t *ret_life)
{
	bool readdress;

	pthread_mutex_lock(&nic->lock);
	readdress = nic->readdress;
	nic->readdress = false;
	*ret_life = nic->life;
	pthread_mutex_unlock(&nic->lock);
	return readdress;
}

/* MTU, LID and addresses may change. A port without an MTU keeps the last one, one without an address too. */
static int ask_port(struct mlx5_nic *nic, struct ibv_port_attr *ret_attr)
{
	struct ibv_context *ibv = mlx5_ibv_now(nic);
	struct mlx5_port port = mlx5_port_now(nic);
	uint32_t life;
	int r;

	/* A value that cannot be read stays as it is; the question is asked again by the next event. */
	if (take_readdress(nic, &life))
		query_addresses(nic, ibv, &port);
	r = mlx5_result(ibv_query_port(ibv, port.number, ret_attr));
	if (r < 0)
		return r;
	mlx5_port_learn(&port, ret_attr);
	pthread_mutex_lock(&nic->lock);
	if (life == nic->life)
		nic->port = port;
	pthread_mutex_unlock(&nic->lock);
	return 0;
}

static void fill_port(struct nic_info *info, struct mlx5_nic *nic)
{
	struct mlx5_caps caps;
	struct mlx5_port port;

	pthread_mutex_lock(&nic->lock);
	caps = nic->caps;
	port = nic->port;
	pthread_mutex_unlock(&nic->lock);
	info->port = port.number;
	info->link = port.link;
	memcpy(info->gid, port.gid, sizeof(info->gid));
	memcpy(info->mac, port.mac, sizeof(info->mac));
	info->lid = port.lid;
	info->mtu_bytes = 1u << port.mtu_log2;
	fill_limits(info, &caps);
}

int mlx5_port_query(struct mlx5_nic *nic, struct nic_info *ret_info)
{
	struct nic_info info = {
		.backend = "mlx5",
		.state = NIC_PORT_LOST,
		.accepted_kinds = {NIC_MEM_DMABUF, NIC_MEM_PEERMEM, NIC_MEM_MEMFD},
		.doorbell_cpu = MLX5_HAS_BELL,
		.doorbell_uar_mmap = true,
	};
	struct ibv_port_attr attr = {0};
	struct ibv_device *device;
	int r;

	if (!mlx5_is_lost(nic)) {
		r = ask_port(nic, &attr);
		if (r < 0)
			return r;
		info.state = mlx5_port_state(&attr);
	}
	memcpy(info.name, nic->base.name, sizeof(info.name));
	memcpy(info.pci, nic->pci, sizeof(info.pci));
	device = mlx5_ibv_now(nic)->device;
	info.guid = be64toh(ibv_get_device_guid(device));
	fill_port(&info, nic);
	info.rate_mbps = host_rate_mbps(device->ibdev_path, (uint8_t)info.port, attr.active_width, attr.active_speed);
	*ret_info = info;
	return 0;
}

/* ---- the next hop -------------------------------------------------------------------------------------------------- */

/*
 * A firmware command names a MAC; which one leads to a GID is known to the kernel's neighbour tables. It resolves it for
 * address handles, so one is made and thrown away.
 */
static int next_hop(struct mlx5_ctx *ctx, const struct nic_addr *remote, uint8_t ret_mac[6])
{
	const struct mlx5_port port = mlx5_port_now(ctx->nic);
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = port.number,
		.grh = {.sgid_index = port.gid_index, .hop_limit = 64},
	};
	struct mlx5dv_ah out;
	struct mlx5dv_obj obj = {.ah = {.out = &out}};
	int err;

	memcpy(attr.grh.dgid.raw, remote->gid, sizeof(remote->gid));
	errno = 0;
	obj.ah.in = ibv_create_ah(ctx->pd, &attr);
	if (!obj.ah.in)
		return errno == EIO ? -ENODEV : -EINVAL;
	err = mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH);
	if (!err)
		memcpy(ret_mac, out.av->rmac, 6);
	ibv_destroy_ah(obj.ah.in);
	return err ? -EIO : 0;
}

int mlx5_ask_next_hop(struct mlx5_ctx *ctx, struct mlx5_next_hop *hop, const struct nic_addr *remote)
{
	int r;

	if (hop->known && memcmp(hop->gid, remote->gid, sizeof(hop->gid)) == 0)
		return 0;
	hop->known = false;
	r = next_hop(ctx, remote, hop->mac);
	if (r < 0)
		return r;
	memcpy(hop->gid, remote->gid, sizeof(hop->gid));
	hop->known = true;
	return 0;
}
