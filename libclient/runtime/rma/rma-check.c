/* SPDX-License-Identifier: Apache-2.0 */
/* The process that a context belongs to, and statuses of device functions in words. Any thread. */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libclient/runtime/rma/rma-check.h"
#include "libclient/runtime/team/team.h"
#include "libclient/runtime/world/exchange.h"

/* The number of no process: the first operation comes to rma_check_slow(), and every other too where no page is zeroed by fork. */
static const int32_t no_process;
const int32_t *rma_process = &no_process;
static int32_t *page;
static pthread_once_t page_once = PTHREAD_ONCE_INIT;

static void make_page(void)
{
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return;
	if (madvise(p, bytes, MADV_WIPEONFORK) < 0) {
		munmap(p, bytes);
		return;
	}
	page = p;
	__atomic_store_n(&rma_process, page, __ATOMIC_RELEASE);
}

int rma_check_slow(const struct shmd_ctx *ctx)
{
	if (!ctx)
		return shmd_error_set(-EINVAL, "ctx is NULL");
	pthread_once(&page_once, make_page);
	if (page)
		__atomic_store_n(page, (int32_t)getpid(), __ATOMIC_RELAXED);
	return world_check(ctx->world);
}

/* An argument, in words: the device function does not say which it was. */
static int fail_argument(const struct shmd_ctx *ctx, const char *what, int pe)
{
	int n = ctx->team ? (int)ctx->team->dev.n_pes : ctx->world->size;

	if (pe >= n || pe < -1)
		return shmd_error_set(-EINVAL, "%s: PE %d is out of range; the context's team has %d PEs", what, pe, n);
	return shmd_error_set(-EINVAL, "%s: memory outside the symmetric heap, a word that is not aligned, or an unknown size or operation",
			      what);
}

int rma_fail(const struct shmd_ctx *ctx, int status, const char *what, int pe)
{
	if (status == SHMD_DEV_INVALID)
		return fail_argument(ctx, what, pe);
	if (pe >= 0 && ctx->team)
		pe = shmd_dev_team_translate(&ctx->team->dev, (uint32_t)pe, NULL);
	return world_status_error(ctx->world, status, what, pe);
}
