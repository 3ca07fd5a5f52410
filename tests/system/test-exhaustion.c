/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attack: a user makes the daemon map as much memory as possible. The daemon keeps a reserve, others can open sessions,
 * and an administrator can list and kill.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/system/daemon-usage.h"

#define MOST_SESSIONS 64u
#define PER_SESSION 2048u
#define OWN_MAPS 600u /* of a daemon with two soft NICs, and what malloc and threads may add */

struct hog {
	struct fixture_daemon daemon;
	struct raw_client raws[MOST_SESSIONS];
	unsigned int n_raws;
	unsigned int n_maps; /* that it has, as the daemon counts them */
	enum shmd_status refusal;
};

/* One mapping for a batch of one CQ, the smallest there is; false: refused. */
static bool map_one(struct hog *hog)
{
	struct msg req, rep;

	msg_init(&req, MSG_QUEUE_CREATE_REQ, 0);
	req.queue_create_req.specs.n_cqs = 1;
	req.queue_create_req.specs.cqs[0].count = 1;
	req.queue_create_req.specs.cqs[0].log2_entries = 2;
	raw_ask(&hog->raws[hog->n_raws - 1], &req, NULL, 0, &rep);
	if (rep.kind == MSG_ERROR_REP)
		hog->refusal = rep.error_rep.status;
	msg_deinit(&rep);
	hog->n_maps += hog->refusal == 0;
	return hog->refusal == 0;
}

static bool open_one(struct hog *hog)
{
	struct raw_client *raw = &hog->raws[hog->n_raws++];

	raw_connect(raw, hog->daemon.socket);
	raw_hello(raw, MSG_ROLE_CLIENT);
	raw_open_nic(raw, "");
	hog->n_maps += 3; /* of a session with one NIC */
	for (unsigned int i = 0; i < PER_SESSION; i++)
		if (!map_one(hog))
			return false;
	return hog->n_raws < MOST_SESSIONS;
}

/* An administrator's way out. */
static void list_and_kill(struct hog *hog)
{
	struct msg req, list, rep;
	struct raw_client ctl;

	raw_connect(&ctl, hog->daemon.socket);
	raw_hello(&ctl, MSG_ROLE_CONTROL);
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_SESSIONS;
	raw_expect(&ctl, &req, NULL, 0, MSG_LIST_REP, &list);
	ASSERT_EQ(list.list_rep.n_sessions, hog->n_raws);
	for (unsigned int i = 0; i < list.list_rep.n_sessions; i++) {
		msg_init(&req, MSG_SESSION_KILL_REQ, 0);
		req.session_kill_req.session = list.list_rep.sessions[i].session;
		raw_expect(&ctl, &req, NULL, 0, MSG_OK_REP, &rep);
	}
	msg_deinit(&list);
	daemon_expect_empty(&ctl, 10 * NSEC_PER_SEC);
	raw_close(&ctl);
}

static void hog_deinit(struct hog *hog)
{
	for (unsigned int i = 0; i < hog->n_raws; i++)
		raw_close(&hog->raws[i]);
	fixture_daemon_stop(&hog->daemon);
}

/* As many mappings as the kernel gives a process by default, or that a test of a second can have. */
static unsigned int set_max_map_count(struct hog *hog)
{
	unsigned int n = test_is_full() && !test_has_sanitizer() ? 65530 : 8192;
	char path[160];
	FILE *file;

	fixture_daemon_make_folder(&hog->daemon);
	snprintf(path, sizeof(path), "%s/sys", hog->daemon.folder);
	ASSERT_OK(mkdir(path, 0700));
	snprintf(path, sizeof(path), "%s/sys/vm", hog->daemon.folder);
	ASSERT_OK(mkdir(path, 0700));
	snprintf(path, sizeof(path), "%s/sys/vm/max_map_count", hog->daemon.folder);
	file = fopen(path, "we");
	ASSERT(file);
	fprintf(file, "%u\n", n);
	fclose(file);
	setenv("SHMEMD_PROCFS", hog->daemon.folder, 1);
	return n;
}

/*
 * The daemon's own user may take all that is for users (test-quota has the share of others): what is charged is what there is in
 * /proc/PID/maps, and the rest is enough.
 */
TEST_TIMEOUT(administrator_lists_and_kills_when_mappings_are_used_up, 120)
{
	struct hog hog = {0};
	unsigned int n = set_max_map_count(&hog), n_before, n_after;

	fixture_daemon_start(&hog.daemon, "--max-cqs=1000000", NULL);
	n_before = daemon_n_maps(hog.daemon.pid);
	while (open_one(&hog))
		continue;
	n_after = daemon_n_maps(hog.daemon.pid);
	printf("# %u mappings charged; %u before, %u after, of %u\n", hog.n_maps, n_before, n_after, n);
	ASSERT_EQ(hog.refusal, SHMD_STATUS_QUOTA_MAPS);
	ASSERT_LE(hog.n_maps, n - n / 8);
	ASSERT_GE(hog.n_maps, n - n / 8 - 3);
	ASSERT_LE(n_after, hog.n_maps + OWN_MAPS);
	list_and_kill(&hog);
	hog_deinit(&hog);
}

TEST(max_mappings_binds)
{
	struct hog hog = {0};

	fixture_daemon_start(&hog.daemon, "--max-mappings=10", NULL);
	ASSERT(!open_one(&hog));
	ASSERT_EQ(hog.refusal, SHMD_STATUS_QUOTA_MAPS);
	ASSERT_EQ(hog.n_maps, 10);
	list_and_kill(&hog);
	hog_deinit(&hog);
}

/* Connections that take every descriptor and every place that a user may have. */
TEST(administrator_lists_and_kills_when_a_users_connections_are_used_up)
{
	struct hog hog = {0};

	fixture_daemon_start(&hog.daemon, "--max-connections=4", NULL);
	while (hog.n_raws < 4) {
		raw_connect(&hog.raws[hog.n_raws], hog.daemon.socket);
		raw_hello(&hog.raws[hog.n_raws++], MSG_ROLE_CLIENT);
	}
	list_and_kill(&hog);
	hog_deinit(&hog);
}

#define FEW_FDS 512u

/* Sessions until the daemon has no descriptor for one more; how many. */
static unsigned int fill_with_sessions(const struct fixture_daemon *daemon, struct raw_client *raws)
{
	for (unsigned int n = 0;; n++) {
		struct msg req, rep;

		ASSERT_LT(n, FEW_FDS);
		raw_connect(&raws[n], daemon->socket);
		msg_init(&req, MSG_HELLO_REQ, 0);
		req.hello_req = (struct msg_hello_req){.version_min = 1, .version_max = 1, .role = MSG_ROLE_CLIENT};
		raw_ask(&raws[n], &req, NULL, 0, &rep);
		if (rep.kind == MSG_HELLO_REP)
			continue;
		ASSERT_EQ(rep.kind, MSG_ERROR_REP);
		printf("# %u sessions, then: %s\n", n, rep.error_rep.text);
		raw_close(&raws[n]);
		return n;
	}
}

TEST_TIMEOUT(administrator_lists_and_kills_when_descriptors_are_used_up, 60)
{
	const struct rlimit few = {FEW_FDS, FEW_FDS};
	static struct raw_client raws[FEW_FDS];
	struct fixture_daemon daemon;
	struct msg req, list, rep;
	struct raw_client ctl;
	unsigned int n;

	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &few));
	fixture_daemon_start(&daemon, "--max-fds=100000", NULL);
	n = fill_with_sessions(&daemon, raws);
	raw_connect(&ctl, daemon.socket);
	raw_hello(&ctl, MSG_ROLE_CONTROL);
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_SESSIONS;
	raw_expect(&ctl, &req, NULL, 0, MSG_LIST_REP, &list);
	msg_init(&req, MSG_SESSION_KILL_REQ, 0);
	req.session_kill_req.session = list.list_rep.sessions[0].session;
	raw_expect(&ctl, &req, NULL, 0, MSG_OK_REP, &rep);
	msg_deinit(&list);
	for (unsigned int i = 0; i < n; i++)
		raw_close(&raws[i]);
	daemon_expect_empty(&ctl, 10 * NSEC_PER_SEC);
	raw_close(&ctl);
	fixture_daemon_stop(&daemon);
}

/* ---- a limit on files ---------------------------------------------------------------------------------------------- */

static void limit_files(const struct fixture_daemon *daemon, rlim_t most)
{
	struct rlimit limit;

	ASSERT_OK(prlimit(daemon->pid, RLIMIT_FSIZE, NULL, &limit));
	limit.rlim_cur = most;
	ASSERT_OK(prlimit(daemon->pid, RLIMIT_FSIZE, &limit, NULL));
}

/* Linux sends SIGXFSZ to a thread that makes a memfd larger than that. */
TEST_TIMEOUT(limit_on_the_size_of_files_refuses_clients_and_ends_no_session, 60)
{
	struct fixture_daemon daemon;
	struct raw_client raw;
	struct msg req, rep;

	fixture_daemon_start(&daemon, NULL);
	/* A socket that accepts may belong to a daemon that still starts, and that ends if it gets no memory. */
	raw_connect(&raw, daemon.socket);
	raw_hello(&raw, MSG_ROLE_CONTROL);
	raw_close(&raw);
	limit_files(&daemon, 16);
	raw_connect(&raw, daemon.socket);
	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req = (struct msg_hello_req){.version_min = 1, .version_max = 1, .role = MSG_ROLE_CLIENT};
	raw_ask(&raw, &req, NULL, 0, &rep);
	ASSERT_EQ(rep.kind, MSG_ERROR_REP);
	raw_close(&raw);
	limit_files(&daemon, RLIM_INFINITY);
	raw_connect(&raw, daemon.socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	raw_close(&raw);
	fixture_daemon_stop(&daemon);
}
