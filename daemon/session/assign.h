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

/* NICs that the session has already: not chosen while there are others. */
struct assign_request {
	const char *gpu; /* normal form, or "" */
	const char *nic; /* name asked for, or "" */
	uint64_t taken; /* bit per registry index */
};

/*
 * The NIC, and the reason in words (size bytes). A GPU keeps the NIC it was given first, whoever asks. -ENOENT: no NIC
 * of that name; -ENODEV: none that can be used; -EPERM: the policy keeps that one from
 * everybody.
 */
int assign_nic(struct registry *registry, const struct assign_request *request, char *reason,
	       size_t size, struct registry_nic **ret_rnic);

#endif
