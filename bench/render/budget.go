package render

import (
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"workbench/bench/solve"
	"workbench/model/platform"
)

// GPU says what a GPU goes to: "16 GiB = 9.1 GiB resident + 6.9 GiB for the plan".
func GPU(b *solve.Budget) string {
	if b.Memory <= 0 {
		return fmt.Sprintf("%s are %s less than what is resident and reserved, %s", platform.FormatBytes(b.GPU), platform.FormatBytes(-b.Memory),
			platform.FormatBytes(b.Resident()))
	}
	return fmt.Sprintf("%s = %s resident and reserved + %s for the plan", platform.FormatBytes(b.GPU), platform.FormatBytes(b.Resident()),
		platform.FormatBytes(b.Memory))
}

// Budget prints what the memory of a GPU goes to.
func Budget(w io.Writer, in *solve.Instance, r *solve.BudgetReport) {
	b := r.Budget
	fmt.Fprintf(w, "%s: %s\n\n", r.Instance, GPU(b))
	t := Table(w, table.Row{"of the GPU", "size", "share"}, 2, 3)
	for _, x := range []struct {
		name string
		size float64
	}{
		{"weights", b.Weights},
		{"gradients of weights", b.Gradients},
		{"optimizer state", b.Optimizer},
		{"inputs, buffers", b.Inputs},
		{"reserve", b.Reserve},
		{"left for the plan", max(0, b.Memory)},
	} {
		t.AppendRow(table.Row{x.name, platform.FormatBytes(x.size), Percent(x.size / b.GPU)})
	}
	t.Render()
	fmt.Fprintf(w, "\n%s needs %s at least, and %s to keep everything: %s\n", r.Problem, platform.FormatBytes(r.Least),
		platform.FormatBytes(r.Most), r.Fits(b.Memory))
	for _, x := range r.Optimizers {
		if x.Memory <= 0 {
			fmt.Fprintf(w, "with %-10s nothing for the plan: %s too little for the state\n", x.Name, platform.FormatBytes(-x.Memory))
			continue
		}
		fmt.Fprintf(w, "with %-10s %s for the plan: %s\n", x.Name, platform.FormatBytes(x.Memory), x.Fits)
	}
	switch {
	case r.LargestBatch > 0:
		fmt.Fprintf(w, "from a batch of %d on no plan is known to fit; this one is of %d (sizes of activations in proportion)\n",
			r.LargestBatch+1, r.Batch)
	case in.Graph() == nil && r.Batch > 0:
		fmt.Fprintln(w, "no batch fits")
	default:
		fmt.Fprintln(w, "the largest batch is known of chains and of graph/v2 that say theirs")
	}
}
