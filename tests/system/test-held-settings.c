/* SPDX-License-Identifier: Apache-2.0 */
/* A settings file that became invalid does not end sessions: the next daemon uses the settings of the former one. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/fixture-keeper.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"

struct scene {
	struct fixture_keeper keeper;
	struct raw_client raw;
	char folder[64], conf[80], saved[80]; /* folder: $RUNTIME_DIRECTORY */
};

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	ASSERT(f);
	fputs(text, f);
	fclose(f);
}

static void scene_init(struct scene *s, const char *conf)
{
	memset(s, 0, sizeof(*s));
	snprintf(s->folder, sizeof(s->folder), "/tmp/shmemd-held-XXXXXX");
	ASSERT(mkdtemp(s->folder));
	snprintf(s->conf, sizeof(s->conf), "%s/conf", s->folder);
	snprintf(s->saved, sizeof(s->saved), "%s/settings", s->folder);
	setenv("RUNTIME_DIRECTORY", s->folder, 1);
	write_file(s->conf, conf);
	fixture_keeper_start(&s->keeper, "--config", s->conf, NULL);
	raw_connect(&s->raw, s->keeper.daemon.socket);
	raw_hello_resumes(&s->raw);
	raw_open_nic(&s->raw, "soft0");
}

static void scene_deinit(struct scene *s)
{
	raw_close(&s->raw);
	fixture_keeper_stop(&s->keeper);
	unlink(s->conf);
	unlink(s->saved);
	rmdir(s->folder);
}

static void expect_resumed(struct scene *s)
{
	struct msg msg;

	ASSERT_OK(raw_recv(&s->raw, &msg, NULL));
	ASSERT_STREQ(msg_kind_name(msg.kind), msg_kind_name(MSG_RESUMED_EVENT));
}

/* As many as the settings in force allow. */
static void expect_max_qps(struct scene *s, uint32_t most)
{
	struct msg req, rep;

	raw_fill_create(&req, most + 1);
	raw_expect_error(&s->raw, &req, NULL, 0, SHMD_STATUS_QUOTA_QPS);
	raw_create_queues(&s->raw, most, &rep);
	msg_deinit(&rep);
}

TEST(sessions_go_on_with_the_settings_before_when_the_file_is_wrong)
{
	struct scene s;

	scene_init(&s, "max-qps = 3\n");
	write_file(s.conf, "max-qps = 3\nmax-mrs = none at all\n");
	fixture_keeper_restart(&s.keeper);
	expect_resumed(&s);
	fixture_daemon_assert_logged(&s.keeper.daemon, "started with the settings of the previous daemon");
	fixture_daemon_assert_logged(&s.keeper.daemon, "conf:2: max-mrs is \"none at all\"");
	/* And the one after that likewise. */
	fixture_keeper_kill_daemon(&s.keeper);
	expect_resumed(&s);
	expect_max_qps(&s, 3);
	scene_deinit(&s);
}

TEST(settings_of_a_reload_are_those_before)
{
	struct scene s;

	scene_init(&s, "max-qps = 3\n");
	write_file(s.conf, "max-qps = 5\n");
	ASSERT_OK(kill(s.keeper.daemon.pid, SIGHUP));
	fixture_daemon_assert_logged(&s.keeper.daemon, "reloaded the settings; changed: max-qps");
	write_file(s.conf, "sofa-nics = 1\n");
	ASSERT_OK(kill(s.keeper.daemon.pid, SIGHUP));
	fixture_daemon_assert_logged(&s.keeper.daemon, "settings stay as they were");
	fixture_keeper_kill_daemon(&s.keeper);
	expect_resumed(&s);
	expect_max_qps(&s, 5);
	scene_deinit(&s);
}

TEST(defaults_are_taken_if_nothing_was_saved)
{
	struct scene s;

	scene_init(&s, "");
	write_file(s.conf, "sofa-nics = 1\n");
	write_file(s.saved, "sofa-nics = 2\n");
	fixture_keeper_kill_daemon(&s.keeper);
	expect_resumed(&s);
	fixture_daemon_assert_logged(&s.keeper.daemon, "started with default settings");
	scene_deinit(&s);
}
