//go:build cgo && !nohighs

package highs

/*
#cgo pkg-config: highs
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"bytes"
	"fmt"
	"runtime/cgo"
	"unsafe"

	"workbench/model/milp"
	"workbench/solvers"
)

// instance is one HiGHS instance. Each method is one call.
type instance struct{ c *C.shim }

// errMemory is the error of a call that ran out of memory.
var errMemory = fmt.Errorf("%w: out of memory", solvers.ErrSolver)

func newInstance(sink cgo.Handle) (instance, error) {
	c := C.shim_new(C.uintptr_t(sink))
	if c == nil {
		return instance{}, errMemory
	}
	return instance{c}, nil
}

func (h instance) free() { C.shim_free(h.c) }

// stop interrupts the running solve. It may be called from any goroutine.
func (h instance) stop() { C.shim_stop(h.c) }

// failure returns the error of a call that returned rc.
func failure(call string, rc int) error {
	switch rc {
	case C.SHIM_NO_MEMORY:
		return errMemory
	case C.SHIM_EXCEPTION:
		return fmt.Errorf("%w: Highs_%s threw an exception", solvers.ErrSolver, call)
	}
	return fmt.Errorf("%w: Highs_%s returns %d", solvers.ErrSolver, call, rc)
}

// version is that of the library in use.
type version struct{ major, minor, patch int }

func libraryVersion() (v version, text string) {
	var major, minor, patch C.int
	text = C.GoString(C.shim_version(&major, &minor, &patch))
	return version{int(major), int(minor), int(patch)}, text
}

// headerVersion is the version compiled against, without its patch.
func headerVersion() version {
	var major, minor C.int
	C.shim_header(&major, &minor)
	return version{int(major), int(minor), 0}
}

// The types of options.
const (
	boolOption   = C.SHIM_BOOL
	intOption    = C.SHIM_INT
	doubleOption = C.SHIM_DOUBLE
	stringOption = C.SHIM_STRING
)

// optionType returns the type of an option, and false if no option has the name.
func (h instance) optionType(name string) (kind int, ok bool) {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	var t C.int
	rc := C.shim_option_type(h.c, s, &t)
	return int(t), rc == 0
}

// options returns the names of all options.
func (h instance) options() []string {
	names := make([]string, 0, C.shim_num_options(h.c))
	for i := range cap(names) {
		names = append(names, takeString(C.shim_option_name(h.c, C.int(i))))
	}
	return names
}

// set sets an option to a bool, int, float64 or string, according to its type, and reports whether HiGHS accepted
// it.
func (h instance) set(name string, value any) bool {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	rc := C.int(-1)
	switch v := value.(type) {
	case bool:
		rc = C.shim_set_bool(h.c, s, cbool(v))
	case int:
		if v == int(int32(v)) {
			rc = C.shim_set_int(h.c, s, C.int(v))
		}
	case float64:
		rc = C.shim_set_double(h.c, s, C.double(v))
	case string:
		t := C.CString(v)
		defer C.free(unsafe.Pointer(t))
		rc = C.shim_set_string(h.c, s, t)
	}
	return rc == 0
}

func cbool(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

func doubles(s []float64) *C.double { return (*C.double)(unsafe.SliceData(s)) }
func int32s(s []int32) *C.int32_t   { return (*C.int32_t)(unsafe.SliceData(s)) }

// pass gives HiGHS a copy of d. integer is nil if no column is integer.
func (h instance) pass(d *milp.Data, integer []int32) error {
	rc := C.shim_pass(h.c, C.int(len(d.Cost)), C.int(len(d.RowLower)), C.int(len(d.Col)),
		C.int(d.Sense), C.double(d.Offset), doubles(d.Cost), doubles(d.Lower), doubles(d.Upper),
		doubles(d.RowLower), doubles(d.RowUpper), int32s(d.Start), int32s(d.Col), doubles(d.Val), int32s(integer))
	if rc == 0 {
		return nil
	}
	// A warning may mean that some data was omitted.
	if cols, rows, nonzeros := h.size(); rc > 0 && cols == len(d.Cost) && rows == len(d.RowLower) && nonzeros == len(d.Col) {
		return nil
	}
	return failure("passMip", int(rc))
}

func (h instance) size() (cols, rows, nonzeros int) {
	var c, r, n C.int
	C.shim_size(h.c, &c, &r, &n)
	return int(c), int(r), int(n)
}

// start passes values of integer columns. HiGHS may reject them and then starts without.
func (h instance) start(index []int32, value []float64) {
	C.shim_start(h.c, C.int(len(index)), int32s(index), doubles(value))
}

// run solves. Limits and interrupts return a warning, some failures with a model status an error: the model status
// is decisive.
func (h instance) run() (rc int) { return int(C.shim_run(h.c)) }

// log directs HiGHS's log lines to the callback. It reports whether that succeeded.
func (h instance) log() bool { return C.shim_log(h.c) == 0 }

func (h instance) modelStatus() int { return int(C.shim_model_status(h.c)) }

// lastStatus returns the greatest model status.
func lastStatus() int { return int(C.shim_last_status()) }

// infoInt, infoInt64 and infoDouble return the value of an info, or otherwise if no info has the name or its value
// is not known.
func (h instance) infoInt(name string, otherwise int) int {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	var v C.int
	if C.shim_info_int(h.c, s, &v) != 0 {
		return otherwise
	}
	return int(v)
}

func (h instance) infoInt64(name string, otherwise int64) int64 {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	var v C.int64_t
	if C.shim_info_int64(h.c, s, &v) != 0 {
		return otherwise
	}
	return int64(v)
}

func (h instance) infoDouble(name string, otherwise float64) float64 {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	var v C.double
	if C.shim_info_double(h.c, s, &v) != 0 {
		return otherwise
	}
	return float64(v)
}

// solution fills x, and the duals if they are not nil.
func (h instance) solution(x, colDual, rowDual []float64) error {
	if rc := C.shim_solution(h.c, doubles(x), doubles(colDual), doubles(rowDual)); rc != 0 {
		return failure("getSolution", int(rc))
	}
	return nil
}

// goOn clears an earlier stop and restarts the clock of the time limit, which HiGHS otherwise accumulates over the
// runs of an instance.
func (h instance) goOn() { C.shim_go_on(h.c) }

func (h instance) setBounds(col int32, lower, upper float64) error {
	return check("changeColBounds", C.shim_col_bounds(h.c, C.int(col), C.double(lower), C.double(upper)))
}

func (h instance) setCost(col int32, cost float64) error {
	return check("changeColCost", C.shim_col_cost(h.c, C.int(col), C.double(cost)))
}

func (h instance) addRows(lower, upper []float64, start, col []int32, val []float64) error {
	rc := C.shim_add_rows(h.c, C.int(len(lower)), C.int(len(col)), doubles(lower), doubles(upper), int32s(start), int32s(col), doubles(val))
	return check("addRows", rc)
}

func (h instance) addCols(cost, lower, upper []float64, start, row []int32, val []float64) error {
	rc := C.shim_add_cols(h.c, C.int(len(cost)), C.int(len(row)), doubles(cost), doubles(lower), doubles(upper), int32s(start), int32s(row),
		doubles(val))
	return check("addCols", rc)
}

func (h instance) setSides(row int32, lower, upper float64) error {
	return check("changeRowBounds", C.shim_row_bounds(h.c, C.int(row), C.double(lower), C.double(upper)))
}

func (h instance) setCoef(row, column int32, value float64) error {
	return check("changeCoeff", C.shim_coef(h.c, C.int(row), C.int(column), C.double(value)))
}

// presolve returns the size of the presolved model.
func (h instance) presolve() (solvers.Presolved, error) {
	var cols, rows, nonzeros C.int
	if rc := C.shim_presolve(h.c, &cols, &rows, &nonzeros); rc < 0 {
		return solvers.Presolved{}, failure("presolve", int(rc))
	}
	return solvers.Presolved{Cols: int(cols), Rows: int(rows), Nonzeros: int(nonzeros)}, nil
}

// forget drops basis and solution.
func (h instance) forget() error { return check("clearSolver", C.shim_forget(h.c)) }

// ray returns multipliers of the rows that prove infeasibility, nil if there are
// none.
func (h instance) ray(rows int) []float64 {
	y := make([]float64, rows)
	var has C.int
	if C.shim_ray(h.c, &has, doubles(y)) != 0 || has == 0 {
		return nil
	}
	return y
}

// check returns an error for a failing return code.
func check(call string, rc C.int) error {
	if rc != 0 {
		return failure(call, int(rc))
	}
	return nil
}

// read loads a file.
func (h instance) read(file string) error {
	s := C.CString(file)
	defer C.free(unsafe.Pointer(s))
	if rc := C.shim_read(h.c, s); rc != 0 {
		return failure("readModel", int(rc))
	}
	return nil
}

// model returns the model loaded, without names.
func (h instance) model() (d milp.Data, integer []int32, err error) {
	cols, rows, nonzeros := h.size()
	d.Cost, d.Lower, d.Upper = make([]float64, cols), make([]float64, cols), make([]float64, cols)
	d.RowLower, d.RowUpper = make([]float64, rows), make([]float64, rows)
	d.Start, d.Col, d.Val = make([]int32, rows+1), make([]int32, nonzeros), make([]float64, nonzeros)
	integer = make([]int32, cols)
	var sense C.int
	var offset C.double
	rc := C.shim_model(h.c, &sense, &offset, doubles(d.Cost), doubles(d.Lower), doubles(d.Upper),
		doubles(d.RowLower), doubles(d.RowUpper), int32s(d.Start), int32s(d.Col), doubles(d.Val), int32s(integer))
	if rc != 0 {
		return d, nil, failure("getLp", int(rc))
	}
	d.Start[rows] = int32(nonzeros) // HiGHS sets only the first entry of each row
	d.Sense, d.Offset = milp.Sense(sense), float64(offset)
	return d, integer, nil
}

// colName and rowName return a name of at most longest characters, "" if there is none.
func (h instance) colName(j, longest int) string {
	return name(longest, func(c *C.char) C.int { return C.shim_col_name(h.c, C.int(j), c) })
}

func (h instance) rowName(i, longest int) string {
	return name(longest, func(c *C.char) C.int { return C.shim_row_name(h.c, C.int(i), c) })
}

// name copies a name into a buffer; HiGHS does not check its size.
func name(longest int, get func(*C.char) C.int) string {
	buffer := make([]byte, longest+1)
	if get((*C.char)(unsafe.Pointer(unsafe.SliceData(buffer)))) != 0 {
		return ""
	}
	return string(buffer[:bytes.IndexByte(buffer, 0)])
}

// takeString returns s, "" for NULL, and frees it.
func takeString(s *C.char) string {
	defer C.free(unsafe.Pointer(s))
	return C.GoString(s)
}

// workbenchHighsEvent passes an event on. It returns 1 to stop the search.
//
//export workbenchHighsEvent
func workbenchHighsEvent(handle C.uintptr_t, e *C.shim_event) (stop C.int) {
	s := cgo.Handle(handle).Value().(*sink)
	if s.panicked != nil {
		return 1
	}
	// A panic must not unwind the frames of HiGHS.
	defer func() {
		if s.panicked = recover(); s.panicked != nil {
			stop = 1
		}
	}()
	switch e.kind {
	case C.SHIM_LOG:
		s.log(C.GoString(e.text))
	case C.SHIM_INCUMBENT:
		x := unsafe.Slice((*float64)(e.x), e.columns)
		s.incumbent(append([]float64(nil), x...), progressOf(e))
	case C.SHIM_REPORT:
		s.report(progressOf(e))
	}
	return 0
}

func progressOf(e *C.shim_event) solvers.Progress {
	return solvers.Progress{
		Objective: float64(e.objective), Bound: float64(e.bound),
		Nodes: int64(e.nodes), Iterations: int64(e.iterations),
	}
}
