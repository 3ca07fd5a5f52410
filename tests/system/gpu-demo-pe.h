/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMEMD_GPU_DEMO_PE_H
#define SHMEMD_GPU_DEMO_PE_H

#include "demo.h"

/* One PE from start to end, in the thread that calls it, on the GPU with this number. False after any failure. */
bool gpu_demo_pe_main(struct demo_shared *shared, unsigned int me, int gpu, bool host_memory);

#endif
