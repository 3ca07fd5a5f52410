/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of clients as the backend uses it: everything here is a request to the mapper of the session's user, so the daemon maps none
 * of it.
 *
 * If a mapper dies, queue memory that it had mapped can be read and written no more: such a batch is like one in a dmabuf, and
 * its QPs go on. New regions and queues get another mapper. A doorbell page of mode cpu has lost the thread that rings: its
 * session gets NIC_EVENT_LOST.
 *
 * Any thread that owns the context; mlx5_memory_hung_up(): control thread.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <shmd/abi/doorbell.h>

/* ---- the mapper of a context ----------------------------------------------------------------------------------------- */

void mlx5_memory_leave(struct mlx5_ctx *ctx)
{
	const struct mapper_request request = {.op = MAPPER_CTX_REMOVE, .ctx = ctx->mapper_ctx};
	struct mapper_answer answer;

	if (!ctx->mapper)
		return;
	mapper_call(ctx->mapper, &request, NULL, &answer, NULL);
	mapper_put(take_ptr(ctx->mapper));
}

static int enter(struct mlx5_ctx *ctx, struct mapper *mapper)
{
	const struct mapper_request request = {.op = MAPPER_CTX_ADD};
	const struct mapper_fds fds = {.n = 1, .fds = {ctx->ibv->cmd_fd}};
	struct mapper_answer answer;
	int r = mapper_call(mapper, &request, &fds, &answer, NULL);

	if (r < 0) {
		mapper_put(mapper);
		return r;
	}
	ctx->mapper = mapper;
	ctx->mapper_ctx = answer.id;
	return 0;
}

static int need_mapper(struct mlx5_ctx *ctx)
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
		    struct mapper_answer *ret_answer, struct mapper_fds *ret_fds)
{
	int r = -EPIPE;

	for (unsigned int i = 0; i < 2 && r == -EPIPE; i++) {
		r = need_mapper(ctx);
		request->ctx = ctx->mapper_ctx;
		if (r == 0)
			r = mapper_call(ctx->mapper, request, fds, ret_answer, ret_fds);
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
	r = call_own(ctx, &request, &fds, &answer, NULL);
	if (r == 0)
		*ret_handle = answer.handle;
	return r;
}

int mlx5_memory_destroy(struct mlx5_ctx *ctx, enum mlx5_object_kind kind, uint32_t handle)
{
	struct mapper_request request = {.op = MAPPER_DESTROY, .kind = kind, .handle = handle};
	struct mapper_answer answer;
	int r = call_own(ctx, &request, NULL, &answer, NULL);

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
	int r = call_own(ctx, &request, &fds, &answer, NULL);

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
	mapper_call(memory->mapper, &request, NULL, &answer, NULL);
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
		r = mapper_call(memory->mapper, &request, NULL, &answer, NULL);
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

	return memory->mapper ? mapper_call(memory->mapper, &request, NULL, &answer, NULL) : -EOPNOTSUPP;
}

/* ---- doorbell pages ------------------------------------------------------------------------------------------------------ */

/*
 * The NIC's epoll set reports the end of the channel, once. Several pages have one channel, which is in the set once. If it has ended
 * before the context has its page, the report came too early for that page: so each page asks for another one.
 */
static int watch_mapper(struct mlx5_ctx *ctx, struct mlx5_page *page)
{
	struct epoll_event ev = {.events = EPOLLONESHOT, .data.u64 = MLX5_WATCH_MAPPERS};
	int channel = mapper_channel(page->mapper), set = ctx->nic->base.event_fd;

	if (channel < 0 || epoll_ctl(set, EPOLL_CTL_ADD, channel, &ev) == 0)
		return 0;
	return errno == EEXIST && epoll_ctl(set, EPOLL_CTL_MOD, channel, &ev) == 0 ? 0 : -errno;
}

static void describe(const struct mlx5_page *page, struct nic_doorbell *doorbell)
{
	*doorbell = (struct nic_doorbell){
		.mode = NIC_DOORBELL_CPU,
		.page_fd = page->fds.fds[MAPPER_FD_PAGE],
		.register_offset = SHMD_DB_SEND_OFFSET,
		.nic_page_fd = page->fds.fds[MAPPER_FD_NIC_PAGE_OF_CLIENTS],
		.wake_fd = page->fds.fds[MAPPER_FD_WAKE],
	};
}

static int ask_for_page(struct mlx5_ctx *ctx, const struct nic_saved_fds *saved, struct mlx5_page *page)
{
	struct mapper_request request = {.op = MAPPER_PAGE_ADD, .uid = ctx->uid, .address = ctx->uar->mmap_off};
	struct mapper_answer answer = {0};
	struct mapper_fds fds = {0};
	int r;

	if (saved) {
		fds.n = MLX5_SAVED_FDS - 1;
		memcpy(fds.fds, &saved->fds[MLX5_SAVED_NIC_PAGE], fds.n * sizeof(int));
	}
	r = call_own(ctx, &request, &fds, &answer, &page->fds);
	/* No page has the number 0. */
	if (answer.id) {
		page->mapper = mapper_ref(ctx->mapper);
		page->id = answer.id;
	}
	return r < 0 ? r : page->mapper && page->fds.n == MAPPER_MAX_FDS ? 0 : -EIO;
}

int mlx5_page_open(struct mlx5_ctx *ctx, const struct nic_saved_fds *saved, struct nic_doorbell *ret_doorbell,
		   struct mlx5_page **ret_page)
{
	struct mlx5_page *page = calloc(1, sizeof(*page));
	int r = page ? ask_for_page(ctx, saved, page) : -ENOMEM;

	if (r == 0)
		r = watch_mapper(ctx, page);
	if (r < 0) {
		mlx5_page_free(page);
		return r;
	}
	describe(page, ret_doorbell);
	*ret_page = page;
	return 0;
}

static int call_page(const struct mlx5_page *page, struct mapper_request request)
{
	struct mapper_answer answer;

	request.object = page->id;
	return mapper_call(page->mapper, &request, NULL, &answer, NULL);
}

struct mlx5_page *mlx5_page_free(struct mlx5_page *page)
{
	if (!page)
		return NULL;
	if (page->mapper) {
		call_page(page, (struct mapper_request){.op = MAPPER_PAGE_REMOVE});
		mapper_put(page->mapper);
	}
	mapper_fds_close(&page->fds);
	free(page);
	return NULL;
}

void mlx5_page_saved_fds(const struct mlx5_page *page, struct nic_saved_fds *saved)
{
	memcpy(&saved->fds[MLX5_SAVED_NIC_PAGE], page->fds.fds, (MLX5_SAVED_FDS - 1) * sizeof(int));
	saved->n = MLX5_SAVED_FDS;
}

int mlx5_page_add(const struct mlx5_page *page, const struct mlx5_memory *memory, uint64_t offset, uint32_t qpn, bool is_gpu_driven)
{
	if (memory->mapper != page->mapper)
		return -EOPNOTSUPP;
	return call_page(page, (struct mapper_request){.op = MAPPER_QP_ADD,
						       .memory = memory->id,
						       .offset = offset,
						       .qpn = qpn,
						       .is_gpu_driven = is_gpu_driven});
}

void mlx5_page_qp(const struct mlx5_page *page, enum mapper_op op, uint32_t qpn)
{
	if (page)
		call_page(page, (struct mapper_request){.op = op, .qpn = qpn});
}

void mlx5_page_tell(const struct mlx5_page *page, enum mapper_op op)
{
	if (page)
		call_page(page, (struct mapper_request){.op = op});
}

static void lose(struct mlx5_ctx *ctx)
{
	ctx->page_is_lost = true;
	ctx->page_news.event = (struct nic_event){
		.kind = NIC_EVENT_LOST, .session_id = ctx->base.session_id, .state = NIC_PORT_LOST};
	list_del(&ctx->page_news.link);
	list_add_tail(&ctx->nic->news, &ctx->page_news.link);
}

/* Which mapper has died is of no interest: each context knows its own. */
void mlx5_memory_hung_up(struct mlx5_nic *nic)
{
	struct mlx5_ctx *ctx;

	pthread_mutex_lock(&nic->lock);
	list_for_each_entry (ctx, &nic->ctxs, link)
		if (ctx->page && !ctx->page_is_lost && mapper_has_hung_up(ctx->page->mapper))
			lose(ctx);
	pthread_mutex_unlock(&nic->lock);
	mlx5_events_wake(nic);
}
