/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/stall-admin.h"

#include <stdio.h>

#include "proto/base/nsec.h"
#include "tests/lib/test.h"

static void note(uint64_t begin, uint64_t *longest)
{
	uint64_t nsec = nsec_now() - begin;

	if (nsec > *longest)
		*longest = nsec;
}

void stall_admin_open(struct stall_admin *admin, const char *socket)
{
	*admin = (struct stall_admin){0};
	raw_connect(&admin->raw, socket);
	raw_hello(&admin->raw, MSG_ROLE_CONTROL);
}

static unsigned int list(struct stall_admin *admin, enum msg_list_what what, uint64_t *longest)
{
	uint64_t begin = nsec_now();
	struct msg req, rep;
	unsigned int n;

	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = what;
	raw_expect(&admin->raw, &req, NULL, 0, MSG_LIST_REP, &rep);
	note(begin, longest);
	n = rep.list_rep.n_qps;
	msg_deinit(&rep);
	return n;
}

unsigned int stall_admin_ask(struct stall_admin *admin)
{
	struct msg_status_rep status;
	uint64_t begin = nsec_now();

	raw_status(&admin->raw, &status);
	note(begin, &admin->status_nsec);
	list(admin, MSG_LIST_SESSIONS, &admin->sessions_nsec);
	admin->n++;
	return list(admin, MSG_LIST_QPS, &admin->qps_nsec);
}

void stall_admin_kill(struct stall_admin *admin, uint64_t session)
{
	uint64_t begin = nsec_now();
	struct msg req, rep;

	msg_init(&req, MSG_SESSION_KILL_REQ, 0);
	req.session_kill_req.session = session;
	raw_expect(&admin->raw, &req, NULL, 0, MSG_OK_REP, &rep);
	note(begin, &admin->kill_nsec);
}

static double msec(uint64_t nsec)
{
	return (double)nsec / NSEC_PER_MSEC;
}

void stall_admin_close(struct stall_admin *admin)
{
	printf("# asked %u times; the longest status %.1f ms, list of sessions %.1f ms, list of QPs %.1f ms, kill %.1f ms\n", admin->n,
	       msec(admin->status_nsec), msec(admin->sessions_nsec), msec(admin->qps_nsec), msec(admin->kill_nsec));
	ASSERT_LT(admin->status_nsec, 10 * STALL_ADMIN_PROMISED_NSEC);
	ASSERT_LT(admin->sessions_nsec, 10 * STALL_ADMIN_PROMISED_NSEC);
	ASSERT_LT(admin->qps_nsec, 10 * STALL_ADMIN_PROMISED_NSEC);
	ASSERT_LT(admin->kill_nsec, 10 * STALL_ADMIN_PROMISED_NSEC);
	raw_close(&admin->raw);
}
