/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions that this process registers itself, by the command descriptor of its NIC's context.
 *
 * Two calls of the kernel's uverbs, made without libibverbs: an imported context exists in that library alone; the kernel
 * only sees the descriptor and the caller's addresses. So neither the build nor the client's container needs the library or its
 * structs, and no second set of doorbell pages is allocated in the context. Structs and numbers are the kernel's own
 * (Linux: include/uapi/rdma, the same since 4.20), declared again here; test-client-command-fd compares them with its headers.
 *
 * Refuses nothing: the kernel decides which memory may be registered. Any thread.
 */
#ifndef SHMEMD_CLIENT_COMMAND_FD_H
#define SHMEMD_CLIENT_COMMAND_FD_H

#include <stdint.h>
#include <sys/ioctl.h>

#define UV_OBJECT_DEVICE 0u
#define UV_OBJECT_MR 7u
#define UV_METHOD_INVOKE_WRITE 0u
#define UV_METHOD_MR_DESTROY 1u
#define UV_ATTR_CORE_IN 0u
#define UV_ATTR_CORE_OUT 1u
#define UV_ATTR_WRITE_CMD 2u
#define UV_ATTR_DESTROY_MR_HANDLE 0u
#define UV_ATTR_MANDATORY 1u
#define UV_CMD_REG_MR 9u
#define UV_DRIVER_MLX5 1u

struct uv_attr {
	uint16_t attr_id, len, flags, reserved;
	uint64_t data;
};

struct uv_hdr {
	uint16_t length, object_id, method_id, num_attrs;
	uint64_t reserved1;
	uint32_t driver_id, reserved2;
};

#define UV_IOCTL _IOWR(0x1b, 1, struct uv_hdr)

struct uv_reg_mr {
	uint64_t response, start, length, hca_va;
	uint32_t pd_handle, access_flags;
};

struct uv_reg_mr_resp {
	uint32_t mr_handle, lkey, rkey;
};

/* A region. */
struct command_reg {
	uint32_t pd; /* the kernel's handle */
	uint32_t access; /* SHMD_ACCESS_* */
	uint64_t addr, length_bytes, iova;
};

/* 0 and the kernel's handle of the region, or its negative errno: -EFAULT for addresses whose pages it does not find. */
int command_fd_reg(int fd, const struct command_reg *reg, uint32_t *ret_handle);
int command_fd_dereg(int fd, uint32_t handle);

#endif
