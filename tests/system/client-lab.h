/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A private daemon with soft NICs for one test, and the steps every test of the client begins with.
 *
 * The daemon is $SHMEMD_BINARY, else the one of this build; it is a child and dies with the test.
 */
#ifndef SHMEMD_TESTS_CLIENT_LAB_H
#define SHMEMD_TESTS_CLIENT_LAB_H

#include <sys/types.h>

#include <shmemclient.h>
#include <shmd/dev/rma.h>

#define LAB_SEC 1000000000ull
#define LAB_MEM_BYTES 65536u

struct lab_daemon {
	pid_t pid;
	char folder[96];
	char socket[128];
};

/* Starts it and waits until it answers; the second form passes one more option and its value. */
void lab_daemon_start(struct lab_daemon *daemon);
void lab_daemon_start_with(struct lab_daemon *daemon, const char *option, const char *value);
void lab_daemon_stop(struct lab_daemon *daemon); /* must end with success */
void lab_daemon_kill(struct lab_daemon *daemon);

/* One process's worth: client, NIC, memory with all access, and queues. */
struct lab_side {
	struct shmd_client *client;
	struct shmd_nic *nic;
	struct shmd_mem *mem;
	struct shmd_mr *mr;
	struct shmd_queues *queues;
};

struct shmd_client *lab_client(const struct lab_daemon *daemon);
void lab_side_open(struct lab_side *side, const struct lab_daemon *daemon, const struct shmd_queues_attr *attr);
void lab_side_close(struct lab_side *side);
/* QP i of a to QP k of b and back. */
void lab_connect(struct lab_side *a, unsigned int i, struct lab_side *b, unsigned int k);

/* A byte of a side's memory, as this process and as work requests see it. */
uint8_t *lab_byte(const struct lab_side *side, size_t offset);
struct shmd_dev_addr lab_local(const struct lab_side *side, size_t offset);
struct shmd_dev_addr lab_remote(const struct lab_side *side, size_t offset);

uint64_t lab_now_nsec(void);

#endif
