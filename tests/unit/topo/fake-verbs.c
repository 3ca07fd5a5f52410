/* SPDX-License-Identifier: Apache-2.0 */
/* libibverbs and libmlx5 in one, with devices that answer as old, new and locked ones do. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define N_DEVICES 5
#define N_OPEN_MAX 1

struct ibv_device {
	const char *name;
	bool is_mlx5;
	int devx_error;
	int open_error;
	int dmabuf_error;
	bool has_bf;
	unsigned int operations;
	uint32_t active_mtu;
};

struct context_attr {
	uint32_t flags;
	uint64_t comp_mask;
};

static struct ibv_device devices[N_DEVICES] = {
	{.name = "new", .is_mlx5 = true, .dmabuf_error = EBADF, .has_bf = true, .operations = 0xf, .active_mtu = 5},
	{.name = "old", .is_mlx5 = true, .dmabuf_error = EOPNOTSUPP, .operations = 0x3, .active_mtu = 3},
	{.name = "closed", .is_mlx5 = true, .devx_error = EOPNOTSUPP, .dmabuf_error = EINVAL, .active_mtu = 1},
	{.name = "locked", .is_mlx5 = true, .devx_error = EACCES, .open_error = EACCES},
	{.name = "other", .dmabuf_error = EBADF, .active_mtu = 77},
};

static int n_open;

EXPORT struct ibv_device **ibv_get_device_list(int *n);
EXPORT void ibv_free_device_list(struct ibv_device **list);
EXPORT const char *ibv_get_device_name(struct ibv_device *device);
EXPORT struct ibv_device *ibv_open_device(struct ibv_device *device);
EXPORT int ibv_close_device(struct ibv_device *device);
EXPORT int ibv_query_port(struct ibv_device *device, uint8_t port, uint32_t *attr);
EXPORT struct ibv_device *ibv_alloc_pd(struct ibv_device *device);
EXPORT int ibv_dealloc_pd(struct ibv_device *pd);
EXPORT void *ibv_reg_dmabuf_mr(struct ibv_device *pd, uint64_t offset, size_t n_bytes, uint64_t iova, int fd, int access);
EXPORT int ibv_dereg_mr(void *mr);
EXPORT bool mlx5dv_is_supported(struct ibv_device *device);
EXPORT struct ibv_device *mlx5dv_open_device(struct ibv_device *device, struct context_attr *attr);
EXPORT int mlx5dv_devx_general_cmd(struct ibv_device *device, const uint8_t *in, size_t in_bytes, uint8_t *out, size_t out_bytes);

struct ibv_device **ibv_get_device_list(int *n)
{
	static struct ibv_device *list[N_DEVICES + 1];

	for (int i = 0; i < N_DEVICES; i++)
		list[i] = &devices[i];
	*n = N_DEVICES;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	list[0] = NULL;
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

/* One at a time: a caller that leaves one open finds no other. */
static struct ibv_device *open_one(struct ibv_device *device, int err)
{
	errno = err ? err : n_open == N_OPEN_MAX ? EMFILE : 0;
	if (errno)
		return NULL;
	n_open++;
	return device;
}

struct ibv_device *ibv_open_device(struct ibv_device *device)
{
	return open_one(device, device->open_error);
}

int ibv_close_device(struct ibv_device *device)
{
	n_open--;
	return 0;
}

int ibv_query_port(struct ibv_device *device, uint8_t port, uint32_t *attr)
{
	if (port != 1)
		return EINVAL;
	attr[0] = 4;
	attr[1] = 5;
	attr[2] = device->active_mtu;
	return 0;
}

struct ibv_device *ibv_alloc_pd(struct ibv_device *device)
{
	return device;
}

int ibv_dealloc_pd(struct ibv_device *pd)
{
	return 0;
}

void *ibv_reg_dmabuf_mr(struct ibv_device *pd, uint64_t offset, size_t n_bytes, uint64_t iova, int fd, int access)
{
	errno = fd < 0 ? pd->dmabuf_error : EINVAL;
	return NULL;
}

int ibv_dereg_mr(void *mr)
{
	return EINVAL;
}

bool mlx5dv_is_supported(struct ibv_device *device)
{
	return device->is_mlx5;
}

struct ibv_device *mlx5dv_open_device(struct ibv_device *device, struct context_attr *attr)
{
	if (attr->flags != 1 || attr->comp_mask)
		return NULL;
	return open_one(device, device->devx_error);
}

/* QUERY_HCA_CAP, of general and of atomic capabilities. */
int mlx5dv_devx_general_cmd(struct ibv_device *device, const uint8_t *in, size_t in_bytes, uint8_t *out, size_t out_bytes)
{
	if (in_bytes != 16 || in[0] != 1 || in[1] || out_bytes != 4112)
		return EINVAL;
	memset(out, 0, out_bytes);
	if (in[7] == 1) {
		out[16 + 67] = 0x02;
		out[16 + 76] = device->has_bf ? 0x80 : 0;
		return 0;
	}
	if (in[7] != 7)
		return EREMOTEIO;
	out[16 + 19] = (uint8_t)device->operations;
	out[16 + 23] = 0x0c;
	return 0;
}
