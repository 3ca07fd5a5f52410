/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting pairs of processes in one call: a peer comes late, never comes, or ends meanwhile. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmemclient-admin.h>

#include "proto/base/nsec.h"
#include "tests/lib/test.h"
#include "tests/system/client-lab.h"

#define MAX_PEERS 4u
#define LONG_NSEC (60 * NSEC_PER_SEC)
#define SHORT_NSEC (300 * NSEC_PER_MSEC)
#define NOBODY 9u

static const struct shmd_world_key world = {.secret = "sixteen bytes.."};

/* A PE tells its peers where its memory is. */
struct offer {
	uint64_t iova;
	shmd_be32 rkey_be;
	uint32_t pe, first;
};

struct pe {
	struct lab_side side;
	uint32_t number;
	unsigned int n, n_qps; /* peers, and QPs for each */
	uint32_t peers[MAX_PEERS];
	struct offer offers[MAX_PEERS];
	uint64_t delay_nsec, timeout_nsec;
	unsigned int first; /* QP */
	pthread_t thread;
	int status;
	char text[512];
};

static void pe_open(struct pe *pe, const struct fixture_daemon *daemon, uint32_t number)
{
	const struct shmd_queues_attr attr = {.n_qps = 8};

	*pe = (struct pe){.number = number, .n_qps = 1, .timeout_nsec = LONG_NSEC};
	lab_side_open(&pe->side, daemon, &attr);
}

static int connect_pairs(struct pe *pe)
{
	const struct shmd_pair_attr attr = {.world = world, .pe = pe->number, .timeout_nsec = pe->timeout_nsec};
	const struct offer own = {(uintptr_t)lab_byte(&pe->side, 0), shmd_mr_rkey_be(pe->side.mr), pe->number,
				  pe->first};
	struct shmd_pair pairs[MAX_PEERS] = {{0}};
	int r;

	for (unsigned int i = 0; i < pe->n; i++)
		pairs[i] = (struct shmd_pair){.pe = pe->peers[i],
					      .first = pe->first + i * pe->n_qps,
					      .n_qps = pe->n_qps,
					      .data = &own,
					      .bytes = sizeof(own),
					      .peer_data = &pe->offers[i],
					      .peer_bytes = sizeof(pe->offers[i])};
	r = shmd_pair_connect(pe->side.queues, &attr, pairs, pe->n);
	for (unsigned int i = 0; !r && i < pe->n; i++) {
		ASSERT_EQ(pairs[i].peer_bytes, sizeof(own));
		ASSERT_EQ(pe->offers[i].pe, pe->peers[i]);
	}
	return r;
}

/* The first post follows at once, without a message to the peer. */
static void put_to_all(struct pe *pe)
{
	for (unsigned int i = 0; i < pe->n; i++) {
		const struct offer *offer = &pe->offers[i];
		struct shmd_dev_addr to = shmd_dev_addr_of(offer->iova + 4096 + pe->number * 8, offer->rkey_be);

		memset(lab_byte(&pe->side, 0), (int)pe->number + 1, 8);
		for (unsigned int k = 0; k < pe->n_qps; k++)
			ASSERT_EQ(shmd_dev_qp_put(shmd_queues_dev_qp(pe->side.queues, i * pe->n_qps + k), to,
						  lab_local(&pe->side, 0), 8, LONG_NSEC),
				  SHMD_DEV_OK);
	}
}

static void *pe_main(void *arg)
{
	struct pe *pe = arg;
	const struct timespec delay = nsec_to_timespec(pe->delay_nsec);
	char before[sizeof(pe->text)];

	nanosleep(&delay, NULL);
	ASSERT_ERR(shmd_client_limits(NULL, NULL), EINVAL);
	snprintf(before, sizeof(before), "%s", shmd_error_text());
	pe->status = connect_pairs(pe);
	/* Success leaves the text of the last error alone, also after looks in vain. */
	if (!pe->status)
		ASSERT_STREQ(shmd_error_text(), before);
	snprintf(pe->text, sizeof(pe->text), "%s", pe->status ? shmd_error_text() : "");
	if (!pe->status)
		put_to_all(pe);
	return NULL;
}

static void start(struct pe *pe)
{
	ASSERT_OK(pthread_create(&pe->thread, NULL, pe_main, pe));
}

static void join(struct pe *pe)
{
	ASSERT_OK(pthread_join(pe->thread, NULL));
}

static void expect_nothing_published(const struct fixture_daemon *daemon)
{
	struct shmd_client *control = lab_control(daemon);
	struct shmd_daemon_status status;

	ASSERT_OK(shmd_admin_status(control, &status));
	ASSERT_EQ(status.n_published, 0);
	shmd_client_close(control);
}

static void expect_state(struct pe *pe, unsigned int qp, enum shmd_qp_state state)
{
	struct shmd_qp_info info;

	ASSERT_OK(shmd_queues_query(pe->side.queues, qp, &info));
	ASSERT_EQ(info.state, state);
}

static void expect_put(const struct pe *to, uint32_t from)
{
	uint8_t want[8];

	memset(want, (int)from + 1, sizeof(want));
	ASSERT_MEMEQ(lab_byte(&to->side, 4096 + from * 8), want, sizeof(want));
}

/* ---- all is well */

TEST(either_side_may_post_as_soon_as_its_call_returns)
{
	struct fixture_daemon daemon;
	struct pe pes[2];

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	for (unsigned int i = 0; i < 2; i++) {
		pe_open(&pes[i], &daemon, i);
		pes[i].n = 1;
		pes[i].n_qps = 3;
		pes[i].peers[0] = 1 - i;
	}
	/* The second one comes late. */
	pes[1].delay_nsec = SHORT_NSEC;
	for (unsigned int i = 0; i < 2; i++)
		start(&pes[i]);
	for (unsigned int i = 0; i < 2; i++)
		join(&pes[i]);
	for (unsigned int i = 0; i < 2; i++) {
		if (pes[i].status)
			test_fail(TEST_WHERE, "PE %u: %s", i, pes[i].text);
		expect_put(&pes[i], 1 - i);
		expect_state(&pes[i], 2, SHMD_QP_RTS);
		expect_state(&pes[i], 3, SHMD_QP_RST);
	}
	expect_nothing_published(&daemon);
	for (unsigned int i = 0; i < 2; i++)
		lab_side_close(&pes[i].side);
	fixture_daemon_stop(&daemon);
}

TEST(any_number_of_processes_pair_in_any_order)
{
	struct fixture_daemon daemon;
	struct pe pes[4];

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	for (unsigned int i = 0; i < 4; i++) {
		pe_open(&pes[i], &daemon, i);
		/* Itself among them, and each begins with another one. */
		pes[i].n = 4;
		for (unsigned int k = 0; k < 4; k++)
			pes[i].peers[k] = (3 * i + k) % 4;
	}
	for (unsigned int i = 0; i < 4; i++)
		start(&pes[i]);
	for (unsigned int i = 0; i < 4; i++)
		join(&pes[i]);
	for (unsigned int i = 0; i < 4; i++) {
		ASSERT_STREQ(pes[i].text, "");
		for (unsigned int k = 0; k < 4; k++)
			expect_put(&pes[i], k);
	}
	expect_nothing_published(&daemon);
	for (unsigned int i = 0; i < 4; i++)
		lab_side_close(&pes[i].side);
	fixture_daemon_stop(&daemon);
}

/* The second call of a PE may come while the peer is still in its first. */
static void *pe_main_twice(void *arg)
{
	struct pe *pe = arg;

	pe->status = connect_pairs(pe);
	pe->n = 1;
	pe->first = 4;
	if (!pe->status)
		pe->status = connect_pairs(pe);
	snprintf(pe->text, sizeof(pe->text), "%s", pe->status ? shmd_error_text() : "");
	return NULL;
}

TEST(calls_that_follow_one_another_do_not_meet)
{
	struct fixture_daemon daemon;
	struct pe pes[3];

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	for (uint32_t i = 0; i < 3; i++) {
		pe_open(&pes[i], &daemon, i);
		pes[i].n = 1;
	}
	/* PE 0 is connected with PE 1, and waits for PE 2. */
	pes[0].n = 2;
	pes[0].peers[0] = 1;
	pes[0].peers[1] = 2;
	pes[2].delay_nsec = SHORT_NSEC;
	for (unsigned int i = 0; i < 2; i++)
		ASSERT_OK(pthread_create(&pes[i].thread, NULL, pe_main_twice, &pes[i]));
	start(&pes[2]);
	for (unsigned int i = 0; i < 3; i++)
		join(&pes[i]);
	for (unsigned int i = 0; i < 3; i++)
		ASSERT_STREQ(pes[i].text, "");
	ASSERT_EQ(pes[0].offers[0].first, 4);
	ASSERT_EQ(pes[1].offers[0].first, 4);
	expect_nothing_published(&daemon);
	for (unsigned int i = 0; i < 3; i++)
		lab_side_close(&pes[i].side);
	fixture_daemon_stop(&daemon);
}

/* ---- peers that fail */

TEST_WAITS(a_peer_that_does_not_come_is_named_and_the_call_may_be_repeated, TEST_DEFAULT_TIMEOUT_SEC)
{
	struct fixture_daemon daemon;
	struct pe pes[2];
	uint64_t begin;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	for (unsigned int i = 0; i < 2; i++) {
		pe_open(&pes[i], &daemon, i);
		pes[i].n = 1;
		pes[i].peers[0] = 1 - i;
	}
	pes[0].timeout_nsec = SHORT_NSEC;
	begin = nsec_now();
	ASSERT_ERR(connect_pairs(&pes[0]), ETIMEDOUT);
	ASSERT_GE(nsec_now() - begin, SHORT_NSEC);
	ASSERT_LT(nsec_now() - begin, LONG_NSEC / 2);
	ASSERT_STREQ(shmd_error_text(), "PE 1 has not called shmd_pair_connect() for PE 0 within 0.3 s");
	expect_nothing_published(&daemon);
	expect_state(&pes[0], 0, SHMD_QP_RST);
	pes[0].timeout_nsec = LONG_NSEC;
	for (unsigned int i = 0; i < 2; i++)
		start(&pes[i]);
	for (unsigned int i = 0; i < 2; i++)
		join(&pes[i]);
	ASSERT_STREQ(pes[0].text, "");
	ASSERT_STREQ(pes[1].text, "");
	for (unsigned int i = 0; i < 2; i++)
		lab_side_close(&pes[i].side);
	fixture_daemon_stop(&daemon);
}

/* PE 1 waits for one who never comes before it connects with PE 0, which connects and waits for it. */
static void open_stuck(struct pe *pe, const struct fixture_daemon *daemon)
{
	pe_open(pe, daemon, 1);
	pe->n = 2;
	pe->peers[0] = NOBODY;
	pe->peers[1] = 0;
}

TEST_WAITS(a_peer_that_gives_up_says_why, TEST_DEFAULT_TIMEOUT_SEC)
{
	struct fixture_daemon daemon;
	struct pe waiting, stuck;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	pe_open(&waiting, &daemon, 0);
	waiting.n = 1;
	waiting.peers[0] = 1;
	open_stuck(&stuck, &daemon);
	stuck.timeout_nsec = NSEC_PER_SEC;
	start(&stuck);
	ASSERT_ERR(connect_pairs(&waiting), ECONNABORTED);
	ASSERT_STREQ(shmd_error_text(),
		     "PE 1 gave up: PE 9 has not called shmd_pair_connect() for PE 1 within 1.0 s");
	expect_state(&waiting, 0, SHMD_QP_RST);
	join(&stuck);
	ASSERT_EQ(stuck.status, -ETIMEDOUT);
	expect_nothing_published(&daemon);
	lab_side_close(&waiting.side);
	lab_side_close(&stuck.side);
	fixture_daemon_stop(&daemon);
}

static pid_t fork_stuck(const struct fixture_daemon *daemon)
{
	pid_t pid = fork();

	ASSERT_GE(pid, 0);
	if (!pid) {
		struct pe pe;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		open_stuck(&pe, daemon);
		connect_pairs(&pe);
		_exit(1);
	}
	return pid;
}

TEST(a_peer_that_dies_meanwhile_ends_the_wait)
{
	struct fixture_daemon daemon;
	struct pe pe;
	uint64_t begin;
	pid_t child;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	child = fork_stuck(&daemon);
	pe_open(&pe, &daemon, 0);
	pe.n = 1;
	pe.peers[0] = 1;
	start(&pe);
	/* It is connected, so it has what the child published. */
	for (struct shmd_qp_info info = {.state = SHMD_QP_RST}; info.state != SHMD_QP_RTS;)
		ASSERT_OK(shmd_queues_query(pe.side.queues, 0, &info));
	begin = nsec_now();
	ASSERT_OK(kill(child, SIGKILL));
	join(&pe);
	ASSERT_LT(nsec_now() - begin, 10 * NSEC_PER_SEC);
	ASSERT_EQ(waitpid(child, NULL, 0), child);
	ASSERT_EQ(pe.status, -ECONNABORTED);
	ASSERT_STREQ(pe.text, "PE 1 ended before it was connected");
	expect_state(&pe, 0, SHMD_QP_RST);
	expect_nothing_published(&daemon);
	lab_side_close(&pe.side);
	fixture_daemon_stop(&daemon);
}

TEST(a_daemon_that_dies_ends_the_wait)
{
	struct fixture_daemon daemon;
	struct pe pe;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	pe_open(&pe, &daemon, 0);
	pe.n = 1;
	pe.peers[0] = 1;
	start(&pe);
	fixture_daemon_kill(&daemon);
	join(&pe);
	ASSERT_EQ(pe.status, -ECONNRESET);
	shmd_client_close(pe.side.client);
}

/* Most likely after all entries are published. */
static void *stop_soon(void *arg)
{
	const struct fixture_daemon *daemon = arg;
	const struct timespec pause = nsec_to_timespec(SHORT_NSEC);

	nanosleep(&pause, NULL);
	ASSERT_OK(kill(daemon->pid, SIGSTOP));
	return NULL;
}

/* Thirty peers are thirty requests to clean up, and the first that is not answered is the last. */
TEST_WAITS(a_daemon_that_does_not_answer_holds_the_call_up_for_two_requests, TEST_DEFAULT_TIMEOUT_SEC)
{
	const struct shmd_pair_attr attr = {.world = world, .pe = 100, .timeout_nsec = NSEC_PER_SEC};
	const struct shmd_queues_attr queues = {.n_qps = 30};
	struct shmd_pair pairs[30] = {{0}}, self = {.pe = 100};
	struct fixture_daemon daemon;
	struct lab_side side;
	pthread_t stopper;
	uint64_t begin;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	lab_side_open_on(&side, lab_client_limited(&daemon, NSEC_PER_SEC), &queues);
	for (uint32_t i = 0; i < 30; i++)
		pairs[i] = (struct shmd_pair){.pe = i, .first = i};
	ASSERT_OK(pthread_create(&stopper, NULL, stop_soon, &daemon));
	begin = nsec_now();
	ASSERT_ERR(shmd_pair_connect(side.queues, &attr, pairs, 30), ETIMEDOUT);
	ASSERT_LT(nsec_now() - begin, 15 * NSEC_PER_SEC);
	ASSERT_OK(pthread_join(stopper, NULL));
	ASSERT_OK(kill(daemon.pid, SIGCONT));
	ASSERT_OK(shmd_pair_connect(side.queues, &attr, &self, 1));
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

/* ---- what does not fit */

TEST_WAITS(sides_that_name_different_numbers_of_qps_get_an_error, TEST_DEFAULT_TIMEOUT_SEC)
{
	struct fixture_daemon daemon;
	struct pe pes[2];

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	for (unsigned int i = 0; i < 2; i++) {
		pe_open(&pes[i], &daemon, i);
		pes[i].n = 1;
		pes[i].n_qps = i + 1;
		pes[i].timeout_nsec = 2 * NSEC_PER_SEC;
		pes[i].peers[0] = 1 - i;
		start(&pes[i]);
	}
	for (unsigned int i = 0; i < 2; i++)
		join(&pes[i]);
	/* One that looks first knows; the other knows as well, or finds the peer gone. */
	ASSERT(pes[0].status == -EINVAL || pes[1].status == -EINVAL);
	for (unsigned int i = 0; i < 2; i++) {
		if (pes[i].status == -EINVAL)
			ASSERT(strstr(pes[i].text, "QPs, and PE"));
		ASSERT_NE(pes[i].status, 0);
		lab_side_close(&pes[i].side);
	}
	expect_nothing_published(&daemon);
	fixture_daemon_stop(&daemon);
}

TEST(arguments_that_make_no_pair_are_refused)
{
	const struct shmd_queues_attr dcis = {.n_qps = 1, .qp_type = SHMD_QP_TYPE_DCI};
	struct shmd_pair_attr attr = {.world = world};
	struct fixture_daemon daemon;
	struct shmd_queues *dci;
	uint8_t byte = 0;
	struct pe pe;
	struct {
		struct shmd_pair pair;
		int err;
	} wrong[] = {
		{{.first = 8}, EINVAL},
		{{.first = 7, .n_qps = 2}, EINVAL},
		{{.n_qps = UINT32_MAX}, EINVAL},
		{{.data = &byte, .bytes = SHMD_PAIR_DATA_BYTES + 1}, EINVAL},
		{{.bytes = 1}, EINVAL},
		/* To itself, with more than it takes. */
		{{.data = &byte, .bytes = 1, .peer_data = &byte}, ENOBUFS},
	};
	struct shmd_pair twice[2] = {{.first = 0}, {.first = 1}};

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	pe_open(&pe, &daemon, 0);
	ASSERT_ERR(shmd_pair_connect(NULL, &attr, &wrong[0].pair, 1), EINVAL);
	ASSERT_ERR(shmd_pair_connect(pe.side.queues, NULL, &wrong[0].pair, 1), EINVAL);
	ASSERT_ERR(shmd_pair_connect(pe.side.queues, &attr, NULL, 1), EINVAL);
	ASSERT_OK(shmd_pair_connect(pe.side.queues, &attr, NULL, 0));
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		ASSERT_ERR(shmd_pair_connect(pe.side.queues, &attr, &wrong[i].pair, 1), wrong[i].err);
	ASSERT_ERR(shmd_pair_connect(pe.side.queues, &attr, twice, 2), EINVAL);
	twice[0].first = 8;
	ASSERT_ERR(shmd_pair_connect(pe.side.queues, &attr, twice, 2), EINVAL);
	twice[0].first = 0;
	ASSERT_OK(shmd_queues_create(pe.side.nic, &dcis, &dci));
	ASSERT_ERR(shmd_pair_connect(dci, &attr, twice, 1), EINVAL);
	expect_nothing_published(&daemon);
	/* A caller that does not want the peer's data learns its size. */
	twice[0].data = &byte;
	twice[0].bytes = 1;
	ASSERT_OK(shmd_pair_connect(pe.side.queues, &attr, twice, 1));
	ASSERT_EQ(twice[0].peer_bytes, 1);
	/* QPs that are connected cannot be paired, and stay as they are. */
	ASSERT_ERR(shmd_pair_connect(pe.side.queues, &attr, twice, 1), EINVAL);
	expect_state(&pe, 0, SHMD_QP_RTS);
	ASSERT_OK(shmd_queues_destroy(dci));
	lab_side_close(&pe.side);
	fixture_daemon_stop(&daemon);
}
