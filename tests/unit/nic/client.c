/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/porter/zygote.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

const struct nic_qp_params client_params = {
	.timeout = 14,
	.retry_count = 7,
	.rnr_retry = 7,
	.min_rnr_timer = 1,
	.max_rd_atomic = 16,
};

/* ---- NICs ---------------------------------------------------------------------------------------------------- */

/* Callers ask no slot whether it is empty. */
void rig_add_nic(struct rig *rig, struct nic *nic)
{
	void (*slots[sizeof(struct nic_ops) / sizeof(void (*)(void))])(void);

	memcpy(slots, nic->ops, sizeof(slots));
	for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++)
		ASSERT(slots[i]);
	rig->nic[rig->n_nics++] = nic;
}

static int start_process(void *arg, uint32_t uid, int *ret_channel)
{
	const struct zygote_order order = {.kind = ZYGOTE_EXECUTOR, .uid = uid};

	return zygote_fork(((struct rig *)arg)->zygote, &order, -1, ret_channel);
}

static void open_soft(struct rig *rig, unsigned int n_nics, const char *fault, bool saves, bool is_remote)
{
	const char *spin = getenv("SHMD_SPIN_USEC");
	const struct nic_soft_attr attr = {
		.n_nics = n_nics,
		.gpu_poll_usec = 100,
		.spin_usec = spin ? (uint32_t)atoi(spin) : 20,
		.saves = saves,
		.fault = fault,
		.start_process = is_remote ? start_process : NULL,
		.start_arg = rig,
		.linger_msec = 200,
	};
	struct nic *nic;

	rig->zygote = 0;
	if (is_remote)
		ASSERT_OK(zygote_start(&(struct zygote_runs){.run = {[ZYGOTE_EXECUTOR] = nic_soft_serve}}, &rig->zygote));
	list_init(&rig->nics);
	rig->n_nics = 0;
	ASSERT_OK(nic_soft_probe(&attr, &rig->nics));
	list_for_each_entry(nic, &rig->nics, link)
		rig_add_nic(rig, nic);
	ASSERT_EQ(rig->n_nics, n_nics);
}

bool rig_is_remote(void)
{
	const char *name = getenv("SHMEMD_TEST_EXECUTORS");

	return name && strcmp(name, "process") == 0;
}

void rig_open(struct rig *rig, unsigned int n_nics, const char *fault)
{
	open_soft(rig, n_nics, fault, true, rig_is_remote());
}

void rig_open_remote(struct rig *rig, unsigned int n_nics, const char *fault)
{
	open_soft(rig, n_nics, fault, true, true);
}

void rig_open_unsaved(struct rig *rig, unsigned int n_nics)
{
	open_soft(rig, n_nics, NULL, false, rig_is_remote());
}

void rig_close(struct rig *rig)
{
	while (!list_empty(&rig->nics)) {
		struct nic *nic = list_first_entry(&rig->nics, struct nic, link);

		ASSERT(!nic->ops->close(nic));
	}
	if (rig->zygote)
		close(rig->zygote);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

#define MOST_CTXS 64u

/* Clients may be threads; this is where a NIC asks for one of them to be looked at. */
static struct nic_ctx *open_ctxs[MOST_CTXS];
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;

void client_swap_ctx(struct nic_ctx *is, struct nic_ctx *becomes)
{
	unsigned int i = 0;

	pthread_mutex_lock(&open_lock);
	while (i < MOST_CTXS && open_ctxs[i] != is)
		i++;
	if (i < MOST_CTXS)
		open_ctxs[i] = becomes;
	pthread_mutex_unlock(&open_lock);
}

unsigned int client_n_looks;

static void look(struct nic *nic, uint64_t session_id)
{
	struct nic_info info;

	client_n_looks++;
	if (session_id == 0)
		nic_query(nic, &info);
	pthread_mutex_lock(&open_lock);
	for (unsigned int i = 0; i < MOST_CTXS; i++)
		if (open_ctxs[i] && open_ctxs[i]->nic == nic && open_ctxs[i]->session_id == session_id)
			nic->ops->ctx_look(open_ctxs[i]);
	pthread_mutex_unlock(&open_lock);
}

int client_next_event(struct nic *nic, struct nic_event *ret_event)
{
	int r;

	while ((r = nic->ops->next_event(nic, ret_event)) == 0 && ret_event->kind == NIC_EVENT_LOOK)
		look(nic, ret_event->session_id);
	return r;
}

/* ---- contexts, memory, queues -------------------------------------------------------------------------------------- */

int client_memfd(uint64_t bytes, uint8_t **ret_map)
{
	int fd = memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ASSERT_GE(fd, 0);
	ASSERT_OK(ftruncate(fd, (off_t)bytes));
	*ret_map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT(*ret_map != MAP_FAILED);
	ASSERT_OK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	return fd;
}

void client_open_ctx(struct client *c, struct nic *nic, uint64_t session_id)
{
	client_open_ctx_as(c, nic, session_id, NIC_DOORBELL_AUTO);
}

static void open_ctx(struct client *c, struct nic *nic, const struct nic_ctx_attr *attr)
{
	const struct nic_doorbell *doorbell;
	void *page;

	memset(c, 0, sizeof(*c));
	c->mem_fd = -1;
	c->queue_fd = -1;
	ASSERT_OK(nic->ops->ctx_open(nic, attr, &c->ctx));
	client_swap_ctx(NULL, c->ctx);
	doorbell = &c->ctx->doorbell;
	ASSERT_EQ(doorbell->register_offset, SHMD_DB_SEND_OFFSET);
	c->doorbell_page = mmap(NULL, SHMD_DB_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
				doorbell->page_fd, (off_t)doorbell->page_offset);
	ASSERT(c->doorbell_page != MAP_FAILED);
	if (doorbell->mode == NIC_DOORBELL_UAR_MMAP)
		return;
	ASSERT_EQ(doorbell->mode, NIC_DOORBELL_CPU);
	page = mmap(NULL, SHMD_DB_PAGE_BYTES, PROT_READ, MAP_SHARED, doorbell->nic_page_fd, 0);
	ASSERT(page != MAP_FAILED);
	c->nic_page = page;
	ASSERT_EQ(c->nic_page->version, SHMD_NIC_PAGE_VERSION);
}

void client_open_ctx_as(struct client *c, struct nic *nic, uint64_t session_id, enum nic_doorbell_mode mode)
{
	const struct nic_ctx_attr attr = {.session_id = session_id, .doorbell = mode, .health_fd = -1};

	open_ctx(c, nic, &attr);
}

void client_open_ctx_for(struct client *c, struct nic *nic, uint64_t session_id, uint32_t uid)
{
	const struct nic_ctx_attr attr = {.session_id = session_id, .uid = uid, .health_fd = -1};

	open_ctx(c, nic, &attr);
}

void client_open_ctx_saved(struct client *c, struct nic *nic, uint64_t session_id)
{
	client_open_ctx_saved_for(c, nic, session_id, 0);
}

void client_open_ctx_saved_for(struct client *c, struct nic *nic, uint64_t session_id, uint32_t uid)
{
	const struct nic_ctx_attr attr = {.session_id = session_id, .uid = uid, .health_fd = -1, .is_saved = true};

	open_ctx(c, nic, &attr);
}

void client_reg(struct client *c)
{
	struct nic_mr_attr attr = {
		.kind = NIC_MEM_MEMFD,
		.length_bytes = CLIENT_MEM_BYTES,
		.iova = CLIENT_IOVA,
		.access = NIC_ACCESS_ALL,
	};

	c->mem_fd = client_memfd(CLIENT_MEM_BYTES, &c->mem);
	attr.fd = c->mem_fd;
	ASSERT_OK(c->ctx->nic->ops->mr_reg(c->ctx, &attr, &c->mr));
}

void client_attr(struct nic_queues_attr *attr, unsigned int n_qps, uint32_t qp_flags)
{
	*attr = (struct nic_queues_attr){
		.n_cq_specs = 1,
		.n_qp_specs = 1,
		.cqs = {{.count = n_qps, .log2_entries = CLIENT_LOG2_CQ}},
		.qps = {{
			.count = n_qps,
			.type = NIC_QP_RC,
			.log2_sq_wqebbs = CLIENT_LOG2_SQ,
			.n_rq_wqes = CLIENT_RQ_WQES,
			.log2_rq_stride = CLIENT_LOG2_RQ_STRIDE,
			.send_cq_step = 1,
			.recv_cq_step = 1,
			.flags = qp_flags,
			.access = NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ |
				  NIC_ACCESS_REMOTE_ATOMIC,
		}},
	};
}

void client_create_as(struct client *c, const struct nic_queues_attr *attr)
{
	struct nic_queue_mem mem = {.kind = NIC_MEM_MEMFD};
	unsigned int n_qps = attr->qps[0].count;
	struct nic_layout layout;

	ASSERT_OK(nic_layout_init(&layout, attr));
	mem.length_bytes = layout.total_bytes;
	c->queue_fd = client_memfd(layout.total_bytes, &c->queue_mem);
	mem.fd = c->queue_fd;
	ASSERT_OK(c->ctx->nic->ops->queues_create(c->ctx, &mem, &layout, &c->queues));
	ASSERT(!layout.cqs && !layout.qps);
	c->qps = calloc(n_qps, sizeof(*c->qps));
	ASSERT(c->qps);
	c->n_qps = n_qps;
}

int client_take(struct client *c, const struct nic_queues_attr *attr)
{
	struct nic_layout layout;
	int r;

	ASSERT_OK(nic_layout_init(&layout, attr));
	r = c->ctx->nic->ops->queues_take(c->ctx, &layout, &c->queue_fd, &c->queues);
	if (r < 0) {
		ASSERT(!c->queues);
		nic_layout_deinit(&layout);
		return r;
	}
	ASSERT(!layout.cqs && !layout.qps);
	c->n_qps = c->queues->layout.n_qps;
	c->queue_mem = mmap(NULL, c->queues->layout.total_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->queue_fd, 0);
	ASSERT(c->queue_mem != MAP_FAILED);
	c->qps = calloc(c->n_qps, sizeof(*c->qps));
	ASSERT(c->qps);
	return 0;
}

void client_create(struct client *c, unsigned int n_qps, uint32_t qp_flags)
{
	struct nic_queues_attr attr;

	client_attr(&attr, n_qps, qp_flags);
	client_create_as(c, &attr);
}

void client_open(struct client *c, struct nic *nic, uint64_t session_id, unsigned int n_qps)
{
	client_open_ctx(c, nic, session_id);
	client_reg(c);
	client_create(c, n_qps, 0);
}

void client_open_for(struct client *c, struct nic *nic, uint64_t session_id, uint32_t uid, unsigned int n_qps)
{
	client_open_ctx_for(c, nic, session_id, uid);
	client_reg(c);
	client_create(c, n_qps, 0);
}

static void close_memory(struct client *c)
{
	if (c->mem_fd >= 0) {
		munmap(c->mem, CLIENT_MEM_BYTES);
		close(c->mem_fd);
	}
	if (c->doorbell_page)
		munmap(c->doorbell_page, SHMD_DB_PAGE_BYTES);
	if (c->nic_page)
		munmap((void *)(uintptr_t)c->nic_page, SHMD_DB_PAGE_BYTES);
}

void client_close(struct client *c)
{
	const struct nic_ops *ops = c->ctx->nic->ops;

	ops->ctx_quiesce(c->ctx, CLIENT_QUIESCE_NSEC);
	if (c->queues) {
		uint64_t bytes = c->queues->layout.total_bytes;

		ASSERT_OK(ops->queues_destroy(c->queues));
		munmap(c->queue_mem, bytes);
		close(c->queue_fd);
	}
	ASSERT(!ops->mr_dereg(c->mr));
	client_swap_ctx(c->ctx, NULL);
	ASSERT(!ops->ctx_close(c->ctx));
	free(c->qps);
	close_memory(c);
	memset(c, 0, sizeof(*c));
}

static void connect_one_way(struct client *from, unsigned int i, const struct client *to, unsigned int j,
			    const struct nic_qp_params *params)
{
	struct nic_peer peer = {.qpn = client_qpn(from, i), .remote = to->queues->layout.qps[j].addr};
	unsigned int n_done = 0;

	ASSERT_OK(from->ctx->nic->ops->connect(from->ctx, 1, &peer, params, &n_done));
	ASSERT_EQ(n_done, 1u);
}

void client_connect(struct client *a, unsigned int i, struct client *b, unsigned int j)
{
	client_connect_as(a, i, b, j, &client_params);
}

void client_connect_as(struct client *a, unsigned int i, struct client *b, unsigned int j,
		       const struct nic_qp_params *params)
{
	connect_one_way(a, i, b, j, params);
	if (a != b || i != j)
		connect_one_way(b, j, a, i, params);
}

uint32_t client_qpn(const struct client *c, unsigned int i)
{
	return c->queues->layout.qps[i].qpn;
}

/* ---- posting --------------------------------------------------------------------------------------------------------- */

/* Every WQE built here fits one WQEBB. */
static struct shmd_wqe_ctrl_seg *next_wqe(struct client *c, unsigned int i, uint8_t opcode,
					  uint32_t ds)
{
	const struct nic_qp *qp = &c->queues->layout.qps[i];
	uint32_t index = c->qps[i].sq_pi++;
	uint8_t *at = c->queue_mem + qp->sq_offset +
		      (index & ((1u << qp->log2_sq_wqebbs) - 1)) * SHMD_WQEBB_BYTES;
	struct shmd_wqe_ctrl_seg *ctrl = (struct shmd_wqe_ctrl_seg *)at;

	memset(at, 0, SHMD_WQEBB_BYTES);
	ctrl->opmod_idx_opcode = htobe32((index & 0xffff) << 8 | opcode);
	ctrl->qpn_ds = htobe32(qp->qpn << 8 | ds);
	ctrl->fm_ce_se = SHMD_WQE_CE_ALWAYS;
	return ctrl;
}

static void set_raddr(struct shmd_wqe_ctrl_seg *ctrl, const struct client *to, uint64_t remote)
{
	struct shmd_wqe_raddr_seg *raddr = (struct shmd_wqe_raddr_seg *)(ctrl + 1);

	raddr->raddr = htobe64(CLIENT_IOVA + remote);
	raddr->rkey = htobe32(to->mr->rkey);
}

static void set_data(void *at, const struct client *c, uint64_t local, uint32_t bytes)
{
	struct shmd_wqe_data_seg *data = at;

	data->byte_count = htobe32(bytes);
	data->lkey = htobe32(c->mr->lkey);
	data->addr = htobe64(CLIENT_IOVA + local);
}

void client_post_write(struct client *c, unsigned int i, uint64_t local, const struct client *to,
		       uint64_t remote, uint32_t bytes)
{
	struct shmd_wqe_ctrl_seg *ctrl = next_wqe(c, i, SHMD_OPCODE_RDMA_WRITE, 3);

	set_raddr(ctrl, to, remote);
	set_data(ctrl + 2, c, local, bytes);
}

void client_post_inline(struct client *c, unsigned int i, uint64_t value, const struct client *to,
			uint64_t remote)
{
	struct shmd_wqe_ctrl_seg *ctrl = next_wqe(c, i, SHMD_OPCODE_RDMA_WRITE, 3);
	struct shmd_wqe_inline_seg *data = (struct shmd_wqe_inline_seg *)(ctrl + 2);

	set_raddr(ctrl, to, remote);
	data->byte_count = htobe32(SHMD_INLINE_SEG | sizeof(value));
	memcpy(data + 1, &value, sizeof(value));
}

void client_post_read(struct client *c, unsigned int i, uint64_t local, const struct client *to,
		      uint64_t remote, uint32_t bytes)
{
	struct shmd_wqe_ctrl_seg *ctrl = next_wqe(c, i, SHMD_OPCODE_RDMA_READ, 3);

	set_raddr(ctrl, to, remote);
	set_data(ctrl + 2, c, local, bytes);
}

void client_post_fetch_add(struct client *c, unsigned int i, uint64_t local, const struct client *to,
			   uint64_t remote, uint64_t add)
{
	struct shmd_wqe_ctrl_seg *ctrl = next_wqe(c, i, SHMD_OPCODE_ATOMIC_FA, 4);
	struct shmd_wqe_atomic_seg *atomic = (struct shmd_wqe_atomic_seg *)(ctrl + 2);

	set_raddr(ctrl, to, remote);
	atomic->swap_add = htobe64(add);
	set_data(ctrl + 3, c, local, sizeof(uint64_t));
}

void client_post_write_imm(struct client *c, unsigned int i, uint64_t local, const struct client *to, uint64_t remote,
			   uint32_t bytes, uint32_t imm)
{
	struct shmd_wqe_ctrl_seg *ctrl = next_wqe(c, i, SHMD_OPCODE_RDMA_WRITE_IMM, 3);

	ctrl->imm = htobe32(imm);
	set_raddr(ctrl, to, remote);
	set_data(ctrl + 2, c, local, bytes);
}

void client_post_send(struct client *c, unsigned int i, uint64_t local, uint32_t bytes)
{
	struct shmd_wqe_ctrl_seg *ctrl = next_wqe(c, i, SHMD_OPCODE_SEND, 2);

	set_data(ctrl + 1, c, local, bytes);
}

void client_post_recv(struct client *c, unsigned int i, uint64_t local, uint32_t bytes)
{
	const struct nic_qp *qp = &c->queues->layout.qps[i];
	uint32_t slot = c->qps[i].rq_pi++ & (qp->n_rq_wqes - 1);
	struct shmd_dbrec *dbrec = (struct shmd_dbrec *)(c->queue_mem + qp->dbrec_offset);

	set_data(c->queue_mem + qp->rq_offset + ((uint64_t)slot << qp->log2_rq_stride), c, local, bytes);
	__atomic_store_n(&dbrec->rcv, htobe32(c->qps[i].rq_pi & 0xffff), __ATOMIC_RELEASE);
}

void client_publish(struct client *c, unsigned int i)
{
	const struct nic_qp *qp = &c->queues->layout.qps[i];
	struct shmd_dbrec *dbrec = (struct shmd_dbrec *)(c->queue_mem + qp->dbrec_offset);

	__atomic_store_n(&dbrec->snd, htobe32(c->qps[i].sq_pi & 0xffff), __ATOMIC_RELEASE);
}

/* ---- doorbells --------------------------------------------------------------------------------------------------------- */

void client_wake(struct client *c)
{
	uint64_t one = 1;

	__sync_synchronize();
	if (c->nic_page && __atomic_load_n(&c->nic_page->asleep, __ATOMIC_RELAXED))
		ASSERT_EQ(write(c->ctx->doorbell.wake_fd, &one, sizeof(one)), (ssize_t)sizeof(one));
}

void client_ring_word(struct client *c, uint32_t qpn)
{
	uint64_t word = htobe64((uint64_t)0x1200 << 32 | (uint64_t)qpn << 8);

	__atomic_store_n((uint64_t *)(c->doorbell_page + SHMD_DB_SEND_OFFSET), word, __ATOMIC_RELEASE);
	client_wake(c);
}

void client_ring(struct client *c, unsigned int i)
{
	client_publish(c, i);
	client_ring_word(c, client_qpn(c, i));
}

/* ---- completions --------------------------------------------------------------------------------------------------------- */

uint8_t client_cqe_opcode(const struct shmd_cqe *cqe)
{
	return cqe->op_own >> 4;
}

uint8_t client_cqe_syndrome(const struct shmd_cqe *cqe)
{
	return ((const struct shmd_err_cqe *)cqe)->syndrome;
}

static bool try_poll(struct client *c, unsigned int i, struct shmd_cqe *ret_cqe)
{
	const struct nic_layout *layout = &c->queues->layout;
	uint32_t ci = c->qps[i].cq_ci;
	const struct nic_cq *cq = &layout->cqs[i];
	struct shmd_cqe *cqe = (struct shmd_cqe *)(c->queue_mem + cq->ring_offset) +
			       (ci & ((1u << cq->log2_entries) - 1));
	struct shmd_dbrec *dbrec = (struct shmd_dbrec *)(c->queue_mem + cq->dbrec_offset);
	uint8_t op_own = __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE);

	if (op_own >> 4 == SHMD_CQE_INVALID || (op_own & 1) != (ci >> cq->log2_entries & 1))
		return false;
	*ret_cqe = *cqe;
	c->qps[i].cq_ci = ci + 1;
	__atomic_store_n(&dbrec->rcv, htobe32((ci + 1) & 0xffffff), __ATOMIC_RELEASE);
	return true;
}

bool client_poll(struct client *c, unsigned int i, struct shmd_cqe *ret_cqe, uint64_t limit_nsec)
{
	uint64_t begin = nsec_now();

	for (unsigned int n = 0; !try_poll(c, i, ret_cqe); n++) {
		if (nsec_now() - begin >= limit_nsec)
			return false;
		if (n > 100)
			sched_yield();
	}
	return true;
}

void client_complete(struct client *c, unsigned int i)
{
	struct shmd_cqe cqe;

	ASSERT(client_poll(c, i, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT_EQ(client_cqe_opcode(&cqe), SHMD_CQE_REQ);
	ASSERT_EQ(be32toh(cqe.sop_drop_qpn) & 0xffffffu, client_qpn(c, i));
}

void client_wait_asleep(const struct client *c)
{
	const struct timespec pause = {.tv_nsec = 100000};
	uint64_t begin = nsec_now();

	while (!__atomic_load_n(&c->nic_page->asleep, __ATOMIC_ACQUIRE)) {
		ASSERT_LT(nsec_now() - begin, CLIENT_LIMIT_NSEC);
		nanosleep(&pause, NULL);
	}
}

/* ---- all at once ------------------------------------------------------------------------------------------------------------ */

uint64_t client_word(const struct client *c, uint64_t offset)
{
	return __atomic_load_n((uint64_t *)(void *)(c->mem + offset), __ATOMIC_ACQUIRE);
}

void client_fill(struct client *c, uint64_t offset, uint32_t bytes, uint8_t seed)
{
	for (uint32_t i = 0; i < bytes; i++)
		c->mem[offset + i] = (uint8_t)(seed + i * 7 + (i >> 8));
}

void client_exercise(struct client *a, struct client *b)
{
	client_fill(a, 0, 4096, 1);
	client_post_write(a, 0, 0, b, 8192, 4096);
	client_ring(a, 0);
	client_complete(a, 0);
	ASSERT_MEMEQ(a->mem, b->mem + 8192, 4096);

	client_post_read(a, 0, 16384, b, 8192, 4096);
	client_ring(a, 0);
	client_complete(a, 0);
	ASSERT_MEMEQ(a->mem + 16384, b->mem + 8192, 4096);

	client_post_inline(a, 0, 0x1122334455667788ull, b, 128);
	client_post_fetch_add(a, 0, 24576, b, 128, 5);
	client_ring(a, 0);
	client_complete(a, 0);
	client_complete(a, 0);
	ASSERT_EQ(client_word(b, 128), 0x1122334455667788ull + 5);
	ASSERT_EQ(client_word(a, 24576), 0x1122334455667788ull);
}

void client_send_and_receive(struct client *a, struct client *b)
{
	struct shmd_cqe cqe;

	client_fill(a, 512, 300, 9);
	client_post_recv(b, 0, 40960, 1024);
	client_wake(b);
	client_post_send(a, 0, 512, 300);
	client_ring(a, 0);
	client_complete(a, 0);
	ASSERT(client_poll(b, 0, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT_EQ(client_cqe_opcode(&cqe), SHMD_CQE_RESP_SEND);
	ASSERT_MEMEQ(b->mem + 40960, a->mem + 512, 300);
}

/* ---- records ------------------------------------------------------------------------------------------------------------- */

#define MOST_PARTS 512u

int client_export_all(struct nic_ctx *ctx, struct nic_mr *const *mrs, unsigned int n_mrs, struct nic_queues *const *queues,
		      unsigned int n_queues, void **ret_record, size_t *ret_bytes)
{
	struct nic_record_part own = {0}, of_mrs[MOST_PARTS], of_queues[MOST_PARTS];
	const struct nic_ops *ops = ctx->nic->ops;
	unsigned int n = 0, m = 0;
	void *bytes;
	int r = ops->ctx_export(ctx, &bytes, &own.n);

	if (r < 0)
		return r;
	own.bytes = bytes;
	for (unsigned int i = 0; i < n_mrs; i++)
		if (mrs[i]) {
			ASSERT_OK(ops->mr_export(mrs[i], &bytes, &of_mrs[n].n));
			of_mrs[n++].bytes = bytes;
		}
	for (unsigned int i = 0; i < n_queues; i++)
		if (queues[i]) {
			ASSERT_OK(ops->queues_export(queues[i], &bytes, &of_queues[m].n));
			of_queues[m++].bytes = bytes;
		}
	r = nic_record_join(&own, n, of_mrs, m, of_queues, ret_record, ret_bytes);
	free((void *)(uintptr_t)own.bytes);
	while (n > 0)
		free((void *)(uintptr_t)of_mrs[--n].bytes);
	while (m > 0)
		free((void *)(uintptr_t)of_queues[--m].bytes);
	return r;
}

int client_export(const struct client *c, void **ret_record, size_t *ret_bytes)
{
	return client_export_all(c->ctx, &c->mr, 1, &c->queues, 1, ret_record, ret_bytes);
}
