/* SPDX-License-Identifier: Apache-2.0 */
/* shmemctl list pes, and the PEs of one user for info. For people the PEs of a world stand together, in their order; the daemon lists them by session. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "libclient/ctl/ctl.h"
#include "libclient/ctl/rows.h"

static void json_gpu_heap(struct json *json, const struct shmd_pe_gpu *gpu)
{
	json_begin_object(json, "gpu_heap");
	json_string(json, "gpu", gpu->gpu);
	json_uint(json, "heap_bytes", gpu->heap_bytes);
	json_uint(json, "used_bytes", gpu->used_bytes);
	json_uint(json, "n_chunks", gpu->n_chunks);
	json_uint(json, "n_mapped", gpu->n_mapped);
	json_string(json, "registered", gpu->mem_kind ? ctl_mem_kind(gpu->mem_kind) : "");
	json_uint(json, "bytes_put", gpu->bytes_put);
	json_uint(json, "bytes_got", gpu->bytes_got);
	json_end_object(json);
}

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
	json_gpu_heap(json, &item->gpu);
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

/* "12.0 MiB of 64.0 MiB, 2 chunks, dmabuf" */
static void add_gpu_heap(struct table *table, const struct shmd_pe_gpu *gpu)
{
	char used[UNITS_BYTES], all[UNITS_BYTES];

	if (!gpu->heap_bytes) {
		table_add(table, "-");
		return;
	}
	table_add(table, "%s of %s, %u chunk%s%s%s", units_bytes(gpu->used_bytes, used), units_bytes(gpu->heap_bytes, all), gpu->n_chunks,
		  gpu->n_chunks == 1 ? "" : "s", gpu->mem_kind ? ", " : "", gpu->mem_kind ? ctl_mem_kind(gpu->mem_kind) : "");
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
	table_add(table, "%s", item->gpus[0] ? item->gpus : item->gpu.gpu[0] ? item->gpu.gpu : "-");
	table_add(table, "%s", item->nics[0] ? item->nics : "-");
	table_add(table, "%s", units_bytes(item->heap_bytes, buf));
	add_gpu_heap(table, &item->gpu);
	add_paths(table, item);
	table_add(table, "%s", item->reason[0] ? item->reason : "-");
}

static void print_rows(struct ctl *ctl, struct ctl_rows *rows, const char *empty)
{
	static const char *const heads[] = {"WORLD", ">PE", ">3NODE", ">SESSION", ">2UID", ">PID", "COMMAND", "~1GPUS", "~NICS",
					    ">HEAP", "~4GPU HEAP", "PATHS", "~REASON", NULL};
	struct table table;

	ctl_rows_sort(rows, by_world);
	table_init(&table, heads, ctl->has_color, ctl->max_width);
	for (size_t i = 0; i < rows->n; i++)
		pe_row(&table, ctl_rows_at(rows, i));
	table_print(&table, empty, ctl->out);
	table_deinit(&table);
}

int ctl_table_pes(struct ctl *ctl)
{
	struct ctl_rows rows;
	int r;

	ctl_rows_init(&rows, sizeof(struct shmd_pe_item));
	r = shmd_admin_pes(ctl->client, add_pe, &rows);
	if (!r)
		print_rows(ctl, &rows, "no PEs");
	ctl_rows_deinit(&rows);
	return r;
}

/* ---- of one user, for info */

static int add_own_pe(void *arg, const struct shmd_pe_item *item)
{
	return item->uid == geteuid() ? ctl_rows_add(arg, item) : 0;
}

int ctl_table_own_pes(struct ctl *ctl, struct shmd_client *client)
{
	struct ctl_rows rows;
	int r;

	ctl_rows_init(&rows, sizeof(struct shmd_pe_item));
	r = shmd_admin_pes(client, add_own_pe, &rows);
	if (!r)
		print_rows(ctl, &rows, "no PEs: this user runs no world");
	ctl_rows_deinit(&rows);
	return r;
}

int ctl_json_own_pes(struct shmd_client *client, struct json *json)
{
	struct ctl_rows rows;
	int r;

	ctl_rows_init(&rows, sizeof(struct shmd_pe_item));
	r = shmd_admin_pes(client, add_own_pe, &rows);
	ctl_rows_sort(&rows, by_world);
	for (size_t i = 0; !r && i < rows.n; i++)
		pe_item(json, ctl_rows_at(&rows, i));
	ctl_rows_deinit(&rows);
	return r;
}
