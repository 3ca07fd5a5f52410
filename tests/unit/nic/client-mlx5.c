/* SPDX-License-Identifier: Apache-2.0 */
/* A file of its own, so that programs on soft NICs alone are the same bytes in a build without the backend. */
#include <stdlib.h>

#include "client.h"
#include "config.h"
#include "daemon/porter/zygote.h"
#include "tests/lib/test.h"

#if HAVE_MLX5
static int start_mapper(void *arg, uint32_t uid, int *ret_channel)
{
	const struct zygote_order order = {.kind = ZYGOTE_MAPPER, .uid = uid};

	return zygote_fork(((struct rig *)arg)->zygote, &order, -1, ret_channel);
}

void rig_open_mlx5(struct rig *rig, unsigned int n_nics, const char *trace)
{
	const struct zygote_runs runs = {.run = {[ZYGOTE_MAPPER] = nic_mlx5_serve}};
	const struct nic_mlx5_attr attr = {.trace = trace,
					   .objects = getenv("SHMEMD_MLX5_OBJECTS"),
					   .start_process = rig_is_remote() ? start_mapper : NULL,
					   .start_arg = rig};
	struct nic_mlx5_report report;
	struct nic *nic;

	list_init(&rig->nics);
	rig->n_nics = 0;
	rig->zygote = 0;
	if (rig_is_remote())
		ASSERT_OK(zygote_start(&runs, &rig->zygote));
	ASSERT_OK(nic_mlx5_probe(&attr, &rig->nics, &report));
	ASSERT_STREQ(report.unusable, "");
	list_for_each_entry(nic, &rig->nics, link)
		if (rig->n_nics < n_nics)
			rig_add_nic(rig, nic);
	ASSERT_EQ(rig->n_nics, n_nics);
}
#endif
