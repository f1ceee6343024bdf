package backends

import (
	"context"
	"fmt"
	"io"
	"strings"

	"workbench/solvers"
)

// Checkup is the state of one backend.
type Checkup struct {
	Backend string `json:"backend"`
	OK      bool   `json:"ok"`
	Version string `json:"version,omitempty"`
	Missing string `json:"missing,omitempty"` // why it is unavailable
	Install string `json:"install,omitempty"` // how to install it
	// Lost lists the features that a program called by command lacks.
	Lost string `json:"lost,omitempty"`
	// Wrong lists tiny models of known optima that it solves incorrectly.
	Wrong []string `json:"wrong,omitempty"`
}

// Examine returns the state of all backends. The error is about the configuration file.
func Examine(ctx context.Context) (found []Checkup, err error) {
	commands, err := Commands()
	for _, b := range append(All(), commands...) {
		c := Checkup{Backend: b.Name, Lost: b.Lost}
		if err := b.Available(); err != nil {
			c.Missing, c.Install = err.Error(), b.Install
		} else {
			c.OK, c.Version = true, b.Version()
			c.Wrong = solvers.Wrong(ctx, solvers.New(b.Engine))
		}
		found = append(found, c)
	}
	return found, err
}

// Text prints a checkup.
func (c *Checkup) Text(w io.Writer) {
	if !c.OK {
		fmt.Fprintf(w, "%-13s missing  %s\n", c.Backend, strings.Join(strings.Fields(c.Missing), " "))
		if !strings.Contains(c.Missing, c.Install) {
			fmt.Fprintf(w, "%-13s          install it with: %s\n", "", c.Install)
		}
		return
	}
	fmt.Fprintf(w, "%-13s ok       %s\n", c.Backend, c.Version)
	if c.Lost != "" {
		fmt.Fprintf(w, "%-13s          by command, without: %s\n", "", c.Lost)
	}
	for _, wrong := range c.Wrong {
		fmt.Fprintf(w, "%-13s wrong    %s\n", "", wrong)
	}
}
