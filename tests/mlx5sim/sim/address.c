/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses: of RC and UC peers, of the address vectors that UD and DC put into each WQE, and address handles. RoCE goes
 * by GID and MAC, InfiniBand by LID; there is neither a router nor multicast.
 *
 * An address vector is what the client wrote: one that leads nowhere is dropped, as a switch would. mlx5 puts no PD into
 * it, so an address handle serves QPs of every PD.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include "tests/mlx5sim/sim/address.h"
#include "tests/mlx5sim/sim/pd-mr.h"

/* A bit of grh_gid_fl in an address vector (libmlx5, mlx5_create_ah). */
#define AV_HAS_GRH 0x40000000u
#define AV_SGID_INDEX(word) ((word) >> 20 & 0xff)
#define AV_FLOW_LABEL(word) ((word)&0xfffff)

#define PROTOCOL_UDP 17
#define PROTOCOL_BTH 0x1b /* IBTA vol. 1, 8.3: IBA transport */
#define BTH_DETH_ICRC_BYTES 24u
#define UDP_BYTES 8u
#define IPV4_BYTES 20u

struct nic *address_nic_of_lid(struct sim *sim, uint16_t lid)
{
	for (int i = 0; i < sim->n_nics; i++) {
		if (sim->nics[i].lid == lid)
			return &sim->nics[i];
	}
	return NULL;
}

int address_of_peer(struct call *call, const struct ib_uverbs_qp_dest *dest, uint8_t ret_gid[16])
{
	const struct nic *nic;

	if (dest->port_num != 1)
		return call_refuse(call, -EINVAL, "port %u", dest->port_num);
	if (dest->is_global) {
		if (dest->sgid_index >= nic_n_gids(call->nic))
			return call_refuse(call, -EINVAL, "GID index %u", dest->sgid_index);
		memcpy(ret_gid, dest->dgid, 16);
		return 0;
	}
	if (call->ufile->sim->ethernet)
		return call_refuse(call, -EINVAL, "RoCE needs a GID");
	nic = address_nic_of_lid(call->ufile->sim, dest->dlid);
	if (!nic)
		return call_refuse(call, -EHOSTUNREACH, "no port has LID %u", dest->dlid);
	memcpy(ret_gid, nic->gids[0], 16);
	return 0;
}

/* ---- address vectors --------------------------------------------------------------------------------------------- */

static struct nic *nic_of_av(const struct nic *from, const struct shmd_wqe_av_seg *av)
{
	uint32_t word = be32toh(av->grh_gid_fl);
	struct sim *sim = from->sim;
	struct nic *to;

	if (!sim->ethernet) {
		to = address_nic_of_lid(sim, be16toh(av->rlid));
		return to && (word & AV_HAS_GRH) && sim_nic_of_gid(sim, av->rgid) != to ? NULL : to;
	}
	to = sim_nic_of_gid(sim, av->rgid);
	if (!to || memcmp(av->rmac, to->mac, sizeof(to->mac)) ||
	    AV_SGID_INDEX(word) >= nic_n_gids(from))
		return NULL;
	return to;
}

int address_dc_route(struct nic *from, const struct shmd_wqe_av_seg *av, void **ret_route)
{
	struct nic *to = nic_of_av(from, av);

	*ret_route = to;
	return to ? 0 : -EHOSTUNREACH;
}

static void put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

/* RFC 791, behind 20 bytes that mean nothing (IBTA annex A17.4.5.2, where an IPv4 header stands). */
static void fill_ipv4(uint8_t grh[SHMD_GRH_BYTES], const struct shmd_wqe_av_seg *av,
		      const uint8_t sgid[16], uint32_t payload_bytes)
{
	uint8_t *ip = grh + SHMD_GRH_BYTES - IPV4_BYTES;
	uint32_t sum = 0;

	ip[0] = 0x45;
	ip[1] = av->tclass;
	put16(ip + 2, IPV4_BYTES + UDP_BYTES + BTH_DETH_ICRC_BYTES + payload_bytes);
	ip[6] = 0x40; /* not to be fragmented */
	ip[8] = av->hop_limit;
	ip[9] = PROTOCOL_UDP;
	memcpy(ip + 12, sgid + 12, 4);
	memcpy(ip + 16, av->rgid + 12, 4);
	for (unsigned int i = 0; i < IPV4_BYTES; i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	put16(ip + 10, ~(sum + (sum >> 16)));
}

/* IBTA vol. 1, 8.3, which is the header of IPv6. */
static void fill_grh(uint8_t grh[SHMD_GRH_BYTES], const struct shmd_wqe_av_seg *av,
		     const uint8_t sgid[16], bool is_udp, uint32_t payload_bytes)
{
	uint32_t word = be32toh(av->grh_gid_fl);
	uint32_t first = htobe32(6u << 28 | (uint32_t)av->tclass << 20 | AV_FLOW_LABEL(word));

	memcpy(grh, &first, sizeof(first));
	put16(grh + 4, (is_udp ? UDP_BYTES : 0) + BTH_DETH_ICRC_BYTES + payload_bytes);
	grh[6] = is_udp ? PROTOCOL_UDP : PROTOCOL_BTH;
	grh[7] = av->hop_limit;
	memcpy(grh + 8, sgid, 16);
	memcpy(grh + 24, av->rgid, 16);
}

static bool is_ipv4_mapped(const uint8_t gid[16])
{
	static const uint8_t prefix[12] = {[10] = 0xff, 0xff};

	return memcmp(gid, prefix, sizeof(prefix)) == 0;
}

int address_ud_path(struct nic *from, const struct shmd_wqe_av_seg *av, uint32_t payload_bytes,
		    struct engine_ud_path *ret_path)
{
	uint32_t word = be32toh(av->grh_gid_fl), padded = (payload_bytes + 3) & ~3u;
	struct nic *to = nic_of_av(from, av);
	unsigned int index = AV_SGID_INDEX(word);
	bool is_udp;

	if (!to)
		return -EHOSTUNREACH;
	ret_path->route = to;
	ret_path->slid = from->lid;
	ret_path->sl = from->sim->ethernet ? av->stat_rate_sl >> 1 & 7 : av->stat_rate_sl & 15;
	if (!from->sim->ethernet && !(word & AV_HAS_GRH))
		return 0;
	if (index >= nic_n_gids(from))
		return -EHOSTUNREACH;
	ret_path->has_grh = true;
	is_udp = from->gid_types[index] == IB_UVERBS_GID_TYPE_ROCE_V2;
	if (is_udp && is_ipv4_mapped(from->gids[index]))
		fill_ipv4(ret_path->grh, av, from->gids[index], padded);
	else
		fill_grh(ret_path->grh, av, from->gids[index], is_udp, padded);
	return 0;
}

/* ---- address handles: objects of RoCE, where the kernel knows the MAC ------------------------------------------- */

struct ah {
	struct object object;
	struct pd *pd;
};

static void ah_free(struct object *object)
{
	struct ah *ah = container_of(object, struct ah, object);

	sim_lock(object->ufile->sim);
	object->ufile->nic->n_ahs--;
	sim_unlock(object->ufile->sim);
	ah->pd->object.users--;
	free(ah);
}

static int ah_new(struct call *call, struct pd *pd, struct ah **ret_ah)
{
	struct ah *ah;
	int r;

	if (nic_count(call->nic, &call->nic->n_ahs) >= SIM_MAX_AH)
		return call_refuse(call, -ENOMEM, "more than %u address handles", SIM_MAX_AH);
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return -ENOMEM;
	r = object_add(call->ufile, &ah->object, OBJECT_AH, ah_free);
	if (r < 0) {
		free(ah);
		return r;
	}
	ah->pd = pd;
	pd->object.users++;
	sim_lock(call->ufile->sim);
	call->nic->n_ahs++;
	sim_unlock(call->ufile->sim);
	*ret_ah = ah;
	return 0;
}

static int check_ah(struct call *call, const struct ib_uverbs_create_ah *cmd, struct nic **ret_nic)
{
	const struct ib_uverbs_ah_attr *attr = &cmd->attr;

	if (cmd->reserved || attr->reserved || attr->grh.reserved)
		return call_refuse(call, -EINVAL, "reserved bits");
	if (attr->port_num != 1)
		return call_refuse(call, -EINVAL, "port %u", attr->port_num);
	if (call->ufile->sim->ethernet && !attr->is_global)
		return call_refuse(call, -EINVAL, "RoCE needs a GID");
	if (attr->grh.sgid_index >= nic_n_gids(call->nic))
		return call_refuse(call, -EINVAL, "GID index %u", attr->grh.sgid_index);
	if (attr->grh.dgid[0] == 0xff)
		return call_refuse(call, -EOPNOTSUPP, "there is no multicast");
	*ret_nic = sim_nic_of_gid(call->ufile->sim, attr->grh.dgid);
	return *ret_nic ? 0 : call_refuse(call, -EHOSTUNREACH, "no port has this GID");
}

int write_create_ah(struct call *call)
{
	struct mlx5_ib_create_ah_resp driver = {.response_length = sizeof(driver)};
	struct ib_uverbs_create_ah_resp resp = {0};
	struct ib_uverbs_create_ah cmd;
	struct ah *ah = NULL;
	struct nic *to;
	struct pd *pd;
	int r;

	r = call_in_struct(call, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd));
	if (r == 0)
		r = check_ah(call, &cmd, &to);
	if (r < 0)
		return r;
	pd = pd_get(call, cmd.pd_handle);
	if (!pd)
		return call_refuse(call, -EINVAL, "no such PD");
	r = ah_new(call, pd, &ah);
	if (r < 0)
		return r;
	resp.ah_handle = ah->object.handle;
	memcpy(driver.dmac, to->mac, sizeof(driver.dmac));
	r = call_out(call, UVERBS_ATTR_UHW_OUT, &driver, sizeof(driver));
	if (r == 0)
		r = call_out(call, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
	if (r < 0)
		object_destroy(&ah->object);
	return r;
}

int ah_destroy(struct call *call)
{
	struct object *object =
		object_get(call->ufile, OBJECT_AH, call_u64(call, UVERBS_ATTR_DESTROY_AH_HANDLE));

	return object ? object_destroy(object)
		      : call_refuse(call, -ENOENT, "no such address handle");
}
