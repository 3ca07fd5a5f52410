/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange: hosts reach each other through channels that the daemon makes and maps nowhere.
 *
 * A host has a seat, which is the number of its executor on each NIC, and a part, the memory in which it says which of its threads
 * sleep. The table of ports, numbers and seats is the daemon's alone, and sealed: a host cannot take another's packets. A host that wants
 * a channel writes the peer's place to an eventfd; both sides get the memory of a new channel and two eventfds, and the other's part. So
 * nothing that a host made comes here: no descriptor, no memory. A host that wishes too often is refused, and does not wait.
 *
 * A seat is free for the next host when the last one has ended, which its pidfd says.
 *
 * One thread for all hosts, so that a busy control thread delays nobody's first packet. It waits for nobody: what a host does not read
 * in time is lost, and that host asks again.
 */
#include "daemon/nic/soft/remote/remote.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/base/thread.h"

#define STACK_BYTES (256u << 10)
#define STOP UINT32_MAX
/* Wishes of one host: as many as it can have channels at once, and one each so often. */
#define TOKENS_MOST (SOFT_MAX_NICS * SOFT_MAX_CHANNELS)
#define TOKEN_NSEC NSEC_PER_MSEC

/* ---- seats ------------------------------------------------------------------------------------------------------------------ */

void remote_seats_init(struct remote *all)
{
	all->exchange_epoll = all->exchange_stop = -1;
	for (unsigned int i = 0; i < SOFT_MAX_EXECS; i++)
		all->seats[i].pidfd = all->seats[i].part_fd = -1;
}

void remote_seats_deinit(struct remote *all)
{
	for (unsigned int i = 0; i < SOFT_MAX_EXECS; i++) {
		safe_close(all->seats[i].pidfd);
		safe_close(all->seats[i].part_fd);
	}
	safe_close(all->exchange_epoll);
	safe_close(all->exchange_stop);
}

/* A host that was killed may have to wake first. */
static bool is_free(struct remote_seat *seat)
{
	struct pollfd pfd = {.fd = seat->pidfd, .events = POLLIN};

	if (seat->host || (seat->pidfd >= 0 && poll(&pfd, 1, 0) <= 0))
		return false;
	seat->pidfd = safe_close(seat->pidfd);
	return true;
}

int remote_seat_take(struct remote_host *host)
{
	struct remote *all = host->all;
	struct remote_seat *seat;
	unsigned int i = 0;
	int r = 0;

	while (i < SOFT_MAX_EXECS && !is_free(&all->seats[i]))
		i++;
	if (i == SOFT_MAX_EXECS)
		return -EUSERS;
	seat = &all->seats[i];
	if (seat->part_fd < 0)
		r = soft_part_memfd(&seat->part_fd);
	if (r < 0)
		return r;
	seat->host = host;
	host->seat = i;
	return 0;
}

static void show(const struct remote_host *host, bool is_there)
{
	for (unsigned int i = 0; i < host->all->n_nics; i++) {
		struct soft_shared_owner *owner = &remote_port(host->all->nics[i])->owners[host->seat];

		__atomic_store_n(&owner->is_there, 0, __ATOMIC_SEQ_CST);
		if (!is_there)
			continue;
		__atomic_store_n(&owner->uid, host->uid, __ATOMIC_RELAXED);
		__atomic_fetch_add(&owner->epoch, 1, __ATOMIC_RELEASE);
		__atomic_store_n(&owner->is_there, 1, __ATOMIC_SEQ_CST);
	}
}

static void tell_others(const struct remote_host *gone)
{
	const struct remote_head head = {.op = REMOTE_PEER_GONE, .number = gone->seat};
	const struct remote_host *host;

	list_for_each_entry (host, &gone->all->hosts, link)
		if (host != gone && host->was_shown)
			remote_send(host->peers, &head, NULL, 0, NULL, true);
}

void remote_seat_leave(struct remote_host *host)
{
	struct remote_seat *seat = &host->all->seats[host->seat];

	if (seat->host != host)
		return;
	seat->host = NULL;
	seat->pidfd = take_fd(&host->pidfd);
	if (seat->pidfd >= 0)
		syscall(SYS_pidfd_send_signal, seat->pidfd, SIGKILL, NULL, 0);
	if (!host->was_shown)
		return;
	epoll_ctl(host->all->exchange_epoll, EPOLL_CTL_DEL, host->want_fd, NULL);
	show(host, false);
	tell_others(host);
}

/* ---- wishes ----------------------------------------------------------------------------------------------------------------- */

static bool take_token(struct remote_host *host)
{
	uint64_t now = nsec_now(), more = (now - host->tokens_at_nsec) / TOKEN_NSEC;

	host->tokens_at_nsec += more * TOKEN_NSEC;
	host->n_tokens = more > TOKENS_MOST - host->n_tokens ? TOKENS_MOST : host->n_tokens + (uint32_t)more;
	if (host->n_tokens == 0)
		return false;
	host->n_tokens--;
	return true;
}

static int make_channel(int fds[REMOTE_N_CHANNEL])
{
	int r = soft_channel_memfd(&fds[REMOTE_CHANNEL_MEM]);

	for (unsigned int i = REMOTE_CHANNEL_WAKE_OPENER; r == 0 && i <= REMOTE_CHANNEL_WAKE_OTHER; i++) {
		fds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		r = fds[i] < 0 ? -errno : 0;
	}
	return r;
}

/* To one side. */
static int tell(const struct remote_host *host, uint32_t nic, const struct remote_host *peer, uint32_t peer_nic, bool is_opener,
		int fds[REMOTE_N_CHANNEL])
{
	const struct remote_head head = {
		.op = REMOTE_CHANNEL,
		.nic = nic,
		.n = peer_nic,
		.number = peer->seat,
		.value = remote_port(peer->all->nics[peer_nic])->owners[peer->seat].epoch,
		.object = is_opener,
	};

	fds[REMOTE_CHANNEL_PART] = peer->all->seats[peer->seat].part_fd;
	return remote_send(host->peers, &head, NULL, REMOTE_N_CHANNEL, fds, true);
}

static int connect_hosts(struct remote_host *host, const struct remote_want *want, struct remote_host *peer)
{
	int fds[REMOTE_N_CHANNEL] = {-1, -1, -1, -1};
	int r = make_channel(fds);

	if (r == 0)
		r = tell(peer, want->peer_nic, host, want->nic, false, fds);
	if (r == 0)
		r = tell(host, want->nic, peer, want->peer_nic, true, fds);
	for (unsigned int i = 0; i < REMOTE_CHANNEL_PART; i++)
		safe_close(fds[i]);
	return r;
}

static struct remote_host *find_peer(const struct remote_host *host, const struct remote_want *want)
{
	const struct remote *all = host->all;
	struct remote_host *peer;

	if (want->nic >= all->n_nics || want->peer_nic >= all->n_nics || want->peer_seat >= SOFT_MAX_EXECS)
		return NULL;
	peer = all->seats[want->peer_seat].host;
	return peer != host && peer && peer->was_shown ? peer : NULL;
}

static void serve_wish(struct remote_host *host)
{
	struct remote_head refusal = {.op = REMOTE_CHANNEL, .object = true, .result = -EAGAIN};
	struct remote_want want;
	struct remote_host *peer;
	uint64_t word;

	if (remote_want_read(host->want_fd, &word) < 0)
		return;
	want = remote_want_decode(word);
	peer = find_peer(host, &want);
	if (peer && take_token(host) && connect_hosts(host, &want, peer) == 0)
		return;
	refusal.nic = want.nic;
	refusal.n = want.peer_nic;
	refusal.number = want.peer_seat;
	remote_send(host->peers, &refusal, NULL, 0, NULL, true);
}

static void serve_seat(struct remote *all, uint32_t seat)
{
	pthread_mutex_lock(&all->lock);
	if (all->seats[seat].host)
		serve_wish(all->seats[seat].host);
	pthread_mutex_unlock(&all->lock);
}

/* ---- the thread ------------------------------------------------------------------------------------------------------------- */

static void *run_exchange(void *arg)
{
	struct remote *all = arg;
	struct epoll_event events[16];

	while (!__atomic_load_n(&all->is_over, __ATOMIC_ACQUIRE)) {
		int n = epoll_wait(all->exchange_epoll, events, 16, -1);

		for (int i = 0; i < n; i++)
			if (events[i].data.u32 < SOFT_MAX_EXECS)
				serve_seat(all, events[i].data.u32);
	}
	return NULL;
}

static int start_exchange(struct remote *all)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = STOP};
	int r;

	if (all->has_exchange)
		return 0;
	if (all->exchange_epoll < 0)
		all->exchange_epoll = epoll_create1(EPOLL_CLOEXEC);
	if (all->exchange_stop < 0)
		all->exchange_stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (all->exchange_epoll < 0 || all->exchange_stop < 0)
		return -errno;
	if (epoll_ctl(all->exchange_epoll, EPOLL_CTL_ADD, all->exchange_stop, &ev) < 0 && errno != EEXIST)
		return -errno;
	r = thread_start(&all->exchange, STACK_BYTES, "shmd-exchange", run_exchange, all);
	all->has_exchange = r == 0;
	return r;
}

int remote_seat_open(struct remote_host *host)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u32 = host->seat};
	int r = start_exchange(host->all);

	if (r < 0)
		return r;
	if (epoll_ctl(host->all->exchange_epoll, EPOLL_CTL_ADD, host->want_fd, &ev) < 0)
		return -errno;
	host->n_tokens = TOKENS_MOST;
	host->tokens_at_nsec = nsec_now();
	host->was_shown = true;
	show(host, true);
	return 0;
}

void remote_exchange_stop(struct remote *all)
{
	if (!all->has_exchange)
		return;
	__atomic_store_n(&all->is_over, true, __ATOMIC_RELEASE);
	doorbell_wake(all->exchange_stop);
	pthread_join(all->exchange, NULL);
	all->has_exchange = false;
}
