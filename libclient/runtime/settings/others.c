/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of the environment that belong to NVSHMEM or to other OpenSHMEM libraries and have no counterpart here. They may be set for a reason,
 * so they are no typing errors. A name that ends with * stands for all that begin so.
 */
#include <string.h>

#include "libclient/runtime/settings/others.h"

#define PREFIX "NVSHMEM_"

/* NVSHMEM's, without that. */
static const char *const nvshmem_names[] = {
	"ASSERT_ATOMICS_SYNC", "BARRIER_DISSEM_KVAL", "BARRIER_TG_DISSEM_KVAL", "BCAST_ALGO", "BCAST_TREE_KVAL", "BOOTSTRAP_MPI_PLUGIN",
	"BOOTSTRAP_PLUGIN", "BOOTSTRAP_PMI2_PLUGIN", "BOOTSTRAP_PMIX_PLUGIN", "BOOTSTRAP_PMI_PLUGIN", "BOOTSTRAP_SHMEM_MODE",
	"BOOTSTRAP_SHMEM_PLUGIN", "BOOTSTRAP_TWO_STAGE", "BOOTSTRAP_UID_PLUGIN", "BOOTSTRAP_UID_SESSION_ID", "BYPASS_ACCESSIBILITY_CHECK",
	"BYPASS_FLUSH", "CPU_AFFINITY", "CUDA_LIMIT_STACK_SIZE", "CUDA_PATH", "CUMEM_HANDLE_TYPE", "DEBUG_ATTACH_DELAY", "DEBUG_SUBSYS", "DIR",
	"DISABLE_CE_COLLECTIVES", "DISABLE_CUDA_VMM", "DISABLE_DATA_DIRECT", "DISABLE_GDRCOPY", "DISABLE_IB_NATIVE_ATOMICS",
	"DISABLE_LOCAL_ONLY_PROXY", "DISABLE_MNNVL", "DISABLE_NCCL", "DISABLE_NVLS", "DISABLE_NVLS_SHARING", "DISABLE_SELF_WRITE_CE_COLL",
	"ENABLE_ALIGNED_MALLOC", "ENABLE_LOGICAL_ENDPOINT", "ENABLE_NIC_PE_MAPPING", "ENABLE_RAIL_OPT", "FCOLLECT_ALGO",
	"FCOLLECT_LL128_THRESHOLD", "FCOLLECT_LL_THRESHOLD", "FCOLLECT_NTHREADS", "FCOLLECT_NVLS_THRESHOLD", "GDRCOPY_USE_INTERNAL_DMABUF",
	"GPUNETIO_*", "G_BUF_SIZE", "G_COALESCING_BUF_SIZE", "HCA_LIST", "HCA_PE_MAPPING", "HCA_PREFIX", "HEAP_KIND", "HOME", "IBGDA_*", "IB_*",
	"IGNORE_CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "INFO_HIDDEN", "LIBFABRIC_*", "LIMIT_PTR_P2P_ACCESS", "MAX_CTAS", "MAX_PEER_STREAMS",
	"MNNVL_OVERRIDE_MC_CLIQUE_ID", "NETDEVS_POLICY", "PREFIX", "PROXY_REQUEST_BATCH_MAX", "REDMAXLOC_ALGO", "REDUCESCATTER_ALGO",
	"REDUCESCATTER_NTHREADS", "REDUCESCATTER_NVLS_THRESHOLD", "REDUCE_ALGO", "REDUCE_NTHREADS", "REDUCE_NVLS_THRESHOLD",
	"REDUCE_RECEXCH_KVAL", "REDUCE_SCRATCH_SIZE", "REGION_*", "SRQ_DEPTH", "TEST_*", "TMA_POLICY", "TRANSPORT_BATCH_MAX_OPS", NULL,
};

/* Sandia OpenSHMEM's, and folders of installations. */
static const char *const shmem_names[] = {
	"SHMEM_ALLTOALL*", "SHMEM_BACKTRACE", "SHMEM_BARRIER_*", "SHMEM_BCAST_*", "SHMEM_BOUNCE_*", "SHMEM_CMA_*", "SHMEM_COLLECT_*", "SHMEM_COLL_*",
	"SHMEM_DIR", "SHMEM_DISABLE_*", "SHMEM_FCOLLECT_*", "SHMEM_HOME", "SHMEM_LAUNCHER", "SHMEM_MAX_*", "SHMEM_OFI_*", "SHMEM_PORTALS4_*",
	"SHMEM_PREFIX", "SHMEM_PROGRESS_*", "SHMEM_REDUCE_*", "SHMEM_ROOT", "SHMEM_SCAN_*", "SHMEM_SYMMETRIC_HEAP_*", "SHMEM_TEAM*",
	"SHMEM_TRAP_ON_ABORT", "SHMEM_UCX_*", NULL,
};

bool others_have(const char *name, bool by_beginning)
{
	bool is_nvshmem = !strncmp(name, PREFIX, sizeof(PREFIX) - 1);
	const char *const *known = is_nvshmem ? nvshmem_names : shmem_names, *end;

	name += is_nvshmem ? sizeof(PREFIX) - 1 : 0;
	for (; *known; known++) {
		end = strchr(*known, '*');
		if (end ? by_beginning && !strncmp(name, *known, (size_t)(end - *known)) : !strcmp(name, *known))
			return true;
	}
	return false;
}
