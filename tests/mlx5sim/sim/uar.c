/* SPDX-License-Identifier: Apache-2.0 */
/* UAR pages: a memfd each, mapped by the client at the offset of the answer and read here by the NIC's thread. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#include "tests/mlx5sim/sim/sim.h"

static void uar_release(struct uar *uar)
{
	if (uar->page)
		munmap(uar->page, SIM_PAGE);
	if (uar->memfd >= 0)
		close(uar->memfd);
	free(uar);
}

static void uar_free(struct object *object)
{
	struct uar *uar = container_of(object, struct uar, object);
	struct nic *nic = object->ufile->nic;

	sim_lock(nic->sim);
	list_del(&uar->nic_link);
	nic->n_uars--;
	sim_unlock(nic->sim);
	uar_release(uar);
}

static struct uar *uar_new(void)
{
	struct uar *uar = calloc(1, sizeof(*uar));
	void *p;

	if (!uar)
		return NULL;
	list_init(&uar->nic_link);
	list_init(&uar->qps);
	list_init(&uar->devx_qps);
	list_init(&uar->cqs);
	uar->memfd = memfd_create("mlx5sim-uar", MFD_CLOEXEC);
	p = uar->memfd >= 0 && ftruncate(uar->memfd, SIM_PAGE) == 0
		    ? mmap(NULL, SIM_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, uar->memfd, 0)
		    : MAP_FAILED;
	if (p == MAP_FAILED) {
		uar_release(uar);
		return NULL;
	}
	uar->page = p;
	return uar;
}

struct uar *uar_get(struct ufile *ufile, uint32_t page_id)
{
	struct object *object;

	list_for_each_entry (object, &ufile->objects, link) {
		struct uar *uar = container_of(object, struct uar, object);

		if (object->type == OBJECT_UAR && uar->page_id == page_id)
			return uar;
	}
	return NULL;
}

/* Only pages of this ufile: guessing offsets is useless. */
int uar_mmap(struct ufile *ufile, uint64_t offset, uint64_t bytes, uint64_t prot, int *ret_memfd)
{
	uint64_t page = offset / SIM_PAGE;
	struct uar *uar;

	if (offset % SIM_PAGE || MMAP_COMMAND(page) != MMAP_UAR || MMAP_INDEX(page) > UINT32_MAX)
		return -EINVAL;
	uar = uar_get(ufile, (uint32_t)MMAP_INDEX(page));
	if (!uar || bytes != SIM_PAGE || (prot & PROT_EXEC))
		return -EINVAL;
	*ret_memfd = uar->memfd;
	return 0;
}

static int answer(struct call *call, const struct uar *uar)
{
	uint64_t offset = MMAP_PAGE(MMAP_UAR, uar->page_id) * SIM_PAGE;
	uint32_t length = SIM_PAGE;
	int r;

	r = call_out(call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, &offset, sizeof(offset));
	if (r == 0)
		r = call_out(call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, &length, sizeof(length));
	if (r == 0)
		r = call_out(call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, &uar->page_id,
			     sizeof(uar->page_id));
	return r < 0 ? r
		     : call_set_handle(call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, uar->object.handle);
}

int uar_alloc(struct call *call)
{
	uint64_t type = call_u64(call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE);
	struct nic *nic = call->nic;
	struct uar *uar;
	int r;

	if (!call->ufile->has_context)
		return call_refuse(call, -EINVAL, "no context");
	if (type != MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF && type != MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC)
		return call_refuse(call, -EOPNOTSUPP, "type %llu", (unsigned long long)type);
	if (nic_count(nic, &nic->n_uars) >= SIM_MAX_UAR)
		return call_refuse(call, -ENOSPC, "more than %u pages", SIM_MAX_UAR);
	uar = uar_new();
	if (!uar)
		return -ENOMEM;
	r = object_add(call->ufile, &uar->object, OBJECT_UAR, uar_free);
	if (r < 0) {
		uar_release(uar);
		return r;
	}
	sim_lock(nic->sim);
	uar->page_id = nic->next_page++;
	nic->n_uars++;
	list_add_tail(&nic->uars, &uar->nic_link);
	sim_unlock(nic->sim);
	r = answer(call, uar);
	if (r < 0)
		object_destroy(&uar->object);
	return r;
}

int uar_destroy(struct call *call)
{
	struct object *object = object_get(call->ufile, OBJECT_UAR,
					   call_u64(call, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE));

	if (!object)
		return call_refuse(call, -ENOENT, "no such page");
	if (object->users)
		return call_refuse(call, -EBUSY, "%u objects use it", object->users);
	return object_destroy(object);
}
