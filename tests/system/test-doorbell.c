/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The doorbell of a client on simulated ConnectX NICs: the NIC's page if the client can use it, else the daemon's thread, with
 * the reason. mmap of the page and CUDA's registration of it fail on demand.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <shmemclient-admin.h>

#include "daemon/nic/mlx5/mlx5-bell.h"
#include "proto/base/nsec.h"
#include "tests/lib/fake-cuda.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/system/client-lab.h"
#include "tests/system/ctl-lab.h"

#define DOORBELL_REFUSED 800 /* CUDA_ERROR_NOT_PERMITTED: what a driver without PeerMappingOverride says */

static const struct shmd_queues_attr for_gpu = {
	.n_qps = 2, .sq_wqebbs = 16, .gpu_driven = 1, .sharing = SHMD_SHARING_GPU};
static const struct shmd_queues_attr for_cpu = {.n_qps = 1, .sq_wqebbs = 16};

/* ---- mmap of a command descriptor, of a device, may be refused ------------------------------------------------------ */

static bool refuses_mmap; /* atomic */

static bool is_device(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISCHR(st.st_mode);
}

__attribute__((visibility("default"))) void *mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	static void *(*next)(void *, size_t, int, int, int, off_t);

	if (__atomic_load_n(&refuses_mmap, __ATOMIC_ACQUIRE) && is_device(fd)) {
		errno = EACCES;
		return MAP_FAILED;
	}
	if (!next) {
		*(void **)&next = dlsym(RTLD_NEXT, "mmap64");
		if (!next)
			abort();
	}
	return next(addr, bytes, prot, flags, fd, offset);
}

static void refuse_mmap(bool on)
{
	__atomic_store_n(&refuses_mmap, on, __ATOMIC_RELEASE);
}

/* ---- looking ------------------------------------------------------------------------------------------------------- */

static void need_bell(void)
{
	if (!MLX5_HAS_BELL)
		test_skip("doorbell mode cpu is for x86");
}

static void expect_mode(const struct lab_side *side, enum shmd_doorbell_mode mode, const char *reason)
{
	struct shmd_nic_info info;

	ASSERT_OK(shmd_nic_info(side->nic, &info));
	ASSERT_EQ(info.doorbell_mode, mode);
	if (!strstr(info.doorbell_reason, reason) || (!*reason && info.doorbell_reason[0]))
		test_fail(TEST_WHERE, "reason is \"%s\", not \"%s\"", info.doorbell_reason, reason);
}

struct listed {
	const char *doorbell, *reason;
	unsigned int n;
};

static int look_at_session(void *arg, const struct shmd_session_item *item)
{
	struct listed *listed = arg;

	ASSERT_STREQ(item->doorbell, listed->doorbell);
	ASSERT(strstr(item->doorbell_reason, listed->reason));
	ASSERT(*listed->reason || !item->doorbell_reason[0]);
	listed->n++;
	return 0;
}

static void expect_listed(const struct fixture_daemon *daemon, const char *doorbell, const char *reason)
{
	struct listed listed = {.doorbell = doorbell, .reason = reason};
	struct shmd_client *control = lab_control(daemon);

	ASSERT_OK(shmd_admin_sessions(control, look_at_session, &listed));
	ASSERT_EQ(listed.n, 1);
	shmd_client_close(control);
}

/* The doctor has the same reason, of the same session; and it looks at the daemon's process. */
static void expect_diagnosed(const struct fixture_daemon *daemon, const char *reason)
{
	CTL("doctor", "--socket", daemon->socket);
	ASSERT_HAS("WARN  doorbells      session ", "has doorbell mode cpu: mlx5_0", reason);
	ctl_assert_lacks("no daemon runs");
}

/* More than the ring has places: puts, gets and atomics. */
static void drive(struct lab_side *side, struct shmd_dev_qp *qp)
{
	uint64_t *word = (uint64_t *)lab_byte(side, 8192), value = 0, old = 0;

	*word = 0;
	for (uint64_t i = 1; i <= 30; i++) {
		ASSERT_EQ(shmd_dev_qp_p(qp, lab_remote(side, 4096), i, 8), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_qp_g(qp, lab_remote(side, 4096), 8, 20 * NSEC_PER_SEC, &value), SHMD_DEV_OK);
		ASSERT_EQ(value, i);
		ASSERT_EQ(shmd_dev_qp_atomic_fetch_add(qp, lab_remote(side, 8192), 8, 1, 20 * NSEC_PER_SEC, &old),
			  SHMD_DEV_OK);
		ASSERT_EQ(old, i - 1);
	}
	ASSERT_EQ(*word, 30);
}

static struct shmd_dev_qp *qp_on(struct shmd_gpu *gpu, struct shmd_queues *queues, unsigned int i)
{
	uint64_t addr;
	int r = shmd_gpu_dev_qp(gpu, queues, i, &addr);

	if (r < 0)
		test_fail(TEST_WHERE, "no view: %s", shmd_error_text());
	return (struct shmd_dev_qp *)(uintptr_t)addr;
}

/* ---- the page cannot be mapped ------------------------------------------------------------------------------------- */

TEST(best_mode_that_works_is_taken_without_a_reason)
{
	struct fixture_daemon daemon;
	struct lab_side side;

	fixture_daemon_start(&daemon, NULL);
	lab_side_open(&side, &daemon, &for_cpu);
	expect_mode(&side, SHMD_DOORBELL_UAR_MMAP, "");
	expect_listed(&daemon, "uar-mmap", "");
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

TEST(client_that_cannot_map_its_page_gets_mode_cpu_and_the_reason_is_listed)
{
	const char *why = "cannot map a page of the NIC: Permission denied";
	struct fixture_daemon daemon;
	struct lab_side side;

	need_bell();
	fixture_daemon_start(&daemon, NULL);
	refuse_mmap(true);
	lab_side_open(&side, &daemon, &for_cpu);
	expect_mode(&side, SHMD_DOORBELL_CPU, why);
	expect_listed(&daemon, "cpu", why);
	expect_diagnosed(&daemon, why);
	fixture_daemon_assert_logged(&daemon, why);
	lab_connect(&side, 0, &side, 0);
	ASSERT_EQ(shmd_queues_dev_qp(side.queues, 0)->doorbell_mode, SHMD_DOORBELL_CPU);
	drive(&side, shmd_queues_dev_qp(side.queues, 0));
	lab_side_close(&side);
	refuse_mmap(false);
	fixture_daemon_stop(&daemon);
}

TEST(mode_that_was_asked_for_is_not_exchanged)
{
	const struct shmd_nic_attr attr = {.doorbell = SHMD_DOORBELL_UAR_MMAP};
	struct fixture_daemon daemon;
	struct shmd_client *client;
	struct shmd_nic *nic;

	fixture_daemon_start(&daemon, NULL);
	client = lab_client(&daemon);
	refuse_mmap(true);
	ASSERT_ERR(shmd_nic_open(client, &attr, &nic), EOPNOTSUPP);
	ASSERT(strstr(shmd_error_text(), "Permission denied"));
	ASSERT(strstr(shmd_error_text(), "mode cpu"));
	refuse_mmap(false);
	shmd_client_close(client);
	fixture_daemon_stop(&daemon);
}

/* ---- the GPU cannot reach it --------------------------------------------------------------------------------------- */

TEST(page_of_a_simulated_nic_is_registered_as_ordinary_memory)
{
	struct fixture_daemon daemon;
	struct lab_side side;
	struct shmd_gpu *gpu;

	fixture_daemon_start(&daemon, NULL);
	lab_side_open(&side, &daemon, &for_gpu);
	lab_connect(&side, 0, &side, 0);
	ASSERT_OK(shmd_gpu_open(side.client, 0, &gpu));
	drive(&side, qp_on(gpu, side.queues, 0));
	expect_mode(&side, SHMD_DOORBELL_UAR_MMAP, "");
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

/* Queues that the CPU drives through the page go on; the GPU's have the daemon's thread, as all that are made later. */
TEST(gpu_that_cannot_reach_the_page_gets_mode_cpu_and_queues_go_on)
{
	struct shmd_dev_qp *view, *host;
	struct shmd_queues *later;
	struct fixture_daemon daemon;
	struct lab_side side;
	struct shmd_gpu *gpu;

	need_bell();
	fixture_daemon_start(&daemon, NULL);
	lab_side_open(&side, &daemon, &for_gpu);
	lab_connect(&side, 0, &side, 0);
	lab_connect(&side, 1, &side, 1);
	host = shmd_queues_dev_qp(side.queues, 1);
	drive(&side, host);
	ASSERT_OK(shmd_gpu_open(side.client, 0, &gpu));
	fake_cuda_fail_times("cuMemHostRegister_v2", DOORBELL_REFUSED, 2);
	view = qp_on(gpu, side.queues, 0);
	expect_mode(&side, SHMD_DOORBELL_CPU, "CUDA says");
	expect_listed(&daemon, "cpu", "client: register host memory with the GPU: CUDA says");
	fixture_daemon_assert_logged(&daemon, "register host memory with the GPU: CUDA says");
	ASSERT_EQ(view->doorbell_mode, SHMD_DOORBELL_CPU);
	ASSERT_EQ(host->doorbell_mode, SHMD_DOORBELL_UAR_MMAP);
	drive(&side, view);
	drive(&side, host);
	ASSERT_OK(shmd_queues_create(side.nic, &for_gpu, &later));
	ASSERT_EQ(shmd_queues_dev_qp(later, 0)->doorbell_mode, SHMD_DOORBELL_CPU);
	ASSERT_OK(shmd_queues_destroy(later));
	lab_side_close(&side);
	ASSERT_EQ(fake_cuda_counts().registered, 0);
	fixture_daemon_stop(&daemon);
}

/* Nothing would wake the daemon's thread: such queues change no mode, and have no view where it was changed. */
TEST(queues_of_the_cpu_have_no_view_by_mode_cpu_and_what_to_do_is_said)
{
	struct shmd_queues *right;
	struct fixture_daemon daemon;
	struct lab_side side;
	struct shmd_gpu *gpu;
	uint64_t addr;

	need_bell();
	fixture_daemon_start(&daemon, NULL);
	lab_side_open(&side, &daemon, &for_cpu);
	lab_connect(&side, 0, &side, 0);
	ASSERT_OK(shmd_gpu_open(side.client, 0, &gpu));
	fake_cuda_fail_times("cuMemHostRegister_v2", DOORBELL_REFUSED, 2);
	ASSERT_ERR(shmd_gpu_dev_qp(gpu, side.queues, 0, &addr), EIO);
	ASSERT(strstr(shmd_error_text(), "CUDA says"));
	ASSERT(strstr(shmd_error_text(), "create them with gpu_driven = 1"));
	expect_mode(&side, SHMD_DOORBELL_UAR_MMAP, "");
	expect_listed(&daemon, "uar-mmap", "");
	ASSERT_OK(shmd_queues_create(side.nic, &for_gpu, &right));
	fake_cuda_fail_times("cuMemHostRegister_v2", DOORBELL_REFUSED, 2);
	ASSERT_EQ(qp_on(gpu, right, 0)->doorbell_mode, SHMD_DOORBELL_CPU);
	expect_mode(&side, SHMD_DOORBELL_CPU, "CUDA says");
	ASSERT_ERR(shmd_gpu_dev_state(gpu, side.queues, &addr), EINVAL);
	ASSERT(strstr(shmd_error_text(), "create them with gpu_driven = 1"));
	drive(&side, shmd_queues_dev_qp(side.queues, 0));
	ASSERT_OK(shmd_queues_destroy(right));
	lab_side_close(&side);
	ASSERT_EQ(fake_cuda_counts().registered, 0);
	fixture_daemon_stop(&daemon);
}

/* A GPU without memory to register with, or that is not there at all, says nothing about the page. */
TEST(other_failures_of_the_gpu_change_no_mode)
{
	struct fixture_daemon daemon;
	struct lab_side side;
	struct shmd_gpu *gpu;
	uint64_t addr;

	fixture_daemon_start(&daemon, NULL);
	lab_side_open(&side, &daemon, &for_gpu);
	ASSERT_OK(shmd_gpu_open(side.client, 0, &gpu));
	fake_cuda_fail_times("cuMemHostRegister_v2", 2, 1);
	ASSERT_ERR(shmd_gpu_dev_qp(gpu, side.queues, 0, &addr), ENOMEM);
	/* The first use of the context is for the memory of the view. */
	fake_cuda_fail_times("cuMemAlloc_v2", 2, 1);
	ASSERT_ERR(shmd_gpu_dev_qp(gpu, side.queues, 0, &addr), ENOMEM);
	expect_mode(&side, SHMD_DOORBELL_UAR_MMAP, "");
	lab_side_close(&side);
	fixture_daemon_stop(&daemon);
}

/* ---- who says so all the time --------------------------------------------------------------------------------------- */

static unsigned int count_changes(const struct fixture_daemon *daemon)
{
	FILE *f = fopen(daemon->log, "re");
	char line[1024];
	unsigned int n = 0;

	ASSERT(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "in doorbell mode cpu from now on") != NULL;
	fclose(f);
	return n;
}

/* The log takes a burst of 20 lines that clients provoke, then two a second. */
TEST_TIMEOUT(reasons_do_not_flood_the_log, 60)
{
	const unsigned int n_sessions = 60;
	struct fixture_daemon daemon;
	struct raw_client raw;
	struct msg req, rep;
	uint64_t begin;

	need_bell();
	fixture_daemon_start(&daemon, NULL);
	begin = nsec_now();
	for (unsigned int i = 0; i < n_sessions; i++) {
		raw_connect(&raw, daemon.socket);
		raw_hello(&raw, MSG_ROLE_CLIENT);
		raw_open_nic(&raw, "");
		msg_init(&req, MSG_NIC_DOORBELL_REQ, 0);
		req.nic_doorbell_req.doorbell = 1;
		memset(req.nic_doorbell_req.reason, 'x', sizeof(req.nic_doorbell_req.reason) - 1);
		raw_expect(&raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
		/* Reported once for one NIC; its page comes each time. */
		for (unsigned int k = 0; k < 5; k++)
			raw_expect(&raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
		raw_close(&raw);
	}
	ASSERT_GE(count_changes(&daemon), 1);
	ASSERT_LE(count_changes(&daemon), 20 + 2 * ((nsec_now() - begin) / NSEC_PER_SEC + 1));
	fixture_daemon_assert_alive(&daemon);
	fixture_daemon_stop(&daemon);
}
