/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic connections: the receive memory pool (RMP) of DCTs, DCTs, and the way to a DCT for WQEs.
 *
 * A DCT needs an RMP, to which no one posts here. Each context with DCTs has one, over a page of the daemon's, made with the
 * first DCT and destroyed with the context. Sends to a DCT wait for a receive WQE as long as their sender retries.
 *
 * Any thread that owns the context.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "proto/base/cleanup.h"

#define RMP_BYTES 4096u
#define DCT_RNR_TIMER 12u /* 0.64 ms */

/* ---- the receive memory pool ------------------------------------------------------------------------------------- */

static int make_rmp_memory(struct mlx5_rmp *rmp, struct mlx5_ctx *ctx)
{
	void *page = mmap(NULL, RMP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct mlx5dv_devx_umem_in in = {
		.size = RMP_BYTES, .access = IBV_ACCESS_LOCAL_WRITE, .pgsz_bitmap = ~(uint64_t)(RMP_BYTES - 1)};

	if (page == MAP_FAILED)
		return -ENOMEM;
	rmp->page = page;
	in.addr = page;
	return mlx5_umem_reg(ctx->ibv, ctx->nic->library, &in, &rmp->umem);
}

static int make_rmp(struct mlx5_ctx *ctx)
{
	struct mlx5_rmp *rmp = &ctx->rmp;
	uint8_t out[PRM_CREATE_RMP_OUT_BYTES];
	struct mlx5_cmd cmd;
	int r = rmp->umem ? 0 : make_rmp_memory(rmp, ctx);

	if (r < 0)
		return r;
	mlx5_cmd_create_rmp(&cmd, rmp->umem->number, ctx->pdn);
	r = mlx5_exec_create(ctx, &cmd, out, &rmp->obj);
	if (r == 0)
		rmp->rmpn = (uint32_t)prm_get(out, PRM_CREATE_RMP_OUT_RMPN);
	return r;
}

/* The umem pins the memory that the NIC reads, independent of its owner. */
void mlx5_rmp_unimport(struct mlx5_ctx *ctx)
{
	struct mlx5_rmp *rmp = &ctx->rmp;

	mlx5_object_unimport(rmp->obj);
	mlx5_object_unimport(rmp->umem);
	if (rmp->page)
		munmap(rmp->page, RMP_BYTES);
	memset(rmp, 0, sizeof(*rmp));
}

void mlx5_rmp_deinit(struct mlx5_ctx *ctx)
{
	mlx5_note_destroyed(ctx, mlx5_object_destroy(take_ptr(ctx->rmp.obj)));
	mlx5_note_destroyed(ctx, mlx5_object_destroy(take_ptr(ctx->rmp.umem)));
	mlx5_rmp_unimport(ctx);
}

int mlx5_rmp_query(struct mlx5_ctx *ctx)
{
	uint8_t out[PRM_QUERY_RMP_OUT_BYTES];
	struct mlx5_cmd cmd;

	mlx5_cmd_query_rmp(&cmd, ctx->rmp.rmpn);
	return mlx5_exec_query(ctx, ctx->rmp.obj, &cmd, out);
}

/* ---- DCTs ---------------------------------------------------------------------------------------------------------- */

/* Its traffic class is the daemon's default: its peers choose theirs. */
int mlx5_dct_create(struct mlx5_ctx *ctx, struct mlx5_qp *qp, uint32_t user_index)
{
	const struct nic_qp_params params = {.min_rnr_timer = DCT_RNR_TIMER};
	const struct mlx5_port port = mlx5_port_now(ctx->nic);
	struct mlx5_dct_args args = {
		.qp = qp->desc,
		.params = &params,
		.port = &port,
		.caps = &ctx->caps,
		.pdn = ctx->pdn,
		.user_index = user_index,
		.counter_set_id = ctx->counter_set_id,
	};
	uint8_t out[PRM_CREATE_DCT_OUT_BYTES];
	struct mlx5_cmd cmd;
	int r = ctx->rmp.obj ? 0 : make_rmp(ctx);

	if (r < 0)
		return r;
	args.srqn = ctx->rmp.rmpn;
	mlx5_cmd_create_dct(&cmd, &args);
	r = mlx5_exec_create(ctx, &cmd, out, &qp->obj);
	if (r < 0)
		return r;
	qp->desc->qpn = (uint32_t)prm_get(out, PRM_CREATE_DCT_OUT_DCTN);
	qp->state = NIC_QPS_RTR;
	return 0;
}

/* The DCT exists: it has no indexes and no other state. */
int mlx5_dct_query(struct mlx5_ctx *ctx, struct mlx5_qp *qp, struct nic_qp_info *ret_info)
{
	uint8_t out[PRM_QUERY_DCT_OUT_BYTES];
	struct mlx5_cmd cmd;
	int r;

	mlx5_cmd_dct(&cmd, PRM_OP_QUERY_DCT, qp->desc->qpn);
	r = mlx5_exec_query(ctx, qp->obj, &cmd, out);
	if (r < 0)
		return r;
	qp->state = NIC_QPS_RTR;
	*ret_info = (struct nic_qp_info){.state = qp->state};
	return 0;
}

/* ---- the way to them ----------------------------------------------------------------------------------------------- */

static int resolve_one(struct mlx5_ctx *ctx, const struct nic_addr *addr, struct mlx5_next_hop *hop,
		       struct nic_path *path)
{
	const struct mlx5_port port = mlx5_port_now(ctx->nic);
	int r;

	if (addr->link != port.link)
		return -EHOSTUNREACH;
	path->gid_index = port.gid_index;
	if (addr->link == NIC_LINK_INFINIBAND) {
		path->has_grh = mlx5_needs_grh(&port, addr);
		return 0;
	}
	r = mlx5_ask_next_hop(ctx, hop, addr);
	if (r < 0)
		return r == -EINVAL ? -EHOSTUNREACH : r;
	memcpy(path->mac, hop->mac, sizeof(path->mac));
	/* All DCIs of the session go the same way to one DCT, those of other sessions another. */
	path->udp_sport = mlx5_udp_sport(&ctx->caps, ctx->pdn, addr->qpn);
	return 0;
}

int mlx5_resolve(struct nic_ctx *base, unsigned int n, const struct nic_addr *addrs, uint8_t traffic_class,
		 struct nic_dc_peer *ret_peers, unsigned int *ret_n_done)
{
	struct mlx5_ctx *ctx = mlx5_ctx(base);
	struct mlx5_next_hop hop = {.known = false};
	unsigned int n_done = 0;
	int r = ctx->caps.dct ? 0 : -EOPNOTSUPP;

	while (r == 0 && n_done < n) {
		struct nic_path path = {.traffic_class = traffic_class};

		r = resolve_one(ctx, &addrs[n_done], &hop, &path);
		if (r == 0) {
			nic_dc_peer_init(&ret_peers[n_done], &addrs[n_done], &path);
			n_done++;
		}
	}
	*ret_n_done = n_done;
	return r;
}
