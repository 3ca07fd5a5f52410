/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/log.h"
#include "daemon/settings/settings.h"
#include "tests/lib/test.h"

static void refused(const char *text, const char *words)
{
	struct settings_error error = {""};
	struct settings settings;

	settings_init(&settings);
	ASSERT_ERR(settings_parse(&settings, text, "f.conf", &error), EINVAL);
	if (!strstr(error.text, words))
		test_fail(TEST_WHERE, "\"%s\" is not in: %s", words, error.text);
}

TEST(every_default_is_in_its_own_range_and_survives_the_file)
{
	struct settings_error error = {""};
	struct settings a, b;

	settings_init(&a);
	settings_init(&b);
	for (unsigned int i = 0; i < settings_n_rows; i++) {
		char value[SETTINGS_VALUE_BYTES];

		settings_format(&a, i, value, sizeof(value));
		ASSERT_OK(settings_set(&b, settings_rows[i].key, value, "x", &error));
		ASSERT_NE(settings_rows[i].text[0], 0);
	}
	ASSERT_MEMEQ(&a, &b, sizeof(a));
}

TEST(keys_are_unique)
{
	for (unsigned int i = 0; i < settings_n_rows; i++)
		for (unsigned int k = 0; k < i; k++)
			ASSERT_NE(strcmp(settings_rows[i].key, settings_rows[k].key), 0);
}

TEST(file_with_comments_blanks_and_suffixes)
{
	struct settings_error error = {""};
	struct settings settings;

	settings_init(&settings);
	ASSERT_OK(settings_parse(&settings, "# c\n\n\t max-qps=5\n max-registered-bytes =  3G  \nlog-level = debug\n"
					    "socket = /a b/c\nsocket-mode = 600\nsocket-group =\nlog-target=stderr",
				 "f", &error));
	ASSERT_EQ(settings.max_qps, 5);
	ASSERT_EQ(settings.max_registered_bytes, 3ull << 30);
	ASSERT_EQ(settings.log_level, LOG_DEBUG);
	ASSERT_EQ(settings.log_target, LOG_TO_STDERR);
	ASSERT_STREQ(settings.socket, "/a b/c");
	ASSERT_STREQ(settings.socket_group, "");
	ASSERT_EQ(settings.socket_mode, 0600);
}

TEST(errors_name_line_range_and_remedy)
{
	refused("max-qps = 1\nmax-qps = 0\n", "f.conf:2: max-qps is \"0\"; set it to a number of QPs from 1 to 16777216");
	refused("max-qps = -1", "f.conf:1: max-qps is \"-1\"");
	refused("max-qps = 1K", "max-qps is \"1K\"");
	refused("max-qps = 1 2", "max-qps is \"1 2\"");
	refused("max-qps =", "max-qps is \"\"");
	refused("max-qps = 18446744073709551617", "max-qps");
	refused("max-registered-bytes = 99999999T", "max-registered-bytes");
	refused("max-registered-bytes = 1KB", "max-registered-bytes");
	refused("depth = 1", "f.conf:1: there is no setting \"depth\"; \"shmemd --help\" lists all settings");
	refused("max-qps", "is not of the form \"key = value\"");
	refused("backend = ib", "backend is \"ib\"; set it to one of auto, soft");
	refused("socket-mode = 888", "set it to octal digits from 0 to 0777");
	refused("socket-mode = 1777", "set it to octal digits");
	refused("socket =", "set it to a text of 1 to 107 bytes");
}

static int load(struct settings *settings, enum settings_action *action, char *text, const char *conf,
		const char *const *words)
{
	struct settings_error error = {""};
	char *argv[16] = {(char *)"shmemd"};
	int argc = 1, r;

	for (; words[argc - 1]; argc++)
		argv[argc] = (char *)words[argc - 1];
	r = settings_load(settings, &(struct settings_source){argv, conf}, action, &error);
	memcpy(text, error.text, sizeof(error.text));
	return r;
}

TEST(a_typing_error_in_a_key_or_a_word_gets_a_suggestion)
{
	refused("max-qp = 1", "there is no setting \"max-qp\" (did you mean max-qps?); ");
	refused("nics_include = mlx5_0", "(did you mean nics-include?)");
	refused("frobnicate = 1", "there is no setting \"frobnicate\"; ");
	refused("backend = mxl5", "backend is \"mxl5\" (did you mean mlx5?); set it to one of auto, soft, mlx5");
	refused("log-level = warn", "(did you mean warning?)");
}

TEST(settings_of_former_versions_are_ignored_and_named)
{
	static struct settings settings, next;
	struct settings_changes changes;
	struct settings_error error;

	settings_init(&settings);
	ASSERT_OK(settings_parse(&settings, "max-qps = 3\nhot-spot-period = no number\n", "conf", &error));
	ASSERT_STREQ(settings.removed, "conf:2: hot-spot-period");
	ASSERT_EQ(settings.max_qps, 3);
	settings_init(&next);
	settings_reload(&settings, &next, &changes);
	ASSERT_STREQ(settings.removed, "");
	ASSERT_ERR(settings_set(&settings, "hot-spot-perio", "1", "x", &error), EINVAL);
}

/* A file of any kind may be named, and its bytes must not reach a terminal. */
TEST(bytes_of_a_file_are_escaped_and_bounded_in_errors)
{
	char text[8192], *end = text + sizeof(text) - 1;
	struct settings_error error;
	struct settings settings;

	settings_init(&settings);
	refused("\x7f" "ELF\x02\x01", "f.conf:1: \"\\x7fELF\\x02\\x01\" is not of the form");
	refused("\x1b[2J = 1", "there is no setting \"\\x1b[2J\"");
	refused("max-qps = \x1b[2J", "max-qps is \"\\x1b[2J\"");
	refused("backend = \xff\xfe", "backend is \"\\xff\\xfe\"");
	refused("socket = /tmp/\x1b[2J", "socket contains a control character; remove it");
	for (int byte = 1; byte < 256; byte++) {
		memset(text, byte, sizeof(text));
		*end = 0;
		if (settings_parse(&settings, text, "f.conf", &error) == 0)
			continue;
		ASSERT(strlen(error.text) < 200);
		for (const char *at = error.text; *at; at++)
			ASSERT(*at >= ' ' && *at <= '~');
	}
}

TEST(a_folder_and_a_binary_file_are_refused_by_what_they_are)
{
	char path[] = "/tmp/shmemd-settings-XXXXXX";
	struct settings_error error;
	struct settings settings;
	int fd = mkstemp(path);

	settings_init(&settings);
	ASSERT_ERR(settings_read_file(&settings, "/tmp", &error), EINVAL);
	ASSERT_STREQ(error.text, "/tmp is a directory; name a file");
	ASSERT_EQ(write(fd, "a\0b", 3), 3);
	ASSERT_ERR(settings_read_file(&settings, path, &error), EINVAL);
	ASSERT(strstr(error.text, " is not a text file"));
	ASSERT_OK(ftruncate(fd, (1 << 20) + 1));
	ASSERT_ERR(settings_read_file(&settings, path, &error), EINVAL);
	ASSERT(strstr(error.text, " is larger than 1048576 bytes"));
	close(fd);
	unlink(path);
}

TEST(command_line_beats_environment_beats_file_beats_default)
{
	char path[] = "/tmp/shmemd-settings-XXXXXX", text[sizeof(struct settings_error)];
	enum settings_action action;
	struct settings settings;
	int fd = mkstemp(path);

	dprintf(fd, "socket = /from-file\nmax-qps = 7\nspin-usec = 1\n");
	close(fd);
	unsetenv("SHMEMD_SOCKET");
	ASSERT_OK(load(&settings, &action, text, path, (const char *[]){NULL}));
	ASSERT_EQ(action, SETTINGS_RUN);
	ASSERT_STREQ(settings.socket, "/from-file");
	setenv("SHMEMD_SOCKET", "/from-environment", 1);
	ASSERT_OK(load(&settings, &action, text, path, (const char *[]){"--max-qps", "9", NULL}));
	ASSERT_STREQ(settings.socket, "/from-environment");
	ASSERT_EQ(settings.max_qps, 9);
	ASSERT_EQ(settings.spin_usec, 1);
	ASSERT_OK(load(&settings, &action, text, "/none", (const char *[]){"--socket=/s", "--config", path, NULL}));
	ASSERT_STREQ(settings.socket, "/s");
	ASSERT_EQ(settings.max_qps, 7);
	ASSERT_ERR(load(&settings, &action, text, path, (const char *[]){"--config=/none", NULL}), ENOENT);
	ASSERT(strstr(text, "cannot read /none"));
	unlink(path);
}

TEST(questions_do_not_need_a_valid_file)
{
	char path[] = "/tmp/shmemd-settings-XXXXXX", text[sizeof(struct settings_error)];
	enum settings_action action;
	struct settings settings;
	int fd = mkstemp(path);

	dprintf(fd, "nonsense\n");
	close(fd);
	ASSERT_OK(load(&settings, &action, text, path, (const char *[]){"--help", NULL}));
	ASSERT_EQ(action, SETTINGS_HELP);
	ASSERT_OK(load(&settings, &action, text, path, (const char *[]){"--print-man=shmemd", NULL}));
	ASSERT_EQ(action, SETTINGS_MAN_DAEMON);
	ASSERT_ERR(load(&settings, &action, text, path, (const char *[]){"--print-man=ls", NULL}), EINVAL);
	ASSERT_ERR(load(&settings, &action, text, path, (const char *[]){"--check-config", NULL}), EINVAL);
	unlink(path);
}

TEST(help_fits_a_terminal)
{
	char *text = NULL, *line;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	settings_print_help(f);
	fclose(f);
	ASSERT(strstr(text, "--max-registered-bytes"));
	for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		ASSERT_LE(strlen(line), 80);
	free(text);
}

/* A line of roff that begins with a dot or a quote is a command: texts must not make any. */
TEST(man_pages_hold_every_setting_and_no_stray_command)
{
	static const char *const commands[] = {".TH", ".SH", ".TP", ".PP", ".nf", ".fi", ".\\\""};

	for (int page = SETTINGS_MAN_CONF; page <= SETTINGS_MAN_DAEMON; page++) {
		char *text = NULL, *line;
		size_t size;
		FILE *f = open_memstream(&text, &size);

		settings_print_man(page, f);
		fclose(f);
		ASSERT(strstr(text, "max\\-registered\\-bytes"));
		for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
			bool known = line[0] != '.' && line[0] != '\'';

			for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
				known |= strncmp(line, commands[i], strlen(commands[i])) == 0;
			if (!known)
				test_fail(TEST_WHERE, "a line of the page is no known command: %s", line);
		}
		free(text);
	}
}

TEST(reload_takes_what_may_change_and_names_the_rest)
{
	struct settings_changes changes;
	struct settings_error error;
	struct settings now, next;

	settings_init(&now);
	settings_init(&next);
	settings_reload(&now, &next, &changes);
	ASSERT_STREQ(changes.taken, "");
	ASSERT_STREQ(changes.waiting, "");
	ASSERT_OK(settings_parse(&next, "max-qps = 5\nsocket = /elsewhere\nsocket-group = staff\nsoft-nics = 9\n", "f",
				 &error));
	settings_reload(&now, &next, &changes);
	ASSERT_STREQ(changes.taken, "socket-group, max-qps");
	ASSERT_STREQ(changes.waiting, "socket, soft-nics");
	ASSERT_EQ(now.max_qps, 5);
	ASSERT_STREQ(now.socket_group, "staff");
	ASSERT_EQ(now.soft_nics, 2);
	/* A pending setting stays pending, and the log names it again. */
	settings_reload(&now, &next, &changes);
	ASSERT_STREQ(changes.taken, "");
	ASSERT_STREQ(changes.waiting, "socket, soft-nics");
}

/* Another one than there is. */
static uint64_t other_choice(const struct settings_row *row, uint64_t now)
{
	for (unsigned int i = 0; row->words[i]; i++)
		if ((row->word_values ? row->word_values[i] : i) != now)
			return row->word_values ? row->word_values[i] : i;
	test_fail(TEST_WHERE, "%s has one choice", row->key);
}

/* Whatever is not in `now` of the reloadable settings after a reload was forgotten there. */
TEST(every_setting_is_taken_or_named)
{
	struct settings_changes changes;
	struct settings now, next;
	size_t n_names = 0;

	settings_init(&now);
	settings_init(&next);
	for (unsigned int i = 0; i < settings_n_rows; i++) {
		const struct settings_row *row = &settings_rows[i];

		if (row->type == SETTINGS_TEXT || row->type == SETTINGS_POLICY)
			strcat((char *)&next + row->offset, "x");
		else if (row->type == SETTINGS_CHOICE)
			*(uint64_t *)((char *)&next + row->offset) = other_choice(row, *(uint64_t *)((char *)&next + row->offset));
		else
			*(uint64_t *)((char *)&next + row->offset) += 1;
	}
	settings_reload(&now, &next, &changes);
	ASSERT(!strstr(changes.taken, "...") && !strstr(changes.waiting, "..."));
	for (unsigned int i = 0; i < settings_n_rows; i++) {
		char value[SETTINGS_VALUE_BYTES], wanted[SETTINGS_VALUE_BYTES];

		settings_format(&now, i, value, sizeof(value));
		settings_format(&next, i, wanted, sizeof(wanted));
		ASSERT_EQ(strcmp(value, wanted) == 0, settings_rows[i].reload);
		ASSERT(strstr(settings_rows[i].reload ? changes.taken : changes.waiting, settings_rows[i].key));
		n_names++;
	}
	ASSERT_EQ(n_names, settings_n_rows);
}

TEST(man_page_says_which_settings_change_on_reload)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	settings_print_man(SETTINGS_MAN_CONF, f);
	fclose(f);
	ASSERT(strstr(text, "\\fBmax\\-qps\\fR (1 to 16777216 QPs; default 32768; reload)"));
	ASSERT(strstr(text, "\\fBsoft\\-nics\\fR (1 to 64 NICs; default 2; restart)"));
	ASSERT(strstr(text, "SIGHUP"));
	free(text);
}
