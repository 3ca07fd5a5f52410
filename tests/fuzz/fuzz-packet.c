/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as packets from an executor of another process, for an engine with requests under way: two RC QPs, a DCI and a DCT. An
 * input is a list of packets, each after two bytes of its length. Small numbers stand for QPs, keys, addresses and PSNs that there
 * are.
 *
 * A refused packet leaves nothing. An accepted one has the same bytes when it is written and read again, and the engine takes it:
 * it changes nothing outside its region, sends only packets that have bytes, comes to rest and leaves nothing.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/engine/engine-private.h"
#include "proto/base/assert.h"
#include "tests/fuzz/fuzz.h"

#define REGION_BYTES 8192u
#define GUARD_BYTES 4096u
#define GUARD 0x5a
#define IOVA 0x10000000ull
#define KEY 0x7700u
#define DC_KEY 0x77u
#define PSN 0xfffff0u
#define LOG2_RING 4u
#define MOST_PACKETS 64u
#define MOST_STEPS 100000u
#define PASS_NSEC 50000000u
#define N_PASSES 40u
/* Where an input may name what there is, in the header of packet-bytes.c. */
#define AT_DEST_QPN 8
#define AT_SRC_QPN 12
#define AT_PSN 20
#define AT_RKEY 32
#define AT_RADDR 40
#define HEADER_BYTES 56u

enum {RC_A, RC_B, DCI_A, DCT_B, N_QPS};

struct queues {
	uint8_t sq[64u << LOG2_RING] __attribute__((aligned(64)));
	uint8_t rq[32u << LOG2_RING];
	uint8_t cq[64u << 6];
	struct shmd_dbrec qp_dbrec, cq_dbrec;
};

struct lab {
	struct engine *engine;
	uint64_t now_nsec;
	struct list inbox;
	struct packet_pool *packets, *again, *sent; /* what the input says, and what the engine sends */
	unsigned int n_routes;
	struct engine_mem mem;
	uint8_t *bytes; /* the region between two guards */
	struct queues *queues;
};

static const uint32_t qpns[N_QPS] = {0x100, 0x101, 0x102, 0x103};

/* Bytes of packets, until nobody refers to them. */
struct bytes {
	struct engine_mem mem;
	uint8_t at[];
};

static void *bytes_pointer(struct engine_mem *mem, uint64_t offset, size_t n)
{
	assert_bug(offset + n <= mem->size_bytes);
	return container_of(mem, struct bytes, mem)->at + offset;
}

static void bytes_free(struct engine_mem *mem)
{
	free(container_of(mem, struct bytes, mem));
}

static const struct engine_mem_ops bytes_ops = {.pointer = bytes_pointer, .free = bytes_free};

static struct bytes *bytes_new(size_t n)
{
	struct bytes *bytes = malloc(sizeof(*bytes) + n);

	assert_bug(bytes);
	engine_mem_init(&bytes->mem, &bytes_ops, n);
	return bytes;
}

static void *region_pointer(struct engine_mem *mem, uint64_t offset, size_t n)
{
	assert_bug(offset + n <= REGION_BYTES);
	return container_of(mem, struct lab, mem)->bytes + GUARD_BYTES + offset;
}

static const struct engine_mem_ops region_ops = {.pointer = region_pointer};

/* ---- what the engine asks of its owner ------------------------------------------------------------------------------------- */

static uint64_t now_nsec(void *owner)
{
	return ((struct lab *)owner)->now_nsec;
}

static int route_get(void *owner, const uint8_t gid[16], void **ret_route)
{
	((struct lab *)owner)->n_routes++;
	*ret_route = owner;
	return 0;
}

static void route_put(void *owner, void *route)
{
	((struct lab *)owner)->n_routes--;
}

static int dc_route(void *owner, uint32_t qpn, const struct shmd_wqe_av_seg *av, void **ret_route)
{
	return route_get(owner, av->rgid, ret_route);
}

static int dc_route_back(void *owner, const void *source, void **ret_route)
{
	if (source != owner)
		return -EHOSTUNREACH;
	return route_get(owner, NULL, ret_route);
}

static void event(void *owner, const struct engine_event *ev)
{
}

/* As bytes, which must be accepted again. */
static int send_packet(void *owner, void *route, struct engine_packet *pkt)
{
	struct lab *lab = owner;
	int n = engine_packet_bytes(pkt), r;
	struct engine_piece pieces[2] = {{0}, {0}};
	struct engine_packet *arrived;
	struct bytes *bytes;
	uint32_t source;

	assert_bug(n > 0);
	bytes = bytes_new((size_t)n);
	pieces[0] = (struct engine_piece){bytes->at, (size_t)n};
	engine_packet_write(lab->engine, pkt, 0, pieces);
	engine_packet_put(lab->engine, pkt);
	r = engine_packet_read(lab->sent, pieces, &bytes->mem, &source, &arrived);
	assert_bug(r == 0 || r == -ENOBUFS);
	engine_mem_unref(&bytes->mem);
	if (r < 0)
		return -EHOSTUNREACH;
	engine_packet_set_source(arrived, lab);
	list_add_tail(&lab->inbox, engine_packet_link(arrived));
	return 0;
}

static const struct engine_ops ops = {
	.now_nsec = now_nsec,
	.route_get = route_get,
	.route_put = route_put,
	.send = send_packet,
	.event = event,
	.dc_route = dc_route,
	.dc_route_back = dc_route_back,
};

/* ---- queues with requests under way --------------------------------------------------------------------------------------- */

static void make_queues(struct lab *lab, unsigned int i, enum engine_qp_type type)
{
	struct queues *q = &lab->queues[i];
	struct engine_cq_attr cq = {.cqn = 0x10 + i, .log2_entries = 6, .ring = q->cq, .dbrec = &q->cq_dbrec};
	struct engine_srq_attr srq = {
		.srqn = i, .pdn = 1, .ring = q->rq, .log2_wqes = LOG2_RING, .log2_stride = 5, .dbrec = &q->qp_dbrec.rcv};
	struct engine_qp_attr qp = {
		.qpn = qpns[i], .type = type, .pdn = 1, .sq_ring = q->sq, .log2_sq_wqebbs = LOG2_RING, .rq_ring = q->rq,
		.log2_rq_wqes = LOG2_RING, .log2_rq_stride = 5, .dbrec = &q->qp_dbrec, .send_cqn = cq.cqn, .recv_cqn = cq.cqn};
	int r = engine_cq_create(lab->engine, &cq);

	if (type != ENGINE_QP_RC)
		qp.rq_ring = NULL;
	if (type == ENGINE_QP_DCT) {
		qp.sq_ring = qp.dbrec = NULL;
		qp.has_srq = true;
		qp.srqn = i;
		r |= engine_srq_create(lab->engine, &srq);
	}
	r |= engine_qp_create(lab->engine, &qp);
	assert_bug(r == 0);
}

static void connect_qp(struct lab *lab, unsigned int i, enum engine_qp_type type)
{
	struct engine_qp_modify mod = {
		.access = ENGINE_ACCESS_REMOTE_WRITE | ENGINE_ACCESS_REMOTE_READ | ENGINE_ACCESS_REMOTE_ATOMIC,
		.dest_qpn = qpns[i ^ 1], .path_mtu_bytes = 4096, .rq_psn = PSN, .sq_psn = PSN, .timeout = 8, .retry_count = 2,
		.rnr_retry = 2, .min_rnr_timer = 1, .max_rd_atomic = 4, .max_dest_rd_atomic = 4, .dc_key = DC_KEY};
	static const uint32_t sets[][3] = {
		[ENGINE_QP_RC] = {ENGINE_QP_SET_ACCESS,
				  ENGINE_QP_SET_PATH | ENGINE_QP_SET_RQ_PSN | ENGINE_QP_SET_RD_ATOMIC | ENGINE_QP_SET_RNR_TIMER,
				  ENGINE_QP_SET_RETRY | ENGINE_QP_SET_SQ_PSN | ENGINE_QP_SET_RD_ATOMIC},
		[ENGINE_QP_DCI] = {0, 0, ENGINE_QP_SET_RETRY | ENGINE_QP_SET_SQ_PSN | ENGINE_QP_SET_RD_ATOMIC},
		[ENGINE_QP_DCT] = {ENGINE_QP_SET_ACCESS | ENGINE_QP_SET_DC_KEY, ENGINE_QP_SET_RNR_TIMER | ENGINE_QP_SET_RD_ATOMIC, 0},
	};

	for (unsigned int n = 0; n < (type == ENGINE_QP_DCT ? 2u : 3u); n++) {
		int r;

		mod.state = ENGINE_QP_INIT + n;
		mod.set = sets[type][n];
		r = engine_qp_modify(lab->engine, qpns[i], &mod);
		assert_bug(r == 0);
	}
}

static uint8_t *put(uint8_t *at, uint32_t v)
{
	v = htobe32(v);
	memcpy(at, &v, sizeof(v));
	return at + sizeof(v);
}

static uint8_t *put64(uint8_t *at, uint64_t v)
{
	return put(put(at, (uint32_t)(v >> 32)), (uint32_t)v);
}

/* A request of one block: segments of 16 bytes. */
static void post(struct lab *lab, unsigned int qp, unsigned int n, unsigned int opcode, uint32_t bytes)
{
	uint8_t *wqe = lab->queues[qp].sq + (size_t)n * 64, *at = wqe;
	bool is_atomic = opcode == SHMD_OPCODE_ATOMIC_FA;

	at = put(at, n << 8 | opcode);
	at = put(at, qpns[qp] << 8 | (is_atomic ? 4 : 3));
	at = put(at, SHMD_WQE_CE_ALWAYS);
	at = put64(put(at, 0), IOVA + 4096);
	at = put(put(at, KEY), 0);
	if (is_atomic)
		at = put64(put64(at, 1), 0);
	put64(put(put(at, bytes), KEY), IOVA);
	lab->queues[qp].qp_dbrec.snd = htobe32(n + 1);
	engine_doorbell(lab->engine, qpns[qp]);
}

static void post_dc(struct lab *lab)
{
	const struct shmd_wqe_av_seg av = {.dc_key = htobe64(DC_KEY), .dqp_dct = htobe32(SHMD_AV_EXTENDED | qpns[DCT_B])};
	uint8_t *wqe = lab->queues[DCI_A].sq, *at = wqe;

	at = put(at, SHMD_OPCODE_RDMA_WRITE);
	at = put(at, qpns[DCI_A] << 8 | (3 + sizeof(av) / 16));
	at = put(at, SHMD_WQE_CE_ALWAYS);
	at = put(at, 0);
	memcpy(at, &av, sizeof(av));
	at = put64(at + sizeof(av), IOVA + 64);
	at = put(put(at, KEY), 0);
	put64(put(put(at, 64), KEY), IOVA);
	lab->queues[DCI_A].qp_dbrec.snd = htobe32(2);
	engine_doorbell(lab->engine, qpns[DCI_A]);
}

static void post_receives(struct lab *lab, unsigned int i)
{
	uint8_t *wqe = lab->queues[i].rq;

	put64(put(put(wqe, 512), KEY), IOVA);
	put(wqe + 16, 0);
	put(wqe + 20, SHMD_LKEY_TERMINATE);
	lab->queues[i].qp_dbrec.rcv = htobe32(1);
}

static void make_region(struct lab *lab)
{
	struct engine_mr_attr attr = {
		.key = KEY, .pdn = 1, .iova = IOVA, .length_bytes = REGION_BYTES, .mem = &lab->mem,
		.access = ENGINE_ACCESS_LOCAL_WRITE | ENGINE_ACCESS_REMOTE_WRITE | ENGINE_ACCESS_REMOTE_READ | ENGINE_ACCESS_REMOTE_ATOMIC};
	int r;

	lab->bytes = malloc(REGION_BYTES + 2 * GUARD_BYTES);
	assert_bug(lab->bytes);
	memset(lab->bytes, GUARD, REGION_BYTES + 2 * GUARD_BYTES);
	engine_mem_init(&lab->mem, &region_ops, REGION_BYTES);
	r = engine_mr_create(lab->engine, &attr);
	assert_bug(r == 0);
}

static void lab_init(struct lab *lab)
{
	static const enum engine_qp_type types[N_QPS] = {ENGINE_QP_RC, ENGINE_QP_RC, ENGINE_QP_DCI, ENGINE_QP_DCT};
	const struct engine_attr attr = {
		.max_qps = 16, .max_cqs = 8, .max_mrs = 8, .max_srqs = 4, .chunk_bytes = 4096, .self_route = lab};
	int r;

	memset(lab, 0, sizeof(*lab));
	lab->now_nsec = 1000;
	list_init(&lab->inbox);
	r = engine_new(&attr, &ops, lab, &lab->engine);
	lab->queues = aligned_alloc(64, sizeof(*lab->queues) * N_QPS);
	lab->packets = engine_packets_new(MOST_PACKETS);
	lab->again = engine_packets_new(1);
	lab->sent = engine_packets_new(MOST_PACKETS);
	assert_bug(r == 0 && lab->queues && lab->packets && lab->again && lab->sent);
	memset(lab->queues, 0, sizeof(*lab->queues) * N_QPS);
	make_region(lab);
	for (unsigned int i = 0; i < N_QPS; i++)
		make_queues(lab, i, types[i]);
	for (unsigned int i = 0; i < N_QPS; i++)
		connect_qp(lab, i, types[i]);
	post_receives(lab, RC_B);
	post_receives(lab, DCT_B);
	post(lab, RC_A, 0, SHMD_OPCODE_RDMA_WRITE, 4000);
	post(lab, RC_A, 1, SHMD_OPCODE_RDMA_READ, 64);
	post(lab, RC_A, 2, SHMD_OPCODE_ATOMIC_FA, 8);
	post_dc(lab);
}

/* ---- running ---------------------------------------------------------------------------------------------------------------- */

static bool step(struct lab *lab)
{
	bool any = false;

	while (!list_empty(&lab->inbox)) {
		struct list *link = lab->inbox.next;

		list_del(link);
		engine_input(lab->engine, engine_packet_from_link(link));
		any = true;
	}
	return engine_progress(lab->engine, 32) > 0 || any;
}

static void rest(struct lab *lab)
{
	for (unsigned int pass = 0; pass < N_PASSES; pass++) {
		unsigned int n = 0;

		while (step(lab))
			assert_bug(++n < MOST_STEPS);
		lab->now_nsec += PASS_NSEC;
	}
}

static void lab_deinit(struct lab *lab)
{
	for (unsigned int i = 0; i < GUARD_BYTES; i++)
		assert_bug(lab->bytes[i] == GUARD && lab->bytes[GUARD_BYTES + REGION_BYTES + i] == GUARD);
	lab->engine = engine_free(lab->engine);
	while (!list_empty(&lab->inbox)) {
		struct list *link = lab->inbox.next;

		list_del(link);
		engine_packet_free(engine_packet_from_link(link));
	}
	engine_packets_free(lab->packets);
	engine_packets_free(lab->again);
	engine_packets_free(lab->sent);
	assert_bug(lab->n_routes == 0 && lab->mem.refs == 1);
	free(lab->bytes);
	free(lab->queues);
}

/* ---- the input ------------------------------------------------------------------------------------------------------------ */

static void name_number(uint8_t *at)
{
	uint32_t number;

	memcpy(&number, at, sizeof(number));
	if (number < N_QPS)
		memcpy(at, &qpns[number], sizeof(number));
}

/* PSNs are said from where both sides begin. */
static void name_things(uint8_t *bytes)
{
	const uint32_t region_key = KEY;
	uint32_t key, psn;
	uint64_t raddr;

	name_number(bytes + AT_DEST_QPN);
	name_number(bytes + AT_SRC_QPN);
	memcpy(&psn, bytes + AT_PSN, sizeof(psn));
	psn = psn < 256 ? psn_add(PSN, psn) : psn;
	memcpy(bytes + AT_PSN, &psn, sizeof(psn));
	memcpy(&key, bytes + AT_RKEY, sizeof(key));
	memcpy(bytes + AT_RKEY, key == 1 ? &region_key : &key, sizeof(key));
	memcpy(&raddr, bytes + AT_RADDR, sizeof(raddr));
	raddr += raddr < REGION_BYTES ? IOVA : 0;
	memcpy(bytes + AT_RADDR, &raddr, sizeof(raddr));
}

/* A packet that was read has one form as bytes: written, read and written again it is the same. */
static void check_again(struct lab *l, struct engine *engine, const struct engine_packet *pkt)
{
	int n = engine_packet_bytes(pkt);
	struct bytes *one, *two;
	struct engine_piece pieces[2][2] = {0};
	struct engine_packet *again;
	uint32_t source;
	int r;

	assert_bug(n > 0);
	one = bytes_new((size_t)n);
	two = bytes_new((size_t)n);
	pieces[0][0] = (struct engine_piece){one->at, (size_t)n};
	pieces[1][0] = (struct engine_piece){two->at, (size_t)n};
	engine_packet_write(engine, pkt, 7, pieces[0]);
	r = engine_packet_read(l->again, pieces[0], &one->mem, &source, &again);
	assert_bug(r == 0 && source == 7 && engine_packet_bytes(again) == n);
	engine_packet_write(engine, again, 7, pieces[1]);
	assert_bug(memcmp(one->at, two->at, (size_t)n) == 0);
	engine_packet_free(again);
	assert_bug(one->mem.refs == 1);
	engine_mem_unref(&one->mem);
	engine_mem_unref(&two->mem);
}

static void one_packet(struct lab *lab, const uint8_t *input, size_t n)
{
	struct bytes *copy = bytes_new(n);
	const size_t border = n / 3;
	const struct engine_piece pieces[2] = {{copy->at, border}, {copy->at + border, n - border}};
	struct engine_packet *pkt;
	uint32_t source;
	int r;

	memcpy(copy->at, input, n);
	if (n >= HEADER_BYTES)
		name_things(copy->at);
	r = engine_packet_read(lab->packets, pieces, &copy->mem, &source, &pkt);
	assert_bug(r == 0 || ((r == -EBADMSG || r == -ENOBUFS) && copy->mem.refs == 1));
	engine_mem_unref(&copy->mem);
	if (r < 0)
		return;
	check_again(lab, lab->engine, pkt);
	engine_packet_set_source(pkt, source % 8 == 7 ? NULL : lab);
	engine_input(lab->engine, pkt);
	for (unsigned int i = 0; i < 4; i++)
		step(lab);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct lab lab;

	lab_init(&lab);
	while (n >= 2) {
		size_t length = (size_t)(bytes[0] | bytes[1] << 8);

		bytes += 2;
		n -= 2;
		length = length < n ? length : n;
		one_packet(&lab, bytes, length);
		bytes += length;
		n -= length;
	}
	rest(&lab);
	lab_deinit(&lab);
	return 0;
}
