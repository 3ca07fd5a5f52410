/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context of a former process. That process may be dying still, at memory of its user: nothing of the context is touched before the
 * lock on its ledger says that it has gone. Descriptors come before the import, in several packets. The thread of works.
 */
#include "daemon/nic/soft/remote/serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/base/cleanup.h"

int serve_fds(struct serve *serve, struct remote_packet *request)
{
	/* An import that was given up has left some. */
	if (request->head.number == 0)
		serve_fds_drop(serve);
	if (request->head.number != serve->n_fds || request->n_fds == 0)
		return -EMFILE;
	if (serve->n_fds + request->n_fds > serve->max_fds) {
		/* bounded: one for each region and batch of a session. */
		unsigned int max = 2 * serve->max_fds + REMOTE_MAX_FDS;
		int *fds = reallocarray(serve->fds, max, sizeof(*fds));

		if (!fds)
			return -ENOMEM;
		serve->fds = fds;
		serve->max_fds = max;
	}
	for (unsigned int i = 0; i < request->n_fds; i++)
		serve->fds[serve->n_fds++] = remote_packet_take_fd(request, i);
	return 0;
}

void serve_fds_drop(struct serve *serve)
{
	for (unsigned int i = 0; i < serve->n_fds; i++)
		safe_close(serve->fds[i]);
	free(serve->fds);
	serve->fds = NULL;
	serve->n_fds = serve->max_fds = 0;
}

static void tell_objects(const struct nic_imported *imported, struct serve_answer *answer)
{
	struct remote_opened *opened = (void *)answer->body.buf;
	struct nic_counters sum;

	if (answer->body.is_short)
		return;
	opened->n_mrs = imported->n_mrs;
	opened->n_queues = imported->n_queues;
	for (unsigned int i = 0; i < imported->n_mrs; i++) {
		const struct soft_mr *mr = container_of(imported->mrs[i], struct soft_mr, base);
		const struct remote_mr_told told = {.object = serve_id(&mr->base), .key = mr->base.lkey, .attr = mr->attr};

		remote_put(&answer->body, &told, sizeof(told));
	}
	for (unsigned int i = 0; i < imported->n_queues; i++) {
		const struct soft_queues *queues = container_of(imported->queues[i], struct soft_queues, base);
		const struct nic_queue_mem mem = {.kind = NIC_MEM_MEMFD, .offset = queues->mem_offset};

		remote_put_layout(&answer->body, &queues->base.layout, serve_id(&queues->base), &mem);
	}
	soft_counters_known(soft_nic(imported->ctx->nic), &sum);
	remote_put(&answer->body, &sum, sizeof(sum));
}

static int import(struct serve *serve, struct nic *nic, const struct nic_import_attr *attr, int lock_fd, struct serve_answer *answer)
{
	_cleanup_(nic_imported_deinit) struct nic_imported imported = {0};
	int r = nic->ops->ctx_import(nic, attr, &imported);

	if (r < 0) {
		safe_close(lock_fd);
		return r;
	}
	r = serve_ctx_add(serve, imported.ctx, lock_fd, answer);
	if (r == 0)
		tell_objects(&imported, answer);
	return r;
}

/* They came in this order: the context's own, those of queue memory, those of regions. */
static int find_fds(const struct serve *serve, struct nic_import_attr *attr)
{
	unsigned int n = attr->fds.n;

	if (n > NIC_SAVED_FDS || serve->n_fds != (uint64_t)n + attr->n_queue_fds + attr->n_mr_fds)
		return -EBADMSG;
	memcpy(attr->fds.fds, serve->fds, n * sizeof(int));
	attr->queue_fds = serve->fds + n;
	attr->mr_fds = serve->fds + n + attr->n_queue_fds;
	return 0;
}

static bool is_same(int a, int b)
{
	struct stat at, bt;

	return fstat(a, &at) == 0 && fstat(b, &bt) == 0 && at.st_dev == bt.st_dev && at.st_ino == bt.st_ino;
}

/* No other process waits for this lock. */
static bool has_already(const struct serve *serve, int ledger)
{
	const struct serve_ctx *ctx;

	list_for_each_entry (ctx, &serve->ctxs, link)
		if (ctx->lock_fd >= 0 && is_same(ctx->lock_fd, ledger))
			return true;
	return false;
}

static int lock_and_import(struct serve *serve, const struct remote_packet *request, struct nic_import_attr *attr,
			   struct serve_answer *answer)
{
	int lock_fd, r;

	if (attr->fds.n != SOFT_N_SAVED)
		return -EBADF;
	/* An executor of several users, which a daemon of before has left, would be in several processes. */
	if (soft_page_is_shared(attr->fds.fds[SOFT_SAVED_NIC_PAGE]))
		return -EXDEV;
	if (has_already(serve, attr->fds.fds[SOFT_SAVED_LEDGER]))
		return -EINVAL;
	r = soft_lock_take(attr->fds.fds[SOFT_SAVED_LEDGER], request->head.nsec, &lock_fd);
	return r < 0 ? r : import(serve, serve->nics[request->head.nic].nic, attr, lock_fd, answer);
}

int serve_ctx_import(struct serve *serve, struct remote_packet *request, struct serve_answer *answer)
{
	struct remote_reader reader = remote_reader(request);
	struct nic_import_attr attr;
	int r = -EBADMSG;

	if (remote_get(&reader, &attr, sizeof(attr))) {
		attr.record = reader.at;
		attr.record_bytes = (size_t)(reader.end - reader.at);
		r = find_fds(serve, &attr);
	}
	if (r == 0)
		r = lock_and_import(serve, request, &attr, answer);
	serve_fds_drop(serve);
	return r;
}
