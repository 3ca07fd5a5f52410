/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room share. */
#ifndef SHMEMD_PROXY_H
#define SHMEMD_PROXY_H

#include "daemon/nic/nic.h"

/*
 * The MTU of RDMA packets, which sysfs does not tell: bytes, or 0 where the device cannot be asked. `name` as in struct nic_seen. The device
 * is open during the call only. Blocks as long as its firmware does; any thread.
 */
uint32_t proxy_mtu_bytes(const char *name, uint32_t port);

#endif
