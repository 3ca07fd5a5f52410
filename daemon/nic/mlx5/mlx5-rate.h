/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a port runs. No rdma-core. Any thread that may block: sysfs is read. */
#ifndef SHMEMD_NIC_MLX5_RATE_H
#define SHMEMD_NIC_MLX5_RATE_H

#include <stdint.h>

/* 0: not known. `nic`: the folder of the device; width and speed: active_width and active_speed of verbs. */
uint64_t mlx5_rate_mbps(const char *nic, uint8_t port, uint8_t width, uint8_t speed);

#endif
