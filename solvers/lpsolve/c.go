//go:build cgo && unix

package lpsolve

/*
#cgo linux LDFLAGS: -ldl
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime/cgo"
	"time"
	"unsafe"

	"workbench/model/milp"
	"workbench/solvers"
)

// library is lp_solve, loaded.
type library struct {
	c       *C.lps_library
	version string // "5.5.2.5"
}

func open(path string) (*library, error) {
	s := C.CString(path)
	defer C.free(unsafe.Pointer(s))
	var why *C.char
	c := C.lps_open(s, &why)
	if c == nil {
		defer C.free(unsafe.Pointer(why))
		return nil, errors.New(C.GoString(why))
	}
	var major, minor, release, build C.int
	C.lps_version(c, &major, &minor, &release, &build)
	return &library{c, fmt.Sprintf("%d.%d.%d.%d", major, minor, release, build)}, nil
}

// instance is one model in lp_solve. Each method is one call.
type instance struct{ c *C.lps_model }

func (m instance) free() { C.lps_free(m.c) }

// strategy configures the search, in lp_solve's constants.
type strategy struct{ scaling, floor, rule int }

// errMemory is the error of a call that ran out of memory.
var errMemory = fmt.Errorf("%w: out of memory", solvers.ErrSolver)

func (l *library) newInstance(t *tableau, s strategy) (instance, error) {
	var m *C.lps_model
	var what *C.char
	rc := C.lps_new(l.c, C.int(len(t.lower)), C.int(len(t.kind)),
		int32s(t.kind), doubles(t.side), doubles(t.width),
		doubles(t.lower), doubles(t.upper), (*C.uint8_t)(unsafe.SliceData(t.integer)),
		(*C.int64_t)(unsafe.SliceData(t.start)), int32s(t.row), doubles(t.value),
		C.lps_strategy{C.int(s.scaling), C.int(s.floor), C.int(s.rule)}, &m, &what)
	switch rc {
	case C.LPS_OK:
		return instance{m}, nil
	case C.LPS_NO_MEMORY:
		return instance{}, errMemory
	}
	return instance{}, fmt.Errorf("%w: %s refuses", solvers.ErrSolver, C.GoString(what))
}

func doubles(s []float64) *C.double { return (*C.double)(unsafe.SliceData(s)) }
func int32s(s []int32) *C.int32_t   { return (*C.int32_t)(unsafe.SliceData(s)) }

// limits of one search.
type limits struct {
	time   time.Duration // < 0: none
	nodes  int64         // < 0: none
	cutoff float64       // maximum objective of interest
}

// infinite is the value that lp_solve treats as infinite.
const infinite = 1e30

// solve returns lp_solve's code. Events go to sink, log lines only if log is
// set.
func (m instance) solve(l limits, log bool, sink cgo.Handle) (code int) {
	search := C.lps_search{
		seconds: C.double(l.time.Seconds()), nodes: C.int64_t(l.nodes), cutoff: C.double(l.cutoff), sink: C.uintptr_t(sink),
	}
	if log {
		search.log = 1
	}
	return int(C.lps_solve(m.c, search))
}

// stop interrupts the running solve. It may be called from any goroutine.
func (m instance) stop() { C.lps_stop(m.c) }

// stopReason is the reason for which this package ended a search.
type stopReason int

const (
	notStopped       stopReason = C.LPS_NOT_STOPPED
	stoppedCancelled stopReason = C.LPS_CANCELLED
	stoppedTime      stopReason = C.LPS_TIME
	stoppedNodes     stopReason = C.LPS_NODES
	stoppedClosed    stopReason = C.LPS_BY_EVENT // the gap is closed, or a panic
)

func (m instance) stopped() stopReason { return stopReason(C.lps_stopped(m.c)) }
func (m instance) nodes() int64        { return int64(C.lps_nodes(m.c)) }
func (m instance) iterations() int64   { return int64(C.lps_iterations(m.c)) }

func (m instance) solution(cols int) ([]float64, error) {
	x := make([]float64, cols)
	if C.lps_solution(m.c, doubles(x)) != C.LPS_OK {
		return nil, fmt.Errorf("%w: get_variables refuses", solvers.ErrSolver)
	}
	return x, nil
}

// duals returns those of rows, nil if there are none. The manual requires PRESOLVE_SENSDUALS before; with it
// 5.5.2.5 mixes up columns, without it the duals are available.
func (m instance) duals(rows, cols int) []float64 {
	y := make([]float64, 1+rows+cols) // the first is the objective's
	if C.lps_duals(m.c, doubles(y)) != C.LPS_OK {
		return nil
	}
	return y[1 : 1+rows]
}

// read reads an MPS file; it returns false if it cannot.
func (l *library) read(file string, f milp.MPSFormat) (instance, bool) {
	s := C.CString(file)
	defer C.free(unsafe.Pointer(s))
	var free C.int
	if f == milp.FreeMPS {
		free = 1
	}
	m := C.lps_read(l.c, s, free)
	return instance{m}, m != nil
}

// size returns the size of the model and sets the sense and offset of d.
func (m instance) size(d *milp.Data) (cols, rows, nonzeros int) {
	var c, r, n, maximise C.int
	var offset C.double
	C.lps_size(m.c, &c, &r, &n, &maximise, &offset)
	d.Sense, d.Offset = milp.Minimize, float64(offset)
	if maximise != 0 {
		d.Sense = milp.Maximize
	}
	return int(c), int(r), int(n)
}

// column is column j from 0, with its entries in the order of rows; row 0 is the objective.
type column struct {
	row                     []int32
	value                   []float64
	lower, upper            float64
	integer, semicontinuous bool
	name                    string
}

func (m instance) column(j, rows int) column {
	row, value := make([]int32, rows+1), make([]float64, rows+1)
	var lower, upper C.double
	var integer, semicontinuous C.int
	n := C.lps_column(m.c, C.int(j+1), doubles(value), (*C.int)(unsafe.SliceData(row)), &lower, &upper, &integer, &semicontinuous)
	return column{
		row[:max(0, n)], value[:max(0, n)], float64(lower), float64(upper), integer != 0, semicontinuous != 0,
		C.GoString(C.lps_col_name(m.c, C.int(j+1))),
	}
}

// row returns sides and name of row i from 0.
func (m instance) row(i int) (lower, upper float64, name string) {
	var l, u C.double
	C.lps_row(m.c, C.int(i+1), &l, &u)
	return float64(l), float64(u), C.GoString(C.lps_row_name(m.c, C.int(i+1)))
}

// workbenchLPSolveEvent passes an event on. It returns 1 to stop the search.
//
//export workbenchLPSolveEvent
func workbenchLPSolveEvent(handle C.uintptr_t, e *C.lps_event) (stop C.int) {
	s := cgo.Handle(handle).Value().(*search)
	if s.panicked != nil {
		return 1
	}
	// A panic must not unwind the frames of lp_solve.
	defer func() {
		if s.panicked = recover(); s.panicked != nil {
			stop = 1
		}
	}()
	progress := solvers.Progress{Nodes: int64(e.nodes), Iterations: int64(e.iterations)}
	closed := false
	switch e.kind {
	case C.LPS_LOG:
		s.log(C.GoString(e.text))
	case C.LPS_RELAXED:
		closed = s.relaxed(float64(e.objective), progress)
	case C.LPS_INCUMBENT:
		closed = s.incumbent(unsafe.Slice((*float64)(e.x), e.cols), progress)
	case C.LPS_REPORT:
		s.report(progress)
	}
	if closed {
		return 1
	}
	return 0
}
