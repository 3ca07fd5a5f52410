/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carriers: the service manager keeps many memfds as few descriptors.
 *
 * A carrier is a pair of connected sockets that the manager has. Memfds lie in the queues of the two, each in a packet with its name
 * that nobody receives before the daemon lets go of it. Control thread.
 */
#ifndef SHMEMD_RESTART_STORE_CARRIERS_H
#define SHMEMD_RESTART_STORE_CARRIERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/list.h"

#define CARRIERS_NAMES 2u /* of each carrier */

struct carried; /* one packet */
struct carrier;

struct carriers {
	struct list all; /* struct carrier.link, owned */
	struct list open, dirty; /* struct carrier_queue: with a free place; with packets that are to go */
	struct carrier *spare; /* has no packet; NULL: none */
	unsigned int n, n_carried; /* carriers; packets in them */
	unsigned int last_number;
	bool is_stuck; /* while it settles: there is no room for copies */
	size_t name_bytes; /* of all, with what stands between two */
};

void carriers_init(struct carriers *carriers);
void carriers_deinit(struct carriers *carriers); /* the manager keeps what it has */

/* fd is borrowed, and a memfd that no other open file is behind. -ENOSPC: all are full; others of the system. */
int carriers_put(struct carriers *carriers, const char *name, int fd, struct carried **ret_carried);
/*
 * One more carrier. -EDQUOT: more descriptors may not be in flight, or all numbers were used; -ENOPROTOOPT: the next daemon
 * could not read it.
 */
int carriers_grow(struct carriers *carriers);
/* As fdstore_mark(): the manager keeps this memory as soon as it has its carrier. */
uint64_t carriers_mark(const struct carried *carried);
/* carriers_settle() then takes it out; until then the next daemon would find it. */
void carriers_remove(struct carriers *carriers, struct carried *carried);
/* keep_spare: an empty carrier stays if no other has a free place. */
void carriers_settle(struct carriers *carriers, bool keep_spare);

/* ---- of an earlier daemon --------------------------------------------------------------------------------------------- */

bool carriers_is_name(const char *name);
int carriers_claim(struct carriers *carriers, const char *name, int fd); /* takes fd */
/* False: nobody has use for it; then the packet goes. On success fd is fn's. */
typedef bool (*carriers_found_fn)(void *arg, struct carried *carried, const char *name, int fd);
/* After the last claim: calls fn for each memfd. */
int carriers_claimed(struct carriers *carriers, carriers_found_fn fn, void *arg);

#endif
