/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of a porter. It handled input of strangers, so each report is checked, and one that is wrong is an error. Control thread.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/porter/message.h"
#include "daemon/porter/porter-private.h"
#include "proto/base/cleanup.h"
#include "proto/framing.h"

#define NEWS_PER_TURN 64
#define MAX_FDS 253u /* of one packet (SCM_MAX_FD) */

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
	/* Descriptors that the porter did not pass on count as well: no request has so many. */
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
		news->head.r = -EMFILE; /* the table of this process was full, or too many are unread */
	if (held->refs == 0)
		held_drop(held);
}

static int on_packet(struct porter *porter, struct news *news)
{
	struct porter_slot *slot = find_slot(porter, news->head.slot);
	struct held *held = slot && slot->is_asked && slot->next->id == news->head.hold ? take_ptr(slot->next) : NULL;
	struct fdlist fds;

	if (!held || news->head.r > 0 || news->head.n_fds > MAX_FDS || (news->fd >= 0 && (news->head.n_fds != 1 || news->head.r < 0))) {
		if (held)
			held_free(held);
		return -EBADMSG;
	}
	slot->is_asked = false;
	own_packet(porter, held, news);
	/* own_packet() has freed it if no descriptor came with the packet. */
	held = news->head.n_fds > 0 ? held : NULL;
	fdlist_init(&fds);
	if (held)
		fill_list(&fds, held, news);
	news->fd = -1;
	if (slot->packet)
		slot->packet(slot->arg, news->head.r, porter->porters->packet, news->bytes, &fds);
	fdlist_deinit(&fds);
	return 0;
}

static int on_closed(struct porter *porter, const struct news *news)
{
	struct held *held = find_held(porter, news->head.hold);

	if (!held || !held->is_dropped || !list_empty(&held->pending))
		return -EBADMSG;
	held_free(held);
	return 0;
}

static int on_ended(struct porter *porter, const struct news *news)
{
	struct porter_slot *slot = find_slot(porter, news->head.slot);

	if (!slot || !slot->told_ended)
		return -EBADMSG;
	slot_free(slot);
	return 0;
}

/* Its slot may have ended meanwhile. */
static int on_told(struct porter *porter, const struct news *news)
{
	struct porter_slot *slot = find_slot(porter, news->head.slot);

	if (slot && !slot->has_words)
		return -EBADMSG;
	if (slot)
		slot_told(slot, true);
	return 0;
}

static int on_started(struct porter *porter)
{
	porter->is_running = true;
	if (!list_empty(&porter->waiting))
		porters_alarm(porter->porters, 0);
	return 0;
}

static int on_news(struct porter *porter, struct news *news)
{
	if (news->fd >= 0 && news->head.event != PORTER_PACKET)
		return -EBADMSG;
	switch (news->head.event) {
	case PORTER_STARTED:
		return on_started(porter);
	case PORTER_PACKET:
		return on_packet(porter, news);
	case PORTER_CLOSED:
		return on_closed(porter, news);
	case PORTER_ENDED:
		return on_ended(porter, news);
	case PORTER_TOLD:
		return on_told(porter, news);
	default:
		return -EBADMSG;
	}
}

/* 0; -EAGAIN; or an error that ends this porter. */
static int read_news(struct porter *porter, struct news *news)
{
	struct iovec iov[] = {{&news->head, sizeof(news->head)}, {porter->porters->packet, FRAMING_MAX_PACKET_BYTES}};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	/* Without the padding, in which a second one would find room. */
	struct msghdr header = {
		.msg_iov = iov, .msg_iovlen = 2, .msg_control = control.bytes, .msg_controllen = CMSG_LEN(sizeof(int))};
	struct cmsghdr *c;
	ssize_t n;

	do
		n = recvmsg(porter->channel, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET)); /* which precedes the packets in the queue, once */
	if (n < 0)
		return -errno;
	news->fd = -1;
	c = CMSG_FIRSTHDR(&header);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&news->fd, CMSG_DATA(c), sizeof(news->fd));
	if (n < (ssize_t)sizeof(news->head) || header.msg_flags & MSG_TRUNC || (news->fd >= 0 && header.msg_flags & MSG_CTRUNC))
		return -EBADMSG;
	news->bytes = (size_t)n - sizeof(news->head);
	return 0;
}

int porter_read_news(struct porter *porter)
{
	struct news news = {.fd = -1};
	int r = 0;

	for (int i = 0; i < NEWS_PER_TURN && r == 0; i++) {
		r = read_news(porter, &news);
		if (r == 0)
			r = on_news(porter, &news);
	}
	/* Nobody has taken it: the report was wrong. */
	safe_close(news.fd);
	return r;
}
