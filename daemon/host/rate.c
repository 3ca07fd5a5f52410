/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a port runs: by verbs, and by sysfs where the codes of verbs end. Keeps nothing. */
#include <fcntl.h>
#include <stdio.h>

#include "daemon/host/host.h"
#include "daemon/host/sysfs.h"

#define SPEED_NDR 128 /* the last that a byte has room for */

/* IBTA PortInfo: LinkWidthActive is a bit, lanes 1 4 8 12 2; LinkSpeedActive is a bit, Mbit/s of each lane. */
static uint64_t rate_of_codes(uint8_t width, uint8_t speed)
{
	static const struct {
		uint8_t code;
		uint32_t value;
	} lanes[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}},
	  speeds[] = {{1, 2500},   {2, 5000},	{4, 10000},  {8, 10000},
		      {16, 14000}, {32, 25000}, {64, 50000}, {SPEED_NDR, 100000}};
	uint64_t n = 0, mbps = 0;

	for (size_t i = 0; i < sizeof(lanes) / sizeof(lanes[0]); i++)
		n = lanes[i].code == width ? lanes[i].value : n;
	for (size_t i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++)
		mbps = speeds[i].code == speed ? speeds[i].value : mbps;
	return n * mbps;
}

static uint64_t read_rate(const char *nic, uint8_t port)
{
	char path[SYSFS_PATH_BYTES], text[SYSFS_TEXT_BYTES];

	snprintf(path, sizeof(path), "%.256s/ports/%u/rate", nic, port);
	return sysfs_text(AT_FDCWD, path, text) ? host_parse_rate(text, NULL) : 0;
}

/*
 * The byte of verbs has no room for speeds beyond NDR, so the kernel reports NDR for every faster port; sysfs has the speed
 * itself. Below NDR only verbs counts, and at NDR the larger of the two.
 */
uint64_t host_rate_mbps(const char *nic, uint8_t port, uint8_t width, uint8_t speed)
{
	uint64_t told = rate_of_codes(width, speed), read = speed == SPEED_NDR ? read_rate(nic, port) : 0;

	return read > told ? read : told;
}
