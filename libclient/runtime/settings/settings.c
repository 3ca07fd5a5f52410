/* SPDX-License-Identifier: Apache-2.0 */
/* Loading: which variable counts for a row, and what is said about a wrong or unknown one. See settings.h. */
#include "libclient/runtime/settings/settings.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <shmemclient.h>

#include "libclient/runtime/settings/others.h"
#include "proto/base/show.h"
#include "proto/base/suggest.h"

static const char source_default[] = "default";
static const char source_program[] = "program";
static const char prefix[] = "SHMD_";

/* ---- the environment ----------------------------------------------------------------------------------------------- */

struct runtime_env runtime_env_process(void)
{
	static const char *const empty[] = {NULL};

	return (struct runtime_env){getauxval(AT_SECURE) || !environ ? empty : (const char *const *)environ};
}

const char *runtime_env_get(const struct runtime_env *env, const char *name)
{
	size_t n = strlen(name);

	for (const char *const *entry = env->list; *entry; entry++)
		if (!strncmp(*entry, name, n) && (*entry)[n] == '=')
			return *entry + n + 1;
	return NULL;
}

/* ---- a row --------------------------------------------------------------------------------------------------------- */

/* The first word that could be a typing error of one of the row's. */
static const char *meant(const struct runtime_row *row, const char *value)
{
	if (row->type == RUNTIME_TYPE_LEVELS)
		return suggest_of(value, runtime_level_names);
	return row->words ? suggest_of(value, row->words) : NULL;
}

static int refuse(const struct runtime_row *row, const char *name, const char *value)
{
	char shown[SHOW_BUF_BYTES], allowed[RUNTIME_SENTENCE_BYTES - 200];
	const char *word = meant(row, value);

	runtime_value_allowed(row, allowed, sizeof(allowed));
	return shmd_error_set(-EINVAL, "%s=%s is not allowed%s%s%s; allowed is %s", name, show_text(value, shown), word ? ": did you mean " : "",
			      word ? word : "", word ? "?" : "", allowed);
}

static int refuse_alias(const struct runtime_row *row, const struct runtime_alias *alias, const char *value)
{
	char shown[SHOW_BUF_BYTES], allowed[RUNTIME_SENTENCE_BYTES - 280];

	runtime_value_allowed(row, allowed, sizeof(allowed));
	return shmd_error_set(-EINVAL, "%s=%s has no counterpart in shmemd%s%s%s; unset it, or set %s to %s", alias->name, show_text(value, shown),
			      alias->note ? " (" : "", alias->note ? alias->note : "", alias->note ? ")" : "", row->name, allowed);
}

/* 1: taken; 0: not set, or this value says nothing. */
static int load_alias(struct runtime_settings *settings, unsigned int index, const struct runtime_alias *alias,
		      const struct runtime_env *env)
{
	const struct runtime_row *row = &runtime_rows[index];
	const char *value = runtime_env_get(env, alias->name);
	char text[RUNTIME_VALUE_BYTES];
	int r = 0;

	if (!value)
		return 0;
	if (alias->translate)
		r = alias->translate(value, text, sizeof(text));
	if (r > 0)
		return 0;
	settings->sources[index] = alias->name;
	if (r < 0 || runtime_value_parse(row, settings, alias->translate ? text : value) < 0)
		return refuse_alias(row, alias, value);
	return 1;
}

static void set_default(struct runtime_settings *settings, unsigned int index)
{
	runtime_value_parse(&runtime_rows[index], settings, runtime_rows[index].def);
	settings->sources[index] = source_default;
}

int runtime_settings_load_row(struct runtime_settings *settings, unsigned int index, const struct runtime_env *env)
{
	const struct runtime_row *row = &runtime_rows[index];
	const char *value = runtime_env_get(env, row->name);

	set_default(settings, index);
	if (value) {
		settings->sources[index] = row->name;
		return runtime_value_parse(row, settings, value) < 0 ? refuse(row, row->name, value) : 0;
	}
	for (const struct runtime_alias *alias = row->aliases; alias->name; alias++) {
		int r = load_alias(settings, index, alias, env);

		if (r)
			return r < 0 ? r : 0;
	}
	return 0;
}

/* ---- all ----------------------------------------------------------------------------------------------------------- */

void runtime_settings_init(struct runtime_settings *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (unsigned int i = 0; i < runtime_n_rows; i++)
		set_default(ret, i);
}

int runtime_settings_load(struct runtime_settings *ret, const struct runtime_env *env)
{
	struct runtime_env process = runtime_env_process();
	struct runtime_settings settings;

	runtime_settings_init(&settings);
	for (unsigned int i = 0; i < runtime_n_rows; i++) {
		int r = runtime_settings_load_row(&settings, i, env ? env : &process);

		if (r < 0)
			return r;
	}
	*ret = settings;
	return 0;
}

int runtime_settings_set(struct runtime_settings *settings, const char *name, const char *value)
{
	for (unsigned int i = 0; i < runtime_n_rows; i++) {
		if (strcmp(runtime_rows[i].name, name))
			continue;
		if (runtime_value_parse(&runtime_rows[i], settings, value) < 0)
			return refuse(&runtime_rows[i], name, value);
		settings->sources[i] = source_program;
		return 0;
	}
	return shmd_error_set(-ENOENT, "there is no setting %.64s", name);
}

/* ---- unknown names ------------------------------------------------------------------------------------------------- */

/* A name that counts here: of a row, of a launcher, or one that others use for the same. */
static const char *next_name(unsigned int *at)
{
	unsigned int i = (*at)++, n_launcher = 0;

	for (unsigned int row = 0; row < runtime_n_rows; row++) {
		const struct runtime_alias *alias = runtime_rows[row].aliases;

		if (!i--)
			return runtime_rows[row].name;
		for (; alias->name; alias++)
			if (!i--)
				return alias->name;
	}
	while (runtime_launcher_variables[n_launcher].name && i--)
		n_launcher++;
	return runtime_launcher_variables[n_launcher].name;
}

static bool is_known(const char *name)
{
	const char *known;

	for (unsigned int i = 0; (known = next_name(&i));)
		if (!strcmp(known, name))
			return true;
	return false;
}

/* Among names of the same beginning, such as NVSHMEM_: the letters behind it count, or all would be near. */
static const char *nearest(const char *name)
{
	size_t n = strcspn(name, "_") + 1;
	struct suggest suggest = suggest_begin(name + n);
	const char *known, *word;

	for (unsigned int i = 0; (known = next_name(&i));)
		if (!strncmp(known, name, n))
			suggest_offer(&suggest, known + n);
	word = suggest_result(&suggest);
	return word ? word - n : NULL;
}

static bool is_ours(const char *name)
{
	return !strncmp(name, prefix, sizeof(prefix) - 1);
}

/* Returns whether it is unknown. */
static bool report_unknown(const char *name, runtime_unknown_fn fn, void *arg)
{
	char sentence[RUNTIME_SENTENCE_BYTES], shown[SHOW_BUF_BYTES];
	const char *word = nearest(name);
	bool is_other = !is_ours(name) && others_have(name, !word);

	if (is_other)
		snprintf(sentence, sizeof(sentence), "%s has no effect on shmemd's runtime", show_text(name, shown));
	else
		snprintf(sentence, sizeof(sentence), "%s is set, but there is no such setting%s%s%s", show_text(name, shown),
			 word ? "; did you mean " : "", word ? word : "", word ? "?" : "");
	fn(arg, is_other ? RUNTIME_LOG_INFO : RUNTIME_LOG_WARN, sentence);
	return !is_other;
}

static bool has_prefix(const char *name)
{
	return is_ours(name) || !strncmp(name, "NVSHMEM_", 8) || !strncmp(name, "SHMEM_", 6);
}

unsigned int runtime_settings_unknown(const struct runtime_env *env, runtime_unknown_fn fn, void *arg)
{
	struct runtime_env process = runtime_env_process();
	unsigned int n = 0;

	for (const char *const *entry = (env ? env : &process)->list; *entry; entry++) {
		char name[SUGGEST_MAX_BYTES + 2];
		size_t bytes = strcspn(*entry, "=");

		snprintf(name, sizeof(name), "%.*s", (int)(bytes < sizeof(name) ? bytes : sizeof(name) - 1), *entry);
		if (has_prefix(name) && !is_known(name))
			n += report_unknown(name, fn, arg);
	}
	return n;
}

/* ---- showing ------------------------------------------------------------------------------------------------------- */

/* A default as the table has it may be written in another way than values are shown. */
static bool is_default(const struct runtime_row *row, const char *value)
{
	struct runtime_settings settings;
	char def[RUNTIME_VALUE_BYTES];

	memset(&settings, 0, sizeof(settings));
	runtime_value_parse(row, &settings, row->def);
	runtime_value_format(row, &settings, def, sizeof(def));
	return !strcmp(def, value);
}

void runtime_settings_info(const struct runtime_settings *settings, unsigned int index, struct runtime_setting_info *ret)
{
	const struct runtime_row *row = &runtime_rows[index];

	*ret = (struct runtime_setting_info){.name = row->name, .source = settings->sources[index], .def = row->def, .text = row->text};
	runtime_value_format(row, settings, ret->value, sizeof(ret->value));
	ret->is_default = is_default(row, ret->value);
}

int runtime_settings_each(const struct runtime_settings *settings, int (*fn)(void *arg, const struct runtime_setting_info *info),
			  void *arg)
{
	struct runtime_setting_info info;

	for (unsigned int i = 0; i < runtime_n_rows; i++) {
		int r;

		runtime_settings_info(settings, i, &info);
		r = fn(arg, &info);
		if (r)
			return r;
	}
	return 0;
}
