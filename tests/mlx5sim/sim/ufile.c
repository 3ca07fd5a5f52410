/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One open device: the socket that all duplicates of a command fd lead to. When the last of them goes, in whichever
 * process, the socket ends and with it everything that was made through it.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include "proto/base/cleanup.h"
#include "tests/mlx5sim/sim/dm.h"

/* A request and the socket to answer on; 0 at the end of the connection. */
static int receive(int sock, struct sim_request *request, int *ret_reply)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = {request, sizeof(*request)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *cmsg;
	ssize_t n;

	*ret_reply = -1;
	do
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return 0;
	cmsg = CMSG_FIRSTHDR(&msg);
	if (cmsg && cmsg->cmsg_type == SCM_RIGHTS)
		memcpy(ret_reply, CMSG_DATA(cmsg), sizeof(int));
	return n == (ssize_t)sizeof(*request) ? 1 : -EINVAL;
}

static void serve(struct ufile *ufile, const struct sim_request *request, int reply)
{
	int memfd = -1, r;

	if (ufile->has_lost) {
		upcall_done(reply, -EIO, -1);
		return;
	}
	switch (request->kind) {
	case SIM_REQUEST_IOCTL:
		call_serve_ioctl(ufile, request, reply);
		return;
	case SIM_REQUEST_MMAP:
		r = (dm_is_of_mmap(request->args[0]) ? dm_mmap : uar_mmap)(ufile, request->args[0], request->args[1],
									   request->args[2], &memfd);
		if (r < 0)
			sim_log(ufile->sim, "mlx5_%d refused mmap at 0x%llx: no such page",
				ufile->nic->index, (unsigned long long)request->args[0]);
		upcall_done(reply, r, memfd);
		return;
	}
	upcall_done(reply, -EINVAL, -1);
}

static unsigned int count_objects(const struct ufile *ufile)
{
	const struct list *l;
	unsigned int n = 0;

	for (l = ufile->objects.next; l != &ufile->objects; l = l->next)
		n++;
	return n;
}

/* Its device is gone, and everything that it had; threads that wait for events are woken. */
static void lose(struct ufile *ufile)
{
	const struct ib_uverbs_async_event_desc event = {.event_type = IBV_EVENT_DEVICE_FATAL};
	struct object *object;

	sim_log(ufile->sim, "mlx5_%d lost with %u objects", ufile->nic->index, count_objects(ufile));
	event_forget(ufile->sim, &ufile->port_subscriptions);
	objects_free_but_channels(ufile);
	list_for_each_entry (object, &ufile->objects, link) {
		struct channel *channel = container_of(object, struct channel, object);

		if (channel->is_async)
			channel_send(channel, &event, sizeof(event));
		channel_end(channel);
	}
}

/* Until there is a request. A device that is lost is seen at once. */
static void wait_for_request(struct ufile *ufile)
{
	struct pollfd fds[2] = {{.fd = ufile->sock, .events = POLLIN},
				{.fd = ufile->wake, .events = POLLIN}};

	while (!ufile->has_lost) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			abort();
		if (__atomic_load_n(&ufile->lost, __ATOMIC_ACQUIRE)) {
			ufile->has_lost = true;
			lose(ufile);
		} else if (fds[0].revents) {
			return;
		}
	}
}

static int next_request(struct ufile *ufile, struct sim_request *request, int *ret_reply)
{
	wait_for_request(ufile);
	return receive(ufile->sock, request, ret_reply);
}

void *ufile_thread(void *arg)
{
	struct ufile *ufile = arg;
	struct sim *sim = ufile->sim;
	struct sim_request request;
	int reply;

	while (next_request(ufile, &request, &reply) > 0) {
		if (reply >= 0)
			serve(ufile, &request, reply);
		safe_close(reply);
	}
	sim_log(sim, "mlx5_%d closed with %u objects after %llu commands", ufile->nic->index,
		count_objects(ufile), (unsigned long long)ufile->n_commands);
	event_forget(sim, &ufile->port_subscriptions);
	objects_free_all(ufile);
	hash_deinit(&ufile->handles);
	hash_deinit(&ufile->names);
	close(ufile->sock);
	close(ufile->wake);
	sim_lock(sim);
	list_del(&ufile->nic_link);
	__atomic_sub_fetch(&sim->n_open[ufile->nic->index], 1, __ATOMIC_RELAXED);
	ufile->nic->n_uids -= ufile->uid != 0;
	sim->n_ufiles--;
	pthread_cond_broadcast(&sim->wake);
	sim_unlock(sim);
	free(ufile);
	return NULL;
}
