/* SPDX-License-Identifier: Apache-2.0 */
/* shmemctl list. */
#include <string.h>

#include "libclient/ctl/ctl.h"

static const struct list {
	const char *what;
	int (*table)(struct ctl *ctl);
	ctl_json_items *items;
	bool is_of_nics; /* else of sessions, some of which a user may not see */
} lists[] = {
	{"sessions", ctl_table_sessions, ctl_json_sessions, false},
	{"qps", ctl_table_qps, ctl_json_qps, false},
	{"mrs", ctl_table_mrs, ctl_json_mrs, false},
	{"pes", ctl_table_pes, ctl_json_pes, false},
	{"paths", ctl_table_paths, ctl_json_paths, false},
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
