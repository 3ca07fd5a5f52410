/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts that outlive their process: the record of what one holds, and going on with it in another.
 *
 * An import asks for every object before it believes the record: a failed import lets go of what it took, and the objects stay
 * as they were. CQs are armed before the states of QPs are read, so that one of both reports an error that comes
 * meanwhile.
 *
 * The former process may have been killed in the middle of a request. Its objects that no record names are destroyed, once all
 * else is taken. A recorded object that it destroyed has a place without an object, until the rest is destroyed
 * too: regions and batches are those of the record, in number and order. A connection that it began is finished when it is asked
 * for again. Contexts are closed from their smallest part on, so where one of these is gone the context was being closed: then the rest
 * goes as well.
 *
 * Any thread that owns the context.
 */
#include "daemon/nic/mlx5/mlx5.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/doorbell.h>

#include "proto/base/cleanup.h"

/* ---- export -------------------------------------------------------------------------------------------------------------- */

static int export_object(const struct mlx5_object *object, struct mlx5_object_record *ret_record)
{
	if (object)
		return mlx5_object_export(object, ret_record);
	*ret_record = (struct mlx5_object_record){.gone = true};
	return 0;
}

int mlx5_mr_export(const struct nic_mr *base, void **ret_part, size_t *ret_bytes)
{
	const struct mlx5_mr *mr = container_of(base, struct mlx5_mr, base);
	const struct mlx5_record_mr record = {
		.gone = !mr->ibv,
		.handle = mr->ibv ? mr->ibv->handle : 0,
		.lkey = mr->base.lkey,
		.rkey = mr->base.rkey,
		.length_bytes = mr->base.length_bytes,
	};

	return mlx5_record_encode_mr(&record, ret_part, ret_bytes);
}

static int export_objects(const struct mlx5_queues *queues, struct mlx5_record_batch *batch)
{
	const struct nic_layout *layout = &batch->layout;
	int r = export_object(queues->umem, &batch->umem);

	for (uint32_t i = 0; r == 0 && i < layout->n_cqs; i++)
		r = export_object(queues->cqs[i].obj, &batch->cqs[i]);
	for (uint32_t i = 0; r == 0 && i < layout->n_qps; i++) {
		r = export_object(queues->qps[i].obj, &batch->qps[i]);
		batch->qps[i].state = queues->qps[i].state;
	}
	return r;
}

int mlx5_queues_export(const struct nic_queues *base, void **ret_part, size_t *ret_bytes)
{
	const struct mlx5_queues *queues = container_of(base, struct mlx5_queues, base);
	/* bounded: who made the layout saw to it. */
	_cleanup_free_ struct mlx5_object_record *cqs = calloc((size_t)base->layout.n_cqs + 1, sizeof(*cqs));
	_cleanup_free_ struct mlx5_object_record *qps = calloc((size_t)base->layout.n_qps + 1, sizeof(*qps));
	/* The arrays of the layout are the batch's own. */
	struct mlx5_record_batch batch = {
		.kind = queues->mem_kind, .mem_offset = queues->mem_offset, .layout = base->layout, .cqs = cqs, .qps = qps};
	int r;

	if (!cqs || !qps)
		return -ENOMEM;
	r = export_objects(queues, &batch);
	return r < 0 ? r : mlx5_record_encode_batch(&batch, ret_part, ret_bytes);
}

static int export_rmp(const struct mlx5_rmp *rmp, struct mlx5_record *record)
{
	int r;

	record->has_rmp = rmp->obj;
	if (!rmp->obj)
		return 0;
	r = export_object(rmp->umem, &record->rmp_umem);
	if (r == 0)
		r = export_object(rmp->obj, &record->rmp);
	record->rmp.number = rmp->rmpn;
	return r;
}

int mlx5_ctx_export(struct nic_ctx *base, void **ret_part, size_t *ret_bytes)
{
	struct mlx5_record record = {0};
	struct mlx5_ctx *ctx = mlx5_ctx(base);
	int r;

	/* Without a pooled batch, which no client has yet: the daemon that goes on destroys it. */
	record.heard = ctx->page;
	record.guid = ibv_get_device_guid(ctx->ibv->device);
	record.port = ctx->nic->port.number;
	record.meddled = ctx->meddled;
	record.pd_handle = ctx->pd->handle;
	record.pdn = ctx->pdn;
	record.uar_mmap_off = ctx->uar->mmap_off;
	record.has_counters = ctx->counter_set;
	r = export_object(ctx->uar->object, &record.uar);
	if (r == 0 && ctx->counter_set)
		r = export_object(ctx->counter_set, &record.counters);
	record.counters.number = ctx->counter_set_id;
	if (r == 0)
		r = export_rmp(&ctx->rmp, &record);
	return r < 0 ? r : mlx5_record_encode(&record, ret_part, ret_bytes);
}

/* The kernel's objects live as long as the first descriptor; the others are what clients ring and wake. */
int mlx5_ctx_saved_fds(struct nic_ctx *base, struct nic_saved_fds *ret_saved)
{
	const struct mlx5_ctx *ctx = mlx5_ctx(base);

	*ret_saved = (struct nic_saved_fds){.n = 1, .fds = {ctx->ibv->cmd_fd}};
	if (ctx->page)
		mlx5_page_saved_fds(ctx->page, ret_saved);
	return 0;
}

/* ---- unimport ------------------------------------------------------------------------------------------------------------ */

/* Half-built safe. */
static void unimport_queues(struct mlx5_queues *queues)
{
	struct nic_layout *layout = &queues->base.layout;

	for (uint32_t i = 0; queues->qps && i < layout->n_qps; i++) {
		mlx5_news_drop(queues->ctx->nic, &queues->qps[i].news);
		mlx5_object_unimport(take_ptr(queues->qps[i].obj));
	}
	for (uint32_t i = 0; queues->cqs && i < layout->n_cqs; i++) {
		mlx5_news_drop(queues->ctx->nic, &queues->cqs[i].news);
		mlx5_object_unimport(take_ptr(queues->cqs[i].obj));
	}
	mlx5_object_unimport(take_ptr(queues->umem));
	list_del(&queues->base.link);
	mlx5_queues_free(queues);
}

struct nic_ctx *mlx5_ctx_unimport(struct nic_ctx *base)
{
	struct mlx5_ctx *ctx;

	if (!base)
		return NULL;
	ctx = mlx5_ctx(base);
	mlx5_pooled_drop(ctx);
	/* Its thread looks at queue memory and at the register. */
	mlx5_ctx_close_page(ctx);
	while (!list_empty(&ctx->base.queues))
		unimport_queues(list_first_entry(&ctx->base.queues, struct mlx5_queues, base.link));
	while (!list_empty(&ctx->base.mrs)) {
		struct mlx5_mr *mr = list_first_entry(&ctx->base.mrs, struct mlx5_mr, base.link);

		list_del(&mr->base.link);
		if (mr->ibv)
			ibv_unimport_mr(mr->ibv);
		free(mr);
	}
	mlx5_rmp_unimport(ctx);
	mlx5_object_unimport(take_ptr(ctx->counter_set));
	mlx5_uar_unimport(take_ptr(ctx->uar));
	if (ctx->pd)
		ibv_unimport_pd(take_ptr(ctx->pd));
	/* The context goes on: the daemon that imports it counts this again. */
	pthread_mutex_lock(&ctx->nic->lock);
	ctx->counters = (struct nic_counters){0};
	pthread_mutex_unlock(&ctx->nic->lock);
	return mlx5_ctx_close(base);
}

/* ---- import: the context ---------------------------------------------------------------------------------------------------- */

/* Whatever a question for an object was answered: it is not the one that the record tells of. */
static int not_there(int r)
{
	return r == 0 || r == -ENODEV || r == -ENOMEM ? r : -ENOENT;
}

static int check_nic(struct mlx5_nic *nic, const struct nic_import_attr *attr, const struct mlx5_record *record)
{
	const struct ibv_context *ibv = mlx5_ibv_now(nic);
	struct stat theirs, ours;

	if (attr->fds.n < (record->heard ? MLX5_SAVED_FDS : 1) || fstat(attr->fds.fds[0], &theirs) < 0 ||
	    fstat(ibv->cmd_fd, &ours) < 0 || !S_ISCHR(theirs.st_mode))
		return -EBADF;
	if (theirs.st_rdev != ours.st_rdev || record->guid != ibv_get_device_guid(ibv->device) ||
	    record->port != nic->port.number)
		return -EXDEV;
	return attr->n_queue_fds && attr->n_queue_fds != record->n_batches ? -EINVAL : 0;
}

/*
 * libibverbs takes the descriptor once it has found the device, and closes it also when it fails then. Before that, which is
 * where the NIC was lost this moment, it does not: then the duplicate is closed, since the result is unknown.
 */
static int import_device(struct mlx5_ctx *ctx, int command_fd)
{
	int fd = fcntl(command_fd, F_DUPFD_CLOEXEC, 3);

	if (fd < 0)
		return -errno;
	errno = 0;
	ctx->ibv = ibv_import_device(fd);
	return ctx->ibv ? 0 : mlx5_errno(errno);
}

static int import_pd(struct mlx5_ctx *ctx, const struct mlx5_record *record)
{
	struct mlx5dv_pd pd = {0};
	struct mlx5dv_obj obj = {.pd = {.out = &pd}};

	errno = 0;
	ctx->pd = ibv_import_pd(ctx->ibv, record->pd_handle);
	if (!ctx->pd)
		return not_there(mlx5_errno(errno));
	obj.pd.in = ctx->pd;
	if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_PD) || pd.pdn != record->pdn)
		return -ENOENT;
	ctx->pdn = pd.pdn;
	mlx5_present_name(ctx->present, MLX5_OBJECT_PD, record->pd_handle);
	return 0;
}

/* NULL and 0: it was destroyed. */
static int import_object(struct mlx5_ctx *ctx, enum mlx5_object_kind kind, const struct mlx5_object_record *record,
			 struct mlx5_object **ret_object)
{
	struct mlx5_library *library = &ctx->nic->library_functions;
	int r;

	*ret_object = NULL;
	if (record->gone || !mlx5_present_name(ctx->present, kind, record->handle))
		return 0;
	r = mlx5_object_import(ctx->ibv, library->obj_import ? library : NULL, kind, record, ret_object);
	return r == -EOPNOTSUPP ? r : not_there(r);
}

/* Objects that go with the context alone. -ESTALE: the context was being closed. */
static int import_part(struct mlx5_ctx *ctx, enum mlx5_object_kind kind, const struct mlx5_object_record *record,
		       struct mlx5_object **ret_object)
{
	int r = import_object(ctx, kind, record, ret_object);

	return r == 0 && !*ret_object ? -ESTALE : r;
}

static int import_uar(struct mlx5_ctx *ctx, const struct mlx5_record *record)
{
	int r;

	if (!mlx5_present_name(ctx->present, MLX5_OBJECT_UAR, record->uar.handle))
		return -ESTALE;
	r = mlx5_uar_import(ctx->ibv, &record->uar, record->uar_mmap_off, &ctx->uar);
	return r == -EOPNOTSUPP ? r : not_there(r);
}

static int import_counters(struct mlx5_ctx *ctx, const struct mlx5_record *record)
{
	struct nic_counters counters;
	int r;

	if (!record->has_counters)
		return 0;
	r = import_part(ctx, MLX5_OBJECT_DEVX, &record->counters, &ctx->counter_set);
	if (r < 0)
		return r;
	ctx->counter_set_id = record->counters.number;
	ctx->counted_is_stale = true;
	return not_there(mlx5_ctx_counters(&ctx->base, &counters));
}

static int import_rmp(struct mlx5_ctx *ctx, const struct mlx5_record *record)
{
	int r;

	if (!record->has_rmp)
		return 0;
	r = import_part(ctx, MLX5_OBJECT_DEVX, &record->rmp, &ctx->rmp.obj);
	if (r == 0)
		r = import_part(ctx, MLX5_OBJECT_UMEM, &record->rmp_umem, &ctx->rmp.umem);
	ctx->rmp.rmpn = record->rmp.number;
	return r < 0 ? r : not_there(mlx5_rmp_query(ctx));
}

/* ---- import: regions --------------------------------------------------------------------------------------------------------- */

static int take_mr(struct mlx5_ctx *ctx, struct mlx5_mr *mr, const struct mlx5_record_mr *record)
{
	if (record->gone || !mlx5_present_name(ctx->present, MLX5_OBJECT_MR, record->handle))
		return 0;
	errno = 0;
	mr->ibv = ibv_import_mr(ctx->pd, record->handle);
	if (!mr->ibv)
		return not_there(mlx5_errno(errno));
	return mr->ibv->lkey == record->lkey && mr->ibv->rkey == record->rkey && mr->ibv->length == record->length_bytes
		       ? 0
		       : -ENOENT;
}

static int import_mr(struct mlx5_ctx *ctx, const struct mlx5_record_mr *record)
{
	struct mlx5_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return -ENOMEM;
	mr->base = (struct nic_mr){.ctx = &ctx->base,
				   .lkey = record->lkey,
				   .rkey = record->rkey,
				   .length_bytes = record->length_bytes};
	/* A record does not tell: a mapper destroys the region of a client or of a dmabuf as well. */
	mr->is_mapped = true;
	list_add_tail(&ctx->base.mrs, &mr->base.link);
	return take_mr(ctx, mr, record);
}

/* ---- import: queues ------------------------------------------------------------------------------------------------------------ */

/* The states of its QPs cover earlier CQEs; events of the armed CQ cover later ones. */
static int import_cq(struct mlx5_queues *queues, uint32_t i, const struct mlx5_object_record *record)
{
	const struct nic_cq *desc = &queues->base.layout.cqs[i];
	struct mlx5_cq *cq = &queues->cqs[i];
	uint8_t out[PRM_QUERY_CQ_OUT_BYTES];
	struct mlx5_cmd cmd;
	int r = import_object(queues->ctx, MLX5_OBJECT_DEVX, record, &cq->obj);

	cq->queues = queues;
	if (r < 0 || !cq->obj)
		return r;
	mlx5_cmd_query_cq(&cmd, desc->cqn);
	r = mlx5_exec_query(queues->ctx, cq->obj, &cmd, out);
	if (r < 0)
		return not_there(r);
	cq->seen_ci = (uint32_t)prm_get(out, PRM_QUERY_CQ_OUT_CQC + PRM_CQC_PRODUCER_COUNTER);
	cq->counted_ci = cq->seen_ci;
	cq->arm_sn = be32toh(mlx5_memory_word(&queues->memory, desc->dbrec_offset + offsetof(struct shmd_dbrec, snd))) >> 28;
	return not_there(mlx5_cq_enter(queues, i));
}

static int import_qp(struct mlx5_queues *queues, uint32_t i, const struct mlx5_object_record *record)
{
	struct mlx5_ctx *ctx = queues->ctx;
	struct mlx5_qp *qp = &queues->qps[i];
	int r;

	qp->desc = &queues->base.layout.qps[i];
	qp->queues = queues;
	list_init(&qp->news.link);
	r = import_object(ctx, MLX5_OBJECT_DEVX, record, &qp->obj);
	if (r < 0 || !qp->obj)
		return r;
	qp->send_cq = hash_get(&ctx->cqs, qp->desc->send_cqn);
	qp->recv_cq = hash_get(&ctx->cqs, qp->desc->recv_cqn);
	/* Nothing of ours destroys a CQ that a QP uses. */
	return qp->send_cq && qp->recv_cq ? not_there(mlx5_qp_enter(queues, i)) : -ENOENT;
}

static uint32_t told_error(const struct mlx5_queues *queues, const struct mlx5_qp *qp)
{
	return mlx5_memory_word(&queues->memory, qp->desc->dbrec_offset + SHMD_QP_ERROR_OFFSET);
}

static bool is_on_its_way(enum nic_qp_state state)
{
	return state == NIC_QPS_INIT || state == NIC_QPS_RTR || state == NIC_QPS_RTS;
}

/* The process that wrote the word beside the dbrec may not have reported it. A requested state is not an event. */
static int learn_state(struct mlx5_queues *queues, struct mlx5_qp *qp, enum nic_qp_state recorded)
{
	struct mlx5_ctx *ctx = queues->ctx;
	int r;

	if (!qp->obj)
		return 0;
	qp->first_error = told_error(queues, qp);
	qp->event_told = qp->first_error == SHMD_SYNDROME_WR_FLUSH_ERR;
	r = mlx5_qp_learn_state(ctx, qp);
	qp->cut = is_on_its_way(qp->state) && qp->state != recorded && (recorded == NIC_QPS_RST || recorded == NIC_QPS_INIT);
	if (r == 0 && qp->state == NIC_QPS_ERR)
		mlx5_events_qp_failed(ctx, qp);
	return not_there(r);
}

static int import_objects(struct mlx5_queues *queues, const struct mlx5_record_batch *batch, int fd)
{
	const struct nic_layout *layout = &queues->base.layout;
	struct mlx5_memory_attr attr = {.fd = fd, .offset = batch->mem_offset};
	int r = mlx5_queues_copy_layout(queues, &batch->layout);

	attr.bytes = layout->total_bytes;

	if (r == 0 && fd >= 0 && batch->kind == NIC_MEM_MEMFD)
		r = mlx5_memory_open(queues->ctx, &attr, &queues->memory, NULL);
	if (r == 0)
		r = import_object(queues->ctx, MLX5_OBJECT_UMEM, &batch->umem, &queues->umem);
	for (uint32_t i = 0; r == 0 && i < layout->n_cqs; i++)
		r = import_cq(queues, i, &batch->cqs[i]);
	for (uint32_t i = 0; r == 0 && i < layout->n_qps; i++)
		r = import_qp(queues, i, &batch->qps[i]);
	for (uint32_t i = 0; r == 0 && i < layout->n_qps; i++)
		r = learn_state(queues, &queues->qps[i], batch->qps[i].state);
	return r;
}

static int import_queues(struct mlx5_ctx *ctx, const struct mlx5_record_batch *batch, int fd)
{
	struct mlx5_queues *queues = calloc(1, sizeof(*queues));

	if (!queues)
		return -ENOMEM;
	queues->base.ctx = &ctx->base;
	queues->ctx = ctx;
	queues->mem_kind = batch->kind;
	queues->mem_offset = batch->mem_offset;
	list_add_tail(&ctx->base.queues, &queues->base.link);
	return import_objects(queues, batch, fd);
}

/* ---- import: the whole --------------------------------------------------------------------------------------------------------- */

static int import_all(struct mlx5_ctx *ctx, const struct nic_import_attr *attr, const struct mlx5_record *record)
{
	int r = import_device(ctx, attr->fds.fds[0]);

	if (r == 0)
		r = import_pd(ctx, record);
	if (r == 0)
		r = import_uar(ctx, record);
	if (r == 0)
		r = mlx5_ctx_open_events(ctx);
	if (r == 0)
		r = import_counters(ctx, record);
	if (r == 0)
		r = import_rmp(ctx, record);
	for (uint32_t i = 0; r == 0 && i < record->n_mrs; i++)
		r = import_mr(ctx, &record->mrs[i]);
	for (uint32_t i = 0; r == 0 && i < record->n_batches; i++)
		r = import_queues(ctx, &record->batches[i], attr->n_queue_fds ? attr->queue_fds[i] : -1);
	if (r == 0 && record->heard)
		r = mlx5_ctx_hear_again(ctx, &attr->fds);
	else if (r == 0)
		mlx5_ctx_make_doorbell(ctx);
	return r;
}

static int import_present(struct mlx5_nic *nic, const struct nic_import_attr *attr, const struct mlx5_record *record,
			  struct mlx5_present *present, struct nic_imported *ret_imported)
{
	struct mlx5_ctx *ctx = mlx5_ctx_alloc(nic, &attr->ctx);
	int r;

	if (!ctx)
		return -ENOMEM;
	ctx->present = present;
	r = import_all(ctx, attr, record);
	ctx->present = NULL;
	if (r == 0)
		r = nic_imported_init(ret_imported, &ctx->base);
	if (r < 0)
		mlx5_ctx_unimport(&ctx->base);
	else
		ctx->meddled = record->meddled;
	return r;
}

/* The list is from before this process has the device open: libmlx5's doorbell pages in it are of others, mostly dead ones. */
static int import_record(struct mlx5_nic *nic, const struct nic_import_attr *attr, const struct mlx5_record *record,
			 struct nic_imported *ret_imported)
{
	_cleanup_(mlx5_present_deinit) struct mlx5_present present;
	const struct mlx5_strays_attr strays = {
		.mappers = &nic->mappers, .uid = attr->ctx.uid, .command_fd = attr->fds.fds[0]};
	int r = mlx5_present_list(&present, strays.command_fd);

	if (r == 0)
		r = import_present(nic, attr, record, &present, ret_imported);
	if (r == -ESTALE)
		mlx5_present_unname(&present);
	if ((r == 0 || r == -ESTALE) && !attr->shared)
		mlx5_strays_destroy(&present, &strays);
	return r == -ESTALE ? -ENOENT : r;
}

int mlx5_ctx_import(struct nic *base, const struct nic_import_attr *attr, struct nic_imported *ret_imported)
{
	_cleanup_(mlx5_record_deinit) struct mlx5_record record = {0};
	struct mlx5_nic *nic = mlx5_nic(base);
	int r;

	if (attr->ctx.doorbell > NIC_DOORBELL_UAR_MMAP)
		return -EINVAL;
	r = mlx5_record_decode(attr->record, attr->record_bytes, &record);
	if (r < 0)
		return r;
	if (record.heard && !MLX5_HAS_BELL)
		return -EOPNOTSUPP;
	if (mlx5_is_lost(nic))
		return -ENODEV;
	r = check_nic(nic, attr, &record);
	return r < 0 ? r : import_record(nic, attr, &record, ret_imported);
}
