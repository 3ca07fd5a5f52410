/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of a porter that may wait. It carries out jobs one after the other, in the order in which they came. */
#ifndef SHMEMD_PORTER_CLOSER_H
#define SHMEMD_PORTER_CLOSER_H

/* Embedded in the object that the job is about, so that no job needs memory. */
struct closer_job {
	struct closer_job *next;
	void (*run)(struct closer_job *job); /* frees that object */
};

/* Runs the job in this thread if no other can be started. */
void closer_run(struct closer_job *job);
void closer_wait(void); /* until all jobs are done, however long that takes */

#endif
