/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts of a former daemon. Their host may not have died yet, since a process that sleeps at a hole in its user's memory does not;
 * imports of one user wait for that 2 s in all, and give up the contexts of a host that takes longer. Layouts that a host read from a
 * record are judged here as if they were the record.
 */
#include "daemon/nic/soft/remote/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/nic/soft/soft-record.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

/* ---- the request ------------------------------------------------------------------------------------------------------------ */

/* `first`: how many have gone before. */
static int send_fds(struct remote_host *host, struct remote_nic *nic, unsigned int first, unsigned int n, const int *fds)
{
	for (unsigned int done = 0; done < n;) {
		unsigned int now = n - done < REMOTE_MAX_FDS ? n - done : REMOTE_MAX_FDS;
		struct remote_request request = {.head = {.op = REMOTE_FDS, .nic = nic->index, .number = first + done},
						 .n_fds = now, .fds = fds + done};
		struct remote_packet answer;
		int r = remote_call_locked(host, &request, &answer);

		if (r < 0)
			return r;
		remote_packet_deinit(&answer);
		done += now;
	}
	return 0;
}

static int send_record(struct remote_host *host, struct remote_nic *nic, const struct nic_import_attr *attr,
		       struct remote_packet *ret_answer)
{
	_cleanup_(remote_writer_deinit) struct remote_writer body = {0};
	struct remote_request request = {
		.head = {.op = REMOTE_CTX_IMPORT, .nic = nic->index, .nsec = host->import_nsec}};
	struct nic_import_attr plain = *attr;

	plain.record = NULL;
	plain.queue_fds = plain.mr_fds = NULL;
	plain.ctx.health_fd = -1;
	remote_put(&body, &plain, sizeof(plain));
	remote_put(&body, attr->record, attr->record_bytes);
	if (body.is_short)
		return -ENOMEM;
	request.body = body.buf;
	request.head.bytes = body.n;
	return remote_call_locked(host, &request, ret_answer);
}

/* Others of the user send nothing in between. */
static int import_in(struct remote_host *host, struct remote_nic *nic, const struct nic_import_attr *attr,
		     struct remote_packet *ret_answer)
{
	uint64_t begin = nsec_now(), took;
	int r;

	pthread_mutex_lock(&host->works.lock);
	r = send_fds(host, nic, 0, attr->fds.n, attr->fds.fds);
	if (r == 0)
		r = send_fds(host, nic, attr->fds.n, attr->n_queue_fds, attr->queue_fds);
	if (r == 0)
		r = send_fds(host, nic, attr->fds.n + attr->n_queue_fds, attr->n_mr_fds, attr->mr_fds);
	if (r == 0)
		r = send_record(host, nic, attr, ret_answer);
	took = nsec_now() - begin;
	if (r == -EBUSY)
		host->import_nsec -= took < host->import_nsec ? took : host->import_nsec;
	pthread_mutex_unlock(&host->works.lock);
	return r;
}

/* ---- the answer ------------------------------------------------------------------------------------------------------------- */

static int take_mrs(struct remote_ctx *ctx, struct remote_reader *reader, uint32_t n)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < n; i++) {
		struct remote_mr_told told;
		struct nic_mr *mr;

		r = remote_get(reader, &told, sizeof(told)) ? remote_mr_count(ctx->nic) : -EIO;
		if (r < 0)
			break;
		r = remote_mr_add(ctx, &told.attr, told.object, told.key, &mr);
		if (r < 0)
			remote_mr_uncount(ctx->nic);
	}
	return r;
}

/* With the numbers of the record, which are taken for them. */
static bool is_right(const struct nic_layout *layout, const struct nic_layout *record)
{
	bool right = layout->n_cqs == record->n_cqs && layout->n_qps == record->n_qps;

	for (uint32_t i = 0; right && i < layout->n_cqs; i++)
		right = nic_cq_is_right(&layout->cqs[i], layout->total_bytes) && layout->cqs[i].cqn == record->cqs[i].cqn;
	for (uint32_t i = 0; right && i < layout->n_qps; i++)
		right = nic_qp_is_right(&layout->qps[i], layout->total_bytes) && layout->qps[i].qpn == record->qps[i].qpn;
	return right;
}

/* Numbers are the batch's from here, and no more the record's. */
static int take_queues(struct remote_ctx *ctx, struct remote_reader *reader, struct soft_record *record)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < record->n_batches; i++) {
		_cleanup_(nic_layout_deinit) struct nic_layout layout = {0};
		struct remote_queues_told told;
		struct nic_queues *queues;

		r = remote_get_layout(reader, &told, &layout);
		if (r == 0 && !is_right(&layout, &record->batches[i].layout))
			r = -EIO;
		if (r == 0)
			r = remote_queues_add(ctx, told.object, told.mem.offset, &layout, &queues);
		if (r == 0)
			nic_layout_deinit(&record->batches[i].layout);
	}
	return r;
}

/* As the context has it: for all hosts. */
static void take_down(struct remote_nic *nic)
{
	const struct remote_request request = {.head = {.op = REMOTE_PORT_SET, .nic = nic->index, .value = NIC_PORT_DOWN}};
	struct soft_port *port = soft_nic(nic->face)->port;
	struct remote_host *hosts[SOFT_MAX_EXECS];
	unsigned int n;

	if (soft_port_is_down(port))
		return;
	__atomic_store_n(&port->shared->down, true, __ATOMIC_RELAXED);
	n = remote_hosts(nic->all, NULL, hosts);
	for (unsigned int i = 0; i < n; i++) {
		remote_tell(hosts[i], &request);
		remote_host_put(hosts[i]);
	}
}

/* The NIC's, with all that this context did before. */
static int take_counters(struct remote_ctx *ctx, struct remote_reader *reader)
{
	struct nic_counters counters;

	if (!remote_get(reader, &counters, sizeof(counters)))
		return -EIO;
	remote_link_count(remote_link_of(ctx->host, ctx->nic), &counters);
	return 0;
}

static int take_objects(struct remote_ctx *ctx, const struct nic_import_attr *attr, const struct remote_packet *answer,
			struct soft_record *record)
{
	struct remote_reader reader = remote_reader(answer);
	struct remote_opened opened;
	int r;

	if (!remote_get(&reader, &opened, sizeof(opened)) || opened.n_mrs != attr->n_mr_fds || opened.n_queues != attr->n_queue_fds)
		return -EIO;
	r = take_mrs(ctx, &reader, opened.n_mrs);
	if (r == 0)
		r = take_queues(ctx, &reader, record);
	if (r == 0)
		r = take_counters(ctx, &reader);
	if (r == 0 && opened.is_down)
		take_down(ctx->nic);
	return r;
}

static int take_context(struct remote_nic *nic, struct remote_host *host, const struct nic_import_attr *attr, struct remote_packet *answer,
			struct soft_record *record, struct nic_imported *ret_imported)
{
	struct remote_ctx *ctx;
	int r;

	r = remote_ctx_new(nic, host, &attr->ctx, answer, &ctx);
	if (r < 0)
		return r;
	r = take_objects(ctx, attr, answer, record);
	if (r == 0)
		r = nic_imported_init(ret_imported, &ctx->base);
	if (r < 0)
		remote_ctx_unimport(&ctx->base);
	return r;
}

/* ---- import ----------------------------------------------------------------------------------------------------------------- */

static bool all_there(const struct nic_import_attr *attr)
{
	bool there = attr->fds.n <= NIC_SAVED_FDS;

	for (unsigned int i = 0; there && i < attr->fds.n; i++)
		there = attr->fds.fds[i] >= 0;
	for (unsigned int i = 0; there && i < attr->n_queue_fds; i++)
		there = attr->queue_fds[i] >= 0;
	for (unsigned int i = 0; there && i < attr->n_mr_fds; i++)
		there = attr->mr_fds[i] >= 0;
	return there;
}

static bool may_import(struct remote_nic *nic)
{
	bool may;

	pthread_mutex_lock(&nic->all->lock);
	may = !nic->is_open;
	nic->was_started |= may;
	pthread_mutex_unlock(&nic->all->lock);
	return may;
}

/* The table is the daemon's, so what a record says of ports and numbers is judged here. */
static int take_record(struct remote_nic *nic, const struct remote_host *host, struct soft_record *record)
{
	uint32_t n = 0;
	int r = record->nic == nic->index ? 0 : -EXDEV;

	if (r == 0)
		r = soft_fabric_adopt(soft_nic(nic->face)->fabric, record->n_ports, (const uint8_t(*)[16])record->gids);
	for (; r == 0 && n < record->n_batches; n += r == 0)
		r = remote_numbers_reserve(nic, host, &record->batches[n].layout);
	/* The caller drops only numbers that were taken here. */
	for (; r < 0 && n < record->n_batches; n++)
		nic_layout_deinit(&record->batches[n].layout);
	return r;
}

static void drop_record(const struct remote_nic *nic, const struct remote_host *host, const struct soft_record *record)
{
	for (uint32_t i = 0; i < record->n_batches; i++)
		remote_numbers_drop(nic, host, &record->batches[i].layout);
}

static int import_record(struct remote_nic *nic, struct remote_host *host, const struct nic_import_attr *attr,
			 struct soft_record *record, struct nic_imported *ret_imported)
{
	struct remote_packet answer;
	int r = take_record(nic, host, record);

	if (r == 0)
		r = import_in(host, nic, attr, &answer);
	if (r >= 0) {
		r = take_context(nic, host, attr, &answer, record, ret_imported);
		remote_packet_deinit(&answer);
	}
	drop_record(nic, host, record);
	return r;
}

/* With a record of its own, since a host that dies may have taken half of it. */
static int import_once(struct remote_nic *nic, const struct nic_import_attr *attr, struct nic_imported *ret_imported)
{
	_cleanup_(soft_record_deinit) struct soft_record record = {0};
	struct remote_host *host;
	int r;

	r = soft_record_decode(attr->record, attr->record_bytes, &record);
	if (r == 0)
		r = remote_host_get(nic, attr->ctx.uid, &host);
	if (r < 0)
		return r;
	r = import_record(nic, host, attr, &record, ret_imported);
	remote_host_put(host);
	return r;
}

int remote_ctx_import(struct nic *base, const struct nic_import_attr *attr, struct nic_imported *ret_imported)
{
	struct remote_nic *nic = remote_nic(base);
	int r = -ENODEV;

	if (!all_there(attr))
		return -EBADF;
	if (!may_import(nic))
		return -EBUSY;
	for (unsigned int i = 0; r == -ENODEV && i < REMOTE_TRIES; i++)
		r = import_once(nic, attr, ret_imported);
	return r;
}
