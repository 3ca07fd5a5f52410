/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of settings for people: --help, --check-config, and the man pages shmemd(8) and shmemd.conf(5), whose prose is in
 * shmemd.8.in and shmemd.conf.5.in.
 */
#include "daemon/settings/settings.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/man-pages.h"

#define HELP_COLUMNS 80
#define HELP_INDENT 8

static const struct {
	const char *option;
	const char *text;
} flags[] = {
	{"--config PATH", "Read this file instead of the default one."},
	{"--check-config", "Check the file, the environment and the command line, print the resulting settings, and exit."},
	{"--help, -h", "Print a summary of all options and exit."},
	{"--version, -V", "Print the version and exit."},
	{"--print-man PAGE", "Print the man page shmemd or shmemd.conf in roff and exit."},
};

static void format_range(const struct settings_row *row, char *buf, size_t size)
{
	size_t used = 0;

	switch (row->type) {
	case SETTINGS_TEXT:
	case SETTINGS_POLICY:
		snprintf(buf, size, "text of at most %" PRIu64 " bytes", row->max);
		break;
	case SETTINGS_NUMBER:
		snprintf(buf, size, "%" PRIu64 " to %" PRIu64 " %s", row->min, row->max, row->unit);
		break;
	case SETTINGS_MODE:
		snprintf(buf, size, "octal, 0%" PRIo64 " to 0%" PRIo64, row->min, row->max);
		break;
	case SETTINGS_CHOICE:
		for (int i = 0; row->words[i] && used < size; i++)
			used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? ", " : "",
						 row->words[i]);
		break;
	}
}

static const char *shown_default(const struct settings_row *row)
{
	return row->def[0] ? row->def : "empty";
}

/* Words in lines of at most HELP_COLUMNS, each after the indent. */
static void put_wrapped(const char *text, FILE *to)
{
	size_t column = 0;

	while (*text) {
		size_t word = strcspn(text, " ");

		if (column && column + 1 + word > HELP_COLUMNS) {
			fputc('\n', to);
			column = 0;
		}
		column += (size_t)fprintf(to, "%*s%.*s", column ? 1 : HELP_INDENT, "", (int)word, text);
		text += word + (text[word] == ' ');
	}
	fputc('\n', to);
}

void settings_print_help(FILE *to)
{
	char range[128];

	fputs("shmemd: owns the NICs of this node for GPU-initiated networking\n\n"
	      "usage: shmemd [--KEY VALUE | --KEY=VALUE]...\n\n", to);
	for (unsigned int i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		fprintf(to, "  %s\n", flags[i].option);
		put_wrapped(flags[i].text, to);
	}
	fputs("\nSettings, on the command line or as \"KEY = VALUE\" in shmemd.conf:\n\n", to);
	for (unsigned int i = 0; i < settings_n_rows; i++) {
		const struct settings_row *row = &settings_rows[i];

		format_range(row, range, sizeof(range));
		fprintf(to, "  --%s (%s; default %s)\n", row->key, range, shown_default(row));
		put_wrapped(row->text, to);
	}
	fputs("\nExample, without privileges:\n  shmemd --socket \"$XDG_RUNTIME_DIR/shmemd.sock\"\n", to);
}

void settings_print_all(const struct settings *settings, FILE *to)
{
	char value[SETTINGS_VALUE_BYTES];

	for (unsigned int i = 0; i < settings_n_rows; i++) {
		settings_format(settings, i, value, sizeof(value));
		fprintf(to, "%s = %s\n", settings_rows[i].key, value);
	}
}

/* ---- roff ------------------------------------------------------------------------------------------------------- */

/* Text in which nothing is a command: backslashes and hyphens escaped, no line begins with a dot. */
static void put_roff(const char *text, FILE *to)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", to);
	for (; *text; text++) {
		if (*text == '-' || *text == '\\')
			fputs(*text == '-' ? "\\-" : "\\e", to);
		else
			fputc(*text, to);
	}
}

static void put_entry(const char *head, const char *note, const char *text, FILE *to)
{
	fputs(".TP\n\\fB", to);
	put_roff(head, to);
	fputs("\\fR", to);
	if (note) {
		fputs(" (", to);
		put_roff(note, to);
		fputc(')', to);
	}
	fputc('\n', to);
	put_roff(text, to);
	fputc('\n', to);
}

static void put_settings(const char *prefix, FILE *to)
{
	char range[128], note[256], head[80];

	for (unsigned int i = 0; i < settings_n_rows; i++) {
		const struct settings_row *row = &settings_rows[i];

		format_range(row, range, sizeof(range));
		snprintf(note, sizeof(note), "%s; default %s; %s", range, shown_default(row),
			 row->reload ? "reload" : "restart");
		snprintf(head, sizeof(head), "%s%s", prefix, row->key);
		put_entry(head, note, row->text, to);
	}
}

static void put_flags(FILE *to)
{
	for (unsigned int i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		put_entry(flags[i].option, NULL, flags[i].text, to);
}

/* The page of the .in file, with the tables in place of the lines that name them. */
static void print_page(const char *text, FILE *to)
{
	for (size_t n; *text; text += n) {
		n = strcspn(text, "\n") + 1;
		if (strncmp(text, "@FLAGS@", n - 1) == 0)
			put_flags(to);
		else if (strncmp(text, "@OPTIONS@", n - 1) == 0)
			put_settings("--", to);
		else if (strncmp(text, "@SETTINGS@", n - 1) == 0)
			put_settings("", to);
		else
			fwrite(text, 1, n, to);
	}
}

void settings_print_man(enum settings_action page, FILE *to)
{
	print_page(page == SETTINGS_MAN_CONF ? man_shmemd_conf : man_shmemd, to);
}
