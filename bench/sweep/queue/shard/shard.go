// Package shard splits the tasks of a sweep between runs that do not talk to
// each other: run i of n does the tasks whose name hashes to i. There is no
// network and nothing to lose, only no balance either: for many short tasks it
// is what a cluster's own arrays want, see workbench/bench/sweep/queue for the rest.
package shard

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"workbench/bench/solve"
)

// Shard is one of Of parts, Index from 1 to Of. The zero value is the whole.
type Shard struct{ Index, Of int }

// Whole reports whether s is all there is.
func (s Shard) Whole() bool { return s.Of <= 1 }

// String returns "2/16", empty for the whole.
func (s Shard) String() string {
	if s.Whole() {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.Index, s.Of)
}

// Worker is what rows call the process that does s.
func (s Shard) Worker() string {
	if s.Whole() {
		return "local"
	}
	return "shard " + s.String()
}

// Has reports whether the task with that name belongs to s. It depends on
// nothing else, so shards of the same number are disjoint and complete, on any
// machine and whatever else is in the sweep.
func (s Shard) Has(id string) bool {
	if s.Whole() {
		return true
	}
	h := fnv.New64a()
	h.Write([]byte(id))
	return h.Sum64()%uint64(s.Of) == uint64(s.Index-1)
}

// Keep returns those of the tasks, or of what else has names, that belong to s.
func Keep[T any](s Shard, all []T, id func(T) string) []T {
	if s.Whole() {
		return all
	}
	var kept []T
	for _, t := range all {
		if s.Has(id(t)) {
			kept = append(kept, t)
		}
	}
	return kept
}

// Parse reads "2/16".
func Parse(text string) (Shard, error) {
	index, of, ok := strings.Cut(text, "/")
	i, err1 := strconv.Atoi(index)
	n, err2 := strconv.Atoi(of)
	switch {
	case !ok || err1 != nil || err2 != nil:
		return Shard{}, solve.InputError(fmt.Errorf("shard %q: two integers are needed, as in 2/16", text))
	case n < 1:
		return Shard{}, solve.InputError(fmt.Errorf("shard %q: at least one shard is needed", text))
	case i < 1 || i > n:
		return Shard{}, solve.InputError(fmt.Errorf("shard %q: shards are numbered from 1: 1/%d to %d/%d", text, n, n, n))
	}
	return Shard{i, n}, nil
}

// Variable is the environment variable that says how many shards there are
// where the cluster does not: the completions of a Kubernetes Job are known to
// its pods by nothing else.
const Variable = "WORKBENCH_SHARDS"

// FromEnvironment returns the shard that a cluster asks of this process and the
// variable that says so: a task of a Slurm array (SLURM_ARRAY_TASK_ID with
// _MIN, _STEP and _COUNT) or a pod of a Kubernetes Indexed Job
// (JOB_COMPLETION_INDEX with [Variable]). Without any it is the whole and source
// is empty. lookup is [os.LookupEnv].
func FromEnvironment(lookup func(string) (string, bool)) (s Shard, source string, err error) {
	number := func(name string, missing int) (int, error) {
		text, ok := lookup(name)
		if !ok || text == "" {
			return missing, nil
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return 0, solve.InputError(fmt.Errorf("environment variable %s is %q: an integer ≥ 0 is needed; --shard I/N overrides it",
				name, text))
		}
		return n, nil
	}
	if _, ok := lookup("SLURM_ARRAY_TASK_ID"); ok {
		source = "SLURM_ARRAY_TASK_ID"
		var v [4]int
		for i, name := range []string{source, "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP", "SLURM_ARRAY_TASK_COUNT"} {
			if v[i], err = number(name, []int{0, 0, 1, 0}[i]); err != nil {
				return Shard{}, "", err
			}
		}
		id, least, step, count := v[0], v[1], max(v[2], 1), v[3]
		if index := (id - least) / step; id < least || (id-least)%step != 0 || index >= count {
			return Shard{}, "", solve.InputError(fmt.Errorf("SLURM_ARRAY_TASK_ID=%d is none of SLURM_ARRAY_TASK_COUNT=%d from "+
				"SLURM_ARRAY_TASK_MIN=%d in steps of %d: number the array evenly, as in --array=0-15, or give --shard I/N", id, count, least, step))
		}
		return Shard{(id-least)/step + 1, count}, source, nil
	}
	if _, ok := lookup("JOB_COMPLETION_INDEX"); ok {
		source = "JOB_COMPLETION_INDEX"
		index, err := number(source, 0)
		if err != nil {
			return Shard{}, "", err
		}
		count, err := number(Variable, 0)
		if err != nil {
			return Shard{}, "", err
		}
		if index >= count {
			return Shard{}, "", solve.InputError(fmt.Errorf("JOB_COMPLETION_INDEX=%d, but %s=%d: set %s in the pod's env to the completions of "+
				"the Job, or give --shard I/N", index, Variable, count, Variable))
		}
		return Shard{index + 1, count}, source, nil
	}
	return Shard{}, "", nil
}
