/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon that is killed at whichever command of a session's life, and the next one, which goes on with what the last record
 * names: on a simulated ConnectX, by the backend alone. The test keeps descriptors and records as a service manager does, and the
 * next daemon asks again for what was cut, as a client does.
 *
 * Whatever was cut, the kernel has what an undisturbed life has at that place, no more and no less.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include "client.h"
#include "daemon/nic/mlx5/mlx5-bell.h"
#include "fds.h"
#include "kernel-objects.h"
#include "tests/lib/sim-nic.h"
#include "tests/lib/test.h"

#define RECORD_BYTES 8192u
#define STEPS 12u
#define REGIONS 2u
#define BATCHES 2u
#define COMMANDS_MAX 400u

static const uint64_t kinds[] = {MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_OBJECT_DEVX_UMEM, UVERBS_OBJECT_MR, UVERBS_OBJECT_AH,
				 UVERBS_OBJECT_PD, MLX5_IB_OBJECT_UAR};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

struct counts {
	int n[N_KINDS];
};

/* Written by daemons in whole: the one of `turn` is good, also when its writer is killed at the next. */
struct record {
	unsigned int n_done; /* steps */
	size_t bytes; /* 0: there is no context */
	uint8_t data[RECORD_BYTES];
};

/* In memory of all processes. */
struct heritage {
	unsigned int turn;
	struct record records[2];
	struct counts after[STEPS + 1]; /* so many steps: of an undisturbed life */
	struct client_qp qps[2]; /* the client's indexes */
	bool closes; /* the context was being closed */
};

struct life {
	struct heritage *heritage;
	enum nic_doorbell_mode mode;
	int mem_fds[REGIONS], queue_fds[BATCHES];
	uint64_t queue_bytes[BATCHES];
	int keeper; /* socket: takes the context's descriptors */
	/* The record of one daemon. */
	struct rig rig;
	struct nic_ctx *ctx;
	struct nic_mr *mrs[REGIONS];
	struct nic_queues *queues[BATCHES];
};

/* ---- what is asked for ------------------------------------------------------------------------------------------------- */

static void batch_attr(struct nic_queues_attr *attr, unsigned int i)
{
	client_attr(attr, 2, 0);
	/* With the pool of receives that DCTs demand. */
	if (i == 1)
		attr->qps[attr->n_qp_specs++] = (struct nic_qp_spec){
			.count = 1, .type = NIC_QP_DCT, .access = NIC_ACCESS_REMOTE_WRITE};
}

static void reg(struct life *life, unsigned int i)
{
	const struct nic_mr_attr attr = {.kind = NIC_MEM_MEMFD,
					 .fd = life->mem_fds[i],
					 .length_bytes = CLIENT_MEM_BYTES,
					 .iova = CLIENT_IOVA,
					 .access = NIC_ACCESS_ALL};

	ASSERT_OK(life->ctx->nic->ops->mr_reg(life->ctx, &attr, &life->mrs[i]));
}

static void create(struct life *life, unsigned int i)
{
	const struct nic_queue_mem mem = {
		.kind = NIC_MEM_MEMFD, .fd = life->queue_fds[i], .length_bytes = life->queue_bytes[i]};
	struct nic_queues_attr attr;
	struct nic_layout layout;

	batch_attr(&attr, i);
	ASSERT_OK(nic_layout_init(&layout, &attr));
	ASSERT_OK(life->ctx->nic->ops->queues_create(life->ctx, &mem, &layout, &life->queues[i]));
}

/* Each QP of the first batch with itself, in one request. */
static void connect_batch(struct life *life)
{
	const struct nic_layout *layout = &life->queues[0]->layout;
	struct nic_peer peers[2];
	unsigned int n_done = 0;

	for (unsigned int i = 0; i < 2; i++)
		peers[i] = (struct nic_peer){.qpn = layout->qps[i].qpn, .remote = layout->qps[i].addr};
	ASSERT_OK(life->ctx->nic->ops->connect(life->ctx, 2, peers, &client_params, &n_done));
	ASSERT_EQ(n_done, 2u);
}

static void destroy(struct life *life, unsigned int i)
{
	ASSERT_OK(life->ctx->nic->ops->queues_destroy(life->queues[i]));
	life->queues[i] = NULL;
}

static void dereg(struct life *life, unsigned int i)
{
	ASSERT(!life->ctx->nic->ops->mr_dereg(life->mrs[i]));
	life->mrs[i] = NULL;
}

static void send_kept(const struct life *life)
{
	struct nic_saved_fds saved;

	ASSERT_OK(life->ctx->nic->ops->ctx_saved_fds(life->ctx, &saved));
	send_fds(life->keeper, saved.fds, saved.n);
}

static void open_ctx(struct life *life)
{
	struct nic *nic = life->rig.nic[0];
	const struct nic_ctx_attr attr = {
		.session_id = 1, .doorbell = life->mode, .health_fd = -1, .is_saved = true};

	ASSERT_OK(nic->ops->ctx_open(nic, &attr, &life->ctx));
	send_kept(life);
}

static void close_ctx(struct life *life)
{
	ASSERT(!life->ctx->nic->ops->ctx_close(life->ctx));
	life->ctx = NULL;
}

/* One request of the client's each. */
static void carry_out(struct life *life, unsigned int step)
{
	switch (step) {
	case 0:
		return open_ctx(life);
	case 1:
		return reg(life, 0);
	case 2:
		return create(life, 0);
	case 3:
		return connect_batch(life);
	case 4:
		return reg(life, 1);
	case 5:
		return create(life, 1);
	case 6:
		life->ctx->nic->ops->ctx_quiesce(life->ctx, 0);
		return;
	case 7:
		return destroy(life, 0);
	case 8:
		return dereg(life, 0);
	case 9:
		return dereg(life, 1);
	case 10:
		return destroy(life, 1);
	case 11:
		return close_ctx(life);
	default:
		test_fail(TEST_WHERE, "no step %u", step);
	}
}

/* A cut one leaves something between before and after. */
static bool is_destroying(unsigned int step)
{
	return step >= 7;
}

/* ---- records ---------------------------------------------------------------------------------------------------------------- */

static const struct record *last_record(const struct heritage *heritage)
{
	return &heritage->records[__atomic_load_n(&heritage->turn, __ATOMIC_ACQUIRE) & 1];
}

static void save(struct life *life, unsigned int n_done)
{
	unsigned int turn = life->heritage->turn + 1;
	struct record *record = &life->heritage->records[turn & 1];
	void *data = NULL;

	record->bytes = 0;
	if (life->ctx)
		ASSERT_OK(client_export_all(life->ctx, life->mrs, REGIONS, life->queues, BATCHES, &data, &record->bytes));
	ASSERT_LE(record->bytes, RECORD_BYTES);
	memcpy(record->data, data ? data : "", record->bytes);
	free(data);
	record->n_done = n_done;
	__atomic_store_n(&life->heritage->turn, turn, __ATOMIC_RELEASE);
}

static struct counts count(int command_fd)
{
	struct counts counts;

	for (size_t i = 0; i < N_KINDS; i++)
		counts.n[i] = kernel_objects(command_fd, kinds[i]);
	return counts;
}

static void expect_counts(int command_fd, const struct counts *wanted, const char *when, unsigned int step)
{
	struct counts counts = count(command_fd);

	for (size_t i = 0; i < N_KINDS; i++)
		if (counts.n[i] != wanted->n[i])
			test_fail(TEST_WHERE, "%s step %u: %d of kind 0x%llx, not %d", when, step, counts.n[i],
				  (unsigned long long)kinds[i], wanted->n[i]);
}

/* ---- the first daemon --------------------------------------------------------------------------------------------------------- */

static int command_fd(const struct life *life)
{
	struct nic_saved_fds saved;

	ASSERT_OK(life->ctx->nic->ops->ctx_saved_fds(life->ctx, &saved));
	return saved.fds[0];
}

/* 0: it is not killed, and its counts are the measure. */
static void first_daemon(struct life *life, uint64_t kill_after)
{
	rig_open_mlx5(&life->rig, 1, NULL);
	sim_nic_kill_after(0, kill_after);
	for (unsigned int step = 0; step < STEPS; step++) {
		carry_out(life, step);
		save(life, step + 1);
		if (!kill_after && life->ctx)
			life->heritage->after[step + 1] = count(command_fd(life));
	}
	rig_close(&life->rig);
	exit(0);
}

/* ---- the next ------------------------------------------------------------------------------------------------------------------- */

static void take(struct life *life, const struct nic_imported *imported)
{
	/* In the order in which they were made, without those that went. */
	unsigned int n_done = last_record(life->heritage)->n_done, i = 0;

	if (n_done > 1 && n_done <= 8)
		life->mrs[0] = imported->mrs[i++];
	if (n_done > 4 && n_done <= 9)
		life->mrs[1] = imported->mrs[i++];
	ASSERT_EQ(i, imported->n_mrs);
	i = 0;
	if (n_done > 2 && n_done <= 7)
		life->queues[0] = imported->queues[i++];
	if (n_done > 5 && n_done <= 10)
		life->queues[1] = imported->queues[i++];
	ASSERT_EQ(i, imported->n_queues);
}

/* Batches in the order of the record. */
static unsigned int queue_fds(const struct life *life, unsigned int n_done, int fds[BATCHES])
{
	unsigned int n = 0;

	if (n_done > 2 && n_done <= 7)
		fds[n++] = life->queue_fds[0];
	if (n_done > 5 && n_done <= 10)
		fds[n++] = life->queue_fds[1];
	return n;
}

static int adopt(struct life *life, const struct nic_saved_fds *saved)
{
	const struct record *record = last_record(life->heritage);
	struct nic *nic = life->rig.nic[0];
	struct nic_imported imported;
	int fds[BATCHES], r;
	const struct nic_import_attr attr = {
		.ctx = {.session_id = 1, .health_fd = -1, .is_saved = true},
		.fds = *saved,
		.record = record->data,
		.record_bytes = record->bytes,
		.n_queue_fds = queue_fds(life, record->n_done, fds),
		.queue_fds = fds,
	};

	r = nic->ops->ctx_import(nic, &attr, &imported);
	if (r < 0)
		return r;
	nic->ops->resume(nic);
	life->ctx = imported.ctx;
	take(life, &imported);
	nic_imported_deinit(&imported);
	return 0;
}

static void expect_adopted(struct life *life, int fd)
{
	const struct heritage *heritage = life->heritage;
	unsigned int n_done = last_record(heritage)->n_done;
	struct counts counts = count(fd);

	if (!is_destroying(n_done))
		return expect_counts(fd, &heritage->after[n_done], "after", n_done - 1);
	/* Something of it may have gone, and nothing else has. */
	for (size_t i = 0; i < N_KINDS; i++) {
		ASSERT_LE(counts.n[i], heritage->after[n_done].n[i]);
		ASSERT_GE(counts.n[i], heritage->after[n_done + 1].n[i]);
	}
}

static void *map(int fd, uint64_t bytes, uint64_t offset)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

	ASSERT(at != MAP_FAILED);
	return at;
}

/* The client's side, of descriptors that it has since the first daemon gave them. */
static void client_init(struct client *c, struct life *life)
{
	const struct nic_doorbell *doorbell = &life->ctx->doorbell;
	void *page;

	*c = (struct client){.ctx = life->ctx, .mr = life->mrs[0], .queues = life->queues[0], .qps = life->heritage->qps,
			     .n_qps = 2};
	c->mem = map(life->mem_fds[0], CLIENT_MEM_BYTES, 0);
	c->queue_mem = map(life->queue_fds[0], life->queue_bytes[0], 0);
	c->doorbell_page = map(doorbell->page_fd, SHMD_DB_PAGE_BYTES, doorbell->page_offset);
	if (life->mode != NIC_DOORBELL_CPU)
		return;
	page = mmap(NULL, SHMD_DB_PAGE_BYTES, PROT_READ, MAP_SHARED, doorbell->nic_page_fd, 0);
	ASSERT(page != MAP_FAILED);
	c->nic_page = page;
}

static void client_deinit(struct client *c, struct life *life)
{
	munmap(c->mem, CLIENT_MEM_BYTES);
	munmap(c->queue_mem, life->queue_bytes[0]);
	munmap(c->doorbell_page, SHMD_DB_PAGE_BYTES);
	if (c->nic_page)
		munmap((void *)(uintptr_t)c->nic_page, SHMD_DB_PAGE_BYTES);
}

static void use(struct life *life)
{
	struct client c;

	client_init(&c, life);
	client_exercise(&c, &c);
	client_post_inline(&c, 1, 4711, &c, 64);
	client_ring(&c, 1);
	client_complete(&c, 1);
	ASSERT_EQ(client_word(&c, 64), 4711u);
	client_deinit(&c, life);
}

static void go_on(struct life *life, int fd)
{
	unsigned int first = last_record(life->heritage)->n_done;

	for (unsigned int step = first; step < STEPS; step++) {
		/* Not where some of the QPs may be in ERR already. */
		if (step == 4 || (step == 6 && first < 6))
			use(life);
		carry_out(life, step);
		save(life, step + 1);
		if (step + 1 < STEPS)
			expect_counts(fd, &life->heritage->after[step + 1], "redone", step);
	}
}

static void next_daemon(struct life *life, const struct nic_saved_fds *saved)
{
	int r;

	rig_open_mlx5(&life->rig, 1, NULL);
	r = adopt(life, saved);
	if (r == -ENOENT) {
		/* Only the context's own end leads there. */
		ASSERT_EQ(last_record(life->heritage)->n_done, STEPS - 1);
		life->heritage->closes = true;
	} else {
		ASSERT_OK(r);
		expect_adopted(life, saved->fds[0]);
		go_on(life, saved->fds[0]);
	}
	rig_close(&life->rig);
	exit(0);
}

/* ---- a daemon that kills itself ------------------------------------------------------------------------------------------------ */

/* As one that took a doorbell word and was killed before it rang the NIC. */
static void daemon_that_hears_and_dies(struct life *life)
{
	struct client c;

	rig_open_mlx5(&life->rig, 1, NULL);
	for (unsigned int step = 0; step < 4; step++) {
		carry_out(life, step);
		save(life, step + 1);
	}
	client_init(&c, life);
	client_post_inline(&c, 0, 1234, &c, 128);
	client_publish(&c, 0);
	raise(SIGKILL);
}

/* A mapping in place of the doorbell page could be truncated under it. */
static void expect_file_refused(struct life *life, struct nic_saved_fds saved)
{
	char path[] = "/tmp/test-mlx5-restart-XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC);

	ASSERT(fd >= 0);
	ASSERT_OK(unlink(path));
	ASSERT_OK(ftruncate(fd, SHMD_DB_PAGE_BYTES));
	saved.fds[MLX5_SAVED_PAGE] = fd;
	ASSERT_ERR(adopt(life, &saved), EBADF);
	close(fd);
}

static void daemon_that_hears_on(struct life *life, const struct nic_saved_fds *saved)
{
	struct stat before, now;
	struct client c;

	rig_open_mlx5(&life->rig, 1, NULL);
	expect_file_refused(life, *saved);
	ASSERT_OK(adopt(life, saved));
	client_init(&c, life);
	client_complete(&c, 0);
	ASSERT_EQ(client_word(&c, 128), 1234u);
	client_deinit(&c, life);
	/* The page that clients look at whether to wake is the one of before, and they cannot write there. */
	ASSERT_OK(fstat(saved->fds[MLX5_SAVED_NIC_PAGE], &before));
	ASSERT_OK(fstat(life->ctx->doorbell.nic_page_fd, &now));
	ASSERT_EQ(now.st_ino, before.st_ino);
	ASSERT(mmap(NULL, SHMD_DB_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, life->ctx->doorbell.nic_page_fd, 0) ==
	       MAP_FAILED);
	use(life);
	go_on(life, saved->fds[0]);
	rig_close(&life->rig);
	exit(0);
}

/* Contexts in advance, one of which is handed out with a batch that is not taken yet. */
static void daemon_with_a_pool(struct life *life)
{
	struct nic_ctx_pool_attr attr = {.n_ctxs = 3};
	struct nic *nic;

	rig_open_mlx5(&life->rig, 1, NULL);
	nic = life->rig.nic[0];
	client_attr(&attr.queues, 2, 0);
	ASSERT_OK(nic->ops->ctx_pool_set(nic, &attr));
	while (nic->ops->ctx_pool_step(nic) == 0)
		;
	open_ctx(life);
	ASSERT_EQ(kernel_objects(command_fd(life), MLX5_IB_OBJECT_DEVX_UMEM), 1);
	save(life, 1);
	raise(SIGKILL);
}

static void daemon_after_a_pool(struct life *life, const struct nic_saved_fds *saved)
{
	rig_open_mlx5(&life->rig, 1, NULL);
	ASSERT_OK(adopt(life, saved));
	expect_counts(saved->fds[0], &life->heritage->after[1], "after", 0);
	go_on(life, saved->fds[0]);
	rig_close(&life->rig);
	exit(0);
}

/* ---- the keeper -------------------------------------------------------------------------------------------------------------------- */

static void life_init(struct life *life, enum nic_doorbell_mode mode)
{
	struct nic_queues_attr attr;
	struct nic_layout layout;
	uint8_t *at;

	memset(life, 0, sizeof(*life));
	life->mode = mode;
	life->heritage = mmap(NULL, sizeof(*life->heritage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT(life->heritage != MAP_FAILED);
	for (unsigned int i = 0; i < REGIONS; i++) {
		life->mem_fds[i] = client_memfd(CLIENT_MEM_BYTES, &at);
		munmap(at, CLIENT_MEM_BYTES);
	}
	for (unsigned int i = 0; i < BATCHES; i++) {
		batch_attr(&attr, i);
		ASSERT_OK(nic_layout_init(&layout, &attr));
		life->queue_bytes[i] = layout.total_bytes;
		life->queue_fds[i] = client_memfd(layout.total_bytes, &at);
		munmap(at, layout.total_bytes);
		nic_layout_deinit(&layout);
	}
}

static void life_deinit(struct life *life)
{
	munmap(life->heritage, sizeof(*life->heritage));
	for (unsigned int i = 0; i < REGIONS; i++)
		close(life->mem_fds[i]);
	for (unsigned int i = 0; i < BATCHES; i++)
		close(life->queue_fds[i]);
}

static uint64_t kill_first_after;

static void first_daemon_to_be_killed(struct life *life)
{
	first_daemon(life, kill_first_after);
}

/* Returns how it ended: 0 or SIGKILL. */
static int run(struct life *life, void (*daemon)(struct life *life), struct nic_saved_fds *ret_saved)
{
	int pair[2], status;
	pid_t pid;

	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (pid == 0) {
		close(pair[0]);
		life->keeper = pair[1];
		daemon(life);
	}
	close(pair[1]);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	sim_nic_kill_after(0, 0);
	/* The daemon's messages before it ended; its end of the socket is gone with it. */
	ret_saved->n = receive_fds(pair[0], ret_saved->fds, NIC_SAVED_FDS);
	close(pair[0]);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return SIGKILL;
	ASSERT_EQ(status, 0);
	return 0;
}

static int run_first(struct life *life, uint64_t kill_after, struct nic_saved_fds *ret_saved)
{
	kill_first_after = kill_after;
	return run(life, first_daemon_to_be_killed, ret_saved);
}

static void run_next(struct life *life, void (*daemon)(struct life *life, const struct nic_saved_fds *saved),
		     const struct nic_saved_fds *saved)
{
	int status;
	pid_t pid = fork();

	ASSERT_GE(pid, 0);
	if (pid == 0)
		daemon(life, saved);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
}

static void expect_nothing_left(const struct nic_saved_fds *saved)
{
	struct counts counts = count(saved->fds[0]);

	/* But libmlx5's own page, of a process that was killed after the last look. */
	for (size_t i = 0; kinds[i] != MLX5_IB_OBJECT_UAR; i++)
		ASSERT_EQ(counts.n[i], 0);
}

static void let_go(struct life *life, struct nic_saved_fds *saved)
{
	for (unsigned int i = 0; i < saved->n; i++)
		close(saved->fds[i]);
	life_deinit(life);
	sim_nic_wait_contexts(0, 0);
}

/* False: the daemon lived to its end. */
static bool live_and_die(enum nic_doorbell_mode mode, const struct heritage *measure, uint64_t kill_after, unsigned int *n_closing)
{
	struct nic_saved_fds saved;
	struct life life;
	bool was_killed;

	life_init(&life, mode);
	memcpy(life.heritage->after, measure->after, sizeof(measure->after));
	was_killed = run_first(&life, kill_after, &saved) == SIGKILL;
	if (was_killed && last_record(life.heritage)->n_done > 0 && last_record(life.heritage)->n_done < STEPS) {
		ASSERT_GT(saved.n, 0u);
		run_next(&life, next_daemon, &saved);
		*n_closing += life.heritage->closes;
	}
	if (saved.n && last_record(life.heritage)->n_done > 0)
		expect_nothing_left(&saved);
	let_go(&life, &saved);
	return was_killed;
}

static void measure_life(struct life *measure, enum nic_doorbell_mode mode)
{
	struct nic_saved_fds saved;

	life_init(measure, mode);
	ASSERT_EQ(run_first(measure, 0, &saved), 0);
	expect_nothing_left(&saved);
	for (unsigned int i = 0; i < saved.n; i++)
		close(saved.fds[i]);
}

/* At each command, or every so many. */
static void kill_everywhere(enum nic_doorbell_mode mode, unsigned int every)
{
	unsigned int n_killed = 0, n_closing = 0;
	struct life measure;
	uint64_t n = 1;

	measure_life(&measure, mode);
	while (live_and_die(mode, measure.heritage, n, &n_closing)) {
		ASSERT_LT(n, COMMANDS_MAX);
		n_killed++;
		n += every;
	}
	/* Opening, making and connecting, destroying, closing: none of it is few commands. */
	ASSERT_GT(n_killed * every, 30u);
	ASSERT(every > 1 || n_closing > 0);
	life_deinit(&measure);
}

TEST_TIMEOUT(killed_at_a_command_the_next_one_has_what_is_asked_for_and_nothing_else, 60)
{
	kill_everywhere(NIC_DOORBELL_UAR_MMAP, test_is_full() ? 1 : 3);
}

TEST_TIMEOUT(killed_at_a_command_in_mode_cpu_the_next_one_hears_on, 60)
{
	if (!MLX5_HAS_BELL)
		test_skip("a NIC is not rung by a thread on this machine");
	kill_everywhere(NIC_DOORBELL_CPU, test_is_full() ? 1 : 7);
}

/* The daemon is killed by itself, in `mode`, and the next one finds what it left. */
static void live_twice(enum nic_doorbell_mode mode, void (*first)(struct life *life),
		       void (*next)(struct life *life, const struct nic_saved_fds *saved))
{
	struct life measure, life;
	struct nic_saved_fds saved;

	measure_life(&measure, mode);
	sim_nic_wait_contexts(0, 0);
	life_init(&life, mode);
	memcpy(life.heritage, measure.heritage, sizeof(*life.heritage));
	life.heritage->turn = 0;
	ASSERT_EQ(run(&life, first, &saved), SIGKILL);
	/* An object without an owner was the process's own. */
	sim_nic_wait_contexts(0, 1);
	run_next(&life, next, &saved);
	expect_nothing_left(&saved);
	let_go(&life, &saved);
	life_deinit(&measure);
}

TEST(a_doorbell_that_was_heard_and_not_rung_is_rung_by_the_next)
{
	if (!MLX5_HAS_BELL)
		test_skip("a NIC is not rung by a thread on this machine");
	live_twice(NIC_DOORBELL_CPU, daemon_that_hears_and_dies, daemon_that_hears_on);
}

TEST(pooled_contexts_end_with_their_daemon_and_a_pooled_batch_at_the_import)
{
	live_twice(NIC_DOORBELL_UAR_MMAP, daemon_with_a_pool, daemon_after_a_pool);
}
