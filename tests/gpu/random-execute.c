/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One PE's part of a random program with kernels: what moves data or waits becomes a work of the next kernel (random-work.h); heap, teams and
 * contexts are calls of the host, before which a kernel carries out what there is.
 *
 * Calls of the host complete what the host began, so where the contract says that a call completes operations of a context, a kernel does that first.
 */
#include "tests/gpu/random-execute.h"

#include <stdlib.h>
#include <string.h>

#include <shmd/dev/coll.h>

#include "tests/random/coll.h"

#define MAX_WORKS 512u
#define SPARE_WORKS 16u /* of one step */
#define PRIVATE_BYTES (512ull << 20)
#define NUMBERS_BYTES (64ull << 20)
#define WANTED_BYTES (256ull << 20)

int kernels_make(struct kernels *kernels, int pe)
{
	*kernels = (struct kernels){.works = NULL};
	if (work_choose_gpu(pe) < 0)
		return -1;
	kernels->works = work_memory(MAX_WORKS * sizeof(*kernels->works));
	kernels->failure = work_memory(sizeof(*kernels->failure));
	kernels->private_memory = work_gpu_memory(PRIVATE_BYTES);
	kernels->numbers = work_memory(NUMBERS_BYTES);
	kernels->wanted = work_memory(WANTED_BYTES);
	return kernels->works && kernels->failure && kernels->private_memory && kernels->numbers && kernels->wanted ? 0 : -1;
}

/* ---- works ------------------------------------------------------------------------------------------------------------------ */

static void flush(struct kernels *kernels)
{
	struct work_failure *failure = kernels->failure;
	struct run *run = kernels->run;

	if (!kernels->n_works)
		return;
	*failure = (struct work_failure){.has_failed = 0};
	if (work_run(kernels->works, kernels->n_works, failure) < 0)
		run_fail(run, "CUDA failed");
	kernels->n_works = 0;
	if (!failure->has_failed)
		return;
	run->at = failure->step;
	run_fail(run, "work %d: status %d, at %llu 0x%llx, not 0x%llx", failure->kind, failure->status, (unsigned long long)failure->index,
		 (unsigned long long)failure->found, (unsigned long long)failure->wanted);
}

static const struct step *step_of(const struct kernels *kernels)
{
	return run_step(kernels->run);
}

static uint64_t gpu_ctx(struct kernels *kernels, int world, int ctx)
{
	uint64_t addr = 0;

	run_must(kernels->run, shmd_ctx_gpu_dev(kernels->run->worlds[world].ctxs[ctx], &addr));
	return addr;
}

static uint64_t gpu_team(struct kernels *kernels, int world, int team)
{
	uint64_t addr = 0;

	run_must(kernels->run, shmd_team_gpu_dev(kernels->run->worlds[world].teams[team], &addr));
	return addr;
}

/* A copy for kernels is made by a first call, for which CUDA may wait: none of them runs now. */
static struct work *add(struct kernels *kernels, enum work_kind kind)
{
	static const uint8_t scopes[] = {SHMD_DEV_THREAD, SHMD_DEV_WARP, SHMD_DEV_BLOCK};
	struct work *work = &kernels->works[kernels->n_works++];
	const struct step *step = step_of(kernels);

	*work = (struct work){
		.kind = kind,
		.step = kernels->run->at,
		.scope = scopes[mix32(kernels->run->program->seed * 31 + kernels->run->at) % 3],
		.n = 1,
		.bytes = step->bytes,
		.dest_stride = step->bytes,
		.source_stride = step->bytes,
	};
	return work;
}

/* A call on the step's context. */
static struct work *add_call(struct kernels *kernels, enum work_kind kind)
{
	const struct step *step = step_of(kernels);
	struct work *work = add(kernels, kind);

	work->ctx = gpu_ctx(kernels, step->world, step->ctx);
	return work;
}

static uint8_t *take_private(struct kernels *kernels, uint64_t bytes)
{
	uint8_t *at = kernels->private_memory + kernels->private_used;

	kernels->private_used += (bytes + 15) & ~15ull;
	if (kernels->private_used > PRIVATE_BYTES)
		run_fail(kernels->run, "no memory");
	return at;
}

static void add_quiet(struct kernels *kernels, int world, int ctx)
{
	struct work *work = add(kernels, WORK_QUIET);

	work->ctx = gpu_ctx(kernels, world, ctx);
}

static void add_compare(struct kernels *kernels, uint32_t at, uint8_t *found)
{
	const struct step *step = &kernels->run->program->steps[at];
	struct work *work = add(kernels, WORK_COMPARE);

	work->step = at;
	work->source = found;
	work->wanted = kernels->wanted + step->want_at;
	work->n = step->n ? step->n : 1;
	work->bytes = step->bytes;
	work->source_stride = work->n > 1 ? step->near_stride : step->bytes;
}

/* Gets that are complete now: ctx, or ALL_CTXS. */
static void settle(struct kernels *kernels, int world, int ctx)
{
	struct run *run = kernels->run;

	for (struct pending **at = &run->pending; *at;) {
		struct pending *pending = *at;
		const struct step *step = &run->program->steps[pending->step];
		uint8_t *found;

		if (ctx != ALL_CTXS && (step->world != world || step->ctx != ctx)) {
			at = &pending->next;
			continue;
		}
		memcpy(&found, pending->bytes, sizeof(found));
		if (kernels->n_works + SPARE_WORKS > MAX_WORKS)
			flush(kernels);
		add_compare(kernels, pending->step, found);
		*at = pending->next;
		free(pending);
	}
}

/* ---- data ------------------------------------------------------------------------------------------------------------------- */

static uint8_t *dest_of(struct kernels *kernels)
{
	const struct step *step = step_of(kernels);

	return run_at(kernels->run, step->alloc, step->at);
}

/* The caller's side of a put. */
static uint8_t *source_of(struct kernels *kernels, uint64_t value)
{
	const struct step *step = step_of(kernels);
	uint32_t n = step->n ? step->n : 1, stride = n > 1 ? step->near_stride : step->bytes;
	struct work *work;

	if (step->near_alloc != PRIVATE)
		return run_at(kernels->run, step->near_alloc, step->near_at);
	work = add(kernels, WORK_PATTERN);
	work->dest = take_private(kernels, (uint64_t)n * stride + step->bytes);
	work->n = n;
	work->dest_stride = stride;
	work->value = value;
	return work->dest;
}

static uint8_t *room_of(struct kernels *kernels)
{
	const struct step *step = step_of(kernels);
	uint32_t n = step->n ? step->n : 1;
	struct pending *pending;
	uint8_t *room;

	if (step->near_alloc != PRIVATE)
		return run_at(kernels->run, step->near_alloc, step->near_at);
	room = take_private(kernels, (uint64_t)(n - 1) * step->near_stride + step->bytes);
	if (is_nbi(step->kind)) {
		pending = run_keep(kernels->run, true, sizeof(room));
		memcpy(pending->bytes, &room, sizeof(room));
	}
	return room;
}

/* The source of a call that has returned is the caller's again. */
static void spoil(struct kernels *kernels, uint8_t *source)
{
	const struct step *step = step_of(kernels);
	struct work *work;

	if (is_nbi(step->kind) || step->near_alloc != PRIVATE)
		return;
	work = add(kernels, WORK_SET);
	work->dest = source;
	work->value = 0xdd;
}

static void put(struct kernels *kernels, enum work_kind kind)
{
	const struct step *step = step_of(kernels);
	uint8_t *source = source_of(kernels, step->value);
	struct work *work = add_call(kernels, kind);

	work->dest = dest_of(kernels);
	work->source = source;
	work->pe = (uint32_t)run_to(kernels->run, step->to);
	if (kind == WORK_BATCH)
		work->pe2 = (uint32_t)run_to(kernels->run, step->to2);
	work->n = step->n ? step->n : 1;
	work->dest_stride = step->stride;
	work->source_stride = kind != WORK_BATCH || step->n > 1 ? step->near_stride : step->bytes;
	spoil(kernels, source);
}

static void get(struct kernels *kernels, enum work_kind kind)
{
	const struct step *step = step_of(kernels);
	uint8_t *room = room_of(kernels);
	struct work *work = add_call(kernels, kind);

	work->dest = room;
	work->source = dest_of(kernels);
	work->pe = (uint32_t)run_to(kernels->run, step->to);
	if (kind == WORK_GET_BATCH)
		work->pe2 = (uint32_t)run_to(kernels->run, step->to2);
	work->n = step->n ? step->n : 1;
	work->dest_stride = step->near_stride;
	work->source_stride = step->stride;
	if (!is_nbi(step->kind))
		add_compare(kernels, kernels->run->at, room);
}

static void put_signal(struct kernels *kernels, enum work_kind kind)
{
	const struct step *step = step_of(kernels);
	bool is_set = word_use(step->word) == USE_SIGNAL_SET;
	uint8_t *source = source_of(kernels, step->compare);
	struct work *work = add_call(kernels, kind);

	work->dest = dest_of(kernels);
	work->source = source;
	work->signal = run_at(kernels->run, 0, word_at(step->word));
	work->op = is_set ? SHMD_DEV_SIGNAL_SET : SHMD_DEV_SIGNAL_ADD;
	work->value = is_set ? step->want : step->value;
	work->pe = (uint32_t)run_to(kernels->run, step->to);
	spoil(kernels, source);
}

/* The word itself, by a value from private memory. */
static void put_word(struct kernels *kernels, uint8_t *word, uint32_t bytes)
{
	const struct step *step = step_of(kernels);
	uint8_t *at = take_private(kernels, 8);
	struct work *work;

	for (uint32_t i = 0; i < bytes; i++) {
		work = add(kernels, WORK_SET);
		work->dest = at + i;
		work->bytes = 1;
		work->value = (uint8_t)(step->want >> 8 * i);
	}
	work = add_call(kernels, WORK_PUT_NBI);
	work->dest = word;
	work->source = at;
	work->bytes = bytes;
	work->scope = SHMD_DEV_THREAD; /* one store */
	work->pe = (uint32_t)run_to(kernels->run, step->to);
}

static void flag(struct kernels *kernels)
{
	const struct step *step = step_of(kernels);
	uint8_t *word = run_at(kernels->run, 0, word_at(step->word));
	enum word_use use = word_use(step->word);
	uint32_t bytes = word_bytes(step->word);
	struct work *work;

	if (use == USE_PUT && step->value == 2) {
		put_word(kernels, word, bytes);
		return;
	}
	work = add_call(kernels, use == USE_PUT ? WORK_P : use == USE_ATOMIC_ADD ? WORK_ATOMIC : WORK_SIGNAL);
	work->dest = work->signal = word;
	work->bytes = bytes;
	work->pe = (uint32_t)run_to(kernels->run, step->to);
	work->value = use == USE_PUT || use == USE_SIGNAL_SET ? step->want : step->value;
	if (use == USE_ATOMIC_ADD)
		work->op = SHMD_DEV_AMO_ADD;
	else
		work->op = use == USE_SIGNAL_SET ? SHMD_DEV_SIGNAL_SET : SHMD_DEV_SIGNAL_ADD;
}

static void single(struct kernels *kernels, enum work_kind kind)
{
	const struct step *step = step_of(kernels);
	struct work *work = add_call(kernels, kind);

	work->dest = work->source = dest_of(kernels);
	work->pe = (uint32_t)run_to(kernels->run, step->to);
	work->n = step->n;
	work->op = step->op;
	work->value = step->value;
	work->compare = step->compare;
	work->want = step->want;
	work->is_exact = step->is_exact;
}

static void locked_add(struct kernels *kernels)
{
	const struct step *step = step_of(kernels);
	struct words *words = (struct words *)(void *)run_world(kernels->run)->allocs[0];
	struct work *work = add_call(kernels, WORK_LOCKED_ADD);

	work->dest = (uint8_t *)&words->lock[step->word & 1];
	work->source = (uint8_t *)&words->guarded[step->word & 1];
	work->pe = (uint32_t)run_to(kernels->run, step->to);
	work->value = step->value;
	work->compare = step->compare;
	settle(kernels, step->world, step->ctx);
}

static void store(struct kernels *kernels)
{
	struct work *work = add(kernels, WORK_PATTERN);

	work->dest = dest_of(kernels);
	work->value = step_of(kernels)->value;
}

static void check(struct kernels *kernels)
{
	struct work *work = add(kernels, WORK_COMPARE);

	work->source = dest_of(kernels);
	work->wanted = kernels->wanted + step_of(kernels)->want_at;
}

static void execute_data(struct kernels *kernels)
{
	static const enum work_kind kinds[N_STEP_KINDS] = {
		[STEP_PUT] = WORK_PUT, [STEP_PUT_NBI] = WORK_PUT_NBI, [STEP_PUT_DIRECT] = WORK_PUT_DIRECT, [STEP_P] = WORK_P,
		[STEP_PUT_STRIDED] = WORK_PUT_STRIDED, [STEP_PUT_STRIDED_NBI] = WORK_PUT_STRIDED_NBI, [STEP_BATCH] = WORK_BATCH,
		[STEP_GET] = WORK_GET, [STEP_GET_NBI] = WORK_GET_NBI, [STEP_G] = WORK_G, [STEP_GET_STRIDED] = WORK_GET_STRIDED,
		[STEP_GET_STRIDED_NBI] = WORK_GET_STRIDED_NBI, [STEP_GET_BATCH] = WORK_GET_BATCH, [STEP_ATOMIC] = WORK_ATOMIC,
		[STEP_ATOMIC_FETCH] = WORK_ATOMIC_FETCH, [STEP_PUT_SIGNAL] = WORK_PUT_SIGNAL, [STEP_PUT_SIGNAL_NBI] = WORK_PUT_SIGNAL_NBI,
	};
	enum step_kind kind = step_of(kernels)->kind;

	if (kind == STEP_STORE)
		store(kernels);
	else if (kind == STEP_CHECK)
		check(kernels);
	else if (kind == STEP_FLAG)
		flag(kernels);
	else if (kind == STEP_LOCKED_ADD)
		locked_add(kernels);
	else if (kind == STEP_PUT_SIGNAL || kind == STEP_PUT_SIGNAL_NBI)
		put_signal(kernels, kinds[kind]);
	else if (kind == STEP_P || kind == STEP_G || kind == STEP_ATOMIC || kind == STEP_ATOMIC_FETCH)
		single(kernels, kinds[kind]);
	else if (kind >= STEP_GET && kind <= STEP_GET_BATCH)
		get(kernels, kinds[kind]);
	else
		put(kernels, kinds[kind]);
}

/* ---- waits, order, collectives ---------------------------------------------------------------------------------------------- */

static void execute_waits(struct kernels *kernels)
{
	static const enum work_kind kinds[N_STEP_KINDS] = {
		[STEP_WAIT] = WORK_WAIT, [STEP_WAIT_ALL] = WORK_WAIT_ALL, [STEP_WAIT_ANY] = WORK_WAIT_ANY, [STEP_WAIT_SOME] = WORK_WAIT_SOME,
		[STEP_TEST] = WORK_TEST,
	};
	const struct step *step = step_of(kernels);
	struct work *work = add_call(kernels, kinds[step->kind]);

	work->source = run_at(kernels->run, 0, word_at(step->word));
	work->bytes = word_bytes(step->word);
	work->cmp = step->cmp;
	work->value = step->value;
	work->want = step->want;
	work->n = step->n;
	work->mask = step->mask;
	work->good = step->good;
	memcpy(work->values, step->values, sizeof(work->values));
}

static void execute_order(struct kernels *kernels)
{
	static const enum work_kind kinds[N_STEP_KINDS] = {
		[STEP_FENCE] = WORK_FENCE, [STEP_FENCE_PE] = WORK_FENCE_PE, [STEP_QUIET] = WORK_QUIET, [STEP_QUIET_PE] = WORK_QUIET_PE,
	};
	const struct step *step = step_of(kernels);
	struct work *work = add_call(kernels, kinds[step->kind]);

	if (step->kind == STEP_FENCE_PE || step->kind == STEP_QUIET_PE)
		work->pe = (uint32_t)run_to(kernels->run, step->to);
	if (step->kind == STEP_QUIET)
		settle(kernels, step->world, step->ctx);
}

static bool is_member(const struct kernels *kernels, uint32_t at)
{
	const struct run *run = kernels->run;
	const struct step *step = &run->program->steps[at];

	return team_members(&run->worlds[step->world].tables[step->team], step->op, run->program->n_pes) >> run->pe & 1;
}

static void execute_sync(struct kernels *kernels)
{
	const struct step *step = step_of(kernels);
	struct work *work;

	if (!is_member(kernels, kernels->run->at))
		return;
	work = add(kernels, step->kind == STEP_SYNC ? WORK_SYNC : WORK_BARRIER);
	work->ctx = gpu_ctx(kernels, step->world, 0);
	work->team = gpu_team(kernels, step->world, step->team);
	if (step->kind == STEP_BARRIER)
		settle(kernels, step->world, 0);
}

/* Numbers whose sums are exact, where the step wants some. */
static void fill_numbers(struct kernels *kernels)
{
	const struct step *step = step_of(kernels);
	const struct run *run = kernels->run;
	uint8_t *at = kernels->numbers + kernels->numbers_used;
	struct work *work;
	uint32_t bytes;

	if (!coll_is_float(step))
		return;
	bytes = coll_source_bytes(step, run->worlds[step->world].tables[step->team].n[run->pe], run->pe);
	kernels->numbers_used += (bytes + 15u) & ~15ull;
	if (kernels->numbers_used > NUMBERS_BYTES)
		run_fail(run, "no memory");
	coll_fill(step, run->pe, bytes / step->bytes, at);
	work = add(kernels, WORK_COPY);
	work->dest = run_at(kernels->run, step->near_alloc, step->near_at);
	work->source = at;
	work->bytes = bytes;
}

static void add_coll(struct kernels *kernels, bool is_beside)
{
	const struct step *step = step_of(kernels);
	struct work *work = add(kernels, WORK_COLL);

	work->ctx = gpu_ctx(kernels, step->world, 0);
	work->team = gpu_team(kernels, step->world, step->team);
	work->is_beside = is_beside;
	work->call = step->word;
	work->type = (int)step->mask;
	work->op = step->cmp;
	work->pe = (uint32_t)step->to;
	work->dest = run_at(kernels->run, step->alloc, step->at);
	work->source = run_at(kernels->run, step->near_alloc, step->near_at);
	work->dest_stride = step->stride;
	work->source_stride = step->near_stride;
	work->n = step->n;
	if (step->word == COLL_COLLECT)
		work->n = coll_collect_bytes(step, kernels->run->pe);
	else if (!coll_computes(step->word) && step->word != COLL_ALLTOALLS)
		work->n = (uint64_t)step->n * step->bytes;
}

/* Bytes that the contract leaves undefined get those of the model. */
static void check_coll(struct kernels *kernels)
{
	const struct step *step = step_of(kernels);
	uint8_t *dest = run_at(kernels->run, step->alloc, step->at);
	uint8_t *wanted = kernels->wanted + step->want_at + (size_t)kernels->run->pe * step->size;
	struct work *work = add(kernels, WORK_COMPARE);

	work->source = dest;
	work->wanted = wanted;
	work->bytes = step->size;
	if (!coll_computes(step->word))
		return;
	work->n = step->n;
	work->bytes = work->source_stride = step->bytes;
	work->compare = coll_number_bytes(step);
	work = add(kernels, WORK_COPY);
	work->dest = dest;
	work->source = wanted;
	work->bytes = step->size;
}

static bool has_beside(const struct kernels *kernels, uint32_t at)
{
	const struct program *program = kernels->run->program;

	return at < program->n_steps && program->steps[at].kind == STEP_COLL && program->steps[at].is_beside;
}

static void execute_colls(struct kernels *kernels)
{
	struct run *run = kernels->run;
	uint32_t at = run->at;
	bool is_pair = has_beside(kernels, at + 1) && is_member(kernels, at + 1);

	/* The second one of two was made with the first. */
	if (!is_member(kernels, at) || (has_beside(kernels, at) && is_member(kernels, at - 1)))
		return;
	for (run->at = at; run->at <= at + is_pair; run->at++)
		fill_numbers(kernels);
	for (run->at = at; run->at <= at + is_pair; run->at++)
		add_coll(kernels, run->at > at);
	/* Each by one warp. */
	for (uint32_t i = 1; is_pair && i <= 2; i++)
		kernels->works[kernels->n_works - i].scope = mix32(run->program->seed + at + i) % 2 ? SHMD_DEV_WARP : SHMD_DEV_THREAD;
	for (run->at = at; run->at <= at + is_pair; run->at++)
		check_coll(kernels);
	run->at = at;
}

/* ---- calls of the host ------------------------------------------------------------------------------------------------------ */

/* A kernel fills the bytes that the model knows: all, or both ends. */
static void fill_known(struct kernels *kernels, uint32_t from)
{
	struct run *run = kernels->run;
	const struct step *step = run_step(run);
	uint32_t cap = run->program->cap, known = step->size < cap ? (uint32_t)step->size : cap;
	uint32_t middle = step->size > cap ? cap / 2 : known;

	for (int end = 0; end < 2; end++) {
		uint32_t lo = end ? middle : 0, hi = end ? known : middle;
		struct work *work;

		lo = lo < from ? from : lo;
		if (lo >= hi)
			continue;
		work = add(kernels, WORK_PATTERN);
		work->dest = run_at(run, step->alloc, lo);
		work->bytes = hi - lo;
		work->first = lo;
		work->value = step->value + (uint64_t)run->pe;
	}
}

static void allocate(struct kernels *kernels)
{
	struct run *run = kernels->run;
	const struct step *step = run_step(run);
	struct run_world *w = run_world(run);
	uint32_t hints = SHMD_HINT_GPU | (step->kind == STEP_MALLOC ? (uint32_t)step->value & 3 : 0);
	void *ptr = NULL;

	if (step->kind == STEP_MALLOC)
		run_must(run, shmd_malloc(w->world, step->size, hints, &ptr));
	else if (step->kind == STEP_CALLOC)
		run_must(run, shmd_calloc(w->world, 1, step->size, hints, &ptr));
	else if (step->kind == STEP_ALIGN)
		run_must(run, shmd_align(w->world, step->align, step->size, hints, &ptr));
	else
		run_must(run, shmd_realloc(w->world, w->allocs[step->alloc], step->size, &ptr));
	w->allocs[step->alloc] = ptr;
	w->sizes[step->alloc] = step->size;
	if (step->kind == STEP_CALLOC)
		return;
	if (step->kind == STEP_REALLOC) {
		struct work *work = add(kernels, WORK_COMPARE);

		work->source = ptr;
		work->wanted = kernels->wanted + step->want_at + (size_t)run->pe * step->bytes;
	}
	fill_known(kernels, step->kind == STEP_REALLOC ? step->bytes : 0);
	flush(kernels);
	run_must(run, shmd_sync_all(w->world));
}

/* Arguments that kernels refuse; those of the heap the host does. */
static void execute_wrong(struct kernels *kernels)
{
	static const enum work_kind kinds[] = {0, 0, WORK_INVALID_ATOMIC, WORK_INVALID_PE, WORK_INVALID_DEST, WORK_INVALID_P};
	const struct step *step = step_of(kernels);
	struct work *work = add(kernels, kinds[step->op > 5 ? 5 : step->op]);

	work->ctx = gpu_ctx(kernels, step->world, 0);
	work->dest = run_world(kernels->run)->allocs[step->alloc];
	work->pe = (uint32_t)kernels->run->program->n_pes;
}

/* The host's part of tests/random, behind a kernel that completes what the call completes. */
static void execute_host(struct kernels *kernels)
{
	const struct step *step = step_of(kernels);

	if (step->kind <= STEP_REALLOC) {
		add_quiet(kernels, step->world, 0);
		settle(kernels, step->world, 0);
	} else if (step->kind == STEP_CTX_END) {
		add_quiet(kernels, step->world, step->ctx);
		settle(kernels, step->world, step->ctx);
	}
	flush(kernels);
	if (step->kind <= STEP_REALLOC)
		allocate(kernels);
	else
		execute_call(kernels->run);
}

/* ---- all -------------------------------------------------------------------------------------------------------------------- */

static void execute_step(struct kernels *kernels)
{
	const struct step *step = step_of(kernels);

	/* Each PE also counts who has freed an allocation. */
	if (step->pe != ALL_PES && step->pe != kernels->run->pe && step->kind != STEP_FREE)
		return;
	if (kernels->n_works + SPARE_WORKS > MAX_WORKS)
		flush(kernels);
	if (step->kind == STEP_SYNC || step->kind == STEP_BARRIER)
		execute_sync(kernels);
	else if (step->kind >= STEP_FENCE && step->kind <= STEP_QUIET_PE)
		execute_order(kernels);
	else if (step->kind >= STEP_WAIT && step->kind <= STEP_TEST)
		execute_waits(kernels);
	else if ((step->kind >= STEP_PUT && step->kind <= STEP_FLAG) || step->kind == STEP_LOCKED_ADD)
		execute_data(kernels);
	else if (step->kind == STEP_COLL)
		execute_colls(kernels);
	else if (step->kind == STEP_WRONG && step->op > 1)
		execute_wrong(kernels);
	else
		execute_host(kernels);
}

void kernels_execute(struct kernels *kernels, struct run *run)
{
	kernels->run = run;
	kernels->n_works = 0;
	kernels->private_used = kernels->numbers_used = 0;
	if (run->program->n_wanted > WANTED_BYTES)
		run_fail(run, "no memory");
	memcpy(kernels->wanted, run->program->wanted, run->program->n_wanted);
	for (int i = 0; i < run->program->n_worlds; i++) {
		struct run_world *w = &run->worlds[i];

		team_of_all(run->program, i, &w->tables[0]);
		w->teams[0] = shmd_team_world(w->world);
		w->ctxs[0] = shmd_world_ctx(w->world);
	}
	for (run->at = 0; run->at < run->program->n_steps; run->at++)
		execute_step(kernels);
	settle(kernels, 0, ALL_CTXS);
	flush(kernels);
}
