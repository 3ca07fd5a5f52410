/* SPDX-License-Identifier: Apache-2.0 */
#include "contract.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "tests/lib/test.h"

#if HAVE_MLX5
#include "daemon/nic/mlx5/mlx5-bell.h"
#endif

static void open_soft(struct rig *rig, unsigned int n_nics)
{
	rig_open(rig, n_nics, NULL);
}

static void open_remote(struct rig *rig, unsigned int n_nics)
{
	rig_open_remote(rig, n_nics, NULL);
}

#if HAVE_MLX5
static void open_mlx5(struct rig *rig, unsigned int n_nics)
{
	rig_open_mlx5(rig, n_nics, NULL);
}
#endif

static const struct contract_backend backends[] = {
	{
		.row = "soft",
		.backend = "soft",
		.open = open_soft,
		.doorbell = NIC_DOORBELL_CPU,
		.best = NIC_DOORBELL_CPU,
		.kinds = {NIC_MEM_MEMFD, NIC_MEM_AGENT},
		.has_doorbell_cpu = true,
		.serves_unrung = true,
		.has_sqd = true,
		.has_port_set = true,
	},
	{
		.row = "soft-process",
		.backend = "soft",
		.open = open_remote,
		.doorbell = NIC_DOORBELL_CPU,
		.best = NIC_DOORBELL_CPU,
		.kinds = {NIC_MEM_MEMFD, NIC_MEM_AGENT},
		.has_doorbell_cpu = true,
		.serves_unrung = true,
		.has_sqd = true,
		.has_port_set = true,
	},
#if HAVE_MLX5
	{
		.row = "mlx5",
		.backend = "mlx5",
		.open = open_mlx5,
		.doorbell = NIC_DOORBELL_UAR_MMAP,
		.best = NIC_DOORBELL_UAR_MMAP,
		.kinds = {NIC_MEM_DMABUF, NIC_MEM_PEERMEM, NIC_MEM_MEMFD},
		.rate_mbps = 100000,
		.has_pci = true,
		.has_doorbell_cpu = MLX5_HAS_BELL,
		.flushes_late = true,
	},
	{
		.row = "mlx5-cpu",
		.backend = "mlx5",
		.open = open_mlx5,
		.doorbell = NIC_DOORBELL_CPU,
		.best = NIC_DOORBELL_UAR_MMAP,
		.kinds = {NIC_MEM_DMABUF, NIC_MEM_PEERMEM, NIC_MEM_MEMFD},
		.rate_mbps = 100000,
		.has_pci = true,
		.has_doorbell_cpu = MLX5_HAS_BELL,
		.flushes_late = true,
	},
#endif
};

const struct contract_backend *contract_backend(void)
{
	const char *row = getenv("SHMEMD_TEST_BACKEND");

	if (!row)
		return &backends[0];
	for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
		if (strcmp(backends[i].row, row) == 0)
			return &backends[i];
	test_fail(TEST_WHERE, "no backend %s in this build", row);
}

void contract_open(struct rig *rig, unsigned int n_nics)
{
	contract_backend()->open(rig, n_nics);
}

static void open_ctx(struct client *c, struct nic *nic, uint64_t session_id, enum nic_doorbell_mode mode)
{
	if (mode == NIC_DOORBELL_CPU && !contract_backend()->has_doorbell_cpu)
		test_skip("the backend has no doorbell mode cpu on this machine");
	client_open_ctx_as(c, nic, session_id, mode);
	ASSERT_EQ(c->ctx->doorbell.mode, mode);
}

void contract_open_ctx(struct client *c, struct nic *nic, uint64_t session_id)
{
	open_ctx(c, nic, session_id, contract_backend()->doorbell);
}

void contract_open_ctx_cpu(struct client *c, struct nic *nic, uint64_t session_id)
{
	open_ctx(c, nic, session_id, NIC_DOORBELL_CPU);
}

void contract_open_client(struct client *c, struct nic *nic, uint64_t session_id, unsigned int n_qps)
{
	contract_open_ctx(c, nic, session_id);
	client_reg(c);
	client_create(c, n_qps, 0);
}

void contract_open_pair(struct contract_pair *pair, unsigned int n_qps)
{
	contract_open(&pair->rig, 2);
	contract_open_client(&pair->a, pair->rig.nic[0], 1, n_qps);
	contract_open_client(&pair->b, pair->rig.nic[1], 2, n_qps);
	for (unsigned int i = 0; i < n_qps; i++)
		client_connect(&pair->a, i, &pair->b, i);
}

void contract_close_pair(struct contract_pair *pair)
{
	client_close(&pair->b);
	client_close(&pair->a);
	rig_close(&pair->rig);
}

enum nic_qp_state contract_state(const struct client *c, unsigned int i)
{
	struct nic_qp_info info;

	ASSERT_OK(c->ctx->nic->ops->qp_query(c->ctx, client_qpn(c, i), &info));
	return info.state;
}

void contract_fail(struct client *a, unsigned int i, struct client *b, unsigned int n_flushed)
{
	struct shmd_cqe cqe;

	b->mr->rkey ^= 0x5500;
	for (unsigned int n = 0; n <= n_flushed; n++)
		client_post_write(a, i, 0, b, 0, 64);
	b->mr->rkey ^= 0x5500;
	client_ring(a, i);
	ASSERT(client_poll(a, i, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT_EQ(client_cqe_opcode(&cqe), SHMD_CQE_REQ_ERR);
}

void contract_wait_event(struct nic *nic, struct nic_event *ret_event)
{
	struct pollfd pfd = {.fd = nic->event_fd, .events = POLLIN};
	int r;

	while ((r = client_next_event(nic, ret_event)) == -EAGAIN)
		ASSERT_EQ(poll(&pfd, 1, (int)(test_patience_nsec() / 1000000)), 1);
	ASSERT_OK(r);
}
