/* SPDX-License-Identifier: Apache-2.0 */
/* The choice is pure; what it goes by is the kernel's table and sysfs. Keeps nothing. */
#include "daemon/nic/mlx5/mlx5-gid.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/cleanup.h"
#include "proto/base/gid.h"

#define PATH_BYTES 512
#define TEXT_BYTES 64
#define MAX_INDEX UINT8_MAX /* that commands and address vectors have room for */

/* 0: cannot be used. An earlier term counts more than all later ones. */
static unsigned int rank(const struct mlx5_gid *gid, uint8_t port, bool is_roce)
{
	enum gid_reach reach = gid_reach(gid->bytes);

	if (gid->port != port || gid->index > MAX_INDEX)
		return 0;
	if (!is_roce)
		return 1;
	if (!gid->is_roce_v2 || reach == GID_REACHES_NOBODY)
		return 0;
	return 1u + (!gid->is_netdev_down << 3 | (reach == GID_REACHES_ALL) << 2 | gid->is_netdev_own << 1 | gid_is_ipv4(gid->bytes));
}

int mlx5_gid_choose(const struct mlx5_gid *gids, size_t n, uint8_t port, bool is_roce)
{
	unsigned int best_rank = 0;
	int best = -ENOENT;

	for (size_t i = 0; i < n; i++) {
		unsigned int of_this = rank(&gids[i], port, is_roce);

		if (of_this > best_rank) {
			best = (int)i;
			best_rank = of_this;
		}
	}
	return best;
}

/* The first word of a file; empty where there is none. */
static void read_word(const char *path, char text[TEXT_BYTES])
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd >= 0 ? read(fd, text, TEXT_BYTES - 1) : -1;

	text[n > 0 ? n : 0] = 0;
	text[strcspn(text, "\n")] = 0;
}

void mlx5_gid_look(const char *nic, const char *net, struct mlx5_gid *gid)
{
	char path[PATH_BYTES], name[TEXT_BYTES], state[TEXT_BYTES];

	snprintf(path, sizeof(path), "%.256s/ports/%u/gid_attrs/ndevs/%u", nic, gid->port, gid->index);
	read_word(path, name);
	if (!name[0])
		return;
	snprintf(path, sizeof(path), "%.256s/device/net/%s", nic, name);
	gid->is_netdev_own = access(path, F_OK) == 0;
	snprintf(path, sizeof(path), "%.256s/%s/operstate", net, name);
	read_word(path, state);
	gid->is_netdev_down = strcmp(state, "down") == 0 || strcmp(state, "lowerlayerdown") == 0;
}
