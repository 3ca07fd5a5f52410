/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An RDMA device as sysfs shows it (Documentation/ABI/stable/sysfs-class-infiniband): its ports, their interfaces and
 * addresses, its PCI link.
 *
 * Believes what a file says, not how much: texts are cut, addresses bounded. A missing fact stays unknown; a port without a
 * state is down. Keeps nothing. Not for the control thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/host/host.h"
#include "daemon/host/sysfs.h"
#include "proto/base/cleanup.h"

/* In the product data of a NIC that manages switches: the name of its image. */
#define SWITCH_MANAGER_MARK "SW_MNG"
#define VPD_BYTES 1024
/* The kernel takes the first free row for an address, so behind so many free ones there are no more. */
#define MAX_FREE_ROWS 16
#define MAX_ROWS 1024

uint64_t host_read_guid(int device)
{
	char text[SYSFS_TEXT_BYTES];
	uint8_t bytes[8];
	uint64_t guid = 0;

	if (!sysfs_text(device, "node_guid", text) || !host_parse_groups(text, 4, bytes))
		return 0;
	for (unsigned int i = 0; i < sizeof(bytes); i++)
		guid = guid << 8 | bytes[i];
	return guid;
}

static void read_link(int folder, struct host_link *link)
{
	char text[SYSFS_TEXT_BYTES];

	link->mtps = sysfs_text(folder, "current_link_speed", text) ? host_mtps(text) : 0;
	link->max_mtps = sysfs_text(folder, "max_link_speed", text) ? host_mtps(text) : 0;
	link->width = (uint32_t)sysfs_number(folder, "current_link_width", 10, UINT8_MAX);
	link->max_width = (uint32_t)sysfs_number(folder, "max_link_width", 10, UINT8_MAX);
}

void host_read_device(int device, struct host_nic *nic)
{
	char text[SYSFS_TEXT_BYTES], target[SYSFS_PATH_BYTES];
	_cleanup_close_ int folder = openat(device, "device", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (sysfs_text(device, "fw_ver", text))
		host_copy_text(nic->firmware, sizeof(nic->firmware), text);
	nic->node_guid = host_read_guid(device);
	nic->pf = HOST_NO_PCI;
	if (folder < 0)
		return;
	read_link(folder, &nic->link);
	sysfs_link_name(folder, "physfn", target);
	if (!host_pci_parse(target, &nic->pf))
		nic->pf = HOST_NO_PCI;
}

enum host_known host_manages_switches(int device)
{
	_cleanup_close_ int fd = openat(device, "device/vpd", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char data[VPD_BYTES];
	ssize_t n = fd >= 0 ? read(fd, data, sizeof(data)) : 0;

	if (n <= 0)
		return HOST_NOT_KNOWN;
	return memmem(data, (size_t)n, SWITCH_MANAGER_MARK, strlen(SWITCH_MANAGER_MARK)) ? HOST_YES : HOST_NO;
}

bool host_find_function(int at, const char *name, uint64_t *ret_pci)
{
	char target[SYSFS_PATH_BYTES], *rest = NULL;
	bool is_below = false, is_found = false;

	snprintf(target, sizeof(target), "%.256s/parent", name);
	if (faccessat(at, target, F_OK, 0) == 0 || !sysfs_link(at, name, target))
		return false;
	for (char *part = strtok_r(target, "/", &rest); part; part = strtok_r(NULL, "/", &rest)) {
		is_found |= is_below && strcmp(part, "infiniband") == 0;
		is_below = host_pci_parse(part, ret_pci);
	}
	return is_found;
}

/* ---- interfaces ---------------------------------------------------------------------------------------------------- */

/* Interfaces of the function on this port: the oldest, which representors and children of it come after. */
static void find_first_netdev(int device, struct host_nic *nic)
{
	_cleanup_(sysfs_close_dir) DIR *dir = sysfs_open_dir(device, "device/net");
	uint32_t index, first = UINT32_MAX;
	char path[SYSFS_PATH_BYTES];
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/dev_port", entry->d_name);
		if (entry->d_name[0] == '.' || sysfs_number(dirfd(dir), path, 10, UINT8_MAX) + 1 != nic->port)
			continue;
		snprintf(path, sizeof(path), "%s/ifindex", entry->d_name);
		index = (uint32_t)sysfs_number(dirfd(dir), path, 10, UINT32_MAX);
		index = index ? index : UINT32_MAX;
		if (nic->netdev[0] && (index > first || (index == first && strcmp(entry->d_name, nic->netdev) > 0)))
			continue;
		first = index;
		host_copy_text(nic->netdev, sizeof(nic->netdev), entry->d_name);
	}
}

/* A software device lies upon an interface: its parent, or the one that its addresses are of. */
static void find_lower_netdev(int device, struct host_nic *nic)
{
	char text[SYSFS_TEXT_BYTES];

	for (unsigned int i = 0; i < nic->n_gids && !nic->netdev[0]; i++)
		if (host_is_name(nic->gids[i].netdev, HOST_NETDEV_BYTES))
			memcpy(nic->netdev, nic->gids[i].netdev, HOST_NETDEV_BYTES);
	if (!nic->netdev[0] && sysfs_text(device, "parent", text) && host_is_name(text, HOST_NETDEV_BYTES))
		host_copy_text(nic->netdev, sizeof(nic->netdev), text);
}

/* The one that the port's addresses are of, where it is one of the function: a bond and a VLAN are not. */
static void find_netdev(int device, struct host_nic *nic)
{
	char path[SYSFS_PATH_BYTES];

	for (unsigned int i = 0; i < nic->n_gids && !nic->netdev[0]; i++) {
		snprintf(path, sizeof(path), "device/net/%s/dev_port", nic->gids[i].netdev);
		if (nic->gids[i].netdev[0] && faccessat(device, path, F_OK, 0) == 0)
			memcpy(nic->netdev, nic->gids[i].netdev, HOST_NETDEV_BYTES);
	}
	if (!nic->netdev[0])
		find_first_netdev(device, nic);
	if (!nic->netdev[0] && faccessat(device, "device/net", F_OK, 0) < 0)
		find_lower_netdev(device, nic);
}

/* To the kernel an interface whose driver does not report its state is one that is up. */
enum host_known host_read_operstate(int folder, const char *path)
{
	char text[SYSFS_TEXT_BYTES];

	if (!sysfs_text(folder, path, text))
		return HOST_NOT_KNOWN;
	return strcmp(text, "up") == 0 || strcmp(text, "unknown") == 0 ? HOST_YES : HOST_NO;
}

static void read_netdev(int sys, struct host_nic *nic)
{
	char path[SYSFS_PATH_BYTES], name[SYSFS_PATH_BYTES];

	snprintf(path, sizeof(path), "class/net/%s/mtu", nic->netdev);
	nic->mtu_bytes = (uint32_t)sysfs_number(sys, path, 10, UINT32_MAX);
	snprintf(path, sizeof(path), "class/net/%s/operstate", nic->netdev);
	nic->netdev_is_up = host_read_operstate(sys, path);
	snprintf(path, sizeof(path), "class/net/%s/master", nic->netdev);
	sysfs_link_name(sys, path, name);
	/* An interface may be part of a bridge, too; a bond has a folder that says what it does. */
	snprintf(path, sizeof(path), "class/net/%.64s/bonding/mode", name);
	if (name[0] && faccessat(sys, path, F_OK, 0) == 0)
		host_copy_text(nic->bond, sizeof(nic->bond), name);
}

/* ---- addresses ----------------------------------------------------------------------------------------------------- */

enum row {
	ROW_NONE, /* behind the last */
	ROW_FREE,
	ROW_USED,
	ROW_UNREAD,
};

static bool is_zero(const struct host_gid *gid)
{
	static const uint8_t zero[16];

	return memcmp(gid->bytes, zero, sizeof(zero)) == 0;
}

void host_add_gid(struct host_nic *nic, const struct host_gid *gid)
{
	nic->has_gids = HOST_YES;
	if (nic->n_gids < HOST_MAX_GIDS)
		nic->gids[nic->n_gids++] = *gid;
}

/* "IB/RoCE v1" is both, and the fabric says which. */
static enum host_gid_type gid_type(const char *text, enum host_fabric fabric)
{
	if (strcmp(text, "RoCE v2") == 0)
		return HOST_GID_ROCE_V2;
	if (strcmp(text, "IB/RoCE v1") == 0)
		return fabric == HOST_FABRIC_ETHERNET ? HOST_GID_ROCE_V1 : HOST_GID_IB;
	return HOST_GID_UNKNOWN;
}

/* A row that nobody uses has a GID of zeros, and to ask for its type is an error. */
static enum row read_gid(int port, unsigned int row, enum host_fabric fabric, struct host_gid *ret_gid)
{
	char path[64], text[SYSFS_TEXT_BYTES];

	*ret_gid = (struct host_gid){.index = row};
	snprintf(path, sizeof(path), "gids/%u", row);
	errno = 0;
	if (!sysfs_text(port, path, text) || !host_parse_groups(text, 8, ret_gid->bytes))
		return errno == ENOENT || errno == EINVAL ? ROW_NONE : ROW_UNREAD;
	if (is_zero(ret_gid))
		return ROW_FREE;
	snprintf(path, sizeof(path), "gid_attrs/ndevs/%u", row);
	if (sysfs_text(port, path, text) && strlen(text) < sizeof(ret_gid->netdev))
		host_copy_text(ret_gid->netdev, sizeof(ret_gid->netdev), text);
	snprintf(path, sizeof(path), "gid_attrs/types/%u", row);
	if (!sysfs_text(port, path, text))
		return ROW_UNREAD;
	ret_gid->type = gid_type(text, fabric);
	return ROW_USED;
}

/* Where a row cannot be read it may be the one that counts: then it is unknown what addresses there are. */
static void read_gids(int port, struct host_nic *nic)
{
	unsigned int n_free = 0, n_unread = 0, n_rows = 0;

	for (unsigned int row = 0; row < MAX_ROWS && n_free < MAX_FREE_ROWS; row++) {
		struct host_gid gid;
		enum row is = read_gid(port, row, nic->fabric, &gid);

		n_rows += is != ROW_NONE;
		n_unread += is == ROW_UNREAD;
		n_free++;
		if (is_zero(&gid))
			continue;
		host_add_gid(nic, &gid);
		n_free = 0;
	}
	if (n_unread)
		nic->has_gids = HOST_NOT_KNOWN;
	else if (!nic->n_gids && n_rows)
		nic->has_gids = HOST_NO;
}

/* ---- ports --------------------------------------------------------------------------------------------------------- */

static void read_state(int port, struct host_nic *nic)
{
	char text[SYSFS_TEXT_BYTES];

	sysfs_text(port, "link_layer", text);
	if (strcmp(text, "Ethernet") == 0)
		nic->fabric = HOST_FABRIC_ETHERNET;
	else if (strcmp(text, "InfiniBand") == 0)
		nic->fabric = HOST_FABRIC_INFINIBAND;
	/* IBTA PortInfo: PortState 4 is Active. */
	nic->state = sysfs_number(port, "state", 10, UINT8_MAX) == 4 ? HOST_STATE_ACTIVE : HOST_STATE_DOWN;
	nic->phys_state = (uint32_t)sysfs_number(port, "phys_state", 10, UINT8_MAX);
	nic->lid = (uint32_t)sysfs_number(port, "lid", 16, UINT16_MAX);
	if (sysfs_text(port, "rate", text))
		nic->rate_mbps = host_parse_rate(text, &nic->n_lanes);
}

bool host_read_port(int sys, int device, struct host_nic *nic)
{
	_cleanup_close_ int port = -1;
	char path[32];

	snprintf(path, sizeof(path), "ports/%u", nic->port);
	port = openat(device, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	read_state(port, nic);
	read_gids(port, nic);
	find_netdev(device, nic);
	if (nic->netdev[0])
		read_netdev(sys, nic);
	return port >= 0;
}
