/* SPDX-License-Identifier: Apache-2.0 */
/* A QP's queues for people. */
#include <inttypes.h>
#include <string.h>

#include "libclient/ctl/dump.h"

static void print_qp(const struct dump *dump)
{
	const struct shmd_qp_item *qp = &dump->head.qp;
	bool has_color = dump->ctl->has_color;
	FILE *out = dump->ctl->out;
	enum color color = ctl_qp_state_color(qp->state);

	fprintf(out, "QP %s/0x%x: %s, %s%s%s", qp->nic, qp->qpn, ctl_qp_type(qp->type),
		color_on(has_color, color), ctl_qp_state(qp->state), color_off(has_color, color));
	if (qp->dest_qpn)
		fprintf(out, ", peer 0x%x", qp->dest_qpn);
	else if (qp->type == SHMD_QP_TYPE_DCT)
		fputs(", a target without queues", out);
	else
		fputs(", no peer", out);
	fprintf(out, ", session %" PRIu64, qp->session);
	if (dump->session.session)
		fprintf(out, " (%s, uid %u, pid %u)", dump->session.command, dump->session.uid, dump->session.pid);
	fputc('\n', out);
	if (!qp->first_error)
		return;
	fprintf(out, "%sfirst error%s  0x%02x, %s\n", color_on(has_color, COLOR_RED), color_off(has_color, COLOR_RED),
		qp->first_error, shmd_syndrome_text(qp->first_error));
	fprintf(out, "what to do   %s\n", ctl_syndrome_advice(qp->first_error));
}

static void add_line(void *arg, const struct dump_line *line)
{
	struct table *table = arg;

	table_add(table, "  %u", line->index);
	table_add(table, "%u", line->slot);
	table_add_color(table, line->color, "%s", line->state);
	table_add_color(table, line->is_failed ? COLOR_RED : COLOR_NONE, "%s%s", line->text,
			line->is_failed ? " <- failed" : "");
}

/* The text of an error CQE already says "error". */
static void add_cq_line(void *arg, const struct dump_line *line)
{
	struct table *table = arg;

	table_add(table, "  %u", line->index);
	table_add(table, "%u", line->slot);
	table_add_color(table, line->color, "%s", line->state);
	table_add_color(table, line->is_failed ? COLOR_RED : COLOR_NONE, "%s", line->text);
}

static void finish(const struct dump *dump, struct table *table, size_t n_hidden)
{
	FILE *out = dump->ctl->out;

	if (*dump->unreadable)
		fprintf(out, "  entries cannot be read: %s\n", dump->unreadable);
	else
		table_print(table, "  no entries", out);
	if (n_hidden)
		fprintf(out, "  %zu older consumed ones not shown (--all shows them)\n", n_hidden);
	table_deinit(table);
}

static void print_ring(const struct dump *dump, bool is_sq)
{
	static const char *const heads[] = {">INDEX", ">SLOT", "STATE", "~WQE", NULL};
	const struct walk_ring *ring = is_sq ? &dump->sq : &dump->rq;
	struct walk_counts counts = walk_count(ring);
	struct table table;
	size_t n_hidden;

	fprintf(dump->ctl->out,
		"\n%s queue: %u %s, consumer index %u, producer index %u, doorbell record %u: %u pending, %u not rung\n",
		is_sq ? "send" : "receive", ring->n_entries, is_sq ? "WQEBBs" : "WQEs", ring->ci, ring->pi,
		ring->dbrec, counts.pending, counts.not_rung);
	table_init(&table, heads, dump->ctl->has_color, dump->ctl->max_width);
	n_hidden = dump_wqes(dump, is_sq, add_line, &table);
	finish(dump, &table, n_hidden);
}

static void print_cq(const struct dump *dump, const struct dump_cq *cq, const char *what)
{
	static const char *const heads[] = {">INDEX", ">SLOT", "STATE", "~CQE", NULL};
	struct table table;
	size_t n_hidden;

	fprintf(dump->ctl->out, "\n%s CQ 0x%x: ", what, cq->cqn);
	if (cq->is_collapsed)
		fputs("collapsed, each CQE replaces the one before\n", dump->ctl->out);
	else
		fprintf(dump->ctl->out, "%u entr%s, consumer index %u\n", cq->n_entries, cq->n_entries == 1 ? "y" : "ies", cq->ci);
	table_init(&table, heads, dump->ctl->has_color, dump->ctl->max_width);
	n_hidden = dump_cqes(dump, cq, add_cq_line, &table);
	finish(dump, &table, n_hidden);
}

void dump_print_text(const struct dump *dump)
{
	print_qp(dump);
	if (!dump->sq.n_entries)
		return;
	print_ring(dump, true);
	print_cq(dump, &dump->send_cq, "send");
	if (!dump->rq.n_entries)
		return;
	print_ring(dump, false);
	print_cq(dump, &dump->recv_cq, "receive");
}
