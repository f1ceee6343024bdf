package results

import (
	"fmt"
	"strconv"
	"strings"

	"workbench/bench/sweep"
	"workbench/model/platform"
)

// Configuration is a method with those settings that may differ between runs on
// the same case. Runs that differ in seed and repetition only are the same
// configuration's.
type Configuration struct {
	Problem, Method string
	Backend         string
	Slots, Threads  int
	TimeLimit, Gap  float64
	TaskMemory      int64 // of its process, bytes
	Version         string
}

// ConfigurationOf returns the configuration of a task.
func ConfigurationOf(t *sweep.Task) Configuration {
	return Configuration{t.Problem, t.Method, t.Backend, t.Slots, t.Threads, t.TimeLimit, t.Gap, t.TaskMemory, t.Version}
}

// Labels names configurations: by their method, and by those settings in which
// configurations of the same problem and method differ. Order of the list does not
// matter. O(configurations).
func Labels(list []Configuration) map[Configuration]string {
	type key struct{ problem, method string }
	seen := map[key][]map[string]bool{}
	for _, c := range list {
		k := key{c.Problem, c.Method}
		for i, s := range c.settings() {
			if len(seen[k]) <= i {
				seen[k] = append(seen[k], map[string]bool{})
			}
			seen[k][i][s] = true
		}
	}
	labels := make(map[Configuration]string, len(list))
	for _, c := range list {
		var differ []string
		for i, s := range c.settings() {
			if len(seen[key{c.Problem, c.Method}][i]) > 1 {
				differ = append(differ, s)
			}
		}
		labels[c] = c.Method
		if len(differ) > 0 {
			labels[c] += " (" + strings.Join(differ, ", ") + ")"
		}
	}
	return labels
}

func (c Configuration) settings() []string {
	or := func(s, none string) string {
		if s == "" {
			return none
		}
		return s
	}
	count := func(n int, what string) string {
		if n == 0 {
			return "default " + what
		}
		return fmt.Sprintf("%d %s", n, what)
	}
	limit := "no time limit"
	if c.TimeLimit > 0 {
		limit = platform.FormatSeconds(c.TimeLimit)
	}
	process := "any memory"
	if c.TaskMemory > 0 {
		process = platform.FormatBytes(float64(c.TaskMemory)) + " a process"
	}
	return []string{
		or(c.Backend, "no backend"), count(c.Slots, "slots"), platform.Count(max(1, c.Threads), "thread"), limit,
		"gap " + strconv.FormatFloat(c.Gap, 'g', -1, 64), process, or(c.Version, "no version"),
	}
}
