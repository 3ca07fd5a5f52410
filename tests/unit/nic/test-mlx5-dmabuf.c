/* SPDX-License-Identifier: Apache-2.0 */
/* The mlx5 backend on dmabufs. A memfd stands for one: the simulated ConnectX accepts it on request. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "tests/lib/test.h"

static void reg_dmabuf(struct client *c)
{
	struct nic_mr_attr attr = {
		.kind = NIC_MEM_DMABUF,
		.length_bytes = CLIENT_MEM_BYTES,
		.iova = CLIENT_IOVA,
		.access = NIC_ACCESS_ALL,
	};

	c->mem_fd = client_memfd(CLIENT_MEM_BYTES, &c->mem);
	attr.fd = c->mem_fd;
	ASSERT_OK(c->ctx->nic->ops->mr_reg(c->ctx, &attr, &c->mr));
}

/* Rings of CQs are the client's to fill, since the daemon's CPU does not reach them. */
static void create_in_dmabuf(struct client *c)
{
	struct nic_queue_mem mem = {.kind = NIC_MEM_DMABUF, .offset = 8192};
	struct nic_queues_attr attr;
	struct nic_layout layout;

	client_attr(&attr, 1, 0);
	ASSERT_OK(nic_layout_init(&layout, &attr));
	mem.length_bytes = layout.total_bytes;
	mem.fd = client_memfd(mem.offset + mem.length_bytes, &c->queue_mem);
	memset(c->queue_mem + mem.offset + layout.cqs[0].ring_offset, 0xff, SHMD_CQE_BYTES << CLIENT_LOG2_CQ);
	ASSERT_OK(c->ctx->nic->ops->queues_create(c->ctx, &mem, &layout, &c->queues));
	c->queue_mem += mem.offset;
	c->queue_fd = mem.fd;
	c->qps = calloc(1, sizeof(*c->qps));
	ASSERT(c->qps);
	c->n_qps = 1;
}

TEST(queues_and_regions_lie_in_dmabufs)
{
	struct client a, b;
	struct rig rig;
	uint8_t byte;

	rig_open_mlx5(&rig, 2, NULL);
	client_open_ctx(&a, rig.nic[0], 1);
	reg_dmabuf(&a);
	create_in_dmabuf(&a);
	client_open(&b, rig.nic[1], 2, 1);
	client_connect(&a, 0, &b, 0);
	client_exercise(&a, &b);
	client_exercise(&b, &a);
	ASSERT_ERR(rig.nic[0]->ops->queues_read(a.queues, 0, &byte, 1), EOPNOTSUPP);
	/* A thread that rings for it could not read dbrecs. */
	ASSERT_ERR(rig.nic[0]->ops->ctx_to_cpu(a.ctx), EOPNOTSUPP);
	ASSERT_EQ(a.ctx->doorbell.mode, NIC_DOORBELL_UAR_MMAP);
	client_exercise(&a, &b);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}
