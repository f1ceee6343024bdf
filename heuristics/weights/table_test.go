package weights

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"workbench/model/chain"
	"workbench/model/cycle"
	"workbench/model/platform"
)

// row is a row of [001] Table 1.
type row struct {
	net          string
	depth, batch int
	compute      float64 // Σu, ms
	move         float64 // |w|/β at 12 GB/s, ms
}

var table1 = []row{
	{"GPT-2", 74, 64, 47421, 35.95}, {"GPT-2", 56, 64, 35553, 35.95}, {"GPT-2", 38, 64, 23694, 35.95},
	{"GPT-2", 74, 32, 23697, 35.95}, {"GPT-2", 56, 32, 17762, 35.95}, {"GPT-2", 38, 32, 11840, 35.95},
	{"GPT-2", 74, 16, 11612, 35.95}, {"GPT-2", 56, 16, 8697, 35.95}, {"GPT-2", 38, 16, 5794, 35.95},
	{"Bert", 144, 64, 34486, 13.6}, {"Bert", 96, 64, 22965, 13.6},
	{"Bert", 144, 32, 17443, 13.6}, {"Bert", 96, 32, 11617, 13.6},
	{"Bert", 144, 16, 9090, 13.6}, {"Bert", 96, 16, 6058, 13.6},
}

// chain returns a chain like the one of the row: equal layers but for the
// first and the last, which are nearly free.
func (r row) chain() *chain.Chain {
	c := &chain.Chain{Name: fmt.Sprintf("%s-%d-%d", r.net, r.depth, r.batch)}
	u := r.compute / 1e3 / (float64(r.depth-2) + 0.02)
	for i := range r.depth {
		t := u
		if i == 0 || i == r.depth-1 {
			t = u / 100
		}
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: t / 4, BackwardTime: t * 3 / 4,
			Activation: 20e6 * float64(r.batch) / 16, Weight: r.move / 1e3 * 12e9,
		})
	}
	return c
}

func TestPrintTable(t *testing.T) {
	if os.Getenv("WEIGHTS_TABLE") == "" {
		t.Skip()
	}
	show := func(r row, share, beta float64) {
		c := r.chain()
		low, high := cycle.Of(c).Range()
		p := platform.Platform{Memory: low + share*(high-low), Bandwidth: beta}
		b, err := Bounds(c, p)
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("%-14s %3.0f%% %4.1fGB/s bound %8.1f (%+.2f%%)", c.Name, share*100, beta/1e9, b[0].Value*1e3, 100*(b[0].Value/c.TotalTime()-1))
		for _, m := range methods() {
			if got, err := m.run(c, p); err == nil {
				line += fmt.Sprintf(" %s %+.2f%%", m.name[:3]+m.name[len(m.name)-1:], 100*(*got.Period/b[0].Value-1))
			}
		}
		begin := time.Now()
		got, err := Search(context.Background(), c, p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		took := time.Since(begin)
		verify(t, c, got)
		fmt.Printf("%s search %+.3f%% in %v\n", line, 100*(*got.Period/b[0].Value-1), took.Round(time.Millisecond))
	}
	which := os.Getenv("WEIGHTS_TABLE")
	if which == "rows" || which == "all" {
		for _, r := range table1 {
			for _, share := range []float64{0.1, 0.25, 0.6} {
				show(r, share, 12e9)
			}
		}
	}
	if which == "sweep" || which == "all" {
		for _, i := range []int{0, 3, 6, 8} {
			for _, share := range []float64{0.1, 0.25, 0.6} {
				for _, beta := range []float64{0.5e9, 1e9, 2e9, 4e9, 8e9} {
					show(table1[i], share, beta)
				}
			}
		}
	}
}
