/* SPDX-License-Identifier: Apache-2.0 */
/* See command-fd.h. */
#include "libclient/command-fd.h"

#include <errno.h>

#include <shmemclient.h>

#define MAX_ATTRS 3

struct call {
	struct uv_hdr hdr;
	struct uv_attr attrs[MAX_ATTRS];
};

static int call_do(int fd, struct call *call, uint16_t object, uint16_t method, uint16_t n_attrs)
{
	call->hdr = (struct uv_hdr){
		.length = (uint16_t)(sizeof(call->hdr) + n_attrs * sizeof(call->attrs[0])),
		.object_id = object,
		.method_id = method,
		.num_attrs = n_attrs,
		.driver_id = UV_DRIVER_MLX5, /* the only one whose command descriptors are handed out */
	};
	if (!ioctl(fd, UV_IOCTL, &call->hdr))
		return 0;
	return errno ? -errno : -EIO;
}

static uint32_t access_flags(uint32_t access)
{
	/* SHMD_ACCESS_* are the kernel's bits. Verbs demand local write along with remote write and atomics. */
	return access & (SHMD_ACCESS_REMOTE_WRITE | SHMD_ACCESS_REMOTE_ATOMIC) ? access | SHMD_ACCESS_LOCAL_WRITE : access;
}

int command_fd_reg(int fd, const struct command_reg *reg, uint32_t *ret_handle)
{
	struct uv_reg_mr_resp resp = {0};
	const struct uv_reg_mr cmd = {
		.start = reg->addr,
		.length = reg->length_bytes,
		.hca_va = reg->iova,
		.pd_handle = reg->pd,
		.access_flags = access_flags(reg->access),
	};
	struct call call = {.attrs = {
		{UV_ATTR_CORE_IN, sizeof(cmd), UV_ATTR_MANDATORY, 0, (uintptr_t)&cmd},
		{UV_ATTR_CORE_OUT, sizeof(resp), UV_ATTR_MANDATORY, 0, (uintptr_t)&resp},
		/* Values of up to 8 bytes stand in the attribute itself. */
		{UV_ATTR_WRITE_CMD, sizeof(uint64_t), UV_ATTR_MANDATORY, 0, UV_CMD_REG_MR},
	}};
	int r = call_do(fd, &call, UV_OBJECT_DEVICE, UV_METHOD_INVOKE_WRITE, 3);

	if (r < 0)
		return r;
	*ret_handle = resp.mr_handle;
	return 0;
}

int command_fd_dereg(int fd, uint32_t handle)
{
	struct call call = {.attrs = {{UV_ATTR_DESTROY_MR_HANDLE, 0, UV_ATTR_MANDATORY, 0, handle}}};

	return call_do(fd, &call, UV_OBJECT_MR, UV_METHOD_MR_DESTROY, 1);
}
