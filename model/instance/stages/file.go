package stages

import (
	"fmt"
	"io"
	"math"
	"slices"

	"workbench/model/platform"
	"workbench/model/strictjson"
)

// maxBytes is the most a file of stages may have: a wrong file is refused before it
// fills the memory.
const maxBytes = 64 << 20

// MostStages is how many stages there may be, MostMicroBatches how many micro-batches
// may pass through them: sums of what they hold are exact in 64 bits.
const (
	MostStages       = 1 << 12
	MostMicroBatches = 1 << 12
)

// file and fileStage mirror the format. Nil fields take their defaults or, if they
// have none, are missing.
type file struct {
	Format            string         `json:"format"`
	Name              string         `json:"name"`
	CommunicationTime float64        `json:"communication_time"`
	Runtime           string         `json:"runtime,omitempty"`
	Stages            []fileStage    `json:"stages"`
	Source            map[string]any `json:"source,omitempty"`
}

type fileStage struct {
	Name           string           `json:"name"`
	ForwardTime    *float64         `json:"forward_time,omitempty"`
	BackwardTime   *float64         `json:"backward_time,omitempty"`
	WeightTime     float64          `json:"weight_time"`
	ForwardMemory  *strictjson.Size `json:"forward_memory,omitempty"`
	BackwardMemory *strictjson.Size `json:"backward_memory,omitempty"`
	WeightMemory   strictjson.Size  `json:"weight_memory"`
	Weight         strictjson.Size  `json:"weight"`
	Overhead       strictjson.Size  `json:"overhead,omitempty"`
	RecomputeTime  float64          `json:"recompute_time,omitempty"`
	OffloadMemory  strictjson.Size  `json:"offload_memory,omitempty"`
	OffloadTime    float64          `json:"offload_time,omitempty"`
}

// Read reads a stages/v1 document. Name is for errors, which say the file, the line,
// the field and what would be right. O(size of the file).
func Read(r io.Reader, name string) (*Partition, error) {
	return strictjson.ReadSizes(r, name, Format, maxBytes, (*file).partition)
}

// partition fills in the defaults, takes sizes in units, and validates.
func (f *file) partition(extra []strictjson.Extra, unit platform.Unit) (*Partition, error) {
	p := &Partition{
		Name: f.Name, CommunicationTime: f.CommunicationTime, Stages: make([]Stage, len(f.Stages)),
		Runtime: f.Runtime, Unit: unit, Source: f.Source, Extra: extra,
	}
	units := func(x strictjson.Size) float64 {
		if x < 0 {
			return -unit.FromBytes(-float64(x))
		}
		return unit.FromBytes(float64(x))
	}
	for i := range f.Stages {
		x, path := &f.Stages[i], fmt.Sprintf("stages[%d]", i)
		switch {
		case x.ForwardTime == nil || x.BackwardTime == nil:
			return nil, strictjson.Wrong(path, "forward_time or backward_time is missing; both are seconds of one micro-batch")
		case x.ForwardMemory == nil:
			return nil, strictjson.Wrong(path, "forward_memory is missing; it is what the forward of a micro-batch keeps, in bytes")
		}
		s := &p.Stages[i]
		*s = Stage{
			Name: x.Name, ForwardTime: *x.ForwardTime, BackwardTime: *x.BackwardTime, WeightTime: x.WeightTime,
			ForwardMemory: units(*x.ForwardMemory), WeightMemory: units(x.WeightMemory), Weight: units(x.Weight),
			Overhead: units(x.Overhead), RecomputeTime: x.RecomputeTime, OffloadMemory: units(x.OffloadMemory), OffloadTime: x.OffloadTime,
		}
		s.BackwardMemory = -s.ForwardMemory - s.WeightMemory
		if x.BackwardMemory != nil {
			s.BackwardMemory = units(*x.BackwardMemory)
		}
	}
	return p, p.Validate()
}

// Validate checks that there is a stage, that times are in range,
// that forwards take memory and backwards give all of it back, in whole units, and
// that sums are exact ([platform.MaxTotal]). The error is a *strictjson.FieldError. O(stages).
func (p *Partition) Validate() error {
	if n := len(p.Stages); n == 0 || n > MostStages {
		return strictjson.Wrong("stages", "%d stages; there are from 1 to %d", n, MostStages)
	}
	if err := strictjson.CheckSeconds("communication_time", p.CommunicationTime); err != nil {
		return err
	}
	if p.Runtime != "" && p.Runtime != Torch {
		return strictjson.Wrong("runtime", "%q; there is %q, or leave it out for the rules of the papers", p.Runtime, Torch)
	}
	total := 0.0
	for i := range p.Stages {
		s := &p.Stages[i]
		if err := s.validate(fmt.Sprintf("stages[%d].", i), p.Unit); err != nil {
			return err
		}
		total += s.ForwardMemory + max(0, s.BackwardMemory) + s.Weight + s.Overhead
	}
	takes := slices.IndexFunc(p.Stages, func(s Stage) bool { return s.BackwardMemory > 0 })
	if k := slices.IndexFunc(p.Stages, func(s Stage) bool { return s.Sends() }); k >= 0 && (takes >= 0 || p.Runtime != "") {
		return strictjson.Wrong(fmt.Sprintf("stages[%d].offload_memory", k),
			"copies to the host go with neither runtime %q nor a backward that takes memory (backward_memory above 0)", Torch)
	}
	return strictjson.CheckTotal("stages", total, p.Unit)
}

func (s *Stage) validate(path string, unit platform.Unit) error {
	for _, x := range [...]struct {
		name  string
		value float64
	}{
		{"forward_time", s.ForwardTime},
		{"backward_time", s.BackwardTime},
		{"weight_time", s.WeightTime},
		{"recompute_time", s.RecomputeTime},
		{"offload_time", s.OffloadTime},
	} {
		if err := strictjson.CheckSeconds(path+x.name, x.value); err != nil {
			return err
		}
	}
	if s.RecomputeTime > s.BackwardTime {
		return strictjson.Wrong(path+"recompute_time", "%v s are more than backward_time, %v s, of which they are a part", s.RecomputeTime,
			s.BackwardTime)
	}
	if s.WeightMemory > 0 {
		return strictjson.Wrong(path+"weight_memory", "%v is positive; W gives memory back, which is negative", unit.Bytes(s.WeightMemory))
	}
	for _, x := range [...]struct {
		name  string
		value float64
	}{
		{"forward_memory", s.ForwardMemory},
		{"backward_memory", math.Abs(s.BackwardMemory)},
		{"weight_memory", -s.WeightMemory},
		{"weight", s.Weight},
		{"overhead", s.Overhead},
		{"offload_memory", s.OffloadMemory},
	} {
		if err := strictjson.CheckSize(func() string { return path + x.name }, x.value, unit); err != nil {
			return err
		}
	}
	if s.OffloadMemory > s.ForwardMemory {
		return strictjson.Wrong(path+"offload_memory", "%v are more than forward_memory, %v, of which they are a part",
			unit.Bytes(s.OffloadMemory), unit.Bytes(s.ForwardMemory))
	}
	if sum := s.ForwardMemory + s.BackwardMemory + s.WeightMemory; sum != 0 {
		return strictjson.Wrong(path+"backward_memory", "forward, backward and weight change the memory by %v together; what the forward "+
			"takes the others give back, which is 0", unit.Bytes(sum))
	}
	return nil
}

// canonical returns the document that Write writes, sizes in bytes, -0 as 0, if p is
// valid.
func (p *Partition) canonical() (*file, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", strictjson.Title(Format, p.Name), err)
	}
	const plus = 0.0 // -0 + 0 is 0
	size := func(x float64) strictjson.Size { return strictjson.Bytes(p.Unit, x) }
	f := &file{
		Format: Format, Name: p.Name, CommunicationTime: p.CommunicationTime + plus, Runtime: p.Runtime,
		Stages: make([]fileStage, len(p.Stages)),
	}
	for i := range p.Stages {
		s := &p.Stages[i]
		forward, backward, taken, given := s.ForwardTime+plus, s.BackwardTime+plus, size(s.ForwardMemory), size(s.BackwardMemory)
		f.Stages[i] = fileStage{
			Name: s.Name, ForwardTime: &forward, BackwardTime: &backward, WeightTime: s.WeightTime + plus,
			ForwardMemory: &taken, BackwardMemory: &given, WeightMemory: size(s.WeightMemory), Weight: size(s.Weight),
			Overhead: size(s.Overhead), RecomputeTime: s.RecomputeTime + plus, OffloadMemory: size(s.OffloadMemory),
			OffloadTime: s.OffloadTime + plus,
		}
	}
	return f, nil
}

// Write writes p as a stages/v1 document, a line for each stage. p must be valid.
func (p *Partition) Write(w io.Writer) error {
	f, err := p.canonical()
	if err != nil {
		return err
	}
	out := strictjson.NewWriter(w, f.Format, f.Name, p.Extra)
	out.Member("communication_time", f.CommunicationTime)
	if f.Runtime != "" {
		out.Member("runtime", f.Runtime)
	}
	out.List("stages", len(f.Stages), func(i int) { out.Object(&f.Stages[i]) })
	return out.Close(p.Source)
}

// Digest returns the digest of the document, see [strictjson.Digest]. p must be valid.
func (p *Partition) Digest() (string, error) {
	return strictjson.Digest(p.canonical())
}
