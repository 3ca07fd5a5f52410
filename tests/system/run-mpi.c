/* SPDX-License-Identifier: Apache-2.0 */
/* An MPI program for test-run-mpich: a sum over all ranks; with an argument rank 1 aborts with status 9. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	int rank, size, sum;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	printf("%d of %d, sum %d\n", rank, size, sum);
	if (argc > 1 && rank == 1)
		MPI_Abort(MPI_COMM_WORLD, 9);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return 0;
}
