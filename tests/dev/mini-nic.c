/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See mini-nic.h. The WQE is decoded here by byte offsets taken from the tables of the PRM, big-endian fields one by
 * one, so that a mistake in the layouts of kernels/abi does not cancel out.
 */
#include "tests/dev/mini-nic.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/doorbell.h>

#include "tests/lib/test.h"

#define MAX_WQE_BYTES 1024u
#define RECV_CQ_ENTRIES 64u

/* Memory of the queue: every part starts on a cache line of its own. */
enum {
	AT_SQ_DBREC = 0, /* struct shmd_dbrec */
	AT_CQ_DBREC = 64,
	AT_DOORBELL = 128,
	AT_PAGE = 192,
	AT_HEALTH = 256,
	AT_RECV_CQ = 320,
	AT_RINGS = AT_RECV_CQ + RECV_CQ_ENTRIES * SHMD_CQE_BYTES,
};

static uint64_t be(const uint8_t *p, size_t n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | *p++;
	return v;
}

static void put_be(uint8_t *p, size_t n, uint64_t v)
{
	while (n--) {
		p[n] = (uint8_t)v;
		v >>= 8;
	}
}

static void complain(struct mini_nic *nic, uint64_t what)
{
	__atomic_fetch_or(&nic->complaints, what, __ATOMIC_RELAXED);
}

static void count(uint64_t *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELEASE);
}

/* ---- CQEs ------------------------------------------------------------------------------------------------ */

/* The contract of abi/cqe.h: words of 64 bits, the last of them releasing. */
static void cqe_store(uint8_t *cqe, const uint8_t body[64])
{
	uint64_t words[8];
	int i;

	memcpy(words, body, sizeof(words));
	for (i = 0; i < 7; i++)
		__atomic_store_n((uint64_t *)cqe + i, words[i], __ATOMIC_RELAXED);
	__atomic_store_n((uint64_t *)cqe + 7, words[7], __ATOMIC_RELEASE);
}

static void send_cqe(struct mini_nic *nic, uint64_t index, uint8_t wqe_opcode, uint8_t syndrome)
{
	uint64_t slot = nic->attr.is_ordinary ? nic->cq_pi % nic->qp.cq_entries : 0;
	uint8_t owner = nic->attr.is_ordinary && nic->cq_pi & nic->qp.cq_entries ? 1 : 0;
	uint8_t body[64] = {0};

	if (index >= mini_nic_get(&nic->drop_cqe_from))
		return;
	if (nic->attr.is_ordinary) {
		uint32_t *word = (uint32_t *)(nic->memory + AT_CQ_DBREC);
		uint32_t ci = __builtin_bswap32(__atomic_load_n(word, __ATOMIC_ACQUIRE));

		if (((nic->cq_pi - ci) & 0xffffff) >= nic->qp.cq_entries)
			complain(nic, MINI_NIC_BAD_OVERRUN);
	}
	body[55] = syndrome;
	put_be(body + 56, 4, (uint32_t)wqe_opcode << 24 | MINI_NIC_QPN);
	put_be(body + 60, 2, index & 0xffff);
	body[63] = (uint8_t)((syndrome ? SHMD_CQE_REQ_ERR : SHMD_CQE_REQ) << 4 | owner);
	nic->cq_pi++;
	count(&nic->n_cqes);
	cqe_store((uint8_t *)(uintptr_t)nic->qp.cq_addr + slot * 64, body);
}

static void recv_cqe(struct mini_nic *nic, uint8_t opcode, uint32_t bytes, const uint8_t *imm)
{
	uint64_t slot = nic->recv_cq_pi % RECV_CQ_ENTRIES;
	uint8_t body[64] = {0};

	memcpy(body + 36, imm, 4);
	put_be(body + 44, 4, bytes);
	put_be(body + 60, 2, (nic->recv_ci - 1) & 0xffff);
	body[63] = (uint8_t)(opcode << 4 | (nic->recv_cq_pi & RECV_CQ_ENTRIES ? 1 : 0));
	cqe_store((uint8_t *)&nic->recv_cq[slot], body);
	nic->recv_cq_pi++;
}

/* ---- memory ---------------------------------------------------------------------------------------------- */

/* Whole words in one piece, so that others may wait on them. */
static void copy(void *dst, const void *src, size_t n)
{
	if (n == 8 && ((uintptr_t)dst | (uintptr_t)src) % 8 == 0)
		__atomic_store_n((uint64_t *)dst,
				 __atomic_load_n((const uint64_t *)src, __ATOMIC_ACQUIRE),
				 __ATOMIC_RELEASE);
	else if (n == 4 && ((uintptr_t)dst | (uintptr_t)src) % 4 == 0)
		__atomic_store_n((uint32_t *)dst,
				 __atomic_load_n((const uint32_t *)src, __ATOMIC_ACQUIRE),
				 __ATOMIC_RELEASE);
	else if (n == 2 && ((uintptr_t)dst | (uintptr_t)src) % 2 == 0)
		__atomic_store_n((uint16_t *)dst,
				 __atomic_load_n((const uint16_t *)src, __ATOMIC_ACQUIRE),
				 __ATOMIC_RELEASE);
	else
		memcpy(dst, src, n);
}

/* The memory of a key, from the spaces of a test; NULL if no space has all of it. */
static void *space_memory(struct mini_nic *nic, uint64_t key, uint32_t peer, uint64_t iova, uint64_t bytes)
{
	for (uint32_t i = 0; i < nic->attr.n_spaces; i++) {
		const struct mini_nic_space *space = &nic->attr.spaces[i];

		if (space->key == key && space->peer == peer && iova >= space->iova && iova + bytes <= space->iova + space->bytes)
			return space->memory + (iova - space->iova);
	}
	return NULL;
}

/* A data segment at `seg`: its memory, or NULL and a syndrome. */
static void *local_memory(struct mini_nic *nic, const uint8_t *seg, uint64_t *ret_bytes, uint8_t *ret_syndrome)
{
	uint64_t key = be(seg + 4, 4), iova = be(seg + 8, 8);
	void *memory;

	*ret_bytes = be(seg, 4);
	if (key == MINI_NIC_SCRATCH_LKEY || (key == MINI_NIC_LKEY && !nic->attr.spaces))
		return (void *)(uintptr_t)iova;
	memory = space_memory(nic, key, 0, iova, *ret_bytes);
	if (!memory)
		*ret_syndrome = SHMD_SYNDROME_LOCAL_PROT_ERR;
	return memory;
}

/* A remote address segment at `seg`, of a request that has so many bytes. */
static void *remote_memory(struct mini_nic *nic, const uint8_t *seg, const struct mini_nic_entry *entry, uint64_t bytes,
			   uint8_t *ret_syndrome)
{
	uint64_t key = be(seg + 8, 4), iova = be(seg, 8);
	void *memory;

	if (key == MINI_NIC_RKEY + entry->peer && !nic->attr.spaces)
		return (void *)(uintptr_t)iova;
	memory = space_memory(nic, key, entry->peer, iova, bytes);
	if (!memory)
		*ret_syndrome = SHMD_SYNDROME_REMOTE_ACCESS_ERR;
	return memory;
}

/* ---- requests: 0 or the syndrome --------------------------------------------------------------------------- */

static uint8_t do_write(struct mini_nic *nic, const uint8_t *wqe, struct mini_nic_entry *entry)
{
	uint8_t syndrome = 0;
	uint8_t aligned[32] __attribute__((aligned(8)));
	void *src, *dst;

	if (be(wqe + 32, 4) & SHMD_INLINE_SEG) {
		entry->bytes = be(wqe + 32, 4) & 0x7fffffff;
		if (entry->n_ds != 2 + (4 + entry->bytes + 15) / 16 || entry->bytes > 28)
			complain(nic, MINI_NIC_BAD_LENGTH);
		memcpy(aligned, wqe + 36, entry->bytes);
		src = aligned;
	} else {
		src = local_memory(nic, wqe + 32, &entry->bytes, &syndrome);
		if (entry->n_ds != 3 || !entry->bytes)
			complain(nic, MINI_NIC_BAD_LENGTH);
	}
	dst = remote_memory(nic, wqe + 16, entry, entry->bytes, &syndrome);
	if (!syndrome && !nic->attr.discards)
		copy(dst, src, entry->bytes);
	return syndrome;
}

static uint8_t do_read(struct mini_nic *nic, const uint8_t *wqe, struct mini_nic_entry *entry)
{
	uint8_t syndrome = 0;
	void *dst = local_memory(nic, wqe + 32, &entry->bytes, &syndrome);
	void *src = remote_memory(nic, wqe + 16, entry, entry->bytes, &syndrome);

	if (entry->n_ds != 3 || !entry->bytes)
		complain(nic, MINI_NIC_BAD_LENGTH);
	if (!syndrome && !nic->attr.discards)
		copy(dst, src, entry->bytes);
	return syndrome;
}

struct operands {
	uint64_t swap_or_add, compare, swap_mask, compare_mask, boundary;
	size_t bytes, segs_bytes;
	bool is_swap;
};

static struct operands parse_atomic(const uint8_t *wqe)
{
	struct operands o = {.swap_mask = ~0ull, .compare_mask = ~0ull, .segs_bytes = 16};
	bool is_masked = wqe[3] == 0x14 || wqe[3] == 0x15;
	const uint8_t *p = wqe + 32;

	o.is_swap = wqe[3] == 0x11 || wqe[3] == 0x14;
	o.bytes = is_masked && wqe[0] == 0x08 ? 4 : 8;
	o.swap_or_add = be(p, o.bytes);
	if (o.is_swap)
		o.compare = be(p + o.bytes, o.bytes);
	else if (is_masked)
		o.boundary = be(p + o.bytes, o.bytes);
	if (o.is_swap && is_masked) {
		o.swap_mask = be(p + 2 * o.bytes, o.bytes);
		o.compare_mask = be(p + 3 * o.bytes, o.bytes);
		o.segs_bytes = 4 * o.bytes;
	}
	return o;
}

/* Bit by bit, as the definition says: a carry leaves bit i only when boundary bit i is clear. */
static uint64_t bounded_add(uint64_t a, uint64_t b, uint64_t boundary, size_t bytes)
{
	uint64_t sum = 0, carry = 0;
	size_t i;

	for (i = 0; i < bytes * 8; i++) {
		uint64_t s = (a >> i & 1) + (b >> i & 1) + carry;

		sum |= (s & 1) << i;
		carry = boundary >> i & 1 ? 0 : s >> 1;
	}
	return sum;
}

static uint64_t new_value(const struct operands *o, uint64_t old)
{
	if (!o->is_swap)
		return bounded_add(old, o->swap_or_add, o->boundary, o->bytes);
	if ((old ^ o->compare) & o->compare_mask & (o->bytes == 4 ? 0xffffffffu : ~0ull))
		return old;
	return (old & ~o->swap_mask) | (o->swap_or_add & o->swap_mask);
}

static uint64_t apply32(uint32_t *word, const struct operands *o)
{
	uint32_t old = __atomic_load_n(word, __ATOMIC_ACQUIRE);

	while (!__atomic_compare_exchange_n(word, &old, (uint32_t)new_value(o, old), false,
					    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		;
	return old;
}

static uint64_t apply64(uint64_t *word, const struct operands *o)
{
	uint64_t old = __atomic_load_n(word, __ATOMIC_ACQUIRE);

	while (!__atomic_compare_exchange_n(word, &old, new_value(o, old), false, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE))
		;
	return old;
}

static uint32_t lack_of(uint8_t opcode, uint32_t bytes)
{
	if (opcode == 0x11 || opcode == 0x12)
		return SHMD_QP_NO_ATOMIC_8;
	return bytes == 4 ? SHMD_QP_NO_MASKED_4 : SHMD_QP_NO_MASKED_8;
}

static uint8_t do_atomic(struct mini_nic *nic, const uint8_t *wqe, struct mini_nic_entry *entry)
{
	struct operands o = parse_atomic(wqe);
	uint8_t syndrome = 0;
	void *word = remote_memory(nic, wqe + 16, entry, o.bytes, &syndrome);
	void *dst = local_memory(nic, wqe + 32 + o.segs_bytes, &entry->bytes, &syndrome);
	uint64_t old;

	if (nic->attr.lacks & lack_of(wqe[3], o.bytes))
		complain(nic, MINI_NIC_BAD_ATOMIC);
	if (entry->bytes != o.bytes || entry->n_ds != 3 + o.segs_bytes / 16)
		complain(nic, MINI_NIC_BAD_LENGTH);
	if (syndrome)
		return syndrome;
	old = o.bytes == 4 ? apply32(word, &o) : apply64(word, &o);
	if (o.bytes == 4) {
		uint32_t old_be = __builtin_bswap32((uint32_t)old);

		memcpy(dst, &old_be, 4);
	} else {
		old = nic->attr.results_8_be ? __builtin_bswap64(old) : old;
		memcpy(dst, &old, 8);
	}
	return 0;
}

static uint8_t do_send(struct mini_nic *nic, const uint8_t *wqe, struct mini_nic_entry *entry)
{
	uint32_t *rcv = (uint32_t *)(nic->memory + AT_SQ_DBREC);
	uint64_t slot = nic->recv_ci & (nic->attr.rq_wqes - 1);
	const uint8_t *recv =
		(const uint8_t *)(uintptr_t)nic->qp.rq_addr + (slot << nic->qp.rq_stride_shift);
	uint8_t syndrome = 0;
	uint64_t room = 0;
	void *src = NULL, *dst = NULL;

	if (!nic->attr.rq_wqes ||
	    (uint16_t)(__builtin_bswap32(__atomic_load_n(rcv, __ATOMIC_ACQUIRE)) - nic->recv_ci) ==
		    0)
		return SHMD_SYNDROME_RNR_RETRY_EXC_ERR;
	nic->recv_ci++;
	if (entry->n_ds == 2)
		src = local_memory(nic, wqe + 16, &entry->bytes, &syndrome);
	if (be(recv + 4, 4) != SHMD_LKEY_TERMINATE)
		dst = local_memory(nic, recv, &room, &syndrome);
	if (room < entry->bytes)
		return SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR;
	if (syndrome)
		return syndrome;
	if (entry->bytes)
		copy(dst, src, entry->bytes);
	recv_cqe(nic, wqe[3] == 0x0b ? SHMD_CQE_RESP_SEND_IMM : SHMD_CQE_RESP_SEND,
		 (uint32_t)entry->bytes, wqe + 12);
	return 0;
}

/*
 * Takes the address vector, bytes 16 to 63, out of a WQE of a DCI: key, bit 31 and the DCT's number, and whatever else
 * the peer's entry says. A NOP has none.
 */
static uint8_t find_peer(struct mini_nic *nic, uint8_t *wqe, struct mini_nic_entry *entry)
{
	uint32_t i = 0;

	if (!nic->attr.n_peers || entry->opcode == 0x00)
		return 0;
	while (i < nic->attr.n_peers && memcmp(wqe + 16, nic->peers[i].av, 48) != 0)
		i++;
	if (i == nic->attr.n_peers || entry->n_ds < 5) {
		complain(nic, MINI_NIC_BAD_AV);
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	}
	memmove(wqe + 16, wqe + 64, MAX_WQE_BYTES - 64);
	entry->n_ds -= 3;
	entry->raddr = be(wqe + 16, 8);
	entry->peer = (uint8_t)i;
	return mini_nic_get(&nic->gone) >> i & 1 ? SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR : 0;
}

static uint8_t dispatch(struct mini_nic *nic, uint8_t *wqe, struct mini_nic_entry *entry)
{
	uint8_t syndrome = find_peer(nic, wqe, entry);

	if (syndrome)
		return syndrome;
	switch (entry->opcode) {
	case 0x00:
		return 0;
	case 0x08:
		return do_write(nic, wqe, entry);
	case 0x0a:
	case 0x0b:
		return do_send(nic, wqe, entry);
	case 0x10:
		return do_read(nic, wqe, entry);
	case 0x11:
	case 0x12:
	case 0x14:
	case 0x15:
		return do_atomic(nic, wqe, entry);
	default:
		return SHMD_SYNDROME_LOCAL_QP_OP_ERR;
	}
}

/* ---- the send queue ---------------------------------------------------------------------------------------- */

/* A copy of the WQE at head, unwrapped. Returns its WQEBBs. */
static uint64_t load_wqe(struct mini_nic *nic, uint8_t *wqe)
{
	uint64_t mask = nic->attr.sq_wqebbs - 1;
	const uint8_t *ring = (const uint8_t *)(uintptr_t)nic->qp.sq_addr;
	uint64_t i, n;

	n = (ring[(nic->head & mask) * 64 + 7] + 3u) / 4;
	n = n ? n : 1;
	for (i = 0; i < n; i++)
		memcpy(wqe + i * 64, ring + ((nic->head + i) & mask) * 64, 64);
	return n;
}

static void execute_one(struct mini_nic *nic)
{
	struct mini_nic_entry *entry = &nic->log[nic->n_wqes % MINI_NIC_LOG];
	uint8_t wqe[MAX_WQE_BYTES];
	uint64_t n_wqebbs = load_wqe(nic, wqe);
	uint8_t syndrome;

	*entry = (struct mini_nic_entry){
		.index = nic->head, .opcode = wqe[3], .fm_ce_se = wqe[11], .n_ds = wqe[7],
		.n_wqebbs = (uint8_t)n_wqebbs};
	if (entry->n_ds > 1)
		entry->raddr = be(wqe + 16, 8);
	if (be(wqe + 1, 2) != (nic->head & 0xffff))
		complain(nic, MINI_NIC_BAD_INDEX);
	if (be(wqe + 4, 3) != MINI_NIC_QPN)
		complain(nic, MINI_NIC_BAD_QPN);
	if (n_wqebbs > 1 && (wqe[11] & SHMD_WQE_CE_MASK) == SHMD_WQE_CE_ALWAYS)
		complain(nic, MINI_NIC_BAD_WIDE_CQE);
	if (nic->is_broken)
		syndrome = SHMD_SYNDROME_WR_FLUSH_ERR;
	else if (nic->head == mini_nic_get(&nic->fail_index))
		syndrome = (uint8_t)mini_nic_get(&nic->fail_syndrome);
	else
		syndrome = dispatch(nic, wqe, entry);
	nic->is_broken = nic->is_broken || syndrome;
	count(&nic->n_wqes);
	if (syndrome == SHMD_SYNDROME_WR_FLUSH_ERR
		    ? nic->attr.is_ordinary || nic->attr.flushes
		    : syndrome || (wqe[11] & SHMD_WQE_CE_MASK) == SHMD_WQE_CE_ALWAYS)
		send_cqe(nic, nic->head, wqe[3], syndrome);
	mini_nic_set(&nic->head, nic->head + n_wqebbs);
}

static uint64_t load_doorbell(struct mini_nic *nic)
{
	return __atomic_load_n((uint64_t *)(nic->memory + AT_DOORBELL), __ATOMIC_ACQUIRE);
}

static void on_doorbell(struct mini_nic *nic, uint64_t doorbell)
{
	uint32_t *snd = (uint32_t *)(nic->memory + AT_SQ_DBREC + 4);
	uint16_t pi = (uint16_t)__builtin_bswap32(__atomic_load_n(snd, __ATOMIC_ACQUIRE));
	uint16_t rung = (uint16_t)(__builtin_bswap64(doorbell) >> 40);

	count(&nic->n_doorbells);
	if ((__builtin_bswap64(doorbell) >> 8 & 0xffffff) != MINI_NIC_QPN)
		complain(nic, MINI_NIC_BAD_QPN);
	if ((int16_t)(rung - pi) > 0)
		complain(nic, MINI_NIC_BAD_DOORBELL);
	while ((uint16_t)nic->head != pi && !mini_nic_get(&nic->stop))
		execute_one(nic);
}

/* The protocol of struct shmd_nic_page: asleep, fence, one more look, sleep. */
static void sleep_until_woken(struct mini_nic *nic, uint64_t seen)
{
	struct pollfd pfd = {.fd = (int)nic->qp.wake_handle, .events = POLLIN};
	uint64_t n;

	__atomic_exchange_n(&nic->page->asleep, 1, __ATOMIC_SEQ_CST);
	if (load_doorbell(nic) == seen && !mini_nic_get(&nic->stop)) {
		count(&nic->n_sleeps);
		(void)poll(&pfd, 1, -1);
		(void)!read(pfd.fd, &n, sizeof(n));
	}
	__atomic_store_n(&nic->page->asleep, 0, __ATOMIC_RELAXED);
}

static void idle(struct mini_nic *nic, uint64_t seen, unsigned int *n_idle)
{
	struct timespec ts = {.tv_nsec = 20000};

	if (++*n_idle < 100)
		sched_yield();
	else if (nic->attr.sleeps)
		sleep_until_woken(nic, seen);
	else
		nanosleep(&ts, NULL);
}

static void *nic_thread(void *arg)
{
	struct mini_nic *nic = arg;
	uint64_t seen = 0;
	unsigned int n_idle = 0;

	while (!mini_nic_get(&nic->stop)) {
		uint64_t doorbell = load_doorbell(nic);

		if (doorbell == seen || mini_nic_get(&nic->stalled)) {
			idle(nic, seen, &n_idle);
			continue;
		}
		n_idle = 0;
		seen = doorbell;
		on_doorbell(nic, doorbell);
	}
	return NULL;
}

/* ---- life -------------------------------------------------------------------------------------------------- */

static void fill_addresses(struct mini_nic *nic)
{
	struct shmd_dev_qp *qp = &nic->qp;
	uintptr_t at = (uintptr_t)nic->memory;
	uintptr_t rings = at + AT_RINGS;

	qp->sq_dbrec_addr = at + AT_SQ_DBREC + 4;
	qp->rq_dbrec_addr = at + AT_SQ_DBREC;
	qp->cq_dbrec_addr = at + AT_CQ_DBREC;
	qp->doorbell_addr = at + AT_DOORBELL;
	qp->nic_page_addr = at + AT_PAGE;
	qp->health_addr = at + AT_HEALTH;
	qp->sq_addr = rings;
	qp->cq_addr = qp->sq_addr + qp->sq_wqebbs * 64ull;
	qp->scratch_addr = qp->cq_addr + qp->cq_entries * 64ull;
	qp->scratch_iova = qp->scratch_addr;
	qp->slot_busy_addr = qp->scratch_addr + qp->sq_wqebbs * 16ull;
	qp->rq_addr = qp->slot_busy_addr + (qp->sq_wqebbs * 4ull + 63) / 64 * 64;
	nic->page = (struct shmd_nic_page *)(at + AT_PAGE);
	nic->recv_cq = (struct shmd_cqe *)(at + AT_RECV_CQ);
}

static size_t memory_bytes(const struct shmd_dev_qp *qp)
{
	size_t bytes = AT_RINGS + qp->sq_wqebbs * (64ull + 16 + 4) + qp->cq_entries * 64ull + 64 +
		       ((size_t)qp->rq_wqes << qp->rq_stride_shift);

	return (bytes + 4095) / 4096 * 4096;
}

static void fill_qp(struct mini_nic *nic)
{
	struct shmd_dev_qp *qp = &nic->qp;

	qp->qpn = MINI_NIC_QPN;
	qp->scratch_lkey_be = __builtin_bswap32(MINI_NIC_SCRATCH_LKEY);
	qp->sq_wqebbs = nic->attr.sq_wqebbs;
	qp->cq_entries = nic->attr.cq_entries;
	qp->rq_wqes = nic->attr.rq_wqes;
	qp->rq_stride_shift = nic->attr.rq_stride_shift;
	qp->flags = (nic->attr.is_ordinary ? 0 : SHMD_QP_CQ_COLLAPSED) |
		    (nic->attr.sleeps ? SHMD_QP_WAKE : 0) | (nic->attr.n_peers ? SHMD_QP_DC : 0) | nic->attr.lacks |
		    (nic->attr.results_8_be ? SHMD_QP_ATOMIC_8_BE : 0);
	qp->sharing = (uint8_t)nic->attr.sharing;
	qp->placement = SHMD_PLACEMENT_HOST;
	qp->doorbell_mode = SHMD_DOORBELL_CPU;
	qp->max_inline_bytes = 28;
	qp->sq_rsvd_index = qp->sq_ready_index = qp->sq_wqe_pi = qp->db_index =
		nic->attr.start_index;
	qp->cqe_ci = nic->attr.start_index;
}

/* No two have a byte in common where they can differ. */
static void fill_peers(struct mini_nic *nic)
{
	uint32_t i;

	ASSERT_LE(nic->attr.n_peers, MINI_NIC_PEERS);
	for (i = 0; i < nic->attr.n_peers; i++) {
		struct shmd_dev_peer *peer = &nic->peers[i];

		peer->dc_key = 0xd0c1c2c3c4c5c6c7ull + i * 0x0101010101010101ull;
		peer->dctn = 0x7a8b9c + i;
		memset(peer->av, (int)(0x11 * (i + 1)), sizeof(peer->av));
		put_be(peer->av, 8, peer->dc_key);
		put_be(peer->av + 8, 4, 0x80000000u | peer->dctn);
	}
}

struct mini_nic *mini_nic_new(const struct mini_nic_attr *attr)
{
	struct mini_nic *nic = calloc(1, sizeof(*nic));

	ASSERT(nic);
	nic->attr = *attr;
	if (!nic->attr.sq_wqebbs)
		nic->attr.sq_wqebbs = 64;
	if (!nic->attr.cq_entries)
		nic->attr.cq_entries = nic->attr.sq_wqebbs;
	if (!nic->attr.rq_stride_shift)
		nic->attr.rq_stride_shift = 4;
	nic->fail_index = MINI_NIC_NEVER;
	nic->drop_cqe_from = MINI_NIC_NEVER;
	nic->head = nic->attr.start_index;
	fill_qp(nic);
	fill_peers(nic);
	nic->memory = aligned_alloc(4096, memory_bytes(&nic->qp));
	ASSERT(nic->memory);
	memset(nic->memory, 0, memory_bytes(&nic->qp));
	fill_addresses(nic);
	memset((void *)(uintptr_t)nic->qp.cq_addr, 0xff, nic->qp.cq_entries * 64ull);
	memset(nic->recv_cq, 0xff, RECV_CQ_ENTRIES * 64);
	/* The dbrec as it would stand after start_index WQEBBs. */
	put_be(nic->memory + AT_SQ_DBREC + 4, 4, nic->attr.start_index & 0xffff);
	nic->qp.wake_handle = (uint64_t)eventfd(0, EFD_CLOEXEC);
	ASSERT_OK(pthread_create(&nic->thread, NULL, nic_thread, nic));
	nic->has_thread = true;
	return nic;
}

void mini_nic_check(struct mini_nic *nic)
{
	ASSERT_EQ(mini_nic_get(&nic->complaints), 0u);
}

struct mini_nic *mini_nic_free(struct mini_nic *nic)
{
	if (!nic)
		return NULL;
	if (nic->has_thread) {
		mini_nic_set(&nic->stop, 1);
		shmd_dev_host_wake(nic->qp.wake_handle);
		pthread_join(nic->thread, NULL);
		mini_nic_check(nic);
		close((int)nic->qp.wake_handle);
	}
	free(nic->memory);
	free(nic);
	return NULL;
}
