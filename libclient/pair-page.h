/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page that one side of a pair publishes for the other, and the entry that leads to it.
 *
 * The page is a memfd of its owner, sealed so that no other process can write or resize it. The reader trusts no number in it, and
 * takes sizes from the entry, which the daemon has copied. pair_page_map() compares the entry with the file before it maps it.
 */
#ifndef SHMEMCLIENT_PAIR_PAGE_H
#define SHMEMCLIENT_PAIR_PAGE_H

#include <stddef.h>
#include <stdint.h>

#include <shmemclient.h>

/* Published data. Both sides run on one machine, so numbers are native. */
struct pair_entry {
	uint32_t version; /* PAIR_VERSION */
	uint32_t n_qps;
	uint32_t data_bytes;
	uint32_t reserved;
	uint64_t nonce; /* another one in each call, never 0 */
};
#define PAIR_VERSION 1u

enum pair_state {
	PAIR_WAITS = 0,
	PAIR_CONNECTED = 1,
	PAIR_GAVE_UP = 2,
};

struct pair_page {
	uint32_t state; /* atomic: enum pair_state */
	char why[252]; /* of PAIR_GAVE_UP, written before */
	uint64_t answers; /* atomic: nonce of the peer's entry that the owner uses; 0: none yet */
	struct shmd_addr addrs[]; /* n_qps, then data_bytes of data */
};

/* A page with a copy of data, mapped for writing here alone; the caller fills in addrs. Errors have a text. */
int pair_page_new(unsigned int n_qps, const void *data, size_t bytes, struct pair_page **ret_page, struct pair_entry *ret_entry,
		  int *ret_fd);
/* A peer's page. -EPROTO, without text: it does not match the entry. */
int pair_page_map(const struct pair_entry *entry, int fd, const struct pair_page **ret_page);
/* NULL is allowed. */
void pair_page_unmap(const struct pair_page *page, unsigned int n_qps, size_t bytes);

const void *pair_page_data(const struct pair_page *page, unsigned int n_qps);
/* `why` may be NULL. GAVE_UP, too, replaces CONNECTED. */
void pair_page_set(struct pair_page *page, enum pair_state state, const char *why);
/* Also copies the reason of PAIR_GAVE_UP, as printable text. */
enum pair_state pair_page_state(const struct pair_page *page, char why[252]);
/* Set before the state: the call whose page the owner uses. PAIR_CONNECTED is for that call alone. */
void pair_page_answer(struct pair_page *page, uint64_t nonce);
uint64_t pair_page_answers(const struct pair_page *page);

#endif
