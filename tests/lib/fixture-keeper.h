/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_LIB_FIXTURE_KEEPER_H
#define SHMD_TESTS_LIB_FIXTURE_KEEPER_H

/*
 * A private shmemd under a service manager that keeps descriptors and starts it anew: fd-keeper. Everything dies with the test's
 * process. The log functions of fixture-daemon.h work on keeper.daemon; its pid is not the test's child.
 *
 *	struct fixture_keeper keeper = {0};
 *
 *	fixture_keeper_start(&keeper, "--soft-nics=2", NULL);
 *	raw_connect(&raw, keeper.daemon.socket);
 *	fixture_keeper_kill_daemon(&keeper);
 *	...
 *	fixture_keeper_stop(&keeper);
 *
 * $SHMEMD_FAULT is for the first start; the daemons after it run without, so that one that a fault point kills comes back.
 */

#include <stdbool.h>
#include <stddef.h>

#include "tests/lib/fixture-daemon.h"

#define FIXTURE_KEEPER_MAX 8192

struct fixture_keeper {
	/* To set before the start, 0: as it is meant to be. */
	const char *program; /* in place of shmemd, with its arguments only */
	unsigned int max; /* how many descriptors are kept; FIXTURE_KEEPER_MAX */
	bool activated; /* the keeper makes the listening socket and keeps it, as shmemd.socket */

	struct fixture_daemon daemon; /* pid: of the one that was ready last */
	pid_t pid; /* of the keeper; 0: not running */
};

/* Options end with NULL. Returns when the daemon says that it is ready; fails the test when it does not. */
void fixture_keeper_start(struct fixture_keeper *keeper, ...) __attribute__((sentinel));
/* As systemctl stop: the daemon must exit with 0, and nothing is kept any more. Removes the folder. */
void fixture_keeper_stop(struct fixture_keeper *keeper);
/* The same without the end of the keeper: fixture_keeper_go starts a daemon that finds nothing. */
void fixture_keeper_stop_daemon(struct fixture_keeper *keeper);

void fixture_keeper_kill_daemon(struct fixture_keeper *keeper); /* SIGKILL; the next one is ready */
void fixture_keeper_restart(struct fixture_keeper *keeper); /* SIGTERM, as systemctl restart; the next one is ready */
void fixture_keeper_hold(struct fixture_keeper *keeper); /* SIGKILL, and no daemon until ... */
void fixture_keeper_go(struct fixture_keeper *keeper);
/* Until the number-th start, from 1, is ready: for daemons that fault points kill. */
void fixture_keeper_wait_start(struct fixture_keeper *keeper, unsigned int number);
unsigned int fixture_keeper_n_starts(struct fixture_keeper *keeper);
/* "NAME=VALUE" for the next start, and for no other. */
void fixture_keeper_set_env(struct fixture_keeper *keeper, const char *text);

/* Names of what is kept, each with a newline behind it; how many they are. */
unsigned int fixture_keeper_list(struct fixture_keeper *keeper, char *names, size_t size);

#endif
