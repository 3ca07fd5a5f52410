/* SPDX-License-Identifier: Apache-2.0 */
/* shmemctl as a person or a script runs it: what it prints, and its exit status. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/system/client-lab.h"
#include "tests/system/ctl-lab.h"

TEST(without_a_daemon_it_says_what_to_do)
{
	ASSERT_EQ(CTL("--socket", "/nonexistent/sock", "status"), 2);
	ASSERT_STREQ(ctl_text, "shmemctl: shmemd is not running: there is no socket /nonexistent/sock; "
			   "start it with \"shmemd --socket /nonexistent/sock\"\n");
	setenv("SHMEMD_SOCKET", "/nonexistent/other", 1);
	ASSERT_EQ(CTL("list", "qps"), 2);
	ASSERT(strstr(ctl_text, "no socket /nonexistent/other; start it with \"shmemd --socket /nonexistent/other\""));
}

TEST(wrong_usage_has_its_own_messages)
{
	ASSERT_EQ(CTL("stat"), 2);
	ASSERT_STREQ(ctl_text, "shmemctl: unknown command stat (did you mean stats?); see shmemctl --help\n");
	ASSERT_EQ(CTL("xyz"), 2);
	ASSERT_STREQ(ctl_text, "shmemctl: unknown command xyz; see shmemctl --help\n");
	ASSERT_EQ(CTL("list"), 2);
	ASSERT_STREQ(ctl_text, "shmemctl: list needs WHAT: sessions, qps, mrs, pes, paths or nics; see shmemctl list --help\n");
	ASSERT_EQ(CTL("list", "cqs"), 2);
	ASSERT_STREQ(ctl_text,
		     "shmemctl: list: WHAT must be sessions, qps, mrs, pes, paths or nics, not cqs; see shmemctl list --help\n");
	ASSERT_EQ(CTL("status", "now"), 2);
	ASSERT_EQ(CTL("port", "soft0", "sideways"), 2);
	ASSERT_STREQ(ctl_text, "shmemctl: port: STATE must be up or down, not sideways; see shmemctl port --help\n");
	ASSERT_EQ(CTL("kill"), 2);
	ASSERT_STREQ(ctl_text, "shmemctl: kill needs SESSION; see shmemctl kill --help\n");
	ASSERT_EQ(CTL("kill", "7", "--watch"), 2);
	ASSERT_STREQ(ctl_text, "shmemctl: --watch does not go with kill; see shmemctl kill --help\n");
	ASSERT_EQ(CTL("--colour", "status"), 2);
	ASSERT_EQ(CTL("--color", "status"), 2);
	ASSERT_EQ(CTL("--color=red", "status"), 2);
	ASSERT_STREQ(ctl_text, "shmemctl: --color takes auto, always or never, not red; see shmemctl --help\n");
	ASSERT_EQ(CTL("--json=yes", "status"), 2);
	ASSERT_EQ(CTL("status", "--socket"), 2);
	ASSERT_EQ(CTL("status", "--socket", ""), 2);
	ASSERT_EQ(CTL("--watch=never", "status"), 2);
	ASSERT_EQ(CTL("--watch=0", "status"), 2);
	ASSERT_EQ(CTL("drain", "--grace", "soon"), 2);
	ASSERT_EQ(CTL("monitor", "--count", "0"), 2);
	ASSERT_EQ(CTL("monitor", "--kind", "qp-error,weather"), 2);
	ASSERT_EQ(CTL("monitor", "--kind", "qp-error,"), 2);
	ASSERT_EQ(ctl_run((const char *const[]){NULL}), 2);
	ASSERT_EQ(CTL("--version"), 0);
	ASSERT_STREQ(ctl_text, "shmemctl 0.1.0\n");
	ASSERT_EQ(CTL("-V"), 0);
	ASSERT_STREQ(ctl_text, "shmemctl 0.1.0\n");
}

TEST(a_typing_error_gets_a_suggestion)
{
	static const struct {
		const char *words[4];
		const char *hint;
	} cases[] = {
		{{"topolgy", NULL}, "unknown command topolgy (did you mean topology?)"},
		{{"--jsn", "status", NULL}, "unknown option --jsn (did you mean --json?)"},
		{{"list", "nic", NULL}, "not nic (did you mean nics?)"},
		{{"--color=alway", "status", NULL}, "not alway (did you mean always?)"},
		{{"monitor", "--kind", "qp-eror", NULL}, "not qp-eror (did you mean qp-error?)"},
		{{"help", "drian", NULL}, "not drian (did you mean drain?)"},
	};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ASSERT_EQ(ctl_run(cases[i].words), 2);
		ASSERT_HAS(cases[i].hint);
	}
	/* An option of another command is refused. */
	ASSERT_EQ(CTL("list", "--sv"), 2);
	ctl_assert_lacks("did you mean");
	ASSERT_EQ(CTL("status", "\x1b[2J"), 2);
	ctl_assert_lacks("\x1b");
}

TEST(help_can_be_asked_for_in_every_usual_way)
{
	static const char *const ways[][3] = {{"help", NULL}, {"-h", NULL}, {"--help", "-h", NULL}};
	static const char *const drain[][3] = {{"help", "drain", NULL}, {"drain", "-h", NULL}, {"-h", "drain", NULL}};
	char expected[8192];

	ASSERT_EQ(CTL("--help"), 0);
	snprintf(expected, sizeof(expected), "%.8191s", ctl_text);
	for (unsigned int i = 0; i < 3; i++) {
		ASSERT_EQ(ctl_run(ways[i]), 0);
		ASSERT_STREQ(ctl_text, expected);
	}
	ASSERT_EQ(CTL("drain", "--help"), 0);
	snprintf(expected, sizeof(expected), "%.8191s", ctl_text);
	for (unsigned int i = 0; i < 3; i++) {
		ASSERT_EQ(ctl_run(drain[i]), 0);
		ASSERT_STREQ(ctl_text, expected);
	}
}

/* The private socket that was asked for, and the default one on a machine with and without systemd. */
TEST(the_hint_to_start_the_daemon_fits_socket_and_machine)
{
	bool has_systemd = access("/run/systemd/system", F_OK) == 0;

	ASSERT_EQ(CTL("--socket", "/nonexistent/it's here", "status"), 2);
	ASSERT_HAS("start it with \"shmemd --socket '/nonexistent/it'\\''s here'\"");
	unsetenv("SHMEMD_SOCKET");
	if (access("/run/shmemd/shmemd.sock", F_OK) == 0)
		return;
	ASSERT_EQ(CTL("status"), 2);
	ASSERT_HAS(has_systemd ? "\"systemctl start shmemd\"" : "\"shmemd\", as root");
	if (!has_systemd)
		ctl_assert_lacks("systemctl");
}

TEST(a_socket_that_cannot_be_used_is_described)
{
	char folder[] = "/tmp/shmemd-priv-XXXXXX", path[64], longest[200];

	ASSERT(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/sock", folder);
	ASSERT_OK(mkdir(path, 0700));
	ASSERT_EQ(CTL("--socket", path, "status"), 2);
	ASSERT_HAS("/sock is not a socket; name that of shmemd with --socket or SHMEMD_SOCKET\n");
	if (geteuid() != 0) {
		ASSERT_OK(chmod(folder, 0));
		ASSERT_EQ(CTL("--socket", path, "status"), 1);
		ASSERT_HAS("no permission to reach the socket ");
		ASSERT_OK(chmod(folder, 0700));
	}
	ASSERT_OK(rmdir(path));
	ASSERT_OK(rmdir(folder));
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	ASSERT_EQ(CTL("--socket", longest, "status"), 1);
	ASSERT_HAS("the path of the socket is too long (199 bytes, at most 107): xxxx");
}

static void assert_narrow(void)
{
	for (const char *line = ctl_text; *line; line += strcspn(line, "\n") + 1)
		ASSERT_LE(strcspn(line, "\n"), 80);
}

TEST(help_is_there_for_each_command)
{
	static const char *const commands[] = {"status", "list", "stats", "monitor", "dump-queue", "kill", "drain",
					       "port", "topology", "metrics", "config", "doctor", "help", NULL};

	for (unsigned int i = 0; commands[i]; i++) {
		ASSERT_EQ(CTL(commands[i], "--help"), 0);
		ASSERT_HAS("Usage: shmemctl [OPTION...] ", commands[i], "\nOptions:\n", "  --json ", "\nExit status: ");
		assert_narrow();
	}
	ASSERT_EQ(CTL("--help"), 0);
	ASSERT_EQ(strncmp(ctl_text, "Usage: shmemctl ", 16), 0);
	ASSERT_HAS("\n  status  ", "\n  list WHAT  ", "\n  stats [WHAT]  ", "\n  port NIC STATE  ", "Exit status: ");
	assert_narrow();
	ASSERT_EQ(CTL("drain", "--help"), 0);
	ASSERT_EQ(strncmp(ctl_text, "Usage: shmemctl [OPTION...] drain [--grace SECONDS] | --off\n", 60), 0);
	ctl_assert_lacks("--watch");
	ASSERT_EQ(CTL("--help", "list"), 0);
	ASSERT_HAS("Usage: shmemctl [OPTION...] list sessions|qps|mrs|pes|paths|nics\n", "--watch [SECONDS]");
}

TEST(output_that_cannot_be_written_is_a_failure)
{
	struct fixture_daemon daemon;
	char command[512];

	fixture_daemon_start(&daemon, NULL);
	snprintf(command, sizeof(command), "%s --socket %s list nics >/dev/full 2>/dev/null", ctl_binary(), daemon.socket);
	ASSERT_EQ(system(command), 1 << 8);
	snprintf(command, sizeof(command), "%s --help >/dev/full 2>/dev/null", ctl_binary());
	ASSERT_EQ(system(command), 1 << 8);
	fixture_daemon_stop(&daemon);
}

TEST(lists_are_empty_then_show_what_is_there)
{
	struct shmd_queues_attr attr = {.n_qps = 2};
	struct fixture_daemon daemon;
	struct lab_side side;
	char pid[64];

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	setenv("SHMEMD_SOCKET", daemon.socket, 1);
	ASSERT_EQ(CTL("list", "sessions"), 0);
	ASSERT_STREQ(ctl_text, "no sessions\n");
	ASSERT_EQ(CTL("list", "qps"), 0);
	ASSERT_STREQ(ctl_text, "no QPs\n");
	ASSERT_EQ(CTL("list", "mrs"), 0);
	ASSERT_STREQ(ctl_text, "no memory regions\n");
	ASSERT_EQ(CTL("--json", "list", "sessions"), 0);
	ASSERT_STREQ(ctl_text, "{\"schema_version\":1,\"sessions\":[],\"n_hidden_sessions\":0}\n");

	lab_side_open(&side, &daemon, &attr);
	ASSERT_EQ(CTL("status"), 0);
	ASSERT_HAS("shmemd 0.1.0, pid ", "sessions        1 now, 1 since start, 0 refused", "2 QPs", "soft0", "soft1",
		   "cpu");
	ASSERT_EQ(CTL("list", "sessions"), 0);
	ASSERT_HAS("SESSION", "DOORBELL", "soft0", "cpu");
	ASSERT_EQ(CTL("list", "qps"), 0);
	ASSERT_HAS("RC", "RST", "soft0");
	ASSERT_EQ(CTL("list", "mrs"), 0);
	ASSERT_HAS("memfd", "lw,rw,rr,ra", "64.0 KiB");
	ASSERT_EQ(CTL("list", "nics"), 0);
	ASSERT_HAS("soft0", "soft1", "active");
	ASSERT_EQ(CTL("list", "sessions", "--json"), 0);
	snprintf(pid, sizeof(pid), "\"pid\":%d,", (int)getpid());
	ASSERT_HAS("{\"schema_version\":1,\"sessions\":[{\"session\":", pid, "\"doorbell\":\"cpu\"", "\"n_qps\":2",
		   "\"library\":\"libshmemclient 0.1.0\"");
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

TEST(info_shows_the_paths_in_worlds_of_this_user_if_a_daemon_runs)
{
	const struct shmd_pe_run runs[] = {{.path = SHMD_PE_PATH_MAPPED, .reason = "same node"},
					   {.first = 2, .last = 3, .path = SHMD_PE_PATH_DC, .nic = "soft0", .reason = "another user"}};
	const struct shmd_pe_report report = {.world = 0x1234567890abcdef, .pe = 1, .n_pes = 4, .n_mapped = 1, .n_dc = 2, .runs = runs, .n_runs = 2,
					      .gpu = {.heap_bytes = 8192, .used_bytes = 4096, .n_chunks = 2, .n_mapped = 3, .mem_kind = SHMD_MEM_AGENT}};
	struct shmd_queues_attr attr = {.n_qps = 2};
	struct fixture_daemon daemon;
	struct lab_side side;

	ASSERT_EQ(CTL("info", "--socket", "/nonexistent/sock"), 0);
	ASSERT_HAS("\nno paths: shmemd is not running: there is no socket /nonexistent/sock; ");
	ASSERT_EQ(CTL("info", "--json", "--socket", "/nonexistent/sock"), 0);
	ASSERT_HAS("\"paths\":[],\"paths_error\":\"shmemd is not running: there is no socket /nonexistent/sock; ");
	/* Where it was installed, or would be. */
	ASSERT_HAS("\"nvshmem\":{\"library\":\"", "\"major\":3,\"newest_minor\":8}");
	ASSERT_EQ(CTL("info"), 0);
	ASSERT_HAS("\nnvshmem         ", "/libnvshmem_host.so.3\n");
	fixture_daemon_start(&daemon, NULL);
	setenv("SHMEMD_SOCKET", daemon.socket, 1);
	ASSERT_EQ(CTL("info"), 0);
	ASSERT_HAS("\nno PEs: this user runs no world\n\nno paths: this user runs no world with several PEs\n");
	lab_side_open(&side, &daemon, &attr);
	ASSERT_OK(shmd_pe_report(side.client, &report));
	ASSERT_EQ(CTL("info", "--wide"), 0);
	ASSERT_HAS("4.0 KiB of 8.0 KiB, 2 chunks, agent");
	ASSERT_EQ(CTL("info"), 0);
	ASSERT_HAS("version ", "\nWORLD         PE   TO  PATH    NIC    REASON\n12345678  1 of 4    0  mapped  -      same node\n"
			       "12345678  1 of 4  2-3  DC      soft0  another user\n");
	ASSERT_EQ(CTL("info", "--json"), 0);
	ASSERT_HAS("\"pes\":[{\"world\":\"1234567890abcdef\"", "\"registered\":\"agent\"");
	ASSERT_HAS("\"first\":2,\"last\":3,\"path\":\"DC\",\"nic\":\"soft0\",\"reason\":\"another user\"}],\"paths_error\":\"\"}\n");
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

/* In columns of a terminal. */
static size_t widest(void)
{
	size_t most = 0;

	for (const char *line = ctl_text; *line; line += strcspn(line, "\n") + 1)
		most = strcspn(line, "\n") > most ? strcspn(line, "\n") : most;
	return most;
}

TEST(tables_fit_120_columns_and_say_what_is_left_out)
{
	static const char *const lists[] = {"sessions", "qps", "mrs", "pes", "paths", "nics"};
	struct shmd_queues_attr attr = {.n_qps = 2};
	struct fixture_daemon daemon;
	struct lab_side side;

	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	setenv("SHMEMD_SOCKET", daemon.socket, 1);
	lab_side_open(&side, &daemon, &attr);
	for (unsigned int i = 0; i < 4; i++) {
		ASSERT_EQ(CTL("list", lists[i]), 0);
		ASSERT_LE(widest(), 120);
	}
	ASSERT_EQ(CTL("status"), 0);
	ASSERT_LE(widest(), 120);
	ASSERT_EQ(CTL("list", "sessions"), 0);
	ASSERT_HAS("left out: ", "PEERS", "FDS (--wide shows all columns)\n");
	ASSERT_EQ(CTL("list", "sessions", "--wide"), 0);
	ASSERT_HAS("  PEERS  ", "  FDS  ", "KEPT\n");
	ctl_assert_lacks("left out");
	ASSERT_GT(widest(), 120);
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

