package rematoffload

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"unsafe"

	"workbench/model/platform"
	view "workbench/model/problem/rematoffload"
)

// bytes is what the tables have room for, counted apart from the ledger.
func (d *tails) bytes() int {
	return size(d.all) + size(d.first) + size(d.count) + size(d.scratch.states) + size(d.scratch.found) +
		size(d.scratch.cells) + size(d.scratch.order) + size(d.scratch.grid) + size(d.scratch.reach)
}

func size[T any](list []T) int { return cap(list) * int(unsafe.Sizeof(*new(T))) }

// Whatever limit the tables of POFO have they are no larger, and a limit that is
// large enough changes nothing.
func TestTablesStayWithinTheirLimit(t *testing.T) {
	c := hundred(24)
	low, high := view.Range(c)
	in, err := newInstance(c, platform.Platform{Memory: 0.7*low + 0.3*high, Bandwidth: 12e9})
	if err != nil {
		t.Fatal(err)
	}
	ctx, slots := context.Background(), 40
	var sizes []int // of tables that there was room for
	var claims []float64
	for limit := 1 << 10; limit <= 1<<23; limit += limit / 6 {
		d, err := newTails(ctx, in, slots, coarse, math.Inf(1), limit)
		var large *TooLargeError
		switch {
		case errors.As(err, &large):
			if large.Limit != float64(limit) {
				t.Errorf("%d bytes: %v", limit, err)
			}
			continue
		case err != nil:
			t.Fatal(err)
		}
		claim := math.Inf(1)
		found, err := in.pofoWith(ctx, d, both, math.Inf(1), grids)
		if err == nil {
			claim = found[0].claim
		} else if !errors.As(err, &large) {
			t.Fatal(err)
		}
		if d.ledger.taken != d.bytes() || d.ledger.taken > limit {
			t.Errorf("%d bytes: tables of %d, counted as %d", limit, d.bytes(), d.ledger.taken)
		}
		sizes, claims = append(sizes, d.bytes()), append(claims, claim)
	}
	last := len(claims) - 1
	if len(claims) < 5 || sizes[0] >= sizes[last] || slices.Min(claims) < claims[last] || claims[last-1] != claims[last] ||
		sizes[last-1] != sizes[last] {
		t.Errorf("tables of %d bytes claim %v", sizes, claims)
	}
}

// However many slots Search is asked for it takes what fits.
func TestSearchTakesNoTableThatIsTooLarge(t *testing.T) {
	c := hundred(24)
	low, high := view.Range(c)
	p := platform.Platform{Memory: 0.7*low + 0.3*high, Bandwidth: 12e9}
	out, err := Search(context.Background(), c, p, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	verified(t, c, out)
	for _, slots := range []int{50, 100, 200, 400, 800} {
		in, err := newInstance(c, p)
		if err != nil {
			t.Fatal(err)
		}
		d, err := newTails(context.Background(), in, slots, coarse, math.Inf(1), searchLimit)
		if large := 4*math.Pow(float64(slots), 3) > searchLimit; errors.As(err, new(*TooLargeError)) != large {
			t.Errorf("%d slots: %v", slots, err)
		}
		if err == nil && d.bytes() > searchLimit {
			t.Errorf("%d slots: %d bytes", slots, d.bytes())
		}
	}
}
