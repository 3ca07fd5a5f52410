/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Works and questions. A work may take as long as its user's memory makes it, so only a thread that serves that user alone waits for
 * one. A caller that asks a question stops waiting in time, and the next caller takes the late answer first. An answer that is not
 * one to the request, or a packet that is none, comes from a process that is broken: it counts as dead. Any thread.
 */
#include "daemon/nic/soft/remote/remote.h"

#include <errno.h>
#include <time.h>

#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define LOOK_NSEC 20000u
#define LOOK_MOST_NSEC 1000000u

static int broken(struct remote_host *host)
{
	pthread_mutex_lock(&host->all->lock);
	remote_host_die(host);
	pthread_mutex_unlock(&host->all->lock);
	return -ENODEV;
}

/* Answers come in the order of what was sent, so under one lock. */
static int send_next(struct remote_channel *channel, const struct remote_request *request, uint64_t nsec, bool is_urgent, uint32_t *ret_seq)
{
	struct remote_head head = request->head;
	int r;

	if (nsec != REMOTE_FOR_EVER)
		head.nsec = nsec;
	pthread_mutex_lock(&channel->send_lock);
	head.seq = ++channel->seq;
	r = remote_send(channel->sock, &head, request->body, request->n_fds, request->fds, is_urgent);
	channel->n_owed += r == 0 && !ret_seq;
	pthread_mutex_unlock(&channel->send_lock);
	if (ret_seq)
		*ret_seq = head.seq;
	return r;
}

static void owe(struct remote_channel *channel)
{
	pthread_mutex_lock(&channel->send_lock);
	channel->n_owed++;
	pthread_mutex_unlock(&channel->send_lock);
}

static bool is_owed(struct remote_channel *channel)
{
	bool is;

	pthread_mutex_lock(&channel->send_lock);
	is = channel->n_owed > 0;
	pthread_mutex_unlock(&channel->send_lock);
	return is;
}

/* An answer has come. False: none was owed. */
static bool settle(struct remote_channel *channel)
{
	bool was_owed;

	pthread_mutex_lock(&channel->send_lock);
	was_owed = channel->n_owed > 0;
	channel->n_owed -= was_owed;
	pthread_mutex_unlock(&channel->send_lock);
	return was_owed;
}

/* The result in the answer. */
static int judge(struct remote_host *host, uint32_t seq, const struct remote_request *request, struct remote_packet *answer)
{
	int r = answer->head.result;

	if (answer->head.seq != seq || answer->head.op != request->head.op || !remote_is_result(r)) {
		remote_packet_deinit(answer);
		return broken(host);
	}
	if (r < 0)
		remote_packet_deinit(answer);
	return r;
}

/* ---- works ------------------------------------------------------------------------------------------------------------------ */

static int call_once(struct remote_host *host, const struct remote_request *request, struct remote_packet *ret_answer)
{
	uint32_t seq;
	int r = remote_host_is_dead(host) ? -ENODEV : send_next(&host->works, request, REMOTE_FOR_EVER, false, &seq);

	if (r < 0)
		return remote_is_gone(r) ? broken(host) : r;
	r = remote_recv(host->works.sock, REMOTE_FOR_EVER, ret_answer);
	if (r < 0)
		return broken(host);
	return judge(host, seq, request, ret_answer);
}

/* This process had no room for the answer: the host forgets what it has made, since nobody has its name. */
static int give_up(struct remote_host *host, const struct remote_request *request, struct remote_packet *answer)
{
	const struct remote_request undoing = {.head = remote_undoing(&request->head, &answer->head)};
	int lost = answer->lost;

	remote_packet_deinit(answer);
	if (undoing.head.op && call_once(host, &undoing, answer) >= 0)
		remote_packet_deinit(answer);
	return lost;
}

int remote_call_locked(struct remote_host *host, const struct remote_request *request, struct remote_packet *ret_answer)
{
	int r = call_once(host, request, ret_answer);

	return r >= 0 && ret_answer->lost ? give_up(host, request, ret_answer) : r;
}

int remote_call(struct remote_host *host, const struct remote_request *request, struct remote_packet *ret_answer)
{
	int r;

	pthread_mutex_lock(&host->works.lock);
	r = remote_call_locked(host, request, ret_answer);
	pthread_mutex_unlock(&host->works.lock);
	return r;
}

/* ---- questions -------------------------------------------------------------------------------------------------------------- */

static uint64_t left(uint64_t end)
{
	uint64_t now = nsec_now();

	return end > now ? end - now : 0;
}

static bool lock_until(struct remote_channel *channel, uint64_t end)
{
	struct timespec pause = {.tv_nsec = LOOK_NSEC};

	while (pthread_mutex_trylock(&channel->lock) != 0) {
		if (left(end) == 0)
			return false;
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < (long)LOOK_MOST_NSEC)
			pause.tv_nsec *= 2;
	}
	return true;
}

/* Late answers come first. */
static int take_owed(struct remote_host *host, uint64_t end, uint64_t nsec)
{
	struct remote_channel *channel = &host->asks;
	struct remote_packet late;

	while (is_owed(channel)) {
		int r = remote_recv(channel->sock, nsec <= channel->owed_nsec ? 0 : left(end), &late);

		if (r < 0)
			return r == -EAGAIN ? -EBUSY : broken(host);
		remote_packet_deinit(&late);
		settle(channel);
	}
	channel->owed_nsec = 0;
	return 0;
}

/* Between the late answers and the own one come those to remote_tell(). -EAGAIN: the own one does not come in time. */
static int recv_own(struct remote_channel *channel, uint32_t seq, uint64_t end, struct remote_packet *ret_answer)
{
	int r = remote_recv(channel->sock, left(end), ret_answer);

	while (r == 0 && ret_answer->head.seq != seq && settle(channel)) {
		remote_packet_deinit(ret_answer);
		r = remote_recv(channel->sock, left(end), ret_answer);
	}
	return r;
}

static int ask_locked(struct remote_host *host, const struct remote_request *request, uint64_t end, uint64_t nsec,
		      struct remote_packet *ret_answer)
{
	struct remote_channel *channel = &host->asks;
	uint32_t seq = 0;
	int r = remote_host_is_dead(host) ? -ENODEV : take_owed(host, end, nsec);

	if (r == 0)
		r = send_next(channel, request, nsec, true, &seq);
	if (r < 0)
		return remote_is_gone(r) ? broken(host) : r == -EAGAIN ? -EBUSY : r;
	r = recv_own(channel, seq, end, ret_answer);
	if (r == -EAGAIN) {
		owe(channel);
		channel->owed_nsec = nsec;
		return -EBUSY;
	}
	r = r < 0 ? broken(host) : judge(host, seq, request, ret_answer);
	if (r < 0 || !ret_answer->lost)
		return r;
	r = ret_answer->lost;
	remote_packet_deinit(ret_answer);
	return r;
}

int remote_ask(struct remote_host *host, const struct remote_request *request, uint64_t nsec, struct remote_packet *ret_answer)
{
	uint64_t end = nsec_add(nsec_now(), nsec);
	int r;

	if (!lock_until(&host->asks, end))
		return -EBUSY;
	r = ask_locked(host, request, end, nsec, ret_answer);
	pthread_mutex_unlock(&host->asks.lock);
	return r;
}

/* Takes send_lock alone, so it does not wait for a thread that waits for an answer. */
void remote_tell(struct remote_host *host, const struct remote_request *request)
{
	int r = remote_host_is_dead(host) ? -ENODEV : send_next(&host->asks, request, 1, true, NULL);

	if (r < 0 && r != -ENODEV)
		broken(host);
}
