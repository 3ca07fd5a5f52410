/* SPDX-License-Identifier: Apache-2.0 */
/* See spawn.h. The keeper has one thread, so a child may use the whole C library before it runs the program. */
#include "libclient/runtime/run/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/cleanup.h"

extern char **environ;

/* Ends of pipes: 0 is read, 1 is written; of the socket: 0 is the launcher's. -1: closed, or none. */
struct ends {
	int out[2], err[2], pmi[2], in[2];
};

static void close_pair(int pair[2])
{
	pair[0] = safe_close(pair[0]);
	pair[1] = safe_close(pair[1]);
}

static void ends_close(struct ends *ends)
{
	close_pair(ends->out);
	close_pair(ends->err);
	close_pair(ends->pmi);
	close_pair(ends->in);
}

static int set_nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

/* The launcher's end does not block. */
static int make_pipe(int pair[2], int own)
{
	return pipe2(pair, O_CLOEXEC) < 0 ? -errno : set_nonblock(pair[own]);
}

static int ends_open(const struct keeper_attr *attr, unsigned int rank, struct ends *ends)
{
	int r = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends->pmi) < 0 ? -errno : set_nonblock(ends->pmi[0]);

	if (!r && !attr->output_files)
		r = make_pipe(ends->out, 0);
	if (!r && !attr->output_files)
		r = make_pipe(ends->err, 0);
	if (!r && !rank && attr->is_input_relayed)
		r = make_pipe(ends->in, 1);
	return r;
}

/* ---- environment ----------------------------------------------------------------------------------------------------------- */

void spawn_clean_env(void)
{
	static const char *const prefixes[] = {"PMI_", "PMI2_", "PMIX_"};
	char name[256];

	for (unsigned int i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		for (char **at = environ; at && *at;) {
			if (strncmp(*at, prefixes[i], strlen(prefixes[i])) || strcspn(*at, "=") >= sizeof(name)) {
				at++;
				continue;
			}
			snprintf(name, sizeof(name), "%.*s", (int)strcspn(*at, "="), *at);
			unsetenv(name);
		}
}

static void set_number(const char *name, unsigned int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	setenv(name, text, 1);
}

static void set_env(const struct keeper_attr *attr, unsigned int rank, int pmi)
{
	set_number("PMI_FD", (unsigned int)pmi);
	set_number("PMI_RANK", rank);
	set_number("PMI_SIZE", attr->n_pes);
	set_number("SHMD_RANK", rank);
	set_number("SHMD_SIZE", attr->n_pes);
	set_number("SHMD_NODE_RANK", rank);
	set_number("SHMD_NODE_SIZE", attr->n_pes);
}

/* ---- in the child ---------------------------------------------------------------------------------------------------------- */

int spawn_file_name(const char *pattern, unsigned int rank, char *buf, size_t size)
{
	size_t n = 0;

	for (; *pattern && n < size; pattern++) {
		if (pattern[0] == '%' && pattern[1] == 'r')
			n += (size_t)snprintf(buf + n, size - n, "%u", rank);
		else
			buf[n++] = *pattern;
		pattern += pattern[0] == '%' && (pattern[1] == 'r' || pattern[1] == '%');
	}
	if (n >= size)
		return -ENAMETOOLONG;
	buf[n] = 0;
	return 0;
}

/* A FIFO without a reader must not hold the PE up; a file that both streams write has one place for both. */
static int open_output_file(const char *pattern, unsigned int rank)
{
	char path[4096];
	struct stat st;
	int fd, r = spawn_file_name(pattern, rank, path, sizeof(path));

	if (r < 0)
		return r;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || S_ISFIFO(st.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	fcntl(fd, F_SETFL, O_APPEND);
	return fd;
}

/* Only PE 0 reads what the launcher would. */
static int choose_input(const struct ends *ends, unsigned int rank)
{
	if (ends->in[0] >= 0)
		return ends->in[0];
	return rank ? open("/dev/null", O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
}

static int set_fds(const struct keeper_attr *attr, const struct ends *ends, unsigned int rank, enum keeper_step *ret_step)
{
	int in = choose_input(ends, rank), out = ends->out[1], err = ends->err[1];

	*ret_step = STEP_OUTPUT_FILE;
	if (attr->output_files)
		out = err = open_output_file(attr->output_files, rank);
	if (out < 0)
		return out;
	*ret_step = STEP_PIPE;
	if (in < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0 ||
	    fcntl(ends->pmi[1], F_SETFD, 0) < 0)
		return -errno;
	return 0;
}

static void set_fd_limit(uint64_t soft)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = soft < limit.rlim_max ? soft : limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* Returns only when it has failed. */
static int become_pe(const struct keeper_attr *attr, const struct ends *ends, unsigned int rank, pid_t keeper, enum keeper_step *ret_step)
{
	int r;

	/* The keeper may have ended before the request to die with it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != keeper)
		_exit(1);
	setpgid(0, 0);
	r = set_fds(attr, ends, rank, ret_step);
	if (r < 0)
		return r;
	*ret_step = STEP_FOLDER;
	if (attr->folder && chdir(attr->folder) < 0)
		return -errno;
	*ret_step = STEP_BIND;
	if (attr->cores && sched_setaffinity(0, sizeof(*attr->cores), &attr->cores[rank]) < 0)
		return -errno;
	*ret_step = STEP_EXEC;
	set_env(attr, rank, ends->pmi[1]);
	set_fd_limit(attr->fd_limit);
	sigprocmask(SIG_SETMASK, &attr->mask, NULL);
	execv(attr->path, attr->argv);
	return -errno;
}

static void run_child(const struct keeper_attr *attr, const struct ends *ends, unsigned int rank, pid_t keeper, int failed)
{
	enum keeper_step step;
	int r = become_pe(attr, ends, rank, keeper, &step);
	struct spawn_failure failure = {.rank = rank, .step = step, .error = -r};

	/* Less than PIPE_BUF, so it is written whole. A keeper that does not read it any more kills this process. */
	_exit(write(failed, &failure, sizeof(failure)) < 0 ? 126 : 127);
}

/* ---- in the keeper --------------------------------------------------------------------------------------------------------- */

void spawn_close_fds(struct keeper_fds *fds)
{
	fds->out = safe_close(fds->out);
	fds->err = safe_close(fds->err);
	fds->pmi = safe_close(fds->pmi);
	fds->in = safe_close(fds->in);
}

pid_t spawn_pe(const struct keeper_attr *attr, unsigned int rank, int failed, struct keeper_fds *ret_fds, enum keeper_step *ret_step)
{
	_cleanup_(ends_close) struct ends ends = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
	pid_t keeper = getpid(), pid;
	int r = ends_open(attr, rank, &ends);

	*ret_step = STEP_PIPE;
	if (r < 0)
		return r;
	*ret_step = STEP_FORK;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (!pid)
		run_child(attr, &ends, rank, keeper, failed);
	/* Here as well, so that a signal to the group finds it from now on. */
	setpgid(pid, pid);
	*ret_fds = (struct keeper_fds){take_fd(&ends.out[0]), take_fd(&ends.err[0]), take_fd(&ends.pmi[0]), take_fd(&ends.in[1])};
	return pid;
}
