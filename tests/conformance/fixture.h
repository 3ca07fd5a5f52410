/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the fixture's own files and by tests that start processes; others use conf.h alone. */
#ifndef TESTS_CONFORMANCE_FIXTURE_H
#define TESTS_CONFORMANCE_FIXTURE_H

#include "tests/conformance/conf.h"

/* Ends the test when the backend has no descriptor. */
const struct conf_backend *conf_backend_find(const char *name);

/* SHMEMD_TEST_MEMORY=gpu */
bool conf_memory_is_gpu(void);
/* Starts a private daemon unless there is one already or SHMEMD_SOCKET names another. */
void conf_daemon_start(void);
/* Socket of the daemon under test; NULL: the library's own default. */
const char *conf_daemon_socket(void);
/* Asks the private daemon to end; fails the test when it does not end with success. */
void conf_daemon_stop(void);

#endif
