//go:build cgo && !nohighs

package highs

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"workbench/model/nearest"
	"workbench/solvers"
)

// taken maps options of HiGHS to the fields of [solvers.Options] that set them.
var taken = map[string]string{
	"time_limit": "Time", "mip_rel_gap": "RelGap", "mip_abs_gap": "AbsGap", "threads": "Threads",
	"random_seed": "Seed", "mip_max_nodes": "Nodes", "solve_relaxation": "Relax",
	"output_flag": "Log", "log_to_console": "Log",
}

// configure sets all options except the time limit.
func (h instance) configure(p *solvers.Problem) error {
	presolve := "choose"
	if p.Attempt > 0 {
		presolve = "off"
	}
	nodes := int64(math.MaxInt32)
	if p.Nodes >= 0 {
		nodes = min(p.Nodes, nodes)
	}
	for _, o := range []struct {
		name  string
		value any
	}{
		{"output_flag", false},
		{"log_to_console", false},
		{"threads", p.Threads},
		{"random_seed", p.Seed ^ p.Attempt},
		{"presolve", presolve},
		{"mip_rel_gap", p.RelGap},
		{"mip_abs_gap", p.AbsGap},
		{"mip_max_nodes", int(nodes)},
		// HiGHS drops entries up to 1e-9 and rejects those from 1e15 on, both included. Problems may contain these
		// two.
		{"small_matrix_value", 1e-12},
		{"large_matrix_value", 1e16},
	} {
		if !h.set(o.name, o.value) {
			return fmt.Errorf("%w: HiGHS rejects %s = %v", solvers.ErrOption, o.name, o.value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Raw)) {
		if err := h.setRaw(p, name, p.Raw[name]); err != nil {
			return err
		}
	}
	return nil
}

// openLog starts logging after the options are set: mistakes in those are errors, not log lines.
func (h instance) openLog() {
	if !h.log() {
		return // otherwise the log would go to the console
	}
	h.set("output_flag", true)
}

// setRaw sets one option of Problem.Raw.
func (h instance) setRaw(p *solvers.Problem, name, value string) error {
	kind, ok := h.optionType(name)
	if !ok {
		return fmt.Errorf("%w: HiGHS has no option %q; %s", solvers.ErrOption, name, nearest.Hint(name, h.options()))
	}
	if field, ok := taken[name]; ok {
		return fmt.Errorf("%w: raw option %s: use %s instead", solvers.ErrOption, name, field)
	}
	parsed, err := parseOption(kind, value)
	if err != nil {
		return fmt.Errorf("%w: raw option %s: %w", solvers.ErrOption, name, err)
	}
	if name == "presolve" && p.Attempt > 0 && value == "off" {
		parsed = "on"
	}
	if !h.set(name, parsed) {
		return fmt.Errorf("%w: HiGHS rejects %s = %s", solvers.ErrOption, name, value)
	}
	return nil
}

// parseOption converts value to the type kind of an option.
func parseOption(kind int, value string) (any, error) {
	switch kind {
	case boolOption:
		switch value {
		case "true", "on":
			return true, nil
		case "false", "off":
			return false, nil
		}
		return nil, fmt.Errorf("%q is not true or false", value)
	case intOption:
		v, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is not an integer of 32 bits", value)
		}
		return int(v), nil
	case doubleOption:
		v, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsNaN(v) {
			return nil, fmt.Errorf("%q is not a number", value)
		}
		return v, nil
	case stringOption:
		return value, nil
	}
	return nil, fmt.Errorf("unknown type of option %d", kind)
}
