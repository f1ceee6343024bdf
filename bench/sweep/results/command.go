package results

import (
	"strconv"
	"strings"

	"workbench/bench/sweep"
)

// Command returns the command line that does a task again, for a shell in the
// folder of the sweep's specification, to which instances are relative. Numbers
// are written exactly: the same task comes out, but for the memory that its
// process may take.
func Command(t *sweep.Task) string {
	exact := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	words := []string{"workbench", "solve", t.Instance, "--problem", t.Problem, "--method", t.Method, "--memory", exact(t.Memory)}
	add := func(set bool, flag, value string) {
		if set {
			words = append(words, flag, value)
		}
	}
	add(t.Bandwidth > 0, "--bandwidth", exact(t.Bandwidth))
	add(t.Processors > 0, "--processors", strconv.Itoa(t.Processors))
	add(t.MicroBatches > 0, "--micro-batches", strconv.Itoa(t.MicroBatches))
	add(t.Placement != "", "--placement", t.Placement)
	add(t.Minimised != "", "--objective", t.Minimised)
	// 0 copies are possible: of no weights.
	add(t.Processors > 0 && (t.MemoryModel != "" || t.Runtime() != ""), "--weight-copies", strconv.Itoa(t.WeightCopies))
	if t.Replicas {
		words = append(words, "--replicas")
	}
	add(t.MemoryModel != "", "--memory-model", t.MemoryModel)
	add(t.Runtime() != "", "--runtime", t.Runtime())
	add(t.Model != "" && t.Runtime() == "", "--model", t.Model)
	add(t.Slots > 0, "--slots", strconv.Itoa(t.Slots))
	add(t.Backend != "", "--backend", t.Backend)
	add(t.Threads > 0, "--threads", strconv.Itoa(t.Threads))
	limit := "none" // what solve has by default is not none
	if t.TimeLimit > 0 {
		limit = exact(t.TimeLimit)
	}
	add(true, "--time-limit", limit)
	add(t.Gap > 0, "--gap", exact(t.Gap))
	add(t.Seed != 0, "--seed", strconv.Itoa(t.Seed))
	for i, w := range words {
		words[i] = quoted(w)
	}
	return strings.Join(words, " ")
}

// quoted quotes a word for a POSIX shell where it needs it.
func quoted(w string) string {
	plain := w != "" && strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%") == ""
	if plain {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
