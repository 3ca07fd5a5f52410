/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address vectors: what a DCI's WQE says of the way to a DCT.
 *
 * Where the fields go is in kernels/abi/wqe.h; what they hold on either kind of link is as libmlx5 does it for address
 * handles (rdma-core, providers/mlx5/verbs.c, mlx5_create_ah). Pure; any thread.
 */
#include "daemon/nic/nic.h"

#include <endian.h>
#include <string.h>

#define GID_INDEX_SHIFT 20u

/* The UDP source port stands where InfiniBand has the LID; a GRH is understood, and so not said to be there. */
static void set_roce(struct shmd_wqe_av_seg *av, const struct nic_path *path)
{
	av->rlid = htobe16(path->udp_sport);
	memcpy(av->rmac, path->mac, sizeof(av->rmac));
	av->grh_gid_fl = htobe32((uint32_t)path->gid_index << GID_INDEX_SHIFT);
}

static void set_ib(struct shmd_wqe_av_seg *av, const struct nic_addr *remote, const struct nic_path *path)
{
	av->rlid = htobe16(remote->lid);
	if (path->has_grh)
		av->grh_gid_fl = htobe32(SHMD_AV_GRH | (uint32_t)path->gid_index << GID_INDEX_SHIFT);
}

void nic_dc_peer_init(struct nic_dc_peer *peer, const struct nic_addr *remote, const struct nic_path *path)
{
	struct shmd_wqe_av_seg *av = &peer->av;

	*peer = (struct nic_dc_peer){.dctn = remote->qpn, .dc_key = remote->dc_key};
	av->dc_key = htobe64(remote->dc_key);
	av->dqp_dct = htobe32(SHMD_AV_EXTENDED | remote->qpn);
	if (remote->link == NIC_LINK_ETHERNET)
		set_roce(av, path);
	else
		set_ib(av, remote, path);
	if (remote->link == NIC_LINK_INFINIBAND && !path->has_grh)
		return;
	av->tclass = path->traffic_class;
	av->hop_limit = NIC_HOP_LIMIT;
	memcpy(av->rgid, remote->gid, sizeof(av->rgid));
}
