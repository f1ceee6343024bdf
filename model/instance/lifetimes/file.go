package lifetimes

import (
	"encoding/json"
	"fmt"
	"io"
	"math"

	"workbench/model/platform"
	"workbench/model/strictjson"
)

// MaxInstant is the largest instant, in either direction: every reader of JSON
// reads it exactly.
const MaxInstant = 1<<53 - 1

// file and its parts mirror the formats. Nil fields are missing. Ids are texts or
// integers.
type file struct {
	Format      string         `json:"format"`
	Name        string         `json:"name"`
	Align       *int64         `json:"align,omitempty"`
	Objective   string         `json:"objective,omitempty"`
	Pools       []filePool     `json:"pools,omitempty"`
	Buffers     []fileBuffer   `json:"buffers"`
	Separations []filePair     `json:"separations,omitempty"`
	Colocations []filePair     `json:"colocations,omitempty"`
	Exclusions  []filePair     `json:"exclusions,omitempty"`
	Penalties   []filePenalty  `json:"penalties,omitempty"`
	Source      map[string]any `json:"source,omitempty"`
}

// fileV1 is what of file the first version has.
type fileV1 struct {
	Format  string         `json:"format"`
	Name    string         `json:"name"`
	Align   *int64         `json:"align,omitempty"`
	Buffers []fileBufferV1 `json:"buffers"`
	Source  map[string]any `json:"source,omitempty"`
}

type fileBufferV1 struct {
	ID    json.RawMessage  `json:"id,omitempty"`
	Lower *int64           `json:"lower,omitempty"`
	Upper *int64           `json:"upper,omitempty"`
	Size  *strictjson.Size `json:"size,omitempty"`
}

type fileBuffer struct {
	ID        json.RawMessage  `json:"id,omitempty"`
	Lower     *int64           `json:"lower,omitempty"`
	Upper     *int64           `json:"upper,omitempty"`
	Intervals []fileInterval   `json:"intervals,omitempty"`
	Size      *strictjson.Size `json:"size,omitempty"`
	Align     *int64           `json:"align,omitempty"`
	Pool      json.RawMessage  `json:"pool,omitempty"`
	Offset    *strictjson.Size `json:"offset,omitempty"`
	Exclusive bool             `json:"exclusive,omitempty"`
}

type fileInterval struct {
	Lower *int64 `json:"lower,omitempty"`
	Upper *int64 `json:"upper,omitempty"`
}

type filePool struct {
	ID       json.RawMessage  `json:"id,omitempty"`
	Name     string           `json:"name,omitempty"`
	Capacity *strictjson.Size `json:"capacity,omitempty"`
	Reserved []fileRange      `json:"reserved,omitempty"`
}

type fileRange struct {
	Begin *strictjson.Size `json:"begin,omitempty"`
	End   *strictjson.Size `json:"end,omitempty"`
}

type filePair struct {
	First  json.RawMessage `json:"first,omitempty"`
	Second json.RawMessage `json:"second,omitempty"`
}

type filePenalty struct {
	First  json.RawMessage `json:"first,omitempty"`
	Second json.RawMessage `json:"second,omitempty"`
	Cost   *int64          `json:"cost,omitempty"`
}

// Read reads a lifetimes/v1 document, ReadV2 one of lifetimes/v2. Name is for errors,
// which say the file, the line, the field and what would be right. O(size of the file).
func Read(r io.Reader, name string) (*Lifetimes, error) {
	return strictjson.ReadSizes(r, name, Format, strictjson.MostBytes,
		func(v *fileV1, extra []strictjson.Extra, unit platform.Unit) (*Lifetimes, error) {
			f := &file{Format: v.Format, Name: v.Name, Align: v.Align, Source: v.Source, Buffers: make([]fileBuffer, len(v.Buffers))}
			for i, x := range v.Buffers {
				f.Buffers[i] = fileBuffer{ID: x.ID, Lower: x.Lower, Upper: x.Upper, Size: x.Size}
			}
			return f.lifetimes(extra, unit)
		})
}

// ReadV2 is described at [Read].
func ReadV2(r io.Reader, name string) (*Lifetimes, error) {
	return strictjson.ReadSizes(r, name, FormatV2, strictjson.MostBytes, (*file).lifetimes)
}

// lifetimes converts sizes to units and validates.
func (f *file) lifetimes(extra []strictjson.Extra, unit platform.Unit) (*Lifetimes, error) {
	l := &Lifetimes{Name: f.Name, Objective: f.Objective, Source: f.Source, Extra: extra, Unit: unit, Buffers: make([]Buffer, len(f.Buffers))}
	if f.Align != nil {
		if *f.Align < 1 {
			return nil, strictjson.Wrong("align", "%d; addresses are multiples of 1 byte or more", *f.Align)
		}
		l.Align = *f.Align
		if l.Align == 1 {
			l.Align = 0 // there is one way to say it
		}
	}
	pools, err := f.pools(l)
	if err != nil {
		return nil, err
	}
	names := strictjson.NewNames("buffers", "buffer", len(f.Buffers))
	for i := range f.Buffers {
		if l.Buffers[i], err = f.Buffers[i].buffer(i, names, pools, len(l.Pools), unit); err != nil {
			return nil, err
		}
	}
	for _, list := range []struct {
		name string
		from []filePair
		to   *[]Pair
	}{
		{"separations", f.Separations, &l.Separations},
		{"colocations", f.Colocations, &l.Colocations},
		{"exclusions", f.Exclusions, &l.Exclusions},
	} {
		for k, x := range list.from {
			p, err := x.pair(names, fmt.Sprintf("%s[%d]", list.name, k))
			if err != nil {
				return nil, err
			}
			*list.to = append(*list.to, p)
		}
	}
	for k, x := range f.Penalties {
		path := fmt.Sprintf("penalties[%d]", k)
		p, err := filePair{x.First, x.Second}.pair(names, path)
		switch {
		case err != nil:
			return nil, err
		case x.Cost == nil:
			return nil, strictjson.Wrong(path, "cost is missing; it is charged when the two buffers share an address")
		}
		l.Penalties = append(l.Penalties, Penalty{p, *x.Cost})
	}
	return l, l.Validate()
}

// pools reads the pools into l and returns their ids.
func (f *file) pools(l *Lifetimes) (*strictjson.Names, error) {
	names, seen := strictjson.NewNames("pools", "pool", len(f.Pools)), strictjson.NewNames("pools", "pool", len(f.Pools))
	size := func(x *strictjson.Size) float64 { return l.Unit.FromBytes(float64(*x)) }
	for k := range f.Pools {
		x := &f.Pools[k]
		id, err := names.Read(k, x.ID)
		if err == nil {
			err = seen.Add(k, id)
		}
		if err != nil {
			return nil, err
		}
		p := Pool{ID: id, Name: x.Name, Capacity: math.Inf(1)}
		if x.Capacity != nil {
			p.Capacity = size(x.Capacity)
		}
		for r, reserved := range x.Reserved {
			if reserved.Begin == nil || reserved.End == nil {
				return nil, strictjson.Wrong(fmt.Sprintf("pools[%d].reserved[%d]", k, r), "begin or end is missing")
			}
			p.Reserved = append(p.Reserved, Range{size(reserved.Begin), size(reserved.End)})
		}
		l.Pools = append(l.Pools, p)
	}
	return names, nil
}

// buffer reads buffer i.
func (x *fileBuffer) buffer(i int, names, pools *strictjson.Names, count int, unit platform.Unit) (b Buffer, err error) {
	path := fmt.Sprintf("buffers[%d]", i)
	if b.ID, err = names.Read(i, x.ID); err != nil {
		return b, err
	}
	switch {
	case len(x.Intervals) > 0 && (x.Lower != nil || x.Upper != nil):
		return b, strictjson.Wrong(path, "buffer %q has intervals and lower or upper; give one of them", b.ID)
	case len(x.Intervals) == 0 && (x.Lower == nil || x.Upper == nil):
		return b, strictjson.Wrong(path, "lower or upper is missing; buffer %q lives from lower up to upper, the latter excluded", b.ID)
	case x.Size == nil:
		return b, strictjson.Wrong(path, "size is missing; buffer %q needs one, in bytes", b.ID)
	case x.Align != nil && *x.Align < 1:
		return b, strictjson.Wrong(path+".align", "%d; addresses are multiples of 1 byte or more", *x.Align)
	case x.Pool == nil && count > 1:
		return b, strictjson.Wrong(path, "pool is missing; buffer %q is in one of %d pools", b.ID, count)
	case x.Exclusive && x.Offset == nil:
		return b, strictjson.Wrong(path+".exclusive", "buffer %q has no offset; only pinned buffers can be exclusive", b.ID)
	}
	b.Size, b.Exclusive = unit.FromBytes(float64(*x.Size)), x.Exclusive
	if x.Align != nil {
		b.Align = *x.Align
	}
	if x.Pool != nil {
		if b.Pool, err = pools.Find(path+".pool", x.Pool); err != nil {
			return b, err
		}
	}
	if x.Offset != nil {
		b.Pinned, b.Offset = true, unit.FromBytes(float64(*x.Offset))
	}
	return b, x.lives(&b, path)
}

// lives reads when b lives.
func (x *fileBuffer) lives(b *Buffer, path string) error {
	if len(x.Intervals) == 0 {
		b.Lower, b.Upper = *x.Lower, *x.Upper
		return nil
	}
	for k, v := range x.Intervals {
		at := fmt.Sprintf("%s.intervals[%d]", path, k)
		switch {
		case v.Lower == nil || v.Upper == nil:
			return strictjson.Wrong(at, "lower or upper is missing")
		case *v.Lower >= *v.Upper:
			return strictjson.Wrong(at, "%d is not after %d: the interval is empty", *v.Upper, *v.Lower)
		case k > 0 && *v.Lower < b.Upper:
			return strictjson.Wrong(at, "it begins at %d, before the end of the interval before it, %d", *v.Lower, b.Upper)
		case k == 0:
			b.Lower = *v.Lower
		case *v.Lower > b.Upper:
			b.Gaps = append(b.Gaps, Interval{b.Upper, *v.Lower})
		}
		b.Upper = *v.Upper
	}
	return nil
}

// pair finds the two buffers at path.
func (x filePair) pair(names *strictjson.Names, path string) (p Pair, err error) {
	if x.First == nil || x.Second == nil {
		return p, strictjson.Wrong(path, "first or second is missing; they are ids of buffers")
	}
	if p.First, err = names.Find(path+".first", x.First); err != nil {
		return p, err
	}
	p.Second, err = names.Find(path+".second", x.Second)
	return p, err
}

// canonical returns the document that Write writes, sizes in bytes, -0 as 0, if l is
// valid: a lifetimes/v1 document where that can hold l.
func (l *Lifetimes) canonical() (*file, error) {
	if err := l.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", strictjson.Title(Format, l.Name), err)
	}
	f := &file{Format: Format, Name: l.Name, Objective: l.Objective, Buffers: make([]fileBuffer, len(l.Buffers))}
	if l.Structured() {
		f.Format = FormatV2
	}
	if l.Align > 1 {
		f.Align = &l.Align
	}
	size := func(x float64) *strictjson.Size { return new(strictjson.Bytes(l.Unit, x)) }
	pools := strictjson.IDs(len(l.Pools), func(k int) string { return l.Pools[k].ID })
	for k := range l.Pools {
		p := &l.Pools[k]
		x := filePool{ID: pools[k], Name: p.Name}
		if !math.IsInf(p.Capacity, 1) {
			x.Capacity = size(p.Capacity)
		}
		for _, r := range p.Reserved {
			x.Reserved = append(x.Reserved, fileRange{size(r.Begin), size(r.End)})
		}
		f.Pools = append(f.Pools, x)
	}
	ids := strictjson.IDs(len(l.Buffers), func(i int) string { return l.Buffers[i].ID })
	for i := range l.Buffers {
		b := &l.Buffers[i]
		x := fileBuffer{ID: ids[i], Lower: &b.Lower, Upper: &b.Upper, Size: size(b.Size), Exclusive: b.Exclusive}
		if b.Gaps != nil {
			x.Lower, x.Upper = nil, nil
			for _, v := range b.Intervals() {
				x.Intervals = append(x.Intervals, fileInterval{&v.Lower, &v.Upper})
			}
		}
		if b.Align > 0 {
			x.Align = &b.Align
		}
		if l.Pools != nil {
			x.Pool = pools[b.Pool]
		}
		if b.Pinned {
			x.Offset = size(b.Offset)
		}
		f.Buffers[i] = x
	}
	pairs := func(list []Pair) (to []filePair) {
		for _, p := range list {
			to = append(to, filePair{ids[p.First], ids[p.Second]})
		}
		return to
	}
	f.Separations, f.Colocations, f.Exclusions = pairs(l.Separations), pairs(l.Colocations), pairs(l.Exclusions)
	for i := range l.Penalties {
		p := &l.Penalties[i]
		f.Penalties = append(f.Penalties, filePenalty{ids[p.First], ids[p.Second], &p.Cost})
	}
	return f, nil
}

// Write writes l, a line for each element of a list, as a lifetimes/v1 document where
// that can hold it, else lifetimes/v2; ids as numbers if all of them are. l must be valid.
func (l *Lifetimes) Write(w io.Writer) error {
	f, err := l.canonical()
	if err != nil {
		return err
	}
	out := strictjson.NewWriter(w, f.Format, f.Name, l.Extra)
	if f.Align != nil {
		out.Member("align", f.Align)
	}
	if f.Objective != "" {
		out.Member("objective", f.Objective)
	}
	list := func(key string, n int, element func(k int)) {
		if n > 0 {
			out.List(key, n, element)
		}
	}
	list("pools", len(f.Pools), func(k int) { out.Object(&f.Pools[k]) })
	list("buffers", len(f.Buffers), func(i int) { out.Object(&f.Buffers[i]) })
	list("separations", len(f.Separations), func(k int) { out.Object(&f.Separations[k]) })
	list("colocations", len(f.Colocations), func(k int) { out.Object(&f.Colocations[k]) })
	list("exclusions", len(f.Exclusions), func(k int) { out.Object(&f.Exclusions[k]) })
	list("penalties", len(f.Penalties), func(k int) { out.Object(&f.Penalties[k]) })
	return out.Close(l.Source)
}

// Digest returns the digest of the document, see [strictjson.Digest]. l must be valid.
func (l *Lifetimes) Digest() (string, error) {
	return strictjson.Digest(l.canonical())
}
