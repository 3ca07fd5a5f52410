/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory: a memfd each, mapped by the client at the page number of the answer, and registered by offset. And
 * the page that says how the clock of CQEs runs, which is mapped in the same way: it counts nanoseconds.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include "proto/base/cleanup.h"
#include "tests/mlx5sim/sim/dm.h"

#define UNIT_BYTES 64u	   /* what lengths are rounded up to */
#define MAX_LOG2_ALIGN 12u /* each begins a page */

static void dm_release(struct dm *dm)
{
	memory_unref(dm->memory);
	safe_close(dm->memfd);
	free(dm);
}

static void dm_free(struct object *object)
{
	struct dm *dm = container_of(object, struct dm, object);
	struct nic *nic = object->ufile->nic;

	sim_lock(nic->sim);
	nic->dm_bytes -= dm->bytes;
	sim_unlock(nic->sim);
	dm_release(dm);
}

static struct dm *dm_new(uint64_t bytes)
{
	struct dm *dm = calloc(1, sizeof(*dm));
	uint64_t mapped = (bytes + SIM_PAGE - 1) & ~(uint64_t)(SIM_PAGE - 1);

	if (!dm)
		return NULL;
	dm->bytes = bytes;
	dm->memfd = memfd_create("mlx5sim-dm", MFD_CLOEXEC);
	if (dm->memfd < 0 || ftruncate(dm->memfd, (off_t)mapped) < 0 ||
	    memory_of_memfd(dm->memfd, mapped, &dm->memory) < 0) {
		dm_release(dm);
		return NULL;
	}
	return dm;
}

static struct dm *dm_of_index(struct ufile *ufile, uint64_t index)
{
	struct object *object;

	list_for_each_entry (object, &ufile->objects, link) {
		struct dm *dm = container_of(object, struct dm, object);

		if (object->type == OBJECT_DM && dm->index == index)
			return dm;
	}
	return NULL;
}

static uint16_t free_index(struct ufile *ufile)
{
	uint16_t index = 0;

	while (dm_of_index(ufile, index))
		index++;
	return index;
}

static int add(struct call *call, struct dm *dm)
{
	struct nic *nic = call->nic;
	int r;

	dm->index = free_index(call->ufile);
	sim_lock(nic->sim);
	nic->dm_bytes += dm->bytes;
	sim_unlock(nic->sim);
	r = object_add(call->ufile, &dm->object, OBJECT_DM, dm_free);
	if (r == 0)
		return 0;
	sim_lock(nic->sim);
	nic->dm_bytes -= dm->bytes;
	sim_unlock(nic->sim);
	dm_release(dm);
	return r;
}

static int answer(struct call *call, const struct dm *dm)
{
	uint64_t start = 0;
	int r;

	r = call_out(call, MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, &start, sizeof(start));
	if (r == 0)
		r = call_out(call, MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, &dm->index,
			     sizeof(dm->index));
	return r < 0 ? r : call_set_handle(call, UVERBS_ATTR_ALLOC_DM_HANDLE, dm->object.handle);
}

static uint64_t rounded(uint64_t bytes)
{
	return (bytes + UNIT_BYTES - 1) & ~(uint64_t)(UNIT_BYTES - 1);
}

int dm_alloc(struct call *call)
{
	uint64_t length = call_u64(call, UVERBS_ATTR_ALLOC_DM_LENGTH);
	struct dm *dm;
	int r;

	if (!call->ufile->has_context)
		return call_refuse(call, -EINVAL, "no context");
	if (call_u64(call, MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE))
		return call_refuse(call, -EOPNOTSUPP, "memory for flow steering");
	if (!length || call_u64(call, UVERBS_ATTR_ALLOC_DM_ALIGNMENT) > MAX_LOG2_ALIGN)
		return call_refuse(call, -EINVAL, "length or alignment");
	if (length > SIM_DM_BYTES || call->nic->dm_bytes + rounded(length) > SIM_DM_BYTES)
		return call_refuse(call, -ENOMEM, "there are %u bytes", SIM_DM_BYTES);
	dm = dm_new(rounded(length));
	if (!dm)
		return -ENOMEM;
	dm->asked_bytes = length;
	r = add(call, dm);
	if (r < 0)
		return r;
	r = answer(call, dm);
	if (r < 0)
		object_destroy(&dm->object);
	return r;
}

struct dm *dm_get(struct call *call, uint64_t handle)
{
	struct object *object = object_get(call->ufile, OBJECT_DM, handle);

	return object ? container_of(object, struct dm, object) : NULL;
}

int dm_destroy(struct call *call)
{
	struct dm *dm = dm_get(call, call_u64(call, UVERBS_ATTR_FREE_DM_HANDLE));

	if (!dm)
		return call_refuse(call, -ENOENT, "no such memory");
	if (dm->object.users)
		return call_refuse(call, -EBUSY, "%u regions use it", dm->object.users);
	return object_destroy(&dm->object);
}

int dm_query(struct call *call)
{
	const struct dm *dm = dm_get(call, call_u64(call, MLX5_IB_ATTR_QUERY_DM_REQ_HANDLE));
	uint64_t start = 0;
	int r;

	if (!dm)
		return call_refuse(call, -ENOENT, "no such memory");
	r = call_out(call, MLX5_IB_ATTR_QUERY_DM_RESP_START_OFFSET, &start, sizeof(start));
	if (r == 0)
		r = call_out(call, MLX5_IB_ATTR_QUERY_DM_RESP_PAGE_INDEX, &dm->index,
			     sizeof(dm->index));
	return r < 0 ? r
		     : call_out(call, MLX5_IB_ATTR_QUERY_DM_RESP_LENGTH, &dm->bytes,
				sizeof(dm->bytes));
}

/* ---- mapping ----------------------------------------------------------------------------------------------------- */

int clock_init(struct sim *sim)
{
	struct mlx5_ib_clock_info info = {.mult = 1, .mask = UINT64_MAX};
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	info.cycles = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	clock_gettime(CLOCK_REALTIME, &ts);
	info.nsec = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	sim->clock_memfd = memfd_create("mlx5sim-clock", MFD_CLOEXEC);
	if (sim->clock_memfd < 0 || ftruncate(sim->clock_memfd, SIM_PAGE) < 0 ||
	    write(sim->clock_memfd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return -EIO;
	return 0;
}

bool dm_is_of_mmap(uint64_t offset)
{
	uint64_t command = MMAP_COMMAND(offset / SIM_PAGE);

	return command == MLX5_IB_MMAP_DEVICE_MEM || command == MLX5_IB_MMAP_CLOCK_INFO;
}

int dm_mmap(struct ufile *ufile, uint64_t offset, uint64_t bytes, uint64_t prot, int *ret_memfd)
{
	uint64_t page = offset / SIM_PAGE;
	const struct dm *dm;

	if (offset % SIM_PAGE || (prot & PROT_EXEC))
		return -EINVAL;
	if (MMAP_COMMAND(page) == MLX5_IB_MMAP_CLOCK_INFO) {
		if (MMAP_INDEX(page) != MLX5_IB_CLOCK_INFO_V1 || bytes != SIM_PAGE ||
		    (prot & PROT_WRITE))
			return -EINVAL;
		*ret_memfd = ufile->sim->clock_memfd;
		return 0;
	}
	dm = dm_of_index(ufile, MMAP_INDEX(page));
	if (!dm || bytes != dm->memory->bytes)
		return -EINVAL;
	*ret_memfd = dm->memfd;
	return 0;
}
