/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/list.h"
#include "tests/lib/test.h"

struct item {
	int number;
	struct list link;
};

/* The numbers of the items from first to last, as one decimal number. */
static int digits(struct list *head)
{
	struct item *item;
	int value = 0;

	list_for_each_entry(item, head, link)
		value = value * 10 + item->number;
	return value;
}

TEST(order_is_that_of_insertion)
{
	struct item a = {1}, b = {2}, c = {3};
	struct list head;

	list_init(&head);
	ASSERT(list_empty(&head));
	list_add_tail(&head, &a.link);
	list_add_tail(&head, &b.link);
	list_add_head(&head, &c.link);
	ASSERT_EQ(digits(&head), 312);
	ASSERT_EQ(list_first_entry(&head, struct item, link)->number, 3);
	ASSERT(!list_empty(&head));
}

TEST(removing_twice_is_harmless)
{
	struct item a = {1}, b = {2};
	struct list head;

	list_init(&head);
	list_add_tail(&head, &a.link);
	list_add_tail(&head, &b.link);
	list_del(&a.link);
	list_del(&a.link);
	ASSERT_EQ(digits(&head), 2);
	ASSERT(list_empty(&a.link));
}

TEST(a_walk_may_remove_its_item)
{
	struct item items[5], *item, *next;
	struct list head;

	list_init(&head);
	for (int i = 0; i < 5; i++) {
		items[i].number = i + 1;
		list_add_tail(&head, &items[i].link);
	}
	list_for_each_entry_safe(item, next, &head, link)
		if (item->number % 2)
			list_del(&item->link);
	ASSERT_EQ(digits(&head), 24);
}

TEST(splice_moves_all_to_the_end)
{
	struct item a = {1}, b = {2}, c = {3};
	struct list to, from;

	list_init(&to);
	list_init(&from);
	list_splice_tail(&to, &from);
	ASSERT(list_empty(&to));
	list_add_tail(&to, &a.link);
	list_add_tail(&from, &b.link);
	list_add_tail(&from, &c.link);
	list_splice_tail(&to, &from);
	ASSERT_EQ(digits(&to), 123);
	ASSERT(list_empty(&from));
}
