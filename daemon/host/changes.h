/* SPDX-License-Identifier: Apache-2.0 */
/* Fingerprints by which the watch notices that the machine has changed. They ask no driver; any thread. */
#ifndef SHMEMD_HOST_CHANGES_H
#define SHMEMD_HOST_CHANGES_H

#include <stdint.h>

/* Covers all that struct host_news names. */
uint64_t changes_of_machine(const char *sysfs, const char *procfs);
/* Covers one file: its identity, its size and the time of its last write. */
uint64_t changes_of_file(const char *path);

#endif
