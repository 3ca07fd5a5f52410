/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of every command's answer: the JSON document, sentences on stderr, lines below tables. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/ctl/ctl.h"
#include "proto/base/show.h"
#include "proto/base/unicode.h"

/* Some messages quote files and arguments, which may hold what a terminal would act on. */
static void put_printable(const char *text, FILE *out)
{
	fputs("shmemctl: ", out);
	for (size_t left = strlen(text); left > 0;) {
		uint32_t code;
		unsigned int n = unicode_decode(text, left, &code);

		if (n && !unicode_is_control(code) && !unicode_is_hidden(code))
			fwrite(text, 1, n, out);
		else
			fputc('?', out);
		text += n ? n : 1;
		left -= n ? n : 1;
	}
	fputc('\n', out);
}

int ctl_fail(const char *fmt, ...)
{
	char *text;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vasprintf(&text, fmt, args);
	va_end(args);
	if (n < 0) {
		fputs("shmemctl: out of memory\n", stderr);
		return CTL_EXIT_FAILED;
	}
	put_printable(text, stderr);
	free(text);
	return CTL_EXIT_FAILED;
}

/* ---- JSON */

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

/* ---- lines below tables */

void ctl_print_warning(struct ctl *ctl, const struct shmd_daemon_status *status)
{
	if (*status->settings_warning)
		fprintf(ctl->out, "%swarning:%s %s\n", color_on(ctl->has_color, COLOR_YELLOW),
			color_off(ctl->has_color, COLOR_YELLOW), status->settings_warning);
}

void ctl_print_hidden(struct ctl *ctl, const struct shmd_daemon_status *status)
{
	unsigned int n = status->n_hidden_sessions;

	if (n)
		fprintf(ctl->out, "%u session%s of other users %s hidden; root and the user of shmemd see all\n", n, plural_s(n),
			n == 1 ? "is" : "are");
}

/* ---- looking up */

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
