/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NIC page, which every client of a NIC reads and the NIC's thread alone writes.
 *
 * Clients look there whether they must wake the thread. One that goes to sleep says so first, then looks once more at all that
 * clients may have rung before they saw it, and only then sleeps.
 */
#ifndef SHMEMD_NIC_PAGE_H
#define SHMEMD_NIC_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include <shmd/abi/doorbell.h>

struct nic_page {
	int fd; /* owned; for the next process. -1: the page ends with this one */
	int client_fd; /* owned; what clients get: for reading */
	struct shmd_nic_page *told; /* mapped, SHMD_DB_PAGE_BYTES: what lies behind is the backend's own */
};

#define NIC_PAGE_NONE ((struct nic_page){.fd = -1, .client_fd = -1})

/* One that is saved may outlive the process. -EMFILE, -ENOMEM. */
int nic_page_create(bool is_saved, struct nic_page *ret_page);
/* One that a former process has saved; `fd` is borrowed. -EBADF it is none; -EMFILE, -ENOMEM. */
int nic_page_adopt(int fd, struct nic_page *ret_page);
/* For a saved page: `fd` names it too. */
bool nic_page_is(const struct nic_page *page, int fd);
void nic_page_deinit(struct nic_page *page);

/* The NIC's thread: */

/* It lives. */
void nic_page_beat(const struct nic_page *page);
/* It lives, and is about to sleep or back. Doorbells rung before clients saw it are visible when this returns. */
void nic_page_set_asleep(const struct nic_page *page, bool asleep);

#endif
