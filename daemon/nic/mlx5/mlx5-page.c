/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doorbell pages of mode cpu: files of the daemon's making, and a thread of the user's mapper that polls them.
 *
 * The mapper gets the files and sends none: what it sent would be kept, given to clients and closed here, and somebody who has taken it
 * over could send what waits when it is closed. The daemon maps none of the pages.
 *
 * If a mapper dies, a page has lost the thread that rings: its session gets NIC_EVENT_LOST.
 *
 * Any thread that owns the context; mlx5_memory_hung_up(): control thread.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <shmd/abi/doorbell.h>

#include "proto/base/cleanup.h"

/* Among a page's files, in place of the command descriptor of a saved context, which is not the page's. */
#define MLX5_PAGE_OF_CLIENTS 0

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
		.page_fd = page->fds[MLX5_SAVED_PAGE],
		.register_offset = SHMD_DB_SEND_OFFSET,
		.nic_page_fd = page->fds[MLX5_PAGE_OF_CLIENTS],
		.wake_fd = page->fds[MLX5_SAVED_WAKE],
	};
}

static int duplicate(int fd, int *ret_fd)
{
	*ret_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return *ret_fd < 0 ? -errno : 0;
}

static int open_for_clients(int nic_page_fd, int *ret_fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", nic_page_fd);
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

static void close_files(struct mlx5_page *page)
{
	for (unsigned int i = 0; i < MLX5_SAVED_FDS; i++)
		page->fds[i] = safe_close(page->fds[i]);
}

/* The saved ones of a former process, or new ones. */
static int open_files(const struct mlx5_ctx *ctx, const struct nic_saved_fds *saved, struct mlx5_page *page)
{
	int *fds = page->fds;
	int r = mapper_nic_page(ctx->mapper, ctx->uid, saved ? saved->fds[MLX5_SAVED_NIC_PAGE] : -1, &fds[MLX5_SAVED_NIC_PAGE]);

	if (r == 0)
		r = saved ? duplicate(saved->fds[MLX5_SAVED_PAGE], &fds[MLX5_SAVED_PAGE])
			  : nic_memfd_new("shmemd-doorbell", SHMD_DB_PAGE_BYTES, &fds[MLX5_SAVED_PAGE]);
	if (r == 0 && saved)
		r = duplicate(saved->fds[MLX5_SAVED_WAKE], &fds[MLX5_SAVED_WAKE]);
	else if (r == 0 && (fds[MLX5_SAVED_WAKE] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
		r = -errno;
	return r < 0 ? r : open_for_clients(fds[MLX5_SAVED_NIC_PAGE], &fds[MLX5_PAGE_OF_CLIENTS]);
}

static int ask_mapper(struct mlx5_ctx *ctx, struct mlx5_page *page)
{
	const struct mapper_request request = {
		.op = MAPPER_PAGE_ADD, .ctx = ctx->mapper_ctx, .uid = ctx->uid, .address = ctx->uar->mmap_off};
	struct mapper_fds fds = {.n = MLX5_SAVED_FDS - 1};
	struct mapper_answer answer = {0};
	int r;

	memcpy(fds.fds, &page->fds[MLX5_SAVED_NIC_PAGE], fds.n * sizeof(int));
	r = mapper_call(ctx->mapper, &request, &fds, &answer);
	if (r < 0)
		return r;
	page->mapper = mapper_ref(ctx->mapper);
	page->id = answer.id;
	/* No page has the number 0. */
	return answer.id ? 0 : -EIO;
}

/* With the context's mapper, or with another one if that has just died. */
static int ask_for_page(struct mlx5_ctx *ctx, const struct nic_saved_fds *saved, struct mlx5_page *page)
{
	int r = -EPIPE;

	for (unsigned int i = 0; i < 2 && r == -EPIPE; i++) {
		close_files(page);
		r = mlx5_memory_need_mapper(ctx);
		if (r == 0)
			r = open_files(ctx, saved, page);
		if (r == 0)
			r = ask_mapper(ctx, page);
	}
	return r == -EPIPE ? -ENOMEM : r;
}

static struct mlx5_page *page_alloc(void)
{
	struct mlx5_page *page = calloc(1, sizeof(*page));

	for (unsigned int i = 0; page && i < MLX5_SAVED_FDS; i++)
		page->fds[i] = -1;
	return page;
}

int mlx5_page_open(struct mlx5_ctx *ctx, const struct nic_saved_fds *saved, struct nic_doorbell *ret_doorbell,
		   struct mlx5_page **ret_page)
{
	struct mlx5_page *page = page_alloc();
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
	return mapper_call(page->mapper, &request, NULL, &answer);
}

struct mlx5_page *mlx5_page_free(struct mlx5_page *page)
{
	if (!page)
		return NULL;
	if (page->mapper) {
		call_page(page, (struct mapper_request){.op = MAPPER_PAGE_REMOVE});
		mapper_put(page->mapper);
	}
	close_files(page);
	free(page);
	return NULL;
}

void mlx5_page_saved_fds(const struct mlx5_page *page, struct nic_saved_fds *saved)
{
	memcpy(&saved->fds[MLX5_SAVED_NIC_PAGE], &page->fds[MLX5_SAVED_NIC_PAGE], (MLX5_SAVED_FDS - 1) * sizeof(int));
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
