/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shmemctl info: how the library was built, the settings of the runtime as this environment gives them, each with its source, and the
 * PEs and paths in running worlds of this user.
 *
 * PEs and paths come from the daemon; the rest needs none, so a daemon that does not answer is a sentence and no failure. A value that the
 * runtime refuses makes the exit status 1.
 */
#include <errno.h>
#include <string.h>

#include <shmd-info.h>

#include "libclient/compat/nvshmem/versions.h"
#include "libclient/ctl/ctl.h"
#include "libclient/ctl/preload.h"

/* To the daemon; NULL with the library's sentence. */
static struct shmd_client *connect_to(const struct ctl *ctl)
{
	struct shmd_client_attr attr = {.role = SHMD_ROLE_CONTROL, .socket_path = ctl->args->values[OPTION_SOCKET]};
	struct shmd_client *client = NULL;

	return shmd_client_open(&attr, &client) < 0 ? NULL : client;
}

/* ---- JSON */

static void json_builds(struct json *json)
{
	struct shmd_build_info build;

	json_begin_array(json, "build");
	for (unsigned int i = 0; !shmd_info_build(i, &build); i++) {
		json_begin_object(json, NULL);
		json_string(json, "name", build.name);
		json_string(json, "value", build.value);
		json_end_object(json);
	}
	json_end_array(json);
}

static void json_nvshmem(struct json *json)
{
	char path[PATH_MAX];

	json_begin_object(json, "nvshmem");
	json_string(json, "library", preload_find(path) ? path : "");
	json_uint(json, "major", NVS_MAJOR);
	json_uint(json, "newest_minor", NVS_NEWEST_MINOR);
	json_end_object(json);
}

static void json_setting(struct json *json, const struct shmd_setting_info *setting)
{
	json_begin_object(json, NULL);
	json_string(json, "name", setting->name);
	json_string(json, "value", setting->value);
	json_string(json, "source", setting->source);
	json_string(json, "default", setting->def);
	json_bool(json, "is_default", setting->is_default);
	json_string(json, "allowed", setting->allowed);
	json_string(json, "error", setting->error);
	json_string(json, "about", setting->text);
	json_end_object(json);
}

/* An answer that breaks off has what came before. */
static void json_worlds(struct ctl *ctl, struct json *json)
{
	struct shmd_client *client = connect_to(ctl);
	int r = client ? 0 : -ENOENT;

	json_begin_array(json, "pes");
	if (client)
		r = ctl_json_own_pes(client, json);
	json_end_array(json);
	json_begin_array(json, "paths");
	if (!r)
		r = ctl_json_own_paths(client, json);
	json_end_array(json);
	json_string(json, "paths_error", r < 0 ? shmd_error_text() : "");
	shmd_client_close(client);
}

/* Programs get all settings. */
static int print_json(struct ctl *ctl)
{
	char warning[SHMD_INFO_TEXT_BYTES];
	struct shmd_setting_info setting;
	unsigned int n_errors = 0;
	struct json json;

	ctl_json_begin(ctl, &json);
	json_builds(&json);
	json_nvshmem(&json);
	json_begin_array(&json, "settings");
	for (unsigned int i = 0; !shmd_info_setting(i, &setting); i++) {
		json_setting(&json, &setting);
		n_errors += *setting.error != 0;
	}
	json_end_array(&json);
	json_begin_array(&json, "warnings");
	for (unsigned int i = 0; !shmd_info_warning(i, warning); i++)
		json_string(&json, NULL, warning);
	json_end_array(&json);
	json_worlds(ctl, &json);
	ctl_json_end(&json);
	return n_errors ? CTL_EXIT_FAILED : 0;
}

/* ---- text */

static void print_builds(FILE *out)
{
	struct shmd_build_info build;
	char path[PATH_MAX];

	for (unsigned int i = 0; !shmd_info_build(i, &build); i++)
		fprintf(out, "%-15s %s\n", build.name, build.value);
	if (preload_find(path))
		fprintf(out, "%-15s programs up to %d.%d, by %s\n", "nvshmem", NVS_MAJOR, NVS_NEWEST_MINOR, path);
	else
		fprintf(out, "%-15s no: there is no %s\n", "nvshmem", path);
	fputc('\n', out);
}

static void add_row(struct table *table, const struct shmd_setting_info *setting, bool is_wide)
{
	enum color color = *setting->error ? COLOR_RED : setting->is_default ? COLOR_NONE : COLOR_YELLOW;

	table_add(table, "%s", setting->name);
	table_add_color(table, color, "%s", *setting->value ? setting->value : "-");
	table_add(table, "%s", setting->source);
	if (is_wide)
		table_add(table, "%s", setting->text);
}

static void print_settings(struct ctl *ctl)
{
	static const char *const heads[] = {"SETTING", "VALUE", "SOURCE", "~ABOUT", NULL}, *const few[] = {"SETTING", "VALUE", "SOURCE", NULL};
	bool has_all = args_has(ctl->args, OPTION_ALL);
	struct shmd_setting_info setting;
	struct table table;

	table_init(&table, has_all ? heads : few, ctl->has_color, ctl->max_width);
	for (unsigned int i = 0; !shmd_info_setting(i, &setting); i++)
		if (has_all || !setting.is_default)
			add_row(&table, &setting, has_all);
	table_print(&table, "every setting has its default; --all lists them", ctl->out);
	table_deinit(&table);
}

static void print_worlds(struct ctl *ctl)
{
	struct shmd_client *client = connect_to(ctl);
	int r = client ? 0 : -ENOENT;

	fputc('\n', ctl->out);
	if (!r)
		r = ctl_table_own_pes(ctl, client);
	if (!r) {
		fputc('\n', ctl->out);
		r = ctl_table_own_paths(ctl, client);
	}
	if (r < 0)
		fprintf(ctl->out, "no paths: %s\n", shmd_error_text());
	shmd_client_close(client);
}

/* Sentences on stderr, errors last. */
static int print_troubles(struct ctl *ctl)
{
	char warning[SHMD_INFO_TEXT_BYTES];
	struct shmd_setting_info setting;
	int r = 0;

	fflush(ctl->out);
	for (unsigned int i = 0; !shmd_info_warning(i, warning); i++)
		ctl_fail("%s", warning);
	for (unsigned int i = 0; !shmd_info_setting(i, &setting); i++)
		if (*setting.error)
			r = ctl_fail("%s", setting.error);
	return r;
}

int ctl_info(struct ctl *ctl)
{
	if (ctl->is_json)
		return print_json(ctl);
	print_builds(ctl->out);
	print_settings(ctl);
	print_worlds(ctl);
	return print_troubles(ctl);
}
