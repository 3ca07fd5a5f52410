/* SPDX-License-Identifier: Apache-2.0 */
/* The sequential model of a program: memory of all PEs, teams, contexts and words after the steps so far. */
#ifndef SHMEMD_TESTS_RANDOM_MODEL_H
#define SHMEMD_TESTS_RANDOM_MODEL_H

#include "tests/random/order.h"
#include "tests/random/program.h"

#define MAX_EVENTS 8 /* of a word that several PEs add to */

struct model_alloc {
	bool is_live; /* some PE has not freed it */
	uint32_t freed; /* PEs that have */
	uint64_t size;
	uint8_t *bytes; /* [n_pes][cap] */
};

/* A split: PEs with equal colors are a team. */
struct model_team {
	bool is_live;
	int8_t color[MAX_PES]; /* -1: in none */
	int8_t place[MAX_PES];
	int8_t n[MAX_PES]; /* PEs of its team */
};

struct model_word {
	struct event events[MAX_EVENTS];
	uint32_t n_events;
};

struct model_world {
	struct model_alloc allocs[MAX_ALLOCS];
	struct model_team teams[MAX_TEAMS];
	int ctx_team[MAX_PES][MAX_CTXS]; /* -1: no such context */
	struct model_word words[MAX_PES][N_WORDS];
};

/* Accesses of one step, which must not race with each other either. */
#define MAX_ACCESSES (2 * MAX_PES)
struct accesses {
	struct access list[MAX_ACCESSES];
	uint32_t n;
	uint32_t done; /* bits: complete when the call returns */
};

struct model {
	struct program *program; /* gets the wanted bytes */
	struct order order;
	struct model_world worlds[MAX_WORLDS];
	/* The newest step, where it is a collective that another one may come beside. */
	bool is_coll_last;
	int last_world, last_team;
	struct accesses last;
};

/* On the heap: it is large. */
struct model *model_new(struct program *program);
void model_free(struct model *model);
/* Carries the step out and fills in what it finds. false, with nothing changed: it is no step of a program with one result. */
bool judge(struct model *model, struct step *step);

/* team.c: the teams that a split makes, of all teams of its parent at once; false: it is not valid for all of them. */
void team_of_all(const struct program *program, int world, struct model_team *ret_team);
bool team_split(const struct model_team *parent, const struct step *step, int n_pes, struct model_team *ret_team,
		struct model_team *ret_column);
/* The PEs of the team of this color. */
uint32_t team_members(const struct model_team *team, int color, int n_pes);

/* For those that choose steps. */
uint32_t model_known_bytes(const struct model *model, int world, int alloc); /* that the model knows */
bool model_has(const struct model *model, int world, int alloc, int pe); /* the PE has not freed it */
uint64_t model_word(const struct model *model, int world, int pe, int word);
bool model_is_member(const struct model *model, int world, int team, int a, int b); /* of one team */
/* Bytes of a PE's copy; cut where the model's knowledge has a hole. */
bool model_range(const struct model *model, int world, int alloc, uint32_t at, uint32_t bytes);
uint8_t *model_at(const struct model *model, int world, int alloc, int pe, uint32_t at);

/* judge-call.c: steps that are no access */
bool judge_collective(struct model *model, struct step *step);
/* judge-access.c */
bool judge_access(struct model *model, struct step *step);
/* judge-wait.c */
bool judge_wait(struct model *model, struct step *step);

/* judge-coll.c: collective calls that move or compute */
bool judge_coll(struct model *model, struct step *step);

bool accesses_take(struct model *model, const struct accesses *accesses);
/* Both of one world. */
bool accesses_meet(const struct access *a, const struct access *b);
void accesses_add(struct accesses *accesses, struct access access, bool is_done);
struct access access_far(const struct step *step, enum access_kind kind, int to, uint32_t at, uint32_t bytes);
struct access access_word(const struct step *step, enum access_kind kind);

#endif
