/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon under test: private to each case and with two soft NICs, or those of the backend that SHMEMD_TEST_BACKEND
 * names, unless SHMEMD_SOCKET names a running one.
 */
#include "tests/conformance/fixture.h"

#include <stdlib.h>

#include "tests/lib/fixture-daemon.h"

static struct fixture_daemon private_daemon;

void conf_daemon_start(void)
{
	const char *given = getenv("SHMEMD_SOCKET");

	if (private_daemon.pid || (given && *given))
		return;
	fixture_daemon_start(&private_daemon, "--backend=soft", "--soft-nics=2", "--log-level=warning", NULL);
}

const char *conf_daemon_socket(void)
{
	return private_daemon.pid ? private_daemon.socket : NULL;
}

void conf_daemon_stop(void)
{
	if (private_daemon.pid)
		fixture_daemon_stop(&private_daemon);
}
