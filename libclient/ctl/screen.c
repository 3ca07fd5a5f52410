/* SPDX-License-Identifier: Apache-2.0 */
/* Answers one after the other; see screen.h. */
#include "libclient/ctl/screen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define HOME "\033[H"
#define CLEAR_LINE "\033[K"
#define CLEAR_BELOW "\033[J"

void screen_init(struct screen *screen, double seconds, bool is_json)
{
	const char *term = getenv("TERM");

	*screen = (struct screen){
		.seconds = seconds,
		.is_json = is_json,
		.is_terminal = !is_json && isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb"),
	};
}

FILE *screen_begin(struct screen *screen)
{
	screen->round = open_memstream(&screen->text, &screen->bytes);
	return screen->round;
}

static unsigned int terminal_rows(void)
{
	struct winsize size;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_row < 2 ? 0 : size.ws_row;
}

void screen_draw(const char *text, size_t bytes, unsigned int n_rows, FILE *out)
{
	const char *end = text + bytes, *line;
	unsigned int row = 0;

	while (text < end) {
		line = text;
		text = memchr(line, '\n', (size_t)(end - line));
		text = text ? text + 1 : end;
		/* The last row says how many lines are left out. */
		if (n_rows && ++row == n_rows && text < end) {
			fputs("..." CLEAR_LINE, out);
			return;
		}
		fwrite(line, 1, (size_t)(text - line) - (text[-1] == '\n'), out);
		fputs(CLEAR_LINE, out);
		if (n_rows ? row < n_rows : true)
			fputc('\n', out);
	}
	fputs(CLEAR_BELOW, out);
}

static void close_round(struct screen *screen)
{
	fclose(screen->round);
	screen->round = NULL;
}

void screen_drop(struct screen *screen)
{
	close_round(screen);
	free(screen->text);
	screen->text = NULL;
}

int screen_show(struct screen *screen)
{
	close_round(screen);
	if (screen->is_terminal) {
		fputs(screen->n_shown ? HOME : HOME "\033[2J", stdout);
		screen_draw(screen->text, screen->bytes, terminal_rows(), stdout);
	} else {
		if (screen->n_shown && !screen->is_json)
			fputc('\n', stdout);
		fwrite(screen->text, 1, screen->bytes, stdout);
	}
	free(screen->text);
	screen->text = NULL;
	screen->n_shown++;
	return fflush(stdout) || ferror(stdout) ? -EIO : 0;
}

void screen_sleep(double seconds)
{
	struct timespec pause = {
		.tv_sec = (time_t)seconds,
		.tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9),
	};

	while (nanosleep(&pause, &pause) && errno == EINTR)
		;
}

uint64_t screen_now_nsec(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool screen_pause(struct screen *screen)
{
	screen_sleep(screen->seconds);
	return true;
}
