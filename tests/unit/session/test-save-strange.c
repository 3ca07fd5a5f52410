/* SPDX-License-Identifier: Apache-2.0 */
/* States that no daemon has written, and sessions that the next daemon cannot take over. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/unit/session/save-scene.h"

/* Adopted or not: nothing is left of it in the end, and nothing breaks. */
static bool try_bytes(struct save_scene *s, const void *bytes, size_t n)
{
	struct session *session = NULL;
	int r = save_lab_adopt_bytes(&s->k, s->id, bytes, n, &session);

	if (r == 0)
		session_free(session);
	return r == 0;
}

/* Each in a process of its own would take long: the store is copied instead, and what a try leaves of it is dropped. */
static void reset(struct save_scene *s, const struct save_lab *saved)
{
	s->k.n = saved->n;
	memcpy(s->k.kept, saved->kept, sizeof(saved->kept));
	for (unsigned int i = 0; i < s->k.n; i++) {
		s->k.kept[i].fd = dup(saved->kept[i].fd);
		s->k.kept[i].claimed = true;
	}
}

/* A strange state may say that the client has unread descriptors: the daemon then waits until the client has read everything. */
static void read_all(const struct save_scene *s)
{
	char buf[4096];

	while (recv(s->a.raw.sock, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		continue;
}

static void forget(struct save_scene *s)
{
	save_lab_let_go(&s->k, s->id);
	read_all(s);
	lab_assert_empty(&s->k.lab);
	if (save_lab_has(&s->k, SAVE_REGISTRY))
		s->k.lab.registry.attr.store->remove(&s->k, SAVE_REGISTRY);
	ASSERT_EQ(s->k.n, 0);
}

static void try_all(void (*spoil)(uint8_t *bytes, size_t *n, size_t i), size_t step, bool may_pass)
{
	struct save_lab *saved = calloc(1, sizeof(*saved));
	uint8_t *bytes, *spoilt;
	struct save_scene s;
	size_t n;

	save_scene_init(&s, 100);
	save_scene_restart(&s);
	bytes = save_lab_state(&s.k, s.id, &n);
	*saved = s.k;
	for (size_t i = 0; i < n; i += step) {
		size_t m = n;

		spoilt = malloc(n);
		memcpy(spoilt, bytes, n);
		spoil(spoilt, &m, i);
		reset(&s, saved);
		ASSERT(!try_bytes(&s, spoilt, m) || may_pass);
		forget(&s);
		free(spoilt);
	}
	for (unsigned int i = 0; i < saved->n; i++)
		close(saved->kept[i].fd);
	free(bytes);
	raw_close(&s.a.raw);
	save_lab_deinit(&s.k);
	free(saved);
}

static void cut(uint8_t *bytes, size_t *n, size_t i)
{
	*n = i;
}

static void flip(uint8_t *bytes, size_t *n, size_t i)
{
	bytes[i] ^= (uint8_t)(1u << (i % 8));
}

static void fill(uint8_t *bytes, size_t *n, size_t i)
{
	memset(bytes + i, 0xff, *n - i < 4 ? *n - i : 4);
}

TEST_TIMEOUT(state_that_was_cut_is_refused, 60)
{
	try_all(cut, test_is_full() ? 1 : 97, false);
}

TEST_TIMEOUT(strange_state_breaks_nothing, 60)
{
	try_all(flip, test_is_full() ? 1 : 61, true);
	try_all(fill, test_is_full() ? 3 : 67, true);
}

/* Descriptors that are gone, one at a time. */
TEST(session_without_a_descriptor_is_refused)
{
	struct save_lab *saved = calloc(1, sizeof(*saved));
	uint8_t *bytes;
	struct save_scene s;
	size_t n;

	save_scene_init(&s, 100);
	save_scene_restart(&s);
	bytes = save_lab_state(&s.k, s.id, &n);
	*saved = s.k;
	for (unsigned int i = 0; i < saved->n; i++) {
		if (strstr(saved->kept[i].name, "state"))
			continue;
		reset(&s, saved);
		s.k.lab.registry.attr.store->remove(&s.k, saved->kept[i].name);
		/* A batch of a NIC that does not need it is only not to be read. */
		ASSERT(!try_bytes(&s, bytes, n));
		forget(&s);
	}
	for (unsigned int i = 0; i < saved->n; i++)
		close(saved->kept[i].fd);
	free(bytes);
	raw_close(&s.a.raw);
	save_lab_deinit(&s.k);
	free(saved);
}

enum hindrance { NIC_REFUSES, NIC_MISSING, STATE_CUT };

static int adopt_with(struct save_scene *s, enum hindrance what)
{
	struct session *session;
	size_t n;
	void *state = save_lab_state(&s->k, s->id, &n);
	int r;

	if (what == NIC_REFUSES) {
		s->k.lab.nics[1].fail_at = s->k.lab.nics[1].n_calls + 1;
		s->k.lab.nics[1].fail_err = -ENOENT;
	}
	if (what == NIC_MISSING)
		snprintf(s->k.lab.registry.nics[1].info.name, NIC_NAME_BYTES, "other");
	r = save_lab_adopt_bytes(&s->k, s->id, state, what == STATE_CUT ? n - 1 : n, &session);
	free(state);
	return r;
}

static void cannot_go_on(enum hindrance what)
{
	struct shmd_health_page *page;
	struct save_scene s;

	save_scene_init(&s, 100);
	page = mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, s.a.session->health_fd, 0);
	ASSERT_NE(page, MAP_FAILED);
	save_scene_restart(&s);
	ASSERT_EQ(page->session, SHMD_HEALTH_OK);
	ASSERT_NE(adopt_with(&s, what), 0);
	raw_expect_end(&s.a.raw, SHMD_STATUS_INTERNAL);
	/* Kernels that read no socket see it as well. */
	ASSERT_EQ(page->session, SHMD_HEALTH_SESSION_ENDED);
	munmap(page, sizeof(*page));
	save_lab_let_go(&s.k, s.id);
	raw_close(&s.a.raw);
	save_lab_deinit(&s.k);
}

TEST(client_of_a_session_that_cannot_go_on_gets_the_reason)
{
	cannot_go_on(NIC_REFUSES);
	cannot_go_on(NIC_MISSING);
	cannot_go_on(STATE_CUT);
}

TEST(session_that_had_ended_is_only_torn_down)
{
	struct session *session;
	struct save_scene s;
	void *bytes;
	size_t n;

	save_scene_init(&s, 100);
	session_end(s.a.session, SHMD_STATUS_KILLED, "a test ended it");
	save_scene_restart(&s);
	bytes = save_lab_state(&s.k, s.id, &n);
	ASSERT_OK(save_lab_adopt_bytes(&s.k, s.id, bytes, n, &session));
	ASSERT(session->ended);
	ASSERT_EQ(s.k.lab.nics[0].n_queues, 1);
	session_free(session);
	free(bytes);
	/* Its published entries have no owner. */
	ASSERT(save_lab_has(&s.k, "s1-p1"));
	save_lab_let_go(&s.k, s.id);
	raw_close(&s.a.raw);
	save_lab_deinit(&s.k);
}
