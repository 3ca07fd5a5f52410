/* SPDX-License-Identifier: Apache-2.0 */
/* The PMI sockets of a job; see job.h and pmi-server.h. A PE that does not read its replies is not read either. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libclient/runtime/run/job.h"
#include "proto/base/cleanup.h"

#define READ_BYTES 4096
#define LEAST_BYTES 256u

static void close_pmi(struct pe *pe)
{
	pe->pmi = safe_close(pe->pmi);
	free(take_ptr(pe->replies));
	pe->n_replies = pe->replies_size = 0;
}

/* ---- replies --------------------------------------------------------------------------------------------------------------- */

static void watch(struct job *job, unsigned int rank, int op)
{
	struct pe *pe = &job->pes[rank];
	struct epoll_event event = {.events = pe->n_replies ? EPOLLOUT : EPOLLIN, .data.u64 = job_event_data(SOURCE_PMI, rank)};

	if (pe->pmi >= 0)
		epoll_ctl(job->epoll, op, pe->pmi, &event);
}

static int keep_reply(struct pe *pe, const char *text, size_t bytes)
{
	size_t size = pe->replies_size ? pe->replies_size : LEAST_BYTES;
	char *replies;

	while (pe->n_replies + bytes > size)
		size *= 2;
	if (size != pe->replies_size) {
		replies = realloc(pe->replies, size);
		if (!replies)
			return -ENOMEM;
		pe->replies = replies;
		pe->replies_size = size;
	}
	memcpy(pe->replies + pe->n_replies, text, bytes);
	pe->n_replies += bytes;
	return 0;
}

/* It reads no replies any more; what it has sent before still counts. */
static void be_deaf(struct pe *pe)
{
	pe->is_deaf = true;
	pe->n_replies = 0;
}

/* The order of replies stays: nothing overtakes what is kept. */
static void send_reply(void *owner, unsigned int rank, const char *text, size_t bytes)
{
	struct job *job = owner;
	struct pe *pe = &job->pes[rank];
	ssize_t n = 0;

	if (pe->pmi < 0 || pe->is_deaf)
		return;
	if (!pe->n_replies)
		n = send(pe->pmi, text, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n == (ssize_t)bytes)
		return;
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		be_deaf(pe);
		return;
	}
	n = n < 0 ? 0 : n;
	if (keep_reply(pe, text + n, bytes - (size_t)n) < 0)
		be_deaf(pe);
	watch(job, rank, EPOLL_CTL_MOD);
}

static void send_kept(struct job *job, unsigned int rank)
{
	struct pe *pe = &job->pes[rank];
	ssize_t n = send(pe->pmi, pe->replies, pe->n_replies, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		be_deaf(pe);
	} else if (n > 0) {
		pe->n_replies -= (size_t)n;
		memmove(pe->replies, pe->replies + n, pe->n_replies);
	}
	watch(job, rank, EPOLL_CTL_MOD);
}

/* ---- what the server reports ----------------------------------------------------------------------------------------------- */

static void note_broken(void *owner, unsigned int rank, const char *why)
{
	struct job *job = owner;
	char name[256];

	close_pmi(&job->pes[rank]);
	job_fail(job, RUN_EXIT_FAILED, "%s %s", job_pe_name(job, rank, name), why);
}

static void note_abort(void *owner, unsigned int rank, int status)
{
	struct job *job = owner;
	char name[256];

	job_fail(job, status, "%s called abort with status %d", job_pe_name(job, rank, name), status);
	/* The caller of abort has asked for the end, so keep_going does not count. */
	job_end(job);
}

static void note_stuck(void *owner, unsigned int waiting, unsigned int gone)
{
	struct job *job = owner;
	char name[256];

	close_pmi(&job->pes[waiting]);
	job_fail(job, RUN_EXIT_FAILED, "%s waits in a PMI barrier for PE %u, which has left it", job_pe_name(job, waiting, name), gone);
}

/* ---- sockets --------------------------------------------------------------------------------------------------------------- */

int job_pmi_open(struct job *job, const char *name)
{
	static const struct pmi_server_ops ops = {send_reply, note_broken, note_abort, note_stuck};

	return pmi_server_new(job->attr->n_pes, name, &ops, job, &job->server);
}

void job_pmi_close(struct job *job)
{
	for (unsigned int i = 0; i < job->attr->n_pes; i++)
		close_pmi(&job->pes[i]);
	job->server = pmi_server_free(job->server);
}

int job_pmi_add(struct job *job, unsigned int rank, int fd)
{
	job->pes[rank].pmi = fd;
	watch(job, rank, EPOLL_CTL_ADD);
	return 0;
}

/* True: there may be more. */
static bool read_pmi(struct job *job, unsigned int rank)
{
	struct pe *pe = &job->pes[rank];
	char buf[READ_BYTES];
	ssize_t n = recv(pe->pmi, buf, sizeof(buf), MSG_DONTWAIT);

	if (n > 0)
		pmi_server_input(job->server, rank, buf, (size_t)n);
	else if (!n || (errno != EAGAIN && errno != EINTR))
		close_pmi(pe);
	return n > 0 && pe->pmi >= 0;
}

void job_pmi_event(struct job *job, unsigned int rank)
{
	struct pe *pe = &job->pes[rank];

	if (pe->pmi < 0)
		return;
	if (pe->n_replies)
		send_kept(job, rank);
	else
		read_pmi(job, rank);
}

enum pmi_state job_pmi_end(struct job *job, unsigned int rank)
{
	while (job->pes[rank].pmi >= 0 && read_pmi(job, rank))
		;
	return pmi_server_state(job->server, rank);
}

void job_pmi_forget(struct job *job, unsigned int rank)
{
	close_pmi(&job->pes[rank]);
	pmi_server_end(job->server, rank);
}
