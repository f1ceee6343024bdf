package backends

import (
	"context"
	"fmt"
	"io"
	"strings"

	"workbench/solvers"
)

// Checkup is one backend as found.
type Checkup struct {
	Backend string `json:"backend"`
	OK      bool   `json:"ok"`
	Version string `json:"version,omitempty"`
	Missing string `json:"missing,omitempty"` // why it is not there
	Install string `json:"install,omitempty"` // what to do about it
	// Lost is what a program by command does not offer.
	Lost string `json:"lost,omitempty"`
	// Wrong are tiny models of known optima that it answers wrongly.
	Wrong []string `json:"wrong,omitempty"`
}

// Examine returns all backends as found. An error is about the file of the configuration.
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
