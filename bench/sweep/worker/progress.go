package worker

import (
	"sync"
	"time"

	"workbench/bench/sweep"
)

// Progress counts the tasks done in a run and estimates the remaining time. Its methods may be called from any
// goroutine.
type Progress struct {
	mu      sync.Mutex
	jobs    int
	begun   time.Time
	total   int
	done    int // with rows, including those of earlier runs
	fresh   int // rows of this run
	failed  int // failures in this run
	waiting map[string]int
	took    map[string]mean // by method
	all     mean
}

// mean is a mean of durations.
type mean struct {
	n   int
	sum time.Duration
}

func (m mean) value() time.Duration {
	if m.n == 0 {
		return 0
	}
	return m.sum / time.Duration(m.n)
}

// NewProgress starts counting: of total tasks the given ones are missing, on the given number of jobs.
func NewProgress(total int, missing []sweep.Task, jobs int) *Progress {
	p := &Progress{
		jobs: max(jobs, 1), begun: time.Now(), total: total, done: total - len(missing),
		waiting: map[string]int{}, took: map[string]mean{},
	}
	for i := range missing {
		p.waiting[method(&missing[i])]++
	}
	return p
}

func method(t *sweep.Task) string { return t.Problem + " " + t.Method }

// Row counts a finished task.
func (p *Progress) Row(r *sweep.Row) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	p.fresh++
	if r.Failure != nil {
		p.failed++
	}
	key := method(&r.Task)
	p.waiting[key]--
	d := r.Finished.Sub(r.Started)
	m := p.took[key]
	p.took[key] = mean{m.n + 1, m.sum + d}
	p.all = mean{p.all.n + 1, p.all.sum + d}
}

// Snapshot is the state of a run.
type Snapshot struct {
	Total, Done, Fresh, Failed int
	Elapsed                    time.Duration
	// Left is the estimated remaining time. The tasks of each method take the average of its finished tasks, or of
	// all finished tasks if it has none. The overhead of the run stays in proportion. 0: unknown.
	Left time.Duration
}

// Snapshot returns the state. O(methods).
func (p *Progress) Snapshot() Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Snapshot{Total: p.total, Done: p.done, Fresh: p.fresh, Failed: p.failed, Elapsed: time.Since(p.begun)}
	var left time.Duration
	for key, n := range p.waiting {
		m, known := p.took[key]
		if !known {
			m = p.all
		}
		left += time.Duration(n) * m.value()
	}
	s.Left = left / time.Duration(p.jobs)
	if spent := float64(s.Elapsed) * float64(p.jobs); p.all.sum > 0 && spent > float64(p.all.sum) {
		s.Left = time.Duration(float64(s.Left) * spent / float64(p.all.sum))
	}
	return s
}
