/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of the runtime: levels for each part, lines to stderr or to a file.
 *
 *	12:01:07.518202 node7 3 heap warn: the chunk of 1 GiB has no huge pages
 *
 * Time in UTC, host, rank ("-" before it is known), part, level. One line is one write(), so that lines of threads and
 * processes stay whole in a common file. A line that is not wanted costs one load. Writing allocates nothing and takes no lock.
 *
 * A process has one log for all of its worlds: this is the only global state of the room. Any thread may log at any time, also
 * while another calls runtime_log_open() or runtime_log_identify(); those two one at a time.
 */
#ifndef SHMD_RUNTIME_LOG_H
#define SHMD_RUNTIME_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "libclient/runtime/settings/settings.h"

/* Before runtime_log_open(): warnings and errors. Read through runtime_log_wants(). */
extern uint8_t runtime_log_levels[RUNTIME_N_SUBSYSTEMS];

static inline bool runtime_log_wants(enum runtime_subsystem part, enum runtime_log_level level)
{
	return __builtin_expect((unsigned int)level <= __atomic_load_n(&runtime_log_levels[part], __ATOMIC_RELAXED), 0);
}

/* runtime_log(HEAP, WARN, "%u chunks", n): the arguments are evaluated only if the line is wanted. */
#define runtime_log(part, level, ...)                                                                        \
	do {                                                                                                 \
		if (runtime_log_wants(RUNTIME_PART_##part, RUNTIME_LOG_##level))                             \
			runtime_log_line(RUNTIME_PART_##part, RUNTIME_LOG_##level, __VA_ARGS__);             \
	} while (0)

/* Writes the line without asking. Keeps errno. Control characters become '?', and a long line ends with "...". */
void runtime_log_line(enum runtime_subsystem part, enum runtime_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Takes levels and file of the settings; again for each world, and the last call counts. A file with %r opens when the rank is
 * known; lines before that go to stderr. env (NULL: that of the process) has the name of the job.
 *
 * Errors: the file cannot be opened, or its name has an unknown %: a negative errno with the error text, and the log is on stderr.
 */
int runtime_log_open(const struct runtime_settings *settings, const struct runtime_env *env);
/* The rank for the prefix and for %r; the first call of a process counts, so the log keeps the rank of the first world. Errors as above. */
int runtime_log_identify(int rank);
/* Back to the start: no file, no rank. No other thread logs meanwhile. */
void runtime_log_close(void);

/*
 * Reports variables SHMD_*, NVSHMEM_* and SHMEM_* that have no effect: with warn those that are unknown, with info those of other libraries. Once in
 * a process, later calls do nothing. For one process of a job: the others have the same.
 */
void runtime_log_unknown(const struct runtime_env *env);

#endif
