/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects of a session: NICs, memory, MRs, queues, DCTs, hot peers. gpu-private.h has those of GPUs.
 *
 * *_free() frees local things only: the daemon's end goes by request, or with the session. The lock is held, or the client is
 * closing.
 */
#ifndef SHMD_OBJECTS_H
#define SHMD_OBJECTS_H

#include "libclient/request.h"
#include "proto/base/page.h"

#define ACCESS_REMOTE (SHMD_ACCESS_REMOTE_WRITE | SHMD_ACCESS_REMOTE_READ | SHMD_ACCESS_REMOTE_ATOMIC)

struct shmd_nic {
	struct shmd_client *client;
	struct list link;
	bool is_auto; /* the daemon chose its doorbell mode, and may change it */
	bool fell_back; /* to mode cpu, at this process's request. Under client->lock */
	pthread_mutex_t doorbell_lock; /* guards the next five, which change together, and mode and reason in info */
	struct shmd_nic_info info;
	void *page; /* the doorbell page */
	uint32_t register_offset;
	const struct shmd_nic_page *nic_page; /* or NULL */
	int wake_fd; /* or -1 */
	int command_fd; /* of the NIC's context, if shmemd handed it out; or -1 */
	uint32_t pd; /* the kernel's handle, for regions that this process registers itself */
	void *former_page; /* before the mode changed: older queues may ring it; or NULL */
	unsigned int n_users; /* MRs, queue batches and DCTs */
};

struct shmd_mem {
	struct shmd_client *client;
	struct list link;
	void *addr;
	size_t bytes;
	int fd;
	bool is_adopted;
};

struct shmd_mr {
	struct shmd_nic *nic;
	struct list link;
	uint32_t handle;
	bool is_ended; /* at the daemon */
	struct agent_region *agent_region; /* AGENT: what the memory agent reaches; or NULL */
	uint32_t lkey, rkey;
	struct shmd_mr_info info;
};

/* One request's worth of queues. */
struct queue_batch {
	uint32_t handle; /* the daemon's; 0 once destroyed */
	unsigned int first, n; /* QPs of the whole */
	void *mem;
	uint64_t mem_bytes;
	struct msg_qp_info *qps; /* n, owned */
	struct msg_cq_info *cqs; /* n send CQs, then n receive CQs if any; owned */
};

struct shmd_queues {
	struct shmd_nic *nic;
	struct list link;
	struct shmd_queues_attr attr; /* defaults filled in */
	unsigned int n_batches;
	struct queue_batch *batches;

	struct shmd_mem *scratch; /* result slots of every QP */
	struct shmd_mr *scratch_mr;
	void *dev; /* dev-state, then dev-qps, then slot words: one mapping */
	size_t dev_bytes;
	struct shmd_dev_state *dev_state;
	struct shmd_dev_qp *dev_qps;
	uint32_t *slot_busy;
	struct shmd_dev_peer *peers; /* owned; the table of the dev-state */
	struct shmd_hot *hot; /* owned; NULL unless DCIs whose peers may have QPs of their own */
	struct list gpu_views; /* gpu_view.queues_link */
};

/* A peer's own QP. */
struct hot_slot {
	struct shmd_queues *queues; /* NULL: free */
	uint32_t peer;
	bool is_connected, is_used;
};

struct shmd_hot {
	struct shmd_queues *dcis;
	uint32_t n_peers, sq_wqebbs, access;
	uint64_t min_posts;
	struct shmd_dev_route *routes; /* n_peers, owned: the table of the dev-state */
	unsigned int n_slots;
	struct hot_slot *slots; /* n_slots, owned */
	uint64_t *qps; /* room for n_slots, owned: hot_qps_addr of the dev-state */
};

struct shmd_dct {
	struct shmd_nic *nic;
	struct list link;
	uint32_t handle; /* the daemon has it as a batch of queues */
	struct shmd_addr addr;
};

/* ---- gpu-range.c, gpu-view.c: lower than the objects that GPUs see */

/* Before a host range is unmapped: no GPU sees it any more. Does nothing if none did. */
void gpu_forget_range(struct shmd_client *client, const void *addr);
/* The same for all ranges that queues own, and their views on GPUs. */
void gpu_forget_queues(struct shmd_queues *queues);
/* Around dev_state_reset_qp(): takes over how far GPUs consumed the CQ, then makes the QP as new in their views too. */
int gpu_before_reset(struct shmd_queues *queues, unsigned int i);
int gpu_after_reset(struct shmd_queues *queues, unsigned int i);

/* ---- memory.c, mr.c */

void mem_free(struct shmd_mem *mem);
int mem_fd_new(size_t bytes); /* a memfd of this size, full of zeros, sealed against growing and shrinking; or an error with text */
int mem_seal(int fd, int seals); /* adds the seals that are missing; 0, or negative errno */
void mr_free(struct shmd_mr *mr);
/* As shmd_mr_reg(); `reason`: why the kind is not a better one, for shmemd's lists and shmd_mr_info(); or empty. */
int mr_reg(struct shmd_nic *nic, const struct shmd_mr_attr *attr, const char *reason, struct shmd_mr **ret_mr);
/* The loaded module that gives NICs memory of GPUs without dmabuf, or NULL. A hint for people, not a decision. */
const char *mr_peer_module(void);

/* ---- nic.c */

void nic_free(struct shmd_nic *nic);
/*
 * This process cannot use the page of mode uar-mmap, `why` in words: asks the daemon for mode cpu, if the daemon chose the mode.
 * Otherwise, and if the daemon refuses, an error with `why` in its text. Lock held.
 */
int nic_to_cpu(struct shmd_nic *nic, const char *why);

/* ---- dev-state.c */

/* Makes scratch memory, dev-state and dev-qps once all batches are there. */
int dev_state_init(struct shmd_queues *queues);
/* Deregisters and frees the scratch memory. 0, or the daemon's error. */
int dev_state_release_scratch(struct shmd_queues *queues);
/* Unmaps what dev_state_init() mapped. */
void dev_state_deinit(struct shmd_queues *queues);
/* After a QP went to RST: indexes, dbrec, CQ and slots as new. */
void dev_state_reset_qp(struct shmd_queues *queues, unsigned int i);

/* ---- peer-counts.c */

/* Fills in how many peers of this NIC's DCIs go by DCIs, and how many by a QP of their own. Takes the lock. */
void peers_count(struct shmd_nic *nic, struct msg_peer_resolve_req *req);
/* Sends these counts, for the daemon's lists. 0, or the error of the request. */
int peers_report(struct shmd_nic *nic);
/* The same for callers whose own work is done: neither the error nor its text counts. */
void peers_report_quietly(struct shmd_nic *nic);

/* ---- queues.c */

void queues_free(struct shmd_queues *queues);
/* Memory only: the QPs of hot peers are batches of their own in the client's list. NULL is allowed. */
void hot_free(struct shmd_hot *hot);
/* -EINVAL with text if queues is NULL or has no QP i; -ECHILD. */
int queues_check(const struct shmd_queues *queues, unsigned int i);

/* The batch that holds QP i, which must be below n_qps. */
static inline const struct queue_batch *queues_batch_of(const struct shmd_queues *queues, unsigned int i)
{
	return &queues->batches[i / queues->batches[0].n];
}

static inline const struct msg_qp_info *queues_qp(const struct shmd_queues *queues, unsigned int i)
{
	const struct queue_batch *batch = queues_batch_of(queues, i);

	return &batch->qps[i - batch->first];
}

/* ---- connect.c, dynamic.c */

/* As many as the daemon and a packet allow. */
unsigned int client_peers_per_request(const struct shmd_client *client);
void dct_free(struct shmd_dct *dct);

/* ---- gpu-hot.c. Lock held. */

/* No view has a request under way on any QP of the batch that did not fail. 0, or -EBUSY with text. */
int gpu_queues_idle(struct shmd_queues *queues);
/* Brings every view of the DCIs to the state of the set's slots, also after one failed. The first error. */
int gpu_write_ways(struct shmd_hot *hot);
/* Adds the counts of kernels to the set's routes, and sets them to 0 there. */
int gpu_take_counts(struct shmd_hot *hot);

/* ---- gpu.c, gpu-mem.c: for closing. Memory goes before the GPUs. */

void gpu_mem_free_all(struct shmd_client *client);
void gpu_close_all(struct shmd_client *client);

#endif
