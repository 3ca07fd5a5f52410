/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Versions of NVSHMEM's device library: which are served, and what differs between them. Pure.
 *
 * Where device code finds its scratch differs by class, so each class has scratch and teams of its own (sets.c): two device libraries of
 * different class in one process do not meet in one word.
 */
#ifndef SHMD_NVSHMEM_VERSIONS_H
#define SHMD_NVSHMEM_VERSIONS_H

#include <stdint.h>

#include "libclient/compat/nvshmem/layout.h"

#define NVS_MAJOR 3
#define NVS_NEWEST_MINOR 8 /* that the structures and the scratch are known of */

enum nvs_class {
	NVS_CLASS_A, /* up to 3.4 */
	NVS_CLASS_B, /* 3.5 */
	NVS_CLASS_C, /* 3.6 and later */
	NVS_CLASSES,
};

/* 0; -EPROTONOSUPPORT with a sentence. newer_too: a minor above the newest one counts as the newest. */
int nvs_version_check(struct nvs_version version, int newer_too);
enum nvs_class nvs_version_class(struct nvs_version version);
/* Bytes of struct nvs_state that a device library of this version has. */
uint32_t nvs_version_state_bytes(struct nvs_version version);

/* ---- scratch of one team, in bytes from its begin */

struct nvs_psync {
	uint64_t sync, reduce, bcast, fcollect_ll, alltoall, fcollect_ll128;
	uint64_t stream_sync; /* B and C */
	uint64_t bytes; /* of all: the next team's begins there */
};

#define NVS_FCOLLECT_LL_THRESHOLD 2048u
#define NVS_REDUCE_SCRATCH_BYTES 524288u

struct nvs_psync nvs_psync_of(enum nvs_class class, uint32_t npes);
/* The class whose scratch and teams serve this one: B and C are alike for an even number of PEs. */
enum nvs_class nvs_class_set(enum nvs_class class, uint32_t npes);

#endif
