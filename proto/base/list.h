/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intrusive doubly linked list. A head is a struct list linked to itself; a link that is linked to itself is
 * in no list, so removing twice is harmless after list_init or list_del.
 */
#ifndef SHMEMD_BASE_LIST_H
#define SHMEMD_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *prev;
	struct list *next;
};

#ifndef container_of
#define container_of(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))
#endif

static inline void list_init(struct list *l)
{
	l->prev = l;
	l->next = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_insert_after(struct list *at, struct list *l)
{
	l->prev = at;
	l->next = at->next;
	at->next->prev = l;
	at->next = l;
}

/* Append to / prepend to a list given by its head. */
static inline void list_add_tail(struct list *head, struct list *l)
{
	list_insert_after(head->prev, l);
}

static inline void list_add_head(struct list *head, struct list *l)
{
	list_insert_after(head, l);
}

static inline void list_del(struct list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}

/* Move everything in `from` to the end of `to`; `from` is empty afterwards. */
static inline void list_splice_tail(struct list *to, struct list *from)
{
	if (list_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	list_init(from);
}

#define list_for_each_entry(pos, head, member)                                        \
	for ((pos) = container_of((head)->next, __typeof__(*(pos)), member);          \
	     &(pos)->member != (head);                                                \
	     (pos) = container_of((pos)->member.next, __typeof__(*(pos)), member))

/* As above; `pos` may be removed or freed in the body. */
#define list_for_each_entry_safe(pos, tmp, head, member)                              \
	for ((pos) = container_of((head)->next, __typeof__(*(pos)), member),          \
	    (tmp) = container_of((pos)->member.next, __typeof__(*(pos)), member);     \
	     &(pos)->member != (head);                                                \
	     (pos) = (tmp), (tmp) = container_of((tmp)->member.next, __typeof__(*(tmp)), member))

#define list_first_entry(head, type, member) container_of((head)->next, type, member)

#endif
