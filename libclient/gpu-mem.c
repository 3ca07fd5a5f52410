/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of GPUs that a NIC reaches: by dmabuf, by addresses that this process registers, by the memory agent, or host memory in its place.
 *
 * The library tries each way, the best first, and its failure is the reason for the next. A failure that another way would not
 * mend (quota, a NIC or a daemon that is gone) ends the search.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/agent.h"
#include "proto/base/overflow.h"

/* ---- the ways ------------------------------------------------------------------------------------------------------ */

static bool may_step_down(const struct shmd_client *client, int err)
{
	switch (err) {
	case -EDQUOT:
	case -ENODEV:
	case -ETIMEDOUT:
	case -ECHILD:
		return false;
	default:
		return !client->dead;
	}
}

static bool takes(const struct shmd_nic_info *info, enum shmd_mem_kind kind)
{
	for (unsigned int i = 0; i < 4 && info->mem_kinds[i]; i++)
		if (info->mem_kinds[i] == kind)
			return true;
	return false;
}

static uint64_t iova_of(const struct shmd_gpu_mr_attr *attr)
{
	return attr->iova ? attr->iova : attr->addr;
}

/* start and end are page-aligned, as CUDA requires. */
static int export_range(struct shmd_gpu *gpu, uint64_t start, uint64_t end, int *ret_fd)
{
	cuda_result result;
	int r = gpu_enter(gpu);

	if (r < 0)
		return r;
	result = gpu->cuda->range_handle(ret_fd, start, end - start, CUDA_RANGE_DMABUF, 0);
	return gpu_finish(gpu, result, "no dmabuf");
}

static int export_dmabuf(struct shmd_gpu *gpu, const struct shmd_gpu_mr_attr *attr, uint64_t *ret_offset, int *ret_fd)
{
	uint64_t mask = page_bytes() - 1, start = attr->addr & ~mask, end;
	int r;

	if (!gpu->cuda->range_handle)
		return text_fail(-EOPNOTSUPP, "no dmabuf: this CUDA driver exports none");
	if (add_overflows(attr->addr, attr->length_bytes, &end) || add_overflows(end, mask, &end))
		return text_fail(-EINVAL, "the range wraps around");
	client_lock(gpu->client);
	r = export_range(gpu, start, end & ~mask, ret_fd);
	client_unlock(gpu->client);
	*ret_offset = attr->addr - start;
	return r;
}

static int reg_dmabuf(struct shmd_gpu *gpu, struct shmd_nic *nic, const struct shmd_gpu_mr_attr *attr, struct shmd_mr **ret_mr)
{
	struct shmd_mr_attr mr = {.kind = SHMD_MEM_DMABUF,
				  .length_bytes = attr->length_bytes,
				  .iova = iova_of(attr),
				  .access = attr->access};
	_cleanup_close_ int fd = -1;
	int r;

	if (!takes(&nic->info, SHMD_MEM_DMABUF))
		return text_fail(-EOPNOTSUPP, "no dmabuf: %s takes none", nic->info.name);
	r = export_dmabuf(gpu, attr, &mr.offset, &fd);
	if (r < 0)
		return r;
	mr.fd = fd;
	return mr_reg(nic, &mr, "", ret_mr);
}

static int reg_peermem(struct shmd_nic *nic, const struct shmd_gpu_mr_attr *attr, const char *reason, struct shmd_mr **ret_mr)
{
	const struct shmd_mr_attr mr = {.kind = SHMD_MEM_PEERMEM,
					.fd = -1,
					.offset = attr->addr,
					.length_bytes = attr->length_bytes,
					.iova = iova_of(attr),
					.access = attr->access};

	return mr_reg(nic, &mr, reason, ret_mr);
}

/* The agent must know the addresses before the NIC may ask for them. */
static int reg_agent(struct shmd_gpu *gpu, struct shmd_nic *nic, const struct shmd_gpu_mr_attr *attr, const char *reason,
		     struct shmd_mr **ret_mr)
{
	const struct shmd_mr_attr mr = {.kind = SHMD_MEM_AGENT,
					.fd = -1,
					.offset = attr->addr,
					.length_bytes = attr->length_bytes,
					.iova = iova_of(attr),
					.access = attr->access};
	char why[CLIENT_TEXT_BYTES];
	struct agent_region *region = NULL;
	int r;

	if (!takes(&nic->info, SHMD_MEM_AGENT))
		return text_fail(-EOPNOTSUPP, "%s takes none", nic->info.name);
	r = agent_region_add(nic, gpu, attr->addr, attr->length_bytes, &region);
	if (r < 0)
		return r;
	r = mr_reg(nic, &mr, reason, ret_mr);
	if (!r) {
		(*ret_mr)->agent_region = region;
		return 0;
	}
	text_copy(why, sizeof(why), shmd_error_text());
	(void)agent_region_end(gpu->client, region);
	return text_fail(r, "%s", why);
}

static int reg_way(struct shmd_gpu *gpu, struct shmd_nic *nic, const struct shmd_gpu_mr_attr *attr, enum shmd_gpu_mem_mode mode,
		   const char *reason, struct shmd_mr **ret_mr)
{
	switch (mode) {
	case SHMD_GPU_MEM_PEERMEM:
		return reg_peermem(nic, attr, reason, ret_mr);
	case SHMD_GPU_MEM_AGENT:
		return reg_agent(gpu, nic, attr, reason, ret_mr);
	default:
		return reg_dmabuf(gpu, nic, attr, ret_mr);
	}
}

/* Automatic mode tries all, and the text of a failure has all reasons. */
static int reg_ways(struct shmd_gpu *gpu, struct shmd_nic *nic, const struct shmd_gpu_mr_attr *attr, struct shmd_mr **ret_mr)
{
	static const struct {
		enum shmd_gpu_mem_mode mode;
		const char *name;
	} ways[] = {{SHMD_GPU_MEM_DMABUF, ""}, {SHMD_GPU_MEM_PEERMEM, "; no peermem: "}, {SHMD_GPU_MEM_AGENT, "; no agent: "}};
	char why[CLIENT_TEXT_BYTES] = "";
	int r = 0;

	if (attr->mode != SHMD_GPU_MEM_AUTO)
		return reg_way(gpu, nic, attr, attr->mode, "", ret_mr);
	for (unsigned int i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		size_t used = strlen(why);

		r = reg_way(gpu, nic, attr, ways[i].mode, why, ret_mr);
		if (r == 0 || !may_step_down(gpu->client, r))
			return r;
		snprintf(why + used, sizeof(why) - used, "%s%s", ways[i].name, shmd_error_text());
	}
	return text_fail(r, "%s", why);
}

/* ---- the caller's memory ------------------------------------------------------------------------------------ */

static int check_pair(const struct shmd_gpu *gpu, const struct shmd_nic *nic)
{
	int r = client_check(gpu ? gpu->client : NULL);

	if (r < 0)
		return r;
	if (!nic || nic->client != gpu->client)
		return text_fail(-EINVAL, "nic is NULL, or belongs to another client");
	return 0;
}

static int check_access(uint32_t access)
{
	return access & ~SHMD_ACCESS_ALL ? text_fail(-EINVAL, "access 0x%x has unknown bits", access) : 0;
}

int shmd_gpu_mr_reg(struct shmd_gpu *gpu, struct shmd_nic *nic, const struct shmd_gpu_mr_attr *attr, struct shmd_mr **ret_mr)
{
	uint64_t end;
	int r = check_pair(gpu, nic);

	if (r < 0)
		return r;
	if (!attr || !ret_mr)
		return text_fail(-EINVAL, "attr or ret_mr is NULL");
	if ((unsigned int)attr->mode > SHMD_GPU_MEM_AGENT || attr->mode == SHMD_GPU_MEM_HOST)
		return text_fail(-EINVAL, "mode %d is none for memory of a GPU", (int)attr->mode);
	if (!attr->length_bytes || add_overflows(attr->addr, attr->length_bytes, &end) ||
	    add_overflows(attr->iova, attr->length_bytes, &end))
		return text_fail(-EINVAL, "the range is empty or wraps around");
	r = check_access(attr->access);
	return r < 0 ? r : reg_ways(gpu, nic, attr, ret_mr);
}

/* ---- the library's memory ------------------------------------------------------------------------------------------------ */

struct shmd_gpu_mem {
	struct list link; /* client->gpu_mems */
	struct shmd_gpu *gpu; /* counted */
	cuda_address on_gpu; /* or 0 */
	struct shmd_mem *host; /* or NULL */
	struct shmd_gpu_mem_info info; /* mr: NULL once it is deregistered */
};

/* Lock held, or the client is closing. */
static void free_on_gpu(struct shmd_gpu_mem *mem)
{
	struct shmd_gpu *gpu = mem->gpu;

	if (!mem->on_gpu || !gpu_may_call_cuda(gpu->client) || gpu_enter(gpu) < 0)
		return;
	(void)gpu->cuda->free(mem->on_gpu);
	gpu_leave(gpu);
}

/* Lock held, or the client is closing, which frees its host memory later. */
static void gpu_mem_drop(struct shmd_gpu_mem *mem)
{
	list_del(&mem->link);
	free_on_gpu(mem);
	gpu_unref(mem->gpu);
	free(mem);
}

void gpu_mem_free_all(struct shmd_client *client)
{
	struct shmd_gpu_mem *mem, *next;

	list_for_each_entry_safe(mem, next, &client->gpu_mems, link)
		gpu_mem_drop(mem);
}

static int end_region(struct shmd_gpu_mem *mem)
{
	int r = mem->info.mr ? shmd_mr_dereg(mem->info.mr) : 0;

	if (!r)
		mem->info.mr = NULL;
	return r;
}

int shmd_gpu_mem_free(struct shmd_gpu_mem *mem)
{
	struct shmd_client *client = mem ? mem->gpu->client : NULL;
	struct shmd_mem *host;
	int r = client_check(client);

	if (!r)
		r = end_region(mem);
	if (r < 0)
		return r;
	host = mem->host;
	client_lock(client);
	gpu_mem_drop(mem);
	client_unlock(client);
	shmd_mem_free(host);
	return 0;
}

static int alloc_on_gpu(struct shmd_gpu_mem *mem)
{
	struct shmd_gpu *gpu = mem->gpu;
	cuda_result result;
	int r;

	client_lock(gpu->client);
	r = gpu_enter(gpu);
	if (!r) {
		result = gpu->cuda->alloc(&mem->on_gpu, mem->info.bytes);
		r = gpu_finish(gpu, result, "no memory of the GPU");
	}
	client_unlock(gpu->client);
	return r;
}

static enum shmd_gpu_mem_mode mode_of(enum shmd_mem_kind kind)
{
	if (kind == SHMD_MEM_AGENT)
		return SHMD_GPU_MEM_AGENT;
	return kind == SHMD_MEM_DMABUF ? SHMD_GPU_MEM_DMABUF : SHMD_GPU_MEM_PEERMEM;
}

static int make_on_gpu(struct shmd_gpu_mem *mem, struct shmd_nic *nic, const struct shmd_gpu_mem_attr *attr)
{
	struct shmd_gpu_mr_attr mr = {.length_bytes = mem->info.bytes, .access = attr->access, .mode = attr->mode};
	struct shmd_gpu_mem_info *info = &mem->info;
	int r;

	mr.addr = info->addr = info->iova = mem->on_gpu;
	r = reg_ways(mem->gpu, nic, &mr, &info->mr);
	if (r < 0)
		return r;
	info->mode = mode_of(info->mr->info.kind);
	text_copy(info->reason, sizeof(info->reason), info->mr->info.reason);
	return 0;
}

static int make_on_host(struct shmd_gpu_mem *mem, struct shmd_nic *nic, const struct shmd_gpu_mem_attr *attr, const char *reason)
{
	struct shmd_mr_attr mr = {.kind = SHMD_MEM_MEMFD, .access = attr->access};
	struct shmd_gpu_mem_info *info = &mem->info;
	int r = shmd_mem_alloc(mem->gpu->client, info->bytes, &mem->host);

	if (!r)
		r = shmd_gpu_map_mem(mem->gpu, mem->host, &info->addr);
	if (r < 0)
		return r;
	info->host_addr = mem->host->addr;
	mr.iova = info->iova = (uintptr_t)mem->host->addr;
	mr.length_bytes = mem->host->bytes;
	mr.fd = mem->host->fd;
	info->mode = SHMD_GPU_MEM_HOST;
	text_copy(info->reason, sizeof(info->reason), reason);
	return mr_reg(nic, &mr, reason, &info->mr);
}

/* A failed way leaves nothing behind. */
static int make(struct shmd_gpu_mem *mem, struct shmd_nic *nic, const struct shmd_gpu_mem_attr *attr)
{
	struct shmd_client *client = mem->gpu->client;
	char why[CLIENT_TEXT_BYTES];
	int r;

	if (attr->mode == SHMD_GPU_MEM_HOST)
		return make_on_host(mem, nic, attr, "");
	/* A full GPU is an error: the library does not use the host's memory in silence. */
	r = alloc_on_gpu(mem);
	if (r < 0)
		return r;
	r = make_on_gpu(mem, nic, attr);
	if (!r || attr->mode != SHMD_GPU_MEM_AUTO || !may_step_down(client, r))
		return r;
	text_copy(why, sizeof(why), shmd_error_text());
	client_lock(client);
	free_on_gpu(mem);
	client_unlock(client);
	mem->on_gpu = 0;
	return make_on_host(mem, nic, attr, why);
}

static int check_mem_attr(const struct shmd_gpu_mem_attr *attr, uint64_t *ret_bytes)
{
	uint64_t mask = page_bytes() - 1;

	if ((unsigned int)attr->mode > SHMD_GPU_MEM_AGENT)
		return text_fail(-EINVAL, "mode %d is unknown; 0 takes the best that works", (int)attr->mode);
	if (!attr->bytes || add_overflows(attr->bytes, mask, ret_bytes))
		return text_fail(-EINVAL, "the size is 0 or too large");
	*ret_bytes &= ~mask;
	return check_access(attr->access);
}

static int mem_begin(struct shmd_gpu *gpu, uint64_t bytes, struct shmd_gpu_mem **ret_mem)
{
	struct shmd_gpu_mem *mem = calloc(1, sizeof(*mem));

	if (!mem)
		return text_fail(-ENOMEM, "no memory for a memory object");
	mem->gpu = gpu;
	mem->info.bytes = bytes;
	client_lock(gpu->client);
	gpu->n_refs++;
	list_add_tail(&gpu->client->gpu_mems, &mem->link);
	client_unlock(gpu->client);
	*ret_mem = mem;
	return 0;
}

int shmd_gpu_mem_alloc(struct shmd_gpu *gpu, struct shmd_nic *nic, const struct shmd_gpu_mem_attr *attr,
		       struct shmd_gpu_mem **ret_mem)
{
	char why[CLIENT_TEXT_BYTES];
	struct shmd_gpu_mem *mem = NULL;
	uint64_t bytes = 0;
	int r = check_pair(gpu, nic);

	if (r < 0)
		return r;
	if (!attr || !ret_mem)
		return text_fail(-EINVAL, "attr or ret_mem is NULL");
	r = check_mem_attr(attr, &bytes);
	if (!r)
		r = mem_begin(gpu, bytes, &mem);
	if (r < 0)
		return r;
	r = make(mem, nic, attr);
	if (r < 0) {
		/* Nothing is registered, so shmd_gpu_mem_free() makes no request; the text of the first error counts. */
		text_copy(why, sizeof(why), shmd_error_text());
		(void)shmd_gpu_mem_free(mem);
		return text_fail(r, "%s", why);
	}
	*ret_mem = mem;
	return 0;
}

int shmd_gpu_mem_info(const struct shmd_gpu_mem *mem, struct shmd_gpu_mem_info *ret_info)
{
	int r = client_check_out(mem ? mem->gpu->client : NULL, ret_info, "ret_info");

	if (!r)
		*ret_info = mem->info;
	return r;
}
