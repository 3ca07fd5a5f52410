/* SPDX-License-Identifier: Apache-2.0 */
/* shmemctl kill, drain and port: an administrator's changes, and the refusals that other users get. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/system/client-lab.h"
#include "tests/system/ctl-lab.h"

static void start(struct fixture_daemon *daemon)
{
	fixture_daemon_start(daemon, "--soft-nics=2", "--socket-mode=0666", NULL);
	setenv("SHMEMD_SOCKET", daemon->socket, 1);
}

static const char *session_word(const struct shmd_client *client)
{
	static char word[32];

	snprintf(word, sizeof(word), "%llu", (unsigned long long)shmd_client_session(client));
	return word;
}

TEST(kill_ends_one_session_and_says_which)
{
	struct fixture_daemon daemon;
	struct shmd_client *victim, *other;
	struct shmd_limits limits;

	start(&daemon);
	victim = lab_client(&daemon);
	other = lab_client(&daemon);
	ASSERT_EQ(CTL("kill", session_word(victim)), 0);
	ASSERT_HAS("session ", " ended: test-shmemctl-a, uid ");
	ASSERT_ERR(shmd_nic_list(victim, NULL, 0), ECANCELED);
	ASSERT_EQ(shmd_nic_list(other, NULL, 0), 2);
	ASSERT_OK(shmd_client_limits(other, &limits));
	ASSERT_EQ(CTL("kill", session_word(victim)), 1);
	ASSERT_HAS("shmemctl: there is no session ", "; \"shmemctl list sessions\" shows all\n");
	ASSERT_EQ(CTL("kill", "0x1q"), 1);
	ASSERT_STREQ(ctl_text, "shmemctl: 0x1q is not the number of a session; \"shmemctl list sessions\" shows them\n");
	shmd_client_close(victim);
	shmd_client_close(other);
	fixture_daemon_stop(&daemon);
}

TEST(drain_waits_for_the_last_session_and_can_be_ended)
{
	struct shmd_client_attr attr = {0};
	struct shmd_client *client, *late;
	struct fixture_daemon daemon;

	start(&daemon);
	attr.socket_path = daemon.socket;
	client = lab_client(&daemon);
	ASSERT_EQ(CTL("drain", "--grace", "0.2"), 0);
	ASSERT_STREQ(ctl_text, "drained: no session is left, and shmemd refuses new ones; \"shmemctl drain --off\" lets them in "
		     "again\n");
	ASSERT_ERR(shmd_nic_list(client, NULL, 0), ESHUTDOWN);
	ASSERT_ERR(shmd_client_open(&attr, &late), ESHUTDOWN);
	ASSERT_EQ(CTL("status"), 0);
	ASSERT_HAS("draining        shmemd refuses new sessions; \"shmemctl drain --off\" stops this\n");
	ASSERT_EQ(CTL("drain", "--off", "--grace", "1"), 2);
	ASSERT_EQ(CTL("drain", "--off"), 0);
	ASSERT_STREQ(ctl_text, "shmemd accepts sessions; 0 stayed\n");
	shmd_client_close(client);
	shmd_client_close(lab_client(&daemon));
	fixture_daemon_stop(&daemon);
}

TEST(drain_that_somebody_else_ends_is_a_failure)
{
	struct fixture_daemon daemon;
	struct shmd_client *client;
	int out, status;
	pid_t ctl;

	start(&daemon);
	client = lab_client(&daemon);
	ctl = ctl_start((const char *const[]){"drain", NULL}, &out);
	do {
		usleep(10000);
		ASSERT_EQ(CTL("status"), 0);
	} while (!strstr(ctl_text, "draining  "));
	ASSERT_HAS(" and ends live ones in ");
	ASSERT_EQ(CTL("drain", "--off"), 0);
	ASSERT_STREQ(ctl_text, "shmemd accepts sessions; 1 stayed\n");
	ctl_text[0] = 0;
	ctl_wait_for(out, "shmemctl: somebody stopped the drain with 1 session left\n");
	ASSERT_EQ(waitpid(ctl, &status, 0), ctl);
	ASSERT_EQ(WEXITSTATUS(status), 1);
	close(out);
	ASSERT_EQ(shmd_nic_list(client, NULL, 0), 2);
	shmd_client_close(client);
	fixture_daemon_stop(&daemon);
}

TEST_TIMEOUT(drain_reports_progress_in_lines_without_a_terminal, 60)
{
	struct fixture_daemon daemon;
	struct shmd_client *client;
	pid_t ctl;
	int out;

	start(&daemon);
	client = lab_client(&daemon);
	/* It is silent for two seconds. */
	ctl = ctl_start((const char *const[]){"drain", "--grace", "60", NULL}, &out);
	ctl_wait_for(out, "1 session left, ended in ");
	shmd_client_close(client);
	ASSERT_EQ(ctl_end(ctl, out), 0);
	ASSERT_HAS(" s\ndrained: ");
	ctl_assert_lacks("\r");
	fixture_daemon_stop(&daemon);
}

TEST(port_takes_a_nic_down_and_up)
{
	struct fixture_daemon daemon;

	start(&daemon);
	ASSERT_EQ(CTL("port", "soft1", "down"), 0);
	ASSERT_STREQ(ctl_text, "soft1 is down; \"shmemctl port soft1 up\" takes it up again\n");
	ASSERT_EQ(CTL("list", "nics"), 0);
	ASSERT_HAS("soft1  soft     -       1  down ", "soft0  soft     -       1  active ");
	ASSERT_EQ(CTL("port", "soft1", "up"), 0);
	ASSERT_STREQ(ctl_text, "soft1 is active\n");
	ASSERT_EQ(CTL("port", "soft7", "up"), 1);
	ASSERT_HAS("shmemctl: no NIC is called \"soft7\"", "; \"shmemctl list nics\" shows all\n");
	fixture_daemon_stop(&daemon);
}

TEST(refusal_names_the_users_who_are_administrators)
{
	struct fixture_daemon daemon;
	struct shmd_client *client;
	int status;
	pid_t pid;

	if (geteuid())
		test_skip("only root can become another user");
	start(&daemon);
	ASSERT_OK(chmod(daemon.folder, 0755));
	client = lab_client(&daemon);
	CTL("doctor");
	ASSERT_HAS("OK    doorbells      1 session with the best mode of the NICs");
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		ASSERT_OK(setgid(65534));
		ASSERT_OK(setuid(65534));
		if (access(ctl_binary(), X_OK))
			_exit(77);
		ASSERT_EQ(CTL("kill", session_word(client)), 1);
		ASSERT_STREQ(ctl_text, "shmemctl: not allowed for this user: only root and the user of the daemon (uid 0) may do this\n");
		ASSERT_EQ(CTL("drain"), 1);
		ASSERT_EQ(CTL("port", "soft0", "down"), 1);
		ASSERT_EQ(CTL("dump-queue", "soft0/1"), 1);
		ASSERT_HAS("only root and the user");
		ASSERT_EQ(CTL("list", "nics"), 0);
		ASSERT_EQ(CTL("list", "sessions"), 0);
		ASSERT_STREQ(ctl_text, "no sessions\n1 session of other users is hidden; root and the user of shmemd see all\n");
		ASSERT_EQ(CTL("list", "qps", "--json"), 0);
		ASSERT_HAS("\"qps\":[],\"n_hidden_sessions\":1}");
		ASSERT_EQ(CTL("status"), 0);
		ASSERT_HAS("1 session of other users is hidden");
		CTL("doctor");
		ASSERT_HAS("WARN  doorbells      not known for 1 session of other users\n");
		_exit(0);
	}
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	if (status == 77 << 8)
		test_skip("another user cannot reach the build folder");
	ASSERT_EQ(status, 0);
	ASSERT_EQ(shmd_nic_list(client, NULL, 0), 2);
	shmd_client_close(client);
	fixture_daemon_stop(&daemon);
}
