/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/ending.h"

#include "proto/base/nsec.h"

void ending_init(struct ending *ending)
{
	pthread_condattr_t attr;

	*ending = (struct ending){0};
	pthread_mutex_init(&ending->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&ending->changed, &attr);
	pthread_condattr_destroy(&attr);
}

void ending_deinit(struct ending *ending)
{
	pthread_mutex_destroy(&ending->lock);
	pthread_cond_destroy(&ending->changed);
}

bool ending_end(struct ending *ending)
{
	bool is_left;

	pthread_mutex_lock(&ending->lock);
	ending->has_ended = true;
	is_left = ending->is_left;
	pthread_cond_signal(&ending->changed);
	pthread_mutex_unlock(&ending->lock);
	return is_left;
}

bool ending_wait(struct ending *ending, uint64_t deadline)
{
	struct timespec at = nsec_to_timespec(deadline);
	bool ended;

	pthread_mutex_lock(&ending->lock);
	while (!ending->has_ended && nsec_now() < deadline)
		pthread_cond_timedwait(&ending->changed, &ending->lock, &at);
	ended = ending->has_ended;
	ending->is_left = !ended;
	pthread_mutex_unlock(&ending->lock);
	return ended;
}
