/* SPDX-License-Identifier: Apache-2.0 */
/* See device-queues.h. */
#include "tests/nvshmem/device-queues.h"

#include <endian.h>
#include <string.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/wqe.h>

#define UNIT 64u
#define MOST_OF_ONE (UINT64_C(1) << 30)

static void *at(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

static uint64_t offset_of(const struct device_queues *queues, const void *symmetric)
{
	uint64_t offset = (uint64_t)(uintptr_t)symmetric - queues->state.heap_base;

	CHECK(offset < queues->state.heap_size);
	return offset;
}

struct device_queues device_queues_read(void)
{
	struct device_queues queues = {.state = device_library_state()};

	memcpy(&queues.ibgda, device_library.transport, sizeof(queues.ibgda));
	return queues;
}

struct nvs_ibgda_qp *queue_to(const struct device_queues *queues, int pe, uint32_t number)
{
	const struct nvs_ibgda_state *ibgda = &queues->ibgda;
	struct nvs_ibgda_qp *rcs = at(ibgda->rcs);
	uint32_t n = ibgda->num_rc_per_pe;

	if (pe == queues->state.mype)
		return at(ibgda->dcis);
	CHECK(number < n);
	if (device_library.version.minor <= 4)
		return &rcs[(uint32_t)pe * n + number];
	return &rcs[number * (uint32_t)queues->state.npes + (uint32_t)pe];
}

/* ---- keys */

/* Memory outside the heap. */
static uint64_t find_buffer(const struct device_queues *queues, uint64_t addr, uint32_t *ret_key)
{
	const struct nvs_ibgda_buffer *buffer = at(queues->ibgda.local_only_mhandle_head);

	while (buffer && (addr < buffer->start || addr > buffer->end))
		buffer = at(buffer->next);
	CHECK(buffer);
	*ret_key = buffer->lkeys_be[0];
	return buffer->end + 1 - addr;
}

/* Bytes up to the end of the registration. DeepEP looks for keys in the state alone. */
static uint64_t find_lkey(const struct device_queues *queues, uint64_t addr, uint32_t *ret_key)
{
	uint64_t i = (addr - queues->state.heap_base) >> queues->ibgda.log2_cumem_granularity;
	const struct nvs_ibgda_key *key;

	if (addr < queues->state.heap_base || addr >= queues->state.heap_base + queues->state.heap_size)
		return find_buffer(queues, addr, ret_key);
	CHECK(i < NVS_IBGDA_CONST_KEYS);
	key = &queues->ibgda.lkeys[i];
	CHECK(addr < key->next_addr);
	*ret_key = key->key_be;
	return key->next_addr - addr;
}

static uint64_t find_rkey(const struct device_queues *queues, uint64_t offset, int pe, uint64_t *ret_addr, uint32_t *ret_key)
{
	uint64_t i = (offset >> queues->ibgda.log2_cumem_granularity) * (uint64_t)queues->state.npes + (uint64_t)pe;
	const struct nvs_ibgda_key *table = at(queues->ibgda.rkeys_table);
	const struct nvs_ibgda_key *key = i < NVS_IBGDA_CONST_KEYS ? &queues->ibgda.rkeys[i] : &table[i - NVS_IBGDA_CONST_KEYS];

	CHECK(offset < key->next_addr);
	*ret_addr = ((const uint64_t *)at(queues->state.peer_heap_base_remote))[pe] + offset;
	*ret_key = key->key_be;
	return key->next_addr - offset;
}

/* ---- the ring */

static int wait_for(struct nvs_ibgda_qp *qp, uint64_t index)
{
	const struct nvs_ibgda_cq *cq = at(qp->tx_wq.cq);
	const struct shmd_cqe *cqe = at(cq->cqe);
	uint64_t *done = at(cq->cons_idx), end;
	uint16_t counter;

	CHECK(done == &qp->mvars.cons_idx && cq->qp_type == NVS_IBGDA_QP_RC);
	if (*done >= index)
		return 0;
	CHECK(*(uint64_t *)at(cq->prod_idx) >= index);
	do
		counter = be16toh(__atomic_load_n(&cqe->wqe_counter, __ATOMIC_ACQUIRE));
	while ((uint16_t)((uint16_t)index - counter - 2) < cq->ncqes);
	counter++;
	end = ((index & ~UINT64_C(0xffff)) | counter) + ((uint16_t)index > counter ? 0x10000 : 0);
	*done = end > *done ? end : *done;
	return __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE) >> 4 == SHMD_CQE_REQ_ERR ? -1 : 0;
}

static uint64_t reserve(struct nvs_ibgda_qp *qp, uint32_t units)
{
	uint64_t index = qp->mvars.resv_head;

	qp->mvars.resv_head += units;
	if (qp->mvars.resv_head >= qp->tx_wq.nwqes)
		CHECK(wait_for(qp, qp->mvars.resv_head - qp->tx_wq.nwqes) == 0);
	return index;
}

static uint8_t *unit_at(const struct nvs_ibgda_qp *qp, uint64_t index)
{
	return (uint8_t *)at(qp->tx_wq.wqe) + index % qp->tx_wq.nwqes * UNIT;
}

/* Segments behind the control segment, cut to units that wrap one by one. */
static void write_wqe(const struct nvs_ibgda_qp *qp, uint64_t index, uint32_t opcode, const void *segments, size_t bytes, bool is_last)
{
	uint8_t wqe[2 * UNIT] = {0};
	uint32_t ds = (uint32_t)(1 + (bytes + 15) / 16);
	struct shmd_wqe_ctrl_seg *ctrl = (struct shmd_wqe_ctrl_seg *)(void *)wqe;

	CHECK(sizeof(*ctrl) + bytes <= sizeof(wqe));
	ctrl->opmod_idx_opcode = htobe32((opcode & 0xff000000) | (uint32_t)(index & 0xffff) << 8 | (opcode & 0xff));
	ctrl->qpn_ds = htobe32(qp->qpn << 8 | ds);
	ctrl->fm_ce_se = is_last ? SHMD_WQE_CE_ALWAYS : 0;
	if (bytes)
		memcpy(wqe + sizeof(*ctrl), segments, bytes);
	for (uint32_t i = 0; i < (ds + 3) / 4; i++)
		memcpy(unit_at(qp, index + i), wqe + i * UNIT, UNIT);
}

static void submit(struct nvs_ibgda_qp *qp, uint64_t end)
{
	uint64_t bell = htobe64((end & 0xffff) << 40 | (uint64_t)qp->qpn << 8);

	qp->mvars.ready_head = end;
	CHECK(at(qp->tx_wq.prod_idx) == &qp->mvars.prod_idx);
	qp->mvars.prod_idx = end;
	__atomic_store_n((uint32_t *)at(qp->tx_wq.dbrec), htobe32((uint32_t)(end & 0xffff)), __ATOMIC_SEQ_CST);
	__atomic_store_n((uint64_t *)at(qp->tx_wq.bf), bell, __ATOMIC_SEQ_CST);
}

int queue_quiet(const struct device_queues *queues, uint32_t number, int pe)
{
	struct nvs_ibgda_qp *qp = queue_to(queues, pe, number);

	return wait_for(qp, qp->mvars.ready_head);
}

/* ---- data */

struct moved {
	struct shmd_wqe_raddr_seg remote;
	struct shmd_wqe_data_seg local;
};

/* As much as both registrations allow. */
static uint64_t describe(const struct device_queues *queues, const void *remote, const void *local, uint64_t bytes, int pe, struct moved *ret_moved)
{
	uint64_t addr, here = (uint64_t)(uintptr_t)local;
	uint32_t rkey, lkey;
	uint64_t far = find_rkey(queues, offset_of(queues, remote), pe, &addr, &rkey), near = find_lkey(queues, here, &lkey);

	bytes = bytes > far ? far : bytes;
	bytes = bytes > near ? near : bytes;
	bytes = bytes > MOST_OF_ONE ? MOST_OF_ONE : bytes;
	*ret_moved = (struct moved){
		.remote = {.raddr = htobe64(addr), .rkey = rkey},
		.local = {.byte_count = htobe32((uint32_t)bytes), .lkey = lkey, .addr = htobe64(here)},
	};
	return bytes;
}

static uint64_t post_move(const struct device_queues *queues, struct nvs_ibgda_qp *qp, uint32_t opcode, void *remote, void *local, size_t bytes, int pe,
			  bool is_last)
{
	uint64_t index = 0, done = 0, now;
	struct moved moved;

	for (; done < bytes; done += now) {
		now = describe(queues, (char *)remote + done, (char *)local + done, bytes - done, pe, &moved);
		index = reserve(qp, 1);
		write_wqe(qp, index, opcode, &moved, sizeof(moved), is_last && done + now == bytes);
	}
	return index + 1;
}

void queue_put(const struct device_queues *queues, uint32_t number, void *dest, const void *source, size_t bytes, int pe)
{
	struct nvs_ibgda_qp *qp = queue_to(queues, pe, number);

	submit(qp, post_move(queues, qp, SHMD_OPCODE_RDMA_WRITE, dest, (void *)(uintptr_t)source, bytes, pe, true));
}

void queue_get(const struct device_queues *queues, uint32_t number, void *dest, const void *source, size_t bytes, int pe)
{
	struct nvs_ibgda_qp *qp = queue_to(queues, pe, number);

	submit(qp, post_move(queues, qp, SHMD_OPCODE_RDMA_READ, (void *)(uintptr_t)source, dest, bytes, pe, true));
}

void queue_p(const struct device_queues *queues, uint32_t number, void *dest, const void *value, size_t bytes, int pe)
{
	struct nvs_ibgda_qp *qp = queue_to(queues, pe, number);
	uint64_t index = reserve(qp, 1), addr;
	struct {
		struct shmd_wqe_raddr_seg remote;
		struct shmd_wqe_inline_seg head;
		uint8_t data[12];
	} segments = {.head.byte_count = htobe32(SHMD_INLINE_SEG | (uint32_t)bytes)};

	CHECK(bytes <= sizeof(segments.data));
	(void)find_rkey(queues, offset_of(queues, dest), pe, &addr, &segments.remote.rkey);
	segments.remote.raddr = htobe64(addr);
	memcpy(segments.data, value, bytes);
	write_wqe(qp, index, SHMD_OPCODE_RDMA_WRITE, &segments, sizeof(segments), true);
	submit(qp, index + 1);
}

/* ---- atomics */

struct atomic {
	struct shmd_wqe_raddr_seg remote;
	uint8_t operands[32]; /* and, behind as many of them as there are, a data segment */
	struct shmd_wqe_data_seg result;
};

/* The result goes to slot 0, which nobody reads, or to the next one. */
static void *post_atomic(const struct device_queues *queues, struct nvs_ibgda_qp *qp, uint32_t opcode, const void *word, const void *operands,
			 size_t operands_bytes, uint32_t bytes, int pe, bool fetches)
{
	uint64_t slot = fetches ? 1 + (qp->mvars.ibuf_head++ & (qp->ibuf.nslots - 1)) : 0, addr, buf = qp->ibuf.buf + slot * NVS_IBGDA_SLOT_BYTES;
	uint32_t units = operands_bytes > 16 ? 2 : 1;
	uint64_t index = reserve(qp, units == 1 ? 1 : 3);
	struct atomic segments = {.result = {.byte_count = htobe32(bytes), .lkey = qp->ibuf.lkey_be, .addr = htobe64(buf)}};

	(void)find_rkey(queues, offset_of(queues, word), pe, &addr, &segments.remote.rkey);
	segments.remote.raddr = htobe64(addr);
	memcpy(segments.operands, operands, operands_bytes);
	memcpy(segments.operands + operands_bytes, &segments.result, sizeof(segments.result));
	memset(at(buf), 0xaa, 8);
	write_wqe(qp, index, opcode, &segments, sizeof(segments.remote) + operands_bytes + sizeof(segments.result), units == 1);
	if (units == 2)
		write_wqe(qp, index + 2, SHMD_OPCODE_NOP, NULL, 0, true);
	submit(qp, qp->mvars.resv_head);
	return at(buf);
}

static void *add8(const struct device_queues *queues, struct nvs_ibgda_qp *qp, uint64_t *word, uint64_t value, int pe, bool fetches)
{
	struct shmd_wqe_atomic_seg operands = {.swap_add = htobe64(value)};

	return post_atomic(queues, qp, SHMD_OPCODE_ATOMIC_FA, word, &operands, sizeof(operands), 8, pe, fetches);
}

void queue_add8(const struct device_queues *queues, uint32_t number, uint64_t *word, uint64_t value, int pe)
{
	(void)add8(queues, queue_to(queues, pe, number), word, value, pe, false);
}

void queue_put_signal(const struct device_queues *queues, uint32_t number, void *dest, const void *source, size_t bytes, uint64_t *signal, uint64_t value,
		      int pe)
{
	struct nvs_ibgda_qp *qp = queue_to(queues, pe, number);

	(void)post_move(queues, qp, SHMD_OPCODE_RDMA_WRITE, dest, (void *)(uintptr_t)source, bytes, pe, false);
	(void)add8(queues, qp, signal, value, pe, false);
}

static void release_slot(struct nvs_ibgda_qp *qp)
{
	qp->mvars.ibuf_tail++;
}

uint64_t queue_fetch_add8(const struct device_queues *queues, uint32_t number, uint64_t *word, uint64_t value, int pe)
{
	struct nvs_ibgda_qp *qp = queue_to(queues, pe, number);
	const uint64_t *result = add8(queues, qp, word, value, pe, true);

	CHECK(queue_quiet(queues, number, pe) == 0);
	release_slot(qp);
	return *result;
}

uint32_t queue_fetch_add4(const struct device_queues *queues, uint32_t number, uint32_t *word, uint32_t value, int pe)
{
	struct nvs_ibgda_qp *qp = queue_to(queues, pe, number);
	struct shmd_wqe_masked_fa32_seg operands = {.add = htobe32(value)};
	const uint32_t *result = post_atomic(queues, qp, SHMD_OPMOD_EXT_ATOMIC_4 << 24 | SHMD_OPCODE_ATOMIC_MASKED_FA, word, &operands, sizeof(operands), 4,
					     pe, true);

	CHECK(queue_quiet(queues, number, pe) == 0);
	release_slot(qp);
	return be32toh(*result);
}

uint64_t queue_swap8(const struct device_queues *queues, uint32_t number, uint64_t *word, uint64_t value, int pe)
{
	struct nvs_ibgda_qp *qp = queue_to(queues, pe, number);
	struct shmd_wqe_masked_cs64_seg operands = {.swap = htobe64(value), .swap_mask = ~UINT64_C(0)};
	const uint64_t *result = post_atomic(queues, qp, SHMD_OPMOD_EXT_ATOMIC_8 << 24 | SHMD_OPCODE_ATOMIC_MASKED_CS, word, &operands, sizeof(operands), 8,
					     pe, true);

	CHECK(queue_quiet(queues, number, pe) == 0);
	release_slot(qp);
	return *result;
}
