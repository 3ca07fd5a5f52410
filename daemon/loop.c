/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop over libevent, which nothing else includes.
 *
 * An idle loop sleeps: only timers that a caller armed run. However many callbacks are due at once, the clock is read
 * again after TURN_NSEC of them, and urgent timers pass the rest. Control thread only.
 */
#include "daemon/loop.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

#include <event2/event.h>

#include "proto/base/nsec.h"

#define TURN_NSEC (100 * NSEC_PER_MSEC)

enum {
	PRIORITY_URGENT,
	PRIORITY_NORMAL, /* what libevent gives a new event of two priorities */
	PRIORITY_N,
};

struct loop {
	struct event_base *base;
};

struct loop_watch {
	struct loop *loop;
	struct event *event;
	int fd;
	unsigned int events;
	loop_watch_fn fn;
	void *arg;
};

/* Timers, signals and deferred calls differ in how their event is made. */
struct loop_call {
	struct event *event;
	loop_fn fn;
	void *arg;
};

struct loop_timer {
	struct loop_call call;
};
struct loop_signal {
	struct loop_call call;
};
struct loop_defer {
	struct loop_call call;
};

DEFINE_CLEANUP(struct loop *, loop_free);
DEFINE_CLEANUP(struct loop_watch *, loop_watch_free);

static void config_freep(struct event_config **config)
{
	if (*config)
		event_config_free(*config);
}

static struct event_base *make_base(void)
{
	const struct timeval turn = {.tv_usec = TURN_NSEC / NSEC_PER_USEC};
	_cleanup_(config_freep) struct event_config *config = event_config_new();
	struct event_base *base;

	if (!config || event_config_set_max_dispatch_interval(config, &turn, -1, PRIORITY_NORMAL))
		return NULL;
	base = event_base_new_with_config(config);
	if (base && event_base_priority_init(base, PRIORITY_N)) {
		event_base_free(base);
		return NULL;
	}
	return base;
}

int loop_new(struct loop **ret_loop)
{
	_cleanup_(loop_freep) struct loop *loop = calloc(1, sizeof(*loop));

	if (!loop)
		return -ENOMEM;
	loop->base = make_base();
	if (!loop->base)
		return -ENOMEM;
	*ret_loop = take_ptr(loop);
	return 0;
}

struct loop *loop_free(struct loop *loop)
{
	if (!loop)
		return NULL;
	if (loop->base)
		event_base_free(loop->base);
	free(loop);
	return NULL;
}

int loop_run(struct loop *loop)
{
	return event_base_loop(loop->base, EVLOOP_NO_EXIT_ON_EMPTY) < 0 ? -EIO : 0;
}

void loop_stop(struct loop *loop)
{
	event_base_loopbreak(loop->base);
}

/* ---- descriptors ------------------------------------------------------------------------------------------- */

static void on_watch(evutil_socket_t fd, short what, void *arg)
{
	struct loop_watch *watch = arg;
	unsigned int events = 0;

	if (what & EV_READ)
		events |= LOOP_READ;
	if (what & EV_WRITE)
		events |= LOOP_WRITE;
	watch->fn(watch->arg, events);
}

static short event_mask(unsigned int events)
{
	return (short)(EV_PERSIST | (events & LOOP_READ ? EV_READ : 0) |
		       (events & LOOP_WRITE ? EV_WRITE : 0));
}

int loop_watch_set(struct loop_watch *watch, unsigned int events)
{
	if (events == watch->events)
		return 0;
	event_del(watch->event);
	if (event_assign(watch->event, watch->loop->base, watch->fd, event_mask(events), on_watch, watch))
		return -EIO;
	watch->events = events;
	if (events && event_add(watch->event, NULL))
		return -EIO;
	return 0;
}

int loop_watch_new(struct loop *loop, int fd, unsigned int events, loop_watch_fn fn, void *arg,
		   struct loop_watch **ret_watch)
{
	_cleanup_(loop_watch_freep) struct loop_watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (!watch)
		return -ENOMEM;
	*watch = (struct loop_watch){.loop = loop, .fd = fd, .fn = fn, .arg = arg};
	watch->event = event_new(loop->base, fd, event_mask(0), on_watch, watch);
	if (!watch->event)
		return -ENOMEM;
	r = loop_watch_set(watch, events);
	if (r < 0)
		return r;
	*ret_watch = take_ptr(watch);
	return 0;
}

struct loop_watch *loop_watch_free(struct loop_watch *watch)
{
	if (!watch)
		return NULL;
	if (watch->event)
		event_free(watch->event);
	free(watch);
	return NULL;
}

/* ---- timers, signals, deferred calls ---------------------------------------------------------------------------- */

static void on_call(evutil_socket_t fd, short what, void *arg)
{
	struct loop_call *call = arg;

	call->fn(call->arg);
}

static int call_init(struct loop_call *call, struct loop *loop, int signo, short what, loop_fn fn,
		     void *arg)
{
	call->fn = fn;
	call->arg = arg;
	call->event = event_new(loop->base, signo, what, on_call, call);
	return call->event ? 0 : -ENOMEM;
}

static void call_deinit(struct loop_call *call)
{
	if (call->event)
		event_free(call->event);
	call->event = NULL;
}

int loop_timer_new(struct loop *loop, loop_fn fn, void *arg, struct loop_timer **ret_timer)
{
	_cleanup_free_ struct loop_timer *timer = calloc(1, sizeof(*timer));

	if (!timer || call_init(&timer->call, loop, -1, 0, fn, arg) < 0)
		return -ENOMEM;
	*ret_timer = take_ptr(timer);
	return 0;
}

int loop_timer_set_urgent(struct loop_timer *timer)
{
	return event_priority_set(timer->call.event, PRIORITY_URGENT) ? -EINVAL : 0;
}

int loop_timer_arm(struct loop_timer *timer, uint64_t nsec)
{
	struct timeval tv = {
		.tv_sec = (time_t)(nsec / NSEC_PER_SEC),
		.tv_usec = (suseconds_t)(nsec % NSEC_PER_SEC / NSEC_PER_USEC),
	};

	return event_add(timer->call.event, &tv) ? -EIO : 0;
}

struct loop_timer *loop_timer_free(struct loop_timer *timer)
{
	if (!timer)
		return NULL;
	call_deinit(&timer->call);
	free(timer);
	return NULL;
}

/* When it ends libevent puts back what was there before: a signal that comes then must not kill a daemon that stops. */
static int add_signal(struct event *event, int signo)
{
	sigset_t held, before;
	int r;

	sigemptyset(&held);
	sigaddset(&held, signo);
	pthread_sigmask(SIG_BLOCK, &held, &before);
	signal(signo, SIG_IGN);
	r = event_add(event, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

int loop_signal_new(struct loop *loop, int signo, loop_fn fn, void *arg,
		    struct loop_signal **ret_signal)
{
	_cleanup_free_ struct loop_signal *sig = calloc(1, sizeof(*sig));

	if (!sig || call_init(&sig->call, loop, signo, EV_SIGNAL | EV_PERSIST, fn, arg) < 0)
		return -ENOMEM;
	if (add_signal(sig->call.event, signo)) {
		call_deinit(&sig->call);
		return -EIO;
	}
	*ret_signal = take_ptr(sig);
	return 0;
}

struct loop_signal *loop_signal_free(struct loop_signal *sig)
{
	if (!sig)
		return NULL;
	call_deinit(&sig->call);
	free(sig);
	return NULL;
}

int loop_defer_new(struct loop *loop, loop_fn fn, void *arg, struct loop_defer **ret_defer)
{
	_cleanup_free_ struct loop_defer *defer = calloc(1, sizeof(*defer));

	if (!defer || call_init(&defer->call, loop, -1, 0, fn, arg) < 0)
		return -ENOMEM;
	*ret_defer = take_ptr(defer);
	return 0;
}

void loop_defer_schedule(struct loop_defer *defer)
{
	event_active(defer->call.event, EV_TIMEOUT, 0);
}

struct loop_defer *loop_defer_free(struct loop_defer *defer)
{
	if (!defer)
		return NULL;
	call_deinit(&defer->call);
	free(defer);
	return NULL;
}
