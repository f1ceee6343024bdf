package layout

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
)

// ErrCheck is wrapped by the errors of exports that are not read back as what was written.
var ErrCheck = errors.New("what is written is not read back")

// deepSpeedParts are the bounds in what [File.DeepSpeed] writes.
var deepSpeedParts = regexp.MustCompile(`self\.parts = (\[[\d,]*\])`)

// Check reads the text that has been written of f for a target, which is megatron, torchtitan, deepspeed or layout, and compares the
// number of layers of each stage, of layout everything. The error wraps [ErrCheck].
func (f *File) Check(target, text string) error {
	var cuts []int
	switch target {
	case "megatron":
		found := regexp.MustCompile(`"(.*)"`).FindStringSubmatch(text)
		if found == nil {
			return fmt.Errorf("%w: %q has no layout", ErrCheck, text)
		}
		stages, err := ReadMegatron(found[1])
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCheck, err)
		}
		for _, run := range stages {
			cuts = append(cuts, len(run))
		}
	case "torchtitan":
		var parts [][]string
		if err := json.Unmarshal([]byte(text), &parts); err != nil {
			return fmt.Errorf("%w: %w", ErrCheck, err)
		}
		for _, part := range parts {
			cuts = append(cuts, len(part))
		}
		if k := len(parts) - 1; k >= 0 && slices.Contains(parts[k], "norm") { // with output they are the last layer
			cuts[k]--
		}
	case "deepspeed":
		var bounds []int
		if found := deepSpeedParts.FindStringSubmatch(text); found == nil || json.Unmarshal([]byte(found[1]), &bounds) != nil {
			return fmt.Errorf("%w: there are no parts", ErrCheck)
		}
		for k := range len(bounds) - 1 {
			cuts = append(cuts, bounds[k+1]-bounds[k])
		}
	case "layout":
		back, err := Read([]byte(text), target)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCheck, err)
		}
		if !reflect.DeepEqual(back, f) {
			return fmt.Errorf("%w: layout/v1 has other values", ErrCheck)
		}
		cuts = back.Cuts
	}
	if !slices.Equal(cuts, f.Cuts) {
		return fmt.Errorf("%w: stages of %v layers; the layout has %v", ErrCheck, cuts, f.Cuts)
	}
	return nil
}
