/* SPDX-License-Identifier: Apache-2.0 */
/* Names that NVSHMEM or another OpenSHMEM library reads, and this one does not. Pure; any thread. */
#ifndef SHMD_RUNTIME_OTHERS_H
#define SHMD_RUNTIME_OTHERS_H

#include <stdbool.h>

/* A name NVSHMEM_* or SHMEM_*. by_beginning: also one that begins as many of theirs do. */
bool others_have(const char *name, bool by_beginning);

#endif
