/* SPDX-License-Identifier: Apache-2.0 */
/* --help, of shmemctl and of each command, printed from the tables. */
#include <string.h>

#include "libclient/ctl/args.h"

#define HELP_COLUMNS 79
#define HELP_INDENT 23 /* columns before the description */

static void print_entry(const char *head, const char *value_name, const char *text, FILE *out)
{
	char buf[64];

	snprintf(buf, sizeof(buf), "%s%s%s", head, value_name ? " " : "", value_name ? value_name : "");
	fprintf(out, "  %-*s %s\n", HELP_INDENT - 2, buf, text);
}

/* The command with its words: "list WHAT", "stats [WHAT]". */
static void print_summary(const struct args_command *command, FILE *out)
{
	char words[64] = "";
	size_t used = 0;

	for (unsigned int i = 0; command->words[i] && used < sizeof(words); i++) {
		const char *fmt = i < command->n_needed ? "%s%s" : "%s[%s]";

		used += (size_t)snprintf(words + used, sizeof(words) - used, fmt, i ? " " : "", command->words[i]->name);
	}
	if (command->takes_program)
		snprintf(words, sizeof(words), "PROG [ARG...]");
	print_entry(command->name, *words ? words : NULL, command->help, out);
}

static void print_choices(const struct args_option *option, FILE *out)
{
	for (unsigned int i = 0; option->choices[i]; i++) {
		if (i % 3 == 0)
			fprintf(out, "%s%-*s", i ? "\n" : "", HELP_INDENT, "");
		fprintf(out, " %s", option->choices[i]);
	}
	fputc('\n', out);
}

static void print_options(uint64_t options, FILE *out)
{
	for (int id = 0; id < N_OPTIONS; id++) {
		const struct args_option *option = &args_options[id];

		if (!(options & OPTION_BIT(id)))
			continue;
		print_entry(option->name, option->value_name, option->help, out);
		if (option->value == VALUE_CHOICES)
			print_choices(option, out);
	}
}

static void print_end(FILE *out)
{
	fputs("\nExit status: 0 done, 1 failed, 2 wrong usage or no daemon.\n", out);
}

/* Bytes of the next piece: a word, or all between brackets. */
static size_t piece_bytes(const char *text)
{
	size_t n = *text == '[' ? strcspn(text, "]") : 0;

	return n + strcspn(text + n, " ");
}

static void print_usage(const struct args_command *command, FILE *out)
{
	int column = fprintf(out, "Usage: shmemctl [OPTION...] %s", command->name);

	for (const char *at = command->synopsis; *at; at += *at == ' ') {
		size_t n = piece_bytes(at);

		if (column + 1 + (int)n > HELP_COLUMNS)
			column = fprintf(out, "\n%*s", HELP_INDENT, "") - 1;
		column += fprintf(out, " %.*s", (int)n, at);
		at += n;
	}
	fputs("\n\n", out);
}

static void print_command(const struct args_command *command, FILE *out)
{
	print_usage(command, out);
	fputs(command->details, out);
	fputs("\nOptions:\n", out);
	print_options(command->options, out);
	print_options(OPTIONS_COMMON, out);
	print_end(out);
}

void args_print_help(const struct args_command *commands, const struct args_command *command, FILE *out)
{
	if (command) {
		print_command(command, out);
		return;
	}
	fputs("Usage: shmemctl [OPTION...] COMMAND\n\nShow what shmemd does, and administer it.\n\nCommands:\n", out);
	for (command = commands; command->name; command++)
		print_summary(command, out);
	fputs("\nOptions:\n", out);
	print_options(OPTIONS_COMMON | OPTION_BIT(OPTION_WATCH), out);
	fputs("\nFor one command: shmemctl help COMMAND. For everything: man shmemctl.\n", out);
	print_end(out);
}
