/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's half of the queue ABI: posts WQEs, rings, and takes CQEs from collapsed and ordinary CQs.
 *
 * One thread at a time for one QP. Order of the stores is the one hardware asks for: WQE, dbrec, doorbell.
 */
#include "tests/conformance/conf.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

/* ---- posting ---------------------------------------------------------------------------------------------- */

unsigned int conf_room(const struct conf_qp *qp)
{
	return qp->dev->sq_wqebbs - (unsigned int)(qp->sq_pi - qp->sq_ci);
}

static void write_ctrl(const struct conf_qp *qp, const struct conf_wqe *wqe,
		       struct shmd_wqe_ctrl_seg *ctrl)
{
	uint32_t index = (uint32_t)(qp->sq_pi & 0xffff);
	uint32_t ds = wqe->ds_written < 0 ? wqe->ds : (uint32_t)wqe->ds_written;
	uint32_t qpn = (qp->dev->qpn ^ wqe->qpn_xor) & 0xffffff;

	memset(ctrl, 0, sizeof(*ctrl));
	ctrl->opmod_idx_opcode = htobe32((uint32_t)wqe->opmod << 24 | index << 8 | wqe->opcode);
	ctrl->qpn_ds = htobe32(qpn << 8 | ds);
	ctrl->fm_ce_se = wqe->fm_ce_se;
	ctrl->imm = htobe32(wqe->imm);
}

uint16_t conf_post(struct conf_qp *qp, const struct conf_wqe *wqe)
{
	uint32_t mask = qp->dev->sq_wqebbs - 1;
	unsigned int n = conf_wqe_wqebbs(wqe);
	uint8_t *ring = (uint8_t *)(uintptr_t)qp->dev->sq_addr;
	uint8_t bytes[sizeof(wqe->bytes)];
	uint16_t index = (uint16_t)qp->sq_pi;

	ASSERT_LE(n, conf_room(qp));
	memcpy(bytes, wqe->bytes, sizeof(bytes));
	write_ctrl(qp, wqe, (struct shmd_wqe_ctrl_seg *)bytes);
	memcpy(&qp->doorbell, bytes, sizeof(qp->doorbell));
	for (unsigned int i = 0; i < n; i++)
		memcpy(ring + ((qp->sq_pi + i) & mask) * SHMD_WQEBB_BYTES,
		       bytes + i * SHMD_WQEBB_BYTES, SHMD_WQEBB_BYTES);
	qp->slot_wqebbs[qp->sq_pi & mask] = (uint8_t)n;
	qp->sq_pi += n;
	return index;
}

static void store_be32(uint64_t addr, uint32_t value)
{
	atomic_store_explicit((_Atomic uint32_t *)(uintptr_t)addr, htobe32(value),
			      memory_order_release);
}

void conf_dbrec(struct conf_qp *qp)
{
	store_be32(qp->dev->sq_dbrec_addr, qp->sq_pi & 0xffff);
}

void conf_doorbell(struct conf_qp *qp, uint64_t value)
{
	atomic_store_explicit((_Atomic uint64_t *)(uintptr_t)qp->dev->doorbell_addr, value,
			      memory_order_release);
}

/* A locked operation orders like a fence, and TSan knows it. */
static void full_fence(void)
{
	_Atomic uint32_t word = 0;

	atomic_fetch_add(&word, 1);
}

void conf_wake(struct conf_qp *qp)
{
	const struct shmd_nic_page *page = (const void *)(uintptr_t)qp->dev->nic_page_addr;

	full_fence();
	if (page && atomic_load((const _Atomic uint32_t *)&page->asleep))
		shmd_dev_host_wake(qp->dev->wake_handle);
}

void conf_ring(struct conf_qp *qp)
{
	conf_dbrec(qp);
	conf_doorbell(qp, qp->doorbell);
	conf_wake(qp);
}

uint16_t conf_run(struct conf_qp *qp, const struct conf_wqe *wqe)
{
	uint16_t index = conf_post(qp, wqe);

	conf_ring(qp);
	return index;
}

uint16_t conf_post_recv_sges(struct conf_qp *qp, const struct conf_sge *sges, unsigned int n_sges)
{
	unsigned int max = (1u << qp->dev->rq_stride_shift) / SHMD_DS_BYTES;
	uint64_t slot = qp->rq_pi & (qp->dev->rq_wqes - 1);
	struct shmd_wqe_data_seg *seg =
		(void *)(uintptr_t)(qp->dev->rq_addr + (slot << qp->dev->rq_stride_shift));

	ASSERT_NE(qp->dev->rq_wqes, 0);
	ASSERT_LE(n_sges, max);
	ASSERT_LT(qp->rq_pi - qp->rq_ci, qp->dev->rq_wqes);
	for (unsigned int i = 0; i < n_sges; i++)
		seg[i] = (struct shmd_wqe_data_seg){.byte_count = htobe32(sges[i].bytes),
						    .lkey = sges[i].lkey_be,
						    .addr = htobe64(sges[i].addr)};
	if (n_sges < max)
		seg[n_sges] = (struct shmd_wqe_data_seg){.lkey = htobe32(SHMD_LKEY_TERMINATE)};
	store_be32(qp->dev->rq_dbrec_addr, ++qp->rq_pi & 0xffff);
	return (uint16_t)(qp->rq_pi - 1);
}

uint16_t conf_post_recv(struct conf_qp *qp, size_t loc, uint32_t bytes)
{
	const struct conf_mem *mem = &qp->side->mem;
	struct conf_sge sge = {(uintptr_t)mem->addr + loc, bytes, mem->lkey_be};

	return conf_post_recv_sges(qp, &sge, bytes ? 1 : 0);
}

/* ---- completions ------------------------------------------------------------------------------------------------ */

static void decode_cqe(const void *entry, struct conf_cqe *ret)
{
	const struct shmd_cqe *cqe = entry;
	const struct shmd_err_cqe *err = entry;

	*ret = (struct conf_cqe){
		.opcode = cqe->op_own >> 4,
		.wqe_opcode = be32toh(cqe->sop_drop_qpn) >> 24,
		.wqe_counter = be16toh(cqe->wqe_counter),
		.qpn = be32toh(cqe->sop_drop_qpn) & 0xffffff,
		.byte_cnt = be32toh(cqe->byte_cnt),
		.imm = be32toh(cqe->imm_inval_pkey),
	};
	if (ret->opcode == SHMD_CQE_REQ_ERR || ret->opcode == SHMD_CQE_RESP_ERR)
		ret->syndrome = err->syndrome;
}

static uint8_t load_op_own(const struct shmd_cqe *cqe)
{
	return atomic_load_explicit((const _Atomic uint8_t *)&cqe->op_own, memory_order_acquire);
}

static bool take_ordinary(const struct shmd_cqe *ring, uint32_t entries, uint64_t ci,
			  struct conf_cqe *ret_cqe)
{
	const struct shmd_cqe *cqe = &ring[ci & (entries - 1)];
	uint8_t op_own = load_op_own(cqe);

	if (op_own >> 4 == SHMD_CQE_INVALID ||
	    (op_own & SHMD_CQE_OWNER_MASK) != ((ci / entries) & 1))
		return false;
	decode_cqe(cqe, ret_cqe);
	return true;
}

/*
 * Entry 0 may be overwritten while it is read: take it when its last 8 bytes are the same before and after.
 * News is an entry that is not the one last seen: sq_ci stands behind that one's WQE.
 */
static bool take_collapsed(const struct conf_qp *qp, struct conf_cqe *ret_cqe)
{
	const struct shmd_cqe *cqe = (const void *)(uintptr_t)qp->dev->cq_addr;
	const _Atomic uint64_t *tail = (const void *)((const uint8_t *)cqe + 56);
	struct shmd_cqe copy;
	uint64_t before;

	do {
		before = atomic_load(tail);
		memcpy(&copy, cqe, sizeof(copy));
		full_fence();
	} while (atomic_load(tail) != before || memcmp((uint8_t *)&copy + 56, &before, 8) != 0);
	if (copy.op_own >> 4 == SHMD_CQE_INVALID)
		return false;
	decode_cqe(&copy, ret_cqe);
	return (int16_t)(ret_cqe->wqe_counter - (uint16_t)qp->sq_ci) >= 0;
}

/* The ring is free up to the end of the WQE that completed. */
static void free_slots(struct conf_qp *qp, uint16_t counter)
{
	uint64_t first = qp->sq_ci + (uint16_t)(counter - (uint16_t)qp->sq_ci);

	if (first >= qp->sq_pi)
		test_fail(TEST_WHERE, "a CQE has wqe_counter %u, but only %u to %u are under way",
			  counter, (uint16_t)qp->sq_ci, (uint16_t)(qp->sq_pi - 1));
	qp->sq_ci = first + qp->slot_wqebbs[first & (qp->dev->sq_wqebbs - 1)];
}

bool conf_poll(struct conf_qp *qp, struct conf_cqe *ret_cqe)
{
	const struct shmd_cqe *ring = (const void *)(uintptr_t)qp->dev->cq_addr;

	if (qp->collapsed) {
		if (!take_collapsed(qp, ret_cqe))
			return false;
	} else {
		if (!take_ordinary(ring, qp->dev->cq_entries, qp->cq_ci, ret_cqe))
			return false;
		store_be32(qp->dev->cq_dbrec_addr, ++qp->cq_ci & 0xffffff);
	}
	free_slots(qp, ret_cqe->wqe_counter);
	return true;
}

bool conf_poll_recv(struct conf_qp *qp, struct conf_cqe *ret_cqe)
{
	if (!take_ordinary(qp->rcq.ring, qp->rcq.entries, qp->rcq_ci, ret_cqe))
		return false;
	store_be32((uintptr_t)qp->rcq.dbrec, ++qp->rcq_ci & 0xffffff);
	qp->rq_ci++;
	return true;
}

/* ---- waiting ------------------------------------------------------------------------------------------------------ */

uint64_t conf_wait_nsec = CONF_WAIT_NSEC;

void conf_pause(struct conf_timer *timer)
{
	uint64_t now = shmd_dev_host_now_nsec();
	uint64_t limit_nsec = test_has_sanitizer() ? 4 * conf_wait_nsec : conf_wait_nsec;

	if (!timer->end_nsec)
		timer->end_nsec = now + limit_nsec;
	else if (now >= timer->end_nsec)
		test_fail(timer->where, "this has not come in %llu ms",
			  (unsigned long long)limit_nsec / 1000000);
	shmd_dev_host_relax(timer->round++);
}

void conf_sleep_msec(unsigned int msec)
{
	struct timespec time = {.tv_sec = msec / 1000, .tv_nsec = (long)(msec % 1000) * 1000000};

	nanosleep(&time, NULL);
}

struct conf_cqe conf_wait_at(const char *where, struct conf_qp *qp, uint16_t index)
{
	struct conf_timer timer = {.where = where};
	struct conf_cqe cqe;

	for (;;) {
		while (!conf_poll(qp, &cqe))
			conf_pause(&timer);
		if (cqe.opcode != SHMD_CQE_REQ || (int16_t)(cqe.wqe_counter - index) >= 0)
			return cqe;
	}
}

struct conf_cqe conf_wait_recv_at(const char *where, struct conf_qp *qp)
{
	struct conf_timer timer = {.where = where};
	struct conf_cqe cqe;

	while (!conf_poll_recv(qp, &cqe))
		conf_pause(&timer);
	return cqe;
}

/* ---- expectations ----------------------------------------------------------------------------------------------------- */

static void expect(const char *where, const struct conf_qp *qp, const struct conf_cqe *cqe,
		   const struct conf_cqe *want)
{
	if (cqe->opcode != want->opcode || cqe->syndrome != want->syndrome ||
	    cqe->wqe_counter != want->wqe_counter || cqe->qpn != qp->dev->qpn)
		test_fail(where,
			  "the CQE has opcode 0x%x syndrome 0x%02x (%s) counter %u qpn 0x%x; "
			  "must be opcode 0x%x syndrome 0x%02x (%s) counter %u qpn 0x%x",
			  cqe->opcode, cqe->syndrome, shmd_syndrome_text(cqe->syndrome),
			  cqe->wqe_counter, cqe->qpn, want->opcode, want->syndrome,
			  shmd_syndrome_text(want->syndrome), want->wqe_counter, qp->dev->qpn);
}

void conf_expect_ok_at(const char *where, struct conf_qp *qp, uint16_t index)
{
	struct conf_cqe cqe = conf_wait_at(where, qp, index);

	expect(where, qp, &cqe, &(struct conf_cqe){.opcode = SHMD_CQE_REQ, .wqe_counter = index});
}

void conf_expect_error_at(const char *where, struct conf_qp *qp, uint16_t index, uint8_t syndrome)
{
	struct conf_cqe cqe = conf_wait_at(where, qp, index);

	expect(where, qp, &cqe,
	       &(struct conf_cqe){
		       .opcode = SHMD_CQE_REQ_ERR, .syndrome = syndrome, .wqe_counter = index});
}

void conf_expect_recv_at(const char *where, struct conf_qp *qp, uint16_t index, uint8_t opcode,
			 uint32_t byte_cnt)
{
	struct conf_cqe cqe = conf_wait_recv_at(where, qp);

	expect(where, qp, &cqe, &(struct conf_cqe){.opcode = opcode, .wqe_counter = index});
	test_check_compare(where, "byte_cnt of the receive CQE", test_value_unsigned(cqe.byte_cnt),
			   TEST_EQ, test_value_unsigned(byte_cnt));
}

void conf_expect_recv_error_at(const char *where, struct conf_qp *qp, uint16_t index,
			       uint8_t syndrome)
{
	struct conf_cqe cqe = conf_wait_recv_at(where, qp);

	expect(where, qp, &cqe,
	       &(struct conf_cqe){
		       .opcode = SHMD_CQE_RESP_ERR, .syndrome = syndrome, .wqe_counter = index});
}

void conf_expect_no_cqe_at(const char *where, struct conf_qp *qp, unsigned int msec)
{
	struct conf_cqe cqe;

	conf_sleep_msec(msec);
	if (conf_poll(qp, &cqe))
		test_fail(where, "a CQE came too early: opcode 0x%x syndrome 0x%02x counter %u",
			  cqe.opcode, cqe.syndrome, cqe.wqe_counter);
}
