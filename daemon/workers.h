/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that wait for firmware and for users who stall, so that the control thread does not. Control thread only. */
#ifndef SHMEMD_WORKERS_H
#define SHMEMD_WORKERS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/loop.h"
#include "daemon/session/work.h"

struct workers;

struct workers_attr {
	struct loop *loop;
	unsigned int n_threads; /* at least 1; users who stall get further ones */
	void (*activity)(void *arg); /* called after done() of works */
	void *activity_arg;
};

/* -EAGAIN: it cannot start a thread; -ENOMEM, -EMFILE. */
int workers_new(const struct workers_attr *attr, struct workers **ret_workers);
/* Has idle threads end. -ETIMEDOUT: one still starts another, for which it waits for a user's memory; then the process can only exit. */
int workers_stop(struct workers *workers, uint64_t most_nsec);
/* No work may be under way. NULL allowed. */
struct workers *workers_free(struct workers *workers);

/* Users with equally many works under way take turns; works of one user run in their order. The loop calls done(). */
void workers_submit(struct workers *workers, struct work *work);
/*
 * Submits the work and waits for it: at most most_nsec, over all calls a tenth of the time that passes, and not at all if its user
 * stalls already. True: it has run, and done() will not be called.
 */
bool workers_run(struct workers *workers, struct work *work, uint64_t most_nsec);
/* Submits the work; if no thread takes it within this time, the loop calls done() without run(). */
void workers_offer(struct workers *workers, struct work *work, uint64_t nsec);
/*
 * Waits, without the loop, until no work is under way, including works submitted meanwhile. -ETIMEDOUT: no work ended for
 * patience_nsec; -ETIME: most_nsec have passed.
 */
int workers_finish(struct workers *workers, uint64_t patience_nsec, uint64_t most_nsec);

#endif
