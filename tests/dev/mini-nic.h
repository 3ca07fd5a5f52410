/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_DEV_MINI_NIC_H
#define SHMD_TESTS_DEV_MINI_NIC_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shmd/dev/rma.h>

/*
 * Just enough of a NIC to answer the device functions: one thread that drains one QP whose peer is the process itself.
 * iovas are pointers. It moves only when the doorbell word changes, takes the index from the dbrec only, and checks
 * what a NIC would choke on: keys, WQE indexes, a doorbell ahead of its dbrec, an overrun CQ. It shares no code with
 * the parser and the engine of the daemon, and runs under TSan.
 */

#define MINI_NIC_LKEY 0x1122aau
#define MINI_NIC_SCRATCH_LKEY 0x3344bbu
#define MINI_NIC_RKEY 0x5566ccu
#define MINI_NIC_QPN 0xabcde5u
#define MINI_NIC_NEVER UINT64_MAX
#define MINI_NIC_LOG 4096u
#define MINI_NIC_PEERS 8u

/* Memory as a key opens it. */
struct mini_nic_space {
	uint32_t key;
	uint32_t peer; /* of a DCI: the DCT that knows the key; not for local keys */
	uint64_t iova, bytes;
	uint8_t *memory;
};

struct mini_nic_attr {
	uint32_t sq_wqebbs; /* 0: 64 */
	uint32_t cq_entries; /* 0: sq_wqebbs */
	uint32_t rq_wqes; /* 0: none */
	uint32_t rq_stride_shift; /* 0: 4 */
	bool is_ordinary; /* else the CQ is collapsed */
	bool sleeps; /* sleeps when idle, until woken through the nic page's protocol */
	bool discards; /* payload is not touched */
	bool flushes; /* flushed WQEs have CQEs in a collapsed CQ too, over the first error's */
	bool results_8_be; /* of atomics of 8 bytes */
	uint32_t lacks; /* SHMD_QP_NO_*: such atomics are complained of */
	uint32_t n_peers; /* 0: the QP is connected; else it is a DCI, and this is how many DCTs there are */
	enum shmd_sharing sharing;
	uint64_t start_index; /* of all indexes */
	const struct mini_nic_space *spaces; /* in place of MINI_NIC_LKEY and MINI_NIC_RKEY; NULL: those */
	uint32_t n_spaces;
};

/* Executed work. */
struct mini_nic_entry {
	uint64_t index;
	uint8_t opcode;
	uint8_t fm_ce_se;
	uint8_t n_ds; /* without the address vector */
	uint8_t n_wqebbs;
	uint8_t peer; /* of a DCI */
	uint64_t raddr;
	uint64_t bytes;
};

struct mini_nic {
	struct shmd_dev_qp qp; /* for the device functions */
	struct shmd_dev_peer peers[MINI_NIC_PEERS]; /* where the DCTs are, as a library would say it */
	struct mini_nic_attr attr;
	uint8_t *memory; /* rings and all; see mini-nic.c */
	struct shmd_cqe *recv_cq;
	struct shmd_nic_page *page;
	pthread_t thread;
	bool has_thread;

	/* Set by tests at any time, with mini_nic_set(). Indexes count WQEBBs. */
	uint64_t stop;
	uint64_t stalled; /* executes nothing while not 0 */
	uint64_t fail_index; /* this WQE ends in an error CQE ... */
	uint64_t fail_syndrome;
	uint64_t gone; /* bits: DCTs that do not answer */
	uint64_t drop_cqe_from; /* CQEs from this index on are not written */

	/* The NIC thread's, readable by tests with mini_nic_get(). */
	uint64_t head; /* next WQEBB to execute */
	uint64_t n_wqes, n_cqes, n_doorbells, n_sleeps, n_waits_for_fence;
	uint64_t complaints; /* MINI_NIC_BAD_* */
	uint64_t cq_pi, recv_ci, recv_cq_pi;
	bool is_broken; /* after an error: everything is flushed */
	struct mini_nic_entry
		log[MINI_NIC_LOG]; /* of WQE n at n % MINI_NIC_LOG; read after a completion */
};

/* The client's mistakes. Tests end with mini_nic_check(), which wants none. */
#define MINI_NIC_BAD_INDEX 0x1u /* the WQE's index is not its place */
#define MINI_NIC_BAD_QPN 0x2u
#define MINI_NIC_BAD_DOORBELL 0x4u /* the doorbell was ahead of the dbrec */
#define MINI_NIC_BAD_OVERRUN 0x8u /* no room in the CQ */
#define MINI_NIC_BAD_WIDE_CQE 0x10u /* a WQE of several WQEBBs asked for a CQE */
#define MINI_NIC_BAD_LENGTH 0x20u
#define MINI_NIC_BAD_AV 0x40u /* no address vector that a client wrote */
#define MINI_NIC_BAD_ATOMIC 0x80u /* one that this NIC lacks */

struct mini_nic *mini_nic_new(const struct mini_nic_attr *attr);
/* Stops the thread, checks, frees. NULL is fine. */
struct mini_nic *mini_nic_free(struct mini_nic *nic);
/* Fails the test when the client did something wrong. */
void mini_nic_check(struct mini_nic *nic);

static inline void mini_nic_set(uint64_t *word, uint64_t v)
{
	__atomic_store_n(word, v, __ATOMIC_RELEASE);
}

static inline uint64_t mini_nic_get(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Addresses as the requests want them. */
static inline struct shmd_dev_addr mini_nic_local(const void *p)
{
	return shmd_dev_addr_of((uintptr_t)p, __builtin_bswap32(MINI_NIC_LKEY));
}

static inline struct shmd_dev_addr mini_nic_remote(const void *p)
{
	return shmd_dev_addr_of((uintptr_t)p, __builtin_bswap32(MINI_NIC_RKEY));
}

/* The same at one of the DCTs: each has a key of its own for this memory. */
static inline struct shmd_dev_addr mini_nic_remote_of(uint32_t peer, const void *p)
{
	return shmd_dev_addr_of((uintptr_t)p, __builtin_bswap32(MINI_NIC_RKEY + peer));
}

/* The hooks of the C build, counted. */
extern uint64_t mini_nic_n_wakes;

#endif
