/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of something that one thread does, and another waits for until a deadline. The one who comes last frees what both share: the thread
 * that waits if the end came in time, else the thread that ends.
 */
#ifndef SHMD_RUNTIME_ENDING_H
#define SHMD_RUNTIME_ENDING_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct ending {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool has_ended, is_left;
};

void ending_init(struct ending *ending);
void ending_deinit(struct ending *ending);
/* True: nobody waits any more, so the caller frees. */
bool ending_end(struct ending *ending);
/* False: not by the deadline. */
bool ending_wait(struct ending *ending, uint64_t deadline);

#endif
