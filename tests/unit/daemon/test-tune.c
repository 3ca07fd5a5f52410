/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the settings again, without a daemon: what is taken, what is kept, what is said. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/tune.h"
#include "tests/lib/test.h"

/* In place of the C library's: a kernel whose fs.nr_open was lowered. */
static bool limit_stays;

int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit)
{
	if (!limit_stays)
		return (int)syscall(SYS_prlimit64, 0, resource, limit, NULL);
	errno = EPERM;
	return -1;
}

struct scene {
	char path[64];
	char *argv[2];
	struct settings settings;
	struct settings_source source;
	struct settings_error error;
	struct listener listener;
	struct registry registry;
	int log;
};

static void write_file(const struct scene *s, const char *text)
{
	int fd = open(s->path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);

	ASSERT_EQ(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static int reload(struct scene *s)
{
	const struct tune_target target = {&s->settings, &s->source, &s->listener, &s->registry};
	int saved = dup(STDERR_FILENO), r;

	ASSERT_OK(ftruncate(s->log, 0));
	dup2(s->log, STDERR_FILENO);
	r = tune_reload(&target, &s->error);
	dup2(saved, STDERR_FILENO);
	close(saved);
	return r;
}

static bool is_logged(const struct scene *s, const char *words)
{
	char text[4096];
	ssize_t n = pread(s->log, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = 0;
	return strstr(text, words);
}

/* text NULL: there is no file at the default place. */
static void scene_init(struct scene *s, const char *text)
{
	enum settings_action action;

	*s = (struct scene){.argv = {(char *)"shmemd"}, .listener.fd = -1, .log = memfd_create("log", MFD_CLOEXEC)};
	fcntl(s->log, F_SETFL, O_APPEND);
	snprintf(s->path, sizeof(s->path), "/tmp/shmemd-tune-%d", getpid());
	s->source = (struct settings_source){1, s->argv, s->path};
	unsetenv("SHMEMD_DEBUG");
	unlink(s->path);
	if (text)
		write_file(s, text);
	ASSERT_OK(settings_load(&s->settings, &s->source, &action, &s->error));
}

static void scene_deinit(struct scene *s)
{
	unlink(s->path);
	close(s->log);
}

TEST(reload_without_the_default_file_keeps_what_it_said)
{
	struct scene s;

	scene_init(&s, "max-qps = 7\n");
	unlink(s.path);
	ASSERT_ERR(reload(&s), ENOENT);
	ASSERT_EQ(s.settings.max_qps, 7);
	ASSERT(strstr(s.error.text, s.path));
	ASSERT(strstr(s.error.text, " is gone; make an empty one for the defaults"));
	ASSERT(is_logged(&s, "settings stay as they were: "));
	/* Again is the same, and an empty file says what is wanted. */
	ASSERT_ERR(reload(&s), ENOENT);
	write_file(&s, "");
	ASSERT_OK(reload(&s));
	ASSERT_EQ(s.settings.max_qps, 32768);
	ASSERT(is_logged(&s, "changed: max-qps\n"));
	scene_deinit(&s);
}

TEST(daemon_without_a_file_may_be_told_to_reload)
{
	struct scene s;

	scene_init(&s, NULL);
	ASSERT_OK(reload(&s));
	ASSERT(is_logged(&s, "there is no file "));
	ASSERT(is_logged(&s, "nothing to change"));
	/* One that comes later counts, and then its loss does. */
	write_file(&s, "max-qps = 8\n");
	ASSERT_OK(reload(&s));
	ASSERT_EQ(s.settings.max_qps, 8);
	unlink(s.path);
	ASSERT_ERR(reload(&s), ENOENT);
	scene_deinit(&s);
}

TEST(access_under_socket_activation_is_not_said_to_have_changed)
{
	struct scene s;

	scene_init(&s, "socket-mode = 0600\n");
	s.listener.activated = true;
	write_file(&s, "socket-mode = 0666\nsocket-group = nobody-at-all\nmax-qps = 5\n");
	ASSERT_OK(reload(&s));
	ASSERT(is_logged(&s, "changed: max-qps\n"));
	ASSERT(!is_logged(&s, "changed: socket-mode"));
	ASSERT(is_logged(&s, "have no effect under socket activation"));
	ASSERT_EQ(s.settings.socket_mode, 0600);
	scene_deinit(&s);
}

/* What is kept from connections is a share of what there is. */
TEST(descriptors_are_as_many_as_the_process_may_really_open)
{
	const struct rlimit few = {100, 200};
	const struct settings settings = {.max_fds = 10};

	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &few));
	limit_stays = true;
	ASSERT_EQ(tune_fd_limit(&settings), 100);
	limit_stays = false;
	ASSERT_EQ(tune_fd_limit(&settings), 200);
}
