/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which the control thread serves clients that ask at the same time: fair between users. */
#ifndef SHMEMD_CLIENTS_FAIR_TURNS_H
#define SHMEMD_CLIENTS_FAIR_TURNS_H

#include <stdbool.h>

#include "daemon/loop.h"
#include "proto/base/list.h"

#define TURN_ACCOUNTS 2

struct turns;
struct turn_user;

/* A client's turn, embedded in the client. All zero: none. */
struct turn {
	struct turn_user *user; /* shared by clients of the same keys */
	struct list link; /* waiting */
	void (*fn)(void *arg);
	void *arg;
};

int turns_new(struct loop *loop, struct turns **ret_turns); /* 0 or -ENOMEM */
struct turns *turns_free(struct turns *turns); /* after every turn; NULL allowed */

/*
 * `fn` serves the client for a bounded time and does not free it. `keys` name the accounts that pay for that time: equal
 * pointers are one account, NULL is none. -ENOMEM.
 */
int turn_init(struct turn *turn, struct turns *turns, const void *const keys[TURN_ACCOUNTS],
	      void (*fn)(void *arg), void *arg);
void turn_deinit(struct turn *turn); /* may be all zero */

/* Calls `fn` once, now or later. Further calls until then change nothing. */
void turn_ask(struct turn *turn);
bool turn_waits(const struct turn *turn); /* it has asked and is not served yet; false for all zero */

#endif
