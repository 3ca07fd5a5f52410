/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/port-counters.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/cleanup.h"

/* IBTA PortCounters: PortXmitData and PortRcvData count words of four bytes. */
#define WORD_BYTES 4u

static int parse(const char *text, uint64_t *ret_value)
{
	char *end;

	/* strtoull() would take a sign, and spaces before it. */
	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	*ret_value = strtoull(text, &end, 10);
	if (errno || (*end && *end != '\n'))
		return -EINVAL;
	return *ret_value == UINT32_MAX ? -ERANGE : 0;
}

static int read_number(const char *path, uint64_t *ret_value)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char text[32];
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return -errno;
	text[n] = 0;
	return parse(text, ret_value);
}

int port_counters_read(const char *sysfs, const char *nic, uint32_t port, uint64_t *ret_bytes)
{
	static const char *const names[] = {"port_xmit_data", "port_rcv_data"};
	int name_bytes = (int)strcspn(nic, ":");
	uint64_t words = 0, sum = 0;
	char path[512];
	int n, r;

	if (!name_bytes || strchr(nic, '/') || nic[0] == '.')
		return -ENOENT;
	for (unsigned int i = 0; i < 2; i++) {
		n = snprintf(path, sizeof(path), "%s/class/infiniband/%.*s/ports/%u/counters/%s", sysfs, name_bytes, nic, port, names[i]);
		if (n >= (int)sizeof(path))
			return -ENAMETOOLONG;
		r = read_number(path, &words);
		if (r < 0)
			return r;
		sum += words * WORD_BYTES;
	}
	*ret_bytes = sum;
	return 0;
}
