package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"workbench/bench/solve"
	"workbench/bench/solve/strategy"
	"workbench/model/platform"
)

// Strategies prints a ranking of strategies: what the step needs, a row a strategy, the bound
// under them and, where nothing fits, what would.
func Strategies(w io.Writer, r *strategy.Ranking, gpu string) {
	fmt.Fprintf(w, "%s: needs %s%s\n", r.Instance.Name, platform.FormatBytes(r.Activations+r.State), has(r, gpu))
	if r.GPUs > 0 {
		fmt.Fprintf(w, "  a step is %d times the instance: on %d GPUs as a pipeline, or as replicas that sum their gradients\n", r.MicroBatches,
			r.GPUs)
	}
	if r.Memory <= 0 {
		what := "shard it (FSDP, ZeRO) or use more GPUs (--gpus)"
		if r.GPUs > 0 {
			what = "no replica fits, pipelines divide it"
		}
		fmt.Fprintf(w, "  state (weights, gradients, optimizer, inputs): %s, %s too much for one GPU: %s\n", platform.FormatBytes(r.State),
			platform.FormatBytes(-r.Memory), what)
	}
	if r.Device != "" {
		note := ""
		if r.Budget != nil {
			note = "; --gpu sets memory and links only"
		}
		fmt.Fprintf(w, "  times are of %s%s\n", r.Device, note)
	}
	if len(r.Rows) > 0 {
		peak := "peak memory"
		if r.Budget != nil {
			peak = "peak with state"
		}
		t := Table(w, table.Row{"strategy", "step time", "", peak, "optimality gap"}, 2, 3, 4)
		for k := range r.Rows {
			t.AppendRow(strategyRow(&r.Rows[k], r))
		}
		t.Render()
	}
	for _, line := range remarks(r) {
		fmt.Fprintln(w, line)
	}
	if b := r.Bound; b != nil {
		fmt.Fprintf(w, "no plan of these strategies is faster than %s (%s)\n", platform.FormatSeconds(b.Value), b.Proof)
	}
	if r.Best() == nil && r.Memory > 0 {
		fmt.Fprintf(w, "a plan is known from %s of activations on; there are %s\n", platform.FormatBytes(r.Minimum),
			platform.FormatBytes(r.Memory))
		if r.ProvedMinimum > 0 {
			fmt.Fprintf(w, "proved: no plan of these strategies fits in less than %s\n", platform.FormatBytes(r.ProvedMinimum))
		}
		if r.LargestBatch > 0 {
			fmt.Fprintf(w, "largest batch with a known plan: %d (estimated, sizes in proportion to the batch)\n", r.LargestBatch)
		}
	}
}

// remarks says why strategies have no plan, and what those that move weights leave out.
func remarks(r *strategy.Ranking) (lines []string) {
	for _, row := range r.Rows {
		switch line := row.Strategy + ": " + row.Error; {
		case row.Status == solve.Failed:
			lines = append(lines, line)
		case row.StepTime != nil && row.MovesWeights():
			lines = append(lines, row.Strategy+
				": the host holds the weights and steps the optimizer, at no cost; no runtime here executes such plans")
		}
	}
	return lines
}

// has says what there is for the step.
func has(r *strategy.Ranking, gpu string) string {
	if r.Budget == nil {
		return fmt.Sprintf(", %s of them activations; there are %s for activations", platform.FormatBytes(r.Activations),
			platform.FormatBytes(r.Memory))
	}
	return fmt.Sprintf(" (%s activations, %s state); %s has %s (%s usable)", platform.FormatBytes(r.Activations),
		platform.FormatBytes(r.State),
		several(r)+gpu, platform.FormatBytes(r.Budget.GPU), platform.FormatBytes(r.Budget.GPU-r.Budget.Reserve))
}

// several counts GPUs before the name of one.
func several(r *strategy.Ranking) string {
	if r.GPUs == 0 {
		return ""
	}
	return fmt.Sprintf("each of %d × ", r.GPUs)
}

// strategyRow is a strategy as a row of the table. The gap is to the bound of the strategy's
// own problem.
func strategyRow(x *strategy.Row, r *strategy.Ranking) table.Row {
	if x.StepTime == nil {
		peak := "-"
		if x.Method == "store-all" {
			peak = platform.FormatBytes(r.Activations + residentState(x, r))
		}
		return table.Row{x.Strategy, "-", "", peak, why(x)}
	}
	gap := "-"
	switch {
	case x.Status == solve.Optimal:
		gap = "optimal (" + x.Problem + ")"
	case x.Gap != nil:
		gap = fmt.Sprintf("%.2g %%", 100**x.Gap)
	}
	return table.Row{
		x.Strategy, platform.FormatSeconds(*x.StepTime), fmt.Sprintf("%+.1f %%", 100**x.Slowdown),
		platform.FormatBytes(*x.Peak + residentState(x, r)), gap,
	}
}

// residentState returns the state that is resident in addition to the peak of a plan, 0 where the memory of activations was given
// or the plan contains the state.
func residentState(x *strategy.Row, r *strategy.Ranking) float64 {
	if r.Budget == nil || x.Memory != r.Memory {
		return 0
	}
	return r.State
}

// why says in a few words why a strategy has no plan.
func why(x *strategy.Row) string {
	switch {
	case x.Status == solve.Infeasible:
		return "does not fit (proved)"
	case strings.Contains(x.Error, "needs"):
		return "does not fit"
	case x.Status == solve.Limit:
		return "no plan found in time"
	}
	return "not for this instance (below)"
}
