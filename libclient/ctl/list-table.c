/* SPDX-License-Identifier: Apache-2.0 */
/* The lists as tables for people. Columns may change from version to version; programs read --json. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/ctl/ctl.h"

static const char *or_dash(const char *text)
{
	return *text ? text : "-";
}

/* Prints `table` and frees it. */
static int finish(struct ctl *ctl, struct table *table, int r, const char *none)
{
	if (!r)
		table_print(table, none, ctl->out);
	table_deinit(table);
	return r;
}

/* The same below another table, with a line above; nothing if there is no row. */
static int finish_below(struct ctl *ctl, struct table *table, int r, const char *line)
{
	if (!r && table->n_cells) {
		fprintf(ctl->out, "\n%s", line);
		table_print(table, "", ctl->out);
	}
	table_deinit(table);
	return r;
}

/* Sentences are too long for cells: they come below the table. */
struct session_rows {
	struct table table;
	FILE *notes;
};

static int session_row(void *arg, const struct shmd_session_item *item)
{
	struct session_rows *rows = arg;
	struct table *table = &rows->table;
	char buf[UNITS_BYTES];

	table_add(table, "%" PRIu64, item->session);
	table_add(table, "%u", item->uid);
	table_add(table, "%u", item->pid);
	table_add(table, "%s", or_dash(item->command));
	table_add(table, "%s", or_dash(item->nics));
	table_add(table, "%s", or_dash(item->doorbell));
	table_add(table, "%u", item->n_qps);
	table_add(table, "%u", item->n_dcis);
	table_add(table, "%u", item->n_dcts);
	/* Only sessions with DCIs have peers. */
	table_add(table, item->n_dc_peers || item->n_rc_peers ? "%u DC, %u RC" : "-", item->n_dc_peers, item->n_rc_peers);
	table_add(table, "%u", item->n_cqs);
	table_add(table, "%u", item->n_mrs);
	table_add(table, "%s", units_bytes(item->registered_bytes, buf));
	table_add(table, "%u", item->n_fds);
	table_add(table, "%" PRIu64, item->counters.wqes);
	table_add_color(table, item->counters.error_cqes ? COLOR_RED : COLOR_NONE, "%" PRIu64,
			item->counters.error_cqes);
	table_add(table, "%s", units_nsec(item->age_nsec, buf));
	table_add(table, "%s", item->kept ? "yes" : "no");
	if (item->doorbell_reason[0])
		fprintf(rows->notes, "session %" PRIu64 ", doorbell of %s\n", item->session, item->doorbell_reason);
	if (item->unkept_reason[0])
		fprintf(rows->notes, "session %" PRIu64 ", not kept: %s\n", item->session, item->unkept_reason);
	return 0;
}

int ctl_table_sessions(struct ctl *ctl)
{
	static const char *const heads[] = {">SESSION", ">6UID", ">PID", "COMMAND", "~NICS", "6DOORBELL", ">QPS",
					    ">2DCIS", ">2DCTS", ">1PEERS", ">3CQS", ">4MRS", ">7MEMORY", ">1FDS", ">7WQES", ">ERRORS",
					    ">8AGE", "5KEPT", NULL};
	struct session_rows rows;
	char *notes = NULL;
	size_t bytes;
	int r;

	rows.notes = open_memstream(&notes, &bytes);
	if (!rows.notes)
		return -errno;
	table_init(&rows.table, heads, ctl->has_color, ctl->max_width);
	r = shmd_admin_sessions(ctl->client, session_row, &rows);
	r = finish(ctl, &rows.table, r, "no sessions");
	fclose(rows.notes);
	if (!r && notes)
		fputs(notes, ctl->out);
	free(notes);
	return r;
}

static int qp_row(void *arg, const struct shmd_qp_item *item)
{
	struct table *table = arg;
	char buf[UNITS_BYTES];

	table_add(table, "%" PRIu64, item->session);
	table_add(table, "%s", item->nic);
	table_add(table, "0x%x", item->qpn);
	table_add(table, "%s", ctl_qp_type(item->type));
	table_add_color(table, ctl_qp_state_color(item->state), "%s", ctl_qp_state(item->state));
	table_add(table, item->dest_qpn ? "0x%x" : "-", item->dest_qpn);
	table_add(table, "%u", item->sq_wqebbs);
	table_add(table, "%u", item->sq_pi);
	table_add(table, "%u", item->sq_ci);
	table_add(table, "%" PRIu64, item->wqes);
	table_add(table, "%s", units_bytes(item->bytes, buf));
	table_add_color(table, item->first_error ? COLOR_RED : COLOR_NONE, "%s",
			item->first_error ? shmd_syndrome_text(item->first_error) : "-");
	return 0;
}

int ctl_table_qps(struct ctl *ctl)
{
	static const char *const heads[] = {">SESSION", "NIC", ">QPN", "TYPE", "STATE", ">PEER", ">1WQEBBS", ">3PI",
					    ">3CI", ">WQES", ">2DATA", "~FIRST ERROR", NULL};
	struct table table;

	table_init(&table, heads, ctl->has_color, ctl->max_width);
	return finish(ctl, &table, shmd_admin_qps(ctl->client, qp_row, &table), "no QPs");
}

/* "local-write remote-write", shortened to what the verbs tools show. */
static const char *access_words(uint32_t access, char buf[UNITS_BYTES])
{
	static const char *const words[] = {"lw", "rw", "rr", "ra"};

	buf[0] = 0;
	for (unsigned int i = 0; i < 4; i++) {
		if (!(access & 1u << i))
			continue;
		if (*buf)
			strcat(buf, ",");
		strcat(buf, words[i]);
	}
	return or_dash(buf);
}

static int mr_row(void *arg, const struct shmd_mr_item *item)
{
	struct table *table = arg;
	char buf[UNITS_BYTES];

	table_add(table, "%" PRIu64, item->session);
	table_add(table, "%s", item->nic);
	table_add(table, "%u", item->mr);
	table_add(table, "%s", ctl_mem_kind(item->kind));
	table_add(table, "%s", access_words(item->access, buf));
	table_add(table, "0x%" PRIx64, item->iova);
	table_add(table, "%s", units_bytes(item->length_bytes, buf));
	table_add(table, "%s", or_dash(item->reason));
	return 0;
}

int ctl_table_mrs(struct ctl *ctl)
{
	static const char *const heads[] = {">SESSION", "NIC", ">MR", "KIND", "ACCESS", ">1IOVA", ">SIZE", "~REASON", NULL};
	struct table table;

	table_init(&table, heads, ctl->has_color, ctl->max_width);
	return finish(ctl, &table, shmd_admin_mrs(ctl->client, mr_row, &table), "no memory regions");
}

static const char *mem_kinds(const struct shmd_nic_info *info, char buf[UNITS_BYTES])
{
	buf[0] = 0;
	for (unsigned int i = 0; i < 4 && info->mem_kinds[i]; i++) {
		if (*buf)
			strcat(buf, ",");
		strcat(buf, ctl_mem_kind(info->mem_kinds[i]));
	}
	return or_dash(buf);
}

static int nic_row(void *arg, const struct shmd_nic_item *item)
{
	const struct shmd_nic_info *info = &item->info;
	struct table *table = arg;
	char buf[UNITS_BYTES], gid[INET6_ADDRSTRLEN] = "-";

	inet_ntop(AF_INET6, info->gid, gid, sizeof(gid));
	table_add(table, "%s", info->name);
	table_add(table, "%s", info->backend);
	table_add(table, "%s", or_dash(info->pci));
	table_add(table, "%u", info->port);
	table_add_color(table, ctl_nic_state_color(info->state), "%s", ctl_nic_state(info->state));
	table_add(table, "%s", units_mbps(info->rate_mbps, buf));
	table_add(table, "%u", info->mtu_bytes);
	table_add(table, "%s", mem_kinds(info, buf));
	table_add(table, "%u", info->n_sessions);
	table_add(table, "%u", info->n_qps);
	table_add(table, "%" PRIu64, item->counters.wqes);
	table_add_color(table, item->counters.error_cqes ? COLOR_RED : COLOR_NONE, "%" PRIu64,
			item->counters.error_cqes);
	table_add(table, "%s", gid);
	return 0;
}

/* Only for NICs that make some, or made some. */
static int warm_row(void *arg, const struct shmd_nic_item *item)
{
	const struct shmd_nic_warm *warm = &item->warm;
	struct table *table = arg;

	if (!warm->n_wanted && !warm->n_made && !warm->n_failed)
		return 0;
	table_add(table, "%s", item->info.name);
	table_add_color(table, warm->n_ready ? COLOR_NONE : COLOR_YELLOW, "%u of %u", warm->n_ready, warm->n_wanted);
	table_add(table, "%" PRIu64, warm->n_made);
	table_add(table, "%" PRIu64, warm->n_handed_out);
	table_add(table, "%" PRIu64, warm->n_batches_handed_out);
	table_add(table, "%" PRIu64, warm->missed_empty);
	table_add(table, "%" PRIu64, warm->missed_shape);
	table_add(table, "%" PRIu64, warm->missed_memory);
	table_add_color(table, warm->n_failed ? COLOR_RED : COLOR_NONE, "%" PRIu64, warm->n_failed);
	return 0;
}

int ctl_table_warm(struct ctl *ctl)
{
	static const char *const heads[] = {"IN ADVANCE", ">READY", ">MADE", ">HANDED OUT", ">1QUEUES USED", ">NONE READY",
					    ">3OTHER SHAPE", ">2OWN MEMORY", ">FAILED", NULL};
	struct table table;

	table_init(&table, heads, ctl->has_color, ctl->max_width);
	return finish_below(ctl, &table, shmd_admin_nics(ctl->client, warm_row, &table), "");
}

/* One line, and one more for each GID behind the first. */
static int undriven_row(void *arg, const struct shmd_undriven_nic *nic)
{
	struct table *table = arg;
	char buf[UNITS_BYTES], gid[INET6_ADDRSTRLEN] = "-";

	table_add(table, "%s", nic->name);
	table_add(table, "%s", or_dash(nic->driver));
	table_add(table, "%s", or_dash(nic->pci));
	table_add(table, "%s", or_dash(nic->netdev));
	table_add(table, "%u", nic->port);
	table_add(table, "%s", ctl_link(nic->link));
	table_add_color(table, ctl_nic_state_color(nic->state), "%s", ctl_nic_state(nic->state));
	table_add(table, "%s", ctl_phys_state(nic->phys_state));
	table_add(table, "%s", units_mbps(nic->rate_mbps, buf));
	table_add(table, nic->mtu_bytes ? "%u" : "-", nic->mtu_bytes);
	for (unsigned int i = 0; i < nic->n_gids || i == 0; i++) {
		for (unsigned int k = 0; i > 0 && k < 10; k++)
			table_add(table, "%s", "");
		if (i < nic->n_gids)
			inet_ntop(AF_INET6, nic->gids[i].gid, gid, sizeof(gid));
		table_add(table, "%s", gid);
		table_add(table, "%s", i < nic->n_gids ? ctl_gid_type(nic->gids[i].type) : "-");
	}
	return 0;
}

/* Nothing on a host without such NICs. */
static int table_undriven(struct ctl *ctl)
{
	static const char *const heads[] = {"NIC", "3DRIVER", "4PCI", "5NETDEV", ">PORT", "6LINK", "STATE", "2PHYSICAL",
					    ">RATE", ">1MTU", "GID", "TYPE", NULL};
	struct table table;

	table_init(&table, heads, ctl->has_color, ctl->max_width);
	return finish_below(ctl, &table, shmd_admin_undriven(ctl->client, undriven_row, &table),
			    "NICs that shmemd does not manage, so no session can open them:\n");
}

int ctl_table_nics(struct ctl *ctl)
{
	static const char *const heads[] = {"NIC", "4BACKEND", "5PCI", ">PORT", "STATE", ">RATE", ">2MTU", "1MEMORY",
					    ">SESSIONS", ">QPS", ">3WQES", ">ERRORS", "GID", NULL};
	struct table table;
	int r;

	table_init(&table, heads, ctl->has_color, ctl->max_width);
	r = finish(ctl, &table, shmd_admin_nics(ctl->client, nic_row, &table), "no NICs");
	return r ? r : table_undriven(ctl);
}
