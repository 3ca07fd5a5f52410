/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the backend needs of a host, judged: facts that somebody gathered become struct nic_need, each with what to do.
 *
 * Pure: no rdma-core, no NIC, any thread. mlx5-check.c gathers; tests make facts up.
 */
#ifndef SHMEMD_NIC_MLX5_NEEDS_H
#define SHMEMD_NIC_MLX5_NEEDS_H

#include "daemon/nic/mlx5/mlx5-cmd.h"

/* Where a fact is an int it is 0 or the negative errno of the attempt. */
struct mlx5_host_facts {
	bool has_verbs; /* the kernel has RDMA */
	int list_error; /* of libibverbs */
	unsigned int n_devices; /* that libmlx5 drives */
	int capabilities_error;
	uint64_t capabilities; /* effective, a bit for each CAP_* */
	int memory_lock_error;
	uint64_t memory_lock_bytes; /* UINT64_MAX: unlimited */
	bool exports; /* libmlx5 exports objects */
};

struct mlx5_device_facts {
	const char *name;
	int open_error; /* of the device with DEVX; then nothing below is known but caps_error, which is the same */
	int caps_error;
	struct mlx5_caps caps; /* where there is no caps_error */
	int uar_error; /* of making and mapping a doorbell page */
	const char *peer_module; /* of the kernel, which finds pages of GPUs; NULL: none is loaded */
	int dmabuf_error; /* of registering descriptor -1 as a dmabuf: -EBADF where a kernel looks at it */
};

struct mlx5_port_facts {
	const char *name; /* of the NIC, as nic_info has it */
	enum nic_link link;
	int state_error;
	enum nic_port_state state;
	int gid_error; /* -ENOENT: none that peers reach */
	uint8_t gid[16];
};

void mlx5_needs_of_host(const struct mlx5_host_facts *facts, nic_need_fn tell, void *arg);
void mlx5_needs_of_device(const struct mlx5_device_facts *facts, nic_need_fn tell, void *arg);
void mlx5_needs_of_port(const struct mlx5_port_facts *facts, nic_need_fn tell, void *arg);
/* A node of /dev that is not there, or may not be opened. */
void mlx5_need_of_node(const char *path, int error, nic_need_fn tell, void *arg);

#endif
