/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of clients as the backend uses it: everything here is a request to the mapper of the session's user, so the daemon maps none
 * of it.
 *
 * If a mapper dies, queue memory that it had mapped can be read and written no more: such a batch is like one in a dmabuf, and
 * its QPs go on. New regions and queues get another mapper.
 *
 * Any thread that owns the context.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* With the context's mapper, or with another one if that has just died. */
static int call_own(struct mlx5_ctx *ctx, struct mapper_request *request, const struct mapper_fds *fds,
		    struct mapper_answer *ret_answer)
{
	int r = -EPIPE;

	for (unsigned int i = 0; i < 2 && r == -EPIPE; i++) {
		r = mlx5_memory_need_mapper(ctx);
		request->ctx = ctx->mapper_ctx;
		if (r == 0)
			r = mapper_call(ctx->mapper, request, fds, ret_answer);
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
	return ctx->mapper && !mapper_is_dead(ctx->mapper) ? r : mlx5_handle_destroy(ctx->ibv->cmd_fd, kind, handle);
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
