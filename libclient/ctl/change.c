/* SPDX-License-Identifier: Apache-2.0 */
/* shmemctl kill and port: one change each, and its result. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "libclient/ctl/ctl.h"

int ctl_kill(struct ctl *ctl)
{
	struct shmd_session_item item = {0};
	struct json json;
	uint64_t session;
	int r;

	if (!args_parse_number(ctl->args->words[0], &session))
		return ctl_fail("%s is not the number of a session; \"shmemctl list sessions\" shows them", ctl->args->words[0]);
	/* The daemon lists the process only before the end. A user who may not see it may not kill it: shmd_admin_kill() says so. */
	r = ctl_find_session(ctl, session, &item);
	if (!r || r == -ENOENT)
		r = shmd_admin_kill(ctl->client, session);
	if (r == -ENOENT)
		return ctl_fail("there is no session %" PRIu64 "; \"shmemctl list sessions\" shows all", session);
	if (r < 0)
		return r;
	if (!ctl->is_json) {
		fprintf(ctl->out, "session %" PRIu64 " ended: %s, uid %u, pid %u\n", session, item.command, item.uid,
			item.pid);
		return 0;
	}
	ctl_json_begin(ctl, &json);
	json_uint(&json, "session", session);
	json_uint(&json, "uid", item.uid);
	json_uint(&json, "pid", item.pid);
	json_string(&json, "command", item.command);
	ctl_json_end(&json);
	return 0;
}

struct search {
	const char *nic;
	uint32_t state;
};

static int find_nic(void *arg, const struct shmd_nic_item *item)
{
	struct search *search = arg;

	if (strcmp(item->info.name, search->nic))
		return 0;
	search->state = item->info.state;
	return 1;
}

int ctl_port(struct ctl *ctl)
{
	const char *nic = ctl->args->words[0];
	bool up = !strcmp(ctl->args->words[1], "up");
	struct search search = {.nic = nic};
	struct json json;
	int r = shmd_admin_port_set(ctl->client, nic, up);

	if (r == -ENODEV)
		return ctl_fail("%s; \"shmemctl list nics\" shows all", shmd_error_text());
	if (r < 0)
		return r;
	r = shmd_admin_nics(ctl->client, find_nic, &search);
	if (r < 0)
		return r;
	if (ctl->is_json) {
		ctl_json_begin(ctl, &json);
		json_string(&json, "nic", nic);
		json_string(&json, "state", ctl_nic_state(search.state));
		ctl_json_end(&json);
		return 0;
	}
	fprintf(ctl->out, "%s is %s%s%s", nic, color_on(ctl->has_color, ctl_nic_state_color(search.state)),
		ctl_nic_state(search.state), color_off(ctl->has_color, ctl_nic_state_color(search.state)));
	if (!up)
		fprintf(ctl->out, "; \"shmemctl port %s up\" takes it up again", nic);
	fputc('\n', ctl->out);
	return 0;
}
