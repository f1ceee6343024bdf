package lifetimes_test

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"workbench/model/instance/lifetimes"
	"workbench/model/strictjson"
	"workbench/model/testfile"
)

const small = `{
  "format": "workbench.lifetimes/v1",
  "name": "toy",
  "buffers": [
    {"id": "a", "lower": 0, "upper": 3, "size": 4},
    {"id": 7, "lower": -2, "upper": 9, "size": 0}
  ],
  "source": {"by": "hand"}
}
`

const own = `{"format": "workbench.lifetimes/v1", "x-note": 1, "align": 64, "buffers": [{"id": 1, "lower": 0, "upper": 1, "size": 2.5, "x-why": "b"}]}`

func smallLifetimes() *lifetimes.Lifetimes {
	return &lifetimes.Lifetimes{
		Name: "toy", Source: map[string]any{"by": "hand"},
		Buffers: []lifetimes.Buffer{{ID: "a", Lower: 0, Upper: 3, Size: 4}, {ID: "7", Lower: -2, Upper: 9}},
	}
}

const structured = `{
  "format": "workbench.lifetimes/v2",
  "name": "toy",
  "align": 8,
  "objective": "penalty",
  "pools": [
    {"id": "l1", "name": "L1", "capacity": 512, "reserved": [{"begin": 0, "end": 16}]},
    {"id": 2}
  ],
  "buffers": [
    {"id": "a", "lower": 0, "upper": 3, "size": 16, "pool": "l1", "offset": 32, "exclusive": true},
    {"id": "b", "intervals": [{"lower": 0, "upper": 2}, {"lower": 4, "upper": 6}], "size": 16, "pool": "l1", "align": 16},
    {"id": "c", "lower": 2, "upper": 4, "size": 16, "pool": "l1", "offset": 64},
    {"id": "d", "lower": 0, "upper": 9, "size": 2, "pool": 2},
    {"id": "e", "lower": 6, "upper": 9, "size": 16, "pool": "l1"}
  ],
  "separations": [{"first": "b", "second": "c"}],
  "colocations": [{"first": "c", "second": "e"}],
  "exclusions": [{"first": "a", "second": "d"}],
  "penalties": [{"first": "b", "second": "e", "cost": 3}]
}
`

var formatV2 = testfile.Format[*lifetimes.Lifetimes]{
	Name: "lifetimes", Version: 2, Read: lifetimes.ReadV2, Good: []string{structured}, Bad: []testfile.Bad{
		{Name: "no capacity", Old: `512`, New: `-1`, Want: "7: pools[0].capacity: -1 is negative"},
		{
			Name: "empty range", Old: `"end": 16`, New: `"end": 0`, Want: `7: pools[0].reserved[0]: [0, 0) of pool "l1" has no address`,
			Semantic: true,
		},
		{Name: "half a range", Old: `, "end": 16`, New: ``, Want: `7: pools[0].reserved[0]: begin or end is missing`},
		{
			Name: "two pools of one id", Old: `{"id": 2}`, New: `{"id": "l1"}`, Want: `8: pools[1].id: "l1" is the id of pools[0] already`,
			Semantic: true,
		},
		{Name: "no pool", Old: `"pool": "l1", "offset": 32`, New: `"offset": 32`, Want: "11: buffers[0]: pool is missing", Semantic: true},
		{Name: "unknown pool", Old: `"pool": 2`, New: `"pool": 3`, Want: `14: buffers[3].pool: there is no pool with id "3"`, Semantic: true},
		{
			Name: "two lifetimes", Old: `"intervals"`, New: `"lower": 0, "upper": 1, "intervals"`,
			Want: `12: buffers[1]: buffer "b" has intervals and lower or upper`, Semantic: true,
		},
		{
			Name: "intervals overlap", Old: `"lower": 4`, New: `"lower": 1`, Want: `12: buffers[1].intervals[1]: it begins at 1, before the end`,
			Semantic: true,
		},
		{Name: "no alignment", Old: `"align": 16`, New: `"align": 0`, Want: `12: buffers[1].align: 0; addresses`},
		{
			Name: "pin off its alignment", Old: `"offset": 32`, New: `"offset": 33`,
			Want: `11: buffers[0].offset: buffer "a" is pinned to 33, which is no multiple`, Semantic: true,
		},
		{
			Name: "pin outside its pool", Old: `"offset": 32`, New: `"offset": 504`,
			Want: `11: buffers[0].offset: buffer "a" is pinned to [504, 520), beyond the capacity of pool "l1"`, Semantic: true,
		},
		{
			Name: "pin in a reserved range", Old: `"offset": 32`, New: `"offset": 8`,
			Want: `11: buffers[0].offset: buffer "a" is pinned to [8, 24), which overlaps the reserved range [0, 16)`, Semantic: true,
		},
		{
			Name: "pins that overlap", Old: `"offset": 32`, New: `"offset": 56`,
			Want: `13: buffers[2].offset: the pins of buffers "a" and "c" overlap: [56, 72) and [64, 80)`, Semantic: true,
		},
		{
			Name: "exclusive without a pin", Old: `"offset": 32, `, New: ``, Want: `11: buffers[0].exclusive: buffer "a" has no offset`,
			Semantic: true,
		},
		{
			Name: "separated from itself", Old: `"second": "c"`, New: `"second": "b"`,
			Want: `17: separations[0]: buffer "b" is separated from itself`, Semantic: true,
		},
		{
			Name: "colocated sizes", Old: `"e", "lower": 6, "upper": 9, "size": 16`, New: `"e", "lower": 6, "upper": 9, "size": 8`,
			Want: `18: colocations: buffers "c" and "e" are colocated and have different sizes, 16 and 8 bytes`, Semantic: true,
		},
		{
			Name: "colocated lives", Old: `"e", "lower": 6`, New: `"e", "lower": 3`,
			Want: `18: colocations: buffers "c" and "e" are colocated and live at the same time`, Semantic: true,
		},
		{
			Name: "colocated in two pools", Old: `"first": "c", "second": "e"`, New: `"first": "d", "second": "e"`,
			Want: `18: colocations: buffers "d" and "e" are colocated and have different sizes`, Semantic: true,
		},
		{Name: "half a pair", Old: `"first": "a", `, New: ``, Want: `19: exclusions[0]: first or second is missing`},
		{Name: "negative cost", Old: `"cost": 3`, New: `"cost": -3`, Want: `20: penalties[0].cost: -3; costs are from 0 on`},
		{Name: "no cost", Old: `, "cost": 3`, New: ``, Want: `20: penalties[0]: cost is missing`},
		{Name: "no objective", Old: `"penalty"`, New: `"smallest"`, Want: `5: objective: "smallest"; it is one of`},
	},
	Parts: func(l *lifetimes.Lifetimes) (*[]strictjson.Extra, *map[string]any) { return &l.Extra, &l.Source },
}

func TestV2(t *testing.T) {
	formatV2.ReadErrors(t)
	formatV2.Schema(t)
	l, err := formatV2.Parse(structured)
	if err != nil {
		t.Fatal(err)
	}
	if x := l.Unsupported(); x != "there are several pools" {
		t.Errorf("minimalloc: %q", x)
	}
	// A v1 file means the same as a v2 file: each is written as v1.
	same, err := formatV2.Parse(strings.Replace(small, "/v1", "/v2", 1))
	if err != nil {
		t.Fatal(err)
	}
	if text := testfile.Text(t, same); !strings.Contains(text, lifetimes.Format) ||
		testfile.Digest(t, same) != testfile.Digest(t, smallLifetimes()) {
		t.Errorf("a plain instance is written as\n%s", text)
	}
	again, err := formatV2.Parse(testfile.Text(t, l))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(l, again); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
}

var format = testfile.Format[*lifetimes.Lifetimes]{
	Name: "lifetimes", Read: lifetimes.Read, Good: []string{small, own}, Bad: []testfile.Bad{
		{Name: "no buffers", Old: `"buffers": [
    {"id": "a", "lower": 0, "upper": 3, "size": 4},
    {"id": 7, "lower": -2, "upper": 9, "size": 0}
  ],`, New: `"buffers": [],`, Want: "4: buffers: at least one buffer is needed"},
		{Name: "no id", Old: `"id": "a", `, New: ``, Want: "5: buffers[0]: id is missing"},
		{Name: "empty id", Old: `"a"`, New: `""`, Want: "5: buffers[0].id: the id is empty"},
		{Name: "no upper", Old: `"upper": 3, `, New: ``, Want: "5: buffers[0]: lower or upper is missing"},
		{Name: "no size", Old: `, "size": 4`, New: ``, Want: "5: buffers[0]: size is missing"},
		{Name: "negative size", Old: `"size": 4`, New: `"size": -4`, Want: "5: buffers[0].size: -4 is negative"},
		{Name: "empty lifetime", Old: `"upper": 3`, New: `"upper": 0`, Want: `5: buffers[0].upper: 0 is not after lower, 0`, Semantic: true},
		{Name: "twice", Old: `"a"`, New: `7`, Want: `6: buffers[1].id: "7" is the id of buffers[0] already`, Semantic: true},
		{
			Name: "far away", Old: `"upper": 9`, New: `"upper": 9007199254740992`,
			Want: `6: buffers[1].lower: the lifetime of buffer "7", [-2, 9007199254740992), leaves`,
		},
		{
			Name: "no alignment", Old: `"buffers": [`, New: `"align": 0, "buffers": [`,
			Want: "4: align: 0; addresses are multiples of 1 byte or more",
		},
		{
			Name: "coarse", Old: `"buffers": [`, New: `"align": 500000000000000, "buffers": [`, Want: "4: align: 500000000000000 for 2 buffers",
			Semantic: true,
		},
		{Name: "too large", Old: `"size": 4`, New: `"size": 1e15`, Want: `4: buffers: all sizes together are 1e+15 bytes`, Semantic: true},
	},
	Parts: func(l *lifetimes.Lifetimes) (*[]strictjson.Extra, *map[string]any) { return &l.Extra, &l.Source },
}

func TestRead(t *testing.T) {
	l, err := format.Parse(small)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(smallLifetimes(), l); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	fine, err := format.Parse(own)
	if err != nil {
		t.Fatal(err)
	}
	if fine.Grid() != 640 {
		t.Errorf("64 bytes are %d tenths", fine.Grid())
	}
	if fine.Unit != 1 || fine.Buffers[0].Size != 25 {
		t.Errorf("2.5 bytes are %g of unit %d", fine.Buffers[0].Size, fine.Unit)
	}
}

// What minimalloc reads is read, and what is written is read back to the same.
func TestCSV(t *testing.T) {
	for name, x := range map[string]struct{ text, err string }{
		"as it is":    {"id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\n", ""},
		"inclusive":   {"buffer,start,end,size\nb1,0,2,4\nb2,3,8,4\n", ""},
		"other order": {"size,upper,lower,id,offset\n4,3,0,b1,\n4,9,3,b2,\n", ""},
		"alignment":   {"id,lower,upper,size,alignment,gaps\nb1,0,3,4,1,\nb2,3,9,4,1,\n", ""},

		"aligned": {"id,lower,upper,size,alignment\nb1,0,3,4,64\nb2,3,9,4,64\n", ""},

		"empty":         {"", "f.csv: the file is empty"},
		"no size":       {"id,lower,upper\n", `f.csv:1: column "size" is missing`},
		"unknown":       {"id,lower,upper,size,colour\n", `f.csv:1: column "colour" is unknown`},
		"twice":         {"id,lower,begin,upper,size\n", `f.csv:1: column "begin" is unknown or given twice`},
		"a word":        {"id,lower,upper,size\nb1,0,3,x\n", `f.csv:2: size: "x" is not an integer`},
		"too few":       {"id,lower,upper,size\nb1,0,3\n", `f.csv: record on line 2: wrong number of fields`},
		"gap at an end": {"id,lower,upper,size,gaps\nb1,0,5,4,3-5\nb2,1,9,4,1-2 2-3\n", ""},
		"window":        {"id,lower,upper,size,gaps\nb1,0,3,4,1-2@0:2\n", `f.csv:2: gaps: "1-2@0:2" keeps a window of addresses`},
		"long gap":      {"id,lower,upper,size,gaps\nb1,0,3,4,1-4\n", `f.csv:2: gaps: 1-4 is empty or not within`},
		"no gap":        {"id,lower,upper,size,gaps\nb1,0,3,4,1\n", `f.csv:2: gaps: "1" is not a gap`},
		"hint":          {"id,lower,upper,size,hint\nb1,0,3,4,1\n", `f.csv:1: column hint: no method`},
		"no alignment":  {"id,lower,upper,size,alignment\nb1,0,3,4,0\n", `f.csv:2: alignment: 0; it is at least 1`},
		"pins overlap": {
			"id,lower,upper,size,offset\nx,0,4,64,0\ny,2,6,64,32\n",
			`f.csv: buffers[1].offset: the pins of buffers "x" and "y" overlap: [0, 64) and [32, 96); if the column offset is a placement`,
		},
		"off the grid": {
			"id,lower,upper,size,alignment,offset\nx,0,4,64,64,32\n",
			`f.csv: buffers[0].offset: buffer "x" is pinned to 32, which is no multiple of its alignment, 64`,
		},
		"no buffers":     {"id,lower,upper,size\n", `f.csv: buffers: at least one buffer`},
		"empty lifetime": {"id,lower,upper,size\nb1,3,3,4\n", `f.csv: buffers[0].upper: 3 is not after lower`},
	} {
		l, err := lifetimes.ReadCSV(strings.NewReader(x.text), "f.csv")
		if x.err != "" {
			if err == nil || !strings.HasPrefix(err.Error(), x.err) {
				t.Errorf("%s: error %v, want %s…", name, err, x.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := []lifetimes.Buffer{{ID: "b1", Lower: 0, Upper: 3, Size: 4}, {ID: "b2", Lower: 3, Upper: 9, Size: 4}}
		if diff := cmp.Diff(want, l.Buffers); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		again(t, l)
	}
}

func again(t *testing.T, l *lifetimes.Lifetimes) {
	t.Helper()
	var b bytes.Buffer
	if err := l.WriteCSV(&b, nil); err != nil {
		t.Fatal(err)
	}
	m, err := lifetimes.ReadCSV(&b, "again")
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	if l.Unsupported() == "" && m.Grid() != l.Grid() {
		t.Errorf("an alignment of %d is read back as %d", l.Grid(), m.Grid())
	}
	if diff := cmp.Diff(l.Buffers, m.Buffers); diff != "" && l.Unsupported() == "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
}

// Pins, gaps and alignments of a file are read, and written as they were.
func TestStructuredCSV(t *testing.T) {
	const text = "id,lower,upper,size,alignment,gaps,offset\na,0,9,4,64,2-3 5-7,64\nb,1,5,4,32,,96\n"
	l, err := lifetimes.ReadCSV(strings.NewReader(text), "f.csv")
	if err != nil {
		t.Fatal(err)
	}
	want := []lifetimes.Buffer{
		{ID: "a", Lower: 0, Upper: 9, Size: 4, Align: 64, Gaps: []lifetimes.Interval{{2, 3}, {5, 7}}, Pinned: true, Offset: 64},
		{ID: "b", Lower: 1, Upper: 5, Size: 4, Align: 32, Pinned: true, Offset: 96},
	}
	if diff := cmp.Diff(want, l.Buffers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var b bytes.Buffer
	if err := l.WriteCSV(&b, nil); err != nil || b.String() != text {
		t.Errorf("%v, written as\n%s", err, b.String())
	}
	placed, offsets, err := lifetimes.ReadPlacedCSV(strings.NewReader("id,lower,upper,size,offset\nx,0,4,64,0\ny,2,6,64,32\n"), "f.csv")
	if err != nil || placed.Buffers[1].Pinned || offsets[1] != 32 {
		t.Errorf("a placement: %v, %+v at %v", err, placed, offsets)
	}
	if _, _, err = lifetimes.ReadPlacedCSV(strings.NewReader("id,lower,upper,size\nx,0,4,64\n"), "f.csv"); err == nil ||
		!strings.Contains(err.Error(), "has an offset") {
		t.Errorf("a placement without offsets: %v", err)
	}
}

func FuzzReadCSV(f *testing.F) {
	f.Add("id,lower,upper,size\nb1,0,3,4\n")
	f.Add("buffer,start,end,size,offset\n\"a\"\"b\",0,2,4,0\n")
	f.Fuzz(func(t *testing.T, text string) {
		if l, err := lifetimes.ReadCSV(strings.NewReader(text), "fuzz"); err == nil && !strings.Contains(text, "\r") {
			again(t, l)
		}
	})
}

func TestReadErrors(t *testing.T) { format.ReadErrors(t) }

func TestSchema(t *testing.T) { format.Schema(t) }

func TestWriteErrors(t *testing.T) {
	l := smallLifetimes()
	l.Buffers[0].Size = 0.5
	format.WriteErrors(t, smallLifetimes(), l, "lifetimes toy: buffers[0].size: 0.5 is not an integer multiple of the unit of sizes, 1 bytes")
}

// random generates valid lifetimes.
func random() *rapid.Generator[*lifetimes.Lifetimes] {
	return rapid.Custom(func(t *rapid.T) *lifetimes.Lifetimes {
		l := &lifetimes.Lifetimes{
			Name:  strings.ToValidUTF8(rapid.String().Draw(t, "name"), "?"),
			Align: rapid.SampledFrom([]int64{0, 2, 512}).Draw(t, "align"),
		}
		for i := range rapid.IntRange(1, 5).Draw(t, "buffers") {
			lower := rapid.Int64Range(-lifetimes.MaxInstant, lifetimes.MaxInstant-1).Draw(t, "lower")
			l.Buffers = append(l.Buffers, lifetimes.Buffer{
				ID: strconv.Itoa(i), Lower: lower, Upper: rapid.Int64Range(lower+1, lifetimes.MaxInstant).Draw(t, "upper"),
				Size: float64(rapid.Int64Range(0, 1e14).Draw(t, "size")),
			})
		}
		return l
	})
}

func TestRoundTrip(t *testing.T) { format.RoundTrip(t, random()) }

func FuzzRead(f *testing.F) { format.Fuzz(f) }
