package main

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
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"workbench/bench/run"
	"workbench/bench/store"
	"workbench/bench/sweep"
	"workbench/bench/worker"
)

// display shows a running sweep: a bar on a terminal, a line now and then
// elsewhere. The zero value shows nothing.
type display struct {
	w     io.Writer
	p     *worker.Progress
	pool  *mpb.Progress
	bar   *mpb.Bar
	quit  chan struct{}
	ended chan struct{}
}

// lineEvery is how often a line is written where there is no terminal.
const lineEvery = 15 * time.Second

func showProgress(s streams, o *benchOptions, p *worker.Progress) *display {
	d := &display{w: s.err, p: p}
	now := p.Snapshot()
	if o.quiet || now.Done == now.Total {
		return d
	}
	if f, ok := s.err.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		d.pool = mpb.New(mpb.WithOutput(f), mpb.WithRefreshRate(200*time.Millisecond))
		d.bar = d.pool.AddBar(int64(now.Total), mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
			return " " + progressLine(p.Snapshot())
		})))
		d.bar.SetCurrent(int64(now.Done))
		return d
	}
	d.quit, d.ended = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(d.ended)
		tick := time.NewTicker(lineEvery)
		defer tick.Stop()
		for {
			select {
			case <-d.quit:
				return
			case <-tick.C:
				fmt.Fprintln(d.w, progressLine(p.Snapshot()))
			}
		}
	}()
	return d
}

// row is called after each row.
func (d *display) row(*sweep.Row) {
	if d.bar != nil {
		d.bar.SetCurrent(int64(d.p.Snapshot().Done))
	}
}

// done ends the display, before anything else is printed.
func (d *display) done() {
	if d.bar != nil {
		d.bar.Abort(true)
		d.pool.Wait()
	}
	if d.quit != nil {
		close(d.quit)
		<-d.ended
	}
}

// progressLine says how far a sweep is.
func progressLine(n worker.Snapshot) string {
	line := fmt.Sprintf("%d of %d tasks", n.Done, n.Total)
	if n.Failed > 0 {
		line += fmt.Sprintf(", %d failed", n.Failed)
	}
	line += ", " + short(n.Elapsed)
	if n.Left > 0 {
		line += ", about " + short(n.Left) + " left"
	}
	return line
}

// short writes a duration to the second, to the minute from an hour on, and to the
// tenth of a second up to ten seconds.
func short(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	if d >= time.Hour {
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return d.Round(time.Second).String()
}

// summary is what bench run prints at its end.
type summary struct {
	Sweep    string                 `json:"sweep"`
	Folder   string                 `json:"folder"`
	Tasks    int                    `json:"tasks"`
	New      int                    `json:"new"`  // rows of this run
	Wall     float64                `json:"wall"` // seconds of this run
	Problems map[string]statusTally `json:"problems"`
	Failures []failureLine          `json:"failures"`
}

// statusTally counts rows by status, those that failed under their reason.
type statusTally map[string]int

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

// summarise prints what a sweep that is done came to.
func summarise(s streams, o *benchOptions, dir string, tasks []sweep.Task, n worker.Snapshot) error {
	c, err := store.Read(dir)
	if err != nil {
		return err
	}
	sum := summary{Sweep: c.Sweep, Folder: dir, Tasks: len(tasks), New: n.Fresh, Wall: n.Elapsed.Seconds(), Problems: map[string]statusTally{}, Failures: []failureLine{}}
	wanted := map[string]bool{}
	for i := range tasks {
		wanted[tasks[i].ID()] = true
	}
	for _, r := range c.Rows {
		if wanted[r.ID] {
			sum.count(r)
		}
	}
	if o.json() {
		return writeJSON(s.out, sum)
	}
	sum.print(s.out)
	return nil
}

func (sum *summary) count(r *sweep.Row) {
	tally := sum.Problems[r.Task.Problem]
	if tally == nil {
		tally = statusTally{}
		sum.Problems[r.Task.Problem] = tally
	}
	if f := r.Failure; f != nil {
		tally["failed"]++
		sum.Failures = append(sum.Failures, failureLine{r.ID, r.Task.Problem, r.Task.Method, r.Task.Instance, r.Task.MemoryName, f.Reason, f.Detail})
		return
	}
	tally[string(r.Result.Status)]++
}

func (sum *summary) print(w io.Writer) {
	statuses := []string{string(run.Optimal), string(run.Feasible), string(run.Infeasible), string(run.Limit), string(run.Failed), "failed"}
	head := table.Row{"problem", "tasks"}
	for _, x := range statuses {
		head = append(head, x)
	}
	t := newTable(w, head, 2, 3, 4, 5, 6, 7, 8)
	for _, p := range slices.Sorted(maps.Keys(sum.Problems)) {
		all := 0
		row := table.Row{p, 0}
		for _, x := range statuses {
			n := sum.Problems[p][x]
			all += n
			row = append(row, n)
		}
		row[1] = all
		t.AppendRow(row)
	}
	t.Render()
	fmt.Fprintf(w, "\n%s: %d tasks, %d of them now in %s; rows in %s\n", sum.Sweep, sum.Tasks, sum.New, short(time.Duration(sum.Wall*float64(time.Second))), filepath.Join(sum.Folder, "rows.jsonl"))
	for i, f := range sum.Failures {
		if i == mostFailures {
			fmt.Fprintf(w, "and %d more that failed\n", len(sum.Failures)-i)
			break
		}
		fmt.Fprintf(w, "failed: %s %s on %s, memory %s: %s: %s\n", f.Problem, f.Method, f.Instance, f.Memory, f.Reason, oneLine(f.Detail))
	}
}

// estimate is what bench run --dry-run prints.
type estimate struct {
	Sweep  string         `json:"sweep"`
	Folder string         `json:"folder"`
	Tasks  int            `json:"tasks"`
	Left   int            `json:"left"` // without a row in the folder
	Jobs   int            `json:"jobs"`
	Most   float64        `json:"most"`             // seconds if every task takes its time limit
	Likely *float64       `json:"likely,omitempty"` // seconds if they take what they took last time
	Last   string         `json:"last,omitempty"`   // that folder
	Counts map[string]int `json:"counts"`           // tasks by problem and method
}

// dryRun says what a run would do.
func dryRun(s streams, o *benchOptions, dir string, list *store.Sweep) error {
	tasks, _, err := o.part(list.Tasks)
	if err != nil {
		return err
	}
	e := estimate{Sweep: list.Name, Folder: dir, Tasks: len(tasks), Left: len(tasks), Jobs: o.jobs, Counts: map[string]int{}}
	unlimited := 0
	if store.Exists(dir) && o.resume {
		c, err := store.Read(dir)
		if err != nil {
			return err
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
		e.Most += tasks[i].TimeLimit / float64(o.jobs)
		if tasks[i].TimeLimit == 0 {
			unlimited++
		}
	}
	e.Last, e.Likely = lastTime(dir, list.Name, tasks, o.jobs)
	if o.json() {
		return writeJSON(s.out, e)
	}
	t := newTable(s.out, table.Row{"problem", "method", "tasks"}, 3)
	for _, key := range slices.Sorted(maps.Keys(e.Counts)) {
		problem, method, _ := strings.Cut(key, " ")
		t.AppendRow(table.Row{problem, method, e.Counts[key]})
	}
	t.Render()
	fmt.Fprintf(s.out, "\n%s: %d tasks", e.Sweep, e.Tasks)
	if e.Left < e.Tasks {
		fmt.Fprintf(s.out, ", %d without a row", e.Left)
	}
	fmt.Fprintf(s.out, "; %d at a time they take at most %s", e.Jobs, short(time.Duration(e.Most*float64(time.Second))))
	if unlimited > 0 {
		fmt.Fprintf(s.out, " and what the %d without a time limit take", unlimited)
	}
	if e.Likely != nil {
		fmt.Fprintf(s.out, ", and %s if they take what they took in %s", short(time.Duration(*e.Likely*float64(time.Second))), e.Last)
	}
	fmt.Fprintln(s.out)
	return nil
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
