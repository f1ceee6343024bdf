package join

import (
	"encoding/json"
	"fmt"
	"io"

	"workbench/model/strictjson"
)

// maxBytes is the most a join file may have: a wrong file is refused before it
// fills the memory.
const maxBytes = 16 << 20

// MaxLength is the most forwards that all branches together may have.
const MaxLength = 10_000_000

// file mirrors the format. Nil fields take their defaults or, if they have
// none, are missing; "omitempty" keeps null out of them.
type file struct {
	Format       string            `json:"format"`
	Name         string            `json:"name"`
	Branches     []int             `json:"branches"`
	Slots        int               `json:"slots,omitempty"`
	ForwardTime  *float64          `json:"forward_time,omitempty"`
	BackwardTime *float64          `json:"backward_time,omitempty"`
	LossTime     *float64          `json:"loss_time,omitempty"`
	Keep         []json.RawMessage `json:"keep,omitempty"`
	Source       map[string]any    `json:"source,omitempty"`
}

// Read reads a join/v1 document. Name is for errors, which say the file, the
// line, the field and what would be right. O(size of the file).
func Read(r io.Reader, name string) (*Join, error) {
	return strictjson.ReadFormat(r, name, Format, maxBytes, (*file).join)
}

// join fills in the defaults and validates.
func (f *file) join(extra []strictjson.Extra) (*Join, error) {
	for _, required := range []struct {
		name  string
		value *float64
	}{{"forward_time", f.ForwardTime}, {"backward_time", f.BackwardTime}, {"loss_time", f.LossTime}} {
		if required.value == nil {
			return nil, strictjson.Wrong(required.name, "missing; a join has a forward_time, a backward_time and a loss_time")
		}
	}
	j := &Join{
		Name: f.Name, Branches: f.Branches, Slots: f.Slots, Source: f.Source, Extra: extra,
		ForwardTime: *f.ForwardTime, BackwardTime: *f.BackwardTime, LossTime: *f.LossTime,
		Keep: make([]bool, len(f.Branches)),
	}
	if f.Keep == nil || len(f.Branches) == 0 {
		return j, j.Validate()
	}
	if len(f.Keep) != len(f.Branches) {
		return nil, strictjson.Wrong("keep", "%d values for %d branches; it says 1 or 0 for each, or is left out", len(f.Keep), len(f.Branches))
	}
	for i, b := range f.Keep {
		switch string(b) {
		case "1", "true":
			j.Keep[i] = true
		case "0", "false":
		default:
			return nil, strictjson.Wrong(fmt.Sprintf("keep[%d]", i), "1 or 0 is needed, or true or false: whether δ_0 of the branch is kept")
		}
	}
	return j, j.Validate()
}

// Validate checks that there is a branch, that no length and no number of slots
// is negative, that there are at most [MaxLength] forwards, and that times are
// finite and not negative. Keep may be nil: nothing is kept. The error is a
// *strictjson.FieldError. O(K).
func (j *Join) Validate() error {
	switch {
	case j.K() == 0:
		return strictjson.Wrong("branches", "a join needs at least one branch; it lists the length of each")
	case j.Slots < 0:
		return strictjson.Wrong("slots", "%d is negative; leave it out if the memory is given elsewhere", j.Slots)
	case len(j.Keep) != 0 && len(j.Keep) != j.K():
		return strictjson.Wrong("keep", "%d values for %d branches", len(j.Keep), j.K())
	}
	left := MaxLength
	for i, length := range j.Branches {
		path := fmt.Sprintf("branches[%d]", i)
		switch {
		case length < 0:
			return strictjson.Wrong(path, "%d is negative; it is the number of forwards of the branch", length)
		case length > left:
			return strictjson.Wrong(path, "the branches have more than %d forwards together", MaxLength)
		}
		left -= length
	}
	for _, t := range []struct {
		name  string
		value float64
	}{{"forward_time", j.ForwardTime}, {"backward_time", j.BackwardTime}, {"loss_time", j.LossTime}} {
		if err := strictjson.CheckSeconds(t.name, t.value); err != nil {
			return err
		}
	}
	return nil
}

// canonical returns the document that Write writes, -0 as 0, if j is valid.
func (j *Join) canonical() (*file, error) {
	if err := j.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", strictjson.Title(Format, j.Name), err)
	}
	const plus = 0.0 // -0 + 0 is 0
	forward, backward, loss := j.ForwardTime+plus, j.BackwardTime+plus, j.LossTime+plus
	f := &file{
		Format: Format, Name: j.Name, Branches: j.Branches, Slots: j.Slots,
		ForwardTime: &forward, BackwardTime: &backward, LossTime: &loss,
		Keep: make([]json.RawMessage, j.K()),
	}
	for i := range f.Keep {
		f.Keep[i] = json.RawMessage("0")
		if j.Keeps(i) {
			f.Keep[i] = json.RawMessage("1")
		}
	}
	return f, nil
}

// Write writes j as a join/v1 document with every default spelt out. j must be
// valid.
func (j *Join) Write(w io.Writer) error {
	f, err := j.canonical()
	if err != nil {
		return err
	}
	out := strictjson.NewWriter(w, f.Format, f.Name, j.Extra)
	out.Member("branches", f.Branches)
	out.Count("slots", f.Slots)
	out.Member("forward_time", f.ForwardTime)
	out.Member("backward_time", f.BackwardTime)
	out.Member("loss_time", f.LossTime)
	out.Member("keep", f.Keep)
	return out.Close(j.Source)
}

// Digest returns the digest of the document, see [strictjson.Digest]. j must be valid.
func (j *Join) Digest() (string, error) {
	return strictjson.Digest(j.canonical())
}
