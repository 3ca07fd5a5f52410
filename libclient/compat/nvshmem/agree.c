/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agreements of PEs: whether one of them has failed. The words lie in the host's heap: those that this PE gives, the result, the same for each
 * team, since teams agree at the same time in other threads, and behind them places of this PE and of all.
 */
#include <errno.h>

#include "libclient/compat/nvshmem/nvs.h"

#define WORDS (2 * NVS_AGREEMENT_WORDS + 2 * NVS_POOL_TEAMS)

int nvs_agreement_make(void)
{
	size_t places = ((size_t)shmd_n_pes(nvs.world) + 1) * NVS_PLACE_BYTES;

	return shmd_calloc(nvs.world, 1, WORDS * 8 + places, 0, (void **)&nvs.agreement);
}

uint64_t *nvs_agreement_places(void)
{
	return nvs.agreement + WORDS;
}

int nvs_agree_on(uint64_t value, uint64_t *ret_sum)
{
	uint64_t *mine = nvs.agreement, *all = nvs.agreement + NVS_AGREEMENT_WORDS;
	int r;

	*mine = value;
	r = shmd_reduce(shmd_team_world(nvs.world), all, mine, 1, SHMD_TYPE_UINT64, SHMD_REDUCE_SUM);
	*ret_sum = *all;
	return r;
}

static int agree(struct shmd_team *team, int error, uint64_t *mine, uint64_t *all)
{
	int r;

	*mine = error < 0;
	r = shmd_reduce(team, all, mine, 1, SHMD_TYPE_UINT64, SHMD_REDUCE_SUM);
	if (error < 0 || r < 0)
		return error < 0 ? error : r;
	return *all ? shmd_error_set(-EREMOTEIO, "other PEs have failed (%llu); their errors say why", (unsigned long long)*all) : 0;
}

int nvs_agree_in(struct shmd_team *team, int error)
{
	return agree(team, error, nvs.agreement, nvs.agreement + NVS_AGREEMENT_WORDS);
}

int nvs_agree_as(const struct nvs_host_team *team, int error)
{
	uint64_t *mine = nvs.agreement + 2 * NVS_AGREEMENT_WORDS + 2 * (team - nvs.teams);

	return agree(team->team, error, mine, mine + 1);
}

int nvs_agree(int error)
{
	return nvs_agree_in(shmd_team_world(nvs.world), error);
}

int nvs_agree_all(bool mine, bool *ret_all)
{
	uint64_t sum = 0;
	int r = nvs_agree_on(mine, &sum);

	*ret_all = !r && sum == (uint64_t)shmd_n_pes(nvs.world);
	return r;
}
