/* SPDX-License-Identifier: Apache-2.0 */
/* Which of a port's addresses it uses. No rdma-core. Any thread that may block: sysfs is read. */
#ifndef SHMEMD_NIC_MLX5_GID_H
#define SHMEMD_NIC_MLX5_GID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A row of the table of all ports of a device. */
struct mlx5_gid {
	uint8_t bytes[16];
	uint32_t index;
	uint8_t port;
	bool is_roce_v2;
	bool is_netdev_down; /* the interface that it is an address of; false: it is up, or nobody says */
	bool is_netdev_own; /* the port's own interface, not one upon it */
};

/*
 * The row that peers reach best, whatever its index: of an interface that is up; of a scope that passes routers; of the port's own
 * interface; IPv4; the first. On InfiniBand the first. -ENOENT: a RoCE port has none of version 2.
 */
int mlx5_gid_choose(const struct mlx5_gid *gids, size_t n, uint8_t port, bool is_roce);

/* Reads sysfs for a row's interface: `nic` is the folder of the device, `net` the one of all interfaces. */
void mlx5_gid_look(const char *nic, const char *net, struct mlx5_gid *gid);

#endif
