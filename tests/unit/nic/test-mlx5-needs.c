/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of hosts and NICs that the test machine lacks, and the verdicts on them. */
#include <errno.h>
#include <linux/capability.h>
#include <string.h>

#include "daemon/nic/mlx5/mlx5-needs.h"
#include "tests/lib/test.h"

#define MAX_NEEDS 32

struct needs {
	unsigned int n;
	struct nic_need all[MAX_NEEDS];
};

static void collect(void *arg, const struct nic_need *need)
{
	struct needs *needs = arg;

	ASSERT_LT(needs->n, MAX_NEEDS);
	needs->all[needs->n++] = *need;
}

static const struct nic_need *find(const struct needs *needs, const char *name)
{
	for (unsigned int i = 0; i < needs->n; i++)
		if (strcmp(needs->all[i].name, name) == 0)
			return &needs->all[i];
	test_fail(TEST_WHERE, "nothing is said of %s", name);
	return NULL;
}

static void expect(const struct needs *needs, const char *name, enum nic_need_state state, const char *words)
{
	const struct nic_need *need = find(needs, name);

	ASSERT_EQ(need->state, state);
	if (!strstr(need->reason, words))
		test_fail(TEST_WHERE, "%s: \"%s\" lacks \"%s\"", name, need->reason, words);
}

/* Each failed requirement names the fix, and no text is cut. */
static void expect_sentences(const struct needs *needs)
{
	for (unsigned int i = 0; i < needs->n; i++) {
		const struct nic_need *need = &needs->all[i];

		ASSERT(need->reason[0]);
		ASSERT_LT(strlen(need->reason), sizeof(need->reason) - 1);
		ASSERT_LT(strlen(need->fix), sizeof(need->fix) - 1);
		ASSERT(need->state != NIC_NEED_OK || !need->fix[0]);
		ASSERT(need->state != NIC_NEED_WARN || need->fix[0]);
	}
}

static const struct mlx5_host_facts good_host = {
	.has_verbs = true, .n_devices = 8, .memory_lock_bytes = UINT64_MAX, .exports = true};
static const struct mlx5_device_facts good_device = {
	.name = "mlx5_0", .dmabuf_error = -EBADF,
	.caps = {.log_max_qp = 18, .log_max_qp_sz = 15, .log_max_cq = 24, .log_max_cq_sz = 22, .log_max_mkey = 24,
		 .num_ports = 1, .rc = true, .dct = true, .atomic_mode = PRM_ATOMIC_UP_TO_8B}};
static const struct mlx5_port_facts good_port = {
	.name = "mlx5_0", .link = NIC_LINK_ETHERNET, .state = NIC_PORT_ACTIVE, .gid = {[10] = 0xff, 0xff, 192, 0, 2, 1}};

static void judge_host(struct needs *needs, const struct mlx5_host_facts *facts)
{
	needs->n = 0;
	mlx5_needs_of_host(facts, collect, needs);
	expect_sentences(needs);
}

static void judge_device(struct needs *needs, const struct mlx5_device_facts *facts)
{
	needs->n = 0;
	mlx5_needs_of_device(facts, collect, needs);
	expect_sentences(needs);
	for (unsigned int i = 0; i < needs->n; i++)
		ASSERT_STREQ(needs->all[i].nic, facts->name);
}

static void judge_port(struct needs *needs, const struct mlx5_port_facts *facts)
{
	needs->n = 0;
	mlx5_needs_of_port(facts, collect, needs);
	expect_sentences(needs);
}

TEST(host_and_nic_with_all_that_is_needed_are_ok)
{
	static struct needs needs;

	mlx5_needs_of_host(&good_host, collect, &needs);
	mlx5_needs_of_device(&good_device, collect, &needs);
	mlx5_needs_of_port(&good_port, collect, &needs);
	ASSERT_EQ(needs.n, 15);
	for (unsigned int i = 0; i < needs.n; i++)
		ASSERT_EQ(needs.all[i].state, NIC_NEED_OK);
	expect(&needs, "devices", NIC_NEED_OK, "8 ConnectX devices");
	expect(&needs, "rdma-core", NIC_NEED_OK, "exports its objects");
	expect(&needs, "limits", NIC_NEED_OK, "2^18 QPs of 2^15 WQEBBs");
	expect(&needs, "gid", NIC_NEED_OK, "::ffff:192.0.2.1, RoCE v2");
	expect_sentences(&needs);
}

TEST(host_says_why_there_is_no_device)
{
	struct mlx5_host_facts facts = good_host;
	static struct needs needs;

	facts.n_devices = 0;
	judge_host(&needs, &facts);
	expect(&needs, "devices", NIC_NEED_FAIL, "lists no ConnectX device");
	facts.list_error = -ENOSYS;
	judge_host(&needs, &facts);
	expect(&needs, "devices", NIC_NEED_FAIL, "cannot list devices: Function not implemented");
	facts.has_verbs = false;
	judge_host(&needs, &facts);
	expect(&needs, "devices", NIC_NEED_FAIL, "/sys/class/infiniband_verbs");
	facts.exports = false;
	judge_host(&needs, &facts);
	expect(&needs, "rdma-core", NIC_NEED_OK, "calls of its own");
}

TEST(locked_memory_is_bounded_but_for_those_who_may)
{
	struct mlx5_host_facts facts = good_host;
	static struct needs needs;

	facts.memory_lock_bytes = 8u << 20;
	judge_host(&needs, &facts);
	expect(&needs, "memory-lock", NIC_NEED_WARN, "8192 KiB");
	facts.capabilities = 1ull << CAP_IPC_LOCK;
	judge_host(&needs, &facts);
	expect(&needs, "memory-lock", NIC_NEED_OK, "all memory");
	facts.capabilities_error = -EPERM;
	judge_host(&needs, &facts);
	expect(&needs, "memory-lock", NIC_NEED_WARN, "8192 KiB");
	expect(&needs, "capabilities", NIC_NEED_UNKNOWN, "Operation not permitted");
	facts.memory_lock_error = -EINVAL;
	judge_host(&needs, &facts);
	expect(&needs, "memory-lock", NIC_NEED_UNKNOWN, "Invalid argument");
}

TEST(capabilities_that_stick_are_named)
{
	struct mlx5_host_facts facts = good_host;
	static struct needs needs;

	judge_host(&needs, &facts);
	expect(&needs, "capabilities", NIC_NEED_OK, "none that sticks");
	facts.capabilities = 1ull << CAP_NET_RAW;
	judge_host(&needs, &facts);
	expect(&needs, "capabilities", NIC_NEED_OK, "CAP_NET_RAW is laid down");
	facts.capabilities |= 1ull << CAP_SYS_RAWIO;
	judge_host(&needs, &facts);
	expect(&needs, "capabilities", NIC_NEED_OK, "CAP_NET_RAW and CAP_SYS_RAWIO are laid down");
}

TEST(nodes_that_are_not_there_or_closed_are_named)
{
	static struct needs needs;

	mlx5_need_of_node("/dev/infiniband/uverbs7", -ENOENT, collect, &needs);
	expect(&needs, "command-descriptor", NIC_NEED_FAIL, "/dev/infiniband/uverbs7: No such file");
	ASSERT(strstr(needs.all[0].fix, "mount /dev/infiniband"));
	needs.n = 0;
	mlx5_need_of_node("/dev/infiniband/uverbs7", -EACCES, collect, &needs);
	expect(&needs, "command-descriptor", NIC_NEED_FAIL, "uverbs7: Permission denied");
	ASSERT(strstr(needs.all[0].fix, "udev"));
}

/* A fact that could not be read counts neither as good nor as bad. */
TEST(device_that_cannot_be_opened_leaves_the_rest_unknown)
{
	static const char *const rest[] = {"doorbell-page", "dmabuf", "peermem", "rc", "dc", "atomics", "limits"};
	static const struct {
		int error;
		enum nic_need_state node, devx;
		const char *words;
	} cases[] = {
		{-EACCES, NIC_NEED_FAIL, NIC_NEED_UNKNOWN, "may not be opened: Permission denied"},
		{-ENODEV, NIC_NEED_FAIL, NIC_NEED_UNKNOWN, "lost"},
		{-ENOMEM, NIC_NEED_FAIL, NIC_NEED_UNKNOWN, "Cannot allocate memory"},
		{-EOPNOTSUPP, NIC_NEED_OK, NIC_NEED_FAIL, "can be opened"},
	};
	static struct needs needs;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mlx5_device_facts facts = {.name = "mlx5_3", .open_error = cases[i].error, .caps_error = cases[i].error};

		judge_device(&needs, &facts);
		expect(&needs, "command-descriptor", cases[i].node, cases[i].words);
		ASSERT_EQ(find(&needs, "devx")->state, cases[i].devx);
		for (size_t k = 0; k < sizeof(rest) / sizeof(rest[0]); k++)
			ASSERT_EQ(find(&needs, rest[k])->state, NIC_NEED_UNKNOWN);
	}
}

/* The fall back of dmabuf is missed only where that is missing. */
TEST(peer_memory_module_is_named_and_missed_without_dmabuf_alone)
{
	struct mlx5_device_facts facts = good_device;
	static struct needs needs;

	judge_device(&needs, &facts);
	expect(&needs, "peermem", NIC_NEED_OK, "no peer memory module is loaded");
	facts.peer_module = "nv_peer_mem";
	judge_device(&needs, &facts);
	expect(&needs, "peermem", NIC_NEED_OK, "nv_peer_mem is loaded");
	facts.dmabuf_error = -EOPNOTSUPP;
	judge_device(&needs, &facts);
	expect(&needs, "peermem", NIC_NEED_OK, "nv_peer_mem is loaded");
}

TEST(device_says_what_it_lacks)
{
	struct mlx5_device_facts facts = good_device;
	static struct needs needs;

	facts.uar_error = -EOPNOTSUPP;
	facts.dmabuf_error = -EOPNOTSUPP;
	facts.caps.rc = facts.caps.dct = false;
	facts.caps.atomic_mode = PRM_ATOMIC_NONE;
	facts.caps.log_max_qp = 9;
	judge_device(&needs, &facts);
	expect(&needs, "doorbell-page", NIC_NEED_FAIL, "Operation not supported");
	expect(&needs, "dmabuf", NIC_NEED_WARN, "host memory");
	expect(&needs, "peermem", NIC_NEED_WARN, "neither dmabuf nor a peer memory module");
	expect(&needs, "rc", NIC_NEED_FAIL, "no reliable connections");
	expect(&needs, "dc", NIC_NEED_WARN, "a QP for each peer");
	expect(&needs, "atomics", NIC_NEED_WARN, "none");
	expect(&needs, "limits", NIC_NEED_WARN, "512 QPs");
	facts.uar_error = -ENOSPC;
	facts.caps.atomic_mode = PRM_ATOMIC_IB_SPEC;
	facts.caps_error = 0;
	judge_device(&needs, &facts);
	expect(&needs, "doorbell-page", NIC_NEED_FAIL, "No space left");
	expect(&needs, "atomics", NIC_NEED_WARN, "of 8 bytes");
	facts.caps_error = -EIO;
	judge_device(&needs, &facts);
	expect(&needs, "rc", NIC_NEED_UNKNOWN, "no capabilities");
	expect(&needs, "devx", NIC_NEED_OK, "firmware commands");
}

TEST(port_says_what_it_lacks)
{
	struct mlx5_port_facts facts = good_port;
	static struct needs needs;

	facts.state = NIC_PORT_DOWN;
	facts.gid_error = -ENOENT;
	judge_port(&needs, &facts);
	expect(&needs, "port", NIC_NEED_WARN, "down");
	expect(&needs, "gid", NIC_NEED_FAIL, "RoCE v2");
	facts.link = NIC_LINK_INFINIBAND;
	judge_port(&needs, &facts);
	ASSERT(strstr(find(&needs, "port")->fix, "subnet manager"));
	facts.state_error = facts.gid_error = -EIO;
	judge_port(&needs, &facts);
	expect(&needs, "port", NIC_NEED_UNKNOWN, "Input/output error");
	expect(&needs, "gid", NIC_NEED_UNKNOWN, "Input/output error");
	facts = good_port;
	memcpy(facts.gid, (uint8_t[16]){0xfe, 0x80, [15] = 1}, sizeof(facts.gid));
	judge_port(&needs, &facts);
	expect(&needs, "gid", NIC_NEED_WARN, "fe80::1, RoCE v2, is link-local");
	facts.link = NIC_LINK_INFINIBAND;
	judge_port(&needs, &facts);
	expect(&needs, "gid", NIC_NEED_OK, "fe80::1");
}
