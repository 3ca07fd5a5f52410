/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMEMD_BENCH_REF_GPU_H
#define SHMEMD_BENCH_REF_GPU_H

#include <stdint.h>

/* Round trip of 64 bytes and a flag between a kernel and a CPU thread; negative when it could not be started. */
double ref_mailbox_nsec(uint64_t rounds);

#endif
