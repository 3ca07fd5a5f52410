/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts that outlive their daemon: a process that is killed, queues that go on, and another process that goes on with them.
 * On two simulated ConnectX NICs. The test itself is the client, and keeps descriptors as a service manager does.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include "client.h"
#include "daemon/nic/mlx5/mlx5-record.h"
#include "fds.h"
#include "kernel-objects.h"
#include "proto/base/nsec.h"
#include "record-seal.h"
#include "tests/lib/test.h"

#define QPS 2u
#define RECORD_BYTES 4096u

/* The state that a daemon leaves for the next one, and its client's knowledge; in shared memory. */
struct legacy {
	struct nic_mr mr;
	struct nic_doorbell doorbell;
	struct nic_layout layout;
	struct nic_cq cqs[QPS];
	struct nic_qp qps[QPS];
	size_t record_bytes;
	uint8_t record[RECORD_BYTES];
};

enum { COMMAND_FD, MEM_FD, QUEUE_FD, N_FDS };

/* ---- processes ------------------------------------------------------------------------------------------------------------- */

static void tell(int sock)
{
	ASSERT_EQ(write(sock, "", 1), 1);
}

static void hear(int sock)
{
	struct pollfd pfd = {.fd = sock, .events = POLLIN};
	char byte;

	ASSERT_EQ(poll(&pfd, 1, 10000), 1);
	ASSERT_EQ(read(sock, &byte, 1), 1);
}

static void expect_nothing_left(int command_fd)
{
	ASSERT_EQ(kernel_objects(command_fd, MLX5_IB_OBJECT_DEVX_OBJ), 0);
	ASSERT_EQ(kernel_objects(command_fd, MLX5_IB_OBJECT_DEVX_UMEM), 0);
	ASSERT_EQ(kernel_objects(command_fd, UVERBS_OBJECT_MR), 0);
	ASSERT_EQ(kernel_objects(command_fd, UVERBS_OBJECT_PD), 0);
}

/* ---- handing over ------------------------------------------------------------------------------------------------------------ */

static void export(const struct client *c, struct legacy *legacy)
{
	void *record;

	ASSERT_OK(client_export(c, &record, &legacy->record_bytes));
	ASSERT_LE(legacy->record_bytes, RECORD_BYTES);
	memcpy(legacy->record, record, legacy->record_bytes);
	free(record);
}

static void leave(const struct client *c, struct legacy *legacy, int sock)
{
	const struct nic_layout *layout = &c->queues->layout;

	export(c, legacy);
	legacy->mr = *c->mr;
	legacy->doorbell = c->ctx->doorbell;
	legacy->layout = *layout;
	memcpy(legacy->cqs, layout->cqs, sizeof(legacy->cqs));
	memcpy(legacy->qps, layout->qps, sizeof(legacy->qps));
	send_fds(sock, (int[]){c->ctx->doorbell.page_fd, c->mem_fd, c->queue_fd}, N_FDS);
}

/* A client that has what its daemon gave it, and no daemon. */
struct orphan {
	struct client client;
	struct nic_ctx ctx;
	struct nic_queues queues;
	struct client_qp qps[QPS];
	int fds[N_FDS];
};

static void *map(int fd, uint64_t bytes, uint64_t offset)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

	ASSERT(at != MAP_FAILED);
	return at;
}

static void orphan_init(struct orphan *orphan, struct legacy *legacy, int sock)
{
	struct client *c = &orphan->client;

	memset(orphan, 0, sizeof(*orphan));
	ASSERT_EQ(receive_fds(sock, orphan->fds, N_FDS), (unsigned int)N_FDS);
	orphan->ctx.doorbell = legacy->doorbell;
	orphan->queues.layout = legacy->layout;
	orphan->queues.layout.cqs = legacy->cqs;
	orphan->queues.layout.qps = legacy->qps;
	c->ctx = &orphan->ctx;
	c->mr = &legacy->mr;
	c->queues = &orphan->queues;
	c->qps = orphan->qps;
	c->mem = map(orphan->fds[MEM_FD], CLIENT_MEM_BYTES, 0);
	c->queue_mem = map(orphan->fds[QUEUE_FD], legacy->layout.total_bytes, 0);
	c->doorbell_page = map(orphan->fds[COMMAND_FD], SHMD_DB_PAGE_BYTES, legacy->doorbell.page_offset);
}

static void orphan_deinit(struct orphan *orphan)
{
	munmap(orphan->client.mem, CLIENT_MEM_BYTES);
	munmap(orphan->client.queue_mem, orphan->queues.layout.total_bytes);
	munmap(orphan->client.doorbell_page, SHMD_DB_PAGE_BYTES);
	for (unsigned int i = 0; i < N_FDS; i++)
		close(orphan->fds[i]);
}

static int import_as(struct nic *nic, uint64_t session_id, const struct legacy *legacy, const int fds[N_FDS], bool shared,
		     struct nic_imported *ret_imported)
{
	const struct nic_import_attr attr = {
		.ctx = {.session_id = session_id, .health_fd = -1},
		.fds = {.n = 1, .fds = {fds[COMMAND_FD]}},
		.record = legacy->record,
		.record_bytes = legacy->record_bytes,
		.n_queue_fds = 1,
		.queue_fds = &fds[QUEUE_FD],
		.shared = shared,
	};

	return nic->ops->ctx_import(nic, &attr, ret_imported);
}

static int import(struct nic *nic, uint64_t session_id, const struct legacy *legacy, const int fds[N_FDS],
		  struct nic_imported *ret_imported)
{
	return import_as(nic, session_id, legacy, fds, false, ret_imported);
}

/* The same context once more, in the process that has it. */
static int import_again(const struct client *c, struct nic *nic, const struct legacy *legacy,
			struct nic_imported *ret_imported)
{
	const int fds[N_FDS] = {c->ctx->doorbell.page_fd, c->mem_fd, c->queue_fd};

	return import_as(nic, 3, legacy, fds, true, ret_imported);
}

static struct legacy *shared_legacies(void)
{
	void *at = mmap(NULL, 2 * sizeof(struct legacy), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT(at != MAP_FAILED);
	return at;
}

/* ---- a daemon that is killed ---------------------------------------------------------------------------------------------------- */

static void first_daemon(struct legacy *legacies, int sock)
{
	struct client a, b;
	struct rig rig;

	rig_open_mlx5(&rig, 2, NULL);
	client_open(&a, rig.nic[0], 1, QPS);
	client_open(&b, rig.nic[1], 2, QPS);
	client_connect(&a, 0, &b, 0);
	leave(&a, &legacies[0], sock);
	leave(&b, &legacies[1], sock);
	for (;;)
		pause();
}

static void expect_state(const struct nic_imported *one, unsigned int i, enum nic_qp_state state)
{
	struct nic_qp_info info;

	ASSERT_OK(one->ctx->nic->ops->qp_query(one->ctx, one->queues[0]->layout.qps[i].qpn, &info));
	ASSERT_EQ(info.state, state);
	ASSERT_EQ(info.first_error, 0u);
}

static void connect_one(const struct nic_imported *from, const struct nic_imported *to, unsigned int i)
{
	const struct nic_peer peer = {.qpn = from->queues[0]->layout.qps[i].qpn,
				      .remote = to->queues[0]->layout.qps[i].addr};
	unsigned int n_done = 0;

	ASSERT_OK(from->ctx->nic->ops->connect(from->ctx, 1, &peer, &client_params, &n_done));
	ASSERT_EQ(n_done, 1u);
}

/* Memory and queues of today in a context of yesterday. */
static void make_more(const struct nic_imported *imported)
{
	const struct nic_ops *ops = imported->ctx->nic->ops;
	struct client c = {.ctx = imported->ctx, .mem_fd = -1, .queue_fd = -1};
	uint64_t bytes;

	c.doorbell_page = map(c.ctx->doorbell.page_fd, SHMD_DB_PAGE_BYTES, c.ctx->doorbell.page_offset);
	client_reg(&c);
	client_create(&c, 1, 0);
	client_connect(&c, 0, &c, 0);
	client_exercise(&c, &c);
	bytes = c.queues->layout.total_bytes;
	ASSERT_OK(ops->queues_destroy(c.queues));
	ASSERT(!ops->mr_dereg(c.mr));
	munmap(c.queue_mem, bytes);
	munmap(c.mem, CLIENT_MEM_BYTES);
	munmap(c.doorbell_page, SHMD_DB_PAGE_BYTES);
	close(c.queue_fd);
	close(c.mem_fd);
	free(c.qps);
}

static void destroy_all(struct nic_imported *imported)
{
	const struct nic_ops *ops = imported->ctx->nic->ops;

	ops->ctx_quiesce(imported->ctx, CLIENT_QUIESCE_NSEC);
	for (unsigned int i = 0; i < imported->n_queues; i++)
		ASSERT_OK(ops->queues_destroy(imported->queues[i]));
	for (unsigned int i = 0; i < imported->n_mrs; i++)
		ASSERT(!ops->mr_dereg(imported->mrs[i]));
	client_swap_ctx(imported->ctx, NULL);
	ASSERT(!ops->ctx_close(imported->ctx));
	nic_imported_deinit(imported);
}

static void second_daemon(const struct legacy *legacies, const struct orphan *orphans, int sock)
{
	struct nic_counters counters;
	struct nic_imported in[2];
	struct nic_event event;
	struct rig rig;

	rig_open_mlx5(&rig, 2, NULL);
	for (unsigned int i = 0; i < 2; i++) {
		ASSERT_OK(import(rig.nic[i], i + 1, &legacies[i], orphans[i].fds, &in[i]));
		ASSERT_EQ(in[i].ctx->session_id, i + 1);
		ASSERT_EQ(in[i].n_mrs, 1u);
		ASSERT_EQ(in[i].mrs[0]->rkey, legacies[i].mr.rkey);
		ASSERT_EQ(in[i].n_queues, 1u);
		expect_state(&in[i], 0, NIC_QPS_RTS);
		expect_state(&in[i], 1, NIC_QPS_RST);
		ASSERT_OK(rig.nic[i]->ops->ctx_counters(in[i].ctx, &counters));
		ASSERT_EQ(counters.error_cqes, 0u);
		ASSERT_ERR(client_next_event(rig.nic[i], &event), EAGAIN);
	}
	connect_one(&in[0], &in[1], 1);
	connect_one(&in[1], &in[0], 1);
	make_more(&in[0]);
	tell(sock);
	hear(sock);
	destroy_all(&in[0]);
	destroy_all(&in[1]);
	rig_close(&rig);
	exit(0);
}

static pid_t start(void (*daemon)(struct legacy *legacies, int sock), struct legacy *legacies, int *ret_sock)
{
	int pair[2];
	pid_t pid;

	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (pid == 0)
		daemon(legacies, pair[1]);
	close(pair[1]);
	*ret_sock = pair[0];
	return pid;
}

static struct orphan *orphans_of_second;

static void start_second(struct legacy *legacies, int sock)
{
	second_daemon(legacies, orphans_of_second, sock);
}

/* One word over QP i, seen where it belongs. */
static void write_word(struct client *from, struct client *to, unsigned int i, uint64_t value)
{
	client_post_inline(from, i, value, to, 64);
	client_ring(from, i);
	client_complete(from, i);
	ASSERT_EQ(client_word(to, 64), value);
}

static void expect_end(pid_t pid, int how)
{
	int status;

	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, how);
}

TEST(queues_go_on_when_their_daemon_is_killed_and_another_one_adopts_them)
{
	struct legacy *legacies = shared_legacies();
	struct orphan orphans[2];
	struct client *a = &orphans[0].client, *b = &orphans[1].client;
	int sock;
	pid_t pid = start(first_daemon, legacies, &sock);

	orphan_init(&orphans[0], &legacies[0], sock);
	orphan_init(&orphans[1], &legacies[1], sock);
	close(sock);
	client_exercise(a, b);
	client_exercise(b, a);
	/* Some of it is on its way when the daemon dies. */
	for (uint64_t i = 0; i < 32; i++)
		client_post_inline(a, 0, i, b, 256 + i * 8);
	client_ring(a, 0);
	ASSERT_OK(kill(pid, SIGKILL));
	for (uint64_t i = 0; i < 32; i++)
		client_complete(a, 0);
	expect_end(pid, SIGKILL);
	for (uint64_t i = 0; i < 32; i++)
		ASSERT_EQ(client_word(b, 256 + i * 8), i);
	client_exercise(a, b);
	client_exercise(b, a);
	orphans_of_second = orphans;
	pid = start(start_second, legacies, &sock);
	for (uint64_t i = 0; i < 100; i++)
		write_word(a, b, 0, i);
	hear(sock);
	write_word(a, b, 0, 12345);
	write_word(a, b, 1, 67890);
	write_word(b, a, 1, 67891);
	tell(sock);
	expect_end(pid, 0);
	close(sock);
	expect_nothing_left(orphans[0].fds[COMMAND_FD]);
	expect_nothing_left(orphans[1].fds[COMMAND_FD]);
	orphan_deinit(&orphans[0]);
	orphan_deinit(&orphans[1]);
	munmap(legacies, 2 * sizeof(*legacies));
}

/* ---- refusals ----------------------------------------------------------------------------------------------------------------------- */

static const struct legacy *with_strange_blob(struct legacy *bad, const struct legacy *good)
{
	struct mlx5_record record;
	void *data;

	ASSERT_OK(mlx5_record_decode(good->record, good->record_bytes, &record));
	ASSERT(record.has_counters);
	record.counters.blob_bytes = 1;
	ASSERT_OK(mlx5_record_encode(&record, &data, &bad->record_bytes));
	ASSERT_LE(bad->record_bytes, RECORD_BYTES);
	memcpy(bad->record, data, bad->record_bytes);
	free(data);
	mlx5_record_deinit(&record);
	return bad;
}

TEST(record_of_another_nic_or_descriptor_is_refused)
{
	struct nic_imported imported = {0};
	struct legacy of_a, of_b, bad;
	struct client a, b;
	struct rig rig;

	rig_open_mlx5(&rig, 2, NULL);
	client_open(&a, rig.nic[0], 1, QPS);
	client_open(&b, rig.nic[1], 2, QPS);
	client_connect(&a, 0, &b, 0);
	export(&a, &of_a);
	export(&b, &of_b);
	bad = of_a;
	bad.record[4]++;
	record_seal(bad.record, bad.record_bytes);
	ASSERT_ERR(import_again(&a, rig.nic[0], &bad, &imported), EPROTONOSUPPORT);
	bad = of_a;
	bad.record_bytes--;
	ASSERT_ERR(import_again(&a, rig.nic[0], &bad, &imported), EINVAL);
	/* From another NIC: both, the record, the descriptor. */
	ASSERT_ERR(import_again(&a, rig.nic[1], &of_a, &imported), EXDEV);
	ASSERT_ERR(import_again(&a, rig.nic[0], &of_b, &imported), EXDEV);
	ASSERT_ERR(import_again(&b, rig.nic[0], &of_a, &imported), EXDEV);
	ASSERT_ERR(import(rig.nic[0], 3, &of_a, (int[]){a.mem_fd, -1, a.queue_fd}, &imported), EBADF);
	ASSERT_ERR(import(rig.nic[0], 3, &of_a, (int[]){-1, -1, a.queue_fd}, &imported), EBADF);
	/* An object as another libmlx5 exports it: one of another size. */
	ASSERT_ERR(import_again(&a, rig.nic[0], with_strange_blob(&bad, &of_a), &imported), EOPNOTSUPP);
	/* Queue memory that is not a memfd, or too short. */
	ASSERT_ERR(import(rig.nic[0], 3, &of_a, (int[]){a.ctx->doorbell.page_fd, -1, 0}, &imported), EBADF);
	ASSERT(!imported.ctx);
	client_exercise(&a, &b);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

/* A batch that was being destroyed is there to be destroyed; of a context that has none of it all there is nothing to go on with. */
TEST(a_record_of_what_has_gone_has_its_place)
{
	struct nic_imported imported;
	struct nic_qp_info info;
	struct client a, other;
	struct legacy legacy;
	struct rig rig;
	uint64_t bytes;
	uint32_t qpn;

	rig_open_mlx5(&rig, 1, NULL);
	client_open(&a, rig.nic[0], 1, QPS);
	export(&a, &legacy);
	/* A context of the same NIC that has other objects. */
	client_open_ctx(&other, rig.nic[0], 2);
	ASSERT_ERR(import_again(&other, rig.nic[0], &legacy, &imported), ENOENT);
	qpn = client_qpn(&a, 0);
	ASSERT_OK(rig.nic[0]->ops->queues_destroy(a.queues));
	ASSERT_OK(import_again(&a, rig.nic[0], &legacy, &imported));
	ASSERT_EQ(imported.n_queues, 1u);
	ASSERT_ERR(rig.nic[0]->ops->qp_query(imported.ctx, qpn, &info), EINVAL);
	ASSERT_OK(rig.nic[0]->ops->queues_destroy(imported.queues[0]));
	ASSERT(!rig.nic[0]->ops->ctx_unimport(imported.ctx));
	nic_imported_deinit(&imported);
	bytes = a.queues ? (uint64_t)lseek(a.queue_fd, 0, SEEK_END) : 0;
	munmap(a.queue_mem, bytes);
	close(a.queue_fd);
	free(a.qps);
	/* The region is there yet, and was not touched. */
	client_create(&a, QPS, 0);
	client_connect(&a, 0, &a, 0);
	client_exercise(&a, &a);
	client_close(&other);
	client_close(&a);
	rig_close(&rig);
}

/* The handle of a region that was being destroyed has no owner, not even a client that claims it. */
TEST(a_region_that_has_gone_has_its_place_and_no_handle)
{
	const struct nic_mr_attr told = {
		.kind = NIC_MEM_PEERMEM, .fd = -1, .handle = 0, .length_bytes = CLIENT_MEM_BYTES, .access = NIC_ACCESS_ALL};
	struct nic_imported imported;
	struct legacy legacy;
	struct nic_mr *mr = NULL;
	struct client a;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	client_open(&a, rig.nic[0], 1, QPS);
	export(&a, &legacy);
	ASSERT(!rig.nic[0]->ops->mr_dereg(a.mr));
	a.mr = NULL;
	ASSERT_OK(import_again(&a, rig.nic[0], &legacy, &imported));
	ASSERT_EQ(imported.n_mrs, 1u);
	ASSERT_EQ(imported.mrs[0]->length_bytes, CLIENT_MEM_BYTES);
	ASSERT_ERR(rig.nic[0]->ops->mr_reg(imported.ctx, &told, &mr), ENOENT);
	ASSERT(!rig.nic[0]->ops->mr_dereg(imported.mrs[0]));
	ASSERT(!rig.nic[0]->ops->ctx_unimport(imported.ctx));
	nic_imported_deinit(&imported);
	client_close(&a);
	rig_close(&rig);
}

/* A record names what its descriptor reaches anyway: nothing of it harms what there is. */
TEST(hostile_records_destroy_nothing)
{
	struct nic_imported imported;
	struct legacy legacy;
	size_t n_taken = 0;
	struct client a;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	client_open(&a, rig.nic[0], 1, QPS);
	client_connect(&a, 0, &a, 0);
	client_connect(&a, 1, &a, 1);
	export(&a, &legacy);
	for (size_t bit = 96; bit < (legacy.record_bytes - RECORD_SUM_BYTES) * 8; bit += 11) {
		legacy.record[bit / 8] ^= (uint8_t)(1u << bit % 8);
		record_seal(legacy.record, legacy.record_bytes);
		if (import_again(&a, rig.nic[0], &legacy, &imported) == 0) {
			rig.nic[0]->ops->ctx_unimport(imported.ctx);
			nic_imported_deinit(&imported);
			n_taken++;
		}
		legacy.record[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	/* Some of it is the client's own choice: what a QP reports to peers. */
	ASSERT_GT(n_taken, 0u);
	client_exercise(&a, &a);
	write_word(&a, &a, 1, 99);
	client_close(&a);
	rig_close(&rig);
}

/* ---- a gap between two owners -------------------------------------------------------------------------------------------------------- */

TEST(an_error_between_two_daemons_is_reported_by_the_next)
{
	struct nic_imported imported;
	struct nic_event event;
	struct nic_qp_info info;
	struct legacy legacies[2];
	struct shmd_cqe cqe;
	struct client a, b;
	struct rig rig;
	int fds[N_FDS];

	rig_open_mlx5(&rig, 2, NULL);
	client_open(&a, rig.nic[0], 1, QPS);
	client_open(&b, rig.nic[1], 2, QPS);
	client_connect(&a, 0, &b, 0);
	client_connect(&a, 1, &b, 1);
	export(&a, &legacies[0]);
	/* The client's part of it. */
	struct nic_queues queues = {.layout = a.queues->layout};
	struct nic_ctx ctx = *a.ctx;
	struct nic_mr mr = *a.mr;

	ASSERT_OK(nic_layout_copy(&queues.layout, &a.queues->layout));
	memcpy(fds, (int[]){fcntl(a.ctx->doorbell.page_fd, F_DUPFD_CLOEXEC, 0), a.mem_fd, a.queue_fd}, sizeof(fds));
	client_swap_ctx(a.ctx, NULL);
	ASSERT(!rig.nic[0]->ops->ctx_unimport(a.ctx));
	a.ctx = &ctx;
	a.queues = &queues;
	a.mr = &mr;
	write_word(&a, &b, 1, 7);
	b.mr->rkey ^= 0x5500;
	client_post_write(&a, 0, 0, &b, 0, 64);
	b.mr->rkey ^= 0x5500;
	client_ring(&a, 0);
	ASSERT(client_poll(&a, 0, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT_EQ(client_cqe_syndrome(&cqe), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_OK(import(rig.nic[0], 7, &legacies[0], fds, &imported));
	ASSERT_OK(client_next_event(rig.nic[0], &event));
	ASSERT_EQ(event.kind, NIC_EVENT_QP_ERROR);
	ASSERT_EQ(event.session_id, 7u);
	ASSERT_EQ(event.number, client_qpn(&a, 0));
	ASSERT_EQ(event.syndrome, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_ERR(client_next_event(rig.nic[0], &event), EAGAIN);
	ASSERT_OK(rig.nic[0]->ops->qp_query(imported.ctx, client_qpn(&a, 0), &info));
	ASSERT_EQ(info.first_error, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	/* And by the one after it: it is unknown whether the first has told its client. */
	ASSERT(!rig.nic[0]->ops->ctx_unimport(imported.ctx));
	nic_imported_deinit(&imported);
	ASSERT_OK(import(rig.nic[0], 8, &legacies[0], fds, &imported));
	client_swap_ctx(NULL, imported.ctx);
	ASSERT_OK(client_next_event(rig.nic[0], &event));
	ASSERT_EQ(event.number, client_qpn(&a, 0));
	ASSERT_EQ(event.syndrome, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_ERR(client_next_event(rig.nic[0], &event), EAGAIN);
	/* Later errors are reported as ever. */
	b.mr->rkey ^= 0x5500;
	client_post_write(&a, 1, 0, &b, 0, 64);
	b.mr->rkey ^= 0x5500;
	client_ring(&a, 1);
	struct pollfd pfd = {.fd = rig.nic[0]->event_fd, .events = POLLIN};

	do
		ASSERT_EQ(poll(&pfd, 1, 10000), 1);
	while (client_next_event(rig.nic[0], &event) < 0);
	ASSERT_EQ(event.session_id, 8u);
	ASSERT_EQ(event.number, client_qpn(&a, 1));
	ASSERT_EQ(event.syndrome, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	destroy_all(&imported);
	expect_nothing_left(fds[COMMAND_FD]);
	close(fds[COMMAND_FD]);
	nic_layout_deinit(&queues.layout);
	munmap(a.queue_mem, (uint64_t)lseek(a.queue_fd, 0, SEEK_END));
	munmap(a.mem, CLIENT_MEM_BYTES);
	munmap(a.doorbell_page, SHMD_DB_PAGE_BYTES);
	close(a.queue_fd);
	close(a.mem_fd);
	free(a.qps);
	client_close(&b);
	rig_close(&rig);
}

/* ---- doorbells that need a daemon ------------------------------------------------------------------------------------------------------- */

struct ringer {
	struct client *client;
	bool stop;
};

static void *ring_on(void *arg)
{
	struct ringer *ringer = arg;

	while (!__atomic_load_n(&ringer->stop, __ATOMIC_RELAXED))
		client_ring_word(ringer->client, client_qpn(ringer->client, 0));
	return NULL;
}

/* The thread that hears lets go of queues and page before they are forgotten, however much it has to do. */
static void forget_while_it_rings(struct nic *nic, const struct nic_ctx_attr *attr)
{
	struct client c = {.mem_fd = -1, .queue_fd = -1};
	struct nic_queues queues = {.ctx = NULL};
	struct ringer ringer = {.client = &c};
	struct nic_saved_fds saved;
	int page_fd, wake_fd;
	struct nic_ctx ctx;
	pthread_t thread;

	ASSERT_OK(nic->ops->ctx_open(nic, attr, &c.ctx));
	client_reg(&c);
	client_create(&c, QPS, 0);
	client_connect(&c, 0, &c, 0);
	ASSERT_OK(nic->ops->ctx_saved_fds(c.ctx, &saved));
	ASSERT_EQ(saved.n, 4u);
	ASSERT_EQ(saved.fds[2], c.ctx->doorbell.page_fd);
	page_fd = c.ctx->doorbell.page_fd;
	wake_fd = fcntl(c.ctx->doorbell.wake_fd, F_DUPFD_CLOEXEC, 0);
	c.doorbell_page = map(page_fd, SHMD_DB_PAGE_BYTES, 0);
	c.nic_page = mmap(NULL, SHMD_DB_PAGE_BYTES, PROT_READ, MAP_SHARED, c.ctx->doorbell.nic_page_fd, 0);
	ASSERT(c.nic_page != MAP_FAILED);
	client_post_inline(&c, 0, 1, &c, 0);
	client_publish(&c, 0);
	/* The client's part of it. */
	ctx = *c.ctx;
	ctx.doorbell.wake_fd = wake_fd;
	ASSERT_OK(nic_layout_copy(&queues.layout, &c.queues->layout));
	struct nic_ctx *old = c.ctx;

	c.ctx = &ctx;
	c.queues = &queues;
	ASSERT_EQ(pthread_create(&thread, NULL, ring_on, &ringer), 0);
	client_complete(&c, 0);
	ASSERT(!nic->ops->ctx_unimport(old));
	__atomic_store_n(&ringer.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	nic_layout_deinit(&queues.layout);
	munmap((void *)(uintptr_t)c.nic_page, SHMD_DB_PAGE_BYTES);
	munmap(c.doorbell_page, SHMD_DB_PAGE_BYTES);
	munmap(c.queue_mem, (uint64_t)lseek(c.queue_fd, 0, SEEK_END));
	munmap(c.mem, CLIENT_MEM_BYTES);
	close(c.queue_fd);
	close(c.mem_fd);
	close(wake_fd);
	free(c.qps);
}

TEST(context_whose_doorbells_a_thread_hears_is_let_go_of_while_it_rings)
{
	const struct nic_ctx_attr attr = {.session_id = 1, .health_fd = -1, .doorbell = NIC_DOORBELL_CPU};
	struct nic_ctx *ctx = NULL;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	if (rig.nic[0]->ops->ctx_open(rig.nic[0], &attr, &ctx) == -EOPNOTSUPP)
		test_skip("a NIC is not rung by a thread on this machine");
	ASSERT(!rig.nic[0]->ops->ctx_close(ctx));
	for (int i = 0; i < 20; i++)
		forget_while_it_rings(rig.nic[0], &attr);
	rig_close(&rig);
}
