/* SPDX-License-Identifier: Apache-2.0 */
/* The core alone, as the daemon links it: this program has no file of tests/mlx5sim/engine-extra. */
#include <errno.h>

#include <shmd/abi/doorbell.h>

#include "daemon/engine/engine.h"
#include "tests/lib/test.h"

struct lab {
	struct engine *engine;
	uint8_t ring[1024] __attribute__((aligned(64)));
	struct shmd_dbrec dbrec;
};

static const struct engine_attr attr = {
	.max_qps = 4, .max_cqs = 4, .max_mrs = 4, .max_srqs = 4, .chunk_bytes = 4096};

static int route(void *owner, uint32_t qpn, const struct shmd_wqe_av_seg *av, void **ret_route)
{
	return -ENOENT;
}

static int route_back(void *owner, const void *source, void **ret_route)
{
	return -ENOENT;
}

static void lab_init(struct lab *lab)
{
	const struct engine_ops ops = {.dc_route = route, .dc_route_back = route_back};
	struct engine_cq_attr cq = {
		.cqn = 1, .log2_entries = 3, .ring = lab->ring, .flags = ENGINE_CQ_OVERRUN_IGNORE};

	ASSERT_OK(engine_new(&attr, &ops, NULL, &lab->engine));
	ASSERT_OK(engine_cq_create(lab->engine, &cq));
}

static int create(struct lab *lab, enum engine_qp_type type, bool has_streams)
{
	struct engine_qp_attr qp = {
		.qpn = 10 + (uint32_t)type,
		.type = type,
		.sq_ring = type == ENGINE_QP_XRC_TGT ? NULL : lab->ring,
		.log2_sq_wqebbs = 4,
		.dbrec = type == ENGINE_QP_XRC_TGT ? NULL : &lab->dbrec,
		.send_cqn = 1,
		.recv_cqn = 1,
		.has_streams = has_streams,
	};

	return engine_qp_create(lab->engine, &qp);
}

TEST(core_offers_rc_and_dc_and_refuses_other_types)
{
	struct lab lab = {0};

	lab_init(&lab);
	ASSERT_OK(create(&lab, ENGINE_QP_RC, false));
	ASSERT_OK(create(&lab, ENGINE_QP_DCI, false));
	ASSERT_ERR(create(&lab, ENGINE_QP_UC, false), EOPNOTSUPP);
	ASSERT_ERR(create(&lab, ENGINE_QP_UD, false), EOPNOTSUPP);
	ASSERT_ERR(create(&lab, ENGINE_QP_XRC_INI, false), EOPNOTSUPP);
	ASSERT_ERR(create(&lab, ENGINE_QP_XRC_TGT, false), EOPNOTSUPP);
	ASSERT_ERR(create(&lab, ENGINE_QP_RAW, false), EOPNOTSUPP);
	ASSERT_ERR(create(&lab, ENGINE_N_QP_TYPES, false), EOPNOTSUPP);
	engine_free(lab.engine);
}

TEST(core_refuses_streams_windows_and_srqs_of_xrc)
{
	struct engine_attr with_windows = attr, with_indirects = attr;
	struct engine_ops ops = {0};
	struct engine *engine;
	struct lab lab = {0};
	struct engine_srq_attr srq = {.srqn = 1,
				      .ring = lab.ring,
				      .log2_wqes = 2,
				      .log2_stride = 5,
				      .dbrec = &lab.dbrec,
				      .is_xrc = true,
				      .cqn = 1};

	with_windows.max_mws = with_indirects.max_indirects = 1;
	ASSERT_ERR(engine_new(&with_windows, &ops, NULL, &engine), EINVAL);
	ASSERT_ERR(engine_new(&with_indirects, &ops, NULL, &engine), EINVAL);
	lab_init(&lab);
	ASSERT_ERR(create(&lab, ENGINE_QP_DCI, true), EINVAL);
	ASSERT_ERR(create(&lab, ENGINE_QP_RC, true), EINVAL);
	ASSERT_ERR(engine_srq_create(lab.engine, &srq), EOPNOTSUPP);
	srq.is_xrc = false;
	ASSERT_OK(engine_srq_create(lab.engine, &srq));
	engine_free(lab.engine);
}
