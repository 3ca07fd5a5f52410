/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shmemctl metrics: the daemon, its NICs, sessions, QPs and MRs for Prometheus.
 *
 * Reads everything before it prints anything: in half an answer the other half would seem to have gone.
 */
#include "libclient/ctl/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "libclient/ctl/ctl.h"

/* ---- lists */

void metrics_look_init(struct metrics_look *look, unsigned int parts)
{
	*look = (struct metrics_look){
		.parts = parts,
		.nics.item_bytes = sizeof(struct shmd_nic_item),
		.sessions.item_bytes = sizeof(struct shmd_session_item),
		.qps.item_bytes = sizeof(struct shmd_qp_item),
		.mrs.item_bytes = sizeof(struct shmd_mr_item),
	};
}

void metrics_look_deinit(struct metrics_look *look)
{
	free(look->nics.items);
	free(look->sessions.items);
	free(look->qps.items);
	free(look->mrs.items);
}

bool metrics_add(struct metrics_list *list, const void *item)
{
	if (list->n == list->max) {
		size_t max = list->max ? list->max * 2 : 64;
		char *items = reallocarray(list->items, max, list->item_bytes);

		if (!items)
			return false;
		list->items = items;
		list->max = max;
	}
	memcpy(list->items + list->n++ * list->item_bytes, item, list->item_bytes);
	return true;
}

/* ---- one of each name */

static int by_number(uint64_t a, uint64_t b)
{
	return a == b ? 0 : a < b ? -1 : 1;
}

static int by_nic(const void *a, const void *b)
{
	const struct shmd_nic_item *x = a, *y = b;

	return strcmp(x->info.name, y->info.name);
}

static int by_session(const void *a, const void *b)
{
	const struct shmd_session_item *x = a, *y = b;

	return by_number(x->session, y->session);
}

static int by_qp(const void *a, const void *b)
{
	const struct shmd_qp_item *x = a, *y = b;
	int r = by_number(x->session, y->session);

	if (!r)
		r = strcmp(x->nic, y->nic);
	return r ? r : by_number(x->qpn, y->qpn);
}

static int by_mr(const void *a, const void *b)
{
	const struct shmd_mr_item *x = a, *y = b;
	int r = by_number(x->session, y->session);

	if (!r)
		r = strcmp(x->nic, y->nic);
	return r ? r : by_number(x->mr, y->mr);
}

static void tidy(struct metrics_list *list, int (*compare)(const void *a, const void *b))
{
	size_t n = 0, bytes = list->item_bytes;

	if (!list->n)
		return;
	qsort(list->items, list->n, bytes, compare);
	for (size_t i = 1; i < list->n; i++)
		if (compare(list->items + n * bytes, list->items + i * bytes) && ++n != i)
			memcpy(list->items + n * bytes, list->items + i * bytes, bytes);
	list->n = n + 1;
}

void metrics_tidy(struct metrics_look *look)
{
	tidy(&look->nics, by_nic);
	tidy(&look->sessions, by_session);
	tidy(&look->qps, by_qp);
	tidy(&look->mrs, by_mr);
}

/* ---- asking */

static int add(struct metrics_list *list, const void *item)
{
	return metrics_add(list, item) ? 0 : ctl_fail("out of memory");
}

static int add_nic(void *arg, const struct shmd_nic_item *item)
{
	return add(arg, item);
}

static int add_session(void *arg, const struct shmd_session_item *item)
{
	return add(arg, item);
}

static int add_qp(void *arg, const struct shmd_qp_item *item)
{
	return add(arg, item);
}

static int add_mr(void *arg, const struct shmd_mr_item *item)
{
	return add(arg, item);
}

static int take_look(struct shmd_client *client, struct metrics_look *look)
{
	int r = 0;

	if (look->parts & (METRICS_DAEMON | METRICS_NICS))
		r = shmd_admin_status(client, &look->status);
	if (!r && (look->parts & METRICS_NICS))
		r = shmd_admin_nics(client, add_nic, &look->nics);
	if (!r && (look->parts & METRICS_SESSIONS))
		r = shmd_admin_sessions(client, add_session, &look->sessions);
	if (!r && (look->parts & METRICS_QPS))
		r = shmd_admin_qps(client, add_qp, &look->qps);
	if (!r && (look->parts & METRICS_MRS))
		r = shmd_admin_mrs(client, add_mr, &look->mrs);
	return r;
}

/* The table of commands has the same words. */
static unsigned int parts_of(const char *word)
{
	static const char *const words[] = {"daemon", "nics", "sessions", "qps", "mrs"};
	unsigned int i = 0;

	if (!word)
		return METRICS_ALL;
	while (strcmp(words[i], word))
		i++;
	return 1u << i;
}

static void print_look(struct ctl *ctl, const struct metrics_look *look)
{
	struct exposition to;
	struct json json;

	if (ctl->is_json)
		ctl_json_begin(ctl, &json);
	exposition_begin(&to, ctl->out, ctl->is_json ? &json : NULL);
	metrics_print(look, &to);
	exposition_end(&to);
	if (ctl->is_json)
		ctl_json_end(&json);
}

int ctl_metrics(struct ctl *ctl)
{
	struct metrics_look look;
	int r;

	metrics_look_init(&look, parts_of(ctl->args->n_words ? ctl->args->words[0] : NULL));
	r = take_look(ctl->client, &look);
	if (!r) {
		metrics_tidy(&look);
		print_look(ctl, &look);
	}
	metrics_look_deinit(&look);
	return r;
}
