/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/session/resource.h"
#include "tests/lib/test.h"

TEST(handles_count_from_one)
{
	struct resource_table table;
	struct resource a, b;

	resource_table_init(&table);
	resource_init(&a, RESOURCE_MR);
	resource_init(&b, RESOURCE_QUEUES);
	ASSERT_OK(resource_add(&table, &a));
	ASSERT_OK(resource_add(&table, &b));
	ASSERT_EQ(a.handle, 1);
	ASSERT_EQ(b.handle, 2);
	ASSERT(resource_find(&table, 1, RESOURCE_MR) == &a);
	ASSERT(resource_find(&table, 1, RESOURCE_QUEUES) == NULL);
	ASSERT(resource_find(&table, 0, RESOURCE_MR) == NULL);
	ASSERT(resource_find(&table, UINT32_MAX, RESOURCE_MR) == NULL);
	resource_remove(&table, &a);
	resource_remove(&table, &a);
	resource_remove(&table, &b);
	resource_table_deinit(&table);
}

TEST(stale_handle_is_never_the_next_object)
{
	struct resource_table table;
	struct resource r;
	uint32_t stale[64];

	resource_table_init(&table);
	for (int i = 0; i < 64; i++) {
		resource_init(&r, RESOURCE_MR);
		ASSERT_OK(resource_add(&table, &r));
		for (int k = 0; k < i; k++)
			ASSERT(resource_find(&table, stale[k], RESOURCE_MR) == NULL);
		stale[i] = r.handle;
		resource_remove(&table, &r);
	}
	resource_table_deinit(&table);
}

TEST(table_grows_and_walks_by_slot)
{
	static struct resource all[100];
	struct resource_table table;
	uint32_t slot = 0;

	resource_table_init(&table);
	for (int i = 0; i < 100; i++) {
		resource_init(&all[i], i % 2 ? RESOURCE_MR : RESOURCE_QUEUES);
		ASSERT_OK(resource_add(&table, &all[i]));
	}
	for (int i = 1; i < 100; i += 2, slot++)
		ASSERT(resource_next(&table, RESOURCE_MR, &slot) == &all[i]);
	ASSERT(resource_next(&table, RESOURCE_MR, &slot) == NULL);
	for (int i = 0; i < 100; i++)
		resource_remove(&table, &all[i]);
	resource_table_deinit(&table);
}
