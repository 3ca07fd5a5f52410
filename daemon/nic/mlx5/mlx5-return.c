/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A NIC that was lost and returns: found again by its GUID, opened anew, and used for new contexts.
 *
 * The kernel has no event for a process without an open device, so shmemd searches the list of devices while the NIC is lost:
 * four times a second at first, then every two seconds. Contexts of the NIC's former life stay lost and end with their sessions.
 *
 * Opening a device takes commands, so a query on any thread does it; the control thread takes over the NIC that was found.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "proto/base/cleanup.h"

#define RETURN_LOOK_NSEC 250000000l
#define LATER_SEC 2
#define N_QUICK_LOOKS 40u

static void set_timer(struct mlx5_nic *nic, struct timespec every)
{
	const struct itimerspec spec = {.it_interval = every, .it_value = every};

	/* Cannot fail with a descriptor of our own and constant times. */
	timerfd_settime(nic->return_fd, 0, &spec, NULL);
}

void mlx5_return_wait(struct mlx5_nic *nic, bool on)
{
	nic->n_looks = 0;
	set_timer(nic, (struct timespec){.tv_nsec = on ? RETURN_LOOK_NSEC : 0});
}

struct mlx5_life *mlx5_life_free(struct mlx5_life *life)
{
	if (life && life->ibv)
		ibv_close_device(life->ibv);
	free(life);
	return NULL;
}
DEFINE_CLEANUP(struct mlx5_life *, mlx5_life_free);

/* ---- finding it: any thread ---------------------------------------------------------------------------------------- */

/* An incomplete device does not answer: the next search asks again. */
static int open_again(struct mlx5_nic *nic, struct ibv_device *device, struct mlx5_life *life)
{
	struct ibv_port_attr attr = {0};
	int r = mlx5_open(device, &life->ibv);

	if (r == 0)
		r = mlx5_caps_query(nic, life->ibv, &life->caps);
	if (r < 0)
		return r;
	life->port.number = mlx5_port_now(nic).number;
	life->port.max_mtu_log2 = mlx5_port_now(nic).max_mtu_log2;
	r = mlx5_port_init(nic, life->ibv, &life->caps, &life->port);
	if (r == 0 && ibv_query_port(life->ibv, life->port.number, &attr))
		r = -EIO;
	mlx5_port_learn(&life->port, &attr);
	life->state = mlx5_port_state(&attr);
	return r;
}

static int find_again(struct mlx5_nic *nic, struct mlx5_life *life)
{
	uint64_t guid = ibv_get_device_guid(mlx5_ibv_now(nic)->device);
	struct ibv_device **devices;
	int n = 0, r = -ENODEV;

	devices = ibv_get_device_list(&n);
	for (int i = 0; devices && i < n && r < 0 && !life->ibv; i++)
		if (ibv_get_device_guid(devices[i]) == guid && mlx5dv_is_supported(devices[i]))
			r = open_again(nic, devices[i], life);
	if (devices)
		ibv_free_device_list(devices);
	return r;
}

/* Returns false if it was found already. *ret_former is the context of two lives ago, which no thread uses any more. */
static bool begin_search(struct mlx5_nic *nic, struct ibv_context **ret_former)
{
	bool search;

	pthread_mutex_lock(&nic->lock);
	search = nic->lost && !nic->next;
	*ret_former = search ? take_ptr(nic->former_ibv) : NULL;
	pthread_mutex_unlock(&nic->lock);
	return search;
}

void mlx5_return_find(struct mlx5_nic *nic)
{
	_cleanup_(mlx5_life_freep) struct mlx5_life *life = calloc(1, sizeof(*life));
	struct ibv_context *former;

	if (!life || !begin_search(nic, &former))
		return;
	if (former)
		ibv_close_device(former);
	if (find_again(nic, life) < 0)
		return;
	pthread_mutex_lock(&nic->lock);
	nic->next = take_ptr(life);
	pthread_mutex_unlock(&nic->lock);
	mlx5_events_wake(nic);
}

/* ---- control thread ------------------------------------------------------------------------------------------------ */

int mlx5_return_look(struct mlx5_nic *nic, struct nic_event *ret_event)
{
	uint64_t n;

	if (read(nic->return_fd, &n, sizeof(n)) < 0 || !mlx5_is_lost(nic))
		return -EAGAIN;
	/* With many devices a search takes time. */
	if (++nic->n_looks == N_QUICK_LOOKS)
		set_timer(nic, (struct timespec){.tv_sec = LATER_SEC});
	*ret_event = (struct nic_event){.kind = NIC_EVENT_LOOK};
	return 0;
}

static void change_life(struct mlx5_nic *nic, struct mlx5_life *life)
{
	nic->former_ibv = nic->ibv;
	nic->ibv = take_ptr(life->ibv);
	nic->caps = life->caps;
	nic->port = life->port;
	nic->readdress = false;
	nic->ended = false;
	nic->lost = false;
	nic->life++;
}

bool mlx5_return_take(struct mlx5_nic *nic, struct nic_event *ret_event)
{
	_cleanup_(mlx5_life_freep) struct mlx5_life *life = NULL;
	int before = nic->ibv->async_fd;

	pthread_mutex_lock(&nic->lock);
	life = take_ptr(nic->next);
	pthread_mutex_unlock(&nic->lock);
	if (!life || mlx5_nic_watch(nic, life->ibv) < 0)
		return false;
	mlx5_events_unwatch(nic, before);
	pthread_mutex_lock(&nic->lock);
	change_life(nic, life);
	pthread_mutex_unlock(&nic->lock);
	mlx5_return_wait(nic, false);
	*ret_event = (struct nic_event){.kind = NIC_EVENT_RETURNED, .state = life->state};
	return true;
}
