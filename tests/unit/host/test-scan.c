/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the kernel's tree of RDMA devices, which the test makes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/host/host.h"
#include "tests/lib/sysfs-tree.h"
#include "tests/lib/test.h"

static struct host_list list;

static const struct host_nic *scan_one(const struct sysfs_tree *tree)
{
	host_scan(tree->root, NULL, 0, &list);
	ASSERT_EQ(list.n, 1);
	ASSERT_EQ(list.n_left_out, 0);
	return &list.nics[0];
}

TEST(an_rxe_device_is_seen_with_all_that_the_kernel_tells)
{
	static const uint8_t link_local[16] = {0xfe, 0x80, [8] = 0x02, 0x50, 0x56, 0xff, 0xfe, 0x00, 0x00, 0x07};
	static const uint8_t ipv4[16] = {[10] = 0xff, 0xff, 0x0a, 0x00, 0x00, 0x07};
	const struct host_nic *nic;
	struct sysfs_tree tree;

	sysfs_tree_init(&tree);
	sysfs_tree_add_rxe(&tree, "rxe0", "veth0", 7);
	nic = scan_one(&tree);
	ASSERT_STREQ(nic->name, "rxe0");
	ASSERT_STREQ(nic->driver, "rdma_rxe");
	ASSERT_EQ(nic->pci, HOST_NO_PCI);
	ASSERT_STREQ(nic->netdev, "veth0");
	ASSERT_EQ(nic->node_guid, 0x025056fffe000007);
	ASSERT_EQ(nic->port, 1);
	ASSERT_EQ(nic->fabric, HOST_FABRIC_ETHERNET);
	ASSERT_EQ(nic->state, HOST_STATE_ACTIVE);
	ASSERT_EQ(nic->phys_state, 5);
	ASSERT_EQ(nic->lid, 0);
	ASSERT_EQ(nic->rate_mbps, 2500);
	ASSERT_EQ(nic->mtu_bytes, 1500);
	ASSERT_EQ(nic->n_gids, 2);
	ASSERT_MEMEQ(nic->gids[0].bytes, link_local, 16);
	ASSERT_MEMEQ(nic->gids[1].bytes, ipv4, 16);
	ASSERT_EQ(nic->gids[1].index, 1);
	ASSERT_EQ(nic->gids[1].type, HOST_GID_ROCE_V2);
	sysfs_tree_port(&tree, "rxe0", 1, false);
	nic = scan_one(&tree);
	ASSERT_EQ(nic->state, HOST_STATE_DOWN);
	ASSERT_EQ(nic->phys_state, 3);
	sysfs_tree_deinit(&tree);
}

#define HCA "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.1/infiniband/ibp59s0"

static void add_hca(const struct sysfs_tree *tree)
{
	sysfs_tree_put(tree, HCA "/node_guid", "e41d:2d03:0000:0001\n");
	sysfs_tree_put(tree, HCA "/node_desc", "rxe of a person who likes confusion\n");
	for (unsigned int port = 1; port <= 2; port++) {
		char path[256];

#define PUT(file, ...) (snprintf(path, sizeof(path), HCA "/ports/%u/" file, port), sysfs_tree_put(tree, path, __VA_ARGS__))
		PUT("state", "%s\n", port == 1 ? "4: ACTIVE" : "2: INIT");
		PUT("phys_state", "5: LinkUp\n");
		PUT("link_layer", "InfiniBand\n");
		PUT("lid", "0x1%x\n", port);
		PUT("rate", "200 Gb/sec (4X HDR)\n");
		PUT("gids/0", "fe80:0000:0000:0000:e41d:2d03:0000:000%u\n", port);
		PUT("gid_attrs/types/0", "IB/RoCE v1\n");
#undef PUT
	}
	sysfs_tree_link(tree, HCA "/device", "../..");
	sysfs_tree_link(tree, "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.1/driver", "../../../../bus/pci/drivers/hfi9");
	sysfs_tree_put(tree, "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.1/net/ib0/dev_port", "0\n");
	sysfs_tree_put(tree, "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.1/net/ib0/ifindex", "4\n");
	sysfs_tree_put(tree, "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.1/net/ib1/dev_port", "1\n");
	sysfs_tree_put(tree, "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.1/net/ib1/ifindex", "5\n");
	/* Devices made on them later have their ports. */
	for (unsigned int i = 0; i < 6; i++) {
		char path[96];

		snprintf(path, sizeof(path), "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.1/net/rep%u/dev_port", i);
		sysfs_tree_put(tree, path, "%u\n", i % 2);
		snprintf(path, sizeof(path), "devices/pci0000:3a/0000:3a:00.0/0000:3b:00.1/net/rep%u/ifindex", i);
		sysfs_tree_put(tree, path, "%u\n", 10 + i);
	}
	sysfs_tree_link(tree, "class/infiniband/ibp59s0", "../../" HCA);
}

TEST(ports_of_a_device_on_a_bus_have_names_driver_and_interface_of_their_own)
{
	struct sysfs_tree tree;

	sysfs_tree_init(&tree);
	add_hca(&tree);
	host_scan(tree.root, NULL, 0, &list);
	ASSERT_EQ(list.n, 2);
	for (unsigned int i = 0; i < 2; i++) {
		const struct host_nic *nic = &list.nics[i];

		ASSERT_STREQ(nic->name, i ? "ibp59s0:2" : "ibp59s0:1");
		ASSERT_STREQ(nic->netdev, i ? "ib1" : "ib0");
		ASSERT_STREQ(nic->driver, "hfi9");
		ASSERT_EQ(nic->pci, 0x3b01);
		ASSERT_EQ(nic->node_guid, 0xe41d2d0300000001);
		ASSERT_EQ(nic->port, i + 1);
		ASSERT_EQ(nic->lid, 0x11 + i);
		ASSERT_EQ(nic->fabric, HOST_FABRIC_INFINIBAND);
		ASSERT_EQ(nic->state, i ? HOST_STATE_DOWN : HOST_STATE_ACTIVE);
		ASSERT_EQ(nic->rate_mbps, 200000);
		ASSERT_EQ(nic->gids[0].type, HOST_GID_IB);
	}
	sysfs_tree_deinit(&tree);
}

TEST(a_host_without_rdma_has_nothing_to_see)
{
	struct sysfs_tree tree;

	sysfs_tree_init(&tree);
	ASSERT(!host_watch_wanted(tree.root));
	host_scan(tree.root, NULL, 0, &list);
	ASSERT_EQ(list.n, 0);
	sysfs_tree_add_rxe(&tree, "rxe0", "veth0", 1);
	ASSERT(host_watch_wanted(tree.root));
	sysfs_tree_delete(&tree, "rxe0");
	ASSERT(host_watch_wanted(tree.root));
	host_scan(tree.root, NULL, 0, &list);
	ASSERT_EQ(list.n, 0);
	sysfs_tree_deinit(&tree);
}

static void read_tree(const struct sysfs_tree *tree, const char *path, char text[128])
{
	char whole[256];
	FILE *file;
	size_t n;

	snprintf(whole, sizeof(whole), "%s/%s", tree->root, path);
	file = fopen(whole, "re");
	ASSERT(file);
	n = fread(text, 1, 127, file);
	text[n] = 0;
	fclose(file);
}

/* Each file in turn: empty, endless, no text, far too large a number. */
TEST(malformed_fields_are_unknown_and_harm_no_other_field)
{
	static const char *const files[] = {"node_desc", "node_guid", "parent", "ports/1/state", "ports/1/phys_state",
					    "ports/1/link_layer", "ports/1/lid", "ports/1/rate", "ports/1/gids/0",
					    "ports/1/gid_attrs/types/0", "ports/1/gid_attrs/ndevs/0"};
	char endless[5000], path[128], right[128];
	const char *texts[] = {"", "\n", endless, "\x1b[31m\xff\xfe\n", "99999999999999999999999: X\n",
			       "-1: X\n", "::::::::\n", "fe80:0000:0000:0000:0250\n"};
	struct sysfs_tree tree;

	memset(endless, '4', sizeof(endless) - 1);
	endless[sizeof(endless) - 1] = 0;
	sysfs_tree_init(&tree);
	sysfs_tree_add_rxe(&tree, "rxe0", "veth0", 7);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "class/infiniband/rxe0/%s", files[i]);
		read_tree(&tree, path, right);
		for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++) {
			const struct host_nic *nic;

			sysfs_tree_put(&tree, path, "%s", texts[k]);
			nic = scan_one(&tree);
			ASSERT_STREQ(nic->name, "rxe0");
			ASSERT(nic->state == HOST_STATE_ACTIVE || i == 3);
			ASSERT(nic->rate_mbps == 2500 || (i == 7 && nic->rate_mbps == 0));
			ASSERT_EQ(nic->n_gids, i == 8 ? 1 : 2);
			ASSERT_STREQ(nic->netdev, "veth0");
			ASSERT_LE(nic->lid, 0xffff);
		}
		sysfs_tree_put(&tree, path, "%s", right);
	}
	sysfs_tree_deinit(&tree);
}

TEST(names_that_cannot_be_printed_or_are_too_long_are_left_out_and_counted)
{
	struct sysfs_tree tree;

	sysfs_tree_init(&tree);
	sysfs_tree_add_rxe(&tree, "good", "veth0", 1);
	sysfs_tree_add_rxe(&tree, "bad\x1b[31m", "veth1", 2);
	sysfs_tree_add_rxe(&tree, "thirty-two-bytes-with-its-ending", "veth2", 3);
	sysfs_tree_put(&tree, "class/infiniband/file", "no device\n");
	host_scan(tree.root, NULL, 0, &list);
	ASSERT_EQ(list.n, 1);
	ASSERT_STREQ(list.nics[0].name, "good");
	ASSERT_EQ(list.n_left_out, 2);
	sysfs_tree_deinit(&tree);
}

TEST(more_ports_and_gids_than_there_is_room_for_are_left_out)
{
	struct sysfs_tree tree;
	char path[128];

	sysfs_tree_init(&tree);
	sysfs_tree_add_rxe(&tree, "rxe0", "veth0", 1);
	for (unsigned int i = 2; i <= 80; i++) {
		snprintf(path, sizeof(path), "class/infiniband/rxe0/ports/%u/state", i);
		sysfs_tree_put(&tree, path, "4: ACTIVE\n");
	}
	for (unsigned int i = 0; i < 80; i++) {
		snprintf(path, sizeof(path), "class/infiniband/rxe0/ports/1/gids/%u", i);
		sysfs_tree_put(&tree, path, "fe80:0000:0000:0000:0000:0000:0000:%04x\n", i + 1);
	}
	host_scan(tree.root, NULL, 0, &list);
	ASSERT_EQ(list.n, HOST_LIST_MAX);
	ASSERT_EQ(list.n_left_out, 16);
	ASSERT_STREQ(list.nics[0].name, "rxe0:1");
	ASSERT_EQ(list.nics[0].n_gids, HOST_MAX_GIDS);
	ASSERT_STREQ(list.nics[63].name, "rxe0:64");
	sysfs_tree_deinit(&tree);
}

/* A table with holes: what lies behind them is found, and the number is the kernel's. */
TEST(free_places_between_gids_are_passed_over)
{
	const struct host_nic *nic;
	struct sysfs_tree tree;

	sysfs_tree_init(&tree);
	sysfs_tree_add_rxe(&tree, "rxe0", "veth0", 1);
	sysfs_tree_put(&tree, "class/infiniband/rxe0/ports/1/gids/9", "fd00:0000:0000:0000:0000:0000:0000:0009\n");
	nic = scan_one(&tree);
	ASSERT_EQ(nic->n_gids, 3);
	ASSERT_EQ(nic->gids[2].index, 9);
	ASSERT_EQ(nic->gids[2].type, HOST_GID_UNKNOWN);
	sysfs_tree_deinit(&tree);
}
