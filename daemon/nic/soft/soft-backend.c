/* SPDX-License-Identifier: Apache-2.0 */
/* The backend: NICs with executors in this process, or in processes of their own. */
#include "daemon/nic/soft/remote/remote.h"
#include "daemon/nic/soft/soft.h"

int nic_soft_probe(const struct nic_soft_attr *attr, struct list *nics)
{
	struct list faces;
	int r;

	if (!attr->start_process)
		return soft_probe(attr, NULL, nics);
	list_init(&faces);
	r = soft_probe(attr, NULL, &faces);
	return r < 0 ? r : remote_wrap(attr, &faces, nics);
}

static int probe(const struct nic_probe_attr *attr, struct list *nics, struct nic_mlx5_report *report)
{
	return nic_soft_probe(&attr->soft, nics);
}

/* Simulated NICs have no driver in the kernel. */
static bool claims(const char *driver)
{
	return false;
}

const struct nic_backend nic_soft_backend = {.name = "soft", .probe = probe, .serve = nic_soft_serve, .claims = claims};
