/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts that outlive their process: the record of what one holds, and going on with it in another.
 *
 * Saved are the doorbell page and the wake descriptor that the client has, the NIC page that all clients have, and the
 * context's ledger, in which the engine notes what it does. An import makes everything under the numbers, keys and addresses
 * of before, and leaves it alone until the NIC resumes, for peers may be missing yet. To forget a context without touching what
 * is saved, its objects leave the ledger, and its QPs end before the engine has another turn; then it is destroyed as any other.
 *
 * The caller's thread, but for what is handed to the data thread.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/nic/soft/soft-record.h"
#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define LEAST_PATIENCE_NSEC (100 * NSEC_PER_MSEC) /* for a process that is dying, whatever others took */

_Static_assert(SOFT_RECORD_PORTS == SOFT_MAX_NICS, "all NICs have a place");

_Static_assert((int)SOFT_N_SAVED <= NIC_SAVED_FDS, "room for all");

/* ---- keep and export ------------------------------------------------------------------------------------------------ */

int soft_ctx_saved_fds(struct nic_ctx *base, struct nic_saved_fds *ret_saved)
{
	const struct soft_ctx *ctx = soft_ctx(base);

	if (ctx->agent || ctx->ledger_fd < 0 || ctx->exec->nic_page.fd < 0)
		return -EOPNOTSUPP;
	*ret_saved = (struct nic_saved_fds){
		.n = SOFT_N_SAVED,
		.fds = {
			[SOFT_SAVED_DOORBELL] = ctx->page.fd,
			[SOFT_SAVED_WAKE] = ctx->page.wake_fd,
			[SOFT_SAVED_NIC_PAGE] = ctx->exec->nic_page.fd,
			[SOFT_SAVED_LEDGER] = ctx->ledger_fd,
		},
	};
	return 0;
}

int soft_mr_export(const struct nic_mr *base, void **ret_part, size_t *ret_bytes)
{
	const struct soft_mr *mr = container_of(base, struct soft_mr, base);

	return soft_record_export_mr(mr->base.lkey, &mr->attr, ret_part, ret_bytes);
}

int soft_queues_export(const struct nic_queues *base, void **ret_part, size_t *ret_bytes)
{
	const struct soft_queues *queues = container_of(base, struct soft_queues, base);

	return soft_record_export_batch(queues->mem_offset, &base->layout, ret_part, ret_bytes);
}

int soft_ctx_export(struct nic_ctx *base, void **ret_part, size_t *ret_bytes)
{
	struct soft_ctx *ctx = soft_ctx(base);
	struct soft_record record = {.nic = ctx->nic->index, .pdn = ctx->pdn};

	if (ctx->agent || ctx->ledger_fd < 0 || ctx->exec->nic_page.fd < 0)
		return -EOPNOTSUPP;
	record.n_ports = soft_fabric_gids(ctx->nic->fabric, record.gids);
	/* The data thread changes it in calls of this thread only. */
	record.past = ctx->past;
	return soft_record_encode(&record, ret_part, ret_bytes);
}

/* ---- unimport -------------------------------------------------------------------------------------------------------- */

struct leave_call {
	struct soft_call call;
	struct soft_ctx *ctx;
};

/* From here on the ledger notes nothing that the engine does, so the engine does nothing either. */
static bool run_leave(struct soft_exec *exec, struct soft_call *base)
{
	struct soft_ctx *ctx = container_of(base, struct leave_call, call)->ctx;

	doorbell_page_silence(&ctx->page);
	if (ctx->ledger)
		engine_ledger_leave(ctx->ledger);
	/* A DCI would say good-bye to its DCT. */
	exec->is_mute = true;
	soft_qps_destroy(ctx);
	exec->is_mute = false;
	return true;
}

struct nic_ctx *soft_ctx_unimport(struct nic_ctx *base)
{
	struct leave_call leave = {.call.run = run_leave};
	struct soft_ctx *ctx;

	if (!base)
		return NULL;
	leave.ctx = ctx = soft_ctx(base);
	soft_call(ctx->exec, &leave.call);
	/* The newest first: its QPs may use CQs of those before. */
	while (!list_empty(&ctx->base.queues)) {
		int r = soft_queues_destroy(container_of(ctx->base.queues.prev, struct nic_queues, link));

		assert_bug(r == 0);
	}
	while (!list_empty(&ctx->base.mrs))
		soft_mr_dereg(list_first_entry(&ctx->base.mrs, struct nic_mr, link));
	return soft_ctx_close(base);
}

/* ---- import ------------------------------------------------------------------------------------------------------------ */

/* No other kind of file says so of itself. */
static bool is_eventfd(int fd)
{
	static const char wanted[] = "anon_inode:[eventfd]";
	char path[32], what[sizeof(wanted)] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, what, sizeof(what)) == sizeof(wanted) - 1 && memcmp(what, wanted, sizeof(wanted) - 1) == 0;
}

static int check_attr(const struct soft_nic *nic, const struct nic_import_attr *attr, const struct soft_record *record)
{
	if (attr->ctx.doorbell != NIC_DOORBELL_AUTO && attr->ctx.doorbell != NIC_DOORBELL_CPU)
		return attr->ctx.doorbell == NIC_DOORBELL_UAR_MMAP ? -EOPNOTSUPP : -EINVAL;
	if (record->nic != nic->index)
		return -EXDEV;
	if (attr->fds.n != SOFT_N_SAVED || attr->n_queue_fds != record->n_batches || attr->n_mr_fds != record->n_mrs)
		return -EBADF;
	return is_eventfd(attr->fds.fds[SOFT_SAVED_WAKE]) ? 0 : -EBADF;
}

static int import_pages(struct soft_ctx *ctx, const struct nic_saved_fds *fds)
{
	int r = doorbell_page_adopt(&ctx->page, fds->fds[SOFT_SAVED_DOORBELL], fds->fds[SOFT_SAVED_WAKE], &ctx->base.doorbell);

	return r < 0 ? r : soft_map_adopt(fds->fds[SOFT_SAVED_LEDGER], soft_ledger_bytes(), &ctx->ledger_map, &ctx->ledger_fd);
}

static int import_mr(struct soft_ctx *ctx, const struct soft_record_mr *mr, int fd)
{
	const struct nic_mr_attr attr = {
		.kind = NIC_MEM_MEMFD,
		.fd = fd,
		.offset = mr->offset,
		.length_bytes = mr->length_bytes,
		.iova = mr->iova,
		.access = mr->access,
	};

	return soft_mr_restore(ctx, &attr, mr->key);
}

static int import_batch(struct soft_ctx *ctx, const struct soft_record_batch *batch, int fd)
{
	const struct nic_queue_mem mem = {
		.kind = NIC_MEM_MEMFD,
		.fd = fd,
		.offset = batch->mem_offset,
		.length_bytes = batch->layout.total_bytes,
	};

	return soft_queues_restore(ctx, &mem, &batch->layout);
}

static int import_objects(struct soft_ctx *ctx, const struct nic_import_attr *attr, const struct soft_record *record)
{
	int r = 0;

	ctx->past = record->past;
	pthread_mutex_lock(&ctx->nic->lock);
	nic_counters_add(&ctx->nic->former, &record->past);
	pthread_mutex_unlock(&ctx->nic->lock);
	for (uint32_t i = 0; r == 0 && i < record->n_mrs; i++)
		r = import_mr(ctx, &record->mrs[i], attr->mr_fds[i]);
	for (uint32_t i = 0; r == 0 && i < record->n_batches; i++)
		r = import_batch(ctx, &record->batches[i], attr->queue_fds[i]);
	return r;
}

/* Takes the executor. */
static int import_record(struct soft_exec *exec, const struct nic_import_attr *attr, const struct soft_record *record,
			 struct nic_imported *ret_imported)
{
	struct soft_ctx *ctx = soft_ctx_alloc(exec, &attr->ctx, record->pdn);
	int r;

	if (!ctx)
		return -ENOMEM;
	r = import_pages(ctx, &attr->fds);
	if (r == 0)
		r = soft_ctx_attach(ctx);
	if (r < 0) {
		soft_ctx_free(ctx);
		return r == -EBADMSG ? -EBADF : r;
	}
	r = import_objects(ctx, attr, record);
	/* The daemon adds the difference to what was reported before: a count that came too late would count twice. */
	if (r == 0)
		soft_exec_recount(exec);
	if (r == 0)
		r = nic_imported_init(ret_imported, &ctx->base);
	if (r < 0)
		soft_ctx_unimport(&ctx->base);
	return r;
}

static uint64_t import_patience(struct soft_fabric *fabric, uint64_t spent)
{
	uint64_t left;

	pthread_mutex_lock(&fabric->lock);
	fabric->import_nsec -= spent < fabric->import_nsec ? spent : fabric->import_nsec;
	left = fabric->import_nsec;
	pthread_mutex_unlock(&fabric->lock);
	return left > LEAST_PATIENCE_NSEC ? left : LEAST_PATIENCE_NSEC;
}

/* The process of a former daemon's executor, which may not have died yet. Nobody waits for a thread of this daemon, so nobody has the lock then. */
static int await_former(struct soft_nic *nic, int ledger_fd)
{
	uint64_t begin = nsec_now();
	int fd, r;

	/* In such a process the context has one already. */
	if (soft_fabric_is_view(nic->fabric))
		return 0;
	r = soft_lock_take(ledger_fd, import_patience(nic->fabric, 0), &fd);
	if (r == 0)
		safe_close(fd);
	else
		import_patience(nic->fabric, nsec_now() - begin);
	return r;
}

int soft_ctx_import(struct nic *base, const struct nic_import_attr *attr, struct nic_imported *ret_imported)
{
	_cleanup_(soft_record_deinit) struct soft_record record = {0};
	struct soft_nic *nic = soft_nic(base);
	struct soft_exec *exec;
	int r = soft_record_decode(attr->record, attr->record_bytes, &record);

	if (r == 0)
		r = check_attr(nic, attr, &record);
	if (r == 0)
		r = await_former(nic, attr->fds.fds[SOFT_SAVED_LEDGER]);
	if (r == 0)
		r = soft_exec_adopt(nic, attr->ctx.uid, attr->fds.fds[SOFT_SAVED_NIC_PAGE], &exec);
	if (r < 0)
		return r;
	r = soft_fabric_adopt(nic->fabric, record.n_ports, (const uint8_t(*)[16])record.gids);
	if (r == 0)
		return import_record(exec, attr, &record, ret_imported);
	soft_exec_put(exec);
	return r;
}
