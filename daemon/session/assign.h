/* SPDX-License-Identifier: Apache-2.0 */
/* Which NIC a client gets. */
#ifndef SHMEMD_SESSION_ASSIGN_H
#define SHMEMD_SESSION_ASSIGN_H

#include <stddef.h>

#include "daemon/session/registry.h"

/*
 * Normal form of a GPU's name: a PCI bus id ("0000:3b:00.0") or a UUID ("GPU-" and 8-4-4-4-12 hex digits).
 * -EINVAL for anything else. buf has REGISTRY_GPU_BYTES.
 */
int assign_parse_gpu(const char *text, char *buf);

struct assign_request {
	const char *gpu; /* normal form, or "" */
	const char *nic; /* name asked for, or "" */
	/* NICs that it has already, a bit per registry index: got again by name, by a GPU that has no other, or where all are taken. */
	uint64_t taken;
};

/*
 * The NIC, and the reason in words (size bytes). A NIC requested by name is granted even while its port is down. A GPU gets what the map of the
 * node has for it now. Where that has nothing, it keeps the NIC that it was given first, whoever asks, while that can be used, and is
 * not set aside by the map beside others that are not. All else gets the least loaded one. -ENOENT: no NIC of that name; -ENODEV: that
 * NIC is lost, or none can be used; -EPERM: the policy keeps that one from everybody.
 */
int assign_nic(struct registry *registry, const struct assign_request *request, char *reason,
	       size_t size, struct registry_nic **ret_rnic);

#endif
