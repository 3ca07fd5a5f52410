/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/session/lab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/framing.h"
#include "tests/lib/test.h"

static void on_attention(void *arg, struct session *session)
{
	struct lab *lab = arg;

	lab->n_attentions++;
}

void lab_init(struct lab *lab, uint64_t limit)
{
	struct registry_attr attr = {
		.daemon = "shmemd under test",
		.quiesce_nsec = 1000000,
		.hooks = {.arg = lab, .attention = on_attention},
	};

	for (int i = 0; i < QUOTA_N; i++)
		attr.limits.n[i] = limit;
	attr.limits.n[QUOTA_BYTES] = limit << 20;
	lab->n_attentions = 0;
	ASSERT_OK(registry_init(&lab->registry, &attr));
	for (int i = 0; i < 2; i++) {
		fake_nic_init(&lab->nics[i], i == 0 ? "fake0" : "fake1");
		ASSERT_OK(registry_add_nic(&lab->registry, &lab->nics[i].base));
	}
}

void lab_deinit(struct lab *lab)
{
	registry_deinit(&lab->registry);
}

void lab_assert_empty(const struct lab *lab)
{
	for (int i = 0; i < QUOTA_N; i++)
		ASSERT_EQ(lab->registry.quota.total.n[i], 0);
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(lab->nics[i].n_ctxs, 0);
		ASSERT_EQ(lab->nics[i].n_mrs, 0);
		ASSERT_EQ(lab->nics[i].n_queues, 0);
		ASSERT_EQ(lab->registry.nics[i].n_sessions, 0);
		ASSERT_EQ(lab->registry.nics[i].n_qps, 0);
	}
	ASSERT(list_empty(&lab->registry.sessions));
	ASSERT(list_empty(&lab->registry.quota.uids));
	ASSERT(list_empty(&lab->registry.quota.cgroups));
}

void pair_init(struct pair *pair, struct lab *lab)
{
	int socks[2];

	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, socks));
	*pair = (struct pair){.sock = socks[1]};
	ASSERT_OK(session_new(&lab->registry, socks[0], &pair->session));
	/* Any owner will do: the hook is the lab's. */
	pair->session->owner = pair;
}

void pair_init_hello(struct pair *pair, struct lab *lab, enum msg_role role)
{
	struct msg req, rep;

	pair_init(pair, lab);
	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req.version_min = req.hello_req.version_max = 1;
	req.hello_req.role = role;
	snprintf(req.hello_req.library, sizeof(req.hello_req.library), "lab");
	pair_expect(pair, &req, NULL, 0, MSG_HELLO_REP, &rep);
	msg_deinit(&rep);
}

void pair_deinit(struct pair *pair)
{
	pair->session = session_free(pair->session);
	if (pair->sock >= 0)
		close(pair->sock);
	pair->sock = -1;
}

void pair_send_bytes(struct pair *pair, const void *buf, size_t bytes, const int *fds,
		     unsigned int n_fds)
{
	ASSERT_OK(framing_send(pair->sock, buf, bytes, fds, n_fds));
	session_readable(pair->session);
}

void pair_send(struct pair *pair, struct msg *msg, const int *fds, unsigned int n_fds)
{
	static uint8_t buf[FRAMING_MAX_PACKET_BYTES];
	int bytes;

	msg->id = ++pair->last_id;
	msg->n_fds = n_fds;
	bytes = msg_encode(msg, buf, sizeof(buf));
	ASSERT_GT(bytes, 0);
	pair_send_bytes(pair, buf, (size_t)bytes, fds, n_fds);
}

int pair_recv(struct pair *pair, struct msg *ret_msg, struct fdlist *fds)
{
	static uint8_t buf[FRAMING_MAX_PACKET_BYTES];
	struct fdlist own;
	size_t bytes;
	int r;

	fdlist_init(&own);
	r = framing_recv(pair->sock, buf, sizeof(buf), &bytes, fds ? fds : &own);
	if (r == 0) {
		r = msg_decode(buf, bytes, ret_msg);
		ASSERT_OK(r);
		ASSERT_EQ(ret_msg->n_fds, fds ? fds->n : own.n);
	}
	fdlist_deinit(&own);
	return r;
}

void pair_ask(struct pair *pair, struct msg *req, const int *fds, unsigned int n_fds, struct msg *rep)
{
	pair_send(pair, req, fds, n_fds);
	ASSERT_OK(pair_recv(pair, rep, NULL));
	ASSERT_EQ(rep->id, req->id);
}

void pair_expect(struct pair *pair, struct msg *req, const int *fds, unsigned int n_fds,
		 enum msg_kind kind, struct msg *rep)
{
	pair_ask(pair, req, fds, n_fds, rep);
	if (rep->kind == MSG_ERROR_REP && kind != MSG_ERROR_REP)
		test_fail(TEST_WHERE, "refused: %s", rep->error_rep.text);
	ASSERT_EQ(rep->kind, kind);
}

void pair_expect_error(struct pair *pair, struct msg *req, const int *fds, unsigned int n_fds,
		       enum shmd_status status)
{
	struct msg rep;

	pair_expect(pair, req, fds, n_fds, MSG_ERROR_REP, &rep);
	if (rep.error_rep.status != status)
		test_fail(TEST_WHERE, "refused with %s and not %s: %s",
			  status_name(rep.error_rep.status), status_name(status), rep.error_rep.text);
	ASSERT_NE(rep.error_rep.text[0], 0);
}

void pair_expect_end(struct pair *pair, enum shmd_status status)
{
	struct msg msg;

	ASSERT_OK(pair_recv(pair, &msg, NULL));
	if (msg.kind == MSG_ERROR_REP) {
		ASSERT_EQ(msg.error_rep.status, status);
		ASSERT_OK(pair_recv(pair, &msg, NULL));
	}
	ASSERT_EQ(msg.kind, MSG_EVENT);
	ASSERT_EQ(msg.event.kind, MSG_EVENT_SESSION_END);
	ASSERT_EQ(msg.event.detail, status);
	ASSERT(pair->session->ended);
}

void pair_open_nic(struct pair *pair, const char *name)
{
	struct msg req, rep;

	msg_init(&req, MSG_NIC_OPEN_REQ, 0);
	snprintf(req.nic_open_req.nic, sizeof(req.nic_open_req.nic), "%s", name);
	pair_expect(pair, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
}

int pair_memfd(size_t bytes)
{
	int fd = memfd_create("lab", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ASSERT_GE(fd, 0);
	ASSERT_OK(ftruncate(fd, (off_t)bytes));
	ASSERT_OK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	return fd;
}

uint32_t pair_reg(struct pair *pair, uint64_t bytes)
{
	struct msg req, rep;
	int fd = pair_memfd(bytes);

	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){
		.kind = MSG_MEM_MEMFD, .access = NIC_ACCESS_ALL, .length_bytes = bytes, .iova = 0x10000};
	pair_expect(pair, &req, &fd, 1, MSG_MEM_REG_REP, &rep);
	close(fd);
	return rep.mem_reg_rep.mr;
}

void fill_create(struct msg *msg, uint32_t n_qps)
{
	struct msg_queue_specs *specs = &msg->queue_create_req.specs;

	msg_init(msg, MSG_QUEUE_CREATE_REQ, 0);
	specs->n_cqs = 1;
	specs->cqs[0] = (struct msg_cq_spec){.count = 1, .log2_entries = 6};
	specs->n_qps = n_qps > 0;
	specs->qps[0] = (struct msg_qp_spec){.count = n_qps, .type = NIC_QP_RC, .log2_sq_wqebbs = 4};
}

void pair_create_queues(struct pair *pair, uint32_t n_qps, struct msg *rep)
{
	struct msg req;

	fill_create(&req, n_qps);
	pair_expect(pair, &req, NULL, 0, MSG_QUEUE_CREATE_REP, rep);
}
