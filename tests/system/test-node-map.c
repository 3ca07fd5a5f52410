/* SPDX-License-Identifier: Apache-2.0 */
/* The NICs of a daemon stand for those of a machine: jobs start in any order, each with its GPU, and devices come and go. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmemclient.h>
#include <shmemclient-admin.h>

#include "tests/lib/fixture-daemon.h"
#include "tests/lib/machine-tree.h"
#include "tests/lib/sim-nic.h"
#include "tests/lib/test.h"

#define N_PAIRS 4u
#define N_JOBS (2 * N_PAIRS)
#define N_ROUNDS 5u

/* Results of the jobs: shared with them. */
struct found {
	char nics[N_JOBS][64];
	unsigned int n_ready;
};

/* Pairs of two GPUs and two NICs below a switch; the NICs' addresses run against those of the GPUs. */
static void write_machine(const char *path)
{
	FILE *out = fopen(path, "we");

	ASSERT(out);
	fprintf(out, "<shmemd-topology version=\"1\" numa_nodes=\"2\">\n");
	for (unsigned int pair = 0; pair < N_PAIRS; pair++) {
		fprintf(out, "<host numa=\"%u\"><bridge hops=\"1\">\n", pair / 2);
		for (unsigned int i = 0; i < 2; i++)
			fprintf(out, "<bridge hops=\"1\"><function pci=\"%02x:00.0\" class=\"0302\"/></bridge>\n", 0x10 + 2 * pair + i);
		for (unsigned int i = 0; i < 2; i++)
			fprintf(out, "<bridge hops=\"1\"><function pci=\"%02x:00.0\" class=\"0207\"/></bridge>\n", 0xf0 - 2 * pair - i);
		fprintf(out, "</bridge></host>\n");
	}
	fprintf(out, "</shmemd-topology>\n");
	ASSERT_OK(fclose(out));
}

static int run_job(const struct fixture_daemon *daemon, struct found *found, unsigned int gpu)
{
	struct shmd_client_attr client_attr = {.socket_path = daemon->socket};
	struct shmd_client *client;
	struct shmd_nic *nic;
	struct shmd_nic_info info;
	struct shmd_nic_attr attr = {0};
	char name[32];

	snprintf(name, sizeof(name), "0000:%02x:00.0", 0x10 + gpu);
	attr.gpu = name;
	ASSERT_OK(shmd_client_open(&client_attr, &client));
	ASSERT_OK(shmd_nic_open(client, &attr, &nic));
	ASSERT_OK(shmd_nic_info(nic, &info));
	snprintf(found->nics[gpu], sizeof(found->nics[gpu]), "%s", info.name);
	/* All live at the same time, however the first one hurries. */
	__atomic_add_fetch(&found->n_ready, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&found->n_ready, __ATOMIC_ACQUIRE) < N_JOBS)
		usleep(1000);
	ASSERT_OK(shmd_nic_close(nic));
	shmd_client_close(client);
	return 0;
}

static void shuffle(unsigned int order[N_JOBS], unsigned int seed)
{
	for (unsigned int i = 0; i < N_JOBS; i++)
		order[i] = i;
	for (unsigned int i = N_JOBS; i > 1; i--) {
		unsigned int other, swapped = order[i - 1];

		seed = seed * 1664525 + 1013904223;
		other = (seed >> 8) % i;
		order[i - 1] = order[other];
		order[other] = swapped;
	}
}

/* Eight processes in an order of their own. */
static void run_jobs(const struct fixture_daemon *daemon, struct found *found, unsigned int seed)
{
	unsigned int order[N_JOBS];
	pid_t pids[N_JOBS];

	memset(found, 0, sizeof(*found));
	shuffle(order, seed);
	for (unsigned int i = 0; i < N_JOBS; i++) {
		pids[i] = fork();
		ASSERT_GE(pids[i], 0);
		if (!pids[i])
			_exit(run_job(daemon, found, order[i]));
	}
	for (unsigned int i = 0; i < N_JOBS; i++) {
		int status;

		ASSERT_EQ(waitpid(pids[i], &status, 0), pids[i]);
		ASSERT_EQ(status, 0);
	}
}

/* Soft NIC number i stands for the map's NIC i, and their addresses run backwards: pair p has 2 * (3 - p) and the next. */
static void judge(const struct found *found)
{
	unsigned int is_used = 0;

	for (unsigned int gpu = 0; gpu < N_JOBS; gpu++) {
		unsigned int nic;

		ASSERT_EQ(sscanf(found->nics[gpu], "soft%u", &nic), 1);
		ASSERT_EQ(nic / 2, N_PAIRS - 1 - gpu / 2);
		is_used |= 1u << nic;
	}
	ASSERT_EQ(is_used, (1u << N_JOBS) - 1);
}

TEST_TIMEOUT(eight_jobs_in_any_order_use_eight_nics, 60)
{
	struct found first, *found = mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const char *tmp = getenv("TMPDIR");
	struct fixture_daemon daemon;
	char path[128];
	int fd;

	if (getenv("SHMEMD_TEST_BACKEND"))
		test_skip("of soft NICs there are eight");
	ASSERT(found != MAP_FAILED);
	snprintf(path, sizeof(path), "%.60s/shmemd-machine-XXXXXX", tmp ? tmp : "/tmp");
	fd = mkstemp(path);
	ASSERT_GE(fd, 0);
	close(fd);
	write_machine(path);
	setenv("SHMEMD_TOPOLOGY", path, 1);
	fixture_daemon_start(&daemon, "--backend=soft", "--soft-nics=8", NULL);
	for (unsigned int round = 0; round < N_ROUNDS; round++) {
		run_jobs(&daemon, found, round + 1);
		judge(found);
		if (round == 0)
			first = *found;
		ASSERT_MEMEQ(first.nics, found->nics, sizeof(first.nics));
	}
	fixture_daemon_stop(&daemon);
	/* A new daemon, another first job: the same. */
	fixture_daemon_start(&daemon, "--backend=soft", "--soft-nics=8", NULL);
	run_jobs(&daemon, found, 77);
	ASSERT_MEMEQ(first.nics, found->nics, sizeof(first.nics));
	fixture_daemon_stop(&daemon);
	unlink(path);
	munmap(found, sizeof(*found));
}

/* ---- devices that come and go ------------------------------------------------------------------------------------------ */

#define WAIT_TRIES 3000u /* of 10 ms */
#define PORT_ACTIVE 2u

static void make_name(char path[128])
{
	const char *tmp = getenv("TMPDIR");
	int fd;

	snprintf(path, 128, "%.60s/shmemd-machine-XXXXXX", tmp ? tmp : "/tmp");
	fd = mkstemp(path);
	ASSERT_GE(fd, 0);
	close(fd);
}

/* A GPU and two NICs, the nearer one first in their order; either of both may be unplugged. In one step, as rename() is. */
static void write_small(const char *path, bool has_gpu, bool has_near_nic)
{
	char hidden[160];
	FILE *out;

	snprintf(hidden, sizeof(hidden), "%s.new", path);
	out = fopen(hidden, "we");
	ASSERT(out);
	fprintf(out, "<shmemd-topology version=\"1\" numa_nodes=\"2\"><host numa=\"0\">\n<bridge hops=\"1\">");
	if (has_gpu)
		fprintf(out, "<function pci=\"10:00.0\" class=\"0302\"/>");
	fprintf(out, "<function pci=\"%s\" class=\"0207\"/></bridge></host>\n", has_near_nic ? "20:00.0" : "f0:00.0");
	fprintf(out, "<host numa=\"1\"><bridge hops=\"1\"><function pci=\"30:00.0\" class=\"0207\"/></bridge></host></shmemd-topology>\n");
	ASSERT_OK(fclose(out));
	ASSERT_OK(rename(hidden, path));
}

/* The NIC that a new session is given for a GPU. */
static void ask_gpu(const struct fixture_daemon *daemon, const char *gpu, char name[64])
{
	struct shmd_client_attr client_attr = {.socket_path = daemon->socket};
	struct shmd_nic_attr attr = {.gpu = gpu};
	struct shmd_client *client;
	struct shmd_nic_info info;
	struct shmd_nic *nic;

	ASSERT_OK(shmd_client_open(&client_attr, &client));
	ASSERT_OK(shmd_nic_open(client, &attr, &nic));
	ASSERT_OK(shmd_nic_info(nic, &info));
	snprintf(name, 64, "%s", info.name);
	ASSERT_OK(shmd_nic_close(nic));
	shmd_client_close(client);
}

static void ask(const struct fixture_daemon *daemon, char name[64])
{
	ask_gpu(daemon, "0000:10:00.0", name);
}

/* The daemon's names of its first and its second NIC. */
static const char *name_of(unsigned int index)
{
	static const char *const soft[] = {"soft0", "soft1"}, *const mlx5[] = {"mlx5_0", "mlx5_1"};

	return getenv("SHMEMD_TEST_BACKEND") ? mlx5[index] : soft[index];
}

static void wait_for(const struct fixture_daemon *daemon, const char *nic)
{
	char name[64] = "";

	for (unsigned int i = 0; i < WAIT_TRIES && strcmp(name, nic); i++) {
		ask(daemon, name);
		usleep(10000);
	}
	ASSERT_STREQ(name, nic);
}

static void unplug_and_plug(const struct fixture_daemon *daemon, const char *path)
{
	char name[64];

	ask(daemon, name);
	ASSERT_STREQ(name, name_of(0));
	/* In place of the near NIC one comes that is behind the far one in the order of addresses: so the second stands for it now. */
	write_small(path, true, false);
	wait_for(daemon, name_of(1));
	/* Without the GPU nothing is near: the one with fewer sessions. */
	write_small(path, false, false);
	wait_for(daemon, name_of(0));
	write_small(path, true, false);
	wait_for(daemon, name_of(1));
	write_small(path, true, true);
	wait_for(daemon, name_of(0));
	/* A file that is damaged changes nothing. */
	write_small(path, true, false);
	wait_for(daemon, name_of(1));
	ASSERT_OK(truncate(path, 20));
	fixture_daemon_assert_logged(daemon, "SHMEMD_TOPOLOGY: ");
	ask(daemon, name);
	ASSERT_STREQ(name, name_of(1));
	write_small(path, true, true);
	wait_for(daemon, name_of(0));
}

TEST_TIMEOUT(devices_that_are_plugged_in_or_out_reach_sessions, 120)
{
	struct shmd_nic_attr attr = {.nic = name_of(1)};
	struct shmd_client_attr client_attr;
	struct fixture_daemon daemon;
	struct shmd_client *holder;
	struct shmd_nic_info info;
	struct shmd_nic *held;
	char path[128];

	make_name(path);
	write_small(path, true, true);
	setenv("SHMEMD_TOPOLOGY", path, 1);
	fixture_daemon_start(&daemon, "--backend=soft", "--soft-nics=2", NULL);
	client_attr = (struct shmd_client_attr){.socket_path = daemon.socket};
	ASSERT_OK(shmd_client_open(&client_attr, &holder));
	ASSERT_OK(shmd_nic_open(holder, &attr, &held));
	unplug_and_plug(&daemon, path);
	/* Contexts open before stay open. */
	ASSERT_OK(shmd_nic_info(held, &info));
	ASSERT_STREQ(info.name, name_of(1));
	ASSERT_OK(shmd_nic_close(held));
	shmd_client_close(holder);
	fixture_daemon_stop(&daemon);
	unlink(path);
}

static int expect_nics(void *arg, const struct shmd_session_item *item)
{
	ASSERT_STREQ(item->nics, name_of(1));
	ASSERT_STREQ(item->gpu_nics, name_of(0));
	return 1;
}

/* Rules of Prometheus find by both that one NIC carries what two should. */
TEST(a_session_that_leaves_the_nic_of_its_gpu_unused_is_listed_with_it)
{
	struct shmd_nic_attr attr = {.gpu = "0000:10:00.0", .nic = name_of(1)};
	struct shmd_client_attr client_attr;
	struct fixture_daemon daemon;
	struct shmd_client *client;
	struct shmd_nic *nic;
	char path[128];

	make_name(path);
	write_small(path, true, true);
	setenv("SHMEMD_TOPOLOGY", path, 1);
	fixture_daemon_start(&daemon, "--backend=soft", "--soft-nics=2", NULL);
	client_attr = (struct shmd_client_attr){.socket_path = daemon.socket};
	ASSERT_OK(shmd_client_open(&client_attr, &client));
	ASSERT_OK(shmd_nic_open(client, &attr, &nic));
	ASSERT_EQ(shmd_admin_sessions(client, expect_nics, NULL), 1);
	ASSERT_OK(shmd_nic_close(nic));
	shmd_client_close(client);
	fixture_daemon_stop(&daemon);
	unlink(path);
}

#define SWITCH "pci0000:00/0000:00:01.0/0000:01:00.0"
#define GPU_PATH SWITCH "/0000:02:00.0/0000:10:00.0"
#define NEAR_PATH SWITCH "/0000:02:01.0/0000:20:00.0"
#define FAR_PATH "pci0000:80/0000:80:01.0/0000:81:00.0"

static void plug_gpu(struct machine_tree *tree)
{
	machine_tree_pci(tree, GPU_PATH, 0x030200, 0x10de, 0);
}

static void plug_nic(struct machine_tree *tree, struct machine_nic nic)
{
	machine_tree_pci(tree, nic.path, 0x020700, 0x15b3, 0);
	machine_tree_nic(tree, &nic);
}

/* A machine whose NICs are the daemon's by their names. */
TEST_TIMEOUT(a_machine_in_sysfs_is_looked_at_again, 120)
{
	struct machine_nic near_nic = {.path = NEAR_PATH, .name = "mlx5_0", .gbps = 100};
	struct fixture_daemon daemon;
	struct machine_tree tree;
	char name[64];

	if (!getenv("SHMEMD_TEST_BACKEND"))
		test_skip("soft NICs are of no machine");
	machine_tree_init(&tree, 2);
	plug_gpu(&tree);
	/* The rate of a port that has come up since: as fast as the other. */
	near_nic.gbps = 10;
	plug_nic(&tree, near_nic);
	plug_nic(&tree, (struct machine_nic){.path = FAR_PATH, .name = "mlx5_1", .gbps = 100});
	setenv("SHMEMD_SYSFS", tree.sys, 1);
	fixture_daemon_start(&daemon, NULL, NULL);
	ask(&daemon, name);
	ASSERT_STREQ(name, "mlx5_0");
	machine_tree_unplug(&tree, NEAR_PATH, "mlx5_0");
	wait_for(&daemon, "mlx5_1");
	near_nic.gbps = 100;
	plug_nic(&tree, near_nic);
	wait_for(&daemon, "mlx5_0");
	fixture_daemon_stop(&daemon);
	/* A GPU that comes later. */
	sysfs_tree_remove(&tree.files, "sys/bus/pci/devices/0000:10:00.0");
	machine_tree_unplug(&tree, NEAR_PATH, "mlx5_0");
	fixture_daemon_start(&daemon, NULL, NULL);
	ask(&daemon, name);
	ASSERT_STREQ(name, "mlx5_0");
	plug_gpu(&tree);
	wait_for(&daemon, "mlx5_1");
	fixture_daemon_stop(&daemon);
	machine_tree_deinit(&tree);
}

/* Until the daemon knows that its first port is up, at this rate. */
static void wait_for_rate(const struct fixture_daemon *daemon, uint64_t rate_mbps)
{
	struct shmd_client_attr client_attr = {.socket_path = daemon->socket};
	struct shmd_nic_info infos[2] = {{.state = 0}};
	struct shmd_client *client;

	ASSERT_OK(shmd_client_open(&client_attr, &client));
	for (unsigned int i = 0; i < WAIT_TRIES && (infos[0].state != PORT_ACTIVE || infos[0].rate_mbps != rate_mbps); i++) {
		usleep(10000);
		ASSERT_EQ(shmd_nic_list(client, infos, 2), 2);
	}
	ASSERT_STREQ(infos[0].name, "mlx5_0");
	ASSERT_EQ(infos[0].state, PORT_ACTIVE);
	ASSERT_EQ(infos[0].rate_mbps, rate_mbps);
	shmd_client_close(client);
}

/* Cables and switches do that to a port that goes down and comes up. */
TEST_TIMEOUT(a_port_that_trains_down_is_slow_until_it_trains_up_again, 120)
{
	struct fixture_daemon daemon;
	struct machine_tree tree;
	char name[64];

	if (!getenv("SHMEMD_TEST_BACKEND"))
		test_skip("ports of soft NICs do not train");
	machine_tree_init(&tree, 2);
	plug_gpu(&tree);
	plug_nic(&tree, (struct machine_nic){.path = NEAR_PATH, .name = "mlx5_0", .gbps = 100});
	plug_nic(&tree, (struct machine_nic){.path = FAR_PATH, .name = "mlx5_1", .gbps = 100});
	setenv("SHMEMD_SYSFS", tree.sys, 1);
	fixture_daemon_start(&daemon, NULL, NULL);
	ask(&daemon, name);
	ASSERT_STREQ(name, "mlx5_0");
	sim_nic_happen("lanes-gone 0\nport-down 0");
	wait_for(&daemon, "mlx5_1");
	sim_nic_happen("port-up 0");
	wait_for_rate(&daemon, 25000);
	ask(&daemon, name);
	ASSERT_STREQ(name, "mlx5_1");
	sim_nic_happen("lanes-back 0\nport-down 0\nport-up 0");
	wait_for_rate(&daemon, 100000);
	wait_for(&daemon, "mlx5_0");
	fixture_daemon_stop(&daemon);
	machine_tree_deinit(&tree);
}

/* Before the near NIC in the order of addresses: of a bond it is the first. */
#define OTHER_PATH "pci0000:00/0000:00:02.0/0000:08:00.0"
#define OTHER_MASTER "sys/devices/" OTHER_PATH "/net/eth0/master"
#define NEAR_MASTER "sys/devices/" NEAR_PATH "/net/eth1/master"
#define N_BONDS 2u

/* Devices stay what they are and are called as before. */
TEST_TIMEOUT(ports_that_join_a_bond_or_leave_it_are_looked_at_again, 120)
{
	struct fixture_daemon daemon;
	struct machine_tree tree;

	if (!getenv("SHMEMD_TEST_BACKEND"))
		test_skip("soft NICs are of no machine");
	machine_tree_init(&tree, 2);
	plug_gpu(&tree);
	plug_nic(&tree,
		 (struct machine_nic){
			 .path = OTHER_PATH, .name = "mlx5_0", .netdev = "eth0", .gbps = 100});
	plug_nic(&tree,
		 (struct machine_nic){
			 .path = NEAR_PATH, .name = "mlx5_1", .netdev = "eth1", .gbps = 100});
	sysfs_tree_put(&tree.files, "sys/class/net/bond0/bonding/mode", "802.3ad 4\n");
	sysfs_tree_link(&tree.files, OTHER_MASTER, "../../../virtual/net/bond0");
	setenv("SHMEMD_SYSFS", tree.sys, 1);
	fixture_daemon_start(&daemon, NULL, NULL);
	for (unsigned int i = 0; i < N_BONDS; i++) {
		wait_for(&daemon, "mlx5_1");
		sysfs_tree_link(&tree.files, NEAR_MASTER, "../../../virtual/net/bond0");
		wait_for(&daemon, "mlx5_0");
		sysfs_tree_remove(&tree.files, NEAR_MASTER);
	}
	wait_for(&daemon, "mlx5_1");
	fixture_daemon_stop(&daemon);
	machine_tree_deinit(&tree);
}

#define NEAR_DATA "sys/devices/" NEAR_PATH "/vpd"
#define N_RULES 2u

/* New contents alone trigger no look: in place, and the mode after it. */
static void change_data(const struct machine_tree *tree, const char *text, unsigned int mode)
{
	char path[200];
	FILE *file;

	ASSERT_LT(snprintf(path, sizeof(path), "%s/" NEAR_DATA, tree->files.root),
		  (int)sizeof(path));
	file = fopen(path, "we");
	ASSERT(file);
	ASSERT_GT(fputs(text, file), 0);
	ASSERT_OK(fclose(file));
	ASSERT_OK(chmod(path, mode));
}

/* As after "udevadm trigger", where the rule is installed late. */
TEST_TIMEOUT(product_data_that_may_be_read_later_are_looked_at_again, 120)
{
	struct fixture_daemon daemon;
	struct machine_tree tree;

	if (!getenv("SHMEMD_TEST_BACKEND"))
		test_skip("soft NICs are of no machine");
	machine_tree_init(&tree, 2);
	plug_gpu(&tree);
	plug_nic(&tree, (struct machine_nic){.path = NEAR_PATH, .name = "mlx5_0", .gbps = 100});
	plug_nic(&tree, (struct machine_nic){.path = FAR_PATH, .name = "mlx5_1", .gbps = 100});
	sysfs_tree_put(&tree.files, NEAR_DATA, "SMDL=CX7\n");
	change_data(&tree, "SMDL=CX7\n", 0600);
	setenv("SHMEMD_SYSFS", tree.sys, 1);
	fixture_daemon_start(&daemon, NULL, NULL);
	for (unsigned int i = 0; i < N_RULES; i++) {
		wait_for(&daemon, "mlx5_0");
		change_data(&tree, "SMDL=SW_MNG\n", 0644);
		wait_for(&daemon, "mlx5_1");
		change_data(&tree, "SMDL=CX7\n", 0600);
	}
	wait_for(&daemon, "mlx5_0");
	fixture_daemon_stop(&daemon);
	machine_tree_deinit(&tree);
}

/* On a host bridge of their own; with the one that is there they are one too many. */
static void plug_too_many_gpus(struct machine_tree *tree)
{
	char path[64];

	for (unsigned int i = 0; i < 64; i++) {
		snprintf(path, sizeof(path), "pci0001:00/0001:00:%02x.%u", i / 8, i % 8);
		machine_tree_pci(tree, path, 0x030200, 0x10de, 1);
	}
}

/* It has a map already, so no GPU gets a NIC in turn. */
TEST_TIMEOUT(a_machine_that_grows_too_large_leaves_the_map_as_it_is, 120)
{
	struct fixture_daemon daemon;
	struct machine_tree tree;
	char name[64];

	if (!getenv("SHMEMD_TEST_BACKEND"))
		test_skip("soft NICs are of no machine");
	machine_tree_init(&tree, 2);
	plug_gpu(&tree);
	plug_nic(&tree, (struct machine_nic){.path = NEAR_PATH, .name = "mlx5_1", .gbps = 100});
	plug_nic(&tree, (struct machine_nic){.path = FAR_PATH, .name = "mlx5_0", .gbps = 100});
	setenv("SHMEMD_SYSFS", tree.sys, 1);
	fixture_daemon_start(&daemon, NULL, NULL);
	wait_for(&daemon, "mlx5_1");
	plug_too_many_gpus(&tree);
	fixture_daemon_assert_logged(&daemon, "this machine has more GPUs, NICs or bridges than shmemd can map");
	fixture_daemon_assert_logged(&daemon,
				     "cannot read this machine again; GPUs get NICs as before");
	ask(&daemon, name);
	ASSERT_STREQ(name, "mlx5_1");
	ASSERT(!fixture_daemon_has_logged(&daemon, "in turn"));
	fixture_daemon_stop(&daemon);
	machine_tree_deinit(&tree);
}

/* One device of a function counts, and the other changes nothing. */
TEST_TIMEOUT(a_second_device_of_a_function_is_left_out, 120)
{
	struct fixture_daemon daemon;
	struct machine_tree tree;
	char name[64];

	if (!getenv("SHMEMD_TEST_BACKEND"))
		test_skip("soft NICs are of no machine");
	machine_tree_init(&tree, 2);
	plug_gpu(&tree);
	plug_nic(&tree, (struct machine_nic){.path = NEAR_PATH, .name = "mlx5_1", .gbps = 100});
	plug_nic(&tree, (struct machine_nic){.path = FAR_PATH, .name = "mlx5_0", .gbps = 100});
	setenv("SHMEMD_SYSFS", tree.sys, 1);
	fixture_daemon_start(&daemon, NULL, NULL);
	wait_for(&daemon, "mlx5_1");
	machine_tree_nic(&tree, &(struct machine_nic){.path = FAR_PATH, .name = "mlx5_9", .gbps = 100});
	fixture_daemon_assert_logged(&daemon, "the map of this machine is incomplete: the NIC ");
	ask(&daemon, name);
	ASSERT_STREQ(name, "mlx5_1");
	ASSERT(!fixture_daemon_has_logged(&daemon, "as before"));
	fixture_daemon_stop(&daemon);
	machine_tree_deinit(&tree);
}

#define UUID "GPU-11111111-2222-3333-4444-555555555555"

/* All of it in one moment. */
static void load_gpu_driver(struct machine_tree *tree)
{
	char from[160], to[160];

	sysfs_tree_put(&tree->files, "proc/driver/nvidia/loading/0000:10:00.0/information", "GPU UUID: \t " UUID "\n");
	snprintf(from, sizeof(from), "%s/driver/nvidia/loading", tree->proc);
	snprintf(to, sizeof(to), "%s/driver/nvidia/gpus", tree->proc);
	ASSERT_OK(rename(from, to));
}

/* The driver of GPUs may be loaded when the daemon has long looked at the machine. */
TEST_TIMEOUT(a_uuid_is_known_as_soon_as_the_driver_says_it, 120)
{
	struct fixture_daemon daemon;
	struct machine_tree tree;
	char name[64] = "";

	if (!getenv("SHMEMD_TEST_BACKEND"))
		test_skip("soft NICs are of no machine");
	machine_tree_init(&tree, 2);
	plug_gpu(&tree);
	plug_nic(&tree, (struct machine_nic){.path = FAR_PATH, .name = "mlx5_0", .gbps = 100});
	plug_nic(&tree, (struct machine_nic){.path = NEAR_PATH, .name = "mlx5_1", .gbps = 100});
	setenv("SHMEMD_SYSFS", tree.sys, 1);
	setenv("SHMEMD_PROCFS", tree.proc, 1);
	fixture_daemon_start(&daemon, NULL, NULL);
	ask(&daemon, name);
	ASSERT_STREQ(name, "mlx5_1");
	/* Unknown: the one with fewer sessions. Longer than the machine is looked at anew by itself. */
	usleep(300000);
	ask_gpu(&daemon, UUID, name);
	ASSERT_STREQ(name, "mlx5_0");
	load_gpu_driver(&tree);
	for (unsigned int i = 0; i < WAIT_TRIES && strcmp(name, "mlx5_1"); i++) {
		ask_gpu(&daemon, UUID, name);
		usleep(10000);
	}
	ASSERT_STREQ(name, "mlx5_1");
	fixture_daemon_stop(&daemon);
	machine_tree_deinit(&tree);
}

/* ---- an administrator's map --------------------------------------------------------------------------------------- */

static void write_text(const char *path, const char *text)
{
	FILE *out = fopen(path, "we");

	ASSERT(out);
	fputs(text, out);
	ASSERT_OK(fclose(out));
}

/* The NIC that a session opens for GPU 0, or the error. */
static int open_first(const struct fixture_daemon *daemon, const char *name, char nic_name[64], char reason[160])
{
	struct shmd_client_attr client_attr = {.socket_path = daemon->socket};
	struct shmd_nic_attr attr = {.nic = name, .gpu = name ? NULL : "0000:10:00.0"};
	struct shmd_nic_info info;
	struct shmd_client *client;
	struct shmd_nic *nic;
	int r;

	ASSERT_OK(shmd_client_open(&client_attr, &client));
	r = shmd_nic_open(client, &attr, &nic);
	if (r == 0) {
		ASSERT_OK(shmd_nic_info(nic, &info));
		snprintf(nic_name, 64, "%s", info.name);
		snprintf(reason, 160, "%.159s", info.assignment);
		ASSERT_OK(shmd_nic_close(nic));
	} else {
		snprintf(reason, 160, "%s", shmd_error_text());
	}
	shmd_client_close(client);
	return r;
}

/* The machine of above: the NICs of the pair of GPU 0 are f0:00.0 and ef:00.0, soft7 and soft6. */
TEST_TIMEOUT(a_map_and_exclusions_of_the_settings_hold_and_are_read_again, 60)
{
	char folder[64] = "/tmp/shmemd-policy-XXXXXX", machine[96], conf[96], option[128], socket[128], out[4096], nic[64], reason[160];
	const char *const args[] = {"--backend=soft", "--soft-nics=8", option, socket, NULL};
	const char *const one_less[] = {"--backend=soft", "--soft-nics=7", option, socket, NULL};
	struct fixture_daemon daemon;

	if (getenv("SHMEMD_TEST_BACKEND"))
		test_skip("of soft NICs there are eight");
	ASSERT(mkdtemp(folder));
	snprintf(machine, sizeof(machine), "%s/machine.xml", folder);
	snprintf(conf, sizeof(conf), "%s/shmemd.conf", folder);
	snprintf(option, sizeof(option), "--config=%s", conf);
	snprintf(socket, sizeof(socket), "--socket=%s/socket", folder);
	write_machine(machine);
	setenv("SHMEMD_TOPOLOGY", machine, 1);

	write_text(conf, "gpu-nic-map = 0:ab:00.0:1\n");
	ASSERT_EQ(fixture_daemon_run(args, out, sizeof(out)), 2);
	ASSERT(strstr(out, "gpu-nic-map: this machine has no NIC ab:00.0:1; valid NICs: 0000:e9:00.0:1, 0000:ea:00.0:1"));

	/* This daemon has one NIC less: its exit status asks a service manager not to try again. */
	write_text(conf, "gpu-nic-map = 0:f0:00.0:1\n");
	ASSERT_EQ(fixture_daemon_run(one_less, out, sizeof(out)), 2);
	ASSERT(strstr(out, "f0:00.0:1 cannot be used: the daemon does not drive it; valid NICs: "));

	write_text(conf, "gpu-nic-map = 0:e9:00.0:1\nnics-exclude = f0:00.0=storage\n");
	fixture_daemon_start(&daemon, "--backend=soft", "--soft-nics=8", option, NULL);
	ASSERT_OK(open_first(&daemon, NULL, nic, reason));
	ASSERT_STREQ(nic, "soft0");
	ASSERT_STREQ(reason, "GPU0: SYS: gpu-nic-map gives it, shared by 2 GPUs");
	ASSERT_ERR(open_first(&daemon, "soft7", nic, reason), EPERM);
	ASSERT(strstr(reason, "nics-include and nics-exclude of shmemd.conf exclude soft7"));

	/* A map that cannot be followed changes nothing. */
	write_text(conf, "gpu-nic-map = 0:f0:00.0:1\nnics-exclude = f0:00.0\n");
	ASSERT_OK(kill(daemon.pid, SIGHUP));
	fixture_daemon_assert_logged(&daemon, "settings stay as they were: gpu-nic-map: f0:00.0:1 cannot be used: nics-exclude names it");
	ASSERT_OK(open_first(&daemon, NULL, nic, reason));
	ASSERT_STREQ(nic, "soft0");

	/* A misspelled name does not stop the daemon; it logs the name. */
	write_text(conf, "nics-include = ef:00.0, f0:00.0:1, mlx5_O\n");
	ASSERT_OK(kill(daemon.pid, SIGHUP));
	fixture_daemon_assert_logged(&daemon, "warning: nics-include names mlx5_O, a NIC that this machine does not have");

	write_text(conf, "nics-include = ef:00.0, f0:00.0:1\n");
	ASSERT_OK(kill(daemon.pid, SIGHUP));
	fixture_daemon_assert_logged(&daemon, "changed: nics-include, nics-exclude, gpu-nic-map");
	ASSERT_OK(open_first(&daemon, NULL, nic, reason));
	ASSERT_STREQ(nic, "soft6");
	ASSERT_OK(open_first(&daemon, "soft7", nic, reason));
	ASSERT_ERR(open_first(&daemon, "soft0", nic, reason), EPERM);
	fixture_daemon_stop(&daemon);
	unlink(conf);
	unlink(machine);
	ASSERT_OK(rmdir(folder));
}

static int open_gpu(const struct fixture_daemon *daemon, const char *gpu)
{
	struct shmd_client_attr client_attr = {.socket_path = daemon->socket};
	struct shmd_nic_attr attr = {.gpu = gpu};
	struct shmd_client *client;
	struct shmd_nic *nic;
	int r;

	ASSERT_OK(shmd_client_open(&client_attr, &client));
	r = shmd_nic_open(client, &attr, &nic);
	if (!r)
		ASSERT_OK(shmd_nic_close(nic));
	shmd_client_close(client);
	return r;
}

TEST(a_gpu_that_the_machine_does_not_have_is_refused_with_those_it_has)
{
	char path[] = "/tmp/shmemd-gpus-XXXXXX";
	struct fixture_daemon daemon;
	int fd = mkstemp(path);

	ASSERT_GE(fd, 0);
	close(fd);
	write_machine(path);
	setenv("SHMEMD_TOPOLOGY", path, 1);
	fixture_daemon_start(&daemon, "--backend=soft", "--soft-nics=8", NULL);
	ASSERT_OK(open_gpu(&daemon, "10:00.0"));
	ASSERT_ERR(open_gpu(&daemon, "0000:3b:00.0"), EINVAL);
	ASSERT(strstr(shmd_error_text(), "this machine has no GPU 0000:3b:00.0; its GPUs are 0000:10:00.0, 0000:11:00.0, "));
	/* The address of a NIC. */
	ASSERT_ERR(open_gpu(&daemon, "0000:f0:00.0"), EINVAL);
	/* UUIDs of this machine are not known. */
	ASSERT_OK(open_gpu(&daemon, "GPU-6e5f0f1e-0000-1111-2222-333344445555"));
	fixture_daemon_stop(&daemon);
	unlink(path);
}

TEST(a_file_that_is_no_machine_is_reported)
{
	char out[4096], folder[64] = "/tmp/shmemd-no-machine-XXXXXX", socket[96];
	const char *const args[] = {"--backend=soft", socket, NULL};

	ASSERT(mkdtemp(folder));
	snprintf(socket, sizeof(socket), "--socket=%s/socket", folder);
	setenv("SHMEMD_TOPOLOGY", "/dev/null", 1);
	ASSERT_NE(fixture_daemon_run(args, out, sizeof(out)), 0);
	ASSERT(strstr(out, "cannot start: SHMEMD_TOPOLOGY: /dev/null: it is neither a file nor a pipe"));
	ASSERT_OK(rmdir(folder));
}
