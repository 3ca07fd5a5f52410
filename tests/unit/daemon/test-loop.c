/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemon/loop.h"
#include "tests/lib/test.h"

struct seen {
	struct loop *loop;
	struct loop_watch *watch;
	struct loop_timer *timer;
	struct loop_defer *defer;
	unsigned int n_watch, n_timer, n_defer, n_signal;
	unsigned int events;
};

static void on_timer(void *arg)
{
	struct seen *seen = arg;

	seen->n_timer++;
	loop_stop(seen->loop);
}

static void on_defer(void *arg)
{
	struct seen *seen = arg;

	seen->n_defer++;
	/* Freeing from inside its own callback is allowed. */
	seen->defer = loop_defer_free(seen->defer);
	seen->watch = loop_watch_free(seen->watch);
	loop_stop(seen->loop);
}

static void on_watch(void *arg, unsigned int events)
{
	struct seen *seen = arg;

	seen->n_watch++;
	seen->events |= events;
	loop_defer_schedule(seen->defer);
	loop_defer_schedule(seen->defer);
	ASSERT_EQ(seen->n_defer, 0);
}

static void on_signal(void *arg)
{
	struct seen *seen = arg;

	seen->n_signal++;
	loop_stop(seen->loop);
}

static void seen_init(struct seen *seen)
{
	memset(seen, 0, sizeof(*seen));
	ASSERT_OK(loop_new(&seen->loop));
	ASSERT_OK(loop_defer_new(seen->loop, on_defer, seen, &seen->defer));
	ASSERT_OK(loop_timer_new(seen->loop, on_timer, seen, &seen->timer));
}

static void seen_deinit(struct seen *seen)
{
	loop_watch_free(seen->watch);
	loop_timer_free(seen->timer);
	loop_defer_free(seen->defer);
	loop_free(seen->loop);
}

TEST(deferred_call_comes_once_and_after_the_callback)
{
	struct seen seen;
	int socks[2];

	seen_init(&seen);
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks));
	ASSERT_OK(loop_watch_new(seen.loop, socks[0], LOOP_READ, on_watch, &seen, &seen.watch));
	ASSERT_EQ(write(socks[1], "x", 1), 1);
	ASSERT_OK(loop_run(seen.loop));
	ASSERT_EQ(seen.n_watch, 1);
	ASSERT_EQ(seen.n_defer, 1);
	ASSERT_EQ(seen.events, LOOP_READ);
	seen_deinit(&seen);
	close(socks[0]);
	close(socks[1]);
}

TEST(hang_up_is_read)
{
	struct seen seen;
	int socks[2];

	seen_init(&seen);
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks));
	ASSERT_OK(loop_watch_new(seen.loop, socks[0], LOOP_READ, on_watch, &seen, &seen.watch));
	close(socks[1]);
	ASSERT_OK(loop_run(seen.loop));
	ASSERT_EQ(seen.n_watch, 1);
	seen_deinit(&seen);
	close(socks[0]);
}

TEST(watch_without_events_is_silent_until_set)
{
	struct seen seen;
	int socks[2];

	seen_init(&seen);
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks));
	ASSERT_OK(loop_watch_new(seen.loop, socks[0], 0, on_watch, &seen, &seen.watch));
	ASSERT_OK(loop_timer_arm(seen.timer, 20000000));
	ASSERT_OK(loop_run(seen.loop));
	ASSERT_EQ(seen.n_timer, 1);
	ASSERT_EQ(seen.n_watch, 0);
	ASSERT_OK(loop_watch_set(seen.watch, LOOP_READ | LOOP_WRITE));
	ASSERT_OK(loop_run(seen.loop));
	ASSERT_EQ(seen.events, LOOP_WRITE);
	seen_deinit(&seen);
	close(socks[0]);
	close(socks[1]);
}

TEST(timer_fires_once_and_not_early)
{
	struct timespec a, b;
	struct seen seen;
	long long nsec;

	seen_init(&seen);
	clock_gettime(CLOCK_MONOTONIC, &a);
	ASSERT_OK(loop_timer_arm(seen.timer, 30000000));
	ASSERT_OK(loop_run(seen.loop));
	clock_gettime(CLOCK_MONOTONIC, &b);
	nsec = (b.tv_sec - a.tv_sec) * 1000000000ll + b.tv_nsec - a.tv_nsec;
	ASSERT_GE(nsec, 29000000);
	ASSERT_EQ(seen.n_timer, 1);
	seen_deinit(&seen);
}

TEST(signal_reaches_the_loop)
{
	struct loop_signal *sig;
	struct seen seen;

	seen_init(&seen);
	ASSERT_OK(loop_signal_new(seen.loop, SIGUSR1, on_signal, &seen, &sig));
	ASSERT_OK(raise(SIGUSR1));
	ASSERT_OK(loop_run(seen.loop));
	ASSERT_EQ(seen.n_signal, 1);
	loop_signal_free(sig);
	seen_deinit(&seen);
}

TEST(signal_that_comes_when_the_loop_has_ended_is_ignored)
{
	struct loop_signal *sig;
	struct seen seen;

	seen_init(&seen);
	ASSERT_OK(loop_signal_new(seen.loop, SIGUSR1, on_signal, &seen, &sig));
	loop_signal_free(sig);
	seen_deinit(&seen);
	ASSERT_OK(raise(SIGUSR1));
	ASSERT_EQ(seen.n_signal, 0);
}

struct slow {
	struct seen *seen;
	struct loop_timer *urgent;
	struct loop_defer *defers[30];
	unsigned int n_done, done_at_timer;
};

static void on_slow(void *arg)
{
	struct slow *slow = arg;
	const struct timespec pause = {.tv_nsec = 20000000};

	if (slow->n_done == 0)
		ASSERT_OK(loop_timer_arm(slow->urgent, 50000000));
	nanosleep(&pause, NULL);
	if (++slow->n_done == 30)
		loop_stop(slow->seen->loop);
}

static void on_urgent(void *arg)
{
	struct slow *slow = arg;

	slow->seen->n_timer++;
	slow->done_at_timer = slow->n_done;
}

/* 30 callbacks of 20 ms are due at once; the watchdog's timer is not kept waiting for all of them. */
TEST(urgent_timer_passes_a_long_turn)
{
	struct slow slow = {0};
	struct seen seen;

	seen_init(&seen);
	slow.seen = &seen;
	ASSERT_OK(loop_timer_new(seen.loop, on_urgent, &slow, &slow.urgent));
	ASSERT_OK(loop_timer_set_urgent(slow.urgent));
	for (int i = 0; i < 30; i++) {
		ASSERT_OK(loop_defer_new(seen.loop, on_slow, &slow, &slow.defers[i]));
		loop_defer_schedule(slow.defers[i]);
	}
	ASSERT_OK(loop_run(seen.loop));
	ASSERT_EQ(seen.n_timer, 1);
	ASSERT_GE(slow.done_at_timer, 1);
	ASSERT_LE(slow.done_at_timer, 15);
	ASSERT_EQ(slow.n_done, 30);
	for (int i = 0; i < 30; i++)
		loop_defer_free(slow.defers[i]);
	loop_timer_free(slow.urgent);
	seen_deinit(&seen);
}
