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

#include <shmemclient-admin.h>

#include "proto/base/nsec.h"
#include "tests/lib/test.h"
#include "tests/system/health-lab.h"

/* Whether the time limit ends the wait, or something else must, long before. */
#define SHORT_NSEC (300 * NSEC_PER_MSEC)
#define LONG_NSEC (30 * NSEC_PER_SEC)
/* For a request to a daemon that hangs. Opening the session has to fit into it too. */
#define REQUEST_NSEC (2 * NSEC_PER_SEC)
/* Beyond the time limit, or from the cause to its end: what a loaded machine may add. */
#define SLACK_NSEC (test_has_sanitizer() ? 20 * NSEC_PER_SEC : 10 * NSEC_PER_SEC)

enum cause {
	ERROR_CQE, /* what was posted fails at the peer */
	QP_ERROR, /* a thread of the process moves the QP to ERR */
	BAD_PEER, /* what the peer sent moves this side's QP to ERR */
	DEAD_PEER, /* SIGKILL to the peer's process */
	KILLED, /* an administrator ends the session */
	DRAINED, /* an administrator empties the daemon */
	DAEMON_KILLED, /* SIGKILL to shmemd */
	DAEMON_STOPPED, /* SIGTERM to shmemd */
	DAEMON_HANGS, /* SIGSTOP to shmemd */
	DAEMON_LOST, /* SIGKILL to a shmemd whose sessions outlive it, and none comes back */
	DAEMON_BACK, /* the same, and the next one takes them over */
	PORT_DOWN,
	N_CAUSES,
};

/* The expected result: status and sentence; or the other pair, where two causes show at the same time. */
struct cell {
	int status;
	const char *sentence; /* a part of it */
	int or_status;
	const char *or_sentence;
};

#define REFUSED {SHMD_DEV_CQE_ERROR, "remote invalid request: the peer's QP does not accept or does not allow this request", 0, NULL}
#define FLUSHED {SHMD_DEV_CQE_ERROR, "flushed: the QP was in error state", 0, NULL}
#define BAD_KEY {SHMD_DEV_CQE_ERROR, "local access error: the peer wrote where this side does not allow it", 0, NULL}
#define NO_PEER {SHMD_DEV_CQE_ERROR, "retries exceeded: the peer does not answer", 0, NULL}
#define ENDED {SHMD_DEV_HEALTH, "shmemd ended the session", 0, NULL}
#define GONE {SHMD_DEV_HEALTH, "the connection to shmemd broke", 0, NULL}
#define DOWN {SHMD_DEV_HEALTH, "the NIC's port is down", 0, NULL}
#define LIMIT {SHMD_DEV_TIMEOUT, "the time limit passed", 0, NULL}

/* clang-format off */
static const struct cell device_table[HEALTH_N_STARTS][N_CAUSES] = {
	/*                    ERROR_CQE  QP_ERROR  BAD_PEER  DEAD_PEER  KILLED  DRAINED  D_KILLED  D_STOPPED  D_HANGS  D_LOST  D_BACK  PORT_DOWN */
	[HEALTH_IN_FLIGHT] = {REFUSED,   FLUSHED,  BAD_KEY,  NO_PEER,   ENDED,  ENDED,   GONE,     ENDED,     LIMIT,   GONE,   LIMIT,  DOWN},
	[HEALTH_IDLE] =      {LIMIT,     FLUSHED,  BAD_KEY,  LIMIT,     ENDED,  ENDED,   GONE,     ENDED,     LIMIT,   GONE,   LIMIT,  DOWN},
	[HEALTH_FULL] =      {REFUSED,   FLUSHED,  BAD_KEY,  NO_PEER,   ENDED,  ENDED,   GONE,     ENDED,     LIMIT,   GONE,   LIMIT,  DOWN},
	[HEALTH_TURN] =      {LIMIT,     LIMIT,    LIMIT,    LIMIT,     LIMIT,  LIMIT,   LIMIT,    LIMIT,     LIMIT,   LIMIT,  LIMIT,  LIMIT},
	[HEALTH_LOCK] =      {LIMIT,     LIMIT,    LIMIT,    LIMIT,     LIMIT,  LIMIT,   LIMIT,    LIMIT,     LIMIT,   LIMIT,  LIMIT,  LIMIT},
	[HEALTH_SLOT] =      {LIMIT,     LIMIT,    LIMIT,    LIMIT,     ENDED,  ENDED,   GONE,     ENDED,     LIMIT,   GONE,   LIMIT,  DOWN},
};
/* clang-format on */

/* Results of host functions. */
#define FINE {0, "", 0, NULL}
#define NO_EVENT {-EAGAIN, "no event came in time", 0, NULL}
#define NOTHING_THERE {-ENOENT, "nothing is published there", 0, NULL}
#define E_KILLED {-ECANCELED, "an administrator ended the session: user ", 0, NULL}
#define E_GONE {-ECONNRESET, "the connection to shmemd broke", 0, NULL}
#define E_LOST {-ECONNRESET, "shmemd is gone: it died and did not come back within 0.3 s", 0, NULL}
#define E_STOPPED {-ESHUTDOWN, "the daemon is stopping", 0, NULL}
#define E_DRAINED {-ESHUTDOWN, "the daemon is being drained", 0, NULL}
#define E_SILENT {-ETIMEDOUT, "shmemd did not answer", 0, NULL}
#define NOT_RUNNING {-ECONNREFUSED, "shmemd is not running", -ENOENT, "shmemd is not running"}
/* A monitor has no time limit, and there is nothing to tell it. */
#define NOT_CALLED {0, NULL, 0, NULL}

static const struct cell host_table[HEALTH_N_HOST_KINDS][N_CAUSES] = {
	[HEALTH_EVENT] = {
		[ERROR_CQE] = {0, "is in error, syndrome 0x12", 0, NULL},
		[QP_ERROR] = NO_EVENT, /* tests that ask for it know it */
		[BAD_PEER] = {0, "is in error, syndrome 0x11", 0, NULL},
		[DEAD_PEER] = {0, "is in error, syndrome 0x15", 0, NULL},
		[KILLED] = {0, "killed it", 0, NULL},
		[DRAINED] = {0, "drain", 0, NULL},
		[DAEMON_KILLED] = E_GONE,
		[DAEMON_STOPPED] = {0, "the daemon is stopping", 0, NULL},
		[DAEMON_HANGS] = NO_EVENT,
		[DAEMON_LOST] = E_LOST,
		[DAEMON_BACK] = {0, "has restarted and taken this session over", 0, NULL},
		[PORT_DOWN] = {0, "the port of soft0 is down", 0, NULL},
	},
	[HEALTH_MONITOR] = {
		[ERROR_CQE] = {1, "is in error, syndrome 0x12", 0, NULL},
		[QP_ERROR] = NOT_CALLED,
		[BAD_PEER] = {1, "is in error, syndrome 0x11", 0, NULL},
		[DEAD_PEER] = {1, "is in error, syndrome 0x15", 0, NULL},
		[KILLED] = {1, "killed it", 0, NULL},
		[DRAINED] = {1, "drain", 0, NULL},
		[DAEMON_KILLED] = E_GONE,
		[DAEMON_STOPPED] = E_STOPPED,
		[DAEMON_HANGS] = NOT_CALLED,
		[DAEMON_LOST] = E_GONE, /* controllers are not kept */
		[DAEMON_BACK] = E_GONE,
		[PORT_DOWN] = {1, "the port of soft0 is down", 0, NULL},
	},
	/*         ERROR_CQE, QP_ERROR, BAD_PEER, DEAD_PEER, KILLED, DRAINED, DAEMON_KILLED, _STOPPED, _HANGS, _LOST, _BACK, PORT_DOWN */
	[HEALTH_REQUEST] = {FINE, FINE, FINE, FINE, E_KILLED, E_DRAINED, E_GONE, E_STOPPED, E_SILENT, E_LOST, FINE, FINE},
	[HEALTH_FETCH] = {NOTHING_THERE, NOTHING_THERE, NOTHING_THERE, NOTHING_THERE, E_KILLED, E_DRAINED, E_GONE, E_STOPPED,
			  E_SILENT, E_LOST, NOTHING_THERE, NOTHING_THERE},
	[HEALTH_OPEN] = {FINE, FINE, FINE, FINE, FINE, E_DRAINED, NOT_RUNNING, NOT_RUNNING, E_SILENT,
			 E_SILENT, FINE, FINE}, /* the socket is kept */
};

/* ---- host functions --------------------------------------------------------------------------------------------- */

static void host_open(struct health_host_call *call, struct health_lab *lab, unsigned int i, const struct cell *cell)
{
	const struct shmd_queues_attr attr = {.n_qps = 1};

	*call = (struct health_host_call){
		.wait = &health_host_waits[i],
		.expected = cell->sentence,
		.expects_event = cell->status == 1,
		.daemon = &lab->daemon,
		/* Nothing but the limit ends it, or nothing at all. */
		.limit = cell->status == -EAGAIN || cell->status == -ENOENT || !cell->sentence || !cell->sentence[0]
				 ? SHORT_NSEC
				 : LONG_NSEC,
		.request_limit = cell->status == -ETIMEDOUT ? REQUEST_NSEC : LONG_NSEC,
	};
	if (call->wait->kind == HEALTH_EVENT)
		call->side = lab->sides[i];
	else if (call->wait->kind == HEALTH_MONITOR)
		call->side.client = lab_control(&lab->daemon);
	else if (call->wait->kind != HEALTH_OPEN)
		lab_side_open_on(&call->side, lab_client_limited(&lab->daemon, call->request_limit), &attr);
	if (call->wait->kind == HEALTH_REQUEST)
		ASSERT_OK(shmd_dct_create(call->side.nic, 0, &call->dct));
	if (!strncmp(call->wait->name, "shmd_hot_", strlen("shmd_hot_")) ||
	    !strcmp(call->wait->name, "shmd_queues_set_peers"))
		health_host_open_hot(call);
}

/* Clients that open come when it has happened; all others are there before. */
static void host_begin(struct health_host_call *calls, bool opens)
{
	for (unsigned int i = 0; i < n_health_host_waits; i++)
		if ((calls[i].wait->kind == HEALTH_OPEN) == opens && calls[i].expected)
			ASSERT_OK(pthread_create(&calls[i].thread, NULL, health_host_main, &calls[i]));
}

static void host_close(struct health_host_call *call)
{
	if (call->wait->kind != HEALTH_EVENT)
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

static void drained(struct health_lab *lab)
{
	ASSERT_OK(shmd_admin_drain(lab->control, true, 0));
}

static void port_down(struct health_lab *lab)
{
	health_port_set(lab, false);
}

static void daemon_killed(struct health_lab *lab)
{
	fixture_daemon_kill(&lab->daemon);
}

static void daemon_stopped(struct health_lab *lab)
{
	fixture_daemon_stop(&lab->daemon);
}

static void daemon_lost(struct health_lab *lab)
{
	fixture_keeper_hold(&lab->keeper);
}

static void daemon_back(struct health_lab *lab)
{
	fixture_keeper_kill_daemon(&lab->keeper);
}

static void daemon_hangs(struct health_lab *lab)
{
	ASSERT_OK(kill(lab->daemon.pid, SIGSTOP));
}

static const struct {
	const char *name;
	void (*happen)(struct health_lab *lab);
	const struct shmd_qp_params *params;
	const char *grace; /* of a daemon whose sessions outlive it */
} causes[N_CAUSES] = {
	[ERROR_CQE] = {"error CQE", error_cqe, &patient},
	[QP_ERROR] = {"QP error", qp_error, &patient},
	[BAD_PEER] = {"bad peer", health_peer_write_badly, &patient},
	[DEAD_PEER] = {"dead peer", health_peer_kill, &impatient},
	[KILLED] = {"killed", health_sessions_kill, &patient},
	[DRAINED] = {"drained", drained, &patient},
	[DAEMON_KILLED] = {"daemon killed", daemon_killed, &patient},
	[DAEMON_STOPPED] = {"daemon stopped", daemon_stopped, &patient},
	[DAEMON_HANGS] = {"daemon hangs", daemon_hangs, &patient},
	[DAEMON_LOST] = {"daemon lost", daemon_lost, &patient, "--restart-grace=300"},
	[DAEMON_BACK] = {"daemon back", daemon_back, &patient, "--restart-grace=600000"},
	[PORT_DOWN] = {"port down", port_down, &patient},
};

/* ---- the check ----------------------------------------------------------------------------------------------------- */

static bool cell_matches(const struct cell *cell, int status, const char *sentence)
{
	return (status == cell->status && strstr(sentence, cell->sentence)) ||
	       (cell->or_sentence && status == cell->or_status && strstr(sentence, cell->or_sentence));
}

/* One line of the printed table; 1 when it is not as it must be. */
static unsigned int check_line(enum cause cause, const char *function, const char *scope, const struct cell *cell,
			       const struct health_host_call *got, const char *sentence)
{
	uint64_t max = SLACK_NSEC + (got->limit == SHORT_NSEC ? SHORT_NSEC : 0) +
		       (got->request_limit == REQUEST_NSEC ? REQUEST_NSEC : 0);
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
		const struct health_host_call got = {.status = call->status, .nsec = call->nsec, .limit = call->mode.timeout_nsec};

		n_wrong += check_line(cause, call->wait->name, health_scope_name(call),
				      &device_table[call->wait->start][cause], &got, health_sentence(call));
	}
	return n_wrong;
}

static unsigned int check_host(const struct health_host_call *calls, enum cause cause)
{
	unsigned int n_wrong = 0;

	for (unsigned int i = 0; i < n_health_host_waits; i++)
		if (calls[i].expected)
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
	static struct health_host_call host_calls[HEALTH_MAX_HOST_WAITS];
	uint64_t limit[HEALTH_N_STARTS];
	unsigned int n_wrong;

	health_lab_open(lab, causes[cause].params, causes[cause].grace);
	for (unsigned int i = 0; i < n_health_host_waits; i++)
		host_open(&host_calls[i], lab, i, &host_table[health_host_waits[i].kind][cause]);
	device_limits(cause, limit);
	host_begin(host_calls, false);
	health_lab_begin(lab, limit);
	causes[cause].happen(lab);
	host_begin(host_calls, true);
	health_lab_join(lab);
	for (unsigned int i = 0; i < n_health_host_waits; i++)
		if (host_calls[i].expected)
			ASSERT_OK(pthread_join(host_calls[i].thread, NULL));
	if (cause == DAEMON_HANGS)
		ASSERT_OK(kill(lab->daemon.pid, SIGCONT));
	n_wrong = check_device(lab, cause) + check_host(host_calls, cause);
	ASSERT_EQ(n_wrong, 0u);
	for (unsigned int i = 0; i < n_health_host_waits; i++)
		host_close(&host_calls[i]);
}

static void column(enum cause cause)
{
	static struct health_lab lab;

	run_column(&lab, cause);
	if (cause == DAEMON_LOST)
		fixture_keeper_go(&lab.keeper);
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

TEST_TIMEOUT(every_wait_ends_when_the_peer_breaks_the_qp, 60)
{
	column(BAD_PEER);
}

TEST_TIMEOUT(every_wait_ends_when_the_peer_dies, 60)
{
	column(DEAD_PEER);
}

TEST_TIMEOUT(every_wait_ends_when_the_session_is_killed, 60)
{
	column(KILLED);
}

TEST_TIMEOUT(every_wait_ends_when_the_daemon_is_drained, 60)
{
	column(DRAINED);
}

TEST_TIMEOUT(every_wait_ends_when_the_daemon_is_killed, 60)
{
	column(DAEMON_KILLED);
}

TEST_TIMEOUT(every_wait_ends_when_the_daemon_stops, 60)
{
	column(DAEMON_STOPPED);
}

TEST_WAITS(every_wait_ends_when_the_daemon_hangs, 60)
{
	column(DAEMON_HANGS);
}

TEST_WAITS(every_wait_ends_when_no_daemon_comes_back, 60)
{
	column(DAEMON_LOST);
}

TEST_WAITS(every_wait_goes_on_when_the_daemon_comes_back, 60)
{
	column(DAEMON_BACK);
}

TEST_TIMEOUT(every_wait_ends_when_the_port_goes_down, 60)
{
	column(PORT_DOWN);
}

/* ---- a port that comes back, or does not --------------------------------------------------------------------------- */

static uint32_t health_of(const struct health_call *call)
{
	return *(const volatile uint32_t *)(uintptr_t)call->qp->health_addr;
}

static void await_health(const struct health_lab *lab, uint32_t health)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	uint64_t end = nsec_now() + SLACK_NSEC;

	for (unsigned int i = 0; i < lab->n_calls; i++)
		while (health_of(&lab->calls[i]) != health) {
			ASSERT_LT(nsec_now(), end);
			nanosleep(&pause, NULL);
		}
}

static void wait_through_port_down(struct health_lab *lab, const struct shmd_qp_params *params)
{
	uint64_t limit[HEALTH_N_STARTS];

	health_lab_open(lab, params, NULL);
	device_limits(PORT_DOWN, limit);
	health_lab_begin(lab, limit);
	port_down(lab);
	health_lab_join(lab);
}

/* 0.54 s, eight times: the port is back before that. */
TEST_TIMEOUT(a_wait_that_a_port_ended_may_be_repeated_when_it_is_up, 60)
{
	const struct shmd_qp_params params = {
		.timeout = 17, .retry_count = 7, .rnr_retry = 7, .min_rnr_timer = 16, .max_rd_atomic = 16};
	static struct health_lab lab;

	wait_through_port_down(&lab, &params);
	health_port_set(&lab, true);
	await_health(&lab, SHMD_HEALTH_OK);
	/* For what is under way, and for the "send" that is called again. */
	health_peer_receive(&lab, true);
	health_peer_receive(&lab, true);
	health_lab_release(&lab);
	for (unsigned int i = 0; i < lab.n_calls; i++) {
		struct health_call *call = &lab.calls[i];

		/* The slots reserved there are never made ready. */
		if (call->wait->start == HEALTH_TURN)
			continue;
		ASSERT_EQ(shmd_dev_qp_quiet(call->qp, LONG_NSEC), SHMD_DEV_OK);
		*call->word = 1;
		ASSERT_EQ(call->wait->run(call), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_qp_quiet(call->qp, LONG_NSEC), SHMD_DEV_OK);
	}
	health_lab_close(&lab);
}

TEST_TIMEOUT(a_port_that_stays_down_fails_what_is_under_way_and_nothing_else, 60)
{
	static struct health_lab lab;
	struct shmd_event event;
	uint32_t index;

	wait_through_port_down(&lab, &impatient);
	ASSERT_OK(shmd_event_next(lab.sides[0].client, LONG_NSEC, &event));
	ASSERT_EQ(event.kind, SHMD_EVENT_PORT_STATE);
	ASSERT_OK(shmd_event_next(lab.sides[0].client, LONG_NSEC, &event));
	ASSERT_EQ(event.kind, SHMD_EVENT_QP_ERROR);
	ASSERT_EQ(event.detail, SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	for (unsigned int i = 0; i < lab.n_calls; i++) {
		struct health_call *call = &lab.calls[i];

		if (call->wait->start != HEALTH_IN_FLIGHT && call->wait->start != HEALTH_FULL)
			continue;
		/* The health word ends each look; the QP's own end is found in one of them. */
		while (shmd_dev_qp_quiet(call->qp, LONG_NSEC) == SHMD_DEV_HEALTH)
			;
		ASSERT_EQ(shmd_dev_qp_quiet(call->qp, LONG_NSEC), SHMD_DEV_CQE_ERROR);
		ASSERT_EQ(shmd_dev_qp_error(call->qp, &index), SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	}
	health_port_set(&lab, true);
	await_health(&lab, SHMD_HEALTH_OK);
	for (unsigned int i = 0; i < lab.n_calls; i++) {
		struct health_call *call = &lab.calls[i];

		if (call->wait->start != HEALTH_IDLE)
			continue;
		ASSERT_EQ(shmd_dev_qp_put(call->qp, call->remote, call->local, 8, LONG_NSEC), SHMD_DEV_OK);
	}
	health_lab_close(&lab);
}

/* ---- the tables are complete --------------------------------------------------------------------------------------- */

static const char *const never_wait_host[] = {
	"shmd_client_close", "shmd_client_daemon", "shmd_client_fd", "shmd_client_health", "shmd_client_health_page",
	"shmd_client_limits", "shmd_client_restarts", "shmd_client_session", "shmd_dct_addr", "shmd_dev_host_now_nsec",
	"shmd_dev_host_relax", "shmd_dev_host_wake", "shmd_dev_status_text", "shmd_error_set", "shmd_error_text", "shmd_gpu_close", "shmd_gpu_dev_qp",
	"shmd_gpu_dev_state", "shmd_gpu_info", "shmd_gpu_map_mem", "shmd_gpu_mem_info", "shmd_gpu_open", "shmd_gpu_unmap_mem",
	"shmd_hot_count", "shmd_hot_decide", "shmd_hot_open", "shmd_hot_posts", "shmd_hot_state", "shmd_hot_switch",
	"shmd_health_text", "shmd_info_build", "shmd_info_setting", "shmd_info_warning", "shmd_mem_addr", "shmd_mem_adopt", "shmd_mem_alloc", "shmd_mem_bytes", "shmd_mem_fd",
	"shmd_mem_free", "shmd_mr_info", "shmd_mr_lkey", "shmd_mr_lkey_be", "shmd_mr_rkey", "shmd_mr_rkey_be", "shmd_nic_close",
	"shmd_nic_health", "shmd_nic_info", "shmd_queues_addr", "shmd_queues_count", "shmd_queues_dev_qp", "shmd_queues_dev_state",
	"shmd_queues_recv_cq", "shmd_request_limit_set", "shmd_syndrome_text", "shmd_version",
};

/* They wait in the requests of shmd_mr_reg() and shmd_mr_dereg() alone, which have rows; memory of GPUs is not for soft NICs. */
static const char *const wait_as_others[] = {"shmd_gpu_mem_free", "shmd_gpu_mr_reg"};

/* shmd_dev_qp_...; the atomics and signals with names of their own call "atomic", "atomic_fetch" and "signal". */
static const char *const never_wait_device[] = {
	"fence", "fence_flags", "test", "test64", "test32", "error", "post_recv",
};

static bool is_in(const char *name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(name, list[i]))
			return true;
	return false;
}

static bool is_declared_in(const char *header, const char *name)
{
	FILE *file = fopen(header, "r");
	char line[512], call[160];
	bool is_found = false;

	ASSERT(file);
	snprintf(call, sizeof(call), "%s(", name);
	while (!is_found && fgets(line, sizeof(line), file)) {
		const char *at = strncmp(line, "SHMD_EXPORT ", 12) ? NULL : strstr(line, call);

		is_found = at && (at[-1] == ' ' || at[-1] == '*');
	}
	fclose(file);
	return is_found;
}

/* The runtime's functions: test-world-gone, test-world-rma, test-world-coll and test-world-stream try their waits. */
static bool is_of_runtime(const char *name)
{
	return is_declared_in(SHMD_H, name) || is_declared_in(SHMD_COLL_H, name) || is_declared_in(SHMD_STREAM_H, name);
}

static bool is_host_row(const char *name)
{
	for (unsigned int i = 0; i < n_health_host_waits; i++)
		if (!strcmp(health_host_waits[i].name, name))
			return true;
	return is_of_runtime(name) || is_in(name, never_wait_host, sizeof(never_wait_host) / sizeof(never_wait_host[0])) ||
	       is_in(name, wait_as_others, sizeof(wait_as_others) / sizeof(wait_as_others[0]));
}

static bool is_device_row(const char *name)
{
	size_t n = strlen(name);

	if (n > 3 && !strcmp(name + n - 3, "_as"))
		n -= 3;
	for (unsigned int i = 0; i < n_health_waits; i++)
		if (strcspn(health_waits[i].name, ",") == n && !strncmp(health_waits[i].name, name, n))
			return true;
	for (size_t i = 0; i < sizeof(never_wait_device) / sizeof(never_wait_device[0]); i++)
		if (strlen(never_wait_device[i]) == n && !strncmp(never_wait_device[i], name, n))
			return true;
	return !strncmp(name, "atomic_", 7) || !strncmp(name, "signal_", 7);
}

/* Calls `is_row` with every identifier of the file that begins with the prefix; how many there were. */
static unsigned int check_names(const char *path, const char *prefix, bool (*is_row)(const char *name), size_t skip)
{
	FILE *file = fopen(path, "r");
	unsigned int n = 0;
	char line[512];

	ASSERT(file);
	while (fgets(line, sizeof(line), file)) {
		char *at = strstr(line, prefix), name[128];
		size_t bytes = at ? strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_") : 0;

		/* In the header only declarations count, not the words of its comments. */
		if (!at || bytes >= sizeof(name) || !strchr(";(", at[bytes]) || !strncmp(line, " *", 2))
			continue;
		memcpy(name, at, bytes);
		name[bytes] = 0;
		if (!is_row(name + skip))
			test_fail(TEST_WHERE, "%s: no row of a health table, and not known never to wait", name);
		n++;
	}
	fclose(file);
	return n;
}

TEST(every_function_that_waits_stands_in_a_table)
{
	ASSERT_GE(check_names(SHMEMCLIENT_MAP, "shmd_", is_host_row, 0), 60u);
	ASSERT_GE(check_names(SHMD_DEV_RMA, "shmd_dev_qp_", is_device_row, strlen("shmd_dev_qp_")), 50u);
}
