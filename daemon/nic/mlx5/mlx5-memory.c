/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of clients as the backend uses it: everything here is a request to the mapper of the session's user, so the daemon maps none
 * of it.
 *
 * If a mapper dies, queue memory that it had mapped can be read and written no more: such a batch is like one in a dmabuf, and
 * its QPs go on. New regions and queues get another mapper. A mapper that dies within a request may have made an object in the kernel
 * before: it is destroyed, and the request is repeated. An object that it has destroyed counts as destroyed.
 *
 * Any thread that owns the context.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/cleanup.h"

#define TRIES 3u

/* ---- the mapper of a context ----------------------------------------------------------------------------------------- */

void mlx5_memory_leave(struct mlx5_ctx *ctx)
{
	const struct mapper_request request = {.op = MAPPER_CTX_REMOVE, .ctx = ctx->mapper_ctx};
	struct mapper_answer answer;

	if (!ctx->mapper)
		return;
	mapper_call(ctx->mapper, &request, NULL, &answer);
	mapper_put(take_ptr(ctx->mapper));
}

static int enter(struct mlx5_ctx *ctx, struct mapper *mapper)
{
	const struct mapper_request request = {.op = MAPPER_CTX_ADD};
	const struct mapper_fds fds = {.n = 1, .fds = {ctx->ibv->cmd_fd}};
	struct mapper_answer answer;
	int r = mapper_call(mapper, &request, &fds, &answer);

	if (r < 0) {
		mapper_put(mapper);
		return r;
	}
	ctx->mapper = mapper;
	ctx->mapper_ctx = answer.id;
	return 0;
}

int mlx5_memory_need_mapper(struct mlx5_ctx *ctx)
{
	struct mapper *mapper;
	int r;

	if (ctx->mapper && !mapper_is_dead(ctx->mapper))
		return 0;
	mlx5_memory_leave(ctx);
	r = mapper_get(&ctx->nic->mappers, ctx->uid, ctx->is_pooled, &mapper);
	return r < 0 ? r : enter(ctx, mapper);
}

static int call_once(struct mlx5_ctx *ctx, struct mapper_request *request, const struct mapper_fds *fds,
		     struct mapper_answer *ret_answer)
{
	int r = mlx5_memory_need_mapper(ctx);

	request->ctx = ctx->mapper_ctx;
	return r < 0 ? r : mapper_call(ctx->mapper, request, fds, ret_answer);
}

/* ---- a mapper that dies within a request ------------------------------------------------------------------------------- */

static bool is_recorded(const struct mlx5_ctx *ctx, enum mlx5_object_kind kind, uint32_t handle)
{
	const struct mlx5_queues *queues;
	const struct mlx5_mr *mr;

	if (kind == MLX5_OBJECT_UMEM) {
		list_for_each_entry (queues, &ctx->base.queues, base.link)
			if (queues->umem && queues->umem->handle == handle)
				return true;
		if (ctx->pooled && ctx->pooled->umem && ctx->pooled->umem->handle == handle)
			return true;
		return ctx->rmp.umem && ctx->rmp.umem->handle == handle;
	}
	list_for_each_entry (mr, &ctx->base.mrs, base.link)
		if (mr->ibv && mr->ibv->handle == handle)
			return true;
	return false;
}

/* A client may have regions that it has not reported: those of other lengths are left alone. */
static bool has_length(const struct mlx5_ctx *ctx, uint32_t handle, uint64_t bytes)
{
	struct ibv_mr *mr = ibv_import_mr(ctx->pd, handle);
	bool is_it = mr && mr->length == bytes;

	if (mr)
		ibv_unimport_mr(mr);
	return is_it;
}

static uint32_t *list_handles(const struct mlx5_ctx *ctx, enum mlx5_object_kind kind, uint32_t *ret_n)
{
	uint32_t *handles = calloc(MLX5_HANDLES_MAX, sizeof(*handles));

	if (!handles || mlx5_handles_list(ctx->ibv->cmd_fd, kind, handles, MLX5_HANDLES_MAX, ret_n) == 0)
		return handles;
	free(handles);
	return NULL;
}

/* The kernel may have made the object, and nobody has its handle. An umem that is in use is not destroyed. */
static void destroy_nameless(struct mlx5_ctx *ctx, enum mlx5_object_kind kind, uint64_t bytes)
{
	uint32_t n = 0;
	_cleanup_free_ uint32_t *handles = list_handles(ctx, kind, &n);

	for (uint32_t i = 0; handles && i < n; i++)
		if (!is_recorded(ctx, kind, handles[i]) && (kind != MLX5_OBJECT_MR || has_length(ctx, handles[i], bytes)))
			mlx5_memory_destroy(ctx, kind, handles[i]);
}

static bool is_there(const struct mlx5_ctx *ctx, enum mlx5_object_kind kind, uint32_t handle)
{
	uint32_t n = 0;
	_cleanup_free_ uint32_t *handles = list_handles(ctx, kind, &n);

	if (!handles || n == MLX5_HANDLES_MAX)
		return true;
	while (n > 0)
		if (handles[--n] == handle)
			return true;
	return false;
}

/* 0: the kernel has carried out the request before; -EPIPE: it is to be asked for again. */
static int after_death(struct mlx5_ctx *ctx, const struct mapper_request *request)
{
	if (request->op == MAPPER_REG)
		destroy_nameless(ctx, MLX5_OBJECT_MR, request->bytes);
	else if (request->op == MAPPER_MAP && request->is_umem)
		destroy_nameless(ctx, MLX5_OBJECT_UMEM, request->bytes);
	else if (request->op == MAPPER_DESTROY && !is_there(ctx, request->kind, request->handle))
		return 0;
	return -EPIPE;
}

/* With the context's mapper, or with another one if that has died, perhaps before the request. */
static int call_own(struct mlx5_ctx *ctx, struct mapper_request *request, const struct mapper_fds *fds,
		    struct mapper_answer *ret_answer)
{
	int r = -EPIPE;

	for (unsigned int i = 0; i < TRIES && r == -EPIPE; i++) {
		r = call_once(ctx, request, fds, ret_answer);
		if (r == -EPIPE)
			r = after_death(ctx, request);
	}
	return r == -EPIPE ? -ENOMEM : r;
}

/* ---- objects in the kernel ------------------------------------------------------------------------------------------- */

int mlx5_memory_reg(struct mlx5_ctx *ctx, const struct mapper_request *region, int fd, uint32_t *ret_handle)
{
	const struct mapper_fds fds = {.n = 1, .fds = {fd}};
	struct mapper_request request = *region;
	struct mapper_answer answer;
	int r;

	request.op = MAPPER_REG;
	r = call_own(ctx, &request, &fds, &answer);
	if (r == 0)
		*ret_handle = answer.handle;
	return r;
}

int mlx5_memory_destroy(struct mlx5_ctx *ctx, enum mlx5_object_kind kind, uint32_t handle)
{
	struct mapper_request request = {.op = MAPPER_DESTROY, .kind = kind, .handle = handle};
	struct mapper_answer answer;
	int r = call_own(ctx, &request, NULL, &answer);

	/* Without a mapper the pages are unpinned here, whatever kept one from starting: the keys must end. */
	return r == 0 || (ctx->mapper && !mapper_is_dead(ctx->mapper)) ? r : mlx5_handle_destroy(ctx->ibv->cmd_fd, kind, handle);
}

/* ---- queue memory ------------------------------------------------------------------------------------------------------ */

int mlx5_memory_open(struct mlx5_ctx *ctx, const struct mlx5_memory_attr *attr, struct mlx5_memory *ret_memory,
		     struct mlx5_object **ret_umem)
{
	struct mapper_request request = {.op = MAPPER_MAP,
					 .offset = attr->offset,
					 .bytes = attr->bytes,
					 .fill_bytes = attr->fill_bytes,
					 .is_umem = ret_umem};
	const struct mapper_fds fds = {.n = 1, .fds = {attr->fd}};
	struct mlx5_object_record umem = {0};
	struct mapper_answer answer;
	int r = call_own(ctx, &request, &fds, &answer);

	if (r < 0)
		return r;
	*ret_memory = (struct mlx5_memory){.mapper = mapper_ref(ctx->mapper), .id = answer.id};
	umem.number = answer.number;
	umem.handle = answer.handle;
	if (ret_umem)
		r = mlx5_object_import(ctx->ibv, NULL, MLX5_OBJECT_UMEM, &umem, ret_umem);
	if (r < 0)
		mlx5_memory_destroy(ctx, MLX5_OBJECT_UMEM, umem.handle);
	return r;
}

void mlx5_memory_close(struct mlx5_memory *memory)
{
	const struct mapper_request request = {.op = MAPPER_UNMAP, .object = memory->id};
	struct mapper_answer answer;

	if (!memory->mapper)
		return;
	mapper_call(memory->mapper, &request, NULL, &answer);
	mapper_put(memory->mapper);
	*memory = (struct mlx5_memory){0};
}

bool mlx5_memory_is_there(const struct mlx5_memory *memory)
{
	return memory->mapper && !mapper_is_dead(memory->mapper);
}

int mlx5_memory_read(const struct mlx5_memory *memory, uint64_t offset, void *buf, size_t bytes)
{
	struct mapper_request request = {.op = MAPPER_READ, .object = memory->id};
	struct mapper_answer answer;
	size_t done = 0;
	int r = memory->mapper ? 0 : -EOPNOTSUPP;

	while (r == 0 && done < bytes) {
		request.offset = offset + done;
		request.bytes = bytes - done < MAPPER_DATA_BYTES ? bytes - done : MAPPER_DATA_BYTES;
		r = mapper_call(memory->mapper, &request, NULL, &answer);
		if (r == 0)
			memcpy((uint8_t *)buf + done, answer.data, request.bytes);
		done += request.bytes;
	}
	return r == -EPIPE ? -EOPNOTSUPP : r;
}

uint32_t mlx5_memory_word(const struct mlx5_memory *memory, uint64_t offset)
{
	uint32_t word = 0;

	return mlx5_memory_read(memory, offset, &word, sizeof(word)) < 0 ? 0 : word;
}

int mlx5_memory_store(const struct mlx5_memory *memory, uint64_t offset, uint32_t word)
{
	const struct mapper_request request = {
		.op = MAPPER_STORE, .object = memory->id, .offset = offset, .value = word};
	struct mapper_answer answer;

	return memory->mapper ? mapper_call(memory->mapper, &request, NULL, &answer) : -EOPNOTSUPP;
}
