// Package results reads the rows of sweeps and says what they came to: reports for people, tables,
// comparisons of two nights, the history of many, exports for other programs. What became of a run,
// whether its time is one, which runs are on the same case and the command that repeats one are
// defined here once.
package results

import (
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"workbench/bench/solve"
	"workbench/bench/sweep"
	"workbench/bench/sweep/store"
	"workbench/model/platform"
)

// Night is what a sweep left.
type Night struct {
	Name         string
	Rows         []*sweep.Row
	Environments map[string]sweep.Environment // by digest
	// Tasks are those of the sweep's list, with and without rows; nil: there is
	// no list, only rows.
	Tasks []sweep.Task
	// Damaged and Torn lines, and Repeated rows, of the store; Damage counts and names the
	// damaged lines, "" if there is none.
	Damaged, Torn, Repeated int
	Damage                  string
}

// ReadNight reads the night in a folder of a sweep, or in one file of rows. Errors
// are the user's.
func ReadNight(path string) (*Night, error) {
	c, err := store.Read(path)
	if err != nil {
		return nil, err
	}
	n := &Night{
		Name: c.Sweep, Rows: c.Rows, Environments: c.Environments,
		Damaged: len(c.Damaged), Torn: len(c.Torn), Repeated: c.Repeated, Damage: store.DamageSummary(c.Damaged),
	}
	for _, r := range n.Rows { // tasks in one process have its processor time, not their own
		if e := n.Environments[r.Environment]; r.Result != nil && !e.Isolated && e.Jobs > 1 {
			r.Result.CPUTime = 0
		}
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() || !store.Exists(path) {
		return n, nil
	}
	list, err := store.ReadTasks(path)
	if err != nil {
		return nil, err
	}
	n.Tasks = list.Tasks
	if n.Name == "" {
		n.Name = list.Name
	}
	return n, nil
}

// Versions returns the versions of the program that made the rows, in order.
func (n *Night) Versions() []string {
	versions := []string{}
	for _, r := range n.Rows {
		if !slices.Contains(versions, r.Task.Version) {
			versions = append(versions, r.Task.Version)
		}
	}
	slices.Sort(versions)
	return versions
}

// Missing returns the tasks of the list that have no row.
func (n *Night) Missing() (missing []sweep.Task) {
	done := make(map[string]bool, len(n.Rows))
	for _, r := range n.Rows {
		done[r.ID] = true
	}
	for _, t := range n.Tasks {
		if !done[t.ID()] {
			missing = append(missing, t)
		}
	}
	return missing
}

// Reasons of failures beside those of package sweep.
const (
	MethodFailed = "error"   // the method or its solver failed, refused the instance, or its plan did not verify
	NoPlan       = "no-plan" // it ended, or was stopped, without a plan
)

// Failure returns why a run has nothing to show, and the words of what went
// wrong; "" if it has a plan, a bound that was asked for, or the proof that there
// is no plan.
func Failure(r *sweep.Row) (reason, detail string) {
	switch {
	case r.Failure != nil:
		return r.Failure.Reason, r.Failure.Detail
	case r.Result == nil:
		return sweep.BadAnswer, "the row has no result"
	case r.Result.Status == solve.Failed:
		return MethodFailed, r.Result.Error
	case r.Result.Kind == solve.Relaxed && r.Result.Bound == nil:
		return NoPlan, r.Result.Error
	case r.Result.Kind != solve.Relaxed && r.Result.Objective == nil && r.Result.Status != solve.Infeasible:
		return NoPlan, r.Result.Error
	}
	return "", ""
}

// Objective returns the objective of the run's verified plan.
func Objective(r *sweep.Row) (float64, bool) {
	if r.Failure != nil || r.Result == nil || r.Result.Objective == nil || r.Result.Status == solve.Failed {
		return 0, false
	}
	return *r.Result.Objective, true
}

// Bound returns the proven bound of the run.
func Bound(r *sweep.Row) (*solve.Bound, bool) {
	if r.Failure != nil || r.Result == nil || r.Result.Bound == nil || r.Result.Status == solve.Failed {
		return nil, false
	}
	return r.Result.Bound, true
}

// Proved reports whether the run proved its plan optimal, or that there is
// none; of a method of bounds, whether its model was solved to the end.
func Proved(r *sweep.Row) bool {
	return r.Failure == nil && r.Result != nil && (r.Result.Status == solve.Optimal || r.Result.Status == solve.Infeasible)
}

// atLimit is the share of its time limit from which on a run counts as stopped
// by it: methods look at the clock now and then, and stop a little early.
const atLimit = 0.98

// Stopped reports whether the run did not get to its end, so that its time only
// says where it was stopped: it failed, or used up its time limit without a
// proof.
func Stopped(r *sweep.Row) bool {
	reason, _ := Failure(r)
	if reason != "" {
		return true
	}
	limit := r.Task.TimeLimit
	return limit > 0 && !Proved(r) && r.Result.WallTime >= atLimit*limit
}

// Time returns the processor time of the run in seconds, which other programs on the machine
// change little; the wall time of a run with several threads, or whose processor time is not known;
// of a run without result, the time from its start to its end.
func Time(r *sweep.Row) float64 {
	if r.Result != nil && r.Result.CPUTime > 0 && r.Task.Threads <= 1 {
		return r.Result.CPUTime
	}
	return wallTime(r)
}

func wallTime(r *sweep.Row) float64 {
	if r.Result != nil {
		return r.Result.WallTime
	}
	return max(0, r.Finished.Sub(r.Started).Seconds())
}

// Solution describes the run's end in one word: its status, or why it failed.
func Solution(r *sweep.Row) string {
	if reason, _ := Failure(r); reason != "" {
		return reason
	}
	return string(r.Result.Status)
}

// InstanceName returns the name of the instance: as the file or the zoo has it.
func InstanceName(r *sweep.Row) string {
	if r.Result != nil && r.Result.Instance.Name != "" {
		return r.Result.Instance.Name
	}
	name := strings.TrimPrefix(r.Task.Instance, "zoo:")
	if name == r.Task.Instance {
		name = name[strings.LastIndexByte(name, '/')+1:]
		name = strings.TrimSuffix(name, ".json")
	}
	return name
}

// Gap returns (objective − bound) / objective; less than 10⁻⁹ is 0.
func Gap(objective, bound float64) float64 {
	gap := platform.Gap(objective, bound)
	if gap < leastGap {
		return 0
	}
	return gap
}

// Digits writes a number for a table such that it is read back to the same,
// without an exponent where digits do; "" for what is no number.
func Digits(x float64) string {
	switch a := math.Abs(x); {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return ""
	case a == 0 || a >= 1e-5 && a < 1e15:
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}
