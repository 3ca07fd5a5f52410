/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A full fence: what this thread stored before it is seen by whoever stores something else, fences, and does not see what this thread loads
 * behind it. For "I sleep" against "there is news". Any thread.
 */
#ifndef SHMEMD_BASE_FENCE_H
#define SHMEMD_BASE_FENCE_H

#include <stdint.h>

/* ThreadSanitizer knows no fences; an atomic of its own orders the same here. */
static inline void full_fence(void)
{
#if defined(__SANITIZE_THREAD__)
	uint32_t fence = 0;

	__atomic_fetch_add(&fence, 1, __ATOMIC_SEQ_CST);
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

#endif
