/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_LIB_FIXTURE_DAEMON_H
#define SHMD_TESTS_LIB_FIXTURE_DAEMON_H

/*
 * A private shmemd in a folder of its own, without a configuration file. The binary is $SHMEMD_BINARY (an older one, for
 * version skew), else the one of this build. It dies with the test's process, also when that is killed. The folder of
 * a test that fails stays, with the log. For scripts there is with-daemon.sh.
 *
 *	struct fixture_daemon daemon;
 *
 *	fixture_daemon_start(&daemon, "--soft-nics=4", "--max-qps=100", NULL);
 *	raw_connect(&raw, daemon.socket);
 *	...
 *	fixture_daemon_stop(&daemon);
 */

#include <stdbool.h>
#include <sys/types.h>

struct fixture_daemon {
	pid_t pid; /* 0: not running */
	char folder[80]; /* below $TMPDIR, else /tmp */
	char socket[96];
	char log[96]; /* standard error of the daemon */
};

/* Options end with NULL. Returns when clients can connect; fails the test, with the log, when that does not happen. */
void fixture_daemon_start(struct fixture_daemon *daemon, ...) __attribute__((sentinel));
/* SIGTERM; the daemon must exit with 0. Removes the folder. */
void fixture_daemon_stop(struct fixture_daemon *daemon);
/* SIGKILL. Removes the folder. */
void fixture_daemon_kill(struct fixture_daemon *daemon);

/* The folder alone, and the paths in it, for tests that start the daemon in another way. */
void fixture_daemon_make_folder(struct fixture_daemon *daemon);

/* Is the daemon there and answering? Fails the test otherwise. */
void fixture_daemon_assert_alive(const struct fixture_daemon *daemon);
/* Print what the daemon logged. */
void fixture_daemon_print_log(const struct fixture_daemon *daemon);
bool fixture_daemon_has_logged(const struct fixture_daemon *daemon, const char *words);
/* Waits for words in the log: others may hear of an event before its line is written. */
void fixture_daemon_assert_logged(const struct fixture_daemon *daemon, const char *words);

/* Path of the daemon's binary. */
const char *fixture_daemon_binary(void);
/* Run the binary with these arguments, NULL-terminated, until it exits; standard output and error go to out. */
int fixture_daemon_run(const char *const *args, char *out, size_t size);

#endif
