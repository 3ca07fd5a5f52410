/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that wait for firmware, and for users who stall, in place of the control thread. */
#ifndef SHMEMD_WORKERS_H
#define SHMEMD_WORKERS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/loop.h"
#include "daemon/session/work.h"

struct workers;

struct workers_attr {
	struct loop *loop;
	unsigned int n_threads; /* at least 1; for users who stall there are more */
	void (*activity)(void *arg); /* after works were done */
	void *activity_arg;
};

/* -EAGAIN: a thread cannot be made; -ENOMEM, -EMFILE. */
int workers_new(const struct workers_attr *attr, struct workers **ret_workers);
/* Nothing is under way. NULL allowed. */
struct workers *workers_free(struct workers *workers);

/* Users who have equally many under way take turns; each one's works run in their order. The loop calls its done. */
void workers_submit(struct workers *workers, struct work *work);
/*
 * The same, and wait for it: at most so long, in all a tenth of the time that passes, and not at all behind a work of its user
 * that stalls. True: it has run, and its done is not called.
 */
bool workers_run(struct workers *workers, struct work *work, uint64_t most_nsec);
/*
 * Without the loop: until nothing is under way, also of what comes up meanwhile. -ETIMEDOUT: nothing was done for
 * patience_nsec; -ETIME: most_nsec are over.
 */
int workers_finish(struct workers *workers, uint64_t patience_nsec, uint64_t most_nsec);

#endif
