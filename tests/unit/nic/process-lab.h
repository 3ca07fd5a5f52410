/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_UNIT_NIC_PROCESS_LAB_H
#define SHMD_TESTS_UNIT_NIC_PROCESS_LAB_H

/* Two users whose executors are in processes of their own, and what becomes of these. */

#include <stdint.h>
#include <sys/types.h>

#include "daemon/nic/nic.h"

/* Others test at the same time. */
uint32_t alice(void);
uint32_t bob(void);
void nap(uint64_t nsec);
/* The process of this user, or 0. */
pid_t process_of(uint32_t uid);
void expect_gone(pid_t pid);
void wait_event(struct nic *nic, struct nic_event *ret_event);

#endif
