/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hostile client and its peer, on one engine, with RC, UC, UD, DC, XRC or raw packet queues, with or without SRQs: the bytes are a program
 * that writes rings, doorbell records and CQ consumer indexes, rings doorbells, changes states, loses packets, registers and destroys in any order. Among the
 * regions is each side's own queue memory, so WQEs may write rings, CQs and doorbell records. Or the engine has a ledger, goes at any time, and
 * another one goes on with it.
 *
 * Asserts: nothing outside the regions changes, one call does no more than its budget, the engine comes to rest, and
 * everything can be destroyed without a leak. Sanitizers add their own checks.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/assert.h"
#include "tests/fuzz/fuzz-engine.h"
#include "tests/fuzz/fuzz.h"
#include "tests/mlx5sim/engine-extra/extra.h"

#define MAX_OPS 400u
#define REST_STEPS 200000u
#define BUDGET 32u

/* ---- the program: bytes from the front, zeros behind its end ------------------------------------------------ */

uint32_t take(struct lab *lab, unsigned int bytes)
{
	uint32_t v = 0;

	for (unsigned int i = 0; i < bytes && lab->left; i++, lab->left--)
		v |= (uint32_t)*lab->bytes++ << (8 * i);
	return v;
}

/* ---- what the engine asks of its owner ------------------------------------------------------------------------ */

static uint64_t now_nsec(void *owner)
{
	return ((struct lab *)owner)->now_nsec;
}

static int route_get(void *owner, const uint8_t gid[16], void **ret_route)
{
	if (gid[0])
		return -EHOSTUNREACH;
	((struct lab *)owner)->n_routes++;
	*ret_route = owner;
	return 0;
}

static void route_put(void *owner, void *route)
{
	((struct lab *)owner)->n_routes--;
}

static int send_packet(void *owner, void *route, struct engine_packet *pkt)
{
	struct lab *lab = owner;

	if (lab->n_lose) {
		lab->n_lose--;
		engine_packet_free(pkt);
		return 0;
	}
	list_add_tail(&lab->inbox, engine_packet_link(pkt));
	return 0;
}

static void event(void *owner, const struct engine_event *ev)
{
	assert_bug(ev->number <= 0xffffff);
}

static int ud_path(void *owner, uint32_t qpn, const struct shmd_wqe_av_seg *av, uint32_t payload_bytes,
		   struct engine_ud_path *ret_path)
{
	if (av->rgid[0])
		return -EHOSTUNREACH;
	ret_path->route = owner;
	ret_path->sl = av->stat_rate_sl & 0xf;
	ret_path->has_grh = av->tclass & 1;
	memset(ret_path->grh, (int)payload_bytes, sizeof(ret_path->grh));
	return 0;
}

static int dc_route(void *owner, uint32_t qpn, const struct shmd_wqe_av_seg *av, void **ret_route)
{
	return route_get(owner, av->rgid, ret_route);
}

static int dc_route_back(void *owner, const void *source, void **ret_route)
{
	static const uint8_t gid[16];

	assert_bug(source == owner);
	return route_get(owner, gid, ret_route);
}

static int dc_source_gid(void *owner, const void *source, uint8_t ret_gid[16])
{
	assert_bug(source == owner);
	memset(ret_gid, 0, 16);
	return 0;
}

static const struct engine_ops ops = {
	.now_nsec = now_nsec,
	.route_get = route_get,
	.route_put = route_put,
	.send = send_packet,
	.event = event,
	.ud_path = ud_path,
	.dc_route = dc_route,
	.dc_route_back = dc_route_back,
	.dc_source_gid = dc_source_gid,
};

void new_engine(struct lab *lab)
{
	bool has_windows = !lab->ledger_memory;
	struct engine_attr attr = {
		.max_qps = 80,
		.max_cqs = 4,
		.max_mrs = 8,
		.max_srqs = N_SIDES,
		.extension = &engine_extra,
		.max_mws = has_windows ? N_SIDES : 0,
		.max_indirects = has_windows ? N_SIDES * N_INDIRECTS : 0,
		.chunk_bytes = lab->chunk_bytes,
		.self_route = lab,
	};
	int r = engine_new(&attr, &ops, lab, &lab->engine);

	assert_bug(r == 0);
	if (lab->ledger_memory)
		lives_open(lab);
}

/* ---- objects -------------------------------------------------------------------------------------------------------- */

void reg(struct lab *lab, struct side *side, unsigned int which)
{
	struct engine_mr_attr attr = {
		.key = side->key[which],
		.pdn = 1,
		.access = ENGINE_ACCESS_LOCAL_WRITE | ENGINE_ACCESS_REMOTE_WRITE |
			  ENGINE_ACCESS_REMOTE_READ | ENGINE_ACCESS_REMOTE_ATOMIC | ENGINE_ACCESS_MW_BIND,
		.iova = side->iova[which],
		.length_bytes = which == DATA ? DATA_BYTES : QUEUE_MR_BYTES,
		.mem = &side->mems[which].mem,
		.mem_offset = GUARD_BYTES,
	};
	int r = engine_mr_create(lab->engine, &attr);

	assert_bug(r == 0);
	side->registered[which] = true;
}

static void dereg(struct lab *lab, struct side *side, unsigned int which)
{
	int r = engine_mr_destroy(lab->engine, side->key[which]);

	assert_bug(r == (side->registered[which] ? 0 : -ENOENT));
	side->registered[which] = false;
}

static uint32_t cqn_of(const struct lab *lab, const struct side *side, unsigned int which)
{
	return 0x10u + (uint32_t)(side - lab->sides) * 2 + which;
}

static uint32_t srqn_of(const struct lab *lab, const struct side *side)
{
	return (uint32_t)(side - lab->sides);
}

bool is_xrc(const struct lab *lab)
{
	return lab->type == ENGINE_QP_XRC_INI;
}

#define XRC_DOMAIN 1u

/* Its doorbell record is the word that the QP does not use. With XRC, the first side's is of another domain. */
static void create_srq(struct lab *lab, struct side *side)
{
	struct engine_srq_attr attr = {
		.srqn = srqn_of(lab, side),
		.pdn = 1,
		.ring = side->q->rq,
		.log2_wqes = LOG2_RQ,
		.log2_stride = LOG2_STRIDE,
		.dbrec = &side->q->dbrec.rcv,
		.is_xrc = is_xrc(lab),
		.xrcdn = side == lab->sides ? XRC_DOMAIN + 1 : XRC_DOMAIN,
		.cqn = cqn_of(lab, side, 1),
		.ledger = lab->ledger,
	};
	int r = engine_srq_create(lab->engine, &attr);

	assert_bug(r == 0);
	side->srq_attr = attr;
	side->has_srq = true;
	side->rq_pi = 0;
	side->q->dbrec.rcv = 0;
	for (unsigned int i = 0; i < 1u << LOG2_RQ; i++)
		side->q->rq[(i << LOG2_STRIDE) + 3] = (uint8_t)((i + 1) & ((1u << LOG2_RQ) - 1));
}

static enum engine_qp_type type_of(const struct lab *lab, const struct side *side)
{
	if (side == lab->sides)
		return lab->type;
	if (lab->type == ENGINE_QP_DCI)
		return ENGINE_QP_DCT;
	return is_xrc(lab) ? ENGINE_QP_XRC_TGT : lab->type;
}

static void destroy_srq(struct lab *lab, struct side *side)
{
	int r = engine_srq_destroy(lab->engine, srqn_of(lab, side));

	assert_bug(r == (side->has_srq ? 0 : -ENOENT));
	side->has_srq = false;
}

static void create_qp(struct lab *lab, struct side *side)
{
	struct engine_qp_attr attr = {
		.qpn = lab->next_qpn++,
		.type = type_of(lab, side),
		.pdn = 1,
		.has_srq = lab->has_srq,
		.srqn = srqn_of(lab, side),
		.sq_ring = side->q->sq,
		.log2_sq_wqebbs = LOG2_SQ,
		.rq_ring = lab->has_srq ? NULL : side->q->rq,
		.log2_rq_wqes = LOG2_RQ,
		.log2_rq_stride = LOG2_STRIDE,
		.dbrec = &side->q->dbrec,
		.send_cqn = cqn_of(lab, side, 0),
		.recv_cqn = cqn_of(lab, side, 1),
		.ledger = lab->ledger,
	};
	int r;

	if (type_of(lab, side) == ENGINE_QP_DCI) {
		attr.has_srq = false;
		attr.rq_ring = NULL;
		attr.has_streams = lab->has_streams;
		attr.log2_errored_streams = 1;
	}
	if (type_of(lab, side) == ENGINE_QP_DCT)
		attr.sq_ring = attr.dbrec = NULL;
	if (is_xrc(lab)) {
		attr.has_srq = false;
		attr.rq_ring = NULL;
		attr.xrcdn = XRC_DOMAIN;
	}
	if (type_of(lab, side) == ENGINE_QP_XRC_TGT)
		attr.sq_ring = attr.dbrec = NULL;
	r = engine_qp_create(lab->engine, &attr);
	assert_bug(r == 0);
	side->qpn = attr.qpn;
	side->qp_attr = attr;
	side->has_qp = true;
	side->pi = side->rq_pi = 0;
}

static void destroy_qp(struct lab *lab, struct side *side)
{
	int r = engine_qp_destroy(lab->engine, side->qpn);

	assert_bug(r == (side->has_qp ? 0 : -ENOENT));
	side->has_qp = false;
}

static void modify(struct lab *lab, struct side *side, enum engine_qp_state state, uint32_t set)
{
	struct engine_qp_modify mod = {
		.state = state,
		.set = set,
		.access = ENGINE_ACCESS_REMOTE_WRITE | ENGINE_ACCESS_REMOTE_READ | ENGINE_ACCESS_REMOTE_ATOMIC,
		.dest_qpn = lab->sides[side == lab->sides].qpn,
		.path_mtu_bytes = 4096,
		.rq_psn = 0xfffff0,
		.sq_psn = 0xfffff0,
		.timeout = lab->timeout & 31,
		.retry_count = lab->retries & 7,
		.rnr_retry = (lab->retries >> 4) & 7,
		.min_rnr_timer = lab->timeout >> 5,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.qkey = QKEY,
		.dc_key = (uint64_t)QKEY << 32,
	};
	int r = engine_qp_modify(lab->engine, side->qpn, &mod);

	assert_bug(r == 0 || r == -EINVAL || (r == -ENOENT && !side->has_qp));
}

static void connect_side(struct lab *lab, struct side *side)
{
	static const uint32_t sets[][3] = {
		[ENGINE_QP_RC] = {ENGINE_QP_SET_ACCESS,
				  ENGINE_QP_SET_PATH | ENGINE_QP_SET_RQ_PSN | ENGINE_QP_SET_RD_ATOMIC |
					  ENGINE_QP_SET_RNR_TIMER,
				  ENGINE_QP_SET_RETRY | ENGINE_QP_SET_SQ_PSN | ENGINE_QP_SET_RD_ATOMIC},
		[ENGINE_QP_UC] = {ENGINE_QP_SET_ACCESS, ENGINE_QP_SET_PATH | ENGINE_QP_SET_RQ_PSN,
				  ENGINE_QP_SET_SQ_PSN},
		[ENGINE_QP_UD] = {ENGINE_QP_SET_QKEY, 0, ENGINE_QP_SET_SQ_PSN},
		[ENGINE_QP_DCI] = {0, 0, ENGINE_QP_SET_RETRY | ENGINE_QP_SET_SQ_PSN | ENGINE_QP_SET_RD_ATOMIC},
		[ENGINE_QP_DCT] = {ENGINE_QP_SET_ACCESS | ENGINE_QP_SET_DC_KEY,
				   ENGINE_QP_SET_RNR_TIMER | ENGINE_QP_SET_RD_ATOMIC, 0},
		[ENGINE_QP_XRC_INI] = {0, ENGINE_QP_SET_PATH | ENGINE_QP_SET_RQ_PSN,
				       ENGINE_QP_SET_RETRY | ENGINE_QP_SET_SQ_PSN | ENGINE_QP_SET_RD_ATOMIC},
		[ENGINE_QP_XRC_TGT] = {ENGINE_QP_SET_ACCESS,
				       ENGINE_QP_SET_PATH | ENGINE_QP_SET_RQ_PSN | ENGINE_QP_SET_RD_ATOMIC |
					       ENGINE_QP_SET_RNR_TIMER,
				       ENGINE_QP_SET_SQ_PSN},
		[ENGINE_QP_RAW] = {0, 0, 0},
	};

	for (unsigned int i = 0; i < 3; i++)
		modify(lab, side, ENGINE_QP_INIT + i, sets[type_of(lab, side)][i]);
}

/* Each side has one, of type 1 and of type 2. Keys and their tags are few, so that many fit. */
uint32_t window_key(const struct lab *lab, const struct side *side)
{
	return 0x770000u + (side != lab->sides) * 0x100u;
}

static void create_window(struct lab *lab, struct side *side)
{
	struct engine_mw_attr attr = {.key = window_key(lab, side), .pdn = 1, .is_type_2 = side != lab->sides};
	int r = engine_mw_create(lab->engine, &attr);

	assert_bug(r == 0);
}

/* Each side has two, free at first, both of the same few parts. */
uint32_t indirect_key(const struct lab *lab, const struct side *side, unsigned int which)
{
	return 0x880000u + (side != lab->sides) * 0x200u + (which & 1) * 0x100u;
}

static void create_indirects(struct lab *lab, struct side *side)
{
	for (unsigned int k = 0; k < N_INDIRECTS; k++) {
		struct engine_indirect_attr attr = {
			.key = indirect_key(lab, side, k),
			.pdn = 1,
			.max_parts = 4,
			.part_bytes = k ? 256 : 0,
			.is_free = true,
			.may_change = true,
			.may_invalidate = k,
		};
		int r = engine_indirect_create(lab->engine, &attr);

		assert_bug(r == 0);
	}
}

static void side_init(struct lab *lab, unsigned int i, enum mem_mode mode)
{
	struct side *side = &lab->sides[i];

	test_mem_init(&side->mems[DATA], mode, DATA_BYTES + 2 * GUARD_BYTES, &lab->delays, NULL);
	test_mem_init(&side->mems[QUEUES], mode, sizeof(struct queue_memory), &lab->delays, NULL);
	side->q = (struct queue_memory *)(void *)side->mems[QUEUES].bytes;
	memset(side->q->guard_before, GUARD, GUARD_BYTES);
	memset(side->q->guard_after, GUARD, GUARD_BYTES);
	memset(side->mems[DATA].bytes, GUARD, GUARD_BYTES);
	memset(side->mems[DATA].bytes + GUARD_BYTES + DATA_BYTES, GUARD, GUARD_BYTES);
	for (unsigned int m = 0; m < N_MRS; m++) {
		side->iova[m] = 0x100000u * (1 + i) + 0x10000u * m;
		side->key[m] = 0x1000u * (1 + i) + m;
		reg(lab, side, m);
	}
	for (unsigned int c = 0; c < 2; c++) {
		struct engine_cq_attr attr = {
			.cqn = cqn_of(lab, side, c),
			.log2_entries = LOG2_CQ,
			.flags = lab->cq_flags & 3,
			.ring = side->q->cqs[c],
			.dbrec = &side->q->cq_dbrecs[c],
			.ledger = lab->ledger,
		};
		int r = engine_cq_create(lab->engine, &attr);

		assert_bug(r == 0);
		side->cq_attrs[c] = attr;
	}
	if (lab->has_srq)
		create_srq(lab, side);
	if (!lab->ledger_memory) {
		create_window(lab, side);
		create_indirects(lab, side);
	}
	create_qp(lab, side);
}

/* ---- time ------------------------------------------------------------------------------------------------------------ */

static bool deliver(struct lab *lab)
{
	bool any = !list_empty(&lab->inbox);

	while (!list_empty(&lab->inbox)) {
		struct list *link = lab->inbox.next;

		list_del(link);
		engine_input(lab->engine, engine_packet_from_link(link));
	}
	return any;
}

/* False: nothing was ready. */
static bool step(struct lab *lab)
{
	bool any = deliver(lab);
	unsigned int done = engine_progress(lab->engine, BUDGET);

	assert_bug(done <= BUDGET);
	any |= done || engine_next_deadline(lab->engine) == 0;
	any |= delay_queue_run(&lab->delays) > 0;
	return any || !list_empty(&lab->inbox);
}

static void run(struct lab *lab, unsigned int n_steps)
{
	while (n_steps-- && step(lab))
		;
}

static void let_time_pass(struct lab *lab)
{
	uint64_t deadline = engine_next_deadline(lab->engine);

	if (deadline != UINT64_MAX && deadline > lab->now_nsec)
		lab->now_nsec = deadline;
	else
		lab->now_nsec += 1000;
	run(lab, 64);
}

/* ---- what the client does -------------------------------------------------------------------------------------------- */

/* Whether it is in error or not. */
static void reset_stream(struct lab *lab, struct side *side)
{
	int r = engine_qp_reset_stream(lab->engine, side->qpn, take(lab, 1) & 3);

	assert_bug(r == 0 || r == -EINVAL || (r == -ENOENT && !side->has_qp));
}

static void consume(struct lab *lab, struct side *side)
{
	uint32_t what = take(lab, 1);
	struct shmd_dbrec *dbrec = &side->q->cq_dbrecs[what & 1];

	if (what & 2)
		dbrec->snd = take(lab, 4);
	else
		dbrec->rcv = htobe32(be32toh(dbrec->rcv) + (what >> 2));
}

static void arm(struct lab *lab, struct side *side, uint32_t limit)
{
	int r = engine_srq_arm(lab->engine, srqn_of(lab, side), limit);

	assert_bug(r == (side->has_srq ? 0 : -ENOENT));
}

/* XRC objects come and go while QPs live. */
static void change_srq(struct lab *lab, struct side *side)
{
	if (side->has_srq)
		destroy_srq(lab, side);
	else
		create_srq(lab, side);
}

static void one_op(struct lab *lab)
{
	uint32_t op = take(lab, 1);
	struct side *side = &lab->sides[op >> 7];

	switch (op & 0x1f) {
	case 0: write_ring(lab, side->q->sq, sizeof(side->q->sq)); break;
	case 1: write_ring(lab, side->q->rq, sizeof(side->q->rq)); break;
	case 2: side->q->dbrec.snd = htobe32(take(lab, 2)); break;
	case 3: side->q->dbrec.rcv = htobe32(take(lab, 2)); break;
	case 4: consume(lab, side); break;
	case 5: engine_doorbell(lab->engine, side->qpn); break;
	case 6: modify(lab, side, take(lab, 1) & 7, take(lab, 1)); break;
	case 7: connect_side(lab, side); break;
	case 8: run(lab, take(lab, 1)); break;
	case 9: let_time_pass(lab); break;
	case 10: side->registered[op >> 6 & 1] ? dereg(lab, side, op >> 6 & 1) : reg(lab, side, op >> 6 & 1); break;
	case 11: side->has_qp ? destroy_qp(lab, side) : create_qp(lab, side); break;
	case 12: engine_scan(lab->engine); break;
	case 13: lab->has_srq ? arm(lab, side, op >> 5 & 3) : (void)engine_scan_hot(lab->engine); break;
	case 14: lab->n_lose = take(lab, 1) & 7; break;
	case 15: post_recv(lab, side); break;
	case 16: step(lab); break;
	case 17: modify(lab, side, ENGINE_QP_RST, 0); break;
	case 18: modify(lab, side, ENGINE_QP_ERR, 0); break;
	case 27:
		if (is_xrc(lab)) {
			change_srq(lab, side);
			break;
		}
		if (lab->type == ENGINE_QP_DCI) {
			reset_stream(lab, side);
			break;
		}
		post(lab, side);
		engine_doorbell(lab->engine, side->qpn);
		break;
	case 26:
		if (lab->ledger_memory) {
			lives_restart(lab);
			break;
		}
		post(lab, side);
		engine_doorbell(lab->engine, side->qpn);
		break;
	case 28: post_layout(lab, side); engine_doorbell(lab->engine, side->qpn); break;
	case 29: post_umr(lab, side); engine_doorbell(lab->engine, side->qpn); break;
	case 30: post_through_window(lab, side); engine_doorbell(lab->engine, side->qpn); break;
	default: post(lab, side); engine_doorbell(lab->engine, side->qpn); break;
	}
}

/* ---- the end --------------------------------------------------------------------------------------------------------- */

/* With queue memory out of reach nothing feeds itself any more. */
static void come_to_rest(struct lab *lab)
{
	for (unsigned int i = 0; i < N_SIDES; i++) {
		if (lab->sides[i].registered[QUEUES])
			dereg(lab, &lab->sides[i], QUEUES);
		if (lab->sides[i].has_qp)
			modify(lab, &lab->sides[i], ENGINE_QP_ERR, 0);
	}
	for (unsigned int i = 0; step(lab); i++)
		assert_bug(i < REST_STEPS);
	assert_bug(engine_next_deadline(lab->engine) == UINT64_MAX);
}

static void check_guard(const uint8_t *guard)
{
	for (unsigned int i = 0; i < GUARD_BYTES; i++)
		assert_bug(guard[i] == GUARD);
}

static void side_deinit(struct lab *lab, struct side *side)
{
	check_guard(side->q->guard_before);
	check_guard(side->q->guard_after);
	check_guard(side->mems[DATA].bytes);
	check_guard(side->mems[DATA].bytes + GUARD_BYTES + DATA_BYTES);
	if (side->has_qp)
		destroy_qp(lab, side);
	if (lab->has_srq)
		destroy_srq(lab, side);
	assert_bug(engine_mw_destroy(lab->engine, window_key(lab, side)) == (lab->ledger_memory ? -ENOENT : 0));
	for (unsigned int k = 0; k < N_INDIRECTS && !lab->ledger_memory; k++)
		assert_bug(engine_indirect_destroy(lab->engine, indirect_key(lab, side, k)) == 0);
	for (unsigned int c = 0; c < 2; c++) {
		int r = engine_cq_destroy(lab->engine, cqn_of(lab, side, c));

		assert_bug(r == 0);
	}
}

/* The same of another kind: with streams, XRC, raw packets, or one of four with a ledger. */
static void vary_type(struct lab *lab)
{
	static const enum engine_qp_type kept[] = {ENGINE_QP_RC, ENGINE_QP_UC, ENGINE_QP_UD, ENGINE_QP_DCI};

	switch (lab->type) {
	case ENGINE_QP_RC: lab->type = ENGINE_QP_XRC_INI; break;
	case ENGINE_QP_UC: lab->type = ENGINE_QP_RAW; break;
	case ENGINE_QP_UD:
		lab->type = kept[take(lab, 1) & 3];
		lives_begin(lab);
		break;
	default: lab->has_streams = true; break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static const uint32_t chunks[] = {256, 1024, 4096, 65536};
	static struct lab lab;
	uint8_t head;

	memset(&lab, 0, sizeof(lab));
	lab.bytes = bytes;
	lab.left = n;
	lab.now_nsec = 1000;
	lab.next_qpn = 0x100;
	lab.delays.seed = 7;
	list_init(&lab.inbox);
	head = (uint8_t)take(&lab, 1);
	lab.cq_flags = head >> 4;
	lab.timeout = (uint8_t)take(&lab, 1);
	lab.retries = (uint8_t)take(&lab, 1);
	lab.type = head >> 6 < 3 ? (enum engine_qp_type)(head >> 6) : ENGINE_QP_DCI;
	if (lab.retries & 0x08)
		vary_type(&lab);
	lab.has_srq = lab.retries & 0x80 || lab.type == ENGINE_QP_DCI || lab.type == ENGINE_QP_XRC_INI;
	lab.chunk_bytes = chunks[head & 3];
	new_engine(&lab);
	for (unsigned int i = 0; i < N_SIDES; i++)
		side_init(&lab, i, (enum mem_mode)(head >> 2 & 3));
	for (unsigned int i = 0; i < N_SIDES; i++)
		connect_side(&lab, &lab.sides[i]);
	for (unsigned int i = 0; lab.left && i < MAX_OPS; i++)
		one_op(&lab);
	come_to_rest(&lab);
	for (unsigned int i = 0; i < N_SIDES; i++)
		side_deinit(&lab, &lab.sides[i]);
	lab.engine = engine_free(lab.engine);
	assert_bug(!lab.n_routes);
	lives_end(&lab);
	for (unsigned int i = 0; i < N_SIDES; i++)
		for (unsigned int m = 0; m < N_MRS; m++)
			test_mem_deinit(&lab.sides[i].mems[m]);
	return 0;
}
