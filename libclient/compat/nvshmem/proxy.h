/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread of the host for kernels: it ends the job when a kernel calls nvshmem_global_exit(), and in a job with queues carries out what kernels without code for queues
 * ask for (Triton kernels with bitcode up to 3.4).
 */
#ifndef SHMD_NVSHMEM_PROXY_H
#define SHMD_NVSHMEM_PROXY_H

#include "libclient/compat/nvshmem/nvs.h"

struct nvs_request;

/* Collective, once it is known whether there are queues; before sets. The facts have where kernels ask for the end then. */
int nvs_proxy_make(void);
/* While all PEs are there: completes requests in their order, up to the first that lacks words, and ends the thread. Kernels write no more. */
void nvs_proxy_finish(void);
/* Before the world is closed; finishes first. Both do nothing if there is no proxy. */
void nvs_proxy_drop(void);
/* Kernels of this PE may ask from now on, with this channel in their state. */
void nvs_proxy_open_channel(struct nvs_facts *facts);

/* ---- between its files */

/* Where the runtime reads or writes the local side. -EINVAL: it cannot. */
int nvs_proxy_local(const struct nvs_request *request, void **ret_local);

#endif
