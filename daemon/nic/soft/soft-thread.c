/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data thread of one executor: drives its engine, and sleeps without burning the CPU.
 *
 * A turn does a bounded amount of everything: handed-over calls, doorbell words, packets, engine work. When turns
 * find nothing the thread spins, yields, and after spin_usec sleeps: it announces that on the nic page (for
 * clients) and in its port (for other threads), looks at every doorbell and dbrec once more, and waits in epoll
 * without a time limit; with one when the engine has a timer, or a queue is driven by a GPU, which cannot wake
 * anybody. Without queues it sleeps at once.
 *
 * A thread that was started for contexts of a former process rests until all of them are there: it serves calls and leaves
 * queues and packets alone.
 *
 * Wherever the thread touches memory of clients it may sleep in the kernel for as long as they like. So it takes no lock there
 * that another thread waits for, and what it sends to another user's executor takes its payload along.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
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
#define HEARTBEAT_TURNS 1024u
#define SPIN_ROUNDS_PER_CLOCK 8u
#define SIT_STILL_WQES 8u /* completed before that fault point sits still */

/* ---- what the engine asks of us --------------------------------------------------------------------------- */

/*
 * The engine asks several times for one write, and a clock is read in about the time of a cache miss: it gets a time
 * that is at most CLOCK_TURNS turns, or one long turn, old.
 */
static uint64_t owner_now(void *owner)
{
	return ((struct soft_exec *)owner)->now_nsec;
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
static struct soft_lane *find_lane(const struct soft_exec *exec, const struct soft_port *port, uint32_t qpn)
{
	struct soft_lane *lane;

	if (exec->is_mute || soft_port_is_down(exec->nic->port) || soft_port_is_down(port))
		return NULL;
	lane = soft_port_find_lane(port, qpn);
	return lane && __atomic_load_n(&lane->running, __ATOMIC_ACQUIRE) ? lane : NULL;
}

/* Another user's executor must not touch the sender's memory. */
static bool is_foreign(const struct soft_exec *exec, const struct soft_lane *lane)
{
	uint32_t uid = __atomic_load_n(&lane->uid, __ATOMIC_RELAXED);

	return lane != exec->lane &&
	       (uid == SOFT_UID_SEVERAL || uid != __atomic_load_n(&exec->lane->uid, __ATOMIC_RELAXED));
}

static int owner_send(void *owner, void *route, struct engine_packet *pkt)
{
	struct soft_exec *exec = owner;
	struct soft_lane *lane = find_lane(exec, route, engine_packet_dest_qpn(pkt));

	/* Then the requester's retry timer decides. */
	if (!lane || (is_foreign(exec, lane) && engine_packet_own_payload(exec->engine, pkt) < 0)) {
		engine_packet_free(pkt);
		return -EHOSTUNREACH;
	}
	if (lane == exec->lane)
		list_add_tail(&exec->packets, engine_packet_link(pkt));
	else
		soft_lane_push(lane, &lane->packets, engine_packet_link(pkt));
	return 0;
}

static bool has_packets(const struct soft_exec *exec)
{
	return !list_empty(&exec->packets) || __atomic_load_n(&exec->lane->packets, __ATOMIC_RELAXED);
}

#define STAMPED (1u << 31)

/*
 * Time in which a thread got no CPU, or slept at its user's memory, is no time in which its NIC did not answer. Two turns that
 * have begun since the last look hold a whole one. A thread that sleeps with nothing in its mailbox has nothing left to answer.
 * On this side an answer may have come in while this thread did not run.
 */
static bool owner_is_peer_behind(void *owner, void *route, uint32_t qpn, uint32_t *stamp)
{
	const struct soft_exec *exec = owner;
	struct soft_lane *lane = find_lane(exec, route, qpn);
	uint32_t turns, last = *stamp;
	bool is_idle;

	if (!lane)
		return false;
	turns = __atomic_load_n(&lane->turns, __ATOMIC_ACQUIRE) | STAMPED;
	is_idle = __atomic_load_n(&lane->asleep, __ATOMIC_ACQUIRE) && !__atomic_load_n(&lane->packets, __ATOMIC_ACQUIRE);
	if (last ? is_idle || ((turns - last) & ~STAMPED) >= 2 : is_idle && !has_packets(exec)) {
		*stamp = turns;
		return false;
	}
	*stamp = last ? last : turns;
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

	if (step == exec->nic->fault.step && ++exec->n_steps == exec->nic->fault.nth)
		kill(getpid(), SIGKILL);
}

static const struct engine_ops owner_ops = {
	.now_nsec = owner_now,
	.clock_nsec = owner_clock,
	.route_get = owner_route_get,
	.route_put = owner_route_put,
	.send = owner_send,
	.is_peer_behind = owner_is_peer_behind,
	.dc_route = soft_dc_route,
	.dc_route_back = soft_dc_route_back,
	.dc_source_gid = soft_dc_source_gid,
	.event = owner_event,
};

/* ---- one turn ------------------------------------------------------------------------------------------------ */

static bool poll_doorbells(struct soft_exec *exec)
{
	struct soft_ctx *ctx;
	bool any = false;

	list_for_each_entry(ctx, &exec->ctxs, link)
		any |= soft_ctx_poll(ctx);
	return any;
}

void soft_thread_drop_packets(struct soft_exec *exec)
{
	exec->n_downs = __atomic_load_n(&exec->nic->port->n_downs, __ATOMIC_ACQUIRE);
	soft_lane_take(&exec->lane->packets, &exec->packets);
	while (!list_empty(&exec->packets)) {
		struct list *link = exec->packets.next;

		list_del(link);
		engine_packet_free(engine_packet_from_link(link));
	}
}

/* Is it, or was it since packets were last dropped? Then what lies here was on its way when the port went down. */
static bool port_was_down(const struct soft_exec *exec)
{
	const struct soft_port *port = exec->nic->port;

	return __atomic_load_n(&port->n_downs, __ATOMIC_ACQUIRE) != exec->n_downs || soft_port_is_down(port);
}

static unsigned int deliver_packets(struct soft_exec *exec)
{
	unsigned int n = 0;
	uint64_t bytes = 0;

	if (port_was_down(exec)) {
		soft_thread_drop_packets(exec);
		return 0;
	}
	soft_lane_take(&exec->lane->packets, &exec->packets);
	while (!list_empty(&exec->packets) && n < TURN_PACKETS && bytes < TURN_PACKET_BYTES) {
		struct list *link = exec->packets.next;
		struct engine_packet *pkt = engine_packet_from_link(link);

		list_del(link);
		bytes += engine_packet_payload_bytes(pkt);
		engine_input(exec->engine, pkt);
		n++;
	}
	return n;
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
	exec->now_nsec = nsec_now();
	exec->calls_after_nsec = exec->now_nsec + (exec->now_nsec - begin);
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
	return n + poll_doorbells(exec);
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
static bool turn(struct soft_exec *exec)
{
	unsigned int n, units;

	__atomic_store_n(&exec->lane->turns, ++exec->n_turns, __ATOMIC_RELEASE);
	fault_sits(exec);
	n = run_calls(exec);
	if (exec->n_turns % HEARTBEAT_TURNS == 0)
		nic_page_beat(&exec->nic_page);
	if (exec->n_turns % CLOCK_TURNS == 0)
		exec->now_nsec = nsec_now();
	look_whether_to_resume(exec);
	look_whether_to_rest(exec);
	if (exec->resting || fault_stops(exec))
		return n > 0;
	n += find_work(exec, n > 0);
	units = run_engine(exec);
	exec->busy = units > 0;
	if (units > CLOCK_UNITS)
		exec->now_nsec = nsec_now();
	n += soft_delay_run(&exec->delay);
	return n + units > 0;
}

/* ---- waiting --------------------------------------------------------------------------------------------------- */

static void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#endif
}

static void set_asleep(struct soft_exec *exec, bool asleep)
{
	__atomic_exchange_n(&exec->lane->asleep, asleep, __ATOMIC_SEQ_CST);
	nic_page_set_asleep(&exec->nic_page, asleep);
}

/* The last look before sleep: everything, not only what was active lately. */
static bool anything_to_do(struct soft_exec *exec)
{
	if (!list_empty(&exec->calls) || __atomic_load_n(&exec->lane->calls, __ATOMIC_SEQ_CST))
		return true;
	if (__atomic_load_n(&exec->stop, __ATOMIC_SEQ_CST) ||
	    (!exec->has_left && __atomic_load_n(&exec->nic->is_leaving, __ATOMIC_SEQ_CST)) ||
	    (exec->resting && !exec->has_left && __atomic_load_n(&exec->may_resume, __ATOMIC_SEQ_CST)))
		return true;
	if (exec->resting || exec->fault_stopped)
		return false;
	return !list_empty(&exec->packets) ||
	       __atomic_load_n(&exec->lane->packets, __ATOMIC_SEQ_CST) || poll_doorbells(exec) ||
	       engine_scan(exec->engine) > 0;
}

/* How long to sleep at most. A GPU rings doorbells that wake nobody. */
static uint64_t sleep_nsec(struct soft_exec *exec)
{
	uint64_t deadline, now, nsec = NIC_SLEEP_FOR_EVER;

	if (exec->resting || exec->fault_stopped)
		return NIC_SLEEP_FOR_EVER;
	if (exec->n_gpu_qps > 0)
		nsec = (uint64_t)exec->nic->gpu_poll_usec * NSEC_PER_USEC;
	deadline = engine_next_deadline(exec->engine);
	if (soft_delay_deadline(&exec->delay) < deadline)
		deadline = soft_delay_deadline(&exec->delay);
	if (deadline == UINT64_MAX)
		return nsec;
	now = nsec_now();
	if (deadline <= now)
		return 0;
	return deadline - now < nsec ? deadline - now : nsec;
}

static void thread_sleep(struct soft_exec *exec)
{
	uint64_t nsec;

	set_asleep(exec, true);
	nsec = anything_to_do(exec) ? 0 : sleep_nsec(exec);
	if (nsec > 0)
		nic_sleep(exec->epoll_fd, nsec);
	set_asleep(exec, false);
	exec->now_nsec = nsec_now();
}

/*
 * Nothing to do: spin, then yield, then sleep. The spin is short, for clients that post again at once; yielding is
 * nearly as quick where a CPU is free, and where none is it lets the client run whose doorbell is awaited. A wake in
 * vain goes back to sleep at once.
 */
static void thread_idle(struct soft_exec *exec)
{
	uint64_t limit_nsec = (uint64_t)exec->nic->spin_usec * NSEC_PER_USEC, idle_nsec, now;

	if (exec->n_qps == 0 || exec->resting || exec->fault_stopped) {
		thread_sleep(exec);
		return;
	}
	cpu_relax();
	if (exec->idle_since_nsec && !exec->idle_yields && exec->n_turns % SPIN_ROUNDS_PER_CLOCK)
		return;
	now = exec->now_nsec = nsec_now();
	if (!exec->idle_since_nsec)
		exec->idle_since_nsec = now;
	idle_nsec = now - exec->idle_since_nsec;
	exec->idle_yields = idle_nsec >= NIC_SPIN_NSEC || idle_nsec >= limit_nsec;
	if (idle_nsec >= limit_nsec)
		thread_sleep(exec);
	else if (exec->idle_yields)
		sched_yield();
}

void *soft_thread_main(void *arg)
{
	struct soft_exec *exec = arg;

	nic_sleep_init();
	exec->now_nsec = nsec_now();
	while (!__atomic_load_n(&exec->stop, __ATOMIC_ACQUIRE)) {
		if (!turn(exec)) {
			thread_idle(exec);
			continue;
		}
		exec->idle_since_nsec = 0;
		exec->idle_yields = false;
	}
	return NULL;
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
