/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/tree-mend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/runtime/bootstrap/address.h"
#include "libclient/runtime/bootstrap/own-fds.h"
#include "proto/base/nsec.h"

/* Ranks whose parent closes mostly close a moment later, and need no other parent. */
#define AFTER_CLOSE_NSEC (30 * NSEC_PER_MSEC)
/* One try: the other side may be a busy process on a busy machine, so it gets longer each time that all have been asked. */
#define FIRST_TRY_NSEC (300 * NSEC_PER_MSEC)
#define LAST_TRY_NSEC (3 * NSEC_PER_SEC)
#define FIRST_PAUSE_NSEC (20 * NSEC_PER_MSEC)
#define LAST_PAUSE_NSEC (2 * NSEC_PER_SEC)
#define PROBE_NSEC (2 * NSEC_PER_SEC)
#define MOST_REFUSALS 3

static struct member *myself(const struct tree *tree)
{
	return &tree->members->all[tree->rank];
}

/* News of a parent's death may overtake the end of its connection. */
static bool has_parent(const struct tree *tree)
{
	const struct link *link = tree->parent ? tree->parent : tree->guardian;

	return link && tree->fates[link->rank] != FATE_GONE;
}

static bool is_lost(const struct tree *tree, unsigned int rank)
{
	const struct member *member = &tree->members->all[rank];

	return rank && rank != tree->rank && tree->fates[rank] == FATE_ALIVE && tree->fates[member->parent] == FATE_GONE &&
	       !member->may_have_closed;
}

static bool has_lost_ranks(const struct tree *tree)
{
	for (unsigned int rank = 0; rank < tree->size; rank++)
		if (is_lost(tree, rank))
			return true;
	return false;
}

/* Its first frame is news for the others. */
static bool has_new_kin(const struct tree *tree)
{
	for (unsigned int i = 0; i < tree->n_kin; i++)
		if (tree->kin[i]->is_new)
			return true;
	return false;
}

bool mend_is_urgent(const struct tree *tree)
{
	if (has_new_kin(tree))
		return true;
	if (!tree->members || has_parent(tree))
		return false;
	return tree->parent || tree->guardian || (tree->mend.is_on && tree->mend.has_died) || has_lost_ranks(tree);
}

/* ---- what ranks know of each other ------------------------------------------------------------------------------------------- */

void mend_init(struct tree *tree)
{
	tree->mend.reach.fd = -1;
	for (unsigned int i = 0; i < MEND_MOST_PROBES; i++)
		tree->mend.probes[i].reach.fd = -1;
}

void mend_send_book(struct tree *tree)
{
	size_t bytes = (size_t)tree->size * MEMBERS_ENTRY_BYTES;
	struct frame frame = {.type = FRAME_BOOK, .bytes = (uint32_t)bytes, .body = malloc(bytes)};

	if (!frame.body) {
		tree_no_memory(tree, "the book of ranks");
		return;
	}
	join_write_book(tree->join, tree->later_port, frame.body);
	mend_take_book(tree, &frame);
	free(frame.body);
}

void mend_take_book(struct tree *tree, const struct frame *frame)
{
	int err;

	if (tree->members)
		return;
	err = members_new(frame->body, frame->bytes, tree->size, &tree->members);
	if (err == -ENOMEM)
		tree_no_memory(tree, "the book of ranks");
	else if (err)
		tree_fail_all(tree, err, "the book of ranks is not one of this job");
	else
		tree_send_down(tree, frame);
}

static struct frame move_frame(const struct tree *tree, unsigned int rank)
{
	const struct member *member = &tree->members->all[rank];

	return (struct frame){.type = FRAME_MOVED, .rank = rank, .value = member->parent, .seq = member->n_moves};
}

void mend_take_move(struct tree *tree, const struct link *from, const struct frame *frame)
{
	struct member *member;

	if (!tree->members || frame->value >= tree->size || frame->rank == tree->rank)
		return;
	member = &tree->members->all[frame->rank];
	if (frame->seq <= member->n_moves || tree->members->all[frame->value].place >= member->place)
		return;
	member->n_moves = frame->seq;
	member->parent = frame->value;
	member->n_refusals = 0;
	member->lost_since = 0;
	member->may_have_closed = false;
	tree_flood(tree, from, frame);
	if (tree->fates[frame->value] == FATE_GONE)
		tree_look_soon(tree);
}

static void tell_fate(struct tree *tree, struct link *link, unsigned int rank)
{
	struct frame frame = {.type = tree->fates[rank] == FATE_GONE ? FRAME_GONE : FRAME_BYE, .rank = rank,
			      .seq = tree->members->all[rank].n_done};

	if (tree->fates[rank] != FATE_ALIVE)
		tree_send_to(tree, link, &frame);
}

/* One frame at least: the other side waits for it. */
static void tell_all(struct tree *tree, struct link *link)
{
	struct frame mine = move_frame(tree, tree->rank);

	tree_send_to(tree, link, &mine);
	for (unsigned int rank = 0; rank < tree->size; rank++) {
		struct frame frame = move_frame(tree, rank);

		if (rank != tree->rank && frame.seq)
			tree_send_to(tree, link, &frame);
		tell_fate(tree, link, rank);
	}
}

/* ---- asking for a parent ----------------------------------------------------------------------------------------------------- */

/* A rank that finds another parent learns it from that one. */
static void doubt_lost_ranks(struct tree *tree)
{
	for (unsigned int rank = 0; rank < tree->size; rank++)
		if (is_lost(tree, rank))
			tree->members->all[rank].may_have_closed = true;
}

void mend_parent_lost(struct tree *tree, enum mend_why why)
{
	struct mend *mend = &tree->mend;

	if (!tree->members || tree->is_closing)
		return;
	if (why == MEND_CLOSED)
		doubt_lost_ranks(tree);
	mend->is_on = true;
	mend->has_died = why != MEND_CLOSED;
	mend->at = nsec_now() + (why == MEND_DIED ? 0 : why == MEND_CLOSED ? AFTER_CLOSE_NSEC : FIRST_PAUSE_NSEC);
	mend->pause = FIRST_PAUSE_NSEC;
	mend->limit = FIRST_TRY_NSEC;
	members_forget_silence(tree->members);
	mend->step = 0;
	mend->n_alive = 0;
	mend->has_asked_all = false;
	tree_look_soon(tree);
}

/* Other errors are this rank's own, as -EMFILE is, and say nothing of the other. */
static bool is_out_of_reach(int r)
{
	return r == -ETIMEDOUT || r == -EHOSTUNREACH || r == -ENETUNREACH;
}

static bool ask(struct tree *tree, unsigned int rank)
{
	union address to = members_address(tree->members, rank, &tree->first);
	struct reach *reach = &tree->mend.reach;

	reach->hello = (struct wire_hello){.purpose = WIRE_MEND, .rank = tree->rank, .size = tree->size, .place = tree->place};
	reach->connects_only = false;
	tree->mend.asked = rank;
	return !reach_begin(reach, &to, tree->interface, tree->mend.limit);
}

/* Begins the next try, if a rank is left; else this rank is the root, or tries all of them again later. */
static void ask_next(struct tree *tree)
{
	struct mend *mend = &tree->mend;
	unsigned int rank;

	while (members_candidate(tree->members, tree->rank, mend->step, &rank)) {
		mend->step++;
		if (tree->fates[rank] != FATE_ALIVE)
			continue;
		mend->n_alive++;
		if (!tree->members->all[rank].is_silent && ask(tree, rank))
			return;
	}
	mend->is_on = mend->n_alive;
	mend->has_asked_all = true;
	mend->n_alive = 0;
	mend->step = 0;
	mend->at = nsec_now() + mend->pause;
	mend->pause = mend->pause < LAST_PAUSE_NSEC / 2 ? 2 * mend->pause : LAST_PAUSE_NSEC;
	mend->limit = mend->limit < LAST_TRY_NSEC / 2 ? 2 * mend->limit : LAST_TRY_NSEC;
	members_forget_silence(tree->members);
}

static void take_guardian(struct tree *tree)
{
	struct mend *mend = &tree->mend;
	int fd = mend->reach.fd;
	struct frame moved;

	mend->reach.fd = -1;
	tree->guardian = tree_link_new(tree, fd, mend->asked);
	if (!tree->guardian) {
		tree_no_memory(tree, "a connection");
		return;
	}
	tree->guardian->is_new = true;
	mend->is_on = false;
	myself(tree)->parent = mend->asked;
	myself(tree)->n_moves++;
	tell_all(tree, tree->guardian);
	moved = move_frame(tree, tree->rank);
	tree_flood(tree, tree->guardian, &moved);
}

static void take_answer(struct tree *tree, const struct pollfd *entry)
{
	struct reach *reach = &tree->mend.reach;
	bool connects = reach->step == REACH_CONNECTS;
	struct wire_reply reply;
	int r = reach_turn(reach, tree->secret, entry, &reply);

	if (!r)
		return;
	if (r > 0 && !reply.error) {
		take_guardian(tree);
		return;
	}
	reach_end(reach);
	/* A stopped process is no reason: its kernel answers. */
	if (connects && is_out_of_reach(r))
		members_note_silence(tree->members, tree->mend.asked);
	ask_next(tree);
}

/* ---- being asked ------------------------------------------------------------------------------------------------------------- */

bool mend_judge(const struct tree *tree, const struct gate_visit *visit, struct wire_reply *reply)
{
	const struct wire_hello *hello = &visit->hello;
	const struct member *member = tree->members && hello->size == tree->size ? &tree->members->all[hello->rank] : NULL;
	bool fits = member && hello->place == member->place && member->place > tree->place && !tree->fates[hello->rank];

	if (fits)
		return true;
	reply->error = -EEXIST;
	snprintf(reply->text, sizeof(reply->text), "rank %u cannot hang below rank %u", hello->rank, tree->rank);
	return false;
}

void mend_keep(struct tree *tree, const struct gate_visit *visit, int fd)
{
	struct link *link = tree_link_new(tree, fd, visit->hello.rank);

	if (!link || tree_add_kin(tree, link)) {
		link_free(link);
		tree_no_memory(tree, "a connection");
		return;
	}
	link->is_new = true;
	tell_all(tree, link);
}

/* ---- looking after ranks that are lost --------------------------------------------------------------------------------------- */

static void take_probe(struct tree *tree, unsigned int rank, int r)
{
	struct member *member = &tree->members->all[rank];
	uint64_t now = nsec_now();

	if (!is_lost(tree, rank))
		return;
	member->n_refusals = r == -ECONNREFUSED ? (uint8_t)(member->n_refusals + 1) : 0;
	if (!is_out_of_reach(r))
		member->lost_since = 0;
	else if (!member->lost_since)
		member->lost_since = now;
	if (member->n_refusals >= MOST_REFUSALS || (member->lost_since && now - member->lost_since > tree->lost_nsec))
		tree_note_fate(tree, NULL, rank, FATE_GONE, 0);
}

static bool is_probed(const struct tree *tree, unsigned int rank)
{
	for (unsigned int i = 0; i < MEND_MOST_PROBES; i++)
		if (tree->mend.probes[i].reach.fd >= 0 && tree->mend.probes[i].rank == rank)
			return true;
	return false;
}

static struct probe *free_probe(struct tree *tree)
{
	for (unsigned int i = 0; i < MEND_MOST_PROBES; i++)
		if (tree->mend.probes[i].reach.fd < 0)
			return &tree->mend.probes[i];
	return NULL;
}

static void probe(struct tree *tree, unsigned int rank)
{
	union address to = members_address(tree->members, rank, &tree->first);
	struct probe *probe = free_probe(tree);
	int err;

	if (!probe || is_probed(tree, rank))
		return;
	probe->rank = rank;
	probe->reach.connects_only = true;
	err = reach_begin(&probe->reach, &to, tree->interface, PROBE_NSEC);
	if (err)
		take_probe(tree, rank, err);
}

/* Beginning where it ended, since only some can be probed at a time. */
static void look(struct tree *tree)
{
	struct mend *mend = &tree->mend;

	mend->look_at = 0;
	if (has_parent(tree))
		return;
	/* A rank that is to answer may be slow, and knows more. */
	if (mend->is_on && !mend->has_asked_all) {
		tree_look_soon(tree);
		return;
	}
	for (unsigned int i = 0; i < tree->size; i++) {
		unsigned int rank = (mend->look_from + i) % tree->size;

		if (!is_lost(tree, rank))
			continue;
		tree_look_soon(tree);
		if (!free_probe(tree)) {
			mend->look_from = rank;
			return;
		}
		probe(tree, rank);
	}
}

static void take_probes(struct tree *tree, const struct pollfd *fds)
{
	for (unsigned int i = 0; i < MEND_MOST_PROBES; i++) {
		struct probe *probe = &tree->mend.probes[i];
		int r = probe->reach.fd >= 0 ? reach_turn(&probe->reach, tree->secret, &fds[i], NULL) : 0;

		if (!r)
			continue;
		reach_end(&probe->reach);
		take_probe(tree, probe->rank, r);
	}
}

/* ---- the thread's turn ------------------------------------------------------------------------------------------------------- */

unsigned int mend_poll(const struct tree *tree, struct pollfd *fds)
{
	fds[0] = reach_poll(&tree->mend.reach);
	for (unsigned int i = 0; i < MEND_MOST_PROBES; i++)
		fds[1 + i] = reach_poll(&tree->mend.probes[i].reach);
	return MEND_MOST_FDS;
}

static int sooner(uint64_t end, int most)
{
	uint64_t now = nsec_now(), msec = end <= now ? 0 : (end - now) / NSEC_PER_MSEC + 1;

	return most < 0 || msec < (uint64_t)most ? (int)msec : most;
}

int mend_wait_msec(const struct tree *tree, int most)
{
	const struct mend *mend = &tree->mend;

	if (mend->reach.fd >= 0)
		most = sooner(mend->reach.deadline, most);
	else if (mend->is_on)
		most = sooner(mend->at, most);
	if (mend->look_at)
		most = sooner(mend->look_at, most);
	for (unsigned int i = 0; i < MEND_MOST_PROBES; i++)
		if (mend->probes[i].reach.fd >= 0)
			most = sooner(mend->probes[i].reach.deadline, most);
	return most;
}

void mend_turn(struct tree *tree, const struct pollfd *fds)
{
	struct mend *mend = &tree->mend;

	if (mend->reach.fd >= 0)
		take_answer(tree, &fds[0]);
	else if (mend->is_on && nsec_now() >= mend->at)
		ask_next(tree);
	take_probes(tree, fds + 1);
	if (mend->look_at && nsec_now() >= mend->look_at)
		look(tree);
}

void mend_end(struct tree *tree)
{
	tree->mend.is_on = false;
	tree->mend.look_at = 0;
	reach_end(&tree->mend.reach);
	for (unsigned int i = 0; i < MEND_MOST_PROBES; i++)
		reach_end(&tree->mend.probes[i].reach);
}

void mend_forget(struct tree *tree)
{
	tree->mend.reach.fd = -1;
	for (unsigned int i = 0; i < MEND_MOST_PROBES; i++)
		tree->mend.probes[i].reach.fd = -1;
}
