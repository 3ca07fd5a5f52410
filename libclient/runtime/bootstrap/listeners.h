/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners of the ids that this process has made and not opened yet. Any thread; a forked child inherits them. */
#ifndef SHMD_RUNTIME_LISTENERS_H
#define SHMD_RUNTIME_LISTENERS_H

#include <shmd-bootstrap.h>

#define LISTENERS_MOST 64

/* Owns fd, also on failure: -EMFILE with a sentence. */
int listeners_add(const struct shmd_uid *uid, int fd);
/* The caller's then; -1: there is none. */
int listeners_take(const struct shmd_uid *uid);

#endif
