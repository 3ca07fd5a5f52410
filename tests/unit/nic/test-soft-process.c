/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executors in processes of their own: their start, their death, and what a daemon that goes on with their contexts waits for. The
 * contract of nic.h runs on them in test-nic-contract.
 */
#include <errno.h>
#include <pthread.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "process-lab.h"
#include "daemon/nic/soft/remote/remote-wire.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"
#include "tests/lib/child.h"
#include "tests/lib/test.h"

#define LEDGER 3u /* of the descriptors that are kept */
#define MANY_QPS 4096u /* their layout does not fit a packet */
#define MANY_REGIONS 450u /* their descriptors take three */
#define IMPORT_NSEC (2 * NSEC_PER_SEC) /* that imports wait for former processes */
#define PATIENT_NSEC (20 * NSEC_PER_SEC)

static void write_once(struct client *c, uint64_t value)
{
	client_post_inline(c, 0, value, c, 0);
	client_ring(c, 0);
	client_complete(c, 0);
}

static void open_for(struct client *c, struct nic *nic, uint64_t session_id, uint32_t uid)
{
	client_open_for(c, nic, session_id, uid, 1);
	client_connect(c, 0, c, 0);
	write_once(c, session_id);
}

static uint64_t count_wqes(struct nic *nic)
{
	struct nic_counters counters;

	ASSERT_OK(nic->ops->counters(nic, &counters));
	return counters.wqes;
}

/* ---- start and end -------------------------------------------------------------------------------------------------------- */

static unsigned int count_maps(pid_t pid, int fd)
{
	char path[64], line[512], wanted[32];
	unsigned int n = 0;
	struct stat st;
	FILE *file;

	ASSERT_OK(fstat(fd, &st));
	snprintf(wanted, sizeof(wanted), " %llu ", (unsigned long long)st.st_ino);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	file = fopen(path, "re");
	ASSERT(file);
	while (fgets(line, sizeof(line), file))
		n += strstr(line, wanted) && strstr(line, "memfd:");
	fclose(file);
	return n;
}

TEST(memory_of_clients_is_mapped_in_the_process_of_their_user_alone)
{
	struct client a, b;
	struct rig rig;

	rig_open_remote(&rig, 2, NULL);
	open_for(&a, rig.nic[0], 1, alice());
	open_for(&b, rig.nic[1], 2, bob());
	/* This process is the client, too. */
	ASSERT_EQ(count_maps(getpid(), a.mem_fd), 1u);
	ASSERT_EQ(count_maps(getpid(), a.queue_fd), 1u);
	ASSERT_EQ(count_maps(process_of(alice()), a.mem_fd), 1u);
	ASSERT_EQ(count_maps(process_of(alice()), a.queue_fd), 1u);
	ASSERT_EQ(count_maps(process_of(bob()), a.mem_fd), 0u);
	ASSERT_EQ(count_maps(process_of(bob()), b.mem_fd), 1u);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

TEST(a_user_has_one_process_for_all_nics_which_ends_a_while_after_the_last_context)
{
	struct client a, b;
	struct rig rig;
	pid_t pid;

	rig_open_remote(&rig, 2, NULL);
	client_open_for(&a, rig.nic[0], 1, alice(), 1);
	pid = process_of(alice());
	ASSERT_GT(pid, 0);
	client_open_for(&b, rig.nic[1], 2, alice(), 1);
	client_connect(&a, 0, &b, 0);
	client_exercise(&a, &b);
	client_close(&a);
	ASSERT_EQ(process_of(alice()), pid);
	client_close(&b);
	/* At once it is there still. */
	open_for(&a, rig.nic[0], 3, alice());
	ASSERT_EQ(process_of(alice()), pid);
	client_close(&a);
	expect_gone(pid);
	ASSERT_GT(count_wqes(rig.nic[0]), 2u);
	open_for(&a, rig.nic[0], 4, alice());
	ASSERT_NE(process_of(alice()), pid);
	client_close(&a);
	rig_close(&rig);
}

TEST_WAITS(sessions_that_come_while_a_process_ends_get_another_one, TEST_DEFAULT_TIMEOUT_SEC)
{
	struct client a;
	struct rig rig;

	rig_open_remote(&rig, 1, NULL);
	for (unsigned int i = 0; i < 8; i++) {
		open_for(&a, rig.nic[0], 1 + i, alice());
		client_close(&a);
		/* About when it ends. */
		nap(199 * NSEC_PER_MSEC + i * 300 * NSEC_PER_USEC);
	}
	/* The end of a process loses no counts. */
	ASSERT_EQ(count_wqes(rig.nic[0]), 8u);
	rig_close(&rig);
}

TEST(the_process_of_a_user_ends_with_the_daemon)
{
	int ends[2];
	pid_t daemon, pid = 0;

	ASSERT_OK(pipe(ends));
	daemon = fork();
	ASSERT_GE(daemon, 0);
	if (daemon == 0) {
		struct client a;
		struct rig rig;

		rig_open_remote(&rig, 1, NULL);
		open_for(&a, rig.nic[0], 1, alice());
		pid = process_of(alice());
		ASSERT_EQ(write(ends[1], &pid, sizeof(pid)), (ssize_t)sizeof(pid));
		pause();
	}
	ASSERT_EQ(read(ends[0], &pid, sizeof(pid)), (ssize_t)sizeof(pid));
	ASSERT_GT(pid, 0);
	ASSERT_OK(kill(daemon, SIGKILL));
	ASSERT_EQ(waitpid(daemon, NULL, 0), daemon);
	expect_gone(pid);
	close(ends[0]);
	close(ends[1]);
}

TEST(where_no_process_can_be_started_the_nic_serves_no_further_user)
{
	struct nic_ctx_attr attr = {.session_id = 2, .uid = bob(), .health_fd = -1};
	struct nic_ctx *ctx;
	struct client a;
	struct rig rig;
	int zygote;

	rig_open_remote(&rig, 1, NULL);
	open_for(&a, rig.nic[0], 1, alice());
	zygote = child_called(getpid(), "shmemd-zygote");
	ASSERT_OK(kill(zygote, SIGKILL));
	ASSERT_EQ(waitpid(zygote, NULL, 0), zygote);
	ASSERT_ERR(rig.nic[0]->ops->ctx_open(rig.nic[0], &attr, &ctx), EUSERS);
	write_once(&a, 1);
	client_close(&a);
	rig_close(&rig);
}

/* ---- death ----------------------------------------------------------------------------------------------------------------- */

TEST(a_process_that_dies_takes_the_contexts_of_its_user_alone)
{
	struct client a, a2, b, again;
	uint64_t seen[2] = {0}, wqes;
	struct nic_event event;
	struct nic_qp_info info;
	struct rig rig;
	pid_t pid;

	rig_open_remote(&rig, 2, NULL);
	open_for(&a, rig.nic[0], 1, alice());
	open_for(&a2, rig.nic[0], 2, alice());
	open_for(&b, rig.nic[0], 3, bob());
	wqes = count_wqes(rig.nic[0]);
	pid = process_of(alice());
	ASSERT_OK(kill(pid, SIGKILL));
	for (unsigned int i = 0; i < 2; i++) {
		wait_event(rig.nic[0], &event);
		ASSERT_EQ(event.kind, NIC_EVENT_LOST);
		seen[i] = event.session_id;
	}
	ASSERT_EQ(seen[0] + seen[1], 3u);
	expect_gone(pid);
	ASSERT_ERR(rig.nic[0]->ops->next_event(rig.nic[0], &event), EAGAIN);
	ASSERT_ERR(rig.nic[0]->ops->qp_query(a.ctx, client_qpn(&a, 0), &info), ENODEV);
	ASSERT_ERR(rig.nic[0]->ops->qp_modify(a.ctx, client_qpn(&a, 0), NIC_QPS_ERR), ENODEV);
	ASSERT_EQ(count_wqes(rig.nic[0]), wqes);
	write_once(&b, 9);
	/* The next session of that user is in another process, while the lost ones are open. */
	open_for(&again, rig.nic[0], 4, alice());
	ASSERT_NE(process_of(alice()), pid);
	client_close(&a);
	client_close(&a2);
	write_once(&again, 10);
	ASSERT_EQ(count_wqes(rig.nic[0]), wqes + 3);
	client_close(&again);
	client_close(&b);
	rig_close(&rig);
}

/* Takes the place of a process, and answers the first request rightly and the second one with nonsense. */
static void __attribute__((noreturn)) talk_nonsense(int channel)
{
	struct remote_packet packet;
	struct remote_head answer;

	ASSERT_OK(remote_recv(channel, REMOTE_FOR_EVER, &packet));
	answer = (struct remote_head){.op = packet.head.op, .seq = packet.head.seq};
	ASSERT_OK(remote_send(channel, &answer, NULL, 0, NULL, false));
	ASSERT_OK(remote_recv(channel, REMOTE_FOR_EVER, &packet));
	answer = (struct remote_head){.op = packet.head.op + 1, .seq = packet.head.seq, .bytes = UINT64_MAX};
	ASSERT_EQ(send(channel, &answer, sizeof(answer), 0), (ssize_t)sizeof(answer));
	pause();
	_exit(0);
}

static int start_nonsense(void *arg, uint32_t uid, int *ret_channel)
{
	int fds[2];
	pid_t pid;

	ASSERT_OK(remote_pair(fds));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (pid == 0)
		talk_nonsense(fds[1]);
	close(fds[1]);
	*ret_channel = fds[0];
	((pid_t *)arg)[0] = pid;
	return 0;
}

TEST(events_of_one_user_put_off_no_others)
{
	struct client alices[8], b;
	struct nic_event event;
	struct rig rig;
	bool is_bob = false;
	pid_t pid, pid_b;

	rig_open_remote(&rig, 1, NULL);
	for (unsigned int i = 0; i < 8; i++)
		open_for(&alices[i], rig.nic[0], 1 + i, alice());
	open_for(&b, rig.nic[0], 9, bob());
	pid = process_of(alice());
	pid_b = process_of(bob());
	ASSERT_OK(kill(pid, SIGKILL));
	ASSERT_OK(kill(pid_b, SIGKILL));
	expect_gone(pid);
	expect_gone(pid_b);
	/* Each context has lost its NIC; Bob's is among the first two of nine. */
	for (unsigned int i = 0; i < 9; i++) {
		wait_event(rig.nic[0], &event);
		ASSERT_EQ(event.kind, NIC_EVENT_LOST);
		is_bob |= event.session_id == 9;
		ASSERT(is_bob || i < 1);
	}
	for (unsigned int i = 0; i < 8; i++)
		client_close(&alices[i]);
	client_close(&b);
	rig_close(&rig);
}

TEST(a_process_that_answers_nonsense_counts_as_dead)
{
	pid_t pid = 0;
	const struct nic_soft_attr attr = {
		.n_nics = 1, .gpu_poll_usec = 100, .spin_usec = 20, .start_process = start_nonsense, .start_arg = &pid};
	const struct nic_ctx_attr ctx_attr = {.session_id = 1, .uid = 1, .health_fd = -1};
	struct nic_ctx *ctx;
	struct list nics;
	struct nic *nic;

	list_init(&nics);
	ASSERT_OK(nic_soft_probe(&attr, &nics));
	nic = list_first_entry(&nics, struct nic, link);
	ASSERT_ERR(nic->ops->ctx_open(nic, &ctx_attr, &ctx), ENODEV);
	nic->ops->close(nic);
	ASSERT_OK(kill(pid, SIGKILL));
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

/* ---- a process that stands still ------------------------------------------------------------------------------------------- */

/* Every thread of it, and for longer than anybody waits. */
TEST(questions_about_a_user_whose_process_stands_still_end_in_time)
{
	struct nic_counters counters;
	struct nic_qp_info info;
	uint64_t begin, first;
	struct client a, b;
	struct rig rig;
	pid_t pid;

	rig_open_remote(&rig, 1, NULL);
	open_for(&a, rig.nic[0], 1, alice());
	open_for(&b, rig.nic[0], 2, bob());
	pid = process_of(alice());
	ASSERT_EQ(count_wqes(rig.nic[0]), 2u);
	ASSERT_OK(kill(pid, SIGSTOP));
	begin = nsec_now();
	ASSERT_ERR(a.ctx->nic->ops->qp_query(a.ctx, client_qpn(&a, 0), &info), EBUSY);
	first = nsec_now() - begin;
	ASSERT_GT(first, 200 * NSEC_PER_MSEC);
	/* Once it was waited for in vain nobody waits as long again. */
	a.ctx->on_control = true;
	begin = nsec_now();
	for (unsigned int i = 0; i < 100; i++) {
		ASSERT_ERR(a.ctx->nic->ops->qp_query(a.ctx, client_qpn(&a, 0), &info), EBUSY);
		ASSERT_OK(a.ctx->nic->ops->ctx_counters(a.ctx, &counters));
		ASSERT_OK(rig.nic[0]->ops->counters(rig.nic[0], &counters));
	}
	ASSERT_OK(rig.nic[0]->ops->port_set(rig.nic[0], NIC_PORT_DOWN));
	ASSERT_OK(rig.nic[0]->ops->port_set(rig.nic[0], NIC_PORT_ACTIVE));
	ASSERT_LT(nsec_now() - begin, 2 * NSEC_PER_SEC);
	ASSERT_GE(counters.wqes, 2u);
	write_once(&b, 5);
	ASSERT_OK(kill(pid, SIGCONT));
	a.ctx->on_control = false;
	write_once(&a, 6);
	while (a.ctx->nic->ops->qp_query(a.ctx, client_qpn(&a, 0), &info) == -EBUSY)
		;
	ASSERT_EQ(info.state, NIC_QPS_RTS);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

static void *ask_patiently(void *arg)
{
	struct client *c = arg;
	struct nic_qp_info info;

	c->ctx->patience_nsec = PATIENT_NSEC;
	ASSERT_OK(c->ctx->nic->ops->qp_query(c->ctx, client_qpn(c, 0), &info));
	ASSERT_EQ(info.state, NIC_QPS_RTS);
	return NULL;
}

/* One thread waits for an answer, and this one tells something meanwhile. */
TEST(a_port_is_set_while_another_thread_waits_for_a_process_that_stands)
{
	struct nic_qp_info info;
	struct client a;
	pthread_t asker;
	struct rig rig;
	uint64_t begin;
	pid_t pid;

	rig_open_remote(&rig, 1, NULL);
	open_for(&a, rig.nic[0], 1, alice());
	pid = process_of(alice());
	ASSERT_OK(kill(pid, SIGSTOP));
	ASSERT_OK(pthread_create(&asker, NULL, ask_patiently, &a));
	nanosleep(&(struct timespec){.tv_nsec = 200 * NSEC_PER_MSEC}, NULL);
	begin = nsec_now();
	ASSERT_OK(rig.nic[0]->ops->port_set(rig.nic[0], NIC_PORT_DOWN));
	ASSERT_OK(rig.nic[0]->ops->port_set(rig.nic[0], NIC_PORT_ACTIVE));
	ASSERT_LT(nsec_now() - begin, PATIENT_NSEC / 4);
	ASSERT_OK(kill(pid, SIGCONT));
	ASSERT_OK(pthread_join(asker, NULL));
	/* Nobody takes the answers of port_set() for those to the next question. */
	ASSERT_OK(a.ctx->nic->ops->qp_query(a.ctx, client_qpn(&a, 0), &info));
	ASSERT_EQ(info.state, NIC_QPS_RTS);
	write_once(&a, 6);
	client_close(&a);
	rig_close(&rig);
}

/* ---- large requests -------------------------------------------------------------------------------------------------------- */

TEST(requests_of_any_size_arrive_whole)
{
	_Static_assert(MANY_QPS * sizeof(struct nic_qp) > REMOTE_INLINE_BYTES, "they lie in a file");
	struct nic_peer *peers = calloc(MANY_QPS, sizeof(*peers));
	unsigned int n_done = 0;
	struct client a;
	struct rig rig;

	ASSERT(peers);
	rig_open_remote(&rig, 1, NULL);
	client_open_for(&a, rig.nic[0], 1, alice(), MANY_QPS);
	for (unsigned int i = 0; i < MANY_QPS; i++)
		peers[i] = (struct nic_peer){.qpn = client_qpn(&a, i), .remote = a.queues->layout.qps[i].addr};
	ASSERT_OK(a.ctx->nic->ops->connect(a.ctx, MANY_QPS, peers, &client_params, &n_done));
	ASSERT_EQ(n_done, MANY_QPS);
	/* The second one is in RTS already. */
	ASSERT_ERR(a.ctx->nic->ops->connect(a.ctx, 2, peers, &client_params, &n_done), EINVAL);
	ASSERT_EQ(n_done, 0u);
	client_post_inline(&a, MANY_QPS - 1, 42, &a, 0);
	client_ring(&a, MANY_QPS - 1);
	client_complete(&a, MANY_QPS - 1);
	client_close(&a);
	free(peers);
	rig_close(&rig);
}

/* ---- the next daemon -------------------------------------------------------------------------------------------------------- */

/* A context that was saved, with n regions of the same memory. */
struct left {
	struct nic_saved_fds fds;
	void *record;
	size_t bytes;
	int *mr_fds;
	unsigned int n_mrs;
};

static void leave(struct client *c, unsigned int n_more, struct left *left)
{
	const struct nic_ops *ops = c->ctx->nic->ops;
	const struct nic_mr_attr attr = {
		.kind = NIC_MEM_MEMFD, .fd = c->mem_fd, .length_bytes = CLIENT_MEM_BYTES, .iova = CLIENT_IOVA, .access = NIC_ACCESS_ALL};
	struct nic_mr **mrs = calloc(n_more + 1, sizeof(struct nic_mr *));

	left->n_mrs = n_more + 1;
	left->mr_fds = calloc(left->n_mrs, sizeof(int));
	ASSERT(mrs && left->mr_fds);
	mrs[0] = c->mr;
	for (unsigned int i = 0; i < n_more; i++)
		ASSERT_OK(ops->mr_reg(c->ctx, &attr, &mrs[1 + i]));
	for (unsigned int i = 0; i < left->n_mrs; i++)
		left->mr_fds[i] = c->mem_fd;
	ASSERT_OK(ops->ctx_saved_fds(c->ctx, &left->fds));
	for (unsigned int i = 0; i < left->fds.n; i++)
		left->fds.fds[i] = fcntl(left->fds.fds[i], F_DUPFD_CLOEXEC, 3);
	ASSERT_OK(client_export_all(c->ctx, mrs, left->n_mrs, &c->queues, 1, &left->record, &left->bytes));
	free(mrs);
}

static int import(struct nic *nic, const struct client *c, const struct left *left, struct nic_imported *ret_imported)
{
	const struct nic_import_attr attr = {
		.ctx = {.session_id = 1, .uid = alice(), .health_fd = -1, .is_saved = true},
		.fds = left->fds,
		.record = left->record,
		.record_bytes = left->bytes,
		.n_queue_fds = 1,
		.queue_fds = &c->queue_fd,
		.n_mr_fds = left->n_mrs,
		.mr_fds = left->mr_fds,
	};

	return nic->ops->ctx_import(nic, &attr, ret_imported);
}

static void left_deinit(struct left *left)
{
	for (unsigned int i = 0; i < left->fds.n; i++)
		close(left->fds.fds[i]);
	free(left->record);
	free(left->mr_fds);
}

/* Whether somebody has the lock. */
static bool is_locked(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	ASSERT_OK(fcntl(fd, F_OFD_GETLK, &lock));
	return lock.l_type != F_UNLCK;
}

static void set_lock(int fd, short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET};

	ASSERT_OK(fcntl(fd, F_OFD_SETLK, &lock));
}

static void forget(struct client *c)
{
	client_swap_ctx(c->ctx, NULL);
	c->ctx->nic->ops->ctx_unimport(c->ctx);
}

static void open_kept(struct client *c, struct nic *nic)
{
	client_open_ctx_saved_for(c, nic, 1, alice());
	client_reg(c);
	client_create(c, 1, 0);
	client_connect(c, 0, c, 0);
	write_once(c, 1);
}

static void go_on(struct client *c, struct rig *rig, const struct nic_imported *imported)
{
	c->ctx = imported->ctx;
	c->mr = imported->mrs[0];
	c->queues = imported->queues[0];
	client_swap_ctx(NULL, c->ctx);
	rig->nic[0]->ops->resume(rig->nic[0]);
	write_once(c, 2);
	for (unsigned int i = 1; i < imported->n_mrs; i++)
		c->ctx->nic->ops->mr_dereg(imported->mrs[i]);
}

/* Also with more regions than a packet has room for descriptors. */
TEST(a_context_goes_on_in_the_process_of_the_next_daemon)
{
	struct nic_imported imported = {0};
	struct left left;
	struct client c;
	struct rig rig;

	rig_open_remote(&rig, 1, NULL);
	open_kept(&c, rig.nic[0]);
	leave(&c, MANY_REGIONS, &left);
	ASSERT(is_locked(left.fds.fds[LEDGER]));
	forget(&c);
	rig_close(&rig);
	rig_open_remote(&rig, 1, NULL);
	ASSERT_OK(import(rig.nic[0], &c, &left, &imported));
	ASSERT(is_locked(left.fds.fds[LEDGER]));
	ASSERT_EQ(imported.n_mrs, left.n_mrs);
	go_on(&c, &rig, &imported);
	client_close(&c);
	ASSERT(!is_locked(left.fds.fds[LEDGER]));
	nic_imported_deinit(&imported);
	left_deinit(&left);
	rig_close(&rig);
}

static void go_on_elsewhere(bool is_to_threads)
{
	struct nic_imported imported = {0};
	struct left left;
	struct client c;
	struct rig rig;

	(is_to_threads ? rig_open_remote : rig_open)(&rig, 1, NULL);
	open_kept(&c, rig.nic[0]);
	leave(&c, 0, &left);
	forget(&c);
	rig_close(&rig);
	(is_to_threads ? rig_open : rig_open_remote)(&rig, 1, NULL);
	if (is_to_threads) {
		set_lock(left.fds.fds[LEDGER], F_WRLCK);
		ASSERT_ERR(import(rig.nic[0], &c, &left, &imported), EBUSY);
		set_lock(left.fds.fds[LEDGER], F_UNLCK);
	}
	ASSERT_OK(import(rig.nic[0], &c, &left, &imported));
	go_on(&c, &rig, &imported);
	client_close(&c);
	nic_imported_deinit(&imported);
	left_deinit(&left);
	rig_close(&rig);
}

TEST_WAITS(a_context_goes_on_in_threads_once_its_process_has_died, TEST_DEFAULT_TIMEOUT_SEC)
{
	go_on_elsewhere(true);
}

TEST(a_context_of_threads_goes_on_in_a_process)
{
	go_on_elsewhere(false);
}

/* Its first descriptors are in the process by then. */
TEST(an_import_whose_descriptors_cannot_be_sent_does_not_spoil_the_next_one)
{
	struct nic_imported imported = {0};
	struct left left;
	struct client c;
	struct rig rig;

	rig_open_remote(&rig, 1, NULL);
	open_kept(&c, rig.nic[0]);
	leave(&c, 0, &left);
	forget(&c);
	rig_close(&rig);
	rig_open_remote(&rig, 1, NULL);
	left.mr_fds[0] = 1 << 20; /* nobody has so many */
	ASSERT_ERR(import(rig.nic[0], &c, &left, &imported), EBADF);
	left.mr_fds[0] = c.mem_fd;
	ASSERT_OK(import(rig.nic[0], &c, &left, &imported));
	go_on(&c, &rig, &imported);
	nic_imported_deinit(&imported);
	left_deinit(&left);
	client_close(&c);
	rig_close(&rig);
}

/* ---- no room for descriptors ----------------------------------------------------------------------------------------------- */

static struct rlimit allow_fds_below(unsigned int n_more)
{
	struct rlimit before, limit;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	ASSERT(fd >= 0);
	close(fd);
	ASSERT_OK(getrlimit(RLIMIT_NOFILE, &before));
	limit = (struct rlimit){.rlim_cur = (rlim_t)fd + n_more, .rlim_max = before.rlim_max};
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &limit));
	return before;
}

/* Two of the five descriptors of a context find room. The process has no context afterwards, so it ends after the last one. */
TEST(a_daemon_without_room_for_descriptors_refuses_a_context_and_keeps_the_others)
{
	const struct nic_ctx_attr attr = {.session_id = 2, .uid = alice(), .health_fd = -1, .is_saved = true};
	struct nic_ctx *ctx;
	struct rlimit before;
	struct client c;
	struct rig rig;
	pid_t pid;

	rig_open_remote(&rig, 1, NULL);
	open_for(&c, rig.nic[0], 1, alice());
	pid = process_of(alice());
	before = allow_fds_below(2);
	ASSERT_ERR(rig.nic[0]->ops->ctx_open(rig.nic[0], &attr, &ctx), EMFILE);
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &before));
	write_once(&c, 3);
	ASSERT_EQ(process_of(alice()), pid);
	client_close(&c);
	expect_gone(pid);
	rig_close(&rig);
}

/* Its answer lies in a file. */
TEST(a_daemon_without_room_for_a_large_answer_refuses_one_question)
{
	uint8_t buf[2 * REMOTE_INLINE_BYTES];
	struct rlimit before;
	struct client c;
	struct rig rig;
	pid_t pid;
	int r;

	rig_open_remote(&rig, 1, NULL);
	client_open_for(&c, rig.nic[0], 1, alice(), 64);
	pid = process_of(alice());
	before = allow_fds_below(0);
	do
		r = rig.nic[0]->ops->queues_read(c.queues, 0, buf, sizeof(buf));
	while (r == -EBUSY); /* the process got no CPU in time */
	ASSERT_EQ(r, -EMFILE);
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &before));
	ASSERT_OK(rig.nic[0]->ops->queues_read(c.queues, 0, buf, sizeof(buf)));
	ASSERT_EQ(process_of(alice()), pid);
	client_close(&c);
	rig_close(&rig);
}

static int create_many(struct client *c, struct nic_queues **ret_queues)
{
	_cleanup_(nic_layout_deinit) struct nic_layout layout = {0};
	struct nic_queue_mem mem = {.kind = NIC_MEM_MEMFD};
	struct nic_queues_attr attr;
	uint8_t *map;
	int r;

	client_attr(&attr, MANY_QPS, 0);
	ASSERT_OK(nic_layout_init(&layout, &attr));
	mem.length_bytes = layout.total_bytes;
	mem.fd = client_memfd(mem.length_bytes, &map);
	r = c->ctx->nic->ops->queues_create(c->ctx, &mem, &layout, ret_queues);
	munmap(map, mem.length_bytes);
	close(mem.fd);
	return r;
}

static void limit_fds_of(pid_t pid, rlim_t n)
{
	const struct rlimit limit = {.rlim_cur = n, .rlim_max = 1024};

	ASSERT_OK(prlimit(pid, RLIMIT_NOFILE, &limit, NULL));
}

/* It finds no room for the file that the request lies in, and later none for the file of its answer. */
TEST(a_process_without_room_for_descriptors_refuses_one_request_or_question)
{
	uint8_t buf[2 * REMOTE_INLINE_BYTES];
	struct nic_queues *queues;
	struct client c;
	struct rig rig;
	pid_t pid;

	rig_open_remote(&rig, 1, NULL);
	client_open_for(&c, rig.nic[0], 1, alice(), 64);
	client_connect(&c, 0, &c, 0);
	pid = process_of(alice());
	limit_fds_of(pid, 3);
	ASSERT_ERR(create_many(&c, &queues), EMFILE);
	ASSERT_ERR(rig.nic[0]->ops->queues_read(c.queues, 0, buf, sizeof(buf)), EMFILE);
	limit_fds_of(pid, 1024);
	ASSERT_OK(create_many(&c, &queues));
	ASSERT_OK(rig.nic[0]->ops->queues_destroy(queues));
	write_once(&c, 3);
	ASSERT_EQ(process_of(alice()), pid);
	client_close(&c);
	rig_close(&rig);
}

/* A process that sleeps in the kernel does not die before it wakes; here somebody else has its lock. */
TEST_WAITS(nothing_goes_on_before_the_former_process_has_died_and_a_daemon_does_not_wait_for_it_for_long, TEST_DEFAULT_TIMEOUT_SEC)
{
	struct nic_imported imported = {0};
	struct left left;
	struct client c;
	struct rig rig;
	uint64_t begin;

	rig_open_remote(&rig, 1, NULL);
	open_kept(&c, rig.nic[0]);
	leave(&c, 0, &left);
	forget(&c);
	rig_close(&rig);
	set_lock(left.fds.fds[LEDGER], F_WRLCK);
	rig_open_remote(&rig, 1, NULL);
	begin = nsec_now();
	ASSERT_ERR(import(rig.nic[0], &c, &left, &imported), EBUSY);
	ASSERT_GE(nsec_now() - begin, IMPORT_NSEC);
	/* All contexts together wait for so long. */
	begin = nsec_now();
	ASSERT_ERR(import(rig.nic[0], &c, &left, &imported), EBUSY);
	ASSERT_LT(nsec_now() - begin, IMPORT_NSEC);
	set_lock(left.fds.fds[LEDGER], F_UNLCK);
	ASSERT_OK(import(rig.nic[0], &c, &left, &imported));
	go_on(&c, &rig, &imported);
	client_close(&c);
	nic_imported_deinit(&imported);
	left_deinit(&left);
	rig_close(&rig);
}

/* SIGSTOP is not death: the daemon has gone, and its process holds the lock until it is killed. */
TEST(a_process_that_lives_holds_its_contexts_whatever_has_become_of_the_daemon)
{
	struct left left;
	struct client c;
	struct rig rig;
	pid_t pid;

	rig_open_remote(&rig, 1, NULL);
	open_kept(&c, rig.nic[0]);
	leave(&c, 0, &left);
	pid = process_of(alice());
	ASSERT_OK(kill(pid, SIGSTOP));
	ASSERT(is_locked(left.fds.fds[LEDGER]));
	ASSERT_OK(kill(pid, SIGKILL));
	expect_gone(pid);
	ASSERT(!is_locked(left.fds.fds[LEDGER]));
	client_close(&c);
	left_deinit(&left);
	rig_close(&rig);
}
