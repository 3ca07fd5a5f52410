/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a call may go on, and the blame when it may not. Never blocks. */
#include <errno.h>
#include <stdio.h>

#include "libclient/runtime/world/process.h"
#include "libclient/runtime/world/session.h"
#include "libclient/runtime/world/world.h"

#define SENTENCE_BYTES 320 /* of the bootstrap, cut */

int world_check(const struct shmd_world *world)
{
	if (!world)
		return shmd_error_set(-EINVAL, "world is NULL: shmd_world_open() makes one");
	if (!process_is(world->pid))
		return shmd_error_set(-ECHILD, "this process was forked from process %d, whose world it is", (int)world->pid);
	return 0;
}

int world_check_started(const struct shmd_world *world)
{
	int r = world_check(world);

	if (!r && !__atomic_load_n(&world->is_started, __ATOMIC_ACQUIRE))
		return shmd_error_set(-ENOTCONN, "the world has no heap yet: call shmd_world_start() first");
	return r;
}

int world_blame(const struct shmd_world *world, int error)
{
	char text[PE_TEXT_BYTES];
	uint32_t n_gone = __atomic_load_n(&world->dev->n_gone, __ATOMIC_ACQUIRE);

	if (n_gone == __atomic_load_n(&world->dev->n_gone_known, __ATOMIC_ACQUIRE))
		return error;
	return shmd_error_set(-EHOSTDOWN, "%s has ended%s",
			      pe_text(world->hellos, (int)__atomic_load_n(&world->dev->first_gone, __ATOMIC_RELAXED), text),
			      n_gone > 1 ? ", and others have" : "");
}

/* The bootstrap's sentence is about a rank. Here it is a PE, with process and node. */
static void name_rank(const struct shmd_world *world, int error, const char *call)
{
	const struct shmd_bootstrap *boot = &world->boot;
	char sentence[SENTENCE_BYTES], text[PE_TEXT_BYTES];

	snprintf(sentence, sizeof(sentence), "%s", shmd_error_text());
	if (boot->n_failed > 0 && boot->failed_rank >= 0 && boot->failed_rank < world->size)
		shmd_error_set(error, "%s: %s%s: %s", call, pe_text(world->hellos, boot->failed_rank, text),
			       boot->n_failed > 1 ? " and others" : "", sentence);
	else
		shmd_error_set(error, "%s: %s", call, sentence);
}

int world_boot_error(struct shmd_world *world, int error, const char *call)
{
	int r;

	/* A call may fail for a PE's end before the watch has reported it. */
	if (error == -ETIMEDOUT || error == -EHOSTDOWN)
		name_rank(world, error, call);
	r = world_blame(world, error);
	return error == -ETIMEDOUT ? world_fail(world, r) : r;
}

struct shmd_request_limit world_requests_begin(const struct shmd_world *world)
{
	struct shmd_request_limit limit = {0};

	if (world->session)
		limit = (struct shmd_request_limit){session_client(world->session), world->dev->timeout_nsec};
	return shmd_request_limit_set(limit);
}

void world_requests_end(struct shmd_request_limit *former)
{
	(void)shmd_request_limit_set(*former);
}
