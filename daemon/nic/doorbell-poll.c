/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The doorbell poller. Which queues there are, what ringing one means and what else a turn does is the backend's business.
 *
 * A scan works in slices, so that a client with many queues that rings all the time does not delay the doorbells of others.
 * Clients have the wake descriptors too, so those are watched edge-triggered and never read: a client can wake the thread in
 * vain, and nothing else.
 */
#include "daemon/nic/doorbell-poll.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/base/thread.h"

#define SCAN_SLICE 32u /* queues of one page looked at in one turn */
#define HEARTBEAT_TURNS 1024u
#define SPIN_NSEC 1000u
#define SPIN_ROUNDS_PER_CLOCK 8u
#define TIMER_SLACK_NSEC 1000u

/* ---- looking ----------------------------------------------------------------------------------------------------- */

/* Both dialects have the QP's number in bits 31:8 of the second big-endian dword, and nothing else in common. */
static uint32_t doorbell_qpn(uint64_t word)
{
	return (uint32_t)be64toh(word) >> 8;
}

bool doorbell_queue_has_moved(struct doorbell_queue *queue)
{
	uint32_t snd_be = __atomic_load_n(queue->snd_be, __ATOMIC_ACQUIRE), seen_be = queue->seen_be;

	queue->seen_be = snd_be;
	return snd_be != seen_be;
}

static void scan_some(struct doorbell_page *page)
{
	uint32_t n = page->n_scan < SCAN_SLICE ? page->n_scan : SCAN_SLICE;

	page->n_scan -= n;
	while (n-- > 0) {
		struct doorbell_queue *queue = list_first_entry(&page->queues, struct doorbell_queue, link);

		list_del(&queue->link);
		list_add_tail(&page->queues, &queue->link);
		if (doorbell_queue_has_moved(queue))
			page->poll->attr.ops->ring(page, queue);
	}
}

static bool poll_page(struct doorbell_page *page)
{
	const struct doorbell_ops *ops = page->poll->attr.ops;
	struct doorbell_queue *named;

	if (page->is_silent)
		return false;
	if (__atomic_load_n(page->word, __ATOMIC_RELAXED)) {
		named = ops->find(page, doorbell_qpn(__atomic_exchange_n(page->word, 0, __ATOMIC_ACQ_REL)));
		page->n_scan = named && page->n_queues == 1 ? 0 : page->n_queues;
		/* Also at an index that was seen before: the queue may have been reset since. */
		if (named) {
			doorbell_queue_has_moved(named);
			ops->ring(page, named);
		}
	} else if (page->n_scan == 0) {
		return false;
	}
	scan_some(page);
	return true;
}

bool doorbell_poll_look(struct doorbell_poll *poll)
{
	struct doorbell_page *page;
	bool any = false;

	list_for_each_entry(page, &poll->pages, link)
		any |= poll_page(page);
	return any;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/*
 * The spin is short, for clients that post again at once; yielding is nearly as quick where a CPU is free, and where none is it
 * lets the client run whose doorbell is awaited.
 */
enum doorbell_wait doorbell_wait(uint64_t idle_nsec, uint64_t spin_nsec)
{
	if (idle_nsec >= spin_nsec)
		return DOORBELL_SLEEP;
	return idle_nsec >= SPIN_NSEC ? DOORBELL_YIELD : DOORBELL_SPIN;
}

uint64_t doorbell_sleep_nsec(uint64_t now_nsec, uint64_t deadline_nsec, uint64_t most_nsec)
{
	if (deadline_nsec == UINT64_MAX)
		return most_nsec;
	if (deadline_nsec <= now_nsec)
		return 0;
	return deadline_nsec - now_nsec < most_nsec ? deadline_nsec - now_nsec : most_nsec;
}

static uint64_t sleep_nsec(struct doorbell_poll *poll)
{
	uint64_t (*deadline)(struct doorbell_poll *poll) = poll->attr.ops->deadline;
	bool has_gpu = !poll->is_resting && __atomic_load_n(&poll->n_gpu_queues, __ATOMIC_RELAXED) > 0;

	return doorbell_sleep_nsec(nsec_now(), deadline ? deadline(poll) : UINT64_MAX,
				   has_gpu ? (uint64_t)poll->attr.gpu_poll_usec * NSEC_PER_USEC : UINT64_MAX);
}

/* epoll_wait counts milliseconds; older kernels know nothing finer. */
static void wait_for_wake(int epoll_fd, uint64_t nsec)
{
	struct epoll_event events[16];
	struct timespec ts = nsec_to_timespec(nsec);
	int ms = nsec == UINT64_MAX ? -1 : (int)(nsec / NSEC_PER_MSEC % INT32_MAX + 1);

	if (epoll_pwait2(epoll_fd, events, 16, nsec == UINT64_MAX ? NULL : &ts, NULL) < 0 && errno == ENOSYS)
		epoll_wait(epoll_fd, events, 16, ms);
}

static void set_asleep(struct doorbell_poll *poll, bool asleep)
{
	if (poll->attr.asleep)
		__atomic_exchange_n(poll->attr.asleep, asleep, __ATOMIC_SEQ_CST);
	nic_page_set_asleep(poll->attr.nic_page, asleep);
}

static void fall_asleep(struct doorbell_poll *poll)
{
	uint64_t nsec = 0;

	set_asleep(poll, true);
	if (!__atomic_load_n(&poll->stop, __ATOMIC_SEQ_CST) && !poll->attr.ops->last_look(poll))
		nsec = sleep_nsec(poll);
	if (nsec > 0)
		wait_for_wake(poll->epoll_fd, nsec);
	set_asleep(poll, false);
	poll->now_nsec = nsec_now();
}

static void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#endif
}

/* A wake in vain goes back to sleep at once. */
static void idle(struct doorbell_poll *poll)
{
	if (poll->is_resting || __atomic_load_n(&poll->n_queues, __ATOMIC_RELAXED) == 0) {
		fall_asleep(poll);
		return;
	}
	cpu_relax();
	if (poll->idle_since_nsec && poll->wait == DOORBELL_SPIN && poll->n_turns % SPIN_ROUNDS_PER_CLOCK)
		return;
	poll->now_nsec = nsec_now();
	if (!poll->idle_since_nsec)
		poll->idle_since_nsec = poll->now_nsec;
	poll->wait = doorbell_wait(poll->now_nsec - poll->idle_since_nsec, (uint64_t)poll->attr.spin_usec * NSEC_PER_USEC);
	if (poll->wait == DOORBELL_SLEEP)
		fall_asleep(poll);
	else if (poll->wait == DOORBELL_YIELD)
		sched_yield();
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void *poll_main(void *arg)
{
	struct doorbell_poll *poll = arg;

	/* The default slack of 50 us would be added to every sleep with a limit. */
	prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NSEC);
	__atomic_store_n(&poll->tid, gettid(), __ATOMIC_RELAXED);
	poll->now_nsec = nsec_now();
	while (!__atomic_load_n(&poll->stop, __ATOMIC_ACQUIRE)) {
		if (++poll->n_turns % HEARTBEAT_TURNS == 0)
			nic_page_beat(poll->attr.nic_page);
		if (!poll->attr.ops->turn(poll)) {
			idle(poll);
			continue;
		}
		poll->idle_since_nsec = 0;
		poll->wait = DOORBELL_SPIN;
	}
	return NULL;
}

void doorbell_poll_init(struct doorbell_poll *poll, const struct doorbell_poll_attr *attr)
{
	*poll = (struct doorbell_poll){.attr = *attr, .epoll_fd = -1};
	list_init(&poll->pages);
}

int doorbell_poll_watch(struct doorbell_poll *poll, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET};

	return epoll_ctl(poll->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

void doorbell_poll_unwatch(struct doorbell_poll *poll, int fd)
{
	if (poll->epoll_fd >= 0)
		epoll_ctl(poll->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

int doorbell_poll_start(struct doorbell_poll *poll, const char *name)
{
	int r;

	poll->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	r = poll->epoll_fd < 0 ? -errno : doorbell_poll_watch(poll, poll->attr.wake_fd);
	if (r == 0)
		r = thread_start(&poll->thread, 0, name, poll_main, poll);
	poll->has_thread = r == 0;
	if (r < 0)
		poll->epoll_fd = safe_close(poll->epoll_fd);
	return r;
}

void doorbell_poll_stop(struct doorbell_poll *poll)
{
	if (!poll->has_thread)
		return;
	__atomic_store_n(&poll->stop, true, __ATOMIC_SEQ_CST);
	doorbell_wake(poll->attr.wake_fd);
	pthread_join(poll->thread, NULL);
	poll->has_thread = false;
	poll->epoll_fd = safe_close(poll->epoll_fd);
}

void doorbell_wake(int wake_fd)
{
	uint64_t one = 1;

	/* Only a counter that is full already could refuse, and that one is readable anyway. */
	if (write(wake_fd, &one, sizeof(one)) < 0)
		assert_bug(errno == EAGAIN);
}

/* ---- pages ------------------------------------------------------------------------------------------------------- */

void doorbell_page_init(struct doorbell_page *page, struct doorbell_poll *poll)
{
	*page = (struct doorbell_page){.poll = poll, .fd = -1, .wake_fd = -1};
	list_init(&page->link);
	list_init(&page->queues);
}

static int hand_out(struct doorbell_page *page, int wake_fd, struct nic_doorbell *doorbell)
{
	page->wake_fd = wake_fd;
	if (wake_fd < 0)
		return -errno;
	page->word = (uint64_t *)(void *)((uint8_t *)page->map + SHMD_DB_SEND_OFFSET);
	doorbell->mode = NIC_DOORBELL_CPU;
	doorbell->page_fd = page->fd;
	doorbell->page_offset = 0;
	doorbell->register_offset = SHMD_DB_SEND_OFFSET;
	doorbell->nic_page_fd = page->poll->attr.nic_page->client_fd;
	doorbell->wake_fd = wake_fd;
	return 0;
}

int doorbell_page_create(struct doorbell_page *page, struct nic_doorbell *doorbell)
{
	int r = nic_mem_create("shmemd-doorbell", SHMD_DB_PAGE_BYTES, 0, &page->fd, &page->map);

	return r < 0 ? r : hand_out(page, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), doorbell);
}

int doorbell_page_adopt(struct doorbell_page *page, int fd, int wake_fd, struct nic_doorbell *doorbell)
{
	int r = nic_mem_adopt(fd, SHMD_DB_PAGE_BYTES, &page->fd, &page->map);

	return r < 0 ? r : hand_out(page, fcntl(wake_fd, F_DUPFD_CLOEXEC, 3), doorbell);
}

void doorbell_page_deinit(struct doorbell_page *page)
{
	if (page->map)
		munmap(page->map, SHMD_DB_PAGE_BYTES);
	safe_close(page->fd);
	safe_close(page->wake_fd);
}

int doorbell_page_attach(struct doorbell_page *page)
{
	int r = doorbell_poll_watch(page->poll, page->wake_fd);

	if (r == 0)
		list_add_tail(&page->poll->pages, &page->link);
	return r;
}

/* The client holds the wake descriptor too, so closing ours would not end the watch. */
void doorbell_page_detach(struct doorbell_page *page)
{
	if (list_empty(&page->link))
		return;
	doorbell_poll_unwatch(page->poll, page->wake_fd);
	list_del(&page->link);
}

void doorbell_page_silence(struct doorbell_page *page)
{
	page->is_silent = true;
	page->n_scan = 0;
}

void doorbell_page_scan(struct doorbell_page *page)
{
	page->n_scan = page->n_queues;
}

static void count(struct doorbell_page *page, const struct doorbell_queue *queue, uint32_t one)
{
	page->n_queues += one;
	__atomic_fetch_add(&page->poll->n_queues, one, __ATOMIC_RELAXED);
	if (queue->is_gpu_driven)
		__atomic_fetch_add(&page->poll->n_gpu_queues, one, __ATOMIC_RELAXED);
}

void doorbell_page_add(struct doorbell_page *page, struct doorbell_queue *queue)
{
	list_add_tail(&page->queues, &queue->link);
	count(page, queue, 1);
}

void doorbell_page_remove(struct doorbell_page *page, struct doorbell_queue *queue)
{
	list_del(&queue->link);
	count(page, queue, -1u);
	if (page->n_scan > page->n_queues)
		page->n_scan = page->n_queues;
}
