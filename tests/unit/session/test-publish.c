/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "daemon/session/publish.h"
#include "proto/base/later.h"
#include "tests/lib/test.h"

static const struct publish_key base = {.uid = 1000, .pe = 3, .slot = 1, .world = "0123456789abcde"};

TEST(every_part_of_the_key_counts)
{
	struct publish_key other[4] = {base, base, base, base};
	struct publish_entry *entry = publish_entry_new(&base);
	struct publish_table table;

	ASSERT_OK(publish_table_init(&table));
	ASSERT_OK(publish_add(&table, entry));
	ASSERT(publish_find(&table, &base) == entry);
	other[0].uid++;
	other[1].pe++;
	other[2].slot++;
	other[3].world[15] ^= 1;
	for (int i = 0; i < 4; i++)
		ASSERT(publish_find(&table, &other[i]) == NULL);
	publish_entry_free(entry);
	ASSERT(publish_find(&table, &base) == NULL);
	publish_table_deinit(&table);
}

TEST(second_entry_of_one_key_is_refused)
{
	struct publish_entry *a = publish_entry_new(&base), *b = publish_entry_new(&base);
	struct publish_table table;

	ASSERT_OK(publish_table_init(&table));
	ASSERT_OK(publish_add(&table, a));
	ASSERT_ERR(publish_add(&table, b), EEXIST);
	publish_entry_free(b);
	publish_entry_free(a);
	publish_table_deinit(&table);
}

TEST(many_entries_are_all_found)
{
	static struct publish_entry *all[3000];
	struct publish_table table;

	ASSERT_OK(publish_table_init(&table));
	for (uint32_t i = 0; i < 3000; i++) {
		struct publish_key key = base;

		key.pe = i;
		all[i] = publish_entry_new(&key);
		ASSERT_OK(publish_add(&table, all[i]));
	}
	for (uint32_t i = 0; i < 3000; i++)
		ASSERT(publish_find(&table, &all[i]->key) == all[i]);
	for (uint32_t i = 0; i < 3000; i++)
		publish_entry_free(all[i]);
	publish_table_deinit(&table);
}

TEST(entry_closes_its_descriptor)
{
	struct publish_entry *entry = publish_entry_new(&base);
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	entry->fd = fd;
	publish_entry_free(entry);
	later_wait();
	ASSERT_EQ(fcntl(fd, F_GETFD), -1);
}
