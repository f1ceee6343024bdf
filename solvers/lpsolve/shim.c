//go:build cgo && unix

#include "shim.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned char boolean; // MYBOOL
typedef int abort_function(void *lp, void *data);
typedef void message_function(void *lp, void *data, int message);
typedef void log_function(void *lp, void *data, char *text);

// The functions of lp_lib.h that are used: result, name, arguments.
#define FUNCTIONS(X) \
	X(void, lp_solve_version, (int *, int *, int *, int *)) \
	X(void *, make_lp, (int rows, int columns)) \
	X(void, delete_lp, (void *)) \
	X(boolean, resize_lp, (void *, int rows, int columns)) \
	X(boolean, set_constr_type, (void *, int row, int type)) \
	X(boolean, set_rh, (void *, int row, double)) \
	X(boolean, set_rh_range, (void *, int row, double)) \
	X(boolean, add_columnex, (void *, int count, double *, int *rows)) \
	X(boolean, set_int, (void *, int column, boolean)) \
	X(boolean, set_bounds, (void *, int column, double lower, double upper)) \
	X(void, set_minim, (void *)) \
	X(void, set_verbose, (void *, int level)) \
	X(void, set_infinite, (void *, double)) \
	X(boolean, set_epslevel, (void *, int level)) \
	X(void, set_epsint, (void *, double)) \
	X(void, set_mip_gap, (void *, boolean absolute, double)) \
	X(void, set_negrange, (void *, double)) \
	X(void, set_scaling, (void *, int)) \
	X(void, set_scalelimit, (void *, double)) \
	X(void, set_presolve, (void *, int mode, int loops)) \
	X(void, set_simplextype, (void *, int)) \
	X(void, set_pivoting, (void *, int)) \
	X(void, set_maxpivot, (void *, int)) \
	X(void, set_basiscrash, (void *, int)) \
	X(void, set_improve, (void *, int)) \
	X(void, set_anti_degen, (void *, int)) \
	X(void, set_bb_rule, (void *, int)) \
	X(void, set_bb_floorfirst, (void *, int)) \
	X(void, set_bb_depthlimit, (void *, int)) \
	X(void, set_break_at_first, (void *, boolean)) \
	X(void, set_break_at_value, (void *, double)) \
	X(void, set_timeout, (void *, long seconds)) \
	X(void, set_solutionlimit, (void *, int)) \
	X(void, set_obj_bound, (void *, double)) \
	X(void, put_abortfunc, (void *, abort_function *, void *data)) \
	X(void, put_msgfunc, (void *, message_function *, void *data, int mask)) \
	X(boolean, set_outputfile, (void *, char *)) \
	X(void, put_logfunc, (void *, log_function *, void *data)) \
	X(int, solve, (void *)) \
	X(double, get_working_objective, (void *)) \
	X(boolean, get_variables, (void *, double *)) \
	X(boolean, get_dual_solution, (void *, double *)) \
	X(boolean, get_ptr_variables, (void *, double **)) \
	X(long long, get_total_nodes, (void *)) \
	X(long long, get_total_iter, (void *)) \
	X(void *, read_MPS, (char *file, int verbosity)) \
	X(void *, read_freeMPS, (char *file, int verbosity)) \
	X(int, get_Nrows, (void *)) \
	X(int, get_Ncolumns, (void *)) \
	X(int, get_nonzeros, (void *)) \
	X(boolean, is_maxim, (void *)) \
	X(int, get_columnex, (void *, int column, double *, int *rows)) \
	X(double, get_lowbo, (void *, int column)) \
	X(double, get_upbo, (void *, int column)) \
	X(boolean, is_int, (void *, int column)) \
	X(boolean, is_semicont, (void *, int column)) \
	X(double, get_rh, (void *, int row)) \
	X(double, get_rh_lower, (void *, int row)) \
	X(double, get_rh_upper, (void *, int row)) \
	X(char *, get_col_name, (void *, int column)) \
	X(char *, get_row_name, (void *, int row))

struct lps_library {
#define X(result, name, arguments) result (*name) arguments;
	FUNCTIONS(X)
#undef X
};

struct lps_model {
	const lps_library *lib;
	void *lp;
	int cols;
	int relaxed;     // whether LPS_RELAXED was sent
	int stopped;     // why
	int cancelled;   // atomic
	double deadline, report; // of the clock
	lps_search search;
};

// Implemented in Go. Returns whether to stop.
extern int workbenchLPSolveEvent(uintptr_t sink, lps_event *event);

lps_library *lps_open(const char *path, char **why) {
	*why = NULL;
	lps_library *lib = calloc(1, sizeof *lib);
	if (!lib) return NULL;
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	int found = handle != NULL;
	// POSIX has dlsym return what can be a function, though C does not know it.
#define X(result, name, arguments) found = found && (*(void **)&lib->name = dlsym(handle, #name)) != NULL;
	FUNCTIONS(X)
#undef X
	if (found) return lib;
	const char *error = dlerror();
	*why = strdup(error ? error : "unknown error");
	free(lib);
	if (handle) dlclose(handle);
	return NULL;
}

void lps_version(const lps_library *lib, int *major, int *minor, int *release, int *build) {
	lib->lp_solve_version(major, minor, release, build);
}

// configure sets every parameter, because defaults differ between versions and
// from the manual, and some are wrong: the depth limit cuts off solutions, the
// gaps end searches early, presolve renumbers columns.
static void configure(const lps_model *m, lps_strategy s) {
	const lps_library *l = m->lib;
	void *lp = m->lp;
	l->set_verbose(lp, 0);
	l->set_outputfile(lp, ""); // none, where it would copy its log to
	l->set_infinite(lp, 1e30);
	l->set_minim(lp);
	l->set_epslevel(lp, 0); // tight
	l->set_epsint(lp, 1e-7);
	l->set_mip_gap(lp, 1, 0);
	l->set_mip_gap(lp, 0, 0);
	l->set_negrange(lp, -1e-6);
	l->set_scaling(lp, s.scaling);
	l->set_scalelimit(lp, 5);
	l->set_presolve(lp, 0, 0);
	l->set_simplextype(lp, 6);   // dual, then primal
	l->set_pivoting(lp, 2 + 32); // devex, adaptive
	l->set_maxpivot(lp, 250);
	l->set_basiscrash(lp, 0);
	l->set_improve(lp, 2 + 4);        // dual feasibility, theta gap
	l->set_anti_degen(lp, 1 + 4);     // fixed variables, stalling
	l->set_bb_rule(lp, s.rule);
	l->set_bb_floorfirst(lp, s.floor);
	l->set_bb_depthlimit(lp, 0); // none
	l->set_break_at_first(lp, 0);
	l->set_break_at_value(lp, -1e30);
	l->set_timeout(lp, 0); // none: it counts whole seconds
	// With 1, the default, lp_solve asks of improvements a step that it guesses
	// from the costs: for costs 4, 7 and 10 it guesses 3, and 7 + 4 is no
	// improvement on 10.
	l->set_solutionlimit(lp, 2);
}

// fill adds rows and columns. It returns the name of a function that refuses, or
// NULL. Rows come first, then whole columns: some thirty times as fast as row by
// row, and without the flips of set_constr_type on rows that have entries.
static const char *fill(const lps_model *m, int rows,
	const int32_t *type, const double *rhs, const double *range,
	const double *lower, const double *upper, const uint8_t *integer,
	const int64_t *start, int32_t *row, double *value) {
	const lps_library *l = m->lib;
	void *lp = m->lp;
	if (!l->resize_lp(lp, rows, m->cols)) return "resize_lp";
	for (int i = 0; i < rows; i++) {
		if (!l->set_constr_type(lp, i + 1, type[i])) return "set_constr_type";
		if (!l->set_rh(lp, i + 1, rhs[i])) return "set_rh";
		if (range[i] >= 0 && !l->set_rh_range(lp, i + 1, range[i])) return "set_rh_range";
	}
	for (int j = 0; j < m->cols; j++) {
		if (!l->add_columnex(lp, (int)(start[j + 1] - start[j]), value + start[j], row + start[j])) return "add_columnex";
		if (!l->set_int(lp, j + 1, integer[j])) return "set_int";
		if (!l->set_bounds(lp, j + 1, lower[j], upper[j])) return "set_bounds";
	}
	return NULL;
}

// wrap takes lp over.
static lps_model *wrap(const lps_library *lib, void *lp, int cols) {
	lps_model *m = lp ? calloc(1, sizeof *m) : NULL;
	if (!m) {
		if (lp) lib->delete_lp(lp);
		return NULL;
	}
	m->lib = lib;
	m->lp = lp;
	m->cols = cols;
	return m;
}

int lps_new(const lps_library *lib, int cols, int rows,
	const int32_t *type, const double *rhs, const double *range,
	const double *lower, const double *upper, const uint8_t *integer,
	const int64_t *start, int32_t *row, double *value,
	lps_strategy strategy, lps_model **model, const char **what) {
	lps_model *m = wrap(lib, lib->make_lp(rows, 0), cols);
	if (!m) return LPS_NO_MEMORY;
	configure(m, strategy);
	*what = fill(m, rows, type, rhs, range, lower, upper, integer, start, row, value);
	if (*what) {
		lps_free(m);
		return LPS_REFUSED;
	}
	*model = m;
	return LPS_OK;
}

void lps_free(lps_model *m) {
	m->lib->delete_lp(m->lp);
	free(m);
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static lps_event event(const lps_model *m, int kind) {
	lps_event e = {.kind = kind, .cols = m->cols};
	e.nodes = lps_nodes(m);
	e.iterations = lps_iterations(m);
	return e;
}

static void send(lps_model *m, lps_event *e) {
	if (workbenchLPSolveEvent(m->search.sink, e) && !m->stopped) m->stopped = LPS_BY_EVENT;
}

// on_abort is asked whether to stop, some 10⁵ times a second.
static int on_abort(void *lp, void *data) {
	(void)lp;
	lps_model *m = data;
	double t = now();
	if (m->stopped) return 1;
	if (__atomic_load_n(&m->cancelled, __ATOMIC_ACQUIRE)) {
		m->stopped = LPS_CANCELLED;
	} else if (t >= m->deadline && m->search.seconds >= 0) {
		m->stopped = LPS_TIME;
	} else if (m->search.nodes >= 0 && lps_nodes(m) > m->search.nodes) {
		m->stopped = LPS_NODES;
	} else if (t >= m->report) {
		m->report = t + 0.1;
		lps_event e = event(m, LPS_REPORT);
		send(m, &e);
	}
	return m->stopped != LPS_NOT_STOPPED;
}

enum { MSG_LPOPTIMAL = 16, MSG_MILPFEASIBLE = 128, MSG_MILPBETTER = 512 };

static void on_message(void *lp, void *data, int message) {
	lps_model *m = data;
	double *x;
	if (message == MSG_LPOPTIMAL && !m->relaxed) {
		m->relaxed = 1; // later ones are of nodes
		lps_event e = event(m, LPS_RELAXED);
		e.objective = m->lib->get_working_objective(lp);
		send(m, &e);
	}
	if ((message == MSG_MILPFEASIBLE || message == MSG_MILPBETTER) && m->lib->get_ptr_variables(lp, &x)) {
		lps_event e = event(m, LPS_INCUMBENT);
		e.x = x;
		send(m, &e);
	}
}

static void on_log(void *lp, void *data, char *text) {
	(void)lp;
	lps_event e = {.kind = LPS_LOG, .text = text};
	send(data, &e);
}

int lps_solve(lps_model *m, lps_search search) {
	m->search = search;
	m->deadline = now() + search.seconds;
	m->lib->set_obj_bound(m->lp, search.cutoff);
	m->lib->put_abortfunc(m->lp, on_abort, m);
	m->lib->put_msgfunc(m->lp, on_message, m, MSG_LPOPTIMAL | MSG_MILPFEASIBLE | MSG_MILPBETTER);
	if (search.log) {
		m->lib->put_logfunc(m->lp, on_log, m);
		m->lib->set_verbose(m->lp, 4); // normal
	}
	return m->lib->solve(m->lp);
}

void lps_stop(lps_model *m) { __atomic_store_n(&m->cancelled, 1, __ATOMIC_RELEASE); }
int lps_stopped(const lps_model *m) { return m->stopped; }
int lps_solution(const lps_model *m, double *x) { return m->lib->get_variables(m->lp, x) ? LPS_OK : LPS_REFUSED; }
int lps_duals(const lps_model *m, double *duals) { return m->lib->get_dual_solution(m->lp, duals) ? LPS_OK : LPS_REFUSED; }
int64_t lps_nodes(const lps_model *m) { return m->lib->get_total_nodes(m->lp); }
int64_t lps_iterations(const lps_model *m) { return m->lib->get_total_iter(m->lp); }

lps_model *lps_read(const lps_library *lib, const char *file, int free_format) {
	char *path = (char *)file; // not written to
	void *lp = free_format ? lib->read_freeMPS(path, 0) : lib->read_MPS(path, 0);
	return wrap(lib, lp, lp ? lib->get_Ncolumns(lp) : 0);
}

void lps_size(const lps_model *m, int *cols, int *rows, int *nonzeros, int *maximise, double *offset) {
	*cols = m->cols;
	*rows = m->lib->get_Nrows(m->lp);
	*nonzeros = m->lib->get_nonzeros(m->lp);
	*maximise = m->lib->is_maxim(m->lp);
	*offset = m->lib->get_rh(m->lp, 0);
}

int lps_column(const lps_model *m, int col, double *value, int *row,
	double *lower, double *upper, int *integer, int *semicontinuous) {
	*lower = m->lib->get_lowbo(m->lp, col);
	*upper = m->lib->get_upbo(m->lp, col);
	*integer = m->lib->is_int(m->lp, col);
	*semicontinuous = m->lib->is_semicont(m->lp, col);
	return m->lib->get_columnex(m->lp, col, value, row);
}

void lps_row(const lps_model *m, int row, double *lower, double *upper) {
	*lower = m->lib->get_rh_lower(m->lp, row);
	*upper = m->lib->get_rh_upper(m->lp, row);
}

const char *lps_col_name(const lps_model *m, int col) { return m->lib->get_col_name(m->lp, col); }
const char *lps_row_name(const lps_model *m, int row) { return m->lib->get_row_name(m->lp, row); }
