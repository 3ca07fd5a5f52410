/* SPDX-License-Identifier: Apache-2.0 */
/* Versions, names, numbers of PEs, and data that programs may look at. */
#include <stdio.h>
#include <string.h>

#include "libclient/compat/nvshmem/nvs.h"

#define OPENSHMEM_MAJOR 1
#define OPENSHMEM_MINOR 3
#define THREAD_SERIALIZED 2
#define NAME_BYTES 256

NVS_API int nvshmem_my_pe(void);
int nvshmem_my_pe(void)
{
	return shmd_my_pe(nvs.world);
}

NVS_API int nvshmem_n_pes(void);
int nvshmem_n_pes(void)
{
	return shmd_n_pes(nvs.world);
}

NVS_API void nvshmem_info_get_version(int *ret_major, int *ret_minor);
void nvshmem_info_get_version(int *ret_major, int *ret_minor)
{
	*ret_major = OPENSHMEM_MAJOR;
	*ret_minor = OPENSHMEM_MINOR;
}

NVS_API void nvshmem_info_get_name(char *ret_name);
void nvshmem_info_get_name(char *ret_name)
{
	snprintf(ret_name, NAME_BYTES, "shmemd, for programs of NVSHMEM %d.%d", NVS_MAJOR, NVS_NEWEST_MINOR);
}

NVS_API void nvshmemx_vendor_get_version_info(int *ret_major, int *ret_minor, int *ret_patch);
void nvshmemx_vendor_get_version_info(int *ret_major, int *ret_minor, int *ret_patch)
{
	*ret_major = NVS_MAJOR;
	*ret_minor = NVS_NEWEST_MINOR;
	*ret_patch = 0;
}

NVS_API void nvshmem_query_thread(int *ret_provided);
void nvshmem_query_thread(int *ret_provided)
{
	*ret_provided = THREAD_SERIALIZED;
}

/* ---- data; the library reads the transport (clients.c), and level and mask of a program's own log (program-log.c) */

NVS_API extern int nvshmem_selected_device_transport, nvshmem_nvtx_options, nvshmem_options;
NVS_API extern void *nvshmem_debug_file, *nvshmem_error;
NVS_API extern pthread_mutex_t nvshmem_debug_output_lock;

int nvshmem_selected_device_transport, nvshmem_debug_level, nvshmem_nvtx_options, nvshmem_options;
uint64_t nvshmem_debug_mask;
void *nvshmem_debug_file, *nvshmem_error;
pthread_mutex_t nvshmem_debug_output_lock = PTHREAD_MUTEX_INITIALIZER;
