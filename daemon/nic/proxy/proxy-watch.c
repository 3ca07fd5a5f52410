/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that looks at the host's RDMA devices, and tells when something has changed.
 *
 * It looks again and again, because nobody tells it: the unit has neither netlink nor the host's network, and who waits for
 * a device's own events keeps it open, which holds up its removal with some drivers. What comes and goes between two looks
 * is not seen. What some backend drives is left alone.
 *
 * The thread owns `last`; `news` changes hands under the lock. One that hangs in the kernel is abandoned and frees what it
 * uses when it returns.
 */
#include "daemon/nic/proxy/proxy.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/base/thread.h"

#define STACK_BYTES (256u << 10)
#define END_NSEC (2 * NSEC_PER_SEC)

struct nic_watch {
	char *sysfs;
	uint64_t interval_nsec;
	int event_fd;
	pthread_t thread;
	pthread_mutex_t lock; /* of what follows */
	unsigned int n_driven;
	struct nic_driven driven[NIC_SEEN_MAX];
	pthread_cond_t changed;
	bool stop, ended, abandoned;
	struct nic_seen_list *news; /* not taken yet */
	struct nic_seen_list *last; /* the thread's own */
};

static struct nic_watch *watch_destroy(struct nic_watch *watch)
{
	safe_close(watch->event_fd);
	pthread_cond_destroy(&watch->changed);
	pthread_mutex_destroy(&watch->lock);
	free(watch->news);
	free(watch->last);
	free(watch->sysfs);
	free(watch);
	return NULL;
}

/* ---- one look ------------------------------------------------------------------------------------------------------- */

static const struct nic_seen *find_last(const struct nic_watch *watch, const struct nic_seen *seen)
{
	for (unsigned int i = 0; watch->last && i < watch->last->n; i++)
		if (strcmp(watch->last->nics[i].name, seen->name) == 0)
			return &watch->last->nics[i];
	return NULL;
}

/* The MTU follows the interface's, and is not there while the port is down. */
static bool same_mtu(const struct nic_seen *a, const struct nic_seen *b)
{
	return a->life == b->life && a->state == b->state && a->netdev_mtu_bytes == b->netdev_mtu_bytes;
}

/*
 * Without the device's own word: what an Ethernet interface leaves room for beside GRH, UDP, BTH, XRC and atomic headers and
 * the ICRC, as the kernel reckons (iboe_get_mtu, include/rdma/ib_addr.h).
 */
static uint32_t mtu_beside_headers(const struct nic_seen *seen)
{
	const uint32_t headers = 40 + 8 + 12 + 4 + 28 + 4;
	uint32_t bytes = 4096;

	if (seen->link != NIC_LINK_ETHERNET)
		return 0;
	while (bytes >= 256 && bytes + headers > seen->netdev_mtu_bytes)
		bytes /= 2;
	return bytes >= 256 ? bytes : 0;
}

static uint32_t find_mtu(const struct nic_seen *seen)
{
	uint32_t bytes = proxy_mtu_bytes(seen->name, seen->port);

	return bytes ? bytes : mtu_beside_headers(seen);
}

static unsigned int copy_driven(struct nic_watch *watch, struct nic_driven driven[NIC_SEEN_MAX])
{
	unsigned int n;

	pthread_mutex_lock(&watch->lock);
	n = watch->n_driven;
	memcpy(driven, watch->driven, n * sizeof(*driven));
	pthread_mutex_unlock(&watch->lock);
	return n;
}

static void look(struct nic_watch *watch, struct nic_seen_list *list)
{
	struct nic_driven driven[NIC_SEEN_MAX];

	nic_seen_scan(watch->sysfs, driven, copy_driven(watch, driven), list);
	for (unsigned int i = 0; i < list->n; i++) {
		struct nic_seen *seen = &list->nics[i];
		const struct nic_seen *last = find_last(watch, seen);

		seen->mtu_bytes = last && same_mtu(last, seen) ? last->mtu_bytes : find_mtu(seen);
	}
}

/* ---- the thread ------------------------------------------------------------------------------------------------------ */

/* Padding may differ where nothing else does: then the same is told twice, which says nothing new. */
static bool is_news(const struct nic_watch *watch, const struct nic_seen_list *list)
{
	return !watch->last ? list->n > 0 || list->n_left_out > 0 : memcmp(watch->last, list, sizeof(*list)) != 0;
}

/* For want of memory: the next look tells. */
static void look_and_tell(struct nic_watch *watch)
{
	struct nic_seen_list *list = calloc(1, sizeof(*list)), *copy;

	if (!list)
		return;
	look(watch, list);
	copy = is_news(watch, list) ? malloc(sizeof(*copy)) : NULL;
	if (!copy) {
		free(list);
		return;
	}
	memcpy(copy, list, sizeof(*copy));
	free(watch->last);
	watch->last = list;
	pthread_mutex_lock(&watch->lock);
	free(watch->news);
	watch->news = copy;
	pthread_mutex_unlock(&watch->lock);
	eventfd_write(watch->event_fd, 1);
}

/* False: it is over. */
static bool wait_for_turn(struct nic_watch *watch)
{
	struct timespec until;
	bool go_on;
	int err = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until = nsec_to_timespec(nsec_add(nsec_from_timespec(&until), watch->interval_nsec));
	pthread_mutex_lock(&watch->lock);
	while (!watch->stop && !err)
		err = pthread_cond_timedwait(&watch->changed, &watch->lock, &until);
	go_on = !watch->stop;
	pthread_mutex_unlock(&watch->lock);
	return go_on;
}

static void *watch_run(void *arg)
{
	struct nic_watch *watch = arg;
	bool abandoned;

	do {
		look_and_tell(watch);
	} while (wait_for_turn(watch));
	pthread_mutex_lock(&watch->lock);
	watch->ended = true;
	abandoned = watch->abandoned;
	pthread_cond_broadcast(&watch->changed);
	pthread_mutex_unlock(&watch->lock);
	if (abandoned)
		watch_destroy(watch);
	return NULL;
}

/* ---- for the control thread ------------------------------------------------------------------------------------------ */

static void init_locks(struct nic_watch *watch)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&watch->lock, NULL);
	pthread_cond_init(&watch->changed, &attr);
	pthread_condattr_destroy(&attr);
}

void nic_watch_drive(struct nic_watch *watch, const struct nic_driven *driven)
{
	pthread_mutex_lock(&watch->lock);
	if (watch->n_driven < NIC_SEEN_MAX)
		watch->driven[watch->n_driven++] = *driven;
	pthread_mutex_unlock(&watch->lock);
}

int nic_watch_new(const struct nic_watch_attr *attr, struct nic_watch **ret_watch)
{
	struct nic_watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (!watch)
		return -ENOMEM;
	init_locks(watch);
	watch->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	watch->interval_nsec = attr->interval_nsec;
	watch->sysfs = strdup(attr->sysfs);
	for (unsigned int i = 0; i < attr->n_driven; i++)
		nic_watch_drive(watch, &attr->driven[i]);
	r = watch->event_fd < 0 ? -EMFILE : !watch->sysfs ? -ENOMEM : 0;
	if (r == 0)
		r = thread_start(&watch->thread, STACK_BYTES, NULL, watch_run, watch);
	if (r < 0) {
		watch_destroy(watch);
		return r;
	}
	*ret_watch = watch;
	return 0;
}

/* True: the thread has ended, or is about to. */
static bool watch_stop(struct nic_watch *watch)
{
	struct timespec until;
	bool ended;
	int err = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until = nsec_to_timespec(nsec_add(nsec_from_timespec(&until), END_NSEC));
	pthread_mutex_lock(&watch->lock);
	watch->stop = true;
	pthread_cond_broadcast(&watch->changed);
	while (!watch->ended && !err)
		err = pthread_cond_timedwait(&watch->changed, &watch->lock, &until);
	ended = watch->ended;
	watch->abandoned = !ended;
	if (!ended)
		pthread_detach(watch->thread);
	pthread_mutex_unlock(&watch->lock);
	return ended;
}

struct nic_watch *nic_watch_free(struct nic_watch *watch)
{
	if (!watch || !watch_stop(watch))
		return NULL;
	pthread_join(watch->thread, NULL);
	return watch_destroy(watch);
}

int nic_watch_fd(const struct nic_watch *watch)
{
	return watch->event_fd;
}

struct nic_seen_list *nic_watch_take(struct nic_watch *watch)
{
	struct nic_seen_list *news;
	eventfd_t n;

	eventfd_read(watch->event_fd, &n);
	pthread_mutex_lock(&watch->lock);
	news = take_ptr(watch->news);
	pthread_mutex_unlock(&watch->lock);
	return news;
}
