/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a machine: its devices, their names, addresses and capabilities, from sysfs, NVML and verbs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/unit/topo/host-lab.h"

TEST(a_machine_is_read_from_sysfs)
{
	struct machine_tree tree;
	struct topo *topo;

	put_machine(&tree);
	sysfs_tree_put(&tree.files, "proc/driver/nvidia/gpus/0000:03:00.0/information",
		       "Model: \t\t NVIDIA H100\nIRQ:   \t\t 11\nGPU UUID: \t GPU-11111111-2222-3333-4444-555555555555\n");
	topo = read_tree(&tree, NULL);
	ASSERT_EQ(topo->n_gpus, 1);
	ASSERT_EQ(topo->n_nics, 2);
	ASSERT_EQ(topo->n_numa, 2);
	ASSERT_STREQ(topo->gpus[0].name, "NVIDIA H100");
	ASSERT_STREQ(topo->gpus[0].uuid, "GPU-11111111-2222-3333-4444-555555555555");
	ASSERT_STREQ(topo->nics[0].seen.name, "mlx5_7");
	ASSERT_STREQ(topo->nics[0].seen.netdev, "eth7");
	ASSERT_STREQ(topo->nics[0].seen.firmware, "28.42.1000");
	ASSERT_EQ(topo->nics[0].seen.mtu_bytes, 9000);
	ASSERT_EQ(topo->nics[0].seen.rate_mbps, 400000);
	ASSERT_EQ(topo->nics[0].seen.n_lanes, 4);
	ASSERT_EQ(topo->nics[0].guid, 0xa088c20300ab0400);
	ASSERT_EQ(topo->nics[0].seen.node_guid, 0xa088c20300ab0400);
	ASSERT_EQ(topo->nics[0].seen.netdev_is_up, HOST_YES);
	ASSERT_EQ(topo->nics[0].seen.link.mtps, 32000);
	ASSERT_EQ(topo->nics[0].seen.link.max_mtps, 32000);
	ASSERT_EQ(topo->nics[0].seen.link.width, 16);
	ASSERT_EQ(topo->nics[0].seen.link.max_width, 16);
	ASSERT_EQ(topo->nics[1].seen.lid, 0x8100);
	ASSERT_EQ(topo->nics[1].seen.netdev_is_up, HOST_NOT_KNOWN);
	/* A folder of files has no firmware to ask. */
	ASSERT_EQ(topo->nics[0].seen.active_mtu_bytes, 0);
	ASSERT_EQ(topo->nics[0].seen.has_devx, HOST_NOT_KNOWN);
	ASSERT_EQ(topo->nics[0].seen.fabric, HOST_FABRIC_ETHERNET);
	ASSERT_EQ(topo->nics[1].seen.fabric, HOST_FABRIC_INFINIBAND);
	ASSERT_EQ(topo_distance(topo, topo->gpus[0].node, topo->nics[0].node), TOPO_PIX);
	ASSERT_EQ(topo_distance(topo, topo->gpus[0].node, topo->nics[1].node), TOPO_NODE);
	ASSERT_EQ(topo_find_gpu(topo, "gpu-11111111-2222-3333-4444-555555555555"), 0);
	ASSERT_EQ(topo_find_gpu(topo, "03:00.0"), 0);
	ASSERT_EQ(topo_find_gpu(topo, "0"), 0);
	ASSERT_EQ(topo_find_gpu(topo, "1"), -1);
	topo_free(topo);
	machine_tree_deinit(&tree);
}

static void assert_gid(const struct topo_nic *nic, unsigned int row, unsigned int index, bool is_roce_v2, const char *netdev,
		       const uint8_t bytes[16])
{
	ASSERT_LT(row, nic->seen.n_gids);
	ASSERT_EQ(nic->seen.gids[row].index, index);
	ASSERT_EQ(nic->seen.gids[row].type == HOST_GID_ROCE_V2, is_roce_v2);
	ASSERT_STREQ(nic->seen.gids[row].netdev, netdev);
	ASSERT_EQ(memcmp(nic->seen.gids[row].bytes, bytes, 16), 0);
}

/* Written and read again, a machine says the same of itself. */
static struct topo *replay(const struct topo *topo)
{
	char *text = NULL, why[TOPO_WHY_BYTES];
	struct topo *again = NULL;
	size_t n_bytes;
	FILE *out = open_memstream(&text, &n_bytes);

	ASSERT(out);
	topo_dump(topo, out);
	ASSERT_OK(fclose(out));
	ASSERT_OK(topo_parse(text, n_bytes, &again, why));
	free(text);
	return again;
}

static void assert_addresses(const struct topo *topo)
{
	const uint8_t local[16] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0xa2, 0x88, 0xc2, 0xff, 0xfe, 0xab, 0x04, 0x00};
	const uint8_t ipv4[16] = {[10] = 0xff, 0xff, 10, 0, 4, 0};
	const uint8_t vlan[16] = {0xfd, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0x2a};
	const struct topo_nic *nic = &topo->nics[0];

	ASSERT_EQ(nic->seen.has_gids, HOST_YES);
	ASSERT_EQ(nic->seen.n_gids, 5);
	assert_gid(nic, 0, 0, false, "eth7", local);
	assert_gid(nic, 1, 1, true, "eth7", local);
	assert_gid(nic, 2, 2, false, "eth7", ipv4);
	assert_gid(nic, 3, 3, true, "eth7", ipv4);
	assert_gid(nic, 4, 7, true, "eth7.100", vlan);
	ASSERT_EQ(topo->nics[1].seen.n_gids, 1);
	ASSERT_EQ(topo->nics[2].seen.has_gids, HOST_NO);
	ASSERT_EQ(topo->nics[2].seen.netdev_is_up, HOST_NO);
	ASSERT_EQ(topo->nics[2].seen.mtu_bytes, 1500);
	ASSERT_EQ(topo->nics[2].seen.node_guid, 0xa088c20300ab9999);
	ASSERT_STREQ(topo->nics[2].seen.firmware, "16.35.1012");
	ASSERT_EQ(topo->nics[2].seen.link.mtps, 8000);
	ASSERT_EQ(topo->nics[2].seen.link.max_mtps, 32000);
	ASSERT_EQ(topo->nics[2].seen.link.width, 8);
	ASSERT_EQ(topo->nics[2].seen.link.max_width, 16);
}

TEST(addresses_of_ports_and_what_is_less_than_it_could_be)
{
	struct topo *topo, *again;
	struct machine_tree tree;

	put_machine(&tree);
	/* Behind free rows, since an address between was taken away. */
	sysfs_tree_put(&tree.files, "sys/devices/" NIC_PATH "/infiniband/mlx5_7/ports/1/gids/7",
		       "fd00:0000:0000:0001:0000:0000:0000:002a\n");
	sysfs_tree_put(&tree.files, "sys/devices/" NIC_PATH "/infiniband/mlx5_7/ports/1/gid_attrs/types/7", "RoCE v2\n");
	sysfs_tree_put(&tree.files, "sys/devices/" NIC_PATH "/infiniband/mlx5_7/ports/1/gid_attrs/ndevs/7", "eth7.100\n");
	put_nic(&tree, (struct machine_nic){.path = "pci0000:a0/0000:a0:01.0/0000:a1:00.0", .name = "mlx5_9", .netdev = "eth9", .gbps = 400,
					    .guid = "a088:c203:00ab:9999", .firmware = "16.35.1012", .mtu_bytes = 1500,
					    .is_netdev_down = true, .has_no_gids = true, .pci_speed = "8.0 GT/s PCIe", .pci_width = 8});
	topo = read_tree(&tree, NULL);
	ASSERT_EQ(topo->n_nics, 3);
	assert_addresses(topo);
	again = replay(topo);
	assert_addresses(again);
	topo_free(again);
	topo_free(topo);
	machine_tree_deinit(&tree);
}

/* The kernel's table may be of any length; what is kept is not. */
TEST(addresses_are_bounded)
{
	struct machine_gid gids[HOST_MAX_GIDS + 3];
	char texts[HOST_MAX_GIDS + 3][40];
	struct machine_tree tree;
	struct topo *topo;

	for (unsigned int i = 0; i < HOST_MAX_GIDS + 3; i++) {
		snprintf(texts[i], sizeof(texts[i]), "fd00:0000:0000:0000:0000:0000:0000:%04x", i);
		gids[i] = (struct machine_gid){i, texts[i], "RoCE v2", "eth0"};
	}
	machine_tree_init(&tree, 1);
	put_nic(&tree, (struct machine_nic){.path = FAR_NIC_PATH, .name = "mlx5_0", .netdev = "eth0", .gbps = 400, .gids = gids,
					    .n_gids = HOST_MAX_GIDS + 3});
	topo = read_tree(&tree, NULL);
	ASSERT_EQ(topo->nics[0].seen.n_gids, HOST_MAX_GIDS);
	ASSERT_EQ(topo->nics[0].seen.gids[HOST_MAX_GIDS - 1].bytes[15], HOST_MAX_GIDS - 1);
	topo_free(topo);
	machine_tree_deinit(&tree);
}

/* Missing sysfs facts change words, not the machine. */
TEST(missing_numa_nodes_are_far_unless_there_is_one_only)
{
	struct machine_tree tree;
	struct topo *topo;

	machine_tree_init(&tree, 2);
	machine_tree_pci(&tree, "pci0000:00/0000:00:01.0/0000:01:00.0", CLASS_3D, NVIDIA, -1);
	put_nic(&tree, (struct machine_nic){.path = FAR_NIC_PATH, .name = "mlx5_0", .gbps = 400});
	topo = read_tree(&tree, NULL);
	ASSERT_EQ(topo_distance(topo, topo->gpus[0].node, topo->nics[0].node), TOPO_SYS);
	topo_free(topo);
	sysfs_tree_remove(&tree.files, "sys/devices/system/node/node1");
	topo = read_tree(&tree, NULL);
	ASSERT_EQ(topo_distance(topo, topo->gpus[0].node, topo->nics[0].node), TOPO_NODE);
	topo_free(topo);
	machine_tree_deinit(&tree);
}

/* It has the PCI address, the ports and the names of files of its PF. */
static void put_subfunction(struct machine_tree *tree)
{
	static const char *const files[][2] = {{"fw_ver", "28.42.1000"}, {"ports/1/state", "4: ACTIVE"}, {"ports/1/rate", "400 Gb/sec (4X NDR)"}};
	char path[200];

	for (unsigned int i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "sys/devices/" NIC_PATH "/mlx5_core.sf.4/infiniband/mlx5_9/%s", files[i][0]);
		sysfs_tree_put(&tree->files, path, "%s\n", files[i][1]);
	}
	sysfs_tree_link(&tree->files, "sys/class/infiniband/mlx5_9", "../../devices/" NIC_PATH "/mlx5_core.sf.4/infiniband/mlx5_9");
}

TEST(a_subfunction_is_not_its_function_once_more)
{
	struct machine_tree tree;
	struct topo *topo;

	put_machine(&tree);
	put_subfunction(&tree);
	topo = read_tree(&tree, NULL);
	ASSERT_EQ(topo->n_nics, 2);
	ASSERT_STREQ(topo->nics[0].seen.name, "mlx5_7");
	ASSERT_STREQ(topo->nics[1].seen.name, "mlx5_0");
	topo_free(topo);
	machine_tree_deinit(&tree);
}

static struct topo *read_and_note(const struct machine_tree *tree, char note[TOPO_WHY_BYTES])
{
	struct topo_host_attr attr = {.sys = tree->sys, .proc = tree->proc, .why = note};
	struct topo *topo = NULL;

	snprintf(note, TOPO_WHY_BYTES, "of before");
	ASSERT_OK(topo_read_host(&attr, &topo));
	return topo;
}

/* The order of a folder says nothing: of two devices of one function the first by name is it, 2 before 10. */
TEST(the_later_of_two_devices_of_a_function_is_left_out)
{
	char note[TOPO_WHY_BYTES];
	struct machine_tree tree;
	struct topo *topo;

	put_machine(&tree);
	topo = read_and_note(&tree, note);
	ASSERT_STREQ(note, "");
	topo_free(topo);
	machine_tree_nic(&tree, &(struct machine_nic){.path = NIC_PATH, .name = "mlx5_10", .gbps = 400});
	topo = read_and_note(&tree, note);
	ASSERT_EQ(topo->n_nics, 2);
	ASSERT_STREQ(topo->nics[0].seen.name, "mlx5_7");
	ASSERT_STREQ(note, "the NIC 0000:04:00.0 is there twice: mlx5_10 is left out, beside mlx5_7");
	topo_free(topo);
	machine_tree_nic(&tree, &(struct machine_nic){.path = NIC_PATH, .name = "mlx5_2", .gbps = 400});
	topo = read_and_note(&tree, note);
	ASSERT_EQ(topo->n_nics, 2);
	ASSERT_STREQ(topo->nics[0].seen.name, "mlx5_2");
	ASSERT(strstr(note, "mlx5_7 is left out, beside mlx5_2; the NIC"));
	topo_free(topo);
	machine_tree_deinit(&tree);
}

/* InfiniBand's management of such a device has one of its own below it. */
TEST(a_part_of_a_device_is_no_second_one)
{
	char note[TOPO_WHY_BYTES];
	struct machine_tree tree;
	struct topo *topo;

	put_machine(&tree);
	machine_tree_nic(&tree, &(struct machine_nic){.path = NIC_PATH, .name = "a_part", .gbps = 400});
	sysfs_tree_put(&tree.files, "sys/devices/" NIC_PATH "/infiniband/a_part/parent", "mlx5_7\n");
	topo = read_and_note(&tree, note);
	ASSERT_EQ(topo->n_nics, 2);
	ASSERT_STREQ(topo->nics[0].seen.name, "mlx5_7");
	ASSERT_STREQ(note, "");
	topo_free(topo);
	machine_tree_deinit(&tree);
}

#define MAX_PORTS 255

/* Devices of as many ports as one may have. */
static void put_ports(struct machine_tree *tree, unsigned int first, unsigned int n)
{
	char path[200], name[8];

	for (unsigned int i = first; i < first + n; i++) {
		snprintf(path, sizeof(path), "pci0100:00/0100:00:00.%u", i);
		snprintf(name, sizeof(name), "own%u", i % 10);
		put_nic(tree, (struct machine_nic){.path = path, .name = name, .gbps = 400});
		for (unsigned int port = 2; port <= MAX_PORTS; port++) {
			snprintf(path, sizeof(path), "sys/devices/pci0100:00/0100:00:00.%u/infiniband/%s/ports/%u/state", i, name, port);
			sysfs_tree_put(&tree->files, path, "4: ACTIVE\n");
		}
	}
}

/* A PF with so many VFs, whose names come before its own. */
static void put_vfs(struct machine_tree *tree, unsigned int n)
{
	char path[64], name[16];

	for (unsigned int vf = 0; vf <= n; vf++) {
		snprintf(path, sizeof(path), "pci0001:00/0001:00:%02x.%x", vf / 8, vf % 8);
		snprintf(name, sizeof(name), vf ? "a%u" : "pf%u", vf);
		put_nic(tree, (struct machine_nic){.path = path, .name = name, .gbps = 400, .physfn = vf ? "0001:00:00.0" : NULL});
	}
}

static void assert_vfs_left_out(const struct machine_tree *tree, unsigned int n_own, unsigned int n_vfs)
{
	char note[TOPO_WHY_BYTES], wanted[100];
	struct topo *topo = read_and_note(tree, note);
	struct topo_map *map = map_of(topo);
	unsigned int n_used = 0;

	ASSERT_EQ(topo->n_nics, TOPO_MAX_NICS);
	snprintf(wanted, sizeof(wanted), "%u VFs are left out: there are more than %u ports of NICs", n_own + n_vfs - TOPO_MAX_NICS,
		 TOPO_MAX_NICS);
	ASSERT_STREQ(note, wanted);
	for (unsigned int i = 0; i < topo->n_nics; i++) {
		ASSERT_EQ(map->excluded[i], topo->nics[i].seen.pf == HOST_NO_PCI ? TOPO_USED : TOPO_PF_TAKEN);
		n_used += map->excluded[i] == TOPO_USED;
	}
	ASSERT_EQ(n_used, n_own);
	free(map);
	topo_free(topo);
}

/*
 * VFs that virtual machines have are there without an RDMA device: there may be any number of them. Other VFs are left out, and
 * never a PF. Nothing of a further excess can be left out safely.
 */
TEST_TIMEOUT(functions_without_a_driver_and_vfs_are_left_out_beyond_the_limit, 300)
{
	char note[TOPO_WHY_BYTES], path[64];
	struct machine_tree tree;
	struct topo *topo;

	put_lonely_gpu(&tree);
	put_ports(&tree, 0, 4);
	for (unsigned int i = 0; i < 10; i++) {
		snprintf(path, sizeof(path), "pci0002:00/0002:00:%02x.%x", i / 8, i % 8);
		machine_tree_pci(&tree, path, CLASS_INFINIBAND, MELLANOX, 0);
	}
	topo = read_and_note(&tree, note);
	ASSERT_EQ(topo->n_nics, TOPO_MAX_NICS);
	ASSERT_STREQ(note, "");
	topo_free(topo);
	put_vfs(&tree, 10);
	assert_vfs_left_out(&tree, 4 * MAX_PORTS + 1 + 1, 10);
	put_ports(&tree, 4, 1);
	topo = NULL;
	ASSERT_EQ(topo_read_host(&(struct topo_host_attr){.sys = tree.sys, .why = note}, &topo), -E2BIG);
	ASSERT_STREQ(note, "there are more than 1024 ports of NICs");
	ASSERT(!topo);
	machine_tree_deinit(&tree);
}

#define DISPLAY_PATH "pci0000:00/0000:00:1d.0/0000:0a:00.0"

/* AMD makes both: an old chip for the console of a server is not a GPU, an accelerator of the newest kind is one. */
TEST(vendor_and_device_decide_if_the_class_does_not)
{
	static const struct {unsigned int class_code, vendor; const char *device; bool is_gpu;} rows[] = {
		{0x030000, 0x1002, "0x515e", false}, {0x030000, 0x1002, "0x5969", false}, {0x030000, 0x1002, "0x4752", false},
		{0x030000, 0x1002, "0x66a1", true}, {0x120000, 0x1002, "0x74a1", true}, {0x120000, 0x8086, "0x0d5d", false}};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct machine_tree tree;
		struct topo *topo;

		put_machine(&tree);
		machine_tree_pci(&tree, DISPLAY_PATH, rows[i].class_code, rows[i].vendor, 0);
		sysfs_tree_put(&tree.files, "sys/devices/" DISPLAY_PATH "/device", "%s\n", rows[i].device);
		topo = read_tree(&tree, NULL);
		ASSERT_EQ(topo->n_gpus, 1 + rows[i].is_gpu);
		topo_free(topo);
		machine_tree_deinit(&tree);
	}
}

static void put_netdev(struct machine_tree *tree, const char *name, unsigned int ifindex)
{
	static const char folder[] = "sys/devices/" NIC_PATH "/net";
	char path[200];

	snprintf(path, sizeof(path), "%s/%s/dev_port", folder, name);
	sysfs_tree_put(&tree->files, path, "0\n");
	snprintf(path, sizeof(path), "%s/%s/ifindex", folder, name);
	if (ifindex)
		sysfs_tree_put(&tree->files, path, "%u\n", ifindex);
}

static void assert_netdev(struct machine_tree *tree, const char *name)
{
	struct topo *topo = read_tree(tree, NULL);

	ASSERT_EQ(topo->n_nics, 1);
	ASSERT_STREQ(topo->nics[0].seen.netdev, name);
	topo_free(topo);
}

/* Representors of a switch in the NIC hang on its function and have the same port. */
TEST(the_interface_of_a_port_is_the_one_that_its_addresses_are_of)
{
	struct machine_tree tree;

	machine_tree_init(&tree, 1);
	put_nic(&tree, (struct machine_nic){.path = NIC_PATH, .name = "mlx5_0", .netdev = "p0", .gbps = 400});
	put_netdev(&tree, "p0", 9);
	for (unsigned int i = 0; i < 8; i++)
		put_netdev(&tree, (const char *[]){"a0", "pf0hpf", "pf0vf0", "pf0vf1", "pf0sf0", "z0", "k0", "m0"}[i], i + 1);
	assert_netdev(&tree, "p0");
	machine_tree_deinit(&tree);
}

/* Addresses of a bond are not of its parts, and InfiniBand's are of no interface. */
TEST(without_an_address_the_interface_is_the_oldest)
{
	static const struct machine_gid of_bond = {0, "fe80:0000:0000:0000:a288:c2ff:feab:0001", "RoCE v2", "bond0"};
	struct machine_tree tree;

	for (unsigned int is_infiniband = 0; is_infiniband < 2; is_infiniband++) {
		machine_tree_init(&tree, 1);
		put_nic(&tree, (struct machine_nic){.path = NIC_PATH, .name = "mlx5_0", .netdev = is_infiniband ? NULL : "ib0",
						    .gids = is_infiniband ? NULL : &of_bond, .n_gids = !is_infiniband, .gbps = 400});
		put_netdev(&tree, "ib0", 0);
		put_netdev(&tree, "ib0.8001", 0);
		put_netdev(&tree, "ib", 100);
		assert_netdev(&tree, "ib");
		put_netdev(&tree, "ib0", 5);
		for (unsigned int i = 1; i < 8; i++)
			put_netdev(&tree, (const char *[]){"", "a0", "ib0.8001", "ib0.8002", "ib0.8003", "z0", "k0", "m0"}[i], i + 5);
		assert_netdev(&tree, "ib0");
		machine_tree_deinit(&tree);
	}
}

TEST(links_uuids_and_mig_are_of_nvml)
{
	char word[TOPO_WORD_BYTES];
	struct machine_tree tree;
	struct topo *topo;

	machine_tree_init(&tree, 1);
	machine_tree_pci(&tree, "pci0000:00/0000:00:01.0/0000:01:00.0", CLASS_3D, NVIDIA, 0);
	machine_tree_pci(&tree, "pci0000:00/0000:00:02.0/0000:02:00.0", CLASS_3D, NVIDIA, 0);
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	topo = read_tree(&tree, SHMD_TEST_NVML);
	ASSERT_EQ(topo->n_gpus, 2);
	ASSERT_STREQ(topo->gpus[1].uuid, "GPU-00000000-0000-0000-0000-000000000001");
	ASSERT_STREQ(topo->gpus[1].name, "NVIDIA Fake 1");
	ASSERT(!topo->gpus[0].has_mig);
	ASSERT(topo->gpus[1].has_mig);
	ASSERT_EQ(topo->gpus[0].n_switch_links, 11);
	ASSERT_STREQ(topo_gpu_word(topo, 0, 1, word), "NV6");
	ASSERT_STREQ(topo_gpu_word(topo, 0, 0, word), "X");
	topo_free(topo);
	topo = read_tree(&tree, "no-such-library.so");
	ASSERT_STREQ(topo_gpu_word(topo, 0, 1, word), "PHB");
	topo_free(topo);
	machine_tree_deinit(&tree);
}

static struct topo *read_with_verbs(const struct machine_tree *tree, const char *verbs, const char *mlx5)
{
	struct topo_host_attr attr = {.sys = tree->sys, .proc = tree->proc, .verbs = verbs, .mlx5 = mlx5};
	struct topo *topo = NULL;

	ASSERT_OK(topo_read_host(&attr, &topo));
	return topo;
}

static const struct topo_nic *nic_of(const struct topo *topo, const char *name)
{
	for (unsigned int i = 0; i < topo->n_nics; i++)
		if (strcmp(topo->nics[i].seen.name, name) == 0)
			return &topo->nics[i];
	ASSERT(!"there is no such NIC");
	return NULL;
}

#define ASSERT_ABILITIES(nic, devx, masked, dmabuf, blueflame) \
	do { \
		ASSERT_EQ((nic)->seen.has_devx, devx); \
		ASSERT_EQ((nic)->seen.has_masked_atomics, masked); \
		ASSERT_EQ((nic)->seen.has_dmabuf, dmabuf); \
		ASSERT_EQ((nic)->seen.has_blueflame, blueflame); \
	} while (0)

static void put_verbs_machine(struct machine_tree *tree)
{
	static const char *const names[] = {"new", "old", "closed", "locked", "other", "unheard"};
	char path[64];

	machine_tree_init(tree, 1);
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "pci0000:00/0000:00:%02x.0/0000:%02x:00.0", i + 1, i + 1);
		put_nic(tree, (struct machine_nic){.path = path, .name = names[i], .gbps = 400});
	}
}

static void assert_verbs(const struct topo *topo)
{
	ASSERT_ABILITIES(nic_of(topo, "new"), HOST_YES, HOST_YES, HOST_YES, HOST_YES);
	ASSERT_ABILITIES(nic_of(topo, "old"), HOST_YES, HOST_NO, HOST_NO, HOST_NO);
	ASSERT_ABILITIES(nic_of(topo, "closed"), HOST_NO, HOST_NOT_KNOWN, HOST_NOT_KNOWN, HOST_NOT_KNOWN);
	ASSERT_ABILITIES(nic_of(topo, "locked"), HOST_NOT_KNOWN, HOST_NOT_KNOWN, HOST_NOT_KNOWN, HOST_NOT_KNOWN);
	ASSERT_ABILITIES(nic_of(topo, "other"), HOST_NO, HOST_NOT_KNOWN, HOST_YES, HOST_NO);
	ASSERT_ABILITIES(nic_of(topo, "unheard"), HOST_NOT_KNOWN, HOST_NOT_KNOWN, HOST_NOT_KNOWN, HOST_NOT_KNOWN);
	ASSERT_EQ(nic_of(topo, "new")->seen.active_mtu_bytes, 4096);
	ASSERT_EQ(nic_of(topo, "new")->seen.max_mtu_bytes, 4096);
	ASSERT_EQ(nic_of(topo, "old")->seen.active_mtu_bytes, 1024);
	ASSERT_EQ(nic_of(topo, "closed")->seen.active_mtu_bytes, 256);
	ASSERT_EQ(nic_of(topo, "locked")->seen.active_mtu_bytes, 0);
	/* An unused code. */
	ASSERT_EQ(nic_of(topo, "other")->seen.active_mtu_bytes, 0);
}

TEST(capabilities_come_from_verbs_and_are_unknown_without_an_answer)
{
	struct machine_tree tree;
	struct topo *topo, *again;

	put_verbs_machine(&tree);
	topo = read_with_verbs(&tree, SHMD_TEST_VERBS, SHMD_TEST_VERBS);
	assert_verbs(topo);
	again = replay(topo);
	assert_verbs(again);
	topo_free(again);
	topo_free(topo);
	/* Without the library of ConnectX NICs. */
	topo = read_with_verbs(&tree, SHMD_TEST_VERBS, "no-such-library.so");
	ASSERT_ABILITIES(nic_of(topo, "new"), HOST_NOT_KNOWN, HOST_NOT_KNOWN, HOST_YES, HOST_NOT_KNOWN);
	topo_free(topo);
	topo = read_with_verbs(&tree, "no-such-library.so", NULL);
	ASSERT_ABILITIES(nic_of(topo, "new"), HOST_NOT_KNOWN, HOST_NOT_KNOWN, HOST_NOT_KNOWN, HOST_NOT_KNOWN);
	topo_free(topo);
	/* One that is something else. */
	topo = read_with_verbs(&tree, SHMD_TEST_NVML, SHMD_TEST_NVML);
	ASSERT_ABILITIES(nic_of(topo, "new"), HOST_NOT_KNOWN, HOST_NOT_KNOWN, HOST_NOT_KNOWN, HOST_NOT_KNOWN);
	topo_free(topo);
	machine_tree_deinit(&tree);
}

/* The loopback of every machine has no link, and no interface has a name that is too long. */
TEST(capabilities_of_a_port_are_unknown_if_its_interface_does_not_answer)
{
	static const char *const names[] = {"lo", "no-such-one",
					    "a-name-longer-than-any-interface"};
	struct machine_tree tree;
	struct topo *topo;
	char path[64];

	machine_tree_init(&tree, 1);
	for (unsigned int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "pci0000:00/0000:00:%02x.0/0000:%02x:00.0", i + 1,
			 i + 1);
		put_nic(&tree,
			(struct machine_nic){
				.path = path, .name = names[i], .netdev = names[i], .gbps = 400});
	}
	topo = read_with_verbs(&tree, "no-such-library.so", NULL);
	for (unsigned int i = 0; i < 3; i++) {
		ASSERT_STREQ(nic_of(topo, names[i])->seen.netdev, names[i]);
		ASSERT_EQ(nic_of(topo, names[i])->seen.rate_mbps, 400000);
		ASSERT_EQ(nic_of(topo, names[i])->seen.max_rate_mbps, 0);
		ASSERT_EQ(nic_of(topo, names[i])->seen.max_lanes, 0);
	}
	topo_free(topo);
	machine_tree_deinit(&tree);
}

TEST(a_folder_that_is_not_there_is_an_empty_machine)
{
	struct topo_host_attr attr = {.sys = "/nonexistent", .proc = "/nonexistent"};
	struct topo *topo = NULL;

	ASSERT_OK(topo_read_host(&attr, &topo));
	ASSERT_EQ(topo->n_gpus, 0);
	ASSERT_EQ(topo->n_nics, 0);
	topo_free(topo);
}

/* The machine that the test runs on, whatever it is. */
TEST(this_machine_can_be_read)
{
	struct topo_host_attr attr = {.sys = "/sys", .proc = "/proc"};
	struct topo *topo = NULL;
	struct topo_map *map;

	ASSERT_OK(topo_read_host(&attr, &topo));
	printf("%u GPUs, %u NICs\n", topo->n_gpus, topo->n_nics);
	map = map_of(topo);
	for (unsigned int i = 0; i < topo->n_gpus; i++)
		ASSERT_LE(map->gpus[i].n_nics, topo->n_nics);
	free(map);
	topo_free(topo);
}
