/* SPDX-License-Identifier: Apache-2.0 */
/* In which order clients are heard when many of them ask at once: whoever's user took least of the control thread first. */
#ifndef SHMEMD_TURNS_H
#define SHMEMD_TURNS_H

#include "daemon/loop.h"
#include "proto/base/list.h"

#define TURN_ACCOUNTS 2

struct turns;
struct turn_user;

/* One client's; embedded in it. All zero: none. */
struct turn {
	struct turn_user *user; /* shared by clients of the same keys */
	struct list link; /* waiting */
	void (*fn)(void *arg);
	void *arg;
};

int turns_new(struct loop *loop, struct turns **ret_turns);
struct turns *turns_free(struct turns *turns); /* every turn is gone already; NULL allowed */

/*
 * `fn` hears the client for a bounded time, and does not free it. `keys` are who pays for that time: equal pointers are one account;
 * NULL: nobody. -ENOMEM.
 */
int turn_init(struct turn *turn, struct turns *turns, const void *const keys[TURN_ACCOUNTS], void (*fn)(void *arg), void *arg);
void turn_deinit(struct turn *turn); /* also all zero */

/* The client has something to say: `fn` is called, at once or when its turn has come. Not again by further calls until then. */
void turn_ask(struct turn *turn);

#endif
