/* SPDX-License-Identifier: Apache-2.0 */
/* The judge of a port's addresses. The choice is pure; the kernel's table and sysfs are its input. Keeps nothing. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "daemon/host/host.h"
#include "daemon/host/sysfs.h"
#include "proto/base/gid.h"

#define MAX_INDEX UINT8_MAX /* that commands and address vectors have room for */

/* 0: cannot be used. An earlier term counts more than all later ones. */
static unsigned int rank(const struct host_gid_row *row, uint8_t port, bool is_roce)
{
	enum gid_reach reach = gid_reach(row->bytes);

	if (row->port != port || row->index > MAX_INDEX)
		return 0;
	if (!is_roce)
		return 1;
	if (!row->is_roce_v2 || reach == GID_REACHES_NOBODY)
		return 0;
	return 1u + (!row->is_netdev_down << 3 | (reach == GID_REACHES_ALL) << 2 | row->is_netdev_own << 1 | gid_is_ipv4(row->bytes));
}

int host_gid_choose(const struct host_gid_row *rows, size_t n, uint8_t port, bool is_roce)
{
	unsigned int best_rank = 0;
	int best = -ENOENT;

	for (size_t i = 0; i < n; i++) {
		unsigned int of_this = rank(&rows[i], port, is_roce);

		if (of_this > best_rank) {
			best = (int)i;
			best_rank = of_this;
		}
	}
	return best;
}

void host_gid_look(const char *nic, const char *net, struct host_gid_row *row)
{
	char path[SYSFS_PATH_BYTES], name[SYSFS_TEXT_BYTES], state[SYSFS_TEXT_BYTES];

	snprintf(path, sizeof(path), "%.256s/ports/%u/gid_attrs/ndevs/%u", nic, row->port, row->index);
	if (!sysfs_text(AT_FDCWD, path, name))
		return;
	snprintf(path, sizeof(path), "%.256s/device/net/%s", nic, name);
	row->is_netdev_own = access(path, F_OK) == 0;
	snprintf(path, sizeof(path), "%.256s/%s/operstate", net, name);
	sysfs_text(AT_FDCWD, path, state);
	row->is_netdev_down = strcmp(state, "down") == 0 || strcmp(state, "lowerlayerdown") == 0;
}
