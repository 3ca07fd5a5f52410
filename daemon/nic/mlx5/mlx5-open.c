/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a device.
 *
 * The kernel looks at the opener's capabilities once and gives the context what they allow for its whole life, also
 * to a client that gets its command descriptor: CAP_NET_RAW is raw packets, CAP_SYS_RAWIO the device's internals. So
 * the thread lays both down for the call. Any thread.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CAPS_OF_CONTEXTS (CAP_TO_MASK(CAP_NET_RAW) | CAP_TO_MASK(CAP_SYS_RAWIO))

_Static_assert(CAP_TO_INDEX(CAP_NET_RAW) == 0 && CAP_TO_INDEX(CAP_SYS_RAWIO) == 0,
	       "both in the first word");

/* glibc has no wrappers; these calls concern the calling thread alone. */
static int get_caps(struct __user_cap_data_struct data[2])
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};

	return syscall(SYS_capget, &head, data) < 0 ? -errno : 0;
}

static int set_caps(const struct __user_cap_data_struct data[2])
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};

	return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

static int open_devx(struct ibv_device *device, struct ibv_context **ret_ibv)
{
	struct mlx5dv_context_attr attr = {.flags = MLX5DV_CONTEXT_FLAGS_DEVX};
	struct ibv_context *ibv;

	errno = 0;
	ibv = mlx5dv_open_device(device, &attr);
	if (!ibv)
		return mlx5_errno(errno);
	*ret_ibv = ibv;
	return 0;
}

int mlx5_open(struct ibv_device *device, struct ibv_context **ret_ibv)
{
	struct __user_cap_data_struct had[2], less[2];
	int r, restored;

	r = get_caps(had);
	if (r < 0)
		return r;
	if (!(had[0].effective & CAPS_OF_CONTEXTS))
		return open_devx(device, ret_ibv);
	less[0] = had[0];
	less[1] = had[1];
	less[0].effective &= ~CAPS_OF_CONTEXTS;
	r = set_caps(less);
	if (r < 0)
		return r;
	r = open_devx(device, ret_ibv);
	restored = set_caps(had);
	/* They are still permitted, so this cannot fail; if it did, the daemon would have less than before, not more. */
	(void)restored;
	return r;
}
