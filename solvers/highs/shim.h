// What the Go side needs of HiGHS. Every function catches the exceptions of the
// library, and none takes a pointer into Go memory that it keeps.
//
// The C header of HiGHS is not included here: up to version 1.11 it defines its
// constants with external linkage, so that two C files cannot include it.
#ifndef WORKBENCH_HIGHS_SHIM_H
#define WORKBENCH_HIGHS_SHIM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Return codes of every function that returns int, besides those of HiGHS:
// 1 for a warning, 0, and -1 for an error.
enum {
	SHIM_NO_MEMORY = -2,
	SHIM_EXCEPTION = -3
};

// Types of options.
enum { SHIM_BOOL, SHIM_INT, SHIM_DOUBLE, SHIM_STRING };

// Kinds of events.
enum {
	SHIM_LOG,       // text
	SHIM_INCUMBENT, // x, objective, bound, nodes, iterations
	SHIM_REPORT     // bound, nodes, iterations; at most ten a second
};

typedef struct {
	int32_t kind, columns;
	const char *text;
	const double *x; // valid during the call only
	double objective, bound;
	int64_t nodes, iterations;
} shim_event;

// shim is one instance of HiGHS, its cancel flag and its way back to Go.
typedef struct shim shim;

// shim_new returns NULL when out of memory. Events are sent to sink.
shim *shim_new(uintptr_t sink);
void shim_free(shim *s);
// shim_stop may be called from any thread while shim_run runs.
void shim_stop(shim *s);

// shim_version returns the library's version, and the three numbers of it.
const char *shim_version(int *major, int *minor, int *patch);
// shim_header returns major and minor of the header compiled against.
void shim_header(int *major, int *minor);

int shim_num_options(shim *s);
// shim_option_name returns a string to be freed, or NULL.
char *shim_option_name(shim *s, int index);
int shim_option_type(shim *s, const char *name, int *type);
int shim_set_bool(shim *s, const char *name, int value);
int shim_set_int(shim *s, const char *name, int value);
int shim_set_double(shim *s, const char *name, double value);
int shim_set_string(shim *s, const char *name, const char *value);

// shim_pass gives HiGHS a copy of the model, the matrix by rows. integer may be
// NULL: none is.
int shim_pass(shim *s, int cols, int rows, int nonzeros, int sense, double offset,
	const double *cost, const double *lower, const double *upper,
	const double *row_lower, const double *row_upper,
	const int32_t *start, const int32_t *index, const double *value, const int32_t *integer);
// shim_start gives the values of some integer columns to begin with.
int shim_start(shim *s, int count, const int32_t *index, const double *value);
// shim_run solves, sending events, log lines among them after shim_log.
int shim_run(shim *s);
int shim_log(shim *s);

int shim_model_status(shim *s);
// shim_last_status returns the greatest model status of the header compiled
// against.
int shim_last_status(void);
int shim_info_int(shim *s, const char *name, int *value);
int shim_info_int64(shim *s, const char *name, int64_t *value);
int shim_info_double(shim *s, const char *name, double *value);
// shim_solution fills arrays of the model's size. col_dual and row_dual may be
// NULL.
int shim_solution(shim *s, double *x, double *col_dual, double *row_dual);

// For linear programs that change and are solved again. shim_go_on forgets an
// earlier shim_stop and starts the clock of the time limit.
int shim_go_on(shim *s);
int shim_col_bounds(shim *s, int col, double lower, double upper);
int shim_col_cost(shim *s, int col, double cost);
int shim_add_rows(shim *s, int rows, int nonzeros, const double *lower, const double *upper,
	const int32_t *start, const int32_t *index, const double *value);
int shim_add_cols(shim *s, int cols, int nonzeros, const double *cost, const double *lower, const double *upper,
	const int32_t *start, const int32_t *index, const double *value);
int shim_row_bounds(shim *s, int row, double lower, double upper);
int shim_coef(shim *s, int row, int col, double value);
// shim_presolve tells the size of what presolve leaves.
int shim_presolve(shim *s, int *cols, int *rows, int *nonzeros);
// shim_forget forgets basis and solution.
int shim_forget(shim *s);
// shim_ray fills an array of a number a row, if *has is 1 afterwards.
int shim_ray(shim *s, int *has, double *ray);

int shim_read(shim *s, const char *file);
void shim_size(shim *s, int *cols, int *rows, int *nonzeros);
// shim_model fills arrays of the sizes that shim_size tells, the matrix by
// rows.
int shim_model(shim *s, int *sense, double *offset,
	double *cost, double *lower, double *upper, double *row_lower, double *row_upper,
	int32_t *start, int32_t *index, double *value, int32_t *integer);
// shim_col_name and shim_row_name copy a name of any length.
int shim_col_name(shim *s, int col, char *name);
int shim_row_name(shim *s, int row, char *name);

#ifdef __cplusplus
}
#endif
#endif
