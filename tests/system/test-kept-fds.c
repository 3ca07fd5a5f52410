/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that clients publish may go to a service manager, which outlives the daemon and closes them. So only memfds go there,
 * whose close never blocks. A session with any other descriptor is served and ends with its daemon, and an administrator sees why.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/cleanup.h"
#include "tests/lib/fixture-keeper.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/strange-fd.h"
#include "tests/lib/test.h"
#include "tests/system/hostile-lab.h"
#include "tests/system/mute-file.h"

static void open_session(struct raw_client *raw, const struct fixture_keeper *keeper)
{
	raw_connect(raw, keeper->daemon.socket);
	raw_hello_resumes(raw);
	raw_open_nic(raw, "soft0");
}

static void publish(struct raw_client *raw, int fd)
{
	struct msg req, rep;

	msg_init(&req, MSG_PUBLISH_REQ, 0);
	req.publish_req.has_fd = true;
	raw_expect(raw, &req, &fd, 1, MSG_OK_REP, &rep);
}

static void refuse_publishing(struct raw_client *raw, int fd)
{
	struct msg req;

	msg_init(&req, MSG_PUBLISH_REQ, 0);
	req.publish_req.has_fd = true;
	raw_expect_error(raw, &req, &fd, 1, SHMD_STATUS_MEM_FD);
}

static void fetch(struct raw_client *raw, uint32_t pe)
{
	struct msg req, rep;

	msg_init(&req, MSG_FETCH_REQ, 0);
	req.fetch_req.pe = pe;
	raw_expect(raw, &req, NULL, 0, MSG_FETCH_REP, &rep);
	ASSERT(rep.fetch_rep.has_fd);
}

/* The first session's reason as an administrator sees it; "": it is kept. */
static void expect_unkept(const struct fixture_keeper *keeper, const char *why)
{
	struct raw_client admin;
	struct msg req, rep;

	raw_connect(&admin, keeper->daemon.socket);
	raw_hello(&admin, MSG_ROLE_CONTROL);
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_SESSIONS;
	raw_expect(&admin, &req, NULL, 0, MSG_LIST_REP, &rep);
	ASSERT_GE(rep.list_rep.n_sessions, 1);
	ASSERT_EQ(rep.list_rep.sessions[0].kept, !why[0]);
	if (!strstr(rep.list_rep.sessions[0].unkept_reason, why))
		ASSERT_STREQ(rep.list_rep.sessions[0].unkept_reason, why);
	msg_deinit(&rep);
	raw_close(&admin);
}

static void expect_resumed(struct raw_client *raw)
{
	struct msg msg;

	ASSERT_OK(raw_recv(raw, &msg, NULL));
	ASSERT_STREQ(msg_kind_name(msg.kind), msg_kind_name(MSG_RESUMED_EVENT));
}

/* By its own death: no daemon can say more to it. */
static void expect_gone(struct raw_client *raw)
{
	struct msg msg;

	ASSERT_ERR(raw_recv(raw, &msg, NULL), ECONNRESET);
}

enum fate { REFUSED, UNKEPT, KEPT };

static enum fate fate_of(enum strange_fd kind)
{
	_cleanup_close_ int fd = strange_fd_new(kind);

	if (fcntl(fd, F_GET_SEALS) >= 0)
		return KEPT;
	return strange_fd_is_taken(kind, fd) ? UNKEPT : REFUSED;
}

static void try_kind(struct fixture_keeper *keeper, enum strange_fd kind)
{
	enum fate fate = fate_of(kind);
	struct raw_client raw;

	open_session(&raw, keeper);
	hostile_try_everything(&raw, kind);
	expect_unkept(keeper, fate == UNKEPT ? "has published something else than a memfd" : "");
	fixture_keeper_kill_daemon(keeper);
	if (fate == UNKEPT)
		expect_gone(&raw);
	else
		expect_resumed(&raw);
	if (fate == KEPT)
		fetch(&raw, kind);
	raw_close(&raw);
	fixture_keeper_kill_daemon(keeper);
	ASSERT_EQ(fixture_keeper_n_starts(keeper), 2 * kind + 3);
}

TEST_TIMEOUT(kinds_of_which_each_session_may_be_kept, 120)
{
	struct fixture_keeper keeper = {0};

	fixture_keeper_start(&keeper, "--soft-nics=1", NULL);
	for (unsigned int kind = 0; kind < STRANGE_FD_N; kind++)
		try_kind(&keeper, kind);
	fixture_keeper_stop(&keeper);
}

/* Neither the daemon that publishes it, nor the next one, nor another user's session. */
TEST_TIMEOUT(file_that_does_not_answer_is_not_asked, 60)
{
	struct fixture_keeper keeper = {0};
	struct raw_client raw, other;
	struct mute_file file;

	mute_file_open(&file);
	fixture_keeper_start(&keeper, "--soft-nics=1", NULL);
	open_session(&raw, &keeper);
	open_session(&other, &keeper);
	mute_file_mute(&file);
	refuse_publishing(&raw, file.fd);
	expect_unkept(&keeper, "");
	fixture_keeper_kill_daemon(&keeper);
	expect_resumed(&other);
	expect_resumed(&raw);
	raw_reg(&other, 4096);
	ASSERT_EQ(mute_file_n_asked(&file), 0);
	mute_file_close(&file);
	raw_close(&raw);
	raw_close(&other);
	fixture_keeper_stop(&keeper);
}

/* A process that opens the file again for writing, as keeping it requires, would wait for the lease to be given up. */
TEST_TIMEOUT(memory_with_a_lease_on_it_is_not_waited_for, 30)
{
	struct fixture_keeper keeper = {0};
	_cleanup_close_ int memfd = raw_memfd(4096), leased = -1;
	struct raw_client raw;
	char path[40];

	signal(SIGIO, SIG_IGN);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", memfd);
	leased = open(path, O_RDONLY | O_CLOEXEC);
	if (fcntl(leased, F_SETLEASE, F_RDLCK) < 0)
		test_skip("no leases on memory here");
	fixture_keeper_start(&keeper, "--soft-nics=1", NULL);
	open_session(&raw, &keeper);
	publish(&raw, memfd);
	fetch(&raw, 0);
	expect_unkept(&keeper, "a lease");
	raw_close(&raw);
	fixture_keeper_stop(&keeper);
}
