/* SPDX-License-Identifier: Apache-2.0 */
/* The way in which a NIC reaches GPU memory; CUDA, the kernel and shmemd each refuse on demand. */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fake-daemon.h"
#include "libclient/command-fd.h"
#include "proto/base/cleanup.h"
#include "proto/status.h"
#include "tests/lib/fake-cuda.h"
#include "tests/lib/test.h"

#define KERNEL_HANDLE 42
#define PD 7

/* ---- the kernel ------------------------------------------------------------------------------------------------------ */

static struct {
	int error; /* of registrations */
	unsigned int n_asked, n_destroyed;
	struct uv_reg_mr last;
} kernel;

static int uverbs(const struct uv_hdr *hdr)
{
	const struct uv_attr *attrs = (const struct uv_attr *)(const void *)(hdr + 1);

	if (hdr->object_id == UV_OBJECT_MR) {
		ASSERT_EQ(attrs[0].data, KERNEL_HANDLE);
		kernel.n_destroyed++;
		return 0;
	}
	kernel.n_asked++;
	memcpy(&kernel.last, (const void *)(uintptr_t)attrs[0].data, sizeof(kernel.last));
	if (kernel.error)
		return kernel.error;
	((struct uv_reg_mr_resp *)(uintptr_t)attrs[1].data)->mr_handle = KERNEL_HANDLE;
	return 0;
}

__attribute__((visibility("default"))) int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;

	va_start(ap, request);
	ASSERT_EQ(request, UV_IOCTL);
	errno = uverbs(va_arg(ap, const struct uv_hdr *));
	va_end(ap);
	return errno ? -1 : 0;
}

/* ---- shmemd ---------------------------------------------------------------------------------------------------------- */

struct lab {
	struct fake_daemon fake;
	uint32_t status[5]; /* by kind of memory: the status that refuses it, or 0 */
	unsigned int n_lost; /* regions that the next daemon destroyed before it heard of them */
	bool dies_at_peermem, has_no_pd, takes_no_dmabuf;
	unsigned int n_asked[5];
	struct msg_mem_reg_req last[5];
	unsigned int n_deregistered;
	struct shmd_client *client;
	struct shmd_nic *nic;
	struct shmd_gpu *gpu;
};

static void answer_open(struct lab *lab, uint64_t id)
{
	_cleanup_close_ int fd = fake_memfd(4096);
	struct msg rep;

	msg_init(&rep, MSG_NIC_OPEN_REP, id);
	rep.nic_open_rep.doorbell = 2;
	rep.nic_open_rep.pd = lab->has_no_pd ? 0 : PD + 1;
	memcpy(rep.nic_open_rep.info.name, "mlx5_0", 7);
	rep.nic_open_rep.info.n_mem_kinds = 2;
	rep.nic_open_rep.info.mem_kinds[0] = lab->takes_no_dmabuf ? MSG_MEM_PEERMEM : MSG_MEM_DMABUF;
	rep.nic_open_rep.info.mem_kinds[1] = MSG_MEM_MEMFD;
	fake_send(&lab->fake, &rep, &fd, 1);
}

static void answer_reg(struct lab *lab, const struct msg *req, const struct fdlist *fds)
{
	const struct msg_mem_reg_req *reg = &req->mem_reg_req;
	struct msg rep;

	lab->n_asked[reg->kind]++;
	lab->last[reg->kind] = *reg;
	ASSERT_EQ(fds->n, reg->kind == MSG_MEM_PEERMEM ? 0 : 1);
	if (reg->kind == MSG_MEM_PEERMEM && lab->dies_at_peermem) {
		shutdown(lab->fake.sock, SHUT_RDWR);
		return;
	}
	if (reg->kind == MSG_MEM_PEERMEM && lab->n_lost > 0) {
		lab->n_lost--;
		fake_send_error(&lab->fake, req->id, SHMD_STATUS_NOT_FOUND, "no such region");
		return;
	}
	if (lab->status[reg->kind]) {
		fake_send_error(&lab->fake, req->id, lab->status[reg->kind], "not today");
		return;
	}
	msg_init(&rep, MSG_MEM_REG_REP, req->id);
	rep.mem_reg_rep.mr = 9;
	rep.mem_reg_rep.lkey = 0x1000;
	rep.mem_reg_rep.rkey = 0x2000;
	fake_send(&lab->fake, &rep, NULL, 0);
}

static void handle(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	struct lab *lab = fake->arg;

	if (req->kind == MSG_NIC_OPEN_REQ)
		answer_open(lab, req->id);
	else if (req->kind == MSG_MEM_REG_REQ)
		answer_reg(lab, req, fds);
	else if (req->kind == MSG_MEM_DEREG_REQ) {
		lab->n_deregistered++;
		fake_send_ok(fake, req->id);
	}
}

static void lab_open(struct lab *lab)
{
	memset(&kernel, 0, sizeof(kernel));
	lab->fake = (struct fake_daemon){.handle = handle, .arg = lab};
	ASSERT_OK(fake_open(&lab->fake, NULL, &lab->client));
	ASSERT_OK(shmd_nic_open(lab->client, NULL, &lab->nic));
	ASSERT_OK(shmd_gpu_open(lab->client, 1, &lab->gpu));
}

static void lab_close(struct lab *lab)
{
	shmd_client_close(lab->client);
	fake_join(&lab->fake);
	ASSERT_EQ(fake_cuda_counts().allocations, 0);
	ASSERT_EQ(fake_cuda_counts().registered, 0);
	ASSERT_EQ(fake_cuda_counts().contexts, 0);
}

static void no_export(void)
{
	fake_cuda_fail("cuMemGetHandleForAddressRange", 801);
}

static const struct shmd_gpu_mem_attr automatic = {.bytes = 5000, .access = SHMD_ACCESS_ALL};

static struct shmd_gpu_mem *alloc(struct lab *lab, struct shmd_gpu_mem_info *ret_info)
{
	struct shmd_gpu_mem *mem;
	int r = shmd_gpu_mem_alloc(lab->gpu, lab->nic, &automatic, &mem);

	if (r < 0)
		test_fail(TEST_WHERE, "no memory: %s", shmd_error_text());
	ASSERT_OK(shmd_gpu_mem_info(mem, ret_info));
	return mem;
}

/* ---- ways ------------------------------------------------------------------------------------------------------------ */

TEST(dmabuf_that_works_is_taken_without_a_reason)
{
	struct lab lab = {.has_no_pd = false};
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), whole = page > 8192 ? page : 8192;
	struct shmd_gpu_mem_info info;
	struct shmd_gpu_mem *mem;

	lab_open(&lab);
	mem = alloc(&lab, &info);
	ASSERT_EQ(info.mode, SHMD_GPU_MEM_DMABUF);
	ASSERT_STREQ(info.reason, "");
	ASSERT_EQ(info.bytes, whole);
	ASSERT_EQ(info.addr, info.iova);
	ASSERT_EQ(lab.last[MSG_MEM_DMABUF].length_bytes, whole);
	ASSERT_EQ(lab.last[MSG_MEM_DMABUF].iova, info.iova);
	ASSERT_EQ(lab.last[MSG_MEM_DMABUF].offset, 0);
	ASSERT_STREQ(lab.last[MSG_MEM_DMABUF].reason, "");
	ASSERT_EQ(shmd_mr_rkey(info.mr), 0x2000);
	ASSERT_EQ(kernel.n_asked, 0);
	ASSERT_OK(shmd_gpu_mem_free(mem));
	ASSERT_EQ(lab.n_deregistered, 1);
	lab_close(&lab);
}

/* CUDA exports whole pages; the region is what was asked for. */
TEST(part_of_an_allocation_is_registered_with_its_offset)
{
	struct shmd_gpu_mr_attr attr = {.length_bytes = 100, .access = SHMD_ACCESS_REMOTE_READ};
	struct lab lab = {.has_no_pd = false};
	struct shmd_gpu_mem_info info;
	struct shmd_gpu_mem *mem;
	struct shmd_mr *mr;

	lab_open(&lab);
	mem = alloc(&lab, &info);
	attr.addr = info.addr + 40;
	ASSERT_OK(shmd_gpu_mr_reg(lab.gpu, lab.nic, &attr, &mr));
	ASSERT_EQ(lab.last[MSG_MEM_DMABUF].offset, 40);
	ASSERT_EQ(lab.last[MSG_MEM_DMABUF].iova, attr.addr);
	ASSERT_EQ(lab.last[MSG_MEM_DMABUF].length_bytes, 100);
	ASSERT_OK(shmd_mr_dereg(mr));
	ASSERT_OK(shmd_gpu_mem_free(mem));
	lab_close(&lab);
}

/* CUDA exports none, shmemd or its kernel takes none, the NIC says that it takes none. */
TEST(peermem_follows_a_refusal_of_the_dmabuf)
{
	static const char *const reasons[] = {"no dmabuf: CUDA says", "not today", "no dmabuf: mlx5_0 takes none"};
	struct shmd_gpu_mem_info info;
	struct shmd_gpu_mem *mem;

	for (int who = 0; who < 3; who++) {
		struct lab lab = {.takes_no_dmabuf = who == 2};

		lab_open(&lab);
		if (who == 0)
			no_export();
		lab.status[MSG_MEM_DMABUF] = SHMD_STATUS_MEM_RANGE;
		mem = alloc(&lab, &info);
		ASSERT_EQ(info.mode, SHMD_GPU_MEM_PEERMEM);
		ASSERT(strstr(info.reason, reasons[who]));
		ASSERT_EQ(lab.n_asked[MSG_MEM_DMABUF], who == 1);
		ASSERT_EQ(kernel.last.start, info.addr);
		ASSERT_EQ(kernel.last.hca_va, info.addr);
		ASSERT_EQ(kernel.last.pd_handle, PD);
		ASSERT_EQ(lab.last[MSG_MEM_PEERMEM].kernel_handle, KERNEL_HANDLE);
		ASSERT_EQ(lab.last[MSG_MEM_PEERMEM].offset, info.addr);
		ASSERT_STREQ(lab.last[MSG_MEM_PEERMEM].reason, info.reason);
		/* shmemd ends it. */
		ASSERT_OK(shmd_gpu_mem_free(mem));
		ASSERT_EQ(lab.n_deregistered, 1);
		ASSERT_EQ(kernel.n_destroyed, 0);
		lab_close(&lab);
	}
}

/* The kernel finds no pages, shmemd does not take the region, it gave no descriptor to use. */
TEST(host_memory_follows_a_refusal_of_peermem)
{
	static const char *const reasons[] = {"(Bad address)", "not today", "handed out no command descriptor"};
	struct shmd_gpu_mem_info info;
	struct shmd_gpu_mem *mem;

	for (int who = 0; who < 3; who++) {
		struct lab lab = {.has_no_pd = who == 2};

		lab_open(&lab);
		no_export();
		kernel.error = who == 0 ? EFAULT : 0;
		lab.status[MSG_MEM_PEERMEM] = SHMD_STATUS_PERMISSION;
		mem = alloc(&lab, &info);
		ASSERT_EQ(info.mode, SHMD_GPU_MEM_HOST);
		ASSERT(strstr(info.reason, "no dmabuf: CUDA says"));
		ASSERT(strstr(info.reason, "; no peermem: "));
		ASSERT(strstr(info.reason, reasons[who]));
		ASSERT_EQ(kernel.n_asked, who < 2);
		ASSERT_EQ(kernel.n_destroyed, who == 1);
		ASSERT_EQ(fake_cuda_counts().allocations, 0);
		ASSERT_EQ(lab.last[MSG_MEM_MEMFD].iova, (uintptr_t)info.host_addr);
		ASSERT_EQ(strncmp(lab.last[MSG_MEM_MEMFD].reason, info.reason, sizeof(lab.last[0].reason) - 1), 0);
		/* An emulated kernel maps nothing twice, so there is no other address. */
		if (!test_emulator())
			ASSERT_NE(info.addr, info.iova);
		ASSERT_OK(shmd_gpu_mem_free(mem));
		lab_close(&lab);
	}
}

/* Memory that is the caller's stays where it is: then there is no third way. */
TEST(memory_of_the_caller_becomes_no_host_memory)
{
	struct shmd_gpu_mr_attr attr = {.length_bytes = 4096, .access = SHMD_ACCESS_ALL, .mode = SHMD_GPU_MEM_HOST};
	struct lab lab = {.has_no_pd = true};
	struct shmd_mr *mr;

	lab_open(&lab);
	attr.addr = 0x10000;
	ASSERT_ERR(shmd_gpu_mr_reg(lab.gpu, lab.nic, &attr, &mr), EINVAL);
	attr.mode = SHMD_GPU_MEM_AUTO;
	no_export();
	ASSERT_ERR(shmd_gpu_mr_reg(lab.gpu, lab.nic, &attr, &mr), EOPNOTSUPP);
	ASSERT(strstr(shmd_error_text(), "no dmabuf: CUDA says"));
	ASSERT(strstr(shmd_error_text(), "; no peermem: "));
	attr.length_bytes = UINT64_MAX;
	ASSERT_ERR(shmd_gpu_mr_reg(lab.gpu, lab.nic, &attr, &mr), EINVAL);
	ASSERT_EQ(lab.n_asked[MSG_MEM_MEMFD], 0);
	lab_close(&lab);
}

/* ---- where another way would not help -------------------------------------------------------------------------------- */

TEST(lack_of_quota_is_no_step_down)
{
	struct lab lab = {.has_no_pd = false};
	struct shmd_gpu_mem *mem;

	lab_open(&lab);
	lab.status[MSG_MEM_DMABUF] = SHMD_STATUS_QUOTA_BYTES;
	ASSERT_ERR(shmd_gpu_mem_alloc(lab.gpu, lab.nic, &automatic, &mem), EDQUOT);
	ASSERT(strstr(shmd_error_text(), "not today"));
	ASSERT_EQ(kernel.n_asked, 0);
	lab.status[MSG_MEM_DMABUF] = SHMD_STATUS_MEM_RANGE;
	lab.status[MSG_MEM_PEERMEM] = SHMD_STATUS_QUOTA_MRS;
	ASSERT_ERR(shmd_gpu_mem_alloc(lab.gpu, lab.nic, &automatic, &mem), EDQUOT);
	ASSERT_EQ(kernel.n_destroyed, 1);
	ASSERT_EQ(lab.n_asked[MSG_MEM_MEMFD], 0);
	lab_close(&lab);
}

/* It is unknown whether the daemon took it: the region ends with the context, which is this process's to close. */
TEST(daemon_that_dies_meanwhile_ends_the_search)
{
	struct lab lab = {.dies_at_peermem = true};
	struct shmd_gpu_mem *mem;

	lab_open(&lab);
	no_export();
	ASSERT_ERR(shmd_gpu_mem_alloc(lab.gpu, lab.nic, &automatic, &mem), ECONNRESET);
	ASSERT_EQ(kernel.n_asked, 1);
	ASSERT_EQ(kernel.n_destroyed, 0);
	ASSERT_EQ(lab.n_asked[MSG_MEM_MEMFD], 0);
	lab_close(&lab);
}

/* A daemon that was killed meanwhile: the next one destroys what it finds and no record names. */
TEST(region_that_the_next_daemon_did_not_know_is_made_again)
{
	struct lab lab = {.n_lost = 2};
	struct shmd_gpu_mem_info info;
	struct shmd_gpu_mem *mem;

	lab_open(&lab);
	no_export();
	mem = alloc(&lab, &info);
	ASSERT_EQ(info.mode, SHMD_GPU_MEM_PEERMEM);
	ASSERT_EQ(kernel.n_asked, 3);
	/* Its handle may be another region's by now. */
	ASSERT_EQ(kernel.n_destroyed, 0);
	ASSERT_OK(shmd_gpu_mem_free(mem));
	no_export();
	lab.n_lost = 100;
	mem = alloc(&lab, &info);
	ASSERT_EQ(info.mode, SHMD_GPU_MEM_HOST);
	ASSERT(strstr(info.reason, "no such region"));
	ASSERT_EQ(kernel.n_asked, 6);
	ASSERT_OK(shmd_gpu_mem_free(mem));
	lab_close(&lab);
}

/* The rest of the host's and the GPU's memory is freed when the last step fails too. */
TEST(failure_of_every_way_leaves_nothing)
{
	struct lab lab = {.has_no_pd = true};
	struct shmd_gpu_mem *mem;

	lab_open(&lab);
	no_export();
	lab.status[MSG_MEM_MEMFD] = SHMD_STATUS_NIC_LIMIT;
	ASSERT_ERR(shmd_gpu_mem_alloc(lab.gpu, lab.nic, &automatic, &mem), ENOSPC);
	ASSERT(strstr(shmd_error_text(), "not today"));
	ASSERT_EQ(fake_cuda_counts().allocations, 0);
	ASSERT_EQ(fake_cuda_counts().registered, 0);
	/* A full GPU does not lead to host memory. */
	fake_cuda_fail("cuMemAlloc_v2", 2);
	lab.status[MSG_MEM_MEMFD] = 0;
	ASSERT_ERR(shmd_gpu_mem_alloc(lab.gpu, lab.nic, &automatic, &mem), ENOMEM);
	ASSERT_EQ(lab.n_asked[MSG_MEM_MEMFD], 1);
	lab_close(&lab);
}
