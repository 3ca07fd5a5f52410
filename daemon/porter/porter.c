/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Porters, as the daemon sees them.
 *
 * Orders leave in their order. One for which the channel has no room is a flag of the slot or hold that it is about, which is
 * linked until it was sent: nothing is lost, and nothing is allocated for it. A hold is freed when its porter says that all of it is
 * closed; a dropped descriptor counts until then.
 *
 * A porter handled strangers' input: its messages are checked, and a porter that sends a wrong one is let go of. When a porter
 * ends, sessions that wait for its answer get an error; another one is given the sockets and the descriptors that the daemon has.
 * A porter may have died unseen: whatever is closed here is sent before, with the order to close it. Control thread.
 */
#include "daemon/porter/porter.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/porter/held-table.h"
#include "daemon/porter/message.h"
#include "daemon/porter/zygote.h"
#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/hash.h"
#include "proto/base/nsec.h"
#include "proto/framing.h"

#define NEWS_PER_TURN 64
#define RETRY_NSEC (10 * NSEC_PER_MSEC) /* a full channel */
#define RESTART_NSEC NSEC_PER_SEC /* a uid's porters are started no more often */
#define IDLE_NSEC (10 * NSEC_PER_SEC)
#define MAX_FDS 253u /* of one packet (SCM_MAX_FD) */

struct porter {
	struct porters *porters;
	struct list link;
	uint32_t uid;
	int channel; /* owned; -1: there is no process now */
	void *watch;
	struct list slots; /* struct porter_slot.link */
	struct list holds; /* struct held.link */
	struct list pending_slots, pending_holds;
	struct list waiting; /* struct porter_slot.waiting: a session waits for it to be ready, and hears so from the loop */
	uint64_t started_nsec;
	uint64_t idle_nsec; /* since when it has no slot and no hold; 0: it has */
};

struct porter_slot {
	struct porter *porter;
	struct list link, pending, waiting;
	uint32_t id;
	int sock; /* borrowed; owned once it has ended */
	struct foreign_account *account; /* owned */
	porter_packet_fn packet; /* NULL once it has ended */
	porter_ready_fn ready;
	struct attaching *attaching; /* owned: not sent yet, or to be sent to the next porter as well */
	void *arg;
	struct held *next; /* owned, while a packet is asked for: what comes with it */
	bool is_there; /* the present process has the socket */
	bool is_asked; /* and was asked for a packet */
	bool is_kept, told_kept;
	bool wants_drain;
	bool is_ended, told_ended;
	unsigned int n_attached; /* that its porter closes with it */
};

struct attaching {
	struct attaching *next;
	int fd; /* owned: a duplicate */
	bool is_lasting; /* this process goes on using it: the next porter is given it, too */
	bool is_there; /* the present process has it */
};

struct porters {
	struct porters_attr attr;
	int lifeline; /* owned, or -1 */
	struct list all; /* struct porter.link */
	struct hash by_uid; /* struct porter */
	struct hash slots, holds; /* by number */
	uint32_t last_slot;
	uint64_t last_hold;
	uint64_t alarm_nsec; /* when porters_tick() was asked for; 0: it was not */
	uint8_t *packet; /* FRAMING_MAX_PACKET_BYTES */
};

/* The earliest one that is due counts. */
static void alarm_in(struct porters *porters, uint64_t nsec)
{
	uint64_t at = nsec_add(nsec_now(), nsec);

	if (porters->alarm_nsec > 0 && porters->alarm_nsec <= at)
		return;
	porters->alarm_nsec = at;
	porters->attr.hooks.alarm(porters->attr.hooks.arg, nsec);
}

/* ---- sending ------------------------------------------------------------------------------------------------------ */

/* 0, or -EAGAIN: not now. */
static int send_order(struct porter *porter, const struct porter_order *order, int fd)
{
	struct iovec iov = {.iov_base = (void *)order, .iov_len = sizeof(*order)};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.align = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (porter->channel < 0)
		return -EAGAIN;
	if (fd >= 0) {
		header.msg_control = control.bytes;
		header.msg_controllen = sizeof(control.bytes);
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	}
	do
		n = sendmsg(porter->channel, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	/* One that has ended is seen by its reader. */
	return n < 0 ? -EAGAIN : 0;
}

static int send_op(struct porter_slot *slot, enum porter_op op, uint32_t value, int fd)
{
	const struct porter_order order = {
		.op = op, .slot = slot->id, .value = value, .hold = op == PORTER_RECV ? slot->next->id : 0};

	return send_order(slot->porter, &order, fd);
}

static void free_attaching(struct attaching **at)
{
	struct attaching *attaching = *at;

	*at = attaching->next;
	close(attaching->fd);
	free(attaching);
}

/* At the end all of them are sent once more before they are closed: the porter that had them may be dead. */
static int flush_attaching(struct porter_slot *slot)
{
	struct attaching **at = &slot->attaching;
	int r = 0;

	while (r == 0 && *at) {
		if (!(*at)->is_there || slot->is_ended)
			r = send_op(slot, PORTER_ATTACH, 0, (*at)->fd);
		if (r < 0)
			break;
		(*at)->is_there = true;
		if (slot->is_ended || !(*at)->is_lasting)
			free_attaching(at);
		else
			at = &(*at)->next;
	}
	return r;
}

/* Whatever it is behind with, in the order in which it can be done. */
static int flush_slot(struct porter_slot *slot)
{
	int r = 0;

	if (!slot->is_there) {
		r = send_op(slot, PORTER_SOCKET, 0, slot->sock);
		slot->is_there = r == 0;
	}
	if (r == 0)
		r = flush_attaching(slot);
	if (r == 0 && slot->is_kept != slot->told_kept) {
		r = send_op(slot, PORTER_KEEP, slot->is_kept, -1);
		slot->told_kept ^= r == 0;
	}
	if (r == 0 && slot->next && !slot->is_asked && !slot->is_ended) {
		r = send_op(slot, PORTER_RECV, 0, -1);
		slot->is_asked = r == 0;
	}
	if (r == 0 && slot->wants_drain) {
		r = send_op(slot, PORTER_DRAIN, 0, -1);
		slot->wants_drain = r < 0;
	}
	/* The socket goes along, as with a drop: no close here is the last one. */
	if (r == 0 && slot->is_ended && !slot->told_ended) {
		r = send_op(slot, PORTER_END, 0, slot->sock);
		slot->told_ended = r == 0;
		slot->sock = r == 0 ? safe_close(slot->sock) : slot->sock;
	}
	return r;
}

static void look_idle(struct porter *porter)
{
	bool is_idle = list_empty(&porter->slots) && list_empty(&porter->holds);

	if (!is_idle) {
		porter->idle_nsec = 0;
	} else if (porter->idle_nsec == 0) {
		porter->idle_nsec = nsec_now();
		alarm_in(porter->porters, IDLE_NSEC);
	}
}

static void free_held(struct held *held)
{
	struct porter *porter = held->porter;

	if (held->is_dropped)
		foreign_account_closed(held->account, held->n_fds);
	hash_remove(&porter->porters->holds, held->id);
	held_free(held);
	look_idle(porter);
}

static int flush_held(struct held *held)
{
	const struct porter_order order = {.op = held->is_dropped ? PORTER_DROP : PORTER_HOLD, .hold = held->id};
	int r;

	r = send_order(held->porter, &order, held->is_dropped ? held->left : held_find(held));
	if (r < 0)
		return r;
	held->left = safe_close(held->left);
	held->is_there = true;
	list_del(&held->pending);
	return 0;
}

static bool is_behind(const struct porter *porter)
{
	return !list_empty(&porter->pending_slots) || !list_empty(&porter->pending_holds);
}

static void flush(struct porter *porter)
{
	struct porter_slot *slot, *tmp_slot;
	struct held *held, *tmp_held;
	int r = 0;

	list_for_each_entry_safe(slot, tmp_slot, &porter->pending_slots, pending) {
		r = flush_slot(slot);
		if (r < 0)
			break;
		list_del(&slot->pending);
		if (!list_empty(&slot->waiting))
			alarm_in(porter->porters, 0);
	}
	if (r == 0)
		list_for_each_entry_safe(held, tmp_held, &porter->pending_holds, pending) {
			r = flush_held(held);
			if (r < 0)
				break;
		}
	if (is_behind(porter))
		alarm_in(porter->porters, RETRY_NSEC);
}

static void want_slot(struct porter_slot *slot)
{
	if (list_empty(&slot->pending))
		list_add_tail(&slot->porter->pending_slots, &slot->pending);
	flush(slot->porter);
}

static void want_held(struct held *held)
{
	if (list_empty(&held->pending))
		list_add_tail(&held->porter->pending_holds, &held->pending);
	flush(held->porter);
}

/* ---- ends --------------------------------------------------------------------------------------------------------- */

static void free_slot(struct porter_slot *slot)
{
	struct porter *porter = slot->porter;

	if (slot->next)
		free_held(slot->next);
	if (slot->is_ended)
		foreign_account_closed(slot->account, 1 + slot->n_attached);
	hash_remove(&porter->porters->slots, slot->id);
	list_del(&slot->link);
	list_del(&slot->pending);
	list_del(&slot->waiting);
	while (slot->attaching)
		free_attaching(&slot->attaching);
	foreign_account_unref(slot->account);
	free(slot);
	look_idle(porter);
}

void porter_drop(struct held *held)
{
	held->is_dropped = true;
	foreign_account_add(held->account, held->n_fds);
	if (held->is_there || held->left >= 0)
		want_held(held);
	else
		free_held(held);
}

/* ---- processes ---------------------------------------------------------------------------------------------------- */

static void tell_failed(struct porter *porter, const char *text)
{
	const struct porters_hooks *hooks = &porter->porters->attr.hooks;

	if (hooks->failed)
		hooks->failed(hooks->arg, porter->uid, text);
}

/* It knows nothing yet: all that is not over is behind. */
static void hand_over(struct porter *porter)
{
	struct porter_slot *slot;
	struct held *held;

	list_for_each_entry(slot, &porter->slots, link) {
		list_del(&slot->pending);
		list_add_tail(&porter->pending_slots, &slot->pending);
	}
	list_for_each_entry(held, &porter->holds, link) {
		list_del(&held->pending);
		/* One that the kernel alone uses has no descriptor here to hand over. */
		if (held->left >= 0 || held_find(held) >= 0)
			list_add_tail(&porter->pending_holds, &held->pending);
	}
	flush(porter);
}

static int start_process(struct porter *porter)
{
	const struct porters_attr *attr = &porter->porters->attr;
	uint64_t linger = attr->linger_nsec / NSEC_PER_MSEC;
	const struct zygote_order order = {
		.uid = porter->uid, .linger_msec = linger > INT_MAX ? INT_MAX : (uint32_t)linger};
	int r;

	r = zygote_fork(attr->zygote, &order, porter->porters->lifeline, &porter->channel);
	if (r < 0)
		return r;
	porter->started_nsec = nsec_now();
	porter->watch = attr->hooks.watch(attr->hooks.arg, porter->channel, porter);
	if (!porter->watch) {
		porter->channel = safe_close(porter->channel);
		return -ENOMEM;
	}
	hand_over(porter);
	return 0;
}

static void end_process(struct porter *porter)
{
	const struct porters_hooks *hooks = &porter->porters->attr.hooks;

	if (porter->channel < 0)
		return;
	hooks->unwatch(hooks->arg, porter->watch);
	porter->watch = NULL;
	porter->channel = safe_close(porter->channel);
}

static bool needs_process(const struct porter *porter)
{
	return !list_empty(&porter->slots) || !list_empty(&porter->holds);
}

/* A porter that ended has closed all that it had. */
static void forget_all(struct porter *porter)
{
	struct porter_slot *slot, *tmp_slot;
	struct held *held, *tmp_held;

	list_for_each_entry_safe(slot, tmp_slot, &porter->slots, link) {
		slot->is_there = slot->told_kept = false;
		for (struct attaching *at = slot->attaching; at; at = at->next)
			at->is_there = false;
		if (slot->told_ended)
			free_slot(slot);
	}
	list_for_each_entry_safe(held, tmp_held, &porter->holds, link) {
		held->is_there = false;
		if (held->is_dropped && held->left < 0)
			free_held(held);
	}
}

/* The packet that it read is lost. */
static void fail_waiting(struct porter *porter)
{
	struct porter_slot *slot, *tmp;
	struct fdlist none;

	fdlist_init(&none);
	list_for_each_entry_safe(slot, tmp, &porter->slots, link) {
		if (!slot->next || !slot->is_asked)
			continue;
		free_held(take_ptr(slot->next));
		slot->is_asked = false;
		if (!slot->is_ended)
			slot->packet(slot->arg, -EPIPE, NULL, 0, &none);
	}
}

static void porter_free(struct porter *porter)
{
	struct porter_slot *slot, *tmp_slot;
	struct held *held, *tmp_held;

	end_process(porter);
	list_for_each_entry_safe(slot, tmp_slot, &porter->slots, link) {
		assert_bug(slot->is_ended);
		slot->sock = safe_close(slot->sock);
		free_slot(slot);
	}
	list_for_each_entry_safe(held, tmp_held, &porter->holds, link) {
		assert_bug(held->refs == 0);
		held->left = safe_close(held->left);
		free_held(held);
	}
	hash_remove(&porter->porters->by_uid, porter->uid);
	list_del(&porter->link);
	free(porter);
}

static void restart_process(struct porter *porter)
{
	uint64_t now = nsec_now();
	int r;

	if (porter->channel >= 0 || !needs_process(porter))
		return;
	if (porter->started_nsec > 0 && now - porter->started_nsec < RESTART_NSEC) {
		alarm_in(porter->porters, RESTART_NSEC);
		return;
	}
	r = start_process(porter);
	if (r == 0)
		return;
	if (r != -EAGAIN)
		tell_failed(porter, strerror(-r));
	alarm_in(porter->porters, r == -EAGAIN ? RETRY_NSEC : RESTART_NSEC);
}

/* 0 also where it is to be tried again later. */
static int try_start(struct porter *porter)
{
	bool is_early = porter->started_nsec > 0 && nsec_now() - porter->started_nsec < RESTART_NSEC;
	int r = is_early ? -EAGAIN : start_process(porter);

	if (r == -EAGAIN)
		alarm_in(porter->porters, is_early ? RESTART_NSEC : RETRY_NSEC);
	else if (r < 0)
		tell_failed(porter, strerror(-r));
	return r == -EAGAIN ? 0 : r;
}

static void on_death(struct porter *porter)
{
	end_process(porter);
	tell_failed(porter, "it has ended");
	fail_waiting(porter);
	forget_all(porter);
	restart_process(porter);
	look_idle(porter);
}

/* ---- news --------------------------------------------------------------------------------------------------------- */

struct news {
	struct porter_news head;
	size_t bytes;
	int fd; /* owned, or -1 */
};

static struct porter_slot *find_slot(const struct porter *porter, uint32_t id)
{
	struct porter_slot *slot = hash_get(&porter->porters->slots, id);

	return slot && slot->porter == porter ? slot : NULL;
}

static struct held *find_held(const struct porter *porter, uint64_t id)
{
	struct held *held = hash_get(&porter->porters->holds, id);

	return held && held->porter == porter ? held : NULL;
}

static void fill_list(struct fdlist *fds, const struct held *held, const struct news *news)
{
	fdlist_init(fds);
	fds->close = held_close;
	/* Descriptors that were not passed on count all the same: no request has so many. */
	fds->n = news->head.n_fds < FDLIST_MAX ? news->head.n_fds : FDLIST_MAX;
	fds->fds[0] = news->fd;
	if (news->fd < 0 && news->head.n_fds == 1 && news->head.r == 0)
		fds->refused = inspect_refusal(held->info.kind);
}

static void own_packet(struct porter *porter, struct held *held, struct news *news)
{
	held->info = news->head.info;
	held->n_fds = news->head.n_fds;
	held->is_there = held->n_fds > 0;
	list_add_tail(&porter->holds, &held->link);
	if (news->fd >= 0)
		held_add(held, news->fd);
	else if (news->head.r == 0 && news->head.n_fds == 1 && !inspect_refusal(held->info.kind))
		news->head.r = -EMFILE; /* its place is in this process's table */
	if (held->refs == 0)
		porter_drop(held);
}

static int on_packet(struct porter *porter, struct news *news)
{
	struct porter_slot *slot = find_slot(porter, news->head.slot);
	struct held *held = slot && slot->is_asked && slot->next->id == news->head.hold ? take_ptr(slot->next) : NULL;
	struct fdlist fds;

	if (!held || news->head.r > 0 || news->head.n_fds > MAX_FDS || (news->fd >= 0 && (news->head.n_fds != 1 || news->head.r < 0))) {
		if (held)
			free_held(held);
		return -EBADMSG;
	}
	slot->is_asked = false;
	own_packet(porter, held, news);
	/* Freed by now where nothing came with the packet. */
	held = news->head.n_fds > 0 ? held : NULL;
	fdlist_init(&fds);
	if (held)
		fill_list(&fds, held, news);
	news->fd = -1;
	if (!slot->is_ended)
		slot->packet(slot->arg, news->head.r, porter->porters->packet, news->bytes, &fds);
	fdlist_deinit(&fds);
	return 0;
}

static int on_closed(struct porter *porter, const struct news *news)
{
	struct held *held = find_held(porter, news->head.hold);

	if (!held || !held->is_dropped || !list_empty(&held->pending))
		return -EBADMSG;
	free_held(held);
	look_idle(porter);
	return 0;
}

static int on_ended(struct porter *porter, const struct news *news)
{
	struct porter_slot *slot = find_slot(porter, news->head.slot);

	if (!slot || !slot->told_ended)
		return -EBADMSG;
	free_slot(slot);
	return 0;
}

static int on_news(struct porter *porter, struct news *news)
{
	switch (news->head.event) {
	case PORTER_PACKET:
		return on_packet(porter, news);
	case PORTER_CLOSED:
		return on_closed(porter, news);
	case PORTER_ENDED:
		return on_ended(porter, news);
	default:
		return -EBADMSG;
	}
}

/* 0; -EAGAIN; or the end. */
static int read_news(struct porter *porter, struct news *news)
{
	struct iovec iov[] = {{&news->head, sizeof(news->head)}, {porter->porters->packet, FRAMING_MAX_PACKET_BYTES}};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr header = {
		.msg_iov = iov, .msg_iovlen = 2, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *c;
	ssize_t n;

	do
		n = recvmsg(porter->channel, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET)); /* the error comes before what is in the queue, once */
	if (n < 0)
		return -errno;
	news->fd = -1;
	c = CMSG_FIRSTHDR(&header);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&news->fd, CMSG_DATA(c), sizeof(news->fd));
	if (n < (ssize_t)sizeof(news->head) || header.msg_flags & MSG_TRUNC)
		return -EBADMSG;
	news->bytes = (size_t)n - sizeof(news->head);
	return 0;
}

void porter_readable(struct porter *porter)
{
	struct news news = {.fd = -1};
	int r = 0;

	for (int i = 0; i < NEWS_PER_TURN && r == 0; i++) {
		r = read_news(porter, &news);
		if (r == 0)
			r = on_news(porter, &news);
	}
	/* A porter that lies: it goes on holding what it has until this process has ended, and so does its descriptor here. */
	if (r < 0 && r != -EAGAIN)
		on_death(porter);
}

/* ---- slots -------------------------------------------------------------------------------------------------------- */

static int porter_new(struct porters *porters, uint32_t uid, struct porter **ret_porter)
{
	struct porter *porter = calloc(1, sizeof(*porter));
	int r = porter ? hash_add(&porters->by_uid, uid, porter) : -ENOMEM;

	if (r < 0) {
		free(porter);
		return r;
	}
	porter->porters = porters;
	porter->uid = uid;
	porter->channel = -1;
	list_init(&porter->slots);
	list_init(&porter->holds);
	list_init(&porter->pending_slots);
	list_init(&porter->waiting);
	list_init(&porter->pending_holds);
	list_add_tail(&porters->all, &porter->link);
	*ret_porter = porter;
	return 0;
}

static int porter_get(struct porters *porters, uint32_t uid, struct porter **ret_porter)
{
	struct porter *porter = hash_get(&porters->by_uid, uid);
	int r = 0;

	if (!porter)
		r = porter_new(porters, uid, &porter);
	if (r == 0 && porter->channel < 0) {
		r = try_start(porter);
		look_idle(porter);
	}
	if (r == 0)
		*ret_porter = porter;
	return r;
}

static struct porter_slot *slot_alloc(struct porter *porter, const struct porter_slot_attr *attr)
{
	struct porters *porters = porter->porters;
	struct porter_slot *slot = calloc(1, sizeof(*slot));

	if (!slot || hash_add(&porters->slots, ++porters->last_slot, slot) < 0) {
		free(slot);
		return NULL;
	}
	slot->porter = porter;
	slot->id = porters->last_slot;
	slot->sock = attr->sock;
	slot->account = foreign_account_ref(attr->account);
	slot->packet = attr->packet;
	slot->ready = attr->ready;
	slot->arg = attr->arg;
	list_init(&slot->pending);
	list_init(&slot->waiting);
	list_add_tail(&porter->slots, &slot->link);
	porter->idle_nsec = 0;
	return slot;
}

int porter_slot_new(struct porters *porters, const struct porter_slot_attr *attr, struct porter_slot **ret_slot)
{
	struct porter_slot *slot;
	struct porter *porter = NULL;
	int r = porter_get(porters, attr->uid, &porter);

	if (r < 0)
		return r;
	slot = slot_alloc(porter, attr);
	if (!slot)
		return -ENOMEM;
	if (is_behind(porter) || flush_slot(slot) < 0)
		want_slot(slot);
	*ret_slot = slot;
	return 0;
}

bool porter_slot_await(struct porter_slot *slot)
{
	if (!slot->is_there && list_empty(&slot->waiting))
		list_add_tail(&slot->porter->waiting, &slot->waiting);
	return slot->is_there;
}

int porter_slot_attach(struct porter_slot *slot, int fd, bool is_lasting)
{
	struct attaching *attaching;

	if (!is_lasting && slot->is_there && !is_behind(slot->porter) && send_op(slot, PORTER_ATTACH, 0, fd) == 0) {
		slot->n_attached++;
		return 0;
	}
	attaching = calloc(1, sizeof(*attaching));
	if (!attaching)
		return -ENOMEM;
	attaching->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (attaching->fd < 0) {
		free(attaching);
		return -errno;
	}
	attaching->is_lasting = is_lasting;
	attaching->next = slot->attaching;
	slot->attaching = attaching;
	slot->n_attached++;
	want_slot(slot);
	return 0;
}

static struct held *new_held(struct porter_slot *slot)
{
	struct porters *porters = slot->porter->porters;
	struct held *held = held_new(slot->porter, ++porters->last_hold, slot->account);

	if (!held)
		return NULL;
	if (hash_add(&porters->holds, held->id, held) < 0) {
		held_free(held);
		return NULL;
	}
	return held;
}

int porter_slot_hold(struct porter_slot *slot, int fd)
{
	struct held *held = new_held(slot);

	if (!held)
		return -ENOMEM;
	inspect_fd(fd, &held->info);
	held->n_fds = 1;
	list_add_tail(&slot->porter->holds, &held->link);
	held_add(held, fd);
	want_held(held);
	return 0;
}

int porter_slot_recv(struct porter_slot *slot)
{
	assert_bug(!slot->next);
	slot->next = new_held(slot);
	if (!slot->next)
		return -ENOMEM;
	want_slot(slot);
	return 0;
}

void porter_slot_keep(struct porter_slot *slot, bool is_kept)
{
	slot->is_kept = is_kept;
	want_slot(slot);
}

void porter_slot_drain(struct porter_slot *slot)
{
	slot->wants_drain = true;
	want_slot(slot);
}

void porter_slot_end(struct porter_slot *slot, int sock)
{
	shutdown(sock, SHUT_RDWR);
	slot->sock = sock;
	slot->is_ended = true;
	slot->packet = NULL;
	list_del(&slot->waiting);
	foreign_account_add(slot->account, 1 + slot->n_attached);
	want_slot(slot);
}

static void no_packet(void *arg, int r, const void *buf, size_t bytes, struct fdlist *fds)
{
}

void porters_discard(struct porters *porters, int sock)
{
	struct porter_slot_attr attr = {.sock = sock, .packet = no_packet};
	struct porter_slot *slot;
	struct ucred cred;
	socklen_t size = sizeof(cred);

	if (!porters || getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0) {
		safe_close(sock);
		return;
	}
	attr.uid = cred.uid;
	/* Where there is no porter it stays open: its peer hears the end, and no close waits for what lies in it. */
	if (porter_slot_new(porters, &attr, &slot) < 0)
		shutdown(sock, SHUT_RDWR);
	else
		porter_slot_end(slot, sock);
}

/* ---- all of them -------------------------------------------------------------------------------------------------- */

/* From the loop, and not from inside whatever asked for something else. No slot goes meanwhile: sessions are freed later. */
static void tell_ready(struct porter *porter)
{
	struct porter_slot *slot, *tmp;

	list_for_each_entry_safe(slot, tmp, &porter->waiting, waiting) {
		if (!slot->is_there)
			continue;
		list_del(&slot->waiting);
		slot->ready(slot->arg);
	}
}

void porters_tick(struct porters *porters)
{
	struct porter *porter, *tmp;

	porters->alarm_nsec = 0;
	list_for_each_entry_safe(porter, tmp, &porters->all, link) {
		uint64_t now = nsec_now();

		restart_process(porter);
		if (is_behind(porter))
			flush(porter);
		tell_ready(porter);
		if (porter->idle_nsec == 0)
			continue;
		if (now - porter->idle_nsec >= IDLE_NSEC)
			porter_free(porter);
		else
			alarm_in(porters, IDLE_NSEC - (now - porter->idle_nsec));
	}
}

int porters_new(const struct porters_attr *attr, struct porters **ret_porters)
{
	_cleanup_close_ int zygote = attr->zygote;
	struct porters *porters = calloc(1, sizeof(*porters));

	if (!porters)
		return -ENOMEM;
	porters->packet = malloc(FRAMING_MAX_PACKET_BYTES);
	if (!porters->packet) {
		free(porters);
		return -ENOMEM;
	}
	porters->attr = *attr;
	porters->lifeline = -1;
	list_init(&porters->all);
	hash_init(&porters->by_uid);
	hash_init(&porters->slots);
	hash_init(&porters->holds);
	take_fd(&zygote);
	*ret_porters = porters;
	return 0;
}

void porters_set_lifeline(struct porters *porters, int fd)
{
	porters->lifeline = fd;
}

struct porters *porters_free(struct porters *porters)
{
	struct porter *porter, *tmp;

	if (!porters)
		return NULL;
	list_for_each_entry_safe(porter, tmp, &porters->all, link)
		porter_free(porter);
	safe_close(porters->attr.zygote);
	safe_close(porters->lifeline);
	hash_deinit(&porters->by_uid);
	hash_deinit(&porters->slots);
	hash_deinit(&porters->holds);
	free(porters->packet);
	free(porters);
	return NULL;
}
