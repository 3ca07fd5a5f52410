/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saved state in a memfd: the last write that was finished, whatever moment its writer was killed at.
 *
 * Two halves; a write goes to the older one, and the newer one is not touched. Bytes have no meaning here, and a version
 * that says what they mean to whom. One thread at a time; one writer.
 */
#ifndef SHMEMD_RESTART_STATE_H
#define SHMEMD_RESTART_STATE_H

#include <stddef.h>
#include <stdint.h>

/* Of what the daemon writes: another number for every other meaning of the bytes, of a session's or of the node's. */
#define STATE_VERSION 3u
#define STATE_MAX_BYTES ((size_t)1 << 30)

struct state;

int state_new(struct state **ret); /* a memfd; -ENOMEM, -EMFILE */
/* Takes fd, also on failure. -EBADMSG: it is no saved state. */
int state_open(int fd, struct state **ret);
struct state *state_free(struct state *state); /* NULL allowed */

/* All or nothing: on failure, and for who reads what a killed writer left, the state is the one before. -ENOSPC, -EFBIG. */
int state_write(struct state *state, const void *bytes, size_t n);
/* As a daemon of another version would write it. */
int state_write_version(struct state *state, uint32_t version, const void *bytes, size_t n);
/*
 * The newest whole state, valid until the next write. -EBADMSG: there is none; -EPROTONOSUPPORT: it is of another
 * version, *ret_version, and nothing else is set.
 */
int state_read(struct state *state, uint32_t *ret_version, const void **ret_bytes, size_t *ret_n);
int state_fd(const struct state *state); /* borrowed */

#endif
