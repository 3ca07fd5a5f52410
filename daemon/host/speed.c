/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The highest speed of an Ethernet port by ETHTOOL_GLINKSETTINGS, whose bitmap has what the port supports, whatever it runs at;
 * the class of speed of an InfiniBand port by the masks that verbs.c asks for.
 *
 * Numbers of link modes are the kernel's, of enum ethtool_link_mode_bit_indices; written as numbers, since the newer ones are
 * not in every <linux/ethtool.h>. Drivers may ask firmware: not for the control thread. Keeps nothing.
 */
#include "daemon/host/speed.h"

#include <errno.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "proto/base/cleanup.h"

#define MAX_WORDS INT8_MAX /* of one bitmap; an answer has three */
#define N_BITMAPS 3
#define WORD_BITS 32

/* Modes that follow each other and run alike. Links slower than 1 Gb/s have no RDMA. */
/* clang-format off */
static const struct {
	unsigned int first, last;
	struct host_speed speed;
} link_modes[] = {
	{4, 5, {1000, 1}}, /* T */
	{17, 17, {1000, 1}}, /* KX */
	{41, 41, {1000, 1}}, /* X */
	{68, 68, {1000, 1}}, /* T1 */
	{15, 15, {2500, 1}}, /* X */
	{47, 47, {2500, 1}}, /* T */
	{48, 48, {5000, 1}}, /* T */
	{12, 12, {10000, 1}}, /* T */
	{18, 18, {10000, 4}}, /* KX4 */
	{19, 20, {10000, 1}}, /* KR, R with FEC */
	{42, 46, {10000, 1}}, /* CR, SR, LR, LRM, ER */
	{21, 22, {20000, 2}}, /* MLD2, KR2 */
	{31, 33, {25000, 1}}, /* CR, KR, SR */
	{23, 26, {40000, 4}}, /* KR4 to LR4 */
	{34, 35, {50000, 2}}, /* CR2, KR2 */
	{40, 40, {50000, 2}}, /* SR2 */
	{52, 56, {50000, 1}}, /* KR to DR */
	{27, 30, {56000, 4}}, /* KR4 to LR4 */
	{36, 39, {100000, 4}}, /* KR4 to LR4 */
	{57, 61, {100000, 2}}, /* KR2 to DR2 */
	{75, 79, {100000, 1}}, /* KR to DR */
	{62, 66, {200000, 4}}, /* KR4 to CR4 */
	{80, 84, {200000, 2}}, /* KR2 to CR2 */
	{103, 108, {200000, 1}}, /* CR to VR */
	{69, 73, {400000, 8}}, /* KR8 to CR8 */
	{85, 89, {400000, 4}}, /* KR4 to CR4 */
	{109, 114, {400000, 2}}, /* CR2 to VR2 */
	{93, 98, {800000, 8}}, /* CR8 to VR8 */
	{115, 120, {800000, 4}}, /* CR4 to VR4 */
	{121, 124, {1600000, 8}}, /* CR8 to DR8-2 */
};
/* clang-format on */

static bool has_any(const uint32_t *modes, unsigned int n_words, unsigned int first,
		    unsigned int last)
{
	for (unsigned int at = first; at <= last && at / WORD_BITS < n_words; at++)
		if (modes[at / WORD_BITS] >> at % WORD_BITS & 1)
			return true;
	return false;
}

struct host_speed host_speed_of(const uint32_t *modes, unsigned int n_words)
{
	struct host_speed best = {0};

	for (unsigned int i = 0; i < sizeof(link_modes) / sizeof(link_modes[0]); i++) {
		struct host_speed speed = link_modes[i].speed;

		if (!has_any(modes, n_words, link_modes[i].first, link_modes[i].last))
			continue;
		if (speed.mbps > best.mbps ||
		    (speed.mbps == best.mbps && speed.n_lanes > best.n_lanes))
			best = speed;
	}
	return best;
}

/*
 * A port that runs faster than all its modes has modes that are unknown here. A port that runs at its best and has a lower rate has one
 * that is rounded: ib_get_eth_speed() of older kernels, which most drivers take it from, ends at 100 Gb/s.
 */
static bool is_contradicted(uint32_t now_mbps, uint32_t max_mbps, uint64_t rate_mbps)
{
	if (now_mbps == (uint32_t)SPEED_UNKNOWN)
		return false;
	return now_mbps > max_mbps || (now_mbps == max_mbps && rate_mbps < max_mbps);
}

/* The first answer has but the size of a bitmap, negative; asked with it, the second has the bitmaps. */
static bool ask_modes(host_ask_speed_fn *ask, void *arg, const char *netdev,
		      struct ethtool_link_settings *settings)
{
	int n_words;

	settings->cmd = ETHTOOL_GLINKSETTINGS;
	settings->link_mode_masks_nwords = 0;
	if (ask(arg, netdev, settings) < 0)
		return false;
	n_words = -settings->link_mode_masks_nwords;
	if (n_words <= 0 || n_words > MAX_WORDS)
		return false;
	settings->cmd = ETHTOOL_GLINKSETTINGS;
	settings->link_mode_masks_nwords = (int8_t)n_words;
	return ask(arg, netdev, settings) == 0 && settings->link_mode_masks_nwords == n_words;
}

void host_ask_speed(host_ask_speed_fn *ask, void *arg, struct host_nic *nic)
{
	_cleanup_free_ struct ethtool_link_settings *settings =
		calloc(1, sizeof(*settings) + N_BITMAPS * MAX_WORDS * sizeof(uint32_t));
	struct host_speed max;

	if (!settings || !ask_modes(ask, arg, nic->netdev, settings))
		return;
	max = host_speed_of(settings->link_mode_masks,
			    (unsigned int)settings->link_mode_masks_nwords);
	if (!max.mbps || is_contradicted(settings->speed, max.mbps, nic->rate_mbps))
		return;
	nic->max_rate_mbps = max.mbps;
	nic->max_lanes = max.n_lanes;
}

/* ---- InfiniBand ---------------------------------------------------------------------------------------------------- */

/*
 * IBTA PortInfo: CapabilityMask and CapabilityMask2; enum ibv_port_cap_flags and ibv_port_cap_flags2 of <infiniband/verbs.h>,
 * which has that of XDR since 2024, as <rdma/ib_mad.h> of the kernel has.
 */
#define HAS_EXTENDED_SPEEDS (1u << 14)
#define HAS_CAP_MASK2 (1u << 15)
#define HAS_WIDTH_2X (1u << 4)
#define HAS_HDR (1u << 5)
#define HAS_NDR (1u << 10)
#define HAS_XDR (1u << 12)
#define MOST_LANES 4 /* of a NIC's port */

/* The rate of one lane. *ret_is_exact: the masks rule out any faster rate. */
static uint32_t class_mbps(uint32_t cap_mask, uint32_t cap_mask2, bool *ret_is_exact)
{
	*ret_is_exact = true;
	if (cap_mask & HAS_CAP_MASK2) {
		if (cap_mask2 & HAS_XDR)
			return 200000;
		if (cap_mask2 & HAS_NDR)
			return 100000;
		if (cap_mask2 & HAS_HDR)
			return 50000;
	}
	*ret_is_exact = false;
	return cap_mask & HAS_EXTENDED_SPEEDS ? 14000 : 0; /* FDR, or EDR */
}

/*
 * Widths are not told but that of two lanes, and cards there are that have their best class over two lanes alone, and what is
 * slower over four: an NDR one that runs as HDR then has lost nothing.
 */
uint64_t host_ib_max_mbps(uint32_t cap_mask, uint32_t cap_mask2, uint64_t rate_mbps,
			  uint32_t n_lanes)
{
	bool is_exact, is_best, is_2x = cap_mask & HAS_CAP_MASK2 && cap_mask2 & HAS_WIDTH_2X;
	uint64_t lane_mbps = class_mbps(cap_mask, cap_mask2, &is_exact);
	uint64_t sure_mbps = lane_mbps * (is_2x && n_lanes > 2 ? 2 : n_lanes);

	if (rate_mbps < sure_mbps)
		return sure_mbps;
	is_best = is_exact && n_lanes >= MOST_LANES && rate_mbps == lane_mbps * n_lanes;
	return is_best ? rate_mbps : 0;
}

/* ---- all NICs ------------------------------------------------------------------------------------------------------ */

static int ask_kernel(void *arg, const char *netdev, struct ethtool_link_settings *settings)
{
	struct ifreq request = {.ifr_data = (char *)settings};
	size_t n = strlen(netdev);

	if (!n || n >= sizeof(request.ifr_name))
		return -ENODEV;
	memcpy(request.ifr_name, netdev, n);
	return ioctl(*(int *)arg, SIOCETHTOOL, &request) == 0 ? 0 : -errno;
}

/* Sockets of every family pass this on to the interface. */
void host_ask_speeds(struct host_nic *const *nics, unsigned int n)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	for (unsigned int i = 0; fd >= 0 && i < n; i++)
		if (nics[i]->fabric == HOST_FABRIC_ETHERNET)
			host_ask_speed(ask_kernel, &fd, nics[i]);
}
