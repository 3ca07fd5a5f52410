/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes that write to each other's memory through queues of shmemd.
 *
 * Build and run it while shmemd runs:
 *
 *	cc pair.c -o pair $(pkg-config --cflags --libs shmemclient)
 *	./pair
 *
 * The parent is PE 0, the child PE 1. Each opens a session of its own, registers memory and makes one queue pair. One call connects
 * the two. Then PE 0 puts a message with a signal behind it, and PE 1 answers. The lines of talk() work in a CUDA kernel too.
 */
#include <stddef.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmemclient.h>
#include <shmd/dev/rma.h>

#define SEC 1000000000ull

/* The memory of each PE. The other one writes inbox and signal. */
struct memory {
	char outbox[64];
	char inbox[64];
	uint64_t signal;
};

/* How a PE reaches the memory of the other. */
struct offer {
	uint64_t iova;
	shmd_be32 rkey_be;
};

struct pe {
	uint32_t number;
	struct shmd_client *client;
	struct shmd_nic *nic;
	struct shmd_mem *mem;
	struct shmd_mr *mr;
	struct shmd_queues *queues;
	struct offer peer;
};

static int set_up(struct pe *pe)
{
	/* Every field that is left out is 0, which means its default. */
	const struct shmd_queues_attr attr = {.n_qps = 1};

	if (shmd_client_open(NULL, &pe->client) < 0 || shmd_nic_open(pe->client, NULL, &pe->nic) < 0 ||
	    shmd_mem_alloc(pe->client, sizeof(struct memory), &pe->mem) < 0 ||
	    shmd_mr_reg_mem(pe->nic, pe->mem, SHMD_ACCESS_ALL, &pe->mr) < 0)
		return -1;
	return shmd_queues_create(pe->nic, &attr, &pe->queues);
}

/* Returns when both sides are connected and each knows the other's memory. */
static int connect_to_peer(struct pe *pe, const struct shmd_world_key *world)
{
	const struct shmd_pair_attr attr = {.world = *world, .pe = pe->number};
	const struct offer own = {(uintptr_t)shmd_mem_addr(pe->mem), shmd_mr_rkey_be(pe->mr)};
	struct shmd_pair pair = {
		.pe = 1 - pe->number,
		.data = &own,
		.bytes = sizeof(own),
		.peer_data = &pe->peer,
		.peer_bytes = sizeof(pe->peer),
	};

	return shmd_pair_connect(pe->queues, &attr, &pair, 1);
}

static struct shmd_dev_addr at_peer(const struct pe *pe, size_t offset)
{
	/* bounded by sizeof(struct memory), all of which the peer has registered */
	return shmd_dev_addr_of(pe->peer.iova + offset, pe->peer.rkey_be);
}

/* The peer sees the signal after the message. */
static int tell(struct pe *pe, struct shmd_dev_qp *qp, const char *text)
{
	struct memory *memory = shmd_mem_addr(pe->mem);
	struct shmd_dev_addr outbox = shmd_dev_addr_of((uintptr_t)memory->outbox, shmd_mr_lkey_be(pe->mr));
	struct shmd_dev_addr inbox = at_peer(pe, offsetof(struct memory, inbox));
	struct shmd_dev_addr word = at_peer(pe, offsetof(struct memory, signal));

	snprintf(memory->outbox, sizeof(memory->outbox), "%s", text);
	return shmd_dev_qp_put_signal(qp, inbox, outbox, sizeof(memory->outbox),
				      shmd_dev_signal_of(word, SHMD_DEV_SIGNAL_SET, 1), 10 * SEC);
}

static int hear(struct pe *pe, struct shmd_dev_qp *qp)
{
	const struct memory *memory = shmd_mem_addr(pe->mem);
	int rc = shmd_dev_qp_wait_until64(qp, &memory->signal, SHMD_DEV_CMP_EQ, 1, 10 * SEC);

	if (!rc) {
		printf("PE %u got: %s\n", pe->number, memory->inbox);
		fflush(stdout);
	}
	return rc;
}

static int talk(struct pe *pe)
{
	struct shmd_dev_qp *qp = shmd_queues_dev_qp(pe->queues, 0);
	int rc = pe->number ? hear(pe, qp) : tell(pe, qp, "hello");

	if (!rc)
		rc = pe->number ? tell(pe, qp, "hello yourself") : hear(pe, qp);
	return rc;
}

static int run(uint32_t number, const struct shmd_world_key *world, pid_t child)
{
	struct pe pe = {.number = number};
	int rc = SHMD_DEV_OK, status = 0;

	if (set_up(&pe) < 0 || connect_to_peer(&pe, world) < 0) {
		fprintf(stderr, "PE %u: %s\n", number, shmd_error_text());
		status = 1;
	} else {
		rc = talk(&pe);
	}
	if (rc == SHMD_DEV_CQE_ERROR)
		fprintf(stderr, "PE %u: %s\n", number, shmd_syndrome_text(shmd_dev_qp_error(shmd_queues_dev_qp(pe.queues, 0), NULL)));
	else if (rc)
		fprintf(stderr, "PE %u: %s\n", number, shmd_dev_status_text(rc));
	/* PE 1 may still wait for the NIC of PE 0, which goes with its session. */
	if (child > 0 && (waitpid(child, &status, 0) < 0 || status))
		status = 1;
	/* Destroys all that the session has. */
	shmd_client_close(pe.client);
	return rc || status;
}

int main(void)
{
	struct shmd_world_key world;
	pid_t child;

	/* Whoever has the secret and the uid may pair. Between programs it comes from whatever starts them. */
	if (getrandom(world.secret, sizeof(world.secret), 0) != (ssize_t)sizeof(world.secret)) {
		perror("getrandom");
		return 1;
	}
	/* Before a session is open: it belongs to one process. */
	child = fork();
	if (child < 0) {
		perror("fork");
		return 1;
	}
	return run(child ? 0 : 1, &world, child);
}
