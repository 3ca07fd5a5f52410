/* SPDX-License-Identifier: Apache-2.0 */
/* shmemctl list, and looking one thing up in a list. */
#include <errno.h>
#include <string.h>

#include "libclient/ctl/ctl.h"

static const struct {
	const char *what;
	int (*table)(struct ctl *ctl);
	ctl_json_items *items;
	ctl_json_items *undriven; /* a list beside it; or NULL */
} lists[] = {
	{"sessions", ctl_table_sessions, ctl_json_sessions, NULL},
	{"qps", ctl_table_qps, ctl_json_qps, NULL},
	{"mrs", ctl_table_mrs, ctl_json_mrs, NULL},
	{"nics", ctl_table_nics, ctl_json_nics, ctl_json_undriven},
};

int ctl_list(struct ctl *ctl)
{
	const char *what = ctl->args->words[0];
	struct json json;
	unsigned int i = 0;
	int r;

	/* The table of commands has the same words. */
	while (strcmp(lists[i].what, what))
		i++;
	if (!ctl->is_json)
		return lists[i].table(ctl);
	ctl_json_begin(ctl, &json);
	r = ctl_json_list(ctl->client, &json, what, lists[i].items);
	if (!r && lists[i].undriven)
		r = ctl_json_list(ctl->client, &json, "undriven", lists[i].undriven);
	ctl_json_end(&json);
	return r;
}

void ctl_json_begin(struct ctl *ctl, struct json *json)
{
	json_init(json, ctl->out);
	json_begin_object(json, NULL);
	json_uint(json, "schema_version", CTL_SCHEMA_VERSION);
}

void ctl_json_end(struct json *json)
{
	json_end_object(json);
	json_end(json);
}

struct search {
	uint64_t session;
	struct shmd_session_item *ret_item;
};

static int is_session(void *arg, const struct shmd_session_item *item)
{
	const struct search *search = arg;

	if (item->session != search->session)
		return 0;
	*search->ret_item = *item;
	return 1;
}

int ctl_find_session(struct ctl *ctl, uint64_t session, struct shmd_session_item *ret_item)
{
	struct search search = {session, ret_item};
	int r = shmd_admin_sessions(ctl->client, is_session, &search);

	if (r < 0)
		return r;
	return r ? 0 : -ENOENT;
}
