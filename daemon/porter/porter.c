/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Porters: one process for each uid, its start, its end and its successor.
 *
 * When a porter ends, or sends a wrong report, the sessions that wait for its answer get an error, and the next porter is given the
 * sockets and the descriptors that the daemon has. Control thread.
 */
#include "daemon/porter/porter.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/porter/porter-private.h"
#include "daemon/porter/zygote.h"
#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/framing.h"

#define RETRY_NSEC (10 * NSEC_PER_MSEC) /* the zygote does not keep up */
#define RESTART_NSEC NSEC_PER_SEC /* a uid's porters are started no more often */

static void tell_failed(struct porter *porter, const char *text)
{
	const struct porters_hooks *hooks = &porter->porters->attr.hooks;

	if (hooks->failed)
		hooks->failed(hooks->arg, porter->uid, text);
}

/* The new process has nothing yet, so everything has to be sent. */
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
		/* If only the kernel uses it, there is no descriptor here to hand over. */
		if (held->left >= 0 || held_find(held) >= 0)
			list_add_tail(&porter->pending_holds, &held->pending);
	}
	porter_flush(porter);
}

static int start_process(struct porter *porter)
{
	const struct porters_attr *attr = &porter->porters->attr;
	uint64_t linger = attr->linger_nsec / NSEC_PER_MSEC;
	const struct zygote_order order = {
		.kind = ZYGOTE_PORTER,
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
	porter->is_running = false;
	porter->gone_nsec = nsec_now();
}

static bool needs_process(const struct porter *porter)
{
	return !list_empty(&porter->slots) || !list_empty(&porter->holds);
}

/* A porter that has ended has closed all that it had. */
static void forget_all(struct porter *porter)
{
	struct porter_slot *slot, *tmp_slot;
	struct held *held, *tmp_held;

	list_for_each_entry_safe(slot, tmp_slot, &porter->slots, link) {
		slot->is_there = slot->told_kept = slot->has_words = false;
		for (struct attaching *at = slot->attaching; at; at = at->next)
			at->is_there = false;
		if (slot->is_ended && slot->sock < 0)
			slot_free(slot);
	}
	list_for_each_entry_safe(held, tmp_held, &porter->holds, link) {
		held->is_there = false;
		if (held->is_dropped && held->left < 0)
			held_free(held);
	}
}

/* The packets that the porter has read are lost. Without a zygote nobody reads the others. */
static void fail_waiting(struct porter *porter)
{
	struct porter_slot *slot, *tmp;
	struct fdlist none;

	fdlist_init(&none);
	list_for_each_entry_safe(slot, tmp, &porter->slots, link) {
		if (slot->words_fd >= 0 && porter->porters->is_over)
			slot_told(slot, false);
		if (!slot->next || (!slot->is_asked && !porter->porters->is_over))
			continue;
		held_free(take_ptr(slot->next));
		slot->is_asked = false;
		if (slot->packet)
			slot->packet(slot->arg, -EPIPE, NULL, 0, &none);
	}
}

static void restart_process(struct porter *porter)
{
	uint64_t now = nsec_now();
	int r;

	if (porter->channel >= 0 || !needs_process(porter) || porter->porters->is_over)
		return;
	if (porter->started_nsec > 0 && now - porter->started_nsec < RESTART_NSEC) {
		porters_alarm(porter->porters, RESTART_NSEC);
		return;
	}
	r = start_process(porter);
	if (r == 0)
		return;
	if (r != -EAGAIN)
		tell_failed(porter, strerror(-r));
	porters_alarm(porter->porters, r == -EAGAIN ? RETRY_NSEC : RESTART_NSEC);
}

/* 0 also if the alarm is to try it again. */
static int try_start(struct porter *porter)
{
	bool is_early = porter->started_nsec > 0 && nsec_now() - porter->started_nsec < RESTART_NSEC;
	int r = porter->porters->is_over ? -EPIPE : is_early ? -EAGAIN : start_process(porter);

	if (r == -EAGAIN)
		porters_alarm(porter->porters, is_early ? RESTART_NSEC : RETRY_NSEC);
	else if (r < 0 && !porter->porters->is_over)
		tell_failed(porter, strerror(-r));
	return r == -EAGAIN ? 0 : r;
}

int porters_hear_zygote(struct porters *porters)
{
	struct porter *porter;
	int r;

	do
		r = zygote_hear(porters->attr.zygote, &porters->fork_error);
	while (r == 0);
	if (r == -EAGAIN)
		return 0;
	porters->is_over = true;
	list_for_each_entry(porter, &porters->all, link)
		if (porter->channel < 0)
			fail_waiting(porter);
	return r;
}

const char *porters_trouble(const struct porters *porters)
{
	if (porters->is_over)
		return "the process that starts it has ended";
	return porters->fork_error < 0 ? strerror(-porters->fork_error) : NULL;
}

static void on_death(struct porter *porter)
{
	end_process(porter);
	tell_failed(porter, "it has ended");
	fail_waiting(porter);
	forget_all(porter);
	porters_alarm(porter->porters, PORTER_PATIENCE_NSEC);
	restart_process(porter);
	porter_look_idle(porter);
}

void porter_readable(struct porter *porter)
{
	int r = porter_read_news(porter);

	/* A porter that lies holds all that it has, the other end of its channel too, until this process ends. */
	if (r < 0 && r != -EAGAIN)
		on_death(porter);
}

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
	porter->gone_nsec = nsec_now();
	list_init(&porter->slots);
	list_init(&porter->holds);
	list_init(&porter->pending_slots);
	list_init(&porter->waiting);
	list_init(&porter->pending_holds);
	list_add_tail(&porters->all, &porter->link);
	*ret_porter = porter;
	return 0;
}

static void porter_free(struct porter *porter)
{
	struct porter_slot *slot, *tmp_slot;
	struct held *held, *tmp_held;

	end_process(porter);
	list_for_each_entry_safe(slot, tmp_slot, &porter->slots, link) {
		assert_bug(slot->is_ended);
		slot->sock = safe_close(slot->sock);
		slot_free(slot);
	}
	list_for_each_entry_safe(held, tmp_held, &porter->holds, link) {
		assert_bug(held->refs == 0);
		held->left = safe_close(held->left);
		held_free(held);
	}
	hash_remove(&porter->porters->by_uid, porter->uid);
	list_del(&porter->link);
	free(porter);
}

static int porter_get(struct porters *porters, uint32_t uid, struct porter **ret_porter)
{
	struct porter *porter = hash_get(&porters->by_uid, uid);
	int r = 0;

	if (!porter)
		r = porter_new(porters, uid, &porter);
	if (r == 0 && porter->channel < 0) {
		r = try_start(porter);
		porter_look_idle(porter);
	}
	if (r == 0)
		*ret_porter = porter;
	return r;
}

int porter_slot_new(struct porters *porters, const struct porter_slot_attr *attr, struct porter_slot **ret_slot)
{
	struct porter_slot *slot;
	struct porter *porter = NULL;
	int r = porter_get(porters, attr->uid, &porter);

	if (r < 0)
		return r;
	slot = slot_new(porter, attr);
	if (!slot)
		return -ENOMEM;
	porter_want_slot(slot);
	*ret_slot = slot;
	return 0;
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
	/* Without a porter the socket stays open: its peer sees the end, and no close waits for what lies in it. */
	if (porter_slot_new(porters, &attr, &slot) < 0)
		shutdown(sock, SHUT_RDWR);
	else
		porter_slot_end(slot, sock);
}

/* The first one that has something to write, or NULL. */
static struct porter *find_telling(struct porters *porters)
{
	struct porter_slot *slot;
	struct porter *porter;

	list_for_each_entry(porter, &porters->all, link)
		list_for_each_entry(slot, &porter->slots, link)
			if (slot->words_fd >= 0 && porter->channel >= 0)
				return porter;
	return NULL;
}

void porters_await_told(struct porters *porters, uint64_t nsec)
{
	uint64_t end = nsec_add(nsec_now(), nsec), now;
	struct porter *porter;

	while ((porter = find_telling(porters)) && (now = nsec_now()) < end) {
		struct pollfd wait = {.fd = porter->channel, .events = POLLIN};

		if (poll(&wait, 1, (int)((end - now) / NSEC_PER_MSEC) + 1) > 0)
			porter_readable(porter);
		porter_flush(porter);
	}
}

/* Called from the loop alone. No slot is freed meanwhile, since sessions are freed later. */
static void tell_ready(struct porter *porter)
{
	struct porter_slot *slot, *tmp;

	list_for_each_entry_safe(slot, tmp, &porter->waiting, waiting) {
		if (!porter_slot_is_ready(slot))
			continue;
		list_del(&slot->waiting);
		slot->ready(slot->arg);
	}
}

/* The next porter may still read such a packet: by then nobody waits for it. */
static void fail_overdue(struct porter *porter, uint64_t now)
{
	bool is_overdue = porter_is_overdue(porter, now);
	struct porter_slot *slot, *tmp;
	struct fdlist none;

	fdlist_init(&none);
	list_for_each_entry_safe(slot, tmp, &porter->slots, link) {
		if (slot->words_fd >= 0 && is_overdue)
			slot_told(slot, false);
		if (slot->words_fd >= 0)
			porters_alarm(porter->porters, PORTER_PATIENCE_NSEC);
		if (!slot->next || !slot->packet)
			continue;
		if (is_overdue)
			take_ptr(slot->packet)(slot->arg, -EPIPE, NULL, 0, &none);
		else
			porters_alarm(porter->porters, PORTER_PATIENCE_NSEC);
	}
}

/* ---- porters of daemons before ------------------------------------------------------------------------------------- */

static bool has_all(const struct porter *porter)
{
	return !porter_is_behind(porter) && (porter->is_running || !needs_process(porter));
}

/* Nobody reads the byte: it is there for all of them. */
static void write_taken(const struct porters *porters)
{
	_cleanup_close_ int writing = -1;
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", porters->lifeline);
	writing = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	/* If the pipe is full they end later, by themselves. */
	if (writing >= 0 && write(writing, "", 1) < 0)
		return;
}

static void tell_taken(struct porters *porters)
{
	const struct porter *porter;
	bool have_all = true;

	if (!porters->tells_taken)
		return;
	list_for_each_entry(porter, &porters->all, link)
		have_all &= has_all(porter);
	if (have_all)
		write_taken(porters);
	else
		porters_alarm(porters, RETRY_NSEC);
	porters->tells_taken = !have_all;
}

void porters_tell_taken(struct porters *porters)
{
	porters->tells_taken = porters->lifeline >= 0;
	if (porters->tells_taken)
		porters_alarm(porters, 0);
}

void porters_tick(struct porters *porters)
{
	struct porter *porter, *tmp;

	porters->alarm_nsec = 0;
	tell_taken(porters);
	list_for_each_entry_safe(porter, tmp, &porters->all, link) {
		uint64_t now = nsec_now();

		restart_process(porter);
		if (porter_is_behind(porter))
			porter_flush(porter);
		tell_ready(porter);
		if (!porter->is_running)
			fail_overdue(porter, now);
		if (porter->idle_nsec == 0)
			continue;
		if (now - porter->idle_nsec >= PORTER_IDLE_NSEC)
			porter_free(porter);
		else
			porters_alarm(porters, PORTER_IDLE_NSEC - (now - porter->idle_nsec));
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
