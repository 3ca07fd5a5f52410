/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the C build of the device functions asks of its surroundings.
 *
 * Device functions make no system call. A CPU thread that waits, looks at the clock or wakes a sleeping NIC thread does
 * it through these three functions; a program that links libshmemclient has them, any other supplies its own. CUDA
 * code needs none of them.
 */
#ifndef SHMD_DEV_HOOKS_H
#define SHMD_DEV_HOOKS_H

#include <shmd/dev/impl/annotate.h>

#if !SHMDI_CUDA

#ifdef __cplusplus
extern "C" {
#endif

/* A clock that only goes forward, in nsec. Called in wait loops only. */
uint64_t shmd_dev_host_now_nsec(void);

/*
 * One round of waiting; `round` counts from 1 in each wait. Expected to spin for the first rounds, then yield, then
 * sleep for growing, bounded times: the caller looks at its time limit between two rounds.
 */
void shmd_dev_host_relax(uint32_t round);

/* Wake the NIC thread behind shmd_dev_qp.wake_handle (write 1 to the eventfd). */
void shmd_dev_host_wake(uint64_t wake_handle);

#ifdef __cplusplus
}
#endif

#endif

#endif
