/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XRC. A domain is opened by a file, and a process that opens the same file later has the same domain, of whatever process; without
 * a file no other process has it (Linux, ib_uverbs_open_xrcd). It ends with its last open, and keeps its file until then.
 *
 * A receiving QP belongs to its domain: the handles of its maker and of processes that opened it by its
 * number are equal, and it goes with the last one. Its events go to all of them.
 */
#include "tests/mlx5sim/sim/xrc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>

#include "proto/base/cleanup.h"

/* Under sim->lock. */
struct xrc_domain {
	struct list nic_link;
	struct list tgts;
	uint32_t users; /* opens */
	uint32_t number;
	uint32_t pdn; /* no client's: what its receiving QPs are charged to */
	int fd;	      /* -1: of no file */
	dev_t dev;
	ino_t ino;
};

/* ---- domains ----------------------------------------------------------------------------------------------------- */

static struct xrc_domain *domain_put(struct xrc_domain *domain)
{
	if (--domain->users)
		return NULL;
	list_del(&domain->nic_link);
	if (domain->fd >= 0)
		close(domain->fd);
	free(domain);
	return NULL;
}

static void xrcd_free(struct object *object)
{
	struct xrcd *xrcd = container_of(object, struct xrcd, object);

	sim_lock(object->ufile->sim);
	if (xrcd->domain)
		domain_put(xrcd->domain);
	sim_unlock(object->ufile->sim);
	free(xrcd);
}

static struct xrc_domain *find_domain(struct nic *nic, const struct stat *st)
{
	struct xrc_domain *domain;

	list_for_each_entry (domain, &nic->xrc_domains, nic_link) {
		if (domain->fd >= 0 && domain->dev == st->st_dev && domain->ino == st->st_ino)
			return domain;
	}
	return NULL;
}

/* Takes the descriptor. */
static struct xrc_domain *new_domain(struct nic *nic, int fd, const struct stat *st)
{
	struct xrc_domain *domain = calloc(1, sizeof(*domain));

	if (!domain && fd >= 0)
		close(fd);
	if (!domain)
		return NULL;
	domain->fd = fd;
	domain->dev = st->st_dev;
	domain->ino = st->st_ino;
	domain->number = nic->next_xrcdn++;
	domain->pdn = nic->next_pdn++;
	list_init(&domain->tgts);
	list_add_tail(&nic->xrc_domains, &domain->nic_link);
	return domain;
}

/* The domain of the file; a new one when there is none yet and the flags say so. */
static int take_domain(struct call *call, int own_fd, uint32_t flags, struct xrc_domain **ret_domain)
{
	_cleanup_close_ int fd = own_fd;
	struct xrc_domain *domain = NULL;
	struct stat st = {0};
	int r = 0;

	if (fd >= 0 && fstat(fd, &st) < 0)
		return call_refuse(call, -EBADF, "no such file");
	sim_lock(call->nic->sim);
	if (fd >= 0)
		domain = find_domain(call->nic, &st);
	if (fd >= 0 && !domain && !(flags & O_CREAT))
		r = -EAGAIN;
	else if (domain && (flags & O_EXCL))
		r = -EINVAL;
	else if (!domain)
		domain = new_domain(call->nic, take_fd(&fd), &st);
	if (r == 0 && !domain)
		r = -ENOMEM;
	if (r == 0)
		domain->users++;
	sim_unlock(call->nic->sim);
	*ret_domain = domain;
	return r < 0 ? call_refuse(call, r, r == -EAGAIN ? "no domain of this file, and no O_CREAT"
							 : "the domain cannot be opened with these flags")
		     : 0;
}

static int open_domain(struct call *call, const struct ib_uverbs_open_xrcd *cmd,
		       struct xrc_domain **ret_domain)
{
	int fd = -1;

	if (cmd->oflags & ~(uint32_t)(O_ACCMODE | O_CREAT | O_EXCL))
		return call_refuse(call, -EINVAL, "flags 0x%x", cmd->oflags);
	if (cmd->fd != UINT32_MAX) {
		fd = upcall_get_fd(call->reply, (int)cmd->fd);
		if (fd < 0)
			return call_refuse(call, -EBADF, "no descriptor %u", cmd->fd);
	}
	return take_domain(call, fd, cmd->oflags, ret_domain);
}

int write_open_xrcd(struct call *call)
{
	struct ib_uverbs_open_xrcd_resp resp = {0};
	struct ib_uverbs_open_xrcd cmd;
	struct xrcd *xrcd;
	int r;

	r = call_in_struct(call, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd));
	if (r < 0)
		return r;
	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return -ENOMEM;
	r = object_add(call->ufile, &xrcd->object, OBJECT_XRCD, xrcd_free);
	if (r < 0) {
		free(xrcd);
		return r;
	}
	r = open_domain(call, &cmd, &xrcd->domain);
	if (r < 0)
		xrcd->domain = NULL;
	resp.xrcd_handle = xrcd->object.handle;
	if (r == 0)
		r = call_out(call, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
	if (r < 0)
		object_destroy(&xrcd->object);
	return r;
}

struct xrcd *xrcd_get(struct call *call, uint64_t handle)
{
	struct object *object = object_get(call->ufile, OBJECT_XRCD, handle);

	return object ? container_of(object, struct xrcd, object) : NULL;
}

uint32_t xrcd_number(const struct xrcd *xrcd)
{
	return xrcd->domain->number;
}

int xrcd_destroy(struct call *call)
{
	struct xrcd *xrcd = xrcd_get(call, call_u64(call, UVERBS_ATTR_DESTROY_XRCD_HANDLE));

	if (!xrcd)
		return call_refuse(call, -ENOENT, "no such XRC domain");
	if (xrcd->object.users)
		return call_refuse(call, -EBUSY, "%u SRQs and QPs use it", xrcd->object.users);
	return object_destroy(&xrcd->object);
}

/* ---- receiving QPs ----------------------------------------------------------------------------------------------- */

int xrc_tgt_new(struct qp *qp)
{
	struct nic *nic = qp->object.ufile->nic;
	struct xrc_domain *domain = qp->xrcd->domain;
	struct engine_qp_attr attr = {
		.type = ENGINE_QP_XRC_TGT, .pdn = domain->pdn, .xrcdn = domain->number};
	struct xrc_tgt *tgt = calloc(1, sizeof(*tgt));
	int r;

	if (!tgt)
		return -ENOMEM;
	list_init(&tgt->handles);
	sim_lock(nic->sim);
	attr.qpn = nic->next_qpn++;
	r = engine_qp_create(nic->engine, &attr);
	if (r == 0) {
		tgt->qpn = qp->qpn = attr.qpn;
		nic->n_qps++;
		list_add_tail(&domain->tgts, &tgt->domain_link);
		list_add_tail(&tgt->handles, &qp->tgt_link);
		tgt->users++;
		qp->tgt = tgt;
	}
	sim_unlock(nic->sim);
	if (r < 0)
		free(tgt);
	return r;
}

void xrc_tgt_put(struct qp *qp)
{
	struct nic *nic = qp->object.ufile->nic;
	struct xrc_tgt *tgt = qp->tgt;

	list_del(&qp->tgt_link);
	qp->tgt = NULL;
	if (--tgt->users > 0)
		return;
	engine_qp_destroy(nic->engine, tgt->qpn);
	nic->n_qps--;
	list_del(&tgt->domain_link);
	free(tgt);
}

static struct xrc_tgt *find_tgt(const struct xrc_domain *domain, uint32_t qpn)
{
	struct xrc_tgt *tgt;

	list_for_each_entry (tgt, &domain->tgts, domain_link) {
		if (tgt->qpn == qpn)
			return tgt;
	}
	return NULL;
}

static int open_tgt(struct call *call, struct qp *qp, const struct ib_uverbs_open_qp *cmd)
{
	struct xrc_tgt *tgt;

	qp->xrcd = xrcd_get(call, cmd->pd_handle);
	if (!qp->xrcd)
		return call_refuse(call, -EINVAL, "no such XRC domain");
	qp->xrcd->object.users++;
	qp->type = ENGINE_QP_XRC_TGT;
	qp->user_handle = cmd->user_handle;
	sim_lock(call->nic->sim);
	tgt = find_tgt(qp->xrcd->domain, cmd->qpn);
	if (tgt) {
		list_add_tail(&tgt->handles, &qp->tgt_link);
		tgt->users++;
		qp->tgt = tgt;
		qp->qpn = tgt->qpn;
	}
	sim_unlock(call->nic->sim);
	return tgt ? 0 : call_refuse(call, -EINVAL, "its XRC domain has no receiving QP 0x%x", cmd->qpn);
}

/* libmlx5 leaves the reserved bytes as they were, so they are not looked at. */
int write_open_qp(struct call *call)
{
	struct ib_uverbs_create_qp_resp resp = {0};
	struct ib_uverbs_open_qp cmd;
	struct qp *qp = NULL;
	int r;

	r = call_in_struct(call, UVERBS_ATTR_CORE_IN, &cmd, sizeof(cmd));
	if (r < 0)
		return r;
	if (cmd.qp_type != IB_UVERBS_QPT_XRC_TGT)
		return call_refuse(call, -EINVAL, "QPs of type %u are not shared", cmd.qp_type);
	r = qp_object_new(call, &qp);
	if (r < 0)
		return r;
	r = open_tgt(call, qp, &cmd);
	resp.qp_handle = qp->object.handle;
	resp.qpn = qp->qpn;
	if (r == 0)
		r = call_out(call, UVERBS_ATTR_CORE_OUT, &resp, sizeof(resp));
	if (r < 0)
		object_destroy(&qp->object);
	return r;
}

void xrc_engine_event(struct nic *nic, const struct engine_event *ev)
{
	struct xrc_domain *domain;
	struct xrc_tgt *tgt;
	struct qp *qp;

	list_for_each_entry (domain, &nic->xrc_domains, nic_link) {
		tgt = find_tgt(domain, ev->number);
		if (!tgt)
			continue;
		list_for_each_entry (qp, &tgt->handles, tgt_link)
			qp_event(qp, ev);
		return;
	}
}
