/* SPDX-License-Identifier: Apache-2.0 */
/* A QP's queues for programs. */
#include "libclient/ctl/dump.h"

static void json_qp(struct json *json, const struct dump *dump)
{
	const struct shmd_qp_item *qp = &dump->head.qp;

	json_string(json, "nic", qp->nic);
	json_uint(json, "qpn", qp->qpn);
	json_string(json, "type", ctl_qp_type(qp->type));
	json_string(json, "state", ctl_qp_state(qp->state));
	json_uint(json, "dest_qpn", qp->dest_qpn);
	json_uint(json, "session", qp->session);
	json_uint(json, "uid", dump->session.uid);
	json_uint(json, "pid", dump->session.pid);
	json_string(json, "command", dump->session.command);
	json_uint(json, "first_error", qp->first_error);
	json_string(json, "first_error_text", shmd_syndrome_text(qp->first_error));
	json_string(json, "advice", qp->first_error ? ctl_syndrome_advice(qp->first_error) : "");
	json_string(json, "unreadable", dump->unreadable);
}

static void json_line(void *arg, const struct dump_line *line)
{
	struct json *json = arg;

	json_begin_object(json, NULL);
	json_uint(json, "index", line->index);
	json_uint(json, "slot", line->slot);
	json_uint(json, "n_slots", line->n_entries);
	json_string(json, "state", line->state);
	json_bool(json, "failed", line->is_failed);
	json_string(json, "text", line->text);
	json_end_object(json);
}

static void json_ring(struct json *json, const struct dump *dump, bool is_sq)
{
	const struct walk_ring *ring = is_sq ? &dump->sq : &dump->rq;
	struct walk_counts counts = walk_count(ring);
	size_t n_hidden;

	json_begin_object(json, is_sq ? "sq" : "rq");
	json_uint(json, "n_slots", ring->n_entries);
	json_uint(json, "slot_bytes", ring->entry_bytes);
	json_uint(json, "ci", ring->ci);
	json_uint(json, "pi", ring->pi);
	json_uint(json, "dbrec", ring->dbrec);
	json_uint(json, "n_pending", counts.pending);
	json_uint(json, "n_not_rung", counts.not_rung);
	json_begin_array(json, "wqes");
	n_hidden = dump_wqes(dump, is_sq, json_line, json);
	json_end_array(json);
	json_uint(json, "n_hidden", n_hidden);
	json_end_object(json);
}

static void json_cq(struct json *json, const struct dump *dump, const struct dump_cq *cq, const char *key)
{
	size_t n_hidden;

	json_begin_object(json, key);
	json_uint(json, "cqn", cq->cqn);
	json_uint(json, "n_slots", cq->n_entries);
	json_bool(json, "collapsed", cq->is_collapsed);
	json_uint(json, "ci", cq->ci);
	json_begin_array(json, "cqes");
	n_hidden = dump_cqes(dump, cq, json_line, json);
	json_end_array(json);
	json_uint(json, "n_hidden", n_hidden);
	json_end_object(json);
}

void dump_print_json(const struct dump *dump)
{
	struct json json;

	ctl_json_begin(dump->ctl, &json);
	json_qp(&json, dump);
	json_ring(&json, dump, true);
	json_cq(&json, dump, &dump->send_cq, "send_cq");
	json_ring(&json, dump, false);
	json_cq(&json, dump, &dump->recv_cq, "recv_cq");
	ctl_json_end(&json);
}
