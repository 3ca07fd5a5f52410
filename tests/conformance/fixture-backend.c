/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptors of the backends, and the skips that follow from them. */
#include "tests/conformance/fixture.h"

#include <stdio.h>
#include <string.h>

static const struct conf_backend *const backends[] = {&conf_backend_soft, &conf_backend_soft_gpu, &conf_backend_mlx5};

const struct conf_backend *conf_backend_find(const char *name)
{
	for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
		if (strcmp(backends[i]->name, name) == 0 && backends[i]->is_gpu == conf_memory_is_gpu())
			return backends[i];
	test_fail(TEST_WHERE, "no descriptor in tests/conformance/backends for \"%s\"", name);
}

/* A skipped test leaves its world to the runner, which ends the process and its private daemon. */
static void skip(const struct conf *c, const char *what)
{
	char text[128];

	snprintf(text, sizeof(text), "the %s backend lacks %s", c->backend->name, what);
	test_skip(text);
}

void conf_need(const struct conf *c, uint32_t features)
{
	static const char *const names[] = {
		"atomics",
		"masked atomics",
		"receive queues",
		"SQD",
		"events",
		"placement order",
		"the cause of a flush in a collapsed CQ",
		"a lossless way",
		"an administrator's hand on its port",
		"the word beside a QP's dbrec",
		"counters of work requests",
		"atomics that are exact against a CPU's",
		"regions that begin at address 0",
	};

	_Static_assert(1u << (sizeof(names) / sizeof(names[0])) == CONF_F_END, "a name for each feature");
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (features & ~c->backend->features & (1u << i))
			skip(c, names[i]);
}

void conf_need_bytes(const struct conf *c, uint64_t message_bytes)
{
	if (message_bytes > c->backend->max_message_bytes)
		skip(c, "messages of this size");
}

void conf_need_sges(const struct conf *c, unsigned int n_sges)
{
	if (n_sges > c->backend->max_sges)
		skip(c, "so many data segments");
}

void conf_need_inline(const struct conf *c, unsigned int bytes)
{
	if (bytes > c->backend->max_inline_bytes)
		skip(c, "so much inline data");
}
