/* SPDX-License-Identifier: Apache-2.0 */
/* Retries that are exceeded because receives, or the peer itself, are missing; a peer that is killed. */
#include "tests/conformance/fixture.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOC 4159u
#define REM 4227u

/* ---- retries ------------------------------------------------------------------------------------------------------------ */

static void rnr_exceeded(struct conf *c, size_t opcode)
{
	struct conf_wqe w;

	conf_need(c, CONF_F_RECV);
	if (opcode == SHMD_OPCODE_SEND)
		conf_send(&w, c->a, LOC, 100);
	else
		conf_write(&w, c->a, LOC, REM, 100);
	w.opcode = (uint8_t)opcode;
	conf_expect_error(c->a, conf_run(c->a, &w), SHMD_SYNDROME_RNR_RETRY_EXC_ERR);
	conf_check(c);
}

TEST(conf_send_that_never_finds_a_receive_gives_rnr_retry_exceeded)
{
	conf_each_variant(rnr_exceeded, SHMD_OPCODE_SEND,
			  &(struct conf_attr){.rq_wqes = 4, .params = &conf_few_rnr_retries});
}

TEST(conf_write_imm_that_never_finds_a_receive_gives_rnr_retry_exceeded)
{
	conf_each_variant(rnr_exceeded, SHMD_OPCODE_RDMA_WRITE_IMM,
			  &(struct conf_attr){.rq_wqes = 4, .params = &conf_few_rnr_retries});
}

static void no_receive_queue(struct conf *c, size_t arg)
{
	struct conf_wqe w;

	conf_need(c, CONF_F_RECV);
	conf_send(&w, c->a, LOC, 100);
	conf_expect_error(c->a, conf_run(c->a, &w), c->backend->no_rq_syndrome);
	conf_check(c);
}

TEST(conf_send_to_a_qp_without_receive_queue_is_refused)
{
	conf_each_variant(no_receive_queue, 0,
			  &(struct conf_attr){.params = &conf_few_rnr_retries});
}

static void peer_gone(struct conf *c, size_t opcode)
{
	uint64_t raddr = (uintptr_t)c->tgt.mem.addr;
	shmd_be32 rkey_be = c->tgt.mem.rkey_be;
	struct conf_wqe w;

	conf_side_close(&c->tgt);
	conf_wqe_init(&w, (uint8_t)opcode);
	conf_wqe_raddr(&w, raddr, rkey_be);
	conf_wqe_data(&w, (uintptr_t)c->ini.mem.addr, 8, c->ini.mem.lkey_be);
	conf_expect_error(c->a, conf_run(c->a, &w), SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	conf_check_mem_at(TEST_WHERE, &c->ini.mem, "initiator");
}

TEST(conf_write_to_a_destroyed_qp_gives_transport_retry_exceeded)
{
	conf_each_variant(peer_gone, SHMD_OPCODE_RDMA_WRITE,
			  &(struct conf_attr){.params = &conf_impatient});
}

TEST(conf_read_from_a_destroyed_qp_gives_transport_retry_exceeded)
{
	conf_each_variant(peer_gone, SHMD_OPCODE_RDMA_READ,
			  &(struct conf_attr){.params = &conf_impatient});
}

static void peer_in_error(struct conf *c, size_t opcode)
{
	struct conf_wqe w;

	conf_modify(c->b, SHMD_QP_ERR);
	conf_write(&w, c->a, LOC, REM, 100);
	conf_expect_error(c->a, conf_run(c->a, &w), SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	conf_check(c);
}

TEST(conf_write_to_a_qp_in_error_gives_transport_retry_exceeded)
{
	conf_each_variant(peer_in_error, 0, &(struct conf_attr){.params = &conf_impatient});
}

/* ---- a peer that is killed ------------------------------------------------------------------------------------------------ */

/* 67 ms, three times: it answers while it lives, also when others have the CPU for a while. */
static const struct shmd_qp_params mortal = {
	.timeout = 14, .retry_count = 2, .rnr_retry = 2, .min_rnr_timer = 1, .max_rd_atomic = 16};

struct offer {
	struct shmd_addr addr;
	uint64_t raddr;
	shmd_be32 rkey_be;
};

/* The child: answers the address of its peer with an offer, and lives until it is killed. */
static void serve(int fd) __attribute__((noreturn));
static void serve(int fd)
{
	struct shmd_queues_attr q = {.n_qps = 1};
	struct conf_side side = {0};
	struct shmd_addr peer;
	struct offer offer;

	ASSERT_EQ(read(fd, &peer, sizeof(peer)), sizeof(peer));
	side.client = conf_client_open();
	side.nic = conf_nic_open(side.client, 0);
	conf_mem_open(&side, &side.mem, 65536, SHMD_ACCESS_ALL);
	ASSERT_OK(shmd_queues_create(side.nic, &q, &side.queues));
	ASSERT_OK(shmd_queues_connect(side.queues, 0, 1, &peer, &mortal, NULL));
	ASSERT_OK(shmd_queues_addr(side.queues, 0, &offer.addr));
	offer.raddr = (uintptr_t)side.mem.addr;
	offer.rkey_be = side.mem.rkey_be;
	ASSERT_EQ(write(fd, &offer, sizeof(offer)), sizeof(offer));
	for (;;)
		pause();
}

/* Before the library has threads: a process with threads can hardly be forked. */
static pid_t start_peer(int *ret_fd)
{
	int fds[2];
	pid_t pid;

	conf_daemon_start();
	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (pid == 0)
		serve(fds[1]);
	close(fds[1]);
	*ret_fd = fds[0];
	return pid;
}

static void connect_peer(struct conf *c, int fd, struct offer *ret_offer)
{
	struct shmd_addr mine;

	ASSERT_OK(shmd_queues_addr(c->ini.queues, 0, &mine));
	ASSERT_EQ(write(fd, &mine, sizeof(mine)), sizeof(mine));
	ASSERT_EQ(read(fd, ret_offer, sizeof(*ret_offer)), sizeof(*ret_offer));
	ASSERT_OK(shmd_queues_connect(c->ini.queues, 0, 1, &ret_offer->addr, &mortal, NULL));
}

static void write_once(struct conf *c, const struct offer *offer, struct conf_cqe *ret_cqe)
{
	struct conf_wqe w;

	conf_wqe_init(&w, SHMD_OPCODE_RDMA_WRITE);
	conf_wqe_raddr(&w, offer->raddr, offer->rkey_be);
	conf_wqe_data(&w, (uintptr_t)c->ini.mem.addr, 4096, c->ini.mem.lkey_be);
	*ret_cqe = conf_wait(c->a, conf_run(c->a, &w));
}

/* Writes go on until the peer no longer answers. */
static void write_until_error(struct conf *c, const struct offer *offer)
{
	struct conf_timer timer = CONF_TIMER;
	struct conf_cqe cqe;

	for (write_once(c, offer, &cqe); cqe.opcode == SHMD_CQE_REQ; write_once(c, offer, &cqe))
		conf_pause(&timer);
	ASSERT_EQ(cqe.opcode, SHMD_CQE_REQ_ERR);
	ASSERT_EQ(cqe.syndrome, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
}

TEST(conf_write_to_a_killed_client_gives_transport_retry_exceeded)
{
	struct offer offer;
	struct conf_cqe cqe;
	struct conf c;
	pid_t pid;
	int fd;

	pid = start_peer(&fd);
	conf_open(&c, &(struct conf_attr){.unconnected = true});
	connect_peer(&c, fd, &offer);
	write_once(&c, &offer, &cqe);
	ASSERT_EQ(cqe.opcode, SHMD_CQE_REQ);
	ASSERT_OK(kill(pid, SIGKILL));
	ASSERT_EQ(waitpid(pid, NULL, 0), pid);
	write_until_error(&c, &offer);
	close(fd);
	conf_close(&c);
}
