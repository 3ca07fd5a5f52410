/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of GPUs of libshmemclient, a part of <shmemclient.h>, whose head holds for it too.
 *
 * A NIC reaches memory of a GPU in one of three ways; if none works, kernels use host memory instead. Best first:
 *
 *	dmabuf	CUDA exports the memory as a descriptor, which shmemd registers (kernel 5.12, CUDA 11.7, the open driver)
 *	peermem	the library registers the addresses by the command descriptor of doorbell mode uar-mmap, and a kernel module of
 *		the GPU's driver (nvidia-peermem) finds the pages. The library tries it, and does not go by the module's name
 *	agent	for NICs in software: a thread of the library, the memory agent, carries out the NIC's reads, writes and atomics by
 *		CUDA, on a stream of its own that does not wait for kernels
 *	host	sealed host memory that kernels reach over the bus
 *
 * "Automatic" takes the first that works, and reports why the better ones did not: in the error text or the info functions here,
 * in shmemd's log, in `shmemctl list mrs`. If quota or memory on the GPU runs out, or the NIC or shmemd is gone, it tries no
 * other way and returns the error.
 *
 * The agent lives in this process. If the process ends, stops (SIGSTOP) or its GPU fails, the NIC completes requests for that memory with an
 * error. CUDA calls that wait for kernels inside the driver, such as cuMemFree(), hold it up meanwhile. Atomics of NICs are exact against
 * each other, not against those of kernels.
 */
#ifndef SHMEMCLIENT_GPU_MEM_H
#define SHMEMCLIENT_GPU_MEM_H

#include <shmemclient.h>

#ifdef __cplusplus
extern "C" {
#endif

struct shmd_gpu_mem;

enum shmd_gpu_mem_mode {
	SHMD_GPU_MEM_AUTO = 0, /* in attrs only */
	SHMD_GPU_MEM_DMABUF = 1,
	SHMD_GPU_MEM_PEERMEM = 2,
	SHMD_GPU_MEM_HOST = 3,
	SHMD_GPU_MEM_AGENT = 4,
};

struct shmd_gpu_mr_attr {
	uint64_t addr; /* on the GPU */
	uint64_t length_bytes; /* at least 1 */
	uint32_t access; /* SHMD_ACCESS_*; 0: only this session's own NIC may read it */
	enum shmd_gpu_mem_mode mode; /* 0: automatic; HOST is refused */
	uint64_t iova; /* by which work requests name the first byte; 0: addr. Agrees with addr modulo 4096 */
};

/*
 * shmd_gpu_mr_reg - register memory of a GPU with a NIC
 *
 * For memory of cuMemAlloc(), cudaMalloc() or CUDA's virtual memory management, within one allocation. Not managed memory, which
 * moves. The MR is like any other in keys, quota and shmd_mr_dereg(); shmd_mr_info() has the way and the reason.
 *
 * Ownership	the memory stays the caller's, which deregisters before freeing it
 * Blocks	for at most four requests, and while CUDA and the kernel pin the pages
 * Errors	-EOPNOTSUPP and errors of CUDA, the kernel and shmemd, with the reason of every way that was tried; -EDQUOT; -ENOSPC
 *		the NIC is full; -ENODEV the NIC is gone
 */
SHMD_EXPORT int shmd_gpu_mr_reg(struct shmd_gpu *gpu, struct shmd_nic *nic, const struct shmd_gpu_mr_attr *attr,
				struct shmd_mr **ret_mr);

struct shmd_gpu_mem_attr {
	uint64_t bytes; /* at least 1; rounded up to pages */
	uint32_t access; /* SHMD_ACCESS_*; 0: only this session's own NIC may read it */
	enum shmd_gpu_mem_mode mode; /* 0: automatic */
};

struct shmd_gpu_mem_info {
	enum shmd_gpu_mem_mode mode; /* taken */
	uint64_t bytes;
	uint64_t addr; /* where kernels of that GPU find it */
	uint64_t iova; /* by which work requests name its first byte */
	void *host_addr; /* HOST: where this process finds it; else NULL */
	struct shmd_mr *mr; /* owned by the memory: for its keys */
	char reason[256]; /* why a better mode was not taken, or empty */
};

/*
 * shmd_gpu_mem_alloc - memory that kernels of a GPU use and a NIC reaches
 *
 * Memory of the GPU, or of the host if the NIC cannot reach that; registered with the NIC. Its content is undefined.
 *
 * Lifetime	until shmd_gpu_mem_free(), which comes before shmd_gpu_close()
 * Blocks	for at most five requests, and while CUDA and the kernel pin the pages
 * Errors	-ENOMEM; -EDQUOT; -EIO and other errors of CUDA; those of shmd_gpu_mr_reg()
 */
SHMD_EXPORT int shmd_gpu_mem_alloc(struct shmd_gpu *gpu, struct shmd_nic *nic, const struct shmd_gpu_mem_attr *attr,
				   struct shmd_gpu_mem **ret_mem);
/* Constant until shmd_gpu_mem_free(). Never blocks. */
SHMD_EXPORT int shmd_gpu_mem_info(const struct shmd_gpu_mem *mem, struct shmd_gpu_mem_info *ret_info);
/*
 * shmd_gpu_mem_free - deregister and free it
 *
 * No kernel may use it during or after the call, and work requests that still name it fail. Waits until the memory agent has carried
 * out what is under way. On failure to deregister the handle stays, and the call may be repeated.
 */
SHMD_EXPORT int shmd_gpu_mem_free(struct shmd_gpu_mem *mem);

#ifdef __cplusplus
}
#endif

#endif
