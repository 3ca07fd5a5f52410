/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a GPU that no dmabuf leads to, on simulated ConnectX NICs: the client registers the addresses by its command
 * descriptor, and the daemon charges, lists and ends the region. CUDA's memory is host memory here, whose pages the simulator finds
 * as a kernel finds a GPU's by nvidia-peermem. That nothing is left the simulator says at its end.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include <shmemclient-admin.h>
#include <shmd/abi/cqe.h>

#include "daemon/nic/mlx5/mlx5-bell.h"
#include "libclient/command-fd.h"
#include "proto/base/nsec.h"
#include "tests/lib/fake-cuda.h"
#include "tests/lib/fixture-keeper.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/sysfs-tree.h"
#include "tests/lib/test.h"
#include "tests/mlx5sim/fixture.h"
#include "tests/system/client-lab.h"
#include "tests/system/daemon-usage.h"

#define CUDA_NOT_SUPPORTED 801
#define EXPORT "cuMemGetHandleForAddressRange"
#define NO_DMABUF "no dmabuf: CUDA says \"an error made for a test\" (801)"
#define MEM_BYTES 16384u
#define LIMIT_NSEC (20 * NSEC_PER_SEC)

static const struct shmd_queues_attr queues_attr = {.n_qps = 2, .sq_wqebbs = 16};
static const struct shmd_gpu_mem_attr automatic = {.bytes = MEM_BYTES, .access = SHMD_ACCESS_ALL};

/* ---- what this process asks of the kernel -------------------------------------------------------------------------- */

static int n_registered; /* regions that it has made and not destroyed; the daemon destroys too. Atomic */

static void count(const struct uv_hdr *hdr)
{
	const struct uv_attr *attrs = (const struct uv_attr *)(const void *)(hdr + 1);

	if (hdr->object_id == UV_OBJECT_MR && hdr->method_id == UV_METHOD_MR_DESTROY)
		__atomic_sub_fetch(&n_registered, 1, __ATOMIC_RELAXED);
	if (hdr->object_id != UV_OBJECT_DEVICE || hdr->method_id != UV_METHOD_INVOKE_WRITE)
		return;
	for (unsigned int i = 0; i < hdr->num_attrs; i++)
		if (attrs[i].attr_id == UV_ATTR_WRITE_CMD && attrs[i].data == UV_CMD_REG_MR)
			__atomic_add_fetch(&n_registered, 1, __ATOMIC_RELAXED);
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	static int (*next)(int, unsigned long, void *);
	va_list ap;
	void *arg;
	int r;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (!next) {
		*(void **)&next = dlsym(RTLD_NEXT, "ioctl");
		if (!next)
			abort();
	}
	r = next(fd, request, arg);
	if (r == 0 && request == UV_IOCTL)
		count(arg);
	return r;
}

struct lab {
	struct fixture_daemon daemon;
	struct lab_side side;
	struct shmd_gpu *gpu;
};

static void lab_open(struct lab *lab, const char *option)
{
	fixture_daemon_start(&lab->daemon, "--log-level=debug", option, NULL);
	lab_side_open(&lab->side, &lab->daemon, &queues_attr);
	lab_connect(&lab->side, 0, &lab->side, 0);
	lab_connect(&lab->side, 1, &lab->side, 1);
	ASSERT_OK(shmd_gpu_open(lab->side.client, 0, &lab->gpu));
}

static void lab_close(struct lab *lab)
{
	ASSERT_OK(shmd_gpu_close(lab->gpu));
	lab_side_close(&lab->side);
	fixture_daemon_stop(&lab->daemon);
	ASSERT_EQ(fake_cuda_counts().allocations, 0);
	ASSERT_EQ(fake_cuda_counts().contexts, 0);
}

static struct shmd_gpu_mem_info info_of(const struct shmd_gpu_mem *mem)
{
	struct shmd_gpu_mem_info info;

	ASSERT_OK(shmd_gpu_mem_info(mem, &info));
	return info;
}

/* Without dmabuf, as long as the driver says so. */
static struct shmd_gpu_mem *alloc_without_dmabuf(struct lab *lab, struct shmd_gpu_mem_info *ret_info)
{
	struct shmd_gpu_mem *mem;
	int r;

	fake_cuda_fail(EXPORT, CUDA_NOT_SUPPORTED);
	r = shmd_gpu_mem_alloc(lab->gpu, lab->side.nic, &automatic, &mem);
	if (r < 0)
		test_fail(TEST_WHERE, "no memory: %s", shmd_error_text());
	*ret_info = info_of(mem);
	return mem;
}

/* A word written by RDMA, and read back. The status of what failed first. */
static int write_word(struct lab *lab, unsigned int qp, uint64_t iova, shmd_be32 rkey, uint64_t value)
{
	struct shmd_dev_qp *dev = shmd_queues_dev_qp(lab->side.queues, qp);
	uint64_t found = 0;
	int r = shmd_dev_qp_p(dev, shmd_dev_addr_of(iova, rkey), value, 8);

	if (r == SHMD_DEV_OK)
		r = shmd_dev_qp_g(dev, shmd_dev_addr_of(iova, rkey), 8, 20 * NSEC_PER_SEC, &found);
	if (r == SHMD_DEV_OK)
		ASSERT_EQ(found, value);
	return r;
}

/* ---- what is listed ------------------------------------------------------------------------------------------------ */

struct listed {
	unsigned int n, n_peermem;
	struct shmd_mr_item last; /* of kind peermem */
};

static int look_at_mr(void *arg, const struct shmd_mr_item *item)
{
	struct listed *listed = arg;

	listed->n++;
	if (item->kind == SHMD_MEM_PEERMEM) {
		listed->n_peermem++;
		listed->last = *item;
	}
	return 0;
}

static struct listed list_mrs(const struct fixture_daemon *daemon)
{
	struct shmd_client *control = lab_control(daemon);
	struct listed listed = {0};

	ASSERT_OK(shmd_admin_mrs(control, look_at_mr, &listed));
	shmd_client_close(control);
	return listed;
}

static uint64_t registered_bytes(const struct fixture_daemon *daemon)
{
	struct shmd_client *control = lab_control(daemon);
	struct shmd_daemon_status status;

	ASSERT_OK(shmd_admin_status(control, &status));
	shmd_client_close(control);
	return status.registered_bytes;
}

/* ---- the client registers ------------------------------------------------------------------------------------------ */

TEST(writes_land_in_memory_that_the_client_registered)
{
	struct shmd_gpu_mem_info info;
	struct shmd_gpu_mem *mem;
	struct shmd_mr_info mr;
	struct listed listed;
	struct lab lab;
	uint64_t before;

	lab_open(&lab, NULL);
	before = registered_bytes(&lab.daemon);
	mem = alloc_without_dmabuf(&lab, &info);
	ASSERT_EQ(info.mode, SHMD_GPU_MEM_PEERMEM);
	ASSERT_EQ(info.addr, info.iova);
	ASSERT(!info.host_addr);
	ASSERT_STREQ(info.reason, NO_DMABUF);
	ASSERT_OK(shmd_mr_info(info.mr, &mr));
	ASSERT_EQ(mr.kind, SHMD_MEM_PEERMEM);
	ASSERT_STREQ(mr.reason, NO_DMABUF);
	ASSERT_EQ(write_word(&lab, 0, info.iova + 8192, shmd_mr_rkey_be(info.mr), 0x1122334455667788), SHMD_DEV_OK);
	ASSERT_EQ(*(uint64_t *)(uintptr_t)(info.addr + 8192), 0x1122334455667788);
	listed = list_mrs(&lab.daemon);
	ASSERT_EQ(listed.n_peermem, 1);
	ASSERT_EQ(listed.last.iova, info.iova);
	ASSERT_EQ(listed.last.length_bytes, MEM_BYTES);
	ASSERT_STREQ(listed.last.reason, NO_DMABUF);
	ASSERT_EQ(registered_bytes(&lab.daemon), before + MEM_BYTES);
	fixture_daemon_assert_logged(&lab.daemon, "peermem memory on mlx5_0: client: " NO_DMABUF);
	ASSERT_OK(shmd_gpu_mem_free(mem));
	ASSERT_EQ(list_mrs(&lab.daemon).n_peermem, 0);
	ASSERT_EQ(registered_bytes(&lab.daemon), before);
	lab_close(&lab);
}

/* A key that is given back opens nothing, though the client has the command descriptor. */
TEST(region_ends_when_it_is_deregistered)
{
	struct shmd_gpu_mr_attr attr = {.length_bytes = 4096, .access = SHMD_ACCESS_ALL, .mode = SHMD_GPU_MEM_PEERMEM};
	struct shmd_gpu_mem_info info;
	struct shmd_gpu_mem *mem;
	struct shmd_mr *mr;
	shmd_be32 rkey;
	struct lab lab;

	lab_open(&lab, NULL);
	mem = alloc_without_dmabuf(&lab, &info);
	attr.addr = info.addr + 4096;
	ASSERT_OK(shmd_gpu_mr_reg(lab.gpu, lab.side.nic, &attr, &mr));
	rkey = shmd_mr_rkey_be(mr);
	ASSERT_NE(rkey, shmd_mr_rkey_be(info.mr));
	ASSERT_EQ(write_word(&lab, 0, attr.addr, rkey, 5), SHMD_DEV_OK);
	ASSERT_OK(shmd_mr_dereg(mr));
	*(uint64_t *)(uintptr_t)attr.addr = 77;
	ASSERT_NE(write_word(&lab, 0, attr.addr, rkey, 6), SHMD_DEV_OK);
	ASSERT_EQ(*(uint64_t *)(uintptr_t)attr.addr, 77);
	ASSERT_EQ(write_word(&lab, 1, attr.addr, shmd_mr_rkey_be(info.mr), 7), SHMD_DEV_OK);
	ASSERT_OK(shmd_gpu_mem_free(mem));
	lab_close(&lab);
}

/* The kernel's word decides, and what is known of the module explains it. */
TEST(addresses_that_the_kernel_does_not_find_are_refused_in_words)
{
	struct shmd_gpu_mr_attr attr = {.length_bytes = 4096, .access = SHMD_ACCESS_ALL, .mode = SHMD_GPU_MEM_PEERMEM};
	struct sysfs_tree tree;
	struct shmd_mr *mr;
	struct lab lab;
	void *hole;

	lab_open(&lab, NULL);
	hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT(hole != MAP_FAILED);
	ASSERT_OK(munmap(hole, 4096));
	attr.addr = (uintptr_t)hole;
	sysfs_tree_init(&tree);
	setenv("SHMEMD_SYSFS", tree.root, 1);
	ASSERT_ERR(shmd_gpu_mr_reg(lab.gpu, lab.side.nic, &attr, &mr), EFAULT);
	ASSERT(strstr(shmd_error_text(), "(Bad address), and neither nvidia_peermem nor nv_peer_mem is loaded"));
	sysfs_tree_put(&tree, "module/nvidia_peermem/refcnt", "0\n");
	ASSERT_ERR(shmd_gpu_mr_reg(lab.gpu, lab.side.nic, &attr, &mr), EFAULT);
	ASSERT(strstr(shmd_error_text(), "(Bad address), and nvidia_peermem is loaded"));
	unsetenv("SHMEMD_SYSFS");
	sysfs_tree_deinit(&tree);
	lab_close(&lab);
}

TEST(quota_holds_and_what_it_refuses_is_not_left_registered)
{
	struct shmd_gpu_mr_attr attr = {.length_bytes = 4096, .access = SHMD_ACCESS_ALL, .mode = SHMD_GPU_MEM_PEERMEM};
	struct shmd_gpu_mem_info info;
	struct shmd_gpu_mem *mem, *more;
	struct shmd_mr *mr;
	struct lab lab;

	/* Two are the client's, and the third is all that is left. */
	lab_open(&lab, "--max-mrs=3");
	mem = alloc_without_dmabuf(&lab, &info);
	attr.addr = info.addr;
	/* No step down either: host memory would cost as much. */
	fake_cuda_fail(EXPORT, CUDA_NOT_SUPPORTED);
	ASSERT_ERR(shmd_gpu_mem_alloc(lab.gpu, lab.side.nic, &automatic, &more), EDQUOT);
	ASSERT_EQ(fake_cuda_counts().allocations, 1);
	for (int i = 0; i < 3; i++)
		ASSERT_ERR(shmd_gpu_mr_reg(lab.gpu, lab.side.nic, &attr, &mr), EDQUOT);
	ASSERT_EQ(n_registered, 1);
	ASSERT_EQ(list_mrs(&lab.daemon).n_peermem, 1);
	ASSERT_OK(shmd_gpu_mem_free(mem));
	mem = alloc_without_dmabuf(&lab, &info);
	ASSERT_OK(shmd_gpu_mem_free(mem));
	lab_close(&lab);
}

/* ---- host memory in its place -------------------------------------------------------------------------------------- */

TEST(without_a_command_descriptor_it_is_host_memory_with_both_reasons)
{
	const char *why = NO_DMABUF "; no peermem: shmemd handed out no command descriptor of mlx5_0 (doorbell mode cpu); no agent: mlx5_0 takes none";
	struct shmd_gpu_mem_info info;
	struct shmd_gpu_mem *mem;
	struct lab lab;

	if (!MLX5_HAS_BELL)
		test_skip("doorbell mode cpu is for x86");
	lab_open(&lab, "--doorbell=cpu");
	mem = alloc_without_dmabuf(&lab, &info);
	ASSERT_EQ(info.mode, SHMD_GPU_MEM_HOST);
	ASSERT_STREQ(info.reason, why);
	ASSERT(info.host_addr);
	ASSERT_EQ(info.iova, (uintptr_t)info.host_addr);
	ASSERT_NE(info.addr, info.iova);
	ASSERT_EQ(write_word(&lab, 0, info.iova, shmd_mr_rkey_be(info.mr), 99), SHMD_DEV_OK);
	ASSERT_EQ(*(uint64_t *)(uintptr_t)info.addr, 99);
	fixture_daemon_assert_logged(&lab.daemon, "memfd memory on mlx5_0: client: " NO_DMABUF);
	/* Nothing is left of the memory that was on the GPU. */
	ASSERT_EQ(fake_cuda_counts().allocations, 0);
	ASSERT_OK(shmd_gpu_mem_free(mem));
	lab_close(&lab);
}

TEST(mode_that_was_asked_for_is_taken_or_refused)
{
	struct shmd_gpu_mem_attr attr = automatic;
	struct shmd_gpu_mem *mem;
	struct lab lab;

	lab_open(&lab, NULL);
	attr.mode = SHMD_GPU_MEM_DMABUF;
	fake_cuda_fail(EXPORT, CUDA_NOT_SUPPORTED);
	ASSERT_ERR(shmd_gpu_mem_alloc(lab.gpu, lab.side.nic, &attr, &mem), EOPNOTSUPP);
	ASSERT_STREQ(shmd_error_text(), NO_DMABUF);
	attr.mode = SHMD_GPU_MEM_PEERMEM;
	ASSERT_OK(shmd_gpu_mem_alloc(lab.gpu, lab.side.nic, &attr, &mem));
	ASSERT_EQ(info_of(mem).mode, SHMD_GPU_MEM_PEERMEM);
	ASSERT_STREQ(info_of(mem).reason, "");
	ASSERT_OK(shmd_gpu_mem_free(mem));
	attr.mode = SHMD_GPU_MEM_HOST;
	ASSERT_OK(shmd_gpu_mem_alloc(lab.gpu, lab.side.nic, &attr, &mem));
	ASSERT_EQ(info_of(mem).mode, SHMD_GPU_MEM_HOST);
	ASSERT_STREQ(info_of(mem).reason, "");
	ASSERT_OK(shmd_gpu_mem_free(mem));
	attr.mode = SHMD_GPU_MEM_AGENT;
	ASSERT_ERR(shmd_gpu_mem_alloc(lab.gpu, lab.side.nic, &attr, &mem), EOPNOTSUPP);
	attr.mode = (enum shmd_gpu_mem_mode)(SHMD_GPU_MEM_AGENT + 1);
	ASSERT_ERR(shmd_gpu_mem_alloc(lab.gpu, lab.side.nic, &attr, &mem), EINVAL);
	lab_close(&lab);
}

/* The descriptor stays where its page was of no use. */
TEST(client_that_closes_with_all_open_leaves_nothing)
{
	struct shmd_gpu_mem_info info;
	struct raw_client ctl;
	struct lab lab;

	lab_open(&lab, NULL);
	(void)alloc_without_dmabuf(&lab, &info);
	shmd_client_close(lab.side.client);
	ASSERT_EQ(fake_cuda_counts().allocations, 0);
	ASSERT_EQ(fake_cuda_counts().contexts, 0);
	raw_connect(&ctl, lab.daemon.socket);
	raw_hello(&ctl, MSG_ROLE_CONTROL);
	daemon_expect_empty(&ctl, LIMIT_NSEC);
	raw_close(&ctl);
	fixture_daemon_stop(&lab.daemon);
}

/* ---- clients that die ---------------------------------------------------------------------------------------------- */

TEST(killed_client_leaves_nothing)
{
	struct fixture_daemon daemon;
	struct shmd_gpu_mem_info info;
	struct raw_client ctl;
	struct lab lab;
	int ready[2], status;
	pid_t pid;
	char c;

	fixture_daemon_start(&daemon, NULL);
	raw_connect(&ctl, daemon.socket);
	raw_hello(&ctl, MSG_ROLE_CONTROL);
	for (int i = 0; i < 5; i++) {
		ASSERT_OK(pipe2(ready, O_CLOEXEC));
		pid = fork();
		ASSERT_GE(pid, 0);
		if (!pid) {
			lab_side_open(&lab.side, &daemon, &queues_attr);
			ASSERT_OK(shmd_gpu_open(lab.side.client, 0, &lab.gpu));
			(void)alloc_without_dmabuf(&lab, &info);
			ASSERT_EQ(info.mode, SHMD_GPU_MEM_PEERMEM);
			ASSERT_EQ(write(ready[1], "r", 1), 1);
			pause();
		}
		close(ready[1]);
		ASSERT_EQ(read(ready[0], &c, 1), 1);
		close(ready[0]);
		ASSERT_OK(kill(pid, SIGKILL));
		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		daemon_expect_empty(&ctl, LIMIT_NSEC);
	}
	raw_close(&ctl);
	fixture_daemon_stop(&daemon);
}

/* ---- daemons that die ---------------------------------------------------------------------------------------------- */

/* The next one has it in its lists and ends it; and takes new ones. */
TEST(region_goes_on_when_the_daemon_is_killed)
{
	struct fixture_keeper keeper = {0};
	struct shmd_gpu_mem_info info;
	struct shmd_gpu_mem *mem, *more;
	struct listed before, after;
	struct lab lab;

	fixture_keeper_start(&keeper, "--restart-grace=600000", NULL);
	lab_side_open(&lab.side, &keeper.daemon, &queues_attr);
	lab_connect(&lab.side, 0, &lab.side, 0);
	ASSERT_OK(shmd_gpu_open(lab.side.client, 0, &lab.gpu));
	mem = alloc_without_dmabuf(&lab, &info);
	before = list_mrs(&keeper.daemon);
	ASSERT_EQ(before.n_peermem, 1);
	fixture_keeper_kill_daemon(&keeper);
	after = list_mrs(&keeper.daemon);
	ASSERT_EQ(after.n, before.n);
	ASSERT_MEMEQ(&after.last, &before.last, sizeof(after.last));
	ASSERT_EQ(write_word(&lab, 0, info.iova, shmd_mr_rkey_be(info.mr), 11), SHMD_DEV_OK);
	more = alloc_without_dmabuf(&lab, &info);
	ASSERT_EQ(info.mode, SHMD_GPU_MEM_PEERMEM);
	ASSERT_OK(shmd_gpu_mem_free(mem));
	ASSERT_OK(shmd_gpu_mem_free(more));
	ASSERT_EQ(list_mrs(&keeper.daemon).n_peermem, 0);
	ASSERT_OK(shmd_gpu_close(lab.gpu));
	lab_side_close(&lab.side);
	fixture_keeper_stop(&keeper);
}

/* ---- by hand: what a client has and says --------------------------------------------------------------------------- */

struct hand {
	struct fixture_daemon daemon;
	struct raw_client raw, ctl;
	uint64_t session;
	int fd; /* the command descriptor */
	uint32_t pd;
	uint8_t *memory;
};

static void hand_open_nic(struct hand *hand)
{
	struct fdlist fds;
	struct msg msg;

	msg_init(&msg, MSG_NIC_OPEN_REQ, 0);
	raw_send(&hand->raw, &msg, NULL, 0);
	fdlist_init(&fds);
	ASSERT_OK(raw_recv(&hand->raw, &msg, &fds));
	ASSERT_EQ(msg.kind, MSG_NIC_OPEN_REP);
	ASSERT_EQ(msg.nic_open_rep.doorbell, 2);
	ASSERT_NE(msg.nic_open_rep.pd, 0);
	hand->pd = msg.nic_open_rep.pd - 1;
	hand->fd = fdlist_take(&fds, msg.nic_open_rep.page_fd);
	ASSERT_GE(hand->fd, 0);
	fdlist_deinit(&fds);
	msg_deinit(&msg);
}

static void hand_open(struct hand *hand)
{
	struct msg req, rep;

	fixture_daemon_start(&hand->daemon, NULL);
	raw_connect(&hand->raw, hand->daemon.socket);
	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req.version_min = req.hello_req.version_max = 1;
	req.hello_req.role = MSG_ROLE_CLIENT;
	raw_expect(&hand->raw, &req, NULL, 0, MSG_HELLO_REP, &rep);
	hand->session = rep.hello_rep.session;
	msg_deinit(&rep);
	raw_connect(&hand->ctl, hand->daemon.socket);
	raw_hello(&hand->ctl, MSG_ROLE_CONTROL);
	hand_open_nic(hand);
	hand->memory = mmap(NULL, MEM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT(hand->memory != MAP_FAILED);
}

static void hand_close(struct hand *hand)
{
	raw_close(&hand->raw);
	close(hand->fd);
	daemon_expect_empty(&hand->ctl, LIMIT_NSEC);
	raw_close(&hand->ctl);
	fixture_daemon_stop(&hand->daemon);
	munmap(hand->memory, MEM_BYTES);
}

static uint32_t hand_reg(const struct hand *hand)
{
	const struct command_reg reg = {.pd = hand->pd,
					.access = SHMD_ACCESS_ALL,
					.addr = (uintptr_t)hand->memory,
					.length_bytes = MEM_BYTES,
					.iova = (uintptr_t)hand->memory};
	uint32_t handle;

	ASSERT_OK(command_fd_reg(hand->fd, &reg, &handle));
	return handle;
}

static struct msg tell_of(const struct hand *hand, uint32_t handle)
{
	struct msg msg;

	msg_init(&msg, MSG_MEM_REG_REQ, 0);
	msg.mem_reg_req = (struct msg_mem_reg_req){.kind = MSG_MEM_PEERMEM,
						   .access = SHMD_ACCESS_ALL,
						   .offset = (uintptr_t)hand->memory,
						   .iova = (uintptr_t)hand->memory,
						   .length_bytes = MEM_BYTES,
						   .kernel_handle = handle};
	return msg;
}

static void tell(struct hand *hand, uint32_t handle, struct msg_mem_reg_rep *ret_region)
{
	struct msg req = tell_of(hand, handle), rep;

	raw_expect(&hand->raw, &req, NULL, 0, MSG_MEM_REG_REP, &rep);
	*ret_region = rep.mem_reg_rep;
}

TEST(claims_of_a_client_about_a_region_are_checked_with_the_kernel)
{
	struct msg_mem_reg_rep region;
	struct hand hand;
	uint32_t handle;
	struct msg req;

	hand_open(&hand);
	handle = hand_reg(&hand);
	req = tell_of(&hand, handle + 1000);
	raw_expect_error(&hand.raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	/* The PD is not a region. */
	req = tell_of(&hand, hand.pd);
	raw_expect_error(&hand.raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	req = tell_of(&hand, handle);
	req.mem_reg_req.length_bytes = 4096;
	raw_expect_error(&hand.raw, &req, NULL, 0, SHMD_STATUS_MEM_RANGE);
	tell(&hand, handle, &region);
	ASSERT_GT(region.rkey, 0xffu);
	req = tell_of(&hand, handle);
	raw_expect_error(&hand.raw, &req, NULL, 0, SHMD_STATUS_EXISTS);
	msg_init(&req, MSG_MEM_DEREG_REQ, 0);
	req.mem_dereg_req.handle = region.mr;
	raw_expect(&hand.raw, &req, NULL, 0, MSG_OK_REP, &req);
	ASSERT_ERR(command_fd_dereg(hand.fd, handle), ENOENT);
	hand_close(&hand);
}

/* It has what its descriptor allows, and the daemon lives with it: that context gets nothing new. */
TEST(client_that_destroys_its_region_itself_harms_no_other)
{
	struct msg_mem_reg_rep region;
	struct hand hand;
	uint32_t handle;
	struct msg req;

	hand_open(&hand);
	handle = hand_reg(&hand);
	tell(&hand, handle, &region);
	ASSERT_OK(command_fd_dereg(hand.fd, handle));
	msg_init(&req, MSG_MEM_DEREG_REQ, 0);
	req.mem_dereg_req.handle = region.mr;
	raw_expect(&hand.raw, &req, NULL, 0, MSG_OK_REP, &req);
	handle = hand_reg(&hand);
	req = tell_of(&hand, handle);
	raw_expect_error(&hand.raw, &req, NULL, 0, SHMD_STATUS_MEM_SEALS);
	hand_close(&hand);
}

/* ---- the session ends, its client lives ------------------------------------------------------------------------------ */

/* A connection of the client's own making, in the session's domain: it stays when the session's queues go. */
struct own {
	struct side side;
	struct ibv_qp *a, *b;
};

static void own_init(struct own *own, const struct hand *hand)
{
	own->side.context = ibv_import_device(fcntl(hand->fd, F_DUPFD_CLOEXEC, 3));
	ASSERT(own->side.context);
	own->side.pd = ibv_import_pd(own->side.context, hand->pd);
	ASSERT(own->side.pd);
	own->side.cq = ibv_create_cq(own->side.context, 16, NULL, NULL, 0);
	ASSERT(own->side.cq);
	own->side.memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT(own->side.memory != MAP_FAILED);
	own->side.mr = ibv_reg_mr(own->side.pd, own->side.memory, BYTES, ALL_ACCESS);
	ASSERT(own->side.mr);
	own->a = make_qp(&own->side, IBV_QPT_RC, NULL);
	own->b = make_qp(&own->side, IBV_QPT_RC, NULL);
	connect_to(own->a, &own->side, own->b->qp_num);
	connect_to(own->b, &own->side, own->a->qp_num);
}

static void own_deinit(struct own *own)
{
	ASSERT_OK(ibv_destroy_qp(own->a));
	ASSERT_OK(ibv_destroy_qp(own->b));
	ASSERT_OK(ibv_destroy_cq(own->side.cq));
	ASSERT_OK(ibv_dereg_mr(own->side.mr));
	munmap(own->side.memory, BYTES);
	ibv_unimport_pd(own->side.pd);
	ASSERT_OK(ibv_close_device(own->side.context));
}

static enum ibv_wc_status own_write(const struct own *own, const struct hand *hand, uint32_t rkey)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};

	wr.wr.rdma.remote_addr = (uintptr_t)hand->memory;
	wr.wr.rdma.rkey = rkey;
	post_send(&own->side, own->a, wr, 64);
	return wait_wc(own->side.cq).status;
}

static void kill_session(struct hand *hand)
{
	struct msg req;

	msg_init(&req, MSG_SESSION_KILL_REQ, 0);
	req.session_kill_req.session = hand->session;
	raw_expect(&hand->ctl, &req, NULL, 0, MSG_OK_REP, &req);
	daemon_expect_empty(&hand->ctl, LIMIT_NSEC);
}

TEST(end_of_a_session_ends_its_key_while_the_client_lives)
{
	struct msg_mem_reg_rep region;
	struct hand hand;
	struct own own;
	uint32_t handle;

	hand_open(&hand);
	handle = hand_reg(&hand);
	tell(&hand, handle, &region);
	own_init(&own, &hand);
	memset(own.side.memory, 0x5a, 64);
	ASSERT_EQ(own_write(&own, &hand, region.rkey), IBV_WC_SUCCESS);
	ASSERT_EQ(hand.memory[63], 0x5a);
	kill_session(&hand);
	memset(own.side.memory, 0x77, 64);
	ASSERT_EQ(own_write(&own, &hand, region.rkey), IBV_WC_REM_ACCESS_ERR);
	ASSERT_EQ(hand.memory[0], 0x5a);
	ASSERT_ERR(command_fd_dereg(hand.fd, handle), ENOENT);
	/* The daemon goes on, though it could not destroy the domain. */
	fixture_daemon_assert_alive(&hand.daemon);
	own_deinit(&own);
	hand_close(&hand);
}
