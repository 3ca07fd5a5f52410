/* SPDX-License-Identifier: Apache-2.0 */
/* A counter with references. Control thread. */
#include "daemon/porter/foreign-account.h"

#include <stdlib.h>

#include "proto/base/assert.h"

struct foreign_account {
	unsigned int refs, n_unclosed;
};

struct foreign_account *foreign_account_new(void)
{
	struct foreign_account *account = calloc(1, sizeof(*account));

	if (account)
		account->refs = 1;
	return account;
}

struct foreign_account *foreign_account_ref(struct foreign_account *account)
{
	if (account)
		account->refs++;
	return account;
}

struct foreign_account *foreign_account_unref(struct foreign_account *account)
{
	if (account && --account->refs == 0)
		free(account);
	return NULL;
}

unsigned int foreign_account_unclosed(const struct foreign_account *account)
{
	return account->n_unclosed;
}

void foreign_account_add(struct foreign_account *account, unsigned int n)
{
	if (account)
		account->n_unclosed += n;
}

void foreign_account_closed(struct foreign_account *account, unsigned int n)
{
	if (!account)
		return;
	assert_bug(account->n_unclosed >= n);
	account->n_unclosed -= n;
}
