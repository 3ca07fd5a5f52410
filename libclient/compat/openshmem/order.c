/* SPDX-License-Identifier: Apache-2.0 */
/* Order and completion, signals alone, barriers and syncs (sections 9.8, 9.10, 9.12). */
#include "libclient/compat/openshmem/openshmem.h"

void pshmem_ctx_fence(shmem_ctx_t ctx)
{
	if (ctx != SHMEM_CTX_INVALID)
		osh_check("shmem_ctx_fence", shmd_fence(osh_ctx_of(ctx)));
}
OSH_WEAK(shmem_ctx_fence, pshmem_ctx_fence)

void pshmem_fence(void)
{
	osh_check("shmem_fence", shmd_fence(osh.ctx));
}
OSH_WEAK(shmem_fence, pshmem_fence)

void pshmem_ctx_quiet(shmem_ctx_t ctx)
{
	if (ctx != SHMEM_CTX_INVALID)
		osh_check("shmem_ctx_quiet", shmd_quiet(osh_ctx_of(ctx)));
}
OSH_WEAK(shmem_ctx_quiet, pshmem_ctx_quiet)

void pshmem_quiet(void)
{
	osh_check("shmem_quiet", shmd_quiet(osh.ctx));
}
OSH_WEAK(shmem_quiet, pshmem_quiet)

void pshmem_ctx_pe_quiet(shmem_ctx_t ctx, const int *target_pes, size_t npes)
{
	if (ctx == SHMEM_CTX_INVALID)
		return;
	for (size_t i = 0; i < npes; i++)
		osh_check("shmem_ctx_pe_quiet", shmd_quiet_pe(osh_ctx_of(ctx), target_pes[i]));
}
OSH_WEAK(shmem_ctx_pe_quiet, pshmem_ctx_pe_quiet)

void pshmem_pe_quiet(const int *target_pes, size_t npes)
{
	for (size_t i = 0; i < npes; i++)
		osh_check("shmem_pe_quiet", shmd_quiet_pe(osh.ctx, target_pes[i]));
}
OSH_WEAK(shmem_pe_quiet, pshmem_pe_quiet)

/* ---- signals */

static void signal_word(const char *name, shmem_ctx_t ctx, uint64_t *word, uint64_t value, enum shmd_signal_op op, int pe)
{
	osh_check(name, shmd_signal(osh_ctx_of(ctx), osh_symmetric(word), value, op, pe));
}

void pshmem_ctx_signal_add(shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe)
{
	signal_word("shmem_ctx_signal_add", ctx, sig_addr, signal, SHMD_SIGNAL_ADD, pe);
}
OSH_WEAK(shmem_ctx_signal_add, pshmem_ctx_signal_add)

void pshmem_signal_add(uint64_t *sig_addr, uint64_t signal, int pe)
{
	signal_word("shmem_signal_add", SHMEM_CTX_DEFAULT, sig_addr, signal, SHMD_SIGNAL_ADD, pe);
}
OSH_WEAK(shmem_signal_add, pshmem_signal_add)

void pshmem_ctx_signal_set(shmem_ctx_t ctx, uint64_t *sig_addr, uint64_t signal, int pe)
{
	signal_word("shmem_ctx_signal_set", ctx, sig_addr, signal, SHMD_SIGNAL_SET, pe);
}
OSH_WEAK(shmem_ctx_signal_set, pshmem_ctx_signal_set)

void pshmem_signal_set(uint64_t *sig_addr, uint64_t signal, int pe)
{
	signal_word("shmem_signal_set", SHMEM_CTX_DEFAULT, sig_addr, signal, SHMD_SIGNAL_SET, pe);
}
OSH_WEAK(shmem_signal_set, pshmem_signal_set)

uint64_t pshmem_signal_fetch(const uint64_t *sig_addr)
{
	return shmd_signal_fetch(sig_addr);
}
OSH_WEAK(shmem_signal_fetch, pshmem_signal_fetch)

/* ---- barriers and syncs */

void pshmem_barrier_all(void)
{
	osh_check("shmem_barrier_all", shmd_barrier_all(osh.world));
}
OSH_WEAK(shmem_barrier_all, pshmem_barrier_all)

void pshmem_sync_all(void)
{
	osh_check("shmem_sync_all", shmd_sync_all(osh.world));
}
OSH_WEAK(shmem_sync_all, pshmem_sync_all)

int pshmem_team_sync(shmem_team_t team)
{
	struct shmd_team *runtime = osh_runtime_team(team);

	return runtime ? osh_status("shmem_team_sync", shmd_team_sync(runtime)) : 1;
}
OSH_WEAK(shmem_team_sync, pshmem_team_sync)
