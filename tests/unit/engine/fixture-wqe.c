/* SPDX-License-Identifier: Apache-2.0 */
/* A client's WQEs, its SRQs, and what it expects; see fixture.h. */
#include <endian.h>
#include <string.h>

#include "fixture.h"
#include "kernels/host/wqe-dump.h"
#include "tests/lib/test.h"

/* ---- WQEs ---- */

static void put32(uint8_t *at, uint32_t v)
{
	v = htobe32(v);
	memcpy(at, &v, 4);
}

static void put64(uint8_t *at, uint64_t v)
{
	v = htobe64(v);
	memcpy(at, &v, 8);
}

static uint8_t *unit(struct wqe *wqe)
{
	ASSERT_LT(wqe->ds, 63);
	return wqe->bytes + wqe->ds++ * 16;
}

void wqe_begin(struct wqe *wqe, unsigned int opcode, unsigned int flags)
{
	memset(wqe, 0, sizeof(*wqe));
	wqe->ds = 1;
	wqe->flags = flags;
	put32(wqe->bytes, opcode);
	wqe->bytes[11] = (uint8_t)((flags & SIGNALED ? SHMD_WQE_CE_ALWAYS : 0) |
				   (flags & FENCE ? SHMD_WQE_FM_FENCE : 0) |
				   (flags & SOLICITED ? SHMD_WQE_SOLICITED : 0));
}

void wqe_imm(struct wqe *wqe, uint32_t imm)
{
	put32(wqe->bytes + 12, imm);
}

void wqe_opmod(struct wqe *wqe, uint8_t opmod)
{
	wqe->bytes[0] = opmod;
}

void wqe_dc_av(struct wqe *wqe, const struct tqp *to, uint64_t dc_key)
{
	struct shmd_wqe_av_seg av = {
		.dc_key = htobe64(dc_key),
		.dqp_dct = htobe32(SHMD_AV_EXTENDED | to->qpn),
		.stat_rate_sl = 5,
		.rgid = {(uint8_t)to->node->index},
	};

	memcpy(unit(wqe), &av, 16);
	memcpy(unit(wqe), (uint8_t *)&av + 16, 16);
	memcpy(unit(wqe), (uint8_t *)&av + 32, 16);
}

void wqe_av(struct wqe *wqe, const struct tqp *to, uint32_t qkey)
{
	wqe_dc_av(wqe, to, (uint64_t)qkey << 32);
}

void wqe_xrc(struct wqe *wqe, uint32_t srqn)
{
	put32(unit(wqe), srqn);
}

void wqe_raddr(struct wqe *wqe, uint64_t raddr, uint32_t rkey)
{
	uint8_t *at = unit(wqe);

	put64(at, raddr);
	put32(at + 8, rkey);
}

void wqe_data(struct wqe *wqe, uint64_t addr, uint32_t lkey, uint32_t bytes)
{
	uint8_t *at = unit(wqe);

	put32(at, bytes);
	put32(at + 4, lkey);
	put64(at + 8, addr);
}

void wqe_inline(struct wqe *wqe, const void *data, uint32_t bytes)
{
	uint8_t *at = wqe->bytes + wqe->ds * 16;

	put32(at, SHMD_INLINE_SEG | bytes);
	memcpy(at + 4, data, bytes);
	wqe->ds += (bytes + 4 + 15) / 16;
	ASSERT_LE(wqe->ds, 63);
}

void wqe_words64(struct wqe *wqe, const uint64_t *words, unsigned int n)
{
	for (unsigned int i = 0; i < n; i += 2) {
		uint8_t *at = unit(wqe);

		put64(at, words[i]);
		put64(at + 8, words[i + 1]);
	}
}

void wqe_words32(struct wqe *wqe, const uint32_t *words, unsigned int n)
{
	uint8_t *at = unit(wqe);

	for (unsigned int i = 0; i < n; i++)
		put32(at + i * 4, words[i]);
}

uint16_t tqp_post(struct tqp *qp, struct wqe *wqe)
{
	uint16_t index = qp->pi;
	uint16_t n = (uint16_t)((wqe->ds + 3) / 4);

	wqe->bytes[1] = (uint8_t)(index >> 8);
	wqe->bytes[2] = (uint8_t)index;
	put32(wqe->bytes + 4, qp->qpn << 8 | wqe->ds);
	for (uint16_t i = 0; i < n; i++) {
		uint32_t slot = (uint16_t)(index + i) & ((1u << qp->log2_sq) - 1);

		memcpy(qp->sq + (size_t)slot * 64, wqe->bytes + i * 64, 64);
	}
	qp->pi = (uint16_t)(qp->pi + n);
	__atomic_store_n(&qp->dbrec->snd, htobe32(qp->pi), __ATOMIC_RELEASE);
	return index;
}

void tqp_ring(struct tqp *qp)
{
	engine_doorbell(qp->node->engine, qp->qpn);
}

static uint16_t post_rdma(struct tqp *qp, unsigned int opcode, unsigned int flags,
			  const struct region *local, uint64_t local_offset, uint64_t raddr,
			  uint32_t rkey, uint32_t bytes)
{
	struct wqe wqe;

	wqe_begin(&wqe, opcode, flags);
	wqe_raddr(&wqe, raddr, rkey);
	if (bytes)
		wqe_data(&wqe, local->iova + local_offset, local->key, bytes);
	return tqp_post(qp, &wqe);
}

uint16_t post_write(struct tqp *qp, unsigned int flags, struct region *src, uint64_t src_offset,
		    struct region *dst, uint64_t dst_offset, uint32_t bytes)
{
	return post_rdma(qp, SHMD_OPCODE_RDMA_WRITE, flags, src, src_offset, dst->iova + dst_offset,
			 dst->key, bytes);
}

uint16_t post_read(struct tqp *qp, unsigned int flags, struct region *dst, uint64_t dst_offset,
		   struct region *src, uint64_t src_offset, uint32_t bytes)
{
	return post_rdma(qp, SHMD_OPCODE_RDMA_READ, flags, dst, dst_offset, src->iova + src_offset,
			 src->key, bytes);
}

uint16_t post_send(struct tqp *qp, unsigned int flags, struct region *src, uint64_t offset,
		   uint32_t bytes)
{
	struct wqe wqe;

	wqe_begin(&wqe, SHMD_OPCODE_SEND, flags);
	if (bytes)
		wqe_data(&wqe, src->iova + offset, src->key, bytes);
	return tqp_post(qp, &wqe);
}

uint16_t post_fadd(struct tqp *qp, unsigned int flags, struct region *result,
		   uint64_t result_offset, struct region *word, uint64_t word_offset, uint64_t add)
{
	uint64_t words[2] = {add, 0};
	struct wqe wqe;

	wqe_begin(&wqe, SHMD_OPCODE_ATOMIC_FA, flags);
	wqe_raddr(&wqe, word->iova + word_offset, word->key);
	wqe_words64(&wqe, words, 2);
	wqe_data(&wqe, result->iova + result_offset, result->key, 8);
	return tqp_post(qp, &wqe);
}

void post_recv_raw(struct tqp *qp, const void *wqe, size_t bytes)
{
	uint32_t slot = qp->rq_pi & ((1u << qp->log2_rq) - 1);
	uint8_t *at = qp->rq + ((size_t)slot << qp->log2_stride);

	memset(at, 0, (size_t)1 << qp->log2_stride);
	memcpy(at, wqe, bytes);
	if (bytes < (size_t)1 << qp->log2_stride)
		put32(at + bytes + 4, SHMD_LKEY_TERMINATE);
	qp->rq_pi++;
	__atomic_store_n(&qp->dbrec->rcv, htobe32(qp->rq_pi), __ATOMIC_RELEASE);
}

void post_recv(struct tqp *qp, struct region *dst, uint64_t offset, uint32_t bytes)
{
	uint8_t seg[16];

	put32(seg, bytes);
	put32(seg + 4, dst->key);
	put64(seg + 8, dst->iova + offset);
	post_recv_raw(qp, seg, bytes ? 16 : 0);
}

/* ---- SRQs ---- */

static uint8_t *srq_wqe(const struct tsrq *srq, uint16_t index)
{
	return srq->ring + ((size_t)index << srq->log2_stride);
}

static void init_srq(struct tsrq *srq, struct world *w, unsigned int node, struct engine_srq_attr attr)
{
	static uint32_t next_number = 0x300;
	uint32_t log2_wqes = attr.log2_wqes;
	uint16_t last = (uint16_t)((1u << log2_wqes) - 1);

	*srq = (struct tsrq){.node = &w->nodes[node], .srqn = next_number++, .log2_wqes = log2_wqes, .log2_stride = 6};
	srq->ring = world_alloc(w, (size_t)1 << (log2_wqes + srq->log2_stride));
	srq->dbrec = world_alloc(w, 64);
	srq->tail = last;
	for (uint16_t i = 0; i < last; i++)
		put32(srq_wqe(srq, i), i + 1u);
	attr.srqn = srq->srqn;
	attr.ring = srq->ring;
	attr.log2_stride = srq->log2_stride;
	attr.dbrec = srq->dbrec;
	attr.user_index = srq->srqn + 0x20000;
	attr.ledger = srq->node->ledger;
	srq->attr = attr;
	ASSERT_OK(engine_srq_create(srq->node->engine, &attr));
}

void tsrq_init(struct tsrq *srq, struct world *w, unsigned int node, uint32_t pdn, uint32_t log2_wqes)
{
	init_srq(srq, w, node, (struct engine_srq_attr){.pdn = pdn, .log2_wqes = log2_wqes});
}

void tsrq_init_xrc(struct tsrq *srq, struct world *w, unsigned int node, uint32_t pdn, uint32_t log2_wqes, uint32_t xrcdn,
		   const struct tcq *cq)
{
	init_srq(srq, w, node,
		 (struct engine_srq_attr){
			 .pdn = pdn, .log2_wqes = log2_wqes, .is_xrc = true, .xrcdn = xrcdn, .cqn = cq->cqn});
}

void tsrq_deinit(struct tsrq *srq)
{
	ASSERT_OK(engine_srq_destroy(srq->node->engine, srq->srqn));
	world_free(srq->node->world, srq->ring);
	world_free(srq->node->world, srq->dbrec);
}

uint16_t tsrq_post(struct tsrq *srq, const struct region *dst, uint64_t offset, uint32_t bytes)
{
	uint16_t index = srq->head, next;
	uint8_t *wqe = srq_wqe(srq, index);

	/* The last one of the list stays: its index of the next is not known yet. */
	ASSERT_NE(srq->head, srq->tail);
	memcpy(&next, wqe + 2, 2);
	srq->head = be16toh(next);
	put32(wqe + 16, bytes);
	put32(wqe + 20, dst->key);
	put64(wqe + 24, dst->iova + offset);
	put32(wqe + 32, 0);
	put32(wqe + 36, SHMD_LKEY_TERMINATE);
	srq->n_posted++;
	__atomic_store_n(srq->dbrec, htobe32(srq->n_posted), __ATOMIC_RELEASE);
	return index;
}

void tsrq_give_back(struct tsrq *srq, uint16_t index)
{
	put32(srq_wqe(srq, srq->tail), index);
	srq->tail = index;
}

/* ---- expectations ---- */

void expect_cqe(struct tcq *cq, uint8_t opcode, uint16_t wqe_counter, struct shmd_cqe *ret_cqe)
{
	struct shmd_cqe cqe;
	char text[200];

	ASSERT(tcq_poll(cq, &cqe));
	if (cqe.op_own >> 4 != opcode || be16toh(cqe.wqe_counter) != wqe_counter) {
		cqe_dump(text, sizeof(text), &cqe);
		test_fail(TEST_WHERE, "expected %s wqe %u, got %s", cqe_opcode_name(opcode),
			  wqe_counter, text);
	}
	if (ret_cqe)
		*ret_cqe = cqe;
}

void expect_ok(struct tqp *qp, uint16_t index)
{
	struct shmd_cqe cqe;

	expect_cqe(&qp->scq, SHMD_CQE_REQ, index, &cqe);
	ASSERT_EQ(be32toh(cqe.sop_drop_qpn) & 0xffffff, qp->qpn);
	ASSERT_EQ(be32toh(cqe.srqn_uidx), qp->qpn + 0x10000);
}

void expect_error(struct tcq *cq, bool responder, uint16_t index, uint8_t syndrome)
{
	struct shmd_err_cqe err;
	struct shmd_cqe cqe;

	expect_cqe(cq, responder ? SHMD_CQE_RESP_ERR : SHMD_CQE_REQ_ERR, index, &cqe);
	memcpy(&err, &cqe, sizeof(err));
	ASSERT_EQ(err.syndrome, syndrome);
}
