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

var format = testfile.Format[*lifetimes.Lifetimes]{
	Name: "lifetimes", Read: lifetimes.Read, Good: []string{small, own}, Bad: []testfile.Bad{
		{Name: "no buffers", Old: `"buffers": [
    {"id": "a", "lower": 0, "upper": 3, "size": 4},
    {"id": 7, "lower": -2, "upper": 9, "size": 0}
  ],`, New: `"buffers": [],`, Want: "4: buffers: there has to be at least one buffer"},
		{Name: "no id", Old: `"id": "a", `, New: ``, Want: "5: buffers[0]: id is missing"},
		{Name: "empty id", Old: `"a"`, New: `""`, Want: "5: buffers[0].id: the id is empty"},
		{Name: "no upper", Old: `"upper": 3, `, New: ``, Want: "5: buffers[0]: lower or upper is missing"},
		{Name: "no size", Old: `, "size": 4`, New: ``, Want: "5: buffers[0]: size is missing"},
		{Name: "negative size", Old: `"size": 4`, New: `"size": -4`, Want: "5: buffers[0].size: -4 is negative"},
		{Name: "empty lifetime", Old: `"upper": 3`, New: `"upper": 0`, Want: `5: buffers[0].upper: 0 is not after lower, 0`, Semantic: true},
		{Name: "twice", Old: `"a"`, New: `7`, Want: `6: buffers[1].id: "7" is the id of buffers[0] already`, Semantic: true},
		{Name: "far away", Old: `"upper": 9`, New: `"upper": 9007199254740992`, Want: `6: buffers[1].lower: the lifetime of buffer "7", [-2, 9007199254740992), leaves`},
		{Name: "no alignment", Old: `"buffers": [`, New: `"align": 0, "buffers": [`, Want: "4: align: 0; addresses are multiples of 1 byte or more"},
		{Name: "coarse", Old: `"buffers": [`, New: `"align": 500000000000000, "buffers": [`, Want: "4: align: 500000000000000 for 2 buffers", Semantic: true},
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
		"other order": {"size,upper,lower,id,offset\n4,3,0,b1,0\n4,9,3,b2,4\n", ""},
		"alignment":   {"id,lower,upper,size,alignment,gaps\nb1,0,3,4,1,\nb2,3,9,4,1,\n", ""},

		"aligned": {"id,lower,upper,size,alignment\nb1,0,3,4,64\nb2,3,9,4,64\n", ""},

		"empty":          {"", "f.csv: the file is empty"},
		"no size":        {"id,lower,upper\n", `f.csv:1: column "size" is missing`},
		"unknown":        {"id,lower,upper,size,colour\n", `f.csv:1: column "colour" is unknown`},
		"twice":          {"id,lower,begin,upper,size\n", `f.csv:1: column "begin" is unknown or there twice`},
		"a word":         {"id,lower,upper,size\nb1,0,3,x\n", `f.csv:2: size: "x" is not a whole number`},
		"too few":        {"id,lower,upper,size\nb1,0,3\n", `f.csv: record on line 2: wrong number of fields`},
		"gaps":           {"id,lower,upper,size,gaps\nb1,0,3,4,1-2\n", `f.csv:2: gaps: `},
		"two alignments": {"id,lower,upper,size,alignment\nb1,0,3,4,64\nb2,3,9,4,32\n", `f.csv:3: alignment: 32; all buffers`},
		"no alignment":   {"id,lower,upper,size,alignment\nb1,0,3,4,0\n", `f.csv:2: alignment: 0; all buffers`},
		"no buffers":     {"id,lower,upper,size\n", `f.csv: buffers: there has to be`},
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
	if m.Grid() != l.Grid() {
		t.Errorf("an alignment of %d is read back as %d", l.Grid(), m.Grid())
	}
	if diff := cmp.Diff(l.Buffers, m.Buffers); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
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
	format.WriteErrors(t, smallLifetimes(), l, "lifetimes toy: buffers[0].size: 0.5 is not a whole number of the unit of sizes, 1 bytes")
}

// random generates valid lifetimes.
func random() *rapid.Generator[*lifetimes.Lifetimes] {
	return rapid.Custom(func(t *rapid.T) *lifetimes.Lifetimes {
		l := &lifetimes.Lifetimes{Name: strings.ToValidUTF8(rapid.String().Draw(t, "name"), "?"), Align: rapid.SampledFrom([]int64{0, 2, 512}).Draw(t, "align")}
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
