/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The epoll set of a NIC, which the daemon watches, and the list of news that wait for the control thread. Any thread.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "proto/base/assert.h"

static struct epoll_event epoll_of(uint64_t what)
{
	return (struct epoll_event){
		.events = what < MLX5_WATCH_KEYS ? EPOLLIN : EPOLLIN | EPOLLONESHOT, .data.u64 = what};
}

int mlx5_events_watch(struct mlx5_nic *nic, int fd, uint64_t what)
{
	struct epoll_event ev = epoll_of(what);

	return epoll_ctl(nic->base.event_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

void mlx5_events_unwatch(struct mlx5_nic *nic, int fd)
{
	epoll_ctl(nic->base.event_fd, EPOLL_CTL_DEL, fd, NULL);
}

int mlx5_nic_watch(struct mlx5_nic *nic, struct ibv_context *ibv)
{
	int flags = fcntl(ibv->async_fd, F_GETFL);

	if (flags < 0 || fcntl(ibv->async_fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	return mlx5_events_watch(nic, ibv->async_fd, MLX5_WATCH_NIC);
}

void mlx5_events_listen(struct mlx5_ctx *ctx)
{
	struct epoll_event ev = epoll_of(ctx->key);

	epoll_ctl(ctx->nic->base.event_fd, EPOLL_CTL_MOD, ctx->events->fd, &ev);
}

void mlx5_events_wake(struct mlx5_nic *nic)
{
	uint64_t one = 1;

	if (write(nic->more_fd, &one, sizeof(one)) < 0)
		assert_bug(errno == EAGAIN);
}

void mlx5_news_add(struct mlx5_nic *nic, struct mlx5_news *news, const struct nic_event *event)
{
	pthread_mutex_lock(&nic->lock);
	news->event = *event;
	list_del(&news->link); /* what its queue did before may still wait */
	list_add_tail(&nic->news, &news->link);
	pthread_mutex_unlock(&nic->lock);
	mlx5_events_wake(nic);
}

void mlx5_news_drop(struct mlx5_nic *nic, struct mlx5_news *news)
{
	pthread_mutex_lock(&nic->lock);
	if (news->link.next) /* else of a queue that was never there */
		list_del(&news->link);
	pthread_mutex_unlock(&nic->lock);
}
