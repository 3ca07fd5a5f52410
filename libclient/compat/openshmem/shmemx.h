/* SPDX-License-Identifier: Apache-2.0 */
/* Extensions of OpenSHMEM: the specification asks for this header. There are none; <shmd.h> has what this library stands on. */
#ifndef SHMEMX_H
#define SHMEMX_H

#include <shmem.h>

#endif
