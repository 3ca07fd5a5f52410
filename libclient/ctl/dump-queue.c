/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shmemctl dump-queue: reads everything about a QP, then prints it.
 *
 * The queues go on working meanwhile: indexes are of one moment, bytes of the moments after it. Numbers from the daemon are
 * checked before memory is allocated by them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/host/wqe-dump.h"
#include "libclient/ctl/dump.h"

#define MAX_RING_ENTRIES (1u << 16)
#define MAX_CQ_ENTRIES (1u << 22)
#define CQE_BYTES 64u
#define WQEBB_BYTES 64u
/* Entries of a CQ that are read without --all: before the consumer index, and from there on. */
#define CQ_BEFORE 4u
#define CQ_AFTER 64u

/* ---- which QP */

struct search {
	uint32_t qpn;
	unsigned int n_found;
	char nic[64], nics[256];
};

static int find_qp(void *arg, const struct shmd_qp_item *item)
{
	struct search *search = arg;
	size_t used = strlen(search->nics);

	if (item->qpn != search->qpn)
		return 0;
	search->n_found++;
	snprintf(search->nic, sizeof(search->nic), "%s", item->nic);
	snprintf(search->nics + used, sizeof(search->nics) - used, "%s%s/0x%x", used ? ", " : "", item->nic, item->qpn);
	return 0;
}

/* "soft0/0x101", or a number that only one NIC has. */
static int resolve(struct ctl *ctl, const char *word, char *ret_nic, size_t size, uint32_t *ret_qpn)
{
	const char *slash = strrchr(word, '/');
	struct search search = {0};
	uint64_t number;
	int r;

	if (!args_parse_number(slash ? slash + 1 : word, &number) || number > 0xffffff)
		return ctl_fail("%s is not a QP; \"shmemctl list qps\" shows them, as NIC and QPN", word);
	*ret_qpn = (uint32_t)number;
	if (slash) {
		snprintf(ret_nic, size, "%.*s", (int)(slash - word), word);
		return 0;
	}
	search.qpn = (uint32_t)number;
	r = shmd_admin_qps(ctl->client, find_qp, &search);
	if (r < 0)
		return r;
	if (!search.n_found)
		return ctl_fail("there is no QP 0x%" PRIx64 "; \"shmemctl list qps\" shows all", number);
	if (search.n_found > 1)
		return ctl_fail("several NICs have a QP 0x%" PRIx64 ", say which: %s", number, search.nics);
	snprintf(ret_nic, size, "%s", search.nic);
	return 0;
}

/* ---- reading */

static bool is_power_of_two(uint32_t n)
{
	return n && !(n & (n - 1));
}

static int read_part(struct dump *dump, enum shmd_queue_part part, uint32_t first, uint32_t n, uint8_t **ret_bytes)
{
	/* The library needs room for the largest stride. */
	uint8_t *bytes = calloc(n, part == SHMD_PART_RQ ? SHMD_MAX_RQ_STRIDE_BYTES : CQE_BYTES);
	int r;

	if (!bytes)
		return ctl_fail("out of memory");
	r = shmd_admin_queue_read(dump->ctl->client, dump->head.qp.nic, dump->head.qp.qpn, part, first, n, bytes);
	if (r) {
		free(bytes);
		return r;
	}
	*ret_bytes = bytes;
	return 0;
}

static int read_cq(struct dump *dump, enum shmd_queue_part part, struct dump_cq *cq)
{
	uint32_t before = CQ_BEFORE, after = CQ_AFTER;

	if (!cq->n_entries)
		return 0;
	if (cq->is_collapsed) {
		cq->n_read = 1;
		return read_part(dump, part, 0, 1, &cq->bytes);
	}
	/* In a ring that is read as a whole, each place holds an entry of this round or the one before. */
	if (args_has(dump->ctl->args, OPTION_ALL) || before + after > cq->n_entries)
		before = after = cq->n_entries;
	cq->first = (cq->ci - before) & 0xffffff;
	cq->n_indexes = before + after;
	cq->n_read = cq->n_indexes > cq->n_entries ? cq->n_entries : cq->n_indexes;
	return read_part(dump, part, cq->first & (cq->n_entries - 1), cq->n_read, &cq->bytes);
}

static int read_all(struct dump *dump)
{
	int r = 0;

	/* A DCT has no send queue. */
	if (dump->sq.n_entries)
		r = read_part(dump, SHMD_PART_SQ, 0, dump->sq.n_entries, &dump->sq_bytes);
	if (!r && dump->rq.n_entries)
		r = read_part(dump, SHMD_PART_RQ, 0, dump->rq.n_entries, &dump->rq_bytes);
	if (!r)
		r = read_cq(dump, SHMD_PART_SEND_CQ, &dump->send_cq);
	if (!r)
		r = read_cq(dump, SHMD_PART_RECV_CQ, &dump->recv_cq);
	dump->sq.bytes = dump->sq_bytes;
	dump->rq.bytes = dump->rq_bytes;
	return r;
}

static struct dump_cq cq_of(uint32_t cqn, uint32_t n_entries, uint32_t flags, uint32_t ci)
{
	struct dump_cq cq = {
		.cqn = cqn, .n_entries = n_entries, .ci = ci & 0xffffff, .is_collapsed = flags & DUMP_CQ_COLLAPSED};

	/* bounded: a shift by less than 32 */
	while (cq.log2_entries < 31 && 1u << cq.log2_entries < n_entries)
		cq.log2_entries++;
	return cq;
}

static int use_head(struct dump *dump)
{
	const struct shmd_queue_head *head = &dump->head;
	bool has_rq = head->n_rq_wqes, is_dct = head->qp.type == SHMD_QP_TYPE_DCT;

	if ((is_dct ? head->qp.sq_wqebbs : !is_power_of_two(head->qp.sq_wqebbs)) ||
	    head->qp.sq_wqebbs > MAX_RING_ENTRIES ||
	    (has_rq && (!is_power_of_two(head->n_rq_wqes) || head->n_rq_wqes > MAX_RING_ENTRIES ||
			head->rq_stride_bytes < 16 || head->rq_stride_bytes > SHMD_MAX_RQ_STRIDE_BYTES)) ||
	    !is_power_of_two(head->send_cq_entries) || head->send_cq_entries > MAX_CQ_ENTRIES ||
	    (has_rq && (!is_power_of_two(head->recv_cq_entries) || head->recv_cq_entries > MAX_CQ_ENTRIES)))
		return ctl_fail("shmemd describes a queue that cannot be");
	dump->sq = (struct walk_ring){
		.n_entries = head->qp.sq_wqebbs, .entry_bytes = WQEBB_BYTES, .qpn = head->qp.qpn,
		.ci = (uint16_t)head->qp.sq_ci, .pi = (uint16_t)head->qp.sq_pi, .dbrec = (uint16_t)head->dbrec_sq};
	dump->rq = (struct walk_ring){
		.n_entries = head->n_rq_wqes, .entry_bytes = head->rq_stride_bytes, .qpn = head->qp.qpn,
		.ci = (uint16_t)head->rq_ci, .pi = (uint16_t)head->rq_pi, .dbrec = (uint16_t)head->dbrec_rq};
	dump->send_cq = cq_of(head->send_cqn, head->send_cq_entries, head->send_cq_flags, head->dbrec_send_cq);
	if (has_rq)
		dump->recv_cq = cq_of(head->recv_cqn, head->recv_cq_entries, head->recv_cq_flags,
				      head->dbrec_recv_cq);
	return 0;
}

static int collect(struct dump *dump, const char *nic, uint32_t qpn)
{
	int r = shmd_admin_queue_head(dump->ctl->client, nic, qpn, &dump->head);

	if (r == -ENOENT || r == -ENODEV)
		return ctl_fail("there is no QP %s/0x%x; \"shmemctl list qps\" shows all", nic, qpn);
	if (!r)
		r = use_head(dump);
	if (!r)
		r = ctl_find_session(dump->ctl, dump->head.qp.session, &dump->session);
	if (r && r != -ENOENT)
		return r;
	r = read_all(dump);
	/* The indexes are useful even without the bytes. */
	if (r != -EOPNOTSUPP)
		return r;
	snprintf(dump->unreadable, sizeof(dump->unreadable), "%s", shmd_error_text());
	return 0;
}

int ctl_dump_queue(struct ctl *ctl)
{
	struct dump dump = {.ctl = ctl, .failed_index = -1};
	uint32_t qpn = 0;
	char nic[64];
	int r = resolve(ctl, ctl->args->words[0], nic, sizeof(nic), &qpn);

	if (r)
		return r;
	if (!args_has(ctl->args, OPTION_KEYS))
		dump.hide |= WQE_HIDE_KEYS;
	if (!args_has(ctl->args, OPTION_PAYLOAD))
		dump.hide |= WQE_HIDE_DATA;
	r = collect(&dump, nic, qpn);
	if (dump.head.qp.type == SHMD_QP_TYPE_DCI)
		dump.hide |= WQE_HAS_AV;
	if (!r)
		dump_find_failed(&dump);
	if (!r && ctl->is_json)
		dump_print_json(&dump);
	else if (!r)
		dump_print_text(&dump);
	free(dump.sq_bytes);
	free(dump.rq_bytes);
	free(dump.send_cq.bytes);
	free(dump.recv_cq.bytes);
	return r;
}
