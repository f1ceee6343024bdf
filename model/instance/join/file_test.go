package join_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"workbench/model/instance/join"
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

var format = testfile.Format[*join.Join]{
	Name: "join", Read: join.Read, Good: []string{small, own}, Bad: bad,
	Parts: func(j *join.Join) (*[]strictjson.Extra, *map[string]any) { return &j.Extra, &j.Source },
}

func read(s string) (*join.Join, error) { return format.Parse(s) }

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
		if k, span := j.K(), j.TotalTime(); k != 3 || span != 14*3.5 {
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
var bad = []testfile.Bad{
	{"empty", small, "", "1: the file is empty", false},
	{"version", "join/v1", "join/v2", `2: format: "workbench.join/v2" is not understood here`, false},
	{"no format", `"format": "workbench.join/v1",`, ``, `1: format: missing`, false},
	{"unknown field", `"slots"`, `"memory"`, "5: memory: unknown field; known are format, name, branches, slots, forward_time, " +
		"backward_time, loss_time, keep, source, and", false},
	{"field twice", `"slots": 9`, `"slots": 9, "slots": 9`, "5: slots: the field stands twice", true},
	{"no branches", `"branches": [4, 10, 0],`, ``, "1: branches: a join needs at least one branch; it lists the length of each", false},
	{"empty branches", `[4, 10, 0]`, `[]`, "4: branches: a join needs at least one branch", false},
	{"negative length", `[4, 10, 0]`, `[4, -10, 0]`, "4: branches[1]: -10 is negative; it is the number of forwards of the branch", false},
	{"half a length", `[4, 10, 0]`, `[4, 10.5, 0]`, "4: branches[1]: 10.5 where an integer is needed", false},
	{"long branch", `[4, 10, 0]`, `[4, 10000001, 0]`, "4: branches[1]: the branches have more than 10000000 forwards together", false},
	{"long branches", `[4, 10, 0]`, `[4, 9999990, 7]`, "4: branches[2]: the branches have more than 10000000 forwards together", true},
	{"negative slots", `"slots": 9`, `"slots": -9`, "5: slots: -9 is negative; leave it out", false},
	{
		"no forward time", `"forward_time": 1,`, ``, "1: forward_time: missing; a join has a forward_time, a backward_time and a loss_time",
		false,
	},
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

func TestReadErrors(t *testing.T) { format.ReadErrors(t) }

// own is small with a field of the user's own.
var own = strings.Replace(small, `"slots"`, `"x-note": ["any", {"thing": null}], "slots"`, 1)

func TestSchema(t *testing.T) { format.Schema(t) }

func TestOwnFields(t *testing.T) {
	format.OwnFields(t, own, smallJoin(), ` x-note ["any",{"thing":null}]`)
}

func TestWriteGolden(t *testing.T) { format.WriteGolden(t, "small.json", own) }

func TestWriteErrors(t *testing.T) {
	j := smallJoin()
	j.LossTime = math.NaN()
	format.WriteErrors(t, smallJoin(), j, "join toy: loss_time: NaN is not finite")
}

func TestValidate(t *testing.T) {
	format.Validate(t, smallJoin, map[string]func(*join.Join){
		"branches: a join needs":            func(j *join.Join) { j.Branches = nil },
		"branches[0]: -4 is negative":       func(j *join.Join) { j.Branches[0] = -4 },
		"branches[1]: the branches have":    func(j *join.Join) { j.Branches[1] = math.MaxInt },
		"slots: -1 is negative":             func(j *join.Join) { j.Slots = -1 },
		"keep: 1 values for 3 branches":     func(j *join.Join) { j.Keep = []bool{true} },
		"forward_time: NaN is not finite":   func(j *join.Join) { j.ForwardTime = math.NaN() },
		"backward_time: +Inf is not finite": func(j *join.Join) { j.BackwardTime = math.Inf(1) },
		"loss_time: -1 is negative":         func(j *join.Join) { j.LossTime = -1 },
	})
}

// joins generates valid joins.
func joins() *rapid.Generator[*join.Join] {
	return rapid.Custom(func(t *rapid.T) *join.Join {
		number := testfile.Seconds()
		j := &join.Join{
			Name: strings.ToValidUTF8(rapid.String().Draw(t, "name"), "?"), Slots: rapid.IntRange(0, math.MaxInt).Draw(t, "slots"),
			ForwardTime: number.Draw(t, "forward"), BackwardTime: number.Draw(t, "backward"), LossTime: number.Draw(t, "loss"),
		}
		for range rapid.IntRange(1, 5).Draw(t, "branches") {
			j.Branches = append(j.Branches, rapid.IntRange(0, join.MaxLength/5).Draw(t, "length"))
			j.Keep = append(j.Keep, rapid.Bool().Draw(t, "keep"))
		}
		return j
	})
}

func TestRoundTrip(t *testing.T) { format.RoundTrip(t, joins()) }

func TestDigest(t *testing.T) {
	format.Digests(t, "65c8f99772f46ae1a6dd9c7f4cb5b635c6b09e3b98e578b42520f5631ed388cc", map[string]string{
		"other source": strings.Replace(small, "[004]", "[003]", 1),
		"own fields":   own,
		"booleans":     strings.Replace(small, `[0, 1, 1]`, `[false, true, true]`, 1),
		"written":      strings.Replace(small, `2.5`, `25.0e-1`, 1),
		"minus zero":   strings.Replace(small, `"loss_time": 0`, `"loss_time": -0.0`, 1),
	}, [][2]string{{`"toy"`, `"other"`}, {`[4,`, `[5,`}, {`9`, `8`}, {`2.5`, `2`}, {`[0, 1`, `[1, 1`}})
	j := smallJoin()
	j.Keep, j.ForwardTime, j.BackwardTime = nil, 0, 0
	k := smallJoin()
	k.Keep, k.ForwardTime, k.BackwardTime = make([]bool, 3), math.Copysign(0, -1), math.Copysign(0, -1)
	if testfile.Digest(t, j) != testfile.Digest(t, k) {
		t.Error("nothing kept, or zero, has two digests")
	}
}

func FuzzRead(f *testing.F) { format.Fuzz(f) }
