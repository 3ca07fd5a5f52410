/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts: which user has which, and their start. Any thread.
 */
#include "daemon/nic/soft/remote/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define START_NSEC (10 * NSEC_PER_SEC)
#define RETRY_NSEC (2 * NSEC_PER_MSEC)

/* ---- start ------------------------------------------------------------------------------------------------------------------ */

static void fill_init(const struct remote_host *host, struct remote_init *init)
{
	const struct remote *all = host->all;

	*init = (struct remote_init){.attr = all->attr, .uid = host->uid, .seat = host->seat, .daemon_pid = getpid()};
	init->attr.fault = NULL;
	snprintf(init->fault, sizeof(init->fault), "%s", all->fault);
}

/* The process that starts it may have its hands full. */
static int start_process(const struct remote_host *host, uint64_t end, int *ret_sock)
{
	const struct nic_soft_attr *attr = &host->all->attr;
	const struct timespec pause = nsec_to_timespec(RETRY_NSEC);
	int r;

	while ((r = attr->start_process(attr->start_arg, host->uid, ret_sock)) == -EAGAIN && nsec_now() < end)
		nanosleep(&pause, NULL);
	/* The zygote has ended. */
	return r == -EPIPE || r == -ECONNRESET ? -EUSERS : r;
}

/* Its pidfd, while it is nothing yet but this program. */
static int take_seat(struct remote_host *host, int pidfd)
{
	int r;

	pthread_mutex_lock(&host->all->lock);
	host->pidfd = pidfd;
	r = host->is_dead ? -ENODEV : remote_seat_open(host);
	pthread_mutex_unlock(&host->all->lock);
	return r;
}

static int say_hello(struct remote_host *host, int asks, int peers, uint64_t end)
{
	const int fds[REMOTE_N_INIT] = {
		[REMOTE_INIT_ASKS] = asks,
		[REMOTE_INIT_PEERS] = peers,
		[REMOTE_INIT_WANT] = host->want_fd,
		[REMOTE_INIT_TABLE] = soft_nic(host->all->nics[0]->face)->fabric->shared_fd,
		[REMOTE_INIT_PART] = host->all->seats[host->seat].part_fd,
	};
	struct remote_head head = {.op = REMOTE_INIT, .bytes = sizeof(struct remote_init)};
	struct remote_packet answer;
	struct remote_init init;
	uint64_t now;
	int r;

	fill_init(host, &init);
	r = remote_send(host->works.sock, &head, &init, REMOTE_N_INIT, fds, false);
	now = nsec_now();
	if (r == 0)
		r = remote_recv(host->works.sock, end > now ? end - now : 0, &answer);
	if (r < 0)
		return r == -EAGAIN ? -ENOMEM : -ENODEV;
	r = remote_is_result(answer.head.result) ? answer.head.result : -EIO;
	if (r == 0)
		r = take_seat(host, remote_packet_take_fd(&answer, 0));
	remote_packet_deinit(&answer);
	return r;
}

static int start(struct remote_host *host)
{
	uint64_t end = nsec_now() + START_NSEC;
	_cleanup_close_ int asks = take_fd(&host->asks_theirs);
	_cleanup_close_ int peers = take_fd(&host->peers_theirs);
	int r = start_process(host, end, &host->works.sock);

	if (r == 0 && fcntl(host->works.sock, F_SETFL, 0) < 0)
		r = -errno;
	if (r < 0)
		return r == -EAGAIN ? -ENOMEM : r;
	return say_hello(host, asks, peers, end);
}

static int make_pairs(int asks[2], int peers[2], int *ret_want_fd)
{
	int r = remote_pair(asks);

	if (r < 0)
		return r;
	r = remote_pair(peers);
	if (r == 0) {
		/* Nothing comes back. */
		shutdown(peers[0], SHUT_RD);
		*ret_want_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (*ret_want_fd >= 0)
			return 0;
		r = -errno;
		close(peers[0]);
		close(peers[1]);
	}
	close(asks[0]);
	close(asks[1]);
	return r;
}

static struct remote_host *host_new(struct remote *all, uint32_t uid)
{
	/* bounded: REMOTE_MAX_NICS. */
	struct remote_host *host = calloc(1, sizeof(*host) + all->n_nics * sizeof(host->links[0]));
	int fds[2], peers[2];

	if (!host)
		return NULL;
	/* From here it hears of ports, before it has started. */
	if (make_pairs(fds, peers, &host->want_fd) < 0) {
		free(host);
		return NULL;
	}
	host->all = all;
	host->pidfd = -1;
	host->peers = peers[0];
	host->peers_theirs = peers[1];
	host->uid = uid;
	host->refs = 1;
	host->import_nsec = SOFT_IMPORT_NSEC;
	remote_channel_init(&host->works, -1);
	remote_channel_init(&host->asks, fds[0]);
	host->asks_theirs = fds[1];
	pthread_mutex_init(&host->start_lock, NULL);
	for (unsigned int i = 0; i < all->n_nics; i++) {
		struct remote_link *link = &host->links[i];

		*link = (struct remote_link){.host = host, .nic = all->nics[i], .events = -1};
		list_init(&link->link);
		list_init(&link->ctxs);
	}
	list_add_tail(&all->hosts, &host->link);
	return host;
}

/* Under the lock. */
static int find_or_make(struct remote *all, uint32_t uid, struct remote_host **ret_host)
{
	struct remote_host *host;
	int r;

	list_for_each_entry (host, &all->hosts, link) {
		if (host->uid != uid)
			continue;
		*ret_host = host;
		return 0;
	}
	host = host_new(all, uid);
	if (!host)
		return -ENOMEM;
	r = remote_seat_take(host);
	if (r == 0)
		*ret_host = host;
	else
		remote_host_die(host);
	return r;
}

static int ensure_started(struct remote_host *host)
{
	if (!host->was_started) {
		host->start_result = start(host);
		host->was_started = true;
	}
	return host->start_result;
}

/* ---- on a NIC --------------------------------------------------------------------------------------------------------------- */

static int watch_events(struct remote_link *link, int sock)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int r;

	pthread_mutex_lock(&link->nic->all->lock);
	r = link->host->is_dead ? -ENODEV : 0;
	if (r == 0 && epoll_ctl(link->nic->base.event_fd, EPOLL_CTL_ADD, sock, &ev) < 0)
		r = -errno;
	if (r == 0) {
		link->events = sock;
		list_add_tail(&link->nic->links, &link->link);
	}
	pthread_mutex_unlock(&link->nic->all->lock);
	return r;
}

static int start_link(struct remote_link *link)
{
	struct remote_request request = {.head = {.op = REMOTE_EVENTS, .nic = link->nic->index}, .n_fds = 1};
	int fds[2], r;

	if (link->events >= 0)
		return 0;
	r = remote_pair(fds);
	if (r < 0)
		return r;
	r = watch_events(link, fds[0]);
	if (r == 0) {
		request.fds = &fds[1];
		remote_tell(link->host, &request);
	} else {
		close(fds[0]);
	}
	close(fds[1]);
	return r;
}

static int make_ready(struct remote_host *host, const struct remote_nic *nic)
{
	int r;

	pthread_mutex_lock(&host->start_lock);
	r = ensure_started(host);
	if (r == 0)
		r = start_link(remote_link_of(host, nic));
	pthread_mutex_unlock(&host->start_lock);
	return r;
}

int remote_host_get(struct remote_nic *nic, uint32_t uid, struct remote_host **ret_host)
{
	struct remote *all = nic->all;
	struct remote_host *host = NULL;
	int r;

	pthread_mutex_lock(&all->lock);
	r = find_or_make(all, uid, &host);
	if (r == 0)
		remote_host_ref(host);
	pthread_mutex_unlock(&all->lock);
	if (r < 0)
		return r;
	r = make_ready(host, nic);
	if (r == 0) {
		*ret_host = host;
		return 0;
	}
	pthread_mutex_lock(&all->lock);
	/* A start that failed is tried again for the next context. */
	if (host->start_result < 0)
		remote_host_die(host);
	remote_host_put_locked(host);
	pthread_mutex_unlock(&all->lock);
	return r;
}
