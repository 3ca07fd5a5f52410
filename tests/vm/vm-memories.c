/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client for the cases of the VM lab that has more memory than the service manager gets names: 150 regions, each of memory of its
 * own. It puts into all of them, one after the other, registers some anew, and ends with SIGTERM after a whole round.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "vm-client.h"

#define N_MEMORIES 150u

struct memory {
	struct shmd_mem *mem;
	struct shmd_mr *mr;
};

static volatile sig_atomic_t stop;

static void on_term(int sig)
{
	stop = 1;
}

static void reg(struct vm_client *c, struct memory *memory)
{
	vm_must(shmd_mem_alloc(c->client, 4096, &memory->mem), "memory");
	vm_must(shmd_mr_reg_mem(c->nic, memory->mem, SHMD_ACCESS_ALL, &memory->mr), "register");
}

static void dereg(struct memory *memory)
{
	vm_must(shmd_mr_dereg(memory->mr), "deregister");
	shmd_mem_free(memory->mem);
}

static void put_to(struct vm_client *c, struct shmd_dev_qp *qp, const struct memory *memory, uint64_t value)
{
	uint64_t *to = shmd_mem_addr(memory->mem);

	c->memory->outbox = value;
	vm_must_dev(shmd_dev_qp_put(qp, shmd_dev_addr_of((uintptr_t)to, shmd_mr_rkey_be(memory->mr)),
				    shmd_dev_addr_of((uintptr_t)&c->memory->outbox, shmd_mr_lkey_be(c->mr)), sizeof(value),
				    10 * VM_PUT_NSEC),
		    "put");
	if (*to == value)
		return;
	fprintf(stderr, "a put did not reach its memory\n");
	exit(EXIT_FAILURE);
}

int main(void)
{
	const struct shmd_queues_attr attr = {.n_qps = 1};
	static struct memory memories[N_MEMORIES];
	const unsigned int itself = 0;
	unsigned int round = 0;
	struct shmd_dev_qp *qp;
	struct vm_client c;

	signal(SIGTERM, on_term);
	vm_client_open(&c, NULL);
	qp = shmd_queues_dev_qp(vm_client_queues(&c, &attr, &itself), 0);
	for (unsigned int i = 0; i < N_MEMORIES; i++)
		reg(&c, &memories[i]);
	printf("%u memories\n", N_MEMORIES);
	fflush(stdout);
	do {
		for (unsigned int i = 0; i < N_MEMORIES; i++)
			put_to(&c, qp, &memories[i], round * N_MEMORIES + i + 1);
		for (unsigned int i = round % 7; i < N_MEMORIES; i += 7) {
			dereg(&memories[i]);
			reg(&c, &memories[i]);
		}
		usleep(10000);
		round++;
	} while (!stop);
	printf("%u rounds\n", round);
	shmd_client_close(c.client);
	return 0;
}
