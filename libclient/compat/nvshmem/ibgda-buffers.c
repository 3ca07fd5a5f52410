/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory outside the heap as the local side of requests of kernels: GPU memory that the program registers. Device code goes through a list in GPU
 * memory whose head is in the state; each entry is an allocation of its own, and those that have been there longer stay where they are.
 */
#include <errno.h>
#include <stdlib.h>

#include <shmemclient-gpu-mem.h>

#include "libclient/compat/nvshmem/ibgda.h"

struct nvs_ibgda_local {
	struct shmd_mr *mr;
	uint64_t start, bytes;
	uint64_t at; /* struct nvs_ibgda_buffer, in GPU memory */
	struct nvs_ibgda_local *next;
};

static void end(struct nvs_ibgda_local *local)
{
	if (local->mr)
		(void)shmd_mr_dereg(local->mr);
	device_free(nvs.device, local->at);
	free(local);
}

static int write_entry(struct nvs_ibgda_local *local)
{
	/* bounded: memory that CUDA has */
	struct nvs_ibgda_buffer buffer = {
		.version = NVS_WORD(1, sizeof(buffer)),
		.start = local->start,
		.end = local->start + local->bytes - 1,
		.next = local->next ? local->next->at : 0,
		.lkeys_be = {shmd_mr_lkey_be(local->mr)},
	};

	return device_write(nvs.device, local->at, &buffer, sizeof(buffer));
}

static int make(struct nvs_ibgda_local *local)
{
	const struct shmd_gpu_mr_attr attr = {.addr = local->start, .length_bytes = local->bytes, .access = SHMD_ACCESS_LOCAL_WRITE};
	int r = shmd_gpu_mr_reg(nvs.ibgda->gpu, nvs.ibgda->nic, &attr, &local->mr);

	if (!r)
		r = device_alloc(nvs.device, sizeof(struct nvs_ibgda_buffer), &local->at);
	return r ? r : write_entry(local);
}

static void lead_to(struct nvs_ibgda_local *before, struct nvs_ibgda_local *local)
{
	if (before) {
		before->next = local;
		return;
	}
	nvs.ibgda->locals = local;
	nvs.ibgda->buffers_at = local ? local->at : 0;
}

/* The entry before it leads past it first. If that fails, kernels may still find it, so it stays. */
static int take_out(struct nvs_ibgda_local *before, struct nvs_ibgda_local *local)
{
	int r;

	lead_to(before, local->next);
	r = before ? write_entry(before) : nvs_clients_show_queues();
	if (r < 0)
		lead_to(before, local);
	else
		end(local);
	return r;
}

int nvs_ibgda_buffer_add(void *memory, size_t bytes)
{
	struct nvs_ibgda_local *local;
	int r;

	if (!nvs.ibgda)
		return 0;
	if (!memory || !bytes)
		return shmd_error_set(-EINVAL, "no memory to register");
	local = calloc(1, sizeof(*local));
	if (!local)
		return shmd_error_set(-ENOMEM, "no memory for a registration");
	*local = (struct nvs_ibgda_local){.start = (uint64_t)(uintptr_t)memory, .bytes = bytes, .next = nvs.ibgda->locals};
	r = make(local);
	if (r < 0) {
		end(local);
		return r;
	}
	lead_to(NULL, local);
	r = nvs_clients_show_queues();
	if (r < 0)
		(void)take_out(NULL, local);
	return r;
}

int nvs_ibgda_buffer_remove(const void *memory)
{
	struct nvs_ibgda_local *before = NULL, *local;

	if (!nvs.ibgda)
		return 0;
	for (local = nvs.ibgda->locals; local && local->start != (uint64_t)(uintptr_t)memory; local = local->next)
		before = local;
	return local ? take_out(before, local) : shmd_error_set(-EINVAL, "%p is not registered", memory);
}

int nvs_ibgda_buffers_remove(void)
{
	int r = 0;

	while (nvs.ibgda && nvs.ibgda->locals && !r)
		r = take_out(NULL, nvs.ibgda->locals);
	return r;
}

/* Registrations have ended with the session. */
void nvs_ibgda_buffers_drop(struct nvs_ibgda *ibgda)
{
	while (ibgda->locals) {
		struct nvs_ibgda_local *local = ibgda->locals;

		ibgda->locals = local->next;
		local->mr = NULL;
		end(local);
	}
}
