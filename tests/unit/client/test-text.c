/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences for numbers, and the error text. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <shmd/abi/cqe.h>

#include "libclient/objects.h"
#include "proto/status.h"
#include "tests/lib/test.h"

TEST(every_health_number_has_a_sentence_of_its_own)
{
	for (int a = SHMD_HEALTH_OK; a <= SHMD_HEALTH_NIC_LOST; a++)
		for (int b = SHMD_HEALTH_OK; b <= SHMD_HEALTH_NIC_LOST + 1; b++)
			ASSERT_EQ(!strcmp(shmd_health_text(a), shmd_health_text(b)), a == b);
	ASSERT_STREQ(shmd_health_text(-1), "unknown health number");
}

TEST(every_device_status_has_a_sentence_of_its_own)
{
	for (int a = SHMD_DEV_NO_PATH; a <= SHMD_DEV_OK; a++)
		for (int b = SHMD_DEV_NO_PATH - 1; b <= SHMD_DEV_OK; b++)
			ASSERT_EQ(!strcmp(shmd_dev_status_text(a), shmd_dev_status_text(b)), a == b);
	ASSERT_STREQ(shmd_dev_status_text(1), "unknown device status");
}

TEST(every_syndrome_has_a_sentence)
{
	static const uint32_t known[] = {
		0, SHMD_SYNDROME_LOCAL_LENGTH_ERR, SHMD_SYNDROME_LOCAL_QP_OP_ERR, SHMD_SYNDROME_LOCAL_PROT_ERR,
		SHMD_SYNDROME_WR_FLUSH_ERR, SHMD_SYNDROME_MW_BIND_ERR, SHMD_SYNDROME_BAD_RESP_ERR,
		SHMD_SYNDROME_LOCAL_ACCESS_ERR, SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR,
		SHMD_SYNDROME_REMOTE_ACCESS_ERR, SHMD_SYNDROME_REMOTE_OP_ERR,
		SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR, SHMD_SYNDROME_RNR_RETRY_EXC_ERR,
		SHMD_SYNDROME_REMOTE_ABORTED_ERR, SHMD_SYNDROME_OUTCOME_UNKNOWN};
	unsigned int n_known = 0;

	for (uint32_t s = 0; s < 256; s++)
		n_known += strcmp(shmd_syndrome_text(s), "unknown syndrome") != 0;
	ASSERT_EQ(n_known, sizeof(known) / sizeof(known[0]));
	for (unsigned int i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		ASSERT_NE(strcmp(shmd_syndrome_text(known[i]), "unknown syndrome"), 0);
}

TEST(status_gives_its_sentence_then_the_daemons_words)
{
	ASSERT_ERR(text_fail_status(SHMD_STATUS_MEM_KIND, "mlx5_9"), EOPNOTSUPP);
	ASSERT_STREQ(shmd_error_text(), "the NIC does not accept this kind of memory: mlx5_9");
	/* One that says it all already. */
	ASSERT_ERR(text_fail_status(SHMD_STATUS_NO_NIC, "no NIC is called \"mlx5_9\""), ENODEV);
	ASSERT_STREQ(shmd_error_text(), "no NIC is called \"mlx5_9\"");
	ASSERT_ERR(text_fail_status(SHMD_STATUS_NO_NIC, ""), ENODEV);
	ASSERT_STREQ(shmd_error_text(), "no such NIC, or none that can be used");
	ASSERT_ERR(text_fail_status(SHMD_STATUS_BUSY, ""), EBUSY);
	ASSERT_STREQ(shmd_error_text(), "the object is still in use");
	ASSERT_ERR(text_fail_status(SHMD_STATUS_BUSY, "the object is still in use"), EBUSY);
	ASSERT_STREQ(shmd_error_text(), "the object is still in use");
	ASSERT_ERR(text_fail_status(SHMD_STATUS_QUOTA_SESSIONS, "limit reached: max-sessions is 1"), EDQUOT);
	ASSERT_STREQ(shmd_error_text(), "limit reached: max-sessions is 1");
	ASSERT_ERR(text_fail_status(4711, "new"), EIO);
	ASSERT_ERR(text_fail_status(SHMD_STATUS_OK, ""), EPROTO);
}

static void *other_thread(void *arg)
{
	ASSERT_STREQ(shmd_error_text(), "no error");
	text_fail(-EIO, "of the other");
	return NULL;
}

TEST(error_text_is_cut_kept_and_of_one_thread)
{
	char long_text[2 * CLIENT_TEXT_BYTES];
	pthread_t thread;

	memset(long_text, 'x', sizeof(long_text));
	long_text[sizeof(long_text) - 1] = 0;
	ASSERT_EQ(text_fail(-EPERM, "%s", long_text), -EPERM);
	ASSERT_EQ(strlen(shmd_error_text()), CLIENT_TEXT_BYTES - 1);
	text_fail(-EPERM, "short");
	ASSERT_EQ(text_fail(-EIO, "more: %s", shmd_error_text()), -EIO);
	ASSERT_OK(pthread_create(&thread, NULL, other_thread, NULL));
	ASSERT_OK(pthread_join(thread, NULL));
	ASSERT_STREQ(shmd_error_text(), "more: short");
}

TEST(copies_are_cut_and_terminated)
{
	char four[4] = "abc";

	text_copy(four, sizeof(four), "hello");
	ASSERT_STREQ(four, "hel");
	text_copy(four, sizeof(four), "");
	ASSERT_STREQ(four, "");
}

TEST(trace_is_wanted_only_for_proto)
{
	unsetenv("SHMEMD_DEBUG");
	ASSERT(!trace_is_wanted());
	setenv("SHMEMD_DEBUG", "session,proto,nic", 1);
	ASSERT(trace_is_wanted());
	setenv("SHMEMD_DEBUG", "protocol", 1);
	ASSERT(!trace_is_wanted());
	setenv("SHMEMD_DEBUG", "", 1);
	ASSERT(!trace_is_wanted());
}

TEST(version_is_the_projects)
{
	char text[32];

	snprintf(text, sizeof(text), "%d.%d.%d", SHMD_VERSION_MAJOR, SHMD_VERSION_MINOR, SHMD_VERSION_PATCH);
	ASSERT_STREQ(shmd_version(), text);
}
