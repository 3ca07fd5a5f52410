/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holes in the memory that a client registers, in that of its queues, and in its doorbell page, while the daemon is killed: it
 * dies within a second, because another process maps all of it. On soft NICs and on simulated ConnectX ones.
 *
 * Bounds are those that are promised; what was measured is printed.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/system/raw-traffic.h"
#include "tests/system/stall-maps.h"

#define PAGE 4096u
#define MEMORY_BYTES (64u << 20)
#define QUEUE_BYTES (1u << 20)
#define DEATH_NSEC NSEC_PER_SEC /* promised */
#define STALL_NSEC (100 * NSEC_PER_MSEC)
#define MOST_NSEC (8 * NSEC_PER_SEC)

struct attack {
	struct fixture_daemon daemon;
	struct stall_maps maps;
	struct raw_client raw;
	int memfd;
};

static void attack_begin(struct attack *attack)
{
	fixture_daemon_start(&attack->daemon, NULL);
	raw_connect(&attack->raw, attack->daemon.socket);
	raw_hello(&attack->raw, MSG_ROLE_CLIENT);
}

static void attack_end(struct attack *attack)
{
	uint64_t begin = nsec_now(), took;

	fixture_daemon_kill(&attack->daemon);
	took = nsec_now() - begin;
	printf("# the daemon took %.3f s to die\n", (double)took / NSEC_PER_SEC);
	stall_maps_stop(&attack->maps);
	raw_close(&attack->raw);
	close(attack->memfd);
	ASSERT_LT(took, DEATH_NSEC);
}

/* ---- a region -------------------------------------------------------------------------------------------------------- */

/* The answer may take as long as the holes do. */
static void ask_to_register(struct attack *attack)
{
	struct msg req;

	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){
		.kind = MSG_MEM_MEMFD, .access = 0xf, .length_bytes = MEMORY_BYTES, .iova = RAW_TRAFFIC_IOVA};
	raw_send(&attack->raw, &req, &attack->memfd, 1);
}

static bool is_answered(struct attack *attack, uint32_t *ret_mr)
{
	uint64_t end = nsec_now() + STALL_NSEC;
	struct fdlist fds;
	struct msg rep;
	char byte;

	while (recv(attack->raw.sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0)
		if (nsec_now() > end)
			return false;
		else
			usleep(1000);
	fdlist_init(&fds);
	ASSERT_OK(raw_recv(&attack->raw, &rep, &fds));
	ASSERT_EQ(rep.kind, MSG_MEM_REG_REP);
	*ret_mr = rep.mem_reg_rep.mr;
	msg_deinit(&rep);
	fdlist_deinit(&fds);
	return true;
}

/* Until one is under way for a while, or there has been no such luck. */
static bool register_into_a_hole(struct attack *attack)
{
	uint64_t begin = nsec_now();
	struct msg req, rep;
	uint32_t mr;

	while (nsec_now() - begin < MOST_NSEC) {
		ask_to_register(attack);
		if (!is_answered(attack, &mr))
			return true;
		msg_init(&req, MSG_MEM_DEREG_REQ, 0);
		req.mem_dereg_req.handle = mr;
		raw_expect(&attack->raw, &req, NULL, 0, MSG_OK_REP, &rep);
	}
	return false;
}

TEST_TIMEOUT(holes_in_a_region_that_is_being_registered_do_not_keep_the_daemon_from_dying, 90)
{
	struct attack attack;
	bool stalls;

	attack_begin(&attack);
	raw_open_nic(&attack.raw, raw_traffic_nic(0));
	attack.memfd = raw_memfd(MEMORY_BYTES);
	stall_maps_start(&attack.maps, attack.memfd, MEMORY_BYTES);
	stalls = register_into_a_hole(&attack);
	printf("# a request %s\n", stalls ? "waits for a hole" : "waited for no hole");
	attack_end(&attack);
}

/* ---- queues ------------------------------------------------------------------------------------------------------------ */

TEST_TIMEOUT(holes_in_the_memory_of_queues_do_not_keep_the_daemon_from_dying, 90)
{
	struct attack attack;
	struct msg req, rep;

	attack_begin(&attack);
	raw_open_nic(&attack.raw, raw_traffic_nic(0));
	attack.memfd = raw_memfd(QUEUE_BYTES);
	raw_fill_create(&req, 4);
	req.queue_create_req.mem_kind = MSG_MEM_MEMFD;
	req.queue_create_req.mem_bytes = QUEUE_BYTES;
	raw_expect(&attack.raw, &req, &attack.memfd, 1, MSG_QUEUE_CREATE_REP, &rep);
	msg_deinit(&rep);
	stall_maps_start(&attack.maps, attack.memfd, PAGE);
	attack_end(&attack);
}

TEST_TIMEOUT(holes_in_a_doorbell_page_do_not_keep_the_daemon_from_dying, 90)
{
	struct attack attack;
	struct msg req, rep;
	struct fdlist fds;

	attack_begin(&attack);
	msg_init(&req, MSG_NIC_OPEN_REQ, 0);
	snprintf(req.nic_open_req.nic, sizeof(req.nic_open_req.nic), "%s", raw_traffic_nic(0));
	req.nic_open_req.doorbell = 1;
	raw_send(&attack.raw, &req, NULL, 0);
	fdlist_init(&fds);
	ASSERT_OK(raw_recv(&attack.raw, &rep, &fds));
	ASSERT_EQ(rep.kind, MSG_NIC_OPEN_REP);
	ASSERT_EQ(rep.nic_open_rep.doorbell, 1u);
	attack.memfd = dup(fdlist_get(&fds, rep.nic_open_rep.page_fd));
	ASSERT_GE(attack.memfd, 0);
	fdlist_deinit(&fds);
	raw_create_queues(&attack.raw, 1, &rep);
	msg_deinit(&rep);
	stall_maps_start(&attack.maps, attack.memfd, PAGE);
	attack_end(&attack);
}
