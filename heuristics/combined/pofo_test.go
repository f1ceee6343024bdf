package combined

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/chain"
	"workbench/model/exhaustive"
	"workbench/model/plan"
	"workbench/model/platform"
)

// randomPlatform has memory between the least and all.
func randomPlatform(r *rand.Rand, c *chain.Chain) platform.Platform {
	least, _ := Least(c)
	_, high := Range(c)
	p := platform.Platform{Memory: least + float64(r.IntN(int(max(0, high-least))+1))}
	p.Bandwidth = []float64{0.5, 1, 2, 4}[r.IntN(4)]
	return p
}

func TestPOFO(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ctx := context.Background()
	found := 0
	for range 3000 {
		c := exhaustive.RandomChain(r, 1+r.IntN(8))
		p := randomPlatform(r, c)
		_, out, err := POFOClaim(ctx, c, p, 1+r.IntN(30))
		if errors.Is(err, plan.ErrNoPlan) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		found++
		verified(t, c, out)
	}
	t.Log(found)
	_ = math.Inf
}
