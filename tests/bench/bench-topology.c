/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovery, map and all checks of a machine with 8 GPUs, 32 NICs and 150 functions: from a tree of sysfs, and from its dump. Goal:
 * 50 ms, all reasons in words included; what fails is ten times that.
 */
#include "bench.h"
#include "ref/ref.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/topo/check.h"
#include "daemon/topo/topo.h"

#define N_SWITCHES 8u
#define N_NICS 4u /* of each switch */
#define N_OTHERS 13u /* functions that are neither GPU nor NIC */
#define N_GIDS 256u /* rows of the table of a port, most of them free */
#define PATH_BYTES 512
#define LINK_BYTES (2 * PATH_BYTES)

struct machine {
	char root[64], sys[80];
	char *dump;
	size_t dump_bytes;
};

/* ---- a tree -------------------------------------------------------------------------------------------------------- */

static void make_parents(char *path)
{
	for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = 0;
		mkdir(path, 0755);
		*at = '/';
	}
}

static void put(const struct machine *machine, const char *text, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void put(const struct machine *machine, const char *text, const char *fmt, ...)
{
	char path[PATH_BYTES];
	int n = snprintf(path, sizeof(path), "%s/", machine->sys);
	va_list args;
	FILE *file;

	va_start(args, fmt);
	vsnprintf(path + n, sizeof(path) - (size_t)n, fmt, args);
	va_end(args);
	make_parents(path);
	file = fopen(path, "we");
	if (!file || fputs(text, file) < 0 || fclose(file))
		abort();
}

/* The configuration space that root sees, without capabilities. */
static void put_config(const struct machine *machine, const char *path)
{
	char text[4096];

	memset(text, 1, sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	put(machine, text, "devices/%s/config", path);
}

static void link_to(const struct machine *machine, const char *folder, const char *name, const char *target)
{
	char path[LINK_BYTES];

	snprintf(path, sizeof(path), "%s/%s/%s", machine->sys, folder, name);
	make_parents(path);
	if (symlink(target, path))
		abort();
}

/* `path` begins below devices/ and ends with the address. */
static void put_function(const struct machine *machine, const char *path, const char *class_code)
{
	char target[LINK_BYTES];

	put(machine, class_code, "devices/%s/class", path);
	put(machine, "0x15b3\n", "devices/%s/vendor", path);
	put(machine, "0x1021\n", "devices/%s/device", path);
	put(machine, "0\n", "devices/%s/numa_node", path);
	put(machine, "32.0 GT/s PCIe\n", "devices/%s/current_link_speed", path);
	put(machine, "32.0 GT/s PCIe\n", "devices/%s/max_link_speed", path);
	put(machine, "16\n", "devices/%s/current_link_width", path);
	put(machine, "16\n", "devices/%s/max_link_width", path);
	put(machine, "identity\n", "devices/%s/iommu_group/type", path);
	put_config(machine, path);
	snprintf(target, sizeof(target), "../../../devices/%s", path);
	link_to(machine, "bus/pci/devices", strrchr(path, '/') + 1, target);
}

static void put_nic(const struct machine *machine, const char *path, unsigned int index)
{
	char name[16], target[LINK_BYTES];

	snprintf(name, sizeof(name), "mlx5_%u", index);
	put(machine, "4: ACTIVE\n", "devices/%s/infiniband/%s/ports/1/state", path, name);
	put(machine, "400 Gb/sec (4X NDR)\n", "devices/%s/infiniband/%s/ports/1/rate", path, name);
	put(machine, "Ethernet\n", "devices/%s/infiniband/%s/ports/1/link_layer", path, name);
	put(machine, "28.42.1000\n", "devices/%s/infiniband/%s/fw_ver", path, name);
	put(machine, "a088:c203:00ab:0001\n", "devices/%s/infiniband/%s/node_guid", path, name);
	for (unsigned int i = 0; i < N_GIDS; i++) {
		put(machine, i < 4 ? "0000:0000:0000:0000:0000:ffff:0a00:0001\n" : "0000:0000:0000:0000:0000:0000:0000:0000\n",
		    "devices/%s/infiniband/%s/ports/1/gids/%u", path, name, i);
		put(machine, i < 4 ? "RoCE v2\n" : "", "devices/%s/infiniband/%s/ports/1/gid_attrs/types/%u", path, name, i);
	}
	snprintf(target, sizeof(target), "../../devices/%s/infiniband/%s", path, name);
	link_to(machine, "class/infiniband", name, target);
}

static void put_switch(const struct machine *machine, unsigned int index)
{
	unsigned int bus = index * 0x20 + 1;
	char above[PATH_BYTES], path[PATH_BYTES + 64];

	snprintf(above, sizeof(above), "pci0000:%02x/0000:%02x:01.0", bus - 1, bus - 1);
	put_function(machine, above, "0x060400\n");
	snprintf(above, sizeof(above), "pci0000:%02x/0000:%02x:01.0/0000:%02x:00.0", bus - 1, bus - 1, bus);
	put_function(machine, above, "0x060400\n");
	for (unsigned int i = 0; i < 1 + N_NICS + N_OTHERS; i++) {
		snprintf(path, sizeof(path), "%s/0000:%02x:%02x.0", above, bus + 1, i);
		put_function(machine, path, "0x060400\n");
		snprintf(path, sizeof(path), "%s/0000:%02x:%02x.0/0000:%02x:00.0", above, bus + 1, i, bus + 2 + i);
		put_function(machine, path, i == 0 ? "0x030200\n" : i <= N_NICS ? "0x020700\n" : "0x010802\n");
		if (i >= 1 && i <= N_NICS)
			put_nic(machine, path, index * N_NICS + i - 1);
	}
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	return remove(path);
}

static void make_machine(struct machine *machine)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(machine->root, sizeof(machine->root), "%.40s/shmemd-bench-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(machine->root))
		abort();
	snprintf(machine->sys, sizeof(machine->sys), "%s/sys", machine->root);
	put(machine, "\n", "devices/system/node/node0/numastat");
	for (unsigned int i = 0; i < N_SWITCHES; i++)
		put_switch(machine, i);
}

/* ---- measured ------------------------------------------------------------------------------------------------------ */

/* Every GPU with every NIC, as --why of all of them would. */
static bool map_all(const struct topo *topo)
{
	struct topo_map *map = calloc(1, sizeof(*map));
	char why[TOPO_WHY_BYTES];
	bool is_whole = map && topo->n_gpus == N_SWITCHES && topo->n_nics == N_SWITCHES * N_NICS;

	if (map)
		topo_assign(topo, NULL, map);
	for (unsigned int gpu = 0; is_whole && gpu < topo->n_gpus; gpu++) {
		is_whole = map->gpus[gpu].n_nics == N_NICS;
		for (unsigned int nic = 0; nic < topo->n_nics; nic++)
			is_whole = is_whole && topo_reason(topo, map, gpu, nic, why)[0];
	}
	free(map);
	return is_whole;
}

static double discover(void *arg)
{
	struct machine *machine = arg;
	struct topo_host_attr attr = {.sys = machine->sys};
	uint64_t start = ref_now_nsec();
	struct topo *topo = NULL;
	bool is_whole = topo_read_host(&attr, &topo) >= 0 && map_all(topo);

	topo_free(topo);
	return is_whole ? (double)(ref_now_nsec() - start) / 1e6 : -1;
}

static void count(void *arg, const struct check_finding *finding)
{
	unsigned int *n = arg;

	*n += finding->reason[0] != 0;
}

/* As shmemctl doctor, without printing. */
static double check(void *arg)
{
	struct machine *machine = arg;
	struct topo_host_attr attr = {.sys = machine->sys};
	struct check_daemon daemon = {.error = -ENOENT};
	uint64_t start = ref_now_nsec();
	int root = open(machine->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct topo_map *map = calloc(1, sizeof(*map));
	unsigned int n_checks = 0, n_told = 0;
	struct topo *topo = NULL;

	if (root < 0 || !map || topo_read_host(&attr, &topo) < 0)
		abort();
	topo_assign(topo, NULL, map);
	for (const struct check *one = check_table; one->name; one++, n_checks++)
		check_run(one, &(struct check_host){.root = root, .topo = topo, .map = map, .daemon = &daemon}, count, &n_told);
	topo_free(topo);
	free(map);
	close(root);
	return n_checks && n_told >= n_checks ? (double)(ref_now_nsec() - start) / 1e6 : -1;
}

static double replay(void *arg)
{
	struct machine *machine = arg;
	char *text = malloc(machine->dump_bytes + 1), why[TOPO_WHY_BYTES];
	uint64_t start = ref_now_nsec();
	struct topo *topo = NULL;
	bool is_whole;

	if (!text)
		return -1;
	memcpy(text, machine->dump, machine->dump_bytes);
	is_whole = topo_parse(text, machine->dump_bytes, &topo, why) >= 0 && map_all(topo);
	topo_free(topo);
	free(text);
	return is_whole ? (double)(ref_now_nsec() - start) / 1e6 : -1;
}

static bool make_dump(struct machine *machine)
{
	struct topo_host_attr attr = {.sys = machine->sys};
	FILE *out = open_memstream(&machine->dump, &machine->dump_bytes);
	struct topo *topo = NULL;

	if (!out || topo_read_host(&attr, &topo) < 0)
		return false;
	topo_dump(topo, out);
	topo_free(topo);
	return fclose(out) == 0;
}

int main(void)
{
	struct machine machine = {.root = ""};
	const struct bench_row rows[] = {
		{.name = "discover and map", .unit = "ms", .ours = discover, .arg = &machine, .goal = 50, .fail_limit = 500},
		{.name = "discover, map and check", .unit = "ms", .ours = check, .arg = &machine, .goal = 50, .fail_limit = 500},
		{.name = "read a capture and map", .unit = "ms", .ours = replay, .arg = &machine, .goal = 50, .fail_limit = 500},
	};
	bool good;

	make_machine(&machine);
	good = make_dump(&machine);
	bench_header("topology: 8 GPUs, 32 NICs");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		good = bench_run(&rows[i]) && good;
	nftw(machine.root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(machine.dump);
	return good ? 0 : 1;
}
