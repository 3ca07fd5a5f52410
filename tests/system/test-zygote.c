/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that starts porters, in trouble: it is killed, with and without a service manager that keeps sessions, or the system
 * lets it fork nothing.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "proto/framing.h"
#include "tests/lib/child.h"
#include "tests/lib/fixture-keeper.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/system/client-lab.h"

#define FOR_EVER "--restart-grace=600000"
#define ORDINARY_UID 54321u

static const struct shmd_queues_attr one_qp = {.n_qps = 1};

static pid_t find_zygote(const struct fixture_daemon *daemon)
{
	uint64_t end = nsec_now() + test_patience_nsec();
	pid_t pid;

	while ((pid = child_called(daemon->pid, "shmemd-zygote")) == 0)
		ASSERT_LT(nsec_now(), end);
	return pid;
}

/* The one of this test's user, if there is one. */
static void kill_porter(pid_t zygote)
{
	char name[16];
	pid_t pid;

	snprintf(name, sizeof(name), "porter %u", (unsigned int)getuid());
	pid = child_called(zygote, name);
	if (pid > 0)
		ASSERT_OK(kill(pid, SIGKILL));
}

static void put_and_verify(struct lab_side *side, uint64_t value)
{
	memcpy(lab_byte(side, 0), &value, 8);
	ASSERT_EQ(shmd_dev_qp_put(shmd_queues_dev_qp(side->queues, 0), lab_remote(side, 4096), lab_local(side, 0), 8,
				  test_patience_nsec()),
		  SHMD_DEV_OK);
	ASSERT_MEMEQ(lab_byte(side, 4096), &value, 8);
}

TEST_TIMEOUT(daemon_without_a_zygote_ends_and_kept_sessions_go_on_in_the_next_one, 60)
{
	struct fixture_keeper keeper = {0};
	struct lab_side side;

	fixture_keeper_start(&keeper, "--soft-nics=1", FOR_EVER, NULL);
	lab_side_open_on(&side, lab_client_limited(&keeper.daemon, test_patience_nsec()), &one_qp);
	lab_connect(&side, 0, &side, 0);
	put_and_verify(&side, 1);
	ASSERT_OK(kill(find_zygote(&keeper.daemon), SIGKILL));
	fixture_keeper_wait_start(&keeper, 2);
	put_and_verify(&side, 2);
	lab_side_close(&side);
	/* Descriptors of new clients are received again. */
	lab_side_open(&side, &keeper.daemon, &one_qp);
	lab_side_close(&side);
	fixture_daemon_assert_logged(&keeper.daemon, "the process that starts porters has ended: shmemd ends as well");
	ASSERT_EQ(fixture_keeper_n_starts(&keeper), 2);
	fixture_keeper_stop(&keeper);
}

static void expect_refused_hello(const struct fixture_daemon *daemon, const char *words)
{
	struct raw_client raw;
	struct msg req, rep;

	raw_connect(&raw, daemon->socket);
	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req.version_min = SHMD_PROTOCOL_VERSION_MIN;
	req.hello_req.version_max = SHMD_PROTOCOL_VERSION_MAX;
	req.hello_req.role = MSG_ROLE_CLIENT;
	raw_send(&raw, &req, NULL, 0);
	ASSERT_OK(raw_recv(&raw, &rep, NULL));
	if (rep.kind == MSG_ERROR_REP) {
		ASSERT_STREQ(status_name(rep.error_rep.status), status_name(SHMD_STATUS_NO_MEMORY));
		ASSERT(strstr(rep.error_rep.text, words));
	} else {
		ASSERT_EQ(rep.kind, MSG_EVENT);
		ASSERT_STREQ(status_name(rep.event.detail), status_name(SHMD_STATUS_NO_MEMORY));
		ASSERT(strstr(rep.event.text, words));
	}
	raw_close(&raw);
}

TEST_TIMEOUT(sessions_outlive_a_zygote_without_a_service_manager, 60)
{
	struct fixture_daemon daemon;
	struct lab_side side, later;

	fixture_daemon_start(&daemon, "--soft-nics=1", NULL);
	lab_side_open(&side, &daemon, &one_qp);
	lab_connect(&side, 0, &side, 0);
	ASSERT_OK(kill(find_zygote(&daemon), SIGKILL));
	fixture_daemon_assert_logged(&daemon, "the process that starts porters has ended: clients of users without a porter");
	/* The porter of this user goes on. */
	put_and_verify(&side, 1);
	lab_side_open(&later, &daemon, &one_qp);
	lab_side_close(&later);
	fixture_daemon_assert_alive(&daemon);
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

TEST_TIMEOUT(without_zygote_and_porter_requests_and_hellos_are_refused_with_the_reason, 60)
{
	struct fixture_daemon daemon;
	struct raw_client raw;
	struct msg req, rep;
	pid_t zygote;
	int fd;

	fixture_daemon_start(&daemon, "--soft-nics=1", NULL);
	raw_connect(&raw, daemon.socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	raw_open_nic(&raw, "");
	zygote = find_zygote(&daemon);
	ASSERT_OK(kill(zygote, SIGSTOP));
	kill_porter(zygote);
	fixture_daemon_assert_logged(&daemon, "it has ended");
	ASSERT_OK(kill(zygote, SIGKILL));
	fixture_daemon_assert_logged(&daemon, "the process that starts porters has ended");
	expect_refused_hello(&daemon, "the process that starts it has ended");
	fd = raw_memfd(4096);
	msg_init(&req, MSG_MEM_REG_REQ, 9);
	raw_send(&raw, &req, &fd, 1);
	ASSERT_OK(raw_recv(&raw, &rep, NULL));
	ASSERT(rep.kind == MSG_ERROR_REP || rep.kind == MSG_EVENT);
	close(fd);
	raw_close(&raw);
	fixture_daemon_assert_alive(&daemon);
	fixture_daemon_stop(&daemon);
}

static void limit_processes(pid_t pid, rlim_t n)
{
	struct rlimit limit;

	ASSERT_OK(prlimit(pid, RLIMIT_NPROC, NULL, &limit));
	limit.rlim_cur = n < limit.rlim_max ? n : limit.rlim_max;
	ASSERT_OK(prlimit(pid, RLIMIT_NPROC, &limit, NULL));
}

/* The limit of processes does not bind root. */
static void be_ordinary(void)
{
	if (geteuid() != 0)
		return;
	if (setresgid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID) < 0 || setresuid(ORDINARY_UID, ORDINARY_UID, ORDINARY_UID) < 0)
		test_skip("root here cannot become an ordinary user");
	prctl(PR_SET_DUMPABLE, 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

TEST_TIMEOUT(hello_ends_with_the_reason_while_no_process_can_be_forked, 60)
{
	struct fixture_daemon daemon;
	struct raw_client raw;
	pid_t zygote;

	be_ordinary();
	fixture_daemon_start(&daemon, "--soft-nics=1", "--handshake-timeout=300", NULL);
	zygote = find_zygote(&daemon);
	limit_processes(zygote, 0);
	kill_porter(zygote);
	expect_refused_hello(&daemon, strerror(EAGAIN));
	limit_processes(zygote, RLIM_INFINITY);
	raw_connect(&raw, daemon.socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}
