/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that events are read from: a socket pair. Both ends stay open here, so that unread events can be
 * taken back when their object goes: libibverbs waits until it has seen as many as the device reports.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>

#include "tests/mlx5sim/sim/sim.h"

static void channel_free(struct object *object)
{
	struct channel *channel = container_of(object, struct channel, object);
	struct sim *sim = object->ufile->sim;

	sim_lock(sim);
	if (object->ufile->async == channel)
		object->ufile->async = NULL;
	sim_unlock(sim);
	close(channel->ends[0]);
	close(channel->ends[1]);
	free(channel);
}

int channel_new(struct ufile *ufile, struct channel **ret_channel)
{
	struct channel *channel = calloc(1, sizeof(*channel));
	int r;

	if (!channel)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel->ends) < 0) {
		free(channel);
		return -EMFILE;
	}
	r = object_add(ufile, &channel->object, OBJECT_CHANNEL, channel_free);
	if (r < 0) {
		close(channel->ends[0]);
		close(channel->ends[1]);
		free(channel);
		return r;
	}
	*ret_channel = channel;
	return 0;
}

int channel_put(struct call *call, const struct channel *channel)
{
	return upcall_put_fd(call->reply, channel->ends[1]);
}

static bool is_same_file(int a, int b)
{
	struct stat sa, sb;

	return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
	       sa.st_ino == sb.st_ino;
}

struct object *channel_of_fd(struct call *call, int fd)
{
	int ours = upcall_get_fd(call->reply, fd);
	struct object *object, *found = NULL;

	if (ours < 0)
		return NULL;
	list_for_each_entry (object, &call->ufile->objects, link) {
		if (object->type == OBJECT_CHANNEL &&
		    is_same_file(container_of(object, struct channel, object)->ends[1], ours))
			found = object;
	}
	close(ours);
	return found;
}

bool channel_send(struct channel *channel, const void *event, size_t bytes)
{
	return send(channel->ends[0], event, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)bytes;
}

void channel_end(struct channel *channel)
{
	shutdown(channel->ends[0], SHUT_WR);
}

unsigned int channel_withdraw(struct channel *channel, size_t event_bytes,
			      bool (*is_mine)(const void *event, const void *of), const void *of)
{
	unsigned int n = 0, n_kept = 0;
	char kept[1024][16], event[16];

	while (n_kept < 1024 &&
	       recv(channel->ends[1], event, event_bytes, MSG_DONTWAIT) == (ssize_t)event_bytes) {
		if (is_mine(event, of))
			n++;
		else
			memcpy(kept[n_kept++], event, event_bytes);
	}
	for (unsigned int i = 0; i < n_kept; i++)
		channel_send(channel, kept[i], event_bytes);
	return n;
}

int async_event_alloc(struct call *call)
{
	struct channel *channel;
	int r, fd;

	r = channel_new(call->ufile, &channel);
	if (r < 0)
		return r;
	fd = channel_put(call, channel);
	if (fd < 0) {
		object_destroy(&channel->object);
		return fd;
	}
	sim_lock(call->ufile->sim);
	channel->is_async = true;
	if (!call->ufile->async)
		call->ufile->async = channel;
	sim_unlock(call->ufile->sim);
	return call_set_handle(call, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, fd);
}

int write_create_comp_channel(struct call *call)
{
	struct ib_uverbs_create_comp_channel_resp resp = {0};
	struct channel *channel;
	int r, fd;

	r = channel_new(call->ufile, &channel);
	if (r < 0)
		return r;
	fd = channel_put(call, channel);
	if (fd < 0) {
		object_destroy(&channel->object);
		return fd;
	}
	resp.fd = (uint32_t)fd;
	return call_out(call, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
}
