/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one watcher of this machine. One thread scans its RDMA devices, and one compares fingerprints of all that the map of the node
 * is made of; both report changes. A scan may wait for a driver, and a look asks none, so a driver that hangs holds up scans alone.
 *
 * They poll, because the unit has neither netlink nor the host's network, and a process that waits for a device's own events
 * keeps the device open, which with some drivers delays its removal. They miss a device that comes and goes between two turns,
 * and leave managed devices alone.
 *
 * `last` is the scanning thread's, and `seen` the looking thread's; `news` changes hands under the lock. If a thread hangs in the
 * kernel the watch is abandoned, and the last thread frees it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "daemon/host/changes.h"
#include "daemon/host/host.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/base/thread.h"

#define STACK_BYTES (256u << 10)
#define END_NSEC (2 * NSEC_PER_SEC)

struct host_watch {
	char *sysfs, *procfs, *file;
	uint64_t scan_nsec, machine_nsec;
	int event_fd;
	pthread_t threads[2];
	unsigned int n_threads;
	pthread_mutex_t lock; /* of what follows */
	unsigned int n_managed;
	struct host_managed managed[HOST_LIST_MAX];
	pthread_cond_t changed;
	unsigned int n_running; /* threads that have not ended */
	bool stop, abandoned;
	struct host_news news; /* not taken yet */
	struct host_list *last; /* the scanning thread's own */
	uint64_t seen; /* the looking thread's own: fingerprint of the machine at the last look */
};

static struct host_watch *watch_destroy(struct host_watch *watch)
{
	safe_close(watch->event_fd);
	pthread_cond_destroy(&watch->changed);
	pthread_mutex_destroy(&watch->lock);
	free(watch->news.list);
	free(watch->last);
	free(watch->file);
	free(watch->procfs);
	free(watch->sysfs);
	free(watch);
	return NULL;
}

/* ---- one scan ------------------------------------------------------------------------------------------------------- */

static const struct host_nic *find_last(const struct host_watch *watch, const struct host_nic *nic)
{
	for (unsigned int i = 0; watch->last && i < watch->last->n; i++)
		if (strcmp(watch->last->nics[i].name, nic->name) == 0)
			return &watch->last->nics[i];
	return NULL;
}

/* The MTU follows the interface's, and is not there while the port is down. */
static bool same_mtu(const struct host_nic *a, const struct host_nic *b)
{
	return a->life == b->life && a->state == b->state && a->mtu_bytes == b->mtu_bytes;
}

/*
 * Where the device does not answer: the largest MTU that an Ethernet interface leaves room for beside GRH, UDP, BTH, XRC and
 * atomic headers and the ICRC, as the kernel computes it (iboe_get_mtu, include/rdma/ib_addr.h).
 */
static uint32_t mtu_beside_headers(const struct host_nic *nic)
{
	const uint32_t headers = 40 + 8 + 12 + 4 + 28 + 4;
	uint32_t bytes = 4096;

	if (nic->fabric != HOST_FABRIC_ETHERNET)
		return 0;
	while (bytes >= 256 && bytes + headers > nic->mtu_bytes)
		bytes /= 2;
	return bytes >= 256 ? bytes : 0;
}

static uint32_t find_mtu(const struct host_nic *nic)
{
	uint32_t bytes = host_ask_mtu(HOST_VERBS, nic->name, nic->port);

	return bytes ? bytes : mtu_beside_headers(nic);
}

static unsigned int copy_managed(struct host_watch *watch, struct host_managed managed[HOST_LIST_MAX])
{
	unsigned int n;

	pthread_mutex_lock(&watch->lock);
	n = watch->n_managed;
	memcpy(managed, watch->managed, n * sizeof(*managed));
	pthread_mutex_unlock(&watch->lock);
	return n;
}

static void scan(struct host_watch *watch, struct host_list *list)
{
	struct host_managed managed[HOST_LIST_MAX];

	host_scan(watch->sysfs, managed, copy_managed(watch, managed), list);
	for (unsigned int i = 0; i < list->n; i++) {
		struct host_nic *nic = &list->nics[i];
		const struct host_nic *last = find_last(watch, nic);

		nic->active_mtu_bytes = last && same_mtu(last, nic) ? last->active_mtu_bytes : find_mtu(nic);
	}
}

/* ---- the thread ------------------------------------------------------------------------------------------------------ */

/* Where only padding differs the same is reported twice, which is harmless. */
static bool is_news(const struct host_watch *watch, const struct host_list *list)
{
	return !watch->last ? list->n > 0 || list->n_left_out > 0 : memcmp(watch->last, list, sizeof(*list)) != 0;
}

/* Takes the list, or NULL. */
static void report(struct host_watch *watch, struct host_list *list, bool is_machine_changed)
{
	pthread_mutex_lock(&watch->lock);
	if (list) {
		free(watch->news.list);
		watch->news.list = list;
	}
	watch->news.is_machine_changed |= is_machine_changed;
	pthread_mutex_unlock(&watch->lock);
	eventfd_write(watch->event_fd, 1);
}

/* Without memory the next scan reports. */
static void scan_and_report(struct host_watch *watch)
{
	struct host_list *list = calloc(1, sizeof(*list)), *copy;

	if (!list)
		return;
	scan(watch, list);
	copy = is_news(watch, list) ? malloc(sizeof(*copy)) : NULL;
	if (!copy) {
		free(list);
		return;
	}
	memcpy(copy, list, sizeof(*copy));
	free(watch->last);
	watch->last = list;
	report(watch, copy, false);
}

/* ---- a look at the machine ------------------------------------------------------------------------------------------- */

static uint64_t look(const struct host_watch *watch)
{
	return watch->file ? changes_of_file(watch->file) : changes_of_machine(watch->sysfs, watch->procfs);
}

static void look_and_report(struct host_watch *watch)
{
	uint64_t seen = look(watch);

	if (seen != watch->seen)
		report(watch, NULL, true);
	watch->seen = seen;
}

/* ---- turns ------------------------------------------------------------------------------------------------------------ */

/* False: it is over. */
static bool wait_for_turn(struct host_watch *watch, uint64_t next_nsec)
{
	const struct timespec until = nsec_to_timespec(next_nsec);
	bool go_on;
	int err = 0;

	pthread_mutex_lock(&watch->lock);
	while (!watch->stop && !err)
		err = pthread_cond_timedwait(&watch->changed, &watch->lock, &until);
	go_on = !watch->stop;
	pthread_mutex_unlock(&watch->lock);
	return go_on;
}

static void leave(struct host_watch *watch)
{
	bool is_last;

	pthread_mutex_lock(&watch->lock);
	is_last = --watch->n_running == 0 && watch->abandoned;
	pthread_cond_broadcast(&watch->changed);
	pthread_mutex_unlock(&watch->lock);
	if (is_last)
		watch_destroy(watch);
}

static void take_turns(struct host_watch *watch, uint64_t next_nsec, uint64_t interval_nsec,
		       void (*turn)(struct host_watch *watch))
{
	while (wait_for_turn(watch, next_nsec)) {
		turn(watch);
		next_nsec = nsec_add(nsec_now(), interval_nsec);
	}
	leave(watch);
}

static void *scan_run(void *arg)
{
	struct host_watch *watch = arg;

	take_turns(watch, nsec_now(), watch->scan_nsec, scan_and_report);
	return NULL;
}

static void *look_run(void *arg)
{
	struct host_watch *watch = arg;

	take_turns(watch, nsec_add(nsec_now(), watch->machine_nsec), watch->machine_nsec, look_and_report);
	return NULL;
}

/* ---- for the control thread ------------------------------------------------------------------------------------------ */

static void init_locks(struct host_watch *watch)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&watch->lock, NULL);
	pthread_cond_init(&watch->changed, &attr);
	pthread_condattr_destroy(&attr);
}

void host_watch_manage(struct host_watch *watch, const struct host_managed *managed)
{
	pthread_mutex_lock(&watch->lock);
	if (watch->n_managed < HOST_LIST_MAX)
		watch->managed[watch->n_managed++] = *managed;
	pthread_mutex_unlock(&watch->lock);
}

/* The changes of the machine count from here on. */
static int copy_attr(struct host_watch *watch, const struct host_watch_attr *attr)
{
	watch->sysfs = strdup(attr->sysfs);
	watch->procfs = attr->procfs ? strdup(attr->procfs) : NULL;
	watch->file = attr->file ? strdup(attr->file) : NULL;
	if (!watch->sysfs || !watch->procfs != !attr->procfs || !watch->file != !attr->file)
		return -ENOMEM;
	watch->scan_nsec = attr->scan_nsec;
	watch->machine_nsec = attr->machine_nsec;
	if (attr->machine_nsec)
		watch->seen = look(watch);
	return 0;
}

static int add_thread(struct host_watch *watch, void *(*run)(void *arg))
{
	int r;

	pthread_mutex_lock(&watch->lock);
	r = thread_start(&watch->threads[watch->n_threads], STACK_BYTES, NULL, run, watch);
	watch->n_threads += r == 0;
	watch->n_running += r == 0;
	pthread_mutex_unlock(&watch->lock);
	return r;
}

int host_watch_new(const struct host_watch_attr *attr, struct host_watch **ret_watch)
{
	struct host_watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (!watch)
		return -ENOMEM;
	init_locks(watch);
	watch->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	for (unsigned int i = 0; i < attr->n_managed; i++)
		host_watch_manage(watch, &attr->managed[i]);
	r = watch->event_fd < 0 ? -EMFILE : copy_attr(watch, attr);
	if (r == 0 && attr->machine_nsec)
		r = add_thread(watch, look_run);
	if (r == 0)
		r = add_thread(watch, scan_run);
	if (r < 0) {
		host_watch_free(watch);
		return r;
	}
	*ret_watch = watch;
	return 0;
}

/* True: the threads have ended, or are about to. */
static bool watch_stop(struct host_watch *watch)
{
	const struct timespec until = nsec_to_timespec(nsec_add(nsec_now(), END_NSEC));
	bool ended;
	int err = 0;

	pthread_mutex_lock(&watch->lock);
	watch->stop = true;
	pthread_cond_broadcast(&watch->changed);
	while (watch->n_running > 0 && !err)
		err = pthread_cond_timedwait(&watch->changed, &watch->lock, &until);
	ended = watch->n_running == 0;
	watch->abandoned = !ended;
	for (unsigned int i = 0; !ended && i < watch->n_threads; i++)
		pthread_detach(watch->threads[i]);
	pthread_mutex_unlock(&watch->lock);
	return ended;
}

struct host_watch *host_watch_free(struct host_watch *watch)
{
	if (!watch || !watch_stop(watch))
		return NULL;
	for (unsigned int i = 0; i < watch->n_threads; i++)
		pthread_join(watch->threads[i], NULL);
	return watch_destroy(watch);
}

int host_watch_fd(const struct host_watch *watch)
{
	return watch->event_fd;
}

void host_watch_take(struct host_watch *watch, struct host_news *ret_news)
{
	eventfd_t n;

	eventfd_read(watch->event_fd, &n);
	pthread_mutex_lock(&watch->lock);
	*ret_news = watch->news;
	watch->news = (struct host_news){0};
	pthread_mutex_unlock(&watch->lock);
}
