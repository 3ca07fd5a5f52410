/* SPDX-License-Identifier: Apache-2.0 */
/* Facts that the discovery of a machine takes from libibverbs and libmlx5 by declarations of its own, judged by the real ones. */
#include <string.h>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "daemon/topo/topo.h"
#include "tests/lib/machine-tree.h"
#include "tests/lib/test.h"

#define N_NICS 2

/* sysfs is of files here; the simulator's devices have the same names. */
static struct topo *read_machine(const char *mlx5)
{
	static const char *const paths[N_NICS] = {"pci0000:00/0000:00:01.0/0000:01:00.0", "pci0000:00/0000:00:02.0/0000:02:00.0"};
	struct topo_host_attr attr = {.verbs = "libibverbs.so.1", .mlx5 = mlx5};
	struct machine_tree tree;
	struct topo *topo = NULL;

	machine_tree_init(&tree, 1);
	for (unsigned int i = 0; i < N_NICS; i++) {
		machine_tree_pci(&tree, paths[i], 0x020000, 0x15b3, 0);
		machine_tree_nic(&tree, &(struct machine_nic){.path = paths[i], .name = i ? "mlx5_1" : "mlx5_0", .gbps = 100});
	}
	attr.sys = tree.sys;
	ASSERT_OK(topo_read_host(&attr, &topo));
	ASSERT_EQ(topo->n_nics, N_NICS);
	machine_tree_deinit(&tree);
	return topo;
}

static struct ibv_context *open_named(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	ASSERT(list);
	for (unsigned int i = 0; list[i] && !context; i++)
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	ASSERT(context);
	return context;
}

static void judge_mtu(const struct topo_nic *nic)
{
	struct ibv_context *context = open_named(nic->seen.name);
	struct ibv_port_attr attr;

	ASSERT_OK(ibv_query_port(context, 1, &attr));
	ASSERT_EQ(nic->seen.active_mtu_bytes, 128u << attr.active_mtu);
	ASSERT_EQ(nic->seen.max_mtu_bytes, 128u << attr.max_mtu);
	ASSERT_GT(nic->seen.max_mtu_bytes, 0);
	ASSERT_OK(ibv_close_device(context));
}

static struct ibv_port_attr port_of(const char *name)
{
	struct ibv_context *context = open_named(name);
	struct ibv_port_attr attr;

	ASSERT_OK(ibv_query_port(context, 1, &attr));
	ASSERT_OK(ibv_close_device(context));
	return attr;
}

/* sysfs says 100 Gb/s over 4 lanes, and libibverbs that it could be HDR. The firmware of Ethernet ports has no such context. */
TEST(ports_of_infiniband_tell_what_they_are_capable_of)
{
	struct topo *topo = read_machine("libmlx5.so.1");

	for (unsigned int i = 0; i < N_NICS; i++) {
		struct ibv_port_attr attr = port_of(topo->nics[i].seen.name);
		bool is_hdr = attr.port_cap_flags & IBV_PORT_CAP_MASK2_SUP &&
			      attr.port_cap_flags2 & IBV_PORT_LINK_SPEED_HDR_SUP;

		ASSERT_EQ(topo->nics[i].seen.rate_mbps, 100000);
		ASSERT_EQ(is_hdr, attr.link_layer == IBV_LINK_LAYER_INFINIBAND);
		ASSERT_EQ(topo->nics[i].seen.max_rate_mbps, is_hdr ? 200000 : 0);
		ASSERT_EQ(topo->nics[i].seen.max_lanes, 0);
	}
	topo_free(topo);
	topo = read_machine(NULL);
	ASSERT_EQ(topo->nics[0].seen.max_rate_mbps, 0);
	topo_free(topo);
}

TEST(a_connectx_tells_what_gpus_need)
{
	struct topo *topo = read_machine("libmlx5.so.1");

	for (unsigned int i = 0; i < N_NICS; i++) {
		const struct topo_nic *nic = &topo->nics[i];

		ASSERT_EQ(nic->seen.has_devx, HOST_YES);
		ASSERT_EQ(nic->seen.has_masked_atomics, HOST_YES);
		ASSERT_EQ(nic->seen.has_blueflame, HOST_YES);
		ASSERT_EQ(nic->seen.has_dmabuf, HOST_YES);
		judge_mtu(nic);
	}
	topo_free(topo);
}

TEST(without_libmlx5_only_verbs_answer)
{
	struct topo *topo = read_machine(NULL);

	ASSERT_EQ(topo->nics[0].seen.has_devx, HOST_NOT_KNOWN);
	ASSERT_EQ(topo->nics[0].seen.has_blueflame, HOST_NOT_KNOWN);
	ASSERT_EQ(topo->nics[0].seen.has_masked_atomics, HOST_NOT_KNOWN);
	ASSERT_EQ(topo->nics[0].seen.has_dmabuf, HOST_YES);
	judge_mtu(&topo->nics[0]);
	topo_free(topo);
}
