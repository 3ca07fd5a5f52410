/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libshmd_device.a: the plain functions of <shmd/dev/rma.h> as external device functions, compiled once, for units that
 * say SHMD_DEV_USE_LIBRARY. Nothing else of it is visible.
 */
#define SHMDI_MAKE_LIBRARY 1

#include <shmd/dev/rma.h>
