package certificate

import (
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/strictjson"
	"workbench/model/testfile"
)

func parse(s string) (*Certificate, error) { return Read(strings.NewReader(s), "proof.json") }

func TestWriteGolden(t *testing.T) {
	c := covered()
	c.Platform, c.Options = json.RawMessage(`{"memory":7}`), json.RawMessage(`{"strong":true}`)
	testfile.Golden(t, "covering.json", testfile.Text(t, c))
}

// TestReadErrors: every spoiled document is refused where it is wrong; by the
// schema, too, but for what it cannot say.
func TestReadErrors(t *testing.T) {
	validate := testfile.Schema(t, "certificate-v1.json")
	good := testfile.Text(t, covered())
	if err := validate(good); err != nil {
		t.Error(err)
	}
	for _, x := range []testfile.Bad{
		{"version", "certificate/v1", "certificate/v2", `2: format: "workbench.certificate/v2" is not understood here`, false},
		{"unknown field", `"backend"`, `"solver"`, "7: solver: unknown field", false},
		{"no digest", digest, "5a5a", `4: instance: "5a5a" is not a SHA-256`, false},
		{"no tree", `"tree"`, `"x-tree"`, "1: tree: missing", false},
		{"no bound", `"bound"`, `"x-bound"`, "1: bound: missing", false},
		{"bad fraction", `"5/4"`, `"5/4.5"`, `9: bound.fraction: "5/4.5" is not a fraction`, false},
		{"no denominator", `"5/4"`, `"5/0"`, `9: bound.fraction: "5/0" is not a fraction`, true},
		{"better decimal", `1.25`, `1.26`, `9: bound.decimal: "1.26" is not the fraction to 17 digits, rounded down: 1.25`, true},
		{"scale", `"scale": 0.25`, `"scale": 0.3`, "10: scale: 0.3 is not a power of two", true},
		{"half a branch", `"at":0,`, ``, "11: tree: a branch needs column, at, down and up", false},
		{"branch and leaf", `"at":0,`, `"at":0,"empty":[],`, "11: tree: branches and multipliers; a node has either", false},
		{"no leaf", `"multipliers":[]`, ``, "11: tree.up.up: a leaf has multipliers, or empty, and not both", false},
		{
			"two leaves", `"multipliers":[]`, `"multipliers":[],"empty":[]`, "11: tree.up.up: a leaf has multipliers, or empty, and not both",
			false,
		},
		{"null leaf", `"multipliers":[]`, `"multipliers":null`, "11: tree.up.up.multipliers: a list of pairs [row, value] is needed", false},
		{"object", `"multipliers":[]`, `"multipliers":{}`, "11: tree.up.up.multipliers: a list of pairs [row, value] is needed", false},
		{"single", `[[0,1]]`, `[[0]]`, "11: tree.down.empty: [0]: a pair [row, value] is needed", false},
		{"triple", `[[0,1]]`, `[[0,1,2]]`, `11: tree.down.empty: [0]: "1,2" is not a number`, false},
		{"nested", `[[0,1]]`, `[[[0],1]]`, `11: tree.down.empty: [0]: a pair [row, value] is needed`, false},
		{"pair of text", `[[0,1]]`, `[["0",1]]`, `11: tree.down.empty: [0]: "\"0\"" is not a row`, false},
		{"half a row", `[[0,1]]`, `[[0.5,1]]`, `11: tree.down.empty: [0]: "0.5" is not a row`, false},
		{"huge", `[[0,1]]`, `[[0,1e999]]`, `11: tree.down.empty: [0]: "1e999" is not a number in range`, true},
		{"no pair", `[[0,1]]`, `[7]`, `11: tree.down.empty: [0]: a pair [row, value] is needed`, false},
	} {
		bad := strings.Replace(good, x.Old, x.New, 1)
		if bad == good {
			t.Fatalf("%s: the replacement changes nothing", x.Name)
		}
		_, err := parse(bad)
		var located *strictjson.Error
		if want := "proof.json:" + x.Want; !errors.As(err, &located) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: error %v\nwant  %s…", x.Name, err, want)
		}
		if err := validate(bad); (err == nil) != x.Semantic {
			t.Errorf("%s: by the schema %v", x.Name, err)
		}
	}
}

// trees draws trees, whose rows need not exist.
func trees(depth int) *rapid.Generator[*Node] {
	return rapid.Custom(func(t *rapid.T) *Node {
		if depth > 0 && rapid.Bool().Draw(t, "inner") {
			return &Node{
				Column: rapid.IntRange(0, 9).Draw(t, "column"), At: float64(rapid.IntRange(-9, 9).Draw(t, "at")),
				Down: trees(depth-1).Draw(t, "down"), Up: trees(depth-1).Draw(t, "up"),
			}
		}
		n := &Node{Empty: rapid.Bool().Draw(t, "empty"), Multipliers: []Multiplier{}}
		for i := range rapid.IntRange(0, 3).Draw(t, "rows") {
			n.Multipliers = append(n.Multipliers, Multiplier{int32(i), rapid.Float64().Draw(t, "value")})
		}
		return n
	})
}

func TestRoundTrip(t *testing.T) {
	validate := testfile.Schema(t, "certificate-v1.json")
	testfile.Property(t, func(t *rapid.T) {
		c := covered()
		c.Name = strings.ToValidUTF8(rapid.String().Draw(t, "name"), "?")
		c.Tree = trees(3).Draw(t, "tree")
		c.Granularity = rapid.SampledFrom([]float64{0, 0.1, 7}).Draw(t, "granularity")
		c.Bound.SetFloat64(rapid.Float64Range(-1e300, 1e300).Draw(t, "bound"))
		if rapid.Bool().Draw(t, "infeasible") {
			c.Infeasible, c.Bound, c.Scale, c.Granularity = true, nil, 0, 0
		}
		survives(t, testfile.Text(t, c), validate)
	})
}

// survives reads a document and checks that, written again, it is of the schema
// and says the same.
func survives(t rapid.TB, s string, validate func(string) error) {
	t.Helper()
	c, err := parse(s)
	if err != nil {
		t.Fatal(err)
	}
	again := testfile.Text(t, c)
	if err := validate(again); err != nil {
		t.Fatal(err)
	}
	d, err := parse(again)
	if err != nil {
		t.Fatalf("%v\n%s", err, again)
	}
	if third := testfile.Text(t, d); third != again {
		t.Fatalf("written\n%s\nread and written\n%s", again, third)
	}
}

// TestDecimal: 17 digits, not above the number, and less than one in the last
// place below it.
func TestDecimal(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		x := new(big.Rat).SetFloat64(rapid.Float64().Draw(t, "x"))
		x.Quo(x, big.NewRat(rapid.Int64Range(1, 1000).Draw(t, "denominator"), 1))
		s := decimal(x, 17)
		v, ok := new(big.Rat).SetString(s)
		if !ok || v.Cmp(x) > 0 {
			t.Fatalf("%v is written %s", x, s)
		}
		if slack := v.Sub(x, v); slack.Cmp(new(big.Rat).Abs(new(big.Rat).Mul(x, big.NewRat(1, 1e15)))) > 0 {
			t.Fatalf("%v is written %s: off by %v", x, s, slack)
		}
	})
	for want, x := range map[string]*big.Rat{
		"0": {}, "-0.33333333333333334": big.NewRat(-1, 3), "0.66666666666666666": big.NewRat(2, 3),
		"1.25": big.NewRat(5, 4), "1000": big.NewRat(1000, 1),
	} {
		if got := decimal(x, 17); got != want {
			t.Errorf("%v is written %s, want %s", x, got, want)
		}
	}
}

// FuzzRead: nothing panics, neither reading nor checking, errors are of one
// line, and what is read is of the schema and is written and read to the same.
func FuzzRead(f *testing.F) {
	validate := testfile.Schema(f, "certificate-v1.json")
	f.Add([]byte(testfile.Text(f, covered())))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parse(string(data))
		if err == nil {
			err = c.Check(covering())
			if err == nil && c.Bound.Cmp(big.NewRat(5, 1)) > 0 && c.Scale == 1 {
				t.Fatalf("more than 5 is proved by %s", data)
			}
			survives(t, string(data), validate)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Fatalf("error of several lines: %q", err)
		}
	})
}
