/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this host has of what the backend needs: each device is opened as for a session, asked, tried and closed. Nothing
 * stays, a running daemon is not disturbed, and what fails is a fact like any other. One thread, which may block.
 */
#include "daemon/nic/mlx5/mlx5.h"
#include "daemon/nic/mlx5/mlx5-needs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define TEST_BYTES 4096u

/* ---- the host ------------------------------------------------------------------------------------------------------ */

static void gather_limits(struct mlx5_host_facts *facts)
{
	struct mlx5_library library;
	struct rlimit limit;

	facts->capabilities_error = mlx5_capabilities(&facts->capabilities);
	facts->memory_lock_error = getrlimit(RLIMIT_MEMLOCK, &limit) < 0 ? -errno : 0;
	if (facts->memory_lock_error == 0)
		facts->memory_lock_bytes = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
	facts->exports = mlx5_library_find(&library);
}

static void check_nodes(nic_need_fn tell, void *arg)
{
	DIR *dir = opendir(MLX5_SYSFS_VERBS);
	char path[sizeof(MLX5_DEV_VERBS) + 32];
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), MLX5_DEV_VERBS "/%.31s", entry->d_name);
		if (strncmp(entry->d_name, "uverbs", 6) == 0 && access(path, R_OK | W_OK) < 0)
			mlx5_need_of_node(path, -errno, tell, arg);
	}
	if (dir)
		closedir(dir);
}

/* ---- a device ------------------------------------------------------------------------------------------------------ */

static int try_uar(struct ibv_context *ibv)
{
	struct mlx5_uar *uar;
	int err = mlx5_uar_alloc(ibv, &uar);

	if (err)
		return mlx5_errno(err);
	mlx5_uar_free(uar);
	return 0;
}

static int try_dmabuf(struct ibv_context *ibv)
{
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	int r;

	errno = 0;
	pd = ibv_alloc_pd(ibv);
	if (!pd)
		return mlx5_errno(errno);
	errno = 0;
	mr = ibv_reg_dmabuf_mr(pd, 0, TEST_BYTES, 0, -1, IBV_ACCESS_LOCAL_WRITE);
	r = mr ? 0 : mlx5_errno(errno);
	if (mr)
		ibv_dereg_mr(mr);
	ibv_dealloc_pd(pd);
	return r;
}

/* Its name tells that somebody has prepared the host; whether it finds a page, who has one tries. */
static const char *find_peer_module(void)
{
	static const char *const modules[] = {"nvidia_peermem", "nv_peer_mem"};
	const char *root = getenv("SHMEMD_SYSFS");
	char path[512];

	for (unsigned int i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
		snprintf(path, sizeof(path), "%s/module/%s", root && root[0] == '/' ? root : "/sys", modules[i]);
		if (access(path, F_OK) == 0)
			return modules[i];
	}
	return NULL;
}

static void check_port(struct mlx5_nic *nic, struct ibv_context *ibv, const struct mlx5_caps *caps, uint8_t number,
		       const char *name, nic_need_fn tell, void *arg)
{
	struct mlx5_port port = {.number = number};
	struct mlx5_port_facts facts = {.name = name, .link = caps->link};
	struct ibv_port_attr attr;
	int err = ibv_query_port(ibv, number, &attr);

	facts.state_error = err ? mlx5_errno(err) : 0;
	if (!err)
		facts.state = mlx5_port_state(&attr);
	facts.gid_error = mlx5_port_init(nic, ibv, caps, &port);
	memcpy(facts.gid, port.gid, sizeof(facts.gid));
	mlx5_needs_of_port(&facts, tell, arg);
}

static void check_device(struct ibv_device *device, nic_need_fn tell, void *arg)
{
	struct mlx5_device_facts facts = {.name = ibv_get_device_name(device)};
	struct mlx5_nic nic = {0}; /* nobody's: commands want one for their trace */
	struct ibv_context *ibv = NULL;
	char name[NIC_NAME_BYTES + 8];

	facts.open_error = facts.caps_error = mlx5_open(device, &ibv);
	if (ibv) {
		facts.caps_error = mlx5_caps_query(&nic, ibv, &facts.caps);
		facts.uar_error = try_uar(ibv);
		facts.dmabuf_error = try_dmabuf(ibv);
		facts.peer_module = find_peer_module();
	}
	mlx5_needs_of_device(&facts, tell, arg);
	for (uint8_t port = 1; facts.caps_error == 0 && port <= facts.caps.num_ports; port++) {
		snprintf(name, sizeof(name), facts.caps.num_ports > 1 ? "%.31s:%u" : "%.31s", facts.name, port);
		check_port(&nic, ibv, &facts.caps, port, name, tell, arg);
	}
	if (ibv)
		ibv_close_device(ibv);
}

void nic_mlx5_check(nic_need_fn tell, void *arg)
{
	struct mlx5_host_facts facts = {.has_verbs = access(MLX5_SYSFS_VERBS, F_OK) == 0};
	struct ibv_device **devices = NULL;
	int n = 0;

	errno = 0;
	if (facts.has_verbs)
		devices = ibv_get_device_list(&n);
	if (facts.has_verbs && !devices)
		facts.list_error = errno ? -errno : -EIO;
	for (int i = 0; devices && i < n; i++)
		facts.n_devices += mlx5dv_is_supported(devices[i]);
	gather_limits(&facts);
	mlx5_needs_of_host(&facts, tell, arg);
	if (facts.has_verbs)
		check_nodes(tell, arg);
	for (int i = 0; devices && i < n; i++)
		if (mlx5dv_is_supported(devices[i]))
			check_device(devices[i], tell, arg);
	if (devices)
		ibv_free_device_list(devices);
}
