/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a host on this side. One that has died, or whose packets make no sense, is in no list any more: the user's next context
 * starts another one. The structure lives until its last context has been closed. A channel that hangs up ends a process that lives
 * still, or that cannot die yet; it is killed, too, since what it says no longer counts. Any thread.
 */
#include "daemon/nic/soft/remote/remote.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "proto/base/cleanup.h"

int remote_channel_init(struct remote_channel *channel, int sock)
{
	int r;

	*channel = (struct remote_channel){.sock = sock};
	r = -pthread_mutex_init(&channel->send_lock, NULL);
	return r < 0 ? r : -pthread_mutex_init(&channel->lock, NULL);
}

void remote_channel_deinit(struct remote_channel *channel)
{
	channel->sock = safe_close(channel->sock);
	pthread_mutex_destroy(&channel->lock);
	pthread_mutex_destroy(&channel->send_lock);
}

/* ---- references ------------------------------------------------------------------------------------------------------------- */

bool remote_host_is_dead(const struct remote_host *host)
{
	return __atomic_load_n(&host->is_dead, __ATOMIC_ACQUIRE);
}

void remote_host_ref(struct remote_host *host)
{
	host->refs++;
}

static void close_link(struct remote_link *link)
{
	list_del(&link->link);
	link->events = safe_close(link->events);
}

static void host_free(struct remote_host *host)
{
	for (unsigned int i = 0; i < host->all->n_nics; i++)
		close_link(&host->links[i]);
	remote_channel_deinit(&host->works);
	remote_channel_deinit(&host->asks);
	safe_close(host->asks_theirs);
	safe_close(host->peers);
	safe_close(host->peers_theirs);
	safe_close(host->want_fd);
	safe_close(host->pidfd);
	pthread_mutex_destroy(&host->start_lock);
	free(host);
}

/* Under the lock. */
void remote_host_put_locked(struct remote_host *host)
{
	if (--host->refs == 0)
		host_free(host);
}

void remote_host_put(struct remote_host *host)
{
	struct remote *all = host->all;

	pthread_mutex_lock(&all->lock);
	remote_host_put_locked(host);
	pthread_mutex_unlock(&all->lock);
}

/* Threads that wait for an answer wake; the reader of events sees the end of the stream. */
static void hang_up(const struct remote_host *host)
{
	if (host->works.sock >= 0)
		shutdown(host->works.sock, SHUT_RDWR);
	if (host->asks.sock >= 0)
		shutdown(host->asks.sock, SHUT_RDWR);
	for (unsigned int i = 0; i < host->all->n_nics; i++)
		if (host->links[i].events >= 0)
			shutdown(host->links[i].events, SHUT_RDWR);
}

void remote_host_die(struct remote_host *host)
{
	if (host->is_dead)
		return;
	__atomic_store_n(&host->is_dead, true, __ATOMIC_RELEASE);
	for (unsigned int i = 0; i < host->all->n_nics; i++)
		nic_counters_add(&host->all->nics[i]->past, &host->links[i].last);
	hang_up(host);
	remote_seat_leave(host);
	list_del(&host->link);
	remote_host_put_locked(host);
}

void remote_hosts_end(struct remote *all)
{
	pthread_mutex_lock(&all->lock);
	while (!list_empty(&all->hosts))
		remote_host_die(list_first_entry(&all->hosts, struct remote_host, link));
	pthread_mutex_unlock(&all->lock);
}

unsigned int remote_hosts(struct remote *all, const struct remote_nic *nic, struct remote_host *ret_hosts[SOFT_MAX_EXECS])
{
	struct remote_host *host;
	unsigned int n = 0;

	pthread_mutex_lock(&all->lock);
	list_for_each_entry (host, &all->hosts, link) {
		if (n == SOFT_MAX_EXECS || (nic && remote_link_of(host, nic)->n_ctxs == 0))
			continue;
		remote_host_ref(host);
		ret_hosts[n++] = host;
	}
	pthread_mutex_unlock(&all->lock);
	return n;
}

/* Answers may overtake each other. */
void remote_link_count(struct remote_link *link, const struct nic_counters *counters)
{
	const uint64_t *now = (const uint64_t *)counters;
	uint64_t *last = (uint64_t *)&link->last;

	pthread_mutex_lock(&link->nic->all->lock);
	for (unsigned int i = 0; !link->host->is_dead && i < sizeof(*counters) / sizeof(uint64_t); i++)
		last[i] = now[i] > last[i] ? now[i] : last[i];
	pthread_mutex_unlock(&link->nic->all->lock);
}
