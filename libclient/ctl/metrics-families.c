/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metrics of shmemd, as tables: name, type, help, place of the value.
 *
 * Names are an interface: none is renamed, and none changes its meaning. The identity of an object is a label of all its
 * metrics; its other properties are labels of one metric whose value is 1, for joins. node_exporter exports a port's own counters;
 * these are the daemon's counters of queues.
 */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "libclient/ctl/ctl.h"
#include "libclient/ctl/metrics.h"

enum value {
	AS_U32,
	AS_U64,
	AS_NSEC,
	AS_BOOL,
	AS_MBPS, /* as bytes per second */
	AS_KINDS, /* an array of uint64_t, one for each kind of WQE */
	AS_ONE,
	AS_ACTIVE, /* a port's state */
	AS_FAILED, /* a QP's state */
};

struct row {
	struct metric metric;
	enum value value;
	size_t offset;
	void (*more)(struct exposition *to, const void *item); /* labels of this metric alone, or NULL */
};

struct group {
	const struct row *rows;
	size_t n_rows;
	void (*labels)(struct exposition *to, const void *item); /* of each sample, or NULL */
};

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))
#define GAUGE(name, help) {name, METRIC_GAUGE, help}
#define COUNTER(name, help) {name, METRIC_COUNTER, help}

static void label_number(struct exposition *to, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	exposition_label(to, key, text);
}

/* The same form as in every other command and the logs. */
static void label_hex(struct exposition *to, const char *key, uint32_t value)
{
	char text[16];

	snprintf(text, sizeof(text), "0x%x", value);
	exposition_label(to, key, text);
}

/* ---- the daemon */

#define AT(member) offsetof(struct shmd_daemon_status, member)

static void daemon_words(struct exposition *to, const void *item)
{
	const struct shmd_daemon_status *status = item;

	exposition_label(to, "version", status->daemon);
	label_number(to, "protocol", status->protocol_version);
}

static const struct row daemon_rows[] = {
	{GAUGE("shmemd_build_info", "Which daemon answers; 1."), AS_ONE, 0, daemon_words},
	{GAUGE("shmemd_uptime_seconds", "Since the daemon's start."), AS_NSEC, AT(uptime_nsec), NULL},
	{GAUGE("shmemd_draining", "1 while new sessions are refused by a drain."), AS_BOOL, AT(draining), NULL},
	{GAUGE("shmemd_nics", "NIC ports that sessions can open."), AS_U32, AT(n_nics), NULL},
	{GAUGE("shmemd_sessions", "Sessions now."), AS_U32, AT(n_sessions), NULL},
	{COUNTER("shmemd_sessions_opened_total", "Sessions since the daemon's start."), AS_U64, AT(sessions_total), NULL},
	{COUNTER("shmemd_refused_total", "Connections and sessions refused."), AS_U64, AT(refused_total), NULL},
	{COUNTER("shmemd_sessions_resumed_total", "Sessions taken over from a former daemon."), AS_U64, AT(n_resumed), NULL},
	{GAUGE("shmemd_monitors", "Connections that listen to events."), AS_U32, AT(n_monitors), NULL},
	{GAUGE("shmemd_descriptors", "Descriptors held for sessions."), AS_U32, AT(n_fds), NULL},
	{GAUGE("shmemd_published_entries", "Entries that sessions have published."), AS_U32, AT(n_published), NULL},
};
#undef AT

/* ---- what NICs and sessions count alike */

#define COUNTERS(prefix, type)                                                                                            \
	{COUNTER(prefix "_work_requests_total", "Send WQEs completed with success, by kind; where NICs tell, as soft ones do."), AS_KINDS,               \
	 offsetof(type, counters.wqes_by_kind), NULL},                                                                    \
	{COUNTER(prefix "_payload_sent_bytes_total", "Payload of writes, sends and atomics; where NICs tell."), AS_U64,                 \
	 offsetof(type, counters.bytes_sent), NULL},                                                                      \
	{COUNTER(prefix "_payload_read_bytes_total", "Payload of reads; where NICs tell."), AS_U64,                                     \
	 offsetof(type, counters.bytes_read), NULL},                                                                      \
	{COUNTER(prefix "_receives_total", "Receive WQEs completed; where NICs tell."), AS_U64, offsetof(type, counters.recv_wqes),      \
	 NULL},                                                                                                           \
	{COUNTER(prefix "_error_cqes_total", "CQEs that tell an error, flushed ones included."), AS_U64,               \
	 offsetof(type, counters.error_cqes), NULL},                                                                      \
	{COUNTER(prefix "_rnr_naks_total", "Times that a peer had no receive posted."), AS_U64,                        \
	 offsetof(type, counters.rnr_naks), NULL},                                                                        \
	{COUNTER(prefix "_retries_total", "Packets sent again."), AS_U64, offsetof(type, counters.retries), NULL}

/* ---- NICs */

#define AT(member) offsetof(struct shmd_nic_item, member)

static void nic_labels(struct exposition *to, const void *item)
{
	const struct shmd_nic_item *nic = item;

	exposition_label(to, "nic", nic->info.name);
}

static void nic_words(struct exposition *to, const void *item)
{
	const struct shmd_nic_item *nic = item;

	exposition_label(to, "backend", nic->info.backend);
	exposition_label(to, "pci", nic->info.pci);
	label_number(to, "port", nic->info.port);
	exposition_label(to, "link", ctl_link(nic->info.link));
}

static const struct row nic_rows[] = {
	{GAUGE("shmemd_nic_info", "What a NIC port is; 1."), AS_ONE, 0, nic_words},
	{GAUGE("shmemd_nic_up", "1 while the port is active, 0 while it is down or its NIC lost."), AS_ACTIVE,
	 AT(info.state), NULL},
	{GAUGE("shmemd_nic_rate_bytes_per_second", "Rate of the port, each way; 0: not known."), AS_MBPS, AT(info.rate_mbps), NULL},
	{GAUGE("shmemd_nic_sessions", "Sessions that have opened the NIC."), AS_U32, AT(info.n_sessions), NULL},
	{GAUGE("shmemd_nic_qps", "Queue pairs on the NIC."), AS_U32, AT(info.n_qps), NULL},
	{GAUGE("shmemd_nic_max_qps", "Queue pairs that the NIC has room for."), AS_U32, AT(info.max_qps), NULL},
	COUNTERS("shmemd_nic", struct shmd_nic_item),
	{GAUGE("shmemd_nic_warm_contexts_wanted", "Contexts to be kept ready for sessions to come."), AS_U32,
	 AT(warm.n_wanted), NULL},
	{GAUGE("shmemd_nic_warm_contexts", "Contexts that are ready."), AS_U32, AT(warm.n_ready), NULL},
	{COUNTER("shmemd_nic_warm_contexts_made_total", "Contexts made in advance."), AS_U64, AT(warm.n_made), NULL},
	{COUNTER("shmemd_nic_warm_contexts_taken_total", "Contexts made in advance that sessions got."), AS_U64,
	 AT(warm.n_handed_out), NULL},
	{COUNTER("shmemd_nic_warm_queues_taken_total", "Contexts made in advance whose queues were used too."), AS_U64,
	 AT(warm.n_batches_handed_out), NULL},
	{COUNTER("shmemd_nic_warm_missed_empty_total", "Sessions that waited for a context: none was ready."), AS_U64,
	 AT(warm.missed_empty), NULL},
	{COUNTER("shmemd_nic_warm_missed_shape_total", "Queues made while a session waited: another number or depth."), AS_U64,
	 AT(warm.missed_shape), NULL},
	{COUNTER("shmemd_nic_warm_missed_memory_total", "Queues made while a session waited: in the client's own memory."), AS_U64,
	 AT(warm.missed_memory), NULL},
	{COUNTER("shmemd_nic_warm_failed_total", "Contexts that could not be made in advance."), AS_U64,
	 AT(warm.n_failed), NULL},
};
#undef AT

/* ---- sessions */

#define AT(member) offsetof(struct shmd_session_item, member)

static void session_labels(struct exposition *to, const void *item)
{
	const struct shmd_session_item *session = item;

	label_number(to, "session", session->session);
}

static void session_words(struct exposition *to, const void *item)
{
	const struct shmd_session_item *session = item;

	label_number(to, "uid", session->uid);
	label_number(to, "gid", session->gid);
	label_number(to, "pid", session->pid);
	exposition_label(to, "command", session->command);
	exposition_label(to, "cgroup", session->cgroup);
	exposition_label(to, "library", session->library);
	exposition_label(to, "nics", session->nics);
	exposition_label(to, "doorbell", session->doorbell);
}

static const struct row session_rows[] = {
	{GAUGE("shmemd_session_info", "Whose session it is; 1."), AS_ONE, 0, session_words},
	{GAUGE("shmemd_session_age_seconds", "Since the session was opened."), AS_NSEC, AT(age_nsec), NULL},
	{GAUGE("shmemd_session_kept", "1 where the session outlives the daemon."), AS_BOOL, AT(kept), NULL},
	{GAUGE("shmemd_session_qps", "Queue pairs, of every type."), AS_U32, AT(n_qps), NULL},
	{GAUGE("shmemd_session_dcis", "Senders of dynamic connections, counted as QPs too."), AS_U32, AT(n_dcis), NULL},
	{GAUGE("shmemd_session_dcts", "Targets of dynamic connections, counted as QPs too."), AS_U32, AT(n_dcts), NULL},
	{GAUGE("shmemd_session_dc_peers", "Peers that the DCIs serve."), AS_U32, AT(n_dc_peers), NULL},
	{GAUGE("shmemd_session_rc_peers", "Peers of DCIs that have an RC QP of their own."), AS_U32, AT(n_rc_peers), NULL},
	{GAUGE("shmemd_session_cqs", "Completion queues."), AS_U32, AT(n_cqs), NULL},
	{GAUGE("shmemd_session_mrs", "Memory regions."), AS_U32, AT(n_mrs), NULL},
	{GAUGE("shmemd_session_descriptors", "Descriptors that the daemon holds for it."), AS_U32, AT(n_fds), NULL},
	{GAUGE("shmemd_session_registered_bytes", "Registered memory and queue memory."), AS_U64,
	 AT(registered_bytes), NULL},
	COUNTERS("shmemd_session", struct shmd_session_item),
};
#undef AT

/* ---- QPs */

#define AT(member) offsetof(struct shmd_qp_item, member)

static void qp_labels(struct exposition *to, const void *item)
{
	const struct shmd_qp_item *qp = item;

	label_number(to, "session", qp->session);
	exposition_label(to, "nic", qp->nic);
	label_hex(to, "qpn", qp->qpn);
}

static void qp_words(struct exposition *to, const void *item)
{
	const struct shmd_qp_item *qp = item;

	exposition_label(to, "type", ctl_qp_type(qp->type));
	exposition_label(to, "state", ctl_qp_state(qp->state));
	label_hex(to, "peer", qp->dest_qpn);
}

static const struct row qp_rows[] = {
	{GAUGE("shmemd_qp_info", "What a QP is, its state and its peer's number; 1."), AS_ONE, 0, qp_words},
	{GAUGE("shmemd_qp_failed", "1 in state ERR."), AS_FAILED, AT(state), NULL},
	{GAUGE("shmemd_qp_first_error_syndrome", "Syndrome of its first error CQE; 0: none."), AS_U32, AT(first_error),
	 NULL},
	{GAUGE("shmemd_qp_send_queue_wqebbs", "Room of the send queue."), AS_U32, AT(sq_wqebbs), NULL},
	{COUNTER("shmemd_qp_work_requests_total", "Send WQEs completed with success, where the NIC tells."), AS_U64,
	 AT(wqes), NULL},
	{COUNTER("shmemd_qp_payload_bytes_total", "Payload sent and read, where the NIC tells."), AS_U64, AT(bytes), NULL},
};
#undef AT

/* ---- MRs */

static void mr_labels(struct exposition *to, const void *item)
{
	const struct shmd_mr_item *mr = item;

	label_number(to, "session", mr->session);
	exposition_label(to, "nic", mr->nic);
	label_number(to, "mr", mr->mr);
}

static void mr_words(struct exposition *to, const void *item)
{
	const struct shmd_mr_item *mr = item;

	exposition_label(to, "kind", ctl_mem_kind(mr->kind));
}

static const struct row mr_rows[] = {
	{GAUGE("shmemd_mr_info", "What kind of memory it is; 1."), AS_ONE, 0, mr_words},
	{GAUGE("shmemd_mr_bytes", "Size of the region."), AS_U64, offsetof(struct shmd_mr_item, length_bytes), NULL},
};

/* ---- printing */

static void put_sample(struct exposition *to, const struct group *group, const struct row *row, const void *item)
{
	exposition_sample(to);
	if (group->labels)
		group->labels(to, item);
	if (row->more)
		row->more(to, item);
}

/* bounded: offsets are those of members, by the tables above. */
static void put_kinds(struct exposition *to, const struct group *group, const struct row *row, const void *item)
{
	const uint64_t *kinds = (const uint64_t *)((const char *)item + row->offset);

	for (unsigned int i = 0; i < N_OF(ctl_wqe_kinds); i++) {
		put_sample(to, group, row, item);
		exposition_label(to, "kind", ctl_wqe_kinds[i]);
		exposition_uint(to, kinds[i]);
	}
}

/* bounded: as above. */
static uint64_t value_of(const struct row *row, const char *item)
{
	const void *at = item + row->offset;

	switch (row->value) {
	case AS_U32:
		return *(const uint32_t *)at;
	case AS_U64:
	case AS_NSEC:
		return *(const uint64_t *)at;
	case AS_MBPS:
		return *(const uint64_t *)at * (1000000 / 8);
	case AS_BOOL:
		return *(const bool *)at;
	case AS_ACTIVE:
		return *(const uint32_t *)at == 2;
	case AS_FAILED:
		return *(const uint32_t *)at == SHMD_QP_ERR;
	default:
		return 1;
	}
}

static void put_item(struct exposition *to, const struct group *group, const struct row *row, const void *item)
{
	if (row->value == AS_KINDS) {
		put_kinds(to, group, row, item);
		return;
	}
	put_sample(to, group, row, item);
	if (row->value == AS_NSEC)
		exposition_seconds(to, value_of(row, item));
	else
		exposition_uint(to, value_of(row, item));
}

static void put_group(struct exposition *to, const struct group *group, const struct metrics_list *list)
{
	for (size_t i = 0; i < group->n_rows; i++) {
		exposition_family(to, &group->rows[i].metric);
		for (size_t k = 0; k < list->n; k++)
			put_item(to, group, &group->rows[i], list->items + k * list->item_bytes);
	}
}

/* "a,b"; the last name of a text that fills its buffer may be cut. */
static bool next_nic(const char *nics, size_t *at, char *nic, size_t size)
{
	size_t n = strcspn(nics + *at, ",");
	bool is_cut = *at + n == size - 1;

	snprintf(nic, size, "%.*s", (int)n, nics + *at);
	*at += n + (nics[*at + n] == ',');
	return n && !is_cut;
}

static bool names_nic(const char *nics, size_t size, const char *wanted)
{
	char nic[sizeof(((struct shmd_session_item *)NULL)->nics)];
	size_t at = 0;

	while (next_nic(nics, &at, nic, size))
		if (strcmp(nic, wanted) == 0)
			return true;
	return false;
}

/* NICs that the session has open, then those that the map gives to its GPUs: rules join sessions with NICs by these. */
static void put_session_nics(struct exposition *to, const struct shmd_session_item *session)
{
	const char *const lists[] = {session->nics, session->gpu_nics};
	char nic[sizeof(session->nics)];

	for (unsigned int i = 0; i < N_OF(lists); i++) {
		size_t at = 0;

		while (next_nic(lists[i], &at, nic, sizeof(nic))) {
			if (i && names_nic(session->nics, sizeof(session->nics), nic))
				continue;
			exposition_sample(to);
			session_labels(to, session);
			exposition_label(to, "nic", nic);
			exposition_uint(to, 1);
		}
	}
}

static void put_nics_of_sessions(struct exposition *to, const struct metrics_list *sessions)
{
	static const struct metric metric = GAUGE("shmemd_session_nic", "1 for each NIC that the session has open, or that the map gives to its GPUs.");

	exposition_family(to, &metric);
	for (size_t i = 0; i < sessions->n; i++)
		put_session_nics(to, (const struct shmd_session_item *)sessions->items + i);
}

void metrics_print(const struct metrics_look *look, struct exposition *to)
{
	static const struct group the_daemon = {daemon_rows, N_OF(daemon_rows), NULL};
	static const struct group nics = {nic_rows, N_OF(nic_rows), nic_labels};
	static const struct group sessions = {session_rows, N_OF(session_rows), session_labels};
	static const struct group qps = {qp_rows, N_OF(qp_rows), qp_labels};
	static const struct group mrs = {mr_rows, N_OF(mr_rows), mr_labels};

	if (look->parts & METRICS_DAEMON) {
		for (size_t i = 0; i < the_daemon.n_rows; i++) {
			exposition_family(to, &the_daemon.rows[i].metric);
			put_item(to, &the_daemon, &the_daemon.rows[i], &look->status);
		}
	}
	put_group(to, &nics, &look->nics);
	put_group(to, &sessions, &look->sessions);
	put_nics_of_sessions(to, &look->sessions);
	put_group(to, &qps, &look->qps);
	put_group(to, &mrs, &look->mrs);
}
