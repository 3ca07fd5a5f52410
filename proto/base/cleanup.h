/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleanup attributes and visible ownership transfer.
 *
 * A local that owns something carries a cleanup attribute; take_ptr() and take_fd() hand the thing over and
 * leave the local in its null state.
 */
#ifndef SHMEMD_BASE_CLEANUP_H
#define SHMEMD_BASE_CLEANUP_H

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(fn) __attribute__((cleanup(fn)))

/* Defines fn##p for _cleanup_: `type *x` whose destructor is fn(x). */
#define DEFINE_CLEANUP(type, fn)                                \
	static inline void fn##p(type *p)                       \
	{                                                       \
		if (*p)                                         \
			fn(*p);                                 \
	}                                                       \
	struct _cleanup_semicolon_

/* The kernel releases the descriptor even when close() is interrupted, so it is never retried. errno kept. */
static inline int safe_close(int fd)
{
	if (fd >= 0) {
		int saved = errno;

		close(fd);
		errno = saved;
	}
	return -1;
}

static inline void closep(int *fd)
{
	*fd = safe_close(*fd);
}

static inline void freep(void *p)
{
	free(*(void **)p);
}

#define _cleanup_free_ _cleanup_(freep)
#define _cleanup_close_ _cleanup_(closep)

#define take_ptr(ptr)                                   \
	({                                              \
		__typeof__(ptr) *_pp = &(ptr);          \
		__typeof__(ptr) _p = *_pp;              \
		*_pp = NULL;                            \
		_p;                                     \
	})

static inline int take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

#endif
