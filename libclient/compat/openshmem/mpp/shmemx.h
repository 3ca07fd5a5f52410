/* SPDX-License-Identifier: Apache-2.0 */
/* Deprecated place of <shmemx.h>. */
#include <shmemx.h>
