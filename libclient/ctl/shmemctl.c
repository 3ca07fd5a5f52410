/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shmemctl: shows the state of shmemd to people and programs, and makes the few changes of an administrator.
 *
 * One control connection, through the public header of libshmemclient. Exit status: 0 done, 1 failed, 2 wrong usage or
 * no daemon.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libclient/ctl/commands.h"
#include "libclient/ctl/ctl.h"
#include "libclient/ctl/screen.h"

/* Prints the library's sentence. A daemon that is absent or goes in the middle of the answer: the same exit status. */
static int fail(struct shmd_client *client, int err)
{
	bool is_gone = err == -ECONNRESET || err == -ESHUTDOWN ||
		       (!client && (err == -ENOENT || err == -ECONNREFUSED));

	ctl_fail("%s", shmd_error_text());
	return is_gone ? CTL_EXIT_USAGE : CTL_EXIT_FAILED;
}

static int cannot_write(void)
{
	return ctl_fail("cannot write the answer: %s", strerror(errno));
}

/* The answer to stdout, piece by piece as the command writes it. */
static int run_once(struct ctl *ctl)
{
	int r = ctl->args->command->run(ctl);

	/* An answer that cannot be written is a failure. */
	if (fflush(ctl->out) || ferror(ctl->out))
		return cannot_write();
	return r < 0 ? fail(ctl->client, r) : r;
}

/* Each answer is complete before any of it reaches the screen; an incomplete one never does. */
static int run_watched(struct ctl *ctl)
{
	struct screen screen;
	int r;

	screen_init(&screen, ctl->args->watch_seconds, ctl->is_json);
	do {
		ctl->out = screen_begin(&screen);
		if (!ctl->out)
			return ctl_fail("out of memory");
		r = ctl->args->command->run(ctl);
		if (r) {
			screen_drop(&screen);
			return r < 0 ? fail(ctl->client, r) : r;
		}
		if (screen_show(&screen) < 0)
			return cannot_write();
	} while (screen_pause(&screen));
	return CTL_EXIT_OK;
}

/* A local command opens no connection. */
static int connect_and_run(const struct args *args)
{
	struct shmd_client_attr attr = {
		.role = SHMD_ROLE_CONTROL,
		.socket_path = args->values[OPTION_SOCKET],
	};
	struct ctl ctl = {
		.args = args,
		.out = stdout,
		.is_json = args_has(args, OPTION_JSON),
		.max_width = args_has(args, OPTION_WIDE) ? 0 : TABLE_WIDTH,
		.has_color = !args_has(args, OPTION_JSON) &&
			     color_wanted(args->values[OPTION_COLOR], isatty(STDOUT_FILENO), getenv("NO_COLOR"),
					  getenv("TERM")),
	};
	int r = args->command->is_local ? 0 : shmd_client_open(&attr, &ctl.client);

	if (r < 0)
		return fail(NULL, r);
	r = args->watch_seconds > 0 ? run_watched(&ctl) : run_once(&ctl);
	stats_look_free(ctl.last);
	shmd_client_close(ctl.client);
	return r;
}

int main(int argc, char **argv)
{
	struct args args;

	if (argc > 1 && !strcmp(argv[1], "--complete")) {
		args_complete(ctl_commands, argv + 2, stdout);
		return CTL_EXIT_OK;
	}
	if (!argc || args_read(ctl_commands, argv + 1, &args) < 0)
		return CTL_EXIT_USAGE;
	if (args_has(&args, OPTION_HELP))
		args_print_help(ctl_commands, args.command, stdout);
	else if (args_has(&args, OPTION_VERSION))
		printf("shmemctl %s\n", shmd_version());
	else
		return connect_and_run(&args);
	return fflush(stdout) ? cannot_write() : CTL_EXIT_OK;
}
