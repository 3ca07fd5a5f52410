/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the context pools of the NICs, by one worker at a time. */
#ifndef SHMEMD_CTX_POOL_H
#define SHMEMD_CTX_POOL_H

#include "daemon/loop.h"
#include "daemon/nic/nic.h"
#include "daemon/session/registry.h"

struct ctx_pool;

/* Makes no context before ctx_pool_set(). Negative errno. */
int ctx_pool_new(struct loop *loop, struct registry *registry, struct ctx_pool **ret_pool);
/* For every NIC that has a pool, from now on. A pool of NULL is allowed here and below: no NIC has one. */
void ctx_pool_set(struct ctx_pool *pool, const struct nic_ctx_pool_attr *attr);
/* Something may have changed: begins the next step, if there is one. */
void ctx_pool_look(struct ctx_pool *pool);
/* The registry has new NICs, from this index on. */
void ctx_pool_take_nics(struct ctx_pool *pool, unsigned int from);
/* Makes no more contexts and destroys the ready ones, while the caller finishes works. */
void ctx_pool_stop(struct ctx_pool *pool);
/* The caller has finished all works. */
struct ctx_pool *ctx_pool_free(struct ctx_pool *pool);

#endif
