/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NIC page of a soft NIC, and behind what clients read there what the NIC itself keeps. Whether it may outlive the process
 * the NIC was told when it was made, not by its first context: all contexts have this page.
 *
 * Control thread, before the data thread runs.
 */
#include "daemon/nic/soft/soft.h"

_Static_assert(sizeof(struct soft_page) <= SHMD_DB_PAGE_BYTES, "one page");

int soft_page_make(struct soft_nic *nic)
{
	int r = nic_page_create(nic->keeps, &nic->nic_page);

	if (r < 0)
		return r;
	nic->page = (struct soft_page *)(void *)nic->nic_page.told;
	nic->page->port_is_down = soft_port_is_down(nic->port);
	return 0;
}

int soft_page_adopt(struct soft_nic *nic, int fd)
{
	int r = nic_page_adopt(fd, &nic->nic_page);

	if (r < 0)
		return r;
	nic->page = (struct soft_page *)(void *)nic->nic_page.told;
	__atomic_store_n(&nic->port->down, nic->page->port_is_down != 0, __ATOMIC_RELAXED);
	return 0;
}

void soft_page_deinit(struct soft_nic *nic)
{
	nic->page = NULL;
	nic_page_deinit(&nic->nic_page);
}
