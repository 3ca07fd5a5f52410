/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NIC page of an executor, and behind what clients read there what its NIC keeps. The NIC knows from
 * its start whether the page may outlive the process, because all contexts of the executor have it.
 *
 * Any thread, before the data thread runs.
 */
#include "daemon/nic/soft/soft.h"

_Static_assert(sizeof(struct soft_page) <= SHMD_DB_PAGE_BYTES, "one page");

int soft_page_make(struct soft_exec *exec)
{
	int r = nic_page_create(exec->nic->saves, &exec->nic_page);

	if (r < 0)
		return r;
	exec->page = (struct soft_page *)(void *)exec->nic_page.told;
	exec->page->port_is_down = soft_port_is_down(exec->nic->port);
	return 0;
}

int soft_page_adopt(struct soft_exec *exec, int fd)
{
	int r = nic_page_adopt(fd, &exec->nic_page);

	if (r < 0)
		return r;
	exec->page = (struct soft_page *)(void *)exec->nic_page.told;
	if (exec->page->port_is_down && soft_fabric_is_view(exec->nic->fabric))
		__atomic_store_n(&exec->nic->was_down, true, __ATOMIC_RELAXED);
	else if (exec->page->port_is_down)
		__atomic_store_n(&exec->nic->port->shared->down, true, __ATOMIC_RELAXED);
	exec->page->port_is_down = soft_port_is_down(exec->nic->port);
	return 0;
}

bool soft_page_is_shared(int fd)
{
	struct nic_page page;
	bool is_shared;

	if (nic_page_adopt(fd, &page) < 0)
		return false;
	is_shared = ((const struct soft_page *)(void *)page.told)->is_shared;
	nic_page_deinit(&page);
	return is_shared;
}

void soft_page_deinit(struct soft_exec *exec)
{
	exec->page = NULL;
	nic_page_deinit(&exec->nic_page);
}
