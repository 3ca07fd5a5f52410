/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Teams that their members make by themselves. See meeting.h for how they meet.
 *
 * They agree on an id as a split does, by offers, and then all say that they have agreed. A PE writes to the scratch of an id only when it
 * has seen all of them say so. So a call that fails before this PE has said it costs no id; later the id stays in use here for ever,
 * because others may write to its scratch.
 *
 * The first sync of the new team says that all have read the last entries, the second one that all have cleared theirs: the next call
 * with the same arguments finds none of this one.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <shmd/dev/pe.h>

#include "libclient/runtime/settings/nvtx.h"
#include "libclient/runtime/team/meeting.h"
#include "libclient/runtime/team/team.h"
#include "libclient/runtime/world/ctx.h"
#include "libclient/runtime/world/exchange.h"
#include "libclient/runtime/world/world-heap.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

_Static_assert(sizeof(struct meeting_slot) == WORLD_MEETING_BYTES && WORLD_MEETINGS <= 32, "slots as world-heap.h has them");

#define EAGER_TURNS 200u /* looks before the first sleep */
#define MAX_SLEEP_NSEC NSEC_PER_MSEC

struct member {
	int pe; /* of the world; -1: not found yet */
	int slot; /* of it; -1: not found yet */
	uint64_t nonce; /* 0: not seen yet */
	struct team_offer offer; /* of this step */
	bool is_here; /* its entry of this step was read */
};

/* A call under way. */
struct meeting {
	struct shmd_world *world;
	const struct shmd_team_members *who;
	int my_place, my_slot;
	uint64_t list, nonce, view, deadline;
	uint32_t step;
	bool is_stale; /* a member has begun anew */
	struct member *members;
	struct team_agreement agreement;
	struct shmd_team *team;
};

/* ---- waiting */

static void sleep_a_while(unsigned int turn)
{
	uint64_t nsec = (turn - EAGER_TURNS) * 10 * NSEC_PER_USEC;
	struct timespec pause = nsec_to_timespec(nsec < MAX_SLEEP_NSEC ? nsec : MAX_SLEEP_NSEC);

	if (turn < EAGER_TURNS)
		sched_yield();
	else
		nanosleep(&pause, NULL);
}

static int check_world(const struct shmd_world *world)
{
	if (__atomic_load_n(&world->dev->ended, __ATOMIC_ACQUIRE))
		return shmd_error_set(-EHOSTDOWN, "making a team: the world was aborted");
	return world_blame(world, 0);
}

/* -ETIMEDOUT without a sentence. */
static int wait_turn(const struct meeting *m, unsigned int turn)
{
	int r = check_world(m->world);

	if (!r && nsec_now() > m->deadline)
		r = -ETIMEDOUT;
	if (!r)
		sleep_a_while(turn);
	return r;
}

static int fail_missing(const struct meeting *m)
{
	char text[PE_TEXT_BYTES];
	int n_here = 0, first = -1;

	for (int i = 0; i < m->who->n_pes; i++) {
		n_here += m->members[i].is_here;
		if (!m->members[i].is_here && first < 0)
			first = i;
	}
	if (m->members[first].pe >= 0)
		return shmd_error_set(-ETIMEDOUT, "%s did not make the team with the tag 0x%llx and these members within the time limit "
				      "(SHMD_TIMEOUT)", pe_text(m->world->hellos, m->members[first].pe, text),
				      (unsigned long long)m->who->tag);
	return shmd_error_set(-ETIMEDOUT, "%d of the %d PEs of the team with the tag 0x%llx came within the time limit (SHMD_TIMEOUT); the first "
			      "that is missing is number %d of it", n_here, m->who->n_pes, (unsigned long long)m->who->tag, first);
}

/* ---- the caller's slot */

static uint64_t slot_offset(int slot)
{
	return WORLD_MEETINGS_OFFSET + (uint64_t)slot * WORLD_MEETING_BYTES;
}

static struct meeting_slot *own_slot(const struct meeting *m, int slot)
{
	return (struct meeting_slot *)world_heap_at(&m->world->pes[m->world->rank], slot_offset(slot));
}

static int try_claim(struct shmd_world *world)
{
	uint32_t all = UINT32_MAX >> (32 - WORLD_MEETINGS), left;
	int slot = -1;

	pthread_mutex_lock(&world->tables);
	left = all & ~world->meetings;
	if (left) {
		slot = __builtin_ctz(left);
		world->meetings |= 1u << slot;
	}
	pthread_mutex_unlock(&world->tables);
	return slot;
}

static int claim(struct meeting *m)
{
	unsigned int turn = 0;
	int r = 0;

	while (!r && (m->my_slot = try_claim(m->world)) < 0)
		r = wait_turn(m, turn++);
	if (r == -ETIMEDOUT)
		return shmd_error_set(r, "%u calls that make teams are under way on this PE, and none ended within the time limit (SHMD_TIMEOUT)",
				      WORLD_MEETINGS);
	return r;
}

static void release(struct meeting *m)
{
	memset(own_slot(m, m->my_slot), 0, sizeof(struct meeting_slot));
	pthread_mutex_lock(&m->world->tables);
	m->world->meetings &= ~(1u << m->my_slot);
	pthread_mutex_unlock(&m->world->tables);
}

/* Stores before it are visible before any load behind it. TSan knows no fence instruction. */
static void full_fence(void)
{
	uint32_t word = 0;

	__atomic_fetch_add(&word, 1, __ATOMIC_SEQ_CST);
}

static void publish(struct meeting *m, struct team_offer offer)
{
	struct meeting_entry entry = {
		.tag = m->who->tag,
		.list = m->list,
		.nonce = m->nonce,
		.view = m->view,
		.offer = offer,
		.step = m->step,
		.place = (uint32_t)m->my_place,
	};

	meeting_entry_seal(&entry);
	memcpy(&own_slot(m, m->my_slot)->entries[m->step & 1], &entry, sizeof(entry));
	full_fence();
}

/* ---- looking at the others */

static int read_slots(const struct meeting *m, int pe, int first, int n, struct meeting_slot *slots)
{
	const void *own = own_slot(m, first);
	int status = shmd_dev_get(&m->world->ctx->dev, slots, own, (uint64_t)n * sizeof(*slots), (uint32_t)pe);

	return world_status_error(m->world, status, "making a team", pe);
}

static bool is_of(const struct meeting *m, const struct meeting_entry *entry)
{
	return entry->tag == m->who->tag && entry->list == m->list && entry->place < (uint32_t)m->who->n_pes &&
	       meeting_entry_is_whole(entry);
}

/* An entry of this meeting; NULL: the PE has none. */
static const struct meeting_entry *find(const struct meeting *m, const struct meeting_slot *slots, int n, int *ret_slot)
{
	for (int i = 0; i < 2 * n; i++)
		if (is_of(m, &slots[i / 2].entries[i % 2])) {
			*ret_slot = i / 2;
			return &slots[i / 2].entries[i % 2];
		}
	return NULL;
}

static void take_slot(struct meeting *m, struct member *member, const struct meeting_slot *slot)
{
	for (int i = 0; i < 2; i++) {
		const struct meeting_entry *entry = &slot->entries[i];

		if (!is_of(m, entry))
			continue;
		m->is_stale |= m->step && entry->nonce != member->nonce;
		member->nonce = entry->nonce;
		if (m->step && (entry->step != m->step || entry->view != m->view))
			continue;
		member->offer = entry->offer;
		member->is_here = true;
	}
}

static int look_at(struct meeting *m, struct member *member)
{
	bool is_known = member->slot >= 0;
	int first = is_known ? member->slot : 0, n = is_known ? 1 : (int)WORLD_MEETINGS, at;
	struct meeting_slot slots[WORLD_MEETINGS];
	int r = read_slots(m, member->pe, first, n, slots);

	if (r < 0)
		return r;
	member->slot = -1;
	if (find(m, slots, n, &at)) {
		member->slot = first + at;
		take_slot(m, member, &slots[at]);
	}
	return 0;
}

static int fail_twice(const struct meeting *m, int place, int pe)
{
	char one[PE_TEXT_BYTES], other[PE_TEXT_BYTES];

	return shmd_error_set(-EINVAL, "both %s and %s are number %d of the team with the tag 0x%llx",
			      pe_text(m->world->hellos, m->members[place].pe, one), pe_text(m->world->hellos, pe, other), place,
			      (unsigned long long)m->who->tag);
}

/* Whether this PE of the world is a member that was not found yet. */
static int search_pe(struct meeting *m, int pe)
{
	struct meeting_slot slots[WORLD_MEETINGS];
	const struct meeting_entry *entry;
	struct member *member;
	int at, r;

	if (pe == m->world->rank || __atomic_load_n(&m->world->pes[pe].path[SHMD_DEV_HEAP_HOST], __ATOMIC_ACQUIRE) == SHMD_PATH_GONE)
		return 0;
	r = read_slots(m, pe, 0, (int)WORLD_MEETINGS, slots);
	entry = r ? NULL : find(m, slots, (int)WORLD_MEETINGS, &at);
	if (!entry)
		return r;
	member = &m->members[entry->place];
	if (member->pe >= 0 && member->pe != pe)
		return fail_twice(m, (int)entry->place, pe);
	member->pe = pe;
	return 0;
}

static int search(struct meeting *m)
{
	int n_missing = 0, r = 0;

	for (int i = 0; i < m->who->n_pes; i++)
		n_missing += m->members[i].pe < 0;
	for (int pe = 0; !r && n_missing && pe < m->world->size; pe++)
		r = search_pe(m, pe);
	return r;
}

/* How many have not been read in this step, or a negative errno. */
static int look_around(struct meeting *m)
{
	int n_missing = 0, r = search(m);

	for (int i = 0; !r && i < m->who->n_pes; i++) {
		struct member *member = &m->members[i];

		if (!member->is_here && member->pe >= 0)
			r = look_at(m, member);
		n_missing += !member->is_here;
	}
	return r ? r : n_missing;
}

/* Until all members are in this step. -ESTALE: one has begun anew. */
static int await(struct meeting *m)
{
	unsigned int turn = 0;
	int r;

	for (int i = 0; i < m->who->n_pes; i++)
		m->members[i].is_here = false;
	while ((r = look_around(m)) > 0 && !m->is_stale) {
		r = wait_turn(m, turn++);
		if (r < 0)
			return r == -ETIMEDOUT ? fail_missing(m) : r;
	}
	return r < 0 ? r : m->is_stale ? -ESTALE : 0;
}

/* ---- the agreement */

static void begin_view(struct meeting *m)
{
	m->is_stale = false;
	m->step = 0;
	m->view = 0;
	for (int i = 0; i < m->who->n_pes; i++)
		m->view = meeting_view(m->view, m->members[i].pe, m->members[i].nonce);
	team_agreement_init(&m->agreement, m->view);
}

/* One offer of each. The id; -EAGAIN, -ENOSPC, -ESTALE, or why this PE does not see the offers. */
static int offer_ids(struct meeting *m)
{
	struct team_offer own;
	int r;

	pthread_mutex_lock(&m->world->tables);
	own = team_agreement_offer(&m->agreement, m->world->ids);
	pthread_mutex_unlock(&m->world->tables);
	m->step++;
	publish(m, own);
	r = await(m);
	for (int i = 0; !r && i < m->who->n_pes; i++)
		team_agreement_take(&m->agreement, &m->members[i].offer);
	if (r < 0)
		m->agreement.error = r;
	pthread_mutex_lock(&m->world->tables);
	r = team_agreement_end(&m->agreement, m->world->ids, &own, true);
	pthread_mutex_unlock(&m->world->tables);
	return r;
}

/* It has read the offers of all: it is in the next step, or has left, and perhaps called again. */
static bool has_gone_on(struct meeting *m, struct member *member)
{
	uint64_t nonce = member->nonce;

	member->is_here = false;
	return look_at(m, member) < 0 || member->is_here || member->slot < 0 || member->nonce != nonce;
}

/* All PEs come to this end, but may still have to read the last offer of this one. */
static int fail_full(struct meeting *m)
{
	unsigned int turn = 0;
	bool all;

	m->step++;
	publish(m, (struct team_offer){0});
	do {
		all = true;
		for (int i = 0; i < m->who->n_pes; i++)
			all &= has_gone_on(m, &m->members[i]);
	} while (!all && !wait_turn(m, turn++));
	return shmd_error_set(-ENOSPC, "no id is left that is free on all PEs: each has room for %llu teams (SHMD_MAX_TEAMS)",
			      (unsigned long long)m->world->settings.max_teams);
}

static int agree(struct meeting *m)
{
	int r;

	publish(m, (struct team_offer){0});
	r = await(m);
	if (r < 0)
		return r;
	begin_view(m);
	do {
		r = offer_ids(m);
		if (r == -ESTALE) {
			begin_view(m);
			r = -EAGAIN;
		}
	} while (r == -EAGAIN);
	return r == -ENOSPC ? fail_full(m) : r;
}

/* All say that they have agreed, and learn it of all. */
static int confirm(struct meeting *m)
{
	int r;

	m->step++;
	publish(m, (struct team_offer){0});
	r = await(m);
	if (r == -ESTALE)
		return shmd_error_set(-ETIMEDOUT, "a member of the team with the tag 0x%llx gave up, and began anew",
				      (unsigned long long)m->who->tag);
	return r;
}

static int meet(struct meeting *m)
{
	int id = agree(m), r = id < 0 ? id : confirm(m);

	if (r < 0)
		return r;
	for (int i = 0; i < m->who->n_pes; i++)
		m->team->members[i] = (uint32_t)m->members[i].pe;
	team_begin(m->team, (uint32_t)id, m->who->n_pes);
	return 0;
}

/* ---- the call */

static uint64_t make_nonce(const struct shmd_world *world)
{
	static uint64_t n_made;
	uint64_t number = __atomic_add_fetch(&n_made, 1, __ATOMIC_RELAXED);

	/* The clock differs from call to call and the number from thread to thread; 0 is no nonce. */
	return meeting_view(nsec_now(), world->rank, number) | 1;
}

static int check_place(const struct shmd_world *world, const struct shmd_team_members *who)
{
	if (!who)
		return shmd_error_set(-EINVAL, "members is NULL");
	if (who->n_pes < 1 || who->n_pes > world->size)
		return shmd_error_set(-EINVAL, "a team of %d PEs in a world of %d", who->n_pes, world->size);
	if (!who->pes && (who->my_pe < 0 || who->my_pe >= who->n_pes))
		return shmd_error_set(-EINVAL, "number %d in a team of %d PEs", who->my_pe, who->n_pes);
	return 0;
}

/* Each PE once, the caller among them: *ret_place. */
static int check_list(const struct shmd_world *world, const struct shmd_team_members *who, int *ret_place)
{
	_cleanup_free_ bool *is_named = calloc((size_t)world->size, sizeof(*is_named));
	int place = -1;

	if (!is_named)
		return shmd_error_set(-ENOMEM, "no memory for a list of %d PEs", who->n_pes);
	for (int i = 0; i < who->n_pes; i++) {
		int pe = who->pes[i];

		if (pe < 0 || pe >= world->size || is_named[pe])
			return shmd_error_set(-EINVAL, "PE %d, number %d of the list, is not in this world of %d PEs or in the list twice", pe,
					      i, world->size);
		is_named[pe] = true;
		if (pe == world->rank)
			place = i;
	}
	if (place < 0)
		return shmd_error_set(-EINVAL, "the caller, PE %d, is not in the list", world->rank);
	*ret_place = place;
	return 0;
}

static int prepare(struct meeting *m)
{
	const struct shmd_team_members *who = m->who;
	int r = team_alloc(m->world, who->n_pes, &m->team);

	if (r < 0)
		return r;
	m->members = calloc((size_t)who->n_pes, sizeof(*m->members));
	if (!m->members)
		return shmd_error_set(-ENOMEM, "no memory for a team of %d PEs", who->n_pes);
	m->list = meeting_list(who->pes, who->n_pes);
	m->nonce = make_nonce(m->world);
	m->deadline = nsec_add(nsec_now(), m->world->dev->timeout_nsec);
	/* The others must not meet a PE that will fail. */
	r = check_world(m->world);
	if (!r)
		r = claim(m);
	for (int i = 0; i < who->n_pes; i++)
		m->members[i] = (struct member){.pe = who->pes ? who->pes[i] : -1, .slot = -1};
	m->members[m->my_place].pe = m->world->rank;
	m->members[m->my_place].slot = m->my_slot;
	return r;
}

/* The team has begun. */
static int settle(struct meeting *m)
{
	int r = team_sync(m->team, "shmd_team_from_members");

	release(m);
	if (!r)
		r = team_sync(m->team, "shmd_team_from_members");
	if (r < 0) {
		/* The others may use it, so its id stays in use. */
		team_drop(m->team);
		m->team = NULL;
	}
	return r;
}

static int make(struct meeting *m)
{
	int r = prepare(m);

	if (!r) {
		r = meet(m);
		if (r < 0)
			release(m);
		else
			r = settle(m);
	}
	if (r < 0)
		team_free(m->team);
	free(m->members);
	return r;
}

int shmd_team_from_members(struct shmd_world *world, const struct shmd_team_members *members, struct shmd_team **ret_team)
{
	struct meeting m = {.world = world, .who = members, .my_slot = -1};
	int r = world_check_started(world);

	if (!r && !ret_team)
		r = shmd_error_set(-EINVAL, "ret_team is NULL");
	if (!r)
		r = check_place(world, members);
	if (!r && members->pes)
		r = check_list(world, members, &m.my_place);
	else if (!r)
		m.my_place = members->my_pe;
	if (r < 0)
		return r;
	runtime_nvtx_push("shmd_team_from_members");
	r = make(&m);
	runtime_nvtx_pop();
	if (!r)
		*ret_team = m.team;
	return world_fail(world, r);
}
