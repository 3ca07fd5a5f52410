/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of shmemctl: status, and the lists by name. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "libclient/ctl/ctl.h"

/* ---- status */

static int status_json(struct shmd_client *client, const struct shmd_daemon_status *status)
{
	struct json json;
	int r;

	json_init(&json, stdout);
	json_begin_object(&json, NULL);
	json_uint(&json, "schema_version", CTL_SCHEMA_VERSION);
	json_string(&json, "daemon", status->daemon);
	json_uint(&json, "pid", status->pid);
	json_uint(&json, "uptime_nsec", status->uptime_nsec);
	json_uint(&json, "protocol_version", status->protocol_version);
	json_uint(&json, "n_nics", status->n_nics);
	json_uint(&json, "n_sessions", status->n_sessions);
	json_uint(&json, "n_qps", status->n_qps);
	json_uint(&json, "n_cqs", status->n_cqs);
	json_uint(&json, "n_mrs", status->n_mrs);
	json_uint(&json, "n_fds", status->n_fds);
	json_uint(&json, "n_published", status->n_published);
	json_uint(&json, "registered_bytes", status->registered_bytes);
	json_uint(&json, "sessions_total", status->sessions_total);
	json_uint(&json, "refused_total", status->refused_total);
	ctl_json_counters(&json, "counters", &status->counters);
	r = ctl_json_nics(client, &json, "nics");
	if (!r)
		r = ctl_json_sessions(client, &json, "sessions");
	json_end_object(&json);
	json_end(&json);
	return r;
}

static void print_work(const struct shmd_counters *counters)
{
	char sent[UNITS_BYTES], got[UNITS_BYTES];
	const char *before = " (";

	printf("work requests   %" PRIu64, counters->wqes);
	for (unsigned int i = 0; i < 8; i++) {
		if (!counters->wqes_by_kind[i])
			continue;
		printf("%s%s %" PRIu64, before, ctl_wqe_kinds[i], counters->wqes_by_kind[i]);
		before = ", ";
	}
	printf("%s\n", *before == ',' ? ")" : "");
	printf("payload         %s sent, %s read\n", units_bytes(counters->bytes_sent, sent),
	       units_bytes(counters->bytes_read, got));
	printf("errors          %" PRIu64 " error CQEs, %" PRIu64 " RNR NAKs, %" PRIu64 " retries\n",
	       counters->error_cqes, counters->rnr_naks, counters->retries);
}

static int status_text(struct shmd_client *client, const struct shmd_daemon_status *status)
{
	char buf[UNITS_BYTES];
	int r;

	printf("%s, pid %u, up %s, protocol version %u\n\n", status->daemon, status->pid,
	       units_nsec(status->uptime_nsec, buf), status->protocol_version);
	printf("sessions        %u now, %" PRIu64 " since start, %" PRIu64 " refused\n", status->n_sessions,
	       status->sessions_total, status->refused_total);
	printf("queues          %u QPs, %u CQs\n", status->n_qps, status->n_cqs);
	printf("memory          %u regions, %s registered\n", status->n_mrs,
	       units_bytes(status->registered_bytes, buf));
	printf("held            %u descriptors, %u published entries\n", status->n_fds, status->n_published);
	print_work(&status->counters);
	printf("\n");
	r = ctl_table_nics(client);
	if (r)
		return r;
	printf("\n");
	return ctl_table_sessions(client);
}

int ctl_status(struct shmd_client *client, bool as_json)
{
	struct shmd_daemon_status status;
	int r = shmd_admin_status(client, &status);

	if (r < 0)
		return r;
	return as_json ? status_json(client, &status) : status_text(client, &status);
}

/* ---- list */

static const struct {
	const char *what;
	int (*table)(struct shmd_client *client);
	int (*json)(struct shmd_client *client, struct json *json, const char *key);
} lists[] = {
	{"sessions", ctl_table_sessions, ctl_json_sessions},
	{"qps", ctl_table_qps, ctl_json_qps},
	{"mrs", ctl_table_mrs, ctl_json_mrs},
	{"nics", ctl_table_nics, ctl_json_nics},
};

static unsigned int find_list(const char *what)
{
	unsigned int i = 0;

	while (i < sizeof(lists) / sizeof(lists[0]) && strcmp(lists[i].what, what))
		i++;
	return i;
}

bool ctl_list_knows(const char *what)
{
	return find_list(what) < sizeof(lists) / sizeof(lists[0]);
}

int ctl_list(struct shmd_client *client, const char *what, bool as_json)
{
	unsigned int i = find_list(what);
	struct json json;
	int r;

	if (!as_json)
		return lists[i].table(client);
	json_init(&json, stdout);
	json_begin_object(&json, NULL);
	json_uint(&json, "schema_version", CTL_SCHEMA_VERSION);
	r = lists[i].json(client, &json, what);
	json_end_object(&json);
	json_end(&json);
	return r;
}
