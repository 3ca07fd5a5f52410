/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/topo/check-tree.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/test.h"

#define OTHER_USER 1u /* than root */
#define PUT(path, ...) sysfs_tree_put(&tree->machine.files, path, __VA_ARGS__)

/* ---- the good machine */

static void put_driver(struct check_tree *tree)
{
	PUT("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n");
	PUT("proc/driver/nvidia/params", "ResmanDebugLevel: 4294967295\nEnableStreamMemOPs: 0\n"
					 "RegistryDwords: \"PeerMappingOverride=1;\"\nRegistryDwordsPerDevice: \"\"\n");
}

static void put_kernel(struct check_tree *tree)
{
	PUT("proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
	PUT("sys/module/ib_core/refcnt", "4\n");
	PUT("sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
	PUT("sys/class/infiniband_verbs/uverbs1/ibdev", "mlx5_1\n");
	PUT("dev/infiniband/uverbs0", "\n");
	PUT("dev/infiniband/uverbs1", "\n");
	PUT("usr/lib/x86_64-linux-gnu/libmlx5.so.1.24.50.0", "\n");
	sysfs_tree_link(&tree->machine.files, "usr/lib/x86_64-linux-gnu/libmlx5.so.1", "libmlx5.so.1.24.50.0");
}

static void put_daemon(struct check_tree *tree)
{
	check_tree_limit(tree, "unlimited", 0);
	check_tree_thread(tree, 17, "shmemd", 3);
	check_tree_thread(tree, 18, "bell-mlx5_1", 11);
	check_tree_process(tree, "shmemd", 1017);
	PUT("sys/devices/system/node/node0/cpulist", "0-3,8-9\n");
	PUT("sys/devices/system/node/node1/cpulist", "4-7,10-13\n");
	tree->session = (struct check_session){.session = 1, .pid = 99, .command = "train", .doorbell = "uar-mmap"};
	tree->daemon = (struct check_daemon){.pid = CHECK_PID,
					     .started_min_nsec = CHECK_STARTED_NSEC,
					     .started_max_nsec = CHECK_STARTED_NSEC,
					     .n_sessions = 1,
					     .sessions = &tree->session,
					     .keeps_sessions = true,
					     .unmanaged = tree->unmanaged};
}

static void put_devices(struct check_tree *tree)
{
	machine_tree_pci(&tree->machine, CHECK_GPU0, 0x030200, 0x10de, 0);
	machine_tree_pci(&tree->machine, CHECK_NIC0, 0x020000, 0x15b3, 0);
	machine_tree_pci(&tree->machine, CHECK_GPU1, 0x030200, 0x10de, 1);
	machine_tree_pci(&tree->machine, CHECK_NIC1, 0x020000, 0x15b3, 1);
	machine_tree_nic(&tree->machine, &(struct machine_nic){.path = CHECK_NIC0, .name = "mlx5_0", .netdev = "eth0", .gbps = 400});
	machine_tree_nic(&tree->machine, &(struct machine_nic){.path = CHECK_NIC1, .name = "mlx5_1", .netdev = "eth1", .gbps = 400});
}

static void put_pci(struct check_tree *tree)
{
	static const char *const bridges[] = {"0000:12:00.0", "0000:12:01.0", "0000:82:00.0", "0000:82:01.0"};

	for (unsigned int i = 0; i < 4; i++)
		check_tree_config(tree, bridges[i], 0);
	PUT("sys/devices/" CHECK_GPU0 "/iommu_group/type", "identity\n");
	PUT("sys/devices/" CHECK_NIC0 "/iommu_group/type", "identity\n");
	PUT("sys/devices/" CHECK_GPU1 "/iommu_group/type", "identity\n");
	PUT("sys/devices/" CHECK_NIC1 "/iommu_group/type", "identity\n");
}

void check_tree_init(struct check_tree *tree)
{
	*tree = (struct check_tree){0};
	/* Hundreds of files for each tree, and a hundred trees: in memory, where there is such a place. */
	if (access("/dev/shm", W_OK) == 0)
		setenv("TMPDIR", "/dev/shm", 0);
	machine_tree_init(&tree->machine, 2);
	put_driver(tree);
	put_kernel(tree);
	put_daemon(tree);
	put_devices(tree);
	put_pci(tree);
	tree->change = check_tree_tell;
}

void check_tree_deinit(struct check_tree *tree)
{
	machine_tree_deinit(&tree->machine);
}

void check_tree_leave(struct check_tree *tree)
{
}

void check_tree_limit(struct check_tree *tree, const char *locked, unsigned int capabilities)
{
	static const char *const folders[] = {"self", "17"};
	char path[64];

	for (unsigned int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "proc/%s/limits", folders[i]);
		PUT(path, "Limit                     Soft Limit           Hard Limit           Units\n"
			  "Max locked memory         %-20s %-20s bytes\n",
		    locked, locked);
		snprintf(path, sizeof(path), "proc/%s/status", folders[i]);
		PUT(path, "Name:\tshmemd\nNSpid:\t17\nCapEff:\t%016x\n", capabilities);
	}
}

void check_tree_lock(struct check_tree *tree, const char *path)
{
	char file[256];
	struct stat st;

	ASSERT_LT(snprintf(file, sizeof(file), "%s/%s", tree->machine.files.root, path), (int)sizeof(file));
	if (lstat(file, &st) == 0)
		sysfs_tree_remove(&tree->machine.files, path);
	sysfs_tree_link(&tree->machine.files, path, strrchr(path, '/') + 1);
}

void check_tree_mode(struct check_tree *tree, const char *path, unsigned int mode)
{
	char file[256];

	ASSERT_LT(snprintf(file, sizeof(file), "%s/%s", tree->machine.files.root, path),
		  (int)sizeof(file));
	ASSERT_OK(chmod(file, mode));
	if (!geteuid() && !(mode & S_IWUSR))
		ASSERT_OK(chown(file, OTHER_USER, (gid_t)-1));
}

void check_tree_tell(struct topo *topo)
{
	for (unsigned int i = 0; i < topo->n_nics; i++) {
		topo->nics[i].seen.has_devx = HOST_YES;
		topo->nics[i].seen.has_masked_atomics = HOST_YES;
	}
}

void check_tree_config_bytes(struct check_tree *tree, const char *address, const uint8_t config[CHECK_CONFIG_BYTES])
{
	char path[256];
	FILE *file;

	ASSERT_LT(snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/config", tree->machine.sys, address), (int)sizeof(path));
	file = fopen(path, "we");
	ASSERT(file);
	ASSERT_EQ(fwrite(config, 1, CHECK_CONFIG_BYTES, file), CHECK_CONFIG_BYTES);
	ASSERT_OK(fclose(file));
}

void check_tree_config(struct check_tree *tree, const char *address, unsigned int acs_control)
{
	/* A capability of another kind first, then ACS at 0x120. */
	const uint8_t config[CHECK_CONFIG_BYTES] = {
		[0x100] = 0x01, [0x102] = 0x01, [0x103] = 0x12, [0x120] = 0x0d, [0x122] = 0x01, [0x126] = (uint8_t)acs_control};

	check_tree_config_bytes(tree, address, config);
}

static void put_stat(struct check_tree *tree, const char *path, const char *name,
		     unsigned int start_sec, unsigned int cpu)
{
	PUT(path,
	    "17 (%s) S 1 17 17 0 -1 4194304 100 0 0 0 5 6 0 0 20 0 2 0 %u00 4096 512 "
	    "18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 "
	    "-1 %u 0 0 0 0 0\n",
	    name, start_sec, cpu);
}

void check_tree_thread(struct check_tree *tree, unsigned int tid, const char *name, unsigned int cpu)
{
	char path[64];

	snprintf(path, sizeof(path), "proc/17/task/%u/comm", tid);
	PUT(path, "%s\n", name);
	snprintf(path, sizeof(path), "proc/17/task/%u/stat", tid);
	put_stat(tree, path, name, 10, cpu);
}

void check_tree_process(struct check_tree *tree, const char *name, unsigned int start_sec)
{
	PUT("proc/17/comm", "%s\n", name);
	put_stat(tree, "proc/17/stat", name, start_sec, 3);
}

void check_tree_vf(struct check_tree *tree, const char *pf)
{
	const struct machine_nic vf = {
		.path = CHECK_VF, .name = "mlx5_3", .netdev = "eth3", .physfn = pf, .gbps = 400};

	machine_tree_pci(&tree->machine, CHECK_VF, 0x020000, 0x15b3, 1);
	machine_tree_nic(&tree->machine, &vf);
}

/* ---- judged */

static struct topo_policy *make_policy(const struct check_tree *tree)
{
	struct topo_policy *policy = calloc(1, sizeof(*policy));
	char why[TOPO_POLICY_WHY_BYTES];

	ASSERT(policy);
	if (tree->included)
		ASSERT_OK(topo_policy_set(policy, "nics-include", tree->included, why));
	return policy;
}

void check_tree_run(struct check_tree *tree, const struct check *check, check_tell_fn *tell, void *arg)
{
	char why[TOPO_WHY_BYTES];
	struct topo_host_attr attr = {.sys = tree->machine.sys, .proc = tree->machine.proc, .why = why};
	int root = open(tree->machine.files.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct topo_map *map = calloc(1, sizeof(*map));
	struct topo_policy *policy = make_policy(tree);
	struct topo *topo = NULL;

	ASSERT_GE(root, 0);
	ASSERT(map);
	ASSERT_OK(topo_read_host(&attr, &topo));
	if (tree->change)
		tree->change(topo);
	topo_assign(topo, policy, map);
	check_run(check, &(struct check_host){.root = root, .topo = topo, .map = map, .left_out = why, .daemon = &tree->daemon, .settings = &tree->settings}, tell, arg);
	topo_free(topo);
	free(map);
	free(policy);
	close(root);
}
