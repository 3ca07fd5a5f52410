/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holes in the page that the daemon shares with each client, on soft NICs and on simulated ConnectX ones.
 *
 * A process of the lowest priority punches them, so whoever touches the page meanwhile waits for seconds. Bounds are ten times what
 * is promised, as tests run on busy machines; what was measured is printed.
 */
#include <stdio.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "proto/framing.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/puncher.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/system/raw-traffic.h"
#include "tests/system/stall-admin.h"
#include "tests/system/stall-maps.h"

#define PAGE 4096u
#define N_HELD 10u
#define MOST_NSEC (12 * NSEC_PER_SEC)

/* A client with its health page, which a hole comes and goes in. Returns the number of its session. */
static uint64_t open_punched(struct raw_client *raw, const char *socket, int *ret_page)
{
	struct fdlist fds;
	struct msg msg;
	uint64_t session;

	raw_connect(raw, socket);
	msg_init(&msg, MSG_HELLO_REQ, 0);
	msg.hello_req.version_min = SHMD_PROTOCOL_VERSION_MIN;
	msg.hello_req.version_max = SHMD_PROTOCOL_VERSION_MAX;
	msg.hello_req.role = MSG_ROLE_CLIENT;
	raw_send(raw, &msg, NULL, 0);
	fdlist_init(&fds);
	ASSERT_OK(raw_recv(raw, &msg, &fds));
	ASSERT_EQ(msg.kind, MSG_HELLO_REP);
	session = msg.hello_rep.session;
	*ret_page = dup(fds.fds[0]);
	ASSERT_GE(*ret_page, 0);
	fdlist_deinit(&fds);
	raw_open_nic(raw, raw_traffic_nic(0));
	return session;
}

TEST_TIMEOUT(holes_in_a_health_page_do_not_hold_up_the_administrator_who_kills_its_session, 90)
{
	uint64_t begin = nsec_now();
	struct fixture_daemon daemon;
	struct puncher puncher;
	struct stall_admin admin;
	struct raw_client raw;

	/* It maps memory whenever it likes, and then waits for the hole. */
	if (test_has_sanitizer())
		test_skip("a sanitizer has an allocator of its own");
	fixture_daemon_start(&daemon, NULL);
	stall_admin_open(&admin, daemon.socket);
	for (unsigned int n = 0; n < N_HELD && nsec_now() - begin < MOST_NSEC; n++) {
		int page;
		uint64_t session = open_punched(&raw, daemon.socket, &page);

		puncher_start(&puncher, page, PAGE);
		usleep(200000);
		stall_admin_kill(&admin, session);
		stall_admin_ask(&admin);
		puncher_stop(&puncher);
		raw_close(&raw);
		close(page);
	}
	stall_admin_close(&admin);
	fixture_daemon_stop(&daemon);
}

/* ---- the daemon's end -------------------------------------------------------------------------------------------------- */

#define DEATH_NSEC NSEC_PER_SEC /* promised */
#define STOP_NSEC (10 * NSEC_PER_SEC)

struct attack {
	struct fixture_daemon daemon;
	struct stall_maps maps;
	struct raw_client raw;
	int page;
};

static void attack_begin(struct attack *attack)
{
	fixture_daemon_start(&attack->daemon, NULL);
	open_punched(&attack->raw, attack->daemon.socket, &attack->page);
	stall_maps_start(&attack->maps, attack->page, PAGE);
}

static void attack_end(struct attack *attack)
{
	stall_maps_stop(&attack->maps);
	raw_close(&attack->raw);
	close(attack->page);
}

TEST_TIMEOUT(holes_in_a_health_page_do_not_keep_the_daemon_from_dying, 90)
{
	struct attack attack;
	uint64_t begin, took;

	attack_begin(&attack);
	begin = nsec_now();
	fixture_daemon_kill(&attack.daemon);
	took = nsec_now() - begin;
	printf("# the daemon took %.3f s to die\n", (double)took / NSEC_PER_SEC);
	attack_end(&attack);
	ASSERT_LT(took, DEATH_NSEC);
}

/* It waits for porters for a second, and not for what keeps them. */
TEST_TIMEOUT(holes_in_a_health_page_do_not_keep_the_daemon_from_stopping, 90)
{
	struct attack attack;
	uint64_t begin, took;

	attack_begin(&attack);
	begin = nsec_now();
	fixture_daemon_stop(&attack.daemon);
	took = nsec_now() - begin;
	printf("# the daemon took %.3f s to stop\n", (double)took / NSEC_PER_SEC);
	attack_end(&attack);
	ASSERT_LT(took, STOP_NSEC);
}
