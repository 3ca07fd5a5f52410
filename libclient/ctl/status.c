/* SPDX-License-Identifier: Apache-2.0 */
/* shmemctl status: the daemon with its totals, its NICs, its sessions. */
#include <inttypes.h>
#include <string.h>

#include "libclient/ctl/ctl.h"
#include "proto/base/show.h"

static int status_json(struct ctl *ctl, const struct shmd_daemon_status *status)
{
	struct json json;
	int r;

	ctl_json_begin(ctl, &json);
	json_string(&json, "daemon", status->daemon);
	json_uint(&json, "pid", status->pid);
	json_uint(&json, "uptime_nsec", status->uptime_nsec);
	json_uint(&json, "protocol_version", status->protocol_version);
	json_bool(&json, "draining", status->draining);
	json_uint(&json, "drain_left_nsec", status->drain_left_nsec);
	json_uint(&json, "n_nics", status->n_nics);
	json_uint(&json, "n_sessions", status->n_sessions);
	json_uint(&json, "n_monitors", status->n_monitors);
	json_uint(&json, "n_qps", status->n_qps);
	json_uint(&json, "n_dcis", status->n_dcis);
	json_uint(&json, "n_dcts", status->n_dcts);
	json_uint(&json, "n_cqs", status->n_cqs);
	json_uint(&json, "n_mrs", status->n_mrs);
	json_uint(&json, "n_fds", status->n_fds);
	json_uint(&json, "n_published", status->n_published);
	json_uint(&json, "registered_bytes", status->registered_bytes);
	json_uint(&json, "sessions_total", status->sessions_total);
	json_uint(&json, "refused_total", status->refused_total);
	json_bool(&json, "keeps_sessions", status->keeps_sessions);
	json_uint(&json, "restart_grace_nsec", status->restart_grace_nsec);
	json_uint(&json, "n_resumed", status->n_resumed);
	json_uint(&json, "n_hidden_sessions", status->n_hidden_sessions);
	json_string(&json, "settings_warning", status->settings_warning);
	ctl_json_counters(&json, "counters", &status->counters);
	r = ctl_json_list(ctl->client, &json, "nics", ctl_json_nics);
	if (!r)
		r = ctl_json_list(ctl->client, &json, "undriven", ctl_json_undriven);
	if (!r)
		r = ctl_json_list(ctl->client, &json, "sessions", ctl_json_sessions);
	ctl_json_end(&json);
	return r;
}

static void print_work(FILE *out, const struct shmd_counters *counters)
{
	char sent[UNITS_BYTES], got[UNITS_BYTES];
	const char *before = " (";

	fprintf(out, "work requests   %" PRIu64, counters->wqes);
	for (unsigned int i = 0; i < 8; i++) {
		if (!counters->wqes_by_kind[i])
			continue;
		fprintf(out, "%s%s %" PRIu64, before, ctl_wqe_kinds[i], counters->wqes_by_kind[i]);
		before = ", ";
	}
	fprintf(out, "%s\n", *before == ',' ? ")" : "");
	fprintf(out, "payload         %s sent, %s read\n", units_bytes(counters->bytes_sent, sent),
		units_bytes(counters->bytes_read, got));
	fprintf(out, "errors          %" PRIu64 " error CQE%s, %" PRIu64 " RNR NAK%s, %" PRIu64 " retr%s\n",
		counters->error_cqes, plural_s(counters->error_cqes), counters->rnr_naks, plural_s(counters->rnr_naks),
		counters->retries, counters->retries == 1 ? "y" : "ies");
}

static int count_soft(void *arg, const struct shmd_nic_item *item)
{
	*(unsigned int *)arg += strcmp(item->info.backend, "soft") == 0;
	return 0;
}

/* A new user must not take simulated NICs for hardware. */
static int print_nics(struct ctl *ctl, const struct shmd_daemon_status *status)
{
	unsigned int n_soft = 0;
	int r = shmd_admin_nics(ctl->client, count_soft, &n_soft);

	if (r < 0)
		return r;
	if (n_soft)
		fprintf(ctl->out, "NICs            %u simulated NIC%s, for tests without hardware\n", n_soft, plural_s(n_soft));
	else
		fprintf(ctl->out, "NICs            %u\n", status->n_nics);
	return 0;
}

static void print_drain(struct ctl *ctl, const struct shmd_daemon_status *status)
{
	char buf[UNITS_BYTES];

	if (!status->draining)
		return;
	fprintf(ctl->out, "%sdraining%s        shmemd refuses new sessions", color_on(ctl->has_color, COLOR_YELLOW),
		color_off(ctl->has_color, COLOR_YELLOW));
	if (status->n_sessions && status->drain_left_nsec)
		fprintf(ctl->out, " and ends live ones in %s", units_nsec(status->drain_left_nsec, buf));
	fputs("; \"shmemctl drain --off\" stops this\n", ctl->out);
}

static void print_restart(FILE *out, const struct shmd_daemon_status *status)
{
	char buf[UNITS_BYTES];

	if (status->keeps_sessions)
		fprintf(out, "restart         sessions outlive the daemon; clients wait %s for the next one",
			units_nsec(status->restart_grace_nsec, buf));
	else
		fputs("restart         sessions end with the daemon", out);
	if (status->n_resumed)
		fprintf(out, "; %" PRIu64 " came from a previous daemon", status->n_resumed);
	fputc('\n', out);
}

static int status_text(struct ctl *ctl, const struct shmd_daemon_status *status)
{
	char buf[UNITS_BYTES];
	FILE *out = ctl->out;
	int r;

	fprintf(out, "%s, pid %u, up %s, protocol version %u\n\n", status->daemon, status->pid,
		units_nsec(status->uptime_nsec, buf), status->protocol_version);
	print_drain(ctl, status);
	r = print_nics(ctl, status);
	if (r < 0)
		return r;
	fprintf(out, "sessions        %u now, %" PRIu64 " since start, %" PRIu64 " refused\n", status->n_sessions,
		status->sessions_total, status->refused_total);
	print_restart(out, status);
	fprintf(out, "queues          %u QP%s (%u RC, %u DCI, %u DCT), %u CQ%s\n", status->n_qps, plural_s(status->n_qps),
		status->n_qps - status->n_dcis - status->n_dcts, status->n_dcis, status->n_dcts, status->n_cqs,
		plural_s(status->n_cqs));
	fprintf(out, "memory          %u region%s, %s registered\n", status->n_mrs, plural_s(status->n_mrs),
		units_bytes(status->registered_bytes, buf));
	fprintf(out, "held            %u descriptor%s, %u published %s\n", status->n_fds, plural_s(status->n_fds), status->n_published,
		status->n_published == 1 ? "entry" : "entries");
	if (status->n_monitors)
		fprintf(out, "watched by      %u monitor%s\n", status->n_monitors, plural_s(status->n_monitors));
	print_work(out, &status->counters);
	fputc('\n', out);
	r = ctl_table_nics(ctl);
	if (!r)
		ctl_print_warning(ctl, status);
	if (!r)
		r = ctl_table_warm(ctl);
	if (r)
		return r;
	fputc('\n', out);
	r = ctl_table_sessions(ctl);
	if (!r)
		ctl_print_hidden(ctl, status);
	return r;
}

int ctl_status(struct ctl *ctl)
{
	struct shmd_daemon_status status;
	int r = shmd_admin_status(ctl->client, &status);

	if (r < 0)
		return r;
	return ctl->is_json ? status_json(ctl, &status) : status_text(ctl, &status);
}
