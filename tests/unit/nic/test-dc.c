/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic connections by the contract of nic.h, on soft NICs and on simulated ConnectX ones: SHMEMD_TEST_BACKEND says
 * which. Each session has two DCIs and a DCT in one batch; WQEs with address vectors are written by hand.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"
#include "config.h"
#include "tests/lib/test.h"

#define N_DCIS 2u
#define DCT N_DCIS /* index in a session's batch */
#define FIRST_USER 1000u /* each session is another one's, so on soft NICs each has an executor */

/* 34 ms, two retries: for a requester without an answer, and yet enough for an answer on a loaded machine. */
static const struct nic_qp_params impatient = {
	.timeout = 13, .retry_count = 2, .rnr_retry = 2, .min_rnr_timer = 1, .max_rd_atomic = 16};

static bool is_mlx5(void)
{
	const char *backend = getenv("SHMEMD_TEST_BACKEND");

	return backend && strcmp(backend, "mlx5") == 0;
}

static void open_rig(struct rig *rig)
{
#if HAVE_MLX5
	if (is_mlx5()) {
		rig_open_mlx5(rig, 2, NULL);
		return;
	}
#endif
	rig_open(rig, 2, NULL);
}

static void dc_attr(struct nic_queues_attr *attr, uint32_t access)
{
	*attr = (struct nic_queues_attr){
		.n_cq_specs = 1,
		.n_qp_specs = 2,
		.cqs = {{.count = N_DCIS + 1, .log2_entries = CLIENT_LOG2_CQ}},
		.qps = {{.count = N_DCIS, .type = NIC_QP_DCI, .log2_sq_wqebbs = CLIENT_LOG2_SQ, .send_cq_step = 1,
			 .recv_cq_step = 1},
			{.count = 1, .type = NIC_QP_DCT, .send_cq_first = N_DCIS, .recv_cq_first = N_DCIS,
			 .access = access}},
	};
}

static void connect_dcis(struct client *c, const struct nic_qp_params *params)
{
	struct nic_peer peers[N_DCIS] = {{.qpn = client_qpn(c, 0)}, {.qpn = client_qpn(c, 1)}};
	unsigned int n_done = 0;

	ASSERT_OK(c->ctx->nic->ops->connect(c->ctx, N_DCIS, peers, params, &n_done));
	ASSERT_EQ(n_done, N_DCIS);
}

/* In a context that is open. */
static void session_make(struct client *c, const struct nic_qp_params *params, uint32_t access)
{
	struct nic_queues_attr attr;

	client_reg(c);
	dc_attr(&attr, access);
	client_create_as(c, &attr);
	connect_dcis(c, params);
}

static void session_open_as(struct client *c, struct nic *nic, uint64_t id, const struct nic_qp_params *params,
			    uint32_t access)
{
	client_open_ctx_for(c, nic, id, FIRST_USER + (uint32_t)id);
	session_make(c, params, access);
}

static void session_open(struct client *c, struct nic *nic, uint64_t id)
{
	session_open_as(c, nic, id, &client_params,
			NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC);
}

static struct nic_dc_peer resolve(struct client *from, const struct client *to)
{
	struct nic_dc_peer peer;
	unsigned int n_done = 0;

	ASSERT_OK(from->ctx->nic->ops->resolve(from->ctx, 1, &to->queues->layout.qps[DCT].addr, 0, &peer, &n_done));
	ASSERT_EQ(n_done, 1u);
	return peer;
}

/* ---- WQEs with an address vector, of two WQEBBs ------------------------------------------------------------------ */

struct dc_wqe {
	struct shmd_wqe_ctrl_seg ctrl;
	struct shmd_wqe_av_seg av;
	struct shmd_wqe_raddr_seg raddr;
	union {
		struct shmd_wqe_data_seg data;
		struct {
			struct shmd_wqe_atomic_seg atomic;
			struct shmd_wqe_data_seg result;
		};
	};
	uint8_t rest[16];
};
_Static_assert(sizeof(struct dc_wqe) == 2 * SHMD_WQEBB_BYTES, "two WQEBBs");

static struct dc_wqe *next_wqe(struct client *c, unsigned int i, uint8_t opcode, const struct nic_dc_peer *peer)
{
	const struct nic_qp *qp = &c->queues->layout.qps[i];
	uint32_t index = c->qps[i].sq_pi;
	struct dc_wqe *wqe = (struct dc_wqe *)(c->queue_mem + qp->sq_offset +
					       (index & ((1u << qp->log2_sq_wqebbs) - 1)) * SHMD_WQEBB_BYTES);
	bool atomic = opcode == SHMD_OPCODE_ATOMIC_FA;

	c->qps[i].sq_pi += 2;
	memset(wqe, 0, sizeof(*wqe));
	wqe->ctrl.opmod_idx_opcode = htobe32((index & 0xffff) << 8 | opcode);
	wqe->ctrl.qpn_ds = htobe32(qp->qpn << 8 | (atomic ? 7 : 6));
	wqe->ctrl.fm_ce_se = SHMD_WQE_CE_ALWAYS;
	wqe->av = peer->av;
	return wqe;
}

static void set_raddr(struct dc_wqe *wqe, const struct client *to, uint64_t remote)
{
	wqe->raddr = (struct shmd_wqe_raddr_seg){.raddr = htobe64(CLIENT_IOVA + remote), .rkey = htobe32(to->mr->rkey)};
}

static struct shmd_wqe_data_seg data_seg(const struct client *c, uint64_t local, uint32_t bytes)
{
	return (struct shmd_wqe_data_seg){
		.byte_count = htobe32(bytes), .lkey = htobe32(c->mr->lkey), .addr = htobe64(CLIENT_IOVA + local)};
}

static void post(struct client *c, unsigned int i, uint8_t opcode, const struct nic_dc_peer *peer,
		 const struct client *to, uint64_t local, uint64_t remote, uint32_t bytes)
{
	struct dc_wqe *wqe = next_wqe(c, i, opcode, peer);

	set_raddr(wqe, to, remote);
	wqe->data = data_seg(c, local, bytes);
}

static void post_add(struct client *c, unsigned int i, const struct nic_dc_peer *peer, const struct client *to,
		     uint64_t local, uint64_t remote, uint64_t add)
{
	struct dc_wqe *wqe = next_wqe(c, i, SHMD_OPCODE_ATOMIC_FA, peer);

	set_raddr(wqe, to, remote);
	wqe->atomic.swap_add = htobe64(add);
	wqe->result = data_seg(c, local, 8);
}

static void write_one(struct client *c, unsigned int i, const struct nic_dc_peer *peer, const struct client *to,
		      uint64_t local, uint64_t remote, uint32_t bytes)
{
	post(c, i, SHMD_OPCODE_RDMA_WRITE, peer, to, local, remote, bytes);
	client_ring(c, i);
}

static void expect_error(struct client *c, unsigned int i, uint8_t syndrome)
{
	struct nic_qp_info info;
	struct shmd_cqe cqe;

	ASSERT(client_poll(c, i, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT_EQ(client_cqe_opcode(&cqe), SHMD_CQE_REQ_ERR);
	ASSERT_EQ(client_cqe_syndrome(&cqe), syndrome);
	ASSERT_OK(c->ctx->nic->ops->qp_query(c->ctx, client_qpn(c, i), &info));
	ASSERT_EQ(info.state, NIC_QPS_ERR);
	ASSERT_EQ(info.first_error, syndrome);
}

/* ---- data ---------------------------------------------------------------------------------------------------------- */

/* Sessions on both NICs, one of them the DCI's own; each in turn, again and again. */
TEST(one_dci_reaches_the_dcts_of_many_sessions)
{
	struct nic_dc_peer peers[3];
	struct client s[3];
	struct rig rig;

	open_rig(&rig);
	for (unsigned int i = 0; i < 3; i++)
		session_open(&s[i], rig.nic[i & 1], 1 + i);
	for (unsigned int i = 0; i < 3; i++) {
		peers[i] = resolve(&s[0], &s[i]);
		ASSERT_EQ(peers[i].dctn, client_qpn(&s[i], DCT));
	}
	client_fill(&s[0], 0, 8192, 1);
	for (unsigned int k = 0; k < 30; k++) {
		struct client *to = &s[k % 3];
		uint64_t at = 16384 + 4096 * (uint64_t)(k / 3);

		write_one(&s[0], k & 1, &peers[k % 3], to, k, at, 4000);
		client_complete(&s[0], k & 1);
		ASSERT_EQ(memcmp(to->mem + at, s[0].mem + k, 4000), 0);
		post(&s[0], k & 1, SHMD_OPCODE_RDMA_READ, &peers[k % 3], to, 524288, at, 4000);
		post_add(&s[0], k & 1, &peers[k % 3], to, 8, 600000, k);
		client_ring(&s[0], k & 1);
		client_complete(&s[0], k & 1);
		client_complete(&s[0], k & 1);
		ASSERT_EQ(memcmp(s[0].mem + 524288, to->mem + at, 4000), 0);
	}
	/* 0 + 3 + ... + 27, and so on. */
	for (unsigned int i = 0; i < 3; i++)
		ASSERT_EQ(client_word(&s[i], 600000), 135u + 10 * i);
	for (unsigned int i = 0; i < 3; i++)
		client_close(&s[i]);
	rig_close(&rig);
}

/* In one ring, without waiting between them. */
TEST(wqes_to_different_dcts_complete_in_order)
{
	struct nic_dc_peer peers[2];
	struct client s[2];
	struct rig rig;

	open_rig(&rig);
	for (unsigned int i = 0; i < 2; i++)
		session_open(&s[i], rig.nic[i], 1 + i);
	for (unsigned int i = 0; i < 2; i++)
		peers[i] = resolve(&s[0], &s[i]);
	for (unsigned int round = 0; round < 4; round++) {
		for (unsigned int k = 0; k < 24; k++) {
			*(uint64_t *)(void *)(s[0].mem + 8 * k) = 1000 * round + k;
			post(&s[0], 0, SHMD_OPCODE_RDMA_WRITE, &peers[k & 1], &s[k & 1], 8 * k, 8192 + 8 * k, 8);
		}
		client_ring(&s[0], 0);
		for (unsigned int k = 0; k < 24; k++)
			client_complete(&s[0], 0);
		for (unsigned int k = 0; k < 24; k++)
			ASSERT_EQ(client_word(&s[k & 1], 8192 + 8 * k), 1000 * round + k);
	}
	for (unsigned int i = 0; i < 2; i++)
		client_close(&s[i]);
	rig_close(&rig);
}

/* ---- isolation ------------------------------------------------------------------------------------------------------- */

/* With number, address and memory key of the target, all but its DC key. */
TEST(without_its_key_a_dct_is_not_reached)
{
	struct nic_dc_peer right, wrong;
	struct client a, b;
	struct rig rig;

	open_rig(&rig);
	session_open_as(&a, rig.nic[0], 1, &impatient, 0);
	session_open(&b, rig.nic[1], 2);
	right = resolve(&a, &b);
	ASSERT_NE(right.dc_key, 0u);
	for (unsigned int bit = 0; bit < 64; bit += 21) {
		wrong = right;
		wrong.av.dc_key ^= htobe64(1ull << bit);
		client_fill(&a, 0, 64, 7);
		write_one(&a, 0, &wrong, &b, 0, 0, 64);
		expect_error(&a, 0, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
		for (unsigned int k = 0; k < 8; k++)
			ASSERT_EQ(client_word(&b, 8 * k), 0u);
		ASSERT_OK(a.ctx->nic->ops->qp_modify(a.ctx, client_qpn(&a, 0), NIC_QPS_RST));
		a.qps[0].sq_pi = 0;
		client_publish(&a, 0);
		ASSERT_OK(a.ctx->nic->ops->connect(
			a.ctx, 1, &(struct nic_peer){.qpn = client_qpn(&a, 0)}, &impatient, &(unsigned int){0}));
	}
	/* The target never noticed. */
	write_one(&a, 1, &right, &b, 0, 0, 64);
	client_complete(&a, 1);
	ASSERT_EQ(memcmp(a.mem, b.mem, 64), 0);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

TEST(keys_of_dcts_are_their_own)
{
	uint64_t keys[6];
	struct client s[6];
	struct rig rig;

	open_rig(&rig);
	for (unsigned int i = 0; i < 6; i++) {
		session_open(&s[i], rig.nic[i & 1], 1 + i);
		keys[i] = s[i].queues->layout.qps[DCT].addr.dc_key;
		ASSERT_GT(keys[i] >> 16, 0u);
		ASSERT_EQ(s[i].queues->layout.qps[0].addr.dc_key, 0u);
		for (unsigned int k = 0; k < i; k++)
			ASSERT_NE(keys[i], keys[k]);
	}
	for (unsigned int i = 0; i < 6; i++)
		client_close(&s[i]);
	rig_close(&rig);
}

/* Rights of the DCT and of the memory bind; a client that breaks them fails alone. */
TEST(a_dci_that_is_refused_leaves_the_dct_to_others)
{
	struct nic_dc_peer to_b, to_c;
	struct client a, b, c;
	struct rig rig;

	open_rig(&rig);
	session_open(&a, rig.nic[0], 1);
	session_open_as(&b, rig.nic[1], 2, &client_params, NIC_ACCESS_REMOTE_READ);
	session_open(&c, rig.nic[1], 3);
	to_b = resolve(&a, &b);
	to_c = resolve(&a, &c);
	write_one(&a, 0, &to_b, &b, 0, 0, 64);
	expect_error(&a, 0, SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR);
	post(&a, 1, SHMD_OPCODE_RDMA_READ, &to_b, &b, 0, 0, 64);
	client_ring(&a, 1);
	client_complete(&a, 1);
	/* The key of another session's memory. */
	write_one(&a, 1, &to_c, &b, 0, 0, 64);
	expect_error(&a, 1, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	write_one(&b, 0, &to_c, &c, 0, 0, 64);
	client_complete(&b, 0);
	client_close(&a);
	client_close(&b);
	client_close(&c);
	rig_close(&rig);
}

/* ---- ends -------------------------------------------------------------------------------------------------------------- */

static void destroy_queues(struct client *c)
{
	uint64_t bytes = c->queues->layout.total_bytes;

	c->ctx->nic->ops->ctx_quiesce(c->ctx, 0);
	ASSERT_OK(c->ctx->nic->ops->queues_destroy(c->queues));
	munmap(c->queue_mem, bytes);
	close(c->queue_fd);
	c->queues = NULL;
}

TEST(a_dct_that_is_gone_is_not_reached)
{
	struct nic_dc_peer peer;
	struct client a, b;
	struct rig rig;

	open_rig(&rig);
	session_open_as(&a, rig.nic[0], 1, &impatient, 0);
	session_open(&b, rig.nic[1], 2);
	peer = resolve(&a, &b);
	write_one(&a, 0, &peer, &b, 0, 0, 64);
	client_complete(&a, 0);
	destroy_queues(&b);
	write_one(&a, 0, &peer, &b, 0, 0, 64);
	expect_error(&a, 0, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	write_one(&a, 1, &peer, &b, 0, 0, 64);
	expect_error(&a, 1, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

/* Sessions end while others write to them, and while they write themselves. */
TEST(sessions_end_in_the_midst_of_traffic)
{
	struct nic_dc_peer peer, back;
	struct client a, b;
	struct rig rig;

	open_rig(&rig);
	for (unsigned int round = 0; round < 8; round++) {
		session_open_as(&a, rig.nic[0], 1, &impatient, NIC_ACCESS_REMOTE_WRITE);
		session_open_as(&b, rig.nic[round & 1], 2, &impatient, NIC_ACCESS_REMOTE_WRITE);
		peer = resolve(&a, &b);
		back = resolve(&b, &a);
		for (unsigned int k = 0; k < 20; k++) {
			/* Into bytes that no test reads: two NICs may be at them at once. */
			post(&a, k & 1, SHMD_OPCODE_RDMA_WRITE, &peer, &b, 0, 65536, 65536);
			post(&b, k & 1, SHMD_OPCODE_RDMA_WRITE, &back, &a, 0, 65536, 65536);
		}
		for (unsigned int k = 0; k < N_DCIS; k++) {
			client_ring(&a, k);
			client_ring(&b, k);
		}
		client_close(round & 2 ? &a : &b);
		client_close(round & 2 ? &b : &a);
	}
	rig_close(&rig);
}

/* The descriptors and records of a session between two daemons. */
struct left {
	struct nic_saved_fds fds;
	void *record;
	size_t bytes;
};

static void leave(struct client *c, struct left *left)
{
	const struct nic_ops *ops = c->ctx->nic->ops;

	ASSERT_OK(ops->ctx_saved_fds(c->ctx, &left->fds));
	for (unsigned int i = 0; i < left->fds.n; i++)
		left->fds.fds[i] = dup(left->fds.fds[i]);
	ASSERT_OK(client_export(c, &left->record, &left->bytes));
	client_swap_ctx(c->ctx, NULL);
	ASSERT(!ops->ctx_unimport(c->ctx));
}

static void adopt(struct client *c, struct nic *nic, uint64_t id, struct left *left)
{
	const struct nic_import_attr attr = {
		.ctx = {.session_id = id, .health_fd = -1, .is_saved = true},
		.fds = left->fds,
		.record = left->record,
		.record_bytes = left->bytes,
		.n_queue_fds = 1,
		.queue_fds = &c->queue_fd,
		.n_mr_fds = 1,
		.mr_fds = &c->mem_fd,
	};
	struct nic_imported imported;

	ASSERT_OK(nic->ops->ctx_import(nic, &attr, &imported));
	c->ctx = imported.ctx;
	c->queues = imported.queues[0];
	c->mr = imported.mrs[0];
	client_swap_ctx(NULL, c->ctx);
	nic_imported_deinit(&imported);
	free(left->record);
	for (unsigned int i = 0; i < left->fds.n; i++)
		close(left->fds.fds[i]);
}

/* Soft NICs end, and others go on with their sessions: each atomic takes effect once, the way to a DCT is the one of before. */
TEST(dc_queues_go_on_with_other_nics)
{
	const uint32_t access = NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC;
	struct nic_dc_peer peers[2];
	struct left left[2];
	struct client s[2];
	struct rig rig;

	if (is_mlx5())
		return; /* the next test */
	open_rig(&rig);
	for (unsigned int i = 0; i < 2; i++) {
		client_open_ctx_saved(&s[i], rig.nic[i], 1 + i);
		session_make(&s[i], &client_params, access);
	}
	for (unsigned int i = 0; i < 2; i++)
		peers[i] = resolve(&s[0], &s[i]);
	for (uint64_t round = 0; round < 10; round++) {
		for (uint64_t k = 0; k < 24; k++)
			post_add(&s[0], 0, &peers[k / 3 & 1], &s[k / 3 & 1], 8192 + 8 * k, 600000, 1);
		client_ring(&s[0], 0);
		usleep(round % 4 * 10);
		for (unsigned int i = 0; i < 2; i++)
			leave(&s[i], &left[i]);
		rig_close(&rig);
		open_rig(&rig);
		for (unsigned int i = 0; i < 2; i++)
			adopt(&s[i], rig.nic[i], 1 + i, &left[i]);
		for (unsigned int i = 0; i < 2; i++)
			rig.nic[i]->ops->resume(rig.nic[i]);
		for (uint64_t k = 0; k < 24; k++) {
			client_complete(&s[0], 0);
			ASSERT_EQ(client_word(&s[0], 8192 + 8 * k), round * 12 + k / 6 * 3 + k % 3);
		}
		ASSERT_EQ(client_word(&s[0], 600000), (round + 1) * 12);
		ASSERT_EQ(client_word(&s[1], 600000), (round + 1) * 12);
		ASSERT_EQ(resolve(&s[0], &s[1]).dc_key, peers[1].dc_key);
	}
	client_fill(&s[0], 0, 4096, 1);
	write_one(&s[0], 1, &peers[1], &s[1], 0, 16384, 4096);
	client_complete(&s[0], 1);
	ASSERT_EQ(memcmp(s[0].mem, s[1].mem + 16384, 4096), 0);
	for (unsigned int i = 0; i < 2; i++)
		client_close(&s[i]);
	rig_close(&rig);
}

/* A daemon lets go of a session, and another one goes on with it where the NIC outlives it: its DCT serves all the time, its DCI stays ready. */
TEST(dc_queues_go_on_without_and_with_another_daemon)
{
	struct nic_imported imported = {0};
	struct nic_import_attr attr = {.ctx = {.session_id = 9, .health_fd = -1}};
	struct nic_dc_peer peer, back;
	struct client a, b;
	const struct nic_ops *ops;
	struct nic_qp_info info;
	struct nic_mr mr;
	struct rig rig;
	void *record;

	open_rig(&rig);
	ops = rig.nic[1]->ops;
	session_open_as(&a, rig.nic[0], 1, &impatient, NIC_ACCESS_REMOTE_WRITE);
	/* Soft contexts that are not saved end with their process, and say so. */
	if (!is_mlx5()) {
		ASSERT_ERR(ops->ctx_export(a.ctx, &record, &attr.record_bytes), EOPNOTSUPP);
		client_close(&a);
		rig_close(&rig);
		return;
	}
	session_open(&b, rig.nic[1], 2);
	peer = resolve(&a, &b);
	back = resolve(&b, &a);
	ASSERT_OK(client_export(&b, &record, &attr.record_bytes));
	attr.record = record;
	ASSERT_OK(ops->ctx_saved_fds(b.ctx, &attr.fds));
	attr.fds.fds[0] = dup(attr.fds.fds[0]);
	attr.queue_fds = &b.queue_fd;
	attr.n_queue_fds = 1;
	mr = *b.mr;
	b.mr = &mr;
	ASSERT(!ops->ctx_unimport(b.ctx));
	client_fill(&a, 0, 64, 3);
	write_one(&a, 0, &peer, &b, 0, 0, 64);
	client_complete(&a, 0);
	ASSERT_EQ(memcmp(a.mem, b.mem, 64), 0);
	ASSERT_OK(ops->ctx_import(rig.nic[1], &attr, &imported));
	b.ctx = imported.ctx;
	b.queues = imported.queues[0];
	b.mr = imported.mrs[0];
	ASSERT_EQ(resolve(&a, &b).dc_key, peer.dc_key);
	ASSERT_OK(ops->qp_query(b.ctx, client_qpn(&b, DCT), &info));
	ASSERT_EQ(info.state, NIC_QPS_RTR);
	ASSERT_OK(ops->qp_query(b.ctx, client_qpn(&b, 0), &info));
	ASSERT_EQ(info.state, NIC_QPS_RTS);
	write_one(&a, 0, &peer, &b, 0, 4096, 64);
	client_complete(&a, 0);
	write_one(&b, 0, &back, &a, 4096, 8192, 64);
	client_complete(&b, 0);
	ASSERT_EQ(memcmp(a.mem, a.mem + 8192, 64), 0);
	client_close(&b);
	nic_imported_deinit(&imported);
	free(record);
	close(attr.fds.fds[0]);
	/* It could be destroyed, the pool with it. */
	write_one(&a, 0, &peer, &a, 0, 0, 64);
	expect_error(&a, 0, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	client_close(&a);
	rig_close(&rig);
}

/* ---- states ------------------------------------------------------------------------------------------------------------ */

TEST(a_dct_is_ready_when_it_is_made_and_nothing_else)
{
	static const enum nic_qp_state states[] = {NIC_QPS_RST, NIC_QPS_INIT, NIC_QPS_RTS, NIC_QPS_ERR, NIC_QPS_SQD};
	const struct nic_ops *ops;
	struct nic_qp_info info;
	struct nic_peer peer;
	unsigned int n_done = 9;
	struct client c;
	struct rig rig;

	open_rig(&rig);
	session_open(&c, rig.nic[0], 1);
	ops = rig.nic[0]->ops;
	peer = (struct nic_peer){.qpn = client_qpn(&c, DCT)};
	ASSERT_OK(ops->qp_query(c.ctx, peer.qpn, &info));
	ASSERT_EQ(info.state, NIC_QPS_RTR);
	ASSERT_EQ(info.dest_qpn, 0u);
	for (unsigned int i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		ASSERT_ERR(ops->qp_modify(c.ctx, peer.qpn, states[i]), EINVAL);
	ASSERT_ERR(ops->connect(c.ctx, 1, &peer, &client_params, &n_done), EINVAL);
	ASSERT_EQ(n_done, 0u);
	peer.remote = c.queues->layout.qps[DCT].addr;
	ASSERT_ERR(ops->connect(c.ctx, 1, &peer, &client_params, &n_done), EINVAL);
	client_close(&c);
	rig_close(&rig);
}

TEST(a_dci_is_connected_without_a_peer)
{
	const struct nic_ops *ops;
	struct nic_qp_info info;
	struct nic_peer peer;
	unsigned int n_done = 9;
	struct client c;
	struct rig rig;

	open_rig(&rig);
	session_open(&c, rig.nic[0], 1);
	ops = rig.nic[0]->ops;
	peer = (struct nic_peer){.qpn = client_qpn(&c, 0)};
	ASSERT_OK(ops->qp_query(c.ctx, peer.qpn, &info));
	ASSERT_EQ(info.state, NIC_QPS_RTS);
	ASSERT_ERR(ops->connect(c.ctx, 1, &peer, &client_params, &n_done), EINVAL);
	ASSERT_OK(ops->qp_modify(c.ctx, peer.qpn, NIC_QPS_RST));
	peer.remote = c.queues->layout.qps[DCT].addr;
	ASSERT_ERR(ops->connect(c.ctx, 1, &peer, &client_params, &n_done), EINVAL);
	ASSERT_OK(ops->qp_modify(c.ctx, peer.qpn, NIC_QPS_INIT));
	memset(&peer.remote, 0, sizeof(peer.remote));
	ASSERT_OK(ops->connect(c.ctx, 1, &peer, &client_params, &n_done));
	ASSERT_EQ(n_done, 1u);
	ASSERT_OK(ops->qp_query(c.ctx, peer.qpn, &info));
	ASSERT_EQ(info.state, NIC_QPS_RTS);
	client_close(&c);
	rig_close(&rig);
}

TEST(a_dci_receives_nothing)
{
	struct nic_queues_attr attr;
	struct nic_layout layout;

	dc_attr(&attr, 0);
	ASSERT_OK(nic_layout_init(&layout, &attr));
	nic_layout_deinit(&layout);
	attr.qps[0].n_rq_wqes = 16;
	attr.qps[0].log2_rq_stride = 4;
	ASSERT_ERR(nic_layout_init(&layout, &attr), EINVAL);
}

/* ---- addresses --------------------------------------------------------------------------------------------------------- */

TEST(addresses_of_elsewhere_are_not_resolved)
{
	struct nic_dc_peer peers[3];
	struct nic_addr addrs[3];
	unsigned int n_done = 9;
	struct client a, b;
	struct rig rig;

	open_rig(&rig);
	session_open(&a, rig.nic[0], 1);
	session_open(&b, rig.nic[1], 2);
	for (unsigned int i = 0; i < 3; i++)
		addrs[i] = b.queues->layout.qps[DCT].addr;
	addrs[2].link = addrs[2].link == NIC_LINK_ETHERNET ? NIC_LINK_INFINIBAND : NIC_LINK_ETHERNET;
	ASSERT_ERR(rig.nic[0]->ops->resolve(a.ctx, 3, addrs, 0, peers, &n_done), EHOSTUNREACH);
	ASSERT_EQ(n_done, 2u);
	ASSERT_EQ(memcmp(&peers[0], &peers[1], sizeof(peers[0])), 0);
	if (addrs[0].link == NIC_LINK_ETHERNET && !is_mlx5()) {
		addrs[0].gid[15] ^= 0xff;
		ASSERT_ERR(rig.nic[0]->ops->resolve(a.ctx, 1, addrs, 0, peers, &n_done), EHOSTUNREACH);
		ASSERT_EQ(n_done, 0u);
	}
	ASSERT_OK(rig.nic[0]->ops->resolve(a.ctx, 0, addrs, 0, peers, &n_done));
	ASSERT_EQ(n_done, 0u);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

TEST(the_traffic_class_is_in_the_address_vector)
{
	struct nic_dc_peer peer;
	unsigned int n_done;
	struct client c;
	struct rig rig;

	open_rig(&rig);
	session_open(&c, rig.nic[0], 1);
	ASSERT_OK(rig.nic[0]->ops->resolve(c.ctx, 1, &c.queues->layout.qps[DCT].addr, 0x68, &peer, &n_done));
	/* InfiniBand without a router has no header for it. */
	if (c.queues->layout.qps[DCT].addr.link == NIC_LINK_ETHERNET)
		ASSERT_EQ(peer.av.tclass, 0x68);
	ASSERT_EQ(be32toh(peer.av.dqp_dct), SHMD_AV_EXTENDED | client_qpn(&c, DCT));
	ASSERT_EQ(be64toh(peer.av.dc_key), peer.dc_key);
	client_close(&c);
	rig_close(&rig);
}
