/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts of soft NICs that go on with other NICs. The former daemon is here one that lets go of its contexts;
 * test-soft-restart kills it.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"
#include "daemon/nic/soft/soft.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

#define QPS 2u
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

enum { DOORBELL, WAKE, NIC_PAGE, LEDGER, N_SAVED }; /* as soft-adopt.c has it */

/* The descriptors and the record of one context. */
struct left {
	struct nic_saved_fds fds;
	void *record;
	size_t bytes;
	struct nic_queues queues; /* for the client, who goes on posting */
	struct nic_ctx ctx;
	struct nic_mr mr;
	uint32_t qpns[QPS], cqns[QPS];
};

static void open_saved(struct client *c, struct nic *nic, uint64_t session_id)
{
	client_open_ctx_saved(c, nic, session_id);
	client_reg(c);
	client_create(c, QPS, 0);
}

static void leave(struct client *c, struct left *left)
{
	const struct nic_ops *ops = c->ctx->nic->ops;

	ASSERT_OK(ops->ctx_saved_fds(c->ctx, &left->fds));
	ASSERT_EQ(left->fds.n, (unsigned int)N_SAVED);
	for (unsigned int i = 0; i < left->fds.n; i++)
		left->fds.fds[i] = fcntl(left->fds.fds[i], F_DUPFD_CLOEXEC, 3);
	ASSERT_OK(client_export(c, &left->record, &left->bytes));
	ASSERT_OK(nic_layout_copy(&left->queues.layout, &c->queues->layout));
	for (unsigned int i = 0; i < QPS; i++) {
		left->qpns[i] = c->queues->layout.qps[i].qpn;
		left->cqns[i] = c->queues->layout.cqs[i].cqn;
	}
	left->mr = *c->mr;
	left->ctx = *c->ctx;
	left->ctx.doorbell.wake_fd = left->fds.fds[WAKE];
	client_swap_ctx(c->ctx, NULL);
	ASSERT(!ops->ctx_unimport(c->ctx));
	c->ctx = &left->ctx;
	c->queues = &left->queues;
	c->mr = &left->mr;
}

static struct nic_import_attr attr_of(const struct client *c, const struct left *left)
{
	return (struct nic_import_attr){
		.ctx = {.session_id = left->ctx.session_id, .health_fd = -1, .is_saved = true},
		.fds = left->fds,
		.record = left->record,
		.record_bytes = left->bytes,
		.n_queue_fds = 1,
		.queue_fds = &c->queue_fd,
		.n_mr_fds = 1,
		.mr_fds = &c->mem_fd,
	};
}

static void left_deinit(struct left *left)
{
	nic_layout_deinit(&left->queues.layout);
	free(left->record);
	for (unsigned int i = 0; i < left->fds.n; i++)
		close(left->fds.fds[i]);
}

static void go_on(struct client *c, struct nic_imported *imported)
{
	ASSERT_EQ(imported->n_mrs, 1u);
	ASSERT_EQ(imported->n_queues, 1u);
	c->ctx = imported->ctx;
	c->mr = imported->mrs[0];
	c->queues = imported->queues[0];
	client_swap_ctx(NULL, c->ctx);
	nic_imported_deinit(imported);
}

static void adopt(struct client *c, struct nic *nic, struct left *left)
{
	const struct nic_import_attr attr = attr_of(c, left);
	struct nic_imported imported;

	ASSERT_OK(nic->ops->ctx_import(nic, &attr, &imported));
	go_on(c, &imported);
	ASSERT_EQ(c->ctx->session_id, left->ctx.session_id);
	ASSERT_EQ(c->mr->lkey, left->mr.lkey);
	ASSERT_EQ(c->mr->rkey, left->mr.rkey);
	ASSERT_EQ(c->mr->length_bytes, left->mr.length_bytes);
	for (unsigned int i = 0; i < QPS; i++) {
		const struct nic_qp *is = &c->queues->layout.qps[i], *was = &left->queues.layout.qps[i];

		ASSERT_EQ(is->qpn, left->qpns[i]);
		ASSERT_EQ(c->queues->layout.cqs[i].cqn, left->cqns[i]);
		ASSERT_MEMEQ(&is->addr, &was->addr, sizeof(is->addr));
	}
}

static void resume(struct rig *rig)
{
	for (unsigned int i = 0; i < rig->n_nics; i++)
		rig->nic[i]->ops->resume(rig->nic[i]);
}

/* Two connected clients on two NICs, and then on two others. */
struct pair {
	struct rig rig;
	struct client a, b;
	struct left of_a, of_b;
};

static void pair_open_clients(struct pair *pair)
{
	open_saved(&pair->a, pair->rig.nic[0], 1);
	open_saved(&pair->b, pair->rig.nic[1], 2);
	for (unsigned int i = 0; i < QPS; i++)
		client_connect(&pair->a, i, &pair->b, i);
}

static void pair_open(struct pair *pair, const char *fault)
{
	memset(pair, 0, sizeof(*pair));
	rig_open(&pair->rig, 2, fault);
	pair_open_clients(pair);
}

static void pair_leave(struct pair *pair)
{
	leave(&pair->a, &pair->of_a);
	leave(&pair->b, &pair->of_b);
	rig_close(&pair->rig);
}

static void pair_adopt(struct pair *pair, const char *fault)
{
	rig_open(&pair->rig, 2, fault);
	adopt(&pair->a, pair->rig.nic[0], &pair->of_a);
	adopt(&pair->b, pair->rig.nic[1], &pair->of_b);
}

/* State that a former process left. */
static void pair_forget(struct pair *pair)
{
	left_deinit(&pair->of_a);
	left_deinit(&pair->of_b);
	memset(&pair->of_a, 0, sizeof(pair->of_a));
	memset(&pair->of_b, 0, sizeof(pair->of_b));
}

static void pair_close(struct pair *pair)
{
	client_close(&pair->a);
	client_close(&pair->b);
	rig_close(&pair->rig);
	left_deinit(&pair->of_a);
	left_deinit(&pair->of_b);
}

static void exercise(struct pair *pair)
{
	client_exercise(&pair->a, &pair->b);
	client_exercise(&pair->b, &pair->a);
	client_send_and_receive(&pair->a, &pair->b);
	client_send_and_receive(&pair->b, &pair->a);
}

TEST(connected_contexts_go_on_with_other_nics)
{
	struct nic_counters before, after;
	struct nic_info was[2], is[2];
	struct nic_qp_info info;
	struct pair pair;

	pair_open(&pair, NULL);
	exercise(&pair);
	for (unsigned int i = 0; i < 2; i++)
		ASSERT_OK(nic_query(pair.rig.nic[i], &was[i]));
	ASSERT_OK(pair.a.ctx->nic->ops->ctx_counters(pair.a.ctx, &before));
	pair_leave(&pair);
	pair_adopt(&pair, NULL);
	resume(&pair.rig);
	for (unsigned int i = 0; i < 2; i++) {
		ASSERT_OK(nic_query(pair.rig.nic[i], &is[i]));
		ASSERT_MEMEQ(is[i].gid, was[i].gid, 16);
		ASSERT_MEMEQ(is[i].mac, was[i].mac, 6);
	}
	ASSERT_OK(pair.a.ctx->nic->ops->qp_query(pair.a.ctx, client_qpn(&pair.a, 0), &info));
	ASSERT_EQ(info.state, NIC_QPS_RTS);
	ASSERT_EQ(info.dest_qpn, client_qpn(&pair.b, 0));
	ASSERT_OK(pair.a.ctx->nic->ops->ctx_counters(pair.a.ctx, &after));
	ASSERT_GT(before.wqes, 0u);
	ASSERT_EQ(after.wqes, before.wqes);
	ASSERT_EQ(after.bytes_sent, before.bytes_sent);
	ASSERT_EQ(after.recv_wqes, before.recv_wqes);
	exercise(&pair);
	ASSERT_OK(pair.a.ctx->nic->ops->ctx_counters(pair.a.ctx, &after));
	ASSERT_GT(after.wqes, before.wqes);
	pair_close(&pair);
}

#define ALICE 1001u
#define BOB 1002u

static void adopt_for(struct client *c, struct nic *nic, struct left *left, uint32_t uid)
{
	struct nic_import_attr attr = attr_of(c, left);
	struct nic_imported imported;

	attr.ctx.uid = uid;
	ASSERT_OK(nic->ops->ctx_import(nic, &attr, &imported));
	go_on(c, &imported);
}

static void open_for(struct client *c, struct nic *nic, uint64_t session_id, uint32_t uid)
{
	client_open_ctx_saved_for(c, nic, session_id, uid);
	client_reg(c);
	client_create(c, QPS, 0);
}

/* Asleep and woken by their own doorbells. */
static void exercise_asleep(struct pair *pair)
{
	exercise(pair);
	client_wait_asleep(&pair->a);
	client_wait_asleep(&pair->b);
	exercise(pair);
}

/* Two users on one NIC: each has a NIC page, or both have one since a daemon of before knew no users. */
TEST(contexts_of_two_users_go_on_with_the_pages_that_they_had)
{
	for (unsigned int shared = 0; shared < 2; shared++) {
		struct pair pair = {0};

		rig_open(&pair.rig, 1, NULL);
		open_for(&pair.a, pair.rig.nic[0], 1, ALICE);
		open_for(&pair.b, pair.rig.nic[0], 2, shared ? ALICE : BOB);
		for (unsigned int i = 0; i < QPS; i++)
			client_connect(&pair.a, i, &pair.b, i);
		exercise(&pair);
		pair_leave(&pair);
		rig_open(&pair.rig, 1, NULL);
		adopt_for(&pair.a, pair.rig.nic[0], &pair.of_a, ALICE);
		adopt_for(&pair.b, pair.rig.nic[0], &pair.of_b, BOB);
		resume(&pair.rig);
		exercise_asleep(&pair);
		pair_close(&pair);
	}
}

static ino_t page_of(const struct client *c)
{
	struct stat st;

	ASSERT_OK(fstat(c->ctx->doorbell.nic_page_fd, &st));
	return st.st_ino;
}

/* As others see the executor of a client: another user sends its payload in the packets. */
static uint32_t uid_of(const struct client *c)
{
	return __atomic_load_n(&soft_ctx(c->ctx)->exec->lane->owner->uid, __ATOMIC_RELAXED);
}

/* New contexts of users who share a page get another one, and the next process takes both, in any order. */
TEST(users_that_share_a_page_get_pages_of_their_own_for_new_contexts)
{
	for (unsigned int new_first = 0; new_first < 2; new_first++) {
		struct pair pair = {0};
		struct left of_new;
		struct client new;

		rig_open(&pair.rig, 1, NULL);
		open_for(&pair.a, pair.rig.nic[0], 1, ALICE);
		open_for(&pair.b, pair.rig.nic[0], 2, ALICE);
		for (unsigned int i = 0; i < QPS; i++)
			client_connect(&pair.a, i, &pair.b, i);
		pair_leave(&pair);
		rig_open(&pair.rig, 1, NULL);
		adopt_for(&pair.a, pair.rig.nic[0], &pair.of_a, ALICE);
		adopt_for(&pair.b, pair.rig.nic[0], &pair.of_b, BOB);
		resume(&pair.rig);
		open_for(&new, pair.rig.nic[0], 3, ALICE);
		ASSERT_EQ(page_of(&pair.b), page_of(&pair.a));
		ASSERT_NE(page_of(&new), page_of(&pair.a));
		ASSERT_EQ(uid_of(&new), ALICE);
		ASSERT_EQ(uid_of(&pair.a), SOFT_UID_SEVERAL);
		pair_forget(&pair);
		leave(&new, &of_new);
		pair_leave(&pair);
		rig_open(&pair.rig, 1, NULL);
		if (new_first)
			adopt_for(&new, pair.rig.nic[0], &of_new, ALICE);
		adopt_for(&pair.a, pair.rig.nic[0], &pair.of_a, ALICE);
		if (!new_first)
			adopt_for(&new, pair.rig.nic[0], &of_new, ALICE);
		/* Also before the second one comes. */
		ASSERT_EQ(uid_of(&pair.a), SOFT_UID_SEVERAL);
		adopt_for(&pair.b, pair.rig.nic[0], &pair.of_b, BOB);
		resume(&pair.rig);
		exercise_asleep(&pair);
		client_close(&new);
		left_deinit(&of_new);
		pair_close(&pair);
	}
}

/* A state that was imported is saved again, any number of times. */
TEST(contexts_go_on_again_and_again)
{
	struct pair pair;

	pair_open(&pair, NULL);
	for (unsigned int i = 0; i < 5; i++) {
		exercise(&pair);
		pair_leave(&pair);
		pair_adopt(&pair, NULL);
		pair_forget(&pair);
		resume(&pair.rig);
	}
	exercise(&pair);
	pair_close(&pair);
}

static void rest(struct rig *rig)
{
	uint64_t end = nsec_now() + test_patience_nsec();

	for (unsigned int i = 0; i < rig->n_nics; i++)
		while (!rig->nic[i]->ops->rest(rig->nic[i]))
			ASSERT_LT(nsec_now(), end);
}

static void assert_rests_and_goes_on(struct pair *pair)
{
	uint64_t before = client_word(&pair->b, 128);
	struct shmd_cqe cqe;

	rest(&pair->rig);
	rest(&pair->rig);
	client_post_fetch_add(&pair->a, 0, 24576, &pair->b, 128, 1000);
	client_ring(&pair->a, 0);
	ASSERT(!client_poll(&pair->a, 0, &cqe, 20000000));
	ASSERT_EQ(client_word(&pair->b, 128), before);
	pair_forget(pair);
	pair_leave(pair);
	pair_adopt(pair, NULL);
	resume(&pair->rig);
	client_complete(&pair->a, 0);
	ASSERT_EQ(client_word(&pair->b, 128), before + 1000);
}

/* A process that ends in order must not cut an atomic: its outcome would be unknown. */
TEST(nic_that_is_left_begins_nothing_more_and_the_next_one_goes_on)
{
	struct pair pair;

	pair_open(&pair, NULL);
	exercise(&pair);
	assert_rests_and_goes_on(&pair);
	exercise(&pair);
	client_wait_asleep(&pair.a);
	assert_rests_and_goes_on(&pair);
	exercise(&pair);
	pair_close(&pair);
}

/* Doorbells rung between two daemons are served after resume, and not before: also when the dead thread slept. */
TEST(wqes_posted_meanwhile_are_executed_after_resume)
{
	struct shmd_cqe cqe;
	struct pair pair;

	pair_open(&pair, NULL);
	exercise(&pair);
	client_wait_asleep(&pair.a);
	pair_leave(&pair);
	client_fill(&pair.a, 0, 4096, 77);
	client_post_write(&pair.a, 0, 0, &pair.b, 65536, 4096);
	client_post_fetch_add(&pair.a, 0, 24576, &pair.b, 128, 1000);
	client_ring(&pair.a, 0);
	client_post_inline(&pair.a, 1, 4711, &pair.b, 256);
	client_publish(&pair.a, 1);
	pair_adopt(&pair, NULL);
	client_ring(&pair.a, 0);
	ASSERT(!client_poll(&pair.a, 0, &cqe, 20000000));
	pair.rig.nic[0]->ops->resume(pair.rig.nic[0]);
	pair.rig.nic[1]->ops->resume(pair.rig.nic[1]);
	client_complete(&pair.a, 0);
	client_complete(&pair.a, 0);
	client_complete(&pair.a, 1);
	ASSERT_MEMEQ(pair.a.mem, pair.b.mem + 65536, 4096);
	ASSERT_EQ(client_word(&pair.b, 256), 4711u);
	ASSERT_EQ(client_word(&pair.b, 128), client_word(&pair.a, 24576) + 1000);
	exercise(&pair);
	pair_close(&pair);
}

/* The context ends between two steps of the engine, wherever it is. */
TEST(contexts_that_are_let_go_in_mid_traffic_do_everything_once)
{
	uint64_t sum = 0;
	struct pair pair;

	pair_open(&pair, NULL);
	for (unsigned int n = 0; n < 20; n++) {
		for (unsigned int i = 0; i < 40; i++)
			client_post_fetch_add(&pair.a, 0, 24576 + i * 8, &pair.b, 128, 1);
		client_ring(&pair.a, 0);
		usleep(n % 4 * 5);
		pair_leave(&pair);
		pair_adopt(&pair, NULL);
		pair_forget(&pair);
		resume(&pair.rig);
		for (unsigned int i = 0; i < 40; i++, sum++) {
			client_complete(&pair.a, 0);
			ASSERT_EQ(client_word(&pair.a, 24576 + i * 8), sum);
		}
		ASSERT_EQ(client_word(&pair.b, 128), sum);
	}
	pair_close(&pair);
}

TEST(new_objects_have_numbers_and_keys_of_their_own)
{
	struct shmd_cqe cqe;
	struct client other;
	struct pair pair;

	pair_open(&pair, NULL);
	pair_leave(&pair);
	pair_adopt(&pair, NULL);
	resume(&pair.rig);
	open_saved(&other, pair.rig.nic[0], 3);
	for (unsigned int i = 0; i < QPS; i++) {
		for (unsigned int k = 0; k < QPS; k++) {
			ASSERT_NE(client_qpn(&other, i), client_qpn(&pair.a, k));
			ASSERT_NE(other.queues->layout.cqs[i].cqn, pair.a.queues->layout.cqs[k].cqn);
		}
	}
	ASSERT_NE(other.mr->lkey, pair.a.mr->lkey);
	client_connect(&other, 0, &other, 1);
	client_exercise(&other, &other);
	/* Another PD: keys of the neighbour open nothing. */
	client_post_write(&other, 0, 0, &pair.a, 0, 64);
	client_ring(&other, 0);
	ASSERT(client_poll(&other, 0, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT_EQ(client_cqe_syndrome(&cqe), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	exercise(&pair);
	client_close(&other);
	pair_close(&pair);
}

/* Clients may read the NIC page, and cannot make more of their descriptor than that. */
TEST(clients_cannot_write_a_saved_page)
{
	const struct nic_doorbell *doorbell;
	struct client c;
	struct stat st;
	struct rig rig;

	rig_open(&rig, 1, NULL);
	open_saved(&c, rig.nic[0], 1);
	doorbell = &c.ctx->doorbell;
	ASSERT(mmap(NULL, SHMD_DB_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, doorbell->nic_page_fd, 0) == MAP_FAILED);
	ASSERT_EQ(fcntl(doorbell->nic_page_fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	ASSERT_OK(fstat(doorbell->nic_page_fd, &st));
	ASSERT_EQ(st.st_mode & 0777, 0600u);
	client_close(&c);
	rig_close(&rig);
}

TEST(contexts_that_are_not_saved_end_with_their_nic)
{
	struct nic_saved_fds saved;
	struct client c;
	struct rig rig;
	size_t bytes;
	void *record;

	rig_open(&rig, 1, NULL);
	client_open(&c, rig.nic[0], 1, 1);
	ASSERT_ERR(rig.nic[0]->ops->ctx_saved_fds(c.ctx, &saved), EOPNOTSUPP);
	ASSERT_ERR(rig.nic[0]->ops->ctx_export(c.ctx, &record, &bytes), EOPNOTSUPP);
	client_close(&c);
	rig_close(&rig);
}

/* A context that is not saved leaves the NIC to those that are, even if it starts the NIC. */
TEST(first_context_of_a_nic_decides_nothing_for_others)
{
	struct client first[2];
	struct pair pair = {0};

	rig_open(&pair.rig, 2, NULL);
	for (unsigned int i = 0; i < 2; i++)
		client_open(&first[i], pair.rig.nic[i], 9 + i, 1);
	/* One stays, and one has gone. */
	client_close(&first[0]);
	pair_open_clients(&pair);
	exercise(&pair);
	client_close(&first[1]);
	pair_leave(&pair);
	pair_adopt(&pair, NULL);
	resume(&pair.rig);
	exercise(&pair);
	pair_close(&pair);
}

/* If nothing outlives the process there is no writable file of the page, and no process can map it for writing. */
TEST(pages_of_nics_that_save_nothing_are_sealed)
{
	const struct nic_ctx_attr saved = {.session_id = 1, .health_fd = -1, .is_saved = true};
	struct nic_saved_fds fds;
	struct nic_ctx *ctx;
	struct rig rig;

	rig_open_unsaved(&rig, 1);
	ASSERT_OK(rig.nic[0]->ops->ctx_open(rig.nic[0], &saved, &ctx));
	ASSERT(fcntl(ctx->doorbell.nic_page_fd, F_GET_SEALS) & F_SEAL_FUTURE_WRITE);
	ASSERT_ERR(rig.nic[0]->ops->ctx_saved_fds(ctx, &fds), EOPNOTSUPP);
	rig.nic[0]->ops->ctx_close(ctx);
	rig_close(&rig);
}

static void expect_refused(struct nic *nic, const struct nic_import_attr *attr, int err)
{
	struct nic_imported imported = {0};

	ASSERT_ERR(nic->ops->ctx_import(nic, attr, &imported), err);
	ASSERT(!imported.ctx && !imported.mrs && !imported.queues);
}

/* A refused import leaves the saved state unchanged. */
TEST(state_other_than_the_saved_one_is_refused)
{
	struct nic_import_attr attr;
	uint8_t *stranger_mem;
	struct pair pair;
	int stranger;

	pair_open(&pair, NULL);
	exercise(&pair);
	pair_leave(&pair);
	rig_open(&pair.rig, 2, NULL);
	stranger = client_memfd(SHMD_DB_PAGE_BYTES, &stranger_mem);
	attr = attr_of(&pair.a, &pair.of_a);
	expect_refused(pair.rig.nic[1], &attr, EXDEV);
	attr.ctx.doorbell = NIC_DOORBELL_UAR_MMAP;
	expect_refused(pair.rig.nic[0], &attr, EOPNOTSUPP);
	attr = attr_of(&pair.a, &pair.of_a);
	attr.record_bytes--;
	expect_refused(pair.rig.nic[0], &attr, EINVAL);
	attr = attr_of(&pair.a, &pair.of_a);
	attr.n_mr_fds = 0;
	expect_refused(pair.rig.nic[0], &attr, EBADF);
	attr = attr_of(&pair.a, &pair.of_a);
	attr.n_queue_fds = 0;
	expect_refused(pair.rig.nic[0], &attr, EBADF);
	attr = attr_of(&pair.a, &pair.of_a);
	attr.fds.n--;
	expect_refused(pair.rig.nic[0], &attr, EBADF);
	/* The page first, since a good one stays: none, a wake descriptor, one that others may write. */
	attr = attr_of(&pair.a, &pair.of_a);
	attr.fds.fds[NIC_PAGE] = -1;
	expect_refused(pair.rig.nic[0], &attr, EBADF);
	attr.fds.fds[NIC_PAGE] = attr.fds.fds[WAKE];
	expect_refused(pair.rig.nic[0], &attr, EBADF);
	attr.fds.fds[NIC_PAGE] = stranger;
	expect_refused(pair.rig.nic[0], &attr, EBADF);
	for (unsigned int i = 0; i < N_SAVED; i++) {
		if (i == NIC_PAGE)
			continue;
		attr = attr_of(&pair.a, &pair.of_a);
		attr.fds.fds[i] = i == WAKE ? stranger : attr.fds.fds[WAKE];
		expect_refused(pair.rig.nic[0], &attr, EBADF);
		attr.fds.fds[i] = -1;
		expect_refused(pair.rig.nic[0], &attr, EBADF);
	}
	/* Memory that is too short, or none. */
	attr = attr_of(&pair.a, &pair.of_a);
	attr.mr_fds = &stranger;
	expect_refused(pair.rig.nic[0], &attr, EINVAL);
	attr = attr_of(&pair.a, &pair.of_a);
	attr.queue_fds = &attr.fds.fds[WAKE];
	expect_refused(pair.rig.nic[0], &attr, EBADF);
	/* The page of another NIC, now that this one has its own. */
	attr = attr_of(&pair.a, &pair.of_a);
	attr.fds.fds[NIC_PAGE] = pair.of_b.fds.fds[NIC_PAGE];
	expect_refused(pair.rig.nic[0], &attr, EXDEV);
	adopt(&pair.a, pair.rig.nic[0], &pair.of_a);
	/* Twice the same. */
	attr = attr_of(&pair.a, &pair.of_a);
	expect_refused(pair.rig.nic[0], &attr, EINVAL);
	adopt(&pair.b, pair.rig.nic[1], &pair.of_b);
	resume(&pair.rig);
	expect_refused(pair.rig.nic[0], &attr, EBUSY);
	exercise(&pair);
	munmap(stranger_mem, SHMD_DB_PAGE_BYTES);
	close(stranger);
	pair_close(&pair);
}

TEST(nothing_is_imported_once_a_session_was_opened)
{
	struct nic_import_attr attr;
	struct client other;
	struct pair pair;

	pair_open(&pair, NULL);
	pair_leave(&pair);
	rig_open(&pair.rig, 2, NULL);
	client_open(&other, pair.rig.nic[0], 9, 1);
	attr = attr_of(&pair.a, &pair.of_a);
	expect_refused(pair.rig.nic[0], &attr, EBUSY);
	client_close(&other);
	rig_close(&pair.rig);
	pair_adopt(&pair, NULL);
	resume(&pair.rig);
	exercise(&pair);
	pair_close(&pair);
}

/* A peer that did not come back: requests end, and the client learns of it. */
TEST(a_peer_whose_nic_is_gone_is_unreachable)
{
	struct nic_event event;
	struct shmd_cqe cqe;
	struct pair pair;

	pair_open(&pair, NULL);
	exercise(&pair);
	pair_leave(&pair);
	client_post_write(&pair.a, 0, 0, &pair.b, 0, 64);
	client_ring(&pair.a, 0);
	rig_open(&pair.rig, 1, NULL);
	adopt(&pair.a, pair.rig.nic[0], &pair.of_a);
	resume(&pair.rig);
	ASSERT(client_poll(&pair.a, 0, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT_EQ(client_cqe_opcode(&cqe), SHMD_CQE_REQ_ERR);
	while (client_next_event(pair.rig.nic[0], &event) < 0)
		usleep(1000);
	ASSERT_EQ(event.kind, NIC_EVENT_QP_ERROR);
	ASSERT_EQ(event.session_id, 1u);
	client_close(&pair.a);
	rig_close(&pair.rig);
	rig_open(&pair.rig, 2, NULL);
	adopt(&pair.b, pair.rig.nic[1], &pair.of_b);
	resume(&pair.rig);
	client_close(&pair.b);
	rig_close(&pair.rig);
	left_deinit(&pair.of_a);
	left_deinit(&pair.of_b);
}

TEST(a_queue_in_error_is_reported_again)
{
	struct nic_event event;
	struct nic_qp_info info;
	struct shmd_cqe cqe;
	struct pair pair;

	pair_open(&pair, NULL);
	exercise(&pair);
	pair.b.mr->rkey ^= 0x5500;
	client_post_write(&pair.a, 0, 0, &pair.b, 0, 64);
	pair.b.mr->rkey ^= 0x5500;
	client_ring(&pair.a, 0);
	ASSERT(client_poll(&pair.a, 0, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT_EQ(client_cqe_syndrome(&cqe), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	/* Another one by request. */
	ASSERT_OK(pair.a.ctx->nic->ops->qp_modify(pair.a.ctx, client_qpn(&pair.a, 1), NIC_QPS_ERR));
	pair_leave(&pair);
	pair_adopt(&pair, NULL);
	resume(&pair.rig);
	ASSERT_OK(client_next_event(pair.rig.nic[0], &event));
	ASSERT_EQ(event.kind, NIC_EVENT_QP_ERROR);
	ASSERT_EQ(event.number, client_qpn(&pair.a, 0));
	ASSERT_EQ(event.syndrome, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_ERR(client_next_event(pair.rig.nic[0], &event), EAGAIN);
	for (unsigned int i = 0; i < QPS; i++) {
		ASSERT_OK(pair.a.ctx->nic->ops->qp_query(pair.a.ctx, client_qpn(&pair.a, i), &info));
		ASSERT_EQ(info.state, NIC_QPS_ERR);
	}
	pair_close(&pair);
}

/* A request that the client sends again, since the daemon died before its answer. */
TEST(repeated_requests_are_done_once)
{
	struct nic_peer peer;
	unsigned int n_done;
	struct pair pair;
	const struct nic_ops *ops;

	pair_open(&pair, NULL);
	exercise(&pair);
	ASSERT_OK(pair.a.ctx->nic->ops->qp_modify(pair.a.ctx, client_qpn(&pair.a, 1), NIC_QPS_RST));
	pair_leave(&pair);
	pair_adopt(&pair, NULL);
	resume(&pair.rig);
	ops = pair.a.ctx->nic->ops;
	peer = (struct nic_peer){.qpn = client_qpn(&pair.a, 0), .remote = pair.b.queues->layout.qps[0].addr};
	ASSERT_OK(ops->connect(pair.a.ctx, 1, &peer, &client_params, &n_done));
	/* But only once. */
	ASSERT_ERR(ops->connect(pair.a.ctx, 1, &peer, &client_params, &n_done), EINVAL);
	ASSERT_OK(ops->qp_modify(pair.a.ctx, client_qpn(&pair.a, 1), NIC_QPS_RST));
	exercise(&pair);
	pair_close(&pair);
}

/* Memory operations that take their time are cut off with the NIC; the next one does them. */
TEST(delayed_memory_is_no_hindrance)
{
	struct pair pair;

	pair_open(&pair, "soft.delay-memory:5");
	exercise(&pair);
	pair_leave(&pair);
	pair_adopt(&pair, "soft.delay-memory:6");
	resume(&pair.rig);
	exercise(&pair);
	pair_close(&pair);
}

TEST(a_port_that_was_down_stays_down)
{
	struct nic_info info;
	struct pair pair;

	pair_open(&pair, NULL);
	exercise(&pair);
	ASSERT_OK(pair.rig.nic[0]->ops->port_set(pair.rig.nic[0], NIC_PORT_DOWN));
	pair_leave(&pair);
	pair_adopt(&pair, NULL);
	ASSERT_OK(nic_query(pair.rig.nic[0], &info));
	ASSERT_EQ(info.state, NIC_PORT_DOWN);
	ASSERT_OK(nic_query(pair.rig.nic[1], &info));
	ASSERT_EQ(info.state, NIC_PORT_ACTIVE);
	resume(&pair.rig);
	ASSERT_OK(pair.rig.nic[0]->ops->port_set(pair.rig.nic[0], NIC_PORT_ACTIVE));
	exercise(&pair);
	pair_close(&pair);
}
