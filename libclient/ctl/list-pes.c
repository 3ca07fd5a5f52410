/* SPDX-License-Identifier: Apache-2.0 */
/* shmemctl list pes. For people the PEs of a world stand together, in their order; the daemon lists them by session. */
#include <inttypes.h>
#include <stdio.h>

#include "libclient/ctl/ctl.h"
#include "libclient/ctl/rows.h"

static int pe_item(void *arg, const struct shmd_pe_item *item)
{
	struct json *json = arg;

	json_begin_object(json, NULL);
	ctl_json_pe(json, item->world, item->pe, item->n_pes);
	json_uint(json, "node", item->node);
	json_uint(json, "node_pe", item->node_pe);
	json_uint(json, "session", item->session);
	json_uint(json, "uid", item->uid);
	json_uint(json, "pid", item->pid);
	json_string(json, "command", item->command);
	json_string(json, "nics", item->nics);
	json_string(json, "gpus", item->gpus);
	json_uint(json, "heap_bytes", item->heap_bytes);
	json_uint(json, "n_mapped", item->n_mapped);
	json_uint(json, "n_rc", item->n_rc);
	json_uint(json, "n_dc", item->n_dc);
	json_string(json, "reason", item->reason);
	json_end_object(json);
	return 0;
}

int ctl_json_pes(struct shmd_client *client, struct json *json)
{
	return shmd_admin_pes(client, pe_item, json);
}

static int add_pe(void *arg, const struct shmd_pe_item *item)
{
	return ctl_rows_add(arg, item);
}

static int by_world(const void *a, const void *b)
{
	const struct shmd_pe_item *x = a, *y = b;

	return ctl_order((const uint64_t[]){x->world, x->pe, x->session}, (const uint64_t[]){y->world, y->pe, y->session}, 3);
}

/* "2 mapped, 1 RC" */
static void add_paths(struct table *table, const struct shmd_pe_item *item)
{
	const struct {
		uint32_t n;
		const char *word;
	} paths[] = {{item->n_mapped, "mapped"}, {item->n_rc, "RC"}, {item->n_dc, "DC"}};
	char text[64] = "";
	int used = 0;

	for (unsigned int i = 0; i < sizeof(paths) / sizeof(*paths); i++)
		if (paths[i].n)
			used += snprintf(text + used, sizeof(text) - (size_t)used, "%s%u %s", used ? ", " : "", paths[i].n, paths[i].word);
	table_add(table, "%s", used ? text : "-");
}

static void pe_row(struct table *table, const struct shmd_pe_item *item)
{
	char buf[UNITS_BYTES];

	ctl_table_pe(table, item->world, item->pe, item->n_pes);
	table_add(table, "%u", item->node);
	table_add(table, "%" PRIu64, item->session);
	table_add(table, "%u", item->uid);
	table_add(table, "%u", item->pid);
	table_add(table, "%s", item->command[0] ? item->command : "-");
	table_add(table, "%s", item->gpus[0] ? item->gpus : "-");
	table_add(table, "%s", item->nics[0] ? item->nics : "-");
	table_add(table, "%s", units_bytes(item->heap_bytes, buf));
	add_paths(table, item);
	table_add(table, "%s", item->reason[0] ? item->reason : "-");
}

int ctl_table_pes(struct ctl *ctl)
{
	static const char *const heads[] = {"WORLD", ">PE", ">3NODE", ">SESSION", ">2UID", ">PID", "COMMAND", "~1GPUS", "~NICS",
					    ">HEAP", "PATHS", "~REASON", NULL};
	struct ctl_rows rows;
	struct table table;
	int r;

	ctl_rows_init(&rows, sizeof(struct shmd_pe_item));
	r = shmd_admin_pes(ctl->client, add_pe, &rows);
	ctl_rows_sort(&rows, by_world);
	table_init(&table, heads, ctl->has_color, ctl->max_width);
	for (size_t i = 0; !r && i < rows.n; i++)
		pe_row(&table, ctl_rows_at(&rows, i));
	if (!r)
		table_print(&table, "no PEs", ctl->out);
	table_deinit(&table);
	ctl_rows_deinit(&rows);
	return r;
}
