/* SPDX-License-Identifier: Apache-2.0 */
/* The watch of the machine, on a tree that the test changes. */
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/host/host.h"
#include "proto/base/nsec.h"
#include "tests/lib/machine-tree.h"
#include "tests/lib/sysfs-tree.h"
#include "tests/lib/test.h"

#define LIMIT_MSEC 15000

struct scene {
	struct sysfs_tree tree;
	struct host_watch *watch;
	struct host_list *list; /* the last one */
};

static void scene_init(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	sysfs_tree_init(&s->tree);
}

static void scene_watch(struct scene *s, const struct host_managed *driven, unsigned int n)
{
	const struct host_watch_attr attr = {
		.sysfs = s->tree.root, .scan_nsec = 5 * NSEC_PER_MSEC, .n_managed = n, .managed = driven};

	ASSERT_OK(host_watch_new(&attr, &s->watch));
}

static void scene_deinit(struct scene *s)
{
	host_watch_free(s->watch);
	free(s->list);
	sysfs_tree_deinit(&s->tree);
}

/* Skips reports until they show this: n NICs, and the first one's name, state and number of GIDs. */
static void wait_for(struct scene *s, unsigned int n, const char *first, enum host_state state, unsigned int n_gids)
{
	uint64_t end = nsec_now() + LIMIT_MSEC * NSEC_PER_MSEC;

	while (nsec_now() < end) {
		struct pollfd poll_fd = {.fd = host_watch_fd(s->watch), .events = POLLIN};
		struct host_news news;

		if (poll(&poll_fd, 1, LIMIT_MSEC) != 1)
			break;
		host_watch_take(s->watch, &news);
		ASSERT(!news.is_machine_changed);
		if (!news.list)
			continue;
		free(s->list);
		s->list = news.list;
		if (s->list->n == n && (!n || (strcmp(s->list->nics[0].name, first) == 0 && s->list->nics[0].state == state &&
					       s->list->nics[0].n_gids == n_gids)))
			return;
	}
	test_fail(TEST_WHERE, "not told of %u NICs with %s first", n, first);
}

TEST(devices_that_come_go_and_change_are_reported)
{
	struct scene s;
	uint64_t life;

	scene_init(&s);
	sysfs_tree_add_rxe(&s.tree, "rxe1", "veth1", 1);
	scene_watch(&s, NULL, 0);
	wait_for(&s, 1, "rxe1", HOST_STATE_ACTIVE, 2);
	life = s.list->nics[0].life;
	sysfs_tree_port(&s.tree, "rxe1", 1, false);
	wait_for(&s, 1, "rxe1", HOST_STATE_DOWN, 2);
	sysfs_tree_put(&s.tree, "class/infiniband/rxe1/ports/1/gids/5", "fd00:0000:0000:0000:0000:0000:0000:0005\n");
	wait_for(&s, 1, "rxe1", HOST_STATE_DOWN, 3);
	sysfs_tree_add_rxe(&s.tree, "rxe0", "veth0", 2);
	wait_for(&s, 2, "rxe0", HOST_STATE_ACTIVE, 2);
	ASSERT_EQ(s.list->nics[1].life, life);
	sysfs_tree_delete(&s.tree, "rxe0");
	wait_for(&s, 1, "rxe1", HOST_STATE_DOWN, 3);
	/* The tree keeps the former one, so that it is another. */
	sysfs_tree_delete(&s.tree, "rxe1");
	sysfs_tree_add_rxe(&s.tree, "rxe1", "veth1", 1);
	wait_for(&s, 1, "rxe1", HOST_STATE_ACTIVE, 2);
	ASSERT_NE(s.list->nics[0].life, life);
	sysfs_tree_delete(&s.tree, "rxe1");
	wait_for(&s, 0, "", HOST_STATE_DOWN, 0);
	scene_deinit(&s);
}

/* By name; or, when it returned under another one, by what it is. */
TEST(managed_devices_are_not_listed_a_second_time)
{
	const struct host_managed driven[] = {{.name = "drv0", .port = 1},
					    {.name = "mlx5_0", .node_guid = 0x025056fffe000002, .port = 1},
					    {.name = "mlx5_1:2", .node_guid = 0x025056fffe000003, .port = 2}};
	struct scene s;

	scene_init(&s);
	sysfs_tree_add_rxe(&s.tree, "drv0", "veth0", 1);
	sysfs_tree_add_rxe(&s.tree, "roce1", "veth1", 2);
	sysfs_tree_add_rxe(&s.tree, "roce2", "veth2", 3);
	scene_watch(&s, driven, 3);
	/* The other port of the third is driven, not this one. */
	wait_for(&s, 1, "roce2", HOST_STATE_ACTIVE, 2);
	sysfs_tree_add_rxe(&s.tree, "zzz", "veth3", 4);
	wait_for(&s, 2, "roce2", HOST_STATE_ACTIVE, 2);
	ASSERT_STREQ(s.list->nics[1].name, "zzz");
	scene_deinit(&s);
}

/* Another device has the name of one that a backend had, by its GUID: it is seen. */
TEST(devices_that_a_backend_takes_later_leave_the_list)
{
	const struct host_managed driven[] = {{.name = "drv0", .node_guid = 7, .port = 1}};
	const struct host_managed later = {.name = "roce1", .node_guid = 0x025056fffe000002, .port = 1};
	struct scene s;

	scene_init(&s);
	sysfs_tree_add_rxe(&s.tree, "drv0", "veth0", 1);
	sysfs_tree_add_rxe(&s.tree, "roce1", "veth1", 2);
	scene_watch(&s, driven, 1);
	wait_for(&s, 2, "drv0", HOST_STATE_ACTIVE, 2);
	host_watch_manage(s.watch, &later);
	wait_for(&s, 1, "drv0", HOST_STATE_ACTIVE, 2);
	scene_deinit(&s);
}

/* No process can open these devices. */
TEST(mtu_is_what_the_interface_leaves_room_for)
{
	static const struct {
		unsigned int netdev, mtu;
	} cases[] = {{9000, 4096}, {4192, 4096}, {4191, 2048}, {1500, 1024}, {352, 256}, {351, 0}, {0, 0}};
	struct scene s;

	scene_init(&s);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		sysfs_tree_add_rxe(&s.tree, "shmemd-test0", "veth0", 1);
		sysfs_tree_put(&s.tree, "class/net/veth0/mtu", "%u\n", cases[i].netdev);
		scene_watch(&s, NULL, 0);
		wait_for(&s, 1, "shmemd-test0", HOST_STATE_ACTIVE, 2);
		ASSERT_EQ(s.list->nics[0].active_mtu_bytes, cases[i].mtu);
		s.watch = host_watch_free(s.watch);
		sysfs_tree_delete(&s.tree, "shmemd-test0");
	}
	scene_deinit(&s);
}

/* ---- changes of the machine ---------------------------------------------------------------------------------------- */

#define PCI_PATH "pci0000:00/0000:00:00.0"
#define LOOK_NSEC (5 * NSEC_PER_MSEC)

struct machine_scene {
	struct machine_tree tree;
	struct host_watch *watch;
};

static void machine_init(struct machine_scene *s, const char *file)
{
	struct host_watch_attr attr = {.file = file, .scan_nsec = UINT64_MAX, .machine_nsec = LOOK_NSEC};

	machine_tree_init(&s->tree, 1);
	attr.sysfs = s->tree.sys;
	attr.procfs = s->tree.proc;
	ASSERT_OK(host_watch_new(&attr, &s->watch));
}

static void machine_deinit(struct machine_scene *s)
{
	host_watch_free(s->watch);
	machine_tree_deinit(&s->tree);
}

/* Several reports are possible, since a device appears in steps. */
static void expect_change(struct machine_scene *s)
{
	struct pollfd poll_fd = {.fd = host_watch_fd(s->watch), .events = POLLIN};
	struct host_news news = {0};

	while (!news.is_machine_changed) {
		ASSERT_EQ(poll(&poll_fd, 1, LIMIT_MSEC), 1);
		host_watch_take(s->watch, &news);
		free(news.list);
	}
}

/* The watch has reported all earlier changes once a hundred looks find none. */
static void drain(struct machine_scene *s)
{
	struct pollfd poll_fd = {.fd = host_watch_fd(s->watch), .events = POLLIN};
	struct host_news news;

	while (poll(&poll_fd, 1, (int)(100 * LOOK_NSEC / NSEC_PER_MSEC)) == 1) {
		host_watch_take(s->watch, &news);
		free(news.list);
	}
}

/* Nothing is reported in twenty looks. */
static void expect_quiet(struct machine_scene *s)
{
	struct pollfd poll_fd = {.fd = host_watch_fd(s->watch), .events = POLLIN};

	ASSERT_EQ(poll(&poll_fd, 1, (int)(20 * LOOK_NSEC / NSEC_PER_MSEC)), 0);
}

TEST_WAITS(changes_of_the_machine_are_reported_and_states_of_ports_are_not, TEST_DEFAULT_TIMEOUT_SEC)
{
	struct machine_nic nic = {.path = PCI_PATH, .name = "mlx5_0", .gbps = 100};
	struct machine_scene s;

	machine_init(&s, NULL);
	drain(&s);
	machine_tree_pci(&s.tree, PCI_PATH, 0x020700, 0x15b3, 0);
	expect_change(&s);
	drain(&s);
	machine_tree_nic(&s.tree, &nic);
	expect_change(&s);
	drain(&s);
	sysfs_tree_put(&s.tree.files, "sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
	expect_quiet(&s);
	machine_tree_unplug(&s.tree, PCI_PATH, "mlx5_0");
	expect_change(&s);
	machine_deinit(&s);
}

TEST_WAITS(a_file_that_describes_the_machine_replaces_it, TEST_DEFAULT_TIMEOUT_SEC)
{
	char path[] = "/tmp/shmemd-watch-XXXXXX";
	int fd = mkstemp(path);
	struct machine_scene s;

	ASSERT_GE(fd, 0);
	machine_init(&s, path);
	ASSERT_EQ(write(fd, "changed", 7), 7);
	expect_change(&s);
	drain(&s);
	machine_tree_pci(&s.tree, PCI_PATH, 0x020700, 0x15b3, 0);
	expect_quiet(&s);
	ASSERT_OK(unlink(path));
	expect_change(&s);
	close(fd);
	machine_deinit(&s);
}

/* ---- a driver that hangs -------------------------------------------------------------------------------------------- */

static int is_hanging, n_hanging; /* atomic */

/* The C library's, for all of this program: while the driver hangs, nobody comes back who opens a port's state. */
int openat(int at, const char *path, int flags, ...)
{
	const char *name = strrchr(path, '/');
	bool is_state = strcmp(name ? name + 1 : path, "state") == 0;
	mode_t mode;
	va_list args;

	va_start(args, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
	va_end(args);
	__atomic_fetch_add(&n_hanging, is_state, __ATOMIC_SEQ_CST);
	while (is_state && __atomic_load_n(&is_hanging, __ATOMIC_SEQ_CST))
		usleep(1000);
	__atomic_fetch_sub(&n_hanging, is_state, __ATOMIC_SEQ_CST);
	return (int)syscall(SYS_openat, at, path, flags, mode);
}

static void await_hanging(int n)
{
	uint64_t end = nsec_now() + LIMIT_MSEC * NSEC_PER_MSEC;

	while (__atomic_load_n(&n_hanging, __ATOMIC_SEQ_CST) != n) {
		ASSERT_LT(nsec_now(), end);
		usleep(1000);
	}
}

static void await_closed(int fd)
{
	uint64_t end = nsec_now() + LIMIT_MSEC * NSEC_PER_MSEC;

	while (fcntl(fd, F_GETFD) >= 0) {
		ASSERT_LT(nsec_now(), end);
		usleep(1000);
	}
}

TEST_WAITS(a_driver_that_hangs_hides_no_change_of_the_machine, TEST_DEFAULT_TIMEOUT_SEC)
{
	struct machine_nic nic = {.path = PCI_PATH, .name = "mlx5_0", .gbps = 100};
	struct machine_scene s;
	int fd;

	machine_tree_init(&s.tree, 1);
	machine_tree_pci(&s.tree, PCI_PATH, 0x020700, 0x15b3, 0);
	machine_tree_nic(&s.tree, &nic);
	__atomic_store_n(&is_hanging, 1, __ATOMIC_SEQ_CST);
	ASSERT_OK(host_watch_new(&(struct host_watch_attr){.sysfs = s.tree.sys,
							   .procfs = s.tree.proc,
							   .scan_nsec = LOOK_NSEC,
							   .machine_nsec = LOOK_NSEC},
				 &s.watch));
	await_hanging(1);
	drain(&s);
	machine_tree_pci(&s.tree, "pci0000:00/0000:00:01.0", 0x020700, 0x15b3, 0);
	expect_change(&s);
	/* The thread that hangs is left behind, and frees the watch when it comes back. */
	fd = host_watch_fd(s.watch);
	s.watch = host_watch_free(s.watch);
	ASSERT_GE(fcntl(fd, F_GETFD), 0);
	__atomic_store_n(&is_hanging, 0, __ATOMIC_SEQ_CST);
	await_closed(fd);
	machine_deinit(&s);
}

/* ---- the end --------------------------------------------------------------------------------------------------------- */

TEST(a_watch_that_sleeps_ends_at_once)
{
	struct scene s;
	uint64_t began;

	scene_init(&s);
	sysfs_tree_add_rxe(&s.tree, "rxe0", "veth0", 1);
	ASSERT_OK(host_watch_new(&(struct host_watch_attr){.sysfs = s.tree.root, .scan_nsec = UINT64_MAX}, &s.watch));
	wait_for(&s, 1, "rxe0", HOST_STATE_ACTIVE, 2);
	began = nsec_now();
	s.watch = host_watch_free(s.watch);
	/* It would sleep for ever; host_watch_free() gives up after two seconds, and leaves a thread. */
	ASSERT(!s.watch);
	ASSERT_LT(nsec_now() - began, 15 * NSEC_PER_SEC);
	scene_deinit(&s);
}
