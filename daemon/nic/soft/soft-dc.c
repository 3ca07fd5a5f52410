/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic connections: routes by address vector and back, DCTs, the way to a DCT for WQEs.
 *
 * A DCT wants an SRQ, though nobody posts to it: each has one of its own, under its own number, over a ring that is
 * always empty. Routes are looked up in the fabric each time, so nothing is kept for a peer; where a packet came from is
 * believed only when the fabric has that port.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <string.h>

#include "proto/base/assert.h"

#define DCT_LOG2_STRIDE 5u
#define DCT_RNR_TIMER 12u /* 0.64 ms */
#define DCT_RD_ATOMIC 16u
#define UDP_SPORT 0xc000u

/* Nothing writes here: an SRQ's ring and record are the client's, and these have none. */
static uint8_t empty_ring[1u << DCT_LOG2_STRIDE] __attribute__((aligned(16)));
static uint32_t empty_dbrec;

/* ---- routes: data thread -------------------------------------------------------------------------------------- */

int soft_dc_route(void *owner, uint32_t qpn, const struct shmd_wqe_av_seg *av, void **ret_route)
{
	const struct soft_exec *exec = owner;
	struct soft_port *port;
	int r = soft_fabric_find(exec->nic->fabric, av->rgid, &port);

	if (r == 0)
		*ret_route = port;
	return r;
}

int soft_dc_route_back(void *owner, const void *source, void **ret_route)
{
	const struct soft_exec *exec = owner;
	struct soft_port *port;
	int r = soft_fabric_find_port(exec->nic->fabric, source, &port);

	if (r == 0)
		*ret_route = port;
	return r;
}

int soft_dc_source_gid(void *owner, const void *source, uint8_t ret_gid[16])
{
	const struct soft_exec *exec = owner;
	struct soft_port *port;
	int r = soft_fabric_find_port(exec->nic->fabric, source, &port);

	if (r < 0)
		return r;
	memcpy(ret_gid, port->shared->gid, sizeof(port->shared->gid));
	soft_port_unref(port);
	return 0;
}

/* ---- targets: data thread -------------------------------------------------------------------------------------- */

static int to_ready(struct engine *engine, const struct nic_qp *desc)
{
	struct engine_qp_modify mod = {
		.state = ENGINE_QP_INIT,
		.set = ENGINE_QP_SET_ACCESS | ENGINE_QP_SET_DC_KEY,
		.access = desc->access,
		.dc_key = desc->addr.dc_key,
		.min_rnr_timer = DCT_RNR_TIMER,
		.max_dest_rd_atomic = DCT_RD_ATOMIC,
	};
	int r = engine_qp_modify(engine, desc->qpn, &mod);

	mod.state = ENGINE_QP_RTR;
	mod.set = ENGINE_QP_SET_RNR_TIMER | ENGINE_QP_SET_RD_ATOMIC;
	return r < 0 ? r : engine_qp_modify(engine, desc->qpn, &mod);
}

/* The ledger does not know an SRQ that never was, or is gone: this one is made. */
static int make_srq(struct engine *engine, const struct engine_srq_attr *attr, bool is_restored)
{
	int r = is_restored ? engine_srq_restore(engine, attr) : -ENOENT;

	return r == -ENOENT ? engine_srq_create(engine, attr) : r;
}

static int make_dct(struct engine *engine, const struct engine_qp_attr *attr, const struct nic_qp *desc, bool is_restored)
{
	struct engine_qp_info info;
	int r = is_restored ? engine_qp_restore(engine, attr) : -ENOENT;

	if (r == -ENOENT)
		r = engine_qp_create(engine, attr);
	if (r == 0)
		r = engine_qp_query(engine, attr->qpn, &info);
	/* It may have been cut off half way. */
	return r == 0 && info.state != ENGINE_QP_RTR ? to_ready(engine, desc) : r;
}

int soft_dct_create(struct soft_ctx *ctx, const struct nic_qp *desc, bool is_restored)
{
	struct engine *engine = ctx->exec->engine;
	const struct engine_srq_attr srq = {
		.srqn = desc->qpn,
		.pdn = ctx->pdn,
		.ledger = ctx->ledger,
		.ring = empty_ring,
		.log2_stride = DCT_LOG2_STRIDE,
		.dbrec = &empty_dbrec,
	};
	const struct engine_qp_attr attr = {
		.qpn = desc->qpn,
		.type = ENGINE_QP_DCT,
		.pdn = ctx->pdn,
		.ledger = ctx->ledger,
		.user_index = desc->qpn,
		.send_cqn = desc->recv_cqn,
		.recv_cqn = desc->recv_cqn,
		.has_srq = true,
		.srqn = desc->qpn,
	};
	int r = make_srq(engine, &srq, is_restored);

	if (r < 0)
		return r;
	r = make_dct(engine, &attr, desc, is_restored);
	if (r < 0)
		engine_srq_destroy(engine, desc->qpn);
	return r;
}

void soft_dct_destroy(struct soft_exec *exec, uint32_t dctn)
{
	int r = engine_qp_destroy(exec->engine, dctn);

	assert_bug(r == 0);
	r = engine_srq_destroy(exec->engine, dctn);
	assert_bug(r == 0);
}

/* ---- the way to them: the caller's thread ---------------------------------------------------------------------- */

static int resolve_one(const struct soft_ctx *ctx, const struct nic_addr *addr, uint8_t traffic_class,
		       struct nic_dc_peer *ret_peer)
{
	struct nic_path path = {.udp_sport = UDP_SPORT, .traffic_class = traffic_class};
	struct soft_port *port;
	int r;

	if (addr->link != NIC_LINK_ETHERNET)
		return -EHOSTUNREACH;
	r = soft_fabric_find(ctx->exec->nic->fabric, addr->gid, &port);
	if (r < 0)
		return r;
	soft_port_unref(port);
	memcpy(path.mac, addr->mac, sizeof(path.mac));
	nic_dc_peer_init(ret_peer, addr, &path);
	return 0;
}

static const struct nic_addr *peer_addr(const void *addrs, unsigned int i)
{
	return &((const struct nic_addr *)addrs)[i];
}

int soft_resolve(struct nic_ctx *base, unsigned int n, const struct nic_addr *addrs, uint8_t traffic_class,
		 struct nic_dc_peer *ret_peers, unsigned int *ret_n_done)
{
	const struct soft_ctx *ctx = soft_ctx(base);
	unsigned int n_done = 0;
	int r = 0;

	soft_foreign_expect(ctx->exec, n, peer_addr, addrs);
	for (; r == 0 && n_done < n; n_done += r == 0)
		r = resolve_one(ctx, &addrs[n_done], traffic_class, &ret_peers[n_done]);
	*ret_n_done = n_done;
	return r;
}
