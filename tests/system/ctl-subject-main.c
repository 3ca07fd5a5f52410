/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ctl-subject prints "ready" when all objects exist, keeps them until stdin ends, and posts some work for each line on stdin.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/system/ctl-subject.h"

TEST_TIMEOUT(subject, 100)
{
	const char *socket = getenv("SHMEMD_SOCKET");
	struct subject subject;
	char line[64];

	ASSERT(socket);
	subject_open(&subject, socket);
	printf("ready %u %u\n", subject_qpn(&subject.busy, 0), subject_qpn(&subject.failed, 0));
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	/* Killed sessions cannot be closed in order. */
	shmd_client_close(subject.busy.client);
	shmd_client_close(subject.failed.client);
}
