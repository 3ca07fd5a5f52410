/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: descriptors, timers, signals, deferred calls. Each object is owned by who made it and is freed
 * before the loop; freeing one from inside its own callback is allowed. One thread.
 */
#ifndef SHMEMD_LOOP_H
#define SHMEMD_LOOP_H

#include <stdint.h>

#include "proto/base/cleanup.h"

struct loop;
struct loop_watch;
struct loop_timer;
struct loop_signal;
struct loop_defer;

#define LOOP_READ 0x1u
#define LOOP_WRITE 0x2u

typedef void (*loop_watch_fn)(void *arg, unsigned int events); /* LOOP_*; a hang-up counts as READ */
typedef void (*loop_fn)(void *arg);

int loop_new(struct loop **ret_loop);
struct loop *loop_free(struct loop *loop);
int loop_run(struct loop *loop); /* until loop_stop */
void loop_stop(struct loop *loop); /* returns after the present callbacks */

/* Calls fn while one of `events` holds (level triggered). events may be 0. The descriptor stays the caller's. */
int loop_watch_new(struct loop *loop, int fd, unsigned int events, loop_watch_fn fn, void *arg,
		   struct loop_watch **ret_watch);
int loop_watch_set(struct loop_watch *watch, unsigned int events);
struct loop_watch *loop_watch_free(struct loop_watch *watch);

/* One shot; starts disarmed. */
int loop_timer_new(struct loop *loop, loop_fn fn, void *arg, struct loop_timer **ret_timer);
/* Comes before whatever else is due, also between the callbacks of one long turn. Before it is armed. */
int loop_timer_set_urgent(struct loop_timer *timer);
int loop_timer_arm(struct loop_timer *timer, uint64_t nsec);
struct loop_timer *loop_timer_free(struct loop_timer *timer);

int loop_signal_new(struct loop *loop, int signo, loop_fn fn, void *arg,
		    struct loop_signal **ret_signal);
struct loop_signal *loop_signal_free(struct loop_signal *sig);

/* Calls fn once from the loop, after the present callback; scheduling twice before that is once. */
int loop_defer_new(struct loop *loop, loop_fn fn, void *arg, struct loop_defer **ret_defer);
void loop_defer_schedule(struct loop_defer *defer);
struct loop_defer *loop_defer_free(struct loop_defer *defer);

#endif
