/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of the library, and shmemctl, while the daemon dies under a service manager that keeps descriptors: calls and waits go on,
 * the daemon carries out each request once, and if no daemon comes back everything ends with the reason.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <shmemclient-admin.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-keeper.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/system/client-lab.h"
#include "tests/system/ctl-lab.h"

#define FOR_EVER "--restart-grace=600000"
#define SOON "--restart-grace=200"

static const struct shmd_queues_attr one_qp = {.n_qps = 1};
static const struct shmd_world_key world = {{7}};

/* A session whose QP reaches its own memory. */
static void open_side(struct lab_side *side, const struct fixture_keeper *keeper)
{
	lab_side_open_on(side, lab_client_limited(&keeper->daemon, test_patience_nsec()), &one_qp);
	lab_connect(side, 0, side, 0);
}

static void put_and_verify(struct lab_side *side, uint64_t value)
{
	struct shmd_dev_qp *qp = shmd_queues_dev_qp(side->queues, 0);

	memcpy(lab_byte(side, 0), &value, 8);
	ASSERT_EQ(shmd_dev_qp_put(qp, lab_remote(side, 4096), lab_local(side, 0), 8,
				  test_patience_nsec()),
		  SHMD_DEV_OK);
	ASSERT_MEMEQ(lab_byte(side, 4096), &value, 8);
}

static void await_restarts(const struct shmd_client *client, unsigned int n)
{
	uint64_t end = nsec_now() + test_patience_nsec();

	while (shmd_client_restarts(client) < n && nsec_now() < end)
		usleep(1000);
	ASSERT_EQ(shmd_client_restarts(client), n);
}

static void await_gone(struct shmd_client *client)
{
	const struct shmd_health_page *page = shmd_client_health_page(client);
	uint64_t end = nsec_now() + test_patience_nsec();

	while (__atomic_load_n(&page->session, __ATOMIC_ACQUIRE) == SHMD_HEALTH_OK && nsec_now() < end)
		usleep(1000);
	ASSERT_EQ(shmd_client_health(client), SHMD_HEALTH_DAEMON_GONE);
}

static void assert_dead(struct shmd_client *client, const char *why)
{
	struct shmd_counters counters;

	ASSERT_ERR(shmd_client_counters(client, &counters), ECONNRESET);
	if (!strstr(shmd_error_text(), why))
		ASSERT_STREQ(shmd_error_text(), why);
}

static unsigned int count_sessions(const struct fixture_keeper *keeper)
{
	struct shmd_client *control = lab_control(&keeper->daemon);
	struct shmd_daemon_status status;

	ASSERT_OK(shmd_admin_status(control, &status));
	shmd_client_close(control);
	return status.n_sessions;
}

static void await_no_session(const struct fixture_keeper *keeper)
{
	uint64_t end = nsec_now() + test_patience_nsec();

	while (count_sessions(keeper) && nsec_now() < end)
		usleep(1000);
	ASSERT_EQ(count_sessions(keeper), 0);
}

/* ---- it goes on --------------------------------------------------------------------------------------------------- */

static void everything_works(struct lab_side *side)
{
	struct shmd_queues *more;
	struct shmd_mr *mr;

	put_and_verify(side, (uint64_t)nsec_now());
	ASSERT_OK(shmd_mr_reg_mem(side->nic, side->mem, SHMD_ACCESS_ALL, &mr));
	ASSERT_OK(shmd_mr_dereg(mr));
	ASSERT_OK(shmd_queues_create(side->nic, &one_qp, &more));
	ASSERT_OK(shmd_queues_destroy(more));
}

static void go_on(void (*restart)(struct fixture_keeper *keeper))
{
	struct fixture_keeper keeper = {0};
	struct shmd_event event;
	struct lab_side side;
	uint64_t session;

	fixture_keeper_start(&keeper, "--soft-nics=1", FOR_EVER, NULL);
	open_side(&side, &keeper);
	session = shmd_client_session(side.client);
	everything_works(&side);
	for (unsigned int i = 1; i <= 3; i++) {
		restart(&keeper);
		await_restarts(side.client, i);
		ASSERT_EQ(shmd_client_health(side.client), SHMD_HEALTH_OK);
		ASSERT_OK(shmd_event_next(side.client, test_patience_nsec(), &event));
		ASSERT_EQ(event.kind, SHMD_EVENT_DAEMON_RESUMED);
		ASSERT_EQ(event.number, i);
		ASSERT(strstr(event.text, "has restarted and taken this session over"));
		everything_works(&side);
	}
	ASSERT_EQ(shmd_client_session(side.client), session);
	ASSERT_EQ(count_sessions(&keeper), 1);
	lab_side_close(&side);
	await_no_session(&keeper);
	fixture_keeper_stop(&keeper);
}

TEST(a_client_goes_on_after_sigkill)
{
	go_on(fixture_keeper_kill_daemon);
}

TEST(a_client_goes_on_after_a_restart)
{
	go_on(fixture_keeper_restart);
}

/* A client that does not wait for another daemon takes nothing from clients that do, even if it opens the NIC first. */
TEST(a_client_goes_on_although_one_that_does_not_was_first)
{
	struct fixture_keeper keeper = {0};
	struct raw_client first;
	struct lab_side side;

	fixture_keeper_start(&keeper, "--soft-nics=1", FOR_EVER, NULL);
	raw_connect(&first, keeper.daemon.socket);
	raw_hello(&first, MSG_ROLE_CLIENT);
	raw_open_nic(&first, "soft0");
	raw_close(&first);
	await_no_session(&keeper);
	open_side(&side, &keeper);
	everything_works(&side);
	fixture_keeper_kill_daemon(&keeper);
	await_restarts(side.client, 1);
	everything_works(&side);
	ASSERT_EQ(count_sessions(&keeper), 1);
	lab_side_close(&side);
	await_no_session(&keeper);
	fixture_keeper_stop(&keeper);
}

/* ---- requests ----------------------------------------------------------------------------------------------------- */

#define N_REQUESTERS 3
#define FEW_KILLS 6u
#define MANY_KILLS 100u

struct requester {
	struct lab_side side;
	const char *socket;
	pthread_t thread;
	uint32_t pe;
	bool stop; /* atomic */
	uint64_t n_rounds;
};

/* Each of these fails when it is carried out twice, or not at all. */
static void one_round(struct requester *r)
{
	uint64_t value = r->n_rounds, got = 0;
	size_t bytes = sizeof(got);
	struct shmd_queues *queues;
	struct shmd_mr *mr;
	int fd;

	ASSERT_OK(shmd_publish(r->side.client, &world, r->pe, 0, &value, sizeof(value), shmd_mem_fd(r->side.mem)));
	ASSERT_OK(shmd_mr_reg_mem(r->side.nic, r->side.mem, SHMD_ACCESS_ALL, &mr));
	ASSERT_OK(shmd_queues_create(r->side.nic, &one_qp, &queues));
	ASSERT_OK(shmd_queues_destroy(queues));
	ASSERT_OK(shmd_mr_dereg(mr));
	ASSERT_OK(shmd_fetch(r->side.client, &world, r->pe, 0, &got, &bytes, &fd, 0));
	ASSERT_EQ(got, value);
	close(fd);
	ASSERT_OK(shmd_unpublish(r->side.client, &world, r->pe, 0));
	put_and_verify(&r->side, value);
	r->n_rounds++;
}

static void *request_until_stopped(void *arg)
{
	struct requester *r = arg;

	while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE))
		one_round(r);
	return NULL;
}

/* The holdings of a daemon that lost nothing and made nothing twice. */
static void assert_holds(const struct fixture_keeper *keeper, const struct shmd_daemon_status *before)
{
	struct shmd_client *control = lab_control(&keeper->daemon);
	struct shmd_daemon_status now;

	ASSERT_OK(shmd_admin_status(control, &now));
	shmd_client_close(control);
	ASSERT_EQ(now.n_sessions, before->n_sessions);
	ASSERT_EQ(now.n_qps, before->n_qps);
	ASSERT_EQ(now.n_cqs, before->n_cqs);
	ASSERT_EQ(now.n_mrs, before->n_mrs);
	ASSERT_EQ(now.n_fds, before->n_fds);
	ASSERT_EQ(now.n_published, before->n_published);
	ASSERT_EQ(now.registered_bytes, before->registered_bytes);
}

TEST_TIMEOUT(requests_are_carried_out_once_through_many_kills, 300)
{
	unsigned int n_kills = test_is_full() ? MANY_KILLS : FEW_KILLS;
	static struct requester requesters[N_REQUESTERS];
	struct fixture_keeper keeper = {0};
	struct shmd_daemon_status before;
	struct shmd_client *control;
	uint64_t n_rounds = 0;

	fixture_keeper_start(&keeper, "--soft-nics=1", FOR_EVER, NULL);
	for (uint32_t i = 0; i < N_REQUESTERS; i++) {
		requesters[i].pe = i;
		open_side(&requesters[i].side, &keeper);
	}
	control = lab_control(&keeper.daemon);
	ASSERT_OK(shmd_admin_status(control, &before));
	shmd_client_close(control);
	for (unsigned int i = 0; i < N_REQUESTERS; i++)
		ASSERT_OK(pthread_create(&requesters[i].thread, NULL, request_until_stopped, &requesters[i]));
	for (unsigned int i = 0; i < n_kills; i++) {
		usleep((useconds_t)(i * 7919 % 20000));
		fixture_keeper_kill_daemon(&keeper);
	}
	for (unsigned int i = 0; i < N_REQUESTERS; i++) {
		__atomic_store_n(&requesters[i].stop, true, __ATOMIC_RELEASE);
		ASSERT_OK(pthread_join(requesters[i].thread, NULL));
		await_restarts(requesters[i].side.client, n_kills);
		n_rounds += requesters[i].n_rounds;
	}
	printf("# %u kills, %llu rounds of requests\n", n_kills, (unsigned long long)n_rounds);
	assert_holds(&keeper, &before);
	for (unsigned int i = 0; i < N_REQUESTERS; i++)
		lab_side_close(&requesters[i].side);
	await_no_session(&keeper);
	fixture_keeper_stop(&keeper);
}

/* Each open is a new session, and none fails whatever moment the daemon dies at. */
static void *open_until_stopped(void *arg)
{
	struct requester *r = arg;
	struct shmd_client_attr attr = {.socket_path = r->socket,
					.timeout_nsec = test_patience_nsec()};
	struct shmd_client *client;

	while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE)) {
		ASSERT_OK(shmd_client_open(&attr, &client));
		shmd_client_close(client);
		r->n_rounds++;
	}
	return NULL;
}

TEST_TIMEOUT(sessions_are_opened_through_many_kills, 300)
{
	unsigned int n_kills = test_is_full() ? MANY_KILLS : 4 * FEW_KILLS;
	static struct requester requesters[N_REQUESTERS];
	struct fixture_keeper keeper = {0};
	uint64_t n_rounds = 0;

	fixture_keeper_start(&keeper, "--soft-nics=1", FOR_EVER, NULL);
	for (uint32_t i = 0; i < N_REQUESTERS; i++) {
		requesters[i].socket = keeper.daemon.socket;
		ASSERT_OK(pthread_create(&requesters[i].thread, NULL, open_until_stopped, &requesters[i]));
	}
	for (unsigned int i = 0; i < n_kills; i++) {
		usleep((useconds_t)(i * 7919 % 20000));
		if (i % 3 == 2)
			fixture_keeper_restart(&keeper);
		else
			fixture_keeper_kill_daemon(&keeper);
	}
	for (unsigned int i = 0; i < N_REQUESTERS; i++) {
		__atomic_store_n(&requesters[i].stop, true, __ATOMIC_RELEASE);
		ASSERT_OK(pthread_join(requesters[i].thread, NULL));
		n_rounds += requesters[i].n_rounds;
	}
	printf("# %u kills, %llu sessions\n", n_kills, (unsigned long long)n_rounds);
	await_no_session(&keeper);
	fixture_keeper_stop(&keeper);
}

/* ---- waits -------------------------------------------------------------------------------------------------------- */

struct waiter {
	struct lab_side *side;
	uint64_t timeout_nsec;
	pthread_t thread;
	int status;
};

static uint64_t *word_of(struct lab_side *side)
{
	return (uint64_t *)lab_byte(side, 64);
}

static void *wait_for_word(void *arg)
{
	struct waiter *waiter = arg;

	waiter->status = shmd_dev_qp_wait_until64(shmd_queues_dev_qp(waiter->side->queues, 0), word_of(waiter->side),
						  SHMD_DEV_CMP_EQ, 1, waiter->timeout_nsec);
	return NULL;
}

static void begin_wait(struct waiter *waiter, struct lab_side *side, uint64_t timeout_nsec)
{
	*waiter = (struct waiter){.side = side, .timeout_nsec = timeout_nsec};
	ASSERT_OK(pthread_create(&waiter->thread, NULL, wait_for_word, waiter));
}

static int end_wait(struct waiter *waiter)
{
	ASSERT_OK(pthread_join(waiter->thread, NULL));
	return waiter->status;
}

TEST(waits_go_on_without_a_daemon_within_their_own_limits)
{
	struct fixture_keeper keeper = {0};
	struct waiter patient, hasty;
	struct lab_side side, other;

	fixture_keeper_start(&keeper, "--soft-nics=1", FOR_EVER, NULL);
	open_side(&side, &keeper);
	open_side(&other, &keeper);
	begin_wait(&patient, &side, test_patience_nsec());
	fixture_keeper_hold(&keeper);
	begin_wait(&hasty, &other, 50 * NSEC_PER_MSEC);
	ASSERT_EQ(end_wait(&hasty), SHMD_DEV_TIMEOUT);
	ASSERT_EQ(shmd_client_health(other.client), SHMD_HEALTH_OK);
	fixture_keeper_go(&keeper);
	await_restarts(side.client, 1);
	__atomic_store_n(word_of(&side), 1, __ATOMIC_RELEASE);
	ASSERT_EQ(end_wait(&patient), SHMD_DEV_OK);
	put_and_verify(&side, 3);
	put_and_verify(&other, 4);
	lab_side_close(&side);
	lab_side_close(&other);
	fixture_keeper_stop(&keeper);
}

/* The next daemon carries out requests posted while none was there. */
TEST(work_posted_without_a_daemon_is_done_by_the_next)
{
	struct fixture_keeper keeper = {0};
	struct lab_side side;
	struct shmd_dev_qp *qp;

	fixture_keeper_start(&keeper, "--soft-nics=1", FOR_EVER, NULL);
	open_side(&side, &keeper);
	qp = shmd_queues_dev_qp(side.queues, 0);
	fixture_keeper_hold(&keeper);
	memset(lab_byte(&side, 0), 0x2b, 8);
	ASSERT_EQ(shmd_dev_qp_put(qp, lab_remote(&side, 4096), lab_local(&side, 0), 8, 20 * NSEC_PER_MSEC),
		  SHMD_DEV_TIMEOUT);
	fixture_keeper_go(&keeper);
	ASSERT_EQ(shmd_dev_qp_quiet(qp, test_patience_nsec()), SHMD_DEV_OK);
	ASSERT_MEMEQ(lab_byte(&side, 4096), lab_byte(&side, 0), 8);
	lab_side_close(&side);
	fixture_keeper_stop(&keeper);
}

/* ---- it does not go on ------------------------------------------------------------------------------------------------ */

TEST(when_none_comes_back_in_time_everything_ends_with_that_reason)
{
	struct fixture_keeper keeper = {0};
	struct waiter waiter;
	struct lab_side side;

	fixture_keeper_start(&keeper, "--soft-nics=1", SOON, NULL);
	open_side(&side, &keeper);
	begin_wait(&waiter, &side, test_patience_nsec());
	fixture_keeper_hold(&keeper);
	await_gone(side.client);
	ASSERT_EQ(end_wait(&waiter), SHMD_DEV_HEALTH);
	assert_dead(side.client, "shmemd is gone: it died and did not come back within 0.2 s");
	/* A daemon that comes late finds no client. */
	fixture_keeper_go(&keeper);
	await_no_session(&keeper);
	shmd_client_close(side.client);
	fixture_keeper_stop(&keeper);
}

TEST(when_the_service_is_stopped_everything_ends_at_once)
{
	struct fixture_keeper keeper = {0};
	struct waiter waiter;
	struct lab_side side;

	fixture_keeper_start(&keeper, "--soft-nics=1", FOR_EVER, NULL);
	open_side(&side, &keeper);
	begin_wait(&waiter, &side, test_patience_nsec());
	fixture_keeper_stop_daemon(&keeper);
	await_gone(side.client);
	ASSERT_EQ(end_wait(&waiter), SHMD_DEV_HEALTH);
	assert_dead(side.client, "the connection to shmemd broke");
	shmd_client_close(side.client);
	fixture_keeper_go(&keeper);
	ASSERT_EQ(count_sessions(&keeper), 0);
	fixture_keeper_stop(&keeper);
}

TEST(with_a_grace_of_nothing_sessions_end_with_the_daemon)
{
	struct fixture_keeper keeper = {0};
	struct lab_side side;

	fixture_keeper_start(&keeper, "--soft-nics=1", "--restart-grace=0", NULL);
	open_side(&side, &keeper);
	fixture_keeper_kill_daemon(&keeper);
	await_gone(side.client);
	assert_dead(side.client, "the connection to shmemd broke");
	ASSERT_EQ(count_sessions(&keeper), 0);
	shmd_client_close(side.client);
	fixture_keeper_stop(&keeper);
}

/* A library of before, and a controller: their connections end with the daemon, as they always did. */
TEST(client_that_does_not_announce_that_it_can_go_on_is_not_kept)
{
	struct fixture_keeper keeper = {0};
	struct raw_client old, control;
	struct msg msg;

	fixture_keeper_start(&keeper, "--soft-nics=1", FOR_EVER, NULL);
	raw_connect(&old, keeper.daemon.socket);
	raw_hello(&old, MSG_ROLE_CLIENT);
	raw_open_nic(&old, "soft0");
	raw_connect(&control, keeper.daemon.socket);
	raw_hello(&control, MSG_ROLE_CONTROL);
	fixture_keeper_kill_daemon(&keeper);
	ASSERT_ERR(raw_recv(&old, &msg, NULL), ECONNRESET);
	ASSERT_ERR(raw_recv(&control, &msg, NULL), ECONNRESET);
	ASSERT_EQ(count_sessions(&keeper), 0);
	raw_close(&old);
	raw_close(&control);
	fixture_keeper_stop(&keeper);
}

/* ---- what administrators see ------------------------------------------------------------------------------------------- */

TEST(shmemctl_shows_which_sessions_outlive_the_daemon_and_which_did)
{
	struct fixture_keeper keeper = {0};
	struct lab_side side;

	fixture_keeper_start(&keeper, "--soft-nics=1", FOR_EVER, NULL);
	setenv("SHMEMD_SOCKET", keeper.daemon.socket, 1);
	open_side(&side, &keeper);
	ASSERT_EQ(CTL("status"), 0);
	ASSERT_HAS("restart         sessions outlive the daemon; clients wait 10 min 0 s for the next one\n");
	fixture_keeper_kill_daemon(&keeper);
	ASSERT_EQ(CTL("status"), 0);
	ASSERT_HAS("clients wait 10 min 0 s for the next one; 1 came from a previous daemon\n");
	ASSERT_EQ(CTL("--json", "list", "sessions"), 0);
	ASSERT_HAS("\"kept\":true");
	lab_side_close(&side);
	fixture_keeper_stop(&keeper);
}

TEST(port_that_was_taken_down_stays_down)
{
	struct fixture_keeper keeper = {0};

	fixture_keeper_start(&keeper, "--soft-nics=2", FOR_EVER, NULL);
	setenv("SHMEMD_SOCKET", keeper.daemon.socket, 1);
	ASSERT_EQ(CTL("port", "soft1", "down"), 0);
	fixture_keeper_kill_daemon(&keeper);
	ASSERT_EQ(CTL("--json", "list", "nics"), 0);
	ASSERT_HAS("\"state\":\"down\"");
	ASSERT_EQ(CTL("port", "soft1", "up"), 0);
	fixture_keeper_restart(&keeper);
	ASSERT_EQ(CTL("--json", "list", "nics"), 0);
	ASSERT(!strstr(ctl_text, "\"state\":\"down\""));
	fixture_keeper_stop(&keeper);
}

static void await_monitor(void)
{
	do
		ASSERT_EQ(CTL("--json", "status"), 0);
	while (!strstr(ctl_text, "\"n_monitors\":1,"));
}

TEST(a_monitor_goes_on_with_the_next_daemon)
{
	const char *const words[] = {"--json", "monitor", "--kind", "session-opened,resumed", "--count", "3", NULL};
	struct fixture_keeper keeper = {0};
	struct lab_side side, other;
	pid_t pid;
	int out;

	fixture_keeper_start(&keeper, "--soft-nics=1", FOR_EVER, NULL);
	setenv("SHMEMD_SOCKET", keeper.daemon.socket, 1);
	pid = ctl_start(words, &out);
	await_monitor();
	open_side(&side, &keeper);
	ctl_wait_for(out, "\"kind\":\"session-opened\"");
	fixture_keeper_kill_daemon(&keeper);
	ctl_wait_for(out, "has restarted and took over 1 session");
	await_monitor();
	open_side(&other, &keeper);
	ASSERT_EQ(ctl_end(pid, out), 0);
	lab_side_close(&side);
	lab_side_close(&other);
	fixture_keeper_stop(&keeper);
}
