/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the whole job under SHMD_ABORT_ON_ERROR: for a PE that ended, and for calls that fail in a way that leaves others waiting. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "libclient/runtime/bootstrap/last-words.h"
#include "libclient/runtime/world/world.h"

#define SENTENCE_BYTES 480

void world_end_job(struct shmd_world *world, const char *sentence)
{
	if (__atomic_exchange_n(&world->dev->ended, 1, __ATOMIC_ACQ_REL))
		return;
	last_flush();
	world->boot.ops->abort(&world->boot, 1, sentence);
	_exit(1);
}

int world_fail(struct shmd_world *world, int error)
{
	char sentence[SENTENCE_BYTES], text[PE_TEXT_BYTES];

	/* The watch ends the job for a PE that ended; other errors are of this call alone, or all PEs have them. */
	if (!world->settings.abort_on_error || (error != -ETIMEDOUT && error != -EIO && error != -ECONNRESET))
		return error;
	snprintf(sentence, sizeof(sentence), "%s: %s", pe_text(world->hellos, world->rank, text), shmd_error_text());
	world_end_job(world, sentence);
	return error;
}
