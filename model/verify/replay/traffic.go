package replay

import (
	"fmt"

	"workbench/model/platform"
)

// Traffic is what goes over one link in a period.
type Traffic struct {
	Transfers int     `json:"transfers"`
	Bytes     float64 `json:"bytes"`
	Busy      float64 `json:"busy"` // part of the period, 1: all of it
}

// Add counts a transfer; Busy is in seconds until all are counted.
func (t *Traffic) Add(bytes, seconds float64) {
	t.Transfers++
	t.Bytes += bytes
	t.Busy = InRange(t.Busy + seconds)
}

// Describe returns it in words, what being the plural of the transfers.
func (t *Traffic) Describe(what string, bandwidth float64) string {
	if t.Transfers == 0 {
		return "no " + what
	}
	return fmt.Sprintf("%d %s of %s, the link at %s busy for %.2f %%",
		t.Transfers, what, platform.FormatBytes(t.Bytes), platform.FormatRate(bandwidth), 100*t.Busy)
}
