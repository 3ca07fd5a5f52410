/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "daemon/session/assign.h"
#include "tests/unit/session/lab.h"
#include "tests/lib/test.h"

static void expect_gpu(const char *text, const char *expected)
{
	char buf[REGISTRY_GPU_BYTES];

	if (!expected) {
		ASSERT_ERR(assign_parse_gpu(text, buf), EINVAL);
		return;
	}
	ASSERT_OK(assign_parse_gpu(text, buf));
	ASSERT_STREQ(buf, expected);
}

TEST(gpu_names_have_one_normal_form)
{
	expect_gpu("0000:3b:00.0", "0000:3b:00.0");
	expect_gpu("3B:00.0", "0000:3b:00.0");
	expect_gpu("00000000:3B:00.0", "0000:3b:00.0");
	expect_gpu("10000:e1:00.0", "10000:e1:00.0");
	expect_gpu("GPU-6E5F0F1e-0000-1111-2222-333344445555", "GPU-6e5f0f1e-0000-1111-2222-333344445555");
	expect_gpu("", NULL);
	expect_gpu("0", NULL);
	expect_gpu("3b:00", NULL);
	expect_gpu("0000:3b:20.0", NULL);
	expect_gpu("0000:3b:00.8", NULL);
	expect_gpu("0000:3b:00.0x", NULL);
	expect_gpu("0000:3bb:00.0", NULL);
	expect_gpu("GPU-6e5f0f1e-0000-1111-2222-33334444555", NULL);
	expect_gpu("GPU-6e5f0f1e-0000-1111-2222-33334444555g", NULL);
	expect_gpu("GPU-6e5f0f1e0000-1111-2222-3333444455556", NULL);
}

static const char *assign(struct lab *lab, const char *gpu, const char *nic, uint64_t taken)
{
	const struct assign_request request = {.gpu = gpu, .nic = nic, .taken = taken};
	struct registry_nic *rnic;
	char reason[128];
	int r = assign_nic(&lab->registry, &request, reason, sizeof(reason), &rnic);

	return r == -ENODEV ? "nodev" : r == -ENOENT ? "noent" : rnic->info.name;
}

TEST(gpus_spread_and_keep_their_nic)
{
	struct lab lab;

	lab_init(&lab, 10);
	ASSERT_STREQ(assign(&lab, "gpu-a", "", 0), "fake0");
	ASSERT_STREQ(assign(&lab, "gpu-b", "", 0), "fake1");
	ASSERT_STREQ(assign(&lab, "gpu-a", "", 0), "fake0");
	lab.registry.nics[1].n_sessions = 9;
	ASSERT_STREQ(assign(&lab, "gpu-b", "", 0), "fake1");
	ASSERT_STREQ(assign(&lab, "gpu-c", "", 0), "fake0");
	ASSERT_STREQ(assign(&lab, "gpu-d", "", 0), "fake1");
	lab_deinit(&lab);
}

TEST(without_a_gpu_the_least_loaded_and_not_one_it_has)
{
	struct lab lab;

	lab_init(&lab, 10);
	ASSERT_STREQ(assign(&lab, "", "", 0), "fake0");
	lab.registry.nics[0].n_sessions = 1;
	ASSERT_STREQ(assign(&lab, "", "", 0), "fake1");
	lab.registry.nics[1].n_sessions = 1;
	lab.registry.nics[0].n_qps = 1;
	ASSERT_STREQ(assign(&lab, "", "", 0), "fake1");
	ASSERT_STREQ(assign(&lab, "", "", 2), "fake0");
	lab_deinit(&lab);
}

TEST(names_and_ports_that_are_down)
{
	struct lab lab;

	lab_init(&lab, 10);
	ASSERT_STREQ(assign(&lab, "", "fake1", 0), "fake1");
	ASSERT_STREQ(assign(&lab, "", "mlx5_0", 0), "noent");
	lab.nics[0].info.state = NIC_PORT_DOWN;
	ASSERT_STREQ(assign(&lab, "", "", 0), "fake1");
	ASSERT_STREQ(assign(&lab, "", "fake0", 0), "fake0");
	lab.nics[0].info.state = NIC_PORT_LOST;
	ASSERT_STREQ(assign(&lab, "", "fake0", 0), "nodev");
	lab.nics[1].info.state = NIC_PORT_DOWN;
	ASSERT_STREQ(assign(&lab, "", "", 0), "nodev");
	lab_deinit(&lab);
}

TEST(the_table_of_gpus_is_bounded)
{
	struct lab lab;
	char name[32];

	lab_init(&lab, 10);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "gpu-%d", i);
		assign(&lab, name, "", 0);
	}
	ASSERT_STREQ(lab.registry.gpus[0].gpu, "gpu-960");
	lab_deinit(&lab);
}
