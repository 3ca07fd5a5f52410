/* SPDX-License-Identifier: Apache-2.0 */
/* DCTs and peers against a fake daemon: splitting over requests, and answers that make no sense. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libclient/objects.h"
#include "proto/status.h"
#include "tests/lib/test.h"
#include "tests/unit/client/fake-daemon.h"

#define N_MANY 1100u

enum spoil { SPOIL_NONE, SPOIL_NO_QP, SPOIL_NO_HANDLE, SPOIL_NO_ADDR, SPOIL_FEWER, SPOIL_MORE };

static struct {
	struct fake_daemon fake;
	enum spoil spoil;
	unsigned int n_resolves, n_resolved, n_destroyed;
	unsigned int fail_at; /* this address, from 1 over all requests, is refused */
	uint32_t traffic_class;
	struct msg_queue_create_req create;
} nic;
static struct shmd_client *client;
static struct shmd_nic *handle;

static void answer_open(uint64_t id)
{
	int fd = fake_memfd(4096);
	struct msg rep;

	msg_init(&rep, MSG_NIC_OPEN_REP, id);
	rep.nic_open_rep.nic = 5;
	rep.nic_open_rep.doorbell = 1;
	rep.nic_open_rep.info.max_log2_sq_wqebbs = 15;
	rep.nic_open_rep.info.max_log2_cq_entries = 22;
	fake_send(&nic.fake, &rep, &fd, 1);
	close(fd);
}

static void answer_create(const struct msg *req)
{
	struct msg_qp_info qp = {.qpn = 9, .addr_bytes = nic.spoil == SPOIL_NO_ADDR ? 0 : 5, .addr = {7, 7, 7, 7, 7}};
	struct msg_cq_info cq = {.cqn = 3};
	struct msg rep;
	int fd = fake_memfd(4096);

	nic.create = req->queue_create_req;
	msg_init(&rep, MSG_QUEUE_CREATE_REP, req->id);
	rep.queue_create_rep = (struct msg_queue_create_rep){.queues = nic.spoil == SPOIL_NO_HANDLE ? 0 : 77,
							     .mem_fd = 1,
							     .mem_bytes = 4096,
							     .n_cqs = 1,
							     .n_qps = nic.spoil == SPOIL_NO_QP ? 0 : 1,
							     .cqs = &cq,
							     .qps = &qp};
	fake_send(&nic.fake, &rep, &fd, 1);
	close(fd);
}

/* Entry i has number and key of where it stands in all. */
static void answer_resolve(const struct msg *req)
{
	const struct msg_peer_resolve_req *ask = &req->peer_resolve_req;
	struct msg_peer_entry *entries = calloc(MSG_MAX_PEERS, sizeof(*entries));
	struct msg_peer_resolve_rep *body;
	struct msg rep;
	unsigned int n = ask->n_addrs;

	ASSERT(entries);
	nic.n_resolves++;
	nic.traffic_class = ask->traffic_class;
	msg_init(&rep, MSG_PEER_RESOLVE_REP, req->id);
	body = &rep.peer_resolve_rep;
	body->entries = entries;
	if (nic.spoil == SPOIL_FEWER)
		n--;
	if (nic.spoil == SPOIL_MORE)
		n = MSG_MAX_PEERS;
	for (; body->n_entries < n; body->n_entries++) {
		struct msg_peer_entry *entry = &entries[body->n_entries];

		if (nic.n_resolved + 1 == nic.fail_at) {
			body->status = SHMD_STATUS_UNREACHABLE;
			break;
		}
		entry->dctn = ++nic.n_resolved;
		entry->dc_key = 1000 + entry->dctn;
		memset(entry->av, (int)entry->dctn, sizeof(entry->av));
	}
	fake_send(&nic.fake, &rep, NULL, 0);
	free(entries);
}

static void answer(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	switch (req->kind) {
	case MSG_NIC_OPEN_REQ:
		answer_open(req->id);
		break;
	case MSG_QUEUE_CREATE_REQ:
		answer_create(req);
		break;
	case MSG_PEER_RESOLVE_REQ:
		answer_resolve(req);
		break;
	case MSG_QUEUE_DESTROY_REQ:
		ASSERT_EQ(req->queue_destroy_req.handle, 77u);
		nic.n_destroyed++;
		fake_send_ok(fake, req->id);
		break;
	default:
		test_fail(TEST_WHERE, "unexpected %s", msg_kind_name(req->kind));
	}
}

static void open_nic(void)
{
	memset(&nic, 0, sizeof(nic));
	nic.fake.handle = answer;
	ASSERT_OK(fake_open(&nic.fake, NULL, &client));
	ASSERT_OK(shmd_nic_open(client, NULL, &handle));
}

static void close_nic(void)
{
	shmd_client_close(client);
	fake_join(&nic.fake);
}

TEST(a_dct_is_asked_for_without_rings)
{
	struct shmd_addr addr;
	struct shmd_dct *dct;

	open_nic();
	ASSERT_OK(shmd_dct_create(handle, 0, &dct));
	ASSERT_EQ(nic.create.nic, 5u);
	ASSERT_EQ(nic.create.specs.n_qps, 1u);
	/* An ordinary CQ, of as many entries as others give a DCT. */
	ASSERT_EQ(nic.create.specs.cqs[0].flags, 2u);
	ASSERT_EQ(nic.create.specs.cqs[0].log2_entries, 12u);
	ASSERT_EQ(nic.create.specs.qps[0].type, 3u);
	ASSERT_EQ(nic.create.specs.qps[0].log2_sq_wqebbs, 0u);
	ASSERT_EQ(nic.create.specs.qps[0].access, 0xeu);
	ASSERT_OK(shmd_dct_addr(dct, &addr));
	ASSERT_EQ(addr.bytes, 5u);
	ASSERT_EQ(addr.data[4], 7);
	ASSERT_ERR(shmd_nic_close(handle), EBUSY);
	ASSERT_OK(shmd_dct_destroy(dct));
	ASSERT_EQ(nic.n_destroyed, 1u);
	ASSERT_OK(shmd_dct_create(handle, SHMD_ACCESS_REMOTE_READ, &dct));
	ASSERT_EQ(nic.create.specs.qps[0].access, SHMD_ACCESS_REMOTE_READ);
	ASSERT_ERR(shmd_dct_create(handle, SHMD_ACCESS_LOCAL_WRITE, &dct), EINVAL);
	ASSERT_ERR(shmd_dct_create(NULL, 0, &dct), EINVAL);
	ASSERT_ERR(shmd_dct_create(handle, 0, NULL), EINVAL);
	ASSERT_ERR(shmd_dct_addr(NULL, &addr), EINVAL);
	ASSERT_ERR(shmd_dct_destroy(NULL), EINVAL);
	/* The one that is left goes with the client. */
	close_nic();
}

TEST(dcts_that_make_no_sense_are_not_believed)
{
	struct shmd_dct *dct;

	open_nic();
	for (enum spoil spoil = SPOIL_NO_QP; spoil <= SPOIL_NO_ADDR; spoil++) {
		nic.spoil = spoil;
		ASSERT_ERR(shmd_dct_create(handle, 0, &dct), EPROTO);
	}
	ASSERT_OK(shmd_nic_close(handle));
	close_nic();
}

static struct shmd_addr addrs[N_MANY];
static struct shmd_dev_peer peers[N_MANY + 1];

static void resolve_n(unsigned int n, int err, unsigned int n_done)
{
	unsigned int done = 99999;

	for (unsigned int i = 0; i < N_MANY; i++)
		addrs[i] = (struct shmd_addr){.bytes = 3, .data = {1, 2, 3}};
	memset(peers, 0, sizeof(peers));
	nic.n_resolves = nic.n_resolved = 0;
	ASSERT_EQ(shmd_peers_resolve(handle, n, addrs, 200, peers, &done), -err);
	ASSERT_EQ(done, n_done);
	for (unsigned int i = 0; i < n_done; i++) {
		ASSERT_EQ(peers[i].dctn, i + 1);
		ASSERT_EQ(peers[i].dc_key, 1001u + i);
		ASSERT_EQ(peers[i].nic, 5u);
		ASSERT_EQ(peers[i].av[47], (uint8_t)(i + 1));
	}
	/* Nothing behind them is touched. */
	ASSERT_EQ(peers[n_done].dctn, 0u);
}

TEST(resolve_is_split_and_counts_what_is_done)
{
	open_nic();
	resolve_n(N_MANY, 0, N_MANY);
	ASSERT_EQ(nic.n_resolves, 3u);
	ASSERT_EQ(nic.traffic_class, 200u);
	resolve_n(0, 0, 0);
	ASSERT_EQ(nic.n_resolves, 0u);
	nic.fail_at = 600;
	resolve_n(N_MANY, EHOSTUNREACH, 599);
	ASSERT(strstr(shmd_error_text(), "address 599 of the call"));
	ASSERT_ERR(shmd_peers_resolve(handle, 1, NULL, 0, peers, NULL), EINVAL);
	ASSERT_ERR(shmd_peers_resolve(handle, 1, addrs, 0, NULL, NULL), EINVAL);
	ASSERT_ERR(shmd_peers_resolve(NULL, 1, addrs, 0, peers, NULL), EINVAL);
	addrs[0].bytes = SHMD_ADDR_BYTES + 1;
	ASSERT_ERR(shmd_peers_resolve(handle, 1, addrs, 0, peers, NULL), EINVAL);
	close_nic();
}

TEST(replies_with_more_or_fewer_peers_write_no_more_than_was_asked_for)
{
	open_nic();
	nic.spoil = SPOIL_FEWER;
	resolve_n(10, EPROTO, 9);
	nic.spoil = SPOIL_MORE;
	resolve_n(10, EPROTO, 10);
	close_nic();
}
