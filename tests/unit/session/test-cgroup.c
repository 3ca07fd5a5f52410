/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the tenant in paths as service managers, container engines and batch systems make them. */
#include <stdio.h>
#include <string.h>

#include "daemon/session/cgroup.h"
#include "daemon/session/quota.h"
#include "tests/lib/test.h"

/* This path and all below it are delegated; the rest is root's. */
static enum cgroup_owner owner(const void *arg, const char *path)
{
	const char *delegated = arg;
	size_t n = strlen(delegated);

	if (strcmp(delegated, "?") == 0)
		return CGROUP_OWNER_UNKNOWN;
	return n && strncmp(path, delegated, n) == 0 && (path[n] == '/' || !path[n]) ? CGROUP_OWNER_OTHER
										     : CGROUP_OWNER_ROOT;
}

static void expect(const char *path, const char *delegated, const char *tenant)
{
	char buf[256];

	cgroup_tenant(path, owner, delegated, buf, sizeof(buf));
	ASSERT_STREQ(buf, tenant);
}

/* A user may nest cgroups in its delegated one, and may have many logins. */
TEST(all_cgroups_of_a_user_are_one)
{
	const char *whose = "/user.slice/user-1000.slice/user@1000.service";

	expect("/user.slice/user-1000.slice/user@1000.service/app.slice/a.scope", whose, "/user.slice/user-1000.slice");
	expect("/user.slice/user-1000.slice/user@1000.service/app.slice/b.scope/deep/er", whose, "/user.slice/user-1000.slice");
	expect("/user.slice/user-1000.slice/session-3.scope", whose, "/user.slice/user-1000.slice");
	expect("/user.slice/user-1000.slice/session-4.scope", "?", "/user.slice/user-1000.slice");
}

TEST(containers_and_pods_are_tenants)
{
	expect("/system.slice/docker-0a1b.scope/user.slice/x", "", "/system.slice/docker-0a1b.scope");
	expect("/docker/0a1b/kubelet/kubepods/pod7", "/docker/0a1b", "/docker/0a1b");
	expect("/machine.slice/libpod-9f.scope/container", "", "/machine.slice/libpod-9f.scope");
	expect("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b4e.slice/cri-containerd-7.scope", "",
	       "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b4e.slice");
	expect("/kubepods/besteffort/pod1b4e/77", "", "/kubepods/besteffort/pod1b4e");
	expect("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod5.slice/cri-o-1.scope", "",
	       "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod5.slice");
}

TEST(units_and_jobs_are_tenants)
{
	expect("/system.slice/mpi.service/worker-3", "", "/system.slice/mpi.service");
	expect("/a.slice/a-b.slice/run-7.scope", "", "/a.slice/a-b.slice/run-7.scope");
	expect("/system.slice/slurmstepd.scope/job_12/step_0/user/task_0", "/system.slice/slurmstepd.scope/job_12",
	       "/system.slice/slurmstepd.scope/job_12");
	expect("/system.slice/slurmstepd.scope/job_12/step_0", "?", "/system.slice/slurmstepd.scope/job_12");
	expect("/system.slice/k3s.service", "", "/system.slice/k3s.service");
	expect("/pbs_jobs.service/jobid/7.head", "", "/pbs_jobs.service/jobid/7.head");
}

/* By accident, one tenant's quota for the whole node. */
TEST(cgroup_that_tenants_share_belongs_to_none_of_them)
{
	expect("/user.slice/user-1.slice", "", "/user.slice/user-1.slice");
	expect("/user.slice/user-x.slice/a.scope", "", "/user.slice/user-x.slice/a.scope");
	expect("/system.slice/system-podman.slice/podman@7.service", "", "/system.slice/system-podman.slice/podman@7.service");
	expect("/batch/alice/1", "", "/batch/alice/1");
	expect("/batch/bob/1", "", "/batch/bob/1");
	expect("/", "", "/");
	expect("", "", "");
}

/* In a tree that is root's, others make no cgroups; what cannot be looked at may be delegated. */
TEST(delegation_counts_if_names_say_nothing)
{
	expect("/box/a", "/box", "/box");
	expect("/box/b/c//d/", "/box", "/box");
	expect("/batch/alice/1/2", "/batch/alice", "/batch/alice");
	expect("/batch/alice/1/2", "?", "/batch");
	expect("/tenants.slice/x/y", "/tenants.slice", "/tenants.slice");
	expect("/../../user.slice/user-7.slice/a", "?", "/../../user.slice/user-7.slice");
	expect("/../other/a", "?", "/../other");
}

/* No owner function: the owners of this machine's cgroups decide. */
TEST(this_machine_is_looked_at)
{
	char buf[256];

	cgroup_tenant("/", NULL, NULL, buf, sizeof(buf));
	ASSERT_STREQ(buf, "/");
	cgroup_tenant("/user.slice/user-1000.slice/session-1.scope", NULL, NULL, buf, sizeof(buf));
	ASSERT_STREQ(buf, "/user.slice/user-1000.slice");
	cgroup_tenant("/nobody-has-this/a/b", NULL, NULL, buf, sizeof(buf));
	ASSERT_STREQ(buf, "/nobody-has-this");
	/* Not the folders beside cgroupfs. */
	cgroup_tenant("/../bpf/a", NULL, NULL, buf, sizeof(buf));
	ASSERT_STREQ(buf, "/../bpf");
}

/* The kernel bounds a path to 4096 bytes, and a name to 255. */
TEST(long_paths_are_cut_and_nested_ones_are_bounded)
{
	char path[4200] = "/box", buf[256];

	while (strlen(path) < 4100)
		strcat(path, "/a");
	expect(path, "/box", "/box");
	cgroup_tenant(path, owner, "", buf, sizeof(buf));
	ASSERT_EQ(strlen(buf), sizeof(buf) - 1);
}

/* The attack: cgroups nested in one that is delegated, each with a subordinate uid of its own. */
TEST(nested_cgroups_with_subordinate_uids_share_one_quota)
{
	const struct quota_amount limits = {.n = {[QUOTA_SESSIONS] = 4}}, one = {.n = {[QUOTA_SESSIONS] = 1}};
	struct quota_charge charges[6] = {{0}};
	struct quota_user users[6];
	struct quota quota;
	unsigned int n_in = 0;

	quota_init(&quota, &limits);
	for (unsigned int i = 0; i < 6; i++) {
		char path[128], tenant[128];

		snprintf(path, sizeof(path), "/user.slice/user-1000.slice/user@1000.service/user.slice/c%u/nested%u", i, i);
		cgroup_tenant(path, owner, "/user.slice/user-1000.slice/user@1000.service", tenant, sizeof(tenant));
		ASSERT_OK(quota_user_init(&users[i], &quota, 100000 + i, tenant));
		n_in += quota_charge(&users[i], &one, &charges[i]) == 0;
	}
	ASSERT_EQ(n_in, 4);
	for (unsigned int i = 0; i < 6; i++) {
		quota_charge_deinit(&charges[i]);
		quota_user_deinit(&users[i]);
	}
	quota_deinit(&quota);
}
