/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log: one line of text and the facts behind it as fields, to the journal or to stderr.
 *
 * Levels are those of <syslog.h>. Text is lower case, without "=" signs, with the exact cause. The one global state of
 * the daemon; log_init comes first, and every thread may log afterwards, also while log_init is called again.
 */
#ifndef SHMEMD_LOG_H
#define SHMEMD_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <syslog.h>

#include "daemon/session/catalog.h"

enum log_target {
	LOG_TO_AUTO, /* the journal when stderr is connected to it, else stderr */
	LOG_TO_JOURNAL,
	LOG_TO_STDERR,
};

/* Zero or NULL: not known. */
struct log_fields {
	uint64_t session;
	bool has_peer; /* uid and pid are valid */
	uint32_t uid, pid;
	const char *nic;
	uint32_t qpn;
	const char *kind; /* of the message */
	enum catalog_event event; /* becomes MESSAGE_ID */
};

void log_init(enum log_target target, int max_level);
bool log_wants(int level);

/*
 * Around the daemon's start. In between, an error line without fields is the reason why the start fails: it begins with
 * "cannot start: " and carries the event START_FAILED. log_end_start: whether there was one, so that the caller does not report the failure
 * a second time in vaguer words.
 */
void log_begin_start(void);
bool log_end_start(void);

void log_line(int level, const struct log_fields *fields, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same for lines that a client can provoke: beyond a rate they are dropped, and the log says how many. */
void log_provoked(int level, const struct log_fields *fields, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* How many provoked lines may pass now: a bucket of tokens, exposed for its test. */
struct log_bucket {
	uint64_t last_nsec;
	uint64_t tokens_nsec;
	uint64_t n_dropped;
};
/* True: the line may pass, and *ret_dropped tells how many did not since the last that did. */
bool log_bucket_take(struct log_bucket *bucket, uint64_t now_nsec, uint64_t *ret_dropped);

#endif
