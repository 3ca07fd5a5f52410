/* SPDX-License-Identifier: Apache-2.0 */
/* --help, of shmemctl and of each command, printed from the tables. */
#include <string.h>

#include "libclient/ctl/args.h"

static void print_entry(const char *head, const char *value_name, const char *text, FILE *out)
{
	char buf[64];

	snprintf(buf, sizeof(buf), "%s%s%s", head, value_name ? " " : "", value_name ? value_name : "");
	fprintf(out, "  %-20s %s\n", buf, text);
}

static void print_options(uint32_t options, FILE *out)
{
	fputs("\nOptions:\n", out);
	for (int id = 0; id < N_OPTIONS; id++) {
		const struct args_option *option = &args_options[id];

		if (options & OPTION_BIT(id))
			print_entry(option->name, option->value_name, option->help, out);
		if (options & OPTION_BIT(id) && option->value == VALUE_CHOICES) {
			fputs("                       KIND:", out);
			for (unsigned int i = 0; option->choices[i]; i++)
				fprintf(out, "%s %s", i && i % 5 == 0 ? "\n                            " : "",
					option->choices[i]);
			fputc('\n', out);
		}
	}
}

static void print_end(FILE *out)
{
	fputs("\nExit status: 0 done, 1 failed, 2 wrong usage or no daemon.\n", out);
}

static void print_command(const struct args_command *command, FILE *out)
{
	fprintf(out, "Usage: shmemctl [OPTION...] %s%s%s\n\n", command->name, *command->synopsis ? " " : "",
		command->synopsis);
	fputs(command->details, out);
	print_options(command->options | OPTIONS_COMMON, out);
	print_end(out);
}

void args_print_help(const struct args_command *command, FILE *out)
{
	if (command) {
		print_command(command, out);
		return;
	}
	fputs("Usage: shmemctl [OPTION...] COMMAND\n\nShow and administer what shmemd holds.\n\nCommands:\n", out);
	for (command = args_commands; command->name; command++)
		print_entry(command->name, NULL, command->help, out);
	print_options(OPTIONS_COMMON | OPTION_BIT(OPTION_WATCH), out);
	fputs("\nMore about a command: shmemctl COMMAND --help; about all of it: man shmemctl.\n", out);
	print_end(out);
}
