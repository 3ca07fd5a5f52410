/* SPDX-License-Identifier: Apache-2.0 */
/* See run.h. Checks before the first process starts, and cleanup behind the last one. */
#include "libclient/runtime/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/runtime/run/bind.h"
#include "libclient/runtime/run/job.h"
#include "libclient/runtime/run/spawn.h"
#include "libclient/runtime/run/sweep.h"
#include "proto/base/cleanup.h"
#include "proto/base/show.h"

#define FDS_OF_PE 3u
#define FDS_BESIDES 64u
#define JOB_BYTES 17

/* ---- the program ----------------------------------------------------------------------------------------------------------- */

/* 0; or why not, negative. */
static int try_program(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EACCES;
	return access(path, X_OK) < 0 ? -errno : 0;
}

/* As execvp(): a file in one folder that may not be run does not hide one in the next. */
static int search_path(const char *name, char *path, size_t size)
{
	const char *at = getenv("PATH");
	int r = -ENOENT;

	for (at = at ? at : "/usr/bin:/bin"; at; at = *at ? at + 1 : NULL) {
		size_t n = strcspn(at, ":");
		int tried = snprintf(path, size, "%.*s/%s", n ? (int)n : 1, n ? at : ".", name) < (int)size ? try_program(path) : -ENAMETOOLONG;

		if (!tried)
			return 0;
		r = tried == -EACCES ? tried : r;
		at += n;
	}
	return r;
}

/* The absolute path, since PEs may run in another folder. */
static int find_program(const char *name, char path[PATH_MAX])
{
	char found[PATH_MAX], *folder;
	int r;

	if (strchr(name, '/'))
		r = snprintf(found, sizeof(found), "%s", name) < PATH_MAX ? try_program(found) : -ENAMETOOLONG;
	else
		r = search_path(name, found, sizeof(found));
	if (r < 0 || *found == '/') {
		snprintf(path, PATH_MAX, "%s", found);
		return r;
	}
	folder = getcwd(NULL, 0);
	r = !folder ? -errno : snprintf(path, PATH_MAX, "%s/%s", folder, found) < PATH_MAX ? 0 : -ENAMETOOLONG;
	free(folder);
	return r;
}

static int refuse_program(struct job *job, int r)
{
	const char *name = job->attr->argv[0];
	char shown[SHOW_BUF_BYTES];

	if (r == -ENOENT)
		job_say(job, "cannot find the program %s%s", show_text(name, shown), strchr(name, '/') ? "" : " in the folders of PATH");
	else
		job_say(job, "cannot execute %s: %s", show_text(name, shown), r == -EACCES ? "it is not an executable file" : strerror(-r));
	return r == -ENOENT ? RUN_EXIT_NOT_FOUND : RUN_EXIT_CANNOT_EXECUTE;
}

/* ---- limits and environment ------------------------------------------------------------------------------------------------ */

/* Returns the soft limit as it was, for the PEs, or 0 if the hard one is too low. */
static uint64_t raise_fd_limit(struct job *job)
{
	uint64_t needed = (uint64_t)FDS_OF_PE * job->attr->n_pes + FDS_BESIDES, old;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 0;
	old = limit.rlim_cur;
	if (limit.rlim_max < needed) {
		job_say(job, "%u PEs need %llu descriptors, but the hard limit is %llu; raise it (ulimit -Hn)", job->attr->n_pes,
			(unsigned long long)needed, (unsigned long long)limit.rlim_max);
		return 0;
	}
	limit.rlim_cur = old < needed ? needed : old;
	setrlimit(RLIMIT_NOFILE, &limit);
	return old;
}

static int choose_cores(struct job *job, cpu_set_t **ret_cores)
{
	int n = bind_find_cores("/sys", ret_cores);

	if (n < 0)
		job_say(job, "cannot find the cores of this machine: %s", strerror(-n));
	else if ((unsigned int)n < job->attr->n_pes)
		job_say(job, "--bind core: %u PEs, but this process may use only %d core%s", job->attr->n_pes, n, plural_s((uint64_t)n));
	return n < 0 || (unsigned int)n < job->attr->n_pes ? -1 : 0;
}

/* A name that no other job has, also not one of another launcher. */
static void name_job(char name[JOB_BYTES])
{
	uint64_t number = 0;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		number = (uint64_t)getpid();
	snprintf(name, JOB_BYTES, "%016llx", (unsigned long long)number);
}

static void set_env(const struct job *job, const char *name)
{
	spawn_clean_env();
	setenv("SHMD_JOB", name, 1);
	for (const char *const *env = job->attr->env; env && *env; env++) {
		char *copy = strdup(*env), *equals = copy ? strchr(copy, '=') : NULL;

		if (equals) {
			*equals = 0;
			setenv(copy, equals + 1, 1);
		}
		free(copy);
	}
}

/* Descriptors of ours must not become 0, 1 or 2. */
static int open_standard(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
			return -errno;
	return 0;
}

/* ---- the job --------------------------------------------------------------------------------------------------------------- */

static int fail_to_start(struct job *job, int r)
{
	job_say(job, "cannot start: %s", strerror(-r));
	return RUN_EXIT_FAILED;
}

/* The keeper is started before any thread. */
static int open_job(struct job *job, struct keeper_attr *attr, const char *name)
{
	int r;

	job->signals = job_signals_open(&attr->mask);
	if (job->signals < 0)
		return job->signals;
	job->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (job->epoll < 0)
		return -errno;
	r = job_pmi_open(job, name);
	if (r < 0)
		return r;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	job->keeper_pid = keeper_start(attr, &job->keeper);
	if (job->keeper_pid < 0)
		return job->keeper_pid;
	return job_output_open(job);
}

static void close_job(struct job *job)
{
	job->keeper = safe_close(job->keeper);
	if (job->keeper_pid > 0)
		waitpid(job->keeper_pid, NULL, 0);
	/* Processes of a keeper that was killed. */
	sweep_children(0);
	job_output_close(job);
	if (job->server)
		job_pmi_close(job);
	job->input.to = safe_close(job->input.to);
	safe_close(job->epoll);
	safe_close(job->signals);
}

static int start_and_run(struct job *job, struct keeper_attr *attr)
{
	char name[JOB_BYTES];
	int r;

	name_job(name);
	set_env(job, name);
	r = open_job(job, attr, name);
	if (!r)
		r = job_run(job);
	if (r < 0)
		job->status = fail_to_start(job, r);
	close_job(job);
	return job->status;
}

int run_job(const struct run_attr *run)
{
	bool is_terminal = isatty(STDIN_FILENO);
	struct job job = {
		.attr = run,
		.epoll = -1,
		.signals = -1,
		.keeper = -1,
		.sinks_done = -1,
		.input = {.from = is_terminal ? STDIN_FILENO : -1, .to = -1},
		.is_stderr_terminal = isatty(STDERR_FILENO),
		.kill_at = NEVER,
		.timeout_at = NEVER,
		.flush_at = NEVER,
		.progress_at = NEVER,
	};
	_cleanup_free_ struct pe *pes = calloc(run->n_pes, sizeof(*pes));
	_cleanup_free_ cpu_set_t *cores = NULL;
	struct keeper_attr attr = {
		.n_pes = run->n_pes,
		.argv = run->argv,
		.folder = run->folder,
		.output_files = run->output_files,
		.is_input_relayed = is_terminal,
	};
	char path[PATH_MAX];
	int r = open_standard();

	if (!pes || r < 0)
		return fail_to_start(&job, pes ? r : -ENOMEM);
	for (unsigned int i = 0; i < run->n_pes; i++)
		pes[i].pmi = -1;
	job.pes = pes;
	r = find_program(run->argv[0], path);
	if (r < 0)
		return refuse_program(&job, r);
	attr.path = path;
	attr.fd_limit = raise_fd_limit(&job);
	if (!attr.fd_limit || (run->bind == RUN_BIND_CORE && choose_cores(&job, &cores) < 0))
		return RUN_EXIT_FAILED;
	attr.cores = cores;
	return start_and_run(&job, &attr);
}
