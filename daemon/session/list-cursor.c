/* SPDX-License-Identifier: Apache-2.0 */
/*
 * It names ids and slots, no objects, so it stays right while sessions come and go. Control thread.
 */
#include "daemon/session/list-cursor.h"

#include "daemon/session/session.h"

#define CURSOR_ITEM_BITS 12
#define CURSOR_SLOT_BITS RESOURCE_SLOT_BITS

_Static_assert(MSG_MAX_QPS < (1 << CURSOR_ITEM_BITS), "a QP's place in its batch fits the cursor");

struct cursor cursor_decode(uint64_t wire)
{
	return (struct cursor){
		.session = wire >> (CURSOR_SLOT_BITS + CURSOR_ITEM_BITS),
		.slot = wire >> CURSOR_ITEM_BITS & RESOURCE_MAX,
		.item = wire & ((1u << CURSOR_ITEM_BITS) - 1),
	};
}

uint64_t cursor_encode(const struct cursor *cursor)
{
	return cursor->session << (CURSOR_SLOT_BITS + CURSOR_ITEM_BITS) |
	       (uint64_t)cursor->slot << CURSOR_ITEM_BITS | cursor->item;
}

/* `session` or the first behind it that the caller may see; a new one starts at its first slot. */
static struct session *visible_from(const struct session *caller, struct session *session, struct cursor *cursor)
{
	while (session && !session_may_see(caller, session->identity.uid))
		session = registry_session_after(caller->registry, session);
	if (session && session->id != cursor->session)
		*cursor = (struct cursor){.session = session->id};
	return session;
}

struct session *cursor_first(const struct session *caller, struct cursor *cursor)
{
	return visible_from(caller, registry_next_session(caller->registry, cursor->session), cursor);
}

struct session *cursor_next(const struct session *caller, const struct session *session, struct cursor *cursor)
{
	return visible_from(caller, registry_session_after(caller->registry, session), cursor);
}
