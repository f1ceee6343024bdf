// What the Go side needs of lp_solve, loaded at run time. No header of lp_solve
// is used.
#ifndef WORKBENCH_LPSOLVE_SHIM_H
#define WORKBENCH_LPSOLVE_SHIM_H

#include <stdint.h>

// lps_library is the loaded library. It is never unloaded.
typedef struct lps_library lps_library;

// lps_open loads a library. On failure it returns NULL and an explanation to be
// freed in *why, NULL when out of memory.
lps_library *lps_open(const char *path, char **why);
void lps_version(const lps_library *lib, int *major, int *minor, int *release, int *build);

// lps_model is one model in lp_solve, with what its search is to obey. It always
// minimises. Columns and rows count from 1; row 0 is the objective.
typedef struct lps_model lps_model;

// How to search.
typedef struct {
	int scaling, floor, rule;
} lps_strategy;

// Return codes of functions that return int, but for lps_solve.
enum { LPS_OK, LPS_NO_MEMORY, LPS_REFUSED };

// lps_new copies a model. Row i has type[i]: 1 for ≤ rhs[i], 2 for ≥, 3 for =,
// and for ≤ a range: it is ≥ rhs[i] - range[i] as well if range[i] ≥ 0. Entries
// are by column, the rows of each ascending. On LPS_REFUSED *what names the
// function that refused something.
int lps_new(const lps_library *lib, int cols, int rows,
	const int32_t *type, const double *rhs, const double *range,
	const double *lower, const double *upper, const uint8_t *integer,
	const int64_t *start, int32_t *row, double *value,
	lps_strategy strategy, lps_model **model, const char **what);
void lps_free(lps_model *m);

// Kinds of events.
enum {
	LPS_LOG,       // text
	LPS_RELAXED,   // objective of the linear relaxation, once
	LPS_INCUMBENT, // x
	LPS_REPORT     // at most ten a second
};

typedef struct {
	int32_t kind, cols;
	const char *text;
	const double *x; // valid during the call only
	double objective;
	int64_t nodes, iterations;
} lps_event;

// Why a search was ended.
enum { LPS_NOT_STOPPED, LPS_CANCELLED, LPS_TIME, LPS_NODES, LPS_BY_EVENT };

typedef struct {
	double seconds; // from now; negative: no limit
	int64_t nodes;  // negative: no limit
	double cutoff;  // look for objectives up to this one; 1e30: any
	int log;
	uintptr_t sink; // of the events
} lps_search;

// lps_solve returns lp_solve's code.
int lps_solve(lps_model *m, lps_search search);
// lps_stop may be called from any thread while lps_solve runs.
void lps_stop(lps_model *m);
int lps_stopped(const lps_model *m);
int lps_solution(const lps_model *m, double *x);
// lps_duals fills an array of 1 + rows + columns: of the objective, of rows, and reduced
// costs, which are wrong for columns without rows.
int lps_duals(const lps_model *m, double *duals);
int64_t lps_nodes(const lps_model *m);
int64_t lps_iterations(const lps_model *m);

// lps_read reads an MPS file; NULL if it cannot.
lps_model *lps_read(const lps_library *lib, const char *file, int free_format);
void lps_size(const lps_model *m, int *cols, int *rows, int *nonzeros, int *maximise, double *offset);
// lps_column returns the number of entries, the objective among them as row 0.
int lps_column(const lps_model *m, int col, double *value, int *row,
	double *lower, double *upper, int *integer, int *semicontinuous);
void lps_row(const lps_model *m, int row, double *lower, double *upper);
// Names belong to the library and last until the next call.
const char *lps_col_name(const lps_model *m, int col);
const char *lps_row_name(const lps_model *m, int row);

#endif
