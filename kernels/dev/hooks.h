/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three functions that the C build of the device functions calls.
 *
 * Device functions make no system call. To wait on a CPU thread, read the clock or wake a sleeping NIC thread, they call
 * these. libshmemclient has them; a program without it supplies its own. CUDA code calls none of them.
 */
#ifndef SHMD_DEV_HOOKS_H
#define SHMD_DEV_HOOKS_H

#include <shmd/dev/impl/annotate.h>

#if !SHMDI_CUDA

#ifdef __cplusplus
extern "C" {
#endif

/* A monotonic clock, in nsec. Called in wait loops only. */
uint64_t shmd_dev_host_now_nsec(void);

/*
 * Wait for one round; `round` counts from 1 in each wait. Spin in the first rounds, then yield, then sleep for growing but
 * bounded times, since the caller checks its time limit between two rounds.
 */
void shmd_dev_host_relax(uint32_t round);

/* Wake the NIC thread behind shmd_dev_qp.wake_handle (write 1 to the eventfd). */
void shmd_dev_host_wake(uint64_t wake_handle);

#ifdef __cplusplus
}
#endif

#endif

#endif
