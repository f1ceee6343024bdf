// Package layout holds layouts of synchronous pipelines as files, and as training scripts are given them: the layout string of
// Megatron-LM, the lists of modules of torchtitan, and the parts of DeepSpeed.
package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Format names the file format.
const Format = "workbench.layout/v1"

// ErrFormat is wrapped by errors of files and strings, ErrTarget by those of layouts that a target cannot express.
var (
	ErrFormat = errors.New("no layout")
	ErrTarget = errors.New("layout cannot be written for this target")
)

// File is a layout/v1 document.
type File struct {
	Format       string     `json:"format"`
	Chain        string     `json:"chain"`
	Layers       []string   `json:"layers"`    // their names
	Cuts         []int      `json:"cuts"`      // number of layers of each stage
	Placement    []int      `json:"placement"` // GPU of each stage, from 0
	Options      []string   `json:"options"`   // what of each layer is computed again
	MicroBatches int        `json:"micro_batches"`
	Memory       float64    `json:"memory"` // bytes of a GPU
	Objective    string     `json:"objective"`
	Method       string     `json:"method"`
	Makespan     float64    `json:"makespan"`
	Span         float64    `json:"span"`
	PeakMemory   float64    `json:"peak_memory"`
	LayoutBound  float64    `json:"layout_bound,omitempty"` // no schedule of this layout is better
	Bound        float64    `json:"bound,omitempty"`        // no layout is better
	BoundBy      string     `json:"bound_by,omitempty"`
	Schedule     [][]string `json:"schedule"` // cells of torch.distributed.pipelining, by rank
}

// Write writes the document.
func (f *File) Write(w io.Writer) error {
	f.Format = Format
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

// Is reports whether data is meant to be a layout/v1 document.
func Is(data []byte) bool { return bytes.Contains(data[:min(len(data), 200)], []byte(Format)) }

// Read reads a layout/v1 document. Name is for errors.
func Read(data []byte, name string) (*File, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	f := &File{}
	if err := d.Decode(f); errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%w: %s: the file ends in the middle of a value: it is truncated", ErrFormat, name)
	} else if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFormat, name, err)
	}
	sum := 0
	for _, n := range f.Cuts {
		if n < 1 {
			return nil, fmt.Errorf("%w: %s: cuts: %d layers of a stage; it has one at least", ErrFormat, name, n)
		}
		sum += n
	}
	switch {
	case f.Format != Format:
		return nil, fmt.Errorf("%w: %s: format is %q, not %q", ErrFormat, name, f.Format, Format)
	case sum != len(f.Layers) || len(f.Options) != len(f.Layers):
		return nil, fmt.Errorf("%w: %s: %d layers in cuts and %d options of %d layers", ErrFormat, name, sum, len(f.Options), len(f.Layers))
	case len(f.Placement) != len(f.Cuts):
		return nil, fmt.Errorf("%w: %s: placement has %d stages, cuts %d", ErrFormat, name, len(f.Placement), len(f.Cuts))
	}
	return f, nil
}

// gpus returns how many GPUs there are.
func (f *File) gpus() int { return slices.Max(f.Placement) + 1 }

// interleaved reports whether stage i is on GPU i mod P, as Megatron places stages.
func (f *File) interleaved() bool {
	for i, g := range f.Placement {
		if g != i%f.gpus() {
			return false
		}
	}
	return true
}

// Megatron returns the value of --pipeline-model-parallel-layout: E for the first layer, t for each layer between, L for the last, stages
// parted by |. Options are written behind as flags of recomputation if all stages have the same; else the error wraps [ErrTarget] and says
// what would be one number for all. So does that for a placement that is not interleaved: the string has none.
func (f *File) Megatron() (layout string, flags []string, err error) {
	if !f.interleaved() {
		return "", nil, fmt.Errorf("%w: Megatron-LM places stage i on GPU i modulo %d, and the layout has them on %v; solve with --placement "+
			"straight or interleaved", ErrTarget, f.gpus(), f.Placement)
	}
	var stages []string
	at, n := 0, len(f.Layers)
	for _, layers := range f.Cuts {
		var b strings.Builder
		decoders := 0
		flush := func() {
			switch {
			case decoders == 1:
				b.WriteString("t")
			case decoders > 1:
				fmt.Fprintf(&b, "t*%d", decoders)
			}
			decoders = 0
		}
		for i := at; i < at+layers; i++ {
			switch {
			case i == 0:
				b.WriteString("E")
			case i == n-1:
				flush()
				b.WriteString("L")
			default:
				decoders++
			}
		}
		flush()
		stages = append(stages, b.String())
		at += layers
	}
	flags, err = f.recomputation()
	return strings.Join(stages, "|"), flags, err
}

// recomputed returns how many layers of each stage are recomputed, by the name of the option.
func (f *File) recomputed() map[string][]int {
	counts := map[string][]int{}
	at := 0
	for k, layers := range f.Cuts {
		for _, o := range f.Options[at : at+layers] {
			if counts[o] == nil {
				counts[o] = make([]int, len(f.Cuts))
			}
			counts[o][k]++
		}
		at += layers
	}
	delete(counts, "none")
	return counts
}

// blocksRecomputed reports whether every layer between the first and the last is recomputed in full. The error wraps [ErrTarget]
// where some layers are recomputed but not exactly these: the target has one setting, which it names, for the blocks of all stages.
func (f *File) blocksRecomputed(setting string) (bool, error) {
	counts := f.recomputed()
	if len(counts) == 0 {
		return false, nil
	}
	for i, o := range f.Options {
		want := "full"
		if i == 0 || i == len(f.Options)-1 {
			want = "none"
		}
		if o == want {
			continue
		}
		var list []string
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			list = append(list, fmt.Sprintf("%v (%s)", counts[name], name))
		}
		return false, fmt.Errorf("%w: the stages of %v layers recompute %s of them, and %s holds for all blocks, so that a run would need "+
			"other memory than the plan; plan for more memory until no layer is recomputed, or write --to layout and checkpoint the layers "+
			"that its options name", ErrTarget, f.Cuts, strings.Join(list, " and "), setting)
	}
	return true, nil
}

// recomputation returns Megatron's flags of recomputation, one number for all stages.
func (f *File) recomputation() ([]string, error) {
	counts := f.recomputed()
	switch {
	case len(counts) == 0:
		return nil, nil
	case len(counts) > 1:
		return nil, fmt.Errorf("%w: layers are computed again in several ways, and Megatron-LM has one --recompute-granularity", ErrTarget)
	}
	for name, n := range counts {
		most := slices.Max(n)
		switch {
		case name == "selective" && !slices.ContainsFunc(f.Cuts, func(layers int) bool { return layers > most+1 }):
			return []string{"--recompute-granularity", "selective"}, nil
		case name == "full" && slices.Min(n) == most:
			return []string{"--recompute-granularity", "full", "--recompute-method", "block", "--recompute-num-layers", strconv.Itoa(most)}, nil
		}
		return nil, fmt.Errorf("%w: the stages compute %v layers again (%s), and Megatron-LM has one number for all; %d on every stage fits "+
			"in memory", ErrTarget, n, name, most)
	}
	return nil, nil
}

var megatronStage = regexp.MustCompile(`^(?:[EtmL](?:\*\d+)?|\((?:[EtmL](?:\*\d+)?)+\)(?:\*\d+)?)*$`)

// ReadMegatron returns the stages of a layout string as runs of the letters E, t, m and L. Commas are ignored, a stage may
// be empty, x*N and
// (…)*N repeat. The error names the character that Megatron-LM refuses.
func ReadMegatron(text string) ([]string, error) {
	var stages []string
	at := 0
	for _, part := range strings.Split(strings.ReplaceAll(text, ",", ""), "|") {
		if !megatronStage.MatchString(part) {
			k := strings.IndexFunc(part, func(r rune) bool { return !strings.ContainsRune("EtmL*()0123456789", r) })
			if k < 0 {
				return nil, fmt.Errorf("%w: %q at character %d: %q does not repeat as x*N or (…)*N", ErrFormat, text, at+1, part)
			}
			return nil, fmt.Errorf("%w: %q: character %d is %q; there are E, t, m, L, | between stages and *N", ErrFormat, text, at+k+1, part[k:k+1])
		}
		run, err := expand(part)
		if err != nil {
			return nil, fmt.Errorf("%w: %q: %w", ErrFormat, text, err)
		}
		stages = append(stages, run)
		at += len(part) + 1
	}
	all := strings.Join(stages, "")
	switch {
	case strings.Count(all, "E") != 1 || !strings.HasPrefix(all, "E"):
		return nil, fmt.Errorf("%w: %q: one E, the embedding, comes first", ErrFormat, text)
	case strings.Count(all, "L") != 1 || !strings.HasSuffix(all, "L"):
		return nil, fmt.Errorf("%w: %q: one L, the loss, comes last", ErrFormat, text)
	}
	return stages, nil
}

// mostRepeats is beyond the layers of any network.
const mostRepeats = 1 << 14

// expand writes repeats out.
func expand(part string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(part); {
		unit, next := part[i:i+1], i+1
		if part[i] == '(' {
			end := i + strings.IndexByte(part[i:], ')')
			inner, err := expand(part[i+1 : end])
			if err != nil {
				return "", err
			}
			unit, next = inner, end+1
		}
		n := 1
		if next < len(part) && part[next] == '*' {
			end := next + 1
			for end < len(part) && part[end] >= '0' && part[end] <= '9' {
				end++
			}
			var err error
			if n, err = strconv.Atoi(part[next+1 : end]); err != nil || n > mostRepeats {
				return "", fmt.Errorf("*%s; from 0 to %d", part[next+1:end], mostRepeats)
			}
			next = end
		}
		b.WriteString(strings.Repeat(unit, n))
		i = next
	}
	return b.String(), nil
}

// Torchtitan returns module_fqns_per_model_part as JSON: the modules of each stage. The first layer is the embedding, the last the norm and
// the output, and those between are layers.0, layers.1 and so on. setting is what a job must set for the recomputation of the plan. The
// error wraps [ErrTarget] where torchtitan has no such setting.
func (f *File) Torchtitan() (text, setting string, err error) {
	full, err := f.blocksRecomputed("torchtitan's activation_checkpoint.mode")
	if err != nil {
		return "", "", err
	}
	if setting = `activation_checkpoint.mode = "none"`; full {
		setting = `activation_checkpoint.mode = "full"`
	}
	parts := make([][]string, len(f.Cuts))
	at, n := 0, len(f.Layers)
	for k, layers := range f.Cuts {
		for i := at; i < at+layers; i++ {
			switch i {
			case 0:
				parts[k] = append(parts[k], "tok_embeddings")
			case n - 1:
				parts[k] = append(parts[k], "norm", "output")
			default:
				parts[k] = append(parts[k], "layers."+strconv.Itoa(i-1))
			}
		}
		at += layers
	}
	data, err := json.Marshal(parts)
	return string(data), setting, err
}

// DeepSpeed returns a subclass of PipelineModule with the bounds of the parts. setting is what its constructor must be given for the
// recomputation of the plan. The error wraps [ErrTarget] if a GPU has several stages, or DeepSpeed has no such setting.
func (f *File) DeepSpeed() (text, setting string, err error) {
	if len(f.Cuts) != f.gpus() || !f.interleaved() {
		return "", "", fmt.Errorf("%w: DeepSpeed has one stage on each GPU, and the layout %d stages on %d; solve with --placement straight",
			ErrTarget, len(f.Cuts), f.gpus())
	}
	full, err := f.blocksRecomputed("DeepSpeed's activation_checkpoint_interval")
	if err != nil {
		return "", "", err
	}
	if setting = "activation_checkpoint_interval=0"; full {
		setting = "activation_checkpoint_interval=1, checkpointable_layers=[the class of the blocks]"
	}
	parts := []int{0}
	for _, n := range f.Cuts {
		parts = append(parts, parts[len(parts)-1]+n)
	}
	data, err := json.Marshal(parts)
	return fmt.Sprintf(`from deepspeed.pipe import PipelineModule


class Planned(PipelineModule):
    def _partition_layers(self, method="uniform"):
        self.parts = %s
        stage = self._topo.get_coord(self.global_rank).pipe
        self._set_bounds(start=self.parts[stage], stop=self.parts[stage + 1])
`, data), setting, err
}
