/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of a hot spot: the NICs that should carry the load, the processes that load the hot one, and the readers of both. */
#include <stdio.h>
#include <string.h>

#include "daemon/session/hot-nics.h"
#include "daemon/session/hot-spot.h"
#include "tests/lib/test.h"
#include "tests/unit/session/lab.h"

#define N_MANY 30

static void open_pair(struct pair *pair, struct lab *lab, const char *nic)
{
	pair_init_hello(pair, lab, MSG_ROLE_CLIENT);
	raw_open_nic(&pair->raw, nic);
}

TEST(nics_that_sessions_have_open_are_assigned_while_they_are_active)
{
	uint64_t groups[HOT_SPOT_MAX_NICS];
	struct pair a, b, idle, ctl;
	struct lab lab;

	lab_init(&lab, 5000);
	ASSERT_EQ(hot_nics_assigned(&lab.registry, groups), 0);
	pair_init_hello(&idle, &lab, MSG_ROLE_CLIENT);
	pair_init_hello(&ctl, &lab, MSG_ROLE_CONTROL);
	ASSERT_EQ(hot_nics_assigned(&lab.registry, groups), 0);
	open_pair(&a, &lab, "fake1");
	ASSERT_EQ(hot_nics_assigned(&lab.registry, groups), 2);
	open_pair(&b, &lab, "fake0");
	ASSERT_EQ(hot_nics_assigned(&lab.registry, groups), 3);
	lab.registry.nics[1].info.state = NIC_PORT_DOWN;
	ASSERT_EQ(hot_nics_assigned(&lab.registry, groups), 1);
	pair_deinit(&a);
	pair_deinit(&b);
	pair_deinit(&idle);
	pair_deinit(&ctl);
	lab_deinit(&lab);
}

/* One process's use of its NICs tells nothing about another's, unless they share a NIC. */
TEST(nics_of_a_process_and_what_processes_share_are_a_group)
{
	uint64_t groups[HOT_SPOT_MAX_NICS];
	struct pair a, b;
	struct lab lab;

	lab_init(&lab, 5000);
	open_pair(&a, &lab, "fake0");
	open_pair(&b, &lab, "fake1");
	ASSERT_EQ(hot_nics_assigned(&lab.registry, groups), 3);
	ASSERT_EQ(groups[0], 3);
	ASSERT_EQ(groups[1], 3);
	b.session->identity.pid++;
	ASSERT_EQ(hot_nics_assigned(&lab.registry, groups), 3);
	ASSERT_EQ(groups[0], 1);
	ASSERT_EQ(groups[1], 2);
	raw_open_nic(&b.raw, "fake0");
	ASSERT_EQ(hot_nics_assigned(&lab.registry, groups), 3);
	ASSERT_EQ(groups[0], 3);
	ASSERT_EQ(groups[1], 3);
	pair_deinit(&a);
	pair_deinit(&b);
	lab_deinit(&lab);
}

TEST(names_are_those_that_fit_and_the_others_are_counted)
{
	struct lab lab;
	char text[64];

	lab_init(&lab, 5000);
	hot_nics_names(&lab.registry, 3, text, sizeof(text));
	ASSERT_STREQ(text, "fake0, fake1");
	hot_nics_names(&lab.registry, 2, text, sizeof(text));
	ASSERT_STREQ(text, "fake1");
	hot_nics_names(&lab.registry, 0, text, sizeof(text));
	ASSERT_STREQ(text, "");
	/* Room for a count is kept. */
	hot_nics_names(&lab.registry, 3, text, 24 + sizeof("fake0, fake"));
	ASSERT_STREQ(text, "fake0 and 1 more");
	hot_nics_names(&lab.registry, 3, text, 24 + sizeof("fake"));
	ASSERT_STREQ(text, " and 2 more");
	lab_deinit(&lab);
}

static void name_process(struct pair *pair, uint32_t pid, const char *command)
{
	pair->session->identity.pid = pid;
	snprintf(pair->session->identity.command, sizeof(pair->session->identity.command), "%s", command);
}

TEST(processes_are_those_that_have_the_nic_and_that_the_caller_may_see)
{
	struct pair a, b, other, ctl;
	struct lab lab;
	char text[256];

	lab_init(&lab, 5000);
	open_pair(&a, &lab, "fake0");
	open_pair(&b, &lab, "fake0");
	open_pair(&other, &lab, "fake1");
	pair_init_hello(&ctl, &lab, MSG_ROLE_CONTROL);
	name_process(&a, 42, "train");
	name_process(&b, 43, "serve");
	name_process(&other, 44, "idle");
	hot_nics_processes(&lab.registry, 0, NULL, text, sizeof(text));
	ASSERT_STREQ(text, "pid 42 (train), pid 43 (serve)");
	hot_nics_processes(&lab.registry, 1, NULL, text, sizeof(text));
	ASSERT_STREQ(text, "pid 44 (idle)");
	/* Somebody who sees the second one only, and one who sees nobody. */
	lab.registry.owner_uid = 99;
	a.session->identity.uid = 4321;
	b.session->identity.uid = ctl.session->identity.uid = 1234;
	hot_nics_processes(&lab.registry, 0, ctl.session, text, sizeof(text));
	ASSERT_STREQ(text, "pid 43 (serve)");
	ctl.session->identity.uid = 77;
	hot_nics_processes(&lab.registry, 0, ctl.session, text, sizeof(text));
	ASSERT_STREQ(text, "");
	pair_deinit(&a);
	pair_deinit(&b);
	pair_deinit(&other);
	pair_deinit(&ctl);
	lab_deinit(&lab);
}

TEST(many_processes_are_counted)
{
	static struct pair pairs[N_MANY];
	struct lab lab;
	char text[64];

	lab_init(&lab, 5000);
	for (unsigned int i = 0; i < N_MANY; i++) {
		open_pair(&pairs[i], &lab, "fake0");
		name_process(&pairs[i], 100 + i, "a");
	}
	hot_nics_processes(&lab.registry, 0, NULL, text, sizeof(text));
	ASSERT_STREQ(text, "pid 100 (a), pid 101 (a), pid 102 (a) and 27 more");
	for (unsigned int i = 0; i < N_MANY; i++)
		pair_deinit(&pairs[i]);
	lab_deinit(&lab);
}

TEST(status_tells_of_it_as_long_as_it_lasts)
{
	struct hot_spot spot;
	struct msg_status_rep status;
	struct pair a, ctl;
	struct lab lab;

	lab_init(&lab, 5000);
	open_pair(&a, &lab, "fake1");
	name_process(&a, 42, "train");
	pair_init_hello(&ctl, &lab, MSG_ROLE_CONTROL);
	hot_spot_init(&spot);
	lab.registry.hot_spot = &spot;
	spot.nic = 1;
	spot.share_percent = 93;
	spot.among = 3;
	spot.since_nsec = 1;
	raw_status(&ctl.raw, &status);
	ASSERT_STREQ(status.hot_nic, "");
	spot.is_told = true;
	raw_status(&ctl.raw, &status);
	ASSERT_STREQ(status.hot_nic, "fake1");
	ASSERT_STREQ(status.hot_among, "fake0, fake1");
	ASSERT_STREQ(status.hot_processes, "pid 42 (train)");
	ASSERT_EQ(status.hot_share_percent, 93);
	ASSERT_GE(status.hot_nsec, 1);
	lab.registry.hot_spot = NULL;
	raw_status(&ctl.raw, &status);
	ASSERT_STREQ(status.hot_nic, "");
	pair_deinit(&a);
	pair_deinit(&ctl);
	lab_deinit(&lab);
}
