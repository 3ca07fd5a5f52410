/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shmemctl list paths, and the paths of one user for info. For people the PEs of a world stand together, in their order; the daemon lists
 * them by session.
 */
#include <unistd.h>

#include "libclient/ctl/ctl.h"
#include "libclient/ctl/rows.h"

static const char *path_word(enum shmd_pe_path path)
{
	static const char *const words[] = {[SHMD_PE_PATH_MAPPED] = "mapped", [SHMD_PE_PATH_RC] = "RC", [SHMD_PE_PATH_DC] = "DC",
					    [SHMD_PE_PATH_NONE] = "none", [SHMD_PE_PATH_MORE] = "several"};

	return (unsigned int)path < sizeof(words) / sizeof(*words) && words[path] ? words[path] : "unknown";
}

static int path_item(void *arg, const struct shmd_path_item *item)
{
	struct json *json = arg;

	json_begin_object(json, NULL);
	ctl_json_pe(json, item->world, item->pe, item->n_pes);
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

static int add_path(void *arg, const struct shmd_path_item *item)
{
	return ctl_rows_add(arg, item);
}

static int by_world(const void *a, const void *b)
{
	const struct shmd_path_item *x = a, *y = b;

	return ctl_order((const uint64_t[]){x->world, x->pe, x->session, x->first},
			 (const uint64_t[]){y->world, y->pe, y->session, y->first}, 4);
}

static void path_row(struct table *table, const struct shmd_path_item *item)
{
	ctl_table_pe(table, item->world, item->pe, item->n_pes);
	if (item->first == item->last)
		table_add(table, "%u", item->first);
	else
		table_add(table, "%u-%u", item->first, item->last);
	table_add(table, "%s", path_word(item->path));
	table_add(table, "%s", item->nic[0] ? item->nic : "-");
	table_add(table, "%s", item->reason[0] ? item->reason : "-");
}

static void print_rows(struct ctl *ctl, struct ctl_rows *rows, const char *empty)
{
	static const char *const heads[] = {"WORLD", ">PE", ">TO", "PATH", "NIC", "~REASON", NULL};
	struct table table;

	ctl_rows_sort(rows, by_world);
	table_init(&table, heads, ctl->has_color, ctl->max_width);
	for (size_t i = 0; i < rows->n; i++)
		path_row(&table, ctl_rows_at(rows, i));
	table_print(&table, empty, ctl->out);
	table_deinit(&table);
}

int ctl_table_paths(struct ctl *ctl)
{
	struct ctl_rows rows;
	int r;

	ctl_rows_init(&rows, sizeof(struct shmd_path_item));
	r = shmd_admin_paths(ctl->client, add_path, &rows);
	if (!r)
		print_rows(ctl, &rows, "no paths");
	ctl_rows_deinit(&rows);
	return r;
}

/* ---- of one user */

struct own_paths {
	uid_t uid;
	struct ctl_rows sessions; /* of the user's PEs: uint64_t */
	struct ctl_rows paths; /* struct shmd_path_item */
};

static int add_session(void *arg, const struct shmd_pe_item *item)
{
	struct own_paths *own = arg;

	return item->uid == own->uid ? ctl_rows_add(&own->sessions, &item->session) : 0;
}

static int add_own_path(void *arg, const struct shmd_path_item *item)
{
	struct own_paths *own = arg;
	bool is_own = false;

	for (size_t i = 0; !is_own && i < own->sessions.n; i++)
		is_own = *(const uint64_t *)ctl_rows_at(&own->sessions, i) == item->session;
	return is_own ? ctl_rows_add(&own->paths, item) : 0;
}

static int collect_own(struct shmd_client *client, struct own_paths *own)
{
	int r;

	own->uid = geteuid();
	ctl_rows_init(&own->sessions, sizeof(uint64_t));
	ctl_rows_init(&own->paths, sizeof(struct shmd_path_item));
	r = shmd_admin_pes(client, add_session, own);
	if (!r)
		r = shmd_admin_paths(client, add_own_path, own);
	ctl_rows_deinit(&own->sessions);
	return r;
}

int ctl_table_own_paths(struct ctl *ctl, struct shmd_client *client)
{
	struct own_paths own;
	int r = collect_own(client, &own);

	if (!r)
		print_rows(ctl, &own.paths, "no paths: this user runs no world with several PEs");
	ctl_rows_deinit(&own.paths);
	return r;
}

int ctl_json_own_paths(struct shmd_client *client, struct json *json)
{
	struct own_paths own;
	int r = collect_own(client, &own);

	ctl_rows_sort(&own.paths, by_world);
	for (size_t i = 0; !r && i < own.paths.n; i++)
		path_item(json, ctl_rows_at(&own.paths, i));
	ctl_rows_deinit(&own.paths);
	return r;
}
