/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels to the zygote and to porters, and one timer for orders that are not sent yet. The timer sleeps while there are none.
 * Control thread.
 */
#include "daemon/porter-watch.h"

#include <inttypes.h>
#include <stdlib.h>

#include "daemon/log.h"
#include "proto/base/cleanup.h"

struct porter_watch {
	struct porter_watch_attr attr;
	struct porters *porters;
	struct loop_timer *timer;
	struct loop_watch *zygote_watch;
};

DEFINE_CLEANUP(struct porter_watch *, porter_watch_free);

struct channel {
	struct porter_watch *watch;
	struct porter *porter;
	struct loop_watch *loop_watch;
};

static void on_channel(void *arg, unsigned int events)
{
	struct channel *channel = arg;
	struct porter_watch *watch = channel->watch;

	porter_readable(channel->porter);
	/* The channel may be gone here. */
	watch->attr.activity(watch->attr.arg);
}

static void *on_watch(void *arg, int fd, struct porter *porter)
{
	struct porter_watch *watch = arg;
	struct channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return NULL;
	*channel = (struct channel){.watch = watch, .porter = porter};
	if (loop_watch_new(watch->attr.loop, fd, LOOP_READ, on_channel, channel, &channel->loop_watch) == 0)
		return channel;
	free(channel);
	return NULL;
}

static void on_unwatch(void *arg, void *handle)
{
	struct channel *channel = handle;

	loop_watch_free(channel->loop_watch);
	free(channel);
}

static void on_alarm(void *arg, uint64_t nsec)
{
	struct porter_watch *watch = arg;

	loop_timer_arm(watch->timer, nsec);
}

static void on_failed(void *arg, uint32_t uid, const char *text)
{
	log_provoked(LOG_WARNING, NULL, "porter of uid %" PRIu32 " (the process that receives this user's descriptors): %s", uid, text);
}

static void on_timer(void *arg)
{
	struct porter_watch *watch = arg;

	porters_tick(watch->porters);
}

static void on_zygote(void *arg, unsigned int events)
{
	struct porter_watch *watch = arg;

	if (porters_hear_zygote(watch->porters) == 0)
		return;
	watch->zygote_watch = loop_watch_free(watch->zygote_watch);
	watch->attr.zygote_ended(watch->attr.arg);
}

static int make_porters(struct porter_watch *watch)
{
	int zygote = watch->attr.zygote, r;
	const struct porters_attr attr = {
		.zygote = take_fd(&watch->attr.zygote),
		.linger_nsec = watch->attr.linger_nsec,
		.hooks = {.arg = watch, .watch = on_watch, .unwatch = on_unwatch, .alarm = on_alarm, .failed = on_failed},
	};

	r = porters_new(&attr, &watch->porters);
	return r < 0 ? r : loop_watch_new(watch->attr.loop, zygote, LOOP_READ, on_zygote, watch, &watch->zygote_watch);
}

int porter_watch_new(const struct porter_watch_attr *attr, struct porter_watch **ret_watch)
{
	_cleanup_close_ int zygote = attr->zygote;
	_cleanup_(porter_watch_freep) struct porter_watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (!watch)
		return -ENOMEM;
	watch->attr = *attr;
	watch->attr.zygote = take_fd(&zygote);
	r = loop_timer_new(attr->loop, on_timer, watch, &watch->timer);
	if (r == 0)
		r = make_porters(watch);
	if (r == 0)
		*ret_watch = take_ptr(watch);
	return r;
}

struct porters *porter_watch_porters(struct porter_watch *watch)
{
	return watch->porters;
}

struct porter_watch *porter_watch_free(struct porter_watch *watch)
{
	if (!watch)
		return NULL;
	loop_watch_free(watch->zygote_watch);
	porters_free(watch->porters);
	safe_close(watch->attr.zygote);
	loop_timer_free(watch->timer);
	free(watch);
	return NULL;
}
