/* SPDX-License-Identifier: Apache-2.0 */
/* Where the next page of a list starts, as its client brings it back: session, slot in its table, item of the slot. */
#ifndef SHMEMD_SESSION_LIST_CURSOR_H
#define SHMEMD_SESSION_LIST_CURSOR_H

#include <stdint.h>

struct session;

struct cursor {
	uint64_t session;
	uint32_t slot, item;
};

struct cursor cursor_decode(uint64_t wire); /* of whatever a client sends */
uint64_t cursor_encode(const struct cursor *cursor);
/* The session it names, or the first behind it that the caller may see, from its first slot on; NULL: the list ends. */
struct session *cursor_first(const struct session *caller, struct cursor *cursor);
struct session *cursor_next(const struct session *caller, const struct session *session, struct cursor *cursor);

#endif
