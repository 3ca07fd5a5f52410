/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines to the journal or to stderr.
 *
 * Lines that clients can provoke pass a bucket: a burst of 20, then 2 a second. Without libsystemd a stderr that
 * belongs to the journal gets lines with a level prefix, which the journal understands. Any thread; the bucket
 * is locked.
 */
#include "daemon/log.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "config.h"
#include "proto/base/nsec.h"
#include "proto/base/show.h"

#if HAVE_SYSTEMD
#include <systemd/sd-journal.h>
#endif

#define LOG_TEXT_BYTES 1280
#define LOG_MAX_FIELDS 10
#define LOG_FIELD_BYTES 96

#define BUCKET_BURST 20u
#define BUCKET_TOKEN_NSEC 500000000ull

/* The first three are read by every thread and written by log_init: single words, no order among them. */
static struct {
	bool journal; /* through libsystemd */
	bool prefix; /* stderr lines carry "<level>" */
	int max_level;
	bool starting; /* these two: see log_begin_start() */
	bool start_failed;
	pthread_mutex_t lock; /* bucket */
	struct log_bucket bucket;
} log_state = {.max_level = LOG_INFO, .lock = PTHREAD_MUTEX_INITIALIZER};

/* JOURNAL_STREAM holds "dev:inode" of the stream that the service manager connected. */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	uint64_t dev, ino;
	struct stat st;

	if (!stream || sscanf(stream, "%" SCNu64 ":%" SCNu64, &dev, &ino) != 2)
		return false;
	return fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev && st.st_ino == ino;
}

void log_init(enum log_target target, int max_level)
{
	bool journal = target == LOG_TO_JOURNAL || (target == LOG_TO_AUTO && stderr_is_journal());

	__atomic_store_n(&log_state.max_level, max_level, __ATOMIC_RELAXED);
	__atomic_store_n(&log_state.journal, journal && HAVE_SYSTEMD, __ATOMIC_RELAXED);
	__atomic_store_n(&log_state.prefix, journal && !HAVE_SYSTEMD, __ATOMIC_RELAXED);
}

bool log_wants(int level)
{
	return level <= __atomic_load_n(&log_state.max_level, __ATOMIC_RELAXED);
}

void log_begin_start(void)
{
	__atomic_store_n(&log_state.start_failed, false, __ATOMIC_RELAXED);
	__atomic_store_n(&log_state.starting, true, __ATOMIC_RELAXED);
}

bool log_end_start(void)
{
	__atomic_store_n(&log_state.starting, false, __ATOMIC_RELAXED);
	return __atomic_load_n(&log_state.start_failed, __ATOMIC_RELAXED);
}

static const char *level_name(int level)
{
	static const char *const names[] = {"emergency", "alert",  "critical", "error",
					    "warning",   "notice", "info",     "debug"};

	return names[level & 7];
}

#if HAVE_SYSTEMD
static const char *const event_ids[] = {
#define X(name, id) [CATALOG_##name] = id,
	CATALOG_LIST(X)
#undef X
};

/* "NAME=value" texts of the facts that are known. Returns their number. */
static int format_fields(char out[LOG_MAX_FIELDS][LOG_FIELD_BYTES], const struct log_fields *fields)
{
	int n = 0;

	if (!fields)
		return 0;
	if (fields->session)
		snprintf(out[n++], LOG_FIELD_BYTES, "SHMEMD_SESSION=%" PRIu64, fields->session);
	if (fields->has_peer) {
		snprintf(out[n++], LOG_FIELD_BYTES, "SHMEMD_UID=%" PRIu32, fields->uid);
		snprintf(out[n++], LOG_FIELD_BYTES, "SHMEMD_PID=%" PRIu32, fields->pid);
	}
	if (fields->nic)
		snprintf(out[n++], LOG_FIELD_BYTES, "SHMEMD_NIC=%s", fields->nic);
	if (fields->qpn)
		snprintf(out[n++], LOG_FIELD_BYTES, "SHMEMD_QPN=0x%" PRIx32, fields->qpn);
	if (fields->event)
		snprintf(out[n++], LOG_FIELD_BYTES, "MESSAGE_ID=%s", event_ids[fields->event]);
	if (fields->kind)
		snprintf(out[n++], LOG_FIELD_BYTES, "SHMEMD_KIND=%s", fields->kind);
	return n;
}

static void to_journal(int level, const struct log_fields *fields, const char *text)
{
	char values[LOG_MAX_FIELDS][LOG_FIELD_BYTES], message[LOG_TEXT_BYTES + 16], priority[16];
	struct iovec iov[LOG_MAX_FIELDS + 2];
	int n = format_fields(values, fields);

	snprintf(message, sizeof(message), "MESSAGE=%s", text);
	snprintf(priority, sizeof(priority), "PRIORITY=%d", level);
	for (int i = 0; i < n; i++)
		iov[i] = (struct iovec){values[i], strlen(values[i])};
	iov[n++] = (struct iovec){message, strlen(message)};
	iov[n++] = (struct iovec){priority, strlen(priority)};
	sd_journal_sendv(iov, n);
}
#else
static void to_journal(int level, const struct log_fields *fields, const char *text)
{
}
#endif

/* One write per line, so that lines of several threads do not mix. */
static void to_stderr(int level, const struct log_fields *fields, const char *text)
{
	char line[LOG_TEXT_BYTES + 128], who[64] = "";
	int n;

	if (fields && fields->session && fields->has_peer)
		snprintf(who, sizeof(who), "session %" PRIu64 " (uid %" PRIu32 ", pid %" PRIu32 "): ",
			 fields->session, fields->uid, fields->pid);
	if (__atomic_load_n(&log_state.prefix, __ATOMIC_RELAXED))
		n = snprintf(line, sizeof(line), "<%d>%s%s\n", level & 7, who, text);
	else
		n = snprintf(line, sizeof(line), "shmemd: %s: %s%s\n", level_name(level), who, text);
	if (n >= (int)sizeof(line))
		n = (int)sizeof(line) - 1;
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* nowhere to tell it */
}

static void emit(int level, const struct log_fields *fields, const char *text)
{
	if (__atomic_load_n(&log_state.journal, __ATOMIC_RELAXED))
		to_journal(level, fields, text);
	else
		to_stderr(level, fields, text);
}

void log_line(int level, const struct log_fields *fields, const char *fmt, ...)
{
	static const struct log_fields failed = {.event = CATALOG_START_FAILED};
	bool fails_start = !fields && level <= LOG_ERR && __atomic_load_n(&log_state.starting, __ATOMIC_RELAXED);
	char text[LOG_TEXT_BYTES];
	size_t used = 0;
	va_list ap;

	if (fails_start) {
		used = (size_t)snprintf(text, sizeof(text), "cannot start: ");
		__atomic_store_n(&log_state.start_failed, true, __ATOMIC_RELAXED);
	}
	if (!log_wants(level))
		return;
	va_start(ap, fmt);
	vsnprintf(text + used, sizeof(text) - used, fmt, ap);
	va_end(ap);
	emit(level, fails_start ? &failed : fields, text);
}

bool log_bucket_take(struct log_bucket *bucket, uint64_t now_nsec, uint64_t *ret_dropped)
{
	const uint64_t full = BUCKET_BURST * BUCKET_TOKEN_NSEC;
	uint64_t gained = bucket->last_nsec ? now_nsec - bucket->last_nsec : full;

	bucket->last_nsec = now_nsec;
	bucket->tokens_nsec = gained > full - bucket->tokens_nsec ? full : bucket->tokens_nsec + gained;
	if (bucket->tokens_nsec < BUCKET_TOKEN_NSEC) {
		bucket->n_dropped++;
		return false;
	}
	bucket->tokens_nsec -= BUCKET_TOKEN_NSEC;
	*ret_dropped = bucket->n_dropped;
	bucket->n_dropped = 0;
	return true;
}

static bool pass(uint64_t *ret_dropped)
{
	bool may;

	pthread_mutex_lock(&log_state.lock);
	may = log_bucket_take(&log_state.bucket, nsec_now(), ret_dropped);
	pthread_mutex_unlock(&log_state.lock);
	return may;
}

void log_provoked(int level, const struct log_fields *fields, const char *fmt, ...)
{
	char text[LOG_TEXT_BYTES];
	uint64_t n_dropped = 0;
	va_list ap;

	if (!log_wants(level) || !pass(&n_dropped))
		return;
	if (n_dropped > 0)
		log_line(LOG_NOTICE, &(struct log_fields){.event = CATALOG_LINES_DROPPED},
			 "dropped %" PRIu64 " line%s about clients", n_dropped, plural_s(n_dropped));
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	emit(level, fields, text);
}
