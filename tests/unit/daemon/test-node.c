/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the machine repeatedly, without a daemon: the reports, and how often they come. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/node/node.h"
#include "daemon/topo/topo.h"
#include "tests/lib/machine-tree.h"
#include "tests/lib/test.h"

#define FUNCTION "pci0000:00/0000:00:00.0"
#define NOT_WHOLE "the map of this machine is incomplete: "

static void read_logged(int log)
{
	int saved = dup(STDERR_FILENO);
	struct topo *topo = NULL;

	dup2(log, STDERR_FILENO);
	ASSERT_OK(node_read(&topo));
	dup2(saved, STDERR_FILENO);
	close(saved);
	topo_free(topo);
}

static unsigned int count_logged(int log, const char *words)
{
	char text[8192];
	ssize_t bytes = pread(log, text, sizeof(text) - 1, 0);
	unsigned int n = 0;

	text[bytes > 0 ? bytes : 0] = 0;
	for (const char *at = text; (at = strstr(at, words)); at++)
		n++;
	return n;
}

static void plug(struct machine_tree *machine, const char *name)
{
	machine_tree_nic(machine, &(struct machine_nic){.path = FUNCTION, .name = name, .gbps = 400});
}

TEST(gpus_are_recognized_by_their_class)
{
	struct machine_tree machine;

	machine_tree_init(&machine, 1);
	machine_tree_pci(&machine, FUNCTION, 0x020000, 0x15b3, 0);
	machine_tree_pci(&machine, "pci0000:00/0000:00:01.0", 0x030200, 0x10de, 0);
	machine_tree_pci(&machine, "pci0000:00/0000:00:02.0", 0x030000, 0x8086, 0);
	machine_tree_pci(&machine, "pci0000:00/0000:00:03.0", 0x120000, 0x1002, 0);
	setenv("SHMEMD_SYSFS", machine.sys, 1);
	ASSERT(!node_sees_gpu("0000:00:00.0"));
	ASSERT(node_sees_gpu("0000:00:01.0"));
	ASSERT(node_sees_gpu("0000:00:02.0"));
	ASSERT(node_sees_gpu("0000:00:03.0"));
	ASSERT(!node_sees_gpu("0000:00:04.0"));
	machine_tree_deinit(&machine);
}

/* GPUs that the driver has got since the map was drawn, and MIG devices, have UUIDs that the map does not know. */
TEST(uuids_are_known_when_the_driver_has_no_more_gpus_and_none_is_split)
{
	struct machine_tree machine;

	machine_tree_init(&machine, 1);
	setenv("SHMEMD_PROCFS", machine.proc, 1);
	ASSERT(!node_knows_uuids(0));
	sysfs_tree_put(&machine.files, "proc/driver/nvidia/gpus/0000:00:01.0/information", "Model: x\n");
	sysfs_tree_put(&machine.files, "proc/driver/nvidia/gpus/0000:00:02.0/information", "Model: x\n");
	sysfs_tree_put(&machine.files, "proc/driver/nvidia/capabilities/gpu7/mig/access", "\n");
	ASSERT(node_knows_uuids(2));
	ASSERT(!node_knows_uuids(1));
	ASSERT(!node_knows_uuids(3));
	sysfs_tree_put(&machine.files, "proc/driver/nvidia/capabilities/gpu7/mig/gi3/access", "\n");
	ASSERT(!node_knows_uuids(2));
	machine_tree_deinit(&machine);
}

TEST(defects_of_a_machine_are_logged_when_they_change)
{
	int log = memfd_create("log", MFD_CLOEXEC);
	struct machine_tree machine;

	machine_tree_init(&machine, 1);
	machine_tree_pci(&machine, FUNCTION, 0x020000, 0x15b3, 0);
	plug(&machine, "mlx5_0");
	setenv("SHMEMD_SYSFS", machine.sys, 1);
	read_logged(log);
	ASSERT_EQ(count_logged(log, NOT_WHOLE), 0);
	plug(&machine, "mlx5_1");
	for (int i = 0; i < 3; i++)
		read_logged(log);
	ASSERT_EQ(count_logged(log, NOT_WHOLE), 1);
	ASSERT_EQ(count_logged(log, "mlx5_1 is left out"), 1);
	/* Mended, and then the same again. */
	sysfs_tree_remove(&machine.files, "sys/class/infiniband/mlx5_1");
	sysfs_tree_remove(&machine.files, "sys/devices/" FUNCTION "/infiniband/mlx5_1");
	read_logged(log);
	ASSERT_EQ(count_logged(log, NOT_WHOLE), 1);
	plug(&machine, "mlx5_1");
	read_logged(log);
	read_logged(log);
	ASSERT_EQ(count_logged(log, NOT_WHOLE), 2);
	machine_tree_deinit(&machine);
	close(log);
}
