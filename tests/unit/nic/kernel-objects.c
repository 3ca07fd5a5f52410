/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel-objects.h"

#include <errno.h>
#include <sys/ioctl.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl.h>

#include "tests/lib/test.h"

#define MOST 4096u

int kernel_objects(int command_fd, uint64_t kind)
{
	uint64_t cmd[(sizeof(struct ib_uverbs_ioctl_hdr) + 3 * sizeof(struct ib_uverbs_attr)) / 8] = {0};
	struct ib_uverbs_ioctl_hdr *hdr = (struct ib_uverbs_ioctl_hdr *)(void *)cmd;
	uint32_t handles[MOST], n = 0;

	hdr->length = sizeof(cmd);
	hdr->object_id = UVERBS_OBJECT_DEVICE;
	hdr->method_id = UVERBS_METHOD_INFO_HANDLES;
	hdr->num_attrs = 3;
	hdr->driver_id = RDMA_DRIVER_MLX5;
	hdr->attrs[0] = (struct ib_uverbs_attr){.attr_id = UVERBS_ATTR_INFO_OBJECT_ID, .len = 8, .data = kind,
						.flags = UVERBS_ATTR_F_MANDATORY};
	hdr->attrs[1] = (struct ib_uverbs_attr){.attr_id = UVERBS_ATTR_INFO_TOTAL_HANDLES, .len = sizeof(n),
						.data = (uintptr_t)&n, .flags = UVERBS_ATTR_F_MANDATORY};
	hdr->attrs[2] = (struct ib_uverbs_attr){.attr_id = UVERBS_ATTR_INFO_HANDLES_LIST, .len = sizeof(handles),
						.data = (uintptr_t)handles, .flags = UVERBS_ATTR_F_MANDATORY};
	if (ioctl(command_fd, RDMA_VERBS_IOCTL, cmd) < 0) {
		ASSERT_EQ(errno, EIO);
		return -1;
	}
	ASSERT_LT(n, MOST);
	return (int)n;
}
