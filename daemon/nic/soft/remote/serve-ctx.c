/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts in the process: who has which, the lock that says that this process lives, and what the daemon gets of one. */
#include "daemon/nic/soft/remote/serve.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/cleanup.h"

struct serve_ctx *serve_find_ctx(struct serve *serve, uint64_t id)
{
	struct serve_ctx *ctx;

	list_for_each_entry (ctx, &serve->ctxs, link)
		if (serve_id(ctx) == id)
			return ctx;
	return NULL;
}

/* ---- contexts ------------------------------------------------------------------------------------------------------------- */

static void tell_ctx(const struct serve_ctx *of, struct serve_answer *answer)
{
	const struct soft_ctx *ctx = soft_ctx(of->ctx);
	struct remote_opened opened = {
		.ctx = serve_id(of),
		.pdn = ctx->pdn,
		.register_offset = ctx->base.doorbell.register_offset,
		.is_down = soft_port_is_down(ctx->nic->port) || __atomic_load_n(&ctx->nic->was_down, __ATOMIC_RELAXED),
		.past = ctx->past,
	};
	struct nic_saved_fds saved;

	opened.n_ports = soft_fabric_gids(ctx->nic->fabric, opened.gids);
	answer->head.ctx = opened.ctx;
	remote_put(&answer->body, &opened, sizeof(opened));
	answer->fds[REMOTE_FD_DOORBELL] = ctx->base.doorbell.page_fd;
	answer->fds[REMOTE_FD_WAKE] = ctx->base.doorbell.wake_fd;
	answer->fds[REMOTE_FD_CLIENT_PAGE] = ctx->base.doorbell.nic_page_fd;
	answer->n_fds = REMOTE_FD_NIC_PAGE;
	if (of->ctx->nic->ops->ctx_saved_fds(of->ctx, &saved) < 0)
		return;
	answer->fds[REMOTE_FD_NIC_PAGE] = saved.fds[SOFT_SAVED_NIC_PAGE];
	answer->fds[REMOTE_FD_LEDGER] = saved.fds[SOFT_SAVED_LEDGER];
	answer->n_fds = REMOTE_N_FDS;
}

int serve_ctx_add(struct serve *serve, struct nic_ctx *ctx, int lock_fd, struct serve_answer *answer)
{
	struct serve_ctx *of = calloc(1, sizeof(*of));

	if (!of) {
		safe_close(lock_fd);
		ctx->nic->ops->ctx_unimport(ctx);
		return -ENOMEM;
	}
	of->ctx = ctx;
	of->lock_fd = lock_fd;
	pthread_mutex_lock(&serve->lock);
	list_add_tail(&serve->ctxs, &of->link);
	pthread_mutex_unlock(&serve->lock);
	tell_ctx(of, answer);
	return 0;
}
