/* SPDX-License-Identifier: Apache-2.0 */
/* shmemctl list paths. For people the PEs of a world stand together, in their order; the daemon lists them by session. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "libclient/ctl/ctl.h"

static const char *path_word(enum shmd_pe_path path)
{
	static const char *const words[] = {[SHMD_PE_PATH_MAPPED] = "mapped", [SHMD_PE_PATH_RC] = "RC", [SHMD_PE_PATH_DC] = "DC",
					    [SHMD_PE_PATH_NONE] = "none", [SHMD_PE_PATH_MORE] = "several"};

	return (unsigned int)path < sizeof(words) / sizeof(*words) && words[path] ? words[path] : "unknown";
}

static int path_item(void *arg, const struct shmd_path_item *item)
{
	struct json *json = arg;
	char world[17];

	snprintf(world, sizeof(world), "%016" PRIx64, item->world);
	json_begin_object(json, NULL);
	json_string(json, "world", world);
	json_uint(json, "pe", item->pe);
	json_uint(json, "n_pes", item->n_pes);
	json_uint(json, "session", item->session);
	json_uint(json, "first", item->first);
	json_uint(json, "last", item->last);
	json_string(json, "path", path_word(item->path));
	json_string(json, "nic", item->nic);
	json_string(json, "reason", item->reason);
	json_end_object(json);
	return 0;
}

int ctl_json_paths(struct shmd_client *client, struct json *json)
{
	return shmd_admin_paths(client, path_item, json);
}

struct path_rows {
	struct shmd_path_item *items; /* owned */
	size_t n, room;
};

static int add_path(void *arg, const struct shmd_path_item *item)
{
	struct path_rows *rows = arg;

	if (rows->n == rows->room) {
		size_t room = rows->room ? 2 * rows->room : 64;
		struct shmd_path_item *more = reallocarray(rows->items, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		rows->items = more;
		rows->room = room;
	}
	rows->items[rows->n++] = *item;
	return 0;
}

static int by_number(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int by_world(const void *a, const void *b)
{
	const struct shmd_path_item *x = a, *y = b;

	if (x->world != y->world)
		return by_number(x->world, y->world);
	if (x->pe != y->pe)
		return by_number(x->pe, y->pe);
	return x->session != y->session ? by_number(x->session, y->session) : by_number(x->first, y->first);
}

static void path_row(struct table *table, const struct shmd_path_item *item)
{
	/* The first digits are enough to tell worlds apart. */
	table_add(table, "%08" PRIx32, (uint32_t)(item->world >> 32));
	table_add(table, "%u of %u", item->pe, item->n_pes);
	if (item->first == item->last)
		table_add(table, "%u", item->first);
	else
		table_add(table, "%u-%u", item->first, item->last);
	table_add(table, "%s", path_word(item->path));
	table_add(table, "%s", item->nic[0] ? item->nic : "-");
	table_add(table, "%s", item->reason[0] ? item->reason : "-");
}

int ctl_table_paths(struct ctl *ctl)
{
	static const char *const heads[] = {"WORLD", ">PE", ">TO", "PATH", "NIC", "~REASON", NULL};
	struct path_rows rows = {0};
	struct table table;
	int r = shmd_admin_paths(ctl->client, add_path, &rows);

	if (!r && rows.n)
		qsort(rows.items, rows.n, sizeof(*rows.items), by_world);
	table_init(&table, heads, ctl->has_color, ctl->max_width);
	for (size_t i = 0; !r && i < rows.n; i++)
		path_row(&table, &rows.items[i]);
	if (!r)
		table_print(&table, "no paths", ctl->out);
	table_deinit(&table);
	free(rows.items);
	return r;
}
