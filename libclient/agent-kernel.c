/* SPDX-License-Identifier: Apache-2.0 */
/* See agent-kernel.h. */
#include "libclient/agent-kernel.h"

#include <errno.h>
#include <sys/mman.h>

#include "proto/base/nsec.h"
#include "proto/base/page.h"

#define LEAST 12u /* fewer are quicker as memory operations */
#define PATIENCE_NSEC (30 * NSEC_PER_USEC) /* a kernel on a GPU with room begins within 10 us */
#define PAUSE_NSEC NSEC_PER_MSEC /* behind one that has not */
#define QUIET_ROUNDS 256u /* of looking at the page alone; then it asks whether the GPU still works */
#define BLOCK_SHIFT 21 /* CUDA maps and unmaps memory in units of 2 MiB */

/* ---- making ---------------------------------------------------------------------------------------------------------- */

static size_t page_size(void)
{
	return (sizeof(struct agent_kernel_page) + page_bytes() - 1) / page_bytes() * page_bytes();
}

/* Shared memory, since the driver maps it once more. */
static bool make_page(struct agent_kernel *kernel)
{
	const struct cuda_api *cuda = kernel->cuda;
	void *page = mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return false;
	if (cuda->host_register(page, page_size(), CUDA_REGISTER_PORTABLE | CUDA_REGISTER_MAP) != CUDA_OK) {
		munmap(page, page_size());
		return false;
	}
	kernel->page = page;
	return cuda->host_address(&kernel->page_on_gpu, page, 0) == CUDA_OK;
}

static bool load(struct agent_kernel *kernel)
{
	const struct cuda_api *cuda = kernel->cuda;

	if (!cuda->module_load || !cuda->module_unload || !cuda->module_function || !cuda->launch || !cuda->pointer_attribute)
		return false;
	return cuda->module_load(&kernel->module, agent_image) == CUDA_OK &&
	       cuda->module_function(&kernel->function, kernel->module, AGENT_KERNEL_NAME) == CUDA_OK;
}

static cuda_result launch(struct agent_kernel *kernel, uint32_t n)
{
	void *parameters[] = {&kernel->page_on_gpu, &kernel->n_turns, &n};

	kernel->n_turns++;
	return kernel->cuda->launch(kernel->function, 1, 1, 1, AGENT_KERNEL_THREADS, 1, 1, 0, kernel->stream, parameters, NULL);
}

static void decide(struct agent_kernel *kernel, uint64_t turn, bool goes_on)
{
	__atomic_store_n(&kernel->page->verdict, turn << 1 | goes_on, __ATOMIC_RELEASE);
}

/* CUDA loads a kernel at its first launch, and may wait there: that one writes nothing. */
static bool launch_first(struct agent_kernel *kernel)
{
	decide(kernel, kernel->n_turns + 1, false);
	kernel->is_late = true;
	return launch(kernel, 0) == CUDA_OK;
}

void agent_kernel_init(struct agent_kernel *kernel, const struct cuda_api *cuda, cuda_stream stream)
{
	kernel->cuda = cuda;
	kernel->stream = stream;
	if (!load(kernel) || !make_page(kernel) || !launch_first(kernel)) {
		kernel->function = NULL;
		kernel->is_late = false;
	}
}

static bool has_gone(const struct agent_kernel *kernel)
{
	return __atomic_load_n(&kernel->page->ended, __ATOMIC_ACQUIRE) == kernel->n_turns;
}

bool agent_kernel_is_late(const struct agent_kernel *kernel)
{
	return kernel->is_late && !has_gone(kernel);
}

/* As long as it takes a GPU with room. */
static bool wait_gone(const struct agent_kernel *kernel)
{
	uint64_t end = nsec_now() + PAUSE_NSEC;

	while (agent_kernel_is_late(kernel)) {
		if (nsec_now() > end)
			return false;
		shmd_dev_host_relax(0);
	}
	return true;
}

void agent_kernel_deinit(struct agent_kernel *kernel)
{
	const struct cuda_api *cuda = kernel->cuda;
	bool is_free = wait_gone(kernel);

	if (kernel->stream)
		(void)cuda->stream_destroy(kernel->stream);
	if (!is_free)
		return;
	if (kernel->module)
		(void)cuda->module_unload(kernel->module);
	if (!kernel->page)
		return;
	(void)cuda->host_unregister(kernel->page);
	munmap(kernel->page, page_size());
}

/* ---- writing --------------------------------------------------------------------------------------------------------- */

static bool may_launch(struct agent_kernel *kernel, unsigned int n)
{
	if (!kernel->function || n < LEAST || n > AGENT_KERNEL_WRITES)
		return false;
	kernel->is_late = agent_kernel_is_late(kernel);
	return !kernel->is_late && (!kernel->again_nsec || nsec_now() >= kernel->again_nsec);
}

/* Once for each unit of memory in a row. */
static bool fill(struct agent_kernel *kernel, const struct cuda_memop *memops, unsigned int n)
{
	uint64_t known = UINT64_MAX, addr;

	for (unsigned int i = 0; i < n; i++) {
		struct agent_kernel_write *write = &kernel->page->writes[i];

		if (memops[i].addr >> BLOCK_SHIFT != known &&
		    kernel->cuda->pointer_attribute(&addr, CUDA_POINTER_GPU_ADDRESS, memops[i].addr) != CUDA_OK)
			return false;
		known = memops[i].addr >> BLOCK_SHIFT;
		write->addr = memops[i].addr | (memops[i].kind == CUDA_MEMOP_WRITE4 ? AGENT_KERNEL_NARROW : 0);
		write->value = memops[i].value;
	}
	return true;
}

static bool wait_begun(const struct agent_kernel *kernel)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;

	while (__atomic_load_n(&kernel->page->begun, __ATOMIC_ACQUIRE) != kernel->n_turns) {
		if (nsec_now() > end)
			return false;
		shmd_dev_host_relax(0);
	}
	return true;
}

/* A GPU that has failed ends no kernel. */
static int wait_end(const struct agent_kernel *kernel)
{
	cuda_result result = CUDA_OK;

	for (uint32_t round = 0; !has_gone(kernel); round++) {
		if (round >= QUIET_ROUNDS)
			result = kernel->cuda->stream_query(kernel->stream);
		if (result != CUDA_OK && result != CUDA_NOT_READY)
			return cuda_fail(kernel->cuda, result, "wait for requests of the NIC");
		shmd_dev_host_relax(round < QUIET_ROUNDS ? 0 : round - QUIET_ROUNDS);
	}
	return 0;
}

int agent_kernel_write(struct agent_kernel *kernel, const struct cuda_memop *memops, unsigned int n)
{
	bool has_begun;

	if (!may_launch(kernel, n) || !fill(kernel, memops, n))
		return 1;
	if (launch(kernel, n) != CUDA_OK) {
		kernel->function = NULL;
		return 1;
	}
	has_begun = wait_begun(kernel);
	decide(kernel, kernel->n_turns, has_begun);
	if (has_begun)
		return wait_end(kernel);
	kernel->is_late = true;
	kernel->again_nsec = nsec_now() + PAUSE_NSEC;
	return 1;
}
