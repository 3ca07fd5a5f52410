/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/client-lab.h"

#include "tests/lib/test.h"

static void must(int r, const char *what)
{
	if (r < 0)
		test_fail(TEST_WHERE, "%s: %s", what, shmd_error_text());
}

struct shmd_client *lab_client_limited(const struct fixture_daemon *daemon, uint64_t timeout_nsec)
{
	struct shmd_client_attr attr = {.socket_path = daemon->socket, .timeout_nsec = timeout_nsec};
	struct shmd_client *client;

	must(shmd_client_open(&attr, &client), "client");
	return client;
}

struct shmd_client *lab_client(const struct fixture_daemon *daemon)
{
	return lab_client_limited(daemon, 0);
}

struct shmd_client *lab_control(const struct fixture_daemon *daemon)
{
	struct shmd_client_attr attr = {.socket_path = daemon->socket, .role = SHMD_ROLE_CONTROL};
	struct shmd_client *client;

	must(shmd_client_open(&attr, &client), "control");
	return client;
}

void lab_side_open(struct lab_side *side, const struct fixture_daemon *daemon, const struct shmd_queues_attr *attr)
{
	lab_side_open_on(side, lab_client(daemon), attr);
}

void lab_side_open_on(struct lab_side *side, struct shmd_client *client, const struct shmd_queues_attr *attr)
{
	side->client = client;
	must(shmd_nic_open(side->client, NULL, &side->nic), "nic");
	must(shmd_mem_alloc(side->client, LAB_MEM_BYTES, &side->mem), "mem");
	must(shmd_mr_reg_mem(side->nic, side->mem, SHMD_ACCESS_ALL, &side->mr), "mr");
	must(shmd_queues_create(side->nic, attr, &side->queues), "queues");
}

void lab_side_close(struct lab_side *side)
{
	must(shmd_queues_destroy(side->queues), "queues");
	must(shmd_mr_dereg(side->mr), "mr");
	shmd_mem_free(side->mem);
	must(shmd_nic_close(side->nic), "nic");
	shmd_client_close(side->client);
}

void lab_connect(struct lab_side *a, unsigned int i, struct lab_side *b, unsigned int k)
{
	struct shmd_addr of_a, of_b;

	must(shmd_queues_addr(a->queues, i, &of_a), "addr");
	must(shmd_queues_addr(b->queues, k, &of_b), "addr");
	must(shmd_queues_connect(a->queues, i, 1, &of_b, NULL, NULL), "connect");
	if (a != b || i != k)
		must(shmd_queues_connect(b->queues, k, 1, &of_a, NULL, NULL), "connect");
}

uint8_t *lab_byte(const struct lab_side *side, size_t offset)
{
	return (uint8_t *)shmd_mem_addr(side->mem) + offset;
}

struct shmd_dev_addr lab_local(const struct lab_side *side, size_t offset)
{
	return shmd_dev_addr_of((uintptr_t)lab_byte(side, offset), shmd_mr_lkey_be(side->mr));
}

struct shmd_dev_addr lab_remote(const struct lab_side *side, size_t offset)
{
	return shmd_dev_addr_of((uintptr_t)lab_byte(side, offset), shmd_mr_rkey_be(side->mr));
}
