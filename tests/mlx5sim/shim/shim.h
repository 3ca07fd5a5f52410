/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the preloaded shim. */
#ifndef SHMEMD_TESTS_MLX5SIM_SHIM_H
#define SHMEMD_TESTS_MLX5SIM_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/mlx5sim/wire.h"

/* Symbols that the preload exports. */
#define SHIM_API __attribute__((visibility("default")))

/* paths.c: the place in the simulator's tree of a path of ours, in buf, or path itself. */
const char *shim_path(const char *path, char *buf, size_t bytes);
/* N of /dev/infiniband/uverbsN, or -1. */
int shim_nic_of(const char *path);
const char *shim_root(void);

/* call.c: is this descriptor a simulated device? Its NIC, or -1. */
int shim_nic_of_fd(int fd);
int shim_connect(int nic, int flags);
/* Result of the call, or negative errno; *ret_fd is a descriptor that came with it, or -1. */
int64_t shim_call(int fd, const struct sim_request *request, int *ret_fd);

/* pin.c: serves SIM_PIN. Number of segments, or negative errno; fds are the caller's to close. */
int shim_pin(uint64_t addr, uint64_t bytes, uint32_t flags, struct sim_segment *segments, int *fds,
	     int *ret_n_fds);

/* Without going through the shim once more. */
long shim_raw_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);

#endif
