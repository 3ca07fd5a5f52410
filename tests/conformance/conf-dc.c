/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dynamic connections: one DCI to the DCTs of several sessions, on its own NIC and on another. WQEs are written by hand,
 * with the address vectors that the daemon made. Each session has a DCI and a DCT of its own.
 */
#include "tests/conformance/fixture.h"

#include <stdlib.h>
#include <string.h>

#define N_ENDS 4u
#define SQ_WQEBBS 32u
#define MEM_BYTES 32768u
#define N_MANY 1025u

/* One session. */
struct end {
	struct conf_side side;
	struct conf_qp dci;
	struct shmd_dct *dct; /* NULL: destroyed */
	struct shmd_addr addr;
};

struct world {
	struct end ends[N_ENDS];
	struct shmd_dev_peer peers[N_ENDS]; /* how end 0 reaches them */
	bool ordinary_cq;
};

static const struct shmd_qp_params patient = {
	.timeout = 20, .retry_count = 7, .rnr_retry = 7, .min_rnr_timer = 1, .max_rd_atomic = 16};

/* ---- the world ------------------------------------------------------------------------------------------------- */

static void dci_open(struct end *end, const struct world *w, const struct shmd_qp_params *params)
{
	const struct shmd_queues_attr attr = {
		.n_qps = 1,
		.sq_wqebbs = SQ_WQEBBS,
		.cq_mode = w->ordinary_cq ? SHMD_CQ_MODE_ORDINARY : SHMD_CQ_MODE_COLLAPSED,
		.qp_type = SHMD_QP_TYPE_DCI,
	};
	struct conf_qp *qp = &end->dci;

	if (shmd_queues_create(end->side.nic, &attr, &end->side.queues) < 0)
		test_fail(TEST_WHERE, "shmd_queues_create: %s", shmd_error_text());
	qp->side = &end->side;
	qp->collapsed = !w->ordinary_cq;
	qp->dev = shmd_queues_dev_qp(end->side.queues, 0);
	ASSERT_EQ(qp->dev->flags & SHMD_QP_DC, SHMD_QP_DC);
	qp->slot_wqebbs = calloc(qp->dev->sq_wqebbs, 1);
	ASSERT(qp->slot_wqebbs);
	if (shmd_queues_connect(end->side.queues, 0, 1, NULL, params, NULL) < 0)
		test_fail(TEST_WHERE, "shmd_queues_connect: %s", shmd_error_text());
}

static void end_open(struct world *w, unsigned int i, const struct shmd_qp_params *params, uint32_t access)
{
	struct end *end = &w->ends[i];

	end->side.client = conf_client_open();
	end->side.nic = conf_nic_open(end->side.client, i & 1);
	conf_mem_open(&end->side, &end->side.mem, MEM_BYTES, SHMD_ACCESS_ALL);
	conf_pattern(end->side.mem.addr, MEM_BYTES, i);
	conf_pattern(end->side.mem.want, MEM_BYTES, i);
	dci_open(end, w, params);
	if (shmd_dct_create(end->side.nic, access, &end->dct) < 0)
		test_fail(TEST_WHERE, "shmd_dct_create: %s", shmd_error_text());
	ASSERT_OK(shmd_dct_addr(end->dct, &end->addr));
}

static void world_open(struct world *w, bool ordinary_cq, const struct shmd_qp_params *params)
{
	struct shmd_addr addrs[N_ENDS];
	unsigned int n_done = 0;

	memset(w, 0, sizeof(*w));
	w->ordinary_cq = ordinary_cq;
	conf_daemon_start();
	/* The last one may only be read. */
	for (unsigned int i = 0; i < N_ENDS; i++)
		end_open(w, i, params, i == N_ENDS - 1 ? SHMD_ACCESS_REMOTE_READ : 0);
	for (unsigned int i = 0; i < N_ENDS; i++)
		addrs[i] = w->ends[i].addr;
	if (shmd_peers_resolve(w->ends[0].side.nic, N_ENDS, addrs, 0, w->peers, &n_done) < 0)
		test_fail(TEST_WHERE, "shmd_peers_resolve: %s", shmd_error_text());
	ASSERT_EQ(n_done, N_ENDS);
}

static void end_close(struct end *end)
{
	free(end->dci.slot_wqebbs);
	ASSERT_OK(shmd_queues_destroy(end->side.queues));
	if (end->dct)
		ASSERT_OK(shmd_dct_destroy(end->dct));
	conf_mem_close(&end->side.mem);
	ASSERT_OK(shmd_nic_close(end->side.nic));
	shmd_client_close(end->side.client);
}

/* Memory of every session is what it must be. */
static void check(const struct world *w)
{
	static const char *const names[N_ENDS] = {"session 0", "session 1", "session 2", "session 3"};

	for (unsigned int i = 0; i < N_ENDS; i++)
		conf_check_mem_at(TEST_WHERE, &w->ends[i].side.mem, names[i]);
}

static void world_close(struct world *w)
{
	check(w);
	for (unsigned int i = 0; i < N_ENDS; i++)
		end_close(&w->ends[i]);
	conf_daemon_stop();
}

static void each_variant(void (*fn)(struct world *w), const struct shmd_qp_params *params)
{
	for (int ordinary = 0; ordinary < 2; ordinary++) {
		struct world w;

		world_open(&w, ordinary, params);
		fn(&w);
		world_close(&w);
	}
}

/* ---- requests ------------------------------------------------------------------------------------------------------ */

static uint64_t at(const struct end *end, size_t off)
{
	return (uintptr_t)end->side.mem.addr + off;
}

static void begin(struct conf_wqe *wqe, uint8_t opcode, const struct shmd_dev_peer *peer)
{
	conf_wqe_init(wqe, opcode);
	conf_wqe_segment(wqe, peer->av, sizeof(peer->av));
}

/* Between the memory of `from`, whose DCI posts it, and that of `to`, whatever the peer is. */
static void request(struct conf_wqe *wqe, uint8_t opcode, const struct shmd_dev_peer *peer, const struct end *from,
		    size_t loc, const struct end *to, size_t rem, uint32_t bytes)
{
	begin(wqe, opcode, peer);
	conf_wqe_raddr(wqe, at(to, rem), to->side.mem.rkey_be);
	conf_wqe_data(wqe, at(from, loc), bytes, from->side.mem.lkey_be);
}

static void write_to(struct world *w, unsigned int i, size_t loc, size_t rem, uint32_t bytes)
{
	struct end *from = &w->ends[0], *to = &w->ends[i];
	struct conf_wqe wqe;

	request(&wqe, SHMD_OPCODE_RDMA_WRITE, &w->peers[i], from, loc, to, rem, bytes);
	conf_want_copy(&to->side.mem, rem, &from->side.mem, loc, bytes);
	conf_do(&from->dci, &wqe);
}

static void read_from(struct world *w, unsigned int i, size_t loc, size_t rem, uint32_t bytes)
{
	struct end *from = &w->ends[0], *to = &w->ends[i];
	struct conf_wqe wqe;

	request(&wqe, SHMD_OPCODE_RDMA_READ, &w->peers[i], from, loc, to, rem, bytes);
	conf_want_copy(&from->side.mem, loc, &to->side.mem, rem, bytes);
	conf_do(&from->dci, &wqe);
}

static void add_at(struct world *w, unsigned int i, size_t loc, size_t rem, uint64_t add)
{
	struct end *from = &w->ends[0], *to = &w->ends[i];
	struct shmd_wqe_atomic_seg atomic = {.swap_add = htobe64(add)};
	struct conf_wqe wqe;
	uint64_t old, sum;

	memcpy(&old, to->side.mem.want + rem, 8);
	sum = old + add;
	begin(&wqe, SHMD_OPCODE_ATOMIC_FA, &w->peers[i]);
	conf_wqe_raddr(&wqe, at(to, rem), to->side.mem.rkey_be);
	conf_wqe_segment(&wqe, &atomic, sizeof(atomic));
	conf_wqe_data(&wqe, at(from, loc), 8, from->side.mem.lkey_be);
	conf_want_bytes(&to->side.mem, rem, &sum, 8);
	conf_want_bytes(&from->side.mem, loc, &old, 8);
	conf_do(&from->dci, &wqe);
}

/* A failed DCI begins anew. */
static void revive(struct end *end, const struct shmd_qp_params *params)
{
	conf_modify(&end->dci, SHMD_QP_RST);
	ASSERT_EQ(conf_query(&end->dci).first_error, 0u);
	ASSERT_OK(shmd_queues_connect(end->side.queues, 0, 1, NULL, params, NULL));
}

/* ---- data ---------------------------------------------------------------------------------------------------------- */

static void everywhere(struct world *w)
{
	for (unsigned int k = 0; k < 24; k++) {
		unsigned int i = k % (N_ENDS - 1);

		write_to(w, i, 64 * k, 16384 + 512 * k, 500);
		read_from(w, i, 8192 + 256 * k, 20000 + k, 250);
		add_at(w, i, 8192 + 256 * k + 8, 64, k);
	}
	read_from(w, N_ENDS - 1, 0, 100, 8000);
	ASSERT_EQ(conf_query(&w->ends[0].dci).state, SHMD_QP_RTS);
}

TEST(conf_dc_one_dci_writes_reads_and_adds_at_many_sessions)
{
	each_variant(everywhere, &patient);
}

/* As many as the ring holds, for a different session each, rung once. */
static void without_waiting(struct world *w)
{
	struct end *from = &w->ends[0];
	uint16_t last = 0;

	for (unsigned int round = 0; round < 5; round++) {
		for (unsigned int k = 0; k < SQ_WQEBBS / 2; k++) {
			unsigned int i = k % (N_ENDS - 1);
			struct conf_wqe wqe;

			request(&wqe, SHMD_OPCODE_RDMA_WRITE, &w->peers[i], from, 128 * k, &w->ends[i],
				16384 + 256 * k + round, 120);
			conf_want_copy(&w->ends[i].side.mem, 16384 + 256 * k + round, &from->side.mem, 128 * k, 120);
			last = conf_post(&from->dci, &wqe);
		}
		conf_ring(&from->dci);
		conf_expect_ok(&from->dci, last);
		check(w);
	}
}

TEST(conf_dc_requests_for_different_sessions_complete_in_order)
{
	each_variant(without_waiting, &patient);
}

static void large(struct world *w)
{
	for (unsigned int i = 1; i < N_ENDS - 1; i++)
		write_to(w, i, 0, 16384, 16384);
}

TEST(conf_dc_writes_of_many_packets_arrive_whole)
{
	each_variant(large, &patient);
}

/* ---- errors -------------------------------------------------------------------------------------------------------- */

static void rights(struct world *w)
{
	struct end *from = &w->ends[0], *to = &w->ends[N_ENDS - 1];
	struct conf_wqe wqe;

	request(&wqe, SHMD_OPCODE_RDMA_WRITE, &w->peers[N_ENDS - 1], from, 0, to, 0, 64);
	conf_expect_error(&from->dci, conf_run(&from->dci, &wqe), SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR);
	revive(from, &patient);
	/* Right target, memory key of another session. */
	request(&wqe, SHMD_OPCODE_RDMA_WRITE, &w->peers[1], from, 0, &w->ends[2], 0, 64);
	conf_expect_error(&from->dci, conf_run(&from->dci, &wqe), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	revive(from, &patient);
	read_from(w, N_ENDS - 1, 0, 100, 64);
	write_to(w, 1, 0, 100, 64);
}

TEST(conf_dc_rights_of_target_and_memory_bind)
{
	each_variant(rights, &patient);
}

/* The target is asked with patience: a NIC may not have its turn for milliseconds. */
static void wrong_key(struct world *w)
{
	struct end *from = &w->ends[0], *to = &w->ends[1];
	struct shmd_dev_peer wrong = w->peers[1];
	struct conf_wqe wqe;

	wrong.av[7] ^= 1; /* the lowest bit of its big-endian key */
	request(&wqe, SHMD_OPCODE_RDMA_WRITE, &wrong, from, 0, to, 0, 64);
	conf_expect_error(&from->dci, conf_run(&from->dci, &wqe), SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	check(w);
	revive(from, &patient);
	write_to(w, 1, 0, 100, 64);
}

TEST(conf_dc_wrong_key_reaches_nothing_and_the_right_one_goes_on)
{
	each_variant(wrong_key, &conf_impatient);
}

static void destroyed(struct world *w)
{
	struct end *from = &w->ends[0], *to = &w->ends[1];
	struct conf_wqe wqe;

	write_to(w, 1, 0, 100, 64);
	ASSERT_OK(shmd_dct_destroy(to->dct));
	to->dct = NULL;
	revive(from, &conf_impatient);
	request(&wqe, SHMD_OPCODE_RDMA_WRITE, &w->peers[1], from, 64, to, 0, 64);
	conf_expect_error(&from->dci, conf_run(&from->dci, &wqe), SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	revive(from, &patient);
	write_to(w, 2, 0, 100, 64);
	/* Requests behind the failed one are flushed; a collapsed CQ may keep the cause instead. */
	if (from->dci.collapsed)
		return;
	revive(from, &conf_impatient);
	request(&wqe, SHMD_OPCODE_RDMA_WRITE, &w->peers[1], from, 64, to, 0, 64);
	conf_expect_error(&from->dci, conf_run(&from->dci, &wqe), SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	request(&wqe, SHMD_OPCODE_RDMA_WRITE, &w->peers[2], from, 64, &w->ends[2], 0, 64);
	conf_expect_flush(&from->dci, conf_run(&from->dci, &wqe));
}

TEST(conf_dc_destroyed_target_is_not_reached)
{
	each_variant(destroyed, &patient);
}

static void sends(struct world *w)
{
	struct end *from = &w->ends[0];
	struct conf_wqe wqe;

	begin(&wqe, SHMD_OPCODE_SEND, &w->peers[1]);
	conf_wqe_data(&wqe, at(from, 0), 64, from->side.mem.lkey_be);
	conf_expect_error(&from->dci, conf_run(&from->dci, &wqe), SHMD_SYNDROME_RNR_RETRY_EXC_ERR);
	revive(from, &conf_few_rnr_retries);
	write_to(w, 1, 0, 100, 64);
}

TEST(conf_dc_sends_find_no_receive)
{
	each_variant(sends, &conf_few_rnr_retries);
}

/* A WQE too short for an address vector, and one that ends behind it. */
static void malformed(struct world *w)
{
	struct end *from = &w->ends[0];
	struct conf_wqe wqe;

	for (int ds = 1; ds < 5; ds++) {
		begin(&wqe, SHMD_OPCODE_RDMA_WRITE, &w->peers[1]);
		wqe.ds_written = ds;
		conf_expect_error(&from->dci, conf_run(&from->dci, &wqe), SHMD_SYNDROME_LOCAL_QP_OP_ERR);
		revive(from, &patient);
	}
	write_to(w, 1, 0, 100, 64);
}

TEST(conf_dc_malformed_requests_fail_alone)
{
	each_variant(malformed, &patient);
}

/* ---- isolation ------------------------------------------------------------------------------------------------------ */

static void try_peer(struct world *w, const struct shmd_dev_peer *peer)
{
	struct end *thief = &w->ends[2], *victim = &w->ends[1];
	struct conf_wqe wqe;

	request(&wqe, SHMD_OPCODE_RDMA_WRITE, peer, thief, 0, victim, 0, 64);
	conf_expect_error(&thief->dci, conf_run(&thief->dci, &wqe), SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	revive(thief, &conf_impatient);
	check(w);
}

static void set_av_key(struct shmd_dev_peer *peer, uint64_t key)
{
	shmd_be64 key_be = htobe64(key);

	memcpy(peer->av, &key_be, sizeof(key_be));
}

/*
 * A thief with DCI and DCT of its own, its own key, the victim's number, NIC address and even memory key: all but the key
 * of the victim's DCT.
 */
static void thief(struct world *w)
{
	struct end *from = &w->ends[2];
	struct shmd_dev_peer own, forged;
	struct shmd_addr addr = w->ends[1].addr;

	ASSERT_OK(shmd_peers_resolve(from->side.nic, 1, &from->addr, 0, &own, NULL));
	forged = w->peers[1];
	ASSERT_EQ(own.dctn == forged.dctn && own.dc_key == forged.dc_key, 0);
	set_av_key(&forged, 0);
	try_peer(w, &forged);
	set_av_key(&forged, own.dc_key);
	try_peer(w, &forged);
	set_av_key(&forged, w->peers[1].dc_key + 1);
	try_peer(w, &forged);
	set_av_key(&forged, __builtin_bswap64(w->peers[1].dc_key));
	try_peer(w, &forged);
	/* The daemon turns an address into no more than it says: here one with the thief's key. */
	memcpy(addr.data + addr.bytes - 8, from->addr.data + from->addr.bytes - 8, 8);
	ASSERT_OK(shmd_peers_resolve(from->side.nic, 1, &addr, 0, &forged, NULL));
	try_peer(w, &forged);
}

TEST(conf_dc_session_without_the_key_reaches_no_dct_of_another)
{
	each_variant(thief, &conf_impatient);
}

/* ---- addresses ------------------------------------------------------------------------------------------------------ */

/* More than one request takes; each entry is that of its address. */
static void many(struct world *w)
{
	struct shmd_addr *addrs = calloc(N_MANY, sizeof(*addrs));
	struct shmd_dev_peer *peers = calloc(N_MANY, sizeof(*peers));
	unsigned int n_done = 0;

	ASSERT(addrs && peers);
	for (unsigned int i = 0; i < N_MANY; i++)
		addrs[i] = w->ends[i % N_ENDS].addr;
	ASSERT_OK(shmd_peers_resolve(w->ends[0].side.nic, N_MANY, addrs, 0, peers, &n_done));
	ASSERT_EQ(n_done, N_MANY);
	for (unsigned int i = 0; i < N_MANY; i++)
		ASSERT_MEMEQ(&peers[i], &w->peers[i % N_ENDS], sizeof(peers[i]));
	ASSERT_OK(shmd_queues_set_peers(w->ends[0].side.queues, N_MANY, peers));
	ASSERT_EQ(shmd_queues_dev_state(w->ends[0].side.queues)->n_peers, N_MANY);
	memset(peers, 0, N_MANY * sizeof(*peers));
	memcpy(&peers[0], (void *)(uintptr_t)shmd_queues_dev_state(w->ends[0].side.queues)->peers_addr,
	       N_MANY * sizeof(*peers));
	ASSERT_MEMEQ(&peers[N_MANY - 1], &w->peers[(N_MANY - 1) % N_ENDS], sizeof(peers[0]));
	/* A bad one in the second request: those before it are there. */
	addrs[700].bytes--;
	ASSERT_LT(shmd_peers_resolve(w->ends[0].side.nic, N_MANY, addrs, 0, peers, &n_done), 0);
	ASSERT_EQ(n_done, 700u);
	free(addrs);
	free(peers);
}

TEST(conf_dc_addresses_resolve_in_bulk)
{
	each_variant(many, &patient);
}

/* DCIs refuse requests for RC QPs, and the other way round. */
static void misuse(struct world *w)
{
	struct end *end = &w->ends[0];
	struct shmd_queues_attr attr = {.n_qps = 1, .qp_type = SHMD_QP_TYPE_DCI, .rq_wqes = 4};
	struct shmd_queues *queues;
	struct shmd_dev_peer peer;
	struct shmd_addr addr, rc;

	ASSERT_LT(shmd_queues_addr(end->side.queues, 0, &addr), 0);
	ASSERT_LT(shmd_queues_connect(end->side.queues, 0, 1, &end->addr, NULL, NULL), 0);
	ASSERT_LT(shmd_queues_connect(end->side.queues, 0, 1, NULL, NULL, NULL), 0); /* it is already */
	ASSERT_LT(shmd_queues_create(end->side.nic, &attr, &queues), 0);
	attr.rq_wqes = 0;
	attr.qp_type = SHMD_QP_TYPE_DCT;
	ASSERT_LT(shmd_queues_create(end->side.nic, &attr, &queues), 0);
	attr.qp_type = SHMD_QP_TYPE_RC;
	ASSERT_OK(shmd_queues_create(end->side.nic, &attr, &queues));
	ASSERT_OK(shmd_queues_addr(queues, 0, &rc));
	ASSERT_LT(shmd_peers_resolve(end->side.nic, 1, &rc, 0, &peer, NULL), 0);
	ASSERT_LT(shmd_queues_connect(queues, 0, 1, &end->addr, NULL, NULL), 0);
	ASSERT_LT(shmd_queues_connect(queues, 0, 1, NULL, NULL, NULL), 0);
	ASSERT_LT(shmd_queues_set_peers(queues, 1, w->peers), 0);
	ASSERT_OK(shmd_queues_destroy(queues));
	peer = w->peers[1];
	peer.nic = 7;
	ASSERT_LT(shmd_queues_set_peers(end->side.queues, 1, &peer), 0);
	ASSERT_LT(shmd_nic_close(end->side.nic), 0); /* in use */
	write_to(w, 1, 0, 100, 64);
}

TEST(conf_dc_and_rc_are_not_mixed_up)
{
	each_variant(misuse, &patient);
}
