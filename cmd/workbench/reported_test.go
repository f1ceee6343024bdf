package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// reported is an input on which an earlier version failed, and what is right.
type reported struct {
	name  string
	files map[string]string // name to content
	line  string            // @ is the folder of the files
	code  int
	want  []string // on either stream
}

// decimals are two buffers for which 100·0.29 is not 29 in float64.
var decimals = map[string]string{
	"decimals.json": `{"format":"workbench.lifetimes/v1","name":"decimals","buffers":[{"id":"a","lower":0,"upper":1,"size":0.29},{"id":"b","lower":0,"upper":1,"size":0.29}]}`,
	"plan.json":     `{"format":"workbench.plan/v1","problem":"placement","method":"by hand","instance":{"name":"decimals"},"platform":{"memory":0.58},"offsets":[{"id":"a","offset":0},{"id":"b","offset":0.29}],"ops":[]}`,
}

// timedChain is a chain of %s samples whose computations take %[2]s s each.
const timedChain = `{"format": "workbench.chain/v1", "name": "many-samples", "samples": %s, "input": {"activation": 1, "gradient": 1},
	"layers": [{"name": "l1", "forward_time": %[2]s, "backward_time": %[2]s, "activation": 1}]}`

// nothingSent are two stages with more fields.
const (
	nothingSent = `{"format": "workbench.stages/v1", "name": "nothing-sent", "communication_time": 0, "stages": [
		{"forward_time": 2, "backward_time": 4, "forward_memory": 1%s}, {"forward_time": 4, "backward_time": 4, "forward_memory": 4%s}]}`
	nothingSentFlags = "--problem flush --memory 5 --micro-batches 2 --placement interleaved --processors 1 --format json"
)

// replicasChain has the period 6 with two replicas of its first layer, which pipedream does not promise to find.
const (
	replicasChain = `{"format": "workbench.chain/v1", "name": "r2", "samples": 1, "input": {"activation": 0, "gradient": 0}, "layers": [
		{"name": "l1", "forward_time": 4, "backward_time": 1, "activation": 1, "gradient": 1, "weight": 0},
		{"name": "l2", "forward_time": 1, "backward_time": 5, "activation": 0, "gradient": 0, "weight": 1}]}`
	replicasFlags = "--problem pipeline --memory 1000 --bandwidth 0.2 --processors 3 --weight-copies 1 --replicas --time-limit 5s " +
		"--format json"
)

var reports = []reported{
	{
		"a placement in decimals", decimals, "solve --problem placement @decimals.json --memory 0.58", 0,
		[]string{"height      0.58 B", "optimal"},
	},
	{
		"its JSON", decimals, "solve --problem placement @decimals.json --memory 0.58 --format json", 0,
		[]string{`"objective": 0.58`, `"status": "optimal"`},
	},
	{"a plan in decimals", decimals, "verify @decimals.json @plan.json", 0, []string{"valid"}},
	{"a limit out of a computation", decimals, "solve --problem placement @decimals.json --memory 0.5799999999999999", 0, []string{"optimal"}},
	{
		"a short time and many samples",
		map[string]string{"many.json": fmt.Sprintf(timedChain, "9223372036854775807", "1e-295")},
		"solve --problem remat @many.json --memory 100 --format json", 2,
		[]string{"layers[0].forward_time: 1e-295 s is out of range"},
	},
	{
		"many samples",
		map[string]string{"many.json": fmt.Sprintf(timedChain, "9223372036854775807", "1e-60")},
		"solve --problem remat @many.json --memory 100 --format json", 0,
		[]string{`"optimal"`},
	},
	{
		"a long time",
		map[string]string{"many.json": fmt.Sprintf(timedChain, "1", "1e61")},
		"solve --problem remat-offload @many.json --memory 100", 2,
		[]string{"choose other units"},
	},
	{
		"times at the end of the range",
		map[string]string{"many.json": fmt.Sprintf(timedChain, "1", "4e59")},
		"solve --problem remat-offload @many.json --memory 100 --format json", 0,
		[]string{`"optimal"`},
	},
	{
		"a time of copies of nothing",
		map[string]string{
			"s.json": fmt.Sprintf(nothingSent, `, "offload_memory": 0, "offload_time": 1`, `, "offload_memory": 0, "offload_time": 2`),
		},
		"solve @s.json " + nothingSentFlags, 0,
		[]string{`"objective": 28,`},
	},
	{
		"no time of copies",
		map[string]string{"s.json": fmt.Sprintf(nothingSent, "", "")},
		"solve @s.json " + nothingSentFlags, 0,
		[]string{`"objective": 28,`},
	},
	{
		"replicas by pipedream, no minimum",
		map[string]string{"c.json": replicasChain},
		"solve @c.json --method pipedream " + replicasFlags, 0,
		[]string{`"status": "feasible"`},
	},
	{
		"a limit below", decimals, "solve --problem placement @decimals.json --memory 0.5799999999999", 3,
		[]string{"at least 0.58 bytes are needed"},
	},
}

func TestReported(t *testing.T) {
	for _, x := range reports {
		t.Run(x.name, func(t *testing.T) {
			folder := t.TempDir() + string(filepath.Separator)
			for name, content := range x.files {
				if err := os.WriteFile(folder+name, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out, failed bytes.Buffer
			code := runApp(t.Context(), strings.Fields("workbench "+strings.ReplaceAll(x.line, "@", folder)), strings.NewReader(""), &out, &failed)
			said := out.String() + failed.String()
			if code != x.code {
				t.Errorf("status %d, want %d:\n%s", code, x.code, said)
			}
			for _, want := range x.want {
				if !strings.Contains(said, want) {
					t.Errorf("no %q in\n%s", want, said)
				}
			}
		})
	}
}
