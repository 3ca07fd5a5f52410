/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NICs of this host that libmlx5 drives: one struct nic for each port.
 *
 * A device that cannot be used (no DEVX, no RC, no usable address) is left out with its reason told to the caller;
 * the others are not affected. Control thread, but the probe.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "daemon/host/host.h"
#include "proto/base/cleanup.h"

/* Three of libmlx5 (44), and the doorbell page of mode cpu. */
#define MAPS_PER_CTX 4

#define DEFAULT_GPU_POLL_USEC 20u

static struct nic *mlx5_close(struct nic *base)
{
	struct mlx5_nic *nic = mlx5_nic(base);

	list_del(&nic->base.link);
	mlx5_ctx_pool_deinit(nic);
	mappers_deinit(&nic->mappers);
	if (nic->ibv)
		ibv_close_device(nic->ibv);
	safe_close(nic->base.event_fd);
	safe_close(nic->more_fd);
	safe_close(nic->return_fd);
	if (nic->former_ibv)
		ibv_close_device(nic->former_ibv);
	mlx5_life_free(nic->next);
	if (nic->trace)
		fclose(nic->trace);
	pthread_mutex_destroy(&nic->lock);
	free(nic);
	return NULL;
}

/*
 * Sums of all contexts since the daemon's start, as each was asked last; hardware keeps no totals in these terms. A client can
 * destroy its own set alone.
 */
static int mlx5_counters(struct nic *base, struct nic_counters *ret_counters)
{
	struct mlx5_nic *nic = mlx5_nic(base);
	struct nic_counters sum;
	struct mlx5_ctx *ctx;

	pthread_mutex_lock(&nic->lock);
	sum = nic->past;
	list_for_each_entry (ctx, &nic->ctxs, link)
		nic_counters_add(&sum, &ctx->counters);
	pthread_mutex_unlock(&nic->lock);
	*ret_counters = sum;
	return 0;
}

/* A NIC that is lost is looked for first. */
static int query(struct nic *base, struct nic_info *ret_info)
{
	struct mlx5_nic *nic = mlx5_nic(base);

	if (mlx5_is_lost(nic))
		mlx5_return_find(nic);
	return mlx5_port_query(nic, ret_info);
}

/* Imported queues did not rest: they are the NIC's. */
static void mlx5_resume(struct nic *nic)
{
}

static const struct nic_ops mlx5_ops = {
	.close = mlx5_close,
	.query = query,
	.counters = mlx5_counters,
	.next_event = mlx5_next_event,
	.port_set = nic_no_port_set,
	.ctx_open = mlx5_ctx_open,
	.ctx_close = mlx5_ctx_close,
	.ctx_to_cpu = mlx5_ctx_to_cpu,
	.agent_attach = nic_no_agent_attach,
	.mr_reg = mlx5_mr_reg,
	.mr_dereg = mlx5_mr_dereg,
	.queues_create = mlx5_queues_create,
	.queues_destroy = mlx5_queues_destroy,
	.connect = mlx5_connect,
	.resolve = mlx5_resolve,
	.qp_modify = mlx5_qp_modify,
	.qp_query = mlx5_qp_query,
	.queues_read = mlx5_queues_read,
	.ctx_counters = mlx5_ctx_counters,
	.ctx_look = mlx5_ctx_look,
	.ctx_quiesce = mlx5_ctx_quiesce,
	.ctx_export = mlx5_ctx_export,
	.mr_export = mlx5_mr_export,
	.queues_export = mlx5_queues_export,
	.ctx_saved_fds = mlx5_ctx_saved_fds,
	.ctx_import = mlx5_ctx_import,
	.ctx_unimport = mlx5_ctx_unimport,
	.resume = mlx5_resume,
	.rest = nic_no_rest,
	.ctx_pool_set = mlx5_ctx_pool_set,
	.ctx_pool_query = mlx5_ctx_pool_query,
	.ctx_pool_step = mlx5_ctx_pool_step,
	.queues_take = mlx5_queues_take,
};

/* ---- probe --------------------------------------------------------------------------------------------------------- */

static struct mlx5_nic *nic_alloc(void)
{
	struct mlx5_nic *nic = calloc(1, sizeof(*nic));

	if (!nic)
		return NULL;
	nic->base.ops = &mlx5_ops;
	nic->base.blocks = true;
	nic->base.maps_per_ctx = MAPS_PER_CTX;
	nic->base.records_states = true;
	nic->base.event_fd = epoll_create1(EPOLL_CLOEXEC);
	nic->more_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	nic->return_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	list_init(&nic->base.link);
	pthread_mutex_init(&nic->lock, NULL);
	list_init(&nic->ctxs);
	list_init(&nic->news);
	mlx5_ctx_pool_init(nic);
	mappers_init(&nic->mappers, &(struct mappers_attr){.bells.name = nic->base.name});
	nic->last_key = MLX5_WATCH_KEYS;
	return nic;
}

/* "mlx5_0", or "mlx5_0:2" for the second port of a NIC that has two. */
static int set_name(struct mlx5_nic *nic, const char *device, uint8_t port, uint8_t n_ports)
{
	int n = n_ports > 1
			? snprintf(nic->base.name, sizeof(nic->base.name), "%s:%u", device, port)
			: snprintf(nic->base.name, sizeof(nic->base.name), "%s", device);

	return n < (int)sizeof(nic->base.name) ? 0 : -ENAMETOOLONG;
}

/* The last part of where sysfs' link leads; empty for what is not on PCI. */
static void set_pci(struct mlx5_nic *nic)
{
	char path[IBV_SYSFS_PATH_MAX + 16], *real, *last;
	unsigned int domain, bus, slot, function;

	snprintf(path, sizeof(path), "%s/device", nic->ibv->device->ibdev_path);
	real = realpath(path, NULL);
	last = real ? strrchr(real, '/') : NULL;
	if (last && sscanf(last, "/%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4)
		snprintf(nic->pci, sizeof(nic->pci), "%.15s", last + 1);
	free(real);
}

static int watch_all(struct mlx5_nic *nic)
{
	int r = mlx5_events_watch(nic, nic->more_fd, MLX5_WATCH_MORE);

	if (r == 0)
		r = mlx5_events_watch(nic, nic->return_fd, MLX5_WATCH_RETURN);
	return r < 0 ? r : mlx5_nic_watch(nic, nic->ibv);
}

/* -EOPNOTSUPP: a way that this libmlx5 has not, or that there is not. */
static int choose_objects(struct mlx5_nic *nic, const char *objects)
{
	bool library = !objects || strcmp(objects, "library") == 0;

	if (!library && strcmp(objects, "ioctl") != 0)
		return -EOPNOTSUPP;
	if (mlx5_library_find(&nic->library_functions))
		nic->library = library ? &nic->library_functions : NULL;
	else if (objects && library)
		return -EOPNOTSUPP;
	return 0;
}

static int nic_init(struct mlx5_nic *nic, struct ibv_device *device, uint8_t port,
		    const struct nic_mlx5_attr *attr)
{
	struct nic_info info;
	int r;

	if (nic->base.event_fd < 0 || nic->more_fd < 0 || nic->return_fd < 0)
		return -EMFILE;
	r = choose_objects(nic, attr->objects);
	if (r < 0)
		return r;
	mappers_deinit(&nic->mappers);
	mappers_init(&nic->mappers, &(struct mappers_attr){
					    .bells = {.name = nic->base.name,
						      .gpu_poll_usec = attr->gpu_poll_usec ? attr->gpu_poll_usec
											   : DEFAULT_GPU_POLL_USEC,
						      .spin_usec = attr->spin_usec},
					    .start_process = attr->start_process,
					    .start_arg = attr->start_arg,
				    });
	nic->port.number = port;
	nic->port.max_mtu_log2 = attr->max_mtu_log2;
	if (attr->trace) {
		nic->trace = fopen(attr->trace, "ae");
		if (!nic->trace)
			return -errno;
	}
	r = mlx5_open(device, &nic->ibv);
	if (r == 0)
		r = mlx5_caps_query(nic, nic->ibv, &nic->caps);
	if (r == 0 && !nic->caps.rc)
		r = -EOPNOTSUPP;
	if (r == 0)
		r = set_name(nic, ibv_get_device_name(device), port, nic->caps.num_ports);
	if (r == 0)
		r = mlx5_port_init(nic, nic->ibv, &nic->caps, &nic->port);
	if (r == 0)
		r = watch_all(nic);
	if (r < 0)
		return r;
	set_pci(nic);
	return mlx5_port_query(nic, &info);
}

/* *n_ports is what the device says, as soon as it says it: also where this port cannot be used. */
static int nic_new(struct ibv_device *device, uint8_t port, const struct nic_mlx5_attr *attr, uint8_t *n_ports,
		   struct mlx5_nic **ret_nic)
{
	struct mlx5_nic *nic = nic_alloc();
	int r;

	if (!nic)
		return -ENOMEM;
	r = nic_init(nic, device, port, attr);
	if (nic->caps.num_ports)
		*n_ports = nic->caps.num_ports;
	if (r < 0) {
		mlx5_close(&nic->base);
		return r;
	}
	*ret_nic = nic;
	return 0;
}

static void tell_unusable(struct nic_mlx5_report *report, const char *device, int r)
{
	size_t used = strlen(report->unusable);

	snprintf(report->unusable + used, sizeof(report->unusable) - used, "%s%s: %s",
		 used ? "; " : "", device, strerror(-r));
}

/* libibverbs passes over a device whose node is not there, as where a service has a /dev of its own. */
static void tell_nodes(struct nic_mlx5_report *report)
{
	DIR *dir = opendir(MLX5_SYSFS_VERBS);
	char path[sizeof(MLX5_DEV_VERBS) + 32];
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), MLX5_DEV_VERBS "/%.31s", entry->d_name);
		if (strncmp(entry->d_name, "uverbs", 6) == 0 && access(path, F_OK) < 0)
			tell_unusable(report, path, -errno);
	}
	if (dir)
		closedir(dir);
}

static bool is_left_alone(struct ibv_device *device, uint8_t port, const struct nic_mlx5_attr *attr)
{
	uint64_t guid = be64toh(ibv_get_device_guid(device));

	for (unsigned int i = 0; i < attr->n_managed; i++)
		if (host_is_managed(&attr->managed[i], ibv_get_device_name(device), guid, port))
			return true;
	return false;
}

/* Without a question to the device, of which a port may be in use. At least 1. */
static uint8_t count_ports(struct ibv_device *device)
{
	char path[IBV_SYSFS_PATH_MAX + 16];
	struct dirent *entry;
	uint8_t n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/ports", device->ibdev_path);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		n += entry->d_name[0] != '.' && n < UINT8_MAX - 1;
	if (dir)
		closedir(dir);
	return n ? n : 1;
}

/* One device's error is logged and does not end the others. */
static int probe_device(struct ibv_device *device, const struct nic_mlx5_attr *attr,
			struct list *nics, struct nic_mlx5_report *report)
{
	struct mlx5_nic *nic = NULL;
	uint8_t n_ports = count_ports(device);
	int r = 0;

	for (uint8_t port = 1; port <= n_ports; port++) {
		if (is_left_alone(device, port, attr))
			continue;
		r = nic_new(device, port, attr, &n_ports, &nic);
		if (r == -ENOMEM)
			return r;
		if (r < 0) {
			tell_unusable(report, ibv_get_device_name(device), r);
			continue;
		}
		list_add_tail(nics, &nic->base.link);
	}
	return 0;
}

int nic_mlx5_probe(const struct nic_mlx5_attr *attr, struct list *nics,
		   struct nic_mlx5_report *ret_report)
{
	struct nic_mlx5_report report = {0};
	struct ibv_device **devices;
	struct list made;
	int n = 0, r = 0;

	/* Without RDMA in the kernel nothing of libibverbs is needed, nor the sockets that it would open. */
	if (access(MLX5_SYSFS_VERBS, F_OK) < 0) {
		*ret_report = report;
		return 0;
	}
	errno = 0;
	devices = ibv_get_device_list(&n);
	if (!devices)
		return errno ? -errno : -EIO;
	list_init(&made);
	tell_nodes(&report);
	for (int i = 0; i < n && r == 0; i++)
		if (mlx5dv_is_supported(devices[i]))
			r = probe_device(devices[i], attr, &made, &report);
	ibv_free_device_list(devices);
	if (r == 0) {
		list_splice_tail(nics, &made);
		*ret_report = report;
		return 0;
	}
	while (!list_empty(&made))
		mlx5_close(list_first_entry(&made, struct nic, link));
	return r;
}
