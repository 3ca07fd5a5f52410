/* SPDX-License-Identifier: Apache-2.0 */
/* Values of NVSHMEM_* and SHMEM_* variables in our words: functions for struct runtime_alias. Pure. */
#ifndef SHMD_RUNTIME_ALIAS_H
#define SHMD_RUNTIME_ALIAS_H

#include <stddef.h>

int alias_bool(const char *value, char *text, size_t size); /* on, unless the value begins with 0, n, N, f or F */
int alias_bootstrap(const char *value, char *text, size_t size);
int alias_bootstrap_pmi(const char *value, char *text, size_t size);
int alias_family(const char *value, char *text, size_t size);
int alias_error_checks(const char *value, char *text, size_t size);
int alias_disable_p2p(const char *value, char *text, size_t size);
int alias_remote_transport(const char *value, char *text, size_t size);
int alias_nvshmem_debug(const char *value, char *text, size_t size);
int alias_shmem_debug(const char *value, char *text, size_t size);
int alias_symmetric_size(const char *value, char *text, size_t size); /* ".5m"; letters behind the unit say nothing */
int alias_depth(const char *value, char *text, size_t size); /* rounded up to a power of two */
int alias_nvtx(const char *value, char *text, size_t size);

#endif
