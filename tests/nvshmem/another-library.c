/* SPDX-License-Identifier: Apache-2.0 */
/* A library with the name of the one for NVSHMEM programs, and with one of its functions. */
#include <stddef.h>

__attribute__((visibility("default"))) void *nvshmem_malloc(size_t bytes);
void *nvshmem_malloc(size_t bytes)
{
	(void)bytes;
	return NULL;
}
