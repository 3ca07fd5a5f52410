/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads settings: defaults, then the file (`--config`, else SYSCONFDIR/shmemd/shmemd.conf if it exists), then SHMEMD_SOCKET, then the
 * command line. One table (settings-table.c) drives all of them, `--help`, and the man pages (`--print-man`).
 *
 * Rejects unknown keys and values outside their range, and names the accepted ones. A file may be of any kind, so its bytes reach
 * an error text only through show_text(). Uses no globals except the table. Control thread.
 */
#include "daemon/settings/settings.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/topo/topo.h"
#include "proto/base/assert.h"
#include "proto/base/cleanup.h"
#include "proto/base/parse.h"
#include "proto/base/show.h"
#include "proto/base/suggest.h"
#include "proto/framing.h"

#define SETTINGS_MAX_FILE_BYTES (1 << 20)
_Static_assert(SETTINGS_LIST_BYTES == TOPO_POLICY_TEXT_BYTES, "what shmemctl writes fits");

#define COMMAND_LINE "command line"

static void fclosep(FILE **f)
{
	if (*f)
		fclose(*f);
}

static int __attribute__((format(printf, 2, 3)))
refuse(struct settings_error *error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(error->text, sizeof(error->text), fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static const struct settings_row *find_row(const char *key)
{
	for (unsigned int i = 0; i < settings_n_rows; i++)
		if (strcmp(settings_rows[i].key, key) == 0)
			return &settings_rows[i];
	return NULL;
}

/* Settings of former versions have no effect: a file that still has one does not keep the daemon from starting. */
static bool is_removed(const char *key)
{
	static const char *const keys[] = {"hot-spot-period", "hot-spot-share", "hot-spot-time", "hot-spot-rate"};

	for (unsigned int i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(key, keys[i]) == 0)
			return true;
	return false;
}

/* " (did you mean X?)", or nothing. Returns buf. */
#define HINT_BYTES (SUGGEST_MAX_BYTES + 24)

static const char *hint(const struct suggest *suggest, const char *dashes, char buf[HINT_BYTES])
{
	const char *word = suggest_result(suggest);

	buf[0] = 0;
	if (word)
		snprintf(buf, HINT_BYTES, " (did you mean %s%s?)", dashes, word);
	return buf;
}

static void *field(struct settings *settings, const struct settings_row *row)
{
	return (char *)settings + row->offset;
}

/* ---- values --------------------------------------------------------------------------------------------------- */

static bool parse_number(const char *value, const struct settings_row *row, uint64_t *ret)
{
	bool is_bytes = row->unit && strcmp(row->unit, "bytes") == 0;
	uint64_t number;
	int r = is_bytes ? parse_bytes(value, &number) : parse_u64(value, row->type == SETTINGS_MODE ? 8 : 10, &number);

	if (r < 0)
		return false;
	*ret = number;
#ifdef FUZZ_PLANT
	if (PLANTED("config") && row->max <= 64 && number > row->max)
		return true;
#endif
	return number >= row->min && number <= row->max;
}

static void list_words(const struct settings_row *row, char *buf, size_t size)
{
	buf[0] = 0;
	for (int i = 0; row->words[i]; i++) {
		size_t used = strlen(buf);

		snprintf(buf + used, size - used, "%s%s", i ? ", " : "", row->words[i]);
	}
}

static int set_choice(struct settings *settings, const struct settings_row *row, const char *value,
		      const char *where, struct settings_error *error)
{
	struct suggest near = suggest_begin(value);
	char words[128], shown[SHOW_BUF_BYTES], buf[HINT_BYTES];

	for (unsigned int i = 0; row->words[i]; i++) {
		suggest_offer(&near, row->words[i]);
		if (strcmp(row->words[i], value) != 0)
			continue;
		*(uint64_t *)field(settings, row) = row->word_values ? row->word_values[i] : i;
		return 0;
	}
	list_words(row, words, sizeof(words));
	return refuse(error, "%s: %s is \"%s\"%s; set it to one of %s", where, row->key, show_text(value, shown),
		      hint(&near, "", buf), words);
}

static int set_text(struct settings *settings, const struct settings_row *row, const char *value,
		    const char *where, struct settings_error *error)
{
	size_t bytes = strlen(value);

	for (size_t i = 0; i < bytes; i++)
		if (iscntrl((unsigned char)value[i]))
			return refuse(error, "%s: %s contains a control character; remove it", where, row->key);
	if (!bytes && row->min)
		return refuse(error, "%s: %s is empty; set it to a text of %" PRIu64 " to %" PRIu64 " bytes", where, row->key, row->min,
			      row->max);
	if (bytes > row->max)
		return refuse(error, "%s: %s has %zu bytes; set it to a text of %" PRIu64 " to %" PRIu64
			      " bytes", where, row->key, bytes, row->min, row->max);
	memcpy(field(settings, row), value, bytes + 1);
	return 0;
}

static int check_policy(const struct settings_row *row, const char *value, const char *where, struct settings_error *error)
{
	_cleanup_free_ struct topo_policy *policy = calloc(1, sizeof(*policy));
	char why[TOPO_POLICY_WHY_BYTES];

	if (!policy)
		return refuse(error, "out of memory");
	if (topo_policy_set(policy, row->key, value, why) < 0)
		return refuse(error, "%s: %s: %s", where, row->key, why);
	return 0;
}

/* An empty one is the default, which needs no memory: it cannot fail. */
static int set_policy(struct settings *settings, const struct settings_row *row, const char *value,
		      const char *where, struct settings_error *error)
{
	int r = *value ? check_policy(row, value, where, error) : 0;

	return r < 0 ? r : set_text(settings, row, value, where, error);
}

static int set_number(struct settings *settings, const struct settings_row *row, const char *value,
		      const char *where, struct settings_error *error)
{
	char shown[SHOW_BUF_BYTES];
	uint64_t number;

	if (parse_number(value, row, &number)) {
		*(uint64_t *)field(settings, row) = number;
		return 0;
	}
	if (row->type == SETTINGS_MODE)
		return refuse(error, "%s: %s is \"%s\"; set it to octal digits from 0 to 0%" PRIo64, where,
			      row->key, show_text(value, shown), row->max);
	return refuse(error, "%s: %s is \"%s\"; set it to a number of %s from %" PRIu64 " to %" PRIu64,
		      where, row->key, show_text(value, shown), row->unit, row->min, row->max);
}

static int refuse_unknown(const char *key, const char *where, struct settings_error *error)
{
	char shown[SHOW_BUF_BYTES], buf[HINT_BYTES];
	struct suggest near = suggest_begin(key);

	for (unsigned int i = 0; i < settings_n_rows; i++)
		suggest_offer(&near, settings_rows[i].key);
	return refuse(error, "%s: there is no setting \"%s\"%s; \"shmemd --help\" lists all settings", where,
		      show_text(key, shown), hint(&near, "", buf));
}

int settings_set(struct settings *settings, const char *key, const char *value, const char *where,
	       struct settings_error *ret_error)
{
	const struct settings_row *row = find_row(key);

	if (!row && is_removed(key)) {
		snprintf(settings->removed, sizeof(settings->removed), "%s: %s", where, key);
		return 0;
	}
	if (!row)
		return refuse_unknown(key, where, ret_error);
	switch (row->type) {
	case SETTINGS_TEXT:
		return set_text(settings, row, value, where, ret_error);
	case SETTINGS_CHOICE:
		return set_choice(settings, row, value, where, ret_error);
	case SETTINGS_NUMBER:
	case SETTINGS_MODE:
		return set_number(settings, row, value, where, ret_error);
	case SETTINGS_POLICY:
		return set_policy(settings, row, value, where, ret_error);
	}
	return -EINVAL;
}

void settings_init(struct settings *settings)
{
	struct settings_error error;

	memset(settings, 0, sizeof(*settings));
	for (unsigned int i = 0; i < settings_n_rows; i++)
		assert_bug(settings_set(settings, settings_rows[i].key, settings_rows[i].def, "", &error) == 0);
}

void settings_format(const struct settings *settings, unsigned int index, char *buf, size_t size)
{
	const struct settings_row *row = &settings_rows[index];
	const void *at = (const char *)settings + row->offset;
	uint64_t number;
	unsigned int i;

	if (row->type == SETTINGS_TEXT || row->type == SETTINGS_POLICY) {
		snprintf(buf, size, "%s", (const char *)at);
		return;
	}
	number = *(const uint64_t *)at;
	if (row->type == SETTINGS_NUMBER) {
		snprintf(buf, size, "%" PRIu64, number);
	} else if (row->type == SETTINGS_MODE) {
		snprintf(buf, size, "0%" PRIo64, number);
	} else {
		for (i = 0; (row->word_values ? row->word_values[i] : i) != number; i++)
			;
		snprintf(buf, size, "%s", row->words[i]);
	}
}

/* ---- reload --------------------------------------------------------------------------------------------------- */

static void add_name(char *list, size_t size, const char *name)
{
	size_t used = strlen(list);

	if (used + strlen(name) + sizeof(", ...") > size)
		name = "...";
	if (used < 3 || strcmp(list + used - 3, "...") != 0)
		snprintf(list + used, size - used, "%s%s", used ? ", " : "", name);
}

static size_t value_bytes(const struct settings_row *row)
{
	return row->type == SETTINGS_TEXT || row->type == SETTINGS_POLICY ? row->max + 1 : sizeof(uint64_t);
}

void settings_reload(struct settings *settings, const struct settings *next, struct settings_changes *ret_changes)
{
	char now[SETTINGS_VALUE_BYTES], then[SETTINGS_VALUE_BYTES];

	*ret_changes = (struct settings_changes){""};
	memcpy(settings->removed, next->removed, sizeof(settings->removed));
	for (unsigned int i = 0; i < settings_n_rows; i++) {
		const struct settings_row *row = &settings_rows[i];

		settings_format(settings, i, now, sizeof(now));
		settings_format(next, i, then, sizeof(then));
		if (strcmp(now, then) == 0)
			continue;
		if (!row->reload) {
			add_name(ret_changes->waiting, sizeof(ret_changes->waiting), row->key);
			continue;
		}
		add_name(ret_changes->taken, sizeof(ret_changes->taken), row->key);
		memcpy(field(settings, row), (const char *)next + row->offset, value_bytes(row));
	}
}

/* ---- file ------------------------------------------------------------------------------------------------------ */

/* "key = value"; a comment begins with # at the start of a line. */
static int parse_line(struct settings *settings, char *line, const char *where,
		      struct settings_error *error)
{
	char shown[SHOW_BUF_BYTES], *equals;

	line = parse_strip(line);
	if (!line[0] || line[0] == '#')
		return 0;
	equals = strchr(line, '=');
	if (!equals)
		return refuse(error, "%s: \"%s\" is not of the form \"key = value\"", where, show_text(line, shown));
	*equals = 0;
	return settings_set(settings, parse_strip(line), parse_strip(equals + 1), where, error);
}

int settings_parse(struct settings *settings, const char *text, const char *name,
		 struct settings_error *ret_error)
{
	unsigned int number = 0;

	while (*text) {
		size_t bytes = strcspn(text, "\n");
		_cleanup_free_ char *line = strndup(text, bytes);
		char where[SETTINGS_PATH_BYTES + 16];
		int r;

		if (!line)
			return -ENOMEM;
		snprintf(where, sizeof(where), "%s:%u", name, ++number);
		r = parse_line(settings, line, where, ret_error);
		if (r < 0)
			return r;
		text += bytes + (text[bytes] == '\n');
	}
	return 0;
}

/* 0, or -EINVAL with why the file is none of ours. */
static int judge_text(const char *path, const char *text, size_t n, int read_error, struct settings_error *error)
{
	if (read_error == EISDIR)
		return refuse(error, "%s is a directory; name a file", path);
	if (read_error)
		return refuse(error, "cannot read %s: %s", path, strerror(read_error));
	if (n > SETTINGS_MAX_FILE_BYTES)
		return refuse(error, "%s is larger than %d bytes, so it is no settings file", path, SETTINGS_MAX_FILE_BYTES);
	if (memchr(text, 0, n))
		return refuse(error, "%s is not a text file", path);
	return 0;
}

int settings_read_file(struct settings *settings, const char *path, struct settings_error *ret_error)
{
	_cleanup_(fclosep) FILE *f = fopen(path, "re");
	_cleanup_free_ char *text = NULL;
	size_t n;
	int r;

	if (!f) {
		r = -errno;
		snprintf(ret_error->text, sizeof(ret_error->text), "cannot read %s: %m", path);
		return r;
	}
	text = malloc(SETTINGS_MAX_FILE_BYTES + 1);
	if (!text)
		return -ENOMEM;
	n = fread(text, 1, SETTINGS_MAX_FILE_BYTES + 1, f);
	r = judge_text(path, text, n, ferror(f) ? errno : 0, ret_error);
	if (r < 0)
		return r;
	text[n] = 0;
	return settings_parse(settings, text, path, ret_error);
}

/* ---- command line --------------------------------------------------------------------------------------------- */

struct option {
	char key[64];
	const char *value; /* NULL: none was given */
};

/* "--key=value" or "--key"; the value may then be the next word. */
static bool split_option(const char *word, struct option *ret)
{
	const char *equals = strchr(word, '=');
	size_t bytes = equals ? (size_t)(equals - word) - 2 : strlen(word) - 2;

	if (strncmp(word, "--", 2) != 0 || bytes == 0 || bytes >= sizeof(ret->key))
		return false;
	memcpy(ret->key, word + 2, bytes);
	ret->key[bytes] = 0;
	ret->value = equals ? equals + 1 : NULL;
	return true;
}

static const char *const options_with_value[] = {"config", "print-man", NULL};

static bool is_known(const char *key)
{
	for (unsigned int i = 0; options_with_value[i]; i++)
		if (strcmp(key, options_with_value[i]) == 0)
			return true;
	return find_row(key) || is_removed(key);
}

static const struct {
	const char *key;
	enum settings_action action;
} flags[] = {
	{"check-config", SETTINGS_CHECK}, {"help", SETTINGS_HELP},
	{"version", SETTINGS_VERSION}};

static bool find_flag(const char *key, enum settings_action *ret)
{
	for (unsigned int i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (strcmp(key, flags[i].key) != 0)
			continue;
		*ret = flags[i].action;
		return true;
	}
	return false;
}

static bool find_short(const char *word, enum settings_action *ret)
{
	return (strcmp(word, "-h") == 0 && find_flag("help", ret)) || (strcmp(word, "-V") == 0 && find_flag("version", ret));
}

static int refuse_option(const char *key, struct settings_error *error)
{
	char shown[SHOW_BUF_BYTES], buf[HINT_BYTES];
	struct suggest near = suggest_begin(key);

	if (strcmp(key, "check-nics") == 0)
		return refuse(error, COMMAND_LINE ": there is no option --check-nics any more; run \"shmemctl doctor\"");
	for (unsigned int i = 0; i < settings_n_rows; i++)
		suggest_offer(&near, settings_rows[i].key);
	for (unsigned int i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		suggest_offer(&near, flags[i].key);
	for (unsigned int i = 0; options_with_value[i]; i++)
		suggest_offer(&near, options_with_value[i]);
	return refuse(error, COMMAND_LINE ": unknown option --%s%s; \"shmemd --help\" lists all options",
		      show_text(key, shown), hint(&near, "--", buf));
}

static int refuse_word(const char *word, struct settings_error *error)
{
	char shown[SHOW_BUF_BYTES];

	if (word[0] == '-' && word[1] != '-')
		return refuse(error, COMMAND_LINE ": unknown option %s; \"shmemd --help\" lists all options",
			      show_text(word, shown));
	return refuse(error, COMMAND_LINE ": \"%s\" is not an option; write settings as --KEY VALUE, \"shmemd --help\" lists them",
		      show_text(word, shown));
}

static int choose_page(const char *name, enum settings_action *ret, struct settings_error *error)
{
	if (strcmp(name, "shmemd.conf") == 0)
		*ret = SETTINGS_MAN_CONF;
	else if (strcmp(name, "shmemd") == 0)
		*ret = SETTINGS_MAN_DAEMON;
	else
		return refuse(error, COMMAND_LINE ": --print-man takes shmemd or shmemd.conf, not \"%s\"", name);
	return 0;
}

/* The command line is read twice: first for the path of the file, then for settings that override it. */
struct command_line {
	bool first_pass;
	const char *file; /* or NULL */
	enum settings_action action;
};

static int take_option(struct settings *settings, const struct option *option, struct command_line *line,
		       struct settings_error *error)
{
	if (strcmp(option->key, "config") == 0)
		line->file = option->value;
	else if (strcmp(option->key, "print-man") == 0)
		return choose_page(option->value, &line->action, error);
	else if (line->first_pass && find_row(option->key))
		return 0;
	else
		return settings_set(settings, option->key, option->value, COMMAND_LINE, error);
	return 0;
}

/* One option. Returns how many words it took, or -EINVAL. */
static int read_option(struct settings *settings, char **argv, struct command_line *line, struct settings_error *error)
{
	struct option option;
	int n = 1, r;

	if (find_short(argv[0], &line->action))
		return 1;
	if (!split_option(argv[0], &option))
		return refuse_word(argv[0], error);
	if (find_flag(option.key, &line->action))
		return option.value ? refuse(error, COMMAND_LINE ": --%s takes no value", option.key) : 1;
	if (!is_known(option.key))
		return refuse_option(option.key, error);
	if (!option.value) {
		option.value = argv[1];
		n = 2;
	}
	if (!option.value)
		return refuse(error, COMMAND_LINE ": --%s needs a value", option.key);
	r = take_option(settings, &option, line, error);
	return r < 0 ? r : n;
}

/* argv ends with NULL. */
static int read_command_line(struct settings *settings, char **argv, struct command_line *line,
			     struct settings_error *error)
{
	for (argv += *argv ? 1 : 0; *argv;) {
		int n = read_option(settings, argv, line, error);

		if (n < 0)
			return n;
		argv += n;
	}
	return 0;
}

static int read_files(struct settings *settings, const char *named, const char *default_path,
		      struct settings_error *error)
{
	int r;

	r = settings_read_file(settings, named ? named : default_path, error);
	settings->has_file = r == 0;
	return !named && r == -ENOENT ? 0 : r;
}

int settings_load(struct settings *settings, const struct settings_source *source,
		  enum settings_action *ret_action, struct settings_error *ret_error)
{
	struct command_line line = {.first_pass = true, .action = SETTINGS_RUN};
	const char *socket = getenv(SHMD_SOCKET_ENV);
	int r;

	snprintf(ret_error->text, sizeof(ret_error->text), "out of memory"); /* every other failure has its own text */
	settings_init(settings);
	r = read_command_line(settings, source->argv, &line, ret_error);
	if (r < 0)
		return r;
	*ret_action = line.action;
	if (line.action == SETTINGS_RUN || line.action == SETTINGS_CHECK) {
		r = read_files(settings, source->instead ? source->instead : line.file, source->default_path, ret_error);
		if (r < 0)
			return r;
	}
	if (socket && socket[0]) {
		r = settings_set(settings, "socket", socket, SHMD_SOCKET_ENV, ret_error);
		if (r < 0)
			return r;
	}
	line.first_pass = false;
	r = read_command_line(settings, source->argv, &line, ret_error);
	if (r < 0)
		return r;
	*ret_action = line.action;
	return 0;
}
