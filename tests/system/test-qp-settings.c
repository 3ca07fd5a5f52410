/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of QPs: their defaults, the values that a client chooses, and the limits of both. On soft NICs, and on simulated
 * ConnectX NICs with the commands that carry them.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/wqe.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/test.h"
#include "tests/system/raw-traffic.h"

#define TRACE_BYTES (1u << 20)
#define SILENCE_NSEC (900 * NSEC_PER_MSEC) /* without a setting a request without an answer fails after 540 ms */

struct lab {
	struct fixture_daemon daemon;
	struct raw_client ctl;
	char conf[96], trace[96];
};

static void write_conf(const struct lab *lab, const char *settings)
{
	FILE *file = fopen(lab->conf, "w");

	ASSERT(file);
	ASSERT_GE(fputs(settings, file), 0);
	ASSERT_OK(fclose(file));
}

static void lab_init(struct lab *lab, const char *settings)
{
	char option[112];

	test_make_file(lab->conf, sizeof(lab->conf), "shmemd-qps");
	test_make_file(lab->trace, sizeof(lab->trace), "shmemd-trace");
	write_conf(lab, settings);
	snprintf(option, sizeof(option), "--config=%s", lab->conf);
	setenv("SHMEMD_MLX5_TRACE", lab->trace, 1);
	fixture_daemon_start(&lab->daemon, option, NULL);
	raw_connect(&lab->ctl, lab->daemon.socket);
	raw_hello(&lab->ctl, MSG_ROLE_CONTROL);
}

static void lab_deinit(struct lab *lab)
{
	raw_close(&lab->ctl);
	fixture_daemon_stop(&lab->daemon);
	ASSERT_OK(unlink(lab->conf));
	ASSERT_OK(unlink(lab->trace));
}

static void reload(struct lab *lab, const char *settings, const char *told)
{
	write_conf(lab, settings);
	ASSERT_OK(kill(lab->daemon.pid, SIGHUP));
	fixture_daemon_assert_logged(&lab->daemon, told);
}

/* On ConnectX NICs: the commands so far have this field with this value. */
static void expect_command(const struct lab *lab, const char *field, unsigned int value)
{
	const char *backend = getenv("SHMEMD_TEST_BACKEND");
	char words[64], *text;
	size_t n;
	FILE *file;

	if (!backend || strcmp(backend, "mlx5") != 0)
		return;
	text = calloc(1, TRACE_BYTES);
	file = fopen(lab->trace, "r");
	ASSERT(text && file);
	n = fread(text, 1, TRACE_BYTES - 1, file);
	ASSERT_LT(n, TRACE_BYTES - 1);
	fclose(file);
	snprintf(words, sizeof(words), " %s = 0x%x\n", field, value);
	if (!strstr(text, words))
		test_fail(TEST_WHERE, "no command has%s", words);
	free(text);
}

static unsigned int syndrome_of(struct raw_traffic *t, uint8_t opcode, uint32_t bytes)
{
	raw_traffic_post(t, &(struct raw_op){.opcode = opcode, .lkey = t->lkey, .rkey = t->rkey, .laddr = RAW_TRAFFIC_IOVA,
					     .raddr = RAW_TRAFFIC_IOVA + 4096, .bytes = bytes});
	return raw_traffic_poll(t) == (unsigned int)SHMD_CQE_REQ ? 0 : raw_traffic_syndrome(t);
}

static void expect_silence(const struct raw_traffic *t, uint64_t nsec)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	uint64_t end = nsec_now() + nsec;

	while (nsec_now() < end) {
		ASSERT(!raw_traffic_has_cqe(t));
		nanosleep(&pause, NULL);
	}
}

/* Connected to a QP that is not connected. */
static void open_unanswered(struct raw_traffic *t, const struct lab *lab)
{
	const struct raw_traffic_attr attr = {.n_qps = 2, .unconnected = true};

	raw_traffic_init_with(t, lab->daemon.socket, &attr);
	ASSERT_EQ(raw_traffic_connect(t, &t->all_qps[1]), SHMD_STATUS_OK);
}

TEST(timeout_and_retries_are_those_of_the_settings)
{
	struct raw_traffic t;
	struct lab lab;

	lab_init(&lab, "qp-timeout = 0\n");
	open_unanswered(&t, &lab);
	raw_traffic_write(&t, 4096, 0, 64);
	expect_silence(&t, SILENCE_NSEC);
	raw_traffic_deinit(&t);
	reload(&lab, "qp-timeout = 9\nqp-retries = 2\nqp-reads = 4\n", "changed: qp-timeout, qp-retries, qp-reads");
	open_unanswered(&t, &lab);
	ASSERT_EQ(syndrome_of(&t, SHMD_OPCODE_RDMA_WRITE, 64), SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	raw_traffic_deinit(&t);
	expect_command(&lab, "QPC.PATH.ACK_TIMEOUT", 9);
	expect_command(&lab, "QPC.RETRY_COUNT", 2);
	expect_command(&lab, "QPC.LOG_RRA_MAX", 2);
	expect_command(&lab, "QPC.LOG_SRA_MAX", 2);
	lab_deinit(&lab);
}

TEST(peers_without_a_receive_are_tried_as_often_as_the_settings_or_the_client_say)
{
	const struct raw_traffic_attr receiver = {.n_rq_wqes = 4};
	const struct raw_traffic_attr own = {
		.n_rq_wqes = 4,
		.params = {.timeout = 14, .retry_count = 7, .rnr_retry = 7, .min_rnr_timer = 1, .max_rd_atomic = 16}};
	struct raw_traffic t;
	struct lab lab;

	lab_init(&lab, "qp-rnr-retries = 2\nqp-rnr-timer = 5\n");
	raw_traffic_init_with(&t, lab.daemon.socket, &receiver);
	ASSERT_EQ(syndrome_of(&t, SHMD_OPCODE_SEND, 64), SHMD_SYNDROME_RNR_RETRY_EXC_ERR);
	raw_traffic_deinit(&t);
	expect_command(&lab, "QPC.RNR_RETRY", 2);
	expect_command(&lab, "QPC.MIN_RNR_NAK", 5);
	raw_traffic_init_with(&t, lab.daemon.socket, &own);
	raw_traffic_post(&t, &(struct raw_op){.opcode = SHMD_OPCODE_SEND, .lkey = t.lkey, .laddr = RAW_TRAFFIC_IOVA, .bytes = 64});
	expect_silence(&t, 100 * NSEC_PER_MSEC);
	raw_traffic_deinit(&t);
	expect_command(&lab, "QPC.RNR_RETRY", 7);
	lab_deinit(&lab);
}

TEST(atomics_that_are_off_are_carried_out_for_no_peer)
{
	struct raw_traffic t, before;
	struct lab lab;

	lab_init(&lab, "");
	raw_traffic_init(&before, lab.daemon.socket);
	reload(&lab, "atomics = off\n", "changed: atomics");
	raw_traffic_init(&t, lab.daemon.socket);
	ASSERT_EQ(syndrome_of(&t, SHMD_OPCODE_RDMA_WRITE, 8), 0u);
	ASSERT_NE(syndrome_of(&t, SHMD_OPCODE_ATOMIC_FA, 8), 0u);
	raw_traffic_deinit(&t);
	/* Earlier QPs keep their settings. */
	ASSERT_EQ(syndrome_of(&before, SHMD_OPCODE_ATOMIC_FA, 8), 0u);
	raw_traffic_deinit(&before);
	reload(&lab, "atomics = auto\nqp-retries = 6\n", "changed: atomics, qp-retries");
	raw_traffic_init(&t, lab.daemon.socket);
	ASSERT_EQ(syndrome_of(&t, SHMD_OPCODE_ATOMIC_FA, 8), 0u);
	raw_traffic_deinit(&t);
	lab_deinit(&lab);
}

TEST(packets_are_no_larger_than_the_setting)
{
	struct raw_traffic t;
	struct msg req, rep;
	struct lab lab;

	lab_init(&lab, "mtu = 512\n");
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_NICS;
	raw_expect(&lab.ctl, &req, NULL, 0, MSG_LIST_REP, &rep);
	ASSERT_GE(rep.list_rep.n_nics, 1u);
	for (uint32_t i = 0; i < rep.list_rep.n_nics; i++)
		ASSERT_EQ(rep.list_rep.nics[i].mtu_bytes, 512u);
	msg_deinit(&rep);
	raw_traffic_init(&t, lab.daemon.socket);
	memset(t.heap, 0x3c, 4096);
	ASSERT_EQ(syndrome_of(&t, SHMD_OPCODE_RDMA_WRITE, 4096), 0u);
	ASSERT_MEMEQ(t.heap, t.heap + 4096, 4096);
	raw_traffic_deinit(&t);
	expect_command(&lab, "QPC.MTU", 2);
	/* Another one waits for the next start. */
	reload(&lab, "mtu = 1024\n", "take effect at the next start: mtu");
	lab_deinit(&lab);
}
