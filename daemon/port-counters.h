/* SPDX-License-Identifier: Apache-2.0 */
/* What the ports of RDMA devices have moved, as the kernel counts it. Any thread. */
#ifndef SHMEMD_PORT_COUNTERS_H
#define SHMEMD_PORT_COUNTERS_H

#include <stdint.h>

/*
 * Bytes sent and received by a port together, modulo 2^64, since its counters were reset last. Waits for the device's firmware
 * where the kernel asks it. sysfs is "/sys", or a tree that looks like it; nic is the name of a NIC, whose ":2" for a port is
 * left out. -ENOENT the kernel tells nothing of it; -EINVAL no number; -ERANGE a counter of 32 bits that is full and stands still.
 */
int port_counters_read(const char *sysfs, const char *nic, uint32_t port, uint64_t *ret_bytes);

#endif
