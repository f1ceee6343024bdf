// Package progress shows on a terminal, or line by line elsewhere, what is going on: in a
// solve, and in a sweep.
package progress

import (
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"workbench/bench/solve"
	"workbench/model/platform"
)

// Solve shows a running solve: one line redrawn in place on a terminal,
// plain lines elsewhere, on every better plan or bound and at most every half
// second.
type Solve struct {
	mu    sync.Mutex
	w     io.Writer
	tty   bool
	width int
	rows  int
	start time.Time
	last  time.Time
	best  solve.Progress // known
	seen  solve.Progress // shown
	stop  func()         // ends the clock; nil if there is none
	limit time.Duration  // 0: none
	write func(objective float64) string
}

const (
	redraw       = 100 * time.Millisecond // on a terminal, at most
	tick         = 500 * time.Millisecond // on a terminal, at least
	plainEvery   = 500 * time.Millisecond // elsewhere, when something improved
	headingEvery = 30
)

// NewSolve begins to show a solve of the problem on w, which a time limit ends; 0: there is none.
func NewSolve(w io.Writer, p *solve.Problem, limit time.Duration) *Solve {
	nothing := solve.Progress{Objective: math.NaN(), Bound: math.Inf(-1)}
	s := &Solve{w: w, write: p.Write, limit: limit, width: 100, start: time.Now(), best: nothing, seen: nothing}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		s.tty = true
		if cols, _, err := term.GetSize(int(f.Fd())); err == nil && cols > 20 {
			s.width = cols
		}
		s.startClock()
	}
	return s
}

// startClock keeps the line alive between events, which may be far apart.
func (s *Solve) startClock() {
	ticker, done := time.NewTicker(tick), make(chan struct{})
	s.stop = func() { close(done) }
	go func() {
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				s.mu.Lock()
				if s.stop != nil && time.Since(s.last) >= tick {
					s.print(s.seen)
				}
				s.mu.Unlock()
			}
		}
	}()
}

// Live shows progress on terminals only.
func (s *Solve) Live(p solve.Progress) {
	if s.tty {
		s.Update(p)
	}
}

// Update is called with every progress event.
func (s *Solve) Update(p solve.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	// Phases begin anew, what is known stays.
	if !(p.Objective <= s.best.Objective) && !math.IsNaN(s.best.Objective) {
		p.Objective = s.best.Objective
	}
	if !(p.Bound >= s.best.Bound) {
		p.Bound = s.best.Bound
	}
	s.best = p
	// NaN compares unequal to itself: a first plan is an improvement.
	improved := (p.Objective != s.seen.Objective && !math.IsNaN(p.Objective)) || p.Bound > s.seen.Bound
	pause := plainEvery
	if s.tty {
		pause = redraw
	}
	if now.Sub(s.last) < pause || (!s.tty && !improved) {
		return
	}
	s.last, s.seen = now, p
	s.print(p)
}

// Done removes the line, so that results can follow. A nil Solve shows
// nothing, here as elsewhere.
func (s *Solve) Done() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		s.stop()
		s.stop = nil
		fmt.Fprint(s.w, "\r\033[K")
	}
}

func (s *Solve) print(p solve.Progress) {
	objective, bound, gap := "-", "-", "-"
	if !math.IsNaN(p.Objective) {
		objective = s.write(p.Objective)
	}
	if !math.IsInf(p.Bound, 0) && !math.IsNaN(p.Bound) {
		bound = s.write(p.Bound)
		if !math.IsNaN(p.Objective) {
			gap = fmt.Sprintf("%.3f %%", 100*platform.Gap(p.Objective, p.Bound))
		}
	}
	if s.tty {
		now := clock(time.Since(s.start))
		if left := s.limit - time.Since(s.start); left > 0 {
			now += " (at most " + clock(left) + " left)"
		}
		line := fmt.Sprintf("%s  %s  plan %s  bound %s  gap %s", now, p.Phase, objective, bound, gap)
		if p.Nodes > 0 {
			line += fmt.Sprintf("  nodes %d", p.Nodes)
		}
		if len(line) >= s.width {
			line = line[:s.width-1]
		}
		if os.Getenv("NO_COLOR") == "" { // dim: results are what follows it
			line = "\033[2m" + line + "\033[0m"
		}
		fmt.Fprintf(s.w, "\r\033[K%s", line)
		return
	}
	if s.rows%headingEvery == 0 {
		fmt.Fprintf(s.w, "%8s  %-16s %12s %12s %10s %8s\n", "time", "phase", "plan", "bound", "gap", "nodes")
	}
	s.rows++
	fmt.Fprintf(s.w, "%8s  %-16s %12s %12s %10s %8d\n", clock(p.Elapsed), p.Phase, objective, bound, gap, p.Nodes)
}

func clock(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }
