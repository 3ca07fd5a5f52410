/* SPDX-License-Identifier: Apache-2.0 */
/* What ports could run at: Ethernet by its interface, whose driver tells it to anybody, InfiniBand by its capability masks. */
#ifndef SHMEMD_TOPO_SPEED_H
#define SHMEMD_TOPO_SPEED_H

#include <linux/ethtool.h>
#include <stdint.h>

#include "daemon/topo/topo-private.h"

struct topo_speed {
	uint32_t mbps; /* 0: unknown */
	uint32_t n_lanes; /* the most that it may be over */
};

/* The fastest of a bitmap of link modes, as <linux/ethtool.h> counts them; those it does not know are left out. */
struct topo_speed topo_speed_of(const uint32_t *modes, unsigned int n_words);

/*
 * One ETHTOOL_GLINKSETTINGS to the kernel: 0 or -errno. `settings` has place for as many words of bitmaps as the command can
 * count.
 */
typedef int topo_ask_speed_fn(void *arg, const char *netdev,
			      struct ethtool_link_settings *settings);

/* For a NIC with an interface; missing or contradictory answers stay unknown. */
void topo_ask_speed(topo_ask_speed_fn *ask, void *arg, struct topo_nic *nic);

/*
 * The rate that an InfiniBand port can certainly reach, by CapabilityMask and CapabilityMask2 of its PortInfo and what it runs at.
 * 0: unknown, which all is that may be its best and may be not.
 */
uint64_t topo_ib_max_mbps(uint32_t cap_mask, uint32_t cap_mask2, uint64_t rate_mbps,
			  uint32_t n_lanes);

/* For all NICs. Asks the kernel for interfaces by name: for the machine that this runs on. */
void topo_read_speeds(struct topo_builder *builder);

#endif
