/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On-demand paging: regions of which no page is pinned. Every access goes to the memory of the process that registered, as
 * it is mapped at that time, explicit regions and the implicit one of all addresses alike; so what the process unmaps is
 * gone, and what it maps later is there. The kernel reads and writes for us (process_vm_readv), which asks for the rights of a debugger:
 * registration is refused without them.
 *
 * Atomics are atomic among devices, not with the process's own: that is all that IBV_ATOMIC_HCA promises.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>

#include "proto/base/cleanup.h"
#include "tests/mlx5sim/sim/pd-mr.h"

/* Pages that one call of the kernel looks at. */
#define PAGES_AT_ONCE 256u

struct odp_memory {
	struct memory memory;
	pid_t pid;
	int pidfd; /* ends with the process: its number may be another's then */
};

static struct odp_memory *odp_of(struct engine_mem *mem)
{
	return container_of(container_of(mem, struct memory, mem), struct odp_memory, memory);
}

/* Its number may be another process's by now. */
static bool has_ended(const struct odp_memory *odp)
{
	struct pollfd ended = {.fd = odp->pidfd, .events = POLLIN};

	return poll(&ended, 1, 0) != 0;
}

static int move(struct engine_mem *mem, bool write, uint64_t addr, void *local, size_t bytes)
{
	const struct odp_memory *odp = odp_of(mem);
	struct iovec here = {local, bytes}, there = {(void *)(uintptr_t)addr, bytes};
	ssize_t n;

	if (has_ended(odp))
		return -EFAULT;
	n = write ? process_vm_writev(odp->pid, &here, 1, &there, 1, 0)
		  : process_vm_readv(odp->pid, &here, 1, &there, 1, 0);
	return n == (ssize_t)bytes ? 0 : -EFAULT;
}

static int odp_read(struct engine_mem *mem, uint64_t offset, void *dst, size_t bytes, struct engine_memop *op)
{
	return move(mem, false, offset, dst, bytes);
}

static int odp_write(struct engine_mem *mem, uint64_t offset, const void *src, size_t bytes, struct engine_memop *op)
{
	return move(mem, true, offset, (void *)(uintptr_t)src, bytes);
}

static int odp_atomic(struct engine_mem *mem, uint64_t offset, const struct engine_atomic *what, uint64_t *ret_old,
		      struct engine_memop *op)
{
	uint64_t word = 0;
	int r = move(mem, false, offset, &word, what->bytes);

	if (r < 0)
		return r;
	*ret_old = engine_atomic_apply(&word, what);
	return move(mem, true, offset, &word, what->bytes);
}

static void odp_free(struct engine_mem *mem)
{
	struct odp_memory *odp = odp_of(mem);

	safe_close(odp->pidfd);
	free(odp);
}

static const struct engine_mem_ops odp_ops = {
	.read = odp_read,
	.write = odp_write,
	.atomic = odp_atomic,
	.free = odp_free,
};

/* A region of the calling process. */
int odp_memory_new(struct call *call, struct memory **ret_memory)
{
	struct odp_memory *odp = calloc(1, sizeof(*odp));
	struct ucred who = {0};
	socklen_t bytes = sizeof(who);
	uint8_t probe;

	if (!odp)
		return -ENOMEM;
	engine_mem_init(&odp->memory.mem, &odp_ops, UINT64_MAX);
	getsockopt(call->reply, SOL_SOCKET, SO_PEERCRED, &who, &bytes);
	odp->pid = who.pid;
	odp->pidfd = (int)syscall(SYS_pidfd_open, odp->pid, 0);
	/* A minimum that is certainly there. */
	if (odp->pidfd < 0 || move(&odp->memory.mem, false, call->attrs_addr, &probe, 1) < 0) {
		memory_unref(&odp->memory);
		return call_refuse(call, -EPERM, "the simulator may not read the memory of process %d on demand",
				   (int)who.pid);
	}
	*ret_memory = &odp->memory;
	return 0;
}

/* ---- prefetch ----------------------------------------------------------------------------------------------------- */

/* Reads a byte of each page, which brings it in. -EFAULT: one is not there. */
static int touch(const struct odp_memory *odp, uint64_t addr, uint64_t bytes)
{
	struct iovec there[PAGES_AT_ONCE], here;
	uint8_t sink[PAGES_AT_ONCE];
	uint64_t end = addr + bytes; /* within a region, so it does not wrap */

	if (has_ended(odp))
		return -EFAULT;
	while (addr < end) {
		unsigned int n = 0;

		for (; n < PAGES_AT_ONCE && addr < end; n++) {
			there[n] = (struct iovec){(void *)(uintptr_t)addr, 1};
			addr = (addr & ~(uint64_t)(SIM_PAGE - 1)) + SIM_PAGE;
		}
		here = (struct iovec){sink, n};
		if (process_vm_readv(odp->pid, &here, 1, there, n, 0) != (ssize_t)n)
			return -EFAULT;
	}
	return 0;
}

static int check_advice(struct call *call, const struct pd *pd, uint64_t advice, const struct mr *mr, uint32_t key)
{
	if (!mr || !(mr->reg.access_flags & IB_UVERBS_ACCESS_ON_DEMAND))
		return call_refuse(call, -ENOENT, "key 0x%x is of no region on demand", key);
	if (mr->pd != pd)
		return call_refuse(call, -EINVAL, "key 0x%x is of another PD", key);
	if (advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
	    !(mr->reg.access_flags & IB_UVERBS_ACCESS_LOCAL_WRITE))
		return call_refuse(call, -EPERM, "key 0x%x is of a region that is not written", key);
	return 0;
}

static int prefetch(struct call *call, const struct mr *mr, const struct ib_uverbs_sge *sge)
{
	const struct ib_uverbs_reg_mr *reg = &mr->reg;
	uint64_t at = sge->addr - reg->hca_va;

	if (sge->addr < reg->hca_va || at > reg->length || sge->length > reg->length - at ||
	    touch(odp_of(&mr->memory->mem), reg->start + at, sge->length) < 0)
		return call_refuse(call, -EFAULT, "no %u bytes at 0x%llx", sge->length,
				   (unsigned long long)sge->addr);
	return 0;
}

/*
 * Advice that is not waited for is checked and not followed: pages come when they are wanted. Neither is that which asks
 * for no page fault, as nothing is kept here of pages that are present.
 */
int mr_advise(struct call *call)
{
	const struct pd *pd = pd_get(call, call_u64(call, UVERBS_ATTR_ADVISE_MR_PD_HANDLE));
	uint64_t advice = call_u64(call, UVERBS_ATTR_ADVISE_MR_ADVICE);
	uint64_t flags = call_u64(call, UVERBS_ATTR_ADVISE_MR_FLAGS);
	const struct ib_uverbs_sge *sges;
	size_t bytes = 0;
	int r = 0;

	sges = call_in(call, UVERBS_ATTR_ADVISE_MR_SGE_LIST, &bytes);
	if (!pd)
		return call_refuse(call, -ENOENT, "no such PD");
	if (advice > IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return call_refuse(call, -EOPNOTSUPP, "advice %llu", (unsigned long long)advice);
	if (flags & ~(uint64_t)IB_UVERBS_ADVISE_MR_FLAG_FLUSH)
		return call_refuse(call, -EINVAL, "flags 0x%llx", (unsigned long long)flags);
	if (bytes % sizeof(*sges))
		return call_refuse(call, -EINVAL, "a list of %zu bytes", bytes);
	for (size_t i = 0; i < bytes / sizeof(*sges) && r == 0; i++) {
		const struct mr *mr = mr_of_key(call->ufile, sges[i].lkey);

		r = check_advice(call, pd, advice, mr, sges[i].lkey);
		if (r == 0 && (flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH) &&
		    advice != IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
			r = prefetch(call, mr, &sges[i]);
	}
	return r;
}
