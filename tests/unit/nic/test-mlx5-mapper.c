/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that map the memory of clients, one for each user: their end, and what it does to others. On simulated NICs. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/nic/mlx5/mlx5-bell.h"
#include "daemon/nic/mlx5/mlx5-mapper.h"
#include "daemon/nic/mlx5/mlx5.h"
#include "proto/base/nsec.h"
#include "tests/lib/sim-nic.h"
#include "tests/lib/test.h"
#include "tests/unit/nic/client.h"

#define ALICE 1001u
#define BOB 1002u

/* The parent of a process, if it has this name. */
static pid_t parent_if_named(pid_t pid, const char *name)
{
	char path[64], is[64] = "";
	int parent = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%*d (%63[^)]) %*c %d", is, &parent) != 2 || (name && strcmp(is, name) != 0))
		parent = 0;
	fclose(file);
	return parent;
}

/* The mappers of this user that work for this process. Returns how many, and one of them. */
static unsigned int find_mappers(uint32_t uid, pid_t *ret_pid)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	unsigned int n = 0;
	char name[32];

	ASSERT(dir);
	snprintf(name, sizeof(name), "mapper %u", uid);
	while ((entry = readdir(dir))) {
		pid_t pid = atoi(entry->d_name), zygote = pid > 0 ? parent_if_named(pid, name) : 0;

		if (zygote <= 0 || parent_if_named(zygote, NULL) != getpid())
			continue;
		*ret_pid = pid;
		n++;
	}
	closedir(dir);
	return n;
}

static void kill_mapper(uint32_t uid)
{
	pid_t pid = 0;

	ASSERT_EQ(find_mappers(uid, &pid), 1u);
	ASSERT_OK(kill(pid, SIGKILL));
}

static void wait_for_no_mapper(uint32_t uid)
{
	uint64_t end = nsec_now() + CLIENT_LIMIT_NSEC;
	pid_t pid;

	while (find_mappers(uid, &pid) > 0) {
		ASSERT_LT(nsec_now(), end);
		usleep(1000);
	}
}

static void rig_start(struct rig *rig)
{
	setenv("SHMEMD_TEST_EXECUTORS", "process", 1);
	rig_open_mlx5(rig, 1, NULL);
}

static void await_event(struct nic *nic, enum nic_event_kind kind, uint64_t session)
{
	uint64_t end = nsec_now() + CLIENT_LIMIT_NSEC;
	struct nic_event event;

	for (;;) {
		int r = client_next_event(nic, &event);

		if (r == 0 && event.kind == kind) {
			ASSERT_EQ(event.session_id, session);
			return;
		}
		ASSERT_LT(nsec_now(), end);
		usleep(1000);
	}
}

static void write_one(struct client *c, uint64_t value)
{
	client_post_inline(c, 0, value, c, 0);
	client_publish(c, 0);
	client_ring(c, 0);
	client_complete(c, 0);
	ASSERT_EQ(client_word(c, 0), value);
}

TEST(each_user_has_one_mapper_which_ends_with_the_last_context)
{
	struct client alice, again, bob;
	struct rig rig;
	pid_t pid;

	rig_start(&rig);
	client_open_for(&alice, rig.nic[0], 1, ALICE, 1);
	client_open_for(&again, rig.nic[0], 2, ALICE, 1);
	client_open_for(&bob, rig.nic[0], 3, BOB, 1);
	ASSERT_EQ(find_mappers(ALICE, &pid), 1u);
	ASSERT_EQ(find_mappers(BOB, &pid), 1u);
	client_close(&alice);
	ASSERT_EQ(find_mappers(ALICE, &pid), 1u);
	client_close(&again);
	wait_for_no_mapper(ALICE);
	client_close(&bob);
	wait_for_no_mapper(BOB);
	rig_close(&rig);
}

TEST(mapper_that_dies_takes_no_queue_with_it_that_its_client_rings)
{
	struct nic_mr_attr attr = {
		.kind = NIC_MEM_MEMFD, .length_bytes = CLIENT_MEM_BYTES, .iova = CLIENT_IOVA, .access = NIC_ACCESS_LOCAL_WRITE};
	struct client alice;
	struct nic_mr *mr;
	struct rig rig;
	uint8_t byte;
	pid_t pid;

	rig_start(&rig);
	client_open_for(&alice, rig.nic[0], 1, ALICE, 2);
	client_connect(&alice, 0, &alice, 1);
	write_one(&alice, 1);
	ASSERT_OK(rig.nic[0]->ops->queues_read(alice.queues, 0, &byte, 1));
	kill_mapper(ALICE);
	wait_for_no_mapper(ALICE);
	write_one(&alice, 2);
	ASSERT_ERR(rig.nic[0]->ops->queues_read(alice.queues, 0, &byte, 1), EOPNOTSUPP);
	/* New memory gets another mapper. */
	attr.fd = alice.mem_fd;
	ASSERT_OK(rig.nic[0]->ops->mr_reg(alice.ctx, &attr, &mr));
	ASSERT_EQ(find_mappers(ALICE, &pid), 1u);
	ASSERT(!rig.nic[0]->ops->mr_dereg(mr));
	write_one(&alice, 3);
	client_close(&alice);
	wait_for_no_mapper(ALICE);
	rig_close(&rig);
}

TEST(mapper_that_dies_loses_the_sessions_for_which_it_rang)
{
	struct client alice, bob;
	struct rig rig;

	rig_start(&rig);
	if (!MLX5_HAS_BELL) {
		rig_close(&rig);
		test_skip("no doorbell mode cpu on this machine");
	}
	client_open_ctx_as(&alice, rig.nic[0], 1, NIC_DOORBELL_CPU);
	client_reg(&alice);
	client_create(&alice, 2, 0);
	client_connect(&alice, 0, &alice, 1);
	client_open_for(&bob, rig.nic[0], 2, BOB, 2);
	client_connect(&bob, 0, &bob, 1);
	write_one(&alice, 1);
	write_one(&bob, 1);
	kill_mapper(0);
	await_event(rig.nic[0], NIC_EVENT_LOST, 1);
	write_one(&bob, 2);
	client_close(&alice);
	write_one(&bob, 3);
	client_close(&bob);
	rig_close(&rig);
}

/* Its keys must end with it, whatever keeps another mapper from starting. */
TEST(region_whose_mapper_has_died_is_destroyed_when_no_other_can_start)
{
	struct client alice;
	struct nic_mr *mr;
	struct rig rig;
	int zygote;

	rig_start(&rig);
	client_open_ctx_for(&alice, rig.nic[0], 1, ALICE);
	client_reg(&alice);
	kill_mapper(ALICE);
	wait_for_no_mapper(ALICE);
	zygote = rig.zygote;
	rig.zygote = -1;
	mr = rig.nic[0]->ops->mr_dereg(alice.mr);
	rig.zygote = zygote;
	ASSERT(!mr);
	munmap(alice.mem, CLIENT_MEM_BYTES);
	close(alice.mem_fd);
	/* A context in which an object cannot be destroyed gets no more. */
	client_reg(&alice);
	client_close(&alice);
	rig_close(&rig);
}

/* ---- death within a request ---------------------------------------------------------------------------------------------- */

#define N_DEATHS 100u
#define DEATH_USEC_MAX 400u /* about as long as the requests take */

struct killer {
	pthread_t thread;
	uint32_t uid;
	useconds_t usec;
};

static void *kill_later(void *arg)
{
	const struct killer *killer = arg;
	pid_t pid = 0;

	if (find_mappers(killer->uid, &pid) > 0) {
		usleep(killer->usec);
		kill(pid, SIGKILL);
	}
	return NULL;
}

static void destroy_queues(struct client *c)
{
	uint64_t bytes = c->queues->layout.total_bytes;

	ASSERT_OK(c->ctx->nic->ops->queues_destroy(c->queues));
	munmap(c->queue_mem, bytes);
	close(c->queue_fd);
	free(c->qps);
	c->qps = NULL;
	c->queues = NULL;
}

/* A region and a batch come and go meanwhile. Every request succeeds: the daemon repeats what a mapper has not answered. */
static void live_while_the_mapper_dies(struct client *alice, unsigned int i)
{
	struct nic_mr_attr attr = {.kind = NIC_MEM_MEMFD, .fd = alice->mem_fd, .length_bytes = CLIENT_MEM_BYTES,
				   .iova = CLIENT_IOVA, .access = NIC_ACCESS_LOCAL_WRITE};
	struct killer killer = {.uid = ALICE, .usec = i * (DEATH_USEC_MAX / N_DEATHS)};
	const struct nic_ops *ops = alice->ctx->nic->ops;
	struct nic_mr *mr;

	/* Even ones by the clock; odd ones when the kernel has done what the first request, or the second one, was for. */
	if (i % 2)
		sim_nic_kill_sender_after(0, i % 4 == 1 ? 1 : 2);
	else
		ASSERT_OK(-pthread_create(&killer.thread, NULL, kill_later, &killer));
	ASSERT_OK(ops->mr_reg(alice->ctx, &attr, &mr));
	ASSERT(!ops->mr_dereg(mr));
	if (i % 2)
		ASSERT(sim_nic_kill_over(0));
	client_create(alice, 1, 0);
	destroy_queues(alice);
	if (i % 2 == 0)
		ASSERT_OK(-pthread_join(killer.thread, NULL));
}

TEST_TIMEOUT(mapper_that_dies_within_a_request_leaves_nothing, 120)
{
	struct client alice, bob;
	uint64_t n_objects;
	struct rig rig;

	rig_start(&rig);
	client_open_ctx_for(&alice, rig.nic[0], 1, ALICE);
	client_reg(&alice);
	client_open_for(&bob, rig.nic[0], 2, BOB, 2);
	client_connect(&bob, 0, &bob, 1);
	n_objects = sim_nic_objects(0);
	for (unsigned int i = 0; i < N_DEATHS; i++) {
		live_while_the_mapper_dies(&alice, i);
		ASSERT_EQ(sim_nic_objects(0), n_objects);
		write_one(&bob, i);
	}
	client_close(&bob);
	client_close(&alice);
	rig_close(&rig);
}

/* The region's record does not tell what memory it has: so a mapper unpins it, not the daemon that has taken it over. */
TEST(regions_of_a_former_daemon_are_destroyed_by_a_mapper)
{
	struct nic_import_attr attr = {.ctx = {.session_id = 2, .uid = ALICE, .health_fd = -1}, .shared = true};
	struct nic_imported imported;
	const struct nic_ops *ops;
	struct client alice;
	struct rig rig;
	void *record;
	pid_t pid;

	rig_start(&rig);
	ops = rig.nic[0]->ops;
	client_open_ctx_for(&alice, rig.nic[0], 1, ALICE);
	client_reg(&alice);
	ASSERT_OK(client_export(&alice, &record, &attr.record_bytes));
	ASSERT_OK(ops->ctx_saved_fds(alice.ctx, &attr.fds));
	attr.fds.fds[0] = fcntl(attr.fds.fds[0], F_DUPFD_CLOEXEC, 3);
	ASSERT_GE(attr.fds.fds[0], 0);
	attr.record = record;
	client_swap_ctx(alice.ctx, NULL);
	ASSERT(!ops->ctx_unimport(alice.ctx));
	wait_for_no_mapper(ALICE);
	ASSERT_OK(ops->ctx_import(rig.nic[0], &attr, &imported));
	ASSERT_EQ(imported.n_mrs, 1u);
	ASSERT_EQ(find_mappers(ALICE, &pid), 0u);
	ASSERT(!ops->mr_dereg(imported.mrs[0]));
	ASSERT_EQ(find_mappers(ALICE, &pid), 1u);
	ASSERT(!ops->ctx_close(imported.ctx));
	wait_for_no_mapper(ALICE);
	nic_imported_deinit(&imported);
	munmap(alice.doorbell_page, SHMD_DB_PAGE_BYTES);
	munmap(alice.mem, CLIENT_MEM_BYTES);
	close(attr.fds.fds[0]);
	close(alice.mem_fd);
	free(record);
	rig_close(&rig);
}

/* A packet of no bytes is the end of the channel to its reader, whatever descriptors it has. */
TEST(descriptors_without_bytes_are_closed)
{
	struct mapper_fds fds = {.n = 1}, got;
	int ends[2], socks[2];
	size_t bytes;
	uint64_t word;

	ASSERT_OK(pipe2(ends, O_CLOEXEC | O_NONBLOCK));
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks));
	fds.fds[0] = ends[1];
	ASSERT_OK(mapper_send(socks[0], &word, 0, &fds));
	close(ends[1]);
	ASSERT_ERR(mapper_recv(socks[1], &word, sizeof(word), &bytes, &got), EPIPE);
	/* Nobody has the writing end any more. */
	ASSERT_EQ(read(ends[0], &word, 1), 0);
	close(ends[0]);
	close(socks[0]);
	close(socks[1]);
}

/* Ancillary data are padded: where three descriptors find room four do. */
TEST(packet_with_a_descriptor_too_many_is_refused)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE((MAPPER_MAX_FDS + 1) * sizeof(int))] = {0};
	struct iovec iov = {.iov_base = (char[1]){0}, .iov_len = 1};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&header);
	int ends[2], socks[2], fds[MAPPER_MAX_FDS + 1];
	struct mapper_fds got;
	size_t bytes;
	char byte;

	if (test_emulator())
		test_skip("qemu-user leaks descriptors when ancillary data is cut off");
	ASSERT_OK(pipe2(ends, O_CLOEXEC | O_NONBLOCK));
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks));
	for (unsigned int i = 0; i <= MAPPER_MAX_FDS; i++)
		fds[i] = ends[1];
	*c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(fds)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(c), fds, sizeof(fds));
	ASSERT_EQ(sendmsg(socks[0], &header, 0), 1);
	close(ends[1]);
	ASSERT_ERR(mapper_recv(socks[1], &byte, sizeof(byte), &bytes, &got), EMFILE);
	ASSERT_EQ(read(ends[0], &byte, 1), 0);
	close(ends[0]);
	close(socks[0]);
	close(socks[1]);
}

/* ---- a mapper that somebody else has taken over --------------------------------------------------------------------------- */

struct taken_over {
	bool is_running;
	pthread_t thread;
	int sock; /* the thread's */
	enum mapper_op sends_with; /* answers of this kind have a descriptor; 0: none has */
	int sends_fd;
	uint32_t handle; /* of all answers */
	unsigned int n_destroyed; /* regions */
	unsigned int n_deaths; /* at so many more of them it dies */
	unsigned int n_refused; /* contexts, for which it has no memory */
};

/* All that it is asked for it has done, and everything has the same number, mostly 0. */
static void *answer_nothing(void *arg)
{
	struct taken_over *mapper = arg;
	const struct mapper_fds one = {.n = 1, .fds = {mapper->sends_fd}};
	struct mapper_fds fds;
	struct mapper_request request;
	struct mapper_answer answer;
	size_t bytes;

	memset(&answer, 0, sizeof(answer));
	while (mapper_recv(mapper->sock, &request, sizeof(request), &bytes, &fds) == 0) {
		mapper_fds_close(&fds);
		mapper->n_destroyed += request.op == MAPPER_DESTROY && request.kind == MLX5_OBJECT_MR;
		if (request.op == MAPPER_DESTROY && mapper->n_deaths > 0) {
			mapper->n_deaths--;
			break;
		}
		answer.result = request.op == MAPPER_CTX_ADD && mapper->n_refused > 0 ? -ENOMEM : 0;
		mapper->n_refused -= answer.result < 0;
		answer.handle = __atomic_load_n(&mapper->handle, __ATOMIC_RELAXED);
		mapper_send(mapper->sock, &answer, mapper_answer_bytes(&request),
			    request.op == mapper->sends_with ? &one : NULL);
	}
	close(mapper->sock);
	return NULL;
}

/* The daemon has let go of it. */
static void join(struct taken_over *mapper)
{
	if (mapper->is_running)
		ASSERT_OK(-pthread_join(mapper->thread, NULL));
	mapper->is_running = false;
}

static int start_taken_over(void *arg, uint32_t uid, int *ret_channel)
{
	struct taken_over *mapper = arg;
	int socks[2];

	(void)uid;
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks));
	join(mapper);
	mapper->sock = socks[1];
	mapper->is_running = true;
	ASSERT_OK(-pthread_create(&mapper->thread, NULL, answer_nothing, mapper));
	*ret_channel = socks[0];
	return 0;
}

static struct nic *probe_with(struct taken_over *mapper)
{
	const struct nic_mlx5_attr attr = {.start_process = start_taken_over, .start_arg = mapper};
	struct nic_mlx5_report report;
	struct list nics;

	list_init(&nics);
	ASSERT_OK(nic_mlx5_probe(&attr, &nics, &report));
	return list_first_entry(&nics, struct nic, link);
}

TEST(doorbell_page_without_a_number_is_refused)
{
	const struct nic_ctx_attr of = {.session_id = 1, .uid = ALICE, .doorbell = NIC_DOORBELL_CPU, .health_fd = -1};
	struct taken_over mapper = {.sock = -1};
	struct nic_ctx *ctx;
	struct nic *nic;

	if (!MLX5_HAS_BELL)
		test_skip("no doorbell mode cpu on this machine");
	nic = probe_with(&mapper);
	ASSERT_ERR(nic->ops->ctx_open(nic, &of, &ctx), EIO);
	join(&mapper);
	ASSERT(!nic->ops->close(nic));
}

/* The daemon would keep it, hand it to clients, and close it last. The mapper that sends one has died for the daemon. */
TEST(answer_with_a_descriptor_is_refused)
{
	const struct nic_ctx_attr of = {.session_id = 1, .uid = ALICE, .health_fd = -1};
	struct nic_mr_attr region = {
		.kind = NIC_MEM_MEMFD, .length_bytes = CLIENT_MEM_BYTES, .iova = CLIENT_IOVA, .access = NIC_ACCESS_LOCAL_WRITE};
	struct taken_over mapper = {.sock = -1, .sends_with = MAPPER_REG};
	struct nic_ctx *ctx;
	struct nic_mr *mr;
	struct nic *nic;
	int ends[2];
	char byte;

	ASSERT_OK(pipe2(ends, O_CLOEXEC | O_NONBLOCK));
	mapper.sends_fd = ends[1];
	nic = probe_with(&mapper);
	ASSERT_OK(nic->ops->ctx_open(nic, &of, &ctx));
	region.fd = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ASSERT_GE(region.fd, 0);
	ASSERT_LT(nic->ops->mr_reg(ctx, &region, &mr), 0);
	close(ends[1]);
	ASSERT(!nic->ops->ctx_close(ctx));
	join(&mapper);
	ASSERT(!nic->ops->close(nic));
	/* Nobody has it. */
	ASSERT_EQ(read(ends[0], &byte, 1), 0);
	close(ends[0]);
	close(region.fd);
}

/* The client registers a region by its command descriptor, and nobody records it. */
static uint32_t register_stray(const struct nic_ctx *ctx, int command_fd, const void *mem)
{
	const struct mlx5_reg stray = {.pd = ctx->client_pd - 1,
				       .access = IBV_ACCESS_LOCAL_WRITE,
				       .bytes = CLIENT_MEM_BYTES,
				       .iova = CLIENT_IOVA,
				       .data = mem};
	uint32_t handle;

	ASSERT_OK(mlx5_uverbs_reg_mr(command_fd, &stray, &handle));
	return handle;
}

struct with_stray {
	struct taken_over mapper;
	struct nic *nic;
	struct nic_ctx *ctx;
	int command_fd; /* the context's */
	int mem_fd;
	uint8_t *mem;
	uint32_t stray;
};

static void with_stray_init(struct with_stray *w)
{
	const struct nic_ctx_attr of = {.session_id = 1, .uid = ALICE, .health_fd = -1};
	struct nic_saved_fds saved;

	*w = (struct with_stray){.mapper.sock = -1};
	w->nic = probe_with(&w->mapper);
	ASSERT_OK(w->nic->ops->ctx_open(w->nic, &of, &w->ctx));
	ASSERT_OK(w->nic->ops->ctx_saved_fds(w->ctx, &saved));
	w->command_fd = saved.fds[0];
	w->mem_fd = client_memfd(2 * CLIENT_MEM_BYTES, &w->mem);
	w->stray = register_stray(w->ctx, w->command_fd, w->mem);
}

static void with_stray_deinit(struct with_stray *w)
{
	/* The mapper has destroyed nothing, and the daemon has left it to the mapper. */
	ASSERT_OK(mlx5_handle_destroy(w->command_fd, MLX5_OBJECT_MR, w->stray));
	ASSERT(!w->nic->ops->ctx_close(w->ctx));
	join(&w->mapper);
	ASSERT(!w->nic->ops->close(w->nic));
	munmap(w->mem, 2 * CLIENT_MEM_BYTES);
	close(w->mem_fd);
}

/* Two records of one region would destroy it twice, and one of another length would not be found by the next daemon. */
TEST(region_of_another_length_or_record_is_refused)
{
	struct nic_mr_attr region = {
		.kind = NIC_MEM_MEMFD, .length_bytes = 2 * CLIENT_MEM_BYTES, .iova = CLIENT_IOVA, .access = NIC_ACCESS_LOCAL_WRITE};
	struct nic_mr *mr, *again;
	struct with_stray w;

	with_stray_init(&w);
	region.fd = w.mem_fd;
	__atomic_store_n(&w.mapper.handle, w.stray, __ATOMIC_RELAXED);
	ASSERT_ERR(w.nic->ops->mr_reg(w.ctx, &region, &mr), EIO);
	region.length_bytes = CLIENT_MEM_BYTES;
	ASSERT_OK(w.nic->ops->mr_reg(w.ctx, &region, &mr));
	ASSERT_ERR(w.nic->ops->mr_reg(w.ctx, &region, &again), EIO);
	ASSERT(!w.nic->ops->mr_dereg(mr));
	with_stray_deinit(&w);
}

/* A client says that it is a GPU's memory, and it is what the client likes. */
TEST(region_that_its_client_has_made_is_unpinned_by_a_mapper)
{
	struct nic_mr_attr region = {.kind = NIC_MEM_PEERMEM, .length_bytes = CLIENT_MEM_BYTES};
	struct nic_mr *mr;
	struct with_stray w;

	with_stray_init(&w);
	region.fd = -1;
	region.handle = w.stray;
	ASSERT_OK(w.nic->ops->mr_reg(w.ctx, &region, &mr));
	ASSERT(!w.nic->ops->mr_dereg(mr));
	with_stray_deinit(&w);
	ASSERT_EQ(w.mapper.n_destroyed, 1u);
}

/* Also if mappers die meanwhile: the daemon does not do it itself, unless a mapper has no memory for the context. */
static void import_with_a_stray(unsigned int n_deaths, unsigned int n_refused)
{
	struct nic_import_attr attr = {.ctx = {.session_id = 2, .uid = ALICE, .health_fd = -1}};
	struct taken_over mapper = {.sock = -1, .n_deaths = n_deaths, .n_refused = n_refused};
	struct nic_imported imported;
	struct client alice;
	uint32_t stray;
	struct nic *nic;
	void *record;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	client_open_ctx_for(&alice, rig.nic[0], 1, ALICE);
	client_reg(&alice);
	ASSERT_OK(client_export(&alice, &record, &attr.record_bytes));
	ASSERT_OK(rig.nic[0]->ops->ctx_saved_fds(alice.ctx, &attr.fds));
	attr.fds.fds[0] = fcntl(attr.fds.fds[0], F_DUPFD_CLOEXEC, 3);
	ASSERT_GE(attr.fds.fds[0], 0);
	stray = register_stray(alice.ctx, attr.fds.fds[0], alice.mem);
	attr.record = record;
	client_swap_ctx(alice.ctx, NULL);
	ASSERT(!rig.nic[0]->ops->ctx_unimport(alice.ctx));
	nic = probe_with(&mapper);
	ASSERT_OK(nic->ops->ctx_import(nic, &attr, &imported));
	join(&mapper);
	/* It says so, and has not done it: nobody else has. */
	ASSERT_EQ(mapper.n_destroyed, n_refused ? 0 : 1 + n_deaths);
	ASSERT_EQ(mlx5_handle_destroy(attr.fds.fds[0], MLX5_OBJECT_MR, stray) == 0, !n_refused);
	ASSERT(!nic->ops->mr_dereg(imported.mrs[0]));
	ASSERT(!nic->ops->ctx_close(imported.ctx));
	join(&mapper);
	ASSERT(!nic->ops->close(nic));
	nic_imported_deinit(&imported);
	munmap(alice.doorbell_page, SHMD_DB_PAGE_BYTES);
	munmap(alice.mem, CLIENT_MEM_BYTES);
	close(attr.fds.fds[0]);
	close(alice.mem_fd);
	free(record);
	rig_close(&rig);
}

TEST(regions_that_no_record_names_are_unpinned_by_a_mapper)
{
	import_with_a_stray(0, 0);
	import_with_a_stray(1, 0);
	import_with_a_stray(2, 0);
}

/* Its key would stay with nobody who ends it. */
TEST(region_that_no_record_names_ends_when_a_mapper_has_no_memory)
{
	import_with_a_stray(0, 1);
}
