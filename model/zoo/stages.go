package zoo

import (
	"fmt"
	"strconv"
	"strings"

	"workbench/model/instance/stages"
)

// Defaults of LoadStages: half of the backward, in time and memory, is that of the weights, and links have 12
// GB/s.
const (
	weightShare     = 0.5
	stagesBandwidth = 12e9
	stagesCopies    = 3 // weights, gradients and the momentum of an optimizer
	defaultStages   = 4
)

// LoadStages returns the chain of "zoo:NAME?stages=4&key=value&…" cut into that many stages: [stages.Cut].
func LoadStages(spec string) (*stages.Partition, error) {
	head, query, _ := strings.Cut(spec, "?")
	stageCount, rest := defaultStages, []string(nil)
	for pair := range strings.SplitSeq(query, "&") {
		word, ok := strings.CutPrefix(pair, "stages=")
		if !ok {
			if pair != "" {
				rest = append(rest, pair)
			}
			continue
		}
		var err error
		if stageCount, err = strconv.Atoi(word); err != nil {
			return nil, fmt.Errorf("%s: stages=%s: an integer is needed", head, word)
		}
	}
	if len(rest) > 0 {
		head += "?" + strings.Join(rest, "&")
	}
	c, err := Load(head)
	if err != nil {
		return nil, err
	}
	p, err := stages.Cut(c, stages.Cutting{
		Stages: stageCount, Weight: weightShare, WeightMemory: weightShare, Bandwidth: stagesBandwidth, Copies: stagesCopies,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", spec, err)
	}
	return p, nil
}
