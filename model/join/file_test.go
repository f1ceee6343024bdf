package join_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"workbench/model/join"
	"workbench/model/strictjson"
	"workbench/model/testfile"
)

const small = `{
  "format": "workbench.join/v1",
  "name": "toy",
  "branches": [4, 10, 0],
  "slots": 9,
  "forward_time": 1,
  "backward_time": 2.5,
  "loss_time": 0,
  "keep": [0, 1, 1],
  "source": {"paper": "[004]"}
}
`

func smallJoin() *join.Join {
	return &join.Join{
		Name: "toy", Branches: []int{4, 10, 0}, Slots: 9, Keep: []bool{false, true, true},
		ForwardTime: 1, BackwardTime: 2.5, Source: map[string]any{"paper": "[004]"},
	}
}

func read(s string) (*join.Join, error) { return join.Read(strings.NewReader(s), "join.json") }

func write(t interface {
	Helper()
	Fatal(...any)
}, j *join.Join,
) string {
	t.Helper()
	var b bytes.Buffer
	if err := j.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func digest(t interface {
	Helper()
	Fatal(...any)
}, j *join.Join,
) string {
	t.Helper()
	d, err := j.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestRead(t *testing.T) {
	for name, s := range map[string]string{
		"as it is": small,
		"booleans": strings.Replace(small, `[0, 1, 1]`, `[false, true, 1]`, 1),
	} {
		j, err := read(s)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(smallJoin(), j); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if k, span := j.K(), j.Span(); k != 3 || span != 14*3.5 {
			t.Errorf("%d branches, %g s", k, span)
		}
		if j.Keeps(0) || !j.Keeps(1) || !j.Keeps(2) {
			t.Errorf("keeps %v", j.Keep)
		}
	}
	j, err := read(`{"format": "workbench.join/v1", "branches": [0], "forward_time": 1, "backward_time": 1, "loss_time": 1}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&join.Join{Branches: []int{0}, Keep: []bool{false}, ForwardTime: 1, BackwardTime: 1, LossTime: 1}, j); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

// bad are documents made from small that are refused. Those marked are refused
// for what a schema cannot say.
var bad = []struct {
	name, old, new, want string
	semantic             bool
}{
	{"empty", small, "", "1: the file is empty", false},
	{"version", "join/v1", "join/v2", `2: format: "workbench.join/v2" is not understood here`, false},
	{"no format", `"format": "workbench.join/v1",`, ``, `1: format: missing`, false},
	{"unknown field", `"slots"`, `"memory"`, "5: memory: unknown field; known are format, name, branches, slots, forward_time, backward_time, loss_time, keep, source, and", false},
	{"field twice", `"slots": 9`, `"slots": 9, "slots": 9`, "5: slots: the field stands twice", true},
	{"no branches", `"branches": [4, 10, 0],`, ``, "1: branches: a join needs at least one branch; it lists the length of each", false},
	{"empty branches", `[4, 10, 0]`, `[]`, "4: branches: a join needs at least one branch", false},
	{"negative length", `[4, 10, 0]`, `[4, -10, 0]`, "4: branches[1]: -10 is negative; it is the number of forwards of the branch", false},
	{"half a length", `[4, 10, 0]`, `[4, 10.5, 0]`, "4: branches[1]: 10.5 where a whole number is needed", false},
	{"long branch", `[4, 10, 0]`, `[4, 10000001, 0]`, "4: branches[1]: the branches have more than 10000000 forwards together", false},
	{"long branches", `[4, 10, 0]`, `[4, 9999990, 7]`, "4: branches[2]: the branches have more than 10000000 forwards together", true},
	{"negative slots", `"slots": 9`, `"slots": -9`, "5: slots: -9 is negative; leave it out", false},
	{"no forward time", `"forward_time": 1,`, ``, "1: forward_time: missing; a join has a forward_time, a backward_time and a loss_time", false},
	{"no backward time", `"backward_time": 2.5,`, ``, "1: backward_time: missing", false},
	{"no loss time", `"loss_time": 0,`, ``, "1: loss_time: missing", false},
	{"null time", `"forward_time": 1`, `"forward_time": null`, "6: forward_time: null where a number is needed", false},
	{"negative time", `"forward_time": 1`, `"forward_time": -1`, "6: forward_time: -1 is negative", false},
	{"negative backward time", `"backward_time": 2.5`, `"backward_time": -2.5`, "7: backward_time: -2.5 is negative", false},
	{"negative loss time", `"loss_time": 0`, `"loss_time": -1e-9`, "8: loss_time: -1e-09 is negative", false},
	{"NaN", `"loss_time": 0`, `"loss_time": NaN`, "8: loss_time: not JSON", false},
	{"too few to keep", `[0, 1, 1]`, `[0, 1]`, "9: keep: 2 values for 3 branches; it says 1 or 0 for each, or is left out", true},
	{"nothing to keep", `[0, 1, 1]`, `[]`, "9: keep: 0 values for 3 branches", true},
	{"half kept", `[0, 1, 1]`, `[0, 0.5, 1]`, "9: keep[1]: 1 or 0 is needed, or true or false: whether δ_0 of the branch is kept", false},
	{"two kept", `[0, 1, 1]`, `[0, 2, 1]`, "9: keep[1]: 1 or 0 is needed", false},
	{"null kept", `[0, 1, 1]`, `[0, null, 1]`, "9: keep[1]: 1 or 0 is needed", false},
	{"null for keep", `[0, 1, 1]`, `null`, "9: keep: null where a list is needed", false},
	{"number for keep", `[0, 1, 1]`, `1`, "9: keep: a number where a list is needed", false},
}

func TestReadErrors(t *testing.T) {
	for _, x := range bad {
		t.Run(x.name, func(t *testing.T) {
			s := strings.Replace(small, x.old, x.new, 1)
			if s == small {
				t.Fatal("the mutation changes nothing")
			}
			_, err := read(s)
			var located *strictjson.Error
			if !errors.As(err, &located) || !strings.HasPrefix(err.Error(), "join.json:"+x.want) {
				t.Errorf("error %v\nwant  join.json:%s…", err, x.want)
			}
		})
	}
	broken := errors.New("broken")
	if _, err := join.Read(failing{broken}, "join.json"); !errors.Is(err, broken) {
		t.Errorf("unreadable: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

// own is small with a field of the user's own.
var own = strings.Replace(small, `"slots"`, `"x-note": ["any", {"thing": null}], "slots"`, 1)

// The schema and Read refuse the same documents, up to what a schema cannot
// say.
func TestSchema(t *testing.T) {
	validate := testfile.Schema(t, "join-v1.json")
	for _, s := range []string{small, own} {
		if err := validate(s); err != nil {
			t.Error(err)
		}
	}
	for _, x := range bad {
		err := validate(strings.Replace(small, x.old, x.new, 1))
		if (err == nil) != x.semantic {
			t.Errorf("%s: error %v", x.name, err)
		}
	}
}

func TestWriteGolden(t *testing.T) {
	j, err := read(own)
	if err != nil {
		t.Fatal(err)
	}
	testfile.Golden(t, "small.json", write(t, j))
	again, err := read(write(t, j))
	if err != nil {
		t.Fatal(err)
	}
	if len(j.Extra) != 1 || len(again.Extra) != 1 {
		t.Errorf("own fields %v, read again %v", j.Extra, again.Extra)
	}
}

func TestWriteErrors(t *testing.T) {
	j := smallJoin()
	broken := errors.New("broken")
	if err := j.Write(failing{broken}); !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "join toy: ") {
		t.Errorf("unwritable: %v", err)
	}
	j.LossTime = math.NaN()
	if err := j.Write(&bytes.Buffer{}); err == nil || !strings.HasPrefix(err.Error(), "join toy: loss_time: NaN is not finite") {
		t.Errorf("NaN: %v", err)
	}
	if _, err := j.Digest(); err == nil || !strings.HasPrefix(err.Error(), "join toy: loss_time: NaN is not finite") {
		t.Errorf("digest of NaN: %v", err)
	}
}

// Joins that are made and not read are checked all the same.
func TestValidate(t *testing.T) {
	if err := smallJoin().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*join.Join){
		"branches: a join needs":            func(j *join.Join) { j.Branches = nil },
		"branches[0]: -4 is negative":       func(j *join.Join) { j.Branches[0] = -4 },
		"branches[1]: the branches have":    func(j *join.Join) { j.Branches[1] = math.MaxInt },
		"slots: -1 is negative":             func(j *join.Join) { j.Slots = -1 },
		"keep: 1 values for 3 branches":     func(j *join.Join) { j.Keep = []bool{true} },
		"forward_time: NaN is not finite":   func(j *join.Join) { j.ForwardTime = math.NaN() },
		"backward_time: +Inf is not finite": func(j *join.Join) { j.BackwardTime = math.Inf(1) },
		"loss_time: -1 is negative":         func(j *join.Join) { j.LossTime = -1 },
	} {
		j := smallJoin()
		spoil(j)
		err := j.Validate()
		var field *join.FieldError
		if !errors.As(err, &field) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s…", err, want)
		}
	}
}

// What is written is read back to the bit, has the same digest, and is of the
// schema.
func TestRoundTrip(t *testing.T) {
	validate := testfile.Schema(t, "join-v1.json")
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Float64Range(0, math.MaxFloat64)
		j := &join.Join{
			Name: strings.ToValidUTF8(rapid.String().Draw(t, "name"), "?"), Slots: rapid.IntRange(0, math.MaxInt).Draw(t, "slots"),
			ForwardTime: number.Draw(t, "forward"), BackwardTime: number.Draw(t, "backward"), LossTime: number.Draw(t, "loss"),
		}
		for range rapid.IntRange(1, 5).Draw(t, "branches") {
			j.Branches = append(j.Branches, rapid.IntRange(0, join.MaxLength/5).Draw(t, "length"))
			j.Keep = append(j.Keep, rapid.Bool().Draw(t, "keep"))
		}
		s := write(t, j)
		again, err := read(s)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(j, again); diff != "" {
			t.Fatalf("(-written +read):\n%s", diff)
		}
		if a, b := digest(t, j), digest(t, again); a != b {
			t.Fatalf("digest %s before, %s after", a, b)
		}
		if err := validate(s); err != nil {
			t.Fatal(err)
		}
	})
}

// The digest is of the numbers and names alone. Plans that were stored refer to
// it, so it must never change.
func TestDigest(t *testing.T) {
	const want = "65c8f99772f46ae1a6dd9c7f4cb5b635c6b09e3b98e578b42520f5631ed388cc"
	for name, s := range map[string]string{
		"as it is":     small,
		"other source": strings.Replace(small, "[004]", "[003]", 1),
		"own fields":   own,
		"booleans":     strings.Replace(small, `[0, 1, 1]`, `[false, true, true]`, 1),
		"written":      strings.Replace(small, `2.5`, `25.0e-1`, 1),
		"minus zero":   strings.Replace(small, `"loss_time": 0`, `"loss_time": -0.0`, 1),
	} {
		j, err := read(s)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := digest(t, j); got != want {
			t.Errorf("%s: digest %s, want %s", name, got, want)
		}
	}
	for _, x := range [][2]string{{`"toy"`, `"other"`}, {`[4,`, `[5,`}, {`9`, `8`}, {`2.5`, `2`}, {`[0, 1`, `[1, 1`}} {
		j, err := read(strings.Replace(small, x[0], x[1], 1))
		if err != nil {
			t.Fatal(err)
		}
		if digest(t, j) == want {
			t.Errorf("%s instead of %s does not change the digest", x[1], x[0])
		}
	}
	j := smallJoin()
	j.Keep = nil
	k := smallJoin()
	k.Keep = make([]bool, 3)
	if digest(t, j) != digest(t, k) {
		t.Error("nothing kept has two digests")
	}
}

// FuzzRead: nothing panics; what is read is of the schema and written and read
// to the same.
func FuzzRead(f *testing.F) {
	validate := testfile.Schema(f, "join-v1.json")
	f.Add([]byte(small))
	f.Add([]byte(own))
	for _, x := range bad {
		f.Add([]byte(strings.Replace(small, x.old, x.new, 1)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		document := testfile.Document[*join.Join]{
			Validate: validate, Read: read,
			Write: func(j *join.Join) string { return write(t, j) },
			Strip: func(j *join.Join) int {
				own := len(j.Extra)
				j.Extra = nil
				if len(j.Source) == 0 {
					j.Source = nil
				}
				return own
			},
		}
		document.Holds(t, string(data))
	})
}
