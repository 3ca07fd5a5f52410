/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/ctl/rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shmemclient.h>

void ctl_rows_init(struct ctl_rows *rows, size_t item_bytes)
{
	*rows = (struct ctl_rows){.item_bytes = item_bytes};
}

int ctl_rows_add(struct ctl_rows *rows, const void *item)
{
	if (rows->n == rows->room) {
		size_t room = rows->room ? 2 * rows->room : 64;
		char *more = reallocarray(rows->items, room, rows->item_bytes);

		if (!more)
			return shmd_error_set(-ENOMEM, "no memory for a list of %zu items", rows->n);
		rows->items = more;
		rows->room = room;
	}
	memcpy(rows->items + rows->n++ * rows->item_bytes, item, rows->item_bytes);
	return 0;
}

const void *ctl_rows_at(const struct ctl_rows *rows, size_t i)
{
	return rows->items + i * rows->item_bytes;
}

void ctl_rows_sort(struct ctl_rows *rows, int (*compare)(const void *a, const void *b))
{
	if (rows->n)
		qsort(rows->items, rows->n, rows->item_bytes, compare);
}

void ctl_rows_deinit(struct ctl_rows *rows)
{
	free(rows->items);
}

int ctl_order(const uint64_t *a, const uint64_t *b, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (a[i] != b[i])
			return a[i] < b[i] ? -1 : 1;
	return 0;
}

void ctl_json_pe(struct json *json, uint64_t world, uint32_t pe, uint32_t n_pes)
{
	char text[17];

	snprintf(text, sizeof(text), "%016" PRIx64, world);
	json_string(json, "world", text);
	json_uint(json, "pe", pe);
	json_uint(json, "n_pes", n_pes);
}

void ctl_table_pe(struct table *table, uint64_t world, uint32_t pe, uint32_t n_pes)
{
	/* The first digits are enough to tell worlds apart. */
	table_add(table, "%08" PRIx32, (uint32_t)(world >> 32));
	table_add(table, "%u of %u", pe, n_pes);
}
