/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that rings for clients.
 *
 * One word serves all queues of a page, so a second doorbell may overwrite the first before it is seen: the QP that the
 * word names is rung, and every other one whose dbrec has moved since it was rung last. The index to ring comes from the dbrec;
 * numbers that are not the page's ring nothing. The word and the dbrecs are all that clients write here.
 *
 * When nothing was rung for a while the thread tells clients so on the NIC page, looks once more and sleeps until one of
 * them wakes it; with a time limit where a GPU, which wakes nobody, drives a queue.
 *
 * All of it is in memory that may outlive the process: another one goes on with the same pages.
 */
#include "daemon/nic/mlx5/mlx5-bell.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <shmd/abi/doorbell.h>

#include "daemon/nic/nic-page.h"
#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/list.h"
#include "proto/base/nsec.h"
#include "proto/base/thread.h"

#define RINGS_PER_LOOK 4u /* of one QP */
#define SCAN_SLICE 32u /* QPs looked at in one turn after a doorbell */

struct bell {
	pthread_t thread;
	bool has_thread;
	bool stop; /* atomic */
	pthread_mutex_t lock; /* pages and what is in them */
	uint32_t n_waiting; /* atomic: who waits for the lock, whom the thread lets pass */
	struct list pages;
	unsigned int n_gpu_qps;
	int epoll_fd, wake_fd; /* owned */
	struct nic_page page; /* owned, saved */
	uint32_t gpu_poll_usec, spin_usec;
	uint64_t idle_since_nsec;
};

struct bell_qp {
	uint32_t qpn;
	const uint32_t *snd_be;
	uint32_t rung_be;
	bool gpu_driven;
	struct list link;
};

struct bell_page {
	struct bell *bell;
	int fd, wake_fd; /* owned */
	uint8_t *map;
	uint64_t *word; /* written by the client */
	uint64_t *reg;
	struct list qps;
	struct hash by_number;
	uint32_t n_scan; /* QPs still to be looked at since the last doorbell */
	bool silent;
	struct list link;
};

/* ---- ringing ----------------------------------------------------------------------------------------------------- */

/* WQEs and dbrec before the register, and the register's store out of a write-combining buffer. */
static void ring_register(uint64_t *reg, uint64_t word)
{
	__sync_synchronize();
	__atomic_store_n(reg, word, __ATOMIC_RELAXED);
	__sync_synchronize();
}

/*
 * A client that rings the register too, by a page of before, may do so between our look at the dbrec and our store: what was
 * stored last would be stale. So it is looked at again, and where it moves all the time in the next turn.
 */
static void ring(struct bell_page *page, struct bell_qp *qp, uint32_t snd_be)
{
	for (unsigned int i = 0; i < RINGS_PER_LOOK; i++) {
		uint64_t index = be32toh(snd_be) & 0xffff;

		qp->rung_be = snd_be;
		ring_register(page->reg, htobe64(index << 40 | (uint64_t)qp->qpn << 8));
		snd_be = __atomic_load_n(qp->snd_be, __ATOMIC_ACQUIRE);
		if (snd_be == qp->rung_be)
			return;
	}
	page->n_scan = (uint32_t)page->by_number.n;
}

/* Both dialects have the QP's number in bits 31:8 of the second big-endian dword, and nothing else in common. */
static uint32_t doorbell_qpn(uint64_t word)
{
	return (uint32_t)be64toh(word) >> 8;
}

static void look_at(struct bell_page *page, struct bell_qp *qp)
{
	uint32_t snd_be = __atomic_load_n(qp->snd_be, __ATOMIC_ACQUIRE);

	if (snd_be != qp->rung_be)
		ring(page, qp, snd_be);
}

/* Works in slices, so that a client with many QPs that rings all the time does not delay other doorbells. */
static void scan_some(struct bell_page *page)
{
	uint32_t n = page->n_scan < SCAN_SLICE ? page->n_scan : SCAN_SLICE;

	page->n_scan -= n;
	while (n-- > 0) {
		struct bell_qp *qp = list_first_entry(&page->qps, struct bell_qp, link);

		list_del(&qp->link);
		list_add_tail(&page->qps, &qp->link);
		look_at(page, qp);
	}
}

static bool poll_page(struct bell_page *page)
{
	struct bell_qp *named;
	uint64_t word;

	if (page->silent)
		return false;
	if (__atomic_load_n(page->word, __ATOMIC_RELAXED)) {
		word = __atomic_exchange_n(page->word, 0, __ATOMIC_ACQ_REL);
		named = hash_get(&page->by_number, doorbell_qpn(word));
		page->n_scan = named && page->by_number.n == 1 ? 0 : (uint32_t)page->by_number.n;
		/* Also at an index that was rung before: it may have been reset since. */
		if (named)
			ring(page, named, __atomic_load_n(named->snd_be, __ATOMIC_ACQUIRE));
	} else if (page->n_scan == 0) {
		return false;
	}
	scan_some(page);
	return true;
}

static bool look(struct bell *bell)
{
	struct bell_page *page;
	bool any = false;

	pthread_mutex_lock(&bell->lock);
	list_for_each_entry(page, &bell->pages, link)
		any |= poll_page(page);
	pthread_mutex_unlock(&bell->lock);
	/* A mutex is not fair, and this thread would take it again at once. */
	while (__atomic_load_n(&bell->n_waiting, __ATOMIC_ACQUIRE))
		sched_yield();
	return any;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static uint64_t sleep_nsec(struct bell *bell)
{
	uint64_t nsec;

	pthread_mutex_lock(&bell->lock);
	nsec = bell->n_gpu_qps > 0 ? (uint64_t)bell->gpu_poll_usec * NSEC_PER_USEC : NIC_SLEEP_FOR_EVER;
	pthread_mutex_unlock(&bell->lock);
	return nsec;
}

static void bell_sleep(struct bell *bell)
{
	nic_page_set_asleep(&bell->page, true);
	if (!__atomic_load_n(&bell->stop, __ATOMIC_ACQUIRE) && !look(bell))
		nic_sleep(bell->epoll_fd, sleep_nsec(bell));
	nic_page_set_asleep(&bell->page, false);
}

/* Spin for those who ring again at once, then let others run, then sleep. */
static void idle(struct bell *bell)
{
	uint64_t now = nsec_now(), idle_nsec;

	if (!bell->idle_since_nsec)
		bell->idle_since_nsec = now;
	idle_nsec = now - bell->idle_since_nsec;
	if (idle_nsec >= (uint64_t)bell->spin_usec * NSEC_PER_USEC)
		bell_sleep(bell);
	else if (idle_nsec >= NIC_SPIN_NSEC)
		sched_yield();
}

static void *bell_main(void *arg)
{
	struct bell *bell = arg;

	nic_sleep_init();
	while (!__atomic_load_n(&bell->stop, __ATOMIC_ACQUIRE)) {
		if (look(bell))
			bell->idle_since_nsec = 0;
		else
			idle(bell);
	}
	return NULL;
}

static void wake(struct bell *bell)
{
	uint64_t one = 1;

	/* Only a counter that is full already could refuse. */
	if (write(bell->wake_fd, &one, sizeof(one)) < 0)
		assert_bug(errno == EAGAIN);
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static int watch(struct bell *bell, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET};

	return epoll_ctl(bell->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static int start(struct bell *bell, const char *name)
{
	char thread_name[NIC_NAME_BYTES + 8];
	int r;

	snprintf(thread_name, sizeof(thread_name), "bell-%s", name);
	r = thread_start(&bell->thread, 0, thread_name, bell_main, bell);
	bell->has_thread = r == 0;
	return r;
}

static int init(struct bell *bell, const struct bell_attr *attr)
{
	int r = attr->nic_page_fd ? nic_page_adopt(*attr->nic_page_fd, &bell->page) : nic_page_create(true, &bell->page);

	if (r < 0)
		return r;
	bell->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	bell->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (bell->epoll_fd < 0 || bell->wake_fd < 0)
		return -errno;
	r = watch(bell, bell->wake_fd);
	return r < 0 ? r : start(bell, attr->name);
}

int bell_new(const struct bell_attr *attr, struct bell **ret_bell)
{
	_cleanup_(bell_freep) struct bell *bell = calloc(1, sizeof(*bell));
	int r;

	if (!bell)
		return -ENOMEM;
	pthread_mutex_init(&bell->lock, NULL);
	list_init(&bell->pages);
	bell->epoll_fd = bell->wake_fd = -1;
	bell->page = NIC_PAGE_NONE;
	bell->gpu_poll_usec = attr->gpu_poll_usec;
	bell->spin_usec = attr->spin_usec;
	r = init(bell, attr);
	if (r < 0)
		return r;
	*ret_bell = take_ptr(bell);
	return 0;
}

struct bell *bell_free(struct bell *bell)
{
	if (!bell)
		return NULL;
	assert_bug(list_empty(&bell->pages));
	if (bell->has_thread) {
		__atomic_store_n(&bell->stop, true, __ATOMIC_RELEASE);
		wake(bell);
		pthread_join(bell->thread, NULL);
	}
	nic_page_deinit(&bell->page);
	safe_close(bell->wake_fd);
	safe_close(bell->epoll_fd);
	pthread_mutex_destroy(&bell->lock);
	free(bell);
	return NULL;
}

bool bell_has_page(const struct bell *bell, int nic_page_fd)
{
	return nic_page_is(&bell->page, nic_page_fd);
}

/* ---- pages ------------------------------------------------------------------------------------------------------- */

static void lock(struct bell *bell)
{
	__atomic_fetch_add(&bell->n_waiting, 1, __ATOMIC_ACQ_REL);
	pthread_mutex_lock(&bell->lock);
	__atomic_fetch_sub(&bell->n_waiting, 1, __ATOMIC_ACQ_REL);
}

static void unlock(struct bell *bell)
{
	pthread_mutex_unlock(&bell->lock);
}

static int page_init(struct bell_page *page, const struct nic_saved_fds *saved)
{
	void *map;
	int r = saved ? nic_mem_adopt(saved->fds[MLX5_SAVED_PAGE], SHMD_DB_PAGE_BYTES, &page->fd, &map)
		     : nic_mem_create("shmemd-doorbell", SHMD_DB_PAGE_BYTES, 0, &page->fd, &map);

	if (r < 0)
		return r;
	page->map = map;
	page->word = (uint64_t *)(void *)(page->map + SHMD_DB_SEND_OFFSET);
	page->wake_fd = saved ? fcntl(saved->fds[MLX5_SAVED_WAKE], F_DUPFD_CLOEXEC, 3) : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (page->wake_fd < 0)
		return -errno;
	return watch(page->bell, page->wake_fd);
}

int bell_page_new(struct bell *bell, uint64_t *reg, const struct nic_saved_fds *saved, struct nic_doorbell *doorbell,
		  struct bell_page **ret_page)
{
	_cleanup_(bell_page_freep) struct bell_page *page = calloc(1, sizeof(*page));
	int r;

	if (!page)
		return -ENOMEM;
	page->bell = bell;
	page->reg = reg;
	page->fd = page->wake_fd = -1;
	list_init(&page->qps);
	list_init(&page->link);
	hash_init(&page->by_number);
	r = page_init(page, saved);
	if (r < 0)
		return r;
	doorbell->mode = NIC_DOORBELL_CPU;
	doorbell->page_fd = page->fd;
	doorbell->page_offset = 0;
	doorbell->register_offset = SHMD_DB_SEND_OFFSET;
	doorbell->nic_page_fd = bell->page.client_fd;
	doorbell->wake_fd = page->wake_fd;
	lock(bell);
	list_add_tail(&bell->pages, &page->link);
	unlock(bell);
	wake(bell);
	*ret_page = take_ptr(page);
	return 0;
}

static struct bell_qp *qp_free(struct bell_page *page, struct bell_qp *qp)
{
	page->bell->n_gpu_qps -= qp->gpu_driven;
	hash_remove(&page->by_number, qp->qpn);
	list_del(&qp->link);
	if (page->n_scan > page->by_number.n)
		page->n_scan = (uint32_t)page->by_number.n;
	free(qp);
	return NULL;
}

struct bell_page *bell_page_free(struct bell_page *page)
{
	struct bell_qp *qp, *tmp;

	if (!page)
		return NULL;
	lock(page->bell);
	list_del(&page->link);
	list_for_each_entry_safe(qp, tmp, &page->qps, link)
		qp_free(page, qp);
	unlock(page->bell);
	/* The client holds it too, so closing ours would not end the watch. */
	if (page->wake_fd >= 0)
		epoll_ctl(page->bell->epoll_fd, EPOLL_CTL_DEL, page->wake_fd, NULL);
	if (page->map)
		munmap(page->map, SHMD_DB_PAGE_BYTES);
	safe_close(page->fd);
	safe_close(page->wake_fd);
	hash_deinit(&page->by_number);
	free(page);
	return NULL;
}

int bell_page_add(struct bell_page *page, uint32_t qpn, const uint32_t *snd_be, bool gpu_driven)
{
	struct bell_qp *qp = calloc(1, sizeof(*qp));
	int r;

	if (!qp)
		return -ENOMEM;
	*qp = (struct bell_qp){.qpn = qpn, .snd_be = snd_be, .gpu_driven = gpu_driven};
	lock(page->bell);
	r = hash_add(&page->by_number, qpn, qp);
	if (r == 0) {
		list_add_tail(&page->qps, &qp->link);
		page->bell->n_gpu_qps += gpu_driven;
	}
	unlock(page->bell);
	if (r < 0)
		free(qp);
	else if (gpu_driven)
		wake(page->bell);
	return r;
}

void bell_page_remove(struct bell_page *page, uint32_t qpn)
{
	struct bell_qp *qp;

	lock(page->bell);
	qp = hash_get(&page->by_number, qpn);
	if (qp)
		qp_free(page, qp);
	unlock(page->bell);
}

void bell_page_reset(struct bell_page *page, uint32_t qpn)
{
	struct bell_qp *qp;

	lock(page->bell);
	qp = hash_get(&page->by_number, qpn);
	if (qp)
		qp->rung_be = 0;
	unlock(page->bell);
}

void bell_page_catch_up(struct bell_page *page)
{
	struct bell_qp *qp;

	lock(page->bell);
	list_for_each_entry(qp, &page->qps, link)
		qp->rung_be = __atomic_load_n(qp->snd_be, __ATOMIC_ACQUIRE);
	unlock(page->bell);
}

void bell_page_look_at_all(struct bell_page *page)
{
	lock(page->bell);
	page->n_scan = (uint32_t)page->by_number.n;
	unlock(page->bell);
	wake(page->bell);
}

void bell_page_saved_fds(const struct bell_page *page, struct nic_saved_fds *saved)
{
	saved->fds[MLX5_SAVED_NIC_PAGE] = page->bell->page.fd;
	saved->fds[MLX5_SAVED_PAGE] = page->fd;
	saved->fds[MLX5_SAVED_WAKE] = page->wake_fd;
	saved->n = MLX5_SAVED_FDS;
}

void bell_page_silence(struct bell_page *page)
{
	lock(page->bell);
	page->silent = true;
	unlock(page->bell);
}
