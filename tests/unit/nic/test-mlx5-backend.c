/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mlx5 backend on two simulated ConnectX NICs: what nic.h does not ask of other backends. contract-*.c judge the rest.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <infiniband/mlx5dv.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl.h>

#include "client.h"
#include "daemon/nic/mlx5/mlx5-bell.h"
#include "tests/lib/test.h"

/* The NIC's own page goes on ringing these queues. */
TEST(context_changes_to_mode_cpu_with_its_queues)
{
	const struct nic_ops *ops;
	uint8_t *uar, *page;
	uint64_t one = 1;
	struct client c;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	ops = rig.nic[0]->ops;
	client_open(&c, rig.nic[0], 1, 2);
	if (!MLX5_HAS_BELL) {
		ASSERT_ERR(ops->ctx_to_cpu(c.ctx), EOPNOTSUPP);
		client_close(&c);
		rig_close(&rig);
		return;
	}
	client_connect(&c, 0, &c, 1);
	client_exercise(&c, &c);
	ASSERT_OK(ops->ctx_to_cpu(c.ctx));
	ASSERT_ERR(ops->ctx_to_cpu(c.ctx), EINVAL);
	ASSERT_EQ(c.ctx->doorbell.mode, NIC_DOORBELL_CPU);
	uar = c.doorbell_page;
	page = mmap(NULL, SHMD_DB_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, c.ctx->doorbell.page_fd, 0);
	ASSERT(page != MAP_FAILED);
	for (uint64_t i = 1; i <= 20; i++) {
		client_post_inline(&c, 0, i, &c, 0);
		client_publish(&c, 0);
		c.doorbell_page = i % 2 ? page : uar;
		client_ring_word(&c, client_qpn(&c, 0));
		ASSERT_EQ(write(c.ctx->doorbell.wake_fd, &one, sizeof(one)), sizeof(one));
		client_complete(&c, 0);
		ASSERT_EQ(client_word(&c, 0), i);
	}
	c.doorbell_page = uar;
	munmap(page, SHMD_DB_PAGE_BYTES);
	client_close(&c);
	rig_close(&rig);
}

/* ---- queues ---------------------------------------------------------------------------------------------------------- */

/* IBTA allows it; the firmware has no such command. */
TEST(a_qp_in_init_refuses_init)
{
	struct client c;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	client_open(&c, rig.nic[0], 1, 1);
	ASSERT_OK(rig.nic[0]->ops->qp_modify(c.ctx, client_qpn(&c, 0), NIC_QPS_INIT));
	ASSERT_ERR(rig.nic[0]->ops->qp_modify(c.ctx, client_qpn(&c, 0), NIC_QPS_INIT), EINVAL);
	client_close(&c);
	rig_close(&rig);
}

/* A NIC may write to the whole ring of a collapsed CQ, as the simulated one does. Nothing else may lie there. */
TEST(collapsed_cqs_have_rings_of_their_own)
{
	struct nic_queues_attr attr;
	struct client a;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	client_attr(&attr, 3, 0);
	attr.cqs[0].flags = NIC_CQ_COLLAPSED | NIC_CQ_OVERRUN_IGNORE;
	client_open_ctx(&a, rig.nic[0], 1);
	client_reg(&a);
	client_create_as(&a, &attr);
	for (uint32_t i = 0; i < 3; i++)
		ASSERT_EQ(a.queue_mem[a.queues->layout.cqs[i].ring_offset + SHMD_CQE_BYTES - 1], 0xff);
	client_close(&a);
	rig_close(&rig);
}

/* ---- hostile clients --------------------------------------------------------------------------------------------------- */

/* The kernel's request has one attribute, a handle. Handles are small numbers, so a client can guess them. */
static int destroy_handle(int cmd_fd, uint16_t object, uint16_t method, uint16_t attr, uint32_t handle)
{
	uint64_t cmd[(sizeof(struct ib_uverbs_ioctl_hdr) + sizeof(struct ib_uverbs_attr)) / 8] = {0};
	struct ib_uverbs_ioctl_hdr *hdr = (struct ib_uverbs_ioctl_hdr *)(void *)cmd;

	hdr->length = sizeof(cmd);
	hdr->object_id = object;
	hdr->method_id = method;
	hdr->num_attrs = 1;
	hdr->driver_id = RDMA_DRIVER_MLX5;
	hdr->attrs[0] = (struct ib_uverbs_attr){
		.attr_id = attr, .flags = UVERBS_ATTR_F_MANDATORY, .data = handle};
	return ioctl(cmd_fd, RDMA_VERBS_IOCTL, cmd);
}

/* An object that another one uses cannot be destroyed: several rounds end with all of them. */
static unsigned int destroy_all_by_hand(int cmd_fd)
{
	unsigned int n = 0;

	for (uint32_t i = 0; i < 4 * 64; i++) {
		uint32_t handle = i % 64;

		n += destroy_handle(cmd_fd, MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY,
				    MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, handle) == 0;
		n += destroy_handle(cmd_fd, MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_DEREG,
				    MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE, handle) == 0;
		n += destroy_handle(cmd_fd, UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY,
				    UVERBS_ATTR_DESTROY_MR_HANDLE, handle) == 0;
	}
	return n;
}

static int try_reg(struct client *c, const struct nic_mr_attr *attr)
{
	struct nic_mr *mr = NULL;
	int r = c->ctx->nic->ops->mr_reg(c->ctx, attr, &mr);

	c->ctx->nic->ops->mr_dereg(mr);
	return r;
}

TEST(a_client_that_destroys_objects_by_the_command_descriptor_harms_no_other)
{
	struct nic_mr_attr attr = {.kind = NIC_MEM_MEMFD,
				   .length_bytes = 4096,
				   .access = NIC_ACCESS_ALL};
	struct nic_counters counters;
	const struct nic_ops *ops;
	struct client a, b;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	ops = rig.nic[0]->ops;
	client_open(&a, rig.nic[0], 1, 2);
	client_open(&b, rig.nic[0], 2, 1);
	client_connect(&b, 0, &b, 0);
	/* QPs, CQs, the counters, a umem and a region. */
	ASSERT_EQ(destroy_all_by_hand(a.ctx->doorbell.page_fd), 7u);
	ASSERT_LT(ops->ctx_counters(a.ctx, &counters), 0);
	ASSERT_OK(ops->counters(rig.nic[0], &counters));
	ASSERT_LT(ops->qp_modify(a.ctx, client_qpn(&a, 0), NIC_QPS_INIT), 0);
	ASSERT(!ops->mr_dereg(a.mr));
	a.mr = NULL;
	/* The daemon's view of this context is outdated: the context holds nothing new. */
	attr.fd = a.mem_fd;
	ASSERT_ERR(try_reg(&a, &attr), EPERM);
	client_close(&a);
	client_exercise(&b, &b);
	client_close(&b);
	rig_close(&rig);
}

/* ---- opening --------------------------------------------------------------------------------------------------------- */

static uint32_t effective_caps(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	ASSERT_OK(syscall(SYS_capget, &head, data));
	return data[0].effective;
}

static uint32_t caps_at_open;
static unsigned int n_opened;

/* Replaces the function of libmlx5, and calls it. */
struct ibv_context *mlx5dv_open_device(struct ibv_device *device, struct mlx5dv_context_attr *attr)
{
	struct ibv_context *(*real)(struct ibv_device *, struct mlx5dv_context_attr *);

	*(void **)&real = dlsym(RTLD_NEXT, "mlx5dv_open_device");
	ASSERT(real);
	caps_at_open |= effective_caps();
	n_opened++;
	return real(device, attr);
}

TEST(capabilities_that_a_context_would_keep_are_dropped_while_it_opens)
{
	const uint32_t stick = CAP_TO_MASK(CAP_NET_RAW) | CAP_TO_MASK(CAP_SYS_RAWIO);
	uint32_t had;
	struct client c;
	struct rig rig;

	/* Root of a container may have only one of them. A process without any becomes root of its own namespace. */
	if (!(effective_caps() & stick) && unshare(CLONE_NEWUSER) < 0)
		test_skip("neither capabilities nor a user namespace to have them in");
	had = effective_caps();
	if (!(had & stick))
		test_skip("no capabilities in a user namespace");
	rig_open_mlx5(&rig, 1, NULL);
	client_open_ctx(&c, rig.nic[0], 1);
	ASSERT_GE(n_opened, 2u);
	ASSERT_EQ(caps_at_open & stick, 0u);
	ASSERT_EQ(effective_caps(), had);
	client_close(&c);
	rig_close(&rig);
}

TEST(a_device_without_its_node_is_reported)
{
	const char *root = getenv("MLX5SIM_ROOT");
	const struct nic_mlx5_attr attr = {0};
	struct nic_mlx5_report report;
	char node[256], away[256];
	struct rig rig;

	if (!root)
		test_skip("nodes of real devices stay");
	snprintf(node, sizeof(node), "%s/dev/infiniband/uverbs1", root);
	snprintf(away, sizeof(away), "%s/uverbs1", root);
	ASSERT_OK(rename(node, away));
	list_init(&rig.nics);
	ASSERT_OK(nic_mlx5_probe(&attr, &rig.nics, &report));
	ASSERT_OK(rename(away, node));
	ASSERT_STREQ(report.unusable, "/dev/infiniband/uverbs1: No such file or directory");
	ASSERT(rig.nics.next->next == &rig.nics);
	rig_close(&rig);
}
