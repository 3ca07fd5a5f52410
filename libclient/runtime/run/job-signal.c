/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that the launcher gets; see job.h. It blocks them all for its life, and reads them from a descriptor. */
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "libclient/runtime/run/job.h"
#include "proto/base/nsec.h"

/* timeout(1) sends its signal to the process and then to the group: two of them, and one meant. */
#define SAME_NSEC (100 * NSEC_PER_MSEC)

static const int forwarded[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2};
static const int others[] = {SIGTSTP, SIGCONT, SIGCHLD};
/* Blocked, so that writing to a pipe without a reader and reading a terminal in the background fail with an errno. */
static const int unread[] = {SIGPIPE, SIGTTIN, SIGTTOU};

static void add_all(sigset_t *set, const int *signals, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		sigaddset(set, signals[i]);
}

int job_signals_open(sigset_t *ret_mask)
{
	sigset_t read_set, block_set;
	int fd;

	sigemptyset(&read_set);
	add_all(&read_set, forwarded, sizeof(forwarded) / sizeof(*forwarded));
	add_all(&read_set, others, sizeof(others) / sizeof(*others));
	block_set = read_set;
	add_all(&block_set, unread, sizeof(unread) / sizeof(*unread));
	fd = signalfd(-1, &read_set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	sigprocmask(SIG_BLOCK, &block_set, ret_mask);
	return fd;
}

/* The second SIGINT kills, the third does not even wait for that. */
static bool interrupt(struct job *job, int signo)
{
	uint64_t now = nsec_now();
	bool is_again = signo == SIGINT && job->interrupt == SIGINT;

	if (job->is_finishing)
		return signo != SIGUSR1 && signo != SIGUSR2;
	if (is_again && now - job->interrupt_nsec < SAME_NSEC)
		return false;
	if (is_again && job->is_killed)
		return true;
	if (is_again) {
		job->interrupt_nsec = now;
		job->status = job->status ? job->status : 128 + SIGKILL;
		job_say(job, "the second SIGINT: all PEs get SIGKILL");
		job_kill(job);
		return false;
	}
	if (signo != SIGUSR1 && signo != SIGUSR2) {
		job->interrupt = signo;
		job->interrupt_nsec = now;
	}
	keeper_signal(job->keeper, KEEPER_ALL, signo);
	return false;
}

/* Stops as the shell expects, unless nobody could let it go on (an orphaned group). */
static void stop(struct job *job)
{
	sigset_t set, old;

	keeper_signal(job->keeper, KEEPER_ALL, SIGTSTP);
	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &set, &old);
	sigprocmask(SIG_SETMASK, &old, NULL);
	keeper_signal(job->keeper, KEEPER_ALL, SIGCONT);
}

static void go_on(struct job *job)
{
	keeper_signal(job->keeper, KEEPER_ALL, SIGCONT);
	/* Perhaps in the foreground now. */
	job->input.is_in_background = false;
}

bool job_signals_event(struct job *job)
{
	struct signalfd_siginfo info;
	bool is_end = false;

	while (!is_end && read(job->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGTSTP)
			stop(job);
		else if (info.ssi_signo == SIGCONT)
			go_on(job);
		else if (info.ssi_signo != SIGCHLD)
			is_end = interrupt(job, (int)info.ssi_signo);
	}
	return is_end;
}
