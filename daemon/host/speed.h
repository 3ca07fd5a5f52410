/* SPDX-License-Identifier: Apache-2.0 */
/* The fastest rate of a port: Ethernet by its interface, whose driver answers everybody, InfiniBand by its capability masks. */
#ifndef SHMEMD_HOST_SPEED_H
#define SHMEMD_HOST_SPEED_H

#include <linux/ethtool.h>
#include <stdint.h>

#include "daemon/host/host.h"

struct host_speed {
	uint32_t mbps; /* 0: unknown */
	uint32_t n_lanes; /* the most that it may be over */
};

/* The fastest of a bitmap of link modes, as <linux/ethtool.h> numbers them; unknown modes are left out. */
struct host_speed host_speed_of(const uint32_t *modes, unsigned int n_words);

/*
 * One ETHTOOL_GLINKSETTINGS to the kernel: 0 or -errno. `settings` has place for as many words of bitmaps as the command can
 * count.
 */
typedef int host_ask_speed_fn(void *arg, const char *netdev,
			      struct ethtool_link_settings *settings);

/* For a NIC with an interface; missing or contradictory answers stay unknown. */
void host_ask_speed(host_ask_speed_fn *ask, void *arg, struct host_nic *nic);

/*
 * The rate that an InfiniBand port can certainly reach, by CapabilityMask and CapabilityMask2 of its PortInfo and its present
 * rate. 0: unknown, also where the present rate may or may not be the best.
 */
uint64_t host_ib_max_mbps(uint32_t cap_mask, uint32_t cap_mask2, uint64_t rate_mbps,
			  uint32_t n_lanes);

#endif
