/* SPDX-License-Identifier: Apache-2.0 */
/* shmemctl list, and looking one thing up in a list. */
#include <errno.h>
#include <string.h>

#include "libclient/ctl/ctl.h"

static const struct list {
	const char *what;
	int (*table)(struct ctl *ctl);
	ctl_json_items *items;
	bool is_of_nics; /* else of sessions, which a user may not see all of */
} lists[] = {
	{"sessions", ctl_table_sessions, ctl_json_sessions, false},
	{"qps", ctl_table_qps, ctl_json_qps, false},
	{"mrs", ctl_table_mrs, ctl_json_mrs, false},
	{"nics", ctl_table_nics, ctl_json_nics, true},
};

static int list_text(struct ctl *ctl, const struct list *list, const struct shmd_daemon_status *status)
{
	int r = list->table(ctl);

	if (r)
		return r;
	if (list->is_of_nics)
		ctl_print_warning(ctl, status);
	else
		ctl_print_hidden(ctl, status);
	return 0;
}

static int list_json(struct ctl *ctl, const struct list *list, const struct shmd_daemon_status *status)
{
	struct json json;
	int r;

	ctl_json_begin(ctl, &json);
	r = ctl_json_list(ctl->client, &json, list->what, list->items);
	if (!r && list->is_of_nics)
		r = ctl_json_list(ctl->client, &json, "undriven", ctl_json_undriven);
	if (list->is_of_nics)
		json_string(&json, "settings_warning", status->settings_warning);
	else
		json_uint(&json, "n_hidden_sessions", status->n_hidden_sessions);
	ctl_json_end(&json);
	return r;
}

int ctl_list(struct ctl *ctl)
{
	struct shmd_daemon_status status;
	unsigned int i = 0;
	int r = shmd_admin_status(ctl->client, &status);

	if (r < 0)
		return r;
	/* The table of commands has the same words. */
	while (strcmp(lists[i].what, ctl->args->words[0]))
		i++;
	return ctl->is_json ? list_json(ctl, &lists[i], &status) : list_text(ctl, &lists[i], &status);
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
