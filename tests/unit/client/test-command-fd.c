/* SPDX-License-Identifier: Apache-2.0 */
/* The library's own structs and numbers of uverbs against the kernel's headers, and what it says with them. */
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include <shmemclient.h>

#include "libclient/command-fd.h"
#include "tests/lib/test.h"

#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(struct ours) == sizeof(struct theirs), #ours)
#define SAME_PLACE(ours, theirs, field) \
	_Static_assert(offsetof(struct ours, field) == offsetof(struct theirs, field) && \
		       sizeof(((struct ours *)0)->field) == sizeof(((struct theirs *)0)->field), #ours "." #field)
#define SAME(ours, theirs) _Static_assert((unsigned long)(ours) == (unsigned long)(theirs), #ours)

SAME_SIZE(uv_attr, ib_uverbs_attr);
SAME_PLACE(uv_attr, ib_uverbs_attr, attr_id);
SAME_PLACE(uv_attr, ib_uverbs_attr, len);
SAME_PLACE(uv_attr, ib_uverbs_attr, flags);
SAME_PLACE(uv_attr, ib_uverbs_attr, data);
SAME_SIZE(uv_hdr, ib_uverbs_ioctl_hdr);
SAME_PLACE(uv_hdr, ib_uverbs_ioctl_hdr, length);
SAME_PLACE(uv_hdr, ib_uverbs_ioctl_hdr, object_id);
SAME_PLACE(uv_hdr, ib_uverbs_ioctl_hdr, method_id);
SAME_PLACE(uv_hdr, ib_uverbs_ioctl_hdr, num_attrs);
SAME_PLACE(uv_hdr, ib_uverbs_ioctl_hdr, driver_id);
SAME_SIZE(uv_reg_mr, ib_uverbs_reg_mr);
SAME_PLACE(uv_reg_mr, ib_uverbs_reg_mr, response);
SAME_PLACE(uv_reg_mr, ib_uverbs_reg_mr, start);
SAME_PLACE(uv_reg_mr, ib_uverbs_reg_mr, length);
SAME_PLACE(uv_reg_mr, ib_uverbs_reg_mr, hca_va);
SAME_PLACE(uv_reg_mr, ib_uverbs_reg_mr, pd_handle);
SAME_PLACE(uv_reg_mr, ib_uverbs_reg_mr, access_flags);
SAME_SIZE(uv_reg_mr_resp, ib_uverbs_reg_mr_resp);
SAME_PLACE(uv_reg_mr_resp, ib_uverbs_reg_mr_resp, mr_handle);
SAME_PLACE(uv_reg_mr_resp, ib_uverbs_reg_mr_resp, lkey);
SAME_PLACE(uv_reg_mr_resp, ib_uverbs_reg_mr_resp, rkey);
SAME(UV_IOCTL, RDMA_VERBS_IOCTL);
SAME(UV_OBJECT_DEVICE, UVERBS_OBJECT_DEVICE);
SAME(UV_OBJECT_MR, UVERBS_OBJECT_MR);
SAME(UV_METHOD_INVOKE_WRITE, UVERBS_METHOD_INVOKE_WRITE);
SAME(UV_METHOD_MR_DESTROY, UVERBS_METHOD_MR_DESTROY);
SAME(UV_ATTR_CORE_IN, UVERBS_ATTR_CORE_IN);
SAME(UV_ATTR_CORE_OUT, UVERBS_ATTR_CORE_OUT);
SAME(UV_ATTR_WRITE_CMD, UVERBS_ATTR_WRITE_CMD);
SAME(UV_ATTR_DESTROY_MR_HANDLE, UVERBS_ATTR_DESTROY_MR_HANDLE);
SAME(UV_ATTR_MANDATORY, UVERBS_ATTR_F_MANDATORY);
SAME(UV_CMD_REG_MR, IB_USER_VERBS_CMD_REG_MR);
SAME(UV_DRIVER_MLX5, RDMA_DRIVER_MLX5);
SAME(SHMD_ACCESS_LOCAL_WRITE, IB_UVERBS_ACCESS_LOCAL_WRITE);
SAME(SHMD_ACCESS_REMOTE_WRITE, IB_UVERBS_ACCESS_REMOTE_WRITE);
SAME(SHMD_ACCESS_REMOTE_READ, IB_UVERBS_ACCESS_REMOTE_READ);
SAME(SHMD_ACCESS_REMOTE_ATOMIC, IB_UVERBS_ACCESS_REMOTE_ATOMIC);

/* ---- a kernel that remembers --------------------------------------------------------------------------------------- */

static struct {
	int fd, error;
	struct uv_hdr hdr; /* the same, as compared above, without its attributes */
	struct ib_uverbs_attr attrs[4];
	struct ib_uverbs_reg_mr reg;
} kernel;

static void answer(void *arg)
{
	const struct ib_uverbs_ioctl_hdr *hdr = arg;

	memcpy(&kernel.hdr, hdr, sizeof(*hdr));
	ASSERT_LE(hdr->num_attrs, 4);
	memcpy(kernel.attrs, hdr + 1, hdr->num_attrs * sizeof(kernel.attrs[0]));
	if (hdr->object_id != UVERBS_OBJECT_DEVICE)
		return;
	memcpy(&kernel.reg, (void *)(uintptr_t)kernel.attrs[0].data, sizeof(kernel.reg));
	*(struct ib_uverbs_reg_mr_resp *)(uintptr_t)kernel.attrs[1].data =
		(struct ib_uverbs_reg_mr_resp){.mr_handle = 42, .lkey = 1, .rkey = 2};
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;

	va_start(ap, request);
	kernel.fd = fd;
	ASSERT_EQ(request, RDMA_VERBS_IOCTL);
	answer(va_arg(ap, void *));
	va_end(ap);
	errno = kernel.error;
	return kernel.error ? -1 : 0;
}

TEST(registration_is_the_call_that_libibverbs_makes)
{
	const struct command_reg reg = {
		.pd = 7, .access = SHMD_ACCESS_REMOTE_WRITE, .addr = 0x1000, .length_bytes = 0x3000, .iova = 0x5000};
	uint32_t handle = 0;

	ASSERT_OK(command_fd_reg(77, &reg, &handle));
	ASSERT_EQ(handle, 42);
	ASSERT_EQ(kernel.fd, 77);
	ASSERT_EQ(kernel.hdr.length, sizeof(struct ib_uverbs_ioctl_hdr) + 3 * sizeof(struct ib_uverbs_attr));
	ASSERT_EQ(kernel.hdr.method_id, UVERBS_METHOD_INVOKE_WRITE);
	ASSERT_EQ(kernel.attrs[0].attr_id, UVERBS_ATTR_CORE_IN);
	ASSERT_EQ(kernel.attrs[0].len, sizeof(struct ib_uverbs_reg_mr));
	ASSERT_EQ(kernel.attrs[1].attr_id, UVERBS_ATTR_CORE_OUT);
	ASSERT_EQ(kernel.attrs[1].len, sizeof(struct ib_uverbs_reg_mr_resp));
	ASSERT_EQ(kernel.attrs[2].attr_id, UVERBS_ATTR_WRITE_CMD);
	ASSERT_EQ(kernel.attrs[2].data, IB_USER_VERBS_CMD_REG_MR);
	ASSERT_EQ(kernel.reg.start, 0x1000);
	ASSERT_EQ(kernel.reg.length, 0x3000);
	ASSERT_EQ(kernel.reg.hca_va, 0x5000);
	ASSERT_EQ(kernel.reg.pd_handle, 7);
	/* Verbs refuse remote writes without local ones. */
	ASSERT_EQ(kernel.reg.access_flags, IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_LOCAL_WRITE);
}

TEST(refusals_of_the_kernel_return_its_errno)
{
	const struct command_reg reg = {.access = SHMD_ACCESS_REMOTE_READ, .length_bytes = 1};
	uint32_t handle = 5;

	kernel.error = EFAULT;
	ASSERT_ERR(command_fd_reg(3, &reg, &handle), EFAULT);
	ASSERT_EQ(kernel.reg.access_flags, IB_UVERBS_ACCESS_REMOTE_READ);
	ASSERT_EQ(handle, 5);
	kernel.error = 0;
}

TEST(region_is_destroyed_by_its_handle)
{
	ASSERT_OK(command_fd_dereg(9, 42));
	ASSERT_EQ(kernel.hdr.object_id, UVERBS_OBJECT_MR);
	ASSERT_EQ(kernel.hdr.method_id, UVERBS_METHOD_MR_DESTROY);
	ASSERT_EQ(kernel.hdr.num_attrs, 1);
	ASSERT_EQ(kernel.attrs[0].attr_id, UVERBS_ATTR_DESTROY_MR_HANDLE);
	ASSERT_EQ(kernel.attrs[0].data, 42);
	ASSERT_EQ(kernel.attrs[0].len, 0);
}
