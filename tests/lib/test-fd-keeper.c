/* SPDX-License-Identifier: Apache-2.0 */
/* The test's service manager keeps to systemd's rules, for a program that counts its lives. */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/fixture-keeper.h"
#include "tests/lib/test.h"

static struct fixture_keeper keeper = {.program = SHMD_TEST_SUBJECT};

TEST(kept_descriptors_are_there_after_a_kill_and_after_a_restart)
{
	char names[256];

	fixture_keeper_start(&keeper, NULL);
	fixture_daemon_assert_logged(&keeper.daemon, "life 1, left 0");
	/* The second name of the socket is not there: the open file was kept already. Hanging up does not matter to it. */
	ASSERT_EQ(fixture_keeper_list(&keeper, names, sizeof(names)), 3);
	ASSERT_STREQ(names, "s1-state\ns1-m1\ns1-sock\n");
	fixture_keeper_kill_daemon(&keeper);
	fixture_daemon_assert_logged(&keeper.daemon, "life 2, left 1");
	/* It let go of what it had not taken. */
	ASSERT_EQ(fixture_keeper_list(&keeper, names, sizeof(names)), 2);
	fixture_keeper_restart(&keeper);
	fixture_daemon_assert_logged(&keeper.daemon, "life 3, left 0");
	ASSERT_EQ(fixture_keeper_n_starts(&keeper), 3);
	fixture_keeper_stop(&keeper);
}

TEST(stop_lets_go_of_everything)
{
	char names[256];

	fixture_keeper_start(&keeper, NULL);
	fixture_keeper_kill_daemon(&keeper);
	fixture_daemon_assert_logged(&keeper.daemon, "life 2, left 1");
	fixture_keeper_stop_daemon(&keeper);
	ASSERT_EQ(fixture_keeper_list(&keeper, names, sizeof(names)), 0);
	fixture_keeper_go(&keeper);
	fixture_daemon_assert_logged(&keeper.daemon, "left 1, fault none, next none\nlife 1, left 0");
	fixture_keeper_stop(&keeper);
}

TEST(held_daemon_starts_on_command_with_the_kept_descriptors)
{
	fixture_keeper_start(&keeper, NULL);
	fixture_keeper_hold(&keeper);
	ASSERT_EQ(fixture_keeper_n_starts(&keeper), 1);
	fixture_keeper_go(&keeper);
	fixture_daemon_assert_logged(&keeper.daemon, "life 2, left 1");
	fixture_keeper_stop(&keeper);
}

TEST(maximum_binds_and_environment_is_for_one_start)
{
	char names[256];

	/* One of them is meant for a listening socket. */
	keeper.max = 4;
	setenv("SHMEMD_FAULT", "here", 1);
	fixture_keeper_start(&keeper, NULL);
	fixture_daemon_assert_logged(&keeper.daemon, "life 1, left 0, fault here, next none");
	ASSERT_EQ(fixture_keeper_list(&keeper, names, sizeof(names)), 3);
	fixture_keeper_set_env(&keeper, "SUBJECT_NEXT=this");
	fixture_keeper_kill_daemon(&keeper);
	fixture_keeper_wait_start(&keeper, 2);
	fixture_daemon_assert_logged(&keeper.daemon, "life 2, left 1, fault none, next this");
	fixture_keeper_kill_daemon(&keeper);
	fixture_daemon_assert_logged(&keeper.daemon, "life 3, left 0, fault none, next none");
	ASSERT_EQ(fixture_keeper_list(&keeper, names, sizeof(names)), 2);
	fixture_keeper_stop(&keeper);
}
