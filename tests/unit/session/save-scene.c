/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/session/save-scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/test.h"

static void publish(struct pair *pair, uint32_t slot, int fd)
{
	struct msg req, rep;

	msg_init(&req, MSG_PUBLISH_REQ, 0);
	req.publish_req.key.slot = slot;
	req.publish_req.key.world[3] = 7;
	req.publish_req.has_fd = fd >= 0;
	req.publish_req.data_bytes = 5;
	memcpy(req.publish_req.data, "hello", 5);
	raw_expect(&pair->raw, &req, &fd, fd >= 0, MSG_OK_REP, &rep);
}

static void connect_qp(struct pair *pair, uint32_t qpn, const struct msg_qp_info *to)
{
	struct msg req, rep;

	msg_init(&req, MSG_CONNECT_REQ, 0);
	req.connect_req.peers = calloc(1, sizeof(*req.connect_req.peers));
	req.connect_req.n_peers = 1;
	req.connect_req.peers[0] = (struct msg_peer){.qpn = qpn, .addr_bytes = to->addr_bytes};
	memcpy(req.connect_req.peers[0].addr, to->addr, to->addr_bytes);
	raw_expect(&pair->raw, &req, NULL, 0, MSG_CONNECT_REP, &rep);
	ASSERT_EQ(rep.connect_rep.n_done, 1);
	msg_deinit(&req);
}

/* By name, and for a GPU: what should carry its load depends on that. */
static void open_for_gpu(struct pair *pair, const char *nic)
{
	struct msg req, rep;

	msg_init(&req, MSG_NIC_OPEN_REQ, 0);
	snprintf(req.nic_open_req.nic, sizeof(req.nic_open_req.nic), "%s", nic);
	snprintf(req.nic_open_req.gpu, sizeof(req.nic_open_req.gpu), GPU);
	raw_expect(&pair->raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
}

void save_scene_init(struct save_scene *s, uint64_t limit)
{
	struct msg rep;
	int fd;

	s->k.blocks = false;
	save_lab_init(&s->k, limit);
	save_lab_hello(&s->a, &s->k);
	s->id = s->a.session->id;
	raw_open_nic(&s->a.raw, "fake0");
	open_for_gpu(&s->a, "fake1");
	s->mr = raw_reg(&s->a.raw, 8192);
	raw_create_queues(&s->a.raw, 2, &rep);
	s->queues = rep.queue_create_rep.queues;
	s->qpn = rep.queue_create_rep.qps[0].qpn;
	connect_qp(&s->a, s->qpn, &rep.queue_create_rep.qps[1]);
	msg_deinit(&rep);
	fd = raw_memfd(4096);
	publish(&s->a, 1, fd);
	publish(&s->a, 2, -1);
	close(fd);
}

void save_scene_adopt(struct save_scene *s)
{
	ASSERT_OK(save_lab_adopt(&s->k, s->id, &s->a.session));
	s->a.session->owner = &s->a;
}

void save_scene_restart(struct save_scene *s)
{
	struct pair *pairs[] = {&s->a};

	save_lab_restart(&s->k, pairs, 1);
}

void save_scene_deinit(struct save_scene *s)
{
	pair_deinit(&s->a);
	save_lab_deinit(&s->k);
}

void save_scene_list(struct pair *admin, enum msg_list_what what, struct msg *rep)
{
	struct msg req;

	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = what;
	raw_expect(&admin->raw, &req, NULL, 0, MSG_LIST_REP, rep);
}
