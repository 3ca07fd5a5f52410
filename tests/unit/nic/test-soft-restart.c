/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Soft NICs whose process is killed in the middle of traffic, and others that go on. The test is both clients, who go on
 * posting and polling, and keeps descriptors as a service manager does; daemons are processes of their own.
 *
 * Each message, immediate and atomic is to be seen exactly once, in order, whatever the moment.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "daemon/nic/soft/soft.h"
#include "fds.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

#define QPS 2u
#define SIDES 2u
#define RECORD_BYTES 4096u
#define N_SAVED 4u
#define DEPTH 4u /* rounds on their way at a time */
#define WQES_OF_ROUND 5u
#define RECVS_OF_ROUND 2u
#define SLOT_BYTES 2048u
#define COUNTER_OFFSET 8u /* of QP i: i * 64 further */

enum area { SOURCE, TARGET, READ_BACK, RECEIVED, RESULT, N_AREAS };
enum { MEM_FD = N_SAVED, QUEUE_FD, N_FDS };

/* A daemon's report on one client; in memory of all processes. */
struct told {
	struct nic_mr mr;
	struct nic_doorbell doorbell;
	struct nic_layout layout;
	struct nic_cq cqs[QPS];
	struct nic_qp qps[QPS];
	size_t record_bytes;
	uint8_t record[RECORD_BYTES];
};

struct side {
	struct client client;
	struct nic_ctx ctx;
	struct nic_queues queues;
	struct client_qp qps[QPS];
	int fds[N_FDS];
	/* of each QP */
	uint32_t n_sent[QPS], n_received[QPS]; /* CQEs */
};

struct world {
	struct told *told; /* of each side */
	struct side sides[SIDES];
	int sock; /* to the daemon */
	pid_t pid; /* 0: dead */
	unsigned int n_senders; /* sides: the first one, or both */
	uint32_t n_rounds; /* posted on each QP */
	unsigned int n_deaths; /* since then */
	bool over; /* a QP is in ERR; */
	bool was_told; /* and a client knows why: the outcome of an atomic is unknown */
};

/* ---- the daemons ------------------------------------------------------------------------------------------------------ */

static void tell(const struct client *c, struct told *told, int sock)
{
	const struct nic_layout *layout = &c->queues->layout;
	const struct nic_ops *ops = c->ctx->nic->ops;
	struct nic_saved_fds saved;
	int fds[N_FDS];
	void *record;

	ASSERT_OK(ops->ctx_saved_fds(c->ctx, &saved));
	ASSERT_EQ(saved.n, N_SAVED);
	ASSERT_OK(client_export(c, &record, &told->record_bytes));
	ASSERT_LE(told->record_bytes, RECORD_BYTES);
	memcpy(told->record, record, told->record_bytes);
	free(record);
	told->mr = *c->mr;
	told->doorbell = c->ctx->doorbell;
	told->layout = *layout;
	memcpy(told->cqs, layout->cqs, sizeof(told->cqs));
	memcpy(told->qps, layout->qps, sizeof(told->qps));
	memcpy(fds, saved.fds, N_SAVED * sizeof(int));
	fds[MEM_FD] = c->mem_fd;
	fds[QUEUE_FD] = c->queue_fd;
	send_fds(sock, fds, N_FDS);
}

static void first_daemon(struct world *world, struct rig *rig, int sock)
{
	struct client clients[SIDES];

	for (unsigned int s = 0; s < SIDES; s++) {
		client_open_ctx_saved(&clients[s], rig->nic[s], s + 1);
		client_reg(&clients[s]);
		client_create(&clients[s], QPS, 0);
	}
	for (unsigned int i = 0; i < QPS; i++)
		client_connect(&clients[0], i, &clients[1], i);
	for (unsigned int s = 0; s < SIDES; s++)
		tell(&clients[s], &world->told[s], sock);
}

static void next_daemon(struct world *world, struct rig *rig)
{
	for (unsigned int s = 0; s < SIDES; s++) {
		const struct told *told = &world->told[s];
		struct nic_import_attr attr = {
			.ctx = {.session_id = s + 1, .health_fd = -1, .is_saved = true},
			.fds = {.n = N_SAVED},
			.record = told->record,
			.record_bytes = told->record_bytes,
			.n_queue_fds = 1,
			.queue_fds = &world->sides[s].fds[QUEUE_FD],
			.n_mr_fds = 1,
			.mr_fds = &world->sides[s].fds[MEM_FD],
		};
		struct nic_imported imported;

		memcpy(attr.fds.fds, world->sides[s].fds, N_SAVED * sizeof(int));
		ASSERT_OK(rig->nic[s]->ops->ctx_import(rig->nic[s], &attr, &imported));
	}
	for (unsigned int s = 0; s < SIDES; s++)
		rig->nic[s]->ops->resume(rig->nic[s]);
	send_fds(world->sock, world->sides[0].fds, N_FDS);
}

/* Until it is killed: by its parent, by its fault point, or with its parent. */
static void __attribute__((noreturn)) be_daemon(struct world *world, bool is_first, const char *fault)
{
	struct rig rig;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rig_open(&rig, SIDES, fault);
	if (is_first)
		first_daemon(world, &rig, world->sock);
	else
		next_daemon(world, &rig);
	for (;;)
		pause();
}

/* Whether the daemon came as far as being ready. */
static bool daemon_start(struct world *world, bool is_first, const char *fault)
{
	struct pollfd pfd = {.events = POLLIN};
	int socks[2], fds[N_FDS];
	bool is_ready = true;

	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks));
	world->pid = fork();
	ASSERT_GE(world->pid, 0);
	if (world->pid == 0) {
		close(socks[0]);
		world->sock = socks[1];
		be_daemon(world, is_first, fault);
	}
	close(socks[1]);
	world->sock = socks[0];
	pfd.fd = world->sock;
	ASSERT_EQ(poll(&pfd, 1, 15000), 1);
	if (is_first) {
		for (unsigned int s = 0; is_ready && s < SIDES; s++)
			is_ready = receive_fds(world->sock, world->sides[s].fds, N_FDS) == N_FDS;
		return is_ready;
	}
	is_ready = receive_fds(world->sock, fds, N_FDS) == N_FDS;
	for (unsigned int i = 0; is_ready && i < N_FDS; i++)
		close(fds[i]);
	return is_ready;
}

static void daemon_kill(struct world *world)
{
	int status;

	if (!world->pid)
		return;
	kill(world->pid, SIGKILL);
	ASSERT_EQ(waitpid(world->pid, &status, 0), world->pid);
	ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	close(world->sock);
	world->pid = 0;
	world->n_deaths++;
}

/* ---- the clients ------------------------------------------------------------------------------------------------------ */

static void *map(int fd, uint64_t bytes, int prot)
{
	void *at = mmap(NULL, bytes, prot, MAP_SHARED, fd, 0);

	ASSERT(at != MAP_FAILED);
	return at;
}

static void side_init(struct side *side, struct told *told)
{
	struct client *c = &side->client;

	side->ctx.doorbell = told->doorbell;
	side->ctx.doorbell.wake_fd = side->fds[1];
	side->queues.layout = told->layout;
	side->queues.layout.cqs = told->cqs;
	side->queues.layout.qps = told->qps;
	*c = (struct client){.ctx = &side->ctx, .mr = &told->mr, .queues = &side->queues, .qps = side->qps, .n_qps = QPS};
	c->doorbell_page = map(side->fds[0], SHMD_DB_PAGE_BYTES, PROT_READ | PROT_WRITE);
	c->nic_page = map(side->fds[2], SHMD_DB_PAGE_BYTES, PROT_READ);
	c->mem = map(side->fds[MEM_FD], CLIENT_MEM_BYTES, PROT_READ | PROT_WRITE);
	c->queue_mem = map(side->fds[QUEUE_FD], told->layout.total_bytes, PROT_READ | PROT_WRITE);
}

static void side_deinit(struct side *side)
{
	const struct client *c = &side->client;

	if (!c->mem)
		return;
	munmap(c->doorbell_page, SHMD_DB_PAGE_BYTES);
	munmap((void *)(uintptr_t)c->nic_page, SHMD_DB_PAGE_BYTES);
	munmap(c->mem, CLIENT_MEM_BYTES);
	munmap(c->queue_mem, side->queues.layout.total_bytes);
	for (unsigned int i = 0; i < N_FDS; i++)
		close(side->fds[i]);
}

/* Whether there are clients: a fault point may be on the way to them. */
static bool world_open(struct world *world, unsigned int n_senders, const char *fault)
{
	memset(world, 0, sizeof(*world));
	world->n_senders = n_senders;
	world->told = mmap(NULL, SIDES * sizeof(*world->told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT(world->told != MAP_FAILED);
	if (!daemon_start(world, true, fault))
		return false;
	for (unsigned int s = 0; s < SIDES; s++)
		side_init(&world->sides[s], &world->told[s]);
	return true;
}

static void world_close(struct world *world)
{
	daemon_kill(world);
	for (unsigned int s = 0; s < SIDES; s++)
		side_deinit(&world->sides[s]);
	munmap(world->told, SIDES * sizeof(*world->told));
}

static uint64_t place(enum area area, unsigned int i, uint32_t round)
{
	return SLOT_BYTES * (1 + ((uint64_t)area * QPS + i) * DEPTH + round % DEPTH);
}

static uint8_t seed(unsigned int s, unsigned int i, uint32_t round)
{
	return (uint8_t)(round * 31 + i * 7 + s);
}

/* The requests of QP i of side s in one round. */
static void post_round(struct world *world, unsigned int s, unsigned int i, uint32_t round)
{
	struct client *c = &world->sides[s].client, *to = &world->sides[!s].client;
	uint64_t source = place(SOURCE, i, round), target = place(TARGET, i, round), value = round;

	client_fill(c, source, 1024, seed(s, i, round));
	memcpy(c->mem + source + 1024, &value, sizeof(value));
	memset(c->mem + place(READ_BACK, i, round), 0, 1024);
	client_post_write(c, i, source, to, target, 1024);
	client_post_fetch_add(c, i, place(RESULT, i, round), to, COUNTER_OFFSET + i * 64, 1);
	client_post_send(c, i, source + 1024, sizeof(value));
	client_post_write_imm(c, i, source, to, target + 1024, 512, round);
	client_post_read(c, i, place(READ_BACK, i, round), to, target, 1024);
}

static void post_recvs(struct world *world, unsigned int s, unsigned int i, uint32_t round)
{
	struct client *c = &world->sides[s].client;

	memset(c->mem + place(RECEIVED, i, round), 0, 16);
	client_post_recv(c, i, place(RECEIVED, i, round), 16);
	client_post_recv(c, i, place(RECEIVED, i, round) + 16, 16);
}

/* DEPTH rounds on every QP. */
static void post_all(struct world *world)
{
	for (unsigned int s = 0; s < world->n_senders; s++)
		for (unsigned int i = 0; i < QPS; i++)
			for (uint32_t r = 0; r < DEPTH; r++)
				post_recvs(world, !s, i, world->n_rounds + r);
	for (unsigned int s = 0; s < world->n_senders; s++) {
		for (unsigned int i = 0; i < QPS; i++) {
			for (uint32_t r = 0; r < DEPTH; r++)
				post_round(world, s, i, world->n_rounds + r);
			client_ring(&world->sides[s].client, i);
		}
	}
	world->n_rounds += DEPTH;
	world->n_deaths = 0;
}

/* The next one of its kind, or the end of two QPs since the outcome of an atomic between them is unknown. */
static void take_cqe(struct world *world, unsigned int s, unsigned int i, const struct shmd_cqe *cqe)
{
	struct side *side = &world->sides[s];
	uint8_t opcode = client_cqe_opcode(cqe);
	uint32_t n = opcode == SHMD_CQE_REQ || opcode == SHMD_CQE_REQ_ERR ? side->n_sent[i]++ : side->n_received[i]++;

	if (opcode == SHMD_CQE_REQ_ERR || opcode == SHMD_CQE_RESP_ERR) {
		world->over = true;
		if (client_cqe_syndrome(cqe) == SHMD_SYNDROME_WR_FLUSH_ERR)
			return;
		ASSERT_EQ(opcode, SHMD_CQE_REQ_ERR);
		world->was_told = true;
		/* The daemon that knew may have died before it could report: then its QP in ERR says nothing. */
		if (client_cqe_syndrome(cqe) == SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR && world->n_deaths > 1)
			return;
		ASSERT_EQ(client_cqe_syndrome(cqe), SHMD_SYNDROME_OUTCOME_UNKNOWN);
		ASSERT_EQ(n % WQES_OF_ROUND, 1u);
		return;
	}
	if (opcode == SHMD_CQE_REQ) {
		ASSERT_EQ(be16toh(cqe->wqe_counter), n & 0xffff);
		return;
	}
	ASSERT_EQ(opcode, n % RECVS_OF_ROUND ? SHMD_CQE_RESP_WRITE_IMM : SHMD_CQE_RESP_SEND);
	if (n % RECVS_OF_ROUND)
		ASSERT_EQ(be32toh(cqe->imm_inval_pkey), n / RECVS_OF_ROUND);
}

static bool is_complete(const struct world *world)
{
	for (unsigned int s = 0; s < world->n_senders; s++)
		for (unsigned int i = 0; i < QPS; i++)
			if (world->sides[s].n_sent[i] < world->n_rounds * WQES_OF_ROUND ||
			    world->sides[!s].n_received[i] < world->n_rounds * RECVS_OF_ROUND)
				return false;
	return true;
}

/* Whatever is there. */
static void take_all(struct world *world)
{
	struct shmd_cqe cqe;

	for (unsigned int s = 0; s < SIDES; s++)
		for (unsigned int i = 0; i < QPS; i++)
			while (client_poll(&world->sides[s].client, i, &cqe, 0))
				take_cqe(world, s, i, &cqe);
}

static bool has_died(struct world *world)
{
	siginfo_t info = {0};

	ASSERT_OK(waitid(P_PID, (id_t)world->pid, &info, WEXITED | WNOHANG | WNOWAIT));
	return info.si_pid == world->pid;
}

/* Until all is complete or over, or the daemon has died. */
static void run(struct world *world)
{
	uint64_t begin = nsec_now();

	for (unsigned int n = 0; !is_complete(world) && !world->was_told; n++) {
		take_all(world);
		if (n % 64 == 0 && has_died(world))
			return;
		ASSERT_LT(nsec_now() - begin, CLIENT_LIMIT_NSEC);
		sched_yield();
	}
}

static void check_round(const struct world *world, unsigned int s, unsigned int i, uint32_t round)
{
	const struct client *c = &world->sides[s].client, *to = &world->sides[!s].client;
	const uint8_t *source = c->mem + place(SOURCE, i, round), *target = to->mem + place(TARGET, i, round);

	ASSERT_MEMEQ(target, source, 1024);
	ASSERT_MEMEQ(target + 1024, source, 512);
	ASSERT_MEMEQ(c->mem + place(READ_BACK, i, round), source, 1024);
	ASSERT_EQ(client_word(to, place(RECEIVED, i, round)), round);
	/* Each once, and none in front of another. */
	ASSERT_EQ(client_word(c, place(RESULT, i, round)), round);
}

static void check(const struct world *world)
{
	for (unsigned int s = 0; s < world->n_senders; s++) {
		for (unsigned int i = 0; i < QPS; i++) {
			uint64_t counter = client_word(&world->sides[!s].client, COUNTER_OFFSET + i * 64);

			/* An unreported one was done, or not; never twice. */
			ASSERT_LE(counter, world->n_rounds);
			if (world->over)
				continue;
			ASSERT_EQ(counter, world->n_rounds);
			for (uint32_t r = world->n_rounds - DEPTH; r < world->n_rounds; r++)
				check_round(world, s, i, r);
		}
	}
}

/* ---- tests ------------------------------------------------------------------------------------------------------------ */

/* One daemon dies at the n-th passing of a step; whether it came there. */
static bool die_at(enum engine_step step, unsigned int n, bool *ret_over)
{
	struct world world;
	bool was_reached;
	char fault[64];

	snprintf(fault, sizeof(fault), "%s:%u", engine_step_name(step), n);
	/* In one direction: where both are cut at an atomic of the same connection, its end is all that either can tell. */
	if (!world_open(&world, 1, fault)) {
		world_close(&world);
		*ret_over = false;
		return true;
	}
	post_all(&world);
	run(&world);
	was_reached = has_died(&world);
	daemon_kill(&world);
	ASSERT(daemon_start(&world, false, NULL));
	run(&world);
	check(&world);
	/* And on as if nothing had been. */
	ASSERT_EQ(world.over, world.was_told);
	if (!world.over) {
		post_all(&world);
		run(&world);
		check(&world);
	}
	*ret_over = world.over;
	world_close(&world);
	return was_reached;
}

/* Traffic of connected queues with receive rings of their own. */
static bool is_on_the_way(enum engine_step step)
{
	switch (step) {
	case ENGINE_STEP_TAKE_NOTED: /* SRQs */
	case ENGINE_STEP_ERROR:
	case ENGINE_STEP_CONNECT: /* DC, as the next */
	case ENGINE_STEP_CONNECTED:
		return false;
	default:
		return true;
	}
}

static bool is_of_an_atomic(enum engine_step step)
{
	return step == ENGINE_STEP_INTENT || step == ENGINE_STEP_ATOMIC || step == ENGINE_STEP_REPLAY;
}

/*
 * The outcome is unknown only at steps of an atomic. The other NIC's thread is killed wherever it is, which may be at one of those, but
 * not time after time.
 */
static bool is_known_in_the_end(enum engine_step step, unsigned int nth)
{
	bool is_over = true;

	for (unsigned int i = 0; i < 4 && is_over; i++) {
		bool was_reached = die_at(step, nth, &is_over);

		if (nth == 1)
			ASSERT(was_reached);
	}
	return !is_over;
}

TEST_TIMEOUT(killed_between_any_two_steps_each_operation_is_done_once, 60)
{
	static const unsigned int passings[] = {1, 7, 2, 3, 20};
	unsigned int n_passings = test_is_full() ? 5 : 2;

	for (unsigned int i = 0; i < ENGINE_N_STEPS; i++) {
		enum engine_step step = (enum engine_step)i;

		for (unsigned int k = 0; k < n_passings; k++) {
			if (!is_on_the_way(step))
				continue;
			if (!is_known_in_the_end(step, passings[k]) && !is_of_an_atomic(step))
				test_fail(TEST_WHERE, "%s: the outcome of an atomic is unknown", engine_step_name(step));
		}
	}
}

static void wait_nsec(uint64_t nsec)
{
	uint64_t begin = nsec_now();

	while (nsec_now() - begin < nsec)
		;
}

TEST_TIMEOUT(killed_at_any_moment_each_operation_is_done_once, 60)
{
	unsigned int n_kills = test_is_full() ? 1000 : 15;
	struct world world;

	ASSERT(world_open(&world, SIDES, NULL));
	srand(20261123);
	while (n_kills-- > 0) {
		post_all(&world);
		wait_nsec((uint64_t)rand() % 200000);
		daemon_kill(&world);
		ASSERT(daemon_start(&world, false, NULL));
		run(&world);
		check(&world);
		if (!world.over)
			continue;
		world_close(&world);
		ASSERT(world_open(&world, SIDES, NULL));
	}
	world_close(&world);
}

/* Killed again before it has caught up. */
TEST_TIMEOUT(killed_again_and_again_each_operation_is_done_once, 60)
{
	struct world world;

	ASSERT(world_open(&world, SIDES, NULL));
	srand(20261124);
	for (unsigned int i = 0; i < 4 && !world.over; i++) {
		post_all(&world);
		for (unsigned int k = 0; k < 5; k++) {
			wait_nsec((uint64_t)rand() % 30000);
			daemon_kill(&world);
			ASSERT(daemon_start(&world, false, NULL));
		}
		run(&world);
		check(&world);
	}
	world_close(&world);
}

/* A dead thread that slept had told clients to wake it; one that was awake had told them not to. */
TEST(no_queue_waits_for_a_wake_that_died_with_its_thread)
{
	struct world world;

	ASSERT(world_open(&world, SIDES, NULL));
	post_all(&world);
	run(&world);
	check(&world);
	client_wait_asleep(&world.sides[0].client);
	daemon_kill(&world);
	post_all(&world);
	ASSERT(daemon_start(&world, false, NULL));
	run(&world);
	check(&world);
	/* Busy to the end. */
	post_all(&world);
	daemon_kill(&world);
	ASSERT(daemon_start(&world, false, NULL));
	run(&world);
	check(&world);
	world_close(&world);
}

TEST(steps_are_fault_points)
{
	struct soft_fault fault;

	for (unsigned int i = 0; i < ENGINE_N_STEPS; i++) {
		char text[64];

		snprintf(text, sizeof(text), "%s:%u", engine_step_name((enum engine_step)i), i + 1);
		ASSERT_OK(soft_fault_parse(text, &fault));
		ASSERT_EQ(fault.kind, SOFT_FAULT_ENGINE_STEP);
		ASSERT_EQ(fault.step, i);
		ASSERT_EQ(fault.nth, i + 1);
	}
	ASSERT_ERR(soft_fault_parse("engine.fetch:0", &fault), EINVAL);
	ASSERT_ERR(soft_fault_parse("engine.fetch", &fault), EINVAL);
	ASSERT_ERR(soft_fault_parse("engine.nowhere:1", &fault), EINVAL);
	ASSERT_ERR(soft_fault_parse("engine.fetc:1", &fault), EINVAL);
}
