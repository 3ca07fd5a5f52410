/* SPDX-License-Identifier: Apache-2.0 */
/* Items of a list of the daemon, kept so that a command can sort them; and what lists of PEs and of paths have in common. */
#ifndef SHMEMD_CTL_ROWS_H
#define SHMEMD_CTL_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "libclient/ctl/json.h"
#include "libclient/ctl/table.h"

struct ctl_rows {
	size_t item_bytes;
	char *items; /* owned; n of them */
	size_t n, room;
};

void ctl_rows_init(struct ctl_rows *rows, size_t item_bytes);
/* Adds a copy. -ENOMEM. */
int ctl_rows_add(struct ctl_rows *rows, const void *item);
const void *ctl_rows_at(const struct ctl_rows *rows, size_t i);
void ctl_rows_sort(struct ctl_rows *rows, int (*compare)(const void *a, const void *b));
void ctl_rows_deinit(struct ctl_rows *rows);

/* Compares n numbers, the first one first. */
int ctl_order(const uint64_t *a, const uint64_t *b, unsigned int n);

/* The world, and which of its PEs this is. */
void ctl_json_pe(struct json *json, uint64_t world, uint32_t pe, uint32_t n_pes);
void ctl_table_pe(struct table *table, uint64_t world, uint32_t pe, uint32_t n_pes);

#endif
