/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that are not saved, and the reasons that an administrator gets. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/test.h"
#include "tests/unit/session/save-scene.h"

/* The only session as an administrator sees it. */
static void expect_unkept(struct save_lab *k, const char *why)
{
	struct pair admin;
	struct msg rep;

	pair_init_hello(&admin, &k->lab, MSG_ROLE_CONTROL);
	save_scene_list(&admin, MSG_LIST_SESSIONS, &rep);
	ASSERT_EQ(rep.list_rep.n_sessions, 1);
	ASSERT_EQ(rep.list_rep.sessions[0].kept, !why[0]);
	ASSERT_STREQ(rep.list_rep.sessions[0].unkept_reason, why);
	msg_deinit(&rep);
	pair_deinit(&admin);
}

TEST(nic_that_saves_nothing_ends_the_saving)
{
	struct save_lab k = {.blocks = false};
	struct pair pair;

	save_lab_init(&k, 100);
	k.lab.nics[1].saves = false;
	save_lab_hello(&pair, &k);
	raw_open_nic(&pair.raw, "fake0");
	ASSERT(session_is_saved(pair.session));
	expect_unkept(&k, "");
	ASSERT_EQ(save_lab_count(&k), 5 - (pair.session->identity.pidfd < 0));
	raw_open_nic(&pair.raw, "fake1");
	ASSERT(!session_is_saved(pair.session));
	ASSERT(strstr(pair.session->saved.reason, "fake1"));
	expect_unkept(&k, "what it has on fake1 ends with the daemon");
	ASSERT_EQ(save_lab_count(&k), 0);
	raw_reg(&pair.raw, 4096);
	ASSERT_EQ(save_lab_count(&k), 0);
	pair_deinit(&pair);
	save_lab_deinit(&k);
}

/* It cannot know what the agent of a former daemon's ring still carries out. */
TEST(session_with_a_memory_agent_ends_the_saving)
{
	struct save_lab k = {.blocks = false};
	int fd = raw_memfd(65536);
	struct msg req, rep;
	struct pair pair;

	save_lab_init(&k, 100);
	save_lab_hello(&pair, &k);
	raw_open_nic(&pair.raw, "fake0");
	expect_unkept(&k, "");
	msg_init(&req, MSG_AGENT_ATTACH_REQ, 0);
	raw_expect(&pair.raw, &req, &fd, 1, MSG_AGENT_ATTACH_REP, &rep);
	ASSERT(!session_is_saved(pair.session));
	expect_unkept(&k, "the next daemon cannot go on with its memory agent on fake0");
	ASSERT_EQ(save_lab_count(&k), 0);
	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){.kind = MSG_MEM_AGENT, .length_bytes = 4096};
	raw_expect(&pair.raw, &req, NULL, 0, MSG_MEM_REG_REP, &rep);
	close(fd);
	pair_deinit(&pair);
	save_lab_deinit(&k);
}

static void ask_status(struct pair *pair)
{
	struct msg req;

	msg_init(&req, MSG_STATUS_REQ, 0);
	raw_send(&pair->raw, &req, NULL, 0);
}

static void hear_status(struct pair *pair)
{
	struct fdlist fds;
	struct msg rep;

	fdlist_init(&fds);
	ASSERT_OK(raw_recv(&pair->raw, &rep, &fds));
	ASSERT_EQ(rep.kind, MSG_STATUS_REP);
	msg_deinit(&rep);
	fdlist_deinit(&fds);
}

/* Its answer comes when the manager has taken everything, or after two seconds. Others do not wait. */
TEST(answer_waits_for_a_busy_manager_and_the_session_is_not_kept_meanwhile)
{
	struct save_lab k = {.blocks = false};
	struct pair pair, other;

	save_lab_init(&k, 100);
	save_lab_hello(&pair, &k);
	raw_open_nic(&pair.raw, "fake0");
	expect_unkept(&k, "");
	k.is_busy = true;
	expect_unkept(&k, "the service manager is busy and has not taken its descriptors yet");
	ask_status(&pair);
	ASSERT(session_stalled(pair.session));
	ASSERT(session_flush(pair.session));
	ASSERT(session_stalled(pair.session));
	pair_init_hello(&other, &k.lab, MSG_ROLE_CLIENT);
	ask_status(&other);
	hear_status(&other);
	pair_deinit(&other);
	k.is_busy = false;
	ASSERT(session_flush(pair.session));
	ASSERT(!session_stalled(pair.session));
	hear_status(&pair);
	expect_unkept(&k, "");
	k.is_busy = true;
	ask_status(&pair);
	ASSERT(session_stalled(pair.session));
	pair.session->saved.held_since_nsec -= 2 * NSEC_PER_SEC;
	ASSERT(session_flush(pair.session));
	hear_status(&pair);
	/* It has waited once. */
	ask_status(&pair);
	hear_status(&pair);
	ASSERT(session_is_saved(pair.session));
	k.is_busy = false;
	pair_deinit(&pair);
	save_lab_deinit(&k);
}

TEST(session_that_ends_while_the_manager_is_busy_tells_its_client_why)
{
	struct save_lab k = {.blocks = false};
	struct pair pair;
	struct msg msg;

	save_lab_init(&k, 100);
	save_lab_hello(&pair, &k);
	raw_open_nic(&pair.raw, "fake0");
	k.is_busy = true;
	ask_status(&pair);
	ASSERT(session_stalled(pair.session));
	session_end(pair.session, SHMD_STATUS_KILLED, "somebody killed it");
	k.is_busy = false;
	pair.session = session_free(pair.session);
	hear_status(&pair);
	ASSERT_OK(raw_recv(&pair.raw, &msg, NULL));
	ASSERT_EQ(msg.kind, MSG_EVENT);
	ASSERT_STREQ(msg.event.text, "somebody killed it");
	msg_deinit(&msg);
	pair_deinit(&pair);
	save_lab_deinit(&k);
}

static bool is_as_before(struct save_lab *k, uint64_t id, const void *before, size_t n_before)
{
	size_t n;
	void *now = save_lab_state(k, id, &n);
	bool is_same = n == n_before && memcmp(now, before, n) == 0;

	free(now);
	return is_same;
}

/* A daemon that dies before the manager reads leaves a state whose descriptors are all there; the client asks the next one again. */
TEST(state_names_nothing_that_a_busy_manager_has_not_taken)
{
	struct save_lab k = {.blocks = false};
	int fd = raw_memfd(4096);
	struct msg req, rep;
	struct pair pair;
	size_t n_before;
	void *before;

	save_lab_init(&k, 100);
	save_lab_hello(&pair, &k);
	raw_open_nic(&pair.raw, "fake0");
	before = save_lab_state(&k, pair.session->id, &n_before);
	k.is_busy = true;
	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){.kind = MSG_MEM_MEMFD, .access = 0xf, .length_bytes = 4096, .iova = 0x10000};
	raw_send(&pair.raw, &req, &fd, 1);
	ASSERT(session_stalled(pair.session));
	ASSERT(session_flush(pair.session));
	ASSERT(is_as_before(&k, pair.session->id, before, n_before));
	k.is_busy = false;
	ASSERT(session_flush(pair.session));
	ASSERT_OK(raw_recv(&pair.raw, &rep, NULL));
	ASSERT_EQ(rep.kind, MSG_MEM_REG_REP);
	ASSERT(!is_as_before(&k, pair.session->id, before, n_before));
	/* Nobody waits for a manager that is deaf. */
	free(before);
	before = save_lab_state(&k, pair.session->id, &n_before);
	k.is_busy = true;
	raw_send(&pair.raw, &req, &fd, 1);
	pair.session->saved.held_since_nsec -= 2 * NSEC_PER_SEC;
	ASSERT(session_flush(pair.session));
	ASSERT_OK(raw_recv(&pair.raw, &rep, NULL));
	ASSERT(!is_as_before(&k, pair.session->id, before, n_before));
	k.is_busy = false;
	free(before);
	close(fd);
	pair_deinit(&pair);
	save_lab_deinit(&k);
}

/* The daemon heard too late to refuse it. Others are kept. */
TEST(session_whose_descriptor_did_not_reach_the_manager_is_not_kept)
{
	struct save_lab k = {.blocks = false};
	struct pair pair;

	save_lab_init(&k, 100);
	save_lab_hello(&pair, &k);
	raw_open_nic(&pair.raw, "fake0");
	k.lost_session = pair.session->id + 1;
	expect_unkept(&k, "");
	k.lost_session = pair.session->id;
	expect_unkept(&k, "the service manager did not take one of its descriptors");
	ASSERT(!session_is_saved(pair.session));
	ASSERT_EQ(save_lab_count(&k), 0);
	/* It goes on here. */
	raw_reg(&pair.raw, 4096);
	pair_deinit(&pair);
	save_lab_deinit(&k);
}

/* More than a connection holds for one who does not read. */
TEST(client_that_reads_is_not_blamed_for_a_busy_manager)
{
	struct save_lab k = {.blocks = false};
	struct pair pair;

	save_lab_init(&k, 100);
	save_lab_hello(&pair, &k);
	raw_open_nic(&pair.raw, "fake0");
	k.is_busy = true;
	for (unsigned int i = 0; i < CONNECTION_MAX_PACKETS + 2; i++)
		ask_status(&pair);
	ASSERT(!pair.session->ended);
	for (unsigned int i = 0; i < CONNECTION_MAX_PACKETS + 2; i++)
		hear_status(&pair);
	k.is_busy = false;
	pair_deinit(&pair);
	save_lab_deinit(&k);
}

TEST(session_for_which_the_store_is_too_small_is_saved_no_more)
{
	for (unsigned int max = 1; max < 16; max++) {
		struct save_lab k = {.blocks = false};
		struct pair pair;
		struct msg rep;

		save_lab_init(&k, 100);
		k.max = max;
		save_lab_hello(&pair, &k);
		raw_open_nic(&pair.raw, "fake0");
		raw_reg(&pair.raw, 4096);
		raw_create_queues(&pair.raw, 1, &rep);
		msg_deinit(&rep);
		raw_reg(&pair.raw, 4096);
		if (!session_is_saved(pair.session)) {
			ASSERT(strstr(pair.session->saved.reason, "FileDescriptorStoreMax"));
			ASSERT_EQ(save_lab_count(&k), 0);
		} else {
			ASSERT_LE(k.n, max);
		}
		ASSERT_EQ(session_is_saved(pair.session), max >= 9u - (pair.session->identity.pidfd < 0));
		pair_deinit(&pair);
		save_lab_deinit(&k);
	}
}

static unsigned int count_kept(struct pair *pairs, unsigned int n)
{
	unsigned int n_kept = 0;

	for (unsigned int i = 0; i < n; i++)
		n_kept += session_is_saved(pairs[i].session);
	return n_kept;
}

/* However many sessions one user has, another one's is kept; also when all of them were taken over from a former daemon. */
TEST(one_user_leaves_room_for_others)
{
	enum { N_GREEDY = 60 };
	static struct pair greedy[N_GREEDY], other, more;
	struct save_lab k = {.blocks = false};
	struct pair *kept[N_GREEDY + 1];
	unsigned int n_kept = 0;

	save_lab_init(&k, 1000);
	k.max = 100;
	for (unsigned int i = 0; i < N_GREEDY; i++)
		save_lab_hello(&greedy[i], &k);
	n_kept = count_kept(greedy, N_GREEDY);
	ASSERT_GT(k.n, 80);
	ASSERT_LE(k.n, 90);
	ASSERT(strstr(greedy[N_GREEDY - 1].session->saved.reason, "this user has its share"));
	for (unsigned int i = n_kept; i < N_GREEDY; i++)
		pair_deinit(&greedy[i]);
	for (unsigned int i = 0; i < n_kept; i++)
		kept[i] = &greedy[i];
	for (unsigned int i = 0; i < n_kept; i++) {
		greedy[i].session->identity.uid = 4242;
		save_write(greedy[i].session);
	}
	save_lab_restart(&k, kept, n_kept);
	save_lab_peer_uid = 4242;
	for (unsigned int i = 0; i < n_kept; i++) {
		ASSERT_OK(save_lab_adopt(&k, i + 1, &greedy[i].session));
		greedy[i].session->owner = &greedy[i];
	}
	save_lab_peer_uid = 0;
	save_lab_hello(&other, &k);
	ASSERT(session_is_saved(other.session));
	/* Adopted descriptors count like stored ones. */
	other.session->identity.uid = 4242;
	save_lab_hello(&more, &k);
	ASSERT(session_is_saved(more.session));
	more.session->identity.uid = 4242;
	raw_open_nic(&more.raw, "fake0");
	ASSERT(!session_is_saved(more.session));
	for (unsigned int i = 0; i < n_kept; i++)
		pair_deinit(&greedy[i]);
	pair_deinit(&other);
	pair_deinit(&more);
	save_lab_deinit(&k);
}

TEST(client_that_cannot_go_on_is_not_saved)
{
	struct save_lab k = {.blocks = false};
	struct pair pair;

	save_lab_init(&k, 100);
	pair_init_hello(&pair, &k.lab, MSG_ROLE_CLIENT);
	raw_open_nic(&pair.raw, "fake0");
	ASSERT(!session_is_saved(pair.session));
	expect_unkept(&k, "its client does not wait for another daemon");
	ASSERT_EQ(save_lab_count(&k), 0);
	pair_deinit(&pair);
	save_lab_deinit(&k);
}
