/* SPDX-License-Identifier: Apache-2.0 */
/* Every request once, against a real daemon with soft NICs. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <shmd/abi/cqe.h>

#include "tests/lib/fixture-daemon.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/system/raw-traffic.h"

TEST(version_mismatch_is_reported_and_ends_the_session)
{
	struct fixture_daemon daemon;
	struct raw_client raw;
	struct msg req, rep;

	fixture_daemon_start(&daemon, NULL);
	raw_connect(&raw, daemon.socket);
	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = (struct msg_hello_req){
		.version_min = 1000, .version_max = 2000, .role = MSG_ROLE_CLIENT};
	raw_expect(&raw, &req, NULL, 0, MSG_ERROR_REP, &rep);
	ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_VERSION);
	ASSERT(strstr(rep.error_rep.text, "the client 1000 to 2000"));
	raw_expect_end(&raw, SHMD_STATUS_VERSION);
	raw_close(&raw);
	fixture_daemon_assert_alive(&daemon);
	fixture_daemon_stop(&daemon);
}

TEST(nics_are_listed_and_spread)
{
	struct fixture_daemon daemon;
	struct raw_client a, b;
	struct msg req, rep;
	char first[MSG_NAME_BYTES];

	fixture_daemon_start(&daemon, "--soft-nics=3", NULL);
	raw_connect(&a, daemon.socket);
	raw_hello(&a, MSG_ROLE_CLIENT);
	msg_init(&req, MSG_NIC_LIST_REQ, 0);
	raw_expect(&a, &req, NULL, 0, MSG_NIC_LIST_REP, &rep);
	ASSERT_EQ(rep.nic_list_rep.n_nics, 3);
	ASSERT_STREQ(rep.nic_list_rep.nics[2].name, "soft2");
	ASSERT_STREQ(rep.nic_list_rep.nics[2].backend, "soft");
	ASSERT_EQ(rep.nic_list_rep.nics[0].mem_kinds[0], MSG_MEM_MEMFD);
	msg_deinit(&rep);

	msg_init(&req, MSG_NIC_OPEN_REQ, 0);
	raw_expect(&a, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
	memcpy(first, rep.nic_open_rep.info.name, sizeof(first));
	raw_connect(&b, daemon.socket);
	raw_hello(&b, MSG_ROLE_CLIENT);
	raw_expect(&b, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
	ASSERT_NE(strcmp(first, rep.nic_open_rep.info.name), 0);
	snprintf(req.nic_open_req.nic, sizeof(req.nic_open_req.nic), "%s", first);
	raw_expect_error(&a, &req, NULL, 0, SHMD_STATUS_EXISTS);
	raw_close(&a);
	raw_close(&b);
	fixture_daemon_stop(&daemon);
}

TEST(bytes_written_through_the_queue_arrive_and_are_counted)
{
	struct fixture_daemon daemon;
	struct raw_traffic t;
	struct msg req, rep;

	fixture_daemon_start(&daemon, NULL);
	raw_traffic_init(&t, daemon.socket);
	for (int i = 0; i < 100; i++) {
		memset(t.heap, i, 4096);
		raw_traffic_write(&t, 8192, 0, 4096);
		ASSERT_EQ(raw_traffic_poll(&t), SHMD_CQE_REQ);
		ASSERT_MEMEQ(t.heap + 8192, t.heap, 4096);
	}
	msg_init(&req, MSG_COUNTERS_REQ, 0);
	raw_expect(&t.raw, &req, NULL, 0, MSG_COUNTERS_REP, &rep);
	ASSERT_EQ(rep.counters_rep.counters.wqes, 100);
	ASSERT_EQ(rep.counters_rep.counters.wqes_by_kind[1], 100);
	ASSERT_EQ(rep.counters_rep.counters.bytes_sent, 409600);
	msg_init(&req, MSG_QP_QUERY_REQ, 0);
	req.qp_query_req.qpn = t.qp.qpn;
	raw_expect(&t.raw, &req, NULL, 0, MSG_QP_QUERY_REP, &rep);
	ASSERT_EQ(rep.qp_query_rep.state, 3);
	ASSERT_EQ(rep.qp_query_rep.dest_qpn, t.qp.qpn);
	ASSERT_EQ(rep.qp_query_rep.sq_ci, 100);
	raw_traffic_deinit(&t);
	fixture_daemon_stop(&daemon);
}

TEST(error_is_reported_by_cqe_and_by_event)
{
	struct fixture_daemon daemon;
	struct raw_traffic t;
	struct msg msg, req;

	fixture_daemon_start(&daemon, NULL);
	raw_traffic_init(&t, daemon.socket);
	raw_traffic_write(&t, RAW_TRAFFIC_HEAP_BYTES, 0, 64);
	ASSERT_EQ(raw_traffic_poll(&t), SHMD_CQE_REQ_ERR);
	ASSERT_OK(raw_recv(&t.raw, &msg, NULL));
	ASSERT_EQ(msg.kind, MSG_EVENT);
	ASSERT_EQ(msg.event.kind, MSG_EVENT_QP_ERROR);
	ASSERT_EQ(msg.event.number, t.qp.qpn);
	/* The QP is its own peer: its responder or its requester tells first. */
	ASSERT(msg.event.detail == SHMD_SYNDROME_REMOTE_ACCESS_ERR ||
	       msg.event.detail == SHMD_SYNDROME_LOCAL_ACCESS_ERR);
	msg_init(&req, MSG_QP_QUERY_REQ, 0);
	req.qp_query_req.qpn = t.qp.qpn;
	raw_expect(&t.raw, &req, NULL, 0, MSG_QP_QUERY_REP, &msg);
	ASSERT_EQ(msg.qp_query_rep.state, 6);
	raw_traffic_deinit(&t);
	fixture_daemon_stop(&daemon);
}

TEST(state_changes_reset_and_connect_again)
{
	static const uint32_t states[] = {7, 3, 6, 0, 1};
	struct msg_peer peer = {0};
	struct fixture_daemon daemon;
	struct raw_traffic t;
	struct msg req, rep;

	fixture_daemon_start(&daemon, NULL);
	raw_traffic_init(&t, daemon.socket);
	for (unsigned int i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		msg_init(&req, MSG_QP_MODIFY_REQ, 0);
		req.qp_modify_req = (struct msg_qp_modify_req){.qpn = t.qp.qpn, .state = states[i]};
		raw_expect(&t.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	}
	req.qp_modify_req.state = 3;
	raw_expect_error(&t.raw, &req, NULL, 0, SHMD_STATUS_QP_STATE);
	peer.qpn = t.qp.qpn;
	peer.addr_bytes = t.qp.addr_bytes;
	memcpy(peer.addr, t.qp.addr, sizeof(peer.addr));
	msg_init(&req, MSG_CONNECT_REQ, 0);
	req.connect_req.n_peers = 1;
	req.connect_req.peers = &peer;
	raw_expect(&t.raw, &req, NULL, 0, MSG_CONNECT_REP, &rep);
	ASSERT_EQ(rep.connect_rep.status, 0);
	raw_expect(&t.raw, &req, NULL, 0, MSG_CONNECT_REP, &rep);
	ASSERT_EQ(rep.connect_rep.status, SHMD_STATUS_QP_STATE);
	ASSERT_EQ(rep.connect_rep.n_done, 0);
	raw_traffic_deinit(&t);
	fixture_daemon_stop(&daemon);
}

TEST(thousand_qps_are_listed_and_gone_when_destroyed)
{
	struct fixture_daemon daemon;
	struct msg_status_rep status;
	struct raw_client raw;
	struct msg req, rep;
	uint32_t handles[4];

	fixture_daemon_start(&daemon, NULL);
	raw_connect(&raw, daemon.socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	raw_open_nic(&raw, "");
	for (int i = 0; i < 4; i++) {
		raw_create_queues(&raw, 250, &rep);
		handles[i] = rep.queue_create_rep.queues;
		msg_deinit(&rep);
	}
	raw_status(&raw, &status);
	ASSERT_EQ(status.n_qps, 1000);
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_QPS;
	for (unsigned int n = 0; n < 1000; req.list_req.cursor = rep.list_rep.next_cursor) {
		raw_expect(&raw, &req, NULL, 0, MSG_LIST_REP, &rep);
		n += rep.list_rep.n_qps;
		ASSERT_EQ(rep.list_rep.next_cursor == 0, n == 1000);
		msg_deinit(&rep);
	}
	for (int i = 0; i < 4; i++) {
		msg_init(&req, MSG_QUEUE_DESTROY_REQ, 0);
		req.queue_destroy_req.handle = handles[i];
		raw_expect(&raw, &req, NULL, 0, MSG_OK_REP, &rep);
	}
	raw_status(&raw, &status);
	ASSERT_EQ(status.n_qps, 0);
	ASSERT_EQ(status.registered_bytes, 0);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}

/* The second batch uses the first one's CQ. */
TEST(batch_in_use_is_busy)
{
	struct fixture_daemon daemon;
	struct raw_client raw;
	struct msg req, rep;
	uint32_t first, second;

	fixture_daemon_start(&daemon, NULL);
	raw_connect(&raw, daemon.socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	raw_open_nic(&raw, "");
	raw_create_queues(&raw, 1, &rep);
	first = rep.queue_create_rep.queues;
	raw_fill_create(&req, 1);
	req.queue_create_req.specs.n_cqs = 0;
	req.queue_create_req.specs.qps[0].send_cqn = rep.queue_create_rep.cqs[0].cqn;
	req.queue_create_req.specs.qps[0].recv_cqn = rep.queue_create_rep.cqs[0].cqn;
	msg_deinit(&rep);
	raw_expect(&raw, &req, NULL, 0, MSG_QUEUE_CREATE_REP, &rep);
	second = rep.queue_create_rep.queues;
	msg_deinit(&rep);
	msg_init(&req, MSG_QUEUE_DESTROY_REQ, 0);
	req.queue_destroy_req.handle = first;
	raw_expect_error(&raw, &req, NULL, 0, SHMD_STATUS_BUSY);
	req.queue_destroy_req.handle = second;
	raw_expect(&raw, &req, NULL, 0, MSG_OK_REP, &rep);
	req.queue_destroy_req.handle = first;
	raw_expect(&raw, &req, NULL, 0, MSG_OK_REP, &rep);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}

/* Memory published by one process is mapped by another. */
TEST(published_memory_is_shared)
{
	struct msg_world_key key = {.world = "0123456789abcde", .pe = 3, .slot = 9};
	int fd = raw_memfd(4096);
	struct fixture_daemon daemon;
	struct raw_client a, b;
	struct msg req, rep;
	struct fdlist fds;
	char text[8];

	fixture_daemon_start(&daemon, NULL);
	raw_connect(&a, daemon.socket);
	raw_hello(&a, MSG_ROLE_CLIENT);
	raw_connect(&b, daemon.socket);
	raw_hello(&b, MSG_ROLE_CLIENT);
	msg_init(&req, MSG_PUBLISH_REQ, 0);
	req.publish_req = (struct msg_publish_req){
		.key = key, .has_fd = true, .data_bytes = 4, .data = "data"};
	raw_expect(&a, &req, &fd, 1, MSG_OK_REP, &rep);
	ASSERT_EQ(pwrite(fd, "written", 8, 0), 8);
	msg_init(&req, MSG_FETCH_REQ, 0);
	req.fetch_req = key;
	raw_send(&b, &req, NULL, 0);
	fdlist_init(&fds);
	ASSERT_OK(raw_recv(&b, &rep, &fds));
	ASSERT_EQ(rep.kind, MSG_FETCH_REP);
	ASSERT_EQ(pread(fdlist_get(&fds, 0), text, 8, 0), 8);
	ASSERT_STREQ(text, "written");
	fdlist_deinit(&fds);
	req.kind = MSG_UNPUBLISH_REQ;
	raw_expect(&a, &req, NULL, 0, MSG_OK_REP, &rep);
	req.kind = MSG_FETCH_REQ;
	raw_expect_error(&b, &req, NULL, 0, SHMD_STATUS_NOT_PUBLISHED);
	close(fd);
	raw_close(&a);
	raw_close(&b);
	fixture_daemon_stop(&daemon);
}

TEST(session_is_listed_with_its_facts)
{
	struct fixture_daemon daemon;
	const struct msg_session_item *item;
	struct raw_client ctl;
	struct raw_traffic t;
	struct msg req, rep;

	fixture_daemon_start(&daemon, NULL);
	raw_traffic_init(&t, daemon.socket);
	raw_connect(&ctl, daemon.socket);
	raw_hello(&ctl, MSG_ROLE_CONTROL);
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_SESSIONS;
	raw_expect(&ctl, &req, NULL, 0, MSG_LIST_REP, &rep);
	ASSERT_EQ(rep.list_rep.n_sessions, 1);
	item = &rep.list_rep.sessions[0];
	ASSERT_EQ(item->uid, geteuid());
	ASSERT_EQ(item->gid, getegid());
	ASSERT_EQ(item->pid, getpid());
	ASSERT_STREQ(item->command, "test-protocol");
	ASSERT_STREQ(item->library, "raw client");
	ASSERT_STREQ(item->nics, "soft0");
	ASSERT_STREQ(item->doorbell, "cpu");
	ASSERT_EQ(item->n_qps, 1);
	ASSERT_EQ(item->n_cqs, 1);
	ASSERT_EQ(item->n_mrs, 1);
	ASSERT_EQ(item->registered_bytes, RAW_TRAFFIC_HEAP_BYTES + t.queue_mem_bytes);
	msg_deinit(&rep);
	req.list_req.what = MSG_LIST_MRS;
	raw_expect(&ctl, &req, NULL, 0, MSG_LIST_REP, &rep);
	ASSERT_EQ(rep.list_rep.n_mrs, 1);
	ASSERT_EQ(rep.list_rep.mrs[0].iova, RAW_TRAFFIC_IOVA);
	msg_deinit(&rep);
	req.list_req.what = MSG_LIST_NICS;
	raw_expect(&ctl, &req, NULL, 0, MSG_LIST_REP, &rep);
	ASSERT_EQ(rep.list_rep.n_nics, 2);
	ASSERT_EQ(rep.list_rep.nics[0].n_sessions, 1);
	ASSERT_EQ(rep.list_rep.nics[0].n_qps, 1);
	msg_deinit(&rep);
	raw_close(&ctl);
	raw_traffic_deinit(&t);
	fixture_daemon_stop(&daemon);
}

TEST(stop_tells_clients_and_their_health_pages)
{
	struct fixture_daemon daemon;
	struct raw_client raw;

	fixture_daemon_start(&daemon, NULL);
	raw_connect(&raw, daemon.socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	raw_open_nic(&raw, "");
	fixture_daemon_stop(&daemon);
	raw_expect_end(&raw, SHMD_STATUS_SHUTDOWN);
	raw_close(&raw);
}
