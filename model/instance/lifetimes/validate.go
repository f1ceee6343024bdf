package lifetimes

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"workbench/model/platform"
	"workbench/model/strictjson"
)

// Validate checks that there is a buffer, that ids differ, that every lifetime holds an
// instant and lies within [MaxInstant], that sizes are integers of units whose sums, and
// what is lost by the alignment, are exact ([platform.MaxTotal]), and that no rule
// contradicts itself: pins lie on their alignment, within their pool, outside of reserved
// ranges and clear of each other; colocated buffers have one size, pool and pin and do
// not live together. The error is a *strictjson.FieldError. O(buffers + pairs), and
// O(pinned²).
func (l *Lifetimes) Validate() error {
	if len(l.Buffers) == 0 {
		return strictjson.Wrong("buffers", "at least one buffer is needed")
	}
	total, err := l.checkPools()
	if err != nil {
		return err
	}
	seen := strictjson.NewNames("buffers", "buffer", len(l.Buffers))
	lost := 0.0
	for i := range l.Buffers {
		x := &l.Buffers[i]
		if err := seen.Add(i, x.ID); err != nil {
			return err
		}
		if err := l.checkBuffer(i); err != nil {
			return err
		}
		total += x.Size
		lost += float64(max(x.Align, l.Align)) * l.Unit.PerByte()
	}
	if l.Align < 0 || lost >= platform.MaxTotal {
		return strictjson.Wrong("align", "%d for %d buffers: it is at least 1 byte, and the space that it wastes is less than %g units", l.Align,
			len(l.Buffers), platform.MaxTotal)
	}
	if err := strictjson.CheckTotal("buffers", total, l.Unit); err != nil {
		return err
	}
	if l.Objective != "" && !slices.Contains(Objectives(), l.Objective) {
		return strictjson.Wrong("objective", "%q; it is one of %q", l.Objective, Objectives())
	}
	return l.checkPairs()
}

// checkPools checks the pools, and returns the sum of what they reserve.
func (l *Lifetimes) checkPools() (reserved float64, err error) {
	seen := strictjson.NewNames("pools", "pool", len(l.Pools))
	for k := range l.Pools {
		p, at := &l.Pools[k], fmt.Sprintf("pools[%d]", k)
		if err := seen.Add(k, p.ID); err != nil {
			return 0, err
		}
		if !math.IsInf(p.Capacity, 1) {
			if err := strictjson.CheckSize(func() string { return at + ".capacity" }, p.Capacity, l.Unit); err != nil {
				return 0, err
			}
		}
		for r, x := range p.Reserved {
			path := func() string { return fmt.Sprintf("%s.reserved[%d]", at, r) }
			for _, address := range []float64{x.Begin, x.End} {
				if err := strictjson.CheckSize(path, address, l.Unit); err != nil {
					return 0, err
				}
			}
			if x.Begin >= x.End {
				return 0, strictjson.Wrong(path(), "[%g, %g) of pool %q has no address", l.Unit.Bytes(x.Begin), l.Unit.Bytes(x.End), p.ID)
			}
			reserved = max(reserved, x.End)
		}
	}
	return reserved, nil
}

// checkBuffer checks a buffer on its own.
func (l *Lifetimes) checkBuffer(i int) error {
	x := &l.Buffers[i]
	at := func(field string) string { return fmt.Sprintf("buffers[%d].%s", i, field) }
	switch {
	case x.Lower < -MaxInstant || x.Upper > MaxInstant:
		return strictjson.Wrong(at("lower"), "the lifetime of buffer %q, [%d, %d), leaves ±%d", x.ID, x.Lower, x.Upper, int64(MaxInstant))
	case x.Lower >= x.Upper:
		return strictjson.Wrong(at("upper"), "%d is not after lower, %d: buffer %q does not live", x.Upper, x.Lower, x.ID)
	case x.Pool < 0 || x.Pool >= len(l.PoolList()):
		return strictjson.Wrong(at("pool"), "there is no pool %d", x.Pool)
	case x.Align < 0:
		return strictjson.Wrong(at("align"), "%d; addresses are multiples of 1 byte or more", x.Align)
	}
	from := x.Lower
	for _, g := range x.Gaps {
		if g.Lower <= from || g.Upper <= g.Lower || g.Upper >= x.Upper {
			return strictjson.Wrong(at("intervals"), "buffer %q does not live before and after its gap [%d, %d), or its gaps are not in order", x.ID,
				g.Lower, g.Upper)
		}
		from = g.Upper
	}
	if err := strictjson.CheckSize(func() string { return at("size") }, x.Size, l.Unit); err != nil {
		return err
	}
	if x.Pinned {
		return l.checkPin(i, at("offset"))
	}
	return nil
}

// checkPin checks where buffer i is pinned.
func (l *Lifetimes) checkPin(i int, path string) error {
	x := &l.Buffers[i]
	if err := strictjson.CheckSize(func() string { return path }, x.Offset, l.Unit); err != nil {
		return err
	}
	p := l.PoolList()[x.Pool]
	offset, end := l.Unit.Bytes(x.Offset), x.Offset+x.Size
	switch grid := float64(l.GridOf(i)); {
	case x.Offset >= platform.MaxTotal:
		return strictjson.Wrong(path, "buffer %q is pinned to %g; offsets stay below %g", x.ID, offset, l.Unit.Bytes(platform.MaxTotal))
	case math.Mod(x.Offset, grid) != 0:
		return strictjson.Wrong(path, "buffer %q is pinned to %g, which is no multiple of its alignment, %g bytes", x.ID, offset,
			l.Unit.Bytes(grid))
	case end > p.Capacity:
		return strictjson.Wrong(path, "buffer %q is pinned to [%g, %g), beyond the capacity of pool %q, %g bytes",
			x.ID, offset, l.Unit.Bytes(end), p.ID, l.Unit.Bytes(p.Capacity))
	}
	for _, r := range p.Reserved {
		if x.Offset < r.End && r.Begin < end {
			return strictjson.Wrong(path, "buffer %q is pinned to [%g, %g), which overlaps the reserved range [%g, %g) of pool %q",
				x.ID, offset, l.Unit.Bytes(end), l.Unit.Bytes(r.Begin), l.Unit.Bytes(r.End), p.ID)
		}
	}
	return nil
}

// checkPairs checks separations, colocations, exclusions, penalties and pairs of pins.
func (l *Lifetimes) checkPairs() error {
	excluded, separated := map[Pair]bool{}, map[Pair]bool{}
	lists := []struct {
		name, what string
		pairs      []Pair
		into       map[Pair]bool
	}{
		{"exclusions", "excluded from", l.Exclusions, excluded},
		{"separations", "separated from", l.Separations, separated},
		{"colocations", "colocated with", l.Colocations, nil},
		{"penalties", "penalised with", nil, nil},
	}
	sum := 0.0
	for k, p := range l.Penalties {
		lists[3].pairs = append(lists[3].pairs, p.Pair)
		if sum += float64(p.Cost); p.Cost < 0 || sum >= platform.MaxTotal {
			return strictjson.Wrong(fmt.Sprintf("penalties[%d].cost", k), "%d; costs are from 0 on, and together below %g", p.Cost,
				platform.MaxTotal)
		}
	}
	for _, list := range lists {
		for k, p := range list.pairs {
			path := fmt.Sprintf("%s[%d]", list.name, k)
			switch n := len(l.Buffers); {
			case p.First < 0 || p.Second < 0 || p.First >= n || p.Second >= n:
				return strictjson.Wrong(path, "there is no such buffer")
			case p.First == p.Second:
				return strictjson.Wrong(path, "buffer %q is %s itself", l.Buffers[p.First].ID, list.what)
			}
			if list.into != nil {
				list.into[p.sorted()] = true
			}
		}
	}
	together := func(i, j int) bool {
		return separated[Pair{i, j}.sorted()] || l.Buffers[i].Overlaps(&l.Buffers[j]) && !excluded[Pair{i, j}.sorted()]
	}
	if err := l.checkColocations(together); err != nil {
		return err
	}
	return l.checkPins(together)
}

// sorted returns the pair, the smaller index first.
func (p Pair) sorted() Pair { return Pair{min(p.First, p.Second), max(p.First, p.Second)} }

// checkColocations checks every set of buffers that have to be at one address.
func (l *Lifetimes) checkColocations(together func(i, j int) bool) error {
	for _, class := range l.Classes() {
		for k, j := range class {
			for _, i := range class[:k] {
				a, b := &l.Buffers[i], &l.Buffers[j]
				wrong := func(format string, args ...any) error {
					return strictjson.Wrong("colocations", "buffers %q and %q are colocated and "+format, append([]any{a.ID, b.ID}, args...)...)
				}
				switch {
				case a.Size != b.Size:
					return wrong("have different sizes, %g and %g bytes", l.Unit.Bytes(a.Size), l.Unit.Bytes(b.Size))
				case a.Pool != b.Pool:
					return wrong("are in different pools")
				case a.Pinned && b.Pinned && a.Offset != b.Offset:
					return wrong("are pinned to %g and %g", l.Unit.Bytes(a.Offset), l.Unit.Bytes(b.Offset))
				case a.Size > 0 && (a.Exclusive || b.Exclusive):
					return wrong("one of them is exclusive")
				case a.Size > 0 && together(i, j):
					return wrong("live at the same time, or are separated")
				}
			}
		}
	}
	return nil
}

// Classes returns the sets of two and more buffers that colocations put at one address,
// each in order. O(buffers + colocations).
func (l *Lifetimes) Classes() [][]int {
	if len(l.Colocations) == 0 {
		return nil
	}
	of := make([]int, len(l.Buffers))
	for i := range of {
		of[i] = i
	}
	root := func(i int) int {
		for of[i] != i {
			of[i] = of[of[i]]
			i = of[i]
		}
		return i
	}
	for _, p := range l.Colocations {
		a, b := root(p.First), root(p.Second)
		of[max(a, b)] = min(a, b)
	}
	sets := map[int][]int{}
	var roots []int
	for i := range of {
		r := root(i)
		if sets[r] = append(sets[r], i); len(sets[r]) == 2 {
			roots = append(roots, r)
		}
	}
	slices.Sort(roots)
	classes := make([][]int, 0, len(roots))
	for _, r := range roots {
		classes = append(classes, sets[r])
	}
	return classes
}

// checkPins checks that pinned buffers, and those that are colocated with one, lie on their
// alignment and do not overlap where they may not.
func (l *Lifetimes) checkPins(together func(i, j int) bool) error {
	at := make(map[int]float64)
	for i := range l.Buffers {
		if b := &l.Buffers[i]; b.Pinned {
			at[i] = b.Offset
		}
	}
	for _, class := range l.Classes() {
		for _, i := range class {
			if !l.Buffers[i].Pinned {
				continue
			}
			for _, j := range class {
				if at[j] = at[i]; math.Mod(at[j], float64(l.GridOf(j))) != 0 {
					return strictjson.Wrong("colocations", "buffer %q is colocated with %q, whose pin, %g, is no multiple of its alignment",
						l.Buffers[j].ID, l.Buffers[i].ID, l.Unit.Bytes(at[i]))
				}
			}
		}
	}
	pinned := slices.SortedFunc(maps.Keys(at), func(i, j int) int { return cmp.Or(cmp.Compare(at[i], at[j]), cmp.Compare(i, j)) })
	for k, i := range pinned {
		a := &l.Buffers[i]
		for _, j := range pinned[k+1:] {
			b := &l.Buffers[j]
			if at[j] >= at[i]+a.Size {
				break
			}
			if a.Pool == b.Pool && b.Size > 0 && (a.Exclusive || b.Exclusive || together(i, j)) {
				return strictjson.Wrong(fmt.Sprintf("buffers[%d].offset", j), "the pins of buffers %q and %q overlap: [%g, %g) and [%g, %g)", a.ID,
					b.ID,
					l.Unit.Bytes(at[i]), l.Unit.Bytes(at[i]+a.Size), l.Unit.Bytes(at[j]), l.Unit.Bytes(at[j]+b.Size))
			}
		}
	}
	return nil
}
