/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doorbell mode cpu: clients ring a word in shared memory, and a thread of the daemon rings the NIC's register for them.
 *
 * A NIC has such a thread, a bell, for each user with pages; a page is the doorbell page of one context, with the queues that it
 * may ring. Nothing here knows rdma-core: a register is an address.
 *
 * Threads: a page is used by one thread at a time, pages beside each other. Adding and removing waits for a look at the pages of
 * the same user, which takes as long as that user's memory makes the bell sleep.
 */
#ifndef SHMEMD_NIC_MLX5_BELL_H
#define SHMEMD_NIC_MLX5_BELL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/nic/nic.h"
#include "proto/base/cleanup.h"
#include "proto/base/list.h"

/* On Arm a store to a device needs a barrier of the outer domain, which plain C has no word for: not offered there. */
#if defined(__x86_64__)
#define MLX5_HAS_BELL 1
#else
#define MLX5_HAS_BELL 0
#endif

#define BELLS_MAX 256u /* users with pages on one NIC */

struct bell_page;

struct bells_attr {
	const char *name; /* of the NIC, for the threads' names; borrowed */
	uint32_t gpu_poll_usec; /* at least 1: how often pages are looked at whose queues a GPU drives */
	uint32_t spin_usec; /* how long an idle thread spins and yields before it sleeps */
};

/* The bells of one NIC. */
struct bells {
	struct bells_attr attr;
	pthread_mutex_t lock; /* of what follows */
	struct list all;
	uint32_t n;
};

/* Where nic_saved_fds has what a page needs to go on in another process; the first is none of these. */
enum {
	MLX5_SAVED_NIC_PAGE = 1,
	MLX5_SAVED_PAGE = 2,
	MLX5_SAVED_WAKE = 3,
	MLX5_SAVED_FDS = 4,
};

void bells_init(struct bells *bells, const struct bells_attr *attr);
/* All pages are freed already. */
void bells_deinit(struct bells *bells);

struct bell_page_attr {
	uint32_t uid; /* of the user who writes the page and the dbrecs */
	uint64_t *reg; /* where its NIC is rung: 8 bytes, aligned, mapped for as long as the page lives */
	const struct nic_saved_fds *saved; /* of a page that another process had, which its client goes on to ring; or NULL */
};

/*
 * A page for one context. Fills *doorbell but its reason; the descriptors in it are the page's. -EBADF: what is saved is no such
 * page; -EUSERS: as many users as a NIC can have.
 */
int bell_page_new(struct bells *bells, const struct bell_page_attr *attr, struct nic_doorbell *doorbell,
		  struct bell_page **ret_page);
/* Adds its descriptors, which stay the page's. */
void bell_page_saved_fds(const struct bell_page *page, struct nic_saved_fds *saved);
struct bell_page *bell_page_free(struct bell_page *page);
DEFINE_CLEANUP(struct bell_page *, bell_page_free);

/* `snd_be` is the send word of the QP's dbrec, mapped until the QP is removed. -ENOMEM. */
int bell_page_add(struct bell_page *page, uint32_t qpn, const uint32_t *snd_be, bool gpu_driven);
/* Rings no later post of this QP. Ignores an unknown number. */
void bell_page_remove(struct bell_page *page, uint32_t qpn);
/* The QP was reset: its indexes begin at 0 again. */
void bell_page_reset(struct bell_page *page, uint32_t qpn);
/* All posts up to now were rung by others. Called before a client has the page. */
void bell_page_catch_up(struct bell_page *page);
/* The state of earlier doorbells is unknown: rings every QP whose dbrec is not 0. */
void bell_page_look_at_all(struct bell_page *page);
/* Stops polling this page. */
void bell_page_silence(struct bell_page *page);

#endif
