/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that makes porters, and processes that execute queues or map memory. It is forked when the daemon has no thread, no client and little memory, so that it forks fast
 * and its children hold nothing of the daemon's.
 */
#ifndef SHMEMD_PORTER_ZYGOTE_H
#define SHMEMD_PORTER_ZYGOTE_H

#include "daemon/porter/message.h"

/* Such a process. It owns its channel and the daemon's pidfd, which may be -1, and has no other thread. Returns never. */
typedef void (*zygote_run_fn)(int channel, int daemon_pidfd);

/* By enum zygote_kind; NULL: none of that kind. Porters need none. */
struct zygote_runs {
	zygote_run_fn run[ZYGOTE_KINDS];
};

/* Before any thread. `runs` may be NULL. *ret_channel is the caller's; the zygote ends when it is closed. 0 or negative errno. */
int zygote_start(const struct zygote_runs *runs, int *ret_channel);
/*
 * Any thread. A new process; *ret_channel is the caller's end of its channel, non-blocking. lifeline is borrowed, and may be -1. Does not wait.
 * 0; -EAGAIN: the zygote does not keep up; or another negative errno.
 */
int zygote_fork(int zygote, const struct zygote_order *order, int lifeline, int *ret_channel);
/*
 * The zygote's report that forking works (*ret_error is 0) or fails (negative errno). Does not wait. 0; -EAGAIN: no report; -EPIPE:
 * the zygote has ended.
 */
int zygote_hear(int zygote, int *ret_error);

#endif
