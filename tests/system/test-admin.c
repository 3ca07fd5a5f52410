/* SPDX-License-Identifier: Apache-2.0 */
/* Administration of a real daemon through the real library: kill, drain, monitors, and a look into live queues. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmemclient-admin.h>
#include <shmd/abi/cqe.h>

#include "proto/base/nsec.h"
#include "proto/status.h"
#include "tests/lib/test.h"
#include "tests/system/client-lab.h"
#include "tests/system/raw-traffic.h"

#define ORDINARY_UID 4242
#define GRACE_NSEC (2 * NSEC_PER_SEC) /* so that all that is done in it is, on a loaded machine too */
#define N_STORM 4000u
#define STORM_MAX_RSS_BYTES (2u << 20)
#define MAX_EVENTS 256

static const struct shmd_queues_attr one_qp = {.n_qps = 1};

static struct shmd_client *open_control(const struct fixture_daemon *daemon)
{
	const struct shmd_client_attr attr = {.socket_path = daemon->socket, .role = SHMD_ROLE_CONTROL};
	struct shmd_client *client;

	ASSERT_OK(shmd_client_open(&attr, &client));
	return client;
}

static uint64_t deadline(void)
{
	return nsec_now() + (test_has_sanitizer() ? 40 : 10) * NSEC_PER_SEC;
}

/* Until exactly `n` sessions are left. */
static void await_sessions(struct shmd_client *control, uint32_t n)
{
	struct shmd_daemon_status status;
	uint64_t end = deadline();

	for (;;) {
		ASSERT_OK(shmd_admin_status(control, &status));
		if (status.n_sessions == n)
			return;
		if (nsec_now() > end)
			test_fail(TEST_WHERE, "there are %u sessions, not %u", status.n_sessions, n);
		usleep(2000);
	}
}

static void put_and_verify(struct lab_side *side, uint64_t value)
{
	struct shmd_dev_qp *qp = shmd_queues_dev_qp(side->queues, 0);

	memcpy(lab_byte(side, 0), &value, 8);
	ASSERT_EQ(shmd_dev_qp_put(qp, lab_remote(side, 4096), lab_local(side, 0), 8, 10 * NSEC_PER_SEC),
		  SHMD_DEV_OK);
	ASSERT_MEMEQ(lab_byte(side, 4096), &value, 8);
}

static void open_connected(struct lab_side *side, const struct fixture_daemon *daemon)
{
	lab_side_open(side, daemon, &one_qp);
	lab_connect(side, 0, side, 0);
}

/* ---- kill ---------------------------------------------------------------------------------------------------------- */

TEST(kill_ends_the_victim_with_its_status_and_no_other_session)
{
	struct fixture_daemon daemon;
	struct lab_side victim, other;
	struct shmd_daemon_status status;
	struct shmd_counters counters;
	struct shmd_client *control;
	struct shmd_dev_qp *qp;

	fixture_daemon_start(&daemon, NULL);
	control = open_control(&daemon);
	open_connected(&victim, &daemon);
	open_connected(&other, &daemon);
	put_and_verify(&victim, 1);
	ASSERT_OK(shmd_admin_kill(control, shmd_client_session(victim.client)));

	ASSERT_ERR(shmd_client_counters(victim.client, &counters), ECANCELED);
	ASSERT(strstr(shmd_error_text(), "an administrator ended the session"));
	ASSERT_EQ(shmd_client_health(victim.client), SHMD_HEALTH_SESSION_ENDED);
	await_sessions(control, 1);
	qp = shmd_queues_dev_qp(victim.queues, 0);
	ASSERT_EQ(shmd_dev_qp_put(qp, lab_remote(&victim, 4096), lab_local(&victim, 0), 8, 10 * NSEC_PER_SEC),
		  SHMD_DEV_HEALTH);
	ASSERT_OK(shmd_admin_status(control, &status));
	ASSERT_EQ(status.n_qps, 1);
	ASSERT_EQ(status.n_mrs, 2); /* its own and the scratch memory */
	for (uint64_t i = 0; i < 100; i++)
		put_and_verify(&other, i);
	ASSERT_EQ(shmd_client_health(other.client), SHMD_HEALTH_OK);
	ASSERT_ERR(shmd_admin_kill(control, shmd_client_session(victim.client)), ENOENT);

	shmd_client_close(victim.client);
	lab_side_close(&other);
	shmd_client_close(control);
	fixture_daemon_stop(&daemon);
}

static int count_items(void *arg, const struct shmd_session_item *item)
{
	++*(unsigned int *)arg;
	return 0;
}

/* The rights of a user who can open the socket and is neither root nor the daemon's user. */
static void be_ordinary(const struct fixture_daemon *daemon, uint64_t session, uint32_t qpn)
{
	struct shmd_queue_head head;
	struct shmd_client *control;
	unsigned int n = 0;
	uint8_t buf[64];

	ASSERT_OK(setgid(ORDINARY_UID));
	ASSERT_OK(setuid(ORDINARY_UID));
	control = open_control(daemon);
	ASSERT_ERR(shmd_admin_kill(control, session), EPERM);
	ASSERT_ERR(shmd_admin_drain(control, true, 0), EPERM);
	ASSERT_ERR(shmd_admin_drain(control, false, 0), EPERM);
	ASSERT_ERR(shmd_admin_port_set(control, raw_traffic_nic(0), false), EPERM);
	ASSERT_ERR(shmd_admin_queue_head(control, raw_traffic_nic(0), qpn, &head), EPERM);
	ASSERT_ERR(shmd_admin_queue_read(control, raw_traffic_nic(0), qpn, SHMD_PART_SQ, 0, 1, buf), EPERM);
	ASSERT_OK(shmd_admin_sessions(control, count_items, &n));
	ASSERT_EQ(n, 0);
	shmd_client_close(control);
}

TEST(an_ordinary_user_may_not_administer)
{
	struct fixture_daemon daemon;
	struct shmd_qp_info info;
	struct lab_side side;
	pid_t child;
	int status;

	if (geteuid() != 0)
		test_skip("needs root, to become another user");
	fixture_daemon_start(&daemon, "--socket-mode=0666", NULL);
	ASSERT_OK(chmod(daemon.folder, 0755));
	open_connected(&side, &daemon);
	ASSERT_OK(shmd_queues_query(side.queues, 0, &info));
	child = fork();
	ASSERT_GE(child, 0);
	if (child == 0) {
		be_ordinary(&daemon, shmd_client_session(side.client), info.qpn);
		_exit(0);
	}
	ASSERT_EQ(waitpid(child, &status, 0), child);
	ASSERT_EQ(status, 0);
	put_and_verify(&side, 3);
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

/* ---- drain ---------------------------------------------------------------------------------------------------------- */

TEST_WAITS(drain_refuses_new_sessions_and_ends_live_ones_cleanly_after_the_grace, TEST_DEFAULT_TIMEOUT_SEC)
{
	const struct shmd_client_attr attr = {.role = SHMD_ROLE_CLIENT};
	struct shmd_client_attr late = attr;
	struct fixture_daemon daemon;
	struct shmd_daemon_status status;
	struct shmd_client *control, *none;
	struct shmd_counters counters;
	struct shmd_event event;
	struct lab_side side;
	uint64_t start;

	fixture_daemon_start(&daemon, NULL);
	late.socket_path = daemon.socket;
	control = open_control(&daemon);
	open_connected(&side, &daemon);
	start = nsec_now();
	ASSERT_OK(shmd_admin_drain(control, true, GRACE_NSEC));
	ASSERT_OK(shmd_event_next(side.client, 10 * NSEC_PER_SEC, &event));
	ASSERT_EQ(event.kind, SHMD_EVENT_DRAIN);
	ASSERT_EQ(event.detail, 1);
	ASSERT_ERR(shmd_client_open(&late, &none), ESHUTDOWN);
	put_and_verify(&side, 5); /* it works until its time is over */
	ASSERT_OK(shmd_admin_status(control, &status));
	ASSERT(status.draining);
	ASSERT_LE(status.drain_left_nsec, GRACE_NSEC);

	await_sessions(control, 0);
	ASSERT_GE(nsec_now() - start, GRACE_NSEC);
	ASSERT_ERR(shmd_client_counters(side.client, &counters), ESHUTDOWN);
	ASSERT_EQ(shmd_client_health(side.client), SHMD_HEALTH_SESSION_ENDED);
	ASSERT_OK(shmd_admin_status(control, &status));
	ASSERT(status.draining);
	ASSERT_EQ(status.drain_left_nsec, 0);
	ASSERT_EQ(status.n_qps, 0);
	ASSERT_ERR(shmd_client_open(&late, &none), ESHUTDOWN);

	ASSERT_OK(shmd_admin_drain(control, false, 0));
	shmd_client_close(side.client);
	open_connected(&side, &daemon);
	put_and_verify(&side, 6);
	lab_side_close(&side);
	shmd_client_close(control);
	fixture_daemon_stop(&daemon);
}

TEST_WAITS(drain_called_off_in_time_ends_no_session, TEST_DEFAULT_TIMEOUT_SEC)
{
	struct fixture_daemon daemon;
	struct shmd_client *control;
	struct shmd_event event;
	struct lab_side side;

	fixture_daemon_start(&daemon, NULL);
	control = open_control(&daemon);
	open_connected(&side, &daemon);
	ASSERT_OK(shmd_admin_drain(control, true, GRACE_NSEC));
	ASSERT_OK(shmd_admin_drain(control, false, 0));
	usleep(GRACE_NSEC / NSEC_PER_USEC + 100000);
	put_and_verify(&side, 7);
	ASSERT_OK(shmd_event_next(side.client, 10 * NSEC_PER_SEC, &event));
	ASSERT_OK(shmd_event_next(side.client, 10 * NSEC_PER_SEC, &event));
	ASSERT_EQ(event.kind, SHMD_EVENT_DRAIN);
	ASSERT_EQ(event.detail, 0);
	ASSERT_ERR(shmd_event_next(side.client, 0, &event), EAGAIN);
	lab_side_close(&side);
	shmd_client_close(control);
	fixture_daemon_stop(&daemon);
}

/* ---- monitor ---------------------------------------------------------------------------------------------------------- */

struct watch {
	struct shmd_client *client;
	pthread_t thread;
	pthread_mutex_t lock;
	unsigned int n, seen; /* seen: looked at by await_event */
	struct shmd_admin_event events[MAX_EVENTS];
	int result;
};

static int note_event(void *arg, const struct shmd_admin_event *event)
{
	struct watch *watch = arg;

	pthread_mutex_lock(&watch->lock);
	if (watch->n < MAX_EVENTS)
		watch->events[watch->n++] = *event;
	pthread_mutex_unlock(&watch->lock);
	return 0;
}

static void *run_watch(void *arg)
{
	struct watch *watch = arg;

	watch->result = shmd_admin_monitor(watch->client, note_event, watch);
	return NULL;
}

/* Returns when the daemon counts the monitor, so that nothing is missed. */
static void watch_start(struct watch *watch, const struct fixture_daemon *daemon)
{
	struct shmd_client *control = open_control(daemon);
	struct shmd_daemon_status status = {.n_monitors = 0};
	uint64_t end = deadline();

	memset(watch, 0, sizeof(*watch));
	pthread_mutex_init(&watch->lock, NULL);
	watch->client = open_control(daemon);
	ASSERT_OK(pthread_create(&watch->thread, NULL, run_watch, watch));
	while (status.n_monitors == 0 && nsec_now() < end)
		ASSERT_OK(shmd_admin_status(control, &status));
	ASSERT_EQ(status.n_monitors, 1);
	shmd_client_close(control);
}

/* The next event of this kind; those before it are passed over. */
static struct shmd_admin_event await_event(struct watch *watch, enum shmd_event_kind kind)
{
	struct shmd_admin_event event;
	uint64_t end = deadline();
	bool found = false;

	while (!found) {
		pthread_mutex_lock(&watch->lock);
		while (!found && watch->seen < watch->n) {
			event = watch->events[watch->seen++];
			found = event.kind == kind;
		}
		pthread_mutex_unlock(&watch->lock);
		if (!found && nsec_now() > end)
			test_fail(TEST_WHERE, "no event of kind %d came", (int)kind);
		if (!found)
			usleep(2000);
	}
	ASSERT_GT(event.time_nsec, 0);
	return event;
}

/* A put with a key that does not exist: the QP goes to error. */
static void break_qp(struct lab_side *side)
{
	struct shmd_dev_qp *qp = shmd_queues_dev_qp(side->queues, 0);
	struct shmd_dev_addr nowhere = shmd_dev_addr_of((uintptr_t)lab_byte(side, 0), 0);

	ASSERT_EQ(shmd_dev_qp_put(qp, nowhere, lab_local(side, 0), 8, 10 * NSEC_PER_SEC), SHMD_DEV_CQE_ERROR);
}

TEST(monitor_sees_what_happens_as_it_happens)
{
	struct fixture_daemon daemon;
	struct shmd_admin_event event;
	struct shmd_client *control, *none;
	struct shmd_client_attr late = {.role = SHMD_ROLE_CLIENT};
	struct lab_side side;
	struct watch watch;
	uint64_t session;

	fixture_daemon_start(&daemon, "--soft-nics=1", NULL);
	late.socket_path = daemon.socket;
	control = open_control(&daemon);
	watch_start(&watch, &daemon);
	open_connected(&side, &daemon);
	session = shmd_client_session(side.client);
	event = await_event(&watch, SHMD_EVENT_SESSION_OPENED);
	ASSERT_EQ(event.session, session);
	ASSERT_EQ(event.uid, geteuid());
	ASSERT_EQ(event.pid, getpid());
	event = await_event(&watch, SHMD_EVENT_QUEUES_CREATED);
	ASSERT_EQ(event.session, session);
	ASSERT_STREQ(event.nic, raw_traffic_nic(0));
	ASSERT_EQ(event.detail, 1);
	break_qp(&side);
	ASSERT_EQ(await_event(&watch, SHMD_EVENT_QP_ERROR).number, event.number);
	ASSERT_OK(shmd_admin_drain(control, true, 3600 * NSEC_PER_SEC));
	ASSERT_EQ(await_event(&watch, SHMD_EVENT_DRAIN).detail, 1);
	ASSERT_ERR(shmd_client_open(&late, &none), ESHUTDOWN);
	ASSERT_EQ(await_event(&watch, SHMD_EVENT_REFUSED).detail, SHMD_STATUS_DRAINING);
	ASSERT_OK(shmd_admin_kill(control, session));
	ASSERT_EQ(await_event(&watch, SHMD_EVENT_QUEUES_DESTROYED).session, session);
	event = await_event(&watch, SHMD_EVENT_SESSION_CLOSED);
	ASSERT_EQ(event.session, session);
	ASSERT_EQ(event.detail, SHMD_STATUS_KILLED);
	ASSERT_OK(shmd_admin_drain(control, false, 0));
	ASSERT_EQ(await_event(&watch, SHMD_EVENT_DRAIN).detail, 0);
	shmd_client_close(side.client);
	shmd_client_close(control);
	fixture_daemon_stop(&daemon);
	ASSERT_OK(pthread_join(watch.thread, NULL));
	ASSERT_EQ(watch.result, -ESHUTDOWN);
	shmd_client_close(watch.client);
}

static uint64_t rss_bytes(const struct fixture_daemon *daemon)
{
	unsigned long pages = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)daemon->pid);
	f = fopen(path, "re");
	ASSERT(f);
	ASSERT_EQ(fscanf(f, "%*u %lu", &pages), 1);
	fclose(f);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Two events each. */
static void make_and_destroy(struct raw_client *raw, unsigned int n)
{
	struct msg req, rep;
	uint32_t queues;

	for (unsigned int i = 0; i < n; i++) {
		raw_create_queues(raw, 1, &rep);
		queues = rep.queue_create_rep.queues;
		msg_deinit(&rep);
		msg_init(&req, MSG_QUEUE_DESTROY_REQ, 0);
		req.queue_destroy_req.handle = queues;
		raw_expect(raw, &req, NULL, 0, MSG_OK_REP, &rep);
	}
}

/* Until the event that reports the lost ones. Returns how many came before it. */
static uint32_t read_to_dropped(struct raw_client *monitor, uint32_t *ret_dropped)
{
	struct msg msg;

	for (uint32_t n = 0;; n++) {
		ASSERT_OK(raw_recv(monitor, &msg, NULL));
		ASSERT_EQ(msg.kind, MSG_EVENT);
		if (msg.event.kind == MSG_EVENT_DROPPED) {
			*ret_dropped = msg.event.number;
			return n;
		}
		ASSERT_LT(n, N_STORM);
	}
}

TEST(slow_monitor_gets_dropped_and_costs_bounded_memory)
{
	struct raw_client monitor, client;
	struct fixture_daemon daemon;
	uint32_t n_read, n_dropped;
	struct msg req, rep;
	uint64_t before;

	fixture_daemon_start(&daemon, NULL);
	raw_connect(&client, daemon.socket);
	raw_hello(&client, MSG_ROLE_CLIENT);
	raw_open_nic(&client, "");
	make_and_destroy(&client, 50); /* what the daemon keeps once it has made queues is there now */
	raw_connect(&monitor, daemon.socket);
	raw_hello(&monitor, MSG_ROLE_CONTROL);
	msg_init(&req, MSG_MONITOR_REQ, 0);
	raw_expect(&monitor, &req, NULL, 0, MSG_OK_REP, &rep);
	before = rss_bytes(&daemon);
	make_and_destroy(&client, N_STORM / 2);
	if (!test_has_sanitizer())
		ASSERT_LE(rss_bytes(&daemon), before + STORM_MAX_RSS_BYTES);
	n_read = read_to_dropped(&monitor, &n_dropped);
	ASSERT_EQ(n_read + n_dropped, N_STORM);
	printf("# %u events waited for a monitor that did not read, %u were dropped\n", n_read, n_dropped);
	/* And it hears what comes afterwards. */
	make_and_destroy(&client, 1);
	ASSERT_OK(raw_recv(&monitor, &rep, NULL));
	ASSERT_EQ(rep.event.kind, MSG_EVENT_QUEUES_CREATED);
	raw_close(&client);
	raw_close(&monitor);
	fixture_daemon_stop(&daemon);
}

/* ---- a look into queues --------------------------------------------------------------------------------------------------- */

static void write_and_wait(struct raw_traffic *traffic, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		raw_traffic_write(traffic, 4096 + 64 * (i % 16), 64 * (i % 16), 64);
		ASSERT_EQ(raw_traffic_poll(traffic), SHMD_CQE_REQ);
	}
}

static void expect_ring(struct shmd_client *control, const struct raw_traffic *traffic, enum shmd_queue_part part,
			const uint8_t *ring, uint32_t n_entries)
{
	static const uint32_t firsts[] = {0, 1, 11, 63, UINT32_MAX};
	uint8_t *buf = malloc((size_t)n_entries * 64);

	for (unsigned int f = 0; f < sizeof(firsts) / sizeof(firsts[0]); f++) {
		ASSERT_OK(shmd_admin_queue_read(control, raw_traffic_nic(0), traffic->qp.qpn, part, firsts[f], n_entries, buf));
		for (uint32_t i = 0; i < n_entries; i++)
			ASSERT_MEMEQ(buf + 64 * i, ring + 64 * ((firsts[f] + i) % n_entries), 64);
	}
	free(buf);
}

static void expect_dump(struct shmd_client *control, const struct raw_traffic *traffic)
{
	struct shmd_queue_head head;

	ASSERT_OK(shmd_admin_queue_head(control, raw_traffic_nic(0), traffic->qp.qpn, &head));
	ASSERT_EQ(head.qp.state, 3); /* RTS */
	ASSERT_EQ(head.qp.sq_pi, traffic->pi);
	ASSERT_EQ(head.qp.sq_ci, traffic->pi);
	ASSERT_EQ(head.dbrec_sq, traffic->pi);
	ASSERT_EQ(head.dbrec_send_cq, traffic->ci);
	ASSERT_EQ(head.qp.sq_wqebbs, 1u << traffic->qp.log2_sq_wqebbs);
	ASSERT_EQ(head.send_cqn, traffic->cq.cqn);
	ASSERT_EQ(head.send_cq_entries, 1u << traffic->cq.log2_entries);
	expect_ring(control, traffic, SHMD_PART_SQ, traffic->queue_mem + traffic->qp.sq_offset,
		    head.qp.sq_wqebbs);
	expect_ring(control, traffic, SHMD_PART_SEND_CQ, traffic->queue_mem + traffic->cq.ring_offset,
		    head.send_cq_entries);
}

TEST(dump_shows_the_bytes_and_indexes_of_a_live_queue_also_after_it_wrapped)
{
	struct fixture_daemon daemon;
	struct raw_traffic traffic;
	struct shmd_client *control;

	fixture_daemon_start(&daemon, "--soft-nics=1", NULL);
	control = open_control(&daemon);
	raw_traffic_init(&traffic, daemon.socket);
	expect_dump(control, &traffic); /* nothing has happened yet */
	write_and_wait(&traffic, 5);
	expect_dump(control, &traffic);
	write_and_wait(&traffic, 80); /* around the send ring five times, around the CQ once */
	expect_dump(control, &traffic);
	raw_traffic_deinit(&traffic);
	shmd_client_close(control);
	fixture_daemon_stop(&daemon);
}

struct reader {
	struct shmd_client *control;
	uint32_t qpn;
	bool stop; /* atomic */
	unsigned int n; /* atomic */
};

static void *run_reader(void *arg)
{
	struct reader *reader = arg;
	uint8_t buf[64 * 64];

	while (!__atomic_load_n(&reader->stop, __ATOMIC_RELAXED)) {
		ASSERT_OK(shmd_admin_queue_read(reader->control, raw_traffic_nic(0), reader->qpn, SHMD_PART_SEND_CQ,
						reader->n, 64, buf));
		__atomic_fetch_add(&reader->n, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

TEST(dump_of_a_busy_queue_disturbs_it_not)
{
	struct reader reader = {.stop = false};
	struct fixture_daemon daemon;
	struct raw_traffic traffic;
	pthread_t thread;
	uint64_t end;

	fixture_daemon_start(&daemon, "--soft-nics=1", NULL);
	reader.control = open_control(&daemon);
	raw_traffic_init(&traffic, daemon.socket);
	reader.qpn = traffic.qp.qpn;
	ASSERT_OK(pthread_create(&thread, NULL, run_reader, &reader));
	/* Until both have been at it for a while. */
	write_and_wait(&traffic, 500);
	for (end = deadline(); __atomic_load_n(&reader.n, __ATOMIC_RELAXED) < 100;) {
		ASSERT_LT(nsec_now(), end);
		write_and_wait(&traffic, 1);
	}
	__atomic_store_n(&reader.stop, true, __ATOMIC_RELAXED);
	ASSERT_OK(pthread_join(thread, NULL));
	raw_traffic_deinit(&traffic);
	shmd_client_close(reader.control);
	fixture_daemon_stop(&daemon);
}

TEST(hostile_arguments_of_an_administrator_are_refused)
{
	static const char *const names[] = {"soft1", "soft", "soft00", "../soft0", "\033[2J", "soft0\n"};
	struct fixture_daemon daemon;
	struct raw_traffic traffic;
	struct shmd_queue_head head;
	struct shmd_client *control;
	uint8_t buf[64];

	fixture_daemon_start(&daemon, "--soft-nics=1", NULL);
	control = open_control(&daemon);
	raw_traffic_init(&traffic, daemon.socket);
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		ASSERT_ERR(shmd_admin_queue_head(control, names[i], traffic.qp.qpn, &head), ENODEV);
		ASSERT_ERR(shmd_admin_port_set(control, names[i], false), ENODEV);
	}
	ASSERT_ERR(shmd_admin_queue_head(control, raw_traffic_nic(0), 0, &head), ENOENT);
	ASSERT_ERR(shmd_admin_queue_head(control, raw_traffic_nic(0), traffic.qp.qpn + 1, &head), ENOENT);
	ASSERT_ERR(shmd_admin_queue_head(control, raw_traffic_nic(0), UINT32_MAX, &head), ENOENT);
	ASSERT_ERR(shmd_admin_queue_read(control, raw_traffic_nic(0), traffic.qp.qpn, SHMD_PART_RQ, 0, 1, buf), ENOENT);
	ASSERT_ERR(shmd_admin_kill(control, 0), ENOENT);
	ASSERT_ERR(shmd_admin_kill(control, UINT64_MAX), ENOENT);
	ASSERT_ERR(shmd_admin_kill(control, shmd_client_session(control)), ENOENT);
	/* For ever is a time like another. */
	ASSERT_OK(shmd_admin_drain(control, true, UINT64_MAX));
	write_and_wait(&traffic, 3);
	ASSERT_OK(shmd_admin_drain(control, false, UINT64_MAX));
	fixture_daemon_assert_alive(&daemon);
	raw_traffic_deinit(&traffic);
	shmd_client_close(control);
	fixture_daemon_stop(&daemon);
}
