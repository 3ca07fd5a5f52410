/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of a porter that may wait: it carries out one job after the other, in the order in which they came. */
#ifndef SHMEMD_PORTER_CLOSER_H
#define SHMEMD_PORTER_CLOSER_H

/* Part of what the job is about, so that no job needs memory. */
struct closer_job {
	struct closer_job *next;
	void (*run)(struct closer_job *job); /* frees what it is part of */
};

/* Does it here where no thread can be had. */
void closer_run(struct closer_job *job);
void closer_wait(void); /* until nothing is left to do, however long that takes */

#endif
