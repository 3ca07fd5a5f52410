/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seeds of fuzz-dispatch: whole sessions, as records that fuzz-dispatch.c carries out. A seed is a function that calls those here; each
 * group of messages has a file of seeds.
 */
#ifndef SHMEMD_TESTS_FUZZ_DISPATCH_SEEDS_H
#define SHMEMD_TESTS_FUZZ_DISPATCH_SEEDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/codec.h"

#define SEED_DEED(n) (uint8_t)((n) << 1 | 0x80)

struct dispatch_seed {
	const char *name; /* NULL: the end of a table */
	void (*write)(void);
};

extern const struct dispatch_seed dispatch_admin_seeds[], dispatch_connect_seeds[], dispatch_memory_seeds[], dispatch_nic_seeds[],
	dispatch_queue_seeds[], dispatch_session_seeds[];

/* A new seed, and its bytes when it is whole. */
void seed_start(void);
size_t seed_bytes(const uint8_t **ret_bytes);

void seed_record(uint8_t what, uint8_t fds, const void *data, size_t bytes);
/* A message of this client, 0 or 1. Kinds of descriptors as in fuzz-dispatch.c. */
void seed_say(unsigned int client, struct msg *msg, uint8_t fds);
void seed_read_nothing(void); /* from now on */
void seed_last_id_is(uint64_t id);

/* Messages that many seeds have. */
void seed_hello(unsigned int client, enum msg_role role);
void seed_open_named(unsigned int client, const char *nic, const char *gpu, uint32_t doorbell);
void seed_open_nic(unsigned int client);
void seed_begin(void); /* a client with a NIC */
void seed_reg(unsigned int client, uint8_t fd);
void seed_create(unsigned int client, uint32_t n_qps, bool own_memory);
void seed_create_as(const struct msg_queue_create_req *req, uint8_t fd); /* of client 0 */
void seed_handle(unsigned int client, enum msg_kind kind, uint32_t number);
void seed_qp(unsigned int client, enum msg_kind kind, uint32_t state);
void seed_list(unsigned int client); /* every kind, and the status */
void seed_plain(unsigned int client, enum msg_kind kind);

#endif
