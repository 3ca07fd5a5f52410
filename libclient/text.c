/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sentences: the last error of a thread, and words for the numbers of the queue ABI.
 *
 * The error text is one buffer for each thread, overwritten by the next failure and by nothing else.
 */
#include "libclient/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <shmd/abi/cqe.h>

#include "config.h"
#include "proto/status.h"

static _Thread_local char error_text[CLIENT_TEXT_BYTES] = "no error";

void text_copy(char *dst, size_t size, const char *src)
{
	size_t n = strnlen(src, size - 1);

	memcpy(dst, src, n);
	dst[n] = 0;
}

static int fail_va(int err, const char *fmt, va_list args)
{
	char text[CLIENT_TEXT_BYTES]; /* fmt may print the present text */

	vsnprintf(text, sizeof(text), fmt, args);
	memcpy(error_text, text, sizeof(error_text));
	return err;
}

int text_fail(int err, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	err = fail_va(err, fmt, args);
	va_end(args);
	return err;
}

int shmd_error_set(int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	error = fail_va(error, format, args);
	va_end(args);
	return error;
}

/* For these the daemon's text always names the object or argument, so the general sentence would repeat it. */
static bool is_said_by_text(uint32_t status)
{
	return status == SHMD_STATUS_INVALID || status == SHMD_STATUS_NO_NIC || status == SHMD_STATUS_NOT_FOUND;
}

int text_fail_status(uint32_t status, const char *text)
{
	const char *sentence = status_text(status);

	/* A success number in an error reply is the daemon's mistake, not ours to hide. */
	if (status == SHMD_STATUS_OK)
		return text_fail(-EPROTO, "shmemd sent an error without a status number");
	if (text && *text && (is_said_by_text(status) || !strncmp(text, sentence, strlen(sentence))))
		return text_fail(status_to_errno(status), "%s", text);
	if (text && *text)
		return text_fail(status_to_errno(status), "%s: %s", sentence, text);
	return text_fail(status_to_errno(status), "%s", sentence);
}

const char *shmd_error_text(void)
{
	return error_text;
}

const char *shmd_version(void)
{
	return SHMD_VERSION_STRING;
}

const char *shmd_health_text(int health)
{
	switch (health) {
	case SHMD_HEALTH_OK:
		return "all is well";
	case SHMD_HEALTH_DAEMON_GONE:
		return "the connection to shmemd broke";
	case SHMD_HEALTH_SESSION_ENDED:
		return "shmemd ended the session";
	case SHMD_HEALTH_PORT_DOWN:
		return "the NIC's port is down";
	case SHMD_HEALTH_NIC_LOST:
		return "the NIC is gone";
	default:
		return "unknown health number";
	}
}

const char *shmd_dev_status_text(int status)
{
	switch (status) {
	case SHMD_DEV_OK:
		return "success";
	case SHMD_DEV_AGAIN:
		return "not yet";
	case SHMD_DEV_TIMEOUT:
		return "the time limit passed";
	case SHMD_DEV_CQE_ERROR:
		return "a work request failed; the QP's error_syndrome says why";
	case SHMD_DEV_HEALTH:
		return "the NIC or the session is no longer healthy; see the health word";
	case SHMD_DEV_INVALID:
		return "an argument the queue cannot carry";
	case SHMD_DEV_UNSUPPORTED:
		return "the NIC lacks this atomic; shmd_nic_info() tells which it has";
	case SHMD_DEV_PE_GONE:
		return "a PE has ended";
	case SHMD_DEV_NO_PATH:
		return "no path leads to the PE";
	default:
		return "unknown device status";
	}
}

const char *shmd_syndrome_text(uint32_t syndrome)
{
	switch (syndrome) {
	case 0:
		return "no error";
	case SHMD_SYNDROME_LOCAL_LENGTH_ERR:
		return "local length error: a message did not fit its receive buffer, or is too long";
	case SHMD_SYNDROME_LOCAL_QP_OP_ERR:
		return "local QP operation error: a malformed or unsupported work request";
	case SHMD_SYNDROME_LOCAL_PROT_ERR:
		return "local protection error: wrong lkey, or address outside its memory region";
	case SHMD_SYNDROME_WR_FLUSH_ERR:
		return "flushed: the QP was in error state";
	case SHMD_SYNDROME_MW_BIND_ERR:
		return "memory window bind error";
	case SHMD_SYNDROME_BAD_RESP_ERR:
		return "bad response: the peer answered something unexpected";
	case SHMD_SYNDROME_LOCAL_ACCESS_ERR:
		return "local access error: the peer wrote where this side does not allow it";
	case SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR:
		return "remote invalid request: the peer's QP does not accept or does not allow this request";
	case SHMD_SYNDROME_REMOTE_ACCESS_ERR:
		return "remote access error: wrong rkey or range, or the peer's region does not allow it";
	case SHMD_SYNDROME_REMOTE_OP_ERR:
		return "remote operation error: the peer could not carry it out";
	case SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR:
		return "retries exceeded: the peer does not answer";
	case SHMD_SYNDROME_RNR_RETRY_EXC_ERR:
		return "receiver not ready: the peer posted no receive in time";
	case SHMD_SYNDROME_REMOTE_ABORTED_ERR:
		return "aborted by the peer";
	case SHMD_SYNDROME_OUTCOME_UNKNOWN:
		return "the outcome of an atomic is unknown: the daemon ended before it answered";
	default:
		return "unknown syndrome";
	}
}
