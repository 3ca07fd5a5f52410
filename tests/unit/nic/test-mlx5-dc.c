/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic connections of the mlx5 backend beyond the contract (test-dc.c): what libmlx5 would have made of an address, and what
 * a client learns by its command descriptor.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <infiniband/mlx5dv.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl.h>

#include "client.h"
#include "tests/lib/test.h"

/* ---- address vectors ---------------------------------------------------------------------------------------------- */

/* libmlx5's address handle to the same place. */
static void av_of_libmlx5(const struct nic_addr *addr, uint8_t gid_index, uint8_t traffic_class, struct mlx5_wqe_av *ret_av)
{
	struct ibv_ah_attr attr = {.port_num = 1, .dlid = addr->lid};
	struct mlx5dv_ah out;
	struct mlx5dv_obj obj = {.ah = {.out = &out}};
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ibv = ibv_open_device(list[0]);
	struct ibv_pd *pd = ibv_alloc_pd(ibv);

	ASSERT(pd);
	if (addr->link == NIC_LINK_ETHERNET) {
		attr.is_global = 1;
		attr.grh.sgid_index = gid_index;
		attr.grh.hop_limit = NIC_HOP_LIMIT;
		attr.grh.traffic_class = traffic_class;
		memcpy(attr.grh.dgid.raw, addr->gid, 16);
	}
	obj.ah.in = ibv_create_ah(pd, &attr);
	ASSERT(obj.ah.in);
	ASSERT_OK(mlx5dv_init_obj(&obj, MLX5DV_OBJ_AH));
	*ret_av = *out.av;
	ASSERT_OK(ibv_destroy_ah(obj.ah.in));
	ASSERT_OK(ibv_dealloc_pd(pd));
	ASSERT_OK(ibv_close_device(ibv));
	ibv_free_device_list(list);
}

/* All but number and key, which are the DCT's, and the UDP port, which libmlx5 makes of a flow label. */
TEST(address_vectors_are_those_of_libmlx5)
{
	const struct nic_queues_attr attr = {
		.n_cq_specs = 1,
		.n_qp_specs = 1,
		.cqs = {{.count = 1, .log2_entries = 4}},
		.qps = {{.count = 1, .type = NIC_QP_DCT, .access = NIC_ACCESS_REMOTE_READ}},
	};
	struct mlx5_wqe_av theirs;
	struct nic_dc_peer ours;
	const struct nic_addr *addr;
	struct client a, b;
	unsigned int n_done;
	struct rig rig;
	uint8_t gid_index;

	rig_open_mlx5(&rig, 2, NULL);
	client_open(&a, rig.nic[0], 1, 1);
	client_open_ctx(&b, rig.nic[1], 2);
	client_create_as(&b, &attr);
	addr = &b.queues->layout.qps[0].addr;
	ASSERT_OK(rig.nic[0]->ops->resolve(a.ctx, 1, addr, 0x68, &ours, &n_done));
	gid_index = (uint8_t)(be32toh(ours.av.grh_gid_fl) >> 20);
	av_of_libmlx5(addr, gid_index, 0x68, &theirs);
	theirs.key.dc_key = htobe64(addr->dc_key);
	theirs.dqp_dct = htobe32(MLX5_EXTENDED_UD_AV | addr->qpn);
	if (addr->link == NIC_LINK_ETHERNET) {
		ASSERT_GE(be16toh(ours.av.rlid), 0xc000);
		theirs.rlid = ours.av.rlid;
	}
	_Static_assert(sizeof(theirs) == sizeof(ours.av), "the same segment");
	ASSERT_MEMEQ(&ours.av, &theirs, sizeof(theirs));
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

/* ---- the key ------------------------------------------------------------------------------------------------------ */

#define HANDLES 64u /* kernel handles are small numbers */

/* The command by way of every object that there may be in the context, as a query of that. 0 when one was answered. */
static int query_by_each_handle(int cmd_fd, const uint8_t in[16], uint8_t out[128])
{
	for (uint32_t handle = 0; handle < HANDLES; handle++) {
		uint64_t cmd[(sizeof(struct ib_uverbs_ioctl_hdr) + 3 * sizeof(struct ib_uverbs_attr)) / 8] = {0};
		struct ib_uverbs_ioctl_hdr *hdr = (struct ib_uverbs_ioctl_hdr *)(void *)cmd;

		hdr->length = sizeof(cmd);
		hdr->object_id = MLX5_IB_OBJECT_DEVX_OBJ;
		hdr->method_id = MLX5_IB_METHOD_DEVX_OBJ_QUERY;
		hdr->num_attrs = 3;
		hdr->driver_id = RDMA_DRIVER_MLX5;
		hdr->attrs[0] = (struct ib_uverbs_attr){.attr_id = MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE,
							.flags = UVERBS_ATTR_F_MANDATORY, .data = handle};
		hdr->attrs[1] = (struct ib_uverbs_attr){.attr_id = MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN, .len = 16,
							.flags = UVERBS_ATTR_F_MANDATORY, .data = (uintptr_t)in};
		hdr->attrs[2] = (struct ib_uverbs_attr){.attr_id = MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT, .len = 128,
							.flags = UVERBS_ATTR_F_MANDATORY, .data = (uintptr_t)out};
		if (ioctl(cmd_fd, RDMA_VERBS_IOCTL, cmd) == 0 && out[0] == 0)
			return 0;
	}
	return -1;
}

/* QUERY_DCT: opcode in the first two bytes, number in bytes 9 to 11; the key lies in the answer at byte 0x30. */
static bool key_is_told(const uint8_t *out, size_t bytes, uint64_t key)
{
	uint64_t key_be = htobe64(key);

	return memmem(out, bytes, &key_be, sizeof(key_be));
}

/*
 * A client with its command descriptor asks for the context of a DCT, whose key is in it: the NIC answers for its own, also by the
 * number of another session's it is not.
 */
TEST(the_key_of_a_foreign_dct_is_shown_to_no_client)
{
	const struct nic_queues_attr attr = {
		.n_cq_specs = 1,
		.n_qp_specs = 1,
		.cqs = {{.count = 1, .log2_entries = 4}},
		.qps = {{.count = 1, .type = NIC_QP_DCT, .access = NIC_ACCESS_REMOTE_READ}},
	};
	uint8_t in[16] = {0x07, 0x13}, out[128] = {0};
	const struct nic_addr *victim;
	struct client thief, b;
	struct ibv_context *ibv;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	client_open_ctx(&thief, rig.nic[0], 1);
	client_create_as(&thief, &attr);
	client_open_ctx(&b, rig.nic[0], 2);
	client_create_as(&b, &attr);
	victim = &b.queues->layout.qps[0].addr;
	ASSERT_NE(client_qpn(&thief, 0), victim->qpn);
	ibv = ibv_import_device(dup(thief.ctx->doorbell.page_fd));
	ASSERT(ibv);
	in[9] = (uint8_t)(victim->qpn >> 16);
	in[10] = (uint8_t)(victim->qpn >> 8);
	in[11] = (uint8_t)victim->qpn;
	ASSERT(mlx5dv_devx_general_cmd(ibv, in, sizeof(in), out, sizeof(out)));
	ASSERT(!key_is_told(out, sizeof(out), victim->dc_key));
	ASSERT(query_by_each_handle(ibv->cmd_fd, in, out));
	ASSERT(!key_is_told(out, sizeof(out), victim->dc_key));
	/* An answer with the key looks like this. */
	in[9] = (uint8_t)(client_qpn(&thief, 0) >> 16);
	in[10] = (uint8_t)(client_qpn(&thief, 0) >> 8);
	in[11] = (uint8_t)client_qpn(&thief, 0);
	ASSERT_OK(query_by_each_handle(ibv->cmd_fd, in, out));
	ASSERT(key_is_told(out, sizeof(out), thief.queues->layout.qps[0].addr.dc_key));
	ASSERT_OK(ibv_close_device(ibv));
	client_close(&thief);
	client_close(&b);
	rig_close(&rig);
}
