/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests carried out: in a mapper, which serves one user, or in the process of a backend without mappers.
 *
 * Requests come from the daemon, contents of memory from a client. Ranges are checked all the same: a layout that reaches beyond its
 * memory ends in an error here, not in a fault.
 */
#include "daemon/nic/mlx5/mlx5-mapper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <shmd/abi/doorbell.h>

#include "daemon/nic/mlx5/mlx5.h"
#include "proto/base/assert.h"
#include "proto/base/overflow.h"
#include "proto/base/page.h"

struct side_ctx {
	int command_fd; /* owned */
};

struct side_memory {
	uint8_t *map; /* owned */
	uint64_t bytes;
};

struct side_page {
	struct bell_page *page; /* owned */
	void *uar; /* owned: mapped */
};

void mapper_side_init(struct mapper_side *side, const struct bells_attr *attr)
{
	*side = (struct mapper_side){0};
	pthread_mutex_init(&side->lock, NULL);
	hash_init(&side->ctxs);
	hash_init(&side->memories);
	hash_init(&side->pages);
	bells_init(&side->bells, attr);
}

void mapper_side_deinit(struct mapper_side *side)
{
	assert_bug(side->ctxs.n == 0 && side->memories.n == 0 && side->pages.n == 0);
	hash_deinit(&side->ctxs);
	hash_deinit(&side->memories);
	hash_deinit(&side->pages);
	bells_deinit(&side->bells);
	pthread_mutex_destroy(&side->lock);
}

bool mapper_side_has_ctxs(struct mapper_side *side)
{
	bool has;

	pthread_mutex_lock(&side->lock);
	has = side->ctxs.n > 0;
	pthread_mutex_unlock(&side->lock);
	return has;
}

/* ---- tables ------------------------------------------------------------------------------------------------------------ */

static int add(struct mapper_side *side, struct hash *table, void *object, uint64_t *ret_id)
{
	int r;

	pthread_mutex_lock(&side->lock);
	r = hash_add(table, side->last_id + 1, object);
	if (r == 0)
		*ret_id = ++side->last_id;
	pthread_mutex_unlock(&side->lock);
	return r;
}

static void *find(struct mapper_side *side, const struct hash *table, uint64_t id)
{
	void *object;

	pthread_mutex_lock(&side->lock);
	object = hash_get(table, id);
	pthread_mutex_unlock(&side->lock);
	return object;
}

static void *take(struct mapper_side *side, struct hash *table, uint64_t id)
{
	void *object;

	pthread_mutex_lock(&side->lock);
	object = hash_remove(table, id);
	pthread_mutex_unlock(&side->lock);
	return object;
}

/* ---- contexts ---------------------------------------------------------------------------------------------------------- */

static int ctx_add(struct mapper_side *side, const struct mapper_fds *fds, struct mapper_answer *answer)
{
	struct side_ctx *ctx = fds->n == 1 ? calloc(1, sizeof(*ctx)) : NULL;
	int r;

	if (!ctx)
		return fds->n == 1 ? -ENOMEM : -EINVAL;
	ctx->command_fd = fcntl(fds->fds[0], F_DUPFD_CLOEXEC, 3);
	r = ctx->command_fd < 0 ? -errno : add(side, &side->ctxs, ctx, &answer->id);
	if (r < 0) {
		safe_close(ctx->command_fd);
		free(ctx);
	}
	return r;
}

static int ctx_remove(struct mapper_side *side, uint64_t id)
{
	struct side_ctx *ctx = take(side, &side->ctxs, id);

	if (!ctx)
		return -EINVAL;
	safe_close(ctx->command_fd);
	free(ctx);
	return 0;
}

/* ---- regions ----------------------------------------------------------------------------------------------------------- */

static int map_memfd(int fd, uint64_t offset, uint64_t bytes, bool is_writable, uint8_t **ret_data)
{
	uint64_t size;
	void *data;
	int r = nic_memfd_check(fd, &size);

	if (r < 0)
		return r;
	if (bytes == 0 || !range_fits(offset, bytes, size))
		return -EINVAL;
	data = map_shared(fd, offset, bytes, is_writable ? PROT_READ | PROT_WRITE : PROT_READ);
	if (data == MAP_FAILED)
		return errno == EACCES || errno == EPERM ? -EPERM : -ENOMEM;
	*ret_data = data;
	return 0;
}

/* The kernel pins the pages, so the mapping is needed for the call alone. */
static int reg(const struct side_ctx *ctx, const struct mapper_request *request, const struct mapper_fds *fds,
	       struct mapper_answer *answer)
{
	struct mlx5_reg args = {
		.pd = request->pd, .access = request->access, .bytes = request->bytes, .iova = request->address};
	uint8_t *data;
	int r;

	if (!ctx || fds->n != 1)
		return -EINVAL;
	r = map_memfd(fds->fds[0], request->offset, request->bytes, request->is_writable, &data);
	if (r < 0)
		return r;
	args.data = data;
	r = mlx5_uverbs_reg_mr(ctx->command_fd, &args, &answer->handle);
	unmap_shared(data, request->bytes);
	return r;
}

/* ---- queue memory ------------------------------------------------------------------------------------------------------- */

static int reg_umem(const struct side_ctx *ctx, const struct side_memory *memory, struct mapper_answer *answer)
{
	const struct mlx5dv_devx_umem_in in = {
		.addr = memory->map,
		.size = memory->bytes,
		.access = IBV_ACCESS_LOCAL_WRITE,
		.pgsz_bitmap = ~(uint64_t)NIC_PAGE_MASK,
	};

	return mlx5_uverbs_reg_umem(ctx->command_fd, &in, &answer->number, &answer->handle);
}

static void memory_free(struct side_memory *memory)
{
	if (memory && memory->map)
		unmap_shared(memory->map, memory->bytes);
	free(memory);
}

static int map(struct mapper_side *side, const struct side_ctx *ctx, const struct mapper_request *request,
	       const struct mapper_fds *fds, struct mapper_answer *answer)
{
	struct side_memory *memory = calloc(1, sizeof(*memory));
	int r = memory ? 0 : -ENOMEM;

	if (!ctx || fds->n != 1 || request->fill_bytes > request->bytes)
		r = -EINVAL;
	if (r == 0)
		r = map_memfd(fds->fds[0], request->offset, request->bytes, true, &memory->map);
	if (r == 0) {
		memory->bytes = request->bytes;
		memset(memory->map, 0xff, request->fill_bytes);
	}
	if (r == 0)
		r = add(side, &side->memories, memory, &answer->id);
	if (r == 0 && request->is_umem) {
		r = reg_umem(ctx, memory, answer);
		if (r < 0)
			take(side, &side->memories, answer->id);
	}
	if (r < 0)
		memory_free(memory);
	return r;
}

static int unmap(struct mapper_side *side, uint64_t id)
{
	struct side_memory *memory = take(side, &side->memories, id);

	memory_free(memory);
	return memory ? 0 : -EINVAL;
}

static int read_memory(const struct side_memory *memory, const struct mapper_request *request, struct mapper_answer *answer)
{
	if (!memory || request->bytes > sizeof(answer->data) || !range_fits(request->offset, request->bytes, memory->bytes))
		return -EINVAL;
	/* The caller has learnt that the NIC wrote this. */
	__sync_synchronize();
	/* bounded: range_fits(). */
	memcpy(answer->data, memory->map + request->offset, request->bytes);
	return 0;
}

static int store(const struct side_memory *memory, const struct mapper_request *request)
{
	uint32_t word = request->value;

	if (!memory || request->offset % sizeof(word) || !range_fits(request->offset, sizeof(word), memory->bytes))
		return -EINVAL;
	/* bounded: range_fits(). */
	__atomic_store_n((uint32_t *)(void *)(memory->map + request->offset), word, __ATOMIC_RELEASE);
	return 0;
}

/* ---- doorbell pages ------------------------------------------------------------------------------------------------------ */

static void page_free(struct side_page *page)
{
	if (!page)
		return;
	bell_page_free(page->page);
	if (page->uar)
		munmap(page->uar, SHMD_DB_PAGE_BYTES);
	free(page);
}

static int open_page(struct mapper_side *side, const struct mapper_request *request, const struct mapper_fds *fds,
		     struct side_page *page)
{
	struct nic_saved_fds saved = {.n = MLX5_SAVED_FDS, .fds = {[0] = -1}};
	const struct bell_page_attr attr = {
		.uid = request->uid, .reg = (uint64_t *)(void *)((uint8_t *)page->uar + SHMD_DB_SEND_OFFSET), .saved = &saved};
	struct nic_doorbell doorbell;

	memcpy(&saved.fds[MLX5_SAVED_NIC_PAGE], fds->fds, (MLX5_SAVED_FDS - 1) * sizeof(int));
	return bell_page_new(&side->bells, &attr, &doorbell, &page->page);
}

static int page_add(struct mapper_side *side, const struct side_ctx *ctx, const struct mapper_request *request,
		    const struct mapper_fds *fds, struct mapper_answer *answer)
{
	struct side_page *page;
	int r;

	if (!ctx || fds->n != MLX5_SAVED_FDS - 1)
		return -EINVAL;
	page = calloc(1, sizeof(*page));
	if (!page)
		return -ENOMEM;
	page->uar = mmap(NULL, SHMD_DB_PAGE_BYTES, PROT_WRITE, MAP_SHARED, ctx->command_fd, (off_t)request->address);
	if (page->uar == MAP_FAILED) {
		free(page);
		return mlx5_errno(errno);
	}
	r = open_page(side, request, fds, page);
	if (r == 0)
		r = add(side, &side->pages, page, &answer->id);
	if (r < 0)
		page_free(page);
	return r;
}

static int page_remove(struct mapper_side *side, uint64_t id)
{
	struct side_page *page = take(side, &side->pages, id);

	page_free(page);
	return page ? 0 : -EINVAL;
}

static int qp_add(struct mapper_side *side, struct bell_page *page, const struct mapper_request *request)
{
	const struct side_memory *memory = find(side, &side->memories, request->memory);

	if (!memory || request->offset % sizeof(uint32_t) ||
	    !range_fits(request->offset, sizeof(uint32_t), memory->bytes))
		return -EINVAL;
	/* bounded: range_fits(). */
	return bell_page_add(page, request->qpn, (const uint32_t *)(const void *)(memory->map + request->offset),
			     request->is_gpu_driven);
}

static int serve_page(struct mapper_side *side, const struct mapper_request *request)
{
	struct side_page *page = find(side, &side->pages, request->object);

	if (!page)
		return -EINVAL;
	switch (request->op) {
	case MAPPER_PAGE_CATCH_UP:
		bell_page_catch_up(page->page);
		return 0;
	case MAPPER_PAGE_LOOK:
		bell_page_look_at_all(page->page);
		return 0;
	case MAPPER_PAGE_SILENCE:
		bell_page_silence(page->page);
		return 0;
	case MAPPER_QP_ADD:
		return qp_add(side, page->page, request);
	case MAPPER_QP_REMOVE:
		bell_page_remove(page->page, request->qpn);
		return 0;
	case MAPPER_QP_RESET:
		bell_page_reset(page->page, request->qpn);
		return 0;
	}
	return -EINVAL;
}

static int serve(struct mapper_side *side, const struct mapper_request *request, const struct mapper_fds *fds,
		 struct mapper_answer *answer)
{
	const struct side_ctx *ctx = find(side, &side->ctxs, request->ctx);

	switch (request->op) {
	case MAPPER_CTX_ADD:
		return ctx_add(side, fds, answer);
	case MAPPER_CTX_REMOVE:
		return ctx_remove(side, request->ctx);
	case MAPPER_REG:
		return reg(ctx, request, fds, answer);
	case MAPPER_DESTROY:
		return ctx && request->kind < MLX5_OBJECT_KINDS
			       ? mlx5_handle_destroy(ctx->command_fd, request->kind, request->handle) : -EINVAL;
	case MAPPER_MAP:
		return map(side, ctx, request, fds, answer);
	case MAPPER_UNMAP:
		return unmap(side, request->object);
	case MAPPER_READ:
		return read_memory(find(side, &side->memories, request->object), request, answer);
	case MAPPER_STORE:
		return store(find(side, &side->memories, request->object), request);
	case MAPPER_PAGE_ADD:
		return page_add(side, ctx, request, fds, answer);
	case MAPPER_PAGE_REMOVE:
		return page_remove(side, request->object);
	default:
		return serve_page(side, request);
	}
}

void mapper_serve(struct mapper_side *side, const struct mapper_request *request, const struct mapper_fds *fds,
		  struct mapper_answer *ret_answer)
{
	static const struct mapper_fds none;

	memset(ret_answer, 0, offsetof(struct mapper_answer, data));
	ret_answer->result = serve(side, request, fds ? fds : &none, ret_answer);
}
