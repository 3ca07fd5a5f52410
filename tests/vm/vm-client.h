/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_VM_VM_CLIENT_H
#define SHMD_TESTS_VM_VM_CLIENT_H

/* The start of the clients of the VM lab's cases. A failure prints its reason and ends the program with status 1. */

#include <stdint.h>

#include <shmemclient.h>
#include <shmd/dev/rma.h>

#define VM_SEC 1000000000ull
#define VM_PUT_NSEC (60 * VM_SEC) /* on an emulated CPU */

struct vm_memory {
	uint64_t outbox;
	uint64_t inbox;
	uint64_t silent; /* stays 0 */
};

struct vm_client {
	struct shmd_client *client;
	struct shmd_nic *nic;
	struct vm_memory *memory;
	struct shmd_mr *mr;
};

void vm_must(int r, const char *what);
void vm_must_dev(int status, const char *what);

/* A session with memory on this NIC, or on the best for NULL. */
void vm_client_open(struct vm_client *c, const char *nic);
/* A batch of queues, of which each is connected to the one that has its number in `to`. */
struct shmd_queues *vm_client_queues(struct vm_client *c, const struct shmd_queues_attr *attr, const unsigned int *to);
/* From the outbox to the inbox, with this key; its status. */
int vm_client_put(struct vm_client *c, struct shmd_dev_qp *qp, uint64_t value, shmd_be32 rkey_be);
/* A put, and what it has put. */
void vm_client_check(struct vm_client *c, struct shmd_dev_qp *qp);

#endif
