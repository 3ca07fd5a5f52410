/* SPDX-License-Identifier: Apache-2.0 */
/* Seeds of fuzz-dispatch. Making batches of queues, in memory of the daemon and of the client. */
#include <stddef.h>

#include "tests/fuzz/dispatch-seeds.h"
#include "tests/lib/strange-fd.h"

/* Numbers of the fake NIC: the first batch of one CQ and two QPs. */
#define CQN 1u

#define STRANGE(kind) (uint8_t)(0x40 | (kind))

static void queues(void)
{
	const struct msg_cq_spec cq = {.count = 1, .log2_entries = 6};
	const struct msg_qp_spec qp_spec = {
		.count = 1, .type = 1, .log2_sq_wqebbs = 4, .n_rq_wqes = 4, .log2_rq_stride = 6};
	struct msg_queue_create_req req = {.specs = {.n_cqs = 1, .n_qps = 1, .cqs = {cq}, .qps = {qp_spec}}};
	struct msg msg;

	seed_begin();
	msg_init(&msg, MSG_QUEUE_LAYOUT_REQ, 0);
	msg.queue_layout_req = req.specs;
	seed_say(0, &msg, 0);
	msg.queue_layout_req.cqs[0].count = UINT32_MAX;
	seed_say(0, &msg, 0);
	msg.queue_layout_req = (struct msg_queue_specs){0};
	seed_say(0, &msg, 0);
	seed_create_as(&req, 0);
	req.specs.n_cqs = 0;
	req.specs.qps[0].send_cqn = req.specs.qps[0].recv_cqn = CQN;
	seed_create_as(&req, 0);
	seed_handle(0, MSG_QUEUE_DESTROY_REQ, 1);
	req.specs.qps[0].send_cqn = 99;
	seed_create_as(&req, 0);
	req.specs.qps[0] = qp_spec;
	req.specs.qps[0].log2_sq_wqebbs = 13;
	seed_create_as(&req, 0);
	req.specs.n_cqs = 1;
	req.specs.cqs[0].log2_entries = 17;
	seed_create_as(&req, 0);
	req.specs.cqs[0].log2_entries = 99;
	seed_create_as(&req, 0);
	seed_handle(0, MSG_QUEUE_DESTROY_REQ, 99);
}

static void queues_in_own_memory(void)
{
	struct msg_queue_create_req req = {
		.specs = {.n_cqs = 1, .cqs = {{.count = 1, .log2_entries = 6}}},
		.mem_kind = MSG_MEM_MEMFD,
		.mem_bytes = 1 << 16};

	seed_begin();
	for (uint8_t kind = 0; kind < STRANGE_FD_N; kind++)
		seed_create_as(&req, STRANGE(kind));
	req.mem_offset = 1;
	seed_create_as(&req, 1);
	req.mem_offset = 0;
	req.mem_bytes = 4096;
	seed_create_as(&req, 1);
	req.nic = 1;
	seed_create_as(&req, 1);
	req.nic = 0;
	req.mem_kind = MSG_MEM_DMABUF;
	seed_create_as(&req, 1);
	req.mem_kind = MSG_MEM_AGENT;
	seed_create_as(&req, 0);
	seed_record(SEED_DEED(3), 0x18, NULL, 0);
	req.mem_kind = MSG_MEM_UNSET;
	seed_create_as(&req, 0);
}

const struct dispatch_seed dispatch_queue_seeds[] = {
	{"queues", queues},
	{"queues-in-own-memory", queues_in_own_memory},
	{NULL, NULL},
};
