/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reason why a socket cannot be used, and advice, in words that fit the socket and this machine.
 *
 * Reads the file system and the user database after a failure, and nothing else. Any thread.
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libclient/text.h"
#include "proto/framing.h"

#define COMMAND_BYTES 512
#define NAME_BYTES 64
#define SYSTEMD_RUNS "/run/systemd/system" /* sd_booted(3) */

/* Quotes the path as one word of a shell. */
static void quote(const char *path, char *buf, size_t size)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-:@%=,";
	size_t used = 0;

	if (strspn(path, plain) == strlen(path)) {
		snprintf(buf, size, "%s", path);
		return;
	}
	buf[used++] = '\'';
	for (; *path && used + sizeof("'\\'''") < size; path++)
		used += (size_t)snprintf(buf + used, size - used, *path == '\'' ? "'\\''" : "%c", *path);
	snprintf(buf + used, size - used, "'");
}

/* The service owns the default socket alone. */
static const char *start_command(const char *path, char buf[COMMAND_BYTES])
{
	char word[COMMAND_BYTES - 32];

	if (!strcmp(path, SHMD_DEFAULT_SOCKET))
		return access(SYSTEMD_RUNS, F_OK) ? "\"shmemd\", as root" : "\"systemctl start shmemd\"";
	quote(path, word, sizeof(word));
	snprintf(buf, COMMAND_BYTES, "\"shmemd --socket %s\"", word);
	return buf;
}

int fail_not_socket(int err, const char *path)
{
	return text_fail(err, "%s is not a socket; name that of shmemd with --socket or " SHMD_SOCKET_ENV, path);
}

int fail_not_running(int err, const char *path)
{
	char buf[COMMAND_BYTES];
	struct stat st;

	if (!stat(path, &st) && !S_ISSOCK(st.st_mode))
		return fail_not_socket(err, path);

	if (err == -ENOENT)
		return text_fail(err, "shmemd is not running: there is no socket %s; start it with %s", path, start_command(path, buf));
	return text_fail(err, "shmemd is not running: nothing listens on %s; start it with %s", path, start_command(path, buf));
}

static void user_name(uid_t uid, char name[NAME_BYTES])
{
	struct passwd entry, *found = NULL;
	char buf[1024];

	if (!getpwuid_r(uid, &entry, buf, sizeof(buf), &found) && found)
		snprintf(name, NAME_BYTES, "%.63s", found->pw_name);
	else
		snprintf(name, NAME_BYTES, "uid %u", uid);
}

static void group_name(gid_t gid, char name[NAME_BYTES])
{
	struct group entry, *found = NULL;
	char buf[4096];

	if (!getgrgid_r(gid, &entry, buf, sizeof(buf), &found) && found)
		snprintf(name, NAME_BYTES, "%.63s", found->gr_name);
	else
		snprintf(name, NAME_BYTES, "gid %u", gid);
}

int fail_not_allowed(int err, const char *path)
{
	char name[NAME_BYTES];
	struct stat st;

	if (stat(path, &st) < 0)
		return text_fail(err, "no permission to reach the socket %s: one of the folders above it is closed to you", path);
	if (st.st_mode & S_IWGRP) {
		group_name(st.st_gid, name);
		return text_fail(err, "no permission to use the socket %s: you are not in group %s; an administrator can add you with "
				 "\"usermod -a -G %s USER\", and you have to log in again", path, name, name);
	}
	user_name(st.st_uid, name);
	return text_fail(err, "no permission to use the socket %s: it is private to user %s", path, name);
}
