/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts of a fake NIC that go on in another one: everything is in the parts of its record, and what must outlive is a doorbell
 * page that is looked at by its inode, as is the memory of regions and queues. The record of a context without regions and batches
 * ends with two counts and a sum, as nic_record_join() wants it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/cleanup.h"
#include "tests/lib/test.h"
#include "tests/unit/nic/record-seal.h"
#include "tests/unit/session/fake-nic-private.h"

struct record_head {
	uint32_t magic, version, total;
	uint64_t session_id;
	struct nic_doorbell doorbell;
};

struct record_queues {
	uint32_t n_cqs, n_qps;
	uint64_t total_bytes, offset;
};

struct record_qp {
	struct nic_qp desc;
	enum nic_qp_state state;
	struct nic_addr remote;
};

struct record {
	uint8_t *buf;
	size_t n;
};

static void add(struct record *record, const void *bytes, size_t n)
{
	record->buf = realloc(record->buf, record->n + n + 1);
	ASSERT(record->buf);
	if (n)
		memcpy(record->buf + record->n, bytes, n);
	record->n += n;
}

static struct fake_qp *find_qp(struct fake_ctx *ctx, uint32_t qpn)
{
	struct fake_qp *qp;

	list_for_each_entry(qp, &ctx->qps, link)
		if (qp->qpn == qpn)
			return qp;
	return NULL;
}

int fake_queues_export(const struct nic_queues *base, void **ret_part, size_t *ret_bytes)
{
	const struct fake_queues *queues = container_of(base, struct fake_queues, base);
	struct fake_ctx *ctx = container_of(base->ctx, struct fake_ctx, base);
	const struct nic_layout *layout = &base->layout;
	const struct record_queues head = {layout->n_cqs, layout->n_qps, layout->total_bytes, queues->offset};
	struct record record = {0};

	fake_of(base->ctx->nic)->n_exports++;
	if (!ctx->is_saved)
		return -EOPNOTSUPP;
	add(&record, &head, sizeof(head));
	add(&record, layout->cqs, layout->n_cqs * sizeof(layout->cqs[0]));
	for (uint32_t i = 0; i < layout->n_qps; i++) {
		struct fake_qp *qp = find_qp(ctx, layout->qps[i].qpn);
		struct record_qp one;

		/* Also between its fields: records are compared. */
		memset(&one, 0, sizeof(one));
		one.desc = layout->qps[i];
		one.state = qp->state;
		one.remote = qp->remote;
		add(&record, &one, sizeof(one));
	}
	*ret_part = record.buf;
	*ret_bytes = record.n;
	return 0;
}

int fake_mr_export(const struct nic_mr *base, void **ret_part, size_t *ret_bytes)
{
	struct record record = {0};
	struct nic_mr one = *base;

	fake_of(base->ctx->nic)->n_exports++;
	if (!container_of(base->ctx, struct fake_ctx, base)->is_saved)
		return -EOPNOTSUPP;
	one.ctx = NULL;
	add(&record, &one, sizeof(one));
	*ret_part = record.buf;
	*ret_bytes = record.n;
	return 0;
}

int fake_ctx_export(struct nic_ctx *base, void **ret_part, size_t *ret_bytes)
{
	struct fake_ctx *ctx = container_of(base, struct fake_ctx, base);
	static const uint8_t counts[8];
	struct record record = {0};
	struct record_head head;

	if (!ctx->is_saved || !fake_of(base->nic)->saves)
		return -EOPNOTSUPP;
	memset(&head, 0, sizeof(head));
	head.session_id = base->session_id;
	head.doorbell = base->doorbell;
	/* Objects that only this process has are left out. */
	head.doorbell.page_fd = -1;
	add(&record, &head, sizeof(head));
	add(&record, counts, sizeof(counts));
	add(&record, counts, RECORD_SUM_BYTES);
	record_seal(record.buf, record.n);
	*ret_part = record.buf;
	*ret_bytes = record.n;
	return 0;
}

int fake_ctx_saved_fds(struct nic_ctx *base, struct nic_saved_fds *ret_saved)
{
	if (!container_of(base, struct fake_ctx, base)->is_saved || !fake_of(base->nic)->saves)
		return -EOPNOTSUPP;
	*ret_saved = (struct nic_saved_fds){.n = 1, .fds = {base->doorbell.page_fd}};
	return 0;
}

/* ---- and back ----------------------------------------------------------------------------------------------------- */

struct reader {
	const uint8_t *at;
	size_t left;
};

static bool get(struct reader *reader, void *to, size_t n)
{
	if (n > reader->left)
		return false;
	memcpy(to, reader->at, n);
	reader->at += n;
	reader->left -= n;
	return true;
}

static int import_mr(struct fake_ctx *ctx, struct reader *reader, struct nic_imported *imported)
{
	struct fake_mr *mr = calloc(1, sizeof(*mr));

	if (!get(reader, &mr->base, sizeof(mr->base))) {
		free(mr);
		return -EINVAL;
	}
	mr->base.ctx = &ctx->base;
	list_add_tail(&ctx->mrs, &mr->link);
	imported->mrs[imported->n_mrs++] = &mr->base;
	fake_of(ctx->base.nic)->n_mrs++;
	return 0;
}

static int import_qps(struct fake_ctx *ctx, struct reader *reader, struct nic_layout *layout)
{
	for (uint32_t i = 0; i < layout->n_qps; i++) {
		struct fake_qp *qp = calloc(1, sizeof(*qp));
		struct record_qp one;

		list_init(&qp->link);
		if (!get(reader, &one, sizeof(one))) {
			free(qp);
			layout->n_qps = i;
			return -EINVAL;
		}
		layout->qps[i] = one.desc;
		*qp = (struct fake_qp){.qpn = one.desc.qpn, .state = one.state, .remote = one.remote};
		list_add_tail(&ctx->qps, &qp->link);
	}
	return 0;
}

static int import_queues(struct fake_ctx *ctx, struct reader *reader, int fd, struct nic_imported *imported)
{
	struct fake_queues *queues = calloc(1, sizeof(*queues));
	struct nic_layout *layout = &queues->base.layout;
	struct record_queues head;

	queues->base.ctx = &ctx->base;
	queues->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	list_add_tail(&ctx->queues, &queues->link);
	imported->queues[imported->n_queues++] = &queues->base;
	fake_of(ctx->base.nic)->n_queues++;
	if (!get(reader, &head, sizeof(head)) || head.n_cqs > 4096 || head.n_qps > 4096)
		return -EINVAL;
	queues->offset = head.offset;
	*layout = (struct nic_layout){.n_cqs = head.n_cqs, .n_qps = head.n_qps, .total_bytes = head.total_bytes};
	layout->cqs = calloc((size_t)head.n_cqs + 1, sizeof(*layout->cqs));
	layout->qps = calloc((size_t)head.n_qps + 1, sizeof(*layout->qps));
	if (!get(reader, layout->cqs, head.n_cqs * sizeof(*layout->cqs))) {
		layout->n_qps = 0;
		return -EINVAL;
	}
	return import_qps(ctx, reader, layout);
}

static int import_all(struct fake_ctx *ctx, const struct nic_import_attr *attr, struct reader *reader,
		      struct nic_imported *imported)
{
	struct record_head head;
	uint32_t n_mrs, n_queues;
	int r = 0;

	if (!get(reader, &head, sizeof(head)) || head.session_id != attr->ctx.session_id || !get(reader, &n_mrs, sizeof(n_mrs)))
		return -EINVAL;
	if (n_mrs != attr->n_mr_fds || attr->fds.n != 1)
		return -EBADF;
	imported->mrs = calloc((size_t)n_mrs + 1, sizeof(*imported->mrs));
	ctx->base.doorbell = head.doorbell;
	ctx->base.doorbell.page_fd = fcntl(attr->fds.fds[0], F_DUPFD_CLOEXEC, 3);
	for (uint32_t i = 0; r == 0 && i < n_mrs; i++)
		r = import_mr(ctx, reader, imported);
	if (r < 0 || !get(reader, &n_queues, sizeof(n_queues)))
		return -EINVAL;
	if (n_queues != attr->n_queue_fds)
		return -EBADF;
	imported->queues = calloc((size_t)n_queues + 1, sizeof(*imported->queues));
	for (uint32_t i = 0; r == 0 && i < n_queues; i++)
		r = import_queues(ctx, reader, attr->queue_fds[i], imported);
	return r < 0 || reader->left == RECORD_SUM_BYTES ? r : -EINVAL;
}

int fake_ctx_import(struct nic *nic, const struct nic_import_attr *attr, struct nic_imported *ret_imported)
{
	struct reader reader = {attr->record, attr->record_bytes};
	struct fake_nic *fake = fake_of(nic);
	struct fake_ctx *ctx;
	int r;

	ASSERT_EQ(fake->n_resumes, 0);
	if (++fake->n_calls == fake->fail_at)
		return fake->fail_err;
	for (unsigned int i = 0; nic->saves_memory && i < attr->n_mr_fds; i++)
		if (attr->mr_fds[i] < 0)
			return -EBADF;
	for (unsigned int i = 0; i < attr->n_queue_fds; i++)
		if (attr->queue_fds[i] < 0)
			return -EBADF;
	ctx = calloc(1, sizeof(*ctx));
	ctx->base = (struct nic_ctx){.nic = nic, .session_id = attr->ctx.session_id};
	ctx->base.doorbell.page_fd = -1;
	ctx->is_saved = attr->ctx.is_saved;
	list_init(&ctx->qps);
	list_init(&ctx->mrs);
	list_init(&ctx->queues);
	fake->n_ctxs++;
	*ret_imported = (struct nic_imported){.ctx = &ctx->base};
	r = import_all(ctx, attr, &reader, ret_imported);
	if (r == 0)
		return 0;
	nic_imported_deinit(ret_imported);
	fake_ctx_unimport(&ctx->base);
	return r;
}

struct nic_ctx *fake_ctx_unimport(struct nic_ctx *base)
{
	struct fake_ctx *ctx = container_of(base, struct fake_ctx, base);
	struct fake_nic *fake = fake_of(base->nic);
	struct fake_queues *queues, *tmp_queues;
	struct fake_qp *qp, *tmp_qp;
	struct fake_mr *mr, *tmp_mr;

	list_for_each_entry_safe(qp, tmp_qp, &ctx->qps, link) {
		list_del(&qp->link);
		free(qp);
	}
	list_for_each_entry_safe(mr, tmp_mr, &ctx->mrs, link) {
		list_del(&mr->link);
		free(mr);
		fake->n_mrs--;
	}
	list_for_each_entry_safe(queues, tmp_queues, &ctx->queues, link) {
		list_del(&queues->link);
		nic_layout_deinit(&queues->base.layout);
		safe_close(queues->fd);
		free(queues);
		fake->n_queues--;
	}
	safe_close(base->doorbell.page_fd);
	fake->n_ctxs--;
	free(ctx);
	return NULL;
}

void fake_resume(struct nic *nic)
{
	fake_of(nic)->n_resumes++;
}
