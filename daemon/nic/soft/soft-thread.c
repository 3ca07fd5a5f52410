/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data thread of one NIC: drives its engine, and sleeps without burning the CPU.
 *
 * A turn does a bounded amount of everything: handed-over calls, doorbell words, packets, engine work. When turns
 * find nothing the thread spins, yields, and after spin_usec sleeps: it announces that on the nic page (for
 * clients) and in its port (for other threads), looks at every doorbell and dbrec once more, and waits in epoll
 * without a time limit; with one when the engine has a timer, or a queue is driven by a GPU, which cannot wake
 * anybody. Without queues it sleeps at once.
 *
 * A thread that was started for contexts of a former process rests until all of them are there: it serves calls and leaves
 * queues and packets alone.
 */
#include "daemon/nic/soft/soft.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "proto/base/thread.h"

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
	return ((struct soft_nic *)owner)->now_nsec;
}

static uint64_t owner_clock(void *owner)
{
	return nsec_now();
}

static int owner_route_get(void *owner, const uint8_t gid[16], void **ret_route)
{
	struct soft_nic *nic = owner;
	struct soft_port *port;
	int r = soft_fabric_find(nic->fabric, gid, &port);

	if (r < 0)
		return r;
	*ret_route = port;
	return 0;
}

static void owner_route_put(void *owner, void *route)
{
	soft_port_unref(route);
}

static int owner_send(void *owner, void *route, struct engine_packet *pkt)
{
	struct soft_nic *nic = owner;
	struct soft_port *port = route;

	/* Lost on the way, as on a cable that was pulled: the requester's retry timer decides. */
	if (nic->is_mute || soft_port_is_down(nic->port) || soft_port_is_down(port)) {
		engine_packet_free(pkt);
		return -EHOSTUNREACH;
	}
	if (port == nic->port) {
		list_add_tail(&nic->packets, engine_packet_link(pkt));
		return 0;
	}
	if (!__atomic_load_n(&port->running, __ATOMIC_ACQUIRE)) {
		engine_packet_free(pkt);
		return -EHOSTUNREACH;
	}
	soft_port_push(port, &port->packets, engine_packet_link(pkt));
	return 0;
}

static bool has_packets(const struct soft_nic *nic)
{
	return !list_empty(&nic->packets) || __atomic_load_n(&nic->port->packets, __ATOMIC_RELAXED);
}

#define STAMPED (1u << 31)

/*
 * While a thread gets no CPU its NIC cannot answer, so that time costs its peers no retries. Two turns begun since the last
 * look hold a whole one. A thread that sleeps with an empty mailbox has answered everything. On this side an answer may have
 * arrived while this thread did not run.
 */
static bool owner_is_peer_behind(void *owner, void *route, uint32_t qpn, uint32_t *stamp)
{
	const struct soft_nic *nic = owner;
	const struct soft_port *port = route;
	uint32_t turns, last = *stamp;
	bool is_idle;

	if (nic->is_mute || soft_port_is_down(nic->port) || soft_port_is_down(port) ||
	    !__atomic_load_n(&port->running, __ATOMIC_ACQUIRE))
		return false;
	turns = __atomic_load_n(&port->turns, __ATOMIC_ACQUIRE) | STAMPED;
	is_idle = __atomic_load_n(&port->asleep, __ATOMIC_ACQUIRE) && !__atomic_load_n(&port->packets, __ATOMIC_ACQUIRE);
	if (last ? is_idle || ((turns - last) & ~STAMPED) >= 2 : is_idle && !has_packets(nic)) {
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
	struct soft_nic *nic = owner;

	if (step == nic->fault.step && ++nic->n_steps == nic->fault.nth)
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

static bool poll_doorbells(struct soft_nic *nic)
{
	struct soft_ctx *ctx;
	bool any = false;

	list_for_each_entry(ctx, &nic->ctxs, link)
		any |= soft_ctx_poll(ctx);
	return any;
}

void soft_thread_drop_packets(struct soft_nic *nic)
{
	soft_port_take(&nic->port->packets, &nic->packets);
	while (!list_empty(&nic->packets)) {
		struct list *link = nic->packets.next;

		list_del(link);
		engine_packet_free(engine_packet_from_link(link));
	}
}

static unsigned int deliver_packets(struct soft_nic *nic)
{
	unsigned int n = 0;
	uint64_t bytes = 0;

	/* What was on its way when the port went down. */
	if (soft_port_is_down(nic->port)) {
		soft_thread_drop_packets(nic);
		return 0;
	}
	soft_port_take(&nic->port->packets, &nic->packets);
	while (!list_empty(&nic->packets) && n < TURN_PACKETS && bytes < TURN_PACKET_BYTES) {
		struct list *link = nic->packets.next;
		struct engine_packet *pkt = engine_packet_from_link(link);

		list_del(link);
		bytes += engine_packet_payload_bytes(pkt);
		engine_input(nic->engine, pkt);
		n++;
	}
	return n;
}

/* The fault point of a NIC that stops working: from here on only calls are served. */
/* The fault point of a thread that gets no CPU: once, for so long. */
static void fault_sits(struct soft_nic *nic)
{
	struct engine_qp_counters counters;
	struct timespec ts;

	if (nic->fault.kind != SOFT_FAULT_SIT_STILL || nic->has_sat_still)
		return;
	engine_counters(nic->engine, &counters);
	if (counters.wqes < SIT_STILL_WQES)
		return;
	nic->has_sat_still = true;
	ts = nsec_to_timespec(nic->fault.nth * NSEC_PER_MSEC);
	nanosleep(&ts, NULL);
}

static bool fault_stops(struct soft_nic *nic)
{
	struct engine_qp_counters counters;

	if (nic->fault.kind != SOFT_FAULT_THREAD_STOP)
		return false;
	if (!nic->fault_stopped) {
		engine_counters(nic->engine, &counters);
		nic->fault_stopped = counters.wqes >= nic->fault.nth;
	}
	if (nic->fault_stopped)
		soft_thread_drop_packets(nic);
	return nic->fault_stopped;
}

static bool calls_pending(const struct soft_nic *nic)
{
	return __atomic_load_n(&nic->port->calls, __ATOMIC_RELAXED) || !list_empty(&nic->calls);
}

/*
 * Control operations get half of the thread's time at most while there is traffic, however many are asked for: after a
 * slice of one, traffic has its turns for as long as the slice took.
 */
static unsigned int run_calls(struct soft_nic *nic)
{
	uint64_t begin;
	unsigned int n;

	if (!calls_pending(nic))
		return 0;
	begin = nsec_now();
	if (nic->busy && begin < nic->calls_after_nsec)
		return 0;
	n = soft_calls_run(nic);
	nic->now_nsec = nsec_now();
	nic->calls_after_nsec = nic->now_nsec + (nic->now_nsec - begin);
	return n;
}

/* A hot QP is found by its dbrec; a doorbell line that is looked at too often slows down who rings it. */
static unsigned int find_work(struct soft_nic *nic, bool busy)
{
	unsigned int n = engine_scan_hot(nic->engine);

	busy |= n > 0;
	if (++nic->turns_unpolled < (busy ? BUSY_DOORBELL_TURNS : IDLE_DOORBELL_TURNS))
		return n;
	nic->turns_unpolled = 0;
	return n + poll_doorbells(nic);
}

/* A write takes three rounds on one NIC: request, acknowledgement, completion. */
static unsigned int run_engine(struct soft_nic *nic)
{
	/* With that fault, so that it stops where it was told to. */
	unsigned int limit = nic->fault.kind == SOFT_FAULT_THREAD_STOP ? 1 : TURN_ENGINE_UNITS;
	unsigned int units = 0;

	for (unsigned int round = 0; round < TURN_ENGINE_ROUNDS; round++) {
		unsigned int m = engine_progress(nic->engine, limit - units);

		m += deliver_packets(nic);
		units += m;
		if (m == 0 || units >= limit)
			return units;
	}
	nic->turns_unpolled += LARGE_TURN;
	return units;
}

/* Between two turns no request is in the middle of a step that a death would cut. */
static void look_whether_to_rest(struct soft_nic *nic)
{
	if (!__atomic_load_n(&nic->is_leaving, __ATOMIC_RELAXED))
		return;
	nic->resting = true;
	__atomic_store_n(&nic->has_left, true, __ATOMIC_RELEASE);
}

/* Returns whether anything was done. */
static bool turn(struct soft_nic *nic)
{
	unsigned int n, units;

	__atomic_store_n(&nic->port->turns, ++nic->n_turns, __ATOMIC_RELEASE);
	fault_sits(nic);
	n = run_calls(nic);
	if (nic->n_turns % HEARTBEAT_TURNS == 0)
		nic_page_beat(&nic->nic_page);
	if (nic->n_turns % CLOCK_TURNS == 0)
		nic->now_nsec = nsec_now();
	look_whether_to_rest(nic);
	if (nic->resting || fault_stops(nic))
		return n > 0;
	n += find_work(nic, n > 0);
	units = run_engine(nic);
	nic->busy = units > 0;
	if (units > CLOCK_UNITS)
		nic->now_nsec = nsec_now();
	n += soft_delay_run(&nic->delay);
	return n + units > 0;
}

/* ---- waiting --------------------------------------------------------------------------------------------------- */

static void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#endif
}

static void set_asleep(struct soft_nic *nic, bool asleep)
{
	__atomic_exchange_n(&nic->port->asleep, asleep, __ATOMIC_SEQ_CST);
	nic_page_set_asleep(&nic->nic_page, asleep);
}

/* The last look before sleep: everything, not only what was active lately. */
static bool anything_to_do(struct soft_nic *nic)
{
	if (!list_empty(&nic->calls) || __atomic_load_n(&nic->port->calls, __ATOMIC_SEQ_CST))
		return true;
	if (!nic->has_left && __atomic_load_n(&nic->is_leaving, __ATOMIC_SEQ_CST))
		return true;
	if (nic->resting || nic->fault_stopped)
		return false;
	return !list_empty(&nic->packets) ||
	       __atomic_load_n(&nic->port->packets, __ATOMIC_SEQ_CST) || poll_doorbells(nic) ||
	       engine_scan(nic->engine) > 0;
}

/* How long to sleep at most. A GPU rings doorbells that wake nobody. */
static uint64_t sleep_nsec(struct soft_nic *nic)
{
	uint64_t deadline, now, nsec = NIC_SLEEP_FOR_EVER;

	if (nic->resting || nic->fault_stopped)
		return NIC_SLEEP_FOR_EVER;
	if (nic->n_gpu_qps > 0)
		nsec = (uint64_t)nic->gpu_poll_usec * NSEC_PER_USEC;
	deadline = engine_next_deadline(nic->engine);
	if (soft_delay_deadline(&nic->delay) < deadline)
		deadline = soft_delay_deadline(&nic->delay);
	if (deadline == UINT64_MAX)
		return nsec;
	now = nsec_now();
	if (deadline <= now)
		return 0;
	return deadline - now < nsec ? deadline - now : nsec;
}

static void thread_sleep(struct soft_nic *nic)
{
	uint64_t nsec;

	set_asleep(nic, true);
	nsec = anything_to_do(nic) ? 0 : sleep_nsec(nic);
	if (nsec > 0)
		nic_sleep(nic->epoll_fd, nsec);
	set_asleep(nic, false);
	nic->now_nsec = nsec_now();
}

/*
 * Nothing to do: spin, then yield, then sleep. The spin is short, for clients that post again at once; yielding is
 * nearly as quick where a CPU is free, and where none is it lets the client run whose doorbell is awaited. A wake in
 * vain goes back to sleep at once.
 */
static void thread_idle(struct soft_nic *nic)
{
	uint64_t limit_nsec = (uint64_t)nic->spin_usec * NSEC_PER_USEC, idle_nsec, now;

	if (nic->qpns.n_used == 0 || nic->resting || nic->fault_stopped) {
		thread_sleep(nic);
		return;
	}
	cpu_relax();
	if (nic->idle_since_nsec && !nic->idle_yields && nic->n_turns % SPIN_ROUNDS_PER_CLOCK)
		return;
	now = nic->now_nsec = nsec_now();
	if (!nic->idle_since_nsec)
		nic->idle_since_nsec = now;
	idle_nsec = now - nic->idle_since_nsec;
	nic->idle_yields = idle_nsec >= NIC_SPIN_NSEC || idle_nsec >= limit_nsec;
	if (idle_nsec >= limit_nsec)
		thread_sleep(nic);
	else if (nic->idle_yields)
		sched_yield();
}

static void *thread_main(void *arg)
{
	struct soft_nic *nic = arg;

	nic_sleep_init();
	nic->now_nsec = nsec_now();
	while (!nic->stop) {
		if (!turn(nic)) {
			thread_idle(nic);
			continue;
		}
		nic->idle_since_nsec = 0;
		nic->idle_yields = false;
	}
	return NULL;
}

/* ---- start and stop ------------------------------------------------------------------------------------------- */

static void set_engine_fault(struct soft_nic *nic)
{
	if (nic->fault.kind == SOFT_FAULT_FLIP_PAYLOAD_BYTE)
		engine_set_fault(nic->engine, ENGINE_FAULT_FLIP_PAYLOAD_BYTE, nic->fault.nth);
	else if (nic->fault.kind == SOFT_FAULT_DROP_CQE)
		engine_set_fault(nic->engine, ENGINE_FAULT_DROP_CQE, nic->fault.nth);
}

static int start_engine(struct soft_nic *nic)
{
	const struct engine_attr attr = {
		.max_qps = 2 * SOFT_MAX_QPS, /* half for the connections of DCTs */
		.max_srqs = SOFT_MAX_QPS,
		.max_cqs = SOFT_MAX_CQS,
		.max_mrs = SOFT_MAX_MRS,
		.chunk_bytes = SOFT_CHUNK_BYTES,
		.self_route = nic->port,
	};
	struct engine_ops ops = owner_ops;
	int r;

	if (nic->fault.kind == SOFT_FAULT_ENGINE_STEP)
		ops.fault = owner_fault;
	r = engine_new(&attr, &ops, nic, &nic->engine);
	if (r < 0)
		return r;
	set_engine_fault(nic);
	if (!nic->resting)
		engine_ledger_recover(nic->engine);
	r = soft_numbers_init(&nic->qpns);
	return r < 0 ? r : soft_numbers_init(&nic->cqns);
}

static int start_epoll(struct soft_nic *nic)
{
	struct epoll_event ev = {.events = EPOLLIN | EPOLLET};

	nic->port->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	nic->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (nic->port->wake_fd < 0 || nic->epoll_fd < 0 ||
	    epoll_ctl(nic->epoll_fd, EPOLL_CTL_ADD, nic->port->wake_fd, &ev) < 0)
		return -errno;
	return 0;
}

static int start_pthread(struct soft_nic *nic)
{
	char name[NIC_NAME_BYTES + 8];
	int r;

	snprintf(name, sizeof(name), "shmd-%s", nic->base.name);
	__atomic_store_n(&nic->port->running, true, __ATOMIC_RELEASE);
	r = thread_start(&nic->thread, 0, name, thread_main, nic);
	if (r < 0)
		__atomic_store_n(&nic->port->running, false, __ATOMIC_RELEASE);
	return r;
}

/* What start made and no thread uses. */
static void free_parts(struct soft_nic *nic)
{
	soft_delay_drain(&nic->delay);
	nic->engine = engine_free(nic->engine);
	soft_thread_drop_packets(nic);
	soft_numbers_deinit(&nic->qpns);
	soft_numbers_deinit(&nic->cqns);
	soft_page_deinit(nic);
	nic->epoll_fd = safe_close(nic->epoll_fd);
}

/* page_fd: of a former process, or -1. */
static int start_locked(struct soft_nic *nic, int page_fd)
{
	int r = page_fd < 0 ? soft_page_make(nic) : soft_page_adopt(nic, page_fd);

	nic->resting = page_fd >= 0;
	if (r == 0)
		r = start_engine(nic);
	if (r == 0)
		r = start_epoll(nic);
	if (r == 0)
		nic_page_beat(&nic->nic_page);
	if (r == 0)
		r = start_pthread(nic);
	if (r < 0) {
		free_parts(nic);
		nic->port->wake_fd = safe_close(nic->port->wake_fd);
		return r;
	}
	nic->started = true;
	return 0;
}

int soft_thread_start(struct soft_nic *nic)
{
	int r = 0;

	soft_fabric_settle(nic->fabric, nic->port);
	pthread_mutex_lock(&nic->lock);
	if (!nic->started) {
		nic->open = true;
		r = start_locked(nic, -1);
	}
	pthread_mutex_unlock(&nic->lock);
	return r;
}

int soft_thread_adopt(struct soft_nic *nic, int page_fd)
{
	int r;

	if (page_fd < 0)
		return -EBADF;
	pthread_mutex_lock(&nic->lock);
	if (nic->open)
		r = -EBUSY;
	else if (nic->started)
		r = nic_page_is(&nic->nic_page, page_fd) ? 0 : -EXDEV;
	else
		r = start_locked(nic, page_fd);
	pthread_mutex_unlock(&nic->lock);
	return r;
}

/* What clients rang meanwhile, and what nobody looked at since the former process died, is found by the look before sleep. */
static bool run_resume(struct soft_nic *nic, struct soft_call *call)
{
	engine_ledger_recover(nic->engine);
	nic->resting = false;
	return true;
}

void soft_resume(struct nic *base)
{
	struct soft_call call = {.run = run_resume};
	struct soft_nic *nic = soft_nic(base);
	bool rests;

	pthread_mutex_lock(&nic->lock);
	rests = nic->started && !nic->open;
	nic->open = true;
	pthread_mutex_unlock(&nic->lock);
	if (rests)
		soft_call(nic, &call);
}

bool soft_rest(struct nic *base)
{
	struct soft_nic *nic = soft_nic(base);

	if (!soft_thread_is_started(nic))
		return true;
	if (!__atomic_exchange_n(&nic->is_leaving, true, __ATOMIC_SEQ_CST))
		soft_port_wake(nic->port);
	return __atomic_load_n(&nic->has_left, __ATOMIC_ACQUIRE);
}

bool soft_thread_is_started(struct soft_nic *nic)
{
	bool started;

	pthread_mutex_lock(&nic->lock);
	started = nic->started;
	pthread_mutex_unlock(&nic->lock);
	return started;
}

static bool run_stop(struct soft_nic *nic, struct soft_call *call)
{
	nic->stop = true;
	return true;
}

void soft_thread_stop(struct soft_nic *nic)
{
	struct soft_call call = {.run = run_stop};

	if (!soft_thread_is_started(nic))
		return;
	soft_call(nic, &call);
	pthread_join(nic->thread, NULL);
	assert_bug(list_empty(&nic->ctxs) && list_empty(&nic->calls));
	/* From here on packets of other NICs go nowhere; what slips through is freed with the port. */
	__atomic_store_n(&nic->port->running, false, __ATOMIC_RELEASE);
	free_parts(nic);
}
