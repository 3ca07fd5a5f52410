/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doorbell mode cpu: clients ring a word in shared memory, and a thread of the daemon rings the NIC's register for them.
 *
 * A bell is the thread of one NIC; a page is the doorbell page of one context, with the queues that it may ring. Nothing
 * here knows rdma-core: a register is an address.
 *
 * Threads: a page is used by one thread at a time, pages beside each other. Adding and removing waits for a look at
 * the pages at most.
 */
#ifndef SHMEMD_NIC_MLX5_BELL_H
#define SHMEMD_NIC_MLX5_BELL_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/nic/nic.h"
#include "proto/base/cleanup.h"

/* On Arm a store to a device needs a barrier of the outer domain, which plain C has no word for: not offered there. */
#if defined(__x86_64__)
#define MLX5_HAS_BELL 1
#else
#define MLX5_HAS_BELL 0
#endif

struct bell;
struct bell_page;

struct bell_attr {
	const char *name; /* of the NIC, for the thread's name */
	uint32_t gpu_poll_usec; /* at least 1: how often pages are looked at whose queues a GPU drives */
	uint32_t spin_usec; /* how long an idle thread spins and yields before it sleeps */
	const int *nic_page_fd; /* of a process of before, which clients map: borrowed. NULL: a new one */
};

/* Where nic_saved_fds has what a page needs to go on in another process; the first is none of these. */
enum {
	MLX5_SAVED_NIC_PAGE = 1,
	MLX5_SAVED_PAGE = 2,
	MLX5_SAVED_WAKE = 3,
	MLX5_SAVED_FDS = 4,
};

/* The thread sleeps until there is a page. Negative errno; -EBADF of a NIC page that is none. */
int bell_new(const struct bell_attr *attr, struct bell **ret_bell);
/* It is this NIC page that its clients map. */
bool bell_has_page(const struct bell *bell, int nic_page_fd);
/* All pages are freed already. */
struct bell *bell_free(struct bell *bell);
DEFINE_CLEANUP(struct bell *, bell_free);

/*
 * A page for one context whose NIC is rung at `reg` (8 bytes, aligned, mapped for as long as the page lives). Fills
 * *doorbell but its reason; the descriptors in it are the page's. `saved` has those of a page that another process had, which
 * the client goes on to ring, or is NULL. -EBADF of what is no such page.
 */
int bell_page_new(struct bell *bell, uint64_t *reg, const struct nic_saved_fds *saved, struct nic_doorbell *doorbell,
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
