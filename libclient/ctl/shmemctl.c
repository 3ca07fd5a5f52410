/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shmemctl: what shmemd is doing, for people and for programs.
 *
 * Reads only, over one control connection, through the public header of libshmemclient. Exit status: 0 done,
 * 1 failed, 2 wrong usage or no daemon.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "libclient/ctl/ctl.h"

#define DEFAULT_WATCH_SECONDS 2.0

static const char *arg_socket; /* NULL: as the library finds it */
static bool arg_json;
static double arg_watch_seconds; /* 0: once */
static const char *arg_words[2]; /* the command, and what to list */
static unsigned int n_words;

static const char help_text[] =
	"Usage: shmemctl [OPTION...] COMMAND\n"
	"\n"
	"Show what shmemd is doing.\n"
	"\n"
	"Commands:\n"
	"  status                     the daemon, its NICs and its sessions\n"
	"  list sessions              processes that use it\n"
	"  list qps                   queue pairs\n"
	"  list mrs                   memory regions\n"
	"  list nics                  NIC ports\n"
	"\n"
	"Options:\n"
	"  --json                     one JSON document on one line instead of tables\n"
	"  --watch [SECONDS]          again every SECONDS (2), until interrupted\n"
	"  --socket PATH              the daemon's socket; else $SHMEMD_SOCKET, else\n"
	"                             /run/shmemd/shmemd.sock\n"
	"  --help                     this text\n"
	"  --version                  version of shmemctl\n"
	"\n"
	"Exit status: 0 done, 1 failed, 2 wrong usage or no daemon.\n";

static int usage_error(const char *what, const char *word)
{
	fprintf(stderr, "shmemctl: %s%s%s; see shmemctl --help\n", what, word ? " " : "", word ? word : "");
	return -EINVAL;
}

/* ---- command line */

static bool parse_seconds(const char *text, double *ret_seconds)
{
	char *end;
	double value;

	if (!text || !*text)
		return false;
	value = strtod(text, &end);
	if (*end || !(value >= 0.01 && value <= 86400))
		return false;
	*ret_seconds = value;
	return true;
}

/* "--name=value": the value, or NULL when arg is another option. */
static const char *value_of(const char *arg, const char *name)
{
	size_t n = strlen(name);

	return !strncmp(arg, name, n) && arg[n] == '=' ? arg + n + 1 : NULL;
}

/* Reads argv[i] and what belongs to it. Returns how many words that were, 0 for --help and --version. */
static int parse_option(char **argv, int i)
{
	const char *arg = argv[i], *value;

	if (!strcmp(arg, "--json")) {
		arg_json = true;
		return 1;
	}
	if (!strcmp(arg, "--watch")) {
		/* The number is optional: a word that is none belongs to the command. */
		if (parse_seconds(argv[i + 1], &arg_watch_seconds))
			return 2;
		arg_watch_seconds = DEFAULT_WATCH_SECONDS;
		return 1;
	}
	value = value_of(arg, "--watch");
	if (value)
		return parse_seconds(value, &arg_watch_seconds)
			       ? 1
			       : usage_error("--watch takes 0.01 to 86400 seconds, not", value);
	value = value_of(arg, "--socket");
	if (value || !strcmp(arg, "--socket")) {
		arg_socket = value ? value : argv[i + 1];
		return arg_socket && *arg_socket ? (value ? 1 : 2) : usage_error("--socket needs a path", NULL);
	}
	return usage_error("unknown option", arg);
}

/* 0; 1 when the answer was given already; -EINVAL. */
static int parse_words(char **argv)
{
	for (int i = 1; argv[i];) {
		int n = 1;

		if (!strcmp(argv[i], "--help"))
			return fputs(help_text, stdout) < 0 ? -EIO : 1;
		if (!strcmp(argv[i], "--version"))
			return printf("shmemctl %s\n", shmd_version()) < 0 ? -EIO : 1;
		if (argv[i][0] == '-')
			n = parse_option(argv, i);
		else if (n_words == 2)
			n = usage_error("one word too many:", argv[i]);
		else
			arg_words[n_words++] = argv[i];
		if (n < 0)
			return n;
		i += n;
	}
	return 0;
}

static int check_command(void)
{
	if (!n_words)
		return usage_error("no command", NULL);
	if (!strcmp(arg_words[0], "status"))
		return n_words == 1 ? 0 : usage_error("one word too many:", arg_words[1]);
	if (strcmp(arg_words[0], "list"))
		return usage_error("unknown command", arg_words[0]);
	if (n_words == 1)
		return usage_error("list what: sessions, qps, mrs or nics", NULL);
	return ctl_list_knows(arg_words[1]) ? 0 : usage_error("cannot list", arg_words[1]);
}

/* ---- running */

static bool means_no_daemon(int err)
{
	return err == -ENOENT || err == -ECONNREFUSED || err == -ECONNRESET;
}

static int fail(int err)
{
	fprintf(stderr, "shmemctl: %s\n", shmd_error_text());
	return means_no_daemon(err) ? CTL_EXIT_USAGE : CTL_EXIT_FAILED;
}

static int run_once(struct shmd_client *client)
{
	int r;

	if (!strcmp(arg_words[0], "status"))
		r = ctl_status(client, arg_json);
	else
		r = ctl_list(client, arg_words[1], arg_json);
	/* What cannot be written was not shown. */
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "shmemctl: cannot write the answer: %s\n", strerror(errno));
		return CTL_EXIT_FAILED;
	}
	return r ? fail(r) : CTL_EXIT_OK;
}

/* Between two answers: a terminal is cleared, anything else gets an empty line; JSON stays one line each. */
static void separate(void)
{
	if (isatty(STDOUT_FILENO))
		fputs("\033[H\033[2J", stdout);
	else if (!arg_json)
		fputc('\n', stdout);
}

static int run(struct shmd_client *client)
{
	struct timespec pause = {
		.tv_sec = (time_t)arg_watch_seconds,
		.tv_nsec = (long)((arg_watch_seconds - (double)(time_t)arg_watch_seconds) * 1e9),
	};
	int status;

	for (;;) {
		status = run_once(client);
		if (status != CTL_EXIT_OK || !(arg_watch_seconds > 0))
			return status;
		nanosleep(&pause, NULL);
		separate();
	}
}

int main(int argc, char **argv)
{
	struct shmd_client_attr attr = {.role = SHMD_ROLE_CONTROL};
	struct shmd_client *client;
	int r = parse_words(argv);

	if (!r)
		r = check_command();
	if (r)
		return r < 0 ? CTL_EXIT_USAGE : CTL_EXIT_OK;
	attr.socket_path = arg_socket;
	r = shmd_client_open(&attr, &client);
	if (r < 0)
		return fail(r);
	r = run(client);
	shmd_client_close(client);
	return r;
}
