/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the library, and failures. */
#include <stdio.h>
#include <stdlib.h>

#include "libclient/compat/openshmem/openshmem.h"

struct osh osh;

void osh_fail(const char *name, int error)
{
	char text[512];

	if (!osh.world) {
		fprintf(stderr, "%s: OpenSHMEM is not initialised; call shmem_init() first\n", name);
		exit(1);
	}
	(void)error;
	snprintf(text, sizeof(text), "%s: %s", name, shmd_error_text());
	fflush(NULL);
	shmd_world_abort(osh.world, 1, text);
}

int osh_status_slow(const char *name, int error)
{
	if (!osh.world)
		osh_fail(name, error);
	fprintf(stderr, "%s: PE %d: %s\n", name, shmd_my_pe(osh.world), shmd_error_text());
	return 1;
}
