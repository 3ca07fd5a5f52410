/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the command line of shmemctl by the tables of options and commands.
 *
 * Options may stand anywhere, as "--name value" or "--name=value"; "--" ends them. Everything is checked before
 * the daemon gets a request: unknown and unfitting options, values out of range, too few or too many words. An error is
 * one line, which ends with a command that explains more.
 */
#include "libclient/ctl/args.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/ctl/ctl.h"
#include "proto/base/suggest.h"

#define DEFAULT_WATCH_SECONDS 2.0
#define USAGE_BYTES 1024
#define HINT_BYTES (SUGGEST_MAX_BYTES + 24)

static const char *const color_choices[] = {"auto", "always", "never", NULL};
static const char *const bind_choices[] = {"none", "core", NULL};
static const char *const kind_choices[] = {
	"qp-error", "cq-error", "port-state", "nic-lost", "session-opened", "session-closed",
	"queues-created", "queues-destroyed", "drain", "dropped", "refused", "resumed", NULL};

const struct args_option args_options[N_OPTIONS] = {
	[OPTION_JSON] = {"--json", NULL, VALUE_NONE, NULL, "print one line of JSON, see shmemctl-json(5)"},
	[OPTION_COLOR] = {"--color", "WHEN", VALUE_CHOICE, color_choices, "use color: auto (on terminals), always or never"},
	[OPTION_SOCKET] = {"--socket", "PATH", VALUE_PATH, NULL,
			   "connect to this socket, not to $SHMEMD_SOCKET"},
	[OPTION_HELP] = {"--help", NULL, VALUE_NONE, NULL, "explain all commands, or the one on the line; also -h"},
	[OPTION_VERSION] = {"--version", NULL, VALUE_NONE, NULL, "print the version; also -V"},
	[OPTION_WATCH] = {"--watch", "[SECONDS]", VALUE_SECONDS_OPTIONAL, NULL,
			  "repeat every SECONDS (2), until interrupted"},
	[OPTION_ALL] = {"--all", NULL, VALUE_NONE, NULL, "include what is idle, consumed or default; also -a"},
	[OPTION_WIDE] = {"--wide", NULL, VALUE_NONE, NULL, "show every column, however wide the tables become"},
	[OPTION_KEYS] = {"--keys", NULL, VALUE_NONE, NULL, "show lkeys and rkeys"},
	[OPTION_PAYLOAD] = {"--payload", NULL, VALUE_NONE, NULL, "show inline data and bytes that cannot be decoded"},
	[OPTION_KIND] = {"--kind", "KIND[,KIND]", VALUE_CHOICES, kind_choices, "print only events of these kinds"},
	[OPTION_COUNT] = {"--count", "N", VALUE_COUNT, NULL, "exit after N events"},
	[OPTION_GRACE] = {"--grace", "SECONDS", VALUE_SECONDS, NULL, "how long sessions have to finish (30)"},
	[OPTION_OFF] = {"--off", NULL, VALUE_NONE, NULL, "accept sessions again"},
	[OPTION_FROM] = {"--from", "FILE", VALUE_PATH, NULL, "read a captured machine, not this one"},
	[OPTION_WHY] = {"--why", "GPU", VALUE_TEXT, NULL, "list every NIC, and why this GPU has it or not"},
	[OPTION_SVG] = {"--svg", "FILE", VALUE_PATH, NULL, "write a picture to FILE; - is standard output"},
	[OPTION_CONFIG] = {"--config", "FILE", VALUE_PATH, NULL, "read the daemon's settings from FILE"},
	[OPTION_ROOT] = {"--root", "DIR", VALUE_PATH, NULL, "check a machine whose sys, proc, dev, usr are in DIR"},
	[OPTION_PES] = {"--pes", "N", VALUE_COUNT, NULL, "start N processes; also -n", "-n"},
	[OPTION_ENV] = {"--env", "NAME[=VALUE]", VALUE_TEXT, NULL, "set NAME for the processes; again and again; also -x", "-x"},
	[OPTION_CHDIR] = {"--chdir", "DIR", VALUE_PATH, NULL, "run the processes in DIR"},
	[OPTION_BIND] = {"--bind", "TO", VALUE_CHOICE, bind_choices, "bind each to a core of its own: none (default), core"},
	[OPTION_NO_PREFIX] = {"--no-prefix", NULL, VALUE_NONE, NULL, "pass lines on without the rank before them"},
	[OPTION_OUTPUT_FILES] = {"--output-files", "PATTERN", VALUE_PATH, NULL, "write output to files; %r is the rank"},
	[OPTION_KEEP_GOING] = {"--keep-going", NULL, VALUE_NONE, NULL, "let the others run on when one fails"},
	[OPTION_KILL_AFTER] = {"--kill-after", "SECONDS", VALUE_SECONDS, NULL, "time from SIGTERM to SIGKILL (5)"},
	[OPTION_TIMEOUT] = {"--timeout", "SECONDS", VALUE_SECONDS_OF_JOB, NULL, "end the job after SECONDS, with status 124"},
	[OPTION_NODES] = {"--nodes", "NAME[,NAME]", VALUE_TEXT, NULL, "where: this node only, as localhost or by its name"},
	[OPTION_NVSHMEM] = {"--nvshmem", NULL, VALUE_NONE, NULL, "give NVSHMEM programs shmemd's library, not NVIDIA's"},
};

static int usage_error(const struct args *args, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int usage_error(const struct args *args, const char *fmt, ...)
{
	const struct args_command *command = args->command;
	char text[USAGE_BYTES];
	va_list list;

	va_start(list, fmt);
	vsnprintf(text, sizeof(text), fmt, list);
	va_end(list);
	ctl_fail("%s; see shmemctl %s%s--help", text, command ? command->name : "", command ? " " : "");
	return -EINVAL;
}

/* ---- values */

bool args_parse_seconds(const char *text, double *ret_seconds)
{
	char *end;
	double value;

	/* strtod would also take "inf", "0x1" and leading blanks. */
	if (!text || !*text || strspn(text, "0123456789.") != strlen(text))
		return false;
	value = strtod(text, &end);
	if (*end || !(value <= 86400))
		return false;
	*ret_seconds = value;
	return true;
}

bool args_parse_number(const char *text, uint64_t *ret_number)
{
	bool is_hex = !strncmp(text, "0x", 2) || !strncmp(text, "0X", 2);
	const char *digits = is_hex ? text + 2 : text;
	char *end;

	if (!*digits || strspn(digits, is_hex ? "0123456789abcdefABCDEF" : "0123456789") != strlen(digits))
		return false;
	errno = 0;
	*ret_number = strtoull(digits, &end, is_hex ? 16 : 10);
	return !errno && !*end;
}

/* As for --watch, which repeats no faster. */
static bool is_above_zero(const char *text)
{
	double seconds;

	return args_parse_seconds(text, &seconds) && seconds >= 0.01;
}

static bool is_choice(const char *const *choices, const char *word, size_t bytes)
{
	for (; *choices; choices++)
		if (strlen(*choices) == bytes && !strncmp(*choices, word, bytes))
			return true;
	return false;
}

static bool are_choices(const char *const *choices, const char *list)
{
	size_t bytes = strcspn(list, ",");

	while (is_choice(choices, list, bytes)) {
		if (!list[bytes])
			return true;
		list += bytes + 1;
		bytes = strcspn(list, ",");
	}
	return false;
}

/* "a, b or c". Returns buf. */
static const char *join_choices(const char *const *choices, char *buf, size_t size)
{
	size_t used = 0;

	buf[0] = 0;
	for (unsigned int i = 0; choices[i] && used < size; i++)
		used += (size_t)snprintf(buf + used, size - used, "%s%s",
					 !i ? "" : choices[i + 1] ? ", " : " or ", choices[i]);
	return buf;
}

/* " (did you mean X?)", or nothing. Returns buf. */
static const char *hint(const char *word, char buf[HINT_BYTES])
{
	buf[0] = 0;
	if (word)
		snprintf(buf, HINT_BYTES, " (did you mean %s?)", word);
	return buf;
}

static int check_value(const struct args *args, const struct args_option *option, const char *value)
{
	uint64_t number;
	char buf[256], near[HINT_BYTES];
	double seconds;

	switch (option->value) {
	case VALUE_SECONDS_OPTIONAL:
	case VALUE_SECONDS_OF_JOB:
		return is_above_zero(value) ? 0 :
			usage_error(args, "%s takes 0.01 to 86400 seconds, not %s", option->name, value);
	case VALUE_SECONDS:
		return args_parse_seconds(value, &seconds) ? 0 :
			usage_error(args, "%s takes 0 to 86400 seconds, not %s", option->name, value);
	case VALUE_COUNT:
		return args_parse_number(value, &number) && number && number <= ARGS_MAX_COUNT ? 0 :
			usage_error(args, "%s takes a number above 0, not %s", option->name, value);
	case VALUE_CHOICE:
		return is_choice(option->choices, value, strlen(value)) ? 0 :
			usage_error(args, "%s takes %s, not %s%s", option->name,
				    join_choices(option->choices, buf, sizeof(buf)), value,
				    hint(suggest_of(value, option->choices), near));
	case VALUE_CHOICES:
		return are_choices(option->choices, value) ? 0 :
			usage_error(args, "%s takes %s, not %s%s", option->name,
				    join_choices(option->choices, buf, sizeof(buf)), value,
				    hint(suggest_of(value, option->choices), near));
	case VALUE_PATH:
		return *value ? 0 : usage_error(args, "%s needs a path", option->name);
	case VALUE_TEXT:
		return *value ? 0 : usage_error(args, "%s needs %s", option->name, option->value_name);
	case VALUE_NONE:
		break;
	}
	return usage_error(args, "%s takes no value", option->name);
}

/* ---- options and words */

static bool is_name(const char *name, const char *text, size_t bytes)
{
	return name && strlen(name) == bytes && !strncmp(name, text, bytes);
}

int args_find_option(const char *name, size_t bytes)
{
	for (int id = 0; id < N_OPTIONS; id++)
		if (is_name(args_options[id].name, name, bytes) || is_name(args_options[id].short_name, name, bytes))
			return id;
	return -1;
}

static int refuse_option(const struct args *args, const char *word, size_t bytes)
{
	char typed[SUGGEST_MAX_BYTES + 1], buf[HINT_BYTES];
	struct suggest near = suggest_begin(typed);

	snprintf(typed, sizeof(typed), "%.*s", (int)bytes, word);
	for (int id = 0; id < N_OPTIONS; id++)
		if (!args->command || (args->command->options | OPTIONS_COMMON) & OPTION_BIT(id))
			suggest_offer(&near, args_options[id].name);
	return usage_error(args, "unknown option %.*s%s", (int)bytes, word, hint(suggest_result(&near), buf));
}

/* Reads argv[0] and its value. Returns the number of words that it took. */
static int read_option(struct args *args, char **argv)
{
	size_t bytes = strcspn(argv[0], "=");
	const char *value = argv[0][bytes] ? argv[0] + bytes + 1 : NULL;
	int id = strcmp(argv[0], "-a") ? args_find_option(argv[0], bytes) : OPTION_ALL, n = 1, r;
	const struct args_option *option;
	double seconds;

	if (id < 0)
		return refuse_option(args, argv[0], bytes);
	option = &args_options[id];
	if (option->value == VALUE_SECONDS_OPTIONAL && !value && args_parse_seconds(argv[1], &seconds)) {
		value = argv[1];
		n = 2;
	} else if (option->value > VALUE_SECONDS_OPTIONAL && !value) {
		value = argv[1];
		n = 2;
		if (!value)
			return usage_error(args, "%s needs %s", option->name, option->value_name);
	}
	r = value ? check_value(args, option, value) : 0;
	if (r < 0)
		return r;
	if (id == OPTION_ENV && args->n_env == ARGS_MAX_LISTED)
		return usage_error(args, "%s may be given %d times", option->name, ARGS_MAX_LISTED);
	if (id == OPTION_ENV)
		args->env[args->n_env++] = value;
	args->given |= OPTION_BIT(id);
	args->values[id] = value;
	return n;
}

const struct args_command *args_find_command(const struct args_command *commands, const char *name)
{
	const struct args_command *command = commands;

	while (command->name && strcmp(command->name, name))
		command++;
	return command->name ? command : NULL;
}

static int read_command(struct args *args, const char *word)
{
	struct suggest near = suggest_begin(word);
	char buf[HINT_BYTES];

	args->command = args_find_command(args->commands, word);
	if (args->command)
		return 0;
	for (const struct args_command *command = args->commands; command->name; command++)
		suggest_offer(&near, command->name);
	return usage_error(args, "unknown command %s%s", word, hint(suggest_result(&near), buf));
}

static int read_word(struct args *args, const char *text)
{
	const struct args_word *word;
	char buf[256], near[HINT_BYTES];

	if (!args->command)
		return read_command(args, text);
	word = args->command->words[args->n_words];
	if (!word)
		return usage_error(args, "%s: unexpected word %s", args->command->name, text);
	if (word->choices && !is_choice(word->choices, text, strlen(text)))
		return usage_error(args, "%s: %s must be %s, not %s%s", args->command->name, word->name,
				   join_choices(word->choices, buf, sizeof(buf)), text, hint(suggest_of(text, word->choices), near));
	args->words[args->n_words++] = text;
	return 0;
}

static int check_complete(struct args *args)
{
	const struct args_command *command = args->command;
	const struct args_word *missing;
	uint64_t foreign;
	char buf[256];

	if (!command)
		return usage_error(args, "name a command");
	foreign = args->given & ~(command->options | OPTIONS_COMMON);
	for (int id = 0; id < N_OPTIONS; id++)
		if (foreign & OPTION_BIT(id))
			return usage_error(args, "%s does not go with %s", args_options[id].name, command->name);
	if (command->takes_program && !args->program)
		return usage_error(args, "%s needs a program", command->name);
	if (args->n_words >= command->n_needed)
		return 0;
	missing = command->words[args->n_words];
	if (missing->choices)
		return usage_error(args, "%s needs %s: %s", command->name, missing->name,
				   join_choices(missing->choices, buf, sizeof(buf)));
	return usage_error(args, "%s needs %s", command->name, missing->name);
}

/* The word behind an option that is its value. */
static bool has_value_behind(char **argv)
{
	size_t bytes = strcspn(argv[0], "=");
	int id = args_find_option(argv[0], bytes);
	double seconds;

	if (id < 0 || argv[0][bytes] || !argv[1])
		return false;
	if (args_options[id].value == VALUE_SECONDS_OPTIONAL)
		return args_parse_seconds(argv[1], &seconds);
	return args_options[id].value > VALUE_SECONDS_OPTIONAL;
}

/* The first word that is not for shmemctl: a program that a command takes, or the end of the line. */
static char **find_end(const struct args_command *commands, char **argv)
{
	const struct args_command *command = NULL;

	for (; *argv && strcmp(*argv, "--"); argv++) {
		if (**argv == '-')
			argv += has_value_behind(argv);
		else if (command && command->takes_program)
			break;
		else if (!command)
			command = args_find_command(commands, *argv);
	}
	return argv;
}

/* The command of a line with --help in it, wherever it stands. */
static void find_command(struct args *args, char **argv, char **end)
{
	for (; argv != end && !args->command; argv++)
		args->command = args_find_command(args->commands, *argv);
}

static bool asks_for(char **argv, char **end, const char *name, const char *short_name)
{
	for (; argv != end; argv++)
		if (!strcmp(*argv, name) || !strcmp(*argv, short_name))
			return true;
	return false;
}

int args_read(const struct args_command *commands, char **argv, struct args *ret_args)
{
	struct args args = {.commands = commands};
	bool only_words = false;
	char **end = find_end(commands, argv);

	if (asks_for(argv, end, "--help", "-h") || asks_for(argv, end, "--version", "-V")) {
		args.given = OPTION_BIT(asks_for(argv, end, "--help", "-h") ? OPTION_HELP : OPTION_VERSION);
		find_command(&args, argv, end);
		*ret_args = args;
		return 0;
	}
	while (*argv) {
		int n = 1;

		if (!only_words && !strcmp(*argv, "--"))
			only_words = true;
		else if (args.command && args.command->takes_program && (only_words || **argv != '-'))
			break;
		else if (!only_words && **argv == '-')
			n = read_option(&args, argv);
		else
			n = read_word(&args, *argv) < 0 ? -EINVAL : 1;
		if (n < 0)
			return n;
		argv += n;
	}
	args.program = *argv ? argv : NULL;
	if (check_complete(&args) < 0)
		return -EINVAL;
	if (args_has(&args, OPTION_WATCH))
		args.watch_seconds = args_seconds(&args, OPTION_WATCH, DEFAULT_WATCH_SECONDS);
	*ret_args = args;
	return 0;
}

bool args_has(const struct args *args, enum args_option_id id)
{
	return args->given & OPTION_BIT(id);
}

double args_seconds(const struct args *args, enum args_option_id id, double def)
{
	double seconds;

	return args->values[id] && args_parse_seconds(args->values[id], &seconds) ? seconds : def;
}

uint64_t args_count(const struct args *args, enum args_option_id id, uint64_t def)
{
	uint64_t number;

	return args->values[id] && args_parse_number(args->values[id], &number) ? number : def;
}

bool args_lists(const struct args *args, enum args_option_id id, const char *word)
{
	const char *list = args->values[id];
	size_t bytes;

	if (!list)
		return true;
	for (;; list += bytes + 1) {
		bytes = strcspn(list, ",");
		if (strlen(word) == bytes && !strncmp(list, word, bytes))
			return true;
		if (!list[bytes])
			return false;
	}
}
