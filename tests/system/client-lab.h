/* SPDX-License-Identifier: Apache-2.0 */
/* The first steps of every test of the client library, against a private daemon ("tests/lib/fixture-daemon.h"). */
#ifndef SHMEMD_TESTS_CLIENT_LAB_H
#define SHMEMD_TESTS_CLIENT_LAB_H

#include <shmemclient.h>
#include <shmd/dev/rma.h>

#include "tests/lib/fixture-daemon.h"

#define LAB_MEM_BYTES 65536u

/* One process's worth: client, NIC, memory with all access, and queues. */
struct lab_side {
	struct shmd_client *client;
	struct shmd_nic *nic;
	struct shmd_mem *mem;
	struct shmd_mr *mr;
	struct shmd_queues *queues;
};

struct shmd_client *lab_client(const struct fixture_daemon *daemon);
struct shmd_client *lab_control(const struct fixture_daemon *daemon); /* of SHMD_ROLE_CONTROL */
/* timeout_nsec: of each request; 0: the library's. */
struct shmd_client *lab_client_limited(const struct fixture_daemon *daemon, uint64_t timeout_nsec);
void lab_side_open(struct lab_side *side, const struct fixture_daemon *daemon, const struct shmd_queues_attr *attr);
/* The same with a client that is open. */
void lab_side_open_on(struct lab_side *side, struct shmd_client *client, const struct shmd_queues_attr *attr);
void lab_side_close(struct lab_side *side);
/* QP i of a to QP k of b and back. */
void lab_connect(struct lab_side *a, unsigned int i, struct lab_side *b, unsigned int k);

/* A byte of a side's memory, as this process and as work requests see it. */
uint8_t *lab_byte(const struct lab_side *side, size_t offset);
struct shmd_dev_addr lab_local(const struct lab_side *side, size_t offset);
struct shmd_dev_addr lab_remote(const struct lab_side *side, size_t offset);

#endif
