/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structures by which NVSHMEM's device library drives queues itself: our own declarations, by offset, as those of layout.h.
 *
 * The state has one size in all versions; the last words are later ones. Device code counts in the queues' structures, which lie in GPU memory.
 * Keys are big-endian, as requests carry them; numbers of queues are not. This header has no functions.
 */
#ifndef SHMD_NVSHMEM_IBGDA_LAYOUT_H
#define SHMD_NVSHMEM_IBGDA_LAYOUT_H

#include "libclient/compat/nvshmem/layout.h"

#define NVS_IBGDA_CONST_KEYS 64u /* of each kind in the state; the others are in tables */
#define NVS_IBGDA_CONST_DCTS 128u

/* The key of a piece of the heap. */
struct nvs_ibgda_key {
	uint32_t key_be;
	uint64_t next_addr; /* end of the registration: an address if it is local, an offset in the heap if it is remote */
};
NVS_PIN_SIZE(nvs_ibgda_key, 16);

struct nvs_ibgda_state {
	int32_t version;
	uint32_t num_shared_dcis, num_exclusive_dcis;
	int32_t dci_map_type; /* what selects a queue: 0 block, 1 multiprocessor, 2 warp */
	uint32_t ndcts_per_pe, num_qp_groups, num_dct_groups, num_rc_per_pe;
	int32_t rc_map_type;
	uint32_t num_requests_in_batch; /* a power of two */
	uint64_t log2_cumem_granularity; /* bytes of a piece that has a key of its own */
	int32_t num_devices_initialized;
	bool nic_buf_on_gpumem, support_half_av_seg, may_skip_cst, use_async_postsend;
	struct nvs_ibgda_key lkeys[NVS_IBGDA_CONST_KEYS], rkeys[NVS_IBGDA_CONST_KEYS];
	uint8_t dcts[NVS_IBGDA_CONST_DCTS][48];
	uint64_t qp_group_switches; /* uint8_t[], from 3.8 on uint32_t[] */
	uint64_t cqs, dcis, rcs; /* arrays of the structures below */
	uint64_t local_only_mhandle_head; /* struct nvs_ibgda_buffer, or 0 */
	uint64_t dcts_table, lkeys_table, rkeys_table; /* what does not fit in here */
	uint32_t num_default_rc_per_pe; /* 3.5; up to 3.4 the low half of an address, 0 */
	bool use_address_stable_amo; /* 3.8 */
	uint64_t extra; /* 3.5 */
	uint64_t region_batch_rma_pending_qps; /* 3.8 */
	uint32_t region_batch_rma_pending_qps_threshold;
	uint8_t padding[44];
};
NVS_PIN_SIZE(nvs_ibgda_state, 8384);
NVS_PIN(nvs_ibgda_state, log2_cumem_granularity, 40);
NVS_PIN(nvs_ibgda_state, nic_buf_on_gpumem, 52);
NVS_PIN(nvs_ibgda_state, lkeys, 56);
NVS_PIN(nvs_ibgda_state, rkeys, 1080);
NVS_PIN(nvs_ibgda_state, dcts, 2104);
NVS_PIN(nvs_ibgda_state, qp_group_switches, 8248);
NVS_PIN(nvs_ibgda_state, num_default_rc_per_pe, 8312);
NVS_PIN(nvs_ibgda_state, region_batch_rma_pending_qps_threshold, 8336);

enum nvs_ibgda_qp_type {
	NVS_IBGDA_QP_DCI = 1,
	NVS_IBGDA_QP_DCT = 2,
	NVS_IBGDA_QP_RC = 3,
};

/* Results of requests: a slot for those that nobody reads, then so many, each of NVS_IBGDA_SLOT_BYTES. */
#define NVS_IBGDA_SLOT_BYTES 256u
struct nvs_ibgda_ibuf {
	uint32_t nslots; /* a power of two */
	uint64_t buf;
	uint32_t lkey_be, rkey_be;
};
NVS_PIN_SIZE(nvs_ibgda_ibuf, 24);

struct nvs_ibgda_wq {
	uint16_t nwqes; /* a power of two */
	uint64_t wqe;
	uint64_t dbrec; /* the send word */
	uint64_t bf;
	uint64_t cq; /* struct nvs_ibgda_cq */
	uint64_t prod_idx; /* that of mvars */
};
NVS_PIN_SIZE(nvs_ibgda_wq, 48);

/* Device code's own. */
struct nvs_ibgda_mvars {
	int32_t version;
	int32_t post_send_lock;
	uint64_t resv_head, ready_head, prod_idx, cons_idx, get_head, get_tail;
	uint64_t ibuf_head, ibuf_tail;
	uint8_t padding[24];
};
NVS_PIN_SIZE(nvs_ibgda_mvars, 96);

struct nvs_ibgda_qp {
	int32_t version;
	int32_t qp_type; /* enum nvs_ibgda_qp_type */
	uint32_t qpn, dev_idx;
	struct nvs_ibgda_ibuf ibuf;
	struct nvs_ibgda_wq tx_wq;
	struct nvs_ibgda_mvars mvars;
};
NVS_PIN_SIZE(nvs_ibgda_qp, 184);
NVS_PIN(nvs_ibgda_qp, ibuf, 16);
NVS_PIN(nvs_ibgda_qp, tx_wq, 40);
NVS_PIN(nvs_ibgda_qp, mvars, 88);

/* Collapsed: device code looks at entry 0 alone. */
struct nvs_ibgda_cq {
	int32_t version;
	int32_t qp_type;
	uint64_t dbrec, cqe;
	uint64_t prod_idx, cons_idx, resv_head, ready_head; /* those of the QP's mvars */
	uint32_t cqn, ncqes, qpn;
};
NVS_PIN_SIZE(nvs_ibgda_cq, 72);
NVS_PIN(nvs_ibgda_cq, prod_idx, 24);
NVS_PIN(nvs_ibgda_cq, cqn, 56);

/* Memory outside the heap, for the local side of requests. */
#define NVS_IBGDA_BUFFER_KEYS 15u
struct nvs_ibgda_buffer {
	int32_t version;
	bool is_sysmem_scope;
	uint64_t start, end; /* the last byte */
	uint64_t next; /* or 0 */
	uint32_t lkeys_be[NVS_IBGDA_BUFFER_KEYS]; /* by NIC */
};
NVS_PIN_SIZE(nvs_ibgda_buffer, 96);
NVS_PIN(nvs_ibgda_buffer, lkeys_be, 32);

#endif
