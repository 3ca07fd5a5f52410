/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See log.h.
 *
 * The descriptor of the file, once there is one, keeps its number: another file takes its place by dup3(), so a thread that is
 * about to write never meets a number that belongs to something else. Words that several threads read are single and atomic.
 */
#include "libclient/runtime/settings/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <shmemclient.h>

#include "libclient/runtime/settings/log-file.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define LINE_BYTES 1024
#define NAME_BYTES 64
#define FILE_MODE 0644
#define NO_RANK (-1)
#define SECONDS_PER_DAY 86400

uint8_t runtime_log_levels[RUNTIME_N_SUBSYSTEMS] = {[0 ... RUNTIME_N_SUBSYSTEMS - 1] = RUNTIME_LOG_WARN};

/* Read by every line: fd, file_fd, rank, and host, which never changes after has_host. The rest belongs to open and identify. */
static struct {
	int fd; /* where lines go: stderr, or file_fd */
	int rank;
	bool has_host;
	char host[NAME_BYTES];
	int file_fd; /* -1: none so far */
	char job[NAME_BYTES];
	char pattern[RUNTIME_TEXT_BYTES];
	bool has_warned;
} state = {.fd = STDERR_FILENO, .rank = NO_RANK, .file_fd = -1};

/* ---- a line -------------------------------------------------------------------------------------------------------- */

static const char *host_name(void)
{
	return __atomic_load_n(&state.has_host, __ATOMIC_ACQUIRE) ? state.host : "-";
}

static size_t put_prefix(char *line, size_t size, enum runtime_subsystem part, enum runtime_log_level level)
{
	int rank = __atomic_load_n(&state.rank, __ATOMIC_RELAXED);
	char rank_text[16] = "-";
	struct timespec now;
	unsigned int sec;

	clock_gettime(CLOCK_REALTIME, &now);
	sec = (unsigned int)(now.tv_sec % SECONDS_PER_DAY);
	if (rank != NO_RANK)
		snprintf(rank_text, sizeof(rank_text), "%d", rank);
	return (size_t)snprintf(line, size, "%02u:%02u:%02u.%06u %s %s %s %s: ", sec / 3600, sec / 60 % 60, sec % 60,
				(unsigned int)(now.tv_nsec / (long)NSEC_PER_USEC), host_name(), rank_text, runtime_subsystem_names[part],
				runtime_level_names[level]);
}

/* Another library's sentence may hold anything. */
static void clean(char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			text[i] = '?';
}

void runtime_log_line(enum runtime_subsystem part, enum runtime_log_level level, const char *fmt, ...)
{
	char line[LINE_BYTES];
	int saved = errno, n;
	size_t used = put_prefix(line, sizeof(line), part, level);
	va_list args;

	errno = saved; /* for %m */
	va_start(args, fmt);
	n = vsnprintf(line + used, sizeof(line) - used, fmt, args);
	va_end(args);
	if (n > 0 && (size_t)n >= sizeof(line) - used) {
		memcpy(line + sizeof(line) - sizeof("...") - 1, "...", sizeof("..."));
		n = (int)(strlen(line + used));
	}
	n = n < 0 ? 0 : n;
	clean(line + used, (size_t)n);
	line[used + (size_t)n] = '\n';
	/* A log that cannot be written must not end the program; the program may run without it. */
	if (write(__atomic_load_n(&state.fd, __ATOMIC_RELAXED), line, used + (size_t)n + 1) < 0)
		errno = saved;
	errno = saved;
}

/* ---- the file ------------------------------------------------------------------------------------------------------ */

static void to_stderr(void)
{
	__atomic_store_n(&state.fd, STDERR_FILENO, __ATOMIC_RELAXED);
}

/* Above 0, 1 and 2, which a program may have closed and expects to get. */
static int open_above(const char *path)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, FILE_MODE);
	int above;

	if (fd < 0)
		return -errno;
	above = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	return above < 0 ? -errno : above;
}

static int take_file(const char *path)
{
	_cleanup_close_ int fd = open_above(path);

	if (fd < 0)
		return fd;
	if (state.file_fd < 0)
		state.file_fd = take_fd(&fd);
	else if (dup3(fd, state.file_fd, O_CLOEXEC) < 0)
		return -errno;
	__atomic_store_n(&state.fd, state.file_fd, __ATOMIC_RELAXED);
	return 0;
}

static int open_file(void)
{
	struct log_names names = {state.host, state.job, (long)getpid(), state.rank};
	char path[PATH_MAX];
	int r = log_file_name(state.pattern, &names, path, sizeof(path));

	if (r == -EINVAL)
		return shmd_error_set(r, "SHMD_LOG_FILE=%s: behind a %% stands h, p, r, j or %%", state.pattern);
	if (!r)
		r = take_file(path);
	return r < 0 ? shmd_error_set(r, "cannot open the log file %.300s: %s; change SHMD_LOG_FILE", path, strerror(-r)) : 0;
}

/* Lines go on to the former file until the next one is open. */
static int begin_file(void)
{
	int r = 0;

	if (!*state.pattern || (state.rank == NO_RANK && log_file_needs_rank(state.pattern)))
		to_stderr();
	else
		r = open_file();
	if (r < 0)
		to_stderr();
	return r;
}

/* ---- opening ------------------------------------------------------------------------------------------------------- */

static void find_host(void)
{
	if (state.has_host)
		return;
	if (gethostname(state.host, sizeof(state.host) - 1) < 0 || !*state.host)
		snprintf(state.host, sizeof(state.host), "localhost");
	clean(state.host, strlen(state.host));
	__atomic_store_n(&state.has_host, true, __ATOMIC_RELEASE);
}

/* Batch systems in the order of how often they are met; a job that none started is "0". */
static void find_job(const struct runtime_env *env)
{
	static const char *const names[] = {"SHMD_JOB", "SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "JOB_ID", NULL};
	struct runtime_env process = runtime_env_process();
	const char *job = NULL;

	for (unsigned int i = 0; names[i] && !job; i++)
		job = runtime_env_get(env ? env : &process, names[i]);
	snprintf(state.job, sizeof(state.job), "%.63s", job && *job ? job : "0");
}

int runtime_log_open(const struct runtime_settings *settings, const struct runtime_env *env)
{
	find_host();
	find_job(env);
	for (unsigned int i = 0; i < RUNTIME_N_SUBSYSTEMS; i++)
		__atomic_store_n(&runtime_log_levels[i], settings->log_levels[i], __ATOMIC_RELAXED);
	memcpy(state.pattern, settings->log_file, sizeof(state.pattern));
	return begin_file();
}

int runtime_log_identify(int rank)
{
	bool is_new = state.rank == NO_RANK;

	if (!is_new)
		return 0;
	__atomic_store_n(&state.rank, rank, __ATOMIC_RELAXED);
	return log_file_needs_rank(state.pattern) ? begin_file() : 0;
}

void runtime_log_close(void)
{
	to_stderr();
	state.file_fd = safe_close(state.file_fd);
	state.rank = NO_RANK;
	*state.pattern = 0;
	for (unsigned int i = 0; i < RUNTIME_N_SUBSYSTEMS; i++)
		__atomic_store_n(&runtime_log_levels[i], RUNTIME_LOG_WARN, __ATOMIC_RELAXED);
}

static void report(void *arg, enum runtime_log_level level, const char *sentence)
{
	if (runtime_log_wants(RUNTIME_PART_SETTINGS, level))
		runtime_log_line(RUNTIME_PART_SETTINGS, level, "%s", sentence);
}

void runtime_log_unknown(const struct runtime_env *env)
{
	if (!__atomic_exchange_n(&state.has_warned, true, __ATOMIC_RELAXED))
		runtime_settings_unknown(env, report, NULL);
}
