// Package dsasolver reads and writes the files of dsa-solver (github.com/tonibohnlein/dsa-solver):
// problems of its schema v1, placement with the constraints of compilers for accelerators,
// and its solutions. Capacities are limits here, not an objective; banks, and buffers that
// may be in several pools, are refused by name.
package dsasolver

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"workbench/model/instance/lifetimes"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/strictjson"
)

// document mirrors the schema.
type document struct {
	Version  int               `json:"schema_version"`
	Profile  string            `json:"profile"`
	Instance string            `json:"instance"`
	From     string            `json:"relaxed_from,omitempty"`
	Relaxed  []string          `json:"relaxed_features,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Problem  *problem          `json:"problem"`
}

type problem struct {
	Pools       []pool      `json:"pools"`
	Buffers     []buffer    `json:"buffers"`
	Constraints constraints `json:"constraints"`
	CostModel   *costModel  `json:"cost_model,omitempty"`
	Structure   any         `json:"pypto_structure,omitempty"`
	Objective   objective   `json:"objective"`
}

type pool struct {
	ID       int64    `json:"id"`
	Name     string   `json:"name"`
	Capacity *int64   `json:"capacity"`
	Reserved []extent `json:"reserved_ranges"`
	Banks    any      `json:"bank_geometry,omitempty"`
}

type extent struct {
	Begin int64 `json:"begin"`
	End   int64 `json:"end"`
}

type buffer struct {
	ID        int64                `json:"id"`
	Name      string               `json:"name"`
	Size      int64                `json:"size"`
	Alignment int64                `json:"alignment"`
	Live      []lifetimes.Interval `json:"live_intervals"`
	Pools     []int64              `json:"allowed_pools"`
}

type constraints struct {
	Colocations []pair `json:"colocations"`
	Separations []pair `json:"separations"`
	Exclusions  []pair `json:"temporal_exclusions"`
	Pins        []pin  `json:"pinned_allocations"`
}

type pair struct {
	First   int64    `json:"first"`
	Second  int64    `json:"second"`
	Reasons []string `json:"reasons,omitempty"`
}

type pin struct {
	Buffer    int64 `json:"buffer"`
	Pool      int64 `json:"pool"`
	Offset    int64 `json:"offset"`
	Exclusive bool  `json:"exclusive_for_all_time"`
}

type costModel struct {
	Penalties []penalty `json:"reuse_penalties"`
}

type penalty struct {
	First  int64  `json:"first"`
	Second int64  `json:"second"`
	Cost   int64  `json:"cost"`
	Reason string `json:"reason"`
}

type objective struct {
	Aggregation string   `json:"aggregation"`
	Terms       []string `json:"terms"`
}

// Read reads a problem. Ids of buffers and pools become texts; names, reasons of
// separations and penalties, and the metadata are kept. The warnings say what is not.
// Name is for errors. O(size of the file).
func Read(r io.Reader, name string) (*lifetimes.Lifetimes, []string, error) {
	data, err := strictjson.Read(r, name, strictjson.MostBytes)
	if err != nil {
		return nil, nil, err
	}
	d := &document{}
	if err := strictjson.Decode(data, name, d); err != nil {
		return nil, nil, err
	}
	switch {
	case d.Version != 1:
		err = strictjson.Wrong("schema_version", "%d is not understood here; it must be 1", d.Version)
	case d.Problem == nil:
		err = strictjson.Wrong("problem", "missing; a solution of dsa-solver is checked by workbench verify INSTANCE FILE")
	}
	if err != nil {
		return nil, nil, strictjson.Locate(data, name, err)
	}
	x := &reader{d: d, l: &lifetimes.Lifetimes{Name: d.Instance}, pools: map[int64]int{}, buffers: map[int64]int{}}
	for _, step := range []func() error{x.readPools, x.readBuffers, x.readPins, x.readPairs, x.readObjective, x.l.Validate} {
		if err := step(); err != nil {
			return nil, nil, strictjson.Locate(data, name, err)
		}
	}
	x.l.Source = map[string]any{"kind": "import", "format": "dsa-solver", "profile": d.Profile}
	if len(d.Metadata) > 0 {
		x.l.Source["metadata"] = d.Metadata
	}
	if d.Problem.Structure != nil {
		x.warnings = append(x.warnings, "pypto_structure, where the rules come from, is not kept")
	}
	return x.l, x.warnings, nil
}

// reader is a document being read.
type reader struct {
	d              *document
	l              *lifetimes.Lifetimes
	pools, buffers map[int64]int
	warnings       []string
}

// note keeps a field that lifetimes do not have as one of the user's own.
func (x *reader) note(path, key string, value any) {
	text, err := json.Marshal(value)
	if err == nil {
		x.l.Extra = append(x.l.Extra, strictjson.Extra{Path: path, Key: key, Value: text})
	}
}

func (x *reader) readPools() error {
	for k, p := range x.d.Problem.Pools {
		at := fmt.Sprintf("problem.pools[%d]", k)
		if p.Banks != nil {
			return strictjson.Wrong(at+".bank_geometry", "memory banks are not supported here")
		}
		q := lifetimes.Pool{ID: strconv.FormatInt(p.ID, 10), Name: p.Name, Capacity: math.Inf(1)}
		if p.Capacity != nil && float64(*p.Capacity) < platform.MaxTotal {
			q.Capacity = float64(*p.Capacity)
		}
		for _, r := range p.Reserved {
			q.Reserved = append(q.Reserved, lifetimes.Range{Begin: float64(r.Begin), End: float64(r.End)})
		}
		if _, twice := x.pools[p.ID]; twice {
			return strictjson.Wrong(at+".id", "%d is the id of another pool already", p.ID)
		}
		x.pools[p.ID], x.l.Pools = k, append(x.l.Pools, q)
	}
	return nil
}

func (x *reader) readBuffers() error {
	for k, b := range x.d.Problem.Buffers {
		at := fmt.Sprintf("problem.buffers[%d]", k)
		if len(b.Pools) != 1 {
			return strictjson.Wrong(at+".allowed_pools", "buffer %d has %d; a buffer is in one pool here, the choice among several is not supported",
				b.ID, len(b.Pools))
		}
		p, known := x.pools[b.Pools[0]]
		switch _, twice := x.buffers[b.ID]; {
		case !known:
			return strictjson.Wrong(at+".allowed_pools", "there is no pool %d", b.Pools[0])
		case twice:
			return strictjson.Wrong(at+".id", "%d is the id of another buffer already", b.ID)
		case b.Alignment < 1:
			return strictjson.Wrong(at+".alignment", "%d; addresses are multiples of 1 byte or more", b.Alignment)
		case len(b.Live) == 0:
			return strictjson.Wrong(at+".live_intervals", "buffer %d never lives", b.ID)
		}
		y := lifetimes.Buffer{ID: strconv.FormatInt(b.ID, 10), Size: float64(b.Size), Pool: p}
		if b.Alignment > 1 {
			y.Align = b.Alignment
		}
		live := slices.Clone(b.Live)
		slices.SortFunc(live, func(p, q lifetimes.Interval) int { return int(min(1, max(-1, p.Lower-q.Lower))) })
		y.Lower, y.Upper = live[0].Lower, live[0].Upper
		for _, v := range live[1:] {
			if v.Lower > y.Upper {
				y.Gaps = append(y.Gaps, lifetimes.Interval{Lower: y.Upper, Upper: v.Lower})
			}
			y.Upper = max(y.Upper, v.Upper)
		}
		x.buffers[b.ID], x.l.Buffers = k, append(x.l.Buffers, y)
		if b.Name != "" {
			x.note(fmt.Sprintf("buffers[%d]", k), "x-name", b.Name)
		}
	}
	return nil
}

func (x *reader) readPins() error {
	for k, p := range x.d.Problem.Constraints.Pins {
		at := fmt.Sprintf("problem.constraints.pinned_allocations[%d]", k)
		i, known := x.buffers[p.Buffer]
		switch pool, ok := x.pools[p.Pool]; {
		case !known:
			return strictjson.Wrong(at+".buffer", "there is no buffer %d", p.Buffer)
		case !ok || pool != x.l.Buffers[i].Pool:
			return strictjson.Wrong(at+".pool", "buffer %d is not in pool %d", p.Buffer, p.Pool)
		}
		b := &x.l.Buffers[i]
		b.Pinned, b.Offset, b.Exclusive = true, float64(p.Offset), p.Exclusive
	}
	return nil
}

func (x *reader) readPairs() error {
	c := &x.d.Problem.Constraints
	find := func(path string, first, second int64) (lifetimes.Pair, error) {
		i, one := x.buffers[first]
		j, other := x.buffers[second]
		if !one || !other {
			return lifetimes.Pair{}, strictjson.Wrong(path, "there is no buffer %d, or none %d", first, second)
		}
		return lifetimes.Pair{First: i, Second: j}, nil
	}
	for _, list := range []struct {
		name string
		from []pair
		to   *[]lifetimes.Pair
	}{
		{"colocations", c.Colocations, &x.l.Colocations},
		{"separations", c.Separations, &x.l.Separations},
		{"temporal_exclusions", c.Exclusions, &x.l.Exclusions},
	} {
		for k, p := range list.from {
			q, err := find(fmt.Sprintf("problem.constraints.%s[%d]", list.name, k), p.First, p.Second)
			if err != nil {
				return err
			}
			*list.to = append(*list.to, q)
			if len(p.Reasons) > 0 {
				x.note(fmt.Sprintf("%s[%d]", list.name, k), "x-reasons", p.Reasons)
			}
		}
	}
	if x.d.Problem.CostModel == nil {
		return nil
	}
	for k, p := range x.d.Problem.CostModel.Penalties {
		q, err := find(fmt.Sprintf("problem.cost_model.reuse_penalties[%d]", k), p.First, p.Second)
		if err != nil {
			return err
		}
		x.l.Penalties = append(x.l.Penalties, lifetimes.Penalty{Pair: q, Cost: p.Cost})
		x.note(fmt.Sprintf("penalties[%d]", k), "x-reason", p.Reason)
	}
	return nil
}

// readObjective takes the first term that is not the overflow of capacities, which are
// limits here.
func (x *reader) readObjective() error {
	terms := slices.DeleteFunc(slices.Clone(x.d.Problem.Objective.Terms), func(t string) bool { return t == "capacity_overflow" })
	known := map[string]string{"total_peak": lifetimes.Height, "max_peak": lifetimes.LargestHeight, "reuse_cost": lifetimes.TotalPenalty}
	for _, t := range terms {
		if known[t] == "" {
			return strictjson.Wrong("problem.objective.terms",
				"%q is not supported here; it is one of capacity_overflow, total_peak, max_peak and reuse_cost", t)
		}
	}
	x.l.Objective = lifetimes.Height
	if len(terms) > 0 {
		x.l.Objective = known[terms[0]]
	}
	if len(terms) > 1 && !(x.l.Objective == lifetimes.TotalPenalty && terms[1] == "total_peak" && len(terms) == 2) {
		x.warnings = append(x.warnings, "of the objective only "+terms[0]+" is minimised, then the height of each pool; "+
			strings.Join(terms[1:], ", ")+" is not")
	}
	return nil
}

// Write writes lifetimes as a problem of schema v1. Buffers and pools keep ids that are
// numbers; if one is not, all are numbered. Sizes are whole bytes: others are an error.
// O(size of l).
func Write(w io.Writer, l *lifetimes.Lifetimes) error {
	if l.Unit != platform.Byte {
		return fmt.Errorf("%s: sizes have decimals, and dsa-solver takes whole bytes", l.Name)
	}
	d := &document{Version: 1, Profile: "pypto_structured", Instance: l.Name, Problem: &problem{Buffers: []buffer{}}}
	if d.Instance == "" {
		d.Instance = "lifetimes"
	}
	if profile, ok := l.Source["profile"].(string); ok && l.Source["format"] == "dsa-solver" {
		d.Profile = profile
	}
	if given, ok := l.Source["metadata"].(map[string]any); ok {
		d.Metadata = map[string]string{}
		for k, v := range given {
			d.Metadata[k] = fmt.Sprint(v)
		}
	}
	notes := map[string]json.RawMessage{}
	for _, e := range l.Extra {
		notes[e.Path+" "+e.Key] = e.Value
	}
	text := func(path, key, otherwise string) string {
		var s string
		if json.Unmarshal(notes[path+" "+key], &s) != nil || s == "" {
			return otherwise
		}
		return s
	}
	list := l.PoolList()
	pools := numbers(len(list), func(k int) string { return list[k].ID })
	for k, p := range list {
		q := pool{ID: pools[k], Name: p.Name, Reserved: []extent{}}
		if q.Name == "" {
			q.Name = "pool" + strconv.Itoa(k)
		}
		if !math.IsInf(p.Capacity, 1) {
			q.Capacity = new(int64(p.Capacity))
		}
		for _, r := range p.Reserved {
			q.Reserved = append(q.Reserved, extent{int64(r.Begin), int64(r.End)})
		}
		d.Problem.Pools = append(d.Problem.Pools, q)
	}
	ids := numbers(len(l.Buffers), func(i int) string { return l.Buffers[i].ID })
	c := &d.Problem.Constraints
	c.Pins = []pin{}
	for i := range l.Buffers {
		b := &l.Buffers[i]
		d.Problem.Buffers = append(d.Problem.Buffers, buffer{
			ids[i], text(fmt.Sprintf("buffers[%d]", i), "x-name", b.ID), int64(b.Size), l.GridOf(i), b.Intervals(), []int64{pools[b.Pool]},
		})
		if b.Pinned {
			c.Pins = append(c.Pins, pin{ids[i], pools[b.Pool], int64(b.Offset), b.Exclusive})
		}
	}
	pairs := func(name string, list []lifetimes.Pair) []pair {
		all := []pair{}
		for k, p := range list {
			q := pair{First: ids[p.First], Second: ids[p.Second]}
			if name == "separations" { // no other has reasons
				_ = json.Unmarshal(notes[fmt.Sprintf("%s[%d] x-reasons", name, k)], &q.Reasons)
			}
			all = append(all, q)
		}
		return all
	}
	c.Colocations, c.Separations, c.Exclusions = pairs("colocations", l.Colocations), pairs("separations", l.Separations),
		pairs("exclusions", l.Exclusions)
	if len(l.Penalties) > 0 {
		d.Problem.CostModel = &costModel{}
	}
	for k, p := range l.Penalties {
		d.Problem.CostModel.Penalties = append(d.Problem.CostModel.Penalties,
			penalty{ids[p.First], ids[p.Second], p.Cost, text(fmt.Sprintf("penalties[%d]", k), "x-reason", "generic")})
	}
	terms := map[string]string{
		"": "total_peak", lifetimes.Height: "total_peak", lifetimes.LargestHeight: "max_peak",
		lifetimes.TotalPenalty: "reuse_cost",
	}
	d.Problem.Objective = objective{"lexicographic", []string{"capacity_overflow", terms[l.Objective]}}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(d)
}

// numbers returns ids as numbers: as they are, if all of them are numbers up to 2^32.
func numbers(n int, id func(k int) string) []int64 {
	all := make([]int64, n)
	for k := range n {
		x, err := strconv.ParseUint(id(k), 10, 32)
		if err != nil || strconv.FormatUint(x, 10) != id(k) {
			for k := range all {
				all[k] = int64(k)
			}
			return all
		}
		all[k] = int64(x)
	}
	return all
}

// solution mirrors its schema.
type solution struct {
	Version     int               `json:"schema_version"`
	Profile     string            `json:"profile"`
	Instance    string            `json:"instance"`
	Fingerprint string            `json:"problem_fingerprint"`
	Metadata    map[string]string `json:"metadata"`
	Placements  []struct {
		Buffer int64 `json:"buffer"`
		Pool   int64 `json:"pool"`
		Offset int64 `json:"offset"`
	} `json:"placements"`
}

// ReadSolution reads a solution of schema v1 as the offsets of buffers of l. A buffer in
// another pool than l has it in is an error. O(size of the file).
func ReadSolution(data []byte, name string, l *lifetimes.Lifetimes) ([]plan.Offset, error) {
	d := &solution{}
	if err := strictjson.Decode(data, name, d); err != nil {
		return nil, err
	}
	if d.Version != 1 || d.Placements == nil {
		return nil, strictjson.Locate(data, name, strictjson.Wrong("placements",
			"missing, or of another version than 1: the file is no solution of dsa-solver"))
	}
	list, of := l.PoolList(), map[string]int{}
	for i := range l.Buffers {
		of[l.Buffers[i].ID] = l.Buffers[i].Pool
	}
	var offsets []plan.Offset
	for k, x := range d.Placements {
		id, pool := strconv.FormatInt(x.Buffer, 10), strconv.FormatInt(x.Pool, 10)
		if p, known := of[id]; known && len(list) > 1 && list[p].ID != pool {
			return nil, strictjson.Locate(data, name, strictjson.Wrong(fmt.Sprintf("placements[%d].pool", k), "buffer %s is in pool %s, not %s", id,
				list[p].ID, pool))
		}
		offsets = append(offsets, plan.Offset{ID: id, Offset: float64(x.Offset)})
	}
	return offsets, nil
}
