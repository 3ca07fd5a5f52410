/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fair turns on the control thread.
 *
 * Serving a client charges the time to two accounts, that of its uid and that of its tenant's cgroup. A debt shrinks by half of
 * the time that passes and has a limit, so a user does not pay long for time that no other user wanted. The next turn goes to the
 * user that owes least, and among equals to the one whose accounts were served longest ago: many sessions of a uid, or many
 * uids of a cgroup, wait for each other and not for others.
 *
 * While no client waits, a client that owes little is served at once. The loop does not watch the socket of a client that waits, and
 * looks at sockets after each millisecond of turns. Control thread.
 */
#include "daemon/clients/fair-turns.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define AT_ONCE_NSEC NSEC_PER_MSEC
#define MOST_NSEC (50 * NSEC_PER_MSEC)
#define RUN_NSEC NSEC_PER_MSEC /* then the loop looks at sockets */

struct turn_account {
	struct list link; /* struct turns.accounts */
	unsigned int refs;
	const void *key;
	uint64_t debt_nsec, seen_nsec;
	uint64_t served_nsec; /* the end of its last turn */
};

/* Clients with the same accounts. */
struct turn_user {
	struct turns *turns;
	struct list link; /* struct turns.users */
	struct list ready; /* struct turns.ready, while some of them wait */
	struct list waiting; /* struct turn.link, the longest first */
	unsigned int refs;
	struct turn_account *accounts[TURN_ACCOUNTS]; /* NULL: none */
};

struct turns {
	struct loop_timer *timer;
	struct list users;
	struct list ready; /* struct turn_user.ready, served longest ago first */
	struct list accounts;
	struct turn_account all; /* charged for every turn */
};

DEFINE_CLEANUP(struct turns *, turns_free);

/* ---- accounts ----------------------------------------------------------------------------------------------------- */

static struct turn_account *account_get(struct turns *turns, const void *key)
{
	struct turn_account *account;

	list_for_each_entry(account, &turns->accounts, link)
		if (account->key == key) {
			account->refs++;
			return account;
		}
	account = calloc(1, sizeof(*account));
	if (!account)
		return NULL;
	*account = (struct turn_account){.refs = 1, .key = key, .seen_nsec = nsec_now()};
	list_add_tail(&turns->accounts, &account->link);
	return account;
}

static void account_put(struct turn_account *account)
{
	if (!account || --account->refs > 0)
		return;
	list_del(&account->link);
	free(account);
}

static uint64_t account_debt(struct turn_account *account, uint64_t now)
{
	uint64_t paid = (now - account->seen_nsec) / 2;

	account->debt_nsec -= paid < account->debt_nsec ? paid : account->debt_nsec;
	account->seen_nsec = now;
	return account->debt_nsec;
}

static void account_charge(struct turn_account *account, uint64_t nsec, uint64_t now)
{
	account->served_nsec = now;
	account->debt_nsec = nsec_add(account->debt_nsec, nsec);
	if (account->debt_nsec > MOST_NSEC)
		account->debt_nsec = MOST_NSEC;
}

/* ---- users -------------------------------------------------------------------------------------------------------- */

static struct turn_user *user_put(struct turn_user *user)
{
	if (!user || --user->refs > 0)
		return NULL;
	list_del(&user->link);
	for (unsigned int i = 0; i < TURN_ACCOUNTS; i++)
		account_put(user->accounts[i]);
	free(user);
	return NULL;
}
DEFINE_CLEANUP(struct turn_user *, user_put);

static bool has_keys(const struct turn_user *user, const void *const keys[TURN_ACCOUNTS])
{
	for (unsigned int i = 0; i < TURN_ACCOUNTS; i++)
		if ((user->accounts[i] ? user->accounts[i]->key : NULL) != keys[i])
			return false;
	return true;
}

static struct turn_user *user_new(struct turns *turns, const void *const keys[TURN_ACCOUNTS])
{
	_cleanup_(user_putp) struct turn_user *user = calloc(1, sizeof(*user));

	if (!user)
		return NULL;
	user->turns = turns;
	user->refs = 1;
	list_init(&user->link);
	list_init(&user->ready);
	list_init(&user->waiting);
	for (unsigned int i = 0; i < TURN_ACCOUNTS; i++) {
		user->accounts[i] = keys[i] ? account_get(turns, keys[i]) : NULL;
		if (keys[i] && !user->accounts[i])
			return NULL;
	}
	list_add_tail(&turns->users, &user->link);
	return take_ptr(user);
}

static struct turn_user *user_get(struct turns *turns, const void *const keys[TURN_ACCOUNTS])
{
	struct turn_user *user;

	list_for_each_entry(user, &turns->users, link)
		if (has_keys(user, keys)) {
			user->refs++;
			return user;
		}
	return user_new(turns, keys);
}

static uint64_t user_debt(const struct turn_user *user, uint64_t now)
{
	uint64_t most = 0;

	for (unsigned int i = 0; i < TURN_ACCOUNTS; i++) {
		uint64_t debt = user->accounts[i] ? account_debt(user->accounts[i], now) : 0;

		most = debt > most ? debt : most;
	}
	return most;
}

static uint64_t user_served(const struct turn_user *user)
{
	uint64_t last = 0;

	for (unsigned int i = 0; i < TURN_ACCOUNTS; i++)
		if (user->accounts[i] && user->accounts[i]->served_nsec > last)
			last = user->accounts[i]->served_nsec;
	return last;
}

/* ---- turns -------------------------------------------------------------------------------------------------------- */

/* Returns the time at its end. */
static uint64_t serve(struct turn *turn, uint64_t begin)
{
	const struct turn_user *user = turn->user;
	uint64_t end;

	turn->fn(turn->arg);
	end = nsec_now();
	for (unsigned int i = 0; i < TURN_ACCOUNTS; i++)
		if (user->accounts[i])
			account_charge(user->accounts[i], end - begin, end);
	account_debt(&user->turns->all, end);
	account_charge(&user->turns->all, end - begin, end);
	return end;
}

/* Many users may owe nothing: then the accounts take turns, however many users of one of them wait. */
static struct turn_user *find_least(struct turns *turns, uint64_t now)
{
	struct turn_user *user, *next = NULL;
	uint64_t least = UINT64_MAX, earliest = UINT64_MAX;

	list_for_each_entry(user, &turns->ready, ready) {
		uint64_t debt = user_debt(user, now), served = user_served(user);

		if (debt > least || (debt == least && served >= earliest))
			continue;
		least = debt;
		earliest = served;
		next = user;
	}
	return next;
}

static struct turn *take_next(struct turns *turns, uint64_t now)
{
	struct turn_user *user = find_least(turns, now);
	struct turn *turn;

	if (!user)
		return NULL;
	turn = list_first_entry(&user->waiting, struct turn, link);
	list_del(&turn->link);
	list_del(&user->ready);
	if (!list_empty(&user->waiting))
		list_add_tail(&turns->ready, &user->ready);
	return turn;
}

static void on_timer(void *arg)
{
	struct turns *turns = arg;
	uint64_t begin = nsec_now(), now = begin;
	struct turn *turn;

	while (now - begin < RUN_NSEC && (turn = take_next(turns, now)))
		now = serve(turn, now);
	if (!list_empty(&turns->ready))
		loop_timer_arm(turns->timer, 0);
}

/* Not once all together took long: a crowd whose users owe little each would be heard before one that comes behind it. */
static bool is_heard_at_once(struct turns *turns, const struct turn_user *user, uint64_t now)
{
	return user_debt(user, now) < AT_ONCE_NSEC && account_debt(&turns->all, now) < AT_ONCE_NSEC;
}

void turn_ask(struct turn *turn)
{
	struct turn_user *user = turn->user;
	struct turns *turns = user->turns;
	uint64_t now;

	if (!list_empty(&turn->link))
		return;
	now = nsec_now();
	if (list_empty(&turns->ready) && (is_heard_at_once(turns, user, now) || loop_timer_arm(turns->timer, 0) < 0)) {
		serve(turn, now);
		return;
	}
	list_add_tail(&user->waiting, &turn->link);
	if (list_empty(&user->ready))
		list_add_tail(&turns->ready, &user->ready);
}

bool turn_waits(const struct turn *turn)
{
	return turn->user && !list_empty(&turn->link);
}

int turn_init(struct turn *turn, struct turns *turns, const void *const keys[TURN_ACCOUNTS],
	      void (*fn)(void *arg), void *arg)
{
	struct turn_user *user = user_get(turns, keys);

	if (!user)
		return -ENOMEM;
	*turn = (struct turn){.user = user, .fn = fn, .arg = arg};
	list_init(&turn->link);
	return 0;
}

void turn_deinit(struct turn *turn)
{
	struct turn_user *user = turn->user;

	if (!user)
		return;
	list_del(&turn->link);
	if (list_empty(&user->waiting))
		list_del(&user->ready);
	user_put(user);
	*turn = (struct turn){0};
}

/* ---- birth and death ---------------------------------------------------------------------------------------------- */

int turns_new(struct loop *loop, struct turns **ret_turns)
{
	_cleanup_(turns_freep) struct turns *turns = calloc(1, sizeof(*turns));
	int r;

	if (!turns)
		return -ENOMEM;
	list_init(&turns->users);
	list_init(&turns->ready);
	list_init(&turns->accounts);
	r = loop_timer_new(loop, on_timer, turns, &turns->timer);
	if (r == 0)
		*ret_turns = take_ptr(turns);
	return r;
}

struct turns *turns_free(struct turns *turns)
{
	if (!turns)
		return NULL;
	assert_bug(list_empty(&turns->users) && list_empty(&turns->accounts));
	loop_timer_free(turns->timer);
	free(turns);
	return NULL;
}
