/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/world/rail-rule.h"

#include <shmd.h>

uint32_t rail_count(uint64_t setting, uint32_t n_nics, uint32_t n_node_pes)
{
	uint64_t n = setting;

	if (!n && n_node_pes)
		n = n_nics / n_node_pes;
	if (n > SHMD_DEV_RAILS)
		return SHMD_DEV_RAILS;
	return n ? (uint32_t)n : 1;
}

uint32_t rail_at_peer(uint32_t rail, uint32_t n_peer_rails)
{
	return rail % n_peer_rails;
}

uint32_t rail_of_new_ctx(const uint32_t *n_contexts, const bool *is_usable, uint32_t n_rails)
{
	uint32_t best = n_rails;

	for (uint32_t i = 0; i < n_rails; i++)
		if (is_usable[i] && (best == n_rails || n_contexts[i] < n_contexts[best]))
			best = i;
	return best == n_rails ? 0 : best;
}
