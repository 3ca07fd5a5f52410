/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All RDMA devices below a root folder, except those that a backend manages.
 *
 * Bounded: devices, ports, and names, which reach terminals and logs. Keeps nothing. Reading a file may make a driver ask its
 * firmware: not for the control thread.
 */
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/host/host.h"
#include "daemon/host/sysfs.h"
#include "proto/base/cleanup.h"

#define MAX_DEVICES 1024u
#define MAX_PORTS 254u

/* One look. */
struct scan {
	int sys, class; /* the root, and its folder of RDMA devices */
	const struct host_managed *managed;
	unsigned int n_managed;
	struct host_list *list;
};

struct ports {
	unsigned int n;
	uint8_t numbers[MAX_PORTS];
};

/* The last part of a path that is a PCI address: what lies behind it are functions without one of their own. */
static uint64_t find_pci(int class, const char *name)
{
	char target[SYSFS_PATH_BYTES], *rest = NULL;
	uint64_t pci = HOST_NO_PCI, found;

	sysfs_link(class, name, target);
	for (char *part = strtok_r(target, "/", &rest); part; part = strtok_r(NULL, "/", &rest))
		if (host_pci_parse(part, &found))
			pci = found;
	return pci;
}

/* The driver that is bound to a device on a bus. A software device is on no bus, and its description names its kind. */
static void read_driver(int device, struct host_nic *nic)
{
	static const struct {
		const char *begins, *driver;
	} soft[] = {{"rxe", "rdma_rxe"}, {"Software iWARP", "siw"}};
	char name[SYSFS_PATH_BYTES], text[SYSFS_TEXT_BYTES];

	sysfs_link_name(device, "device/driver", name);
	if (name[0]) {
		if (host_is_name(name, sizeof(nic->driver)))
			host_copy_text(nic->driver, sizeof(nic->driver), name);
		return;
	}
	sysfs_text(device, "node_desc", text);
	for (size_t i = 0; i < sizeof(soft) / sizeof(soft[0]); i++)
		if (strncmp(text, soft[i].begins, strlen(soft[i].begins)) == 0)
			host_copy_text(nic->driver, sizeof(nic->driver), soft[i].driver);
}

static int compare_bytes(const void *a, const void *b)
{
	return *(const uint8_t *)a - *(const uint8_t *)b;
}

static void list_ports(int device, struct ports *ports)
{
	_cleanup_(sysfs_close_dir) DIR *dir = sysfs_open_dir(device, "ports");
	struct dirent *entry;

	while (dir && (entry = readdir(dir)) && ports->n < MAX_PORTS) {
		uint64_t number = isdigit((unsigned char)entry->d_name[0]) ? host_number(entry->d_name, 10, UINT32_MAX) : 0;

		if (number >= 1 && number <= MAX_PORTS)
			ports->numbers[ports->n++] = (uint8_t)number;
	}
	qsort(ports->numbers, ports->n, 1, compare_bytes);
}

static bool is_managed(const struct scan *scan, const struct host_nic *nic)
{
	for (unsigned int i = 0; i < scan->n_managed; i++)
		if (host_is_managed(&scan->managed[i], nic->name, nic->node_guid, nic->port))
			return true;
	return false;
}

/* False: the name does not fit with its port. */
static bool set_name(struct host_nic *nic, const char *name, const struct ports *ports)
{
	int n = ports->n > 1 ? snprintf(nic->name, sizeof(nic->name), "%s:%u", name, nic->port)
			     : snprintf(nic->name, sizeof(nic->name), "%s", name);

	return n > 0 && n < HOST_SHOWN_BYTES;
}

static void scan_port(const struct scan *scan, int device, const char *name, const struct ports *ports, const struct host_nic *head)
{
	struct host_list *list = scan->list;
	struct host_nic nic = *head;

	if (!set_name(&nic, name, ports)) {
		list->n_left_out++;
		return;
	}
	if (is_managed(scan, &nic))
		return;
	if (list->n == HOST_LIST_MAX) {
		list->n_left_out++;
		return;
	}
	read_driver(device, &nic);
	if (host_read_port(scan->sys, device, &nic))
		list->nics[list->n++] = nic;
}

static void scan_device(const struct scan *scan, const char *name)
{
	_cleanup_close_ int device = openat(scan->class, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct host_nic head = {.pf = HOST_NO_PCI};
	struct ports ports = {0};
	struct stat st;

	/* It went meanwhile. */
	if (device < 0 || fstat(device, &st) < 0)
		return;
	head.life = st.st_ino;
	head.node_guid = host_read_guid(device);
	head.pci = find_pci(scan->class, name);
	list_ports(device, &ports);
	for (unsigned int i = 0; i < ports.n; i++) {
		head.port = ports.numbers[i];
		scan_port(scan, device, name, &ports, &head);
	}
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

typedef char device_name[HOST_SHOWN_BYTES];

/* In the order of their names; the kernel has them in any. */
static unsigned int list_devices(DIR *dir, device_name names[MAX_DEVICES], unsigned int *ret_n_left_out)
{
	struct dirent *entry;
	unsigned int n = 0;

	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		if (n < MAX_DEVICES && host_is_name(entry->d_name, HOST_SHOWN_BYTES))
			snprintf(names[n++], HOST_SHOWN_BYTES, "%.*s", HOST_SHOWN_BYTES - 1, entry->d_name);
		else
			(*ret_n_left_out)++;
	}
	qsort(names, n, HOST_SHOWN_BYTES, compare_names);
	return n;
}

static bool class_path(const char *sysfs, char path[SYSFS_PATH_BYTES])
{
	return snprintf(path, SYSFS_PATH_BYTES, "%s/class/infiniband", sysfs) < SYSFS_PATH_BYTES;
}

bool host_watch_wanted(const char *sysfs)
{
	char path[SYSFS_PATH_BYTES];

	return class_path(sysfs, path) && access(path, F_OK) == 0;
}

void host_scan(const char *sysfs, const struct host_managed *managed, unsigned int n_managed, struct host_list *ret_list)
{
	_cleanup_close_ int sys = open(sysfs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char path[SYSFS_PATH_BYTES];
	_cleanup_(sysfs_close_dir) DIR *dir = class_path(sysfs, path) ? sysfs_open_dir(AT_FDCWD, path) : NULL;
	struct scan scan = {.sys = sys, .managed = managed, .n_managed = n_managed, .list = ret_list};
	device_name names[MAX_DEVICES];
	unsigned int n;

	memset(ret_list, 0, sizeof(*ret_list));
	if (!dir)
		return;
	scan.class = dirfd(dir);
	n = list_devices(dir, names, &ret_list->n_left_out);
	for (unsigned int i = 0; i < n; i++)
		scan_device(&scan, names[i]);
}
