/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved state in a memfd: records by key. A commit changes all of its records or none, at whatever moment its writer is killed.
 *
 * The caller stages changes, then commits them. A commit costs what its records cost, however many others the state has. This
 * module gives the bytes no meaning; STATE_VERSION does. One thread at a time, one writer.
 */
#ifndef SHMEMD_RESTART_STATE_H
#define SHMEMD_RESTART_STATE_H

#include <stddef.h>
#include <stdint.h>

/* Raise it when the bytes of a session or of the node change their meaning, and when the file changes its form. */
#define STATE_VERSION 7u
#define STATE_MAX_BYTES ((size_t)1 << 30) /* of one record, and of what one commit changes */

struct state;

int state_new(struct state **ret); /* a memfd; -ENOMEM, -EMFILE */
/* Takes fd, also on failure. Finishes a commit that its writer did not finish. -EBADMSG: not a saved state; -ENOMEM. */
int state_open(int fd, struct state **ret);
struct state *state_free(struct state *state); /* NULL allowed */

/* Stages a record in place of the one with this key. Equal bytes cost nothing. After a failure the next commit fails as well. */
void state_put(struct state *state, uint64_t key, const void *bytes, size_t n);
void state_remove(struct state *state, uint64_t key); /* unknown keys are fine */
/*
 * Commits everything that is staged, or nothing: after a failure, and after a kill, readers find the state before. In any case
 * nothing is staged afterwards. -ENOMEM, -ENOSPC, -EFBIG.
 */
int state_commit(struct state *state);
/* One record, in place of all that there are, and a commit. */
int state_write(struct state *state, const void *bytes, size_t n);
/* As a daemon of another version would write it. */
int state_write_version(struct state *state, uint32_t version, const void *bytes, size_t n);
/*
 * All records of the last commit by rising key, one behind the other; valid until the next call. -EBADMSG: the file has no
 * readable state; -EPROTONOSUPPORT: the state has another version, *ret_version, and nothing else is set; -ENOMEM.
 */
int state_read(struct state *state, uint32_t *ret_version, const void **ret_bytes, size_t *ret_n);
int state_fd(const struct state *state); /* borrowed */

#endif
