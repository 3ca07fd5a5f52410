/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two tenants, one of them abusive: the other keeps at least 0.4 of the rate that it has alone.
 *
 * The victim's send queue is always full of writes of 8 KiB, so it needs no CPU of its own: the NIC's thread and the
 * abuser have the two CPUs, and what is shared is the NIC. Slices alone and under abuse alternate, the abuser standing
 * still (SIGSTOP) in between.
 *
 * Two figures are compared, each the median of its slices. The rate for each second of CPU time that the NIC's thread
 * got is what the daemon is answerable for: it does not depend on what else runs on the machine, and must be kept every
 * time. The rate for each second of the clock is what the tenant sees. It must be kept as well, unless others use the
 * machine: then no CPU is idle for the abuser, and the figure is only printed. Rounds that miss are repeated;
 * starvation misses every time.
 */
#include <endian.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/doorbell.h>
#include <shmd/abi/wqe.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/median.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/system/daemon-usage.h"
#include "tests/system/raw-traffic.h"

#define KEEPS_AT_LEAST 0.4
#define QUIET 0.8 /* CPUs that are idle beside the NIC's thread when nothing else runs */
#define N_ROUNDS 8
#define N_SLICES (test_is_full() ? 5 : 3)
#define MAX_SLICES 5
#define SLICE_NSEC (40 * NSEC_PER_MSEC)
#define TOP_UP_NSEC (300 * NSEC_PER_USEC)
#define SETTLE_NSEC (5 * NSEC_PER_MSEC)
#define HALF (RAW_TRAFFIC_HEAP_BYTES / 2)
#define VICTIM_BYTES 8192u
#define VICTIM_SPAN 131072u /* small, so that it is not the caches that are compared */

static uint64_t machine_idle_nsec(void)
{
	unsigned long long user, nice, system, idle;
	FILE *file = fopen("/proc/stat", "re");

	ASSERT(file);
	ASSERT_EQ(fscanf(file, "cpu %llu %llu %llu %llu", &user, &nice, &system, &idle), 4);
	fclose(file);
	return idle * (uint64_t)(NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK));
}

static void nap(uint64_t nsec)
{
	struct timespec ts = nsec_to_timespec(nsec);

	nanosleep(&ts, NULL);
}

/* ---- full queues --------------------------------------------------------------------------------------------------- */

/* QP i's ring, full of writes from the first `span` bytes of the heap to those at HALF. */
static void fill_ring(struct raw_traffic *t, uint32_t i, uint32_t span, uint32_t bytes)
{
	struct raw_op op = {
		.opcode = SHMD_OPCODE_RDMA_WRITE,
		.lkey = t->lkey,
		.rkey = t->rkey,
		.bytes = bytes,
	};

	t->qp = t->all_qps[i];
	t->pi = 0;
	for (uint32_t k = 0; k < 1u << t->qp.log2_sq_wqebbs; k++) {
		uint64_t at = RAW_TRAFFIC_IOVA + k * bytes % span;

		op.laddr = at;
		op.raddr = at + HALF;
		raw_traffic_fill(t, &op);
	}
}

/* Announce again what is done. Returns how many WQEs are, modulo 2^16: all rings begin with a CQE of 0xff. */
static uint16_t top_up(struct raw_traffic *t, uint32_t i)
{
	const struct msg_qp_info *qp = &t->all_qps[i];
	struct shmd_dbrec *dbrec = (void *)(t->queue_mem + qp->dbrec_offset);
	const struct shmd_cqe *cqe = (void *)(t->queue_mem + t->all_cqs[i].ring_offset);
	uint16_t done = (uint16_t)(be16toh(__atomic_load_n(&cqe->wqe_counter, __ATOMIC_RELAXED)) + 1);

	__atomic_store_n(&dbrec->snd, htobe32((uint16_t)(done + (1u << qp->log2_sq_wqebbs))), __ATOMIC_RELEASE);
	__atomic_store_n((uint64_t *)(t->doorbell_page + t->doorbell_offset), htobe64(qp->qpn << 8),
			 __ATOMIC_RELEASE);
	return done;
}

/* ---- the victim ---------------------------------------------------------------------------------------------------- */

struct victim {
	struct raw_traffic t;
	pid_t daemon;
};

struct rates {
	double clock, cpu; /* MB for each second of each */
	double idle_cpus; /* of the machine */
};

static void victim_wake(struct victim *v)
{
	uint64_t one = 1;

	ASSERT_EQ(write(v->t.wake_fd, &one, sizeof(one)), sizeof(one));
}

/* One slice; every byte that it writes is verified. */
static struct rates victim_slice(struct victim *v)
{
	const struct shmd_cqe *cqe = (void *)(v->t.queue_mem + v->t.all_cqs[0].ring_offset);
	uint64_t cpu, idle, begin, nsec;
	uint16_t last, now;
	uint32_t done = 0;
	double bytes;

	memset(v->t.heap + HALF, 0, VICTIM_SPAN);
	last = top_up(&v->t, 0);
	cpu = daemon_thread_nsec(v->daemon, "shmd-soft0");
	idle = machine_idle_nsec();
	begin = nsec_now();
	do {
		victim_wake(v);
		nap(TOP_UP_NSEC);
		now = top_up(&v->t, 0);
		done += (uint16_t)(now - last);
		last = now;
		nsec = nsec_now() - begin;
		if (done == 0 && nsec > 5 * NSEC_PER_SEC)
			test_fail(TEST_WHERE, "not one write within 5 s");
	} while (nsec < SLICE_NSEC || done * VICTIM_BYTES < 2 * VICTIM_SPAN);
	cpu = daemon_thread_nsec(v->daemon, "shmd-soft0") - cpu;
	idle = machine_idle_nsec() - idle;
	ASSERT_EQ(cqe->op_own >> 4, SHMD_CQE_REQ);
	ASSERT_MEMEQ(v->t.heap + HALF, v->t.heap, VICTIM_SPAN);
	bytes = (double)done * VICTIM_BYTES;
	return (struct rates){bytes * 1e3 / (double)nsec, bytes * 1e3 / (double)cpu, (double)idle / (double)nsec};
}

/* ---- abusers, in processes of their own, for ever ------------------------------------------------------------------ */

static void abuse_queues(struct raw_traffic *t, uint32_t bytes)
{
	for (uint32_t i = 0; i < t->n_qps; i++)
		fill_ring(t, i, HALF, bytes);
	for (;;)
		for (uint32_t i = 0; i < t->n_qps; i++)
			top_up(t, i);
}

static void small_writes(const char *socket, const char *nic)
{
	struct raw_traffic_attr attr = {.nic = nic, .n_qps = 1, .log2_sq_wqebbs = 10, .own_cqs = true};
	struct raw_traffic t;

	raw_traffic_init_with(&t, socket, &attr);
	abuse_queues(&t, 8);
}

static void large_writes_on_many_qps(const char *socket, const char *nic)
{
	struct raw_traffic_attr attr = {.nic = nic, .n_qps = 250, .log2_sq_wqebbs = 4, .own_cqs = true};
	struct raw_traffic t;

	raw_traffic_init_with(&t, socket, &attr);
	abuse_queues(&t, HALF);
}

static void doorbells(const char *socket, const char *nic)
{
	struct raw_traffic_attr attr = {.nic = nic, .n_qps = 250, .log2_sq_wqebbs = 4};
	uint64_t one = 1;
	struct raw_traffic t;

	raw_traffic_init_with(&t, socket, &attr);
	for (uint32_t n = 0;; n++) {
		for (uint32_t at = 0; at < SHMD_DB_PAGE_BYTES; at += 8)
			__atomic_store_n((uint64_t *)(t.doorbell_page + at), htobe64(t.all_qps[n % 250].qpn << 8),
					 __ATOMIC_RELEASE);
		if (write(t.wake_fd, &one, sizeof(one)) != sizeof(one))
			_exit(1);
	}
}

/* Sends without a receive, tried again every 10 us for ever: without any CPU of its own. */
static void timers(const char *socket, const char *nic)
{
	struct raw_traffic_attr attr = {
		.nic = nic,
		.n_qps = 250,
		.n_rq_wqes = 4,
		.params = {.retry_count = 7, .rnr_retry = 7, .min_rnr_timer = 1, .max_rd_atomic = 1},
	};
	struct raw_op op = {.opcode = SHMD_OPCODE_SEND, .laddr = RAW_TRAFFIC_IOVA, .bytes = 8};
	struct raw_traffic t;

	raw_traffic_init_with(&t, socket, &attr);
	op.lkey = t.lkey;
	for (;;) {
		for (uint32_t i = 0; i < t.n_qps; i++) {
			t.qp = t.all_qps[i];
			t.pi = 0;
			raw_traffic_post(&t, &op);
		}
		nap(10 * NSEC_PER_MSEC);
	}
}

/* Requests that cost the control thread and the NIC most, as fast as they are answered. */
static void requests(const char *socket, const char *nic)
{
	struct raw_traffic_attr attr = {.nic = nic};
	struct msg req, rep;
	struct raw_traffic t;

	raw_traffic_init_with(&t, socket, &attr);
	for (;;) {
		uint32_t mr = raw_reg(&t.raw, 1 << 20);

		raw_fill_create(&req, 250);
		req.queue_create_req.specs.cqs[0] = (struct msg_cq_spec){.count = 8, .log2_entries = 16};
		raw_expect(&t.raw, &req, NULL, 0, MSG_QUEUE_CREATE_REP, &rep);
		msg_init(&req, MSG_QUEUE_DESTROY_REQ, 0);
		req.queue_destroy_req.handle = rep.queue_create_rep.queues;
		msg_deinit(&rep);
		raw_expect(&t.raw, &req, NULL, 0, MSG_OK_REP, &rep);
		msg_init(&req, MSG_MEM_DEREG_REQ, 0);
		req.mem_dereg_req.handle = mr;
		raw_expect(&t.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	}
}

/* ---- the comparison ------------------------------------------------------------------------------------------------ */

struct abuser {
	void (*run)(const char *socket, const char *nic);
	const char *nic;
	bool dies; /* between slices, since its queues go on without it; else it stands still */
	const char *socket;
	pid_t pid; /* 0: none */
};

static void abuser_start(struct abuser *abuser)
{
	if (abuser->pid > 0) {
		kill(abuser->pid, SIGCONT);
		nap(SETTLE_NSEC);
		return;
	}
	abuser->pid = fork();
	ASSERT_GE(abuser->pid, 0);
	if (abuser->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		abuser->run(abuser->socket, abuser->nic);
		_exit(1);
	}
	nap(20 * SETTLE_NSEC);
}

static void abuser_stop(struct abuser *abuser, bool for_good)
{
	int status;

	if (abuser->pid == 0)
		return;
	ASSERT_OK(waitpid(abuser->pid, NULL, WNOHANG)); /* still at it */
	kill(abuser->pid, for_good || abuser->dies ? SIGKILL : SIGSTOP);
	if (for_good || abuser->dies) {
		waitpid(abuser->pid, &status, 0);
		abuser->pid = 0;
	}
}

/* The abuser's posted work is done. */
static void settle(struct raw_client *ctl)
{
	struct msg_status_rep before, after;

	raw_status(ctl, &after);
	do {
		before = after;
		nap(SETTLE_NSEC);
		raw_status(ctl, &after);
	} while (after.counters.wqes != before.counters.wqes);
}

/* The kept share of the rate: by the CPU time of the NIC's thread, and by the clock. */
struct kept {
	double cpu, clock;
	bool quiet;
};

static struct kept compare(struct raw_client *ctl, struct victim *victim, struct abuser *abuser)
{
	double alone[2][MAX_SLICES] = {{0}}, abused[2][MAX_SLICES] = {{0}}, idle = 0;
	struct rates rates;
	struct kept kept;

	for (int i = 0; i < N_SLICES; i++) {
		abuser_stop(abuser, false);
		settle(ctl);
		rates = victim_slice(victim);
		alone[0][i] = rates.cpu;
		alone[1][i] = rates.clock;
		idle += rates.idle_cpus / N_SLICES;
		abuser_start(abuser);
		rates = victim_slice(victim);
		abused[0][i] = rates.cpu;
		abused[1][i] = rates.clock;
	}
	abuser_stop(abuser, false);
	kept.cpu = median(abused[0], N_SLICES) / median(alone[0], N_SLICES);
	kept.clock = median(abused[1], N_SLICES) / median(alone[1], N_SLICES);
	kept.quiet = idle >= QUIET;
	printf("# alone %.0f MB/s, %.2f CPUs idle; under abuse %.0f: %.2f; by CPU time of the NIC %.2f\n",
	       median(alone[1], N_SLICES), idle, median(abused[1], N_SLICES), kept.clock, kept.cpu);
	return kept;
}

static bool is_enough(const struct kept *kept)
{
	return kept->cpu >= KEEPS_AT_LEAST && (kept->clock >= KEEPS_AT_LEAST || !kept->quiet);
}

static void keeps_its_share(struct abuser *abuser)
{
	struct raw_traffic_attr attr = {.nic = "soft0", .n_qps = 1, .log2_sq_wqebbs = 13, .own_cqs = true};
	struct fixture_daemon daemon;
	struct kept kept = {0};
	struct victim victim;
	struct raw_client ctl;

	fixture_daemon_start(&daemon, NULL);
	raw_connect(&ctl, daemon.socket);
	raw_hello(&ctl, MSG_ROLE_CONTROL);
	victim.daemon = daemon.pid;
	raw_traffic_init_with(&victim.t, daemon.socket, &attr);
	for (uint32_t i = 0; i < VICTIM_SPAN; i++)
		victim.t.heap[i] = (uint8_t)(i * 7 + i / 4096 + 1);
	fill_ring(&victim.t, 0, VICTIM_SPAN, VICTIM_BYTES);
	abuser->socket = daemon.socket;
	for (int i = 0; i < N_ROUNDS && !is_enough(&kept); i++)
		kept = compare(&ctl, &victim, abuser);
	abuser_stop(abuser, true);
	raw_traffic_deinit(&victim.t);
	raw_close(&ctl);
	fixture_daemon_stop(&daemon);
	ASSERT_GE(kept.cpu, KEEPS_AT_LEAST);
	if (kept.quiet)
		ASSERT_GE(kept.clock, KEEPS_AT_LEAST);
}

TEST(small_writes_on_the_same_nic)
{
	keeps_its_share(&(struct abuser){.run = small_writes, .nic = "soft0"});
}

TEST(small_writes_on_another_nic)
{
	keeps_its_share(&(struct abuser){.run = small_writes, .nic = "soft1"});
}

TEST(large_writes_on_many_qps_of_the_same_nic)
{
	keeps_its_share(&(struct abuser){.run = large_writes_on_many_qps, .nic = "soft0"});
}

TEST(large_writes_on_many_qps_of_another_nic)
{
	keeps_its_share(&(struct abuser){.run = large_writes_on_many_qps, .nic = "soft1"});
}

TEST(doorbells_on_the_same_nic)
{
	keeps_its_share(&(struct abuser){.run = doorbells, .nic = "soft0"});
}

TEST(doorbells_on_another_nic)
{
	keeps_its_share(&(struct abuser){.run = doorbells, .nic = "soft1"});
}

TEST(timers_on_the_same_nic)
{
	keeps_its_share(&(struct abuser){.run = timers, .nic = "soft0", .dies = true});
}

TEST(requests_on_the_same_nic)
{
	keeps_its_share(&(struct abuser){.run = requests, .nic = "soft0"});
}

TEST(requests_on_another_nic)
{
	keeps_its_share(&(struct abuser){.run = requests, .nic = "soft1"});
}
