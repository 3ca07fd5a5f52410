/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The map of the running machine from what daemon/host reads: NICs and GPUs, below any root folder.
 *
 * Only GPUs, NICs and the bridges above them become nodes: a machine has hundreds of other functions. The path of a device's
 * link says where the device is attached. A missing file leaves its field unknown. Keeps nothing. Not for the control thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "daemon/host/sysfs.h"
#include "daemon/topo/topo-private.h"

#define PCI_FOLDER "bus/pci/devices"

struct reader {
	struct topo_builder *builder;
	int sys; /* the folder */
	int proc;
	bool may_leave_out; /* the device added now, if there is no room */
	unsigned int n_left_out;
};

/* ---- the tree of PCI ----------------------------------------------------------------------------------------------- */

static int find_node(const struct topo *topo, enum topo_kind kind, uint64_t pci)
{
	for (unsigned int i = 0; i < topo->n_nodes; i++)
		if (topo->nodes[i].pci == pci && (topo->nodes[i].kind == TOPO_HOST) == (kind == TOPO_HOST))
			return (int)i;
	return -1;
}

/* "pci0000:80": a host bridge. */
static bool parse_host(const char *part, uint64_t *ret_pci)
{
	char text[SYSFS_TEXT_BYTES];

	if (strncmp(part, "pci", 3) || strlen(part) > 16)
		return false;
	snprintf(text, sizeof(text), "%.16s:00.0", part + 3);
	return host_pci_parse(text, ret_pci);
}

static int open_pci_folder(const struct reader *reader, uint64_t pci)
{
	char path[64], text[HOST_PCI_BYTES];

	snprintf(path, sizeof(path), PCI_FOLDER "/%s", host_pci_text(pci, text));
	return openat(reader->sys, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* -1 is the kernel's word for unknown. */
static int read_numa(int folder)
{
	char text[SYSFS_TEXT_BYTES];

	if (!sysfs_text(folder, "numa_node", text) || text[0] == '-')
		return TOPO_NO_NUMA;
	return (int)host_number(text, 10, INT16_MAX);
}

/* Reads a file that decides whether a function is a GPU or a NIC. False: it cannot be read. */
static bool must_read(struct reader *reader, int at, const char *path, const char *shown, char text[SYSFS_TEXT_BYTES])
{
	struct topo *topo = reader->builder->topo;

	errno = 0;
	if (sysfs_text(at, path, text))
		return true;
	if (!topo->unread[0]) {
		topo->unread_error = errno ? -errno : -EBADMSG;
		snprintf(topo->unread, sizeof(topo->unread), "sys/%.90s", shown);
	}
	return false;
}

static uint16_t read_id(struct reader *reader, int folder, uint64_t pci, const char *name)
{
	char shown[SYSFS_PATH_BYTES], text[SYSFS_TEXT_BYTES], address[HOST_PCI_BYTES];

	snprintf(shown, sizeof(shown), PCI_FOLDER "/%s/%s", host_pci_text(pci, address), name);
	return must_read(reader, folder, name, shown, text) ? (uint16_t)host_number(text, 16, UINT16_MAX) : 0;
}

/* The maximum counts: a link that trained to fewer lanes does not show what its function is for. */
static uint32_t read_link_mbps(int folder)
{
	char text[SYSFS_TEXT_BYTES];
	uint32_t mtps = sysfs_text(folder, "max_link_speed", text) ? host_mtps(text) : 0;

	return host_link_mbps(mtps, (uint32_t)sysfs_number(folder, "max_link_width", 10, UINT8_MAX));
}

static int add_pci(struct reader *reader, enum topo_kind kind, unsigned int parent, uint64_t pci)
{
	_cleanup_close_ int folder = open_pci_folder(reader, pci);
	struct topo_node like = {.kind = kind, .parent = (int)parent, .pci = pci, .n_hops = kind == TOPO_BRIDGE};

	like.numa = kind == TOPO_HOST ? TOPO_NO_NUMA : read_numa(folder);
	if (kind != TOPO_HOST) {
		like.class_code = (uint16_t)(sysfs_number(folder, "class", 16, 0xffffff) >> 8);
		like.vendor = (uint16_t)sysfs_number(folder, "vendor", 16, UINT16_MAX);
		like.device = (uint16_t)sysfs_number(folder, "device", 16, UINT16_MAX);
	}
	if (kind == TOPO_FUNCTION) {
		like.vendor = read_id(reader, folder, pci, "vendor");
		like.device = read_id(reader, folder, pci, "device");
		like.link_mbps = read_link_mbps(folder);
	}
	return kind == TOPO_FUNCTION ? topo_add_function(reader->builder, &like) : topo_add_node(reader->builder, &like);
}

/* One part of the path of a device; what is no PCI is passed over. */
static int enter_part(struct reader *reader, unsigned int parent, const char *part, bool is_last)
{
	enum topo_kind kind = is_last ? TOPO_FUNCTION : TOPO_BRIDGE;
	uint64_t pci;
	int node;

	if (parse_host(part, &pci))
		kind = TOPO_HOST;
	else if (!host_pci_parse(part, &pci))
		return (int)parent;
	node = find_node(reader->builder->topo, kind, pci);
	return node >= 0 ? node : add_pci(reader, kind, parent, pci);
}

/* The node of a function, made with all that is above it. */
static int add_path(struct reader *reader, uint64_t pci)
{
	char path[64], target[SYSFS_PATH_BYTES], text[HOST_PCI_BYTES], *rest = NULL, *part, *next;
	int node = 0;

	snprintf(path, sizeof(path), PCI_FOLDER "/%s", host_pci_text(pci, text));
	if (!sysfs_link(reader->sys, path, target))
		return -ENOENT;
	for (part = strtok_r(target, "/", &rest); part && node >= 0; part = next) {
		next = strtok_r(NULL, "/", &rest);
		node = enter_part(reader, (unsigned int)node, part, !next);
	}
	return node;
}

/* A number of a function whose class a GPU could have: whether it is one depends on it. */
static uint16_t read_deciding_id(struct reader *reader, DIR *functions, const char *name, const char *file)
{
	char path[SYSFS_PATH_BYTES], shown[SYSFS_PATH_BYTES], text[SYSFS_TEXT_BYTES];

	snprintf(path, sizeof(path), "%.64s/%s", name, file);
	snprintf(shown, sizeof(shown), PCI_FOLDER "/%.256s", path);
	return must_read(reader, dirfd(functions), path, shown, text) ? (uint16_t)host_number(text, 16, UINT16_MAX) : 0;
}

/* One file of each function, and two more where the class is one of GPUs: a machine has hundreds of functions. */
static int add_if_wanted(struct reader *reader, DIR *functions, const char *name, uint64_t pci)
{
	char path[SYSFS_PATH_BYTES], shown[SYSFS_PATH_BYTES], text[SYSFS_TEXT_BYTES];
	uint16_t class_code, vendor = 0, device = 0;
	int r;

	snprintf(path, sizeof(path), "%.64s/class", name);
	snprintf(shown, sizeof(shown), PCI_FOLDER "/%.256s", path);
	if (!must_read(reader, dirfd(functions), path, shown, text))
		return 0;
	class_code = (uint16_t)(host_number(text, 16, 0xffffff) >> 8);
	if (topo_may_be_gpu(class_code)) {
		vendor = read_deciding_id(reader, functions, name, "vendor");
		device = read_deciding_id(reader, functions, name, "device");
	}
	if (!topo_is_gpu(class_code, vendor, device) && !topo_is_infiniband(class_code))
		return 0;
	r = add_path(reader, pci);
	return r == -E2BIG || r == -ENOMEM ? r : 0;
}

static int add_functions(struct reader *reader)
{
	_cleanup_(sysfs_close_dir) DIR *dir = sysfs_open_dir(reader->sys, PCI_FOLDER);
	struct dirent *entry;
	int r = 0;

	while (!r && dir && (entry = readdir(dir))) {
		uint64_t pci;

		if (host_pci_parse(entry->d_name, &pci))
			r = add_if_wanted(reader, dir, entry->d_name, pci);
	}
	return r;
}

static void count_numa(struct reader *reader)
{
	_cleanup_(sysfs_close_dir) DIR *dir = sysfs_open_dir(reader->sys, "devices/system/node");
	struct dirent *entry;
	unsigned int node;
	char last;

	while (dir && (entry = readdir(dir)))
		reader->builder->topo->n_numa += sscanf(entry->d_name, "node%5u%c", &node, &last) == 1;
}

/* ---- NICs ---------------------------------------------------------------------------------------------------------- */

/* Leaves the port out if there is no room or another device has it already. */
static bool leave_out(struct reader *reader, unsigned int node, const struct topo_nic *like, unsigned int number)
{
	const struct topo *topo = reader->builder->topo;
	int other = topo_nic_at(topo, node, number);
	char pci[HOST_PCI_BYTES];

	if (other >= 0)
		topo_note(reader->builder, "the NIC %s is there twice: %s is left out, beside %s",
			  host_pci_text(topo->nodes[node].pci, pci), like->seen.name, topo->nics[other].seen.name);
	if (other >= 0 || !reader->may_leave_out || topo->n_nics < TOPO_MAX_NICS)
		return other >= 0;
	reader->n_left_out++;
	return true;
}

static int add_port(struct reader *reader, unsigned int node, const struct topo_nic *like, int device, unsigned int number)
{
	struct topo_nic *nic;
	int r;

	if (leave_out(reader, node, like, number))
		return 0;
	r = topo_add_nic(reader->builder, node);
	if (r < 0)
		return r;
	nic = &reader->builder->topo->nics[r];
	*nic = *like;
	nic->node = node;
	nic->seen.port = number;
	host_read_port(reader->sys, device, &nic->seen);
	/* Switches are managed over InfiniBand. Users who may not read product data have to guess (exclude.c). */
	if (nic->seen.fabric == HOST_FABRIC_INFINIBAND)
		nic->seen.manages_switches = host_manages_switches(device);
	if (nic->seen.manages_switches == HOST_YES)
		nic->role = TOPO_ROLE_BRIDGE;
	return 0;
}

static int add_rdma_device(struct reader *reader, int at, const char *name)
{
	_cleanup_close_ int nic = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(sysfs_close_dir) DIR *ports = nic >= 0 ? sysfs_open_dir(nic, "ports") : NULL;
	struct topo_nic like = {.role = TOPO_ROLE_NONE};
	struct dirent *entry;
	uint64_t pci;
	int node, r = 0;

	if (!host_find_function(at, name, &pci))
		return 0;
	node = add_path(reader, pci);
	if (node < 0)
		return node == -ENOENT ? 0 : node;
	host_copy_text(like.seen.name, sizeof(like.seen.name), name);
	host_read_device(nic, &like.seen);
	like.guid = like.seen.node_guid;
	while (!r && ports && (entry = readdir(ports))) {
		unsigned int number = (unsigned int)host_number(entry->d_name, 10, UINT8_MAX);

		r = number ? add_port(reader, (unsigned int)node, &like, nic, number) : 0;
	}
	return r;
}

/* The order in which devices are added, since there may be no room for all. */
enum turn {
	TURN_OWN, /* it is no VF */
	TURN_VF, /* of a PF that is not there */
	TURN_VF_BESIDE_PF, /* which is never used while its PF is */
	TURN_END,
};

/* Own ones are there when VFs are asked for. */
static enum turn turn_of(const struct reader *reader, int at, const char *name)
{
	const struct topo *topo = reader->builder->topo;
	char path[SYSFS_PATH_BYTES], target[SYSFS_PATH_BYTES];
	uint64_t pf;

	snprintf(path, sizeof(path), "%.256s/device/physfn", name);
	sysfs_link_name(at, path, target);
	if (!host_pci_parse(target, &pf))
		return TURN_OWN;
	for (unsigned int i = 0; i < topo->n_nics; i++)
		if (topo->nodes[topo->nics[i].node].pci == pf)
			return TURN_VF_BESIDE_PF;
	return TURN_VF;
}

static int is_name(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static int add_turn(struct reader *reader, int at, struct dirent *const *names, int n_names, enum turn turn)
{
	int r = 0;

	reader->may_leave_out = turn == TURN_VF_BESIDE_PF;
	for (int i = 0; !r && i < n_names; i++)
		if (turn_of(reader, at, names[i]->d_name) == turn)
			r = add_rdma_device(reader, at, names[i]->d_name);
	return r;
}

/* In the order of names, so that it does not depend on the folder's who is left out. */
static int add_nics(struct reader *reader)
{
	_cleanup_close_ int at = openat(reader->sys, "class/infiniband", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent **names = NULL;
	int n = at >= 0 ? scandirat(at, ".", &names, is_name, versionsort) : 0;
	int r = n < 0 && errno == ENOMEM ? -ENOMEM : 0;

	for (enum turn turn = TURN_OWN; !r && turn < TURN_END; turn++)
		r = add_turn(reader, at, names, n, turn);
	if (!r && reader->n_left_out)
		topo_note(reader->builder, "%u VF%s left out: there are more than %u ports of NICs", reader->n_left_out, reader->n_left_out == 1 ? " is" : "s are", TOPO_MAX_NICS);
	while (n > 0)
		free(names[--n]);
	free(names);
	return r;
}

/* ---- GPUs ---------------------------------------------------------------------------------------------------------- */

/* "GPU UUID:   GPU-..." of a file with such lines. */
static void take_line(const char *text, const char *key, char to[TOPO_NAME_BYTES])
{
	const char *at = strstr(text, key);
	char value[SYSFS_TEXT_BYTES];

	if (at && sscanf(at + strlen(key), ": %127[^\n]", value) == 1)
		host_copy_text(to, TOPO_NAME_BYTES, value);
}

/* Reads names and UUIDs of GPUs from files of NVIDIA's driver, for processes without NVML. */
static void read_driver_files(struct reader *reader)
{
	struct topo *topo = reader->builder->topo;

	for (unsigned int i = 0; i < topo->n_gpus; i++) {
		_cleanup_close_ int fd = -1;
		char path[64 + HOST_PCI_BYTES], pci[HOST_PCI_BYTES], text[1024];
		ssize_t n;

		snprintf(path, sizeof(path), "driver/nvidia/gpus/%s/information",
			 host_pci_text(topo->nodes[topo->gpus[i].node].pci, pci));
		fd = openat(reader->proc, path, O_RDONLY | O_CLOEXEC);
		n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
		text[n > 0 ? n : 0] = 0;
		take_line(text, "GPU UUID", topo->gpus[i].uuid);
		take_line(text, "Model", topo->gpus[i].name);
	}
}

/* ---- libraries ----------------------------------------------------------------------------------------------------- */

/* Links to the same GPU count together. */
static void add_link(struct topo_builder *builder, uint64_t from, uint64_t to)
{
	for (unsigned int i = 0; i < builder->n_links; i++) {
		if (builder->links[i].from == from && builder->links[i].to == to) {
			builder->links[i].count++;
			return;
		}
	}
	topo_add_links(builder, from, to, 1);
}

static struct topo_gpu *gpu_of(struct topo *topo, uint64_t pci)
{
	for (unsigned int i = 0; pci != HOST_NO_PCI && i < topo->n_gpus; i++)
		if (topo->nodes[topo->gpus[i].node].pci == pci)
			return &topo->gpus[i];
	return NULL;
}

/* Unless NVML reports that a link leads to a GPU, one that ends at no GPU of the map leads to a switch, which a virtual machine cannot see. */
static void take_gpu(struct topo_builder *builder, const struct host_gpu *from)
{
	struct topo_gpu *gpu = gpu_of(builder->topo, from->pci);

	if (!gpu)
		return;
	if (from->uuid[0])
		memcpy(gpu->uuid, from->uuid, sizeof(gpu->uuid));
	if (from->name[0])
		memcpy(gpu->name, from->name, sizeof(gpu->name));
	gpu->has_mig = from->has_mig;
	for (unsigned int i = 0; i < from->n_links; i++) {
		if (gpu_of(builder->topo, from->links[i].to))
			add_link(builder, from->pci, from->links[i].to);
		else if (!from->links[i].is_to_gpu)
			add_link(builder, from->pci, HOST_NO_PCI);
	}
}

static int ask_nvml(struct topo_builder *builder, const char *library)
{
	_cleanup_free_ struct host_gpu *gpus = calloc(TOPO_MAX_GPUS, sizeof(*gpus));
	unsigned int n = gpus ? host_ask_nvml(library, gpus, TOPO_MAX_GPUS) : 0;

	for (unsigned int i = 0; i < n; i++)
		take_gpu(builder, &gpus[i]);
	return gpus ? 0 : -ENOMEM;
}

static int ask_verbs(struct topo *topo, const struct topo_host_attr *attr)
{
	_cleanup_free_ struct host_nic **nics = calloc(TOPO_MAX_NICS, sizeof(*nics));

	if (!nics)
		return -ENOMEM;
	for (unsigned int i = 0; i < topo->n_nics; i++)
		nics[i] = &topo->nics[i].seen;
	host_ask_verbs(attr->verbs, attr->mlx5, nics, topo->n_nics);
	host_ask_speeds(nics, topo->n_nics);
	return 0;
}

static int read_machine(struct reader *reader, const struct topo_host_attr *attr)
{
	int r;

	count_numa(reader);
	r = add_functions(reader);
	if (!r)
		r = add_nics(reader);
	if (r)
		return r;
	read_driver_files(reader);
	if (attr->nvml)
		r = ask_nvml(reader->builder, attr->nvml);
	/* A machine without NICs needs no library for them. */
	if (!r && attr->verbs && reader->builder->topo->n_nics)
		r = ask_verbs(reader->builder->topo, attr);
	return r;
}

static int open_folder(const char *path)
{
	return path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
}

int topo_read_host(const struct topo_host_attr *attr, struct topo **ret_topo)
{
	_cleanup_close_ int sys = open_folder(attr->sys), proc = open_folder(attr->proc);
	_cleanup_free_ struct topo_builder *builder = malloc(sizeof(*builder));
	struct reader reader = {.builder = builder, .sys = sys, .proc = proc};
	char why[TOPO_WHY_BYTES];
	int r = builder ? topo_builder_init(builder, attr->why ? attr->why : why) : -ENOMEM;

	if (r < 0)
		return r;
	builder->is_live = true;
	builder->why[0] = 0;
	r = read_machine(&reader, attr);
	if (!r)
		r = topo_finish(builder, ret_topo);
	topo_builder_deinit(builder);
	return r;
}
