/* SPDX-License-Identifier: Apache-2.0 */
/* Which module opens a bootstrap: the one that attr names, else the first that the environment asks for. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/address.h"
#include "libclient/runtime/bootstrap/module.h"
#include "proto/base/nsec.h"

/* In the order of detection; README.md has the same table. The last is always wanted. */
static const struct module *const modules[] = {
	&module_uid, &module_env, &module_mpi, &module_pmix, &module_pmi1, &module_torchrun,
	/* By name only. */
	&module_pmi2, &module_openshmem, &module_plugin, &module_none,
};
#define N_MODULES (sizeof(modules) / sizeof(modules[0]))

static const struct module *find_wanted(const struct bootstrap_attr *attr)
{
	for (size_t i = 0; i < N_MODULES - 1; i++)
		if (modules[i]->is_wanted && modules[i]->is_wanted(attr))
			return modules[i];
	return modules[N_MODULES - 1];
}

static const struct module *find_named(const char *name, const char **ret_args)
{
	for (size_t i = 0; i < N_MODULES; i++) {
		size_t n = strlen(modules[i]->name);

		if (strncmp(name, modules[i]->name, n) || (name[n] && name[n] != ':'))
			continue;
		*ret_args = name[n] ? name + n + 1 : "";
		return modules[i];
	}
	return NULL;
}

int bootstrap_open(const struct bootstrap_attr *attr, struct shmd_bootstrap *ret)
{
	struct bootstrap_attr whole = *attr;
	bool is_auto = !attr->module || !*attr->module || !strcmp(attr->module, "auto");
	const struct module *module;
	const char *args = "";

	if (!whole.timeout_nsec)
		whole.timeout_nsec = BOOTSTRAP_DEFAULT_TIMEOUT_SEC * NSEC_PER_SEC;
	if (!whole.lost_nsec)
		whole.lost_nsec = SOCKET_LOST_NSEC;
	if (!whole.env)
		whole.env = getenv;
	module = is_auto ? find_wanted(&whole) : find_named(attr->module, &args);
	if (!module)
		return shmd_error_set(-EINVAL, "there is no bootstrap module %.64s", attr->module);
	return module->open(&whole, args, nsec_add(nsec_now(), whole.timeout_nsec), ret);
}
