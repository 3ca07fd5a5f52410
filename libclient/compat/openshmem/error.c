/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the library, and failures. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "libclient/compat/openshmem/openshmem.h"

#define LAUNCHER_MSEC 2000
#define FLUSH_SEC 1

struct osh osh;

static void *flush(void *unused)
{
	(void)unused;
	/* First: it may wait for ever for another stream. */
	fflush(stdout);
	fflush(NULL);
	return NULL;
}

/* Bytes that stdio still has. Waits for a second at most, since a thread that waits for input holds its stream. */
static void flush_for_a_while(void)
{
	struct timespec end;
	pthread_t thread;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += FLUSH_SEC;
	if (!pthread_create(&thread, NULL, flush, NULL))
		(void)pthread_timedjoin_np(thread, NULL, &end);
}

void osh_fail(const char *name, int error)
{
	char text[768];

	if (!osh.world) {
		fprintf(stderr, "%s: OpenSHMEM is not initialised; call shmem_init() first\n", name);
		exit(1);
	}
	snprintf(text, sizeof(text), "%s: %s%s%s", name, shmd_error_text(),
		 *osh.why_no_globals ? "; global data of the program is not symmetric: " : "", osh.why_no_globals);
	/* The launcher learns of a PE that ended and ends this one, too, with the status of that PE; an abort might come before. */
	if (error == -EHOSTDOWN) {
		flush_for_a_while();
		poll(NULL, 0, LAUNCHER_MSEC);
	}
	shmd_world_abort(osh.world, 1, text);
}

int osh_status_slow(const char *name, int error)
{
	if (!osh.world)
		osh_fail(name, error);
	fprintf(stderr, "%s: PE %d: %s\n", name, shmd_my_pe(osh.world), shmd_error_text());
	return 1;
}
