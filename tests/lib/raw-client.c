/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/raw-client.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/framing.h"
#include "tests/lib/test.h"

void raw_connect(struct raw_client *raw, const char *path)
{
	*raw = (struct raw_client){.sock = framing_connect(path)};
	ASSERT_GE(raw->sock, 0);
}

void raw_close(struct raw_client *raw)
{
	if (raw->sock >= 0)
		close(raw->sock);
	raw->sock = -1;
}

void raw_send_bytes(struct raw_client *raw, const void *buf, size_t bytes, const int *fds,
		    unsigned int n_fds)
{
	ASSERT_OK(framing_send(raw->sock, buf, bytes, fds, n_fds));
	if (raw->pump)
		raw->pump(raw->pump_arg);
}

void raw_send(struct raw_client *raw, struct msg *msg, const int *fds, unsigned int n_fds)
{
	static uint8_t buf[FRAMING_MAX_PACKET_BYTES];
	int bytes;

	msg->id = ++raw->last_id;
	msg->n_fds = n_fds;
	bytes = msg_encode(msg, buf, sizeof(buf));
	ASSERT_GT(bytes, 0);
	raw_send_bytes(raw, buf, (size_t)bytes, fds, n_fds);
}

/* Here and now: another thread, as for a stranger's descriptors, might not be done when the test ends. */
static void close_all(struct fdlist *fds)
{
	for (unsigned int i = 0; i < fds->n; i++)
		close(fds->fds[i]);
	fdlist_init(fds);
}

int raw_recv(struct raw_client *raw, struct msg *ret_msg, struct fdlist *fds)
{
	static uint8_t buf[FRAMING_MAX_PACKET_BYTES];
	struct fdlist own;
	size_t bytes;
	int r;

	fdlist_init(&own);
	r = framing_recv(raw->sock, buf, sizeof(buf), &bytes, fds ? fds : &own);
	if (r == 0) {
		ASSERT_OK(msg_decode(buf, bytes, ret_msg));
		ASSERT_EQ(ret_msg->n_fds, fds ? fds->n : own.n);
	}
	close_all(&own);
	return r;
}

void raw_ask(struct raw_client *raw, struct msg *req, const int *fds, unsigned int n_fds, struct msg *rep)
{
	raw_send(raw, req, fds, n_fds);
	do
		ASSERT_OK(raw_recv(raw, rep, NULL));
	while (rep->kind == MSG_EVENT && rep->event.kind != MSG_EVENT_SESSION_END);
	ASSERT_EQ(rep->id, req->id);
}

int raw_try(struct raw_client *raw, struct msg *req, struct msg *rep)
{
	static uint8_t buf[FRAMING_MAX_PACKET_BYTES];
	int r;

	req->id = ++raw->last_id;
	req->n_fds = 0;
	r = msg_encode(req, buf, sizeof(buf));
	ASSERT_GT(r, 0);
	r = framing_send(raw->sock, buf, (size_t)r, NULL, 0);
	return r < 0 ? r : raw_recv(raw, rep, NULL);
}

void raw_expect(struct raw_client *raw, struct msg *req, const int *fds, unsigned int n_fds,
		enum msg_kind kind, struct msg *rep)
{
	raw_ask(raw, req, fds, n_fds, rep);
	if (rep->kind == MSG_ERROR_REP && kind != MSG_ERROR_REP)
		test_fail(TEST_WHERE, "%s was refused with %s: %s", msg_kind_name(req->kind),
			  status_name(rep->error_rep.status), rep->error_rep.text);
	ASSERT_STREQ(msg_kind_name(rep->kind), msg_kind_name(kind));
}

void raw_expect_error(struct raw_client *raw, struct msg *req, const int *fds, unsigned int n_fds,
		      enum shmd_status status)
{
	struct msg rep;

	raw_expect(raw, req, fds, n_fds, MSG_ERROR_REP, &rep);
	if (rep.error_rep.status != status)
		test_fail(TEST_WHERE, "%s was refused with %s and not %s: %s", msg_kind_name(req->kind),
			  status_name(rep.error_rep.status), status_name(status), rep.error_rep.text);
	ASSERT_NE(rep.error_rep.text[0], 0);
}

void raw_expect_end(struct raw_client *raw, enum shmd_status status)
{
	struct msg msg;

	ASSERT_OK(raw_recv(raw, &msg, NULL));
	if (msg.kind == MSG_ERROR_REP) {
		ASSERT_STREQ(status_name(msg.error_rep.status), status_name(status));
		ASSERT_OK(raw_recv(raw, &msg, NULL));
	}
	ASSERT_EQ(msg.kind, MSG_EVENT);
	ASSERT_EQ(msg.event.kind, MSG_EVENT_SESSION_END);
	ASSERT_STREQ(status_name(msg.event.detail), status_name(status));
}

static void say_hello(struct raw_client *raw, enum msg_role role, bool resumes)
{
	struct msg req, rep;

	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req.version_min = SHMD_PROTOCOL_VERSION_MIN;
	req.hello_req.version_max = SHMD_PROTOCOL_VERSION_MAX;
	req.hello_req.role = role;
	req.hello_req.resumes = resumes;
	snprintf(req.hello_req.library, sizeof(req.hello_req.library), "raw client");
	raw_expect(raw, &req, NULL, 0, MSG_HELLO_REP, &rep);
}

void raw_hello(struct raw_client *raw, enum msg_role role)
{
	say_hello(raw, role, false);
}

void raw_hello_resumes(struct raw_client *raw)
{
	say_hello(raw, MSG_ROLE_CLIENT, true);
}

int raw_memfd(size_t bytes)
{
	int fd = memfd_create("raw-client", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ASSERT_GE(fd, 0);
	ASSERT_OK(ftruncate(fd, (off_t)bytes));
	ASSERT_OK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
	return fd;
}

void raw_open_nic(struct raw_client *raw, const char *name)
{
	struct msg req, rep;

	msg_init(&req, MSG_NIC_OPEN_REQ, 0);
	snprintf(req.nic_open_req.nic, sizeof(req.nic_open_req.nic), "%s", name);
	raw_expect(raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
}

uint32_t raw_reg(struct raw_client *raw, uint64_t bytes)
{
	struct msg req, rep;
	int fd = raw_memfd(bytes);

	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){
		.kind = MSG_MEM_MEMFD, .access = 0xf, .length_bytes = bytes, .iova = 0x10000};
	raw_expect(raw, &req, &fd, 1, MSG_MEM_REG_REP, &rep);
	close(fd);
	return rep.mem_reg_rep.mr;
}

void raw_fill_create(struct msg *msg, uint32_t n_qps)
{
	struct msg_queue_specs *specs = &msg->queue_create_req.specs;

	msg_init(msg, MSG_QUEUE_CREATE_REQ, 0);
	specs->n_cqs = 1;
	specs->cqs[0] = (struct msg_cq_spec){.count = 1, .log2_entries = 6};
	specs->n_qps = n_qps > 0;
	specs->qps[0] = (struct msg_qp_spec){.count = n_qps, .type = 1, .log2_sq_wqebbs = 4};
}

void raw_create_queues(struct raw_client *raw, uint32_t n_qps, struct msg *rep)
{
	struct msg req;

	raw_fill_create(&req, n_qps);
	raw_expect(raw, &req, NULL, 0, MSG_QUEUE_CREATE_REP, rep);
}

void raw_status(struct raw_client *raw, struct msg_status_rep *ret_status)
{
	struct msg req, rep;

	msg_init(&req, MSG_STATUS_REQ, 0);
	raw_expect(raw, &req, NULL, 0, MSG_STATUS_REP, &rep);
	*ret_status = rep.status_rep;
}
