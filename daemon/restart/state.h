/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved state in a memfd: records by key, which change together, whatever moment their writer is killed at.
 *
 * Changes are staged, then committed; the cost of a commit is that of the records which change, however many others there
 * are. Bytes have no meaning here, and a version says what they mean to the daemon. One thread at a time; one writer.
 */
#ifndef SHMEMD_RESTART_STATE_H
#define SHMEMD_RESTART_STATE_H

#include <stddef.h>
#include <stdint.h>

/* Another number for every other meaning of the bytes of a session or of the node, and for another form of the file. */
#define STATE_VERSION 4u
#define STATE_MAX_BYTES ((size_t)1 << 30) /* of one record, and of what one commit changes */

struct state;

int state_new(struct state **ret); /* a memfd; -ENOMEM, -EMFILE */
/* Takes fd, also on failure. Finishes a commit that its writer did not finish. -EBADMSG: it is no saved state; -ENOMEM. */
int state_open(int fd, struct state **ret);
struct state *state_free(struct state *state); /* NULL allowed */

/* Stage a record, in place of the one with this key. Bytes that it has already cost nothing. What fails makes the commit fail. */
void state_put(struct state *state, uint64_t key, const void *bytes, size_t n);
void state_remove(struct state *state, uint64_t key); /* unknown keys are fine */
/*
 * All that was staged, or nothing: on failure, and for whoever reads what a killed writer left, the state is the one before.
 * Nothing is staged afterwards. -ENOMEM, -ENOSPC, -EFBIG.
 */
int state_commit(struct state *state);
/* One record, in place of all that there are, and a commit. */
int state_write(struct state *state, const void *bytes, size_t n);
/* As a daemon of another version would write it. */
int state_write_version(struct state *state, uint32_t version, const void *bytes, size_t n);
/*
 * All records by rising key, one behind the other, as they were committed last; valid until the next call. -EBADMSG: there is
 * no state; -EPROTONOSUPPORT: it is of another version, *ret_version, and nothing else is set; -ENOMEM.
 */
int state_read(struct state *state, uint32_t *ret_version, const void **ret_bytes, size_t *ret_n);
int state_fd(const struct state *state); /* borrowed */

#endif
