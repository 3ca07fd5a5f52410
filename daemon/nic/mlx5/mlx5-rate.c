/* SPDX-License-Identifier: Apache-2.0 */
/* From what verbs says, and from sysfs where that ends. Keeps nothing. */
#include "daemon/nic/mlx5/mlx5-rate.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "proto/base/cleanup.h"

#define PATH_BYTES 512
#define TEXT_BYTES 64
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

/* "800 Gb/sec (4X XDR)" */
static uint64_t read_rate(const char *nic, uint8_t port)
{
	char path[PATH_BYTES], text[TEXT_BYTES], last;
	_cleanup_close_ int fd = -1;
	unsigned int gbps;
	ssize_t n;

	snprintf(path, sizeof(path), "%.256s/ports/%u/rate", nic, port);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	text[n > 0 ? n : 0] = 0;
	return sscanf(text, "%7u Gb/se%c", &gbps, &last) == 2 ? (uint64_t)gbps * 1000 : 0;
}

/*
 * The kernel tells verbs NDR of every port that is faster, which the byte has no room for; sysfs has the speed itself. So below NDR
 * verbs is asked alone, and at NDR the larger of the two counts.
 */
uint64_t mlx5_rate_mbps(const char *nic, uint8_t port, uint8_t width, uint8_t speed)
{
	uint64_t told = rate_of_codes(width, speed), read = speed == SPEED_NDR ? read_rate(nic, port) : 0;

	return read > told ? read : told;
}
