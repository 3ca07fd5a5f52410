/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shmemctl drain: refuses new sessions, ends live ones, and waits until none is left.
 *
 * The daemon does the work: interrupting the wait does not stop the drain.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libclient/ctl/ctl.h"
#include "libclient/ctl/progress.h"
#include "libclient/ctl/screen.h"

#define DEFAULT_GRACE_SECONDS 30.0
#define LOOK_SECONDS 0.1

static void describe(const struct shmd_daemon_status *status, char *buf, size_t size)
{
	const char *plural = status->n_sessions == 1 ? "" : "s";

	if (status->drain_left_nsec)
		snprintf(buf, size, "%u session%s left, ended in %" PRIu64 " s", status->n_sessions, plural,
			 (status->drain_left_nsec + 999999999u) / 1000000000u);
	else
		snprintf(buf, size, "%u session%s left, being ended", status->n_sessions, plural);
}

static int wait_for_end(struct ctl *ctl, struct shmd_daemon_status *ret_status)
{
	const char *term = getenv("TERM");
	struct progress progress;
	char text[128];
	int r;

	progress_begin(&progress, stderr, isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb"), screen_now_nsec());
	for (;;) {
		r = shmd_admin_status(ctl->client, ret_status);
		if (r < 0 || !ret_status->draining || !ret_status->n_sessions)
			break;
		describe(ret_status, text, sizeof(text));
		progress_show(&progress, screen_now_nsec(), text);
		screen_sleep(LOOK_SECONDS);
	}
	progress_end(&progress);
	return r;
}

static void json_state(struct ctl *ctl, const struct shmd_daemon_status *status, uint64_t waited_nsec)
{
	struct json json;

	ctl_json_begin(ctl, &json);
	json_bool(&json, "draining", status->draining);
	json_uint(&json, "n_sessions", status->n_sessions);
	json_uint(&json, "waited_nsec", waited_nsec);
	ctl_json_end(&json);
}

static int drain_off(struct ctl *ctl)
{
	struct shmd_daemon_status status;
	int r = shmd_admin_drain(ctl->client, false, 0);

	if (!r)
		r = shmd_admin_status(ctl->client, &status);
	if (r < 0)
		return r;
	if (ctl->is_json)
		json_state(ctl, &status, 0);
	else
		fprintf(ctl->out, "shmemd accepts sessions; %u stayed\n", status.n_sessions);
	return 0;
}

int ctl_drain(struct ctl *ctl)
{
	double grace = args_seconds(ctl->args, OPTION_GRACE, DEFAULT_GRACE_SECONDS);
	uint64_t begin_nsec = screen_now_nsec();
	struct shmd_daemon_status status;
	int r;

	if (args_has(ctl->args, OPTION_OFF) && args_has(ctl->args, OPTION_GRACE)) {
		ctl_fail("--grace does not go with --off; see shmemctl drain --help");
		return CTL_EXIT_USAGE;
	}
	if (args_has(ctl->args, OPTION_OFF))
		return drain_off(ctl);
	r = shmd_admin_drain(ctl->client, true, (uint64_t)(grace * 1e9));
	if (!r)
		r = wait_for_end(ctl, &status);
	if (r < 0)
		return r;
	if (ctl->is_json)
		json_state(ctl, &status, screen_now_nsec() - begin_nsec);
	if (!status.draining)
		return ctl_fail("somebody stopped the drain with %u session%s left", status.n_sessions,
				status.n_sessions == 1 ? "" : "s");
	if (!ctl->is_json)
		fputs("drained: no session is left, and shmemd refuses new ones; \"shmemctl drain --off\" lets them in again\n",
		      ctl->out);
	return 0;
}
