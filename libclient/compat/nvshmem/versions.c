/* SPDX-License-Identifier: Apache-2.0 */
/* See versions.h. */
#include "libclient/compat/nvshmem/versions.h"

#include <errno.h>

#include <shmemclient.h>

#define AREA_BYTES (UINT64_C(27648) * 8) /* a constant of device code, in words of 8 bytes */
#define SYNC_BYTES (2 * AREA_BYTES)
#define BCAST_BYTES (10 * AREA_BYTES)
#define ALLTOALL_BYTES (2 * AREA_BYTES)

int nvs_version_check(struct nvs_version version, int newer_too)
{
	if (version.major != NVS_MAJOR || version.minor < 0)
		return shmd_error_set(-EPROTONOSUPPORT, "the program has a device library of NVSHMEM %d.%d.%d; this library serves version %d",
				      version.major, version.minor, version.patch, NVS_MAJOR);
	if (version.minor > NVS_NEWEST_MINOR && !newer_too)
		return shmd_error_set(-EPROTONOSUPPORT, "the program has a device library of NVSHMEM %d.%d.%d, which is newer than %d.%d, the newest "
				      "known; set SHMD_NVSHMEM_NEWER=on to try it", version.major, version.minor, version.patch, NVS_MAJOR,
				      NVS_NEWEST_MINOR);
	return 0;
}

enum nvs_class nvs_version_class(struct nvs_version version)
{
	if (version.minor <= 4)
		return NVS_CLASS_A;
	return version.minor == 5 ? NVS_CLASS_B : NVS_CLASS_C;
}

uint32_t nvs_version_state_bytes(struct nvs_version version)
{
	if (version.minor <= 6)
		return offsetof(struct nvs_state, tma_policy);
	return version.minor == 7 ? offsetof(struct nvs_state, counted_operations_available) : sizeof(struct nvs_state);
}

/* Areas follow one another. */
static uint64_t take(uint64_t *end, uint64_t bytes)
{
	uint64_t begin = *end;

	*end += bytes;
	return begin;
}

struct nvs_psync nvs_psync_of(enum nvs_class class, uint32_t npes)
{
	struct nvs_psync psync = {.bytes = 0};
	uint64_t end = 0;

	psync.sync = take(&end, (class == NVS_CLASS_A ? 2 : 4) * SYNC_BYTES);
	psync.reduce = take(&end, NVS_REDUCE_SCRATCH_BYTES);
	psync.bcast = take(&end, BCAST_BYTES);
	psync.fcollect_ll = take(&end, UINT64_C(4) * NVS_FCOLLECT_LL_THRESHOLD * npes);
	psync.alltoall = take(&end, ALLTOALL_BYTES);
	psync.fcollect_ll128 = psync.stream_sync = end;
	if (class != NVS_CLASS_A)
		take(&end, UINT64_C(8) * npes);
	psync.bytes = class == NVS_CLASS_C ? (end + 15) / 16 * 16 : end;
	return psync;
}

enum nvs_class nvs_class_set(enum nvs_class class, uint32_t npes)
{
	return class == NVS_CLASS_B && npes % 2 == 0 ? NVS_CLASS_C : class;
}
