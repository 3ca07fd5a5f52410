/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts of a former daemon. Their host may not have died yet, since a process that sleeps at a hole in its user's memory does not;
 * imports wait for all of these 2 s in all, and give up the contexts of those that take longer. What a host says of layouts that it
 * read from a record is judged here as if it were the record.
 */
#include "daemon/nic/soft/remote/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

/* ---- the request ------------------------------------------------------------------------------------------------------------ */

static int send_fds(struct remote_host *host, struct remote_nic *nic, unsigned int n, const int *fds)
{
	for (unsigned int done = 0; done < n;) {
		unsigned int now = n - done < REMOTE_MAX_FDS ? n - done : REMOTE_MAX_FDS;
		struct remote_request request = {.head = {.op = REMOTE_FDS, .nic = nic->index}, .n_fds = now, .fds = fds + done};
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
		.head = {.op = REMOTE_CTX_IMPORT, .nic = nic->index, .nsec = nic->all->import_nsec}};
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
	r = send_fds(host, nic, attr->fds.n, attr->fds.fds);
	if (r == 0)
		r = send_fds(host, nic, attr->n_queue_fds, attr->queue_fds);
	if (r == 0)
		r = send_fds(host, nic, attr->n_mr_fds, attr->mr_fds);
	if (r == 0)
		r = send_record(host, nic, attr, ret_answer);
	pthread_mutex_unlock(&host->works.lock);
	took = nsec_now() - begin;
	if (r == -EBUSY)
		nic->all->import_nsec -= took < nic->all->import_nsec ? took : nic->all->import_nsec;
	return r;
}

/* ---- the answer ------------------------------------------------------------------------------------------------------------- */

static int take_mrs(struct remote_ctx *ctx, struct remote_reader *reader, uint32_t n, struct nic_imported *imported)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < n; i++) {
		struct remote_mr_told told;

		r = remote_get(reader, &told, sizeof(told)) ? remote_mr_add(ctx, &told.attr, told.object, told.key, &imported->mrs[i])
							    : -EIO;
		imported->n_mrs += r == 0;
	}
	return r;
}

static bool is_right(const struct nic_layout *layout)
{
	bool right = true;

	for (uint32_t i = 0; right && i < layout->n_cqs; i++)
		right = nic_cq_is_right(&layout->cqs[i], layout->total_bytes);
	for (uint32_t i = 0; right && i < layout->n_qps; i++)
		right = nic_qp_is_right(&layout->qps[i], layout->total_bytes);
	return right;
}

static int take_queues(struct remote_ctx *ctx, struct remote_reader *reader, uint32_t n, struct nic_imported *imported)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < n; i++) {
		_cleanup_(nic_layout_deinit) struct nic_layout layout = {0};
		struct remote_queues_told told;

		r = remote_get_layout(reader, &told, &layout);
		if (r == 0 && !is_right(&layout))
			r = -EIO;
		if (r == 0)
			r = remote_queues_add(ctx, told.object, told.mem.offset, &layout, &imported->queues[i]);
		imported->n_queues += r == 0;
	}
	return r;
}

static int take_objects(struct remote_ctx *ctx, const struct nic_import_attr *attr, const struct remote_packet *answer,
			struct nic_imported *imported)
{
	struct remote_reader reader = remote_reader(answer);
	struct remote_opened opened;
	int r;

	/* bounded: remote_ctx_new() read it, and a region or batch has a descriptor each. */
	if (!remote_get(&reader, &opened, sizeof(opened)) || opened.n_mrs != attr->n_mr_fds || opened.n_queues != attr->n_queue_fds)
		return -EIO;
	imported->mrs = calloc((size_t)opened.n_mrs + 1, sizeof(struct nic_mr *));
	imported->queues = calloc((size_t)opened.n_queues + 1, sizeof(struct nic_queues *));
	if (!imported->mrs || !imported->queues)
		return -ENOMEM;
	r = take_mrs(ctx, &reader, opened.n_mrs, imported);
	if (r == 0)
		r = take_queues(ctx, &reader, opened.n_queues, imported);
	if (r == 0)
		r = soft_fabric_adopt(soft_nic(ctx->nic->face)->fabric, opened.n_ports < REMOTE_MAX_NICS ? opened.n_ports : REMOTE_MAX_NICS,
				      (const uint8_t(*)[16])opened.gids);
	if (r == 0 && opened.is_down)
		remote_nic_adopt_down(ctx->nic, ctx->host);
	return r;
}

static int take_context(struct remote_nic *nic, struct remote_host *host, const struct nic_import_attr *attr, struct remote_packet *answer,
			struct nic_imported *ret_imported)
{
	struct nic_imported imported = {0};
	struct remote_ctx *ctx;
	int r;

	r = remote_ctx_new(nic, host, &attr->ctx, answer, &ctx);
	if (r < 0)
		return r;
	r = take_objects(ctx, attr, answer, &imported);
	if (r < 0) {
		remote_ctx_unimport(&ctx->base);
		nic_imported_deinit(&imported);
		return r;
	}
	imported.ctx = &ctx->base;
	*ret_imported = imported;
	return 0;
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

int remote_ctx_import(struct nic *base, const struct nic_import_attr *attr, struct nic_imported *ret_imported)
{
	struct remote_nic *nic = remote_nic(base);
	struct remote_packet answer;
	struct remote_host *host;
	int r;

	if (!all_there(attr))
		return -EBADF;
	if (!may_import(nic))
		return -EBUSY;
	r = remote_host_get(nic, attr->ctx.uid, &host);
	if (r < 0)
		return r;
	r = import_in(host, nic, attr, &answer);
	if (r >= 0) {
		r = take_context(nic, host, attr, &answer, ret_imported);
		remote_packet_deinit(&answer);
	}
	remote_host_put(host);
	return r;
}
