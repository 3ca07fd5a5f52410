/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/isolation.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/doorbell.h>
#include <shmd/abi/wqe.h>

#include "proto/base/nsec.h"
#include "proto/framing.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"

static void pace(const struct isolation *s)
{
	struct timespec ts = nsec_to_timespec(s->pause_nsec);

	nanosleep(&ts, NULL);
}

static void modify(struct raw_traffic *t, uint32_t qpn, uint32_t state, enum msg_kind expected)
{
	struct msg req, rep;

	msg_init(&req, MSG_QP_MODIFY_REQ, 0);
	req.qp_modify_req = (struct msg_qp_modify_req){.qpn = qpn, .state = state};
	raw_expect(&t->raw, &req, NULL, 0, expected, &rep);
}

/* From error, or from wherever it is, to RTS again. */
static void revive(struct raw_traffic *t, const struct msg_qp_info *to)
{
	modify(t, t->qp.qpn, 0, MSG_OK_REP);
	memset(t->queue_mem + t->qp.dbrec_offset, 0, sizeof(struct shmd_dbrec));
	t->pi = 0;
	ASSERT_EQ(raw_traffic_connect(t, to), SHMD_STATUS_OK);
}

static uint32_t first_error(struct raw_traffic *t)
{
	struct msg req, rep;

	msg_init(&req, MSG_QP_QUERY_REQ, 0);
	req.qp_query_req.qpn = t->qp.qpn;
	raw_expect(&t->raw, &req, NULL, 0, MSG_QP_QUERY_REP, &rep);
	return rep.qp_query_rep.first_error;
}

static void expect_syndrome(struct isolation *s, const struct raw_op *op, uint8_t syndrome)
{
	struct raw_traffic *t = &s->attacker;

	pace(s);
	raw_traffic_post(t, op);
	ASSERT_EQ(raw_traffic_poll(t), SHMD_CQE_REQ_ERR);
	/* Its QP is its own peer: that may be in error, and flush, before it hears so. */
	if (syndrome == SHMD_SYNDROME_REMOTE_ACCESS_ERR && raw_traffic_syndrome(t) == SHMD_SYNDROME_WR_FLUSH_ERR)
		ASSERT_EQ(first_error(t), SHMD_SYNDROME_LOCAL_ACCESS_ERR);
	else
		ASSERT_EQ(raw_traffic_syndrome(t), syndrome);
	revive(t, &t->qp);
}

static const uint8_t opcodes[] = {SHMD_OPCODE_RDMA_WRITE, SHMD_OPCODE_RDMA_READ, SHMD_OPCODE_ATOMIC_FA,
				  SHMD_OPCODE_ATOMIC_CS};

/* Its own memory to the victim's, and the victim's to its own, by one key or address. */
static void try_key(struct isolation *s, uint8_t opcode, uint32_t key)
{
	struct raw_traffic *t = &s->attacker;
	struct raw_op op = {
		.opcode = opcode,
		.lkey = t->lkey,
		.rkey = key,
		.laddr = RAW_TRAFFIC_IOVA,
		.raddr = RAW_TRAFFIC_IOVA + ISOLATION_GUARDED,
		.bytes = 8,
	};

	if (key != t->rkey)
		expect_syndrome(s, &op, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	op.lkey = key;
	op.rkey = t->rkey;
	op.laddr = RAW_TRAFFIC_IOVA + ISOLATION_GUARDED;
	op.raddr = RAW_TRAFFIC_IOVA;
	if (key != t->lkey)
		expect_syndrome(s, &op, SHMD_SYNDROME_LOCAL_PROT_ERR);
}

void isolation_try_keys(struct isolation *s)
{
	for (unsigned int i = 0; i < sizeof(opcodes); i++) {
		try_key(s, opcodes[i], s->board->victim.lkey);
		try_key(s, opcodes[i], s->board->victim.rkey);
	}
}

void isolation_try_near_keys(struct isolation *s)
{
	for (int bit = 0; bit < 32; bit++)
		try_key(s, SHMD_OPCODE_RDMA_READ, s->board->victim.rkey ^ 1u << bit);
	for (uint32_t near = 1; near <= 16; near++) {
		try_key(s, SHMD_OPCODE_RDMA_WRITE, s->board->victim.rkey + near);
		try_key(s, SHMD_OPCODE_RDMA_WRITE, s->attacker.rkey - near);
	}
}

/* A WQE that names the victim's QP, in the attacker's queue. */
void isolation_try_foreign_wqe(struct isolation *s)
{
	struct raw_op op = {
		.opcode = SHMD_OPCODE_RDMA_WRITE,
		.qpn = s->board->victim.qp.qpn,
		.lkey = s->attacker.lkey,
		.rkey = s->board->victim.rkey,
		.laddr = RAW_TRAFFIC_IOVA,
		.raddr = RAW_TRAFFIC_IOVA + ISOLATION_GUARDED,
		.bytes = 8,
	};

	expect_syndrome(s, &op, SHMD_SYNDROME_LOCAL_QP_OP_ERR);
}

/* Connected to the victim's QP, which is connected elsewhere, with the victim's own key: never answered. */
void isolation_try_address(struct isolation *s)
{
	struct raw_traffic *t = &s->attacker;
	struct raw_op op = {
		.lkey = t->lkey,
		.rkey = s->board->victim.rkey,
		.laddr = RAW_TRAFFIC_IOVA,
		.raddr = RAW_TRAFFIC_IOVA + ISOLATION_GUARDED,
		.bytes = 8,
	};

	t->params = (struct msg_qp_params){.timeout = 8, .retry_count = 1, .max_rd_atomic = 4};
	for (unsigned int i = 0; i < sizeof(opcodes); i++) {
		op.opcode = opcodes[i];
		pace(s);
		revive(t, &s->board->victim.qp);
		raw_traffic_post(t, &op);
		ASSERT_EQ(raw_traffic_poll(t), SHMD_CQE_REQ_ERR);
		ASSERT_EQ(raw_traffic_syndrome(t), SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	}
	t->params = (struct msg_qp_params){0};
	revive(t, &t->qp);
}

/* The victim's numbers in every request that takes one. */
void isolation_try_numbers(struct isolation *s)
{
	const struct raw_traffic *v = &s->board->victim;
	struct raw_client *raw = &s->attacker.raw;
	static const uint32_t states[] = {0, 1, 3, 6, 7};
	struct msg_peer peer = {.qpn = v->qp.qpn, .addr_bytes = s->attacker.qp.addr_bytes};
	struct msg req, rep;

	for (unsigned int i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		pace(s);
		modify(&s->attacker, v->qp.qpn, states[i], MSG_ERROR_REP);
	}
	msg_init(&req, MSG_QP_QUERY_REQ, 0);
	req.qp_query_req.qpn = v->qp.qpn;
	raw_expect(raw, &req, NULL, 0, MSG_ERROR_REP, &rep);
	memcpy(peer.addr, s->attacker.qp.addr, sizeof(peer.addr));
	msg_init(&req, MSG_CONNECT_REQ, 0);
	req.connect_req.n_peers = 1;
	req.connect_req.peers = &peer;
	raw_ask(raw, &req, NULL, 0, &rep);
	ASSERT(rep.kind == MSG_ERROR_REP || (rep.connect_rep.status != SHMD_STATUS_OK && !rep.connect_rep.n_done));
	raw_fill_create(&req, 1);
	req.queue_create_req.specs.qps[0].send_cqn = v->cq.cqn;
	req.queue_create_req.specs.qps[0].recv_cqn = v->cq.cqn;
	raw_expect_error(raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	/* Handles are the session's own: the same number may name its own object, and never the victim's. */
	msg_init(&req, MSG_MEM_DEREG_REQ, 0);
	req.mem_dereg_req.handle = v->mr ^ 0x10000000;
	raw_expect_error(raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	if (v->mr != s->attacker.mr) {
		req.mem_dereg_req.handle = v->mr;
		raw_expect_error(raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	}
	req.mem_dereg_req.handle = v->rkey;
	raw_expect_error(raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	msg_init(&req, MSG_QUEUE_DESTROY_REQ, 0);
	req.queue_destroy_req.handle = v->qp.qpn;
	raw_expect_error(raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
}

/* Every world but the right one; and the right one, to take away or to put something else there. */
void isolation_try_worlds(struct isolation *s)
{
	struct raw_client *raw = &s->attacker.raw;
	struct msg req, rep;

	for (int bit = 0; bit < 128; bit += 7) {
		pace(s);
		msg_init(&req, MSG_FETCH_REQ, 0);
		memcpy(req.fetch_req.world, s->board->world, 16);
		req.fetch_req.world[bit / 8] ^= (uint8_t)(1u << bit % 8);
		raw_expect_error(raw, &req, NULL, 0, SHMD_STATUS_NOT_PUBLISHED);
	}
	msg_init(&req, MSG_UNPUBLISH_REQ, 0);
	memcpy(req.unpublish_req.world, s->board->world, 16);
	raw_expect_error(raw, &req, NULL, 0, SHMD_STATUS_PERMISSION);
	msg_init(&req, MSG_PUBLISH_REQ, 0);
	memcpy(req.publish_req.key.world, s->board->world, 16);
	raw_expect(raw, &req, NULL, 0, MSG_ERROR_REP, &rep);
	ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_EXISTS);
}

static void try_wake(int fd)
{
	uint64_t one = 1, full = UINT64_MAX - 1, got;

	ASSERT_EQ(write(fd, &one, sizeof(one)), sizeof(one));
	while (read(fd, &got, sizeof(got)) == sizeof(got))
		;
	/* Filled to the brim, and made to block: only its own writes do. */
	ASSERT_EQ(write(fd, &full, sizeof(full)), sizeof(full));
	ASSERT_OK(fcntl(fd, F_SETFL, 0));
	ASSERT_OK(fcntl(fd, F_SETFL, O_NONBLOCK));
	ASSERT_EQ(read(fd, &got, sizeof(got)), sizeof(got));
}

/* Every word of every page that it was given, with the victim's number in it; and the wake descriptor, if any. */
void isolation_try_doorbells(struct isolation *s)
{
	for (uint32_t at = 0; at < SHMD_DB_PAGE_BYTES; at += 8)
		__atomic_store_n((uint64_t *)(s->attacker.doorbell_page + at),
				 htobe64((uint64_t)s->board->victim.qp.qpn << 8), __ATOMIC_RELEASE);
	if (s->attacker.wake_fd >= 0)
		try_wake(s->attacker.wake_fd);
}

/* ---- descriptors ------------------------------------------------------------------------------------------------------ */

/* Its size and its seals are what they are, through this descriptor and a new one. */
static void try_size(int fd)
{
	struct stat st;

	ASSERT_OK(fstat(fd, &st));
	ASSERT_EQ(ftruncate(fd, 0), -1);
	ASSERT_EQ(ftruncate(fd, st.st_size / 2), -1);
	ASSERT_EQ(ftruncate(fd, st.st_size + 4096), -1);
	ASSERT_EQ(fallocate(fd, 0, st.st_size, 4096), -1);
	ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	ASSERT_EQ(errno, EPERM);
}

static void try_to_write(int fd)
{
	uint64_t word = UINT64_MAX;
	void *at;

	ASSERT_EQ(mmap(NULL, SHMD_DB_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	ASSERT_EQ(pwrite(fd, &word, sizeof(word), 0), -1);
	ASSERT_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
	ASSERT_EQ(fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, 4096), -1);
	at = mmap(NULL, SHMD_DB_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(at, MAP_FAILED);
	ASSERT_EQ(mprotect(at, SHMD_DB_PAGE_BYTES, PROT_READ | PROT_WRITE), -1);
	ASSERT_EQ(madvise(at, SHMD_DB_PAGE_BYTES, MADV_REMOVE), -1);
	munmap(at, SHMD_DB_PAGE_BYTES);
}

/* There is nothing behind the end but the toucher's own death. */
static void try_behind(int fd)
{
	struct stat st;
	int status;
	pid_t pid;

	ASSERT_OK(fstat(fd, &st));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (pid == 0) {
		const struct rlimit no_core = {0};
		volatile uint8_t *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, st.st_size);

		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGBUS, SIG_DFL);
		_exit(at == MAP_FAILED ? 1 : at[0]);
	}
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT((WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) || (WIFEXITED(status) && WEXITSTATUS(status) == 1));
}

static void try_descriptor(int fd, bool read_only)
{
	char path[64];
	int again;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	try_size(fd);
	try_behind(fd);
	if (read_only)
		try_to_write(fd);
	if (again < 0)
		return;
	try_size(again);
	if (read_only)
		try_to_write(again);
	close(again);
}

/*
 * All clients may read the NIC's page. The others are its own: what it does to them harms itself alone. A command
 * descriptor is not a file.
 */
void isolation_try_descriptors(struct isolation *s)
{
	struct raw_traffic *t = &s->attacker;

	for (int i = 0; i < RAW_TRAFFIC_PAGES; i++) {
		pace(s);
		if (t->is_uar && i <= RAW_TRAFFIC_NIC_PAGE)
			continue;
		ASSERT_GE(t->page_fds[i], 0);
		try_descriptor(t->page_fds[i], i == RAW_TRAFFIC_NIC_PAGE);
	}
	if (!t->is_uar)
		ASSERT_OK(fallocate(t->page_fds[RAW_TRAFFIC_DOORBELL_PAGE],
				    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, SHMD_DB_PAGE_BYTES));
	ASSERT_OK(fallocate(t->page_fds[RAW_TRAFFIC_HEALTH_PAGE], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
	revive(t, &t->qp);
}

/* ---- lists ---------------------------------------------------------------------------------------------------------------- */

/* Does the packet hold the number, in any form that a codec of ours might have? */
static bool has_number(const uint8_t *packet, size_t bytes, uint32_t number)
{
	uint32_t forms[2] = {htole32(number), htobe32(number)};
	uint8_t varint[5];

	for (int i = 0; i < 5; i++)
		varint[i] = (uint8_t)((number >> 7 * i & 0x7f) | (i < 4 ? 0x80 : 0));
	return memmem(packet, bytes, &forms[0], 4) || memmem(packet, bytes, &forms[1], 4) ||
	       memmem(packet, bytes, varint, 5);
}

static void ask_for_list(struct isolation *s, struct raw_client *ctl, enum msg_list_what what)
{
	static uint8_t packet[FRAMING_MAX_PACKET_BYTES];
	const struct isolation_board *board = s->board;
	struct fdlist fds;
	struct msg req;
	size_t bytes;

	pace(s);
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = what;
	raw_send(ctl, &req, NULL, 0);
	fdlist_init(&fds);
	ASSERT_OK(framing_recv(ctl->sock, packet, sizeof(packet), &bytes, &fds));
	ASSERT_EQ(fds.n, 0);
	fdlist_deinit(&fds);
	ASSERT(!has_number(packet, bytes, board->victim.rkey) && !has_number(packet, bytes, board->victim.lkey));
	ASSERT(!memmem(packet, bytes, board->world, sizeof(board->world)) && !memmem(packet, bytes, "secret", 6));
	ASSERT(!memmem(packet, bytes, board->victim.qp.addr, board->victim.qp.addr_bytes));
}

void isolation_try_lists(struct isolation *s)
{
	struct raw_client ctl;
	struct msg req, rep;

	raw_connect(&ctl, s->daemon.socket);
	raw_hello(&ctl, MSG_ROLE_CONTROL);
	for (int what = MSG_LIST_SESSIONS; what <= MSG_LIST_NICS; what++)
		ask_for_list(s, &ctl, (enum msg_list_what)what);
	msg_init(&req, MSG_QP_MODIFY_REQ, 0);
	req.qp_modify_req = (struct msg_qp_modify_req){.qpn = s->board->victim.qp.qpn, .state = 6};
	raw_expect_error(&ctl, &req, NULL, 0, SHMD_STATUS_PERMISSION);
	msg_init(&req, MSG_FETCH_REQ, 0);
	memcpy(req.fetch_req.world, s->board->world, 16);
	raw_expect(&ctl, &req, NULL, 0, MSG_ERROR_REP, &rep);
	raw_close(&ctl);
}
