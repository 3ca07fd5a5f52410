/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that ring for clients: doorbell pollers (doorbell-poll.h) whose queues are rung at the NIC's register, with the
 * index of the dbrec.
 *
 * A user has a bell while it has a page, so a thread reads memory of one user alone and sleeps at the holes of that user only.
 * Pages that a former process polled with one thread have one NIC page, hence one bell again, also those of several users.
 *
 * Clients' requests add and remove pages and QPs while the thread runs; a lock of the bell keeps it out meanwhile. The lock of
 * all bells is held while a thread starts, and not while one ends or reads memory of clients.
 *
 * All of it is in memory that may outlive the process: another one goes on with the same pages.
 */
#include "daemon/nic/mlx5/mlx5-bell.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "daemon/nic/doorbell-poll.h"
#include "proto/base/assert.h"
#include "proto/base/hash.h"

#define RINGS_PER_LOOK 4u /* of one QP */

struct bell {
	struct doorbell_poll poll;
	struct bells *bells;
	struct list link; /* bells->all; under its lock, as are the next three */
	uint32_t uid;
	uint32_t n_pages;
	bool is_shared; /* by several users: new pages go elsewhere */
	pthread_mutex_t lock; /* pages and what is in them */
	uint32_t n_waiting; /* atomic: who waits for the lock, whom the thread lets pass */
	int wake_fd; /* owned */
	struct nic_page page; /* owned, saved */
};

struct bell_page {
	struct doorbell_page base;
	struct bell *bell;
	uint64_t *reg;
	struct hash by_number; /* struct doorbell_queue, owned */
};

/* ---- ringing ----------------------------------------------------------------------------------------------------- */

/*
 * A client that rings the register too, by a page of before, may do so between our look at the dbrec and our store: what was
 * stored last would be stale. So it is looked at again, and where it moves all the time in the next turn.
 */
static void ring(struct doorbell_page *base, struct doorbell_queue *qp)
{
	const struct bell_page *page = container_of(base, struct bell_page, base);

	for (unsigned int i = 0; i < RINGS_PER_LOOK; i++) {
		if (i > 0 && !doorbell_queue_has_moved(qp))
			return;
		/* WQEs and dbrec before the register, and the register's store out of a write-combining buffer. */
		__sync_synchronize();
		__atomic_store_n(page->reg, htobe64((uint64_t)(be32toh(qp->seen_be) & 0xffff) << 40 | (uint64_t)qp->qpn << 8),
				 __ATOMIC_RELAXED);
		__sync_synchronize();
	}
	doorbell_page_scan(base);
}

static struct doorbell_queue *find(struct doorbell_page *base, uint32_t qpn)
{
	return hash_get(&container_of(base, struct bell_page, base)->by_number, qpn);
}

static bool look(struct doorbell_poll *poll)
{
	struct bell *bell = container_of(poll, struct bell, poll);
	bool any;

	pthread_mutex_lock(&bell->lock);
	any = doorbell_poll_look(poll);
	pthread_mutex_unlock(&bell->lock);
	/* A mutex is not fair, and this thread would take it again at once. */
	while (__atomic_load_n(&bell->n_waiting, __ATOMIC_ACQUIRE))
		sched_yield();
	return any;
}

static const struct doorbell_ops bell_ops = {.turn = look, .last_look = look, .find = find, .ring = ring};

/* ---- the threads ------------------------------------------------------------------------------------------------- */

void bells_init(struct bells *bells, const struct bells_attr *attr)
{
	bells->attr = *attr;
	pthread_mutex_init(&bells->lock, NULL);
	list_init(&bells->all);
	bells->n = 0;
}

void bells_deinit(struct bells *bells)
{
	assert_bug(list_empty(&bells->all));
	pthread_mutex_destroy(&bells->lock);
}

static struct bell *bell_free(struct bell *bell)
{
	if (!bell)
		return NULL;
	assert_bug(list_empty(&bell->poll.pages));
	doorbell_poll_stop(&bell->poll);
	nic_page_deinit(&bell->page);
	safe_close(bell->wake_fd);
	pthread_mutex_destroy(&bell->lock);
	free(bell);
	return NULL;
}
DEFINE_CLEANUP(struct bell *, bell_free);

static int start(struct bell *bell, const int *nic_page_fd)
{
	char thread_name[NIC_NAME_BYTES + 8];
	int r;

	if (bell->wake_fd < 0)
		return -errno;
	r = nic_page_fd ? nic_page_adopt(*nic_page_fd, &bell->page) : nic_page_create(true, &bell->page);
	if (r < 0)
		return r;
	snprintf(thread_name, sizeof(thread_name), "bell-%s", bell->bells->attr.name);
	return doorbell_poll_start(&bell->poll, thread_name);
}

static int bell_new(struct bells *bells, uint32_t uid, const int *nic_page_fd, struct bell **ret_bell)
{
	_cleanup_(bell_freep) struct bell *bell = calloc(1, sizeof(*bell));
	int r;

	if (!bell)
		return -ENOMEM;
	pthread_mutex_init(&bell->lock, NULL);
	bell->bells = bells;
	bell->uid = uid;
	bell->page = NIC_PAGE_NONE;
	bell->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	doorbell_poll_init(&bell->poll, &(struct doorbell_poll_attr){
					       .ops = &bell_ops,
					       .nic_page = &bell->page,
					       .wake_fd = bell->wake_fd,
					       .spin_usec = bells->attr.spin_usec,
					       .gpu_poll_usec = bells->attr.gpu_poll_usec,
				       });
	r = start(bell, nic_page_fd);
	if (r < 0)
		return r;
	*ret_bell = take_ptr(bell);
	return 0;
}

/* The one that polls for this NIC page, or, without a NIC page, that of the user; NULL: none. */
static struct bell *find_bell(const struct bells *bells, uint32_t uid, const int *nic_page_fd)
{
	struct bell *bell;

	list_for_each_entry(bell, &bells->all, link)
		if (nic_page_fd ? nic_page_is(&bell->page, *nic_page_fd) : bell->uid == uid && !bell->is_shared)
			return bell;
	return NULL;
}

static int add_bell(struct bells *bells, uint32_t uid, const int *nic_page_fd, struct bell **ret_bell)
{
	int r = bells->n < BELLS_MAX ? bell_new(bells, uid, nic_page_fd, ret_bell) : -EUSERS;

	if (r < 0)
		return r;
	list_add_tail(&bells->all, &(*ret_bell)->link);
	bells->n++;
	return 0;
}

static int bell_get(struct bells *bells, uint32_t uid, const int *nic_page_fd, struct bell **ret_bell)
{
	int r = 0;

	pthread_mutex_lock(&bells->lock);
	*ret_bell = find_bell(bells, uid, nic_page_fd);
	if (!*ret_bell)
		r = add_bell(bells, uid, nic_page_fd, ret_bell);
	if (r == 0) {
		(*ret_bell)->n_pages++;
		(*ret_bell)->is_shared |= (*ret_bell)->uid != uid;
	}
	pthread_mutex_unlock(&bells->lock);
	return r;
}

/* A bell without pages has no memory of a client to sleep at, so it ends at once. */
static void bell_put(struct bell *bell)
{
	struct bells *bells = bell->bells;
	bool is_last;

	pthread_mutex_lock(&bells->lock);
	is_last = --bell->n_pages == 0;
	if (is_last) {
		list_del(&bell->link);
		bells->n--;
	}
	pthread_mutex_unlock(&bells->lock);
	if (is_last)
		bell_free(bell);
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

/* Takes the reference to the bell in every case. */
static struct bell_page *page_alloc(struct bell *bell, uint64_t *reg)
{
	struct bell_page *page = calloc(1, sizeof(*page));

	if (!page) {
		bell_put(bell);
		return NULL;
	}
	page->bell = bell;
	page->reg = reg;
	hash_init(&page->by_number);
	doorbell_page_init(&page->base, &bell->poll);
	return page;
}

int bell_page_new(struct bells *bells, const struct bell_page_attr *attr, struct nic_doorbell *doorbell,
		  struct bell_page **ret_page)
{
	_cleanup_(bell_page_freep) struct bell_page *page = NULL;
	const struct nic_saved_fds *saved = attr->saved;
	struct bell *bell;
	int r = bell_get(bells, attr->uid, saved ? &saved->fds[MLX5_SAVED_NIC_PAGE] : NULL, &bell);

	if (r < 0)
		return r;
	page = page_alloc(bell, attr->reg);
	if (!page)
		return -ENOMEM;
	r = saved ? doorbell_page_adopt(&page->base, saved->fds[MLX5_SAVED_PAGE], saved->fds[MLX5_SAVED_WAKE], doorbell)
		 : doorbell_page_create(&page->base, doorbell);
	if (r < 0)
		return r;
	lock(bell);
	r = doorbell_page_attach(&page->base);
	unlock(bell);
	if (r < 0)
		return r;
	*ret_page = take_ptr(page);
	return 0;
}

/* Under the lock. */
static void qp_free(struct bell_page *page, struct doorbell_queue *qp)
{
	if (!qp)
		return;
	hash_remove(&page->by_number, qp->qpn);
	doorbell_page_remove(&page->base, qp);
	free(qp);
}

struct bell_page *bell_page_free(struct bell_page *page)
{
	struct doorbell_queue *qp, *tmp;

	if (!page)
		return NULL;
	lock(page->bell);
	doorbell_page_detach(&page->base);
	list_for_each_entry_safe(qp, tmp, &page->base.queues, link)
		qp_free(page, qp);
	unlock(page->bell);
	doorbell_page_deinit(&page->base);
	hash_deinit(&page->by_number);
	bell_put(page->bell);
	free(page);
	return NULL;
}

int bell_page_add(struct bell_page *page, uint32_t qpn, const uint32_t *snd_be, bool gpu_driven)
{
	struct doorbell_queue *qp = calloc(1, sizeof(*qp));
	int r;

	if (!qp)
		return -ENOMEM;
	*qp = (struct doorbell_queue){.qpn = qpn, .snd_be = snd_be, .is_gpu_driven = gpu_driven};
	lock(page->bell);
	r = hash_add(&page->by_number, qpn, qp);
	if (r == 0)
		doorbell_page_add(&page->base, qp);
	unlock(page->bell);
	if (r < 0)
		free(qp);
	else if (gpu_driven)
		doorbell_wake(page->bell->wake_fd);
	return r;
}

void bell_page_remove(struct bell_page *page, uint32_t qpn)
{
	lock(page->bell);
	qp_free(page, find(&page->base, qpn));
	unlock(page->bell);
}

void bell_page_reset(struct bell_page *page, uint32_t qpn)
{
	struct doorbell_queue *qp;

	lock(page->bell);
	qp = find(&page->base, qpn);
	if (qp)
		qp->seen_be = 0;
	unlock(page->bell);
}

void bell_page_catch_up(struct bell_page *page)
{
	struct doorbell_queue *qp;

	lock(page->bell);
	list_for_each_entry(qp, &page->base.queues, link)
		doorbell_queue_has_moved(qp);
	unlock(page->bell);
}

void bell_page_look_at_all(struct bell_page *page)
{
	lock(page->bell);
	doorbell_page_scan(&page->base);
	unlock(page->bell);
	doorbell_wake(page->bell->wake_fd);
}

void bell_page_saved_fds(const struct bell_page *page, struct nic_saved_fds *saved)
{
	saved->fds[MLX5_SAVED_NIC_PAGE] = page->bell->page.fd;
	saved->fds[MLX5_SAVED_PAGE] = page->base.fd;
	saved->fds[MLX5_SAVED_WAKE] = page->base.wake_fd;
	saved->n = MLX5_SAVED_FDS;
}

void bell_page_silence(struct bell_page *page)
{
	lock(page->bell);
	doorbell_page_silence(&page->base);
	unlock(page->bell);
}
