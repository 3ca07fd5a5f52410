/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An RDMA device of the running machine as sysfs shows it: its ports, their interfaces and addresses, its PCI link.
 *
 * Believes what a file says, not how much: texts are cut, addresses bounded. A missing fact stays unknown; a port without a
 * state is down. Keeps nothing. Not for the control thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "daemon/topo/sysfs.h"
#include "daemon/topo/topo-private.h"

/* In the product data of a NIC that manages switches: the name of its image. */
#define SWITCH_MANAGER_MARK "SW_MNG"
#define VPD_BYTES 1024
/* The kernel takes the first free row for an address, so behind so many free ones there are no more. */
#define MAX_FREE_ROWS 16
#define MAX_ROWS 1024

/* "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)" */
static uint64_t read_rate(int port, uint32_t *ret_lanes)
{
	char text[SYSFS_TEXT_BYTES], last;
	unsigned int gbps, tenths;
	const char *lanes;

	if (!sysfs_text(port, "rate", text))
		return 0;
	lanes = strchr(text, '(');
	*ret_lanes = lanes ? (uint32_t)topo_number(lanes + 1, 10, UINT8_MAX) : 0;
	if (sscanf(text, "%7u.%1u Gb/se%c", &gbps, &tenths, &last) == 3)
		return (uint64_t)gbps * 1000 + tenths * 100;
	return sscanf(text, "%7u Gb/se%c", &gbps, &last) == 2 ? (uint64_t)gbps * 1000 : 0;
}

/* "0002:c903:00ab:cdef" */
static uint64_t read_guid(int nic)
{
	char text[SYSFS_TEXT_BYTES];
	unsigned int part[4];

	if (!sysfs_text(nic, "node_guid", text) ||
	    sscanf(text, "%4x:%4x:%4x:%4x", &part[0], &part[1], &part[2], &part[3]) != 4)
		return 0;
	return (uint64_t)part[0] << 48 | (uint64_t)part[1] << 32 | (uint64_t)part[2] << 16 | part[3];
}

static void read_link(int folder, struct topo_link *link)
{
	char text[SYSFS_TEXT_BYTES];

	link->mtps = sysfs_text(folder, "current_link_speed", text) ? topo_mtps(text) : 0;
	link->max_mtps = sysfs_text(folder, "max_link_speed", text) ? topo_mtps(text) : 0;
	link->width = (uint32_t)sysfs_number(folder, "current_link_width", 10, UINT8_MAX);
	link->max_width = (uint32_t)sysfs_number(folder, "max_link_width", 10, UINT8_MAX);
}

/*
 * Root may read it, and the daemon's user by 60-shmemd.rules; others have to guess (exclude.c). Four bytes at a time go
 * through a register, each waited for, so it is asked where it can matter alone: switches are managed over InfiniBand.
 */
static enum topo_known manages_switches(int nic)
{
	_cleanup_close_ int fd = openat(nic, "device/vpd", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char data[VPD_BYTES];
	ssize_t n = fd >= 0 ? read(fd, data, sizeof(data)) : 0;

	if (n <= 0)
		return TOPO_NOT_KNOWN;
	return memmem(data, (size_t)n, SWITCH_MANAGER_MARK, strlen(SWITCH_MANAGER_MARK)) ? TOPO_YES : TOPO_NO;
}

/* Interfaces of the function on this port: the oldest, which representors and children of it come after. */
static void find_first_netdev(int nic, struct topo_nic *seen)
{
	_cleanup_(sysfs_close_dir) DIR *dir = sysfs_open_dir(nic, "device/net");
	uint32_t index, first = UINT32_MAX;
	char path[SYSFS_PATH_BYTES];
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/dev_port", entry->d_name);
		if (entry->d_name[0] == '.' || sysfs_number(dirfd(dir), path, 10, UINT8_MAX) + 1 != seen->port)
			continue;
		snprintf(path, sizeof(path), "%s/ifindex", entry->d_name);
		index = (uint32_t)sysfs_number(dirfd(dir), path, 10, UINT32_MAX);
		index = index ? index : UINT32_MAX;
		if (seen->netdev[0] && (index > first || (index == first && strcmp(entry->d_name, seen->netdev) > 0)))
			continue;
		first = index;
		topo_copy_text(seen->netdev, entry->d_name);
	}
}

/* That the port's addresses are of, where it is one of the function: a bond and a VLAN are not. */
static void find_netdev(int nic, struct topo_nic *seen)
{
	char path[SYSFS_PATH_BYTES];

	for (unsigned int i = 0; i < seen->n_gids && !seen->netdev[0]; i++) {
		snprintf(path, sizeof(path), "device/net/%s/dev_port", seen->gids[i].netdev);
		if (seen->gids[i].netdev[0] && faccessat(nic, path, F_OK, 0) == 0)
			memcpy(seen->netdev, seen->gids[i].netdev, sizeof(seen->netdev));
	}
	if (!seen->netdev[0])
		find_first_netdev(nic, seen);
}

/* To the kernel an interface whose driver does not tell is one that is up. */
enum topo_known topo_read_operstate(int folder, const char *path)
{
	char text[SYSFS_TEXT_BYTES];

	if (!sysfs_text(folder, path, text))
		return TOPO_NOT_KNOWN;
	return strcmp(text, "up") == 0 || strcmp(text, "unknown") == 0 ? TOPO_YES : TOPO_NO;
}

static void read_netdev(int sys, struct topo_nic *seen)
{
	char path[SYSFS_PATH_BYTES], name[SYSFS_PATH_BYTES];

	snprintf(path, sizeof(path), "class/net/%s/mtu", seen->netdev);
	seen->mtu_bytes = (uint32_t)sysfs_number(sys, path, 10, UINT32_MAX);
	snprintf(path, sizeof(path), "class/net/%s/operstate", seen->netdev);
	seen->netdev_is_up = topo_read_operstate(sys, path);
	snprintf(path, sizeof(path), "class/net/%s/master", seen->netdev);
	sysfs_link_name(sys, path, name);
	/* An interface may be part of a bridge, too; a bond has a folder that says what it does. */
	snprintf(path, sizeof(path), "class/net/%.64s/bonding/mode", name);
	if (name[0] && faccessat(sys, path, F_OK, 0) == 0)
		topo_copy_text(seen->bond, name);
}

void topo_read_sysfs_nic(int nic, struct topo_nic *seen)
{
	char text[SYSFS_TEXT_BYTES], target[SYSFS_PATH_BYTES];
	_cleanup_close_ int folder = openat(nic, "device", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (sysfs_text(nic, "fw_ver", text))
		topo_copy_text(seen->firmware, text);
	seen->guid = seen->node_guid = read_guid(nic);
	if (folder < 0)
		return;
	read_link(folder, &seen->link);
	sysfs_link_name(folder, "physfn", target);
	if (!topo_pci_parse(target, &seen->pf))
		seen->pf = TOPO_NO_PCI;
}

static void read_port(int port, struct topo_nic *seen)
{
	char text[SYSFS_TEXT_BYTES];

	sysfs_text(port, "link_layer", text);
	if (strcmp(text, "Ethernet") == 0)
		seen->fabric = TOPO_FABRIC_ETHERNET;
	else if (strcmp(text, "InfiniBand") == 0)
		seen->fabric = TOPO_FABRIC_INFINIBAND;
	/* IBTA PortInfo: PortState 4 is Active. */
	seen->state = sysfs_number(port, "state", 10, UINT8_MAX) == 4 ? TOPO_STATE_ACTIVE : TOPO_STATE_DOWN;
	seen->phys_state = (uint32_t)sysfs_number(port, "phys_state", 10, UINT8_MAX);
	seen->lid = (uint32_t)sysfs_number(port, "lid", 16, UINT16_MAX);
	seen->rate_mbps = read_rate(port, &seen->n_lanes);
}

/* ---- addresses ----------------------------------------------------------------------------------------------------- */

enum row {
	ROW_NONE, /* behind the last */
	ROW_READ,
	ROW_UNREAD,
};

/* A row that nobody uses has no type, which is an error, and a GID of zeros. */
static enum row read_gid(int port, unsigned int row, struct topo_gid *ret_gid)
{
	struct topo_gid gid = {.index = (uint16_t)row};
	char path[64], text[SYSFS_TEXT_BYTES];

	*ret_gid = gid;
	snprintf(path, sizeof(path), "gids/%u", row);
	errno = 0;
	if (!sysfs_text(port, path, text) || !topo_gid_parse(text, gid.bytes))
		return errno == ENOENT || errno == EINVAL ? ROW_NONE : ROW_UNREAD;
	if (!topo_gid_is_zero(&gid)) {
		snprintf(path, sizeof(path), "gid_attrs/types/%u", row);
		if (!sysfs_text(port, path, text))
			return ROW_UNREAD;
		gid.is_roce_v2 = strcmp(text, "RoCE v2") == 0;
		snprintf(path, sizeof(path), "gid_attrs/ndevs/%u", row);
		if (sysfs_text(port, path, text))
			topo_copy_text(gid.netdev, text);
	}
	*ret_gid = gid;
	return ROW_READ;
}

static int take_row(const struct topo_gid *gid, struct topo_nic *seen)
{
	if (!topo_gid_is_zero(gid))
		return topo_add_gid(seen, gid);
	if (!seen->n_gids)
		seen->has_gids = TOPO_NO;
	return 0;
}

/* Where a row cannot be read nobody knows whether that was the one that counts. */
static int read_gids(int port, struct topo_nic *seen)
{
	unsigned int n_free = 0, n_unread = 0;
	int r = 0;

	for (unsigned int row = 0; !r && row < MAX_ROWS && n_free < MAX_FREE_ROWS; row++) {
		struct topo_gid gid;
		enum row is = read_gid(port, row, &gid);

		if (is == ROW_NONE)
			break;
		n_unread += is == ROW_UNREAD;
		n_free = topo_gid_is_zero(&gid) ? n_free + 1 : 0;
		if (is == ROW_READ)
			r = take_row(&gid, seen);
	}
	if (n_unread)
		seen->has_gids = TOPO_NOT_KNOWN;
	return r;
}

int topo_read_sysfs_port(int sys, int nic, struct topo_nic *seen)
{
	_cleanup_close_ int port = -1;
	char path[32];
	int r;

	snprintf(path, sizeof(path), "ports/%u", seen->port);
	port = openat(nic, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	read_port(port, seen);
	if (seen->fabric == TOPO_FABRIC_INFINIBAND)
		seen->manages_switches = manages_switches(nic);
	if (seen->manages_switches == TOPO_YES)
		seen->role = TOPO_ROLE_BRIDGE;
	r = read_gids(port, seen);
	find_netdev(nic, seen);
	if (seen->netdev[0])
		read_netdev(sys, seen);
	return r;
}
