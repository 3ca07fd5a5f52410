/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of the soft NIC, for its README: run by hand, without a limit.
 *
 *	[SHMD_SPIN_USEC=20] nic-figures [traffic | two_users | set_up | many_clients | idleness]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

#define BATCH 32u

static uint64_t cpu_nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* One write at a time: post to completion. */
static void latency(struct client *a, struct client *b, const char *what)
{
	static uint64_t nsec[20000];
	const unsigned int n = sizeof(nsec) / sizeof(nsec[0]);
	struct shmd_cqe cqe;

	for (unsigned int i = 0; i < n; i++) {
		uint64_t begin = nsec_now();

		client_post_inline(a, 0, i, b, 0);
		client_ring(a, 0);
		if (!client_poll(a, 0, &cqe, CLIENT_LIMIT_NSEC))
			abort();
		nsec[i] = nsec_now() - begin;
	}
	qsort(nsec, n, sizeof(nsec[0]), by_value);
	printf("%s: 8-byte write, post to completion: median %lu ns, 99%% %lu ns\n", what,
	       (unsigned long)nsec[n / 2], (unsigned long)nsec[n - n / 100]);
}

/* 32 per doorbell, two doorbells under way. */
static void rate(struct client *a, struct client *b, const char *what)
{
	const unsigned int n = 40000;
	uint64_t begin = nsec_now(), nsec;
	struct shmd_cqe cqe;

	for (unsigned int i = 0; i < n + 1; i++) {
		for (unsigned int k = 0; k < BATCH && i < n; k++)
			client_post_inline(a, 0, k, b, 8 * k);
		if (i < n)
			client_ring(a, 0);
		for (unsigned int k = 0; k < BATCH && i > 0; k++)
			if (!client_poll(a, 0, &cqe, CLIENT_LIMIT_NSEC))
				abort();
	}
	nsec = nsec_now() - begin;
	printf("%s: 8-byte writes, %u per doorbell: %.1f ns each, %.2f million a second\n", what, BATCH,
	       (double)nsec / n / BATCH, 1e3 * n * BATCH / (double)nsec);
}

static void bandwidth(struct client *a, struct client *b, const char *what)
{
	const unsigned int n = 4000;
	uint64_t begin = nsec_now(), nsec;
	struct shmd_cqe cqe;

	for (unsigned int i = 0; i < n; i++) {
		client_post_write(a, 0, 0, b, 0, CLIENT_MEM_BYTES);
		client_ring(a, 0);
		if (i > 0 && !client_poll(a, 0, &cqe, CLIENT_LIMIT_NSEC))
			abort();
	}
	client_poll(a, 0, &cqe, CLIENT_LIMIT_NSEC);
	nsec = nsec_now() - begin;
	printf("%s: 1 MiB writes: %.2f GB/s\n", what, (double)n * CLIENT_MEM_BYTES / (double)nsec);
}

static void wake_up(struct client *a, struct client *b)
{
	static uint64_t nsec[500];
	const unsigned int n = sizeof(nsec) / sizeof(nsec[0]);
	struct shmd_cqe cqe;

	for (unsigned int i = 0; i < n; i++) {
		uint64_t begin;

		client_wait_asleep(a);
		begin = nsec_now();
		client_post_inline(a, 0, i, b, 0);
		client_ring(a, 0);
		if (!client_poll(a, 0, &cqe, CLIENT_LIMIT_NSEC))
			abort();
		nsec[i] = nsec_now() - begin;
	}
	qsort(nsec, n, sizeof(nsec[0]), by_value);
	printf("asleep: 8-byte write, post to completion: median %lu ns\n", (unsigned long)nsec[n / 2]);
}

static void thousand(struct rig *rig)
{
	struct nic_peer *peers = calloc(1000, sizeof(*peers));
	uint64_t t[5], create_cpu;
	struct client c;
	unsigned int n_done;

	t[0] = nsec_now();
	client_open_ctx(&c, rig->nic[0], 1);
	client_reg(&c);
	t[1] = nsec_now();
	create_cpu = cpu_nsec();
	client_create(&c, 1000, 0);
	create_cpu = cpu_nsec() - create_cpu;
	t[2] = nsec_now();
	for (unsigned int i = 0; i < 1000; i++)
		peers[i] = (struct nic_peer){client_qpn(&c, i), c.queues->layout.qps[i].addr};
	rig->nic[0]->ops->connect(c.ctx, 1000, peers, &client_params, &n_done);
	t[3] = nsec_now();
	client_close(&c);
	t[4] = nsec_now();
	printf("1000 QPs with 1000 CQs: context %.3f ms, create %.3f ms (%.3f ms CPU), connect %.3f ms, "
	       "teardown %.3f ms\n",
	       1e-6 * (double)(t[1] - t[0]), 1e-6 * (double)(t[2] - t[1]), 1e-6 * (double)create_cpu,
	       1e-6 * (double)(t[3] - t[2]), 1e-6 * (double)(t[4] - t[3]));
	free(peers);
}

/* A session's way to its first completed write, on a NIC that runs already. */
static void attach(struct nic *nic)
{
	static uint64_t nsec[200];
	const unsigned int n = sizeof(nsec) / sizeof(nsec[0]);

	for (unsigned int i = 0; i < n; i++) {
		uint64_t begin = nsec_now();
		struct client c;

		client_open(&c, nic, i, 1);
		client_connect(&c, 0, &c, 0);
		client_post_inline(&c, 0, 1, &c, 0);
		client_ring(&c, 0);
		client_complete(&c, 0);
		nsec[i] = nsec_now() - begin;
		client_close(&c);
	}
	qsort(nsec, n, sizeof(nsec[0]), by_value);
	printf("context, 1 MiB region, QP, connect, first write: median %.3f ms\n", 1e-6 * (double)nsec[n / 2]);
}

#define CROWD 16u

static void *crowd_main(void *arg)
{
	struct client *c = arg;

	for (unsigned int i = 0; i < 2000; i++) {
		client_post_inline(c, 0, i, c, 0);
		client_ring(c, 0);
		client_complete(c, 0);
	}
	return NULL;
}

/* 16 clients that wait for each of their writes, more threads than CPUs. */
static void crowd(unsigned int n_nics)
{
	pthread_t thread[CROWD];
	struct client c[CROWD];
	uint64_t begin, nsec, cpu;
	struct rig rig;

	rig_open(&rig, n_nics, NULL);
	for (unsigned int i = 0; i < CROWD; i++) {
		client_open(&c[i], rig.nic[i % n_nics], i + 1, 1);
		client_connect(&c[i], 0, &c[i], 0);
	}
	begin = nsec_now();
	cpu = cpu_nsec();
	for (unsigned int i = 0; i < CROWD; i++)
		pthread_create(&thread[i], NULL, crowd_main, &c[i]);
	for (unsigned int i = 0; i < CROWD; i++)
		pthread_join(thread[i], NULL);
	nsec = nsec_now() - begin;
	printf("16 clients, %u NICs, 2000 writes each: %.1f us a write, %.1f us CPU\n", n_nics,
	       1e-3 * (double)nsec / 2000 / CROWD, 1e-3 * (double)(cpu_nsec() - cpu) / 2000 / CROWD);
	for (unsigned int i = 0; i < CROWD; i++)
		client_close(&c[i]);
	rig_close(&rig);
}

static void idle(void)
{
	const struct timespec pause = {.tv_sec = 10};
	struct client c[16];
	struct rig rig;
	uint64_t before;

	rig_open(&rig, 8, NULL);
	for (unsigned int i = 0; i < 16; i++) {
		client_open(&c[i], rig.nic[i % 8], i + 1, 16);
		for (unsigned int k = 0; k < 16; k++)
			client_connect(&c[i], k, &c[i], k);
	}
	for (unsigned int i = 0; i < 16; i++)
		client_wait_asleep(&c[i]);
	before = cpu_nsec();
	nanosleep(&pause, NULL);
	printf("10 s of idleness, 8 NICs, 16 contexts: %.3f ms CPU\n", 1e-6 * (double)(cpu_nsec() - before));
	for (unsigned int i = 0; i < 16; i++)
		client_close(&c[i]);
	rig_close(&rig);
}

TEST_TIMEOUT(traffic, 60)
{
	struct client a, b, far;
	struct rig rig;

	rig_open(&rig, 2, NULL);
	client_open(&a, rig.nic[0], 1, 2);
	client_open(&b, rig.nic[0], 2, 1);
	client_open(&far, rig.nic[1], 3, 1);
	client_connect(&a, 0, &b, 0);
	wake_up(&a, &b);
	latency(&a, &b, "one NIC");
	rate(&a, &b, "one NIC");
	bandwidth(&a, &b, "one NIC");
	client_close(&a);
	client_open(&a, rig.nic[0], 1, 1);
	client_connect(&a, 0, &far, 0);
	latency(&a, &far, "two NICs");
	rate(&a, &far, "two NICs");
	bandwidth(&a, &far, "two NICs");
	client_close(&a);
	client_close(&b);
	client_close(&far);
	rig_close(&rig);
}

/* An executor for each of them on one NIC, and packets that go as bytes. */
TEST_TIMEOUT(two_users, 60)
{
	struct client a, b;
	struct rig rig;

	rig_open(&rig, 1, NULL);
	client_open_for(&a, rig.nic[0], 1, 1001, 1);
	client_open_for(&b, rig.nic[0], 2, 1002, 1);
	client_connect(&a, 0, &b, 0);
	latency(&a, &b, "two users");
	rate(&a, &b, "two users");
	bandwidth(&a, &b, "two users");
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

TEST_TIMEOUT(set_up, 60)
{
	struct rig rig;

	rig_open(&rig, 1, NULL);
	for (int i = 0; i < 5; i++)
		thousand(&rig);
	attach(rig.nic[0]);
	rig_close(&rig);
}

/* A context with 1000 connected QPs that goes on with another NIC. */
static void go_on(void)
{
	struct nic_peer *peers = calloc(1000, sizeof(*peers));
	struct nic_imported imported;
	struct nic_import_attr attr;
	unsigned int n_done;
	struct client c;
	struct rig rig;
	uint64_t t[4];
	void *record;

	rig_open(&rig, 1, NULL);
	client_open_ctx_saved(&c, rig.nic[0], 1);
	client_reg(&c);
	client_create(&c, 1000, 0);
	for (unsigned int i = 0; i < 1000; i++)
		peers[i] = (struct nic_peer){client_qpn(&c, i), c.queues->layout.qps[i].addr};
	ASSERT_OK(rig.nic[0]->ops->connect(c.ctx, 1000, peers, &client_params, &n_done));
	attr = (struct nic_import_attr){.ctx = {.session_id = 1, .health_fd = -1, .is_saved = true},
					.n_queue_fds = 1, .queue_fds = &c.queue_fd, .n_mr_fds = 1, .mr_fds = &c.mem_fd};
	ASSERT_OK(rig.nic[0]->ops->ctx_saved_fds(c.ctx, &attr.fds));
	for (unsigned int i = 0; i < attr.fds.n; i++)
		attr.fds.fds[i] = dup(attr.fds.fds[i]);
	t[0] = nsec_now();
	ASSERT_OK(client_export(&c, &record, &attr.record_bytes));
	t[1] = nsec_now();
	attr.record = record;
	client_swap_ctx(c.ctx, NULL);
	rig.nic[0]->ops->ctx_unimport(c.ctx);
	rig_close(&rig);
	rig_open(&rig, 1, NULL);
	t[2] = nsec_now();
	ASSERT_OK(rig.nic[0]->ops->ctx_import(rig.nic[0], &attr, &imported));
	rig.nic[0]->ops->resume(rig.nic[0]);
	t[3] = nsec_now();
	printf("1000 connected QPs with 1000 CQs: record of %zu bytes in %.3f ms, in another NIC %.3f ms\n",
	       attr.record_bytes, 1e-6 * (double)(t[1] - t[0]), 1e-6 * (double)(t[3] - t[2]));
	c.ctx = imported.ctx;
	c.mr = imported.mrs[0];
	c.queues = imported.queues[0];
	client_swap_ctx(NULL, c.ctx);
	client_close(&c);
	rig_close(&rig);
	nic_imported_deinit(&imported);
	for (unsigned int i = 0; i < attr.fds.n; i++)
		close(attr.fds.fds[i]);
	free(record);
	free(peers);
}

TEST_TIMEOUT(other_nics, 60)
{
	for (int i = 0; i < 5; i++)
		go_on();
}

TEST_TIMEOUT(many_clients, 60)
{
	crowd(1);
	crowd(8);
}

TEST_TIMEOUT(idleness, 60)
{
	idle();
}
