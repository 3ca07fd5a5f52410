/* SPDX-License-Identifier: Apache-2.0 */
/* Daemons of whose process and clients a check easily tells something wrong. */
#include "tests/unit/topo/check-states.h"

#include <stdio.h>

#define STATE(name) static void name(struct check_tree *tree)
#define PUT(path, ...) sysfs_tree_put(&tree->machine.files, path, __VA_ARGS__)
#define REMOVE(path) sysfs_tree_remove(&tree->machine.files, path)
#define LOCK(path) check_tree_lock(tree, path)

/* ---- whose process it is */

/* The daemon's number is of its own pid namespace: here another process has it, or none. */
STATE(process_other)
{
	check_tree_process(tree, "systemd", 1017);
}

STATE(process_gone)
{
	REMOVE("proc/17");
}

/* In a namespace below this one it has another number, and would say that. */
STATE(process_of_namespace)
{
	PUT("proc/17/status", "Name:\tshmemd\nNSpid:\t17\t1\nCapEff:\t%016x\n", 0);
}

STATE(process_known_to_others)
{
	PUT("proc/17/status", "Name:\tshmemd\nNSpid:\t4711\t17\nCapEff:\t%016x\n", 0);
}

STATE(process_without_namespaces)
{
	PUT("proc/17/status", "Name:\tshmemd\nCapEff:\t%016x\n", 0);
}

/* Another daemon's: of the host, while one in a container is asked. */
STATE(process_older)
{
	check_tree_process(tree, "shmemd", 700);
}

STATE(process_younger)
{
	check_tree_process(tree, "shmemd", 1021);
}

STATE(process_slow_to_start)
{
	check_tree_process(tree, "shmemd", 730);
}

/* The machine slept for an hour since. */
STATE(process_slept)
{
	check_tree_process(tree, "shmemd", 3000);
	tree->daemon.started_max_nsec += UINT64_C(3600000000000);
}

STATE(process_locked)
{
	LOCK("proc/17/comm");
}

STATE(process_untold)
{
	PUT("proc/17/stat", "17 (shmemd) S 1 17\n");
}

/* ---- its clients */

STATE(sessions_of_others)
{
	tree->daemon.n_unseen = 3;
}

STATE(sessions_of_others_alone)
{
	sessions_of_others(tree);
	tree->daemon.n_sessions = 0;
}

STATE(sessions_lack)
{
	tree->daemon.n_sessions = 0;
}

/* Nothing better is there, so nothing is explained. */
STATE(session_on_best_cpu)
{
	snprintf(tree->session.doorbell, sizeof(tree->session.doorbell), "uar-mmap,cpu");
}

static const struct check_session two_on_cpu[] = {
	{.session = 1,
	 .pid = 99,
	 .command = "train",
	 .doorbell = "cpu,cpu",
	 .reason = "mlx5_0 and 1 more: client: no"},
	{.session = 2, .pid = 100, .command = "infer", .doorbell = "cpu"},
};

STATE(sessions_on_cpu)
{
	tree->daemon.sessions = two_on_cpu;
	tree->daemon.n_sessions = 2;
}

/* ---- threads of the daemon */

#define LONG_NIC "rocep132s0f0"

static void put_long_name(struct check_tree *tree)
{
	sysfs_tree_remove(&tree->machine.files, "sys/class/infiniband/mlx5_1");
	machine_tree_nic(&tree->machine,
			 &(struct machine_nic){.path = CHECK_NIC1, .name = LONG_NIC, .gbps = 400});
}

STATE(thread_of_long_name_far)
{
	put_long_name(tree);
	check_tree_thread(tree, 18, "bell-rocep132s0", 3);
}

STATE(thread_of_long_name_near)
{
	put_long_name(tree);
	check_tree_thread(tree, 18, "bell-rocep132s0", 4);
}

STATE(thread_of_second_port_far)
{
	check_tree_thread(tree, 18, "bell-mlx5_1:2", 3);
}

/* As far as the files say, either node has a NIC of that name. */
STATE(thread_of_one_of_two)
{
	put_long_name(tree);
	sysfs_tree_remove(&tree->machine.files, "sys/class/infiniband/mlx5_0");
	machine_tree_nic(
		&tree->machine,
		&(struct machine_nic){.path = CHECK_NIC0, .name = "rocep132s0f1", .gbps = 400});
	check_tree_thread(tree, 18, "bell-rocep132s0", 3);
}

const struct check_verdict check_verdicts_daemon[] = {
	{"memory-lock", process_other, CHECK_WARN,
	 "not known: the daemon is in another pid namespace: process 17, as it calls itself, is "
	 "another one here",
	 "nsenter -t PID"},
	{"threads", process_other, CHECK_WARN, "not known: the daemon is in another pid namespace"},
	{"memory-lock", process_gone, CHECK_WARN,
	 "process 17, as it calls itself, is nobody, or hidden here"},
	{"threads", process_gone, CHECK_WARN, "not known: the daemon is in another pid namespace"},
	{"memory-lock", process_of_namespace, CHECK_WARN,
	 "not known: the daemon is in another pid namespace"},
	{"memory-lock", process_known_to_others, CHECK_OK, "the daemon may lock all memory"},
	{"memory-lock", process_without_namespaces, CHECK_OK, "the daemon may lock all memory"},
	{"memory-lock", process_older, CHECK_WARN,
	 "not known: the daemon is in another pid namespace"},
	{"memory-lock", process_younger, CHECK_WARN,
	 "not known: the daemon is in another pid namespace"},
	{"memory-lock", process_slow_to_start, CHECK_OK, "the daemon may lock all memory"},
	{"memory-lock", process_slept, CHECK_OK, "the daemon may lock all memory"},
	{"memory-lock", process_locked, CHECK_WARN, "not known: /proc/17/comm cannot be read"},
	{"threads", process_untold, CHECK_WARN, "not known: /proc/17/stat cannot be read"},
	{"doorbells", sessions_of_others, CHECK_WARN, "not known for 3 sessions of other users",
	 "as root or as the user of the daemon"},
	{"doorbells", sessions_of_others_alone, CHECK_WARN,
	 "not known for 3 sessions of other users"},
	{"doorbells", sessions_lack, CHECK_OK, "there are no sessions"},
	{"doorbells", session_on_best_cpu, CHECK_OK,
	 "1 of 1 session in mode cpu: the NIC offers nothing better"},
	{"doorbells", sessions_on_cpu, CHECK_WARN,
	 "session 1: train, pid 99, has doorbell mode cpu,cpu: mlx5_0 and 1 more: client: no"},
	{"threads", thread_of_long_name_far, CHECK_WARN,
	 "thread bell-rocep132s0: it ran on processor 3"},
	{"threads", thread_of_long_name_near, CHECK_OK, "on its NUMA node"},
	{"threads", thread_of_second_port_far, CHECK_WARN,
	 "thread bell-mlx5_1:2: it ran on processor 3"},
	{"threads", thread_of_one_of_two, CHECK_OK, "on its NUMA node"},
	{0},
};
