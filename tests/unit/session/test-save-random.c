/* SPDX-License-Identifier: Apache-2.0 */
/* Random lives of a session, with a daemon that dies in between: the state saved after an import is the one saved before. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/session/save-lab.h"
#include "tests/lib/test.h"

#define HANDLES 24
#define MEMORIES 3 /* that several regions may be of */

struct life {
	struct save_lab k;
	struct pair a;
	uint64_t id;
	unsigned int seed;
	unsigned int n_mrs, n_queues;
	uint32_t mrs[HANDLES], queues[HANDLES];
	bool published[HANDLES];
	int memories[MEMORIES];
};

static unsigned int random_below(struct life *life, unsigned int n)
{
	life->seed = life->seed * 1103515245u + 12345u;
	return (life->seed >> 16) % n;
}

static void reg(struct life *life)
{
	uint32_t nic = random_below(life, 2);
	int own = raw_memfd(65536), fd = random_below(life, 2) ? own : life->memories[random_below(life, MEMORIES)];
	struct msg req, rep;

	if (life->n_mrs < HANDLES) {
		msg_init(&req, MSG_MEM_REG_REQ, 0);
		req.mem_reg_req = (struct msg_mem_reg_req){
			.nic = nic, .kind = MSG_MEM_MEMFD, .length_bytes = 1 + random_below(life, 65536),
			.iova = (uint64_t)random_below(life, 1000) << 12, .access = random_below(life, 16)};
		raw_expect(&life->a.raw, &req, &fd, 1, MSG_MEM_REG_REP, &rep);
		life->mrs[life->n_mrs++] = rep.mem_reg_rep.mr;
	}
	close(own);
}

static void forget(struct life *life, enum msg_kind kind, uint32_t *handles, unsigned int *n)
{
	unsigned int i;
	struct msg req, rep;

	if (*n == 0)
		return;
	i = random_below(life, *n);
	msg_init(&req, kind, 0);
	if (kind == MSG_MEM_DEREG_REQ)
		req.mem_dereg_req.handle = handles[i];
	else
		req.queue_destroy_req.handle = handles[i];
	raw_expect(&life->a.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	handles[i] = handles[--*n];
}

static void connect_first(struct life *life, uint32_t nic, const struct msg_queue_create_rep *made)
{
	struct msg req, rep;

	msg_init(&req, MSG_CONNECT_REQ, 0);
	req.connect_req.nic = nic;
	req.connect_req.peers = calloc(1, sizeof(*req.connect_req.peers));
	req.connect_req.n_peers = 1;
	req.connect_req.peers[0] = (struct msg_peer){.qpn = made->qps[0].qpn, .addr_bytes = made->qps[0].addr_bytes};
	memcpy(req.connect_req.peers[0].addr, made->qps[0].addr, made->qps[0].addr_bytes);
	raw_expect(&life->a.raw, &req, NULL, 0, MSG_CONNECT_REP, &rep);
	msg_deinit(&req);
	msg_init(&req, MSG_QP_MODIFY_REQ, 0);
	req.qp_modify_req = (struct msg_qp_modify_req){.nic = nic, .qpn = made->qps[0].qpn, .state = NIC_QPS_ERR};
	if (random_below(life, 2))
		raw_expect(&life->a.raw, &req, NULL, 0, MSG_OK_REP, &rep);
}

static void create(struct life *life)
{
	struct msg req, rep;

	if (life->n_queues == HANDLES)
		return;
	raw_fill_create(&req, 1 + random_below(life, 9));
	req.queue_create_req.nic = random_below(life, 2);
	raw_expect(&life->a.raw, &req, NULL, 0, MSG_QUEUE_CREATE_REP, &rep);
	life->queues[life->n_queues++] = rep.queue_create_rep.queues;
	if (random_below(life, 2))
		connect_first(life, req.queue_create_req.nic, &rep.queue_create_rep);
	msg_deinit(&rep);
}

static void publish(struct life *life)
{
	uint32_t slot = random_below(life, HANDLES);
	bool has_fd = random_below(life, 2);
	int fd = raw_memfd(4096);
	struct msg req, rep;

	if (life->published[slot]) {
		msg_init(&req, MSG_UNPUBLISH_REQ, 0);
		req.unpublish_req.slot = slot;
		raw_expect(&life->a.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	} else {
		msg_init(&req, MSG_PUBLISH_REQ, 0);
		req.publish_req = (struct msg_publish_req){
			.key.slot = slot, .has_fd = has_fd, .data_bytes = random_below(life, PUBLISH_DATA_BYTES + 1)};
		raw_expect(&life->a.raw, &req, &fd, has_fd, MSG_OK_REP, &rep);
	}
	life->published[slot] = !life->published[slot];
	close(fd);
}

static void do_something(struct life *life)
{
	switch (random_below(life, 6)) {
	case 0:
	case 1:
		reg(life);
		break;
	case 2:
		forget(life, MSG_MEM_DEREG_REQ, life->mrs, &life->n_mrs);
		break;
	case 3:
		create(life);
		break;
	case 4:
		forget(life, MSG_QUEUE_DESTROY_REQ, life->queues, &life->n_queues);
		break;
	default:
		publish(life);
	}
}

/* Writes all objects, also those that have not changed since the adoption. */
static void save_all(struct session *session)
{
	struct resource *head;

	list_for_each_entry(head, &session->resources.lists[RESOURCE_MR], link)
		session_save(session, SAVE_MR, container_of(head, struct session_mr, head), -1);
	list_for_each_entry(head, &session->resources.lists[RESOURCE_QUEUES], link)
		session_save(session, SAVE_QUEUES, container_of(head, struct session_queues, head), -1);
	ASSERT_OK(save_write(session));
}

/* Reread and written again: nothing was lost or moved. */
static void die_and_go_on(struct life *life)
{
	struct quota_amount total = life->k.lab.registry.quota.total;
	struct pair *pairs[] = {&life->a};
	unsigned int n_names = life->k.n;
	size_t n_before, n_after;
	void *before, *after;

	before = save_lab_state(&life->k, life->id, &n_before);
	save_lab_restart(&life->k, pairs, 1);
	ASSERT_OK(save_lab_adopt(&life->k, life->id, &life->a.session));
	life->a.session->owner = &life->a;
	save_all(life->a.session);
	after = save_lab_state(&life->k, life->id, &n_after);
	ASSERT_EQ(n_before, n_after);
	ASSERT_EQ(memcmp(before, after, n_before), 0);
	ASSERT_EQ(memcmp(&total, &life->k.lab.registry.quota.total, sizeof(total)), 0);
	/* The import asked for every saved descriptor. */
	for (unsigned int i = 0; i < life->k.n; i++)
		ASSERT(!life->k.kept[i].claimed || strcmp(life->k.kept[i].name, SAVE_REGISTRY) == 0);
	ASSERT_EQ(life->k.n, n_names);
	free(before);
	free(after);
}

static void live(unsigned int seed, unsigned int n)
{
	static struct life life;

	life = (struct life){.seed = seed, .k.blocks = seed % 2};
	save_lab_init(&life.k, 10000);
	save_lab_hello(&life.a, &life.k);
	life.id = life.a.session->id;
	for (unsigned int i = 0; i < MEMORIES; i++)
		life.memories[i] = raw_memfd(65536);
	raw_open_nic(&life.a.raw, "fake0");
	raw_open_nic(&life.a.raw, "fake1");
	for (unsigned int i = 0; i < n; i++) {
		do_something(&life);
		if (random_below(&life, 8) == 0)
			die_and_go_on(&life);
	}
	pair_deinit(&life.a);
	save_lab_deinit(&life.k);
	for (unsigned int i = 0; i < MEMORIES; i++)
		close(life.memories[i]);
}

TEST_TIMEOUT(lives_go_on, 120)
{
	unsigned int n = test_is_full() ? 200 : 8;

	for (unsigned int seed = 1; seed <= n; seed++)
		live(seed, 150);
}
