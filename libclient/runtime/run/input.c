/* SPDX-License-Identifier: Apache-2.0 */
/* See input.h. */
#include "libclient/runtime/run/input.h"

#include <errno.h>
#include <unistd.h>

#include "proto/base/cleanup.h"

bool input_wants_read(const struct input *input)
{
	return input->to >= 0 && input->from >= 0 && !input->is_in_background && input->begin == input->end;
}

bool input_wants_write(const struct input *input)
{
	return input->to >= 0 && input->begin < input->end;
}

/* The end of the input reaches PE 0 when all before it has. */
static void close_at_end(struct input *input)
{
	if (input->from < 0 && input->begin == input->end)
		input->to = safe_close(input->to);
}

void input_read(struct input *input)
{
	ssize_t n = read(input->from, input->buf, sizeof(input->buf));

	if (n > 0) {
		input->begin = 0;
		input->end = (size_t)n;
	} else if (n < 0 && errno == EIO && tcgetpgrp(input->from) >= 0 && tcgetpgrp(input->from) != getpgrp()) {
		input->is_in_background = true;
	} else if (!n || (errno != EAGAIN && errno != EINTR)) {
		input->from = -1;
	}
	close_at_end(input);
}

void input_write(struct input *input)
{
	ssize_t n = write(input->to, input->buf + input->begin, input->end - input->begin);

	if (n > 0)
		input->begin += (size_t)n;
	else if (n < 0 && errno != EAGAIN && errno != EINTR)
		input->to = safe_close(input->to);
	close_at_end(input);
}
