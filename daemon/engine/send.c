/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requester's way out: from the send ring to packets.
 *
 * A WQE is copied once from the client's ring into the shadow ring, parsed there, and gets an entry in `sent`
 * that lives until its completion. Resending parses the shadow again, so what the client does to its ring later
 * changes nothing. An entry that is wrong gets its syndrome at once and stops everything behind it; it fails when
 * it is the oldest, so that CQEs stay in order.
 *
 * An acknowledgement is asked for by the last packet of a signaled request, by the last request that is posted,
 * and every so many packets; it covers all earlier PSNs.
 */
#include "daemon/engine/ledger-private.h"

static const struct shmd_dbrec *dbrec_of(const struct engine_qp *qp)
{
	return qp->attr.dbrec;
}

uint16_t qp_read_snd(const struct engine_qp *qp)
{
	if (unlikely(qp->frozen))
		return qp->req.pi;
	return (uint16_t)be32toh(__atomic_load_n(&dbrec_of(qp)->snd, __ATOMIC_ACQUIRE));
}

/* ---- fetch ------------------------------------------------------------------------------------------------ */

static const uint8_t *ring_wqebb(const struct engine_qp *qp, uint16_t index)
{
	/* bounded: 2^15 WQEBBs at most, when the QP was made. */
	uint32_t slot = index & ((1u << qp->attr.log2_sq_wqebbs) - 1);

	return (const uint8_t *)qp->attr.sq_ring + (size_t)slot * SHMD_WQEBB_BYTES;
}

static uint16_t n_wqebbs_of(const void *first_wqebb)
{
	size_t n = (wqe_size_bytes(first_wqebb) + SHMD_WQEBB_BYTES - 1) >> SHMD_WQEBB_SHIFT;

	return n ? (uint16_t)n : 1;
}

uint16_t requester_wqebbs_at(const struct engine_qp *qp, uint16_t index, uint8_t *ret_opcode)
{
	uint8_t ctrl[sizeof(struct shmd_wqe_ctrl_seg)];

	memcpy(ctrl, ring_wqebb(qp, index), sizeof(ctrl));
	*ret_opcode = ctrl[3];
	return n_wqebbs_of(ctrl);
}

/* Copies the WQE at ci into the shadow. Returns its WQEBBs, or 0 when its place there is still in use. */
static uint16_t copy_wqe(struct engine_qp *qp)
{
	struct requester *req = &qp->req;
	uint16_t room = (uint16_t)(req->n_shadow - (uint16_t)(req->ci - req->oldest));
	uint8_t *to = shadow_wqe(qp, req->ci);
	uint16_t n;

	if (!room)
		return 0;
	memcpy(to, ring_wqebb(qp, req->ci), SHMD_WQEBB_BYTES);
	n = n_wqebbs_of(to);
	if (n > req->n_shadow)
		return n; /* longer than the whole ring: the caller refuses it unread */
	if (n > room)
		return 0;
	qp->engine->moved_bytes += (uint64_t)n * SHMD_WQEBB_BYTES;
	for (uint16_t i = 1; i < n; i++)
		memcpy(to + (size_t)i * SHMD_WQEBB_BYTES, ring_wqebb(qp, (uint16_t)(req->ci + i)),
		       SHMD_WQEBB_BYTES);
	return n;
}

static enum engine_wqe_kind kind_of(uint8_t opcode)
{
	switch (opcode) {
	case SHMD_OPCODE_NOP:
	case SHMD_OPCODE_UMR: /* done when it was fetched */
		return ENGINE_WQE_NOP;
	case SHMD_OPCODE_RDMA_WRITE:
		return ENGINE_WQE_WRITE;
	case SHMD_OPCODE_RDMA_WRITE_IMM:
		return ENGINE_WQE_WRITE_IMM;
	case SHMD_OPCODE_RDMA_READ:
		return ENGINE_WQE_READ;
	case SHMD_OPCODE_SEND:
	case SHMD_OPCODE_SEND_INVAL:
		return ENGINE_WQE_SEND;
	case SHMD_OPCODE_SEND_IMM:
		return ENGINE_WQE_SEND_IMM;
	case SHMD_OPCODE_ATOMIC_CS:
	case SHMD_OPCODE_ATOMIC_FA:
	case SHMD_OPCODE_ATOMIC_MASKED_CS:
	case SHMD_OPCODE_ATOMIC_MASKED_FA:
		return ENGINE_WQE_ATOMIC;
	}
	return ENGINE_WQE_OTHER;
}

static uint32_t n_psns_of(const struct engine_qp *qp, const struct sent *sent)
{
	if (sent->kind == ENGINE_WQE_NOP || unlikely(qp->service && qp->service->has_no_packets))
		return 0;
	if (sent->kind == ENGINE_WQE_ATOMIC || !sent->bytes)
		return 1;
	/* bounded: 32 bits and less, added in 64. */
	return (uint32_t)(((uint64_t)sent->bytes + (1u << qp->log2_mtu) - 1) >> qp->log2_mtu);
}

static uint8_t flags_of(const struct wqe_request *cur, enum engine_wqe_kind kind)
{
	uint8_t flags = 0;

	if (cur->completion == SHMD_WQE_CE_ALWAYS || cur->completion == SHMD_WQE_CE_ALWAYS_EQE)
		flags |= SENT_SIGNALED;
	if (kind == ENGINE_WQE_READ || kind == ENGINE_WQE_ATOMIC)
		flags |= SENT_FETCH;
	if (cur->solicited)
		flags |= SENT_SOLICITED;
	/* Execution is in order at the responder, so strong ordering needs no more than a fence. */
	if (cur->fence == SHMD_WQE_FM_FENCE || cur->fence == SHMD_WQE_FM_STRONG ||
	    cur->fence == SHMD_WQE_FM_FENCE_AND_SMALL)
		flags |= SENT_FENCE;
	return flags;
}

static void fill_sent(struct engine_qp *qp, struct sent *sent, uint16_t n_wqebbs)
{
	const struct wqe_request *cur = &qp->req.cur;

	sent->wqe_index = qp->req.ci;
	sent->n_wqebbs = (uint8_t)n_wqebbs;
	sent->opcode = cur->opcode;
	sent->kind = (uint8_t)kind_of(cur->opcode);
	sent->flags = flags_of(cur, sent->kind);
	sent->syndrome = 0;
	sent->n_sges = (uint8_t)cur->n_sges;
	sent->n_responses = 0;
	sent->bytes = (uint32_t)cur->total_bytes;
	sent->n_psns = n_psns_of(qp, sent);
	if (cur->n_sges)
		sent->sge = cur->sges[0];
}

/* Every reference of the request: known key, own PD, in range, writable where the NIC writes. */
uint8_t requester_check_sges(struct engine_qp *qp, bool nic_writes)
{
	const struct wqe_request *cur = &qp->req.cur;
	struct mem_span span;

	for (unsigned int i = 0; i < cur->n_sges; i++) {
		struct mr_want want = {
			.key = cur->sges[i].lkey,
			.pdn = qp->attr.pdn,
			.access = nic_writes ? ENGINE_ACCESS_LOCAL_WRITE : 0,
			.addr = cur->sges[i].addr,
			.bytes = cur->sges[i].bytes,
		};

		if (mr_resolve(qp->engine, &qp->req.mr, &want, &span) < 0)
			return SHMD_SYNDROME_LOCAL_PROT_ERR;
	}
	return 0;
}

/* Windows or indirect keys, which UMRs change. */
static bool has_keys(const struct engine *engine)
{
	return engine->attr.max_mws || engine->attr.max_indirects;
}

static bool lacks(const struct engine *engine, uint8_t opcode)
{
	return engine->attr.lacks_masked_atomics &&
	       (opcode == SHMD_OPCODE_ATOMIC_MASKED_CS || opcode == SHMD_OPCODE_ATOMIC_MASKED_FA);
}

/* Checks that need no packet; and a UMR, which sends none, is executed. */
static uint8_t check_request(struct engine_qp *qp, const struct sent *sent)
{
	const struct wqe_request *cur = &qp->req.cur;
	bool fetch = sent->flags & SENT_FETCH;

	if (unlikely(cur->qpn != qp->attr.qpn || (fetch && (!qp->path.max_rd_atomic || lacks(qp->engine, cur->opcode)))))
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	if (unlikely(cur->opcode == SHMD_OPCODE_UMR || cur->has_inval)) {
		if (!has_keys(qp->engine) || (cur->has_inval && !qp->reliable))
			return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
		if (cur->opcode == SHMD_OPCODE_UMR)
			return qp->engine->extension->execute_umr(qp, sent, cur->imm);
	}
	if (unlikely(qp->service && qp->service->check_request)) {
		uint8_t syndrome = qp->service->check_request(qp, sent);

		if (syndrome)
			return syndrome;
	}
	/* A single packet from a single reference is checked when it is built. */
	if (!fetch && cur->n_sges <= 1 && sent->n_psns <= 1)
		return 0;
	return requester_check_sges(qp, fetch);
}

/* An index further ahead than the ring is long cannot be true. */
static void fetch_bad_index(struct engine_qp *qp, struct sent *sent)
{
	struct requester *req = &qp->req;

	memset(sent, 0, sizeof(*sent));
	sent->wqe_index = req->ci;
	sent->opcode = SHMD_OPCODE_NOP;
	sent->kind = ENGINE_WQE_OTHER;
	sent->flags = SENT_NO_STREAM;
	req->ci = req->pi;
	req->tail++;
	requester_fail(qp, sent, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
}

static bool ring_has_wqe(struct engine_qp *qp)
{
	struct requester *req = &qp->req;

	if (req->pi != req->ci && !req->check_dbrec)
		return true;
	req->check_dbrec = false;
	req->pi = qp_read_snd(qp);
	return req->pi != req->ci;
}

/* Earlier WQEs must complete first, and may not have asked for an acknowledgement. */
static void await_room(struct engine_qp *qp)
{
	requester_solicit(qp, qp->req.sent_psn);
}

/* WQEs that a former process had fetched in SQD are finished there. */
static bool may_fetch(const struct engine_qp *qp)
{
	return likely(qp->state == ENGINE_QP_RTS) || requester_resumes(&qp->req);
}

/* Take the next WQE of the ring: true when there is a request to send. */
static bool fetch(struct engine_qp *qp)
{
	struct requester *req = &qp->req;
	struct sent *sent = &req->sent[req->tail & req->sent_mask];
	uint16_t posted, n_wqebbs;
	uint8_t syndrome;

	if (req->halted || !may_fetch(qp) || !ring_has_wqe(qp))
		return false;
	if (unlikely(req->tail - req->head > req->sent_mask)) {
		await_room(qp);
		return false;
	}
	/* bounded: 2^15 WQEBBs at most. */
	posted = (uint16_t)(req->pi - req->ci);
	if (unlikely(posted > 1u << qp->attr.log2_sq_wqebbs)) {
		fetch_bad_index(qp, sent);
		return false;
	}
	n_wqebbs = copy_wqe(qp);
	if (!n_wqebbs) {
		await_room(qp);
		return false;
	}
	syndrome = (uint8_t)parse_shadow(qp, req->ci, n_wqebbs, &req->cur);
	if (unlikely(n_wqebbs > posted)) {
		syndrome = SHMD_SYNDROME_LOCAL_QP_OP_ERR;
		n_wqebbs = posted;
	}
	fill_sent(qp, sent, n_wqebbs);
	if (unlikely(qp->streams.n && qp->engine->extension->stream_is_errored(qp, sent)))
		syndrome = SHMD_SYNDROME_WR_FLUSH_ERR;
	if (likely(!syndrome))
		syndrome = check_request(qp, sent);
	req->ci += n_wqebbs;
	req->tail++;
	fault_point(qp->engine, ENGINE_STEP_FETCH);
	if (unlikely(syndrome)) {
		requester_fail(qp, sent, syndrome);
		return false;
	}
	return true;
}

/* ---- load ---------------------------------------------------------------------------------------------------- */

static void seek(struct requester *req, uint64_t offset)
{
	req->cur_sge = 0;
	while (req->cur_sge < req->cur.n_sges && offset >= req->cur.sges[req->cur_sge].bytes)
		offset -= req->cur.sges[req->cur_sge++].bytes;
	req->cur_sge_offset = (uint32_t)offset;
}

/* A request that was sent before, or waited when the cursor moved back over it. */
static bool reload(struct engine_qp *qp)
{
	struct requester *req = &qp->req;
	const struct sent *sent = &req->sent[req->cursor & req->sent_mask];
	int r;

	if (sent->syndrome)
		return false;
	r = parse_shadow(qp, sent->wqe_index, sent->n_wqebbs, &req->cur);
	assert_bug(r == 0);
	req->cur_packet = sent->kind == ENGINE_WQE_READ ? sent->n_responses : req->resume_packet;
	req->resume_packet = 0;
	seek(req, (uint64_t)req->cur_packet << qp->log2_mtu);
	return true;
}

static bool load(struct engine_qp *qp)
{
	struct requester *req = &qp->req;

	if (req->loaded)
		return true;
	if (unlikely(req->cursor != req->tail)) {
		req->loaded = reload(qp);
		return req->loaded;
	}
	if (!fetch(qp))
		return false;
	req->cur_packet = 0;
	req->cur_sge = 0;
	req->cur_sge_offset = 0;
	req->loaded = true;
	return true;
}

/* ---- gates ----------------------------------------------------------------------------------------------------- */

static uint32_t psn_of_packet(const struct requester *req, const struct sent *sent)
{
	return psn_add(sent->first_psn, req->cur_packet);
}

/* Must the request at the cursor wait for responses? */
static bool must_wait(struct engine_qp *qp, struct sent *sent)
{
	const struct requester *req = &qp->req;
	bool fetches = sent->flags & SENT_FETCH;
	uint32_t on_way = psn_ahead(req->next_psn, req->unacked_psn);

	if (unlikely(qp->attr.type == ENGINE_QP_DCI && !(sent->flags & SENT_STARTED)) && !dc_connect(qp, sent))
		return true;
	/* Resent packets may lie behind what was acknowledged in the meantime. */
	if (sent->flags & SENT_STARTED)
		return !fetches &&
		       psn_diff(psn_of_packet(req, sent), req->unacked_psn) >= (int32_t)WINDOW_PSNS;
	if (!fetches && on_way >= WINDOW_PSNS)
		return true;
	if ((sent->flags & SENT_FENCE) && req->n_fetches)
		return true;
	if (on_way + sent->n_psns > PSN_HALF)
		return true;
	if (!fetches)
		return false;
	/*
	 * Payload of a READ is taken when its response is consumed, an atomic acts when it arrives: an atomic
	 * behind a READ waits, as IBTA orders the two.
	 */
	return req->n_fetches >= qp->path.max_rd_atomic ||
	       (sent->kind == ENGINE_WQE_ATOMIC && req->n_reads);
}

void requester_start(struct engine_qp *qp, struct sent *sent)
{
	struct requester *req = &qp->req;

	if (sent->flags & SENT_STARTED)
		return;
	sent->flags |= SENT_STARTED;
	sent->first_psn = req->next_psn;
	req->next_psn = psn_add(req->next_psn, sent->n_psns);
	if (sent->flags & SENT_FETCH) {
		req->n_fetches++;
		req->n_reads += sent->kind == ENGINE_WQE_READ;
	}
}

/* ---- packets ------------------------------------------------------------------------------------------------------ */

/* One reference, or a part of it, into the packet. */
static int add_span(struct engine_qp *qp, struct engine_packet *pkt, uint32_t bytes)
{
	struct requester *req = &qp->req;
	/* bounded: an address that wraps lies in no region, says mr_resolve(). */
	const struct wqe_sge *sge = &req->cur.sges[req->cur_sge];
	struct mr_want want = {
		.key = sge->lkey,
		.pdn = qp->attr.pdn,
		.addr = sge->addr + req->cur_sge_offset,
		.bytes = bytes,
	};
	struct mem_span span;
	const void *from;

	if (mr_resolve(qp->engine, &req->mr, &want, &span) < 0)
		return -EACCES;
	if (pkt->payload_bytes == bytes && bytes <= PACKET_SMALL_BYTES) {
		from = span_pointer(&span);
		if (likely(from)) {
			copy_bytes(pkt->data, from, bytes);
			return 0;
		}
	}
	packet_add_seg(pkt, &span);
	return 0;
}

static int add_references(struct engine_qp *qp, struct engine_packet *pkt)
{
	struct requester *req = &qp->req;
	uint32_t left = pkt->payload_bytes;
	int r;

	while (left) {
		uint32_t n = req->cur.sges[req->cur_sge].bytes - req->cur_sge_offset;

		if (n > left)
			n = left;
		r = add_span(qp, pkt, n);
		if (r < 0)
			return r;
		left -= n;
		req->cur_sge_offset += n;
		if (req->cur_sge_offset == req->cur.sges[req->cur_sge].bytes) {
			req->cur_sge++;
			req->cur_sge_offset = 0;
		}
	}
	return 0;
}

/* WRITE and SEND: the payload of packet cur_packet. */
static int add_payload(struct engine_qp *qp, struct engine_packet *pkt, const struct sent *sent)
{
	struct requester *req = &qp->req;
	uint64_t offset = (uint64_t)req->cur_packet << qp->log2_mtu;
	uint64_t left = sent->bytes - offset;

	pkt->payload_bytes = left < 1u << qp->log2_mtu ? (uint32_t)left : 1u << qp->log2_mtu;
	if (!req->cur.inline_bytes)
		return add_references(qp, pkt);
	memcpy(pkt->data, req->cur.inline_data + offset, pkt->payload_bytes);
	return 0;
}

static void fill_read(struct engine_qp *qp, struct engine_packet *pkt, const struct sent *sent)
{
	uint64_t offset = (uint64_t)qp->req.cur_packet << qp->log2_mtu;

	pkt->raddr += offset;
	pkt->length_bytes = sent->bytes - offset;
	pkt->mtu_bytes = 1u << qp->log2_mtu;
	pkt->flags = PACKET_FIRST | PACKET_LAST;
}

static void fill_atomic(struct engine_packet *pkt, const struct wqe_atomic *a)
{
	pkt->flags = PACKET_FIRST | PACKET_LAST;
	pkt->atomic = (struct engine_atomic){
		.is_compare_swap = a->is_compare_swap,
		.bytes = a->bytes,
		.swap_or_add = a->swap_or_add,
		.compare = a->compare,
		.swap_mask = a->swap_mask,
		.compare_mask = a->compare_mask,
		.boundary = a->boundary,
	};
}

/* Does the client wait for the entry at the cursor, or is it the last for now? */
static bool is_awaited(const struct engine_qp *qp, const struct sent *sent)
{
	const struct requester *req = &qp->req;

	if (sent->flags & SENT_SIGNALED)
		return true;
	return req->cursor + 1 == req->tail && (req->ci == req->pi || qp->state == ENGINE_QP_SQD);
}

static bool wants_ack(const struct engine_qp *qp, const struct sent *sent, bool last)
{
	const struct requester *req = &qp->req;
	uint32_t every = (req->sent_mask + 1) / 2;

	if (every > ACK_REQ_EVERY)
		every = ACK_REQ_EVERY;
	if (last && is_awaited(qp, sent))
		return true;
	return req->n_since_ack_req >= every || qp->engine->n_free_packets <= PACKET_RESERVE ||
	       psn_diff(psn_of_packet(req, sent), req->sent_psn) < 0;
}

static int fill_data(struct engine_qp *qp, struct engine_packet *pkt, const struct sent *sent)
{
	struct requester *req = &qp->req;
	bool last = req->cur_packet + 1 == sent->n_psns;

	pkt->flags = req->cur_packet ? 0 : PACKET_FIRST;
	if (last) {
		pkt->flags |= PACKET_LAST;
		pkt->flags |= req->cur.has_imm ? PACKET_IMM : 0;
		pkt->flags |= req->cur.has_inval ? PACKET_INVAL : 0;
		pkt->flags |= req->cur.solicited ? PACKET_SOLICITED : 0;
	}
	if (likely(qp->reliable) && wants_ack(qp, sent, last))
		pkt->flags |= PACKET_ACK_REQ;
	return add_payload(qp, pkt, sent);
}

static int fill_packet(struct engine_qp *qp, struct engine_packet *pkt, const struct sent *sent)
{
	const struct requester *req = &qp->req;

	pkt->psn = psn_of_packet(req, sent);
	pkt->raddr = req->cur.raddr;
	pkt->rkey = req->cur.rkey;
	pkt->length_bytes = sent->bytes;
	pkt->imm = req->cur.imm;
	pkt->payload_bytes = 0;
	if (unlikely(qp->service && qp->service->fill_packet))
		qp->service->fill_packet(qp, pkt);
	switch ((enum engine_wqe_kind)sent->kind) {
	case ENGINE_WQE_READ:
		pkt->kind = PACKET_READ;
		fill_read(qp, pkt, sent);
		return 0;
	case ENGINE_WQE_ATOMIC:
		pkt->kind = PACKET_ATOMIC;
		fill_atomic(pkt, &req->cur.atomic);
		return 0;
	case ENGINE_WQE_WRITE:
	case ENGINE_WQE_WRITE_IMM:
		pkt->kind = PACKET_WRITE;
		return fill_data(qp, pkt, sent);
	default:
		pkt->kind = PACKET_SEND;
		return fill_data(qp, pkt, sent);
	}
}

/* The packet is on its way: move on, whole READs at once. */
void requester_step(struct engine_qp *qp, const struct sent *sent, uint8_t packet_flags)
{
	struct requester *req = &qp->req;
	bool fetches = sent->flags & SENT_FETCH;
	bool first_time = psn_of_packet(req, sent) == req->sent_psn;

	req->cur_packet = fetches ? sent->n_psns : req->cur_packet + 1;
	if (first_time)
		req->sent_psn = psn_of_packet(req, sent);
	if (fetches || (packet_flags & PACKET_ACK_REQ))
		req->n_since_ack_req = 0;
	else
		req->n_since_ack_req++;
	if (req->cur_packet == sent->n_psns) {
		req->cursor++;
		req->loaded = false;
	}
}

static int send_packet(struct engine_qp *qp, struct sent *sent)
{
	struct engine_packet *pkt = tenant_packet(qp, PACKET_USE_REQUEST);
	uint8_t flags;
	int r;

	if (unlikely(!pkt))
		return -EAGAIN;
	requester_start(qp, sent);
	r = fill_packet(qp, pkt, sent);
	if (unlikely(r < 0)) {
		packet_put(qp->engine, pkt);
		requester_fail(qp, sent, SHMD_SYNDROME_LOCAL_PROT_ERR);
		return r;
	}
	if (unlikely(!qp->reliable)) {
		qp->service->send(qp, sent, pkt);
		return 0;
	}
	flags = pkt->flags;
	if (!qp->timer_armed)
		timer_arm(qp, requester_retry_nsec(qp));
	r = qp_send(qp, pkt);
	if (unlikely(r == -EOPNOTSUPP)) {
		requester_fail(qp, sent, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
		return r;
	}
	fault_point(qp->engine, ENGINE_STEP_SEND);
	requester_step(qp, sent, flags);
	return 0;
}

/* WQEs without packets: a NOP, a UMR that was executed, a frame. */
static void pass_nop(struct engine_qp *qp, struct sent *sent)
{
	struct requester *req = &qp->req;
	bool awaited = is_awaited(qp, sent);

	requester_start(qp, sent);
	req->cursor++;
	req->loaded = false;
	requester_advance(qp);
	/* Earlier requests may not have asked for an acknowledgement. */
	if (awaited && req->head != req->cursor && qp->state != ENGINE_QP_ERR)
		requester_solicit(qp, req->sent_psn);
}

/* Up to `budget` packets and NOPs. */
unsigned int requester_send(struct engine_qp *qp, unsigned int budget)
{
	struct requester *req = &qp->req;
	unsigned int done = 0;

	if (unlikely(qp->state == ENGINE_QP_SQD || !qp->reliable))
		requester_advance(qp);
	while (done < budget && !req->rnr_wait && load(qp)) {
		struct sent *sent = &req->sent[req->cursor & req->sent_mask];

		if (!sent->n_psns)
			pass_nop(qp, sent);
		else if (unlikely(!qp->reliable) && qp->service->pass(qp, sent))
			; /* done */
		else if (must_wait(qp, sent) || send_packet(qp, sent) < 0)
			break;
		done++;
	}
	return done;
}
