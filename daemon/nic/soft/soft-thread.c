/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data thread of one executor: drives its engine, and sleeps without burning the CPU.
 *
 * A doorbell poller (doorbell-poll.h) whose turn does a bounded amount of everything: handed-over calls, doorbell words,
 * packets, engine work. While it sleeps other threads see that in its lane, and the engine's timers bound the sleep. A context's
 * page wakes only the context's own queues: the number of another context is ignored, as NICs ignore a doorbell in a foreign UAR
 * page.
 *
 * A thread that was started for contexts of a former process rests until all of them are there: it serves calls and leaves
 * queues and packets alone.
 *
 * Wherever the thread touches memory of clients it may sleep in the kernel for as long as they like. So it takes no lock there
 * that another thread waits for, and what it sends to another user's executor goes as bytes (soft-foreign.c).
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/assert.h"
#include "proto/base/nsec.h"

/* Bounds of one turn: some ten microseconds. */
#define TURN_ENGINE_UNITS 64u
#define TURN_ENGINE_ROUNDS 6u /* each moves 64 KiB at most */
#define TURN_PACKETS 128u
#define TURN_PACKET_BYTES (1u << 20)

#define CLOCK_TURNS 16u
#define CLOCK_UNITS 32u
#define IDLE_DOORBELL_TURNS 8u
#define BUSY_DOORBELL_TURNS 32u
#define LARGE_TURN 8u /* as many small ones, for who waits with a doorbell */
#define LAST_LOOK_TURNS 8u /* in which a thread takes what lies in its mailbox */
#define SIT_STILL_WQES 8u /* completed before that fault point sits still */

/* ---- what the engine asks of us --------------------------------------------------------------------------- */

/*
 * The engine asks several times for one write, and a clock is read in about the time of a cache miss: it gets a time
 * that is at most CLOCK_TURNS turns, or one long turn, old.
 */
static uint64_t owner_now(void *owner)
{
	return ((struct soft_exec *)owner)->poll.now_nsec;
}

static uint64_t owner_clock(void *owner)
{
	return nsec_now();
}

static int owner_route_get(void *owner, const uint8_t gid[16], void **ret_route)
{
	struct soft_exec *exec = owner;
	struct soft_port *port;
	int r = soft_fabric_find(exec->nic->fabric, gid, &port);

	if (r < 0)
		return r;
	*ret_route = port;
	return 0;
}

static void owner_route_put(void *owner, void *route)
{
	soft_port_unref(route);
}

/* The executor of this packet or its answer; NULL: it is lost on the way, as on a cable that was pulled. */
static struct soft_lane *find_lane(const struct soft_exec *exec, struct soft_port *port, uint32_t qpn)
{
	struct soft_lane *lane;

	if (exec->is_mute || soft_port_is_down(exec->nic->port) || soft_port_is_down(port))
		return NULL;
	lane = soft_port_find_lane(port, qpn);
	if (!lane)
		return NULL;
	return __atomic_load_n(soft_lane_is_remote(lane) ? &lane->owner->is_there : &lane->shared->running, __ATOMIC_ACQUIRE) ? lane : NULL;
}

static int owner_send(void *owner, void *route, struct engine_packet *pkt)
{
	struct soft_exec *exec = owner;
	struct soft_lane *lane = find_lane(exec, route, engine_packet_dest_qpn(pkt));

	/* Then the requester's retry timer decides. */
	if (!lane) {
		engine_packet_free(pkt);
		return -EHOSTUNREACH;
	}
	if (soft_is_foreign(exec, lane))
		return soft_foreign_send(exec, lane, route, pkt);
	if (lane == exec->lane)
		list_add_tail(&exec->packets, engine_packet_link(pkt));
	else
		soft_lane_push(lane, &lane->packets, engine_packet_link(pkt));
	return 0;
}

static struct engine_jam *owner_jam(void *owner, void *route, uint32_t qpn, bool is_answer)
{
	const struct soft_exec *exec = owner;
	struct soft_lane *lane = find_lane(exec, route, qpn);

	return lane && soft_is_foreign(exec, lane) ? soft_foreign_jam(exec, lane, is_answer) : NULL;
}

static bool has_packets(const struct soft_exec *exec)
{
	return !list_empty(&exec->packets) || __atomic_load_n(&exec->lane->packets, __ATOMIC_RELAXED) ||
	       exec->ends_have_more || __atomic_load_n(&exec->lane->shared->bell, __ATOMIC_RELAXED) || soft_foreign_has_news(exec);
}

static bool has_nothing(const struct soft_exec *exec, const struct soft_lane *lane, const struct soft_shared_lane *thread)
{
	if (!__atomic_load_n(&thread->asleep, __ATOMIC_ACQUIRE))
		return false;
	if (soft_lane_is_remote(lane))
		return !soft_foreign_has_rung(exec, lane);
	return !__atomic_load_n(&lane->packets, __ATOMIC_ACQUIRE) && !__atomic_load_n(&thread->bell, __ATOMIC_ACQUIRE);
}

/* The peer has run. An answer may have come in while this thread did not: then it looks again when it has taken that. */
static bool has_taken_answers(const struct soft_exec *exec, uint32_t *stamp)
{
	uint32_t n_turns = (exec->n_turns - *stamp) & SOFT_STAMP_MASK;

	if (*stamp & SOFT_STAMP_LAST)
		return n_turns >= LAST_LOOK_TURNS || (n_turns > 0 && !has_packets(exec));
	if (!has_packets(exec))
		return true;
	*stamp = (exec->n_turns & SOFT_STAMP_MASK) | SOFT_STAMP_SET | SOFT_STAMP_LAST;
	return false;
}

/*
 * Time in which a thread got no CPU, or slept at its user's memory, is no time in which its NIC did not answer. Two turns that
 * have begun since the last look hold a whole one. A thread that sleeps with nothing in its mailbox has nothing left to answer.
 */
static bool owner_is_peer_behind(void *owner, void *route, uint32_t qpn, uint32_t *stamp)
{
	const struct soft_exec *exec = owner;
	struct soft_lane *lane = find_lane(exec, route, qpn);
	const struct soft_shared_lane *thread;
	uint32_t turns;

	if (!lane)
		return false;
	if (soft_foreign_is_behind(exec, lane, stamp))
		return true;
	thread = soft_lane_thread(exec->nic->fabric, lane);
	if (!thread)
		return false;
	turns = (__atomic_load_n(&thread->turns, __ATOMIC_ACQUIRE) & SOFT_STAMP_MASK) | SOFT_STAMP_SET;
	if (*stamp & SOFT_STAMP_LAST || has_nothing(exec, lane, thread) || (*stamp && ((turns - *stamp) & SOFT_STAMP_MASK) >= 2)) {
		if (!has_taken_answers(exec, stamp))
			return true;
		*stamp = turns;
		return false;
	}
	*stamp = *stamp ? *stamp : turns;
	return true;
}

static void owner_event(void *owner, const struct engine_event *ev)
{
	soft_event(owner, ev);
}

/* The fault point at which the process ends as if the kernel had killed it, which it then has. */
static void owner_fault(void *owner, enum engine_step step)
{
	struct soft_exec *exec = owner;

	if (step != exec->nic->fault.step || ++exec->n_steps != exec->nic->fault.nth)
		return;
	if (exec->nic->killed_pid)
		kill(exec->nic->killed_pid, SIGKILL);
	kill(getpid(), SIGKILL);
}

static const struct engine_ops owner_ops = {
	.now_nsec = owner_now,
	.clock_nsec = owner_clock,
	.route_get = owner_route_get,
	.route_put = owner_route_put,
	.send = owner_send,
	.is_peer_behind = owner_is_peer_behind,
	.jam = owner_jam,
	.dc_route = soft_dc_route,
	.dc_route_back = soft_dc_route_back,
	.dc_source_gid = soft_dc_source_gid,
	.event = owner_event,
};

/* ---- one turn ------------------------------------------------------------------------------------------------ */

static struct soft_exec *exec_of(struct doorbell_poll *poll)
{
	return container_of(poll, struct soft_exec, poll);
}

static struct doorbell_queue *find_queue(struct doorbell_page *page, uint32_t qpn)
{
	struct soft_qp *qp = soft_qp_find(container_of(page, struct soft_ctx, page), qpn);

	return qp ? &qp->doorbell : NULL;
}

/* Only what moved goes to the engine, which keeps a short list of the QPs that were active last. */
static void ring(struct doorbell_page *page, struct doorbell_queue *queue)
{
	engine_doorbell(exec_of(page->poll)->engine, queue->qpn);
}

void soft_thread_drop_packets(struct soft_exec *exec)
{
	exec->n_downs = __atomic_load_n(&exec->nic->port->shared->n_downs, __ATOMIC_ACQUIRE);
	soft_lane_take(&exec->lane->packets, &exec->packets);
	while (!list_empty(&exec->packets)) {
		struct list *link = exec->packets.next;

		list_del(link);
		engine_packet_free(engine_packet_from_link(link));
	}
	soft_foreign_drop(exec);
}

/* Is it, or was it since packets were last dropped? Then what lies here was on its way when the port went down. */
static bool port_was_down(const struct soft_exec *exec)
{
	const struct soft_port *port = exec->nic->port;

	return __atomic_load_n(&port->shared->n_downs, __ATOMIC_ACQUIRE) != exec->n_downs || soft_port_is_down(port);
}

static unsigned int deliver_packets(struct soft_exec *exec)
{
	unsigned int n = 0;
	uint64_t bytes = 0;

	if (port_was_down(exec)) {
		soft_thread_drop_packets(exec);
		return 0;
	}
	soft_foreign_tell(exec);
	soft_lane_take(&exec->lane->packets, &exec->packets);
	while (!list_empty(&exec->packets) && n < TURN_PACKETS && bytes < TURN_PACKET_BYTES) {
		struct list *link = exec->packets.next;
		struct engine_packet *pkt = engine_packet_from_link(link);

		list_del(link);
		bytes += engine_packet_payload_bytes(pkt);
		engine_input(exec->engine, pkt);
		n++;
	}
	return n + soft_foreign_run(exec, TURN_PACKETS, TURN_PACKET_BYTES);
}

/* The fault point of a NIC that stops working: from here on only calls are served. */
static bool fault_stops(struct soft_exec *exec)
{
	struct engine_qp_counters counters;

	if (exec->nic->fault.kind != SOFT_FAULT_THREAD_STOP)
		return false;
	if (!exec->fault_stopped) {
		engine_counters(exec->engine, &counters);
		exec->fault_stopped = counters.wqes >= exec->nic->fault.nth;
	}
	if (exec->fault_stopped)
		soft_thread_drop_packets(exec);
	return exec->fault_stopped;
}

/* The fault point of a thread that gets no CPU, or sleeps at its user's memory: once, for so long. */
static void fault_sits(struct soft_exec *exec)
{
	struct engine_qp_counters counters;
	struct timespec ts;

	if (exec->nic->fault.kind != SOFT_FAULT_SIT_STILL || exec->has_sat_still)
		return;
	engine_counters(exec->engine, &counters);
	if (counters.wqes < SIT_STILL_WQES)
		return;
	exec->has_sat_still = true;
	ts = nsec_to_timespec(exec->nic->fault.nth * NSEC_PER_MSEC);
	nanosleep(&ts, NULL);
}

static bool calls_pending(const struct soft_exec *exec)
{
	return __atomic_load_n(&exec->lane->calls, __ATOMIC_RELAXED) || !list_empty(&exec->calls);
}

/*
 * Control operations get half of the thread's time at most while there is traffic, however many are asked for: after a
 * slice of one, traffic has its turns for as long as the slice took.
 */
static unsigned int run_calls(struct soft_exec *exec)
{
	uint64_t begin;
	unsigned int n;

	if (!calls_pending(exec))
		return 0;
	begin = nsec_now();
	if (exec->busy && begin < exec->calls_after_nsec)
		return 0;
	n = soft_calls_run(exec);
	exec->poll.now_nsec = nsec_now();
	exec->calls_after_nsec = exec->poll.now_nsec + (exec->poll.now_nsec - begin);
	return n;
}

/* A hot QP is found by its dbrec; a doorbell line that is looked at too often slows down who rings it. */
static unsigned int find_work(struct soft_exec *exec, bool busy)
{
	unsigned int n = engine_scan_hot(exec->engine);

	busy |= n > 0;
	if (++exec->turns_unpolled < (busy ? BUSY_DOORBELL_TURNS : IDLE_DOORBELL_TURNS))
		return n;
	exec->turns_unpolled = 0;
	return n + doorbell_poll_look(&exec->poll);
}

/* A write takes three rounds on one NIC: request, acknowledgement, completion. */
static unsigned int run_engine(struct soft_exec *exec)
{
	/* With that fault, so that it stops after the WQE asked for. */
	unsigned int limit = exec->nic->fault.kind == SOFT_FAULT_THREAD_STOP ? 1 : TURN_ENGINE_UNITS;
	unsigned int units = 0;

	for (unsigned int round = 0; round < TURN_ENGINE_ROUNDS; round++) {
		unsigned int m = engine_progress(exec->engine, limit - units);

		m += deliver_packets(exec);
		units += m;
		if (m == 0 || units >= limit)
			return units;
	}
	exec->turns_unpolled += LARGE_TURN;
	return units;
}

/* The look before sleep finds doorbells that clients rang meanwhile, or since the former process died. */
static void look_whether_to_resume(struct soft_exec *exec)
{
	if (!exec->resting || exec->has_left || !__atomic_load_n(&exec->may_resume, __ATOMIC_ACQUIRE))
		return;
	engine_ledger_recover(exec->engine);
	exec->resting = false;
}

/* Between two turns no request is in the middle of a step that a death would cut. */
static void look_whether_to_rest(struct soft_exec *exec)
{
	if (!__atomic_load_n(&exec->nic->is_leaving, __ATOMIC_RELAXED))
		return;
	exec->resting = true;
	__atomic_store_n(&exec->has_left, true, __ATOMIC_RELEASE);
}

/* Returns whether anything was done. */
static bool turn(struct doorbell_poll *poll)
{
	struct soft_exec *exec = exec_of(poll);
	unsigned int n, units;

	__atomic_store_n(&exec->lane->shared->turns, ++exec->n_turns, __ATOMIC_RELEASE);
	fault_sits(exec);
	n = run_calls(exec);
	if (exec->n_turns % CLOCK_TURNS == 0)
		exec->poll.now_nsec = nsec_now();
	look_whether_to_resume(exec);
	look_whether_to_rest(exec);
	n += soft_agents_run(exec);
	poll->is_resting = exec->resting || fault_stops(exec);
	if (poll->is_resting)
		return n > 0;
	n += find_work(exec, n > 0);
	units = run_engine(exec);
	exec->busy = units > 0;
	if (units > CLOCK_UNITS)
		exec->poll.now_nsec = nsec_now();
	n += soft_delay_run(&exec->delay);
	n += soft_agents_run(exec);
	soft_foreign_tell(exec);
	return n + units > 0;
}

/* ---- waiting --------------------------------------------------------------------------------------------------- */

/* The last look before sleep: everything, not only what was active lately. */
static bool last_look(struct doorbell_poll *poll)
{
	struct soft_exec *exec = exec_of(poll);

	if (!list_empty(&exec->calls) || __atomic_load_n(&exec->lane->calls, __ATOMIC_SEQ_CST))
		return true;
	if ((!exec->has_left && __atomic_load_n(&exec->nic->is_leaving, __ATOMIC_SEQ_CST)) ||
	    (exec->resting && !exec->has_left && __atomic_load_n(&exec->may_resume, __ATOMIC_SEQ_CST)))
		return true;
	if (soft_agents_are_pending(exec))
		return true;
	if (poll->is_resting)
		return false;
	return !list_empty(&exec->packets) ||
	       __atomic_load_n(&exec->lane->packets, __ATOMIC_SEQ_CST) || soft_foreign_is_pending(exec) || doorbell_poll_look(poll) ||
	       engine_scan(exec->engine) > 0;
}

static uint64_t deadline(struct doorbell_poll *poll)
{
	struct soft_exec *exec = exec_of(poll);
	uint64_t of_agents = soft_agents_deadline(exec), of_engine, of_delay;

	if (poll->is_resting)
		return of_agents;
	of_engine = engine_next_deadline(exec->engine);
	of_delay = soft_delay_deadline(&exec->delay);
	of_engine = of_delay < of_engine ? of_delay : of_engine;
	return of_agents < of_engine ? of_agents : of_engine;
}

static const struct doorbell_ops poll_ops = {
	.turn = turn,
	.last_look = last_look,
	.deadline = deadline,
	.find = find_queue,
	.ring = ring,
};

int soft_thread_start(struct soft_exec *exec)
{
	char name[NIC_NAME_BYTES + 8];
	int r;

	doorbell_poll_init(&exec->poll, &(struct doorbell_poll_attr){
					       .ops = &poll_ops,
					       .nic_page = &exec->nic_page,
					       .asleep = &exec->lane->shared->asleep,
					       .wake_fd = exec->lane->wake_fd,
					       .spin_usec = exec->nic->spin_usec,
					       .gpu_poll_usec = exec->nic->gpu_poll_usec,
				       });
	snprintf(name, sizeof(name), "shmd-%s", exec->nic->base.name);
	if (!soft_fabric_is_view(exec->nic->fabric))
		__atomic_fetch_add(&exec->lane->owner->epoch, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&exec->lane->shared->running, true, __ATOMIC_RELEASE);
	r = doorbell_poll_start(&exec->poll, name);
	if (r < 0)
		__atomic_store_n(&exec->lane->shared->running, false, __ATOMIC_RELEASE);
	return r;
}

/* ---- the engine ------------------------------------------------------------------------------------------------- */

static void set_engine_fault(struct soft_exec *exec)
{
	if (exec->nic->fault.kind == SOFT_FAULT_FLIP_PAYLOAD_BYTE)
		engine_set_fault(exec->engine, ENGINE_FAULT_FLIP_PAYLOAD_BYTE, exec->nic->fault.nth);
	else if (exec->nic->fault.kind == SOFT_FAULT_DROP_CQE)
		engine_set_fault(exec->engine, ENGINE_FAULT_DROP_CQE, exec->nic->fault.nth);
}

int soft_thread_start_engine(struct soft_exec *exec)
{
	const struct engine_attr attr = {
		.max_qps = 2 * SOFT_MAX_QPS, /* half for the connections of DCTs */
		.max_srqs = SOFT_MAX_QPS,
		.max_cqs = SOFT_MAX_CQS,
		.max_mrs = SOFT_MAX_MRS,
		.chunk_bytes = SOFT_CHUNK_BYTES,
		.self_route = exec->nic->port,
	};
	struct engine_ops ops = owner_ops;
	int r;

	if (exec->nic->fault.kind == SOFT_FAULT_ENGINE_STEP)
		ops.fault = owner_fault;
	r = engine_new(&attr, &ops, exec, &exec->engine);
	if (r < 0)
		return r;
	set_engine_fault(exec);
	if (!exec->resting)
		engine_ledger_recover(exec->engine);
	return 0;
}
