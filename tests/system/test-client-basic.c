/* SPDX-License-Identifier: Apache-2.0 */
/* The client library against shmemd, from opening to verified bytes and to the release of everything. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <arpa/inet.h>

#include <shmemclient-admin.h>
#include <shmd/abi/cqe.h>

#include "proto/base/nsec.h"
#include "tests/lib/test.h"
#include "tests/system/client-lab.h"

static const struct shmd_queues_attr two_qps = {.n_qps = 2};

static double usec_since(uint64_t start)
{
	return (double)(nsec_now() - start) / 1e3;
}

/* One put of 8 bytes from a to b over QP i of a, verified. */
static void put_and_verify(struct lab_side *a, unsigned int i, struct lab_side *b, uint64_t value)
{
	struct shmd_dev_qp *qp = shmd_queues_dev_qp(a->queues, i);

	memcpy(lab_byte(a, 0), &value, 8);
	ASSERT_EQ(shmd_dev_qp_put(qp, lab_remote(b, 4096), lab_local(a, 0), 8, 10 * NSEC_PER_SEC), SHMD_DEV_OK);
	ASSERT_MEMEQ(lab_byte(b, 4096), &value, 8);
}

TEST(from_open_to_the_first_completed_put)
{
	struct fixture_daemon daemon;
	struct lab_side side;
	uint64_t start;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	start = nsec_now();
	lab_side_open(&side, &daemon, &two_qps);
	printf("# open, nic, memory, queues: %.0f us\n", usec_since(start));
	lab_connect(&side, 0, &side, 1);
	put_and_verify(&side, 0, &side, 0x1122334455667788);
	printf("# to the first completed put: %.0f us\n", usec_since(start));
	put_and_verify(&side, 1, &side, 42);
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

TEST(a_qp_connected_to_itself_reaches_its_own_memory)
{
	struct shmd_queues_attr attr = {.n_qps = 1};
	struct fixture_daemon daemon;
	struct lab_side side;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	lab_side_open(&side, &daemon, &attr);
	lab_connect(&side, 0, &side, 0);
	put_and_verify(&side, 0, &side, 7);
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

TEST(two_sessions_put_get_and_add_to_each_other)
{
	struct fixture_daemon daemon;
	struct shmd_counters counters;
	struct lab_side a, b;
	struct shmd_dev_qp *qp;
	uint64_t word, old = 0;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	lab_side_open(&a, &daemon, &two_qps);
	lab_side_open(&b, &daemon, &two_qps);
	lab_connect(&a, 0, &b, 0);
	for (uint64_t i = 0; i < 1000; i++)
		put_and_verify(i % 2 ? &a : &b, 0, i % 2 ? &b : &a, i * 0x9e3779b97f4a7c15);
	qp = shmd_queues_dev_qp(a.queues, 0);
	memset(lab_byte(&b, 8192), 0x5c, 30000);
	ASSERT_EQ(shmd_dev_qp_get(qp, lab_remote(&b, 8192), lab_local(&a, 8192), 30000, 10 * NSEC_PER_SEC), SHMD_DEV_OK);
	ASSERT_MEMEQ(lab_byte(&a, 8192), lab_byte(&b, 8192), 30000);
	word = 100;
	memcpy(lab_byte(&b, 64), &word, 8);
	ASSERT_EQ(shmd_dev_qp_atomic_fetch_add(qp, lab_remote(&b, 64), 8, 11, 10 * NSEC_PER_SEC, &old), SHMD_DEV_OK);
	ASSERT_EQ(old, 100);
	memcpy(&word, lab_byte(&b, 64), 8);
	ASSERT_EQ(word, 111);
	/* The daemon's counters equal the work done here. */
	ASSERT_OK(shmd_client_counters(a.client, &counters));
	ASSERT_EQ(counters.wqes, 502);
	ASSERT_EQ(counters.wqes_by_kind[1], 500);
	ASSERT_EQ(counters.wqes_by_kind[3], 1);
	ASSERT_EQ(counters.wqes_by_kind[6], 1);
	ASSERT_EQ(counters.bytes_read, 30000);
	ASSERT_EQ(counters.error_cqes, 0);
	lab_side_close(&a);
	lab_side_close(&b);
	fixture_daemon_stop(&daemon);
}

TEST(ordinary_cqs_and_every_sharing_mode_carry_puts)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	for (int sharing = SHMD_SHARING_EXCLUSIVE; sharing <= SHMD_SHARING_GPU; sharing++) {
		for (int mode = SHMD_CQ_MODE_COLLAPSED; mode <= SHMD_CQ_MODE_ORDINARY; mode++) {
			struct shmd_queues_attr attr = {.n_qps = 2, .sq_wqebbs = 16, .sharing = (enum shmd_sharing)sharing,
							.cq_mode = (enum shmd_cq_mode)mode};
			struct lab_side side;

			lab_side_open(&side, &daemon, &attr);
			lab_connect(&side, 0, &side, 1);
			/* Several rounds of ring and CQ. */
			for (uint64_t i = 0; i < 100; i++)
				put_and_verify(&side, i % 2, &side, i);
			lab_side_close(&side);
		}
	}
	fixture_daemon_stop(&daemon);
}

TEST_TIMEOUT(a_thousand_qps_in_one_call_all_work, 60)
{
	struct shmd_queues_attr attr = {.n_qps = 1000, .sq_wqebbs = 16};
	struct shmd_addr *addrs = calloc(1000, sizeof(*addrs));
	struct fixture_daemon daemon;
	unsigned int n_done;
	struct lab_side side;
	uint64_t start;
	double msec;

	ASSERT(addrs);
	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	lab_side_open(&side, &daemon, &two_qps);
	ASSERT_OK(shmd_queues_destroy(side.queues));
	start = nsec_now();
	ASSERT_OK(shmd_queues_create(side.nic, &attr, &side.queues));
	msec = usec_since(start) / 1e3;
	printf("# 1000 QPs created: %.1f ms\n", msec);
	/* Ten times the goal. */
	if (!test_has_sanitizer())
		ASSERT_LT(msec, 1000);
	for (unsigned int i = 0; i < 1000; i++)
		ASSERT_OK(shmd_queues_addr(side.queues, i ^ 1, &addrs[i]));
	start = nsec_now();
	ASSERT_OK(shmd_queues_connect(side.queues, 0, 1000, addrs, NULL, &n_done));
	printf("# 1000 QPs connected: %.1f ms\n", usec_since(start) / 1e3);
	ASSERT_EQ(n_done, 1000);
	for (unsigned int i = 0; i < 1000; i++)
		put_and_verify(&side, i, &side, i + 1);
	start = nsec_now();
	lab_side_close(&side);
	printf("# all destroyed: %.1f ms\n", usec_since(start) / 1e3);
	free(addrs);
	fixture_daemon_stop(&daemon);
}

/* 4,096 peers in one call: far more than fit into a packet. Every 64th pair carries a put. */
TEST_TIMEOUT(four_thousand_peers_in_one_connect, 60)
{
	struct shmd_queues_attr attr = {.n_qps = 4096, .sq_wqebbs = 16};
	struct shmd_addr *addrs = calloc(4096, sizeof(*addrs));
	struct fixture_daemon daemon;
	struct lab_side side;
	unsigned int n_done = 0;
	uint64_t start;

	ASSERT(addrs);
	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	lab_side_open(&side, &daemon, &two_qps);
	ASSERT_OK(shmd_queues_destroy(side.queues));
	ASSERT_OK(shmd_queues_create(side.nic, &attr, &side.queues));
	for (unsigned int i = 0; i < 4096; i++)
		ASSERT_OK(shmd_queues_addr(side.queues, 4095 - i, &addrs[i]));
	start = nsec_now();
	ASSERT_OK(shmd_queues_connect(side.queues, 0, 4096, addrs, NULL, &n_done));
	printf("# 4096 peers connected: %.1f ms\n", usec_since(start) / 1e3);
	ASSERT_EQ(n_done, 4096);
	for (unsigned int i = 0; i < 4096; i += 64)
		put_and_verify(&side, i, &side, i + 1);
	lab_side_close(&side);
	free(addrs);
	fixture_daemon_stop(&daemon);
}

TEST(queue_memory_of_the_callers_works)
{
	struct shmd_queues_attr attr = {.n_qps = 2, .mem_kind = SHMD_MEM_MEMFD};
	struct fixture_daemon daemon;
	struct lab_side side;
	struct shmd_mem *mem;
	uint64_t bytes;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	lab_side_open(&side, &daemon, &two_qps);
	ASSERT_OK(shmd_queues_destroy(side.queues));
	ASSERT_OK(shmd_queues_layout(side.nic, &attr, &bytes));
	ASSERT_OK(shmd_mem_alloc(side.client, bytes, &mem));
	attr.mem_fd = shmd_mem_fd(mem);
	attr.mem_bytes = bytes;
	ASSERT_OK(shmd_queues_create(side.nic, &attr, &side.queues));
	lab_connect(&side, 0, &side, 1);
	put_and_verify(&side, 0, &side, 99);
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

TEST(adopted_memory_is_read_and_written_by_the_nic)
{
	struct fixture_daemon daemon;
	struct lab_side side;
	struct shmd_mem *mem;
	struct shmd_mr *mr;
	uint64_t *words;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	lab_side_open(&side, &daemon, &two_qps);
	lab_connect(&side, 0, &side, 1);
	words = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(words, MAP_FAILED);
	words[0] = 123456789;
	ASSERT_OK(shmd_mem_adopt(side.client, words, 8192, &mem));
	ASSERT_OK(shmd_mr_reg_mem(side.nic, mem, SHMD_ACCESS_ALL, &mr));
	ASSERT_EQ(shmd_dev_qp_put(shmd_queues_dev_qp(side.queues, 0),
				  shmd_dev_addr_of((uintptr_t)&words[600], shmd_mr_rkey_be(mr)),
				  shmd_dev_addr_of((uintptr_t)&words[0], shmd_mr_lkey_be(mr)), 8, 10 * NSEC_PER_SEC),
		  SHMD_DEV_OK);
	ASSERT_EQ(words[600], 123456789);
	ASSERT_OK(shmd_mr_dereg(mr));
	shmd_mem_free(mem);
	ASSERT_EQ(words[600], 123456789);
	munmap(words, 8192);
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

TEST(sends_arrive_in_the_receive_cq)
{
	struct shmd_queues_attr attr = {.n_qps = 2, .rq_wqes = 8};
	struct fixture_daemon daemon;
	struct shmd_recv_cq cq;
	struct shmd_cqe *cqe;
	struct lab_side side;
	uint64_t end;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	lab_side_open(&side, &daemon, &attr);
	lab_connect(&side, 0, &side, 1);
	ASSERT_OK(shmd_queues_recv_cq(side.queues, 1, &cq));
	ASSERT_EQ(cq.entries, 8);
	cqe = cq.ring;
	ASSERT_EQ(cqe->op_own >> 4, SHMD_CQE_INVALID);
	ASSERT_EQ(shmd_dev_qp_post_recv(shmd_queues_dev_qp(side.queues, 1), lab_local(&side, 4096), 100),
		  SHMD_DEV_OK);
	memset(lab_byte(&side, 0), 0xe7, 50);
	ASSERT_EQ(shmd_dev_qp_send_imm(shmd_queues_dev_qp(side.queues, 0), lab_local(&side, 0), 50, 0xfeed),
		  SHMD_DEV_OK);
	end = nsec_now() + 10 * NSEC_PER_SEC;
	while (__atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE) >> 4 == SHMD_CQE_INVALID && nsec_now() < end)
		usleep(100);
	ASSERT_EQ(cqe->op_own, SHMD_CQE_RESP_SEND_IMM << 4);
	ASSERT_EQ(ntohl(cqe->byte_cnt), 50);
	ASSERT_EQ(ntohl(cqe->imm_inval_pkey), 0xfeed);
	ASSERT_MEMEQ(lab_byte(&side, 4096), lab_byte(&side, 0), 50);
	ASSERT_EQ(shmd_dev_qp_quiet(shmd_queues_dev_qp(side.queues, 0), 10 * NSEC_PER_SEC), SHMD_DEV_OK);
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

/* ---- errors and the way back */

/* The n-th time. */
static void fail_and_recover(struct lab_side *side, unsigned int n)
{
	struct shmd_dev_qp *qp = shmd_queues_dev_qp(side->queues, 0);
	struct shmd_dev_addr nowhere = lab_remote(side, 0);
	struct shmd_qp_info info;
	struct shmd_event event;

	nowhere.key_be ^= 0xffffffff;
	ASSERT_EQ(shmd_dev_qp_put(qp, nowhere, lab_local(side, 0), 8, 10 * NSEC_PER_SEC), SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(qp->error_syndrome, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_OK(shmd_event_next(side->client, 10 * NSEC_PER_SEC, &event));
	ASSERT_EQ(event.kind, SHMD_EVENT_QP_ERROR);
	ASSERT_OK(shmd_queues_query(side->queues, 0, &info));
	ASSERT_EQ(info.qpn, qp->qpn);
	ASSERT_EQ(info.state, SHMD_QP_ERR);
	ASSERT_EQ(info.first_error, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	/* Counters go on through a reset. */
	ASSERT_EQ(info.counters.error_cqes, n);
	/* Both ends: the peer's QP failed with it. */
	ASSERT_OK(shmd_queues_modify(side->queues, 0, SHMD_QP_RST));
	ASSERT_OK(shmd_queues_modify(side->queues, 1, SHMD_QP_RST));
	ASSERT_EQ(qp->error_syndrome, 0);
	lab_connect(side, 0, side, 1);
	for (uint64_t i = 0; i < 50; i++)
		put_and_verify(side, i % 2, side, i);
	while (!shmd_event_next(side->client, 0, &event))
		ASSERT_EQ(event.kind, SHMD_EVENT_QP_ERROR);
}

TEST(a_failed_qp_is_as_new_after_rst)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	for (int mode = SHMD_CQ_MODE_COLLAPSED; mode <= SHMD_CQ_MODE_ORDINARY; mode++) {
		struct shmd_queues_attr attr = {.n_qps = 2, .sq_wqebbs = 16, .cq_mode = (enum shmd_cq_mode)mode};
		struct lab_side side;

		lab_side_open(&side, &daemon, &attr);
		lab_connect(&side, 0, &side, 1);
		for (unsigned int n = 1; n <= 3; n++)
			fail_and_recover(&side, n);
		lab_side_close(&side);
	}
	fixture_daemon_stop(&daemon);
}

TEST(memory_the_nic_does_not_take_is_refused_in_words)
{
	struct shmd_mr_attr attr = {.length_bytes = 4096, .access = SHMD_ACCESS_ALL};
	int unsealable = memfd_create("unsealable", MFD_CLOEXEC);
	struct fixture_daemon daemon;
	struct lab_side side;
	struct shmd_mr *mr;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	lab_side_open(&side, &daemon, &two_qps);
	ASSERT_OK(ftruncate(unsealable, 8192));
	attr.kind = SHMD_MEM_DMABUF;
	attr.fd = unsealable;
	ASSERT_ERR(shmd_mr_reg(side.nic, &attr, &mr), EOPNOTSUPP);
	ASSERT(strstr(shmd_error_text(), "it accepts memfd"));
	attr.kind = SHMD_MEM_MEMFD;
	ASSERT_ERR(shmd_mr_reg(side.nic, &attr, &mr), EPERM);
	ASSERT(strstr(shmd_error_text(), "F_SEAL_SHRINK"));
	attr.fd = shmd_mem_fd(side.mem);
	attr.offset = LAB_MEM_BYTES;
	ASSERT_ERR(shmd_mr_reg(side.nic, &attr, &mr), ERANGE);
	close(unsealable);
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

TEST(connecting_to_nonsense_is_refused)
{
	struct shmd_addr addr = {.bytes = 5, .data = {0xff, 1, 2, 3, 4}};
	struct fixture_daemon daemon;
	struct lab_side side;
	unsigned int n_done = 9;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	lab_side_open(&side, &daemon, &two_qps);
	ASSERT_LT(shmd_queues_connect(side.queues, 0, 1, &addr, NULL, &n_done), 0);
	ASSERT_EQ(n_done, 0);
	/* The QP works as before. */
	lab_connect(&side, 0, &side, 1);
	put_and_verify(&side, 0, &side, 1);
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

TEST(a_nic_opens_once_and_by_name)
{
	struct shmd_nic_attr attr = {.nic = "soft1"};
	struct shmd_nic_info infos[4], info;
	struct shmd_client *client;
	struct fixture_daemon daemon;
	struct shmd_nic *nic, *again;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	client = lab_client(&daemon);
	ASSERT_EQ(shmd_nic_list(client, infos, 4), 2);
	ASSERT_STREQ(infos[1].name, "soft1");
	ASSERT_OK(shmd_nic_open(client, &attr, &nic));
	ASSERT_OK(shmd_nic_info(nic, &info));
	ASSERT_STREQ(info.name, "soft1");
	ASSERT_STREQ(info.backend, "soft");
	ASSERT_EQ(info.doorbell_mode, SHMD_DOORBELL_CPU);
	ASSERT_EQ(info.mem_kinds[0], SHMD_MEM_MEMFD);
	ASSERT_NE(info.assignment[0], 0);
	ASSERT_ERR(shmd_nic_open(client, &attr, &again), EEXIST);
	attr.nic = "mlx5_77";
	ASSERT_ERR(shmd_nic_open(client, &attr, &again), ENODEV);
	shmd_client_close(client);
	fixture_daemon_stop(&daemon);
}

/* ---- sharing */

TEST(published_descriptors_are_fetched_by_clients_that_know_the_world)
{
	struct shmd_world_key world = {{1, 2, 3}}, other = {{1, 2, 4}};
	struct shmd_client *a, *b;
	struct fixture_daemon daemon;
	struct shmd_mem *mem;
	char data[256];
	size_t bytes = sizeof(data);
	uint8_t *seen;
	int fd = -1;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	a = lab_client(&daemon);
	b = lab_client(&daemon);
	ASSERT_OK(shmd_mem_alloc(a, 4096, &mem));
	ASSERT_OK(shmd_publish(a, &world, 3, 1, "hello", 5, shmd_mem_fd(mem)));
	ASSERT_ERR(shmd_publish(a, &world, 3, 1, "again", 5, -1), EEXIST);
	ASSERT_OK(shmd_fetch(b, &world, 3, 1, data, &bytes, &fd, 10 * NSEC_PER_SEC));
	ASSERT_EQ(bytes, 5);
	ASSERT_MEMEQ(data, "hello", 5);
	seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(seen, MAP_FAILED);
	seen[9] = 0x42;
	ASSERT_EQ(*((uint8_t *)shmd_mem_addr(mem) + 9), 0x42);
	munmap(seen, 4096);
	close(fd);

	bytes = 3;
	ASSERT_ERR(shmd_fetch(b, &world, 3, 1, data, &bytes, NULL, 0), ENOBUFS);
	ASSERT_ERR(shmd_fetch(b, &other, 3, 1, NULL, NULL, &fd, NSEC_PER_SEC / 50), ENOENT);
	ASSERT_ERR(shmd_unpublish(b, &world, 3, 1), EPERM);
	ASSERT_ERR(shmd_unpublish(b, &other, 3, 1), ENOENT);
	ASSERT_OK(shmd_unpublish(a, &world, 3, 1));
	ASSERT_ERR(shmd_fetch(b, &world, 3, 1, NULL, NULL, &fd, 0), ENOENT);
	shmd_client_close(a);
	shmd_client_close(b);
	fixture_daemon_stop(&daemon);
}

/* ---- ends */

static int count_sessions(void *arg, const struct shmd_session_item *item)
{
	++*(unsigned int *)arg;
	return 0;
}

TEST(closing_in_mid_traffic_leaves_nothing_in_the_daemon)
{
	struct shmd_client_attr attr = {.role = SHMD_ROLE_CONTROL};
	struct shmd_daemon_status status;
	struct shmd_client *control;
	struct fixture_daemon daemon;
	struct lab_side side;
	unsigned int n = 0;
	uint64_t end;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	attr.socket_path = daemon.socket;
	ASSERT_OK(shmd_client_open(&attr, &control));
	lab_side_open(&side, &daemon, &two_qps);
	lab_connect(&side, 0, &side, 1);
	for (int i = 0; i < 100; i++)
		ASSERT_EQ(shmd_dev_qp_put_nbi(shmd_queues_dev_qp(side.queues, 0), lab_remote(&side, 32768),
					      lab_local(&side, 0), 32768), SHMD_DEV_OK);
	ASSERT_OK(shmd_admin_sessions(control, count_sessions, &n));
	ASSERT_EQ(n, 1);
	shmd_client_close(side.client);
	end = nsec_now() + 10 * NSEC_PER_SEC;
	do {
		ASSERT_OK(shmd_admin_status(control, &status));
	} while (status.n_sessions && nsec_now() < end && !usleep(1000));
	ASSERT_EQ(status.n_sessions, 0);
	ASSERT_EQ(status.n_qps, 0);
	ASSERT_EQ(status.n_cqs, 0);
	ASSERT_EQ(status.n_mrs, 0);
	ASSERT_EQ(status.registered_bytes, 0);
	ASSERT_EQ(status.sessions_total, 1);
	shmd_client_close(control);
	fixture_daemon_stop(&daemon);
}

TEST(waits_on_queues_end_when_the_daemon_dies)
{
	struct shmd_counters counters;
	struct fixture_daemon daemon;
	struct shmd_dev_qp *qp;
	struct lab_side side;
	uint64_t start;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	lab_side_open(&side, &daemon, &two_qps);
	lab_connect(&side, 0, &side, 1);
	put_and_verify(&side, 0, &side, 5);
	fixture_daemon_kill(&daemon);
	qp = shmd_queues_dev_qp(side.queues, 0);
	start = nsec_now();
	ASSERT_EQ(shmd_dev_qp_put(qp, lab_remote(&side, 0), lab_local(&side, 64), 8, 60 * NSEC_PER_SEC),
		  SHMD_DEV_HEALTH);
	ASSERT_LT(nsec_now() - start, 10 * NSEC_PER_SEC);
	ASSERT_EQ(shmd_client_health(side.client), SHMD_HEALTH_DAEMON_GONE);
	for (int i = 0; i < 2; i++)
		ASSERT_ERR(shmd_client_counters(side.client, &counters), ECONNRESET);
	ASSERT_ERR(shmd_queues_destroy(side.queues), ECONNRESET);
	shmd_client_close(side.client);
}

TEST(a_stopping_daemon_says_so)
{
	struct shmd_counters counters;
	struct shmd_client *client;
	struct fixture_daemon daemon;
	struct shmd_event event;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	client = lab_client(&daemon);
	fixture_daemon_stop(&daemon);
	ASSERT_OK(shmd_event_next(client, 10 * NSEC_PER_SEC, &event));
	ASSERT_EQ(event.kind, SHMD_EVENT_SESSION_END);
	ASSERT_ERR(shmd_client_counters(client, &counters), ESHUTDOWN);
	ASSERT_EQ(shmd_client_health(client), SHMD_HEALTH_SESSION_ENDED);
	shmd_client_close(client);
}
