package remat

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/exhaustive"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
	verifyremat "workbench/model/verify/remat"
)

// Decimal numbers that float64 does not hold are added exactly: 0.1 and 0.2
// bytes fit in 0.3, which their sum as float64 exceeds.
func TestDecimalsFit(t *testing.T) {
	c := readChain(t, `{"format": "workbench.chain/v1", "input": {"activation": 0.1, "gradient": 0},
		"layers": [{"forward_time": 1, "backward_time": 1, "activation": 0.2, "gradient": 0}]}`)
	for limit, fits := range map[float64]bool{0.3: true, 0.2: false, 0.2999999999999998: false} {
		memory := c.Unit.FromBytes(limit)
		makespan, p, err := Search(c, memory, states)
		if fits != (err == nil) || !fits && !errors.Is(err, exhaustive.ErrInfeasible) {
			t.Fatalf("%v bytes: %v, %v", limit, makespan, err)
		}
		if !fits {
			continue
		}
		again, err := plan.Read(strings.NewReader(testfile.Text(t, p)), "plan.json")
		if err != nil {
			t.Fatal(err)
		}
		if again.Platform.Memory != 0.3 || again.Claims.PeakMemory != 0.3 {
			t.Errorf("the file says %+v, %+v", again.Platform, again.Claims)
		}
		r, err := verifyremat.Verify(c, again)
		if err != nil || !r.Valid() || len(r.ClaimErrors) > 0 || r.PeakMemory != 0.3 {
			t.Errorf("read back: %+v, %v", r, err)
		}
	}
}

// The verifier and the search agree at the edge of memory: at the least memory
// there is a plan, and its file is valid; a unit below it there is none, and the
// plan is refused. Sizes are from 1 to 1e12 units, with and without decimals.
func TestEdgeOfMemory(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 5))
		unit := platform.Unit(rapid.IntRange(0, 2).Draw(t, "decimals"))
		c := readChain(t, mixedChain(r, rapid.IntRange(1, 4).Draw(t, "layers"), unit))
		least, err := LeastMemory(c, states)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := Search(c, least-1, states); !errors.Is(err, exhaustive.ErrInfeasible) {
			t.Fatalf("a unit below the least memory %v: %v", least, err)
		}
		for _, memory := range []float64{least, least + 1, least + float64(r.IntN(4))} {
			makespan, p, err := Search(c, memory, states)
			if err != nil {
				t.Fatalf("memory %v, the least is %v: %v", memory, least, err)
			}
			again, err := plan.Read(strings.NewReader(testfile.Text(t, p)), "plan.json")
			if err != nil {
				t.Fatal(err)
			}
			found, err := verifyremat.Verify(c, again)
			if err != nil || !found.Valid() || len(found.ClaimErrors) > 0 || found.Makespan != makespan {
				t.Fatalf("memory %v, makespan %v: %+v, %v", memory, makespan, found, err)
			}
			again.Platform.Memory = c.Unit.Bytes(c.Unit.FromBytes(found.PeakMemory) - 1)
			if found, err = verifyremat.Verify(c, again); err != nil || found.Valid() {
				t.Fatalf("a unit below the peak of the plan: %+v, %v", found, err)
			}
		}
	})
}

// mixedChain is a file of a chain with sizes of mixed magnitude, of whole units.
func mixedChain(r *rand.Rand, layers int, unit platform.Unit) string {
	size := func() string {
		digits := fmt.Sprintf("%0*d", int(unit)+1, magnitude(r))
		if unit == platform.Byte {
			return digits
		}
		return digits[:len(digits)-int(unit)] + "." + digits[len(digits)-int(unit):]
	}
	var b strings.Builder
	fmt.Fprintf(&b, `{"format": "workbench.chain/v1", "input": {"activation": %s, "gradient": %s}, "layers": [`, size(), size())
	for l := range layers {
		if l > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, `{"forward_time": %d, "backward_time": 1, "activation": %s, "gradient": %s, `+
			`"forward_overhead": %s, "backward_overhead": %s}`,
			r.IntN(4), size(), size(), size(), size())
	}
	return b.String() + "]}"
}

// magnitude returns a whole number from 0 to 1e12, of any number of digits.
func magnitude(r *rand.Rand) int64 {
	n := int64(1)
	for range r.IntN(13) {
		n *= 10
	}
	return r.Int64N(n + 1)
}

func readChain(t rapid.TB, document string) *chain.Chain {
	t.Helper()
	c, err := chain.Read(strings.NewReader(document), "chain.json")
	if err != nil {
		t.Fatalf("%v\n%s", err, document)
	}
	return c
}
