/* SPDX-License-Identifier: Apache-2.0 */
/* Everything is used up, one kind of thing after the other: an administrator gets in, sees which user holds it, and ends that. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/unit/session/lab.h"

#define N_PLACES 2u
#define ORDINARY_UID 4242u

struct scene {
	struct lab lab;
	struct pair hogs[8];
	unsigned int n_hogs;
};

static void scene_init(struct scene *s)
{
	*s = (struct scene){0};
	lab_init(&s->lab, 100);
	s->lab.registry.attr.n_admin_places = N_PLACES;
}

static void scene_deinit(struct scene *s)
{
	while (s->n_hogs > 0)
		pair_deinit(&s->hogs[--s->n_hogs]);
	lab_assert_empty(&s->lab);
	ASSERT_EQ(s->lab.registry.n_admin_taken, 0);
	lab_deinit(&s->lab);
}

/* The kernel says whose a socketpair is; if the test is not root, the daemon is another user's. */
static void as_ordinary(struct scene *s)
{
	if (geteuid() == 0)
		ASSERT_OK(seteuid(ORDINARY_UID));
	else
		s->lab.registry.owner_uid = geteuid() + 1;
}

static void as_administrator(struct scene *s)
{
	if (getuid() == 0)
		ASSERT_OK(seteuid(0));
	s->lab.registry.owner_uid = geteuid();
}

static int connect_pair(struct scene *s, struct pair *pair)
{
	int socks[2], r;

	ASSERT_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, socks));
	*pair = (struct pair){.raw = {.sock = socks[1]}, .lab = &s->lab};
	r = session_new(&s->lab.registry, socks[0], &pair->session);
	if (r < 0)
		raw_close(&pair->raw);
	return r;
}

static void hog_init(struct scene *s)
{
	as_ordinary(s);
	pair_init_hello(&s->hogs[s->n_hogs++], &s->lab, MSG_ROLE_CLIENT);
	as_administrator(s);
}

static bool is_listed(const struct msg_list_rep *list, uint64_t id)
{
	for (unsigned int i = 0; i < list->n_sessions; i++)
		if (list->sessions[i].session == id)
			return true;
	return false;
}

/* An administrator's way out. */
static void list_and_kill(struct scene *s)
{
	struct pair *victim = &s->hogs[s->n_hogs - 1];
	struct msg req, rep;
	struct pair admin;

	pair_init_hello(&admin, &s->lab, MSG_ROLE_CONTROL);
	ASSERT(session_is_admin(admin.session));
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_SESSIONS;
	raw_expect(&admin.raw, &req, NULL, 0, MSG_LIST_REP, &rep);
	ASSERT(is_listed(&rep.list_rep, victim->session->id));
	msg_deinit(&rep);
	msg_init(&req, MSG_SESSION_KILL_REQ, 0);
	req.session_kill_req.session = victim->session->id;
	raw_expect(&admin.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	ASSERT(victim->session->ended);
	pair_deinit(&admin);
}

TEST(administrator_lists_and_kills_when_connections_are_used_up)
{
	struct scene s;
	int r;

	scene_init(&s);
	s.lab.registry.quota.limits.n[QUOTA_CONNECTIONS] = 1;
	pair_init_hello(&s.hogs[s.n_hogs++], &s.lab, MSG_ROLE_CLIENT); /* the administrator's own */
	list_and_kill(&s);
	/* Nothing is kept for others. One may be let in, where the cgroup of this test is not counted. */
	as_ordinary(&s);
	r = connect_pair(&s, &s.hogs[s.n_hogs]);
	s.n_hogs += r == 0;
	if (r == 0)
		r = connect_pair(&s, &s.hogs[s.n_hogs]);
	ASSERT_EQ(r, -EDQUOT);
	as_administrator(&s);
	scene_deinit(&s);
}

TEST(administrator_lists_and_kills_when_descriptors_are_used_up)
{
	struct scene s;

	scene_init(&s);
	s.lab.registry.quota.pools.n[QUOTA_FDS] = 6;
	hog_init(&s);
	hog_init(&s);
	ASSERT_EQ(s.lab.registry.quota.total.n[QUOTA_FDS], 6);
	list_and_kill(&s);
	scene_deinit(&s);
}

TEST(administrator_lists_and_kills_when_mappings_are_used_up)
{
	struct scene s;

	scene_init(&s);
	s.lab.registry.quota.pools.n[QUOTA_MAPS] = 2 * SESSION_MAPS;
	hog_init(&s);
	hog_init(&s);
	ASSERT_EQ(s.lab.registry.quota.total.n[QUOTA_MAPS], 2 * SESSION_MAPS);
	list_and_kill(&s);
	scene_deinit(&s);
}

TEST(administrator_lists_and_kills_when_sessions_and_regions_are_used_up)
{
	struct scene s;

	scene_init(&s);
	hog_init(&s);
	raw_open_nic(&s.hogs[0].raw, "fake0");
	raw_reg(&s.hogs[0].raw, 4096);
	for (int i = 0; i < QUOTA_N; i++)
		if (i != QUOTA_CONNECTIONS && i != QUOTA_FDS)
			s.lab.registry.quota.limits.n[i] = s.lab.registry.quota.total.n[i];
	list_and_kill(&s);
	scene_deinit(&s);
}

/* It does not get around the limits: a client's session is not an administrator's, and there are few of those. */
TEST(places_for_administrators_are_few_and_for_controllers_alone)
{
	struct pair first, second, third;
	struct scene s;
	struct msg req;

	scene_init(&s);
	s.lab.registry.quota.limits.n[QUOTA_CONNECTIONS] = 1;
	pair_init_hello(&s.hogs[s.n_hogs++], &s.lab, MSG_ROLE_CONTROL);
	pair_init(&first, &s.lab);
	msg_init(&req, MSG_HELLO_REQ, 0);
	req.hello_req.version_min = req.hello_req.version_max = 1;
	req.hello_req.role = MSG_ROLE_CLIENT;
	raw_expect_error(&first.raw, &req, NULL, 0, SHMD_STATUS_QUOTA_SESSIONS);
	pair_expect_end(&first, SHMD_STATUS_QUOTA_SESSIONS);
	pair_init_hello(&second, &s.lab, MSG_ROLE_CONTROL);
	ASSERT_EQ(connect_pair(&s, &third), -EDQUOT);
	pair_deinit(&first);
	pair_init_hello(&third, &s.lab, MSG_ROLE_CONTROL);
	pair_deinit(&second);
	pair_deinit(&third);
	scene_deinit(&s);
}

/* The attack: a uid whose many connections say nothing used to hold uncounted descriptors. */
TEST(connections_that_say_nothing_are_charged_their_descriptors)
{
	struct scene s;
	struct pair more;

	scene_init(&s);
	as_ordinary(&s);
	s.lab.registry.quota.limits.n[QUOTA_FDS] = 4;
	ASSERT_OK(connect_pair(&s, &s.hogs[s.n_hogs++]));
	ASSERT_OK(connect_pair(&s, &s.hogs[s.n_hogs++]));
	ASSERT_EQ(connect_pair(&s, &more), -EDQUOT);
	as_administrator(&s);
	scene_deinit(&s);
}
