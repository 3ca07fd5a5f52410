/* SPDX-License-Identifier: Apache-2.0 */
#include "vm-client.h"

#include <stdio.h>
#include <stdlib.h>

#define VALUE 0x5a5a5a5aull
#define MAX_QPS 2

void vm_must(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, shmd_error_text());
	exit(1);
}

void vm_must_dev(int status, const char *what)
{
	if (status == SHMD_DEV_OK)
		return;
	fprintf(stderr, "%s: %s\n", what, shmd_dev_status_text(status));
	exit(1);
}

void vm_client_open(struct vm_client *c, const char *nic)
{
	/* The first client waits for the daemon's start, too. */
	const struct shmd_client_attr patient = {.timeout_nsec = 4 * VM_PUT_NSEC};
	const struct shmd_nic_attr best_or_named = {.nic = nic};
	struct shmd_mem *mem;

	setvbuf(stdout, NULL, _IOLBF, 0);
	vm_must(shmd_client_open(&patient, &c->client), "session");
	vm_must(shmd_nic_open(c->client, &best_or_named, &c->nic), "NIC");
	vm_must(shmd_mem_alloc(c->client, sizeof(*c->memory), &mem), "memory");
	vm_must(shmd_mr_reg_mem(c->nic, mem, SHMD_ACCESS_ALL, &c->mr), "registration");
	c->memory = shmd_mem_addr(mem);
}

struct shmd_queues *vm_client_queues(struct vm_client *c, const struct shmd_queues_attr *attr, const unsigned int *to)
{
	struct shmd_addr addresses[MAX_QPS];
	struct shmd_queues *queues;

	vm_must(shmd_queues_create(c->nic, attr, &queues), "queues");
	for (unsigned int i = 0; i < attr->n_qps; i++)
		vm_must(shmd_queues_addr(queues, to[i], &addresses[i]), "address");
	vm_must(shmd_queues_connect(queues, 0, attr->n_qps, addresses, NULL, NULL), "connection");
	return queues;
}

int vm_client_put(struct vm_client *c, struct shmd_dev_qp *qp, uint64_t value, shmd_be32 rkey_be)
{
	c->memory->outbox = value;
	return shmd_dev_qp_put(qp, shmd_dev_addr_of((uintptr_t)&c->memory->inbox, rkey_be),
			       shmd_dev_addr_of((uintptr_t)&c->memory->outbox, shmd_mr_lkey_be(c->mr)),
			       sizeof(c->memory->outbox), VM_PUT_NSEC);
}

void vm_client_check(struct vm_client *c, struct shmd_dev_qp *qp)
{
	vm_must_dev(vm_client_put(c, qp, VALUE, shmd_mr_rkey_be(c->mr)), "put");
	vm_must_dev(shmd_dev_qp_wait_until64(qp, &c->memory->inbox, SHMD_DEV_CMP_EQ, VALUE, VM_PUT_NSEC), "what was put");
}
