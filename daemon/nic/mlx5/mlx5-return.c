/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A NIC that was lost and returns: found again by its GUID, opened anew, and used for new contexts.
 *
 * The kernel tells nobody who has no device open, so as long as the NIC is lost the list of devices is looked at a few times
 * a second. What was made before stays lost: its contexts belong to the NIC's former life and end as their sessions do.
 *
 * Control thread.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define LOOK_NSEC 250000000l

void mlx5_return_wait(struct mlx5_nic *nic, bool on)
{
	const struct itimerspec often = {.it_interval.tv_nsec = LOOK_NSEC, .it_value.tv_nsec = LOOK_NSEC};
	const struct itimerspec never = {0};

	/* Its own descriptor and constant times: it does not fail. */
	timerfd_settime(nic->return_fd, 0, on ? &often : &never, NULL);
}

/* What is not yet complete has no answer: it is asked again. */
static int open_again(struct mlx5_nic *nic, struct ibv_device *device)
{
	struct ibv_context *before = nic->ibv, *now;
	int r = mlx5_open(device, &now);

	if (r < 0)
		return r;
	nic->ibv = now;
	r = mlx5_caps_query(nic);
	if (r == 0)
		r = mlx5_port_init(nic, nic->port.number);
	if (r == 0)
		r = mlx5_nic_watch(nic);
	if (r < 0) {
		nic->ibv = before;
		ibv_close_device(now);
		return r;
	}
	/* A thread may still look at it; not at the one of two lives ago. */
	mlx5_events_unwatch(nic, before->async_fd);
	if (nic->former_ibv)
		ibv_close_device(nic->former_ibv);
	nic->former_ibv = before;
	return 0;
}

static int find_again(struct mlx5_nic *nic)
{
	uint64_t guid = ibv_get_device_guid(nic->ibv->device);
	struct ibv_device **devices;
	int n = 0, r = -ENODEV;

	devices = ibv_get_device_list(&n);
	for (int i = 0; devices && i < n && r < 0; i++)
		if (ibv_get_device_guid(devices[i]) == guid && mlx5dv_is_supported(devices[i]))
			r = open_again(nic, devices[i]);
	if (devices)
		ibv_free_device_list(devices);
	return r;
}

int mlx5_return_look(struct mlx5_nic *nic, struct nic_event *ret_event)
{
	struct nic_info info;
	uint64_t n;

	if (read(nic->return_fd, &n, sizeof(n)) < 0 || !nic->lost || find_again(nic) < 0)
		return -EAGAIN;
	nic->lost = false;
	nic->life++;
	mlx5_return_wait(nic, false);
	*ret_event = (struct nic_event){.kind = NIC_EVENT_RETURNED, .state = NIC_PORT_DOWN};
	if (mlx5_query(&nic->base, &info) == 0)
		ret_event->state = info.state;
	return 0;
}
