/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that calls nothing of ours, compiled with the device headers included and without: the same machine code. */
extern "C" __global__ void plain(float *a, const float *b, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		a[i] += b[i] * 2.0f;
}
