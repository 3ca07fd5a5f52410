/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reference: a kernel stores 64 bytes to host memory, fences and sets a flag; a CPU thread sees the flag and sets the
 * answer; the kernel sees that. The least cost of a request and its completion between a GPU and a CPU.
 */
#include <pthread.h>
#include <stdint.h>

#include "ref-gpu.h"

struct mailbox {
	alignas(128) ulonglong2 payload[4];
	alignas(128) volatile uint64_t flag;
	alignas(128) volatile uint64_t answer;
	uint64_t rounds;
	uint64_t nsec;
};

static __global__ void mailbox_kernel(struct mailbox *box)
{
	uint64_t start, end;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
	for (uint64_t i = 1; i <= box->rounds; i++) {
		for (int k = 0; k < 4; k++)
			box->payload[k] = make_ulonglong2(i, i);
		__threadfence_system();
		box->flag = i;
		while (box->answer != i) {}
	}
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end));
	box->nsec = end - start;
}

static void *answer(void *arg)
{
	struct mailbox *box = (struct mailbox *)arg;
	for (uint64_t i = 1; i <= box->rounds; i++) {
		while (box->flag != i) {}
		box->answer = i;
	}
	return NULL;
}

double ref_mailbox_nsec(uint64_t rounds)
{
	struct mailbox *box;
	pthread_t thread;

	if (cudaMallocHost((void **)&box, sizeof(*box)) != cudaSuccess)
		return -1;
	box->flag = box->answer = 0;
	box->rounds = rounds;
	if (pthread_create(&thread, NULL, answer, box))
		return -1;
	mailbox_kernel<<<1, 1>>>(box);
	pthread_join(thread, NULL);
	return cudaDeviceSynchronize() == cudaSuccess ? (double)box->nsec / (double)rounds : -1;
}
