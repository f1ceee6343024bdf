package results

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"workbench/bench/progress"
	"workbench/bench/render"
	"workbench/bench/solve"
	"workbench/bench/sweep"
	"workbench/bench/sweep/store"
	"workbench/bench/sweep/worker"
	"workbench/model/platform"
)

// Summary is what bench run prints at its end.
type Summary struct {
	Sweep    string                  `json:"sweep"`
	Folder   string                  `json:"folder"`
	Tasks    int                     `json:"tasks"`
	New      int                     `json:"new"`  // rows of this run
	Wall     float64                 `json:"wall"` // seconds of this run
	Problems map[string]statusCounts `json:"problems"`
	Failures []failureLine           `json:"failures"`
}

// statusCounts counts rows by status, those that failed under their reason.
type statusCounts map[string]int

// failureLine is a task that failed.
type failureLine struct {
	ID       string `json:"id"`
	Problem  string `json:"problem"`
	Method   string `json:"method"`
	Instance string `json:"instance"`
	Memory   string `json:"memory"`
	Reason   string `json:"reason"`
	Detail   string `json:"detail"`
}

// mostFailures is how many failed tasks are listed for a person.
const mostFailures = 10

// Summarise sums up what the tasks of a sweep in a folder came to, as far as n says it is.
func Summarise(dir string, tasks []sweep.Task, n worker.Snapshot) (*Summary, error) {
	c, err := store.Read(dir)
	if err != nil {
		return nil, err
	}
	sum := &Summary{
		Sweep: c.Sweep, Folder: dir, Tasks: len(tasks), New: n.Fresh, Wall: n.Elapsed.Seconds(),
		Problems: map[string]statusCounts{}, Failures: []failureLine{},
	}
	wanted := map[string]bool{}
	for i := range tasks {
		wanted[tasks[i].ID()] = true
	}
	for _, r := range c.Rows {
		if wanted[r.ID] {
			sum.count(r)
		}
	}
	return sum, nil
}

func (sum *Summary) count(r *sweep.Row) {
	n := sum.Problems[r.Task.Problem]
	if n == nil {
		n = statusCounts{}
		sum.Problems[r.Task.Problem] = n
	}
	line := failureLine{r.ID, r.Task.Problem, r.Task.Method, r.Task.Instance, r.Task.MemoryName, MethodFailed, ""}
	switch f := r.Failure; {
	case f != nil:
		n["failed"]++
		line.Reason, line.Detail = f.Reason, f.Detail
	case r.Result.Status == solve.Failed:
		n[string(solve.Failed)]++
		line.Detail = r.Result.Error
	default:
		n[string(r.Result.Status)]++
		return
	}
	sum.Failures = append(sum.Failures, line)
}

// Print writes a summary for a person.
func (sum *Summary) Print(w io.Writer) {
	statuses := []string{
		string(solve.Optimal), string(solve.Feasible), string(solve.Infeasible), string(solve.Limit), string(solve.Failed),
		"failed",
	}
	head := table.Row{"problem", "tasks"}
	for _, x := range statuses {
		head = append(head, x)
	}
	t := render.Table(w, head, 2, 3, 4, 5, 6, 7, 8)
	done := 0
	for _, p := range slices.Sorted(maps.Keys(sum.Problems)) {
		all := 0
		row := table.Row{p, 0}
		for _, x := range statuses {
			n := sum.Problems[p][x]
			all += n
			row = append(row, n)
		}
		row[1] = all
		done += all
		t.AppendRow(row)
	}
	t.Render()
	fmt.Fprintf(w, "\n%s: %d of %s done, %d in this run (%s); rows in %s\n", sum.Sweep, done, platform.Count(sum.Tasks, "task"), sum.New,
		progress.Duration(time.Duration(sum.Wall*float64(time.Second))), filepath.Join(sum.Folder, "rows.jsonl"))
	for i, f := range sum.Failures {
		if i == mostFailures {
			fmt.Fprintf(w, "and %d more that failed\n", len(sum.Failures)-i)
			break
		}
		fmt.Fprintf(w, "failed: %s %s on %s, memory %s: %s: %s\n", f.Problem, f.Method, f.Instance, f.Memory, f.Reason, render.OneLine(f.Detail))
	}
	if len(sum.Failures) > 0 {
		fmt.Fprintln(w, sum.verdict())
	}
}

// verdict counts the failed tasks by reason and names the first five.
func (sum *Summary) verdict() string {
	count := map[string]int{}
	var names []string
	for _, f := range sum.Failures {
		count[f.Reason]++
		names = append(names, fmt.Sprintf("%s %s on %s", f.Problem, f.Method, f.Instance))
	}
	return fmt.Sprintf("FAILED %d of %s: %s", len(sum.Failures), platform.Count(sum.Tasks, "task"),
		summed(counts(slices.Sorted(maps.Keys(count)), count), names))
}

// Estimate is what bench run --dry-run prints.
type Estimate struct {
	Sweep  string         `json:"sweep"`
	Folder string         `json:"folder"`
	Tasks  int            `json:"tasks"`
	Left   int            `json:"left"` // without a row in the folder
	Jobs   int            `json:"jobs"`
	Most   float64        `json:"most"`             // seconds if every task takes its time limit
	Likely *float64       `json:"likely,omitempty"` // seconds if they take what they took last time
	Last   string         `json:"last,omitempty"`   // that folder
	Counts map[string]int `json:"counts"`           // tasks by problem and method

	unlimited int // tasks without a time limit
}

// EstimateRun says what a run of the tasks in a folder would do, so many at a time;
// those with a row there are left out if it resumes.
func EstimateRun(dir, name string, tasks []sweep.Task, jobs int, resume bool) (*Estimate, error) {
	e := &Estimate{Sweep: name, Folder: dir, Tasks: len(tasks), Left: len(tasks), Jobs: jobs, Counts: map[string]int{}}
	if resume && store.Exists(dir) {
		c, err := store.Read(dir)
		if err != nil {
			return nil, err
		}
		done := map[string]bool{}
		for _, r := range c.Rows {
			done[r.ID] = true
		}
		tasks = slices.DeleteFunc(slices.Clone(tasks), func(t sweep.Task) bool { return done[t.ID()] })
		e.Left = len(tasks)
	}
	for i := range tasks {
		e.Counts[tasks[i].Problem+" "+tasks[i].Method]++
		e.Most += tasks[i].TimeLimit / float64(jobs)
		if tasks[i].TimeLimit == 0 {
			e.unlimited++
		}
	}
	e.Last, e.Likely = lastTime(dir, name, tasks, jobs)
	return e, nil
}

// Print writes an estimate for a person.
func (e *Estimate) Print(w io.Writer) {
	t := render.Table(w, table.Row{"problem", "method", "tasks"}, 3)
	for _, key := range slices.Sorted(maps.Keys(e.Counts)) {
		problem, method, _ := strings.Cut(key, " ")
		t.AppendRow(table.Row{problem, method, e.Counts[key]})
	}
	t.Render()
	fmt.Fprintf(w, "\n%s: %s", e.Sweep, platform.Count(e.Tasks, "task"))
	if e.Left < e.Tasks {
		fmt.Fprintf(w, ", %d without a row", e.Left)
	}
	fmt.Fprintf(w, "; %d at a time they take at most %s", e.Jobs, progress.Duration(time.Duration(e.Most*float64(time.Second))))
	if e.unlimited > 0 {
		fmt.Fprintf(w, " and what the %d without a time limit take", e.unlimited)
	}
	if e.Likely != nil {
		fmt.Fprintf(w, ", and %s if they take what they took in %s", progress.Duration(time.Duration(*e.Likely*float64(time.Second))), e.Last)
	}
	fmt.Fprintln(w)
}

// lastTime estimates from the newest sweep of the same name beside dir how long
// the tasks take: those that were not in it take the average.
func lastTime(dir, name string, tasks []sweep.Task, jobs int) (last string, seconds *float64) {
	folders, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Clean(dir)), "*", "tasks.jsonl"))
	if err != nil {
		return "", nil
	}
	var newest time.Time
	var rows []*sweep.Row
	for _, f := range folders {
		info, err := os.Stat(filepath.Join(filepath.Dir(f), "rows.jsonl"))
		if err != nil || !info.ModTime().After(newest) {
			continue
		}
		if c, err := store.Read(filepath.Dir(f)); err == nil && c.Sweep == name && len(c.Rows) > 0 {
			newest, rows, last = info.ModTime(), c.Rows, filepath.Dir(f)
		}
	}
	if len(rows) == 0 {
		return "", nil
	}
	took := map[string]float64{}
	mean := 0.0
	for _, r := range rows {
		d := r.Finished.Sub(r.Started).Seconds()
		took[r.Task.Key()] = d
		mean += d / float64(len(rows))
	}
	sum := 0.0
	for i := range tasks {
		d, known := took[tasks[i].Key()]
		if !known {
			d = mean
		}
		sum += d / float64(jobs)
	}
	return last, &sum
}
