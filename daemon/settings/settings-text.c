/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of settings for people: --help, --check-config, and the man pages shmemd(8) and shmemd.conf(5).
 */
#include "daemon/settings/settings.h"

#include <inttypes.h>
#include <string.h>

#include "config.h"

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

/* Every variable that the daemon reads: check-environment compares. */
static const struct {
	const char *names;
	const char *text;
} environment[] = {
	{"SHMEMD_SOCKET", "Path of the socket; the command line overrides it."},
	{"SHMEMD_DEBUG", "Topics to log in detail, comma separated: proto (every message, decoded), session, nic."},
	{"SHMEMD_MLX5_TRACE",
	 "A file to which shmemd appends every firmware command of ConnectX NICs and its answer in words, including memory keys."},
	{"SHMEMD_MLX5_OBJECTS",
	 "What creates the firmware objects of ConnectX NICs: library is rdma-core, version 63 or later; ioctl is the daemon "
	 "itself, so that the next daemon can continue with another rdma-core. Default: the library if it can."},
	{"SHMEMD_SYSFS",
	 "A folder that shmemd reads in place of /sys, for unmanaged NICs, GPUs and modules for GPU memory. For tests."},
	{"SHMEMD_PROCFS", "A folder that shmemd reads in place of /proc, for the UUIDs of GPUs and for vm.max_map_count. For tests."},
	{"SHMEMD_TOPOLOGY",
	 "A file that describes another machine; the daemon's NICs stand for those of the file, in order. For tests."},
	{"SHMEMD_FAULT", "A fault point of the soft NIC or of the control loop. For tests."},
	{"LISTEN_FDS, LISTEN_FDNAMES, LISTEN_PID",
	 "Set by a service manager: descriptors that it passes, which are the listening socket and what it has kept of the "
	 "sessions of the previous daemon."},
	{"FDSTORE",
	 "Set by a service manager: how many descriptors it keeps when a daemon ends. If it is 0 or missing, sessions end "
	 "with the daemon."},
	{"NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID",
	 "Set by a service manager: shmemd reports readiness, reloads, and the numbers of sessions and QPs; and the control "
	 "loop sends a keep-alive three times within WATCHDOG_USEC, if it is the process WATCHDOG_PID."},
	{"RUNTIME_DIRECTORY",
	 "Set by a service manager: a folder where shmemd saves the settings in force. The next daemon uses them for kept "
	 "sessions if the file is wrong by then."},
	{"JOURNAL_STREAM", "Set by a service manager: whether standard error is the journal, for log-target = auto."},
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

static void put_title(const char *name, const char *section, const char *what, FILE *to)
{
	fprintf(to, ".\\\" Generated by shmemd --print-man %s\n", name);
	fprintf(to, ".TH %s %s 2026-01-01 \"shmemd %s\"\n.SH NAME\n%s \\- %s\n", name, section,
		SHMD_VERSION_STRING, name, what);
}

static void put_files(FILE *to)
{
	fputs(".SH FILES\n", to);
	put_entry("/etc/shmemd/shmemd.conf", NULL,
		  "Settings, unless --config names another file; below the sysconfdir of the build.", to);
	put_entry("/run/shmemd/shmemd.sock", NULL, "The socket, unless a setting names another path.", to);
}

static void put_cgroups(FILE *to)
{
	fputs(".SH CGROUPS\n"
	      "Limits hold for each uid and, with the same numbers, for each tenant's cgroup with all that is nested in it. From the\n"
	      "root down, the first of these is the tenant's: a user's slice (\\fIuser\\-1000.slice\\fR), a pod, a service or a scope, and\n"
	      "any cgroup in which somebody other than root may make further ones. Other slices, and what container engines and\n"
	      "batch systems put above their containers and jobs, are shared by tenants and have no limit. If all cgroups of a\n"
	      "process are root's and none has such a name, the innermost one counts. The root cgroup never does.\n", to);
}

static void print_man_conf(FILE *to)
{
	put_title("shmemd.conf", "5", "settings of shmemd", to);
	fputs(".SH DESCRIPTION\n"
	      "A text file of lines \\fIkey\\fR = \\fIvalue\\fR. shmemd ignores empty lines and lines that begin with #.\n"
	      "It does not start with an unknown key or a value outside its range; \\fBshmemd \\-\\-check\\-config\\fR\n"
	      "finds such errors beforehand. Later sources win: defaults, this file, the environment, the command line.\n"
	      "Numbers of bytes may end in K, M, G or T, or in KiB, MiB, GiB or TiB, for powers of 1024.\n"
	      ".PP\n"
	      "On SIGHUP (\\fBsystemctl reload shmemd\\fR) the daemon reads all sources again. Settings marked\n"
	      "\\fIreload\\fR change at once; those marked \\fIrestart\\fR wait for the next start, and the log names those that\n"
	      "changed. Live sessions continue: a lower limit takes nothing away and applies to later requests. If\n"
	      "the file contains an error, or no longer exists, all settings stay as they were, and the log reports the line\n"
	      "and the reason. To return to the defaults, create an empty file. Under socket activation, the socket unit\n"
	      "determines mode and group of the socket.\n"
	      ".SH SETTINGS\n", to);
	put_settings("", to);
	put_cgroups(to);
	put_files(to);
	fputs(".SH EXAMPLE\n.nf\n# No user can take the whole node.\nmax\\-qps = 8192\nmax\\-registered\\-bytes = 512G\n.fi\n"
	      ".SH SEE ALSO\n\\fBshmemd\\fR(8), \\fBshmemctl\\fR(1)\n", to);
}

static void print_man_daemon(FILE *to)
{
	put_title("shmemd", "8", "own the NICs of a node for GPU\\-initiated networking", to);
	fputs(".SH SYNOPSIS\n\\fBshmemd\\fR [\\fB\\-\\-\\fR\\fIkey\\fR \\fIvalue\\fR]...\n"
	      ".SH DESCRIPTION\n"
	      "shmemd is the one process per node that owns NICs, QPs and memory registrations. Clients ask over a Unix\n"
	      "socket and receive queues, doorbells and keys; from then on their kernels talk to the NIC directly.\n"
	      "shmemd runs as a service, or with \\fB\\-\\-socket\\fR as an ordinary process of any user.\n"
	      ".SH OPTIONS\n", to);
	for (unsigned int i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		put_entry(flags[i].option, NULL, flags[i].text, to);
	fputs(".PP\nEvery setting of \\fBshmemd.conf\\fR(5) is also an option:\n", to);
	put_settings("--", to);
	fputs(".SH ENVIRONMENT\n", to);
	for (unsigned int i = 0; i < sizeof(environment) / sizeof(environment[0]); i++)
		put_entry(environment[i].names, NULL, environment[i].text, to);
	put_files(to);
	fputs(".SH SIGNALS\n", to);
	put_entry("SIGTERM, SIGINT", NULL,
		  "Notify every client, end its session and exit. Sessions that a service manager keeps stay as they are for the "
		  "next daemon; if the manager drops them, as at systemctl stop, their clients see that the daemon is gone. "
		  "Further signals in the meantime change nothing.", to);
	put_entry("SIGHUP", NULL,
		  "Reload the settings. shmemd.conf(5) says which ones change in the running daemon.", to);
	fputs(".SH EXIT STATUS\n", to);
	put_entry("0", NULL, "SIGTERM or SIGINT stopped the daemon, or it printed what was asked for.", to);
	put_entry("1", NULL, "The daemon could not start or continue; the log says why.", to);
	put_entry("2", NULL, "An option or a setting is wrong, or does not fit this machine, such as a map with a NIC that it does not have. If a "
		  "service manager keeps sessions, the daemon starts nevertheless, with the previous settings and with the parts of the "
		  "map that fit. A map with a port that is down does not stop it either.", to);
	fputs(".SH SERVICE\n"
	      "Under systemd, the first client starts the service: only \\fIshmemd.socket\\fR has to be enabled. Members of\n"
	      "the group \\fIshmemd\\fR may connect (usermod \\-a \\-G shmemd USER, then log in again). root is the administrator, and\n"
	      "so is root of a container that has the socket but no user namespace of its own.\n"
	      ".PP\n"
	      "As installed, the service has no access to devices and offers simulated NICs. For ConnectX NICs, install the drop\\-in:\n"
	      ".PP\n.nf\n"
	      "mkdir \\-p /etc/systemd/system/shmemd.service.d\n"
	      "cp /usr/share/doc/shmemd/examples/nics.conf /etc/systemd/system/shmemd.service.d/\n"
	      "systemctl daemon\\-reload && systemctl restart shmemd\n"
	      ".fi\n"
	      ".PP\n"
	      "Then \\fBshmemctl list nics\\fR shows them; if not, \\fBshmemctl doctor\\fR and \\fBjournalctl \\-x \\-u shmemd\\fR say why.\n"
	      "\\fBsystemctl reload shmemd\\fR reloads the settings and fails if the file is wrong. \\fBsystemctl restart\n"
	      "shmemd\\fR does not disturb kept sessions (shmemctl list sessions); \\fBsystemctl stop\\fR of the service or the\n"
	      "socket ends all of them, unless \\fBshmemctl drain\\fR lets clients finish first. If the file is wrong at a restart, kept\n"
	      "sessions continue with the previous settings; without such sessions the daemon does not start and tells its clients why.\n", to);
	fputs(".SH EXAMPLE\nWithout privileges, with four simulated NICs:\n.PP\n"
	      "shmemd \\-\\-socket \"$XDG_RUNTIME_DIR/shmemd.sock\" \\-\\-soft\\-nics 4\n", to);
	fputs(".SH SEE ALSO\n\\fBshmemd.conf\\fR(5), \\fBshmemctl\\fR(1)\n", to);
}

void settings_print_man(enum settings_action page, FILE *to)
{
	if (page == SETTINGS_MAN_CONF)
		print_man_conf(to);
	else
		print_man_daemon(to);
}
