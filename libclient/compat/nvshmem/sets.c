/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scratch and teams of each class of device library.
 *
 * All classes have theirs from the start, since their scratch is symmetric memory, which all PEs make together, and a module with kernels of
 * another class may come at any time on one of them.
 */
#include <errno.h>
#include <stdlib.h>

#include "libclient/compat/nvshmem/nvs.h"
#include "proto/base/cleanup.h"

#define COUNTERS_BYTES (2 * sizeof(int64_t)) /* of each team */

static uint32_t npes(void)
{
	return (uint32_t)nvs.facts.npes;
}

/* ---- memory */

static int make_symmetric(enum nvs_class class, struct nvs_set *set)
{
	size_t n = (size_t)nvs.max_teams;
	int r = shmd_align(nvs.world, 512, nvs_psync_of(class, npes()).bytes * n, SHMD_HINT_GPU, &set->psync);

	return r ? r : shmd_align(nvs.world, 512, COUNTERS_BYTES * n, SHMD_HINT_GPU, &set->counters);
}

/* Collective: the symmetric memory of all sets first, so that what fails on one PE alone comes behind it. */
int nvs_sets_make(void)
{
	int r = 0;

	for (enum nvs_class class = NVS_CLASS_A; !r && class < NVS_CLASSES; class++) {
		struct nvs_set *set = &nvs.sets[class];

		*set = (struct nvs_set){.class = class, .is_there = nvs_class_set(class, npes()) == class};
		if (set->is_there)
			r = make_symmetric(class, set);
	}
	if (!r)
		r = shmd_calloc(nvs.world, (size_t)nvs.max_teams * npes(), 8, SHMD_HINT_GPU, (void **)&nvs.stream_words);
	for (enum nvs_class class = NVS_CLASS_A; !r && class < NVS_CLASSES; class++)
		if (nvs.sets[class].is_there)
			r = device_alloc(nvs.device, NVS_POOL_TEAMS * 8, &nvs.sets[class].pool);
	return nvs_agree(r);
}

static void drop_set(struct nvs_set *set)
{
	for (unsigned int i = 0; i < NVS_POOL_TEAMS; i++)
		device_free(nvs.device, set->teams[i]);
	device_free(nvs.device, set->pool);
	(void)shmd_free(nvs.world, set->counters);
	(void)shmd_free(nvs.world, set->psync);
	*set = (struct nvs_set){.is_there = false};
}

/* Where the job goes on, as after a start that has failed on all PEs, the next one takes the symmetric memory. */
void nvs_sets_drop(void)
{
	for (enum nvs_class class = NVS_CLASS_A; class < NVS_CLASSES; class++)
		drop_set(&nvs.sets[class]);
	(void)shmd_free(nvs.world, nvs.stream_words);
	nvs.stream_words = NULL;
}

/* ---- teams */

static int clear_scratch(const struct nvs_set *set, int index)
{
	static const int64_t begun[2] = {1, 1};
	uint64_t bytes = nvs_psync_of(set->class, npes()).bytes;
	int r = device_zero(nvs.device, (uint64_t)(uintptr_t)set->psync + (uint64_t)index * bytes, bytes);

	return r ? r : device_write(nvs.device, (uint64_t)(uintptr_t)set->counters + (uint64_t)index * COUNTERS_BYTES, begun, sizeof(begun));
}

static int put_in_pool(struct nvs_set *set, int index, uint64_t address)
{
	set->teams[index] = address;
	return device_write(nvs.device, set->pool + (uint64_t)index * 8, &set->teams[index], 8);
}

static int add_to(struct nvs_set *set, const struct nvs_members *members)
{
	uint32_t bytes = nvs_team_bytes(members);
	_cleanup_free_ void *image = malloc(bytes);
	uint64_t address = 0;
	int r = image ? clear_scratch(set, members->index) : shmd_error_set(-ENOMEM, "no memory for a team");

	if (!r)
		r = device_alloc(nvs.device, bytes, &address);
	if (r < 0)
		return r;
	nvs_team_fill(members, set->class, address, image);
	r = device_write(nvs.device, address, image, bytes);
	if (!r)
		return put_in_pool(set, members->index, address);
	device_free(nvs.device, address);
	return r;
}

int nvs_sets_add_team(const struct nvs_members *members)
{
	size_t words = npes() * sizeof(uint64_t);
	int r = device_zero(nvs.device, (uint64_t)(uintptr_t)nvs.stream_words + (uint64_t)members->index * words, words);

	for (enum nvs_class class = NVS_CLASS_A; !r && class < NVS_CLASSES; class++)
		if (nvs.sets[class].is_there)
			r = add_to(&nvs.sets[class], members);
	if (r < 0)
		nvs_sets_drop_team(members->index);
	return r;
}

void nvs_sets_drop_team(int index)
{
	for (enum nvs_class class = NVS_CLASS_A; class < NVS_CLASSES; class++) {
		struct nvs_set *set = &nvs.sets[class];
		uint64_t address = set->teams[index];

		if (!address)
			continue;
		/* Kernels that look it up find none. */
		(void)put_in_pool(set, index, 0);
		device_free(nvs.device, address);
	}
}
