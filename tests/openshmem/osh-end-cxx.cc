/* SPDX-License-Identifier: Apache-2.0 */
/* osh-end-cxx WAY: the end of a C++ program by shmem_global_exit(), section 9.1.6: "flushes I/O and releases resources in accordance with C/C++ ...
 * requirements for normal program termination". run-programs.py has the status and words of each way. */
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <unistd.h>

#include <shmem.h>

namespace
{
struct with_destructor {
	~with_destructor()
	{
		if (is_set)
			std::cout << "destructor\n";
	}
	bool is_set = false;
} object;

void at_exit()
{
	std::cout << "handler\n";
}

/* Another PE calls; all have words in a buffer of libstdc++'s own. */
int streams()
{
	std::cout << "words of " << shmem_my_pe();
	shmem_barrier_all();
	if (shmem_my_pe() == 1) {
		object.is_set = true;
		std::atexit(at_exit);
		std::cout << '\n';
		shmem_global_exit(3);
	}
	shmem_barrier_all();
	return 99;
}

void wait_for_ever()
{
	for (;;)
		pause();
}

/* A handler that does not end delays the end, and does not prevent it. */
int stuck_handler()
{
	std::cout << "words of " << shmem_my_pe();
	std::atexit(wait_for_ever);
	shmem_barrier_all();
	if (shmem_my_pe() == 1)
		shmem_global_exit(4);
	shmem_barrier_all();
	return 99;
}

void exit_again()
{
	shmem_global_exit(5);
}

int exit_in_handler()
{
	std::atexit(exit_again);
	shmem_barrier_all();
	if (shmem_my_pe() == 1)
		shmem_global_exit(5);
	shmem_barrier_all();
	return 99;
}
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 98;
	std::ios::sync_with_stdio(false);
	shmem_init();
	if (!std::strcmp(argv[1], "streams"))
		return streams();
	return std::strcmp(argv[1], "stuck-handler") ? exit_in_handler() : stuck_handler();
}
