/* SPDX-License-Identifier: Apache-2.0 */
/* The name of a log file: "%h" and its like replaced. Pure. */
#ifndef SHMD_RUNTIME_LOG_FILE_H
#define SHMD_RUNTIME_LOG_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct log_names {
	const char *host, *job;
	long pid;
	int rank;
};

/* 0; -EINVAL: a % with another letter behind it, or none; -ENAMETOOLONG. A slash in a name becomes '_'. */
int log_file_name(const char *pattern, const struct log_names *names, char *buf, size_t size);
bool log_file_needs_rank(const char *pattern);

#endif
