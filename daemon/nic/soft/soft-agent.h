/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that only its owner's process reaches: its memory agent carries out what the engine asks, by a ring. */
#ifndef SHMEMD_NIC_SOFT_AGENT_H
#define SHMEMD_NIC_SOFT_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/engine/engine.h"
#include "daemon/nic/nic.h"

#define SOFT_AGENT_LIMIT_NSEC 2000000000u /* for one request, and for the agent's start */

struct soft_agent;
struct soft_ctx;
struct soft_exec;

/* As nic_ops.agent_attach. */
int soft_agent_attach(struct nic_ctx *ctx, int ring_fd, int wake_fd);
struct soft_agent *soft_agent_unref(struct soft_agent *agent);
/* Memory at attr->offset in the agent's process. -EINVAL: the context has no ring; -ENOMEM. */
int soft_agent_mem_new(struct soft_ctx *ctx, const struct nic_mr_attr *attr, struct engine_mem **ret_mem);
/* Data thread of the context: the region has ended, and nothing more is posted for it. */
void soft_agent_mem_end(struct engine_mem *mem);

/* Data thread of the context: it ends, and what is under way with it. */
void soft_agent_end(struct soft_ctx *ctx);

/* Data thread: posts, takes completions. Returns how many there were. */
unsigned int soft_agents_run(struct soft_exec *exec);
/* Before sleep: is there anything that soft_agents_run() can do? */
bool soft_agents_are_pending(const struct soft_exec *exec);
uint64_t soft_agents_deadline(const struct soft_exec *exec); /* UINT64_MAX: nothing is under way */
/*
 * No thread of this executor runs any more: takes what agents of other executors still owe it. A request that they have begun ends within the limit;
 * the rest, also of an operation of several requests, ends at once.
 */
void soft_agents_drain(struct soft_exec *exec);

#endif
