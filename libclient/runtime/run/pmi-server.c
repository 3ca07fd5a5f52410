/* SPDX-License-Identifier: Apache-2.0 */
/* See pmi-server.h. */
#include "libclient/runtime/run/pmi-server.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/runtime/run/pmi-line.h"
#include "libclient/runtime/run/pmi-store.h"
#include "proto/base/show.h"

#define MAPPING_KEY "PMI_process_mapping"
#define REPLY_BYTES (PMI_MAX_VALUE + 256)

struct pmi_client {
	enum pmi_state state;
	bool is_gone, is_in_barrier;
	bool is_lost; /* ended, finalized or broken: no barrier has it any more */
	size_t spawn_bytes; /* of a multi-line command so far; 0: none is under way */
	size_t n;
	char line[PMI_LINE_BYTES + 1];
};

struct pmi_server {
	const struct pmi_server_ops *ops;
	void *owner;
	struct pmi_store store;
	char name[PMI_MAX_NAME];
	unsigned int n_pes, n_in_barrier, n_lost;
	struct pmi_client clients[];
};

/* ---- answers --------------------------------------------------------------------------------------------------------------- */

static void reply(struct pmi_server *server, unsigned int rank, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void reply(struct pmi_server *server, unsigned int rank, const char *fmt, ...)
{
	char text[REPLY_BYTES];
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	server->ops->send(server->owner, rank, text, (size_t)n);
}

/* ---- clients that are gone -------------------------------------------------------------------------------------------------- */

/* A barrier that cannot end any more: whoever waits in it gets no service from now on. */
static void report_stuck(struct pmi_server *server)
{
	unsigned int lost = 0;

	if (!server->n_in_barrier || !server->n_lost)
		return;
	while (!server->clients[lost].is_lost)
		lost++;
	for (unsigned int i = 0; i < server->n_pes; i++) {
		if (!server->clients[i].is_in_barrier)
			continue;
		server->clients[i].is_in_barrier = false;
		server->clients[i].state = PMI_BROKEN;
		server->clients[i].is_lost = true;
		server->n_lost++;
		server->n_in_barrier--;
		server->ops->stuck(server->owner, i, lost);
	}
}

static void note_lost(struct pmi_server *server, unsigned int rank)
{
	struct pmi_client *client = &server->clients[rank];

	if (client->is_lost)
		return;
	client->is_lost = true;
	server->n_lost++;
	if (client->is_in_barrier)
		server->n_in_barrier--;
	client->is_in_barrier = false;
	report_stuck(server);
}

/* No barrier has it any more, whatever becomes of its process. */
static void break_client(struct pmi_server *server, unsigned int rank, const char *what, const char *text)
{
	char shown[SHOW_BUF_BYTES], why[SHOW_BUF_BYTES + 128];

	snprintf(why, sizeof(why), "sent %s%s%s%s", what, text ? ": \"" : "", text ? show_text(text, shown) : "", text ? "\"" : "");
	server->clients[rank].state = PMI_BROKEN;
	server->clients[rank].n = 0;
	server->ops->broken(server->owner, rank, why);
	note_lost(server, rank);
}

/* ---- barrier --------------------------------------------------------------------------------------------------------------- */

static void do_barrier(struct pmi_server *server, unsigned int rank, const struct pmi_line *line)
{
	(void)line;
	if (server->clients[rank].is_in_barrier) {
		break_client(server, rank, "barrier_in twice", NULL);
		return;
	}
	server->clients[rank].is_in_barrier = true;
	if (++server->n_in_barrier < server->n_pes) {
		report_stuck(server);
		return;
	}
	server->n_in_barrier = 0;
	for (unsigned int i = 0; i < server->n_pes; i++) {
		server->clients[i].is_in_barrier = false;
		reply(server, i, "cmd=barrier_out\n");
	}
}

/* ---- commands -------------------------------------------------------------------------------------------------------------- */

static void do_init(struct pmi_server *server, unsigned int rank, const struct pmi_line *line)
{
	const char *version = pmi_line_get(line, "pmi_version");
	bool is_ours = version && !strcmp(version, "1");

	if (is_ours)
		server->clients[rank].state = PMI_READY;
	reply(server, rank, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=%d\n", is_ours ? 0 : -1);
}

static void do_get_maxes(struct pmi_server *server, unsigned int rank, const struct pmi_line *line)
{
	(void)line;
	reply(server, rank, "cmd=maxes kvsname_max=%d keylen_max=%d vallen_max=%d\n", PMI_MAX_NAME, PMI_MAX_KEY, PMI_MAX_VALUE);
}

static void do_get_appnum(struct pmi_server *server, unsigned int rank, const struct pmi_line *line)
{
	(void)line;
	reply(server, rank, "cmd=appnum appnum=0\n");
}

static void do_get_universe_size(struct pmi_server *server, unsigned int rank, const struct pmi_line *line)
{
	(void)line;
	reply(server, rank, "cmd=universe_size size=%u\n", server->n_pes);
}

static void do_get_my_kvsname(struct pmi_server *server, unsigned int rank, const struct pmi_line *line)
{
	(void)line;
	reply(server, rank, "cmd=my_kvsname kvsname=%s\n", server->name);
}

/* NULL, or the reason to refuse. */
static const char *refuse_names(const struct pmi_server *server, const char *name, const char *key)
{
	if (!name || strcmp(name, server->name))
		return "unknown_kvs";
	return key && *key && strlen(key) < PMI_MAX_KEY ? NULL : "bad_key";
}

static void do_put(struct pmi_server *server, unsigned int rank, const struct pmi_line *line)
{
	const char *key = pmi_line_get(line, "key"), *value = pmi_line_get(line, "value");
	const char *why = refuse_names(server, pmi_line_get(line, "kvsname"), key);
	int r = 0;

	if (!why && (!value || strlen(value) >= PMI_MAX_VALUE))
		why = "bad_value";
	if (!why)
		r = pmi_store_put(&server->store, key, value);
	if (r < 0)
		why = r == -EEXIST ? "duplicate_key" : r == -ENOSPC ? "too_much_data" : "out_of_memory";
	reply(server, rank, "cmd=put_result rc=%d msg=%s\n", why ? -1 : 0, why ? why : "success");
}

static void do_get(struct pmi_server *server, unsigned int rank, const struct pmi_line *line)
{
	const char *key = pmi_line_get(line, "key");
	const char *why = refuse_names(server, pmi_line_get(line, "kvsname"), key);
	const char *value = why ? NULL : pmi_store_get(&server->store, key);

	if (value)
		reply(server, rank, "cmd=get_result rc=0 msg=success value=%s\n", value);
	else
		reply(server, rank, "cmd=get_result rc=-1 msg=%s value=unknown\n", why ? why : "key_not_found");
}

static void do_finalize(struct pmi_server *server, unsigned int rank, const struct pmi_line *line)
{
	(void)line;
	server->clients[rank].state = PMI_FINALIZED;
	reply(server, rank, "cmd=finalize_ack\n");
	note_lost(server, rank);
}

static void do_abort(struct pmi_server *server, unsigned int rank, const struct pmi_line *line)
{
	const char *text = pmi_line_get(line, "exitcode");
	long code = text ? strtol(text, NULL, 10) : 1;

	/* A program may end its job with success; no other number may look like that. */
	server->ops->abort(server->owner, rank, code && !(code & 0xff) ? 1 : (int)(code & 0xff));
}

static void do_publish(struct pmi_server *server, unsigned int rank, const struct pmi_line *line)
{
	reply(server, rank, "cmd=%s_result rc=-1 info=not_supported msg=not_supported\n",
	      !strcmp(line->command, "publish_name") ? "publish" : !strcmp(line->command, "lookup_name") ? "lookup" : "unpublish");
}

static const struct {
	const char *name;
	void (*run)(struct pmi_server *server, unsigned int rank, const struct pmi_line *line);
	bool is_early; /* allowed before init */
} commands[] = {
	{"init", do_init, true},
	{"get_maxes", do_get_maxes, false},
	{"get_appnum", do_get_appnum, false},
	{"get_universe_size", do_get_universe_size, false},
	{"get_my_kvsname", do_get_my_kvsname, false},
	{"put", do_put, false},
	{"get", do_get, false},
	{"barrier_in", do_barrier, false},
	{"finalize", do_finalize, false},
	{"abort", do_abort, true},
	{"publish_name", do_publish, false},
	{"unpublish_name", do_publish, false},
	{"lookup_name", do_publish, false},
};

/* ---- lines ----------------------------------------------------------------------------------------------------------------- */

static void run_command(struct pmi_server *server, unsigned int rank, const struct pmi_line *line)
{
	struct pmi_client *client = &server->clients[rank];
	unsigned int i = 0;

	while (i < sizeof(commands) / sizeof(*commands) && strcmp(commands[i].name, line->command))
		i++;
	if (i == sizeof(commands) / sizeof(*commands))
		break_client(server, rank, "a PMI-1 command that this launcher does not have", line->command);
	else if (client->state == PMI_NEW && !commands[i].is_early)
		break_client(server, rank, "a PMI-1 command before init", line->command);
	else if (client->state == PMI_FINALIZED)
		break_client(server, rank, "a PMI-1 command after finalize", line->command);
	else if (client->state == PMI_READY && commands[i].run == do_init)
		break_client(server, rank, "init twice", NULL);
	else
		commands[i].run(server, rank, line);
}

/* "mcmd=spawn" and what belongs to it, up to "endcmd". */
static void skip_spawn(struct pmi_server *server, unsigned int rank, const char *text, size_t bytes)
{
	struct pmi_client *client = &server->clients[rank];

	client->spawn_bytes += bytes + 1;
	if (client->spawn_bytes > PMI_SPAWN_MAX_BYTES) {
		break_client(server, rank, "a spawn that is too long", NULL);
	} else if (!strcmp(text, "endcmd")) {
		client->spawn_bytes = 0;
		reply(server, rank, "cmd=spawn_result rc=-1 errmsg=not_supported\n");
	}
}

static void take_line(struct pmi_server *server, unsigned int rank, char *text, size_t bytes)
{
	struct pmi_client *client = &server->clients[rank];
	char copy[SHOW_MAX_BYTES + 1];
	struct pmi_line line;

	if (client->spawn_bytes) {
		skip_spawn(server, rank, text, bytes);
		return;
	}
	snprintf(copy, sizeof(copy), "%s", text);
	if (pmi_line_parse(text, bytes, &line) < 0)
		break_client(server, rank, "a line that is not PMI-1", copy);
	else if (!line.is_multi)
		run_command(server, rank, &line);
	else if (client->state == PMI_READY && !strcmp(line.command, "spawn"))
		client->spawn_bytes = bytes + 1;
	else
		break_client(server, rank, "a PMI-1 command that this launcher does not have", line.command);
}

void pmi_server_input(struct pmi_server *server, unsigned int rank, const void *data, size_t bytes)
{
	struct pmi_client *client = &server->clients[rank];
	const char *at = data, *end = at + bytes;

	while (at < end && client->state != PMI_BROKEN && !client->is_gone) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t n = (size_t)((newline ? newline : end) - at);

		if (n > PMI_LINE_BYTES - client->n) {
			break_client(server, rank, "a line that is too long", NULL);
			return;
		}
		memcpy(client->line + client->n, at, n);
		client->n += n;
		at += n + (newline ? 1 : 0);
		if (!newline)
			return;
		client->line[client->n] = 0;
		n = client->n;
		client->n = 0;
		take_line(server, rank, client->line, n);
	}
}

void pmi_server_end(struct pmi_server *server, unsigned int rank)
{
	server->clients[rank].is_gone = true;
	note_lost(server, rank);
}

enum pmi_state pmi_server_state(const struct pmi_server *server, unsigned int rank)
{
	return server->clients[rank].state;
}

/* ---- life ------------------------------------------------------------------------------------------------------------------ */

struct pmi_server *pmi_server_free(struct pmi_server *server)
{
	if (server)
		pmi_store_deinit(&server->store);
	free(server);
	return NULL;
}

int pmi_server_new(unsigned int n_pes, const char *job, const struct pmi_server_ops *ops, void *owner, struct pmi_server **ret_server)
{
	struct pmi_server *server = calloc(1, sizeof(*server) + n_pes * sizeof(server->clients[0]));
	char mapping[64];
	int r;

	if (!server)
		return -ENOMEM;
	server->n_pes = n_pes;
	server->ops = ops;
	server->owner = owner;
	pmi_store_init(&server->store);
	snprintf(server->name, sizeof(server->name), "shmd_%.64s", job);
	/* One node has all ranks. MPICH reads this to find who shares memory. */
	snprintf(mapping, sizeof(mapping), "(vector,(0,1,%u))", n_pes);
	r = pmi_store_put(&server->store, MAPPING_KEY, mapping);
	if (r < 0) {
		pmi_server_free(server);
		return r;
	}
	*ret_server = server;
	return 0;
}
