/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NICs whose executors are elsewhere: what concerns a NIC as a whole. Its address and its port are those of a soft NIC here that has no
 * executor, the face; hosts have the same. The sum of what was counted is of all hosts that there are and were.
 *
 * event_fd is an epoll set of the face's and of one socket for each host, so that the end of a host is an event, too: each of its
 * contexts has lost its NIC. Control thread.
 */
#include "daemon/nic/soft/remote/remote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define REST_NSEC (2 * NSEC_PER_MSEC)
#define EVENTS_AT_ONCE 16u
#define PORT_NSEC (30 * NSEC_PER_MSEC)

static struct soft_nic *face(const struct remote_nic *nic)
{
	return soft_nic(nic->face);
}

static int query(struct nic *base, struct nic_info *ret_info)
{
	return nic_query(remote_nic(base)->face, ret_info);
}

/* ---- questions to all hosts ------------------------------------------------------------------------------------------------- */

/* Within the budget. -EBUSY: it does not answer in time. */
static int ask_briefly(struct remote_nic *nic, struct remote_host *host, struct remote_head head, uint64_t most_nsec,
		       struct remote_packet *ret_answer)
{
	const struct remote_request request = {.head = head};
	uint64_t left = soft_patience_left(face(nic)->fabric), begin = nsec_now();
	int r = remote_ask(host, &request, left < most_nsec ? left : most_nsec, ret_answer);

	if (r == -EBUSY)
		soft_patience_spend(face(nic)->fabric, nsec_now() - begin);
	return r;
}

static void count_host(struct remote_nic *nic, struct remote_host *host)
{
	struct nic_counters counters;
	struct remote_packet answer;

	if (ask_briefly(nic, host, (struct remote_head){.op = REMOTE_NIC_COUNTERS, .nic = nic->index}, PORT_NSEC, &answer) < 0)
		return;
	if (answer.head.bytes == sizeof(counters)) {
		memcpy(&counters, answer.body, sizeof(counters));
		remote_link_count(remote_link_of(host, nic), &counters);
	}
	remote_packet_deinit(&answer);
}

static int counters(struct nic *base, struct nic_counters *ret_counters)
{
	struct remote_nic *nic = remote_nic(base);
	struct remote_host *hosts[SOFT_MAX_EXECS], *host;
	unsigned int n = remote_hosts(nic->all, nic, hosts);
	struct nic_counters sum;

	for (unsigned int i = 0; i < n; i++) {
		count_host(nic, hosts[i]);
		remote_host_put(hosts[i]);
	}
	pthread_mutex_lock(&nic->all->lock);
	sum = nic->past;
	list_for_each_entry (host, &nic->all->hosts, link)
		nic_counters_add(&sum, &remote_link_of(host, nic)->last);
	pthread_mutex_unlock(&nic->all->lock);
	*ret_counters = sum;
	return 0;
}

/* ---- the port --------------------------------------------------------------------------------------------------------------- */

/* One that does not answer in time does it before its executors receive anything else: they are not running. */
static int port_set(struct nic *base, enum nic_port_state state)
{
	struct remote_nic *nic = remote_nic(base);
	struct remote_host *hosts[SOFT_MAX_EXECS];
	struct remote_packet answer;
	int r = nic->face->ops->port_set(nic->face, state);
	unsigned int n = r < 0 ? 0 : remote_hosts(nic->all, NULL, hosts);

	for (unsigned int i = 0; i < n; i++) {
		const struct remote_head head = {.op = REMOTE_PORT_SET, .nic = nic->index, .value = state};

		if (ask_briefly(nic, hosts[i], head, PORT_NSEC, &answer) >= 0)
			remote_packet_deinit(&answer);
		else
			remote_tell(hosts[i], &(struct remote_request){.head = head});
		remote_host_put(hosts[i]);
	}
	return r;
}

/* ---- resume and rest -------------------------------------------------------------------------------------------------------- */

static void resume(struct nic *base)
{
	struct remote_nic *nic = remote_nic(base);
	const struct remote_request request = {.head = {.op = REMOTE_RESUME, .nic = nic->index}};
	struct remote_host *hosts[SOFT_MAX_EXECS];
	unsigned int n = remote_hosts(nic->all, NULL, hosts);

	pthread_mutex_lock(&nic->all->lock);
	nic->is_open = true;
	pthread_mutex_unlock(&nic->all->lock);
	for (unsigned int i = 0; i < n; i++) {
		remote_tell(hosts[i], &request);
		remote_host_put(hosts[i]);
	}
}

static bool has_left(struct remote_nic *nic, struct remote_host *host)
{
	const struct remote_request request = {.head = {.op = REMOTE_REST, .nic = nic->index}};
	struct remote_packet answer;
	int r = remote_ask(host, &request, REST_NSEC, &answer);
	bool has;

	if (r < 0)
		return r == -ENODEV;
	has = answer.head.value;
	remote_packet_deinit(&answer);
	return has;
}

static bool rest(struct nic *base)
{
	struct remote_nic *nic = remote_nic(base);
	struct remote_host *hosts[SOFT_MAX_EXECS];
	unsigned int n = remote_hosts(nic->all, nic, hosts);
	bool all = true;

	for (unsigned int i = 0; i < n; i++) {
		all &= has_left(nic, hosts[i]);
		remote_host_put(hosts[i]);
	}
	return all;
}

/* ---- events ----------------------------------------------------------------------------------------------------------------- */

static bool has_session(const struct remote_link *link, uint64_t session_id)
{
	const struct remote_ctx *ctx;

	list_for_each_entry (ctx, &link->ctxs, link)
		if (ctx->base.session_id == session_id)
			return true;
	return false;
}

/* A host reports what its own sessions have done. */
static bool is_right(const struct remote_link *link, const struct nic_event *event)
{
	if (event->kind == NIC_EVENT_DROPPED)
		return event->session_id == 0;
	return (event->kind == NIC_EVENT_QP_ERROR || event->kind == NIC_EVENT_CQ_ERROR) && has_session(link, event->session_id);
}

static int next_lost(struct remote_link *link, struct nic_event *ret_event)
{
	struct remote_ctx *ctx;

	list_for_each_entry (ctx, &link->ctxs, link) {
		if (ctx->is_lost)
			continue;
		ctx->is_lost = true;
		*ret_event = (struct nic_event){.kind = NIC_EVENT_LOST, .session_id = ctx->base.session_id, .state = NIC_PORT_LOST};
		return 0;
	}
	/* The socket was readable until here. */
	list_del(&link->link);
	link->events = safe_close(link->events);
	return -EAGAIN;
}

/*
 * Under the lock. The host has a reference of its contexts, or of the caller. A host may write faster than this reads: what is left stays
 * for the next turn of the loop.
 */
static int next_of(struct remote_link *link, struct nic_event *ret_event)
{
	ssize_t n;

	for (unsigned int i = 0; !link->host->is_dead; i++) {
		if (i == EVENTS_AT_ONCE)
			return -EAGAIN;
		n = recv(link->events, ret_event, sizeof(*ret_event), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return -EAGAIN;
		if (n != sizeof(*ret_event))
			remote_host_die(link->host);
		/* One of a session that has just ended is dropped. */
		else if (is_right(link, ret_event))
			return 0;
	}
	return next_lost(link, ret_event);
}

/* Users take turns, so that many events of one put off nobody else's. */
static int next_of_hosts(struct remote_nic *nic, struct nic_event *ret_event)
{
	struct remote_link *link, *tmp;
	int r = -EAGAIN;

	list_for_each_entry_safe (link, tmp, &nic->links, link) {
		remote_host_ref(link->host);
		r = next_of(link, ret_event);
		if (r == 0 && !list_empty(&link->link)) {
			list_del(&link->link);
			list_add_tail(&nic->links, &link->link);
		}
		/* Its other links may be on other NICs only. */
		remote_host_put_locked(link->host);
		if (r == 0)
			break;
	}
	return r;
}

static int next_event(struct nic *base, struct nic_event *ret_event)
{
	struct remote_nic *nic = remote_nic(base);
	int r = nic->face->ops->next_event(nic->face, ret_event);

	if (r == 0)
		return 0;
	pthread_mutex_lock(&nic->all->lock);
	r = next_of_hosts(nic, ret_event);
	pthread_mutex_unlock(&nic->all->lock);
	return r;
}

/* ---- making them ------------------------------------------------------------------------------------------------------------ */

static int ctx_to_cpu(struct nic_ctx *ctx)
{
	return -EINVAL;
}

static struct nic *close_nic(struct nic *base)
{
	struct remote_nic *nic = remote_nic(base);
	struct remote *all = nic->all;

	list_del(&nic->base.link);
	if (--all->n_open == 0) {
		remote_hosts_end(all);
		remote_exchange_stop(all);
	}
	safe_close(nic->base.event_fd);
	nic->base.event_fd = -1;
	nic->face = nic->face->ops->close(nic->face);
	/* Hosts have a link to each. */
	if (all->n_open > 0)
		return NULL;
	for (unsigned int i = 0; i < all->n_nics; i++)
		free(all->nics[i]);
	remote_seats_deinit(all);
	pthread_mutex_destroy(&all->lock);
	free(all);
	return NULL;
}

static const struct nic_ops remote_ops = {
	.close = close_nic,
	.query = query,
	.counters = counters,
	.next_event = next_event,
	.port_set = port_set,
	.ctx_open = remote_ctx_open,
	.ctx_close = remote_ctx_close,
	.ctx_to_cpu = ctx_to_cpu,
	.agent_attach = remote_agent_attach,
	.mr_reg = remote_mr_reg,
	.mr_dereg = remote_mr_dereg,
	.queues_create = remote_queues_create,
	.queues_destroy = remote_queues_destroy,
	.connect = remote_connect,
	.resolve = remote_resolve,
	.qp_modify = remote_qp_modify,
	.qp_query = remote_qp_query,
	.queues_read = remote_queues_read,
	.ctx_counters = remote_ctx_counters,
	.ctx_look = nic_no_ctx_look,
	.ctx_quiesce = remote_ctx_quiesce,
	.ctx_export = remote_ctx_export,
	.mr_export = remote_mr_export,
	.queues_export = remote_queues_export,
	.ctx_saved_fds = remote_ctx_saved_fds,
	.ctx_import = remote_ctx_import,
	.ctx_unimport = remote_ctx_unimport,
	.resume = resume,
	.rest = rest,
	.ctx_pool_set = nic_no_ctx_pool_set,
	.ctx_pool_query = nic_no_ctx_pool_query,
	.ctx_pool_step = nic_no_ctx_pool_step,
	.queues_take = nic_no_queues_take,
};

static struct remote *remote_new(const struct nic_soft_attr *attr)
{
	struct remote *all = calloc(1, sizeof(*all));

	if (!all)
		return NULL;
	all->attr = *attr;
	all->attr.fault = NULL;
	snprintf(all->fault, sizeof(all->fault), "%s", attr->fault ? attr->fault : "");
	pthread_mutex_init(&all->lock, NULL);
	list_init(&all->hosts);
	remote_seats_init(all);
	return all;
}

static int watch_face(struct remote_nic *nic)
{
	struct epoll_event ev = {.events = EPOLLIN};

	nic->base.event_fd = epoll_create1(EPOLL_CLOEXEC);
	if (nic->base.event_fd < 0 || epoll_ctl(nic->base.event_fd, EPOLL_CTL_ADD, nic->face->event_fd, &ev) < 0)
		return -errno;
	return 0;
}

static int wrap(struct remote *all, struct nic *soft, struct list *nics)
{
	struct remote_nic *nic = calloc(1, sizeof(*nic));

	if (!nic)
		return -ENOMEM;
	nic->base = *soft;
	nic->base.ops = &remote_ops;
	list_init(&nic->base.link);
	list_init(&nic->links);
	nic->all = all;
	nic->index = all->n_nics;
	nic->face = soft;
	list_del(&soft->link);
	all->table = soft_nic(soft)->fabric->shared;
	all->nics[all->n_nics++] = nic;
	all->n_open++;
	list_add_tail(nics, &nic->base.link);
	return watch_face(nic);
}

static void close_all(struct list *nics)
{
	while (!list_empty(nics)) {
		struct nic *nic = list_first_entry(nics, struct nic, link);

		nic->ops->close(nic);
	}
}

int remote_wrap(const struct nic_soft_attr *attr, struct list *faces, struct list *nics)
{
	struct remote *all = remote_new(attr);
	struct list made;
	int r = all ? 0 : -ENOMEM;

	list_init(&made);
	while (r == 0 && !list_empty(faces))
		r = wrap(all, list_first_entry(faces, struct nic, link), &made);
	if (r == 0) {
		list_splice_tail(nics, &made);
		return 0;
	}
	if (all && list_empty(&made))
		free(all);
	close_all(&made);
	close_all(faces);
	return r;
}
