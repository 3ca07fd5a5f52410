/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels to executors in other processes. Data threads say what they want; this thread asks the daemon, one wish at a time, and maps
 * what comes, for it may wait for this user's memory. It unmaps what executors have left, too.
 *
 * The daemon is believed. Another process's part is read only, and whatever it says decides no more than when this side is woken or waits.
 */
#include "daemon/nic/soft/remote/serve.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

/* The daemon's news were lost for want of room: then the executor asks again when it has something to send. */
#define ANSWER_NSEC (100 * NSEC_PER_MSEC)

struct peers {
	struct serve *serve;
	struct soft_fabric *fabric;
	bool has_asked;
	struct soft_want asked;
	uint64_t asked_nsec;
};

/* ---- what the daemon says --------------------------------------------------------------------------------------------------- */

static void take_part(struct soft_fabric *fabric, unsigned int seat, int fd)
{
	struct soft_shared_part *part;

	if (fabric->parts[seat] || soft_part_map(fd, false, &part) < 0)
		return;
	__atomic_store_n(&fabric->parts[seat], part, __ATOMIC_RELEASE);
}

static void take_channel(struct peers *peers, struct remote_packet *news)
{
	const struct remote_head *head = &news->head;
	struct soft_remote_channel channel = {
		.wake_fds = {-1, -1},
		.is_opener = head->object,
		.port = (uint16_t)head->nic,
		.peer_port = (uint16_t)head->n,
		.peer_exec = (uint16_t)head->number,
		.peer_epoch = head->value,
	};

	if (channel.is_opener)
		peers->has_asked = false;
	if (head->number >= SOFT_MAX_EXECS || head->n >= SOFT_MAX_NICS)
		return;
	if (head->result >= 0 && news->n_fds == REMOTE_N_CHANNEL) {
		take_part(peers->fabric, head->number, news->fds[REMOTE_CHANNEL_PART]);
		if (soft_channel_map(news->fds[REMOTE_CHANNEL_MEM], &channel.shared) == 0) {
			channel.wake_fds[0] = remote_packet_take_fd(news, REMOTE_CHANNEL_WAKE_OPENER);
			channel.wake_fds[1] = remote_packet_take_fd(news, REMOTE_CHANNEL_WAKE_OTHER);
		}
	}
	if (channel.shared || channel.is_opener)
		soft_end_arrive(peers->fabric, &channel);
}

/* Executors look which of their channels led there. */
static void ring_all(const struct peers *peers)
{
	const struct soft_fabric *fabric = peers->fabric;

	for (unsigned int i = 0; i < SOFT_MAX_NICS; i++) {
		struct soft_lane *lane = NULL;

		if (fabric->ports[i])
			lane = __atomic_load_n(&fabric->ports[i]->lanes[fabric->own_exec], __ATOMIC_ACQUIRE);
		if (lane)
			soft_lane_ring(lane);
	}
}

static void hear(struct peers *peers)
{
	struct remote_packet news;
	int r = remote_recv(peers->serve->peers, 0, &news);

	if (r == -EAGAIN)
		return;
	if (r < 0)
		_exit(EXIT_SUCCESS);
	if (news.head.op == REMOTE_CHANNEL)
		take_channel(peers, &news);
	else if (news.head.op == REMOTE_PEER_GONE)
		ring_all(peers);
	remote_packet_deinit(&news);
}

/* ---- what executors want ---------------------------------------------------------------------------------------------------- */

static void ask(struct peers *peers)
{
	struct list *link = soft_stack_pop(&peers->fabric->wants);
	struct remote_want want;
	uint64_t word;

	if (!link)
		return;
	peers->asked = *container_of(link, struct soft_want, link);
	free(container_of(link, struct soft_want, link));
	want = (struct remote_want){peers->asked.port, peers->asked.peer_port, peers->asked.peer_exec};
	word = remote_want_encode(&want);
	if (write(peers->serve->want_fd, &word, sizeof(word)) < 0)
		_exit(EXIT_SUCCESS);
	peers->has_asked = true;
	peers->asked_nsec = nsec_now();
}

static void give_up(struct peers *peers)
{
	struct soft_remote_channel none = {
		.wake_fds = {-1, -1},
		.is_opener = true,
		.port = peers->asked.port,
		.peer_port = peers->asked.peer_port,
		.peer_exec = peers->asked.peer_exec,
	};

	peers->has_asked = false;
	soft_end_arrive(peers->fabric, &none);
}

static int patience_msec(const struct peers *peers)
{
	uint64_t passed;

	if (!peers->has_asked)
		return -1;
	passed = nsec_now() - peers->asked_nsec;
	return passed >= ANSWER_NSEC ? 0 : (int)((ANSWER_NSEC - passed) / NSEC_PER_MSEC + 1);
}

void *serve_peers(void *arg)
{
	struct serve *serve = arg;
	struct peers peers = {.serve = serve, .fabric = soft_nic(serve->nics[0].nic)->fabric};
	struct pollfd pfds[2] = {{.fd = serve->peers, .events = POLLIN}, {.fd = peers.fabric->want_fd, .events = POLLIN}};
	uint64_t count;

	for (;;) {
		int n = poll(pfds, 2, patience_msec(&peers));

		if (n > 0 && pfds[1].revents && read(pfds[1].fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
			_exit(EXIT_SUCCESS);
		if (n > 0 && pfds[0].revents)
			hear(&peers);
		if (peers.has_asked && patience_msec(&peers) == 0)
			give_up(&peers);
		if (!peers.has_asked)
			ask(&peers);
		soft_ends_reap(peers.fabric);
	}
	return NULL;
}
