/* SPDX-License-Identifier: Apache-2.0 */
/* The socket by which a client learns that the daemon died, where sessions are kept. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/session/lab.h"
#include "tests/lib/test.h"

#define GRACE_NSEC UINT64_C(7000000)

static void init_kept(struct lab *lab)
{
	lab_init(lab, 64);
	lab->registry.saves_sessions = true;
	lab->registry.attr.restart_grace_nsec = GRACE_NSEC;
}

/* Hello of a new pair; its descriptors are the caller's. */
static void hello(struct pair *pair, struct lab *lab, enum msg_role role, bool resumes, struct msg *rep,
		  struct fdlist *fds)
{
	struct msg req;

	pair_init(pair, lab);
	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = (struct msg_hello_req){.version_min = 1, .version_max = 1, .role = role, .resumes = resumes};
	raw_send(&pair->raw, &req, NULL, 0);
	fdlist_init(fds);
	ASSERT_OK(raw_recv(&pair->raw, rep, fds));
}

static bool hung_up(int fd)
{
	struct pollfd pfd = {.fd = fd};

	ASSERT_GE(poll(&pfd, 1, 0), 0);
	ASSERT_EQ(pfd.revents & ~POLLHUP, 0);
	return pfd.revents;
}

/* Nothing can be sent to the daemon's end, nor can it be had by another way: what its close finds is nothing. */
static void assert_only_watched(int fd)
{
	struct stat st;
	char path[64];

	ASSERT_OK(fstat(fd, &st));
	ASSERT(S_ISSOCK(st.st_mode));
	ASSERT_EQ(send(fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT), -1);
	ASSERT_EQ(errno, EPIPE);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ASSERT_EQ(open(path, O_WRONLY | O_CLOEXEC), -1);
}

TEST(client_that_can_go_on_gets_a_socket_that_ends_behind_its_connection)
{
	struct fdlist fds;
	struct pair pair;
	struct lab lab;
	struct msg rep;

	init_kept(&lab);
	hello(&pair, &lab, MSG_ROLE_CLIENT, true, &rep, &fds);
	ASSERT_EQ(rep.kind, MSG_HELLO_REP);
	ASSERT_EQ(fds.n, 2);
	ASSERT_EQ(rep.hello_rep.watch_fd, 2);
	ASSERT_EQ(rep.hello_rep.restart_grace_nsec, GRACE_NSEC);
	ASSERT_EQ(lab.registry.quota.total.n[QUOTA_FDS], 5); /* with its state, which it would have */
	assert_only_watched(fds.fds[1]);
	/* The daemon alone has the other end, and no program that it starts will. */
	ASSERT(!hung_up(fds.fds[1]));
	ASSERT_EQ(fcntl(pair.session->watch_fds[0], F_GETFD), FD_CLOEXEC);
	pair.session = session_free(pair.session);
	ASSERT(hung_up(fds.fds[1]));
	fdlist_deinit(&fds);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

/* A client that keeps a copy of its own keeps no other one open, and not even that. */
TEST(each_session_has_a_socket_of_its_own)
{
	struct fdlist fds[2];
	struct pair pairs[2];
	struct lab lab;
	struct msg rep;

	init_kept(&lab);
	for (int i = 0; i < 2; i++)
		hello(&pairs[i], &lab, MSG_ROLE_CLIENT, true, &rep, &fds[i]);
	pairs[0].session = session_free(pairs[0].session);
	ASSERT(hung_up(fds[0].fds[1]));
	ASSERT(!hung_up(fds[1].fds[1]));
	pairs[1].session = session_free(pairs[1].session);
	ASSERT(hung_up(fds[1].fds[1]));
	for (int i = 0; i < 2; i++) {
		fdlist_deinit(&fds[i]);
		pair_deinit(&pairs[i]);
	}
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

static void assert_unwatched(struct lab *lab, enum msg_role role, bool resumes)
{
	struct fdlist fds;
	struct pair pair;
	struct msg rep;

	hello(&pair, lab, role, resumes, &rep, &fds);
	ASSERT_EQ(rep.kind, MSG_HELLO_REP);
	ASSERT_EQ(fds.n, role == MSG_ROLE_CLIENT ? 1 : 0);
	ASSERT_EQ(rep.hello_rep.watch_fd, 0);
	ASSERT_EQ(rep.hello_rep.restart_grace_nsec, 0);
	ASSERT_EQ(pair.session->watch_fds[0], -1);
	ASSERT_EQ(lab->registry.quota.total.n[QUOTA_FDS], role == MSG_ROLE_CLIENT ? 3 : 2);
	/* Nor does it get news that it would not understand. */
	lab->registry.saves_sessions = true;
	lab->registry.attr.restart_grace_nsec = GRACE_NSEC;
	session_tell_resumed(pair.session);
	ASSERT_ERR(raw_recv(&pair.raw, &rep, NULL), EAGAIN);
	fdlist_deinit(&fds);
	pair_deinit(&pair);
}

TEST(only_clients_that_resume_get_one)
{
	struct lab lab;

	init_kept(&lab);
	assert_unwatched(&lab, MSG_ROLE_CLIENT, false);
	assert_unwatched(&lab, MSG_ROLE_CONTROL, true);
	lab.registry.saves_sessions = false;
	assert_unwatched(&lab, MSG_ROLE_CLIENT, true);
	lab.registry.attr.restart_grace_nsec = 0;
	assert_unwatched(&lab, MSG_ROLE_CLIENT, true);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

TEST(next_daemon_sends_the_news_with_a_new_socket)
{
	struct fdlist hello_fds, fds;
	struct pair pair;
	struct lab lab;
	struct msg rep;

	init_kept(&lab);
	hello(&pair, &lab, MSG_ROLE_CLIENT, true, &rep, &hello_fds);
	lab.registry.attr.restart_grace_nsec = 2 * GRACE_NSEC;
	/* The former one's end went with it. */
	pair.session->watch_fds[0] = safe_close(pair.session->watch_fds[0]);
	ASSERT(hung_up(hello_fds.fds[1]));
	session_tell_resumed(pair.session);
	fdlist_init(&fds);
	ASSERT_OK(raw_recv(&pair.raw, &rep, &fds));
	ASSERT_EQ(rep.kind, MSG_RESUMED_EVENT);
	ASSERT_EQ(rep.id, 0);
	ASSERT_EQ(fds.n, 1);
	ASSERT_EQ(rep.resumed_event.watch_fd, 0);
	ASSERT_EQ(rep.resumed_event.restart_grace_nsec, 2 * GRACE_NSEC);
	ASSERT_STREQ(rep.resumed_event.daemon, lab.registry.attr.daemon);
	assert_only_watched(fds.fds[0]);
	ASSERT(!hung_up(fds.fds[0]));
	pair.session = session_free(pair.session);
	ASSERT(hung_up(fds.fds[0]));
	session_tell_resumed(&(struct session){.registry = &lab.registry, .is_watched = true, .ended = true});
	fdlist_deinit(&fds);
	fdlist_deinit(&hello_fds);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

static void ask_status(struct lab *lab, struct msg_status_rep *status, bool *kept)
{
	struct msg req, rep;
	struct pair control;

	pair_init_hello(&control, lab, MSG_ROLE_CONTROL);
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_SESSIONS;
	raw_expect(&control.raw, &req, NULL, 0, MSG_LIST_REP, &rep);
	ASSERT_EQ(rep.list_rep.n_sessions, 1);
	*kept = rep.list_rep.sessions[0].kept;
	msg_deinit(&rep);
	raw_status(&control.raw, status);
	pair_deinit(&control);
}

TEST(lists_tell_which_sessions_are_kept)
{
	struct msg_status_rep status;
	struct fdlist fds;
	struct pair pair;
	struct lab lab;
	struct msg rep;
	bool kept;

	init_kept(&lab);
	hello(&pair, &lab, MSG_ROLE_CLIENT, true, &rep, &fds);
	ask_status(&lab, &status, &kept);
	ASSERT(kept);
	ASSERT(status.keeps_sessions);
	ASSERT_EQ(status.restart_grace_nsec, GRACE_NSEC);
	ASSERT_EQ(status.n_resumed, 0);
	session_tell_resumed(pair.session);
	ask_status(&lab, &status, &kept);
	ASSERT_EQ(status.n_resumed, 1);
	fdlist_deinit(&fds);
	pair_deinit(&pair);
	lab.registry.attr.restart_grace_nsec = 0;
	hello(&pair, &lab, MSG_ROLE_CLIENT, true, &rep, &fds);
	ask_status(&lab, &status, &kept);
	ASSERT(!kept);
	ASSERT(!status.keeps_sessions);
	fdlist_deinit(&fds);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

/* No descriptor from `limit` on can be opened meanwhile. */
static void tell_with_fds_below(struct session *session, rlim_t limit)
{
	struct rlimit before, now;

	ASSERT_OK(getrlimit(RLIMIT_NOFILE, &before));
	now = (struct rlimit){.rlim_cur = limit, .rlim_max = before.rlim_max};
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &now));
	session_tell_resumed(session);
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &before));
}

TEST(session_without_a_pipe_ends_with_a_reason)
{
	struct fdlist fds;
	struct pair pair;
	struct lab lab;
	struct msg rep;

	init_kept(&lab);
	hello(&pair, &lab, MSG_ROLE_CLIENT, true, &rep, &fds);
	tell_with_fds_below(pair.session, 0);
	pair_expect_end(&pair, SHMD_STATUS_NO_MEMORY);
	fdlist_deinit(&fds);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

/* Hello of a daemon that has no descriptor from `limit` on. The status it is refused with, or OK. */
static uint32_t hello_with_fds_below(struct lab *lab, rlim_t limit)
{
	struct rlimit before, now;
	struct msg req, rep;
	struct pair pair;

	pair_init(&pair, lab);
	pair.raw.pump = NULL;
	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = (struct msg_hello_req){
		.version_min = 1, .version_max = 1, .role = MSG_ROLE_CLIENT, .resumes = true};
	raw_send(&pair.raw, &req, NULL, 0);
	ASSERT_OK(getrlimit(RLIMIT_NOFILE, &before));
	now = (struct rlimit){.rlim_cur = limit, .rlim_max = before.rlim_max};
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &now));
	session_readable(pair.session);
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &before));
	ASSERT_OK(raw_recv(&pair.raw, &rep, NULL));
	pair_deinit(&pair);
	return rep.kind == MSG_ERROR_REP ? rep.error_rep.status : SHMD_STATUS_OK;
}

TEST(hello_that_lacks_a_descriptor_is_refused_and_leaves_nothing)
{
	unsigned int n_refused = 0;
	struct lab lab;

	init_kept(&lab);
	for (rlim_t limit = 3; limit < 64; limit++) {
		uint32_t status = hello_with_fds_below(&lab, limit);

		if (!status)
			break;
		ASSERT_EQ(status, SHMD_STATUS_NO_MEMORY);
		lab_assert_empty(&lab);
		n_refused++;
	}
	/* Health page, its copy, both ends of the pipe. */
	ASSERT_GE(n_refused, 4);
	ASSERT_LT(n_refused, 60);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}
