/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs for tests of the bootstrap: ranks are threads of this process, or forked processes where one of them is to die. */
#ifndef SHMD_TESTS_BOOTSTRAP_JOB_H
#define SHMD_TESTS_BOOTSTRAP_JOB_H

#include <stdbool.h>
#include <sys/types.h>

#include "libclient/runtime/bootstrap/bootstrap.h"

#define JOB_TEXT_BYTES 512

struct job {
	int size;
	struct shmd_uid uid;
	uint64_t timeout_nsec;
	uint32_t number;
	void (*rank)(struct job *job, int rank);
	void *arg;
};

/* A job of this size on loopback, with the id made here. */
void job_init(struct job *job, int size, void (*rank)(struct job *job, int rank));
/* Runs rank() for ranks first to last in threads of their own, and waits for all. */
void job_run_threads(struct job *job, int first, int last);
/* Forks ranks first to last, which exit with 0 after rank(). */
void job_fork(struct job *job, pid_t *pids, int first, int last);
/* Each exits with this status. */
void job_wait(const pid_t *pids, int first, int last, int status);

/* bootstrap_open by "uid"; -errno, with the text in text[JOB_TEXT_BYTES] if that is not NULL. */
int job_open(const struct job *job, int rank, struct shmd_bootstrap *ret, char *text);
/* The same, and it must succeed. */
void job_must_open(const struct job *job, int rank, struct shmd_bootstrap *ret);

#endif
