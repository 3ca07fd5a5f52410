/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing hangs because something else died: every function that waits, on the host and in the three device scopes,
 * against every cause that can end its wait. The two tables below are the test; kernels/README.md, "What ends a
 * wait", prints them for people. A cause comes while all functions wait, each on a QP or in a session of its own.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/test.h"
#include "tests/system/health-lab.h"

/* Where the time limit is what ends the wait, and where something else must, long before. */
#define SHORT_NSEC (300 * NSEC_PER_MSEC)
#define LONG_NSEC (30 * NSEC_PER_SEC)
/* Beyond the time limit, or from the cause to its end: what a loaded machine may add. */
#define SLACK_NSEC (test_has_sanitizer() ? 20 * NSEC_PER_SEC : 5 * NSEC_PER_SEC)

enum cause {
	ERROR_CQE, /* what was posted fails at the peer */
	QP_ERROR, /* a thread of the process moves the QP to ERR */
	DEAD_PEER, /* SIGKILL to the peer's process */
	KILLED, /* an administrator ends the session */
	DAEMON_KILLED, /* SIGKILL to shmemd */
	DAEMON_STOPPED, /* SIGTERM to shmemd */
	DAEMON_HANGS, /* SIGSTOP to shmemd */
	PORT_DOWN,
	N_CAUSES,
};

/* What must come back: status and sentence; or the other pair, where two causes show at the same time. */
struct cell {
	int status;
	const char *sentence; /* a part of it */
	int or_status;
	const char *or_sentence;
};

#define REFUSED {SHMD_DEV_CQE_ERROR, "remote invalid request: the peer's QP does not accept this request", 0, NULL}
#define FLUSHED {SHMD_DEV_CQE_ERROR, "flushed: the QP was in error state", 0, NULL}
#define NO_PEER {SHMD_DEV_CQE_ERROR, "retries exceeded: the peer does not answer", 0, NULL}
#define ENDED {SHMD_DEV_HEALTH, "shmemd ended the session", 0, NULL}
#define GONE {SHMD_DEV_HEALTH, "the connection to shmemd broke", 0, NULL}
#define DOWN {SHMD_DEV_HEALTH, "the NIC's port is down", 0, NULL}
#define LIMIT {SHMD_DEV_TIMEOUT, "the time limit passed", 0, NULL}

/* clang-format off */
static const struct cell device_table[HEALTH_N_STARTS][N_CAUSES] = {
	/*                    ERROR_CQE  QP_ERROR  DEAD_PEER  KILLED  D_KILLED  D_STOPPED  D_HANGS  PORT_DOWN */
	[HEALTH_IN_FLIGHT] = {REFUSED,   FLUSHED,  NO_PEER,   ENDED,  GONE,     ENDED,     LIMIT,   DOWN},
	[HEALTH_IDLE] =      {LIMIT,     LIMIT,    LIMIT,     ENDED,  GONE,     ENDED,     LIMIT,   DOWN},
	[HEALTH_FULL] =      {REFUSED,   FLUSHED,  NO_PEER,   ENDED,  GONE,     ENDED,     LIMIT,   DOWN},
	[HEALTH_TURN] =      {LIMIT,     LIMIT,    LIMIT,     LIMIT,  LIMIT,    LIMIT,     LIMIT,   LIMIT},
	[HEALTH_LOCK] =      {LIMIT,     LIMIT,    LIMIT,     ENDED,  GONE,     ENDED,     LIMIT,   DOWN},
	[HEALTH_SLOT] =      {LIMIT,     LIMIT,    LIMIT,     ENDED,  GONE,     ENDED,     LIMIT,   DOWN},
};
/* clang-format on */

enum host_kind { EVENT, REQUEST, FETCH, OPEN, N_HOST_KINDS };

#define FINE {0, "", 0, NULL}
#define NO_EVENT {-EAGAIN, "no event came in time", 0, NULL}
#define NOTHING_THERE {-ENOENT, "nothing is published there", 0, NULL}
#define E_KILLED {-ECANCELED, "an administrator ended the session", 0, NULL}
#define E_GONE {-ECONNRESET, "the connection to shmemd broke", 0, NULL}
#define E_STOPPED {-ESHUTDOWN, "the daemon is stopping", 0, NULL}
#define E_SILENT {-ETIMEDOUT, "shmemd did not answer", 0, NULL}
#define NOT_RUNNING {-ECONNREFUSED, "shmemd is not running", -ENOENT, "shmemd is not running"}

static const struct cell host_table[N_HOST_KINDS][N_CAUSES] = {
	[EVENT] = {
		[ERROR_CQE] = {0, "is in error, syndrome 0x12", 0, NULL},
		[QP_ERROR] = NO_EVENT, /* who asks for it knows it */
		[DEAD_PEER] = {0, "is in error, syndrome 0x15", 0, NULL},
		[KILLED] = {0, "ended by", 0, NULL},
		[DAEMON_KILLED] = E_GONE,
		[DAEMON_STOPPED] = {0, "the daemon is stopping", 0, NULL},
		[DAEMON_HANGS] = NO_EVENT,
		[PORT_DOWN] = {0, "the port of soft0 is down", 0, NULL},
	},
	[REQUEST] = {FINE, FINE, FINE, E_KILLED, E_GONE, E_STOPPED, E_SILENT, FINE},
	[FETCH] = {NOTHING_THERE, NOTHING_THERE, NOTHING_THERE, E_KILLED, E_GONE, E_STOPPED, E_SILENT, NOTHING_THERE},
	[OPEN] = {FINE, FINE, FINE, FINE, NOT_RUNNING, NOT_RUNNING, E_SILENT, FINE},
};

/* ---- host functions --------------------------------------------------------------------------------------------- */

struct host_call {
	const struct host_wait *wait;
	const struct fixture_daemon *daemon;
	struct lab_side side; /* a session of its own, but for EVENT */
	uint64_t limit;
	pthread_t thread;
	int status;
	uint64_t nsec;
	char sentence[HEALTH_TEXT_BYTES];
};

struct host_wait {
	const char *name;
	enum host_kind kind;
	int (*run)(struct host_call *call);
};

static int event_next(struct host_call *call)
{
	struct shmd_event event;
	int r = shmd_event_next(call->side.client, call->limit, &event);

	if (r == 0)
		snprintf(call->sentence, sizeof(call->sentence), "%s", event.text);
	return r;
}

static int poll_and_event_next(struct host_call *call)
{
	struct pollfd pfd = {.fd = shmd_client_fd(call->side.client), .events = POLLIN};
	struct shmd_event event;
	int r;

	poll(&pfd, 1, (int)(call->limit / NSEC_PER_MSEC));
	r = shmd_event_next(call->side.client, 0, &event);
	if (r == 0)
		snprintf(call->sentence, sizeof(call->sentence), "%s", event.text);
	return r;
}

static int counters(struct host_call *call)
{
	struct shmd_counters out;

	return shmd_client_counters(call->side.client, &out);
}

static int nic_list(struct host_call *call)
{
	int r = shmd_nic_list(call->side.client, NULL, 0);

	return r < 0 ? r : 0;
}

/* The session has the only NIC already. */
static int nic_open(struct host_call *call)
{
	const struct shmd_nic_attr attr = {.nic = "soft0", .doorbell = -1};
	struct shmd_nic *nic;
	int r = shmd_nic_open(call->side.client, &attr, &nic);

	return r == -EEXIST ? 0 : r;
}

static int mr_reg(struct host_call *call)
{
	struct shmd_mr *mr;
	int r = shmd_mr_reg_mem(call->side.nic, call->side.mem, SHMD_ACCESS_ALL, &mr);

	return r < 0 ? r : shmd_mr_dereg(mr);
}

static int mr_dereg(struct host_call *call)
{
	int r = shmd_mr_dereg(call->side.mr);

	return r < 0 ? r : shmd_mr_reg_mem(call->side.nic, call->side.mem, SHMD_ACCESS_ALL, &call->side.mr);
}

static int queues_create(struct host_call *call)
{
	const struct shmd_queues_attr attr = {.n_qps = 1};
	struct shmd_queues *queues;
	int r = shmd_queues_create(call->side.nic, &attr, &queues);

	return r < 0 ? r : shmd_queues_destroy(queues);
}

static int queues_destroy(struct host_call *call)
{
	const struct shmd_queues_attr attr = {.n_qps = 1};
	int r = shmd_queues_destroy(call->side.queues);

	return r < 0 ? r : shmd_queues_create(call->side.nic, &attr, &call->side.queues);
}

static int queues_connect(struct host_call *call)
{
	struct shmd_addr addr;
	int r = shmd_queues_addr(call->side.queues, 0, &addr);

	r = r < 0 ? r : shmd_queues_connect(call->side.queues, 0, 1, &addr, NULL, NULL);
	return r < 0 ? r : shmd_queues_modify(call->side.queues, 0, SHMD_QP_RST);
}

static int queues_modify(struct host_call *call)
{
	return shmd_queues_modify(call->side.queues, 0, SHMD_QP_RST);
}

static int queues_query(struct host_call *call)
{
	struct shmd_qp_info info;

	return shmd_queues_query(call->side.queues, 0, &info);
}

static const struct shmd_world world = {{7}};

static int publish(struct host_call *call)
{
	int r = shmd_publish(call->side.client, &world, 1, 0, NULL, 0, -1);

	return r < 0 ? r : shmd_unpublish(call->side.client, &world, 1, 0);
}

static int unpublish(struct host_call *call)
{
	int r = shmd_unpublish(call->side.client, &world, 2, 0);

	return r == -ENOENT ? 0 : r;
}

static int fetch(struct host_call *call)
{
	return shmd_fetch(call->side.client, &world, 3, 0, NULL, NULL, NULL, call->limit);
}

static int admin_status(struct host_call *call)
{
	struct shmd_daemon_status status;

	return shmd_admin_status(call->side.client, &status);
}

static int on_session(void *arg, const struct shmd_session_item *item)
{
	return 0;
}

static int admin_sessions(struct host_call *call)
{
	return shmd_admin_sessions(call->side.client, on_session, NULL);
}

static int on_qp(void *arg, const struct shmd_qp_item *item)
{
	return 0;
}

static int admin_qps(struct host_call *call)
{
	return shmd_admin_qps(call->side.client, on_qp, NULL);
}

static int on_mr(void *arg, const struct shmd_mr_item *item)
{
	return 0;
}

static int admin_mrs(struct host_call *call)
{
	return shmd_admin_mrs(call->side.client, on_mr, NULL);
}

static int on_nic(void *arg, const struct shmd_nic_item *item)
{
	return 0;
}

static int admin_nics(struct host_call *call)
{
	return shmd_admin_nics(call->side.client, on_nic, NULL);
}

static int client_open(struct host_call *call)
{
	const struct shmd_client_attr attr = {.socket_path = call->daemon->socket, .timeout_nsec = call->limit};
	struct shmd_client *client;
	int r = shmd_client_open(&attr, &client);

	if (r == 0)
		shmd_client_close(client);
	return r;
}

static const struct host_wait host_waits[] = {
	{"shmd_event_next", EVENT, event_next},
	{"poll of shmd_client_fd", EVENT, poll_and_event_next},
	{"shmd_client_counters", REQUEST, counters},
	{"shmd_nic_list", REQUEST, nic_list},
	{"shmd_nic_open", REQUEST, nic_open},
	{"shmd_mr_reg_mem", REQUEST, mr_reg},
	{"shmd_mr_dereg", REQUEST, mr_dereg},
	{"shmd_queues_create", REQUEST, queues_create},
	{"shmd_queues_destroy", REQUEST, queues_destroy},
	{"shmd_queues_connect", REQUEST, queues_connect},
	{"shmd_queues_modify", REQUEST, queues_modify},
	{"shmd_queues_query", REQUEST, queues_query},
	{"shmd_publish", REQUEST, publish},
	{"shmd_unpublish", REQUEST, unpublish},
	{"shmd_admin_status", REQUEST, admin_status},
	{"shmd_admin_sessions", REQUEST, admin_sessions},
	{"shmd_admin_qps", REQUEST, admin_qps},
	{"shmd_admin_mrs", REQUEST, admin_mrs},
	{"shmd_admin_nics", REQUEST, admin_nics},
	{"shmd_fetch", FETCH, fetch},
	{"shmd_client_open", OPEN, client_open},
};
#define N_HOST_WAITS (sizeof(host_waits) / sizeof(host_waits[0]))

/* Requests do not wait while the daemon answers: they are made again and again, until one fails or the time is up. */
static void *host_main(void *arg)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	struct host_call *call = arg;
	uint64_t begin = nsec_now();

	do {
		call->status = call->wait->run(call);
		call->nsec = nsec_now() - begin;
		if (call->status == 0)
			nanosleep(&pause, NULL);
	} while (call->status == 0 && call->wait->kind != EVENT && call->nsec < call->limit);
	if (call->status < 0)
		snprintf(call->sentence, sizeof(call->sentence), "%s", shmd_error_text());
	return NULL;
}

static void host_open(struct host_call *call, struct health_lab *lab, unsigned int i, const struct cell *cell)
{
	const struct shmd_queues_attr attr = {.n_qps = 1};

	*call = (struct host_call){
		.wait = &host_waits[i],
		.daemon = &lab->daemon,
		/* Nothing but the limit ends it, or nothing at all. */
		.limit = cell->status == -EAGAIN || cell->status == -ENOENT || cell->status == -ETIMEDOUT ||
					 !cell->sentence[0]
				 ? SHORT_NSEC
				 : LONG_NSEC,
	};
	if (call->wait->kind == EVENT)
		call->side = lab->sides[i];
	else if (call->wait->kind != OPEN)
		lab_side_open_on(&call->side, lab_client_limited(&lab->daemon, call->limit), &attr);
}

static void host_close(struct host_call *call)
{
	if (call->wait->kind != EVENT)
		shmd_client_close(call->side.client);
}

/* ---- the causes --------------------------------------------------------------------------------------------------- */

/* Long enough that nothing but the cause ends a request, or short: 67 ms, four times. */
static const struct shmd_qp_params patient = {
	.timeout = 18, .retry_count = 7, .rnr_retry = 7, .min_rnr_timer = 16, .max_rd_atomic = 16};
static const struct shmd_qp_params impatient = {
	.timeout = 14, .retry_count = 3, .rnr_retry = 7, .min_rnr_timer = 16, .max_rd_atomic = 16};

static void error_cqe(struct health_lab *lab)
{
	health_peer_receive(lab, false);
}

static void qp_error(struct health_lab *lab)
{
	for (unsigned int s = 0; s < HEALTH_N_SIDES; s++)
		for (unsigned int i = 0; i < lab->n_qps; i++)
			ASSERT_OK(shmd_queues_modify(lab->sides[s].queues, i, SHMD_QP_ERR));
}

static void daemon_killed(struct health_lab *lab)
{
	fixture_daemon_kill(&lab->daemon);
}

static void daemon_stopped(struct health_lab *lab)
{
	fixture_daemon_stop(&lab->daemon);
}

static void daemon_hangs(struct health_lab *lab)
{
	ASSERT_OK(kill(lab->daemon.pid, SIGSTOP));
}

static const struct {
	const char *name;
	void (*happen)(struct health_lab *lab);
	const struct shmd_qp_params *params;
} causes[N_CAUSES] = {
	[ERROR_CQE] = {"error CQE", error_cqe, &patient},
	[QP_ERROR] = {"QP error", qp_error, &patient},
	[DEAD_PEER] = {"dead peer", health_peer_kill, &impatient},
	[DAEMON_KILLED] = {"daemon killed", daemon_killed, &patient},
	[DAEMON_STOPPED] = {"daemon stopped", daemon_stopped, &patient},
	[DAEMON_HANGS] = {"daemon hangs", daemon_hangs, &patient},
};

/* ---- the check ----------------------------------------------------------------------------------------------------- */

static bool cell_matches(const struct cell *cell, int status, const char *sentence)
{
	return (status == cell->status && strstr(sentence, cell->sentence)) ||
	       (cell->or_sentence && status == cell->or_status && strstr(sentence, cell->or_sentence));
}

/* One line of the printed table; 1 when it is not as it must be. */
static unsigned int check_line(enum cause cause, const char *function, const char *scope, const struct cell *cell,
			       const struct host_call *got, const char *sentence)
{
	uint64_t max = got->limit == SHORT_NSEC ? SHORT_NSEC + SLACK_NSEC : SLACK_NSEC;
	bool right = cell_matches(cell, got->status, sentence) && got->nsec <= max;

	printf("# %-14s %-36s %-6s %4d  %-74s %6.1f ms%s\n", causes[cause].name, function, scope, got->status, sentence,
	       (double)got->nsec / 1e6, right ? "" : "  WRONG");
	return !right;
}

static unsigned int check_device(const struct health_lab *lab, enum cause cause)
{
	unsigned int n_wrong = 0;

	for (unsigned int i = 0; i < lab->n_calls; i++) {
		const struct health_call *call = &lab->calls[i];
		const struct host_call got = {.status = call->status, .nsec = call->nsec, .limit = call->mode.timeout_nsec};

		n_wrong += check_line(cause, call->wait->name, health_scope_name(call),
				      &device_table[call->wait->start][cause], &got, health_sentence(call));
	}
	return n_wrong;
}

static unsigned int check_host(const struct host_call *calls, enum cause cause)
{
	unsigned int n_wrong = 0;

	for (unsigned int i = 0; i < N_HOST_WAITS; i++)
		n_wrong += check_line(cause, calls[i].wait->name, "host", &host_table[calls[i].wait->kind][cause],
				      &calls[i], calls[i].sentence);
	return n_wrong;
}

static void device_limits(enum cause cause, uint64_t limit[HEALTH_N_STARTS])
{
	for (unsigned int start = 0; start < HEALTH_N_STARTS; start++)
		limit[start] = device_table[start][cause].status == SHMD_DEV_TIMEOUT ? SHORT_NSEC : LONG_NSEC;
}

/* The column of a cause: all functions wait, it happens, all have returned as the table says. */
static void run_column(struct health_lab *lab, enum cause cause)
{
	static struct host_call host_calls[N_HOST_WAITS];
	uint64_t limit[HEALTH_N_STARTS];
	unsigned int n_wrong;

	health_lab_open(lab, causes[cause].params);
	for (unsigned int i = 0; i < N_HOST_WAITS; i++)
		host_open(&host_calls[i], lab, i, &host_table[host_waits[i].kind][cause]);
	device_limits(cause, limit);
	for (unsigned int i = 0; i < N_HOST_WAITS; i++)
		if (host_waits[i].kind != OPEN)
			ASSERT_OK(pthread_create(&host_calls[i].thread, NULL, host_main, &host_calls[i]));
	health_lab_begin(lab, limit);
	causes[cause].happen(lab);
	for (unsigned int i = 0; i < N_HOST_WAITS; i++)
		if (host_waits[i].kind == OPEN)
			ASSERT_OK(pthread_create(&host_calls[i].thread, NULL, host_main, &host_calls[i]));
	health_lab_join(lab);
	for (unsigned int i = 0; i < N_HOST_WAITS; i++)
		ASSERT_OK(pthread_join(host_calls[i].thread, NULL));
	if (cause == DAEMON_HANGS)
		ASSERT_OK(kill(lab->daemon.pid, SIGCONT));
	n_wrong = check_device(lab, cause) + check_host(host_calls, cause);
	ASSERT_EQ(n_wrong, 0u);
	for (unsigned int i = 0; i < N_HOST_WAITS; i++)
		host_close(&host_calls[i]);
}

static void column(enum cause cause)
{
	static struct health_lab lab;

	run_column(&lab, cause);
	health_lab_close(&lab);
}

TEST_TIMEOUT(every_wait_ends_when_a_request_fails, 60)
{
	column(ERROR_CQE);
}

TEST_TIMEOUT(every_wait_ends_when_its_qp_is_moved_to_error, 60)
{
	column(QP_ERROR);
}

TEST_TIMEOUT(every_wait_ends_when_the_peer_dies, 60)
{
	column(DEAD_PEER);
}

TEST_TIMEOUT(every_wait_ends_when_the_daemon_is_killed, 60)
{
	column(DAEMON_KILLED);
}

TEST_TIMEOUT(every_wait_ends_when_the_daemon_stops, 60)
{
	column(DAEMON_STOPPED);
}

TEST_TIMEOUT(every_wait_ends_when_the_daemon_hangs, 60)
{
	column(DAEMON_HANGS);
}
