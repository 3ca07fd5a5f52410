/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one thing that takes a device to be opened: the active MTU of a port.
 *
 * It is closed at once. A kernel whose driver cannot take a device away from its users lets `rdma link delete` wait until
 * the last of them has closed it, and that must not be the daemon. Any thread.
 */
#include "daemon/nic/proxy/proxy.h"

#include <string.h>

#include <infiniband/verbs.h>

/* "bnxt_re0:2" is a port of bnxt_re0. */
static bool is_device(const char *name, const char *device)
{
	size_t n = strlen(device);

	return strncmp(name, device, n) == 0 && (name[n] == 0 || name[n] == ':');
}

static uint32_t ask(struct ibv_device *device, uint32_t port)
{
	struct ibv_context *ibv = ibv_open_device(device);
	struct ibv_port_attr attr = {0};
	bool told;

	if (!ibv)
		return 0;
	told = ibv_query_port(ibv, (uint8_t)port, &attr) == 0;
	ibv_close_device(ibv);
	return told && attr.active_mtu >= IBV_MTU_256 && attr.active_mtu <= IBV_MTU_4096
		? 128u << attr.active_mtu : 0;
}

uint32_t proxy_mtu_bytes(const char *name, uint32_t port)
{
	struct ibv_device **devices;
	uint32_t bytes = 0;
	int n = 0;

	devices = ibv_get_device_list(&n);
	for (int i = 0; devices && i < n && !bytes; i++)
		if (is_device(name, ibv_get_device_name(devices[i])))
			bytes = ask(devices[i], port);
	if (devices)
		ibv_free_device_list(devices);
	return bytes;
}
