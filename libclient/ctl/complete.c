/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion: completion/shmemctl.bash and completion/_shmemctl call `shmemctl --complete WORD...`.
 *
 * The shells' scripts have no words of shmemctl, so completion cannot disagree with --help. Sessions, NICs and QPs come from
 * the daemon that the line names; if it does not answer within a second, completion offers none, silently.
 */
#include <string.h>

#include "libclient/ctl/ctl.h"

#define COMPLETE_TIMEOUT_NSEC 1000000000ull

struct completion {
	FILE *out;
	const char *prefix; /* the typed part of the word */
	size_t n_kept; /* bytes of the prefix before the offered word: "--color=" */
	const char *socket;
};

static void offer(void *arg, const char *word, const char *about)
{
	struct completion *to = arg;
	const char *typed = to->prefix + to->n_kept;

	if (strncmp(word, typed, strlen(typed)))
		return;
	fprintf(to->out, "%.*s%s", (int)to->n_kept, to->prefix, word);
	fprintf(to->out, "%s%s\n", about ? "\t" : "", about ? about : "");
}

static void offer_choices(struct completion *to, const char *const *choices)
{
	for (; *choices; choices++)
		offer(to, *choices, NULL);
}

static void offer_value(struct completion *to, const struct args_option *option)
{
	const char *comma = strrchr(to->prefix, ',');

	if (option->value == VALUE_PATH)
		fputs(":files\n", to->out);
	if (option->value == VALUE_CHOICES && comma)
		to->n_kept = (size_t)(comma + 1 - to->prefix);
	if (option->choices)
		offer_choices(to, option->choices);
}

static void offer_options(struct completion *to, const struct args_command *command, uint64_t given)
{
	uint64_t options = command ? command->options | OPTIONS_COMMON : OPTIONS_COMMON | OPTION_BIT(OPTION_WATCH);

	for (int id = 0; id < N_OPTIONS; id++)
		if (options & ~given & OPTION_BIT(id))
			offer(to, args_options[id].name, args_options[id].help);
}

static void offer_live(struct completion *to, const struct args_word *word)
{
	struct shmd_client_attr attr = {
		.role = SHMD_ROLE_CONTROL, .socket_path = to->socket, .timeout_nsec = COMPLETE_TIMEOUT_NSEC};
	struct shmd_client *client;

	if (shmd_client_open(&attr, &client) < 0)
		return;
	word->live(client, offer, to);
	shmd_client_close(client);
}

static void offer_word(struct completion *to, const struct args *args)
{
	const struct args_word *word;

	if (!args->command) {
		for (const struct args_command *command = args->commands; command->name; command++)
			offer(to, command->name, command->help);
		return;
	}
	word = args->command->words[args->n_words];
	if (args->command->takes_program)
		fputs(":files\n", to->out);
	else if (!word)
		offer_options(to, args->command, args->given);
	else if (word->choices)
		offer_choices(to, word->choices);
	else
		offer_live(to, word);
}

/* Reads one word that is complete. Returns the option whose value follows, or -1. */
static int skip_word(struct args *args, const char *word)
{
	size_t bytes = strcspn(word, "=");
	int id = args_find_option(word, bytes);

	if (args->is_behind_program)
		return -1;
	if (id >= 0) {
		args->given |= OPTION_BIT(id);
		if (word[bytes])
			args->values[id] = word + bytes + 1;
		return word[bytes] || args_options[id].value == VALUE_NONE ? -1 : id;
	}
	if (!args->command)
		args->command = args_find_command(args->commands, word);
	else if (args->command->takes_program)
		args->is_behind_program = true;
	else if (args->n_words < ARGS_MAX_WORDS)
		args->words[args->n_words++] = word;
	return -1;
}

/* Reads all words but the last. Returns the option whose value the last one is, or -1. */
static int skip_words(struct args *args, char **words)
{
	double seconds;
	int id = -1;

	for (; words[0] && words[1]; words++) {
		if (!strcmp(words[0], "="))
			continue; /* bash splits "--color=never" there */
		if (id < 0) {
			id = skip_word(args, words[0]);
			continue;
		}
		if (args_options[id].value != VALUE_SECONDS_OPTIONAL || args_parse_seconds(words[0], &seconds)) {
			args->values[id] = words[0];
			id = -1;
		} else {
			id = skip_word(args, words[0]);
		}
	}
	return id >= 0 && args_options[id].value == VALUE_SECONDS_OPTIONAL ? -1 : id;
}

void args_complete(const struct args_command *commands, char **words, FILE *out)
{
	struct completion to = {.out = out, .prefix = ""};
	struct args args = {.commands = commands};
	int id = skip_words(&args, words);
	size_t bytes;

	while (*words && words[1])
		words++;
	if (*words)
		to.prefix = *words;
	if (!strcmp(to.prefix, "="))
		to.prefix = ""; /* "--color=" and nothing behind it, in bash */
	to.socket = args.values[OPTION_SOCKET];
	bytes = strcspn(to.prefix, "=");
	if (args.is_behind_program) {
		fputs(":files\n", out);
		return;
	}
	if (id < 0 && to.prefix[0] == '-' && to.prefix[bytes]) {
		id = args_find_option(to.prefix, bytes);
		to.n_kept = bytes + 1;
		if (id < 0)
			return;
	}
	if (id >= 0)
		offer_value(&to, &args_options[id]);
	else if (to.prefix[0] == '-')
		offer_options(&to, args.command, args.given);
	else
		offer_word(&to, &args);
}
