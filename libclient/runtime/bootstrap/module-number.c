/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that a launcher left in the environment. */
#include <errno.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/module.h"
#include "proto/base/parse.h"
#include "proto/base/show.h"

int module_number(const struct bootstrap_attr *attr, const char *name, int least, int most, int *ret)
{
	const char *text = attr->env(name);
	char shown[SHOW_BUF_BYTES];
	uint64_t value;

	if (!text || !*text)
		return -ENOENT;
	if (parse_u64(text, 10, &value) || value > (uint64_t)most || (int)value < least)
		return shmd_error_set(-EINVAL, "the environment variable %s is %s; it must be a number from %d to %d", name,
				      show_text(text, shown), least, most);
	*ret = (int)value;
	return 0;
}

int module_need_number(const struct bootstrap_attr *attr, const char *module, const char *name, int least, int most, int *ret)
{
	int err = module_number(attr, name, least, most, ret);

	return err == -ENOENT ? shmd_error_set(-EINVAL, "the bootstrap module %s needs the environment variable %s", module, name) : err;
}
