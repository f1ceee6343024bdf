package solvers

import (
	"fmt"
	"strings"
)

var statusNames = [...]string{
	NoSolution:            "no solution",
	Optimal:               "optimal",
	Feasible:              "feasible",
	Infeasible:            "infeasible",
	Unbounded:             "unbounded",
	InfeasibleOrUnbounded: "infeasible or unbounded",
	Imprecise:             "imprecise",
	Numerical:             "numerical trouble",
}

// String returns the verdict in words: "infeasible or unbounded".
func (s Status) String() string { return name("status", statusNames[:], uint(s)) }

var stopNames = [...]string{
	NotStopped: "ran to its end",
	Time:       "time limit",
	Nodes:      "node limit",
	Iterations: "iteration limit",
	Solutions:  "solution limit",
	Objective:  "objective limit",
	Cancelled:  "cancelled",
	Memory:     "memory limit",
	Unknown:    "unknown reason",
}

// String returns the reason in words: "time limit".
func (s Stop) String() string { return name("stop", stopNames[:], uint(s)) }

var startNames = [...]string{
	NoStart:       "no start",
	StartAccepted: "start accepted",
	StartRejected: "start rejected",
}

// String returns the outcome in words: "start accepted".
func (s StartUse) String() string { return name("start", startNames[:], uint(s)) }

func name(what string, names []string, i uint) string {
	if i < uint(len(names)) {
		return names[i]
	}
	return fmt.Sprintf("%s %d", what, i)
}

// featureNames are in the order of the bits. Those of options are the option's own name, since error messages
// quote them.
var featureNames = [...]string{
	"integer columns", "RelGap", "AbsGap", "Threads", "Seed", "Nodes", "Start",
	"OnProgress", "Log", "duals", "Raw (options by name)", "Memory", "retry", "large models",
}

// String lists the features in f: "integer columns, RelGap, Seed".
func (f Features) String() string {
	var names []string
	for i, s := range featureNames {
		if f&(1<<i) != 0 {
			names = append(names, s)
		}
	}
	if rest := f >> len(featureNames); rest != 0 {
		names = append(names, fmt.Sprintf("unknown features %#x", uint32(rest)<<len(featureNames)))
	}
	if names == nil {
		return "nothing"
	}
	return strings.Join(names, ", ")
}
