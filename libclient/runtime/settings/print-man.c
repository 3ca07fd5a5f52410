/* SPDX-License-Identifier: Apache-2.0 */
/* A program of the build: prints the page shmd-settings(7) from the table. */
#include <stdio.h>
#include <string.h>

#include "libclient/runtime/settings/settings.h"

static const char head[] =
	".\\\" SPDX-License-Identifier: Apache-2.0\n"
	".\\\" Made from the table of settings.\n"
	".Dd January 1, 2026\n"
	".Dt SHMD-SETTINGS 7\n"
	".Os shmemd\n"
	".Sh NAME\n"
	".Nm shmd-settings\n"
	".Nd settings of the runtime of libshmemclient\n"
	".Sh DESCRIPTION\n"
	"The runtime reads its settings from environment variables.\n"
	"A value that the program sets goes before them.\n"
	".Ev SHMD_*\n"
	"variables go before the names of other libraries that mean the same; where several of those are set, the first one that is\n"
	"listed counts.\n"
	".Pp\n"
	"A wrong value is an error, and no world opens.\n"
	"The library warns once about a variable\n"
	".Ev SHMD_*\n"
	"that no setting has.\n"
	".Dl shmemctl info --all\n"
	"shows every setting with its value and where that comes from.\n"
	".Pp\n"
	"Sizes are bytes, or have a unit: K, M, G or T, which are powers of 1024.\n"
	"Times are seconds, or have a unit: ns, us, ms, s, min or h.\n"
	"Both may have a fraction, such as 1.5G.\n"
	"Words may be in capitals.\n"
	"Yes, true and 1 are on; no, false and 0 are off.\n"
	"A program that runs with privileges which its caller lacks ignores all of these variables.\n"
	".Sh SETTINGS\n"
	".Bl -tag -width Ds\n";
static const char launcher[] =
	".El\n"
	".Sh VARIABLES OF A LAUNCHER\n"
	"These are set for each process by\n"
	".Ic shmemctl run\n"
	"or another launcher, not by a user.\n"
	".Bl -tag -width Ds\n";
static const char foot[] =
	".El\n"
	".Sh SEE ALSO\n"
	".Xr shmemctl 1 ,\n"
	".Xr shmd_info_setting 3 ,\n"
	".Xr shmemclient 7\n";

/* A sentence a line. */
static void print_text(const char *text)
{
	for (; *text; text++) {
		if (text[0] == ' ' && text[-1] == '.')
			putchar('\n');
		else
			putchar(*text);
	}
	putchar('\n');
}

static void print_row(const struct runtime_row *row)
{
	char allowed[RUNTIME_SENTENCE_BYTES];

	runtime_value_allowed(row, allowed, sizeof(allowed));
	printf(".It Ev %s\n", row->name);
	print_text(row->text);
	printf("Allowed is %s.\n", allowed);
	if (*row->def)
		printf("The default is\n.Li %s .\n", row->def);
	for (const struct runtime_alias *alias = row->aliases; alias->name; alias++)
		printf("%s\n.Ev %s%s%s%s\n", alias == row->aliases ? "Other names:" : "and", alias->name, alias->note ? "\n(" : alias[1].name ? "" : " .",
		       alias->note ? alias->note : "", alias->note ? alias[1].name ? ")" : ")." : "");
}

int main(void)
{
	fputs(head, stdout);
	for (unsigned int i = 0; i < runtime_n_rows; i++)
		print_row(&runtime_rows[i]);
	fputs(launcher, stdout);
	for (const struct runtime_launcher_variable *variable = runtime_launcher_variables; variable->name; variable++)
		printf(".It Ev %s\n%s\n", variable->name, variable->text);
	fputs(foot, stdout);
	return fflush(stdout) ? 1 : 0;
}
