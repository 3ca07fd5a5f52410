/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the kernel's tree of RDMA devices (Documentation/ABI/stable/sysfs-class-infiniband) below any root folder.
 *
 * Its files are root's and are believed in what they say; how much they say is bounded here: files, names, ports and GIDs.
 * A malformed, too long or missing file leaves its field unknown, and never fails the rest. Keeps nothing. To
 * read a file may make a driver ask its firmware: not for the control thread.
 */
#include "daemon/nic/proxy/proxy.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/cleanup.h"

#define TEXT_BYTES 128
#define PATH_BYTES 512
#define MAX_DEVICES 1024u
#define MAX_PORTS 254u
/* Tables are filled from the front, of up to 1024 places: behind so many that are free nothing is looked for. */
#define MAX_FREE_GIDS 16u
#define MAX_GID_INDEX 256u

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static DIR *open_dir(int at, const char *path)
{
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

	if (!dir)
		safe_close(fd);
	return dir;
}

/* The first line; empty when there is no such file, or it is longer. */
static bool read_text(int at, const char *path, char text[TEXT_BYTES])
{
	_cleanup_close_ int fd = openat(at, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd >= 0 ? read(fd, text, TEXT_BYTES) : -1;

	if (n < 0 || n >= TEXT_BYTES)
		n = 0;
	text[n] = 0;
	text[strcspn(text, "\n")] = 0;
	return text[0];
}

/* The number that a text begins with, as "4: ACTIVE"; 0 for anything else. */
static uint32_t leading_number(const char *text, int base)
{
	char *end;
	unsigned long value = isdigit((unsigned char)*text) ? strtoul(text, &end, base) : 0;

	return value <= UINT32_MAX ? (uint32_t)value : 0;
}

static uint32_t read_number(int at, const char *path, int base)
{
	char text[TEXT_BYTES];

	return read_text(at, path, text) ? leading_number(text, base) : 0;
}

/* "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)". */
static uint64_t read_rate_mbps(int port)
{
	unsigned int gbps, tenths;
	char text[TEXT_BYTES], last;

	if (!read_text(port, "rate", text))
		return 0;
	if (sscanf(text, "%7u.%1u Gb/se%c", &gbps, &tenths, &last) == 3)
		return (uint64_t)gbps * 1000 + tenths * 100;
	return sscanf(text, "%7u Gb/se%c", &gbps, &last) == 2 ? (uint64_t)gbps * 1000 : 0;
}

/* "0002:c903:00ab:cdef" or, for a GID, eight such groups: n of them, most significant first. */
static bool parse_groups(const char *text, unsigned int n, uint8_t *bytes)
{
	unsigned int group;
	int used;

	for (unsigned int i = 0; i < n; i++) {
		if (sscanf(text, "%4x%n", &group, &used) != 1 || used != 4 || text[4] != (i + 1 < n ? ':' : 0))
			return false;
		bytes[2 * i] = (uint8_t)(group >> 8);
		bytes[2 * i + 1] = (uint8_t)group;
		text += 5;
	}
	return true;
}

static uint64_t read_guid(int device)
{
	char text[TEXT_BYTES];
	uint8_t bytes[8];
	uint64_t guid = 0;

	if (!read_text(device, "node_guid", text) || !parse_groups(text, 4, bytes))
		return 0;
	for (int i = 0; i < 8; i++)
		guid = guid << 8 | bytes[i];
	return guid;
}

/* ---- names --------------------------------------------------------------------------------------------------------- */

/* Names reach terminals and logs. */
static bool is_name(const char *text, size_t size)
{
	size_t n = strlen(text);

	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("_-.", text[i]))
			return false;
	return n > 0 && n < size && text[0] != '.';
}

static void take_name(char *to, size_t size, const char *text)
{
	if (is_name(text, size))
		memcpy(to, text, strlen(text) + 1);
}

static bool read_link(int at, const char *path, char target[PATH_BYTES])
{
	ssize_t n = readlinkat(at, path, target, PATH_BYTES);

	if (n <= 0 || n >= PATH_BYTES)
		return false;
	target[n] = 0;
	return true;
}

/* The last part of a path that is a PCI address: what lies behind it are functions without one of their own. */
static void find_pci(const char *path, char pci[16])
{
	unsigned int domain, bus, slot, function;
	int used;

	for (const char *part = path; part; part = strchr(part, '/')) {
		part += *part == '/';
		if (sscanf(part, "%4x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &used) == 4 && used == 12 &&
		    (part[12] == '/' || part[12] == 0))
			snprintf(pci, 16, "%.12s", part);
	}
}

/*
 * Where a device hangs on a bus, the driver that is bound to it. The software ones hang on no bus and say what they are in
 * their description.
 */
static void read_driver(int device, struct nic_seen *seen)
{
	static const struct {
		const char *begins, *driver;
	} soft[] = {{"rxe", "rdma_rxe"}, {"Software iWARP", "siw"}};
	char target[PATH_BYTES], text[TEXT_BYTES];
	const char *last;

	if (read_link(device, "device/driver", target)) {
		last = strrchr(target, '/');
		take_name(seen->driver, sizeof(seen->driver), last ? last + 1 : target);
		return;
	}
	read_text(device, "node_desc", text);
	for (size_t i = 0; i < sizeof(soft) / sizeof(soft[0]); i++)
		if (strncmp(text, soft[i].begins, strlen(soft[i].begins)) == 0)
			snprintf(seen->driver, sizeof(seen->driver), "%s", soft[i].driver);
}

/* The oldest interface beside the device on its bus whose dev_port is this port: representors come later. */
static void find_interface(int device, struct nic_seen *seen)
{
	_cleanup_(close_dir) DIR *dir = open_dir(device, "device/net");
	char path[sizeof(((struct dirent *)0)->d_name) + 16];
	uint32_t index, oldest = UINT32_MAX;
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/dev_port", entry->d_name);
		if (entry->d_name[0] == '.' || read_number(dirfd(dir), path, 10) + 1 != seen->port)
			continue;
		snprintf(path, sizeof(path), "%s/ifindex", entry->d_name);
		index = read_number(dirfd(dir), path, 10);
		if (seen->netdev[0] && index >= oldest)
			continue;
		take_name(seen->netdev, sizeof(seen->netdev), entry->d_name);
		oldest = index;
	}
}

/* The interface below rxe is its parent. */
static void read_netdev(int device, int net, struct nic_seen *seen)
{
	char text[TEXT_BYTES], path[NIC_NETDEV_BYTES + 8];

	if (!seen->netdev[0] && read_text(device, "parent", text))
		take_name(seen->netdev, sizeof(seen->netdev), text);
	if (!seen->netdev[0])
		find_interface(device, seen);
	if (!seen->netdev[0] || net < 0)
		return;
	snprintf(path, sizeof(path), "%s/mtu", seen->netdev);
	seen->netdev_mtu_bytes = read_number(net, path, 10);
}

/* ---- ports --------------------------------------------------------------------------------------------------------- */

/* "IB/RoCE v1" is both, and the link says which. */
static enum nic_gid_type gid_type(const char *text, uint32_t link)
{
	if (strcmp(text, "RoCE v2") == 0)
		return NIC_GID_ROCE_V2;
	if (strcmp(text, "IB/RoCE v1") == 0)
		return link == NIC_LINK_ETHERNET ? NIC_GID_ROCE_V1 : NIC_GID_IB;
	return NIC_GID_UNKNOWN;
}

/* False: nothing is in that place of the table. */
static bool read_gid(int port, unsigned int index, struct nic_seen *seen)
{
	static const uint8_t none[16];
	struct nic_seen_gid *gid = &seen->gids[seen->n_gids];
	char path[48], text[TEXT_BYTES];

	snprintf(path, sizeof(path), "gids/%u", index);
	if (!read_text(port, path, text) || !parse_groups(text, 8, gid->gid) || memcmp(gid->gid, none, 16) == 0)
		return false;
	gid->index = index;
	snprintf(path, sizeof(path), "gid_attrs/types/%u", index);
	read_text(port, path, text);
	gid->type = gid_type(text, seen->link);
	snprintf(path, sizeof(path), "gid_attrs/ndevs/%u", index);
	if (!seen->netdev[0] && read_text(port, path, text))
		take_name(seen->netdev, sizeof(seen->netdev), text);
	seen->n_gids++;
	return true;
}

static void read_gids(int port, struct nic_seen *seen)
{
	unsigned int n_free = 0;

	for (unsigned int i = 0; i < MAX_GID_INDEX && n_free < MAX_FREE_GIDS && seen->n_gids < NIC_SEEN_GIDS; i++)
		n_free = read_gid(port, i, seen) ? 0 : n_free + 1;
}

static void read_port(int port, struct nic_seen *seen)
{
	char text[TEXT_BYTES];

	read_text(port, "link_layer", text);
	if (strcmp(text, "Ethernet") == 0)
		seen->link = NIC_LINK_ETHERNET;
	else if (strcmp(text, "InfiniBand") == 0)
		seen->link = NIC_LINK_INFINIBAND;
	/* IBTA PortInfo: PortState 4 is Active. */
	seen->state = read_number(port, "state", 10) == 4 ? NIC_PORT_ACTIVE : NIC_PORT_DOWN;
	seen->phys_state = read_number(port, "phys_state", 10);
	seen->lid = read_number(port, "lid", 16) & 0xffff;
	seen->rate_mbps = read_rate_mbps(port);
	read_gids(port, seen);
}

/* ---- devices ------------------------------------------------------------------------------------------------------- */

/* One look. */
struct scan {
	int class, net; /* the folders of both classes; net may be -1 */
	const struct nic_driven *driven;
	unsigned int n_driven;
	struct nic_seen_list *list;
};

struct ports {
	unsigned int n;
	uint8_t numbers[MAX_PORTS];
};

static int compare_bytes(const void *a, const void *b)
{
	return *(const uint8_t *)a - *(const uint8_t *)b;
}

static void list_ports(int device, struct ports *ports)
{
	_cleanup_(close_dir) DIR *dir = open_dir(device, "ports");
	struct dirent *entry;

	while (dir && (entry = readdir(dir)) && ports->n < MAX_PORTS) {
		uint32_t number = leading_number(entry->d_name, 10);

		if (number >= 1 && number <= MAX_PORTS)
			ports->numbers[ports->n++] = (uint8_t)number;
	}
	qsort(ports->numbers, ports->n, 1, compare_bytes);
}

static bool is_driven(const struct scan *scan, const struct nic_seen *seen)
{
	for (unsigned int i = 0; i < scan->n_driven; i++)
		if (nic_is_driven(&scan->driven[i], seen->name, seen->guid, seen->port))
			return true;
	return false;
}

/* False: the name does not fit with its port. */
static bool set_name(struct nic_seen *seen, const char *name, const struct ports *ports)
{
	int n = ports->n > 1 ? snprintf(seen->name, sizeof(seen->name), "%s:%u", name, seen->port)
			     : snprintf(seen->name, sizeof(seen->name), "%s", name);

	return n > 0 && n < (int)sizeof(seen->name);
}

static bool read_nic(const struct scan *scan, int device, struct nic_seen *seen)
{
	_cleanup_close_ int port = -1;
	char path[24];

	snprintf(path, sizeof(path), "ports/%u", seen->port);
	port = openat(device, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (port < 0)
		return false;
	read_driver(device, seen);
	read_port(port, seen);
	read_netdev(device, scan->net, seen);
	return true;
}

static void scan_port(const struct scan *scan, int device, const struct nic_seen *head, const char *name,
		      const struct ports *ports)
{
	struct nic_seen_list *list = scan->list;
	struct nic_seen seen = *head;

	if (!set_name(&seen, name, ports)) {
		list->n_left_out++;
		return;
	}
	if (is_driven(scan, &seen))
		return;
	if (list->n == NIC_SEEN_MAX)
		list->n_left_out++;
	else if (read_nic(scan, device, &seen))
		list->nics[list->n++] = seen;
}

static void scan_device(const struct scan *scan, const char *name)
{
	_cleanup_close_ int device = openat(scan->class, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char target[PATH_BYTES];
	struct ports ports = {0};
	struct nic_seen head = {0};
	struct stat st;

	/* It went meanwhile. */
	if (device < 0 || fstat(device, &st) < 0)
		return;
	head.life = st.st_ino;
	head.guid = read_guid(device);
	if (read_link(scan->class, name, target))
		find_pci(target, head.pci);
	list_ports(device, &ports);
	for (unsigned int i = 0; i < ports.n; i++) {
		head.port = ports.numbers[i];
		scan_port(scan, device, &head, name, &ports);
	}
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

typedef char device_name[NIC_NAME_BYTES];

/* In the order of their names; the kernel has them in any. */
static unsigned int list_devices(DIR *dir, device_name names[MAX_DEVICES], unsigned int *ret_n_left_out)
{
	struct dirent *entry;
	unsigned int n = 0;

	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		if (n < MAX_DEVICES && is_name(entry->d_name, NIC_NAME_BYTES))
			snprintf(names[n++], NIC_NAME_BYTES, "%.*s", NIC_NAME_BYTES - 1, entry->d_name);
		else
			(*ret_n_left_out)++;
	}
	qsort(names, n, NIC_NAME_BYTES, compare_names);
	return n;
}

static bool class_path(const char *sysfs, const char *class, char path[PATH_BYTES])
{
	int n = snprintf(path, PATH_BYTES, "%s/class/%s", sysfs, class);

	return n > 0 && n < PATH_BYTES;
}

bool nic_watch_wanted(const char *sysfs)
{
	char path[PATH_BYTES];

	return class_path(sysfs, "infiniband", path) && access(path, F_OK) == 0;
}

void nic_seen_scan(const char *sysfs, const struct nic_driven *driven, unsigned int n_driven,
		   struct nic_seen_list *ret_list)
{
	struct scan scan = {.driven = driven, .n_driven = n_driven, .list = ret_list};
	_cleanup_(close_dir) DIR *dir = NULL;
	_cleanup_close_ int net = -1;
	device_name names[MAX_DEVICES];
	char path[PATH_BYTES];
	unsigned int n;

	memset(ret_list, 0, sizeof(*ret_list));
	if (class_path(sysfs, "net", path))
		net = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = class_path(sysfs, "infiniband", path) ? opendir(path) : NULL;
	if (!dir)
		return;
	scan.class = dirfd(dir);
	scan.net = net;
	n = list_devices(dir, names, &ret_list->n_left_out);
	for (unsigned int i = 0; i < n; i++)
		scan_device(&scan, names[i]);
}
