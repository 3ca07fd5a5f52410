/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_UNIT_NIC_KERNEL_OBJECTS_H
#define SHMD_TESTS_UNIT_NIC_KERNEL_OBJECTS_H

/* The kernel's own list of the objects of a ConnectX context. */

#include <stdint.h>

/* How many of one kind (UVERBS_OBJECT_PD, MLX5_IB_OBJECT_UAR); -1: of a NIC that is gone. */
int kernel_objects(int command_fd, uint64_t kind);

#endif
