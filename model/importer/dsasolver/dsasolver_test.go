package dsasolver_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/model/importer/dsasolver"
	"workbench/model/instance/lifetimes"
	"workbench/model/testfile"
)

const document = `{"schema_version": 1, "profile": "pypto_structured", "instance": "toy", "metadata": {"target": "none"}, "problem": {
 "pools": [{"id": 3, "name": "L1", "capacity": 64, "reserved_ranges": [{"begin": 0, "end": 8}]}, {"id": 1, "name": "L2", "capacity": null, "reserved_ranges": []}],
 "buffers": [
  {"id": 7, "name": "a", "size": 8, "alignment": 4, "live_intervals": [{"lower": 0, "upper": 2}, {"lower": 4, "upper": 5}], "allowed_pools": [3]},
  {"id": 8, "name": "b", "size": 8, "alignment": 1, "live_intervals": [{"lower": 2, "upper": 4}], "allowed_pools": [3]},
  {"id": 9, "name": "c", "size": 8, "alignment": 1, "live_intervals": [{"lower": 1, "upper": 3}], "allowed_pools": [3]},
  {"id": 2, "name": "d", "size": 8, "alignment": 1, "live_intervals": [{"lower": 6, "upper": 7}], "allowed_pools": [1]}],
 "constraints": {"colocations": [{"first": 7, "second": 8}], "separations": [{"first": 7, "second": 9, "reasons": ["generic"]}],
  "temporal_exclusions": [{"first": 8, "second": 9}], "pinned_allocations": [{"buffer": 9, "pool": 3, "offset": 16, "exclusive_for_all_time": false}]},
 "cost_model": {"reuse_penalties": [{"first": 8, "second": 9, "cost": 5, "reason": "cross_pipe"}]},
 "objective": {"aggregation": "lexicographic", "terms": ["capacity_overflow", "reuse_cost"]}}}`

func TestReadAndWrite(t *testing.T) {
	l, warnings, err := dsasolver.Read(strings.NewReader(document), "f")
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	if l.Objective != lifetimes.TotalPenalty || len(l.Separations)+len(l.Colocations)+len(l.Exclusions)+len(l.Penalties) != 4 ||
		l.Pools[0].Capacity != 64 || l.Pools[0].Reserved[0].End != 8 || !l.Buffers[2].Pinned || l.Buffers[0].Align != 4 ||
		len(l.Buffers[0].Gaps) != 1 {
		t.Errorf("%+v", l)
	}
	again, err := lifetimes.ReadV2(strings.NewReader(testfile.Text(t, l)), "g") // as from a file
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := dsasolver.Write(&b, again); err != nil {
		t.Fatal(err)
	}
	back, _, err := dsasolver.Read(&b, "h")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(testfile.Text(t, l), testfile.Text(t, back)); diff != "" {
		t.Errorf("(-read +written and read):\n%s", diff)
	}
}

func TestReadErrors(t *testing.T) {
	for name, x := range map[string]struct{ old, new, want string }{
		"version": {`"schema_version": 1`, `"schema_version": 2`, "f:1: schema_version: 2 is not understood"},
		"banks": {
			`"reserved_ranges": []}`, `"reserved_ranges": [], "bank_geometry": {"bank_size": 1, "num_banks": 2}}`,
			"f:2: problem.pools[1].bank_geometry: memory banks",
		},
		"several pools": {
			`"allowed_pools": [1]`, `"allowed_pools": [1, 3]`,
			"f:7: problem.buffers[3].allowed_pools: buffer 2 has 2; a buffer is in one pool here",
		},
		"no pool":   {`"allowed_pools": [1]`, `"allowed_pools": [5]`, "f:7: problem.buffers[3].allowed_pools: there is no pool 5"},
		"alignment": {`"alignment": 4`, `"alignment": 0`, "f:4: problem.buffers[0].alignment: 0;"},
		"other pool": {
			`"buffer": 9, "pool": 3`, `"buffer": 9, "pool": 1`,
			"f:9: problem.constraints.pinned_allocations[0].pool: buffer 9 is not in pool 1",
		},
		"no buffer":     {`"second": 8}]`, `"second": 88}]`, "f:8: problem.constraints.colocations[0]: there is no buffer 7, or none 88"},
		"bank cost":     {`"reuse_cost"`, `"bank_cost"`, `f:11: problem.objective.terms: "bank_cost" is not supported`},
		"unknown field": {`"name": "L1"`, `"name": "L1", "colour": 3`, "f:2: problem.pools[0].colour: "},
		"pin in reserved": {
			`"offset": 16`, `"offset": 4`,
			`f:1: buffers[2].offset: buffer "9" is pinned to [4, 12), which overlaps the reserved range`,
		},
		"a solution": {`"problem": {`, `"problems": {`, "f:1: problems: "},
	} {
		text := strings.Replace(document, x.old, x.new, 1)
		if text == document {
			t.Fatalf("%s: nothing is replaced", name)
		}
		_, _, err := dsasolver.Read(strings.NewReader(text), "f")
		if err == nil || !strings.HasPrefix(err.Error(), x.want) {
			t.Errorf("%s: %v, want %s…", name, err, x.want)
		}
	}
}

func TestReadSolution(t *testing.T) {
	l, _, err := dsasolver.Read(strings.NewReader(document), "f")
	if err != nil {
		t.Fatal(err)
	}
	const solution = `{"schema_version": 1, "profile": "pypto_structured", "instance": "toy", "problem_fingerprint": "0123456789abcdef", "metadata": {},
 "placements": [{"buffer": 7, "pool": 3, "offset": 24}, {"buffer": 2, "pool": 1, "offset": 0}]}`
	offsets, err := dsasolver.ReadSolution([]byte(solution), "s", l)
	if err != nil || len(offsets) != 2 || offsets[0].ID != "7" || offsets[0].Offset != 24 {
		t.Errorf("%v %v", offsets, err)
	}
	_, err = dsasolver.ReadSolution([]byte(strings.Replace(solution, `"pool": 1`, `"pool": 3`, 1)), "s", l)
	if err == nil || err.Error() != "s:2: placements[1].pool: buffer 2 is in pool 1, not 3" {
		t.Error(err)
	}
}

// A document is refused, or what is read of it is valid, written and read back to the same.
func FuzzRead(f *testing.F) {
	f.Add(document)
	f.Fuzz(func(t *testing.T, document string) {
		l, _, err := dsasolver.Read(strings.NewReader(document), "fuzz")
		if err != nil {
			return
		}
		if err := l.Validate(); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := dsasolver.Write(&b, l); err != nil {
			t.Fatal(err)
		}
		back, _, err := dsasolver.Read(&b, "written")
		if err != nil {
			t.Fatal(err)
		}
		if x, y := testfile.Digest(t, l), testfile.Digest(t, back); x != y {
			t.Errorf("read as %s, written and read as %s", x, y)
		}
	})
}

// A file of a solution is refused or has an offset for every buffer; it never panics.
func FuzzReadSolution(f *testing.F) {
	l, _, err := dsasolver.Read(strings.NewReader(document), "f")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"allocations": [{"buffer": 7, "pool": 3, "offset": 0}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if offsets, err := dsasolver.ReadSolution(data, "fuzz", l); err == nil && len(offsets) != len(l.Buffers) {
			t.Errorf("%d offsets of %d buffers", len(offsets), len(l.Buffers))
		}
	})
}
