/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: each finds rank and size, and brings rank 0's unique id to all ranks. All of them run in bootstrap_open(), on its thread.
 */
#ifndef SHMD_RUNTIME_MODULE_H
#define SHMD_RUNTIME_MODULE_H

#include "libclient/runtime/bootstrap/bootstrap.h"
#include "libclient/runtime/bootstrap/links.h"

struct module {
	const char *name;
	/* True if the environment or the process asks for this module; NULL: only by name. */
	bool (*is_wanted)(const struct bootstrap_attr *attr);
	/* attr->env and attr->timeout_nsec are set. `args` follow the name and a colon, or are "". */
	int (*open)(const struct bootstrap_attr *attr, const char *args, uint64_t deadline, struct shmd_bootstrap *ret);
};

extern const struct module module_uid, module_env, module_mpi, module_pmix, module_pmi1, module_pmi2, module_torchrun, module_openshmem,
	module_plugin, module_none;

/* A number of the environment. 0; -ENOENT: not set; -EINVAL with a sentence: no number from `least` to `most`. */
int module_number(const struct bootstrap_attr *attr, const char *name, int least, int most, int *ret);
/* The same, and -EINVAL with a sentence if it is not set. */
int module_need_number(const struct bootstrap_attr *attr, const char *module, const char *name, int least, int most, int *ret);

#endif
