/* SPDX-License-Identifier: Apache-2.0 */
/* Status numbers to names, sentences and errno. Numbers come from the other side: any value is answered. */
#include <stddef.h>

#include "proto/status.h"

struct status_entry {
	unsigned int number;
	int error;
	const char *name;
	const char *text;
};

static const struct status_entry entries[] = {
#define X(name, number, err, text) {number, err, #name, text},
	SHMD_STATUS_LIST(X)
#undef X
};

static const struct status_entry *find(unsigned int status)
{
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		if (entries[i].number == status)
			return &entries[i];
	return NULL;
}

const char *status_name(unsigned int status)
{
	const struct status_entry *entry = find(status);

	return entry ? entry->name : "UNKNOWN";
}

const char *status_text(unsigned int status)
{
	const struct status_entry *entry = find(status);

	return entry ? entry->text : "a status that this version does not know";
}

int status_to_errno(unsigned int status)
{
	const struct status_entry *entry = find(status);

	return entry ? entry->error : -EIO;
}
