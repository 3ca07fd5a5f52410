/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shmemctl stats: rates between two looks at the counters.
 *
 * A look is a sorted array of the daemon's counters for each NIC, session, QP or PE. An object that is new in a look began
 * at 0; an object whose counters went backwards is another one under the same name, and also began at 0.
 */
#include "libclient/ctl/stats.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/ctl/rows.h"
#include "libclient/ctl/screen.h"

#define FIRST_LOOK_SECONDS 1.0

/* ---- a look */

static struct stats_row *add_row(struct stats_look *look)
{
	if (look->n_rows == look->max_rows) {
		look->max_rows = look->max_rows ? look->max_rows * 2 : 64;
		look->rows = reallocarray(look->rows, look->max_rows, sizeof(*look->rows));
		if (!look->rows) {
			ctl_fail("out of memory");
			exit(CTL_EXIT_FAILED);
		}
	}
	memset(&look->rows[look->n_rows], 0, sizeof(*look->rows));
	return &look->rows[look->n_rows++];
}

static int nic_row(void *arg, const struct shmd_nic_item *item)
{
	struct stats_row *row = add_row(arg);

	snprintf(row->nic, sizeof(row->nic), "%s", item->info.name);
	row->counters = item->counters;
	return 0;
}

static int session_row(void *arg, const struct shmd_session_item *item)
{
	struct stats_row *row = add_row(arg);

	row->session = item->session;
	row->uid = item->uid;
	row->pid = item->pid;
	snprintf(row->command, sizeof(row->command), "%s", item->command);
	row->counters = item->counters;
	return 0;
}

static int qp_row(void *arg, const struct shmd_qp_item *item)
{
	struct stats_row *row = add_row(arg);

	row->session = item->session;
	snprintf(row->nic, sizeof(row->nic), "%s", item->nic);
	row->qpn = item->qpn;
	row->state = item->state;
	/* The daemon has one sum for a QP: bytes sent and bytes read. */
	row->counters.wqes = item->wqes;
	row->counters.bytes_sent = item->bytes;
	return 0;
}

static int pe_row(void *arg, const struct shmd_pe_item *item)
{
	struct stats_row *row = add_row(arg);

	row->session = item->session;
	row->world = item->world;
	row->pe = item->pe;
	row->n_pes = item->n_pes;
	row->pid = item->pid;
	snprintf(row->command, sizeof(row->command), "%s", item->command);
	row->counters.bytes_sent = item->gpu.bytes_put;
	row->counters.bytes_read = item->gpu.bytes_got;
	return 0;
}

static int by_key(const void *a, const void *b)
{
	const struct stats_row *x = a, *y = b;
	int r = strcmp(x->nic, y->nic);

	return r ? r : ctl_order((const uint64_t[]){x->world, x->session, x->qpn, x->pe}, (const uint64_t[]){y->world, y->session, y->qpn, y->pe}, 4);
}

static int take_look(struct ctl *ctl, enum stats_what what, struct stats_look **ret_look)
{
	struct stats_look *look = calloc(1, sizeof(*look));
	int r;

	if (!look)
		return ctl_fail("out of memory");
	look->at_nsec = screen_now_nsec();
	if (what == STATS_NICS)
		r = shmd_admin_nics(ctl->client, nic_row, look);
	else if (what == STATS_SESSIONS)
		r = shmd_admin_sessions(ctl->client, session_row, look);
	else if (what == STATS_QPS)
		r = shmd_admin_qps(ctl->client, qp_row, look);
	else
		r = shmd_admin_pes(ctl->client, pe_row, look);
	if (r) {
		stats_look_free(look);
		return r;
	}
	if (look->n_rows)
		qsort(look->rows, look->n_rows, sizeof(*look->rows), by_key);
	*ret_look = look;
	return 0;
}

void stats_look_free(struct stats_look *look)
{
	if (look)
		free(look->rows);
	free(look);
}

/* ---- between two looks */

static uint64_t grown(uint64_t before, uint64_t now)
{
	return now >= before ? now - before : now;
}

static void subtract(struct shmd_counters *now, const struct shmd_counters *before)
{
	now->wqes = grown(before->wqes, now->wqes);
	now->bytes_sent = grown(before->bytes_sent, now->bytes_sent);
	now->bytes_read = grown(before->bytes_read, now->bytes_read);
	now->recv_wqes = grown(before->recv_wqes, now->recv_wqes);
	now->error_cqes = grown(before->error_cqes, now->error_cqes);
	now->rnr_naks = grown(before->rnr_naks, now->rnr_naks);
	now->retries = grown(before->retries, now->retries);
}

static int by_work(const void *a, const void *b)
{
	const struct shmd_counters *x = &((const struct stats_row *)a)->counters, *y = &((const struct stats_row *)b)->counters;
	uint64_t x_bytes = x->bytes_sent + x->bytes_read, y_bytes = y->bytes_sent + y->bytes_read;

	if (x->wqes != y->wqes)
		return x->wqes > y->wqes ? -1 : 1;
	if (x_bytes != y_bytes)
		return x_bytes > y_bytes ? -1 : 1;
	return by_key(a, b);
}

void stats_between(const struct stats_look *before, struct stats_look *now)
{
	size_t k = 0;

	now->interval_nsec = now->at_nsec - before->at_nsec;
	for (size_t i = 0; i < now->n_rows; i++) {
		struct stats_row *row = &now->rows[i];

		while (k < before->n_rows && by_key(&before->rows[k], row) < 0)
			k++;
		if (k < before->n_rows && !by_key(&before->rows[k], row))
			subtract(&row->counters, &before->rows[k].counters);
	}
	if (now->n_rows)
		qsort(now->rows, now->n_rows, sizeof(*now->rows), by_work);
}

/* A copy, because the next look is compared with the original. */
static struct stats_look copy_look(const struct stats_look *look)
{
	struct stats_look copy = {.at_nsec = look->at_nsec};

	for (size_t i = 0; i < look->n_rows; i++)
		*add_row(&copy) = look->rows[i];
	return copy;
}

int ctl_stats(struct ctl *ctl)
{
	const char *word = ctl->args->n_words ? ctl->args->words[0] : "nics";
	enum stats_what what = !strcmp(word, "nics") ? STATS_NICS :
			       !strcmp(word, "sessions") ? STATS_SESSIONS :
			       !strcmp(word, "qps") ? STATS_QPS : STATS_PES;
	struct stats_look *now = NULL, rates;
	int r = 0;

	if (!ctl->last) {
		r = take_look(ctl, what, &ctl->last);
		if (r)
			return r;
		screen_sleep(ctl->args->watch_seconds > 0 ? ctl->args->watch_seconds : FIRST_LOOK_SECONDS);
	}
	r = take_look(ctl, what, &now);
	if (r)
		return r;
	rates = copy_look(now);
	stats_between(ctl->last, &rates);
	if (ctl->is_json)
		stats_print_json(ctl, what, &rates);
	else
		stats_print_table(ctl, what, &rates);
	free(rates.rows);
	stats_look_free(ctl->last);
	ctl->last = now;
	return 0;
}
