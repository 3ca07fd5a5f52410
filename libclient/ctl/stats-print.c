/* SPDX-License-Identifier: Apache-2.0 */
/* Rates for people and for programs. */
#include <inttypes.h>

#include "libclient/ctl/rows.h"
#include "libclient/ctl/stats.h"

static const char *const what_words[] = {"nics", "sessions", "qps", "pes"};

static double per_sec(const struct stats_look *rates, uint64_t count)
{
	return rates->interval_nsec ? (double)count * 1e9 / (double)rates->interval_nsec : 0;
}

/* ---- table */

static void add_rate(struct table *table, double rate)
{
	char buf[UNITS_BYTES];

	table_add(table, "%s", units_rate(rate, buf));
}

static void add_bytes(struct table *table, double rate)
{
	char buf[UNITS_BYTES];

	table_add(table, "%s/s", units_bytes((uint64_t)(rate + 0.5), buf));
}

static void add_count(struct table *table, uint64_t count)
{
	table_add_color(table, count ? COLOR_RED : COLOR_NONE, "%" PRIu64, count);
}

static void add_key(struct table *table, enum stats_what what, const struct stats_row *row)
{
	if (what == STATS_PES)
		ctl_table_pe(table, row->world, row->pe, row->n_pes);
	if (what != STATS_NICS)
		table_add(table, "%" PRIu64, row->session);
	if (what == STATS_PES) {
		table_add(table, "%u", row->pid);
		table_add(table, "%s", *row->command ? row->command : "-");
		return;
	}
	if (what == STATS_SESSIONS) {
		table_add(table, "%u", row->uid);
		table_add(table, "%u", row->pid);
		table_add(table, "%s", *row->command ? row->command : "-");
		return;
	}
	table_add(table, "%s", row->nic);
	if (what == STATS_QPS) {
		table_add(table, "0x%x", row->qpn);
		table_add_color(table, ctl_qp_state_color(row->state), "%s", ctl_qp_state(row->state));
	}
}

static void add_total_key(struct table *table, enum stats_what what)
{
	static const unsigned int n_keys[] = {1, 4, 4, 5};

	table_add(table, "total");
	for (unsigned int i = 1; i < n_keys[what]; i++)
		table_add(table, "-");
}

static void add_values(struct table *table, enum stats_what what, const struct stats_look *rates,
		       const struct shmd_counters *c)
{
	if (what == STATS_PES) {
		add_bytes(table, per_sec(rates, c->bytes_sent));
		add_bytes(table, per_sec(rates, c->bytes_read));
		return;
	}
	add_rate(table, per_sec(rates, c->wqes));
	add_bytes(table, per_sec(rates, c->bytes_sent));
	if (what == STATS_QPS)
		return;
	add_bytes(table, per_sec(rates, c->bytes_read));
	add_rate(table, per_sec(rates, c->recv_wqes));
	add_count(table, c->error_cqes);
	add_count(table, c->rnr_naks);
	add_count(table, c->retries);
}

static void add_up(struct shmd_counters *sum, const struct shmd_counters *c)
{
	sum->wqes += c->wqes;
	sum->bytes_sent += c->bytes_sent;
	sum->bytes_read += c->bytes_read;
	sum->recv_wqes += c->recv_wqes;
	sum->error_cqes += c->error_cqes;
	sum->rnr_naks += c->rnr_naks;
	sum->retries += c->retries;
}

bool stats_is_idle(const struct stats_row *row)
{
	const struct shmd_counters *c = &row->counters;

	return !(c->wqes | c->bytes_sent | c->bytes_read | c->recv_wqes | c->error_cqes | c->rnr_naks | c->retries);
}

void stats_print_table(struct ctl *ctl, enum stats_what what, const struct stats_look *rates)
{
	static const char *const nic_heads[] = {"NIC", ">WQE/S", ">SENT", ">READ", ">RECV/S", ">ERRORS", ">RNR NAKS",
						">RETRIES", NULL};
	static const char *const session_heads[] = {">SESSION", ">UID", ">PID", "COMMAND", ">WQE/S", ">SENT", ">READ",
						    ">RECV/S", ">ERRORS", ">RNR NAKS", ">RETRIES", NULL};
	static const char *const qp_heads[] = {">SESSION", "NIC", ">QPN", "STATE", ">WQE/S", ">DATA", NULL};
	static const char *const pe_heads[] = {"WORLD", ">PE", ">SESSION", ">PID", "COMMAND", ">PUT", ">GOT", NULL};
	static const char *const *const heads[] = {nic_heads, session_heads, qp_heads, pe_heads};
	bool all = args_has(ctl->args, OPTION_ALL);
	struct shmd_counters sum = {0};
	size_t n_shown = 0, n_idle;
	struct table table;
	char buf[UNITS_BYTES], none[64];

	table_init(&table, heads[what], ctl->has_color, ctl->max_width);
	for (size_t i = 0; i < rates->n_rows; i++) {
		const struct stats_row *row = &rates->rows[i];

		if (!all && stats_is_idle(row))
			continue;
		add_key(&table, what, row);
		add_values(&table, what, rates, &row->counters);
		add_up(&sum, &row->counters);
		n_shown++;
	}
	if (n_shown > 1) {
		add_total_key(&table, what);
		add_values(&table, what, rates, &sum);
	}
	fprintf(ctl->out, "%s%s, in %s%s\n", color_on(ctl->has_color, COLOR_DIM), what_words[what],
		units_nsec(rates->interval_nsec, buf), color_off(ctl->has_color, COLOR_DIM));
	n_idle = rates->n_rows - n_shown;
	snprintf(none, sizeof(none), n_idle ? "no activity" : "no %s", what_words[what]);
	table_print(&table, none, ctl->out);
	table_deinit(&table);
	if (n_idle)
		fprintf(ctl->out, "%zu idle, not shown (--all shows them)\n", n_idle);
}

/* ---- JSON */

static void json_key(struct json *json, enum stats_what what, const struct stats_row *row)
{
	if (what == STATS_PES)
		ctl_json_pe(json, row->world, row->pe, row->n_pes);
	if (what != STATS_NICS)
		json_uint(json, "session", row->session);
	if (what == STATS_PES) {
		json_uint(json, "pid", row->pid);
		json_string(json, "command", row->command);
		return;
	}
	if (what == STATS_SESSIONS) {
		json_uint(json, "uid", row->uid);
		json_uint(json, "pid", row->pid);
		json_string(json, "command", row->command);
		return;
	}
	json_string(json, what == STATS_NICS ? "name" : "nic", row->nic);
	if (what == STATS_QPS) {
		json_uint(json, "qpn", row->qpn);
		json_string(json, "state", ctl_qp_state(row->state));
	}
}

static void json_values(struct json *json, enum stats_what what, const struct stats_look *rates,
			const struct shmd_counters *c)
{
	if (what == STATS_PES) {
		json_uint(json, "bytes_put", c->bytes_sent);
		json_rate(json, "bytes_put_per_sec", per_sec(rates, c->bytes_sent));
		json_uint(json, "bytes_got", c->bytes_read);
		json_rate(json, "bytes_got_per_sec", per_sec(rates, c->bytes_read));
		return;
	}
	json_uint(json, "wqes", c->wqes);
	json_rate(json, "wqes_per_sec", per_sec(rates, c->wqes));
	if (what == STATS_QPS) {
		json_uint(json, "bytes", c->bytes_sent);
		json_rate(json, "bytes_per_sec", per_sec(rates, c->bytes_sent));
		return;
	}
	json_uint(json, "bytes_sent", c->bytes_sent);
	json_rate(json, "bytes_sent_per_sec", per_sec(rates, c->bytes_sent));
	json_uint(json, "bytes_read", c->bytes_read);
	json_rate(json, "bytes_read_per_sec", per_sec(rates, c->bytes_read));
	json_uint(json, "recv_wqes", c->recv_wqes);
	json_rate(json, "recv_wqes_per_sec", per_sec(rates, c->recv_wqes));
	json_uint(json, "error_cqes", c->error_cqes);
	json_uint(json, "rnr_naks", c->rnr_naks);
	json_uint(json, "retries", c->retries);
}

void stats_print_json(struct ctl *ctl, enum stats_what what, const struct stats_look *rates)
{
	struct json json;

	ctl_json_begin(ctl, &json);
	json_uint(&json, "interval_nsec", rates->interval_nsec);
	json_begin_array(&json, what_words[what]);
	for (size_t i = 0; i < rates->n_rows; i++) {
		json_begin_object(&json, NULL);
		json_key(&json, what, &rates->rows[i]);
		json_values(&json, what, rates, &rates->rows[i].counters);
		json_end_object(&json);
	}
	json_end_array(&json);
	ctl_json_end(&json);
}
