/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many descriptors of one uid the daemon has dropped and its porter has not closed yet. Descriptors that are being closed hold
 * a reference, so the account outlives its owner. Control thread.
 */
#ifndef SHMEMD_PORTER_FOREIGN_ACCOUNT_H
#define SHMEMD_PORTER_FOREIGN_ACCOUNT_H

struct foreign_account;

struct foreign_account *foreign_account_new(void); /* NULL: no memory */
struct foreign_account *foreign_account_ref(struct foreign_account *account); /* NULL allowed */
struct foreign_account *foreign_account_unref(struct foreign_account *account); /* NULL allowed; returns NULL */
unsigned int foreign_account_unclosed(const struct foreign_account *account);
void foreign_account_add(struct foreign_account *account, unsigned int n); /* n more wait to be closed */
void foreign_account_closed(struct foreign_account *account, unsigned int n);

#endif
