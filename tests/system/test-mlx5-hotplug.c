/* SPDX-License-Identifier: Apache-2.0 */
/* ConnectX NICs that come while the daemon runs. On simulated ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <shmd/abi/cqe.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/machine-tree.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/sim-nic.h"
#include "tests/lib/test.h"
#include "tests/system/ctl-lab.h"
#include "tests/system/raw-traffic.h"

#define LIMIT_NSEC (20 * NSEC_PER_SEC)
#define GPU_PATH "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:10:00.0"
#define NEAR_PATH "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:20:00.0"
#define FAR_PATH "pci0000:80/0000:80:01.0/0000:81:00.0"

/* A machine with a GPU and one NIC far from it; another one is about to come. */
struct scene {
	struct machine_tree tree;
	struct fixture_daemon daemon;
	char near_guid[32];
	int monitor;
	pid_t ctl;
};

/* That of the simulated device, once it is listed. */
static void read_guid(const char *name, char guid[32])
{
	uint64_t end = nsec_now() + LIMIT_NSEC;
	char file[64], path[256];
	FILE *in;

	snprintf(file, sizeof(file), "sys/class/infiniband/%s/node_guid", name);
	while (!(in = fopen(sim_nic_path(path, file), "re")) && nsec_now() < end)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	ASSERT(in);
	ASSERT_EQ(fscanf(in, "%31s", guid), 1);
	fclose(in);
}

static void plug(struct scene *s, const char *path, const char *name, const char *guid)
{
	const struct machine_nic nic = {.path = path, .name = name, .guid = guid, .gbps = 100};
	char link[192];

	machine_tree_pci(&s->tree, path, 0x020700, 0x15b3, 0);
	snprintf(link, sizeof(link), "sys/devices/%s/driver", path);
	sysfs_tree_link(&s->tree.files, link, "../../../../bus/pci/drivers/mlx5_core");
	machine_tree_nic(&s->tree, &nic);
}

static void plug_near(struct scene *s)
{
	plug(s, NEAR_PATH, "mlx5_1", s->near_guid);
}

/* It is not listed from some moment on, and a moment later it cannot be opened: a daemon that starts then knows nothing of it. */
static void lose_near(void)
{
	uint64_t end = nsec_now() + LIMIT_NSEC;
	char path[256];

	sim_nic_happen("fatal 1");
	sim_nic_path(path, "sys/class/infiniband/mlx5_1");
	while (access(path, F_OK) == 0 && nsec_now() < end)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	ASSERT_NE(access(path, F_OK), 0);
}

static void init_machine(struct scene *s)
{
	char far_guid[32];

	read_guid("mlx5_0", far_guid);
	read_guid("mlx5_1", s->near_guid);
	lose_near();
	machine_tree_init(&s->tree, 2);
	machine_tree_pci(&s->tree, GPU_PATH, 0x030200, 0x10de, 0);
	plug(s, FAR_PATH, "mlx5_0", far_guid);
	setenv("SHMEMD_SYSFS", s->tree.sys, 1);
}

static void init_scene(struct scene *s, const char *option)
{
	init_machine(s);
	fixture_daemon_start(&s->daemon, "--backend=mlx5", option, NULL);
	setenv("SHMEMD_SOCKET", s->daemon.socket, 1);
	ASSERT_EQ(CTL("--json", "list", "nics"), 0);
	ctl_assert_lacks("mlx5_1");
	s->ctl = ctl_start((const char *const[]){"monitor", "--kind", "port-state,nic-lost", NULL}, &s->monitor);
	do {
		ASSERT_EQ(CTL("--json", "status"), 0);
	} while (!strstr(ctl_text, "\"n_monitors\":1"));
	ctl_text[0] = 0;
}

static void deinit_scene(struct scene *s)
{
	fixture_daemon_stop(&s->daemon);
	ctl_end(s->ctl, s->monitor);
	machine_tree_deinit(&s->tree);
}

static void wait_for_words(const char *const *command, const char *words)
{
	uint64_t end = nsec_now() + LIMIT_NSEC;

	do {
		ctl_run(command);
		if (strstr(ctl_text, words))
			return;
		nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	} while (nsec_now() < end);
	test_fail(TEST_WHERE, "no %s in: %s", words, ctl_text);
}

static void wait_for_list(const char *words)
{
	wait_for_words((const char *const[]){"--json", "list", "nics", NULL}, words);
}

/* Until this is the NIC of a new session for the GPU. */
static void wait_for_gpu(struct scene *s, const char *nic)
{
	uint64_t end = nsec_now() + LIMIT_NSEC;
	struct raw_client raw;
	struct msg req, rep;

	do {
		raw_connect(&raw, s->daemon.socket);
		raw_hello(&raw, MSG_ROLE_CLIENT);
		msg_init(&req, MSG_NIC_OPEN_REQ, 0);
		snprintf(req.nic_open_req.gpu, sizeof(req.nic_open_req.gpu), "0000:10:00.0");
		raw_expect(&raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
		raw_close(&raw);
	} while (strcmp(rep.nic_open_rep.info.name, nic) && nsec_now() < end);
	ASSERT_STREQ(rep.nic_open_rep.info.name, nic);
}

static void write_verified(struct raw_traffic *t, uint8_t seed, unsigned int n)
{
	memset(t->heap, seed, 4096);
	memset(t->heap + 65536, 0, 4096);
	for (unsigned int i = 0; i < n; i++)
		raw_traffic_write(t, 65536 + i * 128, i * 128, 128);
	for (unsigned int i = 0; i < n; i++)
		ASSERT_EQ(raw_traffic_poll(t), (unsigned int)SHMD_CQE_REQ);
	ASSERT_MEMEQ(t->heap, t->heap + 65536, n * 128u);
}

/* A session of before, on the NIC that was there, works all the while. */
TEST_TIMEOUT(nic_that_comes_is_opened_mapped_and_used_without_a_restart, 120)
{
	const struct raw_traffic_attr on_nic_opened = {.nic = "mlx5_1"};
	struct raw_traffic before, after;
	struct scene s;

	init_scene(&s, NULL);
	wait_for_gpu(&s, "mlx5_0");
	raw_traffic_init(&before, s.daemon.socket);
	write_verified(&before, 1, 8);
	sim_nic_happen("return 1");
	plug_near(&s);
	ctl_wait_for(s.monitor, "mlx5_1 is active: it came");
	fixture_daemon_assert_logged(&s.daemon, "NIC mlx5_1 came, its port is up: sessions may open it");
	wait_for_list("\"undriven\":[]");
	ASSERT_HAS("\"mlx5_0\"", "\"mlx5_1\"");
	wait_for_gpu(&s, "mlx5_1");
	raw_traffic_init_with(&after, s.daemon.socket, &on_nic_opened);
	write_verified(&after, 2, 8);
	write_verified(&before, 3, 8);
	CTL("doctor");
	ASSERT_HAS("OK    driven ");
	raw_traffic_deinit(&after);
	/* From now on it is a NIC as any other. */
	sim_nic_happen("fatal 1");
	ctl_wait_for(s.monitor, "mlx5_1 is gone");
	sim_nic_happen("return 1");
	ctl_wait_for(s.monitor, "mlx5_1 is back");
	raw_traffic_init_with(&after, s.daemon.socket, &on_nic_opened);
	write_verified(&after, 4, 8);
	write_verified(&before, 5, 8);
	raw_traffic_deinit(&after);
	raw_traffic_deinit(&before);
	deinit_scene(&s);
}

/* As of a device whose node or whose rights come later. */
TEST_TIMEOUT(nic_that_cannot_be_opened_at_first_is_opened_when_it_can, 120)
{
	char sock[256], away[256];
	struct scene s;

	init_scene(&s, NULL);
	ASSERT_OK(rename(sim_nic_path(sock, "nic1.sock"), sim_nic_path(away, "away.sock")));
	sim_nic_happen("return 1");
	plug_near(&s);
	fixture_daemon_assert_logged(&s.daemon, "cannot use these NICs: mlx5_1: ");
	wait_for_list("it is new, or the log says why it cannot be used");
	CTL("doctor");
	ASSERT_HAS("WARN  driven         mlx5_1: ");
	ASSERT_OK(rename(away, sock));
	ctl_wait_for(s.monitor, "mlx5_1 is active: it came");
	wait_for_list("\"undriven\":[]");
	deinit_scene(&s);
}

static void init_scene_with(struct scene *s, char conf[80], const char *settings)
{
	char option[96];
	FILE *out;

	test_make_file(conf, 80, "shmemd-hotplug");
	out = fopen(conf, "we");
	ASSERT(out);
	fputs(settings, out);
	ASSERT_OK(fclose(out));
	snprintf(option, sizeof(option), "--config=%s", conf);
	init_scene(s, option);
}

/* By its address, which only the map knows; a session that names no GPU would take it, which has none yet, before all others. */
TEST_TIMEOUT(nic_that_comes_and_is_excluded_is_assigned_to_no_session, 120)
{
	struct raw_client raw;
	struct msg req, rep;
	char conf[80];
	struct scene s;

	init_scene_with(&s, conf, "nics-exclude = 0000:20:00.0\n");
	sim_nic_happen("return 1");
	plug_near(&s);
	do {
		raw_connect(&raw, s.daemon.socket);
		raw_hello(&raw, MSG_ROLE_CLIENT);
		msg_init(&req, MSG_NIC_OPEN_REQ, 0);
		raw_expect(&raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
		ASSERT_STREQ(rep.nic_open_rep.info.name, "mlx5_0");
		raw_close(&raw);
		ASSERT_EQ(CTL("--json", "list", "nics"), 0);
	} while (!strstr(ctl_text, "\"undriven\":[]"));
	fixture_daemon_assert_logged(&s.daemon, "NIC mlx5_1 came, its port is up: it is set aside");
	wait_for_gpu(&s, "mlx5_0");
	deinit_scene(&s);
	unlink(conf);
}

TEST_TIMEOUT(nic_that_comes_gets_its_contexts_in_advance, 120)
{
	char conf[80];
	struct scene s;

	init_scene_with(&s, conf, "warm-contexts = 1\nwarm-depth = 64\n");
	sim_nic_happen("return 1");
	plug_near(&s);
	ctl_wait_for(s.monitor, "mlx5_1 is active: it came");
	wait_for_words((const char *const[]){"status", NULL}, "mlx5_1      1 of 1");
	deinit_scene(&s);
	unlink(conf);
}
