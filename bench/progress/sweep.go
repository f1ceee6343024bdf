package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"workbench/bench/sweep"
	"workbench/bench/sweep/worker"
)

// Sweep shows a running sweep: a bar on a terminal, a line now and then
// elsewhere. The zero value shows nothing.
type Sweep struct {
	w     io.Writer
	p     *worker.Progress
	pool  *mpb.Progress
	bar   *mpb.Bar
	quit  chan struct{}
	ended chan struct{}
}

// lineEvery is how often a line is written where there is no terminal.
const lineEvery = 15 * time.Second

// NewSweep begins to show a sweep on w.
func NewSweep(w io.Writer, p *worker.Progress, quiet bool) *Sweep {
	d := &Sweep{w: w, p: p}
	now := p.Snapshot()
	if quiet || now.Done == now.Total {
		return d
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
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

// Row is called after each row.
func (d *Sweep) Row(*sweep.Row) {
	if d.bar != nil {
		d.bar.SetCurrent(int64(d.p.Snapshot().Done))
	}
}

// Done ends the display, before anything else is printed.
func (d *Sweep) Done() {
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
	line += ", " + Duration(n.Elapsed)
	if n.Left > 0 {
		line += ", about " + Duration(n.Left) + " left"
	}
	return line
}

// Duration writes a duration to the second, to the minute from an hour on, and to the
// tenth of a second up to ten seconds.
func Duration(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	if d >= time.Hour {
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return d.Round(time.Second).String()
}
