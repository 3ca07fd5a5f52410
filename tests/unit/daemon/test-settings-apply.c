/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the settings again, without a daemon: the settings that change, those that stay, and the log lines. */
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
#include "daemon/session/node-map.h"
#include "daemon/settings/settings-apply.h"
#include "daemon/topo/topo.h"
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
	const struct settings_apply_target target = {&s->settings, &s->source, &s->listener, &s->registry};
	int saved = dup(STDERR_FILENO), r;

	ASSERT_OK(ftruncate(s->log, 0));
	dup2(s->log, STDERR_FILENO);
	r = settings_apply_reload(&target, &s->error);
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
	s->source = (struct settings_source){s->argv, s->path};
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
	ASSERT(strstr(s.error.text, " no longer exists; create an empty file to use the defaults"));
	ASSERT(is_logged(&s, "settings stay as they were: "));
	/* Again is the same, and an empty file says what is wanted. */
	ASSERT_ERR(reload(&s), ENOENT);
	write_file(&s, "");
	ASSERT_OK(reload(&s));
	ASSERT_EQ(s.settings.max_qps, 32768);
	ASSERT(is_logged(&s, "changed: max-qps\n"));
	scene_deinit(&s);
}

TEST(daemon_without_a_file_can_reload)
{
	struct scene s;

	scene_init(&s, NULL);
	ASSERT_OK(reload(&s));
	ASSERT(is_logged(&s, "there is still no file "));
	ASSERT(is_logged(&s, "reloaded the settings; none changed"));
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

TEST(a_limit_of_descriptors_is_held_against_the_process_when_it_changes)
{
	const struct rlimit few = {100, 100};
	struct scene s;

	scene_init(&s, "max-fds = 300\n");
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &few));
	write_file(&s, "max-fds = 300\nmax-qps = 8\n");
	ASSERT_OK(reload(&s));
	ASSERT(!is_logged(&s, "descriptors"));
	write_file(&s, "max-fds = 200\nmax-qps = 8\n");
	ASSERT_OK(reload(&s));
	ASSERT(is_logged(&s, "max-fds is 200, but this process may open only 100 descriptors"));
	scene_deinit(&s);
}

/* A GPU and a NIC that the daemon does not have: nothing may be given. */
static struct node_map *make_map(struct registry *registry)
{
	char text[] = "<shmemd-topology version=\"1\"><host><function pci=\"1:00.0\" class=\"0302\"/><function pci=\"2:00.0\" "
		      "class=\"0207\"><nic name=\"mlx5_0\" port=\"1\"/></function></host></shmemd-topology>";
	struct node_map *map = NULL;
	struct topo *topo = NULL;
	char why[TOPO_WHY_BYTES];

	ASSERT_OK(topo_parse(text, strlen(text), &topo, why));
	ASSERT_OK(node_map_new(topo, registry, false, &map));
	return map;
}

TEST(reload_with_a_map_that_cannot_be_followed_changes_nothing)
{
	struct scene s;

	scene_init(&s, "max-qps = 7\n");
	s.registry.node_map = make_map(&s.registry);
	write_file(&s, "max-qps = 8\ngpu-nic-map = 0:mlx5_0:1\n");
	ASSERT_ERR(reload(&s), EINVAL);
	ASSERT_EQ(s.settings.max_qps, 7);
	ASSERT_STREQ(s.settings.gpu_nic_map, "");
	ASSERT(strstr(s.error.text, "mlx5_0:1 cannot be used: the daemon does not drive it; valid NICs: none"));
	write_file(&s, "max-qps = 8\nnics-include = mlx5_0:1:1\n");
	ASSERT_ERR(reload(&s), EINVAL);
	ASSERT(is_logged(&s, ":2: nics-include: \"mlx5_0:1:1\" is not of the form NIC[:PORT]"));
	write_file(&s, "max-qps = 8\nnics-exclude = mlx5_0:1\n");
	ASSERT_OK(reload(&s));
	ASSERT(is_logged(&s, "changed: max-qps, nics-exclude\n"));
	node_map_free(s.registry.node_map);
	scene_deinit(&s);
}

/* To refuse the start would end the sessions that it took over. */
TEST(a_start_with_sessions_follows_the_map_as_far_as_it_can)
{
	struct settings settings;
	struct registry registry = {0};
	struct node_map *map = make_map(&registry);

	settings_init(&settings);
	ASSERT_OK(settings_apply_policy(&settings, map, false));
	snprintf(settings.gpu_nic_map, sizeof(settings.gpu_nic_map), "0:mlx5_0:1");
	snprintf(settings.nics_exclude, sizeof(settings.nics_exclude), "apart");
	ASSERT_ERR(settings_apply_policy(&settings, map, false), EINVAL);
	ASSERT(node_map_allows(map, &(struct registry_nic){.index = 1, .info = {.name = "apart"}}));
	ASSERT_OK(settings_apply_policy(&settings, map, true));
	ASSERT(!node_map_allows(map, &(struct registry_nic){.index = 1, .info = {.name = "apart"}}));
	node_map_free(map);
}

/* At a boot links may come up after the daemon. The administrator who asked for a reload can ask again. */
TEST(a_start_does_not_wait_for_a_port_of_the_map)
{
	struct settings settings;
	struct registry registry = {.n_nics = 1};
	struct node_map *map;

	registry.nics[0].info = (struct nic_info){.name = "mlx5_0", .port = 1, .pci = "0000:02:00.0", .state = NIC_PORT_DOWN};
	map = make_map(&registry);
	settings_init(&settings);
	snprintf(settings.gpu_nic_map, sizeof(settings.gpu_nic_map), "0:mlx5_0:1");
	ASSERT_OK(settings_apply_policy(&settings, map, false));
	snprintf(settings.gpu_nic_map, sizeof(settings.gpu_nic_map), "0:mlx5_0:1,1:mlx5_0:1");
	ASSERT_ERR(settings_apply_policy(&settings, map, false), EINVAL);
	node_map_free(map);
}

static int set_with_sessions(struct scene *s, struct node_map *map)
{
	int saved = dup(STDERR_FILENO), r;

	ASSERT_OK(ftruncate(s->log, 0));
	dup2(s->log, STDERR_FILENO);
	r = settings_apply_policy(&s->settings, map, true);
	dup2(saved, STDERR_FILENO);
	close(saved);
	return r;
}

TEST(a_start_with_sessions_says_how_far_the_map_is_followed)
{
	struct node_map *map;
	struct scene s;

	scene_init(&s, "gpu-nic-map = 0:mlx5_0:1\n");
	map = make_map(&s.registry);
	ASSERT_OK(set_with_sessions(&s, map));
	ASSERT(is_logged(&s, "the daemon does not drive it; valid NICs: none; shmemd applies the rest of it, to keep the sessions that it took over"));
	/* A machine that cannot be read. */
	ASSERT_OK(set_with_sessions(&s, NULL));
	ASSERT(is_logged(&s, "; shmemd ignores it, and starts to keep the sessions that it took over"));
	ASSERT(!is_logged(&s, "as far as it can be"));
	node_map_free(map);
	scene_deinit(&s);
}

/* The descriptors kept from connections are a share of the limit. */
TEST(descriptors_are_as_many_as_the_process_may_really_open)
{
	const struct rlimit few = {100, 200};
	const struct settings settings = {.max_fds = 10};

	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &few));
	limit_stays = true;
	ASSERT_EQ(settings_apply_fd_limit(&settings), 100);
	limit_stays = false;
	ASSERT_EQ(settings_apply_fd_limit(&settings), 200);
}
