/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory agents: operations on memory that only a thread of its owner's process can reach.
 *
 * The data thread of the context that attached the ring is its home: it alone touches the ring (soft-agent-ring.c). Each operation is an
 * item, which waits until the ring has room, is under way, and then ends. Executors of the same user on other NICs reach the memory too,
 * by packets that refer to it: they put items into an inbox, and get them back through their lane.
 *
 * An agent that ends, breaks the rules, or leaves a request undone for 2 s is dead: all its items end with an error, and so does each
 * later one at once. Nothing of a ring is used again after that. Every operation ends, so contexts, regions and executors do.
 *
 * The inbox has a lock, under which nobody touches memory of clients. A client could make the eventfd block; then its own user's
 * thread sleeps, as it does at memory of that user.
 */
#include "daemon/nic/soft/soft-agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "daemon/nic/soft/soft-agent-ring.h"
#include "daemon/nic/soft/soft.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define START_LOOK_NSEC 1000000u /* an agent that starts wakes nobody */
#define DRAIN_NAP_NSEC 100000u
#define SWEEP_NSEC 1000000u
#define TURN_COMPLETIONS 256u

struct soft_agent {
	uint32_t refs; /* atomic: the context's, and of each region */
	struct soft_map map;
	int wake_fd; /* owned */
	struct soft_exec *home; /* as long as it is not dead */

	pthread_mutex_t lock;
	bool is_dead; /* under lock; written by home */
	struct list inbox; /* under lock: items of other executors */
	bool has_inbox; /* atomic */

	/* data thread of home */
	struct list link; /* home->agents */
	struct list waiting, under_way; /* items, oldest first */
	bool has_new; /* items that were not tried yet */
	uint64_t swept_nsec; /* forsaken ones were looked for */
	struct agent_ring ring;
};

struct agent_mem {
	struct engine_mem base;
	struct soft_agent *agent; /* owned reference */
	uint64_t addr;
	bool has_ended; /* under agent->lock; written by home */
};

struct item {
	struct list link;
	struct agent_mem *mem; /* owned reference */
	struct soft_exec *waiter; /* stays until it has the item back */
	struct engine_memop *op;
	struct agent_request request; /* of the part that is next, or under way */
	uint64_t left; /* bytes behind it */
	uint64_t since_nsec; /* it waits, or the part is under way */
	int status;
};

/* ---- references ----------------------------------------------------------------------------------------------------------- */

struct soft_agent *soft_agent_unref(struct soft_agent *agent)
{
	if (!agent || __atomic_sub_fetch(&agent->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return NULL;
	soft_map_deinit(&agent->map);
	safe_close(agent->wake_fd);
	pthread_mutex_destroy(&agent->lock);
	free(agent);
	return NULL;
}
DEFINE_CLEANUP(struct soft_agent *, soft_agent_unref);

static void item_free(struct item *item)
{
	engine_mem_unref(&item->mem->base);
	free(item);
}

/* ---- what the engine asks ------------------------------------------------------------------------------------------------ */

/* It is home's business from here on. -EIO: the agent is dead; -EACCES: the region has ended. */
static int put_in(struct soft_agent *agent, struct item *item)
{
	int r = 0;

	pthread_mutex_lock(&agent->lock);
	if (agent->is_dead || item->mem->has_ended) {
		r = agent->is_dead ? -EIO : -EACCES;
	} else if (item->waiter == agent->home) {
		list_add_tail(&agent->waiting, &item->link);
		agent->has_new = true;
	} else {
		list_add_tail(&agent->inbox, &item->link);
		item->waiter->n_agent_items++;
		__atomic_store_n(&agent->has_inbox, true, __ATOMIC_SEQ_CST);
		soft_lane_wake(agent->home->lane);
	}
	pthread_mutex_unlock(&agent->lock);
	return r;
}

static uint32_t next_part(uint64_t bytes)
{
	return bytes < AGENT_RING_PART_BYTES ? (uint32_t)bytes : AGENT_RING_PART_BYTES;
}

static int ask(struct engine_mem *base, const struct agent_request *request, uint64_t bytes, struct engine_memop *op)
{
	struct agent_mem *mem = container_of(base, struct agent_mem, base);
	struct item *item = calloc(1, sizeof(*item));
	int r;

	if (!item)
		return -ENOMEM;
	item->mem = mem;
	item->waiter = op->owner;
	item->op = op;
	item->request = *request;
	item->request.addr += mem->addr;
	item->request.bytes = next_part(bytes);
	item->left = bytes - item->request.bytes;
	item->since_nsec = nsec_now();
	engine_mem_ref(base);
	r = put_in(mem->agent, item);
	if (r < 0) {
		item_free(item);
		return r;
	}
	return -EINPROGRESS;
}

static int mem_read(struct engine_mem *mem, uint64_t offset, void *dst, size_t bytes, struct engine_memop *op)
{
	return ask(mem, &(struct agent_request){.op = SHMD_AGENT_READ, .addr = offset, .dst = dst}, bytes, op);
}

static int mem_write(struct engine_mem *mem, uint64_t offset, const void *src, size_t bytes, struct engine_memop *op)
{
	return ask(mem, &(struct agent_request){.op = SHMD_AGENT_WRITE, .addr = offset, .src = src}, bytes, op);
}

static int mem_atomic(struct engine_mem *mem, uint64_t offset, const struct engine_atomic *what, uint64_t *ret_old,
		      struct engine_memop *op)
{
	const struct agent_request request = {
		.op = what->is_compare_swap ? SHMD_AGENT_COMPARE_SWAP : SHMD_AGENT_FETCH_ADD,
		.addr = offset,
		.atomic = *what,
		.ret_old = ret_old,
	};

	if ((container_of(mem, struct agent_mem, base)->addr + offset) % what->bytes)
		return -EINVAL;
	return ask(mem, &request, what->bytes, op);
}

/* Items go first in, first out to the ring, which its agent serves in order. One of several requests comes alone from its QP. */
static const void *mem_order(struct engine_mem *base)
{
	return container_of(base, struct agent_mem, base)->agent;
}

static void mem_free(struct engine_mem *base)
{
	struct agent_mem *mem = container_of(base, struct agent_mem, base);

	soft_agent_unref(mem->agent);
	free(mem);
}

static const struct engine_mem_ops agent_mem_ops = {
	.read = mem_read,
	.write = mem_write,
	.atomic = mem_atomic,
	.order = mem_order,
	.free = mem_free,
};

int soft_agent_mem_new(struct soft_ctx *ctx, const struct nic_mr_attr *attr, struct engine_mem **ret_mem)
{
	struct agent_mem *mem;

	if (!ctx->agent)
		return -EINVAL;
	mem = calloc(1, sizeof(*mem));
	if (!mem)
		return -ENOMEM;
	engine_mem_init(&mem->base, &agent_mem_ops, attr->length_bytes);
	mem->agent = ctx->agent;
	mem->addr = attr->offset;
	__atomic_fetch_add(&mem->agent->refs, 1, __ATOMIC_RELAXED);
	*ret_mem = &mem->base;
	return 0;
}

/* ---- home: the end of items ------------------------------------------------------------------------------------------------- */

static void finish(struct soft_agent *agent, struct item *item, int status)
{
	list_del(&item->link);
	item->status = status;
	if (item->waiter != agent->home) {
		/* Its executor may free it at once, but ends, and its lane with it, only when nobody holds the lock. */
		pthread_mutex_lock(&agent->lock);
		soft_lane_push(item->waiter->lane, &item->waiter->lane->agent_items, &item->link);
		pthread_mutex_unlock(&agent->lock);
		return;
	}
	engine_memop_done(item->op, status);
	item_free(item);
}

static void take_inbox(struct soft_agent *agent)
{
	if (!__atomic_load_n(&agent->has_inbox, __ATOMIC_ACQUIRE))
		return;
	pthread_mutex_lock(&agent->lock);
	while (!list_empty(&agent->inbox)) {
		struct list *link = agent->inbox.next;

		list_del(link);
		list_add_tail(&agent->waiting, link);
	}
	__atomic_store_n(&agent->has_inbox, false, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&agent->lock);
	agent->has_new = true;
}

/* For good. The engine may ask anew while items end, and then gets an error at once. */
static unsigned int die(struct soft_agent *agent, int status)
{
	unsigned int n = 0;
	void *item;

	pthread_mutex_lock(&agent->lock);
	agent->is_dead = true;
	pthread_mutex_unlock(&agent->lock);
	take_inbox(agent);
	agent->has_new = false;
	while (agent_ring_forget(&agent->ring, &item)) {
		finish(agent, item, status);
		n++;
	}
	for (; !list_empty(&agent->waiting); n++)
		finish(agent, list_first_entry(&agent->waiting, struct item, link), status);
	return n;
}

/*
 * Operations that the ring has not got do not take place any more: the client may register the same addresses again, with fewer rights. It
 * waits for the others itself.
 */
void soft_agent_mem_end(struct engine_mem *base)
{
	struct agent_mem *mem = container_of(base, struct agent_mem, base);
	struct soft_agent *agent = mem->agent;
	struct item *item, *next;

	pthread_mutex_lock(&agent->lock);
	mem->has_ended = true;
	pthread_mutex_unlock(&agent->lock);
	take_inbox(agent);
	list_for_each_entry_safe(item, next, &agent->waiting, link)
		if (item->mem == mem)
			finish(agent, item, -EACCES);
}

/* ---- home: requests and completions ------------------------------------------------------------------------------------------ */

/* False: there is no room. An item that the ring refuses fails alone. */
static bool post(struct soft_agent *agent, struct item *item)
{
	int r = agent_ring_post(&agent->ring, &item->request, item);

	if (r == -EAGAIN)
		return false;
	if (r < 0) {
		finish(agent, item, r);
		return true;
	}
	list_del(&item->link);
	list_add_tail(&agent->under_way, &item->link);
	item->since_nsec = nsec_now();
	return true;
}

/* The client may have taken O_NONBLOCK away, so the write comes only where there is room. */
static void wake(const struct soft_agent *agent)
{
	struct pollfd fd = {.fd = agent->wake_fd, .events = POLLOUT};
	const uint64_t one = 1;

	/* A counter without room is readable. */
	if (poll(&fd, 1, 0) == 1 && write(agent->wake_fd, &one, sizeof(one)) < 0)
		return;
}

static unsigned int post_waiting(struct soft_agent *agent)
{
	unsigned int n = 0;

	if (list_empty(&agent->waiting) || !agent_ring_is_ready(&agent->ring))
		return 0;
	while (!list_empty(&agent->waiting) && post(agent, list_first_entry(&agent->waiting, struct item, link)))
		n++;
	agent->has_new = false;
	if (n > 0 && agent_ring_must_wake(&agent->ring))
		wake(agent);
	return n;
}

/* The rest of a large one comes before those that wait. */
static void go_on(struct soft_agent *agent, struct item *item)
{
	struct agent_request *request = &item->request;

	/* bounded: the operation lies in its region, and its buffer is as long. */
	request->addr += request->bytes;
	if (request->op == SHMD_AGENT_READ)
		/* bounded: as above. */
		request->dst = (uint8_t *)request->dst + request->bytes;
	else
		/* bounded: as above. */
		request->src = (const uint8_t *)request->src + request->bytes;
	request->bytes = next_part(item->left);
	item->left -= request->bytes;
	list_del(&item->link);
	list_insert_after(&agent->waiting, &item->link);
	item->since_nsec = nsec_now();
}

static void complete(struct soft_agent *agent, const struct agent_done *done)
{
	struct item *item = done->user;

	if (done->status == 0 && item->left > 0 && !item->mem->has_ended)
		go_on(agent, item);
	else
		finish(agent, item, done->status == 0 && item->left > 0 ? -EACCES : done->status);
}

/* Ends the items of executors that end, as far as the agent has not begun them. */
static unsigned int sweep(struct soft_agent *agent, uint64_t now_nsec)
{
	struct item *item, *next;
	unsigned int n = 0;

	if (now_nsec - agent->swept_nsec < SWEEP_NSEC)
		return 0;
	agent->swept_nsec = now_nsec;
	list_for_each_entry_safe(item, next, &agent->waiting, link) {
		if (!__atomic_load_n(&item->waiter->is_draining, __ATOMIC_ACQUIRE))
			continue;
		finish(agent, item, -ECANCELED);
		n++;
	}
	return n;
}

/* Items behind others wait for room, and these others have a limit of their own. */
static bool has_late(const struct soft_agent *agent, uint64_t now_nsec)
{
	const struct list *items = list_empty(&agent->under_way) ? &agent->waiting : &agent->under_way;

	return !list_empty(items) && now_nsec - list_first_entry(items, struct item, link)->since_nsec >= SOFT_AGENT_LIMIT_NSEC;
}

static unsigned int agent_run(struct soft_agent *agent)
{
	struct agent_done done;
	unsigned int n = 0;
	uint64_t now_nsec;
	bool has_ended;
	int r = 0;

	take_inbox(agent);
	if (list_empty(&agent->waiting) && list_empty(&agent->under_way))
		return 0;
	/* Requests that it completed before it ended count. */
	has_ended = agent_ring_has_ended(&agent->ring);
	for (; n < TURN_COMPLETIONS && (r = agent_ring_take(&agent->ring, &done)) > 0; n++)
		complete(agent, &done);
	if (r < 0)
		return n + die(agent, r);
	if (has_ended && n < TURN_COMPLETIONS)
		return n + die(agent, -EIO);
	n += post_waiting(agent);
	now_nsec = nsec_now();
	n += sweep(agent, now_nsec);
	return has_late(agent, now_nsec) ? n + die(agent, -ETIMEDOUT) : n;
}

/* Home wakes the lane behind the push, and does not use it any more when it gives the lock back. */
static void wait_for_push(struct soft_agent *agent)
{
	pthread_mutex_lock(&agent->lock);
	pthread_mutex_unlock(&agent->lock);
}

/* Operations that agents of other executors have ended. */
static unsigned int take_back(struct soft_exec *exec)
{
	struct list items;
	unsigned int n = 0;

	if (!exec->lane || !__atomic_load_n(&exec->lane->agent_items, __ATOMIC_ACQUIRE))
		return 0;
	list_init(&items);
	soft_lane_take(&exec->lane->agent_items, &items);
	for (; !list_empty(&items); n++) {
		struct item *item = list_first_entry(&items, struct item, link);

		list_del(&item->link);
		exec->n_agent_items--;
		wait_for_push(item->mem->agent);
		engine_memop_done(item->op, item->status);
		item_free(item);
	}
	return n;
}

unsigned int soft_agents_run(struct soft_exec *exec)
{
	unsigned int n = take_back(exec);
	struct soft_agent *agent;

	list_for_each_entry(agent, &exec->agents, link)
		n += agent_run(agent);
	return n;
}

static bool agent_is_pending(const struct soft_agent *agent)
{
	if (__atomic_load_n(&agent->has_inbox, __ATOMIC_SEQ_CST))
		return true;
	if (list_empty(&agent->waiting) && list_empty(&agent->under_way))
		return false;
	return agent_ring_has_news(&agent->ring) || agent_ring_has_ended(&agent->ring) ||
	       (agent->has_new && agent_ring_is_ready(&agent->ring));
}

bool soft_agents_are_pending(const struct soft_exec *exec)
{
	const struct soft_agent *agent;

	if (__atomic_load_n(&exec->lane->agent_items, __ATOMIC_SEQ_CST))
		return true;
	list_for_each_entry(agent, &exec->agents, link)
		if (agent_is_pending(agent))
			return true;
	return false;
}

static uint64_t deadline_of(const struct soft_agent *agent)
{
	const struct list *items = list_empty(&agent->under_way) ? &agent->waiting : &agent->under_way;

	if (list_empty(items))
		return UINT64_MAX;
	/* Only an agent that is not ready leaves items that were not tried. */
	if (agent->has_new)
		return nsec_now() + START_LOOK_NSEC;
	return list_first_entry(items, struct item, link)->since_nsec + SOFT_AGENT_LIMIT_NSEC;
}

uint64_t soft_agents_deadline(const struct soft_exec *exec)
{
	const struct soft_agent *agent;
	uint64_t first = UINT64_MAX;

	list_for_each_entry(agent, &exec->agents, link) {
		uint64_t deadline = deadline_of(agent);

		first = deadline < first ? deadline : first;
	}
	return first;
}

void soft_agents_drain(struct soft_exec *exec)
{
	const struct timespec nap = {.tv_nsec = DRAIN_NAP_NSEC};

	__atomic_store_n(&exec->is_draining, true, __ATOMIC_RELEASE);
	for (take_back(exec); exec->n_agent_items > 0; take_back(exec))
		nanosleep(&nap, NULL);
}

/* ---- attach and end ------------------------------------------------------------------------------------------------------------ */

struct attach_call {
	struct soft_call call;
	struct soft_agent *agent, *former; /* or NULL */
};

static void end(struct soft_agent *agent)
{
	if (!agent)
		return;
	die(agent, -EIO);
	list_del(&agent->link);
}

static bool run_attach(struct soft_exec *exec, struct soft_call *base)
{
	struct attach_call *call = container_of(base, struct attach_call, call);

	end(call->former);
	list_add_tail(&exec->agents, &call->agent->link);
	return true;
}

static int map_ring(struct soft_agent *agent, int ring_fd)
{
	uint64_t bytes;
	int r = nic_memfd_check(ring_fd, &bytes);

	if (r < 0)
		return r;
	if (bytes > AGENT_RING_MAX_BYTES)
		return -EINVAL;
	r = soft_map_memfd(ring_fd, 0, bytes, true, &agent->map);
	return r < 0 ? r : agent_ring_init(&agent->ring, agent->map.data, bytes);
}

static int agent_new(struct soft_exec *home, int ring_fd, int wake_fd, struct soft_agent **ret_agent)
{
	_cleanup_(soft_agent_unrefp) struct soft_agent *agent = calloc(1, sizeof(*agent));
	int r;

	if (!agent)
		return -ENOMEM;
	agent->refs = 1;
	agent->home = home;
	pthread_mutex_init(&agent->lock, NULL);
	list_init(&agent->inbox);
	list_init(&agent->link);
	list_init(&agent->waiting);
	list_init(&agent->under_way);
	agent->wake_fd = fcntl(wake_fd, F_DUPFD_CLOEXEC, 3);
	r = agent->wake_fd < 0 ? -errno : map_ring(agent, ring_fd);
	if (r == 0)
		*ret_agent = take_ptr(agent);
	return r;
}

/* Without regions it has no operations either. */
static bool is_needed(const struct soft_agent *agent)
{
	return agent && __atomic_load_n(&agent->refs, __ATOMIC_ACQUIRE) > 1;
}

int soft_agent_attach(struct nic_ctx *base, int ring_fd, int wake_fd)
{
	struct soft_ctx *ctx = soft_ctx(base);
	struct attach_call call = {.call.run = run_attach, .former = ctx->agent};
	int r;

	if (is_needed(ctx->agent))
		return -EEXIST;
	r = agent_new(ctx->exec, ring_fd, wake_fd, &call.agent);
	if (r < 0)
		return r;
	r = soft_call(ctx->exec, &call.call);
	soft_agent_unref(call.former);
	ctx->agent = call.agent;
	return r;
}

void soft_agent_end(struct soft_ctx *ctx)
{
	end(ctx->agent);
}
