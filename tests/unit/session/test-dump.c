/* SPDX-License-Identifier: Apache-2.0 */
/* A look into queues: the right bytes of the right ring, whatever is asked for. */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/session/lab.h"
#include "tests/lib/test.h"

#define MEM_BYTES (1u << 20)
#define LOG2_SQ 4
#define N_SQ (1u << LOG2_SQ)
#define N_RQ 8u
#define LOG2_STRIDE 5
#define N_BIG_CQ 1024u

/* Two QPs: a ring of each kind, and memory whose every byte tells where it is. */
struct scene {
	struct lab lab;
	struct pair admin, client;
	int fd;
	uint8_t *image; /* of the memory */
	struct msg created;
};

static void fill_spec(struct msg *req)
{
	struct msg_queue_specs *specs = &req->queue_create_req.specs;

	raw_fill_create(req, 2);
	specs->n_cqs = 2;
	specs->cqs[0] = (struct msg_cq_spec){.count = 2, .log2_entries = 10};
	specs->cqs[1] = (struct msg_cq_spec){.count = 1, .log2_entries = 6, .flags = NIC_CQ_COLLAPSED};
	specs->qps[0].log2_sq_wqebbs = LOG2_SQ;
	specs->qps[0].n_rq_wqes = N_RQ;
	specs->qps[0].log2_rq_stride = LOG2_STRIDE;
	specs->qps[0].send_cq_first = 1;
	specs->qps[0].send_cq_step = 1; /* the second QP's is the collapsed one */
	specs->qps[0].recv_cq_first = 0;
	req->queue_create_req.mem_kind = MSG_MEM_MEMFD;
	req->queue_create_req.mem_bytes = MEM_BYTES - 4096;
	req->queue_create_req.mem_offset = 4096;
}

static void scene_init(struct scene *s)
{
	struct msg req;

	lab_init(&s->lab, 100);
	pair_init_hello(&s->admin, &s->lab, MSG_ROLE_CONTROL);
	pair_init_hello(&s->client, &s->lab, MSG_ROLE_CLIENT);
	raw_open_nic(&s->client.raw, "fake1");
	s->fd = raw_memfd(MEM_BYTES);
	s->image = malloc(MEM_BYTES);
	for (uint32_t i = 0; i < MEM_BYTES / 4; i++)
		((uint32_t *)s->image)[i] = i * 0x9e3779b1u;
	ASSERT_EQ(pwrite(s->fd, s->image, MEM_BYTES, 0), MEM_BYTES);
	fill_spec(&req);
	raw_expect(&s->client.raw, &req, &s->fd, 1, MSG_QUEUE_CREATE_REP, &s->created);
}

static void scene_deinit(struct scene *s)
{
	msg_deinit(&s->created);
	free(s->image);
	close(s->fd);
	pair_deinit(&s->admin);
	pair_deinit(&s->client);
	lab_assert_empty(&s->lab);
	lab_deinit(&s->lab);
}

static const struct msg_qp_info *qp(const struct scene *s, unsigned int i)
{
	return &s->created.queue_create_rep.qps[i];
}

static const struct msg_cq_info *cq(const struct scene *s, unsigned int i)
{
	return &s->created.queue_create_rep.cqs[i];
}

static const uint8_t *at(const struct scene *s, uint64_t offset)
{
	return s->image + 4096 + offset;
}

static uint32_t word(const struct scene *s, uint64_t offset)
{
	uint32_t value;

	memcpy(&value, at(s, offset), sizeof(value));
	return be32toh(value);
}

static void fill_dump(struct msg *req, uint32_t qpn, enum msg_queue_part part, uint32_t first, uint32_t n)
{
	msg_init(req, MSG_QUEUE_DUMP_REQ, 0);
	req->queue_dump_req = (struct msg_queue_dump_req){
		.nic = "fake1", .qpn = qpn, .part = part, .first = first, .n = n};
}

/* rep: caller's to deinit. */
static void dump(struct scene *s, uint32_t qpn, enum msg_queue_part part, uint32_t first, uint32_t n,
		 struct msg *rep)
{
	struct msg req;

	fill_dump(&req, qpn, part, first, n);
	raw_expect(&s->admin.raw, &req, NULL, 0, MSG_QUEUE_DUMP_REP, rep);
}

/* The reply holds `n` entries of the ring at `offset`, from `first` on and over its end. */
static void expect_ring(const struct scene *s, const struct msg *rep, uint64_t offset, uint32_t ring, uint32_t n)
{
	const struct msg_queue_dump_rep *d = &rep->queue_dump_rep;

	ASSERT_LT(d->first, ring);
	ASSERT_EQ(d->data_bytes, n * d->entry_bytes);
	for (uint32_t i = 0; i < n; i++)
		ASSERT_MEMEQ(d->data + i * d->entry_bytes,
			     at(s, offset + (uint64_t)((d->first + i) % ring) * d->entry_bytes), d->entry_bytes);
}

TEST(dump_shows_the_qp_its_rings_and_dbrecs)
{
	struct msg_queue_dump_rep *d;
	struct scene s;
	struct msg rep;

	scene_init(&s);
	dump(&s, qp(&s, 1)->qpn, MSG_PART_NONE, 3, 3, &rep);
	d = &rep.queue_dump_rep;
	ASSERT_EQ(d->qp.qpn, qp(&s, 1)->qpn);
	ASSERT_EQ(d->qp.session, s.client.session->id);
	ASSERT_STREQ(d->qp.nic, "fake1");
	ASSERT_EQ(d->qp.log2_sq_wqebbs, LOG2_SQ);
	ASSERT_EQ(d->n_rq_wqes, N_RQ);
	ASSERT_EQ(d->log2_rq_stride, LOG2_STRIDE);
	ASSERT_EQ(d->send_cqn, cq(&s, 2)->cqn);
	ASSERT_EQ(d->send_cq_flags, NIC_CQ_COLLAPSED);
	ASSERT_EQ(d->recv_cqn, cq(&s, 0)->cqn);
	ASSERT_EQ(d->recv_cq_log2_entries, 10);
	ASSERT_EQ(d->dbrec_rq, word(&s, qp(&s, 1)->dbrec_offset));
	ASSERT_EQ(d->dbrec_sq, word(&s, qp(&s, 1)->dbrec_offset + 4));
	ASSERT_EQ(d->dbrec_send_cq, word(&s, cq(&s, 2)->dbrec_offset));
	ASSERT_EQ(d->dbrec_recv_cq, word(&s, cq(&s, 0)->dbrec_offset));
	ASSERT_EQ(d->entry_bytes, 0);
	ASSERT_EQ(d->data_bytes, 0);
	msg_deinit(&rep);
	scene_deinit(&s);
}

TEST(dump_returns_the_bytes_of_each_ring_also_over_its_end)
{
	static const uint32_t firsts[] = {0, 1, 5, 15, 16, 0x10003, UINT32_MAX};
	struct scene s;
	struct msg rep;

	scene_init(&s);
	for (unsigned int i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
		for (unsigned int q = 0; q < 2; q++) {
			dump(&s, qp(&s, q)->qpn, MSG_PART_SQ, firsts[i], 7, &rep);
			ASSERT_EQ(rep.queue_dump_rep.first, firsts[i] % N_SQ);
			ASSERT_EQ(rep.queue_dump_rep.entry_bytes, 64);
			expect_ring(&s, &rep, qp(&s, q)->sq_offset, N_SQ, 7);
			msg_deinit(&rep);
			dump(&s, qp(&s, q)->qpn, MSG_PART_RQ, firsts[i], N_RQ, &rep);
			ASSERT_EQ(rep.queue_dump_rep.entry_bytes, 1 << LOG2_STRIDE);
			expect_ring(&s, &rep, qp(&s, q)->rq_offset, N_RQ, N_RQ);
			msg_deinit(&rep);
		}
		dump(&s, qp(&s, 0)->qpn, MSG_PART_SEND_CQ, firsts[i], 100, &rep);
		expect_ring(&s, &rep, cq(&s, 1)->ring_offset, N_BIG_CQ, 100);
		msg_deinit(&rep);
		dump(&s, qp(&s, 0)->qpn, MSG_PART_RECV_CQ, firsts[i], 100, &rep);
		expect_ring(&s, &rep, cq(&s, 0)->ring_offset, N_BIG_CQ, 100);
		msg_deinit(&rep);
	}
	scene_deinit(&s);
}

TEST(dump_gives_no_more_than_the_ring_has_or_a_reply_holds)
{
	struct scene s;
	struct msg rep;

	scene_init(&s);
	dump(&s, qp(&s, 0)->qpn, MSG_PART_SQ, 3, UINT32_MAX, &rep);
	expect_ring(&s, &rep, qp(&s, 0)->sq_offset, N_SQ, N_SQ);
	msg_deinit(&rep);
	dump(&s, qp(&s, 0)->qpn, MSG_PART_SEND_CQ, 1000, UINT32_MAX, &rep);
	expect_ring(&s, &rep, cq(&s, 1)->ring_offset, N_BIG_CQ, 256);
	msg_deinit(&rep);
	dump(&s, qp(&s, 1)->qpn, MSG_PART_SEND_CQ, 77, UINT32_MAX, &rep);
	expect_ring(&s, &rep, cq(&s, 2)->ring_offset, 1, 1);
	msg_deinit(&rep);
	dump(&s, qp(&s, 1)->qpn, MSG_PART_SQ, 5, 0, &rep);
	ASSERT_EQ(rep.queue_dump_rep.data_bytes, 0);
	ASSERT_EQ(rep.queue_dump_rep.entry_bytes, 64);
	msg_deinit(&rep);
	scene_deinit(&s);
}

TEST(dump_follows_a_qp_to_the_cq_of_another_batch)
{
	struct msg_queue_specs *specs;
	struct msg req, made, rep;
	struct scene s;

	scene_init(&s);
	raw_fill_create(&req, 1);
	specs = &req.queue_create_req.specs;
	specs->n_cqs = 0;
	specs->qps[0].send_cqn = specs->qps[0].recv_cqn = cq(&s, 1)->cqn;
	raw_expect(&s.client.raw, &req, NULL, 0, MSG_QUEUE_CREATE_REP, &made);
	dump(&s, made.queue_create_rep.qps[0].qpn, MSG_PART_RECV_CQ, 9, 4, &rep);
	ASSERT_EQ(rep.queue_dump_rep.recv_cqn, cq(&s, 1)->cqn);
	expect_ring(&s, &rep, cq(&s, 1)->ring_offset, N_BIG_CQ, 4);
	msg_deinit(&rep);
	/* It has no receive ring. */
	dump(&s, made.queue_create_rep.qps[0].qpn, MSG_PART_RQ, 0, 4, &rep);
	ASSERT_EQ(rep.queue_dump_rep.entry_bytes, 0);
	ASSERT_EQ(rep.queue_dump_rep.data_bytes, 0);
	msg_deinit(&rep);
	msg_deinit(&made);
	scene_deinit(&s);
}

static void expect_refusal(struct scene *s, const char *nic, uint32_t qpn, enum shmd_status status)
{
	struct msg req;

	fill_dump(&req, qpn, MSG_PART_SQ, 0, 1);
	snprintf(req.queue_dump_req.nic, sizeof(req.queue_dump_req.nic), "%s", nic);
	raw_expect_error(&s->admin.raw, &req, NULL, 0, status);
}

TEST(dump_refusals)
{
	struct scene s;
	uint32_t qpn;

	scene_init(&s);
	qpn = qp(&s, 0)->qpn;
	expect_refusal(&s, "", qpn, SHMD_STATUS_NO_NIC);
	expect_refusal(&s, "fake11", qpn, SHMD_STATUS_NO_NIC);
	expect_refusal(&s, "fake0", qpn, SHMD_STATUS_NOT_FOUND);
	expect_refusal(&s, "fake1", 0, SHMD_STATUS_NOT_FOUND);
	expect_refusal(&s, "fake1", UINT32_MAX, SHMD_STATUS_NOT_FOUND);
	expect_refusal(&s, "fake1", cq(&s, 0)->cqn, SHMD_STATUS_NOT_FOUND);
	/* The QP can be asked, its memory cannot be reached. */
	s.lab.nics[1].fail_at = s.lab.nics[1].n_calls + 2;
	s.lab.nics[1].fail_err = -EOPNOTSUPP;
	expect_refusal(&s, "fake1", qpn, SHMD_STATUS_BACKEND);
	s.lab.nics[1].fail_at = s.lab.nics[1].n_calls + 5;
	expect_refusal(&s, "fake1", qpn, SHMD_STATUS_BACKEND);
	ASSERT(!s.admin.session->ended);
	session_end(s.client.session, SHMD_STATUS_KILLED, "enough");
	expect_refusal(&s, "fake1", qpn, SHMD_STATUS_NOT_FOUND);
	scene_deinit(&s);
}
