/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a porter that may wait. Each carries out its jobs one after the other, in the order in which they came. */
#ifndef SHMEMD_PORTER_CLOSER_H
#define SHMEMD_PORTER_CLOSER_H

/* Embedded in the object that the job is about, so that no job needs memory. */
struct closer_job {
	struct closer_job *next;
	void (*run)(struct closer_job *job); /* frees that object */
};

enum closer {
	CLOSER_FILES,
	CLOSER_WORDS, /* of health pages: the close of a large file does not put them off */
	CLOSER_N
};

/* Runs the job in this thread if no other can be started. */
void closer_run(enum closer which, struct closer_job *job);
void closer_wait(void); /* until all jobs are done, however long that takes */

#endif
