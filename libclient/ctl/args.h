/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of shmemctl as tables: options, words and commands. Reading it, --help and completion use the same
 * ones, and check-ctl-doc compares the man page with what they print.
 */
#ifndef SHMEMD_CTL_ARGS_H
#define SHMEMD_CTL_ARGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct ctl;
struct shmd_client;

#define ARGS_MAX_WORDS 2
#define ARGS_MAX_COUNT 1000000000000000000ull

enum args_option_id {
	OPTION_JSON,
	OPTION_COLOR,
	OPTION_SOCKET,
	OPTION_HELP,
	OPTION_VERSION,
	OPTION_WATCH,
	OPTION_ALL,
	OPTION_WIDE,
	OPTION_KEYS,
	OPTION_PAYLOAD,
	OPTION_KIND,
	OPTION_COUNT,
	OPTION_GRACE,
	OPTION_OFF,
	OPTION_FROM,
	OPTION_WHY,
	OPTION_SVG,
	OPTION_CONFIG,
	OPTION_ROOT,
	OPTION_PES,
	OPTION_ENV,
	OPTION_CHDIR,
	OPTION_BIND,
	OPTION_NO_PREFIX,
	OPTION_OUTPUT_FILES,
	OPTION_KEEP_GOING,
	OPTION_KILL_AFTER,
	OPTION_TIMEOUT,
	OPTION_NODES,
	OPTION_NVSHMEM,
	N_OPTIONS,
};

#define OPTION_BIT(id) (UINT64_C(1) << (id))
#define ARGS_MAX_LISTED 64
/* Options of every command. */
#define OPTIONS_COMMON \
	(OPTION_BIT(OPTION_JSON) | OPTION_BIT(OPTION_COLOR) | OPTION_BIT(OPTION_SOCKET) | OPTION_BIT(OPTION_HELP) | \
	 OPTION_BIT(OPTION_VERSION))

enum args_value {
	VALUE_NONE,
	VALUE_SECONDS_OPTIONAL, /* any other word belongs to the command */
	VALUE_SECONDS,
	VALUE_SECONDS_OF_JOB, /* not 0 */
	VALUE_COUNT,
	VALUE_CHOICE,
	VALUE_CHOICES, /* comma separated */
	VALUE_PATH,
	VALUE_TEXT,
};

struct args_option {
	const char *name; /* with the dashes */
	const char *value_name;
	enum args_value value;
	const char *const *choices; /* ends with NULL */
	const char *help;
	const char *short_name; /* "-n", or NULL */
};
extern const struct args_option args_options[N_OPTIONS];

/* Gets each candidate of a completion, with a description or NULL. */
typedef void args_offer_fn(void *arg, const char *word, const char *about);

/* A word behind the command. */
struct args_word {
	const char *name; /* "SESSION" */
	const char *const *choices; /* ends with NULL; or NULL: anything */
	void (*live)(struct shmd_client *client, args_offer_fn *offer, void *arg); /* candidates that the daemon has; or NULL */
};

struct args_command {
	const char *name;
	const char *synopsis; /* words and own options, for people */
	const char *help; /* a line */
	const char *details; /* sentences, lines of at most 79 columns */
	uint64_t options; /* besides OPTIONS_COMMON */
	unsigned int n_needed; /* of the words */
	const struct args_word *words[ARGS_MAX_WORDS + 1]; /* ends with NULL */
	int (*run)(struct ctl *ctl);
	bool is_local; /* asks no daemon: ctl->client is NULL */
	bool takes_program; /* the first word that is no option ends those of shmemctl: a program and its arguments */
};

struct args {
	const struct args_command *commands; /* the table, which ends with a NULL name */
	const struct args_command *command; /* NULL: none was given */
	const char *words[ARGS_MAX_WORDS];
	unsigned int n_words;
	char **program; /* of a command that takes one: the rest of the line, which ends with NULL */
	bool is_behind_program; /* for completion: a word of the program stands already */
	uint64_t given; /* bits of options */
	const char *values[N_OPTIONS]; /* the last one */
	const char *env[ARGS_MAX_LISTED + 1]; /* all values of --env; ends with NULL */
	unsigned int n_env;
	double watch_seconds; /* 0: once */
};

/*
 * Reads argv behind the program's name. 0; or -EINVAL with a sentence on stderr. With --help or --version in it, or -h or -V,
 * nothing else is checked.
 */
int args_read(const struct args_command *commands, char **argv, struct args *ret_args);
bool args_has(const struct args *args, enum args_option_id id);
/* Value of an option with VALUE_SECONDS, else def. */
double args_seconds(const struct args *args, enum args_option_id id, double def);
/* Value of an option with VALUE_COUNT, else def. */
uint64_t args_count(const struct args *args, enum args_option_id id, uint64_t def);
/* Whether a comma separated value has the word, or the option is absent. */
bool args_lists(const struct args *args, enum args_option_id id, const char *word);

const struct args_command *args_find_command(const struct args_command *commands, const char *name);
int args_find_option(const char *name, size_t bytes); /* -1: there is none */
bool args_parse_number(const char *text, uint64_t *ret_number); /* decimal, or hexadecimal behind 0x */
bool args_parse_seconds(const char *text, double *ret_seconds);

/* All commands, or one. */
void args_print_help(const struct args_command *commands, const struct args_command *command, FILE *out);
/*
 * Prints the candidates for the last of the words, one a line: the word, a tab, a description. ":files" asks the shell for names of
 * files. Opens a client only if the daemon has the candidates; failure offers nothing.
 */
void args_complete(const struct args_command *commands, char **words, FILE *out);

#endif
