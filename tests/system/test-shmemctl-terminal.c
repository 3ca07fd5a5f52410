/* SPDX-License-Identifier: Apache-2.0 */
/* shmemctl on a terminal and off it: colours, redrawing, the spinner. */
#include <stdlib.h>
#include <string.h>

#include "tests/system/client-lab.h"
#include "tests/system/ctl-lab.h"

#define ESC "\033["
#define ON_TERMINAL(...) ctl_run_on_terminal((const char *const[]){__VA_ARGS__, NULL}, false)

static void start(struct fixture_daemon *daemon)
{
	fixture_daemon_start(daemon, "--soft-nics=2", NULL);
	setenv("SHMEMD_SOCKET", daemon->socket, 1);
	setenv("TERM", "xterm", 1);
	unsetenv("NO_COLOR");
}

TEST(colours_are_for_terminals_only)
{
	struct fixture_daemon daemon;

	start(&daemon);
	ASSERT_EQ(ON_TERMINAL("list", "nics"), 0);
	ASSERT_HAS(ESC "1mNIC" ESC "0m", ESC "32mactive" ESC "0m");
	ASSERT_EQ(CTL("list", "nics"), 0);
	ctl_assert_lacks("\033");
	ASSERT_EQ(ON_TERMINAL("list", "nics", "--json"), 0);
	ctl_assert_lacks("\033");
	fixture_daemon_stop(&daemon);
}

TEST(environment_and_option_decide_about_colours)
{
	struct fixture_daemon daemon;

	start(&daemon);
	setenv("NO_COLOR", "1", 1);
	ASSERT_EQ(ON_TERMINAL("list", "nics"), 0);
	ctl_assert_lacks("\033");
	ASSERT_EQ(ON_TERMINAL("list", "nics", "--color=always"), 0);
	ASSERT_HAS(ESC "32mactive");
	setenv("NO_COLOR", "", 1);
	ASSERT_EQ(ON_TERMINAL("list", "nics"), 0);
	ASSERT_HAS(ESC "32mactive");
	unsetenv("NO_COLOR");
	setenv("TERM", "dumb", 1);
	ASSERT_EQ(ON_TERMINAL("list", "nics"), 0);
	ctl_assert_lacks("\033");
	setenv("TERM", "xterm", 1);
	ASSERT_EQ(ON_TERMINAL("list", "nics", "--color", "never"), 0);
	ctl_assert_lacks("\033");
	ASSERT_EQ(CTL("list", "nics", "--color", "always"), 0);
	ASSERT_HAS(ESC "32mactive");
	ASSERT_EQ(CTL("list", "nics", "--color", "auto"), 0);
	ctl_assert_lacks("\033");
	fixture_daemon_stop(&daemon);
}

TEST(colours_do_not_move_columns)
{
	static char plain[8192], stripped[8192];
	struct fixture_daemon daemon;
	size_t n = 0;

	start(&daemon);
	ASSERT_EQ(CTL("list", "nics"), 0);
	ASSERT_LT(strlen(ctl_text), sizeof(plain));
	strcpy(plain, ctl_text);
	ASSERT_EQ(CTL("list", "nics", "--color=always"), 0);
	for (const char *c = ctl_text; *c; c++) {
		if (*c == '\033')
			c = strchr(c, 'm');
		else
			stripped[n++] = *c;
	}
	ASSERT_STREQ(stripped, plain);
	fixture_daemon_stop(&daemon);
}

TEST(watch_redraws_a_terminal_and_appends_elsewhere)
{
	struct fixture_daemon daemon;
	pid_t ctl;
	int out;

	start(&daemon);
	ctl = ctl_start_on_terminal((const char *const[]){"--watch=0.05", "list", "nics", NULL}, &out);
	ctl_wait_for(out, ESC "J" ESC "H" ESC "1mNIC");
	fixture_daemon_stop(&daemon);
	ASSERT_EQ(ctl_end(ctl, out), 2);
	ASSERT_EQ(strncmp(ctl_text, ESC "H" ESC "2J", 7), 0);
	ASSERT_HAS(ESC "K\r\n");
}

TEST(watch_appends_if_nothing_can_be_redrawn)
{
	struct fixture_daemon daemon;
	pid_t ctl;
	int out;

	start(&daemon);
	setenv("TERM", "dumb", 1);
	ctl = ctl_start_on_terminal((const char *const[]){"--watch=0.05", "list", "sessions", NULL}, &out);
	ctl_wait_for(out, "no sessions\r\n\r\nno sessions\r\n");
	fixture_daemon_stop(&daemon);
	ASSERT_EQ(ctl_end(ctl, out), 2);
	ctl_assert_lacks("\033");
}

TEST_TIMEOUT(progress_spins_on_a_terminal_and_is_taken_away, 60)
{
	struct fixture_daemon daemon;
	struct shmd_client *client;
	pid_t ctl;
	int out;

	start(&daemon);
	client = lab_client(&daemon);
	ctl = ctl_start_on_terminal((const char *const[]){"drain", "--grace", "60", "--json", NULL},
				    &out);
	ctl_wait_for(out, "\r" ESC "K| 1 session left, ended in ");
	ctl_wait_for(out, "\r" ESC "K/ 1 session left, ended in ");
	shmd_client_close(client);
	ASSERT_EQ(ctl_end(ctl, out), 0);
	ASSERT_HAS("\r" ESC "K{\"schema_version");
	fixture_daemon_stop(&daemon);
}

TEST(progress_is_silent_about_what_is_quick)
{
	struct fixture_daemon daemon;

	start(&daemon);
	ASSERT_EQ(ctl_run_on_terminal((const char *const[]){"drain", "--json", NULL}, true), 0);
	ASSERT_EQ(ctl_text[0], '{');
	fixture_daemon_stop(&daemon);
}
