/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private memory of the process as memory that a NIC can reach: it moves into a memfd while somebody uses it, and back afterwards. The
 * addresses and the contents stay. All worlds of the process share what one of them adopted. Any thread.
 */
#ifndef SHMD_WORLD_ADOPT_H
#define SHMD_WORLD_ADOPT_H

#include <stddef.h>
#include <stdint.h>

#include <shmd.h>

struct adopted;

/*
 * Whole pages. Nobody writes to them during the call. *ret_fd: the memfd, which stays ours; *ret_offset: of addr in it. Errors of
 * shmd_mem_adopt(), -EMFILE.
 */
int adopt(struct shmd_client *client, void *addr, size_t bytes, struct adopted **ret_adopted, int *ret_fd, uint64_t *ret_offset);

/* The last user's call moves the memory back; it is still there, and nobody writes to it. -ENOMEM: it stays in the memfd. NULL is allowed. */
int adopted_return(struct adopted *adopted);
/* Leaves the memory in the memfd, for a user that may have unmapped it. NULL is allowed. */
void adopted_leave(struct adopted *adopted);

#endif
