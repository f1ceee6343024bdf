package main

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"workbench/model/instance/join"
	"workbench/model/instance/lifetimes"
	"workbench/model/instance/stages"
	"workbench/model/platform"
	"workbench/model/problem/flush"
	"workbench/model/problem/pipeline"
	"workbench/model/problem/rematgraph"
	"workbench/model/strictjson"
)

// TestLimitsInDocuments compares the table of limits in docs/files.md with the program.
func TestLimitsInDocuments(t *testing.T) {
	page, err := os.ReadFile("../../docs/files.md")
	if err != nil {
		t.Fatal(err)
	}
	for what, limit := range map[string]string{
		"sum of all sizes, in units of the last decimal":               fmt.Sprintf("below %g", float64(platform.MaxTotal)),
		"decimals of a size":                                           fmt.Sprint(platform.FinestUnit),
		"shortest time above 0, seconds":                               fmt.Sprintf("%g", platform.MinTime),
		"longest time, seconds":                                        fmt.Sprintf("%g", platform.MaxTime),
		"instance file, bytes":                                         fmt.Sprint(strictjson.MostBytes),
		"nodes or storages of a graph for `remat` and `remat-offload`": fmt.Sprint(rematgraph.Most),
		"computations of a plan of a graph":                            fmt.Sprint(rematgraph.MostComputations),
		"layers of a chain for `pipeline`":                             fmt.Sprint(pipeline.MostLayers),
		"stages":                                                       fmt.Sprint(stages.MostStages),
		"micro-batches":                                                fmt.Sprint(stages.MostMicroBatches),
		"operations of a synchronous pipeline":                         fmt.Sprint(flush.MostOperations),
		"forwards of a join":                                           fmt.Sprint(join.MaxLength),
		"largest time of a buffer in `lifetimes`":                      fmt.Sprint(int64(lifetimes.MaxInstant)),
	} {
		if row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(what) + ` \| ` + regexp.QuoteMeta(limit) + ` \|$`); !row.Match(page) {
			t.Errorf("docs/files.md has no row | %s | %s |", what, limit)
		}
	}
}
