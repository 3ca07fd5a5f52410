/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client for the cases of the VM lab: puts a word to itself, says so, and waits for another one that nobody sends.
 * Says when (CLOCK_MONOTONIC) and why the wait ended, and why the session did. Takes the name of a NIC, or the best.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <shmemclient.h>
#include <shmd/dev/rma.h>

#define SEC 1000000000ull
#define PUT_NSEC (60 * SEC)
#define WAIT_NSEC (600 * SEC)
#define VALUE 0x5a5a5a5aull

struct memory {
	uint64_t outbox;
	uint64_t inbox;
	uint64_t silent; /* stays 0 */
};

static void must(int r, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, shmd_error_text());
	exit(1);
}

static void must_dev(int status, const char *what)
{
	if (status == SHMD_DEV_OK)
		return;
	fprintf(stderr, "%s: %s\n", what, shmd_dev_status_text(status));
	exit(1);
}

static double now_sec(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void put_to_itself(struct shmd_dev_qp *qp, struct memory *memory, const struct shmd_mr *mr)
{
	memory->outbox = VALUE;
	must_dev(shmd_dev_qp_put(qp, shmd_dev_addr_of((uintptr_t)&memory->inbox, shmd_mr_rkey_be(mr)),
				 shmd_dev_addr_of((uintptr_t)&memory->outbox, shmd_mr_lkey_be(mr)),
				 sizeof(memory->outbox), PUT_NSEC),
		 "put");
	must_dev(shmd_dev_qp_wait_until64(qp, &memory->inbox, SHMD_DEV_CMP_EQ, VALUE, PUT_NSEC), "what was put");
}

static void say_why(struct shmd_client *client, int status)
{
	struct shmd_event event;
	double ended = now_sec();
	int r;

	printf("wait ended at %.3f: %s\n", ended, shmd_dev_status_text(status));
	printf("health: %s\n", shmd_health_text(shmd_client_health(client)));
	while ((r = shmd_event_next(client, 10 * SEC, &event)) >= 0)
		printf("event: %s\n", event.text);
	printf("session: %s\n", shmd_error_text());
}

int main(int argc, char **argv)
{
	/* The first client waits for the daemon's start, too, on an emulated CPU. */
	const struct shmd_client_attr patient = {.timeout_nsec = 4 * PUT_NSEC};
	const struct shmd_nic_attr best_or_named = {.nic = argc > 1 ? argv[1] : NULL, .doorbell = -1};
	const struct shmd_queues_attr attr = {.n_qps = 1};
	struct shmd_client *client;
	struct shmd_queues *queues;
	struct shmd_addr address;
	struct shmd_dev_qp *qp;
	struct memory *memory;
	struct shmd_nic *nic;
	struct shmd_mem *mem;
	struct shmd_mr *mr;

	setvbuf(stdout, NULL, _IOLBF, 0);
	must(shmd_client_open(&patient, &client), "session");
	must(shmd_nic_open(client, &best_or_named, &nic), "NIC");
	must(shmd_mem_alloc(client, sizeof(*memory), &mem), "memory");
	must(shmd_mr_reg_mem(nic, mem, SHMD_ACCESS_ALL, &mr), "registration");
	must(shmd_queues_create(nic, &attr, &queues), "queues");
	must(shmd_queues_addr(queues, 0, &address), "address");
	must(shmd_queues_connect(queues, 0, 1, &address, NULL, NULL), "connection");

	qp = shmd_queues_dev_qp(queues, 0);
	memory = shmd_mem_addr(mem);
	put_to_itself(qp, memory, mr);
	printf("session %" PRIu64 " waits\n", shmd_client_session(client));
	say_why(client, shmd_dev_qp_wait_until64(qp, &memory->silent, SHMD_DEV_CMP_EQ, 1, WAIT_NSEC));
	shmd_client_close(client);
	return 0;
}
