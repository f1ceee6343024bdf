//go:build cgo && !nohighs

// C++, so that the constants of the header have internal linkage, that the Go
// tool links with the C++ compiler, which puts its library behind HiGHS, and
// that exceptions can be caught.
#include "shim.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <new>
#include <vector>

#include "Highs.h"
#include "interfaces/highs_c_api.h"

static_assert(HIGHS_VERSION_MAJOR > 1 || HIGHS_VERSION_MINOR >= 15, "HiGHS before 1.15 answers known models wrongly");
static_assert(sizeof(HighsInt) == sizeof(int32_t), "a HiGHS with 64-bit indices (HIGHSINT64) is not supported");
static_assert(SHIM_BOOL == kHighsOptionTypeBool && SHIM_INT == kHighsOptionTypeInt &&
	SHIM_DOUBLE == kHighsOptionTypeDouble && SHIM_STRING == kHighsOptionTypeString, "types of options");

// Implemented in Go. Returns whether to stop.
extern "C" int workbenchHighsEvent(uintptr_t sink, shim_event *event);

using Clock = std::chrono::steady_clock;

struct shim {
	void *highs = nullptr;
	uintptr_t sink = 0;
	int32_t columns = 0;
	std::atomic<bool> stop{false};
	Clock::time_point report; // when the next one may be sent
};

// guarded calls f and turns its exceptions into return codes.
template <typename F>
static int guarded(F f) {
	try {
		return f();
	} catch (const std::bad_alloc &) {
		return SHIM_NO_MEMORY;
	} catch (...) {
		return SHIM_EXCEPTION;
	}
}

static void send(shim *s, shim_event *e) {
	if (workbenchHighsEvent(s->sink, e)) s->stop = true;
}

// due says whether it is time for a report. The interrupt callbacks come up to
// once a simplex iteration: no crossing to Go for each.
static bool due(shim *s) {
	Clock::time_point now = Clock::now();
	if (now < s->report) return false;
	s->report = now + std::chrono::milliseconds(100);
	return true;
}

static void mip_fields(shim_event *e, const HighsCallbackDataOut *out) {
	e->objective = out->mip_primal_bound;
	e->bound = out->mip_dual_bound;
	e->nodes = out->mip_node_count;
	e->iterations = out->mip_total_lp_iterations;
}

// callback reads only the fields that HiGHS fills for the type at hand: the
// others are garbage, and `in` may be NULL.
static void callback(int type, const char *message, const HighsCallbackDataOut *out, HighsCallbackDataIn *in, void *data) {
	shim *s = static_cast<shim *>(data);
	shim_event e = {};
	e.columns = s->columns;
	e.objective = e.bound = NAN;
	switch (type) {
	case kHighsCallbackLogging:
		e.kind = SHIM_LOG;
		e.text = message;
		send(s, &e);
		return;
	case kHighsCallbackMipImprovingSolution:
		e.kind = SHIM_INCUMBENT;
		mip_fields(&e, out);
		e.objective = out->objective_function_value;
		e.x = out->mip_solution;
		send(s, &e);
		return;
	case kHighsCallbackSimplexInterrupt:
	case kHighsCallbackIpmInterrupt:
	case kHighsCallbackMipInterrupt:
		if (due(s)) {
			e.kind = SHIM_REPORT;
			if (type == kHighsCallbackMipInterrupt) {
				mip_fields(&e, out);
			} else if (type == kHighsCallbackSimplexInterrupt) {
				e.iterations = out->simplex_iteration_count;
			} else {
				e.iterations = out->ipm_iteration_count;
			}
			send(s, &e);
		}
		if (in) in->user_interrupt = s->stop; // sticky: to be written every time
	}
}

// open makes the instance of s and has it call back.
static int open(shim *s) {
	s->highs = Highs_create();
	HighsInt rc = Highs_setCallback(s->highs, callback, s);
	for (int type : {int(kHighsCallbackMipImprovingSolution), int(kHighsCallbackSimplexInterrupt),
			int(kHighsCallbackIpmInterrupt), int(kHighsCallbackMipInterrupt)}) {
		if (rc == kHighsStatusOk) rc = Highs_startCallback(s->highs, type);
	}
	return rc;
}

shim *shim_new(uintptr_t sink) {
	shim *s = new (std::nothrow) shim;
	if (!s) return nullptr;
	s->sink = sink;
	if (guarded([&] { return open(s); }) != 0) {
		shim_free(s);
		return nullptr;
	}
	return s;
}

void shim_free(shim *s) {
	guarded([&] {
		if (s->highs) Highs_destroy(s->highs);
		return 0;
	});
	delete s;
}

void shim_stop(shim *s) { s->stop = true; }

const char *shim_version(int *major, int *minor, int *patch) {
	*major = Highs_versionMajor();
	*minor = Highs_versionMinor();
	*patch = Highs_versionPatch();
	return Highs_version();
}

void shim_header(int *major, int *minor) {
	*major = HIGHS_VERSION_MAJOR;
	*minor = HIGHS_VERSION_MINOR;
}

int shim_num_options(shim *s) {
	return guarded([&] { return Highs_getNumOptions(s->highs); });
}

char *shim_option_name(shim *s, int index) {
	char *name = nullptr;
	if (guarded([&] { return Highs_getOptionName(s->highs, index, &name); }) != 0) return nullptr;
	return name;
}

int shim_option_type(shim *s, const char *name, int *type) {
	return guarded([&] { return Highs_getOptionType(s->highs, name, type); });
}

int shim_set_bool(shim *s, const char *name, int value) {
	return guarded([&] { return Highs_setBoolOptionValue(s->highs, name, value); });
}

int shim_set_int(shim *s, const char *name, int value) {
	return guarded([&] { return Highs_setIntOptionValue(s->highs, name, value); });
}

int shim_set_double(shim *s, const char *name, double value) {
	return guarded([&] { return Highs_setDoubleOptionValue(s->highs, name, value); });
}

int shim_set_string(shim *s, const char *name, const char *value) {
	return guarded([&] { return Highs_setStringOptionValue(s->highs, name, value); });
}

int shim_pass(shim *s, int cols, int rows, int nonzeros, int sense, double offset,
	const double *cost, const double *lower, const double *upper,
	const double *row_lower, const double *row_upper,
	const int32_t *start, const int32_t *index, const double *value, const int32_t *integer) {
	s->columns = cols;
	return guarded([&] {
		return Highs_passMip(s->highs, cols, rows, nonzeros, kHighsMatrixFormatRowwise, sense, offset,
			cost, lower, upper, row_lower, row_upper, start, index, value, integer);
	});
}

int shim_start(shim *s, int count, const int32_t *index, const double *value) {
	return guarded([&] { return Highs_setSparseSolution(s->highs, count, index, value); });
}

int shim_run(shim *s) {
	return guarded([&] { return Highs_run(s->highs); });
}

int shim_log(shim *s) {
	return guarded([&] { return Highs_startCallback(s->highs, kHighsCallbackLogging); });
}

int shim_model_status(shim *s) { return Highs_getModelStatus(s->highs); }

int shim_last_status(void) { return static_cast<int>(HighsModelStatus::kMax); }

int shim_info_int(shim *s, const char *name, int *value) {
	return guarded([&] { return Highs_getIntInfoValue(s->highs, name, value); });
}

int shim_info_int64(shim *s, const char *name, int64_t *value) {
	return guarded([&] { return Highs_getInt64InfoValue(s->highs, name, value); });
}

int shim_info_double(shim *s, const char *name, double *value) {
	return guarded([&] { return Highs_getDoubleInfoValue(s->highs, name, value); });
}

int shim_solution(shim *s, double *x, double *col_dual, double *row_dual) {
	return guarded([&] { return Highs_getSolution(s->highs, x, col_dual, nullptr, row_dual); });
}

int shim_go_on(shim *s) {
	s->stop = false;
	return guarded([&] { return Highs_zeroAllClocks(s->highs); });
}

int shim_col_bounds(shim *s, int col, double lower, double upper) {
	return guarded([&] { return Highs_changeColBounds(s->highs, col, lower, upper); });
}

int shim_col_cost(shim *s, int col, double cost) {
	return guarded([&] { return Highs_changeColCost(s->highs, col, cost); });
}

int shim_add_rows(shim *s, int rows, int nonzeros, const double *lower, const double *upper,
	const int32_t *start, const int32_t *index, const double *value) {
	return guarded([&] { return Highs_addRows(s->highs, rows, lower, upper, nonzeros, start, index, value); });
}

int shim_add_cols(shim *s, int cols, int nonzeros, const double *cost, const double *lower, const double *upper,
	const int32_t *start, const int32_t *index, const double *value) {
	return guarded([&] { return Highs_addCols(s->highs, cols, cost, lower, upper, nonzeros, start, index, value); });
}

int shim_row_bounds(shim *s, int row, double lower, double upper) {
	return guarded([&] { return Highs_changeRowBounds(s->highs, row, lower, upper); });
}

int shim_coef(shim *s, int row, int col, double value) {
	return guarded([&] { return Highs_changeCoeff(s->highs, row, col, value); });
}

int shim_presolve(shim *s, int *cols, int *rows, int *nonzeros) {
	return guarded([&] {
		HighsInt rc = Highs_presolve(s->highs);
		*cols = Highs_getPresolvedNumCol(s->highs);
		*rows = Highs_getPresolvedNumRow(s->highs);
		*nonzeros = Highs_getPresolvedNumNz(s->highs);
		return rc;
	});
}

int shim_forget(shim *s) {
	return guarded([&] { return Highs_clearSolver(s->highs); });
}

int shim_ray(shim *s, int *has, double *ray) {
	return guarded([&] { return Highs_getDualRay(s->highs, has, ray); });
}

int shim_read(shim *s, const char *file) {
	return guarded([&] { return Highs_readModel(s->highs, file); });
}

void shim_size(shim *s, int *cols, int *rows, int *nonzeros) {
	*cols = Highs_getNumCol(s->highs);
	*rows = Highs_getNumRow(s->highs);
	*nonzeros = Highs_getNumNz(s->highs);
}

int shim_model(shim *s, int *sense, double *offset,
	double *cost, double *lower, double *upper, double *row_lower, double *row_upper,
	int32_t *start, int32_t *index, double *value, int32_t *integer) {
	return guarded([&] {
		HighsInt cols, rows, nonzeros;
		return Highs_getLp(s->highs, kHighsMatrixFormatRowwise, &cols, &rows, &nonzeros, sense, offset,
			cost, lower, upper, row_lower, row_upper, start, index, value, integer);
	});
}

int shim_col_name(shim *s, int col, char *name) {
	return guarded([&] { return Highs_getColName(s->highs, col, name); });
}

int shim_row_name(shim *s, int row, char *name) {
	return guarded([&] { return Highs_getRowName(s->highs, row, name); });
}
