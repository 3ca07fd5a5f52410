/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory behind a NIC in software: the real daemon, the library's memory agent, a CUDA driver over host memory. The owner of the
 * memory is a process of its own, so it can die or stop while a peer uses its memory.
 */
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/fake-cuda.h"
#include "tests/lib/test.h"
#include "tests/system/client-lab.h"

#define GPU_BYTES 262144u
#define LIMIT (60 * NSEC_PER_SEC)

static const struct shmd_queues_attr one_qp = {.n_qps = 1, .sq_wqebbs = 64, .sharing = SHMD_SHARING_GPU};

/* The two processes send it to each other. */
struct hello {
	struct shmd_addr qp;
	uint64_t iova;
	shmd_be32 rkey_be;
};

struct pair {
	struct fixture_daemon daemon;
	struct lab_side side; /* this process */
	pid_t owner;
	int sock;
	struct hello memory; /* of the owner */
};

static void say(int sock, const void *bytes, size_t n)
{
	ASSERT_EQ(send(sock, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
}

static void hear(int sock, void *bytes, size_t n)
{
	ASSERT_EQ(recv(sock, bytes, n, MSG_WAITALL), (ssize_t)n);
}

/* ---- the owner of GPU memory ----------------------------------------------------------------------------------------- */

/* From and to the peer's memory, with payload in GPU memory: what it put comes back. */
static void initiate(struct lab_side *side, const struct shmd_gpu_mem_info *info, const struct hello *peer)
{
	struct shmd_dev_qp *qp = shmd_queues_dev_qp(side->queues, 0);
	struct shmd_dev_addr remote = shmd_dev_addr_of(peer->iova, peer->rkey_be);
	shmd_be32 lkey_be = shmd_mr_lkey_be(info->mr);
	uint8_t *at = (uint8_t *)(uintptr_t)info->addr;

	for (size_t i = 0; i < 20000; i++)
		at[i] = (uint8_t)(i * 7);
	ASSERT_EQ(shmd_dev_qp_put(qp, remote, shmd_dev_addr_of(info->iova, lkey_be), 20000, LIMIT), SHMD_DEV_OK);
	ASSERT_EQ(shmd_dev_qp_get(qp, remote, shmd_dev_addr_of(info->iova + 20001, lkey_be), 20000, LIMIT), SHMD_DEV_OK);
	ASSERT_MEMEQ(at, at + 20001, 20000);
}

/* Answers 'm' with its memory, 'i' after it has been the initiator; ends when the peer hangs up. */
static void own(const struct fixture_daemon *daemon, int sock)
{
	const struct shmd_gpu_mem_attr attr = {.bytes = GPU_BYTES, .access = SHMD_ACCESS_ALL};
	struct shmd_gpu_mem_info info;
	struct shmd_gpu_mem *mem;
	struct lab_side side;
	struct shmd_gpu *gpu;
	struct hello hello, peer;
	char what;

	lab_side_open(&side, daemon, &one_qp);
	ASSERT_OK(shmd_gpu_open(side.client, 1, &gpu));
	ASSERT_OK(shmd_gpu_mem_alloc(gpu, side.nic, &attr, &mem));
	ASSERT_OK(shmd_gpu_mem_info(mem, &info));
	ASSERT_EQ(info.mode, SHMD_GPU_MEM_AGENT);
	memset((void *)(uintptr_t)info.addr, 0, GPU_BYTES);
	fake_cuda_put_off(2);
	hello = (struct hello){.iova = info.iova, .rkey_be = shmd_mr_rkey_be(info.mr)};
	ASSERT_OK(shmd_queues_addr(side.queues, 0, &hello.qp));
	say(sock, &hello, sizeof(hello));
	hear(sock, &peer, sizeof(peer));
	ASSERT_OK(shmd_queues_connect(side.queues, 0, 1, &peer.qp, NULL, NULL));
	say(sock, "r", 1);
	while (recv(sock, &what, 1, 0) == 1) {
		if (what == 'i')
			initiate(&side, &info, &peer);
		say(sock, (const void *)(uintptr_t)info.addr, what == 'i' ? 1 : GPU_BYTES);
	}
	fake_cuda_put_off(0);
	ASSERT_OK(shmd_gpu_mem_free(mem));
	ASSERT_OK(shmd_gpu_close(gpu));
	lab_side_close(&side);
}

static void pair_open(struct pair *pair)
{
	struct hello mine;
	int socks[2];
	char ready;

	fixture_daemon_start(&pair->daemon, NULL);
	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks));
	pair->owner = fork();
	if (!pair->owner) {
		close(socks[0]);
		own(&pair->daemon, socks[1]);
		_exit(0);
	}
	close(socks[1]);
	pair->sock = socks[0];
	lab_side_open(&pair->side, &pair->daemon, &one_qp);
	hear(pair->sock, &pair->memory, sizeof(pair->memory));
	mine = (struct hello){.iova = (uintptr_t)lab_byte(&pair->side, 0), .rkey_be = shmd_mr_rkey_be(pair->side.mr)};
	ASSERT_OK(shmd_queues_addr(pair->side.queues, 0, &mine.qp));
	ASSERT_OK(shmd_queues_connect(pair->side.queues, 0, 1, &pair->memory.qp, NULL, NULL));
	say(pair->sock, &mine, sizeof(mine));
	hear(pair->sock, &ready, 1);
}

/* `status`: of the owner, as waitpid() has it. */
static void pair_close(struct pair *pair, int status)
{
	int ended;

	close(pair->sock);
	ASSERT_EQ(waitpid(pair->owner, &ended, 0), pair->owner);
	ASSERT_EQ(ended, status);
	lab_side_close(&pair->side);
	fixture_daemon_stop(&pair->daemon);
}

static struct shmd_dev_addr at_owner(const struct pair *pair, uint64_t offset)
{
	return shmd_dev_addr_of(pair->memory.iova + offset, pair->memory.rkey_be);
}

static struct shmd_dev_qp *qp_of(const struct pair *pair)
{
	return shmd_queues_dev_qp(pair->side.queues, 0);
}

/* ---- tests ----------------------------------------------------------------------------------------------------------- */

TEST(puts_gets_and_atomics_of_a_peer_reach_gpu_memory)
{
	static uint8_t memory[GPU_BYTES];
	struct pair pair;
	struct shmd_dev_qp *qp;
	uint64_t value = 0, old = 0;

	pair_open(&pair);
	qp = qp_of(&pair);
	for (size_t i = 0; i < 30000; i++)
		*lab_byte(&pair.side, i) = (uint8_t)(i * 5);
	ASSERT_EQ(shmd_dev_qp_put(qp, at_owner(&pair, 1000), lab_local(&pair.side, 0), 30000, LIMIT), SHMD_DEV_OK);
	for (uint64_t i = 0; i < 100; i++) {
		ASSERT_EQ(shmd_dev_qp_p(qp, at_owner(&pair, 0), i, 8), SHMD_DEV_OK);
		ASSERT_EQ(shmd_dev_qp_g(qp, at_owner(&pair, 0), 8, LIMIT, &value), SHMD_DEV_OK);
		ASSERT_EQ(value, i);
		ASSERT_EQ(shmd_dev_qp_atomic_fetch_add(qp, at_owner(&pair, 8), 8, 3, LIMIT, &old), SHMD_DEV_OK);
		ASSERT_EQ(old, 3 * i);
		ASSERT_EQ(shmd_dev_qp_atomic_fetch_add(qp, at_owner(&pair, 20), 4, 1, LIMIT, &old), SHMD_DEV_OK);
		ASSERT_EQ(old, i);
	}
	ASSERT_EQ(shmd_dev_qp_get(qp, at_owner(&pair, 1000), lab_local(&pair.side, 32768), 30000, LIMIT), SHMD_DEV_OK);
	ASSERT_MEMEQ(lab_byte(&pair.side, 0), lab_byte(&pair.side, 32768), 30000);
	say(pair.sock, "m", 1);
	hear(pair.sock, memory, sizeof(memory));
	ASSERT_MEMEQ(memory + 1000, lab_byte(&pair.side, 0), 30000);
	memcpy(&value, memory + 8, 8);
	ASSERT_EQ(value, 300);
	pair_close(&pair, 0);
}

TEST(payload_in_gpu_memory_goes_to_a_peer_and_back)
{
	struct pair pair;
	char done;

	pair_open(&pair);
	say(pair.sock, "i", 1);
	hear(pair.sock, &done, 1);
	for (size_t i = 0; i < 20000; i++)
		ASSERT_EQ(*lab_byte(&pair.side, i), (uint8_t)(i * 7));
	pair_close(&pair, 0);
}

/* Until one fails; the limit of each is far above that of the NIC. */
static void put_until_error(struct pair *pair)
{
	int rc;

	do
		rc = shmd_dev_qp_put(qp_of(pair), at_owner(pair, 64), lab_local(&pair->side, 0), 256, LIMIT);
	while (!rc);
	ASSERT_EQ(rc, SHMD_DEV_CQE_ERROR);
}

TEST_TIMEOUT(a_put_to_an_owner_that_is_killed_ends_in_an_error_cqe, 100)
{
	struct pair pair;

	pair_open(&pair);
	ASSERT_OK(kill(pair.owner, SIGKILL));
	put_until_error(&pair);
	pair_close(&pair, SIGKILL);
}

TEST_TIMEOUT(a_put_to_an_owner_that_is_stopped_ends_in_an_error_cqe, 100)
{
	struct pair pair;

	pair_open(&pair);
	ASSERT_OK(kill(pair.owner, SIGSTOP));
	put_until_error(&pair);
	ASSERT_OK(kill(pair.owner, SIGKILL));
	ASSERT_OK(kill(pair.owner, SIGCONT));
	pair_close(&pair, SIGKILL);
}
